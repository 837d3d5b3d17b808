//! The ways out of what a Pulsar source refuses, taken on a real Pulsar.

use std::sync::Arc;
use std::time::Duration;

use engine::runtime::TokioRuntime;
use live::Case;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{PulsarOptions, SchemaKind};
use testkit::{Pulsar, Service, available, wait_until};

use super::pulsar::clock;
use super::pulsar_schemas::of_schema;
use super::ways::{PERSON, Shell, has};

/// One case for each refusal; the tables and pipelines have the topic's name.
struct Refusals<'c> {
    shell: Shell<'c>,
    pulsar: Pulsar,
    clock: Arc<TokioRuntime>,
}

impl Refusals<'_> {
    fn pipeline(&self, name: &str, topics: &str, more: &str) -> live::Table {
        let source = format!("{{ pulsar: {{ service: '{}', topics: [{topics}] }} }}", self.pulsar.service());
        let table = self.shell.0.table_called(&format!("ways_{name}"), "id UInt64", "id");
        self.shell.pipeline(name, &source, table.name(), more);
        table
    }

    fn producer(&self, topic: &str) -> Producer {
        let options = PulsarOptions::new(&self.pulsar.service(), &[topic.to_owned()], "x").expect("options");
        Producer::new(options, &format!("persistent://public/default/{topic}"), self.clock.clone())
            .expect("a producer")
    }

    fn send(&self, topic: &str, ids: std::ops::Range<u64>) {
        send(&mut self.producer(topic), ids, "");
    }

    fn runs(&self, name: &str) {
        self.shell.says(&format!("run {name}.yaml --drain"), 0);
    }

    /// A start that is refused, and says these words.
    fn refused(&self, name: &str, words: &str) -> String {
        let said = self.shell.says(&format!("run {name}.yaml --drain"), PERSON);
        has(&said, words);
        said
    }

    fn takes(&self, name: &str, said: &str, begin: &str) {
        self.shell.takes(said, begin, &format!("{name}.yaml"));
    }

    fn missing(&self) {
        let table = self.pipeline("missing", "missing, typo", "");
        self.pulsar.create_topic("right", 0).expect("a topic");
        self.send("right", 0..10);
        let (code, said) = self.shell.run("check missing.yaml --connect");
        assert_ne!(code, 0, "{said}");
        has(
            &said,
            "does not exist: create it, correct the name, or, if it was deleted for good, take it out",
        );
        self.pulsar.create_topic("missing", 0).expect("a topic");
        self.shell.edit("missing", "typo", "right");
        self.send("missing", 10..20);
        self.runs("missing");
        assert_eq!(table.count_and_distinct("id"), (20, 20));
    }

    /// An entry that nobody can read stands between others.
    fn unreadable(&self) {
        let (name, why) = ("secret", "publish without encryption");
        let table = self.pipeline(name, name, "");
        self.pulsar.create_topic(name, 0).expect("a topic");
        let mut producer = self.producer(name);
        send(&mut producer, 0..10, "");
        producer.encrypted(b"secret").expect("stored");
        send(&mut producer, 10..20, "");
        let said = self.refused(name, why);
        has(&said, "to give up what is in it and read on behind it, run");
        self.takes(name, &said, "forebay reset");
        self.runs(name);
        assert_eq!(table.count_and_distinct("id"), (20, 20));
    }

    /// Messages that the Java client has cut into chunks, of which one is longer than records may be.
    fn chunked(&self) {
        let table = self.pipeline("chunked", "chunked", "");
        self.pulsar.create_topic("chunked", 0).expect("a topic");
        let write = |id: u64, mib: usize| {
            let file = self.shell.0.dir().join(format!("{id}.json"));
            std::fs::write(&file, format!("{{\"id\":{id},\"pad\":\"{}\"}}", "x".repeat(mib << 20)))
                .expect("a file");
            self.pulsar.send_by_java("chunked", &file).expect("it is sent");
        };
        self.send("chunked", 0..10);
        write(10, 12);
        self.send("chunked", 11..20);
        write(20, 40);
        self.runs("chunked");
        assert_eq!(table.count_and_distinct("id"), (20, 20));
        let letters = table.dead_letters();
        assert_eq!(letters.column("reason"), ["too_large"]);
    }

    /// The topic has a schema of another type than the format says.
    fn other_schema(&self) {
        let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#;
        let table = self.pipeline("typed", "typed", "");
        self.shell.edit("typed", "source: {", "source: { format: avro,");
        self.pulsar.create_topic("typed", 0).expect("a topic");
        let mut producer = of_schema(&self.pulsar, "typed", SchemaKind::Json, schema);
        send(&mut producer, 0..10, "");
        let said = self.refused("typed", "has a schema of JSON, and the pipeline reads Avro");
        has(&said, "write `format: json`");
        self.shell.edit("typed", "format: avro", "format: json");
        self.runs("typed");
        assert_eq!(table.count_and_distinct("id"), (10, 10));

        // Of Protobuf, but without a word on its types: these are given as a file, whatever format was written before.
        let text = "syntax = \"proto3\"; package shop; message Order { uint64 id = 1; }";
        self.shell.write("orders.proto", text);
        let messages: Vec<_> = (0..10).map(|id| vec![8, id]).collect();
        for (name, format) in [("protoavro", "avro"), ("proto", "protobuf"), ("protojson", "json")] {
            let table = self.pipeline(name, name, "");
            let before = format!("source: {{ format: {format},");
            self.shell.edit(name, "source: {", &before);
            self.pulsar.create_topic(name, 0).expect("a topic");
            let mut producer = of_schema(&self.pulsar, name, SchemaKind::Protobuf, schema);
            super::pulsar_schemas::send(&mut producer, &messages);
            let said = self.refused(name, &format!("topic `public/default/{name}`"));
            let printed = said.split('`').find(|part| part.starts_with("format: { protobuf: {"));
            let printed = printed.unwrap_or_else(|| panic!("no way out in {said}"));
            self.shell.edit(name, &before, &format!("source: {{ {printed},"));
            self.runs(name);
            assert_eq!(table.count_and_distinct("id"), (10, 10));
        }
    }

    fn too_large(&self) {
        let table = self.pipeline("large", "large", "");
        self.pulsar.create_topic("large", 0).expect("a topic");
        send(&mut self.producer("large"), 0..600, &"0".repeat(400_000));
        self.refused("large", "are held; raise `record_bytes_max` of the input's format to as many");
        self.shell.edit("large", "source: {", "source: { format: { json: { record_bytes_max: 256MiB } },");
        self.runs("large");
        assert_eq!(table.count_and_distinct("id"), (600, 600));
    }

    fn truncated(&self) {
        let table = self.pipeline("cut", "cut", "");
        self.pulsar.create_topic("cut", 0).expect("a topic");
        self.send("cut", 0..30);
        self.runs("cut");
        self.pulsar.unload("cut").expect("unloads");
        self.send("cut", 30..60);
        let stats = || self.pulsar.stats("cut", "internalStats").expect("stats")["ledgers"].clone();
        let last =
            stats().as_array().and_then(|all| all.last().cloned()).expect("a ledger")["ledgerId"].clone();
        self.pulsar.unload("cut").expect("unloads");
        self.pulsar.truncate("cut").expect("truncates");
        wait_until(Duration::from_secs(300), "the ledger to go", || {
            stats().as_array().is_some_and(|ledgers| ledgers.iter().all(|one| one["ledgerId"] != last))
        });
        self.send("cut", 60..90);
        // The broker has moved the subscription, which looks like a store that was rolled back.
        let said = self.refused("cut", "Or others have moved that position");
        self.takes("cut", &said, "forebay reset FILE --to");
        self.runs("cut");
        assert_eq!(table.count_and_distinct("id"), (60, 60));
    }

    fn gone(&self) {
        let table = self.pipeline("gone", "stays, goes", "");
        self.pulsar.create_topic("stays", 0).expect("a topic");
        self.pulsar.create_topic("goes", 2).expect("a topic");
        self.send("stays", 0..10);
        self.send("goes-partition-0", 10..20);
        self.send("goes-partition-1", 20..30);
        self.runs("gone");
        // Made again with one partition of two.
        self.pulsar.delete_topic("goes", true).expect("deletes");
        self.pulsar.create_topic("goes", 1).expect("a topic");
        self.send("goes-partition-0", 30..40);
        let mut taken = Vec::new();
        for _ in 0..2 {
            let said = self.shell.says("run gone.yaml --drain", PERSON);
            // The one goes on with what the new topic holds, and the other is no more.
            let ways = ["forebay reset FILE --to earliest --partition ", "forebay forget FILE --partition "];
            let way = ways.into_iter().find(|way| said.contains(&format!("`{way}"))).expect("a way out");
            let partition = said.split(way).nth(1).expect("it names one");
            taken.push(partition.chars().take_while(|c| !" `".contains(*c)).collect::<String>());
            self.takes("gone", &said, way.trim_end_matches(" --partition "));
        }
        taken.sort();
        assert_eq!(taken, ["public/default/goes/0", "public/default/goes/1"]);
        self.runs("gone");
        assert_eq!(table.count_and_distinct("id"), (40, 40));
        // Deleted for good.
        self.pulsar.delete_topic("goes", true).expect("deletes");
        self.send("stays", 40..50);
        self.refused(
            "gone",
            "does not exist: create it, correct the name, or, if it was deleted for good, take it out",
        );
        self.shell.edit("gone", "stays, goes", "stays");
        let said = self.refused("gone", "no longer in the pipeline file");
        self.takes("gone", &said, "forebay forget");
        self.runs("gone");
        assert_eq!(table.count_and_distinct("id"), (50, 50));
    }
}

fn send(producer: &mut Producer, ids: std::ops::Range<u64>, pad: &str) {
    let bodies: Vec<String> = ids.map(|id| format!("{{\"id\":{id},\"pad\":\"{pad}\"}}")).collect();
    let sent: Vec<Outgoing<'_>> = bodies
        .iter()
        .map(|body| Outgoing { payload: Some(body.as_bytes()), ..Outgoing::default() })
        .collect();
    producer.batch(&sent, Compression::Zstd).expect("stored");
}

#[test]
fn every_way_out_of_what_a_pulsar_source_refuses_is_one() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("ways_pulsar") else { return };
    let pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("Pulsar must start");
    let refusals = Refusals { shell: Shell(&case), pulsar, clock: clock() };
    refusals.missing();
    refusals.unreadable();
    refusals.chunked();
    refusals.other_schema();
    refusals.too_large();
    refusals.truncated();
    refusals.gone();
}
