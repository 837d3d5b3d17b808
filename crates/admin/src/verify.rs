//! Compares the table with the source, while the pipeline runs.
//!
//! Owns the bounds of a comparison, and why it is sound while both sides change. Does not own its steps (`verify::work`), nor the
//! statements that ClickHouse answers (`clickhouse::reconcile`). Reads the journal, the source and the tables; claims, publishes, writes
//! and locks nothing.
//!
//! ```text
//! journal ─▶ source once more, up to what is sealed ─▶ wait until that is settled ─▶ digests of buckets ─▶ keys of those that
//! differ ─▶ look again at what differs: settled meanwhile, a dead letter, or newer than the look
//! ```
//!
//! There is no snapshot over a source and a table that both move. So the source's side ends at positions that one journal record
//! names, the table is only asked once all of that is settled, and a row that is in the table and not in that range counts as
//! foreign only if the source does not hold it further on, up to what is sealed *after* the table was asked.

mod expect;
mod frames;
mod letters;
mod newest;
mod place;
mod reading;
mod report;
mod spill;
mod work;

use pipeline::config::values::Start;

pub use report::Report;
pub use work::{Progress, Work};

/// Where a range begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// By the source's time of a record, Unix milliseconds.
    Time(i64),
    /// By a position.
    Position {
        /// The topic or file.
        stream: String,
        /// The partition.
        index: u32,
        /// The position.
        position: u64,
    },
}

impl std::str::FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = || {
            let (place, position) = text.rsplit_once(':')?;
            let (stream, index) = place.rsplit_once('/')?;
            let (index, position) = (index.parse().ok()?, position.parse().ok()?);
            Some(Self::Position { stream: stream.to_owned(), index, position })
        };
        if let Some(position) = position() {
            return Ok(position);
        }
        match text.parse::<Start>() {
            Ok(Start::At { ms }) => Ok(Self::Time(ms)),
            _ => Err("give a time such as `2026-07-01T00:00:00Z`, or `topic/0:1000`".into()),
        }
    }
}

#[cfg(test)]
mod tests;
