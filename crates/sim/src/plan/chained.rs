//! Pipelines with a window over the rows of a join.
//!
//! Owns the drawing, from numbers of its own. Does not own the join (`sim::pairs`) and the window (`sim::results`), nor what they must be (`oracle::joins`).

use std::collections::BTreeSet;

use super::Plan;
use super::windows::growing_or_not;
use crate::pairs::Joins;
use crate::random::Random;
use crate::results::Aggregates;

impl Plan {
    /// The plan of the same seed with a window over the rows of its join, which is a temporal one in every fourth seed. Windows come one after the other, overlap
    /// or grow. The state of both steps is in files or in memory. Half of the time the inputs end, and a third of the time a person moves the pipeline back.
    pub fn chained(seed: u64) -> Self {
        let mut plan = match seed % 4 {
            1 => Self::temporal(seed),
            _ => Self::joined(seed),
        };
        let mut random = Random::new(seed, 31);
        let r = &mut random;
        let windows = growing_or_not(r, &[300, 2_000, 10_000]);
        let lateness_ms = r.one_of(&[0, 0, 500, 3_000]);
        let window = Some(Aggregates {
            windows,
            lateness_ms,
            emits: None,
            beside: None,
            spills: false,
            closes: false,
            behind: None,
        });
        plan.joins = plan.joins.map(|of| Joins { window, ..of });
        // With few keys most rows have a match, and a window has many rows; with many keys most rows of an outer side leave without one.
        let keys = r.one_of(&[4, 30, 1 << 10]);
        plan.arrivals.iter_mut().for_each(|arrival| arrival.record.key %= keys);
        plan.tell_versions_apart();
        if (seed / 4).is_multiple_of(2) {
            plan.end(r);
        }
        if (seed / 8).is_multiple_of(3) {
            plan.move_back();
        }
        plan
    }

    /// No two versions of a key have one time: which of them a row got that went into a window, the oracle could not see.
    fn tell_versions_apart(&mut self) {
        if !self.joins.is_some_and(|joins| joins.is_temporal) {
            return;
        }
        let (inputs, mut taken) = (self.inputs, BTreeSet::new());
        // The second input has the versions.
        for arrival in self.arrivals.iter_mut().filter(|arrival| arrival.partition % inputs == 1) {
            let record = &mut arrival.record;
            while !taken.insert((record.key, record.time_ms)) {
                record.time_ms += 1;
            }
        }
    }
}
