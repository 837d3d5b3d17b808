//! Why a lane stops.
//!
//! Owns the closed list, and the name of each state that a lane stops in. Does not own what passes by itself (a server away, a slow disk):
//! that is retried where it happens, never becomes one of these, and is shown as a [`crate::problem`]. Nor does it own the exit codes,
//! which are the program's.

use dataflow::{OperatorError, SourceError, SourceFault, StateError};
use protocol::doubt::StopReason;
use protocol::{RecordError, Violation};
use store::{ErrorKind, StoreError};

/// Why a lane stops. Whatever it is, nothing that was sealed is lost.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another process took the lane over.
    #[error(
        "another process has taken over this pipeline (journal record {seq}); this one has stopped, nothing was lost"
    )]
    Fenced {
        /// The record that this process could not write.
        seq: u64,
    },
    /// A frame is in doubt and only an operator can decide.
    #[error(
        "table `{table}`, frame {ordinal} (`{frame}`): {}. {}. Answer with `forebay answer FILE --frame {frame} --present` or \
         `--absent`, then start again{}", reason.explain(), reason.question(), more_questions(*more)
    )]
    Doubt {
        /// The table.
        table: String,
        /// The frame's ordinal.
        ordinal: u64,
        /// The frame's name, as in the provenance column and in query ids.
        frame: String,
        /// What is in doubt.
        reason: StopReason,
        /// Questions of the same table that are open beside this one; `forebay status` lists them.
        more: usize,
    },
    /// The pipeline does not fit what the store holds.
    #[error("{0}")]
    Mismatch(String),
    /// The source cannot go on without loss or repetition.
    #[error("source: {0}")]
    Source(#[from] SourceError),
    /// The source cannot be read, or the state of a step is damaged, and all that was sealed was delivered before the process ended.
    #[error(
        "{error}; what was sealed before is in the table (this process has delivered {rows} rows), and nothing waits"
    )]
    Delivered {
        /// Why nothing more can be read.
        error: Box<EngineError>,
        /// Rows that were settled by this process, those of the dead letters' table included.
        rows: u64,
    },
    /// The source cannot be read, and what is sealed is left to the process that seems to run the pipeline.
    #[error(
        "{error}; {inserts} sealed inserts wait for the table, and they are left to the process that writes into this pipeline's \
         journal at this moment: this one has taken nothing over"
    )]
    LeftAlone {
        /// Why the source cannot be read.
        error: Box<EngineError>,
        /// Sealed inserts that are not settled.
        inserts: usize,
    },
    /// A step cannot go on.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// A step's state cannot be read back.
    #[error("step `{step}`: {source}{}", beside_a_backup(is_damage(source)))]
    State {
        /// The step.
        step: String,
        /// Why.
        source: StateError,
    },
    /// The store refuses for good.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// A sealed object is missing or damaged.
    #[error(
        "sealed object `{object}` is {what}; restore the store from a backup, nothing was guessed{}",
        beside_a_backup(is_of_state(object))
    )]
    Damaged {
        /// The object's key.
        object: String,
        /// `missing`, `shorter than sealed`, …
        what: String,
    },
    /// A journal record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A record breaks an invariant: a fault of the program, or a store that was tampered with.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A fault of the program: a computation panicked or a task vanished.
    #[error("internal fault in {0}; nothing that was sealed is lost, please report this")]
    Internal(&'static str),
}

impl EngineError {
    /// Every state that a lane can stop in, as [`EngineError::state`] names them. `docs/design/stop-states.md` says what an
    /// operator does in each.
    pub const STATES: [&'static str; 14] = [
        "fenced",
        "table_changed",
        "cannot_tell",
        "part_present",
        "views_unknown",
        "mismatch",
        "source",
        "operator",
        "state",
        "store",
        "damaged",
        "record",
        "violation",
        "internal",
    ];

    /// What a failed read of an object means: bytes that are not there as sealed are damage, which no other try fixes; anything else
    /// is the store's.
    pub fn of_reading(object: &str, error: StoreError) -> Self {
        match error.kind {
            ErrorKind::OutOfRange => Self::Damaged {
                object: object.to_owned(),
                what: format!("shorter than sealed ({})", error.reason),
            },
            ErrorKind::TooLarge | ErrorKind::Corrupt | ErrorKind::Conflict => Self::Damaged {
                object: object.to_owned(),
                what: format!("not what was sealed ({})", error.reason),
            },
            ErrorKind::Full
            | ErrorKind::Permission
            | ErrorKind::NotSupported
            | ErrorKind::Missing
            | ErrorKind::Url
            | ErrorKind::SyncFailed
            | ErrorKind::Stopped
            | ErrorKind::Io => Self::Store(error),
        }
    }

    /// Whether nothing is damaged but what a step remembers: without a backup the step can begin empty.
    pub fn is_of_state_alone(&self) -> bool {
        match self {
            Self::State { source, .. } => is_damage(source),
            Self::Damaged { object, .. } => is_of_state(object),
            Self::Fenced { .. }
            | Self::Doubt { .. }
            | Self::Mismatch(_)
            | Self::Source(_)
            | Self::Delivered { .. }
            | Self::LeftAlone { .. }
            | Self::Operator(_)
            | Self::Store(_)
            | Self::Record(_)
            | Self::Violation(_)
            | Self::Internal(_) => false,
        }
    }

    /// What has stopped the lane, without what became of the frames that were sealed.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Delivered { error, .. } | Self::LeftAlone { error, .. } => error.cause(),
            error => error,
        }
    }

    /// The state that the lane has stopped in.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Fenced { .. } => "fenced",
            Self::Doubt { reason, .. } => reason.word(),
            Self::Mismatch(_) => "mismatch",
            Self::Source(error) if error.fault == SourceFault::Store => "store",
            Self::Source(_) => "source",
            Self::Delivered { error, .. } | Self::LeftAlone { error, .. } => error.state(),
            Self::Operator(_) => "operator",
            Self::State { .. } => "state",
            Self::Store(_) => "store",
            Self::Damaged { .. } => "damaged",
            Self::Record(_) => "record",
            Self::Violation(_) => "violation",
            Self::Internal(_) => "internal",
        }
    }
}

/// Whether the state's bytes are not what was written.
fn is_damage(error: &StateError) -> bool {
    match error {
        StateError::Damaged(_) => true,
        StateError::TooNew { .. } | StateError::Configured { .. } => false,
    }
}

/// Whether an object holds a step's state alone: a snapshot, or a file.
fn is_of_state(object: &str) -> bool {
    matches!(object.rsplit('/').nth(1), Some("state" | "runs"))
}

/// The way out without a backup, where only the state of a step is damaged.
fn beside_a_backup(is_state: bool) -> &'static str {
    if !is_state {
        return "";
    }
    ". Without a backup, if no sealed insert waits, `forebay run FILE --new-state STEP --yes` goes on with this step's state empty: what it remembers is lost, \
     and so are the records in its open windows or its join"
}

fn more_questions(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" ({more} more inserts wait for an answer: see `forebay status FILE`)"),
    }
}
