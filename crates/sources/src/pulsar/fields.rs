//! Protocol Buffers, read field by field from bytes that came over the network.
//!
//! Owns tags, numbers and lengths. Does not own which message has which fields (`pulsar::frame`), nor records in Protocol Buffers, which
//! are decoded by `formats::protobuf`. Nothing is copied, and nothing is allocated.

/// Bytes that are no message of Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is malformed")]
pub(super) struct Malformed;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight fixed bytes; no field that is read here has them.
    Fixed,
}

/// The fields of a message, in the order in which they were written.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field's number and value; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = number(&mut self.0)?;
        let field = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        let value = match tag & 7 {
            0 => Value::Number(number(&mut self.0)?),
            1 => {
                take(&mut self.0, 8)?;
                Value::Fixed
            }
            2 => {
                let length = number(&mut self.0)?;
                Value::Bytes(take(&mut self.0, usize::try_from(length).map_err(|_| Malformed)?)?)
            }
            5 => {
                take(&mut self.0, 4)?;
                Value::Fixed
            }
            _ => return Err(Malformed),
        };
        Ok(Some((field, value)))
    }
}

/// A number in groups of seven bits, at most ten of them.
#[inline]
fn number(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    if let [byte @ 0..0x80, rest @ ..] = *bytes {
        *bytes = rest;
        return Ok(u64::from(*byte));
    }
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at).min(63);
        if *byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Ok(value);
        }
    }
    Err(Malformed)
}

/// Cuts `count` bytes off.
#[inline]
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (head, tail) = bytes.split_at_checked(count).ok_or(Malformed)?;
    *bytes = tail;
    Ok(head)
}

/// A big-endian number of four bytes.
#[inline]
pub(super) fn u32_be(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    Ok(u32::from_be_bytes(take(bytes, 4)?.try_into().map_err(|_| Malformed)?))
}

#[cfg(test)]
mod tests;
