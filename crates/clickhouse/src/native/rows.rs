//! Which rows of several batches go into a block, and in which order.
//!
//! Owns the ways to name rows: all of them as they stand, or those that are kept ([`dataflow::Selected`]), both copied in stretches; or
//! one by one. Rows are gathered while they are written, so that neither taking some out nor sorting nor cutting copies a batch first. Does
//! not own which rows those are: by partition (`crate::partition`), in the table's order (`crate::sort`), without replaced ones
//! (`crate::upsert`).

use std::convert::Infallible;
use std::ops::Range;

use arrow_array::{Array, RecordBatch};

/// One row of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    /// Which batch.
    pub batch: u32,
    /// Which row of it.
    pub row: u32,
}

/// The rows of a block.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Every row of every batch, in order.
    All,
    /// Of each batch the rows in its stretches, in order: they are not empty, ascend and do not touch.
    Stretches(&'a [&'a [Range<u32>]]),
    /// These rows, in this order.
    Picked(&'a [RowRef]),
}

/// Picked rows in one portion: some 16 bytes each fill a chunk of the compression.
const PORTION_ROWS: usize = 1 << 16;
/// Bytes of a batch's column in one portion: a chunk without compression, or a part of one with it. A core's own cache holds them beside
/// the values that they are written from.
const PORTION_BYTES: usize = 64 << 10;

impl Rows<'_> {
    /// How many rows, given the length of each batch.
    pub fn count(&self, batch_rows: impl Iterator<Item = usize>) -> usize {
        match self {
            Rows::All => batch_rows.sum(),
            Rows::Stretches(stretches) => {
                stretches.iter().flat_map(|of_batch| of_batch.iter()).map(Range::len).sum()
            }
            Rows::Picked(rows) => rows.len(),
        }
    }

    pub(super) fn count_of<A: Array + ?Sized>(&self, arrays: &[&A]) -> usize {
        self.count(lengths(arrays))
    }

    /// Batch and rows of each stretch, in order, given the length of each batch; `None` if the rows are picked.
    #[inline]
    pub fn in_order(
        self,
        batch_rows: impl Iterator<Item = usize> + Clone,
    ) -> Option<impl Iterator<Item = (usize, Range<usize>)> + Clone> {
        let stretches = match self {
            Rows::All => None,
            Rows::Stretches(stretches) => Some(stretches),
            Rows::Picked(_) => return None,
        };
        Some(batch_rows.enumerate().flat_map(move |(batch, rows)| {
            let (whole, some) =
                stretches.map_or((Some(0..rows), &[][..]), |stretches| (None, stretches[batch]));
            let some = some.iter().map(|stretch| stretch.start as usize..stretch.end as usize);
            whole.into_iter().chain(some).map(move |stretch| (batch, stretch))
        }))
    }

    /// Calls `visit` with the batch and the row of each row, given the length of each batch; stops at the first error.
    #[inline]
    pub fn try_each<E>(
        self,
        batch_rows: impl Iterator<Item = usize> + Clone,
        mut visit: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Rows::Picked(rows) = self {
            return rows.iter().try_for_each(|r| visit(r.batch as usize, r.row as usize));
        }
        let mut stretches = self.in_order(batch_rows).into_iter().flatten();
        stretches.try_for_each(|(batch, mut rows)| rows.try_for_each(|row| visit(batch, row)))
    }

    /// As [`try_each`](Self::try_each), for what cannot fail.
    #[inline]
    pub fn for_each(
        self,
        batch_rows: impl Iterator<Item = usize> + Clone,
        mut visit: impl FnMut(usize, usize),
    ) {
        let never = self.try_each(batch_rows, |batch, row| {
            visit(batch, row);
            Ok::<(), Infallible>(())
        });
        match never {
            Ok(()) => {}
        }
    }

    /// The rows one by one.
    pub fn to_picked(self, batches: &[RecordBatch]) -> Vec<RowRef> {
        let batch_rows = batches.iter().map(RecordBatch::num_rows);
        let mut picked = Vec::with_capacity(self.count(batch_rows.clone()));
        self.for_each(batch_rows, |batch, row| picked.push(RowRef { batch: batch as u32, row: row as u32 }));
        picked
    }

    pub(super) fn null_count(&self, arrays: &[&dyn Array]) -> usize {
        let total = arrays.iter().map(|a| a.null_count()).sum();
        if total == 0 || matches!(self, Rows::All) {
            return total;
        }
        let mut nulls = 0;
        self.for_each(lengths(arrays), |batch, row| nulls += usize::from(arrays[batch].is_null(row)));
        nulls
    }

    /// Calls `visit` with one portion of the rows after the other: a batch or a part of it, or some of the picked rows.
    pub(super) fn portions<E>(
        &self,
        arrays: &[&dyn Array],
        mut visit: impl FnMut(&[&dyn Array], Rows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Rows::All => arrays.iter().try_for_each(|array| {
                let rows = rows_of_a_portion(*array);
                if array.len() <= rows {
                    return visit(&[*array], Rows::All);
                }
                (0..array.len())
                    .step_by(rows)
                    .try_for_each(|at| visit(&[&*array.slice(at, rows.min(array.len() - at))], Rows::All))
            }),
            Rows::Stretches(stretches) => arrays.iter().zip(*stretches).try_for_each(|(array, stretches)| {
                let visit = |some: &[Range<u32>]| visit(&[*array], Rows::Stretches(&[some]));
                portions_of(stretches, rows_of_a_portion(*array), visit)
            }),
            Rows::Picked(rows) => {
                rows.chunks(PORTION_ROWS).try_for_each(|rows| visit(arrays, Rows::Picked(rows)))
            }
        }
    }
}

/// Rows of each array.
pub(super) fn lengths<'a, A: Array + ?Sized>(arrays: &'a [&A]) -> impl Iterator<Item = usize> + Clone + 'a {
    arrays.iter().map(|array| array.len())
}

/// Calls `visit` with as many of the stretches as have `rows_max` rows together, one after the other; a longer stretch comes in parts.
fn portions_of<E>(
    mut stretches: &[Range<u32>],
    rows_max: usize,
    mut visit: impl FnMut(&[Range<u32>]) -> Result<(), E>,
) -> Result<(), E> {
    while let Some((first, others)) = stretches.split_first() {
        if first.len() > rows_max {
            let part = |at: u32| at..first.end.min(at.saturating_add(rows_max as u32));
            first.clone().step_by(rows_max).try_for_each(|at| visit(std::slice::from_ref(&part(at))))?;
            stretches = others;
            continue;
        }
        let mut rows = 0;
        let fits = |stretch: &&Range<u32>| {
            rows += stretch.len();
            rows <= rows_max
        };
        let (now, later) = stretches.split_at(stretches.iter().take_while(fits).count());
        visit(now)?;
        stretches = later;
    }
    Ok(())
}

/// How many rows of an array fill a portion.
fn rows_of_a_portion(array: &dyn Array) -> usize {
    let bytes = array.to_data().get_slice_memory_size().unwrap_or(0);
    // Above 0, or nothing would ever be written.
    (PORTION_BYTES.saturating_mul(array.len()) / bytes.max(1)).max(1)
}

#[cfg(test)]
mod tests;
