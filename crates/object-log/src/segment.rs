//! Manifest segments: immutable objects with entries, or with references to other segments, that the root has moved out.
//!
//! Owns their bytes and what a reference says of its segment. Does not own when one is written (`decide::seal`).

use prost::Message;

use crate::entry::{Entry, SPAN_MAX, are_counts};
use crate::framing::{self, FormatError, damaged};
use crate::names::Written;

/// First bytes of a segment: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBM1";

/// Entries of a segment, and references of a segment above it.
pub const FANOUT: usize = 48;

/// Bytes of a segment at the most: 48 entries or references of some 100 bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 10;

/// The content of a segment: entries at level 0, references above.
#[derive(Clone, PartialEq, Message)]
pub struct Segment {
    /// The queue that it belongs to, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub queue: Vec<u8>,
    /// Entries, in the order of their positions.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// References of the level below, in the order of their positions.
    #[prost(message, repeated, tag = "3")]
    pub references: Vec<Reference>,
}

/// A segment, as the root or a segment above names it.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Reference {
    /// The epoch of the owner that has written it.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// That owner's random number.
    #[prost(fixed64, tag = "2")]
    pub run: u64,
    /// The segment's number among those of its owner.
    #[prost(uint64, tag = "3")]
    pub number: u64,
    /// 0 if it holds entries, else one more than the level of what it refers to.
    #[prost(uint32, tag = "4")]
    pub level: u32,
    /// The position of its first record.
    #[prost(uint64, tag = "5")]
    pub first: u64,
    /// Records; at least 1.
    #[prost(uint64, tag = "6")]
    pub rows: u64,
    /// Data objects below it.
    #[prost(uint64, tag = "7")]
    pub objects: u64,
    /// Bytes of those.
    #[prost(uint64, tag = "8")]
    pub bytes: u64,
    /// The log's time at the first commit below it.
    #[prost(int64, tag = "9")]
    pub stamp_min_ms: i64,
    /// And at the last.
    #[prost(int64, tag = "10")]
    pub stamp_max_ms: i64,
    /// CRC-32C of the segment's bytes.
    #[prost(fixed32, tag = "11")]
    pub crc32c: u32,
}

/// A piece of the log: an entry, or a segment with everything below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The position of its first record.
    pub first: u64,
    /// The position after its last record.
    pub end: u64,
    /// Bytes of its data objects.
    pub bytes: u64,
    /// The log's time at its last commit.
    pub stamp_max_ms: i64,
    /// What it is.
    pub of: Of,
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// One data object.
    Entry(Entry),
    /// A segment.
    Segment(Reference),
}

impl Span {
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        Self {
            first: entry.first,
            end: entry.end(),
            bytes: entry.bytes,
            stamp_max_ms: entry.stamp_ms,
            of: Of::Entry(*entry),
        }
    }

    pub(crate) fn of_reference(reference: &Reference) -> Self {
        Self {
            first: reference.first,
            end: reference.end(),
            bytes: reference.bytes,
            stamp_max_ms: reference.stamp_max_ms,
            of: Of::Segment(*reference),
        }
    }
}

impl Reference {
    /// Epoch, run and number, by which its segment is named.
    pub fn written(&self) -> Written {
        Written { epoch: self.epoch, run: self.run, number: self.number }
    }

    /// Whether its numbers can be counted with.
    pub(crate) fn is_bounded(&self) -> bool {
        let stamps = [self.stamp_min_ms, self.stamp_max_ms].map(i64::unsigned_abs);
        are_counts([self.epoch, self.number, self.first, self.rows].into_iter().chain(stamps))
            && self.bytes.max(self.objects) <= SPAN_MAX
    }

    /// The position after the last record below it.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.rows)
    }
}

impl Segment {
    /// A segment of entries; there is at least one.
    pub fn of_entries(queue: &[u8], entries: &[Entry]) -> Self {
        Self { queue: queue.to_vec(), entries: entries.to_vec(), references: Vec::new() }
    }

    /// A segment of references; there is at least one.
    pub fn of_references(queue: &[u8], references: &[Reference]) -> Self {
        Self { queue: queue.to_vec(), entries: Vec::new(), references: references.to_vec() }
    }

    /// What is in it, oldest first.
    pub fn spans(&self) -> impl DoubleEndedIterator<Item = Span> + '_ {
        self.references.iter().map(Span::of_reference).chain(self.entries.iter().map(Span::of_entry))
    }

    /// How it is named, once written under `written` with these bytes.
    pub fn reference(&self, written: Written, bytes: &[u8]) -> Reference {
        let spans: Vec<Span> = self.spans().collect();
        let (first, last) = (spans.first().expect("not empty"), spans.last().expect("not empty"));
        let stamp_min_ms = match (&self.entries.first(), &self.references.first()) {
            (Some(entry), _) => entry.stamp_ms,
            (None, Some(reference)) => reference.stamp_min_ms,
            (None, None) => 0,
        };
        Reference {
            epoch: written.epoch,
            run: written.run,
            number: written.number,
            level: self.references.first().map_or(0, |below| below.level + 1),
            first: first.first,
            rows: last.end - first.first,
            objects: self.entries.len() as u64
                + self.references.iter().map(|below| below.objects).sum::<u64>(),
            bytes: spans.iter().map(|span| span.bytes).sum(),
            stamp_min_ms,
            stamp_max_ms: last.stamp_max_ms,
            crc32c: crc32c::crc32c(bytes),
        }
    }

    /// The bytes of the object.
    pub fn to_bytes(&self) -> Vec<u8> {
        framing::encode(MAGIC, self)
    }

    /// Reads the segment that `reference` of the queue names.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, or not what the reference says.
    pub fn from_bytes(queue: &[u8], reference: &Reference, bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(damaged("it is longer than any segment"));
        }
        let segment: Self = framing::decode(MAGIC, bytes)?;
        if segment.queue != queue {
            return Err(damaged("it belongs to another log"));
        }
        let count = segment.entries.len() + segment.references.len();
        let is_kind = match reference.level {
            0 => segment.references.is_empty(),
            level => {
                segment.entries.is_empty() && segment.references.iter().all(|below| below.level == level - 1)
            }
        };
        if count == 0 || count > FANOUT || !is_kind {
            return Err(damaged("it holds other things than its place says"));
        }
        let is_bounded = segment.entries.iter().all(Entry::is_bounded)
            && segment.references.iter().all(Reference::is_bounded);
        if !is_bounded {
            return Err(damaged("it holds numbers that no log comes to"));
        }
        let mut at = reference.first;
        for span in segment.spans() {
            if span.first != at || span.end <= span.first {
                return Err(damaged("its entries do not lie side by side"));
            }
            at = span.end;
        }
        match at == reference.end() && crc32c::crc32c(bytes) == reference.crc32c {
            true => Ok(segment),
            false => Err(damaged("it is another one than its reference says")),
        }
    }
}

#[cfg(test)]
mod tests;
