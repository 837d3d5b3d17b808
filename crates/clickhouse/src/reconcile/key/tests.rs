use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, FixedSizeBinaryArray, Int8Array, RecordBatch, StringArray,
    TimestampSecondArray, UInt64Array,
};
use arrow_schema::{Field, Schema as ArrowSchema};
use dataflow::Column;

use super::*;
use crate::types;

fn texts(columns: &[(&str, &str, ArrayRef)]) -> Vec<String> {
    let schema = Schema::new(
        columns
            .iter()
            .map(|(name, t, _)| Column::new(*name, types::parse(name, t).expect("a type")))
            .collect(),
    );
    let names: Vec<String> = columns.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    let fields: Vec<Field> =
        columns.iter().map(|(n, _, a)| Field::new(*n, a.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, _, a)| a.clone()).collect();
    let rows = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).expect("rows");
    let mut out = Vec::new();
    let plan = KeyPlan::new(&schema, &names).expect("a key");
    plan.texts(&rows, |_, text| out.push(String::from_utf8_lossy(text).into_owned())).expect("texts");
    out
}

#[test]
fn every_type_has_the_text_that_the_server_gives_it() {
    let uuid = FixedSizeBinaryArray::try_from_iter([[0xab; 16]].into_iter()).expect("16 bytes");
    let fixed = FixedSizeBinaryArray::try_from_iter([[b'a', 0]].into_iter()).expect("2 bytes");
    for (type_name, array, text) in [
        ("UInt64", Arc::new(UInt64Array::from(vec![u64::MAX])) as ArrayRef, "18446744073709551615"),
        ("Int8", Arc::new(Int8Array::from(vec![-5])), "-5"),
        ("String", Arc::new(StringArray::from(vec!["a:b"])), "a:b"),
        ("Nullable(String)", Arc::new(StringArray::from(vec![Some("N")])), "=N"),
        ("Nullable(String)", Arc::new(StringArray::from(vec![None::<&str>])), "N"),
        ("UUID", Arc::new(uuid), "abababab-abab-abab-abab-abababababab"),
        ("FixedString(2)", Arc::new(fixed), "6100"),
        ("Date", Arc::new(Date32Array::from(vec![20_000])), "20000"),
        ("DateTime", Arc::new(TimestampSecondArray::from(vec![7]).with_timezone("UTC")), "7"),
        ("DateTime64(0)", Arc::new(TimestampSecondArray::from(vec![7]).with_timezone("UTC")), "7000"),
    ] {
        assert_eq!(texts(&[("k", type_name, array)]), [text], "{type_name}");
    }
}

#[test]
fn a_type_with_a_zone_is_quoted_within_the_statement() {
    for (type_name, cast) in [
        ("LowCardinality(DateTime('UTC'))", "CAST(`k`, 'DateTime(\\'UTC\\')')"),
        ("LowCardinality(Nullable(DateTime('UTC')))", "CAST(`k`, 'Nullable(DateTime(\\'UTC\\'))')"),
    ] {
        let text = expression("k", &types::parse("k", type_name).expect("a type")).expect("it has a text");
        assert!(text.contains(&format!("toString(toUnixTimestamp({cast}))")), "{text}");
    }
}

#[test]
fn keys_of_several_columns_do_not_run_into_each_other() {
    let of = |a: &str, b: &str| {
        let column = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        texts(&[("a", "String", column(a)), ("b", "String", column(b))])
    };
    assert_eq!(of("1:x", "y"), ["3:1:x1:y"]);
    assert_ne!(of("ab", "c"), of("a", "bc"));
}

#[test]
fn a_type_without_an_exact_text_is_refused_by_name() {
    let schema = Schema::new(vec![Column::new("price", ColumnType::Float64)]);
    let error = KeyPlan::new(&schema, &["price".to_owned()]).expect_err("no text");
    assert!(error.contains("`price` is a `Float64`"), "{error}");
    assert!(KeyPlan::new(&schema, &["cost".to_owned()]).is_err());
    assert!(KeyPlan::new(&schema, &[]).is_err());
}
