//! Records per CPU-second of the Avro decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the count that CI compares with a baseline (`guards::readings`),
//! nor the rate of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example avro_rate -- [records] [shape]`, by default 1,000,000 of `readings` (the Flink workload's
//! records: 43 bytes, eight fields, each with a column). The other shape is `some`: the same records, of which three fields have columns.

mod rate;
#[path = "rate/readings.rs"]
mod readings;

use dataflow::Schema;
use formats::avro::{AvroDecoder, AvroOptions};

const WRITER: &str = r#"{"type": "record", "name": "SensorData", "fields": [
    {"name": "sensorId", "type": "int"},
    {"name": "sensorType", "type": "int"},
    {"name": "temperature", "type": "double"},
    {"name": "humidity", "type": "double"},
    {"name": "pressure", "type": "double"},
    {"name": "batteryLevel", "type": "double"},
    {"name": "status", "type": "int"},
    {"name": "timestamp", "type": "long"}]}"#;

fn main() {
    let (records, shape) = rate::arguments();
    let is_wanted = match shape.as_deref() {
        None | Some("readings") => |_: &str| true,
        Some("some") => |field: &str| matches!(field, "sensorId" | "humidity" | "timestamp"),
        Some(other) => panic!("no shape `{other}`; there are readings and some"),
    };
    let columns = readings::columns().into_iter().filter(|column| is_wanted(&column.field)).collect();
    let decoder =
        AvroDecoder::new(Schema::new(columns), WRITER, AvroOptions::default()).expect("the columns fit");
    let mut random = 1;
    rate::print(&decoder, &rate::blocks(records, |n| record(n, &mut random)));
}

fn record(n: u64, random: &mut u64) -> Vec<u8> {
    let reading = readings::reading(n, random);
    let mut record = Vec::new();
    long(reading.sensor, &mut record);
    long(reading.kind, &mut record);
    reading.measured.iter().for_each(|value| record.extend(value.to_le_bytes()));
    long(reading.status, &mut record);
    long(reading.time_ms, &mut record);
    record
}

/// Appends a number that is not negative.
fn long(value: u64, out: &mut Vec<u8>) {
    let mut rest = value << 1;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
