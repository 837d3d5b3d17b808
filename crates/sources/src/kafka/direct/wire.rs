//! The two requests that reading needs, and their answers, as bytes.
//!
//! Owns the layout of `ApiVersions` (version 0) and `Fetch` (versions 13 to 16, which name topics by id, so that a topic
//! created again under an old name is an error of the broker's and never a wrong record). Does not own sockets (`connection`) or
//! what an answer leads to (`broker`), nor the requests of a login (`login`). Pure.

use std::ops::Range;

use super::cursor::{Cursor, Malformed, put_unsigned};

const FETCH: i16 = 1;
const API_VERSIONS: i16 = 18;

/// The oldest version that names topics by id, and the newest one that is known here.
pub(super) const FETCH_VERSIONS: std::ops::RangeInclusive<i16> = 13..=16;

/// Records of committed transactions only.
const READ_COMMITTED: i8 = 1;

/// Bytes of a partition in an answer at the least; bounds the number of entries that are believed.
const PARTITION_BYTES_MIN: usize = 4 + 2 + 8 + 8 + 8 + 1 + 4 + 1 + 1;
const TOPIC_BYTES_MIN: usize = 16 + 1 + 1;
const ABORTED_BYTES_MIN: usize = 8 + 8 + 1;

/// How a fetch is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How long the broker may wait for `bytes_min`.
    pub(super) wait_ms: i32,
    pub(super) bytes_min: i32,
    /// For the whole answer; the first batch comes whole even if it is larger.
    pub(super) bytes_max: i32,
    /// For one partition, as above.
    pub(super) partition_bytes_max: i32,
}

/// A partition to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// The epoch of the record before `offset`, or -1: lets the broker notice that its log was cut meanwhile.
    pub(super) epoch: i32,
}

/// What a broker says of one partition. `records` is a range of the answer's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
    pub(super) error: i16,
    /// Records below may be read; the oldest open transaction begins there. -1 if the broker does not say.
    pub(super) stable: i64,
    /// True if the log behind `offset` is another one than was read.
    pub(super) is_cut: bool,
    /// Aborted transactions within the records, as (producer, first offset).
    pub(super) aborted: Vec<(i64, i64)>,
    pub(super) records: Range<usize>,
}

/// An answer to a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) error: i16,
    pub(super) partitions: Vec<Fetched>,
}

/// Begins a request: room for the length, then the header. [`end`] fills the length in.
pub(super) fn begin(out: &mut Vec<u8>, key: i16, version: i16, correlation: i32, client: &str) {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&correlation.to_be_bytes());
    let client = &client.as_bytes()[..client.len().min(i16::MAX as usize)];
    out.extend_from_slice(&(client.len() as i16).to_be_bytes());
    out.extend_from_slice(client);
}

pub(super) fn end(out: &mut [u8]) {
    let len = u32::try_from(out.len() - 4).expect("a request is far below 4 GiB");
    out[..4].copy_from_slice(&len.to_be_bytes());
}

/// Asks which requests the broker knows.
pub(super) fn api_versions(out: &mut Vec<u8>, correlation: i32, client: &str) {
    begin(out, API_VERSIONS, 0, correlation, client);
    end(out);
}

/// The fetch version to speak with a broker, by its answer to [`api_versions`]; `None` if it has none that names topics
/// by id.
pub(super) fn fetch_version(answer: &[u8]) -> Result<Option<i16>, Malformed> {
    let mut bytes = Cursor(answer);
    bytes.i32()?;
    if bytes.i16()? != 0 {
        return Err(Malformed);
    }
    for _ in 0..bytes.u32()? {
        let (key, oldest, newest) = (bytes.i16()?, bytes.i16()?, bytes.i16()?);
        if key == FETCH {
            let version = newest.min(*FETCH_VERSIONS.end());
            return Ok((version >= oldest.max(*FETCH_VERSIONS.start())).then_some(version));
        }
    }
    Ok(None)
}

/// Asks for records. `wanted` has partitions of one topic side by side.
pub(super) fn fetch(
    out: &mut Vec<u8>,
    version: i16,
    correlation: i32,
    client: &str,
    bounds: Bounds,
    wanted: &[Wanted],
) {
    begin(out, FETCH, version, correlation, client);
    out.push(0);
    if version < 15 {
        // Not a replica. Later versions say so by leaving it out.
        out.extend_from_slice(&(-1i32).to_be_bytes());
    }
    out.extend_from_slice(&bounds.wait_ms.to_be_bytes());
    out.extend_from_slice(&bounds.bytes_min.to_be_bytes());
    out.extend_from_slice(&bounds.bytes_max.to_be_bytes());
    out.push(READ_COMMITTED as u8);
    // No session: each request names all partitions, so that neither side has to remember any.
    out.extend_from_slice(&0i32.to_be_bytes());
    out.extend_from_slice(&(-1i32).to_be_bytes());
    let topics = wanted.chunk_by(|a, b| a.topic == b.topic);
    put_unsigned(out, topics.clone().count() as u64 + 1);
    for partitions in topics {
        out.extend_from_slice(&partitions[0].topic);
        put_unsigned(out, partitions.len() as u64 + 1);
        for partition in partitions {
            out.extend_from_slice(&partition.partition.to_be_bytes());
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(&partition.offset.to_be_bytes());
            out.extend_from_slice(&partition.epoch.to_be_bytes());
            out.extend_from_slice(&(-1i64).to_be_bytes());
            out.extend_from_slice(&bounds.partition_bytes_max.to_be_bytes());
            out.push(0);
        }
        out.push(0);
    }
    // No forgotten topics, no rack, no tagged fields.
    out.extend_from_slice(&[1, 1, 0]);
    end(out);
}

/// Reads the answer to a fetch (without its length).
pub(super) fn answer(bytes: &[u8]) -> Result<Answer, Malformed> {
    let mut at = Cursor(bytes);
    at.i32()?;
    at.skip_tagged()?;
    at.i32()?;
    let error = at.i16()?;
    at.i32()?;
    let mut partitions = Vec::new();
    for _ in 0..at.count(TOPIC_BYTES_MIN)? {
        let topic = at.uuid()?;
        for _ in 0..at.count(PARTITION_BYTES_MIN)? {
            partitions.push(fetched(&mut at, bytes, topic)?);
        }
        at.skip_tagged()?;
    }
    at.skip_tagged()?;
    Ok(Answer { error, partitions })
}

fn fetched(at: &mut Cursor<'_>, whole: &[u8], topic: [u8; 16]) -> Result<Fetched, Malformed> {
    let (partition, error) = (at.i32()?, at.i16()?);
    let (_high_watermark, stable, _log_start) = (at.i64()?, at.i64()?, at.i64()?);
    let count = at.count(ABORTED_BYTES_MIN)?;
    let mut aborted = Vec::with_capacity(count);
    for _ in 0..count {
        aborted.push((at.i64()?, at.i64()?));
        at.skip_tagged()?;
    }
    let _preferred_replica = at.i32()?;
    let records = at.compact()?.unwrap_or_default();
    let end = whole.len() - at.0.len();
    let mut is_cut = false;
    at.tagged(|tag, mut value| {
        if tag == DIVERGING_EPOCH {
            let (epoch, offset) = (value.i32()?, value.i64()?);
            is_cut = epoch >= 0 || offset >= 0;
        }
        Ok(())
    })?;
    Ok(Fetched { topic, partition, error, stable, is_cut, aborted, records: end - records.len()..end })
}

/// The tag under which a broker says where its log parts from what was read.
const DIVERGING_EPOCH: u64 = 0;

#[cfg(test)]
mod tests;
