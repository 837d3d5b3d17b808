//! Data objects: the records of many appends, by column and compressed.
//!
//! Owns their bytes. Does not own when one is cut (`decide::cut`), nor its position, which the entry that commits it says.
//!
//! ```text
//! head     "FBD1", queue (16 bytes), epoch, run, number (8 each), rows, frames, appends (4 each)
//! appends  producer (16, zero for none), ordinal or a label's tag (8), rows (4)                 for each
//! frames   rows, raw bytes, stored bytes (4 each), flags (1), then the stored bytes: zstd of      for each
//!          times (8 a row), body lengths (4 a row, !0 for none), key lengths and header lengths
//!          if flagged, then all bodies, keys and headers
//! ```
//! All numbers are little-endian. The CRC-32C of the whole stands in the entry.
//!
//! The stored bytes of a frame are one zstd frame or several, one after the other. So a body that its sender has compressed with zstd goes into the
//! object as it came, between two that are made here: compressing it again would be more than half of a gateway's work.

mod pieces;
mod records;

use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Partition, RecordBlock, position};

use crate::entry::Entry;
use crate::framing::{FormatError, damaged};
use crate::names::{QueueId, Written};
use pieces::Pieces;

/// First bytes of a data object: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBD1";

/// Bytes of one append: payloads, keys and headers. A batch of a source's blocks fits, and so does a record of 16 MiB.
pub const APPEND_BYTES_MAX: usize = 16 << 20;

/// Records of one append.
pub const APPEND_ROWS_MAX: usize = 1 << 20;

/// Raw bytes of an object: it is cut at half of it, and may have one append beyond. The reader's bound is this one too, so nothing can be written that it
/// refuses. A reader unpacks an object frame by frame, so this is no bound on its memory.
pub const OBJECT_RAW_MAX: usize = 512 << 20;

/// The most that [`crate::owner::Settings::object_bytes`] may be.
pub const OBJECT_CUT_MAX: usize = 64 << 20;

/// Bytes of an object: [`OBJECT_CUT_MAX`] and one append beyond, with lengths and times, if nothing of it can be compressed.
pub const OBJECT_BYTES_MAX: u64 = 96 << 20;

/// Raw bytes of a frame: a block's, and one record beyond.
const FRAME_RAW_MAX: usize = BlockBuilder::BYTES_MAX + APPEND_BYTES_MAX + 24 * BlockBuilder::RECORDS_MAX;

const HEAD_BYTES: usize = 4 + 16 + 3 * 8 + 3 * 4;
const APPEND_BYTES: usize = 16 + 8 + 4;
/// The time and the length of a record's body.
pub(crate) const ROW_BYTES: usize = 8 + 4;
#[cfg(test)]
const FRAME_BYTES: usize = 3 * 4 + 1;
const HAS_KEYS: u8 = 1;
const HAS_HEADERS: u8 = 2;
const ABSENT: u32 = u32::MAX;

/// zstd's level: 1 takes a third of the time of its default for a tenth more bytes.
pub const LEVEL: i32 = 1;

/// Records that become durable together, and who sends them.
#[derive(Debug)]
pub struct Append {
    /// Who sends it and which of its appends it is: from 0 and without a gap (where [`digest`](Self::digest) is set, which of its records is the last here). Without it a repeat is not recognised. From
    /// [`LABELS`](crate::labels::LABELS) on the number is no ordinal but a label's tag: the two are kept with the records and can be read again
    /// ([`crate::labels`]), and the sender's side recognises a repeat by itself.
    pub producer: Option<(u128, u64)>,
    /// The records. Their positions and their partition do not matter.
    pub records: RecordBlock,
    /// Whole zstd frames that give the payloads of all records, one behind the other, byte for byte: the appender has verified that. They are stored as they
    /// are, and `records.payloads` then need not have its bytes ([`Append::without_raw`]), only where each ends. Several records that come so are at most
    /// [`BlockBuilder::RECORDS_MAX`] with [`BlockBuilder::BYTES_MAX`] bytes of payloads, since they stay in one block.
    pub packed: Option<Bytes>,
    /// The producer's ordinals number its records instead of its appends, and the one given is that of the last record here: then the
    /// [`digest`] of all its records up to there, which the log keeps beside that ordinal.
    pub digest: Option<u32>,
}

impl Append {
    /// The same without the payloads' bytes, if they are there as [`packed`](Self::packed) too: what waits to be committed takes as much less memory.
    #[must_use]
    pub fn without_raw(mut self) -> Self {
        if self.packed.is_some() {
            self.records.payloads.bytes = Vec::new();
        }
        self
    }

    /// Bytes as they are counted: payloads, keys and headers.
    pub fn raw_bytes(&self) -> usize {
        let payloads = self.records.payloads.ends.last().map_or(0, |end| *end as usize);
        payloads + self.beside_bytes()
    }

    /// Bytes of it in an object at the most: what is compressed there counts as if it could not be.
    pub fn stored_bytes(&self) -> usize {
        let payloads = self.packed.as_ref().map_or(self.records.payloads.bytes.len(), Bytes::len);
        payloads + self.beside_bytes() + ROW_BYTES * self.records.len() + APPEND_BYTES
    }

    fn beside_bytes(&self) -> usize {
        let spans = |s: &Option<dataflow::block::Spans>| s.as_ref().map_or(0, |s| s.bytes.len());
        spans(&self.records.keys) + spans(&self.records.headers)
    }
}

/// The digest of a producer's records up to `record`; `before` is that of those before it, 0 for none.
pub fn digest(before: u32, record: &[u8]) -> u32 {
    // The length keeps two records apart from one that holds both.
    let length = (record.len() as u64).to_le_bytes();
    crc32c::crc32c_append(crc32c::crc32c_append(before, &length), record)
}

/// One append in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendMark {
    /// Who has sent it and which of its appends it is, if it said so; or its label.
    pub producer: Option<(u128, u64)>,
    /// Records.
    pub rows: u32,
}

/// A data object as it is read again.
#[derive(Debug)]
pub struct Object {
    /// Its records, in order.
    pub frames: Vec<Records>,
    /// The appends that they came in, in order.
    pub appends: Vec<AppendMark>,
}

/// The records of a frame, as they are stored.
#[derive(Clone, Debug)]
pub struct Records {
    /// The position of the first.
    pub first: u64,
    /// Records.
    pub rows: u32,
    /// Bytes that they take unpacked, at most 21 MiB.
    pub raw_bytes: usize,
    stored: Bytes,
    flags: u8,
}

impl Records {
    /// The position behind the last.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.rows)
    }

    /// Unpacks them; `partition` is what the block is to call it. For a compute thread.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn block(&self, partition: &Partition) -> Result<RecordBlock, FormatError> {
        records::block((&self.stored, self.raw_bytes), self.rows as usize, self.flags, self.first, partition)
    }
}

/// Encodes appends into an object, whose bytes are those of all pieces, one behind the other; there is at least one record. The entry lacks its position and the time
/// of its commit.
pub fn encode(queue: QueueId, written: Written, appends: &[Append]) -> (Vec<Bytes>, Entry) {
    let mut entry = Entry {
        epoch: written.epoch,
        run: written.run,
        number: written.number,
        appends: appends.len() as u32,
        time_min_ms: i64::MAX,
        time_max_ms: i64::MIN,
        ..Entry::default()
    };
    let mut out = Pieces::default();
    let mut frame = Frame::default();
    let mut frames = 0u32;
    for Append { records: block, packed, .. } in appends {
        entry.time_min_ms = block.times_ms.iter().copied().fold(entry.time_min_ms, i64::min);
        entry.time_max_ms = block.times_ms.iter().copied().fold(entry.time_max_ms, i64::max);
        // What came compressed together stays together.
        if packed.is_some() && frame.rows as usize + block.len() > BlockBuilder::RECORDS_MAX {
            frames += 1;
            frame.write(&mut out, &mut entry);
        }
        if let Some(packed) = packed {
            frame.packed.push((frame.bytes[0].len(), packed.clone()));
        }
        for row in 0..block.len() {
            frame.push(block, row, packed.is_some());
            if (packed.is_none() || row + 1 == block.len()) && frame.is_full() {
                frames += 1;
                frame.write(&mut out, &mut entry);
            }
        }
    }
    if frame.rows > 0 {
        frames += 1;
        frame.write(&mut out, &mut entry);
    }
    let mut whole = Pieces::default();
    whole.write(&head_of(queue, written, [entry.rows, frames, appends.len() as u32], appends));
    whole.append(out);
    let pieces = whole.into_bytes();
    entry.bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    entry.crc32c = pieces.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
    (pieces, entry)
}

/// What stands before the frames: with these counts of rows, frames and appends, and who sends each of these.
fn head_of(queue: QueueId, written: Written, counts: [u32; 3], appends: &[Append]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES + APPEND_BYTES * appends.len());
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&queue.0.to_le_bytes());
    for number in [written.epoch, written.run, written.number] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    for count in counts {
        head.extend_from_slice(&count.to_le_bytes());
    }
    for Append { producer, records: block, .. } in appends {
        let (id, ordinal) = producer.unwrap_or((0, 0));
        head.extend_from_slice(&id.to_le_bytes());
        head.extend_from_slice(&ordinal.to_le_bytes());
        head.extend_from_slice(&(block.len() as u32).to_le_bytes());
    }
    head
}

/// Rows on their way into a frame.
#[derive(Default)]
struct Frame {
    rows: u32,
    has_keys: bool,
    has_headers: bool,
    times: Vec<u8>,
    lengths: [Vec<u8>; 3],
    bytes: [Vec<u8>; 3],
    /// Bodies that are compressed already: behind how many bytes of the others each stands, and its own bytes.
    packed: Vec<(usize, Bytes)>,
    /// What those are, uncompressed.
    packed_raw: usize,
}

impl Frame {
    /// One more row; where it is packed, its body is there already.
    fn push(&mut self, block: &RecordBlock, row: usize, is_packed: bool) {
        self.rows += 1;
        self.times.extend_from_slice(&block.times_ms[row].to_le_bytes());
        let is_absent = block.absent.binary_search(&(row as u32)).is_ok();
        let key = block.keys.as_ref().map_or(&[][..], |keys| keys.get(row));
        let headers = block.headers.as_ref().map_or(&[][..], |headers| headers.get(row));
        self.has_keys |= !key.is_empty();
        self.has_headers |= !headers.is_empty();
        let body = if is_packed { &[][..] } else { block.payloads.get(row) };
        let ends = &block.payloads.ends;
        let body_len = ends[row] - row.checked_sub(1).map_or(0, |before| ends[before]);
        if is_packed {
            self.packed_raw += body_len as usize;
        }
        let lengths = [if is_absent { ABSENT } else { body_len }, key.len() as u32, headers.len() as u32];
        for (at, (bytes, length)) in [body, key, headers].into_iter().zip(lengths).enumerate() {
            self.lengths[at].extend_from_slice(&length.to_le_bytes());
            self.bytes[at].extend_from_slice(bytes);
        }
    }

    fn is_full(&self) -> bool {
        self.rows as usize >= BlockBuilder::RECORDS_MAX
            || self.packed_raw + self.bytes.iter().map(Vec::len).sum::<usize>() >= BlockBuilder::BYTES_MAX
    }

    fn write(&mut self, out: &mut Pieces, entry: &mut Entry) {
        let kept = [true, self.has_keys, self.has_headers];
        let raw_len = self.times.len()
            + self.packed_raw
            + [&self.lengths, &self.bytes]
                .iter()
                .flat_map(|lists| {
                    lists.iter().zip(kept).filter(|(_, kept)| *kept).map(|(list, _)| list.len())
                })
                .sum::<usize>();
        let flags = u8::from(self.has_keys) * HAS_KEYS + u8::from(self.has_headers) * HAS_HEADERS;
        let stored = self.stored(kept);
        for number in [self.rows, raw_len as u32, stored.len() as u32] {
            out.write(&number.to_le_bytes());
        }
        out.write(&[flags]);
        out.append(stored);
        entry.rows += self.rows;
        entry.raw_bytes += raw_len as u64;
        *self = Self::default();
    }

    /// What is compressed here, around what came compressed.
    fn stored(&mut self, kept: [bool; 3]) -> Pieces {
        let mut out = Pieces::default();
        let mut raw = std::mem::take(&mut self.times);
        for (list, _) in self.lengths.iter().zip(kept).filter(|(_, kept)| *kept) {
            raw.extend_from_slice(list);
        }
        let mut from = 0;
        for (at, packed) in std::mem::take(&mut self.packed) {
            raw.extend_from_slice(&self.bytes[0][from..at]);
            from = at;
            compress(&mut raw, &mut out);
            out.put(&packed);
        }
        raw.extend_from_slice(&self.bytes[0][from..]);
        for (list, _) in self.bytes.iter().zip(kept).skip(1).filter(|(_, kept)| *kept) {
            raw.extend_from_slice(list);
        }
        compress(&mut raw, &mut out);
        out
    }
}

/// Appends a zstd frame of these bytes, if there are any, and takes them.
fn compress(raw: &mut Vec<u8>, out: &mut Pieces) {
    if !raw.is_empty() {
        let stored = zstd::bulk::compress(raw, LEVEL).expect("memory is written to, which does not fail");
        out.write(&stored);
        raw.clear();
    }
}

/// Reads the object of `entry`; its records get the entry's positions. They are unpacked one frame at a time, by whoever asks for their block.
///
/// # Errors
/// When the bytes are damaged, of another format, or not the object that the entry says.
pub fn decode(queue: QueueId, entry: &Entry, bytes: &Bytes) -> Result<Object, FormatError> {
    if bytes.len() as u64 != entry.bytes || crc32c::crc32c(bytes) != entry.crc32c {
        return Err(damaged("its bytes are not those that were committed"));
    }
    let mut rest = &bytes[..];
    let (counts, marks) = head(queue, entry, &mut rest)?;
    let [rows, frames, _] = counts;
    let mut object = Object { frames: Vec::new(), appends: marks };
    let (mut next, mut raw_bytes) = (entry.first, 0usize);
    for _ in 0..frames {
        let [frame_rows, raw_len, stored] = [int(&mut rest)?, int(&mut rest)?, int(&mut rest)?];
        let flags = take(&mut rest, 1)?[0];
        let stored = take(&mut rest, stored as usize)?;
        raw_bytes += raw_len as usize;
        if raw_len as usize > FRAME_RAW_MAX || raw_bytes > OBJECT_RAW_MAX {
            return Err(damaged("a frame is longer than any"));
        }
        if frame_rows == 0 || frame_rows as usize > BlockBuilder::RECORDS_MAX {
            return Err(damaged("a frame has no record, or too many"));
        }
        let stored = bytes.slice_ref(stored);
        object.frames.push(Records {
            first: next,
            rows: frame_rows,
            raw_bytes: raw_len as usize,
            stored,
            flags,
        });
        next += u64::from(frame_rows);
    }
    let in_appends: u64 = object.appends.iter().map(|mark| u64::from(mark.rows)).sum();
    match rest.is_empty() && next == entry.end() && rows == entry.rows && in_appends == u64::from(rows) {
        true => Ok(object),
        false => Err(damaged("it does not hold as many records as it says")),
    }
}

/// Bytes at the beginning of the object of `entry` that say which appends are in it.
pub fn head_bytes(entry: &Entry) -> u64 {
    (HEAD_BYTES + APPEND_BYTES * entry.appends as usize) as u64
}

/// The appends in the object of `entry`, by its first [`head_bytes`]. The checksum of the whole is not verified: only the names that it holds.
///
/// # Errors
/// When the bytes are damaged, of another format, or not those of the object that the entry says.
pub fn decode_head(queue: QueueId, entry: &Entry, bytes: &[u8]) -> Result<Vec<AppendMark>, FormatError> {
    let mut rest = bytes;
    let ([rows, _, appends], marks) = head(queue, entry, &mut rest)?;
    let in_appends: u64 = marks.iter().map(|mark| u64::from(mark.rows)).sum();
    match appends == entry.appends && rows == entry.rows && in_appends == u64::from(rows) {
        true => Ok(marks),
        false => Err(damaged("it does not hold as many records as it says")),
    }
}

/// Takes the head: how many rows, frames and appends follow, and the appends.
fn head(queue: QueueId, entry: &Entry, rest: &mut &[u8]) -> Result<([u32; 3], Vec<AppendMark>), FormatError> {
    let head = take(rest, HEAD_BYTES)?;
    if head[..4] != MAGIC {
        return Err(match head.starts_with(&MAGIC[..3]) {
            true => FormatError::Version {
                found: head[..4].escape_ascii().to_string(),
                known: MAGIC.escape_ascii().to_string(),
            },
            false => damaged("no data object begins like this"),
        });
    }
    let mut head = &head[4..];
    let is_own = u128::from_le_bytes(array(&mut head)?) == queue.0
        && [entry.epoch, entry.run, entry.number] == [long(&mut head)?, long(&mut head)?, long(&mut head)?];
    if !is_own {
        return Err(damaged("it is the object of another log or entry"));
    }
    let counts @ [_, _, appends] = [int(&mut head)?, int(&mut head)?, int(&mut head)?];
    let mut bytes = take(rest, (appends as usize).saturating_mul(APPEND_BYTES))?;
    let mut marks = Vec::with_capacity(appends as usize);
    while !bytes.is_empty() {
        let (id, ordinal) = (u128::from_le_bytes(array(&mut bytes)?), long(&mut bytes)?);
        let rows = int(&mut bytes)?;
        marks.push(AppendMark { producer: (id != 0).then_some((id, ordinal)), rows });
    }
    Ok((counts, marks))
}

/// The rows of a block from position `from` on; `None` if there is none.
pub fn rows_from(block: RecordBlock, from: u64) -> Option<RecordBlock> {
    let skip = block.positions.partition_point(|position| *position < from);
    if skip == 0 {
        return Some(block);
    }
    if skip == block.len() {
        return None;
    }
    let mut builder = BlockBuilder::new(block.partition.clone(), position::position(0, from));
    for row in skip..block.len() {
        let is_absent = block.absent.binary_search(&(row as u32)).is_ok();
        let payload = (!is_absent).then(|| block.payloads.get(row));
        builder.push(block.positions[row], block.times_ms[row], payload);
        if let Some(key) = block.keys.as_ref().map(|keys| keys.get(row)).filter(|key| !key.is_empty()) {
            builder.key(key);
        }
        for (name, value) in block.headers.iter().flat_map(|all| dataflow::block::headers(all.get(row))) {
            builder.header(name, value);
        }
    }
    Some(builder.take())
}

/// Whether a time was given.
pub fn is_time(time_ms: i64) -> bool {
    time_ms != TIME_UNKNOWN_MS
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], FormatError> {
    let (head, tail) = bytes.split_at_checked(n).ok_or_else(|| damaged("it ends too early"))?;
    *bytes = tail;
    Ok(head)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FormatError> {
    Ok(take(bytes, N)?.try_into().expect("as many were taken"))
}

fn int(bytes: &mut &[u8]) -> Result<u32, FormatError> {
    Ok(u32::from_le_bytes(array(bytes)?))
}

fn long(bytes: &mut &[u8]) -> Result<u64, FormatError> {
    Ok(u64::from_le_bytes(array(bytes)?))
}

#[cfg(test)]
mod tests;
