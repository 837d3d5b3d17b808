use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use object_log::LogPartition;
use serde_json::{Value, json};
use store::{Prefix, Store};

use super::*;
use crate::options::{Limits, StreamOptions};
use crate::records::otlp::record;
use crate::support::{self, NEVER, Running, in_memory, limits, options, roomy, start};

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A message in a field of this number; each is shorter than 128 bytes.
pub(super) fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&[number << 3 | 2, u8::try_from(bytes.len()).expect("a short message")], bytes].concat()
}

/// A request of logs with these bodies, or of spans with these names.
pub(super) fn logs(bodies: &[&str]) -> Vec<u8> {
    let rows: Vec<u8> = bodies.iter().flat_map(|body| field(2, field(5, field(1, body)))).collect();
    field(1, field(2, rows))
}

fn in_json(bodies: &[&str]) -> String {
    let rows: Vec<Value> = bodies.iter().map(|body| json!({ "body": { "stringValue": body } })).collect();
    json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": rows }] }], "ofLater": [1, null] }).to_string()
}

pub(super) fn a_stream(name: &str, signal: Signal, store: &Arc<dyn Store>) -> StreamOptions {
    StreamOptions { format: Format::Otlp(signal), ..support::stream(name, store) }
}

async fn gateway(store: &Arc<dyn Store>) -> Running {
    start(options(vec![a_stream("otlp_logs", Signal::Logs, store)])).await
}

/// What is in the log, as bytes.
pub(super) async fn records(store: &Arc<dyn Store>) -> Vec<Vec<u8>> {
    let log = LogPartition::new(store.clone(), &Prefix::root(), 0, support::runtime()).expect("a partition");
    let queue = log.root().await.expect("reads").root.queue_id();
    let from = dataflow::Partition::new("log", 0);
    let mut reader = object_log::LogReader::open(log, from, queue, 0).await.expect("opens");
    let mut records = Vec::new();
    while let object_log::reader::Read::Block(block) = reader.next().await.expect("reads") {
        records.extend((0..block.len()).map(|row| block.payloads.get(row).to_vec()));
    }
    records
}

/// The code and the message of a `google.rpc.Status`.
fn status_of(body: &[u8]) -> (u8, String) {
    assert_eq!((body[0], body[2]), (0x08, 0x12), "{body:?}");
    let begin = 4 + usize::from(body[3] > 0x7f);
    (body[1], String::from_utf8_lossy(&body[begin..]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_a_record_as_it_came_and_durable_when_it_is_answered() {
    let store = in_memory();
    let gateway = gateway(&store).await;
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&logs(&["b"])).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(&logs(&["c", "d"])[..], 1).unwrap();
    // So long that the log keeps it as it came.
    let long = logs(&["l"; 9]).repeat(500);
    for (headers, body) in [
        (vec![PROTOBUF], logs(&["a"])),
        (vec![PROTOBUF, ("Content-Encoding", "gzip")], gzip),
        (vec![PROTOBUF, ("Content-Encoding", "zstd")], zstd),
        (vec![PROTOBUF, ("Content-Encoding", "zstd")], zstd::encode_all(&long[..], 1).unwrap()),
        (vec![PROTOBUF], Vec::new()),
        (vec![PROTOBUF], field(1, [])),
    ] {
        let (status, head, answer) = gateway.send("/v1/logs", &headers, &body).await;
        assert_eq!((status, answer.as_str()), (200, ""));
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    }
    let (status, head, answer) = gateway.send("/v1/logs", &[JSON], in_json(&["e", "f"]).as_bytes()).await;
    assert_eq!((status, answer.as_str()), (200, "{}"));
    assert!(head.contains("content-type: application/json"), "{head}");
    // The stream's own route takes the same.
    for (headers, body) in [(vec![], logs(&["g"])), (vec![JSON], in_json(&["h"]).into_bytes())] {
        assert_eq!(gateway.send("/v1/streams/otlp_logs", &headers, &body).await.0, 200);
    }
    gateway.stop().await.unwrap();
    let mut expected = [&["a"][..], &["b"], &["c", "d"], &["e", "f"], &["g"], &["h"]].map(logs).to_vec();
    expected.insert(3, long);
    assert_eq!(records(&store).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_again_is_recognised_by_its_bytes_also_after_a_restart() {
    let store = in_memory();
    let made = || StreamOptions { drops_repeats: true, ..a_stream("otlp_logs", Signal::Logs, &store) };
    let gzip = |seconds: u32| {
        // Python's SDK puts the time of each try into the head.
        let head = flate2::GzBuilder::new().mtime(seconds);
        let mut encoder = head.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&logs(&["b"])).unwrap();
        encoder.finish().unwrap()
    };
    let long = zstd::encode_all(&logs(&["l"; 9]).repeat(500)[..], 1).unwrap();
    let tries = [
        (vec![PROTOBUF], logs(&["a"]), logs(&["a"])),
        (vec![PROTOBUF, ("Content-Encoding", "gzip")], gzip(1), gzip(2)),
        (vec![PROTOBUF, ("Content-Encoding", "zstd")], long.clone(), long),
        (vec![JSON], in_json(&["c"]).into_bytes(), in_json(&["c"]).into_bytes()),
    ];
    let gateway = start(options(vec![made()])).await;
    for (headers, first, second) in &tries {
        for body in [first, second] {
            assert_eq!(gateway.send("/v1/logs", headers, body).await.0, 200);
        }
    }
    gateway.stop().await.unwrap();
    let next = start(options(vec![made()])).await;
    for (headers, first, _) in &tries {
        assert_eq!(next.send("/v1/logs", headers, first).await.0, 200);
        // With a name it is a request of its own.
        let named = [&headers[..], &[("Idempotency-Key", "x")]].concat();
        assert_eq!(
            next.send("/v1/logs", &named, first).await.0 == 200,
            headers.len() == 1 && *headers != [JSON]
        );
    }
    next.stop().await.unwrap();
    let expected = [&["a"][..], &["b"], &["c"], &["a"]].map(logs);
    let mut found = records(&store).await;
    assert_eq!(found.remove(2).len(), logs(&["l"; 9]).len() * 500);
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_is_told_as_a_status_in_the_encoding_of_the_request() {
    let stores = [in_memory(), in_memory()];
    let mut small = a_stream("otlp_logs", Signal::Logs, &stores[0]);
    small.body_bytes_max = 1_000;
    let other = support::stream("otlp_metrics", &stores[1]);
    let gateway = start(options(vec![small, other])).await;
    let large = vec![0; 1_001];
    for (path, headers, body, status, code, words) in [
        (
            "/v1/logs",
            vec![PROTOBUF],
            &b"no request"[..],
            400,
            3,
            "the bytes are no request of logs; nothing was stored",
        ),
        ("/v1/logs", vec![PROTOBUF], b"\x0a\x7f", 400, 3, "nothing was stored"),
        ("/v1/logs", vec![PROTOBUF], in_json(&["a"]).as_bytes(), 400, 3, "the bytes are no request"),
        ("/v1/logs", vec![PROTOBUF], &large, 413, 3, "more than 1000 bytes"),
        ("/v1/logs", vec![PROTOBUF, ("Content-Encoding", "br")], b"", 415, 3, "`Content-Encoding`"),
        ("/v1/logs", vec![PROTOBUF, ("Content-Encoding", "gzip")], b"x", 400, 3, "`Content-Encoding`"),
        ("/v1/traces", vec![PROTOBUF], b"", 404, 5, "no stream `otlp_traces` for traces"),
        ("/v1/metrics", vec![PROTOBUF], b"", 415, 3, "needs `format: otlp_metrics`"),
        ("/v1/logs", vec![PROTOBUF, ("Origin", "https://evil.example")], b"", 403, 7, "another origin"),
    ] {
        let (found, head, answer) = gateway.send(path, &headers, body).await;
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let (told, message) = status_of(answer.as_bytes());
        assert_eq!((found, told), (status, code), "{path}: {message}");
        assert!(message.contains(words), "{message}");
    }
    for (headers, body, status, words) in [
        (vec![JSON], "{\"resourceLogs\":7}", 400, "field `resourceLogs`: `7` is not of its form"),
        (vec![JSON], "{", 400, "the request is no JSON: byte `1`"),
        (vec![("Content-Type", "text/plain")], "", 415, "`application/x-protobuf`"),
        (vec![], "", 415, "`application/x-protobuf`"),
    ] {
        let (found, head, answer) = gateway.send("/v1/logs", &headers, body.as_bytes()).await;
        assert!(head.contains("content-type: application/json"), "{head}");
        let told: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((found, &told["code"]), (status, &json!(3)), "{answer}");
        assert!(told["message"].as_str().unwrap().contains(words), "{answer}");
    }
    gateway.stop().await.unwrap();
    assert_eq!(records(&stores[0]).await, [[0; 0]; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_is_told_to_come_again_under_pressure_and_when_nobody_knows_yet() {
    let store = in_memory();
    let many = logs(&["a"; 9]).repeat(3_000);
    // Room for the request and its record, and not for two.
    let memory_bytes = 4 * many.len();
    let tight = Limits { memory_bytes, answer_wait_max: Duration::from_millis(50), ..limits() };
    let mut slow = a_stream("otlp_logs", Signal::Logs, &store);
    crate::support::linger(&mut slow, Duration::from_millis(400));
    let gateway = start(crate::Options { limits: tight, ..options(vec![slow]) }).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    let mut others = gateway.gate.hold(&stream);
    others.take(3 * many.len()).unwrap();
    for (body, status) in [(&many, 429), (&logs(&["b"]), 503)] {
        let (found, head, answer) = gateway.send("/v1/logs", &[PROTOBUF], body).await;
        assert_eq!((found, status_of(answer.as_bytes()).0), (status, 14));
        assert!(head.contains("retry-after: 1"), "{head}");
    }
    drop(others);
    // What can never fit is not to be sent again.
    let (found, head, answer) = gateway.send("/v1/logs", &[PROTOBUF], &many.repeat(2)).await;
    assert_eq!((found, status_of(answer.as_bytes()).0), (413, 3), "{answer}");
    assert!(!head.contains("retry-after") && answer.contains("raise `limits.memory`"), "{head}{answer}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["b"])], "what was begun went on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_comes_slowly_is_asked_for_again() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let store = in_memory();
    let quick = Limits { body_wait_max: Duration::from_millis(50), ..limits() };
    let made = options(vec![a_stream("otlp_logs", Signal::Logs, &store)]);
    let gateway = start(crate::Options { limits: quick, ..made }).await;
    let mut sender = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let head = b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    sender.write_all(head).await.unwrap();
    let mut told = vec![0; 2_000];
    let read = tokio::time::timeout(NEVER, sender.read(&mut told)).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&told[..read]).to_lowercase();
    assert!(told.starts_with("http/1.1 503") && told.contains("retry-after: 1"), "{told}");
    drop(sender);
    gateway.stop().await.unwrap();
}

/// On one thread, which is that of the recorder.
#[tokio::test]
async fn rows_of_a_request_that_comes_again_are_counted_once() {
    let counters = support::Counters::default();
    let _guard = metrics::set_default_local_recorder(&counters);
    let store = in_memory();
    let made = StreamOptions { drops_repeats: true, ..a_stream("otlp_logs", Signal::Logs, &store) };
    let gateway = start(options(vec![made])).await;
    let (good, bad) = good_and_bad(Signal::Logs);
    let request = rows_of(Signal::Logs, &[&good, &bad, &good]);
    for _ in 0..3 {
        let (status, _, answer) = gateway.send("/v1/logs", &[PROTOBUF], &request).await;
        assert_eq!((status, partial_of(answer.as_bytes()).0), (200, 1), "each time: {answer}");
    }
    gateway.stop().await.unwrap();
    let counted = |name| counters.of(name).into_iter().map(|(_, count)| count).collect::<Vec<_>>();
    assert_eq!(counted("forebay_gateway_otlp_rows_total"), [2]);
    assert_eq!(counted("forebay_gateway_otlp_rejected_rows_total"), [1]);
    assert_eq!(counted("forebay_gateway_repeats_total"), [2]);
}

/// On one thread, which is that of the recorder.
#[tokio::test]
async fn rows_of_a_request_that_was_stored_without_an_answer_are_counted() {
    let counters = support::Counters::default();
    let _guard = metrics::set_default_local_recorder(&counters);
    let store = in_memory();
    let mut made = StreamOptions { drops_repeats: true, ..a_stream("otlp_logs", Signal::Logs, &store) };
    // The answer says first that nobody knows yet.
    crate::support::linger(&mut made, Duration::from_secs(2));
    let limits = Limits { answer_wait_max: Duration::from_millis(50), ..limits() };
    let gateway = start(crate::Options { limits, ..options(vec![made]) }).await;
    let (good, bad) = good_and_bad(Signal::Logs);
    let request = rows_of(Signal::Logs, &[&good, &bad, &good]);
    let until_stored = async {
        loop {
            match gateway.send("/v1/logs", &[PROTOBUF], &request).await.0 {
                503 => {}
                status => return status,
            }
        }
    };
    assert_eq!(tokio::time::timeout(NEVER, until_stored).await.unwrap(), 200);
    gateway.stop().await.unwrap();
    let counted = |name| counters.of(name).into_iter().map(|(_, count)| count).collect::<Vec<_>>();
    assert_eq!(counted("forebay_gateway_otlp_rows_total"), [2]);
    assert_eq!(counted("forebay_gateway_otlp_rejected_rows_total"), [1]);
    assert_eq!(records(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn further_addresses_take_the_same_requests() {
    let store = in_memory();
    let free = testkit::free_port();
    let also = std::net::SocketAddr::from(([127, 0, 0, 1], free));
    let made = options(vec![a_stream("otlp_logs", Signal::Logs, &store)]);
    let gateway = start(crate::Options { also_listen: vec![also], ..made }).await;
    for (address, body) in [(gateway.address, "a"), (also, "b")] {
        assert_eq!(support::send(address, "/v1/logs", &[PROTOBUF], &logs(&[body])).await.0, 200);
    }
    gateway.stop().await.unwrap();
    assert!(tokio::net::TcpStream::connect(also).await.is_err());
    assert_eq!(records(&store).await, ["a", "b"].map(|body| logs(&[body])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_and_tenants_fill_streams_of_their_own() {
    let stores = [in_memory(), in_memory(), in_memory()];
    let made = options(vec![
        a_stream("events", Signal::Logs, &stores[0]),
        a_stream("acme.events", Signal::Logs, &stores[1]),
        a_stream("otlp_traces", Signal::Traces, &stores[2]),
    ]);
    let otlp = OtlpStreams { logs: "events".to_owned(), ..OtlpStreams::default() };
    let tenant_header = Some(HeaderName::from_static("x-scope-orgid"));
    let gateway = start(crate::Options { tenant_header, otlp, ..made }).await;
    let key = ("Idempotency-Key", "k");
    for (path, headers, body) in [
        ("/v1/logs", vec![PROTOBUF], logs(&["a"])),
        ("/v1/logs", vec![PROTOBUF, ("X-Scope-OrgID", "acme")], logs(&["b"])),
        ("/v1/traces", vec![PROTOBUF, key], logs(&["c"])),
        ("/v1/traces", vec![PROTOBUF, key], logs(&["c"])),
    ] {
        assert_eq!(gateway.send(path, &headers, &body).await.0, 200, "{path}");
    }
    assert_eq!(gateway.send("/v1/traces", &[PROTOBUF, key], &logs(&["d"])).await.0, 422);
    gateway.stop().await.unwrap();
    for (store, body) in stores.iter().zip(["a", "b", "c"]) {
        assert_eq!(records(store).await, [logs(&[body])]);
    }
}

/// A request of a signal with rows as they are given.
fn rows_of(signal: Signal, rows: &[&[u8]]) -> Vec<u8> {
    match signal {
        Signal::Logs | Signal::Traces => {
            field(1, field(2, rows.iter().flat_map(|row| field(2, row)).collect::<Vec<u8>>()))
        }
        Signal::Metrics => {
            let points: Vec<u8> = rows.iter().flat_map(|row| field(1, row)).collect();
            field(1, field(2, field(2, [field(1, "name"), field(5, points)].concat())))
        }
    }
}

/// A row of each signal that is whole, and one with a field of another type.
fn good_and_bad(signal: Signal) -> (Vec<u8>, Vec<u8>) {
    match signal {
        Signal::Logs => (field(5, field(1, "x")), vec![0x0a, 1, 0]),
        Signal::Traces => (field(5, "name"), vec![0x28, 1]),
        Signal::Metrics => (vec![0x19, 1, 0, 0, 0, 0, 0, 0, 0], vec![0x18, 1]),
    }
}

const SIGNALS: [(Signal, &str, &str); 3] = [
    (Signal::Logs, "/v1/logs", "otlp_logs"),
    (Signal::Traces, "/v1/traces", "otlp_traces"),
    (Signal::Metrics, "/v1/metrics", "otlp_metrics"),
];

/// A `partial_success` of a response in Protocol Buffers: the count, and the words.
pub(super) fn partial_of(response: &[u8]) -> (u8, String) {
    assert_eq!((response[0], response[2], response[4]), (0x0a, 0x08, 0x12), "{response:?}");
    (response[3], String::from_utf8_lossy(&response[6..]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_cannot_be_read_are_left_out_and_the_sender_is_told_how_many_and_why() {
    for (signal, path, name) in SIGNALS {
        let store = in_memory();
        let gateway = start(options(vec![a_stream(name, signal, &store)])).await;
        let (good, bad) = good_and_bad(signal);
        let request = rows_of(signal, &[&good, &bad, &good, &bad]);
        let zstd = zstd::encode_all(&request[..], 1).unwrap();
        for (headers, body) in
            [(vec![PROTOBUF], request.clone()), (vec![PROTOBUF, ("Content-Encoding", "zstd")], zstd)]
        {
            let (status, head, answer) = gateway.send(path, &headers, &body).await;
            assert_eq!(status, 200, "{head}");
            let (count, why) = partial_of(answer.as_bytes());
            assert_eq!(count, 2, "{why}");
            assert!(why.starts_with("row 2: in `") && why.contains("unexpected wire type"), "{why}");
        }
        // Without a good one nothing is done in part.
        let (status, _, answer) = gateway.send(path, &[PROTOBUF], &rows_of(signal, &[&bad])).await;
        assert_eq!((status, status_of(answer.as_bytes()).0), (400, 3), "{answer}");
        // The stream's own route has an answer of its own for both.
        let route = format!("/v1/streams/{name}");
        assert_eq!(gateway.send(&route, &[], &request).await.0, 400);
        let (status, _, answer) = gateway.send(&format!("{route}?on_error=skip"), &[], &request).await;
        let told: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((status, &told["records"], &told["skipped"]), (200, &json!(1), &json!(2)), "{answer}");
        gateway.stop().await.unwrap();
        let left = rows_of(signal, &[&good, &good]);
        assert_eq!(records(&store).await, [left.clone(), left.clone(), left]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_of_a_request_in_json_is_told_in_json() {
    let store = in_memory();
    let gateway = gateway(&store).await;
    let rows = json!([{ "body": { "stringValue": "a" } }, { "timeUnixNano": "soon\n" }, { "body": 7 }]);
    let request = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": rows }] }] }).to_string();
    let (status, _, answer) = gateway.send("/v1/logs", &[JSON], request.as_bytes()).await;
    let told: Value = serde_json::from_str(&answer).unwrap();
    let expected = json!({ "partialSuccess": {
        "rejectedLogRecords": "2", "errorMessage": "row 2: field `timeUnixNano`: `soon\\n` is not of its form"
    } });
    assert_eq!((status, told), (200, expected));
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["a"])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_in_json_that_is_none_is_replaced_and_costs_no_row() {
    let store = in_memory();
    let gateway = gateway(&store).await;
    let mut request = in_json(&["a", "b@", "c~"]).replace('@', "\\ud800").into_bytes();
    request.iter_mut().filter(|byte| **byte == b'~').for_each(|byte| *byte = 0xff);
    let (status, _, answer) = gateway.send("/v1/logs", &[JSON], &request).await;
    assert_eq!((status, answer.as_str()), (200, "{}"));
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["a", "b\u{fffd}", "c\u{fffd}"])]);
}

/// What is taken of a request, and whether rows of it were left out.
fn taken(form: Form, body: &[u8]) -> Result<(Vec<Vec<u8>>, bool), Refusal> {
    let mut rows = Rows::new(5, roomy(), body.len())?;
    let count = record(Signal::Logs, form, body, &mut rows)?;
    let parsed = rows.done();
    let block = parsed.records;
    assert_eq!(block.len(), usize::from(count > 0));
    let records = (0..block.len()).map(|row| block.payloads.get(row).to_vec()).collect();
    Ok((records, parsed.errors.count > 0))
}

#[test]
fn fuzz_otlp_requests() {
    testkit::Fuzz::new("gateway otlp")
        .examples([logs(&["a", "b"]), in_json(&["a", "b"]).into_bytes()])
        .words(["\"logRecords\"", "[1,", "{\"arrayValue\":{\"values\":[", "\u{1}\u{12}", "null"])
        .memory_max(1 << 20, 2_000)
        .run(2_000, |body| {
            // What is taken whole in Protocol Buffers is there as it came; what is taken in JSON, or in part, is a request too.
            for form in [Form::Protobuf, Form::Json] {
                let (records, is_in_part) = taken(form, body).unwrap_or_default();
                for record in records {
                    assert!(is_in_part || form == Form::Json || record == body);
                    assert_eq!(taken(Form::Protobuf, &record).unwrap(), (vec![record], false));
                }
            }
        });
}
