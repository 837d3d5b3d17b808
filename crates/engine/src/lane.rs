//! The reading side of a lane: one task that keeps blocks, steps and cuts in order.
//!
//! Owns the order of records within the lane, the back-pressure towards the source, the watermark, and when to cut. Does
//! not own what happens to a cut ([`crate::seal`]).
//!
//! Blocks are decoded on compute threads, several at once, and absorbed in the order in which they were read; events of a
//! partition wait in the same queue, so that "caught up" is never told before the records before it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::operator::StateRead;
use dataflow::{
    Batch, Decoded, Decoder, Event, Operator, Partition, PartitionStart, ReadFrom, Reader, Reason,
    RecordBlock, Reject, Source, SourceFault,
};
use futures::future::BoxFuture;
use metrics::{counter, gauge};
use protocol::record::{Body, Genesis, PartitionGenesis};
use tokio::sync::{mpsc, watch};

use crate::context::{Context, Target};
use crate::cut::{Builder, Cut};
use crate::refuse::Refused;
use crate::retry::Backoff;
use crate::seal::{self, Encoding};
use crate::status::Phase;
use crate::watermark::Watermarks;
use crate::{EngineError, checkpoint, segment};

/// Blocks decoded or decoding ahead of the steps, for each compute thread: one to work on, one to follow.
const BLOCKS_AHEAD: usize = 2;

/// How often the lane looks at things that no event brings: idleness, skew, lag.
const TICK: Duration = Duration::from_secs(1);

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every partition has ended or stands at the place where the drain was to stop.
    Complete,
    /// The process was asked to stop.
    Asked,
}

/// A partition as the lane reads it.
struct Reading {
    partition: Partition,
    /// Position after the last absorbed record: where the next cut of it begins or ends.
    next: u64,
    /// Position after the last sealed record.
    cut: u64,
    /// Where a drain stops; `None` without `--drain`.
    stop_at: Option<u64>,
    ended: bool,
    paused: bool,
}

/// What waits for its turn.
enum Waiting {
    Block {
        partition: usize,
        next: u64,
        leader_epoch: i32,
        bytes: u64,
        decoded: BoxFuture<'static, Option<Decoded>>,
    },
    CaughtUp {
        partition: usize,
        next: u64,
        leader_epoch: i32,
    },
    Ended {
        partition: usize,
        next: u64,
    },
}

/// The reading side.
pub struct LaneTask {
    context: Arc<Context>,
    pipeline: Arc<str>,
    source: Arc<dyn Source>,
    reader: Box<dyn Reader>,
    decoder: Arc<dyn Decoder>,
    steps: Vec<Box<dyn Operator>>,
    cuts: mpsc::Sender<Encoding>,
    readings: Vec<Reading>,
    waiting: VecDeque<Waiting>,
    watermarks: Watermarks,
    builder: Builder,
    cut_number: u64,
    drain: bool,
    problem: bool,
    ends_asked: Option<Duration>,
    refused: mpsc::Receiver<Refused>,
}

/// What a lane task needs to begin.
pub struct Parts {
    /// What the tasks share.
    pub context: Arc<Context>,
    /// The pipeline's name.
    pub pipeline: Arc<str>,
    /// The source, for lag and for where a drain ends.
    pub source: Arc<dyn Source>,
    /// The running read.
    pub reader: Box<dyn Reader>,
    /// The format.
    pub decoder: Arc<dyn Decoder>,
    /// The steps, their state restored.
    pub steps: Vec<Box<dyn Operator>>,
    /// Towards the seal.
    pub cuts: mpsc::Sender<Encoding>,
    /// Stop when everything that is there now has been read.
    pub drain: bool,
    /// Rows that the server refuses.
    pub refused: mpsc::Receiver<Refused>,
}

impl LaneTask {
    /// A lane that stands where the journal says.
    pub async fn new(parts: Parts) -> Self {
        let Parts { context, pipeline, source, reader, decoder, steps, cuts, drain, refused } = parts;
        let now = context.runtime.elapsed();
        let settings = &context.settings;
        let (readings, watermarks) = {
            let journal = context.journal.lock().await;
            let lane = journal.lane();
            let mut marks = Watermarks::new(lane.watermark_ms, settings.idle_after, settings.future_ms_max);
            let mut readings = Vec::new();
            for p in &lane.partitions {
                marks.add(p.time_ms_max, now);
                readings.push(reading(Partition::new(p.stream.as_str(), p.index), p.next));
            }
            (readings, marks)
        };
        Self {
            context,
            pipeline,
            source,
            reader,
            decoder,
            steps,
            cuts,
            readings,
            waiting: VecDeque::new(),
            watermarks,
            builder: Builder::default(),
            cut_number: 0,
            drain,
            problem: false,
            ends_asked: None,
            refused,
        }
    }

    /// Reads until the end, the drain's end, or until `stop` turns true; then cuts what is left.
    ///
    /// # Errors
    /// When the source refuses, a step cannot go on, or a partition cannot be added.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<End, EngineError> {
        if self.drain {
            self.ask_for_stops().await;
        }
        let ahead_max = BLOCKS_AHEAD * self.context.runtime.compute_threads();
        let mut backoff = Backoff::new(self.context.settings.retry_pause_max);
        let mut tick = self.context.runtime.sleep(TICK);
        let mut age: Option<BoxFuture<'static, ()>> = None;
        let end = loop {
            if *stop.borrow() {
                break End::Asked;
            }
            if self.is_complete() {
                break End::Complete;
            }
            if age.is_none() && !self.builder.is_empty() {
                age = Some(self.context.runtime.sleep(self.context.settings.batch_age_max));
            }
            tokio::select! {
                biased;
                _ = stop.changed() => {}
                Some(refused) = self.refused.recv() => self.refuse(refused)?,
                decoded = front(&mut self.waiting), if !self.waiting.is_empty() => {
                    self.absorb(decoded).await?;
                    if self.is_full() {
                        self.cut().await?;
                        age = None;
                    }
                }
                () = until(&mut age) => {
                    self.cut().await?;
                    age = None;
                }
                event = self.reader.next(), if self.waiting.len() < ahead_max => match event {
                    Ok(event) => {
                        backoff = Backoff::new(self.context.settings.retry_pause_max);
                        self.take(event).await?;
                    }
                    Err(error) if error.fault == SourceFault::Away => {
                        self.tell_problem(Some(error.message.clone()));
                        if backoff.is_worth_a_line() {
                            tracing::warn!(%error, "the source is away; trying again");
                        }
                        backoff.pause(&*self.context.runtime).await;
                    }
                    Err(error) => return Err(error.into()),
                },
                () = &mut tick => {
                    self.tick().await;
                    tick = self.context.runtime.sleep(TICK);
                }
            }
        };
        self.context.status.update(|s| s.phase = Phase::Draining);
        self.finish().await?;
        Ok(end)
    }

    /// What was read is absorbed and cut; nothing more is read. Then waits until all of it is settled, for a row that the
    /// server refuses comes back here to be sealed as a dead letter.
    async fn finish(&mut self) -> Result<(), EngineError> {
        while !self.waiting.is_empty() {
            let decoded = front(&mut self.waiting).await;
            self.absorb(decoded).await?;
            if self.is_full() {
                self.cut().await?;
            }
        }
        self.cut().await?;
        while !is_settled(&self.context, self.cut_number).await {
            tokio::select! {
                biased;
                Some(refused) = self.refused.recv() => {
                    self.refuse(refused)?;
                    self.cut().await?;
                }
                () = self.context.quiet.notified() => {}
                // The seal reports its own failure; here it is enough not to wait for it.
                () = self.cuts.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    /// A refused row becomes a dead letter, and its keys are forgotten in the same seal (C10).
    fn refuse(&mut self, refused: Refused) -> Result<(), EngineError> {
        let Refused { refusal, row, raw, message } = refused;
        let partition = Partition::new("", 0);
        let mut batch = Batch {
            partition: partition.clone(),
            rows: row,
            positions: vec![0],
            times_ms: vec![TIME_UNKNOWN_MS],
        };
        // Steps without state give the row its time again; steps with state forget it. No step changes columns so far; one
        // that does will have to keep its input's keys beside the row.
        for step in &mut self.steps {
            match step.state() {
                Some(state) => state.forget(&batch)?,
                None => {
                    let probed = step.probe(batch)?;
                    batch = step.finish(probed, &[])?.batch;
                }
            }
        }
        if batch.is_empty() {
            return Err(EngineError::Internal("a step that drops a row it let pass before"));
        }
        let reject = Reject {
            partition,
            position: 0,
            time_ms: batch.times_ms[0],
            reason: Reason::Refused,
            column: String::new(),
            message,
            key: None,
            headers: Vec::new(),
            raw: raw.into_bytes(),
        };
        self.builder.refused(refusal, reject, self.context.runtime.elapsed());
        Ok(())
    }

    fn is_full(&self) -> bool {
        let settings = &self.context.settings;
        self.builder.counts().written >= settings.batch_rows_max
            || self.builder.bytes() >= settings.batch_bytes_max
    }

    fn is_complete(&self) -> bool {
        self.waiting.is_empty()
            && self.readings.iter().all(|r| r.ended || r.stop_at.is_some_and(|stop_at| r.next >= stop_at))
    }

    /// Asks where a drain ends. The source may be away; then the drain waits for it.
    async fn ask_for_stops(&mut self) {
        let mut backoff = Backoff::new(self.context.settings.retry_pause_max);
        let ends = loop {
            match self.source.ends().await {
                Ok(ends) => break ends,
                Err(error) => {
                    if backoff.is_worth_a_line() {
                        tracing::warn!(%error, "the source does not say where it ends; trying again");
                    }
                    backoff.pause(&*self.context.runtime).await;
                }
            }
        };
        for (partition, end) in ends {
            if let Some(reading) = self.readings.iter_mut().find(|r| r.partition == partition) {
                reading.stop_at = Some(end);
            }
        }
    }

    fn index(&self, partition: &Partition) -> Result<usize, EngineError> {
        let found = self.readings.iter().position(|r| r.partition == *partition);
        found.ok_or(EngineError::Internal("a source that hands out a partition it was not asked for"))
    }

    async fn take(&mut self, event: Event) -> Result<(), EngineError> {
        if self.problem {
            self.tell_problem(None);
        }
        match event {
            Event::Block(block) => self.decode(block)?,
            Event::CaughtUp { partition, next, leader_epoch } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::CaughtUp { partition, next, leader_epoch });
            }
            Event::Ended { partition, next } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::Ended { partition, next });
            }
            Event::Found(start) => self.add(start).await?,
        }
        Ok(())
    }

    fn decode(&mut self, block: RecordBlock) -> Result<(), EngineError> {
        let partition = self.index(&block.partition)?;
        let (next, leader_epoch) = (block.next, block.leader_epoch);
        let bytes = block.payloads.bytes.len() as u64;
        let decoder = self.decoder.clone();
        let decoded = self.context.runtime.run(move || decoder.decode(&block));
        self.waiting.push_back(Waiting::Block { partition, next, leader_epoch, bytes, decoded });
        Ok(())
    }

    /// A partition appeared while reading: its genesis is durable before its first record is read.
    async fn add(&mut self, start: PartitionStart) -> Result<(), EngineError> {
        tracing::info!(partition = %start.partition, next = start.next, "a partition was added");
        let genesis = Genesis { partitions: vec![genesis(&start)], ..Default::default() };
        self.context.journal.lock().await.append(Body::Genesis(genesis)).await?;
        self.watermarks.add(TIME_UNKNOWN_MS, self.context.runtime.elapsed());
        let mut added = reading(start.partition.clone(), start.next);
        // A drain that began before the partition was there owes it nothing.
        added.stop_at = self.drain.then_some(start.next);
        self.readings.push(added);
        let from = ReadFrom {
            partition: start.partition,
            identity: start.identity,
            next: start.next,
            leader_epoch: start.leader_epoch,
        };
        Ok(self.reader.add(from).await?)
    }

    async fn absorb(&mut self, ready: Ready) -> Result<(), EngineError> {
        match ready {
            Ready::Block { partition, next, leader_epoch, bytes, decoded } => {
                let decoded = decoded.ok_or(EngineError::Internal("decode"))?;
                let records = (decoded.batch.len() + decoded.rejects.len()) as u64;
                counter!("forebay_records_read_total").increment(records);
                counter!("forebay_bytes_read_total").increment(bytes);
                self.builder.read(records, self.context.runtime.elapsed());
                self.builder.rejects(decoded.rejects);
                self.step(partition, decoded.batch).await?;
                self.advance(partition, next, leader_epoch);
                self.throttle(partition);
            }
            Ready::CaughtUp { partition, next, leader_epoch } => {
                self.watermarks.caught_up(partition);
                self.advance(partition, next, leader_epoch);
            }
            Ready::Ended { partition, next } => {
                self.watermarks.ended(partition);
                self.readings[partition].ended = true;
                self.advance(partition, next, dataflow::block::NO_LEADER_EPOCH);
            }
        }
        Ok(())
    }

    fn advance(&mut self, partition: usize, next: u64, leader_epoch: i32) {
        let reading = &mut self.readings[partition];
        if next > reading.next {
            reading.next = next;
            let time = self.watermarks.time_ms_max(partition);
            self.builder.moved(partition as u32, reading.cut, next, leader_epoch, time);
        }
    }

    /// Takes a batch through all steps, in the two phases of each.
    async fn step(&mut self, partition: usize, mut batch: Batch) -> Result<(), EngineError> {
        for step in &mut self.steps {
            let mut probed = step.probe(batch)?;
            let answers = read_state(&self.context, std::mem::take(&mut probed.reads)).await?;
            let mut output = step.finish(probed, &answers)?;
            self.builder.dropped(&output);
            counter!("forebay_records_duplicate_total").increment(output.duplicates);
            counter!("forebay_records_filtered_total").increment(output.filtered);
            counter!("forebay_records_late_total").increment(output.late);
            self.builder.rejects(std::mem::take(&mut output.rejects));
            batch = output.batch;
        }
        let (wall_ms, now) = (self.context.runtime.wall_ms(), self.context.runtime.elapsed());
        self.watermarks.observe(partition, &batch.times_ms, wall_ms, now);
        if !batch.is_empty() {
            let sample = batch.times_ms.last().copied().filter(|t| *t != TIME_UNKNOWN_MS);
            self.builder.rows(batch.rows, sample);
        }
        Ok(())
    }

    /// A partition that runs far ahead of the others waits for them, so that state need not span the distance.
    fn throttle(&mut self, partition: usize) {
        let Some(skew_ms) = self.context.settings.skew_ms_max else { return };
        let reading = &mut self.readings[partition];
        if !reading.paused && self.watermarks.is_ahead(partition, skew_ms) {
            reading.paused = true;
            self.reader.pause(&reading.partition);
        }
    }

    async fn tick(&mut self) {
        if let Some(skew_ms) = self.context.settings.skew_ms_max {
            for (n, reading) in self.readings.iter_mut().enumerate() {
                // Half the distance before it may run again, so that it does not stop and go with every block.
                if reading.paused && !self.watermarks.is_ahead(n, skew_ms / 2) {
                    reading.paused = false;
                    self.reader.resume(&reading.partition);
                }
            }
        }
        let now = self.context.runtime.elapsed();
        if self.ends_asked.is_none_or(|at| now.saturating_sub(at) >= self.context.settings.lag_every) {
            self.ends_asked = Some(now);
            self.ask_for_lag();
        }
        self.tell();
    }

    /// Lag is asked for beside the lane: a source that does not answer must not hold records up.
    fn ask_for_lag(&self) {
        let (context, source) = (self.context.clone(), self.source.clone());
        let task = async move {
            let bound = context.settings.lag_every;
            if let Some(Ok(ends)) = context.runtime.timeout(bound, source.ends()).await {
                context.status.update(|s| {
                    for (partition, end) in ends {
                        s.partitions.entry(partition.to_string()).or_default().end = Some(end);
                    }
                });
            }
        };
        self.context.runtime.spawn("lag", Box::pin(task)).detach();
    }

    fn tell(&mut self) {
        let (mut keys, mut bytes) = (0, 0);
        for step in &mut self.steps {
            let name = step.name().to_owned();
            if let Some(state) = step.state() {
                keys += state.keys();
                bytes += state.memory_bytes();
                gauge!("forebay_state_keys", "step" => name.clone()).set(state.keys() as f64);
                gauge!("forebay_state_bytes", "step" => name).set(state.memory_bytes() as f64);
            }
        }
        let unsealed = self.builder.counts();
        let readings: Vec<(String, u64)> =
            self.readings.iter().map(|r| (r.partition.to_string(), r.next)).collect();
        self.context.status.update(|s| {
            s.state_keys = keys;
            s.state_bytes = bytes;
            s.unsealed = unsealed;
            for (name, next) in readings {
                let partition = s.partitions.entry(name.clone()).or_default();
                partition.next = next;
                if let Some(end) = partition.end {
                    gauge!("forebay_partition_lag_records", "partition" => name)
                        .set(end.saturating_sub(next) as f64);
                }
            }
        });
    }

    fn tell_problem(&mut self, problem: Option<String>) {
        self.problem = problem.is_some();
        self.context.status.update(|s| s.source_problem = problem);
    }

    /// Cuts what was gathered and hands it to the seal; waits while the seal is behind.
    async fn cut(&mut self) -> Result<(), EngineError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let now = self.context.runtime.elapsed();
        let mut cut: Cut = self.builder.take(self.cut_number);
        self.cut_number += 1;
        cut.watermark_ms = self.watermarks.advance(now);
        cut.idle = self.watermarks.idle(now);
        let with_snapshots = {
            let journal = self.context.journal.lock().await;
            checkpoint::is_due(&self.context, journal.lane())
        };
        let mut snapshots = Vec::new();
        let mut index = 0;
        for step in &mut self.steps {
            let Some(state) = step.state() else { continue };
            let delta = state.seal(cut.watermark_ms);
            if !delta.is_empty() {
                cut.states.push((index, delta));
            }
            if with_snapshots {
                snapshots.push((index, state.snapshot()));
            }
            index += 1;
        }
        cut.snapshots = with_snapshots.then_some(snapshots);
        for range in &cut.ranges {
            self.readings[range.partition as usize].cut = range.next;
        }
        self.tell();
        let encoding = seal::encode(&self.context, &self.pipeline, cut);
        // The receiver is gone only if the seal has failed; its error is the one that counts.
        self.cuts.send(encoding).await.map_err(|_| EngineError::Internal("seal"))
    }
}

fn reading(partition: Partition, next: u64) -> Reading {
    Reading { partition, next, cut: next, stop_at: None, ended: false, paused: false }
}

/// A partition's entry in a genesis.
pub fn genesis(start: &PartitionStart) -> PartitionGenesis {
    PartitionGenesis {
        stream: start.partition.stream.to_string(),
        index: start.partition.index,
        identity: start.identity.clone(),
        next: start.next,
        leader_epoch: start.leader_epoch,
    }
}

/// What has had its turn.
enum Ready {
    Block { partition: usize, next: u64, leader_epoch: i32, bytes: u64, decoded: Option<Decoded> },
    CaughtUp { partition: usize, next: u64, leader_epoch: i32 },
    Ended { partition: usize, next: u64 },
}

/// Takes the front of the queue once it is ready. Dropped before that, it has taken nothing.
async fn front(waiting: &mut VecDeque<Waiting>) -> Ready {
    let decoded = match waiting.front_mut() {
        Some(Waiting::Block { decoded, .. }) => decoded.await,
        Some(Waiting::CaughtUp { .. } | Waiting::Ended { .. }) => None,
        None => std::future::pending().await,
    };
    match waiting.pop_front().expect("the front was looked at") {
        Waiting::Block { partition, next, leader_epoch, bytes, .. } => {
            Ready::Block { partition, next, leader_epoch, bytes, decoded }
        }
        Waiting::CaughtUp { partition, next, leader_epoch } => {
            Ready::CaughtUp { partition, next, leader_epoch }
        }
        Waiting::Ended { partition, next } => Ready::Ended { partition, next },
    }
}

/// True if that many cuts are sealed and every sealed frame is settled.
async fn is_settled(context: &Context, cuts: u64) -> bool {
    if context.sealed_cuts.load(Ordering::Acquire) < cuts {
        return false;
    }
    let journal = context.journal.lock().await;
    let tables = &journal.lane().tables;
    let settled = |t: &Target| t.frontier.load(Ordering::Acquire) == tables[t.index as usize].next_ordinal;
    context.targets.iter().all(settled)
}

async fn until(timer: &mut Option<BoxFuture<'static, ()>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// Reads what a step asked for, in order.
async fn read_state(context: &Context, reads: Vec<StateRead>) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut answers = Vec::with_capacity(reads.len());
    for read in reads {
        let object = format!("{}/{}", context.folder, read.object);
        let bytes = segment::read(&*context.store, &object, read.offset, u64::from(read.len), None).await?;
        answers.push(bytes.to_vec());
    }
    Ok(answers)
}
