use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use dataflow::{Column, ColumnType, Schema};

use super::*;
use crate::window::aggregate::{Aggregate, Function};

fn schema() -> Schema {
    let column = Column::new;
    Schema::new(vec![
        column("id", ColumnType::Int32),
        column("name", ColumnType::String),
        column("a", ColumnType::Float64),
        column("b", ColumnType::Float64),
    ])
}

/// Rows whose keys are `ids`, and their groups.
fn groups(key: &[&str], ids: impl Iterator<Item = i32>) -> (Groups, Vec<u32>) {
    let named: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
    let keys = Keys::new(&Keys::named(&schema(), &named)).expect("columns with one value a row");
    let mut aggregates = vec![Aggregate::new("n", Function::Count, None)];
    for column in ["a", "b"] {
        for function in [Function::Sum, Function::Min, Function::Max] {
            let name = format!("{column} {}", function.word());
            aggregates.push(Aggregate::new(&name, function, Some(column)));
        }
    }
    let bound: Vec<Bound> =
        aggregates.iter().map(|one| Bound::new(&schema(), one).expect("it takes the column")).collect();
    let ids: Vec<i32> = ids.collect();
    let numbers: ArrayRef = Arc::new(Float64Array::from_iter_values(ids.iter().map(|id| f64::from(*id))));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(ids.iter().map(i32::to_string)));
    let of = |array: ArrayRef| array;
    let batch = RecordBatch::try_from_iter([
        ("id", of(Arc::new(Int32Array::from_iter_values(ids.iter().copied())))),
        ("name", names),
        ("a", numbers.clone()),
        ("b", numbers),
    ])
    .expect("columns of one length");
    let rows: Vec<u32> = (0..ids.len() as u32).collect();
    let mut groups = Groups::new(&keys, &bound);
    let of = groups.groups_of(&keys.encode(&batch).expect("columns of the schema"), &rows);
    let times_ms = vec![0; ids.len()];
    groups.update(&batch, &bound, Rows { rows: &rows, groups: &of, times_ms: &times_ms }).expect("fits");
    (groups, of)
}

#[test]
fn a_pair_of_a_key_and_a_window_takes_at_most_96_bytes_with_six_aggregates() {
    // An index that has just doubled is the emptiest.
    for keys in [99_000, 100_000, 150_000] {
        let (groups, _) = groups(&["id"], 0..keys);
        let bytes = groups.memory_bytes() as f64 / groups.len() as f64;
        println!("{keys} keys: {bytes:.1} bytes each");
        assert!(bytes <= 96.0, "{keys} keys: {bytes} bytes each");
    }
}

#[test]
fn keys_of_eight_bytes_and_others_are_told_apart_and_found_again() {
    // Strides that leave the low bits alone are where a weak hash would pile keys up.
    for step in [1, 64, 1 << 20] {
        let ids = || (0..1_000).map(move |n| (n % 500) * step);
        let (by_number, of_number) = groups(&["id"], ids());
        let (by_both, of_both) = groups(&["name", "id"], ids());
        assert_eq!((by_number.len(), by_both.len()), (500, 500));
        assert_eq!(of_number, of_both);
        assert!(by_number.counts.iter().chain(&by_both.counts).all(|count| *count == 2));
        for group in 0..500 {
            assert_eq!(by_number.lookup(by_number.key(group)), Some(group as u32));
            assert_eq!(by_both.lookup(by_both.key(group)), Some(group as u32));
        }
        assert_eq!(by_number.lookup(&(-7_i64).to_le_bytes()), None);
        assert_eq!(by_both.lookup(b"none"), None);
    }
}

#[test]
fn later_groups_join_those_of_their_keys() {
    for key in [&["id"][..], &["name"]] {
        let (mut all, _) = groups(key, 0..40);
        let (later, _) = groups(key, 30..70);
        all.merge(&later);
        assert_eq!((all.len(), all.rows()), (70, 80));
        let twice = all.counts.iter().filter(|count| **count == 2).count();
        assert_eq!(twice, 10);
    }
}
