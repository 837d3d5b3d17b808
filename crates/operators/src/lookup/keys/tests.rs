use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use dataflow::{Column, ColumnType, Schema};

use super::{LookupKeys, Values};

#[test]
fn each_key_comes_once_and_none_with_a_null() {
    let schema = Schema::new(vec![
        Column::new("a", ColumnType::Nullable(Box::new(ColumnType::Int64))),
        Column::new("b", ColumnType::Nullable(Box::new(ColumnType::String))),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), Some(1), None, Some(-1), Some(1)])),
        Arc::new(StringArray::from(vec![Some("x"), Some("y"), Some("x"), None, Some("x")])),
    ];
    let rows = RecordBatch::try_new(schema.arrow().clone(), columns).unwrap();
    let keys = LookupKeys::new(&schema, &["b".to_owned(), "a".to_owned()]).unwrap();
    let distinct = keys.distinct(&rows).unwrap();
    assert_eq!(distinct.iter().map(|(_, row)| *row).collect::<Vec<_>>(), [0, 1]);
    let texts: Vec<_> = keys.keys(&rows, &distinct).into_iter().map(|key| key.texts).collect();
    assert_eq!(texts[0][..], [b"x".to_vec(), b"1".to_vec()]);
    assert_eq!(texts[1][..], [b"y".to_vec(), b"1".to_vec()]);
}

#[test]
fn every_kind_of_value_has_its_text() {
    let id: [u8; 16] = std::array::from_fn(|nth| 0xa0 + nth as u8);
    let columns: Vec<(ColumnType, ArrayRef, &str)> = vec![
        (ColumnType::UInt64, Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615"),
        (ColumnType::Int64, Arc::new(Int64Array::from(vec![i64::MIN])), "-9223372036854775808"),
        (ColumnType::Date32, Arc::new(Date32Array::from(vec![-25_567])), "1900-01-01"),
        (ColumnType::Bool, Arc::new(BooleanArray::from(vec![false])), "false"),
        (
            ColumnType::Uuid,
            Arc::new(FixedSizeBinaryArray::try_from_iter([id].into_iter()).unwrap()),
            "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf",
        ),
    ];
    for (of, column, wanted) in columns {
        let schema = Schema::new(vec![Column::new("k", of)]);
        let rows = RecordBatch::try_new(schema.arrow().clone(), vec![column]).unwrap();
        let keys = LookupKeys::new(&schema, &["k".to_owned()]).unwrap();
        let keys = keys.keys(&rows, &keys.distinct(&rows).unwrap());
        assert_eq!(keys[0].texts[0], wanted.as_bytes());
    }
}

#[test]
fn keys_whose_texts_do_not_tell_them_apart_are_refused() {
    let of = ColumnType::LowCardinality(Box::new(ColumnType::Nullable(Box::new(ColumnType::String))));
    assert_eq!(Values::of(&of), Some(Values::Text));
    let schema = Schema::new(vec![Column::new("k", ColumnType::Float64)]);
    let error = LookupKeys::new(&schema, &["k".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("`k`") && error.contains("whole number"), "{error}");
}
