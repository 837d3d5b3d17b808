//! From the pipeline file and the tables' columns to schemas that flow: what is decoded, what each step is bound to, and how the last
//! rows become those of the tables. Pure: no server, no file, no clock.
//!
//! Owns which fields are decoded and with what types, where each step runs, and the mapping to each table's columns. Does not own what a
//! step's text means ([`Texts`], which `sql` stands behind), nor the making of parts (`wiring`).
//!
//! A chain is planned by `planner`. Everything there is about one input; several are planned one by one, each with the steps that read it, so that their rows have the same
//! columns where they meet ([`inputs`], [`union`]).
//!
//! | a field of the record                                   | is decoded as                                            |
//! |---------------------------------------------------------|----------------------------------------------------------|
//! | declared under `source.fields` or `inputs.NAME.fields`  | the declared type                                        |
//! | passes every step untouched and fills a column          | that column's type, with its DEFAULT: no conversion      |
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
mod further;
pub mod inputs;
pub(crate) mod joins;
pub mod lookups;
mod mapping;
mod needed;
mod planner;
mod shape;
mod steps;
mod tables;
pub mod taken_back;
mod texts;
mod times;
mod union;
pub(crate) mod windows;

use std::ops::Range;
use std::sync::Arc;

use dataflow::{ColumnType, Metadata, Schema, Transform};
use operators::mapping::route::ByTable;
pub use operators::mapping::types::Conversion;

use crate::config::model::Pipeline;
use crate::config::model::sink::Takes;
pub use chain::LaneStep;
use inputs::View;
pub use inputs::{InputPlan, Plans};
use planner::Planner;
pub use shape::{Rest, Shape};
pub use texts::{Bound, TextFault, Texts};

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
    /// The type that it has there.
    pub from_type: Option<ColumnType>,
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
    let renumbered = |mut plans: Plans| {
        let stages = plans.inputs.iter_mut().flat_map(|input| &mut input.plan.stages);
        stages.for_each(|stage| stage.path = pipeline.renumbered(&stage.path));
        plans
    };
    let targets = pipeline.targets();
    let rows: Vec<Schema> =
        targets.iter().zip(tables).map(|(target, table)| taken_back::rows_of(target, table)).collect();
    let planned = inputs::plan(pipeline, &rows, texts).and_then(|mut plans| {
        taken_back::add(pipeline, tables, &mut plans)?;
        Ok(plans)
    });
    planned.map(renumbered).map_err(|faults| {
        let in_file = |fault: Fault| {
            let (path, at) = pipeline.in_file(&fault.path, fault.at);
            Fault { path, at, message: fault.message }
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

type Faults = Vec<Fault>;

fn fault(path: impl Into<String>, message: impl Into<String>) -> Fault {
    Fault { path: path.into(), at: None, message: message.into() }
}

#[cfg(test)]
mod tests;
