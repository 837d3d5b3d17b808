//! Magic, message, checksum: what the root, segments and acknowledgements have in common.
//!
//! Owns the framing. Does not own what is said.

use prost::Message;

/// Why bytes are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Too short, a wrong checksum, or impossible values.
    #[error("it is damaged ({0}); restore the store from a backup, nothing was guessed")]
    Damaged(String),
    /// Another format version.
    #[error("it has format `{found}`, and this program reads `{known}`; run the program that wrote it")]
    Version {
        /// The first four bytes, printable.
        found: String,
        /// What this program reads.
        known: String,
    },
}

pub(crate) fn damaged(what: impl Into<String>) -> FormatError {
    FormatError::Damaged(what.into())
}

/// The bytes of a message: magic, message, CRC-32C of both, little-endian.
pub(crate) fn encode(magic: [u8; 4], message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + message.encoded_len());
    bytes.extend_from_slice(&magic);
    message.encode_raw(&mut bytes);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks magic and checksum, and gives what is between.
pub(crate) fn body(magic: [u8; 4], bytes: &[u8]) -> Result<&[u8], FormatError> {
    let (head, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
    let (found, body) = head.split_first_chunk::<4>().ok_or_else(|| damaged("too short"))?;
    if *found != magic {
        return Err(match found.starts_with(&magic[..3]) {
            true => FormatError::Version {
                found: found.escape_ascii().to_string(),
                known: magic.escape_ascii().to_string(),
            },
            false => damaged("nothing of this kind begins like this"),
        });
    }
    match crc32c::crc32c(head) == u32::from_le_bytes(*crc) {
        true => Ok(body),
        false => Err(damaged("checksum")),
    }
}

/// Reads what [`encode`] wrote. The caller has bounded the bytes; a message takes at most some tens of bytes of memory for each of them.
pub(crate) fn decode<M: Message + Default>(magic: [u8; 4], bytes: &[u8]) -> Result<M, FormatError> {
    M::decode(body(magic, bytes)?).map_err(|error| damaged(error.to_string()))
}
