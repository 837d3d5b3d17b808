//! Records per CPU-second of the JSON decoder on records of the GlassFlow workload's shape.
//!
//! `cargo run --release -p decode --example decode_rate -- [records]` (default 1,000,000). Prints one line a repeat; the
//! thread's own CPU time comes from the kernel (`/proc/thread-self/schedstat`), so other processes do not count.

use std::hint::black_box;
use std::sync::Arc;

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, RecordBlock, Schema};
use decode::json::{JsonDecoder, JsonOptions};

const REPEATS: usize = 7;

fn main() {
    let records: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of records"));
    let column =
        |name, column_type, field: &str| Column { field: field.into(), ..Column::new(name, column_type) };
    let schema = Schema::new(vec![
        column("event_id", ColumnType::Uuid, "event_id"),
        column("user_id", ColumnType::Uuid, "user_id"),
        column("created_at", ColumnType::DateTime { timezone: None }, "created_at"),
        column("user_name", ColumnType::String, "name"),
        column("user_email", ColumnType::String, "email"),
    ]);
    let decoder = JsonDecoder::new(schema, JsonOptions::default()).expect("the schema is good");
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
            bytes as f64 / seconds / 1e9
        );
    }
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    stat.split(' ').next().and_then(|n| n.parse().ok()).expect("the first number is the time on a CPU")
}

/// Records as the workload's generator writes them, from a counter instead of chance.
fn blocks(records: u64) -> Vec<RecordBlock> {
    let names: Arc<[&str]> =
        ["Ana Silva", "Maximilian Brandt", "Li Wei", "Charlotte Dubois", "John Smith"].into();
    let mut builder = BlockBuilder::new(Partition::new("user_events", 0), 0);
    let mut blocks = Vec::new();
    for n in 0..records {
        let mix = |salt: u64| {
            let x = (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let uuid = |salt| {
            let (a, b) = (mix(salt), mix(salt + 1));
            format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                a >> 32,
                a >> 16 & 0xffff,
                a & 0xfff,
                b >> 48 & 0xfff,
                b & 0xffff_ffff_ffff
            )
        };
        let name = names[(mix(5) >> 40) as usize % names.len()];
        let record = format!(
            "{{\"event_id\": \"{}\", \"user_id\": \"{}\", \"name\": \"{name}\", \"email\": \"user{:07}@example.com\", \
             \"created_at\": \"2024-{:02}-{:02} {:02}:{:02}:{:02}\"}}",
            uuid(1),
            uuid(3),
            n % 10_000_000,
            1 + n % 12,
            1 + n / 12 % 28,
            n % 24,
            n / 24 % 60,
            n % 60
        );
        builder.push(n, 0, Some(record.as_bytes()));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    blocks
}
