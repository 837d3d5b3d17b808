use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array,
    Int32Array, RecordBatch, StringArray, TimestampMillisecondArray, TimestampSecondArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use dataflow::{Batch, Column, ColumnType, Operator, Partition, Schema};

use crate::window::{Aggregate, Function, Window, WindowConfig, Windows};

const ROWS: u64 = 300;

fn fixed(width: i32, value: impl Fn(u64) -> Vec<u8>) -> ArrayRef {
    let mut builder = FixedSizeBinaryBuilder::new(width);
    (0..ROWS).for_each(|n| builder.append_value(value(n)).unwrap());
    Arc::new(builder.finish())
}

fn each<T, A: FromIterator<T> + Array + 'static>(value: impl Fn(u64) -> T) -> ArrayRef {
    Arc::new((0..ROWS).map(value).collect::<A>())
}

/// The columns that the server had: `n` counts rows from 0.
fn columns() -> Vec<(&'static str, ColumnType, ArrayRef)> {
    use ColumnType as T;
    let zone = || Some(Arc::from("UTC"));
    let decimal = |precision: u8, value: fn(i128) -> i128| -> ArrayRef {
        let values = Decimal128Array::from_iter_values((0..ROWS).map(|n| value(i128::from(n))));
        Arc::new(values.with_precision_and_scale(precision, 2).unwrap())
    };
    let decimal_type = |precision| T::Decimal { precision, scale: 2 };
    let millis = |each: i64| -> ArrayRef {
        let values = TimestampMillisecondArray::from_iter_values((0..ROWS as i64).map(|n| n * each));
        Arc::new(values.with_timezone("UTC"))
    };
    let seconds = TimestampSecondArray::from_iter_values((0..ROWS as i64).map(|n| n * 60));
    let uuid = |n: u64| {
        let mut bytes = vec![0; 16];
        bytes[..4].copy_from_slice(&(n as u32).to_be_bytes());
        bytes[15] = 0xff;
        bytes
    };
    // The server compares the second half first, and the halves disagree.
    let halves = |n: u64| [n.to_be_bytes(), (ROWS - 1 - n).to_be_bytes()].concat();
    let number = |n: u64, value: f64| if n.is_multiple_of(3) { f64::NAN } else { value };
    let opt = |n: u64| (!n.is_multiple_of(3)).then(|| format!("v{n}"));
    vec![
        ("u8", T::UInt8, each::<_, UInt8Array>(|n| Some((n % 256) as u8))),
        ("i16", T::Int16, each::<_, Int16Array>(|n| Some(n as i16 - 150))),
        ("i32", T::Int32, each::<_, Int32Array>(|n| Some(n as i32 * -7))),
        ("u64", T::UInt64, each::<_, UInt64Array>(|n| Some(n * 1_000_000_000))),
        ("f32", T::Float32, each::<_, Float32Array>(|n| Some(n as f32 / 4.0))),
        ("f64", T::Float64, each::<_, Float64Array>(|n| Some(n as f64 / 8.0))),
        ("dec9", decimal_type(9), decimal(9, |n| n * 100)),
        ("dec38", decimal_type(38), decimal(38, |n| -n * 100)),
        ("text", T::String, each::<_, StringArray>(|n| Some(format!("v{n}")))),
        ("opt", T::Nullable(Box::new(T::String)), each::<_, StringArray>(opt)),
        ("none", T::Nullable(Box::new(T::UInt64)), each::<_, UInt64Array>(|_| None::<u64>)),
        (
            "low",
            T::LowCardinality(Box::new(T::String)),
            each::<_, StringArray>(|n| Some((n % 5).to_string())),
        ),
        ("fixed", T::FixedString(4), fixed(4, |n| format!("{n:04}").into_bytes())),
        ("uuid", T::Uuid, fixed(16, uuid)),
        ("day", T::Date, each::<_, Date32Array>(|n| Some(n as i32))),
        ("at", T::DateTime { timezone: zone() }, Arc::new(seconds.with_timezone("UTC"))),
        ("at3", T::DateTime64 { precision: 3, timezone: zone() }, millis(1_001)),
        ("at2", T::DateTime64 { precision: 2, timezone: zone() }, millis(10)),
        ("ip", T::Ipv4, each::<_, UInt32Array>(|n| Some(n as u32))),
        ("yes", T::Bool, each::<_, BooleanArray>(|n| Some(n % 2 == 1))),
        ("id", T::Uuid, fixed(16, halves)),
        ("hot", T::Float64, each::<_, Float64Array>(|n| Some(number(n, n as f64 / 8.0)))),
        ("warm", T::Float32, each::<_, Float32Array>(|n| Some(number(n, n as f64 / 4.0) as f32))),
        ("nans", T::Float64, each::<_, Float64Array>(|_| Some(f64::NAN))),
        (
            "gone",
            T::Nullable(Box::new(T::Float64)),
            each::<_, Float64Array>(|n| (!n.is_multiple_of(3)).then_some(f64::NAN)),
        ),
        ("never", T::Bool, each::<_, BooleanArray>(|_| Some(false))),
    ]
}

/// The state of one aggregate of all rows, as the server's `hex` shows it.
fn state_of(aggregate: Aggregate) -> String {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, column_type, array) in columns() {
        fields.push(Column::new(name, column_type));
        arrays.push(array);
    }
    let schema = Schema::new(fields);
    let config = WindowConfig {
        key: Vec::new(),
        windows: Windows::Tumbling { size: Duration::from_secs(1) },
        lateness: Duration::ZERO,
        aggregates: vec![Aggregate::new("n", Function::Count, None), aggregate],
        emit: None,
    };
    let mut step = Window::new(&schema, &config).unwrap();
    let rows = RecordBatch::try_new(schema.arrow().clone(), arrays).unwrap();
    let all = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows,
        positions: (0..ROWS).collect(),
        times_ms: vec![10; ROWS as usize],
    };
    let probed = step.probe(all).unwrap();
    step.finish(probed, &[]).unwrap();
    let outputs = step.advance(1_000).unwrap();
    let rows = &outputs[0].batch.rows;
    let state = rows.column_by_name("s").unwrap().as_binary::<i32>().value(0).to_vec();
    state.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn aggregate(text: &str) -> Aggregate {
    let (function, arguments) = text.strip_suffix(')').unwrap().split_once('(').unwrap();
    let (column, by) = match arguments.split_once(", ") {
        Some((column, by)) => (column, Some(by.to_owned())),
        None => (arguments, None),
    };
    let column = (!column.is_empty()).then_some(column);
    let function = Function::named(function).unwrap();
    let numbers = match function {
        Function::Quantiles => vec![500_000, 900_000],
        Function::Quantile => vec![500_000],
        _ => Vec::new(),
    };
    Aggregate { by, numbers, is_state: true, ..Aggregate::new("s", function, column) }
}

#[test]
fn states_are_byte_for_byte_those_of_the_server() {
    for line in include_str!("states.txt").lines().filter(|line| !line.starts_with('#')) {
        let [text, of_all, of_none] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(state_of(aggregate(text)), of_all, "{text}");
        let never = Aggregate { condition: Some("never".to_owned()), ..aggregate(text) };
        assert_eq!(state_of(never), of_none, "{text} of no row");
    }
}

#[test]
fn states_that_are_not_made_are_refused_with_a_way_out() {
    let refused = |function, column| {
        let aggregate = Aggregate { is_state: true, ..Aggregate::new("s", function, Some(column)) };
        aggregate.check().unwrap_err()
    };
    assert!(refused(Function::CountDistinct, "text").contains("materialized view"));
    assert!(refused(Function::Last, "text").contains("argMaxState(x, at)"));
    let distinct = Aggregate { is_state: true, distinct: true, ..aggregate("sum(u64)") };
    assert!(distinct.check().unwrap_err().contains("takes no `distinct`"));
}
