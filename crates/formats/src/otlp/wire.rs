//! Protocol Buffers from left to right, without a tree: the fields of one message into slots of numbers and of pieces of its bytes.
//!
//! Owns the encoding of fields, and the slots. Does not own which message has which fields ([`super::messages`]) nor what they mean.
//!
//! A message is read as its specification says: of a field that is set twice the last one counts, pieces of a message that comes in
//! several are kept side by side (which read one after the other are the merged message), fields of unknown numbers are skipped, and a
//! field of a known number in another encoding is a fault. Groups, which OTLP never had, are a fault too.

use super::fault::{Fault, Step};

/// Numbers of a message.
const NUMBERS: usize = 12;
/// Texts and byte strings of a message.
const TEXTS: usize = 6;
/// Repeated fields, and messages, of a message.
const LISTS: usize = 4;
/// The greatest number of a field, and one.
const FIELDS: usize = 17;

/// Where a field goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nowhere.
    Skip,
    /// `fixed64`, `sfixed64` or `double`, to a number.
    Fixed64(u8),
    /// `fixed32`, to a number.
    Fixed32(u8),
    /// An integer, a truth value or an enum, to a number.
    Varint(u8),
    /// One of several fields of 64 bits, of which the last counts: its bits to a number, and its field's number to the next.
    OneOf64(u8),
    /// `string` or `bytes`, to a text.
    Text(u8),
    /// A message, or each of several, to a list.
    Message(u8),
    /// Numbers of 64 bits, packed or not, to a list of pieces.
    Packed64(u8),
    /// Integers, packed or not, to a list of pieces.
    PackedVarint(u8),
    /// One of several messages: its bytes to a list, and its field's number to the number of the same place.
    OneOfMessage(u8),
}

/// The fields of a message.
#[derive(Debug)]
pub(super) struct Spec {
    /// The message's name, for its faults.
    pub name: &'static str,
    fields: [Keep; FIELDS],
}

impl Spec {
    /// The message `name`, with these fields by their numbers.
    pub const fn new(name: &'static str, fields: &[(usize, Keep)]) -> Self {
        let mut all = [Keep::Skip; FIELDS];
        let mut at = 0;
        while at < fields.len() {
            all[fields[at].0] = fields[at].1;
            at += 1;
        }
        Self { name, fields: all }
    }
}

/// What stands in a message. Kept from one message to the next, so that lists keep their memory.
#[derive(Debug, Default)]
pub(super) struct Slots<'a> {
    /// Numbers as the 64 bits that they are sent as; 0 for what was not sent.
    pub numbers: [u64; NUMBERS],
    /// Which of them were sent, a bit each.
    pub present: u32,
    /// Texts; empty for what was not sent.
    pub texts: [&'a [u8]; TEXTS],
    /// Repeated fields, each item a piece.
    pub lists: [Vec<&'a [u8]>; LISTS],
}

impl<'a> Slots<'a> {
    /// Nothing.
    pub fn clear(&mut self) {
        self.numbers = [0; NUMBERS];
        self.present = 0;
        self.texts = [&[]; TEXTS];
        self.lists.iter_mut().for_each(Vec::clear);
    }

    /// Whether this number was sent.
    pub fn has(&self, number: u8) -> bool {
        self.present & (1 << number) != 0
    }

    /// Reads a message from its pieces, in place of what was here.
    pub fn read_all(&mut self, spec: &'static Spec, pieces: &[&'a [u8]]) -> Step<()> {
        self.clear();
        pieces.iter().try_for_each(|piece| self.add(spec, piece))
    }

    /// Reads a message, in place of what was here.
    pub fn read(&mut self, spec: &'static Spec, bytes: &'a [u8]) -> Step<()> {
        self.clear();
        self.add(spec, bytes)
    }

    fn set(&mut self, number: u8, value: u64) {
        self.numbers[usize::from(number)] = value;
        self.present |= 1 << number;
    }

    /// Merges another piece of the message into what is here.
    #[inline]
    fn add(&mut self, spec: &'static Spec, bytes: &'a [u8]) -> Step<()> {
        let mut rest = Wire(bytes);
        while !rest.0.is_empty() {
            let Some((field, wire)) = rest.key() else { return Err(broken(spec)) };
            let keep = if field < FIELDS { spec.fields[field] } else { Keep::Skip };
            let read = match (keep, wire) {
                (Keep::Text(at), 2) => rest.sized().map(|text| self.texts[usize::from(at)] = text),
                (Keep::Message(at) | Keep::Packed64(at) | Keep::PackedVarint(at), 2) => {
                    rest.sized().map(|piece| self.lists[usize::from(at)].push(piece))
                }
                (Keep::Fixed64(at), 1) => rest.fixed64().map(|value| self.set(at, value)),
                (Keep::Varint(at), 0) => rest.varint().map(|value| self.set(at, value)),
                (Keep::Fixed32(at), 5) => rest.fixed32().map(|value| self.set(at, value.into())),
                (Keep::OneOf64(at), 1) => rest.fixed64().map(|value| {
                    self.set(at, value);
                    self.set(at + 1, field as u64);
                }),
                (Keep::OneOfMessage(at), 2) => rest.sized().map(|piece| {
                    if self.numbers[usize::from(at)] != field as u64 {
                        self.lists[usize::from(at)].clear();
                    }
                    self.set(at, field as u64);
                    self.lists[usize::from(at)].push(piece);
                }),
                (Keep::Packed64(at), 1) => rest.take(8).map(|piece| self.lists[usize::from(at)].push(piece)),
                (Keep::PackedVarint(at), 0) => {
                    let before = rest.0;
                    rest.varint().map(|_| {
                        self.lists[usize::from(at)].push(&before[..before.len() - rest.0.len()]);
                    })
                }
                (Keep::Skip, 0..=2 | 5) => rest.skip(wire),
                _ => return Err(unexpected(spec, field, wire)),
            };
            if read.is_none() {
                return Err(truncated(spec, field));
            }
        }
        Ok(())
    }
}

/// Bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a>(pub &'a [u8]);

impl<'a> Wire<'a> {
    /// The number and the encoding of the next field; `None` if there is none.
    #[inline(always)]
    pub fn key(&mut self) -> Option<(usize, u8)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let field = (key >> 3) as usize;
        (field != 0).then_some((field, (key & 7) as u8))
    }

    /// A number of up to ten bytes.
    #[inline(always)]
    pub fn varint(&mut self) -> Option<u64> {
        match *self.0 {
            [byte @ ..=0x7f, ref rest @ ..] => {
                self.0 = rest;
                Some(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has one bit of the 64.
            if at == 9 && *byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte <= 0x7f {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }

    /// So many bytes.
    #[inline(always)]
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// As many bytes as the number before them says.
    #[inline(always)]
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.varint()?).ok()?;
        self.take(bytes)
    }

    /// Eight bytes.
    #[inline(always)]
    pub fn fixed64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Four bytes.
    #[inline(always)]
    pub fn fixed32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Steps over a value of encoding `wire`, which is no group.
    pub fn skip(&mut self, wire: u8) -> Option<()> {
        match wire {
            0 => self.varint().map(drop),
            1 => self.take(8).map(drop),
            2 => self.sized().map(drop),
            5 => self.take(4).map(drop),
            _ => None,
        }
    }
}

/// The numbers of 64 bits in the pieces of a packed field.
pub(super) fn fixed64s<'a>(pieces: &'a [&'a [u8]]) -> Step<impl Iterator<Item = u64> + Clone + 'a> {
    if pieces.iter().any(|piece| piece.len() % 8 != 0) {
        return Err(Fault::malformed("numbers of 8 bytes end within one".into()));
    }
    Ok(pieces.iter().flat_map(|piece| piece.as_chunks::<8>().0).map(|bytes| u64::from_le_bytes(*bytes)))
}

/// Hands the integers in the pieces of a packed field to `each`.
pub(super) fn varints(pieces: &[&[u8]], mut each: impl FnMut(u64) -> Step<()>) -> Step<()> {
    for piece in pieces {
        let mut rest = Wire(piece);
        while !rest.0.is_empty() {
            let Some(value) = rest.varint() else {
                return Err(Fault::malformed("a number does not end within its field".into()));
            };
            each(value)?;
        }
    }
    Ok(())
}

/// The integer that is sent with its sign in the lowest bit.
pub(super) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cold]
fn broken(spec: &Spec) -> Box<Fault> {
    Fault::malformed(format!("invalid field in `{}`", spec.name))
}

#[cold]
fn truncated(spec: &Spec, field: usize) -> Box<Fault> {
    Fault::malformed(format!("in `{}`, field `{field}` is cut off", spec.name))
}

#[cold]
fn unexpected(spec: &Spec, field: usize, wire: u8) -> Box<Fault> {
    Fault::malformed(format!("in `{}`, field `{field}` has the unexpected wire type `{wire}`", spec.name))
}
