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

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use dataflow::{Batch, Reason, Reject, Transformed};

use crate::sizes;

/// Rows of one record. A block of records is sealed whole, so a record is never divided between two inserts; more rows than these are more than the
/// server writes as one block.
pub(crate) const ROWS_MAX: usize = 1 << 20;

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
        let repeated: usize = others.map(|(_, array)| sizes::bytes(array, row..row + 1)).sum();
        let own = sizes::bytes(lists.values(), range.start as usize..range.end as usize);
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
    let growth_max = sizes::growth_max(own);
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
    (growth > sizes::BATCH_BYTES_MAX - batch_bytes).then(|| {
        format!(
            "the `{rows}` rows of the record would repeat `{growth}` bytes of its other columns, and the rows of the records before it fill the batch; \
             select fewer columns beside UNNEST, and replay the dead letter"
        )
    })
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
