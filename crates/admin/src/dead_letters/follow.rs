//! What the journal of a lane says, read on as it grows.
//!
//! Owns the reading, and when a replay is done: all its records are sealed, and all that was sealed by then is settled. Claims nothing and
//! appends nothing. Does not own what became of each letter (`dead_letters::results`), nor what a record changes (`protocol::lane`).

use std::sync::Arc;

use engine::EngineError;
use protocol::record::RECORD_BYTES_MAX;
use protocol::{Lane, Record, names};
use store::{Key, Prefix, Store};

/// Looks without a new record, after which it is asked whether the journal was retired under the reader.
const LOOKS_PER_LISTING: u32 = 10;

/// A journal as far as it was read.
pub struct Follower {
    store: Arc<dyn Store>,
    folder: String,
    lane: Lane,
    empty_looks: u32,
    mark: Option<Mark>,
}

/// How far the tables had been sealed when the wait for them began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    next_ordinals: Vec<u64>,
    /// The second round: dead letters of rows that the server refused are sealed while the first is waited for.
    is_last: bool,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The lane stands at this position of the replay log.
    Reading(u64),
    /// All is sealed; so many inserts are not settled.
    Settling(u64),
    /// All is settled.
    Done,
}

impl Follower {
    /// Goes on from `lane`.
    pub fn new(store: Arc<dyn Store>, folder: String, lane: Lane) -> Self {
        Self { store, folder, lane, empty_looks: 0, mark: None }
    }

    /// The lane as far as it is known.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Reads what was appended since.
    ///
    /// # Errors
    /// When the store cannot be read or a record is damaged.
    pub async fn advance(&mut self) -> Result<(), EngineError> {
        loop {
            let key = Key::new(names::journal(&self.folder, self.lane.next_seq)).expect("a valid key");
            let Some(bytes) = self.store.get(&key, RECORD_BYTES_MAX).await? else { break };
            self.lane.apply(&Record::from_bytes(self.lane.next_seq, &bytes)?)?;
            self.empty_looks = 0;
        }
        self.empty_looks += 1;
        if self.empty_looks.is_multiple_of(LOOKS_PER_LISTING) {
            let prefix = Prefix::new(&format!("{}/journal", self.folder)).expect("a valid prefix");
            let key = Key::new(names::journal(&self.folder, self.lane.next_seq)).expect("a valid key");
            if !self.store.list(&prefix, Some(&key), 1).await?.is_empty() {
                self.lane = engine::journal::load(&*self.store, &self.folder).await?;
            }
        }
        Ok(())
    }

    /// How far the records below `end` are.
    pub fn progress(&mut self, end: u64) -> Progress {
        let next = super::position_in_log(&self.lane);
        if next < end {
            return Progress::Reading(next);
        }
        loop {
            let mark = self.mark.get_or_insert_with(|| mark(&self.lane, false));
            let tables = self.lane.tables.iter().zip(&mark.next_ordinals);
            let unsettled: u64 = tables.map(|(table, mark)| mark.saturating_sub(table.frontier)).sum();
            match (unsettled, mark.is_last) {
                (0, true) => return Progress::Done,
                (0, false) => *mark = self::mark(&self.lane, true),
                (unsettled, _) => return Progress::Settling(unsettled),
            }
        }
    }
}

fn mark(lane: &Lane, is_last: bool) -> Mark {
    Mark { next_ordinals: lane.tables.iter().map(|table| table.next_ordinal).collect(), is_last }
}

#[cfg(test)]
mod tests;
