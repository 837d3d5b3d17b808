//! From runs to one, in the order of keys.
//!
//! Owns the merging, block by block, and which versions it drops. Does not own the choice of the runs (`temporal::spilled`), nor the bytes of a block
//! (`spilled::file`). In memory are a file that is made, some blocks of each run, and what was read ahead. Runs beside the lane; what it made counts once the step
//! has adopted it, and if the process ends before, its files are nobody's and are collected.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::Sizes;
use crate::join::arena::{NONE, Row};
use crate::join::codec::damaged;
use crate::join::columns;
use crate::join::plan::{JoinSide, Plan};
use crate::join::spilled::file::{Builder, File, Rows};
use crate::join::temporal::versions::deletions;

/// Blocks that are put together before they are written, so that each is of its size.
const BLOCKS_TOGETHER: usize = 32;

/// One run as it is read.
struct Source {
    /// Blocks that were not read yet, by key.
    blocks: VecDeque<(Arc<File>, u32)>,
    /// Blocks that were read and not decoded yet.
    read: VecDeque<(Arc<File>, u32, Vec<u8>)>,
    /// The block at hand, and the number of its first version that is dealt with.
    rows: Option<(Rows, usize)>,
}

impl Source {
    /// Whether blocks follow the one at hand.
    fn has_more(&self) -> bool {
        !self.blocks.is_empty() || !self.read.is_empty()
    }

    /// What must be read to go on, up to so many bytes.
    fn ahead(&self, bytes: u64) -> Option<(Arc<File>, Range<u32>)> {
        let (file, first) = self.blocks.front().filter(|_| self.rows.is_none() && self.read.is_empty())?;
        let (mut end, mut sum) = (*first, 0);
        for (other, block) in &self.blocks {
            sum += file.block_bytes(*block) as u64;
            if !Arc::ptr_eq(file, other) || (sum > bytes && end > *first) {
                break;
            }
            end += 1;
        }
        Some((file.clone(), *first..end))
    }
}

/// A merge of runs.
pub(super) struct Merge {
    plan: Arc<Plan>,
    sizes: Sizes,
    /// The runs' numbers, the oldest first; so are the sources.
    numbers: Vec<u64>,
    sources: Vec<Source>,
    /// Versions that delete their key are dropped if they are of before that.
    forgotten_ms: Option<i64>,
    /// What must be read of which source.
    reading: Vec<(usize, Arc<File>, Range<u32>)>,
    /// Versions that stay, and their columns, on their way to the builder.
    together: Vec<(Vec<Row>, Vec<ArrayRef>)>,
    bytes: usize,
    builder: Builder,
    writing: Option<File>,
    parts: Vec<Arc<File>>,
    is_done: bool,
}

impl Merge {
    /// Of these runs, the oldest first.
    pub fn new(
        plan: Arc<Plan>,
        sizes: Sizes,
        runs: Vec<(u64, Vec<Arc<File>>)>,
        forgotten_ms: Option<i64>,
    ) -> Self {
        let numbers = runs.iter().map(|(number, _)| *number).collect();
        let source = |(_, parts): (u64, Vec<Arc<File>>)| {
            let each = |file: Arc<File>| (0..file.blocks()).map(move |block| (file.clone(), block));
            Source { blocks: parts.into_iter().flat_map(each).collect(), read: VecDeque::new(), rows: None }
        };
        Self {
            plan,
            numbers,
            sources: runs.into_iter().map(source).collect(),
            forgotten_ms,
            reading: Vec::new(),
            together: Vec::new(),
            bytes: 0,
            builder: Builder::new(JoinSide::Right, false, sizes.block_bytes),
            writing: None,
            parts: Vec::new(),
            is_done: false,
            sizes,
        }
    }

    /// The numbers of the runs that it replaces, and the files of the new one, once it is done.
    pub fn made(self) -> Option<(Vec<u64>, Vec<Arc<File>>)> {
        self.is_done.then_some((self.numbers, self.parts))
    }

    /// Takes what was read to its sources.
    fn given(&mut self, answers: &[Vec<u8>]) -> Result<(), StateError> {
        let reading = std::mem::take(&mut self.reading);
        if reading.len() != answers.len() {
            return Err(damaged("is merged with answers that were not asked for"));
        }
        for ((number, file, blocks), answer) in reading.into_iter().zip(answers) {
            let (source, mut rest) = (&mut self.sources[number], &answer[..]);
            for block in blocks {
                let own = rest.split_at_checked(file.block_bytes(block));
                let (own, others) = own.ok_or_else(|| damaged("is in a file that ends early"))?;
                source.blocks.pop_front();
                source.read.push_back((file.clone(), block, own.to_vec()));
                rest = others;
            }
        }
        Ok(())
    }

    /// Decodes the next block of each run that has none at hand, and says what must be read for those that cannot.
    fn load(&mut self) -> Result<(), StateError> {
        let each_bytes = self.sizes.read_bytes / self.sources.len().max(1) as u64;
        for (number, source) in self.sources.iter_mut().enumerate() {
            if source.rows.is_none()
                && let Some((file, block, bytes)) = source.read.pop_front()
            {
                source.rows = Some((file.block(&self.plan, block, &bytes)?, 0));
            }
            self.reading.extend(source.ahead(each_bytes).map(|(file, blocks)| (number, file, blocks)));
        }
        Ok(())
    }

    /// Takes all versions up to the least key that ends a block which others follow. All blocks are at hand.
    fn merge(&mut self) -> Result<(), StateError> {
        let last = |source: &Source| {
            source.rows.as_ref().and_then(|(rows, _)| rows.taken.rows.hashes.last().copied())
        };
        let bound = self.sources.iter().filter(|source| source.has_more()).filter_map(last).min();
        // Key, the newest run first, row.
        let mut all: Vec<(u128, std::cmp::Reverse<usize>, usize)> = Vec::new();
        for (number, source) in self.sources.iter_mut().enumerate() {
            let Some((rows, begin)) = &mut source.rows else { continue };
            let hashes = &rows.taken.rows.hashes;
            let end = bound.map_or(hashes.len(), |bound| hashes.partition_point(|hash| *hash <= bound));
            all.extend((*begin..end).map(|row| (hashes[row], std::cmp::Reverse(number), row)));
            *begin = end;
        }
        all.sort_unstable();
        all.dedup_by_key(|(hash, ..)| *hash);
        self.keep(&all)?;
        for source in &mut self.sources {
            source.rows = source.rows.take().filter(|(rows, begin)| *begin < rows.taken.rows.hashes.len());
        }
        Ok(())
    }

    /// Keeps these versions, but for deletions that are forgotten.
    fn keep(&mut self, versions: &[(u128, std::cmp::Reverse<usize>, usize)]) -> Result<(), StateError> {
        let blocks: Vec<&Rows> =
            self.sources.iter().filter_map(|source| Some(&source.rows.as_ref()?.0)).collect();
        let mut slots = vec![usize::MAX; self.sources.len()];
        let with_rows = self.sources.iter().enumerate().filter(|(_, source)| source.rows.is_some());
        with_rows.zip(0..).for_each(|((number, _), slot)| slots[number] = slot);
        let deletes: Vec<_> =
            blocks.iter().map(|rows| deletions(&self.plan, &rows.taken.rows.columns)).collect();
        let (mut kept, mut places) = (Vec::with_capacity(versions.len()), Vec::with_capacity(versions.len()));
        for (hash, std::cmp::Reverse(number), row) in versions {
            let slot = slots[*number];
            let time_ms = blocks[slot].taken.times_ms[*row];
            let is_forgotten = self.forgotten_ms.is_some_and(|forgotten_ms| time_ms < forgotten_ms);
            if !(is_forgotten && deletes[slot](*row)) {
                kept.push(Row { hash: *hash, time_ms, older: NONE, newer: NONE });
                places.push((slot, *row));
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let of = |at: usize| {
            let of_blocks = blocks.iter().map(|rows| rows.taken.rows.columns[at].clone());
            columns::gather(of_blocks.collect(), &places).map_err(damaged)
        };
        let columns: Vec<ArrayRef> =
            (0..self.plan.side(JoinSide::Right).columns.len()).map(of).collect::<Result<_, _>>()?;
        self.bytes += kept.len() * size_of::<Row>();
        self.bytes += columns.iter().map(columns::memory_bytes).sum::<usize>();
        self.together.push((kept, columns));
        if self.bytes >= BLOCKS_TOGETHER * self.sizes.block_bytes {
            self.put()?;
        }
        Ok(())
    }

    /// Hands what is kept to the builder.
    fn put(&mut self) -> Result<(), StateError> {
        let together = std::mem::take(&mut self.together);
        self.bytes = 0;
        if together.is_empty() {
            return Ok(());
        }
        let of = |at: usize| {
            let parts = together.iter().map(|(_, columns)| columns[at].clone()).collect();
            columns::chain(parts).map_err(damaged)
        };
        let columns: Vec<ArrayRef> = (0..together[0].1.len()).map(of).collect::<Result<_, _>>()?;
        let rows: Vec<&Row> = together.iter().flat_map(|(rows, _)| rows).collect();
        debug_assert!(columns.iter().all(|column| column.len() == rows.len()));
        self.builder.part(&self.plan, &rows, &[], &columns);
        Ok(())
    }

    /// Ends the file under construction.
    fn close(&mut self) -> Need {
        let next = Builder::new(JoinSide::Right, false, self.sizes.block_bytes);
        let (bytes, file) = std::mem::replace(&mut self.builder, next).finish();
        self.writing = Some(file);
        Need::Write(bytes)
    }
}

impl StateWork for Merge {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (given, self.writing.take()) {
            (Given::Start, None) => {}
            (Given::Read(answers), None) => self.given(&answers)?,
            (Given::Written(object), Some(mut file)) => {
                file.object = object;
                self.parts.push(Arc::new(file));
            }
            _ => return Err(damaged("is merged with an answer that was not asked for")),
        }
        loop {
            if self.builder.len() as u64 >= self.sizes.run_bytes && self.builder.rows() > 0 {
                return Ok(self.close());
            }
            self.load()?;
            if !self.reading.is_empty() {
                let reads = self.reading.iter().map(|(_, file, blocks)| file.read_all(blocks.clone()));
                return Ok(Need::Read(reads.collect()));
            }
            if self.sources.iter().all(|source| source.rows.is_none() && !source.has_more()) {
                self.put()?;
                if self.builder.rows() > 0 {
                    return Ok(self.close());
                }
                self.is_done = true;
                return Ok(Need::Done);
            }
            self.merge()?;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
