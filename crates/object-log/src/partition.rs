//! One partition of a log in a store: reading it, and swapping its root.
//!
//! Owns the I/O and its retries. Does not own what is decided (`decide`, `root`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::{Effect, Runtime};
use store::{Key, Prefix, Put, Store, StoreError, Swap, Tag};

use crate::clock::Clock;
use crate::decide::{self, Standing};
use crate::entry::Entry;
use crate::error::LogError;
use crate::names::{Names, PARTITIONS_MAX, QueueId, Written};
use crate::root::{Claim, Draft, ROOT_BYTES_MAX, Root};
use crate::segment::{Of, Reference, SEGMENT_BYTES_MAX, Segment, Span};

/// The first pause before a store is asked again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Swaps that may be refused in a row before a claim, an edit, an acknowledgement or a note gives up: each is another process that was quicker.
pub(crate) const SWAPS_MAX: u32 = 200;

/// Swaps that may be refused in a row although the value that they name still stands there, some two minutes. An honest store refuses only what another
/// writer has replaced, and then the next read finds another tag. Azure refuses whatever is under a lease, which lasts a minute if it ends at all.
const UNFOUNDED_MAX: u32 = 64;

/// Times that an object of our own is put before one that is there at every put, and at no get, is called missing.
const OWN_PUTS_MAX: u32 = 3;

/// A root as read, or as swapped in, with the tag that names it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it says.
    pub root: Root,
    /// What the next swap expects.
    pub tag: Tag,
}

/// A partition of a log in a store, for owners, readers and checks alike.
#[derive(Clone)]
pub struct LogPartition {
    store: Arc<dyn Store>,
    names: Names,
    runtime: Arc<dyn Runtime>,
    clock: Clock,
    index: u32,
    tries_max: u32,
}

/// A change of the root. Each is idempotent.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Entries or references leave the root for this segment.
    Seal(Reference),
    /// Nothing below is held: an operator's word.
    Truncate(u64),
    /// Nothing below is held, as retention has found with these consumers. One that has come since has acknowledged nothing, so then
    /// nothing is changed, and the next pass looks again.
    Retain(u64, Vec<String>),
    /// Everything that ends at or below is deleted, and it had so many bytes.
    Cleaned(u64, u64),
    /// Retention waits for this consumer, or no longer.
    Consumer(String, bool),
}

impl LogPartition {
    /// Partition `index` of the log in the folder `log` of the store.
    ///
    /// # Errors
    /// When the name is too long or the number too high.
    pub fn new(
        store: Arc<dyn Store>,
        log: &Prefix,
        index: u32,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, LogError> {
        if index >= PARTITIONS_MAX {
            return Err(LogError::Refused(format!(
                "a log has at most {PARTITIONS_MAX} partitions, so none is `{index}`"
            )));
        }
        let names = Names::new(log, index).map_err(|error| LogError::Refused(error.to_string()))?;
        let clock = Clock::new(runtime.clone());
        Ok(Self { store, names, runtime, clock, index, tries_max: u32::MAX })
    }

    /// The same, which gives up after so many tries of a request; for interactive commands.
    #[must_use]
    pub fn with_tries(self, tries_max: u32) -> Self {
        Self { tries_max, ..self }
    }

    /// The same, which gives up after so many tries of a request at the latest: for what may as well be done another time.
    #[must_use]
    pub(crate) fn with_tries_at_most(&self, tries_max: u32) -> Self {
        let tries_max = self.tries_max.min(tries_max);
        self.clone().with_tries(tries_max)
    }

    /// What everything is called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The partition's number in its log.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Time, randomness and threads.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// The log's time, for its owner. Clones of a partition have the same clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The store that holds the log.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Where it is, for messages.
    pub fn place(&self) -> String {
        format!("{}/{}", self.store.describe().trim_end_matches('/'), self.names.base().as_str())
    }

    /// The root; `None` if there is no such partition. Changes nothing.
    ///
    /// # Errors
    /// When the store fails for good, or the root is damaged.
    pub async fn look(&self) -> Result<Option<Seen>, LogError> {
        let key = self.names.root();
        let found = self.patiently(|| self.store.read_register(&key, ROOT_BYTES_MAX)).await?;
        let Some((bytes, tag)) = found else { return Ok(None) };
        let root =
            Root::from_bytes(&bytes).map_err(|error| LogError::Format { key: key.to_string(), error })?;
        Ok(Some(Seen { root, tag }))
    }

    /// The root of a partition that is there.
    ///
    /// # Errors
    /// As [`look`](Self::look), and when there is none.
    pub async fn root(&self) -> Result<Seen, LogError> {
        self.look().await?.ok_or_else(|| LogError::Absent { place: self.place() })
    }

    /// Makes this process the owner; a partition that is not there is created. An earlier owner commits nothing more.
    ///
    /// # Errors
    /// When the store fails for good, or others claim it all the time.
    pub async fn claim(&self, owner: &str) -> Result<Seen, LogError> {
        // Nobody else draws the same, so it also distinguishes our own lost swap from another's.
        let run = self.runtime.random() as u64;
        let queue = QueueId(self.runtime.random());
        let mut seen = self.look().await?;
        let (mut pause, mut refused, mut doubts) = (PAUSE_MIN, 0, 0);
        let mut refusals = Refusals::default();
        while refused < SWAPS_MAX {
            let (next, tag) = match &seen {
                None => (Root::created(queue, run, owner, self.clock.now_ms()), None),
                Some(seen) => match seen.root.claimed(run, owner) {
                    // The swap whose answer was lost.
                    None => {
                        self.clock.behind(seen.root.stamp_ms);
                        return Ok(seen.clone());
                    }
                    Some(next) => (next, Some(&seen.tag)),
                },
            };
            match self.try_swap(&next, tag).await? {
                Ok(Swap::Done(tag)) => {
                    // Time goes on from the newest stamp.
                    self.clock.behind(next.stamp_ms);
                    return Ok(Seen { root: next, tag });
                }
                Ok(Swap::Refused) if refusals.are_unfounded(tag) => return Err(self.refuses_all()),
                Ok(Swap::Refused) => {
                    refused += 1;
                    self.pause(&mut pause).await;
                }
                Err(error) => self.wait_in_doubt(&mut doubts, error).await?,
            }
            seen = self.look().await?;
        }
        Err(LogError::Refused(format!(
            "`{}` is claimed by other processes again and again; stop all but one",
            self.place()
        )))
    }

    /// Applies edits, and commits objects of the owner `claim`, beginning with what is taken to be the present root. Repeats until the root
    /// has them, or another owner has it.
    ///
    /// # Errors
    /// [`LogError::Fenced`] and [`LogError::Recreated`] when the partition is no longer ours; others when the store fails for good, or refuses every change
    /// although nobody else makes any.
    pub async fn commit(
        &self,
        mut seen: Seen,
        claim: Claim,
        edits: &[Edit],
        drafts: &[Draft],
    ) -> Result<Seen, LostOwner> {
        let queue = seen.root.queue_id();
        let (mut pause, mut refusals) = (PAUSE_MIN, Refusals::default());
        loop {
            if drafts.first().is_some_and(|draft| draft.entry.number > seen.root.committed) {
                let error = LogError::Refused(format!(
                    "the root of `{}` has lost objects that were committed: was the store rolled back?",
                    self.place()
                ));
                return Err(error.into());
            }
            let next = edited(&seen.root, edits, drafts, self.clock.behind(seen.root.stamp_ms));
            let Some(next) = next else { return Ok(seen) };
            match self.try_swap(&next, Some(&seen.tag)).await? {
                Ok(Swap::Done(tag)) => return Ok(Seen { root: next, tag }),
                // A request whose answer was lost may come through yet, so nobody knows what becomes of the objects.
                Ok(Swap::Refused) if refusals.are_unfounded(Some(&seen.tag)) => {
                    return Err(self.refuses_all().into());
                }
                Ok(Swap::Refused) | Err(_) => {}
            }
            self.pause(&mut pause).await;
            let found = self.look().await?;
            seen = match (decide::standing(queue, claim, found.as_ref().map(|seen| &seen.root)), found) {
                (Standing::Ours, Some(found)) => found,
                (Standing::Fenced { committed }, Some(found)) => {
                    let error = LogError::Fenced { place: self.place(), epoch: found.root.epoch };
                    return Err(LostOwner { error, committed });
                }
                (_, found) => {
                    let error = self.recreated(queue, found.map(|seen| seen.root.queue_id()));
                    return Err(LostOwner { error, committed: None });
                }
            };
        }
    }

    /// Reads whether `claim` owns the partition.
    ///
    /// # Errors
    /// [`LogError::Fenced`] and [`LogError::Recreated`] when it does not; others when the store fails for good.
    pub async fn check_owner(&self, queue: QueueId, claim: Claim) -> Result<(), LogError> {
        let found = self.look().await?;
        match (decide::standing(queue, claim, found.as_ref().map(|seen| &seen.root)), found) {
            (Standing::Ours, _) => Ok(()),
            (Standing::Fenced { .. }, Some(found)) => {
                Err(LogError::Fenced { place: self.place(), epoch: found.root.epoch })
            }
            (_, found) => Err(self.recreated(queue, found.map(|seen| seen.root.queue_id()))),
        }
    }

    /// Applies an edit that does not need ownership. Fences no owner.
    ///
    /// # Errors
    /// When there is no such partition, or the store fails for good.
    pub async fn edit(&self, edit: Edit) -> Result<Seen, LogError> {
        let (mut pause, mut refused, mut doubts) = (PAUSE_MIN, 0, 0);
        let mut refusals = Refusals::default();
        while refused < SWAPS_MAX {
            let seen = self.root().await?;
            let next = edited(&seen.root, std::slice::from_ref(&edit), &[], seen.root.stamp_ms);
            let Some(next) = next else { return Ok(seen) };
            match self.try_swap(&next, Some(&seen.tag)).await? {
                Ok(Swap::Done(tag)) => return Ok(Seen { root: next, tag }),
                Ok(Swap::Refused) if refusals.are_unfounded(Some(&seen.tag)) => {
                    return Err(self.refuses_all());
                }
                Ok(Swap::Refused) => {
                    refused += 1;
                    self.pause(&mut pause).await;
                }
                Err(error) => self.wait_in_doubt(&mut doubts, error).await?,
            }
        }
        Err(LogError::Refused(format!(
            "the root of `{}` was changed {SWAPS_MAX} times meanwhile; try again",
            self.place()
        )))
    }

    /// One swap; the store's error if its answer was lost. Unless it is done the root must be read.
    async fn try_swap(&self, next: &Root, tag: Option<&Tag>) -> Result<Result<Swap, StoreError>, LogError> {
        let (key, bytes) = (self.names.root(), Bytes::from(next.to_bytes()));
        let result = self.patiently(|| {
            let bytes = bytes.clone();
            let key = &key;
            async move {
                match self.store.compare_and_set(key, tag, bytes).await {
                    // A repeat would find its own first try: to be read, not repeated.
                    Err(error) if error.effect == dataflow::Effect::Unknown => Ok(Err(error)),
                    result => result.map(Ok),
                }
            }
        });
        result.await
    }

    /// Puts an object that no other process can have put: its name holds our run. One that is there is our own earlier try, if it has
    /// our bytes.
    ///
    /// # Errors
    /// When the store fails for good, or other bytes are there.
    pub async fn put_own(&self, key: &Key, pieces: Vec<Bytes>) -> Result<(), LogError> {
        let bytes_len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let put = || self.store.put_if_absent(key, pieces.clone());
        for _ in 0..OWN_PUTS_MAX {
            if self.patiently_even_in_doubt(put).await? == Put::Created {
                return Ok(());
            }
            // By contract it need not be durable yet.
            let folder = key.folder();
            self.patiently(|| self.store.harden(&folder)).await?;
            match self.patiently(|| self.store.get(key, bytes_len)).await? {
                Some(found) if is_of(&found, &pieces) => return Ok(()),
                Some(_) => {
                    return Err(LogError::Refused(format!(
                        "`{key}` holds other bytes than this process has put there: a part of them, which no service may keep when a put breaks off, or those of a process with \
                         the same random numbers. Nothing of it is in the log; start the process again"
                    )));
                }
                // The sweep of a later owner has deleted it meanwhile; that there is one is said by the swap that follows.
                None => {}
            }
        }
        Err(LogError::Missing { key: key.to_string() })
    }

    /// Writes a segment of the owner `claim` under its number.
    ///
    /// # Errors
    /// As [`put_own`](Self::put_own).
    pub async fn put_segment(
        &self,
        queue: QueueId,
        written: Written,
        segment: &Segment,
    ) -> Result<Reference, LogError> {
        let bytes = Bytes::from(segment.to_bytes());
        let reference = segment.reference(written, &bytes);
        self.put_own(&self.names.segment(queue, written), vec![bytes]).await?;
        Ok(reference)
    }

    /// A segment; `None` if it is not there.
    ///
    /// # Errors
    /// When the store fails for good, or the segment is damaged.
    pub async fn segment(&self, root: &Root, reference: &Reference) -> Result<Option<Segment>, LogError> {
        let key = self.names.segment(root.queue_id(), reference.written());
        let Some(bytes) = self.patiently(|| self.store.get(&key, SEGMENT_BYTES_MAX)).await? else {
            return Ok(None);
        };
        let segment = Segment::from_bytes(&root.queue, reference, &bytes);
        segment.map(Some).map_err(|error| LogError::Format { key: key.to_string(), error })
    }

    /// Entries side by side, of which the first holds `position`; empty at the end of the log. At most a segment or the tail.
    ///
    /// # Errors
    /// [`LogError::Missing`] if a segment is not there: read the root again, for retention may have been quicker.
    pub async fn entries_from(&self, root: &Root, position: u64) -> Result<Vec<Entry>, LogError> {
        let mut reference = match root.spans().find(|span| span.end > position) {
            None => return Ok(Vec::new()),
            Some(Span { of: Of::Entry(_), .. }) => {
                return Ok(root.tail.iter().filter(|entry| entry.end() > position).copied().collect());
            }
            Some(Span { of: Of::Segment(reference), .. }) => reference,
        };
        loop {
            let segment = self.segment(root, &reference).await?.ok_or_else(|| {
                let key = self.names.segment(root.queue_id(), reference.written());
                LogError::Missing { key: key.to_string() }
            })?;
            match segment.references.iter().find(|below| below.end() > position) {
                Some(below) => reference = *below,
                None => {
                    return Ok(segment.entries.into_iter().filter(|entry| entry.end() > position).collect());
                }
            }
        }
    }

    pub(crate) fn recreated(&self, was: QueueId, is: Option<QueueId>) -> LogError {
        let is = is.map_or("absent".to_owned(), |is| is.to_string());
        LogError::Recreated { place: self.place(), was: was.to_string(), is }
    }

    /// The store is of no use for this log as it is.
    fn refuses_all(&self) -> LogError {
        LogError::Refused(format!(
            "the store refuses every change of the root of `{}` under its condition, although nobody else has changed it meanwhile; nothing of the log is \
             lost. Look for a proxy before the store that alters ETags or answers in its place, and for a lease on the object `{}`; then start again",
            self.place(),
            self.names.root()
        ))
    }

    /// Waits behind a refused swap of another register than the root, longer with each refusal of one tag; read the register then.
    ///
    /// # Errors
    /// Once `tag` was refused more often than an honest store does, or than this partition tries, although it still stands there.
    pub(crate) async fn wait_refused(
        &self,
        refusals: &mut Refusals,
        tag: Option<&Tag>,
        key: &Key,
    ) -> Result<(), LogError> {
        if refusals.are_unfounded(tag) || refusals.count > self.tries_max {
            return Err(LogError::Refused(format!(
                "the store refuses every change of `{key}` in `{}` under its condition, although nobody else has changed it meanwhile. Look for a proxy \
                 before the store that alters ETags or answers in its place, and for a lease on that object",
                self.store.describe()
            )));
        }
        let pause = PAUSE_MIN.saturating_mul(1 << (refusals.count - 1).min(7));
        self.runtime.sleep(pause.min(PAUSE_MAX)).await;
        Ok(())
    }

    /// Waits behind a swap whose answer was lost, longer with each of them. That is a store in trouble and no other writer, so it counts for none.
    ///
    /// # Errors
    /// That of the swap, once there were as many as this partition tries.
    pub(crate) async fn wait_in_doubt(&self, doubts: &mut u32, error: StoreError) -> Result<(), LogError> {
        *doubts += 1;
        if *doubts >= self.tries_max {
            return Err(error.into());
        }
        if *doubts % 32 == 1 {
            tracing::warn!(%error, "the store does not answer; trying again");
        }
        let pause = PAUSE_MIN.saturating_mul(1 << (*doubts - 1).min(7));
        self.runtime.sleep(pause.min(PAUSE_MAX)).await;
        Ok(())
    }

    async fn pause(&self, pause: &mut Duration) {
        self.runtime.sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Asks until there is an answer, or an error that stays or is in doubt.
    pub(crate) async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, LogError> {
        self.ask(ask, false).await
    }

    /// The same for what may be repeated even if it may have happened.
    pub(crate) async fn patiently_even_in_doubt<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, LogError> {
        self.ask(ask, true).await
    }

    async fn ask<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn() -> F,
        even_in_doubt: bool,
    ) -> Result<T, LogError> {
        let mut pause = PAUSE_MIN;
        let mut tries = 0;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tries += 1;
                    let again = error.kind.is_transient()
                        && (even_in_doubt || error.effect == dataflow::Effect::None)
                        && tries < self.tries_max;
                    if !again {
                        return Err(error.into());
                    }
                    if tries == 1 || tries % 32 == 0 {
                        tracing::warn!(%error, "the store does not answer; trying again");
                    }
                    self.pause(&mut pause).await;
                }
            }
        }
    }
}

/// Refusals in a row of one tag. The register is read behind each refusal, so a tag that is named again still stood there: nobody has replaced it.
#[derive(Default)]
pub(crate) struct Refusals {
    tag: Option<Tag>,
    count: u32,
}

impl Refusals {
    /// Counts one more; whether these are more than an honest store gives.
    fn are_unfounded(&mut self, tag: Option<&Tag>) -> bool {
        if self.tag.as_ref() != tag {
            *self = Self { tag: tag.cloned(), count: 0 };
        }
        self.count += 1;
        self.count > UNFOUNDED_MAX
    }
}

/// Why an owner has lost its partition, and what became of the objects that it had under way.
#[derive(Debug)]
pub struct LostOwner {
    /// Why.
    pub error: LogError,
    /// Objects of this owner that are in the log, if that is known.
    pub committed: Option<u64>,
}

impl From<LogError> for LostOwner {
    fn from(error: LogError) -> Self {
        Self { error, committed: None }
    }
}

impl LostOwner {
    /// Whether object `number` is in the log.
    pub fn fate(&self, number: u64) -> Option<Effect> {
        match (self.committed, &self.error) {
            (Some(committed), _) if number < committed => None,
            (Some(_), _) => Some(Effect::None),
            (None, _) => Some(Effect::Unknown),
        }
    }
}

/// All edits one after the other; `None` if the root has them all.
fn edited(root: &Root, edits: &[Edit], drafts: &[Draft], now_ms: i64) -> Option<Root> {
    let mut next: Option<Root> = None;
    for edit in edits {
        let base = next.as_ref().unwrap_or(root);
        let edited = match edit {
            Edit::Seal(reference) => base.sealing(reference),
            Edit::Truncate(low) => base.truncated(*low),
            Edit::Retain(low, consumers) if *consumers == base.consumers => base.truncated(*low),
            Edit::Retain(..) => None,
            Edit::Cleaned(to, bytes) => base.cleaned(*to, *bytes),
            Edit::Consumer(name, is_member) => base.with_consumer(name, *is_member),
        };
        next = edited.or(next);
    }
    next.as_ref().unwrap_or(root).committing(drafts, now_ms).or(next)
}

/// Whether an object consists of these pieces.
fn is_of(object: &[u8], pieces: &[Bytes]) -> bool {
    let mut rest = object;
    let begins = |piece: &Bytes| rest.strip_prefix(&piece[..]).inspect(|behind| rest = behind).is_some();
    pieces.iter().all(begins) && rest.is_empty()
}
