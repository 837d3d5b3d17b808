//! Requests with many records in binary: object container files of Avro as fastavro writes them, and messages of Protobuf behind their lengths as Python's
//! classes write them, through a gateway, its logs and pipelines into tables.
//!
//! What is expected is what the other program reads of what it wrote.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use live::pipeline::term;
use live::{Case, Pipeline, Table};
use serde_json::Value;
use testkit::{HttpClient, free_port, workspace_dir};

use super::hostile::{bomb as bomb_of, rss_mib_max};
use super::logs::{start_gateway, wait_for_gateway};
use super::protobuf::{COLUMNS as ORDERS, PLACE, SHOP, compare as compare_orders, records, unhex, with_city};

/// Records of each file.
const COUNT: usize = 300;
const READINGS: &str = "id UInt64, city String, note Nullable(String), status Enum8('OK' = 1, 'LOW' = 2, 'FAULT' = 3), total Decimal(18, 4), \
     at DateTime64(6, 'UTC'), day Date, key UUID, levels Array(Float64), labels Map(String, String)";
const AVRO: &str = "application/avro";
const DELIMITED: &str = "application/x-protobuf; encoding=delimited";

/// What `avro_records.py` has written.
struct Files {
    schema: String,
    files: BTreeMap<String, Vec<u8>>,
    rows: Vec<Value>,
}

fn files() -> Files {
    let python = std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with fastavro");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/avro_records.py");
    let output = Command::new(python).arg(script).arg(COUNT.to_string()).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files = told["files"].as_object().expect("files").iter();
    let files = files.map(|(codec, digits)| (codec.clone(), unhex(digits.as_str().expect("text")))).collect();
    let rows = told["rows"].as_array().expect("rows").clone();
    Files { schema: told["schema"].as_str().expect("text").to_owned(), files, rows }
}

/// The status and the answer of a request.
fn post(port: u16, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    let answer = client.request("POST", &format!("/v1/streams/{path}"), headers, body).expect("an answer");
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
}

#[track_caller]
fn taken(port: u16, path: &str, headers: &[(&str, &str)], body: &[u8], records: usize) -> Value {
    let (status, told) = post(port, path, headers, body);
    assert_eq!((status, told["records"].as_u64()), (200, Some(records as u64)), "{told}");
    told
}

#[track_caller]
fn refused(port: u16, path: &str, kind: &str, body: &[u8], status: u16, words: &str) {
    let (found, told) = post(port, path, &[("Content-Type", kind)], body);
    let message = told["error"].as_str().or(told["message"].as_str()).map_or(told.to_string(), str::to_owned);
    assert!(found == status && message.contains(words), "{found}: {told}");
}

/// The table holds the rows that Python has read, each once.
fn compare(table: &Table, rows: &[Value]) {
    let found = table.rows_plain(
        "SELECT toString(id) AS id, city, note, toString(status) AS status, toString(total) AS total, toString(at) AS at, toString(day) AS day, \
         toString(key) AS key, levels, labels FROM {t} ORDER BY {t}.id",
    );
    assert_eq!(found.len(), rows.len());
    for (found, wanted) in found.iter().zip(rows) {
        for (name, value) in wanted.as_object().expect("a row") {
            let is_same = match name.as_str() {
                // As short as ClickHouse prints it.
                "total" => number(&found[name]) == number(value),
                "levels" => floats(&found[name]) == floats(value),
                _ => found[name] == *value,
            };
            assert!(is_same, "{name}: {} and {value}", found[name]);
        }
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().filter_map(Value::as_f64).collect()
}

/// A decimal without zeros at its end.
fn number(value: &Value) -> String {
    let text = value.as_str().expect("text");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// The bytes behind their length.
fn delimited(message: &[u8]) -> Vec<u8> {
    [varint(message.len()), message.to_vec()].concat()
}

fn gateway(case: &Case, port: u16, files: &Files) -> testkit::Process {
    let folder = case.dir().join("geo");
    std::fs::create_dir_all(&folder).expect("the case's folder can be written");
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: ./logs\nhttp: {{ listen: none }}\nshutdown: {{ timeout: 20s }}\nlimits: {{ memory: 32MiB }}\n\
         streams:\n  readings: {{ format: avro, schema_file: readings.avsc, body: 4MiB }}\n  anything: {{ body: 4MiB }}\n  orders: {{ format: protobuf, body: 4MiB }}\n"
    );
    for (name, text) in [
        ("geo/place.proto", PLACE),
        ("shop.proto", SHOP),
        ("readings.avsc", &files.schema),
        ("gateway.yaml", &text),
    ] {
        std::fs::write(case.dir().join(name), text).expect("the case's folder can be written");
    }
    let gateway = start_gateway(case.dir());
    wait_for_gateway(port);
    gateway
}

#[test]
fn records_of_files_and_delimited_messages_are_in_the_tables_as_they_were_written() {
    let Some(case) = Case::begin("batches") else { return };
    let (files, port) = (files(), free_port());
    assert!(files.files.len() >= 3, "{:?}", files.files.keys());
    let gateway = gateway(&case, port, &files);
    for (codec, file) in &files.files {
        let headers = [("Content-Type", AVRO), ("Idempotency-Key", codec.as_str())];
        let first = taken(port, "readings", &headers, file, COUNT);
        assert_eq!(first["repeat"], false);
        assert_eq!(taken(port, "readings", &headers, file, COUNT)["repeat"], true, "sent again");
        let packed = zstd::encode_all(&file[..], 1).expect("memory takes it");
        let headers = [("Content-Type", "avro/binary"), ("Content-Encoding", "zstd")];
        taken(port, "anything", &headers, &packed, COUNT);
    }
    let (_, records) = records(COUNT);
    let orders: Vec<_> = records.iter().filter(|record| record.message == "shop.Order").collect();
    let body: Vec<u8> = orders.iter().flat_map(|order| delimited(&order.bytes)).collect();
    taken(port, "orders", &[("Content-Type", DELIMITED)], &body, orders.len());
    hostile(port, &files, &body);
    let peak = rss_mib_max(&gateway);
    assert!(peak < 320, "{peak} MiB");
    term(gateway);

    for (stream, format) in [("readings", "{ avro: { schema_file: readings.avsc } }"), ("anything", "json")] {
        let name = format!("batches_{stream}");
        let table = case.table_called(&name, READINGS, "id");
        let source = format!("{{ log: {{ url: ./logs/{stream} }}, format: {format} }}");
        let pipeline = Pipeline::new(&case, &name).input_of("events", &source);
        pipeline.more("columns: { city: site.city }").batch("{ rows: 200, age: 100ms }").drain();
        compare(&table, &files.rows);
    }
    let table = case.table_called("batches_orders", ORDERS, "id");
    let source = "{ log: { url: ./logs/orders }, format: { protobuf: { schema_file: shop.proto, message: shop.Order } } }";
    with_city(Pipeline::new(&case, "batches_orders").input_of("events", source)).drain();
    compare_orders(&table, orders.iter().map(|order| order.row.clone()).collect());
}

/// What is not what it says leaves nothing in the logs, whose records are counted afterwards, and takes no memory.
fn hostile(port: u16, files: &Files, messages: &[u8]) {
    let file = &files.files["null"];
    for cut in [file.len() - 1, file.len() / 2, 100] {
        refused(port, "readings", AVRO, &file[..cut], 400, "nothing was stored");
        refused(port, "anything", AVRO, &file[..cut], 400, "nothing was stored");
    }
    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 40].fill(0xff);
    refused(port, "readings", AVRO, &damaged, 400, "nothing was stored");
    let other = file.windows(16).position(|bytes| bytes == b"timestamp-micros").expect("its schema");
    let mut of_another = file.clone();
    of_another[other..other + 16].copy_from_slice(b"timestamp-millis");
    let words = "field `at`: it is timestamp-millis instead of timestamp-micros";
    refused(port, "readings", AVRO, &of_another, 400, words);
    refused(port, "readings", "application/json", b"[]", 415, "this stream takes Avro");
    refused(port, "orders", DELIMITED, &messages[..messages.len() - 1], 400, "nothing was stored");
    refused(port, "orders", DELIMITED, &[0xff; 64], 400, "no length of at most 32 bits");
    refused(port, "orders", "application/x-protobuf; framing=2", messages, 415, "encoding=delimited");
    // A block of a few kilobytes that is 300 MiB of zeros, in a file that is otherwise as it should be.
    let sync = &file[file.len() - 16..];
    let first = file.windows(16).position(|bytes| bytes == sync).expect("the head ends with it") + 16;
    let zeros = bomb_of("zstd", 300 << 20);
    let mut bomb = file[..first].to_vec();
    let codec = b"\x14avro.codec\x08null";
    let at = bomb.windows(codec.len()).position(|bytes| bytes == codec).expect("its codec");
    bomb.splice(at..at + codec.len(), b"\x14avro.codec\x12zstandard".iter().copied());
    // One record, and the block's length, both as numbers with a sign.
    bomb.extend([&varint(2)[..], &varint(2 * zeros.len()), &zeros, sync].concat());
    for stream in ["readings", "anything"] {
        refused(port, stream, AVRO, &bomb, 413, "more bytes than a body may");
    }
}

#[test]
fn a_listening_pipeline_takes_files_and_single_records_of_its_schema() {
    let Some(case) = Case::begin("batches_listen") else { return };
    let (files, port) = (files(), free_port());
    std::fs::write(case.dir().join("readings.avsc"), &files.schema)
        .expect("the case's folder can be written");
    let table = case.table_called("batches_listen", READINGS, "id");
    let source = "{ listen: { stream: readings }, format: { avro: { schema_file: readings.avsc } } }";
    let pipeline = Pipeline::new(&case, "batches_listen").input_of("events", source);
    let pipeline = pipeline.more("columns: { city: site.city }").batch("{ rows: 200, age: 100ms }");
    let running = pipeline.more(&format!("listen: {{ address: '127.0.0.1:{port}' }}")).run();
    wait_for_gateway(port);
    for file in files.files.values() {
        taken(port, "readings", &[("Content-Type", AVRO)], file, COUNT);
    }
    refused(port, "readings", AVRO, b"no record", 400, "1 record is not valid");
    term(running);
    compare(&table, &files.rows);
    let dead = table.dead_letters().try_count();
    assert_eq!(dead.unwrap_or(0), 0, "what is refused at the door is no dead letter");
}

/// The blocks of a language in a page, in order.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Answers of `curl` to the lines of a block that are not about the gateway's own start.
fn answers(case: &Case, port: u16, block: &str) -> Vec<(u64, u64)> {
    let mut answers = Vec::new();
    for line in block.lines().filter(|line| !line.starts_with("forebay ")) {
        let line = line.replace("127.0.0.1:8686", &format!("127.0.0.1:{port}"));
        let ran = Command::new("sh").args(["-c", &line]).current_dir(case.dir()).output();
        let output = ran.expect("a shell starts");
        assert!(output.status.success(), "`{line}`: {}", String::from_utf8_lossy(&output.stderr));
        if line.starts_with("curl ") {
            let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("`{line}`: {told}"));
            answers.push((number("records"), number("skipped")));
        }
    }
    answers
}

/// Its files, its gateways, and curl, as the page has them; only the port is another.
#[test]
fn every_curl_of_the_gateways_page_is_taken() {
    let Some(case) = Case::begin("batches_curl") else { return };
    let files = files();
    let (_, records) = records(20);
    let orders: Vec<_> = records.iter().filter(|record| record.message == "shop.Order").collect();
    let messages: Vec<u8> = orders.iter().flat_map(|order| delimited(&order.bytes)).collect();
    std::fs::write(case.dir().join("readings.avsc"), &files.schema).expect("the folder can be written");
    std::fs::write(case.dir().join("readings.avro"), &files.files["null"]).expect("the same");
    std::fs::write(case.dir().join("orders.bin"), &messages).expect("the same");
    let page = std::fs::read_to_string(workspace_dir().join("docs/gateway.md")).expect("the page");
    let shell: Vec<&str> = blocks(&page, "sh").into_iter().filter(|block| block.contains("curl ")).collect();
    let yaml: Vec<&str> = blocks(&page, "yaml").into_iter().take(2).collect();
    let count = COUNT as u64;
    let expected = [vec![(2, 0)], vec![(count, 0), (count, 0), (orders.len() as u64, 0)]];
    assert_eq!((shell.len(), yaml.len()), (2, 2), "blocks with curl, and the gateways before them");
    for ((commands, streams), expected) in shell.into_iter().zip(yaml).zip(expected) {
        let port = free_port();
        let name = if streams.starts_with("gateway:") { "" } else { "gateway: second\n" };
        let common = format!("listen: '127.0.0.1:{port}'\nhttp: {{ listen: none }}\nstore: ./logs-{port}\n");
        std::fs::write(case.dir().join("gateway.yaml"), format!("{name}{streams}{common}"))
            .expect("the folder can be written");
        let gateway = start_gateway(case.dir());
        wait_for_gateway(port);
        assert_eq!(answers(&case, port, commands), expected, "{commands}");
        term(gateway);
    }
}
