//! The way of rows through the steps into the cut under construction: those of a block, and those that a watermark lets out of a step.
//!
//! Owns the counts of a block's records on that way, and which keys are forgotten with a rejected record (C10). Does not own what a step decides
//! (`dataflow::Operator`), the sums (`crate::cut`), when a cut is made (`lane::cutting`) or a refused row's way back (`lane::refusal`).

use std::any::Any;

use dataflow::block::{NO_LEADER_EPOCH, TIME_UNKNOWN_MS};
use dataflow::position;
use dataflow::{Batch, Intake, Operator, Output, Position, RecordBlock, Reject, Schema, Selected, reject};
use metrics::counter;
use protocol::Violation;
use protocol::record::{Counts, Fate};

use super::LaneTask;
use super::feed::feed_of;
use crate::context::Context;
use crate::flow::Port;
use crate::gathered::{part, written};
use crate::origins::{self, Part};
use crate::refused::told_duplicates;
use crate::stage::{Stage, accounted};
use crate::state_files::Files;
use crate::tables::{self, Routed, SideRows, route};
use crate::waiting::Ready;
use crate::{EngineError, jobs};

/// The rows of a batch are moved together after the last step too if more than one in so many goes no further. Otherwise they stay
/// where they are until the frame is written, which costs less, but holds the memory of those that are gone as well.
const DROPPED_ONE_IN: usize = 4;

/// Where rows behind the last step come from.
#[derive(Clone, Copy)]
enum From<'a> {
    /// Records of a block, and the source's time of the last of them.
    Block { partition: u32, block: &'a RecordBlock, sample: Option<i64> },
    /// A step made them, the so manyth of those with state; of records of which the source gave the last this time, if of any.
    Step { number: u32, sample: Option<i64> },
}

/// Rows on their way: where they are, what the decode job has done for the step there, and whether a step has made rows that are not one each of a
/// record.
struct Coming<'a> {
    port: Port,
    output: Output,
    ahead: Option<Box<dyn Any + Send>>,
    is_derived: bool,
    from: From<'a>,
}

/// Rows that came through all steps.
struct Reached<'a> {
    output: Output,
    is_derived: bool,
    from: From<'a>,
}

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
                self.builder.read(block.partition.input, records, self.context.runtime.elapsed());
                let is_derived = self.builder.prepared(&mut prepared);
                counter!("forebay_records_filtered_total").increment(prepared.filtered);
                // Every record moves the watermark, those that no step let pass too.
                let (wall_ms, now) = (self.context.runtime.wall_ms(), self.context.runtime.elapsed());
                self.watermarks.observe(partition, prepared.times_ms(&block), wall_ms, now);
                let (batch, ahead) = (prepared.batch, prepared.ahead);
                let sample = latest(&batch, &block);
                let from = From::Block { partition: partition as u32, block: &block, sample };
                let owner = self.owner_of(&block);
                let port = self.flow.entry(owner.ok_or(EngineError::Internal("a block of no input"))?);
                let output = Output::all(batch);
                let reached = self.through(Coming { port, output, ahead, is_derived, from }).await?;
                self.gather(reached)?;
                if self.readings[partition].wants_fates {
                    let fate = fate(&before, &self.builder.counts(), &block)?;
                    self.builder.fate(partition as u32, block.position(0), fate);
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
                self.advance(partition, next, NO_LEADER_EPOCH);
            }
        }
        Ok(())
    }

    /// A record that was handed out before would be counted, and perhaps written, a second time (C1).
    fn check_new(&self, partition: usize, block: &RecordBlock) -> Result<(), EngineError> {
        let reading = &self.readings[partition];
        let first = (!block.is_empty()).then(|| block.position(0));
        match first {
            Some(first) if first < reading.next => {
                let seq = self.context.ownership.next_seq();
                let what = format!(
                    "the source returned position {} of `{}` again, which was read up to {}",
                    position::shown(first),
                    reading.partition,
                    position::shown(reading.next)
                );
                Err(Violation { seq, rule: "C1", what }.into())
            }
            _ => Ok(()),
        }
    }

    /// A partition stands at `next` now, with this leader epoch. Of a file that is its mark, and may be another one though nothing was read: half a line that has
    /// come behind the position makes it one that was not read to its end. Elsewhere the epoch is that of the last record, and stays until the next.
    pub(super) fn advance(&mut self, partition: usize, next: Position, leader_epoch: i32) {
        let reading = &mut self.readings[partition];
        let has_moved = next > reading.next;
        let is_other = leader_epoch != reading.leader_epoch && leader_epoch != NO_LEADER_EPOCH;
        let is_said_anew = reading.is_marked && next == reading.next && is_other;
        if !has_moved && !is_said_anew {
            return;
        }
        if has_moved {
            self.builder.ran(partition as u32, reading.next, next);
        }
        (reading.next, reading.leader_epoch) = (next, leader_epoch);
        let time = self.watermarks.time_ms_max(partition);
        self.builder.moved(partition as u32, reading.cut, next, leader_epoch, time);
    }

    /// Takes what came out of a step, or out of the decode job, through the steps to the end, in the two phases of each.
    async fn through<'a>(&mut self, coming: Coming<'a>) -> Result<Reached<'a>, EngineError> {
        let Coming { mut port, mut output, mut ahead, mut is_derived, mut from } = coming;
        let (runtime, status) = (self.context.runtime.clone(), self.context.status.clone());
        let mut aside: Vec<(usize, Batch, bool)> = Vec::new();
        while port.step < self.steps.len() {
            let at = port.step;
            let step = &mut self.steps[at];
            let batch = dense(output)?.batch;
            // A row that no record holds has nothing but its columns.
            let rows = matches!(from, From::Step { .. }).then(|| (port, batch.clone()));
            let probe = || match ahead.take() {
                Some(scratch) => step.probe_ahead(port.input, batch, scratch),
                None => step.probe_of(port.input, batch),
            };
            let probe = || probe().map_err(EngineError::from);
            let mut probed = accounted(Stage::Steps, &*runtime, &status, probe)?;
            let answers = self.works.files().read(&std::mem::take(&mut probed.reads)).await?;
            output = jobs::finish(&runtime, &status, &mut **step, probed, &answers).await?;
            let was_derived = is_derived;
            aside.extend(output.late_rows.take().map(|late| (at, *late, was_derived)));
            is_derived = self.builder.stepped(&output, was_derived);
            counter!("forebay_records_duplicate_total").increment(output.duplicates);
            counter!("forebay_records_filtered_total").increment(output.filtered);
            counter!("forebay_records_late_total").increment(output.late);
            counter!("forebay_records_late_kept_total").increment(output.late_kept);
            counter!("forebay_records_absorbed_total").increment(output.absorbed);
            counter!("forebay_records_released_total").increment(output.released);
            let mut rejects = std::mem::take(&mut output.rejects);
            if let From::Block { block, .. } = from
                && !rejects.is_empty()
                && (!was_derived || rejects.iter().all(|reject| reject.item.is_some()))
            {
                self.forget_rejected(at, block, &mut rejects).await?;
            }
            let rejects = match (from, &rows) {
                (From::Block { block, .. }, _) if was_derived && self.holds_several(block) => {
                    reject::of_rows(rejects, block)
                }
                (From::Block { block, .. }, _) => reject::of_items(rejects, block),
                (From::Step { .. }, rows) => {
                    let rows = rows.as_ref().map(|(port, rows)| (self.steps[at].columns(port.input), rows));
                    rejects.into_iter().map(|reject| with_row(&self.context, reject, rows)).collect()
                }
            };
            self.builder.rejects(rejects, was_derived);
            for (at, late, was_derived) in aside.drain(..) {
                self.gather_late(at, late, was_derived, from)?;
            }
            self.gather_unmatched(at, std::mem::take(&mut output.unmatched_rows))?;
            if output.is_made {
                let sample = match from {
                    From::Block { sample, .. } | From::Step { sample, .. } => sample,
                };
                from = From::Step { number: self.number(at), sample };
            }
            port = self.flow.next(at);
        }
        Ok(Reached { output, is_derived, from })
    }

    /// The number of a step among those with state.
    fn number(&mut self, at: usize) -> u32 {
        self.steps[..at].iter_mut().map(|step| u32::from(step.state().is_some())).sum()
    }

    /// Records of `block` that step `at` rejects do not count as seen: the steps before it forget their keys, in the seal that has the dead
    /// letters (C10). Each is taken through the same work once more, so that nothing is kept of those that no step rejects.
    async fn forget_rejected(
        &mut self,
        at: usize,
        block: &RecordBlock,
        rejects: &mut [Reject],
    ) -> Result<(), EngineError> {
        let path = self.path(self.owner_of(block), at);
        if !path.iter().any(|port| self.steps[port.step].seen_keys().is_some()) {
            return Ok(());
        }
        for reject in rejects {
            // Of a record with several rows the one that is rejected.
            let record = block.one(reject.position).map(|record| RecordBlock { item: reject.item, ..record });
            let (Some(record), Some(intake)) = (record, self.intake_of(block.partition.input)) else {
                return Err(EngineError::Internal("a step that rejects a record it was not given"));
            };
            let mut batch = intake.prepare(&record, self.context.runtime.wall_ms())?.batch;
            if batch.times_ms == [TIME_UNKNOWN_MS] {
                // As `dedup` has placed it.
                batch.times_ms = vec![self.judged_by_ms];
            }
            for port in &path {
                let step = &mut self.steps[port.step];
                match step.seen_keys() {
                    Some(keys) => {
                        reject.message += &told_duplicates(&keys.duplicates_of(&batch)?);
                        forget(self.works.files(), step, &batch).await?;
                    }
                    None => {
                        let probed = step.probe_of(port.input, batch)?;
                        batch = dense(step.finish(probed, &[])?)?.batch;
                    }
                }
            }
        }
        Ok(())
    }

    /// The steps before step `end` that records of the input at `place` go through.
    pub(super) fn path(&self, place: Option<usize>, end: usize) -> Vec<Port> {
        place.map(|place| self.flow.path(place, end).collect()).unwrap_or_default()
    }

    /// Rows that step `at` found late go into the cut for their table: they are written, and counted as late beside that.
    fn gather_late(
        &mut self,
        at: usize,
        late: Batch,
        is_derived: bool,
        from: From<'_>,
    ) -> Result<(), EngineError> {
        let From::Block { partition, block, sample } = from else {
            return Err(EngineError::Internal("late rows that are of no record"));
        };
        let (table, made) = tables::aside(&self.sides, (at, SideRows::Late), late)?;
        let len = made.len() as u64;
        let rows = Selected::all(made.rows);
        self.builder.passed(len, 0, 0, is_derived);
        self.builder.late_rows(len);
        counter!("forebay_records_late_kept_total").increment(len);
        let origins = part(partition, (made.positions, &made.items), &rows, block, is_derived);
        self.put(table, rows, origins, sample)
    }

    /// Rows of an input of step `at` that it released without a match go into the cut for their table, as rows of its making.
    fn gather_unmatched(&mut self, at: usize, unmatched: Vec<(usize, Batch)>) -> Result<(), EngineError> {
        for (input, rows) in unmatched {
            let (table, made) = tables::aside(&self.sides, (at, SideRows::Unmatched(input)), rows)?;
            let Batch { rows, positions, times_ms, .. } = made;
            self.builder.made(positions.len() as u64);
            let partition = origins::of_step(self.number(at));
            let origins = Part { era: 0, partition, positions, times_ms, items: Vec::new() };
            self.put(table, Selected::all(rows), origins, None)?;
        }
        Ok(())
    }

    /// Rows go into the cut, with their versions if the table takes any.
    fn put(
        &mut self,
        place: usize,
        rows: Selected,
        origins: Part,
        sample: Option<i64>,
    ) -> Result<(), EngineError> {
        let (table, runtime) = (&*self.context.targets[place].table, &*self.context.runtime);
        let rows = self.versions.put(table, rows, || runtime.wall_ms())?;
        self.builder.rows(place, rows, origins, sample);
        Ok(())
    }

    /// The number of tables that take rows of the last step.
    pub(super) fn tables(&self) -> usize {
        self.columns_written.len() - self.sides.len()
    }

    /// What the watermark of the cut under way lets out of each step goes through those behind it, before they are advanced themselves.
    pub(super) async fn release(&mut self, watermark_ms: i64) -> Result<(), EngineError> {
        let mut stateful = 0;
        // A step behind one that still holds something gets more of it later, and stays open.
        let mut is_closing = self.is_closing;
        for (at, own_ms) in self.step_watermarks(watermark_ms).into_iter().enumerate() {
            let (runtime, status) = (&*self.context.runtime, &*self.context.status);
            let step = &mut self.steps[at];
            let closes = is_closing && step.closes_at_end();
            // What is let out and lies in files is read some megabytes at a time.
            loop {
                let asking = || step.advance_reads(own_ms, closes).map_err(EngineError::from);
                let reads = accounted(Stage::Emit, runtime, status, asking)?;
                if reads.is_empty() {
                    break;
                }
                let answers = self.works.files().read(&reads).await?;
                let taking = || step.advance_read(&answers).map_err(EngineError::from);
                accounted(Stage::Emit, runtime, status, taking)?;
            }
            let released = || if closes { step.close(own_ms) } else { step.advance(own_ms) };
            let outputs = accounted(Stage::Emit, runtime, status, released)?;
            is_closing &= step.waiting() == 0;
            let from = From::Step { number: stateful, sample: None };
            stateful += u32::from(step.state().is_some());
            for mut output in outputs {
                self.builder.advanced(&output, self.context.runtime.elapsed());
                counter!("forebay_records_released_total").increment(output.released);
                counter!("forebay_records_unmatched_total").increment(output.unmatched);
                self.gather_unmatched(at, std::mem::take(&mut output.unmatched_rows))?;
                self.builder.rejects(std::mem::take(&mut output.rejects), true);
                let (port, ahead) = (self.flow.next(at), None);
                let reached = self.through(Coming { port, output, ahead, is_derived: true, from }).await?;
                self.gather(reached)?;
            }
        }
        Ok(())
    }

    /// Rows that came through all steps go into the cut, for each of their tables.
    fn gather(&mut self, reached: Reached<'_>) -> Result<(), EngineError> {
        let Reached { mut output, is_derived, from } = reached;
        let (runtime, status) = (&*self.context.runtime, &*self.context.status);
        if output.dropped.len() * DROPPED_ONE_IN > output.batch.len() {
            output = accounted(Stage::Steps, runtime, status, || dense(output))?;
        }
        let Batch { rows, mut positions, times_ms, items, .. } = output.batch;
        let rows = Selected::without(rows, &output.dropped);
        if rows.is_empty() {
            return Ok(());
        }
        let len = rows.len() as u64;
        let Routed { tables, dropped, more } = route(self.router.as_deref(), self.tables(), rows)?;
        self.builder.passed(len - dropped, dropped, more, is_derived);
        counter!("forebay_records_filtered_total").increment(dropped);
        let mut left = tables.len();
        for (place, rows) in tables {
            left -= 1;
            let positions = if left == 0 { std::mem::take(&mut positions) } else { positions.clone() };
            let (origins, sample) = match from {
                From::Block { partition, block, sample } => {
                    (part(partition, (positions, &items), &rows, block, is_derived), sample)
                }
                From::Step { number, sample } => {
                    let (positions, times_ms) = (rows.gather(&positions), rows.gather(&times_ms));
                    let partition = origins::of_step(number);
                    (Part { era: 0, partition, positions, times_ms, items: Vec::new() }, sample)
                }
            };
            let rows = written(rows, self.columns_written[place])?;
            self.put(place, rows, origins, sample)?;
        }
        Ok(())
    }

    /// A partition that runs far ahead of the others waits for them, so that state need not span the distance.
    pub(super) fn throttle(&mut self, partition: usize) {
        let Some(skew_ms) = self.context.settings.skew_ms_max else { return };
        let reading = &mut self.readings[partition];
        if !reading.paused && self.watermarks.is_ahead(partition, skew_ms) {
            reading.paused = true;
            if let Some(reader) =
                feed_of(&mut self.feeds, &reading.partition).and_then(|feed| feed.reader.as_mut())
            {
                reader.pause(&reading.partition);
            }
        }
    }

    /// Whether records of the block's input may hold several rows, so that a dead letter of one of them cannot be the record.
    pub(super) fn holds_several(&self, block: &RecordBlock) -> bool {
        self.intake_of(block.partition.input).is_some_and(|intake| intake.decoder().multiplies())
    }

    pub(super) fn intake_of(&self, input: u32) -> Option<&Intake> {
        self.feeds.iter().find(|feed| feed.inlet.number == input).map(|feed| &*feed.intake)
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
pub(super) fn dense(output: Output) -> Result<Output, EngineError> {
    output.dense().map_err(|_| EngineError::Internal("a batch whose rows cannot be taken out"))
}

/// The time that the source gave the last record of a batch; latency is counted from it.
fn latest(batch: &Batch, block: &RecordBlock) -> Option<i64> {
    let row = block.positions.binary_search(batch.positions.last()?).ok()?;
    Some(block.times_ms[row]).filter(|time_ms| *time_ms != TIME_UNKNOWN_MS)
}

/// Forgets the keys of rows, those in files too.
pub(super) async fn forget(
    files: &Files,
    step: &mut Box<dyn Operator>,
    rows: &Batch,
) -> Result<(), EngineError> {
    let mut probed = step.probe(rows.clone())?;
    let answers = files.read(&std::mem::take(&mut probed.reads)).await?;
    match step.seen_keys() {
        Some(keys) => Ok(keys.forget(probed, &answers)?),
        None => Err(EngineError::Internal("a step that lost its keys")),
    }
}

/// The reject of a row that no record holds, with the row itself. `rows` are those that went into the step, with the columns that it takes.
fn with_row(context: &Context, mut reject: Reject, rows: Option<(Option<&Schema>, &Batch)>) -> Reject {
    let row = rows.and_then(|(columns, batch)| Some((columns, batch, batch.row_of(reject.position)?)));
    if let Some((columns, batch, row)) = row {
        // Which table writes the text is all the same: it depends on the rows alone.
        reject.raw = context.targets[0].table.to_json(columns, &batch.rows, row).into_bytes();
        reject.message += "; `raw` is the row as a step made it of several records";
    }
    reject
}

#[cfg(test)]
mod tests;
