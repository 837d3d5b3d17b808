//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: lengths before anything is
//! allocated, the checksum before anything is believed. Both kinds have one form; numbers are little-endian.
//!
//! | field      | bytes | meaning                                                                        |
//! |------------|-------|--------------------------------------------------------------------------------|
//! | magic      | 4     | `FBWN`                                                                         |
//! | version    | 2     | 1                                                                              |
//! | kind       | 1     | 1 snapshot: what the windows hold; 2 delta: what one seal brought into them    |
//! | –          | 1     | 0                                                                              |
//! | shape      | 4     | length; then the step's settings in words                                      |
//! | watermark  | 8     | of the seal; windows that it closes are in neither kind                        |
//! | windows    | 4     | how many; then for each what the next table says, the earliest first           |
//! | checksum   | 8     | XXH3-64 of all before it                                                       |
//!
//! | window     | bytes   | meaning                                                                      |
//! |------------|---------|------------------------------------------------------------------------------|
//! | start      | 8       | Unix milliseconds                                                            |
//! | groups     | 4       | how many                                                                     |
//! | ends       | 8 each  | of the keys, if they differ in length                                        |
//! | keys       |         | one after the other                                                          |
//! | counts     | 8 each  | rows                                                                         |
//! | aggregates |         | of each that keeps anything: a byte for each group that is 1 if it has a value, then its columns; values of any length stand behind their length (4) |

use std::collections::BTreeMap;

use bytes::Bytes;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::Plan;
use super::accumulator::{Accumulator, Bits, Kind as Of};
use super::aggregate::Bound;
use super::groups::Groups;
use super::key::Keys;
use super::values::Store;

const MAGIC: [u8; 4] = *b"FBWN";

/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;

const CHECKSUM: usize = 8;

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of the state.
    Snapshot = 1,
    /// What one seal changed.
    Delta = 2,
}

/// What is read back.
pub(super) struct Parsed {
    /// The watermark of the seal.
    pub watermark_ms: i64,
    /// The groups of each window, by its start.
    pub windows: BTreeMap<i64, Groups>,
}

/// Writes a delta or a snapshot of these windows.
pub(super) fn write<'a>(
    kind: Kind,
    shape: &str,
    watermark_ms: i64,
    windows: impl ExactSizeIterator<Item = (&'a i64, &'a Groups)>,
) -> Bytes {
    let mut to = Vec::with_capacity(64 + shape.len());
    to.extend_from_slice(&MAGIC);
    to.extend_from_slice(&VERSION.to_le_bytes());
    to.extend_from_slice(&[kind as u8, 0]);
    put_len(&mut to, shape.len());
    to.extend_from_slice(shape.as_bytes());
    to.extend_from_slice(&watermark_ms.to_le_bytes());
    put_len(&mut to, windows.len());
    for (start, groups) in windows {
        to.extend_from_slice(&start.to_le_bytes());
        put_len(&mut to, groups.len());
        groups.put_keys(&mut to);
        groups.counts.iter().for_each(|count| to.extend_from_slice(&count.to_le_bytes()));
        groups.accumulators.iter().for_each(|accumulator| put(accumulator, &mut to));
    }
    let checksum = xxh3_64(&to);
    to.extend_from_slice(&checksum.to_le_bytes());
    to.into()
}

/// Reads a delta or a snapshot.
///
/// # Errors
/// When the bytes are damaged, too new, of the other kind, or of a step with other settings.
pub(super) fn parse(bytes: &[u8], kind: Kind, plan: &Plan) -> Result<Parsed, StateError> {
    let shape = plan.shape.as_str();
    let damaged = |what: &str| StateError::Damaged(format!("the state of a window {what}"));
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| damaged("is too short"))?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(damaged("has another checksum"));
    }
    let mut from = From(body);
    if from.take(4)? != MAGIC {
        return Err(damaged("does not begin as one"));
    }
    let version = u16::from_le_bytes(from.array()?);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    if from.take(2)? != [kind as u8, 0] {
        return Err(damaged("is of another kind"));
    }
    let len = from.len()?;
    let was = String::from_utf8_lossy(from.take(len)?);
    if was != shape {
        let way_out = "a window that is changed would mix results of both: put the old settings back, or give the pipeline a new name, which \
                       reads its source from the start again"
            .to_owned();
        return Err(StateError::Configured { was: was.into_owned(), now: shape.to_owned(), way_out });
    }
    let watermark_ms = i64::from_le_bytes(from.array()?);
    let mut windows = BTreeMap::new();
    for _ in 0..from.len()? {
        let start = i64::from_le_bytes(from.array()?);
        if plan.start(start) != Some(start) {
            return Err(damaged("has a window that begins where none does"));
        }
        let groups = groups(&mut from, &plan.keys, &plan.aggregates)?;
        if windows.insert(start, groups).is_some() {
            return Err(damaged("has a window twice"));
        }
    }
    if !from.0.is_empty() {
        return Err(damaged("goes on behind its end"));
    }
    Ok(Parsed { watermark_ms, windows })
}

fn groups(from: &mut From<'_>, keys: &Keys, aggregates: &[Bound]) -> Result<Groups, StateError> {
    let wrong = || StateError::Damaged("a window has keys that are none, or one of them twice".to_owned());
    let len = from.len()?;
    let mut groups = Groups::new(keys, aggregates);
    let ends: Option<Vec<u64>> = match keys.stride() {
        Some(_) => None,
        None => Some(from.numbers(len, u64::from_le_bytes)?),
    };
    let mut begin = 0;
    // Each is in the bytes before anything is kept for it: there are no more than bytes.
    for at in 0..len {
        let key_len = match (&ends, keys.stride()) {
            (Some(ends), _) => ends[at].checked_sub(begin).ok_or_else(wrong)?,
            (None, stride) => stride.unwrap_or(0) as u64,
        };
        begin += key_len;
        let key = from.take(usize::try_from(key_len).map_err(|_| wrong())?)?;
        if !keys.is_key(key) || groups.find(xxh3_64(key), key) as usize != at {
            return Err(wrong());
        }
    }
    groups.counts = from.numbers(len, u64::from_le_bytes)?;
    groups.recount().ok_or_else(wrong)?;
    for accumulator in &mut groups.accumulators {
        read(accumulator, from, len)?;
        let counted = accumulator.counts().iter().zip(&groups.counts);
        if counted.into_iter().any(|(values, rows)| values > rows) {
            return Err(StateError::Damaged("a window has more values than rows".to_owned()));
        }
    }
    Ok(groups)
}

impl Groups {
    fn put_keys(&self, to: &mut Vec<u8>) {
        let (ends, keys) = self.raw_keys();
        ends.iter().for_each(|end| to.extend_from_slice(&end.to_le_bytes()));
        to.extend_from_slice(keys);
    }
}

fn put(accumulator: &Accumulator, to: &mut Vec<u8>) {
    to.extend(accumulator.seen.iter().map(u8::from));
    let counts = |to: &mut Vec<u8>, counts: &[u64]| {
        counts.iter().for_each(|count| to.extend_from_slice(&count.to_le_bytes()));
    };
    match &accumulator.kind {
        Of::Count(own) => counts(to, own),
        Of::Sum(sums) => sums.iter().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes())),
        Of::SumFloat(sums) => sums.iter().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes())),
        Of::Avg(sums, own) => {
            sums.iter().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes()));
            counts(to, own);
        }
        Of::AvgFloat(sums, own) => {
            sums.iter().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes()));
            counts(to, own);
        }
        Of::Min(store) | Of::Max(store) => put_store(store, to),
        Of::First(store, times) | Of::Last(store, times) => {
            put_store(store, to);
            times.iter().for_each(|time| to.extend_from_slice(&time.to_le_bytes()));
        }
    }
}

fn put_store(store: &Store, to: &mut Vec<u8>) {
    match store {
        Store::Int(values) => values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes())),
        Store::UInt(values) => values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes())),
        Store::Float(values) => values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes())),
        Store::Wide(values) => values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes())),
        Store::Bytes(values) => {
            for value in values {
                put_len(to, value.len());
                to.extend_from_slice(value);
            }
        }
    }
}

fn read(accumulator: &mut Accumulator, from: &mut From<'_>, len: usize) -> Result<(), StateError> {
    accumulator.seen = Bits::of(from.take(len)?.iter().map(|seen| *seen == 1));
    match &mut accumulator.kind {
        Of::Count(counts) => *counts = from.numbers(len, u64::from_le_bytes)?,
        Of::Sum(sums) => *sums = from.numbers(len, i128::from_le_bytes)?,
        Of::SumFloat(sums) => *sums = from.numbers(len, f64::from_le_bytes)?,
        Of::Avg(sums, counts) => {
            *sums = from.numbers(len, i128::from_le_bytes)?;
            *counts = from.numbers(len, u64::from_le_bytes)?;
        }
        Of::AvgFloat(sums, counts) => {
            *sums = from.numbers(len, f64::from_le_bytes)?;
            *counts = from.numbers(len, u64::from_le_bytes)?;
        }
        Of::Min(store) | Of::Max(store) => read_store(store, from, len)?,
        Of::First(store, times) | Of::Last(store, times) => {
            read_store(store, from, len)?;
            *times = from.numbers(len, i64::from_le_bytes)?;
        }
    }
    Ok(())
}

fn read_store(store: &mut Store, from: &mut From<'_>, len: usize) -> Result<(), StateError> {
    match store {
        Store::Int(values) => *values = from.numbers(len, i64::from_le_bytes)?,
        Store::UInt(values) => *values = from.numbers(len, u64::from_le_bytes)?,
        Store::Float(values) => *values = from.numbers(len, f64::from_le_bytes)?,
        Store::Wide(values) => *values = from.numbers(len, i128::from_le_bytes)?,
        Store::Bytes(values) => {
            for _ in 0..len {
                let len = from.len()?;
                values.push(from.take(len)?.into());
            }
        }
    }
    Ok(())
}

fn put_len(to: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("memory ends before lengths of 32 bits do");
    to.extend_from_slice(&len.to_le_bytes());
}

/// Bytes that are read from the front.
struct From<'a>(&'a [u8]);

impl<'a> From<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| StateError::Damaged("the state of a window ends early".to_owned()))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("taken with that length"))
    }

    fn len(&mut self) -> Result<usize, StateError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// So many numbers: their bytes are there before there is memory for them.
    fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        number: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, StateError> {
        let bytes = self.take(count.saturating_mul(N))?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect())
    }
}

#[cfg(test)]
mod tests;
