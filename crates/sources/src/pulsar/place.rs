//! A message's place as a position.
//!
//! Owns how ledger, entry and the index in a batch fill the 16 bytes of a position. Does not own which of them are held. Pure.
//!
//! | part                 | bits      | where                     |
//! |----------------------|-----------|---------------------------|
//! | ledger               | 64        | the era                   |
//! | entry in the ledger  | 40        | high part of the place    |
//! | index in the batch   | 24        | low part of the place     |
//!
//! A ledger rolls over after 50,000 entries or some hours, and a batch has a thousand messages by habit: both parts hold a
//! hundred times what a broker allows. Position 0 is before all: a topic that has never held a message begins there.

use dataflow::Position;
use dataflow::position::{self, era, low};

use super::messages::MessageId;

/// Bits of the index in a batch.
const INDEX_BITS: u32 = 24;
/// Messages of a batch at most, as places can tell them apart.
pub(super) const INDEX_MAX: u64 = (1 << INDEX_BITS) - 1;
/// The greatest entry that a place can hold.
const ENTRY_MAX: u64 = (1 << (64 - INDEX_BITS)) - 1;

/// An entry of a topic: a message, or a batch of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) ledger: u64,
    pub(super) entry: u64,
}

impl Entry {
    /// The entry that a broker names; `None` for "before the first of its ledger", which it writes as -1.
    pub(super) fn of(id: &MessageId) -> Option<Self> {
        (id.entry <= ENTRY_MAX && id.ledger != u64::MAX)
            .then_some(Self { ledger: id.ledger, entry: id.entry })
    }

    /// The place of the first message in it.
    pub(super) fn position(self) -> Position {
        self.message(0)
    }

    /// The place of the message at `index` of it; `index` is at most [`INDEX_MAX`].
    pub(super) fn message(self, index: u64) -> Position {
        debug_assert!(index <= INDEX_MAX && self.entry <= ENTRY_MAX);
        position::position(self.ledger, self.entry_place(index))
    }

    /// The low half of that.
    #[inline]
    pub(super) fn entry_place(self, index: u64) -> u64 {
        self.entry << INDEX_BITS | index
    }

    /// The place behind all of it.
    pub(super) fn end(self) -> Position {
        Self { entry: self.entry + 1, ..self }.position()
    }

    /// The entry that `position` stands in or before.
    pub(super) fn at(position: Position) -> Self {
        Self { ledger: era(position), entry: low(position) >> INDEX_BITS }
    }

    /// As a broker reads it: the reading begins with this entry as a whole, whatever was acknowledged of it.
    pub(super) fn id(self) -> MessageId {
        MessageId { ledger: self.ledger, entry: self.entry, partition: None, batch_index: Some(0) }
    }
}

/// What must come first of a consumer that begins at a position, if nothing is missing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Anything: nothing was read yet.
    Any,
    /// Some entry of this ledger: nothing of it was read yet.
    Ledger(u64),
    /// This entry: the newest that was read, in whole or in part. It comes once more, and proves that its ledger is held.
    Entry(Entry),
}

impl Proof {
    /// What proves that `next` is the place where the reading was left.
    pub(super) fn of(next: Position) -> Self {
        let at = Entry::at(next);
        let index = low(next) & INDEX_MAX;
        match (at.entry, index) {
            _ if next == 0 => Self::Any,
            (0, 0) => Self::Ledger(at.ledger),
            (entry, 0) => Self::Entry(Entry { entry: entry - 1, ..at }),
            _ => Self::Entry(at),
        }
    }

    /// Entries that come first and were read before.
    pub(super) fn entries(self, next: Position) -> u64 {
        u64::from(matches!(self, Self::Entry(entry) if entry.end() <= next))
    }

    /// Where a consumer must begin so that it comes.
    pub(super) fn start(self) -> MessageId {
        match self {
            Self::Any => MessageId { ledger: u64::MAX, entry: u64::MAX, partition: None, batch_index: None },
            Self::Ledger(ledger) => Entry { ledger, entry: 0 }.id(),
            Self::Entry(entry) => entry.id(),
        }
    }

    /// True if `came` is what must come first.
    pub(super) fn is_given_by(self, came: Entry) -> bool {
        match self {
            Self::Any => true,
            Self::Ledger(ledger) => came.ledger == ledger,
            Self::Entry(entry) => came == entry,
        }
    }
}

/// The entry up to which a subscription may acknowledge when `next` is the next position: never the newest entry that was read, so that
/// its ledger stays held until a later one is read, and `next` can be proved. `None` while there is none in its ledger.
pub(super) fn acknowledged(next: Position) -> Option<Entry> {
    let at = Entry::at(next);
    let newest_read = if low(next) & INDEX_MAX == 0 { at.entry.checked_sub(1)? } else { at.entry };
    Some(Entry { entry: newest_read.checked_sub(1)?, ..at })
}

/// A position in words: ledger, entry and index, as Pulsar's tools write them.
pub(super) fn shown(next: Position) -> String {
    let at = Entry::at(next);
    match low(next) & INDEX_MAX {
        _ if next == 0 => "the beginning".into(),
        0 => format!("{}:{}", at.ledger, at.entry),
        index => format!("{}:{}:{index}", at.ledger, at.entry),
    }
}

/// Where a topic ends whose newest entry is `last`: the position after it, or 0 if it holds none.
pub(super) fn end(last: Option<Entry>) -> Position {
    last.map_or(0, Entry::end)
}

#[cfg(test)]
mod tests;
