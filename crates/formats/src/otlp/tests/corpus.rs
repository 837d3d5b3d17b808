//! A corpus that another reader has read: Python's classes of the protocol (`corpus.py`), every value of every field.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use dataflow::{BlockBuilder, Decoder, Partition};
use serde_json::{Value, json};

use super::{LOGS, decoder};
use crate::otlp::Signal;
use crate::testing::schema;

const AROUND: [&str; 9] = [
    "ServiceName LowCardinality(String)",
    "ResourceAttributes Map(LowCardinality(String), String)",
    "ResourceSchemaUrl String",
    "ResourceDroppedAttrCount UInt32",
    "ScopeName String",
    "ScopeVersion String",
    "ScopeAttributes Map(LowCardinality(String), String)",
    "ScopeDroppedAttrCount UInt32",
    "ScopeSchemaUrl String",
];
const TRACES: [&str; 27] = [
    "Timestamp DateTime64(9)",
    "EndTimestamp DateTime64(9)",
    "Duration UInt64",
    "TraceId String",
    "SpanId String",
    "ParentSpanId String",
    "TraceState String",
    "TraceFlags UInt8",
    "Flags UInt32",
    "SpanName LowCardinality(String)",
    "SpanKind LowCardinality(String)",
    "SpanAttributes Map(LowCardinality(String), String)",
    "DroppedAttrCount UInt32",
    "DroppedEventsCount UInt32",
    "DroppedLinksCount UInt32",
    "StatusCode LowCardinality(String)",
    "StatusMessage String",
    "Events.Timestamp Array(DateTime64(9))",
    "Events.Name Array(LowCardinality(String))",
    "Events.Attributes Array(Map(LowCardinality(String), String))",
    "Events.DroppedAttrCount Array(UInt32)",
    "Links.TraceId Array(String)",
    "Links.SpanId Array(String)",
    "Links.TraceState Array(String)",
    "Links.Attributes Array(Map(LowCardinality(String), String))",
    "Links.DroppedAttrCount Array(UInt32)",
    "Links.Flags Array(UInt32)",
];
const METRICS: [&str; 32] = [
    "MetricType LowCardinality(String)",
    "MetricName String",
    "MetricDescription String",
    "MetricUnit String",
    "MetricMetadata Map(LowCardinality(String), String)",
    "Attributes Map(LowCardinality(String), String)",
    "StartTimeUnix DateTime64(9)",
    "TimeUnix DateTime64(9)",
    "Flags UInt32",
    "Value Float64",
    "AggregationTemporality Int32",
    "IsMonotonic Bool",
    "Count UInt64",
    "Sum Nullable(Float64)",
    "Min Nullable(Float64)",
    "Max Nullable(Float64)",
    "BucketCounts Array(UInt64)",
    "ExplicitBounds Array(Float64)",
    "Scale Int32",
    "ZeroCount UInt64",
    "ZeroThreshold Float64",
    "PositiveOffset Int32",
    "PositiveBucketCounts Array(UInt64)",
    "NegativeOffset Int32",
    "NegativeBucketCounts Array(UInt64)",
    "ValueAtQuantiles.Quantile Array(Float64)",
    "ValueAtQuantiles.Value Array(Float64)",
    "Exemplars.FilteredAttributes Array(Map(LowCardinality(String), String))",
    "Exemplars.TimeUnix Array(DateTime64(9))",
    "Exemplars.Value Array(Float64)",
    "Exemplars.SpanId Array(String)",
    "Exemplars.TraceId Array(String)",
];

/// A value in the form of the corpus.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let list = |items: &ArrayRef| -> Vec<Value> { (0..items.len()).map(|at| value(items, at)).collect() };
    match array.data_type() {
        DataType::UInt8 => json!(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt32 => json!(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Float64 => {
            json!(format!("{:016x}", array.as_primitive::<Float64Type>().value(row).to_bits()))
        }
        DataType::Timestamp(..) => json!(array.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::List(_) => json!(list(&array.as_list::<i32>().value(row))),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (list(entries.column(0)), list(entries.column(1)));
            json!(keys.into_iter().zip(values).map(|(key, value)| [key, value]).collect::<Vec<_>>())
        }
        other => panic!("no column has the form {other}"),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_value_is_what_another_reader_reads() {
    let with = |own: &[&'static str]| own.iter().chain(&AROUND).copied().collect::<Vec<_>>();
    let (traces, metrics) = (with(&TRACES), with(&METRICS));
    let mut rows = [0; 3];
    for signal in [Signal::Logs, Signal::Traces, Signal::Metrics] {
        let columns: &[&str] = match signal {
            Signal::Logs => &LOGS,
            Signal::Traces => &traces,
            Signal::Metrics => &metrics,
        };
        let decoder = decoder(signal, schema(columns)).expect("the columns fit");
        // All requests of a signal in one block, so that what one leaves behind would show in the next.
        let mut builder = BlockBuilder::new(Partition::new("corpus", 0), 0);
        let mut expected = Vec::new();
        for (n, line) in include_str!("corpus.jsonl").lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            if line["signal"] == signal.name() {
                let time_ms = line["time_ms"].as_i64().expect("a time");
                builder.push(n as u64, time_ms, Some(&bytes(line["request"].as_str().expect("a request"))));
                let of_request = line["rows"].as_array().expect("rows");
                expected.extend(of_request.iter().map(|row| (n as u64, row.clone())));
            }
        }
        let decoded = decoder.decode(&builder.take());
        assert_eq!(decoded.rejects, []);
        assert_eq!(decoded.batch.len(), expected.len());
        let batch = &decoded.batch.rows;
        for (row, (position, expected)) in expected.iter().enumerate() {
            assert_eq!(decoded.batch.positions[row], *position);
            let fields = batch.schema_ref().fields().iter().zip(batch.columns());
            let found: serde_json::Map<_, _> =
                fields.map(|(field, array)| (field.name().clone(), value(array, row))).collect();
            assert_eq!(Value::Object(found), *expected, "row {row} of {}, request {position}", signal.name());
        }
        rows[signal as usize] = expected.len();
    }
    assert!(rows.iter().all(|rows| *rows > 40), "{rows:?}");
}

#[test]
fn a_request_in_json_gives_the_rows_of_the_other_encoding() {
    let with = |own: &[&'static str]| own.iter().chain(&AROUND).copied().collect::<Vec<_>>();
    let (traces, metrics) = (with(&TRACES), with(&METRICS));
    let mut rows = 0;
    for line in include_str!("corpus.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let Some(json) = line["json"].as_str() else { continue };
        let (signal, columns): (_, &[&str]) = match line["signal"].as_str().expect("a signal") {
            "logs" => (Signal::Logs, &LOGS),
            "traces" => (Signal::Traces, &traces),
            _ => (Signal::Metrics, &metrics),
        };
        let decoder = decoder(signal, schema(columns)).expect("the columns fit");
        let wire = bytes(line["request"].as_str().expect("a request"));
        let decoded = super::decode(&decoder, &[json.as_bytes(), &wire]);
        assert_eq!(decoded.rejects, []);
        let half = decoded.batch.len() / 2;
        assert_eq!(decoded.batch.positions[..half], vec![100; half]);
        for row in 0..half {
            assert_eq!(crate::testing::row(&decoded, row), crate::testing::row(&decoded, half + row));
        }
        rows += half;
    }
    assert!(rows > 50, "{rows}");
}
