use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Column, ColumnType, Operator, Output, Partition, Reason, Schema, State, StateError};

use super::{DELETED_MS, JoinColumn, JoinSide, TemporalConfig, TemporalJoin};

mod bounds;
mod model;
mod pace;
mod spills;

const LEFT: JoinSide = JoinSide::Left;
const RIGHT: JoinSide = JoinSide::Right;

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

fn left() -> Schema {
    Schema::new(vec![
        Column::new("currency", nullable(ColumnType::Int64)),
        Column::new("number", ColumnType::Int64),
        Column::new("name", ColumnType::String),
    ])
}

fn right() -> Schema {
    Schema::new(vec![
        Column::new("rate", ColumnType::Int64),
        Column::new("of", nullable(ColumnType::Int64)),
        Column::new("note", ColumnType::String),
        Column::new("is_gone", nullable(ColumnType::Bool)),
    ])
}

/// A row: key, number, text, time. Versions whose number is a multiple of five delete their key.
type Row = (Option<i64>, i64, &'static str, i64);

fn is_deletion(number: i64) -> bool {
    number % 5 == 0
}

fn batch(side: JoinSide, rows: &[Row]) -> Batch {
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2)));
    // NULL is no deletion.
    let gone = rows.iter().map(|row| (row.1 % 3 != 1 || is_deletion(row.1)).then(|| is_deletion(row.1)));
    let gone: ArrayRef = Arc::new(gone.collect::<BooleanArray>());
    let (schema, columns) = match side {
        LEFT => (left(), vec![keys, numbers, texts]),
        RIGHT => (right(), vec![numbers, keys, texts, gone]),
    };
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema.arrow().clone(), columns).unwrap(),
        positions: (100..100 + rows.len() as u64).collect(),
        times_ms: rows.iter().map(|row| row.3).collect(),
    }
}

fn column(name: &str, side: JoinSide, from: &str) -> JoinColumn {
    JoinColumn { name: name.to_owned(), side, from: from.to_owned(), is_of_side_alone: false }
}

fn config(is_outer: bool) -> TemporalConfig {
    TemporalConfig {
        on: vec![("currency".to_owned(), "of".to_owned())],
        lateness: Duration::from_millis(20),
        is_outer,
        columns: vec![
            column("rate", RIGHT, "rate"),
            column("number", LEFT, "number"),
            column("name", LEFT, "name"),
            column("note", RIGHT, "note"),
            column("key", RIGHT, "of"),
        ],
        deleted: Some("is_gone".to_owned()),
        unmatched: Vec::new(),
    }
}

fn join(is_outer: bool) -> TemporalJoin {
    TemporalJoin::new(&left(), &right(), &config(is_outer)).unwrap()
}

fn put(step: &mut TemporalJoin, side: JoinSide, batch: Batch) -> Output {
    let (rows, held) = (batch.len() as u64, step.held());
    let probed = step.probe_of(side as usize, batch).unwrap();
    let out = step.finish(probed, &[]).unwrap();
    assert_eq!(out.batch.len(), 0, "rows come out with the watermark alone");
    assert_eq!(out.late + out.absorbed + out.rejects.len() as u64, rows, "every row has a fate");
    assert_eq!(held + out.absorbed, step.held());
    out
}

fn put_rows(step: &mut TemporalJoin, side: JoinSide, rows: &[Row]) -> Output {
    put(step, side, batch(side, rows))
}

/// What a cut does: the rows that a watermark lets out, and the delta.
fn cut(step: &mut TemporalJoin, watermark_ms: i64) -> (Vec<Output>, Bytes) {
    let held = step.held();
    let outputs = step.advance(watermark_ms).unwrap();
    for output in &outputs {
        assert!(output.is_made);
        assert_eq!(output.added, output.batch.len() as u64);
    }
    assert_eq!(outputs.iter().map(|output| output.released).sum::<u64>() + step.held(), held);
    (outputs, step.seal(watermark_ms))
}

/// Number of the left row, of its version, and the time.
type Found = (i64, Option<i64>, i64);

/// The rows of outputs, in order, after a check that all columns are of the rows that the numbers say.
fn found(outputs: &[Output]) -> Vec<Found> {
    outputs.iter().flat_map(|output| of_batch(&output.batch)).collect()
}

fn of_batch(batch: &Batch) -> Vec<Found> {
    let of = |name: &str| batch.rows.column_by_name(name).unwrap();
    let (numbers, rates) = (of("number").as_primitive::<Int64Type>(), of("rate").as_primitive::<Int64Type>());
    let one = |row: usize| {
        let rate = rates.is_valid(row).then(|| rates.value(row));
        assert_eq!(of("note").is_valid(row), rate.is_some());
        assert!(of("name").is_valid(row));
        (numbers.value(row), rate, batch.times_ms[row])
    };
    (0..batch.len()).map(one).collect()
}

#[test]
fn a_row_gets_the_version_that_held_at_its_time() {
    let mut step = join(true);
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "a", 100), (Some(1), 12, "b", 200), (Some(2), 13, "c", 150)]);
    let rows = [(1, 99), (2, 100), (3, 199), (4, 200), (5, 900)].map(|(n, ms)| (Some(1), n, "", ms));
    put_rows(&mut step, LEFT, &rows);
    // A version that comes after the rows, but whose time is before theirs.
    put_rows(&mut step, RIGHT, &[(Some(1), 14, "d", 150)]);
    let (outputs, _) = cut(&mut step, 1_000);
    let expected =
        [(1, None, 99), (2, Some(11), 100), (3, Some(14), 199), (4, Some(12), 200), (5, Some(12), 900)];
    assert_eq!(found(&outputs), expected);
    assert_eq!((outputs[0].released, outputs[0].unmatched), (5 + 2, 1));
    assert_eq!(outputs[0].batch.positions, [0, 1, 2, 3, 4]);
    assert_eq!(outputs[0].batch.rows.schema(), step.output().arrow().clone());
    assert_eq!(step.held(), 2, "the newest version of each key");
}

/// The number, the time and the position of each row beside the output.
fn beside(outputs: &[Output]) -> Vec<(i64, i64, u64)> {
    let mut rows = Vec::new();
    for (side, batch) in outputs.iter().flat_map(|output| &output.unmatched_rows) {
        assert_eq!((*side, batch.rows.num_columns()), (0, 2));
        let numbers = batch.rows.column_by_name("number").unwrap().as_primitive::<Int64Type>();
        let one = |row| (numbers.value(row), batch.times_ms[row], batch.positions[row]);
        rows.extend((0..batch.len()).map(one));
    }
    rows
}

fn with_aside() -> TemporalConfig {
    TemporalConfig { unmatched: vec!["number".to_owned(), "currency".to_owned()], ..config(false) }
}

#[test]
fn rows_without_a_version_go_beside_the_output() {
    let mut step = TemporalJoin::new(&left(), &right(), &with_aside()).unwrap();
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "a", 100), (Some(2), 15, "gone", 100)]);
    let rows = [(Some(1), 1, "", 99), (Some(1), 2, "", 100), (Some(2), 3, "", 200), (None, 4, "", 50)];
    put_rows(&mut step, LEFT, &rows);
    let (outputs, _) = cut(&mut step, 1_000);
    assert_eq!(found(&outputs), [(2, Some(11), 100)]);
    assert_eq!((outputs[0].released, outputs[0].unmatched), (4, 3));
    assert_eq!(beside(&outputs), [(4, 50, 1), (1, 99, 2), (3, 200, 3)]);
}

#[test]
fn of_two_versions_with_the_same_time_the_one_that_was_read_later_holds() {
    let mut step = join(true);
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "a", 100), (Some(1), 12, "b", 100)]);
    put_rows(&mut step, LEFT, &[(Some(1), 1, "", 100)]);
    put_rows(&mut step, RIGHT, &[(Some(1), 13, "c", 100)]);
    assert_eq!(found(&cut(&mut step, 500).0), [(1, Some(13), 100)]);
}

#[test]
fn a_row_waits_until_the_watermark_less_lateness_is_more_than_its_time() {
    let mut step = join(false);
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "a", 10)]);
    put_rows(&mut step, LEFT, &[(Some(1), 1, "", 1_000)]);
    assert!(cut(&mut step, 1_020).0.is_empty());
    assert!(!step.is_due(1_020) && step.is_due(1_021));
    assert_eq!((step.waiting(), step.watermark_behind(1_020)), (1, 1_000));
    // This one is not late, and has the last word.
    put_rows(&mut step, RIGHT, &[(Some(1), 12, "b", 1_000)]);
    assert_eq!(found(&cut(&mut step, 1_021).0), [(1, Some(12), 1_000)]);
    assert_eq!(step.waiting(), 0);
}

#[test]
fn a_left_row_is_late_when_the_last_watermark_says_so() {
    let mut step = join(true);
    cut(&mut step, 1_020);
    let out = put_rows(&mut step, LEFT, &[(Some(1), 1, "", 999), (Some(1), 2, "", 1_000)]);
    assert_eq!((out.late, out.absorbed), (1, 1));
}

#[test]
fn a_late_version_is_taken_as_long_as_no_later_one_holds() {
    let mut step = join(true);
    cut(&mut step, 1_020);
    let out = put_rows(&mut step, RIGHT, &[(Some(1), 11, "a", 500)]);
    assert_eq!((out.late, out.absorbed), (0, 1), "nobody knows a later one");
    put_rows(&mut step, LEFT, &[(Some(1), 1, "", 1_500)]);
    let out = put_rows(&mut step, RIGHT, &[(Some(1), 14, "d", 400)]);
    assert_eq!(
        (out.late, out.absorbed),
        (0, 1),
        "in which order the versions of one seal come does not matter"
    );
    cut(&mut step, 1_020);
    assert_eq!((step.held(), step.waiting()), (2, 1));
    let out = put_rows(&mut step, RIGHT, &[(Some(1), 12, "b", 499), (Some(1), 13, "c", 501)]);
    assert_eq!((out.late, out.absorbed), (1, 1), "that of 499 would hold for no row");
    assert_eq!(found(&cut(&mut step, 2_000).0), [(1, Some(13), 1_500)]);
    let out = put_rows(&mut step, RIGHT, &[(Some(1), 16, "d", 500)]);
    assert_eq!(out.late, 1);
    // One that comes ahead of the floor keeps nobody from the past.
    put_rows(&mut step, RIGHT, &[(Some(2), 17, "e", 9_000), (Some(2), 18, "f", 100)]);
    put_rows(&mut step, LEFT, &[(Some(2), 2, "", 5_000), (Some(2), 3, "", 9_500)]);
    assert_eq!(found(&cut(&mut step, 10_000).0), [(2, Some(18), 5_000), (3, Some(17), 9_500)]);
}

#[test]
fn a_deleted_key_has_no_version_until_there_is_a_new_one() {
    for is_outer in [true, false] {
        let mut step = join(is_outer);
        put_rows(&mut step, RIGHT, &[(Some(1), 11, "", 100), (Some(1), 15, "", 200), (Some(1), 16, "", 300)]);
        let rows = [(1, 150), (2, 250), (3, 350)].map(|(n, ms)| (Some(1), n, "", ms));
        put_rows(&mut step, LEFT, &rows);
        let (outputs, _) = cut(&mut step, 1_000);
        let expected = [(1, Some(11), 150), (2, None, 250), (3, Some(16), 350)];
        let expected: Vec<Found> = expected.into_iter().filter(|row| is_outer || row.1.is_some()).collect();
        assert_eq!(found(&outputs), expected);
        assert_eq!((outputs[0].released, outputs[0].unmatched), (3 + 2, 1));
    }
}

#[test]
fn a_deletion_is_remembered_for_a_day() {
    let mut step = join(true);
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "", 0), (Some(1), 15, "", 100)]);
    cut(&mut step, 100 + 20 + DELETED_MS);
    assert_eq!(step.held(), 1);
    assert_eq!(put_rows(&mut step, RIGHT, &[(Some(1), 12, "", 50)]).late, 1, "it would bring the key back");
    let (outputs, _) = cut(&mut step, 101 + 20 + DELETED_MS);
    assert_eq!((outputs[0].released, step.held()), (1, 0));
    assert_eq!(put_rows(&mut step, RIGHT, &[(Some(1), 12, "", 50)]).late, 0);
}

#[test]
fn a_null_in_the_key_matches_nothing() {
    let mut step = join(true);
    put_rows(&mut step, RIGHT, &[(None, 11, "", 10), (Some(1), 12, "", 10)]);
    put_rows(&mut step, LEFT, &[(None, 1, "", 20), (Some(1), 2, "", 20)]);
    let (outputs, _) = cut(&mut step, 100);
    assert_eq!(found(&outputs), [(1, None, 20), (2, Some(12), 20)]);
    assert_eq!((outputs[0].released, outputs[0].unmatched, step.held()), (3, 1, 1));
}

#[test]
fn without_a_match_a_column_of_the_key_has_the_value_of_the_left_row() {
    let mut step = join(true);
    put_rows(&mut step, RIGHT, &[(Some(7), 11, "", 10)]);
    put_rows(&mut step, LEFT, &[(Some(7), 1, "", 20), (Some(8), 2, "", 20)]);
    let (outputs, _) = cut(&mut step, 100);
    let keys = outputs[0].batch.rows.column_by_name("key").unwrap().as_primitive::<Int64Type>().clone();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(7), Some(8)]);
}

#[test]
fn a_row_without_a_usable_time_is_a_reject() {
    for side in [LEFT, RIGHT] {
        let out = put_rows(&mut join(true), side, &[(Some(1), 1, "", TIME_UNKNOWN_MS), (Some(1), 2, "", 1)]);
        let told: Vec<_> = out.rejects.iter().map(|reject| (reject.position, reject.reason)).collect();
        assert_eq!(told, [(100, Reason::Missing)]);
    }
}

#[test]
fn the_end_of_the_input_lets_rows_out_and_keeps_versions() {
    let mut step = join(true).with_close_at_end(true);
    assert!(step.closes_at_end());
    put_rows(&mut step, RIGHT, &[(Some(1), 11, "", 10)]);
    put_rows(&mut step, LEFT, &[(Some(1), 1, "", 5_000)]);
    let outputs = step.close(100).unwrap();
    let delta = step.seal(100);
    assert_eq!(found(&outputs), [(1, Some(11), 5_000)]);
    assert_eq!((step.waiting(), step.held()), (0, 1));
    let mut again = join(true);
    again.apply(&delta).unwrap();
    assert_eq!(again.snapshot(), step.snapshot(), "the watermark that closed it is part of its state");
}

#[test]
fn a_state_of_other_settings_is_refused_with_both() {
    let mut step = join(true);
    put_rows(&mut step, LEFT, &[(Some(1), 1, "", 10)]);
    cut(&mut step, 0);
    let with = |change: &dyn Fn(&mut TemporalConfig)| {
        let mut changed = config(true);
        change(&mut changed);
        TemporalJoin::new(&left(), &right(), &changed).unwrap().restore(&step.snapshot()).unwrap_err()
    };
    let error = with(&|config| config.is_outer = false);
    let StateError::Configured { was, now, .. } = &error else { panic!("{error}") };
    assert!(was.contains("kind `left`") && now.contains("kind `inner`"), "{error}");
    let error = with(&|config| config.deleted = None);
    assert!(error.to_string().contains("unless it is deleted"), "{error}");
    let interval = super::JoinConfig {
        on: config(true).on,
        before: Duration::ZERO,
        after: Duration::ZERO,
        lateness: Duration::from_millis(20),
        kind: super::JoinKind::Left,
        columns: config(true).columns,
        unmatched: [Vec::new(), Vec::new()],
    };
    let mut interval = crate::Join::new(&left(), &right(), &interval).unwrap();
    assert!(interval.restore(&step.snapshot()).is_err(), "an interval join is another step");
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut TemporalConfig)| {
        let mut changed = config(true);
        change(&mut changed);
        TemporalJoin::new(&left(), &right(), &changed).err().expect("a fault").to_string()
    };
    assert!(refused(&|c| c.deleted = Some("is_gona".into())).contains("did you mean `is_gone`?"));
    assert!(refused(&|c| c.deleted = Some("rate".into())).contains("a condition, which is true or false"));
    assert!(refused(&|c| c.on.clear()).contains("join.on"));
    assert!(refused(&|c| c.lateness = Duration::from_secs(1 << 40)).contains("join.lateness"));
}

/// A key that is an Array, and a number.
fn tagged(number: &str) -> Schema {
    let tags = ColumnType::Array(Box::new(ColumnType::String));
    Schema::new(vec![Column::new("tags", tags), Column::new(number, ColumnType::Int64)])
}

fn tagged_batch(schema: &Schema, rows: &[(&[&str], i64)], time_ms: i64) -> Batch {
    let DataType::List(field) = schema.columns()[0].column_type.arrow() else { panic!("it is an Array") };
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.0.len()));
    let texts: ArrayRef =
        Arc::new(StringArray::from(rows.iter().flat_map(|row| row.0.to_vec()).collect::<Vec<&str>>()));
    let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, texts, None));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema.arrow().clone(), vec![lists, numbers]).unwrap(),
        positions: (0..rows.len() as u64).collect(),
        times_ms: vec![time_ms; rows.len()],
    }
}

#[test]
fn versions_are_found_by_a_key_that_is_an_array() {
    let (left, right) = (tagged("number"), tagged("rate"));
    let config = TemporalConfig {
        on: vec![("tags".to_owned(), "tags".to_owned())],
        lateness: Duration::ZERO,
        is_outer: true,
        columns: vec![column("number", LEFT, "number"), column("rate", RIGHT, "rate")],
        deleted: None,
        unmatched: Vec::new(),
    };
    let mut step = TemporalJoin::new(&left, &right, &config).unwrap();
    put(&mut step, RIGHT, tagged_batch(&right, &[(&["a", "b"], 7), (&["b", "a"], 8)], 900));
    let rows: [(&[&str], i64); 3] = [(&["a", "b"], 1), (&["ab"], 2), (&["b", "a"], 3)];
    put(&mut step, LEFT, tagged_batch(&left, &rows, 1_000));
    let (outputs, _) = cut(&mut step, 10_000);
    let mut found = Vec::new();
    for output in &outputs {
        let of = |name: &str| output.batch.rows.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        found.extend(of("number").iter().zip(of("rate").iter()));
    }
    assert_eq!(found, [(Some(1), Some(7)), (Some(2), None), (Some(3), Some(8))]);
}
