//! Partitions that are handed from one lane to another, as messages.
//!
//! Owns the fields. Does not own when a partition may be handed over, nor what has to be read of one lane before another continues
//! ([`crate::lane::hand_over`]).

use prost::Message;

/// Partitions that another lane reads from now on. Their sealed rows are still delivered by this one.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HandOver {
    /// The number of the lane that continues them.
    #[prost(uint32, tag = "1")]
    pub to: u32,
    /// Which, by index; each was read so far.
    #[prost(uint32, repeated, tag = "2")]
    pub partitions: Vec<u32>,
}

/// A partition that was handed over, in a lane and its checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HandedOver {
    /// The partition's index.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The number of the lane that continues it.
    #[prost(uint32, tag = "2")]
    pub to: u32,
    /// The number of the record that says so: it distinguishes this time from an earlier one.
    #[prost(uint64, tag = "3")]
    pub seq: u64,
}

/// Where a partition comes from that another lane has handed over.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct TakenOver {
    /// The number of the lane that read it before.
    #[prost(uint32, tag = "1")]
    pub from: u32,
    /// The number of that lane's record.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// Greatest record time of the partition so far, Unix milliseconds; `i64::MIN` while unknown.
    #[prost(sint64, tag = "3")]
    pub time_ms_max: i64,
}
