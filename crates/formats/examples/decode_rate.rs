//! Records per CPU-second of the JSON decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the count that CI compares with a baseline (`guards::rows`), nor
//! the rate of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example decode_rate -- [records] [shape]`, by default 1,000,000 of `glassflow` (the
//! GlassFlow workload's records of 200 bytes). The other shape is `wide`: 1.7 KB with a text of 648 bytes, a float, eight
//! short texts and eight integers, and as many fields that no column asks for.
//!
//! Prints one line a repeat. The thread's own CPU time comes from the kernel (`/proc/thread-self/schedstat`), so other
//! processes do not count.

use std::hint::black_box;

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, RecordBlock, Schema};
use formats::json::{JsonDecoder, JsonOptions};

const REPEATS: usize = 7;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(1_000_000, |n| n.parse().expect("a number of records"));
    let (columns, record): (_, fn(u64) -> String) = match arguments.next().as_deref() {
        None | Some("glassflow") => (glassflow_columns(), glassflow_record),
        Some("wide") => (wide_columns(), wide_record),
        Some(other) => panic!("no shape `{other}`; there are glassflow and wide"),
    };
    let decoder = JsonDecoder::new(Schema::new(columns), JsonOptions::default()).expect("the schema is good");
    let blocks = blocks(records, record);
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

fn blocks(records: u64, record: fn(u64) -> String) -> Vec<RecordBlock> {
    let mut builder = BlockBuilder::new(Partition::new("events", 0), 0);
    let mut blocks = Vec::new();
    for n in 0..records {
        builder.push(n, 0, Some(record(n).as_bytes()));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    blocks
}

fn glassflow_columns() -> Vec<Column> {
    let column =
        |name, column_type, field: &str| Column { field: field.into(), ..Column::new(name, column_type) };
    vec![
        column("event_id", ColumnType::Uuid, "event_id"),
        column("user_id", ColumnType::Uuid, "user_id"),
        column("created_at", ColumnType::DateTime { timezone: None }, "created_at"),
        column("user_name", ColumnType::String, "name"),
        column("user_email", ColumnType::String, "email"),
    ]
}

/// A record as the workload's generator writes it, from a counter instead of chance.
fn glassflow_record(n: u64) -> String {
    const NAMES: [&str; 5] = ["Ana Silva", "Maximilian Brandt", "Li Wei", "Charlotte Dubois", "John Smith"];
    let mix = |salt: u64| {
        let x = (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let uuid = |salt| {
        let (a, b) = (mix(salt), mix(salt + 1));
        let (time, middle, version) = (a >> 32, a >> 16 & 0xffff, a & 0xfff);
        let (variant, node) = (b >> 48 & 0xfff, b & 0xffff_ffff_ffff);
        format!("{time:08x}-{middle:04x}-4{version:03x}-a{variant:03x}-{node:012x}")
    };
    let time = format!(
        "2024-{:02}-{:02} {:02}:{:02}:{:02}",
        1 + n % 12,
        1 + n / 12 % 28,
        n % 24,
        n / 24 % 60,
        n % 60
    );
    let name = NAMES[(mix(5) >> 40) as usize % NAMES.len()];
    format!(
        "{{\"event_id\": \"{}\", \"user_id\": \"{}\", \"name\": \"{name}\", \"email\": \"user{:07}@example.com\", \
         \"created_at\": \"{time}\"}}",
        uuid(1),
        uuid(3),
        n % 10_000_000
    )
}

fn wide_columns() -> Vec<Column> {
    let mut columns =
        vec![Column::new("message", ColumnType::String), Column::new("rate", ColumnType::Float64)];
    for k in 0..8 {
        columns.push(Column::new(format!("text_{k}"), ColumnType::String));
        columns.push(Column::new(format!("number_{k}"), ColumnType::Int64));
    }
    columns
}

fn wide_record(n: u64) -> String {
    let message = "flow of a device, ".repeat(36);
    let mut record = format!("{{\"message\": \"{message}\", \"rate\": {}.25", n % 1000);
    for k in 0..8 {
        let number = n * (k + 7) * 1_000_003;
        record += &format!(", \"text_{k}\": \"host-{:08}\", \"number_{k}\": {number}", n + k);
        record +=
            &format!(", \"other_{k}\": [{n}, \"x\"], \"unknown_{k}\": {{\"a\": null, \"b\": \"text\"}}");
    }
    record + "}"
}
