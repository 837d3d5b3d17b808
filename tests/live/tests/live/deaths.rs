//! Windows, joins, and several inputs and tables, while the program, the server and the broker are killed: all rows right, none missing, none twice.
//!
//! Each test has a server and a broker of its own. A life of the program begins with records that wait for it, seals some of them, gets more while it
//! runs, and ends by a kill at a random moment; in some lives the server dies meanwhile, in one the broker. One life in five ends early: at the claim, in
//! the restore or in the first reads. Records come until the kill, so that it meets work that is not sealed. Windows from Kafka and from Pulsar and the
//! interval join have a form in full too: 10 lives, in which the server dies three times and the broker once, and a join that has to spill:
//! ```text
//! cargo test -p live --test end_to_end -- --ignored --nocapture --test-threads 1 deaths::
//! ```
//! `FOREBAY_KILLS` says how many lives there are in either form, and `FOREBAY_KILL_RECORDS` how many records come in each.

use std::time::{Duration, Instant};

use live::{Case, Feed, Pipeline, Table};
use sources::pulsar::PulsarOptions;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use testkit::{Lcg, Process, Pulsar, Service, available, seed};

use crate::kill::setting;
use crate::pulsar::{PARTITIONS, clock};
use crate::{inputs, joins, versions, windows};

/// Kills of the program, unless `FOREBAY_KILLS` says otherwise: few, because each test starts a server and a broker too. Each kind of death comes once.
const KILLS: u64 = 2;
/// Records that come in each life, unless `FOREBAY_KILL_RECORDS` says otherwise.
const RECORDS: u64 = 6_000;
/// The same of the tests in full.
const KILLS_IN_FULL: u64 = 10;
const RECORDS_IN_FULL: u64 = 20_000;
/// The last records of a life come in so many pieces, and the last of them is on its way when the kill comes.
const PIECES: usize = 6;
/// The server dies in so many lives of ten, and at least in one.
const SERVER_KILLS_IN_TEN: u64 = 3;
/// One life in so many is a short one.
const EARLY_EVERY: u64 = 5;

const BEGIN_MS: u64 = 1_700_000_000_000;
/// Records that are shuffled among themselves.
const BLOCK: u64 = 200;
/// Time between two records.
const STEP_MS: u64 = 7;
const DEVICES: u64 = 40;
const CURRENCIES: u64 = 20;
/// A setting of an input: the watermark waits for a partition however long a busy machine takes to bring a broker back, for else the records of one partition
/// are late behind those of another.
const NEVER_IDLE: &str = ", idle_after: 1h";
/// What is read behind all others, in milliseconds after the last.
const CLOSING_MS: u64 = 60_000;

/// A record on its way into a topic of the test.
struct Record {
    topic: usize,
    partition: u32,
    body: String,
}

/// How much is killed.
#[derive(Clone, Copy)]
struct Scale {
    lives: u64,
    /// Records that come in each life.
    records: u64,
}

impl Scale {
    fn short() -> Self {
        Self::or(KILLS, RECORDS)
    }

    fn full() -> Self {
        Self::or(KILLS_IN_FULL, RECORDS_IN_FULL)
    }

    /// What the environment says, or else this.
    fn or(lives: u64, records: u64) -> Self {
        Self {
            lives: setting("FOREBAY_KILLS", lives).max(1),
            records: setting("FOREBAY_KILL_RECORDS", records),
        }
    }

    fn records_in_all(self) -> u64 {
        self.lives * self.records
    }
}

/// What dies, and what was seen of it.
#[derive(Debug, Default)]
struct Deaths {
    program: u64,
    server: u64,
    broker: u64,
    /// Lives of the program that sealed something.
    with_progress: u64,
    /// Kills that left records that were not sealed.
    in_the_middle: u64,
    /// Files of spilled rows that the kills left.
    files: usize,
}

/// A broker that a test owns.
trait Broker: Send {
    /// Sends records, and returns when the broker has them.
    fn send(&mut self, records: &[Record]);
    /// SIGKILL.
    fn kill(&mut self, case: &mut Case);
    /// It serves again when this returns.
    fn restart(&mut self, case: &mut Case);
}

/// The case's own broker of Kafka.
struct OwnKafka(Vec<Feed>);

impl Broker for OwnKafka {
    fn send(&mut self, records: &[Record]) {
        records.iter().for_each(|one| self.0[one.topic].push(one.partition, one.body.as_bytes()));
        self.0.iter().for_each(Feed::flush);
    }

    fn kill(&mut self, case: &mut Case) {
        case.own_kafka().kill9().expect("the broker to be killed");
    }

    fn restart(&mut self, case: &mut Case) {
        case.own_kafka().restart().expect("the broker to come back");
    }
}

/// A Pulsar with one topic.
struct OwnPulsar {
    pulsar: Pulsar,
    topic: &'static str,
}

impl Broker for OwnPulsar {
    fn send(&mut self, records: &[Record]) {
        for partition in 0..PARTITIONS {
            let own: Vec<Outgoing<'_>> = records
                .iter()
                .filter(|record| record.partition == partition)
                .map(|record| Outgoing { payload: Some(record.body.as_bytes()), ..Outgoing::default() })
                .collect();
            let options =
                PulsarOptions::new(&self.pulsar.service(), &[self.topic.to_owned()], "x").expect("options");
            let name = format!("persistent://public/default/{}-partition-{partition}", self.topic);
            let mut producer = Producer::new(options, &name, clock()).expect("a producer");
            for (n, batch) in own.chunks(90).enumerate() {
                let codec = [Compression::None, Compression::Lz4, Compression::Zstd][n % 3];
                producer.batch(batch, codec).expect("stored");
            }
        }
    }

    fn kill(&mut self, _: &mut Case) {
        self.pulsar.kill9().expect("Pulsar dies");
    }

    fn restart(&mut self, _: &mut Case) {
        self.pulsar.restart().expect("Pulsar comes back");
    }
}

/// Feeds the records to pipelines that run side by side while everything is killed; then reads the rest, and `closing` behind it.
fn survive(
    scale: Scale,
    case: &mut Case,
    broker: &mut dyn Broker,
    pipelines: &[&Pipeline],
    records: &[Record],
    closing: &[Record],
) -> Deaths {
    let begun = Instant::now();
    let mut random = Lcg::new(seed());
    let lives = scale.lives;
    let server_kills = (lives * SERVER_KILLS_IN_TEN / 10).max(1);
    let mut deaths = Deaths::default();
    let mut sealed = vec![0; pipelines.len()];
    for life in 0..lives {
        let (from, until) = (share(records.len(), life, lives), share(records.len(), life + 1, lives));
        let mut own = records[from..until].chunks((until - from).div_ceil(3).max(1));
        let mut next = || own.next().unwrap_or_default();
        broker.send(next());
        let mut running: Vec<Process> = pipelines.iter().map(|pipeline| pipeline.run()).collect();
        let is_early = life % EARLY_EVERY == EARLY_EVERY - 1;
        if !is_early {
            wait_for_progress(pipelines, &mut sealed);
            deaths.with_progress += 1;
        }
        broker.send(next());
        if life == (lives - 1) / 2 {
            broker.kill(case);
            std::thread::sleep(Duration::from_millis(random.below(1_000)));
            broker.restart(case);
            deaths.broker += 1;
        }
        if life * server_kills / lives != (life + 1) * server_kills / lives {
            case.own_server().kill9().expect("the server to be killed");
            std::thread::sleep(Duration::from_millis(random.below(500)));
            case.own_server().restart().expect("the server to come back");
            deaths.server += 1;
        }
        let (rest, wait_ms) = (next(), random.below(if is_early { 400 } else { 800 }));
        let mut pieces: Vec<_> = rest.chunks(rest.len().div_ceil(PIECES).max(1)).collect();
        let last = pieces.pop().unwrap_or_default();
        for (n, piece) in pieces.into_iter().enumerate() {
            if n == 1 && life == (lives - 1) / 2 {
                // The same process goes on with a broker that was away.
                wait_for_progress(pipelines, &mut sealed);
            }
            std::thread::sleep(Duration::from_millis(wait_ms / PIECES as u64));
            broker.send(piece);
        }
        std::thread::sleep(Duration::from_millis(wait_ms / PIECES as u64));
        // A pipeline with small batches seals a piece before the broker has said that it has it all.
        let before_kill = Duration::from_millis(random.below(20));
        std::thread::scope(|scope| {
            scope.spawn(|| broker.send(last));
            std::thread::sleep(before_kill);
            for process in &mut running {
                if !process.is_running().expect("its state") {
                    panic!("the program ended by itself:\n{}", process.stderr().expect("its log"));
                }
                process.kill9().expect("the program to be killed");
            }
        });
        deaths.program += 1;
        let left: Vec<u64> = pipelines.iter().map(|pipeline| pipeline.lag()).collect();
        deaths.in_the_middle += u64::from(left.iter().all(|left| *left > 0));
        deaths.files +=
            pipelines.iter().map(|pipeline| joins::spilled_files(&pipeline.store())).sum::<usize>();
        println!(
            "life {} of {lives}: {sealed:?} of {until} records were seen sealed, and the kill left {left:?} that were not",
            life + 1
        );
    }
    for pipeline in pipelines {
        pipeline.drain();
    }
    // What closes the windows: records far behind all others. Read together with others they would be taken for ones with a wrong clock, so those are
    // read before.
    broker.send(closing);
    for pipeline in pipelines {
        pipeline.drain();
    }
    println!("{deaths:?} with {} records in {:?}", records.len(), begun.elapsed());
    assert_eq!((deaths.program, deaths.server, deaths.broker), (lives, server_kills, 1));
    assert!(deaths.with_progress * 2 >= lives, "{deaths:?}: lives must seal something");
    // Of a few kills each may come when all was sealed.
    let are_many = lives >= KILLS_IN_FULL;
    assert!(
        !are_many || deaths.in_the_middle * 2 >= lives,
        "{deaths:?}: kills must land in the middle of the work"
    );
    deaths
}

/// Where the share of a life begins.
fn share(all: usize, life: u64, lives: u64) -> usize {
    all * life as usize / lives as usize
}

/// Waits until each of the pipelines has sealed more than was last seen.
fn wait_for_progress(pipelines: &[&Pipeline], sealed: &mut [u64]) {
    for (pipeline, sealed) in pipelines.iter().zip(sealed) {
        let mut seen = *sealed;
        let read = std::cell::Cell::new(0);
        pipeline.wait_for_live("this life to seal something", |status| {
            read.set(status["sealed"]["read"].as_u64().unwrap_or(0));
            read.get() > seen
        });
        seen = read.get();
        *sealed = seen;
    }
}

/// A time in the order of sending: up to 1.4 s out of order, and no time twice.
fn time(n: u64) -> u64 {
    BEGIN_MS + (n / BLOCK * BLOCK + (n % BLOCK * 77 + n / BLOCK * 31) % BLOCK) * STEP_MS
}

/// Readings of devices for windows: as records, and those that pass the filter as device, time and amount.
fn readings(scale: Scale) -> (Vec<Record>, Vec<(u64, u64, i64)>) {
    let mut random = Lcg::new(seed() ^ 0x51);
    let mut good = Vec::new();
    let all = (0..scale.records_in_all()).map(|n| {
        let (device, amount, at) = (random.below(DEVICES), random.below(1_000) as i64, time(n));
        let is_good = !n.is_multiple_of(11);
        if is_good {
            good.push((device, at, amount));
        }
        reading(n, &format!("d{device}"), at, amount, if is_good { "good" } else { "bad" })
    });
    let all = all.collect();
    (all, good)
}

fn reading(n: u64, device: &str, at: u64, amount: i64, state: &str) -> Record {
    let body = format!(r#"{{"device":"{device}","at":{at},"amount":{amount},"state":"{state}"}}"#);
    Record { topic: 0, partition: (n % 3) as u32, body }
}

/// One record behind all others for each partition.
fn last_readings(scale: Scale) -> Vec<Record> {
    let at = BEGIN_MS + scale.records_in_all() * STEP_MS + CLOSING_MS;
    (0..u64::from(PARTITIONS)).map(|n| reading(n, "end", at, 0, "good")).collect()
}

const FIELDS: &str = "{ device: String, at: DateTime64(3), amount: Int32, state: String }";

/// The same readings in windows that are written when they close, and in windows that are written early and again.
fn windows_survive(scale: Scale, case: &mut Case, broker: &mut dyn Broker, source: &str) {
    let closed = case.table(windows::COLUMNS, "(device, window_start)");
    let early_name = format!("{}_early", case.name());
    // Not a table that replaces rows: whether any is there twice is to be seen.
    let early = case.table_called(
        &early_name,
        "device String, window_start DateTime64(3), n UInt64, total Int64, version UInt64",
        "(device, window_start)",
    );
    let pipeline = |name: &str, step: &str| {
        Pipeline::new(case, name)
            .input_of("readings", &format!("{{ {source}, fields: {FIELDS}{NEVER_IDLE} }}"))
            .step("filter: state = 'good'")
            .step(step)
            .batch("{ rows: 2000, age: 100ms }")
    };
    let (of_closed, of_early) =
        (pipeline(case.name(), windows::CLOSING), pipeline(&early_name, versions::EARLY));
    let (records, good) = readings(scale);
    survive(scale, case, broker, &[&of_closed, &of_early], &records, &last_readings(scale));

    windows::closed_rows_are_right(&closed, good.clone());
    versions::newest_rows_are_right(&early, windows::by_window(good));
    let (rows, versions) = early.count_and_distinct("(device, window_start, version)");
    assert_eq!(rows, versions, "a version of a result is there twice");
    assert!(rows > closed.count(), "{rows}: no result came early");
    for pipeline in [&of_closed, &of_early] {
        let status = pipeline.status();
        let of =
            |key: &str| status["records"][key].as_u64().unwrap_or_else(|| panic!("no `{key}`: {status}"));
        assert_eq!(of("read"), records.len() as u64 + u64::from(PARTITIONS), "{status}");
        assert_eq!((of("late"), of("dead_letters"), pipeline.pending_frames()), (0, 0, 0), "{status}");
    }
}

#[test]
fn kill_test_windows_from_kafka_are_exact_whatever_dies() {
    windows_from_kafka_survive(Scale::short(), "kill_windows");
}

#[test]
#[ignore = "takes minutes"]
fn kill_test_windows_from_kafka_in_full() {
    windows_from_kafka_survive(Scale::full(), "kill_windows_full");
}

fn windows_from_kafka_survive(scale: Scale, name: &str) {
    let Some(mut case) = Case::with_own_services(name) else { return };
    let source =
        format!("kafka: {{ brokers: '{}', topic: readings, start: earliest }}", case.kafka().bootstrap());
    let mut broker = OwnKafka(vec![Feed::new(case.kafka(), "readings")]);
    windows_survive(scale, &mut case, &mut broker, &source);
}

#[test]
fn kill_test_windows_from_pulsar_are_exact_whatever_dies() {
    windows_from_pulsar_survive(Scale::short(), "kill_windows_pulsar");
}

#[test]
#[ignore = "takes minutes"]
fn kill_test_windows_from_pulsar_in_full() {
    windows_from_pulsar_survive(Scale::full(), "kill_windows_pulsar_full");
}

fn windows_from_pulsar_survive(scale: Scale, name: &str) {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(mut case) = Case::with_own_server(name, testkit::ClickHouseOptions::default()) else { return };
    let pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("Pulsar must start");
    pulsar.create_topic("readings", PARTITIONS).expect("a topic");
    let source = format!("pulsar: {{ service: '{}', topic: readings }}", pulsar.service());
    windows_survive(scale, &mut case, &mut OwnPulsar { pulsar, topic: "readings" }, &source);
}

#[test]
fn kill_test_an_interval_join_is_exact_whatever_dies() {
    an_interval_join_survives(Scale::short(), "kill_join", &joins::STEPS);
}

/// More rows wait for a match than fit into the memory of the step, so that most of them are in files when something dies.
#[test]
#[ignore = "takes minutes"]
fn kill_test_an_interval_join_in_full() {
    let deaths = an_interval_join_survives(
        Scale::full(),
        "kill_join_full",
        &[&joins::that_spills(joins::STEPS[0]), joins::STEPS[1]],
    );
    assert!(deaths.is_none_or(|deaths| deaths.files > 0), "no kill left a file of spilled rows");
}

/// What died; `None` where the services are not there.
fn an_interval_join_survives(scale: Scale, name: &str, steps: &[&str]) -> Option<Deaths> {
    let mut case = Case::with_own_services(name)?;
    let table = case.table(joins::PAID, "order_id");
    let joins::TwoTopics { pipeline, feeds } = joins::two_topics(&case, name);
    let pipeline = steps.iter().fold(pipeline, |pipeline, step| pipeline.step(step));
    let mut random = Lcg::new(seed() ^ 0x52);
    // One payment and a quarter of a duplicate for most orders.
    let orders = scale.records_in_all() * 4 / 9;
    let payments = joins::payments(&mut random, orders);
    let order = |number: u64| (joins::ordered_at(number), 0, joins::order_body(number));
    let payment = |one: &joins::Payment| {
        let body = format!(r#"{{"payment_id":{},"order":{},"at":{}}}"#, one.id, one.order, one.at);
        (one.at, 1, body)
    };
    let mut all: Vec<_> = (0..orders).map(order).collect();
    for one in &payments {
        all.extend(std::iter::repeat_n(payment(one), 1 + usize::from(random.one_in(4))));
    }
    all.sort_by_key(|(at, topic, _)| (*at, *topic));
    let records: Vec<Record> = all
        .into_iter()
        .map(|(_, topic, body)| Record { topic, partition: random.below(3) as u32, body })
        .collect();
    let last = joins::ordered_at(orders) + 200_000;
    let closing = (0..PARTITIONS).flat_map(|partition| {
        let n = u64::from(partition);
        let order = format!(r#"{{"order_id":{},"country":"xx","at":{last}}}"#, orders + n);
        let payment =
            format!(r#"{{"payment_id":{},"order":{},"at":{last}}}"#, 10_000_000 + n, 20_000_000 + n);
        [Record { topic: 0, partition, body: order }, Record { topic: 1, partition, body: payment }]
    });
    let closing: Vec<_> = closing.collect();
    let mut broker = OwnKafka(feeds.into());
    let deaths = survive(scale, &mut case, &mut broker, &[&pipeline], &records, &closing);
    joins::joined_rows_are_those_of(&table, orders, &payments);
    joins::every_record_has_a_fate(&pipeline);
    Some(deaths)
}

/// Puts records for a topic behind those that are there.
fn records_of(topic: usize, all: &mut Vec<Record>) -> impl FnMut(u32, &str) {
    move |partition, body| all.push(Record { topic, partition, body: body.to_owned() })
}

#[test]
fn kill_test_two_inputs_a_filter_a_router_and_three_tables_are_exact_whatever_dies() {
    let Some(mut case) = Case::with_own_services("kill_inputs") else { return };
    let scale = Scale::short();
    let topics = ["kill_inputs_orders", "kill_inputs_refunds"];
    let tables = inputs::Tables::new(&case);
    let pipeline = inputs::pipeline(&case, topics);
    let (mut random, mut records) = (Lcg::new(seed() ^ 0x53), Vec::new());
    let mut expected = inputs::Expected::default();
    // A quarter of the records are sent twice, and two in seven are refunds.
    for n in 0..scale.records_in_all() * 4 / 5 {
        if n % 7 < 5 {
            inputs::order(n, &mut random, &mut records_of(0, &mut records), &mut expected);
        } else {
            inputs::refund(n, topics[1], &mut random, &mut records_of(1, &mut records), &mut expected);
        }
    }
    let mut broker = OwnKafka(topics.map(|topic| Feed::new(case.kafka(), topic)).into());
    survive(scale, &mut case, &mut broker, &[&pipeline], &records, &[]);
    tables.hold(&expected);
    assert_eq!(pipeline.accounts(), expected.accounts);
    assert_eq!(pipeline.pending_frames(), 0);
}

/// Orders in currencies whose rates change and end all the time, both out of order.
#[test]
fn kill_test_a_temporal_join_is_exact_whatever_dies() {
    let Some(mut case) = Case::with_own_services("kill_temporal") else { return };
    let scale = Scale::short();
    let table = case.table(
        "order_id UInt64, currency LowCardinality(String), at DateTime64(3), rate Nullable(Int32)",
        "order_id",
    );
    let pipeline = case
        .pipeline()
        .input(
            "orders",
            "orders",
            &format!(", time: at, fields: {{ order_id: UInt64, currency: String, at: DateTime64(3) }}{NEVER_IDLE}"),
        )
        .input(
            "rates",
            "rates",
            &format!(", time: at, fields: {{ op: String, currency: String, rate: Int32, at: DateTime64(3) }}{NEVER_IDLE}"),
        )
        .step(
            "join: { left: orders, right: rates, on: [currency], as_of: orders, deleted: \"op = 'd'\", kind: left, lateness: 2s, \
             columns: { at: orders.at } }",
        )
        .batch("{ rows: 2000, age: 100ms }");
    let mut random = Lcg::new(seed() ^ 0x53);
    // By currency and time the rate that begins, or none.
    let mut rates = vec![std::collections::BTreeMap::new(); CURRENCIES as usize];
    let mut orders = Vec::new();
    let mut records = Vec::new();
    for n in 0..scale.records_in_all() {
        let (at, currency, partition) = (time(n), random.below(CURRENCIES), random.below(3) as u32);
        if random.one_in(4) {
            let rate = (!random.one_in(8)).then(|| random.below(100_000));
            rates[currency as usize].insert(at, rate);
            let (op, rate) = (if rate.is_some() { "u" } else { "d" }, rate.unwrap_or(0));
            let body = format!(r#"{{"op":"{op}","currency":"c{currency}","rate":{rate},"at":{at}}}"#);
            records.push(Record { topic: 1, partition, body });
        } else {
            orders.push((n, currency, at));
            let body = format!(r#"{{"order_id":{n},"currency":"c{currency}","at":{at}}}"#);
            records.push(Record { topic: 0, partition, body });
        }
    }
    let last = BEGIN_MS + scale.records_in_all() * STEP_MS + CLOSING_MS;
    let closing = (0..PARTITIONS).flat_map(|partition| {
        let n = 10_000_000 + u64::from(partition);
        let order = format!(r#"{{"order_id":{n},"currency":"end","at":{last}}}"#);
        let rate = format!(r#"{{"op":"d","currency":"end","rate":0,"at":{last}}}"#);
        [Record { topic: 0, partition, body: order }, Record { topic: 1, partition, body: rate }]
    });
    let closing: Vec<_> = closing.collect();
    let mut broker = OwnKafka(["orders", "rates"].map(|topic| Feed::new(case.kafka(), topic)).into());
    survive(scale, &mut case, &mut broker, &[&pipeline], &records, &closing);

    let wanted: Vec<String> = orders
        .into_iter()
        .map(|(order, currency, at)| {
            let version = rates[currency as usize].range(..=at).next_back();
            let rate = version.and_then(|(_, rate)| *rate).map_or("-".to_owned(), |rate| rate.to_string());
            format!("{order} c{currency} {at} {rate}")
        })
        .collect();
    let without = wanted.iter().filter(|row| row.ends_with('-')).count();
    assert!(without > 0 && without * 2 < wanted.len(), "{without} of {} orders have no rate", wanted.len());
    windows::same(rows_of_orders(&table), wanted);
    joins::every_record_has_a_fate(&pipeline);
}

fn rows_of_orders(table: &Table) -> Vec<String> {
    let rows = table.ask(
        "SELECT concat(toString(order_id), ' ', currency, ' ', toString(toUnixTimestamp64Milli(at)), ' ', ifNull(toString(rate), '-')) FROM {t} \
         WHERE currency != 'end'",
    );
    rows.lines().map(str::to_owned).collect()
}
