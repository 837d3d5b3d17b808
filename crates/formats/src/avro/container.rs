//! Object container files of Avro: records behind the schema that they were written with, in blocks.
//!
//! Owns the head of a file, where its blocks begin and end, and the names of codecs. Does not own how a block is decompressed (whoever reads the file bounds
//! that), nor where a record in it ends (`avro::records`).
//!
//! ```text
//! file:  Obj 1 | metadata: map of bytes | sync, 16 bytes | block | block | …
//! block: how many records | how many bytes | the bytes, by the codec of the metadata | sync
//! ```
//!
//! Nothing is believed about bytes that are not there: a length is compared with what is left before anything is done with it, and every block must end with
//! the sync of the head. So a file that breaks off is noticed unless it does between two blocks, where nothing says that more was meant.

use super::cursor::Cursor;
use crate::fault::Step;
use crate::shown::printable;

/// What every file begins with.
const MAGIC: [u8; 4] = *b"Obj\x01";
/// Bytes that end the head and every block.
const SYNC_BYTES: usize = 16;
/// Characters of a codec's name that a message shows.
const CODEC_CHARS: usize = 32;

/// How the bytes of a block are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    Null,
    /// Deflate without a head.
    Deflate,
    /// One block of Snappy, and behind it the CRC-32 of what was compressed, most significant byte first.
    Snappy,
    /// Frames of zstd.
    Zstandard,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Its bytes are no such file.
    #[error("{0}")]
    Malformed(String),
    /// It is compressed in a way that is not read.
    #[error("the codec `{0}` is not read; write the file with `null`, `deflate`, `snappy` or `zstandard`")]
    Codec(String),
}

/// A file, read from its first block to its last.
pub struct Container<'a> {
    cursor: Cursor<'a>,
    sync: &'a [u8; SYNC_BYTES],
    schema: &'a str,
    codec: Codec,
}

/// Some records of a file.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// How many the file says there are; it may lie.
    pub records: u64,
    /// Their bytes, by the file's codec.
    pub bytes: &'a [u8],
}

/// Whether these are the first bytes of such a file.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl<'a> Container<'a> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// When it is none, has no schema, or a codec that is not read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ContainerError> {
        let mut cursor = Cursor::new(bytes, 0, bytes.len());
        let head = head(&mut cursor).map_err(|fault| ContainerError::Malformed(fault.sentence()))?;
        let codec = match head.codec {
            None | Some(b"null") => Codec::Null,
            Some(b"deflate") => Codec::Deflate,
            Some(b"snappy") => Codec::Snappy,
            Some(b"zstandard") => Codec::Zstandard,
            Some(other) => return Err(ContainerError::Codec(printable(other, CODEC_CHARS))),
        };
        let schema = head.schema.map(std::str::from_utf8);
        let Some(Ok(schema)) = schema else {
            let why = "the head has no `avro.schema`, or one that is not UTF-8";
            return Err(ContainerError::Malformed(why.into()));
        };
        Ok(Self { cursor, sync: head.sync, schema, codec })
    }

    /// The schema that the records were written with, in JSON; not checked.
    pub fn schema(&self) -> &'a str {
        self.schema
    }

    /// How blocks are compressed.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The next block; `None` behind the last one.
    ///
    /// # Errors
    /// When the file ends in the middle, or a length or the end of the block is damaged.
    pub fn next_block(&mut self) -> Result<Option<Block<'a>>, ContainerError> {
        if self.cursor.left() == 0 {
            return Ok(None);
        }
        let block = block(&mut self.cursor, self.sync);
        block.map(Some).map_err(|fault| ContainerError::Malformed(fault.sentence()))
    }
}

struct Head<'a> {
    schema: Option<&'a [u8]>,
    codec: Option<&'a [u8]>,
    sync: &'a [u8; SYNC_BYTES],
}

fn head<'a>(cursor: &mut Cursor<'a>) -> Step<Head<'a>> {
    let magic = cursor.take("the head", MAGIC.len().min(cursor.left()))?;
    if magic != MAGIC {
        cursor.rewind(0);
        return Err(cursor.fault("an object container file begins with `Obj` and a byte 1"));
    }
    let (mut schema, mut codec) = (None, None);
    while let Some(block) = cursor.block(true)? {
        for _ in 0..block.count {
            let name = cursor.sized("a name of the metadata")?;
            let value = cursor.sized("a value of the metadata")?;
            match name {
                b"avro.schema" => schema = Some(value),
                b"avro.codec" => codec = Some(value),
                _ => {}
            }
        }
        cursor.end_block(&block)?;
    }
    Ok(Head { schema, codec, sync: cursor.fixed("the sync of the head")? })
}

fn block<'a>(cursor: &mut Cursor<'a>, sync: &[u8; SYNC_BYTES]) -> Step<Block<'a>> {
    let at = cursor.position();
    let records = cursor.long()?;
    let Ok(records) = u64::try_from(records) else {
        cursor.rewind(at);
        return Err(cursor.fault(format!("a block cannot have `{records}` records")));
    };
    let bytes = cursor.sized("a block")?;
    let at = cursor.position();
    if cursor.fixed::<SYNC_BYTES>("the sync of a block")? != sync {
        cursor.rewind(at);
        return Err(cursor.fault("the block does not end with the sync of the head: the file is damaged"));
    }
    Ok(Block { records, bytes })
}

#[cfg(test)]
mod tests;
