//! Numbers and lengths in the bytes of a window's state: written one after the other, and read with every length checked before anything is
//! allocated for it.
//!
//! Owns the form of single values. Does not own which of them a state consists of.

use dataflow::StateError;

use super::values::Store;

/// Writes a length of 32 bits.
pub(super) fn put_len(to: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("memory ends before lengths of 32 bits do");
    to.extend_from_slice(&len.to_le_bytes());
}

/// Writes numbers, each as its little-endian bytes.
pub(super) fn put_each<T: Copy, const N: usize>(
    to: &mut Vec<u8>,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) {
    to.reserve(values.len() * N);
    values.iter().for_each(|value| to.extend_from_slice(&bytes(*value)));
}

/// Writes the values of a column.
pub(super) fn put_store(to: &mut Vec<u8>, store: &Store) {
    match store {
        Store::Int(values) => put_each(to, values, i64::to_le_bytes),
        Store::UInt(values) => put_each(to, values, u64::to_le_bytes),
        Store::Float(values) => put_each(to, values, f64::to_le_bytes),
        Store::Wide(values) => put_each(to, values, i128::to_le_bytes),
        Store::Bytes(values) => {
            for value in values {
                put_len(to, value.len());
                to.extend_from_slice(value);
            }
        }
    }
}

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| damaged("ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// As many as an array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("taken with that length"))
    }

    /// A length of 32 bits.
    pub fn len(&mut self) -> Result<usize, StateError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// So many numbers: their bytes are there before there is memory for them.
    pub fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        number: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, StateError> {
        let bytes = self.take(count.saturating_mul(N))?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect())
    }

    /// So many values of a column.
    pub fn store(&mut self, store: &mut Store, len: usize) -> Result<(), StateError> {
        match store {
            Store::Int(values) => *values = self.numbers(len, i64::from_le_bytes)?,
            Store::UInt(values) => *values = self.numbers(len, u64::from_le_bytes)?,
            Store::Float(values) => *values = self.numbers(len, f64::from_le_bytes)?,
            Store::Wide(values) => *values = self.numbers(len, i128::from_le_bytes)?,
            Store::Bytes(values) => {
                for _ in 0..len {
                    let len = self.len()?;
                    values.push(self.take(len)?.into());
                }
            }
        }
        Ok(())
    }
}

/// Why the bytes are no state of a window.
pub(super) fn damaged(what: &str) -> StateError {
    StateError::Damaged(format!("the state of a window {what}"))
}
