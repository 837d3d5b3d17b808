//! Where the rows of several inputs meet: the types of the columns that steps read of all of them.
//!
//! Owns the one type of such a column, and the fault where there is none. Does not own how values are converted ([`operators::mapping`]), nor
//! how a column that no step reads fills a table: that is decided for each input by itself, as if it were the only one.
//!
//! | a column that a step for all rows reads          | what follows                                                            |
//! |--------------------------------------------------|-------------------------------------------------------------------------|
//! | has the same type in all inputs                  | nothing                                                                 |
//! | has a type that takes every value of the others  | the others are converted before the step                                |
//! | has types of which none takes the others' values | a fault that names both places                                          |
//! | is not there in an input, and may be NULL        | it is read from the records there too, or NULL if a step has dropped it |
//! | is not there in an input, and may not be NULL    | a fault that names the input                                            |

use std::collections::BTreeSet;
use std::sync::Arc;

use dataflow::{Column, ColumnType, Metadata, Schema};
use operators::Mapping;
use operators::mapping::Fill;
use operators::mapping::types::{Conversion, conversion};

use super::chain::Key;
use super::inputs::{Joint, View};
use super::planner::{Origin, Planner};
use super::steps::planned;
use super::{Bound, Fault, Faults, TextFault, Texts, chain, fault, shape, windows};
use crate::config::model::{Input, Pipeline};

/// What each input has to do so that the steps for all rows see the same columns.
pub(super) fn joints(
    pipeline: &Pipeline,
    inputs: &[Input<'_>],
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Vec<Joint>, Faults> {
    let at = pipeline.steps.iter().position(|step| step.from.is_none()).unwrap_or(pipeline.steps.len());
    let window = pipeline.steps.iter().enumerate().find_map(|(at, step)| Some((at, step.window.as_ref()?)));
    // Before a window the tables' columns say nothing: they are those of its results.
    let (before, none);
    let (pipeline, tables, of_window) = match window {
        None => (pipeline, tables, Vec::new()),
        Some((place, window)) => {
            let (stands_before, columns) = windows::read_of(pipeline, place, window)?;
            (before, none) = (stands_before, [Schema::new(Vec::new())]);
            (&before, &none[..], columns)
        }
    };
    let sides = sides(pipeline, inputs, at, tables, texts)?;
    let mut meeting = Meeting::of(inputs, &sides);
    let read = match meeting.read(pipeline, (at, of_window), tables, texts) {
        Ok(read) => read,
        // The planner of each input says it, with the place in that input; which columns are read is not known.
        Err(_) => {
            meeting.columns.retain(|column| column.fault.is_none());
            meeting.names()
        }
    };
    meeting.columns.retain(|column| read.contains(&column.name));
    let faults: Faults = meeting.columns.iter().filter_map(|column| column.fault.clone()).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(sides.iter().map(|side| meeting.joint(side, at)).collect())
}

/// What an input brings to where they meet.
struct Side {
    /// The columns that its rows have there.
    columns: Vec<Column>,
    /// Those whose type was declared or computed, and is not that of a table's column.
    known: BTreeSet<String>,
    /// Columns that are not there, by a step of its own.
    dropped: Dropped,
}

/// Which columns the steps of an input have dropped.
enum Dropped {
    None,
    /// All that are not among its columns.
    Others,
}

fn sides(
    pipeline: &Pipeline,
    inputs: &[Input<'_>],
    at: usize,
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Vec<Side>, Faults> {
    let mut own = pipeline.clone();
    own.steps.truncate(at);
    let (mut sides, mut faults) = (Vec::with_capacity(inputs.len()), Faults::new());
    for input in inputs {
        match side((pipeline, &own), input, tables, texts) {
            Ok(side) => sides.push(side),
            Err(found) => faults.extend(found),
        }
    }
    // A fault of the tables is the same for all.
    let mut seen: Faults = Vec::new();
    faults.retain(|one| {
        !seen.contains(one) && {
            seen.push(one.clone());
            true
        }
    });
    if faults.is_empty() { Ok(sides) } else { Err(faults) }
}

/// What the steps of its `own` make of an input.
fn side(
    (pipeline, own): (&Pipeline, &Pipeline),
    input: &Input<'_>,
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Side, Faults> {
    let view = View::alone(input);
    let mut planner = Planner::new(own, &view, tables, texts)?;
    // A field that fills a column has the type that it has in the whole plan.
    let all = planned(pipeline, &view, pipeline.steps.len());
    planner.union.expect_steps_behind(chain::has_steps_behind(&all));
    let candidates = Schema::new(planner.candidates());
    let bound = planner.bind(&candidates)?;
    let last = bound.last().map_or(&candidates, |bound| bound.step.schema());
    let is_known = |name: &str| match planner.origin(name, planner.steps.len()) {
        Origin::Field(field) => field != name || planner.is_declared(&field),
        Origin::Computed(_) | Origin::Absent => true,
    };
    let columns: Vec<Column> =
        last.columns().iter().filter(|column| !planner.is_metadata(&column.name)).cloned().collect();
    let known = columns.iter().filter(|column| is_known(&column.name)).map(|column| column.name.clone());
    // A name that nobody has heard of passes, or it does not.
    let passes = matches!(planner.origin("\u{0}", planner.steps.len()), Origin::Field(_));
    let dropped = if passes { Dropped::None } else { Dropped::Others };
    Ok(Side { known: known.collect(), columns, dropped })
}

/// The columns that the inputs have where they meet.
struct Meeting<'a> {
    inputs: &'a [Input<'a>],
    columns: Vec<Met>,
}

/// A column that at least one input has.
struct Met {
    name: String,
    /// Its type for the rows of all; of one of the inputs if there is none.
    column_type: ColumnType,
    /// Whether its type was declared or computed in one of the inputs.
    is_known: bool,
    /// Why no step can read it.
    fault: Option<Fault>,
}

impl<'a> Meeting<'a> {
    fn of(inputs: &'a [Input<'a>], sides: &[Side]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for column in sides.iter().flat_map(|side| &side.columns) {
            if !names.contains(&column.name.as_str()) {
                names.push(&column.name);
            }
        }
        let columns = names.into_iter().map(|name| met(name, inputs, sides)).collect();
        Self { inputs, columns }
    }

    fn names(&self) -> BTreeSet<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The columns that anything behind reads of all rows.
    fn read(
        &self,
        pipeline: &Pipeline,
        (at, of_window): (usize, Vec<String>),
        tables: &[Schema],
        texts: &dyn Texts,
    ) -> Result<BTreeSet<String>, Faults> {
        let mut all = pipeline.clone();
        all.steps
            .iter_mut()
            .take(at)
            .for_each(|step| step.from = Some(crate::config::values::OneOrMany::Many(Vec::new())));
        let known = self.columns.iter().filter(|column| column.is_known);
        let known = known.map(|column| Column::new(column.name.as_str(), column.column_type.clone()));
        let none = crate::config::model::source::Source {
            fields: Default::default(),
            time: None,
            ..self.inputs[0].source.clone()
        };
        let input = Input { source: &none, ..self.inputs[0].clone() };
        let joint = Joint { also_declared: known.collect(), ..Joint::default() };
        let view = View { input: &input, joint };
        let planner = Planner::new(&all, &view, tables, texts)?;
        let candidates = Schema::new(planner.candidates());
        let bound = planner.bind(&candidates)?;
        let last = bound.last().map_or(&candidates, |bound| bound.step.schema());
        let mut read = planner.conditions(last)?.reads();
        read.extend(of_window);
        let keys = planner.keys(&candidates, &bound)?;
        Ok(planner.reads(&bound, &keys, read))
    }

    /// What input `side` has to do.
    fn joint(&self, side: &Side, at: usize) -> Joint {
        let mut joint = Joint { at, ..Joint::default() };
        for met in &self.columns {
            let column = || Column::new(met.name.as_str(), met.column_type.clone());
            match side.columns.iter().find(|column| column.name == met.name) {
                Some(own) if own.column_type == met.column_type => {}
                Some(_) => joint.columns.push(column()),
                None => match side.dropped {
                    Dropped::None => joint.also_declared.push(column()),
                    Dropped::Others => joint.columns.push(column()),
                },
            }
        }
        joint
    }
}

/// The type of column `name` for all rows.
fn met(name: &str, inputs: &[Input<'_>], sides: &[Side]) -> Met {
    let of = |side: &'_ Side| side.columns.iter().find(|column| column.name == name).cloned();
    let there: Vec<(usize, Column)> =
        sides.iter().enumerate().filter_map(|(at, side)| Some((at, of(side)?))).collect();
    let is_known = sides.iter().any(|side| side.known.contains(name));
    let is_optional = there.iter().any(|(_, column)| column.is_optional());
    // Where it may be missing in one of them, or stand for a DEFAULT, it may be NULL in all.
    let is_alike = |column: &Column| column.default == there[0].1.default;
    let is_nullable = there.iter().any(|(_, column)| column.column_type.is_nullable())
        || !there.iter().all(|(_, column)| is_alike(column));
    let takes = |to: &ColumnType| {
        let fits = |(_, from): &(usize, Column)| meets(&from.column_type, to);
        there.iter().all(fits)
    };
    let widest = there.iter().find(|(_, column)| takes(&column.column_type));
    let (_, first) = &there[0];
    let column_type = widest.map_or(&first.column_type, |(_, column)| &column.column_type);
    let column_type = if is_nullable { nullable(column_type) } else { column_type.clone() };
    let absent = (0..sides.len()).find(|at| of(&sides[*at]).is_none());
    let fault = match (widest, absent) {
        (None, _) => Some(two_types(name, inputs, &there)),
        (Some(_), Some(absent)) if !is_optional => {
            Some(lacks(name, &inputs[absent], (&inputs[there[0].0], first)))
        }
        (Some(_), _) => None,
    };
    // One with a DEFAULT that an input does not have is NULL there.
    let column_type = if absent.is_some() { nullable(&column_type) } else { column_type };
    Met { name: name.to_owned(), column_type, is_known, fault }
}

/// Whether values of `from` and `to` meet as `to`: it holds all of them, as what they are. A number that becomes a text in a table would here
/// stand beside texts that mean something else.
fn meets(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    let is_other_kind = match (from.bare(), to.bare()) {
        (T::Uuid | T::Ipv4, T::Uuid | T::Ipv4) => false,
        (T::Uuid | T::Ipv4 | T::Ipv6, to) => *to != T::Ipv6 || *from.bare() != T::Ipv6,
        (T::Enum8(_) | T::Enum16(_), to) => to.integer_range().is_some(),
        (from, T::String) => from.integer_range().is_some(),
        _ => false,
    };
    !is_other_kind && matches!(conversion(from, to), Conversion::Same | Conversion::Lossless)
}

fn nullable(column_type: &ColumnType) -> ColumnType {
    super::tables::loosened(&Column::new("", column_type.clone())).column_type
}

fn two_types(name: &str, inputs: &[Input<'_>], there: &[(usize, Column)]) -> Fault {
    let fits = |from: &Column, to: &Column| meets(&from.column_type, &to.column_type);
    let (first, one) = &there[0];
    // The first that does not go with the first of all, or else the last.
    let other = there.iter().skip(1).find(|(_, other)| !fits(one, other) && !fits(other, one));
    let (second, other) = other.or(there.last()).expect("one type alone takes all its values");
    let type_of = |column: &Column| clickhouse::types::name(&column.column_type);
    let (one, other) = (type_of(one), type_of(other));
    let (first, second) = (&inputs[*first], &inputs[*second]);
    let message = format!(
        "`{name}` is {one} in input `{}` and {other} in input `{}`, and a step reads it of both: give it one type under `fields` of both, or \
         bring it to one type before, as in `- {{ from: {}, select: {{ \"*\": \"*\", {name}: \"CAST({name} AS {one})\" }} }}`",
        first.name, second.name, second.name
    );
    fault(format!("{}.fields.{name}", second.path), message)
}

fn lacks(name: &str, input: &Input<'_>, (of, column): (&Input<'_>, &Column)) -> Fault {
    let type_name = clickhouse::types::name(&column.column_type);
    let message = format!(
        "a step reads `{name}`, which is {type_name} in input `{}` and not known in input `{}`: write `fields: {{ {name}: {type_name} }}` under \
         `{}:` too if its records have it, or make it `Nullable({type_name})` under `{}.fields` if they do not",
        of.name, input.name, input.path, of.path
    );
    fault(format!("{}.fields", input.path), message)
}

/// The step that brings rows with the columns of `input` to `columns`, as far as they have another type or are not there.
pub(super) fn meeting(input: &Schema, columns: &[Column]) -> Result<Bound, TextFault> {
    let mut schema: Vec<Column> = input.columns().to_vec();
    let mut fills: Vec<Fill> = Vec::with_capacity(schema.len());
    for (at, column) in schema.iter_mut().enumerate() {
        if let Some(wider) = columns.iter().find(|wider| wider.name == column.name) {
            *column = wider.clone();
        }
        fills.push(Fill { is_untouched: true, is_required: false, ..Fill::of(Some(at), column) });
    }
    for column in columns.iter().filter(|column| input.index_of(&column.name).is_none()) {
        if column.is_optional() {
            fills.push(Fill::of(None, column));
            schema.push(column.clone());
        }
    }
    let names = |column: &Column| (column.name.clone(), column.name.clone());
    let passes = input.columns().iter().map(names).collect();
    let shown: Vec<String> = schema.iter().map(|column| column.name.clone()).collect();
    match Mapping::new(input, Schema::new(schema), fills, None) {
        Ok(step) => Ok(Bound { step: Arc::new(step), reads: Vec::new(), passes }),
        Err((at, _)) => Err(TextFault {
            message: format!("`{}` cannot be brought to the type that it has in other inputs", shown[at]),
            at: None,
            item: String::new(),
            unknown: None,
            twice: None,
        }),
    }
}

impl Planner<'_> {
    /// The columns before the first step that any step, condition or key reads; those that only pass are not among them.
    fn reads(&self, bound: &[Bound], keys: &[Key], read: Vec<String>) -> BTreeSet<String> {
        let mut read: BTreeSet<String> = read.into_iter().collect();
        let keys_behind = |stateless: usize| {
            keys.iter().filter(move |key| key.behind == stateless).map(|key| key.column.clone())
        };
        let steps: Vec<_> = self.stateless().zip(bound).enumerate().collect();
        for (at, (step, bound)) in steps.into_iter().rev() {
            read.extend(keys_behind(at + 1));
            let passed = read.iter().filter_map(|name| match step.shape.before(name) {
                shape::Before::Passes(before) => Some(before),
                shape::Before::Computed | shape::Before::Absent => None,
            });
            read = passed.chain(bound.reads.iter().cloned()).collect();
        }
        read.extend(keys_behind(0));
        read.retain(|name| Metadata::named(name).is_none() || self.is_declared(name));
        read
    }
}
