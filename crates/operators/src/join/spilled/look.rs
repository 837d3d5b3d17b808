//! Which blocks of runs a batch needs, and the pairs that they make.
//!
//! Owns the two phases: times and filters first, blocks when they have been read. Does not own the pairs with rows in memory (`store`).

use dataflow::{StateError, StateRead};

use super::file::Rows;
use super::{Run, Spilled};
use crate::join::codec::damaged;
use crate::join::incoming::{Incoming, Taken, is_usable};
use crate::join::plan::{JoinSide, Plan};
use crate::join::store::PAIRS_MAX;

/// Rows whose filter slots are fetched ahead of the look: enough to keep the memory busy.
const AHEAD: usize = 16;

/// What the filters of a batch said: blocks to be read, and which rows they are for.
#[derive(Debug, Default)]
pub(in crate::join) struct Candidates {
    /// The number of the run, and the block there.
    blocks: Vec<(u64, u32)>,
    /// The key, and which of the blocks it is for; by block. The rows of a key ask together: where many of both sides have one, each of many rows would ask for each of many blocks.
    keys: Vec<(u32, u32)>,
    /// The rows, among those of the batch that are taken, by key; and where those of each key end.
    rows: Vec<u32>,
    ends: Vec<u32>,
    /// How many of the blocks are in files.
    pub reads: usize,
}

impl Candidates {
    fn rows_of(&self, key: u32) -> &[u32] {
        let end = |key: usize| self.ends[key] as usize;
        let begin = (key as usize).checked_sub(1).map_or(0, end);
        &self.rows[begin..end(key as usize)]
    }
}

/// A row of a run that a row of the batch matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::join) struct Found {
    /// The row, among those of the batch that are taken.
    pub own: u32,
    /// The run, the newest first.
    run: std::cmp::Reverse<u64>,
    /// The place there, the newest of the key first.
    place: std::cmp::Reverse<u32>,
    /// Its time.
    pub time_ms: i64,
    /// Where its columns are: which of the blocks, and the row there.
    pub at: (u32, u32),
}

impl Spilled {
    /// Asks the filters. `floor_ms` is the one below which rows are late, and not taken.
    pub fn probe(
        &self,
        plan: &Plan,
        rows: &Incoming,
        times_ms: &[i64],
        floor_ms: i64,
    ) -> (Candidates, Vec<StateRead>) {
        let of_side = plan.side(rows.side);
        // The rows that are taken and can match, each with its number among those that are taken.
        let taken = times_ms
            .iter()
            .zip(0_usize..)
            .filter(|(time_ms, _)| is_usable(**time_ms) && **time_ms >= floor_ms);
        let mut asking: Vec<(u128, u32, i64)> = taken
            .zip(0_u32..)
            .filter(|((_, row), _)| rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(*row)))
            .map(|((time_ms, row), number)| (rows.hashes[row], number, *time_ms))
            .collect();
        asking.sort_unstable();
        let keys: Vec<&[(u128, u32, i64)]> = asking.chunk_by(|a, b| a.0 == b.0).collect();
        let earliest_ms = asking.iter().map(|(.., time_ms)| *time_ms).min().unwrap_or(i64::MAX);
        let latest_ms = asking.iter().map(|(.., time_ms)| *time_ms).max().unwrap_or(i64::MIN);
        let is_near = |run: &Run, earliest_ms: i64, latest_ms: i64| {
            run.next_ms <= latest_ms.saturating_add(of_side.later_ms)
                && run.file.times_ms().1 >= earliest_ms.saturating_sub(of_side.earlier_ms)
        };
        // Run, block, key.
        let mut hits: Vec<(u32, u32, u32)> = Vec::new();
        let others = self.runs.iter().zip(0_u32..).filter(|(run, _)| run.file.side == rows.side.other());
        for (run, index) in others.filter(|(run, _)| is_near(run, earliest_ms, latest_ms)) {
            keys.iter().take(AHEAD).for_each(|own| run.file.prefetch(own[0].0));
            for (key, own) in keys.iter().enumerate() {
                keys.get(key + AHEAD).into_iter().for_each(|own| run.file.prefetch(own[0].0));
                let hash = own[0].0;
                let is_any_near = own.iter().any(|(.., time_ms)| is_near(run, *time_ms, *time_ms));
                if is_any_near && run.file.may_hold(hash) {
                    hits.extend(run.file.blocks_of(hash).map(|block| (index, block, key as u32)));
                }
            }
        }
        hits.sort_unstable();
        let (mut found, mut reads) = (Candidates::default(), Vec::new());
        for own in &keys {
            found.rows.extend(own.iter().map(|(_, row, _)| *row));
            found.ends.push(found.rows.len() as u32);
        }
        let mut last = None;
        for (index, block, key) in hits {
            if last != Some((index, block)) {
                let run = &self.runs[index as usize];
                found.blocks.push((run.number, block));
                if run.bytes.is_none() {
                    reads.push(run.file.read(block));
                }
            }
            last = Some((index, block));
            found.keys.push((key, found.blocks.len() as u32 - 1));
        }
        found.reads = reads.len();
        (found, reads)
    }

    /// The rows of runs that the rows of a batch match, in the order in which they are joined: by row, then the last one to arrive first. With the blocks that they are in.
    /// If they are more than [`PAIRS_MAX`], some of them and no more blocks: the batch is not taken then.
    ///
    /// # Errors
    /// When a block is damaged.
    pub fn look(
        &self,
        plan: &Plan,
        candidates: &Candidates,
        answers: &[Vec<u8>],
        taken: &Taken,
    ) -> Result<(Vec<Found>, Vec<Rows>), StateError> {
        let of_side = plan.side(taken.rows.side);
        let (mut found, mut blocks, mut answers) = (Vec::new(), Vec::new(), answers.iter());
        let mut asking = candidates.keys.chunk_by(|a, b| a.1 == b.1);
        for (number, block) in &candidates.blocks {
            let run = self.run(*number)?;
            let rows = match &run.bytes {
                Some(bytes) => run.rows_in_memory(plan, *block, bytes)?,
                None => {
                    let answer =
                        answers.next().ok_or_else(|| damaged("gets fewer answers than it asked for"))?;
                    run.file.block(plan, *block, answer)?
                }
            };
            let (hashes, before) = (&rows.taken.rows.hashes, found.len());
            let keys = asking.next().unwrap_or_default().iter();
            for own in keys.flat_map(|(key, _)| candidates.rows_of(*key)) {
                let (hash, time_ms) = (taken.rows.hashes[*own as usize], taken.times_ms[*own as usize]);
                let (from, to) =
                    (time_ms.saturating_sub(of_side.earlier_ms), time_ms.saturating_add(of_side.later_ms));
                let first = hashes.partition_point(|other| *other < hash);
                for at in (first..hashes.len()).take_while(|at| hashes[*at] == hash) {
                    let other_ms = rows.taken.times_ms[at];
                    let is_keyed = rows.taken.rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(at));
                    if is_keyed && other_ms >= from && other_ms <= to {
                        found.push(Found {
                            own: *own,
                            run: std::cmp::Reverse(*number),
                            place: std::cmp::Reverse(rows.first + at as u32),
                            time_ms: other_ms,
                            at: (blocks.len() as u32, at as u32),
                        });
                        if found.len() as u64 > PAIRS_MAX {
                            return Ok((found, blocks));
                        }
                    }
                }
            }
            // Blocks without a match, which a filter may ask for by mistake, are not kept.
            if found.len() > before {
                blocks.push(rows);
            }
        }
        found.sort_unstable();
        Ok((found, blocks))
    }

    /// Remembers that the rows that were found were in a pair.
    ///
    /// # Errors
    /// When a run is not there any more.
    pub fn matched(&mut self, found: &[Found]) -> Result<(), StateError> {
        for Found { run, place, .. } in found {
            let run = self.run_mut(run.0)?;
            if run.set_matched(place.0) {
                run.fresh.push(place.0);
            }
        }
        Ok(())
    }

    pub(super) fn run(&self, number: u64) -> Result<&Run, StateError> {
        let at = self.runs.binary_search_by_key(&number, |run| run.number);
        at.map(|at| &self.runs[at]).map_err(|_| super::file::no_such_row())
    }

    pub(super) fn run_mut(&mut self, number: u64) -> Result<&mut Run, StateError> {
        let at = self.runs.binary_search_by_key(&number, |run| run.number);
        at.map(|at| &mut self.runs[at]).map_err(|_| super::file::no_such_row())
    }
}

impl Run {
    /// The rows of a block of a run that is not written yet.
    pub(super) fn rows_in_memory(&self, plan: &Plan, block: u32, bytes: &[u8]) -> Result<Rows, StateError> {
        let read = self.file.read(block);
        let own = bytes.get(read.offset as usize..).and_then(|rest| rest.get(..read.len as usize));
        self.file.block(plan, block, own.unwrap_or_default())
    }
}

/// The side of rows that runs hold.
impl Rows {
    /// Which side they are of.
    pub fn side(&self) -> JoinSide {
        self.taken.rows.side
    }
}
