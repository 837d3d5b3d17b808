//! Steps from batch to batch, and the state they keep.
//!
//! Owns the two-phase contract: an operator first says what it must read (`probe`), the engine reads it, and then the
//! operator decides (`finish`). So no operator does I/O, and state larger than memory fits the same contract. Does not own
//! durability: the engine puts what [`KeyedState::seal`] returns into the same seal as the positions.

use std::any::Any;

use crate::{Batch, Partition, Reject};

/// A range of a state object that must be read before a batch can be finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRead {
    /// The object's key below the lane's state.
    pub object: String,
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

/// What a step made of a batch. `batch.len() + filtered + duplicates + late + rejects.len()` is the number of rows put in.
#[derive(Debug)]
pub struct Output {
    /// The rows that go on.
    pub batch: Batch,
    /// Rows dropped by a rule that the user wrote.
    pub filtered: u64,
    /// Rows dropped because their key was seen.
    pub duplicates: u64,
    /// Rows dropped because they came too late to be told from a duplicate, where the pipeline says to drop such.
    pub late: u64,
    /// Rows that go to the dead letters.
    pub rejects: Vec<Reject>,
}

/// Why a step cannot go on: a fault of the pipeline or of the program, never of one record.
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

    /// Looks at a batch and says what must be read. Must not change state that [`Operator::finish`] decides upon.
    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError>;

    /// Decides. `answers` has one entry for each of `probed.reads`.
    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError>;

    /// The state of this step, if it keeps any.
    fn state(&mut self) -> Option<&mut dyn KeyedState>;
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
        /// What a person can do.
        way_out: String,
    },
}

/// Records that were dropped as duplicates of rows that are now forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// How many are known.
    pub count: u64,
    /// Where the first of them stand; at most [`Copies::PLACES_MAX`].
    pub places: Vec<(Partition, u64)>,
}

impl Copies {
    /// Places that are named: enough to find the others by, few enough for a message.
    pub const PLACES_MAX: usize = 8;

    /// Counts one more.
    pub fn add(&mut self, partition: &Partition, position: u64) {
        self.count += 1;
        if self.places.len() < Self::PLACES_MAX {
            self.places.push((partition.clone(), position));
        }
    }
}

/// State that is sealed together with the records that made it (C6).
pub trait KeyedState: Send {
    /// What changed since the last call, for the seal under way; then frees what `watermark_ms` has made useless.
    /// Empty if nothing changed.
    fn seal(&mut self, watermark_ms: i64) -> Vec<u8>;

    /// All of the state, as of the last [`seal`](Self::seal).
    fn snapshot(&self) -> Vec<u8>;

    /// Starts from a snapshot.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or of another configuration.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), StateError>;

    /// Applies a delta that [`seal`](Self::seal) returned, in order.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError>;

    /// Forgets the keys of these rows (they became dead letters after all), and says so in the next delta (C10).
    ///
    /// # Errors
    /// When the rows lack the key columns.
    fn forget(&mut self, rows: &Batch) -> Result<(), OperatorError>;

    /// The records dropped as duplicates of these rows, as far as they are still remembered: asked before the rows are
    /// [forgotten](Self::forget), for the copies are lost with them. What is remembered is bounded and not durable.
    ///
    /// # Errors
    /// When the rows lack the key columns.
    fn copies_of(&mut self, _rows: &Batch) -> Result<Copies, OperatorError> {
        Ok(Copies::default())
    }

    /// Keys held.
    fn keys(&self) -> u64;

    /// Memory held in bytes.
    fn memory_bytes(&self) -> u64;
}
