//! Seeds in which a person moves the pipeline back while it runs.
//!
//! Owns when and how it is moved, drawn from numbers of its own, and which faults such a run leaves out: those after which the records that are to
//! be read again are not what they were. Does not own the moving (`person`).

use super::{Fault, Plan};
use crate::random::Random;

/// Partitions that are moved back to the half of where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// When the person comes, microseconds.
    pub at_us: u64,
    /// Whether the state of every step is given up.
    pub is_emptied: bool,
}

impl Plan {
    /// The plan of the same seed in which a person moves the pipeline back; every third with a window in place of dedup, and half of these with results before a
    /// window is closed, whose versions must go on growing behind the move.
    pub fn moved(seed: u64) -> Self {
        let mut plan = match seed % 6 {
            0 => Self::emitted(seed),
            3 => Self::windowed(seed),
            _ => Self::new(seed),
        };
        plan.move_back();
        plan
    }

    /// A person moves it back.
    pub(super) fn move_back(&mut self) {
        let plan = self;
        let mut random = Random::new(plan.seed, 11);
        let r = &mut random;
        let end_us = plan.arrivals.last().map_or(1_000_000, |arrival| arrival.at_us);
        let is_emptied = plan.aggregates.is_some() || plan.joins.is_some() || r.percent(50);
        plan.moved = Some(Moved { at_us: r.between(end_us / 4, end_us + 5_000_000), is_emptied });
        // The versions of an empty state go on behind those of the state before it only while the machine's clock does (docs/windows.md).
        let has_versions = plan.aggregates.is_some_and(|of| of.emits.is_some());
        plan.faults.retain(|fault| !(has_versions && matches!(fault, Fault::ClockJump { .. })));
        // A row that is there twice is not once in what a view feeds.
        plan.has_view = false;
        plan.faults.retain(|fault| {
            !matches!(
                fault,
                Fault::Rollback { .. }
                    | Fault::PartitionLost { .. }
                    | Fault::Election { .. }
                    | Fault::Table { .. }
                    | Fault::Expiry { .. }
                    | Fault::Damage { .. }
                    | Fault::Cut { .. }
            )
        });
    }
}
