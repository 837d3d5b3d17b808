//! The steps that decode Avro and Protobuf, on records of the `flink` workload: eight fields, each with a column; 43 bytes in Avro, 51 in Protobuf.
//!
//! Owns the records and the columns. Does not own how they are counted.

use std::sync::Arc;

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, Schema};
use formats::avro::{AvroDecoder, AvroOptions};
use formats::protobuf::{ProtobufDecoder, ProtobufOptions, Types};

use crate::Work;
use crate::rows::RECORDS;

const WRITER: &str = r#"{"type": "record", "name": "SensorData", "fields": [
    {"name": "sensorId", "type": "int"}, {"name": "sensorType", "type": "int"},
    {"name": "temperature", "type": "double"}, {"name": "humidity", "type": "double"},
    {"name": "pressure", "type": "double"}, {"name": "batteryLevel", "type": "double"},
    {"name": "status", "type": "int"}, {"name": "timestamp", "type": "long"}]}"#;
const TYPES: &str = r#"syntax = "proto3";
message SensorData {
    int32 sensorId = 1; int32 sensorType = 2; double temperature = 3; double humidity = 4; double pressure = 5; double batteryLevel = 6;
    int32 status = 7; int64 timestamp = 8;
}"#;
/// Of the first record; each is a millisecond later.
const TIME_MS: i64 = 1_764_000_000_000;

pub(crate) fn decode() -> Work {
    let decoder = AvroDecoder::new(schema(), WRITER, AvroOptions::default()).expect("the columns fit");
    decoding(decoder, |reading, out| {
        long(reading.sensor, out);
        long(reading.kind, out);
        reading.measured.iter().for_each(|value| out.extend(value.to_le_bytes()));
        long(reading.status, out);
        long(reading.time_ms, out);
    })
}

pub(crate) fn decode_protobuf() -> Work {
    let types = Types::of_text("t.proto", Arc::new(|name| Ok((name == "t.proto").then(|| TYPES.to_owned()))));
    let types = types.expect("the text has no mistake");
    let decoder = ProtobufDecoder::new(schema(), &types, "SensorData", ProtobufOptions::default());
    decoding(decoder.expect("the columns fit"), |reading, out| {
        varint(1, reading.sensor, out);
        varint(2, reading.kind, out);
        for (field, value) in (3..).zip(reading.measured) {
            out.push(field << 3 | 1);
            out.extend(value.to_le_bytes());
        }
        varint(7, reading.status, out);
        varint(8, reading.time_ms, out);
    })
}

/// The work of a decoder on records as `write` writes them.
fn decoding(decoder: impl Decoder + 'static, write: impl Fn(&Reading, &mut Vec<u8>)) -> Work {
    let mut builder = BlockBuilder::new(Partition::new("readings", 0), 0);
    let (mut blocks, mut record, mut random) = (Vec::new(), Vec::new(), 1);
    for n in 0..RECORDS {
        record.clear();
        write(&reading(n, &mut random), &mut record);
        builder.push(n, TIME_MS, Some(&record));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    Box::new(move || blocks.iter().map(|block| decoder.decode(block).batch.len() as u64).sum())
}

fn schema() -> Schema {
    use ColumnType::{DateTime64, Float64, Int32, UInt8};
    Schema::new(vec![
        Column::new("sensorId", Int32),
        Column::new("sensorType", UInt8),
        Column::new("temperature", Float64),
        Column::new("humidity", Float64),
        Column::new("pressure", Float64),
        Column::new("batteryLevel", Float64),
        Column::new("status", UInt8),
        Column::new("timestamp", DateTime64 { precision: 3, timezone: None }),
    ])
}

/// The values of a record.
struct Reading {
    sensor: i64,
    kind: i64,
    measured: [f64; 4],
    status: i64,
    time_ms: i64,
}

fn reading(n: u64, random: &mut u64) -> Reading {
    let mut uniform = |from: f64, to: f64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (to - from) * (*random >> 11) as f64 / (1u64 << 53) as f64
    };
    Reading {
        sensor: uniform(0.0, 100_000.0) as i64,
        kind: uniform(1.0, 9.0) as i64,
        measured: [(10.0, 40.0), (20.0, 80.0), (980.0, 1030.0), (20.0, 100.0)]
            .map(|(from, to)| uniform(from, to)),
        status: if uniform(0.0, 1.0) < 0.85 { 1 } else { uniform(2.0, 5.0) as i64 },
        time_ms: TIME_MS + n as i64,
    }
}

/// Appends a number as Avro writes it.
pub(crate) fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a field with a number that is not negative, as Protobuf writes it.
fn varint(field: u8, value: i64, out: &mut Vec<u8>) {
    out.push(field << 3);
    let mut rest = value as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
