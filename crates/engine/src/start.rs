//! From a store to a lane that can read: fold, claim, genesis, restore.
//!
//! Owns the checks of the pipeline against what the store holds, genesis and restoring (protocol, steps 0, 1 and 5). Does
//! not own the checks of the table (the table does) nor the order of the start ([`crate::pipeline`]).
//!
//! | module    | what it holds                                                          |
//! |-----------|------------------------------------------------------------------------|
//! | [`open`]  | asking the source, checking it against the lane, opening it             |
//! | [`quiet`] | whether somebody else runs the lane                                     |

pub mod open;
pub mod quiet;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dataflow::{Effect, Operator, Remedy, Runtime, StateRead, Table};
use protocol::Lane;
use protocol::record::{Body, Change, Genesis, PartitionGenesis};
use store::Store;

use crate::change::Composition;
use crate::inputs::{self, Inlet};
use crate::journal::Journal;
use crate::problem::Noticed;
use crate::retry::Backoff;
use crate::tables::Tables;
use crate::{EngineError, Settings, Status, segment, state_files};

/// Footers of state's files that are read side by side: each is about 2 MB.
const FILES_AT_ONCE: usize = 8;

/// Whether a start asks the table for rows that are there already ([`check_rows`]) before it claims the lane: every table at the pipeline's first start, and
/// one that the engine gives versions to until the first frame was let out to it, because versions of another journal may be greater.
pub fn must_ask(lane: &Lane, table: &dyn Table) -> bool {
    let known = lane.table(table.name()).map(|at| &lane.tables[at]);
    lane.pipeline.is_empty()
        || table.version_column().is_some() && known.is_none_or(protocol::window::is_untouched)
}

/// Whether the table may be filled from the source's start, asked before the first claim, and again before the first frame is sent.
/// Waits while the table does not answer.
///
/// # Errors
/// When the operator must decide about rows that are there.
pub async fn check_rows(
    runtime: &dyn Runtime,
    settings: &Settings,
    table: &dyn Table,
    status: &Status,
) -> Result<(), EngineError> {
    let mut backoff = Backoff::new(settings.retry_pause_max);
    loop {
        match table.objects_to_first_start().await {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => return Err(EngineError::Mismatch(why)),
            Err(error) if error.remedy == Remedy::Resend => {
                let now_ms = runtime.wall_ms();
                status.unanswered(table.name(), error.kind, &error.message, Effect::None, now_ms);
                if backoff.should_log() {
                    tracing::warn!(table = table.name(), "{}; trying again", error.message);
                }
                backoff.pause(runtime).await;
                status.ended(table.name(), Noticed::Asking);
            }
            Err(error) => return Err(EngineError::Mismatch(error.message)),
        }
    }
}

/// Whether the pipeline fits what the lane holds, whatever its source says. Asked before the claim, so that a mistaken start does
/// not end the owner that runs well, and again after it. Of its steps [`crate::change`] decides.
///
/// # Errors
/// When it does not, with the way out.
pub fn check(lane: &Lane, pipeline: &str, tables: &Tables) -> Result<(), EngineError> {
    if lane.pipeline.is_empty() {
        return Ok(());
    }
    fits(lane, pipeline, tables)
}

/// What the sources of the inputs have opened.
#[derive(Debug, Default)]
pub struct NewlyOpened {
    /// Partitions that the lane does not know yet.
    pub partitions: Vec<PartitionGenesis>,
    /// The numbers of the inputs that were opened.
    pub opened: Vec<u32>,
}

/// Writes one genesis for all that the lane does not know yet: inputs, what their sources have opened, tables, and at the first
/// start the pipeline's name and its steps.
///
/// # Errors
/// When the pipeline does not fit the lane, or the record cannot be appended.
pub async fn genesis_of_what_is_new(
    journal: &mut Journal,
    pipeline: &str,
    inputs: &[Arc<Inlet>],
    opened: NewlyOpened,
    tables: &Tables,
    made: &Composition,
) -> Result<(), EngineError> {
    let NewlyOpened { partitions, opened } = opened;
    let lane = journal.lane();
    let is_new = lane.pipeline.is_empty();
    check(lane, pipeline, tables)?;
    let new_tables = tables.unknown(lane);
    let new_inputs = inputs::unknown(lane, inputs);
    let is_known = |input: &u32| lane.inputs.get(*input as usize).is_some_and(|known| known.was_opened);
    let opened: Vec<u32> = opened.into_iter().filter(|input| !is_known(input)).collect();
    let is_nothing =
        partitions.is_empty() && new_tables.is_empty() && new_inputs.is_empty() && opened.is_empty();
    if is_nothing && !is_new {
        return Ok(());
    }
    let body = Genesis {
        partitions,
        tables: new_tables,
        pipeline: if is_new { pipeline.to_owned() } else { String::new() },
        steps: if is_new { made.steps.clone() } else { Vec::new() },
        inputs: new_inputs,
        opened,
        parts: if is_new { made.parts.clone() } else { Vec::new() },
    };
    journal.append(Body::Genesis(body)).await?;
    Ok(())
}

/// Brings the steps' states to where the newest seal left them, those that go on after `change`; what the others held is its
/// [`Change::discarded`].
///
/// # Errors
/// As [`restore`].
pub async fn restore_changed(
    store: &dyn Store,
    lane: &Lane,
    steps: &mut [Box<dyn Operator>],
    change: Option<Change>,
) -> Result<Option<Change>, EngineError> {
    let Some(mut change) = change else {
        restore(store, lane, steps).await?;
        return Ok(None);
    };
    restore(store, &lane.with_states(&change.kept), steps).await?;
    change.discarded = discarded(lane, steps, change.kept.len() < lane.steps.len())?;
    Ok(Some(change))
}

/// What the lane's states hold, and these steps do not, if one was given up.
///
/// # Errors
/// When they hold more than the lane says.
pub fn discarded(
    lane: &Lane,
    steps: &mut [Box<dyn Operator>],
    is_given_up: bool,
) -> Result<u64, EngineError> {
    if !is_given_up {
        return Ok(0);
    }
    let held: u64 = steps.iter_mut().filter_map(|step| step.state()).map(|state| state.held()).sum();
    lane.absorbed
        .held
        .checked_sub(held)
        .ok_or(EngineError::Internal("states hold more than the journal says"))
}

fn fits(lane: &Lane, pipeline: &str, tables: &Tables) -> Result<(), EngineError> {
    let refuse = |what: String| Err(EngineError::Mismatch(what));
    if lane.pipeline != pipeline {
        return refuse(format!(
            "the folder of pipeline `{pipeline}` in the store holds pipeline `{0}`: it was copied or moved there by hand; nothing was read or \
             written. Move it back and run `forebay rename FILE {pipeline} --yes` with the file that names `{0}`, or use another store",
            lane.pipeline
        ));
    }
    for table in lane.tables.iter().filter(|t| !t.pending.is_empty()) {
        if !tables.names(&table.name) {
            return refuse(format!(
                "{} sealed inserts wait for table `{}`, which the pipeline does not name any more; name it again and drain, \
                 then change it",
                table.pending.len(),
                table.name
            ));
        }
    }
    tables.check_kinds(lane)
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
    // A place beyond all numbers is beyond the object too, and the store says so.
    let range = read.offset..read.offset.saturating_add(u64::from(read.len));
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
    change: impl FnOnce(&mut dyn dataflow::State) -> Result<(), dataflow::StateError>,
) -> Result<(), EngineError> {
    let step = steps.get_mut(&index).ok_or(EngineError::Internal("state of a step that is not there"))?;
    let name = step.name().to_owned();
    let state = step.state().ok_or(EngineError::Internal("a step that lost its state"))?;
    change(state).map_err(|source| EngineError::State { step: name, source })
}
