//! The step that decodes OTLP, on log records of about 300 bytes in requests of 1,000, into the columns of the collector's exporter.
//!
//! Owns the requests and the columns. Does not own how they are counted.

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, Schema};
use formats::otlp::{OtlpDecoder, OtlpOptions, Signal};

use crate::Work;
use crate::rows::RECORDS;

/// Rows of a request.
const ROWS: u64 = 1_000;
/// Of the first log; each is a millisecond later.
const TIME_NS: u64 = 1_764_000_000_000_000_000;

pub(crate) fn decode() -> Work {
    let decoder = OtlpDecoder::new(Signal::Logs, schema(), OtlpOptions::default()).expect("the columns fit");
    let mut builder = BlockBuilder::new(Partition::new("logs", 0), 0);
    let mut blocks = Vec::new();
    for n in 0..RECORDS / ROWS {
        builder.push(n, (TIME_NS / 1_000_000) as i64, Some(&request(n * ROWS)));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    Box::new(move || blocks.iter().map(|block| decoder.decode(block).batch.len() as u64).sum())
}

/// The columns of `otel_logs`.
fn schema() -> Schema {
    use ColumnType::{DateTime64, LowCardinality, Map, String, UInt8};
    let word = || LowCardinality(Box::new(String));
    let map = || Map(Box::new(word()), Box::new(String));
    Schema::new(vec![
        Column::new("Timestamp", DateTime64 { precision: 9, timezone: None }),
        Column::new("TraceId", String),
        Column::new("SpanId", String),
        Column::new("TraceFlags", UInt8),
        Column::new("SeverityText", word()),
        Column::new("SeverityNumber", UInt8),
        Column::new("ServiceName", word()),
        Column::new("Body", String),
        Column::new("ResourceSchemaUrl", word()),
        Column::new("ResourceAttributes", map()),
        Column::new("ScopeSchemaUrl", word()),
        Column::new("ScopeName", String),
        Column::new("ScopeVersion", word()),
        Column::new("ScopeAttributes", map()),
        Column::new("LogAttributes", map()),
        Column::new("EventName", String),
    ])
}

/// The request with the logs from number `first` on.
fn request(first: u64) -> Vec<u8> {
    let attributes = [
        ("service.name", "checkout"),
        ("service.version", "1.4.2"),
        ("host.name", "ip-10-0-17-4"),
        ("k8s.namespace.name", "shop"),
        ("k8s.pod.name", "checkout-7d9f5b7c4-x2x9v"),
        ("telemetry.sdk.language", "go"),
    ];
    let mut resource = Vec::new();
    attributes.iter().for_each(|(key, value)| sized(1, &attribute(key, value), &mut resource));
    let mut scope = Vec::new();
    sized(1, &field(1, b"github.com/shop/checkout"), &mut scope);
    (first..first + ROWS).for_each(|n| sized(2, &log(n), &mut scope));
    let mut group = Vec::new();
    sized(1, &resource, &mut group);
    sized(2, &scope, &mut group);
    field(1, &group)
}

fn log(n: u64) -> Vec<u8> {
    let scrambled = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut out = vec![9];
    out.extend((TIME_NS + n * 1_000_000).to_le_bytes());
    out.extend([0x59]);
    out.extend((TIME_NS + n * 1_000_000 + 1_500).to_le_bytes());
    out.extend([0x10, 9]);
    sized(3, b"INFO", &mut out);
    let body = format!(
        "order {n} of customer {} was paid by card, total {} cents",
        scrambled % 100_000,
        scrambled % 10_007
    );
    sized(5, &field(1, body.as_bytes()), &mut out);
    sized(6, &attribute("http.route", "/api/orders/{id}/payments"), &mut out);
    sized(6, &attribute("http.request.method", "POST"), &mut out);
    let mut status = field(1, b"http.response.status_code");
    sized(2, &[0x18, 0xc8, 0x01], &mut status);
    sized(6, &status, &mut out);
    sized(9, &[scrambled.to_be_bytes(), n.to_be_bytes()].concat(), &mut out);
    sized(10, &scrambled.to_le_bytes(), &mut out);
    out
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    let mut out = field(1, key.as_bytes());
    sized(2, &field(1, value.as_bytes()), &mut out);
    out
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sized(number, bytes, &mut out);
    out
}

/// Appends a field of bytes.
fn sized(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    out.push((number << 3 | 2) as u8);
    let mut length = bytes.len();
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}
