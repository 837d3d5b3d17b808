//! Maps that have a key more than once: the last of its values counts.
//!
//! Owns which entries are dropped, and the arrays without them. Does not own the entries while they grow ([`super::Maps`]).
//!
//! Keys are compared as values of their type, so `"7"` and `"07"` are one key of a UInt16.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

/// Entries of a map up to which each is compared with all others, which needs no memory; those of a larger one are sorted.
const COMPARED_MAX: usize = 16;

/// The keys, values and offsets of maps, without the entries whose key is there again later in the same map.
pub(super) fn last_of_each(
    keys: ArrayRef,
    values: ArrayRef,
    offsets: Vec<i32>,
) -> Result<(ArrayRef, ArrayRef, Vec<i32>), ArrowError> {
    let dropped = dropped(&keys, &offsets);
    if dropped.is_empty() {
        return Ok((keys, values, offsets));
    }
    let mut rest = dropped.iter().copied().peekable();
    let kept = (0..keys.len()).filter(|at| rest.next_if_eq(at).is_none()).map(|at| at as u32);
    let kept = UInt32Array::from(kept.collect::<Vec<_>>());
    let before = |end: i32| dropped.partition_point(|at| *at < end as usize) as i32;
    let offsets = offsets.into_iter().map(|end| end - before(end)).collect();
    Ok((take(&keys, &kept, None)?, take(&values, &kept, None)?, offsets))
}

/// The numbers of the entries that do not count, in order.
fn dropped(keys: &ArrayRef, offsets: &[i32]) -> Vec<usize> {
    let data = keys.to_data();
    let width = match data.data_type() {
        DataType::Utf8 | DataType::Boolean => 0,
        DataType::FixedSizeBinary(width) => *width as usize,
        other => other.primitive_width().unwrap_or(0),
    };
    // Equal for equal keys only.
    let key = |at: usize| -> &[u8] {
        let bytes = data.buffers()[0].as_slice();
        match data.data_type() {
            DataType::Utf8 => {
                let ends = data.buffer::<i32>(0);
                &data.buffers()[1].as_slice()[ends[at] as usize..ends[at + 1] as usize]
            }
            DataType::Boolean => {
                if bytes[at / 8] >> (at % 8) & 1 == 1 {
                    &[1]
                } else {
                    &[0]
                }
            }
            _ => &bytes[at * width..(at + 1) * width],
        }
    };
    let (mut dropped, mut prints) = (Vec::new(), [0; COMPARED_MAX]);
    for ends in offsets.windows(2) {
        let map = ends[0] as usize..ends[1] as usize;
        match map.len() {
            0 | 1 => {}
            len if len <= COMPARED_MAX => compared(map, key, &mut prints[..len], &mut dropped),
            _ => sorted(map, key, &mut dropped),
        }
    }
    dropped
}

/// Appends the entries of a small map that do not count; `prints` has an item for each of its entries.
fn compared<'k>(
    map: Range<usize>,
    key: impl Fn(usize) -> &'k [u8],
    prints: &mut [u64],
    dropped: &mut Vec<usize>,
) {
    let start = map.start;
    prints.iter_mut().zip(map).for_each(|(of, at)| *of = print(key(at)));
    for first in 0..prints.len() {
        let is_same =
            |later: usize| prints[later] == prints[first] && key(start + later) == key(start + first);
        if (first + 1..prints.len()).any(is_same) {
            dropped.push(start + first);
        }
    }
}

/// The same of a large one.
fn sorted<'k>(map: Range<usize>, key: impl Fn(usize) -> &'k [u8], dropped: &mut Vec<usize>) {
    let mut entries: Vec<(u64, usize)> = map.map(|at| (print(key(at)), at)).collect();
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))).then(a.1.cmp(&b.1)));
    let from = dropped.len();
    let pairs = entries.windows(2).filter(|pair| pair[0].0 == pair[1].0 && key(pair[0].1) == key(pair[1].1));
    dropped.extend(pairs.map(|pair| pair[0].1));
    dropped[from..].sort_unstable();
}

/// A number that is the same for equal keys and differs for most others: their first and last bytes.
fn print(key: &[u8]) -> u64 {
    match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first).rotate_left(32) ^ u64::from_le_bytes(*last) ^ key.len() as u64
        }
        _ => key.iter().fold(key.len() as u64, |print, byte| print << 8 | u64::from(*byte)),
    }
}
