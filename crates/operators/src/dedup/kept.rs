//! The kept records: a set of (key hash, bucket).
//!
//! Owns the one question, "is a kept record of this key near this bucket", and the set behind it. Does not own the policy for late
//! records, the journal's deltas (`mod`) nor bytes (`state`).
//!
//! A key may have been kept several times, far apart in time. So that such a key does not pile up slots in one spot (think of a key
//! that is the same for every record, a short window and a long backlog), a slot's position depends on key *and* time: bucket
//! numbers are cut into blocks of [`BLOCK`], and the block is mixed into the hash. All that is near a bucket lies in one or two
//! blocks, and a block holds at most `BLOCK / (SPAN + 1) + 1` kept records of one key.

use super::closed::part::Pair;
use super::places::{Place, Places};
use super::table::{BITS_MAX, BITS_MIN, Found, Scratch, Segment, Slot};
use super::window::{SPAN, UNPLACED, near};

/// Buckets in a block. One record in 32 needs a look at a second block; a key has at most 61 slots in one spot.
const BLOCK: i64 = 1024;

/// The share of segments swept by one seal at the most: a sweep of everything would be felt at tens of millions of keys.
const SWEPT_PER_SEAL: usize = 8;

/// Slots a segment for which room is taken ahead.
const RESERVED_MIN: usize = 256;

/// Hashes looked up ahead of their turn. Enough to hide one trip to memory, few enough to stay in the nearest cache.
pub const AHEAD: usize = 12;

/// The set of (key hash, bucket).
#[derive(Debug)]
pub struct Kept {
    /// 2^bits of them, by the first bits of a hash. Places have a bit less.
    segments: Vec<Segment>,
    bits: u8,
    scratch: Scratch,
    places: Places,
    /// The segment that the next sweep begins with.
    sweep_from: usize,
    /// Hashes whose closing slots were copied: those below this one, all of them if there is none.
    gathered: Option<u128>,
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
    /// It was, with a mark and this place.
    Marked(Place),
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A kept record of the key is near: nothing changed.
    Near,
    /// The pair is in the set now, and its slot names this place.
    Added(Place),
}

impl Kept {
    /// The empty set.
    pub fn new() -> Self {
        Self {
            segments: (0..1 << BITS_MIN).map(|number| Segment::new(number, BITS_MIN)).collect(),
            bits: BITS_MIN,
            scratch: Scratch::default(),
            places: Places::new(),
            sweep_from: 0,
            gathered: None,
        }
    }

    /// Takes room for as many pairs as will come, so that the table need not grow under them.
    pub fn reserve(&mut self, pairs: usize) {
        let each = pairs.div_ceil(self.segments.len());
        // Fewer than that are spread too unevenly, and grown soon.
        if each >= RESERVED_MIN {
            self.segments.iter_mut().for_each(|segment| segment.reserve(each, &mut self.scratch));
        }
    }

    /// The number of the segment of a mixed hash.
    #[inline]
    fn segment(&self, mixed: u128) -> usize {
        (mixed >> (128 - self.bits)) as usize
    }

    /// Asks the processor to fetch what [`offer`](Self::offer) will look at.
    #[inline]
    pub fn prefetch(&self, hash: u128, bucket: i64) {
        let mixed = mix(hash, block(bucket));
        self.segments[self.segment(mixed)].prefetch(mixed);
    }

    /// True if a kept record of the key is near `bucket`.
    pub fn has_near(&self, hash: u128, bucket: i64) -> bool {
        let (first, last) = blocks_near(bucket);
        self.has_near_in(first, hash, bucket) || (last != first && self.has_near_in(last, hash, bucket))
    }

    fn has_near_in(&self, block: i64, hash: u128, bucket: i64) -> bool {
        let mixed = mix(hash, block);
        let found = self.segments[self.segment(mixed)].search(mixed, &self.places, |kept| near(kept, bucket));
        matches!(found, Found::Match(_))
    }

    /// Adds (hash, bucket), unless a kept record of the key is near. A marked pair is handed out by [`unmark`](Self::unmark).
    #[inline]
    pub fn offer(&mut self, hash: u128, bucket: i64, mark: bool) -> Offer {
        let own = block(bucket);
        let (first, last) = blocks_near(bucket);
        let other = if first == own { last } else { first };
        if other != own && self.has_near_in(other, hash, bucket) {
            return Offer::Near;
        }
        self.add_unless(mix(hash, own), bucket, mark, |kept| near(kept, bucket))
    }

    /// Adds (hash, bucket) whatever is near, unless just that pair is there.
    pub fn add(&mut self, hash: u128, bucket: i64) -> Offer {
        self.add_unless(mix(hash, block(bucket)), bucket, false, |kept| kept == bucket)
    }

    #[inline]
    fn add_unless(&mut self, mixed: u128, bucket: i64, mark: bool, test: impl Fn(i64) -> bool) -> Offer {
        if !self.places.has_below(1 << (self.bits - 1)) && self.places.find(bucket).is_none() {
            self.make_places();
        }
        let number = self.segment(mixed);
        let segment = &mut self.segments[number];
        let mut found = segment.search(mixed, &self.places, &test);
        if matches!(found, Found::Gap(_)) && segment.is_full() {
            segment.make_room(&mut self.places, &mut self.scratch);
            found = segment.search(mixed, &self.places, &test);
        }
        match found {
            Found::Match(_) => Offer::Near,
            Found::Dead(index) => {
                self.places.release(segment.place(index));
                let place = self.places.take(bucket);
                segment.replace(index, mixed, place, mark);
                Offer::Added(place)
            }
            Found::Gap(index) => {
                let place = self.places.take(bucket);
                segment.insert(index, mixed, place, mark);
                Offer::Added(place)
            }
        }
    }

    /// No place is left that a slot can name: frees the dead ones, and if that yields few, gives slots one bit more.
    #[cold]
    fn make_places(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.sweep(&mut self.places, &mut self.scratch));
        if self.places.unused() * 8 < self.places.len() {
            assert!(self.bits < BITS_MAX, "2^31 places have as many slots at least, which are 32 GB");
            let whole = std::mem::take(&mut self.segments).into_iter();
            self.segments = whole.flat_map(|segment| segment.split(&mut self.scratch)).collect();
            self.bits += 1;
            self.sweep_from = 0;
        }
    }

    /// Takes (hash, bucket) out.
    pub fn remove(&mut self, hash: u128, bucket: i64) -> Removed {
        let mixed = mix(hash, block(bucket));
        let number = self.segment(mixed);
        let segment = &mut self.segments[number];
        let Found::Match(index) = segment.search(mixed, &self.places, |kept| kept == bucket) else {
            return Removed::No;
        };
        let place = segment.place(index);
        self.places.release(place);
        if segment.remove(index) {
            return Removed::Marked(place);
        }
        let is_copied = self.gathered.is_none_or(|end| mixed < end)
            && self.places.closing().iter().any(|(_, p)| *p == place);
        if is_copied { Removed::Copied } else { Removed::Yes }
    }

    /// Begins to close the earliest buckets, until at most `keep` pairs are left in the others: those pairs are fixed here and now.
    /// Their number; 0 if there is nothing to close, or closing is under way.
    pub fn close(&mut self, keep: u64) -> u64 {
        if !self.places.closing().is_empty() {
            return 0;
        }
        let all = self.places.live_slots();
        let mut left = all;
        let earliest = self.places.live().filter(|(bucket, ..)| *bucket != UNPLACED);
        let buckets: Vec<i64> = earliest
            .take_while(|(_, _, slots)| {
                let goes = left > keep;
                left -= if goes { *slots } else { 0 };
                goes
            })
            .map(|(bucket, ..)| bucket)
            .collect();
        self.places.close(&buckets);
        self.gathered = Some(0);
        all - left
    }

    /// Copies closing pairs, a few segments at a time, until at least `slots` were looked at. True once all are copied.
    pub fn gather(&mut self, slots: usize, to: &mut Vec<Pair>) -> bool {
        let mut looked = 0;
        let closing = self.places.closing_flags();
        while let Some(from) = self.gathered.filter(|_| looked < slots) {
            let number = self.segment(from);
            for slot in self.segments[number].iter() {
                looked += 1;
                if closing[slot.place as usize]
                    && let Some(bucket) = self.places.bucket(slot.place)
                {
                    to.push(Pair::new(mix(slot.hash, block(bucket)), bucket));
                }
            }
            let next = number + 1;
            self.gathered = (next < self.segments.len()).then(|| (next as u128) << (128 - self.bits));
        }
        self.gathered.is_none()
    }

    /// What was closing is in a file: it leaves the table, and its slots are cleared as expired ones are.
    pub fn closed(&mut self) {
        self.places.closed();
        self.gathered = None;
    }

    /// True if just this pair is in the set.
    pub fn contains(&self, hash: u128, bucket: i64) -> bool {
        let mixed = mix(hash, block(bucket));
        let found = self.segments[self.segment(mixed)].search(mixed, &self.places, |kept| kept == bucket);
        matches!(found, Found::Match(_))
    }

    /// The latest bucket in which the key was kept. Walks through the buckets in use.
    pub fn latest(&self, hash: u128) -> Option<i64> {
        let mut latest: Option<i64> = None;
        let mut last_block = None;
        for (used, ..) in self.places.live() {
            if last_block.replace(block(used)) == Some(block(used)) {
                continue;
            }
            let mixed = mix(hash, block(used));
            self.segments[self.segment(mixed)].for_hash(mixed, |place| {
                latest = latest.max(self.places.bucket(place));
            });
        }
        latest
    }

    /// Moves every pair in bucket `from` to bucket `to`; gives their hashes.
    pub fn move_bucket(&mut self, from: i64, to: i64) -> Vec<u128> {
        let Some(place) = self.places.find(from) else { return Vec::new() };
        let hashes: Vec<u128> =
            self.iter().filter(|s| s.place == place).map(|s| mix(s.hash, block(from))).collect();
        for hash in &hashes {
            self.remove(*hash, from);
            self.add(*hash, to);
        }
        hashes
    }

    /// Drops every bucket below `floor`. Their slots are cleared a few segments at a time, when an eighth of all is dead.
    pub fn expire(&mut self, floor: Option<i64>) {
        if let Some(floor) = floor {
            self.places.expire(floor);
        }
        self.places.prune();
        for _ in 0..self.segments.len() / SWEPT_PER_SEAL {
            if self.places.dead_slots() * 8 <= self.places.live_slots() + self.places.dead_slots() {
                return;
            }
            self.segments[self.sweep_from].sweep(&mut self.places, &mut self.scratch);
            self.sweep_from = (self.sweep_from + 1) % self.segments.len();
        }
    }

    /// The bucket of a place; `None` if it is over.
    pub fn bucket(&self, place: Place) -> Option<i64> {
        self.places.bucket(place)
    }

    /// The pair in a slot; `None` if its bucket is dead.
    pub fn pair(&self, slot: &Slot) -> Option<(u128, i64)> {
        self.places.bucket(slot.place).map(|bucket| (mix(slot.hash, block(bucket)), bucket))
    }

    /// The buckets in use with their places and slots. A bucket may be there twice: closing, and with new slots.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u32, u64)> {
        self.places.live()
    }

    /// One more than the greatest place in use.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Hands out the marked pairs, and takes their marks. Walks through the whole table.
    pub fn unmark(&mut self, mut each: impl FnMut(Place, u128)) {
        for segment in &mut self.segments {
            segment.unmark(|slot| {
                if let Some(bucket) = self.places.bucket(slot.place) {
                    each(slot.place, mix(slot.hash, block(bucket)));
                }
            });
        }
    }

    /// All slots, dead ones too, nearly in the order of their mixed hash.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.segments.iter().flat_map(Segment::iter)
    }

    /// Pairs in the set.
    pub fn len(&self) -> u64 {
        self.places.live_slots()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.places.memory_bytes()
            + self.scratch.memory_bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(Segment::memory_bytes).sum::<usize>()
    }
}

/// Bucket 0 lies in the middle of a block: without a window it is the only one, and every record would have a second look.
fn block(bucket: i64) -> i64 {
    bucket.saturating_add(BLOCK / 2).div_euclid(BLOCK)
}

/// The blocks in which buckets near `bucket` lie.
fn blocks_near(bucket: i64) -> (i64, i64) {
    (block(bucket.saturating_sub_unsigned(SPAN)), block(bucket.saturating_add_unsigned(SPAN)))
}

/// Mixes a block into a hash; does the reverse too, and block 0 changes nothing. Hashes are even already, so any constant
/// that sets the first bits apart will do.
fn mix(hash: u128, block: i64) -> u128 {
    hash ^ (u128::from((block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64)
}

#[cfg(test)]
mod tests;
