//! The runs in use.
//!
//! Owns the lookup in two phases (filters first, blocks when they have been read), what is dead in each run, and the choice of runs to
//! merge. Does not own files' bytes (`part`) or the writing (`work`).
//!
//! **Merges.** Runs stand in the order of their newest buckets, so that whole runs expire from the front. Four neighbours of about one
//! size become one, and that again with three others: each key is written once for every fourfold growth, and `n` spills leave
//! about `3 log4 n` runs. Runs whose newest buckets lie more than [`SECTION`] apart are not merged, or the older one's keys
//! would stay for too long, unless there are too many runs. With an unbounded window all buckets are one, and only sizes count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataflow::{StateError, StateRead};

use super::Sizes;
use super::part::Part;
use crate::dedup::window::SPAN;

/// Buckets that the newest ones of merged runs may lie apart: a quarter of the window, so that at most a fifth of what is on disk
/// has expired.
const SECTION: u64 = 3;

/// Runs that are merged at one time, at least and at the most.
const MERGED_MIN: usize = 4;
const MERGED_MAX: usize = 8;

/// A run of which more than this share (one in so many) is dead is written again.
const DEAD_SHARE: u64 = 8;

/// Dead pairs below which that is not worth the writing.
const DEAD_MIN: u64 = 1024;

/// Hashes whose filter slots are fetched ahead of the look: enough to keep the memory busy.
const AHEAD: usize = 16;

/// Stands for a row whose bucket is not known before the second phase.
pub const ANY_BUCKET: i64 = i64::MAX;

/// Forgotten pairs, by bucket.
pub type Dead = BTreeMap<i64, BTreeSet<u128>>;

/// Bytes that a dead pair is counted as, with its share of the tree.
const DEAD_BYTES: usize = 48;

/// The parts of a run, by number; `None` where there is no pair.
pub type Parts = Vec<Option<Arc<Part>>>;

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its number in this process.
    pub id: u64,
    /// log2 of the number of parts.
    pub part_bits: u8,
    /// The parts.
    pub parts: Parts,
    /// Forgotten since it was written.
    pub dead: Dead,
    pairs: u64,
    first: i64,
    last: i64,
}

impl Run {
    fn new(id: u64, part_bits: u8, parts: Parts, dead: Dead) -> Self {
        let buckets =
            || parts.iter().flatten().flat_map(|part| part.buckets().iter().map(|(bucket, _)| *bucket));
        let (first, last) = (buckets().min().unwrap_or(i64::MAX), buckets().max().unwrap_or(i64::MIN));
        let pairs = parts.iter().flatten().map(|part| part.pairs()).sum();
        Self { id, part_bits, parts, dead, pairs, first, last }
    }

    fn part(&self, hash: u128) -> Option<&Arc<Part>> {
        let number =
            if self.part_bits == 0 { 0 } else { (hash >> (128 - u32::from(self.part_bits))) as usize };
        self.parts[number].as_ref()
    }

    fn is_dead(&self, hash: u128, bucket: i64) -> bool {
        self.dead.get(&bucket).is_some_and(|hashes| hashes.contains(&hash))
    }

    fn dead_pairs(&self, floor: i64) -> u64 {
        self.dead.range(floor..).map(|(_, hashes)| hashes.len() as u64).sum()
    }

    /// Pairs that have not expired.
    pub fn live(&self, floor: i64) -> u64 {
        let buckets = self.parts.iter().flatten().flat_map(|part| part.buckets());
        let held: u64 = buckets.filter(|(bucket, _)| *bucket >= floor).map(|(_, pairs)| pairs).sum();
        held.saturating_sub(self.dead_pairs(floor))
    }

    /// True if a record in `bucket` may be near one of the run.
    #[inline]
    fn is_near(&self, bucket: i64) -> bool {
        bucket == ANY_BUCKET
            || (bucket >= self.first.saturating_sub_unsigned(SPAN)
                && bucket <= self.last.saturating_add_unsigned(SPAN))
    }
}

/// What the filters of a batch said: blocks to be read, and which rows they are for.
#[derive(Debug, Default)]
pub struct Candidates {
    blocks: Vec<(u64, Arc<Part>)>,
    /// Row and block, by block.
    rows: Vec<(u32, u32)>,
}

impl Candidates {
    /// Blocks to be read.
    pub fn reads(&self) -> usize {
        self.blocks.len()
    }
}

/// A kept record that was found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The row that asked.
    pub row: u32,
    /// The bucket of the kept record.
    pub bucket: i64,
    /// The run that holds it.
    pub run: u64,
}

/// The runs in use, by their newest bucket.
#[derive(Debug, Default)]
pub struct Runs {
    runs: Vec<Run>,
    next_id: u64,
    /// What expired files still count: nothing, they are dropped whole.
    floor: Option<i64>,
}

impl Runs {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    fn floor(&self) -> i64 {
        self.floor.unwrap_or(i64::MIN)
    }

    /// Adds a run. One without a pair that counts is dropped.
    pub fn add(&mut self, part_bits: u8, parts: Parts, dead: Dead) {
        let run = Run::new(self.next_id, part_bits, parts, dead);
        if run.pairs == 0 || run.last < self.floor() {
            return;
        }
        self.next_id += 1;
        let at = self.runs.partition_point(|other| (other.last, other.id) < (run.last, run.id));
        self.runs.insert(at, run);
    }

    /// Takes a run out; `None` if it has expired.
    pub fn take(&mut self, id: u64) -> Option<Run> {
        let at = self.runs.iter().position(|run| run.id == id)?;
        Some(self.runs.remove(at))
    }

    /// Drops what lies below `floor`: whole runs, and the dead of others.
    pub fn expire(&mut self, floor: i64) {
        self.floor = Some(floor);
        self.runs.retain(|run| run.last >= floor);
        self.runs.iter_mut().for_each(|run| run.dead = run.dead.split_off(&floor));
    }

    /// Asks the filters. `buckets` has one entry for each hash, or [`ANY_BUCKET`].
    pub fn probe(&self, hashes: &[u128], buckets: &[i64]) -> (Candidates, Vec<StateRead>) {
        // Run, part, block, row.
        let mut hits: Vec<(u32, u32, u32, u32)> = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            for hash in hashes.iter().take(AHEAD) {
                run.part(*hash).into_iter().for_each(|part| part.prefetch(*hash));
            }
            for (row, (hash, bucket)) in hashes.iter().zip(buckets).enumerate() {
                if let Some(part) =
                    hashes.get(row + AHEAD).and_then(|next| run.part(*next).map(|p| (p, next)))
                {
                    part.0.prefetch(*part.1);
                }
                let Some(part) = run.part(*hash).filter(|_| run.is_near(*bucket)) else { continue };
                if part.may_hold(*hash) {
                    hits.push((index as u32, part.place().1, part.block(*hash), row as u32));
                }
            }
        }
        hits.sort_unstable();
        let (mut found, mut reads) = (Candidates::default(), Vec::new());
        let mut last = None;
        for (index, part, block, row) in hits {
            if last != Some((index, part, block)) {
                let run = &self.runs[index as usize];
                let Some(part) = &run.parts[part as usize] else { continue };
                let Some(read) = part.read(block..block + 1) else { continue };
                found.blocks.push((run.id, part.clone()));
                reads.push(read);
            }
            last = Some((index, part, block));
            found.rows.push((row, found.blocks.len() as u32 - 1));
        }
        (found, reads)
    }

    /// Looks into the blocks that were read. What it finds is in the order of rows, and neither dead nor expired.
    ///
    /// # Errors
    /// When a block is damaged.
    pub fn look(
        &self,
        candidates: &Candidates,
        answers: &[Vec<u8>],
        hashes: &[u128],
    ) -> Result<Vec<Found>, StateError> {
        let (mut found, floor) = (Vec::new(), self.floor());
        // The rows of a block stand together.
        for rows in candidates.rows.chunk_by(|a, b| a.1 == b.1) {
            let block = rows[0].1 as usize;
            let (id, part) = &candidates.blocks[block];
            // A run that no longer exists has expired since: none is merged while a batch is between its phases.
            let Some(run) = self.runs.iter().find(|run| run.id == *id) else { continue };
            let block = part.checked(part.block(hashes[rows[0].0 as usize]), &answers[block])?;
            for (row, _) in rows {
                let hash = hashes[*row as usize];
                block.find(hash, |bucket| {
                    if bucket >= floor && !run.is_dead(hash, bucket) {
                        found.push(Found { row: *row, bucket, run: *id });
                    }
                })?;
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Forgets a pair that is in this run; false if it was forgotten before.
    pub fn kill(&mut self, id: u64, hash: u128, bucket: i64) -> bool {
        let run = self.runs.iter_mut().find(|run| run.id == id);
        run.is_some_and(|run| run.dead.entry(bucket).or_default().insert(hash))
    }

    /// Forgets a pair wherever it may be. A run that does not hold it is not harmed: a run never changes, and when the pair is kept
    /// again it will be in another one.
    pub fn kill_anywhere(&mut self, hash: u128, bucket: i64) {
        for run in &mut self.runs {
            let may_hold = |part: &Arc<Part>| {
                part.buckets().binary_search_by_key(&bucket, |(b, _)| *b).is_ok() && part.may_hold(hash)
            };
            if run.part(hash).is_some_and(may_hold) {
                run.dead.entry(bucket).or_default().insert(hash);
            }
        }
    }

    /// True if the pair was forgotten after the run was written.
    pub fn is_dead(&self, id: u64, hash: u128, bucket: i64) -> bool {
        self.runs.iter().any(|run| run.id == id && run.is_dead(hash, bucket))
    }

    /// The runs that should become one, if any.
    pub fn choose(&self, sizes: &Sizes) -> Option<Vec<u64>> {
        let ids = |runs: &[Run]| Some(runs.iter().map(|run| run.id).collect());
        let floor = self.floor();
        let is_hollow = |run: &&Run| {
            let dead = run.dead_pairs(floor);
            dead > DEAD_MIN.min(sizes.part_pairs) && dead > run.pairs / DEAD_SHARE
        };
        if let Some(run) = self.runs.iter().find(is_hollow) {
            return ids(std::slice::from_ref(run));
        }
        let level = |run: &Run| (run.pairs / (sizes.open_keys_max / 2).max(1)).max(1).ilog2() / 2;
        let mut levels: Vec<u32> = self.runs.iter().map(level).collect();
        levels.sort_unstable();
        levels.dedup();
        for most in levels {
            for from in (0..self.runs.len()).filter(|from| level(&self.runs[*from]) == most) {
                let first = &self.runs[from];
                let together = self.runs[from..]
                    .iter()
                    .take_while(|run| level(run) <= most && run.last.abs_diff(first.last) <= SECTION);
                // Smaller ones count for nothing, or every spill would write the larger ones again; between them they come along.
                let own: Vec<usize> =
                    together.enumerate().filter(|(_, run)| level(run) == most).map(|(at, _)| at).collect();
                if own.len() >= MERGED_MIN {
                    return ids(&self.runs[from..=from + own[own.len().min(MERGED_MAX) - 1]]);
                }
            }
        }
        if self.runs.len() <= sizes.runs_max {
            return None;
        }
        let cost = |runs: &&[Run]| runs.iter().map(|run| run.pairs).sum::<u64>();
        self.runs.windows(MERGED_MIN.min(self.runs.len())).min_by_key(cost).and_then(ids)
    }

    /// Keys in the runs.
    pub fn keys(&self) -> u64 {
        let floor = self.floor();
        self.runs.iter().map(|run| run.live(floor)).sum()
    }

    /// Every file in use, with its bytes.
    pub fn files(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.runs.iter().flat_map(|run| run.parts.iter().flatten())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let dead: usize = self.runs.iter().flat_map(|run| run.dead.values()).map(BTreeSet::len).sum();
        self.files().map(|part| part.memory_bytes()).sum::<usize>() + dead * DEAD_BYTES
    }
}
