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

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::{StateError, StateRead};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::fuse::Fuse;

const MAGIC: [u8; 4] = *b"FBDR";

/// The newest version that is read, and the one that is written.
pub const VERSION: u16 = 1;

const HEAD: usize = 8;
const TAIL: usize = 8;
const SUM: usize = 8;
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

/// A part's file as it was written, for the part to be opened without reading it again.
pub struct Built {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// What stays in memory of it, without a name.
    pub part: Part,
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

/// Bits that number enough groups for `pairs` pairs with at most `each` in a group, on average.
pub fn bits_for(pairs: u64, each: u64) -> u8 {
    let groups = pairs.div_ceil(each.max(1)).max(1);
    groups.next_power_of_two().trailing_zeros() as u8
}

impl Part {
    /// Writes the part `number` of `2^part_bits`: its pairs, sorted, none twice, at most 2^32 − 1. `block_pairs` is how many a block
    /// shall have at the most, on average.
    pub fn build(part_bits: u8, number: u32, pairs: &[Pair], block_pairs: u64) -> Built {
        debug_assert!(
            pairs.is_sorted() && pairs.iter().all(|p| first_bits(p.hash(), part_bits) == u64::from(number))
        );
        let block_bits = bits_for(pairs.len() as u64, block_pairs).min(BLOCK_BITS_MAX);
        let mut buckets: BTreeMap<i64, u64> = BTreeMap::new();
        // Neighbours in time are rarely neighbours by hash; one lookup in a small tree is what it costs. Without a window all
        // are of one bucket.
        for same in pairs.chunk_by(|a, b| a.bucket == b.bucket) {
            *buckets.entry(same[0].bucket).or_default() += same.len() as u64;
        }
        let buckets: Box<[(i64, u64)]> = buckets.into_iter().collect();
        let bucket_bytes = match buckets.len() {
            0 | 1 => 0,
            2..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        let mut part = Self {
            object: "".into(),
            len: 0,
            footer_at: 0,
            sum: 0,
            part_bits,
            block_bits,
            bucket_bytes,
            number,
            buckets,
            before: Box::default(),
            filter: Fuse::build(pairs.iter().map(|pair| pair.low)),
        };
        let mut bytes = Vec::with_capacity(HEAD + pairs.len() * 19 + (SUM << block_bits));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        part.before = part.write_blocks(&mut bytes, pairs).into();
        part.footer_at = bytes.len() as u64;
        part.write_footer(&mut bytes);
        part.sum = xxh3_64(&bytes[part.footer_at as usize..]);
        bytes.extend_from_slice(&part.sum.to_le_bytes());
        let footer =
            u32::try_from(bytes.len() as u64 - part.footer_at).expect("a part has far fewer than 2^32 keys");
        bytes.extend_from_slice(&footer.to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        part.len = bytes.len() as u64;
        Built { bytes, part }
    }

    fn write_blocks(&self, bytes: &mut Vec<u8>, pairs: &[Pair]) -> Vec<u32> {
        let (hash_bytes, bucket_bytes) = (self.hash_bytes(), usize::from(self.bucket_bytes));
        let mut before = Vec::with_capacity((1 << self.block_bits) + 1);
        before.push(0);
        let mut rest = pairs;
        for block in 0..1_u32 << self.block_bits {
            let count = rest.partition_point(|pair| self.block(pair.hash()) <= block);
            let (own, others) = rest.split_at(count);
            rest = others;
            let at = bytes.len();
            for pair in own {
                // Sixteen bytes are one store, as many as are wanted a call; those too many are taken back.
                let end = bytes.len() + hash_bytes;
                bytes.extend_from_slice(&(pair.hash() << (128 - 8 * hash_bytes)).to_be_bytes());
                bytes.truncate(end);
                if bucket_bytes > 0 {
                    let bucket = self.buckets.partition_point(|(bucket, _)| *bucket < pair.bucket) as u32;
                    bytes.extend_from_slice(&bucket.to_le_bytes()[..bucket_bytes]);
                }
            }
            let sum = xxh3_64_with_seed(&bytes[at..], u64::from(block));
            bytes.extend_from_slice(&sum.to_le_bytes());
            before.push((pairs.len() - rest.len()) as u32);
        }
        before
    }

    fn write_footer(&self, bytes: &mut Vec<u8>) {
        let filter = if self.filter.is_some() { FILTER_FUSE } else { FILTER_NONE };
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.part_bits, self.block_bits, self.bucket_bytes, filter]);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&(self.buckets.len() as u32).to_le_bytes());
        for (bucket, pairs) in &self.buckets {
            bytes.extend_from_slice(&bucket.to_le_bytes());
            bytes.extend_from_slice(&pairs.to_le_bytes());
        }
        for count in self.before.windows(2).map(|pair| pair[1] - pair[0]) {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        if let Some(filter) = &self.filter {
            let (seed, segment_bits, segments, slots) = filter.parts();
            bytes.extend_from_slice(&seed.to_le_bytes());
            bytes.push(segment_bits);
            bytes.extend_from_slice(&segments.to_le_bytes());
            bytes.extend_from_slice(&(slots.len() as u32).to_le_bytes());
            bytes.extend_from_slice(slots);
        }
    }

    /// Opens a part from its footer, as read from `footer_at` up to the end of the file.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    pub fn open(object: &str, footer_at: u64, sum: u64, bytes: &[u8]) -> Result<Self, StateError> {
        let reader = Footer { object, at: footer_at, bytes };
        reader.open(sum)
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
        let Some((body, sum)) =
            bytes.split_last_chunk::<SUM>().filter(|(b, _)| b.len() == pairs * self.pair_bytes())
        else {
            let what = format!("it has `{}` bytes, not those of `{pairs}` pairs", bytes.len());
            return Err(self.damaged(block, &what));
        };
        let found = xxh3_64_with_seed(body, u64::from(block));
        if found != u64::from_le_bytes(*sum) {
            let what = format!(
                "the checksum says `{:016x}`, the bytes give `{found:016x}`",
                u64::from_le_bytes(*sum)
            );
            return Err(self.damaged(block, &what));
        }
        Ok(body)
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

/// A footer being read.
struct Footer<'a> {
    object: &'a str,
    at: u64,
    bytes: &'a [u8],
}

impl Footer<'_> {
    fn damaged(&self, what: impl std::fmt::Display) -> StateError {
        StateError::Damaged(format!("`{}`, footer at byte `{}`: {what}", self.object, self.at))
    }

    fn open(mut self, sum: u64) -> Result<Part, StateError> {
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

#[cfg(test)]
mod tests;
