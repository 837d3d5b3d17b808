//! Segments that are sealed, and written later or never.
//!
//! Owns the segments whose records the source holds until they are settled: they stay in memory until their frame is settled, and are written
//! only if that takes long. Does not own which these are ([`crate::seal`]), the writing ([`crate::objects`]), who makes one again after a crash ([`crate::remake`]), nor the memory,
//! which is that of bodies that are kept for their first attempt ([`crate::target`]).
//!
//! | what happens                                  | the segment                                         |
//! |-----------------------------------------------|-----------------------------------------------------|
//! | its frame is settled                          | is dropped; there is nothing to delete              |
//! | for [`WRITE_AFTER`] no frame of its table is settled | is written, and read from the store from then on |
//! | others of its table are, but not this one for [`WRITE_AT_LAST`] | the same                         |
//! | the process is asked to stop, or ends in order | is written                                         |
//! | the process dies                              | is made again by the next one                       |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

/// How long a table may answer no insert before the segments of its frames are written: it may be away for long. While it answers, frames only wait for their turn,
/// and to write them would cost more than to read their records once more after a crash.
pub const WRITE_AFTER: Duration = Duration::from_secs(2);

/// When the segment of a frame is written though others of its table are settled: it may wait for an answer of the operator.
pub const WRITE_AT_LAST: Duration = Duration::from_secs(30);

/// The segments of a lane that are sealed and not written: one for each such frame that is not settled.
#[derive(Default)]
pub struct Unwritten {
    state: Mutex<State>,
    /// Woken when a segment is held.
    added: Notify,
}

#[derive(Default)]
struct State {
    held: BTreeMap<String, Held>,
    /// When a frame of each table was settled last.
    settled: BTreeMap<u32, Duration>,
    /// Names that nothing was ever written under, until retirement asks for them.
    never: BTreeSet<String>,
}

/// One segment: that of a single frame.
struct Held {
    table: u32,
    ordinal: u64,
    pieces: Vec<Bytes>,
    since: Duration,
}

impl Unwritten {
    /// Keeps the segment of a frame that is sealed at `now`, or was made again then.
    pub fn hold(&self, object: &str, (table, ordinal): (u32, u64), pieces: Vec<Bytes>, now: Duration) {
        let held = Held { table, ordinal, pieces, since: now };
        self.state().held.insert(object.to_owned(), held);
        self.added.notify_one();
    }

    /// The frame is settled at `now`: nobody reads its segment any more.
    pub fn settled(&self, table: u32, ordinal: u64, now: Duration) {
        let mut state = self.state();
        state.settled.insert(table, now);
        let is_its = |held: &Held| (held.table, held.ordinal) == (table, ordinal);
        let found = state.held.iter().find(|(_, held)| is_its(held)).map(|(object, _)| object.clone());
        if let Some(object) = found {
            state.held.remove(&object);
            state.never.insert(object);
        }
    }

    /// A part of a segment that is held; `None` if it is not, or has no such part.
    pub fn read(&self, object: &str, offset: u64, len: u64) -> Option<Bytes> {
        let state = self.state();
        let (mut skip, mut left) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let mut parts = Vec::new();
        for piece in &state.held.get(object)?.pieces {
            let from = skip.min(piece.len());
            let taken = left.min(piece.len() - from);
            if taken > 0 {
                parts.push(piece.slice(from..from + taken));
            }
            (skip, left) = (skip - from, left - taken);
        }
        match parts.as_slice() {
            _ if left > 0 => None,
            [one] => Some(one.clone()),
            parts => Some(
                parts
                    .iter()
                    .fold(BytesMut::new(), |mut all, part| {
                        all.extend_from_slice(part);
                        all
                    })
                    .freeze(),
            ),
        }
    }

    /// Whether nothing was ever written under a name, and nothing is to be deleted. Asked once.
    pub fn was_never_written(&self, object: &str) -> bool {
        self.state().never.remove(object)
    }

    /// All that is garbage is found by a listing this time, so nobody asks for names that nothing was written under. One of a segment that is still needed costs a
    /// delete of nothing later.
    pub fn forget_never_written(&self) {
        self.state().never.clear();
    }

    /// Waits until a segment is held.
    pub async fn holds_any(&self) {
        if self.state().held.is_empty() {
            self.added.notified().await;
        }
    }

    /// How much longer to wait for the table to settle a frame; `None` if it has settled none for [`WRITE_AFTER`], or none of its is held.
    pub fn patience(&self, table: u32, now: Duration) -> Option<Duration> {
        let state = self.state();
        let first = state.held.values().filter(|held| held.table == table).map(|held| held.since).min()?;
        let last = state.settled.get(&table).map_or(first, |settled| first.max(*settled));
        (last + WRITE_AFTER).checked_sub(now).filter(|left| !left.is_zero())
    }

    /// The segments that were sealed at `before` or earlier and whose table has settled nothing since, and those that were sealed long before that.
    pub fn due(&self, before: Duration) -> Vec<(String, Vec<Bytes>)> {
        let state = self.state();
        let long_before = before.checked_sub(WRITE_AT_LAST - WRITE_AFTER);
        let is_silent = |table| state.settled.get(&table).is_none_or(|settled| *settled <= before);
        let is_due =
            |held: &Held| held.since <= before && is_silent(held.table) || Some(held.since) <= long_before;
        let due = state.held.iter().filter(|(_, held)| is_due(held));
        due.map(|(object, held)| (object.clone(), held.pieces.clone())).collect()
    }

    /// A segment is in the store.
    pub fn written(&self, object: &str) {
        let mut state = self.state();
        state.held.remove(object);
        // It was settled while it was being written.
        state.never.remove(object);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
