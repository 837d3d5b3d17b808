//! One row as a JSON object, for readers and for a later replay.
//!
//! Owns the text of each type: integers and decimals exact, times in UTC, enums by name. Does not own the reading of JSON
//! (`formats`), which takes every form that is written here.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use dataflow::types::EnumName;
use dataflow::{ColumnType, Schema};
use jiff::{Timestamp, ToSpan, civil};

use crate::native::type_of;
use crate::table::uuid_text;

/// Row `row` of `rows`, whose columns are those of `schema` in order.
pub fn row(schema: &Schema, rows: &RecordBatch, row: usize) -> String {
    let columns = schema.columns().iter().zip(rows.columns());
    object(
        columns.map(|(column, array)| (column.name.as_str(), Some(column.column_type.clone()), array)),
        row,
    )
}

/// Row `row` of `rows`, with the names of its own columns. Their types are those that they had in Native format, or those of `schema` by name; a
/// column that has neither is written by the form of its values alone.
pub fn own_row(schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String {
    let fields = rows.schema_ref().fields().iter();
    let typed = |field: &Field| {
        let of_schema = || {
            let schema = schema?;
            Some(schema.columns()[schema.index_of(field.name())?].column_type.clone())
        };
        type_of(field).or_else(of_schema)
    };
    object(fields.zip(rows.columns()).map(|(field, array)| (field.name().as_str(), typed(field), array)), row)
}

/// One row of columns, each with its name and type. A type that its values do not have is not taken.
fn object<'a>(
    columns: impl Iterator<Item = (&'a str, Option<ColumnType>, &'a ArrayRef)>,
    row: usize,
) -> String {
    let mut out = String::from("{");
    for (i, (name, column_type, array)) in columns.enumerate() {
        if i > 0 {
            out.push(',');
        }
        text(name, &mut out);
        out.push(':');
        let form = array.data_type();
        match column_type.filter(|of| has_form(of, form)).or_else(|| by_form(form)) {
            Some(column_type) => value(&column_type, &**array, row, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    out
}

/// Whether values of this type have this form: a String that is not UTF-8 comes as Binary.
fn has_form(column_type: &ColumnType, form: &DataType) -> bool {
    match (column_type.bare(), form) {
        (ColumnType::String, DataType::Utf8 | DataType::Binary) => true,
        (ColumnType::DateTime { .. } | ColumnType::DateTime64 { .. }, DataType::Timestamp(..)) => true,
        (ColumnType::Array(item), DataType::List(of)) => has_form(item, of.data_type()),
        (ColumnType::Map(key, value), DataType::Map(entry, _)) => match entry.data_type() {
            DataType::Struct(of) if of.len() == 2 => {
                has_form(key, of[0].data_type()) && has_form(value, of[1].data_type())
            }
            _ => false,
        },
        (bare, form) => bare.arrow() == *form,
    }
}

/// A type whose values have this form. An enum would be a number, and an address another.
fn by_form(form: &DataType) -> Option<ColumnType> {
    Some(match form {
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::UInt8,
        DataType::UInt16 => ColumnType::UInt16,
        DataType::UInt32 => ColumnType::UInt32,
        DataType::UInt64 => ColumnType::UInt64,
        DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Boolean => ColumnType::Bool,
        DataType::Utf8 | DataType::Binary => ColumnType::String,
        DataType::FixedSizeBinary(16) => ColumnType::Uuid,
        DataType::FixedSizeBinary(bytes) => ColumnType::FixedString(u32::try_from(*bytes).ok()?),
        DataType::Date32 => ColumnType::Date32,
        DataType::Timestamp(..) => ColumnType::DateTime64 { precision: 3, timezone: None },
        DataType::Decimal128(precision, scale) => {
            ColumnType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::List(item) => ColumnType::Array(Box::new(by_form(item.data_type())?)),
        _ => return None,
    })
}

fn value(column_type: &ColumnType, array: &dyn Array, row: usize, out: &mut String) {
    if array.is_null(row) {
        return out.push_str("null");
    }
    match column_type {
        ColumnType::Nullable(inner) | ColumnType::LowCardinality(inner) => value(inner, array, row, out),
        ColumnType::Int8 => out.push_str(&array.as_primitive::<Int8Type>().value(row).to_string()),
        ColumnType::Int16 => out.push_str(&array.as_primitive::<Int16Type>().value(row).to_string()),
        ColumnType::Int32 => out.push_str(&array.as_primitive::<Int32Type>().value(row).to_string()),
        ColumnType::Int64 => out.push_str(&array.as_primitive::<Int64Type>().value(row).to_string()),
        ColumnType::UInt8 => out.push_str(&array.as_primitive::<UInt8Type>().value(row).to_string()),
        ColumnType::UInt16 => out.push_str(&array.as_primitive::<UInt16Type>().value(row).to_string()),
        ColumnType::UInt32 => out.push_str(&array.as_primitive::<UInt32Type>().value(row).to_string()),
        ColumnType::UInt64 => out.push_str(&array.as_primitive::<UInt64Type>().value(row).to_string()),
        ColumnType::Float32 => {
            let number = array.as_primitive::<Float32Type>().value(row);
            float(number.is_finite(), &number.to_string(), out);
        }
        ColumnType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            float(number.is_finite(), &number.to_string(), out);
        }
        ColumnType::Bool => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        ColumnType::String => match array.as_string_opt::<i32>() {
            Some(strings) => text(strings.value(row), out),
            None => text(&String::from_utf8_lossy(array.as_binary::<i32>().value(row)), out),
        },
        // An object already.
        ColumnType::Json { .. } => out.push_str(array.as_string::<i32>().value(row)),
        ColumnType::FixedString(_) => {
            let bytes = array.as_fixed_size_binary().value(row);
            text(String::from_utf8_lossy(bytes).trim_end_matches('\0'), out);
        }
        // As the function `hex` shows it.
        ColumnType::State(_) => {
            let bytes = array.as_binary::<i32>().value(row);
            text(&bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>(), out);
        }
        ColumnType::Uuid => text(&uuid_text(array.as_fixed_size_binary().value(row)), out),
        ColumnType::Ipv4 => {
            text(&std::net::Ipv4Addr::from(array.as_primitive::<UInt32Type>().value(row)).to_string(), out);
        }
        ColumnType::Ipv6 => match <[u8; 16]>::try_from(array.as_fixed_size_binary().value(row)) {
            Ok(bytes) => text(&std::net::Ipv6Addr::from(bytes).to_string(), out),
            Err(_) => out.push_str("null"),
        },
        ColumnType::Date | ColumnType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            match civil::date(1970, 1, 1).checked_add(days.days()) {
                Ok(date) => text(&date.to_string(), out),
                Err(_) => out.push_str(&days.to_string()),
            }
        }
        ColumnType::DateTime { .. } | ColumnType::DateTime64 { .. } => time(array, row, out),
        ColumnType::Decimal { scale, .. } => {
            out.push_str(&decimal(array.as_primitive::<Decimal128Type>().value(row), usize::from(*scale)));
        }
        ColumnType::Enum8(names) => {
            let number = array.as_primitive::<Int8Type>().value(row);
            enum_name(names, number, out);
        }
        ColumnType::Enum16(names) => {
            let number = array.as_primitive::<Int16Type>().value(row);
            enum_name(names, number, out);
        }
        ColumnType::Array(item) => {
            let items = array.as_list::<i32>().value(row);
            out.push('[');
            for i in 0..items.len() {
                if i > 0 {
                    out.push(',');
                }
                value(item, &*items, i, out);
            }
            out.push(']');
        }
        ColumnType::Map(key, of_key) => map(key, of_key, array, row, out),
    }
}

fn map(key: &ColumnType, of_key: &ColumnType, array: &dyn Array, row: usize, out: &mut String) {
    let entries = array.as_map().value(row);
    out.push('{');
    for i in 0..entries.len() {
        if i > 0 {
            out.push(',');
        }
        let mut name = String::new();
        value(key, &**entries.column(0), i, &mut name);
        // An object's keys are texts, whatever the map's are.
        if name.starts_with('"') {
            out.push_str(&name)
        } else {
            text(&name, out)
        }
        out.push(':');
        value(of_key, &**entries.column(1), i, out);
    }
    out.push('}');
}

fn text(value: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(value).to_string());
}

/// JSON has no word for what is not finite.
fn float(finite: bool, number: &str, out: &mut String) {
    if finite { out.push_str(number) } else { text(&number.to_lowercase(), out) }
}

fn enum_name<T: PartialEq + Copy + std::fmt::Display>(names: &[EnumName<T>], number: T, out: &mut String) {
    match names.iter().find(|(_, n)| *n == number) {
        Some((name, _)) => text(name, out),
        None => out.push_str(&number.to_string()),
    }
}

/// A decimal with exactly `scale` digits after the point.
fn decimal(value: i128, scale: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

fn time(array: &dyn Array, row: usize, out: &mut String) {
    let DataType::Timestamp(unit, _) = array.data_type() else { return out.push_str("null") };
    let (ticks, moment) = match unit {
        TimeUnit::Second => {
            let ticks = array.as_primitive::<TimestampSecondType>().value(row);
            (ticks, Timestamp::from_second(ticks))
        }
        TimeUnit::Millisecond => {
            let ticks = array.as_primitive::<TimestampMillisecondType>().value(row);
            (ticks, Timestamp::from_millisecond(ticks))
        }
        TimeUnit::Microsecond => {
            let ticks = array.as_primitive::<TimestampMicrosecondType>().value(row);
            (ticks, Timestamp::from_microsecond(ticks))
        }
        TimeUnit::Nanosecond => {
            let ticks = array.as_primitive::<TimestampNanosecondType>().value(row);
            (ticks, Timestamp::from_nanosecond(i128::from(ticks)))
        }
    };
    match moment {
        Ok(moment) => text(&moment.to_string(), out),
        Err(_) => out.push_str(&ticks.to_string()),
    }
}

#[cfg(test)]
mod tests;
