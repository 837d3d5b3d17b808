//! Seeds whose source lets go of what is published, as a log does, and whose pipeline has no step with state: there segments may stay unwritten. And seeds whose
//! source lets go of what is sealed, as one does to which records are sent.
//!
//! Owns what such a pipeline is, and which faults it leaves out: those that take records from a source that promises to hold them. Does not own
//! when records go (the broker).

use super::{Fault, Plan};
use crate::random::Random;

impl Plan {
    /// The plan of the same seed without a step; no two records have one key, so that `dedup` would have nothing to do.
    pub fn released(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 14);
        plan.releases = true;
        (plan.inputs, plan.window, plan.multiplies, plan.is_routed) = (1, None, false, false);
        plan.table_partitions = 1;
        plan.tables.truncate(1);
        for arrival in &mut plan.arrivals {
            arrival.record.key = arrival.record.id;
            // A cut with a dead letter is written as any other: fewer of them leave more that is not.
            arrival.record.is_good |= random.percent(90);
        }
        plan.faults.retain(|fault| {
            !matches!(
                fault,
                Fault::Rollback { .. }
                    | Fault::Election { .. }
                    | Fault::Expiry { .. }
                    | Fault::Damage { .. }
                    | Fault::Cut { .. }
            )
        });
        plan
    }

    /// The same of a source whose records are gone once they are sealed: whoever sent them has its answer.
    pub fn pushed(seed: u64) -> Self {
        Self { releases: false, pushes: true, ..Self::released(seed) }
    }
}
