//! One partition, with its leader epochs and what it has lost.
//!
//! Owns what a reader of any epoch sees of it. Does not own who reads it, nor what the source says to that ([`super::source`]).

use std::collections::BTreeSet;

use dataflow::block::NO_LEADER_EPOCH;

use crate::executor::Pid;
use crate::records::Record;

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
    pub(super) gone_before: u64,
    /// How many positions the log was cut by so far: records that arrive later come as many positions earlier.
    pub(super) shift: u64,
    /// The first record from this position on has a flipped bit.
    pub(super) damaged_from: Option<u64>,
    /// The log as it was before it was cut without a trace. Nobody writes to it any more.
    pub(super) whole: Option<Vec<Record>>,
    /// Which of the broker's cuts that was.
    pub(super) cut_number: u64,
    /// Records before this position were handed out.
    pub(super) read_to: u64,
    /// Records before this position were let go.
    pub(super) released: u64,
    /// Whether a reader that comes to its end is told that there is no more, though there may be for the next one.
    pub ends: bool,
    /// Which process was told so, and where.
    pub(super) told: BTreeSet<(Pid, u64)>,
}

impl Stream {
    /// An empty one, which `ends` for every reader that has read it, or goes on.
    pub(super) fn new(ends: bool) -> Self {
        Self { ends, ..Self::default() }
    }

    pub(super) fn epoch(&self) -> i32 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The epoch that the record at `position` was written in.
    pub(super) fn epoch_of(&self, position: u64) -> i32 {
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
    pub(super) fn damaged(&self) -> Option<u64> {
        let from = self.damaged_from?;
        self.records.get(self.records.partition_point(|r| r.position < from)).map(|r| r.position)
    }

    /// True if a lane that stands at `next` has read all in front of what is damaged.
    pub(super) fn stands_at_damage(&self, next: u64) -> bool {
        let read = self.records.partition_point(|r| r.position < next);
        self.damaged().is_some_and(|damaged| self.records.get(read).is_some_and(|r| r.position == damaged))
    }

    /// True if a reader that came to `next` has read records that were cut off.
    pub fn is_cut_below(&self, next: u64) -> bool {
        self.whole.is_some() && self.end < next
    }

    /// A new leader, which lacks the newest `records` ones.
    pub(super) fn elect(&mut self, records: u64) {
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

    /// Whether a process was told that there is no more than before this position.
    pub fn has_ended_for(&self, pid: Pid, next: u64) -> bool {
        self.told.contains(&(pid, next))
    }

    /// Whether it was told any end.
    pub fn has_told_an_end(&self, pid: Pid) -> bool {
        self.told.iter().any(|(told, _)| *told == pid)
    }

    /// Whether somebody was told an end behind this position.
    pub(super) fn has_told_an_end_behind(&self, next: u64) -> bool {
        self.told.iter().any(|(_, end)| *end > next)
    }

    /// The records and the end of the log that a reader saw who read up to somewhere in `epoch`.
    pub(super) fn as_read_in(&self, epoch: i32) -> (&[Record], u64) {
        if let Some(whole) = &self.whole {
            return (whole, whole.last().map_or(self.end, |last| last.position + 1));
        }
        let then = self.cut.iter().find(|(last, _, _)| epoch != NO_LEADER_EPOCH && *last >= epoch);
        then.map_or((&self.records, self.end), |(_, records, end)| (records, *end))
    }
}
