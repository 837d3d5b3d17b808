//! Entries into blocks: the hot path.
//!
//! Owns the metadata of entries and of the messages of a batch, and the one copy of each body into its block. Does not own frames and
//! checksums (`frame`) or what an unreadable entry leads to (`broker`).
//!
//! | entry                          | what becomes of it                                                |
//! |--------------------------------|-------------------------------------------------------------------|
//! | one message                    | a record; its index is 0                                          |
//! | a batch                        | a record for each message that was not compacted away             |
//! | of a message without a body    | a record without a body                                           |
//! | encrypted                      | refused: whoever reads it needs the key                           |
//! | a chunk of a message           | told to the caller, unless it is the only one (`chunks`)          |
//! | written by a broker (a marker) | no record                                                         |
//! | damaged                        | refused with its place, never stepped over                        |
//!
//! A record's time is the event time if its producer gave one, else the time of publishing.

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Partition, RecordBlock, position};

use super::chunks::NoRoom;
use super::fields::{Fields, Malformed, Value, take, u32_be};
use super::frame::{self, FrameError};
use super::inflate::{InflateError, inflate};
use super::place::{Entry, INDEX_MAX};
use super::schema::Naming;

/// Bytes of a message in a batch at the least: its length, and a metadata that says how long the body is.
const MESSAGE_BYTES_MIN: usize = 6;

/// Why an entry cannot be read: the rest of a sentence that begins with its place.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("its messages are malformed")]
    Malformed,
    #[error(transparent)]
    Inflate(#[from] InflateError),
    #[error("it is encrypted by its producer, and this source has no keys; publish without encryption")]
    Encrypted,
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("its batch has `{0}` messages, and at most `{INDEX_MAX}` can be told apart")]
    TooMany(u64),
}

/// How to go on behind an entry of `partition` that can never be read. To forget the partition would not do: it would be read up to the same entry again.
pub(super) fn way_behind(partition: &Partition, at: Entry) -> String {
    let next = position::shown(at.end());
    format!(
        "to give up what is in it and read on behind it, run `forebay reset FILE --to '{partition}={next}'`"
    )
}

impl From<Malformed> for EntryError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// What is read of an entry's metadata.
#[derive(Default)]
struct Metadata<'a> {
    publish_time: u64,
    event_time: u64,
    compression: u64,
    uncompressed_bytes: u64,
    /// `None` unless it is a batch, which may be one of one message.
    messages: Option<u64>,
    chunks: u64,
    is_encrypted: bool,
    is_marker: bool,
    /// Empty if the producer had no schema.
    schema_version: &'a [u8],
    /// All of them, for the key and the properties of a single message.
    fields: &'a [u8],
    facts: Facts<'a>,
}

/// What a message says besides its body, whether it is alone or in a batch.
#[derive(Clone, Copy, Default)]
struct Facts<'a> {
    key: Option<&'a [u8]>,
    is_key_base64: bool,
    is_null: bool,
    has_properties: bool,
}

fn metadata(bytes: &[u8]) -> Result<Metadata<'_>, Malformed> {
    let mut read = Metadata { fields: bytes, ..Metadata::default() };
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (3, Value::Number(number)) => read.publish_time = number,
            (4, Value::Bytes(_)) => read.facts.has_properties = true,
            (6, Value::Bytes(key)) => read.facts.key = Some(key),
            (8, Value::Number(number)) => read.compression = number,
            (9, Value::Number(number)) => read.uncompressed_bytes = number,
            (11, Value::Number(number)) => read.messages = Some(number),
            (12, Value::Number(number)) => read.event_time = number,
            (13, Value::Bytes(_)) => read.is_encrypted = true,
            (16, Value::Bytes(version)) => read.schema_version = version,
            (17, Value::Number(number)) => read.facts.is_key_base64 = number != 0,
            (20, Value::Number(_)) => read.is_marker = true,
            (25, Value::Number(number)) => read.facts.is_null = number != 0,
            (27, Value::Number(number)) => read.chunks = number,
            _ => {}
        }
    }
    Ok(read)
}

/// When the entry was published, in Unix milliseconds, and how many messages brokers count for it: at least 1.
pub(super) fn published(body: &[u8]) -> Result<(i64, i64), FrameError> {
    let (bytes, _) = frame::entry(body)?;
    let metadata = metadata(bytes).map_err(|_| FrameError::Malformed)?;
    let messages = i64::try_from(metadata.messages.unwrap_or(1).max(1)).unwrap_or(i64::MAX);
    Ok((time(0, metadata.publish_time), messages))
}

/// What is read of the metadata of a message in a batch.
#[derive(Default)]
struct Single<'a> {
    payload_bytes: u64,
    event_time: u64,
    is_compacted_out: bool,
    facts: Facts<'a>,
}

#[inline]
fn single(bytes: &[u8]) -> Result<Single<'_>, Malformed> {
    let mut read = Single::default();
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(_)) => read.facts.has_properties = true,
            (2, Value::Bytes(key)) => read.facts.key = Some(key),
            (3, Value::Number(number)) => read.payload_bytes = number,
            (4, Value::Number(number)) => read.is_compacted_out = number != 0,
            (5, Value::Number(number)) => read.event_time = number,
            (6, Value::Number(number)) => read.facts.is_key_base64 = number != 0,
            (9, Value::Number(number)) => read.facts.is_null = number != 0,
            _ => {}
        }
    }
    Ok(read)
}

/// What an entry was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// So many messages, which were read.
    Messages(u64),
    /// A chunk of a message, of which nothing was read.
    Chunk,
}

/// Reads the entries of one partition and one ledger, in order.
pub(super) struct Entries<'a> {
    /// Where the records go.
    pub(super) block: &'a mut BlockBuilder,
    /// Kept for its memory.
    pub(super) scratch: &'a mut Vec<u8>,
    /// What an entry may unpack to.
    pub(super) bytes_max: usize,
    /// Names the schema of each block, if blocks have one.
    pub(super) naming: Option<&'a mut Naming>,
}

impl Entries<'_> {
    /// Reads `body`, which stands at `at`, from the message `from` of it on; `full` gets each block that is full.
    ///
    /// # Errors
    /// When it cannot be read. What was read of it before is in the block, and must not be handed out twice.
    pub(super) fn read(
        &mut self,
        at: Entry,
        body: &[u8],
        from: u64,
        full: &mut dyn FnMut(RecordBlock),
    ) -> Result<Read, EntryError> {
        let (bytes, payload) = frame::entry(body)?;
        let metadata = metadata(bytes).map_err(|_| FrameError::Malformed)?;
        if metadata.is_encrypted {
            return Err(EntryError::Encrypted);
        }
        if metadata.chunks > 1 {
            return Ok(Read::Chunk);
        }
        let messages = metadata.messages.unwrap_or(1);
        if metadata.is_marker {
            self.block.skip_to(at.end());
            return Ok(Read::Messages(1));
        }
        if messages > INDEX_MAX {
            return Err(EntryError::TooMany(messages));
        }
        let bytes = usize::try_from(metadata.uncompressed_bytes).unwrap_or(usize::MAX);
        self.name_schema(&metadata, full);
        let payload = inflate(metadata.compression, bytes, payload, self.scratch, self.bytes_max)?;
        if metadata.messages.is_some() {
            batch(self.block, at, &metadata, payload, from, full)?;
        } else if from == 0 {
            alone(self.block, at, &metadata, payload)?;
        }
        self.block.skip_to(at.end());
        if self.block.is_full() {
            full(self.block.take());
        }
        Ok(Read::Messages(messages))
    }

    /// Reads a message whose chunks were put together, by the metadata of its first one, which stands at `at`. It was packed as a whole.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn whole(
        &mut self,
        at: Entry,
        head: &[u8],
        payload: &[u8],
        full: &mut dyn FnMut(RecordBlock),
    ) -> Result<(), EntryError> {
        let metadata = metadata(head).map_err(|_| FrameError::Malformed)?;
        if metadata.is_encrypted {
            return Err(EntryError::Encrypted);
        }
        let bytes = usize::try_from(metadata.uncompressed_bytes).unwrap_or(usize::MAX);
        self.name_schema(&metadata, full);
        let payload = inflate(metadata.compression, bytes, payload, self.scratch, self.bytes_max)?;
        alone(self.block, at, &metadata, payload)?;
        self.block.skip_to(at.end());
        if self.block.is_full() {
            full(self.block.take());
        }
        Ok(())
    }
}

impl Entries<'_> {
    /// Gives the block the name of the entry's schema. A block that has another one is handed out first: all records of a block are of one schema.
    #[inline]
    fn name_schema(&mut self, metadata: &Metadata<'_>, full: &mut dyn FnMut(RecordBlock)) {
        let Some(naming) = &mut self.naming else { return };
        let name = naming.of(metadata.schema_version);
        if self.block.schema_name() == name.map(|name| &**name) {
            return;
        }
        if !self.block.is_empty() {
            full(self.block.take());
        }
        self.block.schema(name.cloned());
    }
}

/// Reads a message that is not in a batch.
fn alone(
    block: &mut BlockBuilder,
    at: Entry,
    metadata: &Metadata<'_>,
    payload: &[u8],
) -> Result<(), EntryError> {
    let time_ms = time(metadata.event_time, metadata.publish_time);
    let properties = Properties { fields: metadata.fields, field: 4 };
    push(block, at.entry_place(0), time_ms, payload, metadata.facts, properties)
}

/// Reads the messages of a batch.
fn batch(
    block: &mut BlockBuilder,
    at: Entry,
    metadata: &Metadata<'_>,
    mut rest: &[u8],
    from: u64,
    full: &mut dyn FnMut(RecordBlock),
) -> Result<(), EntryError> {
    let messages = metadata.messages.unwrap_or_default();
    if messages > (rest.len() / MESSAGE_BYTES_MIN) as u64 {
        return Err(EntryError::Malformed);
    }
    block.expect(rest.len());
    for index in 0..messages {
        let length = u32_be(&mut rest)? as usize;
        let fields = take(&mut rest, length)?;
        let single = single(fields)?;
        let payload = take(&mut rest, usize::try_from(single.payload_bytes).map_err(|_| Malformed)?)?;
        if index < from || single.is_compacted_out {
            continue;
        }
        // As clients read it: what the batch says is for messages that have no time of their own.
        let event_time = if single.event_time == 0 { metadata.event_time } else { single.event_time };
        let time_ms = time(event_time, metadata.publish_time);
        let properties = Properties { fields, field: 1 };
        push(block, at.entry_place(index), time_ms, payload, single.facts, properties)?;
        if block.is_full() {
            full(block.take());
            block.expect(rest.len());
        }
    }
    Ok(())
}

#[inline]
fn push(
    block: &mut BlockBuilder,
    place: u64,
    time_ms: i64,
    payload: &[u8],
    facts: Facts<'_>,
    properties: Properties<'_>,
) -> Result<(), EntryError> {
    block.push(place, time_ms, (!facts.is_null).then_some(payload));
    if let Some(key) = facts.key {
        put_key(block, key, facts.is_key_base64);
    }
    if facts.has_properties {
        properties.put(block)?;
    }
    Ok(())
}

/// A key is a text; producers write bytes that are none in Base64. One that says so and is not in it is taken as it is: whoever wrote it must not hold up the messages behind it.
fn put_key(block: &mut BlockBuilder, key: &[u8], is_base64: bool) {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
    if !is_base64 {
        block.key(key);
        return;
    }
    match STANDARD.decode(key).or_else(|_| STANDARD_NO_PAD.decode(key)) {
        Ok(bytes) => block.key(&bytes),
        Err(_) => block.key(key),
    }
}

/// The properties of a message, among its other fields.
struct Properties<'a> {
    fields: &'a [u8],
    field: u32,
}

impl Properties<'_> {
    fn put(self, block: &mut BlockBuilder) -> Result<(), EntryError> {
        let mut fields = Fields(self.fields);
        while let Some((field, value)) = fields.next()? {
            let Value::Bytes(pair) = value else { continue };
            if field != self.field {
                continue;
            }
            let (mut name, mut text) = (&[][..], &[][..]);
            let mut pair = Fields(pair);
            while let Some((field, value)) = pair.next()? {
                match (field, value) {
                    (1, Value::Bytes(bytes)) => name = bytes,
                    (2, Value::Bytes(bytes)) => text = bytes,
                    _ => {}
                }
            }
            block.header(&String::from_utf8_lossy(name), Some(text));
        }
        Ok(())
    }
}

/// The time of a record: the event's, or else that of publishing.
#[inline]
fn time(event_ms: u64, publish_ms: u64) -> i64 {
    let ms = if event_ms == 0 { publish_ms } else { event_ms };
    i64::try_from(ms).ok().filter(|ms| *ms > 0).unwrap_or(TIME_UNKNOWN_MS)
}

#[cfg(test)]
mod tests;
