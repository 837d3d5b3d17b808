//! Steps without state that stand behind the last step with state, done before it.
//!
//! Owns the order of such work where the step with state only drops rows: what these steps make of a row does not depend on which rows
//! it drops. So they run in the decode job, on all cores, and a row that one of them fails on is rejected before its key counts as seen
//! (C10). A row that one of them drops goes on and is dropped behind the step with state, for its key does count as seen. Does not own
//! the steps, nor what becomes of the rows behind ([`crate::mapping::route`]).
//!
//! | a row that these steps | goes on                                                       |
//! |------------------------|---------------------------------------------------------------|
//! | keep                   | with the columns that they make                               |
//! | drop                   | with NULL in these, and false in the column that says so      |
//! | fail on                | not: it is a reject                                           |

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::ArrowError;
use dataflow::{Batch, Column, ColumnType, OperatorError, Schema, Transform, Transformed};

const NAME: &str = "ahead";

/// The step.
pub struct Ahead {
    steps: Vec<Arc<dyn Transform>>,
    /// The places of the columns of the input that the steps with state read.
    kept: Vec<usize>,
    schema: Schema,
}

impl Ahead {
    /// Does `steps`, each bound to the columns of the one before, at least one. Behind their columns, which `made` makes nullable where they are not, stand those
    /// of the input at `kept` under new names, and at the end, under the name `passes`, whether the steps keep the row.
    pub fn new(
        input: &Schema,
        steps: Vec<Arc<dyn Transform>>,
        made: impl Fn(&Column) -> Column,
        kept: Vec<(usize, String)>,
        passes: &str,
    ) -> Self {
        let last = steps.last().map_or(input, |step| step.schema());
        let mut columns: Vec<Column> = last.columns().iter().map(made).collect();
        columns.extend(
            kept.iter().map(|(at, name)| Column { name: name.clone(), ..input.columns()[*at].clone() }),
        );
        columns.push(Column::new(passes, ColumnType::Bool));
        Self { steps, kept: kept.into_iter().map(|(at, _)| at).collect(), schema: Schema::new(columns) }
    }

    fn failed(error: impl std::fmt::Display) -> OperatorError {
        OperatorError { step: NAME.to_owned(), message: error.to_string() }
    }

    /// The columns that the steps have made of `rows`, a row for each entry of `made_of`; NULL where it is none.
    fn spread(rows: &RecordBatch, made_of: &[Option<u32>]) -> Result<Vec<ArrayRef>, ArrowError> {
        if rows.num_rows() == made_of.len() {
            return Ok(rows.columns().to_vec());
        }
        let indices = UInt32Array::from_iter(made_of.iter().copied());
        rows.columns().iter().map(|column| arrow_select::take::take(column, &indices, None)).collect()
    }
}

impl Transform for Ahead {
    fn name(&self) -> &str {
        NAME
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let mut made = batch.clone();
        let mut rejects = Vec::new();
        for step in &self.steps {
            let done = step.apply(made)?;
            rejects.extend(done.rejects);
            made = done.batch;
        }
        // Positions ascend, and no step makes several rows of one record: each of these is a part of the batch's.
        let mut failed: Vec<u64> = rejects.iter().map(|reject| reject.position).collect();
        failed.sort_unstable();
        let gone = |position: &u64| failed.binary_search(position).is_ok();
        let dropped: Vec<usize> = (0..batch.len()).filter(|row| gone(&batch.positions[*row])).collect();
        let batch = batch.without(&dropped).map_err(Self::failed)?;
        let mut next = made.positions.iter().zip(0_u32..).peekable();
        let made_of: Vec<Option<u32>> = batch
            .positions
            .iter()
            .map(|position| next.next_if(|(made, _)| *made == position).map(|(_, row)| row))
            .collect();
        if next.peek().is_some() {
            return Err(Self::failed("a step has made a row of no record, or changed the order of the rows"));
        }
        let mut columns = Self::spread(&made.rows, &made_of).map_err(Self::failed)?;
        columns.extend(self.kept.iter().map(|at| batch.rows.column(*at).clone()));
        columns.push(Arc::new(BooleanArray::from_iter(made_of.iter().map(|row| Some(row.is_some())))));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.arrow().clone(), columns, &options);
        Ok(Transformed { batch: Batch { rows: rows.map_err(Self::failed)?, ..batch }, filtered: 0, rejects })
    }
}

#[cfg(test)]
mod tests;
