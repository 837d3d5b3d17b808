//! How many tokens the polls of a table found that it remembers.
//!
//! Owns the memory of the last number, and of when it last became smaller. Does not own what follows from that (`tokens::trust`).

use std::sync::{Mutex, PoisonError};

/// The newest number of tokens, and when a poll last found fewer than the one before.
#[derive(Debug)]
pub(super) struct Remembered(Mutex<(u64, i64)>);

impl Remembered {
    /// After the first poll.
    pub(super) fn new(tokens: u64) -> Self {
        Self(Mutex::new((tokens, 0)))
    }

    /// After a poll that ended at `now_ms`, whatever else it found.
    pub(super) fn see(&self, tokens: u64, now_ms: i64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let narrowed_ms = if tokens < seen.0 { now_ms } else { seen.1 };
        *seen = (tokens, narrowed_ms);
    }

    /// When the number last became smaller, by the clock of [`see`](Self::see); 0 if it never did.
    pub(super) fn narrowed_ms(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}
