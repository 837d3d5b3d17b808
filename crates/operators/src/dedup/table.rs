//! One segment of the hash table.
//!
//! Owns the layout of slots and the search in them. Does not own what a place means (`places`) nor how a key and its time
//! become a position (`kept`).
//!
//! Open addressing with slots sorted by hash: a slot's *home* is `hash * capacity`, taken as a fraction, so homes ascend
//! with the hash, and each slot is at its home or as little after it as the sorted order allows. What this buys:
//!
//! - a search ends at the first greater hash, so a new key costs no more than a known one;
//! - any capacity will do, not only powers of two: growth by a fifth instead of by doubling keeps 73 to 87 % of the slots in use;
//! - growing, sweeping and writing out are walks from front to back at the speed of memory.
//!
//! The hash function has no secret, so whoever chooses the keys can make them crowd. That costs time in one segment of 256, and
//! never a wrong decision: hashes are compared whole.

use super::places::{Place, Places};

/// A hash and a place: 20 bytes, without padding. `place` is 0 if the slot is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Slot {
    high: u64,
    low: u64,
    /// The place of the bucket.
    pub place: Place,
}

impl Slot {
    /// A slot with this hash.
    pub fn new(hash: u128, place: Place) -> Self {
        Self { high: (hash >> 64) as u64, low: hash as u64, place }
    }

    /// The hash.
    #[inline]
    pub fn hash(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

/// Slots beyond the capacity for those that the last homes push on; more are added when they do not suffice.
const TAIL: usize = 32;

/// The first capacity. Each segment starts at another one between this and a fifth more, so that they do not all grow at the
/// same moment, and the table as a whole is always about as full.
const CAPACITY_MIN: usize = 60;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A slot with this hash that the test took, at this index.
    Match(usize),
    /// None; a slot with this hash and a dead place is at this index.
    Dead(usize),
    /// None; this is the index at which the hash belongs.
    Gap(usize),
}

/// One of the 256 parts of the table: the hashes that share their first 8 bits.
#[derive(Debug)]
pub struct Segment {
    slots: Vec<Slot>,
    /// Homes; `slots` is longer by the tail. 0 until the first insert.
    capacity: usize,
    /// Slots that are not empty.
    used: usize,
    capacity_first: usize,
}

impl Segment {
    /// The empty segment for hashes with these first 8 bits.
    pub fn new(number: u8) -> Self {
        let capacity_first = CAPACITY_MIN + (CAPACITY_MIN / 5) * usize::from(number) / 256;
        Self { slots: Vec::new(), capacity: 0, used: 0, capacity_first }
    }

    #[inline]
    fn home(&self, hash: u128) -> usize {
        home(hash, self.capacity)
    }

    /// Asks the processor to fetch the slots in which `hash` would be.
    #[inline]
    pub fn prefetch(&self, hash: u128) {
        if let Some(slot) = self.slots.get(self.home(hash)) {
            prefetch(slot);
        }
    }

    /// Looks among the slots with this hash for one whose place `test` takes.
    #[inline]
    pub fn search(&self, hash: u128, places: &Places, test: impl Fn(i64) -> bool) -> Found {
        let mut index = self.home(hash);
        let mut dead = None;
        while let Some(slot) = self.slots.get(index) {
            if slot.place == 0 || slot.hash() > hash {
                break;
            }
            if slot.hash() == hash {
                match places.bucket(slot.place) {
                    Some(bucket) if test(bucket) => return Found::Match(index),
                    Some(_) => {}
                    None => dead = Some(index),
                }
            }
            index += 1;
        }
        dead.map_or(Found::Gap(index), Found::Dead)
    }

    /// Calls `each` for every slot with this hash.
    pub fn for_hash(&self, hash: u128, mut each: impl FnMut(usize, Place)) {
        let from = self.home(hash).min(self.slots.len());
        for (index, slot) in self.slots.iter().enumerate().skip(from) {
            if slot.place == 0 || slot.hash() > hash {
                return;
            }
            if slot.hash() == hash {
                each(index, slot.place);
            }
        }
    }

    /// The place in the slot at `index`.
    pub fn place(&self, index: usize) -> Place {
        self.slots[index].place
    }

    /// Names another place in the slot at `index`.
    pub fn set_place(&mut self, index: usize, place: Place) {
        self.slots[index].place = place;
    }

    /// True if the next insert must be preceded by [`make_room`](Self::make_room), which moves slots.
    #[inline]
    pub fn is_full(&self) -> bool {
        (self.used + 1) * 8 > self.capacity * 7
    }

    /// Puts a slot at the [`Found::Gap`] of its hash.
    #[inline]
    pub fn insert(&mut self, index: usize, slot: Slot) {
        debug_assert!(!self.is_full(), "room is made before the search");
        let empty = self.slots[index..].iter().position(|s| s.place == 0).map(|n| index + n);
        let empty = empty.unwrap_or_else(|| {
            let end = self.slots.len();
            self.slots.reserve_exact(TAIL);
            self.slots.resize(end + TAIL, Slot::default());
            end
        });
        self.slots.copy_within(index..empty, index + 1);
        self.slots[index] = slot;
        self.used += 1;
    }

    /// Takes out the slot at `index` and closes the gap.
    pub fn remove(&mut self, index: usize) {
        let moved = self.slots[index + 1..]
            .iter()
            .enumerate()
            .take_while(|(n, slot)| slot.place != 0 && self.home(slot.hash()) <= index + n)
            .count();
        self.slots.copy_within(index + 1..index + 1 + moved, index);
        self.slots[index + moved] = Slot::default();
        self.used -= 1;
    }

    /// Sweeps if that helps, and grows if it does not help enough: a fifth of what there is, or to what `used` needs.
    pub fn make_room(&mut self, places: &mut Places) {
        if places.dead_slots() * 16 > places.live_slots() {
            self.sweep(places);
            if self.used * 10 < self.capacity * 7 {
                return;
            }
        }
        self.rebuild((self.capacity * 6).div_ceil(5).max(self.capacity_first));
    }

    /// Clears the slots of dead places; gives memory back if fewer than three in eight homes are then in use.
    pub fn sweep(&mut self, places: &mut Places) {
        let mut next = 0;
        for index in 0..self.slots.len() {
            let slot = self.slots[index];
            if slot.place == 0 {
                continue;
            }
            self.slots[index] = Slot::default();
            if places.bucket(slot.place).is_none() {
                places.release(slot.place);
                self.used -= 1;
                continue;
            }
            // Homes ascend and slots before this one only moved forward, so `to` is at most `index`.
            let to = self.home(slot.hash()).max(next);
            self.slots[to] = slot;
            next = to + 1;
        }
        let enough = (self.used * 5).div_ceil(4).max(self.capacity_first);
        if self.used * 8 < self.capacity * 3 && enough < self.capacity {
            self.rebuild(enough);
        }
    }

    /// Moves all slots to a vector with that many homes.
    fn rebuild(&mut self, capacity: usize) {
        let mut slots = vec![Slot::default(); capacity + TAIL];
        let mut next = 0;
        for slot in self.slots.iter().filter(|s| s.place != 0) {
            let to = home(slot.hash(), capacity).max(next);
            if to >= slots.len() {
                slots.reserve_exact(TAIL);
                slots.resize(to + TAIL, Slot::default());
            }
            slots[to] = *slot;
            next = to + 1;
        }
        self.slots = slots;
        self.capacity = capacity;
    }

    /// The slots in use, by hash.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|s| s.place != 0)
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

/// The hash as a fraction of the segment, times its homes. The first 8 bits are the segment's number.
#[inline]
fn home(hash: u128, capacity: usize) -> usize {
    let fraction = (hash >> 56) as u64;
    ((u128::from(fraction) * capacity as u128) >> 64) as usize
}

#[inline]
fn prefetch(slot: &Slot) {
    let at = std::ptr::from_ref(slot).cast::<u8>();
    prefetch_at(at);
    prefetch_at(at.wrapping_add(64));
    prefetch_at(at.wrapping_add(128));
}

/// Asks the processor to fetch the cache line of an address.
#[inline]
pub fn prefetch_at(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests;
