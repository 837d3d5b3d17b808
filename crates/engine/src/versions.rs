//! The versions of rows, and rows that a later one of the same key replaces.
//!
//! Owns the numbers, and the removal of what a table says need not be sent ([`dataflow::Table::replaced`]). Does not own which table takes
//! versions, nor which rows have the same key.
//!
//! A row's version is a hybrid clock: the wall clock of the lane's owner in milliseconds, times 2^20, or one more than the version of the row
//! before, whichever is greater. So versions rise with every row in the order in which rows are sealed. Every seal records how far they are, and
//! the fold refuses one that goes back:
//!
//! | what happens                                  | why versions still rise                                                          |
//! |-----------------------------------------------|----------------------------------------------------------------------------------|
//! | a restart, another owner                      | it begins where the newest seal ends, or at its own clock if that is later        |
//! | rows were gathered and not sealed             | they were not sent (C2); that others get their versions harms nobody            |
//! | an owner that was fenced goes on              | it seals nothing more (C5); what it still sends was sealed before, with its bytes |
//! | a frame is sent again, or in pieces           | its rows keep the versions that they were sealed with                             |
//! | a record is read again (a replay, a rewind)   | it is sealed again, later, and wins over what it was before                       |
//! | the clock goes back                           | the number of the row before decides                                              |
//! | the store is lost, or is an older copy        | the clock alone decides: it must not have been ahead of what it shows now           |

use std::sync::Arc;

use arrow_array::UInt64Array;
use dataflow::{Selected, Table, TableError};

use crate::EngineError;
use crate::origins::Origins;

/// Rows of one millisecond before versions run ahead of the clock.
const PER_MS_BITS: u32 = 20;

/// A clock that shows a later time than this is wrong (the year 2100): the numbers above it are kept for rows.
const WALL_MS_MAX: i64 = (1 << 42) - (1 << 38);

/// The versions of a lane's rows.
#[derive(Debug)]
pub struct Versions {
    /// The least that the next row may get.
    next: u64,
    /// True if a table takes them.
    is_used: bool,
}

impl Versions {
    /// Versions from `next` on, as the journal says, for tables of which any takes them.
    pub fn new<'a>(next: u64, mut tables: impl Iterator<Item = &'a Arc<dyn Table>>) -> Self {
        Self { next, is_used: tables.any(|table| table.version_column().is_some()) }
    }

    /// What a seal of all rows so far records; 0 if no table takes versions.
    pub fn recorded(&self) -> u64 {
        if self.is_used { self.next } else { 0 }
    }

    /// The versions of so many rows: the first of them.
    fn take(&mut self, rows: usize, wall_ms: i64) -> u64 {
        let by_clock = (wall_ms.clamp(0, WALL_MS_MAX) as u64) << PER_MS_BITS;
        let first = self.next.max(by_clock);
        self.next = first + rows as u64;
        first
    }

    /// Rows for a table, with their versions behind them if it takes any.
    ///
    /// # Errors
    /// When the table's column is of another type.
    pub fn put(
        &mut self,
        table: &dyn Table,
        rows: Selected,
        wall_ms: impl FnOnce() -> i64,
    ) -> Result<Selected, EngineError> {
        let Some(column) = table.version_column() else { return Ok(rows) };
        // Those that go no further have one too: a row's version is its number in the batch, from the first.
        let count = rows.batch().num_rows();
        let first = self.take(count, wall_ms());
        let versions = UInt64Array::from_iter_values(first..first + count as u64);
        let field = column.arrow().with_nullable(false);
        let versioned = rows.with_column(field, Arc::new(versions));
        versioned.map_err(|_| EngineError::Internal("a table whose versions are no UInt64"))
    }
}

/// Takes out the rows that later ones of the cut replace, with their origins; says how many they are.
///
/// # Errors
/// When the table cannot tell.
pub fn remove_replaced(
    table: &dyn Table,
    rows: &mut [Selected],
    origins: &mut Origins,
) -> Result<u64, TableError> {
    let replaced = table.replaced(rows)?;
    if replaced.is_empty() {
        return Ok(0);
    }
    let mut left = replaced.as_slice();
    let mut first = 0;
    for (rows, part) in rows.iter_mut().zip(&mut origins.parts) {
        let end = first + rows.len() as u32;
        let (own, behind) = left.split_at(left.partition_point(|number| *number < end));
        if !own.is_empty() {
            let own: Vec<u32> = own.iter().map(|number| number - first).collect();
            *rows = rows.except(&own);
            part.remove(&own);
        }
        (first, left) = (end, behind);
    }
    Ok(replaced.len() as u64)
}

#[cfg(test)]
mod tests;
