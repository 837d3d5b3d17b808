//! A source that lies, and a decoder that does.
//!
//! Owns the lies about positions, ends and rejects. Does not own the records ([`crate::broker`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Decoded, Decoder, Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Schema,
    Source, SourceError, Streams,
};

use crate::variant::Variant;

/// A source that lies.
pub struct LyingSource {
    /// The honest one.
    pub inner: Arc<dyn Source>,
    /// The lie.
    pub variant: Variant,
    /// Set once the source was read.
    pub is_read: Arc<AtomicBool>,
}

#[async_trait]
impl Source for LyingSource {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut ends = self.inner.ends().await?;
        if self.variant == Variant::EndOneEarly {
            ends.iter_mut().for_each(|(_, end)| *end = end.saturating_sub(1));
        }
        Ok(ends)
    }

    async fn read(&self, mut from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        if self.variant == Variant::SealNotContiguous {
            from.iter_mut().for_each(|from| from.next += 1);
        }
        if self.variant == Variant::LeaderEpochForgotten {
            from.iter_mut().for_each(|from| from.leader_epoch = NO_LEADER_EPOCH);
        }
        let ended = match self.variant {
            Variant::WatermarkOfOneInput => from.clone(),
            _ => Vec::new(),
        };
        let mut reader = self.inner.read(from).await?;
        if !ended.is_empty() {
            reader = Box::new(LyingReader { inner: reader, ended });
        }
        self.is_read.store(true, Ordering::Relaxed);
        Ok(reader)
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        if self.variant == Variant::PublishedIgnored {
            return Ok(Vec::new());
        }
        self.inner.published().await
    }
}

/// A read whose partitions are said to have ended when it begins.
struct LyingReader {
    inner: Box<dyn Reader>,
    ended: Vec<ReadFrom>,
}

#[async_trait]
impl Reader for LyingReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.ended.pop() {
            Some(ReadFrom { partition, next, .. }) => Ok(Event::Ended { partition, next }),
            None => self.inner.next().await,
        }
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

/// A decoder that drops what it cannot read.
pub struct LyingDecoder(pub Arc<dyn Decoder>);

impl Decoder for LyingDecoder {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        Decoded { rejects: Vec::new(), ..self.0.decode(block) }
    }
}
