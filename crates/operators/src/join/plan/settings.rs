//! The settings of a join step.
//!
//! Owns their words and bounds. Does not own which of them fit each other and the columns ([`super`]).

use std::time::Duration;

/// Pairs of key columns at the most: beyond it somebody meant something else.
pub const KEY_COLUMNS_MAX: usize = 16;

/// Columns of the output at the most: as many as a wide table has, and few enough that a page of rows stays small beside them.
pub const COLUMNS_MAX: usize = 1_024;

/// The longest `before`, `after` and lateness: ten years, so that no sum of them with a time overflows.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Which rows without a match become rows of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// None.
    Inner,
    /// Those of the left side.
    Left,
    /// Those of the right side.
    Right,
    /// Those of both sides.
    Full,
}

impl JoinKind {
    /// The word in the pipeline file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
        }
    }

    /// Whether rows of this side without a match become rows of the output.
    pub(crate) fn keeps(self, side: JoinSide) -> bool {
        match side {
            JoinSide::Left => matches!(self, Self::Left | Self::Full),
            JoinSide::Right => matches!(self, Self::Right | Self::Full),
        }
    }
}

/// A side of the join; its number is that of the step's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinSide {
    /// The first input.
    Left = 0,
    /// The second input.
    Right = 1,
}

impl JoinSide {
    pub(crate) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// The side of an input, if it is one of the two.
    pub(crate) fn of(input: usize) -> Option<Self> {
        Self::BOTH.get(input).copied()
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// The word in the pipeline file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

/// A column of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinColumn {
    /// Its name in the output.
    pub name: String,
    /// The side that it comes from.
    pub side: JoinSide,
    /// Its name there.
    pub from: String,
    /// Whether a column of the key is NULL in rows for which its side has no row, as in SQL. Otherwise it takes the equal column's value of the other
    /// side, which has one.
    pub is_of_side_alone: bool,
}

/// The settings of an interval join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// The key: pairs of a column of the left side and one of the right; 1 to [`KEY_COLUMNS_MAX`].
    pub on: Vec<(String, String)>,
    /// How much earlier than a left row a right row may be to match it; at most 3650 days, in whole milliseconds.
    pub before: Duration,
    /// How much later; at most 3650 days, in whole milliseconds.
    pub after: Duration,
    /// How far behind the watermark a row may be without being late; at most 3650 days, in whole milliseconds.
    pub lateness: Duration,
    /// Which rows without a match become rows of the output.
    pub kind: JoinKind,
    /// The columns of the output, in order; 1 to [`COLUMNS_MAX`].
    pub columns: Vec<JoinColumn>,
    /// For each side the columns of its rows without a match that go out beside the output; none if such rows do not.
    pub unmatched: [Vec<String>; 2],
}
