//! One segment of the hash table.
//!
//! Owns the layout of slots and the search in them. Does not own what a place means (`places`) nor how a key and its time
//! become a position (`kept`).
//!
//! **A slot has 16 bytes.** A table of 2^bits segments sorts hashes into them by their first `bits` bits, which a slot need not hold:
//! so many bits are left for its place, and for the mark of slots that the next delta must find.
//!
//! ```text
//!   hash     [ segment: bits ][ rest: 128 - bits                        ]
//!   slot                      [ rest: 128 - bits ][ place: bits - 1 ][ mark: 1 ]
//! ```
//!
//! Slots stand in *groups* of 4, a cache line. A hash has a *home* group: `rest * capacity`, taken as a fraction, so homes ascend with
//! the hash. It is in its home, or if that is full, in one of the next groups, none before it with a free slot; a group is filled
//! from its front. What this buys:
//!
//! - a search ends at the first free slot, even at nine tenths of use mostly within the line that was fetched ahead;
//! - an insert writes one slot and moves none;
//! - any capacity will do, not only powers of two: growth by a third instead of by doubling keeps 69 to 92 % of the slots in use,
//!   and segments grow at different times, so the table as a whole is always at about 80 %;
//! - growing, sweeping and writing out are walks from front to back, and what they give is nearly sorted.
//!
//! The hash function has no secret, so whoever chooses the keys can make them crowd. That costs time in one segment, and
//! never a wrong decision: hashes are compared whole.

use super::places::{Place, Places};

/// A slot taken out of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The hash.
    pub hash: u128,
    /// The place of the bucket; not 0.
    pub place: Place,
}

/// No slot: place 0 is never given out, so the lower half of a slot in use is not 0.
const EMPTY: u128 = 0;

/// Slots of a group.
const GROUP: usize = 4;

/// The slots of one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Group([u128; GROUP]);

const EMPTY_GROUP: Group = Group([EMPTY; GROUP]);

impl Group {
    /// Slots in use.
    #[inline]
    fn len(&self) -> usize {
        self.0.iter().map(|slot| usize::from(*slot as u64 != 0)).sum()
    }
}

/// Bits of a table's segments at the least: 512 segments, and 255 places.
pub const BITS_MIN: u8 = 9;

/// Bits at the most: places up to 2^31.
pub const BITS_MAX: u8 = 32;

/// The first capacity in groups. It doubles up to [`CAPACITY_STAGGERED`].
const CAPACITY_MIN: usize = 4;

/// From here on segments have capacities of their own, up to a third apart, and grow by a third: not all at the same moment.
const CAPACITY_STAGGERED: usize = 64;

/// Groups beyond the capacity for what the last homes push on, at the most; more are added when they do not suffice.
const TAIL_MAX: usize = 8;

/// Room for the slots of one segment on their way to new places, for all segments in turn.
#[derive(Debug, Default)]
pub struct Scratch {
    slots: Vec<u128>,
    /// Slots in use of each group.
    filled: Vec<u8>,
}

impl Scratch {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u128>() + self.filled.capacity()
    }
}

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

/// One part of the table: the hashes that share their first bits.
#[derive(Debug)]
pub struct Segment {
    groups: Vec<Group>,
    /// Homes; `groups` is longer by the tail. 0 until the first insert.
    capacity: usize,
    /// Slots that are not empty.
    used: usize,
    /// Slots in use at which the next insert must be preceded by [`make_room`](Self::make_room).
    used_max: usize,
    /// The first bits of the hashes, as a number.
    number: u32,
    /// How many bits those are.
    bits: u8,
}

impl Segment {
    /// The empty segment for hashes whose first `bits` bits are `number`.
    pub fn new(number: u32, bits: u8) -> Self {
        debug_assert!((BITS_MIN..=BITS_MAX).contains(&bits));
        Self { groups: Vec::new(), capacity: 0, used: 0, used_max: 0, number, bits }
    }

    /// The bits of a slot that are not of its hash.
    #[inline]
    fn mask(&self) -> u128 {
        (1 << self.bits) - 1
    }

    #[inline]
    fn slot(&self, hash: u128, place: Place, mark: bool) -> u128 {
        hash << self.bits | u128::from(place) << 1 | u128::from(mark)
    }

    #[inline]
    fn place_of(&self, slot: u128) -> Place {
        ((slot & self.mask()) >> 1) as Place
    }

    /// Asks the processor to fetch the group in which `hash` would be.
    #[inline]
    pub fn prefetch(&self, hash: u128) {
        if let Some(group) = self.groups.get(home(hash << self.bits, self.capacity)) {
            prefetch_at(std::ptr::from_ref(group).cast());
        }
    }

    /// Looks among the slots with this hash for one whose place `test` takes.
    #[inline]
    pub fn search(&self, hash: u128, places: &Places, test: impl Fn(i64) -> bool) -> Found {
        let (rest, mask) = (hash << self.bits, self.mask());
        let high = (rest >> 64) as u64;
        let mut dead = None;
        let mut number = home(rest, self.capacity);
        while let Some(group) = self.groups.get(number) {
            for (at, slot) in group.0.iter().enumerate() {
                let index = number * GROUP + at;
                if *slot as u64 == 0 {
                    return dead.map_or(Found::Gap(index), Found::Dead);
                }
                if (*slot >> 64) as u64 == high && *slot & !mask == rest {
                    match places.bucket(self.place_of(*slot)) {
                        Some(bucket) if test(bucket) => return Found::Match(index),
                        Some(_) => {}
                        None => dead = Some(index),
                    }
                }
            }
            number += 1;
        }
        dead.map_or(Found::Gap(number * GROUP), Found::Dead)
    }

    /// Calls `each` for every slot with this hash.
    pub fn for_hash(&self, hash: u128, mut each: impl FnMut(Place)) {
        let (rest, mask) = (hash << self.bits, self.mask());
        let from = home(rest, self.capacity).min(self.groups.len());
        for slot in self.groups[from..].iter().flat_map(|group| &group.0) {
            if *slot == EMPTY {
                return;
            }
            if *slot & !mask == rest {
                each(self.place_of(*slot));
            }
        }
    }

    /// The place in the slot at `index`.
    pub fn place(&self, index: usize) -> Place {
        self.place_of(self.groups[index / GROUP].0[index % GROUP])
    }

    /// Puts the slot of `hash` at `index` in place of another one of the same hash.
    pub fn replace(&mut self, index: usize, hash: u128, place: Place, mark: bool) {
        self.groups[index / GROUP].0[index % GROUP] = self.slot(hash, place, mark);
    }

    /// True if the next insert must be preceded by [`make_room`](Self::make_room), which moves slots.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.used >= self.used_max
    }

    /// Puts a slot at the [`Found::Gap`] of its hash. `place` must have fewer bits than the segment.
    #[inline]
    pub fn insert(&mut self, index: usize, hash: u128, place: Place, mark: bool) {
        debug_assert!(!self.is_full(), "room is made before the search");
        debug_assert!(u128::from(place) <= self.mask() >> 1 && place != 0);
        if index / GROUP == self.groups.len() {
            self.groups.reserve_exact(TAIL_MAX);
            self.groups.push(EMPTY_GROUP);
        }
        self.groups[index / GROUP].0[index % GROUP] = self.slot(hash, place, mark);
        self.used += 1;
    }

    /// Takes out the slot at `index`, and moves others so that none has a free slot between it and its home. True if it was marked.
    pub fn remove(&mut self, index: usize) -> bool {
        let was_marked = self.groups[index / GROUP].0[index % GROUP] & 1 == 1;
        self.used -= 1;
        let (mut number, mut at) = (index / GROUP, index % GROUP);
        loop {
            let group = &mut self.groups[number].0;
            let last = group.iter().rposition(|slot| *slot != EMPTY).unwrap_or(at);
            group[at] = group[last];
            group[last] = EMPTY;
            if last + 1 < GROUP {
                return was_marked;
            }
            // The group was full, so a slot further on may belong here.
            let Some((from, slot)) = self.displaced(number) else { return was_marked };
            self.groups[number].0[last] = self.groups[from].0[slot];
            (number, at) = (from, slot);
        }
    }

    /// A slot behind this group that belongs into it or before it.
    fn displaced(&self, number: usize) -> Option<(usize, usize)> {
        for (from, group) in self.groups.iter().enumerate().skip(number + 1) {
            let belongs = |slot: &u128| *slot != EMPTY && home(*slot, self.capacity) <= number;
            if let Some(at) = group.0.iter().position(belongs) {
                return Some((from, at));
            }
            if group.len() < GROUP {
                return None;
            }
        }
        None
    }

    /// Sweeps if that helps, and grows if it does not help enough.
    pub fn make_room(&mut self, places: &mut Places, scratch: &mut Scratch) {
        if places.dead_slots() * 16 > places.live_slots() {
            self.sweep(places, scratch);
            if self.used * 25 < self.capacity * GROUP * 18 {
                return;
            }
        }
        self.take_out(scratch);
        self.put_back(self.fitting(self.capacity + 1), scratch);
    }

    /// Takes room for as many slots as will come.
    pub fn reserve(&mut self, slots: usize, scratch: &mut Scratch) {
        let enough = self.fitting(groups_for(self.used + slots));
        if enough > self.capacity {
            self.take_out(scratch);
            self.put_back(enough, scratch);
        }
    }

    /// Clears the slots of dead places; gives memory back if fewer than three in eight slots are then in use.
    pub fn sweep(&mut self, places: &mut Places, scratch: &mut Scratch) {
        if self.used == 0 {
            return;
        }
        self.take_out(scratch);
        scratch.slots.retain(|slot| {
            let place = self.place_of(*slot);
            let is_live = places.bucket(place).is_some();
            if !is_live {
                places.release(place);
            }
            is_live
        });
        let enough = self.fitting(groups_for(scratch.slots.len()));
        let is_wide = scratch.slots.len() * 8 < self.capacity * GROUP * 3 && enough < self.capacity;
        self.put_back(if is_wide { enough } else { self.capacity }, scratch);
    }

    /// The least capacity that the segment may have and that is not below `groups`.
    fn fitting(&self, groups: usize) -> usize {
        let own = CAPACITY_STAGGERED + CAPACITY_STAGGERED / 3 * (self.number as usize % 512) / 512;
        let mut capacity = CAPACITY_MIN;
        while capacity < groups {
            capacity = match capacity {
                small if small * 2 < CAPACITY_STAGGERED => small * 2,
                small if small < CAPACITY_STAGGERED => own,
                large => large + large.div_ceil(3),
            };
        }
        capacity
    }

    /// Copies all slots. Without a branch for each: which are in use cannot be guessed.
    fn take_out(&self, scratch: &mut Scratch) {
        scratch.slots.resize(self.groups.len() * GROUP + 1, EMPTY);
        let mut next = 0;
        for slot in self.groups.iter().flat_map(|group| &group.0) {
            scratch.slots[next] = *slot;
            next += usize::from(*slot as u64 != 0);
        }
        scratch.slots.truncate(next);
    }

    /// Puts what was taken out into so many homes, nothing else being there.
    fn put_back(&mut self, capacity: usize, scratch: &mut Scratch) {
        let len = capacity + (capacity / 64).clamp(1, TAIL_MAX);
        self.groups.clear();
        if self.groups.capacity() > len {
            self.groups = Vec::new();
        }
        self.groups.reserve_exact(len);
        self.groups.resize(len, EMPTY_GROUP);
        scratch.filled.clear();
        scratch.filled.resize(len, 0);
        for slot in &scratch.slots {
            let mut number = home(*slot, capacity);
            while scratch.filled.get(number).is_some_and(|filled| usize::from(*filled) == GROUP) {
                number += 1;
            }
            if number == self.groups.len() {
                self.groups.reserve_exact(TAIL_MAX);
                self.groups.push(EMPTY_GROUP);
                scratch.filled.push(0);
            }
            let filled = &mut scratch.filled[number];
            self.groups[number].0[usize::from(*filled)] = *slot;
            *filled += 1;
        }
        (self.used, self.capacity) = (scratch.slots.len(), capacity);
        self.used_max = used_max(capacity);
    }

    /// The segment in two, for a table with twice as many.
    pub fn split(self, scratch: &mut Scratch) -> [Self; 2] {
        [0, 1].map(|half| {
            let mut own = Self::new(self.number << 1 | half, self.bits + 1);
            let is_own = |slot: &&u128| **slot != EMPTY && (**slot >> 127) as u32 == half;
            let slots = self.groups.iter().flat_map(|group| &group.0).filter(is_own);
            let (mask, half_mask) = (self.mask(), own.mask());
            scratch.slots.clear();
            scratch.slots.extend(slots.map(|slot| (slot & !mask) << 1 & !half_mask | slot & mask));
            if !scratch.slots.is_empty() {
                own.put_back(own.fitting(groups_for(scratch.slots.len())), scratch);
            }
            own
        })
    }

    fn out(&self, slot: u128) -> Slot {
        let first = u128::from(self.number) << (128 - self.bits);
        Slot { hash: first | slot >> self.bits, place: self.place_of(slot) }
    }

    /// The slots in use, nearly by hash.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.groups
            .iter()
            .flat_map(|group| &group.0)
            .filter(|slot| **slot != EMPTY)
            .map(|slot| self.out(*slot))
    }

    /// Hands out the marked slots, and takes their marks.
    pub fn unmark(&mut self, mut each: impl FnMut(Slot)) {
        for number in 0..self.groups.len() {
            // Three of four groups have none as a rule.
            if self.groups[number].0.iter().all(|slot| slot & 1 == 0) {
                continue;
            }
            for at in 0..GROUP {
                let slot = self.groups[number].0[at];
                if slot & 1 == 1 {
                    self.groups[number].0[at] = slot & !1;
                    each(self.out(slot));
                }
            }
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }
}

/// Slots in use of that many groups beyond which they grow: 92 in a hundred.
fn used_max(groups: usize) -> usize {
    groups * GROUP * 23 / 25
}

/// Groups for so many slots, with room for some more.
fn groups_for(slots: usize) -> usize {
    (slots * 5).div_ceil(4 * GROUP).max(1)
}

/// The hash as a fraction of the segment, times its homes.
#[inline]
fn home(slot: u128, capacity: usize) -> usize {
    (((slot >> 64) * capacity as u128) >> 64) as usize
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
