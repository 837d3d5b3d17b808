//! Records in Avro: object container files, and one record without a head.
//!
//! Owns what of a file becomes a record, in which form, and how much of it is in memory at a time. Does not own the form of a file, where a record in a block
//! ends, nor what its values are as JSON: all that is `formats::avro`.
//!
//! | stream | file                    | a record of the log is                                              |
//! |--------|-------------------------|---------------------------------------------------------------------|
//! | `avro` | of the stream's schema  | the record, byte for byte, as a pipeline reads it by that schema    |
//! | `avro` | of another schema       | none: the file is refused                                           |
//! | `json` | of any schema           | the record as a JSON object                                         |
//!
//! A block is decompressed by itself, so a file needs no more memory than its largest block; all blocks together have no more bytes than a body may.

use std::io::Read;

use formats::avro::container::{Codec, Container, ContainerError};
use formats::avro::{NoJson, RecordSchema, SCHEMA_BYTES_MAX};

use super::Rows;
use crate::body;
use crate::budget::Held;
use crate::refusal::{Kind, Refusal};

/// Memory that reading a schema takes, for each byte of its text.
const SCHEMA_MEMORY: usize = 64;
/// Bytes of a record as JSON for which there is room at once; twice as many once they are not enough, and so on.
const JSON_ROOM: usize = 4 << 10;
/// Bytes that may stand behind the stream of a block of `deflate`: Avro's libraries for Python leave a part of zlib's checksum there.
const CHECKSUM_BYTES: usize = 4;
/// Bytes that a block is decompressed by at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Whether a content type is one of Avro.
pub(super) fn is_media(kind: &str) -> bool {
    matches!(
        kind,
        "application/avro"
            | "avro/binary"
            | "application/x-avro"
            | "application/x-avro-binary"
            | "application/vnd.apache.avro"
            | "application/vnd.apache.avro+binary"
    )
}

/// The records of a file: as they are if it has the schema `own`, or as JSON if there is none.
///
/// # Errors
/// [`Kind::Malformed`] for a file that is damaged or of another schema, [`Kind::Media`] for one of an unknown codec, [`Kind::Busy`] and [`Kind::TooLarge`].
pub(super) fn file(
    own: Option<&RecordSchema>,
    (body, bytes_max): (&[u8], usize),
    rows: &mut Rows,
) -> Result<(), Refusal> {
    let mut file = Container::open(body).map_err(damaged)?;
    // Said before memory is asked for: no budget makes room for it.
    if file.schema().len() > SCHEMA_BYTES_MAX {
        return Err(malformed(&format!("its schema has more than `{SCHEMA_BYTES_MAX}` bytes")));
    }
    let mut held = rows.held.another();
    held.take(SCHEMA_MEMORY * file.schema().len())?;
    let schema = RecordSchema::read(file.schema()).map_err(|error| malformed(&error.to_string()))?;
    if let Some(difference) = own.and_then(|own| own.difference(&schema)) {
        let message = format!(
            "the file was not written with the stream's schema: {difference}; nothing was stored. Write it with that schema, or send it to a stream of \
             `format: json`, which takes files of any schema"
        );
        return Err(Refusal::new(Kind::Malformed, message));
    }
    let mut records = Records {
        schema: &schema,
        is_json: own.is_none(),
        before: 0,
        steps: 0,
        json: Vec::new(),
        room: 0,
        held,
    };
    let mut blocks =
        Blocks { codec: file.codec(), left: bytes_max, out: Vec::new(), held: rows.held.another() };
    let mut number = 0;
    while let Some(block) = file.next_block().map_err(damaged)? {
        number += 1;
        let bytes = blocks.content(block.bytes)?;
        records.of_block(number, (bytes, block.records), rows)?;
    }
    Ok(())
}

/// One record without a head, of the stream's schema.
pub(super) fn one(own: &RecordSchema, body: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    match own.end_of(body, 0) {
        Ok(end) if end == body.len() => rows.push(body)?,
        Ok(end) => rows.error(1, format!("`{}` bytes follow its last field", body.len() - end)),
        Err(why) => rows.error(1, why),
    }
    Ok(())
}

fn damaged(error: ContainerError) -> Refusal {
    match error {
        ContainerError::Malformed(why) => malformed(&why),
        ContainerError::Codec(_) => Refusal::new(Kind::Media, format!("{error}; nothing was stored")),
    }
}

fn malformed(why: &str) -> Refusal {
    let message = format!("the body is no valid object container file of Avro: {why}; nothing was stored");
    Refusal::new(Kind::Malformed, message)
}

/// Fields of all records of a file, those without bytes counted as well: some seconds of work. One of the longest body whose fields have a byte each has fewer.
const STEPS_MAX: u64 = 1 << 29;

/// What became of a record.
enum Took {
    /// It was taken.
    Record { end: usize },
    /// It has a value that JSON cannot hold; the next record begins at `end`.
    Value { why: String, end: usize },
    /// It is not of the schema.
    Nothing { why: String },
}

/// The records of a file, on their way into a block of the log.
struct Records<'a> {
    schema: &'a RecordSchema,
    is_json: bool,
    /// Those of the blocks before.
    before: u64,
    /// Types that they were stepped over by.
    steps: u64,
    /// A record as JSON; what it may grow to is held.
    json: Vec<u8>,
    room: usize,
    held: Held,
}

impl Records<'_> {
    /// Takes the records of a block. One whose bytes are not of the schema leaves open where the next begins, so those behind it in the block are errors with
    /// it; one that only has no form in JSON does not.
    fn of_block(
        &mut self,
        number: u64,
        (bytes, count): (&[u8], u64),
        rows: &mut Rows,
    ) -> Result<(), Refusal> {
        if count > bytes.len() as u64 && !self.schema.is_empty() {
            let message =
                format!("block {number} has `{}` bytes, and cannot hold `{count}` records", bytes.len());
            return Err(malformed(&message));
        }
        // Types without bytes cost their time too, and a file may have many of them for each byte of its records.
        self.steps = self.steps.saturating_add(count.saturating_mul(self.schema.width() as u64));
        if self.steps > STEPS_MAX && !self.schema.is_empty() {
            let message = format!(
                "the records of the file have more than {STEPS_MAX} fields together; nothing was stored. Send them in several files"
            );
            return Err(Refusal::new(Kind::TooLarge, message));
        }
        let mut at = 0;
        for n in 0..count {
            match self.record(bytes, at, rows)? {
                Took::Record { end } => at = end,
                // What is taken is bounded by its room, and what has bytes by those. Nothing bounds how often the file may claim this one.
                Took::Value { why, end } if end == at => {
                    return Err(malformed(&format!(
                        "block {number} has a record without bytes that has no form in JSON: {why}"
                    )));
                }
                Took::Value { why, end } => {
                    rows.error(self.before.saturating_add(n + 1), why);
                    at = end;
                }
                Took::Nothing { why } => {
                    let rest = count - n - 1;
                    let more = match rest {
                        0 => String::new(),
                        _ => format!("; the `{rest}` records behind it in its block cannot be told apart"),
                    };
                    rows.error(self.before.saturating_add(n + 1), why + &more);
                    rows.errors.add_unshown(rest);
                    at = bytes.len();
                    break;
                }
            }
        }
        self.before = self.before.saturating_add(count);
        match bytes.len() - at {
            0 => Ok(()),
            left => Err(malformed(&format!(
                "block {number} has `{left}` bytes behind the last of its `{count}` records"
            ))),
        }
    }

    /// Takes the record that begins at `at`.
    fn record(&mut self, bytes: &[u8], at: usize, rows: &mut Rows) -> Result<Took, Refusal> {
        if !self.is_json {
            return match self.schema.end_of(bytes, at) {
                Ok(end) => rows.push(&bytes[at..end]).map(|()| Took::Record { end }),
                Err(why) => Ok(Took::Nothing { why }),
            };
        }
        loop {
            self.json.clear();
            match self.schema.to_json(bytes, at, (&mut self.json, self.room)) {
                Ok(end) => {
                    rows.push(&self.json)?;
                    return Ok(Took::Record { end });
                }
                Err(NoJson::Refused(why)) => {
                    return Ok(match self.schema.end_of(bytes, at) {
                        Ok(end) => Took::Value { why, end },
                        Err(_) => Took::Nothing { why },
                    });
                }
                Err(NoJson::TooLong) => self.grow()?,
            }
        }
    }

    /// Holds room for a longer record.
    fn grow(&mut self) -> Result<(), Refusal> {
        let bytes_max = object_log::object::APPEND_BYTES_MAX;
        if self.room >= bytes_max {
            let message = format!("a record has more than {bytes_max} bytes as JSON; nothing was stored");
            return Err(Refusal::new(Kind::TooLarge, message));
        }
        let more = self.room.max(JSON_ROOM);
        self.held.take(more)?;
        self.room += more;
        self.json.clear();
        self.json.reserve_exact(self.room);
        Ok(())
    }
}

/// The content of blocks, one after the other.
struct Blocks {
    codec: Codec,
    /// Bytes that further blocks may have.
    left: usize,
    out: Vec<u8>,
    /// What holds `out`.
    held: Held,
}

impl Blocks {
    /// The content of a block; [`Kind::Malformed`] if it is not what the codec says.
    fn content<'b>(&'b mut self, packed: &'b [u8]) -> Result<&'b [u8], Refusal> {
        self.out.clear();
        match self.codec {
            Codec::Null => return Ok(packed),
            Codec::Deflate => {
                let mut decoder = flate2::bufread::DeflateDecoder::new(packed);
                self.read(packed.len(), &mut decoder)?;
                if decoder.get_ref().len() > CHECKSUM_BYTES {
                    return Err(no_content());
                }
            }
            Codec::Zstandard => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(packed).map_err(|_| no_content())?;
                decoder.window_log_max(body::WINDOW_LOG_MAX).map_err(|_| no_content())?;
                self.read(packed.len(), decoder)?;
            }
            Codec::Snappy => self.snappy(packed)?,
        }
        self.left = self.left.checked_sub(self.out.len()).ok_or_else(too_large)?;
        Ok(&self.out)
    }

    fn snappy(&mut self, packed: &[u8]) -> Result<(), Refusal> {
        let (packed, sum) = packed.split_last_chunk::<4>().ok_or_else(no_content)?;
        let said = snap::raw::decompress_len(packed).map_err(|_| no_content())?;
        // Nothing is allocated for a length that the block cannot have.
        if said / body::SNAPPY_RATIO_MAX > packed.len() {
            return Err(no_content());
        }
        self.reserve(said)?;
        self.out.resize(said, 0);
        let read = snap::raw::Decoder::new().decompress(packed, &mut self.out).map_err(|_| no_content())?;
        self.out.truncate(read);
        let mut found = flate2::Crc::new();
        found.update(&self.out);
        match found.sum() == u32::from_be_bytes(*sum) {
            true => Ok(()),
            false => Err(no_content()),
        }
    }

    /// Reads all of a block that has `packed` bytes as it came.
    fn read(&mut self, packed: usize, mut from: impl Read) -> Result<(), Refusal> {
        let piece = (4 * packed).clamp(512, PIECE_BYTES);
        let mut end = 0;
        loop {
            if end == self.out.len() {
                self.reserve(end + piece)?;
                self.out.resize(end + piece, 0);
            }
            match from.read(&mut self.out[end..]).map_err(|_| no_content())? {
                0 => break,
                read => end += read,
            }
        }
        self.out.truncate(end);
        Ok(())
    }

    /// Holds room for a block of so many bytes, of which the last piece may be too much.
    fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.left.saturating_add(PIECE_BYTES) {
            return Err(too_large());
        }
        if bytes > self.out.capacity() {
            let more = bytes.max(2 * self.out.capacity()).min(self.left.max(bytes));
            self.held.take(more - self.out.capacity())?;
            self.out.reserve_exact(more - self.out.len());
        }
        Ok(())
    }
}

fn no_content() -> Refusal {
    malformed("a block is not what the codec says")
}

fn too_large() -> Refusal {
    let message =
        "the blocks of the file have more bytes than a body may, without their codec; send less at a time";
    Refusal::new(Kind::TooLarge, message)
}

#[cfg(test)]
mod tests;
