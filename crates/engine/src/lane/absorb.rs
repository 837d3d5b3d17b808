//! What becomes of a block: its batch goes through the steps into the cut under construction.

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::operator::StateRead;
use dataflow::{Batch, Partition, Reason, RecordBlock, Reject};
use metrics::counter;
use protocol::record::{Counts, Fate};

use super::LaneTask;
use crate::context::Context;
use crate::refuse::Refused;
use crate::waiting::Ready;
use crate::{EngineError, segment};

impl LaneTask {
    pub(super) async fn absorb(&mut self, ready: Ready) -> Result<(), EngineError> {
        match ready {
            Ready::Block { partition, block, decoded } => {
                let decoded = decoded.ok_or(EngineError::Internal("decode"))?;
                let records = (decoded.batch.len() + decoded.rejects.len()) as u64;
                counter!("forebay_records_read_total").increment(records);
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
        mut batch: Batch,
    ) -> Result<(), EngineError> {
        // A step may put the event's time in its place; latency is counted from the time that the source gave.
        let sample = batch.times_ms.last().copied().filter(|t| *t != TIME_UNKNOWN_MS);
        for step in &mut self.steps {
            let mut probed = step.probe(batch)?;
            let answers = read_state(&self.context, std::mem::take(&mut probed.reads)).await?;
            let mut output = step.finish(probed, &answers)?;
            self.builder.dropped(&output);
            counter!("forebay_records_duplicate_total").increment(output.duplicates);
            counter!("forebay_records_filtered_total").increment(output.filtered);
            counter!("forebay_records_late_total").increment(output.late);
            let mut rejects = std::mem::take(&mut output.rejects);
            rejects.iter_mut().for_each(|reject| complete(reject, block));
            self.builder.rejects(rejects);
            batch = output.batch;
        }
        let (wall_ms, now) = (self.context.runtime.wall_ms(), self.context.runtime.elapsed());
        self.watermarks.observe(partition, &batch.times_ms, wall_ms, now);
        if !batch.is_empty() {
            self.builder.rows(batch.rows, sample);
        }
        Ok(())
    }

    /// A partition that runs far ahead of the others waits for them, so that state need not span the distance.
    pub(super) fn throttle(&mut self, partition: usize) {
        let Some(skew_ms) = self.context.settings.skew_ms_max else { return };
        let reading = &mut self.readings[partition];
        if !reading.paused && self.watermarks.is_ahead(partition, skew_ms) {
            reading.paused = true;
            self.reader.pause(&reading.partition);
        }
    }

    /// A refused row becomes a dead letter, and its keys are forgotten in the same seal (C10).
    pub(super) fn refuse(&mut self, refused: Refused) -> Result<(), EngineError> {
        let Refused { refusal, row, raw, message } = refused;
        let partition = Partition::new("", 0);
        let mut batch = Batch {
            partition: partition.clone(),
            rows: row,
            positions: vec![0],
            times_ms: vec![TIME_UNKNOWN_MS],
        };
        // Steps without state give the row its time again; steps with state forget it. No step changes columns so far; one
        // that does will have to keep its input's keys beside the row.
        for step in &mut self.steps {
            match step.state() {
                Some(state) => state.forget(&batch)?,
                None => {
                    let probed = step.probe(batch)?;
                    batch = step.finish(probed, &[])?.batch;
                }
            }
        }
        if batch.is_empty() {
            return Err(EngineError::Internal("a step that drops a row it let pass before"));
        }
        let reject = Reject {
            partition,
            position: 0,
            time_ms: batch.times_ms[0],
            reason: Reason::Refused,
            column: String::new(),
            message,
            key: None,
            headers: Vec::new(),
            raw: raw.into_bytes(),
        };
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

/// A step sees columns only; the record's bytes, key and headers come from its block.
fn complete(reject: &mut Reject, block: &RecordBlock) {
    if let Ok(row) = block.positions.binary_search(&reject.position) {
        let Reject { raw, key, headers, .. } = Reject::of(block, row, reject.reason, "", String::new());
        (reject.raw, reject.key, reject.headers) = (raw, key, headers);
    }
}

/// Reads what a step asked for, in order.
async fn read_state(context: &Context, reads: Vec<StateRead>) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut answers = Vec::with_capacity(reads.len());
    for read in reads {
        let object = format!("{}/{}", context.folder, read.object);
        let bytes = segment::read(&*context.store, &object, read.offset, u64::from(read.len), None).await?;
        answers.push(bytes.to_vec());
    }
    Ok(answers)
}
