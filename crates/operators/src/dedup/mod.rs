//! Drops records whose key was kept within a window of time.
//!
//! Owns the rule, the policy for late records, and the deltas that make the state durable. Does not own the watermark (the engine
//! moves it, and seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this
//! step).
//!
//! **The rule.** A record is a duplicate if and only if a kept record of its key lies in a bucket at most [`window::SPAN`] away
//! from its own. The first in the order processed is kept, whatever the times say. Duplicates do not extend the window. A record is
//! kept when it leaves [`finish`](Operator::finish), so what earlier steps filtered or rejected suppresses nothing, and what becomes a
//! dead letter later is [forgotten](KeyedState::forget).
//!
//! | a kept record of the key is near | all of the history it needs is kept | the record is     |
//! |----------------------------------|-------------------------------------|-------------------|
//! | yes                              | -                                   | a duplicate       |
//! | no                               | yes                                 | kept              |
//! | no                               | no: it is late                      | as [`Late`] says  |
//!
//! What is late depends on the watermark of the last seal alone, a fact of the journal; so a replay decides as the first run did.
//! The wall clock plays no part. A record without a time is taken to be at that watermark (before there is one, it is near only
//! to others without a time, and moves to the first watermark). With an unbounded window times play no part.
//!
//! | module   | what it owns                              |
//! |----------|-------------------------------------------|
//! | [`key`]  | key columns to 128-bit hashes             |
//! | [`window`] | times to buckets, near, late            |
//! | `kept`   | the set of (hash, bucket)                 |
//! | `table`  | one segment of its hash table             |
//! | `places` | small numbers for buckets                 |
//! | `copies` | the newest records that were dropped      |
//! | [`state`] | the bytes of deltas and snapshots        |
//!
//! The open buckets are in memory, 20 bytes a key and at most 27 % of free slots. Closed buckets in files come behind the same two phases:
//! `probe` will say what must be read of them, for they no longer change. What is in memory is looked at by `finish` alone: between
//! the two phases of a batch, the batch before it may add keys and a seal may take some away.

mod copies;
mod kept;
pub mod key;
mod places;
pub mod state;
mod table;
pub mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::BooleanArray;
use dataflow::{
    Batch, Copies, KeyedState, Operator, OperatorError, Output, Probed, Reason, Reject, Schema, StateError,
};

use crate::ConfigError;
use kept::{AHEAD, Kept, Offer};
use key::Keyer;
use state::{Group, Kind, Shape, Writer};
use table::Slot;
use window::{SLACK, UNPLACED, Window, floor};

const NAME: &str = "dedup";

/// Buffers of hashes kept for the next batches: as many as are between the phases at one time, in practice.
const SPARE_MAX: usize = 4;

/// Entries of the list for the next delta that are kept allocated in any case.
const ADDED_SPARE: usize = 16 * 1024;

/// The longest name of a key column in bytes: it is written into every delta.
const NAME_BYTES_MAX: usize = 1024;

/// What becomes of a record so late that a duplicate could not be told from a new record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is kept: no record is lost, and one may be there twice.
    #[default]
    Keep,
    /// It goes to the dead letters with [`Reason::Late`].
    DeadLetter,
    /// It is dropped and counted.
    Drop,
}

/// The step's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupConfig {
    /// The columns of the key, 1 to [`key::KEY_COLUMNS_MAX`]; their order matters to the state.
    pub key: Vec<String>,
    /// The window, [`window::WINDOW_MS_MIN`] to [`window::WINDOW_MS_MAX`]; `None` is unbounded.
    pub window: Option<Duration>,
    /// The policy for late records.
    pub late: Late,
}

/// The step.
pub struct Dedup {
    keyer: Keyer,
    window: Window,
    late: Late,
    shape: Shape,
    kept: Kept,
    /// The bucket of the last seal's watermark.
    watermark: Option<i64>,
    /// Added since the last seal.
    added: Vec<Slot>,
    /// Forgotten since the last seal.
    forgotten: BTreeMap<i64, Vec<u128>>,
    /// Buffers to use again.
    spare: Vec<Vec<u128>>,
    /// The buckets of the rows of the batch at hand.
    buckets: Vec<i64>,
    /// The newest duplicates, for those whose kept record is refused after all.
    dropped: copies::Newest,
}

/// What `probe` hands to `finish`.
struct Hashes(Vec<u128>);

/// What `finish` found out, beside the rows that go on.
#[derive(Default)]
struct Dropped {
    /// Row numbers, ascending: duplicates and late ones.
    rows: Vec<usize>,
    duplicates: u64,
    late: u64,
    rejects: Vec<Reject>,
}

impl Dedup {
    /// A step for batches of `schema`, with an empty history.
    ///
    /// # Errors
    /// When a key column is unknown, repeated or not a scalar, or the window is out of bounds.
    pub fn new(schema: &Schema, config: DedupConfig) -> Result<Self, ConfigError> {
        if let Some(name) = config.key.iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let message =
                format!("a column's name has `{}` bytes; at most {NAME_BYTES_MAX} are taken", name.len());
            return Err(ConfigError::Setting { setting: "dedup.key", message });
        }
        let keyer = Keyer::new(schema, &config.key)?;
        let window = Window::new(config.window)?;
        Ok(Self {
            shape: Shape::new(keyer.columns(), window),
            keyer,
            window,
            late: config.late,
            kept: Kept::new(),
            watermark: None,
            added: Vec::new(),
            forgotten: BTreeMap::new(),
            spare: Vec::new(),
            buckets: Vec::new(),
            dropped: copies::Newest::default(),
        })
    }

    /// Decides for each row, in order, and remembers those that go on.
    fn decide(&mut self, batch: &Batch, hashes: &[u128]) -> Dropped {
        let mut dropped = Dropped::default();
        let late_below = self.watermark.map_or(i64::MIN, |w| w.saturating_sub_unsigned(SLACK));
        self.buckets.clear();
        self.buckets.extend(batch.times_ms.iter().map(|time| self.window.place(*time, self.watermark)));
        let ahead = hashes.len().min(AHEAD);
        for (hash, bucket) in hashes[..ahead].iter().zip(&self.buckets) {
            self.kept.prefetch(*hash, *bucket);
        }
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(next) = hashes.get(row + AHEAD) {
                self.kept.prefetch(*next, self.buckets[row + AHEAD]);
            }
            let bucket = self.buckets[row];
            if bucket < late_below && self.late != Late::Keep && !self.kept.has_near(*hash, bucket) {
                self.drop_late(batch, row, &mut dropped);
                continue;
            }
            match self.kept.offer(*hash, bucket) {
                Offer::Added(slot) => self.added.push(slot),
                Offer::Near => {
                    dropped.duplicates += 1;
                    self.dropped.push(&batch.partition, *hash, bucket, batch.positions[row]);
                    dropped.rows.push(row);
                }
            }
        }
        dropped
    }

    #[cold]
    fn drop_late(&self, batch: &Batch, row: usize, dropped: &mut Dropped) {
        dropped.rows.push(row);
        if self.late == Late::Drop {
            dropped.late += 1;
            return;
        }
        let time_ms = batch.times_ms[row];
        dropped.rejects.push(Reject {
            partition: batch.partition.clone(),
            position: batch.positions[row],
            time_ms,
            reason: Reason::Late,
            column: String::new(),
            message: format!(
                "its time `{time_ms}` (unix milliseconds) is more than {SLACK}/{} of the window behind the others, so that a \
                 duplicate could not be told from a new record",
                window::SPAN
            ),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        });
    }

    /// Writes the delta of the seal under way.
    fn delta(&mut self, watermark: Option<i64>) -> Vec<u8> {
        let floor = watermark.map_or(i64::MIN, floor);
        if !self.forgotten.is_empty() {
            // What was added and then forgotten is not written. A pair that was added once more is written twice, which
            // adds it once.
            let kept = &self.kept;
            self.added
                .retain(|slot| kept.pair(slot).is_some_and(|(hash, bucket)| kept.contains(hash, bucket)));
        }
        let mut counts = vec![0_usize; self.kept.places()];
        self.added.iter().for_each(|slot| counts[slot.place as usize] += 1);
        // What this very seal expires need not be written.
        let groups: Vec<(i64, u32)> = self
            .kept
            .buckets()
            .filter(|(bucket, place, _)| {
                counts[*place as usize] > 0 && (*bucket >= floor || *bucket == UNPLACED)
            })
            .map(|(bucket, place, _)| (bucket, place))
            .collect();
        if groups.is_empty() && self.forgotten.is_empty() && watermark == self.watermark {
            return Vec::new();
        }
        let forgotten = self.forgotten.values().map(Vec::len).sum::<usize>();
        let mut to = Writer::new(Kind::Delta, &self.shape, watermark, self.added.len() + forgotten);
        to.groups(self.forgotten.len());
        for (bucket, hashes) in &self.forgotten {
            let mut end = to.group(*bucket, hashes.len());
            hashes.iter().for_each(|hash| to.put(&mut end, *hash));
        }
        let sized = groups.into_iter().map(|(bucket, place)| (bucket, place, counts[place as usize]));
        write_groups(&mut to, &self.kept, sized.collect(), self.added.iter());
        to.finish()
    }

    /// Moves the watermark and frees what that makes useless. The same when sealing and when a delta is applied.
    fn advance(&mut self, watermark: Option<i64>) {
        if let (None, Some(first)) = (self.watermark, watermark) {
            self.kept.move_bucket(UNPLACED, first);
        }
        self.watermark = watermark;
        self.kept.expire(watermark.map(floor));
    }

    fn hashes(&mut self, batch: &Batch) -> Result<Vec<u128>, OperatorError> {
        let mut hashes = self.spare.pop().unwrap_or_default();
        self.keyer.hash(&batch.rows, &mut hashes).map_err(|e| failed(e.to_string()))?;
        if hashes.len() != batch.len() || batch.times_ms.len() != batch.len() {
            return Err(failed(format!(
                "a batch of `{}` rows has `{}` positions and `{}` times",
                hashes.len(),
                batch.len(),
                batch.times_ms.len()
            )));
        }
        Ok(hashes)
    }

    fn give_back(&mut self, hashes: Vec<u128>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(hashes);
        }
    }
}

/// Writes one group for each (bucket, place, number of slots), and into them those of `slots` that name such a place.
fn write_groups<'a>(
    to: &mut Writer,
    kept: &Kept,
    groups: Vec<(i64, u32, usize)>,
    slots: impl Iterator<Item = &'a Slot>,
) {
    let mut ends: Vec<Option<state::GroupEnd>> = (0..kept.places()).map(|_| None).collect();
    to.groups(groups.len());
    for (bucket, place, count) in groups {
        ends[place as usize] = Some(to.group(bucket, count));
    }
    for slot in slots {
        if let (Some(end), Some((hash, _))) = (&mut ends[slot.place as usize], kept.pair(slot)) {
            to.put(end, hash);
        }
    }
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

impl Operator for Dedup {
    fn name(&self) -> &str {
        NAME
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        let hashes = Hashes(self.hashes(&batch)?);
        Ok(Probed { batch, reads: Vec::new(), scratch: Some(Box::new(hashes)) })
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let Probed { batch, reads, scratch } = probed;
        let scratch = scratch.and_then(|s| s.downcast::<Hashes>().ok());
        let Some(hashes) = scratch.map(|s| s.0).filter(|h| h.len() == batch.len()) else {
            return Err(failed("a batch came to `finish` that `probe` of this step has not seen".to_owned()));
        };
        if !reads.is_empty() || !answers.is_empty() {
            return Err(failed(format!("`{}` answers came, none was asked for", answers.len())));
        }
        let dropped = self.decide(&batch, &hashes);
        self.give_back(hashes);
        let batch = if dropped.rows.is_empty() {
            batch
        } else {
            let mut keep = vec![true; batch.len()];
            dropped.rows.iter().for_each(|row| keep[*row] = false);
            batch.filter(&BooleanArray::from(keep)).map_err(|e| failed(e.to_string()))?
        };
        let Dropped { duplicates, late, rejects, .. } = dropped;
        Ok(Output { batch, filtered: 0, duplicates, late, rejects })
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

impl KeyedState for Dedup {
    fn seal(&mut self, watermark_ms: i64) -> Vec<u8> {
        // A watermark that goes back is held: what it freed is gone.
        let watermark = self.watermark.max(self.window.watermark(watermark_ms));
        let delta = self.delta(watermark);
        // What an exceptional seal needed is given back; the usual one allocates nothing.
        self.added.shrink_to(self.added.len().max(ADDED_SPARE) * 2);
        self.added.clear();
        self.forgotten.clear();
        self.advance(watermark);
        delta
    }

    /// As of the last seal: so it must be called right after one, before the next batch is finished.
    ///
    /// # Panics
    /// When something changed since the last seal.
    fn snapshot(&self) -> Vec<u8> {
        assert!(
            self.added.is_empty() && self.forgotten.is_empty(),
            "a snapshot is taken right after a seal: it must hold no key that the journal does not"
        );
        let keys = usize::try_from(self.kept.len()).expect("keys in memory");
        let mut to = Writer::new(Kind::Snapshot, &self.shape, self.watermark, keys);
        to.groups(0);
        let groups = self.kept.buckets().filter(|(_, _, slots)| *slots > 0);
        let groups = groups.map(|(bucket, place, slots)| (bucket, place, slots as usize)).collect();
        write_groups(&mut to, &self.kept, groups, self.kept.iter());
        to.finish()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), StateError> {
        let parsed = state::parse(snapshot, Kind::Snapshot, &self.shape)?;
        self.kept = Kept::new();
        self.added.clear();
        self.forgotten.clear();
        self.watermark = parsed.watermark;
        add_all(&mut self.kept, &parsed.added);
        Ok(())
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let parsed = state::parse(delta, Kind::Delta, &self.shape)?;
        for group in &parsed.forgotten {
            group.hashes().for_each(|hash| {
                self.kept.remove(hash, group.bucket);
            });
        }
        add_all(&mut self.kept, &parsed.added);
        self.advance(self.watermark.max(parsed.watermark));
        Ok(())
    }

    /// Takes the time of a row as [`finish`](Operator::finish) did. Of a row without a time, the latest record of its key at or
    /// before the watermark is forgotten: it was put at a watermark, and those only grow.
    fn forget(&mut self, rows: &Batch) -> Result<(), OperatorError> {
        let hashes = self.hashes(rows)?;
        for (hash, time_ms) in hashes.iter().zip(&rows.times_ms) {
            let mut bucket = self.window.place(*time_ms, self.watermark);
            if *time_ms == dataflow::block::TIME_UNKNOWN_MS {
                // A row that the server refused comes back without the time of its record, which is rather ahead of the
                // last seal's watermark than behind it.
                bucket = self.kept.latest_until(*hash, i64::MAX).unwrap_or(bucket);
            }
            if self.kept.remove(*hash, bucket) {
                self.forgotten.entry(bucket).or_default().push(*hash);
            }
        }
        self.give_back(hashes);
        Ok(())
    }

    fn copies_of(&mut self, rows: &Batch) -> Result<Copies, OperatorError> {
        let hashes = self.hashes(rows)?;
        let mut copies = Copies::default();
        for (hash, time_ms) in hashes.iter().zip(&rows.times_ms) {
            let bucket = self.window.place(*time_ms, self.watermark);
            self.dropped.take(*hash, bucket, &mut copies);
        }
        self.give_back(hashes);
        Ok(copies)
    }

    fn keys(&self) -> u64 {
        self.kept.len()
    }

    fn memory_bytes(&self) -> u64 {
        let waiting = self.added.capacity() * size_of::<Slot>()
            + self.forgotten.values().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
            + self.spare.iter().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
            + self.buckets.capacity() * size_of::<i64>()
            + self.dropped.memory_bytes();
        (self.kept.memory_bytes() + waiting) as u64
    }
}

fn add_all(kept: &mut Kept, groups: &[Group<'_>]) {
    for group in groups {
        for hash in group.hashes() {
            kept.add(hash, group.bucket);
        }
    }
}

#[cfg(test)]
mod tests;
