//! Sizes and times of a pipeline file to the engine's bounds.
//!
//! Owns how `memory` is shared out. What the file does not speak of keeps the engine's default.

use std::time::Duration;

use engine::Settings;

use crate::config::model::Pipeline;
use crate::config::values::Window;

/// A sixteenth of `memory` is for records read ahead: at the default of 1 GiB as much as the source takes by itself.
const AHEAD_SHARE: u64 = 16;

/// An eighth of `memory` is for frames between seal and answer.
const FRAMES_SHARE: u64 = 8;

/// Bytes that a source may read ahead.
pub fn ahead_bytes(pipeline: &Pipeline) -> usize {
    usize::try_from(pipeline.memory.bytes / AHEAD_SHARE).unwrap_or(usize::MAX)
}

/// The engine's bounds; `order_dependent` tables get one insert at a time.
pub fn settings(pipeline: &Pipeline, order_dependent: bool) -> Settings {
    let Pipeline { sink, spool, memory, shutdown, .. } = pipeline;
    let in_flight = if order_dependent { 1 } else { sink.in_flight };
    Settings {
        batch_rows_max: sink.batch.rows,
        batch_bytes_max: sink.batch.bytes.bytes,
        batch_age_max: sink.batch.age.duration(),
        in_flight_max: in_flight as usize,
        spool_bytes_max: spool.bytes.bytes,
        spool_age_max: spool.age.duration(),
        body_cache_bytes_max: memory.bytes / FRAMES_SHARE,
        insert_time_max: sink.clickhouse.timeout.duration(),
        drain_time_max: shutdown.timeout.duration(),
        skew_ms_max: skew(pipeline).map(|skew| i64::try_from(skew.as_millis()).unwrap_or(i64::MAX)),
        ..Settings::default()
    }
}

/// How far partitions may run apart by their records' time: one window, so that the state holds two windows of keys at
/// the most while a backlog is read. `None` when no step looks at time.
fn skew(pipeline: &Pipeline) -> Option<Duration> {
    let windows = pipeline.steps.iter().filter_map(|step| match step.dedup.as_ref()?.window {
        Window::Unbounded => None,
        Window::Within(period) => Some(period.duration()),
    });
    windows.min()
}
