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
//! - most searches probe one cache line, all of it in a few instructions; of a new key 1 in 80 probes hashes too (13 entries against
//!   10 bits of tag, at two million keys);
//! - **growing reads no hash.** When the capacity doubles, the home takes one bit of the tag, and the line's number needs one bit more, for
//!   there are twice as many lines: the spot stays what it was. Only entries that are 7 or more away ask their line for its hashes, and there
//!   are such if hashes crowd;
//! - segments have capacities of 8 to 15 times a power of two, so the table as a whole grows bit by bit and is two thirds full at any size.
//!
//! The hash function has no secret, so chosen keys can crowd one segment. That costs time in one segment, and never a wrong
//! decision: hashes are compared whole, in their pages.

use std::hint::select_unpredictable;

use super::group::{Compare, EMPTY, ENTRIES, Group, prefetch};
use super::pages::LINE_BITS_MAX;

mod grow;

pub use grow::Scratch;

/// The segments are 2 to this power.
pub const BITS: u32 = 9;

/// Bits of a hash that are spread over a segment's capacity.
const SPREAD: u32 = 18;

/// Bits of a spot: a capacity is less than twice a power of two.
pub const SPOT_BITS: u32 = SPREAD + 1;

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

/// Room for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The group; one behind the last if there is none with room.
    number: usize,
    /// The place in it.
    at: u32,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An entry whose line the test took.
    Match,
    /// None; here is room for one.
    Gap(Gap),
}

/// What the home of a hash says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// True if the hash is certainly not in the index, and there is room for it at home.
    pub is_new: bool,
    /// The first place without an entry; any number if there is none.
    at: u32,
    /// A line in which it may be; 0 if none is named. If it is not new either, the groups behind may know more.
    pub line: u32,
}

/// One part of the index: the hashes that share their first bits. Half a cache line, because the nearest cache holds all segments' beside what
/// they are asked for.
#[derive(Debug)]
pub struct Segment {
    /// Homes and a tail; none until the first insert.
    groups: Box<[Group]>,
    /// Entries and holes.
    used: u32,
    holes: u32,
    /// Entries and holes at which the next insert must be preceded by [`make_room`](Self::make_room).
    used_max: u32,
    /// The first bits of the hashes, as a number.
    number: u16,
    layout: Layout,
}

const _: () = assert!(size_of::<Segment>() == 32);

/// Which bits mean what, in a segment of this capacity.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The capacity at its smallest.
    base: u8,
    /// The bits of the tag; one less for each time that the capacity has doubled.
    tag_bits: u8,
}

/// The bits that lines below `lines_end` leave to a tag.
#[inline]
pub fn tag_bits_beside(lines_end: u32) -> u8 {
    LINE_BITS_MAX.saturating_sub(lines_end.next_power_of_two().trailing_zeros() as u8)
}

impl Layout {
    fn new(base: u8, doublings: u8) -> Self {
        Self { base, tag_bits: TAG_BITS - doublings }
    }

    /// The bits of the tag, where they are in an entry.
    #[inline(always)]
    fn tag_mask(self) -> u32 {
        1_u32.wrapping_shl(u32::from(self.tag_bits)).wrapping_sub(1) << AWAY_BITS
    }

    #[inline(always)]
    fn home(self, spot: u32) -> usize {
        spot.wrapping_shr(u32::from(self.tag_bits)) as usize
    }

    /// The tag of a spot, where it is in an entry.
    #[inline(always)]
    fn tag(self, spot: u32) -> u32 {
        spot << AWAY_BITS & self.tag_mask()
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
        let (away, tag) = (entry as usize & FAR, (entry & self.tag_mask()) >> AWAY_BITS);
        (away < FAR).then(|| ((number - away) as u32).wrapping_shl(u32::from(self.tag_bits)) | tag)
    }
}

/// The number of the segment of a hash.
#[inline(always)]
pub fn segment_of(hash: u64) -> usize {
    (hash >> (u64::BITS - BITS)) as usize
}

/// The capacity of that segment at its smallest.
#[inline(always)]
fn base_of(segment: usize) -> usize {
    BASE + segment % BASE
}

/// Home and tag of a hash together: its place in its segment, for good.
#[inline(always)]
pub fn spot_of(hash: u64) -> u32 {
    let spread = (hash >> (u64::BITS - BITS - SPREAD)) as u32 & ((1 << SPREAD) - 1);
    // 18 bits by 4: it cannot overflow, and this is done for every record.
    spread.wrapping_mul(base_of(segment_of(hash)) as u32) / BASE as u32
}

impl Segment {
    /// The empty segment of that number.
    pub fn new(number: u16) -> Self {
        let base = base_of(usize::from(number)) as u8;
        let layout = Layout::new(base, 0);
        Self { groups: Box::default(), used: 0, holes: 0, used_max: 0, number, layout }
    }

    /// Asks the processor to fetch the home of a spot.
    #[inline(always)]
    pub fn prefetch(&self, spot: u32) {
        if let Some(group) = self.groups.get(self.layout.home(spot)) {
            prefetch(std::ptr::from_ref(group).cast());
        }
    }

    /// Asks the processor to fetch the two groups behind the home of a spot: behind a full one, the next is often full too.
    #[inline]
    pub fn prefetch_behind(&self, spot: u32) {
        let behind = self.layout.home(spot) + 1;
        for group in self.groups.get(behind..(behind + 2).min(self.groups.len())).unwrap_or_default() {
            prefetch(std::ptr::from_ref(group).cast());
        }
    }

    /// What the home of a spot says of a hash, if lines leave [so many bits](tag_bits_beside) to a tag.
    ///
    /// A home with room ends the search, and holes are in full groups only: where nothing is like the hash and a place is empty, none that
    /// looks like it is there or behind it. All of this is without a branch that depends on the hash.
    #[inline(always)]
    pub fn look(&self, by: impl Compare, spot: u32, tag_bits_max: u8) -> Look {
        let layout = self.layout;
        let Some(group) = self.groups.get(layout.home(spot)) else {
            return Look { is_new: false, at: 0, line: 0 };
        };
        let (same, gaps) = by.compare(group, layout.tag_mask(), layout.tag(spot));
        let alike = layout.line(group.0[same.trailing_zeros() as usize % ENTRIES]);
        Look {
            is_new: (same == 0) & (gaps != 0) & self.has_room_beside(tag_bits_max),
            at: gaps.trailing_zeros(),
            line: select_unpredictable(same == 0, 0, alike),
        }
    }

    /// Puts an entry where a [`look`](Self::look) found that it is new; otherwise nothing is done. Nothing must have been put in between.
    #[inline(always)]
    pub fn fill(&mut self, look: Look, spot: u32, line: u32) {
        let layout = self.layout;
        let Some(group) = self.groups.get_mut(layout.home(spot)) else { return };
        let entry = &mut group.0[look.at as usize % ENTRIES];
        let new = line.wrapping_shl(u32::from(layout.tag_bits.wrapping_add(AWAY_BITS))) | layout.tag(spot);
        // It is empty if the hash is new.
        *entry |= select_unpredictable(look.is_new, new, EMPTY);
        // There was room, so it is not the greatest number.
        self.used = self.used.wrapping_add(u32::from(look.is_new));
    }

    /// Asks `test` of every line in which a hash with this spot may be, until it takes one.
    #[inline]
    pub fn search(&self, spot: u32, mut test: impl FnMut(u32) -> bool) -> Found {
        let layout = self.layout;
        let (mask, tag) = (layout.tag_mask(), layout.tag(spot));
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
                return Found::Gap(Gap { number, at: gaps.trailing_zeros() });
            }
            number += 1;
        }
        Found::Gap(Gap { number, at: 0 })
    }

    /// True if an entry fits that names a line below `lines_end`; otherwise [`make_room`](Self::make_room) must come before it.
    #[inline(always)]
    pub fn has_room(&self, lines_end: u32) -> bool {
        self.has_room_beside(tag_bits_beside(lines_end))
    }

    #[inline(always)]
    fn has_room_beside(&self, tag_bits_max: u8) -> bool {
        (self.used < self.used_max) & (self.layout.tag_bits <= tag_bits_max)
    }

    /// Puts an entry at the [`Found::Gap`] of its spot, or into a hole before it.
    pub fn insert(&mut self, gap: Gap, spot: u32, line: u32) {
        let Gap { number, at } = self.hole(spot).unwrap_or(gap);
        if number == self.groups.len() {
            self.lengthen();
        }
        let entry = self.layout.entry(line, spot, number);
        let old = std::mem::replace(&mut self.groups[number].0[at as usize], entry);
        if old == EMPTY { self.used += 1 } else { self.holes -= 1 }
    }

    /// Adds groups to the tail.
    #[cold]
    fn lengthen(&mut self) {
        let mut groups = std::mem::take(&mut self.groups).into_vec();
        groups.reserve_exact(TAIL_MAX);
        groups.resize(groups.len() + TAIL_MAX, Group::EMPTY);
        self.groups = groups.into_boxed_slice();
    }

    /// The first hole that an entry with this spot may fill.
    fn hole(&self, spot: u32) -> Option<Gap> {
        if self.holes == 0 {
            return None;
        }
        for (number, group) in self.groups.iter().enumerate().skip(self.layout.home(spot)) {
            let (holes, gaps) = (group.equal(u32::MAX, HOLE), group.gaps());
            if holes != 0 {
                return Some(Gap { number, at: holes.trailing_zeros() });
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
        let (layout, spot) = (self.layout, spot_of(hash));
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

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }
}

#[cfg(test)]
mod tests;
