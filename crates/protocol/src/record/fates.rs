//! What became of single records, as messages.
//!
//! Owns the codes, which are for ever. Does not own how many of them a lane keeps ([`crate::lane`]).

use prost::Message;

use super::Position;

/// What became of each record of a partition without gaps, in the order of their positions. Such a partition counts its records: its
/// positions are of era 0.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Fates {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Position of the first record.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One [`Fate::code`] a record.
    #[prost(bytes = "vec", tag = "3")]
    pub codes: Vec<u8>,
    /// Stretches of these records whose inserts are not settled, by position; only in a lane and its checkpoints.
    #[prost(message, repeated, tag = "4")]
    pub unsettled: Vec<Unsettled>,
}

/// Records that were sealed with frames of which not all are settled.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Unsettled {
    /// Position of the first record.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The position after the last one.
    #[prost(uint64, tag = "2")]
    pub next: u64,
    /// The table's index.
    #[prost(uint32, tag = "3")]
    pub table: u32,
    /// Once the table's frontier is here, the records are settled in it.
    #[prost(uint64, tag = "4")]
    pub frontier: u64,
}

impl Fates {
    /// What became of the record at `position`; `None` if it is not among these.
    pub fn at(&self, position: Position) -> Option<Fate> {
        let at = usize::try_from(position.checked_sub(self.from.into())?).ok()?;
        Fate::of(*self.codes.get(at)?)
    }

    /// The byte that stands for what became of the record at `position`.
    pub(crate) fn code_mut(&mut self, position: Position) -> Option<&mut u8> {
        let at = usize::try_from(position.checked_sub(self.from.into())?).ok()?;
        self.codes.get_mut(at)
    }

    /// The position after the last record.
    pub fn next(&self) -> u64 {
        self.from.saturating_add(self.codes.len() as u64)
    }
}

/// What became of one record. A seal states it as of the seal; if the server refuses the row later, the lane knows it as a dead letter
/// from that letter's seal on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// A row of a table, or several.
    Written,
    /// Dropped by a rule.
    Filtered,
    /// Dropped as a known duplicate.
    Duplicate,
    /// Dropped as too late.
    Late,
    /// A row of the dead letters: no row of a table was made of it.
    DeadLetter,
    /// A row of the dead letters, because a table has refused a row of it.
    Refused,
    /// Part of a step's state.
    Absorbed,
}

impl Fate {
    const ALL: [Self; 7] = [
        Self::Written,
        Self::Filtered,
        Self::Duplicate,
        Self::Late,
        Self::DeadLetter,
        Self::Refused,
        Self::Absorbed,
    ];

    /// The byte that stands for it, for ever.
    pub fn code(self) -> u8 {
        match self {
            Self::Written => 1,
            Self::Filtered => 2,
            Self::Duplicate => 3,
            Self::Late => 4,
            Self::DeadLetter => 5,
            Self::Refused => 6,
            Self::Absorbed => 7,
        }
    }

    /// What a byte stands for.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.code() == code)
    }

    /// The word in output and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Filtered => "filtered",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::DeadLetter | Self::Refused => "dead_letter",
            Self::Absorbed => "absorbed",
        }
    }
}
