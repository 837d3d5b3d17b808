//! Every format runs the suite of `dataflow::conformance::decoder`.
//!
//! Owns the records of known fate that the suite needs of each. Does not own the rules, nor what a format adds to them, which its own tests show.

use std::sync::Arc;

use dataflow::conformance::decoder::{Fixture, RECORD_BYTES_MAX, run};
use dataflow::{Column, ColumnType, Decoder, Reason, RecordBlock, Schema};
use formats::avro::{AvroDecoder, AvroOptions};
use formats::csv::{CsvDecoder, CsvOptions};
use formats::json::{JsonDecoder, JsonOptions};
use formats::otlp::{OtlpDecoder, OtlpOptions, Signal};
use formats::protobuf::{ProtobufDecoder, ProtobufOptions, Types};
use formats::schemas::{SchemaText, Schemas, Writer};

/// Columns of every kind of value that the formats share.
fn columns() -> Schema {
    let nullable = |inner| ColumnType::Nullable(Box::new(inner));
    of(&[
        ("id", ColumnType::Int32),
        ("text", ColumnType::String),
        ("level", nullable(ColumnType::Float64)),
        ("at", nullable(ColumnType::DateTime64 { precision: 3, timezone: None })),
    ])
}

fn of(columns: &[(&str, ColumnType)]) -> Schema {
    let column = |(name, column_type): &(&str, ColumnType)| Column {
        field: (*name).to_owned(),
        ..Column::new(*name, column_type.clone())
    };
    Schema::new(columns.iter().map(column).collect())
}

/// Appends a number of seven bits a byte.
fn varint(mut rest: u64, out: &mut Vec<u8>) {
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A field of Protobuf with bytes.
fn field(number: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(bytes.as_ref().len() as u64, &mut out);
    [&out, bytes.as_ref()].concat()
}

/// A field of Protobuf with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

/// A field of Protobuf with eight bytes.
fn fixed(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 1, &mut out);
    [&out[..], &value.to_le_bytes()].concat()
}

/// A request of OTLP with these rows of one resource and scope.
fn request(service: &str, rows: &[Vec<u8>]) -> Vec<u8> {
    let attribute = [field(1, "service.name"), field(2, field(1, service))].concat();
    let rows: Vec<u8> = rows.iter().flat_map(|row| field(2, row)).collect();
    field(1, [field(1, field(1, attribute)), field(2, rows)].concat())
}

/// A log record with this body.
fn log(body: &str, severity: u64) -> Vec<u8> {
    [fixed(1, 1_764_000_000_000_000_007), number(2, severity), field(5, field(1, body))].concat()
}

/// A format, and records of known fate.
struct Of<D> {
    new: fn() -> D,
    good: Vec<Vec<u8>>,
    bad: Vec<(Vec<u8>, Reason)>,
    long: Option<fn(String) -> Vec<u8>>,
    around: fn(RecordBlock) -> RecordBlock,
}

impl<D: Decoder + 'static> Fixture for Of<D> {
    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new((self.new)())
    }

    fn good(&self) -> Vec<Vec<u8>> {
        self.good.clone()
    }

    fn bad(&self) -> Vec<(Vec<u8>, Reason)> {
        self.bad.clone()
    }

    fn long(&self, text_bytes: usize) -> Option<Vec<u8>> {
        self.long.map(|long| long("x".repeat(text_bytes)))
    }

    fn around(&self, block: RecordBlock) -> RecordBlock {
        (self.around)(block)
    }
}

fn bytes<const N: usize>(records: [&str; N]) -> Vec<Vec<u8>> {
    records.map(|record| record.as_bytes().to_vec()).into()
}

fn because<const N: usize>(records: [(&str, Reason); N]) -> Vec<(Vec<u8>, Reason)> {
    records.map(|(record, reason)| (record.as_bytes().to_vec(), reason)).into()
}

#[test]
fn json() {
    run(&Of {
        new: || {
            let options = JsonOptions { record_bytes_max: RECORD_BYTES_MAX, ..JsonOptions::default() };
            JsonDecoder::new(columns(), options).expect("columns")
        },
        good: bytes([
            r#"{"id": 1, "text": "one", "level": 1.5, "at": "2026-11-27 10:00:00.125"}"#,
            r#"{"text": "zw\u00f6lf \"x\"", "id": -12, "other": [1, {"a": null}]}"#,
            r#" { "id" : 3 , "text" : "" , "level" : null } "#,
        ]),
        bad: because([
            ("", Reason::Malformed),
            ("nothing", Reason::Malformed),
            (r#"[{"id": 1, "text": "a"}]"#, Reason::Malformed),
            (r#"{"id": 1, "text": "a"} {"id": 2, "text": "b"}"#, Reason::Malformed),
            (r#"{"text": "a"}"#, Reason::Missing),
            (r#"{"id": null, "text": "a"}"#, Reason::Missing),
            (r#"{"id": "x", "text": "a"}"#, Reason::WrongKind),
            (r#"{"id": 1, "text": "a", "level": {}}"#, Reason::WrongKind),
            (r#"{"id": 2147483648, "text": "a"}"#, Reason::OutOfRange),
            ("{\"id\": 1, \"text\": \"\u{1}\"}", Reason::Malformed),
        ]),
        long: Some(|text| format!(r#"{{"id": 1, "text": "{text}"}}"#).into_bytes()),
        around: |block| block,
    });
}

fn csv_of(names: &[&str]) -> CsvDecoder {
    let columns = names.iter().map(|name| (*name).to_owned()).collect();
    let options = CsvOptions { columns, record_bytes_max: RECORD_BYTES_MAX, ..CsvOptions::default() };
    CsvDecoder::new(self::columns(), options).expect("columns")
}

fn csv_records(new: fn() -> CsvDecoder, around: fn(RecordBlock) -> RecordBlock) -> Of<CsvDecoder> {
    Of {
        new,
        good: bytes(["1,one,1.5,2026-11-27 10:00:00", "-12,\"a \"\"b\"\", c\",,", "3,,\\N,\r\n"]),
        bad: because([
            ("", Reason::Missing),
            ("1,a", Reason::Malformed),
            ("1,a,,,more", Reason::Malformed),
            ("1,\"a,,", Reason::Malformed),
            (",a,,", Reason::Missing),
            ("x,a,,", Reason::WrongKind),
            ("2147483648,a,,", Reason::OutOfRange),
        ]),
        long: Some(|text| format!("1,{text},,").into_bytes()),
        around,
    }
}

#[test]
fn csv_with_columns_in_the_file() {
    run(&csv_records(|| csv_of(&["id", "text", "level", "at"]), |block| block));
}

#[test]
fn csv_with_a_first_line() {
    let around = |block| RecordBlock { head: Some(Arc::from(&b"id,text,level,at"[..])), ..block };
    run(&csv_records(|| csv_of(&[]), around));
}

/// The schema of a record of Avro with the columns' fields.
const AVRO: &str = r#"{"type": "record", "name": "reading", "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"},
    {"name": "level", "type": ["null", "double"]}, {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}]}"#;

fn avro_options() -> AvroOptions {
    AvroOptions { record_bytes_max: RECORD_BYTES_MAX, ..AvroOptions::default() }
}

/// A record with a long, a text and perhaps a number.
fn datum(id: i64, text: &str, level: Option<f64>) -> Vec<u8> {
    let zigzag = |value: i64| (value << 1 ^ value >> 63) as u64;
    let mut out = Vec::new();
    varint(zigzag(id), &mut out);
    varint(zigzag(text.len() as i64), &mut out);
    out.extend_from_slice(text.as_bytes());
    match level {
        None => out.push(0),
        Some(level) => {
            out.push(2);
            out.extend_from_slice(&level.to_le_bytes());
        }
    }
    out.push(0);
    out
}

/// Records of Avro behind this header.
fn avro_records(new: fn() -> AvroDecoder, header: &[u8], long: fn(String) -> Vec<u8>) -> Of<AvroDecoder> {
    let of = |rest: Vec<u8>| [header, &rest].concat();
    let good = vec![of(datum(1, "one", Some(1.5))), of(datum(-12, "zwölf", None)), of(datum(3, "", None))];
    let bad = vec![
        (Vec::new(), Reason::Malformed),
        (of(datum(1 << 40, "a", None)), Reason::OutOfRange),
        (of([datum(1, "a", None), vec![0]].concat()), Reason::Malformed),
        (of(vec![2, 2, b'a', 8, 0]), Reason::Malformed),
        (of(vec![2, 0xfe, 0xff, 0xff, 0xff, 0x0f, b'a']), Reason::Malformed),
    ];
    Of { new, good, bad, long: Some(long), around: |block| block }
}

#[test]
fn avro() {
    let new = || AvroDecoder::new(columns(), AVRO, avro_options()).expect("columns");
    run(&avro_records(new, &[], |text| datum(1, &text, None)));
}

#[test]
fn avro_of_numbers_alone() {
    let new = || {
        let fields = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "level", "type": "double"}]}"#;
        let numbers = of(&[("id", ColumnType::Int64), ("level", ColumnType::Float64)]);
        AvroDecoder::new(numbers, fields, avro_options()).expect("columns")
    };
    let of = |id: u8, level: f64| [&[id][..], &level.to_le_bytes()].concat();
    run(&Of {
        new,
        good: vec![of(2, 1.5), of(3, -2.0), of(4, 0.0)],
        bad: vec![
            (Vec::new(), Reason::Malformed),
            (vec![2], Reason::Malformed),
            ([of(2, 1.5), vec![0]].concat(), Reason::Malformed),
            (vec![0xff; 19], Reason::Malformed),
        ],
        long: None,
        around: |block| block,
    });
}

/// Schema 7: that of [`AVRO`]. Schema 8 cannot be had.
fn avro_schemas() -> Arc<Schemas> {
    let schemas = Arc::new(Schemas::default());
    schemas.put(7, Writer::Texts(vec![SchemaText::own(AVRO)].into())).expect("room");
    schemas.put(8, Writer::Unusable("the registry has none of this number".into())).expect("room");
    schemas
}

#[test]
fn avro_in_the_wire_format_of_a_registry() {
    let new = || AvroDecoder::framed(columns(), avro_schemas(), avro_options()).expect("columns");
    const HEADER: [u8; 5] = [0, 0, 0, 0, 7];
    let mut of = avro_records(new, &HEADER, |text| [&HEADER[..], &datum(1, &text, None)].concat());
    of.bad.push((vec![0, 0, 0, 0, 8, 2], Reason::Schema));
    of.bad.push((vec![1, 0, 0, 0, 7, 2], Reason::Malformed));
    of.bad.push((vec![0, 0, 0], Reason::Malformed));
    run(&of);
}

/// A schema of Protobuf with the columns' fields.
const PROTOBUF: &str = r#"syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
    message M { int64 id = 1; string text = 2; optional double level = 3; google.protobuf.Timestamp at = 4; }"#;

fn protobuf_options() -> ProtobufOptions {
    ProtobufOptions { record_bytes_max: RECORD_BYTES_MAX, ..ProtobufOptions::default() }
}

/// A message with a number below 128 and a text.
fn message(id: u8, text: &str) -> Vec<u8> {
    [number(1, id.into()), field(2, text)].concat()
}

fn protobuf_records(
    new: fn() -> ProtobufDecoder,
    header: &[u8],
    long: fn(String) -> Vec<u8>,
) -> Of<ProtobufDecoder> {
    let of = |rest: Vec<u8>| [header, &rest].concat();
    let level = [&[0x19][..], &1.5f64.to_le_bytes()].concat();
    let good = vec![
        of([message(1, "one"), level].concat()),
        // An unknown field, and the fields in another order.
        of([vec![0x50, 1], message(3, "zwölf")].concat()),
        of(Vec::new()),
    ];
    let bad = vec![
        // A number beyond the column's type.
        (of([0x08, 0x80, 0x80, 0x80, 0x80, 0x10].to_vec()), Reason::OutOfRange),
        (of(vec![0x08]), Reason::Malformed),
        (of(vec![0x12, 0x7f, b'a']), Reason::Malformed),
        (of(vec![0x12, 0x01, 0xff]), Reason::Malformed),
        // A text where the number stands.
        (of(vec![0x0a, 0x01, b'a']), Reason::Malformed),
    ];
    Of { new, good, bad, long: Some(long), around: |block| block }
}

fn of_text() -> Types {
    Types::of_text("m.proto", Arc::new(|name| Ok((name == "m.proto").then(|| PROTOBUF.to_owned()))))
        .expect("a schema")
}

#[test]
fn protobuf() {
    let new = || ProtobufDecoder::new(columns(), &of_text(), "p.M", protobuf_options()).expect("columns");
    run(&protobuf_records(new, &[], |text| message(1, &text)));
}

#[test]
fn protobuf_in_the_wire_format_of_a_registry() {
    let new = || {
        let schemas = Arc::new(Schemas::default());
        schemas.put(7, Writer::Texts(vec![SchemaText::own(PROTOBUF)].into())).expect("room");
        ProtobufDecoder::framed(columns(), schemas, None, protobuf_options()).expect("columns")
    };
    const HEADER: [u8; 6] = [0, 0, 0, 0, 7, 0];
    let mut of = protobuf_records(new, &HEADER, |text| [&HEADER[..], &message(1, &text)].concat());
    of.bad.push((vec![0, 0, 0, 0, 7, 4, 2, 2], Reason::Schema));
    of.bad.push((vec![0, 0], Reason::Malformed));
    run(&of);
}

fn otlp(signal: Signal, columns: &[(&str, ColumnType)]) -> OtlpDecoder {
    OtlpDecoder::new(signal, of(columns), OtlpOptions { record_bytes_max: RECORD_BYTES_MAX })
        .expect("columns")
}

#[test]
fn otlp_logs_as_protobuf_and_as_json() {
    let json = |bodies: &[&str]| {
        let logs: Vec<String> = bodies
            .iter()
            .map(|body| format!(r#"{{"body": {{"stringValue": "{body}"}}, "severityNumber": 9}}"#))
            .collect();
        format!(r#"{{"resourceLogs": [{{"scopeLogs": [{{"logRecords": [{}]}}]}}]}}"#, logs.join(","))
            .into_bytes()
    };
    run(&Of {
        new: || {
            let columns = [
                ("Body", ColumnType::String),
                ("SeverityNumber", ColumnType::UInt8),
                ("ServiceName", ColumnType::String),
            ];
            otlp(Signal::Logs, &columns)
        },
        good: vec![
            request("shop", &[log("a", 9), log("b", 10)]),
            json(&["c", "d"]),
            request("", &[log("e", 1)]),
        ],
        bad: vec![
            (vec![0x0a], Reason::Malformed),
            (b"{\"resourceLogs\": [".to_vec(), Reason::Malformed),
            (b"{\"resourceLogs\": 7}".to_vec(), Reason::Malformed),
            (vec![0xff; 12], Reason::Malformed),
        ],
        long: Some(|text| request("shop", &[log(&text, 9)])),
        around: |block| block,
    });
}

#[test]
fn otlp_metrics() {
    let gauge = |name: &str, values: &[f64]| {
        let points: Vec<u8> = values
            .iter()
            .flat_map(|value| {
                field(1, [fixed(3, 1_764_000_000_000_000_000), fixed(4, value.to_bits())].concat())
            })
            .collect();
        [field(1, name), field(5, points)].concat()
    };
    run(&Of {
        new: || {
            let columns = [
                ("MetricName", ColumnType::String),
                ("Value", ColumnType::Float64),
                ("ServiceName", ColumnType::String),
            ];
            otlp(Signal::Metrics, &columns)
        },
        good: vec![
            request("a", &[gauge("name", &[1.5])]),
            request("b", &[gauge("one", &[1.0, 2.5]), gauge("two", &[3.0])]),
            request("c", &[gauge("", &[-1.0])]),
        ],
        bad: vec![
            (vec![0x0a], Reason::Malformed),
            (b"{".to_vec(), Reason::Malformed),
            (vec![0xff; 12], Reason::Malformed),
        ],
        long: None,
        around: |block| block,
    });
}
