//! What every decoder does beside decoding: it goes through a block's records, rejects some unread, and pairs columns with origins.
//!
//! Owns what all formats share about whole records. Does not own values ([`crate::columns`]).

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use dataflow::position;
use dataflow::{Batch, Decoded, Reason, RecordBlock, Reject, Schema, Several};

/// The reject of a record without a body.
#[cold]
pub(crate) fn no_body(block: &RecordBlock, row: usize) -> Reject {
    Reject::of(block, row, Reason::NoBody, "", "the record has no body (a tombstone)".into())
}

/// The reject of a record that is longer than the pipeline takes.
#[cold]
pub(crate) fn too_large(block: &RecordBlock, row: usize, bytes_max: usize) -> Reject {
    let bytes = block.whole_bytes(row);
    let message = format!("the record has `{bytes}` bytes, more than `record_bytes_max` ({bytes_max})");
    Reject::of(block, row, Reason::TooLarge, "", message)
}

/// Hands the bytes `start..end` of each record of a block to `push`, from the first to the last, and gives the rejects: of records without a body or of more
/// than `bytes_max` bytes, which `push` does not see, and of those that it turns down, as `turned` words them.
#[inline(always)]
pub(crate) fn each<F>(
    block: &RecordBlock,
    bytes_max: usize,
    mut push: impl FnMut(usize, usize) -> Result<(), F>,
    turned: impl Fn(usize, F) -> Reject,
) -> Vec<Reject> {
    let mut rejects = Vec::new();
    let mut absent = block.absent.iter().copied().peekable();
    let mut from = 0;
    for (row, end) in block.payloads.ends.iter().enumerate() {
        let (start, end) = (from, *end as usize);
        from = end;
        if absent.next_if_eq(&(row as u32)).is_some() {
            rejects.push(no_body(block, row));
        } else if end - start > bytes_max {
            rejects.push(too_large(block, row, bytes_max));
        } else if let Err(fault) = push(start, end) {
            rejects.push(turned(row, fault));
        }
    }
    rejects
}

/// The columns of `schema`, one row for each record of the block that is not among `rejects`.
pub(crate) fn decoded(
    block: &RecordBlock,
    schema: &Schema,
    arrays: Vec<ArrayRef>,
    rejects: Vec<Reject>,
) -> Decoded {
    let (mut positions, mut times_ms) = (block.positions.clone(), block.times_ms.clone());
    if !rejects.is_empty() {
        drop_rejects(&mut positions, &mut times_ms, &rejects);
    }
    let rows = RecordBatch::try_new(Arc::clone(schema.arrow()), arrays)
        .expect("columns are compiled from the same schema and refuse nulls that it does not take");
    Decoded {
        batch: Batch {
            items: Vec::new(),
            era: block.era,
            partition: block.partition.clone(),
            rows,
            positions,
            times_ms,
        },
        rejects,
        several: None,
    }
}

/// The columns of `schema` with rows at these positions, of which several may be of one record.
pub(crate) fn of_several(
    block: &RecordBlock,
    schema: &Schema,
    arrays: Vec<ArrayRef>,
    (positions, times_ms): (Vec<u64>, Vec<i64>),
    rejects: Vec<Reject>,
    several: Several,
) -> Decoded {
    let rows = RecordBatch::try_new(Arc::clone(schema.arrow()), arrays)
        .expect("columns are compiled from the same schema and refuse nulls that it does not take");
    Decoded {
        batch: Batch {
            items: Vec::new(),
            era: block.era,
            partition: block.partition.clone(),
            rows,
            positions,
            times_ms,
        },
        rejects,
        several: Some(several),
    }
}

/// Takes the positions of records that were turned down out, and their times. Both ascend as the rejects do.
#[cold]
fn drop_rejects(positions: &mut Vec<u64>, times_ms: &mut Vec<i64>, rejects: &[Reject]) {
    let mut rejected = rejects.iter().map(|reject| position::low(reject.position)).peekable();
    let is_kept: Vec<bool> =
        positions.iter().map(|position| rejected.next_if_eq(position).is_none()).collect();
    for_kept(positions, &is_kept);
    for_kept(times_ms, &is_kept);
}

fn for_kept<T>(values: &mut Vec<T>, is_kept: &[bool]) {
    let mut is_kept = is_kept.iter();
    values.retain(|_| *is_kept.next().expect("one for each value"));
}
