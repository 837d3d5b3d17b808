//! One segment of the index: from a hash to the line in which it lies.
//!
//! Owns the layout of entries and the search in them. Does not own the hashes (`pages`), nor how a key and its time become a position
//! (`kept`).
//!
//! Of a hash it takes the upper 64 bits, of which the first 27 count here.
//!
//! **An entry has 4 bytes.** What it does not say of a hash, its position says: hashes are sorted into segments by their first bits, and
//! the next 18 bits, spread over the segment's capacity, are its *spot*. The upper part of the spot is the *home*, a group of 16 entries,
//! and the lower part is in the entry as its *tag*.
//!
//! ```text
//!   hash     [ segment: 9 ][ spread over the homes: 18      ][ only in its page: 101 ]
//!   spot                   [ home: number of a group ][ tag ]
//!   entry                  [ line: 29 - tag          ][ tag: 15 - doublings ][ away: 3 ]
//! ```
//!
//! An entry is in its home, or if that is full, in one of the next groups, none before it with room; *away* says how many groups on, where
//! 7 stands for more. What this buys:
//!
//! - a table that is a quarter as large as one of hashes: to touch, to grow and to miss;
//! - most searches look at one cache line, all of it in a few instructions; of a new key 1 in 80 looks at hashes too (13 entries against
//!   10 bits of tag, at two million keys);
//! - **growing reads no hash.** When the capacity doubles, the home takes one bit of the tag, and the line's number needs one bit more, for
//!   there are twice as many lines: the spot stays what it was. Only entries that are 7 or more away ask their line for its hashes, and there
//!   are such if hashes crowd;
//! - segments have capacities of 8 to 15 times a power of two, so the table as a whole grows bit by bit and is two thirds full at any size.
//!
//! The hash function has no secret, so whoever chooses the keys can make them crowd. That costs time in one segment, and never a wrong
//! decision: hashes are compared whole, in their pages.

use super::group::{EMPTY, ENTRIES, Group, prefetch};
use super::pages::LINE_BITS_MAX;

/// The segments are 2 to this power.
pub const BITS: u32 = 9;

/// Bits of a hash that are spread over a segment's capacity.
const SPREAD: u32 = 18;

/// Capacities are this times a power of two, to twice this.
const BASE: usize = 8;

/// Bits of the tag at the smallest capacity: what is left of the spot.
const TAG_BITS: u8 = 15;

/// Bits of *away*, and its greatest value: so many groups on, or more.
const AWAY_BITS: u8 = 3;
const FAR: usize = 7;

/// Where an entry was that others may have passed: line 0, which there is not.
const HOLE: u32 = 1;

/// Groups beyond the capacity for what the last homes push on, at the most; more are added when they do not suffice.
const TAIL_MAX: usize = 8;

/// Room for the work of growing, for all segments in turn.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Entries in use of each group.
    filled: Vec<u8>,
    /// Entries that are far from home.
    far: Vec<u32>,
    /// Spots of the hashes of one line.
    spots: Vec<u32>,
}

impl Scratch {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.filled.capacity() + (self.far.capacity() + self.spots.capacity()) * size_of::<u32>()
    }
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An entry whose line the test took.
    Match,
    /// None; at this index is room for one.
    Gap(usize),
}

/// One part of the index: the hashes that share their first bits.
#[derive(Debug)]
pub struct Segment {
    /// Homes and a tail; none until the first insert.
    groups: Vec<Group>,
    /// Entries and holes.
    used: u32,
    holes: u32,
    /// Entries and holes at which the next insert must be preceded by [`make_room`](Self::make_room).
    used_max: u32,
    /// The first bits of the hashes, as a number.
    number: u16,
    layout: Layout,
}

/// Which bits mean what, in a segment of this capacity.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The capacity at its smallest.
    base: u8,
    /// The bits of the tag; one less for each time that the capacity has doubled.
    tag_bits: u8,
    /// Those bits in an entry.
    tag_mask: u32,
}

impl Layout {
    fn new(base: u8, doublings: u8) -> Self {
        let tag_bits = TAG_BITS - doublings;
        Self { base, tag_bits, tag_mask: ((1 << tag_bits) - 1) << AWAY_BITS }
    }

    /// Home and tag together.
    #[inline(always)]
    fn spot(self, hash: u64) -> u32 {
        let spread = (hash >> (u64::BITS - BITS - SPREAD)) as u32 & ((1 << SPREAD) - 1);
        // 18 bits by 4: it cannot overflow, and this is done for every record.
        spread.wrapping_mul(u32::from(self.base)) / BASE as u32
    }

    #[inline(always)]
    fn home(self, spot: u32) -> usize {
        spot.wrapping_shr(u32::from(self.tag_bits)) as usize
    }

    /// The tag of a spot, where it is in an entry.
    #[inline(always)]
    fn tag(self, spot: u32) -> u32 {
        spot << AWAY_BITS & self.tag_mask
    }

    #[inline(always)]
    fn line(self, entry: u32) -> u32 {
        entry.wrapping_shr(u32::from(self.tag_bits.wrapping_add(AWAY_BITS)))
    }

    /// The entry of a line and a spot in group `number`.
    #[inline(always)]
    fn entry(self, line: u32, spot: u32, number: usize) -> u32 {
        let away = (number - self.home(spot)).min(FAR) as u32;
        line.wrapping_shl(u32::from(self.tag_bits.wrapping_add(AWAY_BITS))) | self.tag(spot) | away
    }

    /// The spot of an entry in group `number`; `None` if it is far from home.
    #[inline(always)]
    fn spot_of(self, entry: u32, number: usize) -> Option<u32> {
        let (away, tag) = (entry as usize & FAR, (entry & self.tag_mask) >> AWAY_BITS);
        (away < FAR).then(|| ((number - away) as u32).wrapping_shl(u32::from(self.tag_bits)) | tag)
    }
}

/// The number of the segment of a hash.
#[inline(always)]
pub fn segment_of(hash: u64) -> usize {
    (hash >> (u64::BITS - BITS)) as usize
}

impl Segment {
    /// The empty segment of that number.
    pub fn new(number: u16) -> Self {
        let base = (BASE + usize::from(number) % BASE) as u8;
        Self { groups: Vec::new(), used: 0, holes: 0, used_max: 0, number, layout: Layout::new(base, 0) }
    }

    /// An empty segment like this one that has doubled so often, with its memory.
    fn doubled(&self, doublings: u8, scratch: &mut Scratch) -> Self {
        let capacity = usize::from(self.layout.base) << doublings;
        let len = capacity + (capacity / 64).clamp(1, TAIL_MAX);
        scratch.filled.clear();
        scratch.filled.resize(len, 0);
        Self {
            groups: vec![Group::EMPTY; len],
            used_max: self.used_max(doublings),
            layout: Layout::new(self.layout.base, doublings),
            ..Self::new(self.number)
        }
    }

    /// Entries beyond which a capacity doubles: 92 in a hundred.
    fn used_max(&self, doublings: u8) -> u32 {
        // The last capacity takes what comes: 2^15 times 8 groups have as many bits as a spot.
        if doublings == TAG_BITS {
            u32::MAX
        } else {
            (u32::from(self.layout.base) << doublings) * ENTRIES as u32 / 25 * 23
        }
    }

    /// Asks the processor to fetch the group in which `hash` would be.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(group) = self.groups.get(self.layout.home(self.layout.spot(hash))) {
            prefetch(std::ptr::from_ref(group).cast());
        }
    }

    /// A line in which `hash` may be, if its home names one.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        let layout = self.layout;
        let spot = layout.spot(hash);
        let group = self.groups.get(layout.home(spot))?;
        // Nothing may look like the tag 0; then it is line 0, which is as good a line to fetch as any.
        let same = group.equal(layout.tag_mask, layout.tag(spot));
        (same != 0).then(|| layout.line(group.0[same.trailing_zeros() as usize]))
    }

    /// Asks `test` of every line in which `hash` may be, until it takes one.
    #[inline]
    pub fn search(&self, hash: u64, mut test: impl FnMut(u32) -> bool) -> Found {
        let layout = self.layout;
        let spot = layout.spot(hash);
        let (mask, tag) = (layout.tag_mask, layout.tag(spot));
        let mut number = layout.home(spot);
        while let Some(group) = self.groups.get(number) {
            let gaps = group.gaps();
            let mut same = group.equal(mask, tag) & !gaps;
            while same != 0 {
                let at = same.trailing_zeros() as usize;
                if test(layout.line(group.0[at])) {
                    return Found::Match;
                }
                same &= same - 1;
            }
            if gaps != 0 {
                return Found::Gap(number * ENTRIES + gaps.trailing_zeros() as usize);
            }
            number += 1;
        }
        Found::Gap(number * ENTRIES)
    }

    /// True if an entry fits that names a line below `lines_end`; otherwise [`make_room`](Self::make_room) must come before it.
    #[inline]
    pub fn has_room(&self, lines_end: u32) -> bool {
        self.used < self.used_max
            && u64::from(lines_end)
                <= 1_u64.wrapping_shl(u32::from(LINE_BITS_MAX.wrapping_sub(self.layout.tag_bits)))
    }

    /// Puts an entry at the [`Found::Gap`] of its hash, or into a hole before it.
    #[inline]
    pub fn insert(&mut self, mut index: usize, hash: u64, line: u32) {
        let spot = self.layout.spot(hash);
        if self.holes > 0 {
            index = self.hole(spot).unwrap_or(index);
        }
        let number = index / ENTRIES;
        if number == self.groups.len() {
            self.groups.reserve_exact(TAIL_MAX);
            self.groups.push(Group::EMPTY);
        }
        let entry = self.layout.entry(line, spot, number);
        let old = std::mem::replace(&mut self.groups[number].0[index % ENTRIES], entry);
        if old == EMPTY { self.used += 1 } else { self.holes -= 1 }
    }

    /// The first hole that an entry with this spot may fill.
    #[cold]
    fn hole(&self, spot: u32) -> Option<usize> {
        for (number, group) in self.groups.iter().enumerate().skip(self.layout.home(spot)) {
            let (holes, gaps) = (group.equal(u32::MAX, HOLE), group.gaps());
            if holes != 0 {
                return Some(number * ENTRIES + holes.trailing_zeros() as usize);
            }
            if gaps != 0 {
                break;
            }
        }
        None
    }

    /// Takes out the entry of a hash that lies in this line; false if there is none. A full group keeps a hole in its place, for entries
    /// behind it may have passed.
    pub fn remove(&mut self, hash: u64, line: u32) -> bool {
        let (layout, spot) = (self.layout, self.layout.spot(hash));
        for (number, group) in self.groups.iter_mut().enumerate().skip(layout.home(spot)) {
            // Another hash of the line may have the tag, with another home: its entry says so, or is as far as this one.
            let own = group.equal(u32::MAX, layout.entry(line, spot, number));
            let len = group.entries().len();
            match (own != 0, len == ENTRIES) {
                (true, true) => {
                    group.0[own.trailing_zeros() as usize] = HOLE;
                    self.holes += 1;
                    return true;
                }
                (true, false) => {
                    group.0.swap(own.trailing_zeros() as usize, len - 1);
                    group.0[len - 1] = EMPTY;
                    self.used -= 1;
                    return true;
                }
                (false, true) => {}
                (false, false) => return false,
            }
        }
        false
    }

    /// Fills holes if there are many, grows otherwise. `hashes_of` tells all hashes of a line that are in the index.
    #[cold]
    pub fn make_room(
        &mut self,
        lines_end: u32,
        scratch: &mut Scratch,
        hashes_of: impl Fn(u32, &mut dyn FnMut(u64)),
    ) {
        // So many inserts come before it must be done again.
        let more = self.used_max / 8;
        self.rebuild(self.fitting(self.used - self.holes + more, lines_end), scratch, hashes_of);
    }

    /// Takes room for as many entries as will come.
    pub fn reserve(
        &mut self,
        entries: u32,
        lines_end: u32,
        scratch: &mut Scratch,
        hashes_of: impl Fn(u32, &mut dyn FnMut(u64)),
    ) {
        let doublings = self.fitting((self.used - self.holes).saturating_add(entries), lines_end);
        if self.groups.is_empty() || doublings > TAG_BITS - self.layout.tag_bits {
            self.rebuild(doublings, scratch, hashes_of);
        }
    }

    /// Gives memory back if fewer than three in eight entries are in use, and the numbers of lines allow it. True if it did.
    pub fn shrink(
        &mut self,
        lines_end: u32,
        scratch: &mut Scratch,
        hashes_of: impl Fn(u32, &mut dyn FnMut(u64)),
    ) -> bool {
        let (live, now) = (self.used - self.holes, TAG_BITS - self.layout.tag_bits);
        if live == 0 && !self.groups.is_empty() {
            *self = Self::new(self.number);
            return true;
        }
        let enough = self.fitting_from(0, live.saturating_mul(4) / 3, lines_end);
        let is_wide = u64::from(live) * 8 < u64::from(self.used_max) * 3 && enough < now;
        if is_wide {
            self.rebuild(enough, scratch, hashes_of);
        }
        is_wide
    }

    /// How often the capacity must double for so many entries, and for the numbers of their lines; it does not shrink.
    fn fitting(&self, entries: u32, lines_end: u32) -> u8 {
        self.fitting_from(TAG_BITS - self.layout.tag_bits, entries, lines_end)
    }

    fn fitting_from(&self, least: u8, entries: u32, lines_end: u32) -> u8 {
        let fits = |doublings: &u8| {
            let line_bits = LINE_BITS_MAX - (TAG_BITS - doublings);
            entries < self.used_max(*doublings) && u64::from(lines_end) <= 1 << line_bits
        };
        (least..TAG_BITS).find(fits).unwrap_or(TAG_BITS)
    }

    /// All entries in a segment that has doubled so often, and no holes.
    fn rebuild(
        &mut self,
        doublings: u8,
        scratch: &mut Scratch,
        hashes_of: impl Fn(u32, &mut dyn FnMut(u64)),
    ) {
        scratch.far.clear();
        let (old, mut new) = (self.layout, self.doubled(doublings, scratch));
        for (number, group) in self.groups.iter().enumerate() {
            for entry in group.entries().iter().filter(|entry| **entry != HOLE) {
                match old.spot_of(*entry, number) {
                    Some(spot) => new.put(spot, old.line(*entry), &mut scratch.filled),
                    None => scratch.far.push(*entry),
                }
            }
        }
        // Entries of one line and one tag are equal: how many of its hashes have a spot says how many of them are far from that.
        scratch.far.sort_unstable();
        scratch.far.dedup();
        for entry in &scratch.far {
            let line = old.line(*entry);
            scratch.spots.clear();
            hashes_of(line, &mut |hash| {
                let spot = old.spot(hash);
                let is_own = segment_of(hash) == usize::from(self.number);
                if is_own && old.tag(spot) == *entry & old.tag_mask {
                    scratch.spots.push(spot);
                }
            });
            for (n, spot) in scratch.spots.iter().enumerate() {
                let before = scratch.spots[..n].iter().filter(|other| *other == spot).count();
                if before >= self.near_home(line, *spot) {
                    new.put(*spot, line, &mut scratch.filled);
                }
            }
        }
        *self = new;
    }

    /// How many entries of a line and a spot tell their home.
    fn near_home(&self, line: u32, spot: u32) -> usize {
        let home = self.layout.home(spot);
        let near = self.groups.iter().enumerate().skip(home).take(FAR);
        near.map(|(number, group)| {
            let entry = self.layout.entry(line, spot, number);
            group.entries().iter().filter(|other| **other == entry).count()
        })
        .sum()
    }

    /// Puts in an entry; `filled` says how many each group has.
    #[inline(always)]
    fn put(&mut self, spot: u32, line: u32, filled: &mut Vec<u8>) {
        let home = self.layout.home(spot);
        let in_home = &mut filled[home];
        if usize::from(*in_home) == ENTRIES {
            self.put_behind(spot, line, filled);
            return;
        }
        self.groups[home].0[usize::from(*in_home) % ENTRIES] = self.layout.entry(line, spot, home);
        *in_home += 1;
        self.used += 1;
    }

    /// As [`put`](Self::put), where the home is full.
    fn put_behind(&mut self, spot: u32, line: u32, filled: &mut Vec<u8>) {
        let mut behind = filled.iter().enumerate().skip(self.layout.home(spot));
        let free = behind.find(|(_, filled)| usize::from(**filled) < ENTRIES);
        let number = free.map_or(self.groups.len(), |(number, _)| number);
        if number == self.groups.len() {
            self.groups.reserve_exact(TAIL_MAX);
            self.groups.push(Group::EMPTY);
            filled.push(0);
        }
        self.groups[number].0[usize::from(filled[number])] = self.layout.entry(line, spot, number);
        filled[number] += 1;
        self.used += 1;
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests;
