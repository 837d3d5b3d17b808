//! A batch under construction, and what is cut from it.
//!
//! Owns the gathering and the arithmetic: rows, rejects, ranges and both ledgers move together, so that those of every cut
//! add up (C9). Does not own the decision when to cut (`lane`) or the writing (`seal`).
//!
//! Behind a step that makes several rows of one record, rows are counted and not records: the record has passed.
//!
//! | what happens                            | before such a step     | behind it                              |
//! |-----------------------------------------|------------------------|----------------------------------------|
//! | a rule, a duplicate, lateness drops it  | the record's fate      | `derived.dropped`                      |
//! | it becomes a dead letter                | the record's fate      | `derived.dead_letters`                 |
//! | it goes to several tables               | passed once, the others in `derived.rows` | the others in `derived.rows` |
//! | it goes to no table                     | filtered               | `derived.dropped`                      |
//! | it goes into a step's state             | absorbed               | `derived.absorbed`                     |
//! | a watermark lets a state's row out      | `derived.rows`         | `derived.rows`                         |
//! | a later row of its key replaces it      | passed; the table counts it as replaced | the same                  |

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use dataflow::position::{self, Position};
use dataflow::{Output, Partition, Prepared, Reject, Selected};
use protocol::record::{Absorbed, Counts, Derived, Fate, Fates, RUNS_MAX, Range, Refusal, Run};

use crate::origins::{Origins, Part};
use crate::state_files::Snapshots;
use crate::totals::Totals;

/// Record times kept per cut for the end-to-end latency: enough for its percentiles, few enough to cost nothing.
const SAMPLES_MAX: usize = 64;

/// The rows of one table.
#[derive(Debug, Default)]
pub struct TableCut {
    /// The rows.
    pub rows: Vec<Selected>,
    /// How many of them go on, counted as they came.
    pub count: u64,
    /// How many of those are not sent, because a later row of the cut replaces them; known once the rows are being encoded.
    pub replaced: u64,
    /// Where each row comes from.
    pub origins: Origins,
    /// Some of the record times, Unix milliseconds.
    pub samples_ms: Vec<i64>,
}

/// What one seal will hold, before it is encoded.
#[derive(Debug)]
pub struct Cut {
    /// Number of the cut by this owner, from 0.
    pub number: u64,
    /// Rows for the tables, by place; those behind the last entry get none.
    pub tables: Vec<TableCut>,
    /// Rows for the dead letters.
    pub rejects: Vec<Reject>,
    /// How many they were, once they are being encoded.
    pub letters: u64,
    /// What was read.
    pub ranges: Vec<Range>,
    /// The same in the order in which it was read; nothing if that is more than a frame can name.
    pub runs: Option<Vec<Run>>,
    /// What the records of each input became, by the input's number.
    pub counts: BTreeMap<u32, Counts>,
    /// Rows that are not one each of a record that passed.
    pub derived: Derived,
    /// What the steps' states have released, and what they hold after the cut.
    pub absorbed: Absorbed,
    /// Rows of earlier seals that the server refused, now among `rejects`.
    pub refusals: Vec<Refusal>,
    /// Changes of the steps' states, by step.
    pub states: Vec<(u32, Bytes)>,
    /// Whole states as of this cut, if a checkpoint is due.
    pub snapshots: Option<Snapshots>,
    /// Low watermark after the cut.
    pub watermark_ms: i64,
    /// Idle partitions.
    pub idle: Vec<u32>,
    /// The watermark that the steps went by: of the cut before.
    pub judged_by_ms: i64,
    /// What became of each record of the partitions that want it told.
    pub fates: Vec<Fates>,
    /// The least version of a row of the next cut; 0 if no table takes versions.
    pub next_version: u64,
}

impl Default for Cut {
    fn default() -> Self {
        Self {
            number: 0,
            tables: Vec::new(),
            rejects: Vec::new(),
            letters: 0,
            ranges: Vec::new(),
            runs: Some(Vec::new()),
            counts: BTreeMap::new(),
            derived: Derived::default(),
            absorbed: Absorbed::default(),
            refusals: Vec::new(),
            states: Vec::new(),
            snapshots: None,
            watermark_ms: 0,
            idle: Vec::new(),
            judged_by_ms: 0,
            fates: Vec::new(),
            next_version: 0,
        }
    }
}

impl Cut {
    /// Rows of the table `place` that later ones of the cut replace.
    pub fn replaced(&self, place: usize) -> u64 {
        self.tables.get(place).map_or(0, |table| table.replaced)
    }

    /// The rows that were gathered for the table `place`, which takes dead letters or not.
    pub fn rows_of(&self, place: usize, takes_dead_letters: bool) -> u64 {
        if takes_dead_letters { self.letters } else { self.tables.get(place).map_or(0, |table| table.count) }
    }
}

/// Gathers until it is cut.
#[derive(Debug, Default)]
pub struct Builder {
    cut: Cut,
    bytes: u64,
    begun: Option<Duration>,
    /// The input whose block is being counted.
    input: u32,
    /// Partitions that are not the first of their name, and which of them each is.
    recreated: BTreeMap<Partition, u32>,
}

impl Builder {
    /// Partitions that are not the first of their name, and which of them each is: their dead letters say so, because there are others at the same places.
    pub fn recreated(&mut self, recreated: BTreeMap<Partition, u32>) {
        self.recreated = recreated;
    }

    /// Where a partition stands in the cut under construction; `from` is where the last cut ended.
    pub fn moved(
        &mut self,
        partition: u32,
        from: Position,
        next: Position,
        leader_epoch: i32,
        time_ms_max: i64,
    ) {
        match self.cut.ranges.iter_mut().find(|r| r.partition == partition) {
            Some(range) => {
                range.set_next(next);
                range.leader_epoch = leader_epoch;
                range.time_ms_max = time_ms_max;
            }
            None => {
                self.cut.ranges.push(Range { leader_epoch, time_ms_max, ..Range::new(partition, from, next) })
            }
        }
    }

    /// Records of a partition from `from` to `next` were read, behind all that were read before.
    pub fn ran(&mut self, partition: u32, from: Position, next: Position) {
        self.cut.runs = self.cut.runs.take().and_then(|mut runs| {
            let run = Run { partition, from: u64::try_from(from).ok()?, next: u64::try_from(next).ok()? };
            match runs.last_mut().filter(|last| last.partition == partition && last.next == run.from) {
                Some(last) => last.next = run.next,
                None => runs.push(run),
            }
            Some(runs).filter(|runs| runs.len() <= RUNS_MAX)
        });
    }

    /// Records of an input were read; the other counts, which come with [`Builder::rejects`], [`Builder::stepped`] and
    /// [`Builder::passed`], are those of this input until the next call.
    pub fn read(&mut self, input: u32, records: u64, now: Duration) {
        self.input = input;
        self.own().read += records;
        self.begun.get_or_insert(now);
    }

    /// Records that became dead letters; or rows, once `is_derived`.
    pub fn rejects(&mut self, mut rejects: Vec<Reject>, is_derived: bool) {
        if !self.recreated.is_empty() {
            let nth = |reject: &Reject| self.recreated.get(&reject.partition).copied().unwrap_or(1);
            rejects = rejects
                .into_iter()
                .map(|reject| {
                    let nth = nth(&reject);
                    reject.of_stream(nth)
                })
                .collect();
        }
        let counted = match is_derived {
            true => &mut self.cut.derived.dead_letters,
            false => &mut self.own().dead_letters,
        };
        *counted += rejects.len() as u64;
        self.bytes += rejects.iter().map(reject_bytes).sum::<u64>();
        self.cut.rejects.extend(rejects);
    }

    /// A row of an earlier seal that the server refused becomes a dead letter.
    pub fn refused(&mut self, refusal: Refusal, reject: Reject, now: Duration) {
        self.begun.get_or_insert(now);
        self.bytes += reject_bytes(&reject);
        self.cut.refusals.push(refusal);
        self.cut.rejects.push(reject);
    }

    /// What became of a block before the lane. Takes its rejects; says whether a step has made several rows of one record.
    pub fn prepared(&mut self, prepared: &mut Prepared) -> bool {
        let mut rejects = std::mem::take(&mut prepared.rejects);
        self.own().filtered += prepared.filtered;
        let Some(multiplied) = prepared.multiplied.take() else {
            self.rejects(rejects, false);
            return false;
        };
        let of_rows = rejects.split_off(rejects.len() - multiplied.rejects);
        self.rejects(rejects, false);
        self.rejects(of_rows, true);
        self.own().passed += multiplied.records;
        self.cut.derived.rows += multiplied.added;
        self.cut.derived.dropped += multiplied.filtered;
        true
    }

    /// What a step made of a batch, but for its rejects. `is_derived` says whether a step before it made several rows of one record;
    /// whether one has so far is what comes back.
    pub fn stepped(&mut self, output: &Output, is_derived: bool) -> bool {
        let Cut { counts, derived, absorbed, .. } = &mut self.cut;
        let counts = counts.entry(self.input).or_default();
        if is_derived {
            derived.dropped += output.filtered + output.duplicates + output.late;
            derived.absorbed += output.absorbed;
        } else {
            counts.absorbed += output.absorbed;
            counts.filtered += output.filtered;
            counts.duplicates += output.duplicates;
            counts.late += output.late;
            counts.late_kept += output.late_kept;
        }
        absorbed.released += output.released;
        derived.rows += output.added;
        let begins = output.added > 0 && !is_derived;
        if begins {
            let rows = (output.batch.len() - output.dropped.len()) as u64;
            counts.passed += rows.saturating_sub(output.added);
        }
        is_derived || begins
    }

    /// What a watermark let out of a step: rows of its own making.
    pub fn advanced(&mut self, output: &Output, now: Duration) {
        self.begun.get_or_insert(now);
        self.cut.derived.rows += output.added;
        self.cut.absorbed.released += output.released;
    }

    /// A step made so many rows beside its output.
    pub fn made(&mut self, rows: u64) {
        self.cut.derived.rows += rows;
    }

    /// So many records came late, and go on to a table of their own.
    pub fn late_rows(&mut self, rows: u64) {
        self.own().late_kept += rows;
    }

    /// Rows came through all steps: `taken` of them go to a table or several, `dropped` to none, and `more` is how many there are
    /// beyond the first of each.
    pub fn passed(&mut self, taken: u64, dropped: u64, more: u64, is_derived: bool) {
        let Cut { counts, derived, .. } = &mut self.cut;
        let counts = counts.entry(self.input).or_default();
        if is_derived {
            derived.dropped += dropped;
        } else {
            counts.passed += taken;
            counts.filtered += dropped;
        }
        derived.rows += more;
    }

    /// Rows for the table `place`, where they come from, and a time to measure the latency by.
    pub fn rows(&mut self, place: usize, rows: Selected, origins: Part, time_ms: Option<i64>) {
        if self.cut.tables.len() <= place {
            self.cut.tables.resize_with(place + 1, TableCut::default);
        }
        let table = &mut self.cut.tables[place];
        table.count += rows.len() as u64;
        self.bytes += rows.batch().get_array_memory_size() as u64;
        table.rows.push(rows);
        table.origins.parts.push(origins);
        if table.samples_ms.len() < SAMPLES_MAX {
            table.samples_ms.extend(time_ms);
        }
    }

    /// What became of the record at `position`, which follows the one told before it.
    pub fn fate(&mut self, partition: u32, position: Position, fate: Fate) {
        match self.cut.fates.iter_mut().find(|fates| fates.partition == partition) {
            Some(fates) => fates.codes.push(fate.code()),
            None => {
                let first = Fates {
                    partition,
                    from: position::low(position),
                    codes: vec![fate.code()],
                    ..Fates::default()
                };
                self.cut.fates.push(first);
            }
        }
    }

    fn own(&mut self) -> &mut Counts {
        self.cut.counts.entry(self.input).or_default()
    }

    /// What the records gathered so far became: the sum over the inputs.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.cut.counts.values().for_each(|counts| sum.add(counts));
        sum
    }

    /// The same, with the rows that were gathered.
    pub fn totals(&self) -> Totals {
        let written = self.cut.tables.iter().map(|table| table.count).sum();
        // Which rows are replaced is known once the cut is encoded.
        let dead_letters = self.cut.rejects.len() as u64;
        Totals { records: self.counts(), written, replaced: 0, dead_letters }
    }

    /// How many of the records gathered so far have a fate that is told: those that are replayed.
    pub fn replayed(&self) -> u64 {
        self.cut.fates.iter().map(|fates| fates.codes.len() as u64).sum()
    }

    /// Rows of the table that gets most.
    pub fn rows_max(&self) -> u64 {
        self.cut.tables.iter().map(|table| table.count).max().unwrap_or(0)
    }

    /// Arrow and reject bytes gathered so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the first record came in; `None` if none has.
    pub fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// True if a refused row waits to be sealed as a dead letter.
    pub fn has_refusals(&self) -> bool {
        !self.cut.refusals.is_empty()
    }

    /// True if there is nothing to seal: not even a position has moved.
    pub fn is_empty(&self) -> bool {
        self.cut.ranges.is_empty() && self.cut.refusals.is_empty()
    }

    /// Takes what was gathered.
    pub fn take(&mut self, number: u64) -> Cut {
        let recreated = std::mem::take(&mut self.recreated);
        let taken = std::mem::replace(self, Self { recreated, ..Self::default() });
        Cut { number, ..taken.cut }
    }
}

/// What a reject counts towards the bound of a batch.
fn reject_bytes(reject: &Reject) -> u64 {
    let key = reject.key.as_ref().map_or(0, Vec::len);
    (reject.raw.len() + key + reject.headers.len() + reject.message.len() + 64) as u64
}

#[cfg(test)]
mod tests;
