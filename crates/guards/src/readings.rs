//! The step that decodes Avro, on records of the `flink` workload: 43 bytes, eight fields, each with a column.
//!
//! Owns the records and the columns. Does not own how they are counted.

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, Schema};
use formats::avro::{AvroDecoder, AvroOptions};

use crate::Work;
use crate::rows::RECORDS;

const WRITER: &str = r#"{"type": "record", "name": "SensorData", "fields": [
    {"name": "sensorId", "type": "int"}, {"name": "sensorType", "type": "int"},
    {"name": "temperature", "type": "double"}, {"name": "humidity", "type": "double"},
    {"name": "pressure", "type": "double"}, {"name": "batteryLevel", "type": "double"},
    {"name": "status", "type": "int"}, {"name": "timestamp", "type": "long"}]}"#;
/// Of the first record; each is a millisecond later.
const TIME_MS: i64 = 1_764_000_000_000;

pub(crate) fn decode() -> Work {
    let decoder = AvroDecoder::new(schema(), WRITER, AvroOptions::default()).expect("the columns fit");
    let mut builder = BlockBuilder::new(Partition::new("readings", 0), 0);
    let (mut blocks, mut record, mut random) = (Vec::new(), Vec::new(), 1);
    for n in 0..RECORDS {
        record.clear();
        reading(n, &mut random, &mut record);
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

fn reading(n: u64, random: &mut u64, out: &mut Vec<u8>) {
    let mut uniform = |from: f64, to: f64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (to - from) * (*random >> 11) as f64 / (1u64 << 53) as f64
    };
    long(uniform(0.0, 100_000.0) as i64, out);
    long(uniform(1.0, 9.0) as i64, out);
    for (from, to) in [(10.0, 40.0), (20.0, 80.0), (980.0, 1030.0), (20.0, 100.0)] {
        out.extend(uniform(from, to).to_le_bytes());
    }
    long(if uniform(0.0, 1.0) < 0.85 { 1 } else { uniform(2.0, 5.0) as i64 }, out);
    long(TIME_MS + n as i64, out);
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
