use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::*;
use dataflow::Column;

use super::*;

#[test]
fn every_type_has_an_exact_text() {
    let mut list = ListBuilder::new(Int32Builder::new());
    list.values().append_option(Some(1));
    list.values().append_null();
    list.append(true);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k\"");
    map.values().append_value("v");
    map.append(true).unwrap();
    let decimal = Decimal128Array::from(vec![-5]).with_precision_and_scale(38, 3).unwrap();
    let columns: Vec<(&str, &str, ArrayRef)> = vec![
        ("i", "Int64", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("u", "UInt64", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("f", "Float64", Arc::new(Float64Array::from(vec![1e300]))),
        ("nan", "Float32", Arc::new(Float32Array::from(vec![f32::NAN]))),
        ("b", "Bool", Arc::new(BooleanArray::from(vec![true]))),
        ("s", "LowCardinality(String)", Arc::new(StringArray::from(vec!["a\n\"é"]))),
        ("id", "UUID", Arc::new(FixedSizeBinaryArray::try_from_iter([[0xab; 16]].iter()).unwrap())),
        ("d", "Date", Arc::new(Date32Array::from(vec![19782]))),
        ("t", "DateTime64(3)", Arc::new(TimestampMillisecondArray::from(vec![1_709_210_096_120]))),
        ("dec", "Decimal(38, 3)", Arc::new(decimal)),
        ("e", "Enum8('x' = -1)", Arc::new(Int8Array::from(vec![-1]))),
        ("ip", "IPv4", Arc::new(UInt32Array::from(vec![0x7f00_0001]))),
        ("n", "Nullable(Int32)", Arc::new(Int32Array::from(vec![None]))),
        ("l", "Array(Nullable(Int32))", Arc::new(list.finish())),
        ("m", "Map(String, String)", Arc::new(map.finish())),
        ("j", "JSON", Arc::new(StringArray::from(vec![r#"{"a": [1.50]}"#]))),
    ];
    let schema = Schema::new(
        columns.iter().map(|(n, t, _)| Column::new(*n, crate::types::parse(n, t).unwrap())).collect(),
    );
    let rows =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, _, a)| (n, a, true))).unwrap();
    let json = row(&schema, &rows, 0);
    let big = format!("1{}", "0".repeat(300));
    assert_eq!(
        json,
        format!(
            r#"{{"i":-9223372036854775808,"u":18446744073709551615,"f":{big},"nan":"nan","b":true,"s":"a\n\"é","id":"abababab-abab-abab-abab-abababababab","d":"2024-02-29","t":"2024-02-29T12:34:56.12Z","dec":-0.005,"e":"x","ip":"127.0.0.1","n":null,"l":[1,null],"m":{{"k\"":"v"}},"j":{{"a": [1.50]}}}}"#
        )
    );
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
}

/// Rows of a step have its columns, not a table's: in another order, and of types that a table of the same names may not have.
#[test]
fn a_row_is_written_with_its_own_columns() {
    let column = |name: &str, of: &str| Column::new(name, crate::types::parse(name, of).unwrap());
    let schema = Schema::new(vec![
        column("level", "Enum8('low' = 1)"),
        column("name", "String"),
        column("least", "Int8"),
        column("from", "IPv6"),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(BinaryArray::from_vec(vec![b"a\xff"]))),
        // Of another form than the schema has it, and unknown to it.
        ("least", Arc::new(Int64Array::from(vec![300]))),
        ("rest", Arc::new(UInt64Array::from(vec![7]))),
        ("spans", Arc::new(DurationSecondArray::from(vec![7]))),
        ("level", Arc::new(Int8Array::from(vec![1]))),
        ("from", Arc::new(FixedSizeBinaryArray::try_from_iter([[0; 16]].iter()).unwrap())),
    ];
    let rows =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let told = own_row(Some(&schema), &rows, 0);
    let name = "\"name\":\"a\u{fffd}\"";
    assert_eq!(told, format!(r#"{{{name},"least":300,"rest":7,"spans":null,"level":"low","from":"::"}}"#));
    let told = own_row(None, &rows, 0);
    let from = r#""from":"00000000-0000-0000-0000-000000000000""#;
    assert_eq!(told, format!(r#"{{{name},"least":300,"rest":7,"spans":null,"level":1,{from}}}"#));
}
