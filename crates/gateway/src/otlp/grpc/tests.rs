use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Request;
use dataflow::{Partition, ReadFrom, Source as _};
use tokio::net::TcpStream;

use super::super::tests::{a_stream, field, logs, partial_of, records};
use super::*;
use crate::direct::{Direct, DirectSource};
use crate::options::{ClientOptions, Fills, Limits, SecretFile, StreamOptions};
use crate::server::End;
use crate::support::{NEVER, in_memory, limits, options, roomy, start};

const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// What a call ended with.
#[derive(Debug)]
struct Called {
    status: u16,
    /// Headers, and trailers behind them.
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Called {
    fn text(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn code(&self) -> u32 {
        self.text("grpc-status").parse().unwrap_or(99)
    }
}

/// A question for the health of a service.
fn question(name: &str) -> Vec<u8> {
    frame::framed(&[&[0x0a, name.len() as u8], name.as_bytes()].concat())
}

/// Calls on a connection of its own, as a client of gRPC does.
async fn call(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Called {
    call_telling(address, path, headers, body, || ()).await
}

/// The same; calls `on_piece` for each piece of the answer that has come.
async fn call_telling(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
    mut on_piece: impl FnMut(),
) -> Called {
    let tcp = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(tcp).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let (response, mut sending) = client.send_request(request.body(()).unwrap(), false).unwrap();
    // The answer may be there before everything was taken.
    let _ = sending.send_data(body.into(), true);
    let response = tokio::time::timeout(NEVER, response).await.expect("an answer").unwrap();
    let (head, mut from) = response.into_parts();
    let (mut headers, mut body) = (head.headers, Vec::new());
    while let Some(piece) = from.data().await {
        let piece = piece.unwrap();
        from.flow_control().release_capacity(piece.len()).unwrap();
        body.extend_from_slice(&piece);
        on_piece();
    }
    headers.extend(from.trailers().await.unwrap().unwrap_or_default());
    driving.abort();
    Called { status: head.status.as_u16(), headers, body }
}

fn compressed(encoded: Vec<u8>) -> Vec<u8> {
    let mut framed = frame::framed(&encoded);
    framed[0] = 1;
    framed
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_a_record_as_it_came_and_durable_when_the_call_is_ok() {
    let store = in_memory();
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &store)])).await;
    let long = logs(&["c"; 9]).repeat(500);
    let zstd = zstd::encode_all(&long[..], 1).unwrap();
    for (headers, body) in [
        (vec![], frame::framed(&logs(&["a"]))),
        (vec![("grpc-encoding", "gzip"), ("grpc-timeout", "10S")], compressed(gzip(&logs(&["b"])))),
        (vec![("grpc-encoding", "zstd")], compressed(zstd)),
        // A message may say that it is not compressed although others are.
        (
            vec![("grpc-encoding", "gzip"), ("content-type", "application/grpc+proto")],
            frame::framed(&logs(&["d"])),
        ),
        (vec![], frame::framed(&[])),
    ] {
        let called = call(gateway.address, EXPORT, &headers, body).await;
        assert_eq!(
            (called.status, called.code(), called.body.as_slice()),
            (200, 0, &[0; 5][..]),
            "{called:?}"
        );
    }
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["a"]), logs(&["b"]), long, logs(&["d"])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_taken_in_part_says_so_in_its_response() {
    let store = in_memory();
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &store)])).await;
    // A field of a log record that is not of its type, behind one that is whole.
    let rows = [field(2, field(5, field(1, "a"))), field(2, [0x0a, 1, 0])].concat();
    let called = call(gateway.address, EXPORT, &[], frame::framed(&field(1, field(2, rows)))).await;
    assert_eq!(called.code(), 0, "{called:?}");
    let (count, why) = partial_of(&called.body[5..]);
    assert_eq!(count, 1);
    assert_eq!(why, "row 2: in `LogRecord`, field `1` has the unexpected wire type `2`");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["a"])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_be_taken_has_a_code_that_senders_do_not_repeat() {
    let store = in_memory();
    let mut small = a_stream("otlp_logs", Signal::Logs, &store);
    small.body_bytes_max = 1_000;
    let gateway = start(options(vec![small])).await;
    let good = frame::framed(&logs(&["a"]));
    let traces = EXPORT.replace("logs", "trace").replace("LogsService", "TraceService");
    for (path, headers, body, code, words) in [
        (EXPORT, vec![], frame::framed(b"no request"), 3, "the bytes are no request of logs"),
        (EXPORT, vec![], vec![], 3, "no whole message"),
        (EXPORT, vec![], good[..good.len() - 1].to_vec(), 3, "ends within its message"),
        (EXPORT, vec![], [&good[..], b"x"].concat(), 3, "more than one message"),
        (EXPORT, vec![], frame::framed(&[0; 1_001]), 3, "more than"),
        (EXPORT, vec![("grpc-encoding", "gzip")], compressed(gzip(&[0; 9_000])), 3, "more than"),
        (EXPORT, vec![], compressed(vec![1]), 3, "does not say how"),
        (EXPORT, vec![("grpc-encoding", "br")], good.clone(), 12, "`grpc-encoding`"),
        (EXPORT, vec![("grpc-timeout", "1 second")], good.clone(), 3, "`grpc-timeout`"),
        (traces.as_str(), vec![], good.clone(), 5, "no stream `otlp_traces`"),
        (EXPORT, vec![("origin", "https://evil.example")], good.clone(), 7, "another origin"),
    ] {
        let called = call(gateway.address, path, &headers, body).await;
        assert_eq!((called.status, called.code()), (200, code), "{words} {called:?}");
        assert!(called.text("grpc-message").contains(words), "{called:?}");
        assert_eq!(called.text("grpc-status-details-bin"), "");
    }
    // Profiles as they are at present, and what nobody has ever heard of.
    for path in ["/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", "/a.b/C"] {
        let called = call(gateway.address, path, &[], good.clone()).await;
        assert_eq!((called.status, called.code()), (200, 12), "{called:?}");
        assert!(called.text("grpc-message").contains("no such method"), "{called:?}");
    }
    // What is no call of gRPC.
    for path in ["/v1development/profiles", "/a.b/C"] {
        let (status, ..) = gateway.send(path, &[("Content-Type", "application/x-protobuf")], &good).await;
        assert_eq!(status, 404);
    }
    let (status, ..) = gateway.send(EXPORT, &[("Content-Type", "application/grpc")], &good).await;
    assert_eq!(status, 505);
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [[0; 0]; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pressure_is_unavailable_with_a_delay_and_a_deadline_ends_the_wait() {
    let store = in_memory();
    let many = logs(&["a"; 9]).repeat(3_000);
    // Room for the request and its record, and not for two.
    let tight = Limits { memory_bytes: 4 * many.len(), ..limits() };
    let mut slow = a_stream("otlp_logs", Signal::Logs, &store);
    crate::support::linger(&mut slow, Duration::from_millis(600));
    let gateway = start(crate::Options { limits: tight, ..options(vec![slow]) }).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    let mut others = gateway.gate.hold(&stream);
    others.take(3 * many.len()).unwrap();
    let called = call(gateway.address, EXPORT, &[], frame::framed(&many)).await;
    drop(others);
    let never = call(gateway.address, EXPORT, &[], frame::framed(&many.repeat(2))).await;
    assert_eq!((never.code(), never.text("grpc-status-details-bin")), (3, ""), "{never:?}");
    assert!(never.text("grpc-message").contains("raise `limits.memory`"), "{never:?}");
    assert_eq!(called.code(), 14, "{called:?}");
    let details = STANDARD_NO_PAD.decode(called.text("grpc-status-details-bin")).unwrap();
    // Any { type_url, RetryInfo { Duration { seconds: 1 } } }
    assert!(
        details.ends_with(b"type.googleapis.com/google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x01"),
        "{details:?}"
    );
    assert_eq!(called.text("google.rpc.retryinfo-bin"), "CgIIAQ");
    let called =
        call(gateway.address, EXPORT, &[("grpc-timeout", "50m")], frame::framed(&logs(&["b"]))).await;
    assert_eq!(called.code(), 4, "{called:?}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["b"])], "what was begun went on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_a_wrong_token_is_unauthenticated_and_stores_nothing() {
    let dir = testkit::TestDir::new("gateway-grpc-tokens").unwrap();
    let path = dir.path().join("tokens");
    std::fs::write(&path, "token-of-shop").unwrap();
    let secret = SecretFile::Tokens(path);
    let client = ClientOptions { name: "shop".to_owned(), secret, streams: None, tenant: None };
    let store = in_memory();
    let made = options(vec![a_stream("otlp_logs", Signal::Logs, &store)]);
    let gateway = start(crate::Options { clients: vec![client], ..made }).await;
    let bearer = |token| vec![("authorization", token)];
    for headers in [vec![], bearer("Bearer token-of-shap"), bearer("Basic dG9rZW4tb2Ytc2hvcDp4")] {
        let called = call(gateway.address, EXPORT, &headers, frame::framed(&logs(&["a"]))).await;
        assert_eq!((called.status, called.code()), (200, 16), "{called:?}");
        assert!(!called.text("grpc-message").contains("token-of-shop"), "{called:?}");
        assert_eq!(called.text("grpc-status-details-bin"), "", "it is not to be sent again");
    }
    let health = call(gateway.address, CHECK, &[], frame::framed(&[])).await;
    assert_eq!(health.code(), 0, "health is told to everybody: {health:?}");
    let right = bearer("Bearer token-of-shop");
    let called = call(gateway.address, EXPORT, &right, frame::framed(&logs(&["b"]))).await;
    assert_eq!(called.code(), 0, "{called:?}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [logs(&["b"])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_a_gateway_that_stops_is_to_be_sent_again() {
    let store = in_memory();
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &store)])).await;
    gateway.gate.drain();
    let called = call(gateway.address, EXPORT, &[], frame::framed(&logs(&["a"]))).await;
    assert_eq!((called.code(), called.text("google.rpc.retryinfo-bin")), (14, "CgIIAQ"), "{called:?}");
    let health = call(gateway.address, CHECK, &[], frame::framed(&[])).await;
    assert_eq!((health.code(), health.body), (0, frame::framed(&[0x08, NOT_SERVING])));
    let protobuf = [("Content-Type", "application/x-protobuf")];
    let (status, head, _) = gateway.send("/v1/logs", &protobuf, &logs(&["a"])).await;
    assert!(status == 503 && head.contains("retry-after: 1"), "{head}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, [[0; 0]; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_told_of_each_service_and_of_the_gateway() {
    let store = in_memory();
    let tight = Limits { memory_bytes: 1 << 20, ..limits() };
    let made = options(vec![a_stream("otlp_logs", Signal::Logs, &store)]);
    let gateway = start(crate::Options { limits: tight, ..made }).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    for body in [frame::framed(&[]), question(SERVICES[0].0)] {
        // Requests that hold all the memory for them make it no less healthy.
        let mut others = gateway.gate.hold(&stream);
        while others.take(1 << 10).is_ok() {}
        let called = call(gateway.address, CHECK, &[], body).await;
        assert_eq!((called.code(), called.body), (0, frame::framed(&[0x08, SERVING])));
    }
    assert_eq!(call(gateway.address, CHECK, &[], question("other.Service")).await.code(), 5);
    let all = call(gateway.address, "/grpc.health.v1.Health/List", &[], question("")).await;
    let told = String::from_utf8_lossy(&all.body).into_owned();
    assert_eq!((all.code(), told.matches("\u{8}\u{1}").count()), (0, 4));
    assert!(SERVICES.iter().all(|(name, _)| told.contains(name)), "{told}");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_health_is_told_at_once_and_when_the_gateway_stops() {
    let store = in_memory();
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &store)])).await;
    let address = gateway.address;
    let (tells, mut told) = tokio::sync::mpsc::unbounded_channel();
    let watching = |name: &'static str| {
        let tells = tells.clone();
        // Nobody listens any more once each was told something.
        let on_piece = move || _ = tells.send(());
        tokio::spawn(async move {
            call_telling(address, "/grpc.health.v1.Health/Watch", &[], question(name), on_piece).await
        })
    };
    let watchers = [watching(""), watching(SERVICES[1].0), watching("other.Service")];
    // Each is told at once: the gateway is asked to stop only behind that.
    for _ in &watchers {
        tokio::time::timeout(NEVER, told.recv()).await.expect("it is told").unwrap();
    }
    gateway.stop().await.unwrap();
    for (watcher, first) in watchers.into_iter().zip([SERVING, SERVING, SERVICE_UNKNOWN]) {
        let called = watcher.await.unwrap();
        let told = [frame::framed(&[0x08, first]), frame::framed(&[0x08, NOT_SERVING])].concat();
        assert_eq!((called.code(), called.body), (0, told));
    }
}

/// The next message of an answer; empty for what is none.
async fn next_of(body: &mut Body) -> Vec<u8> {
    let frame = tokio::time::timeout(NEVER, body.frame()).await.expect("news").expect("it goes on").unwrap();
    frame.into_data().map(|data| data.to_vec()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_health_is_told_when_the_pipeline_begins_to_read() {
    let direct = Direct::new("otlp_logs");
    let fills = Fills::Pipeline(direct.clone());
    let of_logs = a_stream("otlp_logs", Signal::Logs, &in_memory());
    let gateway = start(options(vec![StreamOptions { fills, ..of_logs }])).await;
    let mut body = stream::watch(gateway.gate.clone(), true).into_body();
    assert_eq!(next_of(&mut body).await, frame::framed(&[0x08, NOT_SERVING]));
    let from = ReadFrom {
        partition: Partition::new("otlp_logs", 0),
        identity: String::new(),
        next: 0,
        leader_epoch: dataflow::block::NO_LEADER_EPOCH,
    };
    let _reader = DirectSource::new(direct).read(vec![from]).await.expect("it can be read");
    assert_eq!(next_of(&mut body).await, frame::framed(&[0x08, SERVING]));
    gateway.gate.drain();
    assert_eq!(next_of(&mut body).await, frame::framed(&[0x08, NOT_SERVING]));
    assert_eq!(next_of(&mut body).await, Vec::<u8>::new(), "the trailers");
    assert!(body.frame().await.is_none(), "and the end");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_reflection_are_answered_in_order_and_within_bounds() {
    let store = in_memory();
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &store)])).await;
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let questions = [&b"\x3a\x01*"[..], b"\x1a\x01x"];
    let sent = questions.map(frame::framed).concat();
    let called = call(gateway.address, path, &[], sent).await;
    let answers = questions.map(|question| frame::framed(&reflection::answer(question))).concat();
    assert_eq!((called.code(), called.body), (0, answers));
    let mut long = frame::framed(&[0; 5_000]);
    for (sent, code) in [
        (Vec::new(), 0),
        (frame::framed(b"\x3a\x01*")[..6].to_vec(), 3),
        (std::mem::take(&mut long), 3),
        (vec![0, 0xff, 0xff, 0xff, 0xff], 3),
        (vec![1, 0, 0, 0, 0], 3),
    ] {
        let called = call(gateway.address, path, &[], sent).await;
        assert_eq!((called.code(), called.body), (code, Vec::new()));
    }
    let old = call(
        gateway.address,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        &[],
        Vec::new(),
    );
    assert_eq!(old.await.code(), 0);
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_further_questions_of_reflection() {
    let gateway = start(options(vec![a_stream("otlp_logs", Signal::Logs, &in_memory())])).await;
    let address = gateway.address;
    let tcp = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(tcp).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let request = Request::post(format!("http://{address}{path}")).header("content-type", "application/grpc");
    let (response, mut asking) = client.send_request(request.body(()).unwrap(), false).unwrap();
    asking.send_data(frame::framed(b"\x3a\x01*").into(), false).unwrap();
    let response = tokio::time::timeout(NEVER, response).await.expect("an answer").unwrap();
    let mut answers = response.into_body();
    answers.data().await.expect("an answer").unwrap();
    // It could ask again for as long as it likes.
    assert_eq!(gateway.stop().await.unwrap(), End::Drained);
    drop((client, asking, answers));
    driving.abort();
}

#[test]
fn texts_of_headers_are_printable() {
    assert_eq!(percent("a 100%\n\u{e9}`"), "a 100%25%0A%C3%A9`");
    let header = |text: &str| HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_str(text).unwrap())]);
    for (text, expected) in [
        ("1H", Some(Duration::from_secs(3_600))),
        ("2M", Some(Duration::from_secs(120))),
        ("99999999S", Some(Duration::from_secs(99_999_999))),
        ("7m", Some(Duration::from_millis(7))),
        ("7u", Some(Duration::from_micros(7))),
        ("7n", Some(Duration::from_nanos(7))),
        ("123456789S", None),
        ("S", None),
        ("", None),
        ("7", None),
        ("-7S", None),
    ] {
        assert_eq!(timeout(&header(text)).ok().flatten(), expected, "{text}");
    }
    assert_eq!(timeout(&HeaderMap::new()), Ok(None));
}

#[test]
fn fuzz_grpc_messages() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let bounds = BodyBounds { bytes_max: 1 << 20, wait_max: NEVER, time_max: NEVER };
    testkit::Fuzz::new("gateway grpc")
        .examples([frame::framed(&logs(&["a", "b"])), compressed(gzip(&logs(&["a"])))])
        .memory_max(3 << 20, 2_000)
        .run(2_000, |input| {
            let body = Body::from(input.to_vec());
            let read = body::read_announced(body, Encoding::Identity, bounds, roomy(), frame::announced);
            let raw = runtime.block_on(read).expect("it is short");
            if let Ok((begin, Inflated { bytes, .. })) = frame::message(raw, body::Encoding::Gzip) {
                assert!(begin <= bytes.len() && (begin == 0 || bytes == input));
            }
        });
}
