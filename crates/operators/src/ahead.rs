//! Steps without state that stand behind a step with state, done before it.
//!
//! Owns the order of such work where the steps with state only drop rows: what these steps make of a row does not depend on which rows
//! are dropped. So they run in the decode job, on all cores, and a row that one of them fails on is rejected before its first key counts as
//! seen (C10). A row that one of them drops stays in the batch, because its keys count as seen up to that step; a flag tells the lane where it is dropped
//! ([`crate::gate`] between steps with state, [`crate::mapping::route`] behind the last). Does not own the steps.
//!
//! The steps between two with state are a [`Segment`].
//!
//! | a row that a segment | stays in the batch                                                            |
//! |----------------------|-------------------------------------------------------------------------------|
//! | keeps                | with the columns that it makes                                                |
//! | drops                | with NULL in these and in those of later segments, and false in their flags   |
//! | fails on             | no: it is a reject                                                            |

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::ArrowError;
use dataflow::{Batch, Column, ColumnType, OperatorError, Reject, Schema, Transform, Transformed, position};

const NAME: &str = "ahead";

/// Steps without state that stand behind one with state, up to the next one with state.
pub struct Segment {
    /// The places of the columns in the segment's input that the steps with state before it read, and their names behind the step.
    pub kept: Vec<(usize, String)>,
    /// The steps, each bound to the columns of the one before; at least one.
    pub steps: Vec<Arc<dyn Transform>>,
    /// The name of the column that says whether a row is still there behind the segment.
    pub flag: String,
}

/// Steps without state that stand behind steps with state, as one step before these.
pub struct Ahead {
    segments: Vec<Segment>,
    schema: Schema,
}

/// The rows of a batch at one place of the chain: their positions, and some of their columns.
struct Part {
    positions: Vec<u64>,
    columns: Vec<ArrayRef>,
}

impl Ahead {
    /// Does `segments`, at least one. The columns are those of the last step, then those that each segment keeps, then the flags. `made`
    /// makes a column nullable that rows may lack.
    pub fn new(input: &Schema, segments: Vec<Segment>, made: impl Fn(&Column) -> Column) -> Self {
        let (mut kept, mut before) = (Vec::new(), input);
        for (at, segment) in segments.iter().enumerate() {
            let named = |(place, name): &(usize, String)| {
                let column = &before.columns()[*place];
                Column { name: name.clone(), ..if at == 0 { column.clone() } else { made(column) } }
            };
            kept.extend(segment.kept.iter().map(named));
            before = segment.steps.last().map_or(before, |step| step.schema());
        }
        let mut columns: Vec<Column> = before.columns().iter().map(&made).collect();
        columns.append(&mut kept);
        columns.extend(segments.iter().map(|segment| Column::new(&segment.flag, ColumnType::Bool)));
        Self { schema: Schema::new(columns), segments }
    }

    fn failed(error: impl std::fmt::Display) -> OperatorError {
        OperatorError { step: NAME.to_owned(), message: error.to_string() }
    }

    /// What the steps make of a batch: the columns that each segment keeps and then those of the last step, with the rows that were there
    /// then, and the rows that failed.
    fn chain(&self, batch: Batch) -> Result<(Vec<Part>, Vec<Reject>), OperatorError> {
        let (mut parts, mut rejects, mut batch) = (Vec::new(), Vec::new(), batch);
        for Segment { kept, steps, .. } in &self.segments {
            let columns = kept.iter().map(|(at, _)| batch.rows.column(*at).clone()).collect();
            parts.push(Part { positions: batch.positions.clone(), columns });
            for step in steps {
                let done = step.apply(batch)?;
                rejects.extend(done.rejects);
                batch = done.batch;
            }
        }
        parts.push(Part { positions: batch.positions, columns: batch.rows.columns().to_vec() });
        Ok((parts, rejects))
    }
}

/// For each of `positions`, the number of its row among those that were `there`, some of which `failed` later; `None` if they are the
/// same. All ascend.
fn rows_of(
    positions: &[u64],
    there: &[u64],
    failed: &[u64],
) -> Result<Option<Vec<Option<u32>>>, OperatorError> {
    if positions == there {
        return Ok(None);
    }
    let has_failed = |position: &u64| failed.binary_search(position).is_ok();
    let mut next = there.iter().zip(0_u32..).filter(|(position, _)| !has_failed(position)).peekable();
    let row = |position: &u64| next.next_if(|(there, _)| *there == position).map(|(_, row)| row);
    let rows = positions.iter().map(row).collect();
    match next.peek() {
        None => Ok(Some(rows)),
        Some(_) => Err(Ahead::failed("a step has made a row of no record, or changed the order of the rows")),
    }
}

/// The columns with these rows; NULL where it is none.
fn spread(columns: Vec<ArrayRef>, rows: &Option<Vec<Option<u32>>>) -> Result<Vec<ArrayRef>, ArrowError> {
    let Some(rows) = rows else { return Ok(columns) };
    let indices = UInt32Array::from_iter(rows.iter().copied());
    columns.iter().map(|column| arrow_select::take::take(column, &indices, None)).collect()
}

impl Transform for Ahead {
    fn name(&self) -> &str {
        NAME
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, mut batch: Batch) -> Result<Transformed, OperatorError> {
        if batch.items.is_empty() {
            return self.matched(batch);
        }
        // Rows are matched by position, which the rows of one record share. So each has its number in place of it meanwhile.
        let items = std::mem::take(&mut batch.items);
        let numbers = (0..batch.positions.len() as u64).collect();
        let positions = std::mem::replace(&mut batch.positions, numbers);
        let mut done = self.matched(batch)?;
        let era = done.batch.era;
        let row = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let place = |number: u64| Some((*positions.get(row(number))?, *items.get(row(number))?));
        let unknown = || Self::failed("a step has given a row another position");
        for reject in &mut done.rejects {
            let (low, item) = place(position::low(reject.position)).ok_or_else(unknown)?;
            (reject.position, reject.item) = (position::position(era, low), Some(item));
        }
        let places: Option<Vec<(u64, u32)>> =
            done.batch.positions.iter().map(|number| place(*number)).collect();
        (done.batch.positions, done.batch.items) = places.ok_or_else(unknown)?.into_iter().unzip();
        Ok(done)
    }
}

impl Ahead {
    /// As [`Transform::apply`], for rows with positions of their own.
    fn matched(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let (mut parts, rejects) = self.chain(batch.clone())?;
        // Positions ascend, and no step here makes several rows of one: each of these is a part of the batch's.
        let mut failed: Vec<u64> = rejects.iter().map(|reject| position::low(reject.position)).collect();
        failed.sort_unstable();
        let (positions, times_ms) = if failed.is_empty() {
            (batch.positions, batch.times_ms)
        } else {
            let rows = batch.positions.iter().zip(&batch.times_ms);
            rows.filter(|(position, _)| failed.binary_search(position).is_err()).unzip()
        };
        let last = parts.pop().into_iter();
        let (mut columns, mut flags): (Vec<ArrayRef>, Vec<ArrayRef>) = Default::default();
        for (at, part) in last.chain(parts).enumerate() {
            let rows = rows_of(&positions, &part.positions, &failed)?;
            // The first is the last step's, the second what is there before the first segment.
            if at != 1 {
                flags.push(Arc::new(match &rows {
                    None => BooleanArray::from(vec![true; positions.len()]),
                    Some(rows) => BooleanArray::from_iter(rows.iter().map(|row| Some(row.is_some()))),
                }));
            }
            columns.extend(spread(part.columns, &rows).map_err(Self::failed)?);
        }
        // Whether a row is there behind a segment is whether it is there before the next one.
        flags.rotate_left(1);
        columns.extend(flags);
        let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.arrow().clone(), columns, &options);
        let rows = rows.map_err(Self::failed)?;
        let batch = Batch {
            items: Vec::new(),
            era: batch.era,
            partition: batch.partition,
            rows,
            positions,
            times_ms,
        };
        Ok(Transformed { batch, filtered: 0, rejects })
    }
}

#[cfg(test)]
mod tests;
