//! The ways out of what a Kafka source refuses, taken on a real broker: commands are run as they were printed.

use std::collections::BTreeMap;

use live::{Case, Feed};
use sources::kafka::produce::{Outgoing, Producer};

use super::ways::{PERSON, Shell, has};

fn ids(range: std::ops::Range<u64>) -> impl Iterator<Item = String> {
    range.map(|id| format!("{{\"id\":{id}}}"))
}

#[test]
fn every_way_out_of_what_a_kafka_source_refuses_is_one() {
    let Some(case) = Case::begin("ways_kafka") else { return };
    let (shell, kafka) = (Shell(&case), case.kafka());
    let pipeline = |name: &str, topics: &str| {
        let table = case.table_called(&format!("ways_kafka_{name}"), "id UInt64", "id");
        let source = format!("{{ kafka: {{ brokers: '{}', topics: {topics} }} }}", kafka.bootstrap());
        shell.pipeline(name, &source, table.name(), "");
        table
    };
    let runs = |name: &str| shell.says(&format!("run {name}.yaml --drain"), 0);

    // Records that were not read yet are deleted.
    let [cut, gone, stays] = ["cut", "gone", "stays"].map(|name| format!("ways_kafka_{name}"));
    kafka.create_topic(&cut, 1, &[]).expect("a topic");
    let feed = Feed::new(kafka, &cut);
    feed.send(ids(0..30));
    // Wherever the file says that a first start begins: what is left was never read.
    let [earliest, latest] = ["earliest", "latest"].map(|start| {
        let table = pipeline(start, &format!("[{cut}], start: {start}"));
        runs(start);
        table
    });
    feed.send(ids(30..60));
    kafka.delete_records(&cut, 0, 50).expect("deletes");
    for (start, table, rows) in [("earliest", earliest, 40), ("latest", latest, 10)] {
        let said = shell.says(&format!("run {start}.yaml --drain"), PERSON);
        has(&said, "is not held any more: it holds `50` to `60`");
        let taken = shell.takes(&said, "forebay reset", &format!("{start}.yaml"));
        has(&taken, &format!("{cut}/0 from 30 to 50: 20 positions are never read"));
        runs(start);
        assert_eq!(table.count_and_distinct("id"), (rows, rows), "{start}");
    }

    // A topic is deleted for good, and the other one goes on.
    for topic in [&gone, &stays] {
        kafka.create_topic(topic, 1, &[]).expect("a topic");
    }
    let table = pipeline("gone", &format!("[{stays}, {gone}]"));
    let feed = Feed::new(kafka, &stays);
    feed.send(ids(0..10));
    Feed::new(kafka, &gone).send(ids(10..20));
    runs("gone");
    kafka.delete_topic(&gone).expect("deletes");
    feed.send(ids(20..30));
    let said = shell.says("run gone.yaml --drain", PERSON);
    has(&said, "does not exist: create it, correct the name, or, if it was deleted for good, take it out");
    shell.edit("gone", &format!("[{stays}, {gone}]"), &format!("[{stays}]"));
    let said = shell.says("run gone.yaml --drain", PERSON);
    has(&said, "no longer in the pipeline file");
    shell.takes(&said, "forebay forget", "gone.yaml");
    runs("gone");
    assert_eq!(table.count_and_distinct("id"), (30, 30));

    // Somebody moves the group beyond what was read, and sets it back: nothing is lost.
    let moved = "ways_kafka_moved";
    kafka.create_topic(moved, 1, &[]).expect("a topic");
    let table = pipeline("moved", &format!("[{moved}]"));
    let feed = Feed::new(kafka, moved);
    feed.send(ids(0..10));
    runs("moved");
    feed.send(ids(10..20));
    kafka.move_group("forebay-moved", moved, 0, 20).expect("moves");
    let said = shell.says("run moved.yaml --drain", PERSON);
    has(&said, "if by mistake, set it back to 10 with the source's own tools, and nothing is lost");
    kafka.move_group("forebay-moved", moved, 0, 10).expect("moves");
    runs("moved");
    assert_eq!(table.count_and_distinct("id"), (20, 20));
}

/// Bare Snappy is unpacked as a whole, and this batch is larger than `memory` allows. The broker accepts it.
#[test]
fn a_kafka_batch_that_cannot_be_unpacked_is_given_up_by_the_command_that_is_printed() {
    let Some(case) = Case::begin("ways_bomb") else { return };
    let (shell, kafka, topic) = (Shell(&case), case.kafka(), "ways_bomb");
    kafka.create_topic(topic, 1, &[("max.message.bytes", "8388608")]).expect("a topic");
    let feed = Feed::new(kafka, topic);
    feed.send(ids(0..10));
    let properties = [("message.max.bytes", "67108864"), ("compression.type", "snappy")];
    let properties: BTreeMap<_, _> =
        properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let producer = Producer::new(&[kafka.bootstrap()], &properties, None).expect("a producer");
    let bomb = vec![b' '; 48 << 20];
    let record = Outgoing { topic, partition: Some(0), payload: Some(&bomb), ..Outgoing::default() };
    producer.send(&record).expect("it is taken");
    producer.flush(live::PATIENCE).expect("it is in the log");
    feed.send(ids(11..20));

    let table = case.table_called("ways_bomb", "id UInt64", "id");
    let source =
        format!("{{ kafka: {{ brokers: '{}', topic: {topic}, fetch: direct }} }}", kafka.bootstrap());
    shell.pipeline("bomb", &source, table.name(), "memory: 256MiB\n");
    let said = shell.says("run bomb.yaml --drain", PERSON);
    has(&said, "`ways_bomb/0` cannot be read at or after offset `10`: a snappy batch has more than");
    has(&said, "the batch ends before offset `11`");
    // What was read before it is kept.
    assert_eq!(table.count_and_distinct("id"), (10, 10));
    let taken = shell.takes(&said, "forebay reset", "bomb.yaml");
    has(&taken, "ways_bomb/0 from 10 to 11: 1 positions are never read");
    shell.says("run bomb.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (19, 19));
}

/// A broker whose disk was put back to an older state: what was read is not in the topic any more.
#[test]
fn a_topic_that_was_cut_is_read_again_or_from_now_on_by_the_commands_that_are_printed() {
    let Some(mut case) = Case::with_own_services("ways_shrunk") else { return };
    let topic = "ways_shrunk";
    case.kafka().create_topic(topic, 1, &[]).expect("a topic");
    let log = case.kafka().dir().join("data").join(format!("{topic}-0"));
    let before = case.dir().join("before");
    Feed::new(case.kafka(), topic).send(ids(0..10));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let done = std::process::Command::new("cp").arg("-a").args([from, to]).status().expect("cp starts");
        assert!(done.success());
    };
    case.own_kafka().stop().expect("it stops");
    copy(&log, &before);
    case.own_kafka().restart().expect("it comes back");
    Feed::new(case.kafka(), topic).send(ids(10..30));
    let tables = ["again", "onward"].map(|name| {
        let table = case.table_called(&format!("ways_shrunk_{name}"), "id UInt64", "id");
        let source = format!("{{ kafka: {{ brokers: '{}', topic: {topic} }} }}", case.kafka().bootstrap());
        Shell(&case).pipeline(name, &source, table.name(), "");
        Shell(&case).says(&format!("run {name}.yaml --drain"), 0);
        table
    });
    case.own_kafka().stop().expect("it stops");
    std::fs::remove_dir_all(&log).expect("the partition's log");
    copy(&before, &log);
    case.own_kafka().restart().expect("it comes back");

    let shell = Shell(&case);
    for (name, way, moved) in [
        ("again", "To read all that it holds again, run", "from 30 to 0"),
        ("onward", "to read only what comes from now on, run", "from 30 to 10"),
    ] {
        let said = shell.says(&format!("run {name}.yaml --drain"), PERSON);
        has(
            &said,
            "offset `30` of `ways_shrunk/0` is not held any more: it holds `0` to `10`; the log was cut",
        );
        let (_, command) = said.split_once(way).unwrap_or_else(|| panic!("`{way}` in {said}"));
        has(&shell.takes(command, "forebay reset", &format!("{name}.yaml")), moved);
    }
    Feed::new(case.kafka(), topic).send(ids(30..35));
    for name in ["again", "onward"] {
        shell.says(&format!("run {name}.yaml --drain"), 0);
    }
    // What was lost at the source is in the tables; what is read again is there again, as the plan of the reset says.
    assert_eq!(tables.map(|table| table.count_and_distinct("id")), [(45, 35), (35, 35)]);
}
