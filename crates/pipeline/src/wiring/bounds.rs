//! Sizes and times of a pipeline file to the engine's bounds.
//!
//! Owns how `memory` is shared out. Does not own the engine's defaults, which hold for all that the file leaves out (`engine::settings`),
//! nor the keeping of a bound, which is each part's.
//!
//! | part                                   | share at the defaults      | bounded where                          |
//! |----------------------------------------|----------------------------|----------------------------------------|
//! | keys in memory of `dedup`                   | 1/8 (`dedup.memory`)       | `operators::dedup`                     |
//! | keys on their way to files             | as much                    | `operators::dedup`                     |
//! | records read ahead                     | 1/64                       | the source's queue                     |
//! | batches, as columns and being encoded  | 6/16: six, 1/16 each       | `engine::lane`, `engine::seal`         |
//! | frames between seal and answer         | 1/8                        | `engine::target`                       |
//! | what Kafka's answers, the program, its stacks and the allocator take | 15/64, at least 64 MiB | Kafka's answers by `ahead / 4`, the window of a large zstd batch by `8 * ahead` |
//!
//! A batch of half a million rows fits at the defaults. Smaller shares of batches cost the server more than they save here, and larger
//! ones nobody fills: docs/performance.md, "Memory", has the figures.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Settings;
use engine::settings::Pace;

use crate::config::model::step::Step;
use crate::config::model::{Input, Pipeline};
use crate::config::values::{Period, Size, Window};

/// Batches that are in memory at once: one gathers, one waits for the seal, one waits in front of it, one is being encoded; and
/// the frames of two of them, which are no larger.
const BATCHES: u64 = 6;

/// What the program takes before it reads a record (33 to 39 MB), with room for a broker's answer and for what the allocator rounds up.
const PROGRAM: u64 = 64 << 20;

/// What `memory` is shared out to, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Keys in memory of each `dedup`; spilling takes as much again.
    pub open_keys: Vec<u64>,
    /// Records read ahead.
    pub ahead: u64,
    /// One batch, as columns.
    pub batch: u64,
    /// Frames between seal and answer.
    pub frames: u64,
    /// What no bound of its own holds: the program and its stacks, a broker's answer, memory that the allocator keeps.
    pub rest: u64,
}

impl Shares {
    /// Shares `memory` bytes out between the steps, which ask for `open_keys` bytes, and everything else. The steps get half of
    /// what the program leaves at the most, with what closing takes.
    pub fn of(memory: u64, open_keys: &[u64]) -> Self {
        let each_max = memory.saturating_sub(PROGRAM) / 4 / (open_keys.len() as u64).max(1);
        let open_keys: Vec<u64> = open_keys.iter().map(|asked| (*asked).min(each_max)).collect();
        let state = 2 * open_keys.iter().sum::<u64>();
        // Pipelines without state read no further ahead than others: more would not make them faster.
        let others = (memory - state).min(memory / 4 * 3);
        let queues = others - (others / 16 * 5).max(PROGRAM).min(others);
        // A few of Kafka's answers, of a quarter each: memory that is read ahead is touched for the first time, and has left the
        // processor's caches when it is decoded.
        let (ahead, batch, frames) = (queues / 33, queues / 33 * 24 / BATCHES, queues / 33 * 8);
        let rest = memory - state - ahead - BATCHES * batch - frames;
        Self { open_keys, ahead, batch, frames, rest }
    }

    /// All of it.
    #[cfg(test)]
    pub fn sum(&self) -> u64 {
        2 * self.open_keys.iter().sum::<u64>() + self.ahead + BATCHES * self.batch + self.frames + self.rest
    }
}

/// How the pipeline's memory is shared out.
pub fn shares(pipeline: &Pipeline) -> Shares {
    let of_steps = pipeline.steps.iter().filter_map(|step| Some(state_memory(step)?.bytes));
    let asked: Vec<u64> = of_steps.chain(upsert_memory(pipeline)).collect();
    Shares::of(pipeline.memory.bytes, &asked)
}

/// Bytes for the last rows of a table that takes rows back, if the pipeline has one.
pub fn last_rows(pipeline: &Pipeline) -> Option<u64> {
    upsert_memory(pipeline).and_then(|_| shares(pipeline).open_keys.last().copied())
}

/// The memory that such a table asks for.
fn upsert_memory(pipeline: &Pipeline) -> Option<u64> {
    let upsert = pipeline
        .targets()
        .into_iter()
        .find_map(|target| target.upsert.filter(|upsert| upsert.sign.is_some()))?;
    Some(upsert.memory.map_or(operators::join::MEMORY_DEFAULT, |memory| memory.bytes))
}

/// The bytes of each step with state, by its number in the pipeline file.
pub fn open_keys(pipeline: &Pipeline) -> BTreeMap<usize, u64> {
    let steps = pipeline.steps.iter().enumerate().filter(|(_, step)| state_memory(step).is_some());
    steps.map(|(at, _)| at).zip(shares(pipeline).open_keys).collect()
}

/// The memory that a step asks for its state, or for what it looks up: twice as much while that is read again.
fn state_memory(step: &Step) -> Option<Size> {
    let of_window = || step.window.as_ref().map(|window| window.memory);
    let of_join = || step.join.as_ref().map(|join| join.memory);
    let of_lookup = || step.lookup.as_ref().map(|lookup| lookup.memory);
    step.dedup.as_ref().map(|dedup| dedup.memory).or_else(of_window).or_else(of_join).or_else(of_lookup)
}

/// Bytes that the source of one input may read ahead: the inputs share what there is.
pub fn ahead_bytes(pipeline: &Pipeline) -> usize {
    let inputs = pipeline.inputs().len().max(1) as u64;
    usize::try_from(shares(pipeline).ahead / inputs).unwrap_or(usize::MAX)
}

/// Bytes of a record that a source hands out at the most: one more than a record may have, so that the decoder sees that it is too long, or as many as its
/// dead letter can hold. Several such records may be under way at a time, and each is there more than once until its dead letter is sealed, so a dead letter holds
/// no more than a sixteenth of the pipeline's memory.
pub fn handed_out_bytes(pipeline: &Pipeline, record_bytes_max: usize) -> usize {
    handed_out(pipeline.memory.bytes, record_bytes_max)
}

fn handed_out(memory: u64, record_bytes_max: usize) -> usize {
    let of_memory = usize::try_from(memory / 16).unwrap_or(usize::MAX);
    record_bytes_max.max(of_memory.min(dataflow::reject::RAW_BYTES_MAX)) + 1
}

/// Bytes of a batch, as columns, at the most.
pub fn batch_bytes(pipeline: &Pipeline) -> u64 {
    pipeline.sink.batch.bytes.bytes.min(shares(pipeline).batch)
}

/// The engine's bounds; `order_dependent` tables get one insert at a time.
pub fn settings(pipeline: &Pipeline, order_dependent: bool) -> Settings {
    let Pipeline { sink, spool, shutdown, .. } = pipeline;
    let in_flight = if order_dependent { 1 } else { sink.in_flight };
    let defaults = Settings::default();
    Settings {
        batch_rows_max: sink.batch.rows,
        batch_bytes_max: batch_bytes(pipeline),
        batch_age_max: sink.batch.age.duration(),
        in_flight_max: in_flight as usize,
        spool_bytes_max: spool.bytes.bytes,
        spool_age_max: spool.age.duration(),
        insert_time_max: sink.clickhouse.timeout.duration(),
        // Each table keeps its own.
        body_cache_bytes_max: shares(pipeline).frames / pipeline.targets().len() as u64,
        drain_time_max: shutdown.timeout.duration(),
        future_ms_max: future_ms(pipeline),
        paces: paces(pipeline),
        skew_ms_max: skew(pipeline).map(|skew| i64::try_from(skew.as_millis()).unwrap_or(i64::MAX)),
        ..defaults
    }
}

/// How the clocks of inputs go that say so.
fn paces(pipeline: &Pipeline) -> BTreeMap<String, Pace> {
    let pace = |input: &Input<'_>| {
        let (future, idle) = (input.source.future_max, input.source.idle_after);
        let pace = Pace {
            idle_after: idle.map_or(Settings::default().idle_after, Period::duration),
            future_ms_max: future.map_or_else(|| future_ms(pipeline), |future| future.ms.cast_signed()),
        };
        (future.is_some() || idle.is_some()).then(|| (input.name.to_owned(), pace))
    };
    pipeline.inputs().iter().filter_map(pace).collect()
}

/// How far ahead of the others a record may move the watermark of an input that does not say it, in milliseconds.
fn future_ms(pipeline: &Pipeline) -> i64 {
    let most = Settings::default().future_ms_max;
    future(pipeline).map_or(most, |future| future.min(most))
}

/// How far ahead of the others a record may move the watermark, in milliseconds: as the steps say, or a quarter of the window, within which
/// no history is freed that the others need. `None` when no step looks at time.
fn future(pipeline: &Pipeline) -> Option<i64> {
    let futures = pipeline.steps.iter().filter_map(|step| {
        if let Some(window) = &step.window {
            return Some(window.shortest().duration() / 4);
        }
        if let Some(join) = &step.join {
            if join.is_temporal() {
                return None;
            }
            // A record from the future releases none of the rows that it comes before.
            let (before, after) = join.interval();
            return Some((before + after).max(Duration::from_secs(1)) / 4);
        }
        let dedup = step.dedup.as_ref()?;
        match (dedup.future_max, dedup.window) {
            (_, Window::Unbounded) => None,
            (Some(future), _) => Some(future.duration()),
            (None, Window::Within(window)) => Some(window.duration() / 4),
        }
    });
    futures.min().map(|future| i64::try_from(future.as_millis()).unwrap_or(i64::MAX))
}

/// How far the two sides of a temporal join may run apart: left rows wait as long in memory while the versions for them are read. Long enough that topics whose records are
/// some seconds apart are not read by fits and starts.
const APART: Duration = Duration::from_secs(60);

/// How far partitions may run apart by their records' time: one window, so that the state holds two windows of keys at
/// the most while a backlog is read. `None` when no step looks at time.
fn skew(pipeline: &Pipeline) -> Option<Duration> {
    let of_window = pipeline.steps.iter().filter_map(|step| {
        let window = step.window.as_ref()?;
        Some(window.longest().duration() + window.lateness.duration())
    });
    let windows = pipeline.steps.iter().filter_map(|step| match step.dedup.as_ref()?.window {
        Window::Unbounded => None,
        Window::Within(period) => Some(period.duration()),
    });
    let of_join = pipeline.steps.iter().filter_map(|step| {
        let join = step.join.as_ref()?;
        if join.is_temporal() {
            return Some(APART + join.lateness.duration());
        }
        let (before, after) = join.interval();
        Some(before.max(after).max(Duration::from_secs(1)) + join.lateness.duration())
    });
    windows.chain(of_window).chain(of_join).min()
}

#[cfg(test)]
mod tests;
