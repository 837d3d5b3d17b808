//! Which rows of a record a step failed on, where the record holds several.
//!
//! Owns the second pass over such records, row by row. Does not own the first ([`super::Intake::prepare`]).
//!
//! A step reports only the position at which it failed, which all rows of a record share. So the rows of these records are made records of their own
//! ([`crate::Decoder::split`]), which go through the same work once more; what fails then names its row, and its dead letter holds that row alone. It costs
//! only records with a row that fails.

use std::collections::BTreeMap;

use crate::reject::{self, RowReject};
use crate::{Intake, Metadata, RecordBlock, Reject, Spans, position};

/// Bytes of rows separated in one pass; beyond that the dead letters hold whole records.
const APART_BYTES_MAX: usize = 512 << 20;

/// The rejects of rows of one record, and the headers that the step gave each: the table that does not take it.
type OfRecord = (Vec<RowReject>, Vec<Vec<u8>>);

impl Intake {
    /// The rejects of steps, at positions of a block whose records hold several rows, each with its row; `None` if that cannot be said.
    pub(super) fn apart(&self, block: &RecordBlock, rejects: &[Reject], read_ms: i64) -> Option<Vec<Reject>> {
        if self.metadata.contains(&Metadata::Position) {
            // The rows have other positions while they are separate.
            return None;
        }
        let (narrow, rows) = self.narrow(block, rejects)?;
        let mut batch = self.decoder.decode(&narrow).batch;
        if !self.metadata.is_empty() {
            batch = self.with_columns(batch, &narrow, read_ms).ok()?.0;
        }
        if let Some(time) = &self.time {
            batch = self.timed(time, batch).ok()?;
        }
        let mut found = Vec::with_capacity(rejects.len());
        for step in &self.steps {
            let made = step.apply(batch).ok()?;
            batch = made.batch;
            found.extend(made.rejects);
        }
        if found.len() != rejects.len() {
            return None;
        }
        // Not all of a row has failed that a step made several of.
        let is_whole = !self.steps.iter().any(|step| step.multiplies());
        let mut by_record = BTreeMap::<usize, OfRecord>::new();
        for Reject { position, reason, column, message, headers, .. } in found {
            let at = usize::try_from(position::low(position)).ok()?;
            let raw = narrow.payloads.get(narrow.row_of(position)?).to_vec();
            let row = *rows.get(at)?;
            let number = (at - rows.partition_point(|before| *before < row)) as u32;
            let number = is_whole.then_some(number);
            let (of_rows, said) = by_record.entry(row).or_default();
            of_rows.push(RowReject { number, reason, column, message, raw });
            said.push(headers);
        }
        let completed = |(row, (of_rows, said)): (usize, OfRecord)| {
            let mut rejects = reject::each_row(block, row, of_rows);
            rejects.iter_mut().zip(said).for_each(|(reject, said)| reject.headers.extend(said));
            rejects
        };
        Some(by_record.into_iter().flat_map(completed).collect())
    }

    /// The rows of the records at these positions as a block of records, at positions from 0, and the row of the block that each comes from.
    fn narrow(&self, block: &RecordBlock, rejects: &[Reject]) -> Option<(RecordBlock, Vec<usize>)> {
        let mut of_records: Vec<usize> =
            rejects.iter().map(|reject| block.row_of(reject.position)).collect::<Option<_>>()?;
        of_records.sort_unstable();
        of_records.dedup();
        let (mut payloads, mut rows) = (Spans::default(), Vec::new());
        for row in of_records {
            let apart = self.decoder.split(block, row)?;
            if payloads.bytes.len() + apart.bytes.len() > APART_BYTES_MAX {
                return None;
            }
            (0..apart.len()).for_each(|at| payloads.push(apart.get(at)));
            rows.resize(payloads.len(), row);
        }
        let of_rows = |metadata: Metadata, spans: &Option<Spans>| {
            let spans = spans.as_ref().filter(|_| self.metadata.contains(&metadata));
            let Some(spans) = spans else { return Some(None) };
            if rows.iter().map(|row| spans.get(*row).len()).sum::<usize>() > APART_BYTES_MAX {
                return None;
            }
            let mut each = Spans::default();
            rows.iter().for_each(|row| each.push(spans.get(*row)));
            Some(Some(each))
        };
        let narrow = RecordBlock {
            item: None,
            partition: block.partition.clone(),
            absent: Vec::new(),
            cut: Vec::new(),
            keys: of_rows(Metadata::Key, &block.keys)?,
            headers: of_rows(Metadata::Headers, &block.headers)?,
            head: block.head.clone(),
            schema: block.schema.clone(),
            era: block.era,
            positions: (0..rows.len() as u64).collect(),
            times_ms: rows.iter().map(|row| block.times_ms[*row]).collect(),
            next: position::position(block.era, rows.len() as u64),
            leader_epoch: block.leader_epoch,
            leader_epoch_within: block.leader_epoch_within,
            found: block.found.clone(),
            payloads,
        };
        Some((narrow, rows))
    }
}
