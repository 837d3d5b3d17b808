//! A source whose partitions carry the number of its input.
//!
//! Owns the number alone: it is put on what comes from the source and taken off what goes there, so that no source has to know that there
//! are others. Does not own which number an input has ([`crate::inputs`]).

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError, Streams,
};

/// A source whose partitions carry the number of its input.
pub struct Numbered {
    source: Arc<dyn Source>,
    input: u32,
}

impl Numbered {
    /// `source` as the input `input`.
    pub fn new(source: Arc<dyn Source>, input: u32) -> Self {
        Self { source, input }
    }

    fn start(&self, start: PartitionStart) -> PartitionStart {
        PartitionStart { partition: start.partition.of_input(self.input), ..start }
    }

    fn places(&self, places: Vec<(Partition, Position)>) -> Vec<(Partition, Position)> {
        places.into_iter().map(|(partition, next)| (partition.of_input(self.input), next)).collect()
    }
}

/// A partition as its source knows it.
fn plain(partition: &Partition) -> Partition {
    partition.clone().of_input(0)
}

fn from_plain(from: ReadFrom) -> ReadFrom {
    ReadFrom { partition: from.partition.of_input(0), ..from }
}

fn numbered(error: SourceError, input: u32) -> SourceError {
    SourceError { partition: error.partition.map(|partition| partition.of_input(input)), ..error }
}

#[async_trait]
impl Source for Numbered {
    fn streams(&self) -> Streams {
        self.source.streams()
    }

    fn connect(&self) {
        self.source.connect();
    }

    fn covers(&self, stream: &str) -> bool {
        self.source.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let shown = self.source.partitions().await.map_err(|error| numbered(error, self.input))?;
        Ok(shown.into_iter().map(|start| self.start(start)).collect())
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        let off = |start: PartitionStart| PartitionStart { partition: plain(&start.partition), ..start };
        let shown = shown.into_iter().map(off).collect();
        let known = known.into_iter().map(from_plain).collect();
        let shown = self.source.recognize(shown, known).await.map_err(|error| numbered(error, self.input))?;
        Ok(shown.into_iter().map(|start| self.start(start)).collect())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let ends = self.source.ends().await.map_err(|error| numbered(error, self.input))?;
        Ok(self.places(ends))
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        let from: Vec<_> = from.iter().map(|(partition, next)| (plain(partition), *next)).collect();
        let behind = self.source.behind(&from).await.map_err(|error| numbered(error, self.input))?;
        Ok(behind.into_iter().map(|(partition, count)| (partition.of_input(self.input), count)).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let from = from.into_iter().map(from_plain).collect();
        let reader = self.source.read(from).await.map_err(|error| numbered(error, self.input))?;
        Ok(Box::new(NumberedReader { reader, input: self.input }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let positions: Vec<_> = positions.iter().map(|(partition, next)| (plain(partition), *next)).collect();
        self.source.publish(&positions).await.map_err(|error| numbered(error, self.input))
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let published = self.source.published().await.map_err(|error| numbered(error, self.input))?;
        Ok(self.places(published))
    }

    fn reader(&self) -> Option<&'static str> {
        self.source.reader()
    }

    fn releases(&self) -> bool {
        self.source.releases()
    }

    fn wants_seals(&self) -> bool {
        self.source.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        let positions: Vec<_> = positions.iter().map(|(partition, next)| (plain(partition), *next)).collect();
        self.source.sealed(&positions);
    }

    fn wants_fates(&self, partition: &Partition) -> bool {
        self.source.wants_fates(&plain(partition))
    }

    fn stands_aside(&self) -> bool {
        self.source.stands_aside()
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let record = self.source.record(from_plain(at)).await.map_err(|error| numbered(error, self.input))?;
        Ok(record.map(|mut block| {
            block.partition.input = self.input;
            block
        }))
    }
}

struct NumberedReader {
    reader: Box<dyn Reader>,
    input: u32,
}

#[async_trait]
impl Reader for NumberedReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let mut event = self.reader.next().await.map_err(|error| numbered(error, self.input))?;
        let partition = match &mut event {
            Event::Block(block) => &mut block.partition,
            Event::CaughtUp { partition, .. }
            | Event::Ended { partition, .. }
            | Event::Removed { partition } => partition,
            Event::Found(start) => &mut start.partition,
        };
        partition.input = self.input;
        Ok(event)
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.reader.add(from_plain(from)).await.map_err(|error| numbered(error, self.input))
    }

    fn remove(&mut self, partition: &Partition) {
        self.reader.remove(&plain(partition));
    }

    fn pause(&mut self, partition: &Partition) {
        self.reader.pause(&plain(partition));
    }

    fn resume(&mut self, partition: &Partition) {
        self.reader.resume(&plain(partition));
    }
}
