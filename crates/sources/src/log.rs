//! A log in a store as a source: its partitions, read ahead and in parallel.
//!
//! Owns the tasks that read, the discovery of new partitions, and the acknowledgement of what a pipeline has done with. Does not own the log
//! (`object_log`), nor what was read: the pipeline's journal does.
//!
//! | what a source decides                 | here                                                              |
//! |---------------------------------------|-------------------------------------------------------------------|
//! | what is a partition, what a position  | a partition of the log; the number of the record                  |
//! | what tells a stream from a later one  | the queue id, drawn when the partition was created                |
//! | which positions are held              | from the root's `low` to its `next`                               |
//! | what bounds the bytes ahead           | [`LogOptions::ahead_bytes_max`], divided among the partitions     |
//! | what makes `next` safe to drop        | a channel for each partition                                      |
//!
//! [`Source::publish`] acknowledges: the position of the settled records, from the lane's own journal, goes to the log, which lets go of what
//! all its consumers have acknowledged. The first acknowledgement of a run fences earlier runs of the same pipeline. Whoever only looks
//! (`check`, `try`, a dry run) publishes nothing, and so fences nobody.

mod pace;
mod reader;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Partition, PartitionStart, Position, ReadFrom, Reader, Runtime, Source, SourceError, SourceFault,
    Streams, position,
};
use futures::future::{BoxFuture, join_all};
use object_log::acks::{self, Acknowledger};
use object_log::names::QueueId;
use object_log::{LogError, LogPartition, Root};
use store::{Prefix, Store, StoreError};
use tokio::sync::{Mutex, OnceCell};

use reader::LogSourceReader;

/// Tries of a request before the log counts as away.
const TRIES_MAX: u32 = 4;

/// Opens the log's store: to read, or to acknowledge too. Blocks. `None` if there is nothing at its address.
pub type Open = Arc<dyn Fn(Access) -> Result<Option<Arc<dyn Store>>, StoreError> + Send + Sync>;

/// What the store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written.
    Read,
    /// Acknowledgements are.
    Acknowledge,
}

/// What to read of a log, and how.
#[derive(Clone)]
pub struct LogOptions {
    /// Opens the store whose root is the log's folder.
    pub open: Open,
    /// What the log is called in messages and in the journal.
    pub name: String,
    /// Under which name is acknowledged: the pipeline's.
    pub consumer: String,
    /// A pipeline that has never run begins behind the newest record instead of at the oldest.
    pub from_latest: bool,
    /// Bytes of objects that are read ahead, over all partitions.
    pub ahead_bytes_max: u64,
}

/// A log as a source.
pub struct LogSource {
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    read: OnceCell<Arc<dyn Store>>,
    acknowledge: OnceCell<Arc<dyn Store>>,
    acknowledgers: Mutex<BTreeMap<u32, Acknowledger>>,
    identities: Identities,
    /// The store has answered: from now on, a key or a bucket that is refused may be so for a while.
    has_answered: AtomicBool,
    /// Partitions that the caller was told of last; 0 if it has not asked. Those that were created since are new to it.
    listed: AtomicU32,
}

/// The queue of each partition that is read, or was: positions that are published are of it.
type Identities = Arc<std::sync::Mutex<BTreeMap<u32, QueueId>>>;

impl fmt::Debug for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogSource({})", self.options.name)
    }
}

impl LogSource {
    /// A source that opens its store when it is first asked.
    pub fn new(options: LogOptions, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            options,
            runtime,
            read: OnceCell::new(),
            acknowledge: OnceCell::new(),
            acknowledgers: Mutex::default(),
            identities: Identities::default(),
            has_answered: AtomicBool::new(false),
            listed: AtomicU32::new(0),
        }
    }

    async fn store(&self, access: Access) -> Result<Arc<dyn Store>, SourceError> {
        let cell = match access {
            Access::Read => &self.read,
            Access::Acknowledge => &self.acknowledge,
        };
        let opened = cell.get_or_try_init(|| async {
            let open = self.options.open.clone();
            let opened = tokio::task::spawn_blocking(move || open(access)).await;
            let opened = opened.map_err(|error| {
                SourceError::new(SourceFault::Away, format!("opening the log's store failed: {error}"))
            })?;
            match opened.map_err(|error| fault(LogError::Store(error)))? {
                Some(store) => {
                    if access == Access::Acknowledge {
                        let probed = store.probe_registers(self.runtime.random()).await;
                        probed.map_err(|error| fault(LogError::Store(error)))?;
                    }
                    Ok(store)
                }
                None => Err(self.absent()),
            }
        });
        opened.await.cloned()
    }

    fn absent(&self) -> SourceError {
        let message = format!("there is no log `{}`; `forebay log append` creates one", self.options.name);
        SourceError::new(SourceFault::Refused, message)
    }

    async fn log_partition(&self, access: Access, index: u32) -> Result<LogPartition, SourceError> {
        let store = self.store(access).await?;
        let partition =
            LogPartition::new(store, &Prefix::root(), index, self.runtime.clone()).map_err(fault)?;
        Ok(partition.with_tries(TRIES_MAX))
    }

    /// The roots of all partitions from `from` on, which are numbered without a gap.
    async fn roots(&self, from: u32) -> Result<Vec<(u32, Root)>, SourceError> {
        let mut roots = Vec::new();
        for index in from.. {
            let looked = self.log_partition(Access::Read, index).await?.look().await;
            let looked = looked.map_err(|error| self.fault_of_look(error))?;
            self.has_answered.store(true, Ordering::Relaxed);
            match looked {
                Some(seen) => roots.push((index, seen.root)),
                None => break,
            }
        }
        Ok(roots)
    }

    /// A log's error as a source's. Until the store has answered once, a wrong key or a missing bucket is a mistake, which no wait mends.
    fn fault_of_look(&self, error: LogError) -> SourceError {
        match &error {
            LogError::Store(store)
                if !store.kind.may_pass_at_start() && !self.has_answered.load(Ordering::Relaxed) =>
            {
                SourceError::new(SourceFault::Refused, error.to_string())
            }
            _ => fault(error),
        }
    }

    /// Begins to acknowledge what is read of a partition.
    async fn acknowledger(&self, partition: &Partition) -> Result<Acknowledger, SourceError> {
        let log = self.log_partition(Access::Acknowledge, partition.index).await?;
        let index = partition.index;
        let known = self.identities.lock().unwrap_or_else(PoisonError::into_inner).get(&index).copied();
        let queue = match known {
            // Not the one that is there now: positions of a log mean nothing in another.
            Some(queue) => queue,
            // It has not read, and so its positions come from what it has looked at.
            None => log.root().await.map_err(fault)?.root.queue_id(),
        };
        let claimed = Acknowledger::claim(log, &self.options.consumer, queue).await;
        claimed.map_err(|error| fault_at(error, partition))
    }

    fn partition(&self, index: u32) -> Partition {
        Partition::new(self.options.name.as_str(), index)
    }

    fn start(&self, index: u32, root: &Root) -> PartitionStart {
        let next = if self.options.from_latest { root.next } else { root.low };
        PartitionStart {
            partition: self.partition(index),
            identity: root.queue_id().to_string(),
            next: position::position(0, next),
            first: position::position(0, root.low),
            leader_epoch: NO_LEADER_EPOCH,
        }
    }
}

/// A log's error as a source's.
fn fault(error: LogError) -> SourceError {
    let fault = if error.is_transient() { SourceFault::Away } else { SourceFault::Refused };
    SourceError::new(fault, error.to_string())
}

/// The same of one partition, with the way out.
fn fault_at(error: LogError, partition: &Partition) -> SourceError {
    let way_out = match &error {
        LogError::Truncated { .. } => format!(
            "; records were deleted before they were read. To give them up, run `forebay reset FILE --to earliest --partition {partition}` and start \
             again: reading continues at the oldest record that is left"
        ),
        _ => String::new(),
    };
    let error = fault(error);
    SourceError::new(error.fault, error.message + &way_out).at(partition)
}

/// The queue that an identity in the journal names.
fn queue_of(identity: &str) -> Option<QueueId> {
    u128::from_str_radix(identity, 16).ok().map(QueueId)
}

#[async_trait]
impl Source for LogSource {
    fn streams(&self) -> Streams {
        Streams::Logs
    }

    fn covers(&self, stream: &str) -> bool {
        stream == self.options.name
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let roots = self.roots(0).await?;
        if roots.is_empty() {
            return Err(self.absent());
        }
        self.listed.store(u32::try_from(roots.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        Ok(roots.iter().map(|(index, root)| self.start(*index, root)).collect())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let roots = self.roots(0).await?;
        let end = |(index, root): &(u32, Root)| (self.partition(*index), position::position(0, root.next));
        Ok(roots.iter().map(end).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let store = self.store(Access::Read).await?;
        let (options, runtime) = (self.options.clone(), self.runtime.clone());
        let (identities, listed) = (self.identities.clone(), self.listed.load(Ordering::Relaxed));
        let reader = LogSourceReader::open(options, store, runtime, identities, from, listed).await?;
        Ok(Box::new(reader))
    }

    fn reader(&self) -> Option<&'static str> {
        Some("consumer")
    }

    fn releases(&self) -> bool {
        true
    }

    /// Acknowledges: every record below is in the tables. Side by side, so that those of many partitions take no longer than the caller waits; and one
    /// partition that cannot be acknowledged keeps no other from it.
    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let mut acknowledgers = self.acknowledgers.lock().await;
        let mut outcome = Ok(());
        for (partition, _) in positions {
            if let Entry::Vacant(vacant) = acknowledgers.entry(partition.index) {
                match self.acknowledger(partition).await {
                    Ok(acknowledger) => {
                        vacant.insert(acknowledger);
                    }
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        let mut acknowledging: Vec<BoxFuture<'_, Result<(), SourceError>>> = Vec::new();
        for (index, acknowledger) in acknowledgers.iter_mut() {
            let Some((partition, at)) = positions.iter().find(|(partition, _)| partition.index == *index)
            else {
                continue;
            };
            acknowledging.push(Box::pin(async move {
                let acknowledged = acknowledger.acknowledge(position::low(*at)).await;
                acknowledged.map_err(|error| fault_at(error, partition))
            }));
        }
        join_all(acknowledging).await.into_iter().fold(outcome, Result::and)
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut published = Vec::new();
        for (index, root) in self.roots(0).await? {
            let log = self.log_partition(Access::Read, index).await?;
            let acknowledged = acks::acknowledged(&log, &self.options.consumer, root.queue_id());
            if let Some(at) = acknowledged.await.map_err(fault)? {
                published.push((self.partition(index), position::position(0, at)));
            }
        }
        Ok(published)
    }
}

#[cfg(test)]
mod tests;
