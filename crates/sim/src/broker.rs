//! The simulated broker: partitions with ordered positions, gaps, leaders that go away, elections that lose records, records that are
//! damaged, and the positions published last.
//!
//! Owns all partitions, and the refusal to go on behind the end of a leader epoch or of a file that was cut, and at what is damaged. Does not
//! own one partition's log ([`stream`]), the source that the engine reads ([`source`]), nor the records or when they arrive (`plan`, `drive`).

mod source;
mod stream;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::Position;
use dataflow::{Partition, PartitionStart, ReadFrom, SourceError, SourceFault, position};
use tokio::sync::watch;

use crate::executor::Pid;
use crate::plan::Plan;
use crate::plan::ended::Ends;
use crate::records::Record;
pub use source::SimSource;
pub use stream::Stream;

/// The number of the replay log, which is no partition of the broker's.
pub const REPLAYS: usize = 1 << 20;

/// The topic's name.
pub const TOPIC: &str = "events";

/// The simulated source: all of its partitions, and who reads them.
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
    /// A broken source: a partition that is read again has no end.
    pub forgets_ends: bool,
    /// A broken source: the end of a partition that was cut is its end.
    pub takes_cut_for_end: bool,
    /// The replay log as its objects say, which a power loss may cut.
    replays: Vec<Record>,
    /// Where each of its objects begins.
    replays_begin: Vec<u64>,
    keeps_positions: bool,
    away_until_us: u64,
    changes: watch::Sender<u64>,
    /// Which partitions end for every reader that has read them.
    ends_at_once: Vec<bool>,
}

impl Broker {
    /// The partitions at the begin, empty.
    pub fn new(plan: &Plan) -> Self {
        let mut broker = Self {
            streams: Vec::new(),
            cuts: 0,
            copies: 0,
            hands_out_unverified: false,
            lets_go_early: false,
            forgets_ends: false,
            takes_cut_for_end: false,
            replays: Vec::new(),
            replays_begin: Vec::new(),
            keeps_positions: plan.keeps_positions,
            away_until_us: 0,
            changes: watch::Sender::new(0),
            ends_at_once: plan.ends.as_ref().map(Ends::at_once).unwrap_or_default(),
        };
        (0..plan.partitions).for_each(|_| broker.add_stream());
        broker
    }

    fn add_stream(&mut self) {
        let ends = self.ends_at_once.get(self.streams.len()).copied().unwrap_or_default();
        self.streams.push(Stream::new(ends));
    }

    /// Nothing more comes of a partition for whoever reads it now.
    pub fn end(&mut self, partition: usize) {
        match self.streams.get_mut(partition) {
            Some(stream) => stream.ends = true,
            // One that appears later.
            None => self.ends_at_once.iter_mut().skip(partition).for_each(|ends| *ends = true),
        }
        self.wake();
    }

    /// Whether every partition ends, for whoever has read it.
    pub fn has_ended(&self) -> bool {
        self.streams.iter().all(|stream| stream.ends)
    }

    /// Whether a partition has records that a process will not read, because it was told that there are none.
    pub fn has_grown_for(&self, pid: Pid, sealed: &[(usize, u64)]) -> bool {
        let has_grown = |(n, next): &(usize, u64)| {
            self.streams.get(*n).is_some_and(|s| s.has_ended_for(pid, *next) && s.end > *next)
        };
        sealed.iter().any(has_grown)
    }

    /// Whether a process was told the end of any partition.
    pub fn has_told_an_end(&self, pid: Pid) -> bool {
        self.streams.iter().any(|stream| stream.has_told_an_end(pid))
    }

    /// Whether a process was told that there is no more behind where a lane stands.
    pub fn has_ended_for(&self, pid: Pid, sealed: &[(usize, u64)]) -> bool {
        let is_told =
            |(n, next): &(usize, u64)| self.streams.get(*n).is_some_and(|s| s.has_ended_for(pid, *next));
        sealed.iter().all(is_told)
    }

    /// A record arrives. A partition that is not there yet is made.
    pub fn push(&mut self, partition: u32, record: Record) {
        while self.streams.len() <= partition as usize {
            self.add_stream();
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
        self.add_stream();
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
