//! Blocks back into Arrow rows.
//!
//! Owns the reading of what [`super::BlockPlan::encode`] wrote: a frame that the server refused, or that was made for other columns than
//! the table has now, is encoded again. Does not own values in other types (`crate::convert`), nor why a frame is read (`table::columns`).
//! It goes by the names and types in the block, not by the table's. Every size is checked against the bytes that are there before anything
//! is allocated.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StringArray, StructArray, make_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use dataflow::ColumnType;
use dataflow::types::time_unit;

use crate::types;

mod states;

/// The key in a field's metadata that holds the column's type, as ClickHouse writes it.
const TYPE: &str = "clickhouse";

/// Columns of one block at the most; ClickHouse's own tables of that many columns are rare and slow.
pub(super) const COLUMNS_MAX: usize = 100_000;

/// The rows of a block by the names and types that it carries itself, without the column `without`; [`type_of`] gives a field's type.
/// Nulls that were sent as empty arrays or maps come back as those; text that is not UTF-8 comes back as Binary.
pub fn rows(block: &[u8], without: &str) -> Result<RecordBatch, String> {
    let mut cursor = Cursor::new(block);
    let (count, rows) = (cursor.length()?, cursor.length()?);
    if count == 0 || count > COLUMNS_MAX {
        return Err(format!("a block of {count} columns"));
    }
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (name, type_name) = (cursor.text()?, cursor.text()?);
        let column_type = types::parse(name, type_name).map_err(|e| e.to_string())?;
        let array =
            cursor.column(&column_type, rows).map_err(|reason| format!("column `{name}`: {reason}"))?;
        if name == without {
            continue;
        }
        let metadata = [(TYPE.to_owned(), type_name.to_owned())].into();
        fields.push(Field::new(name, array.data_type().clone(), true).with_metadata(metadata));
        arrays.push(array);
    }
    if !cursor.rest.is_empty() {
        return Err(format!("{} bytes follow the block", cursor.rest.len()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| e.to_string())
}

/// The type of a column of [`rows`]; `None` for a field that does not come from there.
pub fn type_of(field: &Field) -> Option<ColumnType> {
    types::parse(field.name(), field.metadata().get(TYPE)?).ok()
}

pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Bytes that were not read.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes are expected and {} are there", self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn length(&mut self) -> Result<usize, String> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.bytes(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(value).map_err(|_| "a length is too large".into());
            }
        }
        Err("a length has more than nine bytes".into())
    }

    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        let length = self.length()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| "a name is not UTF-8".into())
    }

    /// `rows` values of `N` bytes.
    fn chunks<const N: usize>(&mut self, rows: usize) -> Result<&'a [[u8; N]], String> {
        let count = rows.checked_mul(N).ok_or("the block is too long")?;
        Ok(self.bytes(count)?.as_chunks::<N>().0)
    }

    fn numbers<T: ArrowPrimitiveType, const N: usize>(
        &mut self,
        rows: usize,
        number: impl Fn([u8; N]) -> T::Native,
    ) -> Result<ArrayRef, String> {
        let values = self.chunks::<N>(rows)?.iter().map(|b| number(*b));
        Ok(Arc::new(PrimitiveArray::<T>::from_iter_values(values)))
    }

    fn nullable(&mut self, inner: &ColumnType, rows: usize) -> Result<ArrayRef, String> {
        let nulls = self.bytes(rows)?;
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows, |i| nulls[i] == 0));
        let values = self.values(inner, rows)?;
        let data = values.into_data().into_builder().nulls(Some(nulls)).build().map_err(|e| e.to_string())?;
        Ok(make_array(data))
    }

    /// The values of a whole column.
    pub(super) fn column(&mut self, column_type: &ColumnType, rows: usize) -> Result<ArrayRef, String> {
        if column_type.holds_json() {
            let form = self.chunks::<8>(1)?[0];
            if u64::from_le_bytes(form) != super::JSON_AS_TEXT {
                return Err(format!("`JSON` in form {}, and only texts are read", u64::from_le_bytes(form)));
            }
        }
        self.values(column_type, rows)
    }

    pub(super) fn values(&mut self, column_type: &ColumnType, rows: usize) -> Result<ArrayRef, String> {
        match column_type {
            ColumnType::Int8 | ColumnType::Enum8(_) => self.numbers::<Int8Type, 1>(rows, i8::from_le_bytes),
            ColumnType::Int16 | ColumnType::Enum16(_) => {
                self.numbers::<Int16Type, 2>(rows, i16::from_le_bytes)
            }
            ColumnType::Int32 => self.numbers::<Int32Type, 4>(rows, i32::from_le_bytes),
            ColumnType::Int64 => self.numbers::<Int64Type, 8>(rows, i64::from_le_bytes),
            ColumnType::UInt8 => self.numbers::<UInt8Type, 1>(rows, u8::from_le_bytes),
            ColumnType::UInt16 => self.numbers::<UInt16Type, 2>(rows, u16::from_le_bytes),
            ColumnType::UInt32 | ColumnType::Ipv4 => self.numbers::<UInt32Type, 4>(rows, u32::from_le_bytes),
            ColumnType::UInt64 => self.numbers::<UInt64Type, 8>(rows, u64::from_le_bytes),
            ColumnType::Float32 => self.numbers::<Float32Type, 4>(rows, f32::from_le_bytes),
            ColumnType::Float64 => self.numbers::<Float64Type, 8>(rows, f64::from_le_bytes),
            ColumnType::Bool => {
                let values = self.bytes(rows)?;
                Ok(Arc::new(BooleanArray::from_iter(values.iter().map(|b| Some(*b != 0)))))
            }
            ColumnType::String => self.strings(rows),
            ColumnType::Json { .. } => self.objects(rows),
            ColumnType::FixedString(width) => self.fixed(*width as usize, rows),
            ColumnType::Ipv6 => self.fixed(16, rows),
            ColumnType::Uuid => {
                let values = self.chunks::<16>(rows)?.iter().flat_map(|b| super::uuid_on_the_wire(*b));
                let values: Vec<u8> = values.collect();
                Ok(Arc::new(FixedSizeBinaryArray::new(16, values.into(), None)))
            }
            ColumnType::Date => self.numbers::<Date32Type, 2>(rows, |b| i32::from(u16::from_le_bytes(b))),
            ColumnType::Date32 => self.numbers::<Date32Type, 4>(rows, i32::from_le_bytes),
            ColumnType::DateTime { .. } => {
                let values = self.chunks::<4>(rows)?.iter().map(|b| i64::from(u32::from_le_bytes(*b)));
                Ok(times(TimeUnit::Second, values.collect()))
            }
            ColumnType::DateTime64 { precision, .. } => self.times64(*precision, rows),
            ColumnType::Decimal { precision, scale } => self.decimals(*precision, *scale, rows),
            ColumnType::LowCardinality(inner) => self.values(inner, rows),
            ColumnType::Nullable(inner) => self.nullable(inner, rows),
            ColumnType::Array(item) => {
                let offsets = self.offsets(rows)?;
                let items = self.values(item, offsets.last().map_or(0, |n| *n as usize))?;
                let field = Arc::new(Field::new("item", items.data_type().clone(), item.is_nullable()));
                let list = ListArray::try_new(field, offsets, items, None).map_err(|e| e.to_string())?;
                Ok(Arc::new(list))
            }
            ColumnType::Map(key, value) => self.maps(key, value, rows),
            ColumnType::State(state) => self.states(state, rows),
        }
    }

    fn strings(&mut self, rows: usize) -> Result<ArrayRef, String> {
        if rows > self.rest.len() {
            return Err(format!("{rows} texts cannot stand in {} bytes", self.rest.len()));
        }
        let mut ends: Vec<i32> = Vec::with_capacity(rows + 1);
        ends.push(0);
        let mut data = Vec::new();
        for _ in 0..rows {
            let length = self.length()?;
            data.extend_from_slice(self.bytes(length)?);
            ends.push(i32::try_from(data.len()).map_err(|_| "the texts are longer than 2 GiB")?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(match StringArray::try_new(offsets.clone(), data.clone().into(), None) {
            Ok(array) => Arc::new(array),
            Err(_) => Arc::new(BinaryArray::new(offsets, data.into(), None)),
        })
    }

    fn objects(&mut self, rows: usize) -> Result<ArrayRef, String> {
        let texts = self.strings(rows)?;
        match texts.data_type() {
            DataType::Utf8 => Ok(texts),
            _ => Err("a JSON text is not UTF-8".into()),
        }
    }

    fn fixed(&mut self, width: usize, rows: usize) -> Result<ArrayRef, String> {
        let bytes = self.bytes(width.checked_mul(rows).ok_or("the block is too long")?)?;
        Ok(Arc::new(FixedSizeBinaryArray::new(width as i32, bytes.to_vec().into(), None)))
    }

    fn times64(&mut self, precision: u8, rows: usize) -> Result<ArrayRef, String> {
        let unit = time_unit(precision);
        let digits = match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        let up = 10_i64.pow(u32::from(digits - precision));
        let values = self.chunks::<8>(rows)?.iter().map(|b| i64::from_le_bytes(*b).checked_mul(up));
        let values = values.collect::<Option<Vec<i64>>>().ok_or("a time does not fit 64 bits")?;
        Ok(times(unit, values))
    }

    fn decimals(&mut self, precision: u8, scale: u8, rows: usize) -> Result<ArrayRef, String> {
        let values: Vec<i128> = match precision {
            1..=9 => self.chunks::<4>(rows)?.iter().map(|b| i32::from_le_bytes(*b).into()).collect(),
            10..=18 => self.chunks::<8>(rows)?.iter().map(|b| i64::from_le_bytes(*b).into()).collect(),
            _ => self.chunks::<16>(rows)?.iter().map(|b| i128::from_le_bytes(*b)).collect(),
        };
        let array = PrimitiveArray::<Decimal128Type>::from_iter_values(values);
        let array = array.with_precision_and_scale(precision, scale as i8).map_err(|e| e.to_string())?;
        Ok(Arc::new(array))
    }

    fn offsets(&mut self, rows: usize) -> Result<OffsetBuffer<i32>, String> {
        let chunks = self.chunks::<8>(rows)?;
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        for end in chunks {
            let end = i32::try_from(u64::from_le_bytes(*end)).map_err(|_| "an array ends beyond 2^31")?;
            if end < ends[ends.len() - 1] {
                return Err("an array ends before it starts".into());
            }
            ends.push(end);
        }
        Ok(OffsetBuffer::new(ScalarBuffer::from(ends)))
    }

    fn maps(&mut self, key: &ColumnType, value: &ColumnType, rows: usize) -> Result<ArrayRef, String> {
        let offsets = self.offsets(rows)?;
        let items = offsets.last().map_or(0, |n| *n as usize);
        let keys = self.values(key, items)?;
        let values = self.values(value, items)?;
        let fields = vec![
            Field::new("keys", keys.data_type().clone(), false),
            Field::new("values", values.data_type().clone(), value.is_nullable()),
        ];
        let entries =
            StructArray::try_new(fields.into(), vec![keys, values], None).map_err(|e| e.to_string())?;
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map = MapArray::try_new(field, offsets, entries, None, false).map_err(|e| e.to_string())?;
        Ok(Arc::new(map))
    }
}

fn times(unit: TimeUnit, values: Vec<i64>) -> ArrayRef {
    fn of<T: arrow_array::types::ArrowTimestampType>(values: Vec<i64>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(values).with_timezone("UTC"))
    }
    match unit {
        TimeUnit::Second => of::<TimestampSecondType>(values),
        TimeUnit::Millisecond => of::<TimestampMillisecondType>(values),
        TimeUnit::Microsecond => of::<TimestampMicrosecondType>(values),
        TimeUnit::Nanosecond => of::<TimestampNanosecondType>(values),
    }
}
