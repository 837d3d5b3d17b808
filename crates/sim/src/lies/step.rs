//! A step whose state lies.
//!
//! Owns the lies of dedup, windows, joins and upserts alike: about what they count, hold, seal and restore. Does not own those about time ([`super::clock`]) or
//! about the items of a record ([`super::items`]).

use std::any::Any;
use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use bytes::Bytes;
use dataflow::{
    Ahead, Batch, Duplicates, Operator, OperatorError, Output, Probed, SeenKeys, State, StateError, StateRead,
};

use crate::changes::SIGN;
use crate::variant::Variant;

/// One delta in so many is lost.
const LOST_DELTA: u64 = 3;

/// A step whose state lies.
pub struct LyingStep {
    inner: Box<dyn Operator>,
    shape: String,
    absorbs: bool,
    variant: Variant,
    /// The snapshot as of the last seal, and the one before.
    snapshots: [Bytes; 2],
    seals: u64,
    /// Whether the watermark of the seal under way has let anything out.
    has_released: bool,
    /// What the honest one held after the last seal.
    held: u64,
    /// Batches of the right side of a join.
    batches: usize,
    /// Rows that it should hold and does not.
    freed: u64,
    /// The watermark of the last seal.
    watermark_ms: i64,
    /// Whether it has state of an earlier process, and sealed nothing since.
    is_restored: bool,
    /// Whether the seal under way closes all that is open.
    has_closed: bool,
}

/// One batch of versions in so many is freed at once.
const FREED: usize = 3;

/// Longer than any window of a plan, and than all records of one together.
const LONG_AGO_MS: i64 = 365 * 86_400_000;

/// How far the watermark of [`Variant::ClosedEarly`] is ahead of the one that is sealed, milliseconds.
const EARLY_MS: i64 = 50;

impl LyingStep {
    /// Around an honest one.
    pub fn new(mut inner: Box<dyn Operator>, variant: Variant) -> Self {
        let snapshot = inner.state().map(|state| state.snapshot()).unwrap_or_default();
        let absorbs = inner.state().is_some_and(|state| state.absorbs());
        let shape = inner.state().map(|state| state.shape()).unwrap_or_default();
        Self {
            inner,
            shape,
            absorbs,
            variant,
            snapshots: [snapshot.clone(), snapshot],
            seals: 0,
            has_released: false,
            held: 0,
            batches: 0,
            freed: 0,
            watermark_ms: i64::MIN,
            is_restored: false,
            has_closed: false,
        }
    }

    fn lies_of_versions(&self) -> bool {
        self.inner.inputs() == 2
            && matches!(self.variant, Variant::VersionOfTheFuture | Variant::VersionFreedEarly)
    }

    /// A batch of the right side of a temporal join.
    fn finish_versions(&mut self, mut probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.batches += 1;
        if self.variant == Variant::VersionOfTheFuture {
            probed.batch.times_ms.iter_mut().for_each(|time_ms| *time_ms -= EARLY_MS);
        } else if self.batches.is_multiple_of(FREED) {
            let all: Vec<usize> = (0..probed.batch.len()).collect();
            let none = probed.batch.without(&all).expect("a batch of columns");
            let probed = self.inner.probe_of(1, none)?;
            self.freed += all.len() as u64;
            return Ok(Output { absorbed: all.len() as u64, ..self.inner.finish(probed, answers)? });
        }
        self.inner.finish(probed, answers)
    }

    /// Another batch enters a window, and nobody is told.
    fn slip_in(&mut self, batch: Batch) -> Result<Output, OperatorError> {
        let probed = self.inner.probe(batch)?;
        self.inner.finish(probed, &[])
    }

    /// The late rows of a batch of which so many were late, with the time of the newest seal: what is late is earlier than all that is not.
    fn as_of_now(&self, batch: Batch, late: u64) -> Batch {
        let mut rows: Vec<usize> = (0..batch.len()).collect();
        rows.sort_by_key(|row| batch.times_ms[*row]);
        let mut others = rows.split_off(usize::try_from(late).expect("rows of a batch"));
        others.sort_unstable();
        let mut late = batch.without(&others).expect("a batch of columns");
        late.times_ms.fill(self.watermark_ms);
        late
    }

    /// Whether it takes rows back.
    fn has_signs(&self) -> bool {
        self.inner.name() == "upsert"
    }

    fn lie_about_signs(&self, mut outputs: Vec<Output>) -> Vec<Output> {
        match self.variant {
            Variant::RowTakenBackTwice => outputs
                .into_iter()
                .map(|output| if takes_back(&output) { twice(output) } else { output })
                .collect(),
            Variant::RowNotTakenBack if self.is_restored => {
                outputs.iter_mut().filter(|output| takes_back(output)).for_each(|output| {
                    output.batch = output.batch.clone().without_all();
                    output.added = 0;
                });
                outputs
            }
            Variant::GivenBeforeTakenBack => {
                outputs.reverse();
                outputs
            }
            _ => outputs,
        }
    }

    fn inner_keys(&mut self) -> &mut dyn SeenKeys {
        self.inner.seen_keys().expect("only a step that has seen keys is asked")
    }

    fn honest(&mut self) -> &mut dyn State {
        self.inner.state().expect("only a step with state is asked")
    }
}

/// What a join wants to have of a batch, and the number of its input.
struct Tagged {
    input: usize,
    of: Box<dyn Any + Send>,
}

/// Makes [`Tagged`].
struct OfInput {
    inner: Arc<dyn Ahead>,
    input: usize,
}

impl Ahead for OfInput {
    fn apply(&self, batch: &Batch) -> Result<Box<dyn Any + Send>, OperatorError> {
        Ok(Box::new(Tagged { input: self.input, of: self.inner.apply(batch)? }))
    }
}

impl Operator for LyingStep {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn probe(&mut self, mut batch: Batch) -> Result<Probed, OperatorError> {
        if self.variant == Variant::LateKnownPasses {
            // So far back that nothing of its key is near.
            let late = batch.times_ms.iter_mut().filter(|time_ms| **time_ms < self.watermark_ms);
            late.for_each(|time_ms| *time_ms -= LONG_AGO_MS);
        }
        self.inner.probe(batch)
    }

    fn inputs(&self) -> usize {
        self.inner.inputs()
    }

    fn ahead_of(&self, input: usize) -> Option<Arc<dyn Ahead>> {
        let inner = self.inner.ahead_of(input)?;
        // `finish` is not told of which input its batch is.
        Some(if self.lies_of_versions() { Arc::new(OfInput { inner, input }) } else { inner })
    }

    fn probe_of(&mut self, input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        let mut probed = self.inner.probe_of(input, batch)?;
        if self.lies_of_versions() {
            probed.scratch = probed.scratch.map(|of| Box::new(Tagged { input, of }) as Box<dyn Any + Send>);
        }
        Ok(probed)
    }

    fn probe_ahead(
        &mut self,
        input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        if self.lies_of_versions() {
            // Tagged by the work ahead.
            return Ok(Probed { batch, reads: Vec::new(), scratch: Some(scratch) });
        }
        self.inner.probe_ahead(input, batch, scratch)
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        self.inner.watermark_behind(watermark_ms)
    }

    fn finish(&mut self, mut probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        if self.lies_of_versions() {
            let tagged = probed.scratch.take().and_then(|scratch| scratch.downcast::<Tagged>().ok());
            let Tagged { input, of } = *tagged.expect("it was tagged on its way here");
            probed.scratch = Some(of);
            if input == 1 {
                return self.finish_versions(probed, answers);
            }
        }
        if self.variant == Variant::FirstOfASealHolds && self.has_signs() {
            probed.batch = reversed(probed.batch);
        }
        let of_window = (self.absorbs && self.inner.inputs() == 1).then(|| probed.batch.clone());
        let mut output = self.inner.finish(probed, answers)?;
        match (self.variant, of_window) {
            (Variant::PartialMergedTwice, Some(batch)) => drop(self.slip_in(batch)?),
            (Variant::LateInBoth, Some(batch)) if output.late > 0 => {
                let late = self.as_of_now(batch, output.late);
                self.slip_in(late)?;
            }
            _ => {}
        }
        if output.is_made && !output.batch.is_empty() {
            let rows = output.batch.len();
            match self.variant {
                Variant::JoinPairsTwice => output = twice(output),
                Variant::JoinPairLost => {
                    output.batch = output.batch.without(&[rows - 1]).expect("a batch of columns");
                    output.added -= 1;
                }
                _ => {}
            }
        }
        match self.variant {
            Variant::MultipliedUncounted => output.added = 0,
            Variant::DuplicatesUncounted => output.duplicates = 0,
            Variant::DuplicatesAsFiltered => output.filtered += std::mem::take(&mut output.duplicates),
            _ => {}
        }
        Ok(output)
    }

    fn multiplies(&self) -> bool {
        self.inner.multiplies()
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        let is_early = matches!(self.variant, Variant::ClosedEarly | Variant::JoinReleasedEarly);
        let early_ms = if is_early { EARLY_MS } else { 0 };
        let mut outputs = self.inner.advance(watermark_ms.saturating_add(early_ms))?;
        if matches!(self.variant, Variant::ReleasedUncounted | Variant::JoinReleasedUncounted) {
            outputs.iter_mut().for_each(|output| output.released = 0);
        }
        for output in &mut outputs {
            match self.variant {
                Variant::PartialMergedTwice => output.released /= 2,
                Variant::UnmatchedTwice => output.unmatched_rows.extend_from_within(..),
                Variant::UnmatchedLost if self.is_restored => output.unmatched_rows.clear(),
                _ => {}
            }
        }
        if self.has_signs() {
            outputs = self.lie_about_signs(outputs);
        }
        self.has_released = !outputs.is_empty();
        Ok(outputs)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.inner.is_due(watermark_ms)
    }

    fn closes_at_end(&self) -> bool {
        self.inner.closes_at_end()
    }

    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.has_closed = true;
        if self.variant == Variant::ClosedForEver {
            return self.advance(watermark_ms.saturating_add(LONG_AGO_MS));
        }
        let outputs = self.inner.close(watermark_ms)?;
        self.has_released = !outputs.is_empty();
        Ok(outputs)
    }

    fn waiting(&mut self) -> u64 {
        self.inner.waiting()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        self.inner.state().is_some().then_some(self as &mut dyn State)
    }

    fn seen_keys(&mut self) -> Option<&mut dyn SeenKeys> {
        self.inner.seen_keys().is_some().then_some(self as &mut dyn SeenKeys)
    }
}

/// Whether the rows of an output take others back.
fn takes_back(output: &Output) -> bool {
    let signs = output.batch.rows.column_by_name(SIGN).expect("a column of an upsert's rows");
    signs.as_primitive::<Int8Type>().iter().flatten().any(|sign| sign < 0)
}

/// The rows of a batch, the last first.
fn reversed(batch: Batch) -> Batch {
    let last_first = UInt64Array::from_iter_values((0..batch.len() as u64).rev());
    let rows = arrow_select::take::take_record_batch(&batch.rows, &last_first).expect("rows that are there");
    let positions = batch.positions.iter().rev().copied().collect();
    let times_ms = batch.times_ms.iter().rev().copied().collect();
    Batch { rows, positions, times_ms, ..batch }
}

/// Each row of an output once more.
fn twice(mut output: Output) -> Output {
    let batch = &mut output.batch;
    let rows = [&batch.rows, &batch.rows];
    batch.rows = arrow_select::concat::concat_batches(&batch.rows.schema(), rows).expect("the same columns");
    let last = batch.positions.last().map_or(0, |last| last + 1);
    batch.positions.extend((last..).take(batch.times_ms.len()).collect::<Vec<_>>());
    batch.times_ms.extend_from_within(..);
    output.added *= 2;
    output
}

impl State for LyingStep {
    fn shape(&self) -> String {
        self.shape.clone()
    }

    fn absorbs(&self) -> bool {
        self.absorbs
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        self.watermark_ms = watermark_ms;
        let delta = self.honest().seal(watermark_ms);
        let snapshot = self.honest().snapshot();
        self.held = self.honest().held() + self.freed;
        if self.variant == Variant::PartialMergedTwice {
            self.held /= 2;
        }
        self.snapshots = [snapshot, std::mem::take(&mut self.snapshots[0])];
        self.is_restored = false;
        self.seals += 1;
        let has_closed = std::mem::take(&mut self.has_closed);
        let is_lost = match self.variant {
            Variant::LostDelta
            | Variant::JoinUnsealed
            | Variant::VersionsUnsealed
            | Variant::ChangesUnsealed => self.seals.is_multiple_of(LOST_DELTA),
            Variant::ClosedUnsealed => self.has_released,
            Variant::EndUnsealed => has_closed && self.has_released,
            _ => false,
        };
        if is_lost { Bytes::new() } else { delta }
    }

    fn snapshot(&self) -> Bytes {
        let is_early = matches!(self.variant, Variant::SnapshotOneSealEarly | Variant::ChangesOneSealEarly);
        self.snapshots[usize::from(is_early)].clone()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        self.snapshots = [Bytes::copy_from_slice(snapshot), Bytes::copy_from_slice(snapshot)];
        self.is_restored = true;
        self.honest().restore(snapshot)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.is_restored = true;
        self.honest().apply(delta)
    }

    fn entries(&self) -> u64 {
        0
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

impl SeenKeys for LyingStep {
    fn forget(&mut self, rows: Probed, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        if self.variant == Variant::SeenThoughRefused {
            Ok(())
        } else {
            self.inner_keys().forget(rows, answers)
        }
    }

    fn duplicates_of(&mut self, rows: &Batch) -> Result<Duplicates, OperatorError> {
        self.inner_keys().duplicates_of(rows)
    }
}
