//! A source that must not be read, with its place kept.
//!
//! Owns what stands in for the pipeline's own source while the replay log alone is drained. Does not own the log's partition ([`crate::source`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError, Streams,
};

/// Replaces a source that must not be read: to drain the replay log alone takes no broker. Its partitions count
/// as read to their ends, wherever they stand, and hold the watermark all the same. Only the record of a row that the server refuses is asked of the
/// source, and those of an insert that was sealed and not written, which is made again of them.
pub struct Aside {
    source: Arc<dyn Source>,
    /// Where the lane reads each partition on.
    asked: Mutex<BTreeMap<Partition, Position>>,
}

impl Aside {
    /// Replaces `source`.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, asked: Mutex::default() }
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<Partition, Position>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is read for an insert and not for the lane: one partition alone, from before the place where the lane reads it on.
    fn is_of_an_insert(&self, from: &[ReadFrom]) -> bool {
        let [from] = from else { return false };
        self.asked().get(&from.partition).is_some_and(|lane| from.next < *lane)
    }
}

/// Has nothing to hand out, and says so once of each partition: a drain waits for that.
struct Silence {
    read: BTreeSet<Partition>,
    untold: Vec<ReadFrom>,
    removed: Vec<Partition>,
}

#[async_trait]
impl Source for Aside {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        Ok(Vec::new())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(self.asked().keys().map(|partition| (partition.clone(), 0)).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        if self.is_of_an_insert(&from) {
            return self.source.read(from).await;
        }
        self.asked().extend(from.iter().map(|from| (from.partition.clone(), from.next)));
        let read = from.iter().map(|from| from.partition.clone()).collect();
        Ok(Box::new(Silence { read, untold: from, removed: Vec::new() }))
    }

    async fn publish(&self, _: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }

    /// What the source has by now is read by the next run, and may be older than what the log has.
    fn stands_aside(&self) -> bool {
        true
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        self.source.record(at).await
    }
}

#[async_trait]
impl Reader for Silence {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if let Some(partition) = self.removed.pop() {
            return Ok(Event::Removed { partition });
        }
        let Some(ReadFrom { partition, next, leader_epoch, .. }) = self.untold.pop() else {
            return std::future::pending().await;
        };
        Ok(Event::CaughtUp { partition, next, leader_epoch })
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.read.insert(from.partition.clone());
        self.untold.push(from);
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        if self.read.remove(partition) {
            self.untold.retain(|from| from.partition != *partition);
            self.removed.push(partition.clone());
        }
    }

    fn pause(&mut self, _: &Partition) {}

    fn resume(&mut self, _: &Partition) {}
}
