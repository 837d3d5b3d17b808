//! Places in a partition.
//!
//! Owns the form of a position and its text. Does not own what one means: only its source knows.
//!
//! | source         | era       | place in it                          |
//! |----------------|-----------|--------------------------------------|
//! | Kafka          | 0         | the offset                           |
//! | files          | 0         | the offset of the record's first byte |
//! | generator, memory, replay log | 0 | the record's number           |
//! | Pulsar         | the ledger | the entry (40 bits), the index in its batch (24 bits) |
//!
//! A source whose records have two numbers (a ledger and a place in it, a segment and a record) gives the first one as the era. All records
//! of a block are of one era, so that a row needs only the low half.

use std::fmt;

/// A place in a partition: 16 bytes that are ordered as the partition is. The high eight are the *era*, the low eight the place in it.
/// Nothing is counted by subtracting positions: there may be gaps, and between two eras the difference means nothing.
pub type Position = u128;

/// The position of these two numbers.
pub const fn position(era: u64, low: u64) -> Position {
    ((era as Position) << 64) | low as Position
}

/// The era of a position: 0 for a source that has none.
pub const fn era(position: Position) -> u64 {
    (position >> 64) as u64
}

/// The place in the era.
pub const fn low(position: Position) -> u64 {
    position as u64
}

/// The place of a position without an era; `None` for one that has an era, which a source without eras has never given.
pub const fn plain(position: Position) -> Option<u64> {
    if era(position) == 0 { Some(low(position)) } else { None }
}

/// The places between two positions, 0 if `to` is not behind `from`; `None` where either has an era: its places need not be numbers that
/// follow each other.
pub const fn between(from: Position, to: Position) -> Option<u64> {
    if to <= from {
        Some(0)
    } else if era(from) == 0 && era(to) == 0 {
        Some(low(to) - low(from))
    } else {
        None
    }
}

/// A position as it is displayed: `17`, or `3:17` in era 3.
pub fn shown(position: Position) -> impl fmt::Display {
    struct Shown(Position);

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match era(self.0) {
                0 => write!(f, "{}", low(self.0)),
                era => write!(f, "{era}:{}", low(self.0)),
            }
        }
    }

    Shown(position)
}

/// The position that [`shown`] writes so; `None` for any other text.
pub fn parse(text: &str) -> Option<Position> {
    match text.split_once(':') {
        None => Some(text.parse::<u64>().ok()?.into()),
        Some((era, low)) => Some(position(era.parse().ok()?, low.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests;
