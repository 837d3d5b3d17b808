//! What became of replayed letters.
//!
//! Owns where it comes from: the lane's seals for every record, and the dead-letter table for those that could not go on again, among them
//! rows that the server refused after they were sealed. Does not own how it is shown.

use std::collections::BTreeMap;

use pipeline::replays::object::Letter;
use pipeline::replays::{STREAM, stands_at};
use protocol::Lane;
use protocol::record::{Fate, RecordPlace};

use super::Table;
use super::letters::Head;

/// Positions asked for at once.
const POSITIONS_PER_QUESTION: usize = 4_096;

/// Characters of a message in the results; `show` has all of it.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Why a record could not go on again; empty if its letter is not in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Why, in one word.
    pub reason: String,
    /// The column, or empty.
    pub column: String,
    /// The sentence, or its beginning.
    pub message: String,
}

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sealed with this fate, and settled.
    Sealed(Fate),
    /// A row on its way: its insert is not settled, and the server may still refuse it.
    OnItsWay,
    /// A dead letter again.
    DeadLetter(Failure),
    /// Not read yet.
    Waiting,
    /// Replayed so long ago that what became of it is not kept.
    Forgotten,
}

impl Outcome {
    /// The word of a result.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sealed(fate) => fate.as_str(),
            Self::OnItsWay => "sealed",
            Self::DeadLetter(_) => Fate::DeadLetter.as_str(),
            Self::Waiting => "waiting",
            Self::Forgotten => "unknown",
        }
    }
}

/// What became of one letter that a replay took.
#[derive(Clone, Debug)]
pub struct Results {
    /// The letter.
    pub head: Head,
    /// Its record's place in the replay log, if it is still known.
    pub position: Option<u64>,
    /// True if an earlier replay took it.
    pub is_already: bool,
    /// What became of the record.
    pub outcome: Outcome,
}

impl Results {
    /// The dead letter that the record is now, if it is one again.
    pub fn letter_again(&self) -> Option<String> {
        let position = self.position.filter(|_| matches!(self.outcome, Outcome::DeadLetter(_)))?;
        Some(Letter::at(STREAM, 0, position).to_string())
    }
}

/// What the lane knows of a record of the log; `letters` is the table of the dead letters. A letter that stands in that table
/// tells more.
pub fn outcome(lane: &Lane, letters: &str, position: u64) -> Outcome {
    if stands_at(lane).is_none_or(|next| u128::from(position) >= next) {
        return Outcome::Waiting;
    }
    // The log is another partition once the input that carries it was forgotten and has come back.
    let all = (0..).zip(&lane.partitions).filter(|(_, p)| p.is(0, STREAM, 0));
    let mut places = all.map(|(at, _): (u32, _)| RecordPlace::new(at, position.into()));
    let Some(place) = places.find(|place| lane.fate(*place).is_some()) else { return Outcome::Forgotten };
    match lane.fate(place) {
        Some(Fate::Written) if lane.unsettled(place).any(|table| table.name != letters) => Outcome::OnItsWay,
        // Its letter was purged, or its insert is not settled yet.
        Some(Fate::DeadLetter | Fate::Refused) => Outcome::DeadLetter(Failure::default()),
        Some(fate) => Outcome::Sealed(fate),
        None => Outcome::Forgotten,
    }
}

/// Which of these records of the log are dead letters again.
///
/// # Errors
/// When the table cannot be read.
pub async fn failed_again(table: &Table, positions: &[u64]) -> anyhow::Result<BTreeMap<u64, Failure>> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let mut failed = BTreeMap::new();
    for chunk in sorted.chunks(POSITIONS_PER_QUESTION) {
        let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { continue };
        let sql = format!(
            "SELECT position, any(reason), any(column), any(substringUTF8(message, 1, {MESSAGE_CHARS_MAX})) FROM {} \
             WHERE {} AND source = {} AND partition = 0 AND position >= {first} AND position <= {last} \
             GROUP BY position ORDER BY position LIMIT {POSITIONS_PER_QUESTION}",
            table.quoted,
            table.of,
            clickhouse::types::quote(STREAM)
        );
        let rows: Vec<(u64, String, String, String)> = table.ask(&sql).await?;
        failed.extend(
            rows.into_iter()
                .map(|(position, reason, column, message)| (position, Failure { reason, column, message })),
        );
    }
    Ok(failed)
}

#[cfg(test)]
mod tests;
