//! Seeds whose records hold several items, of which a step before dedup makes rows ([`crate::items`]).
//!
//! Owns the drawing: which items the server refuses, from numbers of its own, and which faults such a run leaves out: those after which the record of a refused
//! item cannot be read again. Then its key stays known, which the dead letter says and the rules of dedup do not. Does not own the items
//! and the steps (`sim::items`).

use super::{Fault, Plan};
use crate::items;
use crate::random::Random;
use crate::route::SECOND;

/// Refused records in a hundred, beside those that every plan has.
const REFUSED_PERCENT: u64 = 3;

impl Plan {
    /// The plan of the same seed with items; the server refuses single ones.
    pub fn unnested(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 16);
        let r = &mut random;
        (plan.unnests, plan.multiplies) = (true, false);
        let more = plan.arrivals.iter().map(|arrival| arrival.record.id);
        let more: Vec<(u64, u64)> = more.filter(|_| r.percent(REFUSED_PERCENT)).map(|id| (id, 0)).collect();
        plan.poison.extend(more);
        for (id, _) in &mut plan.poison {
            *id += SECOND * r.below(items::count(*id).max(1));
        }
        // Without provenance a refused frame in doubt waits for a person, as documented.
        plan.has_provenance = true;
        plan.faults.retain(|fault| {
            !matches!(
                fault,
                Fault::Rollback { .. }
                    | Fault::SourceAway { .. }
                    | Fault::PartitionLost { .. }
                    | Fault::Election { .. }
                    | Fault::Expiry { .. }
                    | Fault::Damage { .. }
                    | Fault::Cut { .. }
            )
        });
        plan
    }
}
