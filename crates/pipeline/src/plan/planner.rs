//! The planner of one chain: from fields of records, or from the results of a window, to the columns of tables.
//!
//! Owns the order of planning, and what is known before it begins. Does not own which columns are needed ([`super::needed`]), the event time
//! ([`super::times`]), nor how a chain is divided between the decode job and the lane ([`super::chain`]).

use dataflow::{Column, Metadata, Schema};
use operators::mapping::types::Conversion;

use super::inputs::View;
use super::steps::{Kind, Planned, planned};
use super::tables::{Slot, Union};
use super::texts::Texts;
use super::{Faults, Mapped, Plan, chain, fault, shape};
use crate::config::model::Pipeline;
use crate::config::model::sink::Target;
use crate::config::model::step::Dedup;

/// Where a column of the last schema comes from.
pub(super) enum Origin {
    /// A field of the record, untouched.
    Field(String),
    /// A step computes it.
    Computed(String),
    /// No step gives it.
    Absent,
}

pub(super) struct Planner<'a> {
    /// The input.
    pub(super) view: &'a View<'a>,
    /// The columns of all tables.
    pub(super) union: Union,
    pub(super) texts: &'a dyn Texts,
    pub(super) steps: Vec<Planned<'a>>,
    /// The columns of the rows that the first step sees as far as they are known: fields that are declared, or all columns of a window's results.
    pub(super) declared: Vec<Column>,
    /// The window whose results the first step sees, by its key in the file; `None` if it sees records.
    pub(super) results_of: Option<String>,
    /// Whether the table stands for the columns that a window reads.
    pub(super) is_for_window: bool,
    /// Who asks for the event time beside `dedup`, and the column that holds it.
    pub(super) event_time: Option<(String, String)>,
    /// The column that a query behind the last step compares as the time of the rows; the rows have their time without it.
    pub(super) compared: Option<String>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        view: &'a View<'a>,
        tables: &[Schema],
        texts: &'a dyn Texts,
    ) -> Result<Self, Faults> {
        let steps = planned(pipeline, view, pipeline.steps.len());
        Self::of_records(view, pipeline.targets(), tables, texts, steps)
    }

    /// A planner for `steps`, the first of which sees records, and for tables that need not be the pipeline's.
    pub(super) fn of_records(
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
    pub(super) fn of_results(
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

    pub(super) fn plan(&self) -> Result<Plan, Faults> {
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
        let bound = self.bind_to_tables(&Schema::new(candidates.clone()))?;
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
        if metadata.contains(&Metadata::Position) && self.view.input.source.pulsar.is_some() {
            let message = "`_position` is read, and a position of Pulsar is two numbers, a ledger and a place in it, for which its type has no room; take \
                           `_partition` and `_timestamp` instead, or leave it out";
            return Err(vec![fault(format!("{}.pulsar", self.view.input.path), message.to_owned())]);
        }
        let decoded = input[..input.len() - metadata.len()].to_vec();
        if decoded.is_empty() {
            return Err(vec![fault(
                "steps",
                format!("no field of the record is read; declare one under `{}`", self.view.fields()),
            )]);
        }
        let (decoded, input) = (Schema::new(decoded), Schema::new(input));
        let chain::Made { stages, transforms, lane, lane_steps, tables, router, .. } = self.chain(&input)?;
        Ok(Plan { decoded, metadata, input, time, stages, tables, transforms, lane, lane_steps, router })
    }

    /// Without steps that change or drop rows every column is decoded as the table has it.
    fn straight(&self) -> Result<Plan, Faults> {
        let column = |column: &Column| Column { field: self.source_of(column).to_owned(), ..column.clone() };
        let input = Schema::new(self.union.columns().map(column).collect());
        let mapped = |column: &Column| Mapped {
            column: column.name.clone(),
            from: Some(column.name.clone()),
            from_type: Some(column.column_type.clone()),
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

    pub(super) fn stateless(&self) -> impl Iterator<Item = &Planned<'a>> {
        self.steps.iter().filter(|step| step.is_stateless())
    }

    /// Each `dedup`, with its place among the steps and its key in the file.
    pub(super) fn dedups(&self) -> impl Iterator<Item = (usize, &str, &'a Dedup)> {
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
    pub(super) fn source_of<'s>(&'s self, column: &'s Column) -> &'s str {
        self.union.source_of(&column.name)
    }

    /// Where column `name`, as it is after the first `steps` steps, comes from.
    pub(super) fn origin(&self, name: &str, steps: usize) -> Origin {
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
    pub(super) fn decoded_as(&self, column: &Column) -> Column {
        match self.view.input.source.format.otlp() {
            Some(_) => column.clone(),
            None => self.union.decoded_as(column),
        }
    }

    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.declared.iter().any(|column| column.name == name)
    }

    /// True if the source fills the column of that name.
    pub(super) fn is_metadata(&self, name: &str) -> bool {
        Metadata::named(name).is_some() && !self.is_declared(name) && self.results_of.is_none()
    }

    /// Why no step knows a table's column `name`: it is filled by one of another name, which `is_there`.
    pub(super) fn named_in_table(&self, name: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let is_meant = |slot: &&Slot| slot.name == name && slot.source != name && is_there(&slot.source);
        let source = &self.union.slots().iter().find(is_meant)?.source;
        Some(format!(
            "`{name}` is a column of the table, and is filled by `{source}`; with `sinks`, and where steps follow, a step names what fills it: \
             write `{source}`"
        ))
    }

    pub(super) fn undeclared(&self, field: &str, example: &str) -> String {
        format!(
            "`{field}` is no column of the table, and its type is not known; write `fields: {{ {field}: {example} }}` under `{}:`, with its \
             type",
            self.view.input.path
        )
    }

    /// The column of a table that a field fills untouched, if one does.
    pub(super) fn column_filled_by(&self, field: &str) -> Option<&Column> {
        self.union.columns().find(|column| self.source_of(column) == field)
    }
}
