//! Pipelines with a window in place of dedup: plain ones, ones with results before they are closed, sessions, and ones whose state is in files.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own the window and its rows
//! (`sim::results`), nor what they must be (`oracle::windows`).

use std::time::Duration;

use super::{Fault, Plan, When};
use crate::random::Random;
use crate::results::{Aggregates, Emits, Kind};
use crate::server::BESIDE;

/// Records one after the other that bring a window nothing, at the most.
const USELESS_MAX: u64 = 8;

/// How late a record is that no window waits for, milliseconds.
const LATE_MS: u64 = 60_000;

impl Plan {
    /// The plan of the same seed with a window in place of dedup.
    pub fn windowed(seed: u64) -> Self {
        let mut random = Random::new(seed, 10);
        let r = &mut random;
        let (size_ms, lateness_ms) = (r.one_of(&[100, 1_000, 5_000]), r.one_of(&[0, 0, 200, 5_000]));
        let windows = Kind::Hopping { size_ms, slide_ms: size_ms / r.one_of(&[1, 1, 2, 4]) };
        Self::with_window(
            seed,
            Aggregates {
                windows,
                lateness_ms,
                emits: None,
                beside: None,
                spills: false,
                closes: false,
                behind: None,
            },
        )
    }

    /// The same with results before a window is closed: early ones, updates, or both; of half of the seeds late records have a table of their own.
    pub fn emitted(seed: u64) -> Self {
        let mut random = Random::new(seed, 17);
        let r = &mut random;
        let windows = growing_or_not(r, &[400, 2_000, 8_000]);
        let lateness_ms = r.one_of(&[0, 200, 2_000, 10_000]);
        let early_ms = r.percent(75).then(|| r.one_of(&[50, 300, 1_000]));
        let (is_of_the_wall, updates) = (r.percent(40), early_ms.is_none() || r.percent(60));
        let emits = Some(Emits { early_ms, is_of_the_wall, updates });
        let beside = r.percent(50).then_some(BESIDE[0]);
        let keys = r.one_of(&[2, 10, 1 << 10]);
        let mut plan = Self::with_window(
            seed,
            Aggregates { windows, lateness_ms, emits, beside, spills: false, closes: false, behind: None },
        );
        plan.arrivals.iter_mut().for_each(|arrival| arrival.record.key %= keys);
        // Of rows with one id nobody could say which of them a person has taken away.
        plan.faults.retain(|fault| !matches!(fault, Fault::Table { .. }));
        plan
    }

    /// The same with all open windows in files, from which their results come in later seals.
    pub fn emitted_in_files(seed: u64) -> Self {
        let mut plan = Self::emitted(seed);
        plan.aggregates = plan.aggregates.map(|of| Aggregates { spills: true, ..of });
        plan
    }

    /// The same with sessions. All records of a key are in one partition: where one alone would be late, it depends on what of its key came before.
    pub fn of_sessions(seed: u64) -> Self {
        let mut random = Random::new(seed, 18);
        let r = &mut random;
        let gap_ms = r.one_of(&[50, 300, 2_000]);
        let max_ms = gap_ms * r.one_of(&[1, 4, 20]);
        let lateness_ms = r.one_of(&[0, 0, 200, 2_000]);
        let windows = Kind::Sessions { gap_ms, max_ms };
        let beside = r.percent(50).then_some(BESIDE[0]);
        let mut plan = Self::with_window(
            seed,
            Aggregates {
                windows,
                lateness_ms,
                emits: None,
                beside,
                spills: false,
                closes: false,
                behind: None,
            },
        );
        let keys = r.one_of(&[1, 3, 8, 40]);
        let mut newest = vec![None; keys as usize];
        for arrival in &mut plan.arrivals {
            let record = &mut arrival.record;
            record.key %= keys;
            let before = &mut newest[record.key as usize];
            // Near one of its key, on either side: some join a session that a record of that time alone comes too late for, some stand between two.
            if let Some(before) = before.filter(|_| r.percent(30)) {
                record.time_ms = before - gap_ms * 2 + r.below(gap_ms as u64 * 4) as i64;
            }
            *before = Some(record.time_ms);
        }
        plan.partition_by_key();
        // From numbers of its own, so that all else of a seed is what it was.
        let mut random = Random::new(seed, 29);
        let spills = random.percent(40);
        plan.aggregates = plan.aggregates.map(|of| Aggregates { spills, ..of });
        plan
    }

    /// The same with all open windows in files, and many seals that bring the window nothing: their records are late, or none at all. Checkpoints are
    /// rare and crashes are not, so that a start stands on the deltas of such seals.
    pub fn spilled(seed: u64) -> Self {
        let mut random = Random::new(seed, 19);
        let r = &mut random;
        let windows = growing_or_not(r, &[200, 1_000, 4_000]);
        let lateness_ms = r.one_of(&[0, 200, 2_000]);
        let beside = r.percent(60).then_some(BESIDE[0]);
        let mut plan = Self::with_window(
            seed,
            Aggregates {
                windows,
                lateness_ms,
                emits: None,
                beside,
                spills: true,
                closes: false,
                behind: None,
            },
        );
        plan.settings.batch_age_max = Duration::from_millis(r.one_of(&[2, 5, 20]));
        plan.settings.checkpoint_bytes_min = 1 << 20;
        plan.settings.checkpoint_records_max = r.one_of(&[40, 1_000, 1_000]);
        let mut left = 0;
        for arrival in &mut plan.arrivals {
            if left == 0 && r.percent(25) {
                left = r.between(1, USELESS_MAX);
            }
            if left > 0 {
                left -= 1;
                // What is no record moves no time either.
                arrival.record.is_good &= r.percent(40);
                arrival.record.time_ms -= (LATE_MS + r.below(LATE_MS)) as i64;
            }
        }
        let end_us = plan.arrivals.last().map_or(1_000_000, |arrival| arrival.at_us);
        for _ in 0..r.between(2, 6) {
            let when = When::At(r.below(end_us + 2_000_000));
            plan.faults.push(Fault::Kill { when, down_ms: r.one_of(&[1, 100, 1_000]) });
        }
        plan
    }

    /// The server refuses none of its rows: a result is no record.
    fn with_window(seed: u64, aggregates: Aggregates) -> Self {
        let mut plan = Self::new(seed);
        plan.aggregates = Some(aggregates);
        // Its event time is the column's.
        plan.window.get_or_insert(Duration::from_secs(16));
        plan.poison.clear();
        (plan.is_routed, plan.multiplies) = (false, false);
        plan
    }

    /// The records of each key are in one partition, and no other partition appears.
    pub(super) fn partition_by_key(&mut self) {
        self.partition_added_us = None;
        let partitions = self.partitions;
        let mut next = vec![0; partitions as usize];
        for arrival in &mut self.arrivals {
            arrival.partition = (arrival.record.key % u64::from(partitions)) as u32;
            let next = &mut next[arrival.partition as usize];
            // A gap here and there.
            *next += u64::from(arrival.record.id.is_multiple_of(30));
            arrival.record.position = *next;
            *next += 1;
        }
    }
}

/// Windows of one of these sizes: one after the other, overlapping or growing.
pub(super) fn growing_or_not(r: &mut Random, sizes_ms: &[i64]) -> Kind {
    let size_ms = r.one_of(sizes_ms);
    let part_ms = size_ms / r.one_of(&[1, 2, 4]);
    match r.percent(30) {
        true => Kind::Cumulative { size_ms, step_ms: part_ms },
        false => Kind::Hopping { size_ms, slide_ms: part_ms },
    }
}
