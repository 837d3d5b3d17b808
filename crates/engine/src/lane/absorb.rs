//! What becomes of a block: its batch goes through the steps into the cut under construction.

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Copies, Operator, Output, RecordBlock, Reject, Selected};
use metrics::counter;
use protocol::Violation;
use protocol::record::{Counts, Fate};

use super::LaneTask;
use crate::context::Context;
use crate::origins::Part;
use crate::refuse::Refused;
use crate::stage::{Stage, accounted};
use crate::waiting::Ready;
use crate::{EngineError, jobs, state_files};

/// The rows of a batch are moved together after the last step too if more than one in so many goes no further. Otherwise they stay
/// where they are until the frame is written, which costs less, but holds the memory of those that are gone as well.
const GONE_ONE_IN: usize = 4;

impl LaneTask {
    pub(super) async fn absorb(&mut self, ready: Ready) -> Result<(), EngineError> {
        self.works.adopt(&mut self.steps)?;
        let (Ready::Block { partition, .. }
        | Ready::CaughtUp { partition, .. }
        | Ready::Ended { partition, .. }) = &ready;
        self.readings[*partition].answered = true;
        match ready {
            Ready::Block { partition, block, decoded } => {
                let decoded = decoded.ok_or(EngineError::Internal("decode"))?;
                self.check_new(partition, &block)?;
                let records = (decoded.batch.len() + decoded.rejects.len()) as u64;
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
                self.builder.rejects(decoded.rejects);
                self.step(partition, &block, decoded.batch).await?;
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
                    "the source hands out position {first} of `{}` once more, which was read up to {}",
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

    /// Takes a batch through all steps, in the two phases of each.
    pub(super) async fn step(
        &mut self,
        partition: usize,
        block: &RecordBlock,
        batch: Batch,
    ) -> Result<(), EngineError> {
        // A step may put the event's time in its place; latency is counted from the time that the source gave.
        let sample = batch.times_ms.last().copied().filter(|t| *t != TIME_UNKNOWN_MS);
        let (runtime, status) = (&*self.context.runtime, &*self.context.status);
        let (wall_ms, now) = (runtime.wall_ms(), runtime.elapsed());
        // Every record moves the watermark before a step decides about it, one that could not be decoded too. Where a step takes the time
        // from the row, that is known of decoded rows alone, and the others show that their partition is alive.
        let mut is_observed = self.steps.first_mut().is_none_or(|step| step.state().is_some());
        if is_observed {
            self.watermarks.observe(partition, &block.times_ms, wall_ms, now);
        }
        let mut output = Output::all(batch);
        for step in &mut self.steps {
            if !is_observed && step.state().is_some() {
                self.watermarks.observe(partition, &output.batch.times_ms, wall_ms, now);
                is_observed = true;
            }
            let probe = || Ok::<_, EngineError>(step.probe(dense(output)?.batch)?);
            let mut probed = accounted(Stage::Steps, runtime, status, probe)?;
            let answers = state_files::read(&self.context, &std::mem::take(&mut probed.reads)).await?;
            output = jobs::finish(&self.context, &mut **step, probed, &answers).await?;
            self.builder.dropped(&output);
            counter!("forebay_records_duplicate_total").increment(output.duplicates);
            counter!("forebay_records_filtered_total").increment(output.filtered);
            counter!("forebay_records_late_total").increment(output.late);
            counter!("forebay_records_late_kept_total").increment(output.late_kept);
            let mut rejects = std::mem::take(&mut output.rejects);
            rejects.iter_mut().for_each(|reject| complete(reject, block));
            self.builder.rejects(rejects);
        }
        if output.gone.len() * GONE_ONE_IN > output.batch.len() {
            output = accounted(Stage::Steps, runtime, status, || dense(output))?;
        }
        let Batch { rows, positions, times_ms, .. } = output.batch;
        let rows = Selected::without(rows, &output.gone);
        if !is_observed {
            self.watermarks.observe(partition, &times_ms, wall_ms, now);
        }
        if !rows.is_empty() {
            let origins = part(partition as u32, positions, &rows, block);
            self.builder.rows(rows, origins, sample);
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

    /// A refused row becomes a dead letter, and its keys are forgotten in the same seal (C10).
    pub(super) async fn refuse(&mut self, refused: Refused) -> Result<(), EngineError> {
        let mut batch = refused.batch();
        let mut copies = Copies::default();
        // Steps without state give the row its time again; steps with state forget it. No step changes columns so far; one
        // that does will have to keep its input's keys beside the row.
        for step in &mut self.steps {
            if let Some(state) = step.state() {
                refused.place(&mut batch);
                let found = state.copies_of(&batch)?;
                copies.count += found.count;
                copies.places.extend(found.places);
                forget(&self.context, step, &batch).await?;
            } else {
                let probed = step.probe(batch)?;
                batch = dense(step.finish(probed, &[])?)?.batch;
            }
        }
        if batch.is_empty() {
            return Err(EngineError::Internal("a step that drops a row it let pass before"));
        }
        counter!("forebay_refused_copies_total").increment(copies.count);
        let (refusal, reject) = refused.into_reject(&copies);
        self.builder.refused(refusal, reject, self.context.runtime.elapsed());
        Ok(())
    }
}

/// What became of the only record of a block, from what the counts gained by it.
fn fate(before: &Counts, after: &Counts, block: &RecordBlock) -> Result<Fate, EngineError> {
    let gained = [
        (Fate::Written, after.written - before.written),
        (Fate::Filtered, after.filtered - before.filtered),
        (Fate::Duplicate, after.duplicates - before.duplicates),
        (Fate::Late, after.late - before.late),
        (Fate::DeadLetter, after.dead_letters - before.dead_letters),
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
fn part(partition: u32, positions: Vec<u64>, rows: &Selected, block: &RecordBlock) -> Part {
    // As many rows as records: each row's record has the row's number.
    let is_whole = positions.len() == block.len();
    let positions = if rows.is_all() { positions } else { rows.gather(&positions) };
    let times_ms = if is_whole {
        rows.gather(&block.times_ms)
    } else {
        // Both ascend, so one pass finds every row's record.
        let mut rows = block.positions.iter().zip(&block.times_ms);
        let time = |position: &u64| rows.find(|(p, _)| *p == position).map_or(TIME_UNKNOWN_MS, |(_, t)| *t);
        positions.iter().map(time).collect()
    };
    Part { partition, positions, times_ms }
}

/// A step sees columns only; the record's bytes, key and headers come from its block.
fn complete(reject: &mut Reject, block: &RecordBlock) {
    if let Ok(row) = block.positions.binary_search(&reject.position) {
        let whole = Reject::of(block, row, reject.reason, "", std::mem::take(&mut reject.message));
        *reject = Reject { column: std::mem::take(&mut reject.column), ..whole };
    }
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
