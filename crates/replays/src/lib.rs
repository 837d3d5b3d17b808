//! Records of dead letters on their way through the pipeline once more.
//!
//! Owns the *replay log* of a lane: immutable objects in the lane's folder that hold chosen records, one after the other, as
//! one endless partition. Putting an object is what makes a replay durable; a running lane finds it, any later start does
//! too, and the lane's journal reads each of its records exactly once, as it does with every other partition. Does not own the
//! choice of records (`admin::dead_letters`) or what becomes of them (the lane's seals say so).
//!
//! | module     | what it owns                                                             |
//! |------------|--------------------------------------------------------------------------|
//! | [`object`] | the bytes of one object of the log                                       |
//! | [`taken`]  | which dead letters were taken already, for ever, in little room          |
//! | [`memory`] | keeping that knowledge in the store, and retiring objects that were read |
//! | [`purged`]  | which dead letters `purge` has deleted, for `verify`                     |
//! | [`inspect`] | reading and verifying all of it                                         |
//! | [`source`] | the log as a further partition beside the pipeline's own source          |
//! | [`aside`]  | what stands in for that source where it must not be read                 |
//!
//! ```text
//! <lane>/replays/00000000000000000000     records 0 to 2 of the log
//! <lane>/replays/00000000000000000003     records 3 to 9: the name says where it begins, so of two writers one wins
//! <lane>/replayed/00000000000000000003    what was taken by the objects below 3, which may go
//! <lane>/purged/00000000000000000001      what `purge` has deleted up to its first time; the newest holds all
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test that waits does so by the real clock"))]

pub mod aside;
pub mod inspect;
pub mod memory;
pub mod object;
pub mod purged;
pub mod source;
pub mod taken;

use std::sync::Arc;

use dataflow::Position;
use engine::EngineError;
use protocol::Lane;
use store::{ErrorKind, Key, Prefix, Put, Store, StoreError};

use object::{HEAD_BYTES, OBJECT_BYTES_MAX, Replay, ReplayError};

/// The stream's name in the lane, in dead letters and in status. No Kafka topic can be called so.
pub const STREAM: &str = engine::forget::REPLAYS;

/// What distinguishes the replay log from any other stream of that name.
pub const IDENTITY: &str = "forebay-replay-log-1";

/// Objects that one lane's log may hold at a time. They are retired by later replays; a thousand of them wait only if the
/// pipeline has not run for very long, and reading their names stays one page of a listing.
pub const OBJECTS_MAX: usize = 1_000;

/// Why the log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is not what was put there.
    #[error("`{object}` {why}")]
    Object {
        /// Its key.
        object: String,
        /// What is wrong with it.
        why: ReplayError,
    },
    /// The log has no room.
    #[error(
        "`{objects}` replays wait to be read, the most there may be; start the pipeline, and replay again when it has read them"
    )]
    Full {
        /// Objects that are there.
        objects: usize,
    },
}

/// Where the lane stands in its log, also while the input that carries the log is forgotten: it is read on from there. `None` if nothing of it was read.
pub fn stands_at(lane: &Lane) -> Option<Position> {
    lane.partitions.iter().rfind(|p| p.is(0, STREAM, 0)).map(|p| p.next)
}

/// The replay log of one lane.
#[derive(Clone, Debug)]
pub struct Log {
    store: Arc<dyn Store>,
    folder: String,
}

impl Log {
    /// The log below the lane's folder.
    pub fn new(store: Arc<dyn Store>, lane_folder: &str) -> Self {
        Self { store, folder: lane_folder.to_owned() }
    }

    /// The object that begins at `position`, if there is one.
    ///
    /// # Errors
    /// When the store fails or the object is damaged.
    pub async fn at(&self, position: u64) -> Result<Option<Replay>, LogError> {
        let key = self.key("replays", position);
        let found = self.store.get(&key, OBJECT_BYTES_MAX).await.map_err(|error| of_reading(&key, error))?;
        let Some(bytes) = found else { return Ok(None) };
        Ok(Some(Replay::from_bytes(position, &bytes).map_err(|why| broken(&key, why))?))
    }

    /// As [`Log::at`], and durable: whoever acts on what is in it may trust that it stays.
    ///
    /// # Errors
    /// As [`Log::at`].
    pub async fn durable_at(&self, position: u64) -> Result<Option<Replay>, LogError> {
        let found = self.at(position).await?;
        if found.is_some() {
            self.harden("replays").await?;
        }
        Ok(found)
    }

    /// The position after the object that begins at `position`; `None` if there is no such object. Reads its head only.
    ///
    /// # Errors
    /// As [`Log::at`].
    pub async fn end_of(&self, position: u64) -> Result<Option<u64>, LogError> {
        let key = self.key("replays", position);
        let found = self.store.get_range(&key, 0..HEAD_BYTES as u64).await;
        let Some(head) = found.map_err(|error| of_reading(&key, error))? else { return Ok(None) };
        Ok(Some(object::end(position, &head).map_err(|why| broken(&key, why))?))
    }

    /// Where the objects begin, ascending.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begins(&self) -> Result<Vec<u64>, LogError> {
        self.numbers("replays").await
    }

    /// The first position that is held and the one after the last; `None` if the log holds nothing.
    ///
    /// # Errors
    /// As [`Log::at`].
    pub async fn extent(&self) -> Result<Option<(u64, u64)>, LogError> {
        let begins = self.begins().await?;
        let (Some(first), Some(last)) = (begins.first(), begins.last()) else { return Ok(None) };
        Ok(self.end_of(*last).await?.map(|end| (*first, end)))
    }

    /// A position that no record of the log has, nor any behind it. Of a newest object that is damaged the greatest end that it may have: no object
    /// holds more records.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn behind_all(&self) -> Result<u64, LogError> {
        let begins = self.begins().await?;
        let Some(newest) = begins.last() else { return Ok(0) };
        match self.end_of(*newest).await {
            Ok(Some(end)) => Ok(end),
            Ok(None) | Err(LogError::Object { .. }) => Ok(newest.saturating_add(object::RECORDS_MAX as u64)),
            Err(error) => Err(error),
        }
    }

    /// The position that the first record of this lane's log has, by its journal: that of an earlier pipeline of the name ends there. `None` if the journal
    /// cannot be read as one now: it was retired meanwhile, or something before the store has answered.
    pub(crate) async fn first_of_lane(&self) -> Result<Option<u64>, LogError> {
        match engine::journal::load_any(&*self.store, &self.folder).await {
            Ok(lane) => Ok(Some(lane.before.replays_from)),
            Err(EngineError::Store(error)) => Err(error.into()),
            // If it stays so, whoever opens the lane says why.
            Err(_) => Ok(None),
        }
    }

    /// Appends, unless another writer has put an object there meanwhile: then `false`, and the caller reads the log again.
    /// Positions in `replay` say where; after a lost answer the objects are compared. A free place may also mean that its object
    /// was read and retired since the caller read the log: an object put there would never be read, so it is removed again.
    ///
    /// # Errors
    /// When the store fails; whether the object is there is then not known, and doing all of it again is safe.
    pub async fn append(&self, replay: &Replay) -> Result<bool, LogError> {
        let objects = self.begins().await?.len();
        if objects >= OBJECTS_MAX {
            return Err(LogError::Full { objects });
        }
        if objects > 0 {
            // What another writer left may vanish with a loss of power; nothing is put behind a place that may be empty then, where no lane
            // would read it.
            self.harden("replays").await?;
        }
        let key = self.key("replays", replay.first);
        let put = self.store.put_if_absent(&key, vec![replay.to_bytes().into()]).await;
        if !matches!(put, Ok(Put::Created)) {
            // It may be this writer's all the same, if the answer was lost or a proxy has sent it twice: its nonce shows whose it is.
            match self.at(replay.first).await {
                Ok(Some(found)) if found.nonce == replay.nonce => self.store.harden(&key.folder()).await?,
                Ok(Some(_)) => return Ok(false),
                // That of another writer, whatever is wrong with it.
                Err(LogError::Object { .. }) if matches!(put, Ok(Put::Exists)) => return Ok(false),
                Err(error) => return Err(error),
                Ok(None) => return put.map(|_| false).map_err(LogError::from),
            }
        }
        if self.was_retired(replay.first).await? {
            self.store.delete(&key).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Removes an object of this writer's that was put behind a reset, where it is none of the pipeline that has the name now. If another one stands behind it
    /// already, it stays: no lane would read beyond the gap.
    ///
    /// # Errors
    /// When the store fails or what stands there is damaged.
    pub async fn take_back(&self, replay: &Replay) -> Result<(), LogError> {
        let is_own = self.at(replay.first).await?.is_some_and(|found| found.nonce == replay.nonce);
        if is_own && self.begins().await?.last() == Some(&replay.first) {
            self.store.delete(&self.key("replays", replay.first)).await?;
        }
        Ok(())
    }

    /// Whether the place at `position` was retired before the object there was put. Retirement leaves a snapshot that goes beyond
    /// what it deletes, and the newest object. (Both hold as well for an object that was read and snapshotted since it was put, behind
    /// which another one stands: then its letters are known as taken, as a caller finds that reads the log again.)
    async fn was_retired(&self, position: u64) -> Result<bool, LogError> {
        let is_beyond = self.numbers("replayed").await?.into_iter().any(|end| end > position);
        Ok(is_beyond && self.begins().await?.last().is_some_and(|newest| *newest > position))
    }

    /// Makes durable what others have put into a folder of the log.
    async fn harden(&self, kind: &str) -> Result<(), LogError> {
        Ok(self.store.harden(&self.prefix(kind)).await?)
    }

    fn prefix(&self, kind: &str) -> Prefix {
        Prefix::new(&format!("{}/{kind}", self.folder)).expect("a lane's folder makes prefixes")
    }

    async fn numbers(&self, kind: &str) -> Result<Vec<u64>, LogError> {
        let prefix = self.prefix(kind);
        let mut numbers = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
            let Some(last) = page.last() else { return Ok(numbers) };
            after = Some(last.key.clone());
            numbers.extend(page.iter().filter_map(|entry| protocol::names::number(entry.key.as_str())));
        }
    }

    fn key(&self, kind: &str, position: u64) -> Key {
        Key::new(format!("{}/{kind}/{position:020}", self.folder)).expect("a lane's folder makes valid keys")
    }
}

fn broken(key: &Key, why: ReplayError) -> LogError {
    LogError::Object { object: key.as_str().to_owned(), why }
}

/// What a failed read of an object means: one that is too short or too long is not what was put, and no other try fixes that.
fn of_reading(key: &Key, error: StoreError) -> LogError {
    match error.kind {
        ErrorKind::OutOfRange | ErrorKind::TooLarge | ErrorKind::Corrupt => {
            broken(key, object::damaged(&error.reason))
        }
        _ => LogError::Store(error),
    }
}

#[cfg(test)]
mod tests;
