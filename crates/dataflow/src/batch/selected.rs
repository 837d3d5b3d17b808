//! The kept rows of a record batch, while the dropped ones stay where they are.
//!
//! Owns which rows are kept. A step that drops a tenth of the rows leaves stretches of ten; compacting them costs more than
//! knowing where they are, because the encoder reads every column anyway and writes the kept rows one after the other. Does not own
//! when that is worth it: dropped rows keep their memory alive for as long as the kept ones.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema};

use super::without;

/// A record batch, and which of its rows are kept.
///
/// So a row has two numbers: its own in the batch, which [`stretches`](Self::stretches) are made of, and one among the kept rows.
#[derive(Clone, Debug)]
pub struct Selected {
    batch: RecordBatch,
    /// Runs of kept rows: not empty, ascending, not touching.
    stretches: Vec<Range<u32>>,
    /// Rows in `stretches`.
    len: usize,
}

impl Selected {
    /// A selection of every row.
    pub fn all(batch: RecordBatch) -> Self {
        Self::without(batch, &[])
    }

    /// All rows but those in `dropped`: row numbers, ascending and below the number of rows.
    pub fn without(batch: RecordBatch, dropped: &[usize]) -> Self {
        let rows = batch.num_rows();
        let row = |n: usize| u32::try_from(n).expect("a batch has fewer than 2^32 rows");
        let mut stretches = Vec::with_capacity(dropped.len() + 1);
        stretches
            .extend(without::stretches(dropped, rows).map(|stretch| row(stretch.start)..row(stretch.end)));
        let len = stretches.iter().map(Range::len).sum();
        Self { batch, stretches, len }
    }

    /// Of the kept rows, those for which `keep` says so, by their numbers in the batch.
    pub fn only(&self, mut keep: impl FnMut(usize) -> bool) -> Self {
        let mut stretches: Vec<Range<u32>> = Vec::new();
        for row in self.stretches.iter().cloned().flatten().filter(|row| keep(*row as usize)) {
            match stretches.last_mut() {
                Some(last) if last.end == row => last.end = row + 1,
                _ => stretches.push(row..row + 1),
            }
        }
        let len = stretches.iter().map(Range::len).sum();
        Self { batch: self.batch.clone(), stretches, len }
    }

    /// The same rows with the first `columns` columns alone.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn first_columns(self, columns: usize) -> Result<Self, ArrowError> {
        let first: Vec<usize> = (0..columns).collect();
        self.columns(&first)
    }

    /// The same rows with these columns, in this order.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn columns(self, columns: &[usize]) -> Result<Self, ArrowError> {
        Ok(Self { batch: self.batch.project(columns)?, ..self })
    }

    /// The same rows with one more column, which has a value for every row of the batch.
    ///
    /// # Errors
    /// When it has more values or fewer, or another type than its field says.
    pub fn with_column(self, field: Field, values: ArrayRef) -> Result<Self, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.batch.num_rows()));
        let fields = self.batch.schema_ref().fields().iter().cloned().chain([Arc::new(field)]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = self.batch.columns().iter().cloned().chain([values]).collect();
        Ok(Self { batch: RecordBatch::try_new_with_options(schema, columns, &options)?, ..self })
    }

    /// Without some of the kept rows: their numbers among these, ascending.
    pub fn except(&self, numbers: &[u32]) -> Self {
        let (mut number, mut left) = (0, numbers.iter().peekable());
        self.only(|_| {
            let is_left = left.next_if_eq(&&number).is_none();
            number += 1;
            is_left
        })
    }

    /// The batch with all of its rows, dropped ones included.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The kept rows, by their numbers in the batch: stretches that are not empty, ascend and do not touch.
    pub fn stretches(&self) -> &[Range<u32>] {
        &self.stretches
    }

    /// How many rows are kept.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no row is kept.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if every row is kept.
    pub fn is_all(&self) -> bool {
        self.len == self.batch.num_rows()
    }

    /// Of items that belong to the rows of the batch, those of the kept rows; panics when there are fewer items than rows.
    pub fn of<'a, T>(&'a self, items: &'a [T]) -> impl Iterator<Item = &'a T> {
        self.parts_of(items).flatten()
    }

    /// As [`of`](Self::of), one after the other in memory.
    pub fn gather<T: Copy>(&self, items: &[T]) -> Vec<T> {
        let mut gathered = Vec::with_capacity(self.len);
        self.parts_of(items).for_each(|part| gathered.extend_from_slice(part));
        gathered
    }

    fn parts_of<'a, T>(&'a self, items: &'a [T]) -> impl Iterator<Item = &'a [T]> {
        self.stretches.iter().map(|stretch| &items[stretch.start as usize..stretch.end as usize])
    }
}

#[cfg(test)]
mod tests;
