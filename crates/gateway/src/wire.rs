//! Protocol Buffers from left to right, without a tree: the fields of one message as numbers and as pieces of its bytes.
//!
//! Owns the encoding of fields. Does not own which message has which fields: the route of a protocol matches on their numbers, and skips those that it does not
//! know. Nothing is copied, and nothing is allocated, whatever length a message names.

use crate::refusal::{Kind, Refusal};

/// The value of a field, by its encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// An integer, a truth value or an enum.
    Varint(u64),
    /// `fixed64`, `sfixed64` or `double`, as its bits.
    Fixed64(u64),
    /// `fixed32`, `sfixed32` or `float`, as its bits.
    Fixed32(u32),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// The fields of a message that were not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    /// The message's name, for its faults.
    message: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of a message of the type `message`.
    pub(crate) fn of(message: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, message }
    }

    /// The next field: its number and its value; `None` at the end.
    ///
    /// # Errors
    /// [`Kind::Malformed`] for what is no field.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Refusal> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let read = self.read();
        read.map(Some).ok_or_else(|| malformed(self.message, "ends within a field, or holds what is none"))
    }

    /// The fault of a field whose value has another encoding than its type.
    pub(crate) fn unexpected(&self, field: u32) -> Refusal {
        malformed(self.message, &format!("has field `{field}` in an encoding that is not its own"))
    }

    fn read(&mut self) -> Option<(u32, Value<'a>)> {
        let key = u32::try_from(varint(&mut self.rest)?).ok()?;
        let field = key >> 3;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(take(&mut self.rest, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                Value::Bytes(take(&mut self.rest, length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(take(&mut self.rest, 4)?.try_into().ok()?)),
            // Groups, which none of the protocols here ever had.
            _ => return None,
        };
        (field != 0).then_some((field, value))
    }
}

/// The refusal of a message.
pub(crate) fn malformed(message: &str, why: &str) -> Refusal {
    Refusal::new(
        Kind::Malformed,
        format!("the body is not what it should be: `{message}` {why}; nothing was stored"),
    )
}

/// A number of up to ten bytes.
pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        // The tenth byte has one bit of the 64.
        if at == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte <= 0x7f {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

/// The integer that is sent with its sign in the lowest bit.
pub(crate) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
