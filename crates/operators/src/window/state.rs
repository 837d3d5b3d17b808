//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: lengths before anything is
//! allocated, the checksum before anything is believed. Both kinds have one form; numbers are little-endian.
//!
//! | field      | bytes | meaning                                                                        |
//! |------------|-------|--------------------------------------------------------------------------------|
//! | magic      | 4     | `FBWN`                                                                         |
//! | version    | 2     | 2                                                                              |
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
//! | aggregates |         | of each that keeps anything: what `accumulator` writes, mostly a bit for each group that is 1 if it has a value, then its columns; values of any length stand behind their length (4) |

use std::collections::BTreeMap;

use bytes::Bytes;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::Plan;
use super::aggregate::Bound;
use super::encoding::{Reader, damaged, put_len};
use super::groups::Groups;
use super::key::Keys;

const MAGIC: [u8; 4] = *b"FBWN";

/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 2;

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
        groups.accumulators.iter().for_each(|accumulator| accumulator.write(&mut to));
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
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| damaged("is too short"))?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(damaged("has another checksum"));
    }
    let mut from = Reader(body);
    if from.take(4)? != MAGIC {
        return Err(damaged("does not begin as one"));
    }
    let version = u16::from_le_bytes(from.array()?);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    if version < VERSION {
        let way_out = "an older program can go on with it; this one needs a new name for the pipeline, under which it reads its source from the start"
            .to_owned();
        let words = |version: u16| format!("version `{version}` of the state of a window");
        return Err(StateError::Configured { was: words(version), now: words(VERSION), way_out });
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

fn groups(from: &mut Reader<'_>, keys: &Keys, aggregates: &[Bound]) -> Result<Groups, StateError> {
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
        accumulator.read(from, &groups.counts)?;
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

#[cfg(test)]
mod tests;
