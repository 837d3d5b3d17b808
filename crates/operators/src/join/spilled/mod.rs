//! Held rows that left memory: immutable sorted files, of which an index of some six bytes a row stays in memory.
//!
//! Owns what is in which run, which of its rows were in a pair, and the work on files. Does no I/O: it says what must be read and written, and the engine
//! does it. Does not own the rows in memory (`store`), nor what is made of pairs and of rows without a match (`results`).
//!
//! **Runs.** A seal *freezes* the first rows of a side, in the order of arrival: they leave the store and become a run, which never changes again. Which seal
//! freezes how many rows stands in its delta, so a start has the same runs. A run is bytes in memory until work beside the lane has written them to a
//! file; where it is changes no result. So every row of a run arrived before those of later runs of its side, and before those in memory.
//!
//! **Pairs.** Rows that come are compared with those in memory by the index, and with those of runs in two phases: the times and the filter of each run say which blocks
//! may hold the key, and each of these is read once for all rows of a batch. A start does not compare them again: the delta says how many such pairs there were, and which
//! rows of runs and which new ones are in them.
//!
//! **Release.** The times of all rows stay in memory, so which rows a watermark releases is known without reading; a run goes with its last row. Only those without a
//! match whose side lets them out are read, some time before they are due, so that few seals wait for that.
//!
//! | module   | what it owns                                                  |
//! |----------|---------------------------------------------------------------|
//! | [`file`] | the bytes of a file, its index, and all checks                 |
//! | `look`   | which blocks a batch needs, and the pairs that they make       |
//! | `hand`   | rows without a match that are read before they are due         |
//! | `marks`  | what deltas and snapshots say of all that                      |
//! | `write`  | from runs in memory to files                                   |

pub mod file;
pub(super) mod hand;
pub(super) mod look;
pub(super) mod marks;
pub(super) mod write;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_schema::ArrowError;
use dataflow::{StateError, StateFile, StateRead, StateWork};

use super::codec::damaged;
use super::plan::{JoinSide, Plan, SidePlan};
use super::side::Side;
use crate::runs::FileEntry;
use file::{Built, File};
use hand::Hand;
use write::Write;

/// The sizes that decide when something is spilled or cut. Tests take tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of rows in memory, with the index of runs, above which the first rows are frozen, until two thirds of it are left.
    pub open_bytes: u64,
    /// Bytes of the index of runs beyond which the run ends.
    pub index_bytes: u64,
    /// Bytes of a run, about: it is in memory while it is made.
    pub run_bytes: u64,
    /// Bytes of a block, about: what is read to compare one row with those of its key.
    pub block_bytes: usize,
    /// Bytes of rows without a match that are read before they are due, about.
    pub hand_bytes: u64,
    /// Bytes of blocks that are read at once for that, about.
    pub read_bytes: u64,
}

impl Sizes {
    /// Those for a step's memory. Rows in memory and the index get three quarters of it, and runs that are not written a quarter.
    pub fn new(memory: u64) -> Self {
        Self {
            open_bytes: memory / 4 * 3,
            index_bytes: memory / 16 * 9,
            run_bytes: (memory / 8).clamp(64 << 10, 256 << 20),
            block_bytes: 8 << 10,
            hand_bytes: (memory / 16).clamp(64 << 10, 32 << 20),
            read_bytes: (memory / 16).clamp(64 << 10, 8 << 20),
        }
    }
}

/// Rows of a side that were frozen at one time.
struct Run {
    /// How many were frozen before it, of both sides.
    number: u64,
    file: File,
    /// Its bytes, until they are in a file.
    bytes: Option<Arc<Vec<u8>>>,
    /// A bit for each row, by place: whether it was in a pair.
    matched: Vec<u64>,
    /// Places of rows that were not in a pair before the last seal, and are since then.
    fresh: Vec<u32>,
    /// Rows that are not released.
    held: u32,
    /// The earliest time of those.
    next_ms: i64,
    /// Rows without a match that are released by a floor of at most this are at hand already.
    at_hand_until: i64,
}

impl Run {
    /// A run of which all rows are released that a floor of `floor_ms` releases.
    fn new(
        number: u64,
        file: File,
        (bytes, matched): (Option<Vec<u8>>, Vec<u64>),
        (plan, floor_ms): (&Plan, i64),
    ) -> Self {
        let mut run = Self {
            number,
            held: file.rows(),
            next_ms: file.times_ms().0,
            file,
            bytes: bytes.map(Arc::new),
            matched,
            fresh: Vec::new(),
            at_hand_until: i64::MIN,
        };
        run.note(plan.side(run.file.side), floor_ms);
        run
    }

    #[inline]
    fn is_matched(&self, place: u32) -> bool {
        self.matched[place as usize / 64] >> (place % 64) & 1 == 1
    }

    /// Remembers that a row was in a pair; false if that was known.
    #[inline]
    fn set_matched(&mut self, place: u32) -> bool {
        let (word, bit) = (&mut self.matched[place as usize / 64], 1 << (place % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether a row is released by the floor `to_ms` and was not by `from_ms`.
    #[inline]
    fn is_due(&self, plan: &SidePlan, place: u32, (from_ms, to_ms): (i64, i64)) -> bool {
        let time_ms = self.file.time_ms(place);
        plan.is_due(time_ms, to_ms) && !plan.is_due(time_ms, from_ms)
    }

    /// Counts the rows that are held behind a floor.
    fn note(&mut self, plan: &SidePlan, floor_ms: i64) {
        if !plan.is_due(self.next_ms, floor_ms) {
            return;
        }
        let times = (0..self.file.rows()).map(|place| self.file.time_ms(place));
        let (held, next_ms) = times
            .filter(|time_ms| !plan.is_due(*time_ms, floor_ms))
            .fold((0, i64::MAX), |(held, next_ms), time_ms| (held + 1, next_ms.min(time_ms)));
        (self.held, self.next_ms) = (held, next_ms);
    }

    /// Memory held in bytes, but for the bytes that are to be written.
    fn index_bytes(&self) -> usize {
        size_of::<Self>() + self.file.memory_bytes() + (self.matched.capacity() + self.fresh.capacity()) * 8
    }
}

/// A run of a snapshot whose footer is still to be read.
struct Opening {
    number: u64,
    rows: u32,
    entry: FileEntry,
    matched: Vec<u64>,
}

/// The rows of a step that have left memory.
pub(super) struct Spilled {
    pub sizes: Sizes,
    /// Of both sides, ascending by number; none is without a row that is held.
    runs: Vec<Run>,
    /// The number of the next run.
    next: u64,
    /// The floor that the last seal released rows by. Behind that of its watermark while rows without a match are on their way.
    pub floor_ms: i64,
    hand: Hand,
    /// Whether runs are being written.
    is_writing: bool,
    /// Runs of a snapshot that are still to be opened.
    opening: VecDeque<Opening>,
}

/// The rows of runs that a seal releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Released {
    pub rows: u64,
    /// Those that were in no pair, of each side.
    pub unmatched: [u64; 2],
}

impl Spilled {
    /// None, behind a seal that released rows by this floor.
    pub fn new(sizes: Sizes, floor_ms: i64) -> Self {
        Self {
            sizes,
            runs: Vec::new(),
            next: 0,
            floor_ms,
            hand: Hand::default(),
            is_writing: false,
            opening: VecDeque::new(),
        }
    }

    /// Whether every row is in memory.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether no row has ever left memory.
    pub fn is_blank(&self) -> bool {
        self.next == 0
    }

    /// Whether there are rows of a side.
    pub fn has(&self, side: JoinSide) -> bool {
        self.runs.iter().any(|run| run.file.side == side)
    }

    /// Whether a run is in memory, so that no other may be frozen.
    pub fn has_unwritten(&self) -> bool {
        self.runs.iter().any(|run| run.bytes.is_some())
    }

    /// Whether runs are on their way to files.
    pub fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Rows become the newest run of their side.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn freeze(
        &mut self,
        plan: &Plan,
        (side, of): (JoinSide, &Side),
        ids: &[u32],
    ) -> Result<(), ArrowError> {
        if ids.is_empty() {
            return Ok(());
        }
        let Built { bytes, file, matched } = file::build(plan, (side, of), ids, self.sizes.block_bytes)?;
        self.runs.push(Run::new(self.next, file, (Some(bytes), matched), (plan, self.floor_ms)));
        self.next += 1;
        Ok(())
    }

    /// Releases the rows that a floor releases, which is not less than the one before.
    pub fn release(&mut self, plan: &Plan, floor_ms: i64) -> Released {
        let mut released = Released::default();
        let between = (self.floor_ms, floor_ms);
        for run in &mut self.runs {
            let side = run.file.side;
            let of_side = plan.side(side);
            run.fresh.clear();
            if !of_side.is_due(run.next_ms, floor_ms) {
                continue;
            }
            let unmatched = (0..run.file.rows())
                .filter(|place| run.is_due(of_side, *place, between) && !run.is_matched(*place));
            released.unmatched[side as usize] += unmatched.count() as u64;
            let before = run.held;
            run.note(of_side, floor_ms);
            released.rows += u64::from(before - run.held);
        }
        self.runs.retain(|run| run.held > 0);
        self.floor_ms = floor_ms;
        released
    }

    /// Whether a floor releases a row without a match, of a side that lets such rows out.
    pub fn has_unmatched_due(&self, plan: &Plan, floor_ms: i64) -> bool {
        let between = (self.floor_ms, floor_ms);
        self.runs.iter().any(|run| {
            let of_side = plan.side(run.file.side);
            of_side.lets_out()
                && of_side.is_due(run.next_ms, floor_ms)
                && (0..run.file.rows())
                    .any(|place| run.is_due(of_side, place, between) && !run.is_matched(place))
        })
    }

    /// Whether any row is due.
    pub fn has_due(&self, plan: &Plan, floor_ms: i64) -> bool {
        self.runs.iter().any(|run| plan.side(run.file.side).is_due(run.next_ms, floor_ms))
    }

    /// The latest time of a row of a side.
    pub fn last_ms(&self, side: JoinSide) -> Option<i64> {
        self.runs.iter().filter(|run| run.file.side == side).map(|run| run.file.times_ms().1).max()
    }

    /// Rows held.
    pub fn held(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.held)).sum()
    }

    /// Those in files.
    pub fn held_in_files(&self) -> u64 {
        self.runs.iter().filter(|run| run.bytes.is_none()).map(|run| u64::from(run.held)).sum()
    }

    /// Memory of the index of all runs.
    pub fn index_bytes(&self) -> u64 {
        self.runs.iter().map(Run::index_bytes).sum::<usize>() as u64
    }

    /// Memory held in bytes. A run that is being written has another copy.
    pub fn memory_bytes(&self) -> u64 {
        let unwritten: usize =
            self.runs.iter().filter_map(|run| run.bytes.as_ref()).map(|bytes| bytes.capacity()).sum();
        self.index_bytes() + unwritten as u64 + self.hand.memory_bytes()
    }

    /// The files in use.
    pub fn files(&self) -> Vec<StateFile> {
        let file = |run: &Run| StateFile { object: run.file.object.clone(), len: run.file.len };
        self.runs.iter().filter(|run| run.bytes.is_none()).map(file).collect()
    }

    /// Work that is due.
    pub fn work(&mut self) -> Option<Box<dyn StateWork>> {
        if self.is_writing || !self.has_unwritten() {
            return None;
        }
        self.is_writing = true;
        let unwritten = self.runs.iter().filter_map(|run| Some((run.number, run.bytes.clone()?)));
        Some(Box::new(Write::new(unwritten.collect())))
    }

    /// Takes over what work made. Runs that have gone since then have no use for their files.
    ///
    /// # Errors
    /// When it is none of this state's, or not done.
    pub fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let work = work.into_any().downcast::<Write>().ok().and_then(|work| work.written());
        let written = work.ok_or_else(|| damaged("gets work back that is not its own, or not done"))?;
        self.is_writing = false;
        for (number, object) in written {
            if let Some(run) = self.runs.iter_mut().find(|run| run.number == number) {
                run.file.object = object;
                run.bytes = None;
            }
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
    pub fn open(&mut self, plan: &Plan, bytes: &[u8]) -> Result<(), StateError> {
        let opening = self.opening.pop_front();
        let Opening { number, rows, entry, matched } =
            opening.ok_or_else(|| damaged("names fewer files than were read"))?;
        let file = File::open(&entry, bytes)?;
        self.add(plan, number, file, rows, (None, matched))
    }

    /// Adds a run of a snapshot.
    fn add(
        &mut self,
        plan: &Plan,
        number: u64,
        file: File,
        rows: u32,
        (bytes, matched): (Option<Vec<u8>>, Vec<u64>),
    ) -> Result<(), StateError> {
        if file.rows() != rows || file.is_of_versions() {
            return Err(damaged("names a run that has other rows"));
        }
        let run = Run::new(number, file, (bytes, matched), (plan, self.floor_ms));
        if run.held == 0 {
            return Err(damaged("names a run that is released"));
        }
        let at = self.runs.partition_point(|other| other.number < number);
        self.runs.insert(at, run);
        Ok(())
    }
}

#[cfg(test)]
impl Spilled {
    /// What of a step's rows is in runs, but for where these are.
    pub fn contents(&self) -> Vec<String> {
        let of = |run: &Run| {
            let Run { number, file, matched, held, next_ms, .. } = run;
            let File { len, sum, .. } = file;
            format!("{number} {:?} {len} {sum} {matched:?} {held} {next_ms}", file.side)
        };
        self.runs.iter().map(of).chain([format!("{} {}", self.next, self.floor_ms)]).collect()
    }
}
