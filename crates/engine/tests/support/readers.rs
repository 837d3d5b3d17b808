//! Sources that read in ways of their own. Do not own the records: a source in memory does.

use super::*;

/// Hands out one record a block, and wants told what becomes of each.
pub struct Told {
    pub inner: Arc<MemorySource>,
    /// Records from this position on are handed out twice.
    pub twice_from: u64,
    /// Blocks that were handed out.
    pub handed_out: Arc<AtomicUsize>,
}

impl Told {
    pub fn honest(inner: Arc<MemorySource>) -> Self {
        Self { inner, twice_from: u64::MAX, handed_out: Arc::default() }
    }
}

struct OneByOne {
    inner: Box<dyn Reader>,
    blocks: VecDeque<RecordBlock>,
    twice_from: u64,
    handed_out: Arc<AtomicUsize>,
}

#[async_trait]
impl Source for Told {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inner = self.inner.read(from).await?;
        let (twice_from, handed_out) = (self.twice_from, self.handed_out.clone());
        Ok(Box::new(OneByOne { inner, blocks: VecDeque::new(), twice_from, handed_out }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    fn wants_fates(&self, _: &Partition) -> bool {
        true
    }
}

#[async_trait]
impl Reader for OneByOne {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if self.blocks.is_empty() {
            match self.inner.next().await? {
                Event::Block(block) => {
                    for row in 0..block.len() {
                        let mut one = BlockBuilder::new(block.partition.clone(), block.positions[row].into());
                        one.push(block.positions[row], block.times_ms[row], Some(block.payloads.get(row)));
                        let one = one.take();
                        if one.positions[0] >= self.twice_from {
                            self.blocks.push_back(one.clone());
                        }
                        self.blocks.push_back(one);
                    }
                }
                other => return Ok(other),
            }
        }
        self.handed_out.fetch_add(1, Ordering::SeqCst);
        Ok(Event::Block(self.blocks.pop_front().expect("a block has records")))
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

/// Refuses to go on behind the last record, as a file does that is damaged there. Says that it ends early where `ends_at` says so.
pub struct Damaged {
    pub inner: Arc<MemorySource>,
    pub ends_at: Option<Position>,
}

struct DamagedReader(Box<dyn Reader>);

#[async_trait]
impl Source for Damaged {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let ends = self.inner.ends().await?;
        Ok(ends.into_iter().map(|(partition, end)| (partition, self.ends_at.unwrap_or(end))).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(DamagedReader(self.inner.read(from).await?)))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }
}

#[async_trait]
impl Reader for DamagedReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.0.next().await? {
            Event::Block(block) => Ok(Event::Block(block)),
            Event::CaughtUp { .. } | Event::Ended { .. } | Event::Found(_) | Event::Removed { .. } => {
                Err(SourceError::new(SourceFault::Refused, "damaged from here on"))
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.0.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.0.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.0.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.0.resume(partition);
    }
}
