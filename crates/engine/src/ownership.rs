//! Is this process still the owner of the lane?
//!
//! Owns the question that is asked before the last bytes of every insert (protocol, step 3). A process that slept through
//! its own replacement finds the journal slot that it would write next taken by another, or below the floor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use dataflow::Gate;
use protocol::record::RECORD_BYTES_MAX;
use protocol::{Record, names};
use store::{Key, Prefix, Store};

/// What this process owns, as far as it knows.
#[derive(Debug)]
pub struct Ownership {
    store: Arc<dyn Store>,
    folder: String,
    nonce: Vec<u8>,
    next_seq: AtomicU64,
    fenced: AtomicBool,
}

impl Ownership {
    /// The owner that holds the claim with `nonce`; the record after it has number `next_seq`.
    pub fn new(store: Arc<dyn Store>, folder: String, nonce: Vec<u8>, next_seq: u64) -> Self {
        Self { store, folder, nonce, next_seq: AtomicU64::new(next_seq), fenced: AtomicBool::new(false) }
    }

    /// The journal has grown.
    pub fn advance(&self, next_seq: u64) {
        self.next_seq.store(next_seq, Ordering::Release);
    }

    /// Another owner was seen.
    pub fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
    }

    /// True if another owner was seen.
    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Reads the slot that this process would write next, and the floor. A no counts only if this process has written
    /// nothing meanwhile: its own checkpoint raises the floor too.
    async fn look(&self) -> Result<bool, store::StoreError> {
        loop {
            let seq = self.next_seq.load(Ordering::Acquire);
            if self.is_free_or_ours(seq).await? {
                return Ok(true);
            }
            if self.next_seq.load(Ordering::Acquire) == seq {
                return Ok(false);
            }
        }
    }

    async fn is_free_or_ours(&self, seq: u64) -> Result<bool, store::StoreError> {
        let key = Key::new(names::journal(&self.folder, seq)).expect("a lane's folder makes valid keys");
        if let Some(bytes) = self.store.get(&key, RECORD_BYTES_MAX).await? {
            // The record may be our own, being appended at this moment.
            return Ok(Record::from_bytes(seq, &bytes).is_ok_and(|record| record.nonce == self.nonce));
        }
        Ok(floor(&*self.store, &self.folder).await? <= seq)
    }
}

#[async_trait]
impl Gate for Ownership {
    async fn may_complete(&self) -> bool {
        if self.fenced.load(Ordering::Acquire) {
            return false;
        }
        match self.look().await {
            Ok(true) => true,
            Ok(false) => {
                self.fence();
                false
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell whether this process still owns the lane; the insert is held back");
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
