//! Calls that block, away from the async threads.
//!
//! Owns the starting of every thread of a source, and what is said when one ends without an answer. Does not own how long a call may hang
//! (its caller).

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use dataflow::{SourceError, SourceFault};
use futures::channel::oneshot;

/// Starts a thread that lives as long as what it works for.
pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), SourceError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| not_started(name, &error))
}

/// Starts a thread that ends within `scope`.
pub(crate) fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, SourceError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, run);
    thread.map_err(|error| not_started(name, &error))
}

/// What a thread of [`start_in`] gives.
pub(crate) fn end<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T, SourceError> {
    thread.join().map_err(|_| SourceError::new(SourceFault::Away, "a thread ended without an answer"))
}

fn not_started(name: &str, error: &std::io::Error) -> SourceError {
    SourceError::new(SourceFault::Away, format!("cannot start thread `{name}`: {error}"))
}

/// Waits on a thread that only works for one caller.
pub(crate) fn pause(time: Duration) {
    let nobody = Mutex::new(());
    let held = nobody.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody wakes it, so it ends with the time.
    drop(Condvar::new().wait_timeout_while(held, time, |()| true));
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
