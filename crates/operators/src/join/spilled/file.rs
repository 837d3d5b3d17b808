//! The file of a sorted run of held rows: blocks of rows, sorted by the hash of their key, and an index.
//!
//! Owns the bytes, which later versions must read (golden bytes in the tests), and every check on the way in. Does not own the envelope
//! ([`crate::runs`]), nor what the bytes of rows are ([`state`](crate::join::state) has the table).
//!
//! A block is what a delta holds of a batch, and then of each row how many rows of the run arrived before it (4 bytes each). Rows of one key stand in
//! the order of their arrival. The *place* of a row is how many rows of the run stand before it.
//!
//! | footer    | bytes   | meaning                                                                          |
//! |-----------|---------|----------------------------------------------------------------------------------|
//! | version   | 2       | of the envelope: 1                                                               |
//! | side      | 1       | 0 left, 1 right                                                                  |
//! | blocks    | 4       | how many; then of each its bytes with their checksum (4), rows (4), and the high half of its first hash (8) |
//! | times     | 9       | the earliest (8), and how many bytes each is written with (1): 4 or 8; then how much later each row is, by place |
//! | filter    | 1       | 0 if no row can match, 1 if there is one, 2 if every key may be there             |
//! | fuse      |         | if there is one: seed 8, log2 of the segment 1, segments 4, bytes 4, then the bytes |

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::{StateError, StateRead};

use crate::dedup::spilled::fuse::Fuse;
use crate::join::arena::{Row, UNLINKED};
use crate::join::codec::{Reader, damaged, put_len};
use crate::join::incoming::Taken;
use crate::join::pages::ROWS_MAX;
use crate::join::plan::{JoinSide, Plan};
use crate::join::side::Side;
use crate::join::state::{self, Kind};
use crate::runs::{Envelope, Fields, FileEntry, HEAD, SUM, checked_block, close_block};

/// The newest version that is read, and the one that is written.
pub const VERSION: u16 = 1;

/// What the files begin and end with.
pub const MAGIC: [u8; 4] = *b"FBJR";

const ENVELOPE: Envelope = Envelope { magic: MAGIC, version: VERSION, what: "a file of a join's rows" };

/// Rows of the first block of a file; the following ones follow its size.
const ROWS_FIRST: usize = 64;

/// One block, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    offset: u32,
    len: u32,
    /// The place of its first row.
    first: u32,
    /// The high half of that row's hash.
    high: u64,
}

/// The times of all rows, by place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Times {
    first_ms: i64,
    last_ms: i64,
    later: Later,
}

/// How much later than the first each is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Later {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Which keys may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Nothing,
    Fuse(Fuse),
    Everything,
}

/// What stays in memory of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The object, below the lane's folder.
    pub object: Arc<str>,
    /// Bytes of the file.
    pub len: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The footer's checksum.
    pub sum: u64,
    pub(in crate::join) side: JoinSide,
    blocks: Vec<Block>,
    times: Times,
    filter: Filter,
}

/// The rows of a block.
pub(in crate::join) struct Rows {
    /// The place of the first.
    pub first: u32,
    pub taken: Taken,
    /// How many rows of the run arrived before each.
    pub arrivals: Vec<u32>,
}

impl Times {
    fn of(times_ms: &[i64]) -> Self {
        let first_ms = times_ms.iter().copied().min().unwrap_or(0);
        let last_ms = times_ms.iter().copied().max().unwrap_or(0);
        let later = |time_ms: &i64| time_ms.abs_diff(first_ms);
        let later = if last_ms.abs_diff(first_ms) <= u64::from(u32::MAX) {
            Later::Narrow(times_ms.iter().map(|time_ms| later(time_ms) as u32).collect())
        } else {
            Later::Wide(times_ms.iter().map(later).collect())
        };
        Self { first_ms, last_ms, later }
    }

    fn len(&self) -> usize {
        match &self.later {
            Later::Narrow(later) => later.len(),
            Later::Wide(later) => later.len(),
        }
    }

    #[inline]
    fn get(&self, place: u32) -> i64 {
        let later = match &self.later {
            Later::Narrow(later) => u64::from(later[place as usize]),
            Later::Wide(later) => later[place as usize],
        };
        self.first_ms.wrapping_add_unsigned(later)
    }
}

impl File {
    /// Opens a file from its footer.
    ///
    /// # Errors
    /// When the bytes are damaged, too new, or another file's.
    pub(in crate::join) fn open(entry: &FileEntry, bytes: &[u8]) -> Result<Self, StateError> {
        let file = Self::of_footer(&entry.object, entry.footer_at, entry.sum, bytes)?;
        match file.len == entry.len {
            true => Ok(file),
            false => Err(file.damaged("it is not the file that the snapshot names")),
        }
    }

    /// Opens a file that is in memory as a whole.
    ///
    /// # Errors
    /// When the bytes are damaged, or too new.
    pub(in crate::join) fn open_whole(object: &str, bytes: &[u8]) -> Result<Self, StateError> {
        let (footer_at, sum) = ENVELOPE.find_footer(object, bytes)?;
        Self::of_footer(object, footer_at as u64, sum, &bytes[footer_at..])
    }

    fn of_footer(object: &str, at: u64, sum: u64, bytes: &[u8]) -> Result<Self, StateError> {
        let (mut fields, len) = ENVELOPE.footer(object, at, sum, bytes)?;
        let side = match fields.array()? {
            [0] => JoinSide::Left,
            [1] => JoinSide::Right,
            [_] => return Err(fields.damaged("its rows are of no side")),
        };
        let count = u32::from_le_bytes(fields.array()?);
        let (mut blocks, mut offset, mut rows) = (Vec::new(), HEAD as u64, 0_u32);
        for _ in 0..count {
            let len = u32::from_le_bytes(fields.array()?);
            let own = u32::from_le_bytes(fields.array()?);
            let high = u64::from_le_bytes(fields.array()?);
            // The end of the blocks is compared with the footer's place, which is of 32 bits.
            blocks.push(Block { offset: offset as u32, len, first: rows, high });
            offset += u64::from(len);
            rows = rows
                .checked_add(own)
                .filter(|_| own > 0 && len as usize > SUM)
                .ok_or_else(|| fields.damaged("a block's numbers cannot be"))?;
        }
        let times = read_times(&mut fields, rows as usize)?;
        let filter = read_filter(&mut fields)?;
        let is_sorted = blocks.is_sorted_by_key(|block| block.high);
        if !is_sorted || rows == 0 || offset != at || !fields.bytes.is_empty() {
            return Err(fields.damaged("its numbers do not agree with each other"));
        }
        Ok(Self { object: object.into(), len, footer_at: at, sum, side, blocks, times, filter })
    }

    /// Rows, in all blocks.
    pub(in crate::join) fn rows(&self) -> u32 {
        self.times.len() as u32
    }

    /// The earliest time and the latest.
    pub(in crate::join) fn times_ms(&self) -> (i64, i64) {
        (self.times.first_ms, self.times.last_ms)
    }

    /// The time of the row at this place.
    #[inline]
    pub(in crate::join) fn time_ms(&self, place: u32) -> i64 {
        self.times.get(place)
    }

    /// False if no row that can match has this key.
    #[inline]
    pub(in crate::join) fn may_hold(&self, hash: u128) -> bool {
        match &self.filter {
            Filter::Nothing => false,
            Filter::Fuse(fuse) => fuse.may_hold(hash as u64),
            Filter::Everything => true,
        }
    }

    /// Asks the processor to fetch what [`may_hold`](Self::may_hold) will inspect.
    #[inline]
    pub(in crate::join) fn prefetch(&self, hash: u128) {
        if let Filter::Fuse(fuse) = &self.filter {
            fuse.prefetch(hash as u64);
        }
    }

    /// The blocks that rows with this hash are in, if they are there: one as a rule.
    pub(in crate::join) fn blocks_of(&self, hash: u128) -> Range<u32> {
        let high = (hash >> 64) as u64;
        let begin = self.blocks.partition_point(|block| block.high < high).saturating_sub(1);
        let end = self.blocks.partition_point(|block| block.high <= high);
        begin as u32..end as u32
    }

    /// How many blocks there are.
    pub(in crate::join) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The places of a block's rows.
    pub(in crate::join) fn places(&self, block: u32) -> Range<u32> {
        let end = self.blocks.get(block as usize + 1).map_or(self.rows(), |next| next.first);
        self.blocks[block as usize].first..end
    }

    /// Where a block is.
    pub(in crate::join) fn read(&self, block: u32) -> StateRead {
        let Block { offset, len, .. } = self.blocks[block as usize];
        StateRead { object: self.object.clone(), offset: u64::from(offset), len }
    }

    /// The rows of a block.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(in crate::join) fn block(&self, plan: &Plan, block: u32, bytes: &[u8]) -> Result<Rows, StateError> {
        let body = checked_block(bytes, block).map_err(|what| self.damaged_block(block, &what))?;
        let mut from = Reader(body);
        let taken = state::block(&mut from, Kind::Delta, plan)?.taken;
        let (places, hashes) = (self.places(block), &taken.rows.hashes);
        let arrivals = from.numbers(hashes.len(), u32::from_le_bytes)?;
        let is_whole = from.0.is_empty()
            && taken.rows.side == self.side
            && hashes.len() == places.len()
            && (hashes[0] >> 64) as u64 == self.blocks[block as usize].high
            && hashes.is_sorted()
            && places.clone().zip(&taken.times_ms).all(|(place, time_ms)| self.time_ms(place) == *time_ms);
        match is_whole {
            true => Ok(Rows { first: places.start, taken, arrivals }),
            false => Err(self.damaged_block(block, "it holds other rows than the index says")),
        }
    }

    fn damaged(&self, what: &str) -> StateError {
        StateError::Damaged(format!("`{}`: {what}", self.object))
    }

    fn damaged_block(&self, block: u32, what: &str) -> StateError {
        let offset = self.blocks[block as usize].offset;
        StateError::Damaged(format!("`{}`, block `{block}` at byte `{offset}`: {what}", self.object))
    }

    /// Memory held in bytes.
    pub(in crate::join) fn memory_bytes(&self) -> usize {
        let times = match &self.times.later {
            Later::Narrow(later) => later.capacity() * 4,
            Later::Wide(later) => later.capacity() * 8,
        };
        let filter = match &self.filter {
            Filter::Fuse(fuse) => fuse.memory_bytes(),
            Filter::Nothing | Filter::Everything => 0,
        };
        size_of::<Self>() + self.blocks.capacity() * size_of::<Block>() + times + filter + self.object.len()
    }
}

fn read_times(fields: &mut Fields<'_>, rows: usize) -> Result<Times, StateError> {
    let first_ms = i64::from_le_bytes(fields.array()?);
    let [width] = fields.array()?;
    let later = match width {
        4 => {
            let bytes = fields.take(rows.saturating_mul(4))?;
            Later::Narrow(bytes.as_chunks::<4>().0.iter().map(|later| u32::from_le_bytes(*later)).collect())
        }
        8 => {
            let bytes = fields.take(rows.saturating_mul(8))?;
            Later::Wide(bytes.as_chunks::<8>().0.iter().map(|later| u64::from_le_bytes(*later)).collect())
        }
        _ => return Err(fields.damaged("its times are of no width")),
    };
    let most = match &later {
        Later::Narrow(later) => later.iter().max().map(|most| u64::from(*most)),
        Later::Wide(later) => later.iter().max().copied(),
    };
    let last_ms = first_ms.checked_add_unsigned(most.unwrap_or(0));
    let is_usable = crate::join::incoming::is_usable;
    match last_ms.filter(|last_ms| is_usable(first_ms) && is_usable(*last_ms)) {
        Some(last_ms) => Ok(Times { first_ms, last_ms, later }),
        None => Err(fields.damaged("it has a row without a usable time")),
    }
}

fn read_filter(fields: &mut Fields<'_>) -> Result<Filter, StateError> {
    match fields.array()? {
        [0] => Ok(Filter::Nothing),
        [1] => {
            let seed = u64::from_le_bytes(fields.array()?);
            let [bits] = fields.array()?;
            let segments = u32::from_le_bytes(fields.array()?);
            let len = u32::from_le_bytes(fields.array()?);
            let slots = fields.take(len as usize)?;
            let fuse = Fuse::from_parts(seed, bits, segments, slots);
            Ok(Filter::Fuse(fuse.ok_or_else(|| fields.damaged("its filter is none"))?))
        }
        [2] => Ok(Filter::Everything),
        [_] => Err(fields.damaged("its filter is of no kind")),
    }
}

/// Reads a whole file of a join's rows and checks its envelope, its index and every block's checksum; the rows cannot be read without the settings
/// of their step. `object` is the name for messages. How many rows it holds.
///
/// # Errors
/// When anything is damaged, or the file is of a newer version.
pub fn verify(object: &str, bytes: &[u8]) -> Result<u64, StateError> {
    let file = File::open_whole(object, bytes)?;
    for (number, block) in (0..).zip(&file.blocks) {
        let own = &bytes[block.offset as usize..][..block.len as usize];
        checked_block(own, number).map_err(|what| file.damaged_block(number, &what))?;
    }
    Ok(u64::from(file.rows()))
}

/// A run: its bytes, what stays in memory of them under a name that is still to be given, and a bit for each row that was in a pair.
pub(in crate::join) struct Built {
    pub bytes: Vec<u8>,
    pub file: File,
    pub matched: Vec<u64>,
}

/// A file under construction.
struct Builder<'a> {
    plan: &'a Plan,
    side: JoinSide,
    bytes: Vec<u8>,
    blocks: Vec<Block>,
    times_ms: Vec<i64>,
    block_bytes: usize,
    /// Rows that the next block gets, by what those before took.
    rows: usize,
}

/// Makes a run of these rows of a side, which are in the order of their arrival and at least one.
///
/// # Errors
/// When columns of one form do not go together.
pub(in crate::join) fn build(
    plan: &Plan,
    (side, of): (JoinSide, &Side),
    ids: &[u32],
    block_bytes: usize,
) -> Result<Built, ArrowError> {
    let hashes = ids.iter().map(|id| of.arena.get(*id).hash);
    let mut order: Vec<(u128, u32)> = hashes.zip(0..).collect();
    order.sort_unstable();
    let sorted: Vec<u32> = order.iter().map(|(_, arrival)| ids[*arrival as usize]).collect();
    let arrivals: Vec<u32> = order.into_iter().map(|(_, arrival)| arrival).collect();
    let mut matched = vec![0_u64; ids.len().div_ceil(64)];
    for (place, _) in sorted.iter().enumerate().filter(|(_, id)| of.arena.is_matched(**id)) {
        matched[place / 64] |= 1 << (place % 64);
    }
    let mut bytes = Vec::new();
    ENVELOPE.head(&mut bytes);
    let mut builder = Builder {
        plan,
        side,
        bytes,
        blocks: Vec::new(),
        times_ms: Vec::with_capacity(ids.len()),
        block_bytes,
        rows: ROWS_FIRST,
    };
    of.in_parts(&sorted, ROWS_MAX, &mut |part, columns| {
        let rows: Vec<&Row> = part.iter().map(|id| of.arena.get(*id)).collect();
        let before = builder.times_ms.len();
        builder.part(&rows, &arrivals[before..before + part.len()], &columns);
        Ok::<(), ArrowError>(())
    })?;
    let filter = filter(&sorted.iter().map(|id| of.arena.get(*id)).collect::<Vec<_>>());
    let (bytes, file) = builder.finish(filter);
    Ok(Built { bytes, file, matched })
}

/// A filter of the keys that can match.
fn filter(rows: &[&Row]) -> Filter {
    let keyed = rows.iter().filter(|row| row.newer != UNLINKED).map(|row| row.hash as u64);
    match keyed.clone().next() {
        None => Filter::Nothing,
        Some(_) => Fuse::build(keyed).map_or(Filter::Everything, Filter::Fuse),
    }
}

impl Builder<'_> {
    /// Writes rows with these columns, in blocks.
    fn part(&mut self, rows: &[&Row], arrivals: &[u32], columns: &[ArrayRef]) {
        let mut begin = 0;
        while begin < rows.len() {
            let at = self.bytes.len();
            let mut count = self.rows.min(rows.len() - begin);
            loop {
                let own: Vec<ArrayRef> = columns.iter().map(|column| column.slice(begin, count)).collect();
                state::put_block(
                    &mut self.bytes,
                    (self.plan, self.side),
                    &rows[begin..begin + count],
                    None,
                    &own,
                );
                let len = self.bytes.len() - at;
                // Texts differ in size: a block far beyond its size is made again with fewer rows.
                if len <= 4 * self.block_bytes || count == 1 {
                    self.rows = (count * self.block_bytes / len.max(1)).clamp(1, 2 * count.max(ROWS_FIRST));
                    break;
                }
                self.bytes.truncate(at);
                count = (count * self.block_bytes / len).clamp(1, count - 1);
            }
            arrivals[begin..begin + count]
                .iter()
                .for_each(|arrival| self.bytes.extend_from_slice(&arrival.to_le_bytes()));
            close_block(&mut self.bytes, at, self.blocks.len() as u32);
            self.blocks.push(Block {
                offset: at as u32,
                len: (self.bytes.len() - at) as u32,
                first: self.times_ms.len() as u32,
                high: (rows[begin].hash >> 64) as u64,
            });
            self.times_ms.extend(rows[begin..begin + count].iter().map(|row| row.time_ms));
            begin += count;
        }
    }

    fn finish(self, filter: Filter) -> (Vec<u8>, File) {
        let Self { side, mut bytes, mut blocks, times_ms, .. } = self;
        blocks.shrink_to_fit();
        // It is in memory until it is written.
        bytes.shrink_to_fit();
        let times = Times::of(&times_ms);
        let mut file = File { object: "".into(), len: 0, footer_at: 0, sum: 0, side, blocks, times, filter };
        let closed = ENVELOPE.close(&mut bytes, |to| file.write_footer(to));
        (file.len, file.footer_at, file.sum) = (closed.len, closed.footer_at, closed.sum);
        (bytes, file)
    }
}

impl File {
    fn write_footer(&self, to: &mut Vec<u8>) {
        to.push(self.side as u8);
        put_len(to, self.blocks.len());
        for (number, block) in (0..).zip(&self.blocks) {
            put_len(to, block.len as usize);
            put_len(to, self.places(number).len());
            to.extend_from_slice(&block.high.to_le_bytes());
        }
        to.extend_from_slice(&self.times.first_ms.to_le_bytes());
        match &self.times.later {
            Later::Narrow(later) => {
                to.push(4);
                later.iter().for_each(|later| to.extend_from_slice(&later.to_le_bytes()));
            }
            Later::Wide(later) => {
                to.push(8);
                later.iter().for_each(|later| to.extend_from_slice(&later.to_le_bytes()));
            }
        }
        match &self.filter {
            Filter::Nothing => to.push(0),
            Filter::Fuse(fuse) => {
                let (seed, bits, segments, slots) = fuse.parts();
                to.push(1);
                to.extend_from_slice(&seed.to_le_bytes());
                to.push(bits);
                to.extend_from_slice(&segments.to_le_bytes());
                put_len(to, slots.len());
                to.extend_from_slice(slots);
            }
            Filter::Everything => to.push(2),
        }
    }
}

/// What is wrong with a state that names rows which its run does not have.
pub(in crate::join) fn no_such_row() -> StateError {
    damaged("names a spilled row that is not there")
}

#[cfg(test)]
mod tests;
