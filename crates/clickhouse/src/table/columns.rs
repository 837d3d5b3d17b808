//! A table whose columns change under frames that were made before.
//!
//! Owns what such a change means for a frame ([`Fit`]), and the way from a frame's rows to the columns of now. Does not own when a frame
//! may be encoded again (`engine::refuse`), nor the conversion of values ([`crate::convert`]).
//!
//! | a column of the frame                        | a frame of it                                          |
//! |----------------------------------------------|--------------------------------------------------------|
//! | is as it was                                 | goes as it is, with its own list of columns            |
//! | has a wider type, or takes NULL now          | is encoded again                                       |
//! | has a narrower type, or takes no NULL any more | is encoded again if its values fit, and waits otherwise |
//! | is gone, and no row of the frame has a value there | is encoded again without it                       |
//! | is gone otherwise, or has a type that holds none of its values | waits                                 |
//!
//! Columns that the table has and the frame has not get their DEFAULT from the server, as rows written before they were added.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use dataflow::{
    Column, Encoded, Fit, FrameId, Layout, LayoutColumn, Remedy, Schema, Selected, TableError, TableFault,
};

use super::ClickHouseTable;
use super::frames::Making;
use super::given::Given;
use crate::checks::read::ColumnRow;
use crate::checks::{PROVENANCE, Plan};
use crate::convert::{self, Way};
use crate::native::{BlockPlan, type_of};
use crate::types::{self, identifier};

/// The table as it was seen last.
pub(super) struct Now {
    pub(super) plan: Arc<Plan>,
    pub(super) layout: Layout,
}

impl Now {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self { layout: layout_of(&plan), plan }
    }
}

/// The columns of the frames that a plan makes.
pub(super) fn layout_of(plan: &Plan) -> Layout {
    let column = |column: &Column| LayoutColumn {
        name: column.name.clone(),
        type_name: types::name(&column.column_type),
        default: column.default.clone().unwrap_or_default(),
        is_required: !column.is_optional(),
    };
    let mut columns: Vec<LayoutColumn> = plan.sent.columns().iter().map(column).collect();
    if plan.provenance {
        let (name, type_name) = (PROVENANCE.to_owned(), "UUID".to_owned());
        columns.push(LayoutColumn { name, type_name, ..LayoutColumn::default() });
    }
    Layout { columns }
}

impl ClickHouseTable {
    pub(super) fn fit_of(&self, layout: &Layout, now: &Now) -> Fit {
        let (mut fit, mut without) = (Fit::AsIs, None);
        if *layout == now.layout {
            return fit;
        }
        for column in &layout.columns {
            let again = match self.fit_of_column(column, now) {
                Fit::AsIs => continue,
                Fit::Again { always } => always,
                gone @ Fit::Without { .. } => {
                    without.get_or_insert(gone);
                    continue;
                }
                no @ Fit::No { .. } => return no,
            };
            fit = Fit::Again { always: again && fit != Fit::Again { always: false } };
        }
        without.unwrap_or(fit)
    }

    fn fit_of_column(&self, column: &LayoutColumn, now: &Now) -> Fit {
        let name = &column.name;
        if name == PROVENANCE && now.plan.provenance {
            return Fit::AsIs;
        }
        let found = now.plan.sent.index_of(name).map(|at| &now.plan.sent.columns()[at]);
        let Some(found) = found else {
            return match now.plan.others.iter().find(|other| other.name == *name) {
                // Every row has a name there.
                None if column.is_required || name == PROVENANCE => {
                    Fit::No { words: self.is_gone(column, "hold") }
                }
                None => Fit::Without { words: self.is_gone(column, "may hold") },
                Some(other) => Fit::No { words: self.is_not_sent(column, other) },
            };
        };
        let Ok(from) = types::parse(name, &column.type_name) else { return Fit::AsIs };
        let loses_default = !column.default.is_empty() && !from.is_nullable() && !found.is_optional();
        match convert::way(&from, &found.column_type) {
            // A null that stood for the DEFAULT would become a zero.
            Way::Same if loses_default => Fit::Again { always: false },
            Way::Same => Fit::AsIs,
            Way::Always if !loses_default => Fit::Again { always: true },
            Way::Always | Way::Checked => Fit::Again { always: false },
            Way::Never => Fit::No { words: self.has_changed(column, found, "values that it cannot hold") },
        }
    }

    /// The rows of a frame as one frame for the columns of now.
    pub(super) fn make_again(
        &self,
        rows: &RecordBatch,
        made_for: Option<&Layout>,
        id: FrameId,
    ) -> Result<(Encoded, Layout), TableError> {
        let now = self.now();
        let (mut columns, mut arrays, mut gone) = (Vec::new(), Vec::new(), String::new());
        for (array, field) in rows.columns().iter().zip(rows.schema_ref().fields()) {
            let name = field.name();
            let made_for = made_for.and_then(|layout| layout.column(name));
            let written = type_of(field).map(|t| types::name(&t));
            let was = LayoutColumn {
                name: name.clone(),
                type_name: written.unwrap_or_default(),
                ..Default::default()
            };
            let was = made_for.unwrap_or(&was);
            let Some(at) = now.plan.sent.index_of(name) else {
                match self.fit_of_column(was, &now) {
                    // Nothing of these rows is lost with it.
                    Fit::Without { words } if array.null_count() == array.len() => {
                        gone = words;
                        continue;
                    }
                    Fit::No { words } => return Err(differs(words)),
                    Fit::Without { .. } => return Err(differs(self.is_gone(was, "hold"))),
                    _ => return Err(self.encode_error(format!("column `{name}` has no place"))),
                }
            };
            let column = now.plan.sent.columns()[at].clone();
            let array = self.in_column(array, field, made_for, &column);
            arrays.push(array.map_err(|why| differs(self.has_changed(was, &column, &why)))?);
            columns.push(column);
        }
        // Rows of no column cannot be sent.
        if columns.is_empty() {
            return Err(differs(gone));
        }
        let schema = Schema::new(columns);
        let batch = RecordBatch::try_new(schema.arrow().clone(), arrays);
        let batch = batch.map_err(|e| self.encode_error(e.to_string()))?;
        let selected = [Selected::all(batch.clone())];
        let given = Given::new(&selected);
        // The partition key's columns stand elsewhere than in the plan, if the frame has fewer of them.
        let whole = spread(&batch, &now.plan.schema).map_err(|e| self.encode_error(e))?;
        let whole = [Selected::all(whole)];
        let cut = Given::new(&whole);
        let groups = now.plan.partition.cut(cut.batches(), cut.rows()).map_err(|e| self.encode_error(e))?;
        let [group] = groups.as_slice() else { return Err(differs(self.is_cut_otherwise(groups.len()))) };
        let unique_key = &now.plan.unique_key;
        let unique_key: Option<Vec<usize>> =
            unique_key.iter().map(|at| schema.index_of(&now.plan.schema.columns()[*at].name)).collect();
        let making = Making {
            block: &BlockPlan::new(&schema, now.plan.provenance.then_some(PROVENANCE)),
            schema: &schema,
            unique_key: &unique_key.unwrap_or_default(),
            provenance: now.plan.provenance,
            // They were sorted when they were sealed, if they are to be.
            sort: None,
        };
        let frame = self.encode_frame(&making, &given, given.rows(), &group.partition, id);
        let frame = frame.map_err(|e| self.encode_error(e))?;
        let names = schema.columns().iter().map(|column| column.name.as_str());
        let names: Vec<&str> = names.chain(now.plan.provenance.then_some(PROVENANCE)).collect();
        let columns = names.iter().filter_map(|name| now.layout.column(name).cloned()).collect();
        Ok((frame, Layout { columns }))
    }

    /// Values of a frame's column in the column of now.
    fn in_column(
        &self,
        array: &ArrayRef,
        field: &arrow_schema::Field,
        made_for: Option<&LayoutColumn>,
        column: &Column,
    ) -> Result<ArrayRef, String> {
        let Some(from) = type_of(field) else { return Ok(array.clone()) };
        let to = &column.column_type;
        let made_for = made_for.and_then(|made| types::parse(&made.name, &made.type_name).ok());
        // Nulls of a column that takes none stand for its DEFAULT, and may do so still.
        let stand_for_default =
            made_for.as_ref().is_none_or(|made| !made.is_nullable()) && column.is_optional();
        match &from {
            dataflow::ColumnType::Nullable(inner) if stand_for_default => {
                // The block says `Nullable(T)` for the sake of the nulls; the column's type may say more of the values.
                convert::convert(array, made_for.as_ref().unwrap_or(inner), to)
            }
            from => convert::convert(array, from, to),
        }
    }

    /// The rows of a frame with the columns that the steps know.
    pub(super) fn in_schema(&self, rows: &RecordBatch) -> Option<RecordBatch> {
        let schema = self.plan.schema.columns();
        let arrays = schema.iter().map(|column| {
            let Some((at, field)) = rows.schema_ref().column_with_name(&column.name) else {
                return Some(new_null_array(&column.column_type.arrow(), rows.num_rows()));
            };
            self.in_column(rows.column(at), field, None, column).ok()
        });
        let arrays: Vec<(&str, ArrayRef)> =
            schema.iter().map(|c| c.name.as_str()).zip(arrays.collect::<Option<Vec<_>>>()?).collect();
        RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).ok()
    }

    fn has_changed(&self, was: &LayoutColumn, now: &Column, why: &str) -> String {
        // A statement that names no DEFAULT leaves the one that is there.
        let default = if now.default.is_none() { default_clause(was) } else { String::new() };
        let (name, type_name) = (&was.name, types::name(&now.column_type));
        let statement = self.alter("MODIFY COLUMN", was) + &default;
        if was.type_name == type_name && !default.is_empty() {
            return format!(
                "column `{name}` has lost its DEFAULT `{}`, and rows that wait hold {why}, in its place; give it back with: {statement}",
                was.default
            );
        }
        format!(
            "column `{name}` has changed from `{}` to `{type_name}`, and rows that wait hold {why}; give them a type that holds them with: {statement}",
            was.type_name
        )
    }

    /// What to do about rows that one insert held, and that are in several partitions now.
    fn is_cut_otherwise(&self, partitions: usize) -> String {
        format!(
            "rows that wait for table `{}` were cut for another key of partitions, and those of one insert are in {partitions} partitions now: until they are \
             written, exchange the table back for the one with the former PARTITION BY, or alter the expression behind it back",
            self.name
        )
    }

    /// What to do about a column that the table has no more.
    fn is_gone(&self, was: &LayoutColumn, hold: &str) -> String {
        let statement = self.alter("ADD COLUMN", was) + &default_clause(was);
        format!(
            "column `{}` is gone from table `{}`, and rows that wait {hold} values of it; rename it back, or give it back with: {statement}",
            was.name, self.name
        )
    }

    /// What to do about a column that no insert may name any more, or whose type cannot be written.
    fn is_not_sent(&self, was: &LayoutColumn, now: &ColumnRow) -> String {
        // A type that rows were written with is one that can be written.
        let is_left = now.is_stored_as_sent() && now.type_name == was.type_name;
        let what = match now.is_stored_as_sent() {
            true if is_left => format!(
                "has the DEFAULT `{}` now, which reads columns that are not sent: the server computes it",
                now.default_expression
            ),
            true => format!("has the type `{}` now, which cannot be written", now.type_name),
            false => format!("is {} now: the server computes it", now.default_kind),
        };
        let default = default_clause(was);
        let statement = match now.default_kind.as_str() {
            kind if default.is_empty() && (now.is_computed() || (is_left && kind == "DEFAULT")) => format!(
                "ALTER TABLE {} MODIFY COLUMN {} REMOVE {}",
                self.config.quoted(),
                identifier(&was.name),
                kind
            ),
            // It has no statement that takes this off alone.
            "EPHEMERAL" if default.is_empty() => {
                let value = format!(" DEFAULT defaultValueOfTypeName({})", types::quote(&was.type_name));
                self.alter("MODIFY COLUMN", was) + &value
            }
            _ => self.alter("MODIFY COLUMN", was) + &default,
        };
        format!(
            "column `{}` of table `{}` {what}, and rows that wait hold values of it; let it take them with: {statement}",
            was.name, self.name
        )
    }

    fn alter(&self, verb: &str, column: &LayoutColumn) -> String {
        let (table, name) = (self.config.quoted(), identifier(&column.name));
        format!("ALTER TABLE {table} {verb} {name} {}", column.type_name)
    }
}

/// The DEFAULT that a column had, as a clause.
fn default_clause(was: &LayoutColumn) -> String {
    match was.default.as_str() {
        "" | dataflow::TYPE_DEFAULT => String::new(),
        default => format!(" DEFAULT {default}"),
    }
}

/// The rows in the columns of `schema`, with nulls where they have none.
fn spread(rows: &RecordBatch, schema: &Schema) -> Result<RecordBatch, String> {
    let columns = schema.columns().iter();
    let arrays = columns.map(|column| match rows.column_by_name(&column.name) {
        Some(array) => (column.name.as_str(), array.clone(), true),
        None => (column.name.as_str(), new_null_array(&column.column_type.arrow(), rows.num_rows()), true),
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = arrays
        .map(|(name, array, _)| (arrow_schema::Field::new(name, array.data_type().clone(), true), array))
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|e| e.to_string())
}

fn differs(message: String) -> TableError {
    TableError { remedy: Remedy::Stop, kind: TableFault::Differs, message }
}

#[cfg(test)]
mod tests;
