//! Pulsar topics into ClickHouse, with a real Pulsar.

use std::sync::{Arc, OnceLock};

use engine::runtime::TokioRuntime;
use live::pipeline::{ended, term};
use live::{Accounts, Case};
use sources::pulsar::PulsarOptions;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use testkit::{Lcg, Pulsar, Service, available, seed, wait_until};

pub(super) const PARTITIONS: u32 = 3;
/// Lives of the program that end by a kill, and messages that come in each.
const LIVES: u64 = 5;
const PER_LIFE: u64 = 6_000;
/// Exit code of a program that an operator has to help.
const PERSON: i32 = 4;

/// The clock of the producers.
pub(super) fn clock() -> Arc<TokioRuntime> {
    static CLOCK: OnceLock<(tokio::runtime::Runtime, Arc<TokioRuntime>)> = OnceLock::new();
    let (_, clock) = CLOCK.get_or_init(|| {
        let tokio = tokio::runtime::Runtime::new().expect("tokio starts");
        let clock = {
            let _inside = tokio.enter();
            TokioRuntime::new(1)
        };
        (tokio, clock)
    });
    clock.clone()
}

fn source(pulsar: &Pulsar, topic: &str) -> String {
    format!("{{ pulsar: {{ service: '{}', topic: {topic} }} }}", pulsar.service())
}

/// Sends numbers as JSON, spread over the partitions, in batches of all packings.
pub(super) fn send(pulsar: &Pulsar, topic: &str, ids: std::ops::Range<u64>) {
    let codecs =
        [Compression::None, Compression::Lz4, Compression::Zlib, Compression::Zstd, Compression::Snappy];
    for partition in 0..PARTITIONS {
        let options = PulsarOptions::new(&pulsar.service(), &[topic.to_owned()], "x").expect("options");
        let name = format!("persistent://public/default/{topic}-partition-{partition}");
        let mut producer = Producer::new(options, &name, clock()).expect("a producer");
        let own = ids.clone().filter(|id| id % u64::from(PARTITIONS) == u64::from(partition));
        let bodies: Vec<String> = own.map(|id| format!("{{\"id\":{id}}}")).collect();
        for (n, batch) in bodies.chunks(70).enumerate() {
            let batch: Vec<Outgoing<'_>> = batch
                .iter()
                .map(|body| Outgoing { payload: Some(body.as_bytes()), ..Outgoing::default() })
                .collect();
            producer.batch(&batch, codecs[n % codecs.len()]).expect("stored");
        }
    }
}

#[test]
fn every_pulsar_message_is_in_the_table_once_whatever_is_killed() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar") else { return };
    let mut pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("Pulsar must start");
    pulsar.create_topic("events", PARTITIONS).expect("a topic");
    let table = case.table("id UInt64", "id");
    let pipeline =
        case.pipeline().input_of("events", &source(&pulsar, "events")).batch("{ rows: 700, age: 50ms }");
    pipeline.check(&["--connect"]);
    let mut random = Lcg::new(seed());
    for life in 0..LIVES {
        let mut running = pipeline.run();
        // From the first life on the topic is held for the pipeline.
        pipeline.wait_for_live("the program reads", serde_json::Value::is_object);
        send(&pulsar, "events", life * PER_LIFE..(life + 1) * PER_LIFE);
        if life == 1 {
            // Another ledger, while the one before is being read.
            pulsar.unload("events-partition-0").expect("unloads");
        }
        table.wait_for(life * PER_LIFE + 1 + random.below(PER_LIFE / 2));
        if life == 2 {
            pulsar.kill9().expect("Pulsar dies");
        }
        running.kill9().expect("the program dies");
        if life == 2 {
            pulsar.restart().expect("Pulsar comes back");
        }
    }
    pipeline.drain();
    let all = LIVES * PER_LIFE;
    assert_eq!(table.count_and_distinct("id"), (all, all));
    assert_eq!(pipeline.accounts(), Accounts { read: all, written: all, ..Accounts::default() });
    // The broker may count what was acknowledged a moment later.
    wait_until(live::PATIENCE, "all but one entry at the most to be acknowledged", || {
        let stats = pulsar.stats("events-partition-1", "stats").expect("stats");
        let ours = &stats["subscriptions"]["forebay-pulsar"]["msgBacklog"];
        ours.as_u64().expect("our subscription is there") <= 70
    });

    let refused = pipeline.run_tool(&["verify"], &["--key", "id"]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(!refused.exit.status.success(), "{said}");
    assert!(said.contains("does not compare messages of Pulsar") && !said.contains("--from"), "{said}");

    // A topic that is truncated before it was read has lost messages: nobody is told otherwise.
    assert_eq!(pipeline.lag(), 0);
    send(&pulsar, "events", all..all + 30);
    assert_eq!(pipeline.lag(), u64::from(PARTITIONS), "a batch of ten in each partition is one entry");
    for partition in 0..PARTITIONS {
        let name = format!("events-partition-{partition}");
        pulsar.unload(&name).expect("unloads");
        pulsar.truncate(&name).expect("truncates");
    }
    let (exit, log) = ended(pipeline.run());
    assert_eq!(exit.status.code(), Some(PERSON), "{log}");
    let way_out = "forebay reset FILE --to earliest --partition";
    assert!(log.contains("is not held any more") && log.contains(way_out), "{log}");
    send(&pulsar, "events", all + 30..all + 60);
    pipeline.tool(&["reset"], &["--to", "earliest", "--yes", "--json"], 0);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (all + 30, all + 30));
}

#[test]
fn partitions_that_are_added_and_dead_letters_of_pulsar_are_taken_up() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_grows") else { return };
    let pulsar = case.pulsar();
    pulsar.create_topic("growing", PARTITIONS).expect("a topic");
    let table = case.table("id UInt64", "id");
    let pipeline = case.pipeline().input_of("growing", &source(pulsar, "growing"));
    let running = pipeline.run();
    pipeline.wait_for_live("the program reads", serde_json::Value::is_object);
    send(pulsar, "growing", 0..300);
    table.wait_for(300);
    pulsar.add_partitions("growing", PARTITIONS + 1).expect("grows");
    let options = PulsarOptions::new(&pulsar.service(), &["growing".to_owned()], "x").expect("options");
    let name = format!("persistent://public/default/growing-partition-{PARTITIONS}");
    let mut producer = Producer::new(options, &name, clock()).expect("a producer");
    let good = Outgoing { payload: Some(b"{\"id\":300}"), ..Outgoing::default() };
    let bad = Outgoing { payload: Some(b"{\"id\":\"x\"}"), key: Some("k"), ..Outgoing::default() };
    producer.batch(&[good, bad, Outgoing::default()], Compression::Zstd).expect("stored");
    table.wait_for(301);
    term(running);
    let accounts = Accounts { read: 303, written: 301, dead_letters: 2, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    let letters = table.dead_letters().rows("SELECT reason FROM {t} ORDER BY reason");
    assert_eq!(letters.len(), 2, "{letters:?}");
}

/// A partition may never have held a message, or hold none any more, read or not: either way the next message is the first.
#[test]
fn a_topic_of_pulsar_that_holds_nothing_is_moved_to_its_beginning() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_empty") else { return };
    let pulsar = case.pulsar();
    pulsar.create_topic("empty", PARTITIONS).expect("a topic");
    let table = case.table("id UInt64", "id");
    let pipeline = case.pipeline().input_of("empty", &source(pulsar, "empty"));
    let to_earliest = || pipeline.tool(&["reset"], &["--to", "earliest", "--yes", "--json"], 0);
    pipeline.drain();
    to_earliest();
    pipeline.check(&["--connect"]);
    send(pulsar, "empty", 0..30);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (30, 30));
    let truncate = || {
        for partition in 0..PARTITIONS {
            let name = format!("empty-partition-{partition}");
            pulsar.unload(&name).expect("unloads");
            pulsar.truncate(&name).expect("truncates");
        }
    };
    // All was read, and then it was deleted.
    truncate();
    println!("{}", pulsar.stats("empty-partition-0", "internalStats").expect("stats"));
    println!("{}", to_earliest());
    pipeline.drain();
    send(pulsar, "empty", 30..60);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (60, 60));
    // Messages were deleted before they were read, and none came after them.
    send(pulsar, "empty", 60..90);
    truncate();
    to_earliest();
    pipeline.drain();
    send(pulsar, "empty", 90..120);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (90, 90));
    assert_eq!(pipeline.lag(), 0);
}
