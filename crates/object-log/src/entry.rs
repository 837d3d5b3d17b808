//! One data object of the log, as the manifest names it.
//!
//! Owns what is known of an object without reading it, and which numbers of a store are counted with. Does not own its bytes (`object`), nor where in the manifest it stands (`root`, `segment`).

use prost::Message;

use crate::names::Written;

/// The largest number that a log counts with, and the largest distance of its time from 1970 in milliseconds. A root and segments come from a store that
/// others may have written to: what is computed from greater ones would leave its type. A billion records a second reach it in 36 years.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// Bytes, or objects, that one span may stand for: the sum over all that a root or a segment names still fits.
pub(crate) const SPAN_MAX: u64 = 1 << 50;

/// Whether a log can have come to these numbers.
pub(crate) fn are_counts(numbers: impl IntoIterator<Item = u64>) -> bool {
    numbers.into_iter().all(|number| number <= NUMBER_MAX)
}

/// One data object in the log.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Entry {
    /// The epoch of the owner that has written it.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// The owner's random number: with the epoch, the id of what produced the object.
    #[prost(fixed64, tag = "2")]
    pub run: u64,
    /// The object's ordinal among those of its owner.
    #[prost(uint64, tag = "3")]
    pub number: u64,
    /// The position of its first record.
    #[prost(uint64, tag = "4")]
    pub first: u64,
    /// Records; at least 1.
    #[prost(uint32, tag = "5")]
    pub rows: u32,
    /// Bytes of the object.
    #[prost(uint64, tag = "6")]
    pub bytes: u64,
    /// Bytes of the records before compression.
    #[prost(uint64, tag = "7")]
    pub raw_bytes: u64,
    /// CRC-32C of the whole object.
    #[prost(fixed32, tag = "8")]
    pub crc32c: u32,
    /// Least time of a record, Unix milliseconds; i64::MIN for records without one.
    #[prost(sint64, tag = "9")]
    pub time_min_ms: i64,
    /// Greatest time of a record.
    #[prost(sint64, tag = "10")]
    pub time_max_ms: i64,
    /// The log's time at its commit.
    #[prost(int64, tag = "11")]
    pub stamp_ms: i64,
    /// Appends in it.
    #[prost(uint32, tag = "12")]
    pub appends: u32,
}

impl Entry {
    /// Epoch, run and number, by which its object is named.
    pub fn written(&self) -> Written {
        Written { epoch: self.epoch, run: self.run, number: self.number }
    }

    /// Whether its numbers can be counted with.
    pub(crate) fn is_bounded(&self) -> bool {
        are_counts([self.epoch, self.number, self.first, self.stamp_ms.unsigned_abs()])
            && self.bytes.max(self.raw_bytes) <= SPAN_MAX
    }

    /// The position after its last record.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.rows))
    }
}
