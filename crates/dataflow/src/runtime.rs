//! The one seam to time, randomness and threads.
//!
//! Owns the trait. Does not own a clock or threads: `engine::runtime` is the real implementation, and a simulation has its own. Code on the
//! data's path takes an `Arc<dyn Runtime>` and so runs the same in both.

use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};

/// A spawned task; dropping it ends the task at its next await.
pub struct Task {
    abort: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Task {
    /// A task that `abort` ends.
    pub fn new(abort: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { abort: Some(Box::new(abort)) }
    }

    /// Lets the task run on without this handle.
    pub fn detach(mut self) {
        self.abort = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(abort) = self.abort.take() {
            abort();
        }
    }
}

/// Clock, sleep, spawn, compute, randomness.
pub trait Runtime: Send + Sync {
    /// The wall clock in Unix milliseconds. For timestamps that users and other machines read; it may jump.
    fn wall_ms(&self) -> i64;

    /// Time since some fixed moment; never goes back. For ages, back-off and bounds.
    fn elapsed(&self) -> Duration;

    /// What the wall clock showed at that moment, Unix milliseconds: read once in a process, so that it never moves.
    fn begin_ms(&self) -> i64;

    /// The wall clock as it was at the beginning, and from then on without the steps of a clock that is set, Unix milliseconds. For
    /// times that outlive the process and are subtracted from each other.
    fn steady_ms(&self) -> i64 {
        self.begin_ms().saturating_add(i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// Waits.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// Starts a task.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task;

    /// Runs a job that computes and never waits, on a thread kept for such jobs.
    fn compute(&self, job: Box<dyn FnOnce() + Send>);

    /// Threads for [`compute`](Self::compute); at least 1.
    fn compute_threads(&self) -> usize;

    /// CPU time that the calling thread has used so far. Zero where it is not measured, as in a simulation.
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }

    /// 128 random bits.
    fn random(&self) -> u128;
}

impl dyn Runtime {
    /// Runs `job` by [`compute`](Runtime::compute) and hands back its result; `None` if it panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'static, Option<T>> {
        let (done, result) = oneshot::channel();
        self.compute(Box::new(move || {
            // The receiver may have been dropped, when a lane is stopped while it computes; then nothing needs the result.
            let _ = done.send(job());
        }));
        Box::pin(async move { result.await.ok() })
    }

    /// `future`, or `None` after `time`.
    pub async fn timeout<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        let future = std::pin::pin!(future);
        match select(future, self.sleep(time)).await {
            Either::Left((value, _)) => Some(value),
            Either::Right(((), _)) => None,
        }
    }
}
