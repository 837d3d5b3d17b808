//! Messages that name their schema, and the schemas that a real Pulsar keeps.

use live::{Accounts, Case};
use serde_json::json;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{BrokerSchema, PulsarOptions, SchemaKind};
use testkit::{Pulsar, Service, available};

use super::pulsar::clock;

const FIRST: &str = r#"{"type": "record", "name": "reading", "fields": [{"name": "id", "type": "long"}]}"#;
/// With a note that came later, in front.
const SECOND: &str = r#"{"type": "record", "name": "reading", "fields": [
    {"name": "note", "type": ["null", "string"], "default": null}, {"name": "id", "type": "long"}]}"#;
/// With a level that came later still.
const THIRD: &str = r#"{"type": "record", "name": "reading", "fields": [
    {"name": "note", "type": ["null", "string"], "default": null}, {"name": "id", "type": "long"},
    {"name": "level", "type": ["null", "int"], "default": null}]}"#;
/// Records of each kind and life.
const EACH: u64 = 2_000;

/// A number of Avro: zigzag, seven bits a byte.
fn number(value: u64) -> Vec<u8> {
    let mut bits = value << 1;
    let mut bytes = Vec::new();
    while bits >= 0x80 {
        bytes.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    bytes.push(bits as u8);
    bytes
}

fn noted(id: u64) -> Vec<u8> {
    let note = format!("note {id}");
    [number(1), number(note.len() as u64), note.into_bytes(), number(id)].concat()
}

fn options(pulsar: &Pulsar, topic: &str) -> PulsarOptions {
    PulsarOptions::new(&pulsar.service(), &[topic.to_owned()], "x").expect("options")
}

pub(super) fn of_schema(pulsar: &Pulsar, topic: &str, kind: SchemaKind, schema: &str) -> Producer {
    let schema = BrokerSchema { kind, data: schema.into() };
    Producer::of_schema(options(pulsar, topic), topic, clock(), &schema).expect("a producer")
}

pub(super) fn send(producer: &mut Producer, bodies: &[Vec<u8>]) {
    for batch in bodies.chunks(70) {
        let batch: Vec<Outgoing<'_>> =
            batch.iter().map(|body| Outgoing { payload: Some(body), ..Outgoing::default() }).collect();
        producer.batch(&batch, Compression::Zstd).expect("stored");
    }
}

fn avro(pulsar: &Pulsar, topic: &str) -> String {
    format!("{{ pulsar: {{ service: '{}', topic: {topic} }}, format: avro }}", pulsar.service())
}

#[test]
fn each_message_is_read_by_the_schema_that_the_broker_has_for_it_whatever_is_killed() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_avro") else { return };
    let mut pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("Pulsar must start");
    pulsar.create_topic("readings", 2).expect("a topic");
    let table = case.table("id UInt64, note Nullable(String), level Nullable(Int32)", "id");
    let pipeline =
        case.pipeline().input_of("readings", &avro(&pulsar, "readings")).batch("{ rows: 700, age: 50ms }");
    pipeline.check(&["--connect"]);

    // Two producers on each partition take turns, one of each schema; and both the program and the broker die in between.
    for life in 0..3 {
        let mut running = pipeline.run();
        pipeline.wait_for_live("the program reads", serde_json::Value::is_object);
        for partition in 0..2 {
            let topic = format!("readings-partition-{partition}");
            let mut one = of_schema(&pulsar, &topic, SchemaKind::Avro, FIRST);
            let mut two = of_schema(&pulsar, &topic, SchemaKind::Avro, SECOND);
            let from = (life * 2 + partition) * 2 * EACH;
            for begin in (from..from + 2 * EACH).step_by(400) {
                send(&mut one, &(begin..begin + 200).map(number).collect::<Vec<_>>());
                send(&mut two, &(begin + 200..begin + 400).map(noted).collect::<Vec<_>>());
            }
        }
        table.wait_for(life * 4 * EACH + EACH);
        running.kill9().expect("the program dies");
        if life == 1 {
            pulsar.kill9().expect("Pulsar dies");
            pulsar.restart().expect("Pulsar comes back");
        }
    }
    // What the Java client writes.
    let told = pulsar.send_avro_by_java(
        "readings-partition-0",
        SECOND,
        r#"{"note": {"string": "by Java"}, "id": 1000000}"#,
    );
    told.expect("it is sent");
    pipeline.drain();
    let all = 3 * 4 * EACH + 1;
    assert_eq!(table.count_and_distinct("id"), (all, all));
    let wrong = table.rows(
        "SELECT id, note FROM {t} WHERE id < 1000000 AND note IS DISTINCT FROM if(id % 400 < 200, NULL, concat('note ', toString(id))) LIMIT 5",
    );
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(table.rows("SELECT note FROM {t} WHERE id = 1000000"), [json!({ "note": "by Java" })]);
    assert_eq!(pipeline.accounts(), Accounts { read: all, written: all, ..Accounts::default() });
}

#[test]
fn messages_whose_schema_is_of_no_use_are_dead_letters_and_are_replayed_once_it_is_there() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_no_schema") else { return };
    let pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("Pulsar must start");
    pulsar.create_topic("readings", 0).expect("a topic");
    // Any schema beside any other one, as a careless administrator has it.
    let path = "/namespaces/public/default/schemaCompatibilityStrategy";
    let answer = pulsar.admin("PUT", path, "\"ALWAYS_COMPATIBLE\"").expect("Pulsar answers");
    assert_eq!(answer.status, 204, "{}", answer.text());
    let table = case.table("id UInt64, note Nullable(String), level Nullable(Int32)", "id");
    let pipeline = case.pipeline().input_of("readings", &avro(&pulsar, "readings"));

    let mut one = of_schema(&pulsar, "readings", SchemaKind::Avro, FIRST);
    send(&mut one, &(0..10).map(number).collect::<Vec<_>>());
    let mut as_json = of_schema(&pulsar, "readings", SchemaKind::Json, FIRST);
    send(&mut as_json, &[b"{\"id\": 10}".to_vec()]);
    let mut two = of_schema(&pulsar, "readings", SchemaKind::Avro, SECOND);
    send(&mut two, &(20..30).map(noted).collect::<Vec<_>>());
    let mut bare = Producer::new(options(&pulsar, "readings"), "readings", clock()).expect("a producer");
    send(&mut bare, &[number(30)]);
    // Nobody has registered this version yet.
    one.claim_schema(Some(3_u64.to_be_bytes().to_vec()));
    let later = [noted(40), number(0)].concat();
    send(&mut one, &[later]);
    send(&mut two, &[noted(50)]);
    pipeline.drain();

    assert_eq!(table.count_and_distinct("id"), (21, 21));
    let letters = table
        .dead_letters()
        .rows("SELECT reason, headers['forebay.schema'] AS schema, message FROM {t} ORDER BY position");
    let says: Vec<_> =
        letters.iter().map(|letter| (letter["reason"].as_str(), letter["schema"].as_str())).collect();
    let of = |schema| (Some("schema"), Some(schema));
    assert_eq!(
        says,
        [of("public/default/readings:1"), of(""), of("public/default/readings:3")],
        "{letters:?}"
    );
    let words = |n: usize| letters[n]["message"].as_str().expect("a text").to_owned();
    assert!(words(0).contains("it is a schema of JSON, and the pipeline reads Avro"), "{}", words(0));
    assert!(words(1).contains("the message names no schema"), "{}", words(1));
    assert!(words(2).contains("the brokers have no schema of this version"), "{}", words(2));

    // Once it is registered, the letter is read.
    drop(of_schema(&pulsar, "readings", SchemaKind::Avro, THIRD));
    let replayed = pipeline.dead_letters("replay", &["--reason", "schema", "--json"]);
    // The other two are what they were.
    assert_eq!(replayed.exit.status.code(), Some(1), "{}{}", replayed.stdout, replayed.stderr);
    assert!(replayed.stderr.contains("2 dead_letter, 1 written"), "{}", replayed.stderr);
    assert_eq!(table.count_and_distinct("id"), (22, 22));
    let row = json!({ "note": "note 40", "level": null });
    assert_eq!(table.rows("SELECT note, level FROM {t} WHERE id = 40"), [row]);

    // The schema of the message that names none is known to its producer, and is given as a file.
    std::fs::write(case.dir().join("first.avsc"), FIRST).expect("the case's folder can be written");
    let source =
        avro(&pulsar, "readings").replace("format: avro", "format: { avro: { schema_file: first.avsc } }");
    let by_file = case.pipeline().input_of("readings", &source);
    let replayed = by_file.dead_letters("replay", &["--reason", "schema", "--json"]);
    assert!(replayed.stderr.contains("1 written"), "{}{}", replayed.stdout, replayed.stderr);
    assert_eq!(table.rows("SELECT count() AS n FROM {t} WHERE id = 30"), [json!({ "n": "1" })]);
    assert_eq!(table.count_and_distinct("id"), (23, 23));
}

#[test]
fn records_of_a_json_schema_are_read_as_json() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_json") else { return };
    let pulsar = case.pulsar();
    pulsar.create_topic("json_readings", 0).expect("a topic");
    let table = case.table("id UInt64, note Nullable(String)", "id");
    let source = format!("{{ pulsar: {{ service: '{}', topic: json_readings }} }}", pulsar.service());
    let pipeline = case.pipeline().input_of("json_readings", &source);
    let mut producer = of_schema(pulsar, "json_readings", SchemaKind::Json, SECOND);
    let bodies: Vec<Vec<u8>> =
        (0..100).map(|id| format!("{{\"note\": \"n\", \"id\": {id}}}").into_bytes()).collect();
    send(&mut producer, &bodies);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (100, 100));
}
