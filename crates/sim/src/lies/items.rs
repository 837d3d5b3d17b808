//! Lies about which item of its record a row is of.
//!
//! Owns a step that gives all rows of a record the number of the item that is asked for, and origins of neighbours that change places. Does
//! not own the honest steps (`sim::items`).

use std::sync::Arc;

use dataflow::{Batch, Encoded, OperatorError, RecordBlock, RowsFrom, Schema, Transform, Transformed};

use crate::records::from_body;
use crate::route::record_of;

/// A step that makes rows of items, and of a record that is read again for one of them all rows.
pub struct WholeRecord(pub Arc<dyn Transform>);

impl Transform for WholeRecord {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn multiplies(&self) -> bool {
        self.0.multiplies()
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        self.0.apply(batch)
    }

    fn apply_of(&self, batch: Batch, block: &RecordBlock) -> Result<Transformed, OperatorError> {
        let mut made = self.0.apply_of(batch, block)?;
        if let Some(item) = block.item.filter(|_| self.multiplies()) {
            made.batch.items.fill(item);
        }
        Ok(made)
    }
}

/// Gives two rows of one record that stand side by side in a frame each other's origin.
pub fn swap_items(frame: &mut Encoded) {
    let Some((_, rows)) = from_body(&frame.body) else { return };
    let mut places: Vec<u32> = (0..rows.len()).map(|at| frame.rows_from.get(at)).collect();
    let mut at = 1;
    while at < rows.len() {
        if record_of(rows[at - 1][0]) == record_of(rows[at][0]) {
            places.swap(at - 1, at);
            at += 1;
        }
        at += 1;
    }
    frame.rows_from = RowsFrom::Picked(places);
}
