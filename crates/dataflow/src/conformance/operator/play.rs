//! The engine's part in a step: batches, seals, files, and an account of what comes out.
//!
//! Owns what holds of every output and every seal. Does not own what a rule compares ([`super::rules`]). All work on files is done between two seals, and
//! no file is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Act;
use crate::operator::{Divided, Given, Need};
use crate::{Batch, Operator, Output, State, StateError, StateRead};

/// Seals at the most behind the last act, until nothing more leaves.
const SEALS_MAX: usize = 1_000;

/// From one seal to the next by the wall's clock, milliseconds.
const SEAL_MS: i64 = 1_000;

/// How a batch is handed to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Probed and finished.
    Whole,
    /// What can be done ahead is.
    Ahead,
    /// Finished in jobs, as far as the step has any.
    Divided,
}

/// What one seal has.
#[derive(Clone, Debug, Default)]
pub struct Sealed {
    /// The rows that came out, as texts, sorted.
    pub rows: Vec<String>,
    /// The step's delta.
    pub delta: Bytes,
    /// The step's state.
    pub snapshot: Bytes,
    /// Rows that it holds.
    pub held: u64,
    /// The watermark.
    pub watermark_ms: i64,
}

/// Objects by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A step that runs.
pub struct Play {
    /// The step.
    pub step: Box<dyn Operator>,
    /// Its files.
    pub files: Files,
    /// All seals so far.
    pub seals: Vec<Sealed>,
    /// Rows that have come out since.
    rows: Vec<String>,
    absorbed: u64,
    released: u64,
    wall_ms: i64,
    /// Whether no batch has come since the last seal: then alone the step is asked what is due.
    is_quiet: bool,
}

impl Play {
    /// A step without anything.
    pub fn new(step: Box<dyn Operator>) -> Self {
        Self::of(step, Files::new(), 0, 0)
    }

    /// A step that holds so many rows, after so many seals.
    pub fn of(step: Box<dyn Operator>, files: Files, held: u64, seals: usize) -> Self {
        let wall_ms = SEAL_MS * seals as i64;
        Self {
            step,
            files,
            seals: Vec::new(),
            rows: Vec::new(),
            absorbed: held,
            released: 0,
            wall_ms,
            is_quiet: true,
        }
    }

    /// All acts, and seals behind them until nothing more leaves.
    pub fn all(&mut self, acts: &[Act], way: Way) {
        for act in acts {
            match act {
                Act::Batch(input, batch) => self.batch(*input, batch.clone(), way),
                Act::Cut(watermark_ms) => self.cut(*watermark_ms),
            }
        }
        for _ in 0..SEALS_MAX {
            if !self.step.is_releasing() {
                return;
            }
            self.cut(self.seals.last().map_or(0, |sealed| sealed.watermark_ms));
        }
        panic!("`{}` still lets out after {SEALS_MAX} seals", self.step.name());
    }

    /// Rows of all seals, sorted.
    pub fn rows(&self) -> Vec<String> {
        sorted(self.seals.iter().flat_map(|sealed| sealed.rows.clone()).collect())
    }

    /// The bytes of these reads.
    pub fn read(&self, reads: &[StateRead]) -> Vec<Vec<u8>> {
        read(&self.files, reads)
    }

    /// A batch comes.
    pub fn batch(&mut self, input: usize, batch: Batch, way: Way) {
        let name = self.step.name().to_owned();
        let put_in = batch.len() as u64;
        let columns: Vec<String> =
            batch.rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        self.is_quiet = false;
        let ahead = self.step.ahead_of(input).filter(|_| way == Way::Ahead);
        let probed = match ahead {
            Some(ahead) => {
                let scratch = ahead.apply(&batch).expect("the fixture's columns are those of the step");
                self.step.probe_ahead(input, batch, scratch)
            }
            None => self.step.probe_of(input, batch),
        };
        let mut probed = probed.expect("the fixture's columns are those of the step");
        let answers = self.read(&std::mem::take(&mut probed.reads));
        let divided = match way {
            Way::Divided => self.step.divide(probed, &answers),
            Way::Whole | Way::Ahead => self.step.finish(probed, &answers).map(Divided::Done),
        };
        let output = match divided.expect("a batch that was probed is finished") {
            Divided::Done(output) => output,
            Divided::Jobs(jobs) => {
                // In the other order: a job knows of no other.
                let mut done: Vec<_> = jobs.into_iter().rev().map(|job| job()).collect();
                done.reverse();
                self.step.join(done).expect("all jobs are back")
            }
        };
        let late = output.late_rows.as_ref().map_or(0, |late| late.len() as u64);
        let fates = output.filtered + output.duplicates + output.late + output.absorbed + late;
        let kept = (output.batch.len() - output.dropped.len()) as u64;
        let counted = (kept + fates + output.rejects.len() as u64).checked_sub(output.added);
        assert_eq!(counted, Some(put_in), "`{name}`: every row put in has one fate: {output:?}");
        if !output.rejects.is_empty() {
            let known =
                self.step.columns(input).expect("a step that rejects rows says what columns they have");
            let unknown: Vec<_> = columns.iter().filter(|name| known.index_of(name).is_none()).collect();
            assert!(unknown.is_empty(), "`{name}` does not say that rows come to it with {unknown:?}");
        }
        self.note(output);
    }

    /// A seal.
    pub fn cut(&mut self, watermark_ms: i64) {
        self.wall_ms += SEAL_MS;
        self.step.at(self.wall_ms);
        let is_due = self.step.is_due(watermark_ms) || !std::mem::replace(&mut self.is_quiet, true);
        self.read_ahead(watermark_ms, false);
        let outputs = self.step.advance(watermark_ms).expect("its state is within its memory");
        let name = self.step.name().to_owned();
        // What goes without becoming a row may wait for another seal.
        let lets_out =
            outputs.iter().any(|output| !output.batch.is_empty() || !output.unmatched_rows.is_empty());
        assert!(is_due || !lets_out, "`{name}` lets rows out at {watermark_ms} that were not due");
        outputs.into_iter().for_each(|output| self.let_out(output));
        let mut sealed =
            Sealed { watermark_ms, rows: sorted(std::mem::take(&mut self.rows)), ..Sealed::default() };
        let held = self.absorbed - self.released;
        if let Some(state) = self.step.state() {
            sealed.delta = state.seal(watermark_ms);
            assert!(state.seal(watermark_ms).is_empty(), "`{name}`: nothing has changed since the last seal");
            (sealed.snapshot, sealed.held) = (state.snapshot(), state.held());
        }
        assert_eq!(sealed.held, held, "`{name}`: what was absorbed is released or held");
        self.seals.push(sealed);
        self.work();
    }

    /// What was let out at the end is sealed, and work on files goes on.
    pub fn sealed_at_the_end(&mut self, watermark_ms: i64) {
        if let Some(state) = self.step.state() {
            state.seal(watermark_ms);
        }
        self.work();
    }

    /// What must be read before time goes on.
    pub fn read_ahead(&mut self, watermark_ms: i64, is_closing: bool) {
        loop {
            let reads = self.step.advance_reads(watermark_ms, is_closing).expect("its files are sound");
            if reads.is_empty() {
                return;
            }
            let answers = self.read(&reads);
            self.step.advance_read(&answers).expect("its files are sound");
        }
    }

    /// What time lets out.
    pub fn let_out(&mut self, output: Output) {
        let kept = (output.batch.len() - output.dropped.len()) as u64;
        let name = self.step.name();
        assert_eq!(
            kept + output.rejects.len() as u64,
            output.added,
            "`{name}` makes what time lets out: {output:?}"
        );
        let of_records = [output.filtered, output.duplicates, output.late, output.absorbed];
        assert_eq!(of_records, [0; 4], "`{name}`: no record comes with time");
        self.note(output);
    }

    /// All work on files.
    fn work(&mut self) {
        loop {
            let Some(mut work) = self.step.state().and_then(State::work) else { return };
            let mut given = Given::Start;
            loop {
                given = match work.step(given).expect("its files are sound") {
                    Need::Read(reads) => Given::Read(self.read(&reads)),
                    Need::Write(bytes) => {
                        let object = format!("state/{}", self.files.len());
                        self.files.insert(object.clone(), bytes);
                        Given::Written(object.into())
                    }
                    Need::Done => break,
                };
            }
            let state = self.step.state().expect("it had work");
            state.adopt(work).expect("the work is this state's");
        }
    }

    fn note(&mut self, output: Output) {
        self.absorbed += output.absorbed;
        self.released += output.released;
        let is_of_records = !output.is_made && output.added == 0;
        for reject in &output.rejects {
            let what =
                format!("{:?} {} {:?} {}", reject.item, reject.partition, reject.reason, reject.column);
            self.rows.push(format!("reject {what}"));
        }
        for late in output.late_rows.iter() {
            texts(late, true, "late", &mut self.rows);
        }
        for (input, unmatched) in &output.unmatched_rows {
            texts(unmatched, false, &format!("unmatched of {input}"), &mut self.rows);
        }
        let kept = output.dense().expect("columns that can be filtered").batch;
        texts(&kept, is_of_records, "row", &mut self.rows);
    }
}

/// A step from a snapshot and what came after it.
///
/// # Errors
/// When the step refuses them.
pub fn restored(
    mut step: Box<dyn Operator>,
    files: &Files,
    snapshot: &[u8],
    deltas: impl IntoIterator<Item = Bytes>,
) -> Result<Box<dyn Operator>, StateError> {
    let state = step.state().expect("only a step with state is restored");
    for one in state.restore(snapshot)? {
        state.open(&read(files, &[one])[0])?;
    }
    for delta in deltas {
        state.apply(&delta)?;
    }
    Ok(step)
}

fn read(files: &Files, reads: &[StateRead]) -> Vec<Vec<u8>> {
    let one = |read: &StateRead| {
        let object: &Arc<str> = &read.object;
        let file = files.get(&**object).unwrap_or_else(|| panic!("`{object}` was never written"));
        file[read.offset as usize..][..read.len as usize].to_vec()
    };
    reads.iter().map(one).collect()
}

/// Rows as texts; with their positions if they are those of records.
fn texts(batch: &Batch, is_of_records: bool, what: &str, to: &mut Vec<String>) {
    for row in 0..batch.len() {
        let columns: Vec<_> = batch.rows.columns().iter().map(|column| column.slice(row, 1)).collect();
        let at = is_of_records.then(|| (&batch.partition, batch.positions[row], batch.item(row)));
        to.push(format!("{what} {at:?} at {} {columns:?}", batch.times_ms[row]));
    }
}

/// In one order.
pub fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}
