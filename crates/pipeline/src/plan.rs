//! From the pipeline file and the tables' columns to schemas that flow: what is decoded, what each step is bound to, and how the last
//! rows become those of the tables. Pure: no server, no file, no clock.
//!
//! Owns which fields are decoded and with what types, where each step runs, and the mapping to each table's columns. Does not own what a
//! step's text means ([`Texts`], which `sql` stands behind), nor the making of parts (`wiring`).
//!
//! Everything here is about one input; several are planned one by one, each with the steps that read it, so that their rows have the same
//! columns where they meet ([`inputs`], [`union`]).
//!
//! | a field of the record                                   | is decoded as                                            |
//! |---------------------------------------------------------|----------------------------------------------------------|
//! | declared under `source.fields` or `inputs.NAME.fields`  | the declared type                                        |
//! | passes every step untouched and fills a column          | that column's type, with its DEFAULT: at today's cost    |
//! | only expressions read it, and nobody declared it        | nothing: a fault that shows the line to add              |
//! | nothing reads it                                        | nothing: it is skipped                                   |
//!
//! The names of [`Metadata`] (`_key`, `_topic`, …) are columns that the source fills, unless a field of that name is declared.
//!
//! ```text
//! input ─▶ steps without state ─▶ conditions ─▶ mapping ─▶ dedup ─▶ router ─▶ tables
//!          └───────────────── the decode job ───────────┘  └── the lane ──┘
//! ```
//! Steps without state behind a `dedup` are done before the first one ([`chain`]): `dedup` only drops rows, so what they make of a row does
//! not depend on it. A window divides a chain: what stands before it is planned as if the columns that it reads were a table's, and what
//! stands behind it as if its results were the records ([`windows`]). A join is the end of two chains and the beginning of one ([`joins`]).
//!
//! All that a row can fail on stands before the steps with state, so that a row that does not fit, or that no table takes, never counts as
//! seen. What is left for behind them cannot fail: with several tables the rows have the columns of all of them and the set of tables that
//! they go to, and the router picks. Columns that only steps with state read (a key that no table stores) stand behind the tables'.

mod aside;
mod bind;
pub mod chain;
mod conditions;
pub mod inputs;
pub(crate) mod joins;
pub mod lookups;
mod mapping;
mod shape;
mod tables;
mod union;
pub(crate) mod windows;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use dataflow::{Column, Metadata, Schema, Transform};
use operators::mapping::route::ByTable;
pub use operators::mapping::types::Conversion;

use crate::config::model::Pipeline;
use crate::config::model::join::JoinQuery;
use crate::config::model::lookup::LookupStep;
use crate::config::model::sink::{Takes, Target};
use crate::config::model::step::{Dedup, Step};
use crate::config::nearest::nearest;
use crate::config::values::Pairs;
use chain::Key;
pub use chain::LaneStep;
use inputs::View;
pub use inputs::{InputPlan, Plans};
pub use shape::{Rest, Shape};
use tables::Union;

/// What is wrong with a pipeline's steps, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {message}")]
pub struct Fault {
    /// The key in the pipeline file, as in `steps[1].filter`.
    pub path: String,
    /// The bytes of that key's text that are concerned; `None` for all of it.
    pub at: Option<Range<usize>>,
    /// The sentence, with the way out.
    pub message: String,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// The sentence, with the way out.
    pub message: String,
    /// The bytes of the text that are concerned; `None` for all of it.
    pub at: Option<Range<usize>>,
    /// The name of the computed column whose text it is; empty for a filter and a query.
    pub item: String,
    /// The column that the text reads and the input does not have, if that is the fault.
    pub unknown: Option<String>,
    /// The column that a query makes twice, if that is the fault.
    pub twice: Option<String>,
}

/// A step that a text became.
pub struct Bound {
    /// The step.
    pub step: Arc<dyn Transform>,
    /// The columns of its input that it computes with.
    pub reads: Vec<String>,
    /// The columns that pass untouched: the name in its rows and the name in its input.
    pub passes: Vec<(String, String)>,
}

/// The meaning of texts: SQL, but for tests of the planner alone.
pub trait Texts {
    /// Rows for which the text is true.
    ///
    /// # Errors
    /// When the text is no condition over the columns of `input`.
    fn filter(&self, input: &Schema, text: &str) -> Result<Bound, TextFault>;

    /// Rows of these columns: name and text of each; with `keep_others` the columns of `input` stay that are not named.
    ///
    /// # Errors
    /// When a text is no expression over the columns of `input`.
    fn select(
        &self,
        input: &Schema,
        items: &[(String, String)],
        keep_others: bool,
    ) -> Result<Bound, TextFault>;

    /// What a query makes of the rows.
    ///
    /// # Errors
    /// When the text is no query over the columns of `input`.
    fn query(&self, input: &Schema, text: &str) -> Result<Bound, TextFault>;

    /// What a query that joins two inputs makes of the joined rows.
    ///
    /// # Errors
    /// When it does not fit the columns of `input`.
    fn behind_join(&self, input: &Schema, query: &JoinQuery) -> Result<Bound, TextFault>;
}

/// Where a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the decode job, on all cores.
    DecodeJob,
    /// There too, ahead of the steps with state that it stands behind.
    Ahead,
    /// In the lane, in order.
    Lane,
    /// In the lane, with the results of a window, when it closes.
    Results,
    /// In the lane, with the rows that a join makes.
    Joined,
}

/// One step of the plan.
#[derive(Clone)]
pub struct Stage {
    /// The key in the pipeline file, as in `steps[1].filter`.
    pub path: String,
    /// Where it runs.
    pub place: Place,
    /// The columns that it reads.
    pub reads: Vec<String>,
    /// The columns of its rows.
    pub output: Schema,
    /// Whether a record may become several rows (`UNNEST`).
    pub multiplies: bool,
}

impl Stage {
    fn is_lookup(&self) -> bool {
        self.path.ends_with("].lookup")
    }
}

/// How a column of the table is filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The column.
    pub column: String,
    /// The column of the last schema that fills it; `None` for NULL or the DEFAULT.
    pub from: Option<String>,
    /// How its values become the column's.
    pub conversion: Conversion,
    /// The field of the record that passes untouched, if one does.
    pub field: Option<String>,
}

/// How rows become those of one table.
#[derive(Clone)]
pub struct TablePlan {
    /// Its name, with its database if another table has the same.
    pub name: String,
    /// Which rows it takes.
    pub takes: Takes,
    /// Its columns.
    pub columns: Schema,
    /// How each of them is filled.
    pub mapping: Vec<Mapped>,
}

/// What a pipeline does with the records of an input, with every schema. From the lane on it is the same for all inputs.
pub struct Plan {
    /// What is decoded.
    pub decoded: Schema,
    /// What the source says of a record, as far as anything reads it.
    pub metadata: Vec<Metadata>,
    /// Both: what the first step sees.
    pub input: Schema,
    /// The column of `input` that holds the event time; `None` for the source's.
    pub time: Option<String>,
    /// The steps, in order.
    pub stages: Vec<Stage>,
    /// The tables, in the order of the file.
    pub tables: Vec<TablePlan>,
    /// The work of the decode job, the mapping last unless the rows are the table's as they are.
    pub transforms: Vec<Arc<dyn Transform>>,
    /// The columns that steps with state see: the tables', and those behind them that only such steps read.
    pub lane: Schema,
    /// What the lane does, in order.
    pub lane_steps: Vec<LaneStep>,
    /// What deals rows out to several tables; `None` with one, whose columns are the first of the last rows.
    pub router: Option<ByTable>,
}

impl Plan {
    /// The columns of table `place` whose values depend on when a record was read: reading it again gives others. With a lookup these are all that steps compute.
    pub fn fleeting(&self, place: usize) -> Vec<String> {
        let ingested = Metadata::Ingested.name();
        let is_so = |stage: &Stage| stage.is_lookup() || stage.reads.iter().any(|read| read == ingested);
        let is_computed_with = self.stages.iter().any(is_so);
        let is_fleeting = |mapped: &&Mapped| match &mapped.field {
            Some(field) => field == ingested && self.metadata.contains(&Metadata::Ingested),
            None => mapped.from.is_some() && is_computed_with,
        };
        let mapping = &self.tables[place].mapping;
        mapping.iter().filter(is_fleeting).map(|mapped| mapped.column.clone()).collect()
    }
}

/// Plans a pipeline for tables with these columns, one for each of [`Pipeline::targets`].
///
/// # Errors
/// Every fault that was found before the first that hides the others.
pub fn plan(pipeline: &Pipeline, tables: &[Schema], texts: &dyn Texts) -> Result<Plans, Vec<Fault>> {
    inputs::plan(pipeline, tables, texts).map_err(|faults| {
        // The settings of a join may be those of a query.
        let in_file = |fault: Fault| match pipeline.in_query(&fault.path) {
            Some((path, at)) => Fault { path, at, ..fault },
            None => fault,
        };
        faults.into_iter().map(in_file).collect()
    })
}

/// Plans one input.
fn plan_input(
    pipeline: &Pipeline,
    view: &View<'_>,
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Plan, Vec<Fault>> {
    match pipeline.steps.iter().any(|step| step.window.is_some()) {
        true => windows::plan((pipeline, view), tables, texts),
        false => Planner::new(pipeline, view, tables, texts)?.plan(),
    }
}

/// What a step does, as the file says it.
enum Kind<'a> {
    Filter(&'a str),
    Select(&'a Pairs),
    Query(&'a str),
    /// The select list and the filter of a query that joins two inputs: over the joined rows.
    Joined(&'a JoinQuery),
    Dedup(&'a Dedup),
    /// It is planned by itself ([`windows`]).
    Window,
    /// So is this ([`joins`]).
    Join,
    /// Columns of a row elsewhere ([`lookups`]).
    Lookup(&'a LookupStep),
    /// A condition whose value is one more column, [`MARK`].
    Mark(&'a str),
    /// What brings the rows of an input to the columns of all: these.
    Meet(&'a [Column]),
    /// A step for the rows of other inputs; or one without a word, which the schema refuses.
    Nothing,
}

/// The column of [`Kind::Mark`]. No step can name it.
const MARK: &str = "`is deleted`";

struct Planned<'a> {
    path: String,
    /// Its number among all steps of the file.
    at: usize,
    kind: Kind<'a>,
    shape: Shape,
}

/// Where a column of the last schema comes from.
enum Origin {
    /// A field of the record, untouched.
    Field(String),
    /// A step computes it.
    Computed(String),
    /// No step gives it.
    Absent,
}

struct Planner<'a> {
    /// The input.
    view: &'a View<'a>,
    /// The columns of all tables.
    union: Union,
    texts: &'a dyn Texts,
    steps: Vec<Planned<'a>>,
    /// The columns of the rows that the first step sees as far as they are known: fields that are declared, or all columns of a window's results.
    declared: Vec<Column>,
    /// The window whose results the first step sees, by its key in the file; `None` if it sees records.
    results_of: Option<String>,
    /// Whether the table stands for the columns that a window reads.
    is_for_window: bool,
    /// Who asks for the event time beside `dedup`, and the column that holds it.
    event_time: Option<(String, String)>,
    /// The column that a query behind the last step compares as the time of the rows; the rows have their time without it.
    compared: Option<String>,
}

type Faults = Vec<Fault>;

fn fault(path: impl Into<String>, message: impl Into<String>) -> Fault {
    Fault { path: path.into(), at: None, message: message.into() }
}

impl<'a> Planner<'a> {
    fn new(
        pipeline: &'a Pipeline,
        view: &'a View<'a>,
        tables: &[Schema],
        texts: &'a dyn Texts,
    ) -> Result<Self, Faults> {
        let steps = planned(pipeline, view, pipeline.steps.len());
        Self::of_records(view, pipeline.targets(), tables, texts, steps)
    }

    /// A planner for `steps`, the first of which sees records, and for tables that need not be the pipeline's.
    fn of_records(
        view: &'a View<'a>,
        targets: Vec<Target>,
        tables: &[Schema],
        texts: &'a dyn Texts,
        steps: Vec<Planned<'a>>,
    ) -> Result<Self, Faults> {
        let (mut faults, mut declared) = (Faults::new(), Vec::new());
        for (name, type_name) in &view.input.source.fields.0 {
            match clickhouse::types::parse(name.as_str(), type_name) {
                Ok(column_type) => declared.push(Column::new(name.as_str(), column_type)),
                Err(error) => faults.push(fault(format!("{}.{name}", view.fields()), error.to_string())),
            }
        }
        declared.extend(view.joint.also_declared.iter().cloned());
        let union = Union::new(targets, tables, chain::has_steps_behind(&steps), &mut faults);
        let (results_of, is_for_window, event_time, compared) = (None, false, None, None);
        Self { view, union, texts, steps, declared, results_of, is_for_window, event_time, compared }
            .shaped(faults)
    }

    /// The same for steps that see the results of a window, which have the columns `output`.
    fn of_results(
        view: &'a View<'a>,
        (window, output): (&str, &Schema),
        targets: Vec<Target>,
        tables: &[Schema],
        texts: &'a dyn Texts,
        steps: Vec<Planned<'a>>,
    ) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let union = Union::new(targets, tables, chain::has_steps_behind(&steps), &mut faults);
        let (declared, results_of) = (output.columns().to_vec(), Some(window.to_owned()));
        let (is_for_window, event_time, compared) = (false, None, None);
        Self { view, union, texts, steps, declared, results_of, is_for_window, event_time, compared }
            .shaped(faults)
    }

    fn shaped(mut self, faults: Faults) -> Result<Self, Faults> {
        if !faults.is_empty() {
            return Err(faults);
        }
        if self.steps.iter().any(|step| matches!(step.kind, Kind::Query(_) | Kind::Joined(_))) {
            self.shape_queries()?;
        }
        Ok(self)
    }

    fn plan(&self) -> Result<Plan, Faults> {
        let read = self
            .dedups()
            .flat_map(|(_, _, dedup)| dedup.key.iter().chain(&dedup.time))
            .map(|name| name.as_str());
        let read = read.filter(|name| self.union.index_of(name).is_none());
        let mut read = read.chain(self.union.columns().map(|column| self.source_of(column)));
        let takes_metadata = read.any(|name| Metadata::named(name).is_some());
        if self.declared.is_empty()
            && self.stateless().next().is_none()
            && !takes_metadata
            && !self.union.is_apart()
            && !self.view.joint.maps
            && self.view.time().is_none_or(|time| self.column_filled_by(time).is_some())
        {
            return self.straight();
        }
        let candidates = self.candidates();
        let bound = self.bind(&Schema::new(candidates.clone()))?;
        let last =
            bound.last().map_or_else(|| Schema::new(candidates.clone()), |bound| bound.step.schema().clone());
        let conditions = self.conditions(&last)?;
        self.unused(&last, &bound, &conditions.reads())?;
        let time = self.time(&candidates)?;
        let keys = self.keys(&Schema::new(candidates.clone()), &bound)?;
        let needed = self.needed(&last, &bound, (&keys, &conditions.reads()), time.as_deref());
        let mut input = candidates;
        // A record without any field that is read still makes a row.
        let first =
            input.iter().find(|column| !self.is_metadata(&column.name)).map(|column| column.name.clone());
        let is_any =
            input.iter().any(|column| needed.contains(&column.name) && !self.is_metadata(&column.name));
        let first = first.filter(|_| !is_any);
        input.retain(|column| needed.contains(&column.name) || first.as_ref() == Some(&column.name));
        let metadata: Vec<Metadata> = input
            .iter()
            .filter(|column| self.is_metadata(&column.name))
            .filter_map(|column| Metadata::named(&column.name))
            .collect();
        let decoded = input[..input.len() - metadata.len()].to_vec();
        if decoded.is_empty() {
            return Err(vec![fault(
                "steps",
                format!("no field of the record is read; declare one under `{}`", self.view.fields()),
            )]);
        }
        let (decoded, input) = (Schema::new(decoded), Schema::new(input));
        let chain::Made { stages, transforms, lane, lane_steps, tables, router } = self.chain(&input)?;
        Ok(Plan { decoded, metadata, input, time, stages, tables, transforms, lane, lane_steps, router })
    }

    /// Without steps that change or drop rows every column is decoded as the table has it.
    fn straight(&self) -> Result<Plan, Faults> {
        let column = |column: &Column| Column { field: self.source_of(column).to_owned(), ..column.clone() };
        let input = Schema::new(self.union.columns().map(column).collect());
        let mapped = |column: &Column| Mapped {
            column: column.name.clone(),
            from: Some(column.name.clone()),
            conversion: Conversion::Same,
            field: Some(self.source_of(column).to_owned()),
        };
        let mapping = self.union.columns().map(mapped).collect();
        let time = self.straight_time()?;
        let lane_steps = self.lane_steps(&input, &[]);
        Ok(Plan {
            decoded: input.clone(),
            metadata: Vec::new(),
            lane: input.clone(),
            transforms: Vec::new(),
            input,
            time,
            stages: lane_steps.iter().filter_map(|step| self.lane_stage(step)).collect(),
            lane_steps,
            tables: self.union.plans(vec![mapping]),
            router: None,
        })
    }

    fn stateless(&self) -> impl Iterator<Item = &Planned<'a>> {
        self.steps.iter().filter(|step| step.is_stateless())
    }

    /// Each `dedup`, with its place among the steps and its key in the file.
    fn dedups(&self) -> impl Iterator<Item = (usize, &str, &'a Dedup)> {
        self.steps.iter().enumerate().filter_map(|(place, step)| match step.kind {
            Kind::Dedup(dedup) => Some((place, step.path.as_str(), dedup)),
            Kind::Filter(_)
            | Kind::Select(_)
            | Kind::Query(_)
            | Kind::Joined(_)
            | Kind::Window
            | Kind::Join
            | Kind::Lookup(_)
            | Kind::Mark(_)
            | Kind::Meet(_)
            | Kind::Nothing => None,
        })
    }

    /// The name that fills a column of a table: its own, unless `columns:` says other.
    fn source_of<'s>(&'s self, column: &'s Column) -> &'s str {
        self.union.source_of(&column.name)
    }

    /// Where column `name`, as it is after the first `steps` steps, comes from.
    fn origin(&self, name: &str, steps: usize) -> Origin {
        let mut name = name.to_owned();
        for step in self.steps[..steps].iter().rev() {
            match step.shape.before(&name) {
                shape::Before::Passes(before) => name = before,
                shape::Before::Computed => return Origin::Computed(step.path.clone()),
                shape::Before::Absent => return Origin::Absent,
            }
        }
        Origin::Field(name)
    }

    /// The column that a field is decoded as which fills `column` untouched. A row of OTLP has a value for every field, whichever table it goes to:
    /// NULL would take the place of those that may be left out.
    fn decoded_as(&self, column: &Column) -> Column {
        match self.view.input.source.format.otlp() {
            Some(_) => column.clone(),
            None => self.union.decoded_as(column),
        }
    }

    fn is_declared(&self, name: &str) -> bool {
        self.declared.iter().any(|column| column.name == name)
    }

    /// True if the source fills the column of that name.
    fn is_metadata(&self, name: &str) -> bool {
        Metadata::named(name).is_some() && !self.is_declared(name) && self.results_of.is_none()
    }

    /// Every column that the first step may see: fields that pass untouched to a column, in the order of the table, those that are
    /// declared, and what the source says of a record.
    fn candidates(&self) -> Vec<Column> {
        let mut candidates: Vec<Column> = Vec::new();
        let declared = |name: &str| self.declared.iter().find(|column| column.name == name);
        for column in self.union.columns() {
            let Origin::Field(name) = self.origin(self.source_of(column), self.steps.len()) else { continue };
            if candidates.iter().any(|known| known.name == name) || self.is_metadata(&name) {
                continue;
            }
            let as_column = || Column { name: name.clone(), field: name.clone(), ..self.decoded_as(column) };
            candidates.push(declared(&name).cloned().unwrap_or_else(as_column));
        }
        for column in &self.declared {
            if !candidates.iter().any(|known| known.name == column.name) {
                candidates.push(column.clone());
            }
        }
        let metadata = Metadata::ALL.into_iter().filter(|one| self.is_metadata(one.name()));
        candidates.extend(metadata.map(Metadata::column));
        candidates
    }

    /// Whether a step behind the one that gives a column its name reads it.
    fn is_read_later(&self, name: &str, bound: &[Bound]) -> bool {
        let steps: Vec<&Planned> = self.stateless().collect();
        let giver = steps.iter().rposition(|step| step.shape.names(name));
        bound
            .iter()
            .skip(giver.map_or(0, |giver| giver + 1))
            .any(|bound| bound.reads.iter().any(|read| read == name))
    }

    /// The place in the file that gives a column its name, if a step does.
    fn giver(&self, name: &str) -> Option<String> {
        let names = |step: &&Planned| match step.kind {
            Kind::Select(items) => items.has(name),
            Kind::Meet(_) => false,
            _ => step.shape.names(name),
        };
        let step = self.stateless().filter(names).last()?;
        Some(match step.kind {
            Kind::Select(_) => format!("{}.{name}", step.path),
            _ => step.path.clone(),
        })
    }

    /// A column that a step computes under a name that nothing takes is a slip of the pen.
    fn unused(&self, last: &Schema, bound: &[Bound], read: &[String]) -> Result<(), Faults> {
        let is_taken = |name: &str| {
            self.union.columns().any(|column| self.source_of(column) == name)
                || read.iter().any(|read| read == name)
                || self.is_read_later(name, bound)
                || self.event_time.as_ref().is_some_and(|(_, time)| time == name)
                || self.compared.as_deref() == Some(name)
                || self
                    .dedups()
                    .any(|(_, _, dedup)| dedup.key.iter().chain(&dedup.time).any(|key| key.as_str() == name))
        };
        let known = self.union.names();
        let the_table = if self.union.is_of_several() { "no table has a" } else { "the table has no" };
        let mut faults = Faults::new();
        for column in last.columns().iter().filter(|column| !is_taken(&column.name)) {
            let name = &column.name;
            let Some(path) = self.giver(name) else { continue };
            let near = nearest(name, &known);
            let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            faults.push(fault(path, format!("{the_table} column `{name}`, and no step reads it{near}")));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn undeclared(&self, field: &str, example: &str) -> String {
        format!(
            "`{field}` is no column of the table, and its type is not known; write `fields: {{ {field}: {example} }}` under `{}:`, with its \
             type",
            self.view.input.path
        )
    }

    /// The column of a table that a field fills untouched, if one does.
    fn column_filled_by(&self, field: &str) -> Option<&Column> {
        self.union.columns().find(|column| self.source_of(column) == field)
    }

    /// The column of the event time where the tables' columns are decoded as they are.
    fn straight_time(&self) -> Result<Option<String>, Faults> {
        let of_dedup = self.dedups().next();
        let of_dedup = of_dedup
            .and_then(|(_, path, dedup)| Some((format!("{path}.time"), dedup.time.as_ref()?.as_str())));
        let own = self.view.time().and_then(|time| self.column_filled_by(time));
        match (own, of_dedup) {
            (None, of_dedup) => Ok(of_dedup.map(|(_, time)| time.to_owned())),
            (Some(own), Some((path, time))) if own.name != time => {
                Err(vec![fault(path, self.two_times(time))])
            }
            (Some(own), _) => Ok(Some(own.name.clone())),
        }
    }

    /// The field that holds the event time: the input's own, or that of the first `dedup` that names one, if it is the first of all, or of the
    /// window.
    fn time(&self, candidates: &[Column]) -> Result<Option<String>, Faults> {
        let asked = self.asked_time()?;
        let (path, field) = match (self.view.time(), asked) {
            (None, None) => return Ok(None),
            (None, Some(asked)) => asked,
            (Some(own), Some((path, asked))) if own != asked => {
                return Err(vec![fault(path, self.two_times(&asked))]);
            }
            (Some(own), _) => (format!("{}.time", self.view.input.path), own.to_owned()),
        };
        if candidates.iter().any(|known| known.name == field) {
            return Ok(Some(field));
        }
        Err(vec![fault(path, self.undeclared(&field, "DateTime64(3)"))])
    }

    /// The field that the steps take the event time from, and who asks for it.
    fn asked_time(&self) -> Result<Option<(String, String)>, Faults> {
        let first = self.dedups().next();
        let of_dedup = first.map(|(_, path, dedup)| (format!("{path}.time"), dedup.time.as_ref()));
        let place = first.filter(|(_, _, dedup)| dedup.time.is_some()).map(|(place, ..)| place);
        let (path, time) = match (of_dedup, &self.event_time) {
            (Some((path, Some(time))), Some((other_path, other))) if time.as_str() != other => {
                let message = format!(
                    "the event time is `{time}`, by `{path}`, and a pipeline has one; write the same here, or leave it out"
                );
                return Err(vec![fault(other_path, message)]);
            }
            (Some((path, Some(time))), _) => (path, time.as_str()),
            (_, Some((path, time))) => (path.clone(), time.as_str()),
            (_, None) => return Ok(None),
        };
        let column = self.union.columns().find(|column| column.name == time);
        let name = column.map_or(time, |column| self.source_of(column));
        match self.origin(name, place.unwrap_or(self.steps.len())) {
            Origin::Field(field) => Ok(Some((path, field))),
            Origin::Absent => Ok(Some((path, time.to_owned()))),
            Origin::Computed(step) => {
                let message = format!(
                    "`{name}` is computed by `{step}`, but the event time is read before the first step, so that records which a step drops \
                     move the watermark too; use a field of the record, with its type under `{}`",
                    self.view.fields()
                );
                Err(vec![fault(path, message)])
            }
        }
    }

    /// Why a step's event time cannot be `asked`: the input has its own.
    fn two_times(&self, asked: &str) -> String {
        let input = &self.view.input.path;
        let own = self.view.time().unwrap_or_default();
        format!(
            "the event time of `{input}` is `{own}`, by `{input}.time`, and here it is `{asked}`; leave it out here, and give every input its `time`"
        )
    }

    /// The columns of the first step's rows that anything reads: the tables, the conditions behind the last step, and the keys of the steps
    /// with state.
    fn needed(
        &self,
        last: &Schema,
        bound: &[Bound],
        (keys, reads): (&[Key], &[String]),
        time: Option<&str>,
    ) -> BTreeSet<String> {
        let taken = self.union.columns().map(|column| self.source_of(column).to_owned());
        let taken = taken.filter(|name| last.index_of(name).is_some());
        let mut needed: BTreeSet<String> = taken.chain(reads.iter().cloned()).collect();
        let keys_behind = |stateless: usize| {
            keys.iter().filter(move |key| key.behind == stateless).map(|key| key.column.clone())
        };
        for (at, (step, bound)) in
            self.stateless().zip(bound).enumerate().collect::<Vec<_>>().into_iter().rev()
        {
            needed.extend(keys_behind(at + 1));
            let passed = needed.iter().filter_map(|name| match step.shape.before(name) {
                shape::Before::Passes(before) => Some(before),
                shape::Before::Computed | shape::Before::Absent => None,
            });
            // `SELECT *` passes what the source says of a record too: only what is written or taken is made.
            let is_written = |name: &&String| match step.kind {
                Kind::Query(text) => !self.is_metadata(name) || text.contains(name.as_str()),
                _ => true,
            };
            let named = step.shape.passes.values().filter(is_written).cloned();
            needed = passed.chain(named).chain(bound.reads.iter().cloned()).collect();
        }
        needed.extend(keys_behind(0));
        needed.extend(time.map(str::to_owned));
        needed
    }
}

impl<'a> Planned<'a> {
    fn is_stateless(&self) -> bool {
        matches!(
            self.kind,
            Kind::Filter(_)
                | Kind::Select(_)
                | Kind::Query(_)
                | Kind::Joined(_)
                | Kind::Lookup(_)
                | Kind::Mark(_)
                | Kind::Meet(_)
        )
    }

    /// A condition of the step `at`, whose value is one more column.
    fn mark(at: usize, path: String, text: &'a str) -> Self {
        let shape = Shape { computed: [MARK.to_owned()].into(), ..Shape::all() };
        Self { path, at, kind: Kind::Mark(text), shape }
    }

    /// What the query of the join `at` makes of its rows. Its shape is known once it is bound.
    fn behind_join(at: usize, query: &'a JoinQuery) -> Self {
        Self { path: format!("steps[{at}].sql"), at, kind: Kind::Joined(query), shape: Shape::all() }
    }

    /// A step for the rows of other inputs.
    fn elsewhere(at: usize) -> Self {
        Self { path: String::new(), at, kind: Kind::Nothing, shape: Shape::all() }
    }

    fn new((at, step): (usize, &'a Step)) -> Self {
        let path = format!("steps[{at}].{}", step.word());
        let (kind, shape) = match step {
            Step { filter: Some(text), .. } => (Kind::Filter(text), Shape::all()),
            Step { select: Some(items), .. } => (Kind::Select(items), shape::of_select(items)),
            // Its shape is known once it is bound.
            Step { sql: Some(text), .. } => (Kind::Query(text), Shape::all()),
            Step { dedup: Some(dedup), .. } => (Kind::Dedup(dedup), Shape::all()),
            Step { window: Some(_), .. } => (Kind::Window, Shape::all()),
            Step { join: Some(_), .. } => (Kind::Join, Shape::all()),
            Step { lookup: Some(lookup), .. } => (Kind::Lookup(lookup), shape::of_lookup(lookup)),
            _ => (Kind::Nothing, Shape::all()),
        };
        Self { path, at, kind, shape }
    }
}

/// The first steps of the file, `count` in number, as they are for the rows of an input.
fn planned<'a>(pipeline: &'a Pipeline, view: &'a View<'a>, count: usize) -> Vec<Planned<'a>> {
    let mut steps = Vec::with_capacity(count + 1);
    for (at, step) in pipeline.steps.iter().enumerate().take(count) {
        steps.extend(view.meeting(at));
        let is_own = step.reads(view.input.name);
        steps.push(if is_own { Planned::new((at, step)) } else { Planned::elsewhere(at) });
    }
    steps.extend(view.meeting(count));
    steps
}

#[cfg(test)]
mod tests;
