//! Reading Kafka's primitive types from bytes of a broker.
//!
//! Owns the bounds: no length is believed before that many bytes are seen to be there, so nothing is allocated for what a
//! broker merely claims. Does not own what the values mean.

/// The bytes end before the value does, or the value is none of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not what the protocol says")]
pub(super) struct Malformed;

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = tail;
        Ok(*head)
    }

    #[inline]
    pub(super) fn i8(&mut self) -> Result<i8, Malformed> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn uuid(&mut self) -> Result<[u8; 16], Malformed> {
        self.array()
    }

    /// An unsigned number in groups of seven bits, the lowest first; at most `u64::MAX`.
    #[inline]
    pub(super) fn unsigned(&mut self) -> Result<u64, Malformed> {
        // Most are one byte, steps from one record to the next, or two: the lengths of a record and of its body.
        match self.0 {
            [first, tail @ ..] if *first < 0x80 => {
                self.0 = tail;
                Ok(u64::from(*first))
            }
            [first, second, tail @ ..] if *second < 0x80 => {
                self.0 = tail;
                Ok(u64::from(first & 0x7f) | u64::from(*second) << 7)
            }
            _ => self.unsigned_long(),
        }
    }

    #[inline(never)]
    fn unsigned_long(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            if index == 9 && *byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A signed number: as [`unsigned`](Self::unsigned), the sign in the lowest bit.
    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Bytes behind their signed length; `None` for a length of -1.
    #[inline]
    pub(super) fn nullable(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.signed()? {
            -1 => Ok(None),
            count => self.take(usize::try_from(count).map_err(|_| Malformed)?).map(Some),
        }
    }

    /// Bytes behind their length plus one; `None` for 0.
    pub(super) fn compact(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.unsigned()? {
            0 => Ok(None),
            more => self.take(usize::try_from(more - 1).map_err(|_| Malformed)?).map(Some),
        }
    }

    /// The number of an array's entries, each of which takes at least `bytes_min` bytes; 0 for an absent array.
    pub(super) fn count(&mut self, bytes_min: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.unsigned()?.saturating_sub(1)).map_err(|_| Malformed)?;
        if count > self.0.len() / bytes_min {
            return Err(Malformed);
        }
        Ok(count)
    }

    /// Tagged fields; `each` sees the tag and the bytes of every one.
    pub(super) fn tagged(
        &mut self,
        mut each: impl FnMut(u64, Cursor<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        for _ in 0..self.unsigned()? {
            let tag = self.unsigned()?;
            let len = usize::try_from(self.unsigned()?).map_err(|_| Malformed)?;
            each(tag, Cursor(self.take(len)?))?;
        }
        Ok(())
    }

    /// Steps over tagged fields.
    pub(super) fn skip_tagged(&mut self) -> Result<(), Malformed> {
        self.tagged(|_, _| Ok(()))
    }
}

/// Appends an unsigned number as [`Cursor::unsigned`] reads it.
pub(super) fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
