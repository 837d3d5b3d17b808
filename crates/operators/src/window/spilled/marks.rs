//! What deltas and snapshots say of spilled panes.
//!
//! Owns the bytes behind the panes of a state of version 4 and every check on the way in. Does not own those before them
//! ([`state`](crate::window::state)).
//!
//! | of a delta | bytes | meaning                                                                          |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | left       | 4     | pieces that leave with the seal; of each: pane 8, 1 if it is the last 1, rows 8, and the key up to which its results are out, behind its length 4 |
//! | frozen     | 4     | panes that the seal freezes; of each its start 8                                 |
//!
//! | of a snapshot | bytes | meaning                                                                       |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | files      | 4     | how many; of each: object as a text behind its length of 16 bits, length 8, footer's place 8, footer's checksum 8 |
//! | panes      | 4     | with generations, the earliest first; of each what follows                       |
//! | start      | 8     |                                                                                  |
//! | leaving    | 1     | 1 if its window is closed; then rows that are out 8, 1 if any piece is 1, and the key as above |
//! | generations | 4    | how many; of each 0 and its groups as in a pane, or 1, rows 8, groups 8, and how many sections 4: of each the number of its file 4, its first block 4 and the one behind its last 4 |

use std::collections::BTreeMap;

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
}

/// A piece that left.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::window) struct Left {
    pub pane: i64,
    pub after: Vec<u8>,
    pub rows: u64,
    pub is_last: bool,
}

/// The longest footer of a file: it has some bytes and a key for each block.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

impl Marks {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.frozen.is_empty()
    }

    /// Writes them.
    pub fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.left.len());
        for Left { pane, after, rows, is_last } in &self.left {
            to.extend_from_slice(&pane.to_le_bytes());
            to.push(u8::from(*is_last));
            to.extend_from_slice(&rows.to_le_bytes());
            put_key(to, after);
        }
        put_len(to, self.frozen.len());
        self.frozen.iter().for_each(|pane| to.extend_from_slice(&pane.to_le_bytes()));
    }

    /// Reads them.
    ///
    /// # Errors
    /// When a key is none, or the bytes end early.
    pub fn read(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut marks = Self::default();
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            let is_last = from.take(1)? == [1];
            let rows = u64::from_le_bytes(from.array()?);
            marks.left.push(Left { pane, after: read_key(plan, from)?, rows, is_last });
        }
        let frozen = from.len()?;
        marks.frozen = from.numbers(frozen, i64::from_le_bytes)?;
        Ok(marks)
    }
}

fn put_key(to: &mut Vec<u8>, key: &[u8]) {
    put_len(to, key.len());
    to.extend_from_slice(key);
}

fn read_key(plan: &Plan, from: &mut Reader<'_>) -> Result<Vec<u8>, StateError> {
    let len = from.len()?;
    let key = from.take(len)?;
    match plan.keys.is_key(key) {
        true => Ok(key.to_vec()),
        false => Err(damaged("has results up to a key that is none")),
    }
}

impl Spilled {
    /// Writes them for a snapshot.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut numbers = BTreeMap::new();
        let files: Vec<_> = self.distinct_files().collect();
        put_len(to, files.len());
        for (number, file) in (0_u32..).zip(files) {
            FileEntry::put(to, &file.object, [file.len, file.footer_at, file.sum]);
            numbers.insert(file.object.clone(), number);
        }
        let open = self.open.iter().map(|(pane, generations)| (*pane, None, generations));
        let leaving = self.leaving.iter().map(|(pane, one)| (*pane, Some(one), &one.generations));
        put_len(to, self.open.len() + self.leaving.len());
        // What leaves ended before anything that is open.
        for (pane, leaving, generations) in leaving.chain(open) {
            to.extend_from_slice(&pane.to_le_bytes());
            to.push(u8::from(leaving.is_some()));
            if let Some(Leaving { after, released, .. }) = leaving {
                to.extend_from_slice(&released.to_le_bytes());
                to.push(u8::from(after.is_some()));
                after.iter().for_each(|after| put_key(to, after));
            }
            put_len(to, generations.len());
            for generation in generations {
                match &generation.at {
                    At::Memory(groups) => {
                        to.push(0);
                        groups.write(to);
                    }
                    At::Files(sections) => {
                        to.push(1);
                        to.extend_from_slice(&generation.rows.to_le_bytes());
                        to.extend_from_slice(&generation.groups.to_le_bytes());
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
        for _ in 0..from.len()? {
            let len = usize::from(u16::from_le_bytes(from.array()?));
            let object = String::from_utf8(from.take(len)?.to_vec()).map_err(|_| damaged("names no file"))?;
            let [len, footer_at, sum] = [from.array()?, from.array()?, from.array()?].map(u64::from_le_bytes);
            if footer_at >= len || len - footer_at > FOOTER_BYTES_MAX {
                return Err(damaged("names a file whose footer cannot be"));
            }
            spilled.opening.push_back(FileEntry { object, len, footer_at, sum });
        }
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            let is_closed = plan.is_closed(plan.spans.last_end(pane), watermark_ms);
            let is_leaving = from.take(1)? == [1];
            if plan.pane_of(pane) != Some(pane) || is_closed != is_leaving || !plan.can_spill() {
                return Err(damaged("has a spilled window that is none"));
            }
            let mut leaving = Leaving { generations: Vec::new(), after: None, released: 0 };
            if is_leaving {
                leaving.released = u64::from_le_bytes(from.array()?);
                leaving.after = if from.take(1)? == [1] { Some(read_key(plan, from)?) } else { None };
            }
            for _ in 0..from.len()? {
                leaving.generations.push(read_generation(plan, from)?);
            }
            let is_twice = match is_leaving {
                true => spilled.leaving.insert(pane, leaving).is_some(),
                false => spilled.open.insert(pane, leaving.generations).is_some(),
            };
            if is_twice {
                return Err(damaged("has a spilled window twice"));
            }
        }
        if spilled.opening.is_empty() {
            spilled.name_files()?;
        }
        Ok(spilled)
    }
}

fn read_generation(plan: &Plan, from: &mut Reader<'_>) -> Result<Generation, StateError> {
    if from.take(1)? == [0] {
        return Ok(Generation::of(Groups::read(&plan.keys, &plan.aggregates, from)?));
    }
    let (rows, groups) = (u64::from_le_bytes(from.array()?), u64::from_le_bytes(from.array()?));
    let sections = from.len()?;
    let numbers = from.numbers(sections.saturating_mul(3), u32::from_le_bytes)?;
    let named = numbers.as_chunks::<3>().0.iter().map(|[file, first, end]| (*file, *first..*end)).collect();
    Ok(Generation { rows, groups, at: At::Named(named) })
}
