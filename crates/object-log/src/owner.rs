//! The owner of a partition: accepts appends, makes objects of them, uploads several at a time and commits many at once.
//!
//! Owns the task and its bounds. Does not own the rules (`decide`), nor retention (`collect`), which it only starts.
//!
//! ```text
//! append ─▶ open batch ─cut─▶ encode ─▶ upload ─▶ uploaded, in order ─swap─▶ answered
//!                              several at a time        one swap at a time
//! ```
//! An append is answered once a root that holds it is durable (L5). Objects enter the log in the order in which they were cut, whichever was
//! uploaded first. The root is never read before a swap: the tag of the last one serves, and a swap that is refused or not
//! answered is followed by a read, which decides.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataflow::{Effect, Runtime, Task};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::collect::{self, Collected};
use crate::decide::{self, Admit, Linger, Open, Retention, Standing};
use crate::error::{AppendError, AppendFault, LogError};
use crate::labels::LABELS;
use crate::names::Written;
use crate::object::{self, APPEND_BYTES_MAX, APPEND_ROWS_MAX, Append, OBJECT_RAW_MAX};
use crate::partition::{Edit, LogPartition, LostOwner, Seen};
use crate::root::{Claim, Draft, Root, TAIL_MAX};
use crate::segment::Reference;

/// Bytes of memory that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// What an owner may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// An object is cut at so many raw bytes; at most half of [`OBJECT_RAW_MAX`].
    pub object_bytes: usize,
    /// The shortest wait of an append for others.
    pub linger_min: Duration,
    /// The longest, and the time between two commits under load.
    pub linger_max: Duration,
    /// Objects that are encoded or uploaded at a time.
    pub uploads_max: usize,
    /// Bytes of appends that were not answered yet; beyond it `append` waits.
    pub memory_bytes: usize,
    /// What may be dropped.
    pub retention: Retention,
    /// How often retention is applied.
    pub collect_every: Duration,
    /// How often orphans are swept, besides once at the start.
    pub sweep_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            object_bytes: 16 << 20,
            linger_min: Duration::from_millis(5),
            linger_max: Duration::from_millis(500),
            uploads_max: 8,
            memory_bytes: 256 << 20,
            retention: Retention { acknowledged: true, ..Retention::default() },
            collect_every: Duration::from_secs(10),
            sweep_every: Duration::from_secs(6 * 3_600),
        }
    }
}

impl Settings {
    fn linger(&self) -> Linger {
        Linger {
            object_bytes: self.object_bytes.clamp(1, OBJECT_RAW_MAX / 2),
            min: self.linger_min,
            max: self.linger_max,
            uploads_max: self.uploads_max.max(1),
        }
    }
}

/// A positive answer: the records are in the log, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// At this position and those after it.
    At(u64),
    /// They were in the log before this append came, or their position is no longer known.
    Known,
}

type Answer = Result<Appended, AppendError>;

struct Message {
    append: Append,
    permit: OwnedSemaphorePermit,
    answer: oneshot::Sender<Answer>,
}

/// Appends to one owner. Clones append to the same one.
#[derive(Clone)]
pub struct Appender {
    messages: mpsc::UnboundedSender<Message>,
    memory: Arc<Semaphore>,
    memory_bytes: usize,
}

impl Appender {
    /// Appends records, and returns once they are durable and in the log. Waits while the owner has as many bytes as it may. A future that is
    /// dropped leaves the effect unknown.
    ///
    /// # Errors
    /// As [`AppendError`] says; after [`Effect::Unknown`] the same append may be sent again under its ordinal, to this owner or a later one.
    pub async fn append(&self, append: Append) -> Answer {
        let bytes = object::append_bytes(&append.records);
        let rows = append.records.len();
        let refuse =
            |message: String| AppendError { effect: Effect::None, fault: AppendFault::Refused, message };
        if rows == 0 || rows > APPEND_ROWS_MAX || bytes > APPEND_BYTES_MAX {
            return Err(refuse(format!(
                "an append has 1 to {APPEND_ROWS_MAX} records and at most {APPEND_BYTES_MAX} bytes, not {rows} records with {bytes} bytes"
            )));
        }
        if append.packed.is_some() && rows != 1 {
            return Err(refuse("only one record can come compressed".to_owned()));
        }
        if !append.records.cut.is_empty() {
            return Err(refuse("a record that is not whole cannot be appended".to_owned()));
        }
        let held = (bytes + 24 * rows).min(self.memory_bytes);
        let permits = u32::try_from(held / PERMIT_BYTES + 1).unwrap_or(u32::MAX);
        let Ok(permit) = self.memory.clone().acquire_many_owned(permits).await else {
            return Err(stopped(Effect::None));
        };
        let (answer, answered) = oneshot::channel();
        if self.messages.send(Message { append, permit, answer }).is_err() {
            return Err(stopped(Effect::None));
        }
        answered.await.unwrap_or_else(|_| Err(stopped(Effect::Unknown)))
    }
}

fn stopped(effect: Effect) -> AppendError {
    let message = "the owner of the log has stopped; send the append to the present one".to_owned();
    AppendError { effect, fault: AppendFault::Stopped, message }
}

/// A partition that this process owns. Dropping it ends its task; what was not answered may be in the log or not.
pub struct Owner {
    appender: Appender,
    root: watch::Receiver<Root>,
    pinned: Pin,
    done: oneshot::Receiver<Result<(), LogError>>,
    _task: Task,
}

/// A position from which on nothing is deleted, whatever retention says: what stands there is still to be read by the owner itself. Clones are the same pin.
#[derive(Clone, Debug)]
pub struct Pin(Arc<AtomicU64>);

impl Pin {
    fn nowhere() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Keeps what is at `position` or behind it; `None` keeps nothing.
    pub fn set(&self, position: Option<u64>) {
        self.0.store(position.unwrap_or(u64::MAX), Ordering::Release);
    }

    fn position(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Owner {
    /// Claims the partition and starts the task that commits.
    ///
    /// # Errors
    /// As [`LogPartition::claim`].
    pub async fn start(partition: LogPartition, owner: &str, settings: Settings) -> Result<Self, LogError> {
        let seen = partition.claim(owner).await?;
        let (messages, received) = mpsc::unbounded_channel();
        let memory_bytes = settings.memory_bytes.max(APPEND_BYTES_MAX + 24 * 1_024);
        let memory = Arc::new(Semaphore::new(memory_bytes / PERMIT_BYTES + 1));
        let (published, root) = watch::channel(seen.root.clone());
        let (end, done) = oneshot::channel();
        let runtime = partition.runtime().clone();
        let pinned = Pin::nowhere();
        let run = Run::new(partition, seen, settings, (received, published), pinned.clone());
        let task = runtime.spawn(
            "log-owner",
            Box::pin(async move {
                // Nothing receives this if the owner was dropped.
                let _ = end.send(run.run().await);
            }),
        );
        Ok(Self { appender: Appender { messages, memory, memory_bytes }, root, pinned, done, _task: task })
    }

    /// Where to append.
    pub fn appender(&self) -> Appender {
        self.appender.clone()
    }

    /// The newest root that this owner has swapped in.
    pub fn root(&self) -> Root {
        self.root.borrow().clone()
    }

    /// The newest root, as it changes.
    pub fn roots(&self) -> watch::Receiver<Root> {
        self.root.clone()
    }

    /// What keeps records from being deleted; at first nothing. What is pinned right after the start was not deleted before.
    pub fn pin(&self) -> Pin {
        self.pinned.clone()
    }

    /// Commits what was appended, and ends once all appenders are dropped.
    ///
    /// # Errors
    /// When the partition was lost to another owner, or the store failed for good.
    pub async fn close(self) -> Result<(), LogError> {
        let Self { appender, done, _task, .. } = self;
        drop(appender);
        done.await.unwrap_or(Ok(()))
    }

    /// Ends when the partition is lost, with the reason.
    pub async fn lost(&mut self) -> Result<(), LogError> {
        (&mut self.done).await.unwrap_or(Ok(()))
    }
}

/// An append that is not answered.
struct Waiting {
    producer: Option<(u128, u64)>,
    rows: u64,
    answers: Vec<oneshot::Sender<Answer>>,
    _permit: OwnedSemaphorePermit,
}

/// An object on its way.
struct OnItsWay {
    number: u64,
    waiting: Vec<Waiting>,
    /// Once it is uploaded.
    draft: Option<Draft>,
}

enum Aside {
    Sealed(Reference),
    Collected(Collected),
}

type Upload = (u64, Result<Draft, LogError>);

struct Run {
    partition: LogPartition,
    runtime: Arc<dyn Runtime>,
    settings: Settings,
    pinned: Pin,
    linger: Linger,
    claim: Claim,
    /// `None` while a swap is on its way.
    seen: Option<Seen>,
    published: watch::Sender<Root>,
    received: mpsc::UnboundedReceiver<Message>,
    is_closed: bool,
    open: Vec<Append>,
    open_waiting: Vec<Waiting>,
    open_bytes: usize,
    open_since: Duration,
    next_number: u64,
    next_segment: u64,
    uploads: FuturesUnordered<BoxFuture<'static, Upload>>,
    /// Refusals that rest on what this owner knows of a producer: sent once the root says that it is still the owner.
    refusals: FuturesUnordered<BoxFuture<'static, Result<(), LogError>>>,
    on_their_way: VecDeque<OnItsWay>,
    /// The newest ordinal of each producer that was accepted and is not committed.
    last: BTreeMap<u128, u64>,
    swapped_at: Option<Duration>,
    edits: Vec<Edit>,
    collect_at: Duration,
    sweep_at: Duration,
}

impl Run {
    fn new(
        partition: LogPartition,
        seen: Seen,
        settings: Settings,
        (received, published): (mpsc::UnboundedReceiver<Message>, watch::Sender<Root>),
        pinned: Pin,
    ) -> Self {
        let runtime = partition.runtime().clone();
        let now = runtime.elapsed();
        Self {
            runtime,
            linger: settings.linger(),
            claim: seen.root.claim(),
            next_number: seen.root.committed,
            next_segment: seen.root.sealed,
            partition,
            settings,
            pinned,
            seen: Some(seen),
            published,
            received,
            is_closed: false,
            open: Vec::new(),
            open_waiting: Vec::new(),
            open_bytes: 0,
            open_since: Duration::ZERO,
            uploads: FuturesUnordered::new(),
            refusals: FuturesUnordered::new(),
            on_their_way: VecDeque::new(),
            last: BTreeMap::new(),
            swapped_at: None,
            edits: Vec::new(),
            collect_at: now + settings.collect_every,
            sweep_at: now,
        }
    }

    async fn run(mut self) -> Result<(), LogError> {
        match self.work().await {
            Ok(()) => Ok(()),
            Err(lost) => {
                self.answer_lost(&lost);
                Err(lost.error)
            }
        }
    }

    async fn work(&mut self) -> Result<(), LostOwner> {
        let mut swap: Option<BoxFuture<'static, Result<Seen, LostOwner>>> = None;
        let mut aside: Option<BoxFuture<'static, Result<Aside, LogError>>> = None;
        loop {
            let cut = self.cut_in();
            if cut == Some(Duration::ZERO) {
                self.cut();
                continue;
            }
            if aside.is_none() {
                aside = self.begin_aside();
            }
            let swap_in = if swap.is_none() { self.swap_in() } else { None };
            if swap_in == Some(Duration::ZERO) {
                swap = Some(self.begin_swap());
                continue;
            }
            if self.is_closed && self.open.is_empty() && self.on_their_way.is_empty() && swap.is_none() {
                return Ok(());
            }
            let wait = [cut, swap_in].into_iter().flatten().min();
            let housekeeping = self.collect_at.min(self.sweep_at).saturating_sub(self.runtime.elapsed());
            let wait = match aside.is_none() && self.is_free_for_aside() && !self.is_closed {
                true => Some(wait.map_or(housekeeping, |wait| wait.min(housekeeping))),
                false => wait,
            };
            let timer = wait.map(|wait| self.runtime.sleep(wait.max(Duration::from_micros(100))));
            // As many bytes as an object may have are taken at most while uploads are full.
            let takes = !self.is_closed && self.open_bytes < self.linger.object_bytes;
            tokio::select! {
                biased;
                swapped = maybe(&mut swap) => {
                    swap = None;
                    self.swapped(swapped?);
                }
                Some((number, draft)) = self.uploads.next(), if !self.uploads.is_empty() => {
                    self.uploaded(number, draft?);
                }
                Some(refused) = self.refusals.next(), if !self.refusals.is_empty() => refused?,
                done = maybe(&mut aside) => {
                    aside = None;
                    self.aside_done(done?);
                }
                message = self.received.recv(), if takes => match message {
                    Some(message) => self.take(message),
                    None => self.is_closed = true,
                },
                () = sleep(timer) => {}
            }
        }
    }

    fn root(&self) -> impl std::ops::Deref<Target = Root> + '_ {
        self.published.borrow()
    }

    /// Takes an append into the open batch, or answers it at once.
    fn take(&mut self, message: Message) {
        let Message { append, permit, answer } = message;
        let producer = append.producer;
        if let Some((id, ordinal)) = counted(producer) {
            let admit = decide::admit(self.root().watermark(id), self.last.get(&id).copied(), ordinal);
            let refuse = |fault, message| Err(AppendError { effect: Effect::None, fault, message });
            let result = match admit {
                Admit::Accept => {
                    let is_known = self.root().watermark(id).is_some() || self.last.contains_key(&id);
                    if !is_known && !self.root().has_room_for_producer(self.runtime.wall_ms()) {
                        let message = "as many producers as a partition remembers are at work; use fewer, or another partition";
                        return drop(answer.send(refuse(AppendFault::TooManyProducers, message.to_owned())));
                    }
                    self.last.insert(id, ordinal);
                    None
                }
                Admit::Known => Some(Ok(Appended::Known)),
                Admit::OnItsWay => {
                    self.join(id, ordinal, answer);
                    return;
                }
                Admit::Gap { expected } => {
                    let message =
                        format!("the producer's append {ordinal} leaves a gap: {expected} is the next one");
                    return self.refuse_if_owner(answer, refuse(AppendFault::Gap, message));
                }
                Admit::Unknown => {
                    let message = format!(
                        "the producer of append {ordinal} is not known any more: whether it is in the log cannot be told; begin with a \
                         new producer id"
                    );
                    return self.refuse_if_owner(answer, refuse(AppendFault::UnknownProducer, message));
                }
            };
            if let Some(result) = result {
                // The sender may have given up.
                return drop(answer.send(result));
            }
        }
        if self.open.is_empty() {
            self.open_since = self.runtime.elapsed();
        }
        self.open_bytes += object::append_bytes(&append.records) + 12 * append.records.len();
        let rows = append.records.len() as u64;
        self.open.push(append);
        self.open_waiting.push(Waiting {
            producer: counted(producer),
            rows,
            answers: vec![answer],
            _permit: permit,
        });
    }

    /// A later owner may know more of the producer, and a producer that is answered `unknown` starts over: so such an answer is given by
    /// the present owner alone.
    fn refuse_if_owner(&mut self, answer: oneshot::Sender<Answer>, refusal: Answer) {
        let (partition, claim, queue) = (self.partition.clone(), self.claim, self.root().queue_id());
        self.refusals.push(Box::pin(async move {
            let found = partition.look().await?;
            match (decide::standing(queue, claim, found.as_ref().map(|seen| &seen.root)), found) {
                (Standing::Ours, _) => {
                    // The sender may have given up.
                    let _ = answer.send(refusal);
                    Ok(())
                }
                (Standing::Fenced { .. }, Some(found)) => {
                    Err(LogError::Fenced { place: partition.place(), epoch: found.root.epoch })
                }
                (_, found) => Err(partition.recreated(queue, found.map(|seen| seen.root.queue_id()))),
            }
        }));
    }

    /// Answers a repeat together with the append that it repeats.
    fn join(&mut self, id: u128, ordinal: u64, answer: oneshot::Sender<Answer>) {
        let on_their_way = self.on_their_way.iter_mut().flat_map(|object| &mut object.waiting);
        let mut waiting = on_their_way.chain(&mut self.open_waiting);
        match waiting.find(|waiting| waiting.producer == Some((id, ordinal))) {
            Some(waiting) => waiting.answers.push(answer),
            // It is committed in the swap that is being answered.
            None => drop(answer.send(Err(stopped(Effect::Unknown)))),
        }
    }

    fn cut_in(&self) -> Option<Duration> {
        if self.open.is_empty() {
            return None;
        }
        let open = Open {
            bytes: if self.is_closed { usize::MAX } else { self.open_bytes },
            age: self.runtime.elapsed().saturating_sub(self.open_since),
            uploads: self.uploads.len(),
            uncommitted: self.on_their_way.len() - self.uploads.len(),
        };
        decide::cut(&open, &self.linger)
    }

    /// Encodes and uploads the open batch.
    fn cut(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        let appends = std::mem::take(&mut self.open);
        let waiting = std::mem::take(&mut self.open_waiting);
        self.open_bytes = 0;
        self.on_their_way.push_back(OnItsWay { number, waiting, draft: None });
        let (partition, runtime) = (self.partition.clone(), self.runtime.clone());
        let queue = self.root().queue_id();
        let written = Written { epoch: self.claim.epoch, run: self.claim.run, number };
        self.uploads.push(Box::pin(async move {
            let mut producers: BTreeMap<u128, u64> = BTreeMap::new();
            for (id, ordinal) in appends.iter().filter_map(|append| counted(append.producer)) {
                producers.insert(id, ordinal);
            }
            let encoded = runtime.run(move || object::encode(queue, written, &appends)).await;
            let Some((bytes, entry)) = encoded else {
                return (number, Err(LogError::Refused("encoding an object failed; report this".to_owned())));
            };
            let key = partition.names().object(queue, written);
            let put = partition.put_own(&key, bytes).await;
            (number, put.map(|()| Draft { entry, producers: producers.into_iter().collect() }))
        }));
    }

    fn uploaded(&mut self, number: u64, draft: Draft) {
        let object = self.on_their_way.iter_mut().find(|object| object.number == number);
        object.expect("what is uploaded was cut").draft = Some(draft);
    }

    /// Objects that can be committed: those that are uploaded, up to the first that is not.
    fn ready(&self) -> Vec<Draft> {
        self.on_their_way.iter().map_while(|object| object.draft.clone()).collect()
    }

    fn swap_in(&self) -> Option<Duration> {
        let is_ready = self.on_their_way.front().is_some_and(|object| object.draft.is_some());
        let has_room = self.root().tail.len() < TAIL_MAX;
        let seals = self.edits.iter().any(|edit| matches!(edit, Edit::Seal(_)));
        if self.edits.is_empty() && !(is_ready && has_room) {
            return None;
        }
        let since = self.swapped_at.map(|at| self.runtime.elapsed().saturating_sub(at));
        // A full tail keeps appends waiting, so its segment does not wait.
        let is_urgent = seals && !has_room;
        Some(if is_urgent || self.is_closed {
            Duration::ZERO
        } else {
            decide::commit_in(since, &self.linger)
        })
    }

    fn begin_swap(&mut self) -> BoxFuture<'static, Result<Seen, LostOwner>> {
        self.swapped_at = Some(self.runtime.elapsed());
        let seen = self.seen.take().expect("one swap at a time");
        let (partition, claim) = (self.partition.clone(), self.claim);
        let (edits, drafts) = (std::mem::take(&mut self.edits), self.ready());
        Box::pin(async move { partition.commit(seen, claim, &edits, &drafts).await })
    }

    /// Answers what the new root has.
    fn swapped(&mut self, seen: Seen) {
        // Before the answers, so that whoever has one sees the root that it rests on.
        self.published.send_replace(seen.root.clone());
        let root = &seen.root;
        while self.on_their_way.front().is_some_and(|object| object.number < root.committed) {
            let object = self.on_their_way.pop_front().expect("just looked at");
            let entry = root.tail.iter().rev().find(|entry| {
                (entry.epoch, entry.run, entry.number) == (self.claim.epoch, self.claim.run, object.number)
            });
            let mut position = entry.map(|entry| entry.first);
            for waiting in object.waiting {
                for answer in waiting.answers {
                    // The sender may have given up.
                    let _ = answer.send(Ok(position.map_or(Appended::Known, Appended::At)));
                }
                position = position.map(|position| position + waiting.rows);
                if let Some((id, ordinal)) = waiting.producer
                    && self.last.get(&id) == Some(&ordinal)
                {
                    self.last.remove(&id);
                }
            }
        }
        self.seen = Some(seen);
    }

    /// What the last thing aside has found must be in the root before the next one looks at it.
    fn is_free_for_aside(&self) -> bool {
        self.edits.is_empty() && self.seen.is_some()
    }

    /// What is done beside the appends, one thing at a time: a segment, retention, a sweep.
    fn begin_aside(&mut self) -> Option<BoxFuture<'static, Result<Aside, LogError>>> {
        if !self.is_free_for_aside() {
            return None;
        }
        let root = self.root().clone();
        let partition = self.partition.clone();
        if let Some(segment) = decide::seal(&root) {
            let written = Written { epoch: self.claim.epoch, run: self.claim.run, number: self.next_segment };
            self.next_segment += 1;
            return Some(Box::pin(async move {
                let reference = partition.put_segment(root.queue_id(), written, &segment).await?;
                Ok(Aside::Sealed(reference))
            }));
        }
        if root.tail.len() >= TAIL_MAX {
            let message = format!(
                "`{}` has as many objects as its manifest can name; let retention drop more",
                partition.place()
            );
            return Some(Box::pin(async move { Err(LogError::Refused(message)) }));
        }
        let now = self.runtime.elapsed();
        if self.is_closed {
            return None;
        }
        if now >= self.sweep_at {
            self.sweep_at = now + self.settings.sweep_every;
            let claim = self.claim;
            return Some(Box::pin(async move { unless_lost(collect::sweep(&partition, claim).await) }));
        }
        if now >= self.collect_at {
            self.collect_at = now + self.settings.collect_every;
            let (retention, pinned) = (self.settings.retention, self.pinned.position());
            return Some(Box::pin(async move {
                unless_lost(collect::collect(&partition, &root, &retention, pinned).await)
            }));
        }
        None
    }

    fn aside_done(&mut self, aside: Aside) {
        match aside {
            Aside::Sealed(reference) => self.edits.push(Edit::Seal(reference)),
            Aside::Collected(Collected { low, consumers, cleaned, is_more, .. }) => {
                self.edits.extend(low.map(|low| Edit::Retain(low, consumers)));
                self.edits.extend(cleaned.map(|(to, bytes)| Edit::Cleaned(to, bytes)));
                if is_more || low.is_some() {
                    self.collect_at = self.runtime.elapsed();
                }
            }
        }
    }

    /// Answers everything that waits, each with what became of it.
    fn answer_lost(&mut self, lost: &LostOwner) {
        let fault = match &lost.error {
            LogError::Fenced { .. } | LogError::Recreated { .. } => AppendFault::Fenced,
            _ => AppendFault::Stopped,
        };
        let error = |effect| AppendError { effect, fault, message: lost.error.to_string() };
        for object in self.on_their_way.drain(..) {
            // What was not in any swap is in no root.
            let fate = match object.draft {
                Some(_) => lost.fate(object.number),
                None => Some(Effect::None),
            };
            for answer in object.waiting.into_iter().flat_map(|waiting| waiting.answers) {
                let _ = answer.send(fate.map_or(Ok(Appended::Known), |effect| Err(error(effect))));
            }
        }
        for answer in self.open_waiting.drain(..).flat_map(|waiting| waiting.answers) {
            let _ = answer.send(Err(error(Effect::None)));
        }
    }
}

/// A producer whose appends are counted; what a label says is not.
fn counted(producer: Option<(u128, u64)>) -> Option<(u128, u64)> {
    producer.filter(|(_, ordinal)| *ordinal < LABELS)
}

/// What retention cannot do now it may do later, and appends continue meanwhile. Only an owner that was fenced ends.
fn unless_lost(collected: Result<Collected, LogError>) -> Result<Aside, LogError> {
    match collected {
        Err(error @ (LogError::Fenced { .. } | LogError::Recreated { .. })) => Err(error),
        Err(error) => {
            tracing::error!(%error, "nothing was deleted from the log this time");
            Ok(Aside::Collected(Collected::default()))
        }
        Ok(collected) => Ok(Aside::Collected(collected)),
    }
}

async fn maybe<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn sleep(timer: Option<BoxFuture<'static, ()>>) {
    match timer {
        Some(timer) => timer.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
