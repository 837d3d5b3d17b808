//! What deltas and snapshots say of spilled rows.
//!
//! Owns the bytes behind the blocks of a state of version 2 and every check on the way in. Does not own those before them
//! ([`state`](crate::join::state)).
//!
//! | of a delta | bytes | meaning                                                                          |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | floor      | 8     | rows are released for which this is more than the time of the last row that they could match |
//! | pairs      | 8     | of rows of the delta with rows of runs; those among the other rows are not in it  |
//! | runs       | 4     | those with rows that are in their first pair; of each its number 8, how many rows 4, and the place of each 4 |
//! | rows       | 4 + 4 | how many left and right rows of the delta are in a pair with a row of a run, and in none before that; then the number of each among those of its side 4 |
//! | frozen     | 4     | runs that the seal freezes; of each its side 1, and how many of the first rows of that side 4 |
//!
//! | of a snapshot | bytes | meaning                                                                       |
//! |------------|-------|----------------------------------------------------------------------------------|
//! | floor      | 8     | of the last seal                                                                 |
//! | next       | 8     | the number of the next run                                                       |
//! | runs       | 4     | in order; of each its number 8, rows 4, a bit for each that was in a pair, and 0 and its bytes behind their length 4, or 1 and its file: object as a text behind its length of 16 bits, length 8, footer's place 8, footer's checksum 8 |

use arrow_buffer::BooleanBuffer;
use dataflow::StateError;

use super::file::{File, no_such_row};
use super::{Opening, Sizes, Spilled};
use crate::join::codec::{Reader, damaged, put_bits, put_len};
use crate::join::plan::{JoinSide, Plan};
use crate::join::state::check_end;
use crate::runs::FileEntry;

/// The longest footer of a file: some six bytes a row.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// What a seal says of rows that are spilled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::join) struct Marks {
    pub floor_ms: i64,
    pub pairs: u64,
    /// Places of rows that are in their first pair, by the number of their run.
    pub matched: Vec<(u64, Vec<u32>)>,
    /// Rows of the delta, by their number among those of their side.
    pub rows: [Vec<u32>; 2],
    pub frozen: Vec<(JoinSide, u32)>,
}

impl Marks {
    /// Writes them.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.floor_ms.to_le_bytes());
        to.extend_from_slice(&self.pairs.to_le_bytes());
        put_len(to, self.matched.len());
        for (number, places) in &self.matched {
            to.extend_from_slice(&number.to_le_bytes());
            put_len(to, places.len());
            places.iter().for_each(|place| to.extend_from_slice(&place.to_le_bytes()));
        }
        self.rows.iter().for_each(|rows| put_len(to, rows.len()));
        self.rows.iter().flatten().for_each(|row| to.extend_from_slice(&row.to_le_bytes()));
        put_len(to, self.frozen.len());
        for (side, rows) in &self.frozen {
            to.push(*side as u8);
            to.extend_from_slice(&rows.to_le_bytes());
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When the bytes end early, or go on.
    pub fn read(mut from: Reader<'_>) -> Result<Self, StateError> {
        let floor_ms = i64::from_le_bytes(from.array()?);
        let pairs = u64::from_le_bytes(from.array()?);
        let mut marks = Self { floor_ms, pairs, ..Self::default() };
        for _ in 0..from.len()? {
            let number = u64::from_le_bytes(from.array()?);
            let places = from.len()?;
            marks.matched.push((number, from.numbers(places, u32::from_le_bytes)?));
        }
        let counts = [from.len()?, from.len()?];
        for (rows, count) in marks.rows.iter_mut().zip(counts) {
            *rows = from.numbers(count, u32::from_le_bytes)?;
        }
        for _ in 0..from.len()? {
            let side = if from.flag()? { JoinSide::Right } else { JoinSide::Left };
            marks.frozen.push((side, u32::from_le_bytes(from.array()?)));
        }
        check_end(&from)?;
        Ok(marks)
    }
}

impl Spilled {
    /// The rows of runs that are in their first pair since the last seal.
    pub fn fresh(&self) -> Vec<(u64, Vec<u32>)> {
        let with_fresh = self.runs.iter().filter(|run| !run.fresh.is_empty());
        with_fresh.map(|run| (run.number, run.fresh.clone())).collect()
    }

    /// Remembers rows of runs that a delta says were in a pair.
    ///
    /// # Errors
    /// When there are none such.
    pub fn mark(&mut self, matched: &[(u64, Vec<u32>)]) -> Result<(), StateError> {
        for (number, places) in matched {
            let run = self.run_mut(*number)?;
            for place in places {
                if *place >= run.file.rows() || !run.set_matched(*place) {
                    return Err(no_such_row());
                }
            }
        }
        Ok(())
    }

    /// Writes all of it for a snapshot.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.floor_ms.to_le_bytes());
        to.extend_from_slice(&self.next.to_le_bytes());
        put_len(to, self.runs.len());
        for run in &self.runs {
            to.extend_from_slice(&run.number.to_le_bytes());
            put_len(to, run.file.rows() as usize);
            put_bits(
                to,
                &BooleanBuffer::collect_bool(run.file.rows() as usize, |at| run.is_matched(at as u32)),
            );
            put_file(to, &run.file, run.bytes.as_deref().map(Vec::as_slice));
        }
    }

    /// Reads what was written; the files it names are still to be [opened](Spilled::open).
    ///
    /// # Errors
    /// When it cannot be.
    pub fn of_snapshot(plan: &Plan, sizes: Sizes, mut from: Reader<'_>) -> Result<Self, StateError> {
        let mut spilled = Self::new(sizes, i64::from_le_bytes(from.array()?));
        spilled.next = u64::from_le_bytes(from.array()?);
        let (count, mut numbers) = (from.len()?, Vec::new());
        for _ in 0..count {
            let number = u64::from_le_bytes(from.array()?);
            numbers.push(number);
            let rows = from.len()?;
            let matched = words(&from.bits(rows)?);
            match read_file(&mut from)? {
                Where::InMemory(bytes) => {
                    let mut file = File::open_whole("a run of the snapshot", bytes)?;
                    file.object = "".into();
                    spilled.add(plan, number, file, rows as u32, (Some(bytes.to_vec()), matched))?;
                }
                Where::InFile(entry) => {
                    spilled.opening.push_back(Opening { number, rows: rows as u32, entry, matched });
                }
            }
        }
        check_end(&from)?;
        let is_ascending = numbers.is_sorted_by(|one, next| one < next);
        // All runs may have gone.
        let is_below = numbers.last().is_none_or(|last| *last < spilled.next);
        match is_ascending && is_below && !spilled.is_blank() {
            true => Ok(spilled),
            false => Err(damaged("has a run twice, or in no order")),
        }
    }
}

/// Where a run is, as a snapshot says it.
pub(in crate::join) enum Where<'a> {
    /// Its bytes are in the snapshot.
    InMemory(&'a [u8]),
    /// The snapshot names its file.
    InFile(FileEntry),
}

/// Writes where a run is: its bytes, or its file.
pub(in crate::join) fn put_file(to: &mut Vec<u8>, file: &File, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            to.push(0);
            put_len(to, bytes.len());
            to.extend_from_slice(bytes);
        }
        None => {
            to.push(1);
            FileEntry::put(to, &file.object, [file.len, file.footer_at, file.sum]);
        }
    }
}

/// Reads what [`put_file`] wrote.
///
/// # Errors
/// When it cannot be.
pub(in crate::join) fn read_file<'a>(from: &mut Reader<'a>) -> Result<Where<'a>, StateError> {
    if !from.flag()? {
        let len = from.len()?;
        return Ok(Where::InMemory(from.take(len)?));
    }
    let len = usize::from(u16::from_le_bytes(from.array()?));
    let object = String::from_utf8(from.take(len)?.to_vec()).map_err(|_| damaged("names no file"))?;
    let [len, footer_at, sum] = [from.array()?, from.array()?, from.array()?].map(u64::from_le_bytes);
    if footer_at >= len || len - footer_at > FOOTER_BYTES_MAX {
        return Err(damaged("names a file whose footer cannot be"));
    }
    Ok(Where::InFile(FileEntry { object, len, footer_at, sum }))
}

/// The bits in words, zeros behind the last.
fn words(bits: &BooleanBuffer) -> Vec<u64> {
    let mut words = vec![0; bits.len().div_ceil(64)];
    bits.set_indices().for_each(|at| words[at / 64] |= 1 << (at % 64));
    words
}
