//! A source whose blocks are handed out with what their records may look up.
//!
//! Owns that a block waits for it, also while the call that waits is dropped. Does not own anything that the inner source decides.

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::block::Found;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source, SourceError,
};
use futures::future::BoxFuture;

use super::Lookups;

/// The source.
pub struct WithLookups {
    inner: Arc<dyn Source>,
    lookups: Arc<Lookups>,
    runtime: Arc<dyn Runtime>,
}

impl WithLookups {
    /// `inner`, whose records look up what `lookups` has.
    pub fn new(inner: Arc<dyn Source>, lookups: Arc<Lookups>, runtime: Arc<dyn Runtime>) -> Self {
        Self { inner, lookups, runtime }
    }
}

#[async_trait]
impl Source for WithLookups {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn connect(&self) {
        self.inner.connect();
    }

    fn covers(&self, stream: &str) -> bool {
        self.inner.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.recognize(shown, known).await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inner = self.inner.read(from).await?;
        let (lookups, runtime) = (self.lookups.clone(), self.runtime.clone());
        Ok(Box::new(ReaderWithLookups { inner, lookups, runtime, held: None }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    fn reader(&self) -> Option<&'static str> {
        self.inner.reader()
    }

    fn wants_fates(&self, partition: &Partition) -> bool {
        self.inner.wants_fates(partition)
    }

    fn releases(&self) -> bool {
        self.inner.releases()
    }

    fn wants_seals(&self) -> bool {
        self.inner.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        self.inner.sealed(positions);
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let mut record = self.inner.record(at).await?;
        if let Some(block) = &mut record {
            block.found = self.lookups.newest(&self.runtime).await?;
        }
        Ok(record)
    }
}

/// A block that waits.
struct Held {
    block: RecordBlock,
    /// What it waits for: kept, for `next` may be dropped.
    reading: Option<BoxFuture<'static, Result<Found, SourceError>>>,
}

struct ReaderWithLookups {
    inner: Box<dyn Reader>,
    lookups: Arc<Lookups>,
    runtime: Arc<dyn Runtime>,
    held: Option<Held>,
}

#[async_trait]
impl Reader for ReaderWithLookups {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if self.held.is_none() {
            match self.inner.next().await? {
                Event::Block(mut block) => match self.lookups.fresh(&*self.runtime) {
                    Some(found) => {
                        block.found = found;
                        return Ok(Event::Block(block));
                    }
                    None => self.held = Some(Held { block, reading: None }),
                },
                other => return Ok(other),
            }
        }
        let held = self.held.as_mut().expect("it was held just now");
        let reading = held.reading.get_or_insert_with(|| {
            let (lookups, runtime) = (self.lookups.clone(), self.runtime.clone());
            Box::pin(async move { lookups.read(&runtime).await })
        });
        let read = reading.await;
        held.reading = None;
        let found = read?;
        let Held { mut block, .. } = self.held.take().expect("nobody else takes it");
        block.found = found;
        Ok(Event::Block(block))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}
