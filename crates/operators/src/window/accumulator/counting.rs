//! The rows that count for an aggregate.
//!
//! Owns the rule: those without a null in what it reads, and with its condition true. Does not own what becomes of them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::NullBuffer;

use super::{Accumulator, Input, Rows};
use crate::window::aggregate::Bound;

/// Takes rows of a batch into an aggregate.
///
/// # Errors
/// When a column is missing or of another form.
pub(super) fn update(
    accumulator: &mut dyn Accumulator,
    batch: &RecordBatch,
    bound: &Bound,
    of: Rows<'_>,
) -> Result<(), String> {
    let first = bound.input.as_ref().map(|input| column(batch, &input.name)).transpose()?;
    let by = bound.by.as_ref().map(|by| column(batch, &by.name)).transpose()?;
    let condition = bound.aggregate.condition.as_ref();
    let condition = condition.map(|name| column(batch, name)).transpose()?;
    let counting = Counting::new(of, [first, by, condition], condition)?;
    let types = (bound.input.as_ref(), bound.by.as_ref());
    let input = Input {
        column: first.zip(types.0).map(|(array, input)| (array, &input.column_type)),
        by: by.zip(types.1).map(|(array, by)| (array, &by.column_type)),
    };
    accumulator.update(&input, counting.rows(of))
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array, String> {
    let array = batch.column_by_name(name).ok_or_else(|| format!("the batch has no column `{name}`"))?;
    Ok(array.as_ref())
}

/// The rows that count for an aggregate: without a null in what it reads, and with its condition true.
enum Counting {
    All,
    Some { rows: Vec<u32>, groups: Vec<u32> },
}

impl Counting {
    fn new(
        of: Rows<'_>,
        columns: [Option<&dyn Array>; 3],
        condition: Option<&dyn Array>,
    ) -> Result<Self, String> {
        let nulls = columns.into_iter().flatten().filter_map(|array| array.nulls());
        let nulls = NullBuffer::union_many(nulls.map(Some)).filter(|nulls| nulls.null_count() > 0);
        let condition = condition
            .map(|array| array.as_boolean_opt().ok_or("the condition of an aggregate is not Bool"))
            .transpose()?
            .map(BooleanArray::values);
        if nulls.is_none() && condition.is_none() {
            return Ok(Self::All);
        }
        let counts = |row: usize| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && condition.is_none_or(|condition| condition.value(row))
        };
        let pairs = of.rows.iter().copied().zip(of.groups.iter().copied());
        let (rows, groups) = pairs.filter(|(row, _)| counts(*row as usize)).unzip();
        Ok(Self::Some { rows, groups })
    }

    fn rows<'a>(&'a self, of: Rows<'a>) -> Rows<'a> {
        match self {
            Self::All => of,
            Self::Some { rows, groups } => Rows { rows, groups, ..of },
        }
    }
}
