//! Rows of a block in the form in which a cut gathers them.
//!
//! Owns their columns and their origins, which are the same when a frame is made again ([`crate::remake`]). Does not own what the steps make of
//! them ([`crate::lane`]) or the cut ([`crate::cut`]).

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{RecordBlock, Selected};

use crate::EngineError;
use crate::origins::Part;

/// Where the `rows` of a batch come from, each of which stands at its entry of `positions`, and of `items` if there are any; their times are those that
/// the source gave, whatever the steps took.
pub fn part(
    partition: u32,
    (positions, items): (Vec<u64>, &[u32]),
    rows: &Selected,
    block: &RecordBlock,
    is_derived: bool,
) -> Part {
    // As many rows as records: each row's record has the row's number.
    let is_whole = positions.len() == block.len() && !is_derived;
    let positions = if rows.is_all() { positions } else { rows.gather(&positions) };
    let items = if items.is_empty() { Vec::new() } else { rows.gather(items) };
    let times_ms = if is_whole {
        rows.gather(&block.times_ms)
    } else {
        // Both ascend, so one pass finds every row's record; several rows may be of one.
        let mut records = block.positions.iter().zip(&block.times_ms).peekable();
        let mut time = |position: &u64| {
            while records.next_if(|(p, _)| *p < position).is_some() {}
            records.peek().filter(|(p, _)| *p == position).map_or(TIME_UNKNOWN_MS, |(_, t)| **t)
        };
        positions.iter().map(&mut time).collect()
    };
    Part { partition, era: block.era, positions, times_ms, items }
}

/// The columns that go to a table; those behind them were for the steps alone.
///
/// # Errors
/// When the batch does not have them.
pub fn written(rows: Selected, columns: usize) -> Result<Selected, EngineError> {
    if rows.batch().num_columns() <= columns {
        return Ok(rows);
    }
    rows.first_columns(columns)
        .map_err(|_| EngineError::Internal("a batch whose columns cannot be taken out"))
}
