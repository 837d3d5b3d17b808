//! The last step before a table: rows to the table's columns, by name.
//!
//! Owns the conversion of values and the rejects of those that do not fit. Does not own the choice which column fills which (the
//! planner in `pipeline`), nor how NULL and DEFAULT are sent (`clickhouse`): a null in a column with a DEFAULT stands for it.
//!
//! | the table's column          | is filled by                         | a row is rejected if                |
//! |-----------------------------|--------------------------------------|-------------------------------------|
//! | of the same type            | the values as they are               | NULL, and the column takes none     |
//! | of a wider type             | the values, converted                | the same                            |
//! | of another type that may fit | the values, converted one by one    | the same, or a value does not fit   |
//! | without a column of its name | NULL, or its DEFAULT                | never                               |

mod convert;
pub mod types;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::SchemaRef;
use dataflow::{
    Batch, Column, ColumnType, OperatorError, Reason, Reject, Schema, Transform, Transformed, printing,
};

use types::{Conversion, conversion, limits};

const NAME: &str = "mapping";
/// Characters of a value that a message quotes.
const SHOWN_MAX: usize = 100;

/// What fills a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The place of the column that it is made of; `None` if there is none of its name.
    pub from: Option<usize>,
    /// True if its values are as a decoder made them: those of a computed column are checked against the range of the type too.
    pub is_untouched: bool,
    /// The type as a message names it.
    pub type_name: String,
}

/// The step.
pub struct Mapping {
    schema: Schema,
    /// The same columns, each with room for NULL: what they are before bad rows are taken out.
    loose: SchemaRef,
    fills: Vec<Filling>,
}

struct Filling {
    fill: Fill,
    from: Option<ColumnType>,
    conversion: Conversion,
    limits: Option<(i64, i64)>,
}

/// Why a column cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// No conversion keeps the value.
    Type,
    /// Nothing fills it, and it has neither NULL nor a DEFAULT.
    Missing,
}

/// How column `to` of a table is filled by values of type `from`, or by nothing.
///
/// # Errors
/// When it cannot be filled.
pub fn fits(from: Option<&ColumnType>, to: &Column) -> Result<Conversion, Unfit> {
    match from {
        None if !to.is_optional() => Err(Unfit::Missing),
        None => Ok(Conversion::Same),
        Some(from) => match conversion(from, &to.column_type) {
            Conversion::Absent => Err(Unfit::Type),
            fits => Ok(fits),
        },
    }
}

impl Mapping {
    /// Makes rows with the columns of `input` into rows with those of `schema`; `fills` has an entry for each of them.
    ///
    /// # Errors
    /// The place of the first column that cannot be filled, and why.
    pub fn new(input: &Schema, schema: Schema, fills: Vec<Fill>) -> Result<Self, (usize, Unfit)> {
        let mut fillings = Vec::with_capacity(fills.len());
        for (place, (fill, column)) in fills.into_iter().zip(schema.columns()).enumerate() {
            let from = fill.from.map(|at| input.columns()[at].column_type.clone());
            let conversion = fits(from.as_ref(), column).map_err(|unfit| (place, unfit))?;
            let is_in_range = conversion == Conversion::Lossless || fill.is_untouched;
            let limits = limits(&column.column_type)
                .filter(|_| from.is_some() && (!is_in_range || conversion == Conversion::Checked));
            fillings.push(Filling { fill, from, conversion, limits });
        }
        let fields = schema.arrow().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let loose = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { schema, loose, fills: fillings })
    }

    fn failed(error: impl std::fmt::Display) -> OperatorError {
        OperatorError { step: NAME.to_owned(), message: error.to_string() }
    }
}

/// Rows that do not fit: why, by row; the first column counts.
type Bad = std::collections::BTreeMap<usize, (usize, Reason, String)>;

impl Transform for Mapping {
    fn name(&self) -> &str {
        NAME
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let mut bad = Bad::new();
        let mut columns = Vec::with_capacity(self.fills.len());
        for (place, filling) in self.fills.iter().enumerate() {
            columns.push(self.column(place, filling, &batch.rows, &mut bad)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        if bad.is_empty() {
            let rows = RecordBatch::try_new_with_options(self.schema.arrow().clone(), columns, &options);
            return Ok(Transformed::all(Batch { rows: rows.map_err(Self::failed)?, ..batch }));
        }
        let rejects = bad.iter().map(|(row, why)| self.reject(&batch, *row, why)).collect();
        let keep: BooleanArray = (0..batch.len()).map(|row| Some(!bad.contains_key(&row))).collect();
        let rows = RecordBatch::try_new_with_options(self.loose.clone(), columns, &options);
        let batch = Batch { rows: rows.map_err(Self::failed)?, ..batch };
        let batch = batch.filter(&keep).map_err(Self::failed)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let columns = batch.rows.columns().to_vec();
        let rows = RecordBatch::try_new_with_options(self.schema.arrow().clone(), columns, &options);
        let rows = rows.map_err(Self::failed)?;
        Ok(Transformed { batch: Batch { rows, ..batch }, filtered: 0, rejects })
    }
}

impl Mapping {
    /// One column of the table; rows that do not fit are null in it and named in `bad`.
    fn column(
        &self,
        place: usize,
        filling: &Filling,
        rows: &RecordBatch,
        bad: &mut Bad,
    ) -> Result<ArrayRef, OperatorError> {
        let column = &self.schema.columns()[place];
        let Some(from) = filling.fill.from else {
            return Ok(new_null_array(&column.column_type.arrow(), rows.num_rows()));
        };
        let source = rows.columns().get(from).ok_or_else(|| {
            Self::failed(format!("the batch has `{}` columns, and none at `{from}`", rows.num_columns()))
        })?;
        let made = match &filling.from {
            Some(from) if filling.conversion != Conversion::Same => {
                convert::array(source, from, &column.column_type).map_err(Self::failed)?
            }
            _ => source.clone(),
        };
        if made.null_count() > source.null_count() {
            let lost = (0..made.len()).filter(|row| made.is_null(*row) && source.is_valid(*row));
            lost.for_each(|row| self.does_not_fit(place, source, row, bad));
        }
        if let Some((least, greatest)) = filling.limits {
            for row in convert::outside(&made, least, greatest) {
                self.does_not_fit(place, source, row, bad);
            }
        }
        if source.null_count() > 0 && !column.is_optional() {
            for row in (0..source.len()).filter(|row| source.is_null(*row)) {
                let name = &column.name;
                let message =
                    format!("NULL does not fit column `{name}`, which has neither NULL nor a DEFAULT");
                bad.entry(row).or_insert((place, Reason::Missing, message));
            }
        }
        Ok(made)
    }

    fn does_not_fit(&self, place: usize, source: &ArrayRef, row: usize, bad: &mut Bad) {
        let name = &self.schema.columns()[place].name;
        let type_name = &self.fills[place].fill.type_name;
        let value = convert::shown(source, row);
        let value = printing::escaped(&value, SHOWN_MAX);
        let message = format!("the value `{value}` does not fit column `{name}` of type {type_name}");
        bad.entry(row).or_insert((place, Reason::OutOfRange, message));
    }

    fn reject(&self, batch: &Batch, row: usize, why: &(usize, Reason, String)) -> Reject {
        let (place, reason, message) = why;
        Reject {
            partition: batch.partition.clone(),
            position: batch.positions[row],
            time_ms: batch.times_ms[row],
            reason: *reason,
            column: self.schema.columns()[*place].name.clone(),
            message: message.clone(),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
