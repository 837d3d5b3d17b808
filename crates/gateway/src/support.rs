//! What the tests of this crate share: gateways over stores in memory, and a client. Built for tests alone.
//!
//! Owns these helpers. Does not own messages in Protocol Buffers (`wire::testing`), nor a gateway as a process of its own, which
//! `tests/live` starts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use dataflow::{Partition, Runtime};
use engine::TokioRuntime;
use object_log::reader::Read;
use object_log::{LogPartition, LogReader, Settings};
use store::{MemoryStore, Prefix, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::budget::{Budget, Held};
use crate::options::{Fills, Format, Limits, Options, StreamOptions};
use crate::server::{End, GatewayError, Server};

/// Longer than anything here takes on a busy machine.
pub const NEVER: Duration = Duration::from_secs(60);

pub fn limits() -> Limits {
    Limits {
        memory_bytes: 64 << 20,
        connections_max: 100,
        body_wait_max: NEVER,
        body_time_max: NEVER,
        answer_wait_max: NEVER,
        drain_max: NEVER,
    }
}

/// A stream of JSON over this store, with short waits.
pub fn stream(name: &str, store: &Arc<dyn Store>) -> StreamOptions {
    StreamOptions {
        name: name.to_owned(),
        fills: log(store, 0),
        format: Format::Json,
        body_bytes_max: 1 << 20,
        memory_bytes: 32 << 20,
        key_window: Duration::from_secs(600),
        keys_max: 1_000,
        drops_repeats: false,
    }
}

/// Appends to the log of a stream wait so long for others.
pub fn linger(stream: &mut StreamOptions, wait: Duration) {
    let Fills::Log { settings, .. } = &mut stream.fills else { panic!("it fills no log") };
    (settings.linger_min, settings.linger_max) = (wait, wait.max(settings.linger_max));
}

/// A partition of the log in this store.
pub fn log(store: &Arc<dyn Store>, partition: u32) -> Fills {
    let settings =
        Settings { linger_min: Duration::ZERO, linger_max: Duration::from_millis(2), ..Settings::default() };
    Fills::Log { store: store.clone(), partition, settings }
}

pub fn options(streams: Vec<StreamOptions>) -> Options {
    Options {
        name: "test".to_owned(),
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        also_listen: Vec::new(),
        edge: listener::Edge { tls: None, http2: Some(listener::Windows::new(1 << 20)) },
        streams,
        clients: Vec::new(),
        tenant_header: None,
        otlp: crate::OtlpStreams::default(),
        syslog: Vec::new(),
        files: Vec::new(),
        limits: limits(),
    }
}

pub fn in_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

pub fn runtime() -> Arc<dyn Runtime> {
    TokioRuntime::new(2)
}

/// Room for everything.
pub fn roomy() -> Held {
    let budget = Budget::new("a test", 1 << 30);
    Held::none(&budget, &budget)
}

/// A gateway that runs.
pub struct Running {
    pub address: SocketAddr,
    pub gate: crate::Gate,
    pub stop: oneshot::Sender<()>,
    pub served: tokio::task::JoinHandle<Result<End, GatewayError>>,
}

pub async fn start(options: Options) -> Running {
    start_with(options, runtime()).await
}

pub async fn start_with(options: Options, runtime: Arc<dyn Runtime>) -> Running {
    let server = Server::open(options, runtime).await.expect("opens");
    let (address, gate) = (server.address().expect("it listens"), server.gate());
    let (stop, asked) = oneshot::channel::<()>();
    let stopped = async {
        let _ = asked.await;
    };
    Running { address, gate, stop, served: tokio::spawn(server.serve(Router::new(), stopped)) }
}

impl Running {
    pub async fn stop(self) -> Result<End, GatewayError> {
        self.stop.send(()).expect("it runs");
        tokio::time::timeout(NEVER, self.served).await.expect("it ends").expect("no panic")
    }

    /// Sends a request; the status and the body of the answer.
    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String, String) {
        send(self.address, path, headers, body).await
    }

    /// Sends JSON lines, which must be taken; the answer.
    pub async fn good(&self, path: &str, headers: &[(&str, &str)], body: &str) -> serde_json::Value {
        let (status, _, text) = self.send(path, headers, body.as_bytes()).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Sends a request on a connection of its own; status, head and body of the answer.
pub async fn send(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String, String) {
    request(address, "POST", path, headers, body).await
}

/// The same of a `GET`.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    request(address, "GET", path, &[], b"").await
}

/// The same of any method.
pub async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    head.push_str("\r\n");
    // It may answer and close before it has taken everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body).await;
    let mut told = Vec::new();
    let _ = tokio::time::timeout(NEVER, stream.read_to_end(&mut told)).await.expect("an answer");
    let told = String::from_utf8_lossy(&told).into_owned();
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// Counters by name and labels, for a test whose tasks all run on its own thread.
#[derive(Debug, Default)]
pub struct Counters(std::sync::Mutex<std::collections::BTreeMap<String, Arc<std::sync::atomic::AtomicU64>>>);

impl Counters {
    /// Those of this name that are not 0: labels and values.
    pub fn of(&self, name: &str) -> Vec<(String, u64)> {
        let all = self.0.lock().expect("no panic");
        let of_name = all.iter().filter_map(|(key, value)| Some((key.strip_prefix(name)?, value)));
        of_name
            .map(|(labels, value)| (labels.to_owned(), value.load(std::sync::atomic::Ordering::Relaxed)))
            .collect()
    }
}

impl metrics::Recorder for Counters {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        metrics::Counter::from_arc(self.0.lock().expect("no panic").entry(name).or_default().clone())
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

/// Everything that was ever in partition 0 of a log, which has dropped nothing.
pub async fn records(store: &Arc<dyn Store>) -> Vec<String> {
    let (low, records) = read(store).await;
    assert_eq!(low, 0, "the first records are gone");
    records
}

/// What partition 0 of a log still holds.
pub async fn held(store: &Arc<dyn Store>) -> Vec<String> {
    read(store).await.1
}

async fn read(store: &Arc<dyn Store>) -> (u64, Vec<String>) {
    let log = LogPartition::new(store.clone(), &Prefix::root(), 0, runtime()).expect("a partition");
    let root = log.root().await.expect("reads").root;
    let partition = Partition::new("log", 0);
    let mut reader = LogReader::open(log, partition, root.queue_id(), root.low).await.expect("opens");
    let mut records = Vec::new();
    while let Read::Block(block) = reader.next().await.expect("reads") {
        let text = |row| String::from_utf8_lossy(block.payloads.get(row)).into_owned();
        records.extend((0..block.len()).map(text));
    }
    (root.low, records)
}
