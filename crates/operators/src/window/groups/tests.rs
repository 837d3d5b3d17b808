use std::collections::BTreeSet;
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

/// A key by its number.
type Family = fn(u32) -> u64;

#[test]
fn keys_of_eight_bytes_have_places_of_their_own_whatever_bits_they_differ_in() {
    let families: [(&str, Family); 7] = [
        ("numbers", |n: u32| u64::from(n)),
        ("numbers below zero", |n: u32| (-i64::from(n)) as u64),
        ("whole minutes", |n: u32| u64::from(n) * 60_000),
        ("whole seconds", |n: u32| u64::from(n) * 1_000_000),
        ("whole floats", |n: u32| f64::from(n).to_bits()),
        ("tenths", |n: u32| (f64::from(n) / 10.0).to_bits()),
        ("hundredths", |n: u32| (f64::from(n) / 100.0).to_bits()),
    ];
    // Of a thousand random ones about 790 would have different places.
    let check = |name: &str, keys: &mut dyn Iterator<Item = u64>| {
        let places: BTreeSet<u64> = keys.map(|key| hash_of_eight(key.to_le_bytes()) % 2_048).collect();
        assert!(places.len() > 700, "{name}: {} places", places.len());
    };
    for (name, key) in families {
        check(name, &mut (0..1_000).map(key));
    }
    for bits in 0..54 {
        check(&format!("numbers shifted by {bits} bits"), &mut (0..1_000).map(|n| n << bits));
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
        let (mut amply, _) = groups(key, 0..40);
        amply.merge_amply(&later);
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        all.write(&mut one);
        amply.write(&mut other);
        assert_eq!(one, other);
    }
}

#[test]
fn keys_that_come_again_make_no_room_for_others() {
    let (mut all, _) = groups(&["id"], 0..10_000);
    let before = all.memory_bytes();
    for _ in 0..3 {
        all.merge_amply(&groups(&["id"], 0..10_000).0);
    }
    assert_eq!((all.len(), all.rows()), (10_000, 40_000));
    let (after, keys) = (all.memory_bytes(), 8 * 10_000);
    assert!(after <= before + keys, "{after} bytes, {before} before");
    // New ones get half as much as there is, once.
    all.merge_amply(&groups(&["id"], 10_000..15_000).0);
    let ample = all.counts.capacity();
    (15_000..15_100).for_each(|id| all.merge_amply(&groups(&["id"], id..id + 1).0));
    assert_eq!(all.len(), 15_100);
    assert!(all.counts.capacity() <= 24_000, "{} at once, {ample} before", all.counts.capacity());
}
