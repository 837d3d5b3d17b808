//! Snapshots of the state and the checkpoint record. A snapshot holds what is in memory and the names of the files that hold the
//! rest, so a checkpoint of a large state writes little.
//!
//! Owns the order of the writes: snapshots, record, and only then what it allows to be retired ([`crate::retire`]). Does not own what is in
//! a snapshot (each step, `dataflow::State`), the files of a large state ([`crate::state_files`]), nor which objects may go
//! (`protocol::retire`). Runs beside the lane: a seal never waits for a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataflow::Runtime;
use metrics::counter;
use protocol::Lane;
use protocol::record::{Body, Checkpoint, StateFile, StateObject};
use tokio::sync::Mutex;

use crate::journal::Journal;
use crate::objects::{NextReader, Objects};
use crate::retire::Retirement;
use crate::state_files::{self, Snapshots};
use crate::{EngineError, Settings, Status};

/// The checkpoints of a lane: one at a time.
pub struct Checkpoints {
    runtime: Arc<dyn Runtime>,
    objects: Arc<Objects>,
    journal: Arc<Mutex<Journal>>,
    status: Arc<Status>,
    bytes_min: u64,
    records_max: u64,
    is_under_way: AtomicBool,
    retirement: Retirement,
}

impl Checkpoints {
    /// Those of the owner of `objects`.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        objects: Arc<Objects>,
        journal: Arc<Mutex<Journal>>,
        status: Arc<Status>,
        settings: &Settings,
    ) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            objects,
            journal,
            status,
            bytes_min: settings.checkpoint_bytes_min,
            records_max: settings.checkpoint_records_max,
            is_under_way: AtomicBool::new(false),
            retirement: Retirement::default(),
        })
    }

    /// True if the next cut should carry snapshots.
    pub fn is_due(&self, lane: &Lane) -> bool {
        let newest = lane.newest_checkpoint.unwrap_or(0);
        let delta_bytes: u64 = lane.deltas.iter().filter_map(|d| d.delta).map(|d| d.len).sum();
        let snapshot_bytes: u64 = lane.snapshots.iter().map(|s| s.len).sum();
        // Deltas as large as the last snapshot: what is written for checkpoints stays a constant share of what is sealed.
        let bytes_due = delta_bytes >= self.bytes_min.max(snapshot_bytes);
        let records_due = lane.next_seq.saturating_sub(newest) >= self.records_max;
        (bytes_due || records_due) && !self.is_under_way.load(Ordering::Acquire)
    }

    /// Writes a checkpoint of the state as of seal `seq`, in the background.
    pub fn start(self: &Arc<Self>, seq: u64, snapshots: Snapshots) {
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let task = async move {
            match this.write(seq, snapshots).await {
                Ok(()) => counter!("forebay_checkpoints_total").increment(1),
                // The journal is whole without it: the next checkpoint tries again, and takes away what this one left.
                Err(error) => {
                    this.retirement.sweep_soon();
                    tracing::warn!(%error, seq, "a checkpoint was not written, or what it replaces not deleted");
                }
            }
            this.is_under_way.store(false, Ordering::Release);
        };
        self.runtime.spawn("checkpoint", Box::pin(task)).detach();
    }

    async fn write(&self, seq: u64, snapshots: Snapshots) -> Result<(), EngineError> {
        let objects = &*self.objects;
        let mut states = Vec::with_capacity(snapshots.states.len());
        let files = snapshots.files.iter().map(|(step, file)| StateFile {
            step: *step,
            object: state_files::whole_name(&objects.folder, file),
            len: file.len,
        });
        let files = files.collect();
        for (step, bytes) in snapshots.states {
            let object = objects.snapshot(seq, step);
            let crc32c = crc32c::crc32c(&bytes);
            states.push(StateObject { step, object: object.clone(), len: bytes.len() as u64, crc32c });
            objects.write(&object, vec![bytes], NextReader::Start).await?;
        }
        {
            let mut journal = self.journal.lock().await;
            journal.catch_up().await?;
            let image = journal.lane().image(seq);
            journal
                .append(Body::Checkpoint(Checkpoint { lane: Some(image), states, state_seq: seq, files }))
                .await?;
        }
        objects.checkpointed(snapshots.horizon);
        self.retirement.collect(objects, &self.journal, &self.status).await
    }
}

#[cfg(test)]
mod tests;
