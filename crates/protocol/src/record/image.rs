//! A lane as a message: what a checkpoint holds.
//!
//! Owns the fields. Does not own the lane ([`crate::lane`]), which is read from it and turned into it.

use prost::Message;

use super::position::{joined, parted};
use super::{
    Absorbed, Counts, Derived, Fates, Forgotten, Frame, HandedOver, Layout, Part, PartitionGenesis, Position,
    Question, Rows, Sighting, StateDelta, StepShape,
};

/// All that the records before this one fold to, so that they can be retired.
#[derive(Clone, PartialEq, Message)]
pub struct Checkpoint {
    /// The lane as of the record before this one.
    #[prost(message, optional, tag = "1")]
    pub lane: Option<LaneImage>,
    /// A snapshot of every step's state as of the seal `state_seq`.
    #[prost(message, repeated, tag = "2")]
    pub states: Vec<StateObject>,
    /// The seal whose state the snapshots hold; deltas of later seals are applied on top.
    #[prost(uint64, tag = "3")]
    pub state_seq: u64,
    /// The files that the snapshots build on; successive checkpoints share them.
    #[prost(message, repeated, tag = "4")]
    pub files: Vec<StateFile>,
}

/// A file that holds a part of a step's state. What must be read of it, and its checksums, stand in the snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct StateFile {
    /// The step's index.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// The object.
    #[prost(string, tag = "2")]
    pub object: String,
    /// Its bytes.
    #[prost(uint64, tag = "3")]
    pub len: u64,
}

/// A state snapshot in an object of its own.
#[derive(Clone, PartialEq, Message)]
pub struct StateObject {
    /// The step's index.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// The object.
    #[prost(string, tag = "2")]
    pub object: String,
    /// Its bytes.
    #[prost(uint64, tag = "3")]
    pub len: u64,
    /// CRC-32C of them.
    #[prost(fixed32, tag = "4")]
    pub crc32c: u32,
}

/// A lane as a message: the durable form of [`crate::lane::Lane`].
#[derive(Clone, PartialEq, Message)]
pub struct LaneImage {
    /// Pipeline's name.
    #[prost(string, tag = "1")]
    pub pipeline: String,
    /// Every partition, its `next` being where the next seal begins.
    #[prost(message, repeated, tag = "2")]
    pub partitions: Vec<PartitionGenesis>,
    /// Greatest record time of every partition.
    #[prost(sint64, repeated, tag = "3")]
    pub times_ms_max: Vec<i64>,
    /// Every table.
    #[prost(message, repeated, tag = "4")]
    pub tables: Vec<TableImage>,
    /// Steps that keep state.
    #[prost(message, repeated, tag = "5")]
    pub steps: Vec<StepShape>,
    /// Low watermark.
    #[prost(sint64, tag = "6")]
    pub watermark_ms: i64,
    /// Idle partitions.
    #[prost(uint32, repeated, tag = "7")]
    pub idle: Vec<u32>,
    /// Every input.
    #[prost(message, repeated, tag = "8")]
    pub inputs: Vec<InputImage>,
    /// State deltas sealed after the newest checkpointed state.
    #[prost(message, repeated, tag = "9")]
    pub deltas: Vec<DeltaImage>,
    /// Bytes of the deltas above, and of the last snapshot.
    #[prost(uint64, tag = "10")]
    pub snapshot_bytes: u64,
    /// The newest fates of each partition that has any; see [`crate::lane::FATES_KEPT`].
    #[prost(message, repeated, tag = "11")]
    pub fates: Vec<Fates>,
    /// Partitions that have left the pipeline.
    #[prost(message, repeated, tag = "12")]
    pub forgotten: Vec<Forgotten>,
    /// Names that the pipeline had before, the oldest first.
    #[prost(message, repeated, tag = "13")]
    pub former_names: Vec<FormerName>,
    /// Sums since genesis.
    #[prost(message, optional, tag = "14")]
    pub derived: Option<Derived>,
    /// What states have released since genesis, and what they hold.
    #[prost(message, optional, tag = "15")]
    pub absorbed: Option<Absorbed>,
    /// What else the pipeline file said at the newest start.
    #[prost(message, repeated, tag = "16")]
    pub parts: Vec<Part>,
    /// Partitions that were moved back.
    #[prost(message, repeated, tag = "17")]
    pub rewound: Vec<Rewound>,
    /// Partitions that other lanes read on.
    #[prost(message, repeated, tag = "18")]
    pub handed_over: Vec<HandedOver>,
    /// As [`super::Seal::next_version`], of the newest seal that has one.
    #[prost(uint64, tag = "19")]
    pub next_version: u64,
    /// What is known of the pipelines that had this name before.
    #[prost(message, optional, tag = "20")]
    pub before: Option<Before>,
    /// Positions that are read anew; of one partition in their order.
    #[prost(message, repeated, tag = "21")]
    pub passes: Vec<PassImage>,
    /// The latest moment that a record up to here names, Unix milliseconds; 0 in records of earlier programs.
    #[prost(int64, tag = "22")]
    pub newest_ms: i64,
}

/// What a lane knows of the pipelines that had its name before, of which dead letters may be left.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Before {
    /// When the last of them was reset or deleted, Unix milliseconds; 0 if there was none.
    #[prost(int64, tag = "1")]
    pub until_ms: i64,
    /// The position in the replay log that no record of theirs had, nor any behind it.
    #[prost(uint64, tag = "2")]
    pub replays_from: u64,
    /// Letters under this name of that time or before belong to a pipeline that has another name since; 0 if there is none.
    #[prost(int64, tag = "3")]
    pub letters_from_ms: i64,
}

/// Positions of a partition that are read anew.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PassImage {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The first position: the low half.
    #[prost(uint64, tag = "2")]
    pub from_low: u64,
    /// The high half.
    #[prost(uint64, tag = "3")]
    pub from_era: u64,
    /// The position after the last: the low half.
    #[prost(uint64, tag = "4")]
    pub end_low: u64,
    /// The high half.
    #[prost(uint64, tag = "5")]
    pub end_era: u64,
    /// Since when, Unix milliseconds.
    #[prost(int64, tag = "6")]
    pub since_ms: i64,
    /// The same of the reading before; 0 if that was the first.
    #[prost(int64, tag = "7")]
    pub earlier_ms: i64,
}

impl PassImage {
    /// The positions from `from` to `end` of the partition with this index.
    pub fn new(partition: u32, from: Position, end: Position, since_ms: i64, earlier_ms: i64) -> Self {
        let ((from_era, from_low), (end_era, end_low)) = (parted(from), parted(end));
        Self { partition, from_low, from_era, end_low, end_era, since_ms, earlier_ms }
    }

    /// The first position.
    pub fn from(&self) -> Position {
        joined(self.from_era, self.from_low)
    }

    /// The position after the last.
    pub fn end(&self) -> Position {
        joined(self.end_era, self.end_low)
    }
}

/// A partition that was moved back: its source may know that it was read further.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Rewound {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The position after the last record that was read of it before: the low half.
    #[prost(uint64, tag = "2")]
    pub read_to_low: u64,
    /// The high half.
    #[prost(uint64, tag = "3")]
    pub read_to_era: u64,
}

impl Rewound {
    /// The partition with this index, which was read up to `read_to` before.
    pub fn new(partition: u32, read_to: Position) -> Self {
        let (read_to_era, read_to_low) = parted(read_to);
        Self { partition, read_to_low, read_to_era }
    }

    /// The position after the last record that was read of it before.
    pub fn read_to(&self) -> Position {
        joined(self.read_to_era, self.read_to_low)
    }
}

/// An input as a message.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InputImage {
    /// Its name in the pipeline file.
    #[prost(string, tag = "1")]
    pub name: String,
    /// As [`super::Genesis::opened`].
    #[prost(bool, tag = "2")]
    pub was_opened: bool,
    /// What its records became, sums since its genesis.
    #[prost(message, optional, tag = "3")]
    pub counts: Option<Counts>,
}

/// A name that the pipeline had before: dead letters of that time stand under it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FormerName {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// When the pipeline was renamed, Unix milliseconds by the wall clock of whoever did it. What stands under the name and is newer
    /// belongs to another pipeline.
    #[prost(int64, tag = "2")]
    pub until_ms: i64,
    /// Letters under the name of that time or before are of another pipeline, as [`Before::letters_from_ms`]; 0 if there is none.
    #[prost(int64, tag = "3")]
    pub from_ms: i64,
}

/// A table as a message.
#[derive(Clone, PartialEq, Message)]
pub struct TableImage {
    /// `database.table`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The first ordinal that is not settled, as recorded.
    #[prost(uint64, tag = "2")]
    pub frontier: u64,
    /// W as recorded.
    #[prost(uint64, tag = "3")]
    pub window: u64,
    /// The ordinal of the next frame.
    #[prost(uint64, tag = "4")]
    pub next_ordinal: u64,
    /// The table as last seen.
    #[prost(message, optional, tag = "5")]
    pub server: Option<Sighting>,
    /// Frames from `frontier` to `next_ordinal`.
    #[prost(message, repeated, tag = "6")]
    pub pending: Vec<PieceImage>,
    /// The identity of a later table of this name that the operator has accepted; empty if none was asked for.
    #[prost(string, tag = "7")]
    pub accepted_uuid: String,
    /// The columns of the frames above, and of the frame that was sealed last.
    #[prost(message, repeated, tag = "8")]
    pub layouts: Vec<Layout>,
    /// The number of the layout of the frame that was sealed last; 0 if it is not known.
    #[prost(uint32, tag = "9")]
    pub newest_layout: u32,
    /// As [`super::Frontier::sent_below`].
    #[prost(uint64, optional, tag = "10")]
    pub sent_below: Option<u64>,
    /// As [`super::TableGenesis::takes_dead_letters`].
    #[prost(bool, tag = "11")]
    pub takes_dead_letters: bool,
    /// Sums since the table's genesis.
    #[prost(message, optional, tag = "12")]
    pub rows: Option<Rows>,
}

/// A piece of an unsettled frame.
#[derive(Clone, PartialEq, Message)]
pub struct PieceImage {
    /// Where and what it is.
    #[prost(message, optional, tag = "1")]
    pub frame: Option<Frame>,
    /// Number of the piece within its frame.
    #[prost(uint32, tag = "2")]
    pub piece: u32,
    /// Its token's generation.
    #[prost(uint32, tag = "3")]
    pub generation: u32,
    /// The object that holds it.
    #[prost(string, tag = "4")]
    pub segment: String,
    /// The server as seen before its first attempt.
    #[prost(message, optional, tag = "5")]
    pub server: Option<Sighting>,
    /// True if a split replaced it.
    #[prost(bool, tag = "6")]
    pub dead: bool,
    /// When it was sealed, by the writer's wall clock, Unix milliseconds.
    #[prost(int64, tag = "7")]
    pub sealed_at_ms: i64,
    /// The question that was asked of it last.
    #[prost(message, optional, tag = "8")]
    pub question: Option<Question>,
    /// The answer, as in [`Answer::verdict`]; 0 if the question is open or there is none.
    #[prost(uint32, tag = "9")]
    pub verdict: u32,
    /// True if its frame is settled beyond a hole.
    #[prost(bool, tag = "10")]
    pub settled: bool,
    /// Which row of the whole frame its first row is.
    #[prost(uint64, tag = "11")]
    pub first_row: u64,
}

/// A sealed state delta that no snapshot holds yet.
#[derive(Clone, PartialEq, Message)]
pub struct DeltaImage {
    /// The seal's number.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// The object that holds it.
    #[prost(string, tag = "2")]
    pub segment: String,
    /// Where it stands.
    #[prost(message, optional, tag = "3")]
    pub delta: Option<StateDelta>,
}
