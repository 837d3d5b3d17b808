//! What becomes of each row of a batch.
//!
//! Owns the order in which a row is asked for: kept records in files, lateness, kept records in memory. Does not own the set of those
//! (`kept`), nor the files (`closed`).

use std::ops::Range;

use dataflow::{Batch, Reason, Reject};

use super::closed::runs::Found;
use super::kept::Chunk;
use super::window::{self, SLACK};
use super::{Dedup, Late};

/// Rows whose buckets are worked out together: they stay in the nearest cache until the rows' turn comes.
const CHUNK: usize = 1024;

/// What `finish` found out, beside the rows that go on.
#[derive(Default)]
pub(super) struct Dropped {
    /// Row numbers, ascending: duplicates and late ones.
    pub(super) rows: Vec<usize>,
    pub(super) duplicates: u64,
    pub(super) late: u64,
    pub(super) rejects: Vec<Reject>,
}

impl Dedup {
    /// Decides for each row, in order, and remembers those that go on. `found` are kept records in files, by row.
    pub(super) fn decide(&mut self, batch: &Batch, hashes: &[u128], found: &[Found]) -> Dropped {
        let mut dropped = Dropped::default();
        for first in (0..hashes.len()).step_by(CHUNK) {
            let end = (first + CHUNK).min(hashes.len());
            self.decide_chunk(batch, first, &hashes[first..end], found, &mut dropped);
        }
        self.dropped.extend(&batch.partition, &self.known);
        self.known.clear();
        dropped
    }

    /// As [`decide`](Self::decide), for the rows from number `first` on.
    fn decide_chunk(
        &mut self,
        batch: &Batch,
        first: usize,
        hashes: &[u128],
        found: &[Found],
        dropped: &mut Dropped,
    ) {
        let mut placing = self.window.placing(self.watermark);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.fill(hashes, batch.times_ms[first..][..hashes.len()].iter().map(|time| placing.place(*time)));
        let mut found = &found[found.partition_point(|f| (f.row as usize) < first)..];
        let late_below = match self.watermark {
            Some(watermark) if self.late != Late::Keep => watermark.saturating_sub_unsigned(SLACK),
            _ => i64::MIN,
        };
        let is_late = |bucket: &i64| *bucket < late_below;
        let are_late = late_below > i64::MIN && chunk.buckets().iter().any(is_late);
        let mut row = 0;
        while row < hashes.len() {
            // The next that needs another look than all others: it has kept records in files, or is late.
            let mut special =
                found.first().map_or(hashes.len(), |f| (f.row as usize - first).min(hashes.len()));
            if are_late {
                let late = chunk.buckets()[row..special].iter().position(is_late);
                special = late.map_or(special, |late| row + late);
            }
            self.offer(batch, first, hashes, &mut chunk, row..special, dropped);
            row = special + 1;
            let Some(bucket) = chunk.buckets().get(special).copied() else { break };
            let own = found.iter().take_while(|f| f.row as usize == first + special).count();
            let (own, others) = found.split_at(own);
            found = others;
            if own.iter().any(|f| window::near(f.bucket, bucket)) {
                dropped.duplicates += 1;
                dropped.rows.push(first + special);
            } else if is_late(&bucket) && !self.kept.has_near(hashes[special], bucket) {
                self.drop_late(batch, first + special, dropped);
            } else {
                self.offer(batch, first, hashes, &mut chunk, special..row, dropped);
            }
        }
        self.chunk = chunk;
    }

    /// Offers rows of a chunk, and drops those that are known.
    fn offer(
        &mut self,
        batch: &Batch,
        first: usize,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        dropped: &mut Dropped,
    ) {
        let before = dropped.rows.len();
        self.kept.offer_all(hashes, chunk, rows, |row| dropped.rows.push(first + row));
        let known = &dropped.rows[before..];
        dropped.duplicates += known.len() as u64;
        let records = known
            .iter()
            .map(|row| (hashes[row - first], chunk.buckets()[row - first], batch.positions[*row]));
        self.known.extend(records);
    }

    #[cold]
    fn drop_late(&self, batch: &Batch, row: usize, dropped: &mut Dropped) {
        dropped.rows.push(row);
        if self.late == Late::Drop {
            dropped.late += 1;
            return;
        }
        let time_ms = batch.times_ms[row];
        dropped.rejects.push(Reject {
            partition: batch.partition.clone(),
            position: batch.positions[row],
            time_ms,
            reason: Reason::Late,
            column: String::new(),
            message: format!(
                "its time `{time_ms}` (unix milliseconds) is more than {SLACK}/{} of the window behind the others, so that a \
                 duplicate could not be told from a new record",
                window::SPAN
            ),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        });
    }
}
