//! Decoded rows and where each of them came from.
//!
//! Owns the pairing of Arrow columns with origins, so that a filter never separates a row from its position. Does not own which rows are
//! removed (each step), nor rows that are left out without moving others (`batch::selected`).

pub mod selected;
mod without;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;

use crate::Partition;
use crate::position::{self, Position};

/// Rows of one partition, in the partition's order.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Where the rows come from.
    pub partition: Partition,
    /// The columns; at least one, in the order of the schema of the step that made them.
    pub rows: RecordBatch,
    /// The era of all rows: the high half of their positions.
    pub era: u64,
    /// The low half of each row's position; same length as `rows`.
    pub positions: Vec<u64>,
    /// The record's time of each row in Unix milliseconds, or [`TIME_UNKNOWN_MS`](crate::block::TIME_UNKNOWN_MS):
    /// the broker's until a step takes it from a column.
    pub times_ms: Vec<i64>,
    /// For rows that a step made of a record's array: which item of it each row was made of, from 0, ascending within a record; same length as `rows`
    /// then. Empty where each row is all of its record.
    pub items: Vec<u32>,
}

impl Batch {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// The position of a row; panics when `row >= len()`.
    pub fn position(&self, row: usize) -> Position {
        position::position(self.era, self.positions[row])
    }

    /// The item of its record's array that a row was made of; `None` if it is all of its record.
    pub fn item(&self, row: usize) -> Option<u32> {
        self.items.get(row).copied()
    }

    /// The row of the record at this position, or one of them; `None` if it is not here.
    pub fn row_of(&self, at: Position) -> Option<usize> {
        let row = self.positions.binary_search(&position::low(at)).ok()?;
        (position::era(at) == self.era).then_some(row)
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The same without any row.
    #[must_use]
    pub fn without_all(self) -> Self {
        let rows = self.rows.slice(0, 0);
        Self { rows, positions: Vec::new(), times_ms: Vec::new(), items: Vec::new(), ..self }
    }

    /// Removes rows, in place where nothing else holds the columns. `dropped` are row numbers, ascending and below `len()`.
    ///
    /// # Errors
    /// When a column is of a form that cannot be filtered.
    pub fn without(mut self, dropped: &[usize]) -> Result<Self, ArrowError> {
        if dropped.is_empty() {
            return Ok(self);
        }
        if dropped.len() == self.len() {
            return Ok(self.without_all());
        }
        let stay: Vec<_> = without::stretches(dropped, self.len()).collect();
        self.rows = without::keep(self.rows, &stay)?;
        without::keep_items(&mut self.positions, &stay);
        without::keep_items(&mut self.times_ms, &stay);
        if !self.items.is_empty() {
            without::keep_items(&mut self.items, &stay);
        }
        Ok(self)
    }

    /// Keeps the rows whose entry in `keep` is true; a null counts as false, as in SQL.
    ///
    /// # Errors
    /// When `keep` is not as long as the batch.
    pub fn filter(self, keep: &BooleanArray) -> Result<Self, ArrowError> {
        let rows = arrow_select::filter::filter_record_batch(&self.rows, keep)?;
        if rows.num_rows() == self.len() {
            return Ok(self);
        }
        let mut positions = Vec::with_capacity(rows.num_rows());
        let mut times_ms = Vec::with_capacity(rows.num_rows());
        let mut items = Vec::with_capacity(if self.items.is_empty() { 0 } else { rows.num_rows() });
        for row in 0..keep.len() {
            if keep.is_valid_true(row) {
                positions.push(self.positions[row]);
                times_ms.push(self.times_ms[row]);
                items.extend(self.item(row));
            }
        }
        Ok(Self { rows, positions, times_ms, items, ..self })
    }
}

trait ValidTrue {
    fn is_valid_true(&self, row: usize) -> bool;
}

impl ValidTrue for BooleanArray {
    fn is_valid_true(&self, row: usize) -> bool {
        use arrow_array::Array;
        self.is_valid(row) && self.value(row)
    }
}
