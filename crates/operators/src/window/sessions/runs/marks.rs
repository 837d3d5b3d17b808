//! What deltas and snapshots say of sessions in runs.
//!
//! Owns the bytes behind the sessions of a state of version 7 and every check on the way in. Does not own those before them ([`state`](crate::window::state)).
//!
//! | of a delta | bytes | meaning                                                                          |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | left       | 4     | pieces that leave with the seal; of each: its pane 8, 1 if it is the last of its sweep and 2 if nothing stays open besides 1, rows that it releases 8, and the key up to which the results are out, behind its length 4 |
//! | cuts       | 4     | keys; of each its pane 8, the time up to which earlier sessions are apart 8, and the key as above |
//! | swept      | 4     | panes of which a sweep begins; of each its start 8                                |
//! | frozen     | 4     | panes that the seal freezes, apart from those; of each its start 8                |
//!
//! | of a snapshot | bytes | meaning                                                                       |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | files      | 4     | how many; of each: object as a text behind its length of 16 bits, length 8, footer's place 8, footer's checksum 8 |
//! | panes      | 4     | with runs, the earliest first; of each its start 8, the watermark as of which all closed sessions have left 8, and how many items 4 |
//! | a run      | 1     | 0, and its sessions as in a pane; or 1, rows 8, sessions 8, the least and the greatest last record 16, and how many sections 4: of each the number of its file 4, its first block 4 and the one behind its last 4 |
//! | cuts       | 1     | 2, and how many keys 4: of each the time 8, and the key                            |
//! | a sweep    | 1     | 3, its watermark 8, rows that were released 8, 1 if all results are out 1, 1 if any are 1, and the key then |

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::StateError;

use super::fold::Cuts;
use super::{At, Item, Pane, Run, Runs, Sweep};
use crate::runs::FileEntry;
use crate::window::encoding::{Reader, damaged, put_len};
use crate::window::plan::Plan;
use crate::window::sessions::{ROWS_MAX, Sessions};
use crate::window::spilled::Sizes;
use crate::window::spilled::marks::{put_key, read_files, read_key};

/// What a seal says of sessions in runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::window) struct Marks {
    /// Pieces that leave with it.
    pub left: Vec<Left>,
    /// Cuts of each pane.
    pub cuts: BTreeMap<i64, Cuts>,
    /// Panes of which a sweep begins.
    pub swept: Vec<i64>,
    /// Panes that it freezes.
    pub frozen: Vec<i64>,
}

/// A piece that left.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::window) struct Left {
    pub pane: i64,
    pub after: Vec<u8>,
    pub rows: u64,
    pub is_last: bool,
    /// Whether nothing of what was swept stays open.
    pub is_empty: bool,
}

fn put_i64(to: &mut Vec<u8>, number: i64) {
    to.extend_from_slice(&number.to_le_bytes());
}

impl Marks {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.cuts.is_empty() && self.swept.is_empty() && self.frozen.is_empty()
    }

    /// Writes them.
    pub fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.left.len());
        for Left { pane, after, rows, is_last, is_empty } in &self.left {
            put_i64(to, *pane);
            to.push(u8::from(*is_last) + u8::from(*is_empty));
            to.extend_from_slice(&rows.to_le_bytes());
            put_key(to, after);
        }
        put_len(to, self.cuts.values().map(BTreeMap::len).sum());
        for (pane, cuts) in &self.cuts {
            for (key, last) in cuts {
                put_i64(to, *pane);
                put_i64(to, *last);
                put_key(to, key);
            }
        }
        for panes in [&self.swept, &self.frozen] {
            put_len(to, panes.len());
            panes.iter().for_each(|pane| put_i64(to, *pane));
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When a key is none, or the bytes end early.
    pub fn read(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut marks = Self::default();
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            let [flags] = from.array()?;
            let rows = u64::from_le_bytes(from.array()?);
            let after = read_after(plan, from)?;
            marks.left.push(Left { pane, after, rows, is_last: flags >= 1, is_empty: flags == 2 });
        }
        for _ in 0..from.len()? {
            let (pane, last) = (i64::from_le_bytes(from.array()?), i64::from_le_bytes(from.array()?));
            marks.cuts.entry(pane).or_default().insert(read_key(plan, from)?, last);
        }
        let swept = from.len()?;
        marks.swept = from.numbers(swept, i64::from_le_bytes)?;
        let frozen = from.len()?;
        marks.frozen = from.numbers(frozen, i64::from_le_bytes)?;
        Ok(marks)
    }
}

/// A key up to which results have left; none if a sweep has let nothing out.
fn read_after(plan: &Plan, from: &mut Reader<'_>) -> Result<Vec<u8>, StateError> {
    match from.0.first_chunk::<4>() {
        Some([0, 0, 0, 0]) => from.take(4).map(|_| Vec::new()),
        _ => read_key(plan, from),
    }
}

impl Runs {
    /// Writes them for a snapshot.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        let named = self.named_files();
        put_len(to, named.len());
        for file in named.values() {
            FileEntry::put(to, &file.object, [file.len, file.footer_at, file.sum]);
        }
        let numbers: BTreeMap<&str, u32> = named.keys().copied().zip(0..).collect();
        put_len(to, self.panes.len());
        for (start, pane) in &self.panes {
            put_i64(to, *start);
            put_i64(to, pane.released_ms);
            put_len(to, pane.items.len());
            for item in &pane.items {
                match item {
                    Item::Run(run) => write_run(plan, run, &numbers, to),
                    Item::Cut(cuts) => {
                        to.push(2);
                        put_len(to, cuts.len());
                        for (key, last) in cuts {
                            put_i64(to, *last);
                            put_key(to, key);
                        }
                    }
                    Item::Sweep(Sweep { watermark_ms, after, released, is_out, made: _ }) => {
                        to.push(3);
                        put_i64(to, *watermark_ms);
                        to.extend_from_slice(&released.to_le_bytes());
                        to.extend_from_slice(&[u8::from(*is_out), u8::from(after.is_some())]);
                        after.iter().for_each(|after| put_key(to, after));
                    }
                }
            }
        }
    }

    /// The files of runs, each once; what a sweep has written is named with its run.
    fn named_files(&self) -> BTreeMap<&str, &Arc<crate::window::spilled::file::File>> {
        let sections = self.all().flat_map(Run::sections);
        sections.map(|section| (&*section.file.object, &section.file)).collect()
    }

    /// Reads what was written; the files it names are still to be [opened](Runs::open_file).
    ///
    /// # Errors
    /// When it cannot be.
    pub fn read(
        plan: &Plan,
        sizes: Sizes,
        watermark_ms: i64,
        from: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let mut runs = Self::new(plan, sizes);
        runs.opening = read_files(from)?;
        for _ in 0..from.len()? {
            let start = i64::from_le_bytes(from.array()?);
            let wrong = || damaged("has sessions in files that cannot be");
            if plan.pane_of(start) != Some(start) || runs.panes.contains_key(&start) {
                return Err(wrong());
            }
            let released_ms = i64::from_le_bytes(from.array()?);
            let mut pane = Pane { released_ms, ..Pane::default() };
            for _ in 0..from.len()? {
                let item = read_item(plan, start, runs.next, from)?;
                runs.next += 1;
                if matches!(&item, Item::Sweep(sweep) if sweep.watermark_ms > watermark_ms) {
                    return Err(damaged("lets results out of a sweep that has not begun"));
                }
                pane.items.push(item);
            }
            let rows = pane
                .runs()
                .try_fold(0, |sum: u64, run| sum.checked_add(run.rows).filter(|rows| *rows <= ROWS_MAX));
            let released = pane.sweeps().try_fold(0, |sum: u64, sweep| sum.checked_add(sweep.released));
            let (Some(rows), Some(released)) = (rows, released) else { return Err(wrong()) };
            if released > rows || pane.items.is_empty() {
                return Err(wrong());
            }
            runs.panes.insert(start, pane);
        }
        if runs.opening.is_empty() {
            runs.name_files()?;
        }
        Ok(runs)
    }
}

fn write_run(plan: &Plan, run: &Run, numbers: &BTreeMap<&str, u32>, to: &mut Vec<u8>) {
    match &run.at {
        At::Memory(sessions) => {
            to.push(0);
            sessions.write(plan, to);
        }
        At::Files(sections) => {
            to.push(1);
            to.extend_from_slice(&run.rows.to_le_bytes());
            to.extend_from_slice(&run.sessions.to_le_bytes());
            put_i64(to, run.lasts.0);
            put_i64(to, run.lasts.1);
            put_len(to, sections.len());
            for section in sections {
                let file = numbers[&*section.file.object];
                for number in [file, section.blocks.start, section.blocks.end] {
                    to.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
        At::Named(_) => unreachable!("every file is open before anything else is called"),
    }
}

fn read_item(plan: &Plan, pane: i64, number: usize, from: &mut Reader<'_>) -> Result<Item, StateError> {
    Ok(match from.array()? {
        [0] => {
            let sessions = Sessions::read(plan, pane, from)?;
            let lasts = sessions.lasts().ok_or_else(|| damaged("has a run of no session"))?;
            let (rows, count) = (sessions.rows(), sessions.len());
            Item::Run(Run { number, rows, sessions: count, lasts, at: At::Memory(Arc::new(sessions)) })
        }
        [1] => {
            let (rows, sessions) = (u64::from_le_bytes(from.array()?), u64::from_le_bytes(from.array()?));
            let lasts = (i64::from_le_bytes(from.array()?), i64::from_le_bytes(from.array()?));
            let within = pane..plan.spans.last_end(pane);
            if !within.contains(&lasts.0) || !within.contains(&lasts.1) {
                return Err(damaged("has a run of sessions of another time"));
            }
            let sections = from.len()?;
            let numbers = from.numbers(sections.saturating_mul(3), u32::from_le_bytes)?;
            let named = numbers.as_chunks::<3>().0.iter();
            let named = named.map(|[file, first, end]| (*file, *first..*end)).collect();
            Item::Run(Run { number, rows, sessions, lasts, at: At::Named(named) })
        }
        [2] => {
            let mut cuts = Cuts::new();
            for _ in 0..from.len()? {
                let last = i64::from_le_bytes(from.array()?);
                cuts.insert(read_key(plan, from)?, last);
            }
            Item::Cut(cuts)
        }
        [3] => {
            let watermark_ms = i64::from_le_bytes(from.array()?);
            let released = u64::from_le_bytes(from.array()?);
            let [is_out, has_left] = from.array()?;
            let after = if has_left == 1 { Some(read_after(plan, from)?) } else { None };
            Item::Sweep(Sweep { watermark_ms, after, released, is_out: is_out == 1, made: None })
        }
        _ => return Err(damaged("has what is none of sessions in files")),
    })
}
