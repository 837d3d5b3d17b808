//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: the checksum before anything is believed, lengths
//! before anything is allocated. Does not own the bytes of the join within ([`crate::join::state`]), nor those of a row (`rows`). Numbers are little-endian.
//!
//! | field      | bytes | meaning                                                                            |
//! |------------|-------|------------------------------------------------------------------------------------|
//! | magic      | 4     | `FBUP`                                                                             |
//! | version    | 2     | 1                                                                                  |
//! | kind       | 1     | 1 snapshot, 2 delta                                                                |
//! | –          | 1     | 0                                                                                  |
//! | shape      | 4     | length; then the step's settings in words                                          |
//! | seals      | 8     | how many have had rows                                                             |
//! | watermark  | 8     | of the join, milliseconds of its own time                                          |
//! | position   | 8     | of the next row that the step makes                                                |
//! | layouts    | 4 + 4 | the number of the first, and how many: a delta has those that are new              |
//! | –          |       | of each: how many columns (4), and of each its name and its kind (length 4, text), its form (1), whether it may be null (1), its generation (4), and how many Enums it has (4) |
//! | –          |       | of each Enum: how many names (4), and of each the name (length 4, text) and its number (2) |
//! | parts      |       | of a snapshot one, of a delta two: length (4), and the join's own bytes, of when rows asked and of when they held |
//! | checksum   | 8     | XXH3-64 of all before it                                                           |

use bytes::Bytes;
use dataflow::StateError;
use dataflow::block::TIME_UNKNOWN_MS;
use xxhash_rust::xxh3::xxh3_64;

use super::rows::{Kept, LAYOUTS_MAX};
use super::{COLUMNS_MAX, Plan};
use crate::window::values::Form;

const MAGIC: [u8; 4] = *b"FBUP";

/// The newest version that is read.
const VERSION: u16 = 1;

const CHECKSUM: usize = 8;

/// Seals at the most: the join's time ends behind them, after centuries of a thousand a second.
const SEALS_MAX: u64 = (1 << 60) / super::SEAL_MS as u64;

const SNAPSHOT: u8 = 1;
const DELTA: u8 = 2;

/// What both kinds say beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Seals that had rows.
    pub seals: u64,
    /// How far the join's time has come.
    pub watermark_ms: i64,
    /// The position of the next row that is made.
    pub position: u64,
}

impl Default for Head {
    fn default() -> Self {
        Self { seals: 0, watermark_ms: TIME_UNKNOWN_MS, position: 0 }
    }
}

/// What was read.
pub(super) struct Read<'a> {
    pub head: Head,
    pub layouts: (usize, Vec<Vec<Kept>>),
    pub parts: Vec<&'a [u8]>,
}

pub(super) fn snapshot(plan: &Plan, head: Head, layouts: &[Vec<Kept>], join: &[u8]) -> Bytes {
    write(SNAPSHOT, plan, head, (0, layouts), &[join])
}

pub(super) fn delta(plan: &Plan, head: Head, layouts: (usize, &[Vec<Kept>]), join: [&Bytes; 2]) -> Bytes {
    write(DELTA, plan, head, layouts, &join.map(|part| &part[..]))
}

fn write(
    kind: u8,
    plan: &Plan,
    head: Head,
    (from, layouts): (usize, &[Vec<Kept>]),
    parts: &[&[u8]],
) -> Bytes {
    let mut to = Vec::with_capacity(256 + parts.iter().map(|part| part.len()).sum::<usize>());
    to.extend_from_slice(&MAGIC);
    to.extend_from_slice(&VERSION.to_le_bytes());
    to.extend_from_slice(&[kind, 0]);
    put(&mut to, plan.shape.as_bytes());
    to.extend_from_slice(&head.seals.to_le_bytes());
    to.extend_from_slice(&head.watermark_ms.to_le_bytes());
    to.extend_from_slice(&head.position.to_le_bytes());
    put_len(&mut to, from);
    put_len(&mut to, layouts.len());
    for layout in layouts {
        put_len(&mut to, layout.len());
        for Kept { name, kind, form, is_nullable, generation, enums } in layout {
            put(&mut to, name.as_bytes());
            put(&mut to, kind.as_bytes());
            to.extend_from_slice(&[form_number(*form), u8::from(*is_nullable)]);
            to.extend_from_slice(&generation.to_le_bytes());
            put_len(&mut to, enums.len());
            for names in enums {
                put_len(&mut to, names.len());
                for (name, number) in names {
                    put(&mut to, name.as_bytes());
                    to.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
    parts.iter().for_each(|part| put(&mut to, part));
    let checksum = xxh3_64(&to);
    to.extend_from_slice(&checksum.to_le_bytes());
    to.into()
}

fn put_len(to: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a batch is smaller than lengths of 32 bits");
    to.extend_from_slice(&len.to_le_bytes());
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    put_len(to, bytes.len());
    to.extend_from_slice(bytes);
}

fn form_number(form: Form) -> u8 {
    match form {
        Form::Int => 0,
        Form::UInt => 1,
        Form::Float => 2,
        Form::Wide => 3,
        Form::Bytes => 4,
    }
}

pub(super) fn read_snapshot<'a>(plan: &Plan, bytes: &'a [u8]) -> Result<Read<'a>, StateError> {
    read(SNAPSHOT, plan, bytes)
}

pub(super) fn read_delta<'a>(plan: &Plan, bytes: &'a [u8]) -> Result<Read<'a>, StateError> {
    read(DELTA, plan, bytes)
}

fn damaged(what: &str) -> StateError {
    StateError::Damaged(format!("the state of an upsert {what}"))
}

fn read<'a>(kind: u8, plan: &Plan, bytes: &'a [u8]) -> Result<Read<'a>, StateError> {
    let len = bytes.len().checked_sub(CHECKSUM).ok_or_else(|| damaged("ends early"))?;
    let (body, checksum) = bytes.split_at(len);
    if checksum != xxh3_64(body).to_le_bytes() {
        return Err(damaged("has another checksum"));
    }
    let mut from = Reader(body);
    if from.array()? != MAGIC {
        return Err(damaged("begins otherwise"));
    }
    match u16::from_le_bytes(from.array()?) {
        VERSION => {}
        found if found > VERSION => return Err(StateError::TooNew { found, known: VERSION }),
        _ => return Err(damaged("is of no version")),
    }
    if from.array()? != [kind, 0] {
        return Err(damaged("is of the other kind"));
    }
    let shape = from.text()?;
    if shape != plan.shape {
        return Err(StateError::Configured {
            was: shape,
            now: plan.shape.clone(),
            way_out: "write the settings that it had".to_owned(),
        });
    }
    let head = Head {
        seals: u64::from_le_bytes(from.array()?),
        watermark_ms: i64::from_le_bytes(from.array()?),
        position: u64::from_le_bytes(from.array()?),
    };
    if head.seals >= SEALS_MAX {
        return Err(damaged("has had more seals than there can be"));
    }
    let (first, count) = (from.len()?, from.len()?);
    if count > LAYOUTS_MAX {
        return Err(damaged("has too many layouts"));
    }
    let layouts = (0..count).map(|_| layout(&mut from)).collect::<Result<_, _>>()?;
    // A snapshot has one, a delta two.
    let parts = (0..kind).map(|_| from.bytes()).collect::<Result<Vec<_>, _>>()?;
    if !from.0.is_empty() {
        return Err(damaged("goes on behind its end"));
    }
    Ok(Read { head, layouts: (first, layouts), parts })
}

fn layout(from: &mut Reader<'_>) -> Result<Vec<Kept>, StateError> {
    let count = from.len()?;
    if count > COLUMNS_MAX {
        return Err(damaged("has a layout of too many columns"));
    }
    let column = |from: &mut Reader<'_>| {
        let (name, kind) = (from.text()?, from.text()?);
        let form = match from.array()? {
            [0] => Form::Int,
            [1] => Form::UInt,
            [2] => Form::Float,
            [3] => Form::Wide,
            [4] => Form::Bytes,
            _ => return Err(damaged("has a column of no form")),
        };
        let is_nullable = match from.array()? {
            [0] => false,
            [1] => true,
            _ => return Err(damaged("has a column that may be neither")),
        };
        let generation = u32::from_le_bytes(from.array()?);
        // Each takes bytes: one that is not there ends the list before there is memory for it.
        let enums = from.len()?;
        let enums = (0..enums).map(|_| names(from)).collect::<Result<_, _>>()?;
        Ok(Kept { name, kind, form, is_nullable, generation, enums })
    };
    (0..count).map(|_| column(from)).collect()
}

fn names(from: &mut Reader<'_>) -> Result<Vec<(String, i16)>, StateError> {
    let count = from.len()?;
    (0..count).map(|_| Ok((from.text()?, i16::from_le_bytes(from.array()?)))).collect()
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| damaged("ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("taken with that length"))
    }

    fn len(&mut self) -> Result<usize, StateError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8], StateError> {
        let len = self.len()?;
        self.take(len)
    }

    fn text(&mut self) -> Result<String, StateError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| damaged("has a name that is no text"))
    }
}
