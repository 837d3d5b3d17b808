//! Rows of the left side, each with the version of the right side that held at its time: a temporal join.
//!
//! Owns the rule, and the two halves of the state: left rows that wait, and versions. Does not own the columns, pages and bytes of held rows, which it shares
//! with the interval join (`super`), nor the watermark (the engine moves it, and seals it).
//!
//! **The rule.** Each row of the right side is a *version* of its key: it holds from its own time to that of the next version, and of two with the same time the one
//! that was read later holds. A left row gets the version of its key that holds at its time: the one with the greatest time that is not later than the row's. It waits
//! until the watermark has passed its time by `lateness`, so the result does not depend on which of the two was read first.
//!
//! | a row                                                        | becomes                                                     |
//! |--------------------------------------------------------------|-------------------------------------------------------------|
//! | it has no usable time                                        | a reject: it is unknown which version it is, or gets        |
//! | left, its time is less than the watermark less `lateness`    | late, and dropped ([`Output::late`]): its version may have been freed |
//! | left, any other                                              | held ([`Output::absorbed`]) until the watermark less `lateness` is more than its time |
//! | right, its time is less than that, and a later version of its key held at the last seal | late, and dropped: no row that is to come would get it |
//! | right, any other                                             | held until no row that is to come can get it                |
//! | either, with a NULL in its key                               | held as any other, and matches nothing                      |
//!
//! So the newest version is accepted however late it comes: a side that changes rarely falls silent, and the watermark advances without it. Rows that
//! were released before it came have the version before it.
//!
//! | a held row                                           | is released by the first seal whose watermark less `lateness`     | because                             |
//! |------------------------------------------------------|-------------------------------------------------------------------|-------------------------------------|
//! | left                                                 | is more than its time                                             | versions that come are later        |
//! | a version behind which there is another of its key   | is at least the time of that one                                  | left rows that come get that one    |
//! | a version that deletes its key, if it is the only one | is [`DELETED_MS`] more than its time; if versions are in files, the seal after a merge has dropped it | a version from before it that comes so late is not expected |
//! | the newest version of a key                          | never                                                             | it holds until the next             |
//!
//! A left row without a version, or whose version deletes the key, is without a match: it comes out with NULLs for the right side, with an inner join it goes
//! [beside](TemporalConfig::unmatched) the output or is dropped, and it is counted ([`Output::unmatched`]).
//!
//! | module     | what it owns                                                             |
//! |------------|--------------------------------------------------------------------------|
//! | `versions` | the right side: versions by key and time, and which of them can go        |
//! | [`spilled`] | versions that left memory                                                |
//! | `spilling` | when versions leave memory, and what rows need of those that did          |
//! | `results`  | from left rows and their versions to rows of the output                   |
//!
//! **State** is that of the interval join: the delta of a seal is the rows that it absorbed, batch by batch, and a start takes them in by the same code. A version stays for as
//! long as its key does. Left rows that wait, and versions that the watermark has not reached, stay in [memory](TemporalJoin::with_memory); older versions beyond it are [spilled] to files. A small
//! stream stays in memory as a whole: this is also how it is given to every row.

mod results;
pub mod spilled;
mod spilling;
mod versions;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Ahead, Batch, KeptEnum, Operator, OperatorError, Output, Probed, Schema, State, StateError, StateFile,
    StateRead, StateWork,
};

use super::arena::{NONE, Row, UNLINKED};
use super::incoming::{self, Incoming, OfSide, Sorted, Taken};
use super::pages::ROWS_MAX;
use super::plan::{Plan, Rule};
use super::side::Side;
use super::state::{self, Fresh, Head, Kind, Writer};
use super::{JoinColumn, JoinConfig, JoinKind, JoinSide, MEMORY_DEFAULT, NOT_SEEN, codec, failed, made};
use crate::ConfigError;
use results::{Due, From, Version};
use spilled::marks::Marks;
use spilled::{Sizes, Spilled};
use versions::Versions;

/// How long a deletion is remembered: a version from before it that comes later than that brings its key back. A day, because a topic whose partitions are further apart
/// in time is not read in step.
pub const DELETED_MS: i64 = 24 * 3600 * 1_000;

/// The settings of a temporal join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporalConfig {
    /// The key: pairs of a column of the left side and one of the right; 1 to [`super::KEY_COLUMNS_MAX`].
    pub on: Vec<(String, String)>,
    /// How far behind the watermark a left row may be without being late, and how much longer rows wait; at most 3650 days, in whole milliseconds.
    pub lateness: Duration,
    /// Whether left rows without a version become rows of the output.
    pub is_outer: bool,
    /// The columns of the output, in order; 1 to [`super::COLUMNS_MAX`].
    pub columns: Vec<JoinColumn>,
    /// A Bool column of the right side that is true for a version that deletes its key; NULL is no deletion.
    pub deleted: Option<String>,
    /// The columns of left rows without a version that go out beside the output; none if such rows do not.
    pub unmatched: Vec<String>,
}

impl TemporalConfig {
    fn plan(&self, left: &Schema, right: &Schema) -> Result<Plan, ConfigError> {
        let config = JoinConfig {
            on: self.on.clone(),
            before: Duration::ZERO,
            after: Duration::ZERO,
            lateness: self.lateness,
            kind: if self.is_outer { JoinKind::Left } else { JoinKind::Inner },
            columns: self.columns.clone(),
            unmatched: [self.unmatched.clone(), Vec::new()],
        };
        Plan::new(left, right, &config, Rule::Version(self.deleted.as_deref()))
    }
}

/// The temporal join, with the left rows that wait and the versions of the right side.
pub struct TemporalJoin {
    plan: Arc<Plan>,
    /// The rows that wait. They are in no chain.
    left: Side,
    right: Versions,
    /// Versions that left memory.
    spilled: Spilled,
    /// The left rows that a floor releases, with what is in memory for them: between what is read for them and their release.
    due: Option<(i64, Vec<Due>)>,
    /// The rows that each batch brought since the last seal, by the first of them, in the order of arrival.
    fresh: Vec<(JoinSide, u32)>,
    /// The first row of each side since then.
    sealed: [u32; 2],
    watermark_ms: i64,
    /// The position of the next row.
    position: u64,
    /// How many of the numbers before it the last release gave to rows that are not of the output.
    aside: u64,
    /// The delta of the seal under way, made when its watermark was known.
    delta: Bytes,
    memory_max: u64,
    closes_at_end: bool,
    /// Whether it is what an `upsert` keeps its rows in: what errors call its versions.
    is_of_upsert: bool,
}

impl TemporalJoin {
    /// A step for batches of `left`, its first input, and `right`, its second, with no row held.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(left: &Schema, right: &Schema, config: &TemporalConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            plan: Arc::new(config.plan(left, right)?),
            left: Side::default(),
            right: Versions::default(),
            spilled: Spilled::new(Sizes::new(MEMORY_DEFAULT)),
            due: None,
            fresh: Vec::new(),
            sealed: [0; 2],
            watermark_ms: TIME_UNKNOWN_MS,
            position: 0,
            aside: 0,
            delta: Bytes::new(),
            memory_max: MEMORY_DEFAULT,
            closes_at_end: false,
            is_of_upsert: false,
        })
    }

    /// For the last rows of an [`Upsert`](crate::Upsert).
    #[must_use]
    pub(crate) fn of_upsert(self) -> Self {
        Self { is_of_upsert: true, ..self }
    }

    /// Takes this much memory for rows that wait and for versions, before those that arrived first are spilled to files.
    #[must_use]
    pub fn with_memory(self, memory_max: u64) -> Self {
        Self { memory_max, ..self }.with_sizes(Sizes::new(memory_max))
    }

    /// As [`with_memory`](Self::with_memory), with all sizes: for tests and measurements.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.spilled.sizes = sizes;
        self
    }

    /// Releases the left rows that wait when every input has ended, though no record says that their time is over. Left rows that come later, because a file
    /// has grown, are late then.
    #[must_use]
    pub fn with_close_at_end(self, closes_at_end: bool) -> Self {
        Self { closes_at_end, ..self }
    }

    /// The columns of the rows that it makes. Those of the right side are Nullable with an outer join.
    pub fn output(&self) -> &Schema {
        &self.plan.output
    }

    /// Takes rows in, and says how many were late.
    fn absorb(&mut self, taken: Taken) -> Result<u64, String> {
        let side = taken.rows.side;
        let first = self.next(side);
        if u64::from(first) + taken.times_ms.len() as u64 >= u64::from(UNLINKED) {
            return Err("more than a billion rows came since the last seal".to_owned());
        }
        let late = match side {
            JoinSide::Left => {
                wait(&mut self.left, taken);
                0
            }
            JoinSide::Right => {
                let sealed = (self.plan.floor_ms(self.watermark_ms), self.sealed[1]);
                self.right.absorb(&self.plan, sealed, taken)?
            }
        };
        if self.next(side) > first {
            self.fresh.push((side, first));
        }
        Ok(late)
    }

    /// The number of the next row of a side.
    fn next(&self, side: JoinSide) -> u32 {
        match side {
            JoinSide::Left => self.left.arena.next(),
            JoinSide::Right => self.right.arena.next(),
        }
    }

    fn fresh(&self, side: JoinSide, first: u32) -> Fresh<'_> {
        match side {
            JoinSide::Left => {
                let page = self.left.page(first).expect("pages stay as they are until they are sealed");
                let (ids, columns, bytes) = (page.first..page.end(), &page.columns[..], page.memory_bytes());
                Fresh { side, arena: &self.left.arena, ids, columns, bytes }
            }
            JoinSide::Right => self.right.fresh(first),
        }
    }

    /// Releases the rows that this watermark allows, and says that merges have dropped so many versions. The delta must have been made before, and what is in files read.
    fn release(&mut self, watermark_ms: i64, dropped: u64) -> Result<Vec<Output>, OperatorError> {
        self.watermark_ms = watermark_ms;
        let plan = self.plan.clone();
        let floor_ms = plan.floor_ms(watermark_ms);
        let due = self.left.release(plan.side(JoinSide::Left), floor_ms);
        let found = self.found(floor_ms, &due)?;
        let lone = found.iter().filter(|found| found.version == Version::None);
        let lone: Vec<(i64, u32)> = lone.map(|found| (found.time_ms, found.row)).collect();
        let unmatched = lone.len() as u64;
        let mut outputs = Vec::new();
        let chunks = self.spilled.chunks();
        let from = From { left: &self.left, right: &self.right, chunks: &chunks };
        for batch in results::joined(&plan, from, found, self.position).map_err(not_gathered)? {
            self.position += batch.len() as u64;
            outputs.push(made(batch));
        }
        let gather = |ids: &[u32]| self.left.gather(ids);
        let unmatched_rows = super::results::aside(&plan, JoinSide::Left, lone, gather, self.position);
        let unmatched_rows = unmatched_rows.map_err(not_gathered)?;
        self.aside = if plan.side(JoinSide::Left).is_outer { 0 } else { unmatched };
        self.position += self.aside;
        let count = dropped + self.settle(floor_ms, &due).map_err(not_gathered)?;
        if outputs.is_empty() && count > 0 {
            let none = super::results::batch(&plan, None, Vec::new(), self.position);
            outputs.push(made(none.map_err(not_gathered)?));
        }
        if let Some(first) = outputs.first_mut() {
            (first.released, first.unmatched) = (count, unmatched);
            first.unmatched_rows =
                unmatched_rows.into_iter().map(|batch| (JoinSide::Left as usize, batch)).collect();
        }
        Ok(outputs)
    }

    /// Releases the rows that a watermark has released before. While versions are spilled it is not known which were without a match: each took a number all the same.
    fn release_again(&mut self, watermark_ms: i64) -> Result<(), StateError> {
        self.watermark_ms = watermark_ms;
        let of_left = &self.plan.sides[JoinSide::Left as usize];
        let (floor_ms, is_outer) = (self.plan.floor_ms(watermark_ms), of_left.is_outer);
        let due = self.left.release(of_left, floor_ms);
        self.aside = 0;
        if !is_outer && self.spilled.is_empty() {
            let found = self.found(floor_ms, &due).map_err(codec::damaged)?;
            self.aside = found.iter().filter(|found| found.version == Version::None).count() as u64;
        }
        self.position += due.len() as u64;
        self.settle(floor_ms, &due).map_err(codec::damaged)?;
        Ok(())
    }

    /// Frees the left rows that are released, and the versions that are no longer needed; how many of both.
    fn settle(&mut self, floor_ms: i64, due: &[u32]) -> Result<u64, ArrowError> {
        due.iter().for_each(|id| self.left.arena.release(*id));
        let count = due.len() as u64 + self.right.settle(floor_ms, self.sealed[1])?;
        // Left rows are in no index.
        if self.left.tidy(self.sealed[0], 0)? {
            self.left = self.left.moved()?;
        }
        self.spilled.tidy();
        self.due = None;
        self.fresh.clear();
        self.sealed = JoinSide::BOTH.map(|side| self.next(side));
        Ok(count)
    }
}

/// Takes left rows in. Those with a NULL in their key are marked as such.
fn wait(left: &mut Side, Taken { rows, times_ms }: Taken) {
    let first = left.arena.next();
    for (row, (time_ms, hash)) in times_ms.iter().copied().zip(rows.hashes).enumerate() {
        let is_keyed = rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row));
        let newer = if is_keyed { NONE } else { UNLINKED };
        left.arena.push(Row { hash, time_ms, older: NONE, newer }, false);
    }
    left.add(first, &times_ms, rows.columns);
}

/// Rows that cannot be put together: their texts are too large for one batch.
fn not_gathered(error: ArrowError) -> OperatorError {
    failed(format!(
        "a row does not fit one batch: {error}; nothing of this batch is sealed, and nothing is lost. Leave out large columns: {}",
        super::DROPPED
    ))
}

impl Operator for TemporalJoin {
    fn name(&self) -> &str {
        super::NAME
    }

    fn inputs(&self) -> usize {
        2
    }

    fn columns(&self, input: usize) -> Option<&Schema> {
        self.plan.inputs.get(input)
    }

    fn ahead_of(&self, input: usize) -> Option<Arc<dyn Ahead>> {
        let side = JoinSide::of(input)?;
        Some(Arc::new(OfSide { plan: self.plan.clone(), side }))
    }

    fn probe(&mut self, _batch: Batch) -> Result<Probed, OperatorError> {
        Err(failed("a batch came without the number of its input; this is a fault of the program".to_owned()))
    }

    fn probe_of(&mut self, input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        let Some(side) = JoinSide::of(input) else {
            return Err(failed(format!("a batch came from input `{input}`; a join has the inputs 0 and 1")));
        };
        let rows = Incoming::of(&self.plan, side, &batch).map_err(failed)?;
        self.probe_ahead(input, batch, Box::new(rows))
    }

    fn probe_ahead(
        &mut self,
        _input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        if self.spilled.is_empty() {
            return Ok(Probed { batch, reads: Vec::new(), scratch: Some(scratch) });
        }
        let Ok(rows) = scratch.downcast::<Incoming>() else { return Err(failed(NOT_SEEN.to_owned())) };
        if rows.side == JoinSide::Left {
            return Ok(Probed { batch, reads: Vec::new(), scratch: Some(rows) });
        }
        if rows.hashes.len() != batch.len() {
            return Err(failed(NOT_SEEN.to_owned()));
        }
        self.ask(batch, rows)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let Some((rows, candidates)) = spilling::unpack(probed.scratch) else {
            return Err(failed(NOT_SEEN.to_owned()));
        };
        let is_asked = candidates.is_some() || rows.side == JoinSide::Left || self.spilled.is_empty();
        if rows.hashes.len() != probed.batch.len() || !is_asked {
            return Err(failed(NOT_SEEN.to_owned()));
        }
        self.due = None;
        let floor_ms = match rows.side {
            JoinSide::Left => self.plan.floor_ms(self.watermark_ms),
            // Which versions are late is known to those that are there.
            JoinSide::Right => i64::MIN,
        };
        let (era, partition) = (probed.batch.era, probed.batch.partition.clone());
        let Sorted { mut taken, mut late, rejects } =
            incoming::sort(floor_ms, probed.batch, *rows).map_err(failed)?;
        if let Some(candidates) = candidates {
            late += self.drop_late(&candidates, answers, &mut taken)?;
        }
        let came = taken.times_ms.len() as u64;
        let superseded = self.absorb(taken).map_err(failed)?;
        let rows = RecordBatch::new_empty(self.plan.output.arrow().clone());
        let batch =
            Batch { items: Vec::new(), era, partition, rows, positions: Vec::new(), times_ms: Vec::new() };
        Ok(Output { absorbed: came - superseded, late: late + superseded, rejects, ..Output::all(batch) })
    }

    fn advance_reads(
        &mut self,
        watermark_ms: i64,
        is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        let watermark_ms = if is_closing { self.closing(watermark_ms) } else { watermark_ms };
        let floor_ms = self.plan.floor_ms(watermark_ms.max(self.watermark_ms));
        self.reads(floor_ms).map_err(|error| failed(error.to_string()))
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.spilled.read(&self.plan, answers).map_err(|error| failed(error.to_string()))
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        // A watermark that goes back is ignored: released rows do not come back.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        let plan = self.plan.clone();
        self.check_read(plan.floor_ms(watermark_ms))?;
        let mut marks = Marks { dropped: self.spilled.tell(), frozen: Vec::new() };
        let is_new = !self.fresh.is_empty() || watermark_ms != self.watermark_ms;
        let head = Head { watermark_ms, position: self.position };
        let fresh: Vec<Fresh<'_>> =
            self.fresh.iter().map(|(side, first)| self.fresh(*side, *first)).collect();
        let delta = is_new.then(|| state::write_delta(&plan, head, &fresh));
        drop(fresh);
        let outputs = self.release(watermark_ms, marks.dropped)?;
        marks.frozen = self.make_room()?;
        let has_marks = marks != Marks::default();
        let delta = delta.or_else(|| has_marks.then(|| state::write_delta(&plan, head, &[])));
        self.delta = match delta {
            Some(delta) if has_marks => delta.finish_with(|to| marks.write(to)),
            Some(delta) => delta.finish(),
            None => Bytes::new(),
        };
        Ok(outputs)
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        // Rows come out with their own times, and all before this one have.
        self.plan.floor_ms(watermark_ms)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        let floor_ms = self.plan.floor_ms(watermark_ms.max(self.watermark_ms));
        self.left.has_due(self.plan.side(JoinSide::Left), floor_ms)
    }

    fn closes_at_end(&self) -> bool {
        self.closes_at_end
    }

    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.advance(self.closing(watermark_ms))
    }

    fn waiting(&mut self) -> u64 {
        self.left.held()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for TemporalJoin {
    fn absorbs(&self) -> bool {
        true
    }

    fn shape(&self) -> String {
        self.plan.shape.clone()
    }

    fn enums(&self) -> Vec<KeptEnum> {
        self.plan.enums()
    }

    fn loss(&self) -> &str {
        "the rows that wait in its join, which are in no result, and every version of its right side: rows that come later find none until there is a new one"
    }

    fn seal(&mut self, _watermark_ms: i64) -> Bytes {
        std::mem::take(&mut self.delta)
    }

    fn snapshot(&self) -> Bytes {
        assert!(self.fresh.is_empty(), "a snapshot is taken right after a seal");
        let head = Head { watermark_ms: self.watermark_ms, position: self.position };
        let mut writer = Writer::new(Kind::Snapshot, &self.plan, head);
        let go_together = "held columns go together: `tidy` does it, too";
        self.left
            .in_parts(&self.left.by_arrival(), ROWS_MAX, &mut |ids, columns| {
                writer.block((JoinSide::Left, &self.left.arena), ids.iter().copied(), &columns);
                Ok::<(), ArrowError>(())
            })
            .expect(go_together);
        self.right
            .in_parts(&self.right.by_arrival(), ROWS_MAX, &mut |ids, columns| {
                writer.block((JoinSide::Right, &self.right.arena), ids.iter().copied(), &columns);
                Ok::<(), ArrowError>(())
            })
            .expect(go_together);
        match self.spilled.is_blank() {
            true => writer.finish(),
            false => writer.finish_with(|to| self.spilled.write(to)),
        }
    }

    fn files(&self) -> Vec<StateFile> {
        self.spilled.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let (mut left, mut right) = (Side::default(), Versions::default());
        let plan = self.plan.clone();
        let head = state::parse(snapshot, Kind::Snapshot, &plan, |block| {
            match block.taken.rows.side {
                JoinSide::Left => wait(&mut left, block.taken),
                JoinSide::Right => right.load(&plan, block.taken),
            }
            Ok(())
        });
        let (head, marks) = head?;
        let sizes = self.spilled.sizes;
        self.spilled = match marks {
            None => Spilled::new(sizes),
            Some(marks) => Spilled::of_snapshot(sizes, marks)?,
        };
        right.link_all(plan.floor_ms(head.watermark_ms));
        if !self.spilled.is_blank() {
            right.keep_deletions();
        }
        (self.left, self.right, self.due) = (left, right, None);
        (self.watermark_ms, self.position) = (head.watermark_ms, head.position);
        self.sealed = JoinSide::BOTH.map(|side| self.next(side));
        (self.fresh, self.delta, self.aside) = (Vec::new(), Bytes::new(), 0);
        Ok(self.spilled.opening())
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.spilled.open(bytes)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let plan = self.plan.clone();
        let head = state::parse(delta, Kind::Delta, &plan, |block| {
            let late = self.absorb(block.taken).map_err(codec::damaged)?;
            if late > 0 {
                return Err(codec::damaged(format!(
                    "holds `{late}` versions that others had replaced before"
                )));
            }
            Ok(())
        });
        let (head, marks) = head?;
        let marks = marks.map_or(Ok(Marks::default()), Marks::read)?;
        super::check_numbers((self.position, self.aside), 0, head.position)?;
        self.position = head.position;
        self.release_again(head.watermark_ms.max(self.watermark_ms))?;
        self.spilled.told(marks.dropped)?;
        self.freeze_all(&marks.frozen)
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        let floor_ms = self.plan.floor_ms(self.watermark_ms);
        self.spilled.work(&self.plan, floor_ms)
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.spilled.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.spilled.is_waiting() && self.is_over()
    }

    fn held(&self) -> u64 {
        self.left.held() + self.versions()
    }

    fn unsealed_bytes(&self) -> u64 {
        (self.left.bytes_from(self.sealed[0]) + self.right.bytes_from(self.sealed[1])) as u64
    }

    /// The rows that are held: each is an entry.
    fn entries(&self) -> u64 {
        self.held()
    }

    fn spilled_entries(&self) -> u64 {
        self.spilled.held_in_files()
    }

    fn memory_bytes(&self) -> u64 {
        self.in_memory_bytes() + self.spilled.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
