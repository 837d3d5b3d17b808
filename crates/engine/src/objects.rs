//! The objects that this owner of a lane writes: their names, their numbers, and the writing itself.
//!
//! Owns the names under the claim's nonce, which nobody else uses, and the numbers up to which each kind is recorded or given up. Does not own
//! what is in an object, nor when one may go (`protocol::retire`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataflow::Runtime;
use protocol::names;
use protocol::retire::Marks;
use store::{ErrorKind, Key, Operation, Put, Store, StoreError};
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::EngineError;
use crate::retry::Backoff;
use crate::segment;
use crate::unwritten::{Unwritten, WRITE_AFTER};

/// How often segments that wait are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Who reads an object next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextReader {
    /// This owner, soon: it had better lie in the system's cache.
    Soon,
    /// The next start, if it is read at all.
    Start,
}

/// The objects of one owner.
pub struct Objects {
    /// Where they lie.
    pub store: Arc<dyn Store>,
    /// The lane's folder in it.
    pub folder: String,
    /// This owner's epoch.
    pub epoch: u64,
    /// This owner's nonce.
    pub nonce: u128,
    /// Segments that are sealed and not in the store.
    pub unwritten: Unwritten,
    runtime: Arc<dyn Runtime>,
    retry_pause_max: Duration,
    segments: AtomicU64,
    splits: Splits,
    state_files: AtomicU64,
    state_horizon: AtomicU64,
}

/// Numbers of objects with pieces; one owner writes them one at a time.
#[derive(Default)]
struct Splits {
    next: AtomicU64,
    recorded: AtomicU64,
    turn: Mutex<()>,
}

/// The turn to write an object with pieces. Number, object and record go together, one at a time: retirement takes what is older than the
/// newest split and not needed, so a smaller number must never be recorded after a greater one.
pub struct SplitTurn<'a> {
    splits: &'a Splits,
    _turn: MutexGuard<'a, ()>,
}

impl SplitTurn<'_> {
    /// Takes the next number; each call gives another one.
    pub fn number(&self) -> u64 {
        self.splits.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The journal names the split `number`.
    pub fn recorded(&self, number: u64) {
        self.splits.recorded.store(number + 1, Ordering::Release);
    }
}

impl Objects {
    /// Those of the owner that has claimed `folder` with `epoch` and `nonce`; none is written yet.
    pub fn new(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        (epoch, nonce): (u64, u128),
        retry_pause_max: Duration,
    ) -> Self {
        Self {
            store,
            folder,
            epoch,
            nonce,
            unwritten: Unwritten::default(),
            runtime,
            retry_pause_max,
            segments: AtomicU64::new(0),
            splits: Splits::default(),
            state_files: AtomicU64::new(0),
            state_horizon: AtomicU64::new(0),
        }
    }

    /// The name of segment `number`.
    pub fn segment(&self, number: u64) -> String {
        names::segment(&self.folder, self.epoch, self.nonce, number)
    }

    /// The name of the object with the pieces of split `number`.
    pub fn split(&self, number: u64) -> String {
        names::split(&self.folder, self.epoch, self.nonce, number)
    }

    /// The name of file of state `number`.
    pub fn state_file(&self, number: u64) -> String {
        names::run(&self.folder, self.epoch, self.nonce, number)
    }

    /// The name of the snapshot of `step` as of seal `seq`.
    pub fn snapshot(&self, seq: u64, step: u32) -> String {
        names::snapshot(&self.folder, self.epoch, self.nonce, seq, step)
    }

    /// Waits for the turn to write an object with pieces.
    pub async fn split_turn(&self) -> SplitTurn<'_> {
        SplitTurn { _turn: self.splits.turn.lock().await, splits: &self.splits }
    }

    /// A number for a new file of state.
    pub fn new_state_file(&self) -> u64 {
        self.state_files.fetch_add(1, Ordering::AcqRel)
    }

    /// The number that the next file of state will have.
    pub fn next_state_file(&self) -> u64 {
        self.state_files.load(Ordering::Acquire)
    }

    /// One more cut is sealed.
    pub fn sealed(&self) {
        self.segments.fetch_add(1, Ordering::Release);
    }

    /// Cuts that were sealed.
    pub fn cuts_sealed(&self) -> u64 {
        self.segments.load(Ordering::Acquire)
    }

    /// The newest checkpoint names the files of state below `horizon`, or they are of no use to this owner.
    pub fn checkpointed(&self, horizon: u64) {
        self.state_horizon.store(horizon, Ordering::Release);
    }

    /// What lies below these numbers is recorded or given up. Asked before the lane is looked at: what is sealed after that lies above, and
    /// so is left alone. `state` is for the one who looks.
    pub fn marks(&self) -> Marks {
        Marks {
            segments: self.cuts_sealed(),
            splits: self.splits.recorded.load(Ordering::Acquire),
            state: 0,
            runs: self.state_horizon.load(Ordering::Acquire),
        }
    }

    /// A part of a segment, checked; from memory if it is not in the store. `None` if it is in neither.
    ///
    /// # Errors
    /// As [`segment::find`].
    pub async fn part(
        &self,
        object: &str,
        offset: u64,
        len: u64,
        crc: Option<u32>,
    ) -> Result<Option<Bytes>, EngineError> {
        match self.unwritten.read(object, offset, len) {
            Some(part) => Ok(Some(part)),
            None => segment::find(&*self.store, object, offset, len, crc).await,
        }
    }

    /// Writes segments whose frames are not settled for [`WRITE_AFTER`], for as long as it is polled; all of them once `stop` turns true.
    ///
    /// # Errors
    /// When the store refuses for good.
    pub async fn write_late(&self, stop: watch::Receiver<bool>) -> Result<(), EngineError> {
        loop {
            self.unwritten.holds_any().await;
            self.runtime.sleep(LOOK_EVERY).await;
            let after = if *stop.borrow() { Duration::ZERO } else { WRITE_AFTER };
            if let Some(before) = self.runtime.elapsed().checked_sub(after) {
                self.write_unwritten(before).await?;
            }
        }
    }

    /// Writes the segments that were sealed at `before` or earlier and are not in the store.
    ///
    /// # Errors
    /// When the store refuses for good.
    pub async fn write_unwritten(&self, before: Duration) -> Result<(), EngineError> {
        for (object, pieces) in self.unwritten.due(before) {
            self.write_or_find(&object, pieces).await?;
            self.unwritten.written(&object);
        }
        Ok(())
    }

    /// Writes at the end of a run the segments that are not in the store. Another start can make them again from the source, so this takes no longer than `time_max`;
    /// unless the lane `is_reopening` for other columns, with which other bytes would come out: then it waits for the store.
    ///
    /// # Errors
    /// When the store refuses for good.
    pub async fn write_left(&self, is_reopening: bool, time_max: Duration) -> Result<(), EngineError> {
        let write = self.write_unwritten(Duration::MAX);
        match is_reopening {
            true => write.await,
            false => self.runtime.timeout(time_max, write).await.unwrap_or(Ok(())),
        }
    }

    /// Writes a segment that was sealed unwritten. If an earlier owner has sealed it and this one has made it again, both may write it: that one,
    /// before it notices that it was replaced.
    async fn write_or_find(&self, object: &str, pieces: Vec<Bytes>) -> Result<(), EngineError> {
        let key = key(object)?;
        let mut backoff = Backoff::new(self.retry_pause_max);
        loop {
            let failed = match self.store.put_if_absent(&key, pieces.clone()).await {
                Ok(Put::Created) => return Ok(()),
                Ok(Put::Exists) => match self.holds(&key, &pieces).await {
                    Ok(Some(true)) => return Ok(()),
                    Ok(Some(false)) => return Err(written_by_another(object)),
                    // The other has removed it meanwhile.
                    Ok(None) => {
                        backoff.pause(&*self.runtime).await;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !failed.kind.is_transient() {
                return Err(failed.into());
            }
            warn(&backoff, &failed, object);
            backoff.pause(&*self.runtime).await;
        }
    }

    /// Whether the object that is there, durable now, consists of these pieces; `None` if it is gone again.
    async fn holds(&self, key: &Key, pieces: &[Bytes]) -> Result<Option<bool>, StoreError> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        self.store.harden(&key.folder()).await?;
        match self.store.get(key, bytes as u64).await {
            Ok(found) => Ok(found.map(|found| is_of(&found, pieces))),
            Err(error) if error.kind == ErrorKind::TooLarge => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// Writes an object of this owner's, whose name nobody else uses. Waits while the store is away. A put that finds the object may have been made by this very
    /// call: a proxy that has lost the store's answer sends it once more.
    ///
    /// # Errors
    /// When the store refuses for good, or holds other bytes under the name.
    pub async fn write(
        &self,
        object: &str,
        pieces: Vec<Bytes>,
        reader: NextReader,
    ) -> Result<(), EngineError> {
        let key = key(object)?;
        let mut backoff = Backoff::new(self.retry_pause_max);
        loop {
            let put = match reader {
                NextReader::Soon => self.store.put_if_absent(&key, pieces.clone()).await,
                NextReader::Start => self.store.put_past_cache(&key, pieces.clone()).await,
            };
            // One that failed is tried again even if it may have happened: no record points to the object yet.
            let failed = match put {
                Ok(Put::Created) => return Ok(()),
                // The name holds this claim's nonce: what is there came by an earlier try of ours, if it is whole.
                Ok(Put::Exists) => match self.holds(&key, &pieces).await {
                    Ok(Some(true)) => return Ok(()),
                    Ok(Some(false)) => return Err(other_bytes(&key)),
                    // Removed meanwhile: by a newer owner, which this one will learn of.
                    Ok(None) => {
                        backoff.pause(&*self.runtime).await;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !failed.kind.is_transient() {
                return Err(failed.into());
            }
            warn(&backoff, &failed, object);
            backoff.pause(&*self.runtime).await;
        }
    }
}

fn key(object: &str) -> Result<Key, EngineError> {
    Key::new(object).map_err(|e| EngineError::Mismatch(e.to_string()))
}

/// Whether an object consists of these pieces.
fn is_of(mut found: &[u8], pieces: &[Bytes]) -> bool {
    let is_there = pieces.iter().all(|piece| match found.split_at_checked(piece.len()) {
        Some((front, rest)) => {
            found = rest;
            front == piece
        }
        None => false,
    });
    is_there && found.is_empty()
}

fn written_by_another(object: &str) -> EngineError {
    let what = "written by someone else under this owner's name".to_owned();
    EngineError::Damaged { object: object.to_owned(), what }
}

/// Nothing is sealed with the object, and the next claim has names of its own: whoever restarts the process has done enough.
fn other_bytes(key: &Key) -> EngineError {
    let why = "the store holds other bytes there than were put: a part of them, which no service may keep when a put breaks off, or somebody else's. Nothing of it was sealed or \
               lost; the next start goes on under another name";
    StoreError::new(ErrorKind::Io, Operation::Put, key, why).into()
}

fn warn(backoff: &Backoff, error: &StoreError, object: &str) {
    if backoff.should_log() {
        tracing::warn!(%error, object, "the store does not take an object; trying again");
    }
}

#[cfg(test)]
mod tests;
