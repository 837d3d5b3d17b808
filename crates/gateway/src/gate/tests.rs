use formats::otlp::Signal;
use testkit::TestDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::options::{ClientOptions, Format, Options, SecretFile, StreamOptions};
use crate::support::{self, in_memory, options, start};

#[test]
fn a_tenants_name_is_a_word() {
    for name in ["acme", "ACME-1_x", &"a".repeat(64)] {
        assert_eq!(tenant(Some(name)).unwrap(), name);
    }
    // A dot would make one tenant's stream another's.
    for name in ["", "a.b", "a/b", "ä", "a b", &"a".repeat(65)] {
        assert_eq!(tenant(Some(name)).unwrap_err().kind, Kind::Malformed);
    }
    assert_eq!(tenant(None).unwrap_err().kind, Kind::Malformed);
}

#[test]
fn a_request_that_names_two_tenants_is_of_neither() {
    let name = HeaderName::from_static("x-scope-orgid");
    let of = |tenants: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for tenant in tenants {
            headers.append(name.clone(), axum::http::HeaderValue::from_static(tenant));
        }
        asked(&headers, &name)
    };
    assert_eq!(of(&[]), Ok(None));
    assert_eq!(of(&["acme"]), Ok(Some("acme".to_owned())));
    assert_eq!(of(&["acme", "acme"]), Ok(Some("acme".to_owned())));
    let refused = of(&["other", "acme"]).unwrap_err();
    assert!(refused.kind == Kind::Malformed && refused.message.contains("x-scope-orgid"), "{refused:?}");
}

/// On one thread, which is that of the recorder.
#[tokio::test]
async fn requests_of_every_protocol_are_counted_for_the_stream_that_they_meant() {
    let counters = crate::support::Counters::default();
    let _guard = metrics::set_default_local_recorder(&counters);
    let store = in_memory();
    let logs =
        StreamOptions { format: Format::Otlp(Signal::Logs), ..support::stream("otlp_logs", &in_memory()) };
    let tenant = HeaderName::from_static("x-scope-orgid");
    let gateway = start(Options {
        tenant_header: Some(tenant),
        ..options(vec![support::stream("web", &store), support::stream("acme.web", &in_memory()), logs])
    })
    .await;
    let json = ("Content-Type", "application/json");
    let push = br#"{"streams":[{"stream":{},"values":[["1","x"]]}]}"#;
    let bulk = b"{\"create\":{\"_index\":\"web\"}}\n{}\n{\"create\":{\"_index\":\"none\"}}\n{}\n";
    let otlp = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a"}}]}]}]}"#;
    let protobuf = ("Content-Type", "application/x-protobuf");
    for (path, headers, body, status) in [
        ("/v1/streams/web", &[json][..], &b"{}"[..], 200),
        ("/v1/streams/web", &[json, ("X-Scope-OrgID", "acme")], b"{}", 200),
        ("/v1/streams/none", &[json], b"{}", 404),
        ("/web/loki/api/v1/push", &[json], push, 204),
        ("/web/loki/api/v1/push", &[json], b"[]", 400),
        ("/_bulk", &[], bulk, 200),
        ("/_bulk", &[], b"no action\n", 400),
        ("/services/collector/event", &[], b"{\"event\":1,\"index\":\"web\"}", 200),
        ("/services/collector/event", &[], b"{\"time\":1,\"index\":\"web\"}", 400),
        ("/web/api/v1/write", &[protobuf], b"no snappy", 400),
        ("/v1/logs", &[json], otlp, 200),
        ("/v1/logs", &[json], b"{\"resourceLogs\":1}", 400),
    ] {
        let (found, _, text) = gateway.send(path, headers, body).await;
        assert_eq!(found, status, "{path}: {text}");
    }
    gateway.stop().await.unwrap();
    let expected = [
        (" no_stream", 2),
        (" malformed", 1),
        ("acme.web ok", 1),
        ("web ok", 4),
        ("web malformed", 3),
        ("otlp_logs ok", 1),
        ("otlp_logs malformed", 1),
    ];
    let mut found = counters.of("forebay_gateway_requests_total ");
    let mut expected = expected.map(|(labels, count)| (labels.to_owned(), count)).to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn lokis_senders_hear_that_a_gateway_stops() {
    let gateway = start(options(vec![support::stream("loki", &in_memory())])).await;
    let get = async || {
        let mut stream = TcpStream::connect(gateway.address).await.expect("connects");
        stream
            .write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).await.expect("an answer");
        told
    };
    assert!(get().await.contains("200 OK"));
    gateway.gate.drain();
    assert!(get().await.contains("503"));
    gateway.stop().await.unwrap();
}

/// A web page can bring a name to this machine, and no address.
#[tokio::test]
async fn a_gateway_of_this_machine_alone_is_asked_by_an_address_or_as_localhost() {
    let gateway = start(options(vec![support::stream("web", &in_memory())])).await;
    let hosts = [("localhost", 200), ("127.0.0.1:8686", 200), ("192.0.2.7", 200), ("logs.example", 403)];
    for (host, status) in hosts {
        let mut stream = TcpStream::connect(gateway.address).await.expect("connects");
        let head = format!("POST /v1/streams/web HTTP/1.1\r\nHost: {host}\r\nConnection: close");
        stream.write_all(format!("{head}\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes()).await.unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).await.expect("an answer");
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {told}");
    }
    gateway.stop().await.unwrap();
}

/// A path, headers and a body.
type Sent<'s> = (&'s str, &'s [(&'s str, &'s str)], &'s str);

/// What a sender is told, and what it sends after the advice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_out_that_an_answer_names_is_one() {
    let dir = TestDir::new("gateway-ways").unwrap();
    let path = dir.path().join("tokens");
    std::fs::write(&path, "token-of-shop").unwrap();
    let client = ClientOptions {
        name: "shop".to_owned(),
        secret: SecretFile::Tokens(path),
        streams: None,
        tenant: None,
    };
    let logs =
        StreamOptions { format: Format::Otlp(Signal::Logs), ..support::stream("otlp_logs", &in_memory()) };
    let streams = vec![support::stream("web", &in_memory()), support::stream("splunk", &in_memory()), logs];
    let gateway = start(Options { clients: vec![client], ..options(streams) }).await;
    let (web, skip) = ("/v1/streams/web", "/v1/streams/web?on_error=skip");
    let (loki, bulk) = ("/web/loki/api/v1/push", "/_bulk");
    let json = ("Content-Type", "application/json");
    let (key, other) = (("Idempotency-Key", "a"), ("Idempotency-Key", "b"));
    let (long, large) = ("k".repeat(300), format!("{{\"a\":\"{}\"}}\n", "x".repeat(100)).repeat(12_000));
    let long = ("Idempotency-Key", long.as_str());
    let push = r#"{"streams":[{"stream":{},"values":[["1","x"]]}]}"#;
    let otlp = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a"}}]}]}]}"#;
    let items = "{\"create\":{\"_index\":\"web\"}}\n{}\n";
    let many = "{\"index\":{}}\n{}\n".repeat(70_000);
    let good: Sent<'_> = (web, &[json, key], "{\"id\":1}");
    assert_eq!(sent(&gateway, good).await.0, 200);
    let cases: [(u16, &str, Sent<'_>, Sent<'_>); 11] = [
        (400, "send with `?on_error=skip` to leave it out", (web, &[], "{}\nx\n"), (skip, &[], "{}\nx\n")),
        (400, "fix it", (web, &[], "{}\nx\n"), (web, &[], "{}\n{}\n")),
        (
            400,
            "it takes `on_error=refuse` or `on_error=skip`",
            ("/v1/streams/web?skip", &[], "{}"),
            (skip, &[], "{}"),
        ),
        (413, "send less at a time", (web, &[], &large), (web, &[], &large[..large.len() / 2 / 109 * 109])),
        (
            415,
            "use `gzip`, `zstd`, `deflate`, `snappy` or none",
            (web, &[("Content-Encoding", "br")], "{}"),
            (web, &[], "{}"),
        ),
        (
            422,
            "give each request one of its own",
            (web, &[json, key], "{\"id\":2}"),
            (web, &[json, other], "{\"id\":2}"),
        ),
        (400, "it takes 1 to", (web, &[long], "{}"), (web, &[("Idempotency-Key", "c")], "{}")),
        (415, "`application/json` or `application/x-protobuf`", (loki, &[], push), (loki, &[json], push)),
        (
            400,
            "it takes `{\\\"create\\\": {\\\"_index\\\": \\\"NAME\\\"}}`",
            (bulk, &[], "x\n"),
            (bulk, &[], items),
        ),
        (
            413,
            "send less at a time",
            ("/web/_bulk", &[], &many),
            ("/web/_bulk", &[], &many[..many.len() / 2]),
        ),
        (
            415,
            "`application/x-protobuf` or `application/json`",
            ("/v1/logs", &[], otlp),
            ("/v1/logs", &[json], otlp),
        ),
    ];
    for (status, words, bad, good) in &cases {
        let (found, text) = sent(&gateway, *bad).await;
        assert!(found == *status && text.contains(words), "`{words}`: {found} {text}");
        let (found, text) = sent(&gateway, *good).await;
        assert!((200..300).contains(&found), "after `{words}`: {found} {text}");
    }
    // Who does not say who it is, is told how.
    let (found, _, text) = gateway.send(web, &[], b"{}").await;
    assert!(found == 401 && text.contains("send it in the header `Authorization`"), "{text}");
    gateway.stop().await.unwrap();
}

/// Who shows a wrong secret is told so in the words of its protocol, and not what the right one is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_refused_in_the_words_of_every_protocol() {
    let dir = TestDir::new("gateway-secrets").unwrap();
    let path = dir.path().join("tokens");
    std::fs::write(&path, "token-of-shop").unwrap();
    let secret = SecretFile::Tokens(path);
    let client = ClientOptions { name: "shop".to_owned(), secret, streams: None, tenant: None };
    let stores = [in_memory(), in_memory(), in_memory()];
    let logs =
        StreamOptions { format: Format::Otlp(Signal::Logs), ..support::stream("otlp_logs", &stores[2]) };
    let streams = vec![support::stream("web", &stores[0]), support::stream("splunk", &stores[1]), logs];
    let gateway = start(Options { clients: vec![client], ..options(streams) }).await;
    let json = ("Content-Type", "application/json");
    let protobuf = ("Content-Type", "application/x-protobuf");
    let push = r#"{"streams":[{"stream":{},"values":[["1","x"]]}]}"#;
    let otlp = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a"}}]}]}]}"#;
    for (path, media, body, words) in [
        ("/v1/streams/web", json, "{}", "\"code\":\"unauthorized\""),
        ("/_bulk", json, "{\"create\":{\"_index\":\"web\"}}\n{}\n", "\"status\":401"),
        ("/web/_bulk", json, "{\"create\":{}}\n{}\n", "\"status\":401"),
        ("/web/loki/api/v1/push", json, push, "\"code\":\"unauthorized\""),
        ("/services/collector/event", json, "{\"event\":1}", "\"code\":4"),
        ("/services/collector/raw", json, "x", "\"code\":4"),
        ("/web/api/v1/write", protobuf, "", "\"code\":\"unauthorized\""),
        ("/v1/logs", json, otlp, "\"code\":16"),
        ("/v1/logs", protobuf, "", "\u{8}\u{10}\u{12}"),
    ] {
        let wrong = ["Bearer token-of-shap", "Bearer", "Splunk token-of-sho", "Basic dG9rZW4tb2Ytc2hvcDp4"];
        for shown in wrong.map(Some).into_iter().chain([None]) {
            let mut headers = vec![media];
            headers.extend(shown.map(|secret| ("Authorization", secret)));
            let (status, head, text) = gateway.send(path, &headers, body.as_bytes()).await;
            assert!(status == 401 && text.contains(words), "{path} {shown:?}: {status} {text}");
            assert!(head.contains("www-authenticate: bearer"), "{path}: {head}");
            assert!(!text.contains("token-of-shop"), "{path}: {text}");
        }
    }
    gateway.stop().await.unwrap();
    for store in &stores {
        assert!(support::records(store).await.is_empty());
    }
}

/// What a client is answered that says who it is.
async fn sent(gateway: &support::Running, (path, headers, body): Sent<'_>) -> (u16, String) {
    let headers = [headers, &[("Authorization", "Bearer token-of-shop")]].concat();
    let (status, _, text) = gateway.send(path, &headers, body.as_bytes()).await;
    (status, text)
}

/// Bodies that say only inside which streams they fill count for their own tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_bodies_fill_its_memory_leaves_another_served() {
    let stream = |name: &str| StreamOptions {
        body_bytes_max: 128 << 10,
        memory_bytes: 512 << 10,
        ..support::stream(name, &in_memory())
    };
    let event = r#"{"index":"web","event":{"x":1}}"#;
    let bulk = "{\"create\":{\"_index\":\"web\"}}\n{\"x\":1}\n";
    for (path, body, busy) in [("/_bulk", bulk, 429), ("/services/collector", event, 503)] {
        let gateway = start(Options {
            tenant_header: Some(HeaderName::from_static("x-scope-orgid")),
            limits: crate::options::Limits { memory_bytes: 1 << 20, ..support::limits() },
            ..options(vec![stream("acme.web"), stream("other.web")])
        })
        .await;
        // Sixteen bodies that do not end: together they would take all memory twice.
        let mut unfinished = Vec::new();
        for _ in 0..16 {
            let mut sender = TcpStream::connect(gateway.address).await.unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Scope-OrgID: acme\r\nContent-Length: {}\r\n\r\n",
                128 << 10
            );
            sender.write_all(head.as_bytes()).await.unwrap();
            // One that is refused meanwhile closes the connection.
            let _ = sender.write_all(&[b' '; 120 << 10]).await;
            unfinished.push(sender);
        }
        let acme = gateway.gate.streams().find(|stream| stream.name == "acme.web").unwrap().clone();
        let full = async {
            while gateway.gate.held_bytes() < 400 << 10 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(support::NEVER, full).await.expect("they take what they may");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(gateway.gate.held_bytes() <= 600 << 10, "{}", gateway.gate.held_bytes());
        let json = ("Content-Type", "application/json");
        let sent =
            async |tenant| gateway.send(path, &[json, ("X-Scope-OrgID", tenant)], body.as_bytes()).await;
        let (status, _, told) = sent("other").await;
        assert_eq!(status, 200, "{path}: {told}");
        // Its own next request finds no room.
        let mut rest = gateway.gate.hold(&acme);
        while rest.take(1 << 10).is_ok() {}
        assert_eq!(sent("acme").await.0, busy, "{path}");
        drop((rest, unfinished));
        // One that has no stream is told so before its body is read.
        assert_ne!(sent("nobody").await.0, 200);
        gateway.stop().await.unwrap();
    }
}
