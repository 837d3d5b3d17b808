//! The bytes of one object of the replay log.
//!
//! Owns the frame around a Protocol Buffers message, so that fields can be added. Does not own where objects stand.
//!
//! Bytes: `FBR` `1`, the first record's position (8 bytes) and the number of records (4 bytes), both little-endian, the
//! message, and CRC-32C (little-endian) of everything before it. The head alone says how far the object goes.

use prost::Message;

/// First bytes of every object: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBR1";

/// Bytes before the message.
pub const HEAD_BYTES: usize = 16;

/// Records of one object. A larger replay is several objects.
pub const RECORDS_MAX: usize = 4_096;

/// Bytes of bodies after which an object is full: it is held in memory while it is read. One record that
/// is larger fills an object alone.
pub const BYTES_MAX: usize = 16 << 20;

/// An object is refused above this: one record of the largest kind, and all that stands around it.
pub const OBJECT_BYTES_MAX: u64 = 256 << 20;

/// Positions end here: no log has ever held so many records, and counting on from there fits into 64 bits.
pub const POSITION_MAX: u64 = 1 << 60;

/// Records that are read once more.
#[derive(Clone, PartialEq, Message)]
pub struct Replay {
    /// Position of the first record in the log.
    #[prost(uint64, tag = "1")]
    pub first: u64,
    /// When it was made, by the writer's wall clock, Unix milliseconds. For display.
    #[prost(sint64, tag = "2")]
    pub made_at_ms: i64,
    /// The table that the records come from, for display.
    #[prost(string, tag = "3")]
    pub table: String,
    /// Random, 16 bytes: distinguishes the writer's own object from another's.
    #[prost(bytes = "vec", tag = "4")]
    pub nonce: Vec<u8>,
    /// The records, at least 1 and at most [`RECORDS_MAX`], at `first`, `first + 1`, …
    #[prost(message, repeated, tag = "5")]
    pub records: Vec<Replayed>,
}

/// One record, and the dead letter that it was.
#[derive(Clone, PartialEq, Message)]
pub struct Replayed {
    /// Which dead letter.
    #[prost(message, optional, tag = "1")]
    pub letter: Option<Letter>,
    /// `stream/partition/position` where the source gave the record first, through all replays.
    #[prost(string, tag = "2")]
    pub origin: String,
    /// The record's own time from the source, Unix milliseconds; `i64::MIN` if it had none.
    #[prost(sint64, tag = "3")]
    pub time_ms: i64,
    /// Its key.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub key: Option<Vec<u8>>,
    /// Its headers, as in `dataflow::block::push_header`.
    #[prost(bytes = "vec", tag = "5")]
    pub headers: Vec<u8>,
    /// Its body; absent for a tombstone.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub body: Option<Vec<u8>>,
    /// Why it was rejected, for display.
    #[prost(string, tag = "7")]
    pub reason: String,
    /// The input that it belongs to; empty in a pipeline with one.
    #[prost(string, tag = "8")]
    pub input: String,
    /// Of a letter of one row that a step made of an item of the record's array: the item's number and one. The row of that item alone is made again.
    /// 0 for all others.
    #[prost(uint64, tag = "9")]
    pub item: u64,
}

/// What identifies a dead letter of a pipeline.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Message)]
pub struct Letter {
    /// The stream; empty for rows that the server refused under earlier programs, which did not say where they came from.
    #[prost(string, tag = "1")]
    pub source: String,
    /// The partition.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The position; without a stream, how many equal letters stand before it.
    #[prost(uint64, tag = "3")]
    pub position: u64,
    /// A hash of time, message and body for a letter without a stream, or of a row that a step made of several records; of the row of an item
    /// of a record's array the item's number and one; 0 for all others.
    #[prost(fixed64, tag = "4")]
    pub print: u64,
    /// The position's era; 0 if it has none.
    #[prost(uint64, tag = "5")]
    pub era: u64,
    /// Which of the streams that had its name it is of: 2 for a topic that was deleted and created again; 0 for the first.
    #[prost(uint32, tag = "6")]
    pub nth: u32,
    /// Since when the record is read anew, Unix milliseconds, if the letter is of that reading; 0 for a letter of the first. The letter of a record that was
    /// read anew, and has failed again, is another one than the letter of the same place before.
    #[prost(int64, tag = "7")]
    pub since_ms: i64,
}

impl Letter {
    /// The letter at a place of the first stream of its name.
    pub fn at(source: &str, partition: u32, position: u64) -> Self {
        Self { source: source.to_owned(), partition, position, ..Self::default() }
    }
}

impl std::fmt::Display for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, partition, position, print, era, nth, since_ms: _ } = self;
        if source.is_empty() {
            return write!(f, "#{print:016x}/{position}");
        }
        write!(f, "{source}/{partition}/")?;
        if *era > 0 {
            write!(f, "{era}:")?;
        }
        write!(f, "{position}")?;
        if *nth > 0 {
            write!(f, "~{nth}")?;
        }
        if *print != 0 {
            write!(f, "#{print:016x}")?;
        }
        Ok(())
    }
}

/// Why bytes are not an object of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Too short, or something does not agree.
    #[error("is damaged ({0}); restore the store from a backup, nothing was guessed")]
    Damaged(String),
    /// Another format version.
    #[error("has format `{found}`, this program reads `{known}`; run the newer program")]
    Format {
        /// The first four bytes, printable.
        found: String,
        /// What this program reads.
        known: String,
    },
}

impl Replay {
    /// The bytes of the object.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 + self.encoded_len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&(self.records.len() as u32).to_le_bytes());
        self.encode(&mut bytes).expect("a vector grows as needed");
        seal(bytes)
    }

    /// Reads the object that begins at `position`.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, or of another position.
    pub fn from_bytes(position: u64, bytes: &[u8]) -> Result<Self, ReplayError> {
        let message = open(MAGIC, bytes)?;
        let end = end(position, bytes)?;
        let replay = Self::decode(&message[HEAD_BYTES - 4..]).map_err(|error| damaged(&error.to_string()))?;
        if replay.first != position || replay.records.len() as u64 != end - position {
            return Err(damaged("head and content do not agree"));
        }
        Ok(replay)
    }

    /// The position after the last record.
    pub fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// The record at `position`.
    pub fn record(&self, position: u64) -> Option<&Replayed> {
        self.records.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }
}

/// The position after the object that begins at `position`, from its head.
///
/// # Errors
/// When the head is not one of an object there.
pub fn end(position: u64, head: &[u8]) -> Result<u64, ReplayError> {
    let Some((head, _)) = head.split_first_chunk::<HEAD_BYTES>() else { return Err(damaged("too short")) };
    magic(MAGIC, head)?;
    let first = u64::from_le_bytes(head[4..12].try_into().expect("eight bytes"));
    let count = u32::from_le_bytes(head[12..].try_into().expect("four bytes"));
    if first != position || count == 0 || count as usize > RECORDS_MAX {
        return Err(damaged("it carries another position, or no possible number of records"));
    }
    if first > POSITION_MAX {
        return Err(damaged("it begins beyond all positions"));
    }
    Ok(first + u64::from(count))
}

/// Adds the checksum.
pub(super) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks magic and checksum, and gives what stands between them.
pub(super) fn open(expected: [u8; 4], bytes: &[u8]) -> Result<&[u8], ReplayError> {
    let (content, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
    if content.len() < HEAD_BYTES {
        return Err(damaged("too short"));
    }
    magic(expected, content)?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*crc) {
        return Err(damaged("checksum"));
    }
    Ok(&content[4..])
}

fn magic(expected: [u8; 4], bytes: &[u8]) -> Result<(), ReplayError> {
    match &bytes[..4] {
        found if found == expected => Ok(()),
        found if found[..3] == expected[..3] => Err(ReplayError::Format {
            found: found.escape_ascii().to_string(),
            known: expected.escape_ascii().to_string(),
        }),
        _ => Err(damaged("no such object begins like this")),
    }
}

pub(super) fn damaged(what: &str) -> ReplayError {
    ReplayError::Damaged(what.to_owned())
}

#[cfg(test)]
mod tests;
