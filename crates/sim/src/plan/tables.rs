//! Pipelines with several tables, and tables that are away while others are not.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own which rows go where
//! ([`crate::route`]).

use super::{Fault, Plan};
use crate::random::Random;
use crate::server::MORE;

impl Plan {
    pub(super) fn draw_tables(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 7);
        let r = &mut random;
        if !r.percent(40) {
            return;
        }
        self.tables.extend(MORE.into_iter().take(r.between(1, 2) as usize));
        self.is_routed = r.percent(60);
        self.multiplies = r.percent(35);
        for _ in 0..r.between(0, 4) {
            let place = r.one_of(&self.tables);
            let for_ms = r.one_of(&[500, 5_000, 40_000, 300_000]);
            self.faults.push(Fault::TableAway { at_us: r.below(length_us), place, for_ms });
        }
    }
}
