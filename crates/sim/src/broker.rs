//! The simulated broker: partitions with ordered positions, gaps, leaders that go away, elections that lose records, records that are
//! damaged, and the positions published last.
//!
//! Owns the [`Source`] that the engine reads, and the refusal to go on behind the end of a leader epoch or of a file that was cut, and
//! at what is damaged. Does not own the records or when they arrive (`plan`, `drive`).

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::{self, Position};
use dataflow::{
    BlockBuilder, Event, Partition, PartitionStart, ReadFrom, Reader, Source, SourceError, SourceFault,
};
use tokio::sync::watch;

use crate::plan::Plan;
use crate::records::Record;
use crate::world::World;

/// The number of the replay log, which is no partition of the broker's.
pub const REPLAYS: usize = 1 << 20;

/// The topic's name.
pub const TOPIC: &str = "events";

/// One partition.
#[derive(Debug, Default)]
pub struct Stream {
    /// Its records, by position.
    pub records: Vec<Record>,
    /// The position after the newest record.
    pub end: u64,
    /// Without a leader until then.
    pub lost_until_us: u64,
    /// The position published last.
    pub published: Option<u64>,
    /// The leader epochs after 0, each with the position at which it began.
    epochs: Vec<(i32, u64)>,
    /// The log as it was at the end of an epoch whose leader was replaced by one that lacked records.
    cut: Vec<(i32, Vec<Record>, u64)>,
    /// Records before this position are gone, which a reader that stands before it is told.
    gone_before: u64,
    /// How many positions the log was cut by so far: records that arrive later come as many positions earlier.
    shift: u64,
    /// The first record from this position on has a flipped bit.
    damaged_from: Option<u64>,
    /// The log as it was before it was cut without a trace. Nobody writes to it any more.
    whole: Option<Vec<Record>>,
    /// Which of the broker's cuts that was.
    cut_number: u64,
    /// Records before this position were handed out.
    read_to: u64,
    /// Records before this position were let go.
    released: u64,
}

impl Stream {
    fn epoch(&self) -> i32 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The epoch that the record at `position` was written in.
    fn epoch_of(&self, position: u64) -> i32 {
        self.epochs.iter().rfind(|(_, begin)| *begin <= position).map_or(0, |(epoch, _)| *epoch)
    }

    /// The position after the last that `epoch` has in this log.
    fn end_of(&self, epoch: i32) -> u64 {
        self.epochs.iter().find(|(newer, _)| *newer > epoch).map_or(self.end, |(_, begin)| *begin)
    }

    /// The oldest records are gone, and among them some from `next` on; false if there are none.
    pub fn expire(&mut self, next: u64) -> bool {
        let is_there = self.records.last().is_some_and(|last| last.position >= next);
        if is_there {
            self.gone_before = self.gone_before.max(next + 1);
        }
        is_there
    }

    /// True if records from `next` on are gone before they were read.
    pub fn has_expired(&self, next: u64) -> bool {
        next < self.gone_before
    }

    /// True if a reader that came to `next` in `epoch` has read records that are in this log no more. A file has no epochs to tell by.
    pub fn has_lost(&self, epoch: i32, next: u64) -> bool {
        epoch != NO_LEADER_EPOCH && self.whole.is_none() && self.end_of(epoch) < next
    }

    /// The next record that arrives is damaged.
    pub fn damage(&mut self) {
        self.damaged_from.get_or_insert(self.end);
    }

    /// The position of the damaged record, if it is there already.
    fn damaged(&self) -> Option<u64> {
        let from = self.damaged_from?;
        self.records.get(self.records.partition_point(|r| r.position < from)).map(|r| r.position)
    }

    /// True if a lane that stands at `next` has read all in front of what is damaged.
    fn stands_at_damage(&self, next: u64) -> bool {
        let read = self.records.partition_point(|r| r.position < next);
        self.damaged().is_some_and(|damaged| self.records.get(read).is_some_and(|r| r.position == damaged))
    }

    /// True if a reader that came to `next` has read records that were cut off.
    pub fn is_cut_below(&self, next: u64) -> bool {
        self.whole.is_some() && self.end < next
    }

    /// A new leader, which lacks the newest `records` ones.
    fn elect(&mut self, records: u64) {
        let epoch = self.epoch();
        let left = self.records.len().saturating_sub(records as usize);
        let begin = self.records.get(left).map_or(self.end, |record| record.position);
        if begin < self.end {
            self.cut.push((epoch, self.records.clone(), self.end));
            self.records.truncate(left);
            self.shift += self.end - begin;
            self.end = begin;
            self.epochs.retain(|(_, of)| *of < begin);
        }
        self.epochs.push((epoch + 1, begin));
    }

    /// The records and the end of the log that a reader saw who read up to somewhere in `epoch`.
    fn as_read_in(&self, epoch: i32) -> (&[Record], u64) {
        if let Some(whole) = &self.whole {
            return (whole, whole.last().map_or(self.end, |last| last.position + 1));
        }
        let then = self.cut.iter().find(|(last, _, _)| epoch != NO_LEADER_EPOCH && *last >= epoch);
        then.map_or((&self.records, self.end), |(_, records, end)| (records, *end))
    }
}

/// All partitions.
pub struct Broker {
    /// By number.
    pub streams: Vec<Stream>,
    /// Counts the partitions that were cut without a trace.
    pub cuts: u64,
    /// How many times something damaged was copied anew.
    pub copies: u64,
    /// A broken source: what is read is handed out before it is verified.
    pub hands_out_unverified: bool,
    /// Records go once they are read, and not once they are published or sealed.
    pub lets_go_early: bool,
    /// A broken source: the end of a partition that was cut is its end.
    pub takes_cut_for_end: bool,
    /// The replay log as its objects say, which a power loss may cut.
    replays: Vec<Record>,
    /// Where each of its objects begins.
    replays_begin: Vec<u64>,
    keeps_positions: bool,
    away_until_us: u64,
    changes: watch::Sender<u64>,
}

impl Broker {
    /// The partitions at the begin, empty.
    pub fn new(plan: &Plan) -> Self {
        let streams = (0..plan.partitions).map(|_| Stream::default()).collect();
        Self {
            streams,
            cuts: 0,
            copies: 0,
            hands_out_unverified: false,
            lets_go_early: false,
            takes_cut_for_end: false,
            replays: Vec::new(),
            replays_begin: Vec::new(),
            keeps_positions: plan.keeps_positions,
            away_until_us: 0,
            changes: watch::Sender::new(0),
        }
    }

    /// A record arrives. A partition that is not there yet is made.
    pub fn push(&mut self, partition: u32, record: Record) {
        while self.streams.len() <= partition as usize {
            self.streams.push(Stream::default());
        }
        let stream = &mut self.streams[partition as usize];
        if stream.whole.is_some() {
            return;
        }
        let record = Record { position: record.position - stream.shift, ..record };
        stream.end = record.position + 1;
        stream.records.push(record);
        self.wake();
    }

    /// An empty partition appears.
    pub fn add_partition(&mut self) {
        self.streams.push(Stream::default());
        self.wake();
    }

    /// Nothing answers until then.
    pub fn away(&mut self, until_us: u64) {
        self.away_until_us = until_us;
        self.wake();
    }

    /// Readers look again.
    pub fn wake(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    /// A partition gets a new leader, which lacks its newest `records` ones.
    pub fn elect(&mut self, partition: u32, records: u64) {
        if let Some(stream) = self.streams.get_mut(partition as usize) {
            stream.elect(records);
        }
        self.wake();
    }

    /// The newest records of a partition are cut off, and nothing tells.
    pub fn cut(&mut self, partition: u32, records: u64) {
        let Some(stream) = self.streams.get_mut(partition as usize).filter(|s| s.whole.is_none()) else {
            return;
        };
        let left = stream.records.len().saturating_sub(records as usize);
        if let Some(first) = stream.records.get(left) {
            stream.end = first.position;
            let whole = stream.records.clone();
            stream.records.truncate(left);
            self.cuts += 1;
            (stream.whole, stream.cut_number) = (Some(whole), self.cuts);
        }
        self.wake();
    }

    /// True if something was cut off that a reader which began after so many cuts may have counted on.
    pub fn was_cut_since(&self, cuts: u64) -> bool {
        self.streams.iter().any(|s| s.cut_number > cuts)
    }

    /// Somebody copies what is damaged anew, where a lane that stands at `next` has come to it.
    pub fn copy_anew(&mut self, next: impl Fn(usize) -> u64) {
        let streams = self.streams.iter_mut().enumerate();
        streams
            .filter(|(n, s)| s.stands_at_damage(next(*n)))
            .for_each(|(_, stream)| stream.damaged_from = None);
        self.copies += 1;
    }

    /// True if a lane has come to what is damaged in a partition.
    pub fn is_at_damage(&self, next: impl Fn(usize) -> u64) -> bool {
        self.streams.iter().enumerate().any(|(n, s)| s.stands_at_damage(next(n)))
    }

    /// The records of a partition in a range of positions that was read in `epoch`, and where the partition ended then.
    pub fn range(&self, partition: usize, from: Position, next: Position, epoch: i32) -> (&[Record], u64) {
        let (records, log_end) = match self.streams.get(partition) {
            Some(stream) => stream.as_read_in(epoch),
            None if partition == REPLAYS => (self.replays.as_slice(), self.replays_end()),
            None => return (&[], 0),
        };
        let begin = records.partition_point(|r| Position::from(r.position) < from);
        let end = records.partition_point(|r| Position::from(r.position) < next);
        (&records[begin..end.max(begin)], log_end)
    }

    /// An object of the replay log is there. One that does not begin where the log ends stands at a place that was retired, and is no part of it.
    pub fn replay(&mut self, first: u64, records: Vec<Record>) {
        if first == self.replays_end() {
            self.replays.extend(records);
            self.replays_begin.push(first);
        }
    }

    /// An object of the replay log is gone that was not durable, and all behind it.
    pub fn lose_replay(&mut self, first: u64) {
        if self.replays_begin.contains(&first) {
            self.replays.truncate(first as usize);
            self.replays_begin.retain(|begin| *begin < first);
        }
    }

    /// The position after the newest record of the replay log.
    pub fn replays_end(&self) -> u64 {
        self.replays.len() as u64
    }

    /// The position after the object of the replay log that begins at `first`; `None` if none does.
    pub fn replay_end(&self, first: u64) -> Option<u64> {
        let at = self.replays_begin.iter().position(|begin| *begin == first)?;
        Some(self.replays_begin.get(at + 1).copied().unwrap_or(self.replays_end()))
    }

    /// The record at a position of the replay log.
    pub fn replayed_at(&self, position: u64) -> Option<&Record> {
        self.replays.get(position as usize)
    }

    /// True if a lane that stands at these positions has read all partitions, and the replay log, to their ends.
    pub fn is_read(&self, sealed: &[(usize, u64)]) -> bool {
        let end = |n: usize| match n {
            REPLAYS => Some(self.replays_end()),
            n => self.streams.get(n).map(|stream| stream.end),
        };
        let partitions = self.streams.len() + usize::from(self.replays_end() > 0);
        sealed.len() == partitions && sealed.iter().all(|(n, next)| end(*n) == Some(*next))
    }

    /// A record by its id, with the number of its partition.
    pub fn record(&self, id: u64) -> Option<(u32, Record)> {
        let of = |(n, stream): (usize, &Stream)| {
            stream.records.iter().find(|record| record.id == id).map(|record| (n as u32, *record))
        };
        self.streams.iter().enumerate().find_map(of)
    }

    /// A reader that came to `next` in `epoch` may not go on if the log was cut before that.
    fn check_epoch(&self, at: &ReadFrom) -> Result<(), SourceError> {
        let Some(stream) = self.streams.get(at.partition.index as usize) else { return Ok(()) };
        if stream.has_expired(position::low(at.next)) {
            let message = format!("`{}` has no records before {} any more", at.partition, stream.gone_before);
            return Err(SourceError::new(SourceFault::Refused, message).at(&at.partition));
        }
        if position::low(at.next) < stream.released {
            let message = format!("`{}` has let go of records before {}", at.partition, stream.released);
            return Err(SourceError::new(SourceFault::Refused, message).at(&at.partition));
        }
        if !stream.has_lost(at.leader_epoch, position::low(at.next)) {
            return Ok(());
        }
        let message = format!("`{}` was truncated below {}", at.partition, at.next);
        Err(SourceError::new(SourceFault::Refused, message).at(&at.partition))
    }

    /// A partition that is cut while it is read, or below where a reader stands, may not be read on.
    fn check_whole(&self, at: &ReadFrom, cuts: u64) -> Result<(), SourceError> {
        let stream = self.streams.get(at.partition.index as usize);
        let is_cut = stream.is_some_and(|s| s.cut_number > cuts || s.is_cut_below(position::low(at.next)));
        if !is_cut || self.takes_cut_for_end {
            return Ok(());
        }
        let message = format!("`{}` was cut, and was read up to {}", at.partition, at.next);
        Err(SourceError::new(SourceFault::Refused, message).at(&at.partition))
    }

    fn check(&self, now_us: u64) -> Result<(), SourceError> {
        if now_us < self.away_until_us {
            return Err(SourceError::new(SourceFault::Away, "the broker is away"));
        }
        Ok(())
    }

    fn start(&self, index: usize) -> PartitionStart {
        PartitionStart {
            partition: Partition::new(TOPIC, index as u32),
            identity: format!("topic-1/{index}"),
            next: 0,
            first: 0,
            leader_epoch: NO_LEADER_EPOCH,
        }
    }
}

/// The broker as one process sees it.
pub struct SimSource {
    world: Arc<World>,
    /// Partitions that were cut before the process began.
    cuts: u64,
    /// Which of the partitions it has: those that belong to the input at this place.
    place: usize,
}

impl SimSource {
    /// Of a process that begins now, for the input at `place`.
    pub fn new(world: Arc<World>, place: usize) -> Self {
        let cuts = world.state().broker.cuts;
        Self { world, cuts, place }
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
    fn kind(&self) -> &'static str {
        "sim"
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
        Ok(Box::new(SimReader { world: self.world.clone(), cuts: self.cuts, changes, next, inputs, cursors }))
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
    is_paused: bool,
    /// Taken away, and nobody has heard so yet.
    is_leaving: bool,
    /// `CaughtUp` was told at this position.
    told: Option<u64>,
}

impl Cursor {
    fn new(from: ReadFrom) -> Self {
        Self { from, is_paused: false, is_leaving: false, told: None }
    }
}

struct SimReader {
    world: Arc<World>,
    cuts: u64,
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
        self.cursors.iter().try_for_each(|cursor| {
            state.broker.check_epoch(&cursor.from)?;
            state.broker.check_whole(&cursor.from, self.cuts)
        })?;
        let hands_out_unverified = state.broker.hands_out_unverified;
        let first = state.random.below(self.cursors.len().max(1) as u64) as usize;
        for n in 0..self.cursors.len() {
            let at = (first + n) % self.cursors.len();
            let records_max = state.random.between(1, 12);
            let cursor = &mut self.cursors[at];
            let stream = &state.broker.streams[cursor.from.partition.index as usize];
            if cursor.is_paused || now_us < stream.lost_until_us {
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
