//! One pass over a record: what its fields hold, in whatever order they come.
//!
//! Owns what the specification says of several occurrences: the last value of a field counts, pieces of one message are merged, of the fields of a
//! `oneof` the last one counts, items of a repeated field are kept in order, packed or not, and unknown fields are skipped, groups too. Does not own
//! the encoding of single values (`protobuf::wire`) nor what a column makes of them (`protobuf::fill`).
//!
//! A field in another encoding than its type has makes the record a reject: other readers drop such a value silently.

use super::plan::{Encoding, Field, Member, Message, Plan, Read};
use super::wire::{Piece, Wire};
use crate::fault::{Fault, Step};

/// Where values go.
pub(super) trait Sink {
    /// The value of a field: its bits, or its piece ([`Piece::pack`]).
    fn set(&mut self, slot: usize, bits: u64);
    /// One more item of a repeated field, several packed ones, or one more piece of a message.
    fn push(&mut self, list: usize, piece: Piece);
    /// A message is there.
    fn enter(&mut self, message: usize);
    /// A field of a `oneof` is there, so that the others are not.
    fn choose(&mut self, member: Member);
}

/// Finds the values of a record.
#[inline]
pub(super) fn record(plan: &Plan, wire: Wire<'_>, sink: &mut impl Sink) -> Step<()> {
    message(&plan.messages, 0, wire, sink)
}

/// The recursion is as deep as the paths of columns, which are bounded.
#[inline]
fn message(messages: &[Message], at: usize, mut wire: Wire<'_>, sink: &mut impl Sink) -> Step<()> {
    let fields = &messages[at];
    while !wire.is_empty() {
        let before = wire;
        let key = wire.key()?;
        let Some(field) = fields.field(key >> 3) else {
            wire.skip(key)?;
            continue;
        };
        if let Some(member) = field.member {
            sink.choose(member);
        }
        let done = match (&field.read, key & 7) {
            (Read::Varint { slot }, 0) => wire.varint().map(|bits| sink.set(*slot, bits)),
            (Read::Fixed64 { slot }, 1) => wire.fixed64().map(|bits| sink.set(*slot, bits)),
            (Read::Fixed32 { slot }, 5) => wire.fixed32().map(|bits| sink.set(*slot, bits)),
            (Read::Sized { slot }, 2) => wire.sized().map(|piece| sink.set(*slot, piece.pack())),
            _ => seldom(messages, field, (before, key), &mut wire, sink),
        };
        if let Err(fault) = done {
            return Err(fault.within(&field.name));
        }
    }
    Ok(())
}

/// The same for fields that hold more than one value.
#[inline(never)]
fn seldom(
    messages: &[Message],
    field: &Field,
    (before, key): (Wire<'_>, u32),
    wire: &mut Wire<'_>,
    sink: &mut impl Sink,
) -> Step<()> {
    match (&field.read, key & 7) {
        (Read::Packed { list, .. }, 2) => sink.push(*list, wire.sized()?),
        (Read::Packed { list, encoding }, bits) if encoding.bits() == bits => {
            sink.push(*list, wire.piece(*encoding)?);
        }
        (Read::Pieces { list, message: inner }, 2) => {
            let piece = wire.sized()?;
            if let Some(list) = list {
                sink.push(*list, piece);
            }
            if let Some(inner) = inner {
                sink.enter(*inner);
                message(messages, *inner, wire.of(piece), sink)?;
            }
        }
        (Read::Skip, _) => wire.skip(key)?,
        (read, bits) => return Err(unexpected(read, bits, before)),
    }
    Ok(())
}

#[cold]
fn unexpected(read: &Read, bits: u32, at: Wire<'_>) -> Box<Fault> {
    let wanted = match read {
        Read::Varint { .. } => Encoding::Varint,
        Read::Fixed64 { .. } => Encoding::Fixed64,
        Read::Fixed32 { .. } => Encoding::Fixed32,
        Read::Packed { encoding, .. } => *encoding,
        Read::Sized { .. } | Read::Pieces { .. } | Read::Skip => Encoding::Sized,
    };
    let word = |bits: u32| match bits {
        0 => "a varint",
        1 => "8 bytes",
        2 => "bytes behind their length",
        3 | 4 => "a group",
        5 => "4 bytes",
        _ => "no encoding",
    };
    at.fault(format!(
        "the value is written as {}, and the schema has a type that is written as {}; was it written with another schema?",
        word(bits),
        word(wanted.bits())
    ))
}

/// What a record holds. Kept from one record to the next, so that lists keep their memory.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The number of the record, by which values of earlier ones are told.
    record: u32,
    values: Vec<(u32, u64)>,
    lists: Vec<Vec<Piece>>,
    messages: Vec<u32>,
    oneofs: Vec<(u32, usize)>,
}

/// Slots for the fields of a plan.
pub(super) struct Filled<'s, 'p> {
    slots: &'s mut Slots,
    plan: &'p Plan,
}

impl Slots {
    /// Room for the next record, of `plan`.
    pub fn next<'s, 'p>(&'s mut self, plan: &'p Plan) -> Filled<'s, 'p> {
        // A block has fewer records than that.
        self.record += 1;
        if self.values.len() < plan.slots {
            self.values.resize(plan.slots, (0, 0));
        }
        if self.lists.len() < plan.lists {
            self.lists.resize_with(plan.lists, Vec::new);
        }
        if self.messages.len() < plan.messages.len() {
            self.messages.resize(plan.messages.len(), 0);
        }
        if self.oneofs.len() < plan.oneofs {
            self.oneofs.resize(plan.oneofs, (0, 0));
        }
        self.lists.iter_mut().for_each(Vec::clear);
        Filled { slots: self, plan }
    }
}

impl Filled<'_, '_> {
    /// The last value of a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> Option<u64> {
        let (record, bits) = self.slots.values[slot];
        (record == self.slots.record).then_some(bits)
    }

    /// The pieces of a list.
    pub fn list(&self, list: usize) -> &[Piece] {
        &self.slots.lists[list]
    }

    /// Whether the message is there; the record itself is.
    pub fn has(&self, message: Option<usize>) -> bool {
        message.is_none_or(|message| self.slots.messages[message] == self.slots.record)
    }
}

impl Sink for Filled<'_, '_> {
    #[inline(always)]
    fn set(&mut self, slot: usize, bits: u64) {
        self.slots.values[slot] = (self.slots.record, bits);
    }

    fn push(&mut self, list: usize, piece: Piece) {
        self.slots.lists[list].push(piece);
    }

    fn enter(&mut self, message: usize) {
        self.slots.messages[message] = self.slots.record;
    }

    #[cold]
    fn choose(&mut self, member: Member) {
        let (record, chosen) = self.slots.oneofs[member.oneof];
        if record == self.slots.record && chosen != member.id {
            let parts = &self.plan.members[chosen];
            parts.slots.iter().for_each(|slot| self.slots.values[*slot].0 = 0);
            parts.lists.iter().for_each(|list| self.slots.lists[*list].clear());
            parts.messages.iter().for_each(|message| self.slots.messages[*message] = 0);
        }
        self.slots.oneofs[member.oneof] = (self.slots.record, member.id);
    }
}
