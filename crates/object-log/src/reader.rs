//! Records of a partition from a position on, fetched and unpacked ahead in parallel and handed out in order.
//!
//! Owns the walk over the manifest and the bounds on bytes ahead. Does not own what was read: the caller says where to begin. Writes
//! nothing (L10). Objects are held as they are stored; a few of their frames are unpacked ahead, so that memory does not follow what an object holds raw.

use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::{Partition, RecordBlock, Runtime, position};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;

use crate::entry::Entry;
use crate::error::LogError;
use crate::names::QueueId;
use crate::object::{self, Records};
use crate::partition::LogPartition;
use crate::root::Root;

/// Objects fetched side by side.
const FETCHES_MAX: usize = 8;

/// Bytes of objects that are fetched or decoded ahead, unless one object alone has more.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// Bytes of frames that are unpacked ahead, unless one frame alone has more.
const UNPACKED_BYTES_MAX: usize = 32 << 20;

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

type Fetched = (Entry, Result<Vec<Records>, LogError>);
type Unpacked = (usize, Result<RecordBlock, LogError>);

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
    fetched: VecDeque<Fetched>,
    ahead_bytes: u64,
    ahead_bytes_max: u64,
    /// What of an object still has to be unpacked, and what it counts for.
    frames: VecDeque<Records>,
    frames_of: Entry,
    frames_bytes: u64,
    unpacking: FuturesOrdered<BoxFuture<'static, Unpacked>>,
    unpacked_bytes: usize,
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
            fetched: VecDeque::new(),
            ahead_bytes: 0,
            ahead_bytes_max: AHEAD_BYTES_MAX,
            frames: VecDeque::new(),
            frames_of: Entry::default(),
            frames_bytes: 0,
            unpacking: FuturesOrdered::new(),
            unpacked_bytes: 0,
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
            if self.frames.is_empty()
                && let Some((entry, fetched)) = self.fetched.pop_front()
            {
                match fetched {
                    Ok(frames) => {
                        self.frames.extend(frames.into_iter().filter(|frame| frame.end() > self.next))
                    }
                    Err(error) => return Err(self.give_up(error).await),
                }
                (self.frames_of, self.frames_bytes) = (entry, entry.bytes);
            }
            self.unpack();
            let filled = if self.frames.is_empty() { self.fill().await } else { Ok(()) };
            if self.unpacking.is_empty() {
                filled?;
            }
            tokio::select! {
                biased;
                Some((bytes, unpacked)) = self.unpacking.next(), if !self.unpacking.is_empty() => {
                    self.unpacked_bytes -= bytes;
                    match unpacked {
                        Ok(block) => {
                            let Some(block) = object::rows_from(block, self.next) else { continue };
                            self.next = position::low(block.next);
                            return Ok(Read::Block(block));
                        }
                        Err(error) => return Err(self.give_up(error).await),
                    }
                }
                // Fetches go on while frames are unpacked.
                Some(fetched) = self.fetching.next(), if !self.fetching.is_empty() => {
                    self.fetched.push_back(fetched);
                    continue;
                }
                else => {}
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
            if self.entries.is_empty() && self.fetches() < FETCHES_MAX {
                match self.partition.entries_from(&self.root, self.fetch).await {
                    Ok(entries) => self.entries.extend(entries),
                    Err(LogError::Missing { .. }) if self.fetches() > 0 => return Ok(()),
                    Err(LogError::Missing { .. }) => {
                        // Retention may have been quicker; then the position is not held, which is said.
                        self.refresh().await?;
                        self.entries.extend(self.partition.entries_from(&self.root, self.fetch).await?);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(entry) = self.entries.front().copied() else { return Ok(()) };
            let has_room = self.ahead_bytes == 0
                || (self.fetches() < FETCHES_MAX && self.ahead_bytes + entry.bytes <= self.ahead_bytes_max);
            if !has_room {
                return Ok(());
            }
            self.entries.pop_front();
            self.fetch = entry.end();
            self.ahead_bytes += entry.bytes;
            let (partition, queue) = (self.partition.clone(), self.queue);
            self.fetching.push_back(Box::pin(async move {
                (entry, fetch(&partition, queue, entry).await.map(|object| object.frames))
            }));
        }
    }

    /// Objects that are fetched and not begun to be unpacked.
    fn fetches(&self) -> usize {
        self.fetching.len() + self.fetched.len()
    }

    /// Starts to unpack frames as far as the bound allows.
    fn unpack(&mut self) {
        while let Some(frame) = self.frames.front()
            && (self.unpacking.is_empty() || self.unpacked_bytes + frame.raw_bytes <= UNPACKED_BYTES_MAX)
        {
            let frame = self.frames.pop_front().expect("just looked at");
            let (bytes, shown, runtime) =
                (frame.raw_bytes, self.shown.clone(), self.partition.runtime().clone());
            self.unpacked_bytes += bytes;
            let key = self.partition.names().object(self.queue, self.frames_of.written()).to_string();
            self.unpacking
                .push_back(Box::pin(async move { (bytes, unpack(frame, shown, &runtime, key).await) }));
        }
        if self.frames.is_empty() {
            self.ahead_bytes -= std::mem::take(&mut self.frames_bytes);
        }
    }

    /// The error to end a try with; what was fetched or unpacked behind it is fetched again by another one.
    async fn give_up(&mut self, error: LogError) -> LogError {
        (self.fetching, self.unpacking) = (FuturesOrdered::new(), FuturesOrdered::new());
        (self.frames_bytes, self.unpacked_bytes) = (0, 0);
        (self.ahead_bytes, self.fetch) = (0, self.next);
        self.entries.clear();
        self.fetched.clear();
        self.frames.clear();
        match &error {
            LogError::Missing { .. } => self.refresh().await.err().unwrap_or(error),
            _ => error,
        }
    }
}

/// The block of a frame, unpacked on a compute thread.
///
/// # Errors
/// When it is damaged.
pub async fn unpack(
    frame: Records,
    shown: Partition,
    runtime: &Arc<dyn Runtime>,
    key: String,
) -> Result<RecordBlock, LogError> {
    let block = runtime.run(move || frame.block(&shown)).await;
    let block =
        block.ok_or_else(|| LogError::Refused("decoding an object failed; report this".to_owned()))?;
    block.map_err(|error| LogError::Format { key, error })
}

/// The object of an entry, checked on a compute thread; its frames are not unpacked.
///
/// # Errors
/// When the store fails for good, or the object is missing or damaged.
pub async fn fetch(
    partition: &LogPartition,
    queue: QueueId,
    entry: Entry,
) -> Result<object::Object, LogError> {
    let key = partition.names().object(queue, entry.written());
    let found = partition.patiently(|| partition.store().get(&key, object::OBJECT_BYTES_MAX)).await?;
    let Some(bytes) = found else { return Err(LogError::Missing { key: key.to_string() }) };
    let decoded = partition.runtime().run(move || object::decode(queue, &entry, &bytes)).await;
    let decoded =
        decoded.ok_or_else(|| LogError::Refused("decoding an object failed; report this".to_owned()))?;
    decoded.map_err(|error| LogError::Format { key: key.to_string(), error })
}

#[cfg(test)]
mod tests;
