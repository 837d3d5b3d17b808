//! A source whose blocks are handed out with what their records may look up.
//!
//! Owns that a block waits for it, also while the call that waits is dropped. Does not own anything that the inner source decides.

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::block::Found;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source, SourceError,
    Streams,
};
use futures::future::BoxFuture;

use super::ahead::ReaderAhead;
use super::keyed::Why;
use super::walk::{Walked, Walks};
use super::{Lookups, away};

/// What the records of an input look up.
#[derive(Clone)]
pub struct Looks {
    /// The other sides.
    pub lookups: Arc<Lookups>,
    /// The ways to the keys of blocks, for sides that are asked for them.
    pub walks: Arc<Walks>,
    /// The number of the input in the file.
    pub own: usize,
    /// Blocks whose keys are asked for at the same time; at least 1.
    pub ahead: usize,
}

impl Looks {
    /// What the records of a block look up that is not handed out by a source; however old, if it is known.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn found(
        &self,
        block: RecordBlock,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<RecordBlock, SourceError> {
        let found = self.lookups.newest(runtime).await?;
        if !self.lookups.asks_for_keys() {
            return Ok(RecordBlock { found, ..block });
        }
        let Walked { block, taken } = self.walk(block, found, runtime, true).await?;
        match taken {
            Ok(_) => Ok(block),
            Err(Why::TooMuch(why) | Why::Away(why)) => Err(away(why)),
        }
    }
}

/// The source.
pub struct WithLookups {
    inner: Arc<dyn Source>,
    looks: Looks,
    runtime: Arc<dyn Runtime>,
}

impl WithLookups {
    /// `inner`, whose records look up what `looks` has.
    pub fn new(inner: Arc<dyn Source>, looks: Looks, runtime: Arc<dyn Runtime>) -> Self {
        Self { inner, looks, runtime }
    }
}

#[async_trait]
impl Source for WithLookups {
    fn streams(&self) -> Streams {
        self.inner.streams()
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

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        self.inner.behind(from).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inner = self.inner.read(from).await?;
        let (looks, runtime) = (self.looks.clone(), self.runtime.clone());
        if looks.lookups.asks_for_keys() {
            return Ok(Box::new(ReaderAhead::new(inner, looks, runtime)));
        }
        let lookups = looks.lookups;
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

    fn stands_aside(&self) -> bool {
        self.inner.stands_aside()
    }

    fn wants_seals(&self) -> bool {
        self.inner.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        self.inner.sealed(positions);
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        match self.inner.record(at).await? {
            Some(block) => self.looks.found(block, &self.runtime).await.map(Some),
            None => Ok(None),
        }
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
