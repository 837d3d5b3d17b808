//! Which frames may be sent now, and how far a table is settled.
//!
//! Owns the send window: frame `n` may be sent only while `n < recorded frontier + W`, so that after a crash at most W
//! frames are in doubt and all later ones are provably unsent (C8), and only once its seal is durable (C2), which is given
//! since frames come from the folded lane. While no insert is answered the owner records which of the W it has let out at all. Does
//! not own sockets or the order of attempts within the window.

use std::collections::BTreeSet;

use crate::lane::TableState;
use crate::record::Frontier;

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
    first_unsent(table.frontier, table.window, table.sent_below).min(table.next_ordinal)
}

/// True if no frame of the table was ever allowed to be sent: rows in the table came from somewhere else.
pub fn is_untouched(table: &TableState) -> bool {
    table.frontier == 0 && first_unsent(table.frontier, table.window, table.sent_below) == 0
}

/// The same, once `frontier` is recorded.
pub fn limit_with(table: &TableState, frontier: &Frontier) -> u64 {
    first_unsent(frontier.frontier, frontier.window, frontier.sent_below).min(table.next_ordinal)
}

fn first_unsent(frontier: u64, window: u64, sent_below: Option<u64>) -> u64 {
    frontier.saturating_add(window).min(sent_below.unwrap_or(u64::MAX))
}

/// How far frames of a table are recorded as settled, may be sent, and are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The recorded frontier.
    pub recorded: u64,
    /// The first ordinal that may not be sent yet.
    pub limit: u64,
    /// The first ordinal that is not sealed yet.
    pub next_ordinal: u64,
}

impl Reach {
    /// That of a table as the journal has it.
    pub fn of(table: &TableState) -> Self {
        Self { recorded: table.frontier, limit: send_limit(table), next_ordinal: table.next_ordinal }
    }

    /// True if the frontier must be recorded now: every frame that may be sent is settled and there are more, or all are settled and no
    /// more will come. Otherwise it is recorded once in a while, and with each seal.
    pub fn must_record(&self, settled: &Settled, is_closing: bool) -> bool {
        let is_blocked = self.limit < self.next_ordinal && settled.frontier() >= self.limit;
        let is_last = is_closing && settled.frontier() == self.next_ordinal;
        settled.frontier() > self.recorded && (is_blocked || is_last)
    }
}

/// True if a frame may have been sent by an earlier owner.
pub fn is_doubtful(table: &TableState, ordinal: u64) -> bool {
    ordinal < first_unsent(table.frontier, table.window, table.sent_below)
}

/// The limit to record with `frontier` while no insert is answered, at and above which no frame was sent: `let_out` is the first ordinal that
/// this owner has not allowed to be sent and that no earlier owner can have sent; `free` more may be sent beside those under way, because one
/// stuck frame must not hold up the others.
pub fn sent_below(frontier: u64, let_out: u64, free: u64) -> u64 {
    let_out.max(frontier).saturating_add(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_window_never_makes_a_frame_that_may_have_been_sent_pass_for_unsent() {
        let table = |frontier, window, next_ordinal| TableState {
            frontier,
            window,
            next_ordinal,
            ..TableState::default()
        };
        // 10 to 73 may have been sent; 12 of W 4 would end at 16.
        assert_eq!(recorded(&table(10, 64, 200), 12, 4), 62);
        assert_eq!(recorded(&table(10, 64, 200), 72, 4), 4);
        // Frames that did not exist were not sent.
        assert_eq!(recorded(&table(10, 64, 20), 12, 4), 8);
        assert_eq!(recorded(&table(10, 4, 200), 12, 64), 64);
    }

    #[test]
    fn while_no_insert_is_answered_only_frames_that_were_let_out_are_doubtful() {
        let mut table = TableState { frontier: 10, window: 64, next_ordinal: 200, ..TableState::default() };
        assert_eq!((send_limit(&table), is_doubtful(&table, 73), is_doubtful(&table, 74)), (74, true, false));
        table.sent_below = Some(sent_below(10, 12, 0));
        assert_eq!((send_limit(&table), is_doubtful(&table, 11), is_doubtful(&table, 12)), (12, true, false));
        // Settled frames were sent, and a stuck one leaves room for others.
        assert_eq!((sent_below(13, 12, 0), sent_below(10, 11, 1)), (13, 12));
    }

    #[test]
    fn the_frontier_is_recorded_at_once_only_where_something_waits_for_it() {
        let table = TableState { frontier: 10, window: 4, next_ordinal: 20, ..TableState::default() };
        let reach = Reach::of(&table);
        assert_eq!(reach, Reach { recorded: 10, limit: 14, next_ordinal: 20 });
        for (settled, is_closing, must) in [
            (10, false, false),
            // Others may still be sent.
            (13, true, false),
            (14, false, true),
            (16, false, true),
        ] {
            assert_eq!(reach.must_record(&Settled::at(settled), is_closing), must, "{settled}");
        }
        // Nothing is left to send.
        let all = Reach { next_ordinal: 14, ..reach };
        assert!(!all.must_record(&Settled::at(14), false) && all.must_record(&Settled::at(14), true));
        assert!(!all.must_record(&Settled::at(13), true));
        assert!(!Reach { recorded: 14, ..all }.must_record(&Settled::at(14), true));
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
