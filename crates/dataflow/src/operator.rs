//! Steps from batch to batch, and the state they keep.
//!
//! Owns the two-phase contract: an operator first says what it must read (`probe`), the engine reads it, and then the
//! operator decides (`finish`, or `divide` and `join` where there are threads for it). So no operator does I/O, and state larger than memory fits the same contract. What
//! time lets out of a step comes from `advance`. Does not own durability: the engine puts what [`State::seal`] returns into the same seal
//! as the positions and the watermark.

mod enums;
mod state;

use std::any::Any;
use std::sync::Arc;

use arrow_schema::ArrowError;

use crate::{Batch, Reject, Schema};
pub use enums::KeptEnum;
pub use state::{Duplicates, Given, Need, SeenKeys, State, StateError, StateFile, StateRead, StateWork};

/// A batch between the two phases.
pub struct Probed {
    /// The rows.
    pub batch: Batch,
    /// What must be read; empty for most batches.
    pub reads: Vec<StateRead>,
    /// What the operator wants to remember (hashes, candidates). Handed back as it is.
    pub scratch: Option<Box<dyn Any + Send>>,
}

/// What a step made of a batch. `batch.len() - dropped.len() - added + filtered + duplicates + late + absorbed + rejects.len()`, with the
/// rows of `late_rows`, is the number of rows put in. Those of `unmatched_rows` are of the step's making, and stand beside all of that.
#[derive(Debug)]
pub struct Output {
    /// The kept rows, and among them those in `dropped`.
    pub batch: Batch,
    /// Rows dropped by this step: their numbers in `batch`, ascending. A step need not compact the batch: behind the last step
    /// nobody has to.
    pub dropped: Vec<usize>,
    /// Rows beyond one for each row put in: a step that makes several rows of one gives each the position and the time of its record.
    pub added: u64,
    /// Rows dropped by a rule that the user wrote.
    pub filtered: u64,
    /// Rows dropped because their key was seen.
    pub duplicates: u64,
    /// Rows dropped because they came too late to be distinguished from duplicates, where the pipeline drops such rows.
    pub late: u64,
    /// Rows that came too late and go to a table of their own, with the columns that they came with: a step's side output, only
    /// if it is configured. They are not among those of `late`.
    pub late_rows: Option<Box<Batch>>,
    /// Of the kept rows, those that came so late that they may be duplicates of forgotten keys. A subset, not a further fate.
    pub late_kept: u64,
    /// Rows that went into the step's state, which [releases](Self::released) them later.
    pub absorbed: u64,
    /// Rows put in earlier that the state has released with this output. Not among the rows put in now.
    pub released: u64,
    /// Of those, the ones that a join releases without ever having matched them. A subset, not a further fate.
    pub unmatched: u64,
    /// Of the unmatched rows those that go to a table of their own, each with the number of the [input](Operator::inputs) that they came by: a step's
    /// side output, only if it is configured. They have columns of that input and, as all rows that a step makes, numbers of its own for positions. They
    /// are in neither `batch` nor `added`.
    pub unmatched_rows: Vec<(usize, Batch)>,
    /// True if no row of `batch` is a row put in: the step has made them, and their positions are numbers of its own.
    pub is_made: bool,
    /// Rows that go to the dead letters.
    pub rejects: Vec<Reject>,
}

impl Output {
    /// Every row is kept.
    pub fn all(batch: Batch) -> Self {
        Self {
            absorbed: 0,
            released: 0,
            unmatched: 0,
            unmatched_rows: Vec::new(),
            is_made: false,
            batch,
            dropped: Vec::new(),
            added: 0,
            filtered: 0,
            duplicates: 0,
            late: 0,
            late_rows: None,
            late_kept: 0,
            rejects: Vec::new(),
        }
    }

    /// The same with nothing in `dropped`: `batch` holds the kept rows alone.
    ///
    /// # Errors
    /// When a column is of a form that cannot be filtered.
    pub fn dense(mut self) -> Result<Self, ArrowError> {
        self.batch = self.batch.without(&std::mem::take(&mut self.dropped))?;
        Ok(self)
    }
}

/// A part of a step's work on one batch: it computes for some tens of microseconds or more, and never waits.
pub type Job = Box<dyn FnOnce() -> JobDone + Send>;

/// What a job hands back to its step.
pub type JobDone = Box<dyn Any + Send>;

/// What a step made of a batch, or what must be done before it can say so.
#[allow(clippy::large_enum_variant, reason = "there is one for each batch, which nothing keeps")]
pub enum Divided {
    /// It is decided.
    Done(Output),
    /// Two or more jobs, which may run in any order and at the same time. They hold parts of the step's state: if one is lost, the step
    /// is.
    Jobs(Vec<Job>),
}

/// The part of a step's work that any thread may do, before the lane and out of order.
pub trait Ahead: Send + Sync {
    /// What [`Operator::finish`] is to get as [`Probed::scratch`]. The batch goes with it.
    ///
    /// # Errors
    /// When the batch does not have the columns that the step was made for.
    fn apply(&self, batch: &Batch) -> Result<Box<dyn Any + Send>, OperatorError>;
}

/// Why a step failed as a whole: a fault of the pipeline or of the program, never of one record.
#[derive(Debug, thiserror::Error)]
#[error("step `{step}`: {message}")]
pub struct OperatorError {
    /// The step's name.
    pub step: String,
    /// The whole sentence.
    pub message: String,
}

/// One step of a pipeline. Called by one thread at a time, in the sealed order. Every step runs `dataflow::conformance::operator`.
pub trait Operator: Send {
    /// The step's word in the pipeline file.
    fn name(&self) -> &str;

    /// The columns of the rows that come to one of its [inputs](Self::inputs), in any order: what a row that it rejects is written with where no
    /// record holds the row. `None` for a step that rejects none.
    fn columns(&self, _input: usize) -> Option<&Schema> {
        None
    }

    /// Work on a batch that depends on no state and no other batch, for the decode job of the batches that reach this step first: what it
    /// makes goes to [`probe_ahead`](Self::probe_ahead) in place of a call of [`probe`](Self::probe).
    fn ahead(&self) -> Option<Arc<dyn Ahead>> {
        None
    }

    /// How many inputs it has, each with columns of its own: 2 for a join, the left side first.
    fn inputs(&self) -> usize {
        1
    }

    /// As [`ahead`](Self::ahead), for batches of one of its [inputs](Self::inputs).
    fn ahead_of(&self, _input: usize) -> Option<Arc<dyn Ahead>> {
        self.ahead()
    }

    /// As [`probe`](Self::probe), for a batch of one of its [inputs](Self::inputs).
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn probe_of(&mut self, _input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        self.probe(batch)
    }

    /// As [`probe_of`](Self::probe_of), for a batch for which the work [ahead](Self::ahead_of) has been done: it made `scratch`.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn probe_ahead(
        &mut self,
        _input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: Some(scratch) })
    }

    /// Inspects a batch and says what must be read. Must not change state that [`Operator::finish`] decides by.
    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError>;

    /// Decides. `answers` has one entry for each of `probed.reads`.
    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError>;

    /// As [`Operator::finish`], for a caller with threads to spare: a batch may be divided into jobs that run at the same time, and
    /// what they hand back is for [`Operator::join`]. Nothing else is called until then.
    ///
    /// # Errors
    /// As [`Operator::finish`].
    fn divide(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Divided, OperatorError> {
        self.finish(probed, answers).map(Divided::Done)
    }

    /// Decides by the results of the jobs that the batch was divided into: one entry for each of them, in their order.
    ///
    /// # Errors
    /// When there are others, or some are missing. The step must not be used after that.
    fn join(&mut self, done: Vec<JobDone>) -> Result<Output, OperatorError> {
        let message = format!("`{}` jobs came back, none was handed out", done.len());
        Err(OperatorError { step: self.name().to_owned(), message })
    }

    /// Whether it may make several rows of one ([`Output::added`]).
    fn multiplies(&self) -> bool {
        false
    }

    /// What must be read before [`advance`](Self::advance) with this watermark, or [`close`](Self::close) if `is_closing`: some megabytes at the most. The answers go
    /// to [`advance_read`](Self::advance_read), and it is asked again until nothing is left; then it is advanced, without anything in between.
    ///
    /// # Errors
    /// When its state is damaged.
    fn advance_reads(
        &mut self,
        _watermark_ms: i64,
        _is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        Ok(Vec::new())
    }

    /// Takes what was read: one entry for each of the [reads](Self::advance_reads).
    ///
    /// # Errors
    /// When it is damaged, or was not asked for.
    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        let message = format!("`{}` answers came, nothing was asked for", answers.len());
        Err(OperatorError { step: self.name().to_owned(), message })
    }

    /// The rows that the watermark releases, as ordinary output: rows that the step has made ([`Output::added`]), in place of those that it
    /// [absorbed](Output::absorbed). Empty for most steps and most watermarks.
    ///
    /// The engine calls it at each cut, after the last batch, after what the watermark lets out of the steps before it, and before
    /// [`State::seal`]: with the watermark of the seal under way, or what the steps before it [leave](Self::watermark_behind) of that. What
    /// comes back is part of that seal, so it must depend on nothing but the batches and watermarks so far: then a start after a crash
    /// neither loses rows nor makes them twice.
    ///
    /// # Errors
    /// When its state is larger than its memory.
    fn advance(&mut self, _watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        Ok(Vec::new())
    }

    /// The watermark of the rows that this step lets out: once it was [advanced](Self::advance) to `watermark_ms`, no row with a lesser time
    /// comes from it any more. What steps behind it are advanced to and sealed with. A step that holds rows back holds it back too.
    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        watermark_ms
    }

    /// What time it is by the wall clock, Unix milliseconds: said before each [`advance`](Self::advance) and [`is_due`](Self::is_due). What a step
    /// decides by it must be in its delta, for a start says other times.
    fn at(&mut self, _wall_ms: i64) {}

    /// Whether [`advance`](Self::advance) with this watermark would let anything out: asked while nothing is read, so that a cut is made
    /// when a silent partition no longer holds the watermark back.
    fn is_due(&self, _watermark_ms: i64) -> bool {
        false
    }

    /// Whether results that a watermark has let out are still on their way: in files, from which they [leave](Self::advance) in pieces, over several
    /// cuts. The state's work on files goes on until they are out, and a run that comes to its end waits for that.
    fn is_releasing(&self) -> bool {
        false
    }

    /// Whether it is to be [closed](Self::close) once every input has ended, so that it lets out what it holds without waiting for a
    /// watermark that no record will bring.
    fn closes_at_end(&self) -> bool {
        false
    }

    /// As [`advance`](Self::advance), but with the least watermark that lets out everything it holds, if that is greater. The step keeps that
    /// watermark in its own state: the one of the lane, and of the steps beside it, stays where the records have brought it.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.advance(watermark_ms)
    }

    /// Rows that it holds until time releases them: those that [`close`](Self::close) releases. All of its state, unless it also holds rows that later
    /// ones need at any time.
    fn waiting(&mut self) -> u64 {
        self.state().map_or(0, |state| state.held())
    }

    /// The state of this step, if it keeps any.
    fn state(&mut self) -> Option<&mut dyn State>;

    /// The keys that count as seen, if this step drops the records of such keys (C10).
    fn seen_keys(&mut self) -> Option<&mut dyn SeenKeys> {
        None
    }
}
