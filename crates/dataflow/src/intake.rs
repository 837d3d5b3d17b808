//! The work on a block that does not depend on any other block: decoding, the event time, the steps without state.
//!
//! Owns the order of that work and the accounts of it (C9). A block goes through it on any thread, before the lane sees it. Does not
//! own formats ([`Decoder`]), expressions ([`Transform`]) or order and state ([`crate::operator`]).
//!
//! ```text
//! block ─▶ decode, metadata ─▶ event time ─▶ steps without state ─▶ rows for the lane
//!            │                     │               │
//!         rejects             what the watermark  filtered, rejects
//!                             observes
//! ```
//! The event times are those of all decoded records, taken before the first step: a record that a step drops moves the watermark too.

mod apart;

use std::any::Any;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::{
    Batch, Decoded, Decoder, Metadata, OperatorError, Reason, RecordBlock, Reject, Schema, Several,
    Transform, Transformed, reject,
};

/// What a block became before the lane.
#[derive(Debug)]
pub struct Prepared {
    /// The kept rows, in order, with the columns of [`Intake::schema`] and their event times.
    pub batch: Batch,
    /// The rejected records, with their bytes, keys and headers: the decoder's first, then each step's.
    pub rejects: Vec<Reject>,
    /// Records dropped by a rule that the user wrote.
    pub filtered: u64,
    /// Records of the block.
    pub records: u64,
    /// What came of a format or a step that made several rows of one record; `None` if each record is one row, a reject or filtered.
    pub multiplied: Option<Box<Multiplied>>,
    /// What the first step of the lane computes ahead in the decode job; the engine runs that after this work and puts the result here.
    pub ahead: Option<Box<dyn Any + Send>>,
    times: Times,
}

/// From the first place on where one record becomes several rows (the decoder, or a step), rows are counted and not records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multiplied {
    /// Records that rows were made of there.
    pub records: u64,
    /// Rows beyond one for each of these records.
    pub added: u64,
    /// Rows dropped by a rule behind it; they are not among [`Prepared::filtered`].
    pub filtered: u64,
    /// How many of the last of [`Prepared::rejects`] are rows of these records.
    pub rejects: usize,
}

/// The times that the watermark observes.
#[derive(Debug)]
enum Times {
    /// Those that the source gave, of every record.
    OfBlock,
    /// Those of the batch: every decoded record is still in it.
    OfBatch,
    /// Those of all decoded records, some of which no longer are in the batch.
    Decoded(Vec<i64>),
}

impl Prepared {
    /// The times that the watermark observes: the source's of every record, or where a column holds the time, those of every decoded
    /// record. Unknown ones are among them.
    pub fn times_ms<'a>(&'a self, block: &'a RecordBlock) -> &'a [i64] {
        match &self.times {
            Times::OfBlock => &block.times_ms,
            Times::OfBatch => &self.batch.times_ms,
            Times::Decoded(times_ms) => times_ms,
        }
    }
}

/// What is done with every block before the lane.
#[derive(Clone)]
pub struct Intake {
    decoder: Arc<dyn Decoder>,
    /// The decoder's columns, and those of the metadata.
    input: Schema,
    metadata: Vec<Metadata>,
    /// The input's name, for the metadata.
    name: Arc<str>,
    time: Option<Arc<dyn Transform>>,
    steps: Vec<Arc<dyn Transform>>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// Says which blocks of an input hold records of another one, and how those are processed.
pub trait Elsewhere: Send + Sync {
    /// The input that the block's records belong to, by its name, and its intake; `None` if they are the input's own. The rows enter the lane where
    /// those of that input do.
    fn input(&self, block: &RecordBlock) -> Option<(&str, &Intake)>;
}

impl Intake {
    /// Decodes, and nothing else.
    pub fn new(decoder: Arc<dyn Decoder>) -> Self {
        let input = decoder.schema().clone();
        let (metadata, steps) = (Vec::new(), Vec::new());
        Self { input, metadata, name: "".into(), decoder, time: None, steps, elsewhere: None }
    }

    /// With columns of what the source of the input of this name says of a record, behind the decoder's.
    pub fn with_metadata(self, input: &str, metadata: Vec<Metadata>) -> Self {
        let columns = self.decoder.schema().columns().iter().cloned();
        let columns = columns.chain(metadata.iter().map(|one| one.column()));
        Self { input: Schema::new(columns.collect()), metadata, name: input.into(), ..self }
    }

    /// With a step that takes the event time from a decoded column. It drops nothing.
    pub fn with_time(self, time: Option<Arc<dyn Transform>>) -> Self {
        Self { time, ..self }
    }

    /// With these steps behind it, each bound to the columns of the one before.
    pub fn with_steps(self, steps: Vec<Arc<dyn Transform>>) -> Self {
        Self { steps, ..self }
    }

    /// For an input that also hands out records of others.
    pub fn with_elsewhere(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// The name of the input that the block's records belong to, if they are not this one's own.
    pub fn other_input(&self, block: &RecordBlock) -> Option<&str> {
        self.elsewhere.as_ref()?.input(block).map(|(name, _)| name)
    }

    /// The same with another decoder.
    pub fn with_decoder(self, decoder: Arc<dyn Decoder>) -> Self {
        Self { decoder, ..self }
    }

    /// Whether one record may become several rows.
    pub fn multiplies(&self) -> bool {
        self.decoder.multiplies() || self.steps.iter().any(|step| step.multiplies())
    }

    /// Whether a block that is read again, at any time, becomes the same rows.
    pub fn is_repeatable(&self) -> bool {
        let is_of_now = |metadata: &Metadata| *metadata == Metadata::Ingested;
        !self.metadata.iter().any(is_of_now) && !self.steps.iter().any(|step| step.looks_up().is_some())
    }

    /// The decoder.
    pub fn decoder(&self) -> &Arc<dyn Decoder> {
        &self.decoder
    }

    /// The step that takes the event time from a column; `None` if it is the source's.
    pub fn time(&self) -> Option<&Arc<dyn Transform>> {
        self.time.as_ref()
    }

    /// True if a column holds the event time; otherwise it is the source's.
    pub fn is_timed(&self) -> bool {
        self.time.is_some()
    }

    /// The steps without state, in order.
    pub fn steps(&self) -> &[Arc<dyn Transform>] {
        &self.steps
    }

    /// The columns of the batches, in order.
    pub fn schema(&self) -> &Schema {
        self.steps.last().map_or(&self.input, |step| step.schema())
    }

    /// Does all of it with a block that was read at `read_ms` (Unix milliseconds).
    ///
    /// # Errors
    /// When a step fails as a whole, or breaks its contract.
    pub fn prepare(&self, block: &RecordBlock, read_ms: i64) -> Result<Prepared, OperatorError> {
        if let Some((_, intake)) = self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.input(block)) {
            return intake.prepare(block, read_ms);
        }
        let Decoded { mut batch, mut rejects, several } = self.decoder.decode(block);
        let records = match several {
            Some(_) => block.len() as u64,
            None => (batch.len() + rejects.len()) as u64,
        };
        let mut filtered = several.map_or(0, |several| several.empty);
        let mut multiplied = match several {
            Some(several) => multiplied(several, block.len(), (batch.len(), rejects.len()))?,
            None => None,
        };
        let is_of_decoder = multiplied.is_some();
        if !self.metadata.is_empty() {
            let before = batch.len();
            let (columns, objections) = self.with_columns(batch, block, read_ms)?;
            batch = columns;
            if let Some(multiplied) = &mut multiplied {
                // Of each of these records one reject is left, in place of all its rows.
                multiplied.added -= (before - batch.len() - objections.len()) as u64;
                multiplied.rejects += objections.len();
            }
            rejects.extend(objections);
        }
        let mut times = Times::OfBlock;
        if let Some(time) = &self.time {
            batch = self.timed(time, batch)?;
            times =
                if self.steps.is_empty() { Times::OfBatch } else { Times::Decoded(batch.times_ms.clone()) };
        }
        let mut of_rows = Vec::new();
        for step in &self.steps {
            let rows = batch.len();
            let mut made = step.apply_of(batch, block)?;
            // Where records hold several rows it is the number of one of these, which is alone in the block.
            if let Some(item) =
                block.item.filter(|_| step.multiplies() && rows > 0 && !self.decoder.multiplies())
            {
                made = only(made, item, block)?;
            }
            let dropped = made.filtered as usize + made.rejects.len();
            // Of the rows put in, those that are still there, as one row or as several.
            let kept = match &multiplied {
                _ if !step.multiplies() => made.batch.len(),
                None => records_of(&made.batch),
                // Rows of one record share its position already, so they are told apart by no more than their number.
                Some(_) => made.batch.len().min(rows.saturating_sub(dropped)),
            };
            if kept + dropped != rows {
                let message = format!("of `{rows}` rows it lets `{kept}` pass and drops `{dropped}`");
                return Err(OperatorError { step: step.name().to_owned(), message });
            }
            batch = made.batch;
            let added = (batch.len() - kept) as u64;
            match &mut multiplied {
                Some(multiplied) => {
                    multiplied.added += added;
                    multiplied.filtered += made.filtered;
                    multiplied.rejects += made.rejects.len();
                }
                None => filtered += made.filtered,
            }
            if added > 0 && multiplied.is_none() {
                multiplied = Some(Multiplied { records: kept as u64, added, ..Multiplied::default() });
            }
            match multiplied {
                Some(_) => of_rows.extend(made.rejects),
                None => {
                    let of_records = reject::of_items(made.rejects, block);
                    rejects.extend(of_records.into_iter().map(|reject| self.only_row(reject)));
                }
            }
        }
        if is_of_decoder && !of_rows.is_empty() {
            let apart = self.apart(block, &of_rows, read_ms);
            rejects.extend(apart.unwrap_or_else(|| reject::of_rows(of_rows, block)));
        } else {
            rejects.extend(reject::of_items(of_rows, block));
        }
        let multiplied = multiplied.map(Box::new);
        Ok(Prepared { batch, rejects, filtered, records, multiplied, ahead: None, times })
    }

    /// The same, as the row that its record holds, where records hold several: each record of the block has one.
    fn only_row(&self, reject: Reject) -> Reject {
        let is_row = self.decoder.multiplies() && reject.item.is_none();
        if is_row && !self.steps.iter().any(|step| step.multiplies()) { reject.of_item(0) } else { reject }
    }

    /// Gives rows that have the decoder's columns their event times, which they lost with their records; `None` if they cannot be known,
    /// for the steps have changed the columns.
    ///
    /// # Errors
    /// As [`Intake::prepare`].
    pub fn rows_again(&self, rows: Batch) -> Result<Option<Batch>, OperatorError> {
        match &self.time {
            _ if !self.steps.is_empty() || !self.metadata.is_empty() => Ok(None),
            Some(time) => self.timed(time, rows).map(Some),
            None => Ok(Some(rows)),
        }
    }

    /// The batch with the columns of the metadata, and the rejects of records that cannot have them: one for each, whatever its rows.
    fn with_columns(
        &self,
        mut batch: Batch,
        block: &RecordBlock,
        read_ms: i64,
    ) -> Result<(Batch, Vec<Reject>), OperatorError> {
        let failed =
            |error: ArrowError| OperatorError { step: "metadata".to_owned(), message: error.to_string() };
        let row_of = |position: &u64| block.positions.binary_search(position);
        let (mut gone, mut rejects) = (Vec::new(), Vec::<Reject>::new());
        for (row, position) in batch.positions.iter().enumerate() {
            let objects = |at: usize| self.metadata.iter().find_map(|one| one.objects_to(block, at));
            if rejects.last().is_some_and(|last| last.position == batch.position(row)) {
                gone.push(row);
            } else if let Some(reject) = row_of(position).ok().and_then(objects) {
                gone.push(row);
                rejects.push(reject);
            }
        }
        batch = batch.without(&gone).map_err(failed)?;
        let rows: Vec<usize> = batch.positions.iter().filter_map(|position| row_of(position).ok()).collect();
        let columns = batch.rows.columns().iter().cloned();
        let columns =
            columns.chain(self.metadata.iter().map(|one| one.values(&self.name, block, &rows, read_ms)));
        let rows = RecordBatch::try_new(self.input.arrow().clone(), columns.collect()).map_err(failed)?;
        Ok((Batch { rows, ..batch }, rejects))
    }

    fn timed(&self, time: &Arc<dyn Transform>, batch: Batch) -> Result<Batch, OperatorError> {
        let rows = batch.len();
        let timed = time.apply(batch)?.batch;
        if timed.len() == rows {
            return Ok(timed);
        }
        let message = format!("of `{rows}` rows it lets `{}` pass, and has to keep all", timed.len());
        Err(OperatorError { step: time.name().to_owned(), message })
    }
}

/// Records that a step has made the rows of: those of one record stand side by side and share its position.
fn records_of(rows: &Batch) -> usize {
    rows.positions.chunk_by(|one, next| one == next).count()
}

/// The row of one item, out of what a step made of the only record of a block. If there is none, the record is a reject, whatever else the step made of it:
/// its other rows are in the tables already, and all there is to report is that this row is no longer made.
fn only(made: Transformed, item: u32, block: &RecordBlock) -> Result<Transformed, OperatorError> {
    let Transformed { batch, filtered, rejects } = made;
    if !rejects.is_empty() {
        return Ok(Transformed { batch: batch.without_all(), filtered: 0, rejects });
    }
    let keep: Vec<bool> = (0..batch.len()).map(|row| batch.item(row) == Some(item)).collect();
    let count = batch.len();
    let failed = |error: ArrowError| OperatorError { step: "unnest".to_owned(), message: error.to_string() };
    let batch = batch.filter(&keep.into()).map_err(failed)?;
    if !batch.is_empty() || block.is_empty() {
        return Ok(Transformed { batch, filtered, rejects });
    }
    let message = format!(
        "the row of item `{item}` of the record's array is read again, and the record has `{count}` rows now; other rows of it were written before"
    );
    let rejects = vec![Reject::of(block, 0, Reason::Missing, "", message)];
    Ok(Transformed { batch, filtered: 0, rejects })
}

/// The accounts of a decoder that gives `rows` and `rejects` for a block of so many records; `None` if each record is one row after all.
///
/// # Errors
/// When they do not add up.
fn multiplied(
    several: Several,
    block: usize,
    (rows, rejects): (usize, usize),
) -> Result<Option<Multiplied>, OperatorError> {
    let Several { records, empty, rejected_rows } = several;
    let of_records = rejects.checked_sub(rejected_rows);
    let added = ((rows + rejected_rows) as u64).checked_sub(records);
    match (of_records, added) {
        (Some(of_records), Some(added)) if records + empty + of_records as u64 == block as u64 => {
            let multiplied = Multiplied { records, added, filtered: 0, rejects: rejected_rows };
            Ok((added > 0).then_some(multiplied))
        }
        _ => {
            let message = format!(
                "of `{block}` records it gives `{rows}` rows and `{rejects}` rejects, and says that `{records}` have rows and `{empty}` have none"
            );
            Err(OperatorError { step: "decode".to_owned(), message })
        }
    }
}

#[cfg(test)]
mod tests;
