//! From rows to the bytes of a frame.
//!
//! Owns how many rows a frame takes, and how it is encoded, compressed and marked so that it can be found again. Does not own which rows make a frame
//! ([`super`]), nor its columns when the table has others by now ([`super::columns`]).

use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use dataflow::{Encoded, FrameId, Remedy, Schema, TableError, TableFault};

use super::given::Given;
use super::{ClickHouseTable, probe};
use crate::compress::Compressor;
use crate::native::{BlockPlan, Rows};
use crate::sort::SortKey;

/// What a frame is made by.
pub(super) struct Making<'a> {
    pub(super) block: &'a BlockPlan,
    pub(super) schema: &'a Schema,
    pub(super) unique_key: &'a [usize],
    pub(super) provenance: bool,
    pub(super) sort: Option<&'a SortKey>,
}

impl ClickHouseTable {
    /// The bounds of one frame in rows, by the mean over all rows: those that go no further are few, and weigh like the others.
    pub(super) fn frame_rows(&self, batches: &[RecordBatch]) -> usize {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let bytes: usize = batches.iter().map(slice_bytes).sum();
        let mean = (bytes / rows.max(1)).max(1);
        (self.config.frame_bytes_max / mean).clamp(1, self.config.frame_rows_max.max(1))
    }

    /// Bytes of a frame's body, rather too many than too few: one that outgrows its memory is copied whole.
    fn expected_bytes(&self, batches: &[RecordBatch], row_count: usize) -> usize {
        match self.body_bytes_per_64.load(Ordering::Relaxed) {
            // The first frame: hardly more than its columns. Memory that is not touched costs nothing.
            0 => {
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                let bytes: usize = batches.iter().map(slice_bytes).sum();
                bytes / rows.max(1) * row_count
            }
            // A sixteenth more than the frame before.
            per_64 => per_64 * row_count / 60,
        }
    }

    pub(super) fn making(&self) -> Making<'_> {
        Making {
            block: &self.block,
            schema: &self.plan.sent,
            unique_key: &self.plan.unique_key,
            provenance: self.plan.provenance,
            sort: self.plan.sort.as_ref(),
        }
    }

    pub(super) fn encode_frame(
        &self,
        making: &Making<'_>,
        given: &Given<'_>,
        rows: Rows<'_>,
        partition: &str,
        id: FrameId,
    ) -> Result<Encoded, String> {
        let batches = given.batches();
        let order = match making.sort {
            Some(key) => key.order(batches, rows)?,
            None => None,
        };
        let rows = order.as_deref().map_or(rows, Rows::Picked);
        let row_count = rows.count(batches.iter().map(RecordBatch::num_rows));
        let memory = self.spares.take(self.expected_bytes(batches, row_count));
        let front = memory.len();
        let mut compressor = Compressor::into_memory(self.config.compression, memory);
        let rest = making
            .block
            .encode(batches, rows, id, &mut |out| compressor.take_full(out))
            .map_err(|e| e.to_string())?;
        let body = self.spares.body(compressor.finish_with(rest), front);
        self.body_bytes_per_64.store(body.len() * 64 / row_count.max(1), Ordering::Relaxed);
        let probe = if making.provenance {
            probe::by_frame()
        } else {
            probe::sample(making.schema, making.unique_key, batches, rows)?
        };
        Ok(Encoded {
            id,
            table_partition: partition.to_owned(),
            rows: row_count as u64,
            body,
            probe,
            rows_from: given.rows_from(rows),
        })
    }

    pub(super) fn decode_error(&self, reason: String) -> TableError {
        TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: format!("a frame for table `{}` cannot be read back: {reason}", self.name),
        }
    }

    pub(super) fn encode_error(&self, reason: String) -> TableError {
        TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: format!("rows for table `{}` cannot be encoded: {reason}", self.name),
        }
    }
}

/// Bytes of the values in a batch, without what a slice leaves out.
pub(super) fn slice_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
