//! What was kept since the last seal, for its delta.
//!
//! Owns a list of hashes, 16 bytes each, with the places of their buckets, up to a sixteenth of the table. What is kept beyond it is
//! marked in the table itself, and found by one walk through it at the seal: more than sixteen slots for a key are never looked at, and
//! the list never costs more than a byte for each key in memory. Of the marked ones only the numbers are here.
//!
//! Records come roughly in the order of time, so a place is written once for a run of hashes. The list is in chunks: it has no copy of
//! itself while it grows and no more room than is needed, and the chunks of one seal serve the next one.

use super::places::Place;

/// Hashes in a chunk: 64 KB.
const CHUNK: usize = 4096;

/// Chunks kept allocated between seals in any case.
const SPARE_MIN: usize = 4;

/// Hashes that are listed whatever the size of the table: 512 KB.
const LISTED_MIN: u64 = 32 * 1024;

/// The share of the table that is listed at the most, one in so many.
const LISTED_SHARE: u64 = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Added {
    /// All but the last are full.
    chunks: Vec<Vec<u128>>,
    /// Empty ones.
    spare: Vec<Vec<u128>>,
    /// A place, and how many hashes in a row have it.
    runs: Vec<(Place, u32)>,
    /// Hashes in the list.
    listed: u64,
    /// For each place, how many of its slots are marked; empty if none is.
    marked: Vec<u32>,
}

impl Added {
    /// True if what is kept from here on must be marked, in a table of so many keys.
    #[inline]
    pub(super) fn is_full(&self, keys: u64) -> bool {
        // Once one is marked the walk is due anyway.
        !self.marked.is_empty() || self.listed >= LISTED_MIN.max(keys / LISTED_SHARE)
    }

    /// A slot with this place was marked.
    #[inline]
    pub(super) fn mark(&mut self, place: Place) {
        if self.marked.len() <= place as usize {
            self.marked.resize(place as usize + 1, 0);
        }
        self.marked[place as usize] += 1;
    }

    /// A marked slot with this place was taken out again.
    pub(super) fn unmark(&mut self, place: Place) {
        self.marked[place as usize] -= 1;
    }

    /// True if slots were marked, so that the table is to be walked through.
    pub(super) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// A hash was kept in the bucket of this place.
    #[inline]
    pub(super) fn push(&mut self, place: Place, hash: u128) {
        self.listed += 1;
        match self.runs.last_mut() {
            Some((last, count)) if *last == place && *count < u32::MAX => *count += 1,
            _ => self.runs.push((place, 1)),
        }
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(hash),
            _ => self.push_chunk(hash),
        }
    }

    #[cold]
    fn push_chunk(&mut self, hash: u128) {
        let mut chunk = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
        chunk.push(hash);
        self.chunks.push(chunk);
    }

    /// The listed hashes with their places, as they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, u128)> {
        let places = self.runs.iter().flat_map(|(place, count)| std::iter::repeat_n(*place, *count as usize));
        places.zip(self.chunks.iter().flatten().copied())
    }

    /// Adds the number of hashes of each place to `counts`.
    pub(super) fn count(&self, counts: &mut [usize]) {
        self.runs.iter().for_each(|(place, count)| counts[*place as usize] += *count as usize);
        self.marked.iter().zip(counts).for_each(|(marked, count)| *count += *marked as usize);
    }

    /// Leaves those of the list that `test` takes.
    pub(super) fn retain(&mut self, test: impl Fn(Place, u128) -> bool) {
        let mut left = Self { marked: std::mem::take(&mut self.marked), ..Self::default() };
        self.iter()
            .filter(|(place, hash)| test(*place, *hash))
            .for_each(|(place, hash)| left.push(place, hash));
        *self = left;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.marked.is_empty()
    }

    /// All of them, listed or marked.
    pub(super) fn len(&self) -> usize {
        self.listed as usize + self.marked.iter().map(|marked| *marked as usize).sum::<usize>()
    }

    /// Forgets all. As much room is kept as this seal needed: an exceptional one's is given back by the next.
    pub(super) fn clear(&mut self) {
        self.spare.truncate(self.chunks.len().max(SPARE_MIN));
        let more = self.chunks.len().max(SPARE_MIN).saturating_sub(self.spare.len());
        for mut chunk in self.chunks.drain(..).take(more) {
            chunk.clear();
            self.spare.push(chunk);
        }
        self.runs.shrink_to(self.runs.len() * 2);
        self.runs.clear();
        self.marked = Vec::new();
        self.listed = 0;
    }

    /// Memory held in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().chain(&self.spare);
        chunks.map(|chunk| chunk.capacity() * size_of::<u128>()).sum::<usize>()
            + self.runs.capacity() * size_of::<(Place, u32)>()
            + self.marked.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests;
