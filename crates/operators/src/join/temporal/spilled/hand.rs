//! Versions that were read from files.
//!
//! Owns their columns, and for how long they stay. Does not own what is read when (`look`). After a seal they stay at hand for the next ones, up to
//! [`Sizes::hand_bytes`](super::Sizes::hand_bytes): what was read first goes first. So keys that many rows have are not read with each seal.
//!
//! What is at hand is no state: a start reads it again.

use std::collections::VecDeque;

use arrow_array::ArrayRef;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::look::Reading;
use crate::join::columns;
use crate::join::temporal::results::Place;

/// Columns that were read at one time.
struct Chunk {
    columns: Vec<ArrayRef>,
    bytes: usize,
    /// The keys of its rows.
    hashes: Vec<u128>,
}

/// A version at hand.
#[derive(Clone, Copy)]
struct AtHand {
    hash: u128,
    /// How many chunks were read before its own.
    chunk: u64,
    row: u32,
    is_deletion: bool,
}

/// The versions at hand.
#[derive(Default)]
pub(in crate::join::temporal) struct Hand {
    chunks: VecDeque<Chunk>,
    /// How many chunks are gone.
    gone: u64,
    versions: HashTable<AtHand>,
    bytes: usize,
    /// A reading under way, or done for the seal that comes next.
    pub(super) reading: Option<Reading>,
}

impl Hand {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.bytes + self.versions.allocation_size()) as u64
    }

    /// Whether the newest version of a key in files is at hand.
    pub fn has(&self, hash: u128) -> bool {
        self.versions.find(hash as u64, |version| version.hash == hash).is_some()
    }

    /// The version of a key; `None` if it is not there, or deletes the key.
    pub fn get(&self, hash: u128) -> Option<Place> {
        let version = self.versions.find(hash as u64, |version| version.hash == hash)?;
        let chunk = u32::try_from(version.chunk - self.gone).expect("chunks are few");
        (!version.is_deletion).then_some(Place { chunk, row: version.row })
    }

    /// The columns of all chunks.
    pub fn chunks(&self) -> Vec<&[ArrayRef]> {
        self.chunks.iter().map(|chunk| &chunk.columns[..]).collect()
    }

    /// A key has another version now.
    pub fn forget(&mut self, hash: u128) {
        if let Ok(found) = self.versions.find_entry(hash as u64, |version| version.hash == hash) {
            found.remove();
        }
    }

    /// Takes versions, each with whether it deletes its key, and their columns.
    pub fn take(&mut self, versions: &[(u128, bool)], columns: Vec<ArrayRef>) {
        let chunk = self.gone + self.chunks.len() as u64;
        for ((hash, is_deletion), row) in versions.iter().copied().zip(0..) {
            let version = AtHand { hash, chunk, row, is_deletion };
            let is_of = |other: &AtHand| other.hash == hash;
            match self.versions.entry(hash as u64, is_of, |other| other.hash as u64) {
                Entry::Occupied(found) => *found.into_mut() = version,
                Entry::Vacant(place) => _ = place.insert(version),
            }
        }
        let hashes: Vec<u128> = versions.iter().map(|(hash, _)| *hash).collect();
        let bytes = columns.iter().map(columns::memory_bytes).sum::<usize>() + hashes.capacity() * 16;
        self.bytes += bytes;
        self.chunks.push_back(Chunk { columns, bytes, hashes });
    }

    /// Ends the reading, and lets go what was read first, until so many bytes are left.
    pub fn tidy(&mut self, bytes_max: u64) {
        self.reading = None;
        while self.memory_bytes() > bytes_max
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.bytes -= chunk.bytes;
            for hash in chunk.hashes {
                let is_own = |version: &AtHand| version.hash == hash && version.chunk == self.gone;
                if let Ok(found) = self.versions.find_entry(hash as u64, is_own) {
                    found.remove();
                }
            }
            self.gone += 1;
            if self.versions.capacity() > 4 * self.versions.len().max(256) {
                self.versions.shrink_to(2 * self.versions.len(), |version| version.hash as u64);
            }
        }
    }
}
