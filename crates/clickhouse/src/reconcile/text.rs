//! The text of one key column, row by row.
//!
//! Owns this side's half of the table in `reconcile::key`: how a value in Arrow becomes the bytes that are hashed. Does not own the server's
//! half, in SQL, or the hash (`reconcile::key`).

use std::io::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;

use crate::table::uuid_text;

type Write<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// Writes the texts of a column.
pub(super) struct Texts<'a> {
    array: &'a dyn Array,
    nullable: bool,
    /// What stands for a null in a column that is not nullable: the text of its DEFAULT.
    default: Option<&'a [u8]>,
    write: Write<'a>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(
        column_type: &ColumnType,
        array: &'a dyn Array,
        default: Option<&'a [u8]>,
    ) -> Result<Self, String> {
        let bare = column_type.bare();
        Ok(Self { array, nullable: is_nullable(column_type), default, write: writer(bare, array)? })
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        match (self.nullable, self.array.is_null(row)) {
            (_, true) => out.extend_from_slice(self.default.unwrap_or(b"N")),
            (true, false) => {
                out.push(b'=');
                (self.write)(row, out);
            }
            (false, false) => (self.write)(row, out),
        }
    }
}

pub(super) fn is_nullable(column_type: &ColumnType) -> bool {
    match column_type {
        ColumnType::LowCardinality(inner) => is_nullable(inner),
        other => other.is_nullable(),
    }
}

fn writer<'a>(bare: &ColumnType, array: &'a dyn Array) -> Result<Write<'a>, String> {
    Ok(match array.data_type() {
        DataType::Int8 => decimal::<Int8Type>(array),
        DataType::Int16 => decimal::<Int16Type>(array),
        DataType::Int32 => decimal::<Int32Type>(array),
        DataType::Int64 => decimal::<Int64Type>(array),
        DataType::UInt8 => decimal::<UInt8Type>(array),
        DataType::UInt16 => decimal::<UInt16Type>(array),
        DataType::UInt32 => decimal::<UInt32Type>(array),
        DataType::UInt64 => decimal::<UInt64Type>(array),
        DataType::Date32 => decimal::<Date32Type>(array),
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(move |row, out| out.push(if values.value(row) { b'1' } else { b'0' }))
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            // The server tells whole seconds of a DateTime64 in milliseconds.
            let scale = if matches!(bare, ColumnType::DateTime64 { .. }) { 1_000 } else { 1 };
            let values = array.as_primitive::<TimestampSecondType>();
            Box::new(move |row, out| number(out, values.value(row).wrapping_mul(scale)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => decimal::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => decimal::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => decimal::<TimestampNanosecondType>(array),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            Box::new(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            Box::new(move |row, out| out.extend_from_slice(values.value(row)))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            match bare {
                ColumnType::Uuid => {
                    Box::new(move |row, out| out.extend_from_slice(uuid_text(values.value(row)).as_bytes()))
                }
                _ => Box::new(move |row, out| {
                    for byte in values.value(row) {
                        write!(out, "{byte:02X}").expect("a vector takes all that is written");
                    }
                }),
            }
        }
        other => return Err(format!("a key of `{other}` has no text")),
    })
}

fn decimal<T: arrow_array::ArrowPrimitiveType>(array: &dyn Array) -> Write<'_>
where
    T::Native: std::fmt::Display,
{
    let values: &PrimitiveArray<T> = array.as_primitive::<T>();
    Box::new(move |row, out| number(out, values.value(row)))
}

fn number(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a vector takes all that is written");
}
