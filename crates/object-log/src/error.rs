//! What went wrong with a log, whether it may have happened, and the way out.
//!
//! Owns the closed lists for whoever reads or commits ([`LogError`]) and for whoever appends ([`AppendError`]), and which errors pass by
//! themselves. Does not own what went wrong with a store (`store`) or with an object's bytes (`framing`).

use dataflow::Effect;
use store::{ErrorKind, StoreError};

use crate::framing::FormatError;

pub use crate::framing::FormatError as Format;

/// Why a partition cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is damaged or of another format.
    #[error("`{key}` of the log: {error}")]
    Format {
        /// The object.
        key: String,
        /// Why.
        error: FormatError,
    },
    /// An object that the log names is not there.
    #[error(
        "the log names `{key}`, and there is no such object: restore the store from a backup, nothing was guessed"
    )]
    Missing {
        /// The object.
        key: String,
    },
    /// There is no such partition.
    #[error("there is no log at `{place}`; `forebay log append` creates one")]
    Absent {
        /// Where it was looked for.
        place: String,
    },
    /// Another owner has claimed the partition.
    #[error("another process owns `{place}` since epoch {epoch}; this one commits nothing more")]
    Fenced {
        /// The partition.
        place: String,
        /// The present epoch.
        epoch: u64,
    },
    /// The partition was deleted, and perhaps created again.
    #[error("`{place}` was deleted or created again (it was `{was}`, and is `{is}`)")]
    Recreated {
        /// The partition.
        place: String,
        /// Its identity as known.
        was: String,
        /// Its identity now, or `absent`.
        is: String,
    },
    /// The position is below what is held.
    #[error("position {position} is no longer held: `{place}` begins at {low}")]
    Truncated {
        /// The partition.
        place: String,
        /// What was asked for.
        position: u64,
        /// What is held.
        low: u64,
    },
    /// The position is beyond the end.
    #[error("`{place}` ends at {next}, so it has no position {position}; was its store rolled back?")]
    Beyond {
        /// The partition.
        place: String,
        /// What was asked for.
        position: u64,
        /// The next position to be given.
        next: u64,
    },
    /// Another run of the same consumer acknowledges now.
    #[error(
        "consumer `{consumer}` of `{place}` runs elsewhere since epoch {epoch}; this one acknowledges nothing more"
    )]
    ConsumerFenced {
        /// The partition.
        place: String,
        /// The consumer.
        consumer: String,
        /// The present epoch.
        epoch: u64,
    },
    /// A setting or request that cannot work.
    #[error("{0}")]
    Refused(String),
}

impl LogError {
    /// Whether something of the log is damaged or missing.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Format { .. } | Self::Missing { .. } => true,
            Self::Store(error) => error.kind == ErrorKind::Corrupt,
            Self::Absent { .. }
            | Self::Fenced { .. }
            | Self::Recreated { .. }
            | Self::Truncated { .. }
            | Self::Beyond { .. }
            | Self::ConsumerFenced { .. }
            | Self::Refused(_) => false,
        }
    }

    /// Whether another attempt may succeed without any change.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.kind.is_transient(),
            Self::Format { .. }
            | Self::Missing { .. }
            | Self::Absent { .. }
            | Self::Fenced { .. }
            | Self::Recreated { .. }
            | Self::Truncated { .. }
            | Self::Beyond { .. }
            | Self::ConsumerFenced { .. }
            | Self::Refused(_) => false,
        }
    }
}

/// Why an append was not answered positively.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AppendError {
    /// [`Effect::None`]: it is not in the log and never will be. [`Effect::Unknown`]: it may be; send it again under its ordinal.
    pub effect: Effect,
    /// What stood in the way.
    pub fault: AppendFault,
    /// The whole sentence, with the way out.
    pub message: String,
}

/// What stood in the way of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// It has no records, too many bytes, or bodies that are not whole.
    Refused,
    /// The ordinal leaves a gap behind the producer's last one.
    Gap,
    /// The producer is not known, and this is not its first ordinal.
    UnknownProducer,
    /// The maximum number of producers is at work.
    TooManyProducers,
    /// This process does not own the partition any more: ask the one that does.
    Fenced,
    /// The owner has stopped.
    Stopped,
}
