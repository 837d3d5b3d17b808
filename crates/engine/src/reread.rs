//! The record of a refused row, read again from the source.
//!
//! Owns the patience: how long a source that is away is waited for before a row goes to the dead letters without its record's
//! bytes. Does not own how a source gets to a position ([`dataflow::Source::record`]) or what is done with the record
//! ([`crate::refuse`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, ReadFrom, RecordBlock, Runtime, Source, SourceError};
use protocol::Lane;

use crate::inputs::Inlet;
use crate::origins::Origin;
use crate::retry::Backoff;

/// What every record may take even if the source has used up the patience: one that came back answers within this.
const TRY_AT_LEAST: Duration = Duration::from_secs(1);

/// Since when the source has not answered. Rows share it, or a frame with many bad ones would wait for each.
#[derive(Debug, Default)]
struct Patience {
    away_since: Mutex<Option<Duration>>,
}

impl Patience {
    /// How long the next record may take.
    fn left(&self, now: Duration, time_max: Duration) -> Duration {
        let since = *self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        let used = since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        time_max.saturating_sub(used).max(TRY_AT_LEAST.min(time_max))
    }

    fn answered(&self, begun: Duration, has_answered: bool) {
        let mut since = self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if has_answered { None } else { Some(since.unwrap_or(begun)) };
    }
}

/// Where the record of an origin stands; `None` if the lane knows no such partition.
///
/// Whoever reads there says in which leader's epoch the partition was read last, so that a log which was cut since and has another
/// record at the position refuses.
pub fn place(lane: &Lane, origin: &Origin) -> Option<ReadFrom> {
    let partition = lane.partitions.get(origin.partition as usize)?;
    Some(ReadFrom {
        partition: Partition::new(partition.stream.as_str(), partition.index).of_input(partition.input),
        identity: partition.identity.clone(),
        next: origin.position(),
        leader_epoch: partition.leader_epoch,
    })
}

/// Reads records of refused rows again.
pub struct Reread {
    inputs: Arc<[Arc<Inlet>]>,
    runtime: Arc<dyn Runtime>,
    time_max: Duration,
    retry_pause_max: Duration,
    patience: Patience,
}

impl Reread {
    /// From the sources of `inputs`, each record within `time_max` unless the source has used that up.
    pub fn new(
        inputs: Arc<[Arc<Inlet>]>,
        runtime: Arc<dyn Runtime>,
        time_max: Duration,
        retry_pause_max: Duration,
    ) -> Self {
        Self { inputs, runtime, time_max, retry_pause_max, patience: Patience::default() }
    }

    /// Reads a record again, within the patience that is left.
    ///
    /// # Errors
    /// Why it cannot be had, for the dead letter's message.
    pub async fn record(&self, at: ReadFrom) -> Result<RecordBlock, String> {
        let number = at.partition.input;
        let Some(input) = self.inputs.iter().find(|input| input.number == number) else {
            return Err("its input is no longer in the pipeline file".into());
        };
        let begun = self.runtime.elapsed();
        let bound = self.patience.left(begun, self.time_max);
        let mut newest = None;
        let tries = async {
            let mut backoff = Backoff::new(self.retry_pause_max);
            loop {
                match same_record(&*input.source, &at).await {
                    Ok(record) => {
                        return record.ok_or_else(|| "the source holds no record there any more".into());
                    }
                    Err(error) if error.fault.may_pass() => {
                        tracing::debug!(%error, "a refused row's record cannot be read again yet");
                        newest = Some(error.message);
                        backoff.pause(&*self.runtime).await;
                    }
                    Err(error) => return Err(error.message),
                }
            }
        };
        let result = self.runtime.timeout(bound, tries).await;
        self.patience.answered(begun, result.is_some());
        result.unwrap_or_else(|| {
            let why = newest.map_or(String::new(), |why| format!(": {why}"));
            Err(format!("the source has not answered for {} s{why}", bound.as_secs_f32()))
        })
    }
}

/// The record that the lane read at `at.next`. A log that was cut exactly there lets itself be read from there on, and what it returns
/// is another record: whatever comes from a newer leader must stand in the log of the one that the lane read from as well.
async fn same_record(source: &dyn Source, at: &ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
    let record = source.record(at.clone()).await?;
    let epochs = record.as_ref().map(|record| (at.leader_epoch, record.leader_epoch));
    if epochs.is_some_and(|(then, now)| then != NO_LEADER_EPOCH && now > then) {
        // Refused where that leader's log does not reach behind the record. Asked afterwards: a log never grows back.
        source.record(ReadFrom { next: at.next + 1, ..at.clone() }).await?;
    }
    Ok(record)
}

#[cfg(test)]
mod tests;
