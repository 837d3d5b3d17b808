//! Seams that lie: what breaks the engine for a [`Variant`](crate::variant::Variant).
//!
//! Owns one wrapper for each seam. Does not own which variant tells which lie, and in which plan it can show itself (`sim::variant`). Each
//! wrapper passes everything on but for the one lie of its variant.

mod clock;
mod ends;
mod items;
mod replays;
mod sessions;
mod source;
mod step;
mod store;
mod table;
mod unread;
mod versions;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Runtime, Task};
use futures::future::BoxFuture;

pub use clock::{Hidden, LyingClock, LyingTime};
pub use ends::LyingEnd;
pub use items::WholeRecord;
pub use replays::ForgetfulStore;
pub use sessions::TornSessions;
pub use source::{LyingDecoder, LyingSource};
pub use step::LyingStep;
pub use store::LyingStore;
pub use table::{LyingRouter, LyingTable};
pub use unread::UnreadStore;
pub use versions::LyingVersions;
pub use windows::LyingWindow;

/// A runtime whose random numbers are not.
pub struct LyingRuntime(pub Arc<dyn Runtime>);

impl Runtime for LyingRuntime {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        self.0.begin_ms()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        self.0.spawn(name, task)
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.0.compute_threads()
    }

    fn random(&self) -> u128 {
        4
    }
}
