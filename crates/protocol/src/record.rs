//! The journal's records and their bytes.
//!
//! Owns what is written and how it is framed: a magic, a format version, the message in Protocol Buffers' encoding (so that
//! fields can be added), and a CRC-32C over all of it. Does not own where records are kept, nor what they mean
//! ([`crate::lane`]).
//!
//! | body         | written when                                     | says                                         |
//! |--------------|--------------------------------------------------|----------------------------------------------|
//! | `Claim`      | an owner starts                                  | who owns the lane from here on               |
//! | `Genesis`    | before the first read of a partition or table    | identity and first position of each; inputs  |
//! | `Seal`       | a batch was cut                                  | positions, frames, state delta, counts       |
//! | `Settle`     | the frontier must be durable and no seal is due  | the settled frontier of each table           |
//! | `Generation` | a frame is proven absent after all attempts died | the frame's new token                        |
//! | `Split`      | a frame was refused for its content              | the pieces that replace it                   |
//! | `Checkpoint` | enough was sealed since the last one             | all that the records before it fold to       |
//! | `Question`   | only the operator can end a frame's doubt        | what is asked, and of which table            |
//! | `Answer`     | the operator has answered                        | whether the frame's rows are in the table    |
//! | `Forget`     | the operator takes a stream out of the pipeline  | which partitions are not read any more       |
//! | `Rename`     | the operator gives the pipeline another name     | where the lane continues; nothing follows    |
//! | `Arrival`    | first record under the other name                | that the lane is still on its way            |
//! | `Removal`    | the operator resets or deletes the pipeline      | that nothing before it counts                |
//! | `Change`     | the pipeline file says something else than before | steps, and whose state is kept               |
//! | `Rewind`     | the operator moves a stopped pipeline            | where partitions continue                    |
//! | `HandOver`   | another lane shall continue partitions           | which, and the lane                          |
//!
//! Bytes: `FBJ` `5`, body, then CRC-32C (little-endian) of everything before it. A field is never reused; a reader
//! refuses any other format version and an unknown body.

mod bytes;
mod change;
mod fates;
mod hand_over;
mod image;
mod layout;
mod ledger;
mod position;
mod seal;
mod weight;

use prost::Message;

pub use bytes::RecordError;
pub use change::{Change, EnumName, KeptEnum, KeptState, Move, Part, Rewind, StepShape};
pub use fates::{Fate, Fates, Unsettled};
pub use hand_over::{HandOver, HandedOver, TakenOver};
pub use image::{
    Before, Checkpoint, DeltaImage, FormerName, InputImage, LaneImage, PassImage, PieceImage, Rewound,
    StateFile, StateObject, TableImage,
};
pub use layout::{Layout, LayoutColumn};
pub use ledger::{Absorbed, Counts, Derived, InputCounts, Rows, TableRows};
pub use position::Position;
pub(crate) use position::{joined, parted, shown};
pub use seal::{
    Frame, Frontier, Made, RUNS_MAX, Range, RecordPlace, Refusal, Run, Seal, Sighting, StateDelta,
};

/// First bytes of every record: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBJ5";

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
    /// The claim's nonce, 16 bytes: distinguishes two owners of one number, and an owner's own lost attempt from another's.
    #[prost(bytes = "vec", tag = "3")]
    pub nonce: Vec<u8>,
    /// Wall clock of the writer, Unix milliseconds. For display, and for the moments by which dead letters are told apart
    /// ([`crate::lane::Lane::moment_after`]); no invariant rests on it.
    #[prost(int64, tag = "4")]
    pub written_at_ms: i64,
    /// What is said.
    #[prost(oneof = "Body", tags = "10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25")]
    pub body: Option<Body>,
}

/// What a record says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// A new owner.
    #[prost(message, tag = "10")]
    Claim(Claim),
    /// Inputs, partitions and tables that were not known before.
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
    /// A question that only the operator can answer.
    #[prost(message, tag = "17")]
    Question(Question),
    /// The operator's answer.
    #[prost(message, tag = "18")]
    Answer(Answer),
    /// Partitions that leave the pipeline.
    #[prost(message, tag = "19")]
    Forget(Forget),
    /// The pipeline has another name from here on.
    #[prost(message, tag = "20")]
    Rename(Rename),
    /// The name is taken for a lane that comes from another.
    #[prost(message, tag = "21")]
    Arrival(Arrival),
    /// What the pipeline is made of from here on.
    #[prost(message, tag = "22")]
    Change(Change),
    /// Partitions continue from another position.
    #[prost(message, tag = "23")]
    Rewind(Rewind),
    /// Partitions continue in another lane.
    #[prost(message, tag = "24")]
    HandOver(HandOver),
    /// The pipeline was reset or deleted.
    #[prost(message, tag = "25")]
    Removal(Removal),
}

/// Who owns the lane from here on.
#[derive(Clone, PartialEq, Message)]
pub struct Claim {
    /// Host and process, for display.
    #[prost(string, tag = "1")]
    pub owner: String,
    /// The program's version, for display.
    #[prost(string, tag = "2")]
    pub version: String,
    /// True if this owner writes answers to questions and nothing else: the process that asked then continues.
    #[prost(bool, tag = "3")]
    pub answers: bool,
}

/// Inputs, partitions and tables that were not known before. Lists are appended to the lane's: an index is for ever.
#[derive(Clone, PartialEq, Message)]
pub struct Genesis {
    /// New partitions, each with its first position.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<PartitionGenesis>,
    /// New tables.
    #[prost(message, repeated, tag = "2")]
    pub tables: Vec<TableGenesis>,
    /// The pipeline's name; only in the first genesis.
    #[prost(string, tag = "3")]
    pub pipeline: String,
    /// The steps that keep state, in order; only in the first genesis.
    #[prost(message, repeated, tag = "4")]
    pub steps: Vec<StepShape>,
    /// New inputs, by their names in the pipeline file.
    #[prost(string, repeated, tag = "5")]
    pub inputs: Vec<String>,
    /// Inputs (by number) that were opened for the first time: what the pipeline file says of their start holds no more, and a
    /// partition that appears later is read from its beginning.
    #[prost(uint32, repeated, tag = "6")]
    pub opened: Vec<u32>,
    /// What else the pipeline file says; only in the first genesis.
    #[prost(message, repeated, tag = "7")]
    pub parts: Vec<Part>,
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
    /// First position to fetch: the low half.
    #[prost(uint64, tag = "4")]
    pub next_low: u64,
    /// Leader epoch that goes with it; -1 if there is none.
    #[prost(sint32, tag = "5")]
    pub leader_epoch: i32,
    /// The number of the input that it belongs to.
    #[prost(uint32, tag = "6")]
    pub input: u32,
    /// The high half of the first position.
    #[prost(uint64, tag = "7")]
    pub next_era: u64,
    /// The lane that has read it before and handed it over, if one has.
    #[prost(message, optional, tag = "8")]
    pub taken_over: Option<TakenOver>,
}

impl PartitionGenesis {
    /// First position to fetch.
    pub fn next(&self) -> Position {
        joined(self.next_era, self.next_low)
    }

    /// The same from `next` on.
    #[must_use]
    pub fn at(self, next: Position) -> Self {
        let (next_era, next_low) = parted(next);
        Self { next_low, next_era, ..self }
    }
}

/// A table's name and what it is for.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TableGenesis {
    /// `database.table`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// True if its rows are dead letters. It stays so: the two kinds of rows are counted apart.
    #[prost(bool, tag = "2")]
    pub takes_dead_letters: bool,
}

impl TableGenesis {
    /// A table for rows.
    pub fn of_rows(name: impl Into<String>) -> Self {
        Self { name: name.into(), takes_dead_letters: false }
    }

    /// A table for dead letters.
    pub fn of_dead_letters(name: impl Into<String>) -> Self {
        Self { name: name.into(), takes_dead_letters: true }
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
    pub servers: Vec<Sighting>,
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
    pub server: Option<Sighting>,
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
    /// The pieces' columns, if no earlier record has said them.
    #[prost(message, repeated, tag = "6")]
    pub layouts: Vec<Layout>,
}

/// A question about a frame in doubt that only the operator can answer. Written by the owner before it stops.
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

/// The operator's answer to an open [`Question`].
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
    /// Who answered, for display.
    #[prost(string, tag = "5")]
    pub by: String,
}

/// Partitions that the operator has removed from the pipeline. Their sealed rows are still delivered.
#[derive(Clone, PartialEq, Message)]
pub struct Forget {
    /// Which; each was read so far.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<Forgotten>,
    /// Who said so, for display.
    #[prost(string, tag = "2")]
    pub by: String,
}

/// A partition that is not read any more. Its index stays its own: sealed frames name it as their rows' origin.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Forgotten {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// True if its position does not count either: added again, the stream begins where the pipeline file says. Otherwise the
    /// same stream, by its identity, continues where it was left.
    #[prost(bool, tag = "2")]
    pub from_start: bool,
    /// When, by the wall clock of whoever said so, Unix milliseconds; 0 in records of earlier programs. Given, records that are read again
    /// behind it are read anew ([`crate::lane::Lane::passes_of`]).
    #[prost(int64, tag = "3")]
    pub at_ms: i64,
}

/// The pipeline continues under another name. No record but a claim and one more of these may follow.
#[derive(Clone, PartialEq, Message)]
pub struct Rename {
    /// The new name.
    #[prost(string, tag = "1")]
    pub to: String,
    /// True once the new name has all that it needs: nothing under the old name is needed any more.
    #[prost(bool, tag = "2")]
    pub is_done: bool,
    /// Who said so, for display.
    #[prost(string, tag = "3")]
    pub by: String,
}

/// The first record under a new name. The lane follows as a checkpoint, and nothing else may.
#[derive(Clone, PartialEq, Message)]
pub struct Arrival {
    /// The name so far.
    #[prost(string, tag = "1")]
    pub from: String,
    /// Who said so, for display.
    #[prost(string, tag = "2")]
    pub by: String,
}

/// The pipeline was reset or deleted: nothing of what the records before it say is true any more.
#[derive(Clone, PartialEq, Message)]
pub struct Removal {
    /// True once its objects are deleted, so that the name may be used again. Until then only a claim and another of these may follow.
    #[prost(bool, tag = "1")]
    pub is_done: bool,
    /// Who said so, for display.
    #[prost(string, tag = "2")]
    pub by: String,
    /// What is known of the pipeline that had the name so far; absent in records of earlier programs.
    #[prost(message, optional, tag = "3")]
    pub before: Option<Before>,
}

#[cfg(test)]
mod tests;
