//! What deltas and snapshots say of spilled panes.
//!
//! Owns the bytes behind the panes of a state of version 5 or 8 and every check on the way in. Does not own those before them
//! ([`state`](crate::window::state)).
//!
//! | of a delta | bytes | meaning                                                                          |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | left       | 4     | pieces that leave with the seal; of each: its window's end 8, 1 if it is the last and 2 more if the window fires 1, rows that it releases 8, and the key up to which the results are out, behind its length 4 |
//! | frozen     | 4     | panes that the seal freezes, apart from those of windows that it closes; of each its start 8 |
//! | fired      | 4     | of version 8: open windows whose results begin to leave from files with the seal; of each its end 8 |
//!
//! | of a snapshot | bytes | meaning                                                                       |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | files      | 4     | how many; of each: object as a text behind its length of 16 bits, length 8, footer's place 8, footer's checksum 8 |
//! | next       | 8     | the number of the next generation                                                |
//! | panes      | 4     | with generations, the earliest first; of each its start 8 and its generations    |
//! | generations | 4    | how many; of each its number 8, and 0 and its groups as in a pane, or 1, rows 8, groups 8, in version 8 the newest seal of its groups 8, and how many sections 4: of each the number of its file 4, its first block 4 and the one behind its last 4 |
//! | leaving    | 4     | windows that are closed and not out; of each its end 8, the number below which generations are its own 8, rows that were released 8, 1 if a piece is out 1, and the key as above; in version 8 the seal that it fired with before 8 |
//! | firing     | 4     | of version 8: the same of windows that fire                                     |

use std::collections::{BTreeMap, VecDeque};

use dataflow::StateError;

use super::{At, Generation, Leaving, Sizes, Spilled};
use crate::runs::FileEntry;
use crate::window::encoding::{Reader, damaged, put_len};
use crate::window::groups::Groups;
use crate::window::plan::Plan;

/// What a seal says of panes that are spilled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::window) struct Marks {
    /// Pieces that leave with it.
    pub left: Vec<Left>,
    /// Panes that it freezes.
    pub frozen: Vec<i64>,
    /// Ends of open windows that fire with it, and have a pane in files.
    pub fired: Vec<i64>,
}

/// A piece that left.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::window) struct Left {
    /// The end of its window.
    pub end: i64,
    /// Whether it fires, and stays open.
    pub fires: bool,
    pub after: Vec<u8>,
    pub rows: u64,
    pub is_last: bool,
}

/// The longest footer of a file: it has some bytes and a key for each block.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

impl Marks {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.frozen.is_empty() && self.fired.is_empty()
    }

    /// Writes them.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        put_len(to, self.left.len());
        for Left { end, fires, after, rows, is_last } in &self.left {
            to.extend_from_slice(&end.to_le_bytes());
            to.push(u8::from(*is_last) | u8::from(*fires) << 1);
            to.extend_from_slice(&rows.to_le_bytes());
            put_key(to, after);
        }
        put_len(to, self.frozen.len());
        self.frozen.iter().for_each(|pane| to.extend_from_slice(&pane.to_le_bytes()));
        if plan.emit.is_some() {
            put_len(to, self.fired.len());
            self.fired.iter().for_each(|end| to.extend_from_slice(&end.to_le_bytes()));
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When a key is none, or the bytes end early.
    pub fn read(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut marks = Self::default();
        for _ in 0..from.len()? {
            let end = i64::from_le_bytes(from.array()?);
            let [flags] = from.array()?;
            let (is_last, fires) = (flags & 1 != 0, flags & 2 != 0);
            let rows = u64::from_le_bytes(from.array()?);
            marks.left.push(Left { end, fires, after: read_key(plan, from)?, rows, is_last });
        }
        let frozen = from.len()?;
        marks.frozen = from.numbers(frozen, i64::from_le_bytes)?;
        if plan.emit.is_some() {
            let fired = from.len()?;
            marks.fired = from.numbers(fired, i64::from_le_bytes)?;
            if !marks.fired.iter().all(|end| is_end(plan, *end)) {
                return Err(damaged("fires a window that is none"));
            }
        }
        Ok(marks)
    }
}

/// Whether a window ends then.
fn is_end(plan: &Plan, end: i64) -> bool {
    let last = end.saturating_sub(1);
    // A window may end so late that no record is taken for its last millisecond. Only very early ones have bounds that are no numbers.
    let has_bounds = end > 0 || plan.pane_of(last).is_some();
    has_bounds && end < i64::MAX && plan.spans.end_after(last) == end
}

/// Writes a key behind its length.
pub(in crate::window) fn put_key(to: &mut Vec<u8>, key: &[u8]) {
    put_len(to, key.len());
    to.extend_from_slice(key);
}

/// Reads it.
///
/// # Errors
/// When it is none.
pub(in crate::window) fn read_key(plan: &Plan, from: &mut Reader<'_>) -> Result<Vec<u8>, StateError> {
    let len = from.len()?;
    let key = from.take(len)?;
    match plan.keys.is_key(key) {
        true => Ok(key.to_vec()),
        false => Err(damaged("has results up to a key that is none")),
    }
}

impl Spilled {
    /// Writes them for a snapshot.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        let mut numbers = BTreeMap::new();
        let files: Vec<_> = self.distinct_files().collect();
        put_len(to, files.len());
        for (number, file) in (0_u32..).zip(files) {
            FileEntry::put(to, &file.object, [file.len, file.footer_at, file.sum]);
            numbers.insert(file.object.clone(), number);
        }
        to.extend_from_slice(&self.next.to_le_bytes());
        put_len(to, self.panes.len());
        for (pane, generations) in &self.panes {
            to.extend_from_slice(&pane.to_le_bytes());
            put_len(to, generations.len());
            for generation in generations {
                to.extend_from_slice(&generation.number.to_le_bytes());
                match &generation.at {
                    At::Memory(groups) => {
                        to.push(0);
                        groups.write_stamped(plan, to);
                    }
                    At::Files(sections) => {
                        to.push(1);
                        to.extend_from_slice(&generation.rows.to_le_bytes());
                        to.extend_from_slice(&generation.groups.to_le_bytes());
                        if plan.emit.is_some() {
                            to.extend_from_slice(&generation.newest.to_le_bytes());
                        }
                        put_len(to, sections.len());
                        for section in sections {
                            let file = numbers[&section.file.object];
                            for number in [file, section.blocks.start, section.blocks.end] {
                                to.extend_from_slice(&number.to_le_bytes());
                            }
                        }
                    }
                    At::Named(_) => unreachable!("every file is open before anything else is called"),
                }
            }
        }
        let emits = plan.emit.is_some();
        for windows in [Some(&self.leaving), emits.then_some(&self.firing)].into_iter().flatten() {
            put_len(to, windows.len());
            for (end, Leaving { before, after, released, since }) in windows {
                to.extend_from_slice(&end.to_le_bytes());
                to.extend_from_slice(&before.to_le_bytes());
                to.extend_from_slice(&released.to_le_bytes());
                to.push(u8::from(after.is_some()));
                after.iter().for_each(|after| put_key(to, after));
                if emits {
                    to.extend_from_slice(&since.to_le_bytes());
                }
            }
        }
    }

    /// Reads what was written; the files it names are still to be [opened](Spilled::open_file).
    ///
    /// # Errors
    /// When it cannot be.
    pub fn read(
        plan: &Plan,
        sizes: Sizes,
        watermark_ms: i64,
        from: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let mut spilled = Self::new(sizes);
        spilled.opening = read_files(from)?;
        spilled.next = u64::from_le_bytes(from.array()?);
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            if plan.pane_of(pane) != Some(pane) || !plan.can_spill() {
                return Err(damaged("has a spilled window that is none"));
            }
            let mut generations = Vec::new();
            for _ in 0..from.len()? {
                generations.push(read_generation(plan, from)?);
            }
            let is_ascending = generations.is_sorted_by(|one, next| one.number < next.number);
            let is_below = generations.last().is_some_and(|last| last.number < spilled.next);
            if !is_ascending || !is_below || spilled.panes.insert(pane, generations).is_some() {
                return Err(damaged("has a spilled window twice, or in no order"));
            }
        }
        for fires in [false, true] {
            if fires && plan.emit.is_none() {
                break;
            }
            for _ in 0..from.len()? {
                let (end, leaving) = (i64::from_le_bytes(from.array()?), read_leaving(plan, from)?);
                let may_leave = fires || plan.is_closed(end, watermark_ms);
                let is_there = is_end(plan, end) && may_leave && spilled.touches(plan, end);
                let known = leaving.before <= spilled.next;
                let windows = if fires { &mut spilled.firing } else { &mut spilled.leaving };
                if !is_there || !known || windows.insert(end, leaving).is_some() {
                    return Err(damaged("lets results out of a window that is none, or open"));
                }
            }
        }
        let is_left = |pane: &i64| {
            let end = plan.spans.last_end(*pane);
            plan.is_closed(end, watermark_ms) && !spilled.leaving.contains_key(&end)
        };
        if spilled.panes.keys().any(is_left) {
            return Err(damaged("has a spilled window that has left"));
        }
        if spilled.opening.is_empty() {
            spilled.name_files()?;
        }
        Ok(spilled)
    }
}

/// Reads the files that a snapshot names.
///
/// # Errors
/// When one cannot be.
pub(in crate::window) fn read_files(from: &mut Reader<'_>) -> Result<VecDeque<FileEntry>, StateError> {
    let mut files = VecDeque::new();
    for _ in 0..from.len()? {
        let len = usize::from(u16::from_le_bytes(from.array()?));
        let object = String::from_utf8(from.take(len)?.to_vec()).map_err(|_| damaged("names no file"))?;
        let [len, footer_at, sum] = [from.array()?, from.array()?, from.array()?].map(u64::from_le_bytes);
        if footer_at >= len || len - footer_at > FOOTER_BYTES_MAX {
            return Err(damaged("names a file whose footer cannot be"));
        }
        files.push_back(FileEntry { object, len, footer_at, sum });
    }
    Ok(files)
}

fn read_leaving(plan: &Plan, from: &mut Reader<'_>) -> Result<Leaving, StateError> {
    let [before, released] = [from.array()?, from.array()?].map(u64::from_le_bytes);
    let after = if from.take(1)? == [1] { Some(read_key(plan, from)?) } else { None };
    let since = if plan.emit.is_some() { u64::from_le_bytes(from.array()?) } else { 0 };
    Ok(Leaving { before, after, released, since })
}

fn read_generation(plan: &Plan, from: &mut Reader<'_>) -> Result<Generation, StateError> {
    let number = u64::from_le_bytes(from.array()?);
    if from.take(1)? == [0] {
        return Ok(Generation::of(number, Groups::read_stamped(plan, from)?));
    }
    let (rows, groups) = (u64::from_le_bytes(from.array()?), u64::from_le_bytes(from.array()?));
    let newest = if plan.emit.is_some() { u64::from_le_bytes(from.array()?) } else { 0 };
    let sections = from.len()?;
    let numbers = from.numbers(sections.saturating_mul(3), u32::from_le_bytes)?;
    let named = numbers.as_chunks::<3>().0.iter().map(|[file, first, end]| (*file, *first..*end)).collect();
    Ok(Generation { number, rows, groups, newest, at: At::Named(named) })
}
