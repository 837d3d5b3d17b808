//! Snapshots of the state and the checkpoint record. A snapshot holds what is in memory and the names of the files that hold the
//! rest, so a checkpoint of a large state writes little.
//!
//! Owns the order of the writes: snapshots, record, and only then what it allows to be retired ([`crate::retire`]). Runs beside
//! the lane: a seal never waits for a snapshot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dataflow::StateFile as File;
use metrics::counter;
use protocol::record::{Body, Checkpoint, StateFile, StateObject};
use protocol::{Lane, names};

use crate::EngineError;
use crate::context::Context;
use crate::retire;
use crate::seal::{NextReader, write_object};
use crate::state_files;

/// What a checkpoint is made of, as of one seal.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// What each step has in memory, by the step's index.
    pub states: Vec<(u32, Bytes)>,
    /// The files that hold the rest: written before, and not written again.
    pub files: Vec<(u32, File)>,
    /// This owner's files with smaller numbers are among `files`, or of no use to anyone.
    pub horizon: u64,
}

/// True if the next cut should carry snapshots.
pub fn is_due(context: &Context, lane: &Lane) -> bool {
    let newest = lane.newest_checkpoint.unwrap_or(0);
    let delta_bytes: u64 = lane.deltas.iter().filter_map(|d| d.delta).map(|d| d.len).sum();
    let snapshot_bytes: u64 = lane.snapshots.iter().map(|s| s.len).sum();
    // Deltas as large as the last snapshot: what is written for checkpoints stays a constant share of what is sealed.
    let bytes_due = delta_bytes >= context.settings.checkpoint_bytes_min.max(snapshot_bytes);
    let records_due = lane.next_seq.saturating_sub(newest) >= context.settings.checkpoint_records_max;
    (bytes_due || records_due) && !context.checkpointing.load(Ordering::Acquire)
}

/// Writes a checkpoint of the state as of seal `seq`, in the background.
pub fn start(context: &Arc<Context>, seq: u64, snapshots: Snapshots) {
    if context.checkpointing.swap(true, Ordering::AcqRel) {
        return;
    }
    let context_of_task = context.clone();
    let task = async move {
        let context = context_of_task;
        match write(&context, seq, snapshots).await {
            Ok(()) => counter!("forebay_checkpoints_total").increment(1),
            // The journal is whole without it: the next checkpoint tries again, and takes away what this one left.
            Err(error) => {
                context.retirement.sweep_soon();
                tracing::warn!(%error, seq, "a checkpoint was not written, or what it replaces not deleted");
            }
        }
        context.checkpointing.store(false, Ordering::Release);
    };
    context.runtime.spawn("checkpoint", Box::pin(task)).detach();
}

async fn write(context: &Context, seq: u64, snapshots: Snapshots) -> Result<(), EngineError> {
    let mut states = Vec::with_capacity(snapshots.states.len());
    let files = snapshots.files.iter().map(|(step, file)| StateFile {
        step: *step,
        object: state_files::whole_name(&context.folder, file),
        len: file.len,
    });
    let files = files.collect();
    for (step, bytes) in snapshots.states {
        let object = names::snapshot(&context.folder, context.epoch, context.nonce, seq, step);
        let crc32c = crc32c::crc32c(&bytes);
        states.push(StateObject { step, object: object.clone(), len: bytes.len() as u64, crc32c });
        write_object(context, &object, vec![bytes], NextReader::Start).await?;
    }
    {
        let mut journal = context.journal.lock().await;
        let image = journal.lane().image(seq);
        journal
            .append(Body::Checkpoint(Checkpoint { lane: Some(image), states, state_seq: seq, files }))
            .await?;
    }
    context.state_horizon.store(snapshots.horizon, Ordering::Release);
    retire::collect(context).await
}
