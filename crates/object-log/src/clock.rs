//! The log's time, as one owner tells it.
//!
//! Owns that it goes on: it follows the wall clock, never goes back, and while the wall clock is behind the newest stamp, it passes as the
//! process's own time does. So a clock that was ahead once moves the log's time ahead for good, and then ages grow as before. Does not own what is
//! stamped (`root`), nor what an age decides (`decide`).
//!
//! | the wall clock           | the log's time                                     |
//! |--------------------------|----------------------------------------------------|
//! | goes on                  | is the wall clock                                  |
//! | jumps ahead              | jumps with it: what was committed before looks older |
//! | goes back, or is behind  | goes on from where it was                          |
//! | of the next owner, behind the newest stamp | goes on from that stamp, from the claim on |

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::Runtime;

/// The time of a log. Clones are the same clock.
#[derive(Clone)]
pub struct Clock {
    runtime: Arc<dyn Runtime>,
    /// A time of the log, Unix milliseconds, and what the process's own time was then. Moved only when time has jumped ahead of it, so no
    /// fraction of a millisecond is lost again and again.
    since: Arc<Mutex<(i64, Duration)>>,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

impl Clock {
    /// A clock that has seen no stamp.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let since = Arc::new(Mutex::new((i64::MIN, runtime.elapsed())));
        Self { runtime, since }
    }

    /// The log's time now, Unix milliseconds. Never earlier than it was.
    pub fn now_ms(&self) -> i64 {
        self.reached(self.runtime.wall_ms())
    }

    /// The log's time now, which is not before `stamp_ms`: the log has it.
    pub fn behind(&self, stamp_ms: i64) -> i64 {
        self.reached(self.runtime.wall_ms().max(stamp_ms))
    }

    fn reached(&self, at_least_ms: i64) -> i64 {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.runtime.elapsed();
        let passed = elapsed.saturating_sub(since.1).as_millis();
        let now_ms = since.0.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        if at_least_ms <= now_ms {
            return now_ms;
        }
        *since = (at_least_ms, elapsed);
        at_least_ms
    }
}

#[cfg(test)]
mod tests;
