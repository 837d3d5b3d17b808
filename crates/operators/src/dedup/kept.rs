//! The kept records: a set of (key hash, bucket).
//!
//! Owns the one question, "is a kept record of this key near this bucket", and the set behind it. Does not own the policy for late
//! records (`decide`), the journal's deltas (`durable`) nor bytes (`state`).
//!
//! The hashes of a bucket lie in its pages in the order in which they were added (`places`, `pages`), and an index of 4 bytes a key says where
//! (`index`). So the next delta is the end of each bucket's pages, a snapshot is all pages, and neither walks through the index.
//!
//! A key may have been kept several times, far apart in time. So that such a key does not pile up entries in one spot (think of a key
//! that is the same for every record, a short window and a long backlog), an entry's position depends on key *and* time: bucket
//! numbers are cut into blocks of [`BLOCK`], and the block is mixed into the hash. All that is near a bucket lies in one or two
//! blocks, and a block holds at most `BLOCK / (SPAN + 1) + 1` kept records of one key.

use std::cell::Cell;

use super::index::{BITS, Found, Scratch, Segment, segment_of, spot_of};
use super::pages::{PAGE, Pages, Spot};
use super::places::{Bucket, Place, Places};
use super::spilled::part::Pair;
use super::window::{SPAN, UNPLACED, near};

mod pass;

pub use pass::Chunk;

/// Parts of the index.
const SEGMENTS: usize = 1 << BITS;

/// Buckets in a block. One record in 32 needs a lookup in a second block; a key has at most 61 entries in one spot.
const BLOCK: i64 = 1024;

/// Entries a segment for which room is taken ahead.
const RESERVED_MIN: usize = 256;

/// Pages whose unused room is left out of account: a page for each bucket of a window.
const PAGES_FREE: u64 = 64;

/// Unused room beyond which keys count by their pages: half of each page.
const PAGE_WEIGHT: u64 = PAGE as u64 / 2;

/// The set of (key hash, bucket).
#[derive(Debug)]
pub struct Kept {
    /// By the first bits of a hash.
    segments: Box<[Segment; SEGMENTS]>,
    scratch: Scratch,
    places: Places,
    pages: Pages,
    /// How far hashes being spilled were copied: places of those that are being spilled, and pages of the next one.
    gathered: (usize, usize),
    /// The segment that is next probed for memory to give back.
    shrink_from: usize,
}

/// What a removal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The pair was not in the set.
    No,
    /// It was.
    Yes,
    /// It was, and a copy is on its way to a file.
    Copied,
}

impl Kept {
    /// The empty set.
    pub fn new() -> Self {
        Self {
            segments: Box::new(std::array::from_fn(|number| Segment::new(number as u16))),
            scratch: Scratch::default(),
            places: Places::default(),
            pages: Pages::new(),
            gathered: (0, 0),
            shrink_from: 0,
        }
    }

    /// Takes room for as many pairs as will come, so that the index need not grow under them.
    pub fn reserve(&mut self, pairs: usize) {
        let each = pairs.div_ceil(self.segments.len());
        // Fewer than that are spread too unevenly, and grown soon. Of more, no segment has a sixteenth above the mean, as a rule.
        if each >= RESERVED_MIN {
            let each = u32::try_from(each + each / 16).unwrap_or(u32::MAX);
            let lines_end = self.pages.lines_end();
            for segment in self.segments.iter_mut() {
                segment.reserve(each, lines_end, &mut self.scratch, hashes_of(&self.pages, &self.places));
            }
        }
    }

    /// True if a kept record of the key is near `bucket`.
    pub fn has_near(&self, hash: u128, bucket: i64) -> bool {
        let (first, last) = blocks_near(bucket);
        self.has_near_in(first, hash, bucket) || (last != first && self.has_near_in(last, hash, bucket))
    }

    fn has_near_in(&self, block: i64, hash: u128, bucket: i64) -> bool {
        self.search(block, hash, |kept| near(kept, bucket)) == Found::Match
    }

    /// Looks in one block for a pair with a bucket that `test` takes.
    fn search(&self, block: i64, hash: u128, test: impl Fn(i64) -> bool) -> Found {
        let mixed = mix(hash, block);
        let segment = &self.segments[segment_of(mixed)];
        segment.search(spot_of(mixed), |line| self.spot(line, hash, &test).is_some())
    }

    /// Where in a line a pair with a bucket that `test` takes lies.
    #[inline]
    fn spot(&self, line: u32, hash: u128, test: impl Fn(i64) -> bool) -> Option<Spot> {
        self.pages.find(line, hash, |place| self.places.bucket(place).is_some_and(&test))
    }

    /// Takes (hash, bucket) out.
    pub fn remove(&mut self, hash: u128, bucket: i64) -> Removed {
        let mixed = mix(hash, block(bucket));
        let found = Cell::new(None);
        let take = |line| {
            found.set(self.spot(line, hash, |kept| kept == bucket));
            found.get().is_some()
        };
        let segment = &self.segments[segment_of(mixed)];
        segment.search(spot_of(mixed), take);
        let Some(spot) = found.get() else { return Removed::No };
        let place = self.pages.place(spot.page);
        self.segments[segment_of(mixed)].remove(mixed, spot.line());
        self.pages.remove(spot);
        self.places.removed(place);
        if self.is_gathered(place, spot) { Removed::Copied } else { Removed::Yes }
    }

    fn is_gathered(&self, place: Place, spot: Spot) -> bool {
        let (places, pages) = self.gathered;
        match self.places.spilling().iter().position(|(_, spilling)| *spilling == place) {
            Some(at) if at == places => self.places.pages(place)[..pages].contains(&spot.page),
            Some(at) => at < places,
            None => false,
        }
    }

    /// Pairs in the set; more if they lie in so many buckets that pages are less than half full.
    pub fn weight(&self) -> u64 {
        weight(self.places.kept(), self.places.pages_kept())
    }

    /// Begins to spill the earliest buckets, until the others weigh at most `keep`: those pairs are fixed here and now.
    /// Their number; 0 if there is nothing to spill, or a spill is in progress.
    pub fn spill(&mut self, keep: u64) -> u64 {
        if !self.places.spilling().is_empty() {
            return 0;
        }
        let (mut pairs, mut pages, mut spilling) = (self.places.kept(), self.places.pages_kept(), 0);
        let mut buckets = Vec::new();
        for bucket in self.places.buckets().filter(|bucket| bucket.bucket != UNPLACED) {
            if weight(pairs, pages) <= keep {
                break;
            }
            (pairs, pages, spilling) = (pairs - bucket.kept, pages - bucket.pages, spilling + bucket.kept);
            buckets.push(bucket.bucket);
        }
        self.places.spill(&buckets);
        self.gathered = (0, 0);
        spilling
    }

    /// Copies pairs being spilled, a few pages at a time, until at least `hashes` were probed. True once all are copied.
    pub fn gather(&mut self, hashes: usize, to: &mut Vec<Pair>) -> bool {
        let mut looked = 0;
        let (mut places, mut pages) = self.gathered;
        while let Some((bucket, place)) = self.places.spilling().get(places)
            && looked < hashes
        {
            match self.places.pages(*place).get(pages) {
                Some(page) => {
                    to.extend(self.pages.hashes(*page).map(|(_, hash)| Pair::new(hash, *bucket)));
                    looked += PAGE;
                    pages += 1;
                }
                None => (places, pages) = (places + 1, 0),
            }
        }
        self.gathered = (places, pages);
        places == self.places.spilling().len()
    }

    /// What was being spilled is in a file: it is over, as what has expired is.
    pub fn spilled(&mut self) {
        self.places.spilled();
        self.gathered = (0, 0);
    }

    /// The latest bucket in which the key was kept. Walks through the buckets in use.
    pub fn latest(&self, hash: u128) -> Option<i64> {
        let latest = Cell::new(None);
        let mut last_block = None;
        for used in self.places.buckets() {
            let block = block(used.bucket);
            if last_block.replace(block) != Some(block) {
                self.search(block, hash, |bucket| {
                    latest.set(latest.get().max(Some(bucket)));
                    false
                });
            }
        }
        latest.get()
    }

    /// Moves every pair in bucket `from` to bucket `to`; gives their hashes.
    pub fn move_bucket(&mut self, from: i64, to: i64) -> Vec<u128> {
        let Some(place) = self.places.find(from) else { return Vec::new() };
        let pages = self.places.pages(place).iter();
        let hashes: Vec<u128> =
            pages.flat_map(|page| self.pages.hashes(*page)).map(|(_, hash)| hash).collect();
        for hash in &hashes {
            self.remove(*hash, from);
        }
        self.add_all(hashes.iter().copied(), to);
        hashes
    }

    /// Drops every bucket below `floor`. Their pages are given back bit by bit, by [`clean`](Self::clean).
    pub fn expire(&mut self, floor: Option<i64>) {
        let spilling = self.places.spilling().len();
        if let Some(floor) = floor {
            self.places.expire(floor);
        }
        // Those that are spilled are in the order of time, so the first of them are over.
        let over = spilling - self.places.spilling().len();
        let (places, pages) = self.gathered;
        self.gathered = (places.saturating_sub(over), if over > places { 0 } else { pages });
        self.places.prune();
    }

    /// Gives back pages of buckets that are over, and takes their hashes out of the index, until at least `hashes` were probed.
    pub fn clean(&mut self, hashes: usize) {
        let mut looked = 0;
        while looked < hashes
            && let Some((bucket, page)) = self.places.take_over()
        {
            let block = block(bucket);
            for (_, hash) in self.pages.hashes(page) {
                let mixed = mix(hash, block);
                let segment = &self.segments[segment_of(mixed)];
                segment.prefetch(spot_of(mixed));
            }
            for (line, hash) in self.pages.hashes(page) {
                let mixed = mix(hash, block);
                self.segments[segment_of(mixed)].remove(mixed, line);
            }
            self.pages.give_back(page);
            looked += PAGE;
        }
    }

    /// Gives memory of the index back where few entries are left, in one segment of eight.
    pub fn shrink(&mut self) {
        let lines_end = self.pages.lines_end();
        for _ in 0..self.segments.len() / 8 {
            let segment = &mut self.segments[self.shrink_from];
            segment.shrink(lines_end, &mut self.scratch, hashes_of(&self.pages, &self.places));
            self.shrink_from = (self.shrink_from + 1) % self.segments.len();
        }
    }

    /// The buckets in use. A bucket may be there twice: being spilled, and with new pairs.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.places.buckets()
    }

    /// The hashes of a place in bytes, as they came.
    pub fn bytes(&self, place: Place) -> impl Iterator<Item = &[u8]> {
        self.places.pages(place).iter().flat_map(|page| self.pages.bytes(*page, 0))
    }

    /// How many hashes of a place are there.
    pub fn count(&self, place: Place) -> u64 {
        self.places.count(place)
    }

    /// The hashes of a place.
    pub fn hashes(&self, place: Place) -> impl Iterator<Item = u128> {
        self.places.pages(place).iter().flat_map(|page| self.pages.hashes(*page)).map(|(_, hash)| hash)
    }

    /// True if something was added since the last [`note`](Self::note), even if it was removed again.
    pub fn has_fresh(&self) -> bool {
        self.places.has_fresh()
    }

    /// How many hashes of a place were added since the last [`note`](Self::note), and are there.
    pub fn fresh(&self, place: Place) -> usize {
        self.places.fresh(place).map(|(page, from)| self.pages.count(page, from)).sum()
    }

    /// Those hashes in bytes, as they came.
    pub fn fresh_bytes(&self, place: Place) -> impl Iterator<Item = &[u8]> {
        self.places.fresh(place).flat_map(|(page, from)| self.pages.bytes(page, from))
    }

    /// What was added until here is in a delta, or in a snapshot.
    pub fn note(&mut self) {
        self.places.note();
    }

    /// Pairs in the set.
    pub fn len(&self) -> u64 {
        self.places.kept()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.places.memory_bytes()
            + self.pages.memory_bytes()
            + self.scratch.memory_bytes()
            + size_of_val(&*self.segments)
            + self.segments.iter().map(Segment::memory_bytes).sum::<usize>()
    }
}

/// Tells the index all hashes of a line, as they are mixed.
fn hashes_of<'a>(pages: &'a Pages, places: &'a Places) -> impl Fn(u32, &mut dyn FnMut(u64)) + 'a {
    |line, each| {
        let (place, hashes) = pages.hashes_of(line);
        let block = block(places.bucket_ever(place));
        hashes.for_each(|hash| each(mix(hash, block)));
    }
}

fn weight(pairs: u64, pages: u64) -> u64 {
    pairs.max(pages.saturating_sub(PAGES_FREE) * PAGE_WEIGHT)
}

/// Bucket 0 lies in the middle of a block: without a window it is the only one, and every record would have a second look.
#[inline]
fn block(bucket: i64) -> i64 {
    bucket.saturating_add(BLOCK / 2).div_euclid(BLOCK)
}

/// The blocks in which buckets near `bucket` lie.
fn blocks_near(bucket: i64) -> (i64, i64) {
    (block(bucket.saturating_sub_unsigned(SPAN)), block(bucket.saturating_add_unsigned(SPAN)))
}

/// True if the bucket is so near either end of its block that buckets of another may be near it.
#[inline(always)]
fn is_at_an_edge(bucket: i64) -> bool {
    // The last bits of the bucket's number in its block.
    let at = bucket.wrapping_add(BLOCK / 2) & (BLOCK - 1);
    !(SPAN as i64..BLOCK - SPAN as i64).contains(&at)
}

/// The block beside its own in which buckets near `bucket` lie, if there is one.
#[inline]
fn other_block(bucket: i64) -> Option<i64> {
    if !is_at_an_edge(bucket) {
        return None;
    }
    let (own, (first, last)) = (block(bucket), blocks_near(bucket));
    Some(if first == own { last } else { first }).filter(|other| *other != own)
}

/// Mixes a block into the part of a hash that the index takes; block 0 changes nothing. Hashes are even already, so any constant that sets
/// the first bits apart will do.
#[inline]
fn mix(hash: u128, block: i64) -> u64 {
    (hash >> 64) as u64 ^ (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
