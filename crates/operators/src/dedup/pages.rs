//! The hashes of keys in memory, as they came.
//!
//! Owns the memory in which they lie: *pages* of 64 hashes, each the property of one place. Does not own which pages a place has
//! (`places`) nor how a hash is found (`index`).
//!
//! ```text
//!   slab     256 pages, allocated together; the first with room gives the next page, and one without pages in use is given back
//!   page     [ line: 8 hashes | line | line | line | line | line | line | line ]   64 hashes, 1 KB
//!   head     place, hashes written, which of them are removed                         16 bytes beside it
//! ```
//!
//! A hash stays where it was written until its page is given back, so the index names it by its *line*, and what was kept since the last
//! seal is the end of each place's pages: neither a list for the next delta nor a search for it is needed. A hash that is taken out
//! leaves a hole, for that is rare: its record became a dead letter.

use std::collections::BTreeSet;

use super::group::{LINE, Line, prefetch, same_hashes};
use super::places::Place;

/// Hashes of a page. A bucket costs a page at least.
pub const PAGE: usize = 64;

/// Lines of a page.
const LINES: usize = PAGE / LINE;

/// Pages that are allocated together: 256 KB.
const SLAB: usize = 256;

/// Bits of a line's number: 2^29 lines are 64 GB.
pub const LINE_BITS_MAX: u8 = 29;

/// A page's number. 0 is never given out.
pub type PageNumber = u32;

type Page = [[u8; 16]; PAGE];

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    place: Place,
    /// Hashes written.
    len: u32,
    /// Bit `n`: hash `n` was taken out.
    removed: u64,
}

/// Where a hash lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its page.
    pub page: PageNumber,
    /// Its number in the page.
    pub at: usize,
}

impl Spot {
    /// Its line.
    #[inline(always)]
    pub fn line(self) -> u32 {
        // Pages have numbers of 26 bits.
        self.page.wrapping_mul(LINES as u32).wrapping_add((self.at / LINE) as u32)
    }
}

/// Pages that are allocated together.
#[derive(Debug)]
struct Slab {
    /// Those that were ever in use, the first ones; none while none is. A page is cleared when it is first taken: written on at once, it is
    /// in the nearest cache then.
    pages: Vec<Page>,
    heads: Box<[Head]>,
    /// Numbers of pages that are not in use.
    free: Vec<u8>,
}

impl Slab {
    fn new() -> Self {
        Self {
            pages: Vec::with_capacity(SLAB),
            heads: vec![Head::default(); SLAB].into_boxed_slice(),
            free: (0..=u8::MAX).rev().collect(),
        }
    }

    fn released() -> Self {
        Self { pages: Vec::new(), heads: Box::default(), free: Vec::new() }
    }
}

/// All pages.
#[derive(Debug)]
pub struct Pages {
    /// Those that were given back keep their numbers, but for the last ones.
    slabs: Vec<Slab>,
    /// Slabs with pages that are not in use, and those that were given back.
    roomy: BTreeSet<usize>,
    lines_end: u32,
}

impl Pages {
    /// None but page 0, so that no line has the number 0.
    pub fn new() -> Self {
        let mut pages = Self { slabs: Vec::new(), roomy: BTreeSet::new(), lines_end: 0 };
        pages.take(0);
        pages
    }

    /// An empty page for a place: the first that is free, so that the last ones come to be given back.
    pub fn take(&mut self, place: Place) -> PageNumber {
        let number = self.roomy.first().copied().unwrap_or_else(|| {
            assert!(
                self.slabs.len() < (1 << LINE_BITS_MAX) / (SLAB * LINES),
                "2^29 lines are 64 GB of hashes"
            );
            self.roomy.insert(self.slabs.len());
            self.slabs.push(Slab::released());
            self.slabs.len() - 1
        });
        let slab = &mut self.slabs[number];
        if slab.pages.is_empty() {
            *slab = Slab::new();
        }
        let page = usize::from(slab.free.pop().expect("a roomy slab has a page that is free"));
        if page == slab.pages.len() {
            slab.pages.push([[0; 16]; PAGE]);
        }
        slab.heads[page] = Head { place, len: 0, removed: 0 };
        if slab.free.is_empty() {
            self.roomy.remove(&number);
        }
        self.count_lines();
        (number * SLAB + page) as PageNumber
    }

    /// The page is free again.
    pub fn give_back(&mut self, page: PageNumber) {
        let number = page as usize / SLAB;
        let slab = &mut self.slabs[number];
        slab.heads[page as usize % SLAB] = Head::default();
        slab.free.push((page as usize % SLAB) as u8);
        if slab.free.len() == SLAB {
            *slab = Slab::released();
        }
        self.roomy.insert(number);
        while self.slabs.last().is_some_and(|slab| slab.pages.is_empty()) {
            self.slabs.pop();
            self.roomy.remove(&self.slabs.len());
        }
        self.count_lines();
    }

    fn count_lines(&mut self) {
        let slabs = self.slabs.len() + usize::from(self.roomy.is_empty());
        self.lines_end = (slabs * SLAB * LINES) as u32;
    }

    #[inline]
    fn page(&self, page: PageNumber) -> &Page {
        &self.slabs[page as usize / SLAB].pages[page as usize % SLAB]
    }

    #[inline]
    fn head(&self, page: PageNumber) -> &Head {
        &self.slabs[page as usize / SLAB].heads[page as usize % SLAB]
    }

    /// Writes hash number `at` of a page that has so many and is not full; gives its line.
    #[inline(always)]
    pub fn write(&mut self, Spot { page, at }: Spot, hash: u128) -> u32 {
        let slab = &mut self.slabs[page as usize / SLAB];
        slab.heads[page as usize % SLAB].len = at as u32 + 1;
        slab.pages[page as usize % SLAB][at % PAGE] = hash.to_le_bytes();
        Spot { page, at }.line()
    }

    /// All of a page to be written on, and how many hashes it has, which must be set by it.
    pub fn tail(&mut self, page: PageNumber) -> (&mut [[u8; 16]; PAGE], &mut u32) {
        let slab = &mut self.slabs[page as usize / SLAB];
        let (page, head) = (&mut slab.pages[page as usize % SLAB], &mut slab.heads[page as usize % SLAB]);
        (page, &mut head.len)
    }

    /// No line has this number or a greater one, even of the next page that is taken.
    #[inline]
    pub fn lines_end(&self) -> u32 {
        self.lines_end
    }

    #[inline]
    fn line(&self, line: u32) -> &Line {
        let page = self.page(line / LINES as u32);
        &page.as_chunks::<LINE>().0[line as usize % LINES]
    }

    /// Asks the processor to fetch a line, and what is beside its page.
    #[inline]
    pub fn prefetch(&self, line: u32) {
        let [first, .., last] = self.line(line);
        prefetch(first.as_ptr());
        prefetch(last.as_ptr());
        prefetch(std::ptr::from_ref(self.head(line / LINES as u32)).cast());
    }

    /// The hash in a line, if it is there and in a place that `test` takes.
    #[inline]
    pub fn find(&self, line: u32, hash: u128, test: impl Fn(Place) -> bool) -> Option<Spot> {
        let mut same = same_hashes(self.line(line), hash);
        if same == 0 {
            return None;
        }
        let page = line / LINES as u32;
        let head = self.head(page);
        while same != 0 {
            let at = line as usize % LINES * LINE + same.trailing_zeros() as usize / 4;
            // What is behind the end, or was taken out, may look like it.
            if at < head.len as usize && head.removed >> at & 1 == 0 {
                return test(head.place).then_some(Spot { page, at });
            }
            same &= same - 1;
        }
        None
    }

    /// Takes a hash out.
    pub fn remove(&mut self, spot: Spot) {
        let slab = &mut self.slabs[spot.page as usize / SLAB];
        slab.heads[spot.page as usize % SLAB].removed |= 1 << spot.at;
    }

    /// The place that has a page.
    pub fn place(&self, page: PageNumber) -> Place {
        self.head(page).place
    }

    /// How many hashes of a page from number `from` on are not removed.
    pub fn count(&self, page: PageNumber, from: usize) -> usize {
        self.written(page, from).count_ones() as usize
    }

    /// The hashes of a page that are not removed, each with its line.
    pub fn hashes(&self, page: PageNumber) -> impl Iterator<Item = (u32, u128)> {
        let (hashes, written) = (self.page(page).iter().enumerate(), self.written(page, 0));
        hashes
            .filter(move |(at, _)| written >> at & 1 == 1)
            .map(move |(at, hash)| (Spot { page, at }.line(), u128::from_le_bytes(*hash)))
    }

    /// The hashes of a line that are not removed, and the place that has them.
    pub fn hashes_of(&self, line: u32) -> (Place, impl Iterator<Item = u128>) {
        let (page, first) = (line / LINES as u32, line as usize % LINES * LINE);
        let written = self.written(page, first);
        let own = self.line(line).iter().zip(first..).filter(move |(_, at)| written >> at & 1 == 1);
        (self.place(page), own.map(|(hash, _)| u128::from_le_bytes(*hash)))
    }

    /// The bytes of the hashes of a page from number `from` on, but for those that are removed.
    pub fn bytes(&self, page: PageNumber, from: usize) -> impl Iterator<Item = &[u8]> {
        let hashes = self.page(page);
        let mut left = self.written(page, from);
        std::iter::from_fn(move || {
            let first = (left != 0).then(|| left.trailing_zeros())?;
            let len = (left >> first).trailing_ones();
            // Of a full page the whole mask is shifted out.
            left &= u64::MAX.checked_shl(first + len).unwrap_or(0);
            Some(hashes[first as usize..(first + len) as usize].as_flattened())
        })
    }

    /// The hashes of a page from number `from` on that are not removed, as bits.
    fn written(&self, page: PageNumber, from: usize) -> u64 {
        let head = self.head(page);
        let below = |n: usize| u64::MAX.checked_shl(n as u32).map_or(u64::MAX, |above| !above);
        below(head.len as usize) & !below(from) & !head.removed
    }

    /// Memory held in bytes; a tree entry is counted as 32.
    pub fn memory_bytes(&self) -> usize {
        let held = self.slabs.iter().filter(|slab| !slab.pages.is_empty()).count();
        held * SLAB * (size_of::<Page>() + size_of::<Head>() + 1)
            + self.slabs.capacity() * size_of::<Slab>()
            + self.roomy.len() * 32
    }
}

#[cfg(test)]
mod tests;
