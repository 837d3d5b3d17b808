//! The state that steps keep.
//!
//! Owns what every state does ([`State`]), what only dedup can do ([`SeenKeys`]), and what is done to state in files beside the lane ([`StateWork`]). Does not own
//! durability: the engine puts what [`State::seal`] returns into the same seal as the positions and the watermark.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use super::{KeptEnum, OperatorError, Probed};
use crate::{Batch, Partition, Position};

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

    /// Counts one more duplicate, and keeps its place if there is room.
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

    /// The Enums whose values the state keeps as numbers, always in the same order: a part of what it depends on, beside [`shape`](Self::shape).
    /// A name that is added changes no value that is kept; one that is gone, or has another number, makes the state another's.
    fn enums(&self) -> Vec<KeptEnum> {
        Vec::new()
    }

    /// Whether it takes records in and [releases](Output::released) results later: then no record may be read again while the state is kept.
    fn absorbs(&self) -> bool {
        false
    }

    /// What is lost with the state, in words that follow "this loses ".
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
    /// through [`Operator::probe`](super::Operator::probe) first, and `answers` has one entry for each of its reads.
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
