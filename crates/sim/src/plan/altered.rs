//! Seeds in which a person drops a column and gives it back.
//!
//! Owns when, drawn from numbers of its own, and what makes frames wait by then: the table takes nothing for a while, and the process dies.
//! Does not own what a table without the column does (`table`, `server`).

use super::{Fault, Plan, When};
use crate::random::Random;

/// An ALTER of the first table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alter {
    /// When, microseconds.
    pub at_us: u64,
    /// DROP COLUMN, or ADD COLUMN with a DEFAULT.
    pub is_drop: bool,
}

impl Plan {
    /// The plan of the same seed in which a person drops a column and gives it back. The server refuses no row: what is wrong with an insert is its
    /// columns.
    pub fn altered(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 13);
        let r = &mut random;
        plan.poison.clear();
        plan.has_view = false;
        let begin_us = plan.arrivals.first().map_or(0, |arrival| arrival.at_us);
        let end_us = plan.arrivals.last().map_or(1_000_000, |arrival| arrival.at_us).max(begin_us + 1);
        let mut at_us = r.between(begin_us, end_us);
        for _ in 0..r.between(1, 3) {
            let (for_ms, back_us) = (r.one_of(&[500, 3_000]), r.one_of(&[1_000, 8_000_000, 40_000_000]));
            plan.alters.push(Alter { at_us, is_drop: true });
            plan.alters.push(Alter { at_us: at_us + back_us, is_drop: false });
            if r.percent(70) {
                // What is sealed meanwhile waits; the next process finds it, and the table without the column.
                let since_us = at_us.saturating_sub(for_ms * 1_000);
                plan.faults.push(Fault::TableAway { at_us: since_us, place: 0, for_ms });
                let when = When::At(at_us - r.below(300_000).min(at_us));
                plan.faults.push(Fault::Kill { when, down_ms: r.one_of(&[1, 1_000]) });
            }
            at_us += back_us + r.between(1, 10_000_000);
        }
        plan.faults.retain(|fault| !matches!(fault, Fault::Rollback { .. } | Fault::Table { .. }));
        plan
    }
}
