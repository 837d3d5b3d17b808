//! Snapshots of the state, the checkpoint record, the floor, and what is deleted below it.
//!
//! Owns the order of the writes: snapshots, record, floor, and only then the deletes (C7). Runs beside the lane: a seal
//! never waits for a snapshot. Does not own the choice of what may go (`protocol::retire`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use metrics::counter;
use protocol::record::{Body, Checkpoint, StateObject};
use protocol::{Lane, names, retire};
use store::{Key, Prefix, Put};

use crate::EngineError;
use crate::context::Context;
use crate::seal::write_object;

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
pub fn start(context: &Arc<Context>, seq: u64, snapshots: Vec<(u32, Vec<u8>)>) {
    if context.checkpointing.swap(true, Ordering::AcqRel) {
        return;
    }
    let context_of_task = context.clone();
    let task = async move {
        let context = context_of_task;
        match write(&context, seq, snapshots).await {
            Ok(()) => counter!("forebay_checkpoints_total").increment(1),
            // The journal is whole without it: the next checkpoint tries again.
            Err(error) => tracing::warn!(%error, seq, "no checkpoint was written"),
        }
        context.checkpointing.store(false, Ordering::Release);
    };
    context.runtime.spawn("checkpoint", Box::pin(task)).detach();
}

async fn write(context: &Context, seq: u64, snapshots: Vec<(u32, Vec<u8>)>) -> Result<(), EngineError> {
    let mut states = Vec::with_capacity(snapshots.len());
    for (step, bytes) in snapshots {
        let object = names::snapshot(&context.folder, context.epoch, context.nonce, seq, step);
        let crc32c = crc32c::crc32c(&bytes);
        states.push(StateObject { step, object: object.clone(), len: bytes.len() as u64, crc32c });
        write_object(context, &object, vec![Bytes::from(bytes)]).await?;
    }
    let lane = {
        let mut journal = context.journal.lock().await;
        let image = journal.lane().image(seq);
        journal.append(Body::Checkpoint(Checkpoint { lane: Some(image), states, state_seq: seq })).await?;
        journal.lane().clone()
    };
    collect(context, &lane).await
}

/// Raises the floor to the newest checkpoint and deletes what nobody needs any more.
///
/// # Errors
/// When the store fails; what is left over goes at the next checkpoint.
pub async fn collect(context: &Context, lane: &Lane) -> Result<(), EngineError> {
    let Some(floor) = retire::floor(lane) else { return Ok(()) };
    let folder = &context.folder;
    let floor_key = valid(&names::floor(folder, floor));
    if context.store.put_if_absent(&floor_key, vec![]).await? == Put::Exists {
        context.store.harden(&floor_key.folder()).await?;
    }
    for key in list(context, "floor").await? {
        if names::number(&key).is_some_and(|n| n < floor) {
            context.store.delete(&valid(&key)).await?;
        }
    }
    for key in list(context, "journal").await? {
        if names::number(&key).is_some_and(|n| n < floor) {
            context.store.delete(&valid(&key)).await?;
        }
    }
    for kind in ["segments", "splits", "state"] {
        let listed = list(context, kind).await?;
        let newest = newest(lane, kind);
        for key in retire::deletable(lane, &listed, context.epoch, newest) {
            context.store.delete(&valid(key)).await?;
        }
    }
    Ok(())
}

/// The newest object of a kind that the lane points to: everything before it was sealed or given up.
fn newest<'a>(lane: &'a Lane, kind: &str) -> Option<&'a str> {
    let folder = format!("/{kind}/");
    retire::needed(lane).into_iter().filter(|object| object.contains(&folder)).max()
}

async fn list(context: &Context, kind: &str) -> Result<Vec<String>, EngineError> {
    let prefix =
        Prefix::new(&format!("{}/{kind}", context.folder)).expect("a lane's folder is a valid prefix");
    let mut all = Vec::new();
    let mut after: Option<Key> = None;
    loop {
        let page = context.store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.key.clone());
        all.extend(page.iter().map(|e| e.key.as_str().to_owned()));
    }
}

fn valid(name: &str) -> Key {
    Key::new(name).expect("names of the lane's objects are valid keys")
}
