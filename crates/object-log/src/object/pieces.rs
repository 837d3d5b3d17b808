//! The bytes of an object while it is made, as pieces that are put one behind the other.
//!
//! Owns which bytes are copied: small ones. What came compressed is most of a large object and stays where it is, so that it is not in memory twice while the
//! object is on its way. Does not own what the bytes say ([`super`]).

use bytes::Bytes;

/// From so many bytes on a piece stays where it is: below, a copy costs less than one piece more in a request.
const WHOLE_BYTES_MIN: usize = 64 << 10;

/// See the module.
#[derive(Default)]
pub(super) struct Pieces {
    done: Vec<Bytes>,
    /// What is written behind those.
    last: Vec<u8>,
}

impl Pieces {
    /// Copies bytes behind all others.
    pub fn write(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
    }

    /// Puts bytes behind all others, as they are if they are many.
    pub fn put(&mut self, bytes: &Bytes) {
        match bytes.len() < WHOLE_BYTES_MIN {
            true => self.write(bytes),
            false => {
                self.end();
                self.done.push(bytes.clone());
            }
        }
    }

    /// Puts all pieces of others behind all others.
    pub fn append(&mut self, mut others: Self) {
        others.end();
        others.done.iter().for_each(|piece| self.put(piece));
    }

    /// Bytes of all of them.
    pub fn len(&self) -> usize {
        self.last.len() + self.done.iter().map(Bytes::len).sum::<usize>()
    }

    /// All of them.
    pub fn into_bytes(mut self) -> Vec<Bytes> {
        self.end();
        self.done
    }

    fn end(&mut self) {
        if !self.last.is_empty() {
            // Shrunk to its length, because it is held until the upload ends.
            self.done.push(Bytes::from(std::mem::take(&mut self.last).into_boxed_slice()));
        }
    }
}
