//! What the polls of a table found that it remembers of tokens.
//!
//! Owns the newest finding, and when one was last less than the one before. Does not own what follows from that (`tokens::trust`).

use std::sync::{Mutex, PoisonError};

use crate::checks::Memory;

/// The newest finding, and when a poll last found less than the one before: fewer tokens, or for a shorter time.
#[derive(Debug)]
pub(super) struct Remembered(Mutex<(Memory, i64)>);

impl Remembered {
    /// After the first poll.
    pub(super) fn new(memory: Memory) -> Self {
        Self(Mutex::new((memory, 0)))
    }

    /// After a poll that ended at `now_ms`, whatever else it found.
    pub(super) fn see(&self, memory: Memory, now_ms: i64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_less = memory.window < seen.0.window || memory.age_ms < seen.0.age_ms;
        *seen = (memory, if is_less { now_ms } else { seen.1 });
    }

    /// When there was less last, by the clock of [`see`](Self::see); 0 if there never was.
    pub(super) fn narrowed_ms(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_tokens_and_a_shorter_time_are_less_and_more_is_not() {
        let of = |window, age_ms| Memory { window, age_ms };
        let remembered = Remembered::new(of(100, 1_000));
        for (memory, now_ms, narrowed_ms) in [
            (of(100, 1_000), 1, 0),
            (of(0, 1_000), 2, 2),
            (of(100, 1_000), 3, 2),
            (of(200, 500), 4, 4),
            (of(200, 5_000), 5, 4),
        ] {
            remembered.see(memory, now_ms);
            assert_eq!(remembered.narrowed_ms(), narrowed_ms, "at {now_ms}");
        }
    }
}
