//! Raises the floor and deletes what nobody needs any more.
//!
//! Owns the order (the floor is durable before the first delete, C7), what a round costs, and what is reported about garbage. Does
//! not own the choice (`protocol::retire`) or when a round is due ([`crate::checkpoint`]).
//!
//! | round                                   | finds what may go by             | requests that cost (put and list)     |
//! |-----------------------------------------|----------------------------------|---------------------------------------|
//! | ordinary                                | names that this owner knows      | 1 put                                 |
//! | the first of an owner, every 64th, and after one that failed | a listing of the lane (a *sweep*) | 1 put, and a list a page of each folder |
//!
//! A sweep finds what no owner remembers: leftovers of collections that were killed, objects that a dead or sleeping owner
//! uploaded and never sealed. Between two sweeps such garbage stays, which bounds it: an owner that dies leaves what it had
//! under way, and the next one sweeps with its first checkpoint.
//!
//! What a sweep has listed is deleted only if this process owns the lane still: names of other lanes say nothing by their epochs.
//!
//! The floor's predecessor is left standing until the next round. A listing on local disk is not one instant: a reader that
//! found the old floor, slept, and then looked for its size would otherwise miss both.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, StreamExt, TryStreamExt};
use metrics::counter;
use protocol::retire::{self, Judge, Marks, Standing};
use protocol::{Lane, names};
use store::{Entry, Key, Put, Store, StoreError};
use tokio::sync::Mutex;

use crate::journal::Journal;
use crate::objects::Objects;
use crate::ownership::Ownership;
use crate::survey::{self, Survey};
use crate::{EngineError, Status};

/// Rounds from one sweep to the next: what a sweep costs is then below one in a hundred of what was written meanwhile.
const ROUNDS_A_SWEEP: u64 = 64;

/// Journal records go in the order of their numbers, one after the other, and none after one that failed: that a record
/// stands tells an owner that none behind it was deleted (`Ownership::is_anchored`).
const IN_ORDER: usize = 1;

/// Deletes under way at once: a round of a few thousand takes seconds on object storage, and leaves the lane's own requests
/// room.
const DELETES_AT_ONCE: usize = 16;

/// What an owner remembers of its rounds, so that it need not list what it knows.
#[derive(Debug, Default)]
pub struct Retirement {
    known: Mutex<Known>,
    sweep_soon: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    rounds: u64,
    /// The floors of the last two rounds, the newer one first.
    floors: [u64; 2],
    needed: BTreeSet<String>,
    marks: Marks,
}

impl Retirement {
    /// Something was left behind that no owner remembers: the next round lists everything.
    pub fn sweep_soon(&self) {
        self.sweep_soon.store(true, Ordering::Release);
    }

    /// Raises the floor to the newest checkpoint and deletes what nobody needs any more.
    ///
    /// # Errors
    /// When the store fails; what is left over goes with the next round.
    pub async fn collect(
        &self,
        objects: &Objects,
        journal: &Mutex<Journal>,
        status: &Status,
    ) -> Result<(), EngineError> {
        let mut known = self.known.lock().await;
        // Before the lane: what is sealed after this look lies above the marks, and so is left alone.
        let marks = objects.marks();
        let (lane, ownership) = {
            let journal = journal.lock().await;
            (journal.lane().clone(), journal.ownership())
        };
        let Some(floor) = retire::floor(&lane) else { return Ok(()) };
        let marks = Marks { state: lane.state_seq + 1, ..marks };
        raise(objects, floor).await?;
        let is_sweep =
            known.rounds.is_multiple_of(ROUNDS_A_SWEEP) || self.sweep_soon.swap(false, Ordering::AcqRel);
        let result = match is_sweep {
            true => {
                objects.unwritten.forget_never_written();
                sweep(objects, &ownership, status, &lane, marks, floor).await
            }
            false => forget(objects, &lane, marks, floor, &known).await,
        };
        if result.is_err() {
            self.sweep_soon();
        }
        known.rounds += 1;
        if floor > known.floors[0] {
            known.floors = [floor, known.floors[0]];
        }
        known.needed = retire::needed(&lane).into_iter().map(str::to_owned).collect();
        known.marks = marks;
        result
    }
}

async fn raise(objects: &Objects, floor: u64) -> Result<(), StoreError> {
    let key = valid(&names::floor(&objects.folder, floor));
    if objects.store.put_if_absent(&key, vec![]).await? == Put::Exists {
        objects.store.harden(&key.folder()).await?;
    }
    Ok(())
}

/// Deletes what this owner knows by name: records since the last round, what the lane needed then and does not need now,
/// and what it has sealed in between.
async fn forget(
    objects: &Objects,
    lane: &Lane,
    marks: Marks,
    floor: u64,
    known: &Known,
) -> Result<(), EngineError> {
    let judge = Judge::new(lane, marks);
    let folder = &objects.folder;
    let records = (known.floors[0]..floor).map(|seq| names::journal(folder, seq));
    let floors = known.floors.into_iter().skip(1).filter(|old| (1..floor).contains(old));
    let segments = (known.marks.segments..marks.segments).map(|number| objects.segment(number));
    let splits = known.marks.splits..marks.splits;
    let splits = splits.map(|number| objects.split(number));
    let runs = known.marks.runs..marks.runs;
    let runs = runs.map(|number| objects.state_file(number));
    let others = known.needed.iter().cloned().chain(segments).chain(splits).chain(runs);
    let garbage = others.filter(|object| judge.standing(object) == Standing::Garbage);
    let garbage = garbage.filter(|object| !objects.unwritten.was_never_written(object));
    let gone = floors.map(|old| names::floor(folder, old)).chain(garbage);
    delete(&objects.store, records, IN_ORDER).await?;
    delete(&objects.store, gone, DELETES_AT_ONCE).await
}

/// Looks at everything in the lane's folder and deletes what is garbage. An owner that slept before it listed may find the objects of another lane, which has
/// come to this name since with epochs of its own (`rename`).
async fn sweep(
    objects: &Objects,
    ownership: &Ownership,
    status: &Status,
    lane: &Lane,
    marks: Marks,
    floor: u64,
) -> Result<(), EngineError> {
    let judge = Judge::new(lane, marks);
    let mut survey = Survey::default();
    for kind in survey::FOLDERS {
        let mut pages = survey::Pages::new(&*objects.store, &objects.folder, kind);
        while let Some(page) = pages.next().await? {
            let standing = |entry: &Entry| survey::standing(&judge, kind, entry.key.as_str(), floor);
            let (mut gone, kept): (Vec<Entry>, _) =
                page.into_iter().partition(|entry| standing(entry) == Standing::Garbage);
            kept.iter().for_each(|entry| survey.add(kind, standing(entry), entry.size_bytes));
            if kind == "floor"
                && let Some(before) = gone.pop()
            {
                // The floor before this one stays for another round, see above.
                survey.add(kind, Standing::Garbage, before.size_bytes);
            }
            if !gone.is_empty() {
                ownership.check().await?;
            }
            let at_once = if kind == "journal" { IN_ORDER } else { DELETES_AT_ONCE };
            delete(&objects.store, gone.into_iter().map(|entry| entry.key.as_str().to_owned()), at_once)
                .await?;
        }
    }
    survey.add_logs(&*objects.store, &objects.folder).await?;
    survey.tell();
    status.update(|s| s.store = Some(survey));
    Ok(())
}

async fn delete(
    store: &Arc<dyn Store>,
    objects: impl Iterator<Item = String>,
    at_once: usize,
) -> Result<(), EngineError> {
    let deletes = stream::iter(objects.map(|object| {
        let store = store.clone();
        async move { store.delete(&valid(&object)).await }
    }));
    let mut done = deletes.buffer_unordered(at_once);
    while let Some(()) = done.try_next().await? {
        counter!("forebay_objects_retired_total").increment(1);
    }
    Ok(())
}

fn valid(name: &str) -> Key {
    Key::new(name).expect("names of the lane's objects are valid keys")
}

#[cfg(test)]
mod tests;
