//! Topics with gaps, with transactions, with a new identity, with several readers, and a broker that dies.

use std::time::Duration;

use live::{Accounts, Case, Feed, Table};
use serde_json::json;
use sources::kafka::produce::Outgoing;
use testkit::{Fault, FaultProxy, Kafka, KafkaOptions, Rule, wait_until};

const LONG: Duration = live::PATIENCE;

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// The exit code for "a person must decide".
const PERSON: i32 = 4;

#[test]
fn fault_12_a_topic_deleted_and_made_again_is_refused_while_running_and_at_start() {
    let Some(case) = Case::begin("fault_12") else { return };
    let feed = case.feed();
    feed.send(ids(0..100));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    let running = pipeline.run();
    table.wait_for(100);
    let before = case.kafka().describe_topic(case.name()).expect("the topic").id;
    case.kafka().delete_topic(case.name()).expect("the topic to go");
    drop(feed); // It would go on with what it knows of the old topic.
    case.kafka().create_topic(case.name(), 3, &[]).expect("the topic to come back");
    case.feed().send(ids(1_000..1_200));

    let while_running = live::pipeline::ended(running);
    let at_start = live::pipeline::ended(pipeline.run());
    let after = case.kafka().describe_topic(case.name()).expect("the topic").id;
    assert_ne!(before, after);
    for (exit, log) in [&while_running, &at_start] {
        assert_eq!(exit.status.code(), Some(PERSON), "{log}");
        assert!(log.contains(case.name()), "{log}");
    }
    assert!(at_start.1.contains("created again"), "{}", at_start.1);
    let way_out = format!("forebay forget FILE --stream {}", case.name());
    assert!(at_start.1.contains(&way_out), "the way out is not in {}", at_start.1);
    assert_eq!(table.count_and_distinct("id"), (100, 100));
    assert_eq!(
        table.value("SELECT max(id) FROM {t}"),
        "99",
        "nothing of the new topic is taken for old records"
    );
    // The way out works.
    let forgotten = pipeline.run_tool(&["forget"], &["--stream", case.name(), "--yes"]);
    assert_eq!(forgotten.exit.status.code(), Some(0), "{}", forgotten.stderr);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (300, 300));
}

#[test]
fn a_wrong_topic_leaves_no_trace_and_one_that_was_read_by_mistake_is_forgotten() {
    let Some(case) = Case::begin("wrong_topic") else { return };
    let (feed, other) = (case.feed(), format!("{}_other", case.name()));
    feed.send(ids(0..100));
    let table = case.table("id UInt32", "id");
    let right = case.pipeline();
    // A name that nobody has.
    let (exit, log) = live::pipeline::ended(right.clone().topic("no_such_topic").run());
    assert_eq!(exit.status.code(), Some(PERSON), "{log}");
    let lane = right.store().join(case.name().replace('_', "-")).join("lane-0");
    assert!(!lane.join("journal").exists(), "a start that cannot work has written a journal");
    // A name that somebody else has.
    let mistaken = Feed::new(case.kafka(), &other);
    mistaken.send(ids(1_000..1_050));
    let wrong = right.clone().topic(&other);
    wrong.drain();
    assert_eq!(table.count(), 50);
    let (exit, log) = live::pipeline::ended(right.run());
    assert_eq!(exit.status.code(), Some(PERSON), "{log}");
    assert!(log.contains(&format!("forebay forget FILE --topic {other}")), "{log}");

    let nobody = right.run_tool(&["forget"], &["--topic", "no_such_topic", "--yes"]);
    assert_eq!(nobody.exit.status.code(), Some(2), "{}", nobody.stderr);
    assert!(nobody.stderr.contains(&other), "{}", nobody.stderr);
    let unasked = right.run_tool(&["forget"], &["--topic", &other]);
    assert_eq!(unasked.exit.status.code(), Some(2), "{}", unasked.stderr);
    let forgotten = right.run_tool(&["forget"], &["--topic", &other, "--yes"]);
    assert_eq!(forgotten.exit.status.code(), Some(0), "{}", forgotten.stderr);
    right.drain();
    assert_eq!(table.count_and_distinct("id"), (150, 150));
    // And back again: it goes on where it was left.
    mistaken.send(ids(1_050..1_060));
    let forgotten = right.run_tool(&["forget"], &["--topic", case.name(), "--yes"]);
    assert_eq!(forgotten.exit.status.code(), Some(0), "{}", forgotten.stderr);
    wrong.drain();
    assert_eq!(table.count_and_distinct("id"), (160, 160));
}

#[test]
fn sealed_rows_arrive_though_their_topic_is_gone() {
    let Some(case) = Case::begin("gone_topic") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let feed = case.feed();
    feed.send(ids(0..100));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().url(&proxy.url());
    proxy.add(Rule::always(Fault::CutRequest { body_bytes: 10 }).query("INSERT INTO"));
    let mut running = pipeline.run();
    wait_until(LONG, "all to be sealed", || {
        pipeline.live().is_some_and(|live| live["sealed"]["written"] == 100)
    });
    running.kill9().expect("the program to be killed");
    case.kafka().delete_topic(case.name()).expect("the topic to go");
    drop(feed);
    proxy.clear();
    let (exit, log) = live::pipeline::ended(pipeline.run());
    assert_eq!(exit.status.code(), Some(PERSON), "{log}");
    assert!(log.contains("has delivered 100 rows"), "{log}");
    assert_eq!(table.count_and_distinct("id"), (100, 100));
    assert_eq!(pipeline.pending_frames(), 0);
}

#[test]
fn a_topic_made_a_moment_after_the_start_is_waited_for() {
    let Some(case) = Case::begin("late_topic") else { return };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    let running = pipeline.run();
    // The feed makes the topic, which takes the admin tool about a second.
    case.feed().send(ids(0..100));
    table.wait_for(100);
    live::pipeline::term(running);
}

#[test]
fn fault_24_gaps_of_a_compacted_topic_are_normal() {
    let Some(case) = Case::begin("fault_24_compacted") else { return };
    let topic = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "200"),
        ("segment.bytes", "1048576"),
    ];
    case.kafka().create_topic(case.name(), 1, &topic).expect("a compacted topic");
    let feed = case.feed();
    let put = |key: u32, value: u32| {
        let body = json!({ "id": key, "value": value, "pad": "x".repeat(500) }).to_string();
        let key = key.to_string();
        let record = Outgoing {
            partition: Some(0),
            key: Some(key.as_bytes()),
            payload: Some(body.as_bytes()),
            ..Outgoing::default()
        };
        feed.put(&record);
    };
    let mut sent = 0;
    for round in 0..20 {
        for key in 0..200 {
            put(key, round);
            sent += 1;
        }
    }
    feed.flush();
    // The broker writes there how far it has compacted; it may have begun long ago.
    let checkpoint = case.kafka().dir().join("data").join("cleaner-offset-checkpoint");
    let compacted_to = || {
        let said = std::fs::read_to_string(&checkpoint).ok()?;
        let of_topic = said.lines().find_map(|line| line.strip_prefix(&format!("{} 0 ", case.name())))?;
        of_topic.parse::<u32>().ok()
    };
    // The newest segment is never compacted, so it has to be one of its own; a record after its time opens the next.
    wait_until(LONG, "the broker to compact", || {
        std::thread::sleep(Duration::from_millis(300));
        put(1_000, sent);
        feed.flush();
        sent += 1;
        compacted_to() >= Some(2_000)
    });

    let table = case.table("id UInt32, value UInt32", "id");
    let pipeline = case.pipeline();
    pipeline.drain();
    let accounts = pipeline.accounts();
    assert!(accounts.read < u64::from(sent), "{} of {sent} were read: there was no gap", accounts.read);
    assert_eq!((accounts.written, table.count()), (accounts.read, accounts.read));
    let newest = table.value("SELECT count(), min(newest), max(newest) FROM (SELECT max(value) AS newest FROM {t} WHERE id < 200 GROUP BY id)");
    assert_eq!(newest, "200\t19\t19", "the newest of every key is there");
    assert_eq!(pipeline.lag(), 0);
    // And on from there, over gaps that came later.
    put(2_000, 1);
    feed.flush();
    pipeline.drain();
    assert_eq!(table.count(), accounts.read + 1);
}

/// Drains until so many records were read.
fn drains_to(pipeline: &live::Pipeline, read: u64) {
    wait_until(LONG, "the committed records to be read", || {
        pipeline.drain();
        pipeline.accounts().read >= read
    });
}

#[test]
fn fault_24_only_committed_records_of_a_transactional_topic_arrive() {
    let Some(case) = Case::begin("fault_24_transactions") else { return };
    case.kafka().create_topic(case.name(), 1, &[]).expect("a topic");
    let feed = Feed::transactional(case.kafka(), case.name());
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    feed.transaction(ids(0..100), true);
    feed.transaction(ids(100..200), false);
    feed.transaction(ids(200..300), true);
    feed.transaction(ids(300..400), false);
    // The topic ends with the marker of an aborted transaction: no record will ever stand at the end. The broker answers the end of a transaction a
    // moment before its records can be read.
    drains_to(&pipeline, 200);
    let wanted: Vec<String> = (0..100).chain(200..300).map(|id| id.to_string()).collect();
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    let mut found = table.column("id");
    found.sort_by_key(|id| id.parse::<u32>().expect("a number"));
    assert_eq!(found, wanted);
    assert_eq!(pipeline.lag(), 0);

    feed.transaction(ids(400..500), true);
    drains_to(&pipeline, 300);
    assert_eq!(table.count_and_distinct("id"), (300, 300));
    assert_eq!(pipeline.accounts(), Accounts { read: 300, written: 300, ..Accounts::default() });
}

#[test]
fn glassflow_03_two_pipelines_read_one_topic_independently() {
    let Some(case) = Case::begin("glassflow_03") else { return };
    let feed = case.feed();
    let (one, two): (Table, Table) = (
        case.table_called("glassflow_03_one", "id UInt32", "id"),
        case.table_called("glassflow_03_two", "id UInt32", "id"),
    );
    feed.spread(ids(0..100).chain(ids(0..100)));
    let with_dedup = live::Pipeline::new(&case, "glassflow_03_one").dedup("id", None);
    let without = live::Pipeline::new(&case, "glassflow_03_two");
    let (first, second) = (with_dedup.run(), without.run());
    one.wait_for(100);
    two.wait_for(200);
    // One stops, the other goes on, and the first misses nothing.
    live::pipeline::term(first);
    feed.spread(ids(100..150));
    two.wait_for(250);
    live::pipeline::term(second);
    with_dedup.drain();
    assert_eq!(one.count_and_distinct("id"), (150, 150));
    assert_eq!(two.count_and_distinct("id"), (250, 150));
    assert_eq!((with_dedup.lag(), without.lag()), (0, 0));
    assert_eq!(with_dedup.accounts().duplicates, 100);
}

#[test]
fn a_broker_that_dies_and_comes_back_is_waited_for() {
    let Some(case) = Case::begin("broker_away") else { return };
    let mut kafka =
        Kafka::start(KafkaOptions::default().partitions(3).property("auto.create.topics.enable", "true"))
            .expect("a broker");
    let feed = Feed::new(&kafka, case.name());
    feed.spread(ids(0..100));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).brokers(&kafka.bootstrap());
    let mut running = pipeline.run();
    table.wait_for(100);
    kafka.kill9().expect("the broker to be killed");
    pipeline.wait_for_live("the outage to be told", |status| !status["source_problem"].is_null());
    let problem = pipeline.wait_for_problem("source", "source_away");
    assert_eq!(problem["effect"], "none", "{problem}");
    assert!(running.is_running().expect("its state"), "a broker away is no reason to end");
    kafka.restart().expect("the broker to come back");
    feed.spread(ids(50..200));
    table.wait_for(200);
    wait_until(LONG, "the problem to end", || pipeline.problem("source").is_none());
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    let accounts = Accounts { read: 250, written: 200, duplicates: 50, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn a_partition_added_while_running_is_read_from_its_beginning() {
    let Some(case) = Case::begin("partition_added") else { return };
    case.kafka().create_topic(case.name(), 1, &[]).expect("a topic");
    case.feed().send(ids(0..10));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    let running = pipeline.run();
    table.wait_for(10);
    case.kafka().add_partitions(case.name(), 3).expect("two more partitions");
    let feed = case.feed();
    feed.send_to(2, ids(10..20));
    feed.send_to(1, ids(20..30));
    table.wait_for(30);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (30, 30));
    assert_eq!(pipeline.lag(), 0);
}
