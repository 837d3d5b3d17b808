//! For how long nothing was read because what is behind has no room.
//!
//! Owns the metric. Does not own the bounds that make the lane wait: those of the spool, and of the cuts that may be under way.

use std::time::Duration;

use metrics::gauge;

/// Back-pressure of a lane on its sources.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// Since when the spool has been full.
    full_since: Option<Duration>,
}

impl Pressure {
    /// The lane takes its next turn, with a full spool or not.
    pub(super) fn turn(&mut self, now: Duration, is_full: bool) {
        let since = std::mem::replace(&mut self.full_since, is_full.then_some(now));
        self.waited(since.map_or(Duration::ZERO, |since| now.saturating_sub(since)));
    }

    /// The lane has waited for so long for a seal to take its cut.
    pub(super) fn waited(&mut self, time: Duration) {
        // A channel with room takes microseconds, which are no pressure.
        gauge!("forebay_backpressure_seconds").increment(time.as_secs_f64());
    }
}
