//! Steps from batch to batch, and the state they keep.
//!
//! Owns the two-phase contract: an operator first says what it must read (`probe`), the engine reads it, and then the
//! operator decides (`finish`, or `divide` and `join` where there are threads for it). So no operator does I/O, and state larger than memory fits the same contract. What
//! time lets out of a step comes from `advance`. Does not own durability: the engine puts what [`State::seal`] returns into the same seal
//! as the positions and the watermark.

use std::any::Any;
use std::sync::Arc;

use arrow_schema::ArrowError;
use bytes::Bytes;

use crate::{Batch, Partition, Position, Reject};

/// A range of a state object that must be read before a batch can be finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRead {
    /// The object's key below the lane's folder.
    pub object: Arc<str>,
    /// First byte.
    pub offset: u64,
    /// Bytes to read; at least 1.
    pub len: u32,
}

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

/// One step of a pipeline. Called by one thread at a time, in the sealed order.
pub trait Operator: Send {
    /// The step's word in the pipeline file.
    fn name(&self) -> &str;

    /// Work on a batch that depends on no state and no other batch, for the decode job of the batches that reach this step first: what it
    /// makes comes back as [`Probed::scratch`] in place of a call of [`probe`](Self::probe).
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

/// Why state cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The bytes are not what this program wrote.
    #[error("state is damaged: {0}; restore the store from a backup, nothing was guessed")]
    Damaged(String),
    /// A later program wrote them.
    #[error("state has version `{found}`, this program reads up to `{known}`; run the newer program")]
    TooNew {
        /// The version in the bytes.
        found: u16,
        /// The newest version known here.
        known: u16,
    },
    /// The step was configured differently when the state was written.
    #[error("state was written with {was}, the pipeline now says {now}; {way_out}")]
    Configured {
        /// The setting then.
        was: String,
        /// The setting now.
        now: String,
        /// What the operator can do.
        way_out: String,
    },
}

/// Records that were dropped as duplicates of rows that are now forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// How many are known.
    pub count: u64,
    /// Where the first of them stand; at most [`Duplicates::PLACES_MAX`].
    pub places: Vec<(Partition, Position)>,
}

impl Duplicates {
    /// Places that are named: enough to find the others by, few enough for a message.
    pub const PLACES_MAX: usize = 8;

    /// Counts one more.
    pub fn add(&mut self, partition: &Partition, position: Position) {
        self.count += 1;
        if self.places.len() < Self::PLACES_MAX {
            self.places.push((partition.clone(), position));
        }
    }
}

/// State that is sealed together with the records that made it (C6).
pub trait State: Send {
    /// The settings that the state depends on, in words: state that was made with others cannot be read back, so the operator has to
    /// decide about a change of them.
    fn shape(&self) -> String;

    /// Whether it takes records in and [releases](Output::released) results later: then no record may be read again while the state is kept.
    fn absorbs(&self) -> bool {
        false
    }

    /// What is lost with the state, in words that follow "lost is: ".
    fn loss(&self) -> &str {
        "what it remembers"
    }

    /// What changed since the last call, for the seal under way; then frees what `watermark_ms` has made useless.
    /// Empty if nothing changed.
    fn seal(&mut self, watermark_ms: i64) -> Bytes;

    /// All of the state that is in memory, as of the last [`seal`](Self::seal), and the names of the files that hold the rest.
    fn snapshot(&self) -> Bytes;

    /// The files that a snapshot taken now would name.
    fn files(&self) -> Vec<StateFile> {
        Vec::new()
    }

    /// Starts from a snapshot. What comes back must be read and handed to [`open`](Self::open), one after the other, before
    /// anything else is called.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or of another configuration.
    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError>;

    /// Takes the bytes of the next read that [`restore`](Self::restore) asked for.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        Err(StateError::Damaged(format!("`{}` bytes of a file that was not asked for", bytes.len())))
    }

    /// Applies a delta that [`seal`](Self::seal) returned, in order.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError>;

    /// Work on files that is due: asked for after each seal, done beside the lane, and handed back to [`adopt`](Self::adopt). `None` if
    /// there is none, or enough of it is under way. What it makes changes no decision: it may be done at any time, or never.
    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        None
    }

    /// Takes over the result of finished work; its files are durable.
    ///
    /// # Errors
    /// When the work is not this state's, or not done.
    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        drop(work);
        Err(StateError::Damaged("work came back that was not handed out".to_owned()))
    }

    /// True if the state in memory is so far above its bound that the lane should wait for work under way.
    fn is_crowded(&self) -> bool {
        false
    }

    /// Rows that the step has [absorbed](Output::absorbed) and not [released](Output::released): what the fold holds against the
    /// ledgers (C9). Counted from the state itself, not from the rows that went by.
    fn held(&self) -> u64 {
        0
    }

    /// The approximate size of the next delta in bytes, if it is a reason to make a cut.
    fn unsealed_bytes(&self) -> u64 {
        0
    }

    /// Entries held, in memory and in files: one for each key, or for each key of each open window.
    fn entries(&self) -> u64;

    /// How many of them are in files.
    fn spilled_entries(&self) -> u64 {
        0
    }

    /// Memory held in bytes.
    fn memory_bytes(&self) -> u64;
}

/// Keys that count as seen: later records of them are dropped. Only a step that drops records by their key has them.
pub trait SeenKeys: Send {
    /// Forgets the keys of these rows (they became dead letters after all), and says so in the next delta (C10). The rows went
    /// through [`Operator::probe`] first, and `answers` has one entry for each of its reads.
    ///
    /// # Errors
    /// When the rows are not from `probe`, or what was read is damaged.
    fn forget(&mut self, rows: Probed, answers: &[Vec<u8>]) -> Result<(), OperatorError>;

    /// The records dropped as duplicates of these rows, as far as they are still remembered: asked before the rows are
    /// [forgotten](Self::forget), for the duplicates are lost with them. What is remembered is bounded and not durable.
    ///
    /// # Errors
    /// When the rows lack the key columns.
    fn duplicates_of(&mut self, _rows: &Batch) -> Result<Duplicates, OperatorError> {
        Ok(Duplicates::default())
    }
}

/// An object that holds a part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The object's key below the lane's folder.
    pub object: Arc<str>,
    /// Its bytes.
    pub len: u64,
}

/// What work on a state's files needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Need {
    /// To have these ranges read; some tens of megabytes at the most.
    Read(Vec<StateRead>),
    /// To have a new object of these bytes written, durably.
    Write(Vec<u8>),
    /// Nothing: it is finished.
    Done,
}

/// What was done about a [`Need`].
#[derive(Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing: the first step.
    Start,
    /// One entry for each read.
    Read(Vec<Vec<u8>>),
    /// The object's key below the lane's folder.
    Written(Arc<str>),
}

/// Work on a state's files that is done beside the lane. Does no I/O itself; each step computes for some tenths of a second.
pub trait StateWork: Send {
    /// Runs until something must be read or written.
    ///
    /// # Errors
    /// When what was read is damaged.
    fn step(&mut self, given: Given) -> Result<Need, StateError>;

    /// For the state that handed it out.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}
