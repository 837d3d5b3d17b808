//! The tables of a pipeline: those that its rows go to, and the one for its dead letters.
//!
//! Owns their order in a running lane (a table's *place*) and the check against the journal's. Does not own which rows go where
//! (a [`Router`]), nor a table's frontier and window ([`crate::target::Target`]).
//!
//! | a table of the file is, in the journal      | what follows                                            |
//! |---------------------------------------------|---------------------------------------------------------|
//! | unknown                                     | its genesis, with the next record                       |
//! | known for the same kind of rows             | it goes on                                              |
//! | known for the other kind of rows            | refused: rows and dead letters are counted apart        |
//!
//! A table of the journal that the file names no more is refused as long as inserts wait for it ([`crate::start::check`]).

use std::sync::Arc;

use dataflow::{Batch, Router, Selected, Table, Transform};
use protocol::Lane;
use protocol::record::TableGenesis;

use crate::EngineError;

/// The tables of a pipeline.
#[derive(Clone)]
pub struct Tables {
    /// Tables for rows; at least one. A table's place is its index here.
    rows: Vec<Arc<dyn Table>>,
    /// The table for dead letters; its place is behind all others.
    dead_letters: Arc<dyn Table>,
}

impl Tables {
    /// The tables for rows, in the order of their places, and the one for dead letters.
    ///
    /// # Errors
    /// When there is none for rows, or two have the same name.
    pub fn new(rows: Vec<Arc<dyn Table>>, dead_letters: Arc<dyn Table>) -> Result<Self, EngineError> {
        if rows.is_empty() {
            return Err(EngineError::Mismatch("a pipeline without a table has nowhere to write to".into()));
        }
        let tables = Self { rows, dead_letters };
        for (place, (table, _)) in tables.all().enumerate() {
            if tables.all().take(place).any(|(other, _)| other.name() == table.name()) {
                let name = table.name();
                return Err(EngineError::Mismatch(format!(
                    "table `{name}` is named twice: each table of a pipeline, the one for its dead letters too, needs a name of its own"
                )));
            }
        }
        Ok(tables)
    }

    /// Those for rows, by place.
    pub fn of_rows(&self) -> &[Arc<dyn Table>] {
        &self.rows
    }

    /// All of them by place, and whether they take dead letters.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<dyn Table>, bool)> {
        let rows = self.rows.iter().map(|table| (table, false));
        rows.chain(std::iter::once((&self.dead_letters, true)))
    }

    /// Whether one of them has the name.
    pub fn names(&self, name: &str) -> bool {
        self.all().any(|(table, _)| table.name() == name)
    }

    /// The genesis of those that the lane does not know.
    pub fn unknown(&self, lane: &Lane) -> Vec<TableGenesis> {
        let unknown = self.all().filter(|(table, _)| lane.table(table.name()).is_none());
        let genesis = |(table, takes_dead_letters): (&Arc<dyn Table>, bool)| TableGenesis {
            name: table.name().to_owned(),
            takes_dead_letters,
        };
        unknown.map(genesis).collect()
    }

    /// Whether each is for the rows that it was for so far.
    ///
    /// # Errors
    /// When one was for the other kind, with the way out.
    pub fn check_kinds(&self, lane: &Lane) -> Result<(), EngineError> {
        for (table, takes_dead_letters) in self.all() {
            let Some(known) = lane.table(table.name()).map(|at| &lane.tables[at]) else { continue };
            if known.takes_dead_letters != takes_dead_letters {
                let kind = |is_of_letters| if is_of_letters { "dead letters" } else { "rows" };
                return Err(EngineError::Mismatch(format!(
                    "table `{}` took the {} of this pipeline and is now named for its {}; name another table",
                    table.name(),
                    kind(known.takes_dead_letters),
                    kind(takes_dead_letters)
                )));
            }
        }
        Ok(())
    }
}

/// Which rows of a step go to a side output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideRows {
    /// Those that it finds [late](dataflow::Output::late_rows): rows of records.
    Late,
    /// Those that came by this [input](dataflow::Operator::inputs) and that it releases [without a match](dataflow::Output::unmatched_rows): rows of the
    /// step's making.
    Unmatched(usize),
}

/// A side output of a step: a table for rows that are not of its output.
#[derive(Clone)]
pub struct Side {
    /// The step, by its index among all steps of the lane.
    pub step: usize,
    /// Which of its rows; no other side output has the same.
    pub rows: SideRows,
    /// The table, by its place; behind those that take rows of the last step.
    pub table: usize,
    /// What brings the rows to the table's columns. It keeps every row.
    pub mapping: Arc<dyn Transform>,
}

/// The rows of step `step` for a side output, as their table has them, and the place of that table.
///
/// # Errors
/// When no table takes such rows, or one of them does not fit.
pub fn aside(
    sides: &[Side],
    (step, rows): (usize, SideRows),
    batch: Batch,
) -> Result<(usize, Batch), EngineError> {
    let Some(side) = sides.iter().find(|side| (side.step, side.rows) == (step, rows)) else {
        return Err(EngineError::Internal("rows for a side output of a step that was not asked for them"));
    };
    let len = batch.len();
    let made = side.mapping.apply(batch)?.batch;
    if made.len() != len {
        return Err(EngineError::Internal("rows of a side output that do not fit their table"));
    }
    Ok((side.table, made))
}

/// Rows behind the last step, and the tables that they go to.
pub struct Routed {
    /// The rows for each table that gets any, by its place.
    pub tables: Vec<(usize, Selected)>,
    /// Rows that go to no table.
    pub dropped: u64,
    /// Rows beyond the first of each that goes to several tables.
    pub more: u64,
}

/// Deals rows out to `tables` tables for rows; without a router each gets all of them.
///
/// # Errors
/// When the router breaks its contract.
pub fn route(router: Option<&dyn Router>, tables: usize, rows: Selected) -> Result<Routed, EngineError> {
    let Some(router) = router else {
        let more = rows.len() as u64 * (tables as u64 - 1);
        let mut all: Vec<_> = (1..tables).map(|place| (place, rows.clone())).collect();
        all.push((0, rows));
        return Ok(Routed { tables: all, dropped: 0, more });
    };
    let mut routed = router.route(&rows);
    routed.retain(|(_, rows)| !rows.is_empty());
    let mut times = vec![0_u8; rows.batch().num_rows()];
    let mut is_seen = vec![false; tables];
    let mut sum = 0;
    for (place, part) in &routed {
        let is_twice = is_seen.get_mut(*place).is_none_or(|seen| std::mem::replace(seen, true));
        if is_twice || part.batch().num_rows() != times.len() {
            return Err(EngineError::Internal("a router that deals out other rows, or a table twice"));
        }
        sum += part.len() as u64;
        part.stretches().iter().for_each(|s| times[s.start as usize..s.end as usize].fill(1));
    }
    let taken: u64 = times.iter().map(|times| u64::from(*times)).sum();
    let dropped = (rows.len() as u64)
        .checked_sub(taken)
        .ok_or(EngineError::Internal("a router that deals out rows that were dropped"))?;
    Ok(Routed { tables: routed, dropped, more: sum - taken })
}

#[cfg(test)]
mod tests;
