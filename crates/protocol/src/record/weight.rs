//! How much memory a record will take once decoded, computed from its bytes beforehand.
//!
//! Owns the bound. Whoever can write into the store can put a record there whose checksum is right, and Protocol Buffers express an entry of a
//! list in two bytes that takes hundreds in memory: 64 MiB of empty entries would be gigabytes. So the lists of a record are counted first, with
//! what one entry takes. Does not own the messages ([`super`]): [`RECORD`] names those of their fields that take memory, and a test
//! compares it with what the decoder does.
//!
//! | a record of `n` bytes may take           | reason                                                                        |
//! |------------------------------------------|-------------------------------------------------------------------------------|
//! | [`SMALL`] + [`EACH`] · `n` bytes         | an entry that the program writes takes up to a dozen bytes for each of its own |
//! | no more than [`MAX`]                     | three times the largest checkpoint that the program can write                 |
//!
//! A list that grows may take three times its entries while it is moved.
//!
//! Most records are not counted: no record takes more than [`each_max`] for each of its bytes, and one of up to [`LIGHT_BYTES_MAX`] is within the
//! bound whatever it says.

use super::{
    DeltaImage, EnumName, Fates, Forgotten, FormerName, Frame, Frontier, HandedOver, InputCounts, InputImage,
    KeptEnum, KeptState, Layout, LayoutColumn, Made, Move, Part, PartitionGenesis, PassImage, PieceImage,
    Range, Refusal, Rewound, Run, SettledAbove, Sighting, StateDelta, StateFile, StateObject, StepShape,
    TableGenesis, TableImage, TableRows, Unsettled,
};

/// What every record may take: lists of a few entries whose values are all zero, which are not written at all. As much as the longest record
/// may take that is not counted; the seal of a batch from dozens of partitions is shorter.
pub(super) const SMALL: u64 = 256 << 10;

/// What a record may take for each of its bytes.
pub(super) const EACH: u64 = 32;

/// What no record may take more than.
pub(super) const MAX: u64 = 256 << 20;

/// Bytes of the longest record that is not counted: even if each of them took [`each_max`], that is what a record of so many bytes may take.
const LIGHT_BYTES_MAX: u64 = SMALL / (each_max(RECORD) - EACH);

/// A field that takes memory of its own.
struct Field {
    tag: u32,
    holds: Holds,
}

/// What a field holds.
enum Holds {
    /// Text or bytes; in a list each takes so many bytes beside its own.
    Text { entry: u64 },
    /// A list of numbers, of so many bytes each.
    Numbers { entry: u64 },
    /// A message; in a list each takes so many bytes, and no more than `each` for every byte of its content.
    Message { entry: u64, each: u64, fields: &'static [Field] },
}

const fn text(tag: u32) -> Field {
    Field { tag, holds: Holds::Text { entry: 0 } }
}

const fn texts(tag: u32) -> Field {
    Field { tag, holds: Holds::Text { entry: size_of::<String>() as u64 } }
}

const fn numbers<T>(tag: u32) -> Field {
    Field { tag, holds: Holds::Numbers { entry: size_of::<T>() as u64 } }
}

/// A message that stands in the one around it.
const fn one(tag: u32, fields: &'static [Field]) -> Field {
    Field { tag, holds: Holds::Message { entry: 0, each: each_max(fields), fields } }
}

const fn list<T>(tag: u32, fields: &'static [Field]) -> Field {
    Field { tag, holds: Holds::Message { entry: size_of::<T>() as u64, each: each_max(fields), fields } }
}

/// A message in memory of its own.
const fn boxed<T>(tag: u32, fields: &'static [Field]) -> Field {
    list::<T>(tag, fields)
}

/// What a message of these fields takes at most for each of its bytes. An entry takes two of them or more, for its tag and its length; only
/// packed numbers take one each.
const fn each_max(fields: &[Field]) -> u64 {
    let (mut most, mut n) = (0, 0);
    while n < fields.len() {
        let each = match &fields[n].holds {
            Holds::Text { entry } => larger(1, entry.div_ceil(2)),
            Holds::Numbers { entry } => *entry,
            Holds::Message { entry, each, .. } => larger(*each, entry.div_ceil(2)),
        };
        (most, n) = (larger(most, each), n + 1);
    }
    most
}

const fn larger(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

/// The fields of a record.
const RECORD: &[Field] = &[
    text(3),
    one(10, &[text(1), text(2)]),
    one(
        11,
        &[
            list::<PartitionGenesis>(1, PARTITION),
            list::<TableGenesis>(2, &[text(1)]),
            text(3),
            list::<StepShape>(4, STEP),
            texts(5),
            numbers::<u32>(6),
            list::<Part>(7, PART),
        ],
    ),
    one(12, SEAL),
    one(
        13,
        &[
            list::<Frontier>(1, &[]),
            list::<Sighting>(2, SIGHTING),
            list::<SettledAbove>(3, &[numbers::<u64>(2)]),
        ],
    ),
    one(14, &[one(5, SIGHTING)]),
    one(15, &[text(4), list::<Frame>(5, FRAME), list::<Layout>(6, LAYOUT)]),
    one(16, &[one(1, LANE), list::<StateObject>(2, &[text(2)]), list::<StateFile>(4, &[text(2)])]),
    one(17, QUESTION),
    one(18, &[text(5)]),
    one(19, &[list::<Forgotten>(1, &[]), text(2)]),
    one(20, &[text(1), text(3)]),
    one(21, &[text(1), text(2)]),
    one(22, &[list::<StepShape>(1, STEP), list::<KeptState>(2, &[]), list::<Part>(4, PART), text(5)]),
    one(23, &[list::<Move>(1, &[]), numbers::<u32>(2), text(4)]),
    one(24, &[numbers::<u32>(2)]),
    one(25, &[text(2)]),
];

const SEAL: &[Field] = &[
    list::<Range>(1, &[]),
    text(2),
    list::<Frame>(4, FRAME),
    list::<StateDelta>(5, &[]),
    numbers::<u32>(7),
    list::<Frontier>(8, &[]),
    list::<Sighting>(9, SIGHTING),
    list::<InputCounts>(10, &[]),
    list::<TableRows>(11, &[]),
    list::<Refusal>(13, &[]),
    list::<Fates>(14, FATES),
    list::<Layout>(15, LAYOUT),
];

const LANE: &[Field] = &[
    text(1),
    list::<PartitionGenesis>(2, PARTITION),
    numbers::<i64>(3),
    list::<TableImage>(4, TABLE),
    list::<StepShape>(5, STEP),
    numbers::<u32>(7),
    list::<InputImage>(8, &[text(1)]),
    list::<DeltaImage>(9, &[text(2)]),
    list::<Fates>(11, FATES),
    list::<Forgotten>(12, &[]),
    list::<FormerName>(13, &[text(1)]),
    list::<Part>(16, PART),
    list::<Rewound>(17, &[]),
    list::<HandedOver>(18, &[]),
    list::<PassImage>(21, &[]),
];

const TABLE: &[Field] =
    &[text(1), one(5, SIGHTING), list::<PieceImage>(6, PIECE), text(7), list::<Layout>(8, LAYOUT)];

const STEP: &[Field] = &[text(1), text(2), list::<KeptEnum>(4, ENUM)];
const ENUM: &[Field] = &[text(1), list::<EnumName>(2, &[text(1)])];
const PART: &[Field] = &[text(1), text(2), text(3)];
const PIECE: &[Field] = &[one(1, FRAME), text(4), one(5, SIGHTING), one(8, QUESTION)];
const PARTITION: &[Field] = &[text(1), text(3)];
const FRAME: &[Field] = &[text(3), text(4), boxed::<Made>(12, &[list::<Run>(1, &[])])];
const SIGHTING: &[Field] = &[text(2), text(4)];
const QUESTION: &[Field] = &[text(5)];
const FATES: &[Field] = &[text(3), list::<Unsettled>(4, &[])];
const LAYOUT: &[Field] = &[list::<LayoutColumn>(3, &[text(1), text(2), text(3)])];

/// Whether a record of these bytes takes no more memory than a record of the program may.
#[inline]
pub(super) fn is_bounded(record: &[u8]) -> bool {
    let bytes = record.len() as u64;
    bytes <= LIGHT_BYTES_MAX || weigh(record, RECORD, &mut (SMALL + EACH * bytes).min(MAX)).is_some()
}

/// Takes what the message needs from what is `left`; `None` once that is not enough. Bytes that are not a valid message weigh nothing from there on:
/// the decoder refuses them at the same place.
fn weigh(mut bytes: &[u8], fields: &[Field], left: &mut u64) -> Option<()> {
    while let Some((tag, value)) = next(&mut bytes) {
        let Some(field) = fields.iter().find(|field| u64::from(field.tag) == tag) else { continue };
        let (entries, entry) = match (&field.holds, value) {
            (Holds::Text { entry }, Value::Bytes(content)) => {
                *left = left.checked_sub(content.len() as u64)?;
                (1, *entry)
            }
            // Numbers are packed into one field, or have a field each.
            (Holds::Numbers { entry }, Value::Bytes(content)) => {
                (content.iter().filter(|byte| **byte < 0x80).count() as u64, *entry)
            }
            (Holds::Numbers { entry }, Value::Number) => (1, *entry),
            // Of text at the most: its length says enough.
            (Holds::Message { entry, each: each @ (0 | 1), .. }, Value::Bytes(content)) => {
                *left = left.checked_sub(each * content.len() as u64)?;
                (1, *entry)
            }
            (Holds::Message { entry, fields, .. }, Value::Bytes(content)) => {
                weigh(content, fields, left)?;
                (1, *entry)
            }
            // Of another kind than the field: the decoder refuses it.
            (Holds::Text { .. } | Holds::Message { .. }, Value::Number) => (0, 0),
        };
        *left = left.checked_sub(entries * entry)?;
    }
    Some(())
}

/// A field's value.
enum Value<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// The next field's tag and value; `None` at the end, or where the bytes are no message. Groups are passed into: what stands in them counts
/// as if it stood outside, which is more than they take.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = varint(bytes)?;
    let value = match key & 7 {
        0 => varint(bytes).map(|_| Value::Number)?,
        1 => take(bytes, 8).map(|_| Value::Number)?,
        2 => {
            let length = varint(bytes)?;
            Value::Bytes(take(bytes, length)?)
        }
        3 | 4 => Value::Number,
        5 => take(bytes, 4).map(|_| Value::Number)?,
        _ => return None,
    };
    Some((key >> 3, value))
}

/// Most numbers are a byte.
#[inline]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    match bytes.split_first()? {
        (byte @ ..0x80, rest) => {
            *bytes = rest;
            Some(u64::from(*byte))
        }
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * shift);
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests;
