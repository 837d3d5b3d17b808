//! Pipelines whose rows replace each other by key, in place of dedup.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own the rows (`sim::changes`), nor what they must be
//! (`oracle::changes`).

use super::Plan;
use super::moved::Moved;
use crate::changes::Changes;
use crate::random::Random;

impl Plan {
    /// The plan of the same seed with an upsert; of a quarter of them a person moves the pipeline back, with its state. All records of a key are in one partition: else no rule says which of them is the last. The server refuses none of
    /// its rows, for one that takes another back is no record.
    pub fn upserted(seed: u64) -> Self {
        let mut random = Random::new(seed, 31);
        let r = &mut random;
        let (is_versioned, has_deletions) = (r.percent(50), r.percent(60));
        let keys = r.one_of(&[1, 3, 10, 40]);
        // Some times are equal: of those the last holds.
        let step_ms = r.one_of(&[1, 500, 5_000]);
        let is_moved = r.percent(25);
        let mut plan = Self::new(seed);
        plan.changes = Some(Changes { is_versioned, has_deletions });
        for arrival in &mut plan.arrivals {
            let record = &mut arrival.record;
            record.key %= keys;
            record.time_ms -= record.time_ms.rem_euclid(step_ms);
        }
        plan.partition_by_key();
        plan.poison.clear();
        (plan.is_routed, plan.multiplies) = (false, false);
        // As the pipeline has it for a table to which the order of inserts matters.
        plan.settings.in_flight_max = 1;
        if is_moved {
            plan.move_back();
            // Without its state nothing would take back what is in the table.
            plan.moved = plan.moved.map(|moved| Moved { is_emptied: false, ..moved });
        }
        plan
    }
}
