//! How long to wait at the end of a log before the next look.
//!
//! Owns the pauses, by when records came before. Does not own who waits (`log::reader`).
//!
//! | since records came last …                        | the pause                                                      |
//! |--------------------------------------------------|----------------------------------------------------------------|
//! | as long as twice the time before that, or shorter | until three fourths of that time have passed, then a fourth of it: an owner under load commits evenly |
//! | longer, or nobody knows, or they come more rarely | twice the pause before it, from the shortest to the longest    |

use std::time::Duration;

/// A record that comes is seen after the shortest if others came just before, and after the longest if all was quiet. Each costs one small read.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When records came, and the pauses since.
#[derive(Debug)]
pub(super) struct Pace {
    /// When they came last, after a look that had found nothing.
    came_at: Option<Duration>,
    /// How long after those before, if that is known and short enough to look more often.
    every: Option<Duration>,
    pause: Duration,
    /// A look has found nothing since.
    is_at_end: bool,
}

impl Pace {
    /// Nothing came yet.
    pub(super) fn new() -> Self {
        Self { came_at: None, every: None, pause: PAUSE_MIN, is_at_end: false }
    }

    /// Records came.
    pub(super) fn came(&mut self, now: Duration) {
        // Those of one commit come one after the other.
        if self.is_at_end || self.came_at.is_none() {
            let every = self.came_at.map(|before| now.saturating_sub(before));
            self.every = every.filter(|every| *every <= PAUSE_MAX);
            self.came_at = Some(now);
        }
        (self.pause, self.is_at_end) = (PAUSE_MIN, false);
    }

    /// A look has found nothing: how long to wait until the next one.
    pub(super) fn pause(&mut self, now: Duration) -> Duration {
        let is_first = !std::mem::replace(&mut self.is_at_end, true);
        let waited = self.came_at.map_or(Duration::MAX, |at| now.saturating_sub(at));
        let is_steady = |every: &Duration| waited <= *every * 2;
        if let Some(every) = self.every.filter(is_steady) {
            self.pause = (every / 4).max(PAUSE_MIN);
            return match is_first {
                true => (every * 3 / 4).saturating_sub(waited).max(self.pause),
                false => self.pause,
            };
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

#[cfg(test)]
mod tests;
