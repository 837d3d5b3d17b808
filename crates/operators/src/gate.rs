//! Where a step without state ends a row that it has dropped ahead of time ([`crate::ahead`]).
//!
//! Owns that alone: rows whose flag is false are filtered here, in the lane, so that no step with state behind it learns their keys or
//! counts them. Does not own the flag, which is computed ahead ([`crate::ahead`]), nor the routing of rows to tables (`mapping::route`). It
//! computes nothing, and gives the rows the columns that the next step with state knows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, SchemaRef};
use dataflow::{Batch, Operator, OperatorError, Output, Probed, Schema, State};

const NAME: &str = "gate";

/// The step that removes rows which a step has dropped ahead of time.
#[derive(Clone, Debug)]
pub struct Gate {
    flag: usize,
    columns: Vec<usize>,
    schema: Schema,
}

impl Gate {
    /// Drops rows whose column `flag` is not true. `columns` are the places of the columns that are passed on, and `schema` is their schema.
    pub fn new(flag: usize, columns: Vec<usize>, schema: Schema) -> Self {
        Self { flag, columns, schema }
    }

    /// The columns of the kept rows.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    fn failed(error: impl std::fmt::Display) -> OperatorError {
        OperatorError { step: NAME.to_owned(), message: error.to_string() }
    }

    /// The columns of the next step, as they came: a text may be bytes, and a column without nulls may have had some before.
    fn arrow(&self, rows: &RecordBatch) -> SchemaRef {
        let field = |(field, at): (&std::sync::Arc<Field>, &usize)| {
            let column = rows.column(*at);
            let is_nullable = field.is_nullable() || column.null_count() > 0;
            Field::new(field.name(), column.data_type().clone(), is_nullable)
        };
        let fields: Vec<Field> = self.schema.arrow().fields().iter().zip(&self.columns).map(field).collect();
        std::sync::Arc::new(arrow_schema::Schema::new(fields))
    }
}

impl Operator for Gate {
    fn name(&self) -> &str {
        NAME
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let mut batch = probed.batch;
        let flags = batch.rows.columns().get(self.flag).and_then(|flags| flags.as_boolean_opt());
        let flags = flags.ok_or_else(|| Self::failed("a batch without the flag of its rows"))?;
        let stays = |row: usize| flags.is_valid(row) && flags.value(row);
        let dropped: Vec<usize> = (0..flags.len()).filter(|row| !stays(*row)).collect();
        let filtered = dropped.len() as u64;
        batch = batch.without(&dropped).map_err(Self::failed)?;
        let columns = self.columns.iter().map(|at| batch.rows.column(*at).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let rows = RecordBatch::try_new_with_options(self.arrow(&batch.rows), columns, &options);
        batch.rows = rows.map_err(Self::failed)?;
        Ok(Output { filtered, ..Output::all(batch) })
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

#[cfg(test)]
mod tests;
