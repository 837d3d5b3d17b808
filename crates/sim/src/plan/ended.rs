//! Seeds whose inputs end: as files do, for each reader that has read them to their end, or once, at some time.
//!
//! Owns the drawing, from numbers of its own: which partitions end and when, whether windows and joins close then, when somebody runs the pipeline again, and
//! which faults such a run leaves out. Does not own what a reader is told (`broker`), nor what must be out then (`oracle::ends`).
//!
//! | a partition ends      | a reader is told so                                | records that come later                              |
//! |-----------------------|----------------------------------------------------|------------------------------------------------------|
//! | at once               | whenever it has read all that there is             | are read by the next process, as those of a file      |
//! | at some time          | once it has read all, after that time              | too                                                  |
//! | never                 | never: nothing closes                              | are read as they come                                |

use super::{Fault, Plan, When};
use crate::random::Random;

/// Kinds of steps, each in turn, and twice: without and with a person who moves the pipeline back.
const KINDS: u64 = 6;

/// How a partition ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// For each reader that has read it.
    AtOnce,
    /// From this time on, microseconds.
    At(u64),
    /// Not at all.
    Never,
}

/// How all of them do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Of each partition, by its number; that of one which appears later is the last.
    pub of: Vec<End>,
    /// How long nobody runs the pipeline after a run has come to its end, milliseconds.
    pub pause_ms: u64,
}

impl Ends {
    /// Which partitions end for every reader that has read them.
    pub fn at_once(&self) -> Vec<bool> {
        self.of.iter().map(|end| *end == End::AtOnce).collect()
    }

    /// When the others end.
    pub fn times(&self) -> impl Iterator<Item = (usize, u64)> {
        let time = |(n, end): (usize, &End)| match end {
            End::At(at_us) => Some((n, *at_us)),
            End::AtOnce | End::Never => None,
        };
        self.of.iter().enumerate().filter_map(time)
    }
}

impl Plan {
    /// The plan of the same seed with a window or a join in place of dedup that closes when every input has ended; every second time a person moves the
    /// pipeline back. In some seeds an input never ends, and in some the step waits.
    pub fn ended(seed: u64) -> Self {
        let mut plan = match seed % KINDS {
            0 => Self::windowed(seed),
            1 => Self::emitted(seed),
            2 => Self::of_sessions(seed),
            3 => Self::spilled(seed),
            4 => Self::joined(seed),
            _ => Self::temporal(seed),
        };
        plan.end(&mut Random::new(seed, 21));
        if (seed / KINDS).is_multiple_of(2) {
            plan.move_back();
        }
        plan
    }

    /// Its inputs end, and in most seeds its steps close then.
    pub(super) fn end(&mut self, r: &mut Random) {
        let plan = self;
        let end_us = plan.arrivals.last().map_or(1_000_000, |arrival| arrival.at_us).max(1);
        let (at_once, never) = (r.one_of(&[0, 50, 100]), r.one_of(&[0, 0, 0, 15]));
        let end = |_| match r.percent(at_once) {
            true => End::AtOnce,
            // Before some of its records, or behind all.
            false if r.percent(60) => End::At(r.below(end_us)),
            false => End::At(end_us + r.below(5_000_000)),
        };
        let mut of: Vec<End> = (0..=plan.partitions).map(end).collect();
        of.iter_mut().filter(|_| r.percent(never)).for_each(|end| *end = End::Never);
        let ends = Ends { of, pause_ms: r.one_of(&[200, 1_000, 5_000]) };
        plan.strike_at_the_end(r, &ends);
        let closes = r.percent(85);
        plan.aggregates = plan.aggregates.map(|of| crate::results::Aggregates { closes, ..of });
        plan.joins = plan.joins.map(|of| crate::pairs::Joins { closes, ..of });
        plan.ends = Some(ends);
        // A source that ends has no elections and no retention; and nobody has published where it was.
        plan.faults.retain(|fault| {
            !matches!(fault, Fault::Rollback { .. } | Fault::Election { .. } | Fault::Expiry { .. })
        });
    }

    /// Processes die while the last windows close.
    fn strike_at_the_end(&mut self, r: &mut Random, ends: &Ends) {
        for (_, at_us) in ends.times() {
            if r.percent(50) {
                let when = When::At(at_us + r.below(1_500_000));
                self.faults.push(Fault::Kill { when, down_ms: r.one_of(&[1, 1_000]) });
            }
        }
        // While a process runs, which may be for moments.
        let polls = self.arrivals.len() as u64 * 40;
        for _ in 0..r.below(8) {
            let when = When::Poll(r.below(polls));
            let down_ms = r.one_of(&[1, 100, 3_000]);
            self.faults.push(match r.percent(25) {
                true => Fault::Stop { when, down_ms },
                false => Fault::Kill { when, down_ms },
            });
        }
    }
}
