use dataflow::{ColumnType, Reason};

use super::*;
use crate::columns::{EpochUnit, Settings, TypedColumn, typed};
use crate::testing::column_type;

const TYPES: [&str; 27] = [
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float32",
    "Float64",
    "Bool",
    "String",
    "FixedString(16)",
    "UUID",
    "Date",
    "Date32",
    "DateTime",
    "DateTime64(3)",
    "Decimal(9, 2)",
    "Enum8('a' = 1)",
    "Enum16('a' = 1)",
    "IPv4",
    "IPv6",
    "LowCardinality(Nullable(String))",
    "Array(Int8)",
    "Map(String, Int8)",
    "JSON",
];

const KINDS: [Kind; 12] = [
    Kind::Bool,
    Kind::Integer,
    Kind::Float,
    Kind::Decimal,
    Kind::Text,
    Kind::Bytes,
    Kind::Date,
    Kind::Timestamp,
    Kind::LocalTimestamp,
    Kind::Uuid,
    Kind::List,
    Kind::Map,
];

/// Appends values of a kind until one is taken.
fn fills(column: &mut dyn TypedColumn, kind: Kind) -> bool {
    let texts = ["1", "true", "a", "2024-05-01", "1.2.3.4", "123e4567-e89b-12d3-a456-426614174000", "{}"];
    let mut any = |fits: &mut dyn FnMut(&mut dyn TypedColumn) -> Fit<()>| fits(&mut *column).is_ok();
    match kind {
        Kind::Bool => any(&mut |c| c.boolean(true)),
        Kind::Integer => any(&mut |c| c.signed(1)),
        Kind::Float => any(&mut |c| c.float(1.0)),
        Kind::Decimal => any(&mut |c| c.decimal(Exact::of(100, -2))),
        Kind::Text => texts.iter().any(|text| any(&mut |c| c.text(text))),
        Kind::Bytes => {
            let values = [&[7; 16][..4], &[7; 16], b"{}"];
            values.iter().any(|value| any(&mut |c| c.bytes(value)))
        }
        Kind::Date => any(&mut |c| c.date(1)),
        Kind::Timestamp => any(&mut |c| c.timestamp(0, 3)),
        Kind::LocalTimestamp => any(&mut |c| c.local_timestamp(0, 3)),
        Kind::Uuid => any(&mut |c| c.uuid(&[7; 16])),
        Kind::List => any(&mut |c| if c.items().is_some() { c.end() } else { Err(Misfit::kind("it")) }),
        Kind::Map => any(&mut |c| if c.entries().is_some() { c.end() } else { Err(Misfit::kind("it")) }),
    }
}

fn pattern(column_type: &ColumnType) -> Box<dyn TypedColumn> {
    typed(column_type, Settings { timezone: "UTC", epoch: EpochUnit::ByMagnitude })
        .expect("a type of the table")
}

#[test]
fn a_column_takes_the_kinds_of_the_table_and_no_others() {
    for name in TYPES {
        let column_type = column_type(name);
        for kind in KINDS {
            let mut column = pattern(&column_type).fresh(1);
            assert_eq!(fills(&mut *column, kind), takes(&column_type, kind), "{} in {name}", kind.as_str());
        }
    }
}

#[test]
fn a_kind_that_is_never_taken_is_named_as_one() {
    let mut column = pattern(&column_type("UInt8"));
    let misfit = column.boolean(true).expect_err("a boolean is no number");
    assert_eq!((misfit.reason, &*misfit.rule), (Reason::WrongKind, "cannot be read as UInt8"));
}

#[test]
fn a_value_that_would_change_is_turned_down() {
    let turned_down = |name: &str, fill: &dyn Fn(&mut dyn TypedColumn) -> Fit<()>| {
        let misfit = fill(&mut *pattern(&column_type(name))).expect_err(name);
        assert_eq!(misfit.reason, Reason::OutOfRange, "{name}: {}", misfit.rule);
    };
    for value in [1.5, f64::NAN, f64::INFINITY, 1e20, -1e300, 9_223_372_036_854_775_808.0] {
        turned_down("Int64", &|column| column.float(value));
    }
    for value in [1e39, 1e-60] {
        turned_down("Float32", &|column| column.float(value));
    }
    turned_down("Decimal(9, 2)", &|column| column.decimal(Exact::of(1, -3)));
    turned_down("Decimal(9, 2)", &|column| column.signed(10_000_000));
    turned_down("Date", &|column| column.timestamp(86_400_001, 3));
    turned_down("String", &|column| column.bytes(&[0xff]));
    turned_down("FixedString(2)", &|column| column.text("abc"));
    let mut column = pattern(&column_type("Int64"));
    assert!(column.float(-9_223_372_036_854_775_808.0).is_ok() && column.decimal(Exact::of(-70, -1)).is_ok());
}
