//! A place in a message's bytes.
//!
//! Owns the encoding of keys and single values, and the rule that nothing is believed about bytes that are not there: a length is compared with
//! what is left of the message before anything is done with it. Does not own which fields there are (`protobuf::walk`, `protobuf::plan`),
//! nor the encoding of OTLP's messages, which are read into slots (`otlp::wire`).
//!
//! Eight bytes are read together where the block has them, beyond the message's end too; what was read is then checked against that end.

use std::borrow::Cow;

use super::plan::Encoding;
use crate::fault::{Fault, Step};
use crate::varint::{CONTINUES, sevens};

/// Groups inside each other that are skipped: as many as other readers take.
const GROUPS_MAX: usize = 100;

/// Steps over the bytes of one message.
#[derive(Clone, Copy)]
pub(super) struct Wire<'a> {
    /// Those of the whole block.
    bytes: &'a [u8],
    /// Where the record begins, from which faults count.
    start: usize,
    end: usize,
    at: usize,
}

/// A piece of a block: where it begins and where it ends. A block has less than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub at: u32,
    pub end: u32,
}

impl Piece {
    /// In the 64 bits that other values have.
    #[inline(always)]
    pub fn pack(self) -> u64 {
        u64::from(self.at) << 32 | u64::from(self.end)
    }

    /// From these.
    #[inline(always)]
    pub fn unpack(bits: u64) -> Self {
        Self { at: (bits >> 32) as u32, end: bits as u32 }
    }
}

impl<'a> Wire<'a> {
    /// The start of the record that is `block[start..end]`.
    #[inline(always)]
    pub fn new(block: &'a [u8], start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= block.len());
        Self { bytes: block, start, end, at: start }
    }

    /// The message behind the first `header` bytes of the record that is `block[start..end]`.
    #[inline(always)]
    pub fn behind(block: &'a [u8], start: usize, header: usize, end: usize) -> Self {
        debug_assert!(start + header <= end && end <= block.len());
        Self { bytes: block, start, end, at: start + header }
    }

    /// The start of a piece of the same record, which was read from it.
    #[inline(always)]
    pub fn of(&self, piece: Piece) -> Self {
        Self { end: piece.end as usize, at: piece.at as usize, ..*self }
    }

    /// The bytes of a piece of the same record.
    #[inline(always)]
    pub fn bytes(&self, piece: Piece) -> &'a [u8] {
        &self.bytes[piece.at as usize..piece.end as usize]
    }

    /// The number of a byte in the record, from 0, by its place in the block.
    pub fn position(&self, at: u32) -> usize {
        at as usize - self.start
    }

    /// Whether no byte is left.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// A fault of the bytes from here on.
    #[cold]
    pub fn fault(&self, rule: impl Into<Cow<'static, str>>) -> Box<Fault> {
        Fault::bytes(self.at - self.start, rule)
    }

    /// The key of the next field: its number, and three bits for its encoding.
    #[inline(always)]
    pub fn key(&mut self) -> Step<u32> {
        let before = *self;
        let key = self.varint()?;
        match u32::try_from(key) {
            Ok(key) if key >= 8 => Ok(key),
            _ => Err(before.fault(format!("`{key}` is no key of a field"))),
        }
    }

    /// A number of up to 64 bits.
    #[inline(always)]
    pub fn varint(&mut self) -> Step<u64> {
        if let Some(word) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            if word & 0x80 == 0 {
                if self.at < self.end {
                    self.at += 1;
                    return Ok(word & 0x7f);
                }
                return Err(self.open());
            }
            let ends = !word & CONTINUES;
            if ends != 0 {
                // 1 to 8: an end is the highest bit of a byte.
                let used = (ends.trailing_zeros() as usize >> 3).wrapping_add(1);
                if used <= self.end.wrapping_sub(self.at) {
                    self.at += used;
                    return Ok(sevens(word, ends));
                }
                return Err(self.open());
            }
        }
        self.varint_by_bytes()
    }

    /// The same near the block's end, and for numbers of nine or ten bytes.
    #[inline(never)]
    fn varint_by_bytes(&mut self) -> Step<u64> {
        let mut value = 0u64;
        for (n, byte) in self.bytes[self.at..self.end].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * n);
            if n == 9 && *byte > 1 {
                return Err(self.fault("the number has more than 64 bits"));
            }
            if byte & 0x80 == 0 {
                self.at += n + 1;
                return Ok(value);
            }
        }
        Err(self.open())
    }

    #[cold]
    fn open(&self) -> Box<Fault> {
        if self.at == self.end {
            return self.fault("the message ends before its last field");
        }
        self.fault("the number does not end within the message")
    }

    /// The bits of the next `N` bytes.
    #[inline(always)]
    fn fixed<const N: usize>(&mut self) -> Step<&'a [u8; N]> {
        match self.bytes[self.at..self.end].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(bytes)
            }
            None => Err(self.short(N as u64)),
        }
    }

    #[cold]
    fn short(&self, wanted: u64) -> Box<Fault> {
        let left = self.end - self.at;
        self.fault(format!("a value of `{wanted}` bytes does not fit the `{left}` that are left"))
    }

    /// Eight bytes.
    #[inline(always)]
    pub fn fixed64(&mut self) -> Step<u64> {
        Ok(u64::from_le_bytes(*self.fixed::<8>()?))
    }

    /// Four bytes.
    #[inline(always)]
    pub fn fixed32(&mut self) -> Step<u64> {
        Ok(u32::from_le_bytes(*self.fixed::<4>()?).into())
    }

    /// Bytes behind their length.
    #[inline(always)]
    pub fn sized(&mut self) -> Step<Piece> {
        let before = *self;
        let length = self.varint()?;
        if length > (self.end - self.at) as u64 {
            let left = self.end - self.at;
            return Err(
                before.fault(format!("a value of `{length}` bytes does not fit the `{left}` that are left"))
            );
        }
        let at = self.at;
        self.at += length as usize;
        Ok(Piece { at: at as u32, end: self.at as u32 })
    }

    /// The bits of a value; of one with a length its piece.
    #[inline]
    pub fn value(&mut self, encoding: Encoding) -> Step<u64> {
        match encoding {
            Encoding::Varint => self.varint(),
            Encoding::Fixed64 => self.fixed64(),
            Encoding::Fixed32 => self.fixed32(),
            Encoding::Sized => self.sized().map(Piece::pack),
        }
    }

    /// A value alone as a piece.
    pub fn piece(&mut self, encoding: Encoding) -> Step<Piece> {
        let at = self.at as u32;
        match encoding {
            Encoding::Sized => self.sized(),
            other => {
                self.value(other)?;
                Ok(Piece { at, end: self.at as u32 })
            }
        }
    }

    /// Steps over the value of the field `key`, which nobody asks for.
    #[inline]
    pub fn skip(&mut self, key: u32) -> Step<()> {
        match key & 7 {
            0 => self.varint().map(drop),
            1 => self.fixed64().map(drop),
            2 => self.sized().map(drop),
            3 => self.skip_group(key >> 3),
            5 => self.fixed32().map(drop),
            other => {
                Err(self.fault(format!("field number `{}` is in the encoding `{other}`, {}", key >> 3, WHY)))
            }
        }
    }

    /// Steps over a group and those in it.
    #[cold]
    fn skip_group(&mut self, number: u32) -> Step<()> {
        // The groups that are open, the innermost last.
        let mut open = vec![number];
        while let Some(innermost) = open.last().copied() {
            if self.is_empty() {
                return Err(self.fault(format!("the group of field number `{innermost}` does not end")));
            }
            let before = *self;
            let key = self.key()?;
            match key & 7 {
                3 if open.len() == GROUPS_MAX => {
                    return Err(before.fault(format!("groups nest deeper than `{GROUPS_MAX}`")));
                }
                3 => open.push(key >> 3),
                4 if key >> 3 == innermost => drop(open.pop()),
                4 => {
                    let rule =
                        format!("the group of field number `{innermost}` ends as one of `{}`", key >> 3);
                    return Err(before.fault(rule));
                }
                _ => self.skip(key)?,
            }
        }
        Ok(())
    }
}

/// What is wrong with an encoding.
const WHY: &str = "which begins no value";
