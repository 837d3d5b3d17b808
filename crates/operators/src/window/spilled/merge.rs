//! From the files of a window's panes to pieces of its results.
//!
//! Owns the merging in the order of keys, block by block. Does not own which generations a window has, nor when its pieces leave
//! (`window::spilled`), nor the bytes of a block (`spilled::file`) or which are read next (`spilled::ahead`). In memory are a piece, a block of each generation, and what was read
//! ahead. Runs beside the lane; a piece leaves with the seal that says so, and until then it can be made again.

use std::any::Any;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::ahead::{Ahead, Reading, answered, need};
use super::file::Section;
use super::{Piece, Sizes};
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;

/// Groups of a piece at the most: its results are rows of one batch.
const PIECE_GROUPS_MAX: usize = 1 << 20;

/// Which results of which window.
pub(super) struct Of {
    /// The end of the window.
    pub end: i64,
    /// Whether it fires, and stays open.
    pub fires: bool,
    /// Keys with rows after this seal, of a step with results before windows close.
    pub since: u64,
}

/// One generation as it is read.
struct Cursor {
    /// Whether its rows are held no longer once they have left: the window is the last of its pane.
    is_released: bool,
    /// The blocks behind the one at hand.
    blocks: Ahead,
    /// The block at hand, and the number of its first group that is in no piece.
    groups: Option<(Groups, usize)>,
    /// Bytes of that block for each of its groups.
    group_bytes: usize,
}

/// The merge of a window's generations, between two blocks.
pub(super) struct Merger {
    plan: Arc<Plan>,
    sizes: Sizes,
    of: Of,
    cursors: Vec<Cursor>,
    /// The key up to which all groups are in pieces.
    after: Option<Vec<u8>>,
}

impl Merger {
    /// Of the generations of a window, each with whether its rows are released; the results up to the key `after` have left.
    pub fn new(
        plan: Arc<Plan>,
        sizes: Sizes,
        of: Of,
        generations: Vec<(bool, &[Section])>,
        after: Option<Vec<u8>>,
    ) -> Self {
        let cursor = |(is_released, sections): (bool, &[Section])| {
            let mut blocks = Ahead::new(sections);
            after.iter().for_each(|after| blocks.skip(after));
            Cursor { is_released, blocks, groups: None, group_bytes: 0 }
        };
        Self { plan, sizes, of, cursors: generations.into_iter().map(cursor).collect(), after }
    }

    /// Decodes the next block of each generation that has none at hand, and says what must be read for those that cannot.
    pub fn load(&mut self) -> Result<Vec<Reading>, StateError> {
        let each_bytes = self.sizes.read_bytes / self.cursors.len().max(1);
        let mut reads = Vec::new();
        for (number, cursor) in self.cursors.iter_mut().enumerate() {
            while cursor.groups.is_none()
                && let Some((file, block, bytes)) = cursor.blocks.take()
            {
                let groups = file.groups(&self.plan, block, &bytes)?;
                let begin = self.after.as_ref().map_or(0, |after| groups.end_of(after));
                cursor.group_bytes = bytes.len() / groups.len().max(1);
                cursor.groups = (begin < groups.len()).then_some((groups, begin));
            }
            if cursor.groups.is_none() {
                reads.extend(cursor.blocks.wanted(each_bytes).map(|(file, blocks)| (number, file, blocks)));
            }
        }
        Ok(reads)
    }

    /// Takes what was read to its generations.
    ///
    /// # Errors
    /// When it is not what was asked for.
    pub fn given(&mut self, reading: Vec<Reading>, answers: Vec<Vec<u8>>) -> Result<(), StateError> {
        for ((number, file, blocks), answer) in answered(reading, answers)? {
            self.cursors[number].blocks.give(&file, blocks, &answer)?;
        }
        Ok(())
    }

    /// As [`merge`](Self::merge), but of a step with results before windows close those groups alone that are new.
    fn merge_new(&mut self, piece: &mut Groups) -> (usize, u64) {
        if self.plan.emit.is_none() {
            return self.merge(piece);
        }
        let mut all = Groups::new(&self.plan.keys, &self.plan.aggregates);
        let (taken, released) = self.merge(&mut all);
        let new = all.changed_after(self.of.since);
        piece.take_stamped(&all, &new);
        (taken * new.len() / all.len().max(1), released)
    }

    /// Moves all groups up to the least key that ends a block which others follow; the bytes that they took, and the rows that are released with
    /// them. All blocks are at hand.
    pub fn merge(&mut self, piece: &mut Groups) -> (usize, u64) {
        let ends = self.cursors.iter().filter(|cursor| cursor.blocks.has_more()).filter_map(|cursor| {
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

    pub fn is_done(&self) -> bool {
        self.cursors.iter().all(|cursor| cursor.groups.is_none() && !cursor.blocks.has_more())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |cursor: &Cursor| {
            cursor.blocks.memory_bytes()
                + cursor.groups.as_ref().map_or(0, |(groups, _)| groups.memory_bytes())
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
        let Of { end, fires, .. } = merger.of;
        let piece = Piece { end, fires, groups, released, after, is_last: merger.is_done() };
        is_done.then_some((merger, piece))
    }
}

impl StateWork for Leave {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match given {
            Given::Start => {}
            Given::Read(answers) => self.merger.given(std::mem::take(&mut self.reading), answers)?,
            Given::Written(_) => return Err(damaged("is read with an answer that was not asked for")),
        }
        loop {
            self.reading = self.merger.load()?;
            if !self.reading.is_empty() {
                return Ok(need(&self.reading));
            }
            let is_full = self.bytes >= self.merger.sizes.piece_bytes || self.piece.len() >= PIECE_GROUPS_MAX;
            if self.merger.is_done() || is_full {
                self.is_done = true;
                return Ok(Need::Done);
            }
            let (bytes, released) = self.merger.merge_new(&mut self.piece);
            self.bytes += bytes;
            self.released += released;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
