//! A stream as the source of a pipeline.
//!
//! Owns how the requests of a stream become events of a reader. Does not own the requests ([`super::Direct`]).
//!
//! | what a source decides                 | here                                                              |
//! |---------------------------------------|-------------------------------------------------------------------|
//! | what is a partition, what a position  | the stream; the number of a record                                |
//! | which positions are held              | none: what is sealed is in the pipeline's store, what is not sealed is sent again by its sender |
//! | what bounds the bytes ahead           | the budgets of the stream and of all requests                     |
//! | what makes `next` safe to drop        | a block is taken out of the queue without waiting                 |
//!
//! Nothing can be read twice. A lane that is opened again begins where its journal stands, with requests that were never sealed.

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError,
    SourceFault, Streams, position,
};

use super::Direct;

/// What cannot be had again.
const NOT_KEPT: &str =
    "a request is not kept as it was sent: what is sealed is in the pipeline's store as rows";

/// A stream as a source.
#[derive(Debug)]
pub struct DirectSource {
    direct: Arc<Direct>,
}

impl DirectSource {
    /// What is sent to a listener of this process.
    pub fn new(direct: Arc<Direct>) -> Self {
        Self { direct }
    }

    /// The stream of this name for those who only look: nobody listens, so nothing comes.
    pub fn silent(name: &str) -> Self {
        Self { direct: Direct::new(name) }
    }

    fn partition(&self) -> Partition {
        self.direct.partition.clone()
    }
}

#[async_trait]
impl Source for DirectSource {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    fn covers(&self, stream: &str) -> bool {
        stream == &*self.direct.partition.stream
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        Ok(vec![PartitionStart {
            partition: self.partition(),
            identity: String::new(),
            next: 0,
            first: 0,
            leader_epoch: NO_LEADER_EPOCH,
        }])
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(vec![(self.partition(), position::position(0, self.direct.queue().next()))])
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let direct = self.direct.clone();
        let mut reader =
            DirectReader { direct, number: None, is_paused: false, is_removed: false, has_told: false };
        for from in from {
            reader.add(from).await?;
        }
        Ok(Box::new(reader))
    }

    async fn publish(&self, _positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }

    fn wants_seals(&self) -> bool {
        true
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        for (_, next) in positions.iter().filter(|(partition, _)| *partition == self.direct.partition) {
            self.direct.sealed(position::low(*next));
        }
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        Err(SourceError::new(SourceFault::Refused, NOT_KEPT).at(&at.partition))
    }
}

/// A running read.
struct DirectReader {
    direct: Arc<Direct>,
    /// The reader's number, once it reads.
    number: Option<u64>,
    is_paused: bool,
    is_removed: bool,
    /// It was told that there is nothing more, since the last block.
    has_told: bool,
}

impl DirectReader {
    /// What there is now.
    fn now(&mut self) -> Result<Option<Event>, SourceError> {
        let partition = || self.direct.partition.clone();
        if std::mem::take(&mut self.is_removed) {
            self.number = None;
            return Ok(Some(Event::Removed { partition: partition() }));
        }
        let Some(number) = self.number.filter(|_| !self.is_paused) else { return Ok(None) };
        let mut queue = self.direct.queue();
        if !queue.is_read_by(number) {
            let message =
                "another read of the stream has begun, and requests are handed out once; report this";
            return Err(SourceError::new(SourceFault::Refused, message).at(&self.direct.partition));
        }
        if let Some(block) = queue.hand_out() {
            self.has_told = false;
            return Ok(Some(Event::Block(block)));
        }
        if std::mem::replace(&mut self.has_told, true) {
            return Ok(None);
        }
        let next = position::position(0, queue.next());
        Ok(Some(Event::CaughtUp { partition: partition(), next, leader_epoch: NO_LEADER_EPOCH }))
    }
}

#[async_trait]
impl Reader for DirectReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            if let Some(event) = self.now()? {
                return Ok(event);
            }
            self.direct.news.notified().await;
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if self.number.is_some() {
            return Err(SourceError::read_already(&from.partition));
        }
        let at = from.plain()?;
        self.number = Some(self.direct.open(at));
        (self.is_paused, self.has_told) = (false, false);
        Ok(())
    }

    fn remove(&mut self, _partition: &Partition) {
        self.is_removed = self.number.is_some();
        self.direct.news.notify_one();
    }

    fn pause(&mut self, _partition: &Partition) {
        self.is_paused = true;
    }

    fn resume(&mut self, _partition: &Partition) {
        self.is_paused = false;
        self.direct.news.notify_one();
    }
}
