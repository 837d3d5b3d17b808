//! Rows removed from columns in place.
//!
//! Owns the moving of the rows that stay. Does not own which rows those are, nor the origins beside the columns (`crate::batch`). A filter
//! would copy every column into fresh memory to remove a few rows; here the rows behind each gap move up in the memory that the decoder has
//! filled, which is still in the cache.
//!
//! | column                                                 | how                      |
//! |--------------------------------------------------------|--------------------------|
//! | numbers, times, fixed bytes, text; without nulls       | moved up                 |
//! | the same, in memory that others hold too               | copied, then moved up    |
//! | Bool, Array, Map; a column with nulls                  | filtered                 |

use std::ops::Range;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer};
use arrow_schema::{ArrowError, DataType};

/// The stretches of `0..len` between the `dropped`, which ascend and are below `len`.
pub(super) fn stretches(dropped: &[usize], len: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = dropped.iter().copied().chain(std::iter::once(len));
    let begins = std::iter::once(0).chain(dropped.iter().map(|row| row + 1));
    begins.zip(ends).map(|(begin, end)| begin..end).filter(|stretch| !stretch.is_empty())
}

/// The rows in `stay`, which ascend and do not touch.
pub(super) fn keep(rows: RecordBatch, stay: &[Range<usize>]) -> Result<RecordBatch, ArrowError> {
    let (schema, columns, len) = rows.into_parts();
    let mut filter = None;
    let columns = columns.into_iter().map(|column| {
        if column.null_count() == 0 && column.offset() == 0 {
            match column.data_type() {
                DataType::Utf8 | DataType::Binary => return Ok(texts(column, stay)),
                DataType::FixedSizeBinary(width) => {
                    let width = width.as_usize();
                    return Ok(fixed(column, width, stay));
                }
                other => {
                    if let Some(width) = other.primitive_width() {
                        return Ok(fixed(column, width, stay));
                    }
                }
            }
        }
        let filter = filter.get_or_insert_with(|| {
            let mut keep = vec![false; len];
            stay.iter().for_each(|stretch| keep[stretch.clone()].fill(true));
            BooleanArray::from(keep)
        });
        arrow_select::filter::filter(&column, filter)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// Moves the items of a vector up.
pub(super) fn keep_items<T: Copy>(items: &mut Vec<T>, stay: &[Range<usize>]) {
    let kept = move_up(items, 1, stay);
    items.truncate(kept);
}

/// Moves the stretches of rows, each of `width` items, to the front; gives the number of items there.
fn move_up<T: Copy>(items: &mut [T], width: usize, stay: &[Range<usize>]) -> usize {
    let mut end = 0;
    for stretch in stay {
        items.copy_within(stretch.start * width..stretch.end * width, end);
        end += stretch.len() * width;
    }
    end
}

fn fixed(column: ArrayRef, width: usize, stay: &[Range<usize>]) -> ArrayRef {
    changed(column, stay, |buffers| {
        let kept = move_up(buffers[0].as_slice_mut(), width, stay);
        buffers[0].truncate(kept);
    })
}

fn texts(column: ArrayRef, stay: &[Range<usize>]) -> ArrayRef {
    changed(column, stay, |buffers| {
        let [offsets, text] = buffers else { unreachable!("text has its offsets and its bytes") };
        let rows: usize = stay.iter().map(Range::len).sum();
        let offsets_of = offsets.typed_data_mut::<i32>();
        // The first text may begin behind the first byte: what is before it goes too.
        let (mut end, mut next) = (0, 0);
        for stretch in stay {
            let (from, to) = (offsets_of[stretch.start], offsets_of[stretch.end]);
            text.as_slice_mut().copy_within(from as usize..to as usize, end as usize);
            // The stretch before ended at or before this one begins, so no offset is written that is still to be read. All texts
            // of a stretch move by as much as the first, which none begins before.
            offsets_of.copy_within(stretch.clone(), next);
            let kept = next + stretch.len();
            offsets_of[next..kept].iter_mut().for_each(|offset| *offset = offset.wrapping_sub(from - end));
            (end, next) = (end + (to - from), kept);
        }
        offsets_of[next] = end;
        text.truncate(end as usize);
        offsets.truncate((rows + 1) * size_of::<i32>());
    })
}

/// The column after `change`, which leaves the rows in `stay`.
fn changed(column: ArrayRef, stay: &[Range<usize>], change: impl FnOnce(&mut [MutableBuffer])) -> ArrayRef {
    let data = column.to_data();
    // The array holds the buffers too: only their sole holder may write in place.
    drop(column);
    let buffers = data.buffers().to_vec();
    let builder = data.into_builder().buffers(Vec::new());
    let mut buffers: Vec<MutableBuffer> = buffers.into_iter().map(own).collect();
    change(&mut buffers);
    let rows = stay.iter().map(Range::len).sum();
    let buffers = buffers.into_iter().map(Buffer::from).collect();
    // SAFETY: whole values of an array that was valid, in their order, with as many rows as are counted here; text offsets
    // ascend from 0 to the end of the text.
    make_array(unsafe { builder.len(rows).buffers(buffers).build_unchecked() })
}

/// The buffer to write in; a copy if others hold it.
fn own(buffer: Buffer) -> MutableBuffer {
    buffer.into_mutable().unwrap_or_else(|shared| {
        let mut copy = MutableBuffer::new(shared.len());
        copy.extend_from_slice(&shared);
        copy
    })
}

#[cfg(test)]
mod tests;
