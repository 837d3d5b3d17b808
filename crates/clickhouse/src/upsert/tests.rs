use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray, UInt32Array};
use proptest::prelude::*;

use super::*;

fn rows(keys: &[u32], names: &[&str], versions: &[i64]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 3] = [
        ("key", Arc::new(UInt32Array::from(keys.to_vec()))),
        ("name", Arc::new(StringArray::from(names.to_vec()))),
        ("version", Arc::new(Int64Array::from(versions.to_vec()))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn by(key: &[usize], version: Option<usize>) -> Places {
    Places { key: key.to_vec(), version }
}

#[test]
fn the_last_row_of_a_key_stays() {
    let batch = rows(&[1, 2, 1, 3, 1, 2], &["a", "b", "a", "b", "a", "b"], &[9, 9, 5, 1, 1, 1]);
    assert_eq!(replaced(&by(&[0], None), &[Selected::all(batch.clone())]).unwrap(), [0, 1, 2]);
    assert_eq!(replaced(&by(&[1], None), &[Selected::all(batch)]).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_key_has_all_of_its_columns() {
    let batch = rows(&[1, 1, 1, 2], &["a", "b", "a", "a"], &[0; 4]);
    assert_eq!(replaced(&by(&[0, 1], None), &[Selected::all(batch)]).unwrap(), [0]);
    // The bytes of one text do not run into those of the next column.
    let batch = rows(&[1, 1], &["a", "a\0"], &[0; 2]);
    assert!(replaced(&by(&[1, 0], None), &[Selected::all(batch)]).unwrap().is_empty());
}

#[test]
fn the_greatest_version_stays_and_of_equal_ones_the_last_row() {
    let batch = rows(&[1, 1, 1, 1, 2, 2], &["a"; 6], &[-5, 7, 7, 0, i64::MIN, i64::MAX]);
    assert_eq!(replaced(&by(&[0], Some(2)), &[Selected::all(batch)]).unwrap(), [0, 1, 3, 4]);
}

#[test]
fn rows_are_numbered_over_all_batches_without_those_that_go_no_further() {
    let first = Selected::without(rows(&[1, 2, 3], &["a"; 3], &[0; 3]), &[1]);
    let second = Selected::without(rows(&[9, 3, 1, 2], &["a"; 4], &[0; 4]), &[0]);
    // 1 and 3 of the first batch; 2 was dropped there.
    assert_eq!(replaced(&by(&[0], None), &[first, second]).unwrap(), [0, 1]);
    assert!(replaced(&by(&[0], None), &[]).unwrap().is_empty());
}

#[test]
fn the_engine_of_a_table_names_its_columns() {
    let made = Upsert { key: vec!["id".into()], ..Upsert::default() };
    assert_eq!(made.engine(), "ReplacingMergeTree(`_version`)");
    let named = Upsert { version: Some("at".into()), deleted: Some("is`gone".into()), ..made };
    assert_eq!(named.engine(), "ReplacingMergeTree(`at`, `is\\`gone`)");
    let signed = Upsert { sign: Some("sign".into()), ..named };
    assert_eq!(signed.engine(), "CollapsingMergeTree(`sign`)");
    assert!(!signed.makes_versions());
}

#[test]
fn what_is_deleted_is_true_or_false_and_versions_that_are_made_are_no_column_of_rows() {
    let upsert = Upsert { key: vec!["id".into()], deleted: Some("gone".into()), ..Upsert::default() };
    assert_eq!(upsert.of_rows("gone", ColumnType::UInt8), Some(ColumnType::Bool));
    assert_eq!(upsert.of_rows("other", ColumnType::UInt8), Some(ColumnType::UInt8));
    assert_eq!(upsert.of_rows(VERSION, ColumnType::UInt64), None);
    let named = Upsert { version: Some("at".into()), ..upsert };
    assert_eq!(named.of_rows(VERSION, ColumnType::UInt64), Some(ColumnType::UInt64));
}

proptest! {
    /// Against the rule itself, row by row.
    #[test]
    fn what_stays_is_what_a_map_of_the_rows_holds(
        all in prop::collection::vec((0_u32..6, -3_i64..3, any::<bool>()), 1..60),
        cut in 1_usize..60,
        by_version in any::<bool>(),
    ) {
        let batches: Vec<Selected> = all.chunks(cut).map(|chunk| {
            let keys: Vec<u32> = chunk.iter().map(|row| row.0).collect();
            let versions: Vec<i64> = chunk.iter().map(|row| row.1).collect();
            let dropped: Vec<usize> = (0..chunk.len()).filter(|row| chunk[*row].2).collect();
            Selected::without(rows(&keys, &vec!["a"; chunk.len()], &versions), &dropped)
        }).collect();
        let kept: Vec<&(u32, i64, bool)> = all.iter().filter(|row| !row.2).collect();
        let mut newest: BTreeMap<u32, usize> = BTreeMap::new();
        for (number, (key, version, _)) in kept.iter().enumerate() {
            let known = newest.entry(*key).or_insert(number);
            if !by_version || *version >= kept[*known].1 {
                *known = number;
            }
        }
        let expected: Vec<u32> =
            (0..kept.len()).filter(|number| newest[&kept[*number].0] != *number).map(|n| n as u32).collect();
        prop_assert_eq!(replaced(&by(&[0], by_version.then_some(2)), &batches).unwrap(), expected);
    }
}
