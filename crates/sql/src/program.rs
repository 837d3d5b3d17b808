//! Expressions over batches.
//!
//! Owns the evaluation: whole batches at once, and what happens to records that an expression has no value for. Does not own what the
//! values are for (`step`).
//!
//! A batch that fails is divided in halves until the records that fail are alone, so a batch without any costs one evaluation, and one with
//! a few costs twice as much for each. Whether a record fails does not depend on the records beside it: AND, OR, CASE and COALESCE
//! evaluate what they need from left to right, for a batch as for one record. A panic of a function fails its record as an error does (`panics`).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dataflow::ColumnType;
use dataflow::printing::escaped;
use datafusion_common::{DFSchema, DataFusionError, exec_err};
use datafusion_expr::Expr;
use datafusion_physical_expr::PhysicalExpr;

use crate::compile::Scope;
use crate::fault::{reworded, shown as shown_expr};
use crate::operand::{operand, strict};
use crate::{Fault, exact, nullable, panics, types};

/// Characters of a value in a message: enough to know it by.
const VALUE_CHARS_MAX: usize = 64;
/// Characters of the reason in a message.
const REASON_CHARS_MAX: usize = 200;
/// Characters of an expression in a message, and of a panic: with what stands around them they are no more than a reason.
const EXPRESSION_CHARS_MAX: usize = 80;
const PANIC_CHARS_MAX: usize = 48;
/// Values in a message.
const VALUES_MAX: usize = 4;

/// One expression and what it is for.
pub(crate) struct Compiled {
    /// The column that it makes; empty for a condition.
    pub(crate) label: String,
    pub(crate) expr: Expr,
    /// Its items become rows: NULL is an array without any.
    pub(crate) unnested: bool,
}

/// Expressions that are evaluated together.
pub(crate) struct Program {
    /// The input's columns that are read: number, name, type.
    operands: Vec<(usize, String, ColumnType)>,
    /// The same, as expressions see them.
    schema: SchemaRef,
    outputs: Vec<Output>,
}

struct Output {
    label: String,
    /// The expression, for a message.
    text: String,
    physical: Arc<dyn PhysicalExpr>,
    /// The type of the column that it makes.
    column_type: ColumnType,
    /// As Arrow: what the evaluation gives is converted to this.
    data_type: DataType,
    nullable: bool,
    /// Operands that it reads.
    reads: Vec<usize>,
}

/// A record that an expression has no value for.
pub(crate) struct Failed {
    pub(crate) row: usize,
    /// The column that was to be made of it, or that a condition reads alone; or empty.
    pub(crate) column: String,
    pub(crate) message: String,
}

/// The values of a batch.
pub(crate) struct Evaluated {
    /// One column for each expression, without the rows that failed.
    pub(crate) columns: Vec<ArrayRef>,
    /// In order of their rows.
    pub(crate) failed: Vec<Failed>,
}

impl Program {
    pub(crate) fn new(
        input: &dataflow::Schema,
        scope: &Scope,
        compiled: Vec<Compiled>,
    ) -> Result<Self, Fault> {
        let mut used = vec![false; input.columns().len()];
        for column in compiled.iter().flat_map(|one| one.expr.column_refs()) {
            if let Some(at) = input.index_of(&column.name) {
                used[at] = true;
            }
        }
        let read = || (0..used.len()).filter(|at| used[*at]);
        let operands =
            read().map(|at| (at, input.columns()[at].name.clone(), input.columns()[at].column_type.clone()));
        let operands: Vec<_> = operands.collect();
        let fields: Vec<Field> = read().map(|at| scope.schema.field(at).as_ref().clone()).collect();
        let schema = Arc::new(Schema::new(fields));
        let planned = DFSchema::try_from(Arc::clone(&schema)).map_err(|error| Fault::planning(&error))?;
        let outputs = compiled.into_iter().map(|one| Output::new(one, &planned)).collect::<Result<_, _>>()?;
        Ok(Self { operands, schema, outputs })
    }

    /// The type of the column that expression `at` makes.
    pub(crate) fn column_type(&self, at: usize) -> &ColumnType {
        &self.outputs[at].column_type
    }

    /// Evaluates every expression for every row.
    ///
    /// # Errors
    /// When the batch does not have the columns that the program was made for.
    pub(crate) fn evaluate(&self, rows: &RecordBatch) -> Result<Evaluated, String> {
        if let Some((_, name, _)) = self.operands.iter().find(|(at, ..)| *at >= rows.num_columns()) {
            return Err(format!("the batch has no column `{name}`"));
        }
        match self.columns(rows, 0..rows.num_rows()) {
            Ok(columns) => Ok(Evaluated { columns, failed: Vec::new() }),
            Err(_) => self.by_halves(rows),
        }
    }

    fn by_halves(&self, rows: &RecordBatch) -> Result<Evaluated, String> {
        let mut pieces = Vec::new();
        let mut failed = Vec::new();
        let whole = 0..rows.num_rows();
        let mut open = if whole.len() > 1 { halves(whole) } else { Vec::from([whole]) };
        while let Some(range) = open.pop() {
            match self.columns(rows, range.clone()) {
                Ok(columns) => pieces.push(columns),
                Err(error) if range.is_empty() => return Err(reworded(&error)),
                Err(error) if range.len() == 1 => failed.push(self.failure(rows, range.start, &error)),
                Err(_) => open.extend(halves(range)),
            }
        }
        let columns = (0..self.outputs.len()).map(|at| {
            let parts: Vec<&dyn Array> = pieces.iter().map(|columns| columns[at].as_ref()).collect();
            if parts.is_empty() {
                return Ok(arrow_array::new_empty_array(&self.outputs[at].data_type));
            }
            arrow_select::concat::concat(&parts).map_err(|error| error.to_string())
        });
        Ok(Evaluated { columns: columns.collect::<Result<_, _>>()?, failed })
    }

    fn columns(&self, rows: &RecordBatch, range: Range<usize>) -> Result<Vec<ArrayRef>, DataFusionError> {
        let batch = self.operands(rows, range)?;
        self.outputs.iter().map(|output| output.column(&batch)).collect()
    }

    fn operands(&self, rows: &RecordBatch, range: Range<usize>) -> Result<RecordBatch, DataFusionError> {
        let columns = self.operands.iter().map(|(at, _, column_type)| {
            let column = rows.column(*at);
            if range.len() == rows.num_rows() && !holds_hidden_items(column) {
                return operand(column, column_type);
            }
            operand(&alone(column, range.clone())?, column_type)
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(range.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Names the expression that fails, the reason and the values that it read.
    fn failure(&self, rows: &RecordBatch, row: usize, error: &DataFusionError) -> Failed {
        let Ok(batch) = self.operands(rows, row..row + 1) else {
            // A value that has no text: no expression was evaluated.
            let (_, name, _) = &self.operands[0];
            let label = if self.operands.len() == 1 { name } else { &self.outputs[0].label };
            return Failed { row, column: label.clone(), message: shortened_reason(error) };
        };
        let failing = self.outputs.iter().find_map(|output| Some((output, output.column(&batch).err()?)));
        let Some((output, error)) = failing else {
            return Failed { row, column: self.outputs[0].label.clone(), message: shortened_reason(error) };
        };
        let values = output
            .reads
            .iter()
            .take(VALUES_MAX)
            .map(|at| format!("`{}` is {}", self.operands[*at].1, shown(batch.column(*at))));
        let values = values.collect::<Vec<_>>().join(" and ");
        let place = if values.is_empty() { String::new() } else { format!(", where {values}") };
        let what = match output.label.as_str() {
            "" => "the condition".to_owned(),
            label => format!("`{label}`"),
        };
        let message = format!("{what} has no value: {}{place}", shortened_reason(&error));
        let column = match output.reads.as_slice() {
            [only] if output.label.is_empty() => self.operands[*only].1.clone(),
            _ => output.label.clone(),
        };
        Failed { row, column, message }
    }
}

/// Rows of a column. A slice of arrays or maps would keep the items of the rows around it, and a cast fails for those too.
fn alone(column: &ArrayRef, range: Range<usize>) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match column.data_type() {
        DataType::List(_) | DataType::Map(..) => {
            let rows = range.map(|row| row as u32).collect::<Vec<_>>();
            arrow_select::take::take(column, &arrow_array::UInt32Array::from(rows), None)
        }
        _ => Ok(column.slice(range.start, range.len())),
    }
}

/// Whether a column of arrays or maps is a slice, with items in memory that are none of its rows.
fn holds_hidden_items(column: &ArrayRef) -> bool {
    let (offsets, items) = match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            (lists.value_offsets(), lists.values().len())
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            (maps.value_offsets(), maps.entries().len())
        }
        _ => return false,
    };
    let ends = offsets.first().zip(offsets.last());
    ends.is_some_and(|(first, last)| *first > 0 || (*last as usize) < items)
}

/// The second half first: the stack gives the first one first.
fn halves(range: Range<usize>) -> Vec<Range<usize>> {
    let middle = range.start + range.len() / 2;
    vec![middle..range.end, range.start..middle]
}

fn shortened_reason(error: &DataFusionError) -> String {
    escaped(&reworded(error), REASON_CHARS_MAX).into_owned()
}

/// The only value of a column, for a message.
fn shown(column: &ArrayRef) -> String {
    if column.is_null(0) {
        return "NULL".to_owned();
    }
    let formatter = ArrayFormatter::try_new(column, &FormatOptions::default().with_null("NULL"));
    let text = formatter.and_then(|formatter| formatter.value(0).try_to_string());
    format!("`{}`", escaped(&text.unwrap_or_else(|error| error.to_string()), VALUE_CHARS_MAX))
}

impl Output {
    fn new(compiled: Compiled, schema: &DFSchema) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(message, None);
        let physical = exact::physical(&compiled.expr, schema).map_err(|error| Fault::planning(&error))?;
        let arrow = schema.as_arrow();
        let found = physical.data_type(arrow).map_err(|error| Fault::planning(&error))?;
        let nullable =
            nullable::may_be_null(&compiled.expr, schema).map_err(|error| Fault::planning(&error))?;
        let column_type = types::result(&found, nullable).map_err(fault)?;
        let data_type = column_type.arrow();
        let reads =
            compiled.expr.column_refs().into_iter().filter_map(|column| schema.maybe_index_of_column(column));
        let mut reads: Vec<_> = reads.collect();
        reads.sort_unstable();
        let nullable = column_type.is_nullable() || compiled.unnested;
        let text = escaped(&shown_expr(&compiled.expr), EXPRESSION_CHARS_MAX).into_owned();
        Ok(Self { label: compiled.label, text, physical, column_type, data_type, nullable, reads })
    }

    fn column(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        panics::caught(|| self.value(batch)).unwrap_or_else(|panic| {
            let (panic, text) = (escaped(&panic, PANIC_CHARS_MAX), &self.text);
            exec_err!("a function failed inside ({panic}), please report this with the expression `{text}`")
        })
    }

    fn value(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        let value = self.physical.evaluate(batch)?.into_array(batch.num_rows())?;
        let value = if *value.data_type() == self.data_type {
            value
        } else {
            arrow_cast::cast_with_options(&value, &self.data_type, &strict())?
        };
        // Some functions, such as `lcm`, give more digits than their type has, which no column could be sent with.
        exact::has_digits(&value)?;
        if value.len() != batch.num_rows() {
            return exec_err!("`{}` values for `{}` rows", value.len(), batch.num_rows());
        }
        if !self.nullable && value.null_count() > 0 {
            return exec_err!(
                "it is NULL, which an Array, a Map or a column without NULL cannot be; give a value with `coalesce(…, …)`"
            );
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
