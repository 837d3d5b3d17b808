//! Calls that block, away from the async threads.

use dataflow::{SourceError, SourceFault};
use futures::channel::oneshot;

/// Starts a thread that lives as long as what it works for.
pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), SourceError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| {
        SourceError::new(SourceFault::Away, format!("cannot start thread `{name}`: {error}"))
    })
}

/// Runs calls that may hang (a network disk, a broker) on a thread of their own.
pub(crate) async fn run<T: Send + 'static>(
    name: &'static str,
    job: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let (done, result) = oneshot::channel();
    start(name, move || {
        // Whoever asked may have stopped waiting.
        let _ = done.send(job());
    })?;
    let ended = || SourceError::new(SourceFault::Away, format!("thread `{name}` ended without an answer"));
    result.await.unwrap_or_else(|_| Err(ended()))
}
