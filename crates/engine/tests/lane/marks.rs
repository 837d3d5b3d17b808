//! A source that says something else of the place where a partition stands already.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Event, Partition, PartitionStart, Position, ReadFrom, Reader, Source, SourceError, Streams};
use engine::Pipeline;
use sources::memory::MemorySource;

use crate::run;
use crate::support::{Bench, Process};

/// Names `mark` as the leader epoch of whatever was read.
struct Marked {
    inner: Arc<MemorySource>,
    mark: Arc<AtomicI32>,
}

struct MarkedReader {
    inner: Box<dyn Reader>,
    mark: Arc<AtomicI32>,
}

#[async_trait]
impl Source for Marked {
    fn streams(&self) -> Streams {
        Streams::Files
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(MarkedReader { inner: self.inner.read(from).await?, mark: self.mark.clone() }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }
}

#[async_trait]
impl Reader for MarkedReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let mark = self.mark.load(Ordering::SeqCst);
        Ok(match self.inner.next().await? {
            Event::Block(mut block) => {
                block.leader_epoch = mark;
                Event::Block(block)
            }
            Event::CaughtUp { partition, next, .. } => {
                Event::CaughtUp { partition, next, leader_epoch: mark }
            }
            other => other,
        })
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

async fn until_marked(bench: &Bench, mark: i32) {
    for _ in 0..30_000 {
        let lane = bench.lane().await;
        if lane.partitions.len() == 2 && lane.partitions.iter().all(|p| p.leader_epoch == mark) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("mark {mark} was not sealed: {:?}", bench.lane().await.partitions);
}

#[test]
fn what_a_source_says_anew_of_a_position_is_sealed_though_it_has_not_moved() {
    run(async {
        let bench = Bench::new();
        let mark = Arc::new(AtomicI32::new(3));
        let pipeline = || {
            let source = Marked { inner: bench.source.clone(), mark: mark.clone() };
            Pipeline { inputs: bench.inputs(Arc::new(source)), ..bench.pipeline(false) }
        };
        bench.push(0..10);
        let running = Process::start(pipeline());
        until_marked(&bench, 3).await;
        running.kill().await;
        // Nothing is new but what it says of the place where it stands: a file has half a line more.
        mark.store(2, Ordering::SeqCst);
        let running = Process::start(pipeline());
        until_marked(&bench, 2).await;
        running.kill().await;
        let lane = bench.lane().await;
        assert_eq!(lane.partitions.iter().map(|p| p.next).collect::<Vec<_>>(), [5; 2]);
        assert_eq!(lane.counts.read, 10);
        bench.drain().await.expect("reads on");
        bench.assert_holds(0..10);
    });
}
