//! What the replay log has taken, read from the store; and its retirement.
//!
//! Owns two steps, so that nothing is deleted that anything may still ask for. First a snapshot says which letters the objects below a
//! position have taken, and where the tables stood once the lane had sealed their records. Later, when the tables are settled up to there,
//! those objects go, and older snapshots with them. The newest object always stays. Both steps are taken by whoever replays; a crash in
//! between leaves too much, never too little. Does not own the set of letters (`replays::taken`), nor the bytes of an object
//! (`replays::object`).

use std::collections::BTreeMap;

use protocol::Lane;
use protocol::lane::FATES_KEPT;
use store::Put;

use super::object::{Letter, Replay};
use super::taken::{BYTES_MAX, Mark, Snapshot, Taken};
use super::{Log, LogError, broken, stands_at};

/// Objects that were read wait for so many before a snapshot is worth its bytes.
const OBJECTS_PER_SNAPSHOT: usize = 8;

/// Times that a load starts over because objects were retired while it read: each means that another replay ended meanwhile.
const LOADS_MAX: u32 = 10;

/// All that is known of replays.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Letters taken by any replay.
    pub taken: Taken,
    /// Where the next object begins.
    pub end: u64,
    /// Where the lane stood in the log when it was read.
    pub lane_next: u64,
    /// Objects that are held: where each begins, and where it ends.
    pub objects: Vec<(u64, u64)>,
    /// Where the newest object that was read begins, and its nonce.
    newest: Option<(u64, Vec<u8>)>,
    /// Where in the log a letter was put last, for as many as their fates are kept for.
    places: BTreeMap<Letter, u64>,
    snapshot: Option<Snapshot>,
}

impl Memory {
    /// Where in the log the letter was put last, if that is still known.
    pub fn place(&self, letter: &Letter) -> Option<u64> {
        self.places.get(letter).copied()
    }

    /// An object below the snapshot, which holds what it took. One whose letters the snapshot does not hold was put at a place that
    /// had been retired, by a writer that died before it noticed: it is never read, and has taken nothing.
    fn place_known(&mut self, replay: &Replay) {
        for (position, record) in (replay.first..).zip(&replay.records) {
            if let Some(letter) = record.letter.as_ref().filter(|letter| self.taken.holds(letter)) {
                self.places.insert(letter.clone(), position);
            }
        }
        self.objects.push((replay.first, replay.end()));
        self.newest = Some((replay.first, replay.nonce.clone()));
    }

    /// An object was put at the end.
    pub fn add(&mut self, replay: &Replay) {
        for (position, record) in (replay.first..).zip(&replay.records) {
            if let Some(letter) = &record.letter {
                self.taken.add(letter);
                self.places.insert(letter.clone(), position);
            }
        }
        self.objects.push((replay.first, replay.end()));
        self.newest = Some((replay.first, replay.nonce.clone()));
        self.end = self.end.max(replay.end());
        if self.places.len() > 2 * FATES_KEPT {
            let oldest = self.end.saturating_sub(FATES_KEPT as u64);
            self.places.retain(|_, position| *position >= oldest);
        }
    }
}

impl Log {
    /// Reads the newest snapshot and all objects that it does not cover. `next` is where the lane stands in the log.
    ///
    /// # Errors
    /// When the store fails or an object is damaged.
    pub async fn memory(&self, next: u64) -> Result<Memory, LogError> {
        for _ in 0..LOADS_MAX {
            if let Some(memory) = self.load(next).await? {
                return Ok(memory);
            }
        }
        Err(LogError::Store(store::StoreError::new(
            store::ErrorKind::Io,
            store::Operation::Get,
            &self.folder,
            format!("replays were retired faster than they can be read ({LOADS_MAX} times)"),
        )))
    }

    /// As [`Log::append`], behind the objects that `memory` has seen. `false` also if the newest of them is gone: another writer has retired it,
    /// or it was not durable and a loss of power took it away. Its place must be filled first then, or no lane would ever read beyond it; and if it
    /// is filled already, what stands there was not seen.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub async fn append_behind(&self, memory: &Memory, replay: &Replay) -> Result<bool, LogError> {
        let is_there = match (&memory.newest, memory.objects.last()) {
            (Some((begin, nonce)), _) => self.at(*begin).await?.is_some_and(|found| found.nonce == *nonce),
            (None, Some((begin, end))) => self.end_of(*begin).await? == Some(*end),
            (None, None) => true,
        };
        Ok(is_there && self.append(replay).await?)
    }

    /// `None` if an object was retired while it was read.
    async fn load(&self, next: u64) -> Result<Option<Memory>, LogError> {
        let mut memory = Memory { end: next, lane_next: next, ..Memory::default() };
        if let Some(newest) = self.numbers("replayed").await?.last() {
            let key = self.key("replayed", *newest);
            let Some(bytes) = self.store.get(&key, BYTES_MAX).await? else { return Ok(None) };
            let snapshot = Snapshot::from_bytes(*newest, &bytes).map_err(|why| broken(&key, why))?;
            memory.taken = snapshot.taken.clone();
            memory.end = memory.end.max(snapshot.end);
            memory.snapshot = Some(snapshot);
        }
        let known = memory.snapshot.as_ref().map_or(0, |snapshot| snapshot.end);
        for begin in self.begins().await? {
            if begin < known && begin.saturating_add(FATES_KEPT as u64) < known {
                let Some(end) = self.end_of(begin).await? else { return Ok(None) };
                memory.objects.push((begin, end));
                continue;
            }
            let Some(replay) = self.at(begin).await? else { return Ok(None) };
            match begin < known {
                true => memory.place_known(&replay),
                false => memory.add(&replay),
            }
        }
        Ok(Some(memory))
    }

    /// Takes the two steps as far as they can be taken now. Best effort: what is left over is deleted another time.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn retire(&self, memory: &Memory, lane: &Lane) -> Result<(), LogError> {
        if let Some(snapshot) = &memory.snapshot
            && is_settled(lane, &snapshot.marks)
        {
            // Another's snapshot may vanish with a loss of power, and what it replaces must not be gone then.
            self.harden("replayed").await?;
            let newest = memory.objects.last().map_or(0, |(begin, _)| *begin);
            for (begin, _) in memory.objects.iter().filter(|(_, end)| *end <= snapshot.end.min(newest)) {
                self.store.delete(&self.key("replays", *begin)).await?;
            }
            for older in self.numbers("replayed").await?.into_iter().filter(|end| *end < snapshot.end) {
                self.store.delete(&self.key("replayed", older)).await?;
            }
        }
        let Some(end) = worth_a_snapshot(memory, lane) else { return Ok(()) };
        let marks = lane.tables.iter();
        let marks = marks.map(|t| Mark { table: t.name.clone(), next_ordinal: t.next_ordinal }).collect();
        let bytes = Snapshot { taken: memory.taken.clone(), end, marks }.to_bytes();
        if bytes.len() as u64 > BYTES_MAX {
            // The objects stay, and still show what they took; nothing is forgotten.
            tracing::warn!(
                letters = memory.taken.count(),
                "too many replayed letters for one snapshot; replays are kept"
            );
            return Ok(());
        }
        match self.store.put_if_absent(&self.key("replayed", end), vec![bytes.into()]).await? {
            // Another's, of the same objects.
            Put::Created | Put::Exists => Ok(()),
        }
    }
}

/// The end of the log if the lane has sealed all of it, and enough objects have gathered since the last snapshot.
fn worth_a_snapshot(memory: &Memory, lane: &Lane) -> Option<u64> {
    let known = memory.snapshot.as_ref().map_or(0, |snapshot| snapshot.end);
    let new = memory.objects.iter().filter(|(begin, _)| *begin >= known).count();
    let sealed = stands_at(lane).unwrap_or(0);
    (new >= OBJECTS_PER_SNAPSHOT && sealed >= memory.end.into()).then_some(memory.end)
}

/// True if every frame below the marks is settled; a table that the lane no longer names has none.
fn is_settled(lane: &Lane, marks: &[Mark]) -> bool {
    marks.iter().all(|mark| match lane.table(&mark.table) {
        Some(at) => lane.tables[at].frontier >= mark.next_ordinal,
        None => true,
    })
}

#[cfg(test)]
mod tests;
