//! Versions that left memory: immutable files sorted by key, of which some two bytes a version stay in memory.
//!
//! Owns which versions are in which run, the merging of runs, and what is counted of all that. Does no I/O: it says what must be read and written, and the
//! engine does it. Does not own the versions in memory (`temporal::versions`), nor the bytes of a file ([`crate::join::spilled::file`]).
//!
//! **Runs.** A seal *freezes* versions that arrived first: they leave memory and become the newest run. How many it freezes stands in its delta, so a start has the same
//! runs. A run is bytes in memory until work beside the lane has written them to a file; where it is changes no result.
//!
//! **Only settled versions are frozen**: those whose time the floor has reached, of which a key has one at the most. From this follows all the rest:
//!
//! - A run has each key at most once, and its versions hold for every left row that waits or comes, because none of these is before the floor. No time is compared.
//! - **The newest run with a key has its version**, whatever its time, and one in memory that holds comes before all of them: a version is taken although another one was frozen
//!   before only if that one is not later, or deletes the key and has been forgotten. So the older ones are replaced.
//!
//! **Merging.** When there are more than [`Sizes::runs_max`] runs, the newest ones become one, up to the first that is more than twice as large as all of those together. Of each key the newest version stays. One
//! that deletes its key and is forgotten goes as well if no older run is left; in memory it stays as long as anything was ever frozen, for a file may have what it hides. So a key is asked of some runs,
//! however many versions there are, and each version is rewritten a few times.
//!
//! **What is held.** A replaced version in a file is released by the first seal after the merge that drops it, not by the one that replaces it: that would have to read each block in
//! which a key has changed. The seal says in its delta how many. After a crash these may still be in files; then the merge that drops them again releases nothing
//! (`untold` is negative until then).
//!
//! | module  | what it owns                                                        |
//! |---------|---------------------------------------------------------------------|
//! | `look`  | which blocks a seal or a batch needs, and the versions found there   |
//! | `hand`  | the columns of versions that were read                               |
//! | `merge` | from runs to one                                                     |
//! | `marks` | what deltas and snapshots say of all that                            |

pub(super) mod hand;
mod look;
pub(super) mod marks;
mod merge;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::ArrowError;
use dataflow::{StateError, StateFile, StateRead, StateWork};

use super::versions::Versions;
use super::{DELETED_MS, JoinSide, Plan, ROWS_MAX};
use crate::join::arena::Row;
use crate::join::codec::damaged;
use crate::join::spilled::file::{Builder, File};
use crate::join::spilled::write::Write;
use crate::runs::FileEntry;
use hand::Hand;
pub(super) use look::Candidates;
use merge::Merge;

/// While work is under way there are at most so many times [`Sizes::runs_max`] runs: then the lane waits.
const RUNS_CROWDED: usize = 4;

/// A run is merged with those behind it unless it is more than so many times as large as they are together.
const LIKE: u64 = 2;

/// The sizes that decide when something is spilled, cut or merged. Tests take tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of rows and versions in memory, with the index of runs, above which versions are frozen, until two thirds of it are left.
    pub open_bytes: u64,
    /// Bytes of the index of runs beyond which the run of the pipeline ends.
    pub index_bytes: u64,
    /// Bytes of a file, about: it is in memory while it is made.
    pub run_bytes: u64,
    /// Bytes of a block, about: what is read to find one version.
    pub block_bytes: usize,
    /// Bytes of blocks that are read at once, about.
    pub read_bytes: u64,
    /// Bytes of versions that stay at hand after a seal has read them, about.
    pub hand_bytes: u64,
    /// Runs beyond which some are merged.
    pub runs_max: usize,
}

impl Sizes {
    /// Those for a step's memory: as for the rows of an interval join.
    pub fn new(memory: u64) -> Self {
        let of_rows = crate::join::spilled::Sizes::new(memory);
        Self {
            open_bytes: of_rows.open_bytes,
            index_bytes: of_rows.index_bytes,
            run_bytes: of_rows.run_bytes,
            block_bytes: of_rows.block_bytes,
            read_bytes: of_rows.read_bytes,
            hand_bytes: of_rows.hand_bytes,
            runs_max: 8,
        }
    }
}

/// Versions of different keys, the newest of each when it was made.
struct Run {
    /// Runs with greater ones are newer. That of a merged run is the newest of its parts'.
    number: u64,
    /// Ascending by key; at least one.
    parts: Vec<Arc<File>>,
    /// Its bytes, until they are in a file: it has one part then.
    bytes: Option<Arc<Vec<u8>>>,
}

impl Run {
    fn rows(&self) -> u64 {
        self.parts.iter().map(|file| u64::from(file.rows())).sum()
    }
}

/// A file of a snapshot whose footer is still to be read.
struct Opening {
    number: u64,
    rows: u32,
    entry: FileEntry,
}

/// The versions of a step that have left memory.
pub(super) struct Spilled {
    pub sizes: Sizes,
    /// The oldest first.
    runs: Vec<Run>,
    /// The number of the next run.
    next: u64,
    /// Versions that merges have dropped and no seal has released; less than zero if seals have released some that are still in files.
    untold: i64,
    hand: Hand,
    is_writing: bool,
    is_merging: bool,
    /// Files of a snapshot that are still to be opened.
    opening: VecDeque<Opening>,
}

impl Spilled {
    /// None.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            runs: Vec::new(),
            next: 0,
            untold: 0,
            hand: Hand::default(),
            is_writing: false,
            is_merging: false,
            opening: VecDeque::new(),
        }
    }

    /// Whether every version is in memory.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether no version has ever left memory.
    pub fn is_blank(&self) -> bool {
        self.next == 0
    }

    fn rows(&self) -> u64 {
        self.runs.iter().map(Run::rows).sum()
    }

    /// Versions held.
    pub fn held(&self) -> u64 {
        self.rows().saturating_add_signed(self.untold)
    }

    /// Those in files.
    pub fn held_in_files(&self) -> u64 {
        let in_files = self.runs.iter().filter(|run| run.bytes.is_none()).map(Run::rows).sum::<u64>();
        in_files.min(self.held())
    }

    /// Whether a run is in memory, so that no other may be frozen.
    pub fn has_unwritten(&self) -> bool {
        self.runs.iter().any(|run| run.bytes.is_some())
    }

    /// Whether a merge must end before another run may be frozen.
    pub fn is_full(&self) -> bool {
        self.is_merging && self.runs.len() >= RUNS_CROWDED * self.sizes.runs_max
    }

    /// Whether the next freeze waits for work that is under way.
    pub fn is_waiting(&self) -> bool {
        self.is_writing || self.is_full()
    }

    /// Memory of the index of all runs.
    pub fn index_bytes(&self) -> u64 {
        let of =
            |run: &Run| size_of::<Run>() + run.parts.iter().map(|file| file.memory_bytes()).sum::<usize>();
        self.runs.iter().map(of).sum::<usize>() as u64
    }

    /// Memory held in bytes. A run that is being written has another copy.
    pub fn memory_bytes(&self) -> u64 {
        let unwritten: usize =
            self.runs.iter().filter_map(|run| run.bytes.as_ref()).map(|bytes| bytes.capacity()).sum();
        self.index_bytes() + unwritten as u64 + self.hand.memory_bytes()
    }

    /// The files in use.
    pub fn files(&self) -> Vec<StateFile> {
        let files = self.runs.iter().filter(|run| run.bytes.is_none()).flat_map(|run| &run.parts);
        files.map(|file| StateFile { object: file.object.clone(), len: file.len }).collect()
    }

    /// Versions, which are settled and of different keys, become the newest run.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn freeze(&mut self, plan: &Plan, of: &Versions, mut ids: Vec<u32>) -> Result<(), ArrowError> {
        if ids.is_empty() {
            return Ok(());
        }
        ids.sort_unstable_by_key(|id| of.arena.get(*id).hash);
        let mut builder = Builder::new(JoinSide::Right, false, self.sizes.block_bytes);
        of.in_parts(&ids, ROWS_MAX, &mut |part, columns| {
            let rows: Vec<&Row> = part.iter().map(|id| of.arena.get(*id)).collect();
            rows.iter().for_each(|row| self.hand.forget(row.hash));
            builder.part(plan, &rows, &[], &columns);
            Ok::<(), ArrowError>(())
        })?;
        let (bytes, file) = builder.finish();
        self.runs.push(Run { number: self.next, parts: vec![Arc::new(file)], bytes: Some(Arc::new(bytes)) });
        self.next += 1;
        Ok(())
    }

    /// How many versions the seal under way releases, because merges have dropped them.
    pub fn tell(&mut self) -> u64 {
        let told = u64::try_from(self.untold).unwrap_or(0);
        self.untold = self.untold.min(0);
        told
    }

    /// Remembers how many a seal has released.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn told(&mut self, dropped: u64) -> Result<(), StateError> {
        let untold = i64::try_from(dropped).ok().and_then(|dropped| self.untold.checked_sub(dropped));
        let rows = self.rows();
        let untold = untold.filter(|untold| rows.checked_add_signed(*untold).is_some());
        self.untold = untold.ok_or_else(|| damaged("releases more versions than there are"))?;
        Ok(())
    }

    /// Work that is due, with what it needs to know of the floor.
    pub fn work(&mut self, plan: &Arc<Plan>, floor_ms: i64) -> Option<Box<dyn StateWork>> {
        if !self.is_writing && self.has_unwritten() {
            self.is_writing = true;
            let unwritten = self.runs.iter().filter_map(|run| Some((run.number, run.bytes.clone()?)));
            return Some(Box::new(Write::new(unwritten.collect())));
        }
        if self.is_merging {
            return None;
        }
        let range = self.to_merge()?;
        self.is_merging = true;
        let forgotten_ms = (range.start == 0).then(|| floor_ms.saturating_sub(DELETED_MS));
        let runs = self.runs[range].iter().map(|run| (run.number, run.parts.clone())).collect();
        Some(Box::new(Merge::new(plan.clone(), self.sizes, runs, forgotten_ms)))
    }

    /// Which runs should become one.
    fn to_merge(&self) -> Option<Range<usize>> {
        // Those that are not written are the newest.
        let written = self.runs.iter().take_while(|run| run.bytes.is_none()).count();
        if written <= self.sizes.runs_max || written < 2 {
            return None;
        }
        let mut begin = written - 2;
        let mut rows = self.runs[begin].rows() + self.runs[begin + 1].rows();
        while let Some(before) = begin.checked_sub(1)
            && self.runs[before].rows() <= LIKE * rows
        {
            begin = before;
            rows += self.runs[before].rows();
        }
        Some(begin..written)
    }

    /// Takes over what work made.
    ///
    /// # Errors
    /// When it is none of this state's, or not done.
    pub fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let not_own = || damaged("gets work back that is not its own, or not done");
        let work = match work.into_any().downcast::<Write>() {
            Ok(write) => return self.adopt_written(write.written().ok_or_else(not_own)?),
            Err(work) => work.downcast::<Merge>().map_err(|_| not_own())?,
        };
        let (numbers, parts) = work.made().ok_or_else(not_own)?;
        self.is_merging = false;
        let begin = self.runs.iter().position(|run| run.number == numbers[0]).ok_or_else(not_own)?;
        let range = begin..begin + numbers.len();
        let are_there = self
            .runs
            .get(range.clone())
            .is_some_and(|runs| runs.iter().map(|run| run.number).eq(numbers.iter().copied()));
        if !are_there {
            return Err(not_own());
        }
        let before = self.rows();
        let number = numbers[numbers.len() - 1];
        let merged = (!parts.is_empty()).then_some(Run { number, parts, bytes: None });
        self.runs.splice(range, merged);
        self.untold += i64::try_from(before - self.rows()).expect("versions are fewer than that");
        Ok(())
    }

    fn adopt_written(&mut self, written: Vec<(u64, Arc<str>)>) -> Result<(), StateError> {
        self.is_writing = false;
        for (number, object) in written {
            let run = self.runs.iter_mut().find(|run| run.number == number);
            let run = run.ok_or_else(|| damaged("gets a run back that it does not have"))?;
            Arc::make_mut(&mut run.parts[0]).object = object;
            run.bytes = None;
        }
        Ok(())
    }

    /// What a start must read: the footers of the files that a snapshot names, in their order.
    pub fn opening(&self) -> Vec<StateRead> {
        self.opening.iter().map(|opening| opening.entry.footer()).collect()
    }

    /// Takes the footer of the next file.
    ///
    /// # Errors
    /// When it is damaged, another file's, or not asked for.
    pub fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let opening = self.opening.pop_front();
        let Opening { number, rows, entry } =
            opening.ok_or_else(|| damaged("names fewer files than were read"))?;
        self.add(number, File::open(&entry, bytes)?, rows, None)
    }

    /// Adds a file of a snapshot, in whose order they come.
    fn add(
        &mut self,
        number: u64,
        file: File,
        rows: u32,
        bytes: Option<Arc<Vec<u8>>>,
    ) -> Result<(), StateError> {
        if file.rows() != rows || !file.is_of_versions() {
            return Err(damaged("names a run that has other versions"));
        }
        let at = self.runs.partition_point(|run| run.number < number);
        match self.runs.get_mut(at).filter(|run| run.number == number) {
            Some(run) if run.bytes.is_none() && bytes.is_none() => run.parts.push(Arc::new(file)),
            Some(_) => return Err(damaged("has a run twice")),
            None => self.runs.insert(at, Run { number, parts: vec![Arc::new(file)], bytes }),
        }
        Ok(())
    }
}

#[cfg(test)]
impl Spilled {
    /// What is in runs, but for where these are.
    pub fn contents(&self) -> Vec<String> {
        let of = |run: &Run| {
            let sums: Vec<(u64, u64)> = run.parts.iter().map(|file| (file.len, file.sum)).collect();
            format!("{} {sums:?}", run.number)
        };
        self.runs.iter().map(of).chain([format!("{}", self.untold)]).collect()
    }

    /// How many runs there are, and how many files.
    pub fn count(&self) -> (usize, usize) {
        (self.runs.len(), self.runs.iter().map(|run| run.parts.len()).sum())
    }
}
