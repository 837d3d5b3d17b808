//! What stood between two values the last time: the comma, the next key, the colon and the space around them.
//!
//! Owns the guess that the next record is written like those before it, so that one comparison steps over all that. Does not
//! own the grammar: bytes are learnt only after they were read by it in the same state of the walk, and the same bytes in the
//! same state mean the same. A guess that is wrong costs the comparison.

use super::scan::Cursor;

/// Bytes between two values that are remembered at the most: the key of most tables, with its quotes and the space around.
const BYTES_MAX: usize = 64;
/// Bytes that are compared in one step.
const WORD: usize = 16;

/// The bytes behind one state of a walk, and the key in them.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    bytes: [u8; BYTES_MAX],
    /// How many of them count.
    length: usize,
    /// Which bits of the first [`WORD`] bytes count.
    mask: u128,
    /// What they lead to.
    leads: Leads,
}

/// What the bytes between two values lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leads {
    /// The walk's next state: one more than the key's place in its object.
    pub state: usize,
    /// The column that the key's value fills, if it fills no other and nothing else fills that one; else [`SEVERAL`].
    pub column: usize,
}

/// Stands for "not one column alone".
pub(super) const SEVERAL: usize = usize::MAX;

impl Joint {
    /// Nothing is known yet: no text has these bytes, and records are text.
    pub const UNKNOWN: Self = Self {
        bytes: [0xff; BYTES_MAX],
        length: WORD,
        mask: u128::MAX,
        leads: Leads { state: 0, column: SEVERAL },
    };

    /// Remembers `bytes`, and what they led to.
    pub fn learn(&mut self, bytes: &[u8], leads: Leads) {
        *self = Self::UNKNOWN;
        if let Some(own) = self.bytes.get_mut(..bytes.len()) {
            own.copy_from_slice(bytes);
            (self.length, self.leads) = (bytes.len(), leads);
            self.mask = u128::MAX >> (8 * (WORD - bytes.len().min(WORD)));
        }
    }

    /// If the bytes at the cursor are those that were learnt: steps over them, and says what they lead to.
    #[inline]
    pub fn pass(&self, cursor: &mut Cursor<'_>) -> Option<Leads> {
        let head = u128::from_le_bytes(*cursor.ahead::<WORD>()?);
        let own = u128::from_le_bytes(*self.bytes.first_chunk::<WORD>()?);
        if (head ^ own) & self.mask != 0 {
            return None;
        }
        if self.length > WORD && !cursor.rest().starts_with(&self.bytes[..self.length]) {
            return None;
        }
        cursor.advance(self.length);
        Some(self.leads)
    }
}

#[cfg(test)]
mod tests;
