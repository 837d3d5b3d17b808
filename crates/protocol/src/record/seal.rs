//! A batch as a message, and what it is made of.
//!
//! Owns the fields. Does not own the counts ([`super::ledger`]), what became of each record ([`super::fates`]), nor the rules between seals
//! ([`crate::lane`]).

use prost::Message;

use super::position::{joined, parted};
use super::{Absorbed, Derived, Fates, InputCounts, Layout, Position, TableRows};

/// A batch: positions, state and output in one write.
#[derive(Clone, PartialEq, Message)]
pub struct Seal {
    /// What was read, for every partition that moved.
    #[prost(message, repeated, tag = "1")]
    pub ranges: Vec<Range>,
    /// The object that holds frames, probes and state deltas; empty if there are none.
    #[prost(string, tag = "2")]
    pub segment: String,
    /// Its length in bytes.
    #[prost(uint64, tag = "3")]
    pub segment_bytes: u64,
    /// The frames, in the order of their ordinals within each table.
    #[prost(message, repeated, tag = "4")]
    pub frames: Vec<Frame>,
    /// The state deltas.
    #[prost(message, repeated, tag = "5")]
    pub states: Vec<StateDelta>,
    /// Low watermark after the batch, Unix milliseconds; `i64::MIN` while unknown.
    #[prost(sint64, tag = "6")]
    pub watermark_ms: i64,
    /// Partitions (by index) that the watermark leaves out because they are idle.
    #[prost(uint32, repeated, tag = "7")]
    pub idle: Vec<u32>,
    /// Settled frontier of every table.
    #[prost(message, repeated, tag = "8")]
    pub settled: Vec<Frontier>,
    /// The server behind every table, as last seen before this record.
    #[prost(message, repeated, tag = "9")]
    pub servers: Vec<Sighting>,
    /// What the batch's records became, for every input that gave any.
    #[prost(message, repeated, tag = "10")]
    pub counts: Vec<InputCounts>,
    /// The rows that the batch has for every table that gets any.
    #[prost(message, repeated, tag = "11")]
    pub rows: Vec<TableRows>,
    /// Rows that are not one each of a record that passed; none where every record is one row of one table.
    #[prost(message, optional, tag = "12")]
    pub derived: Option<Derived>,
    /// Refused single rows that became dead letters in this seal, their dedup keys forgotten in its state deltas.
    #[prost(message, repeated, tag = "13")]
    pub refusals: Vec<Refusal>,
    /// What became of each record of the partitions whose source asks for it; covers the partition's range wholly.
    #[prost(message, repeated, tag = "14")]
    pub fates: Vec<Fates>,
    /// The frames' columns, if no earlier record has said them.
    #[prost(message, repeated, tag = "15")]
    pub layouts: Vec<Layout>,
    /// What the seal released of what states have absorbed, and what they hold after it; none where no state has absorbed anything.
    #[prost(message, optional, tag = "16")]
    pub absorbed: Option<Absorbed>,
    /// The least version that a row of a later seal may get: greater than that of every row so far. 0 where rows have none.
    #[prost(uint64, tag = "17")]
    pub next_version: u64,
}

/// A piece that the server refused for its content and that could not be split any more.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Refusal {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's ordinal.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The piece; its token is dead for ever.
    #[prost(uint32, tag = "3")]
    pub piece: u32,
    /// Which record the row was; none if the row is not one of a record.
    #[prost(message, optional, tag = "4")]
    pub record: Option<RecordPlace>,
}

impl Refusal {
    /// True if both speak of the same piece.
    pub fn is_same_piece(&self, other: &Refusal) -> bool {
        (self.table, self.ordinal, self.piece) == (other.table, other.ordinal, other.piece)
    }
}

/// Which record of the lane.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RecordPlace {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The low half of its position there.
    #[prost(uint64, tag = "2")]
    pub position_low: u64,
    /// The high half.
    #[prost(uint64, tag = "3")]
    pub position_era: u64,
}

impl RecordPlace {
    /// The record at `position` of the partition with this index.
    pub fn new(partition: u32, position: Position) -> Self {
        let (position_era, position_low) = parted(position);
        Self { partition, position_low, position_era }
    }

    /// The record's position in its partition.
    pub fn position(&self) -> Position {
        joined(self.position_era, self.position_low)
    }
}

/// What was read of a partition: `from` and `next` are next-fetch positions, so gaps in between do not matter.
///
/// A seal has one for each partition that moved, so their numbers have a fixed length: a few bytes more than as varints, and half of the work.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Range {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Where the batch began: the low half.
    #[prost(fixed64, tag = "2")]
    pub from_low: u64,
    /// Where the next one begins: the low half.
    #[prost(fixed64, tag = "3")]
    pub next_low: u64,
    /// Leader epoch that goes with `next`; -1 if there is none.
    #[prost(sint32, tag = "4")]
    pub leader_epoch: i32,
    /// Greatest record time of the partition so far, Unix milliseconds; `i64::MIN` while unknown.
    #[prost(sfixed64, tag = "5")]
    pub time_ms_max: i64,
    /// The high half of where the batch began.
    #[prost(uint64, tag = "6")]
    pub from_era: u64,
    /// The high half of where the next one begins.
    #[prost(uint64, tag = "7")]
    pub next_era: u64,
}

impl Range {
    /// A range of the partition with this index, which has shown no time and no leader epoch.
    pub fn new(partition: u32, from: Position, next: Position) -> Self {
        let ((from_era, from_low), (next_era, next_low)) = (parted(from), parted(next));
        Self { partition, from_low, next_low, leader_epoch: -1, time_ms_max: i64::MIN, from_era, next_era }
    }

    /// Where the batch began.
    pub fn from(&self) -> Position {
        joined(self.from_era, self.from_low)
    }

    /// Says where the next one begins.
    pub fn set_next(&mut self, next: Position) {
        (self.next_era, self.next_low) = parted(next);
    }

    /// Where the next one begins.
    pub fn next(&self) -> Position {
        joined(self.next_era, self.next_low)
    }
}

/// The body of one insert.
#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's number within the table: from 0, without gaps.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The frame's name, 16 bytes; tokens derive from it.
    #[prost(bytes = "vec", tag = "3")]
    pub id: Vec<u8>,
    /// The one table partition that all rows fall into.
    #[prost(string, tag = "4")]
    pub table_partition: String,
    /// First byte in the segment.
    #[prost(uint64, tag = "5")]
    pub offset: u64,
    /// Bytes in the segment.
    #[prost(uint64, tag = "6")]
    pub len: u64,
    /// Rows; at least 1.
    #[prost(uint64, tag = "7")]
    pub rows: u64,
    /// CRC-32C of the bytes.
    #[prost(fixed32, tag = "8")]
    pub crc32c: u32,
    /// Bytes of the probe that stand right behind the frame in the segment.
    #[prost(uint64, tag = "9")]
    pub probe_len: u64,
    /// Bytes behind the probe that say which record each row was; 0 in frames of dead letters, which say so in
    /// columns of their own.
    #[prost(uint64, tag = "10")]
    pub origins_len: u64,
    /// The number of the [`Layout`] that says its columns; 0 where the table does not say.
    #[prost(uint32, tag = "11")]
    pub layout: u32,
    /// The records that all of its rows were made of, if the segment need not be in the store: whoever misses it makes it again.
    #[prost(message, optional, boxed, tag = "12")]
    pub made: Option<Box<Made>>,
}

/// What a frame was made of: enough to make it again, byte for byte, from a source that holds its records until they are settled.
#[derive(Clone, PartialEq, Message)]
pub struct Made {
    /// The records, in the order in which they were read; at most [`RUNS_MAX`] entries.
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<Run>,
    /// The watermark of the cut before, which stands in the frame's origins.
    #[prost(sint64, tag = "2")]
    pub watermark_ms: i64,
}

/// Records of one partition that were read one after the other. Their positions are of era 0.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Run {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The first position.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// The position behind the last.
    #[prost(uint64, tag = "3")]
    pub next: u64,
}

/// Entries of [`Made::runs`] at the most: a frame of more takes turns between partitions so often that writing it costs less than the list.
pub const RUNS_MAX: usize = 64;

/// The change of one step's state.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct StateDelta {
    /// The step's index.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// First byte in the segment.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Bytes in the segment.
    #[prost(uint64, tag = "3")]
    pub len: u64,
    /// CRC-32C of the bytes.
    #[prost(fixed32, tag = "4")]
    pub crc32c: u32,
}

/// How far a table is settled: every frame below `frontier` is positively answered or proven present.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Frontier {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The first ordinal that is not settled.
    #[prost(uint64, tag = "2")]
    pub frontier: u64,
    /// W: frames that may be sent at or above `frontier` until the next frontier is recorded.
    #[prost(uint64, tag = "3")]
    pub window: u64,
    /// If given, the owner has sent no frame from this ordinal on, whatever the windows before let out, and sends none before it has
    /// recorded another frontier. Recorded while no insert is answered, so that a crash asks about few frames.
    #[prost(uint64, optional, tag = "4")]
    pub sent_below: Option<u64>,
}

/// A table, and the server that showed it, as last seen.
#[derive(Clone, PartialEq, Message)]
pub struct Sighting {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The table's identity.
    #[prost(string, tag = "2")]
    pub table_uuid: String,
    /// True if inserts bring rows to other tables as well.
    #[prost(bool, tag = "3")]
    pub feeds_views: bool,
    /// What the sink's rules read; nothing else interprets it.
    #[prost(bytes = "bytes", tag = "4")]
    pub facts: ::bytes::Bytes,
}
