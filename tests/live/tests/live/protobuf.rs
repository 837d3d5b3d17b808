//! Records in Protocol Buffers: with a real registry, without a header from topics, logs and requests, and with the schemas that a real Pulsar keeps.
//!
//! What is expected is what Python's classes read of the records that they wrote (`protobuf_records.py`).

use std::path::PathBuf;
use std::process::Command;

use live::pipeline::term;
use live::{Accounts, Case, Pipeline, Table};
use serde_json::{Value, json};
use sources::pulsar::produce::Producer;
use sources::pulsar::{PulsarOptions, SchemaKind};
use testkit::{HttpClient, Registry, Service, available, free_port};

use super::logs::{start_gateway, wait_for_gateway, write_gateway};
use super::pulsar::clock;
use super::pulsar_schemas::{of_schema, send};

pub(super) const PLACE: &str = r#"syntax = "proto3"; package geo; message Place { string city = 1; }"#;
/// As `protobuf_records.py` has them.
pub(super) const SHOP: &str = r#"syntax = "proto3";
package shop;
import "geo/place.proto";
import "google/protobuf/timestamp.proto";
message Order {
  message Refund { uint32 id = 1; string note = 2; }
  uint32 id = 1;
  geo.Place at = 2;
  google.protobuf.Timestamp ordered_at = 3;
  optional string note = 4;
  double total = 5;
}
message Stock { uint32 id = 1; }
"#;

pub(super) const COLUMNS: &str = "id UInt32, city Nullable(String), ordered_at Nullable(DateTime64(6, 'UTC')), note Nullable(String), total Nullable(Float64)";

/// A record that Python wrote.
pub(super) struct Record {
    pub message: String,
    places: Vec<u64>,
    pub bytes: Vec<u8>,
    pub row: Value,
}

/// So many records, and the two schemas of a broker.
pub(super) fn records(count: usize) -> (Vec<String>, Vec<Record>) {
    let python =
        std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with the protocol's classes");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/protobuf_records.py");
    let output = Command::new(python).arg(script).arg(count.to_string()).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let schemas = lines.next().expect("the schemas");
    let schemas =
        schemas.as_array().expect("a list").iter().map(|text| text.as_str().expect("text").to_owned());
    let schemas = schemas.collect();
    let of = |line: Value| Record {
        message: line["message"].as_str().expect("a name").to_owned(),
        places: line["places"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect(),
        bytes: unhex(line["record"].as_str().expect("text")),
        row: line["row"].clone(),
    };
    let records: Vec<Record> = lines.map(of).collect();
    assert_eq!(records.len(), count);
    (schemas, records)
}

pub(super) fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// A number with its sign in the lowest bit, seven bits a byte; these have one.
fn number(value: u64) -> u8 {
    u8::try_from(value << 1).ok().filter(|byte| *byte < 0x80).expect("a small number")
}

/// The record as a serializer of Confluent's writes it.
fn framed(id: u32, record: &Record) -> Vec<u8> {
    let places = match &record.places[..] {
        [0] => vec![0],
        places => std::iter::once(places.len() as u64).chain(places.iter().copied()).map(number).collect(),
    };
    [&[0][..], &id.to_be_bytes(), &places, &record.bytes].concat()
}

/// The table holds these rows, each once.
pub(super) fn compare(table: &Table, mut wanted: Vec<Value>) {
    let rows =
        table.rows("SELECT id, city, toString(ordered_at) AS ordered_at, note, total FROM {t} ORDER BY id");
    wanted.sort_by_key(|row| row["id"].as_u64());
    assert_eq!(rows.len(), wanted.len());
    for (row, wanted) in rows.iter().zip(&wanted) {
        for name in ["id", "city", "ordered_at", "note"] {
            assert_eq!(row[name], wanted[name], "{name} of {wanted}");
        }
        assert_eq!(row["total"].as_f64(), wanted["total"].as_f64(), "{wanted}");
    }
}

fn reasons(table: &Table) -> Vec<Value> {
    let sql = "SELECT reason, toUInt32(count()) AS n FROM {t} GROUP BY reason ORDER BY reason";
    table.dead_letters().rows(sql)
}

pub(super) fn with_city(pipeline: Pipeline) -> Pipeline {
    pipeline.more("columns: { city: at.city }").batch("{ rows: 200, age: 100ms }")
}

#[test]
fn each_record_is_read_by_the_message_that_its_header_names_and_what_has_none_is_a_dead_letter() {
    if !available(&[Service::Registry]) {
        return;
    }
    let Some(case) = Case::begin("protobuf_registry") else { return };
    let registry = Registry::start().expect("the registry must start");
    let place = registry.register_as("PROTOBUF", "place", PLACE, &[]).expect("a schema");
    let imports = [("geo/place.proto", "place", 1)];
    let shop = registry.register_as("PROTOBUF", "shop-value", SHOP, &imports).expect("a schema");
    let avro = r#"{"type": "record", "name": "order", "fields": [{"name": "id", "type": "int"}]}"#;
    let avro = registry.register("orders-in-avro", avro, &[]).expect("a schema");
    let feed = case.feed();
    let (_, records) = records(700);
    for (n, record) in records.iter().enumerate() {
        feed.push(n as u32 % 3, &framed(shop, record));
    }
    // No such number, one of Avro, one of a message without an `id`, no such message, and no header.
    feed.push(0, &framed(shop + 70_000, &records[0]));
    feed.push(1, &framed(avro, &records[0]));
    feed.push(2, &framed(place, &records[0]));
    feed.push(0, &[&[0][..], &shop.to_be_bytes(), &[number(1), number(5)]].concat());
    feed.push(1, &records[0].bytes);
    feed.flush();

    let format =
        |more: &str| format!("{{ protobuf: {{ registry: {{ url: \"{}\" }}{more} }} }}", registry.url());
    let table = case.table(COLUMNS, "id");
    let pipeline = with_city(case.pipeline().format(&format("")));
    pipeline.check(&["--connect"]);
    pipeline.drain();
    compare(&table, records.iter().map(|record| record.row.clone()).collect());
    assert_eq!(
        reasons(&table),
        [json!({"reason": "malformed", "n": 1}), json!({"reason": "schema", "n": 4})]
    );
    let accounts = Accounts { read: 705, written: 700, dead_letters: 5, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    let said = table.dead_letters().column("message").join("\n");
    for words in [
        "has no schema of this number",
        "it is a schema of AVRO, and the pipeline reads Protobuf",
        "field `id`, column `id`: the schema does not have it",
        "the record is of the message number `5`, which the schema does not have",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }

    // Of one message alone.
    let refunds = case.table_called("protobuf_refunds", COLUMNS, "id");
    let one = Pipeline::new(&case, "protobuf_refunds").format(&format(", message: shop.Order.Refund"));
    with_city(one).drain();
    let rows: Vec<Value> = of("shop.Order.Refund", &records).map(|record| record.row.clone()).collect();
    let others = 700 - rows.len() + 4;
    compare(&refunds, rows);
    assert_eq!(
        reasons(&refunds),
        [json!({"reason": "malformed", "n": 1}), json!({"reason": "schema", "n": others})]
    );
}

fn of<'r>(message: &str, records: &'r [Record]) -> impl Iterator<Item = &'r Record> {
    records.iter().filter(move |record| record.message == message)
}

/// Sends each record as a request of its own, and one that is no message, which is answered `last`.
fn post(port: u16, records: &[&Record], last: u16) {
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    let bodies = records.iter().map(|record| (&record.bytes[..], 200)).chain([(&b"\x0a"[..], last)]);
    for (body, status) in bodies {
        let answer = client.request("POST", "/v1/streams/orders", &[], body).expect("an answer");
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

#[test]
fn records_without_a_header_are_read_from_a_topic_a_log_and_requests() {
    let Some(case) = Case::begin("protobuf_raw") else { return };
    let folder = case.dir().join("geo");
    std::fs::create_dir_all(&folder).expect("the case's folder can be written");
    std::fs::write(folder.join("place.proto"), PLACE).expect("the case's folder can be written");
    std::fs::write(case.dir().join("shop.proto"), SHOP).expect("the case's folder can be written");
    let format = "{ protobuf: { schema_file: shop.proto, message: shop.Order } }";
    let (_, records) = records(70);
    let orders: Vec<&Record> = of("shop.Order", &records).collect();
    let rows = || orders.iter().map(|order| order.row.clone()).collect::<Vec<_>>();
    let malformed = [json!({"reason": "malformed", "n": 1})];

    let feed = case.feed();
    feed.spread(orders.iter().map(|order| &order.bytes[..]).chain([&b"\x0a"[..]]));
    let table = case.table(COLUMNS, "id");
    with_city(case.pipeline().format(format)).drain();
    compare(&table, rows());
    assert_eq!(reasons(&table), malformed);

    let port = free_port();
    write_gateway(case.dir(), port, "orders: { format: message }");
    let gateway = start_gateway(case.dir());
    wait_for_gateway(port);
    post(port, &orders, 200);
    term(gateway);
    let table = case.table_called("protobuf_log", COLUMNS, "id");
    let source = format!("{{ log: {{ url: ./logs/orders }}, format: {format} }}");
    with_city(Pipeline::new(&case, "protobuf_log").input_of("orders", &source)).drain();
    compare(&table, rows());
    assert_eq!(reasons(&table), malformed);

    let port = free_port();
    let table = case.table_called("protobuf_listen", COLUMNS, "id");
    let source = format!("{{ listen: {{ stream: orders }}, format: {format} }}");
    let pipeline = with_city(Pipeline::new(&case, "protobuf_listen").input_of("orders", &source))
        .more(&format!("listen: {{ address: '127.0.0.1:{port}' }}"));
    let running = pipeline.run();
    wait_for_gateway(port);
    post(port, &orders, 400);
    term(running);
    compare(&table, rows());
    assert_eq!(table.dead_letters().try_count().unwrap_or(0), 0, "who sends it is told");
}

#[test]
fn each_message_of_pulsar_is_read_by_the_schema_that_the_broker_has_for_it() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("protobuf_pulsar") else { return };
    let pulsar = case.pulsar();
    pulsar.create_topic("orders", 0).expect("a topic");
    let (schemas, records) = records(350);
    let orders: Vec<&Record> = of("shop.Order", &records).collect();
    let (old, new) = orders.split_at(orders.len() / 2);
    let bodies = |records: &[&Record]| records.iter().map(|record| record.bytes.clone()).collect::<Vec<_>>();
    // The first by the administrator, the second by its producer.
    let body = json!({ "type": "PROTOBUF_NATIVE", "schema": schemas[0], "properties": {} }).to_string();
    let answer =
        pulsar.admin("POST", "/schemas/public/default/orders/schema", &body).expect("Pulsar answers");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut first = of_schema(pulsar, "orders", SchemaKind::ProtobufNative, &schemas[0]);
    let mut second = of_schema(pulsar, "orders", SchemaKind::ProtobufNative, &schemas[1]);
    for (old, new) in old.chunks(40).zip(new.chunks(40)) {
        send(&mut first, &bodies(old));
        send(&mut second, &bodies(new));
    }
    let options = PulsarOptions::new(&pulsar.service(), &["orders".to_owned()], "x").expect("options");
    let mut bare = Producer::new(options, "orders", clock()).expect("a producer");
    send(&mut bare, &bodies(&old[..1]));

    let table = case.table(COLUMNS, "id");
    let source =
        format!("{{ pulsar: {{ service: '{}', topic: orders }}, format: protobuf }}", pulsar.service());
    let pipeline = with_city(case.pipeline().input_of("orders", &source));
    pipeline.check(&["--connect"]);
    pipeline.drain();
    // The first schema does not have the total.
    let without = |record: &&Record| {
        let mut row = record.row.clone();
        row["total"] = Value::Null;
        row
    };
    compare(&table, old.iter().map(without).chain(new.iter().map(|record| record.row.clone())).collect());
    assert_eq!(reasons(&table), [json!({"reason": "schema", "n": 1})]);
    let all = orders.len() as u64;
    let accounts = Accounts { read: all + 1, written: all, dead_letters: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);

    // Whoever reads it as something else is told so before a record is read.
    case.table_called("protobuf_other", COLUMNS, "id");
    for format in ["json", "avro"] {
        let source = source.replace("format: protobuf", &format!("format: {format}"));
        let other = Pipeline::new(&case, "protobuf_other").input_of("orders", &source);
        let checked = other.run_tool(&["check"], &["--connect"]);
        let said = checked.stdout + &checked.stderr;
        assert!(!checked.exit.status.success(), "{said}");
        let words = "has a schema of Protobuf, and the pipeline reads";
        assert!(said.contains(words) && said.contains("write `format: protobuf`"), "{said}");
    }
}
