//! The held rows of one side.
//!
//! Owns their pages and what each of them is beside its columns, and keeps the memory in proportion to what is held. Does not own the index of keys, which both
//! sides share (`index`).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::arena::{Arena, NONE, NUMBERS_MAX, Row, UNLINKED};
use super::columns;
use super::pages::{self, Page, ROWS_MAX};
use super::plan::SidePlan;

/// Released rows that are never worth moving the others for, unless they are wide.
const DEAD_MIN: u64 = 2 * ROWS_MAX as u64;

/// Memory of released rows that is never worth it.
const DEAD_BYTES_MIN: usize = 64 << 10;

/// The rows.
#[derive(Default)]
pub(super) struct Side {
    pub arena: Arena,
    /// Ascending by the numbers of their rows; none is empty.
    pages: Vec<Page>,
}

impl Side {
    /// Rows held.
    pub fn held(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.live())).sum()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(Page::memory_bytes).sum();
        let empty = (self.pages.capacity() - self.pages.len()) * size_of::<Page>();
        self.arena.memory_bytes() + pages + empty
    }

    /// Memory of the pages from this row on.
    pub fn bytes_from(&self, first: u32) -> usize {
        let at = self.pages.partition_point(|page| page.first < first);
        self.pages[at..].iter().map(Page::memory_bytes).sum()
    }

    /// Takes a row in that is in no chain, because its key has a null.
    pub fn push_unlinked(&mut self, hash: u128, time_ms: i64) {
        self.arena.push(Row { hash, time_ms, older: NONE, newer: UNLINKED }, false);
    }

    /// Takes the columns of the rows that `arena` got last, which have these times.
    pub fn add(&mut self, first: u32, times_ms: &[i64], columns: Vec<ArrayRef>) {
        if !times_ms.is_empty() {
            self.pages.push(Page::new(first, times_ms, columns));
        }
    }

    /// The page that begins with this row.
    pub fn page(&self, first: u32) -> Option<&Page> {
        self.pages.binary_search_by_key(&first, |page| page.first).ok().map(|at| &self.pages[at])
    }

    /// The rows held, in the order of their arrival.
    pub fn by_arrival(&self) -> Vec<u32> {
        self.pages.iter().flat_map(Page::by_arrival).collect()
    }

    /// Whether a row without a match is due, of a side that lets such rows out.
    pub fn has_unmatched_due(&self, plan: &SidePlan, floor_ms: i64) -> bool {
        let is_due = |time_ms| plan.is_due(time_ms, floor_ms);
        plan.lets_out()
            && self.pages.iter().filter(|page| page.is_due(is_due)).any(|page| {
                let due = page.by_time().take_while(|id| is_due(self.arena.get(*id).time_ms));
                due.into_iter().any(|id| !self.arena.is_matched(id))
            })
    }

    /// Whether any row is due.
    pub fn has_due(&self, plan: &SidePlan, floor_ms: i64) -> bool {
        self.pages.iter().any(|page| page.is_due(|time_ms| plan.is_due(time_ms, floor_ms)))
    }

    /// The rows that are due.
    pub fn due_ids(&self, plan: &SidePlan, floor_ms: i64) -> Vec<u32> {
        let is_due = |time_ms| plan.is_due(time_ms, floor_ms);
        let of = |page: &'_ Page| -> Vec<u32> {
            page.by_time().take_while(|id| is_due(self.arena.get(*id).time_ms)).collect()
        };
        self.pages.iter().filter(|page| page.is_due(is_due)).flat_map(of).collect()
    }

    /// The latest time of a row that is held.
    pub fn last_ms(&self) -> Option<i64> {
        self.pages.iter().filter(|page| page.live() > 0).map(Page::last_ms).max()
    }

    /// How many rows are due.
    pub fn due(&self, plan: &SidePlan, floor_ms: i64) -> u64 {
        let is_due = |time_ms| plan.is_due(time_ms, floor_ms);
        let of =
            |page: &Page| page.by_time().take_while(|id| is_due(self.arena.get(*id).time_ms)).count() as u64;
        self.pages.iter().filter(|page| page.is_due(is_due)).map(of).sum()
    }

    /// Marks the rows that are due as released, and names them. Their columns are there until [`tidy`](Self::tidy).
    pub fn release(&mut self, plan: &SidePlan, floor_ms: i64) -> Vec<u32> {
        let mut due = Vec::new();
        for page in &mut self.pages {
            page.release(&self.arena, |time_ms| plan.is_due(time_ms, floor_ms), &mut due);
        }
        due
    }

    /// How many of the first rows, in the order of arrival, hold about so many bytes: those of whole pages.
    pub fn first_of_bytes(&self, bytes: u64) -> u32 {
        let (mut rows, mut sum) = (0, 0);
        for page in &self.pages {
            if sum >= bytes {
                break;
            }
            let own = page.memory_bytes() as u64 * u64::from(page.live()) / u64::from(page.len.max(1));
            sum += own + u64::from(page.live()) * size_of::<Row>() as u64;
            rows += page.live();
        }
        rows
    }

    /// Takes the first `count` rows out, in the order of arrival, and names them. Their columns are there until [`tidy`](Self::tidy).
    pub fn take_first(&mut self, count: usize) -> Vec<u32> {
        let mut ids = Vec::with_capacity(count);
        for page in &mut self.pages {
            if ids.len() == count {
                break;
            }
            ids.extend(page.take_first(&self.arena, count - ids.len()));
        }
        ids
    }

    /// The stored columns of these rows, in their order.
    ///
    /// # Errors
    /// When the texts of a column take more than 2 GiB.
    pub fn gather(&self, ids: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        let Some(first) = self.pages.first() else { return Ok(Vec::new()) };
        if first.columns.is_empty() || ids.is_empty() {
            return Ok(first.columns.iter().map(|column| column.slice(0, 0)).collect());
        }
        let (concerned, places) = self.places(ids);
        let of = |at: usize| {
            let columns = concerned.iter().map(|page| self.pages[*page].columns[at].clone());
            columns::gather(columns.collect(), &places)
        };
        (0..first.columns.len()).map(of).collect()
    }

    /// Bytes of the values that [`gather`](Self::gather) would put together.
    pub fn gathered_bytes(&self, ids: &[u32]) -> u64 {
        if ids.is_empty() {
            return 0;
        }
        let (concerned, places) = self.places(ids);
        let columns = self.pages.first().map_or(0, |page| page.columns.len());
        let of = |at: usize| {
            let columns: Vec<&ArrayRef> =
                concerned.iter().map(|page| &self.pages[*page].columns[at]).collect();
            columns::bytes_in(&columns, &places)
        };
        (0..columns).map(of).sum()
    }

    /// The pages that these rows are in, and where in which of them each row is.
    fn places(&self, ids: &[u32]) -> (Vec<usize>, Vec<(usize, usize)>) {
        const UNSEEN: u32 = u32::MAX;
        let (mut concerned, mut slots) = (Vec::new(), vec![UNSEEN; self.pages.len()]);
        let mut places = Vec::with_capacity(ids.len());
        // Most rows are in the page of the row before.
        let (mut from, mut end, mut slot) = (0, 0, 0);
        for id in ids {
            if *id < from || *id >= end {
                let at = self.pages.partition_point(|page| page.first <= *id) - 1;
                if slots[at] == UNSEEN {
                    slots[at] = concerned.len() as u32;
                    concerned.push(at);
                }
                (from, end, slot) = (self.pages[at].first, self.pages[at].end(), slots[at] as usize);
            }
            places.push((slot, (id - from) as usize));
        }
        (concerned, places)
    }

    /// The stored columns of these rows in as few parts as their texts allow, each of at most `rows_max` rows.
    ///
    /// # Errors
    /// When `each` fails.
    pub fn in_parts<E: From<ArrowError>>(
        &self,
        ids: &[u32],
        rows_max: usize,
        each: &mut impl FnMut(&[u32], Vec<ArrayRef>) -> Result<(), E>,
    ) -> Result<(), E> {
        columns::in_parts(ids, rows_max, &|part: &[u32]| self.gather(part), each)
    }

    /// Drops pages without rows, and puts small ones together that came since the row `fresh`. True if the rows that are released take up more than those
    /// that are held, so that the others should be [moved](Self::moved), which walks an index of `index_bytes`.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn tidy(&mut self, fresh: u32, index_bytes: usize) -> Result<bool, ArrowError> {
        self.pages.retain(|page| page.live() > 0);
        let from = self.pages.partition_point(|page| page.first < fresh);
        for range in pages::groups(&self.pages, from).into_iter().rev() {
            let merged = pages::merge(&self.arena, &self.pages[range.clone()])?;
            self.pages.splice(range, [merged]);
        }
        let held = self.held();
        let in_pages: u64 = self.pages.iter().map(|page| u64::from(page.len)).sum();
        let dead = in_pages.max(self.arena.kept()).saturating_sub(held);
        // Of wide rows few are much: a page stays as long as one of a thousand is held. Each byte that was released pays for one that is moved, or walked in the index.
        let bytes: usize = self.pages.iter().map(Page::bytes).sum();
        let dead_bytes: usize = self.pages.iter().map(Page::dead_bytes).sum();
        let moved = bytes - dead_bytes + held as usize * size_of::<Row>() + index_bytes;
        let are_wide = dead_bytes > DEAD_BYTES_MIN.max(moved);
        Ok(dead > held.max(DEAD_MIN) || are_wide || self.arena.next() > NUMBERS_MAX)
    }

    /// The held rows alone, in new memory and with new numbers in the order of the old ones. They are in no chain yet, but for those that never are in one.
    ///
    /// # Errors
    /// As [`tidy`](Self::tidy).
    pub fn moved(&self) -> Result<Self, ArrowError> {
        let mut moved = Self::default();
        self.in_parts(&self.by_arrival(), ROWS_MAX, &mut |part, columns| {
            let first = moved.arena.next();
            for id in part {
                moved.arena.push(*self.arena.get(*id), self.arena.is_matched(*id));
            }
            let times_ms: Vec<i64> = part.iter().map(|id| self.arena.get(*id).time_ms).collect();
            moved.add(first, &times_ms, columns);
            Ok::<(), ArrowError>(())
        })?;
        Ok(moved)
    }
}
