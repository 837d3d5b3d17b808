//! From the files of a window's panes to pieces of its results.
//!
//! Owns the merging in the order of keys, block by block. Does not own which generations a window has, nor when its pieces leave
//! (`window::spilled`), nor the bytes of a block (`spilled::file`). In memory are a piece, a block of each generation, and what was read
//! ahead. Runs beside the lane; a piece leaves with the seal that says so, and until then it can be made again.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::file::{File, Section};
use super::{Piece, Sizes};
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;

/// Groups of a piece at the most: its results are rows of one batch.
const PIECE_GROUPS_MAX: usize = 1 << 20;

/// Blocks that must be read, and the number of their generation.
type Reading = (usize, Arc<File>, std::ops::Range<u32>);

/// One generation as it is read.
struct Cursor {
    /// Whether its rows are held no longer once they have left: the window is the last of its pane.
    is_released: bool,
    /// Blocks that were not read yet, by key.
    blocks: VecDeque<(Arc<File>, u32)>,
    /// Blocks that were read and not decoded yet.
    read: VecDeque<(Arc<File>, u32, Vec<u8>)>,
    /// The block at hand, and the number of its first group that is in no piece.
    groups: Option<(Groups, usize)>,
    /// Bytes of that block for each of its groups.
    group_bytes: usize,
}

impl Cursor {
    /// Whether blocks follow the one at hand.
    fn has_more(&self) -> bool {
        !self.blocks.is_empty() || !self.read.is_empty()
    }

    /// What must be read to go on, up to so many bytes.
    fn ahead(&self, bytes: usize) -> Option<(Arc<File>, std::ops::Range<u32>)> {
        let (file, first) = self.blocks.front().filter(|_| self.groups.is_none() && self.read.is_empty())?;
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
}

/// The merge of a window's generations, between two blocks.
pub(super) struct Merger {
    plan: Arc<Plan>,
    sizes: Sizes,
    end: i64,
    cursors: Vec<Cursor>,
    /// The key up to which all groups are in pieces.
    after: Option<Vec<u8>>,
}

impl Merger {
    /// Of the generations of the window that ends then, each with whether its rows are released; the results up to the key `after` have left.
    pub fn new(
        plan: Arc<Plan>,
        sizes: Sizes,
        end: i64,
        generations: Vec<(bool, &[Section])>,
        after: Option<Vec<u8>>,
    ) -> Self {
        let cursor = |(is_released, sections): (bool, &[Section])| {
            let each = |section: &Section| {
                let file = section.file.clone();
                section.blocks.clone().map(move |block| (file.clone(), block))
            };
            let mut blocks: VecDeque<(Arc<File>, u32)> = sections.iter().flat_map(each).collect();
            if let Some(after) = &after {
                let begun = blocks.partition_point(|(file, block)| file.first(*block) <= &after[..]);
                blocks.drain(..begun.saturating_sub(1));
            }
            Cursor { is_released, blocks, read: VecDeque::new(), groups: None, group_bytes: 0 }
        };
        Self { plan, sizes, end, cursors: generations.into_iter().map(cursor).collect(), after }
    }

    /// Decodes the next block of each generation that has none at hand, and says what must be read for those that cannot.
    fn load(&mut self) -> Result<Vec<Reading>, StateError> {
        let each_bytes = self.sizes.read_bytes / self.cursors.len().max(1);
        let mut reads = Vec::new();
        for (number, cursor) in self.cursors.iter_mut().enumerate() {
            while cursor.groups.is_none()
                && let Some((file, block, bytes)) = cursor.read.pop_front()
            {
                let groups = file.groups(&self.plan, block, &bytes)?;
                let begin = self.after.as_ref().map_or(0, |after| groups.end_of(after));
                cursor.group_bytes = bytes.len() / groups.len().max(1);
                cursor.groups = (begin < groups.len()).then_some((groups, begin));
            }
            reads.extend(cursor.ahead(each_bytes).map(|(file, blocks)| (number, file, blocks)));
        }
        Ok(reads)
    }

    /// Moves all groups up to the least key that ends a block which others follow; the bytes that they took, and the rows that are released with
    /// them. All blocks are at hand.
    fn merge(&mut self, piece: &mut Groups) -> (usize, u64) {
        let ends = self.cursors.iter().filter(|cursor| cursor.has_more()).filter_map(|cursor| {
            let (groups, _) = cursor.groups.as_ref()?;
            Some(groups.key(groups.len() - 1))
        });
        let bound: Option<Vec<u8>> = ends.min().map(<[u8]>::to_vec);
        let (mut taken, mut released) = (0, 0);
        for cursor in &mut self.cursors {
            let Some((groups, begin)) = &mut cursor.groups else { continue };
            let end = bound.as_ref().map_or(groups.len(), |bound| groups.end_of(bound));
            if end > *begin {
                piece.merge_some(groups, *begin as u32..end as u32);
                taken += (end - *begin) * cursor.group_bytes;
                if cursor.is_released {
                    released += groups.counts[*begin..end].iter().sum::<u64>();
                }
                self.after = self.after.take().max(Some(groups.key(end - 1).to_vec()));
                *begin = end;
            }
            if *begin == groups.len() {
                cursor.groups = None;
            }
        }
        (taken, released)
    }

    fn is_done(&self) -> bool {
        self.cursors.iter().all(|cursor| cursor.groups.is_none() && !cursor.has_more())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |cursor: &Cursor| {
            cursor.read.iter().map(|(.., bytes)| bytes.len()).sum::<usize>()
                + cursor.groups.as_ref().map_or(0, |(groups, _)| groups.memory_bytes())
                + cursor.blocks.len() * size_of::<(Arc<File>, u32)>()
        };
        self.cursors.iter().map(of).sum()
    }
}

/// The making of one piece.
pub(super) struct Leave {
    merger: Box<Merger>,
    piece: Groups,
    released: u64,
    bytes: usize,
    reading: Vec<Reading>,
    is_done: bool,
}

impl Leave {
    /// The next of a merge.
    pub fn new(merger: Box<Merger>) -> Self {
        let piece = Groups::new(&merger.plan.keys, &merger.plan.aggregates);
        Self { merger, piece, released: 0, bytes: 0, reading: Vec::new(), is_done: false }
    }

    /// The piece, once it is whole, and the merge that goes on behind it.
    pub fn made(self) -> Option<(Box<Merger>, Piece)> {
        let Self { merger, piece: groups, released, is_done, .. } = self;
        let after = merger.after.clone().unwrap_or_default();
        let piece = Piece { end: merger.end, groups, released, after, is_last: merger.is_done() };
        is_done.then_some((merger, piece))
    }

    /// Takes what was read to its generations.
    fn given(&mut self, answers: Vec<Vec<u8>>) -> Result<(), StateError> {
        let reading = std::mem::take(&mut self.reading);
        if reading.len() != answers.len() {
            return Err(damaged("is read with answers that were not asked for"));
        }
        for ((number, file, blocks), answer) in reading.into_iter().zip(answers) {
            let cursor = &mut self.merger.cursors[number];
            let mut rest = &answer[..];
            for block in blocks {
                let own = rest.split_at_checked(file.block_bytes(block));
                let (own, others) = own.ok_or_else(|| damaged("is in a file that ends early"))?;
                cursor.blocks.pop_front();
                cursor.read.push_back((file.clone(), block, own.to_vec()));
                rest = others;
            }
        }
        Ok(())
    }
}

impl StateWork for Leave {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match given {
            Given::Start => {}
            Given::Read(answers) => self.given(answers)?,
            Given::Written(_) => return Err(damaged("is read with an answer that was not asked for")),
        }
        loop {
            self.reading = self.merger.load()?;
            if !self.reading.is_empty() {
                return Ok(Need::Read(
                    self.reading.iter().map(|(_, file, blocks)| file.read(blocks.clone())).collect(),
                ));
            }
            let is_full = self.bytes >= self.merger.sizes.piece_bytes || self.piece.len() >= PIECE_GROUPS_MAX;
            if self.merger.is_done() || is_full {
                self.is_done = true;
                return Ok(Need::Done);
            }
            let (bytes, released) = self.merger.merge(&mut self.piece);
            self.bytes += bytes;
            self.released += released;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
