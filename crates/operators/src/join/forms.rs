//! The forms of columns that the state keeps, in words.
//!
//! Owns the words, which are part of the state: a change of one makes old state unreadable. Does not own the forms (`dataflow::types`).

use arrow_schema::{DataType, TimeUnit};

/// The words for a form of a column.
pub(super) fn words(form: &DataType) -> String {
    match form {
        DataType::Int8 => "int8".to_owned(),
        DataType::Int16 => "int16".to_owned(),
        DataType::Int32 => "int32".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::UInt8 => "uint8".to_owned(),
        DataType::UInt16 => "uint16".to_owned(),
        DataType::UInt32 => "uint32".to_owned(),
        DataType::UInt64 => "uint64".to_owned(),
        DataType::Float32 => "float32".to_owned(),
        DataType::Float64 => "float64".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Utf8 | DataType::Binary => "string".to_owned(),
        DataType::FixedSizeBinary(width) => format!("bytes({width})"),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(unit, _) => format!("time({})", unit_word(*unit)),
        DataType::Decimal128(precision, scale) => format!("decimal({precision}, {scale})"),
        DataType::List(item) => format!("array({})", words(item.data_type())),
        DataType::Map(entries, _) => format!("map({})", words(entries.data_type())),
        DataType::Struct(fields) => {
            fields.iter().map(|field| words(field.data_type())).collect::<Vec<_>>().join(", ")
        }
        other => unreachable!("no column has the form `{other}`"),
    }
}

fn unit_word(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
