//! The buckets in use, and the pages of each.
//!
//! Owns the map from a bucket number (64 bits) to a *place* and back, which pages a place has, and how many hashes it holds. Does not own
//! the pages themselves (`pages`) nor how a hash is found (`index`).
//!
//! A bucket expires by one write here: its place is *over*, no record is near it any more, and its pages are given back one by one. In the
//! same manner a bucket is spilled: its place takes no more hashes (a new record of the bucket gets a new place), so what is to be written to
//! a file is fixed at one instant, and is over by one write here when the file is durable.

use std::collections::{BTreeMap, VecDeque};

use super::pages::{PAGE, PageNumber, Spot};

/// The number of a bucket in use.
pub type Place = u32;

/// One bucket. One that is over keeps its number until its last page is given back: where its hashes stand in the index depends on it.
#[derive(Debug, Default)]
struct Entry {
    bucket: i64,
    is_over: bool,
    /// All but the last are full.
    pages: Vec<PageNumber>,
    /// Hashes ever written, those that are removed too.
    written: usize,
    /// Of them, those that a delta has named, or a snapshot.
    noted: usize,
    /// Hashes that are not removed.
    kept: u64,
}

/// The buckets in use.
#[derive(Debug, Default)]
pub struct Places {
    entries: Vec<Entry>,
    /// The places that take hashes, by bucket.
    open: BTreeMap<i64, Place>,
    /// Places that take no more hashes, with their buckets.
    spilling: Vec<(i64, Place)>,
    /// Places that are over and have pages left.
    over: VecDeque<Place>,
    free: Vec<Place>,
    /// Hashes of the places that are not over.
    kept: u64,
    /// Pages of the places that are not over.
    pages: u64,
    /// The bucket asked for last: records come roughly in the order of time.
    last: Option<(i64, Place)>,
}

/// A bucket in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its number.
    pub bucket: i64,
    /// Its place.
    pub place: Place,
    /// Its hashes.
    pub kept: u64,
    /// Its pages.
    pub pages: u64,
}

impl Places {
    /// The place of `bucket`, new if need be.
    #[inline]
    pub fn of(&mut self, bucket: i64) -> Place {
        match self.last {
            Some((last, place)) if last == bucket => place,
            _ => {
                let place = self.find_or_add(bucket);
                self.last = Some((bucket, place));
                place
            }
        }
    }

    fn find_or_add(&mut self, bucket: i64) -> Place {
        if let Some(place) = self.open.get(&bucket) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            Place::try_from(self.entries.len() - 1).expect("a place has a page, and 2^32 pages are 4 TB")
        });
        self.entries[place as usize] = Entry { bucket, ..Entry::default() };
        self.open.insert(bucket, place);
        place
    }

    /// Where the next hash of an open place goes; `take` gives a new page. What is written there must be [reported](Self::grew).
    pub fn room(&mut self, place: Place, take: impl FnOnce() -> PageNumber) -> Spot {
        let entry = &mut self.entries[place as usize];
        if entry.written.is_multiple_of(PAGE) {
            entry.pages.push(take());
            self.pages += 1;
        }
        Spot { page: entry.pages[entry.written / PAGE], at: entry.written % PAGE }
    }

    /// So many hashes were written where there was room.
    pub fn grew(&mut self, place: Place, hashes: usize) {
        let entry = &mut self.entries[place as usize];
        entry.written += hashes;
        entry.kept += hashes as u64;
        self.kept += hashes as u64;
    }

    /// A place has one hash less.
    pub fn removed(&mut self, place: Place) {
        let entry = &mut self.entries[place as usize];
        entry.kept -= 1;
        self.kept -= u64::from(!entry.is_over);
    }

    /// The bucket of a place, over or not.
    pub fn bucket_ever(&self, place: Place) -> i64 {
        self.entries[place as usize].bucket
    }

    /// The bucket of a place that is not over.
    #[inline]
    pub fn bucket(&self, place: Place) -> Option<i64> {
        let entry = &self.entries[place as usize];
        (!entry.is_over).then_some(entry.bucket)
    }

    /// The place of a bucket in use that takes new hashes.
    pub fn find(&self, bucket: i64) -> Option<Place> {
        self.open.get(&bucket).copied()
    }

    /// The buckets in use: those that take new hashes in the order of time, then those that are being spilled.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let open = self.open.iter().map(|(bucket, place)| (*bucket, *place));
        open.chain(self.spilling.iter().copied()).map(|(bucket, place)| {
            let entry = &self.entries[place as usize];
            Bucket { bucket, place, kept: entry.kept, pages: entry.pages.len() as u64 }
        })
    }

    /// The pages of a place, those first that were filled first.
    pub fn pages(&self, place: Place) -> &[PageNumber] {
        &self.entries[place as usize].pages
    }

    /// Hashes of a place that are not removed.
    pub fn count(&self, place: Place) -> u64 {
        self.entries[place as usize].kept
    }

    /// The pages of a place with hashes that are not noted, each with the number of the first of them.
    pub fn fresh(&self, place: Place) -> impl Iterator<Item = (PageNumber, usize)> {
        let Entry { pages, written, noted, .. } = &self.entries[place as usize];
        let first = if noted < written { noted / PAGE } else { pages.len() };
        let from = std::iter::once(noted % PAGE).chain(std::iter::repeat(0));
        pages[first..].iter().copied().zip(from)
    }

    /// True if a place has hashes that are not noted, those that are removed among them.
    pub fn has_fresh(&self) -> bool {
        self.open.values().any(|place| {
            let entry = &self.entries[*place as usize];
            entry.noted < entry.written
        })
    }

    /// What was kept until here is noted.
    pub fn note(&mut self) {
        for place in self.open.values() {
            let entry = &mut self.entries[*place as usize];
            entry.noted = entry.written;
        }
    }

    /// The places of these buckets take no more hashes from here on.
    pub fn spill(&mut self, buckets: &[i64]) {
        for bucket in buckets {
            if let Some(place) = self.open.remove(bucket) {
                self.spilling.push((*bucket, place));
            }
        }
        self.last = None;
    }

    /// The buckets being spilled with their places.
    pub fn spilling(&self) -> &[(i64, Place)] {
        &self.spilling
    }

    /// What was being spilled lies in a file now: its places are over.
    pub fn spilled(&mut self) {
        for (_, place) in std::mem::take(&mut self.spilling) {
            self.end(place);
        }
    }

    /// Every bucket below `floor` is over.
    pub fn expire(&mut self, floor: i64) {
        let kept = self.open.split_off(&floor);
        for place in std::mem::replace(&mut self.open, kept).into_values() {
            self.end(place);
        }
        let (spilling, ended): (Vec<_>, Vec<_>) =
            self.spilling.iter().copied().partition(|(bucket, _)| *bucket >= floor);
        self.spilling = spilling;
        ended.into_iter().for_each(|(_, place)| self.end(place));
    }

    /// Open buckets that hold nothing any more are over.
    pub fn prune(&mut self) {
        let entries = &self.entries;
        let empty = self.open.extract_if(.., |_, place| entries[*place as usize].kept == 0);
        let empty: Vec<Place> = empty.map(|(_, place)| place).collect();
        empty.into_iter().for_each(|place| self.end(place));
    }

    fn end(&mut self, place: Place) {
        let entry = &mut self.entries[place as usize];
        entry.is_over = true;
        self.kept -= entry.kept;
        self.pages -= entry.pages.len() as u64;
        self.last = self.last.filter(|(_, last)| *last != place);
        if entry.pages.is_empty() {
            self.free.push(place);
        } else {
            self.over.push_back(place);
        }
    }

    /// Takes a page from a place that is over.
    pub fn take_over(&mut self) -> Option<(i64, PageNumber)> {
        let place = *self.over.front()?;
        let entry = &mut self.entries[place as usize];
        let page = entry.pages.pop();
        if entry.pages.is_empty() {
            entry.pages = Vec::new();
            self.over.pop_front();
            self.free.push(place);
        }
        page.map(|page| (entry.bucket, page))
    }

    /// Hashes of places that are not over.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Pages of places that are not over.
    pub fn pages_kept(&self) -> u64 {
        self.pages
    }

    /// Memory held in bytes; a tree entry is counted as 32.
    pub fn memory_bytes(&self) -> usize {
        let lists =
            self.entries.iter().map(|entry| entry.pages.capacity() * size_of::<PageNumber>()).sum::<usize>();
        lists
            + self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * size_of::<Place>()
            + self.over.capacity() * size_of::<Place>()
            + self.open.len() * 32
            + self.spilling.capacity() * size_of::<(i64, Place)>()
    }
}
