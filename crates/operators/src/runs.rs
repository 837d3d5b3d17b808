//! The envelope of a file of state: what every file of a sorted run has around its blocks, whichever step wrote them.
//!
//! Owns head, checksums of blocks, footer's end, and every check of those. Does not own what is in a block or a footer: that is the step's
//! (`dedup::spilled::part`, `window::spilled::file`). Numbers are little-endian.
//!
//! | field           | bytes | meaning                                                              |
//! |-----------------|-------|----------------------------------------------------------------------|
//! | magic           | 4     | which step's file it is                                              |
//! | version         | 2     |                                                                      |
//! | reserved        | 2     | 0                                                                    |
//! | blocks          |       | each: its bytes, then XXH3-64 of them with the block's number as the seed |
//! | footer          |       | the version once more (2), then what the step has there; a start reads the footers alone |
//! | checksum        | 8     | XXH3-64 of the footer before it: it identifies the file              |
//! | footer's length | 4     | with its checksum, without this and the last field                   |
//! | magic           | 4     | once more                                                            |

use dataflow::{StateError, StateRead};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes before the first block.
pub const HEAD: usize = 8;

/// Bytes behind the footer's checksum.
pub const TAIL: usize = 8;

/// Bytes of a checksum.
pub const SUM: usize = 8;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// How it begins and ends.
    pub magic: [u8; 4],
    /// The version that is written, and the newest that is read.
    pub version: u16,
    /// What it is, for messages: `a file of …`.
    pub what: &'static str,
}

/// A file as a snapshot names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The object, below the lane's folder.
    pub object: String,
    /// Bytes of the file.
    pub len: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The footer's checksum.
    pub sum: u64,
}

impl FileEntry {
    /// What must be read to open it.
    ///
    /// # Panics
    /// When the footer has 4 GiB: that is checked where the entry is read.
    pub fn footer(&self) -> StateRead {
        StateRead {
            object: self.object.as_str().into(),
            offset: self.footer_at,
            len: u32::try_from(self.len - self.footer_at).expect("bounded when it was read"),
        }
    }

    /// Writes the name as a text behind its length of 16 bits, then the three numbers.
    pub fn put(to: &mut Vec<u8>, object: &str, numbers: [u64; 3]) {
        let len = u16::try_from(object.len()).expect("keys of objects are far shorter");
        to.extend_from_slice(&len.to_le_bytes());
        to.extend_from_slice(object.as_bytes());
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
    }
}

/// Where a file's footer is, once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Bytes of the file.
    pub len: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The footer's checksum.
    pub sum: u64,
}

/// Writes the checksum of the block `number`, whose bytes begin at `from`.
pub fn close_block(bytes: &mut Vec<u8>, from: usize, number: u32) {
    let sum = xxh3_64_with_seed(&bytes[from..], u64::from(number));
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// The bytes of the block `number` without its checksum.
///
/// # Errors
/// What is wrong with it, to be told with the file's name and the block's.
pub fn checked_block(bytes: &[u8], number: u32) -> Result<&[u8], String> {
    let Some((body, sum)) = bytes.split_last_chunk::<SUM>() else {
        return Err("it is cut off".to_owned());
    };
    let (written, found) = (u64::from_le_bytes(*sum), xxh3_64_with_seed(body, u64::from(number)));
    match written == found {
        true => Ok(body),
        false => Err(format!("the checksum says `{written:016x}`, the bytes give `{found:016x}`")),
    }
}

impl Envelope {
    /// Begins a file.
    pub fn head(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.magic);
        to.extend_from_slice(&self.version.to_le_bytes());
        to.extend_from_slice(&[0; 2]);
    }

    /// Writes the footer, of which `write` does all but the version, and ends the file.
    ///
    /// # Panics
    /// When the footer has 4 GiB: no file does.
    pub fn close(&self, bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Closed {
        let footer_at = bytes.len();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        write(bytes);
        let sum = xxh3_64(&bytes[footer_at..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let footer = u32::try_from(bytes.len() - footer_at).expect("a footer is a small part of its file");
        bytes.extend_from_slice(&footer.to_le_bytes());
        bytes.extend_from_slice(&self.magic);
        Closed { len: bytes.len() as u64, footer_at: footer_at as u64, sum }
    }

    /// The fields behind the version of a footer that was read from `at` to the end of the file, and the file's length. `sum` is the checksum that it
    /// must have.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    pub fn footer<'a>(
        &self,
        object: &'a str,
        at: u64,
        sum: u64,
        bytes: &'a [u8],
    ) -> Result<(Fields<'a>, u64), StateError> {
        let mut fields = Fields { object, at, bytes };
        let len = at.checked_add(bytes.len() as u64).filter(|_| at <= u64::from(u32::MAX));
        let Some(len) = len else { return Err(fields.damaged("no part is as long as that")) };
        let Some((rest, tail)) = bytes.split_last_chunk::<TAIL>() else {
            return Err(fields.damaged("it is cut off"));
        };
        let footer = u32::from_le_bytes(tail[..4].try_into().expect("4 of 8 bytes"));
        if tail[4..] != self.magic || u64::from(footer) != rest.len() as u64 {
            return Err(fields.damaged("the file does not end as such a file does"));
        }
        let Some((body, written)) = rest.split_last_chunk::<SUM>() else {
            return Err(fields.damaged("it is cut off"));
        };
        let (written, found) = (u64::from_le_bytes(*written), xxh3_64(body));
        if found != written {
            let what = format!("the checksum says `{written:016x}`, the bytes give `{found:016x}`");
            return Err(fields.damaged(what));
        }
        if found != sum {
            let what = format!("this is another file: its checksum is `{found:016x}`, not `{sum:016x}`");
            return Err(fields.damaged(what));
        }
        fields.bytes = body;
        let version = u16::from_le_bytes(fields.array()?);
        match version > self.version {
            true => Err(StateError::TooNew { found: version, known: self.version }),
            false => Ok((fields, len)),
        }
    }

    /// Where the footer of a whole file begins, and its checksum; the head is checked. `object` is the name for messages.
    ///
    /// # Errors
    /// When the head or the end is damaged, or too new.
    pub fn find_footer(&self, object: &str, bytes: &[u8]) -> Result<(usize, u64), StateError> {
        let damaged = |what: &str| StateError::Damaged(format!("`{object}`: {what}"));
        let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else {
            return Err(damaged("it is cut off"));
        };
        if head[..4] != self.magic {
            return Err(damaged(&format!("this is not {}", self.what)));
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version > self.version {
            return Err(StateError::TooNew { found: version, known: self.version });
        }
        if version == 0 || head[6..] != [0; 2] {
            return Err(damaged("its head was never written like this"));
        }
        let tail = bytes.len().checked_sub(TAIL).ok_or_else(|| damaged("it is cut off"))?;
        let footer = u32::from_le_bytes(bytes[tail..tail + 4].try_into().expect("4 bytes")) as usize;
        let footer_at = tail.checked_sub(footer).filter(|at| *at >= HEAD && footer >= SUM);
        let footer_at = footer_at.ok_or_else(|| damaged("its end is cut off or damaged"))?;
        let sum = u64::from_le_bytes(bytes[tail - SUM..tail].try_into().expect("8 bytes"));
        Ok((footer_at, sum))
    }
}

/// The fields of a footer, read from the front.
pub struct Fields<'a> {
    /// The object, for messages.
    pub object: &'a str,
    /// Where the footer begins.
    pub at: u64,
    /// What is left.
    pub bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Why the footer cannot be read.
    pub fn damaged(&self, what: impl std::fmt::Display) -> StateError {
        StateError::Damaged(format!("`{}`, footer at byte `{}`: {what}", self.object, self.at))
    }

    /// So many bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            return Err(self.damaged(format!("`{len}` bytes are wanted and `{}` left", self.bytes.len())));
        };
        self.bytes = rest;
        Ok(taken)
    }

    /// As many as an array has.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("`take` gives as many as asked for"))
    }
}
