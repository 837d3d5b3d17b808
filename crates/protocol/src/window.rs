//! Which frames may be sent now, and how far a table is settled.
//!
//! Owns the send window: frame `n` may be sent only while `n < recorded frontier + W`, so that after a crash at most W
//! frames are in doubt and all later ones are provably unsent (C8), and only once its seal is durable (C2), which is given
//! since frames come from the folded lane. While no insert is answered the owner records which of the W it has let out at all. Does
//! not own sockets or the order of attempts within the window.

use std::collections::BTreeSet;

use crate::doubt::trusted_tokens;
use crate::lane::TableState;
use crate::record::Frontier;

/// Of the tokens within which a resend is trusted, our own frames in doubt may use one in so many. The rest is for the frames that
/// were sent between the look at the server and the first attempt, and for everybody else.
const OWN_SHARE: u64 = 2;

/// W from what the table remembers: as many frames as cost half of the tokens within which a resend is trusted, so that it finds its
/// own token even after the other frames of the window. At least 1, at most `frames_max` (the user's bound on frames in doubt).
pub fn frames(token_window: u64, tokens_per_frame: u64, frames_max: u64) -> u64 {
    (trusted_tokens(token_window) / OWN_SHARE / tokens_per_frame.max(1)).clamp(1, frames_max.max(1))
}

/// The fewest tokens that a table must remember: with them W is as large as the number of inserts that may be under way, so that
/// each of these can be the one whose answer is lost, and be sent again within half of the memory after all others.
///
/// `2 (half is trusted) × 2 (half of that is ours) × inserts in flight × tokens per frame`.
pub fn tokens_min(in_flight: u64, tokens_per_frame: u64) -> u64 {
    let trusted = in_flight.max(1).saturating_mul(tokens_per_frame.max(1)).saturating_mul(OWN_SHARE);
    trusted.saturating_mul(2)
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
    first_unsent(table.frontier, table.window, table.sent_below).min(table.next_ordinal)
}

/// True if no frame of the table was ever let out: rows that are there came from somewhere else.
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

/// True if a frontier must be recorded now for frames to be sent at all: there are frames beyond the limit, and recording
/// what is settled would move it.
pub fn is_blocked(table: &TableState, settled: &Settled) -> bool {
    send_limit(table) < table.next_ordinal && settled.frontier() > table.frontier
}

/// True if a frame may have been sent by an owner that is gone.
pub fn is_doubtful(table: &TableState, ordinal: u64) -> bool {
    ordinal < first_unsent(table.frontier, table.window, table.sent_below)
}

/// What to say of unsent frames with `frontier` while no insert is answered: `let_out` is the first ordinal that this owner has let
/// nobody send, and that none before it may have sent; `free` more may be sent beside those that are under way, for a frame that is
/// stuck must not hold up the others.
pub fn sent_below(frontier: u64, let_out: u64, free: u64) -> u64 {
    let_out.max(frontier).saturating_add(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frames_of_a_window_cost_half_of_the_tokens_that_a_resend_may_count_on() {
        assert_eq!(frames(100, 1, 64), 25);
        assert_eq!(frames(100, 2, 64), 12);
        assert_eq!(frames(10_000, 1, 64), 64);
        assert_eq!(frames(100, 10, 64), 2);
        assert_eq!(frames(1, 1, 64), 1);
    }

    /// With the fewest tokens accepted, every insert under way may be in doubt at once, and each is still resent without a look
    /// at the rows after all the others; with one frame's tokens fewer, that does not hold for all.
    #[test]
    fn the_least_memory_lets_every_insert_under_way_be_sent_again_after_all_others() {
        for in_flight in [1, 2, 4, 64] {
            for cost in [1, 2, 6, 200] {
                let least = tokens_min(in_flight, cost);
                assert!(frames(least, cost, 64) >= in_flight, "{in_flight} in flight at {cost}");
                assert!(
                    frames(least, cost, u64::MAX) * cost < trusted_tokens(least),
                    "{in_flight} at {cost}"
                );
                assert!(
                    in_flight == 1 || frames(least - 4, cost, 64) < in_flight,
                    "{in_flight} at {cost}: not the least"
                );
            }
        }
        assert_eq!(tokens_min(2, 1), 8);
        assert_eq!(tokens_min(u64::MAX, 2), u64::MAX);
    }

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
