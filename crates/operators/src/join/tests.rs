use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Column, ColumnType, Operator, Output, Partition, Reason, Schema, State, StateError};

use super::{Join, JoinColumn, JoinConfig, JoinKind, JoinSide};

mod arrays;
mod bounds;
mod keys;
mod model;
mod pace;
mod spills;

pub(super) use pace::cpu_ns;

pub(super) const KINDS: [JoinKind; 4] = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full];

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

pub(super) fn left() -> Schema {
    Schema::new(vec![
        Column::new("order_id", nullable(ColumnType::Int64)),
        Column::new("number", ColumnType::Int64),
        Column::new("name", ColumnType::String),
        Column::new("id", ColumnType::Uuid),
        Column::new("paid", nullable(ColumnType::Bool)),
    ])
}

pub(super) fn right() -> Schema {
    Schema::new(vec![
        Column::new("number", ColumnType::Int32),
        Column::new("order", nullable(ColumnType::Int64)),
        Column::new("note", nullable(ColumnType::String)),
    ])
}

/// A row: key, number, text, time.
pub(super) type Row = (Option<i64>, i64, &'static str, i64);

pub(super) fn batch(side: JoinSide, rows: &[Row]) -> Batch {
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2)));
    let (schema, columns) = match side {
        JoinSide::Left => {
            let ids = rows.iter().map(|row| (row.1 as u128).to_be_bytes());
            let ids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(ids.chain([[0; 16]])).unwrap());
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
            let paid = rows.iter().map(|row| (row.1 % 3 != 0).then_some(row.1 % 2 == 0));
            let paid: ArrayRef = Arc::new(paid.collect::<BooleanArray>());
            (left(), vec![keys, numbers, texts, ids.slice(0, rows.len()), paid])
        }
        JoinSide::Right => {
            let numbers: ArrayRef =
                Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.1 as i32)));
            (right(), vec![numbers, keys, texts])
        }
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

/// A right row matches from 100 ms before its left row to 50 ms after.
pub(super) fn config(kind: JoinKind) -> JoinConfig {
    JoinConfig {
        on: vec![("order_id".to_owned(), "order".to_owned())],
        before: Duration::from_millis(100),
        after: Duration::from_millis(50),
        lateness: Duration::from_millis(20),
        kind,
        columns: vec![
            column("right_number", JoinSide::Right, "number"),
            column("left_number", JoinSide::Left, "number"),
            column("name", JoinSide::Left, "name"),
            column("note", JoinSide::Right, "note"),
            column("id", JoinSide::Left, "id"),
            column("paid", JoinSide::Left, "paid"),
            column("key", JoinSide::Left, "order_id"),
        ],
        unmatched: [Vec::new(), Vec::new()],
    }
}

/// The same, with the rows of each side beside the output that are not in it.
pub(super) fn with_aside(kind: JoinKind) -> JoinConfig {
    let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
    let mut config = config(kind);
    if !matches!(kind, JoinKind::Left | JoinKind::Full) {
        config.unmatched[0] = names(&["name", "order_id", "number"]);
    }
    if !matches!(kind, JoinKind::Right | JoinKind::Full) {
        config.unmatched[1] = names(&["order", "number"]);
    }
    config
}

/// The rows beside the output, in order: the side, the key, the number and the time of each, and its position.
pub(super) fn beside(outputs: &[Output]) -> Vec<(usize, Option<i64>, i64, i64, u64)> {
    let mut rows = Vec::new();
    for (side, batch) in outputs.iter().flat_map(|output| &output.unmatched_rows) {
        let names: Vec<&String> = batch.rows.schema_ref().fields().iter().map(|field| field.name()).collect();
        let (key, is_wide) = match side {
            0 => ("order_id", names == ["name", "order_id", "number"]),
            _ => ("order", names == ["order", "number"]),
        };
        assert!(is_wide, "{names:?}");
        let of = |name: &str| arrow_cast(batch.rows.column_by_name(name).unwrap());
        let (keys, numbers) = (of(key), of("number"));
        rows.extend((0..batch.len()).map(|row| {
            let key = keys.is_valid(row).then(|| keys.value(row));
            (*side, key, numbers.value(row), batch.times_ms[row], batch.positions[row])
        }));
    }
    rows
}

fn arrow_cast(column: &ArrayRef) -> Int64Array {
    match column.as_primitive_opt::<Int32Type>() {
        Some(narrow) => narrow.unary(i64::from),
        None => column.as_primitive::<Int64Type>().clone(),
    }
}

pub(super) fn join(kind: JoinKind) -> Join {
    Join::new(&left(), &right(), &config(kind)).unwrap()
}

pub(super) fn put(step: &mut Join, side: JoinSide, batch: Batch) -> Output {
    let (rows, held) = (batch.len() as u64, step.held());
    let probed = step.probe_of(side as usize, batch).unwrap();
    let out = step.finish(probed, &[]).unwrap();
    assert!(out.is_made);
    assert_eq!(out.added, out.batch.len() as u64, "every row that comes out was made");
    assert_eq!(out.late + out.absorbed + out.rejects.len() as u64, rows, "every row has a fate");
    assert_eq!(held + out.absorbed, step.held());
    out
}

/// What a cut does: the rows that a watermark lets out, and the delta.
pub(super) fn cut(step: &mut Join, watermark_ms: i64) -> (Vec<Output>, Bytes) {
    let held = step.held();
    let outputs = step.advance(watermark_ms).unwrap();
    for output in &outputs {
        assert!(output.is_made);
        assert_eq!(output.added, output.batch.len() as u64);
    }
    assert_eq!(outputs.iter().map(|output| output.released).sum::<u64>() + step.held(), held);
    (outputs, step.seal(watermark_ms))
}

/// Numbers of the left row and of the right one, and the time.
pub(super) type Found = (Option<i64>, Option<i64>, i64);

/// The rows of an output, in order, after a check that all columns are of the rows that the numbers say.
pub(super) fn found(batch: &Batch) -> Vec<Found> {
    let of = |name: &str| batch.rows.column_by_name(name).unwrap();
    let (lefts, rights) = (of("left_number").as_primitive::<Int64Type>(), of("right_number"));
    let rights = rights.as_primitive::<Int32Type>();
    let (ids, paid) = (of("id").as_fixed_size_binary(), of("paid").as_boolean());
    let one = |row: usize| {
        let left = lefts.is_valid(row).then(|| lefts.value(row));
        let right = rights.is_valid(row).then(|| i64::from(rights.value(row)));
        match left {
            Some(number) => {
                assert_eq!(ids.value(row), (number as u128).to_be_bytes());
                assert_eq!(paid.is_valid(row), number % 3 != 0);
                assert_eq!(paid.is_valid(row) && paid.value(row), number % 3 != 0 && number % 2 == 0);
                assert!(of("name").is_valid(row));
            }
            None => assert!(ids.is_null(row) && paid.is_null(row) && of("name").is_null(row)),
        }
        assert_eq!(of("note").is_valid(row), right.is_some());
        (left, right, batch.times_ms[row])
    };
    (0..batch.len()).map(one).collect()
}

#[test]
fn a_pair_is_made_when_its_later_arriving_row_comes_with_the_later_time() {
    let mut step = join(JoinKind::Inner);
    let out = put(
        &mut step,
        JoinSide::Left,
        batch(JoinSide::Left, &[(Some(1), 10, "a", 1_000), (Some(2), 11, "b", 1_000)]),
    );
    assert_eq!((out.absorbed, out.batch.len()), (2, 0));
    let rows = [(Some(1), 20, "x", 900), (Some(1), 21, "y", 1_050), (Some(3), 22, "z", 1_000)];
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &rows));
    assert_eq!(found(&out.batch), [(Some(10), Some(20), 1_000), (Some(10), Some(21), 1_050)]);
    assert_eq!(out.batch.positions, [0, 1]);
    assert_eq!((out.batch.partition.clone(), out.batch.era), (Partition::new("@join", 0), 0));
    assert_eq!(out.batch.rows.schema(), step.output().arrow().clone());
    let out = put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(3), 12, "c", 1_100)]));
    assert_eq!(found(&out.batch), [(Some(12), Some(22), 1_100)]);
    assert_eq!(out.batch.positions, [2], "positions go on");
    assert_eq!((step.held(), step.entries()), (6, 6));
}

#[test]
fn both_ends_of_the_interval_belong_to_it_and_nothing_beyond_does() {
    for (time_ms, matches) in [(899, 0), (900, 1), (1_000, 1), (1_050, 1), (1_051, 0)] {
        for first in JoinSide::BOTH {
            let mut step = join(JoinKind::Inner);
            let rows = [
                batch(JoinSide::Left, &[(Some(1), 1, "", 1_000)]),
                batch(JoinSide::Right, &[(Some(1), 2, "", time_ms)]),
            ];
            put(&mut step, first, rows[first as usize].clone());
            let out = put(&mut step, first.other(), rows[first.other() as usize].clone());
            assert_eq!(out.batch.len(), matches, "a right row at {time_ms}, {first:?} first");
        }
    }
}

#[test]
fn a_row_is_late_when_the_last_watermark_says_so_and_not_before() {
    let mut step = join(JoinKind::Inner);
    cut(&mut step, 1_020);
    let rows = [(Some(1), 1, "", 999), (Some(1), 2, "", 1_000)];
    let out = put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
    assert_eq!((out.late, out.absorbed), (1, 1));
    cut(&mut step, 500);
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &rows));
    assert_eq!((out.late, out.absorbed), (1, 1), "a watermark that goes back is held");
    assert_eq!(found(&out.batch), [(Some(2), Some(2), 1_000)]);
}

#[test]
fn a_row_is_released_by_the_first_watermark_after_which_nothing_can_match_it() {
    for kind in KINDS {
        let mut step = join(kind);
        put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "a", 1_000)]));
        put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(2), 2, "b", 1_000)]));
        let outer = [JoinSide::Left, JoinSide::Right].map(|side| kind.keeps(side));
        // Of the left row 1000 + 50 + 20 is the last instant, of the right one 1000 + 100 + 20.
        assert!(cut(&mut step, 1_070).0.is_empty());
        assert!(!step.is_due(1_070));
        assert_eq!(step.is_due(1_071), outer[0], "{kind:?}");
        let (outputs, _) = cut(&mut step, 1_071);
        assert_eq!((outputs[0].released, outputs[0].unmatched, step.held()), (1, 1, 1));
        let rows: Vec<Found> = outputs.iter().flat_map(|out| found(&out.batch)).collect();
        assert_eq!(rows, if outer[0] { vec![(Some(1), None, 1_000)] } else { vec![] });
        assert!(cut(&mut step, 1_120).0.is_empty());
        assert_eq!((step.is_due(1_120), step.is_due(1_121)), (false, outer[1]));
        let (outputs, _) = cut(&mut step, 1_121);
        assert_eq!((outputs[0].released, outputs[0].unmatched, step.held()), (1, 1, 0));
        let rows: Vec<Found> = outputs.iter().flat_map(|out| found(&out.batch)).collect();
        assert_eq!(rows, if outer[1] { vec![(None, Some(2), 1_000)] } else { vec![] });
    }
}

#[test]
fn rows_without_a_match_come_by_time_then_side_then_arrival() {
    let mut step = join(JoinKind::Full);
    put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(9), 1, "", 30), (Some(9), 2, "", 10)]));
    put(
        &mut step,
        JoinSide::Left,
        batch(JoinSide::Left, &[(Some(8), 3, "", 30), (None, 4, "", 20), (Some(8), 5, "", 20)]),
    );
    put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(None, 6, "", 10), (Some(8), 7, "", 500)]));
    let (outputs, _) = cut(&mut step, 400);
    let rows: Vec<Found> = outputs.iter().flat_map(|out| found(&out.batch)).collect();
    let expected = [
        (None, Some(2), 10),
        (None, Some(6), 10),
        (Some(4), None, 20),
        (Some(5), None, 20),
        (Some(3), None, 30),
        (None, Some(1), 30),
    ];
    assert_eq!(rows, expected);
    assert_eq!((outputs[0].released, outputs[0].unmatched), (6, 6));
    assert_eq!(outputs[0].batch.positions, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn rows_without_a_match_go_beside_the_output_with_the_columns_of_their_side() {
    let mut step = Join::new(&left(), &right(), &with_aside(JoinKind::Inner)).unwrap();
    let rows = [(Some(1), 1, "a", 10), (Some(2), 2, "b", 40), (None, 3, "c", 20)];
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
    let out = put(
        &mut step,
        JoinSide::Right,
        batch(JoinSide::Right, &[(Some(1), 4, "", 20), (Some(2), 5, "", 300)]),
    );
    assert_eq!(out.batch.positions, [0]);
    assert!(step.is_due(95) && !step.is_due(80), "a row that goes beside the output is due as one of it");
    let (outputs, _) = cut(&mut step, 1_000);
    assert_eq!((outputs[0].released, outputs[0].unmatched, outputs[0].batch.len()), (5, 3, 0));
    assert_eq!(beside(&outputs), [(0, None, 3, 20, 1), (0, Some(2), 2, 40, 2), (1, Some(2), 5, 300, 3)]);
    put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(9), 6, "", 2_000)]));
    let out = put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(9), 7, "", 2_000)]));
    assert_eq!(out.batch.positions, [4], "numbers go on behind them");
}

#[test]
fn a_row_goes_into_the_output_or_beside_it() {
    let refused = |change: &dyn Fn(&mut JoinConfig)| {
        let mut changed = with_aside(JoinKind::Left);
        change(&mut changed);
        Join::new(&left(), &right(), &changed).err().expect("a fault").to_string()
    };
    let told = refused(&|config| config.unmatched[0] = vec!["name".to_owned()]);
    assert!(told.contains("with the kind `left` left rows without a match are in the output"), "{told}");
    let told = refused(&|config| config.unmatched[1] = vec!["ordr".to_owned()]);
    assert!(told.contains("did you mean `order`?"), "{told}");
    let told = refused(&|config| config.unmatched[1].push("order".to_owned()));
    assert!(told.contains("join.unmatched"), "{told}");
}

/// Where rows without a match go is no setting of the state, as long as it has their columns.
#[test]
fn rows_that_were_held_before_go_beside_the_output_too() {
    let of = |unmatched: Vec<String>| {
        let config = JoinConfig { unmatched: [unmatched, Vec::new()], ..config(JoinKind::Inner) };
        Join::new(&left(), &right(), &config).unwrap()
    };
    let mut before = of(Vec::new());
    put(&mut before, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "a", 10), (Some(2), 2, "b", 400)]));
    let (outputs, delta) = cut(&mut before, 200);
    assert_eq!((outputs[0].unmatched, outputs[0].unmatched_rows.len()), (1, 0));
    let mut after = of(vec!["name".to_owned(), "number".to_owned()]);
    after.apply(&delta).unwrap();
    let (outputs, _) = cut(&mut after, 1_000);
    let (side, rows) = &outputs[0].unmatched_rows[0];
    assert_eq!((*side, &rows.times_ms[..], &rows.positions[..]), (0, &[400][..], &[1][..]));
    let wider = of(vec!["order_id".to_owned(), "name".to_owned()]);
    assert_eq!(wider.shape(), before.shape());
}

/// The state holds the same bytes for types of one form, and rows that it holds would come out with other values.
#[test]
fn types_of_one_form_that_mean_something_else_are_not_one_state() {
    let shape = |of: &ColumnType| {
        let left = Schema::new(vec![
            Column::new("order_id", nullable(ColumnType::Int64)),
            Column::new("number", ColumnType::Int64),
            Column::new("name", ColumnType::String),
            Column::new("id", of.clone()),
            Column::new("paid", nullable(ColumnType::Bool)),
        ]);
        let mut step = Join::new(&left, &right(), &config(JoinKind::Inner)).expect("the settings are valid");
        step.state().expect("it has state").shape()
    };
    let json = ColumnType::Json { parameters: None };
    let array = |of: &ColumnType| ColumnType::Array(Box::new(of.clone()));
    let map = |of: &ColumnType| ColumnType::Map(Box::new(ColumnType::String), Box::new(of.clone()));
    let forms: [&[ColumnType]; 3] = [
        &[ColumnType::Uuid, ColumnType::Ipv6, ColumnType::FixedString(16)],
        &[ColumnType::UInt32, ColumnType::Ipv4],
        &[ColumnType::String, json],
    ];
    for types in forms {
        for (n, one) in types.iter().enumerate() {
            for other in &types[n + 1..] {
                assert_eq!(one.arrow(), other.arrow());
                assert_ne!(shape(one), shape(other));
                assert_ne!(shape(&array(one)), shape(&array(other)));
                assert_ne!(shape(&map(one)), shape(&map(other)));
            }
            assert_eq!(shape(one), shape(&ColumnType::LowCardinality(Box::new(one.clone()))));
        }
    }
    // The words of most states are those of before.
    let uuid = shape(&ColumnType::Uuid);
    assert!(uuid.contains("id bytes(16)"), "{uuid}");
    let several = shape(&map(&ColumnType::Int32));
    assert!(several.contains("id map(string, int32)"), "{several}");
}

#[test]
fn a_null_in_the_key_matches_nothing() {
    let mut step = join(JoinKind::Full);
    let rows = [(None, 1, "", 10), (Some(5), 2, "", 10)];
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &rows));
    assert_eq!(found(&out.batch), [(Some(2), Some(2), 10)]);
    let (outputs, _) = cut(&mut step, i64::MAX);
    assert_eq!((outputs[0].released, outputs[0].unmatched), (4, 2));
}

#[test]
fn a_row_without_a_usable_time_is_a_reject() {
    let mut step = join(JoinKind::Inner);
    let rows = [
        (Some(1), 1, "", TIME_UNKNOWN_MS),
        (Some(1), 2, "", i64::MAX),
        (Some(1), 3, "", 1),
        (Some(1), 4, "", 1 - i64::MAX),
    ];
    let out = put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
    let told: Vec<_> = out.rejects.iter().map(|reject| (reject.position, reject.reason)).collect();
    assert_eq!(told, [(100, Reason::Missing), (101, Reason::OutOfRange), (103, Reason::OutOfRange)]);
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(1), 9, "", 1)]));
    assert_eq!(found(&out.batch), [(Some(3), Some(9), 1)]);
}

#[test]
fn the_watermark_behind_it_is_less_than_every_time_that_may_still_come() {
    let behind = |kind| join(kind).watermark_behind(1_000);
    assert_eq!(KINDS.map(behind), [980, 930, 880, 880]);
    assert_eq!(join(JoinKind::Full).watermark_behind(TIME_UNKNOWN_MS), i64::MIN);
}

/// A text column that came as Binary makes the output's Binary, and the bytes stay what they are.
#[test]
fn texts_that_are_not_utf_8_stay_what_they_are() {
    let mut step = join(JoinKind::Left);
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "a", 10)]));
    let odd = batch(JoinSide::Left, &[(Some(2), 2, "b", 10)]);
    let mut columns = odd.rows.columns().to_vec();
    columns[2] = Arc::new(BinaryArray::from_iter_values([b"\xff\x00"]));
    let fields: Vec<_> = odd
        .rows
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect();
    let rows = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap();
    put(&mut step, JoinSide::Left, Batch { rows, ..odd });
    let names = |out: &Output| -> Vec<Vec<u8>> {
        let column = out.batch.rows.column_by_name("name").unwrap();
        column.as_binary::<i32>().iter().flatten().map(<[u8]>::to_vec).collect()
    };
    let out = put(
        &mut step,
        JoinSide::Right,
        batch(JoinSide::Right, &[(Some(2), 1, "", 10), (Some(1), 1, "", 10)]),
    );
    assert_eq!(names(&out), [&b"\xff\x00"[..], b"a"]);
    cut(&mut step, 0);
    let mut again = join(JoinKind::Left);
    again.restore(&step.snapshot()).unwrap();
    let out = put(&mut again, JoinSide::Right, batch(JoinSide::Right, &[(Some(2), 1, "", 10)]));
    assert_eq!(names(&out), [b"\xff\x00"]);
}

#[test]
fn a_watermark_alone_is_part_of_the_delta() {
    let mut live = join(JoinKind::Inner);
    let (_, delta) = cut(&mut live, 5_000);
    let mut again = join(JoinKind::Inner);
    again.apply(&delta).unwrap();
    let out = put(&mut again, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "", 10)]));
    assert_eq!(out.late, 1, "as it was before the crash");
    assert!(cut(&mut live, 5_000).1.is_empty(), "nothing has changed");
}

#[test]
fn a_state_of_other_settings_is_refused_with_both() {
    let mut step = join(JoinKind::Inner);
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "", 10)]));
    cut(&mut step, 0);
    let error = join(JoinKind::Left).restore(&step.snapshot()).unwrap_err();
    let StateError::Configured { was, now, .. } = &error else { panic!("{error}") };
    assert!(was.contains("kind `inner`") && now.contains("kind `left`"), "{error}");
    let renamed = JoinConfig { columns: vec![], ..config(JoinKind::Inner) };
    let columns = config(JoinKind::Inner)
        .columns
        .into_iter()
        .map(|one| JoinColumn { name: format!("{}_", one.name), ..one });
    let renamed = JoinConfig { columns: columns.collect(), ..renamed };
    let mut renamed = Join::new(&left(), &right(), &renamed).unwrap();
    renamed.restore(&step.snapshot()).expect("names of the output are no part of the state");
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut JoinConfig)| {
        let mut changed = config(JoinKind::Left);
        change(&mut changed);
        Join::new(&left(), &right(), &changed).err().expect("a fault").to_string()
    };
    let on = |left: &str, right: &str| vec![(left.to_owned(), right.to_owned())];
    assert!(refused(&|c| c.on = on("order_ids", "order")).contains("did you mean `order_id`?"));
    assert!(refused(&|c| c.on.clear()).contains("name 1 to 16"));
    assert!(refused(&|c| c.on = vec![c.on[0].clone(); 2]).contains("`order_id` is named twice"));
    let message = refused(&|c| c.on = on("order_id", "note"));
    assert!(
        message.contains("kind `int`") && message.contains("`select note = CAST(note AS Int64)`"),
        "{message}"
    );
    assert!(refused(&|c| c.after = Duration::from_secs(1 << 40)).contains("join.after"));
    assert!(refused(&|c| c.columns.clear()).contains("join.columns"));
    assert!(refused(&|c| c.columns[0].name = "name".into()).contains("`name` is named twice"));
    let array = Schema::new(vec![
        Column::new("order", ColumnType::Int64),
        Column::new("tags", ColumnType::Array(Box::new(ColumnType::String))),
    ]);
    let with = |kind| {
        let config = JoinConfig { columns: vec![column("tags", JoinSide::Right, "tags")], ..config(kind) };
        Join::new(&left(), &array, &config)
    };
    assert!(with(JoinKind::Right).is_ok());
    let message = with(JoinKind::Left).err().unwrap().to_string();
    assert!(message.contains("can be NULL"), "{message}");
}

#[test]
fn columns_of_a_side_that_may_have_no_row_are_nullable() {
    let nullables = |kind| {
        let step = join(kind);
        let of = |name: &str| {
            step.output().columns()[step.output().index_of(name).unwrap()].column_type.is_nullable()
        };
        (of("left_number"), of("right_number"), of("note"))
    };
    assert_eq!(
        KINDS.map(nullables),
        [(false, false, true), (false, true, true), (true, false, true), (true, true, true)]
    );
}

#[test]
fn a_batch_without_the_number_of_its_input_is_a_fault() {
    let mut step = join(JoinKind::Inner);
    assert!(step.probe(batch(JoinSide::Left, &[])).is_err());
    assert!(step.probe_of(2, batch(JoinSide::Left, &[])).is_err());
    assert!(
        step.probe_of(1, batch(JoinSide::Left, &[(Some(1), 1, "", 1)])).is_err(),
        "columns of the other side"
    );
    assert!((step.inputs(), step.ahead_of(2).is_none()) == (2, true));
    let all: BTreeMap<&str, bool> = [("multiplies", step.multiplies()), ("absorbs", step.absorbs())].into();
    assert!(all.values().all(|is| *is));
}

#[test]
fn the_key_of_a_row_without_a_match_comes_from_the_side_that_is_there() {
    let mut step = join(JoinKind::Full);
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(7), 1, "a", 1_000), (None, 2, "b", 1_000)]));
    put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(8), 3, "c", 1_001)]));
    let (outputs, _) = cut(&mut step, 100_000);
    let keys: Vec<Option<i64>> = outputs
        .iter()
        .flat_map(|output| {
            let keys = output.batch.rows.column_by_name("key").expect("it is in the output");
            keys.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(keys, [Some(7), None, Some(8)], "the NULL is the left row's own");
}

#[test]
fn a_key_of_two_forms_cannot_stand_in_for_itself() {
    let config = JoinConfig {
        on: vec![("number".to_owned(), "number".to_owned())],
        columns: vec![column("number", JoinSide::Left, "number")],
        ..config(JoinKind::Full)
    };
    let told = Join::new(&left(), &right(), &config).err().expect("Int64 and Int32").to_string();
    assert!(told.contains("cast one of them in a step before the join"), "{told}");
    let inner = JoinConfig { kind: JoinKind::Left, ..config };
    assert!(Join::new(&left(), &right(), &inner).is_ok(), "there is always a left row");
}

#[test]
fn a_key_stands_in_only_for_one_of_a_type_that_has_all_its_values() {
    let told = |own: &ColumnType, other: &ColumnType, kind| {
        let of = |column_type: &ColumnType| Schema::new(vec![Column::new("key", column_type.clone())]);
        let config = JoinConfig {
            on: vec![("key".to_owned(), "key".to_owned())],
            columns: vec![column("key", JoinSide::Left, "key")],
            ..config(kind)
        };
        Join::new(&of(own), &of(other), &config).err().map(|error| error.to_string())
    };
    let at = |precision| ColumnType::DateTime64 { precision, timezone: None };
    let level = |names: &[(&str, i8)]| {
        ColumnType::Enum8(names.iter().map(|(name, number)| (Arc::from(*name), *number)).collect())
    };
    let (few, more) = (level(&[("low", 1)]), level(&[("low", 1), ("high", 2)]));
    for (narrow, wide) in [
        (ColumnType::Date, ColumnType::Date32),
        (ColumnType::DateTime { timezone: None }, at(0)),
        (at(1), at(2)),
        (few, nullable(more)),
    ] {
        let refused =
            told(&narrow, &wide, JoinKind::Full).expect("a right row alone has its key in the left column");
        assert!(refused.contains("give both the same type under `fields`"), "{refused}");
        assert_eq!(told(&narrow, &wide, JoinKind::Left), None, "there is always a left row");
        assert_eq!(told(&wide, &narrow, JoinKind::Full), None, "{wide:?} has all values of {narrow:?}");
    }
}

#[test]
fn the_key_of_a_side_alone_is_null_where_that_side_has_no_row() {
    let alone =
        |name: &str, side, from: &str| JoinColumn { is_of_side_alone: true, ..column(name, side, from) };
    let mut with_both = config(JoinKind::Full);
    with_both.columns.push(alone("left_key", JoinSide::Left, "order_id"));
    with_both.columns.push(alone("right_key", JoinSide::Right, "order"));
    let mut step = Join::new(&left(), &right(), &with_both).unwrap();
    put(
        &mut step,
        JoinSide::Left,
        batch(JoinSide::Left, &[(Some(7), 1, "a", 1_000), (Some(9), 2, "b", 1_000)]),
    );
    let pairs = put(
        &mut step,
        JoinSide::Right,
        batch(JoinSide::Right, &[(Some(8), 3, "c", 1_001), (Some(9), 4, "d", 1_001)]),
    );
    let (outputs, _) = cut(&mut step, 100_000);
    let keys = |batch: &Batch| -> Vec<[Option<i64>; 3]> {
        let of =
            |name: &str| batch.rows.column_by_name(name).expect("a key").as_primitive::<Int64Type>().clone();
        let all = ["key", "left_key", "right_key"].map(of);
        (0..batch.len())
            .map(|row| all.each_ref().map(|keys| keys.is_valid(row).then(|| keys.value(row))))
            .collect()
    };
    assert_eq!(keys(&pairs.batch), [[Some(9); 3]]);
    let lone: Vec<_> = outputs.iter().flat_map(|output| keys(&output.batch)).collect();
    assert_eq!(lone, [[Some(7), Some(7), None], [Some(8), None, Some(8)]]);
}
