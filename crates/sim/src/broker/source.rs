//! The [`Source`] that the engine reads, and its readers.
//!
//! Owns when a read waits, ends or fails. Does not own the checks of what is read, which are the broker's.

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::Position;
use dataflow::{
    BlockBuilder, Event, Partition, PartitionStart, ReadFrom, Reader, Source, SourceError, SourceFault,
    Streams, position,
};
use tokio::sync::watch;

use super::{Broker, TOPIC};
use crate::executor::Pid;
use crate::records::Record;
use crate::world::World;

/// The broker as one process sees it.
pub struct SimSource {
    world: Arc<World>,
    /// Partitions that were cut before the process began.
    cuts: u64,
    /// Which of the partitions it has: those that belong to the input at this place.
    place: usize,
    pid: Pid,
}

impl SimSource {
    /// Of a process that begins now, for the input at `place`.
    pub fn new(world: Arc<World>, pid: Pid, place: usize) -> Self {
        let cuts = world.state().broker.cuts;
        Self { world, cuts, place, pid }
    }

    /// The numbers of its partitions.
    fn numbers(&self, broker: &Broker) -> Vec<usize> {
        let (place, inputs) = (self.place, self.world.plan.inputs as usize);
        (0..broker.streams.len()).filter(|n| n % inputs == place).collect()
    }

    async fn ask<T>(&self, answer: impl FnOnce(&mut Broker) -> T) -> Result<T, SourceError> {
        self.world.pause(200, 3_000).await;
        let answer = {
            let mut state = self.world.state();
            let now_us = state.now_us();
            state.broker.check(now_us)?;
            answer(&mut state.broker)
        };
        self.world.pause(100, 2_000).await;
        Ok(answer)
    }
}

#[async_trait]
impl Source for SimSource {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.ask(|b| self.numbers(b).into_iter().map(|n| b.start(n)).collect()).await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let ends = |b: &mut Broker| {
            let numbers = self.numbers(b).into_iter();
            numbers.map(|n| (Partition::new(TOPIC, n as u32), b.streams[n].end.into())).collect()
        };
        self.ask(ends).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inputs = self.world.plan.inputs as usize;
        let next = self.place + from.len() * inputs;
        self.ask(|b| from.iter().try_for_each(|at| b.check_epoch(at))).await??;
        let changes = self.world.state().broker.changes.subscribe();
        let cursors = from.into_iter().map(Cursor::new).collect();
        let (world, cuts, pid) = (self.world.clone(), self.cuts, self.pid);
        Ok(Box::new(SimReader { world, cuts, pid, changes, next, inputs, cursors }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let positions = positions.to_vec();
        let releases = self.releases();
        self.ask(move |b| {
            let lets_go_early = b.lets_go_early;
            for (partition, next) in positions {
                if let Some(stream) = b.streams.get_mut(partition.index as usize) {
                    let next = position::low(next);
                    stream.published = Some(next);
                    let released = if lets_go_early { stream.read_to } else { next };
                    if releases {
                        stream.released = stream.released.max(released);
                    }
                }
            }
        })
        .await
    }

    fn releases(&self) -> bool {
        self.world.plan.releases
    }

    fn wants_seals(&self) -> bool {
        self.world.plan.pushes
    }

    /// Who has sent the records is answered, and nobody has them any more.
    fn sealed(&self, positions: &[(Partition, Position)]) {
        let mut state = self.world.state();
        let lets_go_early = state.broker.lets_go_early;
        for (partition, next) in positions {
            if let Some(stream) = state.broker.streams.get_mut(partition.index as usize) {
                let answered = if lets_go_early { stream.read_to } else { position::low(*next) };
                stream.released = stream.released.max(answered);
            }
        }
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let published = |b: &mut Broker| {
            if !b.keeps_positions {
                return Vec::new();
            }
            let numbers = self.numbers(b).into_iter();
            numbers
                .filter_map(|n| Some((Partition::new(TOPIC, n as u32), b.streams[n].published?.into())))
                .collect()
        };
        self.ask(published).await
    }
}

struct Cursor {
    from: ReadFrom,
    /// Where it began.
    begin: u64,
    is_paused: bool,
    /// Taken away, and nobody has heard so yet.
    is_leaving: bool,
    /// `CaughtUp` was told at this position.
    told: Option<u64>,
    /// `Ended` was told: what comes later is for another reader.
    is_over: bool,
}

impl Cursor {
    pub(super) fn new(from: ReadFrom) -> Self {
        let begin = position::low(from.next);
        Self { from, begin, is_paused: false, is_leaving: false, told: None, is_over: false }
    }
}

struct SimReader {
    world: Arc<World>,
    cuts: u64,
    pid: Pid,
    changes: watch::Receiver<u64>,
    /// The number of the next partition that may appear, and by how much those of one input differ.
    next: usize,
    inputs: usize,
    cursors: Vec<Cursor>,
}

impl SimReader {
    /// What there is to tell now, if anything. Moves the cursor, so nothing waits between this and the answer.
    fn event(&mut self) -> Result<Option<Event>, SourceError> {
        let mut state = self.world.state();
        let now_us = state.now_us();
        state.broker.check(now_us)?;
        if self.next < state.broker.streams.len() {
            self.next += self.inputs;
            return Ok(Some(Event::Found(state.broker.start(self.next - self.inputs))));
        }
        if let Some(at) = self.cursors.iter().position(|cursor| cursor.is_leaving) {
            return Ok(Some(Event::Removed { partition: self.cursors.remove(at).from.partition }));
        }
        self.cursors.iter().filter(|cursor| !cursor.is_over).try_for_each(|cursor| {
            state.broker.check_epoch(&cursor.from)?;
            state.broker.check_whole(&cursor.from, self.cuts)
        })?;
        let Broker { hands_out_unverified, forgets_ends, .. } = state.broker;
        let first = state.random.below(self.cursors.len().max(1) as u64) as usize;
        for n in 0..self.cursors.len() {
            let at = (first + n) % self.cursors.len();
            let records_max = state.random.between(1, 12);
            let cursor = &mut self.cursors[at];
            let stream = &state.broker.streams[cursor.from.partition.index as usize];
            if cursor.is_paused || cursor.is_over || now_us < stream.lost_until_us {
                continue;
            }
            let begin = stream.records.partition_point(|r| u128::from(r.position) < cursor.from.next);
            let damaged = stream.damaged();
            let is_sound = |r: &&Record| hands_out_unverified || damaged.is_none_or(|at| r.position < at);
            let sound = || stream.records[begin..].iter().take(records_max as usize).take_while(is_sound);
            if begin < stream.records.len() && sound().next().is_none() {
                let message = format!("`{}` is damaged at {}", cursor.from.partition, cursor.from.next);
                return Err(SourceError::new(SourceFault::Refused, message).at(&cursor.from.partition));
            }
            if begin < stream.records.len() {
                let mut builder = BlockBuilder::new(cursor.from.partition.clone(), cursor.from.next);
                for record in sound() {
                    let flipped = u64::from(damaged == Some(record.position));
                    let record = Record { key: record.key ^ flipped, ..*record };
                    builder.push(record.position, record.time_ms, Some(record.payload().as_bytes()));
                }
                let last = sound().last();
                cursor.from.leader_epoch = last.map_or(NO_LEADER_EPOCH, |r| stream.epoch_of(r.position));
                builder.leader_epoch(cursor.from.leader_epoch);
                let block = builder.take();
                cursor.from.next = block.next;
                cursor.told = None;
                let read_to = &mut state.broker.streams[block.partition.index as usize].read_to;
                *read_to = position::low(block.next).max(*read_to);
                return Ok(Some(Event::Block(block)));
            }
            let is_forgotten = forgets_ends && stream.has_told_an_end_behind(cursor.begin);
            if stream.ends && !is_forgotten {
                let end = stream.end;
                (cursor.is_over, cursor.from.next) = (true, cursor.from.next.max(end.into()));
                let (partition, next) = (cursor.from.partition.clone(), cursor.from.next);
                state.broker.streams[partition.index as usize].told.insert((self.pid, position::low(next)));
                return Ok(Some(Event::Ended { partition, next }));
            }
            if cursor.told != Some(stream.end) {
                cursor.told = Some(stream.end);
                cursor.from.next = cursor.from.next.max(stream.end.into());
                cursor.from.leader_epoch = stream.epoch();
                let ReadFrom { partition, next, leader_epoch, .. } = cursor.from.clone();
                return Ok(Some(Event::CaughtUp { partition, next, leader_epoch }));
            }
        }
        Ok(None)
    }

    fn set_paused(&mut self, partition: &Partition, is_paused: bool) {
        let cursors = self.cursors.iter_mut().filter(|c| c.from.partition == *partition);
        cursors.for_each(|cursor| cursor.is_paused = is_paused);
    }
}

#[async_trait]
impl Reader for SimReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            self.changes.borrow_and_update();
            self.world.pause(20, 500).await;
            if let Some(event) = self.event()? {
                return Ok(event);
            }
            // The sender lives as long as the world.
            let _ = self.changes.changed().await;
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.cursors.push(Cursor::new(from));
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        let cursors = self.cursors.iter_mut().filter(|c| c.from.partition == *partition);
        cursors.for_each(|cursor| cursor.is_leaving = true);
    }

    fn pause(&mut self, partition: &Partition) {
        self.set_paused(partition, true);
    }

    fn resume(&mut self, partition: &Partition) {
        self.set_paused(partition, false);
    }
}
