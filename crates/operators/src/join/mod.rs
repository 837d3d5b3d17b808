//! Pairs of rows of two inputs, with equal keys and times near each other: an interval join.
//!
//! Owns the rule, the rows that it makes, and the state between a row and the last one that can match it. Does not own the watermark (the engine moves it,
//! and seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this step).
//!
//! **The rule.** A left and a right row *match* if their keys are equal, and the right one's time is at least the left one's less `before` and at most the left
//! one's plus `after`. The result holds every pair of matching rows neither of which is late, once, however the two inputs come: a pair is made when the later
//! *arriving* of its rows does. With an outer kind it also holds each row of the outer side that never matched, when no row that could match it can come any more.
//!
//! | a row                                              | becomes                                              |
//! |----------------------------------------------------|------------------------------------------------------|
//! | its time is less than the watermark less `lateness` | late, and dropped ([`Output::late`])                |
//! | it has no usable time                              | a reject: no interval holds it                       |
//! | any other                                          | held ([`Output::absorbed`]), and joined at once with each held row that it matches |
//! | of these, one with a NULL in its key               | held as well, but matches nothing, as in SQL         |
//!
//! The watermark is that of the last seal, so whether a row is late depends on the sealed order alone.
//!
//! | a held row  | is released by the first seal whose watermark less `lateness` is more than | because every row that it can match has at most that time |
//! |-------------|------------------------|--------------------------------|
//! | left        | its time plus `after`  | a right row that comes is later |
//! | right       | its time plus `before` | a left row that comes is later  |
//!
//! | released, and it    | inner                     | the side is outer                                          | the side's rows go [beside](JoinConfig::unmatched) |
//! |---------------------|---------------------------|------------------------------------------------------------|----------------------------|
//! | was in a pair       | dropped                   | dropped                                                    | dropped                    |
//! | never matched       | dropped, [`Output::unmatched`] | a row with NULLs for the other side, [`Output::unmatched`] | one of [`Output::unmatched_rows`] with its side's columns, [`Output::unmatched`] |
//!
//! | a made row          | time                      | position                                                                 |
//! |---------------------|---------------------------|--------------------------------------------------------------------------|
//! | of a pair           | the later of the two      | a number that counts up and never repeats, kept in the state             |
//! | without a match     | its own                   | the same; such rows of a seal come by time, then the left side first, then in the order of arrival |
//! | beside the output   | its own                   | the same, behind those of the output: the left side's first, each by time and then by arrival |
//!
//! A row without a match takes a number even if it is dropped: so it does not depend on the settings which numbers are taken.
//!
//! Keys are equal if their 128-bit hashes are ([`dedup::key`](crate::dedup::key)), so -0 equals 0 and every NaN every other.
//!
//! | module     | what it owns                                                       |
//! |------------|--------------------------------------------------------------------|
//! | `plan`     | the settings, their checks, and the output's columns               |
//! | `incoming` | the rows of a batch, before and after their fate is known          |
//! | `store`    | the held rows of both sides, and the matching                      |
//! | `index`    | from a key to its rows                                             |
//! | `side`     | the held rows of one side, and how their memory is kept in bounds  |
//! | `arena`    | key, time and neighbours of each                                   |
//! | `pages`    | their columns                                                      |
//! | `columns`  | columns of all forms, copied and gathered                          |
//! | `lonely`   | rows without a match, wherever they are                            |
//! | `results`  | from pairs and rows without a match to rows of the output          |
//! | [`spilled`] | held rows that left memory                                        |
//! | `spilling` | when rows leave memory, and what a batch needs of those that did    |
//! | [`state`]  | the bytes of deltas and snapshots                                  |
//! | `codec`    | columns and numbers in them                                        |
//! | `forms`    | the words for forms of columns                                     |
//! | [`temporal`] | another rule on the same parts: each left row with one version of the right side |
//!
//! **State.** The held rows, of their columns those of the output alone, with the hash of the key. The delta of a seal is the rows that were absorbed since the
//! one before, in the order of their arrival: a start takes them in by the same code, drops what they make, and has the same state. What takes more than the step's
//! [memory](Join::with_memory) is [spilled] to files; which rows are there changes neither rows nor their order. `docs/design/joins.md` has the reasons.

mod arena;
mod codec;
mod columns;
mod forms;
mod incoming;
mod index;
mod lonely;
mod pages;
mod plan;
mod results;
mod side;
pub mod spilled;
mod spilling;
pub mod state;
mod store;
pub mod temporal;

use std::any::Any;
use std::sync::Arc;

use arrow_schema::ArrowError;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Ahead, Batch, KeptEnum, Operator, OperatorError, Output, Probed, Schema, State, StateError, StateFile,
    StateRead, StateWork,
};

use crate::ConfigError;
use incoming::{Incoming, OfSide, Sorted};
use lonely::Lonely;
use pages::ROWS_MAX;
pub use plan::{COLUMNS_MAX, JoinColumn, JoinConfig, JoinKind, JoinSide, KEY_COLUMNS_MAX};
use plan::{Plan, Rule};
use results::Pairs;
use spilled::marks::Marks;
use spilled::{Released, Sizes, Spilled};
use spilling::Asking;
use state::{Fresh, Head, Kind, Writer};
use store::{Full, PAIRS_MAX, Store};
pub use temporal::{TemporalConfig, TemporalJoin};

const NAME: &str = "join";

/// A batch that the step cannot go on with.
const NOT_SEEN: &str = "a batch came to `finish` that `probe_of` of this step has not seen";

/// Memory for held rows unless the step is given another: some two million rows of seventy bytes, before they are spilled.
pub const MEMORY_DEFAULT: u64 = 256 << 20;

/// Rows that are due are worth a cut of their own if they are at least one in so many of those held.
const DUE_SHARE: u64 = 2;

/// And if what is held takes at least one in so many bytes of the step's memory.
const MEMORY_SHARE: u64 = 4;

/// The end of a way out that makes another join.
pub(in crate::join) const DROPPED: &str =
    "change the step, and start once with `--new-state`, which drops the rows that the join holds";

/// The interval join, with the rows that can still match.
pub struct Join {
    plan: Arc<Plan>,
    store: Store,
    /// Rows that left memory: those that arrived first.
    spilled: Spilled,
    /// Rows since the last seal that are in a pair with one of those, and in no other; and how many such pairs there were.
    paired: [Vec<u32>; 2],
    pairs: u64,
    /// The pages that came since the last seal, in the order of arrival, each by its first row.
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
    /// Whether it releases all rows when every input has ended.
    closes_at_end: bool,
}

impl Join {
    /// A step for batches of `left`, its first input, and `right`, its second, with no row held.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(left: &Schema, right: &Schema, config: &JoinConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            plan: Arc::new(Plan::new(left, right, config, Rule::Interval)?),
            store: Store::default(),
            spilled: Spilled::new(Sizes::new(MEMORY_DEFAULT), i64::MIN),
            paired: [Vec::new(), Vec::new()],
            pairs: 0,
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

    /// Takes this much memory for held rows, before those that arrived first are spilled to files.
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

    /// Releases all rows when every input has ended, though no record says that their time is over. Records that come later, because a file has grown, are
    /// late then.
    #[must_use]
    pub fn with_close_at_end(self, closes_at_end: bool) -> Self {
        Self { closes_at_end, ..self }
    }

    /// The columns of the rows that it makes. Those of a side that may have no row are Nullable.
    pub fn output(&self) -> &Schema {
        &self.plan.output
    }

    /// Releases the rows that this floor allows, which the watermark has come to. The delta must have been made before. A start `makes` no rows of those without a match:
    /// it counts them.
    fn release(&mut self, watermark_ms: i64, floor_ms: i64, makes: bool) -> Result<Vec<Output>, ArrowError> {
        self.watermark_ms = watermark_ms;
        let plan = self.plan.clone();
        let released = self.store.release(&plan, floor_ms);
        let lone = JoinSide::BOTH.map(|side| -> Vec<u32> {
            let arena = &self.store.side(side).arena;
            released[side as usize].iter().copied().filter(|id| !arena.is_matched(*id)).collect()
        });
        let at_hand = if makes { self.spilled.let_out(&plan, floor_ms) } else { [Vec::new(), Vec::new()] };
        let of_runs: Released = self.spilled.release(&plan, floor_ms);
        let unmatched =
            JoinSide::BOTH.map(|side| lone[side as usize].len() as u64 + of_runs.unmatched[side as usize]);
        let count = released.iter().map(|ids| ids.len() as u64).sum::<u64>() + of_runs.rows;
        let mut outputs = Vec::new();
        let is_outer = |side: &JoinSide| plan.side(*side).is_outer;
        self.aside = JoinSide::BOTH
            .into_iter()
            .filter(|side| !is_outer(side))
            .map(|side| unmatched[side as usize])
            .sum();
        let first = self.position;
        self.position += unmatched.iter().sum::<u64>();
        if makes {
            let lonely = Lonely::new((&self.store, self.spilled.hand()), lone, at_hand);
            spilling::check_all(&plan, &lonely, unmatched)?;
            outputs.extend(results::unmatched(&plan, &lonely, first)?.into_iter().map(made));
            let (mut unmatched_rows, mut first) = (Vec::new(), self.position - self.aside);
            for side in JoinSide::BOTH.into_iter().filter(|side| !is_outer(side)) {
                let gather = |numbers: &[u32]| lonely.gather(side, numbers);
                let batches = results::aside(&plan, side, lonely.rows(side), gather, first)?;
                unmatched_rows.extend(batches.into_iter().map(|batch| (side as usize, batch)));
                first += unmatched[side as usize];
            }
            if outputs.is_empty() && count > 0 {
                let none = (JoinSide::Left, &[][..]);
                outputs.push(made(results::joined(
                    &plan,
                    &self.store,
                    none,
                    Pairs::default(),
                    self.position,
                )?));
            }
            if let Some(first) = outputs.first_mut() {
                (first.released, first.unmatched) = (count, unmatched.iter().sum());
                first.unmatched_rows = unmatched_rows;
            }
            self.spilled.tidy();
        }
        self.store.drop_rows(&released, self.sealed)?;
        self.fresh.clear();
        self.sealed = JoinSide::BOTH.map(|side| self.store.side(side).arena.next());
        Ok(outputs)
    }

    fn too_many(&self, full: Full) -> String {
        match full {
            Full::Pairs => format!(
                "a batch makes more than {PAIRS_MAX} rows, because many rows of both sides have the same key ({}); nothing of this batch is sealed, and nothing \
                 is lost. Put a `filter` before the join for keys that stand for no key, such as an empty text or a zero; or add a column to the key, or make \
                 `within` shorter: {DROPPED}",
                self.plan.keys
            ),
            Full::Bytes => format!(
                "a batch makes rows of more than `{}` bytes, which `memory` of the step bounds, because many rows of both sides have the same key ({}); nothing of \
                 this batch is sealed, and nothing is lost. Raise `memory` of the step (and of the pipeline), or put a `filter` before the join for keys that \
                 stand for no key, such as an empty text or a zero, then start again; or add a column to the key, make `within` shorter or leave out large \
                 columns: {DROPPED}",
                self.memory_max, self.plan.keys
            ),
            Full::Blocks => format!(
                "to compare a batch with rows that are in files takes blocks of more than `{}` bytes, which is `memory` of the step; nothing of this batch is sealed, \
                 and nothing is lost. Raise `memory` of the step (and of the pipeline), then start again",
                self.memory_max
            ),
            Full::Numbers => "more than a billion rows came since the last seal".to_owned(),
        }
    }
}

/// Whether a delta that makes `made` rows behind `position` made them up to `was` before. Programs before this one gave no number to rows that are not of the
/// output: to so many as `aside`, of those that the delta before released.
fn check_numbers((position, aside): (u64, u64), made: u64, was: u64) -> Result<(), StateError> {
    let (least, most) = ((position - aside).saturating_add(made), position.saturating_add(made));
    if was != least && was != most {
        return Err(codec::damaged(format!(
            "makes rows up to position `{position}` + `{made}`, and made them up to `{was}` before"
        )));
    }
    Ok(())
}

/// Rows of the step's making.
fn made(batch: Batch) -> Output {
    Output { added: batch.len() as u64, is_made: true, ..Output::all(batch) }
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

/// Rows that cannot be put together: their texts are too large for one batch.
fn not_gathered(error: ArrowError) -> OperatorError {
    failed(format!(
        "the rows that a batch makes do not fit one batch: {error}; nothing of this batch is sealed, and nothing is lost. Leave out large columns, add a \
         column to the key, or make `within` shorter: {DROPPED}"
    ))
}

impl Operator for Join {
    fn name(&self) -> &str {
        NAME
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
        let Ok(rows) = scratch.downcast::<Incoming>() else {
            return Err(failed(NOT_SEEN.to_owned()));
        };
        self.ask(batch, rows)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let Some(scratch) = probed.scratch else { return Err(failed(NOT_SEEN.to_owned())) };
        let (rows, asking) = match scratch.downcast::<Incoming>() {
            Ok(rows) => (rows, None),
            Err(scratch) => match scratch.downcast::<Asking>() {
                Ok(asking) => (asking.rows, Some(asking.candidates)),
                Err(_) => return Err(failed(NOT_SEEN.to_owned())),
            },
        };
        let is_asked = asking.is_some() || !self.spilled.has(rows.side.other());
        if rows.hashes.len() != probed.batch.len() || !is_asked {
            return Err(failed(NOT_SEEN.to_owned()));
        }
        let plan = self.plan.clone();
        let Sorted { taken, late, rejects } =
            incoming::sort(plan.floor_ms(self.watermark_ms), probed.batch, *rows).map_err(failed)?;
        let (side, own) = (taken.rows.side, taken.rows.columns.clone());
        let absorbed = taken.times_ms.len() as u64;
        let first = self.store.side(side).arena.next();
        let looked = match asking {
            Some(candidates) => self.look(&candidates, answers, &taken)?,
            None => None,
        };
        let mut pairs = Pairs::default();
        self.store
            .absorb(&plan, taken, |own, other, time_ms| pairs.push(own, other, time_ms))
            .map_err(|full| failed(self.too_many(full)))?;
        if absorbed > 0 {
            self.fresh.push((side, first));
        }
        if results::bytes(&self.store, (side, &own), &pairs) > self.memory_max {
            return Err(failed(self.too_many(Full::Bytes)));
        }
        let batch = match looked {
            Some(looked) => self.join_runs((side, &own), first, &pairs, &looked)?,
            None => results::joined(&plan, &self.store, (side, &own), pairs, self.position)
                .map_err(not_gathered)?,
        };
        self.position += batch.len() as u64;
        Ok(Output { absorbed, late, rejects, ..made(batch) })
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn advance_reads(
        &mut self,
        watermark_ms: i64,
        is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        let watermark_ms = if is_closing { self.closing(watermark_ms) } else { watermark_ms };
        let to_ms = self.plan.floor_ms(watermark_ms.max(self.watermark_ms));
        let reads = self.spilled.reads(&self.plan.clone(), to_ms);
        reads.map_err(|error| failed(error.to_string()))
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.spilled.read(&self.plan.clone(), answers).map_err(|error| failed(error.to_string()))
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        // A watermark that goes back is ignored: released rows do not come back.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        let plan = self.plan.clone();
        let floor_ms = self.next_floor(watermark_ms)?;
        let is_spilled = !self.spilled.is_empty();
        self.delta = Bytes::new();
        let moves = watermark_ms != self.watermark_ms || floor_ms != self.spilled.floor_ms;
        if self.fresh.is_empty() && !moves && !self.is_over() {
            return self.release(watermark_ms, floor_ms, true).map_err(not_gathered);
        }
        let head = Head { watermark_ms, position: self.position };
        let fresh: Vec<Fresh<'_>> =
            self.fresh.iter().map(|(side, first)| self.store.fresh(*side, *first)).collect();
        let delta = state::write_delta(&plan, head, &fresh);
        let mut marks = self.marks(floor_ms);
        let outputs = self.release(watermark_ms, floor_ms, true).map_err(not_gathered)?;
        marks.frozen = self.make_room()?;
        let has_marks = is_spilled || !marks.frozen.is_empty();
        self.delta = if has_marks { delta.finish_with(|to| marks.write(to)) } else { delta.finish() };
        Ok(outputs)
    }

    fn closes_at_end(&self) -> bool {
        self.closes_at_end
    }

    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.advance(self.closing(watermark_ms))
    }

    fn is_releasing(&self) -> bool {
        !self.spilled.is_empty() && self.spilled.has_due(&self.plan, self.plan.floor_ms(self.watermark_ms))
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        // A pair has the time of the row that completes it, which is not late; a row without a match may come as long after its time as it is held, or
        // as long as it takes to read it.
        let held_ms = self.plan.sides.iter().filter(|side| side.is_outer).map(|side| side.later_ms).max();
        let floor_ms = self.plan.floor_ms(watermark_ms);
        let is_behind = watermark_ms <= self.watermark_ms && self.is_releasing();
        let floor_ms = match held_ms {
            Some(_) if is_behind || !self.spilled.reaches(&self.plan, floor_ms) => {
                floor_ms.min(self.spilled.floor_ms)
            }
            _ => floor_ms,
        };
        floor_ms.saturating_sub(held_ms.unwrap_or(0))
    }

    /// True if rows without a match would come out, in the output or beside it. Rows that would only be dropped are worth a cut of their own, which is made while nothing is read, where
    /// that frees a considerable part of the memory: half of the rows that are held, when they take a quarter of the step's memory or more. Others go with the
    /// next cut, which comes with the next records.
    fn is_due(&self, watermark_ms: i64) -> bool {
        let floor_ms = self.plan.floor_ms(watermark_ms.max(self.watermark_ms));
        let mut sides = JoinSide::BOTH.iter().map(|side| (self.plan.side(*side), self.store.side(*side)));
        if sides.clone().any(|(plan, side)| side.has_unmatched_due(plan, floor_ms)) {
            return true;
        }
        if !self.spilled.is_empty()
            && (self.is_releasing() || self.spilled.has_unmatched_due(&self.plan, floor_ms))
        {
            return true;
        }
        let held = self.store.held();
        if held == 0 || self.store.memory_bytes() < self.memory_max / MEMORY_SHARE {
            return false;
        }
        sides.try_fold(0, |due, (plan, side)| {
            let due = due + side.due(plan, floor_ms);
            if due * DUE_SHARE >= held { Err(()) } else { Ok(due) }
        }) == Err(())
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Join {
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
        "the rows that its join holds: rows that come later find no match among them, and those of an outer side without a match are in no result"
    }

    fn seal(&mut self, _watermark_ms: i64) -> Bytes {
        std::mem::take(&mut self.delta)
    }

    fn snapshot(&self) -> Bytes {
        assert!(self.fresh.is_empty(), "a snapshot is taken right after a seal");
        let head = Head { watermark_ms: self.watermark_ms, position: self.position };
        let mut writer = Writer::new(Kind::Snapshot, &self.plan, head);
        for side in JoinSide::BOTH {
            let rows = self.store.side(side);
            rows.in_parts(&rows.by_arrival(), ROWS_MAX, &mut |ids, columns| {
                writer.block((side, &rows.arena), ids.iter().copied(), &columns);
                Ok::<(), ArrowError>(())
            })
            .expect("held columns go together: `tidy` does it, too");
        }
        // Also where no run is left: the deltas behind it name later runs by numbers that go on.
        match self.spilled.is_blank() {
            true => writer.finish(),
            false => writer.finish_with(|to| self.spilled.write(to)),
        }
    }

    fn files(&self) -> Vec<StateFile> {
        self.spilled.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let mut store = Store::default();
        let (head, marks) = state::parse(snapshot, Kind::Snapshot, &self.plan, |block| {
            let is_matched = |row| block.matched.as_ref().is_some_and(|matched| matched.value(row));
            store.load(block.taken, is_matched).map_err(|full| codec::damaged(self.too_many(full)))
        })?;
        let sizes = self.spilled.sizes;
        self.spilled = match marks {
            None => Spilled::new(sizes, self.plan.floor_ms(head.watermark_ms)),
            Some(marks) => Spilled::of_snapshot(&self.plan, sizes, marks)?,
        };
        JoinSide::BOTH.into_iter().for_each(|side| store.link(side));
        self.sealed = JoinSide::BOTH.map(|side| store.side(side).arena.next());
        (self.store, self.watermark_ms, self.position) = (store, head.watermark_ms, head.position);
        (self.fresh, self.delta, self.aside) = (Vec::new(), Bytes::new(), 0);
        (self.paired, self.pairs) = ([Vec::new(), Vec::new()], 0);
        Ok(self.spilled.opening())
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.spilled.open(&self.plan, bytes)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let plan = self.plan.clone();
        let (mut made, mut store) = (0, std::mem::take(&mut self.store));
        let parsed = state::parse(delta, Kind::Delta, &plan, |block| {
            made += store
                .absorb(&plan, block.taken, |_, _, _| ())
                .map_err(|full| codec::damaged(self.too_many(full)))?;
            Ok(())
        });
        self.store = store;
        let (head, marks) = parsed?;
        let watermark_ms = head.watermark_ms.max(self.watermark_ms);
        let marks = match marks {
            Some(marks) => Marks::read(marks)?,
            None => Marks { floor_ms: plan.floor_ms(watermark_ms), ..Marks::default() },
        };
        self.mark(&marks, watermark_ms)?;
        check_numbers((self.position, self.aside), made.saturating_add(marks.pairs), head.position)?;
        self.position = head.position;
        self.release(watermark_ms, marks.floor_ms, false).map_err(codec::damaged)?;
        self.freeze_all(&marks.frozen)
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.spilled.work()
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.spilled.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.spilled.is_writing() && self.is_over()
    }

    fn held(&self) -> u64 {
        self.store.held() + self.spilled.held()
    }

    fn unsealed_bytes(&self) -> u64 {
        let of = |side: JoinSide| self.store.side(side).bytes_from(self.sealed[side as usize]) as u64;
        JoinSide::BOTH.map(of).iter().sum()
    }

    /// The rows that are held: each is an entry.
    fn entries(&self) -> u64 {
        self.held()
    }

    fn spilled_entries(&self) -> u64 {
        self.spilled.held_in_files()
    }

    fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes() + self.spilled.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
