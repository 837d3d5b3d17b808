//! Texts and bytes of any length, each behind its length.
//!
//! Owns the two ways to copy them: short ones by whole words, long ones by a call each. Does not own other types of values
//! (`native::values`).

use std::ops::Range;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::mismatch;
use crate::native::write_varint;

/// Bytes that a short text is copied as: see [`Texts::write_words`].
const WORD: usize = 32;
/// From this mean length of texts on the zeros that words are written over cost more than a call a text.
const LONG: usize = 4 * WORD;

/// An array of texts or bytes, seen as ends and data.
pub(super) struct Texts<'a> {
    offsets: &'a [i32],
    data: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Texts<'a> {
    /// The texts of an array.
    pub(super) fn of(array: &'a dyn Array) -> Result<Self, String> {
        if let Some(a) = array.as_string_opt::<i32>() {
            Ok(Self { offsets: a.value_offsets(), data: a.value_data(), nulls: a.nulls() })
        } else if let Some(a) = array.as_binary_opt::<i32>() {
            Ok(Self { offsets: a.value_offsets(), data: a.value_data(), nulls: a.nulls() })
        } else {
            Err(mismatch(array, &DataType::Utf8))
        }
    }

    /// The text of a row; of a null the empty one.
    #[inline]
    pub(super) fn value(&self, row: usize) -> &'a [u8] {
        match self.nulls {
            Some(nulls) if nulls.is_null(row) => &[],
            _ => &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize],
        }
    }

    /// Bytes of the texts in a stretch.
    fn bytes(&self, rows: &Range<usize>) -> usize {
        (self.offsets[rows.end] - self.offsets[rows.start]) as usize
    }

    /// Writes the texts of a stretch one by one.
    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        for ends in self.offsets[rows.start..=rows.end].windows(2) {
            write_varint((ends[1] - ends[0]) as u64, out);
            out.extend_from_slice(&self.data[ends[0] as usize..ends[1] as usize]);
        }
    }

    /// Writes the texts of a stretch at byte `at` of `out`, and gives the byte behind them; there is room for them and a [`WORD`]. Short
    /// ones are copied as a whole word, of which the next one overwrites what is too much: a copy of fixed size is a few
    /// instructions, one of any size is a call.
    #[inline]
    fn write_words(&self, rows: Range<usize>, out: &mut [u8], mut at: usize) -> usize {
        for ends in self.offsets[rows.start..=rows.end].windows(2) {
            let (from, to) = (ends[0] as usize, ends[1] as usize);
            let length = to - from;
            if length < WORD && from + WORD <= self.data.len() {
                out[at] = length as u8;
                out[at + 1..at + 1 + WORD].copy_from_slice(&self.data[from..from + WORD]);
                at += 1 + length;
            } else {
                let mut rest = length;
                while rest >= 0x80 {
                    out[at] = rest as u8 | 0x80;
                    rest >>= 7;
                    at += 1;
                }
                out[at] = rest as u8;
                out[at + 1..at + 1 + length].copy_from_slice(&self.data[from..to]);
                at += 1 + length;
            }
        }
        at
    }
}

/// Writes the texts of these stretches; `texts` are those of each batch.
pub(super) fn write(
    texts: &[Texts<'_>],
    stretches: impl Iterator<Item = (usize, Range<usize>)> + Clone,
    count: usize,
    out: &mut Vec<u8>,
) {
    let bytes: usize = stretches.clone().map(|(batch, rows)| texts[batch].bytes(&rows)).sum();
    // A length takes a byte below 128, and at most one more for each 64 bytes of text beyond.
    let room = bytes + bytes / 64 + count;
    if bytes >= LONG * count {
        out.reserve(room);
        stretches.for_each(|(batch, rows)| texts[batch].write(rows, out));
        return;
    }
    let start = out.len();
    out.resize(start + room + WORD, 0);
    let end = stretches.fold(start, |at, (batch, rows)| texts[batch].write_words(rows, out, at));
    out.truncate(end);
}
