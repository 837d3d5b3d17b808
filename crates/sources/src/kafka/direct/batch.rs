//! Record batches as a broker stores them, into blocks.
//!
//! Owns the layout of batches (magic 2) and records, checksums, transactions that were aborted, and the one copy of each
//! body into its block. Does not own requests (`wire`) or what an unreadable batch leads to (`broker`).
//!
//! | batch                        | what becomes of it                                                    |
//! |------------------------------|-----------------------------------------------------------------------|
//! | whole                        | its records at or above the position asked for                        |
//! | cut off at the answer's end  | nothing: the next answer brings it                                    |
//! | control                      | no record; an abort marker ends its producer's aborted transaction    |
//! | of an aborted transaction    | no record                                                             |
//! | older than magic 2           | refused, and named to the caller: librdkafka reads them. Brokers convert such when they store them, since version 4 |
//! | checksum or length wrong     | refused with its offset, never stepped over                           |

use std::collections::BTreeSet;

use dataflow::block::{HEADERS_BYTES_MAX, KEY_BYTES_MAX, TIME_UNKNOWN_MS};
use dataflow::{BlockBuilder, RecordBlock};

use super::cursor::{Cursor, Malformed};
use super::inflate::{InflateError, Pieces, inflate, is_one_block, pieces};

/// Offset and length, in front of what the length counts.
const PREFIX_BYTES: usize = 12;
/// All up to the records, the prefix included.
const HEADER_BYTES: usize = 61;
/// Where the format stands, in this one and in the older ones.
const MAGIC_AT: usize = 16;
/// The format that is read.
const MAGIC: i8 = 2;
/// Where the last record's distance from the first offset stands.
const LAST_DELTA_AT: usize = 23;
/// Where the part begins that the checksum is over.
const CRC_FROM: usize = 21;
/// Bytes of a record at the least; bounds the number that a header may claim.
const RECORD_BYTES_MIN: usize = 7;

const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
/// The type in the key of a control record that ends an aborted transaction; a committed one has 1.
const ABORT: i16 = 0;

/// Why a batch cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BatchError {
    #[error("a batch has format `{0}`, and only 2 is known")]
    Magic(i8),
    #[error("a batch's checksum does not agree")]
    Checksum,
    #[error("a batch is malformed")]
    Malformed,
    #[error(transparent)]
    Inflate(#[from] InflateError),
}

impl From<Malformed> for BatchError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// The head of a batch.
struct Header<'a> {
    base_offset: i64,
    leader_epoch: i32,
    attributes: i16,
    last_offset_delta: i32,
    base_time_ms: i64,
    max_time_ms: i64,
    producer: i64,
    count: usize,
    body: &'a [u8],
}

/// The position after the last whole batch of `records`, and that batch's leader epoch; `None` if there is no whole one.
/// Inspects heads only, so that the next request can be under way while the records are read.
pub(super) fn end(mut records: &[u8]) -> Option<(i64, i32)> {
    let mut end = None;
    while let Some((batch, rest)) = whole(records) {
        // What is in another format has other fields there.
        if batch.len() < HEADER_BYTES || batch[MAGIC_AT] != MAGIC as u8 {
            break;
        }
        let mut at = Cursor(batch);
        let base = at.i64().ok()?;
        let _len = at.i32().ok()?;
        let epoch = at.i32().ok()?;
        let delta = Cursor(&batch[LAST_DELTA_AT..]).i32().ok()?;
        end = Some((base.checked_add(i64::from(delta))?.checked_add(1)?, epoch));
        records = rest;
    }
    end
}

/// Where the first batch of `records` ends that was not read up to `next`, by its head, after a read that stopped there: the offset to go on at
/// without it. `None` if there is none, or its head gives no such offset, as in another format. The end of a batch whose checksum is wrong is what its head says.
pub(super) fn end_of_unread(mut records: &[u8], next: u64) -> Option<u64> {
    while let Some((batch, rest)) = whole(records) {
        let (end, _) = end(batch)?;
        let end = u64::try_from(end).ok()?;
        if end > next {
            return Some(end);
        }
        // One that could not be read, and says to end before where it was looked for.
        header(batch).ok()?;
        records = rest;
    }
    None
}

/// Cuts the first batch off; `None` if it is not all there.
fn whole(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = Cursor(records);
    at.i64().ok()?;
    let len = usize::try_from(at.i32().ok()?).ok()?;
    records.split_at_checked(PREFIX_BYTES.checked_add(len)?)
}

fn header(batch: &[u8]) -> Result<Header<'_>, BatchError> {
    let mut at = Cursor(batch);
    let base_offset = at.i64()?;
    at.i32()?;
    let leader_epoch = at.i32()?;
    let magic = at.i8()?;
    if magic != MAGIC {
        return Err(BatchError::Magic(magic));
    }
    let crc = at.u32()?;
    if crc32c::crc32c(batch.get(CRC_FROM..).ok_or(BatchError::Malformed)?) != crc {
        return Err(BatchError::Checksum);
    }
    let attributes = at.i16()?;
    let last_offset_delta = at.i32()?;
    let (base_time_ms, max_time_ms) = (at.i64()?, at.i64()?);
    let producer = at.i64()?;
    let (_producer_epoch, _base_sequence) = (at.i16()?, at.i32()?);
    let count = usize::try_from(at.i32()?).map_err(|_| BatchError::Malformed)?;
    let is_placed = base_offset >= 0 && last_offset_delta >= 0;
    if !is_placed || base_offset.checked_add(i64::from(last_offset_delta) + 1).is_none() {
        return Err(BatchError::Malformed);
    }
    Ok(Header {
        base_offset,
        leader_epoch,
        attributes,
        last_offset_delta,
        base_time_ms,
        max_time_ms,
        producer,
        count,
        body: at.0,
    })
}

/// Reads the answers of one partition, in order.
pub(super) struct Batches<'a> {
    /// The position to fetch next; moves past every batch that was read.
    pub(super) next: u64,
    /// The epoch of the newest batch that was read.
    pub(super) leader_epoch: i32,
    /// Where the records go.
    pub(super) block: &'a mut BlockBuilder,
    /// Kept for its memory.
    pub(super) scratch: &'a mut Vec<u8>,
    /// What a batch may unpack to in memory; a larger one is unpacked piece by piece.
    pub(super) bytes_max: usize,
    /// Bytes of a body that are returned.
    pub(super) record_bytes_max: usize,
}

impl Batches<'_> {
    /// Reads all whole batches of `records`; `full` gets each block that is full. `aborted` are the aborted transactions in this
    /// answer, as (producer, first offset). True if there was a whole batch.
    ///
    /// # Errors
    /// When a batch cannot be read; `next` then stands before it, and the records before it are in the block.
    pub(super) fn read(
        &mut self,
        mut records: &[u8],
        aborted: &[(i64, i64)],
        full: &mut dyn FnMut(RecordBlock),
    ) -> Result<bool, BatchError> {
        let mut aborted = Aborted::new(aborted);
        let mut has_read = false;
        while let Some((batch, rest)) = whole(records) {
            let header = header(batch)?;
            let end = (header.base_offset + i64::from(header.last_offset_delta) + 1) as u64;
            aborted.begin(end as i64 - 1);
            let is_aborted = header.attributes & TRANSACTIONAL != 0 && aborted.covers(header.producer);
            if header.attributes & CONTROL != 0 {
                if is_aborted && marker(&header, self.scratch, self.bytes_max)? == Some(ABORT) {
                    aborted.end(header.producer);
                }
            } else if !is_aborted && end > self.next {
                self.records(&header, rest.len(), full)?;
            }
            self.leader_epoch = header.leader_epoch;
            self.next = self.next.max(end);
            self.block.skip_to(self.next.into());
            self.block.leader_epoch(self.leader_epoch);
            has_read = true;
            records = rest;
        }
        Ok(has_read)
    }

    /// Reads the records of a batch that `more` bytes of batches follow.
    fn records(
        &mut self,
        header: &Header<'_>,
        more: usize,
        full: &mut dyn FnMut(RecordBlock),
    ) -> Result<(), BatchError> {
        // What is packed as one block has to be there as a whole, so a large record needs that much.
        let one_block_max = self.bytes_max.max(self.record_bytes_max.saturating_mul(2));
        let is_one_block = is_one_block(header.attributes, header.body);
        let bytes_max = if is_one_block { one_block_max } else { self.bytes_max };
        let body = match inflate(header.attributes, header.body, self.scratch, bytes_max) {
            Ok(body) => body,
            Err(error @ InflateError::TooLarge { .. }) => return self.large(header, error, full),
            Err(error) => return Err(error.into()),
        };
        if header.count > body.len() / RECORD_BYTES_MIN {
            return Err(BatchError::Malformed);
        }
        let mut at = Cursor(body);
        self.block.expect(body.len() + more);
        let stamped = header.attributes & LOG_APPEND_TIME != 0;
        for _ in 0..header.count {
            let len = usize::try_from(at.signed()?).map_err(|_| BatchError::Malformed)?;
            let mut record = Cursor(at.take(len)?);
            record.i8()?;
            let (time_delta, offset_delta) = (record.signed()?, record.signed()?);
            let position = place(header, offset_delta)?;
            if position < self.next {
                continue;
            }
            let time_ms =
                if stamped { header.max_time_ms } else { header.base_time_ms.wrapping_add(time_delta) };
            let (key, value) = (record.nullable()?, record.nullable()?);
            let time_ms = if time_ms < 0 { TIME_UNKNOWN_MS } else { time_ms };
            self.next = position + 1;
            self.block.push(position, time_ms, value);
            if let Some(key) = key {
                self.block.key(key);
            }
            let headers = record.signed()?;
            if headers != 0 {
                read_headers(self.block, record, headers)?;
            }
            if self.block.is_full() {
                self.block.leader_epoch(header.leader_epoch);
                full(self.block.take());
                self.block.expect(at.0.len() + more);
            }
        }
        Ok(())
    }
}

impl Batches<'_> {
    /// Reads the records of a batch that is too large to be unpacked as a whole. Nothing is held of it but the beginning of one
    /// record: of its body, its key and its headers.
    fn large(
        &mut self,
        header: &Header<'_>,
        why: InflateError,
        full: &mut dyn FnMut(RecordBlock),
    ) -> Result<(), BatchError> {
        let Some(mut at) = pieces(header.attributes, header.body, self.bytes_max)? else {
            return Err(why.into());
        };
        // What a first try has left there.
        *self.scratch = Vec::new();
        let stamped = header.attributes & LOG_APPEND_TIME != 0;
        let (mut name, mut text) = (Vec::new(), Vec::new());
        for _ in 0..header.count {
            let length = u64::try_from(at.signed()?).map_err(|_| BatchError::Malformed)?;
            let end = at.read.checked_add(length).ok_or(BatchError::Malformed)?;
            at.skip(1)?;
            let (time_delta, offset_delta) = (at.signed()?, at.signed()?);
            let position = place(header, offset_delta)?;
            if position >= self.next {
                let time_ms =
                    if stamped { header.max_time_ms } else { header.base_time_ms.wrapping_add(time_delta) };
                let time_ms = if time_ms < 0 { TIME_UNKNOWN_MS } else { time_ms };
                let key = field(&mut at, end, KEY_BYTES_MAX + 1, &mut text)?;
                let value = field(&mut at, end, self.record_bytes_max, self.scratch)?;
                self.next = position + 1;
                self.block.push(position, time_ms, value.map(|_| self.scratch.as_slice()));
                if let Some(whole) = value.filter(|whole| *whole > self.scratch.len() as u64) {
                    self.block.cut(whole);
                }
                if key.is_some() {
                    self.block.key(&text);
                }
                for _ in 0..at.signed()? {
                    field(&mut at, end, HEADERS_BYTES_MAX, &mut name)?.ok_or(BatchError::Malformed)?;
                    let value = field(&mut at, end, HEADERS_BYTES_MAX, &mut text)?;
                    self.block.header(&String::from_utf8_lossy(&name), value.map(|_| text.as_slice()));
                }
            }
            at.skip(end.checked_sub(at.read).ok_or(BatchError::Malformed)?)?;
            if self.block.is_full() {
                self.block.leader_epoch(header.leader_epoch);
                full(self.block.take());
            }
        }
        Ok(())
    }
}

/// Reads a field of a record that ends at `end` and keeps the beginning of it; gives its whole length, or `None` for none.
fn field(
    at: &mut Pieces<'_>,
    end: u64,
    keep_max: usize,
    out: &mut Vec<u8>,
) -> Result<Option<u64>, BatchError> {
    out.clear();
    let length = match at.signed()? {
        -1 => return Ok(None),
        length => u64::try_from(length).map_err(|_| BatchError::Malformed)?,
    };
    if length > end.saturating_sub(at.read) {
        return Err(BatchError::Malformed);
    }
    at.keep(length, keep_max, out)?;
    Ok(Some(length))
}

/// The offset of a record; within its batch.
#[inline]
fn place(header: &Header<'_>, offset_delta: i64) -> Result<u64, BatchError> {
    if offset_delta < 0 || offset_delta > i64::from(header.last_offset_delta) {
        return Err(BatchError::Malformed);
    }
    Ok((header.base_offset + offset_delta) as u64)
}

fn read_headers(block: &mut BlockBuilder, mut at: Cursor<'_>, count: i64) -> Result<(), BatchError> {
    // Each takes two bytes at the least, so the reads below end a count that lies.
    for _ in 0..count {
        let name = at.nullable()?.ok_or(BatchError::Malformed)?;
        let value = at.nullable()?;
        block.header(&String::from_utf8_lossy(name), value);
    }
    Ok(())
}

/// The type of a control batch's marker; `None` if it has no record (compacted away).
fn marker(header: &Header<'_>, scratch: &mut Vec<u8>, bytes_max: usize) -> Result<Option<i16>, BatchError> {
    if header.count == 0 {
        return Ok(None);
    }
    let mut at = Cursor(inflate(header.attributes, header.body, scratch, bytes_max)?);
    let len = usize::try_from(at.signed()?).map_err(|_| BatchError::Malformed)?;
    let mut record = Cursor(at.take(len)?);
    record.i8()?;
    record.signed()?;
    record.signed()?;
    let mut key = Cursor(record.nullable()?.ok_or(BatchError::Malformed)?);
    let _version = key.i16()?;
    Ok(Some(key.i16()?))
}

/// Which producers' records belong to an aborted transaction, while batches are read in order.
struct Aborted {
    /// Not yet begun, the earliest last.
    waiting: Vec<(i64, i64)>,
    open: BTreeSet<i64>,
}

impl Aborted {
    fn new(all: &[(i64, i64)]) -> Self {
        let mut waiting = all.to_vec();
        waiting.sort_unstable_by_key(|(_, first)| std::cmp::Reverse(*first));
        Self { waiting, open: BTreeSet::new() }
    }

    /// Opens those that begin at or below `offset`.
    fn begin(&mut self, offset: i64) {
        while let Some((producer, first)) = self.waiting.last()
            && *first <= offset
        {
            self.open.insert(*producer);
            self.waiting.pop();
        }
    }

    fn covers(&self, producer: i64) -> bool {
        self.open.contains(&producer)
    }

    fn end(&mut self, producer: i64) {
        self.open.remove(&producer);
    }
}

#[cfg(test)]
mod tests;
