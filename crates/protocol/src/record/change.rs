//! What a pipeline is made of, what changes about it, and the positions that it is moved to, as messages.
//!
//! Owns the fields. Does not own what a change does to a lane ([`crate::lane`]), nor which changes need the operator's word
//! (`engine::change`).

use std::collections::BTreeMap;

use prost::Message;

use super::Position;
use super::position::{joined, parted};

/// A step that keeps state.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StepShape {
    /// Its word in the pipeline file.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The settings that its state depends on, in words: state of another shape cannot be read back.
    #[prost(string, tag = "2")]
    pub shape: String,
    /// True if it takes records into its state and releases results later: a record that is read again would be in two results.
    #[prost(bool, tag = "3")]
    pub absorbs: bool,
    /// The Enums whose values are in its state as numbers, in an order that the shape decides. Programs that recorded none have left none.
    #[prost(message, repeated, tag = "4")]
    pub enums: Vec<KeptEnum>,
}

impl StepShape {
    /// A step of this name and shape, which lets rows through or drops them, and keeps no values of an Enum.
    pub fn new(name: impl Into<String>, shape: impl Into<String>) -> Self {
        Self { name: name.into(), shape: shape.into(), ..Self::default() }
    }

    /// Whether the state of the step `before` means the same to this one: everything is equal, except that Enums may have more names.
    pub fn continues(&self, before: &Self) -> bool {
        let Self { name, shape, absorbs, enums } = self;
        let is_same = *name == before.name && *shape == before.shape && *absorbs == before.absorbs;
        is_same
            && enums.len() == before.enums.len()
            && enums.iter().zip(&before.enums).all(|(now, before)| now.of == before.of && now.extends(before))
    }

    /// The same, of a step that absorbs records.
    pub fn absorbing(self) -> Self {
        Self { absorbs: true, ..self }
    }
}

/// An Enum of a column whose values a state keeps, as numbers.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeptEnum {
    /// What has the type: a column, or an aggregate.
    #[prost(string, tag = "1")]
    pub of: String,
    /// The names, by number.
    #[prost(message, repeated, tag = "2")]
    pub names: Vec<EnumName>,
}

/// A name of an Enum.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct EnumName {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The number that stands for it.
    #[prost(sint32, tag = "2")]
    pub number: i32,
}

impl KeptEnum {
    /// The number of a name.
    pub fn number_of(&self, name: &str) -> Option<i32> {
        self.names.iter().find(|one| one.name == name).map(|one| one.number)
    }

    /// Whether every name of `before` has its number here too.
    pub fn extends(&self, before: &Self) -> bool {
        let now: BTreeMap<&str, i32> = self.names.iter().map(|one| (one.name.as_str(), one.number)).collect();
        before.names.iter().all(|one| now.get(one.name.as_str()) == Some(&one.number))
    }
}

/// Something that the pipeline file says and that may change at any time: kept to be compared and shown, never interpreted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Part {
    /// What it belongs to: `input`, `step` or `table`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Its name or its place there.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What the file says; no secrets.
    #[prost(string, tag = "3")]
    pub text: String,
}

/// The pipeline file says something else than before. Written by the start that follows it.
#[derive(Clone, PartialEq, Message)]
pub struct Change {
    /// The steps that keep state from here on, in order. An index is that of a step in this list.
    #[prost(message, repeated, tag = "1")]
    pub steps: Vec<StepShape>,
    /// Steps that keep state from before this record; the others begin with none.
    #[prost(message, repeated, tag = "2")]
    pub kept: Vec<KeptState>,
    /// Of the records and rows that states hold, those in states that are given up.
    #[prost(uint64, tag = "3")]
    pub discarded: u64,
    /// What else the file says.
    #[prost(message, repeated, tag = "4")]
    pub parts: Vec<Part>,
    /// Who said so, for display.
    #[prost(string, tag = "5")]
    pub by: String,
}

/// A step whose state is kept.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct KeptState {
    /// Its index from here on.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// Its index before.
    #[prost(uint32, tag = "2")]
    pub before: u32,
}

/// The operator has moved a stopped pipeline to other positions.
#[derive(Clone, PartialEq, Message)]
pub struct Rewind {
    /// The partitions that are moved.
    #[prost(message, repeated, tag = "1")]
    pub moves: Vec<Move>,
    /// Steps (by index) that begin with no state from here on.
    #[prost(uint32, repeated, tag = "2")]
    pub emptied: Vec<u32>,
    /// Of the records and rows that states hold, those in states that are given up.
    #[prost(uint64, tag = "3")]
    pub discarded: u64,
    /// Who said so, for display.
    #[prost(string, tag = "4")]
    pub by: String,
    /// When, by the wall clock of whoever said so, Unix milliseconds: dead letters from before are of an earlier reading. 0 in records of earlier programs.
    #[prost(int64, tag = "5")]
    pub at_ms: i64,
}

/// Where a partition continues. Positions between [`from`](Self::from) and a greater [`next`](Self::next) are never read; those between `next` and a greater
/// `from` are read again.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Move {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Where it stood: the low half.
    #[prost(uint64, tag = "2")]
    pub from_low: u64,
    /// Where the next seal begins: the low half.
    #[prost(uint64, tag = "3")]
    pub next_low: u64,
    /// Leader epoch that goes with `next`; -1 if there is none.
    #[prost(sint32, tag = "4")]
    pub leader_epoch: i32,
    /// The high half of where it stood.
    #[prost(uint64, tag = "5")]
    pub from_era: u64,
    /// The high half of where the next seal begins.
    #[prost(uint64, tag = "6")]
    pub next_era: u64,
}

impl Move {
    /// The partition with this index, from a position to another.
    pub fn new(partition: u32, from: Position, next: Position, leader_epoch: i32) -> Self {
        let ((from_era, from_low), (next_era, next_low)) = (parted(from), parted(next));
        Self { partition, from_low, next_low, leader_epoch, from_era, next_era }
    }

    /// The position at which the partition stood.
    pub fn from(&self) -> Position {
        joined(self.from_era, self.from_low)
    }

    /// Where the next seal begins.
    pub fn next(&self) -> Position {
        joined(self.next_era, self.next_low)
    }

    /// Whether records are read again.
    pub fn is_back(&self) -> bool {
        self.next() < self.from()
    }
}
