//! Reading, claiming and appending journal records.
//!
//! Owns the I/O around `protocol::{record, lane, append}`: one record is put at a time, and none after another owner was
//! seen. Does not own what records say.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::Runtime;
use futures::StreamExt;
use protocol::append::{self, Next, PutAnswer};
use protocol::record::{Body, Claim, RECORD_BYTES_MAX, Removal};
use protocol::{Lane, Record, names};
use store::{Key, Prefix, Put, Store};

use crate::EngineError;
use crate::ownership::{Ownership, floor};
use crate::patient::Patient;
use crate::renamed;
use crate::retry::Backoff;

/// Times that a load begins anew because records vanished under it: each means that a living owner wrote a checkpoint
/// meanwhile, and those are seconds apart.
const LOADS_MAX: u32 = 10;

/// Records that are read at once: a journal of a thousand records is read within a second where a get takes 20 ms.
const READ_AHEAD: usize = 16;

/// How long a claimant that is beaten by a living owner or by other claimants goes on. Each time it reads on from where it was, in
/// one round trip, and puts again, so against an owner on the same store it wins every second or third time. One that is not
/// on as fast a path to the store may lose for long, and that is no reason to give up: an owner is not always writing.
const CLAIM_TIME_MAX: Duration = Duration::from_secs(600);

/// Tries that a claimant has in any case: with a clock that jumps, or a store that takes minutes for each.
const CLAIMS_MIN: u32 = 200;

/// The journal of one lane, and all that it says.
pub struct Journal {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    folder: String,
    retry_pause_max: Duration,
    lane: Lane,
    ownership: Arc<Ownership>,
    /// The record that is being put, with its bytes. It stays here if its caller is ended before the answer: then nobody knows whether the journal has it.
    begun: Option<(Record, Bytes)>,
}

/// Reads a lane's journal without changing anything; `Lane::new()` if there is none.
///
/// # Errors
/// When records are missing, damaged or break an invariant, the lane has gone to another name, or the store cannot be read.
pub async fn load(store: &dyn Store, folder: &str) -> Result<Lane, EngineError> {
    let lane = load_any(store, folder).await?;
    renamed::check(&lane, folder)?;
    Ok(lane)
}

/// As [`load`], of a lane that has gone to another name too: for those who list, rename and delete pipelines.
///
/// # Errors
/// When records are missing, damaged or break an invariant, or the store cannot be read.
pub async fn load_any(store: &dyn Store, folder: &str) -> Result<Lane, EngineError> {
    for _ in 0..LOADS_MAX {
        if let Some(lane) = load_once(store, folder).await? {
            return Ok(lane);
        }
    }
    Err(EngineError::Damaged {
        object: format!("{folder}/journal"),
        what: format!("being retired faster than it can be read ({LOADS_MAX} times)"),
    })
}

/// What a writer left that crashed or sleeps may not be durable yet, and it is about to be trusted: all that was read, and so not before
/// it is.
async fn reload(store: &dyn Store, folder: &str) -> Result<Lane, EngineError> {
    let lane = load_any(store, folder).await?;
    harden(store, folder).await?;
    Ok(lane)
}

/// Makes durable what others have put into the lane's folder.
async fn harden(store: &dyn Store, folder: &str) -> Result<(), EngineError> {
    Ok(store.harden(&Prefix::new(folder).expect("a lane's folder is a valid prefix")).await?)
}

/// `None` if the journal was retired under the reader: a record that was listed is gone, or what is left does not hang
/// together and the floor has risen meanwhile.
async fn load_once(store: &dyn Store, folder: &str) -> Result<Option<Lane>, EngineError> {
    let before = floor(store, folder).await?;
    match fold(store, folder, before).await {
        Err(EngineError::Violation(_)) if floor(store, folder).await? > before => Ok(None),
        result => result,
    }
}

async fn fold(store: &dyn Store, folder: &str, floor: u64) -> Result<Option<Lane>, EngineError> {
    let prefix = Prefix::new(&format!("{folder}/journal")).expect("a lane's folder makes a valid prefix");
    let mut after = floor.checked_sub(1).map(|seq| key(names::journal(folder, seq)));
    let mut lane: Option<Lane> = None;
    loop {
        let page = store.list(&prefix, after.as_ref(), store::LIST_LIMIT_MAX).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        let numbered = page.into_iter().filter_map(|e| Some((names::number(e.key.as_str())?, e.key)));
        let read = |(seq, key): (u64, Key)| async move { (seq, store.get(&key, RECORD_BYTES_MAX).await) };
        let mut records = futures::stream::iter(numbered).map(read).buffered(READ_AHEAD);
        while let Some((seq, bytes)) = records.next().await {
            let bytes =
                bytes.map_err(|error| EngineError::of_reading(&names::journal(folder, seq), error))?;
            let Some(bytes) = bytes else { return Ok(None) };
            let record = Record::from_bytes(seq, &bytes)?;
            match &mut lane {
                None => lane = Some(first(&record)?),
                Some(lane) => lane.apply(&record)?,
            }
        }
    }
    match lane {
        // A floor without its checkpoint: retired while we looked, or lost.
        None if floor > 0 => Ok(None),
        lane => Ok(Some(lane.unwrap_or_else(Lane::new))),
    }
}

/// Reads on from where `lane` stands, by number: what a living owner has appended meanwhile. Nothing is listed, so that a
/// claimant stays close behind the owner however slow the store lists. False if there is nothing.
async fn read_on(store: &dyn Store, folder: &str, lane: &mut Lane) -> Result<bool, EngineError> {
    let begun = lane.next_seq;
    // There is one record at least, and there may be many: they are asked for side by side.
    let ahead = READ_AHEAD;
    loop {
        let from = lane.next_seq;
        let read =
            |seq| async move { (seq, store.get(&key(names::journal(folder, seq)), RECORD_BYTES_MAX).await) };
        let mut records = futures::stream::iter(from..from + ahead as u64).map(read).buffered(ahead);
        while let Some((seq, bytes)) = records.next().await {
            let bytes =
                bytes.map_err(|error| EngineError::of_reading(&names::journal(folder, seq), error))?;
            let Some(bytes) = bytes else { return Ok(lane.next_seq > begun) };
            lane.apply(&Record::from_bytes(seq, &bytes)?)?;
        }
    }
}

fn first(record: &Record) -> Result<Lane, EngineError> {
    if record.seq > 0 {
        return Ok(Lane::from_checkpoint(record)?);
    }
    let mut lane = Lane::new();
    lane.apply(record)?;
    Ok(lane)
}

fn claim(owner: String, answers: bool) -> Body {
    Body::Claim(Claim { owner, version: env!("CARGO_PKG_VERSION").to_owned(), answers })
}

fn key(name: String) -> Key {
    Key::new(name).expect("a lane's folder makes valid keys")
}

impl Journal {
    /// Reads the journal and takes the lane over.
    ///
    /// # Errors
    /// As [`load`], and [`EngineError::Fenced`] when others claim the lane faster than this process can.
    pub async fn claim(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        owner: String,
        retry_pause_max: Duration,
    ) -> Result<Self, EngineError> {
        Self::claim_if(store, runtime, folder, claim(owner, false), retry_pause_max, renamed::check).await
    }

    /// As [`Journal::claim`], to answer questions and nothing else: the process that asked, and still delivers to other tables, goes on behind it.
    ///
    /// # Errors
    /// As [`Journal::claim`].
    pub async fn claim_to_answer(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        owner: String,
        retry_pause_max: Duration,
    ) -> Result<Self, EngineError> {
        Self::claim_if(store, runtime, folder, claim(owner, true), retry_pause_max, renamed::check).await
    }

    /// As [`Journal::claim`], of a lane that has gone to another name too: to finish what was begun.
    ///
    /// # Errors
    /// As [`load_any`], and [`EngineError::Fenced`] when others claim the lane faster than this process can.
    pub async fn claim_any(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        owner: String,
        retry_pause_max: Duration,
    ) -> Result<Self, EngineError> {
        Self::claim_if(store, runtime, folder, claim(owner, false), retry_pause_max, |_, _| Ok(())).await
    }

    /// Reads the journal and takes the lane over by a removal, which is the newest record then.
    ///
    /// # Errors
    /// As [`Journal::claim_any`].
    pub(crate) async fn remove(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        removal: Removal,
        retry_pause_max: Duration,
    ) -> Result<Self, EngineError> {
        let body = Body::Removal(removal);
        Self::claim_if(store, runtime, folder, body, retry_pause_max, |_, _| Ok(())).await
    }

    /// As [`Journal::remove`], of a journal that cannot be read: `lane` has its next number and its newest epoch.
    ///
    /// # Errors
    /// [`EngineError::Fenced`] when the number was taken meanwhile, or the store cannot be used.
    pub(crate) async fn remove_unread(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        (removal, lane): (Removal, Lane),
        retry_pause_max: Duration,
    ) -> Result<Self, EngineError> {
        let mut journal = Self::about_to_claim(store, runtime, folder, retry_pause_max, lane);
        journal.put_claim(Body::Removal(removal)).await?;
        Ok(journal)
    }

    async fn claim_if(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        claim: Body,
        retry_pause_max: Duration,
        check: impl Fn(&Lane, &str) -> Result<(), EngineError>,
    ) -> Result<Self, EngineError> {
        let reads = Patient::new(store.clone(), runtime.clone(), retry_pause_max);
        let mut lane = reload(&reads, &folder).await?;
        let (begun, mut tries) = (runtime.elapsed(), 0);
        while tries < CLAIMS_MIN || runtime.elapsed().saturating_sub(begun) < CLAIM_TIME_MAX {
            tries += 1;
            check(&lane, &folder)?;
            let mut journal =
                Self::about_to_claim(store.clone(), runtime.clone(), folder.clone(), retry_pause_max, lane);
            match journal.put_claim(claim.clone()).await {
                Ok(()) => return Ok(journal),
                Err(EngineError::Fenced { seq }) => {
                    tracing::info!(seq, "another owner was faster; claiming again")
                }
                Err(error) => return Err(error),
            }
            // Two processes that start at once race for one number, and a living owner appends while it is read; the loser
            // sees the winner's record and claims after it, as the newer owner.
            lane = journal.lane;
            // The floor is not asked here: a slot that is won counts only after it was compared with the floor.
            if read_on(&reads, &folder, &mut lane).await.unwrap_or(false) {
                // The winner may still be syncing its record, and the next claim stands on it.
                harden(&reads, &folder).await?;
            } else {
                // Retired under the reader, or damaged: the whole journal tells which.
                lane = reload(&reads, &folder).await?;
            }
        }
        Err(EngineError::Fenced { seq: lane.next_seq })
    }

    fn about_to_claim(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        folder: String,
        retry_pause_max: Duration,
        lane: Lane,
    ) -> Self {
        let nonce = runtime.random().to_le_bytes().to_vec();
        let ownership = Arc::new(Ownership::new(store.clone(), folder.clone(), nonce, lane.next_seq));
        Self { store, runtime, folder, retry_pause_max, lane, ownership, begun: None }
    }

    async fn put_claim(&mut self, claim: Body) -> Result<(), EngineError> {
        let record = Record {
            seq: self.lane.next_seq,
            epoch: self.lane.epoch + 1,
            nonce: self.ownership.nonce().to_vec(),
            written_at_ms: self.runtime.wall_ms(),
            body: Some(claim),
        };
        self.put(record).await
    }

    /// What is true after the newest record that this process knows to be in the journal. A caller that was ended may have left a later one on its way: whoever makes a record
    /// from what stands here [catches up](Self::catch_up) first.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// The gate that inserts ask.
    pub fn ownership(&self) -> Arc<Ownership> {
        self.ownership.clone()
    }

    /// The nonce of this owner's claim.
    pub fn nonce(&self) -> u128 {
        self.lane.nonce.as_slice().try_into().map_or(0, u128::from_le_bytes)
    }

    /// Puts the record that was left on its way, if there is one: a caller was ended before the store had answered.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn catch_up(&mut self) -> Result<(), EngineError> {
        self.finish(false).await
    }

    /// Appends a record and gives back its number. Waits while the store is away.
    ///
    /// # Errors
    /// When another owner took over, the record breaks an invariant, or the store refuses for good.
    pub async fn append(&mut self, body: Body) -> Result<u64, EngineError> {
        // The number of a record that was left on its way may be taken: by that record, which is no other owner's.
        self.catch_up().await?;
        let seq = self.lane.next_seq;
        let record = Record {
            seq,
            epoch: self.lane.epoch,
            nonce: self.lane.nonce.clone(),
            written_at_ms: self.runtime.wall_ms(),
            body: Some(body),
        };
        self.put(record).await?;
        Ok(seq)
    }

    async fn put(&mut self, record: Record) -> Result<(), EngineError> {
        // Checked before it is written: a record that breaks an invariant must never become durable.
        self.lane.check(&record)?;
        let bytes = Bytes::from(record.to_bytes());
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(EngineError::Mismatch(format!(
                "a journal record of {} bytes, {RECORD_BYTES_MAX} are the most; cut smaller batches",
                bytes.len()
            )));
        }
        self.begun = Some((record, bytes));
        self.finish(true).await
    }

    /// Puts the record that was begun, if there is one, and applies it. May be dropped: the next call goes on with it. `is_first` says that no put of it was
    /// made before.
    async fn finish(&mut self, is_first: bool) -> Result<(), EngineError> {
        let Some((seq, bytes)) = self.begun.as_ref().map(|(record, bytes)| (record.seq, bytes.clone()))
        else {
            return Ok(());
        };
        match self.put_bytes(seq, bytes).await {
            Ok(at_once) => {
                if let Some((record, _)) = self.begun.take() {
                    self.lane.apply(&record)?;
                }
                self.ownership.advance(self.lane.next_seq, at_once && is_first);
                Ok(())
            }
            Err(error) => {
                if matches!(error, EngineError::Fenced { .. }) {
                    self.ownership.fence();
                }
                Err(error)
            }
        }
    }

    /// Puts the record until it is known to be in the journal; true if the first put was answered. What no other try can fix ends
    /// it, the effect known or not: after an fsync that failed nobody knows what is durable, and the next start finds out.
    async fn put_bytes(&self, seq: u64, bytes: Bytes) -> Result<bool, EngineError> {
        let key = key(names::journal(&self.folder, seq));
        let mut backoff = Backoff::new(self.retry_pause_max);
        let mut at_once = true;
        loop {
            let answer = match self.store.put_if_absent(&key, vec![bytes.clone()]).await {
                Ok(Put::Created) => PutAnswer::Created,
                Ok(Put::Exists) => PutAnswer::Exists,
                Err(error) if !error.kind.is_transient() => return Err(error.into()),
                Err(error) => {
                    if backoff.should_log() {
                        tracing::warn!(%error, seq, "a journal record could not be written; trying again");
                    }
                    at_once = false;
                    PutAnswer::Lost
                }
            };
            let mut next = append::after_put(answer);
            if next == Next::Read {
                let found = self.read_back(&key, &mut backoff).await?;
                next = append::after_read(answer, &bytes, found.as_deref());
                if next == Next::Floor {
                    // Our own earlier try: its durability was not answered for.
                    self.harden(&mut backoff).await?;
                }
            }
            if next == Next::Floor {
                next = if self.counts(seq, &mut backoff).await? { Next::Appended } else { Next::Fenced };
            }
            match next {
                Next::Appended => return Ok(at_once),
                Next::Fenced => return Err(EngineError::Fenced { seq }),
                Next::PutAgain | Next::Read | Next::Floor => backoff.pause(&*self.runtime).await,
            }
        }
    }

    async fn read_back(&self, key: &Key, backoff: &mut Backoff) -> Result<Option<Bytes>, EngineError> {
        loop {
            match self.store.get(key, RECORD_BYTES_MAX).await {
                Ok(found) => return Ok(found),
                Err(error) if error.kind.is_transient() => self.wait(backoff, &error).await,
                Err(error) => return Err(EngineError::of_reading(key.as_str(), error)),
            }
        }
    }

    async fn harden(&self, backoff: &mut Backoff) -> Result<(), EngineError> {
        let prefix =
            Prefix::new(&format!("{}/journal", self.folder)).expect("a lane's folder is a valid prefix");
        loop {
            match self.store.harden(&prefix).await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind.is_transient() => self.wait(backoff, &error).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn counts(&self, seq: u64, backoff: &mut Backoff) -> Result<bool, EngineError> {
        loop {
            match self.ownership.counts(seq).await {
                Ok(counts) => return Ok(counts),
                Err(error) if error.kind.is_transient() => self.wait(backoff, &error).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn wait(&self, backoff: &mut Backoff, error: &store::StoreError) {
        if backoff.should_log() {
            tracing::warn!(%error, "the store does not answer; trying again");
        }
        backoff.pause(&*self.runtime).await;
    }
}
