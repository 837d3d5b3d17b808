//! `UNNEST`: a row for each item of a record's array.
//!
//! Owns which rows a record becomes, with the number of the item that each was made of, and how many they may be. Does not own the step around it
//! (`step`), nor the accounts of rows (`dataflow::intake`).
//!
//! | the array                                        | the record                                      |
//! |--------------------------------------------------|-------------------------------------------------|
//! | has items                                        | becomes a row of each, in their order           |
//! | is empty or NULL                                 | is filtered                                     |
//! | is one of several, all of one length             | becomes a row of the first items, of the second, … |
//! | is one of several, and another has another length | is a dead letter (`expression`)                |
//! | has more than [`ROWS_MAX`], or too heavy rows    | is a dead letter (`too_large`)                  |

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use dataflow::{Batch, Column, Reason, Reject, Transformed};

use crate::sizes;

/// Rows of one record. A block of records is sealed whole, so a record is never divided between two inserts; more rows than these are more than the
/// server writes as one block.
pub(crate) const ROWS_MAX: usize = 1 << 20;

/// One row for each item of the arrays in the columns `at`, which are of one length in each record; a record whose arrays have none is filtered.
pub(crate) fn unnest(
    done: &mut Transformed,
    arrays: &mut [ArrayRef],
    (at, columns): (&[usize], &[Column]),
) -> Result<(), ArrowError> {
    let list = |at: &usize| arrays[*at].as_list_opt::<i32>().cloned();
    let lists: Option<Vec<ListArray>> = at.iter().map(list).collect();
    let lists = lists.ok_or_else(|| ArrowError::InvalidArgumentError("UNNEST of no Array".into()))?;
    let mut rows = Vec::new();
    let (mut items, mut numbers) = (vec![Vec::new(); lists.len()], Vec::new());
    let mut batch_bytes = 0;
    for row in 0..done.batch.len() {
        let ranges: Vec<Range<u32>> = lists.iter().map(|list| items_of(list, row)).collect();
        let len = ranges[0].len();
        if let Some(other) = ranges.iter().position(|range| range.len() != len) {
            let [first, second] = [0, other].map(|n| (columns[at[n]].name.as_str(), ranges[n].len()));
            done.rejects.push(unequal(&done.batch, row, first, second));
            continue;
        }
        if len == 0 {
            done.filtered += 1;
            continue;
        }
        let others = arrays.iter().enumerate().filter(|(column, _)| !at.contains(column));
        let repeated: usize = others.map(|(_, array)| sizes::bytes(array, row..row + 1)).sum();
        let of_items = |(list, range): (&ListArray, &Range<u32>)| {
            sizes::bytes(list.values(), range.start as usize..range.end as usize)
        };
        let own: usize = lists.iter().zip(&ranges).map(of_items).sum();
        let growth = (len - 1).saturating_mul(repeated);
        if let Some(why) = too_large(len, growth, repeated + own, batch_bytes) {
            done.rejects.push(reject(&done.batch, row, (Reason::TooLarge, ""), why));
            continue;
        }
        batch_bytes += growth;
        rows.extend(std::iter::repeat_n(row as u32, len));
        numbers.extend(0..len as u32);
        items.iter_mut().zip(ranges).for_each(|(items, range)| items.extend(range));
    }
    let batch = &mut done.batch;
    batch.positions = rows.iter().map(|row| batch.positions[*row as usize]).collect();
    batch.times_ms = rows.iter().map(|row| batch.times_ms[*row as usize]).collect();
    batch.items = numbers;
    let rows = UInt32Array::from(rows);
    let mut items = items.into_iter().map(UInt32Array::from);
    for (n, array) in arrays.iter_mut().enumerate() {
        *array = match at.iter().position(|at| *at == n) {
            Some(list) => take(lists[list].values(), &items.next().expect("one of each list"), None)?,
            None => take(array, &rows, None)?,
        };
    }
    Ok(())
}

/// Where the items of a row's array are: nowhere if it is NULL.
fn items_of(list: &ListArray, row: usize) -> Range<u32> {
    let offsets = list.value_offsets();
    if list.is_null(row) { 0..0 } else { offsets[row] as u32..offsets[row + 1] as u32 }
}

fn unequal(batch: &Batch, row: usize, first: (&str, usize), second: (&str, usize)) -> Reject {
    let ((first, first_len), (second, second_len)) = (first, second);
    let message = format!(
        "the array of `{first}` has `{first_len}` items and that of `{second}` has `{second_len}`; the arrays of several UNNESTs must have the same length \
         in a record"
    );
    reject(batch, row, (Reason::Expression, second), message)
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

fn reject(batch: &Batch, row: usize, (reason, column): (Reason, &str), message: String) -> Reject {
    Reject {
        item: None,
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms: batch.times_ms[row],
        reason,
        column: column.to_owned(),
        message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
