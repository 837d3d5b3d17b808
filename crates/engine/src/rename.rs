//! A pipeline that gets another name.
//!
//! Owns the steps of a rename, each of which may be the last one before a crash, and how a start under either name is refused meanwhile.
//! Does not own which step is next (`protocol::lane::rename`).
//!
//! | step      | what is durable afterwards                                  | a start under the old name | under the new name |
//! |-----------|-------------------------------------------------------------|----------------------------|--------------------|
//! | take      | the new name's first record: it waits for the lane           | goes on as ever            | refused            |
//! | leave     | the old journal's last word, put by its owner                | refused                    | refused            |
//! | hand over | copies of what the lane points to, then the lane itself      | refused                    | goes on            |
//! | close     | that nothing under the old name counts                       | refused                    | goes on            |
//! | clean     | the objects of the old name are deleted, but for its journal | refused                    | goes on            |
//!
//! Frames keep their names and tokens, which come from a claim's nonce, so a frame that is in doubt is settled under the new name as it
//! would have been under the old one. The journal under the old name stays: a process that slept through all of it looks there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::Runtime;
use futures::{StreamExt, TryStreamExt};
use protocol::lane::rename::{Step, next_step};
use protocol::record::{Arrival, Before, Body, RECORD_BYTES_MAX, Rename};
use protocol::retire::{KINDS, needed};
use protocol::{Lane, Record, names};
use store::{Key, OBJECT_BYTES_MAX, Prefix, Put, Store};

use crate::journal::{Journal, load_any};
use crate::patient::Patient;
use crate::retry::Backoff;
use crate::start::quiet;
use crate::{EngineError, Settings};

/// Steps until a rename is given up: there are five, and each may be done twice where two processes rename at once.
const STEPS_MAX: usize = 16;

/// Objects that are copied at the same time. Each is in memory whole.
const COPIES_AT_ONCE: usize = 4;

/// Tries of one put: a store that is away for longer is a reason to say so and to run the same command again later.
const TRIES_MAX: u64 = 8;

/// Folders of a lane whose objects stay where they are.
const STAYS: [&str; 2] = ["journal", "floor"];

/// What is renamed, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name so far.
    pub from: String,
    /// The name from now on.
    pub to: String,
    /// The number of the lane, which keeps it.
    pub lane: u32,
    /// Who says so, for operators who read the journal.
    pub by: String,
    /// How long the journal must stand still before the lane is taken.
    pub quiet_min: Duration,
}

/// A rename, as far as it has come: both names, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name so far.
    pub from: String,
    /// The name from now on.
    pub to: String,
    /// What comes next.
    pub step: Step,
    /// Sealed inserts that are not settled; they go on under the new name.
    pub inserts: usize,
}

/// Why nothing is renamed.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    /// There is nothing under the old name.
    #[error(
        "pipeline `{name}` has never run with this store: write the new name into the pipeline file, and nothing else is needed"
    )]
    NotThere {
        /// The old name.
        name: String,
    },
    /// The new name is another pipeline's.
    #[error(
        "the store has a pipeline `{name}` already, or something else of that name, so nothing was renamed: choose another name, or \
         take that pipeline out of the store first, with `forebay delete FILE --yes` and a pipeline file that names it"
    )]
    Taken {
        /// The new name.
        name: String,
    },
    /// The pipeline was given another name than this one.
    #[error("pipeline `{from}` was renamed to `{to}`, so nothing was changed: rename that one")]
    Elsewhere {
        /// The old name.
        from: String,
        /// The name that it has.
        to: String,
    },
    /// A process runs the pipeline.
    #[error("a process runs this pipeline at this moment, so nothing was renamed: stop it first")]
    Running,
    /// The journal cannot be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<store::StoreError> for RenameError {
    fn from(error: store::StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// What a rename would do; changes nothing.
///
/// # Errors
/// When there is nothing to rename, or the new name is taken.
pub async fn plan(store: &dyn Store, from: &str, to: &str, lane: u32) -> Result<Plan, RenameError> {
    // A command line that names the new name only, in the file too, goes on with what was begun.
    let new = load_any(store, &names::lane_folder(to, lane)).await?;
    let from = match &new.arriving_from {
        Some(begun) if from == to => begun.as_str(),
        _ => from,
    };
    let old = load_any(store, &names::lane_folder(from, lane)).await?;
    let step = look(store, &old, &new, from, to).await?;
    Ok(Plan { from: from.to_owned(), to: to.to_owned(), step, inserts: old.spool_frames() })
}

async fn look(store: &dyn Store, old: &Lane, new: &Lane, from: &str, to: &str) -> Result<Step, RenameError> {
    let prefix = Prefix::new(to).map_err(|_| RenameError::Taken { name: to.to_owned() })?;
    // Behind a removal there is nothing but what fences the owners before it.
    let is_empty = new.is_removed() || new.next_seq == 0 && store.list(&prefix, None, 1).await?.is_empty();
    match next_step(old, new, is_empty, from, to) {
        Step::NotThere => Err(RenameError::NotThere { name: from.to_owned() }),
        Step::Taken => Err(RenameError::Taken { name: to.to_owned() }),
        Step::Elsewhere => {
            let to = old.renamed.as_ref().map(|renamed| renamed.to.clone()).unwrap_or_default();
            Err(RenameError::Elsewhere { from: from.to_owned(), to })
        }
        step => Ok(step),
    }
}

/// Renames a pipeline, or finishes a rename that was broken off. The source and the tables are left alone.
///
/// # Errors
/// When a condition does not hold (nothing was changed then), or the store cannot be read or written: the same call goes on with it.
pub async fn rename(
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    request: &Request,
) -> Result<Plan, RenameError> {
    let settings = Settings { owner_quiet_min: request.quiet_min, ..Settings::default() };
    let pause = settings.retry_pause_max;
    let store: Arc<dyn Store> = Arc::new(Patient::new(store, runtime.clone(), pause).tries(TRIES_MAX));
    // Looked at before the claim, so that a mistake ends nobody.
    let plan = plan(&*store, &request.from, &request.to, request.lane).await?;
    let Plan { from, to, .. } = &plan;
    let folder = |name: &str| names::lane_folder(name, request.lane);
    if !quiet::is_quiet(&*runtime, &settings, &*store, &folder(from)).await? {
        return Err(RenameError::Running);
    }
    let owner = format!("rename by {}", request.by);
    let mut journal = Journal::claim_any(store.clone(), runtime.clone(), folder(from), owner, pause).await?;
    let work = Work { store: &*store, runtime: &*runtime, from: folder(from), to: folder(to), pause };
    let word = |is_done| Body::Rename(Rename { to: to.clone(), is_done, by: request.by.clone() });
    for _ in 0..STEPS_MAX {
        let new = load_any(&*store, &work.to).await?;
        match look(&*store, journal.lane(), &new, from, to).await? {
            Step::Take => work.take(Arrival { from: from.clone(), by: request.by.clone() }, &new).await?,
            Step::Leave => drop(journal.append(word(false)).await?),
            Step::HandOver => work.hand_over(journal.lane(), to, &new).await?,
            Step::Close => drop(journal.append(word(true)).await?),
            Step::Clean => {
                work.clean(&journal).await?;
                return Ok(plan);
            }
            Step::NotThere | Step::Taken | Step::Elsewhere => {
                return Err(EngineError::Internal("a refused rename goes on").into());
            }
        }
    }
    Err(EngineError::Mismatch(
        "another process renames the pipeline at this moment; look again when it is done".into(),
    )
    .into())
}

/// The two folders of a rename.
struct Work<'a> {
    store: &'a dyn Store,
    runtime: &'a dyn Runtime,
    from: String,
    to: String,
    pause: Duration,
}

impl Work<'_> {
    /// Takes the new name, unless somebody else was faster: the next look tells.
    async fn take(&self, arrival: Arrival, new: &Lane) -> Result<(), EngineError> {
        let record = Record {
            seq: new.next_seq,
            epoch: new.epoch,
            nonce: new.nonce.clone(),
            written_at_ms: self.runtime.wall_ms(),
            body: Some(Body::Arrival(arrival)),
        };
        self.put(&key(names::journal(&self.to, record.seq)), record.to_bytes().into()).await.map(drop)
    }

    /// Copies what the lane needs, and makes the lane the newest word under the new name.
    async fn hand_over(&self, lane: &Lane, name: &str, new: &Lane) -> Result<(), EngineError> {
        let outside = || EngineError::Damaged {
            object: format!("{}/journal", self.from),
            what: "pointing to objects outside of the lane's folder".into(),
        };
        let at_ms = self.runtime.wall_ms();
        let mut checkpoint = lane.under_name(name, &self.from, &self.to, at_ms).ok_or_else(outside)?;
        // The name was another pipeline's before, whose dead letters may be left.
        if let Some(image) = checkpoint.lane.as_mut().filter(|_| new.next_seq > 1) {
            let before = image.before.unwrap_or_default();
            image.before = Some(Before { letters_from_ms: at_ms, ..before });
        }
        let needed = needed(lane);
        let mut objects = Vec::new();
        for object in self.objects().await? {
            let kind = self.kind(&object);
            if !KINDS.contains(&kind) || needed.contains(object.as_str()) {
                objects.push(object);
            }
        }
        let copies = objects.iter().map(|object| self.copy(object));
        futures::stream::iter(copies).buffer_unordered(COPIES_AT_ONCE).try_collect::<()>().await?;
        // Copies of an earlier try may not be durable yet.
        let prefix = Prefix::new(&self.to).expect("a lane's folder is a valid prefix");
        self.store.harden(&prefix).await?;
        let record = Record {
            seq: new.next_seq,
            // What owners of an earlier pipeline of this name left is of an older epoch then.
            epoch: lane.epoch.max(new.epoch),
            nonce: lane.nonce.clone(),
            written_at_ms: at_ms,
            body: Some(Body::Checkpoint(checkpoint)),
        };
        let bytes = Bytes::from(record.to_bytes());
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(EngineError::Mismatch(format!(
                "the lane is a journal record of {} bytes, {RECORD_BYTES_MAX} are the most; deliver what is sealed first, with \
                 `forebay run FILE --drain` under the old name",
                bytes.len()
            )));
        }
        self.put(&key(names::journal(&self.to, record.seq)), bytes).await.map(drop)
    }

    async fn copy(&self, object: &Key) -> Result<(), EngineError> {
        let missing = || EngineError::Damaged { object: object.to_string(), what: "missing".into() };
        let found = self.store.get(object, OBJECT_BYTES_MAX).await;
        let bytes =
            found.map_err(|error| EngineError::of_reading(object.as_str(), error))?.ok_or_else(missing)?;
        let rest = &object.as_str()[self.from.len()..];
        let copy = key(format!("{}{rest}", self.to));
        for _ in 0..TRIES_MAX {
            if self.put(&copy, bytes.clone()).await? == Put::Created {
                return Ok(());
            }
            // Of an earlier try, if it is whole: the original is deleted when all are copied.
            let found = self.store.get(&copy, OBJECT_BYTES_MAX).await;
            match found.map_err(|error| EngineError::of_reading(copy.as_str(), error))? {
                Some(found) if found == bytes => return Ok(()),
                Some(_) => return Err(other_copy(&copy)),
                // Somebody has deleted it meanwhile.
                None => {}
            }
        }
        Err(EngineError::Damaged { object: copy.to_string(), what: "deleted again and again".to_owned() })
    }

    /// Puts an object, durable where one is there already. Such a record has the same bytes, or its reader finds out.
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<Put, EngineError> {
        let mut backoff = Backoff::new(self.pause);
        loop {
            match self.store.put_if_absent(key, vec![bytes.clone()]).await {
                Ok(Put::Created) => return Ok(Put::Created),
                Ok(Put::Exists) => {
                    self.store.harden(&key.folder()).await?;
                    return Ok(Put::Exists);
                }
                Err(error) if error.kind.is_transient() && backoff.tries() + 1 < TRIES_MAX => {
                    backoff.pause(self.runtime).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes all under the old name but the journal. If this process slept, another pipeline may have begun under that name, once it was deleted: what was listed
    /// while this one owned the journal is of the lane that has left. Names with a claim's nonce come never again, those that say a place may.
    async fn clean(&self, journal: &Journal) -> Result<(), EngineError> {
        let ownership = journal.ownership();
        let objects = self.objects().await?;
        if !objects.is_empty() {
            ownership.check().await?;
        }
        for object in &objects {
            if !KINDS.contains(&self.kind(object)) {
                ownership.check().await?;
            }
            self.store.delete(object).await?;
        }
        Ok(())
    }

    /// All objects under the old name but those of the journal.
    async fn objects(&self) -> Result<Vec<Key>, EngineError> {
        let prefix = Prefix::new(&self.from).expect("a lane's folder is a valid prefix");
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.key.clone());
            let objects = page.into_iter().map(|entry| entry.key);
            found.extend(objects.filter(|object| !STAYS.contains(&self.kind(object))));
        }
    }

    /// The folder of the lane that the object lies in.
    fn kind<'o>(&self, object: &'o Key) -> &'o str {
        object.as_str()[self.from.len()..].trim_start_matches('/').split('/').next().unwrap_or_default()
    }
}

fn other_copy(copy: &Key) -> EngineError {
    EngineError::Mismatch(format!(
        "`{copy}` is there already and holds other bytes than what is to be copied to it: a part of it, which no service may keep when a put breaks off, or somebody else's. Nothing was \
         deleted. Delete `{copy}` from the store, and give the same command again"
    ))
}

fn key(name: String) -> Key {
    Key::new(name).expect("a lane's folder makes valid keys")
}

#[cfg(test)]
mod tests;
