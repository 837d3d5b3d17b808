use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::*;
use dataflow::{Column, FrameId, Schema, Selected};
use proptest::prelude::*;

use super::*;
use crate::native::{BlockPlan, EncodeError};

/// A column of each form, with its DEFAULT. Those without one hold no null.
const COLUMNS: &[(&str, Option<&str>)] = &[
    ("Int8", None),
    ("UInt16", None),
    ("Int32", None),
    ("UInt64", None),
    ("Float64", None),
    ("Bool", None),
    ("String", None),
    ("FixedString(5)", None),
    ("UUID", None),
    ("IPv6", None),
    ("Date", None),
    ("DateTime", None),
    ("DateTime64(6, 'UTC')", None),
    ("Decimal(18, 4)", None),
    ("Enum8('a' = 1, 'b' = 2)", None),
    ("LowCardinality(String)", None),
    ("Array(Nullable(Int32))", None),
    ("Map(String, String)", None),
    ("Nullable(Int32)", None),
    ("Nullable(String)", None),
    ("Nullable(UUID)", None),
    ("LowCardinality(Nullable(String))", None),
    ("UInt64", Some("7")),
    ("String", Some("'x'")),
    ("Map(String, String)", Some("map()")),
];

fn schema() -> Schema {
    let columns = COLUMNS.iter().enumerate().map(|(n, (type_name, default))| {
        let name = format!("c{n}");
        let mut column = Column::new(&name, crate::types::parse(&name, type_name).unwrap());
        column.default = default.map(str::to_owned);
        column
    });
    Schema::new(columns.collect())
}

/// A column of rows numbered from `first`, some null where `nulls` are allowed.
fn array(type_name: &str, nulls: bool, numbers: std::ops::Range<u64>) -> ArrayRef {
    let numbers: Vec<Option<u64>> = numbers.map(|n| (!nulls || n % 5 != 3).then_some(n)).collect();
    let valid = |n: &Option<u64>| n.is_some();
    let text = |n: u64| "x".repeat((n % 7) as usize * (n % 11) as usize) + &n.to_string();
    let fixed = |width: i32| -> ArrayRef {
        let mut builder = FixedSizeBinaryBuilder::new(width);
        numbers.iter().for_each(|n| match n {
            Some(n) => {
                builder.append_value(&[n.to_be_bytes(), n.to_le_bytes()].concat()[..width as usize]).unwrap()
            }
            None => builder.append_null(),
        });
        Arc::new(builder.finish())
    };
    let each = || numbers.iter().copied();
    let scalar = type_name.trim_start_matches("Nullable(").trim_end_matches(')');
    match scalar {
        "Int8" => Arc::new(each().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        "UInt16" => Arc::new(each().map(|n| n.map(|n| n as u16)).collect::<UInt16Array>()),
        "Int32" => Arc::new(each().map(|n| n.map(|n| n as i32)).collect::<Int32Array>()),
        "UInt64" => Arc::new(each().collect::<UInt64Array>()),
        "Float64" => Arc::new(each().map(|n| n.map(|n| n as f64 / 3.0)).collect::<Float64Array>()),
        "Bool" => Arc::new(each().map(|n| n.map(|n| n % 3 == 0)).collect::<BooleanArray>()),
        "FixedString(5" => fixed(5),
        "UUID" | "IPv6" => fixed(16),
        "Date" => Arc::new(each().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
        "DateTime" => Arc::new(each().map(|n| n.map(|n| n as i64)).collect::<TimestampSecondArray>()),
        "DateTime64(6, 'UTC'" => {
            Arc::new(each().map(|n| n.map(|n| n as i64)).collect::<TimestampMillisecondArray>())
        }
        "Decimal(18, 4" => {
            let values = each().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(18, 4).unwrap())
        }
        "Enum8('a' = 1, 'b' = 2" => {
            Arc::new(each().map(|n| n.map(|n| (n % 2) as i8 + 1)).collect::<Int8Array>())
        }
        "Array(Nullable(Int32" => {
            let mut list = ListBuilder::new(Int32Builder::new());
            numbers.iter().for_each(|n| {
                (0..n.unwrap_or(0) % 4)
                    .for_each(|i| list.values().append_option((i % 3 != 1).then_some(i as i32)));
                list.append(valid(n));
            });
            Arc::new(list.finish())
        }
        "Map(String, String" => {
            let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
            numbers.iter().for_each(|n| {
                (0..n.unwrap_or(0) % 3).for_each(|i| {
                    map.keys().append_value(text(i));
                    map.values().append_value(text(n.unwrap_or(0)));
                });
                map.append(valid(n)).unwrap();
            });
            Arc::new(map.finish())
        }
        _ => Arc::new(each().map(|n| n.map(text)).collect::<StringArray>()),
    }
}

/// Rows numbered from `first`, with a column of each form.
fn batch(first: u64, rows: u64) -> RecordBatch {
    let columns = COLUMNS.iter().enumerate().map(|(n, (type_name, default))| {
        let nulls = default.is_some() || type_name.contains("Nullable(") && !type_name.starts_with("Array");
        (format!("c{n}"), array(type_name, nulls, first..first + rows), true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn filtered(selected: &Selected) -> RecordBatch {
    let mut keep = vec![false; selected.batch().num_rows()];
    selected.stretches().iter().for_each(|s| keep[s.start as usize..s.end as usize].fill(true));
    arrow_select::filter::filter_record_batch(selected.batch(), &keep.into()).unwrap()
}

fn encode(schema: &Schema, batches: &[RecordBatch], rows: Rows<'_>) -> Result<Vec<u8>, EncodeError> {
    let (mut whole, plan) = (Vec::new(), BlockPlan::new(schema, Some("_forebay")));
    let rest = plan.encode(batches, rows, FrameId(7), &mut |out| whole.append(out))?;
    whole.extend(rest);
    Ok(whole)
}

/// Encodes the rows that are kept: where they are, and moved together first.
fn both(schema: &Schema, selected: &[Selected]) -> [Vec<u8>; 2] {
    let batches: Vec<RecordBatch> = selected.iter().map(|rows| rows.batch().clone()).collect();
    let stretches: Vec<&[Range<u32>]> = selected.iter().map(Selected::stretches).collect();
    let dense: Vec<RecordBatch> = selected.iter().map(filtered).collect();
    [
        encode(schema, &batches, Rows::Stretches(&stretches)).unwrap(),
        encode(schema, &dense, Rows::All).unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stretches_give_the_bytes_of_the_rows_moved_together(
        gone in prop::collection::vec((prop::collection::vec(0..100u8, 0..120), 0..110u8), 1..4)
    ) {
        let mut first = 0;
        let selected: Vec<Selected> = gone.iter().map(|(rows, share)| {
            let gone: Vec<usize> = (0..rows.len()).filter(|n| rows[*n] < *share).collect();
            let batch = batch(first, rows.len() as u64);
            first += rows.len() as u64;
            Selected::without(batch, &gone)
        }).collect();
        let [where_they_are, together] = both(&schema(), &selected);
        prop_assert!(where_they_are == together);
    }
}

#[test]
fn columns_of_many_portions_come_out_whole() {
    let types = ["UInt64", "UUID", "DateTime", "String"];
    let columns = types.map(|name| Column::new(name, crate::types::parse(name, name).unwrap()));
    let rows = |numbers: std::ops::Range<u64>| {
        RecordBatch::try_from_iter(types.map(|name| (name, array(name, false, numbers.clone())))).unwrap()
    };
    // Short stretches, one longer than a portion, none, and a batch as it was.
    let selected = [
        Selected::without(rows(0..40_000), &(0..40_000).step_by(11).collect::<Vec<_>>()),
        Selected::without(rows(0..50_000), &[49_998]),
        Selected::without(rows(0..3), &[0, 1, 2]),
        Selected::all(rows(0..30_000)),
    ];
    let [where_they_are, together] = both(&Schema::new(columns.to_vec()), &selected);
    assert!(where_they_are == together);
}

#[test]
fn portions_hold_every_row_once_and_no_more_rows_than_fit() {
    let stretches = [0..3, 4..5, 10..31, 32..42, 43..44];
    for rows_max in 1..50 {
        let mut seen = Vec::new();
        portions_of(&stretches, rows_max, |some| {
            let rows: Vec<u32> = some.iter().cloned().flatten().collect();
            assert!(!rows.is_empty() && rows.len() <= rows_max, "{rows_max}: {some:?}");
            seen.extend(rows);
            Ok::<(), Infallible>(())
        })
        .unwrap();
        assert_eq!(seen, stretches.iter().cloned().flatten().collect::<Vec<_>>(), "{rows_max}");
    }
}

#[test]
fn what_goes_no_further_is_no_error() {
    let column = |type_name: &str| Column::new("c", crate::types::parse("c", type_name).unwrap());
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("Int32", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("Date", Arc::new(Date32Array::from(vec![1, -1, 3]))),
        ("String", Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]))),
        ("Enum8('a' = 1)", Arc::new(Int8Array::from(vec![1, 9, 1]))),
    ];
    for (type_name, array) in cases {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        let schema = Schema::new(vec![column(type_name)]);
        assert!(encode(&schema, std::slice::from_ref(&batch), Rows::All).is_err(), "{type_name}");
        let [where_they_are, together] = both(&schema, &[Selected::without(batch, &[1])]);
        assert_eq!(where_they_are, together, "{type_name}");
    }
}

#[test]
fn an_error_names_the_row_of_the_frame() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![1, -1, 3, 4, 5, -7]));
    let batch = RecordBatch::try_from_iter([("c", dates)]).unwrap();
    let schema = Schema::new(vec![Column::new("c", crate::types::parse("c", "Date").unwrap())]);
    let error = encode(&schema, &[batch], Rows::Stretches(&[&[0..1, 2..4, 5..6]])).unwrap_err();
    assert!(error.reason.starts_with("row 3 of the frame"), "{error}");
}
