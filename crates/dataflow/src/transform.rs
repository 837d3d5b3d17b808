//! Steps that keep nothing from one batch to the next: filters, projections, expressions.
//!
//! Owns the contract that lets such a step run on any thread, before the lane or behind it. Does not own state or order
//! ([`crate::operator`]), nor the text that a step is made of (`sql`).

use std::sync::Arc;

use crate::{Batch, OperatorError, RecordBlock, Reject, Schema};

/// What a stateless step made of a batch.
#[derive(Debug)]
pub struct Transformed {
    /// The rows that are kept, in order, with the columns of [`Transform::schema`]. A step that makes several rows of one record repeats the
    /// record's position and time.
    pub batch: Batch,
    /// Records dropped by a rule that the user wrote.
    pub filtered: u64,
    /// Records that the step fails on, in order of their positions. Partition, position, time, reason, column and message are filled
    /// in; the caller adds the record's bytes, key and headers.
    pub rejects: Vec<Reject>,
}

impl Transformed {
    /// Every row is kept.
    pub fn all(batch: Batch) -> Self {
        Self { batch, filtered: 0, rejects: Vec::new() }
    }
}

/// A step without state.
///
/// 1. Every record of the batch is kept (as one row or more, side by side), filtered, or rejected: the three counts add up to the records put in. A step that
///    makes rows drops none of those by itself; the step behind it does.
/// 2. Pure: the same batch gives the same result, on any thread, any number of times. So a replay after a crash makes the same rows.
/// 3. A record that the step fails on becomes a reject, and the other records are processed as if it had not been there.
/// 4. An error is a fault of the pipeline or of the program, never of one record.
pub trait Transform: Send + Sync {
    /// The step's word in the pipeline file.
    fn name(&self) -> &str;

    /// The columns of the rows that it makes, in order.
    fn schema(&self) -> &Schema;

    /// Whether one record may become several rows.
    fn multiplies(&self) -> bool {
        false
    }

    /// The number by which the step finds its answers in what was [found](RecordBlock::found) for the block; `None` if its rows do not depend on that. What is found may
    /// be something else when the block is read again.
    fn looks_up(&self) -> Option<u32> {
        None
    }

    /// The same step without its metrics, for whoever runs it only to learn what the steps behind it will see; `None` if it has none.
    fn quietly(&self) -> Option<Arc<dyn Transform>> {
        None
    }

    /// Does the step's work.
    ///
    /// # Errors
    /// When the batch does not have the columns that the step was made for.
    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError>;

    /// As [`apply`](Self::apply), with the block that the rows are of: for a step that takes what was [found](RecordBlock::found) for it. Pure in both.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); and when nothing was found for a step that needs it.
    fn apply_of(&self, batch: Batch, _block: &RecordBlock) -> Result<Transformed, OperatorError> {
        self.apply(batch)
    }
}
