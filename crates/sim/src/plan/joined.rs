//! Pipelines with a join of their two inputs in place of dedup.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own the join and its rows
//! (`sim::pairs`), nor what they must be (`oracle::joins`).

use std::time::Duration;

use super::{Fault, Plan};
use crate::pairs::{HAND_BYTES_ALL, Joins};
use crate::random::Random;
use crate::server::BESIDE;

/// From a seed to the one that stands for it: further than any run of seeds.
const STRIDE: u64 = 1_000_000_007;

/// Before this time tables of rows without a match are taken away: runs are 3 to 40 s long.
const LENGTH_US: u64 = 20_000_000;

/// Whether a fault may make the source of one input refuse while the other is read on, or change its records.
fn is_of_an_input(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Election { .. }
            | Fault::Expiry { .. }
            | Fault::Cut { .. }
            | Fault::Damage { .. }
            | Fault::Rollback { .. }
    )
}

impl Plan {
    /// The plan of the same seed with two inputs and a join. The server refuses none of its rows: a joined row is no record.
    pub fn joined(seed: u64) -> Self {
        // Each input has a partition: two seeds in three have more than one, and in place of the third stands another seed.
        let others = (0..64).map(|n| Self::new(seed + n * STRIDE));
        let mut plan = others.into_iter().find(|plan| plan.partitions > 1).expect("64 draws of two in three");
        let mut random = Random::new(seed, 11);
        let r = &mut random;
        if plan.inputs < 2 {
            plan.part_between_inputs();
        }
        let lengths = [0, 100, 1_000, 10_000];
        let (before_ms, after_ms) = (r.one_of(&lengths), r.one_of(&lengths[1..]));
        let keeps = [r.percent(50), r.percent(50)];
        let lateness_ms = r.one_of(&[0, 0, 200, 5_000]);
        let joins = Joins {
            before_ms,
            after_ms,
            lateness_ms,
            keeps,
            beside: [None; 2],
            is_temporal: false,
            closes: false,
            hand_bytes: HAND_BYTES_ALL,
            window: None,
        };
        plan.joins = Some(joins);
        // Its event time is the column's.
        plan.window.get_or_insert(Duration::from_secs(16));
        plan.poison.clear();
        plan.faults.retain(|fault| !is_of_an_input(fault));
        (plan.is_routed, plan.multiplies) = (false, false);
        plan.draw_beside();
        plan.draw_hand(seed);
        plan
    }

    /// How many rows without a match fit one seal, where rows are in files.
    fn draw_hand(&mut self, seed: u64) {
        let mut random = Random::new(seed, 23);
        let Some(joins) = &mut self.joins else { return };
        if random.percent(60) {
            joins.hand_bytes = random.one_of(&[40, 400]);
        }
    }

    /// Whether rows without a match go to tables of their own, and when these are away.
    fn draw_beside(&mut self) {
        let mut random = Random::new(self.seed, 13);
        let r = &mut random;
        let Some(joins) = &mut self.joins else { return };
        for (side, place) in BESIDE.into_iter().enumerate() {
            let (is_beside, is_away) = (r.percent(60), r.percent(50));
            let (at_us, for_ms) = (r.below(LENGTH_US), r.one_of(&[500, 5_000, 40_000]));
            if is_beside && !joins.keeps[side] {
                joins.beside[side] = Some(place);
                if is_away {
                    self.faults.push(Fault::TableAway { at_us, place, for_ms });
                }
            }
        }
    }

    /// The same with a temporal join: the right input has the versions.
    pub fn temporal(seed: u64) -> Self {
        let mut plan = Self::joined(seed);
        let joins = plan.joins.as_mut().expect("it has a join");
        (joins.is_temporal, joins.keeps[1]) = (true, false);
        // Versions need no match.
        joins.beside[1] = None;
        plan
    }
}
