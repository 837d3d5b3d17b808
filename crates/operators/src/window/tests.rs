use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    RecordBatch, StringArray, TimestampSecondArray,
};
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Column, ColumnType, Operator, Output, Partition, Reason, Schema, State, StateError};

use super::{Aggregate, Clock, Emit, Function, Window, WindowConfig, Windows};

mod arrays;
mod emits;
mod extremes;
mod fires;
mod model;
mod signs;
pub(super) mod spills;

const SIZE: i64 = 1_000;

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

pub(super) fn schema() -> Schema {
    Schema::new(vec![
        Column::new("device", nullable(ColumnType::String)),
        Column::new("amount", nullable(ColumnType::Int64)),
        Column::new("heat", ColumnType::Float64),
        Column::new("price", ColumnType::Decimal { precision: 10, scale: 2 }),
        Column::new("even", nullable(ColumnType::Bool)),
    ])
}

/// A row: device, amount, heat, time.
type Row = (Option<&'static str>, Option<i64>, f64, i64);

pub(super) fn batch(rows: &[Row]) -> Batch {
    let devices: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>());
    let amounts: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
    let heats: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)));
    let prices = Decimal128Array::from_iter_values(rows.iter().map(|row| i128::from(row.1.unwrap_or(0))));
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(10, 2).unwrap());
    let evens = rows.iter().map(|row| row.1.map(|amount| amount % 2 == 0)).collect::<BooleanArray>();
    let columns = vec![devices, amounts, heats, prices, Arc::new(evens) as ArrayRef];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema().arrow().clone(), columns).unwrap(),
        positions: (100..100 + rows.len() as u64).collect(),
        times_ms: rows.iter().map(|row| row.3).collect(),
    }
}

fn aggregate(name: &str, function: Function, column: &str) -> Aggregate {
    Aggregate::new(name, function, (!column.is_empty()).then_some(column))
}

pub(super) fn config(lateness_ms: i64) -> WindowConfig {
    WindowConfig {
        key: vec!["device".to_owned()],
        windows: Windows::Tumbling { size: Duration::from_millis(SIZE as u64) },
        lateness: Duration::from_millis(lateness_ms as u64),
        emit: None,
        aggregates: vec![
            aggregate("n", Function::Count, ""),
            aggregate("amounts", Function::Count, "amount"),
            aggregate("total", Function::Sum, "amount"),
            aggregate("average", Function::Avg, "amount"),
            aggregate("least", Function::Min, "amount"),
            aggregate("greatest", Function::Max, "amount"),
            aggregate("first", Function::First, "amount"),
            aggregate("last", Function::Last, "amount"),
            aggregate("heat", Function::Sum, "heat"),
            aggregate("mean_heat", Function::Avg, "heat"),
            aggregate("paid", Function::Sum, "price"),
        ],
    }
}

pub(super) fn window(lateness_ms: i64) -> Window {
    Window::new(&schema(), &config(lateness_ms)).unwrap()
}

/// Every function that `config` does not have.
pub(super) fn others(lateness_ms: i64) -> WindowConfig {
    let of = |name, function, column| aggregate(name, function, column);
    let by = |one: Aggregate, by: &str| Aggregate { by: Some(by.to_owned()), ..one };
    let numbers = |one: Aggregate, numbers: &[u64]| Aggregate { numbers: numbers.to_vec(), ..one };
    let distinct = |one: Aggregate| Aggregate { distinct: true, ..one };
    let even = |one: Aggregate| Aggregate { condition: Some("even".to_owned()), ..one };
    let aggregates = vec![
        of("n", Function::Count, ""),
        even(of("n_even", Function::Count, "")),
        even(of("total_even", Function::Sum, "amount")),
        of("amounts", Function::CountDistinct, "amount"),
        distinct(of("devices", Function::Count, "device")),
        distinct(of("total_once", Function::Sum, "amount")),
        of("any", Function::Any, "amount"),
        by(of("at_least", Function::ArgMin, "heat"), "amount"),
        by(of("at_most", Function::ArgMax, "device"), "heat"),
        of("all_even", Function::BoolAnd, "even"),
        of("one_even", Function::BoolOr, "even"),
        of("about", Function::ApproxCountDistinct, "amount"),
        numbers(of("values", Function::GroupArray, "amount"), &[3]),
        numbers(of("middle", Function::Quantile, "amount"), &[500_000]),
        numbers(of("ends", Function::Quantiles, "heat"), &[0, 900_000, 1_000_000]),
        of("variance", Function::VarPop, "heat"),
        of("deviation", Function::StddevSamp, "amount"),
    ];
    WindowConfig { aggregates, ..config(lateness_ms) }
}

pub(super) fn put(step: &mut Window, batch: Batch) -> Output {
    let rows = batch.len() as u64;
    let probed = step.probe(batch).unwrap();
    let out = step.finish(probed, &[]).unwrap();
    assert!(out.batch.is_empty(), "a row leaves the step when its window closes");
    assert_eq!(out.late + out.absorbed + out.rejects.len() as u64, rows, "every row has a fate");
    out
}

/// What a cut does: the results that a watermark lets out, and the delta.
pub(super) fn cut(step: &mut Window, watermark_ms: i64) -> (Vec<Output>, Bytes) {
    let outputs = step.advance(watermark_ms).unwrap();
    for output in &outputs {
        assert_eq!(output.added, output.batch.len() as u64 + output.rejects.len() as u64);
    }
    (outputs, step.seal(watermark_ms))
}

type Numbers = (u64, u64, Option<i64>, Option<f64>, [Option<i64>; 4], f64, f64, i128);

/// The results by window and device.
fn results(outputs: &[Output]) -> BTreeMap<(i64, Option<String>), Numbers> {
    let mut found = BTreeMap::new();
    for output in outputs {
        let rows = &output.batch.rows;
        let int = |name: &str, row: usize| {
            let array = rows.column_by_name(name).unwrap().as_primitive::<Int64Type>();
            array.is_valid(row).then(|| array.value(row))
        };
        let uint = |name: &str, row: usize| {
            rows.column_by_name(name).unwrap().as_primitive::<UInt64Type>().value(row)
        };
        let float = |name: &str, row: usize| {
            let array = rows.column_by_name(name).unwrap().as_primitive::<Float64Type>();
            array.is_valid(row).then(|| array.value(row))
        };
        for row in 0..rows.num_rows() {
            let devices = rows.column_by_name("device").unwrap().as_string::<i32>();
            let device = devices.is_valid(row).then(|| devices.value(row).to_owned());
            let bound = |name: &str| {
                rows.column_by_name(name).unwrap().as_primitive::<TimestampMillisecondType>().value(row)
            };
            let start = bound("window_start");
            assert_eq!(bound("window_end"), start + SIZE);
            assert_eq!(output.batch.times_ms[row], start + SIZE - 1);
            let numbers = (
                uint("n", row),
                uint("amounts", row),
                int("total", row),
                float("average", row),
                ["least", "greatest", "first", "last"].map(|name| int(name, row)),
                float("heat", row).unwrap(),
                float("mean_heat", row).unwrap(),
                rows.column_by_name("paid").unwrap().as_primitive::<Decimal128Type>().value(row),
            );
            assert!(found.insert((start, device), numbers).is_none(), "a result is there twice");
        }
    }
    found
}

#[test]
fn a_window_has_one_row_for_each_key_with_the_aggregates_of_its_rows() {
    let mut step = window(0);
    put(
        &mut step,
        batch(&[(Some("a"), Some(5), 1.5, 10), (Some("b"), None, 2.0, 20), (None, Some(7), 3.0, 30)]),
    );
    put(
        &mut step,
        batch(&[
            (Some("a"), Some(-2), 0.5, 5),
            (Some("a"), None, 4.0, 999),
            (Some("a"), Some(9), 0.0, 1_000),
        ]),
    );
    assert_eq!((step.held(), step.entries()), (6, 4));
    assert!(cut(&mut step, 999).0.is_empty(), "a record of the last millisecond may come");
    assert!(step.is_due(1_000) && !step.is_due(999));
    let (outputs, _) = cut(&mut step, 1_000);
    let found = results(&outputs);
    let a = (3, 2, Some(3), Some(1.5), [Some(-2), Some(5), Some(-2), Some(5)], 6.0, 2.0, 3);
    let b = (1, 0, None, None, [None; 4], 2.0, 2.0, 0);
    let none = (1, 1, Some(7), Some(7.0), [Some(7); 4], 3.0, 3.0, 7);
    let expected = [((0, Some("a".to_owned())), a), ((0, Some("b".to_owned())), b), ((0, None), none)];
    assert_eq!(found, expected.into());
    assert_eq!(outputs.iter().map(|output| output.released).sum::<u64>(), 5);
    assert_eq!(step.held(), 1, "the window after is open");
}

#[test]
fn variances_have_the_divisor_of_their_name_and_decimals_their_point() {
    let functions =
        [Function::VarPop, Function::VarSamp, Function::StddevPop, Function::StddevSamp, Function::Avg];
    for (column, unit) in [("heat", 1.0), ("price", 0.01)] {
        let aggregates =
            functions.iter().map(|function| aggregate(function.word(), *function, column)).collect();
        let config = WindowConfig { key: Vec::new(), aggregates, ..config(0) };
        let found = |values: &[i64]| -> Vec<Option<f64>> {
            let mut step = Window::new(&schema(), &config).unwrap();
            // A seal between the two halves, so that their groups are merged.
            for half in values.chunks(values.len().div_ceil(2)) {
                let rows: Vec<Row> =
                    half.iter().map(|value| (Some("a"), Some(*value), *value as f64, 10)).collect();
                put(&mut step, batch(&rows));
                assert!(cut(&mut step, 0).0.is_empty());
            }
            let (outputs, _) = cut(&mut step, SIZE);
            let result = |function: &Function| {
                let results = outputs[0].batch.rows.column_by_name(function.word()).unwrap();
                let results = results.as_primitive::<Float64Type>();
                results.is_valid(0).then(|| results.value(0))
            };
            functions.iter().map(result).collect()
        };
        let several = [4.0, 32.0 / 7.0, 2.0, (32.0_f64 / 7.0).sqrt(), 5.0].map(Some);
        let one = [Some(0.0), None, Some(0.0), None, Some(5.0)];
        for (values, expected) in [(&[2, 4, 4, 4, 5, 5, 7, 9][..], several), (&[5][..], one)] {
            for ((function, found), expected) in functions.iter().zip(found(values)).zip(expected) {
                let is_square = matches!(function, Function::VarPop | Function::VarSamp);
                let expected = expected.map(|value| value * if is_square { unit * unit } else { unit });
                let is_near = match (found, expected) {
                    (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                    (found, expected) => found == expected,
                };
                assert!(is_near, "{} of {column}: {found:?} is not {expected:?}", function.word());
            }
        }
    }
}

/// A field gets a narrower type while windows are open: the state goes on, for both are whole numbers.
#[test]
fn a_value_that_a_narrower_type_does_not_hold_ends_the_run_and_becomes_no_other_number() {
    let of = |function, column: &str| aggregate("x", function, column);
    let cases = [
        (false, of(Function::Max, "amount")),
        (false, of(Function::First, "amount")),
        (false, of(Function::Any, "amount")),
        (false, Aggregate { by: Some("amount".to_owned()), ..of(Function::ArgMin, "amount") }),
        (false, Aggregate { numbers: vec![2], ..of(Function::GroupArray, "amount") }),
        (false, Aggregate { distinct: true, ..of(Function::Sum, "amount") }),
        (true, of(Function::Count, "")),
    ];
    for (is_key, aggregate) in cases {
        let key = if is_key { vec!["amount".to_owned()] } else { Vec::new() };
        let aggregates = vec![aggregate.clone()];
        let config = WindowConfig { key, aggregates, ..config(0) };
        let schema = |of_type| Schema::new(vec![Column::new("amount", of_type)]);
        let step = |of_type| Window::new(&schema(of_type), &config).unwrap();
        let amounts: ArrayRef = Arc::new(Int64Array::from(vec![5_000_000_000_i64]));
        let rows = RecordBatch::try_new(schema(ColumnType::Int64).arrow().clone(), vec![amounts]).unwrap();
        let mut before = step(ColumnType::Int64);
        put(
            &mut before,
            Batch {
                items: Vec::new(),
                era: 0,
                partition: Partition::new("t", 0),
                rows,
                positions: vec![0],
                times_ms: vec![10],
            },
        );
        let (_, delta) = cut(&mut before, 0);
        let (mut narrow, mut wide) = (step(ColumnType::Int32), step(ColumnType::Int64));
        assert_eq!(narrow.shape(), before.shape());
        narrow.apply(&delta).unwrap();
        let error = narrow.advance(SIZE).unwrap_err();
        assert!(error.message.contains("wider type again"), "{aggregate:?}: {}", error.message);
        wide.apply(&delta).unwrap();
        let outputs = wide.advance(SIZE).unwrap();
        assert_eq!(outputs[0].batch.len(), 1, "{aggregate:?}");
    }
}

/// The table would refuse one of them, and with it all that comes with it.
#[test]
fn a_date_a_time_or_a_decimal_that_a_narrower_type_does_not_hold_ends_the_run_with_the_way_out() {
    let decimal = |precision| ColumnType::Decimal { precision, scale: 2 };
    let day = |day: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![day])) };
    let cents = |cents: i128| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![cents]).with_precision_and_scale(20, 2).unwrap())
    };
    let second =
        |second: i64| -> ArrayRef { Arc::new(TimestampSecondArray::from(vec![second]).with_timezone("UTC")) };
    let seconds = ColumnType::DateTime64 { precision: 0, timezone: None };
    let cases = [
        (ColumnType::Date32, ColumnType::Date, [day(-1), day(65_536)], day(65_535)),
        (decimal(20), decimal(9), [cents(1_000_000_000), cents(-1_000_000_000)], cents(-999_999_999)),
        (seconds, ColumnType::DateTime { timezone: None }, [second(-1), second(1 << 32)], second(0)),
    ];
    for (wide, narrow, beyond, within) in cases {
        for (is_key, value) in [(true, &beyond[0]), (false, &beyond[1]), (true, &within), (false, &within)] {
            let (key, one) = match is_key {
                true => (vec!["value".to_owned()], aggregate("n", Function::Count, "")),
                false => (Vec::new(), aggregate("last", Function::Max, "value")),
            };
            let config = WindowConfig { key, aggregates: vec![one], ..config(0) };
            let schema = |of: &ColumnType| Schema::new(vec![Column::new("value", of.clone())]);
            let step = |of: &ColumnType| Window::new(&schema(of), &config).unwrap();
            let rows = RecordBatch::try_new(schema(&wide).arrow().clone(), vec![value.clone()]).unwrap();
            let (mut before, mut after) = (step(&wide), step(&narrow));
            let partition = Partition::new("t", 0);
            put(
                &mut before,
                Batch { items: Vec::new(), era: 0, partition, rows, positions: vec![0], times_ms: vec![10] },
            );
            let (_, delta) = cut(&mut before, 0);
            assert_eq!(after.shape(), before.shape());
            after.apply(&delta).unwrap();
            match after.advance(SIZE) {
                Ok(outputs) => {
                    assert!(Arc::ptr_eq(value, &within), "{wide:?} to {narrow:?}: {is_key}");
                    assert_eq!(outputs[0].batch.len(), 1);
                }
                Err(error) => {
                    assert!(error.message.contains("wider type again"), "{error}");
                    assert!(!Arc::ptr_eq(value, &within), "{wide:?} to {narrow:?}: {is_key}");
                }
            }
        }
    }
}

#[test]
fn late_rows_come_out_as_they_came_if_they_are_asked_for() {
    let mut step = window(0).with_late_rows(true);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 10)]));
    step.advance(SIZE).unwrap();
    let probed = step
        .probe(batch(&[
            (Some("b"), Some(2), 0.0, SIZE + 1),
            (None, Some(3), 1.5, 20),
            (Some("c"), None, 0.0, 30),
        ]))
        .unwrap();
    let out = step.finish(probed, &[]).unwrap();
    let late = out.late_rows.expect("two are late");
    assert_eq!(
        (out.late, out.absorbed, &late.positions[..], &late.times_ms[..]),
        (0, 1, &[101, 102][..], &[20, 30][..])
    );
    assert_eq!(late.rows.schema(), schema().arrow().clone());
    assert_eq!(late.rows.column(2).as_primitive::<Float64Type>().values()[..], [1.5, 0.0]);
}

#[test]
fn late_rows_of_sessions_are_those_that_join_none() {
    let windows = Windows::Session { gap: Duration::from_millis(100), max: Duration::from_millis(1_000) };
    let config = WindowConfig { windows, ..config(0) };
    let mut step = Window::new(&schema(), &config).unwrap().with_late_rows(true);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 300)]));
    step.advance(390).unwrap();
    // All but the last would be late alone. The first joins the session of its key, and the third what that has become.
    let probed = step
        .probe(batch(&[
            (Some("a"), Some(2), 0.0, 210),
            (Some("b"), Some(3), 0.0, 210),
            (Some("a"), Some(4), 0.0, 120),
            (Some("a"), Some(5), 0.0, 20),
            (Some("b"), Some(6), 0.0, 295),
        ]))
        .unwrap();
    let out = step.finish(probed, &[]).unwrap();
    let late = out.late_rows.expect("two are late");
    assert_eq!((out.late, out.absorbed, &late.positions[..]), (0, 3, &[101, 103][..]));
    assert_eq!(late.rows.schema(), schema().arrow().clone());
}

#[test]
fn a_row_is_late_once_its_window_is_closed_and_not_before() {
    let mut step = window(500);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 10)]));
    assert!(cut(&mut step, 1_499).0.is_empty());
    assert_eq!(put(&mut step, batch(&[(Some("a"), Some(2), 0.0, 20)])).late, 0);
    let (outputs, _) = cut(&mut step, 1_500);
    assert_eq!(results(&outputs)[&(0, Some("a".to_owned()))].2, Some(3));
    let out = put(&mut step, batch(&[(Some("a"), Some(4), 0.0, 30), (Some("a"), Some(8), 0.0, 1_000)]));
    assert_eq!((out.late, out.absorbed), (1, 1));
    let (outputs, _) = cut(&mut step, 10_000);
    assert_eq!(results(&outputs).len(), 1, "what is late opens no window again");
    assert!(cut(&mut step, 5_000).0.is_empty(), "a watermark that goes back closes nothing");
    assert_eq!(put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 8_000)])).late, 1, "and opens nothing");
}

#[test]
fn windows_before_1970_begin_at_whole_multiples_too() {
    let mut step = window(0);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, -1), (Some("a"), Some(2), 0.0, -1_000)]));
    let (outputs, _) = cut(&mut step, 0);
    assert_eq!(results(&outputs).keys().next().unwrap().0, -1_000);
}

#[test]
fn a_row_without_a_time_is_a_reject() {
    let mut step = window(0);
    let rows = [
        (Some("a"), Some(1), 0.0, TIME_UNKNOWN_MS),
        (Some("a"), Some(1), 0.0, i64::MAX),
        (Some("a"), None, 0.0, 1),
    ];
    let out = put(&mut step, batch(&rows));
    let told: Vec<_> = out.rejects.iter().map(|reject| (reject.position, reject.reason)).collect();
    assert_eq!(told, [(100, Reason::Missing), (101, Reason::OutOfRange)]);
    assert_eq!(out.absorbed, 1);
}

#[test]
fn of_one_time_first_is_the_first_read_and_last_the_last() {
    let mut step = window(0);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 7), (Some("a"), Some(2), 0.0, 7)]));
    put(&mut step, batch(&[(Some("a"), Some(3), 0.0, 7)]));
    cut(&mut step, 0);
    put(&mut step, batch(&[(Some("a"), Some(4), 0.0, 7)]));
    let (outputs, _) = cut(&mut step, 1_000);
    let [.., first, last] = results(&outputs).into_values().next().unwrap().4;
    assert_eq!((first, last), (Some(1), Some(4)));
}

#[test]
fn a_sum_that_does_not_fit_is_a_dead_letter_with_its_row_and_the_others_go_on() {
    let mut step = window(0);
    let rows =
        [(Some("a"), Some(i64::MAX), 0.0, 1), (Some("a\"b"), Some(2), 0.0, 2), (Some("a"), Some(1), 0.0, 3)];
    put(&mut step, batch(&rows));
    let (outputs, _) = cut(&mut step, 1_000);
    assert_eq!(
        results(&outputs).keys().map(|(_, device)| device.clone().unwrap()).collect::<Vec<_>>(),
        ["a\"b"]
    );
    let [reject] = &outputs[0].rejects[..] else { panic!("one reject") };
    assert_eq!((reject.reason, reject.column.as_str()), (Reason::OutOfRange, "total"));
    let raw = std::str::from_utf8(&reject.raw).unwrap();
    assert!(raw.starts_with(r#"{"device":"a","window_start":"1970-01-01T00:00:00Z","#), "{raw}");
    assert!(raw.contains(r#""n":"2""#) && raw.contains(r#""total":null"#), "{raw}");
    assert_eq!(outputs[0].released, 3);
}

#[test]
fn without_a_key_there_is_one_row_a_window() {
    let config = WindowConfig { key: vec![], ..config(0) };
    let mut step = Window::new(&schema(), &config).unwrap();
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 1), (Some("b"), Some(2), 0.0, 2)]));
    let (outputs, _) = cut(&mut step, 1_000);
    let rows = &outputs[0].batch.rows;
    assert_eq!((rows.num_rows(), rows.num_columns()), (1, 13));
    assert_eq!(rows.column_by_name("total").unwrap().as_primitive::<Int64Type>().value(0), 3);
}

/// Whatever is cut where, a start from any snapshot and the deltas after it has the state that was there, and lets out the same rows.
#[test]
fn a_start_from_any_snapshot_goes_on_as_if_nothing_had_happened() {
    let devices = [Some("a"), Some("b"), None, Some("a long name of a device")];
    let mut live = window(300);
    let (mut snapshots, mut deltas) = (vec![live.snapshot()], Vec::new());
    let (mut all, mut number) = (Vec::new(), 1_u64);
    for round in 0..30_i64 {
        for _ in 0..3 {
            let rows: Vec<Row> = (0..20)
                .map(|_| {
                    number = number
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let random = (number >> 33) as i64;
                    let amount = (random % 5 != 0).then_some(random % 100);
                    (devices[random as usize % 4], amount, random as f64 / 7.0, round * 200 + random % 700)
                })
                .collect();
            put(&mut live, batch(&rows));
        }
        let (outputs, delta) = cut(&mut live, round * 200);
        all.push(results(&outputs));
        deltas.push(delta);
        snapshots.push(live.snapshot());
    }
    assert!(all.iter().flatten().count() > 10, "windows were closed");
    for (from, snapshot) in snapshots.iter().enumerate() {
        let mut again = window(300);
        again.restore(snapshot).unwrap();
        deltas[from..].iter().for_each(|delta| again.apply(delta).unwrap());
        assert_eq!(again.snapshot(), live.snapshot(), "bit for bit, from snapshot {from}");
        assert_eq!((again.held(), again.entries()), (live.held(), live.entries()));
        let (outputs, _) = cut(&mut again, 1 << 40);
        let mut same = window(300);
        same.restore(&live.snapshot()).unwrap();
        assert_eq!(results(&outputs), results(&cut(&mut same, 1 << 40).0));
    }
}

#[test]
fn a_watermark_alone_is_part_of_the_delta() {
    let mut live = window(0);
    let (_, delta) = cut(&mut live, 5_000);
    let mut again = window(0);
    again.apply(&delta).unwrap();
    assert_eq!(
        put(&mut again, batch(&[(Some("a"), Some(1), 0.0, 10)])).late,
        1,
        "as it was before the crash"
    );
    assert!(cut(&mut live, 5_000).1.is_empty(), "nothing has changed");
}

#[test]
fn a_state_of_other_settings_is_refused_with_both() {
    let mut step = window(0);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 10)]));
    cut(&mut step, 0);
    let error = window(1).restore(&step.snapshot()).unwrap_err();
    let StateError::Configured { was, now, .. } = &error else { panic!("{error}") };
    assert!(was.contains("lateness `0ms`") && now.contains("lateness `1ms`"), "{error}");
}

#[test]
fn a_float_that_became_nullable_is_named_where_its_state_cannot_be_read() {
    let all = schema();
    let columns = all.columns().iter().map(|column| match column.name.as_str() {
        "heat" => Column::new("heat", nullable(ColumnType::Float64)),
        _ => column.clone(),
    });
    let mut before = window(0);
    put(&mut before, batch(&[(Some("a"), Some(1), 0.5, 10)]));
    let (_, delta) = cut(&mut before, 0);
    let mut after = Window::new(&Schema::new(columns.collect()), &config(0)).unwrap();
    assert_eq!(after.shape(), before.shape());
    for error in [after.apply(&delta).unwrap_err(), after.restore(&before.snapshot()).unwrap_err()] {
        assert!(error.to_string().contains("became Nullable"), "{error}");
    }
}

#[test]
fn open_windows_that_cannot_be_spilled_end_the_run_beyond_the_memory_and_say_what_to_do() {
    let (clock, version) = (Clock::EventTime, Some("version".to_owned()));
    let emit = Some(Emit { early: None, clock, updates: true, version, sign: Some("sign".to_owned()) });
    let mut step = Window::new(&schema(), &WindowConfig { emit, ..config(0) }).unwrap().with_memory(5_000);
    put(&mut step, batch(&[(Some("a"), Some(1), 0.0, 10)]));
    cut(&mut step, 0);
    let rows: Vec<Row> = (0..100).map(|at| (Some("a"), Some(1), 0.0, at * SIZE)).collect();
    put(&mut step, batch(&rows));
    let error = step.advance(0).unwrap_err().to_string();
    assert!(error.contains("Raise `memory`") && error.contains("`100` results"), "{error}");
    assert!(step.advance(SIZE * 200).is_ok(), "closed ones need none");
}

#[test]
fn texts_that_are_not_utf_8_stay_what_they_are() {
    let schema = Schema::new(vec![Column::new("name", ColumnType::String)]);
    let config = WindowConfig {
        key: vec!["name".to_owned()],
        aggregates: vec![aggregate("least", Function::Min, "name")],
        ..config(0)
    };
    let mut step = Window::new(&schema, &config).unwrap();
    let names: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"\xff\x00", b"ab"]));
    let rows = RecordBatch::try_from_iter([("name", names)]).unwrap();
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows,
        positions: vec![0, 1],
        times_ms: vec![0, 0],
    };
    put(&mut step, batch);
    let (outputs, _) = cut(&mut step, SIZE);
    let rows = &outputs[0].batch.rows;
    for name in ["name", "least"] {
        let found: Vec<&[u8]> =
            rows.column_by_name(name).unwrap().as_binary::<i32>().iter().flatten().collect();
        assert_eq!(found, [&b"\xff\x00"[..], b"ab"]);
    }
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut WindowConfig)| {
        let mut changed = config(0);
        change(&mut changed);
        Window::new(&schema(), &changed).err().expect("a fault").to_string()
    };
    let of = |function, column: &str| {
        let one = vec![aggregate("x", function, column)];
        refused(&move |config: &mut WindowConfig| config.aggregates = one.clone())
    };
    assert!(refused(&|c| c.key = vec!["devise".into()]).contains("did you mean `device`?"));
    assert!(refused(&|c| c.key = vec!["device".into(), "device".into()]).contains("named twice"));
    assert!(refused(&|c| c.windows = Windows::Tumbling { size: Duration::ZERO }).contains("`size`"));
    assert!(refused(&|c| c.aggregates.clear()).contains("at least one aggregate"));
    assert!(of(Function::Sum, "device").contains("use an integer, a Float or a Decimal"));
    assert!(of(Function::Sum, "").contains("`sum` needs a column"));
    assert!(refused(&|c| c.aggregates[0].name = "device".into()).contains("`device` is named twice"));
}

/// Of an id, and the sum, the least and the greatest of two columns beside the count: what the published benchmark keeps.
#[test]
fn an_open_pair_of_an_id_and_seven_aggregates_takes_at_most_96_bytes() {
    let columns = [("id", ColumnType::Int64), ("amount", ColumnType::Int64), ("heat", ColumnType::Float64)];
    let schema = Schema::new(columns.map(|(name, of_type)| Column::new(name, of_type)).to_vec());
    let mut aggregates = vec![aggregate("n", Function::Count, "")];
    for (at, column) in ["amount", "heat"].into_iter().enumerate() {
        for function in [Function::Sum, Function::Min, Function::Max] {
            aggregates.push(aggregate(&format!("{}_{at}", function.word()), function, column));
        }
    }
    let config = WindowConfig { key: vec!["id".to_owned()], aggregates, ..config(0) };
    let mut step = Window::new(&schema, &config).unwrap();
    for from in (0..100_000_i64).step_by(5_000) {
        let ids = || (from..from + 5_000).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids())),
            Arc::new(Int64Array::from_iter_values(0..5_000)),
            Arc::new(Float64Array::from_iter_values((0..5_000).map(f64::from))),
        ];
        let rows = RecordBatch::try_new(schema.arrow().clone(), columns).unwrap();
        let positions = (0..5_000).collect();
        put(
            &mut step,
            Batch {
                items: Vec::new(),
                era: 0,
                partition: Partition::new("t", 0),
                rows,
                positions,
                times_ms: vec![0; 5_000],
            },
        );
        cut(&mut step, 0);
    }
    assert_eq!(step.entries(), 100_000);
    let bytes = step.memory_bytes() as f64 / step.entries() as f64;
    assert!(bytes <= 96.0, "{bytes} bytes a pair");
}

#[test]
fn closing_lets_everything_out_with_the_least_watermark_that_does() {
    let kinds = [
        (Windows::Hopping { size: Duration::from_millis(1_000), slide: Duration::from_millis(250) }, 2_750),
        (Windows::Session { gap: Duration::from_millis(300), max: Duration::from_secs(10) }, 2_100),
    ];
    for (windows, end) in kinds {
        let config = WindowConfig { windows, ..config(100) };
        let mut step = Window::new(&schema(), &config).unwrap().with_close_at_end(true);
        put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
        cut(&mut step, 10);
        put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 1_800)]));
        let outputs = step.close(1_000).unwrap();
        let delta = step.seal(1_000);
        assert_eq!((outputs.iter().map(|output| output.released).sum::<u64>(), step.held()), (2, 0));
        let mut again = Window::new(&schema(), &config).unwrap();
        again.apply(&delta).unwrap();
        for step in [&mut step, &mut again] {
            // What is closed stays closed, though the lane's watermark is less; what follows has a window.
            assert_eq!(put(step, batch(&[(Some("a"), Some(1), 1.0, end - 1_100)])).late, 1);
            assert_eq!(put(step, batch(&[(Some("a"), Some(1), 1.0, end + 100)])).absorbed, 1);
        }
    }
}

#[test]
fn the_dead_letter_of_a_result_shows_its_key_as_the_server_would() {
    let names: Arc<[(Arc<str>, i8)]> = Arc::from([(Arc::from("low"), 1_i8), (Arc::from("high"), 2)]);
    let schema = Schema::new(vec![
        Column::new("level", ColumnType::Enum8(names)),
        Column::new("ip", ColumnType::Ipv4),
        Column::new("code", ColumnType::FixedString(4)),
        Column::new("id", ColumnType::Uuid),
        Column::new("amount", ColumnType::UInt64),
    ]);
    let fixed = |bytes: &[u8]| -> ArrayRef {
        Arc::new(arrow_array::FixedSizeBinaryArray::try_from_iter([bytes, bytes].into_iter()).unwrap())
    };
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(arrow_array::Int8Array::from(vec![2, 2])),
        Arc::new(arrow_array::UInt32Array::from(vec![0x0102_0304, 0x0102_0304])),
        fixed(b"ab\0\0"),
        fixed(&std::array::from_fn::<u8, 16, _>(|at| at as u8 * 0x11)),
        Arc::new(arrow_array::UInt64Array::from(vec![u64::MAX, 1])),
    ];
    let config = WindowConfig {
        key: ["level", "ip", "code", "id"].map(str::to_owned).to_vec(),
        aggregates: vec![aggregate("total", Function::Sum, "amount")],
        ..config(0)
    };
    let mut step = Window::new(&schema, &config).unwrap();
    let rows = RecordBatch::try_new(schema.arrow().clone(), arrays).unwrap();
    let of = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows,
        positions: vec![0, 1],
        times_ms: vec![10, 20],
    };
    put(&mut step, of);
    let outputs = step.advance(SIZE).unwrap();
    let raw = String::from_utf8(outputs[0].rejects[0].raw.clone()).unwrap();
    let key = r#"{"level":"high","ip":"1.2.3.4","code":"ab","id":"00112233-4455-6677-8899-aabbccddeeff","#;
    assert!(raw.starts_with(key), "{raw}");
}

#[test]
fn a_batch_over_many_windows_has_the_results_of_one_over_few() {
    let rows: Vec<Row> = (0..60_i64).map(|n| (Some("a"), Some(n), n as f64, n * 397 % 12_000)).collect();
    let (mut whole, mut parts) = (window(0), window(0));
    put(&mut whole, batch(&rows));
    for row in &rows {
        put(&mut parts, batch(std::slice::from_ref(row)));
    }
    let (whole, parts) = (cut(&mut whole, 100_000).0, cut(&mut parts, 100_000).0);
    assert_eq!(results(&whole).len(), 12);
    assert_eq!(results(&whole), results(&parts));
}

/// `cargo test -p operators --lib bytes_of_an_open_pair -- --ignored --nocapture`
#[test]
#[ignore = "a figure for people, of a million keys"]
fn bytes_of_an_open_pair() {
    let schema = Schema::new(["id", "a", "b"].map(|name| Column::new(name, ColumnType::Int64)).to_vec());
    let of = |name: &str| {
        [Function::Sum, Function::Min, Function::Max].map(|f| aggregate(&format!("{f:?}{name}"), f, name))
    };
    let aggregates = [vec![aggregate("n", Function::Count, "")], of("a").to_vec(), of("b").to_vec()].concat();
    let config = WindowConfig { key: vec!["id".to_owned()], aggregates, ..config(0) };
    let mut step = Window::new(&schema, &config).unwrap();
    for from in (0..1_000_000_i64).step_by(5_000) {
        let column = || -> ArrayRef { Arc::new(Int64Array::from_iter_values(from..from + 5_000)) };
        let rows = RecordBatch::try_new(schema.arrow().clone(), vec![column(), column(), column()]).unwrap();
        let (positions, times_ms) = ((0..5_000).collect(), vec![10; 5_000]);
        put(
            &mut step,
            Batch { items: Vec::new(), era: 0, partition: Partition::new("t", 0), rows, positions, times_ms },
        );
        cut(&mut step, 0);
    }
    eprintln!("{} bytes a pair", step.memory_bytes() as f64 / step.entries() as f64);
}
