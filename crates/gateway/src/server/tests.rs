use std::ops::Range;

use axum::body::Bytes;
use store::{Entry, Key as Name, Put, StoreError, Swap, Tag};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::support::{self, NEVER, in_memory, limits, options, records, start, stream};

const ORDERS: &str = "/v1/streams/orders";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_what_is_under_way_and_takes_no_more() {
    let store = in_memory();
    let mut made = stream("orders", &store);
    crate::support::linger(&mut made, Duration::from_millis(300));
    let gateway = start(options(vec![made])).await;
    let mut busy = TcpStream::connect(gateway.address).await.unwrap();
    let request =
        b"POST /v1/streams/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{\"id\":1}";
    busy.write_all(request).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let address = gateway.address;
    assert_eq!(gateway.stop().await.unwrap(), End::Drained);
    let mut told = String::new();
    tokio::time::timeout(NEVER, busy.read_to_string(&mut told)).await.unwrap().unwrap();
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("\"first\":0"), "{told}");
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(records(&store).await, ["{\"id\":1}"]);
}

/// As with a long `linger`: what syslog has taken would be lost once the time of the stop is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_others_that_could_share_a_commit() {
    let store = in_memory();
    let mut made = stream("orders", &store);
    let Fills::Log { settings, .. } = &mut made.fills else { panic!("it fills a log") };
    settings.linger_max = 60 * NEVER;
    let gateway = start(options(vec![made])).await;
    // The one before is committed at once, and the next one could wait.
    gateway.good(ORDERS, &[], "{\"id\":1}").await;
    let mut busy = TcpStream::connect(gateway.address).await.unwrap();
    let request =
        b"POST /v1/streams/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{\"id\":2}";
    busy.write_all(request).await.unwrap();
    assert_eq!(gateway.stop().await.unwrap(), End::Drained);
    let mut told = String::new();
    tokio::time::timeout(NEVER, busy.read_to_string(&mut told)).await.unwrap().unwrap();
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("\"first\":1"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_log_was_taken_over_stops_and_the_next_one_goes_on() {
    let store = in_memory();
    let first = start(options(vec![stream("orders", &store)])).await;
    let key = [("Idempotency-Key", "a")];
    first.good(ORDERS, &key, "{\"id\":1}").await;
    let second = start(options(vec![stream("orders", &store)])).await;
    assert_eq!(second.good(ORDERS, &key, "{\"id\":1}").await["repeat"], true);
    let (status, _, text) = first.send(ORDERS, &[("Idempotency-Key", "b")], b"{\"id\":2}").await;
    assert!(status == 503 && text.contains("unavailable"), "{text}");
    let ended = tokio::time::timeout(NEVER, first.served).await.expect("it ends by itself").unwrap();
    let Err(GatewayError::Log { stream, error: LogError::Fenced { .. } }) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(stream, "orders");
    assert_eq!(second.good(ORDERS, &[("Idempotency-Key", "b")], "{\"id\":2}").await["repeat"], false);
    second.stop().await.unwrap();
    assert_eq!(records(&store).await, ["{\"id\":1}", "{\"id\":2}"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_known_as_long_as_their_window_and_records_stay_as_long() {
    let store = in_memory();
    let key = [("Idempotency-Key", "a")];
    let gateway = start(options(vec![stream("orders", &store)])).await;
    assert_eq!(gateway.good(ORDERS, &key, "{}").await["repeat"], false);
    assert_eq!(gateway.good(ORDERS, &key, "{}").await["repeat"], true);
    gateway.stop().await.unwrap();
    let short = || StreamOptions { key_window: Duration::from_millis(300), ..stream("orders", &store) };
    let gateway = start(options(vec![short()])).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(gateway.good(ORDERS, &key, "{}").await["repeat"], false, "a new request");
    tokio::time::sleep(Duration::from_millis(400)).await;
    gateway.stop().await.unwrap();
    let next = start(options(vec![short()])).await;
    assert_eq!(next.good(ORDERS, &key, "{}").await["repeat"], false);
    next.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_forgets_no_name_for_requests_without_one() {
    let store = in_memory();
    let few = || StreamOptions { keys_max: 2, drops_repeats: true, ..stream("orders", &store) };
    let named = [("Idempotency-Key", "a")];
    let gateway = start(options(vec![few()])).await;
    assert_eq!(gateway.good(ORDERS, &named, "{\"id\":0}").await["repeat"], false);
    for n in 1..=3 {
        assert_eq!(gateway.good(ORDERS, &[], &format!("{{\"id\":{n}}}")).await["repeat"], false);
    }
    assert_eq!(gateway.good(ORDERS, &named, "{\"id\":0}").await["repeat"], true);
    gateway.stop().await.unwrap();
    let next = start(options(vec![few()])).await;
    assert_eq!(next.good(ORDERS, &named, "{\"id\":0}").await["repeat"], true);
    assert_eq!(next.good(ORDERS, &[], "{\"id\":3}").await["repeat"], true, "the newest without a name");
    next.stop().await.unwrap();
    assert_eq!(records(&store).await.len(), 4);
}

#[tokio::test]
async fn a_start_that_cannot_be_names_the_reason() {
    let store = in_memory();
    let runtime = crate::support::runtime();
    let second = StreamOptions { fills: support::log(&store, 1), ..stream("orders", &store) };
    let error = Server::open(options(vec![second]), runtime.clone()).await.err().unwrap().to_string();
    assert!(error.starts_with("stream `orders`: the log has no partition 0"), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = taken.local_addr().unwrap();
    let made = Options { listen: Some(listen), ..options(vec![stream("orders", &store)]) };
    let error = Server::open(made, runtime).await.err().unwrap().to_string();
    assert!(error.starts_with(&format!("cannot listen at `{listen}`")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_waits_no_longer_than_it_may() {
    let store = in_memory();
    let mut made = stream("orders", &store);
    crate::support::linger(&mut made, NEVER);
    let limits = Limits { drain_max: Duration::from_millis(100), ..limits() };
    let gateway = start(Options { limits, ..options(vec![made]) }).await;
    let mut busy = TcpStream::connect(gateway.address).await.unwrap();
    // A body that never ends: its client is not waited for.
    busy.write_all(b"POST /v1/streams/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(gateway.stop().await.unwrap(), End::OutOfTime);
}

/// A store that takes its time to give a part of an object.
#[derive(Debug)]
struct SlowParts(Arc<dyn Store>);

#[async_trait::async_trait]
impl Store for SlowParts {
    async fn put_if_absent(&self, key: &Name, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.0.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Name, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.0.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Name, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.0.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Name) -> Result<(), StoreError> {
        self.0.delete(key).await
    }

    async fn read_register(&self, key: &Name, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        self.0.read_register(key, bytes_max).await
    }

    async fn compare_and_set(
        &self,
        key: &Name,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        self.0.compare_and_set(key, expected, body).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.0.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Retention that runs all the time and drops all that it may must leave the objects whose names a start still has to read.
#[tokio::test]
async fn a_start_reads_the_names_of_requests_before_retention_deletes_them() {
    let kept = in_memory();
    let busy = start(options(vec![stream("orders", &kept)])).await;
    for n in 0..60 {
        busy.good(ORDERS, &[("Idempotency-Key", &format!("k{n}"))], "{}").await;
    }
    busy.stop().await.unwrap();

    let slow: Arc<dyn Store> = Arc::new(SlowParts(kept.clone()));
    let mut small = stream("orders", &slow);
    let Fills::Log { settings, .. } = &mut small.fills else { panic!("it fills a log") };
    (settings.retention.bytes_max, settings.collect_every) = (Some(0), Duration::from_millis(1));
    let next = start(options(vec![small])).await;
    for n in [0, 30, 59] {
        let key = format!("k{n}");
        assert_eq!(next.good(ORDERS, &[("Idempotency-Key", &key)], "{}").await["repeat"], true, "{key}");
    }
    // And no longer than that.
    let root = async || {
        let log = LogPartition::new(kept.clone(), &Prefix::root(), 0, crate::support::runtime()).unwrap();
        log.root().await.unwrap().root
    };
    let dropped = async {
        while root().await.cleaned < 60 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(NEVER, dropped).await.expect("what is beyond the bound goes");
    next.stop().await.unwrap();
}
