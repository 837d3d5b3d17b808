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
//! | a version that deletes its key, if it is the only one | is [`DELETED_MS`] more than its time                             | a version from before it that comes so late is not expected |
//! | the newest version of a key                          | never                                                             | it holds until the next             |
//!
//! A left row without a version, or whose version deletes the key, is without a match: it comes out with NULLs for the right side, with an inner join it goes
//! [beside](TemporalConfig::unmatched) the output or is dropped, and it is counted ([`Output::unmatched`]).
//!
//! | module     | what it owns                                                             |
//! |------------|--------------------------------------------------------------------------|
//! | `versions` | the right side: versions by key and time, and which of them can go        |
//! | `results`  | from left rows and their versions to rows of the output                   |
//!
//! **State** is that of the interval join: the delta of a seal is the rows that it absorbed, batch by batch, and a start takes them in by the same code. A version stays for as
//! long as its key does, so the right side must fit into the step's [memory](TemporalJoin::with_memory): this is also how a small stream is given to every row.

mod results;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Ahead, Batch, KeptEnum, Operator, OperatorError, Output, Probed, Schema, State, StateError, StateRead,
};

use super::arena::{NONE, Row, UNLINKED};
use super::incoming::{self, Incoming, OfSide, Sorted, Taken};
use super::pages::ROWS_MAX;
use super::plan::{Plan, Rule};
use super::side::Side;
use super::state::{self, Fresh, Head, Kind, Writer};
use super::{JoinColumn, JoinConfig, JoinKind, JoinSide, MEMORY_DEFAULT, codec, failed, made};
use crate::ConfigError;
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
            fresh: Vec::new(),
            sealed: [0; 2],
            watermark_ms: TIME_UNKNOWN_MS,
            position: 0,
            aside: 0,
            delta: Bytes::new(),
            memory_max: MEMORY_DEFAULT,
            closes_at_end: false,
        })
    }

    /// Takes this much memory for rows that wait and for versions.
    #[must_use]
    pub fn with_memory(self, memory_max: u64) -> Self {
        Self { memory_max, ..self }
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

    fn check_memory(&self) -> Result<(), OperatorError> {
        let bytes = self.memory_bytes();
        if bytes <= self.memory_max {
            return Ok(());
        }
        Err(failed(format!(
            "the join holds `{}` rows of its left side that wait and `{}` versions of its right side in `{bytes}` bytes, and `memory` is `{}`; nothing of this batch is \
             sealed, and nothing is lost. Raise `memory` of the step (and of the pipeline), then start again. The newest version of each key stays: fewer columns of the \
             right side, and `deleted` for keys that are no more, take less memory: change them, and start once with `--new-state`, which drops the rows and versions that the \
             join holds",
            self.left.held(),
            self.right.held(),
            self.memory_max
        )))
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

    /// Releases the rows that this watermark allows. The delta must have been made before.
    fn release(&mut self, watermark_ms: i64) -> Result<Vec<Output>, ArrowError> {
        self.watermark_ms = watermark_ms;
        let plan = self.plan.clone();
        let floor_ms = plan.floor_ms(watermark_ms);
        let due = self.left.release(plan.side(JoinSide::Left), floor_ms);
        let found = results::by_time(&self.left, &self.right, &due);
        let lone: Vec<u32> =
            found.iter().filter(|found| found.version == NONE).map(|found| found.row).collect();
        let unmatched = lone.len() as u64;
        let mut outputs = Vec::new();
        for batch in results::joined(&plan, (&self.left, &self.right), found, self.position)? {
            self.position += batch.len() as u64;
            outputs.push(made(batch));
        }
        let rows = lone.iter().map(|id| (self.left.arena.get(*id).time_ms, *id)).collect();
        let gather = |ids: &[u32]| self.left.gather(ids);
        let unmatched_rows = super::results::aside(&plan, JoinSide::Left, rows, gather, self.position)?;
        self.aside = if plan.side(JoinSide::Left).is_outer { 0 } else { unmatched };
        self.position += self.aside;
        due.iter().for_each(|id| self.left.arena.release(*id));
        let count = due.len() as u64 + self.right.settle(floor_ms, self.sealed[1])?;
        if self.left.tidy(self.sealed[0])? {
            self.left = self.left.moved()?;
        }
        if outputs.is_empty() && count > 0 {
            outputs.push(made(super::results::batch(&plan, None, Vec::new(), self.position)?));
        }
        if let Some(first) = outputs.first_mut() {
            (first.released, first.unmatched) = (count, unmatched);
            first.unmatched_rows =
                unmatched_rows.into_iter().map(|batch| (JoinSide::Left as usize, batch)).collect();
        }
        self.fresh.clear();
        self.sealed = JoinSide::BOTH.map(|side| self.next(side));
        Ok(outputs)
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
        Ok(Probed { batch, reads: Vec::new(), scratch: Some(Box::new(rows)) })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = probed.scratch.and_then(|scratch| scratch.downcast::<Incoming>().ok());
        let Some(rows) = rows.filter(|rows| rows.hashes.len() == probed.batch.len()) else {
            return Err(failed(
                "a batch came to `finish` that `probe_of` of this step has not seen".to_owned(),
            ));
        };
        let floor_ms = match rows.side {
            JoinSide::Left => self.plan.floor_ms(self.watermark_ms),
            // Which versions are late is known to those that are there.
            JoinSide::Right => i64::MIN,
        };
        let (era, partition) = (probed.batch.era, probed.batch.partition.clone());
        let Sorted { taken, late, rejects } =
            incoming::sort(floor_ms, probed.batch, *rows).map_err(failed)?;
        let came = taken.times_ms.len() as u64;
        let superseded = self.absorb(taken).map_err(failed)?;
        let rows = RecordBatch::new_empty(self.plan.output.arrow().clone());
        let batch =
            Batch { items: Vec::new(), era, partition, rows, positions: Vec::new(), times_ms: Vec::new() };
        Ok(Output { absorbed: came - superseded, late: late + superseded, rejects, ..Output::all(batch) })
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        // A watermark that goes back is ignored: released rows do not come back.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        self.delta = if self.fresh.is_empty() && watermark_ms == self.watermark_ms {
            Bytes::new()
        } else {
            let head = Head { watermark_ms, position: self.position };
            let fresh: Vec<Fresh<'_>> =
                self.fresh.iter().map(|(side, first)| self.fresh(*side, *first)).collect();
            state::write_delta(&self.plan, head, &fresh).finish()
        };
        let outputs = self.release(watermark_ms).map_err(not_gathered)?;
        self.check_memory()?;
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
        let closing = self.left.last_ms().map(|last_ms| last_ms.saturating_add(self.plan.lateness_ms + 1));
        self.advance(closing.map_or(watermark_ms, |closing| closing.max(watermark_ms)))
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
        writer.finish()
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
        let head = state::in_memory(head?)?;
        right.link_all(plan.floor_ms(head.watermark_ms));
        (self.left, self.right) = (left, right);
        (self.watermark_ms, self.position) = (head.watermark_ms, head.position);
        self.sealed = JoinSide::BOTH.map(|side| self.next(side));
        (self.fresh, self.delta, self.aside) = (Vec::new(), Bytes::new(), 0);
        Ok(Vec::new())
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
        let head = state::in_memory(head?)?;
        super::check_numbers((self.position, self.aside), 0, head.position)?;
        self.position = head.position;
        self.release(head.watermark_ms.max(self.watermark_ms)).map_err(codec::damaged)?;
        Ok(())
    }

    fn held(&self) -> u64 {
        self.left.held() + self.right.held()
    }

    fn unsealed_bytes(&self) -> u64 {
        (self.left.bytes_from(self.sealed[0]) + self.right.bytes_from(self.sealed[1])) as u64
    }

    /// The rows that are held: each is an entry.
    fn entries(&self) -> u64 {
        self.held()
    }

    fn memory_bytes(&self) -> u64 {
        (self.left.memory_bytes() + self.right.memory_bytes()) as u64
    }
}

#[cfg(test)]
mod tests;
