//! A bit for each group.
//!
//! Owns the words that hold the bits, and their bytes in the state. Does not own what a bit means: its accumulator does.

use dataflow::StateError;

use crate::window::encoding::Reader;
use crate::window::values::grow_to;

/// The bits, in order of the groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub fn grow(&mut self, len: usize) {
        self.len = len;
        grow_to(&mut self.words, len.div_ceil(64), 0);
    }

    #[inline]
    pub fn get(&self, at: usize) -> bool {
        self.words[at / 64] & (1 << (at % 64)) != 0
    }

    /// Sets it; whether it was set before.
    #[inline]
    pub fn set(&mut self, at: usize) -> bool {
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Eight to a byte, the first group the lowest bit.
    pub fn write(&self, to: &mut Vec<u8>) {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes());
        to.extend(bytes.take(self.len.div_ceil(8)));
    }

    pub fn read(&mut self, from: &mut Reader<'_>, len: usize) -> Result<(), StateError> {
        let bytes = from.take(len.div_ceil(8))?;
        self.grow(len);
        for (at, byte) in bytes.iter().enumerate() {
            self.words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        // Bits behind the last group would come true when groups are added.
        if !len.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << (len % 64)) - 1;
        }
        Ok(())
    }
}
