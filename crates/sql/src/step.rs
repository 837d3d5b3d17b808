//! Steps: what is made of a batch.
//!
//! Owns which rows go on, with which columns, and the accounts of the others. Does not own values (`program`), texts (`compile`) or the rows of an
//! array (`unnest`).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use dataflow::{Batch, Column, ColumnType, OperatorError, Reason, Reject, Schema, Transform, Transformed};

use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::Expr as Written;

use crate::compile::{Scope, Typed, compile};
use crate::program::{Compiled, Failed, Program};
use crate::query::{Chosen, INPUT, SelectList};
use crate::text::Text;
use crate::{Fault, query, unnest};

/// A step made of SQL text.
///
/// Records that an expression has no value for (a division by zero, a text that is no number, an overflow) are rejected; the others of
/// their batch go on.
pub struct Step {
    name: String,
    schema: Schema,
    reads: Vec<String>,
    /// Which rows go on.
    condition: Option<Program>,
    /// Which columns they have.
    columns: Option<Columns>,
}

struct Columns {
    program: Program,
    made: Vec<Made>,
    /// Names of what passes: in the result and in the input.
    passed: Vec<(String, String)>,
    /// The columns of the result whose arrays make the rows; none if each record stays one row.
    unnested: Vec<usize>,
}

/// Where a column of the result comes from.
#[derive(Clone, Copy)]
enum Made {
    /// From the input's column of that number, untouched.
    Passed(usize),
    /// From the program's expression of that number.
    Computed(usize),
}

impl Step {
    /// The columns of the input that the texts of the step read, in the input's order, also those that no value depends on (`k = k`). What passes
    /// untouched is not among them.
    pub fn reads(&self) -> &[String] {
        &self.reads
    }

    /// The columns that pass untouched: each with its name in [`schema`](Transform::schema) and its name in the input.
    pub fn passes(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .columns
            .is_none()
            .then(|| self.schema.columns().iter().map(|c| (c.name.as_str(), c.name.as_str())));
        let some = self
            .columns
            .iter()
            .flat_map(|columns| &columns.passed)
            .map(|(made, from)| (made.as_str(), from.as_str()));
        all.into_iter().flatten().chain(some)
    }

    pub(crate) fn filter(input: &Schema, text: &str, name: &str) -> Result<Self, Fault> {
        let scope = Scope::new(input, vec![INPUT.to_owned()])?;
        let text = Text::new(text);
        Self::kept_of(input, &text, (&scope, Some(text.expression()?)), name)
    }

    pub(crate) fn select(
        input: &Schema,
        items: &[(String, String)],
        keep_others: bool,
        name: &str,
    ) -> Result<Self, Fault> {
        let scope = Scope::new(input, vec![INPUT.to_owned()])?;
        let mut list = SelectList::default();
        for (item, text) in items {
            let of_item = |fault: Fault| Fault { item: item.clone(), ..fault };
            if item.is_empty() {
                return Err(Fault::new("a computed column has no name; write `name: expression`", None));
            }
            if items.iter().filter(|(other, _)| other == item).count() > 1 {
                return Err(of_item(Fault::new(
                    format!("`{item}` is computed twice; rename one of them"),
                    None,
                )));
            }
            let text = Text::new(text);
            let tree = text.expression().map_err(of_item)?;
            let expr = compile(&text, tree, &scope).map_err(of_item)?;
            list.chosen.push(Chosen { name: item.clone(), expr, at: text.whole(), unnested: false });
        }
        let (columns, schema, read) = columns(input, &scope, list, keep_others, false)?;
        Ok(Self {
            name: name.to_owned(),
            schema,
            reads: in_order(input, &read),
            condition: None,
            columns: Some(columns),
        })
    }

    pub(crate) fn query(input: &Schema, text: &str, name: &str) -> Result<Self, Fault> {
        let text = Text::new(text);
        let query::Parts { scope, condition, chosen } = query::parts(input, &text)?;
        Self::chosen_of(input, &text, (&scope, condition, chosen), name)
    }

    /// Of the rows for which the condition is true these columns.
    pub(crate) fn chosen_of(
        input: &Schema,
        text: &Text,
        (scope, written, chosen): (&Scope, Option<Written>, SelectList),
        name: &str,
    ) -> Result<Self, Fault> {
        let kept = Self::kept_of(input, text, (scope, written), name)?;
        let (columns, schema, mut read) = columns(input, scope, chosen, false, true)?;
        read.extend(kept.reads);
        Ok(Self { schema, reads: in_order(input, &read), columns: Some(columns), ..kept })
    }

    /// All columns of the rows for which the condition is true.
    pub(crate) fn kept_of(
        input: &Schema,
        text: &Text,
        (scope, written): (&Scope, Option<Written>),
        name: &str,
    ) -> Result<Self, Fault> {
        let condition = written.map(|written| condition(input, text, written, scope)).transpose()?;
        let (condition, read) = condition.unzip();
        Ok(Self {
            name: name.to_owned(),
            schema: input.clone(),
            reads: in_order(input, &read.unwrap_or_default()),
            condition,
            columns: None,
        })
    }

    fn fault(&self, message: impl std::fmt::Display) -> OperatorError {
        OperatorError { step: self.name.clone(), message: message.to_string() }
    }

    /// Keeps the rows for which the condition is true.
    fn kept(&self, condition: &Program, done: Transformed) -> Result<Transformed, OperatorError> {
        let (mut done, mut columns) = self.evaluated(condition, done)?;
        let keep = columns.pop().ok_or_else(|| self.fault("the condition has no value"))?;
        let keep = keep.as_boolean_opt().ok_or_else(|| self.fault("the condition is no Bool"))?;
        let before = done.batch.len();
        done.batch = filtered(done.batch, keep).map_err(|error| self.fault(error))?;
        done.filtered += (before - done.batch.len()) as u64;
        Ok(done)
    }

    /// The rows with their new columns.
    fn made(&self, columns: &Columns, done: Transformed) -> Result<Transformed, OperatorError> {
        let (mut done, computed) = self.evaluated(&columns.program, done)?;
        let rows = &done.batch.rows;
        let arrays = columns.made.iter().map(|made| match *made {
            Made::Passed(at) => Arc::clone(rows.column(at)),
            Made::Computed(at) => Arc::clone(&computed[at]),
        });
        let mut arrays: Vec<ArrayRef> = arrays.collect();
        if !columns.unnested.is_empty() {
            unnest::unnest(&mut done, &mut arrays, (&columns.unnested, self.schema.columns()))
                .map_err(|error| self.fault(error))?;
        }
        let fields = self.schema.arrow().fields().iter().zip(&arrays).map(|(field, array)| {
            // A String may be held as bytes.
            if field.data_type() == array.data_type() {
                field.as_ref().clone()
            } else {
                field.as_ref().clone().with_data_type(array.data_type().clone())
            }
        });
        let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        done.batch.rows = RecordBatch::try_new(schema, arrays).map_err(|error| self.fault(error))?;
        Ok(done)
    }

    /// Evaluates the program; what fails leaves the batch and becomes a reject.
    fn evaluated(
        &self,
        program: &Program,
        mut done: Transformed,
    ) -> Result<(Transformed, Vec<ArrayRef>), OperatorError> {
        let evaluated = program.evaluate(&done.batch.rows).map_err(|error| self.fault(error))?;
        if !evaluated.failed.is_empty() {
            let gone: Vec<usize> = evaluated.failed.iter().map(|failed| failed.row).collect();
            done.rejects.extend(evaluated.failed.into_iter().map(|failed| reject(&done.batch, failed)));
            done.batch = done.batch.without(&gone).map_err(|error| self.fault(error))?;
        }
        Ok((done, evaluated.columns))
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("reads", &self.reads).finish_non_exhaustive()
    }
}

impl Transform for Step {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn multiplies(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| !columns.unnested.is_empty())
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let mut done = Transformed::all(batch);
        if let Some(condition) = &self.condition {
            done = self.kept(condition, done)?;
        }
        if let Some(columns) = &self.columns {
            done = self.made(columns, done)?;
        }
        done.rejects.sort_by_key(|reject| reject.position);
        Ok(done)
    }
}

/// Those of the input's columns, in its order.
fn in_order(input: &Schema, read: &BTreeSet<String>) -> Vec<String> {
    let names = input.columns().iter().map(|column| &column.name);
    names.filter(|name| read.contains(name.as_str())).cloned().collect()
}

/// The condition and the columns that it reads.
fn condition(
    input: &Schema,
    text: &Text,
    written: Written,
    scope: &Scope,
) -> Result<(Program, BTreeSet<String>), Fault> {
    let place = text.place(&written).or_else(|| text.whole());
    let Typed { expr, reads, .. } = compile(text, written, scope)?;
    let compiled = Compiled { label: String::new(), expr, unnested: false };
    let program =
        Program::new(input, scope, vec![compiled]).map_err(|fault| Fault { at: place.clone(), ..fault })?;
    match program.column_type(0) {
        found if *found.bare() == ColumnType::Bool => Ok((program, reads)),
        found => {
            let message = format!(
                "a condition must be `Bool`, but this is `{}`; compare it with a value, as in `… > 0` or `… = 'x'`",
                crate::types::written(found)
            );
            Err(Fault::new(message, place))
        }
    }
}

/// Computed columns take the place of those of the same name, and stand behind the others. Also the columns that are read.
fn columns(
    input: &Schema,
    scope: &Scope,
    SelectList { chosen, left_out: mut read }: SelectList,
    keep_others: bool,
    of_query: bool,
) -> Result<(Columns, Schema, BTreeSet<String>), Fault> {
    let mut made = Vec::new();
    let mut schema = Vec::new();
    let mut compiled = Vec::new();
    let mut types = Vec::new();
    let mut places = Vec::new();
    let mut unnested = Vec::new();
    // `coalesce(host, '-')` of a column that is never NULL is that column, but only here: the plan sees what is written.
    let mut simplified = BTreeSet::new();
    for Chosen { name, expr: Typed { expr, reads, is_column }, at, unnested: is_unnested } in chosen {
        if is_unnested || !is_column {
            read.extend(reads);
            simplified.insert(name.clone());
        }
        let passed = passed(&expr).and_then(|column| input.index_of(column)).filter(|_| !is_unnested);
        if let Some(column) = passed {
            places.push((name, Made::Passed(column)));
            continue;
        }
        places.push((name.clone(), Made::Computed(compiled.len())));
        // Each alone first, so that a fault names its item.
        let one = |expr| vec![Compiled { label: name.clone(), expr, unnested: is_unnested }];
        let of_item = |fault| Fault {
            item: if of_query { String::new() } else { name.clone() },
            at: at.clone(),
            ..fault
        };
        let alone = Program::new(input, scope, one(expr.clone())).map_err(of_item)?;
        types.push(match (is_unnested, alone.column_type(0)) {
            (false, found) => found.clone(),
            (true, ColumnType::Array(item)) => {
                unnested.push(compiled.len());
                (**item).clone()
            }
            (true, other) => {
                let message =
                    format!("UNNEST takes an Array, but this is `{}`", crate::types::written(other));
                return Err(Fault::new(message, at));
            }
        });
        compiled.extend(one(expr));
    }
    let column = |name: &str, made: Made| match made {
        Made::Passed(at) => Column { name: name.to_owned(), ..input.columns()[at].clone() },
        Made::Computed(at) => Column::new(name, types[at].clone()),
    };
    if keep_others {
        for (at, old) in input.columns().iter().enumerate() {
            let replaced = places.iter().position(|(name, _)| *name == old.name);
            let how = replaced.map_or(Made::Passed(at), |n| places.remove(n).1);
            schema.push(column(&old.name, how));
            made.push(how);
        }
    }
    for (name, how) in places {
        schema.push(column(&name, how));
        made.push(how);
    }
    if made.is_empty() {
        return Err(Fault::new("the step has no columns; compute one or keep the others", None));
    }
    let program = Program::new(input, scope, compiled)?;
    let passed = schema.iter().zip(&made).filter_map(|(column, made)| match *made {
        Made::Passed(at) if !simplified.contains(&column.name) => {
            Some((column.name.clone(), input.columns()[at].name.clone()))
        }
        Made::Passed(_) | Made::Computed(_) => None,
    });
    let passed = passed.collect();
    let is_unnested = |made: &Made| matches!(made, Made::Computed(at) if unnested.contains(at));
    let unnested = made.iter().enumerate().filter(|(_, made)| is_unnested(made)).map(|(at, _)| at).collect();
    Ok((Columns { program, made, passed, unnested }, Schema::new(schema), read))
}

/// The column that passes untouched.
fn passed(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Alias(alias) => passed(&alias.expr),
        _ => None,
    }
}

/// NULL counts as false. Rows are not moved if all of them go on.
fn filtered(batch: Batch, keep: &BooleanArray) -> Result<Batch, ArrowError> {
    if keep.null_count() == 0 && keep.true_count() == keep.len() {
        return Ok(batch);
    }
    batch.filter(keep)
}

fn reject(batch: &Batch, failed: Failed) -> Reject {
    Reject {
        item: batch.item(failed.row),
        partition: batch.partition.clone(),
        position: batch.position(failed.row),
        time_ms: batch.times_ms[failed.row],
        reason: Reason::Expression,
        column: failed.column,
        message: failed.message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
