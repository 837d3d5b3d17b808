//! Raw records on their way from a source to a decoder.
//!
//! Owns the layout: one contiguous buffer for all payloads of a block and one vector for each fact about them, so that
//! a record costs no allocation of its own. Does not own meaning: a block knows nothing of formats or columns.

mod builder;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::position;
use crate::position::Position;
pub use builder::BlockBuilder;

/// Bytes of a record's key that are kept, and one more, by which a longer one is known. Keys and headers are written only to the
/// dead letters, where a longer cell would serve nobody.
pub const KEY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a record's headers that are kept, as [`push_header`] writes them; the first that does not fit and all after it are
/// replaced by one named [`HEADERS_CUT`].
pub const HEADERS_BYTES_MAX: usize = 1 << 20;

/// The header by which a dead letter keeps the era of its record's position, unless that is 0.
pub const ERA_HEADER: &str = "forebay.era";

/// The name of the header that replaces those that were too long; its value is empty.
pub const HEADERS_CUT: &str = "forebay.headers_cut";

/// The header by which a dead letter keeps the first line of its file ([`RecordBlock::head`]).
pub const HEAD_HEADER: &str = "forebay.first_line";

/// The header by which a dead letter keeps the name of its record's schema ([`RecordBlock::schema`]).
pub const SCHEMA_HEADER: &str = "forebay.schema";

/// The header by which a dead letter keeps which item of its record's array it was the row of, or which row of a record that holds several.
pub const ITEM_HEADER: &str = "forebay.item";

/// The header by which a dead letter keeps which of the streams that had its name its record is of, counted by identity: 2 for a topic that was deleted and
/// created again. The first has none.
pub const STREAM_HEADER: &str = "forebay.stream";

/// The header by which a dead letter keeps that its record had no body, where the reason of the letter does not say so.
pub const TOMBSTONE_HEADER: &str = "forebay.tombstone";

/// The header by which a dead letter keeps the table that did not take its row.
pub const TABLE_HEADER: &str = "forebay.table";

/// Stands for "the source gave this record no time".
pub const TIME_UNKNOWN_MS: i64 = i64::MIN;

/// Stands for "the source has no leader epochs".
pub const NO_LEADER_EPOCH: i32 = -1;

/// One ordered stream of records inside a source: a topic's partition, a file, a generator's publisher.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The number of the pipeline's input that it belongs to. A source knows nothing of inputs: its partitions are of input 0, and whoever
    /// reads several sources numbers them.
    pub input: u32,
    /// The topic, file or publisher group; unique inside one source.
    pub stream: Arc<str>,
    /// The partition's number inside the stream, from 0.
    pub index: u32,
}

impl Partition {
    /// A partition of `stream`, of the first input.
    pub fn new(stream: impl Into<Arc<str>>, index: u32) -> Self {
        Self { input: 0, stream: stream.into(), index }
    }

    /// The same of the input `input`.
    #[must_use]
    pub fn of_input(self, input: u32) -> Self {
        Self { input, ..self }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.index)
    }
}

/// Byte strings laid end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// All strings, one after the other.
    pub bytes: Vec<u8>,
    /// Where each string ends in `bytes`; ascending.
    pub ends: Vec<u32>,
}

impl Spans {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `row`; panics when `row >= len()`.
    pub fn get(&self, row: usize) -> &[u8] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.bytes[from..self.ends[row] as usize]
    }

    /// Appends a string. The caller keeps the whole below 4 GiB ([`BlockBuilder`] does).
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a block is cut long before 4 GiB"));
    }
}

/// Records of one partition, in order.
///
/// Every vector has one entry a record. `positions` ascend strictly but may have gaps (compaction, transactions).
#[derive(Clone, Debug)]
pub struct RecordBlock {
    /// Where the records come from.
    pub partition: Partition,
    /// The records' bodies; an absent body (a tombstone) has an empty span and its row in `absent`.
    pub payloads: Spans,
    /// Rows without a body, ascending; almost always empty.
    pub absent: Vec<u32>,
    /// Rows whose body the source returned in part since it is longer than the longest that is accepted, ascending, each with
    /// the bytes of the whole; almost always empty.
    pub cut: Vec<(u32, u64)>,
    /// The records' keys, if the source has any; empty span for a record without one.
    pub keys: Option<Spans>,
    /// The records' headers in the form of [`push_header`], if any record has some.
    pub headers: Option<Spans>,
    /// What stands once before all records of the partition and says how to read them: the first line of a CSV file. Without its line end.
    pub head: Option<Arc<[u8]>>,
    /// The name of the schema that all records were written with, where the source gives it beside them rather than within. Only whoever looks
    /// schemas up reads anything in it.
    pub schema: Option<Arc<str>>,
    /// The era of all records: the high half of their positions.
    pub era: u64,
    /// The low half of each record's position.
    pub positions: Vec<u64>,
    /// The source's time of each record in Unix milliseconds, or [`TIME_UNKNOWN_MS`].
    pub times_ms: Vec<i64>,
    /// The position to fetch after this block: greater than that of the last record.
    pub next: Position,
    /// The leader epoch that goes with `next`, under which the last record was read, or [`NO_LEADER_EPOCH`].
    pub leader_epoch: i32,
    /// The one that goes with the position of any record but the first.
    pub leader_epoch_within: i32,
    /// What was found elsewhere for its records, for steps that look them up.
    pub found: Found,
    /// The item of the record's array that is wanted, if the block holds one record that is read again for the row of one item: a step that makes rows
    /// of the array then makes that one alone.
    pub item: Option<u32>,
}

/// The other sides of the lookups of a block's records: for each step that looks records up, by the step's number, the rows that it finds its answers in.
/// They travel with the block, so that the steps before the lane stay functions of the block: the same block gives the same rows, whatever has changed elsewhere.
#[derive(Clone, Default)]
pub struct Found(Arc<[(u32, Arc<dyn Any + Send + Sync>)]>);

impl Found {
    /// These, each with the number of its step.
    pub fn of(all: Vec<(u32, Arc<dyn Any + Send + Sync>)>) -> Self {
        Self(all.into())
    }

    /// The same, and what was found for one more step.
    #[must_use]
    pub fn and(&self, step: u32, found: Arc<dyn Any + Send + Sync>) -> Self {
        Self(self.0.iter().cloned().chain([(step, found)]).collect())
    }

    /// What was found for the step of this number.
    pub fn of_step<T: Any + Send + Sync>(&self, step: u32) -> Option<&T> {
        self.0.iter().find(|(number, _)| *number == step).and_then(|(_, found)| found.downcast_ref())
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(step, _)| step)).finish()
    }
}

impl RecordBlock {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True if there is no record.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The bytes of the body at `row` as the source has it: more than are here if it was cut.
    pub fn whole_bytes(&self, row: usize) -> u64 {
        match self.cut.binary_search_by_key(&(row as u32), |(row, _)| *row) {
            Ok(at) => self.cut[at].1,
            Err(_) => self.payloads.get(row).len() as u64,
        }
    }

    /// The position of the record at `row`; panics when `row >= len()`.
    pub fn position(&self, row: usize) -> Position {
        position::position(self.era, self.positions[row])
    }

    /// The row of the record at `at`; `None` if it is not in this block.
    pub fn row_of(&self, at: Position) -> Option<usize> {
        let row = self.positions.binary_search(&position::low(at)).ok()?;
        (position::era(at) == self.era).then_some(row)
    }

    /// Whether the record at `row` has no body: a tombstone.
    pub fn is_absent(&self, row: usize) -> bool {
        self.absent.binary_search(&(row as u32)).is_ok()
    }

    /// The key of the record at `row`; `None` for a record without one, and for an empty one.
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        self.keys.as_ref().map(|keys| keys.get(row)).filter(|key| !key.is_empty())
    }

    /// A block of the records at `rows`, which ascend, whose bodies are the keys of the records here. It has neither keys nor headers.
    pub fn of_keys(&self, rows: &[usize]) -> RecordBlock {
        let mut payloads = Spans::default();
        rows.iter().for_each(|row| payloads.push(self.key(*row).unwrap_or_default()));
        RecordBlock {
            item: None,
            partition: self.partition.clone(),
            payloads,
            absent: Vec::new(),
            cut: Vec::new(),
            keys: None,
            headers: None,
            head: None,
            schema: None,
            era: self.era,
            positions: rows.iter().map(|row| self.positions[*row]).collect(),
            times_ms: rows.iter().map(|row| self.times_ms[*row]).collect(),
            next: self.next,
            leader_epoch: self.leader_epoch,
            leader_epoch_within: self.leader_epoch_within,
            found: Found::default(),
        }
    }

    /// The record at `at` in a block of its own; `None` if it is not in this one.
    pub fn one(&self, at: Position) -> Option<RecordBlock> {
        let row = self.row_of(at)?;
        let only = |spans: &Spans| {
            let mut one = Spans::default();
            one.push(spans.get(row));
            one
        };
        let is_absent = self.is_absent(row);
        let cut = self.cut.iter().find(|(cut, _)| *cut == row as u32).map(|(_, whole)| (0, *whole));
        Some(RecordBlock {
            item: self.item,
            partition: self.partition.clone(),
            payloads: only(&self.payloads),
            absent: if is_absent { vec![0] } else { Vec::new() },
            cut: cut.into_iter().collect(),
            keys: self.keys.as_ref().map(only),
            headers: self.headers.as_ref().map(only),
            head: self.head.clone(),
            schema: self.schema.clone(),
            era: self.era,
            positions: vec![self.positions[row]],
            times_ms: vec![self.times_ms[row]],
            next: at + 1,
            leader_epoch: self.leader_epoch,
            leader_epoch_within: self.leader_epoch_within,
            found: self.found.clone(),
        })
    }

    /// The records before `row` and those from there on, each in a block of its own: whoever has the first alone goes on at the position of
    /// the second's first record.
    ///
    /// # Panics
    /// Unless both have a record.
    pub fn split(&self, row: usize) -> (RecordBlock, RecordBlock) {
        assert!(row > 0 && row < self.len(), "both parts of a block have records");
        let first = self.part(0..row, self.position(row), self.leader_epoch_within);
        (first, self.part(row..self.len(), self.next, self.leader_epoch))
    }

    fn part(&self, rows: Range<usize>, next: Position, leader_epoch: i32) -> RecordBlock {
        let spans = |spans: &Spans| {
            let from = rows.start.checked_sub(1).map_or(0, |before| spans.ends[before]);
            let to = spans.ends[rows.end - 1];
            Spans {
                bytes: spans.bytes[from as usize..to as usize].to_vec(),
                ends: spans.ends[rows.clone()].iter().map(|end| end - from).collect(),
            }
        };
        let own = |row: u32| rows.contains(&(row as usize)).then(|| row - rows.start as u32);
        RecordBlock {
            item: self.item,
            partition: self.partition.clone(),
            payloads: spans(&self.payloads),
            absent: self.absent.iter().filter_map(|row| own(*row)).collect(),
            cut: self.cut.iter().filter_map(|(row, whole)| Some((own(*row)?, *whole))).collect(),
            keys: self.keys.as_ref().map(spans),
            headers: self.headers.as_ref().map(spans),
            head: self.head.clone(),
            schema: self.schema.clone(),
            era: self.era,
            positions: self.positions[rows.clone()].to_vec(),
            times_ms: self.times_ms[rows.clone()].to_vec(),
            next,
            leader_epoch,
            leader_epoch_within: self.leader_epoch_within,
            found: self.found.clone(),
        }
    }

    /// Bytes held: payloads, keys, headers and the facts beside them.
    pub fn memory_bytes(&self) -> usize {
        let spans = |s: &Option<Spans>| s.as_ref().map_or(0, |s| s.bytes.len() + 4 * s.ends.len());
        self.payloads.bytes.len() + 20 * self.len() + spans(&self.keys) + spans(&self.headers)
    }
}

/// Appends one header to the encoded headers of a record: name length, name, value length, value (lengths as
/// little-endian `u32`; `u32::MAX` stands for a null value).
pub fn push_header(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    match value {
        None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
        Some(v) => {
            out.extend_from_slice(&(v.len() as u32).to_le_bytes());
            out.extend_from_slice(v);
        }
    }
}

/// Reads what [`push_header`] wrote; stops at the first byte that does not fit.
pub fn headers(mut encoded: &[u8]) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
        let (head, tail) = bytes.split_at_checked(n)?;
        *bytes = tail;
        Some(head)
    }
    fn length(bytes: &mut &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?))
    }
    std::iter::from_fn(move || {
        let name_len = length(&mut encoded)? as usize;
        let name = std::str::from_utf8(take(&mut encoded, name_len)?).ok()?;
        let value = match length(&mut encoded)? {
            u32::MAX => None,
            n => Some(take(&mut encoded, n as usize)?),
        };
        Some((name, value))
    })
}

#[cfg(test)]
mod tests;
