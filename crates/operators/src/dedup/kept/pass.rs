//! Many records against the set, one after the other.
//!
//! Owns the loop that every record goes through: where it stands in the index, what is fetched from memory ahead of its turn, and the page
//! that takes the new hashes meanwhile. Does not own what the set is (`kept`), nor the policy for late records (`decide`).
//!
//! Most records are new, and have room at home, in a segment that need not grow. These are added when their home is probed. All others
//! are *odd*: what a look names is fetched, and some records later they go one by one through [`step`](Kept::step), which knows all cases.
//! Which is which has no pattern, so the loop that looks has no branch for it: it writes as if the record were new, and counts it or not.
//!
//! ```text
//!   records        ......................................................>
//!   homes fetched  <-------------------------------------->|
//!   probed         <----------------------->|                 new ones are added, and what odd ones need is fetched
//!   odd ones       <--------->|                               decided
//! ```
//!
//! **The order stays.** A record must not be added before an odd one of its key that came earlier. Records of one key that may be near each
//! other have one spot, and while one of them waits, no other is found new there: an alike entry stays, and so do a full home and a segment
//! without room, until the segment is rebuilt. That is done by `step` alone, and then all that wait are decided before the next look.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::super::group::Wide;
use super::super::group::{Compare, Plain};
use super::super::index::{BITS, Found, Gap, SPOT_BITS, segment_of, spot_of, tag_bits_beside};
use super::super::pages::{PAGE, Pages, Spot};
use super::super::places::{Place, Places};
use super::super::window::{UNPLACED, near};
use super::{Kept, SEGMENTS, block, hashes_of, is_at_an_edge, mix, other_block};

/// Records that are probed together. Odd ones wait until as many were probed behind them: what they need has come by then.
const STRIDE: usize = 16;

/// Records behind the one that is probed whose homes are fetched: enough to hide the trips to memory, few enough to stay in the nearest
/// cache. One is fetched with each lookup, because the processor waits if many are fetched at once.
const FETCH_AHEAD: usize = 24;

/// Where a record stands in the index: its segment, and its spot there.
#[derive(Clone, Copy, Debug)]
struct Where(u32);

impl Where {
    #[inline(always)]
    fn of(mixed: u64) -> Self {
        Self((segment_of(mixed) as u32) << SPOT_BITS | spot_of(mixed))
    }

    #[inline(always)]
    fn segment(self) -> usize {
        (self.0 >> SPOT_BITS) as usize % SEGMENTS
    }

    #[inline(always)]
    fn spot(self) -> u32 {
        self.0 % (1 << SPOT_BITS)
    }
}

const _: () = assert!(BITS + SPOT_BITS <= u32::BITS, "both have room in 32 bits");

/// A record that was not added when it was probed.
#[derive(Clone, Copy, Debug, Default)]
struct Odd {
    row: u32,
    /// The line in which it may be, by that look; 0 if none was named.
    line: u32,
}

/// Those that wait, in order: of the stride at hand, and of the one before.
#[derive(Debug, Default)]
struct Odds {
    list: [Odd; 2 * STRIDE],
    len: usize,
}

impl Odds {
    /// Adds a record if it is one.
    #[inline(always)]
    fn push_if(&mut self, is_odd: bool, row: usize, line: u32) {
        self.list[self.len % (2 * STRIDE)] = Odd { row: row as u32, line };
        self.len += usize::from(is_odd);
    }

    /// Takes the first ones out.
    fn take(&mut self, count: usize) {
        self.list.copy_within(count..self.len, 0);
        self.len -= count;
    }
}

/// What [`Kept::step`] did with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Known,
    Added,
    /// Its segment was rebuilt for it.
    AddedToRebuilt,
}

/// Records that go through the set together, by number: so few that all of this stays in the nearest cache.
#[derive(Debug, Default)]
pub struct Chunk {
    buckets: Vec<i64>,
    wheres: Vec<Where>,
    /// The least and the greatest bucket, but those of records without a place.
    ends: (i64, i64),
    /// True if records of a neighbouring block are near some of them.
    is_wide: bool,
    /// True once the first homes were fetched.
    is_begun: bool,
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
            self.ends = if first == UNPLACED { (i64::MAX, i64::MIN) } else { (first, first) };
            self.is_wide = is_at_an_edge(first);
            let salt = mix(0, block(first));
            self.wheres.extend(hashes.iter().map(|hash| Where::of(mix(*hash, 0) ^ salt)));
        } else {
            let placed = self.buckets.iter().filter(|bucket| **bucket != UNPLACED);
            self.ends = placed.fold((i64::MAX, i64::MIN), |(least, most), b| (least.min(*b), most.max(*b)));
            self.is_wide = self.buckets.iter().any(|bucket| is_at_an_edge(*bucket));
            let mixed = hashes.iter().zip(&self.buckets).map(|(hash, bucket)| mix(*hash, block(*bucket)));
            self.wheres.extend(mixed.map(Where::of));
        }
        self.is_begun = false;
    }

    /// The buckets of the records.
    pub fn buckets(&self) -> &[i64] {
        &self.buckets
    }

    /// The least and the greatest bucket of records that have one. The first is above the second if there is none.
    pub fn ends(&self) -> (i64, i64) {
        self.ends
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
    /// Hashes that the place was not notified of.
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
    /// Adds each of these records, in order, unless a kept record of its key is near, which is reported to `known`. Records that were left out must
    /// not be offered later.
    #[inline]
    pub fn offer_all(
        &mut self,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        known: impl FnMut(usize),
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::new() {
            // SAFETY: the processor has what the function needs, by the line before.
            unsafe { self.offer_all_at_once(wide, hashes, chunk, rows, known) };
            return;
        }
        self.offer_by(Plain, hashes, chunk, rows, known);
    }

    /// [`offer_all`](Self::offer_all), with the instructions of newer processors.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,bmi1,bmi2")]
    fn offer_all_at_once(
        &mut self,
        wide: Wide,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        known: impl FnMut(usize),
    ) {
        self.offer_by(wide, hashes, chunk, rows, known);
    }

    /// [`offer_all`](Self::offer_all), with groups compared in this way.
    #[inline(always)]
    pub(super) fn offer_by(
        &mut self,
        by: impl Compare,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        known: impl FnMut(usize),
    ) {
        if chunk.is_wide {
            self.pass::<true>(by, hashes, chunk, rows, near, known);
        } else {
            self.pass::<false>(by, hashes, chunk, rows, near, known);
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
            self.pass::<false>(Plain, &own, &mut chunk, 0..own.len(), |kept, own| kept == own, |_| {});
        }
    }

    #[inline(always)]
    fn pass<const IS_WIDE: bool>(
        &mut self,
        by: impl Compare,
        hashes: &[u128],
        chunk: &mut Chunk,
        rows: Range<usize>,
        is_same: impl Fn(i64, i64) -> bool,
        mut known: impl FnMut(usize),
    ) {
        let (mut row, mut tail, mut odds) = (rows.start, Tail::NONE, Odds::default());
        if !std::mem::replace(&mut chunk.is_begun, true) {
            chunk.wheres.iter().take(FETCH_AHEAD).for_each(|next| self.fetch(*next));
        }
        while row < rows.end {
            let (end, waiting) = (rows.end.min(row + STRIDE), odds.len);
            while row < end {
                if !IS_WIDE {
                    row = self.add_new(by, hashes, chunk, row..end, &mut tail, &mut odds);
                    if row == end {
                        break;
                    }
                }
                self.add_elsewhere::<IS_WIDE>(by, hashes[row], chunk, row, &mut tail, &mut odds);
                row += 1;
            }
            self.fetch_for(chunk, &odds.list[waiting..odds.len]);
            self.decide::<IS_WIDE>(hashes, chunk, waiting, &mut odds, &mut tail, &is_same, &mut known);
        }
        self.decide::<IS_WIDE>(hashes, chunk, odds.len, &mut odds, &mut tail, &is_same, &mut known);
        tail.settle(&mut self.places);
    }

    #[inline(always)]
    fn fetch(&self, next: Where) {
        self.segments[next.segment()].prefetch(next.spot());
    }

    /// Fetches what must be known of odd records: the line that was named, or the groups behind their home.
    #[inline(always)]
    fn fetch_for(&self, chunk: &Chunk, odds: &[Odd]) {
        for odd in odds {
            let own = chunk.wheres[odd.row as usize];
            match odd.line {
                0 => self.segments[own.segment()].prefetch_behind(own.spot()),
                line => self.pages.prefetch(line),
            }
        }
    }

    /// Probes records, adds those that are new and lists the others, until a new one belongs on another page, which is the answer.
    #[inline(always)]
    fn add_new(
        &mut self,
        by: impl Compare,
        hashes: &[u128],
        chunk: &Chunk,
        rows: Range<usize>,
        tail: &mut Tail,
        odds: &mut Odds,
    ) -> usize {
        let Spot { page, at: first } = tail.next;
        let tag_bits_max = tag_bits_beside(self.pages.lines_end());
        let (to, written) = self.pages.tail(page);
        let mut ahead = chunk.wheres.get(rows.start + FETCH_AHEAD..).unwrap_or_default().iter();
        let records = hashes[rows.clone()].iter().zip(&chunk.buckets[rows.clone()]);
        let (mut row, mut at) = (rows.start, first);
        for ((hash, bucket), own) in records.zip(&chunk.wheres[rows]) {
            if let Some(next) = ahead.next() {
                self.segments[next.segment()].prefetch(next.spot());
            }
            let segment = &mut self.segments[own.segment()];
            let look = segment.look(by, own.spot(), tag_bits_max);
            if look.is_new & ((at == PAGE) | (*bucket != tail.bucket)) {
                break;
            }
            segment.fill(look, own.spot(), Spot { page, at }.line());
            // Of an odd record, the next new one takes the place.
            if let Some(to) = to.get_mut(at) {
                *to = hash.to_le_bytes();
            }
            at += usize::from(look.is_new);
            odds.push_if(!look.is_new, row, look.line);
            row += 1;
        }
        if at > first {
            // Page 0, which stands for none, stays empty.
            *written = at as u32;
            tail.next.at = at;
            tail.untold += at - first;
        }
        row
    }

    /// As [`add_new`](Self::add_new), for one record that belongs on another page. But where records of another block may be near, all are odd.
    #[inline(always)]
    fn add_elsewhere<const IS_WIDE: bool>(
        &mut self,
        by: impl Compare,
        hash: u128,
        chunk: &Chunk,
        row: usize,
        tail: &mut Tail,
        odds: &mut Odds,
    ) {
        if let Some(next) = chunk.wheres.get(row + FETCH_AHEAD) {
            self.fetch(*next);
        }
        let own = chunk.wheres[row];
        let segment = &mut self.segments[own.segment()];
        let look = segment.look(by, own.spot(), tag_bits_beside(self.pages.lines_end()));
        if look.is_new && !IS_WIDE {
            let to = tail.room(chunk.buckets[row], &mut self.places, &mut self.pages);
            segment.fill(look, own.spot(), self.pages.write(to, hash));
        } else {
            odds.push_if(true, row, look.line);
        }
    }

    /// Decides the first odd records, in order; all, if a segment is rebuilt.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one pass, which the loop keeps in registers")]
    fn decide<const IS_WIDE: bool>(
        &mut self,
        hashes: &[u128],
        chunk: &Chunk,
        mut count: usize,
        odds: &mut Odds,
        tail: &mut Tail,
        is_same: &impl Fn(i64, i64) -> bool,
        known: &mut impl FnMut(usize),
    ) {
        let mut next = 0;
        while next < count {
            let odd = odds.list[next];
            let row = odd.row as usize;
            let (hash, bucket) = (hashes[row], chunk.buckets[row]);
            let is_known =
                IS_WIDE && other_block(bucket).is_some_and(|other| self.has_near_in(other, hash, bucket));
            let step = if is_known { Step::Known } else { self.step(hash, chunk, odd, tail, is_same) };
            match step {
                Step::Known => known(row),
                Step::Added => {}
                Step::AddedToRebuilt => count = odds.len,
            }
            next += 1;
        }
        odds.take(count);
    }

    /// Adds a record unless there is a kept one of the key in a bucket that is the same.
    #[inline(never)]
    fn step(
        &mut self,
        hash: u128,
        chunk: &Chunk,
        odd: Odd,
        tail: &mut Tail,
        is_same: &impl Fn(i64, i64) -> bool,
    ) -> Step {
        let (own, bucket) = (chunk.wheres[odd.row as usize], chunk.buckets[odd.row as usize]);
        let (segment, spot) = (own.segment(), own.spot());
        let test = |line| self.spot(line, hash, |kept| is_same(kept, bucket)).is_some();
        // What is on a page is kept, wherever the line's number came from.
        if odd.line != 0 && test(odd.line) {
            return Step::Known;
        }
        let Found::Gap(mut gap) = self.segments[segment].search(spot, test) else { return Step::Known };
        let mut step = Step::Added;
        // Before the hash is in a page: what is in pages is in the index.
        if !self.segments[segment].has_room(self.pages.lines_end()) {
            gap = self.make_room(segment, spot);
            step = Step::AddedToRebuilt;
        }
        let to = tail.room(bucket, &mut self.places, &mut self.pages);
        let line = self.pages.write(to, hash);
        self.segments[segment].insert(gap, spot, line);
        step
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
