//! Messages without their type: where each of several ends, and whether one is a message at all.
//!
//! Owns these for whoever takes messages and does not decode them. Does not own the encoding of keys and values (`protobuf::wire`).

use super::wire::Wire;

/// Bytes of a length at the most: it has 32 bits, as all writers have it.
const LENGTH_BYTES_MAX: usize = 5;

/// Where the message begins and ends whose length stands at `bytes[at]`, as a number of seven bits a byte.
///
/// # Errors
/// A sentence, when the length is none, or more than the bytes that are left.
pub fn delimited(bytes: &[u8], at: usize) -> Result<(usize, usize), String> {
    let mut length = 0u64;
    for (n, byte) in bytes[at..].iter().take(LENGTH_BYTES_MAX).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 != 0 {
            continue;
        }
        let begin = at + n + 1;
        let left = bytes.len() - begin;
        return match usize::try_from(length).ok().filter(|length| *length <= left) {
            Some(length) => Ok((begin, begin + length)),
            None => Err(format!(
                "its length says `{length}` bytes, and `{left}` are left behind byte `{begin}` of the body"
            )),
        };
    }
    Err(format!("at byte `{at}` of the body there is no length of at most 32 bits"))
}

/// Whether these bytes are a message: keys of fields, each with a value that ends within them. What is within those values is not read.
///
/// # Errors
/// A sentence, when they are not.
pub fn check(message: &[u8]) -> Result<(), String> {
    let mut wire = Wire::new(message, 0, message.len());
    while !wire.is_empty() {
        let skipped = wire.key().and_then(|key| wire.skip(key));
        skipped.map_err(|fault| fault.sentence())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
