//! The rows that a table is given to encode.
//!
//! Owns their two numberings: by batch and row, as the encoder reads them, and among all rows that are kept, as their origins are kept
//! ([`RowsFrom`]). Does not own which rows are kept (the steps and the router), nor how they are cut into frames (`clickhouse::table`).

use std::cell::OnceCell;
use std::ops::Range;

use arrow_array::RecordBatch;
use dataflow::{RowsFrom, Selected};

use crate::native::{RowRef, Rows};

/// The batches that a table is given to encode, and which of their rows are kept.
pub(super) struct Given<'a> {
    selected: &'a [Selected],
    batches: Vec<RecordBatch>,
    stretches: Vec<&'a [Range<u32>]>,
    /// Made when a frame is the first to pick rows one by one.
    numbers: OnceCell<Vec<Numbers>>,
}

/// The numbers of a batch's rows among all rows that are kept.
struct Numbers {
    /// Of the first row.
    first: u32,
    /// Of each row, if some of the batch do not go on; what stands for those is nobody's.
    each: Vec<u32>,
}

impl<'a> Given<'a> {
    pub(super) fn new(selected: &'a [Selected]) -> Self {
        Self {
            selected,
            batches: selected.iter().map(|rows| rows.batch().clone()).collect(),
            stretches: selected.iter().map(Selected::stretches).collect(),
            numbers: OnceCell::new(),
        }
    }

    /// The batches, with rows that go no further.
    pub(super) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The rows that are kept.
    pub(super) fn rows(&self) -> Rows<'_> {
        if self.selected.iter().all(Selected::is_all) { Rows::All } else { Rows::Stretches(&self.stretches) }
    }

    /// How many go on.
    pub(super) fn len(&self) -> usize {
        self.selected.iter().map(Selected::len).sum()
    }

    /// The rows of a frame by their numbers among all that are kept; `rows` are [all of these](Self::rows), or picked from them.
    pub(super) fn rows_from(&self, rows: Rows<'_>) -> RowsFrom {
        let Rows::Picked(picked) = rows else { return RowsFrom::Run(0..self.len() as u32) };
        let batches = self.numbers.get_or_init(|| numbers(self.selected));
        let number = |row: &RowRef| batches[row.batch as usize].of(row.row);
        let numbers: Vec<u32> = picked.iter().map(number).collect();
        let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        match numbers.first() {
            Some(begin) if is_run => RowsFrom::Run(*begin..*begin + numbers.len() as u32),
            _ => RowsFrom::Picked(numbers),
        }
    }
}

impl Numbers {
    fn of(&self, row: u32) -> u32 {
        self.each.get(row as usize).copied().unwrap_or(self.first + row)
    }
}

fn numbers(selected: &[Selected]) -> Vec<Numbers> {
    let mut next = 0;
    let numbers = selected.iter().map(|rows| {
        let (first, mut each) = (next, Vec::new());
        next += rows.len() as u32;
        if !rows.is_all() {
            each.resize(rows.batch().num_rows(), 0);
            let mut numbers = first..;
            for stretch in rows.stretches() {
                let own = &mut each[stretch.start as usize..stretch.end as usize];
                own.iter_mut().zip(&mut numbers).for_each(|(slot, number)| *slot = number);
            }
        }
        Numbers { first, each }
    });
    numbers.collect()
}
