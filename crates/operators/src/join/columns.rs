//! Columns of held rows: copied in, gathered, put together.
//!
//! Owns what the forms of columns need of their own: texts that are Utf8 in one batch and Binary in another, and forms that Arrow gathers one value at
//! a time. Does not own which rows are gathered.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;

/// A column may hold this much more than its values take, in eighths of them, before it is copied.
const SLACK_EIGHTHS: usize = 2;

/// And this many bytes, which a copy would not be worth.
const SLACK_BYTES: usize = 4 << 10;

/// The same values, without the memory around them: a column that is a slice of a large block would keep the block.
///
/// # Errors
/// When the column is of a form that cannot be copied.
pub(super) fn compact(column: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data = column.to_data();
    let used = data.get_slice_memory_size()?;
    if !has_unused_items(&data) && memory_bytes(&column) <= used + used / 8 * SLACK_EIGHTHS + SLACK_BYTES {
        return Ok(column);
    }
    // Two parts put together are a new column of exactly their values.
    let half = column.len() / 2;
    let parts = [column.slice(0, half), column.slice(half, column.len() - half)];
    concat(&[parts[0].as_ref(), parts[1].as_ref()])
}

/// Whether arrays or maps hold items that are in none of them, as a slice does: Arrow counts those as used.
fn has_unused_items(data: &ArrayData) -> bool {
    let (DataType::List(_) | DataType::Map(..)) = data.data_type() else { return false };
    let items = &data.child_data()[0];
    match data.buffers()[0].typed_data::<i32>().get(data.offset()..data.offset() + data.len() + 1) {
        Some([first, .., last]) => *first > 0 || (*last as usize) < items.len() || has_unused_items(items),
        _ => !items.is_empty(),
    }
}

/// Memory that a column holds, in bytes.
pub(super) fn memory_bytes(column: &ArrayRef) -> usize {
    column.get_array_memory_size()
}

/// A column that is text in a form that all of `columns` have: Utf8 if all are, otherwise Binary.
fn alike(columns: &mut [ArrayRef]) {
    if columns.iter().all(|column| column.data_type() == columns[0].data_type()) {
        return;
    }
    for column in columns {
        if let Some(text) = column.as_string_opt::<i32>() {
            *column = Arc::new(BinaryArray::from(text.clone()));
        }
    }
}

/// One column of the values of several, one after the other; at least one.
///
/// # Errors
/// When they are of different forms, or their texts take more than 2 GiB.
pub(super) fn chain(mut columns: Vec<ArrayRef>) -> Result<ArrayRef, ArrowError> {
    alike(&mut columns);
    let parts: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    concat(&parts)
}

/// The values at these places, each a column of `columns` and a row of it.
///
/// # Errors
/// As [`chain`].
pub(super) fn gather(mut columns: Vec<ArrayRef>, places: &[(usize, usize)]) -> Result<ArrayRef, ArrowError> {
    alike(&mut columns);
    match columns.first().map(|column| column.data_type().clone()) {
        Some(DataType::Boolean) => Ok(booleans(&columns, places)),
        Some(DataType::FixedSizeBinary(width)) => fixed(&columns, places, width),
        _ => interleave(&columns.iter().map(AsRef::as_ref).collect::<Vec<_>>(), places),
    }
}

/// Bytes of these rows' values in a column: as long as each of a text is, and as all that is in an array or a map.
pub(super) fn bytes(column: &ArrayRef, rows: impl ExactSizeIterator<Item = usize>) -> u64 {
    let texts = |offsets: &[i32], rows: &mut dyn Iterator<Item = usize>| {
        rows.map(|row| (offsets[row + 1] - offsets[row]) as u64 + OFFSET_BYTES).sum()
    };
    let mut rows = rows;
    match column.data_type() {
        DataType::Utf8 => texts(column.as_string::<i32>().value_offsets(), &mut rows),
        DataType::Binary => texts(column.as_binary::<i32>().value_offsets(), &mut rows),
        DataType::List(_) | DataType::Map(..) => rows.map(|row| bytes_between(column, row..row + 1)).sum(),
        _ => rows.len() as u64 * mean_bytes(column),
    }
}

/// The same of rows in several columns of one form, each by its column and its row there.
pub(super) fn bytes_in(columns: &[&ArrayRef], places: &[(usize, usize)]) -> u64 {
    let has_items = |column: &&ArrayRef| matches!(column.data_type(), DataType::List(_) | DataType::Map(..));
    if columns.iter().any(has_items) {
        return places.iter().map(|(column, row)| bytes_between(columns[*column], *row..row + 1)).sum();
    }
    let has_texts = |column: &&ArrayRef| matches!(column.data_type(), DataType::Utf8 | DataType::Binary);
    if !columns.iter().any(has_texts) {
        let most = columns.iter().map(|column| mean_bytes(column)).max();
        return places.len() as u64 * most.unwrap_or(0);
    }
    let offsets: Vec<&[i32]> = columns
        .iter()
        .map(|column| match column.data_type() {
            DataType::Binary => column.as_binary::<i32>().value_offsets(),
            _ => column.as_string::<i32>().value_offsets(),
        })
        .collect();
    let of = |(column, row): &(usize, usize)| {
        (offsets[*column][row + 1] - offsets[*column][*row]) as u64 + OFFSET_BYTES
    };
    places.iter().map(of).sum()
}

/// Bytes of values that follow one another, with all that is in them. One array may be longer than all others of its column together.
fn bytes_between(array: &ArrayRef, rows: Range<usize>) -> u64 {
    let within = |offsets: &[i32]| offsets[rows.start] as usize..offsets[rows.end] as usize;
    let own = rows.len() as u64;
    match array.data_type() {
        DataType::Utf8 => own * OFFSET_BYTES + within(array.as_string::<i32>().value_offsets()).len() as u64,
        DataType::Binary => {
            own * OFFSET_BYTES + within(array.as_binary::<i32>().value_offsets()).len() as u64
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            own * OFFSET_BYTES + bytes_between(list.values(), within(list.value_offsets()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries = within(map.value_offsets());
            let keys = bytes_between(map.keys(), entries.clone());
            own * OFFSET_BYTES + keys + bytes_between(map.values(), entries)
        }
        _ => own * mean_bytes(array),
    }
}

/// Bytes beside a value of any length that say where it ends.
const OFFSET_BYTES: u64 = 4;

/// Bytes of a value, on average and rounded up.
fn mean_bytes(column: &ArrayRef) -> u64 {
    let width = match column.data_type() {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => Some(*width as u64),
        other => other.primitive_width().map(|width| width as u64),
    };
    let bytes = || (column.get_array_memory_size() as u64).div_ceil(column.len().max(1) as u64);
    width.unwrap_or_else(bytes)
}

/// What `gather` makes of these rows, in as few parts as their texts allow, each of at most `rows_max` rows.
///
/// # Errors
/// When `each` fails.
pub(super) fn in_parts<E: From<ArrowError>>(
    ids: &[u32],
    rows_max: usize,
    gather: &impl Fn(&[u32]) -> Result<Vec<ArrayRef>, ArrowError>,
    each: &mut impl FnMut(&[u32], Vec<ArrayRef>) -> Result<(), E>,
) -> Result<(), E> {
    for part in ids.chunks(rows_max) {
        match gather(part) {
            Ok(columns) => each(part, columns)?,
            // One value fits by itself: it came in a column.
            Err(_) if part.len() > 1 => in_parts(part, part.len().div_ceil(2), gather, each)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn nulls(columns: &[ArrayRef], places: &[(usize, usize)]) -> Option<NullBuffer> {
    if columns.iter().all(|column| column.null_count() == 0) {
        return None;
    }
    let is_valid = |at: usize| columns[places[at].0].is_valid(places[at].1);
    Some(NullBuffer::new(BooleanBuffer::collect_bool(places.len(), is_valid)))
}

fn booleans(columns: &[ArrayRef], places: &[(usize, usize)]) -> ArrayRef {
    let bits: Vec<&BooleanBuffer> = columns.iter().map(|column| column.as_boolean().values()).collect();
    let values = BooleanBuffer::collect_bool(places.len(), |at| bits[places[at].0].value(places[at].1));
    Arc::new(BooleanArray::new(values, nulls(columns, places)))
}

fn fixed(columns: &[ArrayRef], places: &[(usize, usize)], width: i32) -> Result<ArrayRef, ArrowError> {
    let of: Vec<&FixedSizeBinaryArray> = columns.iter().map(|column| column.as_fixed_size_binary()).collect();
    let mut values = Vec::with_capacity(places.len() * width as usize);
    if width == 16 {
        // The length is known to the compiler here, and most such columns are UUIDs.
        let of: Vec<&[[u8; 16]]> = of.iter().map(|column| column.value_data().as_chunks().0).collect();
        values.extend(places.iter().flat_map(|(column, row)| of[*column][*row]));
    } else {
        places.iter().for_each(|(column, row)| values.extend_from_slice(of[*column].value(*row)));
    }
    let array = FixedSizeBinaryArray::try_new(width, Buffer::from_vec(values), nulls(columns, places))?;
    Ok(Arc::new(array))
}
