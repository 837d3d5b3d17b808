//! Rows that the columns of a batch have no room for, because what they were given is too wide.
//!
//! Owns the sizes, and what is said of such a row. Arrow counts the bytes of a column in 32 bits, and rows of one block may all get the same wide value. Does not own
//! the columns ([`super`]).

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use dataflow::{Batch, Reason, Reject};

/// Bytes, and items, that a column of a batch may have.
pub(super) const COLUMN_BYTES_MAX: u64 = i32::MAX as u64;

/// The rows of the batch with whose values a column would have more than `bytes_max`, each with that column. The others all fit.
pub(super) fn rows<'a>(
    columns: &[(&'a str, &ArrayRef)],
    places: &UInt32Array,
    bytes_max: u64,
) -> Vec<(usize, &'a str)> {
    let mut held = vec![0_u64; columns.len()];
    let mut wide = Vec::new();
    for (row, place) in places.iter().enumerate() {
        let Some(place) = place.map(|place| place as usize) else { continue };
        let more: Vec<u64> = columns.iter().map(|(_, column)| bytes_of(column, place..place + 1)).collect();
        match held.iter().zip(&more).position(|(held, more)| held + more > bytes_max) {
            Some(at) => wide.push((row, columns[at].0)),
            None => held.iter_mut().zip(&more).for_each(|(held, more)| *held += more),
        }
    }
    wide
}

/// Bytes of values, or items if these are more; of what has several parts, those of the largest.
fn bytes_of(array: &ArrayRef, range: Range<usize>) -> u64 {
    let within = |offsets: &[i32]| offsets[range.start] as usize..offsets[range.end] as usize;
    match array.data_type() {
        DataType::Utf8 => within(array.as_string::<i32>().value_offsets()).len() as u64,
        DataType::Binary => within(array.as_binary::<i32>().value_offsets()).len() as u64,
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let items = within(list.value_offsets());
            let count = items.len() as u64;
            count.max(bytes_of(list.values(), items))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let items = within(map.value_offsets());
            let count = items.len() as u64;
            let of_keys = bytes_of(map.keys(), items.clone());
            count.max(of_keys).max(bytes_of(map.values(), items))
        }
        _ => 0,
    }
}

/// The reject of such a row.
pub(super) fn reject(batch: &Batch, row: usize, column: &str) -> Reject {
    Reject {
        item: batch.item(row),
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms: batch.times_ms[row],
        reason: Reason::TooLarge,
        column: column.to_owned(),
        message: format!(
            "the values of `{column}` that were found for the records of one block have more than 2 GiB, and there is no room for that of this one; replay it, and it is \
             read with fewer others"
        ),
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
