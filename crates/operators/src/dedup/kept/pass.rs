//! Many records against the set, one after the other.
//!
//! Owns the loop that every record goes through: where it stands in the index, what is fetched from memory ahead of its turn, and the page
//! that takes the new hashes meanwhile. Does not own what the set is (`kept`), nor the policy for late records (`decide`).
//!
//! Most records are new, and have room at home, in a segment that need not grow, and on the page at hand. For these there is a loop that
//! does nothing else; whatever it does not foresee goes one by one through [`step`](Kept::step), which knows all cases.
//!
//! ```text
//!   records        ......................................................>
//!   homes fetched  <-------------------------------------->|
//!   looked at      <----------------------->|                 what a look names is fetched: a line of hashes, or the group behind
//!   decided        <--------->|
//! ```
//!
//! A look saves the decision from comparing the group once more: see [`Segment::insert_at_home`](super::super::index::Segment::insert_at_home).

use std::ops::Range;

use super::super::index::{BITS, Found, Gap, Look, segment_of, spot_of};
use super::super::pages::{PAGE, Pages, Spot};
use super::super::places::{Place, Places};
use super::super::window::near;
use super::{Kept, SEGMENTS, block, hashes_of, is_at_an_edge, mix, other_block};

/// Records that are decided together.
const STRIDE: usize = 16;

/// Records behind them that are looked at before: what that fetches has come by then.
const LOOK_AHEAD: usize = 16;

/// Records behind the one that is looked at whose homes are fetched: enough to hide the trips to memory, few enough to stay in the nearest
/// cache. One is fetched with each look, for the processor waits if many are at once.
const FETCH_AHEAD: usize = 24;

/// Stands for no room at home.
const NO_ROOM: u8 = u8::MAX;

/// Where a record stands in the index.
#[derive(Clone, Copy, Debug)]
struct Where {
    /// Its segment.
    segment: u16,
    /// Where there was room at home, when it was looked at.
    room: u8,
    /// Its spot there.
    spot: u32,
    /// The line in which it may be, by that look; 0 if none was named.
    line: u32,
}

impl Where {
    #[inline(always)]
    fn of(mixed: u64) -> Self {
        Self { segment: segment_of(mixed) as u16, room: NO_ROOM, spot: spot_of(mixed), line: 0 }
    }

    #[inline(always)]
    fn segment(self) -> usize {
        usize::from(self.segment) % SEGMENTS
    }
}

const _: () = assert!(BITS <= u16::BITS, "a segment's number has 16 bits");

/// Records that go through the set together, by number: so few that all of this stays in the nearest cache.
#[derive(Debug, Default)]
pub struct Chunk {
    buckets: Vec<i64>,
    wheres: Vec<Where>,
    /// True if records of a neighbouring block are near some of them.
    is_wide: bool,
    /// Records that were looked at.
    looked: usize,
}

impl Chunk {
    /// Takes in the records with these hashes, and as many buckets.
    pub fn fill(&mut self, hashes: &[u128], buckets: impl Iterator<Item = i64>) {
        self.buckets.clear();
        self.buckets.extend(buckets);
        self.wheres.clear();
        let first = self.buckets.first().copied().unwrap_or_default();
        // No way out in the middle, so that several are compared at once.
        if self.buckets.iter().fold(0, |differ, bucket| differ | (bucket ^ first)) == 0 {
            self.is_wide = is_at_an_edge(first);
            let salt = mix(0, block(first));
            self.wheres.extend(hashes.iter().map(|hash| Where::of(mix(*hash, 0) ^ salt)));
        } else {
            self.is_wide = self.buckets.iter().any(|bucket| is_at_an_edge(*bucket));
            let mixed = hashes.iter().zip(&self.buckets).map(|(hash, bucket)| mix(*hash, block(*bucket)));
            self.wheres.extend(mixed.map(Where::of));
        }
        self.looked = 0;
    }

    /// The buckets of the records.
    pub fn buckets(&self) -> &[i64] {
        &self.buckets
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<i64>() + self.wheres.capacity() * size_of::<Where>()
    }
}

/// The page that takes new hashes.
struct Tail {
    bucket: i64,
    place: Place,
    /// Where the next one goes; nowhere if the page is full.
    next: Spot,
    /// Hashes that the place was not told of.
    untold: usize,
}

impl Tail {
    /// Page 0 takes none.
    const NONE: Self = Self { bucket: 0, place: 0, next: Spot { page: 0, at: PAGE }, untold: 0 };

    /// Tells the place what was written.
    fn settle(&mut self, places: &mut Places) {
        if self.untold > 0 {
            places.grew(self.place, std::mem::take(&mut self.untold));
        }
    }

    /// Where the next hash of a bucket goes. It must be written.
    fn room(&mut self, bucket: i64, places: &mut Places, pages: &mut Pages) -> Spot {
        if self.next.at == PAGE || self.bucket != bucket {
            self.settle(places);
            let place = places.of(bucket);
            *self = Self { bucket, place, next: places.room(place, || pages.take(place)), untold: 0 };
        }
        let spot = self.next;
        self.next.at += 1;
        self.untold += 1;
        spot
    }
}

impl Kept {
    /// Adds each of these records, in order, unless a kept record of its key is near, which `known` is told. Records that were left out must
    /// not be offered later.
    #[inline]
    pub fn offer_all(
        &mut self,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        known: impl FnMut(usize),
    ) {
        if chunk.is_wide {
            self.pass::<true>(hashes, chunk, rows, near, known);
        } else {
            self.pass::<false>(hashes, chunk, rows, near, known);
        }
    }

    /// Adds the records of one bucket, whatever is near, unless just that pair is there.
    pub fn add_all(&mut self, mut hashes: impl Iterator<Item = u128>, bucket: i64) {
        const LEN: usize = 1024;
        let (mut chunk, mut own) = (Chunk::default(), Vec::with_capacity(LEN));
        loop {
            own.clear();
            own.extend(hashes.by_ref().take(LEN));
            if own.is_empty() {
                break;
            }
            chunk.fill(&own, own.iter().map(|_| bucket));
            self.pass::<false>(&own, &mut chunk, 0..own.len(), |kept, own| kept == own, |_| {});
        }
    }

    #[inline(always)]
    fn pass<const IS_WIDE: bool>(
        &mut self,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        is_same: impl Fn(i64, i64) -> bool,
        mut known: impl FnMut(usize),
    ) {
        let (mut row, mut tail) = (rows.start, Tail::NONE);
        while row < rows.end {
            let end = rows.end.min((row / STRIDE + 1) * STRIDE);
            self.prepare(chunk, end);
            while row < end {
                if !IS_WIDE {
                    row = self.add_new(hashes, chunk, row..end, &mut tail);
                    if row == end {
                        break;
                    }
                }
                let bucket = chunk.buckets[row];
                let is_known = (IS_WIDE
                    && other_block(bucket).is_some_and(|other| self.has_near_in(other, hashes[row], bucket)))
                    || !self.step(hashes[row], chunk, row, &mut tail, &is_same);
                if is_known {
                    known(row);
                }
                row += 1;
            }
        }
        tail.settle(&mut self.places);
    }

    /// Fetches and looks at what comes behind record number `end`.
    #[inline(always)]
    fn prepare(&self, chunk: &mut Chunk, end: usize) {
        let until = (end + LOOK_AHEAD).min(chunk.wheres.len());
        if chunk.looked == 0 {
            chunk.wheres.iter().take(FETCH_AHEAD).for_each(|next| self.fetch(*next));
        }
        while chunk.looked < until {
            if let Some(next) = chunk.wheres.get(chunk.looked + FETCH_AHEAD) {
                self.fetch(*next);
            }
            self.look(&mut chunk.wheres[chunk.looked]);
            chunk.looked += 1;
        }
    }

    #[inline(always)]
    fn fetch(&self, next: Where) {
        self.segments[next.segment()].prefetch(next.spot);
    }

    /// Sees where there is room for a record, or fetches what else must be known of it.
    #[inline(always)]
    fn look(&self, next: &mut Where) {
        let segment = &self.segments[next.segment()];
        (next.room, next.line) = (NO_ROOM, 0);
        match segment.look(next.spot) {
            Look::Room(at) => next.room = at,
            Look::Alike(line) => {
                next.line = line;
                self.pages.prefetch(line);
            }
            Look::Full => segment.prefetch_behind(next.spot),
        }
    }

    /// A segment was rebuilt: what was seen of the records from `row` on need not hold any more.
    #[cold]
    fn look_again(&self, chunk: &mut Chunk, row: usize) {
        let looked = chunk.wheres.get_mut(row..chunk.looked).unwrap_or_default();
        looked.iter_mut().for_each(|next| self.look(next));
    }

    /// Adds records as long as they are new, and nothing is in the way. The first that was not added.
    #[inline(always)]
    fn add_new(&mut self, hashes: &[u128], chunk: &Chunk, rows: Range<usize>, tail: &mut Tail) -> usize {
        let Spot { page, at: from } = tail.next;
        let len = rows.len().min(PAGE - from);
        let lines_end = self.pages.lines_end();
        let (to, written) = self.pages.tail(page);
        let to = to[from..from + len].iter_mut().zip(from..);
        let records = hashes[rows.start..][..len].iter().zip(&chunk.buckets[rows.start..][..len]);
        let mut added = 0;
        for (((to, at), (hash, bucket)), own) in to.zip(records).zip(&chunk.wheres[rows.start..][..len]) {
            let line = Spot { page, at }.line();
            if own.room == NO_ROOM
                || *bucket != tail.bucket
                || !self.segments[own.segment()].insert_at_home(own.room, own.spot, line, lines_end)
            {
                break;
            }
            *to = hash.to_le_bytes();
            added += 1;
        }
        if added > 0 {
            // Page 0, which stands for none, stays empty.
            *written = (from + added) as u32;
            tail.next.at = from + added;
            tail.untold += added;
        }
        rows.start + added
    }

    /// Adds a record unless there is a kept one of the key in a bucket that is the same. True if it was added.
    #[inline(never)]
    fn step(
        &mut self,
        hash: u128,
        chunk: &mut Chunk,
        row: usize,
        tail: &mut Tail,
        is_same: &impl Fn(i64, i64) -> bool,
    ) -> bool {
        let (own, bucket) = (chunk.wheres[row], chunk.buckets[row]);
        let (segment, spot) = (own.segment(), own.spot);
        let test = |line| self.spot(line, hash, |kept| is_same(kept, bucket)).is_some();
        // What is on a page is kept, whoever named the line.
        if own.line != 0 && test(own.line) {
            return false;
        }
        let Found::Gap(mut gap) = self.segments[segment].search(spot, test) else { return false };
        // Before the hash is in a page: what is in pages is in the index.
        if !self.segments[segment].has_room(self.pages.lines_end()) {
            gap = self.make_room(segment, spot);
            self.look_again(chunk, row + 1);
        }
        let to = tail.room(bucket, &mut self.places, &mut self.pages);
        let line = self.pages.write(to, hash);
        self.segments[segment].insert(gap, spot, line);
        true
    }

    /// Makes room for an entry, and says where.
    #[cold]
    fn make_room(&mut self, segment: usize, spot: u32) -> Gap {
        let lines_end = self.pages.lines_end();
        let segment = &mut self.segments[segment];
        segment.make_room(lines_end, &mut self.scratch, hashes_of(&self.pages, &self.places));
        match segment.search(spot, |_| false) {
            Found::Gap(gap) => gap,
            Found::Match => unreachable!("no line was taken"),
        }
    }
}
