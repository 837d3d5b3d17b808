//! A batch's rows, dealt out to shards.
//!
//! Owns which shard a key is in, and the way of the rows to the shards and back into their order. Does not own the shards.
//!
//! ```text
//!   rows of the batch      0  1  2  3  4  5  6  7
//!   dealt to three shards  0  3  6 |1  2 |4  5  7      hashes and times move with them
//!   dropped by each           x    |     |      x
//!   put together           .  .  .  x  .  .  .  x
//! ```

use super::decide::{Dropped, Rows};
use super::spilled::runs::Found;

/// Shards at the most. A batch has 8,192 rows at the most as a rule: with more shards each has too few of them to be worth a thread's time.
pub const SHARDS_MAX: usize = 16;

/// The shard of a key, of so many. Taken from bits that neither the index nor the parts of files take.
#[inline(always)]
pub(super) fn shard_of(hash: u128, shards: usize) -> usize {
    ((u64::from(hash as u32) * shards as u64) >> u32::BITS) as usize
}

/// The rows of a batch, put together by shard. Lists keep their length from batch to batch, so what stands behind the last row is of an
/// earlier one.
#[derive(Default)]
pub(super) struct Dealt {
    /// The shard of each row, in the order of the batch.
    owners: Vec<u8>,
    hashes: Vec<u128>,
    times_ms: Vec<i64>,
    /// Row numbers of the batch.
    names: Vec<u64>,
    /// Where the rows of each shard begin, and where those of the last end.
    begins: Vec<usize>,
    /// By shard, with rows numbered as they were dealt.
    found: Vec<Vec<Found>>,
}

impl Dealt {
    /// Deals out rows, 2^32 of them at the most, to 1 to [`SHARDS_MAX`] shards.
    pub(super) fn fill(&mut self, shards: usize, hashes: &[u128], times_ms: &[i64], found: &[Found]) {
        let mut next = self.count(shards, hashes);
        if self.hashes.len() < hashes.len() {
            self.hashes.resize(hashes.len(), 0);
            self.times_ms.resize(hashes.len(), 0);
            self.names.resize(hashes.len(), 0);
        }
        let rows = hashes.iter().zip(times_ms).zip(&self.owners);
        for (name, ((hash, time_ms), owner)) in (0_u64..).zip(rows) {
            let next = &mut next[usize::from(*owner) % SHARDS_MAX];
            self.hashes[*next] = *hash;
            self.times_ms[*next] = *time_ms;
            self.names[*next] = name;
            *next += 1;
        }
        self.found.iter_mut().for_each(Vec::clear);
        self.found.resize_with(shards, Vec::new);
        for one in found {
            let owner = usize::from(self.owners[one.row as usize]);
            let own = &self.names[self.begins[owner]..self.begins[owner + 1]];
            let row = own.partition_point(|name| *name < u64::from(one.row)) as u32;
            self.found[owner].push(Found { row, ..*one });
        }
    }

    /// Sees whose each row is, and where the rows of each shard begin.
    fn count(&mut self, shards: usize, hashes: &[u128]) -> [usize; SHARDS_MAX] {
        let mut counts = [0; SHARDS_MAX];
        self.owners.clear();
        self.owners.extend(hashes.iter().map(|hash| {
            let owner = shard_of(*hash, shards) % SHARDS_MAX;
            counts[owner] += 1;
            owner as u8
        }));
        let (mut begins, mut begin) = (counts, 0);
        for (begins, count) in begins.iter_mut().zip(counts) {
            *begins = begin;
            begin += count;
        }
        self.begins.clear();
        self.begins.extend(&begins[..shards]);
        self.begins.push(hashes.len());
        begins
    }

    /// The rows of a shard; their names are row numbers of the batch.
    pub(super) fn rows(&self, shard: usize) -> Rows<'_> {
        let range = self.begins[shard]..self.begins[shard + 1];
        Rows {
            hashes: &self.hashes[range.clone()],
            times_ms: &self.times_ms[range.clone()],
            names: &self.names[range],
            found: &self.found[shard],
        }
    }

    /// What the shards have dropped, each its own, by the row numbers of the batch.
    pub(super) fn put_together(&self, dropped: &[Dropped]) -> Dropped {
        let names = |(shard, rows): (usize, &Vec<usize>)| {
            let names = self.rows(shard).names;
            rows.iter().map(|row| names[*row] as usize).collect::<Vec<_>>()
        };
        let is_late = dropped.iter().any(|own| !own.late.is_empty());
        let late = if is_late {
            self.in_order(dropped.iter().map(|own| &own.late).enumerate().flat_map(names))
        } else {
            Vec::new()
        };
        Dropped {
            rows: self.in_order(dropped.iter().map(|own| &own.rows).enumerate().flat_map(names)),
            duplicates: dropped.iter().map(|own| own.duplicates).sum(),
            late,
            late_kept: dropped.iter().map(|own| own.late_kept).sum(),
        }
    }

    /// These row numbers of the batch, none of them twice, in order.
    pub(super) fn in_order(&self, rows: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut marks = vec![0_u64; self.owners.len().div_ceil(64)];
        let mut count = 0;
        for row in rows {
            marks[row / 64] |= 1 << (row % 64);
            count += 1;
        }
        let mut ordered = Vec::with_capacity(count);
        for (word, mut marks) in marks.into_iter().enumerate() {
            while marks != 0 {
                ordered.push(word * 64 + marks.trailing_zeros() as usize);
                marks &= marks - 1;
            }
        }
        ordered
    }

    /// Memory held in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.owners.capacity()
            + self.hashes.capacity() * size_of::<u128>()
            + self.times_ms.capacity() * size_of::<i64>()
            + self.names.capacity() * size_of::<u64>()
            + self.found.iter().map(|found| found.capacity() * size_of::<Found>()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
