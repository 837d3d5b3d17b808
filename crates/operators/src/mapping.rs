//! The last step before a table: rows to the table's columns, by name.
//!
//! Owns the conversion of values and the rejects of those that do not fit. Does not own the choice which column fills which (the
//! planner in `pipeline`), nor how NULL and DEFAULT are sent (`clickhouse`): a null in a column with a DEFAULT stands for it, but in an Array
//! or a Map, which get the DEFAULT itself here (`absent`).
//!
//! | the table's column          | is filled by                         | a row is rejected if                |
//! |-----------------------------|--------------------------------------|-------------------------------------|
//! | of the same type            | the values as they are               | NULL, and the column takes none     |
//! | of a wider type             | the values, converted                | the same                            |
//! | of another type that may fit | the values, converted one by one    | the same, or a value or an item does not fit |
//! | without a column of its name | NULL, or its DEFAULT                | it is an Array's or a Map's, and has no value here |
//!
//! With several tables the columns of all of them stand side by side, each with the tables that it is for, and behind them the set of
//! tables that a row goes to ([`route`]). A value that does not fit rejects its row only if one of these tables takes the row. What is
//! left to do behind the steps with state cannot fail: it picks columns.

pub(crate) mod absent;
mod convert;
mod items;
pub mod route;
pub mod types;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow_schema::SchemaRef;
use dataflow::{
    Batch, Column, ColumnType, OperatorError, Reason, Reject, Schema, Transform, Transformed, printing,
};

use absent::Instead;
use route::{Routes, TableSet};
use types::{Conversion, conversion, has_limits, limits};

const NAME: &str = "mapping";
/// Characters of a value that a message quotes.
const SHOWN_MAX: usize = 100;

/// Characters of a type that a message names: an Enum may have thousands of names, and each row has a message.
const TYPE_CHARS_MAX: usize = 200;

/// What fills a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The place of the column that it is made of; `None` if there is none of its name.
    pub from: Option<usize>,
    /// True if its values are as a decoder made them: those of a computed column are checked against the range of the type too.
    pub is_untouched: bool,
    /// True if NULL rejects the row: the table's column has neither NULL nor a DEFAULT.
    pub is_required: bool,
    /// The type as a message names it.
    pub type_name: String,
    /// The column as a dead letter names it: the table's name for it.
    pub column: String,
    /// The table as a message names it; empty where there is only one.
    pub table: String,
    /// The tables that it is for: a row that goes to none of them may have any value here.
    pub tables: TableSet,
}

impl Fill {
    /// What fills the only table's column `column`.
    pub fn of(from: Option<usize>, column: &Column) -> Self {
        Self {
            from,
            is_untouched: false,
            is_required: !column.is_optional(),
            type_name: String::new(),
            column: column.name.clone(),
            table: String::new(),
            tables: TableSet::MAX,
        }
    }

    /// The column in a message.
    fn place(&self) -> String {
        match self.table.as_str() {
            "" => format!("column `{}`", self.column),
            table => format!("column `{}` of table `{table}`", self.column),
        }
    }
}

/// The step that brings rows to the columns of their tables.
pub struct Mapping {
    schema: Schema,
    /// The same columns, each with room for NULL: what they are before bad rows are taken out.
    loose: SchemaRef,
    fills: Vec<Filling>,
    /// Which tables a row goes to; `None` if there is no choice.
    routes: Option<Routes>,
}

struct Filling {
    fill: Fill,
    from: Option<ColumnType>,
    /// True if the values are the column's as they are.
    is_kept: bool,
    limits: Option<(i64, i64)>,
    /// What a row has that has no value.
    instead: Instead,
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
    /// Makes rows with the columns of `input` into rows with those of `schema`; `fills` has an entry for each of them, but for the set of
    /// tables that stands behind them if there are `routes`.
    ///
    /// # Errors
    /// The place of the first column that cannot be filled, and why.
    pub fn new(
        input: &Schema,
        schema: Schema,
        fills: Vec<Fill>,
        routes: Option<Routes>,
    ) -> Result<Self, (usize, Unfit)> {
        let mut fillings = Vec::with_capacity(fills.len());
        for (place, (fill, column)) in fills.into_iter().zip(schema.columns()).enumerate() {
            let from = fill.from.map(|at| input.columns()[at].column_type.clone());
            let conversion = fits(from.as_ref(), column).map_err(|unfit| (place, unfit))?;
            // What an expression has made may lie outside of its own type too.
            let is_in_range = fill.is_untouched && conversion != Conversion::Checked;
            let limits = limits(&column.column_type).filter(|_| from.is_some() && !is_in_range);
            let has_items = matches!(column.column_type.bare(), ColumnType::Array(_) | ColumnType::Map(..));
            let is_checked = has_items && !is_in_range && has_limits(&column.column_type);
            let is_kept = conversion == Conversion::Same && !is_checked;
            fillings.push(Filling { fill, from, is_kept, limits, instead: Instead::of(column) });
        }
        let fields = schema.arrow().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let loose = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { schema, loose, fills: fillings, routes })
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
        let records = batch.len();
        let (batch, sets) = match &self.routes {
            None => (batch, None),
            Some(routes) => {
                let (batch, sets) = routes.sets(batch).map_err(Self::failed)?;
                (batch, Some(sets))
            }
        };
        let filtered = (records - batch.len()) as u64;
        let mut bad = Bad::new();
        let mut columns = Vec::with_capacity(self.schema.columns().len());
        for (place, filling) in self.fills.iter().enumerate() {
            columns.push(self.column(place, filling, &batch.rows, sets.as_deref(), &mut bad)?);
        }
        columns.extend(sets.map(|sets| Arc::new(UInt32Array::from(sets)) as ArrayRef));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        if bad.is_empty() {
            let rows = RecordBatch::try_new_with_options(self.schema.arrow().clone(), columns, &options);
            let batch = Batch { rows: rows.map_err(Self::failed)?, ..batch };
            return Ok(Transformed { batch, filtered, rejects: Vec::new() });
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
        Ok(Transformed { batch: Batch { rows, ..batch }, filtered, rejects })
    }
}

impl Mapping {
    /// One column of the table; rows that do not fit are null in it and named in `bad`, if a table of the column takes them.
    fn column(
        &self,
        place: usize,
        filling: &Filling,
        rows: &RecordBatch,
        sets: Option<&[TableSet]>,
        bad: &mut Bad,
    ) -> Result<ArrayRef, OperatorError> {
        let column = &self.schema.columns()[place];
        let fill = &filling.fill;
        let is_taken = |row: &usize| sets.is_none_or(|sets| sets[*row] & fill.tables != 0);
        let Some(from) = fill.from else {
            let nulls = new_null_array(&column.column_type.arrow(), rows.num_rows());
            self.without_value(place, (0..rows.num_rows()).filter(is_taken), bad);
            return filling.instead.fill(nulls).map_err(Self::failed);
        };
        let source = rows.columns().get(from).ok_or_else(|| {
            Self::failed(format!("the batch has `{}` columns, and none at `{from}`", rows.num_columns()))
        })?;
        let made = match &filling.from {
            Some(from) if !filling.is_kept => {
                convert::array(source, from, &column.column_type).map_err(Self::failed)?
            }
            _ => source.clone(),
        };
        if made.null_count() > source.null_count() {
            let lost = (0..made.len()).filter(|row| made.is_null(*row) && source.is_valid(*row));
            lost.filter(is_taken).for_each(|row| self.does_not_fit(place, source, row, bad));
        }
        if let Some((least, greatest)) = filling.limits {
            for row in convert::outside(&made, least, greatest).into_iter().filter(is_taken) {
                self.does_not_fit(place, source, row, bad);
            }
        }
        if source.null_count() > 0 {
            let nulls = (0..source.len()).filter(|row| source.is_null(*row));
            self.without_value(place, nulls.filter(is_taken), bad);
        }
        filling.instead.fill(made).map_err(Self::failed)
    }

    /// Rows that have no value for a column: bad, if nothing can stand for it.
    fn without_value(&self, place: usize, rows: impl Iterator<Item = usize>, bad: &mut Bad) {
        let Filling { fill, instead, .. } = &self.fills[place];
        let rule = match instead {
            _ if fill.is_required => ", which has neither NULL nor a DEFAULT",
            Instead::Nothing => {
                ": an array or a map cannot be sent as NULL, and its DEFAULT has to be written in the step that fills it"
            }
            Instead::Null | Instead::Value(_) => return,
        };
        for row in rows {
            let message = format!("NULL does not fit {}{rule}", fill.place());
            bad.entry(row).or_insert((place, Reason::Missing, message));
        }
    }

    fn does_not_fit(&self, place: usize, source: &ArrayRef, row: usize, bad: &mut Bad) {
        let Filling { fill, from, .. } = &self.fills[place];
        let to = &self.schema.columns()[place].column_type;
        let value = convert::shown(source, row);
        let value = printing::escaped(&value, SHOWN_MAX);
        let type_name = printing::escaped(&fill.type_name, TYPE_CHARS_MAX);
        let mut message = format!("the value `{value}` does not fit {} of type {type_name}", fill.place());
        if let ColumnType::Json { .. } = to.bare() {
            message.push_str(&format!(": it {}", convert::why_no_object(source, row)));
        }
        let of_item = from.as_ref().and_then(|from| items::why(source, row, from, to));
        let reason = of_item.map_or(Reason::OutOfRange, |(reason, rule)| {
            message.push_str(&format!(": {rule}"));
            reason
        });
        bad.entry(row).or_insert((place, reason, message));
    }

    fn reject(&self, batch: &Batch, row: usize, why: &(usize, Reason, String)) -> Reject {
        let (place, reason, message) = why;
        let fill = &self.fills[*place].fill;
        let reject = Reject {
            item: batch.item(row),
            partition: batch.partition.clone(),
            position: batch.position(row),
            time_ms: batch.times_ms[row],
            reason: *reason,
            column: fill.column.clone(),
            message: message.clone(),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        };
        // Where there is only one table, it is the pipeline's.
        if fill.table.is_empty() { reject } else { reject.of_table(&fill.table) }
    }
}

#[cfg(test)]
mod tests;
