//! A part's file as it is written.
//!
//! Owns the writing of blocks and footer. Does not own their form, which stands at [`super`].

use std::collections::BTreeMap;

use super::{BLOCK_BITS_MAX, ENVELOPE, FILTER_FUSE, FILTER_NONE, HEAD, Pair, Part, SUM, first_bits};
use crate::dedup::spilled::fuse::Fuse;
use crate::runs::close_block;

/// A part's file as it was written, for the part to be opened without reading it again.
pub struct Built {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// What stays in memory of it, without a name.
    pub part: Part,
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
        ENVELOPE.head(&mut bytes);
        part.before = part.write_blocks(&mut bytes, pairs).into();
        let closed = ENVELOPE.close(&mut bytes, |bytes| part.write_footer(bytes));
        (part.len, part.footer_at, part.sum) = (closed.len, closed.footer_at, closed.sum);
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
            close_block(bytes, at, block);
            before.push((pairs.len() - rest.len()) as u32);
        }
        before
    }

    fn write_footer(&self, bytes: &mut Vec<u8>) {
        let filter = if self.filter.is_some() { FILTER_FUSE } else { FILTER_NONE };
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
}

/// Bits that number enough groups for `pairs` pairs with at most `each` in a group, on average.
pub fn bits_for(pairs: u64, each: u64) -> u8 {
    let groups = pairs.div_ceil(each.max(1)).max(1);
    groups.next_power_of_two().trailing_zeros() as u8
}
