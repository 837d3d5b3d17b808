//! One followed file that is open: its bytes become blocks, once it is certain whose they are.
//!
//! Owns the check behind every block. Does not own what becomes of a file that is not what it was (`decide`).
//!
//! A file may be emptied and written again at any moment, so nothing that was read of it is handed out before it is seen *behind* the read that the
//! file still has its beginning, its length, and the bytes in front of where the read began. What does not stand this is dropped, and read again
//! where the content is now.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use dataflow::{BlockBuilder, RecordBlock, SourceError};
use files::identity::head;
use files::{Beginning, Identity, Node};

use super::decide::Spot;
use super::known::{Content, Known};
use crate::file::lines::Lines;
use crate::file::mark::{self, Mark};
use crate::file::{FileOptions, find, reader};

/// Bytes read by one call.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// An open file.
pub(super) struct Reading {
    file: File,
    pub spot: Spot,
    /// What it is known by, more and more.
    pub identity: Identity,
    lines: Lines,
    block: BlockBuilder,
    /// Where the last check ended, and a hash of the bytes in front of that.
    checked: (u64, u64),
    _counted: Counted,
}

/// One of the files that are open.
struct Counted(Arc<AtomicUsize>);

/// What was read.
#[allow(
    clippy::large_enum_variant,
    reason = "it is handed on at once, and a box would be one more allocation for each block"
)]
pub(super) enum Read {
    /// Records, and behind them nothing that is known.
    Block(RecordBlock),
    /// All records; bytes of a line without its end are left.
    End { next: u64, mark: Mark, left: u64 },
    /// The file is not what it was, and nothing was read.
    Replaced,
}

/// A file as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub bytes: u64,
    pub modified: Option<SystemTime>,
    /// No name leads to it.
    pub is_deleted: bool,
}

impl Reading {
    /// Opens the file of a spot for reading on where `known` is, as one more of those that are `open`; `None` if it is another file by now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(
        known: &Known,
        spot: &Spot,
        options: &FileOptions,
        open: &Arc<AtomicUsize>,
    ) -> Result<Option<Self>, SourceError> {
        let failed = |error| find::failed(&spot.path, "opened", &error);
        let file = match files::open(&spot.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let is_it = Node::of(&file.metadata().map_err(failed)?).is(&spot.node);
        let content = known.content(&file, &head(&file).map_err(failed)?).map_err(failed)?;
        if !is_it || !matches!(content, Content::All(_)) {
            return Ok(None);
        }
        let next = known.next()?;
        let lines = match options.csv {
            Some(csv) => Lines::of_csv(csv, next, options.line_bytes_max),
            None => Lines::new(next, options.line_bytes_max),
        };
        let mut block = BlockBuilder::new(known.from.partition.clone(), known.from.next);
        if let Some(first) = first_record(&file, spot, next, options)? {
            block.head(first);
        }
        let checked = (next, hash_before(&file, next).map_err(failed)?);
        let (spot, identity) = (spot.clone(), known.identity.clone());
        let _counted = Counted::new(open);
        Ok(Some(Self { file, spot, identity, lines, block, checked, _counted }))
    }

    /// The file as it is now.
    ///
    /// # Errors
    /// When nobody can say.
    pub fn state(&self) -> io::Result<State> {
        let metadata: Metadata = self.file.metadata()?;
        Ok(State {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            is_deleted: metadata.nlink() == 0,
        })
    }

    /// Whether all that is left is blank.
    pub fn is_blank(&self) -> bool {
        self.lines.is_blank()
    }

    /// Reads on for one block, or to the end. After [`Read::Replaced`] or an error it is of no use any more.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn advance(&mut self, chunk: &mut [u8], go_on: &dyn Fn() -> bool) -> Result<Read, SourceError> {
        let Self { file, spot, lines, block, .. } = self;
        let failed = |error| find::failed(&spot.path, "read", &error);
        let mut is_at_end = false;
        while !block.is_full() && !is_at_end && go_on() {
            match file.read_at(chunk, lines.offset()) {
                Ok(0) => is_at_end = true,
                Ok(read) => {
                    lines.feed(&chunk[..read], block);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        // A block that is full may have ended the file: nobody would say so of the position later, since it does not move.
        if block.is_full() && lines.is_blank() {
            is_at_end = file.metadata().map_err(failed)?.len() <= lines.offset();
        }
        let left = if is_at_end { lines.finish(block, false) } else { 1 };
        let next = lines.next();
        let is_end = is_at_end && (left == 0 || lines.is_blank());
        // All that is said of the file is found out before it is checked.
        let mark = Mark::of(file, next, is_end).map_err(failed)?;
        let checked = (lines.offset(), hash_before(file, lines.offset()).map_err(failed)?);
        if !self.is_intact().map_err(|error| find::failed(&self.spot.path, "read", &error))? {
            return Ok(Read::Replaced);
        }
        self.checked = checked;
        if self.block.is_empty() {
            return Ok(Read::End { next, mark, left });
        }
        self.block.leader_epoch_at_end(mark.epoch());
        Ok(Read::Block(self.block.take()))
    }

    /// Whether the file has all that was read of it.
    fn is_intact(&mut self) -> io::Result<bool> {
        let (offset, expected) = self.checked;
        if hash_before(&self.file, offset)? != expected {
            return Ok(false);
        }
        let begins = head(&self.file)?;
        // Last: a file that has become shorter had other bytes before, or none.
        let metadata = self.file.metadata()?;
        if metadata.len() < self.lines.offset() || self.identity.beginning(&begins) != Beginning::Alike {
            return Ok(false);
        }
        if self.identity.covers() < begins.len() as u64 {
            self.identity = self.identity.grown(&begins);
        }
        Ok(true)
    }
}

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first record of a CSV file that names the fields, where reading begins behind it.
fn first_record(
    file: &File,
    spot: &Spot,
    next: u64,
    options: &FileOptions,
) -> Result<Option<Arc<[u8]>>, SourceError> {
    let Some(csv) = options.csv.filter(|csv| csv.has_head && next > 0) else { return Ok(None) };
    let failed = |error| find::failed(&spot.path, "read", &error);
    let file = file.try_clone().map_err(failed)?;
    reader::head(csv, file, &spot.path, options, &|| true).map_err(failed)
}

/// A hash of the last bytes in front of `offset`, as many as a mark is made of; of fewer if the file is shorter.
fn hash_before(file: &File, offset: u64) -> io::Result<u64> {
    let length = offset.min(mark::BYTES);
    let mut bytes = [0; mark::BYTES as usize];
    let bytes = &mut bytes[..length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset - length + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files::hash(&bytes[..filled]))
}

#[cfg(test)]
mod tests;
