//! What a position in a file says of the bytes in front of it.
//!
//! Owns its form in the 32 bits that a position has beside it ([`dataflow::ReadFrom::leader_epoch`]). Does not own what follows from a
//! mark that does not fit (`place`).
//!
//! | bits | what they are                                                                                     |
//! |------|---------------------------------------------------------------------------------------------------|
//! | 0    | 1 if the file ended at the position when it was read to there, so that it may go                    |
//! | 1–30 | of a hash of the last [`BYTES`] bytes in front of the position; 0 if it is not known              |
//! | 31   | 0; no mark is a negative number                                                                   |
//!
//! An identity covers the file's beginning as it was when it was first seen, which may have been one line. The mark tells a file that has
//! grown from one that was written over in place with the same beginning, such as the header of CSV. Of a compressed file the inflated bytes are
//! hashed: they tell a good copy of a damaged file, however it was compressed, from another file. To compare them takes inflating the file, so that is
//! done only where its beginning has changed. Earlier programs recorded no hash for compressed files.

use std::fs::File;
use std::io;

/// Bytes in front of a position that are hashed.
pub(super) const BYTES: u64 = files::BEFORE_BYTES;

/// Bits of the hash: files that were written over are taken for grown ones once in a thousand million times.
const HASH_BITS: u32 = 30;

/// What is known of a position beside its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Whether the file ended there.
    pub is_end: bool,
    /// Not 0.
    hash: Option<u32>,
}

impl Mark {
    /// Of a position in the middle of a file whose bytes cannot be compared.
    pub(super) fn none(is_end: bool) -> Self {
        Self { is_end, hash: None }
    }

    /// Of the position `next` of a plain file; without a hash if the file has not that many bytes any more.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(file: &File, next: u64, is_end: bool) -> io::Result<Self> {
        Ok(Self { is_end, hash: hash_before(file, next)? })
    }

    /// Of a position behind these inflated bytes.
    pub(super) fn behind(bytes: &[u8], is_end: bool) -> Self {
        Self { is_end, hash: hash_of(bytes) }
    }

    /// Whether the bytes in front of the position are known, and are these.
    pub(super) fn is_behind(self, bytes: &[u8]) -> bool {
        self.hash.is_some() && self.hash == hash_of(bytes)
    }

    /// Whether the plain file may have been read to `next` when this was recorded.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn fits(self, file: &File, next: u64) -> io::Result<bool> {
        Ok(self.hash.is_none() || self.hash == hash_before(file, next)?)
    }

    /// Whether it says anything of the bytes in front of the position.
    pub(super) fn has_hash(self) -> bool {
        self.hash.is_some()
    }

    /// Its form beside a position.
    pub(super) fn epoch(self) -> i32 {
        self.hash.map_or(0, |hash| (hash << 1) as i32) | i32::from(self.is_end)
    }
}

impl From<i32> for Mark {
    fn from(epoch: i32) -> Self {
        let bits = u32::try_from(epoch).unwrap_or(0);
        Self { is_end: bits & 1 == 1, hash: Some(bits >> 1).filter(|hash| *hash != 0) }
    }
}

fn hash_before(file: &File, next: u64) -> io::Result<Option<u32>> {
    Ok(files::hash_before(file, next)?.map(shortened))
}

/// Adds to the last bytes that a mark may be made of.
pub(super) fn keep_last(bytes: &mut Vec<u8>, more: &[u8]) {
    let most = BYTES as usize;
    bytes.extend_from_slice(&more[more.len().saturating_sub(most)..]);
    bytes.drain(..bytes.len().saturating_sub(most));
}

/// The last inflated bytes of a compressed file, to make the mark of a position of.
#[derive(Debug)]
pub(super) struct Trail {
    /// Those in front of the last position that was seen.
    before: Vec<u8>,
    position: u64,
    /// Those in front of all that was not read yet.
    recent: Vec<u8>,
    offset: u64,
}

impl Trail {
    /// From a position on that stands behind these bytes.
    pub(super) fn new(position: u64, before: Vec<u8>) -> Self {
        Self { recent: before.clone(), before, position, offset: position }
    }

    /// Goes on over a chunk, behind which `next` is the position of the next record.
    pub(super) fn pass(&mut self, chunk: &[u8], next: u64) {
        let of_chunk = usize::try_from(next.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        if next > self.offset && of_chunk <= chunk.len() {
            self.before.clone_from(&self.recent);
            keep_last(&mut self.before, &chunk[..of_chunk]);
            self.position = next;
        }
        keep_last(&mut self.recent, chunk);
        self.offset += chunk.len() as u64;
    }

    /// The mark of a position; without a hash if the bytes in front of it are not here.
    pub(super) fn mark(&self, next: u64, is_end: bool) -> Mark {
        let before = match next {
            _ if next == self.position => &self.before,
            _ if next == self.offset => &self.recent,
            _ => return Mark::none(is_end),
        };
        let is_whole = before.len() as u64 == next.min(BYTES);
        if is_whole { Mark::behind(before, is_end) } else { Mark::none(is_end) }
    }
}

/// `None` of no bytes.
fn hash_of(bytes: &[u8]) -> Option<u32> {
    (!bytes.is_empty()).then(|| shortened(files::hash(bytes)))
}

fn shortened(hash: u64) -> u32 {
    ((hash >> (u64::BITS - HASH_BITS)) as u32).max(1)
}

#[cfg(test)]
mod tests;
