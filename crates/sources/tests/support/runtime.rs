//! A runtime for this crate's tests: tokio's clock and threads.
//!
//! Owns that alone. Does not own a clock that can be moved: these tests run in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dataflow::{Runtime, Task};
use futures::future::BoxFuture;

pub struct TestRuntime {
    began: Instant,
}

#[allow(clippy::disallowed_methods, reason = "the seam itself, for tests")]
impl TestRuntime {
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

#[allow(clippy::disallowed_methods, reason = "the seam itself, for tests")]
impl Runtime for TestRuntime {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock stands after 1970").as_millis() as i64
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        0
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let handle = tokio::spawn(task);
        Task::new(move || handle.abort())
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(job);
    }

    fn compute_threads(&self) -> usize {
        2
    }

    fn random(&self) -> u128 {
        u128::from(self.began.elapsed().subsec_nanos())
    }
}
