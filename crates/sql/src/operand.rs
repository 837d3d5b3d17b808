//! Columns as an expression reads them.
//!
//! Owns the text of UUID, IP, Enum and FixedString values (as ClickHouse prints them). Does not own which columns are read (`program`).

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, ListArray, MapArray, StructArray};
use arrow_schema::{ArrowError, DataType};
use dataflow::ColumnType;

use crate::types;

/// The column as [`types::operand`] says; fails if a value of it is no text.
pub(crate) fn operand(column: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef, ArrowError> {
    let wanted = types::operand(column_type);
    if *column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    match column_type {
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => operand(column, inner),
        ColumnType::Uuid => text_of(fixed(column)?, 36, uuid),
        ColumnType::Ipv6 => text_of(fixed(column)?, 24, ipv6),
        ColumnType::FixedString(width) => fixed_text(fixed(column)?, *width as usize),
        ColumnType::Ipv4 => {
            let numbers = column.as_primitive_opt::<UInt32Type>().ok_or_else(|| unexpected(column))?;
            Ok(texts(column, 12, |row, text| write!(text, "{}", Ipv4Addr::from(numbers.value(row))).is_ok()))
        }
        ColumnType::Enum8(names) => {
            let numbers = column.as_primitive_opt::<Int8Type>().ok_or_else(|| unexpected(column))?;
            enum_text(column, names, |row| numbers.value(row))
        }
        ColumnType::Enum16(names) => {
            let numbers = column.as_primitive_opt::<Int16Type>().ok_or_else(|| unexpected(column))?;
            enum_text(column, names, |row| numbers.value(row))
        }
        ColumnType::Array(item) => list_operand(column, item, &wanted),
        ColumnType::Map(key, value) => map_operand(column, key, value, &wanted),
        // A String that a decoder left as bytes.
        _ => arrow_cast::cast_with_options(column, &wanted, &strict()),
    }
}

/// Casts that fail instead of giving NULL.
pub(crate) fn strict() -> arrow_cast::CastOptions<'static> {
    arrow_cast::CastOptions { safe: false, ..Default::default() }
}

fn list_operand(column: &ArrayRef, item: &ColumnType, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let (Some(list), DataType::List(field)) = (column.as_list_opt::<i32>(), wanted) else {
        return Err(unexpected(column));
    };
    let values = operand(list.values(), item)?;
    let list = ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())?;
    Ok(Arc::new(list))
}

fn map_operand(
    column: &ArrayRef,
    key: &ColumnType,
    value: &ColumnType,
    wanted: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let (Some(map), DataType::Map(entries, _)) = (column.as_map_opt(), wanted) else {
        return Err(unexpected(column));
    };
    let DataType::Struct(fields) = entries.data_type() else { return Err(unexpected(column)) };
    let columns = vec![operand(map.keys(), key)?, operand(map.values(), value)?];
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    let map =
        MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), false)?;
    Ok(Arc::new(map))
}

fn fixed(column: &ArrayRef) -> Result<&FixedSizeBinaryArray, ArrowError> {
    column.as_fixed_size_binary_opt().ok_or_else(|| unexpected(column))
}

fn unexpected(column: &ArrayRef) -> ArrowError {
    ArrowError::InvalidArgumentError(format!(
        "a column of `{}` is not of its declared type",
        column.data_type()
    ))
}

/// Text for every value; `write` says whether there is one (NULL otherwise).
fn texts(column: &ArrayRef, bytes: usize, mut write: impl FnMut(usize, &mut String) -> bool) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(column.len(), column.len() * bytes);
    let mut text = String::new();
    for row in 0..column.len() {
        text.clear();
        if column.is_valid(row) && write(row, &mut text) {
            builder.append_value(&text);
        } else {
            builder.append_null();
        }
    }
    Arc::new(builder.finish())
}

fn text_of(
    column: &FixedSizeBinaryArray,
    bytes: usize,
    write: impl Fn([u8; 16], &mut String),
) -> Result<ArrayRef, ArrowError> {
    let whole: ArrayRef = Arc::new(column.clone());
    if column.value_length() != 16 {
        return Err(unexpected(&whole));
    }
    Ok(texts(&whole, bytes, |row, text| match <[u8; 16]>::try_from(column.value(row)) {
        Ok(value) => {
            write(value, text);
            true
        }
        Err(_) => false,
    }))
}

fn uuid(value: [u8; 16], text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (n, byte) in value.into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn ipv6(value: [u8; 16], text: &mut String) {
    write!(text, "{}", Ipv6Addr::from(value)).expect("a String takes every text");
}

/// The zeros at the end are padding.
fn fixed_text(column: &FixedSizeBinaryArray, width: usize) -> Result<ArrayRef, ArrowError> {
    let mut builder = StringBuilder::with_capacity(column.len(), column.len() * width);
    for value in column {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let text = std::str::from_utf8(&value[..end])
            .map_err(|_| ArrowError::CastError("the bytes of a `FixedString` are no UTF-8 text".into()))?;
        builder.append_value(text);
    }
    Ok(Arc::new(builder.finish()))
}

fn enum_text<N: Copy + PartialEq + Into<i64>>(
    column: &ArrayRef,
    names: &[(Arc<str>, N)],
    number: impl Fn(usize) -> N,
) -> Result<ArrayRef, ArrowError> {
    let mut builder = StringBuilder::with_capacity(column.len(), column.len() * 8);
    for row in 0..column.len() {
        if column.is_null(row) {
            builder.append_null();
            continue;
        }
        let value = number(row);
        let name = names.iter().find(|(_, n)| *n == value).map(|(name, _)| name).ok_or_else(|| {
            let value: i64 = value.into();
            ArrowError::CastError(format!("`{value}` is no number of the column's Enum"))
        })?;
        builder.append_value(name);
    }
    Ok(Arc::new(builder.finish()))
}
