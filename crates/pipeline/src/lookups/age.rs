//! How old an answer is.
//!
//! Owns the two clocks by which that is measured. Does not own how old an answer may be (`lookups`, `lookups::keyed`).
//!
//! | since the answer …           | the steady clock | the wall clock | the age is                                      |
//! |------------------------------|------------------|----------------|-------------------------------------------------|
//! | the machine was suspended    | stood still      | went on        | that of the wall clock                          |
//! | the wall clock was set back  | went on          | is behind      | that of the steady clock                        |
//! | the wall clock was set ahead | went on          | is ahead       | too great: the other side is asked once too often |

use std::time::Duration;

use dataflow::Runtime;

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// [`Runtime::elapsed`], which may stand still while the machine is suspended.
    pub elapsed: Duration,
    /// [`Runtime::wall_ms`], which may be set.
    pub wall_ms: i64,
}

impl Moment {
    /// This one.
    pub fn now(runtime: &dyn Runtime) -> Self {
        Self { elapsed: runtime.elapsed(), wall_ms: runtime.wall_ms() }
    }

    /// How long ago it was at `now`, by the clock that went further.
    pub fn age(self, now: Self) -> Duration {
        let by_wall = now.wall_ms.saturating_sub(self.wall_ms).max(0).unsigned_abs();
        now.elapsed.saturating_sub(self.elapsed).max(Duration::from_millis(by_wall))
    }
}

#[cfg(test)]
mod tests;
