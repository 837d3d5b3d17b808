//! Takes a pipeline out of its store, so that no owner that it ever had can go on with it.
//!
//! Owns the order, and what stays. Does not own what may follow in the journal (`protocol::lane::removal`).
//!
//! | step                                             | behind a crash there                                                             |
//! |--------------------------------------------------|----------------------------------------------------------------------------------|
//! | wait whether somebody writes                     | nothing has changed                                                              |
//! | the removal, as the next record of a new epoch   | a start is refused until the same command has finished; every earlier owner is fenced |
//! | the floor, at that record                        | the same; nothing below counts, so a number of a deleted record is never won again |
//! | delete all but the journal from there on, and the floors | the same                                                                 |
//! | the removal once more, as done                   | a start begins anew behind it                                                    |
//!
//! So two records and their floor stay for ever, a few hundred bytes: an owner that sleeps now may wake in a year, and would find its next number free
//! in an empty folder. The newest owner finds it taken; an older one finds it below the floor, and what it has put there is garbage. The floors before
//! stay too, until the next pipeline of this name retires them (see [`crate::retire`]).
//!
//! A damaged journal cannot be folded, and resetting it is a way out of the damage. Its next number is then taken from the names of its records
//! and floors, and its epoch from the newest record that can be read and the names of the other objects.

use std::sync::Arc;
use std::time::Duration;

use dataflow::Runtime;
use protocol::record::{Before, Body, RECORD_BYTES_MAX, Removal};
use protocol::retire::KINDS;
use protocol::{Lane, Record, names};
use store::{Key, Prefix, Put, Store, StoreError};

use crate::journal::{self, Journal};
use crate::patient::Patient;
use crate::start::quiet;
use crate::{EngineError, Settings};

/// Tries of one request: a store that is away for longer is a reason to say so and to run the same command again later.
const TRIES_MAX: u64 = 8;

/// Times that all is listed and deleted: the second finds what an owner that is fenced had on its way.
const ROUNDS_MAX: usize = 8;

/// Tries to put the removal of a journal that cannot be read. Each that fails means that somebody else writes, and then one is enough.
const UNREAD_TRIES_MAX: usize = 3;

/// Records of a damaged journal that are read to find its epoch, the newest first.
const UNREAD_RECORDS_MAX: usize = 64;

/// What is removed, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// The pipeline's name.
    pub pipeline: String,
    /// The number of its lane.
    pub lane: u32,
    /// Who says so, for operators who read the journal.
    pub by: String,
    /// How long the journal must stand still before the lane is taken.
    pub quiet_min: Duration,
    /// The position behind all that the replay log holds: the next pipeline of this name begins its own there, or later.
    pub replays_end: u64,
}

/// Why a pipeline was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// A process runs the pipeline.
    #[error("a process runs this pipeline at this moment, so nothing was deleted: stop it first")]
    Running,
    /// Objects come up again and again.
    #[error(
        "objects of the pipeline appear again and again: another process still writes them; stop it, and run the same command again"
    )]
    Endless,
    /// The journal or the store cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for RemoveError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Removes the pipeline, or finishes a removal that was interrupted. Its source and tables are left alone.
///
/// # Errors
/// When a process writes (nothing was changed then), another one takes the lane, or the store fails: the same call goes on with it.
pub async fn remove(
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    request: &Request,
) -> Result<(), RemoveError> {
    let settings = Settings { owner_quiet_min: request.quiet_min, ..Settings::default() };
    let pause = settings.retry_pause_max;
    let store: Arc<dyn Store> = Arc::new(Patient::new(store, runtime.clone(), pause).tries(TRIES_MAX));
    let folder = names::lane_folder(&request.pipeline, request.lane);
    let before = |lane: &Lane| before(lane, request.replays_end, runtime.wall_ms());
    let removal = |is_done, before: Before| Removal { is_done, by: request.by.clone(), before: Some(before) };
    let mut journal = match quiet::is_quiet(&*runtime, &settings, &*store, &folder).await {
        Ok(false) => return Err(RemoveError::Running),
        Ok(true) => {
            let before = before(&journal::load_any(&*store, &folder).await?);
            Journal::remove(store.clone(), runtime.clone(), folder.clone(), removal(false, before), pause)
                .await?
        }
        // One that is damaged can be removed all the same; any other error says nothing of the journal.
        Err(error) if is_damage(&error) => {
            let found = Unread::of(&*store, &folder).await?;
            if !quiet::stands_still(&*runtime, &settings, &*store, &folder, found.next_seq).await? {
                return Err(RemoveError::Running);
            }
            let before = before(&Lane { newest_ms: found.newest_ms, ..Lane::new() });
            remove_unread(&store, &runtime, &folder, &removal(false, before), pause).await?
        }
        Err(error) => return Err(error.into()),
    };
    let first = journal.lane().next_seq - 1;
    let work = Work { store: &*store, journal: &journal, folder: &folder, first };
    work.raise(first).await?;
    work.clear(&request.pipeline).await?;
    let before = before(journal.lane());
    journal.append(Body::Removal(removal(true, before))).await?;
    Ok(())
}

/// What the next pipeline of this name is told of the one that is removed now.
fn before(lane: &Lane, replays_end: u64, now_ms: i64) -> Before {
    let until_ms = lane.moment_after(now_ms);
    let letters_from_ms = if lane.renamed.is_some() { until_ms } else { lane.before.letters_from_ms };
    Before { until_ms, replays_from: lane.before.replays_from.max(replays_end), letters_from_ms }
}

/// What a reset is meant to clear.
fn is_damage(error: &EngineError) -> bool {
    matches!(error, EngineError::Damaged { .. } | EngineError::Record(_) | EngineError::Violation(_))
}

async fn remove_unread(
    store: &Arc<dyn Store>,
    runtime: &Arc<dyn Runtime>,
    folder: &str,
    removal: &Removal,
    pause: Duration,
) -> Result<Journal, EngineError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let Unread { next_seq, epoch, newest_ms } = Unread::of(&**store, folder).await?;
        let known = (removal.clone(), Lane { next_seq, epoch, newest_ms, ..Lane::new() });
        match Journal::remove_unread(store.clone(), runtime.clone(), folder.to_owned(), known, pause).await {
            Err(EngineError::Fenced { .. }) if tries < UNREAD_TRIES_MAX => {}
            result => return result,
        }
    }
}

/// A journal that cannot be folded, as far as names and single records show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unread {
    next_seq: u64,
    epoch: u64,
    newest_ms: i64,
}

impl Unread {
    async fn of(store: &dyn Store, folder: &str) -> Result<Self, EngineError> {
        let mut found = Self::default();
        for seq in numbers(store, folder, "floor").await? {
            found.next_seq = found.next_seq.max(seq);
        }
        let records = numbers(store, folder, "journal").await?;
        if let Some(newest) = records.last() {
            found.next_seq = found.next_seq.max(newest.saturating_add(1));
        }
        for seq in records.iter().rev().take(UNREAD_RECORDS_MAX) {
            let bytes = match store.get(&key(names::journal(folder, *seq)), RECORD_BYTES_MAX).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // This one may be the damage.
                Err(error) if !error.kind.is_transient() => continue,
                Err(error) => return Err(error.into()),
            };
            if let Ok(record) = Record::from_bytes(*seq, &bytes) {
                found.epoch = found.epoch.max(record.epoch);
                found.newest_ms = record.written_at_ms;
                break;
            }
        }
        for kind in KINDS {
            let epochs = listed(store, &format!("{folder}/{kind}")).await?;
            found.epoch =
                epochs.iter().filter_map(|key| names::epoch(key.as_str())).fold(found.epoch, u64::max);
        }
        Ok(found)
    }
}

/// The numbers of the objects in a folder of the lane, in order.
async fn numbers(store: &dyn Store, folder: &str, kind: &str) -> Result<Vec<u64>, StoreError> {
    let keys = listed(store, &format!("{folder}/{kind}")).await?;
    Ok(keys.iter().filter_map(|key| names::number(key.as_str())).collect())
}

/// All objects below a prefix, in the order of their names.
async fn listed(store: &dyn Store, prefix: &str) -> Result<Vec<Key>, StoreError> {
    let prefix = Prefix::new(prefix).expect("a pipeline's name and a lane's folder are valid prefixes");
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key.clone());
        found.extend(page.into_iter().map(|entry| entry.key));
    }
}

/// A removal that is recorded at `first` and not done.
struct Work<'a> {
    store: &'a dyn Store,
    journal: &'a Journal,
    folder: &'a str,
    first: u64,
}

impl Work<'_> {
    /// Nothing below `seq` counts any more; durable before anything is deleted.
    async fn raise(&self, seq: u64) -> Result<(), StoreError> {
        let key = key(names::floor(self.folder, seq));
        if self.store.put_if_absent(&key, vec![]).await? == Put::Exists {
            self.store.harden(&key.folder()).await?;
        }
        Ok(())
    }

    /// Deletes everything of the pipeline, one object after the other in the order of their names: records of the journal must go in their
    /// order (`Ownership::is_anchored`). What was listed while this process owned the lane is the removed pipeline's.
    async fn clear(&self, pipeline: &str) -> Result<(), RemoveError> {
        for _ in 0..ROUNDS_MAX {
            let mut gone = listed(self.store, pipeline).await?;
            gone.retain(|object| !stays(self.folder, self.first, object.as_str()));
            if gone.is_empty() {
                return Ok(());
            }
            // If not, the name may have another lane since, whose objects may be of an older epoch than this removal.
            self.check_owned().await?;
            for object in &gone {
                if !self.is_older(object.as_str()) {
                    self.check_owned().await?;
                }
                self.store.delete(object).await?;
            }
        }
        Err(RemoveError::Endless)
    }

    /// Whether the object's name says that it is of an owner before the removal, so that no later one makes it again.
    fn is_older(&self, object: &str) -> bool {
        let kind = object.strip_prefix(self.folder).and_then(|rest| rest.split('/').nth(1));
        match kind {
            Some("journal") => names::number(object).is_some_and(|seq| seq < self.first),
            Some(kind) if KINDS.contains(&kind) => {
                names::epoch(object).is_some_and(|epoch| epoch < self.journal.lane().epoch)
            }
            _ => false,
        }
    }

    /// Another call of this may have finished while this one slept, and a new pipeline begun.
    async fn check_owned(&self) -> Result<(), EngineError> {
        match self.journal.ownership().look().await? {
            true => Ok(()),
            false => Err(EngineError::Fenced { seq: self.first + 1 }),
        }
    }
}

/// Whether an object stays when the pipeline is removed by the record `first`: that record and those behind it, and all floors.
fn stays(folder: &str, first: u64, object: &str) -> bool {
    let Some((kind, _)) =
        object.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')?.split_once('/'))
    else {
        return false;
    };
    match (kind, names::number(object)) {
        ("floor", Some(_)) => true,
        ("journal", Some(seq)) => seq >= first,
        _ => false,
    }
}

/// Whether an object is all that is left of a removed pipeline; for those who count what a removal would delete.
pub fn is_left_behind(lane: &Lane, folder: &str, object: &str) -> bool {
    match (lane.is_removed(), lane.newest_checkpoint) {
        (true, Some(first)) => stays(folder, first, object),
        _ => false,
    }
}

fn key(name: String) -> Key {
    Key::new(name).expect("a lane's folder makes valid keys")
}

#[cfg(test)]
mod tests;
