use std::sync::Arc;

use arrow_array::*;
use dataflow::Column;
use proptest::prelude::*;

use super::*;

fn schema(columns: &[(&str, &str)]) -> Schema {
    Schema::new(columns.iter().map(|(n, t)| Column::new(*n, crate::types::parse(n, t).unwrap())).collect())
}

fn batch(arrays: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn order(key: &str, columns: &[(&str, &str)], batches: &[RecordBatch]) -> Option<Vec<(u32, u32)>> {
    let key = SortKey::new(key, &schema(columns)).unwrap();
    key.order(batches, Rows::All).unwrap().map(|o| o.iter().map(|r| (r.batch, r.row)).collect())
}

#[test]
fn equal_keys_keep_their_order_over_batches() {
    let rows = |v: Vec<i64>| batch(vec![("a", Arc::new(Int64Array::from(v)) as ArrayRef)]);
    assert_eq!(
        order("a", &[("a", "Int64")], &[rows(vec![5, -1, 5]), rows(vec![-1, 5])]),
        Some(vec![(0, 1), (1, 0), (0, 0), (0, 2), (1, 1)])
    );
    assert_eq!(
        order("a", &[("a", "Int64")], &[rows(vec![-1, 5]), rows(vec![5, 7])]),
        None,
        "in order already"
    );
}

#[test]
fn a_uuid_is_ordered_by_its_second_half_first() {
    let uuid = |first: u64, second: u64| ((u128::from(first) << 64) | u128::from(second)).to_be_bytes();
    let ids = [uuid(9, 1), uuid(1, 2), uuid(2, 1), uuid(0, 2)];
    let array: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap());
    let wanted = Some(vec![(0, 2), (0, 0), (0, 3), (0, 1)]);
    assert_eq!(order("id", &[("id", "UUID")], &[batch(vec![("id", array.clone())])]), wanted);
    // By the other road: two columns go through Arrow's rows.
    let zeros: ArrayRef = Arc::new(Int8Array::from(vec![0; 4]));
    let both = [batch(vec![("z", zeros), ("id", array)])];
    assert_eq!(order("(z, id)", &[("z", "Int8"), ("id", "UUID")], &both), wanted);
}

#[test]
fn several_columns_and_texts_sort_with_nulls_last() {
    let a: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("a")]));
    let b: ArrayRef = Arc::new(Int32Array::from(vec![0, 0, 2, -2]));
    let columns = [("a", "LowCardinality(Nullable(String))"), ("b", "Int32")];
    assert_eq!(
        order("a, b", &columns, &[batch(vec![("a", a), ("b", b)])]),
        Some(vec![(0, 3), (0, 2), (0, 0), (0, 1)])
    );
}

#[test]
fn keys_that_cannot_be_compared_here_are_left_to_the_server() {
    let schema = schema(&[("f", "Float64"), ("a", "Int8"), ("t", "DateTime")]);
    for key in ["f", "(a, f)", "toDate(t)", "gone", "a DESC", "", "tuple()", "(a, toDate(t))"] {
        assert!(SortKey::new(key, &schema).is_none(), "{key}");
    }
    assert!(SortKey::new("a, t", &schema).is_some());
}

proptest! {
    #[test]
    fn rows_come_out_sorted_and_complete(values in proptest::collection::vec(proptest::collection::vec(any::<i16>(), 0..50), 1..4)) {
        let batches: Vec<RecordBatch> = values
            .iter()
            .map(|v| batch(vec![("a", Arc::new(Int16Array::from(v.clone())) as ArrayRef)]))
            .collect();
        let mut wanted: Vec<(i16, u32, u32)> = Vec::new();
        for (b, v) in values.iter().enumerate() {
            wanted.extend(v.iter().enumerate().map(|(r, v)| (*v, b as u32, r as u32)));
        }
        wanted.sort();
        let wanted: Vec<(u32, u32)> = wanted.into_iter().map(|(_, b, r)| (b, r)).collect();
        let all: Vec<(u32, u32)> = Rows::All.to_picked(&batches).iter().map(|r| (r.batch, r.row)).collect();
        prop_assert_eq!(order("a", &[("a", "Int16")], &batches).unwrap_or(all), wanted);
    }
}
