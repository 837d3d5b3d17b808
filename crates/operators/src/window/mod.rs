//! Aggregates of rows by key and window of event time.
//!
//! Owns the rule, the results, and the state between a row and its window's result. Does not own the watermark (the engine moves it, and
//! seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this step).
//!
//! **The rule.** A row belongs to the windows that its event time lies in; which there are says [`Windows`]. A window is *closed* by the first
//! watermark of a seal that is at least its end plus the lateness: that seal holds one row for each of its keys, and a row that comes
//! later is not in it. So a result never changes once it is there, unless the step [emits](Emit) others before: then each has a version, and the one with
//! the greatest holds.
//!
//! | a row                                    | becomes                                              |
//! |------------------------------------------|------------------------------------------------------|
//! | one of its windows is open               | a part of the results of those ([`Output::absorbed`]), once |
//! | all of its windows are closed            | late, and dropped ([`Output::late`])                 |
//! | it has no usable time                    | a reject: no window is its                           |
//!
//! | result          | is                                                                             |
//! |-----------------|--------------------------------------------------------------------------------|
//! | the key's columns | as they came                                                                 |
//! | `window_start`, `window_end` | the bounds, as DateTime64(3)                                      |
//! | each aggregate  | see [`aggregate`]                                                              |
//!
//! A result's event time is its window's last millisecond, so that a window of results holds those of its own time.
//!
//! | module        | what it owns                                         |
//! |---------------|------------------------------------------------------|
//! | `plan`        | the settings, their checks, and the results' columns |
//! | `kinds`       | which windows there are, and when they end           |
//! | [`aggregate`] | functions and their types                            |
//! | `partial`     | the aggregates of one batch, made in the decode job  |
//! | `emit`        | when windows have results before they are closed     |
//! | `open`        | what open windows hold: one of the next two          |
//! | `written`     | what was written of open windows and may be taken back |
//! | `panes`       | windows that are made of panes                       |
//! | `sessions`    | sessions                                             |
//! | `groups`      | from a key to its aggregates                         |
//! | `accumulator` | one aggregate of every group                         |
//! | [`spilled`]   | panes in files, and how their results leave          |
//! | `sessions::runs` | the same of sessions                              |
//! | `in_files`    | one of these two                                     |
//! | `results`     | from closed windows to rows                          |
//! | `key`         | the bytes of keys                                    |
//! | `index`       | from a hash to an entry                              |
//! | `values`      | columns in the five forms that state knows           |
//! | [`state`]     | the bytes of deltas and snapshots                    |
//! | `encoding`    | numbers and lengths in them                          |
//!
//! **State.** The decode job makes the aggregates of each batch; the lane merges them into those of the seal under way (`fresh`), and a seal merges
//! those into all others (`base`). The delta is `fresh`: a start merges the deltas in the same order, and has the same sums, bit for bit.
//! When open windows take more than the step's [memory](Window::with_memory), the earliest panes are [spilled](spilled) to files, and the results of their
//! windows leave in pieces, over several seals; so do results before they are closed. Windows whose results are taken back are in memory alone: the step
//! ends the run, and says what to do.

mod accumulator;
pub mod aggregate;
mod emit;
mod encoding;
mod groups;
mod in_files;
mod index;
pub(crate) mod key;
mod kinds;
mod open;
mod panes;
mod partial;
mod plan;
mod results;
mod sessions;
pub mod spilled;
pub mod state;
pub(crate) mod values;
mod written;

use std::convert::Infallible;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Ahead, Batch, KeptEnum, Operator, OperatorError, Output, Probed, Schema, State, StateError, StateFile,
    StateRead, StateWork,
};

use crate::ConfigError;
use crate::runs::FileEntry;
pub use aggregate::{Aggregate, Function};
pub use emit::{Clock, Emit, PANES_MAX as EMIT_PANES_MAX};
use in_files::{InFiles, Marks};
use kinds::Spans;
pub use kinds::{SIZE_MAX, Windows};
use open::{Open, Taken};
use panes::Fires;
use partial::Partial;
use plan::Plan;
pub use plan::{COLUMNS_MAX, END, START, WindowConfig};
use results::Closed;
use sessions::runs;
use spilled::{Left, Piece, Sizes};

const NAME: &str = "window";

/// Memory for open windows unless the step is given another: some two million pairs of key and window.
pub const MEMORY_DEFAULT: u64 = 256 << 20;

/// The `window` step, with what its open windows hold.
pub struct Window {
    plan: Arc<Plan>,
    /// What earlier seals brought.
    base: Open,
    /// What came since the last.
    fresh: Open,
    /// What has left memory of what earlier seals brought.
    in_files: InFiles,
    /// Whether nothing has come since it was last told the time.
    is_quiet: bool,
    watermark_ms: i64,
    /// The delta of the seal under way, made when its watermark was known.
    delta: Bytes,
    memory_max: u64,
    /// Whether late rows come out of it, instead of being dropped.
    gives_late_rows: bool,
    /// Whether its last windows close when every input has ended.
    closes_at_end: bool,
    /// What time it is.
    now_ms: i64,
    /// When there were last results of every open window, or this step began.
    fired_at_ms: i64,
}

impl Window {
    /// A step for batches of `schema`, with no window open.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(schema: &Schema, config: &WindowConfig) -> Result<Self, ConfigError> {
        let plan = Arc::new(Plan::new(schema, config)?);
        Ok(Self {
            base: Open::new(&plan),
            fresh: Open::new(&plan),
            in_files: InFiles::new(&plan, Sizes::new(MEMORY_DEFAULT, plan.spans.panes())),
            is_quiet: false,
            plan,
            watermark_ms: TIME_UNKNOWN_MS,
            delta: Bytes::new(),
            memory_max: MEMORY_DEFAULT,
            gives_late_rows: false,
            closes_at_end: false,
            now_ms: TIME_UNKNOWN_MS,
            fired_at_ms: TIME_UNKNOWN_MS,
        })
    }

    /// Takes this much memory for open windows.
    #[must_use]
    pub fn with_memory(self, memory_max: u64) -> Self {
        let sizes = Sizes::new(memory_max, self.plan.spans.panes());
        Self { memory_max, ..self }.with_sizes(sizes)
    }

    /// Spills at these sizes: for tests and measurements.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.in_files = InFiles::new(&self.plan, sizes);
        self
    }

    /// The columns of the results.
    pub fn output(&self) -> &Schema {
        &self.plan.output
    }

    /// Lets rows out that came too late, as [`Output::late_rows`].
    #[must_use]
    pub fn with_late_rows(self, gives_late_rows: bool) -> Self {
        Self { gives_late_rows, ..self }
    }

    /// Closes its last windows when every input has ended, though no record says that their time is over. Records that come later, because a
    /// file has grown, are then late.
    #[must_use]
    pub fn with_close_at_end(self, closes_at_end: bool) -> Self {
        Self { closes_at_end, ..self }
    }

    /// The rows of a batch that are late: those of closed panes, and of sessions those that were taken for late.
    fn late_rows(&self, batch: Batch, mut taken: Taken) -> Result<Batch, OperatorError> {
        let is_closed = |pane: i64| self.plan.is_closed(self.plan.spans.last_end(pane), self.watermark_ms);
        taken.late_rows.sort_unstable();
        let is_late = |row: usize| match self.plan.spans {
            Spans::Session { .. } => taken.late_rows.binary_search(&(row as u32)).is_ok(),
            Spans::Hopping { .. } | Spans::Cumulative { .. } => {
                self.plan.pane_of(batch.times_ms[row]).is_some_and(is_closed)
            }
        };
        let others: Vec<usize> = (0..batch.len()).filter(|row| !is_late(*row)).collect();
        if (batch.len() - others.len()) as u64 != taken.late {
            return Err(failed("other rows are late than those of closed windows".to_owned()));
        }
        batch.without(&others).map_err(|error| failed(error.to_string()))
    }

    /// Whether a seal with this watermark has results of every open window.
    fn is_early(&self, watermark_ms: i64) -> bool {
        let passed_ms = self.now_ms.saturating_sub(self.fired_at_ms);
        let between = (self.watermark_ms, watermark_ms);
        self.plan.emit.is_some_and(|firing| firing.is_early(between, passed_ms))
    }

    /// Freezes the earliest panes if the open ones take too much memory and those that were frozen before are in files; says which.
    ///
    /// # Errors
    /// When they take too much and cannot be frozen.
    fn make_room(&mut self) -> Result<Vec<i64>, OperatorError> {
        if !self.plan.can_spill() {
            self.check_memory()?;
            return Ok(Vec::new());
        }
        let (bytes, open_max) = (self.base.memory_bytes(), self.in_files.sizes().open_bytes);
        // While a spill is on its way, the engine waits for it before there is twice as much.
        if bytes <= open_max || self.in_files.has_unwritten() {
            return Ok(Vec::new());
        }
        let (mut frozen, mut left) = (Vec::new(), bytes);
        for (pane, pane_bytes) in self.base.sizes() {
            if left <= open_max / 2 {
                break;
            }
            if !self.in_files.is_full(&self.plan, pane) {
                left = left.saturating_sub(pane_bytes);
                frozen.push(pane);
            }
        }
        self.freeze(&frozen);
        if frozen.is_empty() {
            self.check_memory()?;
        }
        Ok(frozen)
    }

    /// Panes begin anew in memory.
    fn freeze(&mut self, frozen: &[i64]) {
        self.base.freeze(frozen, &mut self.in_files, self.watermark_ms);
    }

    /// Lets the results of windows out that are at hand.
    fn let_out(&mut self) -> Result<(Vec<Output>, Marks), OperatorError> {
        let (mut outputs, mut marks) = (Vec::new(), Marks::none(&self.plan));
        let wrong = |error: StateError| failed(error.to_string());
        match (&mut self.in_files, &mut marks) {
            (InFiles::Panes(spilled), Marks::Panes(marks)) => {
                // That of this seal, which is not the first: something was frozen with one before.
                let version = self.base.seals() + 1;
                for Piece { end, fires, groups, released, after, is_last } in spilled.take_ready() {
                    let bounds = (self.plan.spans.start_of(end), end);
                    let closed = Closed::of_window(bounds, &groups, released).with_version(version);
                    if groups.len() > 0 || released > 0 {
                        outputs.push(self.plan.results(&closed)?);
                    }
                    let left = Left { end, fires, after, rows: released, is_last };
                    spilled.left(&self.plan, &left).map_err(wrong)?;
                    marks.left.push(left);
                }
            }
            (InFiles::Sessions(runs), Marks::Sessions(marks)) => {
                for piece in runs.take_ready() {
                    if piece.groups.len() > 0 {
                        outputs.push(self.plan.results(&sessions::closed(&self.plan, &piece))?);
                    }
                    let rows = piece.groups.rows();
                    let runs::Piece { pane, after, is_last, is_empty, .. } = piece;
                    let left = runs::Left { pane, after, rows, is_last, is_empty };
                    runs.left(&left).map_err(wrong)?;
                    marks.left.push(left);
                }
                marks.cuts = runs.take_cuts();
            }
            _ => unreachable!("a step keeps its kind of windows"),
        }
        self.cut(&marks);
        Ok((outputs, marks))
    }

    /// Keeps sessions that are closed apart from what comes with the seal.
    fn cut(&mut self, marks: &Marks) {
        let (InFiles::Sessions(runs), Open::Sessions(base), Marks::Sessions(marks)) =
            (&mut self.in_files, &mut self.base, marks)
        else {
            return;
        };
        for (pane, cuts) in &marks.cuts {
            if base.has_any(*pane, cuts)
                && let Some(sessions) = base.take_pane(*pane)
            {
                runs.freeze(*pane, sessions, self.watermark_ms);
            }
            runs.put_cuts(*pane, cuts.clone());
        }
        if !marks.left.is_empty() {
            runs.forget_empty();
            base.forget_ends();
        }
    }

    /// Begins the sweeps of sessions that are due.
    fn sweep_due(&mut self, is_idle: bool, marks: &mut Marks) {
        if let (InFiles::Sessions(runs), Open::Sessions(base), Marks::Sessions(marks)) =
            (&mut self.in_files, &self.base, marks)
        {
            runs.sealed(&self.plan, self.watermark_ms, |pane| base.lasts(pane));
            marks.swept = runs.due(&self.plan, self.watermark_ms, is_idle);
            let swept = marks.swept.clone();
            self.sweep(&swept);
        }
    }

    /// Sweeps of these panes begin.
    fn sweep(&mut self, panes: &[i64]) {
        self.freeze(panes);
        if let InFiles::Sessions(runs) = &mut self.in_files {
            panes.iter().for_each(|pane| runs.sweep(*pane, self.watermark_ms));
        }
    }

    /// Whether no records come.
    fn is_idle(&self) -> bool {
        self.is_quiet && self.fresh.is_empty()
    }

    /// What a batch asks of what is in files, beside what it brings.
    fn look(&self, batch: Batch, mut partial: Box<Partial>) -> Result<Probed, OperatorError> {
        let mut reads = Vec::new();
        if let InFiles::Sessions(runs) = &self.in_files {
            (partial.look, reads) = runs.look(&self.plan, &batch, self.watermark_ms).map_err(failed)?;
        }
        Ok(Probed { batch, reads, scratch: Some(partial) })
    }

    fn check_memory(&self) -> Result<(), OperatorError> {
        let bytes = self.memory_bytes();
        if bytes <= self.memory_max {
            return Ok(());
        }
        Err(failed(format!(
            "the open windows hold `{}` results in `{bytes}` bytes, and `memory` is `{}`; nothing of this batch is sealed, and nothing is lost. \
             Raise `memory` of the step (and of the pipeline), then start again. If times far in the future fill it, put a `filter` before the step, \
             and start once with `--new-state`, which drops the records of the open windows",
            self.entries(),
            self.memory_max
        )))
    }
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

impl Ahead for Plan {
    fn apply(&self, batch: &Batch) -> Result<Box<dyn std::any::Any + Send>, OperatorError> {
        Ok(Box::new(Partial::of(self, batch).map_err(failed)?))
    }
}

impl Operator for Window {
    fn name(&self) -> &str {
        NAME
    }

    fn columns(&self, _input: usize) -> Option<&Schema> {
        Some(&self.plan.input)
    }

    fn ahead(&self) -> Option<Arc<dyn Ahead>> {
        Some(self.plan.clone())
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        let partial = Partial::of(&self.plan, &batch).map_err(failed)?;
        self.look(batch, Box::new(partial))
    }

    fn probe_ahead(
        &mut self,
        _input: usize,
        batch: Batch,
        scratch: Box<dyn std::any::Any + Send>,
    ) -> Result<Probed, OperatorError> {
        let partial = scratch.downcast::<Partial>();
        self.look(
            batch,
            partial.map_err(|_| failed("a batch came with the work of another step".to_owned()))?,
        )
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let partial = probed.scratch.and_then(|scratch| scratch.downcast::<Partial>().ok());
        let Some(partial) = partial else {
            return Err(failed("a batch came to `finish` that `probe` of this step has not seen".to_owned()));
        };
        let Partial { parts, rejects, mut look } = *partial;
        if let InFiles::Sessions(runs) = &self.in_files {
            runs.found(&mut look, answers).map_err(|error| failed(error.to_string()))?;
        }
        let before = (&self.base, self.watermark_ms);
        let came = probed.batch;
        let in_files = (&mut self.in_files, &look);
        let taken = self.fresh.take(&self.plan, before, &came, parts, in_files).map_err(failed)?;
        let Taken { absorbed, late, .. } = taken;
        let batch = Batch {
            items: Vec::new(),
            era: came.era,
            partition: came.partition.clone(),
            rows: RecordBatch::new_empty(self.plan.output.arrow().clone()),
            positions: Vec::new(),
            times_ms: Vec::new(),
        };
        if late == 0 || !self.gives_late_rows {
            return Ok(Output { late, absorbed, rejects, ..Output::all(batch) });
        }
        let late_rows = Some(Box::new(self.late_rows(came, taken)?));
        Ok(Output { late_rows, absorbed, rejects, ..Output::all(batch) })
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        // A watermark that goes back is ignored: the windows that it closed no longer exist.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        let plan = self.plan.clone();
        let mut fresh = std::mem::replace(&mut self.fresh, Open::new(&plan));
        self.delta = Bytes::new();
        let is_idle = self.is_quiet && fresh.is_empty();
        let (mut outputs, mut marks) = self.let_out()?;
        let is_early = self.is_early(watermark_ms);
        // Without rows and time the wall clock alone lets something out.
        let fires = || !self.base.firing(&plan, &self.in_files, watermark_ms, is_early).is_empty();
        if !fresh.is_empty() || watermark_ms != self.watermark_ms || !marks.is_empty() || fires() {
            fresh.set_early(is_early);
            if plan.emit.is_some() && self.base.seals() == 0 {
                fresh.set_seals(emit::first_number(self.now_ms));
            }
            if is_early {
                self.fired_at_ms = self.now_ms;
            }
            let has_spilled = !self.in_files.is_empty();
            let delta = state::begin_delta(&plan, watermark_ms, &fresh, has_spilled);
            self.base.merge(&plan, fresh);
            let between = (self.watermark_ms, watermark_ms);
            self.watermark_ms = watermark_ms;
            let mut each = |closed: Closed<'_>| plan.all_results(&closed, &mut outputs);
            self.base.close(&plan, between, &mut self.in_files, &mut each)?;
            let firing = self.base.firing(&plan, &self.in_files, watermark_ms, is_early);
            let Fires { in_memory, in_files, held } = firing;
            for end in in_memory {
                self.base.fire(&plan, end, &mut each)?;
            }
            // Behind those: what they freeze may be in windows in memory too.
            in_files.iter().for_each(|end| self.base.fire_in_files(&plan, *end, &mut self.in_files));
            self.base.miss(held.into_iter().filter(|_| is_early));
            if let Marks::Panes(marks) = &mut marks {
                marks.fired = in_files;
            }
            self.sweep_due(is_idle, &mut marks);
            *marks.frozen() = self.make_room()?;
            self.delta = state::finish_delta(&plan, delta, &marks, has_spilled);
        } else {
            // What was too much while another spill was on its way leaves memory now. A start must know of it.
            self.sweep_due(is_idle, &mut marks);
            *marks.frozen() = self.make_room()?;
            if !marks.is_empty() {
                let delta = state::begin_delta(&plan, watermark_ms, &fresh, true);
                // It is a seal with a number of its own, for it is one to a start.
                self.base.merge(&plan, fresh);
                self.delta = state::finish_delta(&plan, delta, &marks, true);
            }
        }
        Ok(outputs)
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        // Windows that end later are still open, and a result has the time of its window's last millisecond.
        let behind_ms = watermark_ms.saturating_sub(self.plan.lateness_ms);
        let held_ms = self.in_files.held_back(&self.plan, (self.watermark_ms, watermark_ms));
        held_ms.map_or(behind_ms, |held_ms| behind_ms.min(held_ms))
    }

    fn is_releasing(&self) -> bool {
        let may_sweep = || match &self.in_files {
            InFiles::Sessions(runs) => runs.is_due(&self.plan, self.watermark_ms, self.fresh.is_empty()),
            InFiles::Panes(_) => false,
        };
        self.in_files.is_leaving() || may_sweep()
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        // As in `advance`: it may be behind that of a closing at the end of all inputs.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        let between = (self.watermark_ms, watermark_ms);
        let is_early = self.is_early(watermark_ms);
        self.base.is_due(&self.plan, between, &self.in_files)
            || self.in_files.is_due(&self.plan, between, self.is_idle())
            || self.fresh.is_due(&self.plan, between, &self.in_files)
            || !self.base.firing(&self.plan, &self.in_files, watermark_ms, is_early).is_empty()
    }

    fn at(&mut self, wall_ms: i64) {
        self.now_ms = wall_ms;
        self.is_quiet = self.fresh.is_empty();
        // Of a clock that was set back, a period begins now: the one before would be as long as the clock went back.
        if self.fired_at_ms == TIME_UNKNOWN_MS || wall_ms < self.fired_at_ms {
            self.fired_at_ms = wall_ms;
        }
    }

    fn closes_at_end(&self) -> bool {
        self.closes_at_end
    }

    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        let spilled_end = self.in_files.last_end(&self.plan);
        let last_end = self.base.last_end(&self.plan).max(self.fresh.last_end(&self.plan)).max(spilled_end);
        let closing = last_end.map(|end| end.saturating_add(self.plan.lateness_ms));
        self.advance(closing.map_or(watermark_ms, |closing| closing.max(watermark_ms)))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Window {
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
        "the records in its open windows: they are in no result, and results of those windows hold later records only"
    }

    fn seal(&mut self, _watermark_ms: i64) -> Bytes {
        std::mem::take(&mut self.delta)
    }

    fn snapshot(&self) -> Bytes {
        assert!(self.fresh.is_empty(), "a snapshot is taken right after a seal");
        state::snapshot(&self.plan, self.watermark_ms, &self.base, &self.in_files)
    }

    fn files(&self) -> Vec<StateFile> {
        self.in_files.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        (self.watermark_ms, self.base, self.in_files) =
            state::parse_snapshot(snapshot, &self.plan, self.in_files.sizes())?;
        if self.plan.emit.is_some() {
            // While they fired there may have been an early seal.
            self.base.miss(self.in_files.firing());
        }
        (self.fresh, self.delta) = (Open::new(&self.plan), Bytes::new());
        let footer = |file: &FileEntry| StateRead {
            object: file.object.as_str().into(),
            offset: file.footer_at,
            len: u32::try_from(file.len - file.footer_at).expect("bounded when it was read"),
        };
        Ok(self.in_files.opening().iter().map(footer).collect())
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.in_files.open_file(&self.plan, bytes)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let (watermark_ms, later, marks) = state::parse_delta(delta, &self.plan)?;
        let plan = self.plan.clone();
        match (&mut self.in_files, &marks) {
            (InFiles::Panes(spilled), Marks::Panes(marks)) => {
                marks.left.iter().try_for_each(|left| spilled.left(&plan, left))?;
            }
            (InFiles::Sessions(runs), Marks::Sessions(marks)) => {
                marks.left.iter().try_for_each(|left| runs.left(left))?;
            }
            _ => unreachable!("a step keeps its kind of windows"),
        }
        self.cut(&marks);
        self.base.merge(&plan, later);
        let between = (self.watermark_ms, self.watermark_ms.max(watermark_ms));
        self.watermark_ms = between.1;
        let Ok(()) = self.base.close(&plan, between, &mut self.in_files, |_| Ok::<(), Infallible>(()));
        let is_early = self.base.is_early();
        let firing = self.base.firing(&plan, &self.in_files, between.1, is_early);
        firing.in_memory.into_iter().for_each(|end| self.base.fired(&plan, end));
        marks.fired().iter().for_each(|end| self.base.fire_in_files(&plan, *end, &mut self.in_files));
        // What could fire was for the process to say that wrote the delta.
        let others = firing.in_files.into_iter().chain(firing.held);
        self.base.miss(others.filter(|end| is_early && !marks.fired().contains(end)));
        if let Marks::Sessions(marks) = &marks {
            self.sweep(&marks.swept);
        }
        let mut marks = marks;
        self.freeze(marks.frozen());
        Ok(())
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.in_files.work(&self.plan)
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.in_files.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.in_files.is_spilling() && self.base.memory_bytes() > self.in_files.sizes().open_bytes
    }

    fn held(&self) -> u64 {
        self.base.rows() + self.fresh.rows() + self.in_files.rows()
    }

    fn unsealed_bytes(&self) -> u64 {
        self.fresh.memory_bytes()
    }

    fn entries(&self) -> u64 {
        self.base.entries() + self.fresh.entries() + self.in_files.entries()
    }

    fn spilled_entries(&self) -> u64 {
        self.in_files.entries_in_files()
    }

    fn memory_bytes(&self) -> u64 {
        self.base.memory_bytes() + self.fresh.memory_bytes() + self.in_files.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
