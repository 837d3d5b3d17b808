//! Is this process still the owner of the lane?
//!
//! Owns the question that is asked before the last bytes of every insert (protocol, step 3). Does not own the claim or the appending of
//! records ([`crate::journal`]), nor what an owner does that was fenced ([`crate::pipeline`]). A process that slept through its own
//! replacement finds the journal slot that it would write next taken by another, or below the floor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dataflow::Gate;
use protocol::append::{Next, after_floor};
use protocol::record::RECORD_BYTES_MAX;
use protocol::{Record, names};
use store::{Key, Prefix, Store};

use crate::EngineError;

/// Tries of one look before an insert is held back: one lost answer should not cost the upload of a whole body.
const LOOKS_MAX: u32 = 3;

/// What this process owns, as far as it knows.
#[derive(Debug)]
pub struct Ownership {
    store: Arc<dyn Store>,
    folder: String,
    nonce: Vec<u8>,
    place: Mutex<Place>,
    fenced: AtomicBool,
}

/// Where the journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    next_seq: u64,
    /// True if the record before `next_seq` is this owner's and was put by one put alone: see [`Ownership::is_anchored`].
    anchored: bool,
}

impl Ownership {
    /// The owner that is about to claim with `nonce`, at number `next_seq`.
    pub fn new(store: Arc<dyn Store>, folder: String, nonce: Vec<u8>, next_seq: u64) -> Self {
        let place = Mutex::new(Place { next_seq, anchored: false });
        Self { store, folder, nonce, place, fenced: AtomicBool::new(false) }
    }

    /// The journal has grown. `at_once` says that the first put was answered, so that no other put of the record can still
    /// be on its way.
    pub fn advance(&self, next_seq: u64, at_once: bool) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Place { next_seq, anchored: at_once };
    }

    /// Another owner was seen.
    pub fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
    }

    /// True if another owner was seen.
    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// The nonce of this owner's claim.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// The number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.place().next_seq
    }

    fn place(&self) -> Place {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the slot that this process would write next, and whether it was retired. A no counts only if this process has
    /// written nothing meanwhile: its own checkpoint raises the floor too.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn look(&self) -> Result<bool, store::StoreError> {
        loop {
            let place = self.place();
            if self.is_free_or_ours(place).await? {
                return Ok(true);
            }
            if self.place() == place {
                return Ok(false);
            }
        }
    }

    /// As [`look`](Self::look), before something is deleted that was listed: what was listed while this process owned the lane is the lane's own. Another lane that
    /// takes the name later may bring objects of older epochs along.
    ///
    /// # Errors
    /// [`EngineError::Fenced`] if another process owns it. When the store does not answer.
    pub async fn check(&self) -> Result<(), EngineError> {
        match self.look().await? {
            true => Ok(()),
            false => Err(EngineError::Fenced { seq: self.next_seq() }),
        }
    }

    /// Our own record there may be the one that is being appended at this moment, and another owner's claim may stand right behind
    /// it; so the first slot that is not ours decides. More of them this process has not written: it is a copy of a machine, or one that was set back
    /// to a moment from before, and what it takes for unsent was sent long ago.
    async fn is_free_or_ours(&self, place: Place) -> Result<bool, store::StoreError> {
        let mut seq = place.next_seq;
        while let Some(bytes) = self.store.get(&self.record(seq), RECORD_BYTES_MAX).await? {
            if !self.is_ours(seq, &bytes) {
                return Ok(false);
            }
            seq += 1;
        }
        // Asked after the slots were read: all that was appended meanwhile counts.
        if seq > self.next_seq().saturating_add(1) {
            return Ok(false);
        }
        let is_anchored = seq == place.next_seq && self.is_anchored(place).await?;
        Ok(is_anchored || floor(&*self.store, &self.folder).await? <= seq)
    }

    /// True if the slot `next_seq` was certainly never retired so far, told by one get instead of a list of the floors, which
    /// costs ten times as much.
    ///
    /// The record before it stands. Records are deleted in the order of their numbers, one after the other, so nothing that
    /// follows one that stands was ever deleted. It cannot have been deleted and put again, for it has this claim's nonce and
    /// its only put was answered. Asked *after* the slot was read or put; a no says nothing.
    async fn is_anchored(&self, place: Place) -> Result<bool, store::StoreError> {
        let Some(before) = place.next_seq.checked_sub(1).filter(|_| place.anchored) else { return Ok(false) };
        let found = self.store.get(&self.record(before), RECORD_BYTES_MAX).await?;
        Ok(found.is_some_and(|bytes| self.is_ours(before, &bytes)))
    }

    /// True if the slot that was just won is one that counts: it was not retired before.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn counts(&self, seq: u64) -> Result<bool, store::StoreError> {
        let place = self.place();
        if place.next_seq == seq && self.is_anchored(place).await? {
            return Ok(true);
        }
        Ok(after_floor(seq, floor(&*self.store, &self.folder).await?) == Next::Appended)
    }

    fn is_ours(&self, seq: u64, bytes: &[u8]) -> bool {
        Record::from_bytes(seq, bytes).is_ok_and(|record| record.nonce == self.nonce)
    }

    fn record(&self, seq: u64) -> Key {
        Key::new(names::journal(&self.folder, seq)).expect("a lane's folder makes valid keys")
    }
}

#[async_trait]
impl Gate for Ownership {
    async fn may_complete(&self) -> bool {
        if self.fenced.load(Ordering::Acquire) {
            return false;
        }
        let mut seen = self.look().await;
        for _ in 1..LOOKS_MAX {
            if seen.is_ok() {
                break;
            }
            seen = self.look().await;
        }
        match seen {
            Ok(true) => true,
            Ok(false) => {
                self.fence();
                false
            }
            Err(error) => {
                tracing::warn!(%error, "cannot check whether this process still owns the lane; the insert is not completed");
                false
            }
        }
    }
}

/// The lowest journal record that still counts; 0 if none was ever retired.
///
/// # Errors
/// When the store cannot be listed.
pub async fn floor(store: &dyn Store, folder: &str) -> Result<u64, store::StoreError> {
    let prefix = Prefix::new(&format!("{folder}/floor")).expect("a lane's folder makes a valid prefix");
    let mut floor = 0;
    let mut after: Option<Key> = None;
    // Old floors are deleted when a new one stands, so one page is nearly always all.
    loop {
        let page = store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
        let Some(last) = page.last() else { return Ok(floor) };
        floor = page.iter().filter_map(|e| names::number(e.key.as_str())).fold(floor, u64::max);
        after = Some(last.key.clone());
    }
}
