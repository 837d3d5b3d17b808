//! The Kafka source against a real broker.

#![cfg(feature = "kafka")]

#[path = "support/runtime.rs"]
mod runtime;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::conformance::source::{self, Fixture, Record, Seen, Watch, at};
use dataflow::{Event, Partition, Position, Runtime, Source, SourceError, SourceFault};
use runtime::TestRuntime;
use sources::kafka::produce::{Outgoing, Producer};
use sources::kafka::{FetchBy, KafkaOptions, KafkaSource, Start};
use testkit::{Kafka, Service};

const FLUSH_MAX: Duration = Duration::from_secs(600);

/// The broker that tests share which do not disturb it; it goes with the last of them that runs.
static SHARED: Mutex<Weak<Kafka>> = Mutex::new(Weak::new());
static TOPICS: AtomicU32 = AtomicU32::new(0);

fn start_broker() -> Kafka {
    let options = testkit::KafkaOptions::default()
        // Compaction within a test's time.
        .property("log.cleaner.backoff.ms", "200")
        .property("log.initial.task.delay.ms", "500");
    Kafka::start(options).expect("the broker starts")
}

fn shared() -> Option<Arc<Kafka>> {
    if !testkit::available(&[Service::Kafka]) {
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Some(shared.upgrade().unwrap_or_else(|| {
        let broker = Arc::new(start_broker());
        *shared = Arc::downgrade(&broker);
        broker
    }))
}

fn topic(kafka: &Kafka, name: &str, partitions: u32, configs: &[(&str, &str)]) -> String {
    let name = format!("{name}-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
    kafka.create_topic(&name, partitions, configs).expect("a topic");
    name
}

fn producer(kafka: &Kafka) -> Producer {
    Producer::new(&[kafka.bootstrap()], &BTreeMap::new(), None).expect("a producer")
}

fn send(producer: &Producer, topic: &str, partition: u32, bodies: std::ops::Range<usize>) {
    for n in bodies {
        let body = format!("{{\"n\":{n}}}").into_bytes();
        let record =
            Outgoing { topic, partition: Some(partition), payload: Some(&body), ..Outgoing::default() };
        producer.send(&record).expect("sends");
    }
}

fn fill(kafka: &Kafka, topic: &str, partition: u32, bodies: std::ops::Range<usize>) {
    let producer = producer(kafka);
    send(&producer, topic, partition, bodies);
    producer.flush(FLUSH_MAX).expect("all acknowledged");
}

fn options(kafka: &Kafka, topic: &str) -> KafkaOptions {
    let mut options =
        KafkaOptions::new(vec![kafka.bootstrap()], vec![topic.into()], format!("forebay-{topic}"));
    options.look_every = Duration::from_millis(300);
    options
}

struct KafkaFixture {
    source: KafkaSource,
    runtime: Arc<TestRuntime>,
    kafka: Option<Arc<Kafka>>,
    topic: String,
}

impl KafkaFixture {
    fn over(options: KafkaOptions) -> Self {
        let runtime = Arc::new(TestRuntime::new());
        let topic = options.topics[0].clone();
        let source = KafkaSource::new(options, runtime.clone()).expect("options are fine");
        Self { source, runtime, kafka: None, topic }
    }

    fn kafka(&self) -> &Kafka {
        self.kafka.as_ref().expect("set by the one who disturbs")
    }

    async fn watch(&self) -> Watch<'_> {
        let starts = self.source.partitions().await.expect("partitions");
        let from = starts.iter().map(|start| at(start, start.next)).collect();
        Watch::start(self, from).await.expect("reads")
    }
}

#[async_trait]
impl Fixture for KafkaFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    async fn append(&self, partition: &Partition, payload: &[u8]) -> bool {
        let producer = producer(self.kafka());
        let record = Outgoing {
            topic: &self.topic,
            partition: Some(partition.index),
            payload: Some(payload),
            ..Outgoing::default()
        };
        producer.send(&record).expect("sends");
        producer.flush(FLUSH_MAX).expect("acknowledged");
        true
    }

    async fn forget(&self, partition: &Partition, position: Position) -> bool {
        self.kafka()
            .delete_records(&self.topic, partition.index, dataflow::position::low(position))
            .expect("deletes");
        true
    }

    async fn recreate(&self, _partition: &Partition) -> bool {
        self.kafka().delete_topic(&self.topic).expect("deletes");
        self.kafka().create_topic(&self.topic, 2, &[]).expect("creates");
        // More records than before, so that the old position exists in the new topic too.
        fill(self.kafka(), &self.topic, 0, 0..200);
        true
    }

    async fn open(&self) -> Option<Partition> {
        self.kafka().add_partitions(&self.topic, 3).expect("adds");
        Some(Partition::new(self.topic.as_str(), 2))
    }
}

/// Cases that both ways of fetching must pass.
macro_rules! both {
    ($($case:ident),+ $(,)?) => {
        mod direct {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::FetchBy::Direct).await;
            })+
        }
        mod librdkafka {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::FetchBy::Librdkafka).await;
            })+
        }
    };
}

both!(
    kafka_keeps_the_rules_of_a_source,
    keys_headers_times_and_null_bodies_arrive_as_sent,
    times_before_1970_are_no_times,
    only_committed_records_come_and_the_end_passes_the_markers,
    gaps_of_compaction_are_no_fault,
    records_deleted_before_they_were_read_stop_a_running_reader,
    a_record_of_32_mib_comes_whole_between_small_ones,
    a_broker_that_dies_or_sleeps_is_waited_for_and_nothing_is_lost,
);

fn numbers(seen: &Seen) -> Vec<String> {
    let body = |r: &Record| String::from_utf8(r.2.clone().expect("a body")).expect("text");
    seen.records.iter().map(body).collect()
}

fn expected(bodies: std::ops::Range<usize>) -> Vec<String> {
    bodies.map(|n| format!("{{\"n\":{n}}}")).collect()
}

async fn kafka_keeps_the_rules_of_a_source(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    source::run(async || {
        let topic = topic(&kafka, "rules", 2, &[]);
        fill(&kafka, &topic, 0, 0..40);
        fill(&kafka, &topic, 1, 0..25);
        let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
        Box::new(KafkaFixture { kafka: Some(kafka.clone()), ..fixture }) as Box<dyn Fixture>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_earliest_latest_or_a_time() {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "starts", 1, &[]);
    let producer = producer(&kafka);
    let base_ms = TestRuntime::new().wall_ms() - 60_000;
    for n in 0..10 {
        let time_ms = Some(base_ms + n * 1_000);
        let record = Outgoing {
            topic: &topic,
            partition: Some(0),
            payload: Some(b"x"),
            time_ms,
            ..Outgoing::default()
        };
        producer.send(&record).expect("sends");
    }
    producer.flush(FLUSH_MAX).expect("acknowledged");
    kafka.delete_records(&topic, 0, 2).expect("deletes");
    for (start, next) in [
        (Start::Earliest, 2),
        (Start::Latest, 10),
        (Start::Time(base_ms + 4_500), 5),
        (Start::Time(base_ms + 4_000), 4),
        (Start::Time(0), 2),
        (Start::Time(base_ms + 1_000_000), 10),
    ] {
        let fixture = KafkaFixture::over(KafkaOptions { start, ..options(&kafka, &topic) });
        let starts = fixture.source.partitions().await.expect("partitions");
        assert_eq!((starts[0].next, starts[0].first), (next, 2), "{start:?}");
        assert_eq!(starts[0].identity, kafka.describe_topic(&topic).expect("described").id);
    }
}

async fn keys_headers_times_and_null_bodies_arrive_as_sent(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "parts", 1, &[]);
    let producer = producer(&kafka);
    let time_ms = TestRuntime::new().wall_ms();
    let headers: &[(&str, Option<&[u8]>)] = &[("a", Some(b"1")), ("a", None), ("b", Some(b""))];
    let plain = Outgoing { topic: &topic, partition: Some(0), time_ms: Some(time_ms), ..Outgoing::default() };
    let sent = [
        Outgoing { payload: Some(b"body"), key: Some(b"key"), headers, ..plain },
        plain,
        Outgoing { payload: Some(b""), key: Some(b""), ..plain },
        Outgoing { payload: Some(&[0xff, 0, 1]), ..plain },
    ];
    for record in &sent {
        producer.send(record).expect("sends");
    }
    producer.flush(FLUSH_MAX).expect("acknowledged");
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    let seen = watch.seen.into_values().next().expect("one partition");
    assert_eq!(seen.records.len(), sent.len());
    for (record, sent) in seen.records.iter().zip(&sent) {
        assert_eq!((record.1, record.2.as_deref()), (time_ms, sent.payload));
        assert_eq!(record.3, sent.key.unwrap_or_default());
        let got: Vec<_> = dataflow::block::headers(&record.4).collect();
        assert_eq!(got, sent.headers);
    }
}

async fn times_before_1970_are_no_times(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "before", 1, &[]);
    let producer = producer(&kafka);
    let times = [7, -5, 8, -1, -86_400_000, 9];
    for time_ms in times {
        let plain =
            Outgoing { topic: &topic, partition: Some(0), payload: Some(b"x"), ..Outgoing::default() };
        producer.send(&Outgoing { time_ms: Some(time_ms), ..plain }).expect("sends");
    }
    producer.flush(FLUSH_MAX).expect("acknowledged");
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    let seen = watch.seen.into_values().next().expect("one partition");
    let got: Vec<i64> = seen.records.iter().map(|record| record.1).collect();
    assert_eq!(got, times.map(|time_ms| if time_ms < 0 { TIME_UNKNOWN_MS } else { time_ms }));
}

async fn only_committed_records_come_and_the_end_passes_the_markers(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "transactions", 1, &[]);
    let id = format!("tx-{topic}");
    let producer = Producer::new(&[kafka.bootstrap()], &BTreeMap::new(), Some(&id)).expect("a producer");
    let transaction = |bodies: std::ops::Range<usize>, commits: bool| {
        producer.begin().expect("begins");
        send(&producer, &topic, 0, bodies);
        if commits {
            producer.commit(FLUSH_MAX).expect("commits")
        } else {
            producer.abort(FLUSH_MAX).expect("aborts")
        }
    };
    transaction(0..5, true);
    transaction(5..10, false);
    transaction(10..15, true);
    transaction(15..20, false);
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let mut watch = fixture.watch().await;
    let partition = Partition::new(topic.as_str(), 0);
    // The broker answers the end of a transaction before its marker is there.
    let is_all = |seen: &Seen| seen.caught_up && seen.next >= 24;
    watch.until(|seen| seen.get(&partition).is_some_and(is_all)).await.expect("read");
    let seen = watch.seen[&partition].clone();
    assert_eq!(numbers(&seen), [expected(0..5), expected(10..15)].concat());
    let end = fixture.source.ends().await.expect("ends")[0].1;
    assert_eq!((seen.next, end), (24, 24), "twenty records and four markers");

    // An open transaction holds back what comes after it, also for `ends`.
    producer.begin().expect("begins");
    send(&producer, &topic, 0, 20..25);
    watch.linger(Duration::from_millis(800)).await.expect("quiet");
    assert_eq!(watch.seen[&partition].records.len(), 10);
    assert_eq!(fixture.source.ends().await.expect("ends")[0].1, 24);
    producer.commit(FLUSH_MAX).expect("commits");
    watch
        .until(|seen| seen[&partition].records.len() == 15 && seen[&partition].caught_up)
        .await
        .expect("comes");
    assert_eq!(watch.seen[&partition].next, 30);
}

async fn gaps_of_compaction_are_no_fault(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let configs =
        [("cleanup.policy", "compact"), ("segment.ms", "200"), ("min.cleanable.dirty.ratio", "0.001")];
    let topic = topic(&kafka, "compacted", 1, &configs);
    let producer = producer(&kafka);
    let write = |n: usize| {
        let (key, body) = (format!("k{}", n % 5), format!("{{\"n\":{n}}}"));
        let (payload, key) = (Some(body.as_bytes()), Some(key.as_bytes()));
        let record = Outgoing { topic: &topic, partition: Some(0), payload, key, ..Outgoing::default() };
        producer.send(&record).expect("sends");
        producer.flush(FLUSH_MAX).expect("acknowledged");
    };
    (0..50).for_each(write);
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let partition = Partition::new(topic.as_str(), 0);
    let mut written = 50;
    let seen = loop {
        // A segment is cleaned only once a later record has closed it.
        fixture.runtime.sleep(Duration::from_millis(500)).await;
        write(written);
        written += 1;
        let mut watch = fixture.watch().await;
        watch.all().await.expect("read");
        let seen = watch.seen.remove(&partition).expect("read");
        assert_eq!(seen.next, (written as u64).into());
        if seen.records.len() < 40 {
            break seen;
        }
        assert!(written < 1_000, "the broker never compacted");
    };
    // The newest record of each key is there, and every record stands at the position that it was written to.
    for n in written - 5..written {
        assert!(numbers(&seen).contains(&format!("{{\"n\":{n}}}")));
    }
    for (record, body) in seen.records.iter().zip(numbers(&seen)) {
        assert_eq!(body, format!("{{\"n\":{}}}", record.0));
    }
    // A position inside a gap is held: reading goes on with the next record there is.
    let starts = fixture.source.partitions().await.expect("partitions");
    let gap = (1..written as u64).find(|at| seen.records.iter().all(|r| r.0 != (*at).into())).expect("a gap");
    let mut watch = Watch::start(&fixture, vec![at(&starts[0], gap.into())]).await.expect("reads");
    watch.all().await.expect("read");
    // The cleaner may have taken more in between, but not the newest of a key.
    let rest = &watch.seen[&partition];
    assert_eq!(rest.next, (written as u64).into());
    assert!(rest.records.iter().all(|record| seen.records.contains(record)));
    assert!(rest.records.ends_with(&seen.records[seen.records.len() - 5..]));
}

async fn records_deleted_before_they_were_read_stop_a_running_reader(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "retention", 1, &[]);
    fill(&kafka, &topic, 0, 0..100);
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let partition = Partition::new(topic.as_str(), 0);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    watch.reader().pause(&partition);
    watch.linger(Duration::from_millis(500)).await.expect("quiet");
    fill(&kafka, &topic, 0, 100..200);
    kafka.delete_records(&topic, 0, 150).expect("deletes");
    watch.reader().resume(&partition);
    let error = watch.until(|_| false).await.expect_err("the records 100 to 149 are lost");
    assert_eq!((error.fault, error.partition.as_ref()), (SourceFault::Refused, Some(&partition)));
    assert!(error.message.contains("`100`") && error.message.contains("`150` to `200`"), "{error}");
    assert_eq!(watch.seen[&partition].records.len(), 100);
}

async fn a_record_of_32_mib_comes_whole_between_small_ones(fetch: FetchBy) {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "large", 1, &[("max.message.bytes", "120000000")]);
    let properties = BTreeMap::from([
        ("message.max.bytes".to_owned(), "120000000".to_owned()),
        ("compression.type".to_owned(), "none".to_owned()),
    ]);
    let producer = Producer::new(&[kafka.bootstrap()], &properties, None).expect("a producer");
    let large: Vec<u8> = (0..32_u32 << 20).map(|n| (n % 251) as u8).collect();
    for body in [&b"before"[..], &large, b"after"] {
        let record =
            Outgoing { topic: &topic, partition: Some(0), payload: Some(body), ..Outgoing::default() };
        producer.send(&record).expect("sends");
    }
    producer.flush(FLUSH_MAX).expect("acknowledged");
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");
    let seen = watch.seen.into_values().next().expect("read");
    let bodies: Vec<&[u8]> = seen.records.iter().map(|r| r.2.as_deref().expect("a body")).collect();
    assert!(bodies == [&b"before"[..], &large, b"after"], "three bodies, unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named() {
    let Some(kafka) = shared() else { return };
    let fixture = KafkaFixture::over(options(&kafka, "no-such-topic"));
    let error = fixture.source.partitions().await.expect_err("missing");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.contains("`no-such-topic`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_and_reading_leave_no_group_and_publishing_is_read_back() {
    if !testkit::available(&[Service::Kafka]) {
        return;
    }
    // A broker of its own: that there is no coordinator's topic shows that nobody asked for a group.
    let kafka = start_broker();
    let topic = topic(&kafka, "published", 2, &[]);
    fill(&kafka, &topic, 0, 0..10);
    let fixture = KafkaFixture::over(options(&kafka, &topic));
    fixture.source.partitions().await.expect("partitions");
    fixture.source.ends().await.expect("ends");
    assert!(kafka.describe_topic("__consumer_offsets").is_err(), "looking asks for no group");
    fixture.watch().await.all().await.expect("read");

    assert_eq!(published(&fixture).await, []);
    let positions = vec![(Partition::new(topic.as_str(), 0), 7)];
    fixture.source.publish(&positions).await.expect("publishes");
    assert_eq!(published(&fixture).await, positions);
}

/// What was published last. A group's coordinator is away for a while after the first question for it has made it.
async fn published(fixture: &KafkaFixture) -> Vec<(Partition, Position)> {
    // Five minutes at the least: a busy machine makes no verdict.
    for _ in 0..600 {
        match fixture.source.published().await {
            Err(error) if error.fault == SourceFault::Away => {}
            result => return result.expect("reads"),
        }
        fixture.runtime.sleep(Duration::from_millis(500)).await;
    }
    panic!("the coordinator stays away")
}

async fn a_broker_that_dies_or_sleeps_is_waited_for_and_nothing_is_lost(fetch: FetchBy) {
    if !testkit::available(&[Service::Kafka]) {
        return;
    }
    let mut kafka = start_broker();
    let topic = topic(&kafka, "outage", 1, &[]);
    fill(&kafka, &topic, 0, 0..1_000);
    let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
    let partition = Partition::new(topic.as_str(), 0);
    let mut watch = fixture.watch().await;
    watch.all().await.expect("read");

    kafka.kill9().expect("kills");
    let errors = away(&mut watch, &fixture, Duration::from_secs(12)).await;
    assert!((1..=4).contains(&errors.len()), "reported at a bounded rate: {errors:?}");
    let error = fixture.source.ends().await.expect_err("away");
    assert_eq!(error.fault, SourceFault::Away, "{error}");
    kafka.restart().expect("restarts");
    fill(&kafka, &topic, 0, 1_000..2_000);
    watch.until(|seen| seen[&partition].records.len() == 2_000).await.expect("goes on");

    kafka.pause().expect("stops");
    away(&mut watch, &fixture, Duration::from_secs(15)).await;
    kafka.resume().expect("continues");
    fill(&kafka, &topic, 0, 2_000..3_000);
    watch.until(|seen| seen[&partition].records.len() == 3_000).await.expect("goes on");
    assert_eq!(numbers(&watch.seen[&partition]), expected(0..3_000));
}

/// What a reader says of an absent broker within some time; anything but an absence fails the test.
async fn away(watch: &mut Watch<'_>, fixture: &KafkaFixture, time: Duration) -> Vec<SourceError> {
    let until = fixture.runtime.elapsed() + time;
    let runtime: Arc<dyn Runtime> = fixture.runtime.clone();
    let mut errors = Vec::new();
    // On a busy machine the first report may take longer than `time`; one that never comes is a hang.
    while errors.is_empty() || fixture.runtime.elapsed() < until {
        let left = until.saturating_sub(fixture.runtime.elapsed()).max(Duration::from_secs(1));
        match runtime.timeout(left, watch.reader().next()).await {
            None | Some(Ok(Event::CaughtUp { .. })) => {}
            Some(Err(error)) if error.fault == SourceFault::Away => errors.push(error),
            other => panic!("the broker is away, yet: {other:?}"),
        }
    }
    errors
}

/// CPU-seconds of this process so far.
fn cpu_seconds() -> f64 {
    // SAFETY: the structure is plain numbers and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Not a test but a measurement: `cargo test -p sources --test kafka_live -- --ignored --nocapture cpu_of`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement that takes a minute"]
async fn cpu_of_reading_200_byte_records() {
    let Some(kafka) = shared() else { return };
    let topic = topic(&kafka, "speed", 3, &[]);
    let properties = BTreeMap::from([("compression.type".to_owned(), "none".to_owned())]);
    let producer = Producer::new(&[kafka.bootstrap()], &properties, None).expect("a producer");
    let records = 2_200_000_u32;
    for n in 0..records {
        let body = format!("{{\"n\":{n:08},\"text\":\"{:0>180}\"}}", n);
        let payload = Some(body.as_bytes());
        let record = Outgoing { topic: &topic, partition: Some(n % 3), payload, ..Outgoing::default() };
        producer.send(&record).expect("sends");
    }
    producer.flush(FLUSH_MAX).expect("acknowledged");
    drop(producer);
    // In turns, so that a busy machine disturbs both alike.
    for round in 0..10 {
        let fetch = if round % 2 == 0 { FetchBy::Direct } else { FetchBy::Librdkafka };
        let fixture = KafkaFixture::over(KafkaOptions { fetch, ..options(&kafka, &topic) });
        let starts = fixture.source.partitions().await.expect("partitions");
        let (cpu, wall) = (cpu_seconds(), fixture.runtime.elapsed());
        let from = starts.iter().map(|start| at(start, start.next)).collect();
        let mut reader = fixture.source.read(from).await.expect("reads");
        let (mut got, mut bytes, mut blocks) = (0, 0, 0);
        while got < records as usize {
            if let Event::Block(block) = reader.next().await.expect("records") {
                got += block.len();
                bytes += block.payloads.bytes.len();
                blocks += 1;
            }
        }
        let (cpu, wall) = (cpu_seconds() - cpu, (fixture.runtime.elapsed() - wall).as_secs_f64());
        let millions = got as f64 / 1e6;
        println!(
            "{fetch:?}: {:.3} CPU-s per million, {:.0} records/s, {blocks} blocks, {:.0} B a record",
            cpu / millions,
            got as f64 / wall,
            bytes as f64 / got as f64
        );
    }
}
