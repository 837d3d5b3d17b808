//! Futures on tasks of their own, and timers that may not be set.
//!
//! Owns nothing but these two helpers. Does not own what runs (the callers) or the tasks themselves (`Runtime`).

use std::future::Future;
use std::sync::Arc;

use dataflow::Runtime;
use futures::future::BoxFuture;

use crate::EngineError;

/// Runs a future on a task of its own, so that the sides of a lane use several cores; ends it when dropped.
///
/// # Errors
/// As the future, and [`EngineError::Internal`] if its task is gone.
pub async fn on_a_task<T: Send + 'static>(
    runtime: &Arc<dyn Runtime>,
    name: &'static str,
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    let (done, result) = futures::channel::oneshot::channel();
    let task = async move {
        // Nobody listens any more when another task has failed.
        let _ = done.send(work.await);
    };
    let _task = runtime.spawn(name, Box::pin(task));
    result.await.map_err(|_| EngineError::Internal(name))?
}

/// Ends with the timer; never, if there is none.
pub async fn until(timer: &mut Option<BoxFuture<'static, ()>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}
