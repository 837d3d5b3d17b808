//! From a hash to the number of an entry, with open addressing: four bytes an entry, at most three quarters full. The entries themselves, and what
//! makes two of them the same, are the caller's.
//!
//! Owns the places and their growth. Does not own hashing.

/// A place that stands for no entry.
const FREE: u32 = 0;

/// The places; a power of two of them, or none.
#[derive(Default)]
pub(super) struct Index {
    places: Vec<u32>,
    len: usize,
}

/// A place for a new entry of a hash that was not found.
pub(super) struct Free(usize);

impl Index {
    /// The entry of this hash that is the one wanted, or where it belongs.
    ///
    /// # Errors
    /// When there is none.
    #[inline]
    pub fn find(&mut self, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, Free> {
        if self.places.is_empty() {
            self.places.resize(16, FREE);
        }
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.places[at] {
                FREE => return Err(Free(at)),
                entry if is_it(entry as usize - 1) => return Ok(entry as usize - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Takes the next entry in, whose number is how many there were; `hash_of` says the hashes of all of them.
    pub fn insert(&mut self, free: Free, hash_of: impl Fn(usize) -> u64) {
        self.len += 1;
        self.places[free.0] = u32::try_from(self.len).expect("memory ends before numbers of 32 bits do");
        if self.len * 4 <= self.places.len() * 3 {
            return;
        }
        let len = self.places.len() * 2;
        self.places.clear();
        self.places.resize(len, FREE);
        for entry in 0..self.len {
            let mut at = hash_of(entry) as usize & (len - 1);
            while self.places[at] != FREE {
                at = (at + 1) & (len - 1);
            }
            self.places[at] = entry as u32 + 1;
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.places.capacity() * 4
    }
}
