//! Seeds in which persons replay dead letters while the pipeline runs.
//!
//! Owns when they come, how many letters each takes and where its command sleeps, drawn from numbers of its own, and which faults such a
//! run leaves out: those after which a record is not what its dead letter was. Does not own the command (`replayer`).

use super::{Fault, Plan};
use crate::random::Random;

/// One `dead-letters replay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// When the person gives it, microseconds.
    pub at_us: u64,
    /// How many letters it takes at the most; 0 for one whose letters were all taken before.
    pub letters_max: usize,
    /// Whether it names its letters by a filter that the newest match.
    pub is_of_newest: bool,
    /// How long it sleeps between its choice and its put, milliseconds.
    pub sleep_ms: u64,
    /// Whether its process dies when the name of its object is there and not durable yet.
    pub dies: bool,
}

/// In one of so many seeds some commands die in the middle of their put: in all of them there would be few whole ones.
const DYING: (u64, u64) = (3, 8);

impl Plan {
    /// The plan of the same seed in which persons replay dead letters; every fourth record is no record at all, so that there are some.
    pub fn replayed(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 12);
        let r = &mut random;
        plan.inputs = 1;
        plan.has_view = false;
        plan.arrivals.iter_mut().for_each(|arrival| arrival.record.is_good &= !r.percent(25));
        let end_us = plan.arrivals.last().map_or(1_000_000, |arrival| arrival.at_us);
        let pause_us = r.one_of(&[1_000_000, 3_000_000, 5_000_000]);
        // One after the other. Those whose letters were all taken retire what was read by then.
        let one_by_one = |n| Replay {
            at_us: end_us / 4 + n * pause_us,
            letters_max: r.one_of(&[0, 1, 1, 2]),
            is_of_newest: false,
            sleep_ms: 0,
            dies: false,
        };
        let mut replays: Vec<Replay> = (0..24).map(one_by_one).collect();
        // Some that sleep meanwhile.
        for _ in 0..r.between(1, 4) {
            let at_us = end_us / 4 + r.below(12 * pause_us);
            let sleep_ms = r.one_of(&[1_000, 20_000, 120_000, 900_000]);
            let letters_max = r.between(1, 12) as usize;
            replays.push(Replay { at_us, letters_max, is_of_newest: true, sleep_ms, dies: false });
        }
        if seed % DYING.1 == DYING.0 {
            let mut random = Random::new(seed, 13);
            replays.iter_mut().for_each(|replay| replay.dies = random.percent(30));
        }
        plan.replays = replays;
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
        plan
    }
}
