//! The file of a sorted run of windows: blocks of groups, sorted by pane and key, and an index.
//!
//! Owns the bytes, which later versions must read (golden bytes in the tests), and every check on the way in. Does not own the envelope
//! ([`crate::runs`]), nor what the bytes of groups are ([`state`](crate::window::state) has the table).
//!
//! A block is what a snapshot holds of a pane behind its start: groups, keys, counts and aggregates; and, of a step with results before windows close,
//! behind that the seal that each group last had rows in, 8 bytes each. No block has keys of two sections.
//!
//! | footer    | bytes   | meaning                                                                          |
//! |-----------|---------|----------------------------------------------------------------------------------|
//! | version   | 2       | of the envelope: 1                                                               |
//! | sections  | 4       | how many; then of each its pane's start (8) and how many blocks it has (4)       |
//! | blocks    | 4       | how many; then of each its bytes with their checksum (4), groups (4), rows (8), and its first key behind its length (4) |

use std::ops::Range;
use std::sync::Arc;

use dataflow::{StateError, StateRead};

use crate::runs::{Envelope, FileEntry, HEAD, SUM, checked_block, close_block};
use crate::window::encoding::{Reader, put_len};
use crate::window::groups::Groups;
use crate::window::key::Keys;
use crate::window::plan::Plan;

/// The newest version that is read, and the one that is written.
pub const VERSION: u16 = 1;

/// What the files begin and end with.
pub const MAGIC: [u8; 4] = *b"FBWR";

const ENVELOPE: Envelope = Envelope { magic: MAGIC, version: VERSION, what: "a file of spilled windows" };

/// One block, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    offset: u64,
    len: u32,
    groups: u32,
    rows: u64,
    /// Where its first key ends among those of all blocks.
    first_end: u32,
}

/// What stays in memory of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// The object, below the lane's folder.
    pub object: Arc<str>,
    /// Bytes of the file.
    pub len: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The footer's checksum.
    pub sum: u64,
    /// The pane of each section, and the block behind its last.
    sections: Vec<(i64, u32)>,
    blocks: Vec<Block>,
    /// The first keys of all blocks, one after the other.
    firsts: Vec<u8>,
}

/// Blocks of a file that hold keys of one pane.
#[derive(Clone, Debug)]
pub struct Section {
    /// The file.
    pub file: Arc<File>,
    /// The blocks, by key.
    pub blocks: Range<u32>,
}

impl Section {
    /// Blocks of a pane; `None` if the file does not have them.
    pub fn of(file: &Arc<File>, pane: i64, blocks: Range<u32>) -> Option<Self> {
        let begin = |at: usize| at.checked_sub(1).map_or(0, |before| file.sections[before].1);
        let is_it = |(at, (own, end)): (usize, &(i64, u32))| {
            (*own, begin(at), *end) == (pane, blocks.start, blocks.end)
        };
        file.sections.iter().enumerate().any(is_it).then(|| Self { file: file.clone(), blocks })
    }

    /// Every section of a file.
    pub(in crate::window) fn all(file: &Arc<File>) -> Vec<Self> {
        let mut begin = 0;
        let section = |(_, end): &(i64, u32)| {
            let blocks = std::mem::replace(&mut begin, *end)..*end;
            Self { file: file.clone(), blocks }
        };
        file.sections.iter().map(section).collect()
    }

    /// Groups and rows.
    pub fn counts(&self) -> (u64, u64) {
        let blocks = &self.file.blocks[self.blocks.start as usize..self.blocks.end as usize];
        blocks.iter().fold((0, 0), |sum, block| (sum.0 + u64::from(block.groups), sum.1 + block.rows))
    }
}

impl File {
    /// Opens a file from its footer.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    pub(in crate::window) fn open(keys: &Keys, entry: &FileEntry, bytes: &[u8]) -> Result<Self, StateError> {
        let file = Self::of_footer(&entry.object, entry.footer_at, entry.sum, bytes)?;
        let is_right = file.len == entry.len
            && (0..file.blocks.len()).all(|block| keys.is_key(file.first(block as u32)));
        match is_right {
            true => Ok(file),
            false => {
                Err(file.damaged("it is not the file that the snapshot names, or has a key that is none"))
            }
        }
    }

    fn of_footer(object: &str, at: u64, sum: u64, bytes: &[u8]) -> Result<Self, StateError> {
        let (mut fields, len) = ENVELOPE.footer(object, at, sum, bytes)?;
        let mut file = Self {
            object: object.into(),
            len,
            footer_at: at,
            sum,
            sections: Vec::new(),
            blocks: Vec::new(),
            firsts: Vec::new(),
        };
        let mut end = 0_u32;
        for _ in 0..u32::from_le_bytes(fields.array()?) {
            let pane = i64::from_le_bytes(fields.array()?);
            let blocks = u32::from_le_bytes(fields.array()?);
            end = end.checked_add(blocks).ok_or_else(|| fields.damaged("it has too many blocks"))?;
            file.sections.push((pane, end));
        }
        let mut offset = HEAD as u64;
        for _ in 0..u32::from_le_bytes(fields.array()?) {
            let len = u32::from_le_bytes(fields.array()?);
            let groups = u32::from_le_bytes(fields.array()?);
            let rows = u64::from_le_bytes(fields.array()?);
            let key = u32::from_le_bytes(fields.array()?);
            file.firsts.extend_from_slice(fields.take(key as usize)?);
            let first_end = file.firsts.len() as u32;
            if (len as usize) < SUM || groups == 0 || rows < u64::from(groups) || rows > 1 << 48 {
                return Err(fields.damaged("a block's numbers cannot be"));
            }
            file.blocks.push(Block { offset, len, groups, rows, first_end });
            offset += u64::from(len);
        }
        let is_sorted = file.sections.is_sorted_by_key(|(pane, _)| *pane);
        let are_all = end as usize == file.blocks.len() && offset == at && fields.bytes.is_empty();
        match is_sorted && are_all {
            true => Ok(file),
            false => Err(fields.damaged("its numbers do not agree with each other")),
        }
    }

    /// The first key of a block.
    pub fn first(&self, block: u32) -> &[u8] {
        let block = block as usize;
        let begin = block.checked_sub(1).map_or(0, |before| self.blocks[before].first_end);
        &self.firsts[begin as usize..self.blocks[block].first_end as usize]
    }

    /// Bytes of a block.
    pub fn block_bytes(&self, block: u32) -> usize {
        self.blocks[block as usize].len as usize
    }

    /// What must be read to have these blocks.
    pub fn read(&self, blocks: Range<u32>) -> StateRead {
        let (first, last) = (&self.blocks[blocks.start as usize], &self.blocks[blocks.end as usize - 1]);
        let len = last.offset + u64::from(last.len) - first.offset;
        let len = u32::try_from(len).expect("a file has less than 4 GB: so says its footer's place");
        StateRead { object: self.object.clone(), offset: first.offset, len }
    }

    /// The groups of a block, by key.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(in crate::window) fn groups(
        &self,
        plan: &Plan,
        block: u32,
        bytes: &[u8],
    ) -> Result<Groups, StateError> {
        let body = checked_block(bytes, block).map_err(|what| self.damaged_block(block, &what))?;
        let mut from = Reader(body);
        let groups = Groups::read_stamped(plan, &mut from)?;
        let of_index = &self.blocks[block as usize];
        let is_whole = from.0.is_empty()
            && (groups.len() as u64, groups.rows()) == (u64::from(of_index.groups), of_index.rows)
            && groups.key(0) == self.first(block)
            && (1..groups.len()).all(|group| groups.key(group - 1) < groups.key(group));
        match is_whole {
            true => Ok(groups),
            false => Err(self.damaged_block(block, "it holds other groups than the index says")),
        }
    }

    fn damaged(&self, what: &str) -> StateError {
        StateError::Damaged(format!("`{}`: {what}", self.object))
    }

    fn damaged_block(&self, block: u32, what: &str) -> StateError {
        let offset = self.blocks[block as usize].offset;
        StateError::Damaged(format!("`{}`, block `{block}` at byte `{offset}`: {what}", self.object))
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.sections.capacity() * size_of::<(i64, u32)>()
            + self.blocks.capacity() * size_of::<Block>()
            + self.firsts.capacity()
            + self.object.len()
    }
}

/// Reads a whole file of spilled windows and checks its envelope, its index and every block's checksum; the groups cannot be read without the settings
/// of their step. `object` is the name for messages. How many groups it holds.
///
/// # Errors
/// When anything is damaged, or the file is of a newer version.
pub fn verify(object: &str, bytes: &[u8]) -> Result<u64, StateError> {
    let (footer_at, sum) = ENVELOPE.find_footer(object, bytes)?;
    let file = File::of_footer(object, footer_at as u64, sum, &bytes[footer_at..])?;
    for (number, block) in (0..).zip(&file.blocks) {
        let own = &bytes[block.offset as usize..][..block.len as usize];
        checked_block(own, number).map_err(|what| file.damaged_block(number, &what))?;
    }
    Ok(file.blocks.iter().map(|block| u64::from(block.groups)).sum())
}

/// A file under construction.
pub(in crate::window) struct Builder {
    bytes: Vec<u8>,
    sections: Vec<(i64, u32)>,
    blocks: Vec<Block>,
    firsts: Vec<u8>,
    /// Groups that the next block gets, by what those before took.
    groups: usize,
}

impl Builder {
    /// With nothing in it.
    pub fn new() -> Self {
        let mut bytes = Vec::new();
        ENVELOPE.head(&mut bytes);
        Self { bytes, sections: Vec::new(), blocks: Vec::new(), firsts: Vec::new(), groups: 64 }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no block is in it.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The blocks that follow are of this pane.
    pub fn section(&mut self, pane: i64) {
        self.sections.push((pane, self.blocks.len() as u32));
    }

    /// Writes the next block of the section: the first of these groups, which are sorted by key and not none. How many it took.
    pub fn block(&mut self, plan: &Plan, groups: &Groups, order: &[u32], block_bytes: usize) -> usize {
        let at = self.bytes.len();
        let mut count = self.groups.min(order.len());
        let mut picked;
        loop {
            picked = groups.picked(plan, &order[..count]);
            picked.write_stamped(plan, &mut self.bytes);
            let len = self.bytes.len() - at;
            // Groups of arrays and texts differ in size: a block far beyond its size is made again with fewer.
            if len <= 4 * block_bytes || count == 1 {
                self.groups = (count * block_bytes / len.max(1)).clamp(1, 1 << 14).min(2 * count.max(32));
                break;
            }
            self.bytes.truncate(at);
            count = (count * block_bytes / len).clamp(1, count - 1);
        }
        let number = self.blocks.len() as u32;
        close_block(&mut self.bytes, at, number);
        self.firsts.extend_from_slice(groups.key(order[0] as usize));
        self.blocks.push(Block {
            offset: at as u64,
            len: (self.bytes.len() - at) as u32,
            groups: count as u32,
            rows: picked.counts.iter().sum(),
            first_end: self.firsts.len() as u32,
        });
        if let Some((_, end)) = self.sections.last_mut() {
            *end = self.blocks.len() as u32;
        }
        count
    }

    /// The bytes, and what stays in memory of them under a name that is still to be given.
    pub fn finish(self) -> (Vec<u8>, File) {
        let Self { mut bytes, sections, mut blocks, mut firsts, .. } = self;
        blocks.shrink_to_fit();
        firsts.shrink_to_fit();
        let mut file = File { object: "".into(), len: 0, footer_at: 0, sum: 0, sections, blocks, firsts };
        let closed = ENVELOPE.close(&mut bytes, |to| {
            put_len(to, file.sections.len());
            let mut begin = 0;
            for (pane, end) in &file.sections {
                to.extend_from_slice(&pane.to_le_bytes());
                to.extend_from_slice(&(end - begin).to_le_bytes());
                begin = *end;
            }
            put_len(to, file.blocks.len());
            for (number, block) in (0..).zip(&file.blocks) {
                to.extend_from_slice(&block.len.to_le_bytes());
                to.extend_from_slice(&block.groups.to_le_bytes());
                to.extend_from_slice(&block.rows.to_le_bytes());
                put_len(to, file.first(number).len());
                to.extend_from_slice(file.first(number));
            }
        });
        (file.len, file.footer_at, file.sum) = (closed.len, closed.footer_at, closed.sum);
        (bytes, file)
    }
}

#[cfg(test)]
mod tests;
