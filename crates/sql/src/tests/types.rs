//! Column types from text, for the cases.

use dataflow::{Column, ColumnType, Schema};

/// `n UInt64, s Nullable(String)`.
pub(crate) fn schema(text: &str) -> Schema {
    Schema::new(
        split(text)
            .map(|column| {
                let (name, column_type) = column.split_once(' ').expect("a name and a type");
                Column::new(name, parse(column_type.trim()))
            })
            .collect(),
    )
}

pub(super) fn parse(text: &str) -> ColumnType {
    let (word, rest) = text
        .split_once('(')
        .map_or((text, ""), |(word, rest)| (word, rest.strip_suffix(')').expect("a closing parenthesis")));
    let inner = |text: &str| Box::new(parse(text.trim()));
    let zone = |text: Option<&str>| text.map(|zone| zone.trim().trim_matches('\'').into());
    let mut parts = split(rest);
    match word {
        "Int8" => ColumnType::Int8,
        "Int16" => ColumnType::Int16,
        "Int32" => ColumnType::Int32,
        "Int64" => ColumnType::Int64,
        "UInt8" => ColumnType::UInt8,
        "UInt16" => ColumnType::UInt16,
        "UInt32" => ColumnType::UInt32,
        "UInt64" => ColumnType::UInt64,
        "Float32" => ColumnType::Float32,
        "Float64" => ColumnType::Float64,
        "Bool" => ColumnType::Bool,
        "String" => ColumnType::String,
        "FixedString" => ColumnType::FixedString(rest.parse().expect("a width")),
        "UUID" => ColumnType::Uuid,
        "Date" => ColumnType::Date,
        "Date32" => ColumnType::Date32,
        "IPv4" => ColumnType::Ipv4,
        "IPv6" => ColumnType::Ipv6,
        "DateTime" => ColumnType::DateTime { timezone: zone(parts.next().filter(|p| !p.is_empty())) },
        "DateTime64" => ColumnType::DateTime64 {
            precision: parts.next().expect("a precision").parse().expect("a number"),
            timezone: zone(parts.next()),
        },
        "Decimal" => ColumnType::Decimal {
            precision: parts.next().expect("a precision").trim().parse().expect("a number"),
            scale: parts.next().expect("a scale").trim().parse().expect("a number"),
        },
        "Enum8" => ColumnType::Enum8(parts.map(|p| (name(p).0.into(), name(p).1 as i8)).collect()),
        "Enum16" => ColumnType::Enum16(parts.map(|p| (name(p).0.into(), name(p).1)).collect()),
        "LowCardinality" => ColumnType::LowCardinality(inner(rest)),
        "Nullable" => ColumnType::Nullable(inner(rest)),
        "Array" => ColumnType::Array(inner(rest)),
        "Map" => ColumnType::Map(inner(parts.next().expect("a key")), inner(parts.next().expect("a value"))),
        other => panic!("no type `{other}`"),
    }
}

fn name(text: &str) -> (&str, i16) {
    let (name, number) = text.split_once('=').expect("a name and a number");
    (name.trim().trim_matches('\''), number.trim().parse().expect("a number"))
}

/// Parts between commas that stand in no parenthesis.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .map(str::trim)
}
