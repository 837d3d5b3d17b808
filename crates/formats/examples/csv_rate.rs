//! Records per CPU-second of the CSV decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the count that CI compares with a baseline (`guards::rows`), nor
//! the rate of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example csv_rate -- [records] [shape]`, by default 1,000,000 of `glassflow` (the GlassFlow workload's
//! records, as lines of 130 bytes: five fields, each with a column). The other shapes are `quoted`: the same with quotes around every field,
//! and `some`: two of the fields have columns.

mod rate;

use dataflow::{Column, ColumnType, Schema};
use formats::csv::{CsvDecoder, CsvOptions};

const FIELDS: [&str; 5] = ["event_id", "user_id", "name", "email", "created_at"];

fn main() {
    let (records, shape) = rate::arguments();
    let (mut columns, mut quote) = (columns(), "");
    match shape.as_deref() {
        None | Some("glassflow") => {}
        Some("quoted") => quote = "\"",
        Some("some") => columns.truncate(2),
        Some(other) => panic!("no shape `{other}`; there are glassflow, quoted and some"),
    }
    let options = CsvOptions { columns: FIELDS.map(String::from).into(), ..CsvOptions::default() };
    let decoder = CsvDecoder::new(Schema::new(columns), options).expect("the schema is good");
    rate::print(&decoder, &rate::blocks(records, |n| record(n, quote)));
}

fn columns() -> Vec<Column> {
    let column =
        |name, column_type, field: &str| Column { field: field.into(), ..Column::new(name, column_type) };
    vec![
        column("event_id", ColumnType::Uuid, "event_id"),
        column("created_at", ColumnType::DateTime { timezone: None }, "created_at"),
        column("user_id", ColumnType::Uuid, "user_id"),
        column("user_name", ColumnType::String, "name"),
        column("user_email", ColumnType::String, "email"),
    ]
}

/// A record with values as the workload's generator makes them, from a counter instead of chance.
fn record(n: u64, quote: &str) -> String {
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
    let (month, day) = (1 + n % 12, 1 + n / 12 % 28);
    let time = format!("2024-{month:02}-{day:02} {:02}:{:02}:{:02}", n % 24, n / 24 % 60, n % 60);
    let name = NAMES[(mix(5) >> 40) as usize % NAMES.len()];
    let email = format!("user{:07}@example.com", n % 10_000_000);
    let fields =
        [uuid(1), uuid(3), name.to_owned(), email, time].map(|field| format!("{quote}{field}{quote}"));
    fields.join(",")
}
