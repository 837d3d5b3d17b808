//! Keys that are Arrays or Maps.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StringArray, StructArray, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use dataflow::{Batch, Column, ColumnType, Operator, Output, Partition, Schema, State};

use super::{column, cut, nullable, put};
use crate::join::{Join, JoinConfig, JoinKind, JoinSide};

/// The items of the key, of which an empty one is NULL where it may be.
type Items = &'static [&'static str];

fn tags(item: ColumnType) -> ColumnType {
    ColumnType::Array(Box::new(item))
}

fn labels(value: ColumnType) -> ColumnType {
    ColumnType::Map(Box::new(ColumnType::String), Box::new(value))
}

fn schema(key: &ColumnType) -> Schema {
    Schema::new(vec![Column::new("key", key.clone()), Column::new("row", ColumnType::UInt64)])
}

fn step(keys: [&ColumnType; 2], kind: JoinKind, with_key: bool) -> Join {
    let mut columns = vec![column("left", JoinSide::Left, "row"), column("right", JoinSide::Right, "row")];
    if with_key {
        columns.push(column("key", JoinSide::Left, "key"));
    }
    let config = JoinConfig {
        on: vec![("key".to_owned(), "key".to_owned())],
        before: Duration::from_secs(1),
        after: Duration::from_secs(1),
        lateness: Duration::ZERO,
        kind,
        columns,
        unmatched: [Vec::new(), Vec::new()],
    };
    Join::new(&schema(keys[0]), &schema(keys[1]), &config).expect("a valid step")
}

/// Arrays of the items, or Maps of them to texts of their own.
fn key(of: &ColumnType, rows: &[Items]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.len()));
    let items = || rows.iter().copied().flatten().copied();
    let texts = || -> ArrayRef { Arc::new(StringArray::from(items().collect::<Vec<&str>>())) };
    match of.arrow() {
        DataType::List(field) if field.is_nullable() => {
            let texts: Vec<Option<&str>> = items().map(|item| (!item.is_empty()).then_some(item)).collect();
            Arc::new(ListArray::new(field, offsets, Arc::new(StringArray::from(texts)), None))
        }
        DataType::List(field) => Arc::new(ListArray::new(field, offsets, texts(), None)),
        DataType::Map(entry, _) => {
            let DataType::Struct(fields) = entry.data_type().clone() else {
                panic!("entries have two columns")
            };
            let entries = StructArray::new(fields, vec![texts(), texts()], None);
            Arc::new(MapArray::new(entry, offsets, entries, None, false))
        }
        other => panic!("`{other}` has no items"),
    }
}

fn batch(of: &ColumnType, rows: &[Items]) -> Batch {
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64));
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema(of).arrow().clone(), vec![key(of, rows), numbers])
            .expect("two columns"),
        positions: (0..rows.len() as u64).collect(),
        times_ms: vec![1_000; rows.len()],
    }
}

/// The pairs of rows of an output; a side that has none is `u64::MAX`.
fn pairs(output: &Output) -> Vec<(u64, u64)> {
    let rows = &output.batch.rows;
    let side = |name: &str| -> Vec<u64> {
        let numbers = rows.column_by_name(name).expect("a side").as_primitive::<UInt64Type>();
        numbers.iter().map(|number| number.unwrap_or(u64::MAX)).collect()
    };
    let mut pairs: Vec<(u64, u64)> = side("left").into_iter().zip(side("right")).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn arrays_match_by_their_items_in_their_order_also_after_a_restart() {
    let left = tags(ColumnType::String);
    let right = tags(nullable(ColumnType::String));
    let rows: [Items; 5] = [&["a", "b"], &[], &["ab"], &["b", "a"], &["a", "b"]];
    let mut before = step([&left, &right], JoinKind::Inner, false);
    put(&mut before, JoinSide::Left, batch(&left, &rows));
    let (_, delta) = cut(&mut before, 1_000);
    let mut after = step([&left, &right], JoinKind::Inner, false);
    after.apply(&delta).expect("its own bytes");
    let others: [Items; 4] = [&["b"], &["a", "b"], &[""], &[]];
    for mut step in [before, after] {
        let made = put(&mut step, JoinSide::Right, batch(&right, &others));
        assert_eq!(pairs(&made), [(0, 1), (1, 3), (4, 1)]);
    }
}

#[test]
fn maps_match_by_their_entries_in_any_order() {
    let of = labels(ColumnType::String);
    let mut step = step([&of, &of], JoinKind::Inner, false);
    let rows: [Items; 3] = [&["a", "b", "c"], &["a"], &[]];
    put(&mut step, JoinSide::Left, batch(&of, &rows));
    let others: [Items; 4] = [&["c", "a", "b"], &["a", "b"], &[], &["b"]];
    let made = put(&mut step, JoinSide::Right, batch(&of, &others));
    assert_eq!(pairs(&made), [(0, 0), (2, 2)]);
}

#[test]
fn an_array_of_the_key_comes_from_the_side_that_is_there() {
    let of = tags(nullable(ColumnType::String));
    let mut step = step([&of, &of], JoinKind::Full, true);
    let rows: [Items; 2] = [&["a", "b"], &["x"]];
    put(&mut step, JoinSide::Left, batch(&of, &rows));
    let others: [Items; 2] = [&["a", "b"], &[""]];
    put(&mut step, JoinSide::Right, batch(&of, &others));
    let (outputs, _) = cut(&mut step, 1_000_000);
    let found: Vec<(u64, u64)> = outputs.iter().flat_map(pairs).collect();
    assert_eq!(found, [(1, u64::MAX), (u64::MAX, 1)]);
    let options = FormatOptions::default().with_null("-");
    let text = |output: &Output| -> Vec<String> {
        let keys = output.batch.rows.column_by_name("key").expect("it is of the output");
        assert_eq!(keys.null_count(), 0);
        let texts = ArrayFormatter::try_new(keys, &options).expect("a form with texts");
        (0..keys.len()).map(|row| texts.value(row).to_string()).collect()
    };
    assert_eq!(outputs.iter().flat_map(text).collect::<Vec<_>>(), ["[x]", "[-]"]);
}

/// Of a thousand rows one has an array, which two hundred others match.
#[test]
fn rows_that_all_get_one_long_array_take_no_more_than_the_memory() {
    for of in [tags(ColumnType::String), labels(ColumnType::String)] {
        let long: Items = vec!["0123456789"; 1_000].leak();
        let mut rows = vec![long];
        rows.resize(1_000, &[]);
        let both = |memory: u64| {
            let mut step = step([&of, &of], JoinKind::Inner, true).with_memory(memory);
            put(&mut step, JoinSide::Left, batch(&of, &rows));
            let probed = step.probe_of(1, batch(&of, &[long; 200])).expect("columns of its own");
            step.finish(probed, &[]).map(|out| out.batch.len())
        };
        let error = both(1 << 20).expect_err("each of the rows has the array").to_string();
        assert!(error.contains("rows of more than `1048576` bytes"), "{error}");
        assert_eq!(both(64 << 20).expect("there is room"), 200);
    }
}

#[test]
fn keys_that_have_nothing_in_common_are_said_with_the_way_out() {
    let refused = |left: ColumnType, right: ColumnType| {
        let config = JoinConfig {
            on: vec![("key".to_owned(), "key".to_owned())],
            before: Duration::ZERO,
            after: Duration::ZERO,
            lateness: Duration::ZERO,
            kind: JoinKind::Inner,
            columns: vec![column("row", JoinSide::Left, "row")],
            unmatched: [Vec::new(), Vec::new()],
        };
        Join::new(&schema(&left), &schema(&right), &config).err().expect("a fault").to_string()
    };
    let json = || ColumnType::Json { parameters: None };
    let message = refused(tags(json()), tags(json()));
    assert!(message.contains("is of type Array(JSON)") && message.contains("`select`"), "{message}");
    let message = refused(tags(ColumnType::Int64), tags(ColumnType::String));
    assert!(
        message.contains("kind `array(int)`") && message.contains("CAST(key AS Array(Int64))"),
        "{message}"
    );
    let message = refused(labels(ColumnType::Int64), labels(json()));
    assert!(message.contains("is of type Map(…, JSON)"), "{message}");
}
