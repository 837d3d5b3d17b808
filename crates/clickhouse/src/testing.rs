//! What this crate's unit tests run on: tokio's real clock and threads, and a gate. Built for tests alone.
//!
//! Owns these two stand-ins for the engine's parts. Does not own a server: unit tests answer from a listener of their own, and
//! `tests/live.rs` starts ClickHouse by `testkit`.
#![allow(clippy::disallowed_methods, reason = "tests run in real time")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use dataflow::{Gate, Runtime, Task};
use futures::future::BoxFuture;

/// Tokio's clock and threads.
pub struct RealTime(Instant);

impl RealTime {
    pub fn shared() -> Arc<dyn Runtime> {
        Arc::new(Self(Instant::now()))
    }
}

impl Runtime for RealTime {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
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
        job();
    }

    fn compute_threads(&self) -> usize {
        1
    }

    fn random(&self) -> u128 {
        4
    }
}

/// A gate that is open or shut.
pub struct Fixed(pub bool);

#[async_trait]
impl Gate for Fixed {
    async fn may_complete(&self) -> bool {
        self.0
    }
}
