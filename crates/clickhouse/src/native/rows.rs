//! Which rows of several batches go into a block, and in which order.
//!
//! Owns the two ways to name rows: all of them as they stand (copied in runs), or one by one. Rows are gathered while they
//! are written, so that neither sorting nor cutting copies a batch first.

use arrow_array::Array;

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
    /// These rows, in this order.
    Picked(&'a [RowRef]),
}

/// Picked rows in one stretch: some 16 bytes each fill a chunk of the compression.
const STRETCH_ROWS: usize = 1 << 16;
/// Bytes of a batch's column in one stretch: a chunk without compression, or a part of one with it. A core's own cache holds them beside
/// the values that they are written from.
const STRETCH_BYTES: usize = 64 << 10;

impl Rows<'_> {
    /// How many rows, given the length of each batch.
    pub fn count(&self, batch_rows: impl Iterator<Item = usize>) -> usize {
        match self {
            Rows::All => batch_rows.sum(),
            Rows::Picked(rows) => rows.len(),
        }
    }

    pub(super) fn count_of<A: Array + ?Sized>(&self, arrays: &[&A]) -> usize {
        self.count(arrays.iter().map(|a| a.len()))
    }

    pub(super) fn null_count(&self, arrays: &[&dyn Array]) -> usize {
        let total = arrays.iter().map(|a| a.null_count()).sum();
        match self {
            Rows::Picked(rows) if total > 0 => {
                rows.iter().filter(|r| arrays[r.batch as usize].is_null(r.row as usize)).count()
            }
            Rows::Picked(_) | Rows::All => total,
        }
    }

    /// Calls `visit` with one stretch of the rows after the other: a batch or a part of it, or some of the picked rows.
    pub(super) fn stretches<E>(
        &self,
        arrays: &[&dyn Array],
        mut visit: impl FnMut(&[&dyn Array], Rows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Rows::All => arrays.iter().try_for_each(|array| {
                let rows = rows_of_a_stretch(*array);
                if array.len() <= rows {
                    return visit(&[*array], Rows::All);
                }
                (0..array.len())
                    .step_by(rows)
                    .try_for_each(|at| visit(&[&*array.slice(at, rows.min(array.len() - at))], Rows::All))
            }),
            Rows::Picked(rows) => {
                rows.chunks(STRETCH_ROWS).try_for_each(|rows| visit(arrays, Rows::Picked(rows)))
            }
        }
    }

    /// Calls `visit` with the batch and the row of each picked row; stops at the first error.
    #[inline]
    pub(super) fn try_each<A: Array + ?Sized, E>(
        &self,
        arrays: &[&A],
        mut visit: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Rows::All => {
                for (batch, array) in arrays.iter().enumerate() {
                    (0..array.len()).try_for_each(|row| visit(batch, row))?;
                }
                Ok(())
            }
            Rows::Picked(rows) => rows.iter().try_for_each(|r| visit(r.batch as usize, r.row as usize)),
        }
    }
}

/// How many rows of an array fill a stretch.
fn rows_of_a_stretch(array: &dyn Array) -> usize {
    let bytes = array.to_data().get_slice_memory_size().unwrap_or(0);
    // Above 0, or nothing would ever be written.
    (STRETCH_BYTES.saturating_mul(array.len()) / bytes.max(1)).max(1)
}
