//! Which tables the rows behind the last step go to.
//!
//! Owns the contract. Does not own the counting of what goes to several tables or to none (the engine does), nor the columns that a
//! table needs ([`crate::table`]).

use crate::Selected;

/// Distributes rows to the tables of a pipeline.
///
/// 1. Pure: the same rows always go to the same tables, also in a replay after a crash.
/// 2. An entry is a table, by its place among the tables for rows, and the rows that it gets; each table at most once.
/// 3. Every part is of the same rows: its batch has one row for each row of the batch that came in, in the same order, and only kept
///    rows are selected. So a row keeps its record.
/// 4. A row may be in several parts, or in none: then it is dropped by rule.
pub trait Router: Send + Sync {
    /// The parts of `rows`.
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)>;
}
