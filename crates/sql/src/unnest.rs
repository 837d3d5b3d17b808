//! `UNNEST`: a row for each item of a record's array.
//!
//! Owns which rows a record becomes, with the number of the item that each was made of, and how many they may be. Does not own the step around it
//! (`step`), nor the accounts of rows (`dataflow::intake`).
//!
//! | the array                                        | the record                                      |
//! |--------------------------------------------------|-------------------------------------------------|
//! | has items                                        | becomes a row of each, in their order           |
//! | is empty or NULL                                 | is filtered                                     |
//! | has more than [`ROWS_MAX`], or too heavy rows    | is a dead letter (`too_large`)                  |

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use dataflow::{Batch, Reason, Reject, Transformed};

/// Rows of one record. A block of records is sealed whole, so a record is never divided between two inserts; more rows than these are more than the
/// server writes as one block.
pub(crate) const ROWS_MAX: usize = 1 << 20;

/// What the rows of one record repeat may be so many times what it holds: other columns are there once for each item. As with requests of OTLP.
const GROWTH_MAX: usize = 128;

/// What they may repeat in any case, in bytes: small records with many items.
const GROWTH_BYTES_MIN: usize = 16 << 10;

/// What they may repeat at the most, in bytes. A block has one such record, or many of a few kilobytes.
const GROWTH_BYTES_MAX: usize = 256 << 20;

/// What all rows of a batch may repeat, in bytes: texts of a column are addressed by 31 bits. Blocks of a source (4 MiB, or one record) stay below
/// it, unless steps have made the columns larger before.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// One row for each item of the arrays in column `at`; a record whose array has none is filtered.
pub(crate) fn unnest(done: &mut Transformed, arrays: &mut [ArrayRef], at: usize) -> Result<(), ArrowError> {
    let lists = arrays[at].as_list_opt::<i32>();
    let lists = lists.ok_or_else(|| ArrowError::InvalidArgumentError("UNNEST of no Array".into()))?.clone();
    let (mut rows, mut items, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let mut batch_bytes = 0;
    for row in 0..lists.len() {
        let range = lists.value_offsets()[row] as u32..lists.value_offsets()[row + 1] as u32;
        if lists.is_null(row) || range.is_empty() {
            done.filtered += 1;
            continue;
        }
        let others = arrays.iter().enumerate().filter(|(column, _)| *column != at);
        let repeated: usize = others.map(|(_, array)| bytes(array, row..row + 1)).sum();
        let own = bytes(lists.values(), range.start as usize..range.end as usize);
        let growth = (range.len() - 1).saturating_mul(repeated);
        if let Some(why) = too_large(range.len(), growth, repeated + own, batch_bytes) {
            done.rejects.push(reject(&done.batch, row, why));
            continue;
        }
        batch_bytes += growth;
        rows.extend(std::iter::repeat_n(row as u32, range.len()));
        numbers.extend(0..range.len() as u32);
        items.extend(range);
    }
    let batch = &mut done.batch;
    batch.positions = rows.iter().map(|row| batch.positions[*row as usize]).collect();
    batch.times_ms = rows.iter().map(|row| batch.times_ms[*row as usize]).collect();
    batch.items = numbers;
    let (rows, items) = (UInt32Array::from(rows), UInt32Array::from(items));
    for (n, array) in arrays.iter_mut().enumerate() {
        let taken = if n == at { take(lists.values(), &items, None) } else { take(array, &rows, None) };
        *array = taken?;
    }
    Ok(())
}

/// Why a record cannot become so many rows, which repeat `growth` bytes of it beside the `own` bytes that it has.
fn too_large(rows: usize, growth: usize, own: usize, batch_bytes: usize) -> Option<String> {
    let growth_max = (own.saturating_mul(GROWTH_MAX) + GROWTH_BYTES_MIN).min(GROWTH_BYTES_MAX);
    if rows > ROWS_MAX {
        return Some(format!(
            "the record's array has `{rows}` items, and `{ROWS_MAX}` rows of one record are possible; publish it in parts"
        ));
    }
    if growth > growth_max {
        return Some(format!(
            "the `{rows}` rows of the record would repeat `{growth}` bytes of its other columns, and for a record of `{own}` bytes `{growth_max}` are \
             possible; select fewer columns beside UNNEST, or publish it in parts"
        ));
    }
    (growth > BATCH_BYTES_MAX - batch_bytes).then(|| {
        format!(
            "the `{rows}` rows of the record would repeat `{growth}` bytes of its other columns, and the rows of the records before it fill the batch; \
             select fewer columns beside UNNEST, and replay the dead letter"
        )
    })
}

/// Bytes of these rows of a column, of what is in it alone.
fn bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    let offsets = |offsets: &[i32]| offsets[rows.start] as usize..offsets[rows.end] as usize;
    match array.data_type() {
        DataType::Utf8 => offsets(array.as_string::<i32>().value_offsets()).len() + 4 * rows.len(),
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
        DataType::FixedSizeBinary(width) => *width as usize * rows.len(),
        // No type of ours is wider than 32 bytes.
        other => other.primitive_width().unwrap_or(32) * rows.len(),
    }
}

fn reject(batch: &Batch, row: usize, message: String) -> Reject {
    Reject {
        item: None,
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms: batch.times_ms[row],
        reason: Reason::TooLarge,
        column: String::new(),
        message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
