//! Records per CPU-second of the Avro decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the count that CI compares with a baseline (`guards::readings`),
//! nor the rate of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example avro_rate -- [records] [shape]`, by default 1,000,000 of `readings` (the Flink workload's
//! records: 43 bytes, eight fields, each with a column). The other shape is `some`: the same records, of which three fields have columns.
//!
//! Prints one line a repeat. The thread's own CPU time comes from the kernel (`/proc/thread-self/schedstat`), so other
//! processes do not count.

use std::hint::black_box;

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, RecordBlock, Schema};
use formats::avro::{AvroDecoder, AvroOptions};

const REPEATS: usize = 7;

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
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(1_000_000, |n| n.parse().expect("a number of records"));
    let is_wanted = match arguments.next().as_deref() {
        None | Some("readings") => |_: &str| true,
        Some("some") => |field: &str| matches!(field, "sensorId" | "humidity" | "timestamp"),
        Some(other) => panic!("no shape `{other}`; there are readings and some"),
    };
    let columns = columns().into_iter().filter(|column| is_wanted(&column.field)).collect();
    let decoder =
        AvroDecoder::new(Schema::new(columns), WRITER, AvroOptions::default()).expect("the columns fit");
    let blocks = blocks(records);
    let bytes: usize = blocks.iter().map(|b| b.payloads.bytes.len()).sum();
    println!("{records} records, {:.1} bytes each", bytes as f64 / records as f64);
    for _ in 0..REPEATS {
        let start = cpu_ns();
        let mut rows = 0;
        for block in &blocks {
            let decoded = black_box(decoder.decode(black_box(block)));
            assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects.first());
            rows += decoded.batch.len() as u64;
        }
        let seconds = (cpu_ns() - start) as f64 / 1e9;
        assert_eq!(rows, records);
        println!(
            "{:.4} CPU-s per million records, {:.2} million records per CPU-s, {:.2} GB/s",
            seconds * 1e6 / records as f64,
            records as f64 / seconds / 1e6,
            bytes as f64 / seconds / 1e9,
        );
    }
}

fn columns() -> Vec<Column> {
    use ColumnType::{DateTime64, Float64, Int32, UInt8};
    let column = |field: &str, column_type| Column::new(field, column_type);
    vec![
        column("sensorId", Int32),
        column("sensorType", UInt8),
        column("temperature", Float64),
        column("humidity", Float64),
        column("pressure", Float64),
        column("batteryLevel", Float64),
        column("status", UInt8),
        column("timestamp", DateTime64 { precision: 3, timezone: Some("UTC".into()) }),
    ]
}

/// Blocks of about 1 MiB of readings, as a source hands them out.
fn blocks(records: u64) -> Vec<RecordBlock> {
    let mut builder = BlockBuilder::new(Partition::new("readings", 0), 0);
    let (mut blocks, mut record, mut random) = (Vec::new(), Vec::new(), 1);
    for n in 0..records {
        record.clear();
        reading(n, &mut random, &mut record);
        builder.push(n, 0, Some(&record));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    blocks
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
    long(1_764_000_000_000 + n as i64 / 1_000, out);
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// CPU time of this thread so far.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("schedstat begins with nanoseconds")
}
