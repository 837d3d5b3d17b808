//! How much memory values take, and how much of it may be repeated.
//!
//! Owns the bytes of a column's rows and the bound on what is repeated for each item of a record's array. Does not own what repeats it: the rows of
//! `UNNEST` (`unnest`) and columns within a function without a name (`functions::lambdas`).

use std::ops::Range;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

/// What is repeated of one record may be so many times what it holds: other columns are there once for each item. As with requests of OTLP.
const GROWTH_MAX: usize = 128;

/// What may be repeated in any case, in bytes: small records with many items.
const GROWTH_BYTES_MIN: usize = 16 << 10;

/// What may be repeated at the most, in bytes. A block has one such record, or many of a few kilobytes.
const GROWTH_BYTES_MAX: usize = 256 << 20;

/// What all records of a batch may repeat, in bytes: texts of a column are addressed by 31 bits. Blocks of a source (4 MiB, or one record) stay below
/// it, unless steps have made the columns larger before.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// Bytes that may be repeated of a record which has `own` bytes.
pub(crate) fn growth_max(own: usize) -> usize {
    own.saturating_mul(GROWTH_MAX).saturating_add(GROWTH_BYTES_MIN).min(GROWTH_BYTES_MAX)
}

/// Bytes of these rows of a column, of what is in it alone.
pub(crate) fn bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    let offsets = |offsets: &[i32]| offsets[rows.start] as usize..offsets[rows.end] as usize;
    let large = |offsets: &[i64]| offsets[rows.start] as usize..offsets[rows.end] as usize;
    match array.data_type() {
        DataType::Utf8 => offsets(array.as_string::<i32>().value_offsets()).len() + 4 * rows.len(),
        DataType::LargeUtf8 => large(array.as_string::<i64>().value_offsets()).len() + 8 * rows.len(),
        DataType::Utf8View => {
            let texts = array.as_string_view();
            rows.clone().map(|row| texts.value(row).len()).sum::<usize>() + 16 * rows.len()
        }
        DataType::Binary => offsets(array.as_binary::<i32>().value_offsets()).len() + 4 * rows.len(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            bytes(lists.values(), offsets(lists.value_offsets())) + 4 * rows.len()
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let entries = offsets(maps.value_offsets());
            bytes(maps.keys(), entries.clone()) + bytes(maps.values(), entries) + 4 * rows.len()
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|field| bytes(field, rows.clone())).sum()
        }
        DataType::FixedSizeBinary(width) => *width as usize * rows.len(),
        // No type of ours is wider than 32 bytes.
        other => other.primitive_width().unwrap_or(32) * rows.len(),
    }
}

/// The items of these rows of arrays within arrays, and how many of them are NULL.
pub(crate) fn leaves(array: &dyn Array, rows: Range<usize>) -> (usize, usize) {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            leaves(lists.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            leaves(lists.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        _ if array.null_count() == 0 => (rows.len(), 0),
        _ => (rows.len(), rows.filter(|row| array.is_null(*row)).count()),
    }
}

#[cfg(test)]
mod tests;
