//! `steps:` to operators.

use dataflow::{Operator, Schema};
use operators::dedup::SHARDS_MAX;
use operators::{Dedup, DedupConfig, EventTime};

use super::{WiringError, bounds};
use crate::config::model::Pipeline;
use crate::config::model::step::{self as model, Keep};
use crate::config::values::Window;

/// Compute threads for each shard of a step's keys. Deciding takes a tenth of the work on a record and decoding and encoding the rest, so
/// a quarter of the threads is more than a lane's batches keep busy.
const THREADS_A_SHARD: usize = 4;

/// Memory for open keys that each shard must have: it takes 0.7 MB for an index and a slab of pages before it has many keys.
const SHARD_BYTES_MIN: u64 = 4 << 20;

/// The operators of the pipeline's steps, in their order, for rows of `schema` and a runtime with so many compute threads.
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
        let Some(dedup) = &step.dedup else {
            return Err(WiringError::Settings(format!("`steps[{index}]` names no step")));
        };
        let fault =
            |error: operators::ConfigError| WiringError::Settings(format!("`steps[{index}].dedup`: {error}"));
        if let Some(column) = &dedup.time {
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
