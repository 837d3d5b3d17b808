//! Puts the rows of a frame into the order of the table's sorting key.
//!
//! Owns the comparison, which must be the server's, and the stable sort. Does not own correctness: the server sorts a block
//! that is not in order itself, so that a wrong order here costs time and nothing else. Rows are not moved: the result is an
//! order in which the encoder gathers them.
//!
//! | key                                              | sorted by                                        |
//! |--------------------------------------------------|--------------------------------------------------|
//! | one number, date, time, enum, IPv4, UUID         | 64 bits of the value, then the rest              |
//! | several columns, or text                         | Arrow's row format, nulls last                   |
//! | with floats, arrays, maps, expressions, `DESC`   | not sorted here                                  |
//!
//! A UUID is ordered by its second half first: ClickHouse compares it as a 128-bit number whose high word stands last.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SortOptions, TimeUnit};
use dataflow::{ColumnType, Schema};

use crate::native::{RowRef, Rows};
use crate::partition::plain_columns;

/// A sorting key of plain columns.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// Where each column stands, and whether it is a UUID.
    columns: Vec<(usize, bool)>,
}

impl SortKey {
    /// The key as `system.tables.sorting_key` writes it; `None` if the table has none, or one that cannot be compared here.
    pub fn new(key: &str, schema: &Schema) -> Option<Self> {
        let columns = plain_columns(key)?
            .iter()
            .map(|name| {
                let index = schema.index_of(name)?;
                let bare = schema.columns()[index].column_type.bare();
                comparable(bare).then_some((index, *bare == ColumnType::Uuid))
            })
            .collect::<Option<Vec<_>>>()?;
        (!columns.is_empty()).then_some(Self { columns })
    }

    /// The rows in the key's order, equal ones in their own; `None` if they are in order already.
    pub fn order(&self, batches: &[RecordBatch], rows: Rows<'_>) -> Result<Option<Vec<RowRef>>, String> {
        let picked = rows.to_picked(batches);
        if let [(column, is_uuid)] = self.columns[..] {
            let arrays: Vec<&dyn Array> = batches.iter().map(|b| &**b.column(column) as &dyn Array).collect();
            if arrays.iter().all(|a| a.null_count() == 0) {
                if is_uuid {
                    return Ok(order_uuids(&arrays, picked));
                }
                if let Some(words) = arrays.iter().map(|a| words(*a)).collect::<Option<Vec<_>>>() {
                    return Ok(order_words(&words, picked));
                }
            }
        }
        self.order_rows(batches, picked)
    }

    fn order_rows(
        &self,
        batches: &[RecordBatch],
        picked: Vec<RowRef>,
    ) -> Result<Option<Vec<RowRef>>, String> {
        let fail = |e: arrow_schema::ArrowError| format!("rows cannot be sorted: {e}");
        let Some(first) = batches.first() else { return Ok(None) };
        let options = SortOptions { descending: false, nulls_first: false };
        let fields = self
            .columns
            .iter()
            .map(|(c, _)| SortField::new_with_options(first.column(*c).data_type().clone(), options))
            .collect();
        let converter = RowConverter::new(fields).map_err(fail)?;
        let mut keys = Vec::with_capacity(batches.len());
        for batch in batches {
            let columns: Vec<ArrayRef> = self
                .columns
                .iter()
                .map(|(c, is_uuid)| {
                    let column = batch.column(*c);
                    if *is_uuid { swapped(column.as_fixed_size_binary()) } else { column.clone() }
                })
                .collect();
            keys.push(converter.convert_columns(&columns).map_err(fail)?);
        }
        let key = |r: &RowRef| keys[r.batch as usize].row(r.row as usize);
        if picked.is_sorted_by(|a, b| key(a) <= key(b)) {
            return Ok(None);
        }
        let mut order = picked;
        order.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(Some(order))
    }
}

fn comparable(bare: &ColumnType) -> bool {
    match bare {
        // NaN and -0.0 stand elsewhere for the server than for us.
        ColumnType::Float32 | ColumnType::Float64 => false,
        ColumnType::Array(_) | ColumnType::Map(..) | ColumnType::Json { .. } | ColumnType::State(_) => false,
        ColumnType::Nullable(_) | ColumnType::LowCardinality(_) => false,
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::Bool
        | ColumnType::String
        | ColumnType::FixedString(_)
        | ColumnType::Uuid
        | ColumnType::Date
        | ColumnType::Date32
        | ColumnType::DateTime { .. }
        | ColumnType::DateTime64 { .. }
        | ColumnType::Decimal { .. }
        | ColumnType::Enum8(_)
        | ColumnType::Enum16(_)
        | ColumnType::Ipv4
        | ColumnType::Ipv6 => true,
    }
}

/// The values as unsigned words in the same order; `None` if they need more than a word.
fn words(array: &dyn Array) -> Option<Vec<u64>> {
    /// Signed values keep their order when the sign bit is turned over.
    fn signed<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<u64>
    where
        T::Native: Into<i64>,
    {
        array.as_primitive::<T>().values().iter().map(|v| (*v).into() as u64 ^ (1 << 63)).collect()
    }
    fn unsigned<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<u64>
    where
        T::Native: Into<u64>,
    {
        array.as_primitive::<T>().values().iter().map(|v| (*v).into()).collect()
    }
    Some(match array.data_type() {
        DataType::Int8 => signed::<Int8Type>(array),
        DataType::Int16 => signed::<Int16Type>(array),
        DataType::Int32 => signed::<Int32Type>(array),
        DataType::Int64 => signed::<Int64Type>(array),
        DataType::Date32 => signed::<Date32Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => signed::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => signed::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => signed::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => signed::<TimestampNanosecondType>(array),
        DataType::UInt8 => unsigned::<UInt8Type>(array),
        DataType::UInt16 => unsigned::<UInt16Type>(array),
        DataType::UInt32 => unsigned::<UInt32Type>(array),
        DataType::UInt64 => unsigned::<UInt64Type>(array),
        _ => return None,
    })
}

fn order_words(words: &[Vec<u64>], picked: Vec<RowRef>) -> Option<Vec<RowRef>> {
    // The position stands behind the word, so that an unstable sort is stable.
    let keys = picked.iter().map(|r| words[r.batch as usize][r.row as usize]);
    sorted(keys.zip(0u32..).collect(), |_| 0, picked)
}

fn order_uuids(arrays: &[&dyn Array], picked: Vec<RowRef>) -> Option<Vec<RowRef>> {
    let arrays: Vec<&FixedSizeBinaryArray> = arrays.iter().map(|a| a.as_fixed_size_binary()).collect();
    let halves = |r: &RowRef| -> (u64, u64) {
        let value = arrays[r.batch as usize].value(r.row as usize);
        let uuid = u128::from_be_bytes(value.try_into().expect("a UUID has 16 bytes"));
        (uuid as u64, (uuid >> 64) as u64)
    };
    let keys = picked.iter().map(|r| halves(r).0).zip(0u32..).collect();
    sorted(keys, |position| halves(&picked[position as usize]).1, picked.clone())
}

/// Sorts by the word, then by what `rest` says of the position, then by the position.
fn sorted(mut keys: Vec<(u64, u32)>, rest: impl Fn(u32) -> u64, picked: Vec<RowRef>) -> Option<Vec<RowRef>> {
    let compare = |a: &(u64, u32), b: &(u64, u32)| {
        a.0.cmp(&b.0).then_with(|| rest(a.1).cmp(&rest(b.1))).then(a.1.cmp(&b.1))
    };
    if keys.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return None;
    }
    keys.sort_unstable_by(compare);
    Some(keys.into_iter().map(|(_, position)| picked[position as usize]).collect())
}

/// UUIDs with their halves changed over, so that their bytes compare as the server compares them.
fn swapped(uuids: &FixedSizeBinaryArray) -> ArrayRef {
    let mut values = Vec::with_capacity(16 * uuids.len());
    for row in 0..uuids.len() {
        let value = uuids.value(row);
        values.extend_from_slice(&value[8..]);
        values.extend_from_slice(&value[..8]);
    }
    Arc::new(FixedSizeBinaryArray::new(16, values.into(), uuids.nulls().cloned()))
}

#[cfg(test)]
mod tests;
