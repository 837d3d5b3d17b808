//! From the bytes of records to columns.
//!
//! Owns the contract between sources and formats. The formats themselves are in the crate `formats`.

use crate::{Batch, RecordBlock, Reject, Schema};

/// What a block became.
#[derive(Debug)]
pub struct Decoded {
    /// The good records, in order.
    pub batch: Batch,
    /// The others, in order.
    pub rejects: Vec<Reject>,
}

/// Turns blocks into batches of the target's columns.
///
/// 1. Every record of the block is either a row of the batch or a reject: the two counts add up to the block's.
/// 2. A reject leaves no trace in the rows before and after it.
/// 3. Nothing is changed silently: a value that does not fit its column makes the record a reject.
/// 4. Pure: the same block gives the same result, on any thread, any number of times.
/// 5. Never panics, whatever the bytes.
pub trait Decoder: Send + Sync {
    /// The columns of the batches, in order.
    fn schema(&self) -> &Schema;

    /// Decodes a block.
    fn decode(&self, block: &RecordBlock) -> Decoded;
}
