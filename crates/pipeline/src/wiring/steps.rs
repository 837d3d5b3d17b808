//! `steps:` to operators.

use std::sync::Arc;

use dataflow::{Intake, Operator, Router, Schema, Transform};
use operators::dedup::SHARDS_MAX;
use operators::window::MEMORY_DEFAULT;
use operators::{Dedup, DedupConfig, EventTime, Stateless};

use super::source::Decoding;
use super::texts::Sql;
use super::{WiringError, bounds};
use crate::config::model::Pipeline;
use crate::config::model::step::{self as model, Keep};
use crate::config::values::Window;
use crate::plan::{self, Fault, Plan};

/// Compute threads for each shard of a step's keys. Deciding takes a tenth of the work on a record and decoding and encoding the rest, so
/// a quarter of the threads is more than a lane's batches keep busy.
const THREADS_A_SHARD: usize = 4;

/// Memory for open keys that each shard must have: it takes 0.7 MB for an index and a slab of pages before it has many keys.
const SHARD_BYTES_MIN: u64 = 4 << 20;

/// The pipeline's work on records: before the lane, and in it.
pub struct Chain {
    /// Decoding, the event time, and the steps without state.
    pub intake: Intake,
    /// The steps with state.
    pub steps: Vec<Box<dyn Operator>>,
    /// What decoding needs of the source: whoever reads for this intake reads from [`Decoding::ready`].
    pub decoding: Decoding,
    /// What deals rows out to several tables; `None` with one.
    pub router: Option<Arc<dyn Router>>,
}

/// The plan of a pipeline for tables with these columns, its texts being SQL.
///
/// # Errors
/// The faults of its steps.
pub fn plan(pipeline: &Pipeline, tables: &[Schema]) -> Result<Plan, Vec<Fault>> {
    plan::plan(pipeline, tables, &Sql)
}

/// The work of a pipeline for tables with these columns, on a runtime with so many compute threads.
///
/// # Errors
/// When a step, a field or a column of a table does not fit the others.
pub fn chain(pipeline: &Pipeline, tables: &[Schema], compute_threads: usize) -> Result<Chain, WiringError> {
    let plan = plan(pipeline, tables).map_err(WiringError::Steps)?;
    let decoding = super::source::decoder(&pipeline.source.format, plan.decoded.clone())?;
    let time = match &plan.time {
        Some(column) => Some(Arc::new(event_time(pipeline, &plan.input, column)?) as Arc<dyn Transform>),
        None => None,
    };
    let mut steps = steps(pipeline, &plan.lane, compute_threads)?;
    if let Some(window) = &plan.window {
        let fault = |error| WiringError::Settings(format!("`{}`: {error}", window.path));
        // The window is the last step with state, and its share the last.
        let memory = bounds::shares(pipeline).open_keys.last().copied().unwrap_or(MEMORY_DEFAULT);
        let step = operators::Window::new(&plan.lane, &window.config).map_err(fault)?;
        steps.push(Box::new(step.with_memory(memory)));
        steps.extend(window.behind.iter().map(|step| Box::new(Stateless(step.clone())) as Box<dyn Operator>));
    }
    Ok(Chain {
        intake: Intake::new(decoding.decoder.clone())
            .with_metadata(plan.metadata)
            .with_time(time)
            .with_steps(plan.transforms),
        steps,
        decoding,
        router: plan.router.map(|router| Arc::new(router) as Arc<dyn Router>),
    })
}

/// The event time, which the first `dedup` asks for.
fn event_time(pipeline: &Pipeline, input: &Schema, column: &str) -> Result<EventTime, WiringError> {
    let asks = |step: &model::Step| step.dedup.is_some() || step.window.is_some();
    let index = pipeline.steps.iter().position(asks).unwrap_or_default();
    let word = pipeline.steps.get(index).map_or("dedup", model::Step::word);
    EventTime::new(input, column)
        .map_err(|error| WiringError::Settings(format!("`steps[{index}].{word}`: {error}")))
}

/// The operators of the steps with state, in their order, for rows of `schema`. The first one's time is the event time, which is taken before
/// the lane; a later one that asks for a time has an operator of its own before it.
///
/// # Errors
/// When a step names a column that is not there or does not serve.
pub fn steps(
    pipeline: &Pipeline,
    schema: &Schema,
    compute_threads: usize,
) -> Result<Vec<Box<dyn Operator>>, WiringError> {
    let mut operators: Vec<Box<dyn Operator>> = Vec::new();
    let mut open_keys = bounds::shares(pipeline).open_keys.into_iter();
    for (index, step) in pipeline.steps.iter().enumerate() {
        let Some(dedup) = &step.dedup else { continue };
        let fault =
            |error: operators::ConfigError| WiringError::Settings(format!("`steps[{index}].dedup`: {error}"));
        if let Some(column) = dedup.time.as_ref().filter(|_| !operators.is_empty()) {
            operators.push(Box::new(EventTime::new(schema, column.as_str()).map_err(fault)?));
        }
        let step = Dedup::new(schema, dedup_config(dedup)).map_err(fault)?;
        let open_bytes = open_keys.next().unwrap_or(dedup.memory.bytes);
        let step = step.with_shards(shards(compute_threads, open_bytes)).with_memory(open_bytes);
        operators.push(Box::new(step));
    }
    Ok(operators)
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

fn dedup_config(dedup: &model::Dedup) -> DedupConfig {
    // The only word there is; a further one must not be taken for it.
    let Keep::First = dedup.keep;
    DedupConfig {
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
    }
}

#[cfg(test)]
mod tests;
