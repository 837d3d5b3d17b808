//! The task of an owner: batches are cut, uploaded, swapped in and answered.
//!
//! Owns the order of all that, and what becomes of appends when the partition is lost. Does not own which appends are taken ([`super::admit`]), nor what is done
//! beside them ([`super::aside`]).

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Effect, Runtime};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::admit::counted;
use super::{Answer, Appended, Message, Pin, Settings};
use crate::collect::Collected;
use crate::decide::{Linger, Open};
use crate::error::{AppendError, AppendFault, LogError};
use crate::names::Written;
use crate::object::Append;
use crate::partition::{Edit, LogPartition, LostOwner, Seen};
use crate::root::{Claim, Draft, Newest, Root, TAIL_MAX};
use crate::segment::Reference;
use crate::{decide, object};

/// An append that is not answered.
pub(super) struct Waiting {
    pub(super) producer: Option<(u128, u64)>,
    pub(super) rows: u64,
    pub(super) answers: Vec<oneshot::Sender<Answer>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

/// An object on its way.
pub(super) struct OnItsWay {
    number: u64,
    cut_at: Duration,
    pub(super) waiting: Vec<Waiting>,
    /// Once it is uploaded.
    draft: Option<Draft>,
}

type Upload = (u64, Result<Draft, LogError>);

pub(super) struct Run {
    pub(super) partition: LogPartition,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) settings: Settings,
    pub(super) pinned: Pin,
    linger: Linger,
    pub(super) claim: Claim,
    /// `None` while a swap is on its way.
    pub(super) seen: Option<Seen>,
    published: watch::Sender<Root>,
    received: mpsc::UnboundedReceiver<Message>,
    /// Changes when somebody waits for what was appended.
    hurry: watch::Receiver<bool>,
    pub(super) is_closed: bool,
    pub(super) open: Vec<Append>,
    pub(super) open_waiting: Vec<Waiting>,
    /// Bytes of the open batch as they will be stored, at the most; and raw.
    pub(super) open_bytes: usize,
    pub(super) open_raw_bytes: usize,
    pub(super) open_since: Duration,
    /// How long objects took of late from their cut until they were uploaded; most take no longer.
    upload_time: Duration,
    next_number: u64,
    pub(super) next_segment: u64,
    uploads: FuturesUnordered<BoxFuture<'static, Upload>>,
    /// Refusals that rest on what this owner knows of a producer: sent once the root says that it is still the owner.
    pub(super) refusals: FuturesUnordered<BoxFuture<'static, Result<(), LogError>>>,
    pub(super) on_their_way: VecDeque<OnItsWay>,
    /// The newest ordinal of each producer that was accepted and is not committed.
    pub(super) last: BTreeMap<u128, u64>,
    swapped_at: Option<Duration>,
    pub(super) edits: Vec<Edit>,
    /// The low of the pass of retention that runs: it deletes nothing that ends above. 0 while none runs.
    pub(super) collects_below: u64,
    pub(super) collect_at: Duration,
    pub(super) sweep_at: Duration,
    pub(super) look_at: Duration,
}

impl Run {
    pub(super) fn new(
        partition: LogPartition,
        seen: Seen,
        settings: Settings,
        (received, published, hurry): (
            mpsc::UnboundedReceiver<Message>,
            watch::Sender<Root>,
            watch::Receiver<bool>,
        ),
        pinned: Pin,
    ) -> Self {
        let runtime = partition.runtime().clone();
        let now = runtime.elapsed();
        Self {
            runtime,
            linger: settings.linger(),
            claim: seen.root.claim(),
            upload_time: Duration::ZERO,
            next_number: seen.root.committed,
            next_segment: seen.root.sealed,
            partition,
            settings,
            pinned,
            seen: Some(seen),
            published,
            received,
            hurry,
            is_closed: false,
            open: Vec::new(),
            open_waiting: Vec::new(),
            open_bytes: 0,
            open_raw_bytes: 0,
            open_since: Duration::ZERO,
            uploads: FuturesUnordered::new(),
            refusals: FuturesUnordered::new(),
            on_their_way: VecDeque::new(),
            last: BTreeMap::new(),
            swapped_at: None,
            edits: Vec::new(),
            collects_below: 0,
            collect_at: now + settings.collect_every,
            sweep_at: now,
            look_at: now + settings.look_every,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), LogError> {
        match self.work().await {
            Ok(()) => Ok(()),
            Err(lost) => {
                self.answer_lost(&lost);
                Err(lost.error)
            }
        }
    }

    pub(super) async fn work(&mut self) -> Result<(), LostOwner> {
        let mut swap: Option<BoxFuture<'static, Result<Seen, LostOwner>>> = None;
        let mut seal: Option<BoxFuture<'static, Result<Reference, LogError>>> = None;
        let mut aside: Option<BoxFuture<'static, Result<Collected, LogError>>> = None;
        loop {
            let cut = self.cut_in();
            if cut == Some(Duration::ZERO) {
                self.cut();
                continue;
            }
            if seal.is_none() {
                seal = self.begin_seal();
            }
            if seal.is_none() && aside.is_none() {
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
            let housekeeping = self.collect_at.min(self.sweep_at).min(self.look_at);
            let housekeeping = housekeeping.saturating_sub(self.runtime.elapsed());
            let is_idle = seal.is_none() && aside.is_none();
            let wait = match is_idle && self.is_free_for_aside() && !self.is_closed {
                true => Some(wait.map_or(housekeeping, |wait| wait.min(housekeeping))),
                false => wait,
            };
            let timer = wait.map(|wait| self.runtime.sleep(wait.max(Duration::from_micros(100))));
            // As many bytes as an object may have are taken at most while uploads are full.
            let takes = !self.is_closed && !self.open().is_full(&self.linger);
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
                sealed = maybe(&mut seal) => {
                    seal = None;
                    self.sealed(sealed?);
                }
                done = maybe(&mut aside) => {
                    aside = None;
                    self.aside_done(done?);
                }
                message = self.received.recv(), if takes => match message {
                    Some(message) => self.take(message),
                    None => self.is_closed = true,
                },
                Ok(()) = self.hurry.changed() => self.linger.max = self.linger.min,
                () = sleep(timer) => {}
            }
        }
    }

    pub(super) fn root(&self) -> impl std::ops::Deref<Target = Root> + '_ {
        self.published.borrow()
    }

    fn cut_in(&self) -> Option<Duration> {
        if self.open.is_empty() {
            return None;
        }
        decide::cut(&self.open(), &self.linger)
    }

    fn open(&self) -> Open {
        Open {
            bytes: if self.is_closed { usize::MAX } else { self.open_bytes },
            raw_bytes: self.open_raw_bytes,
            age: self.runtime.elapsed().saturating_sub(self.open_since),
            uploads: self.uploads.len(),
            // A root that names more objects than were uploaded has taken those under way out: it is of no honest store.
            uncommitted: self.on_their_way.len().saturating_sub(self.uploads.len()),
            commit_in: self.commit_in(),
            upload_time: self.upload_time,
        }
    }

    /// Encodes and uploads the open batch.
    pub(super) fn cut(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        let appends = std::mem::take(&mut self.open);
        let waiting = std::mem::take(&mut self.open_waiting);
        (self.open_bytes, self.open_raw_bytes) = (0, 0);
        let cut_at = self.runtime.elapsed();
        self.on_their_way.push_back(OnItsWay { number, cut_at, waiting, draft: None });
        let (partition, runtime) = (self.partition.clone(), self.runtime.clone());
        let queue = self.root().queue_id();
        let written = Written { epoch: self.claim.epoch, run: self.claim.run, number };
        self.uploads.push(Box::pin(async move {
            let mut producers: BTreeMap<u128, Newest> = BTreeMap::new();
            for append in &appends {
                if let Some((id, ordinal)) = counted(append.producer) {
                    producers.insert(id, Newest { ordinal, digest: append.digest });
                }
            }
            let encoded = runtime.run(move || object::encode(queue, written, &appends)).await;
            let Some((pieces, entry)) = encoded else {
                return (number, Err(LogError::Refused("encoding an object failed; report this".to_owned())));
            };
            let key = partition.names().object(queue, written);
            let put = partition.put_own(&key, pieces).await;
            (number, put.map(|()| Draft { entry, producers: producers.into_iter().collect() }))
        }));
    }

    fn uploaded(&mut self, number: u64, draft: Draft) {
        // One that the root has taken out already was committed by a process that draws the same random numbers: no honest one.
        if let Some(object) = self.on_their_way.iter_mut().find(|object| object.number == number) {
            object.draft = Some(draft);
            let took = self.runtime.elapsed().saturating_sub(object.cut_at).min(self.linger.max);
            // A high estimate, because an object that is late misses its commit.
            self.upload_time = took.max((self.upload_time * 7 + took) / 8);
        }
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
        // A full tail keeps appends waiting, so its segment does not wait.
        let is_urgent = seals && !has_room;
        if is_urgent || self.is_closed {
            return Some(Duration::ZERO);
        }
        // Edits wait for an object that will soon be uploaded: behind a commit of the edits alone it would wait for the next one.
        let late = self.on_their_way.front().filter(|object| object.draft.is_none() && has_room);
        let now = self.runtime.elapsed();
        let until_late = late.map(|object| (object.cut_at + self.linger.max).saturating_sub(now));
        Some(self.commit_in().max(until_late.unwrap_or_default()))
    }

    fn commit_in(&self) -> Duration {
        let since = self.swapped_at.map(|at| self.runtime.elapsed().saturating_sub(at));
        decide::commit_in(since, &self.linger)
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
        self.look_at = self.runtime.elapsed() + self.settings.look_every;
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
