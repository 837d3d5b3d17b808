//! A place in a record's bytes.
//!
//! Owns Avro's binary encoding of single values, and the rule that nothing is believed about bytes that are not there: a length is compared
//! with what is left of the record before anything is done with it. Does not own the order of the values (`avro::plan`), nor what a column
//! makes of one (`columns::typed`).
//!
//! Eight bytes are read together where the block has them, beyond the record's end too; what was read is then checked against that end.

use crate::fault::{Fault, Step};
use crate::varint::{CONTINUES, sevens, unzigzag};

/// Steps over the bytes of one record.
pub(super) struct Cursor<'a> {
    /// Those of the whole block.
    bytes: &'a [u8],
    start: usize,
    end: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of the record that is `block[start..end]`.
    #[inline(always)]
    pub fn new(block: &'a [u8], start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= block.len());
        Self { bytes: block, start, end, at: start }
    }

    /// The number of the next byte in the record, from 0.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.at - self.start
    }

    /// Bytes of the record that are left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        // `at` never passes `end`.
        self.end.wrapping_sub(self.at)
    }

    /// Goes back to where [`position`](Self::position) was `position`.
    pub fn rewind(&mut self, position: usize) {
        self.at = self.start + position;
    }

    /// A fault of the bytes from here on.
    #[cold]
    pub fn fault(&self, rule: impl Into<std::borrow::Cow<'static, str>>) -> Box<Fault> {
        Fault::bytes(self.position(), rule)
    }

    #[cold]
    fn short(&self, what: &'static str, wanted: u64) -> Box<Fault> {
        self.fault(format!("{what} of `{wanted}` bytes does not fit the `{}` that are left", self.left()))
    }

    /// A number of up to 64 bits, in zigzag form.
    #[inline(always)]
    pub fn long(&mut self) -> Step<i64> {
        if let Some(word) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            if word & 0x80 == 0 {
                if self.at < self.end {
                    self.at += 1;
                    return Ok(unzigzag(word & 0x7f));
                }
                return Err(self.open());
            }
            let ends = !word & CONTINUES;
            if ends != 0 {
                // 1 to 8: an end is the highest bit of a byte.
                let used = (ends.trailing_zeros() as usize >> 3).wrapping_add(1);
                if used <= self.left() {
                    self.at += used;
                    return Ok(unzigzag(sevens(word, ends)));
                }
                return Err(self.open());
            }
        }
        self.long_by_bytes()
    }

    /// The same near the block's end, and for numbers of nine or ten bytes.
    #[inline(never)]
    fn long_by_bytes(&mut self) -> Step<i64> {
        let mut value = 0u64;
        for (n, byte) in self.bytes[self.at..self.end].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * n);
            if n == 9 && *byte > 1 {
                return Err(self.fault("the number has more than 64 bits"));
            }
            if byte & 0x80 == 0 {
                self.at += n + 1;
                return Ok(unzigzag(value));
            }
        }
        Err(self.open())
    }

    #[cold]
    fn open(&self) -> Box<Fault> {
        if self.left() == 0 {
            return self.fault("the record ends before its last field");
        }
        self.fault("the number does not end within the record")
    }

    /// A number of up to 32 bits, in zigzag form.
    #[inline(always)]
    pub fn int(&mut self) -> Step<i32> {
        let at = self.position();
        let value = self.long()?;
        i32::try_from(value)
            .map_err(|_| Fault::bytes(at, format!("the number `{value}` is beyond the 32 bits of an int")))
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub fn fixed<const N: usize>(&mut self, what: &'static str) -> Step<&'a [u8; N]> {
        match self.bytes[self.at..self.end].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(bytes)
            }
            None => Err(self.short(what, N as u64)),
        }
    }

    /// Steps over the next `count` bytes.
    #[inline(always)]
    pub fn pass(&mut self, count: usize) -> Step<()> {
        if count > self.left() {
            return Err(self.short("a value", count as u64));
        }
        self.at += count;
        Ok(())
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, what: &'static str, count: usize) -> Step<&'a [u8]> {
        match self.bytes[self.at..self.end].get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.short(what, count as u64)),
        }
    }

    /// A float of 32 bits.
    #[inline(always)]
    pub fn float(&mut self) -> Step<f32> {
        Ok(f32::from_le_bytes(*self.fixed("a float")?))
    }

    /// A float of 64 bits.
    #[inline(always)]
    pub fn double(&mut self) -> Step<f64> {
        Ok(f64::from_le_bytes(*self.fixed("a double")?))
    }

    /// A boolean, which is one byte.
    #[inline]
    pub fn boolean(&mut self) -> Step<bool> {
        match self.fixed::<1>("a boolean")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                Err(Fault::bytes(self.position() - 1, format!("a boolean is 0 or 1, not `0x{other:02x}`")))
            }
        }
    }

    /// Bytes behind their length.
    #[inline]
    pub fn sized(&mut self, what: &'static str) -> Step<&'a [u8]> {
        let at = self.position();
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(count) if count <= self.left() => self.take(what, count),
            Ok(_) => Err(Fault::bytes(
                at,
                format!("{what} of `{length}` bytes does not fit the `{}` that are left", self.left()),
            )),
            Err(_) => Err(Fault::bytes(at, format!("{what} cannot have `{length}` bytes"))),
        }
    }

    /// Text behind its length.
    #[inline]
    pub fn text(&mut self) -> Step<&'a str> {
        let bytes = self.sized("a string")?;
        std::str::from_utf8(bytes).map_err(|error| {
            let at = self.position() - bytes.len() + error.valid_up_to();
            let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
            Fault::bytes(at, format!("byte `0x{byte:02x}` of a string is not UTF-8"))
        })
    }

    /// The place of a branch or symbol among `count`.
    #[inline]
    pub fn index(&mut self, what: &'static str, count: usize) -> Step<usize> {
        let at = self.position();
        let index = self.long()?;
        usize::try_from(index).ok().filter(|index| *index < count).ok_or_else(|| {
            Fault::bytes(at, format!("{what} number `{index}` is not one of the schema's `{count}`"))
        })
    }

    /// The head of a block of items or entries: how many, and how many bytes they have if that is written. `None` ends the whole.
    ///
    /// `items_have_bytes` says that each has at least one, so that no more are believed than bytes are left.
    #[inline]
    pub fn block(&mut self, items_have_bytes: bool) -> Step<Option<Block>> {
        let at = self.position();
        let written = self.long()?;
        if written == 0 {
            return Ok(None);
        }
        let bytes = match written < 0 {
            false => None,
            true => {
                let at = self.position();
                let bytes = self.long()?;
                let fitting = usize::try_from(bytes).ok().filter(|bytes| *bytes <= self.left());
                Some(fitting.ok_or_else(|| {
                    let left = self.left();
                    Fault::bytes(
                        at,
                        format!("a block of `{bytes}` bytes does not fit the `{left}` that are left"),
                    )
                })?)
            }
        };
        let count = written.unsigned_abs();
        if items_have_bytes && count > self.left() as u64 {
            let left = self.left();
            let rule = format!("a block of `{count}` items does not fit the `{left}` bytes that are left");
            return Err(Fault::bytes(at, rule));
        }
        Ok(Some(Block { count, bytes, start: self.position() }))
    }

    /// Checks that a block has ended where its head says.
    pub fn end_block(&self, block: &Block) -> Step<()> {
        match block.bytes {
            Some(bytes) if self.position() - block.start != bytes => {
                let found = self.position() - block.start;
                Err(self.fault(format!("a block of `{bytes}` bytes has `{found}`")))
            }
            _ => Ok(()),
        }
    }
}

/// Some items of an array, or entries of a map.
pub(super) struct Block {
    /// How many.
    pub count: u64,
    /// Their bytes, if written; no more than are left.
    pub bytes: Option<usize>,
    start: usize,
}

#[cfg(test)]
mod tests;
