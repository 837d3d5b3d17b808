//! The blocks of sorted files in the order of keys, read ahead.
//!
//! Owns which blocks are read next, how many at once, and those that were read and are not taken yet. Does not own what is in a block (`spilled::file`), nor how the
//! blocks of several are merged.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::Need;

use super::file::{File, Section};
use crate::window::encoding::damaged;

/// Blocks of a file that must be read, and the number of the merged part that needs them.
pub type Reading = (usize, Arc<File>, Range<u32>);

/// The blocks of one part of a merge.
pub struct Ahead {
    /// Blocks that were not read yet, by key.
    blocks: VecDeque<(Arc<File>, u32)>,
    /// Blocks that were read and not taken yet.
    read: VecDeque<(Arc<File>, u32, Vec<u8>)>,
}

impl Ahead {
    /// Of sections that are in the order of keys.
    pub fn new(sections: &[Section]) -> Self {
        let each = |section: &Section| {
            let file = section.file.clone();
            section.blocks.clone().map(move |block| (file.clone(), block))
        };
        Self { blocks: sections.iter().flat_map(each).collect(), read: VecDeque::new() }
    }

    /// Leaves out the blocks in which all keys are up to this one.
    pub fn skip(&mut self, after: &[u8]) {
        let begun = self.blocks.partition_point(|(file, block)| file.first(*block) <= after);
        self.blocks.drain(..begun.saturating_sub(1));
    }

    /// Whether there are blocks that were not taken yet.
    pub fn has_more(&self) -> bool {
        !self.blocks.is_empty() || !self.read.is_empty()
    }

    /// The next block, if it was read.
    pub fn take(&mut self) -> Option<(Arc<File>, u32, Vec<u8>)> {
        self.read.pop_front()
    }

    /// What must be read to go on: neighbours in one file, up to so many bytes, at least one block. Nothing while there is one to take.
    pub fn wanted(&self, bytes: usize) -> Option<(Arc<File>, Range<u32>)> {
        let (file, first) = self.blocks.front().filter(|_| self.read.is_empty())?;
        let (mut end, mut sum) = (*first, 0);
        for (other, block) in &self.blocks {
            sum += file.block_bytes(*block);
            if !Arc::ptr_eq(file, other) || *block != end || (sum > bytes && end > *first) {
                break;
            }
            end += 1;
        }
        Some((file.clone(), *first..end))
    }

    /// Takes what was read of the blocks that were [wanted](Self::wanted).
    ///
    /// # Errors
    /// When there are fewer bytes than the blocks have.
    pub fn give(&mut self, file: &Arc<File>, blocks: Range<u32>, bytes: &[u8]) -> Result<(), StateError> {
        let mut rest = bytes;
        for block in blocks {
            let own = rest.split_at_checked(file.block_bytes(block));
            let (own, others) = own.ok_or_else(|| damaged("is in a file that ends early"))?;
            self.blocks.pop_front();
            self.read.push_back((file.clone(), block, own.to_vec()));
            rest = others;
        }
        Ok(())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.read.iter().map(|(.., bytes)| bytes.len()).sum::<usize>()
            + self.blocks.len() * size_of::<(Arc<File>, u32)>()
    }
}

/// What to ask for so that these are read.
pub fn need(reading: &[Reading]) -> Need {
    Need::Read(reading.iter().map(|(_, file, blocks)| file.read(blocks.clone())).collect())
}

/// Each of what was asked for with its answer.
///
/// # Errors
/// When there are more or fewer answers.
pub fn answered(
    reading: Vec<Reading>,
    answers: Vec<Vec<u8>>,
) -> Result<impl Iterator<Item = (Reading, Vec<u8>)>, StateError> {
    match reading.len() == answers.len() {
        true => Ok(reading.into_iter().zip(answers)),
        false => Err(damaged("is read with answers that were not asked for")),
    }
}
