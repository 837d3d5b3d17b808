//! A block while it is filled.
//!
//! Owns its bounds and the order of its parts. Does not own what a block holds once it is taken ([`RecordBlock`]).

use std::sync::Arc;

use super::{
    Found, HEADERS_BYTES_MAX, HEADERS_CUT, KEY_BYTES_MAX, NO_LEADER_EPOCH, Partition, RecordBlock, Spans,
    push_header,
};
use crate::position;
use crate::position::Position;

/// Collects records of one partition into blocks of bounded size.
#[derive(Debug)]
pub struct BlockBuilder {
    block: RecordBlock,
    header_scratch: Vec<u8>,
    /// Records of the block that was full last, and bytes of their payloads; zeros before the first.
    usual: (usize, usize),
    payload_bytes_max: usize,
    /// The position of the record whose headers were cut last.
    headers_cut: Option<u64>,
}

impl BlockBuilder {
    /// A source cuts a block at this many records: enough to spread the cost of a block over its records, few enough
    /// that a block's columns stay in the second-level cache while they are decoded.
    pub const RECORDS_MAX: usize = 8_192;

    /// A source cuts a block at this many bytes of payloads, keys and headers (one larger record fills a block alone).
    pub const BYTES_MAX: usize = 4 << 20;

    /// An empty builder for records of `partition` from position `next` on, all of its era.
    pub fn new(partition: Partition, next: Position) -> Self {
        let block = RecordBlock {
            item: None,
            partition,
            payloads: Spans::default(),
            absent: Vec::new(),
            cut: Vec::new(),
            keys: None,
            headers: None,
            head: None,
            schema: None,
            era: position::era(next),
            positions: Vec::new(),
            times_ms: Vec::new(),
            next,
            leader_epoch: NO_LEADER_EPOCH,
            leader_epoch_within: NO_LEADER_EPOCH,
            found: Found::default(),
        };
        Self {
            block,
            header_scratch: Vec::new(),
            usual: (0, 0),
            payload_bytes_max: usize::MAX,
            headers_cut: None,
        }
    }

    /// Keeps only the beginning of bodies that are longer than `bytes`, each with the length of the whole.
    pub fn bounded(self, bytes: usize) -> Self {
        Self { payload_bytes_max: bytes, ..self }
    }

    /// Announces that about so many bytes of records follow: a block that begins now gets memory for them, up to what a full one
    /// needs. Without an announcement it gets as much as the last full one.
    pub fn expect(&mut self, bytes: usize) {
        if !self.is_empty() || bytes == 0 {
            return;
        }
        let (rows, full_bytes) = match self.usual {
            (0, _) => (Self::RECORDS_MAX, Self::BYTES_MAX),
            usual => usual,
        };
        // What has more records than one to every 32 bytes grows on the way.
        self.reserve(rows.min(bytes / 32 + 1), full_bytes.min(bytes));
    }

    fn reserve(&mut self, rows: usize, bytes: usize) {
        let block = &mut self.block;
        block.payloads.bytes.reserve(bytes);
        block.payloads.ends.reserve(rows);
        block.positions.reserve(rows);
        block.times_ms.reserve(rows);
    }

    /// Gives a new block the memory that a full one needs, unless its size was announced.
    #[inline]
    fn begin(&mut self) {
        if self.block.positions.capacity() == 0 {
            let (rows, bytes) = self.usual;
            self.reserve(rows, bytes);
        }
    }

    /// Appends a record. `position` is its place in the block's era and must be above all before it.
    pub fn push(&mut self, position: u64, time_ms: i64, payload: Option<&[u8]>) {
        self.begin();
        let row = self.block.positions.len() as u32;
        debug_assert!(self.block.positions.last().is_none_or(|p| *p < position));
        if payload.is_none() {
            self.block.absent.push(row);
        }
        let payload = payload.unwrap_or_default();
        if payload.len() > self.payload_bytes_max {
            self.block.cut.push((row, payload.len() as u64));
        }
        self.block.payloads.push(&payload[..payload.len().min(self.payload_bytes_max)]);
        self.block.positions.push(position);
        self.block.times_ms.push(time_ms);
        self.block.next = position::position(self.block.era, position) + 1;
        if let Some(keys) = &mut self.block.keys {
            keys.push(&[]);
        }
        if let Some(headers) = &mut self.block.headers {
            headers.push(&[]);
        }
    }

    /// Appends a record whose body `write` appends to the buffer that it is given: a generator or an inflater needs no
    /// buffer of its own. `write` must only append; `position` must be above all before it.
    pub fn push_with(&mut self, position: u64, time_ms: i64, write: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        let before = self.block.payloads.bytes.len();
        write(&mut self.block.payloads.bytes);
        debug_assert!(self.block.payloads.bytes.len() >= before);
        // The body stands there already; this adds the end of it and all that goes beside it.
        self.push(position, time_ms, Some(&[]));
    }

    /// Says which position to fetch after this block, when places that hold no record follow its last one.
    pub fn skip_to(&mut self, next: Position) {
        self.block.next = self.block.next.max(next);
    }

    /// Says that the body pushed last is only the beginning of one of `whole_bytes`.
    pub fn cut(&mut self, whole_bytes: u64) {
        let row = self.block.positions.len().checked_sub(1).expect("a record was pushed before it is cut");
        self.block.cut.push((row as u32, whole_bytes));
    }

    /// Gives the record pushed last a key, of which [`KEY_BYTES_MAX`] and one byte are kept.
    pub fn key(&mut self, key: &[u8]) {
        let rows = self.block.positions.len();
        let keys = self.block.keys.get_or_insert_with(|| Spans { bytes: Vec::new(), ends: vec![0; rows] });
        keys.bytes.extend_from_slice(&key[..key.len().min(KEY_BYTES_MAX + 1)]);
        *keys.ends.last_mut().expect("a record was pushed before its key") = keys.bytes.len() as u32;
    }

    /// Gives the record pushed last one more header, unless it has [`HEADERS_BYTES_MAX`] of them.
    pub fn header(&mut self, name: &str, value: Option<&[u8]>) {
        let rows = self.block.positions.len();
        let headers =
            self.block.headers.get_or_insert_with(|| Spans { bytes: Vec::new(), ends: vec![0; rows] });
        let begin = if rows < 2 { 0 } else { headers.ends[rows - 2] as usize };
        let held = headers.bytes.len() - begin;
        let position = self.block.positions.last().copied();
        if self.headers_cut == position {
            return;
        }
        self.header_scratch.clear();
        if held + name.len() + value.map_or(0, <[u8]>::len) + 8 <= HEADERS_BYTES_MAX {
            push_header(&mut self.header_scratch, name, value);
        } else {
            push_header(&mut self.header_scratch, HEADERS_CUT, Some(&[]));
            self.headers_cut = position;
        }
        headers.bytes.extend_from_slice(&self.header_scratch);
        *headers.ends.last_mut().expect("a record was pushed before its headers") =
            headers.bytes.len() as u32;
    }

    /// Says under which leader epoch the newest record was read.
    pub fn leader_epoch(&mut self, epoch: i32) {
        self.block.leader_epoch = epoch;
        self.block.leader_epoch_within = epoch;
    }

    /// Says which leader epoch goes with the position after the block and with no other one.
    pub fn leader_epoch_at_end(&mut self, epoch: i32) {
        self.block.leader_epoch = epoch;
        self.block.leader_epoch_within = NO_LEADER_EPOCH;
    }

    /// Says what stands before all records of the partition, in this block and in those after it.
    pub fn head(&mut self, head: Arc<[u8]>) {
        self.block.head = Some(head);
    }

    /// Says which schema the records of this block and of those after it were written with. Records that name another one go into another block.
    pub fn schema(&mut self, name: Option<Arc<str>>) {
        self.block.schema = name;
    }

    /// The name given by [`schema`](Self::schema).
    pub fn schema_name(&self) -> Option<&str> {
        self.block.schema.as_deref()
    }

    /// True when the block has reached a bound and should be taken.
    pub fn is_full(&self) -> bool {
        self.block.len() >= Self::RECORDS_MAX || self.bytes() >= Self::BYTES_MAX
    }

    /// Bytes of payloads, keys and headers so far.
    pub fn bytes(&self) -> usize {
        let spans = |s: &Option<Spans>| s.as_ref().map_or(0, |s| s.bytes.len());
        self.block.payloads.bytes.len() + spans(&self.block.keys) + spans(&self.block.headers)
    }

    /// The number of records so far.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// True if no record was pushed since the last [`take`](Self::take).
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Hands out what was collected and starts the next block.
    pub fn take(&mut self) -> RecordBlock {
        if self.is_full() {
            // An eighth more, for a block that outgrows its buffer by a byte is copied whole into one twice as large.
            let bytes = self.block.payloads.bytes.len() * 9 / 8;
            self.usual = (self.block.len(), bytes.min(Self::BYTES_MAX + (64 << 10)));
        }
        let mut next = Self::new(self.block.partition.clone(), self.block.next).block;
        next.leader_epoch = self.block.leader_epoch;
        next.leader_epoch_within = self.block.leader_epoch_within;
        next.head = self.block.head.clone();
        next.schema = self.block.schema.clone();
        std::mem::replace(&mut self.block, next)
    }
}
