use std::sync::Arc;

use arrow_array::{
    Array, BinaryArray, FixedSizeBinaryArray, Int8Array, Int32Array, StringArray, TimestampSecondArray,
};

use super::*;

/// Columns of every form, row n holding a value of n.
fn rows(len: usize) -> RecordBatch {
    let text = |n: usize| "x".repeat(n % 7) + &n.to_string();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(FixedSizeBinaryArray::try_from_iter((0..len).map(|n| [n as u8; 16])).unwrap())),
        ("tiny", Arc::new(Int8Array::from_iter_values((0..len).map(|n| n as i8)))),
        (
            "time",
            Arc::new(
                TimestampSecondArray::from_iter_values((0..len).map(|n| n as i64 * 1_000))
                    .with_timezone("UTC"),
            ),
        ),
        ("text", Arc::new(StringArray::from_iter_values((0..len).map(text)))),
        ("bytes", Arc::new(BinaryArray::from_iter_values((0..len).map(text)))),
        ("flag", Arc::new(BooleanArray::from_iter((0..len).map(|n| Some(n % 3 == 0))))),
        ("some", Arc::new(Int32Array::from_iter((0..len).map(|n| (n % 2 == 0).then_some(n as i32))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn filtered(rows: &RecordBatch, dropped: &[usize]) -> RecordBatch {
    let keep: Vec<bool> = (0..rows.num_rows()).map(|row| !dropped.contains(&row)).collect();
    arrow_select::filter::filter_record_batch(rows, &keep.into()).unwrap()
}

fn stay(dropped: &[usize], len: usize) -> Vec<Range<usize>> {
    stretches(dropped, len).collect()
}

const CASES: &[&[usize]] = &[
    &[],
    &[0],
    &[9],
    &[0, 9],
    &[4, 5],
    &[1, 3, 5, 7],
    &[0, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
];

#[test]
fn rows_that_stay_are_those_of_a_filter() {
    for dropped in CASES {
        let kept = keep(rows(10), &stay(dropped, 10)).unwrap();
        assert_eq!(kept, filtered(&rows(10), dropped), "without {dropped:?}");
        kept.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    }
}

#[test]
fn memory_that_others_hold_stays_as_it_is() {
    let held = rows(10);
    let kept = keep(held.clone(), &stay(&[2, 6], 10)).unwrap();
    assert_eq!(held, rows(10));
    assert_eq!(kept, filtered(&held, &[2, 6]));
}

#[test]
fn memory_of_ones_own_is_used_again() {
    let rows = rows(1_000);
    let places = |rows: &RecordBatch| -> Vec<*const u8> {
        (0..5).map(|n| rows.column(n).to_data().buffers()[0].as_ptr()).collect()
    };
    let before = places(&rows);
    let kept = keep(rows, &stay(&[0, 500], 1_000)).unwrap();
    assert_eq!(places(&kept), before);
}

#[test]
fn a_slice_leaves_the_whole_as_it_is() {
    let whole = rows(20);
    let slice = whole.slice(5, 10);
    for dropped in CASES {
        assert_eq!(keep(slice.clone(), &stay(dropped, 10)).unwrap(), filtered(&slice, dropped));
    }
    assert_eq!(whole, rows(20));
}

#[test]
fn items_move_with_their_rows() {
    let mut items: Vec<u64> = (0..10).collect();
    keep_items(&mut items, &stay(&[0, 4, 5, 9], 10));
    assert_eq!(items, [1, 2, 3, 6, 7, 8]);
}
