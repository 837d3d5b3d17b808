//! What becomes of a block: its batch goes through the steps into the cut under construction.

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Duplicates, Operator, Output, RecordBlock, Selected};
use metrics::counter;
use protocol::Violation;
use protocol::record::{Counts, Fate};

use super::LaneTask;
use crate::context::Context;
use crate::origins::Part;
use crate::refuse::Refused;
use crate::stage::{Stage, accounted};
use crate::tables::{Routed, route};
use crate::waiting::Ready;
use crate::{EngineError, jobs, state_files};

/// The rows of a batch are moved together after the last step too if more than one in so many goes no further. Otherwise they stay
/// where they are until the frame is written, which costs less, but holds the memory of those that are gone as well.
const DROPPED_ONE_IN: usize = 4;

/// What the dead letter of a refused row says whose dedup key is not known any more.
const KEY_KEPT: &str = "; its `dedup` key could not be forgotten, for its record cannot be read again and steps have made the row from it: later \
                        records of the same key are dropped as its duplicates until the window has passed";
/// What the dead letter of a refused row says whose record may have other rows.
const SHARED: &str = "; other rows of its record may be in a table, so that its key stays known: replayed, this dead letter is a duplicate";

impl LaneTask {
    pub(super) async fn absorb(&mut self, ready: Ready) -> Result<(), EngineError> {
        self.works.adopt(&mut self.steps)?;
        let (Ready::Block { partition, .. }
        | Ready::CaughtUp { partition, .. }
        | Ready::Ended { partition, .. }) = &ready;
        self.readings[*partition].answered = true;
        match ready {
            Ready::Block { partition, block, prepared } => {
                let mut prepared = prepared.ok_or(EngineError::Internal("decode"))??;
                self.check_new(partition, &block)?;
                let records = prepared.records;
                if self.readings[partition].wants_fates {
                    self.absorbed.replayed += records;
                    counter!("forebay_records_replayed_total").increment(records);
                } else {
                    self.absorbed.read += records;
                    counter!("forebay_records_read_total").increment(records);
                }
                counter!("forebay_bytes_read_total").increment(block.payloads.bytes.len() as u64);
                let before = self.builder.counts();
                self.builder.read(records, self.context.runtime.elapsed());
                let is_derived = self.builder.prepared(&mut prepared);
                counter!("forebay_records_filtered_total").increment(prepared.filtered);
                // Every record moves the watermark, those that no step let pass too.
                let (wall_ms, now) = (self.context.runtime.wall_ms(), self.context.runtime.elapsed());
                self.watermarks.observe(partition, prepared.times_ms(&block), wall_ms, now);
                self.step(partition, &block, prepared.batch, is_derived).await?;
                if self.readings[partition].wants_fates {
                    let fate = fate(&before, &self.builder.counts(), &block)?;
                    self.builder.fate(partition as u32, block.positions[0], fate);
                }
                self.advance(partition, block.next, block.leader_epoch);
                self.throttle(partition);
            }
            Ready::CaughtUp { partition, next, leader_epoch } => {
                self.watermarks.caught_up(partition);
                self.advance(partition, next, leader_epoch);
            }
            Ready::Ended { partition, next } => {
                self.watermarks.ended(partition);
                self.readings[partition].ended = true;
                self.advance(partition, next, dataflow::block::NO_LEADER_EPOCH);
            }
        }
        Ok(())
    }

    /// A record that was handed out before would be counted, and perhaps written, a second time (C1).
    fn check_new(&self, partition: usize, block: &RecordBlock) -> Result<(), EngineError> {
        let reading = &self.readings[partition];
        match block.positions.first() {
            Some(first) if *first < reading.next => {
                let seq = self.context.ownership.next_seq();
                let what = format!(
                    "the source returned position {first} of `{}` again, which was read up to {}",
                    reading.partition, reading.next
                );
                Err(Violation { seq, rule: "C1", what }.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn advance(&mut self, partition: usize, next: u64, leader_epoch: i32) {
        let reading = &mut self.readings[partition];
        if next > reading.next {
            reading.next = next;
            let time = self.watermarks.time_ms_max(partition);
            self.builder.moved(partition as u32, reading.cut, next, leader_epoch, time);
        }
    }

    /// Takes a batch through the steps of the lane, in the two phases of each. `is_derived` says whether a step has made several rows of
    /// one record.
    pub(super) async fn step(
        &mut self,
        partition: usize,
        block: &RecordBlock,
        batch: Batch,
        mut is_derived: bool,
    ) -> Result<(), EngineError> {
        let sample = latest(&batch, block);
        let (runtime, status) = (&*self.context.runtime, &*self.context.status);
        let mut output = Output::all(batch);
        for step in &mut self.steps {
            let probe = || Ok::<_, EngineError>(step.probe(dense(output)?.batch)?);
            let mut probed = accounted(Stage::Steps, runtime, status, probe)?;
            let answers = state_files::read(&self.context, &std::mem::take(&mut probed.reads)).await?;
            output = jobs::finish(&self.context, &mut **step, probed, &answers).await?;
            let was_derived = is_derived;
            is_derived = self.builder.stepped(&output, was_derived);
            counter!("forebay_records_duplicate_total").increment(output.duplicates);
            counter!("forebay_records_filtered_total").increment(output.filtered);
            counter!("forebay_records_late_total").increment(output.late);
            counter!("forebay_records_late_kept_total").increment(output.late_kept);
            let rejects = std::mem::take(&mut output.rejects);
            let rejects = rejects.into_iter().map(|reject| reject.completed(block)).collect();
            self.builder.rejects(rejects, was_derived);
        }
        if output.dropped.len() * DROPPED_ONE_IN > output.batch.len() {
            output = accounted(Stage::Steps, runtime, status, || dense(output))?;
        }
        let Batch { rows, positions, .. } = output.batch;
        let rows = Selected::without(rows, &output.dropped);
        if !rows.is_empty() {
            self.gather(partition as u32, positions, rows, block, is_derived, sample)?;
        }
        Ok(())
    }

    /// Rows that came through all steps go into the cut, for each of their tables.
    fn gather(
        &mut self,
        partition: u32,
        mut positions: Vec<u64>,
        rows: Selected,
        block: &RecordBlock,
        is_derived: bool,
        sample: Option<i64>,
    ) -> Result<(), EngineError> {
        let len = rows.len() as u64;
        let Routed { tables, dropped, more } =
            route(self.router.as_deref(), self.columns_written.len(), rows)?;
        self.builder.passed(len - dropped, dropped, more, is_derived);
        counter!("forebay_records_filtered_total").increment(dropped);
        let mut left = tables.len();
        for (place, rows) in tables {
            left -= 1;
            let positions = if left == 0 { std::mem::take(&mut positions) } else { positions.clone() };
            let origins = part(partition, positions, &rows, block, is_derived);
            let rows = written(rows, self.columns_written[place])?;
            self.builder.rows(place, rows, origins, sample);
        }
        Ok(())
    }

    /// A partition that runs far ahead of the others waits for them, so that state need not span the distance.
    pub(super) fn throttle(&mut self, partition: usize) {
        let Some(skew_ms) = self.context.settings.skew_ms_max else { return };
        let reading = &mut self.readings[partition];
        if !reading.paused && self.watermarks.is_ahead(partition, skew_ms) {
            reading.paused = true;
            self.reader.iter_mut().for_each(|reader| reader.pause(&reading.partition));
        }
    }

    /// A refused row becomes a dead letter, and its keys are forgotten in the same seal (C10); not if a table may have another row
    /// of the same record, for a later record of the key would be there twice.
    pub(super) async fn refuse(&mut self, refused: Refused) -> Result<(), EngineError> {
        let mut duplicates = Duplicates::default();
        let stateful = self.steps.iter_mut().any(|step| step.state().is_some());
        let again = if stateful { self.again(&refused)? } else { None };
        let is_shared = stateful && self.is_shared(again.as_ref())?;
        let is_forgotten = again.is_some() || !stateful;
        if let Some(mut batch) = again.filter(|_| !is_shared) {
            for step in &mut self.steps {
                if let Some(state) = step.state() {
                    refused.place(&mut batch);
                    let found = state.duplicates_of(&batch)?;
                    duplicates.count += found.count;
                    duplicates.places.extend(found.places);
                    forget(&self.context, step, &batch).await?;
                } else {
                    let probed = step.probe(batch)?;
                    batch = dense(step.finish(probed, &[])?)?.batch;
                }
            }
            if batch.is_empty() {
                return Err(EngineError::Internal("a step that drops a row it let pass before"));
            }
        }
        counter!("forebay_refused_duplicates_total").increment(duplicates.count);
        let (refusal, mut reject) = refused.into_reject(&duplicates);
        if is_shared {
            reject.message += SHARED;
        } else if !is_forgotten {
            let partition = &reject.partition;
            tracing::warn!(%partition, position = reject.position, "the key of a refused row cannot be forgotten");
            reject.message += KEY_KEPT;
        }
        self.builder.refused(refusal, reject, self.context.runtime.elapsed());
        Ok(())
    }

    /// A refused row as the first step of the lane saw it: its record, read again, goes through the same work as the first time. Where the
    /// record cannot be had the row itself serves, unless steps have made it from other columns.
    fn again(&self, refused: &Refused) -> Result<Option<Batch>, EngineError> {
        if let Some(record) = refused.record() {
            let batch = self.intake.prepare(record, self.context.runtime.wall_ms())?.batch;
            // Otherwise the pipeline's steps are others than those that let the record pass.
            if batch.len() == 1 {
                return Ok(Some(batch));
            }
        }
        Ok(self.intake.rows_again(refused.batch())?)
    }

    /// Whether a table may have another row of a record; the record as the first step of the lane saw it, if it is known.
    fn is_shared(&self, again: Option<&Batch>) -> Result<bool, EngineError> {
        let multiplies = self.steps.iter().any(|step| step.multiplies())
            || self.intake.steps().iter().any(|step| step.multiplies());
        let tables = self.columns_written.len();
        match again {
            _ if multiplies => Ok(true),
            None => Ok(tables > 1),
            Some(batch) => {
                let rows = Selected::all(batch.rows.clone());
                Ok(route(self.router.as_deref(), tables, rows)?.tables.len() > 1)
            }
        }
    }
}

/// What became of the only record of a block, from what the counts gained by it.
fn fate(before: &Counts, after: &Counts, block: &RecordBlock) -> Result<Fate, EngineError> {
    let gained = [
        (Fate::Written, after.passed - before.passed),
        (Fate::Filtered, after.filtered - before.filtered),
        (Fate::Duplicate, after.duplicates - before.duplicates),
        (Fate::Late, after.late - before.late),
        (Fate::DeadLetter, after.dead_letters - before.dead_letters),
        (Fate::Absorbed, after.absorbed - before.absorbed),
    ];
    let told = gained.into_iter().find(|(_, records)| *records == 1).filter(|_| block.len() == 1);
    told.map(|(fate, _)| fate)
        .ok_or(EngineError::Internal("a block of several records whose fates are wanted"))
}

/// What a step made of a batch, with the rows that go on moved together.
fn dense(output: Output) -> Result<Output, EngineError> {
    output.dense().map_err(|_| EngineError::Internal("a batch whose rows cannot be taken out"))
}

/// Where the `rows` of a batch come from, each of which stands at its entry of `positions`; their times are those that the source gave,
/// whatever the steps took.
fn part(partition: u32, positions: Vec<u64>, rows: &Selected, block: &RecordBlock, is_derived: bool) -> Part {
    // As many rows as records: each row's record has the row's number.
    let is_whole = positions.len() == block.len() && !is_derived;
    let positions = if rows.is_all() { positions } else { rows.gather(&positions) };
    let times_ms = if is_whole {
        rows.gather(&block.times_ms)
    } else {
        // Both ascend, so one pass finds every row's record; several rows may be of one.
        let mut records = block.positions.iter().zip(&block.times_ms).peekable();
        let mut time = |position: &u64| {
            while records.next_if(|(p, _)| *p < position).is_some() {}
            records.peek().filter(|(p, _)| *p == position).map_or(TIME_UNKNOWN_MS, |(_, t)| **t)
        };
        positions.iter().map(&mut time).collect()
    };
    Part { partition, positions, times_ms }
}

/// The time that the source gave the last record of a batch; latency is counted from it.
fn latest(batch: &Batch, block: &RecordBlock) -> Option<i64> {
    let row = block.positions.binary_search(batch.positions.last()?).ok()?;
    Some(block.times_ms[row]).filter(|time_ms| *time_ms != TIME_UNKNOWN_MS)
}

/// The columns that go to a table; those behind them were for the steps alone.
fn written(rows: Selected, columns: usize) -> Result<Selected, EngineError> {
    if rows.batch().num_columns() <= columns {
        return Ok(rows);
    }
    rows.first_columns(columns)
        .map_err(|_| EngineError::Internal("a batch whose columns cannot be taken out"))
}

/// Forgets the keys of rows, those in files too.
async fn forget(context: &Context, step: &mut Box<dyn Operator>, rows: &Batch) -> Result<(), EngineError> {
    let mut probed = step.probe(rows.clone())?;
    let answers = state_files::read(context, &std::mem::take(&mut probed.reads)).await?;
    match step.state() {
        Some(state) => Ok(state.forget(probed, &answers)?),
        None => Err(EngineError::Internal("a step that lost its state")),
    }
}

#[cfg(test)]
mod tests;
