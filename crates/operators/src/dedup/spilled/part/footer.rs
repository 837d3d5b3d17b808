//! A part's file as it is read again: its footer at a start, or all of it for `verify`.
//!
//! Owns every check of head, footer and whole file. Does not own that of a single block, which is checked whenever it is read ([`Part::checked`]).

use std::collections::BTreeMap;

use dataflow::StateError;

use super::{BITS_MAX, BLOCK_BITS_MAX, ENVELOPE, FILTER_FUSE, FILTER_NONE, Pair, Part};
use crate::dedup::spilled::fuse::Fuse;
use crate::runs::{Fields, HEAD};

/// Opens a part from its footer.
pub(super) fn open(object: &str, at: u64, sum: u64, bytes: &[u8]) -> Result<Part, StateError> {
    let (fields, len) = ENVELOPE.footer(object, at, sum, bytes)?;
    Footer(fields).open(sum, len)
}

/// A footer being read.
struct Footer<'a>(Fields<'a>);

impl Footer<'_> {
    fn damaged(&self, what: impl std::fmt::Display) -> StateError {
        self.0.damaged(what)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        self.0.array()
    }

    fn take(&mut self, len: usize) -> Result<&[u8], StateError> {
        self.0.take(len)
    }

    fn open(mut self, sum: u64, len: u64) -> Result<Part, StateError> {
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
            object: self.0.object.into(),
            len,
            footer_at: self.0.at,
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
        if !self.0.bytes.is_empty() || pairs != part.pairs() || part.block_at(part.blocks()) != self.0.at {
            return Err(self.damaged("its numbers do not agree with each other"));
        }
        Ok(part)
    }

    fn buckets(&mut self) -> Result<Box<[(i64, u64)]>, StateError> {
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

    fn filter(&mut self, kind: u8) -> Result<Option<Fuse>, StateError> {
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

/// Reads a whole file of spilled keys and checks all of it: both magics, the version, every checksum, the order of the pairs, the
/// counts, and that the filter misses none. `object` is the name for messages.
///
/// # Errors
/// When anything is damaged, or the file is of a newer version.
pub fn verify(object: &str, bytes: &[u8]) -> Result<Verified, StateError> {
    let damaged = |what: &str| StateError::Damaged(format!("`{object}`: {what}"));
    let (footer_at, sum) = ENVELOPE.find_footer(object, bytes)?;
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
