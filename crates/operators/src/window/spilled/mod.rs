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
//! **Leaving.** The watermark that closes a window with generations makes what is left in memory the last of them. From then on its results *leave*
//! in pieces: work beside the lane merges the generations in the order of keys, as much as fits a piece, and the next seal lets the piece out. Its
//! delta says up to which key they have left, which is where a start goes on. The rows of a piece are released with it, the others are held.
//!
//! | module   | what it owns                                       |
//! |----------|----------------------------------------------------|
//! | [`file`] | the bytes of a file, its index, and all checks     |
//! | `spill`  | from frozen generations to files                   |
//! | `merge`  | from the files of a pane to pieces of its results  |
//! | `marks`  | what deltas and snapshots say of all that          |

pub mod file;
pub(super) mod marks;
mod merge;
mod spill;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dataflow::{StateError, StateFile, StateWork};

use super::groups::Groups;
use super::plan::Plan;
use crate::runs::FileEntry;
use file::{File, Section};
pub(super) use marks::{Left, Marks};
use merge::{Leave, Merger};
use spill::Spill;

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
    /// Generations of one pane: while it leaves a block of each is in memory. A pane that has so many stays in memory.
    pub generations_max: usize,
}

impl Sizes {
    /// Those for a step's memory. Of it and as much again, which spilling may take, open panes and frozen ones get three quarters of it each, and the
    /// rest is for sorting, for reading and for three pieces.
    pub fn new(memory: u64) -> Self {
        let share = usize::try_from(memory / 16).unwrap_or(usize::MAX);
        Self {
            open_bytes: memory / 4 * 3,
            block_bytes: 64 << 10,
            file_bytes: share.clamp(64 << 10, 8 << 20),
            piece_bytes: share.clamp(64 << 10, 32 << 20),
            read_bytes: share.clamp(64 << 10, 64 << 20),
            generations_max: 256,
        }
    }
}

/// What a pane held when it was frozen.
struct Generation {
    rows: u64,
    groups: u64,
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
    fn of(groups: Groups) -> Self {
        Self { rows: groups.rows(), groups: groups.len() as u64, at: At::Memory(Arc::new(groups)) }
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

/// A closed pane whose results leave.
struct Leaving {
    generations: Vec<Generation>,
    /// The key up to which they have left; `None` before the first piece.
    after: Option<Vec<u8>>,
    /// Rows of those that have left.
    released: u64,
}

/// Results of a closed window that can leave.
pub(super) struct Piece {
    pub pane: i64,
    pub groups: Groups,
    /// The greatest key up to which all results are in this piece or in those before it.
    pub after: Vec<u8>,
    /// Whether nothing of the pane is left behind it.
    pub is_last: bool,
}

/// Pieces that wait for the next seal at the most: one more is made meanwhile.
const READY_MAX: usize = 2;

/// The panes of a step that have left memory, all or in part.
pub(super) struct Spilled {
    pub sizes: Sizes,
    open: BTreeMap<i64, Vec<Generation>>,
    leaving: BTreeMap<i64, Leaving>,
    /// Whether generations are being written.
    is_spilling: bool,
    /// Whether a piece is being merged.
    is_merging: bool,
    /// The merge of the first pane that leaves, between two pieces.
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
            open: BTreeMap::new(),
            leaving: BTreeMap::new(),
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
        self.open.is_empty() && self.leaving.is_empty()
    }

    /// Whether an open pane has generations.
    pub fn has(&self, pane: i64) -> bool {
        self.open.contains_key(&pane)
    }

    fn all(&self) -> impl Iterator<Item = &Generation> {
        self.open.values().flatten().chain(self.leaving.values().flat_map(|leaving| &leaving.generations))
    }

    /// Whether a generation is in memory, so that no other may be frozen.
    pub fn has_unwritten(&self) -> bool {
        self.all().any(|generation| generation.in_memory().is_some())
    }

    /// Whether generations are on their way to files.
    pub fn is_spilling(&self) -> bool {
        self.is_spilling
    }

    /// Whether a pane has as many generations as it may.
    pub fn is_full(&self, pane: i64) -> bool {
        self.open.get(&pane).is_some_and(|generations| generations.len() >= self.sizes.generations_max)
    }

    /// What a pane held becomes its newest generation.
    pub fn freeze(&mut self, pane: i64, groups: Groups) {
        self.open.entry(pane).or_default().push(Generation::of(groups));
    }

    /// The first pane with generations whose window this watermark closes.
    fn first_closed(&self, plan: &Plan, watermark_ms: i64) -> Option<i64> {
        let is_closed = |pane: &&i64| plan.is_closed(plan.spans.last_end(**pane), watermark_ms);
        self.open.keys().next().filter(is_closed).copied()
    }

    /// The results of panes that this watermark closes begin to leave; `rest` takes out what of a pane is in no generation.
    pub fn close(&mut self, plan: &Plan, watermark_ms: i64, mut rest: impl FnMut(i64) -> Option<Groups>) {
        while let Some(pane) = self.first_closed(plan, watermark_ms) {
            let mut generations = self.open.remove(&pane).expect("it was just seen");
            generations.extend(rest(pane).map(Generation::of));
            self.leaving.insert(pane, Leaving { generations, after: None, released: 0 });
        }
    }

    /// The pieces that can leave.
    pub fn take_ready(&mut self) -> Vec<Piece> {
        self.ready.drain(..).collect()
    }

    /// Whether the next seal lets anything out, or begins to, with this watermark.
    pub fn is_due(&self, plan: &Plan, watermark_ms: i64) -> bool {
        !self.ready.is_empty() || self.first_closed(plan, watermark_ms).is_some()
    }

    /// Whether results of closed windows are still on their way.
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// A piece left, with the seal under way or one before a start.
    ///
    /// # Errors
    /// When no such pane leaves.
    pub fn left(&mut self, left: &Left) -> Result<(), StateError> {
        let leaving = self.leaving.get_mut(&left.pane);
        let leaving = leaving.ok_or_else(|| super::encoding::damaged("lets results out of no window"))?;
        leaving.after = Some(left.after.clone());
        leaving.released += left.rows;
        if left.is_last {
            self.leaving.remove(&left.pane);
        }
        Ok(())
    }

    /// The end of the first window whose results this watermark lets out and that are not out yet, or not all.
    pub fn held_back(&self, plan: &Plan, watermark_ms: i64) -> Option<i64> {
        let leaving = self.leaving.keys().next().copied();
        let first = leaving.into_iter().chain(self.first_closed(plan, watermark_ms)).min();
        first.map(|pane| plan.spans.last_end(pane))
    }

    /// The last open pane with generations.
    pub fn last_pane(&self) -> Option<i64> {
        self.open.keys().next_back().copied()
    }

    /// Rows held.
    pub fn rows(&self) -> u64 {
        let released: u64 = self.leaving.values().map(|leaving| leaving.released).sum();
        self.all().map(|generation| generation.rows).sum::<u64>().saturating_sub(released)
    }

    /// Groups held: one key may be in several generations. Those of a pane that leaves count until all have left.
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
            let panes = self.open.iter();
            let leaving = self.leaving.iter().map(|(pane, leaving)| (pane, &leaving.generations));
            let mut frozen: Vec<(i64, usize, Arc<Groups>)> = panes
                .chain(leaving)
                .flat_map(|(pane, of)| of.iter().enumerate().map(|(number, one)| (*pane, number, one)))
                .filter_map(|(pane, number, one)| Some((pane, number, one.in_memory()?.clone())))
                .collect();
            frozen.sort_by_key(|(pane, number, _)| (*pane, *number));
            return Some(Box::new(Spill::new(plan.clone(), self.sizes, frozen)));
        }
        if self.is_merging || self.ready.len() >= READY_MAX {
            return None;
        }
        let merger = match self.merger.take() {
            Some(merger) => merger,
            None => {
                // A pane whose last piece waits for its seal has nothing more to merge.
                let is_merged =
                    |pane: &i64| self.ready.iter().any(|piece| piece.pane == *pane && piece.is_last);
                let (pane, leaving) = self.leaving.iter().find(|(pane, _)| !is_merged(pane))?;
                if leaving.generations.iter().any(|generation| generation.in_memory().is_some()) {
                    return None;
                }
                let generations = leaving.generations.iter().map(Generation::sections);
                Box::new(Merger::new(plan.clone(), self.sizes, *pane, generations, leaving.after.clone()))
            }
        };
        self.is_merging = true;
        Some(Box::new(Leave::new(merger)))
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
                    let leaving = self.leaving.get_mut(&pane).map(|leaving| &mut leaving.generations);
                    let generations = self.open.get_mut(&pane).or(leaving);
                    let generation = generations.and_then(|generations| generations.get_mut(number));
                    generation.ok_or_else(foreign)?.at = At::Files(sections);
                }
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
        let leaving = self.leaving.iter_mut().map(|(pane, leaving)| (pane, &mut leaving.generations));
        for (pane, generations) in self.open.iter_mut().chain(leaving) {
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
            order.iter().for_each(|group| all.picked(plan, &[*group]).write(&mut written));
            format!("{} {} {written:?}", generation.rows, generation.groups)
        };
        let open = self
            .open
            .iter()
            .map(|(pane, all)| format!("{pane} {:?}", all.iter().map(of).collect::<Vec<_>>()));
        let leaving = self.leaving.iter().map(|(pane, one)| {
            let generations: Vec<String> = one.generations.iter().map(of).collect();
            format!("{pane} {:?} {} {generations:?}", one.after, one.released)
        });
        open.chain(leaving).collect()
    }
}
