//! The file of a sorted run of held rows: blocks of rows, sorted by the hash of their key, and an index.
//!
//! Owns the bytes, which later versions must read (golden bytes in the tests), and every check on the way in. Does not own the envelope
//! ([`crate::runs`]), nor what the bytes of rows are ([`state`](crate::join::state) has the table).
//!
//! A block is what a delta holds of a batch, and then of each row how many rows of the run arrived before it (4 bytes each). Rows of one key stand in
//! the order of their arrival. The *place* of a row is how many rows of the run stand before it.
//!
//! Versions of a [temporal join](crate::join::temporal) are found by their key alone, and a run has one of each: their blocks have no arrivals, and the footer no times.
//!
//! | footer    | bytes   | meaning                                                                          |
//! |-----------|---------|----------------------------------------------------------------------------------|
//! | version   | 2       | of the envelope: 1, and 2 for versions                                           |
//! | side      | 1       | 0 left, 1 right, 2 versions: rows of the right side                              |
//! | blocks    | 4       | how many; then of each its bytes with their checksum (4), rows (4), and the high half of its first hash (8) |
//! | times     | 9       | not of versions: the earliest (8), and how many bytes each is written with (1): 4 or 8; then how much later each row is, by place |
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

/// The newest version that is read. It is written for versions of a temporal join.
pub const VERSION: u16 = 2;

/// The version that is written for all other rows: programs before this one read it.
const VERSION_WITH_TIMES: u16 = 1;

/// The side of versions, in the footer.
const VERSIONS: u8 = 2;

/// What the files begin and end with.
pub const MAGIC: [u8; 4] = *b"FBJR";

const ENVELOPE: Envelope = Envelope { magic: MAGIC, version: VERSION, what: "a file of a join's rows" };

/// The envelope of a file that is written, with the times of its rows or without.
fn envelope(has_times: bool) -> Envelope {
    Envelope { version: if has_times { VERSION_WITH_TIMES } else { VERSION }, ..ENVELOPE }
}

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
    rows: u32,
    /// `None` for versions.
    times: Option<Times>,
    filter: Filter,
}

/// The rows of a block.
pub(in crate::join) struct Rows {
    /// The place of the first.
    pub first: u32,
    pub taken: Taken,
    /// How many rows of the run arrived before each; empty for versions.
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
        let (side, has_times) = match fields.array()? {
            [0] => (JoinSide::Left, true),
            [1] => (JoinSide::Right, true),
            [VERSIONS] => (JoinSide::Right, false),
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
        let times = if has_times { Some(read_times(&mut fields, rows as usize)?) } else { None };
        let filter = read_filter(&mut fields)?;
        let is_sorted = blocks.is_sorted_by_key(|block| block.high);
        if !is_sorted || rows == 0 || offset != at || !fields.bytes.is_empty() {
            return Err(fields.damaged("its numbers do not agree with each other"));
        }
        Ok(Self { object: object.into(), len, footer_at: at, sum, side, blocks, rows, times, filter })
    }

    /// Rows, in all blocks.
    pub(in crate::join) fn rows(&self) -> u32 {
        self.rows
    }

    /// Whether it holds versions of a temporal join.
    pub(in crate::join) fn is_of_versions(&self) -> bool {
        self.times.is_none()
    }

    /// The times of its rows.
    #[inline]
    fn times(&self) -> &Times {
        self.times.as_ref().expect("versions, which have no times here, are of another step")
    }

    /// The earliest time and the latest.
    pub(in crate::join) fn times_ms(&self) -> (i64, i64) {
        (self.times().first_ms, self.times().last_ms)
    }

    /// The time of the row at this place.
    #[inline]
    pub(in crate::join) fn time_ms(&self, place: u32) -> i64 {
        self.times().get(place)
    }

    /// The high half of the first hash.
    pub(in crate::join) fn first_high(&self) -> u64 {
        self.blocks[0].high
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

    /// Where blocks that follow one another are.
    pub(in crate::join) fn read_all(&self, blocks: Range<u32>) -> StateRead {
        let own = &self.blocks[blocks.start as usize..blocks.end as usize];
        let len = own.iter().map(|block| block.len).sum();
        StateRead { object: self.object.clone(), offset: u64::from(own[0].offset), len }
    }

    /// Bytes of a block.
    pub(in crate::join) fn block_bytes(&self, block: u32) -> usize {
        self.blocks[block as usize].len as usize
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
        let with_times = if self.times.is_some() { hashes.len() } else { 0 };
        let arrivals = from.numbers(with_times, u32::from_le_bytes)?;
        let has_time = |(place, time_ms): (u32, &i64)| {
            self.times.as_ref().is_none_or(|times| times.get(place) == *time_ms)
        };
        let is_whole = from.0.is_empty()
            && taken.rows.side == self.side
            && hashes.len() == places.len()
            && (hashes[0] >> 64) as u64 == self.blocks[block as usize].high
            && hashes.is_sorted()
            && places.clone().zip(&taken.times_ms).all(has_time);
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
        let times = match self.times.as_ref().map(|times| &times.later) {
            Some(Later::Narrow(later)) => later.capacity() * 4,
            Some(Later::Wide(later)) => later.capacity() * 8,
            None => 0,
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
pub(in crate::join) struct Builder {
    side: JoinSide,
    bytes: Vec<u8>,
    blocks: Vec<Block>,
    /// The low halves of the hashes of rows that can match.
    keys: Vec<u64>,
    count: u32,
    /// `None` for versions.
    times_ms: Option<Vec<i64>>,
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
    let mut builder = Builder::new(side, true, block_bytes);
    of.in_parts(&sorted, ROWS_MAX, &mut |part, columns| {
        let rows: Vec<&Row> = part.iter().map(|id| of.arena.get(*id)).collect();
        let before = builder.count as usize;
        builder.part(plan, &rows, &arrivals[before..before + part.len()], &columns);
        Ok::<(), ArrowError>(())
    })?;
    let (bytes, file) = builder.finish();
    Ok(Built { bytes, file, matched })
}

/// A filter of the keys that can match.
fn filter(keys: &[u64]) -> Filter {
    match keys {
        [] => Filter::Nothing,
        keys => Fuse::build(keys.iter().copied()).map_or(Filter::Everything, Filter::Fuse),
    }
}

impl Builder {
    /// A file of a side's rows; without times if they are versions.
    pub fn new(side: JoinSide, has_times: bool, block_bytes: usize) -> Self {
        let mut bytes = Vec::new();
        envelope(has_times).head(&mut bytes);
        Self {
            side,
            bytes,
            blocks: Vec::new(),
            keys: Vec::new(),
            count: 0,
            times_ms: has_times.then(Vec::new),
            block_bytes,
            rows: ROWS_FIRST,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u32 {
        self.count
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes rows with these columns, in blocks, behind those before, whose hashes are not greater. Versions have no arrivals.
    pub fn part(&mut self, plan: &Plan, rows: &[&Row], arrivals: &[u32], columns: &[ArrayRef]) {
        let mut begin = 0;
        while begin < rows.len() {
            let at = self.bytes.len();
            let mut count = self.rows.min(rows.len() - begin);
            loop {
                let own: Vec<ArrayRef> = columns.iter().map(|column| column.slice(begin, count)).collect();
                state::put_block(&mut self.bytes, (plan, self.side), &rows[begin..begin + count], None, &own);
                let len = self.bytes.len() - at;
                // Texts differ in size: a block far beyond its size is made again with fewer rows.
                if len <= 4 * self.block_bytes || count == 1 {
                    self.rows = (count * self.block_bytes / len.max(1)).clamp(1, 2 * count.max(ROWS_FIRST));
                    break;
                }
                self.bytes.truncate(at);
                count = (count * self.block_bytes / len).clamp(1, count - 1);
            }
            if let Some(times_ms) = &mut self.times_ms {
                times_ms.extend(rows[begin..begin + count].iter().map(|row| row.time_ms));
                let own = arrivals[begin..begin + count].iter();
                own.for_each(|arrival| self.bytes.extend_from_slice(&arrival.to_le_bytes()));
            }
            close_block(&mut self.bytes, at, self.blocks.len() as u32);
            self.blocks.push(Block {
                offset: at as u32,
                len: (self.bytes.len() - at) as u32,
                first: self.count,
                high: (rows[begin].hash >> 64) as u64,
            });
            self.count += count as u32;
            begin += count;
        }
        self.keys.extend(rows.iter().filter(|row| row.newer != UNLINKED).map(|row| row.hash as u64));
    }

    /// The bytes, and what stays in memory of them under a name that is still to be given.
    pub fn finish(self) -> (Vec<u8>, File) {
        let Self { side, mut bytes, mut blocks, keys, count: rows, times_ms, .. } = self;
        blocks.shrink_to_fit();
        // It is in memory until it is written.
        bytes.shrink_to_fit();
        let (times, filter) = (times_ms.map(|times_ms| Times::of(&times_ms)), filter(&keys));
        let mut file =
            File { object: "".into(), len: 0, footer_at: 0, sum: 0, side, blocks, rows, times, filter };
        let closed = envelope(file.times.is_some()).close(&mut bytes, |to| file.write_footer(to));
        (file.len, file.footer_at, file.sum) = (closed.len, closed.footer_at, closed.sum);
        (bytes, file)
    }
}

impl File {
    fn write_footer(&self, to: &mut Vec<u8>) {
        to.push(if self.times.is_some() { self.side as u8 } else { VERSIONS });
        put_len(to, self.blocks.len());
        for (number, block) in (0..).zip(&self.blocks) {
            put_len(to, block.len as usize);
            put_len(to, self.places(number).len());
            to.extend_from_slice(&block.high.to_le_bytes());
        }
        if let Some(times) = &self.times {
            to.extend_from_slice(&times.first_ms.to_le_bytes());
            match &times.later {
                Later::Narrow(later) => {
                    to.push(4);
                    later.iter().for_each(|later| to.extend_from_slice(&later.to_le_bytes()));
                }
                Later::Wide(later) => {
                    to.push(8);
                    later.iter().for_each(|later| to.extend_from_slice(&later.to_le_bytes()));
                }
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
