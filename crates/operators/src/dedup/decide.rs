//! What becomes of each row of a batch.
//!
//! Owns the order in which a row is asked for: kept records in files, lateness, kept records in memory; and what the step says of a batch
//! that is decided. Does not own the set of kept records (`kept`), the files (`spilled`), nor which rows are decided upon together (`shards`).

use std::ops::Range;

use dataflow::{Batch, Output, Reason, Reject};

use super::aside::Aside;
use super::deal::Dealt;
use super::kept::{Chunk, Kept};
use super::spilled::runs::Found;
use super::window::{SLACK, SPAN, UNPLACED, Window, near};
use super::{Dedup, Late, TENDED_PER_ROW};

/// Rows whose buckets are worked out together: they stay in the nearest cache until the rows' turn comes.
const CHUNK: usize = 1024;

/// What a decision depends on, beside the kept records.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) window: Window,
    /// The bucket of the last seal's watermark.
    pub(super) watermark: Option<i64>,
    pub(super) late: Late,
}

/// Rows to decide upon, in order.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) hashes: &'a [u128],
    pub(super) times_ms: &'a [i64],
    /// By which those who get to know of a row know it.
    pub(super) names: &'a [u64],
    /// Their kept records in files, by row.
    pub(super) found: &'a [Found],
}

/// What was found out of rows that are dropped. They are numbered as in [`Rows`].
#[derive(Default)]
pub(super) struct Dropped {
    /// Ascending: duplicates and late ones.
    pub(super) rows: Vec<usize>,
    /// How many of them are duplicates.
    pub(super) duplicates: u64,
    /// Those that are late, ascending.
    pub(super) late: Vec<usize>,
    /// How many late ones are kept nevertheless.
    pub(super) late_kept: u64,
}

/// In which order the rows come, between two seals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The newest bucket so far.
    newest: i64,
    /// Whether a row came after one so much newer that the watermark may have freed the history of the older one.
    is_broken: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self { newest: i64::MIN, is_broken: false }
    }
}

impl Order {
    /// The next rows have these buckets, `least` to `most`.
    #[inline]
    fn see(&mut self, buckets: &[i64], (least, most): (i64, i64)) {
        self.is_broken |= self.is_before(least) || self.is_wide(buckets, (least, most));
        self.newest = self.newest.max(most);
    }

    fn is_before(&self, bucket: i64) -> bool {
        bucket < self.newest.saturating_sub_unsigned(SPAN + SLACK)
    }

    /// Whether rows that span more than the history are out of order among themselves.
    #[inline]
    fn is_wide(&self, buckets: &[i64], (least, most): (i64, i64)) -> bool {
        let within = Self { newest: most, ..*self }.is_before(least);
        within && {
            let mut order = Self::default();
            buckets.iter().filter(|bucket| **bucket != UNPLACED).any(|bucket| {
                order.newest = order.newest.max(*bucket);
                order.is_before(*bucket)
            })
        }
    }

    /// Whether the order was broken; begins again.
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(self).is_broken
    }
}

/// Kept records, and what is needed to decide upon rows by them. One thread at a time does.
pub(super) struct Shard {
    pub(super) kept: Kept,
    /// What is kept beyond the window.
    pub(super) aside: Aside,
    /// In which order rows come.
    pub(super) order: Order,
    /// The rows at hand.
    chunk: Chunk,
    /// Duplicates of kept records in memory among the rows decided upon last: hash, bucket and name of each.
    pub(super) known: Vec<(u128, i64, u64)>,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            kept: Kept::new(),
            aside: Aside::default(),
            order: Order::default(),
            chunk: Chunk::default(),
            known: Vec::new(),
        }
    }

    /// Decides for each row, in order, and remembers those that are kept.
    pub(super) fn decide(&mut self, rules: &Rules, rows: Rows<'_>) -> Dropped {
        let mut dropped = Dropped::default();
        self.known.clear();
        for first in (0..rows.hashes.len()).step_by(CHUNK) {
            self.decide_chunk(rules, rows, first, &mut dropped);
        }
        self.kept.clean(TENDED_PER_ROW * rows.hashes.len());
        dropped
    }

    /// As [`decide`](Self::decide), for the rows from number `first` on.
    fn decide_chunk(&mut self, rules: &Rules, rows: Rows<'_>, first: usize, dropped: &mut Dropped) {
        let hashes = &rows.hashes[first..][..CHUNK.min(rows.hashes.len() - first)];
        let names = &rows.names[first..][..hashes.len()];
        let mut placing = rules.window.placing(rules.watermark);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.fill(hashes, rows.times_ms[first..][..hashes.len()].iter().map(|time| placing.place(*time)));
        let mut found = &rows.found[rows.found.partition_point(|f| (f.row as usize) < first)..];
        let (least, most) = chunk.ends();
        self.order.see(chunk.buckets(), (least, most));
        let late_below =
            rules.watermark.map_or(i64::MIN, |watermark| watermark.saturating_sub_unsigned(SLACK));
        let is_late = |bucket: &i64| *bucket < late_below;
        let some_are_late = least < late_below;
        // Late ones are inspected one by one where more than the window's history may know them, or does not let them pass.
        let are_late = some_are_late && (rules.late != Late::Keep || !self.aside.is_empty());
        let (mut row, dropped_before) = (0, dropped.rows.len());
        while row < hashes.len() {
            // The next that needs another look than all others: it has kept records in files, or is late.
            let mut special =
                found.first().map_or(hashes.len(), |f| (f.row as usize - first).min(hashes.len()));
            if are_late {
                let late = chunk.buckets()[row..special].iter().position(is_late);
                special = late.map_or(special, |late| row + late);
            }
            self.offer(first, hashes, names, &mut chunk, row..special, dropped);
            row = special + 1;
            let Some(bucket) = chunk.buckets().get(special).copied() else { break };
            let own = found.iter().take_while(|f| f.row as usize == first + special).count();
            let (own, others) = found.split_at(own);
            found = others;
            if own.iter().any(|f| near(f.bucket, bucket)) {
                dropped.duplicates += 1;
                dropped.rows.push(first + special);
            } else if is_late(&bucket) && self.aside.has_near(hashes[special], bucket) {
                dropped.duplicates += 1;
                dropped.rows.push(first + special);
                self.known.push((hashes[special], bucket, names[special]));
            } else if rules.late != Late::Keep
                && is_late(&bucket)
                && !self.kept.has_near(hashes[special], bucket)
            {
                dropped.rows.push(first + special);
                dropped.late.push(first + special);
            } else {
                self.offer(first, hashes, names, &mut chunk, special..row, dropped);
            }
        }
        if some_are_late && rules.late == Late::Keep {
            let all = chunk.buckets().iter().filter(|bucket| is_late(bucket)).count();
            let dropped_rows = dropped.rows[dropped_before..].iter();
            let known = dropped_rows.filter(|row| is_late(&chunk.buckets()[**row - first])).count();
            dropped.late_kept += (all - known) as u64;
        }
        self.chunk = chunk;
    }

    /// Offers rows of a chunk, and drops those that are known.
    fn offer(
        &mut self,
        first: usize,
        hashes: &[u128],
        names: &[u64],
        chunk: &mut Chunk,
        rows: Range<usize>,
        dropped: &mut Dropped,
    ) {
        let before = dropped.rows.len();
        self.kept.offer_all(hashes, chunk, rows, |row| dropped.rows.push(first + row));
        let known = &dropped.rows[before..];
        dropped.duplicates += known.len() as u64;
        let (names, buckets) = (&names[..hashes.len()], &chunk.buckets()[..hashes.len()]);
        let records = known.iter().map(|row| (hashes[row - first], buckets[row - first], names[row - first]));
        self.known.extend(records);
    }

    /// Memory held in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.memory_bytes()
            + self.aside.memory_bytes()
            + self.chunk.memory_bytes()
            + self.known.capacity() * size_of::<(u128, i64, u64)>()
    }
}

impl Dedup {
    /// What decisions depend on until the next seal.
    pub(super) fn rules(&self) -> Rules {
        Rules { window: self.window, watermark: self.watermark, late: self.late }
    }

    /// Decides here and now.
    pub(super) fn decide(&mut self, batch: &Batch, hashes: &[u128], found: &[Found]) -> Dropped {
        let rules = self.rules();
        if let Some(only) = self.shards.only() {
            let rows = Rows { hashes, times_ms: &batch.times_ms, names: &batch.positions, found };
            let dropped = only.decide(&rules, rows);
            self.dropped.extend(&batch.partition, batch.era, &only.known);
            return dropped;
        }
        let dealt = self.shards.deal(hashes, &batch.times_ms, found);
        let all_dropped = self.shards.decide(&rules, &dealt);
        let dropped = self.put_together(batch, hashes, &dealt, &all_dropped);
        self.shards.give_back(dealt);
        dropped
    }

    /// What all shards have dropped.
    pub(super) fn put_together(
        &mut self,
        batch: &Batch,
        hashes: &[u128],
        dealt: &Dealt,
        all_dropped: &[Dropped],
    ) -> Dropped {
        let dropped = dealt.put_together(all_dropped);
        let mut placing = self.window.placing(self.watermark);
        let mut record = |row: usize| (hashes[row], placing.place(batch.times_ms[row]), batch.positions[row]);
        let known: Vec<_> = self.shards.known(dealt, &dropped).into_iter().map(&mut record).collect();
        self.dropped.extend(&batch.partition, batch.era, &known);
        dropped
    }

    /// The kept rows, and what became of the others.
    pub(super) fn output(&mut self, batch: Batch, hashes: Vec<u128>, dropped: Dropped) -> Output {
        self.gather(TENDED_PER_ROW * batch.len());
        self.give_back(hashes);
        let Dropped { rows: dropped, duplicates, late, late_kept } = dropped;
        let (late, rejects) = match self.late {
            Late::DeadLetter => (0, late.into_iter().map(|row| late_letter(&batch, row)).collect()),
            Late::Keep | Late::Drop => (late.len() as u64, Vec::new()),
        };
        Output { dropped, duplicates, late, late_kept, rejects, ..Output::all(batch) }
    }
}

#[cold]
fn late_letter(batch: &Batch, row: usize) -> Reject {
    let time_ms = batch.times_ms[row];
    Reject {
        item: batch.item(row),
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms,
        reason: Reason::Late,
        column: String::new(),
        message: format!(
            "its time `{time_ms}` (unix milliseconds) is more than {SLACK}/{} of the window behind the others, so that a \
             duplicate could not be distinguished from a new record",
            SPAN
        ),
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
