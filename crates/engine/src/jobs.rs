//! The jobs of a step, done by compute threads and the lane's task together.
//!
//! Owns who does which. The compute threads' queue may hold blocks to be decoded, milliseconds of work before a job's turn, so the lane does not wait
//! for its turn: a job is done by whoever gets at it first, and with threads that are all busy the lane does them all, as if there were
//! none. Does not own what a job does (the step).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use dataflow::{Divided, Job, JobDone, Operator, Output, Probed, Runtime};

use crate::stage::{self, Stage, accounted};
use crate::{EngineError, Status};

/// Has a step decide on a batch.
///
/// # Errors
/// When the step cannot go on, or a job panicked.
pub async fn finish(
    runtime: &Arc<dyn Runtime>,
    status: &Arc<Status>,
    step: &mut dyn Operator,
    probed: Probed,
    answers: &[Vec<u8>],
) -> Result<Output, EngineError> {
    match accounted(Stage::Steps, &**runtime, status, || step.divide(probed, answers))? {
        Divided::Done(output) => Ok(output),
        Divided::Jobs(jobs) => {
            let done = run(runtime, status, jobs).await.ok_or(EngineError::Internal("a job of a step"))?;
            Ok(accounted(Stage::Steps, &**runtime, status, || step.join(done))?)
        }
    }
}

/// Runs all jobs; what they hand back is in their order. `None` if one panicked.
async fn run(runtime: &Arc<dyn Runtime>, status: &Arc<Status>, jobs: Vec<Job>) -> Option<Vec<JobDone>> {
    let open: Vec<Arc<Open>> = jobs.into_iter().map(|job| Arc::new(Open(Mutex::new(Some(job))))).collect();
    let offer = |open: &Arc<Open>| {
        let open = open.clone();
        stage::compute(Stage::Steps, runtime, status, move || open.take().map(|job| job()))
    };
    // The first is the lane's in any case.
    let theirs: Vec<_> = open.iter().skip(1).map(offer).collect();
    let mut own = Vec::with_capacity(open.len());
    // The threads begin with the first that was offered, the lane with the last.
    for open in open.iter().rev() {
        let Some(job) = open.take() else {
            own.push(None);
            continue;
        };
        // What a panic leaves behind is never used: the run ends, here as on a compute thread.
        let job = AssertUnwindSafe(|| accounted(Stage::Steps, &**runtime, status, job));
        own.push(Some(catch_unwind(job).ok()?));
        // Some tens of microseconds were computed: others on this thread get their turn.
        tokio::task::yield_now().await;
    }
    let mut done = Vec::with_capacity(open.len());
    done.push(own.pop()??);
    for (theirs, own) in theirs.into_iter().zip(own.into_iter().rev()) {
        done.push(match own {
            Some(own) => own,
            None => theirs.await??,
        });
    }
    Some(done)
}

/// A job until somebody has taken it.
struct Open(Mutex<Option<Job>>);

impl Open {
    fn take(&self) -> Option<Job> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests;
