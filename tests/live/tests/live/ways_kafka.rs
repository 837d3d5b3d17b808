//! The ways out of what a Kafka source refuses, taken on a real broker: commands are run as they were printed.

use live::{Case, Feed};

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
