//! Which blocks of runs are needed, and the versions found there.
//!
//! Owns the two ways to a version in a file. Rows that a seal releases get theirs in *passes*: each key is looked for in the newest run whose filter has it, and if
//! the filter was wrong, in the next one; blocks are read some at a time, each once a pass. A batch of the right side with versions of before the floor asks all runs whose filter has their key at once, because it is read
//! for once; such versions are few. Does not own the columns of what was found (`hand`), nor which rows ask (`temporal::spilling`).

use std::collections::{HashMap, VecDeque};

use arrow_array::ArrayRef;
use dataflow::{StateError, StateRead};

use super::{Run, Spilled};
use crate::join::codec::damaged;
use crate::join::columns;
use crate::join::plan::{JoinSide, Plan};
use crate::join::spilled::file::{File, Rows};
use crate::join::temporal::DELETED_MS;
use crate::join::temporal::results::Place;
use crate::join::temporal::versions::deletions;

/// A block that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    /// The number of the run, the file there, and the block there.
    run: u64,
    part: u32,
    block: u32,
    hash: u128,
}

impl Hit {
    fn is_beside(&self, other: &Self) -> bool {
        (self.run, self.part, self.block) == (other.run, other.part, other.block)
    }
}

/// A reading for one seal.
pub(super) struct Reading {
    /// The floor of the seal.
    floor_ms: i64,
    /// What is still to be read of this pass, by block.
    left: VecDeque<Hit>,
    /// What was asked for.
    asked: Vec<Hit>,
    /// Keys of this pass, and the run that each was looked for in.
    tried: Vec<(u128, u64)>,
    is_done: bool,
}

/// Blocks that may say that versions of a batch are late.
#[derive(Debug, Default)]
pub(in crate::join::temporal) struct Candidates {
    hits: Vec<Hit>,
    /// How many of the blocks are in files.
    reads: usize,
}

impl Run {
    /// Calls `each` with the file and the block that may have a key.
    fn blocks_of(&self, hash: u128, mut each: impl FnMut(u32, u32)) {
        let high = (hash >> 64) as u64;
        let end = self.parts.partition_point(|file| file.first_high() <= high);
        let begin = self.parts[..end].partition_point(|file| file.first_high() < high).saturating_sub(1);
        for (part, file) in self.parts.iter().enumerate().take(end).skip(begin) {
            if file.may_hold(hash) {
                file.blocks_of(hash).for_each(|block| each(part as u32, block));
            }
        }
    }

    fn file(&self, part: u32) -> &File {
        &self.parts[part as usize]
    }

    /// The versions of a block, which is in memory or was read.
    fn block<'a>(
        &self,
        plan: &Plan,
        hit: &Hit,
        answers: &mut impl Iterator<Item = &'a Vec<u8>>,
    ) -> Result<Rows, StateError> {
        let file = self.file(hit.part);
        let Some(bytes) = &self.bytes else {
            let answer = answers.next().ok_or_else(|| damaged("gets fewer blocks than it asked for"))?;
            return file.block(plan, hit.block, answer);
        };
        let read = file.read(hit.block);
        let own = bytes.get(read.offset as usize..).and_then(|rest| rest.get(..read.len as usize));
        file.block(plan, hit.block, own.unwrap_or_default())
    }
}

impl Spilled {
    fn run(&self, number: u64) -> Result<&Run, StateError> {
        let at = self.runs.binary_search_by_key(&number, |run| run.number);
        at.map(|at| &self.runs[at]).map_err(|_| damaged("is read in a run that it does not have"))
    }

    /// The blocks of the next pass: of each key those of the newest run of before the given one whose filter has it. By block.
    fn pass(&self, mut keys: Vec<(u128, u64)>) -> Vec<Hit> {
        let mut hits = Vec::new();
        for run in self.runs.iter().rev() {
            keys.retain(|(hash, below)| {
                let before = hits.len();
                if run.number < *below {
                    let hit = |part, block| Hit { run: run.number, part, block, hash: *hash };
                    run.blocks_of(*hash, |part, block| hits.push(hit(part, block)));
                }
                hits.len() == before
            });
        }
        hits.sort_unstable();
        hits
    }

    /// What must be read next before a seal can release by the floor `floor_ms` the rows with the keys that `asked` names. It is [taken](Self::read), and asked again, until there is nothing.
    ///
    /// # Errors
    /// When a block is damaged.
    pub fn reads(
        &mut self,
        plan: &Plan,
        floor_ms: i64,
        asked: impl FnOnce() -> Vec<u128>,
    ) -> Result<Vec<StateRead>, StateError> {
        if self.hand.reading.as_ref().is_none_or(|reading| reading.floor_ms != floor_ms) {
            let mut keys = asked();
            keys.sort_unstable();
            keys.dedup();
            keys.retain(|hash| !self.hand.has(*hash));
            let (left, asked) = (VecDeque::new(), Vec::new());
            let tried = keys.into_iter().map(|hash| (hash, u64::MAX)).collect();
            self.hand.reading = Some(Reading { floor_ms, left, asked, tried, is_done: false });
        }
        loop {
            let Some(mut reading) = self.hand.reading.take() else { return Ok(Vec::new()) };
            if reading.left.is_empty() && !reading.is_done {
                let mut keys = std::mem::take(&mut reading.tried);
                keys.retain(|(hash, _)| !self.hand.has(*hash));
                reading.left = self.pass(keys).into();
                reading.tried = reading.left.iter().map(|hit| (hit.hash, hit.run)).collect();
                reading.tried.sort_unstable();
                reading.tried.dedup();
                reading.is_done = reading.left.is_empty();
            }
            let (reads, is_done) = (self.next_reads(&mut reading)?, reading.is_done);
            self.hand.reading = Some(reading);
            if is_done || !reads.is_empty() {
                return Ok(reads);
            }
            self.read(plan, &[])?;
        }
    }

    /// Some of what is left to read.
    fn next_reads(&self, reading: &mut Reading) -> Result<Vec<StateRead>, StateError> {
        let (mut reads, mut sum) = (Vec::new(), 0);
        reading.asked.clear();
        while let Some(hit) = reading.left.front().copied() {
            if reading.asked.last().is_none_or(|last| !last.is_beside(&hit)) {
                if sum >= self.sizes.read_bytes {
                    break;
                }
                let run = self.run(hit.run)?;
                let read = run.file(hit.part).read(hit.block);
                sum += u64::from(read.len);
                if run.bytes.is_none() {
                    reads.push(read);
                }
            }
            reading.asked.push(hit);
            reading.left.pop_front();
        }
        Ok(reads)
    }

    /// Takes what was read.
    ///
    /// # Errors
    /// When a block is damaged, or was not asked for.
    pub fn read(&mut self, plan: &Plan, answers: &[Vec<u8>]) -> Result<(), StateError> {
        let reading = self.hand.reading.as_mut();
        let asked = reading.map(|reading| std::mem::take(&mut reading.asked));
        let asked = asked.ok_or_else(|| damaged("gets blocks that it did not ask for"))?;
        let mut answers = answers.iter();
        let (mut blocks, mut found, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for hits in asked.chunk_by(Hit::is_beside) {
            let rows = self.run(hits[0].run)?.block(plan, &hits[0], &mut answers)?;
            let deletes = deletions(plan, &rows.taken.rows.columns);
            let before = found.len();
            for hit in hits {
                if let Ok(row) = rows.taken.rows.hashes.binary_search(&hit.hash) {
                    found.push((hit.hash, deletes(row)));
                    places.push((blocks.len(), row));
                }
            }
            // Blocks that a filter asked for by mistake are not kept.
            if found.len() > before {
                blocks.push(rows);
            }
        }
        if answers.next().is_some() {
            return Err(damaged("gets blocks that it did not ask for"));
        }
        if found.is_empty() {
            return Ok(());
        }
        let of = |at: usize| {
            let of_blocks = blocks.iter().map(|rows: &Rows| rows.taken.rows.columns[at].clone());
            columns::gather(of_blocks.collect(), &places).map_err(damaged)
        };
        let columns: Vec<ArrayRef> =
            (0..plan.side(JoinSide::Right).columns.len()).map(of).collect::<Result<_, _>>()?;
        self.hand.take(&found, columns);
        Ok(())
    }

    /// Whether all that a seal with this floor needs is at hand.
    pub fn is_read(&self, floor_ms: i64) -> bool {
        self.is_empty()
            || self
                .hand
                .reading
                .as_ref()
                .is_some_and(|reading| reading.is_done && reading.floor_ms == floor_ms)
    }

    /// The version of a key that was read; `None` if there is none, or it deletes the key.
    pub fn version(&self, hash: u128) -> Option<Place> {
        if self.is_empty() { None } else { self.hand.get(hash) }
    }

    /// The columns of versions that were read.
    pub fn chunks(&self) -> Vec<&[ArrayRef]> {
        self.hand.chunks()
    }

    /// The seal is made.
    pub fn tidy(&mut self) {
        let hand_bytes = if self.is_empty() { 0 } else { self.sizes.hand_bytes };
        self.hand.tidy(hand_bytes);
    }

    /// Which blocks may have versions of these keys.
    pub fn candidates(&self, hashes: impl Iterator<Item = u128>) -> (Candidates, Vec<StateRead>) {
        let mut hits = Vec::new();
        for hash in hashes {
            for run in &self.runs {
                let hit = |part, block| Hit { run: run.number, part, block, hash };
                run.blocks_of(hash, |part, block| hits.push(hit(part, block)));
            }
        }
        hits.sort_unstable();
        hits.dedup();
        let is_in_file = |hit: &&Hit| self.run(hit.run).is_ok_and(|run| run.bytes.is_none());
        let blocks = hits.chunk_by(Hit::is_beside).map(|hits| &hits[0]).filter(is_in_file);
        let read = |hit: &Hit| Some(self.run(hit.run).ok()?.file(hit.part).read(hit.block));
        let reads: Vec<StateRead> = blocks.filter_map(read).collect();
        (Candidates { hits, reads: reads.len() }, reads)
    }

    /// The times of the versions of these keys, without those that delete their key and are forgotten.
    ///
    /// # Errors
    /// When a block is damaged.
    pub fn times_ms(
        &self,
        plan: &Plan,
        candidates: &Candidates,
        answers: &[Vec<u8>],
        floor_ms: i64,
    ) -> Result<HashMap<u128, i64>, StateError> {
        if answers.len() != candidates.reads {
            let (came, wanted) = (answers.len(), candidates.reads);
            return Err(damaged(format!("gets `{came}` answers, `{wanted}` were asked for")));
        }
        let forgotten_ms = floor_ms.saturating_sub(DELETED_MS);
        let (mut times_ms, mut answers) = (HashMap::new(), answers.iter());
        // The oldest run first, so that the newest has the last word.
        for hits in candidates.hits.chunk_by(Hit::is_beside) {
            let rows = self.run(hits[0].run)?.block(plan, &hits[0], &mut answers)?;
            let deletes = deletions(plan, &rows.taken.rows.columns);
            for hit in hits {
                let Ok(row) = rows.taken.rows.hashes.binary_search(&hit.hash) else { continue };
                let time_ms = rows.taken.times_ms[row];
                if deletes(row) && time_ms < forgotten_ms {
                    times_ms.remove(&hit.hash);
                } else {
                    times_ms.insert(hit.hash, time_ms);
                }
            }
        }
        Ok(times_ms)
    }
}
