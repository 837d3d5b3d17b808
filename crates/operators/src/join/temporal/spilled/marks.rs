//! What deltas and snapshots say of versions that left memory.
//!
//! Owns the bytes behind the blocks of a state of version 2 and every check on the way in. Does not own those before them
//! ([`state`](crate::join::state)).
//!
//! | of a delta | bytes | meaning                                                                          |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | dropped    | 8     | versions that merges have dropped, and the seal releases                          |
//! | frozen     | 4     | runs that the seal freezes; of each how many of the first settled versions 4      |
//!
//! | of a snapshot | bytes | meaning                                                                       |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | untold     | 8     | dropped and not released; less than zero for those that are released and not dropped |
//! | next       | 8     | the number of the next run                                                       |
//! | files      | 4     | run by run, by key; of each the number of its run 8, versions 4, and 0 and its bytes behind their length 4, or 1 and its file: object as a text behind its length of 16 bits, length 8, footer's place 8, footer's checksum 8 |

use std::sync::Arc;

use dataflow::StateError;

use super::{Opening, Sizes, Spilled};
use crate::join::codec::{Reader, damaged, put_len};
use crate::join::spilled::file::File;
use crate::join::spilled::marks::{Where, put_file, read_file};
use crate::join::state::check_end;

/// What a seal says of versions that left memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::join::temporal) struct Marks {
    pub dropped: u64,
    pub frozen: Vec<u32>,
}

impl Marks {
    /// Writes them.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.dropped.to_le_bytes());
        put_len(to, self.frozen.len());
        self.frozen.iter().for_each(|count| to.extend_from_slice(&count.to_le_bytes()));
    }

    /// Reads them.
    ///
    /// # Errors
    /// When the bytes end early, or go on.
    pub fn read(mut from: Reader<'_>) -> Result<Self, StateError> {
        let dropped = u64::from_le_bytes(from.array()?);
        let count = from.len()?;
        let frozen = from.numbers(count, u32::from_le_bytes)?;
        check_end(&from)?;
        Ok(Self { dropped, frozen })
    }
}

impl Spilled {
    /// What a snapshot says.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.untold.to_le_bytes());
        to.extend_from_slice(&self.next.to_le_bytes());
        put_len(to, self.runs.iter().map(|run| run.parts.len()).sum());
        for run in &self.runs {
            for file in &run.parts {
                to.extend_from_slice(&run.number.to_le_bytes());
                put_len(to, file.rows() as usize);
                put_file(to, file, run.bytes.as_deref().map(Vec::as_slice));
            }
        }
    }

    /// Reads what was written; the files it names are still to be [opened](Spilled::open).
    ///
    /// # Errors
    /// When it cannot be.
    pub fn of_snapshot(sizes: Sizes, mut from: Reader<'_>) -> Result<Self, StateError> {
        let mut spilled = Self::new(sizes);
        spilled.untold = i64::from_le_bytes(from.array()?);
        spilled.next = u64::from_le_bytes(from.array()?);
        let (mut numbers, mut held) = (Vec::new(), spilled.untold);
        for _ in 0..from.len()? {
            let number = u64::from_le_bytes(from.array()?);
            let rows = from.len()?;
            numbers.push(number);
            held = held.saturating_add_unsigned(rows as u64);
            match read_file(&mut from)? {
                Where::InMemory(bytes) => {
                    let mut file = File::open_whole("a run of the snapshot", bytes)?;
                    file.object = "".into();
                    spilled.add(number, file, rows as u32, Some(Arc::new(bytes.to_vec())))?;
                }
                Where::InFile(entry) => {
                    spilled.opening.push_back(Opening { number, rows: rows as u32, entry })
                }
            }
        }
        check_end(&from)?;
        if spilled.next == 0
            || !numbers.is_sorted()
            || numbers.last().is_some_and(|last| *last >= spilled.next)
            || held < 0
        {
            return Err(damaged("has runs in no order, or fewer versions than it has released"));
        }
        Ok(spilled)
    }
}
