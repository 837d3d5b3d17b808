//! Several tables in one pipeline: which rows a record becomes, and which tables they go to.
//!
//! Owns the rule ([`Plan::rows_of`]), and the step and the router that follow it. Does not own how many tables a seed has (`sim::plan`),
//! nor what they hold (`sim::server`). The oracle asks the rule for one record; the step and the router apply it to batches.

use dataflow::{Batch, Operator, OperatorError, Output, Probed, Router, Selected, State};

use crate::plan::Plan;
use crate::records::{Row, from_columns, to_columns};

/// What is added to the id of a record for its second row.
pub const SECOND: u64 = 1 << 40;

/// One record in so many has a second row.
const SECOND_ONE_IN: u64 = 5;

/// The record that a row was made of, by its id.
pub fn record_of(row_id: u64) -> u64 {
    row_id % SECOND
}

/// Whether the row of `key` goes to the table that is the `at`th of `tables`.
fn is_for(key: u64, at: usize, tables: usize) -> bool {
    let set = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (1 << tables);
    set & (1 << at) != 0
}

fn has_second(id: u64) -> bool {
    id.is_multiple_of(SECOND_ONE_IN)
}

impl Plan {
    /// The rows of a record that came through dedup, each with the place of its table.
    pub fn rows_of(&self, row: Row) -> Vec<(usize, Row)> {
        let second = (self.multiplies && has_second(row[0])).then(|| [row[0] + SECOND, row[1], row[2]]);
        let places = self.tables.iter().enumerate();
        let places = places.filter(|(at, _)| !self.is_routed || is_for(row[1], *at, self.tables.len()));
        places
            .flat_map(|(_, place)| [Some(row), second].into_iter().flatten().map(|row| (*place, row)))
            .collect()
    }

    /// Whether more than one row may be made of the record.
    pub fn is_shared(&self, row: Row) -> bool {
        self.multiplies || self.rows_of(row).len() > 1
    }

    /// Whether no table gets rows of this key.
    pub fn is_dropped(&self, key: u64) -> bool {
        self.rows_of([1, key, 0]).is_empty()
    }
}

/// A step that makes two rows of some records.
pub struct Twice;

impl Operator for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let Batch { partition, era, rows, positions, times_ms, .. } = probed.batch;
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for (row, place) in from_columns(&rows).into_iter().zip(positions.into_iter().zip(times_ms)) {
            all.push(row);
            places.push(place);
            if has_second(row[0]) {
                all.push([row[0] + SECOND, row[1], row[2]]);
                places.push(place);
            }
        }
        let added = (all.len() - rows.num_rows()) as u64;
        let (positions, times_ms) = places.into_iter().unzip();
        let batch = Batch { items: Vec::new(), era, partition, rows: to_columns(&all), positions, times_ms };
        Ok(Output { added, ..Output::all(batch) })
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

/// Deals rows out by their keys: to one table, to several, or to none.
pub struct ByKey {
    /// How many tables there are.
    pub tables: usize,
}

impl Router for ByKey {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let keys: Vec<u64> = from_columns(rows.batch()).into_iter().map(|row| row[1]).collect();
        let part = |at| (at, rows.only(|row| is_for(keys[row], at, self.tables)));
        (0..self.tables).map(part).collect()
    }
}
