//! A body of JSON as a text: what cannot be one is replaced by U+FFFD.
//!
//! Owns this for protocols whose senders drop a request that is refused: one damaged byte would cost them all of it. Does not own what is
//! replaced in texts that are no JSON yet (`gateway::quoting`), nor `/v1/streams`, whose clients are told which line is wrong.
//!
//! | in the body                              | becomes                                |
//! |------------------------------------------|----------------------------------------|
//! | bytes that are not UTF-8                 | U+FFFD, which takes three bytes        |
//! | an escape of half a surrogate pair       | `\ufffd`, which is as long             |

use memchr::memchr;

use crate::budget::Held;
use crate::quoting::REPLACEMENT;
use crate::refusal::Refusal;

/// Bytes of an escape by its number, `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

/// The body as a text. What it takes beside itself is held.
///
/// # Errors
/// As [`Held::take`].
pub(crate) fn of_json(body: Vec<u8>, held: &mut Held) -> Result<Vec<u8>, Refusal> {
    let mut text = match String::from_utf8(body) {
        Ok(text) => text.into_bytes(),
        Err(error) => replaced(error.as_bytes(), held)?,
    };
    pair_surrogates(&mut text);
    Ok(text)
}

fn replaced(body: &[u8], held: &mut Held) -> Result<Vec<u8>, Refusal> {
    let of_invalid = |chunk: &std::str::Utf8Chunk<'_>| match chunk.invalid().is_empty() {
        true => &b""[..],
        false => REPLACEMENT,
    };
    let bytes: usize = body.utf8_chunks().map(|chunk| chunk.valid().len() + of_invalid(&chunk).len()).sum();
    held.take(bytes)?;
    let mut out = Vec::with_capacity(bytes);
    for chunk in body.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        out.extend_from_slice(of_invalid(&chunk));
    }
    Ok(out)
}

/// Replaces halves of surrogate pairs. In JSON a backslash stands in texts alone.
fn pair_surrogates(text: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match unit(&text[at..]) {
            None => 2,
            Some(0xd800..=0xdbff) if matches!(unit(&text[at + ESCAPE_BYTES..]), Some(0xdc00..=0xdfff)) => {
                2 * ESCAPE_BYTES
            }
            Some(0xd800..=0xdfff) => {
                text[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
                ESCAPE_BYTES
            }
            Some(_) => ESCAPE_BYTES,
        };
    }
}

/// The number of an escape that begins here.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests;
