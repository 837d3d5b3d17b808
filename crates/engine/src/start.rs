//! From a store to a lane that can read: fold, claim, genesis, restore.
//!
//! Owns the order of the start (protocol, steps 0, 1 and 5) and the checks of the pipeline against what the store holds. Does
//! not own the checks of the table (the table does) or of the source's partitions (the source does, by identity).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Operator, Partition, PartitionStart, ReadFrom, Reader, Runtime, Source, SourceError, SourceFault,
    StateRead, Table,
};
use futures::future::{BoxFuture, join};
use protocol::Lane;
use protocol::record::{Body, Genesis};
use store::Store;

use crate::journal::Journal;
use crate::lane::genesis;
use crate::problem::{Noticed, SOURCE};
use crate::retry::Backoff;
use crate::{EngineError, Settings, Status, segment, state_files};

/// Footers of state's files that are read side by side: each is about 2 MB.
const FILES_AT_ONCE: usize = 8;

/// What the source shows at the start.
pub struct Shown {
    /// Its partitions, with the start that the pipeline file asks for.
    pub partitions: Vec<PartitionStart>,
    /// The positions published last.
    pub published: Vec<(Partition, u64)>,
}

/// Asks the source, waiting while it is away.
///
/// # Errors
/// When the source refuses or is misconfigured.
pub async fn ask(
    runtime: &dyn Runtime,
    settings: &Settings,
    source: &dyn Source,
    status: &Status,
) -> Result<Shown, EngineError> {
    let shown = || -> BoxFuture<'_, _> {
        Box::pin(async {
            let (partitions, published) = join(source.partitions(), source.published()).await;
            Ok(Shown { partitions: partitions?, published: published? })
        })
    };
    until_there(runtime, settings, status, shown).await
}

/// Begins to read where the lane stands, waiting while the source is away.
///
/// # Errors
/// When the source refuses or is misconfigured.
pub async fn read(
    runtime: &dyn Runtime,
    settings: &Settings,
    source: &dyn Source,
    lane: &Lane,
    status: &Status,
) -> Result<Box<dyn Reader>, EngineError> {
    until_there(runtime, settings, status, || source.read(read_from(lane))).await
}

async fn until_there<'a, T>(
    runtime: &dyn Runtime,
    settings: &Settings,
    status: &Status,
    ask: impl Fn() -> BoxFuture<'a, Result<T, SourceError>>,
) -> Result<T, EngineError> {
    let mut backoff = Backoff::new(settings.retry_pause_max);
    loop {
        match ask().await {
            Ok(answer) => {
                status.ended(SOURCE, Noticed::Asking);
                return Ok(answer);
            }
            Err(error) if error.fault == SourceFault::Away => {
                status.source_away(&error.message, runtime.wall_ms());
                if backoff.is_worth_a_line() {
                    tracing::warn!(%error, "the source is away; trying again");
                }
                backoff.pause(runtime).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the pipeline fits what the lane holds. Asked before the claim, so that a mistaken start does not end the owner
/// that runs well, and again after it.
///
/// # Errors
/// When it does not, with the way out.
pub fn check(
    lane: &Lane,
    pipeline: &str,
    shown: &Shown,
    tables: &[Arc<dyn Table>],
    steps: &mut [Box<dyn Operator>],
) -> Result<(), EngineError> {
    if !lane.pipeline.is_empty() {
        fits(lane, pipeline, tables, &stateful(steps))?;
    }
    check_partitions(lane, shown)
}

/// Writes the genesis of every partition, table and step that the lane does not know yet.
///
/// # Errors
/// When the pipeline does not fit the lane, or the record cannot be appended.
pub async fn genesis_of_what_is_new(
    journal: &mut Journal,
    pipeline: &str,
    shown: &Shown,
    tables: &[Arc<dyn Table>],
    steps: &mut [Box<dyn Operator>],
) -> Result<(), EngineError> {
    let lane = journal.lane();
    let is_new = lane.pipeline.is_empty();
    check(lane, pipeline, shown, tables, steps)?;
    let partitions: Vec<_> = shown
        .partitions
        .iter()
        .filter(|p| lane.partition(&p.partition.stream, p.partition.index).is_none())
        // What the pipeline file says of the start holds for the first start only. A partition that came later is read
        // from its beginning, or the records before "latest" would be lost.
        .map(|p| genesis(&if is_new { p.clone() } else { PartitionStart { next: p.first, ..p.clone() } }))
        .collect();
    let new_tables: Vec<String> =
        tables.iter().map(|t| t.name().to_owned()).filter(|name| lane.table(name).is_none()).collect();
    if partitions.is_empty() && new_tables.is_empty() && !is_new {
        return Ok(());
    }
    let body = Genesis {
        partitions,
        tables: new_tables,
        pipeline: if is_new { pipeline.to_owned() } else { String::new() },
        steps: if is_new { stateful(steps) } else { Vec::new() },
    };
    journal.append(Body::Genesis(body)).await?;
    Ok(())
}

fn stateful(steps: &mut [Box<dyn Operator>]) -> Vec<String> {
    let with_state = steps.iter_mut().filter_map(|s| s.state().is_some().then_some(()).map(|()| s));
    with_state.map(|s| s.name().to_owned()).collect()
}

fn fits(lane: &Lane, pipeline: &str, tables: &[Arc<dyn Table>], steps: &[String]) -> Result<(), EngineError> {
    let refuse = |what: String| Err(EngineError::Mismatch(what));
    if lane.pipeline != pipeline {
        return refuse(format!(
            "the store holds pipeline `{}`, not `{pipeline}`; use another store",
            lane.pipeline
        ));
    }
    if lane.steps != steps {
        return refuse(format!(
            "the store holds state of the steps {:?}, the pipeline has {steps:?}; give the pipeline a new name, or a new store",
            lane.steps
        ));
    }
    for table in lane.tables.iter().filter(|t| !t.pending.is_empty()) {
        if !tables.iter().any(|t| t.name() == table.name) {
            return refuse(format!(
                "{} sealed inserts wait for table `{}`, which the pipeline does not name any more; name it again and drain, \
                 then change it",
                table.pending.len(),
                table.name
            ));
        }
    }
    Ok(())
}

fn check_partitions(lane: &Lane, shown: &Shown) -> Result<(), EngineError> {
    for p in &shown.partitions {
        let Some(at) = lane.partition(&p.partition.stream, p.partition.index) else { continue };
        let known = &lane.partitions[at];
        if !known.identity.is_empty() && !p.identity.is_empty() && known.identity != p.identity {
            return Err(EngineError::Mismatch(format!(
                "`{}` is not the stream that this pipeline has read: its identity was `{}` and is `{}`; it was deleted and \
                 made again. Records of the new one would be taken for old ones. Give the pipeline a new name to read it",
                p.partition, known.identity, p.identity
            )));
        }
    }
    for (partition, published) in &shown.published {
        let Some(at) = lane.partition(&partition.stream, partition.index) else {
            check_unknown(shown, partition, *published)?;
            continue;
        };
        let sealed = lane.partitions[at].next;
        if *published > sealed {
            return Err(EngineError::Mismatch(format!(
                "the source says that `{partition}` was read up to {published}, but the store stands at {sealed}: the store was \
                 rolled back to an older copy, and reading on would write rows twice. Bring the newer store back, or give \
                 the pipeline a new name and an empty table"
            )));
        }
    }
    Ok(())
}

/// A partition that the store does not know, though its positions were published: the store is lost, or another one.
fn check_unknown(shown: &Shown, partition: &Partition, published: u64) -> Result<(), EngineError> {
    let next = shown.partitions.iter().find(|p| p.partition == *partition).map(|p| p.next);
    if next.is_some_and(|next| published > next) {
        return Err(EngineError::Mismatch(format!(
            "the source says that `{partition}` was read up to {published}, but the store knows nothing of it: the store was lost,              or is another one, and reading anew would write rows twice. Bring the store back; or, to read everything into              an empty table, give the pipeline a new name or its source another `group`"
        )));
    }
    Ok(())
}

/// Where to read on, for every partition of the lane.
fn read_from(lane: &Lane) -> Vec<ReadFrom> {
    lane.partitions
        .iter()
        .map(|p| ReadFrom {
            partition: Partition::new(p.stream.as_str(), p.index),
            identity: p.identity.clone(),
            next: p.next,
            leader_epoch: if p.leader_epoch < 0 { NO_LEADER_EPOCH } else { p.leader_epoch },
        })
        .collect()
}

/// Brings the steps' states to where the newest seal left them (C6).
///
/// # Errors
/// When a snapshot or delta is missing, damaged, or of another configuration.
pub async fn restore(
    store: &dyn Store,
    lane: &Lane,
    steps: &mut [Box<dyn Operator>],
) -> Result<(), EngineError> {
    let mut by_index: BTreeMap<u32, &mut Box<dyn Operator>> = BTreeMap::new();
    for step in steps.iter_mut() {
        if step.state().is_some() {
            by_index.insert(by_index.len() as u32, step);
        }
    }
    for snapshot in &lane.snapshots {
        let bytes = segment::read(store, &snapshot.object, 0, snapshot.len, Some(snapshot.crc32c)).await?;
        let mut reads = Vec::new();
        with_state(&mut by_index, snapshot.step, |state| {
            reads = state.restore(&bytes)?;
            Ok(())
        })?;
        let folder = snapshot_folder(&snapshot.object);
        for reads in reads.chunks(FILES_AT_ONCE) {
            let mut footers = Vec::with_capacity(reads.len());
            for read in reads {
                footers.push(footer(store, folder, read));
            }
            for bytes in futures::future::try_join_all(footers).await? {
                with_state(&mut by_index, snapshot.step, |state| state.open(&bytes))?;
            }
        }
    }
    for delta in &lane.deltas {
        let Some(part) = delta.delta else { continue };
        let bytes = segment::read(store, &delta.segment, part.offset, part.len, Some(part.crc32c)).await?;
        with_state(&mut by_index, part.step, |state| state.apply(&bytes))?;
    }
    Ok(())
}

async fn footer(store: &dyn Store, folder: &str, read: &StateRead) -> Result<Bytes, EngineError> {
    let range = read.offset..read.offset + u64::from(read.len);
    let name = format!("{folder}/{}", read.object);
    let mut found = state_files::get_ranges(store, &name, &[range]).await?;
    found.pop().ok_or(EngineError::Internal("a read without an answer"))
}

/// The lane's folder, from the name of one of its snapshots.
fn snapshot_folder(object: &str) -> &str {
    let folder = object.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.rsplit_once('/').map_or("", |(lane, _)| lane)
}

fn with_state(
    steps: &mut BTreeMap<u32, &mut Box<dyn Operator>>,
    index: u32,
    change: impl FnOnce(&mut dyn dataflow::KeyedState) -> Result<(), dataflow::StateError>,
) -> Result<(), EngineError> {
    let step = steps.get_mut(&index).ok_or(EngineError::Internal("state of a step that is not there"))?;
    let name = step.name().to_owned();
    let state = step.state().ok_or(EngineError::Internal("a step that lost its state"))?;
    change(state).map_err(|source| EngineError::State { step: name, source })
}
