//! From the bytes of records to columns.
//!
//! Owns the contract between sources and formats. Does not own the formats themselves (the crate `formats`), nor the steps that a batch
//! meets before the lane (`crate::intake`).

use crate::{Batch, RecordBlock, Reject, Schema, Spans};

/// What a block became.
#[derive(Debug)]
pub struct Decoded {
    /// The good records, in order.
    pub batch: Batch,
    /// The others, in order. Where records hold several rows, refused rows stand behind the refused records.
    pub rejects: Vec<Reject>,
    /// How records became rows, if a record may hold several; `None` if each is one.
    pub several: Option<Several>,
}

/// The accounts of records that hold several rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Several {
    /// Records whose rows are in the batch or among the rejects.
    pub records: u64,
    /// Records that hold no row.
    pub empty: u64,
    /// How many of the last of [`Decoded::rejects`] are rows of these records.
    pub rejected_rows: usize,
}

/// Turns blocks into batches of the target's columns.
///
/// 1. Every record of the block is either a row of the batch or a reject: the two counts add up to the block's. If records may hold several rows
///    ([`Decoder::multiplies`]), a record is a reject, or is empty, or has rows, each in the batch at the record's position or among the
///    rejects, and [`Several`] says how many there are of each.
/// 2. A reject leaves no trace in the rows before and after it.
/// 3. Nothing is changed silently: a value that does not fit its column makes the record a reject.
/// 4. Pure: the same block gives the same result, on any thread, any number of times.
/// 5. Never panics, whatever the bytes.
///
/// Every format runs `dataflow::conformance::decoder`.
pub trait Decoder: Send + Sync {
    /// The columns of the batches, in order.
    fn schema(&self) -> &Schema;

    /// Whether one record may hold several rows.
    fn multiplies(&self) -> bool {
        false
    }

    /// Decodes a block.
    fn decode(&self, block: &RecordBlock) -> Decoded;

    /// The rows that the record at `row` of the block holds, each as the bytes of a record of its own, in order; `None` if it is no record that
    /// holds several. A dead letter of one row holds these bytes.
    fn split(&self, _block: &RecordBlock, _row: usize) -> Option<Spans> {
        None
    }
}
