//! A part's file as it is read again: its footer at a start, or all of it for `verify`.
//!
//! Owns every check of head, footer and whole file. Does not own that of a single block, which is checked whenever it is read ([`Part::checked`]).

use std::collections::BTreeMap;

use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    BITS_MAX, BLOCK_BITS_MAX, FILTER_FUSE, FILTER_NONE, HEAD, MAGIC, Pair, Part, SUM, TAIL, VERSION,
};
use crate::dedup::spilled::fuse::Fuse;

/// A footer being read.
pub(super) struct Footer<'a> {
    pub(super) object: &'a str,
    pub(super) at: u64,
    pub(super) bytes: &'a [u8],
}

impl Footer<'_> {
    pub(super) fn damaged(&self, what: impl std::fmt::Display) -> StateError {
        StateError::Damaged(format!("`{}`, footer at byte `{}`: {what}", self.object, self.at))
    }

    pub(super) fn open(mut self, sum: u64) -> Result<Part, StateError> {
        let len = self.at.checked_add(self.bytes.len() as u64).filter(|_| self.at <= u64::from(u32::MAX));
        let Some(len) = len else { return Err(self.damaged("no part is as long as that")) };
        let Some((rest, tail)) = self.bytes.split_last_chunk::<TAIL>() else {
            return Err(self.damaged("it is cut off"));
        };
        let footer = u32::from_le_bytes(tail[..4].try_into().expect("4 of 8 bytes"));
        if tail[4..] != MAGIC || u64::from(footer) != rest.len() as u64 {
            return Err(self.damaged("the file does not end as such a file does"));
        }
        let Some((body, written)) = rest.split_last_chunk::<SUM>() else {
            return Err(self.damaged("it is cut off"));
        };
        let found = xxh3_64(body);
        if found != u64::from_le_bytes(*written) {
            return Err(self.damaged(format!(
                "the checksum says `{:016x}`, the bytes give `{found:016x}`",
                u64::from_le_bytes(*written)
            )));
        }
        if found != sum {
            return Err(self
                .damaged(format!("this is another file: its checksum is `{found:016x}`, not `{sum:016x}`")));
        }
        self.bytes = body;
        let version = u16::from_le_bytes(self.array()?);
        if version > VERSION {
            return Err(StateError::TooNew { found: version, known: VERSION });
        }
        let [part_bits, block_bits, bucket_bytes, filter] = self.array()?;
        let number = u32::from_le_bytes(self.array()?);
        if block_bits > BLOCK_BITS_MAX
            || part_bits > BITS_MAX - block_bits
            || u64::from(number) >> part_bits != 0
        {
            return Err(self.damaged(format!("part `{number}` of 2^{part_bits} with 2^{block_bits} blocks")));
        }
        let buckets = self.buckets()?;
        if !matches!(bucket_bytes, 0 | 1 | 2 | 4) {
            return Err(self.damaged(format!("a bucket's number of `{bucket_bytes}` bytes")));
        }
        let mut part = Part {
            object: self.object.into(),
            len,
            footer_at: self.at,
            sum,
            part_bits,
            block_bits,
            bucket_bytes,
            number,
            buckets,
            before: Box::default(),
            filter: None,
        };
        part.before = self.counts(block_bits)?;
        part.filter = self.filter(filter)?;
        let pairs: u64 = part.buckets.iter().map(|(_, pairs)| pairs).sum();
        if !self.bytes.is_empty() || pairs != part.pairs() || part.block_at(part.blocks()) != self.at {
            return Err(self.damaged("its numbers do not agree with each other"));
        }
        Ok(part)
    }

    fn take(&mut self, len: usize) -> Result<&[u8], StateError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            return Err(self.damaged(format!("`{len}` bytes are wanted and `{}` left", self.bytes.len())));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("`take` gives as many as asked for"))
    }

    pub(super) fn buckets(&mut self) -> Result<Box<[(i64, u64)]>, StateError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        let bytes = self.take(count.saturating_mul(16))?;
        let buckets: Box<[(i64, u64)]> = bytes
            .as_chunks::<16>()
            .0
            .iter()
            .map(|b| {
                let (bucket, pairs) =
                    (b[..8].try_into().expect("8 bytes"), b[8..].try_into().expect("8 bytes"));
                (i64::from_le_bytes(bucket), u64::from_le_bytes(pairs))
            })
            .collect();
        // Sums of these must not overflow before they are compared with what is there.
        let fits = |(_, pairs): &(i64, u64)| *pairs <= u64::from(u32::MAX);
        if !buckets.iter().all(fits) || !buckets.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(self.damaged("its buckets are not in order"));
        }
        Ok(buckets)
    }

    fn counts(&mut self, block_bits: u8) -> Result<Box<[u32]>, StateError> {
        let bytes = self.take(4 << block_bits)?;
        let mut before = vec![0_u32];
        for count in bytes.as_chunks::<4>().0 {
            let sum = before.last().expect("begun with one").checked_add(u32::from_le_bytes(*count));
            before.push(sum.ok_or_else(|| {
                StateError::Damaged("a footer counts more than 2^32 pairs in its blocks".to_owned())
            })?);
        }
        Ok(before.into())
    }

    pub(super) fn filter(&mut self, kind: u8) -> Result<Option<Fuse>, StateError> {
        match kind {
            FILTER_NONE => Ok(None),
            FILTER_FUSE => {
                let seed = u64::from_le_bytes(self.array()?);
                let [segment_bits] = self.array()?;
                let segments = u32::from_le_bytes(self.array()?);
                let len = u32::from_le_bytes(self.array()?) as usize;
                let filter = Fuse::from_parts(seed, segment_bits, segments, self.take(len)?);
                filter.map(Some).ok_or_else(|| self.damaged("the filter's parts do not fit each other"))
            }
            other => Err(self.damaged(format!(
                "filter `{other}`, which this program does not know; run the newer program"
            ))),
        }
    }
}

/// What a whole file turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Pairs of key and bucket.
    pub keys: u64,
    /// Blocks that they are in.
    pub blocks: u64,
}

/// Checks the head of a file.
fn check_head(object: &str, bytes: &[u8]) -> Result<(), StateError> {
    let damaged = |what: &str| StateError::Damaged(format!("`{object}`: {what}"));
    let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else {
        return Err(damaged("it is cut off"));
    };
    if head[..4] != MAGIC {
        return Err(damaged("this is not a file of spilled dedup keys"));
    }
    let version = u16::from_le_bytes([head[4], head[5]]);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    if version == 0 || head[6..] != [0; 2] {
        return Err(damaged("its head was never written like this"));
    }
    Ok(())
}

/// Reads a whole file of spilled keys and checks all of it: both magics, the version, every checksum, the order of the pairs, the
/// counts, and that the filter misses none. `object` is the name for messages.
///
/// # Errors
/// When anything is damaged, or the file is of a newer version.
pub fn verify(object: &str, bytes: &[u8]) -> Result<Verified, StateError> {
    let damaged = |what: &str| StateError::Damaged(format!("`{object}`: {what}"));
    check_head(object, bytes)?;
    let tail = bytes.len().checked_sub(TAIL).ok_or_else(|| damaged("it is cut off"))?;
    let footer = u32::from_le_bytes(bytes[tail..tail + 4].try_into().expect("4 bytes")) as usize;
    let footer_at = tail.checked_sub(footer).filter(|at| *at >= HEAD && footer >= SUM);
    let footer_at = footer_at.ok_or_else(|| damaged("its end is cut off or damaged"))?;
    let sum = u64::from_le_bytes(bytes[tail - SUM..tail].try_into().expect("8 bytes"));
    let part = Part::open(object, footer_at as u64, sum, &bytes[footer_at..])?;
    let (mut last, mut found, mut fault): (Option<Pair>, BTreeMap<i64, u64>, Option<&str>) =
        Default::default();
    part.each(0..part.blocks(), &bytes[HEAD..footer_at], |pair| {
        if last.is_some_and(|last| last >= pair) {
            fault = Some("its pairs are not in order");
        }
        if !part.may_hold(pair.hash()) {
            fault = Some("its filter misses a pair");
        }
        *found.entry(pair.bucket).or_default() += 1;
        last = Some(pair);
    })?;
    if !found.into_iter().eq(part.buckets.iter().copied()) {
        fault = Some("its buckets do not hold what the footer says");
    }
    match fault {
        Some(fault) => Err(damaged(fault)),
        None => Ok(Verified { keys: part.pairs(), blocks: u64::from(part.blocks()) }),
    }
}
