//! A batch under construction, and what is cut from it.
//!
//! Owns the gathering and the arithmetic: rows, rejects, ranges and counts move together, so that the counts of every cut
//! add up (C9). Does not own the decision when to cut (`lane`) or the writing (`seal`).

use std::time::Duration;

use bytes::Bytes;
use dataflow::{Output, Reject, Selected};
use protocol::record::{Counts, Fate, Fates, Range, Refusal};

use crate::checkpoint::Snapshots;
use crate::origins::{Origins, Part};

/// Record times kept per cut for the end-to-end latency: enough for its percentiles, few enough to cost nothing.
const SAMPLES_MAX: usize = 64;

/// What one seal will hold, before it is encoded.
#[derive(Debug, Default)]
pub struct Cut {
    /// Number of the cut by this owner, from 0.
    pub number: u64,
    /// Rows for the target table.
    pub rows: Vec<Selected>,
    /// Where each of `rows` that goes on comes from.
    pub origins: Origins,
    /// Rows for the dead letters.
    pub rejects: Vec<Reject>,
    /// What was read.
    pub ranges: Vec<Range>,
    /// What it became.
    pub counts: Counts,
    /// Rows of earlier seals that the server refused, now among `rejects`; their counts move in the fold.
    pub refusals: Vec<Refusal>,
    /// Changes of the steps' states, by step.
    pub states: Vec<(u32, Bytes)>,
    /// Whole states as of this cut, if a checkpoint is due.
    pub snapshots: Option<Snapshots>,
    /// Low watermark after the cut.
    pub watermark_ms: i64,
    /// Idle partitions.
    pub idle: Vec<u32>,
    /// Some of the record times, Unix milliseconds.
    pub samples_ms: Vec<i64>,
    /// What became of each record of the partitions that want it told.
    pub fates: Vec<Fates>,
}

/// Gathers until it is cut.
#[derive(Debug, Default)]
pub struct Builder {
    cut: Cut,
    bytes: u64,
    begun: Option<Duration>,
}

impl Builder {
    /// Where a partition stands in the cut under construction; `from` is where the last cut ended.
    pub fn moved(&mut self, partition: u32, from: u64, next: u64, leader_epoch: i32, time_ms_max: i64) {
        match self.cut.ranges.iter_mut().find(|r| r.partition == partition) {
            Some(range) => {
                range.next = next;
                range.leader_epoch = leader_epoch;
                range.time_ms_max = time_ms_max;
            }
            None => self.cut.ranges.push(Range { partition, from, next, leader_epoch, time_ms_max }),
        }
    }

    /// Records were read; the other counts come with [`Builder::rejects`] and [`Builder::rows`].
    pub fn read(&mut self, records: u64, now: Duration) {
        self.cut.counts.read += records;
        self.begun.get_or_insert(now);
    }

    /// Records that became dead letters.
    pub fn rejects(&mut self, rejects: Vec<Reject>) {
        self.cut.counts.dead_letters += rejects.len() as u64;
        self.bytes += rejects.iter().map(reject_bytes).sum::<u64>();
        self.cut.rejects.extend(rejects);
    }

    /// A row of an earlier seal that the server refused becomes a dead letter.
    pub fn refused(&mut self, refusal: Refusal, reject: Reject, now: Duration) {
        self.begun.get_or_insert(now);
        self.bytes += reject_bytes(&reject);
        self.cut.refusals.push(refusal);
        self.cut.rejects.push(reject);
    }

    /// What a step dropped.
    pub fn dropped(&mut self, output: &Output) {
        self.cut.counts.filtered += output.filtered;
        self.cut.counts.duplicates += output.duplicates;
        self.cut.counts.late += output.late;
        self.cut.counts.late_kept += output.late_kept;
    }

    /// Rows that came through all steps, where they come from, and a time to measure the latency by.
    pub fn rows(&mut self, rows: Selected, origins: Part, time_ms: Option<i64>) {
        self.cut.counts.written += rows.len() as u64;
        self.bytes += rows.batch().get_array_memory_size() as u64;
        self.cut.rows.push(rows);
        self.cut.origins.parts.push(origins);
        if self.cut.samples_ms.len() < SAMPLES_MAX {
            self.cut.samples_ms.extend(time_ms);
        }
    }

    /// What became of the record at `position`, which follows the one told before it.
    pub fn fate(&mut self, partition: u32, position: u64, fate: Fate) {
        match self.cut.fates.iter_mut().find(|fates| fates.partition == partition) {
            Some(fates) => fates.codes.push(fate.code()),
            None => {
                let first = Fates { partition, from: position, codes: vec![fate.code()], ..Fates::default() };
                self.cut.fates.push(first);
            }
        }
    }

    /// What was gathered so far.
    pub fn counts(&self) -> Counts {
        self.cut.counts
    }

    /// Arrow and reject bytes gathered so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the first record came in; `None` if none has.
    pub fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// True if a refused row waits to be sealed as a dead letter.
    pub fn has_refusals(&self) -> bool {
        !self.cut.refusals.is_empty()
    }

    /// True if there is nothing to seal: not even a position has moved.
    pub fn is_empty(&self) -> bool {
        self.cut.ranges.is_empty() && self.cut.refusals.is_empty()
    }

    /// Takes what was gathered.
    pub fn take(&mut self, number: u64) -> Cut {
        let taken = std::mem::take(self);
        Cut { number, ..taken.cut }
    }
}

/// What a reject counts towards the bound of a batch.
fn reject_bytes(reject: &Reject) -> u64 {
    let key = reject.key.as_ref().map_or(0, Vec::len);
    (reject.raw.len() + key + reject.headers.len() + reject.message.len() + 64) as u64
}
