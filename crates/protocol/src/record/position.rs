//! Positions in messages.
//!
//! Owns how sixteen bytes are written as two numbers, of which the high one is left out where it is 0: most sources have positions of
//! eight bytes, and a varint of them takes as many bytes as before. Does not own what a position means: only its source knows.

use std::fmt;

/// A place in a partition: 16 ordered bytes. The high eight are the *era*, which all records of one block share (a ledger, a segment; 0
/// for a source that counts its records or bytes), the low eight the place inside it.
pub type Position = u128;

/// The position of these two numbers.
pub(crate) fn joined(era: u64, low: u64) -> Position {
    (Position::from(era) << 64) | Position::from(low)
}

/// Both numbers of a position: its era, and its place inside it.
pub(crate) fn parted(position: Position) -> (u64, u64) {
    ((position >> 64) as u64, position as u64)
}

/// A position as it is displayed: the low half, with the era before it unless that is 0.
pub(crate) fn shown(position: Position) -> impl fmt::Display {
    struct Shown(Position);

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match parted(self.0) {
                (0, low) => write!(f, "{low}"),
                (era, low) => write!(f, "{era}:{low}"),
            }
        }
    }

    Shown(position)
}
