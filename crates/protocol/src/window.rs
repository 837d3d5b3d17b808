//! Which frames may be sent now, and how far a table is settled.
//!
//! Owns the send window: frame `n` may be sent only while `n < recorded frontier + W`, so that after a crash at most W
//! frames are in doubt and all later ones are provably unsent (C8), and only once its seal is durable (C2), which is given
//! since frames come from the folded lane. Does not own sockets or the order of attempts within the window.

use std::collections::BTreeSet;

use crate::doubt::trusted_tokens;
use crate::lane::TableState;

/// W from what the table remembers: half of the tokens, so that a resend finds its own among those of another W frames.
/// At least 1, at most `frames_max` (the user's bound on frames in doubt).
pub fn frames(token_window: u64, parts_per_frame: u64, frames_max: u64) -> u64 {
    (trusted_tokens(token_window) / parts_per_frame.max(1)).clamp(1, frames_max.max(1))
}

/// The W to record with `frontier`: never so small that a frame below the limit recorded last falls out of it, for that
/// frame may have been sent. A table that remembers less from now on therefore gets its smaller W frame by frame.
pub fn recorded(table: &TableState, frontier: u64, frames: u64) -> u64 {
    frames.max(send_limit(table).saturating_sub(frontier))
}

/// The settled frames of one table, as far as answers have come in.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    frontier: u64,
    above: BTreeSet<u64>,
}

impl Settled {
    /// Everything below `frontier` is settled.
    pub fn at(frontier: u64) -> Self {
        Self { frontier, above: BTreeSet::new() }
    }

    /// Frame `ordinal` is positively answered or proven present. The frontier never passes a hole (C4).
    pub fn settle(&mut self, ordinal: u64) {
        if ordinal >= self.frontier {
            self.above.insert(ordinal);
        }
        while self.above.remove(&self.frontier) {
            self.frontier += 1;
        }
    }

    /// True if the frame is settled.
    pub fn contains(&self, ordinal: u64) -> bool {
        ordinal < self.frontier || self.above.contains(&ordinal)
    }

    /// The first ordinal that is not settled.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Frames settled beyond the first hole, at most a window full.
    pub fn above(&self) -> Vec<u64> {
        self.above.iter().copied().collect()
    }
}

/// The first ordinal that may not be sent yet.
pub fn send_limit(table: &TableState) -> u64 {
    table.frontier.saturating_add(table.window).min(table.next_ordinal)
}

/// True if a frontier must be recorded now for frames to be sent at all: there are frames beyond the limit, and recording
/// what is settled would move it.
pub fn is_blocked(table: &TableState, settled: &Settled) -> bool {
    send_limit(table) < table.next_ordinal && settled.frontier() > table.frontier
}

/// True if a frame may have been sent by an owner that is gone.
pub fn is_doubtful(table: &TableState, ordinal: u64) -> bool {
    ordinal < table.frontier.saturating_add(table.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_half_of_what_the_table_remembers() {
        assert_eq!(frames(100, 1, 64), 50);
        assert_eq!(frames(10_000, 1, 64), 64);
        assert_eq!(frames(100, 10, 64), 5);
        assert_eq!(frames(1, 1, 64), 1);
    }

    #[test]
    fn a_smaller_window_never_makes_a_frame_that_may_have_been_sent_pass_for_unsent() {
        let table = |frontier, window, next_ordinal| TableState {
            name: "d.t".into(),
            frontier,
            window,
            next_ordinal,
            server: None,
            pending: std::collections::VecDeque::new(),
            accepted_uuid: String::new(),
        };
        // 10 to 73 may have been sent; 12 of W 4 would end at 16.
        assert_eq!(recorded(&table(10, 64, 200), 12, 4), 62);
        assert_eq!(recorded(&table(10, 64, 200), 72, 4), 4);
        // Frames that did not exist were not sent.
        assert_eq!(recorded(&table(10, 64, 20), 12, 4), 8);
        assert_eq!(recorded(&table(10, 4, 200), 12, 64), 64);
    }

    #[test]
    fn the_frontier_never_passes_a_hole() {
        let mut settled = Settled::at(5);
        settled.settle(6);
        settled.settle(7);
        assert_eq!(settled.frontier(), 5);
        assert!(settled.contains(7) && !settled.contains(5));
        settled.settle(5);
        assert_eq!(settled.frontier(), 8);
        settled.settle(2);
        assert_eq!(settled.frontier(), 8);
    }
}
