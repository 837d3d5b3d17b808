//! A running read of a log's partitions: a task for each, which fetches ahead, and one that finds new ones.
//!
//! Owns those tasks and the turns among partitions. Does not own what a log holds and how it is fetched ahead (`object_log::reader`), how long to wait at its
//! end (`log::pace`), nor acknowledgements (`log`).

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Event, Partition, PartitionStart, ReadFrom, Reader, Runtime, SourceError, SourceFault, Task, position,
};
use object_log::reader::Read;
use object_log::{LogPartition, LogReader};
use store::{Prefix, Store};
use tokio::sync::{mpsc, watch};

use super::pace::Pace;
use super::{Identities, LogOptions, TRIES_MAX, fault, fault_at, queue_of};

/// Blocks of a partition that wait for `next`, besides what the log's reader holds.
const BLOCKS_AHEAD: usize = 2;

/// How often new partitions are looked for.
const FIND_EVERY: Duration = Duration::from_secs(2);

/// A log that is away is asked again so soon, behind the tries of each request.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether a partition has said that the log is away, and was not heard yet. Then no other one says it: whoever hears it pauses, and what is read later would
/// stand behind all that was said meanwhile.
type Unheard = Arc<AtomicBool>;

type Events = mpsc::Receiver<Result<Event, SourceError>>;

struct Slot {
    partition: Partition,
    events: Events,
    paused: watch::Sender<bool>,
    task: Option<Task>,
}

pub(super) struct LogSourceReader {
    options: LogOptions,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    identities: Identities,
    slots: Vec<Slot>,
    /// Partitions that are read, or were until an error ended them.
    read: BTreeSet<Partition>,
    unheard: Unheard,
    found: Events,
    _finder: Task,
}

impl LogSourceReader {
    pub(super) async fn open(
        options: LogOptions,
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        identities: Identities,
        from: Vec<ReadFrom>,
        listed: u32,
    ) -> Result<Self, SourceError> {
        // Those that the caller was told of are known, read or not; one that was created since is new. Where nobody has asked, all that exist are known.
        let mut next = listed;
        if listed == 0 {
            while log_partition(&store, &runtime, next)?.look().await.map_err(fault)?.is_some() {
                next += 1;
            }
        }
        let (finding, found) = mpsc::channel(1);
        let finder = find(options.clone(), store.clone(), runtime.clone(), next, finding);
        let finder = runtime.spawn("log-finder", Box::pin(finder));
        let mut reader = Self {
            options,
            store,
            runtime,
            identities,
            slots: Vec::new(),
            read: BTreeSet::new(),
            unheard: Unheard::default(),
            found,
            _finder: finder,
        };
        let share = reader.options.ahead_bytes_max / (from.len().max(1) as u64);
        for from in from {
            reader.begin(from, share).await?;
        }
        Ok(reader)
    }

    async fn begin(&mut self, from: ReadFrom, ahead_bytes_max: u64) -> Result<(), SourceError> {
        let partition = from.partition.clone();
        let refuse = |message: String| SourceError::new(SourceFault::Refused, message).at(&partition);
        if *partition.stream != *self.options.name {
            return Err(refuse(format!("the log `{}` has no partition `{partition}`", self.options.name)));
        }
        let log = log_partition(&self.store, &self.runtime, partition.index);
        let log = log.map_err(|error| error.at(&partition))?;
        let Some(queue) = queue_of(&from.identity) else {
            let seen = log.root().await.map_err(|error| fault_at(error, &partition))?;
            let (was, is) = (&from.identity, seen.root.queue_id());
            return Err(refuse(format!("partition `{partition}` was recorded as `{was}`, and is `{is}`")));
        };
        let opened = LogReader::open(log, partition.clone(), queue, from.plain()?).await;
        let reader = opened.map_err(|error| fault_at(error, &partition))?.with_ahead_bytes(ahead_bytes_max);
        self.identities.lock().unwrap_or_else(PoisonError::into_inner).insert(partition.index, queue);
        let (sender, events) = mpsc::channel(BLOCKS_AHEAD);
        let (paused, is_paused) = watch::channel(false);
        let (runtime, unheard) = (self.runtime.clone(), self.unheard.clone());
        let task = follow(reader, partition.clone(), runtime, unheard, sender, is_paused);
        let task = Some(self.runtime.spawn("log-reader", Box::pin(task)));
        self.read.insert(partition.clone());
        self.slots.push(Slot { partition, events, paused, task });
        Ok(())
    }

    fn set_paused(&mut self, partition: &Partition, is_paused: bool) {
        for slot in self.slots.iter().filter(|slot| slot.partition == *partition) {
            slot.paused.send_replace(is_paused);
        }
    }
}

fn log_partition(
    store: &Arc<dyn Store>,
    runtime: &Arc<dyn Runtime>,
    index: u32,
) -> Result<LogPartition, SourceError> {
    let partition = LogPartition::new(store.clone(), &Prefix::root(), index, runtime.clone());
    Ok(partition.map_err(fault)?.with_tries(TRIES_MAX))
}

/// Hands on what a partition has, until an error that stays.
async fn follow(
    mut reader: LogReader,
    partition: Partition,
    runtime: Arc<dyn Runtime>,
    unheard: Unheard,
    sender: mpsc::Sender<Result<Event, SourceError>>,
    mut is_paused: watch::Receiver<bool>,
) {
    let (mut pace, mut is_caught_up) = (Pace::new(), false);
    loop {
        // Ends when the reader is dropped.
        if is_paused.wait_for(|is_paused| !is_paused).await.is_err() {
            return;
        }
        let read = reader.next().await;
        let pause = matches!(read, Ok(Read::CaughtUp(_))).then(|| pace.pause(runtime.elapsed()));
        let event = match read {
            Ok(Read::Block(block)) => {
                pace.came(runtime.elapsed());
                is_caught_up = false;
                Ok(Event::Block(block))
            }
            Ok(Read::CaughtUp(next)) if !is_caught_up => {
                is_caught_up = true;
                let next = position::position(0, next);
                Ok(Event::CaughtUp { partition: partition.clone(), next, leader_epoch: NO_LEADER_EPOCH })
            }
            Ok(Read::CaughtUp(_)) => {
                sleep(&*runtime, pause).await;
                continue;
            }
            Err(error) => Err(fault_at(error, &partition)),
        };
        let (is_away, is_over) = (is_away(&event), event.is_err() && !is_away(&event));
        // A block that was read before the pause is handed out after it.
        if is_paused.wait_for(|is_paused| !is_paused).await.is_err() {
            return;
        }
        match sender.reserve().await {
            // Room first: a task that ends while it waits for that has said nothing.
            Ok(room) if !is_away || !unheard.swap(true, Ordering::Relaxed) => room.send(event),
            Ok(_) => {}
            Err(_) => return,
        }
        if is_over {
            return;
        }
        sleep(&*runtime, if is_away { Some(AGAIN) } else { pause }).await;
    }
}

fn is_away(event: &Result<Event, SourceError>) -> bool {
    event.as_ref().is_err_and(|error| error.fault == SourceFault::Away)
}

async fn sleep(runtime: &dyn Runtime, pause: Option<Duration>) {
    if let Some(pause) = pause {
        runtime.sleep(pause).await;
    }
}

/// Reports partitions from `next` on as they appear.
async fn find(
    options: LogOptions,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    mut next: u32,
    sender: mpsc::Sender<Result<Event, SourceError>>,
) {
    loop {
        let Ok(log) = log_partition(&store, &runtime, next) else { return };
        // What fails is asked again; a partition that is read says by itself that the log is away.
        let Ok(Some(seen)) = log.look().await else {
            runtime.sleep(FIND_EVERY).await;
            continue;
        };
        let low = position::position(0, seen.root.low);
        let start = PartitionStart {
            partition: Partition::new(options.name.as_str(), next),
            identity: seen.root.queue_id().to_string(),
            next: low,
            first: low,
            leader_epoch: NO_LEADER_EPOCH,
        };
        next += 1;
        if sender.send(Ok(Event::Found(start))).await.is_err() {
            return;
        }
    }
}

#[async_trait]
impl Reader for LogSourceReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        poll_fn(|context| {
            if let Poll::Ready(Some(event)) = self.found.poll_recv(context) {
                // One that was added meanwhile is no news.
                let is_read =
                    matches!(&event, Ok(Event::Found(start)) if self.read.contains(&start.partition));
                if !is_read {
                    return Poll::Ready(event);
                }
                context.waker().wake_by_ref();
            }
            for at in 0..self.slots.len() {
                match self.slots[at].events.poll_recv(context) {
                    Poll::Ready(Some(event)) => {
                        if is_away(&event) {
                            self.unheard.store(false, Ordering::Relaxed);
                        }
                        // The one that was served goes to the back, so that a full one does not starve the others.
                        self.slots[at..].rotate_left(1);
                        return Poll::Ready(event);
                    }
                    // Ended by its error, which was handed out.
                    Poll::Ready(None) if self.slots[at].task.is_some() => {}
                    Poll::Ready(None) => {
                        let partition = self.slots.remove(at).partition;
                        self.read.remove(&partition);
                        return Poll::Ready(Ok(Event::Removed { partition }));
                    }
                    Poll::Pending => {}
                }
            }
            Poll::Pending
        })
        .await
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if self.read.contains(&from.partition) {
            return Err(SourceError::read_already(&from.partition));
        }
        let share = self.options.ahead_bytes_max / (self.slots.len() as u64 + 1);
        self.begin(from, share).await
    }

    fn remove(&mut self, partition: &Partition) {
        for slot in self.slots.iter_mut().filter(|slot| slot.partition == *partition) {
            // Its blocks on their way are still in the channel, which ends behind them.
            slot.task = None;
        }
    }

    fn pause(&mut self, partition: &Partition) {
        self.set_paused(partition, true);
    }

    fn resume(&mut self, partition: &Partition) {
        self.set_paused(partition, false);
    }
}
