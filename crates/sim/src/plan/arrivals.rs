//! The records of a seed, and which of them the server turns down.
//!
//! Owns their keys, times, partitions and gaps. Does not own times that are far ahead ([`super::servers`]).

use crate::executor::WALL_BEGIN_MS;
use crate::random::Random;
use crate::records::Record;

/// A record, and when the broker has it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Microseconds after the begin.
    pub at_us: u64,
    /// The partition's number.
    pub partition: u32,
    /// The record.
    pub record: Record,
}

pub(super) fn arrivals(
    r: &mut Random,
    length_us: u64,
    partitions: u32,
    added_us: Option<u64>,
) -> Vec<Arrival> {
    let records = r.between(40, 240);
    let keys = r.between(20, 400);
    let mut next = vec![0_u64; partitions as usize + 1];
    let mut times: Vec<u64> = (0..records).map(|_| r.below(length_us)).collect();
    // Bursts: some records come together.
    for n in 1..times.len() {
        if r.percent(70) {
            times[n] = times[n - 1] + r.below(3_000);
        }
    }
    times.sort_unstable();
    let mut all: Vec<Arrival> = Vec::new();
    for (n, at_us) in times.into_iter().enumerate() {
        let with_added = u64::from(partitions) + u64::from(added_us.is_some_and(|added| at_us > added));
        let partition = r.below(with_added) as u32;
        let position = &mut next[partition as usize];
        // Gaps, as compaction and transactions leave them.
        if r.percent(3) {
            *position += r.between(1, 20);
        }
        let behind_ms = if r.percent(5) { r.below(90_000) } else { r.below(200) };
        let copy = (!all.is_empty() && r.percent(20)).then(|| {
            let near = all.len().saturating_sub(10) as u64;
            let from =
                if r.percent(50) { r.between(near, all.len() as u64 - 1) } else { r.below(all.len() as u64) };
            all[from as usize].record
        });
        let record = Record {
            position: *position,
            id: n as u64 + 1,
            key: copy.map_or_else(|| r.below(keys), |c| c.key),
            time_ms: match copy {
                Some(copy) if r.percent(60) => copy.time_ms,
                _ => WALL_BEGIN_MS + (at_us / 1_000) as i64 - behind_ms as i64,
            },
            is_good: !r.percent(3),
        };
        *position += 1;
        all.push(Arrival { at_us, partition, record });
    }
    all
}

pub(super) fn poison(r: &mut Random, length_us: u64, arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    if !r.percent(25) {
        return Vec::new();
    }
    let from_us = if r.percent(50) { 0 } else { r.below(length_us) };
    (0..r.between(1, 5))
        .map(|_| (arrivals[r.below(arrivals.len() as u64) as usize].record.id, from_us))
        .collect()
}
