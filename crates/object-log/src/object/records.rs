//! The records that the stored bytes of a frame hold.
//!
//! Owns unpacking them within their bounds, bodies into the memory that they stay in, and the way from bytes to a block. Does not own the object around
//! them ([`super`]).

use std::cell::RefCell;
use std::io::{self, Cursor};

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, RecordBlock, position};
use zstd::bulk::Decompressor;

use super::{ABSENT, HAS_HEADERS, HAS_KEYS, take};
use crate::framing::{FormatError, damaged};

const OTHER_LENGTH: &str = "a frame has more or fewer bytes than it says";

thread_local! {
    /// What zstd needs to unpack, about 160 KB: one for each thread instead of one for each frame.
    static UNPACKER: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
}

/// The records of one frame, whose stored bytes hold `raw_len`, straight into the layout of a block.
///
/// # Errors
/// When they are damaged.
pub(super) fn block(
    (stored, raw_len): (&[u8], usize),
    rows: usize,
    flags: u8,
    first: u64,
    partition: &Partition,
) -> Result<RecordBlock, FormatError> {
    let unpacked = Unpacked::first(stored, raw_len).map_err(|e| damaged(e.to_string()))?;
    let mut rest = unpacked.begin.as_slice();
    let times = take(&mut rest, 8 * rows)?.chunks_exact(8);
    let times_ms = times.map(|time| i64::from_le_bytes(time.try_into().expect("eight bytes"))).collect();
    let kept = [true, flags & HAS_KEYS != 0, flags & HAS_HEADERS != 0];
    let mut absent = Vec::new();
    let mut all_ends = [None, None, None];
    for (at, kept) in kept.into_iter().enumerate() {
        if kept {
            all_ends[at] = Some(ends(take(&mut rest, 4 * rows)?, (at == 0).then_some(&mut absent))?);
        }
    }
    let from = unpacked.begin.len() - rest.len();
    let mut bytes = unpacked.from(from).map_err(|e| damaged(e.to_string()))?;
    // The bodies stay where they were unpacked, or all records of some megabytes would be copied once more; keys and headers stand behind.
    let mut spans = [None, None, None];
    for at in (0..3).rev() {
        let before = all_ends[..at].iter().flatten().map(|ends| length(ends)).sum::<usize>();
        let Some(ends) = all_ends[at].take() else { continue };
        if bytes.len() != before + length(&ends) {
            return Err(damaged("a frame has bytes that belong to no record, or too few"));
        }
        spans[at] = Some(dataflow::block::Spans { bytes: behind(&mut bytes, before), ends });
    }
    let [payloads, keys, headers] = spans;
    let end = first + rows as u64;
    Ok(RecordBlock {
        item: None,
        partition: partition.clone(),
        payloads: payloads.unwrap_or_default(),
        absent,
        cut: Vec::new(),
        keys,
        headers,
        head: None,
        schema: None,
        era: 0,
        positions: (first..end).collect(),
        times_ms,
        next: position::position(0, end),
        leader_epoch: NO_LEADER_EPOCH,
        leader_epoch_within: NO_LEADER_EPOCH,
        found: Default::default(),
    })
}

/// Where each string ends, by their lengths; rows without one go to `absent`.
fn ends(lengths: &[u8], mut absent: Option<&mut Vec<u32>>) -> Result<Vec<u32>, FormatError> {
    let mut end = 0u64;
    let mut ends = Vec::with_capacity(lengths.len() / 4);
    for (row, length) in lengths.chunks_exact(4).enumerate() {
        match (u32::from_le_bytes(length.try_into().expect("four bytes")), &mut absent) {
            (ABSENT, Some(absent)) => absent.push(row as u32),
            (length, _) => end += u64::from(length),
        }
        ends.push(u32::try_from(end).map_err(|_| damaged("a length"))?);
    }
    Ok(ends)
}

/// Bytes of all strings that end there.
fn length(ends: &[u32]) -> usize {
    ends.last().map_or(0, |end| *end as usize)
}

/// Takes what stands behind the first `before` bytes; all of them as they are, without a copy, if that is none.
fn behind(bytes: &mut Vec<u8>, before: usize) -> Vec<u8> {
    if before == 0 { std::mem::take(bytes) } else { bytes.split_off(before) }
}

/// The bytes of a frame, of which the first zstd frame is unpacked.
struct Unpacked<'a> {
    /// The bytes of the first, which begin with times and lengths.
    begin: Vec<u8>,
    /// The zstd frames behind it.
    rest: &'a [u8],
    /// Bytes that those hold.
    rest_len: usize,
}

impl<'a> Unpacked<'a> {
    /// Unpacks the first zstd frame of `stored`, which hold `raw_len` bytes all together.
    ///
    /// # Errors
    /// When it is damaged or holds more than that.
    fn first(stored: &'a [u8], raw_len: usize) -> io::Result<Self> {
        let end = zstd::zstd_safe::find_frame_compressed_size(stored)
            .map_err(|code| io::Error::other(zstd::zstd_safe::get_error_name(code)))?;
        let (first, rest) = stored.split_at(end);
        // A frame that is made here says how long it is.
        let said = zstd::zstd_safe::get_frame_content_size(first).ok().flatten();
        let capacity =
            said.and_then(|said| usize::try_from(said).ok()).map_or(raw_len, |said| said.min(raw_len));
        let mut begin = Vec::with_capacity(capacity);
        unpack(first, &mut begin)?;
        let rest_len = raw_len.checked_sub(begin.len()).ok_or_else(|| io::Error::other(OTHER_LENGTH))?;
        Ok(Self { begin, rest, rest_len })
    }

    /// The bytes of all frames from byte `from` of the first on.
    ///
    /// # Errors
    /// When a frame is damaged, or they hold more or less than was said.
    fn from(self, from: usize) -> io::Result<Vec<u8>> {
        let begin = &self.begin[from..];
        let wanted = begin.len() + self.rest_len;
        let mut all = Vec::with_capacity(wanted);
        all.extend_from_slice(begin);
        if !self.rest.is_empty() {
            unpack(self.rest, &mut all)?;
        }
        match all.len() == wanted {
            true => Ok(all),
            false => Err(io::Error::other(OTHER_LENGTH)),
        }
    }
}

/// Appends what the zstd frames hold, up to the capacity of `out`.
fn unpack(frames: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut behind = Cursor::new(&mut *out);
    behind.set_position(behind.get_ref().len() as u64);
    UNPACKER.with_borrow_mut(|unpacker| unpacker.decompress_to_buffer(frames, &mut behind)).map(drop)
}
