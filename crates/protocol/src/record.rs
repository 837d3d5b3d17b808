//! The journal's records and their bytes.
//!
//! Owns what is written and how it is framed: a magic, a format version, the message in Protocol Buffers' encoding (so that
//! fields can be added), and a CRC-32C over all of it. Does not own where records are kept, nor what they mean
//! ([`crate::lane`]).
//!
//! | body         | written when                                     | says                                         |
//! |--------------|--------------------------------------------------|----------------------------------------------|
//! | `Claim`      | an owner starts                                  | who owns the lane from here on               |
//! | `Genesis`    | before the first read of a partition or table    | identity and first position of each          |
//! | `Seal`       | a batch was cut                                  | positions, frames, state delta, counts       |
//! | `Settle`     | the frontier must be durable and no seal is due  | the settled frontier of each table           |
//! | `Generation` | a frame is proven absent after all attempts died | the frame's new token                        |
//! | `Split`      | a frame was refused for its content              | the pieces that replace it                   |
//! | `Checkpoint` | enough was sealed since the last one             | all that the records before it fold to       |
//! | `Question`   | only a person can end a frame's doubt            | what is asked, and of which table            |
//! | `Answer`     | a person has answered                            | whether the frame's rows are in the table    |
//!
//! Bytes: `FBJ` `1`, body, then CRC-32C (little-endian) of everything before it. A field is never reused; a reader
//! refuses a later format version and an unknown body.

use prost::Message;

/// First bytes of every record: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBJ1";

/// A record is refused above this: positions of 10,000 partitions and 10,000 frames fit many times over.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;

/// One entry of a lane's journal.
#[derive(Clone, PartialEq, Message)]
pub struct Record {
    /// The entry's number; the first is 0 and there are no gaps.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// The owner's number: one more with each claim, from 1.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The claim's nonce, 16 bytes: tells two owners of one number apart, and one's own lost try from another's.
    #[prost(bytes = "vec", tag = "3")]
    pub nonce: Vec<u8>,
    /// Wall clock of the writer, Unix milliseconds. For people; no decision uses it.
    #[prost(int64, tag = "4")]
    pub written_at_ms: i64,
    /// What is said.
    #[prost(oneof = "Body", tags = "10, 11, 12, 13, 14, 15, 16, 17, 18")]
    pub body: Option<Body>,
}

/// What a record says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// A new owner.
    #[prost(message, tag = "10")]
    Claim(Claim),
    /// Partitions and tables that were not known before.
    #[prost(message, tag = "11")]
    Genesis(Genesis),
    /// A batch.
    #[prost(message, tag = "12")]
    Seal(Seal),
    /// A frontier.
    #[prost(message, tag = "13")]
    Settle(Settle),
    /// A new token for a frame.
    #[prost(message, tag = "14")]
    Generation(Generation),
    /// A frame in pieces.
    #[prost(message, tag = "15")]
    Split(Split),
    /// Everything so far.
    #[prost(message, tag = "16")]
    Checkpoint(Checkpoint),
    /// What only a person can tell.
    #[prost(message, tag = "17")]
    Question(Question),
    /// What a person has told.
    #[prost(message, tag = "18")]
    Answer(Answer),
}

/// Who owns the lane from here on.
#[derive(Clone, PartialEq, Message)]
pub struct Claim {
    /// Host and process, for people.
    #[prost(string, tag = "1")]
    pub owner: String,
    /// The program's version, for people.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Partitions and tables that were not known before. Lists are appended to the lane's: an index is for ever.
#[derive(Clone, PartialEq, Message)]
pub struct Genesis {
    /// New partitions, each with its first position.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<PartitionGenesis>,
    /// New tables, `database.table`.
    #[prost(string, repeated, tag = "2")]
    pub tables: Vec<String>,
    /// The pipeline's name; only in the first genesis.
    #[prost(string, tag = "3")]
    pub pipeline: String,
    /// The steps that keep state, in order; only in the first genesis.
    #[prost(string, repeated, tag = "4")]
    pub steps: Vec<String>,
}

/// A partition's identity and first position.
#[derive(Clone, PartialEq, Message)]
pub struct PartitionGenesis {
    /// Topic, file or publisher group.
    #[prost(string, tag = "1")]
    pub stream: String,
    /// Number inside of the stream.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// What makes the stream itself (a topic id); empty if the source has none.
    #[prost(string, tag = "3")]
    pub identity: String,
    /// First position to fetch.
    #[prost(uint64, tag = "4")]
    pub next: u64,
    /// Leader epoch that goes with `next`; -1 if there is none.
    #[prost(sint32, tag = "5")]
    pub leader_epoch: i32,
}

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
    pub servers: Vec<Server>,
    /// What the batch's records became.
    #[prost(message, optional, tag = "10")]
    pub counts: Option<Counts>,
    /// Refused single rows that became dead letters in this seal, their dedup keys forgotten in its state deltas.
    #[prost(message, repeated, tag = "11")]
    pub refusals: Vec<Refusal>,
    /// What became of each record of the partitions whose source asks for it; covers the partition's range wholly.
    #[prost(message, repeated, tag = "20")]
    pub fates: Vec<Fates>,
}

/// What became of each record of a partition without gaps, in the order of their positions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Fates {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Position of the first record.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One [`Fate::code`] a record.
    #[prost(bytes = "vec", tag = "3")]
    pub codes: Vec<u8>,
    /// Stretches of these records whose inserts are not settled, by position; only in a lane and its checkpoints.
    #[prost(message, repeated, tag = "4")]
    pub unsettled: Vec<Unsettled>,
}

/// Records that were sealed with frames of which not all are settled.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Unsettled {
    /// Position of the first record.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The position after the last one.
    #[prost(uint64, tag = "2")]
    pub next: u64,
    /// The table's index.
    #[prost(uint32, tag = "3")]
    pub table: u32,
    /// Once the table's frontier is here, the records are settled in it.
    #[prost(uint64, tag = "4")]
    pub frontier: u64,
}

impl Fates {
    /// What became of the record at `position`; `None` if it is not among these.
    pub fn at(&self, position: u64) -> Option<Fate> {
        let at = usize::try_from(position.checked_sub(self.from)?).ok()?;
        Fate::of(*self.codes.get(at)?)
    }

    /// The byte that stands for what became of the record at `position`.
    pub(crate) fn code_mut(&mut self, position: u64) -> Option<&mut u8> {
        let at = usize::try_from(position.checked_sub(self.from)?).ok()?;
        self.codes.get_mut(at)
    }

    /// The position after the last record.
    pub fn next(&self) -> u64 {
        self.from.saturating_add(self.codes.len() as u64)
    }
}

/// What became of one record. A seal tells it as of the seal; the server may refuse a row later, and from the seal of its dead
/// letter on the lane knows it as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// A row of the table.
    Written,
    /// Dropped by a rule.
    Filtered,
    /// Dropped as a known duplicate.
    Duplicate,
    /// Dropped as too late.
    Late,
    /// A row of the dead letters.
    DeadLetter,
}

impl Fate {
    const ALL: [Self; 5] = [Self::Written, Self::Filtered, Self::Duplicate, Self::Late, Self::DeadLetter];

    /// The byte that stands for it, for ever.
    pub fn code(self) -> u8 {
        match self {
            Self::Written => 1,
            Self::Filtered => 2,
            Self::Duplicate => 3,
            Self::Late => 4,
            Self::DeadLetter => 5,
        }
    }

    /// What a byte stands for.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.code() == code)
    }

    /// The word for people and machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Filtered => "filtered",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::DeadLetter => "dead_letter",
        }
    }
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
    /// Which record the row was; none in records of earlier programs, for their frames, and for dead letters.
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
    /// Its position there.
    #[prost(uint64, tag = "2")]
    pub position: u64,
}

/// What was read of a partition: `from` and `next` are next-fetch positions, so gaps in between do not matter.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Range {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Where the batch began.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// Where the next one begins.
    #[prost(uint64, tag = "3")]
    pub next: u64,
    /// Leader epoch that goes with `next`; -1 if there is none.
    #[prost(sint32, tag = "4")]
    pub leader_epoch: i32,
    /// Greatest record time of the partition so far, Unix milliseconds; `i64::MIN` while unknown.
    #[prost(sint64, tag = "5")]
    pub time_ms_max: i64,
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
    /// Bytes behind the probe that say which record each row was; 0 in frames of earlier programs and of dead letters.
    #[prost(uint64, tag = "10")]
    pub origins_len: u64,
}

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
}

/// A server and a table as last seen.
#[derive(Clone, PartialEq, Message)]
pub struct Server {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// When the server started, by its clock, Unix milliseconds.
    #[prost(sint64, tag = "2")]
    pub start_ms: i64,
    /// When it was seen, by its clock, Unix milliseconds.
    #[prost(sint64, tag = "3")]
    pub seen_ms: i64,
    /// The server's identity.
    #[prost(string, tag = "4")]
    pub server_uuid: String,
    /// The table's identity.
    #[prost(string, tag = "5")]
    pub table_uuid: String,
    /// The table's newest block number then.
    #[prost(uint64, tag = "6")]
    pub block_number: u64,
    /// The newest block number of each materialized view's target, by the targets' names; empty without views. A target has
    /// a token memory of its own, and writers of its own.
    #[prost(uint64, repeated, tag = "7")]
    pub view_blocks: Vec<u64>,
}

/// What records became. `read = written + filtered + duplicates + dead_letters + late` (C9).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Counts {
    /// Records handed out by the source.
    #[prost(uint64, tag = "1")]
    pub read: u64,
    /// Rows in frames of the target table.
    #[prost(uint64, tag = "2")]
    pub written: u64,
    /// Records dropped by a rule.
    #[prost(uint64, tag = "3")]
    pub filtered: u64,
    /// Records dropped as known duplicates.
    #[prost(uint64, tag = "4")]
    pub duplicates: u64,
    /// Records in frames of the dead-letter table.
    #[prost(uint64, tag = "5")]
    pub dead_letters: u64,
    /// Records dropped because they came too late and the pipeline says `late: drop`.
    #[prost(uint64, tag = "6")]
    pub late: u64,
}

impl Counts {
    /// True if every record is accounted for.
    pub fn add_up(&self) -> bool {
        self.read == self.written + self.filtered + self.duplicates + self.dead_letters + self.late
    }

    /// Adds the other's counts to these.
    pub fn add(&mut self, other: &Counts) {
        self.read += other.read;
        self.written += other.written;
        self.filtered += other.filtered;
        self.duplicates += other.duplicates;
        self.dead_letters += other.dead_letters;
        self.late += other.late;
    }
}

/// A frontier in a record of its own.
#[derive(Clone, PartialEq, Message)]
pub struct Settle {
    /// Settled frontier of every table that moved.
    #[prost(message, repeated, tag = "1")]
    pub settled: Vec<Frontier>,
    /// The server behind every table, as last seen.
    #[prost(message, repeated, tag = "2")]
    pub servers: Vec<Server>,
    /// Frames at or above the frontier that are settled too, beyond a hole: the next owner need not doubt them.
    #[prost(message, repeated, tag = "3")]
    pub above: Vec<SettledAbove>,
}

/// Settled frames beyond a hole.
#[derive(Clone, PartialEq, Message)]
pub struct SettledAbove {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// Their ordinals.
    #[prost(uint64, repeated, tag = "2")]
    pub ordinals: Vec<u64>,
}

/// A new token for a frame, after a probe found none of its rows and all attempts under earlier tokens were dead.
#[derive(Clone, PartialEq, Message)]
pub struct Generation {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's ordinal.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The piece of the frame: 0 unless it was split.
    #[prost(uint32, tag = "3")]
    pub piece: u32,
    /// The new generation: one more than the last.
    #[prost(uint32, tag = "4")]
    pub generation: u32,
    /// The server as seen by the probe: attempts under the new token are judged against it.
    #[prost(message, optional, tag = "5")]
    pub server: Option<Server>,
}

/// A frame (or a piece of one) that was refused for its content, replaced by smaller ones. Its token is dead for ever.
#[derive(Clone, PartialEq, Message)]
pub struct Split {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's ordinal.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The piece that is replaced.
    #[prost(uint32, tag = "3")]
    pub piece: u32,
    /// The object that holds the new pieces.
    #[prost(string, tag = "4")]
    pub segment: String,
    /// The new pieces, numbered on from the frame's last piece; together they hold the same rows.
    #[prost(message, repeated, tag = "5")]
    pub pieces: Vec<Frame>,
}

/// What only a person can tell of a frame in doubt. Written by the owner before it stops.
#[derive(Clone, PartialEq, Message)]
pub struct Question {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's ordinal.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The piece of the frame: 0 unless it was split.
    #[prost(uint32, tag = "3")]
    pub piece: u32,
    /// Why it is asked: [`crate::doubt::StopReason`], by number.
    #[prost(uint32, tag = "4")]
    pub reason: u32,
    /// The identity of the table that was there when it was asked; an answer is about that table and no other.
    #[prost(string, tag = "5")]
    pub table_uuid: String,
    /// The owner that asked.
    #[prost(uint64, tag = "6")]
    pub epoch: u64,
    /// When it was asked, by the writer's wall clock, Unix milliseconds.
    #[prost(int64, tag = "7")]
    pub asked_at_ms: i64,
}

/// A person's answer to an open [`Question`].
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// The frame's ordinal.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// The piece of the frame.
    #[prost(uint32, tag = "3")]
    pub piece: u32,
    /// [`crate::doubt::Verdict`], by number.
    #[prost(uint32, tag = "4")]
    pub verdict: u32,
    /// Who answered, for people.
    #[prost(string, tag = "5")]
    pub by: String,
}

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
    #[prost(string, repeated, tag = "5")]
    pub steps: Vec<String>,
    /// Low watermark.
    #[prost(sint64, tag = "6")]
    pub watermark_ms: i64,
    /// Idle partitions.
    #[prost(uint32, repeated, tag = "7")]
    pub idle: Vec<u32>,
    /// Sums since genesis.
    #[prost(message, optional, tag = "8")]
    pub counts: Option<Counts>,
    /// State deltas sealed after the newest checkpointed state.
    #[prost(message, repeated, tag = "9")]
    pub deltas: Vec<DeltaImage>,
    /// Bytes of the deltas above, and of the last snapshot.
    #[prost(uint64, tag = "10")]
    pub snapshot_bytes: u64,
    /// The newest fates of each partition that has any; see [`crate::lane::FATES_KEPT`].
    #[prost(message, repeated, tag = "20")]
    pub fates: Vec<Fates>,
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
    /// Server as last seen.
    #[prost(message, optional, tag = "5")]
    pub server: Option<Server>,
    /// Frames from `frontier` to `next_ordinal`.
    #[prost(message, repeated, tag = "6")]
    pub pending: Vec<PieceImage>,
    /// The identity of a later table of this name that a person has accepted; empty if none was asked for.
    #[prost(string, tag = "7")]
    pub accepted_uuid: String,
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
    pub server: Option<Server>,
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

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Too short, or the checksum does not agree.
    #[error("journal record {seq} is damaged ({what}); restore the store from a backup, nothing was guessed")]
    Damaged {
        /// The number it was read under.
        seq: u64,
        /// What does not agree.
        what: String,
    },
    /// Another format version.
    #[error("journal record {seq} has format `{found}`, this program reads `FBJ1`; run the newer program")]
    Format {
        /// The number it was read under.
        seq: u64,
        /// The first four bytes, printable.
        found: String,
    },
}

impl Record {
    /// The record's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.encoded_len());
        bytes.extend_from_slice(&MAGIC);
        self.encode(&mut bytes).expect("a vector grows as needed");
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a record that stands under number `seq`.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, of another number, or say nothing known.
    pub fn from_bytes(seq: u64, bytes: &[u8]) -> Result<Self, RecordError> {
        let damaged = |what: &str| RecordError::Damaged { seq, what: what.to_owned() };
        let (head, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
        let body = match head.split_first_chunk::<4>() {
            Some((&MAGIC, body)) => body,
            Some((found, _)) if found.starts_with(b"FBJ") => {
                return Err(RecordError::Format { seq, found: found.escape_ascii().to_string() });
            }
            _ => return Err(damaged("no record begins like this")),
        };
        if crc32c::crc32c(head) != u32::from_le_bytes(*crc) {
            return Err(damaged("checksum"));
        }
        let record = Self::decode(body).map_err(|e| damaged(&e.to_string()))?;
        if record.seq != seq {
            return Err(damaged("it carries another number"));
        }
        if record.body.is_none() {
            return Err(damaged("it says nothing that this program knows"));
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
