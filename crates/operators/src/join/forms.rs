//! What the columns that the state keeps are known by, in words: their forms, and what tells types of one form apart.
//!
//! Owns the words, which are part of the state: a change of one makes old state unreadable. Does not own the forms (`dataflow::types`), nor the numbers of
//! an Enum's names, which a step records beside its words (`Plan::enums`).

use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;

/// Bytes of a UUID, which has the word of its form since the first state.
const UUID_BYTES: u32 = 16;

/// The words for a type of a column. Types whose values are kept alike and mean something else have other words.
pub(super) fn words(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => words(inner),
        ColumnType::Array(item) => format!("array({})", words(item)),
        ColumnType::Map(key, value) => format!("map({}, {})", words(key), words(value)),
        ColumnType::Ipv4 => "ipv4".to_owned(),
        ColumnType::Ipv6 => "ipv6".to_owned(),
        ColumnType::FixedString(UUID_BYTES) => format!("fixed_string({UUID_BYTES})"),
        // A String that is held need not be an object.
        ColumnType::Json { .. } => "json".to_owned(),
        other => of_form(&other.arrow()),
    }
}

fn of_form(form: &DataType) -> String {
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
