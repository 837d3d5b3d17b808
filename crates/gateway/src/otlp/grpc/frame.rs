//! A message of gRPC as it stands in a body: a byte that says whether it is compressed, its length in four, and its bytes.
//!
//! Owns the prefix. Does not own inflating within bounds ([`crate::body`]).

use axum::http::{HeaderMap, HeaderName};

use crate::body::{Encoding, Inflated, Raw};
use crate::refusal::{Kind, Refusal};

/// Bytes before a message.
pub(super) const PREFIX_BYTES: usize = 5;

/// The length of a body with one message, by the prefix of that.
pub(super) fn announced(begin: &[u8]) -> Option<usize> {
    let &[_, a, b, c, d] = begin.first_chunk::<PREFIX_BYTES>()?;
    usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?.checked_add(PREFIX_BYTES)
}

/// How the messages of a call are compressed that say so of themselves.
///
/// # Errors
/// [`Kind::Media`] for an unknown one.
pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let Some(value) = headers.get(HeaderName::from_static("grpc-encoding")) else {
        return Ok(Encoding::Identity);
    };
    match value.as_bytes() {
        b"identity" => Ok(Encoding::Identity),
        b"gzip" => Ok(Encoding::Gzip),
        b"zstd" => Ok(Encoding::Zstd),
        b"deflate" => Ok(Encoding::Deflate),
        _ => Err(Refusal::new(
            Kind::Media,
            "the call's `grpc-encoding` is not known; use `gzip`, `zstd`, `deflate` or none",
        )),
    }
}

/// The only message of a body, inflated, and where in the bytes it begins. For a compute thread.
///
/// # Errors
/// [`Kind::Malformed`] when it is not there, not whole or not alone, and as [`Raw::inflate`].
pub(super) fn message(mut raw: Raw, encoding: Encoding) -> Result<(usize, Inflated), Refusal> {
    let malformed =
        |why: &str| Err(Refusal::new(Kind::Malformed, format!("the call {why}; nothing was stored")));
    let Some((&[flag, a, b, c, d], message)) = raw.bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return malformed("has no whole message");
    };
    let said = u32::from_be_bytes([a, b, c, d]) as usize;
    if said != message.len() {
        return malformed(if said > message.len() {
            "ends within its message"
        } else {
            "has more than one message"
        });
    }
    raw.encoding = Encoding::Identity;
    match (flag, encoding) {
        (0, _) => raw.inflate_and_keep().map(|body| (PREFIX_BYTES, body)),
        (1, Encoding::Identity) => malformed("has a compressed message and does not say how"),
        (1, encoding) => {
            raw.bytes.drain(..PREFIX_BYTES);
            raw.encoding = encoding;
            raw.inflate_and_keep().map(|body| (0, body))
        }
        _ => malformed("has a message with an unknown flag"),
    }
}

/// A message of less than 4 GiB behind its prefix, not compressed.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + message.len());
    out.push(0);
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(message);
    out
}
