use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Column, ColumnType, Operator, Partition, Schema};

use super::EventTime;

fn times(column_type: ColumnType, values: ArrayRef) -> Vec<i64> {
    let schema = Schema::new(vec![Column::new("at", ColumnType::Nullable(Box::new(column_type)))]);
    let mut step = EventTime::new(&schema, "at").unwrap();
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        positions: (0..values.len() as u64).collect(),
        times_ms: vec![-7; values.len()],
        rows: RecordBatch::try_new(schema.arrow().clone(), vec![values]).unwrap(),
    };
    let probed = step.probe(batch).unwrap();
    step.finish(probed, &[]).unwrap().batch.times_ms
}

fn time64(precision: u8) -> ColumnType {
    ColumnType::DateTime64 { precision, timezone: None }
}

#[test]
fn every_kind_of_time_becomes_milliseconds() {
    let date = Arc::new(Date32Array::from(vec![Some(1), None, Some(-1)]));
    assert_eq!(times(ColumnType::Date32, date), [86_400_000, TIME_UNKNOWN_MS, -86_400_000]);
    let seconds = Arc::new(TimestampSecondArray::from(vec![1_700_000_000]).with_timezone("UTC"));
    assert_eq!(times(ColumnType::DateTime { timezone: None }, seconds), [1_700_000_000_000]);
    let millis = Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("UTC"));
    assert_eq!(times(time64(3), millis), [-1]);
    let numbers = Arc::new(Int64Array::from(vec![Some(5), None]));
    assert_eq!(times(ColumnType::Int64, numbers), [5, TIME_UNKNOWN_MS]);
}

#[test]
fn finer_times_are_rounded_down_before_1970_too() {
    let micros = Arc::new(TimestampMicrosecondArray::from(vec![1999, -1]).with_timezone("UTC"));
    assert_eq!(times(time64(6), micros), [1, -1]);
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![1_999_999, -1]).with_timezone("UTC"));
    assert_eq!(times(time64(9), nanos), [1, -1]);
}

#[test]
fn numbers_that_are_no_time_leave_it_unknown() {
    let seconds = Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
    assert_eq!(times(ColumnType::DateTime { timezone: None }, seconds), [TIME_UNKNOWN_MS]);
    assert_eq!(
        times(ColumnType::UInt64, Arc::new(UInt64Array::from(vec![u64::MAX, 3]))),
        [TIME_UNKNOWN_MS, 3]
    );
}

#[test]
fn the_least_number_is_a_time_and_not_an_unknown_one() {
    let millis = TimestampMillisecondArray::from(vec![Some(i64::MIN), None, Some(i64::MAX)]);
    let expected = [i64::MIN + 1, TIME_UNKNOWN_MS, i64::MAX];
    assert_eq!(times(time64(3), Arc::new(millis.with_timezone("UTC"))), expected);
    let numbers = Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]);
    assert_eq!(times(ColumnType::Int64, Arc::new(numbers)), expected);
}

#[test]
fn a_column_that_holds_no_time_is_refused() {
    let schema = Schema::new(vec![Column::new("created_at", ColumnType::String)]);
    let error = EventTime::new(&schema, "created_at").err().unwrap().to_string();
    assert_eq!(
        error,
        "time: the column `created_at` is of type String; use a Date, DateTime, DateTime64, or an Int64 or UInt64 of unix \
         milliseconds"
    );
    let error = EventTime::new(&schema, "create_at").err().unwrap().to_string();
    assert_eq!(error, "time: there is no column `create_at`; did you mean `created_at`?");
}

#[test]
fn a_batch_of_another_schema_is_an_error() {
    let schema = Schema::new(vec![Column::new("at", ColumnType::Int64)]);
    let other = Schema::new(vec![Column::new("at", ColumnType::Int32)]);
    let mut step = EventTime::new(&schema, "at").unwrap();
    let rows =
        RecordBatch::try_new(other.arrow().clone(), vec![Arc::new(Int32Array::from(vec![1]))]).unwrap();
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows,
        positions: vec![0],
        times_ms: vec![0],
    };
    let probed = step.probe(batch).unwrap();
    let error = step.finish(probed, &[]).unwrap_err().to_string();
    assert_eq!(error, "step `event_time`: the column `at` came as `Int32`, expected `Int64`");
}
