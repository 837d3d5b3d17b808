//! What was found for keys, as long as it may be used: the keys that were used last, within a bound of bytes.
//!
//! Owns which keys leave it: the one that was used longest ago goes first. Does not own how old an answer may be, which whoever asks says, nor what a line means.
//!
//! A key of which the other side has no row is remembered like any other: it takes the same place, but for the line.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use super::age::Moment;

/// The row of a key, as it was answered; `None` for a key without a row.
pub type Line = Option<Arc<[u8]>>;

/// Bytes of memory that a key takes beside its line: its slot, its place in the index, and what the line's allocation has before and behind it.
pub const KEY_BYTES: u64 = 112;

/// Stands for no slot.
const NONE: u32 = u32::MAX;

struct Slot {
    key: u128,
    line: Line,
    /// When it was asked for.
    asked_at: Moment,
    /// The slots that were used next after it and next before it.
    newer: u32,
    older: u32,
}

/// The lines by their keys.
pub struct Cache {
    bytes_max: u64,
    bytes: u64,
    index: HashTable<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Cache {
    /// An empty one of at most `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        let (index, slots, free) = (HashTable::new(), Vec::new(), Vec::new());
        Self { bytes_max, bytes: 0, index, slots, free, newest: NONE, oldest: NONE }
    }

    /// Keys in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The line of a key that is no older than `age_max` at `now`, which is thereby used; `None` if nothing of that age is known.
    pub fn get(&mut self, key: u128, now: Moment, age_max: Duration) -> Option<Line> {
        let at = self.find(key).filter(|at| self.slots[*at as usize].asked_at.age(now) <= age_max)?;
        self.unlink(at);
        self.link(at);
        Some(self.slots[at as usize].line.clone())
    }

    /// Remembers what was answered to a question of `asked_at`, unless a later answer is known.
    pub fn put(&mut self, key: u128, line: Line, asked_at: Moment) {
        if let Some(at) = self.find(key) {
            if self.slots[at as usize].asked_at.elapsed > asked_at.elapsed {
                return;
            }
            self.remove(at);
        }
        self.bytes += bytes_of(&line);
        let slot = Slot { key, line, asked_at, newer: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(key as u64, at, |at| slots[*at as usize].key as u64);
        self.link(at);
        while self.bytes > self.bytes_max && self.oldest != NONE {
            self.remove(self.oldest);
        }
    }

    fn find(&self, key: u128) -> Option<u32> {
        self.index.find(key as u64, |at| self.slots[*at as usize].key == key).copied()
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let Slot { key, line, .. } = &mut self.slots[at as usize];
        let (key, line) = (*key, line.take());
        self.bytes -= bytes_of(&line);
        if let Ok(entry) = self.index.find_entry(key as u64, |found| *found == at) {
            entry.remove();
        }
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    /// Makes a slot, which is in no list, the one that was used last.
    fn link(&mut self, at: u32) {
        let before = self.newest;
        (self.slots[at as usize].newer, self.slots[at as usize].older) = (NONE, before);
        match before {
            NONE => self.oldest = at,
            before => self.slots[before as usize].newer = at,
        }
        self.newest = at;
    }
}

fn bytes_of(line: &Line) -> u64 {
    KEY_BYTES + line.as_ref().map_or(0, |line| line.len() as u64)
}

#[cfg(test)]
mod tests;
