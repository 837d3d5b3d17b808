//! How a segment grows, shrinks and gets rid of holes: all entries go into new memory.
//!
//! Owns when that is due and how much room there is afterwards. Does not own what an entry means, nor the search (`index`).

use super::super::group::{ENTRIES, Group};
use super::super::pages::LINE_BITS_MAX;
use super::{AWAY_BITS, FAR, HOLE, Layout, Segment, TAG_BITS, TAIL_MAX, segment_of, spot_of};

/// Room for the work of growing, for all segments in turn.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Entries that are far from home.
    far: Vec<u32>,
    /// Spots of the hashes of one line.
    pub(super) spots: Vec<u32>,
}

impl Scratch {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        (self.far.capacity() + self.spots.capacity()) * size_of::<u32>()
    }
}

impl Segment {
    /// An empty segment like this one that has doubled so often, with so many groups.
    fn emptied(&self, doublings: u8, len: usize) -> Self {
        let layout = Layout::new(self.layout.base, doublings);
        Self {
            groups: vec![Group::EMPTY; len].into_boxed_slice(),
            used_max: self.used_max(doublings),
            layout,
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

    /// Fills holes if there are many, grows otherwise. `hashes_of` gives all hashes of a line that are in the index.
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
        let (old, capacity) = (self.layout, usize::from(self.layout.base) << doublings);
        let len = capacity + (capacity / 64).clamp(1, TAIL_MAX);
        let mut new = self.emptied(doublings, len);
        let is_twice = new.layout.tag_bits + 1 == old.tag_bits;
        if is_twice {
            // What is at home comes first, so that each finds room there. Its home takes the first bit of the tag, and all else stays.
            let at = u32::from(new.layout.tag_bits + AWAY_BITS);
            for (group, halves) in self.groups.iter().zip(new.groups[..capacity].as_chunks_mut().0) {
                new.used += group.halve(FAR as u32, at, new.layout.tag_mask(), halves);
            }
        }
        for (number, group) in self.groups.iter().enumerate() {
            let mut left = !group.gaps() & u32::from(u16::MAX);
            if is_twice {
                left &= !group.equal(FAR as u32, 0);
            }
            while left != 0 {
                let entry = group.0[left.trailing_zeros() as usize % ENTRIES];
                left &= left - 1;
                if entry == HOLE {
                    continue;
                }
                match old.spot_of(entry, number) {
                    Some(spot) => new.put(spot, old.line(entry)),
                    None => scratch.far.push(entry),
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
                let spot = spot_of(hash);
                let is_own = segment_of(hash) == usize::from(self.number);
                if is_own && old.tag(spot) == *entry & old.tag_mask() {
                    scratch.spots.push(spot);
                }
            });
            for (n, spot) in scratch.spots.iter().enumerate() {
                let before = scratch.spots[..n].iter().filter(|other| *other == spot).count();
                if before >= self.near_home(line, *spot) {
                    new.put(*spot, line);
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
            group.equal(u32::MAX, self.layout.entry(line, spot, number)).count_ones() as usize
        })
        .sum()
    }

    /// Puts in an entry.
    fn put(&mut self, spot: u32, line: u32) {
        let home = self.layout.home(spot);
        let behind = self.groups.iter().enumerate().skip(home).map(|(number, group)| (number, group.gaps()));
        let (number, gaps) =
            behind.into_iter().find(|(_, gaps)| *gaps != 0).unwrap_or((self.groups.len(), 1));
        if number == self.groups.len() {
            self.lengthen();
        }
        self.groups[number].0[gaps.trailing_zeros() as usize] = self.layout.entry(line, spot, number);
        self.used += 1;
    }
}
