//! Which tables a row goes to: found before the steps with state, used behind them.
//!
//! Owns the set of tables of each row, a column of bits beside its values, and the parts that the engine deals out by it. Does not own
//! the conditions (columns that `sql` has computed), nor the counting of what no table takes (the engine's, and the intake's).
//!
//! | a table takes | the rows                                                      |
//! |---------------|---------------------------------------------------------------|
//! | every row     | all                                                           |
//! | by condition  | for which its condition is true; NULL is not                  |
//! | the others    | for which no condition of another table is true               |
//!
//! A row that no table takes is filtered here, before its key counts as seen (C10). A row that a step behind the last one with state drops
//! ([`crate::ahead`]) has the empty set, and the router drops it.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, BooleanArray};
use arrow_schema::ArrowError;
use dataflow::{Batch, Column, ColumnType, Router, Selected};

/// Tables by place, a bit each.
pub type TableSet = u32;

/// Tables of a pipeline at the most: the bits of a [`TableSet`].
pub const TABLES_MAX: usize = TableSet::BITS as usize;

/// The set of one table.
pub fn only(place: usize) -> TableSet {
    1 << place
}

/// Which rows a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Every row.
    Every,
    /// Those for which this column of the input is true.
    If(usize),
    /// Those for which no column of an [`Takes::If`] is true.
    Otherwise,
}

/// Which rows each table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By table's place; at most [`TABLES_MAX`].
    pub takes: Vec<Takes>,
    /// The column that is false for kept rows that no table takes; `None` if there are none.
    pub passes: Option<usize>,
}

impl Routes {
    /// The column that holds the set of a row.
    pub fn column(name: &str) -> Column {
        Column::new(name, ColumnType::UInt32)
    }

    /// The rows that any table takes, and the set of each.
    ///
    /// # Errors
    /// When a condition is no column of truth values.
    pub(super) fn sets(&self, batch: Batch) -> Result<(Batch, Vec<TableSet>), ArrowError> {
        let always = self.of(|takes| matches!(takes, Takes::Every));
        let otherwise = self.of(|takes| matches!(takes, Takes::Otherwise));
        let mut sets: Vec<TableSet> = vec![0; batch.len()];
        for (place, takes) in self.takes.iter().enumerate() {
            let Takes::If(column) = takes else { continue };
            let values = truths(&batch, *column)?;
            for (row, set) in sets.iter_mut().enumerate() {
                if values.is_valid(row) && values.value(row) {
                    *set |= only(place);
                }
            }
        }
        for set in &mut sets {
            *set |= always | if *set == 0 { otherwise } else { 0 };
        }
        let passes = self.passes.map(|column| truths(&batch, column)).transpose()?;
        let is_dropped_behind = |row: usize| passes.is_some_and(|passes| !passes.value(row));
        for (row, set) in sets.iter_mut().enumerate().filter(|(row, _)| is_dropped_behind(*row)) {
            debug_assert!(row < batch.len());
            *set = 0;
        }
        let stays: Vec<bool> =
            sets.iter().enumerate().map(|(row, set)| *set != 0 || is_dropped_behind(row)).collect();
        if stays.iter().all(|stays| *stays) {
            return Ok((batch, sets));
        }
        let sets = sets.into_iter().zip(&stays).filter_map(|(set, stays)| stays.then_some(set)).collect();
        Ok((batch.filter(&stays.into())?, sets))
    }

    fn of(&self, is_of: impl Fn(&Takes) -> bool) -> TableSet {
        let places = self.takes.iter().enumerate().filter(|(_, takes)| is_of(takes));
        places.map(|(place, _)| only(place)).sum()
    }
}

fn truths(batch: &Batch, column: usize) -> Result<&BooleanArray, ArrowError> {
    let values = batch.rows.columns().get(column).and_then(|values| values.as_boolean_opt());
    values.ok_or_else(|| ArrowError::CastError("a condition that is no truth value".into()))
}

/// Deals rows out to the tables: each gets its own columns of the rows that it takes.
#[derive(Clone, Debug)]
pub struct ByTable {
    /// For each table the places of its columns, in its order.
    pub columns: Vec<Vec<usize>>,
    /// Where the set of a row stands; `None` if every table takes every row.
    pub set: Option<usize>,
}

impl Router for ByTable {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let sets = self.set.map(|at| {
            let column = rows.batch().columns().get(at).and_then(|column| column.as_primitive_opt());
            let sets: &arrow_array::PrimitiveArray<UInt32Type> =
                column.expect("the mapping has put the set there, and no step with state changes columns");
            sets.values()
        });
        let part = |(place, columns): (usize, &Vec<usize>)| {
            let taken = match sets {
                None => rows.clone(),
                Some(sets) => rows.only(|row| sets[row] & only(place) != 0),
            };
            let own = taken.columns(columns).expect("the mapping has made these columns");
            (place, own)
        };
        self.columns.iter().enumerate().map(part).collect()
    }
}

#[cfg(test)]
mod tests;
