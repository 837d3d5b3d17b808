//! Keys that others mix up, and what published scenarios of joins expect.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, StringArray, UInt64Array};
use dataflow::{Batch, Column, ColumnType, Operator, Partition, Schema};

use super::{column, put};
use crate::join::{Join, JoinConfig, JoinKind, JoinSide};

/// A row: two texts and a number that make the key.
type Key = (&'static str, &'static str, u64);

fn schema() -> Schema {
    Schema::new(vec![
        Column::new("a", ColumnType::String),
        Column::new("b", ColumnType::String),
        Column::new("n", ColumnType::UInt64),
        Column::new("row", ColumnType::UInt64),
    ])
}

fn step() -> Join {
    let same = |name: &str| (name.to_owned(), name.to_owned());
    let config = JoinConfig {
        on: vec![same("a"), same("b"), same("n")],
        before: Duration::from_secs(1),
        after: Duration::from_secs(1),
        lateness: Duration::ZERO,
        kind: JoinKind::Inner,
        columns: vec![column("left", JoinSide::Left, "row"), column("right", JoinSide::Right, "row")],
        unmatched: [Vec::new(), Vec::new()],
    };
    Join::new(&schema(), &schema(), &config).expect("a valid step")
}

fn batch(keys: &[Key]) -> Batch {
    let texts = |of: fn(&Key) -> &'static str| Arc::new(StringArray::from_iter_values(keys.iter().map(of)));
    let rows = keys.len() as u64;
    let numbers = UInt64Array::from_iter_values(keys.iter().map(|key| key.2));
    let columns = vec![
        texts(|key| key.0) as _,
        texts(|key| key.1) as _,
        Arc::new(numbers) as _,
        Arc::new(UInt64Array::from_iter_values(0..rows)) as _,
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema().arrow().clone(), columns).expect("four columns"),
        positions: (0..rows).collect(),
        times_ms: vec![1_000; keys.len()],
    }
}

/// The pairs of rows that a left and then a right batch make.
fn pairs(left: &[Key], right: &[Key]) -> Vec<(u64, u64)> {
    let mut step = step();
    put(&mut step, JoinSide::Left, batch(left));
    let made = put(&mut step, JoinSide::Right, batch(right)).batch.rows;
    let side = |name: &str| {
        made.column_by_name(name).expect("a side").as_primitive::<UInt64Type>().values().to_vec()
    };
    let mut pairs: Vec<(u64, u64)> = side("left").into_iter().zip(side("right")).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn fault_05_join_keys_with_any_characters_and_large_integers_match_and_only_their_equals() {
    let keys: [Key; 8] = [
        ("user@example.com", "a b", 1_000_000),
        ("a:b", "c", 1),
        ("a", "b:c", 1),
        ("", "", 9_007_199_254_740_993),
        ("", "", 9_007_199_254_740_992),
        (" ", "", u64::MAX),
        ("1e6", "ü\u{0}", 10_000_000_000),
        ("x\ny", "'\"\\", 1_000_001),
    ];
    let each_with_itself: Vec<(u64, u64)> = (0..8).map(|row| (row, row)).collect();
    assert_eq!(pairs(&keys, &keys), each_with_itself);
}

#[test]
fn behaviour_07_three_left_and_two_right_rows_make_the_pairs_that_match() {
    let of = |n: u64| ("k", "", n);
    assert_eq!(pairs(&[of(1), of(2), of(3)], &[of(1), of(3)]), [(0, 0), (2, 1)]);
    assert_eq!(
        pairs(&[of(1), of(1)], &[of(1)]),
        [(0, 0), (1, 0)],
        "two left rows of one key are both joined"
    );
    assert_eq!(pairs(&[of(1), of(2)], &[of(3)]), [], "no match, no row");
}

#[test]
fn behaviour_07_rows_that_wait_when_the_step_stops_are_joined_by_the_next_one() {
    let of = |n: u64| ("k", "", n);
    let mut before = step();
    put(&mut before, JoinSide::Left, batch(&[of(1), of(2)]));
    before.advance(1_000).expect("it advances");
    let delta = before.state().expect("it has a state").seal(1_000);
    let mut after = step();
    after.state().expect("it has a state").apply(&delta).expect("its own bytes");
    let made = put(&mut after, JoinSide::Right, batch(&[of(2), of(1)]));
    assert_eq!(made.batch.len(), 2);
}
