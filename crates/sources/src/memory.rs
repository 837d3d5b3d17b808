//! Records in memory: the source of tests, and the example to copy for a new source.
//!
//! Owns partitions that a [`MemoryHandle`] fills, thins out, ends and creates again while they are read. Does not own the rules, which are
//! those of [`Source`] and of `dataflow::conformance`: it keeps each in the plainest way that there is. All state is behind one lock, a
//! version number wakes readers, and there is nothing else.
//!
//! | what a new source has to decide       | here                                             |
//! |---------------------------------------|--------------------------------------------------|
//! | what is a partition, what a position  | as pushed; the number of the record              |
//! | what tells a stream from a later one  | a number given at [`MemoryHandle::open`]         |
//! | which positions are held              | from `first` to `next`                           |
//! | what bounds the bytes ahead           | one block, made when `next` is called            |
//! | what makes `next` safe to drop        | no await between taking a record and returning it|

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::{self, Position};
use dataflow::{
    BlockBuilder, Event, Partition, PartitionStart, ReadFrom, Reader, Source, SourceError, SourceFault,
    Streams,
};
use tokio::sync::watch;

/// One record as pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRecord {
    /// Unix milliseconds.
    pub time_ms: i64,
    /// The body; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// Headers in order; a value may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

#[derive(Debug)]
struct Stream {
    identity: String,
    first: Position,
    next: Position,
    records: VecDeque<(Position, MemoryRecord)>,
    is_ended: bool,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<Partition, Stream>,
    published: BTreeMap<Partition, Position>,
    opened: u64,
    failures_left: u32,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is complete before anything can panic, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.version.send_modify(|version| *version += 1);
        result
    }
}

/// A source whose partitions are in memory.
#[derive(Clone, Debug)]
pub struct MemorySource {
    shared: Arc<Shared>,
}

/// Fills and disturbs a [`MemorySource`] from outside.
#[derive(Clone, Debug)]
pub struct MemoryHandle {
    shared: Arc<Shared>,
}

impl MemorySource {
    /// A source with these streams and this many empty partitions of each.
    pub fn new<'a>(streams: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let (version, _) = watch::channel(0);
        let source = Self { shared: Arc::new(Shared { state: Mutex::default(), version }) };
        for (stream, partitions) in streams {
            for index in 0..partitions {
                source.handle().open(Partition::new(stream, index));
            }
        }
        source
    }

    /// A handle to fill and disturb it.
    pub fn handle(&self) -> MemoryHandle {
        MemoryHandle { shared: self.shared.clone() }
    }
}

impl MemoryHandle {
    /// Appends a body and returns its position; panics when the partition is unknown or has ended.
    pub fn push(&self, partition: &Partition, time_ms: i64, payload: impl Into<Vec<u8>>) -> Position {
        self.push_record(
            partition,
            MemoryRecord { time_ms, payload: Some(payload.into()), ..Default::default() },
        )
    }

    /// Appends a record and returns its position; panics when the partition is unknown or has ended.
    pub fn push_record(&self, partition: &Partition, record: MemoryRecord) -> Position {
        self.change_stream(partition, |stream| {
            assert!(!stream.is_ended, "{partition} has ended");
            stream.records.push_back((stream.next, record));
            stream.next += 1;
            stream.next - 1
        })
    }

    /// Leaves `count` positions without a record, as compaction and transactions do.
    pub fn skip(&self, partition: &Partition, count: u64) {
        self.change_stream(partition, |stream| stream.next += Position::from(count));
    }

    /// Says that what follows is of the next era, as a ledger that is closed and followed by another.
    pub fn begin_era(&self, partition: &Partition) {
        self.change_stream(partition, |stream| {
            stream.next = position::position(position::era(stream.next) + 1, 0)
        });
    }

    /// Drops the records below `position`, as retention does.
    pub fn forget(&self, partition: &Partition, position: Position) {
        self.change_stream(partition, |stream| {
            stream.first = position.clamp(stream.first, stream.next);
            stream.records.retain(|(at, _)| *at >= stream.first);
        });
    }

    /// Says that nothing will be appended any more: the partition is bounded.
    pub fn end(&self, partition: &Partition) {
        self.change_stream(partition, |stream| stream.is_ended = true);
    }

    /// Ends every partition.
    pub fn end_all(&self) {
        self.shared.change(|state| state.streams.values_mut().for_each(|stream| stream.is_ended = true));
    }

    /// Adds an empty partition, or deletes the one of this name and creates it again under another identity.
    pub fn open(&self, partition: Partition) {
        self.open_at(partition, 0);
    }

    /// The same, of a partition whose records below `first` retention has taken.
    pub fn open_at(&self, partition: Partition, first: Position) {
        self.shared.change(|state| {
            state.opened += 1;
            let identity = format!("memory-{}", state.opened);
            let stream = Stream { identity, first, next: first, records: VecDeque::new(), is_ended: false };
            state.streams.insert(partition, stream);
        });
    }

    /// Makes the next `times` calls that would ask the source fail with [`SourceFault::Away`].
    pub fn fail(&self, times: u32) {
        self.shared.change(|state| state.failures_left = times);
    }

    /// What was published last.
    pub fn published(&self) -> BTreeMap<Partition, Position> {
        self.shared.lock().published.clone()
    }

    fn change_stream<T>(&self, partition: &Partition, change: impl FnOnce(&mut Stream) -> T) -> T {
        self.shared.change(|state| {
            change(state.streams.get_mut(partition).unwrap_or_else(|| panic!("{partition} is not open")))
        })
    }
}

impl State {
    fn ask(&mut self) -> Result<(), SourceError> {
        if self.failures_left == 0 {
            return Ok(());
        }
        self.failures_left -= 1;
        Err(SourceError::new(SourceFault::Away, "the memory source was set to be unavailable"))
    }

    /// The stream that `from` means, if it still is that stream and still holds the position.
    fn stream(&self, from: &ReadFrom) -> Result<&Stream, SourceError> {
        let partition = &from.partition;
        let refuse = |message: String| SourceError::new(SourceFault::Refused, message).at(partition);
        let Some(stream) = self.streams.get(partition) else {
            return Err(refuse(format!("partition `{partition}` does not exist")));
        };
        if stream.identity != from.identity {
            return Err(refuse(format!(
                "partition `{partition}` was created again: recorded `{}`, now `{}`",
                from.identity, stream.identity
            )));
        }
        if from.next < stream.first || from.next > stream.next {
            return Err(refuse(format!(
                "partition `{partition}` holds `{}` to `{}`, not position `{}`",
                position::shown(stream.first),
                position::shown(stream.next),
                position::shown(from.next)
            )));
        }
        Ok(stream)
    }

    fn start(&self, partition: &Partition) -> PartitionStart {
        let stream = &self.streams[partition];
        PartitionStart {
            partition: partition.clone(),
            identity: stream.identity.clone(),
            next: stream.first,
            first: stream.first,
            leader_epoch: NO_LEADER_EPOCH,
        }
    }
}

#[async_trait]
impl Source for MemorySource {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let mut state = self.shared.lock();
        state.ask()?;
        Ok(state.streams.keys().map(|partition| state.start(partition)).collect())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut state = self.shared.lock();
        state.ask()?;
        Ok(state.streams.iter().map(|(partition, stream)| (partition.clone(), stream.next)).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let changes = self.shared.version.subscribe();
        let mut state = self.shared.lock();
        state.ask()?;
        for from in &from {
            state.stream(from)?;
        }
        let known = state.streams.keys().cloned().collect();
        let read = from.iter().map(|from| from.partition.clone()).collect();
        let cursors = from.into_iter().map(Cursor::new).collect();
        Ok(Box::new(MemoryReader { shared: self.shared.clone(), changes, known, read, cursors }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.shared.change(|state| state.published.extend(positions.iter().cloned()));
        Ok(())
    }

    fn reader(&self) -> Option<&'static str> {
        Some("group")
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(self.shared.lock().published.clone().into_iter().collect())
    }
}

/// Where a reader stands in one partition.
struct Cursor {
    from: ReadFrom,
    is_paused: bool,
    /// Taken away, and not reported yet.
    is_leaving: bool,
    /// `CaughtUp` was reported at `from.next`.
    is_caught_up: bool,
    is_ended: bool,
}

impl Cursor {
    fn new(from: ReadFrom) -> Self {
        Self { from, is_paused: false, is_leaving: false, is_caught_up: false, is_ended: false }
    }

    /// What there is to report of this partition now, if anything.
    fn event(&mut self, state: &State) -> Result<Option<Event>, SourceError> {
        if self.is_paused || self.is_ended {
            return Ok(None);
        }
        let stream = state.stream(&self.from)?;
        let partition = self.from.partition.clone();
        let begin = stream.records.partition_point(|(position, _)| *position < self.from.next);
        if begin < stream.records.len() {
            let first = stream.records[begin].0;
            let mut builder = BlockBuilder::new(partition, first);
            for (position, record) in stream.records.range(begin..) {
                if position::era(*position) != position::era(first) {
                    break;
                }
                push(&mut builder, *position, record);
                if builder.is_full() {
                    break;
                }
            }
            let block = builder.take();
            self.from.next = block.next;
            self.is_caught_up = false;
            return Ok(Some(Event::Block(block)));
        }
        let moved = self.from.next != stream.next;
        self.from.next = stream.next;
        if stream.is_ended {
            self.is_ended = true;
            return Ok(Some(Event::Ended { partition, next: stream.next }));
        }
        if self.is_caught_up && !moved {
            return Ok(None);
        }
        self.is_caught_up = true;
        Ok(Some(Event::CaughtUp { partition, next: stream.next, leader_epoch: NO_LEADER_EPOCH }))
    }
}

fn push(builder: &mut BlockBuilder, position: Position, record: &MemoryRecord) {
    builder.push(position::low(position), record.time_ms, record.payload.as_deref());
    if let Some(key) = &record.key {
        builder.key(key);
    }
    for (name, value) in &record.headers {
        builder.header(name, value.as_deref());
    }
}

struct MemoryReader {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    known: BTreeSet<Partition>,
    /// Partitions that are read, or were to their end.
    read: BTreeSet<Partition>,
    cursors: VecDeque<Cursor>,
}

impl MemoryReader {
    fn event(&mut self) -> Result<Option<Event>, SourceError> {
        let mut state = self.shared.lock();
        state.ask()?;
        if let Some(partition) = state.streams.keys().find(|partition| !self.known.contains(partition)) {
            self.known.insert(partition.clone());
            return Ok(Some(Event::Found(state.start(partition))));
        }
        if let Some(index) = self.cursors.iter().position(|cursor| cursor.is_leaving)
            && let Some(cursor) = self.cursors.remove(index)
        {
            let partition = cursor.from.partition;
            self.read.remove(&partition);
            return Ok(Some(Event::Removed { partition }));
        }
        // The partition that was served goes to the back, so that a full one does not starve the others.
        for index in 0..self.cursors.len() {
            if let Some(event) = self.cursors[index].event(&state)? {
                self.cursors.rotate_left(index + 1);
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn set_paused(&mut self, partition: &Partition, is_paused: bool) {
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.from.partition == *partition) {
            cursor.is_paused = is_paused;
        }
    }
}

#[async_trait]
impl Reader for MemoryReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            self.changes.borrow_and_update();
            if let Some(event) = self.event()? {
                return Ok(event);
            }
            // The sender lives in `shared`, which this reader holds, so this cannot fail; if it did, waiting is right.
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.shared.lock().stream(&from)?;
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        self.known.insert(from.partition.clone());
        self.cursors.push_back(Cursor::new(from));
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.from.partition == *partition) {
            cursor.is_leaving = true;
        }
    }

    fn pause(&mut self, partition: &Partition) {
        self.set_paused(partition, true);
    }

    fn resume(&mut self, partition: &Partition) {
        self.set_paused(partition, false);
    }
}

#[cfg(test)]
mod tests;
