//! A window that lies: about versions, results before it is closed, late rows, and what leaves memory.
//!
//! Owns the lies that a window can only tell with all of its state, in files too. Does not own those that any step with state can tell ([`super::step`]),
//! nor sessions that a start takes apart ([`super::sessions`]).

use std::any::Any;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{RecordBatch, UInt64Array};
use bytes::Bytes;
use dataflow::{
    Ahead, Batch, Operator, OperatorError, Output, Probed, State, StateError, StateFile, StateRead, StateWork,
};

use operators::Window;

use crate::results::{Aggregates, VERSION};
use crate::variant::Variant;

/// The window of a pipeline, which lies.
pub struct LyingWindow {
    inner: Window,
    variant: Variant,
    aggregates: Aggregates,
    watermark_ms: i64,
    /// Cuts of this process with results.
    cuts: u64,
    /// Results that wait for the next cut.
    early: Vec<Output>,
    /// Whether any record has come into a window since the last seal.
    has_records: bool,
    /// Whether the cut under way moves time.
    has_moved: bool,
    /// Whether it lets anything out.
    has_released: bool,
    /// Rows of the batch under way that were taken for late.
    late: u64,
}

impl LyingWindow {
    /// Around an honest one with these settings.
    pub fn new(inner: Window, variant: Variant, aggregates: Aggregates) -> Self {
        Self {
            inner,
            variant,
            aggregates,
            watermark_ms: i64::MIN,
            cuts: 0,
            early: Vec::new(),
            has_records: false,
            has_moved: false,
            has_released: false,
            late: 0,
        }
    }

    /// The end of the window whose results these are; `None` without results.
    fn end_ms(output: &Output) -> Option<i64> {
        let ends = output.batch.rows.column_by_name("window_end").expect("a column of the results");
        let ends = ends.as_primitive::<TimestampMillisecondType>();
        (!output.batch.is_empty()).then(|| ends.value(0))
    }

    /// Whether these are results of a window that stays open.
    fn is_early(&self, output: &Output) -> bool {
        Self::end_ms(output).is_some_and(|end_ms| end_ms + self.aggregates.lateness_ms > self.watermark_ms)
    }

    /// The batch without the rows that would be late if no session of their key were open, and how many those are.
    fn without_late(&self, batch: &Batch) -> (Batch, u64) {
        let is_late = |row: &usize| self.aggregates.is_late_alone(batch.times_ms[*row], self.watermark_ms);
        let late: Vec<usize> = (0..batch.len()).filter(is_late).collect();
        (batch.clone().without(&late).expect("a batch of columns"), late.len() as u64)
    }

    fn lie(&mut self, mut outputs: Vec<Output>) -> Vec<Output> {
        match self.variant {
            Variant::VersionsBeginAgain => {
                self.cuts += u64::from(!outputs.is_empty());
                let version = self.cuts;
                outputs.iter_mut().for_each(|output| give_version(output, |_| version));
            }
            Variant::EarlyAfterFinal => {
                let (early, last) = outputs.into_iter().partition(|output| self.is_early(output));
                outputs = last;
                outputs.extend(std::mem::replace(&mut self.early, early));
            }
            Variant::FinalWithAnOldVersion => {
                let last = outputs.iter_mut().filter(|output| !self.is_early(output));
                last.for_each(|output| give_version(output, |version| version - 1));
            }
            Variant::UpdatesLost => {
                let is_update = |output: &Output| {
                    self.is_early(output) && Self::end_ms(output).is_some_and(|end| end <= self.watermark_ms)
                };
                outputs.retain(|output| !is_update(output));
            }
            _ => {}
        }
        outputs
    }
}

/// Gives each result another version.
fn give_version(output: &mut Output, version: impl Fn(u64) -> u64) {
    let rows = &output.batch.rows;
    let at = rows.schema().index_of(VERSION).expect("a column of the results");
    let versions = rows.column(at).as_primitive::<arrow_array::types::UInt64Type>();
    let others = UInt64Array::from_iter_values(versions.values().iter().map(|own| version(*own)));
    let mut columns = rows.columns().to_vec();
    columns[at] = Arc::new(others);
    output.batch.rows = RecordBatch::try_new(rows.schema(), columns).expect("columns of the same types");
}

/// The last of the late rows is dropped by no rule.
fn lose_one(output: &mut Output) {
    let Some(late) = output.late_rows.take() else { return };
    let last = late.len() - 1;
    output.filtered += 1;
    output.late_rows =
        Some(Box::new(late.without(&[last]).expect("a batch of columns"))).filter(|_| last > 0);
}

/// As many rows of the batch go to the table of late ones, but the first of it.
fn take_others(output: &mut Output, batch: Batch) {
    let Some(late) = output.late_rows.take() else { return };
    let others: Vec<usize> = (late.len()..batch.len()).collect();
    output.late_rows = Some(Box::new(batch.without(&others).expect("a batch of columns")));
}

impl Operator for LyingWindow {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn ahead(&self) -> Option<Arc<dyn Ahead>> {
        self.inner.ahead()
    }

    fn probe(&mut self, mut batch: Batch) -> Result<Probed, OperatorError> {
        if self.variant == Variant::SessionsInFilesUnseen {
            (batch, self.late) = self.without_late(&batch);
        }
        self.inner.probe(batch)
    }

    fn probe_ahead(
        &mut self,
        input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        match self.variant {
            Variant::SessionsInFilesUnseen => self.probe(batch),
            _ => self.inner.probe_ahead(input, batch, scratch),
        }
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let batch = probed.batch.clone();
        if self.variant == Variant::SessionsLateAlone {
            let (batch, late) = self.without_late(&batch);
            let probed = self.inner.probe(batch)?;
            let output = self.inner.finish(probed, answers)?;
            return Ok(Output { late: output.late + late, ..output });
        }
        let mut output = self.inner.finish(probed, answers)?;
        output.late += std::mem::take(&mut self.late);
        self.has_records |= output.absorbed > 0;
        match self.variant {
            Variant::LateRowNowhere => lose_one(&mut output),
            Variant::LateRowsOfOthers => take_others(&mut output, batch),
            _ => {}
        }
        Ok(output)
    }

    fn advance_reads(
        &mut self,
        watermark_ms: i64,
        is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        self.inner.advance_reads(watermark_ms, is_closing)
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.inner.advance_read(answers)
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.has_moved = watermark_ms > self.watermark_ms;
        self.watermark_ms = watermark_ms.max(self.watermark_ms);
        let outputs = self.inner.advance(watermark_ms)?;
        self.has_released = !outputs.is_empty();
        Ok(self.lie(outputs))
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        self.inner.watermark_behind(watermark_ms)
    }

    fn at(&mut self, wall_ms: i64) {
        self.inner.at(wall_ms);
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.inner.is_due(watermark_ms)
    }

    fn is_releasing(&self) -> bool {
        self.inner.is_releasing()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for LyingWindow {
    fn shape(&self) -> String {
        self.inner.shape()
    }

    fn absorbs(&self) -> bool {
        self.inner.absorbs()
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        let delta = self.inner.seal(watermark_ms);
        let has_nothing_new = !std::mem::take(&mut self.has_records) && !self.has_moved;
        let is_lost = match self.variant {
            Variant::FreezeUnsealed | Variant::SweepUnsealed => has_nothing_new && !self.has_released,
            Variant::PieceUnsealed | Variant::SweptUnsealed => has_nothing_new && self.has_released,
            _ => false,
        };
        if is_lost { Bytes::new() } else { delta }
    }

    fn snapshot(&self) -> Bytes {
        self.inner.snapshot()
    }

    fn files(&self) -> Vec<StateFile> {
        self.inner.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        self.inner.restore(snapshot)
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.inner.open(bytes)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.inner.apply(delta)
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.inner.work()
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.inner.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.inner.is_crowded()
    }

    fn held(&self) -> u64 {
        self.inner.held()
    }

    fn unsealed_bytes(&self) -> u64 {
        self.inner.unsealed_bytes()
    }

    fn entries(&self) -> u64 {
        self.inner.entries()
    }

    fn spilled_entries(&self) -> u64 {
        self.inner.spilled_entries()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
}
