//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: the checksum before anything
//! is believed, lengths before anything is allocated. Does not own the bytes of one column (`join::codec`), nor which rows are held
//! (`join::store`). Both kinds have one form; numbers are little-endian.
//!
//! | field      | bytes | meaning                                                                            |
//! |------------|-------|------------------------------------------------------------------------------------|
//! | magic      | 4     | `FBJN`, of a [temporal join](super::temporal) as well: the settings differ          |
//! | version    | 2     | 1; 2 if rows are [spilled](super::spilled), or versions ([there](super::temporal::spilled)) |
//! | kind       | 1     | 1 snapshot: the rows that are held; 2 delta: the rows that one seal brought        |
//! | –          | 1     | 0                                                                                  |
//! | shape      | 4     | length; then the step's settings in words                                          |
//! | watermark  | 8     | of the seal                                                                        |
//! | positions  | 8     | the position of the next row of the output; in a delta before its watermark releases any |
//! | blocks     | 4     | how many; a delta has one for each batch, in the order of arrival; a snapshot has the left rows first |
//! | marks      |       | of version 2 alone: what [`marks`](super::spilled) says of rows that are spilled, or [those](super::temporal::spilled) of versions |
//! | checksum   | 8     | XXH3-64 of all before it                                                           |
//!
//! | block      | bytes    | meaning                                                                         |
//! |------------|----------|---------------------------------------------------------------------------------|
//! | side       | 1        | 0 left, 1 right                                                                 |
//! | rows       | 4        | at least 1                                                                      |
//! | times      | 8 each   | Unix milliseconds                                                               |
//! | keys       | 16 each  | the hash of the key                                                             |
//! | keyed      | 1        | 1 if a row has a null in its key; then a bit for each row, which is 0 for those |
//! | matched    | a bit each | of a snapshot alone: 1 for a row that was in a pair, or for a version that says that its key is deleted |
//! | columns    |          | of each stored column what [`codec`](super::codec) says                         |

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::arena::{Arena, Row, UNLINKED};
use super::codec::{Reader, damaged, put_bits, put_column, put_len};
use super::incoming::{Incoming, Taken, is_usable};
use super::plan::{JoinSide, Plan};

const MAGIC: [u8; 4] = *b"FBJN";

/// The newest version that is read.
pub const VERSION: u16 = 2;

/// The version that is written while no row has left memory: programs before this one read it.
const VERSION_IN_MEMORY: u16 = 1;

/// Bytes of the checksum.
pub(super) const CHECKSUM: usize = 8;

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of the state.
    Snapshot = 1,
    /// What one seal changed.
    Delta = 2,
}

/// What both kinds say beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub watermark_ms: i64,
    pub position: u64,
}

/// The rows of a block, and which of them were in a pair: of a snapshot alone.
pub(super) struct Block {
    pub taken: Taken,
    pub matched: Option<BooleanBuffer>,
}

/// Rows that one batch brought: their side, what is known of them, their numbers, and their stored columns.
pub(super) struct Fresh<'a> {
    pub side: JoinSide,
    pub arena: &'a Arena,
    pub ids: Range<u32>,
    pub columns: &'a [ArrayRef],
    /// Memory of the columns.
    pub bytes: usize,
}

/// Writes a snapshot or a delta, block by block.
pub(super) struct Writer<'a> {
    to: Vec<u8>,
    blocks: u32,
    /// Where the number of blocks stands.
    count_at: usize,
    plan: &'a Plan,
    kind: Kind,
}

impl<'a> Writer<'a> {
    pub fn new(kind: Kind, plan: &'a Plan, head: Head) -> Self {
        let mut to = Vec::with_capacity(64 + plan.shape.len());
        to.extend_from_slice(&MAGIC);
        to.extend_from_slice(&VERSION_IN_MEMORY.to_le_bytes());
        to.extend_from_slice(&[kind as u8, 0]);
        put_len(&mut to, plan.shape.len());
        to.extend_from_slice(plan.shape.as_bytes());
        to.extend_from_slice(&head.watermark_ms.to_le_bytes());
        to.extend_from_slice(&head.position.to_le_bytes());
        let count_at = to.len();
        put_len(&mut to, 0);
        Self { to, blocks: 0, count_at, plan, kind }
    }

    /// Writes rows of one side.
    pub fn block(
        &mut self,
        (side, arena): (JoinSide, &Arena),
        ids: impl Iterator<Item = u32> + Clone,
        columns: &[ArrayRef],
    ) {
        let matched =
            (self.kind == Kind::Snapshot).then(|| ids.clone().map(|id| arena.is_matched(id)).collect());
        let rows: Vec<&Row> = ids.map(|id| arena.get(id)).collect();
        put_block(&mut self.to, (self.plan, side), &rows, matched, columns);
        self.blocks += 1;
    }

    /// All of it, with what `marks` writes of rows that are spilled.
    pub fn finish_with(mut self, marks: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        self.to[MAGIC.len()..MAGIC.len() + 2].copy_from_slice(&VERSION.to_le_bytes());
        marks(&mut self.to);
        self.finish()
    }

    /// All of it.
    pub fn finish(mut self) -> Bytes {
        self.to[self.count_at..self.count_at + 4].copy_from_slice(&self.blocks.to_le_bytes());
        let checksum = xxh3_64(&self.to);
        self.to.extend_from_slice(&checksum.to_le_bytes());
        self.to.into()
    }
}

/// Writes rows of one side, in a snapshot with the bits of those that were in a pair.
pub(super) fn put_block(
    to: &mut Vec<u8>,
    (plan, side): (&Plan, JoinSide),
    rows: &[&Row],
    matched: Option<BooleanBuffer>,
    columns: &[ArrayRef],
) {
    to.push(side as u8);
    put_len(to, rows.len());
    put_each(to, rows, |row| row.time_ms.to_le_bytes());
    put_each(to, rows, |row| row.hash.to_le_bytes());
    let is_partly_keyed = rows.iter().any(|row| row.newer == UNLINKED);
    to.push(u8::from(is_partly_keyed));
    if is_partly_keyed {
        put_bits(to, &rows.iter().map(|row| row.newer != UNLINKED).collect());
    }
    if let Some(matched) = matched {
        put_bits(to, &matched);
    }
    for (column, stored) in columns.iter().zip(&plan.side(side).columns) {
        put_column(to, column, &stored.form);
    }
}

/// Writes a number of each row.
fn put_each<const N: usize>(to: &mut Vec<u8>, rows: &[&Row], bytes: impl Fn(&Row) -> [u8; N]) {
    let start = to.len();
    to.resize(start + rows.len() * N, 0);
    let places = to[start..].as_chunks_mut::<N>().0;
    places.iter_mut().zip(rows).for_each(|(place, row)| *place = bytes(row));
}

/// Writes the rows that came since the last seal, batch by batch in the order of their arrival. The writer is still to be finished.
pub(super) fn write_delta<'a>(plan: &'a Plan, head: Head, fresh: &[Fresh<'_>]) -> Writer<'a> {
    let mut writer = Writer::new(Kind::Delta, plan, head);
    // About as much as they hold, so that it is not moved while it grows.
    writer.to.reserve(fresh.iter().map(|part| part.bytes + part.ids.len() * 26).sum());
    for part in fresh {
        writer.block((part.side, part.arena), part.ids.clone(), part.columns);
    }
    writer
}

/// Reads a delta or a snapshot, and hands its blocks to `each`. What is behind them in a state with spilled rows comes back unread.
///
/// # Errors
/// When the bytes are damaged, too new, of the other kind, or of a step with other settings; and what `each` returns.
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    kind: Kind,
    plan: &Plan,
    mut each: impl FnMut(Block) -> Result<(), StateError>,
) -> Result<(Head, Option<Reader<'a>>), StateError> {
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| damaged("is too short"))?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(damaged("has another checksum"));
    }
    let mut from = Reader(body);
    if from.take(4)? != MAGIC {
        return Err(damaged("does not begin as one"));
    }
    let version = u16::from_le_bytes(from.array()?);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    if version < VERSION_IN_MEMORY || from.take(2)? != [kind as u8, 0] {
        return Err(damaged("is of another kind"));
    }
    let len = from.len()?;
    let was = String::from_utf8_lossy(from.take(len)?);
    if was != plan.shape {
        let way_out = "rows that are held were kept for the old settings: put them back, or give the pipeline a new name, under which it reads its \
                       sources from the start"
            .to_owned();
        return Err(StateError::Configured { was: was.into_owned(), now: plan.shape.clone(), way_out });
    }
    let watermark_ms = i64::from_le_bytes(from.array()?);
    let position = u64::from_le_bytes(from.array()?);
    for _ in 0..from.len()? {
        each(block(&mut from, kind, plan)?)?;
    }
    let head = Head { watermark_ms, position };
    if version > VERSION_IN_MEMORY {
        return Ok((head, Some(from)));
    }
    check_end(&from)?;
    Ok((head, None))
}

/// # Errors
/// When bytes are left.
pub(super) fn check_end(from: &Reader<'_>) -> Result<(), StateError> {
    if from.0.is_empty() { Ok(()) } else { Err(damaged("continues behind its end")) }
}

/// Reads a block.
///
/// # Errors
/// When it is damaged.
pub(super) fn block(from: &mut Reader<'_>, kind: Kind, plan: &Plan) -> Result<Block, StateError> {
    let side = if from.flag()? { JoinSide::Right } else { JoinSide::Left };
    let len = from.len()?;
    if len == 0 {
        return Err(damaged("has a block without rows"));
    }
    let times_ms = from.numbers(len, i64::from_le_bytes)?;
    if !times_ms.iter().copied().all(is_usable) {
        return Err(damaged("has a row without a usable time"));
    }
    let hashes = from.numbers(len, u128::from_le_bytes)?;
    let keyed = if from.flag()? { Some(NullBuffer::new(from.bits(len)?)) } else { None };
    let matched = if kind == Kind::Snapshot { Some(from.bits(len)?) } else { None };
    let mut columns = Vec::with_capacity(plan.side(side).columns.len());
    for stored in &plan.side(side).columns {
        let column = from.column(&stored.form, len)?;
        if column.null_count() > 0 && !stored.is_optional {
            return Err(damaged(format!("has a null in the column `{}`", stored.name)));
        }
        columns.push(column);
    }
    Ok(Block { taken: Taken { rows: Incoming { side, hashes, keyed, columns }, times_ms }, matched })
}

#[cfg(test)]
mod tests;
