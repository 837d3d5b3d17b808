//! Workloads as a source: the records of the experiments without a broker between.
//!
//! Owns pace and positions. Does not own the records (`workloads` does), nor how they get into Kafka (`kafka::produce`).
//! A partition is a publisher, a position the number of its record; each partition ends after its last record.
//! The identity is the whole specification: with another one, the same positions stand for other records.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position;
use dataflow::{
    BlockBuilder, Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source,
    SourceError, SourceFault, Streams,
};
use futures::future::BoxFuture;
use workloads::glassflow;

/// Records that publishers send, each the same at every call.
pub trait Workload: Send + Sync {
    /// The word in the pipeline file.
    fn name(&self) -> &'static str;

    /// All that decides the records, readable; another text means other records.
    fn identity(&self) -> String;

    /// The number of publishers.
    fn publishers(&self) -> u32;

    /// Records of one publisher: its positions from 0.
    fn records(&self, publisher: u32) -> u64;

    /// The time at which the record is taken to be sent, in Unix milliseconds; does not fall with the position.
    fn time_ms(&self, publisher: u32, position: u64) -> i64;

    /// Appends a record's body.
    fn write(&self, publisher: u32, position: u64, out: &mut Vec<u8>);
}

impl Workload for glassflow::Workload {
    fn name(&self) -> &'static str {
        "glassflow"
    }

    fn identity(&self) -> String {
        format!("{:?}", self.spec())
    }

    fn publishers(&self) -> u32 {
        self.spec().publishers
    }

    fn records(&self, publisher: u32) -> u64 {
        self.records(publisher)
    }

    fn time_ms(&self, _publisher: u32, position: u64) -> i64 {
        let spec = self.spec();
        let sent = i128::from(position) * i128::from(spec.publishers) * 1_000;
        let since_start_ms = sent / i128::from(spec.uniques_per_second);
        // At most 2^40 positions of 2^16 publishers: far below what an i64 of milliseconds holds.
        i64::from(spec.start_time_s) * 1_000 + i64::try_from(since_start_ms).unwrap_or(i64::MAX / 2)
    }

    fn write(&self, publisher: u32, position: u64, out: &mut Vec<u8>) {
        self.write(publisher, position, out);
    }
}

/// A workload as partitions.
pub struct GeneratorSource {
    workload: Arc<dyn Workload>,
    runtime: Arc<dyn Runtime>,
    records_per_second: Option<f64>,
}

impl GeneratorSource {
    /// All publishers of a workload, as fast as they are read.
    pub fn new(workload: Arc<dyn Workload>, runtime: Arc<dyn Runtime>) -> Self {
        Self { workload, runtime, records_per_second: None }
    }

    /// The same at this pace, counted over all partitions from the start of each reader.
    ///
    /// # Errors
    /// [`SourceFault::Config`] when the pace is not a number above 0.
    pub fn at_pace(self, records_per_second: f64) -> Result<Self, SourceError> {
        if !(records_per_second.is_finite() && records_per_second > 0.0) {
            let message =
                format!("`{records_per_second}` records per second is no pace: give a number above 0");
            return Err(SourceError::new(SourceFault::Config, message));
        }
        Ok(Self { records_per_second: Some(records_per_second), ..self })
    }

    fn partition(&self, publisher: u32) -> Partition {
        Partition::new(self.workload.name(), publisher)
    }
}

fn check(workload: &dyn Workload, from: &ReadFrom) -> Result<(), SourceError> {
    let partition = &from.partition;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message).at(partition));
    if &*partition.stream != workload.name() || partition.index >= workload.publishers() {
        return refuse(format!(
            "generator `{}` has no partition `{partition}`: it has `{}` publishers",
            workload.name(),
            workload.publishers()
        ));
    }
    let identity = workload.identity();
    if from.identity != identity {
        let recorded = &from.identity;
        return refuse(format!("the workload is another one: recorded `{recorded}`, now `{identity}`"));
    }
    let records = workload.records(partition.index);
    if from.next > records.into() {
        return refuse(format!("`{partition}` has `{records}` records, so no position `{}`", from.next));
    }
    Ok(())
}

#[async_trait]
impl Source for GeneratorSource {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    fn covers(&self, stream: &str) -> bool {
        stream == self.workload.name()
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let start = |publisher| PartitionStart {
            partition: self.partition(publisher),
            identity: self.workload.identity(),
            next: 0,
            first: 0,
            leader_epoch: NO_LEADER_EPOCH,
        };
        Ok((0..self.workload.publishers()).map(start).collect())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let end = |publisher| (self.partition(publisher), self.workload.records(publisher).into());
        Ok((0..self.workload.publishers()).map(end).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        for from in &from {
            check(&*self.workload, from)?;
        }
        let pace = self.records_per_second.map(|records_per_second| Pace {
            records_per_second,
            began: self.runtime.elapsed(),
            sent: 0,
        });
        Ok(Box::new(GeneratorReader {
            workload: self.workload.clone(),
            runtime: self.runtime.clone(),
            pace,
            read: from.iter().map(|from| from.partition.clone()).collect(),
            cursors: from.into_iter().map(Cursor::new).collect(),
            leaving: Vec::new(),
            making: None,
        }))
    }

    /// A generator keeps no positions for others.
    async fn publish(&self, _positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }
}

struct Cursor {
    partition: Partition,
    next: u64,
    is_paused: bool,
}

impl Cursor {
    fn new(from: ReadFrom) -> Self {
        Self { partition: from.partition, next: position::low(from.next), is_paused: false }
    }
}

/// How many records may have been sent by now.
struct Pace {
    records_per_second: f64,
    began: Duration,
    sent: u64,
}

impl Pace {
    /// Blocks of a twentieth of a second: smooth enough for latencies, few enough to cost nothing.
    fn block_records_max(&self) -> u64 {
        (self.records_per_second / 20.0).clamp(1.0, BlockBuilder::RECORDS_MAX as f64) as u64
    }

    /// How long to wait until the next record is due; zero if it is.
    fn wait(&self, now: Duration) -> Duration {
        let due_s = self.sent as f64 / self.records_per_second;
        // A due time that does not fit is ages away; it is asked for again after an hour.
        let due = Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX);
        due.saturating_sub(now.saturating_sub(self.began)).min(Duration::from_secs(3_600))
    }
}

struct GeneratorReader {
    workload: Arc<dyn Workload>,
    runtime: Arc<dyn Runtime>,
    pace: Option<Pace>,
    /// The one to be served next stands first; those that have ended are gone.
    cursors: VecDeque<Cursor>,
    /// Partitions that are read, or were to their end.
    read: BTreeSet<Partition>,
    /// Taken away, and not reported yet.
    leaving: Vec<Partition>,
    /// The block under way. It stays here when `next` is dropped.
    making: Option<BoxFuture<'static, Option<RecordBlock>>>,
}

impl GeneratorReader {
    /// Starts the next block, or reports the end of a partition; `None` if all are paused or have ended.
    fn advance(&mut self) -> Option<Event> {
        let index = self.cursors.iter().position(|cursor| !cursor.is_paused)?;
        let cursor = &mut self.cursors[index];
        let publisher = cursor.partition.index;
        let left = self.workload.records(publisher).saturating_sub(cursor.next);
        if left == 0 {
            let Cursor { partition, next, .. } = self.cursors.remove(index)?;
            return Some(Event::Ended { partition, next: next.into() });
        }
        let records_max =
            self.pace.as_ref().map_or(BlockBuilder::RECORDS_MAX as u64, Pace::block_records_max);
        let records = left.min(records_max);
        let (workload, partition, next) = (self.workload.clone(), cursor.partition.clone(), cursor.next);
        self.making = Some(self.runtime.run(move || make(&*workload, partition, next, records)));
        self.cursors.rotate_left(index);
        None
    }

    /// Takes over the block that was made for the first cursor.
    fn finish(&mut self, block: &RecordBlock) {
        if let Some(pace) = &mut self.pace {
            pace.sent += block.len() as u64;
        }
        if let Some(mut cursor) = self.cursors.pop_front() {
            cursor.next = position::low(block.next);
            self.cursors.push_back(cursor);
        }
    }

    fn set_paused(&mut self, partition: &Partition, is_paused: bool) {
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.partition == *partition) {
            cursor.is_paused = is_paused;
        }
    }
}

/// At most `records` records from `next` on.
fn make(workload: &dyn Workload, partition: Partition, next: u64, records: u64) -> RecordBlock {
    let publisher = partition.index;
    let mut builder = BlockBuilder::new(partition, next.into());
    for position in next..next + records {
        let time_ms = workload.time_ms(publisher, position);
        builder.push_with(position, time_ms, |out| workload.write(publisher, position, out));
        if builder.is_full() {
            break;
        }
    }
    builder.take()
}

#[async_trait]
impl Reader for GeneratorReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            if let Some(making) = &mut self.making {
                let made = making.await;
                self.making = None;
                let Some(block) = made else {
                    return Err(SourceError::new(SourceFault::Refused, "the generator panicked"));
                };
                self.finish(&block);
                return Ok(Event::Block(block));
            }
            if let Some(partition) = self.leaving.pop() {
                self.cursors.retain(|cursor| cursor.partition != partition);
                self.read.remove(&partition);
                return Ok(Event::Removed { partition });
            }
            if let Some(pace) = &self.pace {
                let wait = pace.wait(self.runtime.elapsed());
                if !wait.is_zero() {
                    self.runtime.sleep(wait).await;
                    continue;
                }
            }
            if let Some(event) = self.advance() {
                return Ok(event);
            }
            if self.making.is_none() {
                // Only `resume` and `add` can change this, and they need the reader back.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        check(&*self.workload, &from)?;
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        self.cursors.push_back(Cursor::new(from));
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        // A block under way is handed out first: it belongs to the cursor that stands first.
        if self.read.contains(partition) && !self.leaving.contains(partition) {
            self.leaving.push(partition.clone());
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
