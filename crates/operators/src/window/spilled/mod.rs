//! Panes that left memory: immutable sorted files, of which an index of some bytes a block stays in memory.
//!
//! Owns what of a pane is where, when its results leave, and the work on files. Does no I/O: it says what must be read and written, and the engine
//! does it. Does not own what a seal brings into a pane (`panes`), nor the bytes of deltas and snapshots (`state`).
//!
//! **Generations.** A seal *freezes* a pane: what it holds becomes a generation, which never changes again, and the pane begins anew in memory. Which seal
//! freezes which pane stands in its delta, so a start has the same generations. A frozen generation is written to files beside the lane and then
//! freed; where it is changes no result. Those of a pane are merged in their order, so that sums of floats come out the same, bit for bit, whatever
//! was in files and when.
//!
//! **Leaving.** A window with a pane that has generations is closed by freezing what its panes have in memory. From then on its results *leave*
//! in pieces: work beside the lane merges the generations in the order of keys, as much as fits a piece, and the next seal lets the piece out. Its
//! delta says up to which key they have left, which is where a start goes on. Windows leave in the order of their ends. Of windows that overlap, each
//! merges the generations that its panes had when it was closed: these have numbers below its own. A pane is held until the last of its windows has
//! left, and its rows are released with the pieces of that one.
//!
//! **Firing.** A window that has results before it is closed fires as it would leave: its panes are frozen, and the results of the keys that are new leave
//! in pieces, but nothing is released and its panes stay. A window fires again, or leaves, once that is done. Each time its panes get
//! a generation more, so those of a pane are [put together](compact) when they are many; that changes no result and stands in no delta.
//!
//! | module   | what it owns                                       |
//! |----------|----------------------------------------------------|
//! | [`file`] | the bytes of a file, its index, and all checks     |
//! | `spill`  | from frozen generations to files                   |
//! | [`ahead`] | which blocks of files are read next               |
//! | `merge`  | from the files of a pane to pieces of its results  |
//! | [`compact`] | from the generations of a pane to one           |
//! | `marks`  | what deltas and snapshots say of all that          |

pub mod ahead;
mod compact;
pub mod file;
pub(super) mod marks;
mod merge;
pub(super) mod spill;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dataflow::{StateError, StateFile, StateWork};

use super::groups::Groups;
use super::plan::Plan;
use crate::runs::FileEntry;
use compact::Compact;
use file::{File, Section};
pub(super) use marks::{Left, Marks};
use merge::{Leave, Merger, Of};
use spill::{Frozen, Spill};

/// Bytes of the blocks that a window has in memory while it leaves: more only if it has more than 4,096 generations.
const BLOCKS_BYTES: usize = 16 << 20;

/// Generations that a window may have, however few its panes are.
const GENERATIONS_MIN: usize = 256;

/// For each pane of a window with many: one when it is full, one when its first window is closed, and as many again for records that come late.
const GENERATIONS_OF_A_PANE: usize = 4;

/// The sizes that decide when something is spilled or cut. Tests take tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of open panes in memory above which the earliest are frozen, until half of it is left.
    pub open_bytes: u64,
    /// Bytes of a block, about: what is decoded at once of each generation while a pane leaves.
    pub block_bytes: usize,
    /// Bytes of a file, about: it is in memory while it is made.
    pub file_bytes: usize,
    /// Bytes of a piece of results, as the files have them, about.
    pub piece_bytes: usize,
    /// Bytes that are read at once for all generations of a pane, about; each gets one block at least.
    pub read_bytes: usize,
    /// Generations of the panes of a window: while it leaves a block of each is in memory. A pane beside so many stays in memory.
    pub generations_max: usize,
}

impl Sizes {
    /// Those for a step's memory and windows of so many panes. Of the memory and as much again, which spilling may take, open panes and frozen ones
    /// get three quarters of it each, and the rest is for sorting, for reading and for three pieces.
    pub fn new(memory: u64, panes: usize) -> Self {
        let share = usize::try_from(memory / 16).unwrap_or(usize::MAX);
        let generations_max = panes.saturating_mul(GENERATIONS_OF_A_PANE).max(GENERATIONS_MIN);
        Self {
            open_bytes: memory / 4 * 3,
            block_bytes: (BLOCKS_BYTES / generations_max).clamp(4 << 10, 64 << 10),
            file_bytes: share.clamp(64 << 10, 8 << 20),
            piece_bytes: share.clamp(64 << 10, 32 << 20),
            read_bytes: share.clamp(64 << 10, 64 << 20),
            generations_max,
        }
    }
}

/// What a pane held when it was frozen.
struct Generation {
    /// How many were frozen before it.
    number: u64,
    rows: u64,
    groups: u64,
    /// The newest seal that any of its groups had rows in; 0 if that is not kept.
    newest: u64,
    at: At,
}

/// Where it is.
enum At {
    /// Not written yet.
    Memory(Arc<Groups>),
    /// In files, by key.
    Files(Vec<Section>),
    /// In files of a snapshot whose footers are still to be read: the number of each, and its blocks.
    Named(Vec<(u32, std::ops::Range<u32>)>),
}

impl Generation {
    fn of(number: u64, groups: Groups) -> Self {
        let (rows, len, newest) = (groups.rows(), groups.len() as u64, groups.newest());
        Self { number, rows, groups: len, newest, at: At::Memory(Arc::new(groups)) }
    }

    fn in_memory(&self) -> Option<&Arc<Groups>> {
        match &self.at {
            At::Memory(groups) => Some(groups),
            At::Files(_) | At::Named(_) => None,
        }
    }

    fn sections(&self) -> &[Section] {
        match &self.at {
            At::Files(sections) => sections,
            At::Memory(_) | At::Named(_) => &[],
        }
    }
}

/// A window whose results leave, because it is closed or fires.
struct Leaving {
    /// The generations of its panes that are its own: those with lesser numbers.
    before: u64,
    /// The key up to which its results have left; `None` before the first piece.
    after: Option<Vec<u8>>,
    /// Rows that were released with those: of the panes whose last window it is.
    released: u64,
    /// The seal that it fired with before; its results are those of keys with rows since.
    since: u64,
}

/// Results of a window that can leave.
pub(super) struct Piece {
    /// The end of the window.
    pub end: i64,
    /// Whether it fires, and stays open.
    pub fires: bool,
    pub groups: Groups,
    /// Rows that are held no longer once it has left.
    pub released: u64,
    /// The greatest key up to which all results are in this piece or in those before it.
    pub after: Vec<u8>,
    /// Whether nothing of the window is left behind it.
    pub is_last: bool,
}

/// Pieces that wait for the next seal at the most: one more is made meanwhile.
const READY_MAX: usize = 2;

/// Generations of a pane that are put together, at the most: all that it has is written once more for so many times that its windows fire.
const COMPACT_MAX: usize = 32;

/// The panes of a step that have left memory, all or in part.
pub(super) struct Spilled {
    pub sizes: Sizes,
    /// The generations of each pane, until the last of its windows has left.
    panes: BTreeMap<i64, Vec<Generation>>,
    /// Closed windows by their end. Each has a generation in some pane.
    leaving: BTreeMap<i64, Leaving>,
    /// The same of windows that fire.
    firing: BTreeMap<i64, Leaving>,
    /// The number of the next generation.
    next: u64,
    /// Whether generations are being written.
    is_spilling: bool,
    /// Whether a piece is being merged, or generations are put together.
    is_merging: bool,
    /// The merge of the first window that leaves or fires, between two pieces.
    merger: Option<Box<Merger>>,
    ready: VecDeque<Piece>,
    /// Files of a snapshot whose footers are still to be read, and those that were.
    opening: VecDeque<FileEntry>,
    opened: Vec<Arc<File>>,
}

impl Spilled {
    /// None.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            panes: BTreeMap::new(),
            leaving: BTreeMap::new(),
            firing: BTreeMap::new(),
            next: 0,
            is_spilling: false,
            is_merging: false,
            merger: None,
            ready: VecDeque::new(),
            opening: VecDeque::new(),
            opened: Vec::new(),
        }
    }

    /// Whether every pane is in memory alone.
    pub fn is_empty(&self) -> bool {
        self.panes.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Generation> {
        self.panes.values().flatten()
    }

    /// Whether a generation is in memory, so that no other may be frozen.
    pub fn has_unwritten(&self) -> bool {
        self.all().any(|generation| generation.in_memory().is_some())
    }

    /// Whether generations are on their way to files.
    pub fn is_spilling(&self) -> bool {
        self.is_spilling
    }

    /// Whether the windows of a pane may have no more generations.
    pub fn is_full(&self, plan: &Plan, pane: i64) -> bool {
        let first_start = plan.spans.start_of(plan.spans.end_after(pane));
        let beside = self.panes.range(first_start..plan.spans.last_end(pane));
        beside.map(|(_, generations)| generations.len()).sum::<usize>() >= self.sizes.generations_max
    }

    /// What a pane held becomes its newest generation.
    pub fn freeze(&mut self, pane: i64, groups: Groups) {
        self.panes.entry(pane).or_default().push(Generation::of(self.next, groups));
        self.next += 1;
    }

    /// Whether a pane of the window that ends then has generations.
    pub fn touches(&self, plan: &Plan, end: i64) -> bool {
        self.panes.range(plan.spans.start_of(end)..end).next().is_some()
    }

    /// The first pane with generations that has a window which ends after a time.
    pub fn first_open(&self, plan: &Plan, after: i64) -> Option<i64> {
        self.panes.keys().find(|pane| plan.spans.last_end(**pane) > after).copied()
    }

    /// The end of the first window with generations that the second watermark closes and the first does not.
    fn first_closed(&self, plan: &Plan, (from_ms, to_ms): (i64, i64)) -> Option<i64> {
        let after = from_ms.saturating_sub(plan.lateness_ms);
        let end = plan.spans.end_after(self.first_open(plan, after)?.max(after));
        plan.is_closed(end, to_ms).then_some(end)
    }

    /// The results of a closed window begin to leave, of keys with rows since this seal. All that its panes have is in generations.
    pub fn begin_to_leave(&mut self, end: i64, since: u64) {
        self.leaving.insert(end, Leaving { before: self.next, after: None, released: 0, since });
    }

    /// The same of one that fires.
    pub fn begin_to_fire(&mut self, end: i64, since: u64) {
        self.firing.insert(end, Leaving { before: self.next, after: None, released: 0, since });
    }

    /// The panes with generations, each with the newest seal that any of its keys had rows in there.
    pub fn newest(&self) -> impl Iterator<Item = (i64, u64)> {
        let newest = |generations: &[Generation]| generations.iter().map(|one| one.newest).max().unwrap_or(0);
        self.panes.iter().map(move |(pane, generations)| (*pane, newest(generations)))
    }

    /// The ends of windows that fire.
    pub fn firing(&self) -> impl Iterator<Item = i64> {
        self.firing.keys().copied()
    }

    /// Whether a window can fire: it does not already, and none of its panes has many more generations than are put together.
    pub fn can_fire(&self, plan: &Plan, end: i64) -> bool {
        let panes = self.panes.range(plan.spans.start_of(end)..end);
        let most = panes.map(|(_, generations)| generations.len()).max().unwrap_or(0);
        !self.firing.contains_key(&end) && most < 2 * self.compact_min(plan)
    }

    /// Generations of a pane that are put together, at least.
    fn compact_min(&self, plan: &Plan) -> usize {
        (self.sizes.generations_max / (4 * plan.spans.panes())).clamp(2, COMPACT_MAX)
    }

    /// The pieces that can leave with one seal: of a window that fired and then closed, the last ones wait for the next, for each result has a version of its own.
    pub fn take_ready(&mut self) -> Vec<Piece> {
        let is_other = |one: &Piece, next: &Piece| one.end != next.end || one.fires == next.fires;
        let mut taken: Vec<Piece> = Vec::new();
        while let Some(next) = self.ready.pop_front_if(|next| taken.iter().all(|one| is_other(one, next))) {
            taken.push(next);
        }
        taken
    }

    /// Whether a seal lets anything out, or begins to, that moves the watermark like this.
    pub fn is_due(&self, plan: &Plan, between: (i64, i64)) -> bool {
        !self.ready.is_empty() || self.first_closed(plan, between).is_some()
    }

    /// Whether results are still on their way.
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty() || !self.firing.is_empty()
    }

    /// A piece left, with the seal under way or one before a start.
    ///
    /// # Errors
    /// When it is of another window than the first that leaves.
    pub fn left(&mut self, plan: &Plan, left: &Left) -> Result<(), StateError> {
        let none = || super::encoding::damaged("lets results out of no window");
        if left.fires {
            let fired = self.firing.get_mut(&left.end).ok_or_else(none)?;
            fired.after = Some(left.after.clone());
            if left.is_last {
                self.firing.remove(&left.end);
            }
            return Ok(());
        }
        let first = self.leaving.first_entry().filter(|first| *first.key() == left.end);
        let mut first = first.ok_or_else(none)?;
        first.get_mut().after = Some(left.after.clone());
        first.get_mut().released += left.rows;
        if left.is_last {
            first.remove();
            self.panes.retain(|pane, _| plan.spans.last_end(*pane) > left.end);
        }
        if self.panes.is_empty() {
            self.next = 0;
        }
        Ok(())
    }

    /// The end of the first window whose results are not out yet, or not all, once the watermark moves like this.
    pub fn held_back(&self, plan: &Plan, between: (i64, i64)) -> Option<i64> {
        let leaving = self.leaving.keys().next().copied();
        leaving.into_iter().chain(self.first_closed(plan, between)).min()
    }

    /// The last pane with generations.
    pub fn last_pane(&self) -> Option<i64> {
        self.panes.keys().next_back().copied()
    }

    /// Rows held.
    pub fn rows(&self) -> u64 {
        let released: u64 = self.leaving.values().map(|leaving| leaving.released).sum();
        self.all().map(|generation| generation.rows).sum::<u64>().saturating_sub(released)
    }

    /// Groups held: one key may be in several generations. Those of a pane count until its last window has left.
    pub fn entries(&self) -> u64 {
        self.all().map(|generation| generation.groups).sum()
    }

    /// Those in files.
    pub fn entries_in_files(&self) -> u64 {
        self.all().filter(|one| one.in_memory().is_none()).map(|one| one.groups).sum()
    }

    /// Memory held in bytes: frozen generations, pieces, and the index of files. What is being merged is in the bound of [`Sizes`] too.
    pub fn memory_bytes(&self) -> u64 {
        let frozen: usize =
            self.all().filter_map(Generation::in_memory).map(|groups| groups.memory_bytes()).sum();
        let pieces: usize = self.ready.iter().map(|piece| piece.groups.memory_bytes()).sum();
        let files: usize = self.distinct_files().map(|file| file.memory_bytes()).sum();
        let merger = self.merger.as_ref().map_or(0, |merger| merger.memory_bytes());
        (frozen + pieces + files + merger) as u64
    }

    /// Each file once.
    fn distinct_files(&self) -> impl Iterator<Item = &Arc<File>> {
        let sections = self.all().flat_map(Generation::sections);
        let files: BTreeMap<&str, &Arc<File>> =
            sections.map(|section| (&*section.file.object, &section.file)).collect();
        files.into_values()
    }

    /// The files in use.
    pub fn files(&self) -> Vec<StateFile> {
        let file = |file: &Arc<File>| StateFile { object: file.object.clone(), len: file.len };
        self.distinct_files().map(file).collect()
    }

    /// Work that is due.
    pub fn work(&mut self, plan: &Arc<Plan>) -> Option<Box<dyn StateWork>> {
        if !self.is_spilling && self.has_unwritten() {
            self.is_spilling = true;
            let each =
                self.panes.iter().flat_map(|(pane, generations)| generations.iter().map(|one| (*pane, one)));
            let frozen = each
                .filter_map(|(pane, one)| Some((pane, one.number, Frozen::Groups(one.in_memory()?.clone()))));
            return Some(Box::new(Spill::new(plan.clone(), self.sizes, frozen.collect())));
        }
        if self.is_merging {
            return None;
        }
        if let Some(compact) = self.compact(plan) {
            self.is_merging = true;
            return Some(Box::new(compact));
        }
        if self.ready.len() >= READY_MAX {
            return None;
        }
        let merger = match self.merger.take() {
            Some(merger) => merger,
            None => Box::new(self.merge(plan)?),
        };
        self.is_merging = true;
        Some(Box::new(Leave::new(merger)))
    }

    /// The generations of the first pane that has many, if all of them are in files and no window reads them; `None` unless windows fire.
    fn compact(&self, plan: &Arc<Plan>) -> Option<Compact> {
        plan.emit?;
        let min = self.compact_min(plan);
        let is_read = |pane: i64| {
            self.leaving
                .keys()
                .chain(self.firing.keys())
                .any(|end| (plan.spans.start_of(*end)..*end).contains(&pane))
        };
        let is_due = |(pane, generations): &(&i64, &Vec<Generation>)| {
            generations.len() >= min
                && generations.iter().all(|one| one.in_memory().is_none())
                && !is_read(**pane)
        };
        let (pane, generations) = self.panes.iter().find(is_due)?;
        Some(Compact::new(plan.clone(), self.sizes, *pane, generations))
    }

    /// The merge of the window that is the next to leave or to fire; `None` if there is none, or it is not in files yet.
    fn merge(&self, plan: &Arc<Plan>) -> Option<Merger> {
        // A window whose last piece waits for its seal has nothing more to merge.
        let is_merged = |end: i64, fires: bool| {
            self.ready.iter().any(|piece| (piece.end, piece.fires, piece.is_last) == (end, fires, true))
        };
        let first_that = |fires: bool, of: &BTreeMap<i64, Leaving>| {
            let waiting = of.iter().filter(|(end, _)| !is_merged(**end, fires));
            waiting.map(|(end, one)| (one.before, *end)).min()
        };
        // In the order in which they began: so a window that fired before it was closed ends that first.
        let (closed, fired) = (first_that(false, &self.leaving), first_that(true, &self.firing));
        let fires = fired.is_some_and(|fired| closed.is_none_or(|closed| fired.0 <= closed.0));
        let (_, end) = if fires { fired? } else { closed? };
        let leaving = if fires { &self.firing[&end] } else { &self.leaving[&end] };
        let mut parts = Vec::new();
        for (pane, generations) in self.panes.range(plan.spans.start_of(end)..end) {
            let is_released = !fires && plan.spans.last_end(*pane) <= end;
            for generation in generations.iter().filter(|one| one.number < leaving.before) {
                if generation.in_memory().is_some() {
                    return None;
                }
                parts.push((is_released, generation.sections()));
            }
        }
        let of = Of { end, fires, since: leaving.since };
        Some(Merger::new(plan.clone(), self.sizes, of, parts, leaving.after.clone()))
    }

    /// Takes over what work made.
    ///
    /// # Errors
    /// When it is none of this state's, or not done.
    pub fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let foreign = || super::encoding::damaged("gets work back that is not its own, or not done");
        let work = match work.into_any().downcast::<Spill>() {
            Ok(spill) => {
                self.is_spilling = false;
                for (pane, number, sections) in spill.made().ok_or_else(foreign)? {
                    let mut generations = self.panes.get_mut(&pane).into_iter().flatten();
                    let generation = generations.find(|generation| generation.number == number);
                    generation.ok_or_else(foreign)?.at = At::Files(sections);
                }
                return Ok(());
            }
            Err(work) => work,
        };
        let work = match work.downcast::<Compact>() {
            Ok(compact) => {
                self.is_merging = false;
                let (pane, made) = compact.made().ok_or_else(foreign)?;
                let generations = self.panes.get_mut(&pane).ok_or_else(foreign)?;
                generations.retain(|generation| generation.number > made.number);
                generations.insert(0, made);
                return Ok(());
            }
            Err(work) => work,
        };
        let (merger, piece) =
            work.downcast::<Leave>().ok().and_then(|work| work.made()).ok_or_else(foreign)?;
        self.is_merging = false;
        self.merger = (!piece.is_last).then_some(merger);
        self.ready.push_back(piece);
        Ok(())
    }

    /// Files that a start must open, in order.
    pub fn opening(&self) -> &VecDeque<FileEntry> {
        &self.opening
    }

    /// Takes the footer of the next file.
    ///
    /// # Errors
    /// When it is damaged, another file's, or not asked for.
    pub fn open_file(&mut self, plan: &Plan, bytes: &[u8]) -> Result<(), StateError> {
        let file = self.opening.pop_front();
        let file = file.ok_or_else(|| super::encoding::damaged("names fewer files than were read"))?;
        self.opened.push(Arc::new(File::open(&plan.keys, &file, bytes)?));
        if self.opening.is_empty() { self.name_files() } else { Ok(()) }
    }

    /// Puts the files in place of their numbers, once all are open.
    fn name_files(&mut self) -> Result<(), StateError> {
        let opened = std::mem::take(&mut self.opened);
        for (pane, generations) in &mut self.panes {
            for generation in generations {
                let At::Named(named) = &generation.at else { continue };
                let section = |(number, blocks): &(u32, std::ops::Range<u32>)| {
                    opened.get(*number as usize).and_then(|file| Section::of(file, *pane, blocks.clone()))
                };
                let sections: Option<Vec<Section>> = named.iter().map(section).collect();
                let sections = sections.filter(|sections| {
                    let (groups, rows) = sections
                        .iter()
                        .map(Section::counts)
                        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                    (groups, rows) == (generation.groups, generation.rows)
                });
                let wrong = || super::encoding::damaged("names blocks that its files do not have");
                generation.at = At::Files(sections.ok_or_else(wrong)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Spilled {
    /// Everything of every pane, wherever it is: its start, whether it leaves and up to where, and its generations by key.
    pub fn contents(&self, plan: &Plan, read: impl Fn(&dataflow::StateRead) -> Vec<u8>) -> Vec<String> {
        let of = |generation: &Generation| {
            let mut all = Groups::new(&plan.keys, &plan.aggregates);
            generation.in_memory().into_iter().for_each(|groups| all.merge(groups));
            for Section { file, blocks } in generation.sections() {
                for block in blocks.clone() {
                    let bytes = read(&file.read(block..block + 1));
                    all.merge(&file.groups(plan, block, &bytes).unwrap());
                }
            }
            let mut order: Vec<u32> = (0..all.len() as u32).collect();
            order.sort_by_key(|group| all.key(*group as usize).to_vec());
            let mut written = Vec::new();
            // One after the other: values of several groups lie in the order in which they came.
            order.iter().for_each(|group| all.picked(plan, &[*group]).write_stamped(plan, &mut written));
            format!("{} {} {} {written:?}", generation.number, generation.rows, generation.groups)
        };
        let panes = self
            .panes
            .iter()
            .map(|(pane, all)| format!("{pane} {:?}", all.iter().map(of).collect::<Vec<_>>()));
        let leaving = self.leaving.iter().chain(&self.firing).map(|(end, one)| {
            let Leaving { before, after, released, since } = one;
            format!("until {end}: below {before}, {after:?}, {released}, since {since}")
        });
        panes.chain(leaving).chain([self.next.to_string()]).collect()
    }
}
