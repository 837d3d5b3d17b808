use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use axum::http::HeaderName;
use serde_json::{Value, json};
use testkit::TestDir;
use tokio::time::timeout;

use crate::options::{ClientOptions, Format, Limits, SecretFile, StreamOptions};
use crate::records::{Parsed, Rows};
use crate::support::{self, NEVER, in_memory, limits, options, records, start};

const ORDERS: &str = "/v1/streams/orders";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_answered_with_their_positions_and_are_in_the_log() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("orders", &store)])).await;
    let told = gateway.good(ORDERS, &[], "{\"id\":1}\n{\"id\":2}\n").await;
    let expected = json!({
        "stream": "orders", "partition": 0, "records": 2, "first": 0, "next": 2, "repeat": false, "skipped": 0, "errors": []
    });
    assert_eq!(told, expected);
    let json = [("Content-Type", "application/json")];
    assert_eq!(gateway.good(ORDERS, &json, "[{\"id\":3}]").await["first"], 2);
    assert_eq!(gateway.good(ORDERS, &[], "").await["records"], 0, "nothing is nothing");
    let gzip = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"{\"id\":4}").unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(gateway.send(ORDERS, &[("Content-Encoding", "gzip")], &gzip).await.0, 200);
    assert_eq!(records(&store).await, ["{\"id\":1}", "{\"id\":2}", "{\"id\":3}", "{\"id\":4}"]);
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_one_record_comes_back_as_it_was_however_it_was_compressed() {
    let store = in_memory();
    let messages = StreamOptions { format: Format::Message, ..support::stream("orders", &store) };
    let gateway = start(options(vec![messages])).await;
    let bodies: Vec<String> = (0..4).map(|n| format!("message {n} ").repeat(5_000)).collect();
    for (n, body) in bodies.iter().enumerate() {
        let (encoding, sent) = match n % 2 {
            0 => ("zstd", zstd::bulk::compress(body.as_bytes(), 1).unwrap()),
            _ => ("identity", body.clone().into_bytes()),
        };
        let key = format!("key {n}");
        let headers = [("Content-Encoding", encoding), ("Idempotency-Key", &key)];
        assert_eq!(gateway.send(ORDERS, &headers, &sent).await.0, 200);
        let again = gateway.send(ORDERS, &headers, &sent).await.2;
        assert!(again.contains("\"repeat\":true"), "{again}");
    }
    assert_eq!(records(&store).await, bodies);
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_lines_refuse_all_or_are_left_out_as_asked() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("orders", &store)])).await;
    let body = b"{\"id\":1}\nx\n{\"id\":2}\n";
    let (status, _, text) = gateway.send(ORDERS, &[], body).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &told["code"], &told["error_count"]), (400, &json!("malformed"), &json!(1)));
    assert_eq!(told["errors"], json!([{ "line": 2, "error": "is no JSON object" }]));
    let skipping = format!("{ORDERS}?on_error=skip");
    let (status, _, text) = gateway.send(&skipping, &[], body).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &told["records"], &told["skipped"]), (200, &json!(2), &json!(1)));
    assert_eq!(told["errors"][0]["line"], 2);
    assert_eq!(
        records(&store).await,
        ["{\"id\":1}", "{\"id\":2}"],
        "of the first request nothing was stored"
    );
    assert_eq!(gateway.send(&format!("{ORDERS}?onerror=skip"), &[], body).await.0, 400, "a slip of the pen");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_a_key_is_known_also_by_the_next_gateway() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("orders", &store)])).await;
    let key = [("Idempotency-Key", "abc")];
    let first = gateway.good(ORDERS, &key, "{\"id\":1}\n").await;
    assert_eq!((&first["first"], &first["repeat"]), (&json!(0), &json!(false)));
    let again = gateway.good(ORDERS, &key, "{\"id\":1}\n").await;
    assert_eq!((&again["first"], &again["repeat"]), (&json!(0), &json!(true)));
    // Both at once.
    let other = [("Idempotency-Key", "def")];
    let (one, two) =
        tokio::join!(gateway.good(ORDERS, &other, "{\"id\":2}"), gateway.good(ORDERS, &other, "{\"id\":2}"));
    assert_eq!((&one["first"], &two["first"]), (&json!(1), &json!(1)));
    let (status, _, text) = gateway.send(ORDERS, &key, b"{\"id\":7}\n").await;
    assert!(status == 422 && text.contains("key_reused"), "{text}");
    gateway.stop().await.unwrap();

    let next = start(options(vec![support::stream("orders", &store)])).await;
    for (key, body, first) in [("abc", "{\"id\":1}\n", 0), ("def", "{\"id\":2}", 1)] {
        let told = next.good(ORDERS, &[("Idempotency-Key", key)], body).await;
        assert_eq!((&told["first"], &told["repeat"]), (&json!(first), &json!(true)));
    }
    assert_eq!(next.good(ORDERS, &[], "{\"id\":1}\n").await["first"], 2, "without a key nothing is known");
    assert_eq!(records(&store).await.len(), 3);
    let long = "x".repeat(256);
    for key in ["", long.as_str()] {
        assert_eq!(next.send(ORDERS, &[("Idempotency-Key", key)], b"{}").await.0, 400);
    }
    let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    assert_eq!(next.send(ORDERS, &twice, b"{}").await.0, 400);
    next.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_with_the_reason() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("orders", &store)])).await;
    let large = vec![b' '; (1 << 20) + 1];
    for (path, headers, body, status, code) in [
        ("/v1/streams/nothing", &[][..], &b"{}"[..], 404, "no_stream"),
        (ORDERS, &[("Content-Type", "text/csv")], b"1,2", 415, "media_type"),
        (ORDERS, &[("Content-Encoding", "br")], b"{}", 415, "media_type"),
        (ORDERS, &[("Content-Encoding", "gzip")], b"{}", 400, "malformed"),
        (ORDERS, &[], &large, 413, "too_large"),
        (ORDERS, &[("Origin", "https://evil.example")], b"{}", 403, "forbidden"),
    ] {
        let (found, _, text) = gateway.send(path, headers, body).await;
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!((found, &told["code"]), (status, &json!(code)), "{path} {headers:?}: {text}");
    }
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_memory_of_all_are_told_when_to_come_again() {
    let store = in_memory();
    let limits = Limits { memory_bytes: 2 << 20, ..limits() };
    let gateway = start(crate::Options { limits, ..options(vec![support::stream("orders", &store)]) }).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    let mut others = gateway.gate.hold(&stream);
    others.take(3 << 19).unwrap();
    let body = b"{\"id\":1}\n".repeat(20_000);
    let (status, head, text) = gateway.send(ORDERS, &[], &body).await;
    assert!(status == 429 && head.contains("retry-after: 1"), "{head}{text}");
    assert_eq!(gateway.good(ORDERS, &[], "{\"id\":1}\n").await["first"], 0, "what it held is back");
    drop(others);
    assert_eq!(gateway.send(ORDERS, &[], &body).await.0, 200, "the same request, once there is room");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_can_never_fit_is_too_large_in_every_protocol() {
    let made = || Vec::from(["orders", "loki", "splunk"].map(|name| support::stream(name, &in_memory())));
    let of_all = Limits { memory_bytes: 256 << 10, ..limits() };
    let mut of_one = made();
    of_one.iter_mut().for_each(|stream| stream.memory_bytes = 256 << 10);
    let tight = [
        (crate::Options { limits: of_all, ..options(made()) }, "raise `limits.memory`"),
        (options(of_one), "raise `memory` of the stream"),
    ];
    for (options, words) in tight {
        let gateway = start(options).await;
        let line = "x".repeat(180 << 10);
        let bodies = [
            (ORDERS, format!("{{\"id\":\"{line}\"}}\n")),
            ("/orders/_bulk", format!("{{\"index\":{{}}}}\n{{\"id\":\"{line}\"}}\n")),
            ("/loki/api/v1/push", format!("{{\"streams\":[{{\"values\":[[\"1\",\"{line}\"]]}}]}}")),
            // Its body is held for all streams together: which of them it is for is known only when it was read.
            ("/services/collector/event", format!("{{\"event\":\"{line}{line}\"}}")),
        ];
        for (path, body) in bodies {
            let json = [("Content-Type", "application/json")];
            let (status, head, text) = gateway.send(path, &json, body.as_bytes()).await;
            assert!(status == 413 && !head.contains("retry-after") && text.contains(words), "{path}: {text}");
            let half = body.replace(&line, &line[..40 << 10]);
            assert!(gateway.send(path, &json, half.as_bytes()).await.0 < 300, "{path}: the way out");
        }
        gateway.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_takes_too_long_leaves_open_what_became_of_the_records() {
    let store = in_memory();
    let limits = Limits { answer_wait_max: Duration::from_millis(50), ..limits() };
    let mut stream = support::stream("orders", &store);
    crate::support::linger(&mut stream, Duration::from_secs(2));
    let gateway = start(crate::Options { limits, ..options(vec![stream]) }).await;
    let key = [("Idempotency-Key", "slow")];
    let (status, head, text) = gateway.send(ORDERS, &key, b"{\"id\":1}").await;
    assert!(status == 503 && text.contains("not_yet") && head.contains("retry-after"), "{text}");
    assert!(text.contains("send again, under the same `Idempotency-Key`\""), "{text}");
    // It went on without its client, and a retry meets it.
    let met = async {
        loop {
            let (status, _, text) = gateway.send(ORDERS, &key, b"{\"id\":1}").await;
            if status == 200 {
                return text;
            }
        }
    };
    let text = timeout(NEVER, met).await.expect("it becomes durable");
    assert!(text.contains("\"repeat\":true"), "{text}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_fill_their_own_streams_and_tenants_theirs() {
    let dir = TestDir::new("gateway-clients").unwrap();
    let client = |name: &str, streams: Option<&[&str]>, tenant: Option<&str>| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("token-of-{name}")).unwrap();
        ClientOptions {
            name: name.to_owned(),
            secret: SecretFile::Tokens(path),
            streams: streams.map(|names| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>()),
            tenant: tenant.map(str::to_owned),
        }
    };
    let stores = [in_memory(), in_memory(), in_memory()];
    let streams = ["orders", "clicks", "acme.orders"].into_iter().zip(&stores);
    let made = options(streams.map(|(name, store)| support::stream(name, store)).collect());
    let clients = vec![
        client("shop", Some(&["orders"]), None),
        client("acme", None, Some("acme")),
        client("all", None, None),
    ];
    let tenant_header = Some(HeaderName::from_static("x-scope-orgid"));
    let gateway = start(crate::Options { clients, tenant_header, ..made }).await;
    let send = async |token: &str, tenant: &str, stream: &str| {
        let token = format!("Bearer token-of-{token}");
        let mut headers = vec![("Authorization", token.as_str())];
        if !tenant.is_empty() {
            headers.push(("X-Scope-OrgID", tenant));
        }
        gateway.send(&format!("/v1/streams/{stream}"), &headers, b"{}").await.0
    };
    assert_eq!(gateway.send(ORDERS, &[], b"{}").await.0, 401);
    let (_, head, _) = gateway.send(ORDERS, &[("Authorization", "Bearer wrong-token")], b"{}").await;
    assert!(head.contains("www-authenticate: bearer") && head.starts_with("http/1.1 401"), "{head}");
    for (token, tenant, stream, status) in [
        ("shop", "", "orders", 200),
        ("shop", "", "clicks", 403),
        ("shop", "acme", "orders", 403),
        ("acme", "", "orders", 200),
        ("acme", "acme", "orders", 200),
        ("acme", "other", "orders", 403),
        ("acme", "", "clicks", 404),
        ("all", "acme", "orders", 200),
        ("all", "a.b", "orders", 400),
        ("all", "", "clicks", 200),
    ] {
        assert_eq!(send(token, tenant, stream).await, status, "{token} {tenant} {stream}");
    }
    gateway.stop().await.unwrap();
    let mut counts = Vec::new();
    for store in &stores {
        counts.push(records(store).await.len());
    }
    assert_eq!(counts, [1, 1, 3]);
}

/// While the store is away senders repeat what they have sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_waits_for_the_first_request_takes_no_room() {
    let mut never = support::stream("orders", &in_memory());
    support::linger(&mut never, NEVER);
    let gateway = start(options(vec![never])).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    let send = async || {
        let mut rows = Rows::new(5, gateway.gate.hold(&stream), 0).unwrap();
        rows.push(b"{\"id\":1}").unwrap();
        let Parsed { records, held, .. } = rows.done();
        let key = stream.key("", Some(&b"a"[..]), &records, None).unwrap();
        stream.append(records, key, held, NEVER).await
    };
    let mut first = pin!(send());
    let mut retry = pin!(send());
    let wait = Duration::from_millis(50);
    assert!(timeout(wait, first.as_mut()).await.is_err());
    let held = gateway.gate.held_bytes();
    assert!(timeout(wait, retry.as_mut()).await.is_err());
    assert_eq!(gateway.gate.held_bytes(), held);
}
