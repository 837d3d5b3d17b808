//! A record as bytes: magic, message, checksum.
//!
//! Owns the framing and what is refused. Does not own what is said ([`super`]).

use prost::Message;

use super::{MAGIC, Record, weight};

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Too short, or the checksum does not agree.
    #[error("journal record {seq} is damaged ({what}); restore the store from a backup, nothing was guessed")]
    Damaged {
        /// The number it was read under.
        seq: u64,
        /// What does not agree.
        what: String,
    },
    /// An earlier program's format.
    #[error(
        "journal record {seq} has format `{found}`, and this program reads `FBJ5`: an earlier program wrote this store; nothing was \
         read or changed. Finish with that program: `forebay run FILE --drain` brings all that it has sealed into the table. Then start \
         this one with an empty store, or under a new pipeline name, and with a `start` behind what was drained"
    )]
    Earlier {
        /// The number it was read under.
        seq: u64,
        /// The first four bytes, printable.
        found: String,
    },
    /// A later program's format.
    #[error("journal record {seq} has format `{found}`, this program reads `FBJ5`; run the newer program")]
    Later {
        /// The number it was read under.
        seq: u64,
        /// The first four bytes, printable.
        found: String,
    },
}

impl Record {
    /// The bytes of the record's object.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.encoded_len());
        bytes.extend_from_slice(&MAGIC);
        // `encode` would ask for the length once more, which is a pass over the whole message.
        self.encode_raw(&mut bytes);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a record that stands under number `seq`.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, of another number, or have no known body.
    pub fn from_bytes(seq: u64, bytes: &[u8]) -> Result<Self, RecordError> {
        let damaged = |what: &str| RecordError::Damaged { seq, what: what.to_owned() };
        let (head, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
        let body = match head.split_first_chunk::<4>() {
            Some((&MAGIC, body)) => body,
            Some((version, _)) if version.starts_with(b"FBJ") => {
                let found = version.escape_ascii().to_string();
                return Err(match *version < MAGIC {
                    true => RecordError::Earlier { seq, found },
                    false => RecordError::Later { seq, found },
                });
            }
            _ => return Err(damaged("no record begins like this")),
        };
        if crc32c::crc32c(head) != u32::from_le_bytes(*crc) {
            return Err(damaged("checksum"));
        }
        if !weight::is_bounded(body) {
            return Err(damaged("its lists have more entries than a record of its length can hold"));
        }
        // From a slice the decoder copies each list of bytes twice.
        let shared = prost::bytes::Bytes::copy_from_slice(body);
        let record = Self::decode(shared).map_err(|e| damaged(&e.to_string()))?;
        if record.seq != seq {
            return Err(damaged("it carries another number"));
        }
        if record.body.is_none() {
            return Err(damaged("it says nothing that this program knows"));
        }
        Ok(record)
    }
}
