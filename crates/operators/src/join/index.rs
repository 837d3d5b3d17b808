//! From a key to its rows: one entry for each key, with the newest row of each side, from which a chain leads to the older ones.
//!
//! Owns the entries and the chains; one search finds the rows to match and the place of the new row. Does not own the rows (`side`).

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use super::arena::{Arena, NONE, Row, UNLINKED};
use super::plan::JoinSide;
use super::side::Side;

/// A table is made smaller when it has room for this many times its keys.
const ROOM_MAX: usize = 8;

struct Entry {
    /// The low half of the key's hash; the rows have all of it.
    hash: u64,
    /// The newest row of each side, or `NONE`.
    newest: [u32; 2],
}

/// The entries of the keys of both sides.
#[derive(Default)]
pub(super) struct Index(HashTable<Entry>);

impl Entry {
    /// Whether it is the entry of this key.
    #[inline]
    fn is_of(&self, sides: [&Arena; 2], hash: u128) -> bool {
        let [left, right] = self.newest;
        self.hash == hash as u64
            && if left == NONE { sides[1].get(right).hash == hash } else { sides[0].get(left).hash == hash }
    }
}

impl Index {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.allocation_size()
    }

    /// Looks the entries of these keys up and a row of each, for nothing but to have them in the processor's cache.
    pub fn warm(&self, sides: [&Arena; 2], hashes: impl Iterator<Item = u128>) {
        let mut seen = 0;
        for low in hashes.map(|hash| hash as u64) {
            if let Some(entry) = self.0.find(low, |entry| entry.hash == low) {
                let [left, right] = entry.newest;
                seen ^= if left == NONE { sides[1].get(right) } else { sides[0].get(left) }.time_ms;
            }
        }
        std::hint::black_box(seen);
    }

    /// The rows of the other side with this key, the newest first; and `id`, the next row of `side`, becomes the newest of its own side. Returns the newest
    /// row of the other side, and the one of its own side that was the newest, each `NONE` if there is none.
    #[inline]
    pub fn link(&mut self, sides: [&Arena; 2], side: JoinSide, hash: u128, id: u32) -> (u32, u32) {
        let place = self.0.entry(hash as u64, |entry| entry.is_of(sides, hash), |entry| entry.hash);
        let entry = match place {
            Place::Occupied(found) => found.into_mut(),
            Place::Vacant(free) => free.insert(Entry { hash: hash as u64, newest: [NONE; 2] }).into_mut(),
        };
        let other = entry.newest[side.other() as usize];
        (other, std::mem::replace(&mut entry.newest[side as usize], id))
    }

    /// Takes a row out of its chain, and the entry of its key with the last one.
    pub fn unlink(&mut self, sides: &mut [Side; 2], side: JoinSide, id: u32) {
        let Row { hash, older, newer, .. } = *sides[side as usize].arena.get(id);
        if newer == UNLINKED {
            return;
        }
        if newer == NONE {
            // A row is in one entry only, so its number identifies the entry.
            let Ok(mut found) = self.0.find_entry(hash as u64, |entry| entry.newest[side as usize] == id)
            else {
                unreachable!("the newest row of a key is in the key's entry");
            };
            found.get_mut().newest[side as usize] = older;
            if found.get().newest == [NONE; 2] {
                found.remove();
            }
        } else {
            sides[side as usize].arena.get_mut(newer).older = older;
        }
        if older != NONE {
            sides[side as usize].arena.get_mut(older).newer = newer;
        }
    }

    /// Forgets the rows of one side, so that others can be linked in their place.
    pub fn forget(&mut self, side: JoinSide) {
        self.0.retain(|entry| {
            entry.newest[side as usize] = NONE;
            entry.newest != [NONE; 2]
        });
    }

    /// Gives memory back that many keys needed and few do not.
    pub fn shrink(&mut self) {
        if self.0.capacity() > ROOM_MAX * self.0.len().max(1_024) {
            self.0.shrink_to(2 * self.0.len(), |entry| entry.hash);
        }
    }
}
