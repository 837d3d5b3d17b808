//! The file of one part of a sorted run: sorted pairs of key hash and bucket, an index and a filter.
//!
//! Owns the bytes, which later versions must read (golden bytes in the tests), and every check on the way in. Does not own
//! where files lie, nor how parts make up a run (`runs`).
//!
//! A run is cut into parts by the first `part bits` of the hash, so that a file is never large, and a part into blocks by the next
//! `block bits`. So the block of a hash is known without a search, and the bytes of the hash that its block already implies are
//! not written. Numbers are little-endian, except for the hashes, which so sort as bytes.
//!
//! | field       | bytes | meaning                                                                       |
//! |-------------|-------|-------------------------------------------------------------------------------|
//! | magic       | 4     | `FBDR`                                                                        |
//! | version     | 2     | 1                                                                             |
//! | reserved    | 2     | 0                                                                             |
//! | blocks      |       | each: its pairs in order, then XXH3-64 of them with the block's number as the seed |
//! | footer      |       | see below                                                                     |
//! | footer's length | 4 | without this and the last field                                               |
//! | magic       | 4     | `FBDR` again                                                                  |
//!
//! A pair is the last 16 − ⌊(part bits + block bits) / 8⌋ bytes of the hash, then the number of its bucket in the footer's list, in 0, 1,
//! 2 or 4 bytes.
//!
//! | footer      | bytes | meaning                                                                       |
//! |-------------|-------|-------------------------------------------------------------------------------|
//! | version     | 2     | as in the head: a restart reads the footers alone, less than 2 bytes a key     |
//! | part bits   | 1     |                                                                               |
//! | block bits  | 1     |                                                                               |
//! | bucket bytes | 1    | of a bucket's number in a pair                                                |
//! | filter      | 1     | 0 none (every hash may be there), 1 binary fuse with 12 bits                  |
//! | part        | 4     | the first `part bits` of all its hashes                                       |
//! | buckets     | 4     | how many; then for each: bucket 8, pairs 8                                    |
//! | counts      | 4 × 2^block bits | pairs in each block                                                |
//! | fuse        |       | if there is one: seed 8, log2 of the segment 1, segments 4, bytes 4, then the bytes |
//! | checksum    | 8     | XXH3-64 of the footer before it                                               |

mod build;
mod footer;

use std::sync::Arc;

use dataflow::{StateError, StateRead};

use super::fuse::Fuse;
use crate::runs::{Envelope, HEAD, SUM, checked_block};
pub use build::{Built, bits_for};
pub use footer::{Verified, verify};

/// The newest version that is read, and the one that is written.
pub const VERSION: u16 = 1;

const ENVELOPE: Envelope =
    Envelope { magic: *b"FBDR", version: VERSION, what: "a file of spilled dedup keys" };

const FILTER_NONE: u8 = 0;

const FILTER_FUSE: u8 = 1;

/// Part and block bits together at the most; also keeps a block's number within 32 bits.
const BITS_MAX: u8 = 40;

/// Bits that number the blocks of one part at the most: 64 MB of blocks with one pair each.
const BLOCK_BITS_MAX: u8 = 22;

/// A kept record: what files hold. Sorts by hash, then by bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    high: u64,
    low: u64,
    /// The bucket.
    pub bucket: i64,
}

impl Pair {
    /// A pair. The hash is kept in halves, because a `u128` would be padded to 32 bytes.
    pub fn new(hash: u128, bucket: i64) -> Self {
        Self { high: (hash >> 64) as u64, low: hash as u64, bucket }
    }

    /// The key's hash.
    pub fn hash(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

/// What stays in memory of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The object, below the lane's folder.
    pub object: Arc<str>,
    /// Bytes of the file.
    pub len: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The footer's checksum: identifies this file.
    pub sum: u64,
    part_bits: u8,
    block_bits: u8,
    bucket_bytes: u8,
    number: u32,
    /// Bucket and pairs, by bucket.
    buckets: Box<[(i64, u64)]>,
    /// Pairs in the blocks before each block, and in all at the end.
    before: Box<[u32]>,
    filter: Option<Fuse>,
}

/// The number of the part, or of the block within all blocks, that a hash falls into.
fn first_bits(hash: u128, bits: u8) -> u64 {
    if bits == 0 { 0 } else { (hash >> (128 - u32::from(bits))) as u64 }
}

impl Part {
    /// Opens a part from its footer, as read from `footer_at` up to the end of the file.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    pub fn open(object: &str, footer_at: u64, sum: u64, bytes: &[u8]) -> Result<Self, StateError> {
        footer::open(object, footer_at, sum, bytes)
    }

    /// Bytes of a hash that are written.
    fn hash_bytes(&self) -> usize {
        16 - usize::from((self.part_bits + self.block_bits) / 8)
    }

    fn pair_bytes(&self) -> usize {
        self.hash_bytes() + usize::from(self.bucket_bytes)
    }

    /// The block of a hash of this part.
    pub fn block(&self, hash: u128) -> u32 {
        let all = first_bits(hash, self.part_bits + self.block_bits);
        (all & ((1 << self.block_bits) - 1)) as u32
    }

    /// Blocks of the part.
    pub fn blocks(&self) -> u32 {
        1 << self.block_bits
    }

    /// False if no pair of the part has this hash.
    #[inline]
    pub fn may_hold(&self, hash: u128) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(hash as u64))
    }

    /// Asks the processor to fetch what [`may_hold`](Self::may_hold) will inspect.
    #[inline]
    pub fn prefetch(&self, hash: u128) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash as u64);
        }
    }

    /// Pairs in the part.
    pub fn pairs(&self) -> u64 {
        u64::from(*self.before.last().expect("at least one block"))
    }

    /// Pairs in these blocks.
    pub fn pairs_in(&self, blocks: std::ops::Range<u32>) -> usize {
        (self.before[blocks.end as usize] - self.before[blocks.start as usize]) as usize
    }

    /// Bucket and pairs, by bucket.
    pub fn buckets(&self) -> &[(i64, u64)] {
        &self.buckets
    }

    /// How the part is cut out of its run: the number of bits, and their value.
    pub fn place(&self) -> (u8, u32) {
        (self.part_bits, self.number)
    }

    fn block_at(&self, block: u32) -> u64 {
        let pairs = u64::from(self.before[block as usize]);
        HEAD as u64 + pairs * self.pair_bytes() as u64 + u64::from(block) * SUM as u64
    }

    /// The bytes of these blocks; `None` if they hold no pair.
    pub fn read(&self, blocks: std::ops::Range<u32>) -> Option<StateRead> {
        if self.before[blocks.start as usize] == self.before[blocks.end as usize] {
            return None;
        }
        let (offset, end) = (self.block_at(blocks.start), self.block_at(blocks.end));
        let len = u32::try_from(end - offset).expect("a part has at most 4 GB: so says its object's bound");
        Some(StateRead { object: self.object.clone(), offset, len })
    }

    /// The block `number` from its bytes, checked: once, however many hashes are looked for in it.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn checked<'a>(&'a self, number: u32, bytes: &'a [u8]) -> Result<Block<'a>, StateError> {
        Ok(Block { part: self, pairs: self.check_block(number, bytes)? })
    }

    /// Hands out all pairs of blocks that were read together.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn each(
        &self,
        blocks: std::ops::Range<u32>,
        bytes: &[u8],
        mut to: impl FnMut(Pair),
    ) -> Result<(), StateError> {
        let (width, hash_bytes) = (self.pair_bytes(), self.hash_bytes());
        let mut rest = bytes;
        for block in blocks {
            let pairs = (self.before[block as usize + 1] - self.before[block as usize]) as usize;
            let len = pairs * width + SUM;
            let Some((own, others)) = rest.split_at_checked(len) else {
                return Err(self.damaged(block, "it is cut off"));
            };
            rest = others;
            let first = u128::from(self.number) << self.block_bits | u128::from(block);
            let bits = u32::from(self.part_bits + self.block_bits);
            let prefix = if bits == 0 { [0; 16] } else { (first << (128 - bits)).to_be_bytes() };
            for pair in self.check_block(block, own)?.chunks_exact(width) {
                let mut hash = prefix;
                hash[16 - hash_bytes..].copy_from_slice(&pair[..hash_bytes]);
                to(Pair::new(u128::from_be_bytes(hash), self.bucket(&pair[hash_bytes..])?));
            }
        }
        Ok(())
    }

    /// The pairs of a block without its checksum, which is checked.
    fn check_block<'a>(&self, block: u32, bytes: &'a [u8]) -> Result<&'a [u8], StateError> {
        let pairs = (self.before[block as usize + 1] - self.before[block as usize]) as usize;
        if bytes.len() != pairs * self.pair_bytes() + SUM {
            let what = format!("it has `{}` bytes, not those of `{pairs}` pairs", bytes.len());
            return Err(self.damaged(block, &what));
        }
        checked_block(bytes, block).map_err(|what| self.damaged(block, &what))
    }

    fn bucket(&self, bytes: &[u8]) -> Result<i64, StateError> {
        let mut number = [0; 4];
        number[..bytes.len()].copy_from_slice(bytes);
        let number = u32::from_le_bytes(number);
        self.buckets
            .get(number as usize)
            .map(|(bucket, _)| *bucket)
            .ok_or_else(|| StateError::Damaged(format!("`{}` has no bucket `{number}`", self.object)))
    }

    fn damaged(&self, block: u32, what: &str) -> StateError {
        StateError::Damaged(format!(
            "`{}`, block `{block}` at byte `{}`: {what}",
            self.object,
            self.block_at(block)
        ))
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.filter.as_ref().map_or(0, Fuse::memory_bytes)
            + self.before.len() * size_of::<u32>()
            + self.buckets.len() * size_of::<(i64, u64)>()
            + self.object.len()
    }
}

/// A block that was read and checked.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    part: &'a Part,
    pairs: &'a [u8],
}

impl Block<'_> {
    /// The buckets in which `hash`, which is of this block, was kept.
    ///
    /// # Errors
    /// When a pair names a bucket that the footer does not have.
    pub fn find(&self, hash: u128, mut each: impl FnMut(i64)) -> Result<(), StateError> {
        let Self { part, pairs } = self;
        let (width, hash_bytes) = (part.pair_bytes(), part.hash_bytes());
        let wanted = hash.to_be_bytes();
        let wanted = &wanted[16 - hash_bytes..];
        let (mut low, mut high) = (0, pairs.len() / width);
        while low < high {
            let middle = low.midpoint(high);
            if pairs[middle * width..][..hash_bytes] < *wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        for pair in pairs[low * width..].chunks_exact(width) {
            let (hash, bucket) = pair.split_at(hash_bytes);
            if hash != wanted {
                break;
            }
            each(part.bucket(bucket)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
