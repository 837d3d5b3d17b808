//! The two questions that every failure answers: did it happen, and what now.
//!
//! Owns the words. Does not own the classification of a failure, which stands beside each boundary (`clickhouse::response`,
//! `store::error`).

/// Whether the failed operation may have taken effect all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It did not happen, and will not.
    None,
    /// It may have happened, or may still happen: read back, or repeat it so that the repeat is recognised as one.
    Unknown,
}

/// What the caller does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// The same bytes again, after a pause.
    Resend,
    /// The content was refused: split it and put the bad rows into the dead letters.
    Divert,
    /// An operator is needed: keep the data, keep trying slowly, show the reason.
    Stop,
}
