//! The Pulsar source against a real Pulsar.

#![cfg(feature = "pulsar")]

#[path = "support/garbling.rs"]
mod garbling;
#[path = "support/runtime.rs"]
mod runtime;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::conformance::source::{self, Fixture, Record, Seen, Watch, at};
use dataflow::{Partition, Position, Runtime, Source, SourceError, SourceFault};
use garbling::Garbling;
use runtime::TestRuntime;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{PulsarOptions, PulsarSource, Start};
use testkit::{Pulsar, Service};

const SUBSCRIPTION: &str = "forebay-test";

/// The Pulsar that tests share which do not disturb it; it goes with the last of them that runs.
static SHARED: Mutex<Weak<Pulsar>> = Mutex::new(Weak::new());
static TOPICS: AtomicU32 = AtomicU32::new(0);

fn shared() -> Option<Arc<Pulsar>> {
    if !testkit::available(&[Service::Pulsar]) {
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Some(shared.upgrade().unwrap_or_else(|| {
        let pulsar = Arc::new(Pulsar::start(testkit::PulsarOptions::default()).expect("pulsar starts"));
        *shared = Arc::downgrade(&pulsar);
        pulsar
    }))
}

/// A topic of its own, whose messages are held for the subscription of the tests.
fn topic(pulsar: &Pulsar, name: &str, partitions: u32) -> String {
    let name = format!("{name}-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
    create(pulsar, &name, partitions);
    name
}

fn create(pulsar: &Pulsar, name: &str, partitions: u32) {
    pulsar.create_topic(name, partitions).expect("a topic");
    let path = format!("/persistent/public/default/{name}/subscription/{SUBSCRIPTION}");
    let answer = pulsar.admin("PUT", &path, r#"{"ledgerId":-1,"entryId":-1}"#).expect("answers");
    assert!(answer.status < 300, "{}", answer.text());
}

fn options(pulsar: &Pulsar, topic: &str) -> PulsarOptions {
    let mut options =
        PulsarOptions::new(&pulsar.service(), &[topic.to_owned()], SUBSCRIPTION).expect("options are fine");
    options.look_every = Duration::from_millis(300);
    options
}

fn producer(pulsar: &Pulsar, topic: &str, partition: Option<u32>) -> Producer {
    let name = partition.map_or(topic.to_owned(), |index| format!("{topic}-partition-{index}"));
    let name = if name.contains('/') { name } else { format!("persistent://public/default/{name}") };
    Producer::new(options(pulsar, topic), &name, Arc::new(TestRuntime::new())).expect("a producer")
}

fn body(n: usize) -> Vec<u8> {
    format!("{{\"n\":{n}}}").into_bytes()
}

/// Sends bodies as batches of at most `size`.
fn send(producer: &mut Producer, bodies: std::ops::Range<usize>, size: usize, compression: Compression) {
    let bodies: Vec<Vec<u8>> = bodies.map(body).collect();
    for batch in bodies.chunks(size) {
        let batch: Vec<Outgoing<'_>> =
            batch.iter().map(|body| Outgoing { payload: Some(body), ..Outgoing::default() }).collect();
        producer.batch(&batch, compression).expect("stored");
    }
}

/// Forty messages in two ledgers, the first with ten of them; single ones and batches.
fn fill(pulsar: &Pulsar, topic: &str) {
    let mut zero = producer(pulsar, topic, Some(0));
    send(&mut zero, 0..10, 4, Compression::Lz4);
    drop(zero);
    pulsar.unload(&format!("{topic}-partition-0")).expect("unloads");
    let mut zero = producer(pulsar, topic, Some(0));
    send(&mut zero, 10..33, 8, Compression::Zstd);
    for n in 33..40 {
        zero.one(&Outgoing { payload: Some(&body(n)), ..Outgoing::default() }, Compression::None)
            .expect("stored");
    }
    send(&mut producer(pulsar, topic, Some(1)), 0..25, 25, Compression::None);
}

struct PulsarFixture {
    source: PulsarSource,
    runtime: Arc<TestRuntime>,
    pulsar: Arc<Pulsar>,
    topic: String,
}

impl PulsarFixture {
    fn over(pulsar: &Arc<Pulsar>, topic: &str, options: PulsarOptions) -> Self {
        let runtime = Arc::new(TestRuntime::new());
        let source = PulsarSource::new(options, runtime.clone());
        Self { source, runtime, pulsar: pulsar.clone(), topic: topic.to_owned() }
    }

    fn new(pulsar: &Arc<Pulsar>, topic: &str) -> Self {
        Self::over(pulsar, topic, options(pulsar, topic))
    }

    async fn watch(&self) -> Watch<'_> {
        let starts = self.source.partitions().await.expect("partitions");
        let from = starts.iter().map(|start| at(start, start.next)).collect();
        Watch::start(self, from).await.expect("reads")
    }
}

#[async_trait]
impl Fixture for PulsarFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    async fn append(&self, partition: &Partition, payload: &[u8]) -> bool {
        let message = Outgoing { payload: Some(payload), ..Outgoing::default() };
        let mut producer = producer(&self.pulsar, &self.topic, Some(partition.index));
        producer.one(&message, Compression::None).expect("stored");
        true
    }

    async fn forget(&self, partition: &Partition, _position: Position) -> bool {
        let name = format!("{}-partition-{}", self.topic, partition.index);
        self.pulsar.skip_all(&name, SUBSCRIPTION).expect("skips");
        self.pulsar.trim(&name).expect("trims");
        true
    }

    async fn recreate(&self, _partition: &Partition) -> bool {
        self.pulsar.delete_topic(&self.topic, true).expect("deletes");
        create(&self.pulsar, &self.topic, 2);
        fill(&self.pulsar, &self.topic);
        true
    }

    async fn open(&self) -> Option<Partition> {
        self.pulsar.add_partitions(&self.topic, 3).expect("adds");
        Some(Partition::new(format!("public/default/{}", self.topic), 2))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pulsar_keeps_the_rules_of_a_source() {
    let Some(pulsar) = shared() else { return };
    source::run(async || {
        let topic = topic(&pulsar, "rules", 2);
        fill(&pulsar, &topic);
        Box::new(PulsarFixture::new(&pulsar, &topic)) as Box<dyn Fixture>
    })
    .await;
}

fn numbers(seen: &Seen) -> Vec<String> {
    let body = |r: &Record| String::from_utf8(r.2.clone().expect("a body")).expect("text");
    seen.records.iter().map(body).collect()
}

fn expected(bodies: std::ops::Range<usize>) -> Vec<String> {
    bodies.map(|n| format!("{{\"n\":{n}}}")).collect()
}

async fn refused(watch: &mut Watch<'_>) -> SourceError {
    let error = watch.until(|_| false).await.expect_err("the reader stops");
    assert_eq!(error.fault, SourceFault::Refused, "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_properties_times_and_null_bodies_arrive_as_sent_in_every_packing() {
    let Some(pulsar) = shared() else { return };
    let topic = topic(&pulsar, "parts", 0);
    let mut producer = producer(&pulsar, &topic, None);
    let properties: &[(&str, &str)] = &[("a", "1"), ("b", "")];
    let sent = [
        Outgoing { payload: Some(b"body"), key: Some("key"), properties, event_time_ms: 1_700_000_000_000 },
        Outgoing::default(),
        Outgoing { payload: Some(b""), key: Some(""), ..Outgoing::default() },
        Outgoing { payload: Some(&[0xff, 0, 1]), event_time_ms: 7, ..Outgoing::default() },
    ];
    let codecs =
        [Compression::None, Compression::Lz4, Compression::Zlib, Compression::Zstd, Compression::Snappy];
    for codec in codecs {
        producer.batch(&sent, codec).expect("stored");
        producer.one(&sent[0], codec).expect("stored");
    }
    let fixture = PulsarFixture::new(&pulsar, &topic);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    let seen = watch.seen.into_values().next().expect("one partition");
    assert_eq!(seen.records.len(), 5 * codecs.len());
    for (n, record) in seen.records.iter().enumerate() {
        let sent = &sent[n % 5 % 4];
        assert_eq!(record.2.as_deref(), sent.payload, "record {n}");
        assert_eq!(record.3, sent.key.unwrap_or_default().as_bytes(), "record {n}");
        let pairs: Vec<_> = dataflow::block::headers(&record.4)
            .map(|(name, value)| (name, value.expect("a value")))
            .collect();
        let wanted: Vec<_> = sent.properties.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        assert_eq!(pairs, wanted, "record {n}");
        match sent.event_time_ms {
            0 => assert!(record.1 > 1_700_000_000_000, "the time of publishing: {}", record.1),
            event_ms => assert_eq!(record.1, event_ms as i64),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_earliest_latest_or_a_time_of_publishing() {
    let Some(pulsar) = shared() else { return };
    let topic = topic(&pulsar, "starts", 0);
    let at_start = async |start| {
        let mut options = options(&pulsar, &topic);
        options.start = start;
        let start = PulsarFixture::over(&pulsar, &topic, options)
            .source
            .partitions()
            .await
            .expect("shown")
            .swap_remove(0);
        (start.next, start.first)
    };
    assert_eq!(at_start(Start::Earliest).await, (0, 0), "a topic that has never held anything");
    assert_eq!(at_start(Start::Latest).await, (0, 0));
    let mut producer = producer(&pulsar, &topic, None);
    send(&mut producer, 0..5, 5, Compression::None);
    tokio::task::block_in_place(|| std::thread::park_timeout(Duration::from_millis(1_200)));
    let between_ms = TestRuntime::new().wall_ms();
    send(&mut producer, 5..10, 5, Compression::None);
    let (first, _) = at_start(Start::Earliest).await;
    let second = first + (1 << 24);
    assert_eq!(at_start(Start::Latest).await, (second + (1 << 24), first));
    for (time_ms, next) in [(0, first), (between_ms, second), (between_ms + 1_000_000, second + (1 << 24))] {
        assert_eq!(at_start(Start::Time(time_ms)).await, (next, first), "{time_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_for_peoples_tools_stays_one_entry_behind() {
    let Some(pulsar) = shared() else { return };
    let topic = topic(&pulsar, "published", 2);
    fill(&pulsar, &topic);
    let fixture = PulsarFixture::new(&pulsar, &topic);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    let positions: Vec<_> =
        watch.seen.iter().map(|(partition, seen)| (partition.clone(), seen.next)).collect();
    fixture.source.publish(&positions).await.expect("published");
    let published = fixture.source.published().await.expect("is told");
    let (partition, next) = &positions[0];
    let told = published.iter().find(|(told, _)| told == partition).expect("is there").1;
    assert_eq!(told, next - (1 << 24), "the newest entry is not acknowledged, so that its ledger is held");
    let stats = pulsar.stats(&format!("{topic}-partition-0"), "stats").expect("stats");
    assert_eq!(stats["subscriptions"][SUBSCRIPTION]["msgBacklog"], 1, "{stats}");
    // The ledger before can go now, and the read goes on behind it after a break.
    pulsar.unload(&format!("{topic}-partition-0")).expect("unloads");
    pulsar.trim(&format!("{topic}-partition-0")).expect("trims");
    let starts = fixture.source.partitions().await.expect("shown");
    assert!(starts[0].first > 0 && starts[0].first < *next);
    let mut again = Watch::start(&fixture, vec![at(&starts[0], *next)]).await.expect("reads");
    again.all().await.expect("to the end");
    assert_eq!(again.seen[partition].records.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_begins_while_it_is_read_loses_and_repeats_nothing() {
    let Some(pulsar) = shared() else { return };
    let topic = topic(&pulsar, "ledgers", 0);
    send(&mut producer(&pulsar, &topic, None), 0..20, 3, Compression::None);
    let fixture = PulsarFixture::new(&pulsar, &topic);
    let mut watch = fixture.watch().await;
    for round in 1..4 {
        watch.until(|seen| seen.values().all(|seen| seen.records.len() == 20 * round)).await.expect("read");
        pulsar.unload(&topic).expect("unloads");
        send(&mut producer(&pulsar, &topic, None), 20 * round..20 * (round + 1), 3, Compression::Lz4);
    }
    watch
        .until(|seen| seen.values().all(|seen| seen.records.len() == 80 && seen.caught_up))
        .await
        .expect("read");
    let seen = watch.seen.values().next().expect("one partition").clone();
    assert_eq!(numbers(&seen), expected(0..80));
    let ledgers: std::collections::BTreeSet<u64> =
        seen.records.iter().map(|r| dataflow::position::era(r.0)).collect();
    assert!(ledgers.len() >= 4, "{ledgers:?}");
    pulsar.terminate(&topic).expect("terminates");
    watch.until(|seen| seen.values().all(|seen| seen.ended)).await.expect("a terminated topic ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_or_cannot_be_read_stops_the_reader_by_name() {
    let Some(pulsar) = shared() else { return };
    // Deleted while nothing else came.
    let gone = topic(&pulsar, "gone", 0);
    send(&mut producer(&pulsar, &gone, None), 0..5, 5, Compression::None);
    let fixture = PulsarFixture::new(&pulsar, &gone);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    pulsar.delete_topic(&gone, false).expect("deletes");
    let error = refused(&mut watch).await;
    assert!(error.message.contains("was deleted") && error.message.contains("forebay forget"), "{error}");

    // Truncated: the ledger that was read is gone, and nobody knows whether all of it was.
    let truncated = topic(&pulsar, "truncated", 0);
    send(&mut producer(&pulsar, &truncated, None), 0..5, 1, Compression::None);
    let fixture = PulsarFixture::new(&pulsar, &truncated);
    let start = fixture.source.partitions().await.expect("shown").swap_remove(0);
    let third = start.next + (2 << 24);
    pulsar.unload(&truncated).expect("unloads");
    pulsar.truncate(&truncated).expect("truncates");
    let ledger = dataflow::position::era(third);
    testkit::wait_until(Duration::from_secs(300), "the ledger to go", || {
        let stats = pulsar.stats(&truncated, "internalStats").expect("stats");
        stats["ledgers"].as_array().is_some_and(|ledgers| ledgers.iter().all(|one| one["ledgerId"] != ledger))
    });
    send(&mut producer(&pulsar, &truncated, None), 5..9, 1, Compression::None);
    let mut watch = Watch::start(&fixture, vec![at(&start, third)]).await.expect("starts");
    let error = refused(&mut watch).await;
    assert!(error.message.contains("truncated") && error.message.contains("--to earliest"), "{error}");

    let packed = topic(&pulsar, "packed", 0);
    let mut producer = producer(&pulsar, &packed, None);
    send(&mut producer, 0..5, 5, Compression::None);
    producer.encrypted(b"secret").expect("stored");
    let fixture = PulsarFixture::new(&pulsar, &packed);
    let mut watch = fixture.watch().await;
    let error = refused(&mut watch).await;
    assert!(error.message.contains("is encrypted by its producer"), "{error}");
    assert_eq!(
        numbers(watch.seen.values().next().expect("one")),
        expected(0..5),
        "what came before is handed out"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_messages_are_put_together_and_stand_where_they_begin() {
    let Some(pulsar) = shared() else { return };
    let chunked = topic(&pulsar, "chunked", 0);
    let mut producers = [0, 1].map(|_| self::producer(&pulsar, &chunked, None));
    let send = |producer: &mut Producer, n: usize| {
        let body = format!("{{\"n\":{n}}}");
        producer.one(&Outgoing { payload: Some(body.as_bytes()), ..Outgoing::default() }, Compression::None)
    };
    let [first, second] = &mut producers;
    send(second, 0).expect("stored");
    first.chunk("a", b"{\"n\"", (0, 3), 7).expect("stored");
    send(second, 2).expect("stored");
    first.chunk("a", b":", (1, 3), 7).expect("stored");
    let fixture = PulsarFixture::new(&pulsar, &chunked);
    let mut watch = fixture.watch().await;
    watch.until(|seen| seen.values().all(|seen| seen.records.len() == 1)).await.expect("it is read");
    first.chunk("a", b"1}", (2, 3), 7).expect("stored");
    second.chunk("b", b"never", (0, 2), 10).expect("stored");
    send(second, 4).expect("stored");
    send(first, 5).expect("stored");
    watch.until(|seen| seen.values().all(|seen| seen.records.len() == 5)).await.expect("it is read");
    let seen = watch.seen.values().next().expect("one");
    let order = [0, 1, 2, 4, 5].map(|n| format!("{{\"n\":{n}}}"));
    assert_eq!(numbers(seen), order);
    // Each of them is found again by its position, and what follows it is what followed it before.
    let places: Vec<_> = seen.records.iter().map(|record| record.0).collect();
    drop(watch);
    let start = fixture.source.partitions().await.expect("partitions").remove(0);
    for (n, place) in places.into_iter().enumerate() {
        let mut watch = Watch::start(&fixture, vec![at(&start, place)]).await.expect("reads");
        watch.until(|seen| seen.values().all(|seen| seen.records.len() == 5 - n)).await.expect("it is read");
        assert_eq!(numbers(watch.seen.values().next().expect("one")), order[n..]);
        let record =
            fixture.source.record(at(&start, place)).await.expect("it is held").expect("it is there");
        assert_eq!(record.payloads.get(0), order[n].as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_brokers_deliver_to_nobody_hides_neither_a_start_nor_a_record() {
    let Some(pulsar) = shared() else { return };
    let topic = topic(&pulsar, "markers", 0);
    let mut producer = producer(&pulsar, &topic, None);
    for n in 0..3 {
        producer.marker().expect("stored");
        send(&mut producer, n..n + 1, 1, Compression::None);
    }
    let fixture = PulsarFixture::new(&pulsar, &topic);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("the oldest message stands behind a marker");
    let seen = watch.seen.values().next().expect("one");
    assert_eq!(numbers(seen), expected(0..3));
    let places: Vec<_> = seen.records.iter().map(|record| record.0).collect();
    drop(watch);
    let start = fixture.source.partitions().await.expect("partitions").remove(0);
    for (n, place) in places.into_iter().enumerate() {
        let record =
            fixture.source.record(at(&start, place)).await.expect("it is held").expect("it is there");
        assert_eq!(record.payloads.get(0), body(n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pulsar_that_dies_or_sleeps_is_waited_for_and_nothing_is_lost() {
    if !testkit::available(&[Service::Pulsar]) {
        return;
    }
    let mut pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("pulsar starts");
    create(&pulsar, "events", 0);
    send(&mut producer(&pulsar, "events", None), 0..50, 7, Compression::Zstd);
    let source = PulsarSource::new(options(&pulsar, "events"), Arc::new(TestRuntime::new()));
    let start = source.partitions().await.expect("shown").swap_remove(0);
    let mut reader = source.read(vec![at(&start, start.next)]).await.expect("reads");
    let mut bodies = Vec::new();
    let mut read_to = async |bodies: &mut Vec<String>, count: usize| {
        let mut was_away = false;
        while bodies.len() < count {
            match reader.next().await {
                Ok(dataflow::Event::Block(block)) => {
                    bodies.extend(
                        (0..block.len())
                            .map(|row| String::from_utf8_lossy(block.payloads.get(row)).into_owned()),
                    );
                }
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.fault, SourceFault::Away, "{error}");
                    was_away = true;
                }
            }
        }
        was_away
    };
    read_to(&mut bodies, 50).await;
    pulsar.kill9().expect("dies");
    pulsar.restart().expect("comes back");
    send(&mut producer(&pulsar, "events", None), 50..70, 7, Compression::None);
    assert!(read_to(&mut bodies, 70).await, "being away is told");
    pulsar.pause().expect("sleeps");
    tokio::task::block_in_place(|| std::thread::park_timeout(Duration::from_millis(500)));
    pulsar.resume().expect("wakes");
    send(&mut producer(&pulsar, "events", None), 70..90, 7, Compression::None);
    read_to(&mut bodies, 90).await;
    assert_eq!(bodies, expected(0..90));
}

/// A topic with fifty messages, and a source that reads it through a proxy which garbles entries.
fn garbled(pulsar: &Pulsar) -> (PulsarSource, Garbling) {
    let name = topic(pulsar, "garbled", 0);
    send(&mut producer(pulsar, &name, None), 0..50, 7, Compression::None);
    let garbling = Garbling::start(&pulsar.authority());
    let service = format!("pulsar://{}", garbling.authority());
    let options = PulsarOptions::new(&service, &[name], SUBSCRIPTION).expect("options are fine");
    (PulsarSource::new(options, Arc::new(TestRuntime::new())), garbling)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_comes_garbled_is_asked_for_again_over_another_connection() {
    let Some(pulsar) = shared() else { return };
    let (source, garbling) = garbled(&pulsar);
    let start = source.partitions().await.expect("shown").swap_remove(0);
    garbling.garble(3);
    let mut reader = source.read(vec![at(&start, start.next)]).await.expect("reads");
    let (mut bodies, mut told) = (Vec::new(), Vec::new());
    while bodies.len() < 50 {
        match reader.next().await {
            Ok(dataflow::Event::Block(block)) => bodies.extend(
                (0..block.len()).map(|row| String::from_utf8_lossy(block.payloads.get(row)).into_owned()),
            ),
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.fault, SourceFault::Away, "{error}");
                told.push(error.message);
            }
        }
    }
    assert_eq!(bodies, expected(0..50));
    assert_eq!(garbling.left(), 0, "nothing was garbled");
    assert!(told.iter().any(|message| message.contains("checksum does not agree")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_always_comes_garbled_stops_the_reader_by_its_name() {
    let Some(pulsar) = shared() else { return };
    let (source, garbling) = garbled(&pulsar);
    let start = source.partitions().await.expect("shown").swap_remove(0);
    garbling.garble(u32::MAX);
    let mut reader = source.read(vec![at(&start, start.next)]).await.expect("reads");
    let error = loop {
        match reader.next().await {
            Err(error) if error.fault != SourceFault::Away => break error,
            Err(_) => {}
            Ok(dataflow::Event::Block(block)) => panic!("a garbled entry was taken: {} rows", block.len()),
            Ok(_) => {}
        }
    };
    assert!(error.message.contains("a message's checksum does not agree"), "{error}");
    assert!(error.message.contains("entry `"), "{error}");
}
