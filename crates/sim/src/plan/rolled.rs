//! Pipelines with a window over the results of a window.
//!
//! Owns the drawing, from numbers of its own. Does not own the windows (`sim::results`), nor what they must be (`oracle::windows`).

use super::Plan;
use crate::random::Random;
use crate::results::{Aggregates, Behind};

impl Plan {
    /// The plan of the same seed with two windows, one behind the other: the first is one after the other, overlapping or growing, in files or not, or sessions.
    /// Every second time its inputs end.
    pub fn rolled(seed: u64) -> Self {
        let mut plan = match seed % 4 {
            0 => Self::of_sessions(seed),
            1 => Self::windowed(seed),
            _ => Self::spilled(seed),
        };
        let mut random = Random::new(seed, 22);
        let r = &mut random;
        let size_ms = r.one_of(&[300, 2_000, 10_000]);
        let behind = Some(Behind { size_ms, lateness_ms: r.one_of(&[0, 0, 500, 3_000]) });
        plan.aggregates = plan.aggregates.map(|of| Aggregates { behind, ..of });
        if (seed / 4).is_multiple_of(2) {
            plan.end(r);
        }
        if (seed / 8).is_multiple_of(3) {
            plan.move_back();
        }
        plan
    }
}
