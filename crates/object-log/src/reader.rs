//! Records of a partition from a position on, fetched ahead in parallel and handed out in order.
//!
//! Owns the walk over the manifest and the bound on bytes ahead. Does not own what was read: the caller says where to begin. Writes
//! nothing (L10).

use std::collections::VecDeque;

use dataflow::{Partition, RecordBlock, position};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;

use crate::entry::Entry;
use crate::error::LogError;
use crate::names::QueueId;
use crate::object;
use crate::partition::LogPartition;
use crate::root::Root;

/// Objects fetched side by side.
const FETCHES_MAX: usize = 8;

/// Bytes of objects that are fetched or decoded ahead, unless one object alone has more.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// What a read gives.
#[allow(
    clippy::large_enum_variant,
    reason = "most reads give blocks, and a box would be one more allocation for each"
)]
#[derive(Debug)]
pub enum Read {
    /// Records.
    Block(RecordBlock),
    /// Everything below this position was given, and there is nothing more at the moment.
    CaughtUp(u64),
}

type Fetched = (u64, Result<Vec<RecordBlock>, LogError>);

/// A running read. Its futures run only while [`next`](Self::next) is awaited.
pub struct LogReader {
    partition: LogPartition,
    shown: Partition,
    queue: QueueId,
    root: Root,
    /// The next position to be handed out.
    next: u64,
    /// The next position to be fetched.
    fetch: u64,
    entries: VecDeque<Entry>,
    fetching: FuturesOrdered<BoxFuture<'static, Fetched>>,
    ahead_bytes: u64,
    ahead_bytes_max: u64,
    ready: VecDeque<RecordBlock>,
}

impl LogReader {
    /// Begins to read at `from`; `shown` is what the blocks call the partition.
    ///
    /// # Errors
    /// When the partition is not the queue that `from` is a position of, or does not hold the position.
    pub async fn open(
        partition: LogPartition,
        shown: Partition,
        queue: QueueId,
        from: u64,
    ) -> Result<Self, LogError> {
        let root = partition.root().await?.root;
        let reader = Self {
            partition,
            shown,
            queue,
            root,
            next: from,
            fetch: from,
            entries: VecDeque::new(),
            fetching: FuturesOrdered::new(),
            ahead_bytes: 0,
            ahead_bytes_max: AHEAD_BYTES_MAX,
            ready: VecDeque::new(),
        };
        reader.check()?;
        Ok(reader)
    }

    /// The same with another bound on the bytes that are fetched ahead.
    #[must_use]
    pub fn with_ahead_bytes(self, ahead_bytes_max: u64) -> Self {
        Self { ahead_bytes_max, ..self }
    }

    /// The next position to be handed out.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next records, or that there are none. Ask again after a pause. May be dropped at any await without losing a record.
    ///
    /// # Errors
    /// When the position is no longer held, the log was created again, or an object is missing or damaged.
    pub async fn next(&mut self) -> Result<Read, LogError> {
        let mut is_fresh = false;
        loop {
            if let Some(block) = self.ready.pop_front() {
                self.next = position::low(block.next);
                return Ok(Read::Block(block));
            }
            self.fill().await?;
            if let Some((bytes, fetched)) = self.fetching.next().await {
                self.ahead_bytes -= bytes;
                self.take(fetched).await?;
                continue;
            }
            if is_fresh {
                return Ok(Read::CaughtUp(self.next));
            }
            self.refresh().await?;
            is_fresh = true;
        }
    }

    /// Reads the root again.
    async fn refresh(&mut self) -> Result<(), LogError> {
        let seen = self.partition.look().await?;
        self.root = seen.ok_or_else(|| self.partition.recreated(self.queue, None))?.root;
        self.check()
    }

    fn check(&self) -> Result<(), LogError> {
        let place = || self.partition.place();
        if self.root.queue_id() != self.queue {
            return Err(self.partition.recreated(self.queue, Some(self.root.queue_id())));
        }
        if self.next < self.root.low {
            return Err(LogError::Truncated { place: place(), position: self.next, low: self.root.low });
        }
        if self.next > self.root.next {
            return Err(LogError::Beyond { place: place(), position: self.next, next: self.root.next });
        }
        Ok(())
    }

    /// Starts fetches as far as the bounds allow.
    async fn fill(&mut self) -> Result<(), LogError> {
        loop {
            if self.entries.is_empty() && self.fetching.len() < FETCHES_MAX {
                match self.partition.entries_from(&self.root, self.fetch).await {
                    Ok(entries) => self.entries.extend(entries),
                    Err(LogError::Missing { .. }) if !self.fetching.is_empty() => return Ok(()),
                    Err(LogError::Missing { key }) => {
                        // Retention may have been quicker; then the position is not held, which is said.
                        self.refresh().await?;
                        let entries = self.partition.entries_from(&self.root, self.fetch).await;
                        self.entries.extend(entries.map_err(|_| LogError::Missing { key })?);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(entry) = self.entries.front().copied() else { return Ok(()) };
            let has_room = self.fetching.is_empty()
                || (self.fetching.len() < FETCHES_MAX
                    && self.ahead_bytes + entry.bytes <= self.ahead_bytes_max);
            if !has_room {
                return Ok(());
            }
            self.entries.pop_front();
            self.fetch = entry.end();
            self.ahead_bytes += entry.bytes;
            let (partition, shown, queue) = (self.partition.clone(), self.shown.clone(), self.queue);
            self.fetching.push_back(Box::pin(async move {
                (entry.bytes, fetch(&partition, queue, entry, shown).await.map(|object| object.blocks))
            }));
        }
    }

    async fn take(&mut self, fetched: Result<Vec<RecordBlock>, LogError>) -> Result<(), LogError> {
        let blocks = match fetched {
            Ok(blocks) => blocks,
            Err(error) => {
                // What was fetched behind it is fetched again by another try.
                self.fetching = FuturesOrdered::new();
                (self.ahead_bytes, self.fetch) = (0, self.next);
                self.entries.clear();
                if matches!(error, LogError::Missing { .. }) {
                    self.refresh().await?;
                }
                return Err(error);
            }
        };
        self.ready.extend(blocks.into_iter().filter_map(|block| object::rows_from(block, self.next)));
        Ok(())
    }
}

/// The object of an entry, checked and decoded on a compute thread.
///
/// # Errors
/// When the store fails for good, or the object is missing or damaged.
pub async fn fetch(
    partition: &LogPartition,
    queue: QueueId,
    entry: Entry,
    shown: Partition,
) -> Result<object::Object, LogError> {
    let key = partition.names().object(queue, entry.written());
    let found = partition.patiently(|| partition.store().get(&key, object::OBJECT_BYTES_MAX)).await?;
    let Some(bytes) = found else { return Err(LogError::Missing { key: key.to_string() }) };
    let decoded = partition.runtime().run(move || object::decode(queue, &entry, &bytes, &shown)).await;
    let decoded =
        decoded.ok_or_else(|| LogError::Refused("decoding an object failed; report this".to_owned()))?;
    decoded.map_err(|error| LogError::Format { key: key.to_string(), error })
}

#[cfg(test)]
mod tests;
