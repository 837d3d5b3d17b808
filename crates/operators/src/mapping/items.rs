//! Arrays and Maps of one type to those of another.
//!
//! Owns the conversion of what stands in them, item by item, and which item it is that does not fit. Does not own the conversion of one
//! value (`convert`), nor what is done about a row.
//!
//! | an item                                   | its row                                      |
//! |-------------------------------------------|----------------------------------------------|
//! | fits                                      | keeps it, converted                          |
//! | is NULL, and the items take none          | becomes null, without items                  |
//! | does not fit, or lies outside of its type | the same                                     |

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, UInt32Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use dataflow::{ColumnType, Reason};

use super::convert;
use super::types::limits;

/// Arrays of `from` as Arrays of `to`; null where an item does not fit.
pub(super) fn lists(values: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Result<ArrayRef, ArrowError> {
    let lists = values.as_list_opt::<i32>().ok_or_else(|| unexpected(values))?;
    let rows = Rows { offsets: lists.offsets(), nulls: lists.nulls() };
    let items = Items::new(&rows.of(lists.values()), from, to)?;
    let kept = rows.without(&items.unfit);
    let DataType::List(field) = ColumnType::Array(Box::new(to.clone())).arrow() else {
        return Err(unexpected(values));
    };
    let items = kept.taken(&items.made)?;
    Ok(Arc::new(ListArray::try_new(field, kept.offsets, items, kept.nulls)?))
}

/// Maps of `from` as Maps of `to`; null where a key or a value does not fit.
pub(super) fn maps(values: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Result<ArrayRef, ArrowError> {
    let maps = values.as_map_opt().ok_or_else(|| unexpected(values))?;
    let rows = Rows { offsets: maps.offsets(), nulls: maps.nulls() };
    let (ColumnType::Map(key, item), ColumnType::Map(to_key, to_item)) = (from.bare(), to.bare()) else {
        return Err(unexpected(values));
    };
    let keys = Items::new(&rows.of(maps.keys()), key, to_key)?;
    let items = Items::new(&rows.of(maps.values()), item, to_item)?;
    let mut unfit = [keys.unfit, items.unfit].concat();
    unfit.sort_unstable();
    let kept = rows.without(&unfit);
    let DataType::Map(entries, ordered) = to.arrow() else { return Err(unexpected(values)) };
    let DataType::Struct(fields) = entries.data_type() else { return Err(unexpected(values)) };
    let columns = vec![kept.taken(&keys.made)?, kept.taken(&items.made)?];
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(entries, kept.offsets, pairs, kept.nulls, ordered)?))
}

/// The first item of row `row` that does not fit, and the rule that this breaks; `None` if all fit, or if the values have no items.
pub(super) fn why(
    values: &ArrayRef,
    row: usize,
    from: &ColumnType,
    to: &ColumnType,
) -> Option<(Reason, String)> {
    let broken = |items: &ArrayRef, from: &ColumnType, to: &ColumnType| {
        let at = *Items::new(items, from, to).ok()?.unfit.first()?;
        let reason = if items.is_null(at) { Reason::Missing } else { Reason::OutOfRange };
        Some((at, reason, said(items, at)))
    };
    match (from.bare(), to.bare()) {
        (ColumnType::Array(from), ColumnType::Array(to)) => {
            let items = values.as_list_opt::<i32>()?.value(row);
            let (at, reason, said) = broken(&items, from, to)?;
            Some((reason, format!("item {} is {said}", at + 1)))
        }
        (ColumnType::Map(key, from), ColumnType::Map(to_key, to)) => {
            let pairs = values.as_map_opt()?.value(row);
            let (keys, items) = (pairs.column(0), pairs.column(1));
            if let Some((_, reason, said)) = broken(keys, key, to_key) {
                return Some((reason, format!("a key is {said}")));
            }
            let (at, reason, value) = broken(items, from, to)?;
            Some((reason, format!("the value of key {} is {value}", said(keys, at))))
        }
        _ => None,
    }
}

/// Characters of an item in a message.
const ITEM_CHARS_MAX: usize = 50;

fn said(items: &ArrayRef, at: usize) -> String {
    match items.is_null(at) {
        true => "NULL".to_owned(),
        false => format!("`{}`", dataflow::printing::escaped(&convert::shown(items, at), ITEM_CHARS_MAX)),
    }
}

fn unexpected(values: &ArrayRef) -> ArrowError {
    ArrowError::CastError(format!("a column of arrays or maps came as `{}`", values.data_type()))
}

/// What stands in all rows, one behind the other.
struct Items {
    made: ArrayRef,
    /// Those that do not fit, in order.
    unfit: Vec<usize>,
}

impl Items {
    fn new(values: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Result<Self, ArrowError> {
        let made = convert::array(values, from, to)?;
        let mut unfit = Vec::new();
        if made.null_count() > 0 {
            let is_unfit = |at: &usize| made.is_null(*at) && (!to.is_nullable() || values.is_valid(*at));
            unfit.extend((0..made.len()).filter(is_unfit));
        }
        if let Some((least, greatest)) = limits(to) {
            unfit.extend(convert::outside(&made, least, greatest));
            unfit.sort_unstable();
        }
        Ok(Self { made, unfit })
    }
}

/// Where the items of each row are.
struct Rows<'a> {
    offsets: &'a OffsetBuffer<i32>,
    nulls: Option<&'a NullBuffer>,
}

impl Rows<'_> {
    /// The items of these rows; the array may hold those of others too.
    fn of(&self, items: &ArrayRef) -> ArrayRef {
        let (first, last) = (self.offsets[0], self.offsets[self.offsets.len() - 1]);
        items.slice(first as usize, (last - first) as usize)
    }

    /// The rows with their items; one with an item of `unfit`, which is in order, is null and has none.
    fn without(&self, unfit: &[usize]) -> Kept {
        let first = self.offsets[0];
        if unfit.is_empty() {
            let offsets = self.offsets.iter().map(|offset| offset - first).collect::<Vec<_>>();
            return Kept {
                offsets: OffsetBuffer::new(offsets.into()),
                nulls: self.nulls.cloned(),
                items: None,
            };
        }
        let ranges =
            self.offsets.windows(2).map(|ends| (ends[0] - first) as usize..(ends[1] - first) as usize);
        let mut unfit = unfit.iter().copied().peekable();
        let mut kept: Vec<Range<usize>> = Vec::with_capacity(self.offsets.len());
        let mut is_valid = Vec::with_capacity(self.offsets.len());
        for (row, range) in ranges.enumerate() {
            let mut fits = self.nulls.is_none_or(|nulls| nulls.is_valid(row));
            while unfit.next_if(|at| *at < range.end).is_some() {
                fits = false;
            }
            kept.push(if fits { range } else { 0..0 });
            is_valid.push(fits);
        }
        let offsets = OffsetBuffer::from_lengths(kept.iter().map(Range::len));
        // The offsets of a list are of 31 bits, so these fit.
        let items = kept.into_iter().flatten().map(|at| at as u32).collect();
        Kept { offsets, nulls: Some(NullBuffer::from(is_valid)), items: Some(items) }
    }
}

/// Rows without those that do not fit.
struct Kept {
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    /// The items that are left; `None` for all.
    items: Option<UInt32Array>,
}

impl Kept {
    fn taken(&self, items: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match &self.items {
            None => Ok(Arc::clone(items)),
            Some(left) => take(items, left, None),
        }
    }
}
