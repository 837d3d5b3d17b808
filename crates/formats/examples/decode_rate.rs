//! Records per CPU-second of the JSON decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the count that CI compares with a baseline (`guards::rows`), nor
//! the rate of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example decode_rate -- [records] [shape]`, by default 1,000,000 of `glassflow` (the
//! GlassFlow workload's records of 200 bytes). The other shape is `wide`: 1.7 KB with a text of 648 bytes, a float, eight
//! short texts and eight integers, and as many fields that no column asks for.

mod rate;

use dataflow::{Column, ColumnType, Schema};
use formats::json::{JsonDecoder, JsonOptions};

fn main() {
    let (records, shape) = rate::arguments();
    let (columns, record): (_, fn(u64) -> String) = match shape.as_deref() {
        None | Some("glassflow") => (glassflow_columns(), glassflow_record),
        Some("wide") => (wide_columns(), wide_record),
        Some(other) => panic!("no shape `{other}`; there are glassflow and wide"),
    };
    let decoder = JsonDecoder::new(Schema::new(columns), JsonOptions::default()).expect("the schema is good");
    rate::print(&decoder, &rate::blocks(records, record));
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
