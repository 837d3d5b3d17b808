//! What each stage costs in CPU.
//!
//! Owns the stages' names and the accounting: a look at the thread's clock before and after each piece of work, once a block or a
//! batch. Does not own the clock (`Runtime`). What a source's client takes, the store and inserts is not among them: it runs on
//! threads of others, which `/proc` tells apart by their names.

use std::sync::Arc;
use std::time::Duration;

use dataflow::Runtime;
use futures::future::BoxFuture;
use metrics::gauge;

use crate::Status;

/// A stage that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Records to columns.
    Decode,
    /// What the first step with state makes of a block by itself: the aggregates of a window.
    Aggregate,
    /// What is done with rows: deduplication, for one, or the merging of aggregates into those of open windows.
    Steps,
    /// What a watermark lets out of a step: the results of closed windows, and what the seal holds of open ones.
    Emit,
    /// Rows to frames, compressed, with their origins.
    Encode,
    /// A seal's pieces put together, with their checksums.
    Seal,
    /// Keys to files, and files merged.
    State,
}

impl Stage {
    /// The word in metrics and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Aggregate => "aggregate",
            Self::Steps => "steps",
            Self::Emit => "emit",
            Self::Encode => "encode",
            Self::Seal => "seal",
            Self::State => "state",
        }
    }
}

/// Runs `job` on a compute thread as [`Runtime`] does, and accounts it to a stage.
pub fn compute<T: Send + 'static>(
    stage: Stage,
    runtime: &Arc<dyn Runtime>,
    status: &Arc<Status>,
    job: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, Option<T>> {
    let (clock, status) = (runtime.clone(), status.clone());
    runtime.run(move || accounted(stage, &*clock, &status, job))
}

/// Does `work` and accounts the CPU that it takes to a stage.
pub fn accounted<T>(stage: Stage, runtime: &dyn Runtime, status: &Status, work: impl FnOnce() -> T) -> T {
    let before = runtime.thread_cpu();
    let done = work();
    // A runtime without such a clock says zero both times.
    let spent = runtime.thread_cpu().saturating_sub(before);
    if spent > Duration::ZERO {
        gauge!("forebay_stage_cpu_seconds", "stage" => stage.as_str()).increment(spent.as_secs_f64());
        status.update(|now| *now.cpu.entry(stage.as_str()).or_default() += spent);
    }
    done
}

#[cfg(test)]
mod tests;
