//! `steps:` to operators.
//!
//! Owns the making of operators from a plan, the number of a step's shards, and the setting that an error names. Does not own which step
//! runs where and on which columns (`plan`), nor a step's memory (`wiring::bounds`).

use std::sync::Arc;

use dataflow::{Intake, Operator, Router, Schema, Transform};
use engine::Flow;
use engine::tables::{Side, SideRows};
use operators::dedup::SHARDS_MAX;
use operators::window::MEMORY_DEFAULT;
use operators::{ConfigError, Dedup, DedupConfig, EventTime, JoinSide, Stateless};

use super::source::Decoding;
use super::texts::Sql;
use super::{WiringError, bounds};
use crate::config::model::sink::{SideOutput, Takes};
use crate::config::model::step::{self as model, Keep};
use crate::config::model::{Input, Pipeline};
use crate::config::values::Window;
use crate::plan::{self, Fault, LaneStep, Plan, Plans};

/// Compute threads for each shard of a step's keys. Deciding takes a tenth of the work on a record and decoding and encoding the rest, so
/// a quarter of the threads is more than a lane's batches keep busy.
const THREADS_A_SHARD: usize = 4;

/// Memory for open keys that each shard must have: it takes 0.7 MB for an index and a slab of pages before it has many keys.
const SHARD_BYTES_MIN: u64 = 4 << 20;

/// The pipeline's work on records: before the lane, and in it.
pub struct Chain {
    /// The work before the lane, by input, in the order of [`Pipeline::inputs`]; at least one.
    pub inputs: Vec<InputChain>,
    /// The steps with state.
    pub steps: Vec<Box<dyn Operator>>,
    /// Which of them the rows of each input, and of each step, go to next.
    pub flow: Flow,
    /// What deals rows out to several tables; `None` with one.
    pub router: Option<Arc<dyn Router>>,
    /// The tables of side outputs.
    pub sides: Vec<Side>,
}

/// The work on the records of one input before the lane.
pub struct InputChain {
    /// The input's name.
    pub name: String,
    /// Decoding, the event time, and the steps without state.
    pub intake: Intake,
    /// What decoding needs of the source: whoever reads for this intake reads from [`Decoding::ready`].
    pub decoding: Decoding,
}

/// The plan of a pipeline for tables with these columns, its texts being SQL.
///
/// # Errors
/// The faults of its steps.
pub fn plan(pipeline: &Pipeline, tables: &[Schema]) -> Result<Plans, Vec<Fault>> {
    plan::plan(pipeline, tables, &Sql)
}

/// The work of a pipeline for tables with these columns, on a runtime with so many compute threads.
///
/// # Errors
/// When a step, a field or a column of a table does not fit the others.
pub fn chain(pipeline: &Pipeline, tables: &[Schema], compute_threads: usize) -> Result<Chain, WiringError> {
    let plans = plan(pipeline, tables).map_err(WiringError::Steps)?;
    let steps = lane(pipeline, plans.common().lane_steps.clone(), compute_threads)?;
    let flow = plans.flow.clone();
    let router = plans.common().router.clone();
    let sides = sides(pipeline, &plans.common().lane_steps);
    let inputs = pipeline.inputs();
    let of_inputs = inputs.iter().zip(plans.inputs);
    let of_inputs = of_inputs.map(|(input, of)| input_chain(pipeline, input, of.plan));
    let mut of_inputs = of_inputs.collect::<Result<Vec<InputChain>, WiringError>>()?;
    if let Some(looks) = super::lookups::looks(pipeline, &of_inputs)? {
        for (chain, looks) in of_inputs.iter_mut().zip(looks) {
            chain.decoding.looks = Some(looks);
        }
    }
    Ok(Chain {
        inputs: of_inputs,
        steps,
        flow,
        sides,
        router: router.map(|router| Arc::new(router) as Arc<dyn Router>),
    })
}

fn input_chain(pipeline: &Pipeline, input: &Input<'_>, plan: Plan) -> Result<InputChain, WiringError> {
    let decoding = super::source::decoder(input, plan.decoded)?;
    let time = match &plan.time {
        Some(column) => {
            Some(Arc::new(event_time(pipeline, input, &plan.input, column)?) as Arc<dyn Transform>)
        }
        None => None,
    };
    let intake = Intake::new(decoding.decoder.clone())
        .with_metadata(input.name, plan.metadata)
        .with_time(time)
        .with_steps(plan.transforms);
    Ok(InputChain { name: input.name.to_owned(), intake, decoding })
}

/// The event time, which the input asks for, or the first step with state.
fn event_time(
    pipeline: &Pipeline,
    input: &Input<'_>,
    schema: &Schema,
    column: &str,
) -> Result<EventTime, WiringError> {
    let index = pipeline.steps.iter().position(model::Step::is_stateful);
    let path = match index.filter(|_| input.source.time.is_none()) {
        Some(index) => pipeline.step_in_file(index),
        None => format!("{}.time", input.path),
    };
    EventTime::new(schema, column).map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))
}

/// Which tables take the rows of which side outputs of the lane's steps.
fn sides(pipeline: &Pipeline, steps: &[LaneStep]) -> Vec<Side> {
    let (targets, mut sides) = (pipeline.targets(), Vec::new());
    let mut add = |step, rows, output, mapping: &Option<Arc<dyn Transform>>| {
        let table = targets.iter().position(|target| target.takes == Takes::Side(output));
        if let (Some(table), Some(mapping)) = (table, mapping) {
            sides.push(Side { step, rows, table, mapping: mapping.clone() });
        }
    };
    for (step, lane) in steps.iter().enumerate() {
        match lane {
            LaneStep::Window { at, late, .. } => add(step, SideRows::Late, SideOutput::Late(*at), late),
            LaneStep::Join { at, unmatched, .. } => {
                for (side, mapping) in [JoinSide::Left, JoinSide::Right].into_iter().zip(unmatched) {
                    let rows = SideRows::Unmatched(side as usize);
                    add(step, rows, SideOutput::Unmatched(*at, side), mapping);
                }
            }
            _ => {}
        }
    }
    sides
}

/// The operators of the lane, in their order.
fn lane(
    pipeline: &Pipeline,
    steps: Vec<LaneStep>,
    compute_threads: usize,
) -> Result<Vec<Box<dyn Operator>>, WiringError> {
    let made = operators(pipeline, steps, compute_threads);
    made.map(|(_, operator)| operator).collect()
}

/// The steps that cannot be made, by their keys in the file, and why.
pub fn lane_faults(
    pipeline: &Pipeline,
    steps: Vec<LaneStep>,
    compute_threads: usize,
) -> Vec<(String, WiringError)> {
    let named = |at: Option<usize>| at.map_or(UPSERT.to_owned(), |at| pipeline.step_in_file(at));
    let made = operators(pipeline, steps, compute_threads);
    made.filter_map(|(at, made)| Some((named(at), made.err()?))).collect()
}

/// Where what takes rows back stands in the file, which is no step of it.
const UPSERT: &str = "sink";

/// The operator of each step, with the step's number in the file if it is one of those.
fn operators(
    pipeline: &Pipeline,
    steps: Vec<LaneStep>,
    compute_threads: usize,
) -> impl Iterator<Item = (Option<usize>, Result<Box<dyn Operator>, WiringError>)> {
    let open_keys = bounds::open_keys(pipeline);
    steps.into_iter().map(move |step| {
        let at = step.at();
        let memory = |default| at.and_then(|at| open_keys.get(&at).copied()).unwrap_or(default);
        let fault = |error: ConfigError| {
            // What stands behind the last step names its place itself.
            let path = at.map_or(UPSERT.to_owned(), |at| pipeline.step_in_file(at));
            WiringError::Settings(format!("`{path}`: {error}"))
        };
        let operator: Result<Box<dyn Operator>, ConfigError> = match step {
            LaneStep::Gate(gate) => Ok(Box::new(gate)),
            LaneStep::Stateless { step, columns } => Ok(Box::new(Stateless::new(step, columns))),
            LaneStep::Time { column, columns, .. } => {
                EventTime::new(&columns, &column).map(|step| Box::new(step) as _)
            }
            LaneStep::Dedup { at, columns } => {
                let dedup = pipeline.steps[at].dedup.as_ref().expect("the plan names a `dedup`");
                let bytes = memory(dedup.memory.bytes);
                let sized = |step: Dedup| step.with_shards(shards(compute_threads, bytes)).with_memory(bytes);
                let made = dedup_config(dedup).and_then(|config| Dedup::new(&columns, config));
                made.map(|step| Box::new(sized(step)) as _)
            }
            LaneStep::Join { at, config, sides: [left, right], .. } => {
                let join = pipeline.steps[at].join.as_ref().expect("the plan names a `join`");
                let closes = join.at_end == model::AtEnd::Close;
                config.step((&left, &right), memory(operators::join::MEMORY_DEFAULT), closes)
            }
            LaneStep::Upsert { config, rows, table } => {
                let bytes = bounds::last_rows(pipeline).unwrap_or(operators::join::MEMORY_DEFAULT);
                operators::Upsert::new(&rows, &table, &config)
                    .map(|step| Box::new(step.with_memory(bytes)) as _)
            }
            LaneStep::Window { at, config, columns, late } => {
                let window = pipeline.steps[at].window.as_ref().expect("the plan names a `window`");
                let bytes = memory(MEMORY_DEFAULT);
                let closes = window.at_end == model::AtEnd::Close;
                let sized = |step: operators::Window| step.with_memory(bytes).with_close_at_end(closes);
                let step = operators::Window::new(&columns, &config);
                step.map(|step| Box::new(sized(step).with_late_rows(late.is_some())) as _)
            }
        };
        (at, operator.map_err(fault))
    })
}

/// Shards of a step's keys. With fewer than four threads one, for all of them have blocks to decode and frames to encode, and one
/// shard saves dealing out the rows. From four on at least two, so that the lane's own task is not what all others wait for.
fn shards(compute_threads: usize, open_bytes: u64) -> usize {
    let with_memory = usize::try_from(open_bytes / SHARD_BYTES_MIN).unwrap_or(usize::MAX).max(1);
    match compute_threads {
        0..4 => 1,
        threads => (threads / THREADS_A_SHARD).clamp(2, SHARDS_MAX).min(with_memory),
    }
}

fn dedup_config(dedup: &model::Dedup) -> Result<DedupConfig, ConfigError> {
    if dedup.keep == Keep::Last {
        // Of a file that was checked none is left (`config::keep_last`).
        let message = "`last` is for the table to keep; put the step behind all others".to_owned();
        return Err(ConfigError::Setting { setting: "dedup.keep", message });
    }
    Ok(DedupConfig {
        key: dedup.key.iter().map(ToString::to_string).collect(),
        window: match dedup.window {
            Window::Unbounded => None,
            Window::Within(period) => Some(period.duration()),
        },
        late: match dedup.late {
            model::Late::Keep => operators::Late::Keep,
            model::Late::DeadLetter => operators::Late::DeadLetter,
            model::Late::Drop => operators::Late::Drop,
        },
    })
}

#[cfg(test)]
mod tests;
