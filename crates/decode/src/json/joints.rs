//! What stood between two values the last time: the comma, the next key, the colon and the space around them.
//!
//! Owns the guess that the next record is written like those before it, so that one comparison steps over all that. Does not
//! own the grammar: bytes are learnt only after they were read by it in the same state of the walk, and the same bytes in the
//! same state mean the same. A guess that is wrong costs the comparison.

/// Bytes between two values that are remembered at the most: the key of most tables, with its quotes and the space around.
const BYTES_MAX: usize = 64;
/// Bytes that are compared in one step.
const WORD: usize = 16;

/// The bytes behind one state of a walk, and the key in them.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    bytes: [u8; BYTES_MAX],
    /// How many of them count; 0 if nothing was learnt.
    length: usize,
    /// Which bits of the first [`WORD`] bytes count.
    mask: u128,
    /// The key's place in its object.
    place: usize,
}

impl Joint {
    /// Nothing is known yet.
    pub const UNKNOWN: Self = Self { bytes: [0; BYTES_MAX], length: 0, mask: 0, place: 0 };

    /// Remembers `bytes`, which led to the value of the key at `place`.
    pub fn learn(&mut self, bytes: &[u8], place: usize) {
        *self = Self::UNKNOWN;
        if let Some(own) = self.bytes.get_mut(..bytes.len()) {
            own.copy_from_slice(bytes);
            (self.length, self.place) = (bytes.len(), place);
            self.mask = u128::MAX >> (8 * (WORD - bytes.len().min(WORD)));
        }
    }

    /// If `rest` begins with the bytes that were learnt: how many they are, and the key's place.
    #[inline]
    pub fn begins(&self, rest: &[u8]) -> Option<(usize, usize)> {
        let head = u128::from_le_bytes(*rest.first_chunk::<WORD>()?);
        let own = u128::from_le_bytes(*self.bytes.first_chunk::<WORD>()?);
        if (head ^ own) & self.mask != 0 || self.length == 0 {
            return None;
        }
        if self.length > WORD && !rest.starts_with(&self.bytes[..self.length]) {
            return None;
        }
        Some((self.length, self.place))
    }
}

#[cfg(test)]
mod tests;
