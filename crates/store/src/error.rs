//! What went wrong in a store, whether it may have happened all the same, and the way out.
//!
//! Owns the sorting of operating system errors into kinds. Does not own the choice to retry or to stop; callers decide
//! by [`StoreError::effect`] and [`StoreError::kind`].

use std::fmt;
use std::io;

use dataflow::Effect;

/// What stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No room: the disk, the quota, the process's limit of a file's size, or the bound of a memory store.
    Full,
    /// Not allowed, or a read-only file system.
    Permission,
    /// The object has more bytes than the store or the caller takes.
    TooLarge,
    /// The range does not lie within the object.
    OutOfRange,
    /// What is stored is not what a store writes there.
    Corrupt,
    /// The key is the folder of other objects, or one of its folders is an object.
    Conflict,
    /// This store or file system does not support it.
    NotSupported,
    /// There is no such bucket or container.
    Missing,
    /// The text is not the URL of a store, or the store is elsewhere.
    Url,
    /// An fsync failed, so it is not known what is durable; this store accepts no more writes.
    SyncFailed,
    /// The operation was abandoned because the process shuts down or its worker panicked.
    Stopped,
    /// Any other error of the operating system or the network.
    Io,
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening the store.
    Open,
    /// [`crate::Store::put_if_absent`].
    Put,
    /// [`crate::Store::get`] or [`crate::Store::get_range`].
    Get,
    /// [`crate::Store::list`].
    List,
    /// [`crate::Store::delete`].
    Delete,
    /// [`crate::Store::harden`].
    Harden,
}

/// A failed operation. The message names the operation, the place, the reason and the way out.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} `{place}`: {reason}; {}", .kind.remedy())]
pub struct StoreError {
    /// Whether it may have happened.
    pub effect: Effect,
    /// What stood in the way.
    pub kind: ErrorKind,
    /// What was tried.
    pub operation: Operation,
    /// The key or folder, or the store's URL without secrets.
    pub place: String,
    /// What happened, in words.
    pub reason: String,
    /// The operating system's error, if there was one.
    #[source]
    pub source: Option<io::Error>,
}

impl StoreError {
    /// An error with [`Effect::None`].
    pub fn new(
        kind: ErrorKind,
        operation: Operation,
        place: impl fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            effect: Effect::None,
            kind,
            operation,
            place: place.to_string(),
            reason: reason.into(),
            source: None,
        }
    }

    /// An operating system's error with [`Effect::None`]; `doing` says at which step, as in "write its bytes".
    pub fn io(operation: Operation, place: impl fmt::Display, doing: &str, source: io::Error) -> Self {
        let kind = ErrorKind::of(&source);
        let way = match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                "; its file system is mounted read-only: the kernel's log says why, and `mount -o remount,rw` undoes it"
            }
            _ => "",
        };
        let reason = format!("failed to {doing}: {source}{way}");
        Self { source: Some(source), ..Self::new(kind, operation, place, reason) }
    }

    /// The same error with another effect.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// The same error with another kind.
    #[must_use]
    pub fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }
}

impl ErrorKind {
    /// Whether waiting and trying again may help without a change of the pipeline.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Full | Self::Permission | Self::Missing | Self::Io => true,
            Self::TooLarge
            | Self::OutOfRange
            | Self::Corrupt
            | Self::Conflict
            | Self::NotSupported
            | Self::Url
            | Self::SyncFailed
            | Self::Stopped => false,
        }
    }

    /// The same at a start, where a wrong key or a missing bucket is a mistake to report, and not to wait for.
    pub fn may_pass_at_start(self) -> bool {
        match self {
            Self::Permission | Self::Missing => false,
            kind => kind.is_transient(),
        }
    }

    /// The way out, in words.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Full => {
                "free some space or raise the quota (the limit `ulimit -f` of the process is one), and Forebay continues"
            }
            Self::Permission => "give the process read, write, list and delete access to the store",
            Self::TooLarge => "lower the size of a batch or raise the bound",
            Self::OutOfRange => "the object is shorter than its index says: restore it from a backup",
            Self::Corrupt => "something else wrote into the store: restore the object from a backup",
            Self::Conflict => "an object and a folder cannot share a name: remove the foreign one",
            Self::NotSupported => {
                "make the place fit as the reason says, or choose another one for a new pipeline's store"
            }
            Self::Missing => "create the bucket, or name the right one; Forebay does not create buckets",
            Self::Url => {
                "give `file:///absolute/path`, a plain path, `s3://bucket/prefix`, `gs://…`, `az://…` or `memory://`, with the \
                 right endpoint and region"
            }
            Self::SyncFailed => "check the disk and the kernel's log, then restart",
            Self::Stopped => "start again; nothing is damaged",
            Self::Io => "see the reason; trying again may help",
        }
    }

    /// Sorts an operating system's error.
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Permission,
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Self::Conflict,
            io::ErrorKind::Unsupported | io::ErrorKind::CrossesDevices => Self::NotSupported,
            // The standard library's kinds are open-ended: what is not named above is plain I/O.
            _ => Self::Io,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Put => "put",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Harden => "harden",
        })
    }
}

#[cfg(test)]
mod tests;
