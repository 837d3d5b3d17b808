//! The columns of held rows, in pages.
//!
//! Owns which rows a page has, and the order in which time releases them. A page begins as the rows that one batch brought; small ones that follow one another
//! are put together with a seal. A page is dropped with its last row. Does not own keys and times (`arena`).

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::arena::Arena;
use super::columns;

/// Rows of a page that is made of held rows that are copied: few enough that a straggler does not hold much.
pub(super) const ROWS_MAX: usize = 8_192;

/// Pages of so many rows stay as they came: what a page takes beside its values is small next to them then.
pub(super) const ROWS_ENOUGH: usize = 1_024;

/// Bytes of a page that is put together from smaller ones, so that the offsets of its texts are far from their limit.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// Rows that follow one another.
pub(super) struct Page {
    /// The number of its first row.
    pub first: u32,
    /// Its rows, released ones too.
    pub len: u32,
    /// The stored columns.
    pub columns: Vec<ArrayRef>,
    /// Memory of the columns.
    bytes: usize,
    /// Its rows that were not released when it was made, the earliest first; `None` if that is their order.
    order: Option<Vec<u32>>,
    /// How many of them are released.
    released: u32,
    /// The time of the next one.
    next_ms: i64,
    /// The time of the last one.
    last_ms: i64,
}

impl Page {
    /// A page of these columns, whose rows begin with `first` and have these times, all of them held.
    pub fn new(first: u32, times_ms: &[i64], columns: Vec<ArrayRef>) -> Self {
        let order = (!times_ms.is_sorted()).then(|| {
            let mut order: Vec<u32> = (0..times_ms.len() as u32).collect();
            order.sort_by_key(|row| times_ms[*row as usize]);
            order
        });
        let at = |place: usize| times_ms[order.as_ref().map_or(place, |order| order[place] as usize)];
        let (next_ms, last_ms) = (at(0), at(times_ms.len() - 1));
        let bytes = columns.iter().map(columns::memory_bytes).sum();
        Self { first, len: times_ms.len() as u32, columns, bytes, order, released: 0, next_ms, last_ms }
    }

    /// Rows that are held.
    pub fn live(&self) -> u32 {
        self.order.as_ref().map_or(self.len, |order| order.len() as u32) - self.released
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let order = self.order.as_ref().map_or(0, |order| order.capacity() * 4);
        size_of::<Self>() + self.bytes + order + self.columns.capacity() * size_of::<ArrayRef>()
    }

    /// Memory of the columns.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of its released rows, by their share of the columns.
    pub fn dead_bytes(&self) -> usize {
        self.bytes / self.len.max(1) as usize * (self.len - self.live()) as usize
    }

    /// The latest time of its rows.
    pub fn last_ms(&self) -> i64 {
        self.last_ms
    }

    /// The number of the row after its last.
    pub fn end(&self) -> u32 {
        self.first + self.len
    }

    /// The number of the row that stands at this place in the order of time.
    fn at(&self, place: u32) -> u32 {
        self.first + self.order.as_ref().map_or(place, |order| order[place as usize])
    }

    fn set_next(&mut self, arena: &Arena) {
        self.next_ms = if self.live() == 0 { i64::MAX } else { arena.get(self.at(self.released)).time_ms };
    }

    /// The rows that are held, in the order of their times.
    pub fn by_time(&self) -> impl Iterator<Item = u32> {
        (self.released..self.released + self.live()).map(|place| self.at(place))
    }

    /// The rows that are held, in the order of their arrival.
    pub fn by_arrival(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.by_time().collect();
        if self.order.is_some() {
            ids.sort_unstable();
        }
        ids
    }

    /// Marks the rows as released for whose times `is_due` says so, and adds them to `to`.
    pub fn release(&mut self, arena: &Arena, is_due: impl Fn(i64) -> bool, to: &mut Vec<u32>) {
        if !is_due(self.next_ms) || self.live() == 0 {
            return;
        }
        let before = to.len();
        to.extend(self.by_time().take_while(|id| is_due(arena.get(*id).time_ms)));
        self.released += (to.len() - before) as u32;
        self.set_next(arena);
    }

    /// Takes the first `count` of its held rows out, in the order of arrival, and names them.
    pub fn take_first(&mut self, arena: &Arena, count: usize) -> Vec<u32> {
        let mut ids = self.by_arrival();
        let rest = ids.split_off(count.min(ids.len()));
        let time_ms = |row: &u32| arena.get(self.first + row).time_ms;
        let mut order: Vec<u32> = rest.into_iter().map(|id| id - self.first).collect();
        order.sort_by_key(time_ms);
        self.last_ms = order.last().map_or(self.last_ms, time_ms);
        (self.order, self.released) = (Some(order), 0);
        self.set_next(arena);
        ids
    }

    /// Whether any row is released then.
    pub fn is_due(&self, is_due: impl Fn(i64) -> bool) -> bool {
        self.live() > 0 && is_due(self.next_ms)
    }
}

/// Which of the last pages, from `from` on, should be put together: ranges of them, ascending. Those that one seal brought become one while it is small,
/// and that one goes together with an earlier one that is not much larger: so a row is copied a few times, and the pages are few.
pub(super) fn groups(pages: &[Page], from: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<(Range<usize>, usize, usize)> = Vec::new();
    // Earlier pages may join the new ones, as long as they are small.
    let is_small = |page: &&Page| (page.len as usize) < ROWS_ENOUGH;
    let earlier = pages[..from].iter().rev().take_while(is_small).count();
    for (at, page) in pages.iter().enumerate().skip(from - earlier) {
        let mut new = (at..at + 1, page.len as usize, page.bytes);
        while let Some((range, len, bytes)) = groups.last() {
            let is_next = pages[range.end - 1].end() == pages[new.0.start].first;
            let is_like = at >= from && *len < 2 * new.1;
            let fits = *len.max(&new.1) < ROWS_ENOUGH && bytes + new.2 <= BYTES_MAX;
            // Those of one seal need not be alike.
            if !is_next || !fits || !(is_like || range.start >= from) {
                break;
            }
            new = (range.start..new.0.end, len + new.1, bytes + new.2);
            groups.pop();
        }
        groups.push(new);
    }
    groups.into_iter().map(|(range, ..)| range).filter(|range| range.len() > 1).collect()
}

/// One page of these, which follow one another.
///
/// # Errors
/// When their columns are of different forms.
pub(super) fn merge(arena: &Arena, pages: &[Page]) -> Result<Page, ArrowError> {
    let first = pages[0].first;
    let len: usize = pages.iter().map(|page| page.len as usize).sum();
    let columns = (0..pages[0].columns.len())
        .map(|at| columns::chain(pages.iter().map(|page| page.columns[at].clone()).collect()))
        .collect::<Result<Vec<ArrayRef>, _>>()?;
    let bytes = columns.iter().map(columns::memory_bytes).sum();
    let is_in_order = pages.iter().all(|page| page.order.is_none() && page.released == 0)
        && pages.windows(2).all(|pair| pair[0].last_ms <= pair[1].next_ms);
    let order = (!is_in_order).then(|| {
        let mut held: Vec<u32> = pages.iter().flat_map(Page::by_arrival).map(|id| id - first).collect();
        held.sort_by_key(|row| arena.get(first + row).time_ms);
        held
    });
    let ends = |ms: fn(&Page) -> i64| pages.iter().map(ms);
    let next_ms = ends(|page| page.next_ms).min().unwrap_or(i64::MAX);
    let last_ms = ends(|page| page.last_ms).max().unwrap_or(i64::MIN);
    Ok(Page { first, len: len as u32, columns, bytes, order, released: 0, next_ms, last_ms })
}
