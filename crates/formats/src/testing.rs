//! What the tests of all formats share: types from their names, blocks of records, rows as text. Built for tests alone.
//!
//! Owns these helpers. Does not own records of a format, which its own tests make, nor inputs with mistakes (`testkit::Fuzz`).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use dataflow::{BlockBuilder, Column, ColumnType, Decoded, Partition, RecordBlock, Schema};

/// A type from ClickHouse's name for it; a table with a mistake in it panics.
pub fn column_type(name: &str) -> ColumnType {
    use ColumnType as T;
    let name = name.trim();
    if let Some((head, rest)) = name.split_once('(') {
        let inner = rest.strip_suffix(')').unwrap_or_else(|| panic!("`{name}` is not closed"));
        let boxed = || Box::new(column_type(inner));
        let pair = || inner.split_once(',').unwrap_or_else(|| panic!("`{name}` needs two"));
        let quoted = |text: &str| text.trim().trim_matches('\'').to_owned();
        let names = || {
            inner.split(',').map(|entry| {
                let (name, number) = entry.split_once('=').unwrap();
                (quoted(name), number.trim().parse::<i16>().unwrap())
            })
        };
        return match head {
            "Nullable" => T::Nullable(boxed()),
            "LowCardinality" => T::LowCardinality(boxed()),
            "Array" => T::Array(boxed()),
            "Map" => T::Map(Box::new(column_type(pair().0)), Box::new(column_type(pair().1))),
            "FixedString" => T::FixedString(inner.parse().unwrap()),
            "DateTime" => T::DateTime { timezone: Some(quoted(inner).into()) },
            "DateTime64" => {
                let (precision, zone) = inner.split_once(',').map_or((inner, None), |(p, z)| (p, Some(z)));
                let timezone = zone.map(|zone| quoted(zone).into());
                T::DateTime64 { precision: precision.parse().unwrap(), timezone }
            }
            "Decimal" => {
                T::Decimal { precision: pair().0.parse().unwrap(), scale: pair().1.trim().parse().unwrap() }
            }
            "Enum8" => T::Enum8(names().map(|(name, n)| (name.into(), n as i8)).collect()),
            "Enum16" => T::Enum16(names().map(|(name, n)| (name.into(), n)).collect()),
            _ => panic!("no type `{name}`"),
        };
    }
    match name {
        "Int8" => T::Int8,
        "Int16" => T::Int16,
        "Int32" => T::Int32,
        "Int64" => T::Int64,
        "UInt8" => T::UInt8,
        "UInt16" => T::UInt16,
        "UInt32" => T::UInt32,
        "UInt64" => T::UInt64,
        "Float32" => T::Float32,
        "Float64" => T::Float64,
        "Bool" => T::Bool,
        "String" => T::String,
        "JSON" => T::Json { parameters: None },
        "UUID" => T::Uuid,
        "Date" => T::Date,
        "Date32" => T::Date32,
        "DateTime" => T::DateTime { timezone: None },
        "IPv4" => T::Ipv4,
        "IPv6" => T::Ipv6,
        _ => panic!("no type `{name}`"),
    }
}

/// A schema of columns in the form `name Type`, `name Type DEFAULT` or `name Type <- field`.
pub fn schema(columns: &[&str]) -> Schema {
    let column = |text: &&str| {
        let (definition, field) = text.split_once(" <- ").map_or((*text, None), |(d, f)| (d, Some(f)));
        let (definition, default) =
            definition.strip_suffix(" DEFAULT").map_or((definition, None), |d| (d, Some("42".to_owned())));
        let (name, type_name) = definition.split_once(' ').expect("a column has a name and a type");
        let mut column = Column::new(name, column_type(type_name));
        column.default = default;
        column.field = field.unwrap_or(name).to_owned();
        column
    };
    Schema::new(columns.iter().map(column).collect())
}

/// A block of these records at positions 100, 101, ….
pub fn block<R: AsRef<[u8]>>(records: &[R]) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("events", 3), 100);
    for (n, record) in records.iter().enumerate() {
        builder.push(100 + n as u64, 1_000 + n as i64, Some(record.as_ref()));
    }
    builder.take()
}

/// The values of a row as text.
pub fn row(decoded: &Decoded, row: usize) -> Vec<String> {
    decoded.batch.rows.columns().iter().map(|column| show(column, row)).collect()
}

/// A value as text: exact, and different for different values.
pub fn show(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    macro_rules! primitive {
        ($t:ty) => {
            format!("{:?}", array.as_primitive::<$t>().value(row))
        };
    }
    let list = |items: &ArrayRef| (0..items.len()).map(|n| show(items, n)).collect::<Vec<_>>();
    match array.data_type() {
        DataType::Int8 => primitive!(Int8Type),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::UInt8 => primitive!(UInt8Type),
        DataType::UInt16 => primitive!(UInt16Type),
        DataType::UInt32 => primitive!(UInt32Type),
        DataType::UInt64 => primitive!(UInt64Type),
        DataType::Float32 => primitive!(Float32Type),
        DataType::Float64 => primitive!(Float64Type),
        DataType::Date32 => primitive!(Date32Type),
        DataType::Decimal128(..) => primitive!(Decimal128Type),
        DataType::Timestamp(TimeUnit::Second, _) => primitive!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitive!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => {
            array.as_fixed_size_binary().value(row).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        DataType::List(_) => format!("[{}]", list(&array.as_list::<i32>().value(row)).join(", ")),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (list(entries.column(0)), list(entries.column(1)));
            let pairs: Vec<_> = keys.iter().zip(values).map(|(k, v)| format!("{k}: {v}")).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => panic!("no column has the form {other}"),
    }
}
