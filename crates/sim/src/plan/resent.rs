//! Seeds with a proxy before object storage that sends some puts twice.
//!
//! Owns which, drawn from numbers of its own. Does not own what a put then comes to (`objects`).

use super::{Fault, Plan, PutFault};
use crate::random::Random;

impl Plan {
    /// The plan of the same seed in which the answer to a few puts is that the object is there already. A local disk has no proxy before it, so that half of
    /// the seeds are as they were.
    pub fn resent(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 33);
        if !plan.is_local {
            // Behind the first claim: whoever takes that for another's only claims again.
            for _ in 0..random.between(2, 5) {
                let nth = random.between(2, 40);
                plan.faults.push(Fault::Put { nth, how: PutFault::Twice });
            }
        }
        plan
    }
}
