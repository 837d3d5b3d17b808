//! Avro records that name their schemas, with a real registry.

use live::pipeline::term;
use live::{Accounts, Case};
use serde_json::json;
use testkit::{Registry, Service, available};

const PLACE: &str = r#"{"type": "record", "name": "place", "namespace": "geo", "fields": [{"name": "city", "type": "string"}]}"#;
const FIRST: &str = r#"{"type": "record", "name": "reading", "fields": [
    {"name": "sensor_id", "type": "int"}, {"name": "at", "type": "geo.place"}, {"name": "temperature", "type": "double"}]}"#;
/// Without the place, and with a note that came later.
const SECOND: &str = r#"{"type": "record", "name": "reading", "fields": [
    {"name": "temperature", "type": "double"}, {"name": "note", "type": ["null", "string"]}, {"name": "sensor_id", "type": "int"}]}"#;
/// Its sensors are no numbers.
const OTHER: &str =
    r#"{"type": "record", "name": "other", "fields": [{"name": "sensor_id", "type": "boolean"}]}"#;

const COLUMNS: &str = "sensor_id UInt32, city Nullable(String), temperature Float64, note Nullable(String)";

/// A number of Avro: zigzag, seven bits a byte.
pub fn number(value: i64) -> Vec<u8> {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while bits >= 0x80 {
        bytes.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    bytes.push(bits as u8);
    bytes
}

pub fn text(value: &str) -> Vec<u8> {
    [number(value.len() as i64), value.as_bytes().to_vec()].concat()
}

pub fn framed(id: u32, datum: &[Vec<u8>]) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), &datum.concat()].concat()
}

fn first(id: u32, n: i64) -> Vec<u8> {
    framed(id, &[number(n), text(&format!("city {}", n % 7)), (n as f64 / 4.0).to_le_bytes().to_vec()])
}

fn second(id: u32, n: i64) -> Vec<u8> {
    let note = if n % 3 == 0 { vec![0] } else { [number(1), text("seen")].concat() };
    framed(id, &[(n as f64 / 4.0).to_le_bytes().to_vec(), note, number(n)])
}

/// A case, its registry with both readings registered, and their numbers.
fn begin(name: &str) -> Option<(Case, Registry, u32, u32)> {
    if !available(&[Service::Registry]) {
        return None;
    }
    let case = Case::begin(name)?;
    let registry = Registry::start().expect("the registry must start");
    registry.register("place", PLACE, &[]).expect("a schema");
    let one = registry.register("reading-value", FIRST, &[("geo.place", "place", 1)]).expect("a schema");
    let two = registry.register("reading-more", SECOND, &[]).expect("a schema");
    Some((case, registry, one, two))
}

fn format(registry: &Registry) -> String {
    format!("{{ avro: {{ registry: {{ url: \"{}\" }} }} }}", registry.url())
}

#[test]
fn each_record_is_read_by_the_schema_that_it_names_and_what_has_none_is_a_dead_letter() {
    let Some((case, registry, one, two)) = begin("registry") else { return };
    let other = registry.register("other", OTHER, &[]).expect("a schema");
    let feed = case.feed();
    for n in 0..600i64 {
        let record = if n % 2 == 0 { first(one, n) } else { second(two, n) };
        feed.push(n as u32 % 3, &record);
    }
    feed.push(0, &first(one + 70_000, 1));
    feed.push(1, &framed(other, &[vec![1]]));
    feed.push(2, b"{\"sensor_id\": 7}");
    feed.flush();

    let table = case.table(COLUMNS, "sensor_id");
    let pipeline = case
        .pipeline()
        .format(&format(&registry))
        .more("columns: { city: at.city }")
        .batch("{ rows: 200, age: 100ms }");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    let wanted: Vec<_> = (0..600)
        .map(|n| {
            let is_first = n % 2 == 0;
            json!({
                "sensor_id": n,
                "city": is_first.then(|| format!("city {}", n % 7)),
                "temperature": f64::from(n) / 4.0,
                "note": (!is_first && n % 3 != 0).then_some("seen"),
            })
        })
        .collect();
    let rows = table.rows(
        "SELECT sensor_id, city, temperature, note FROM {t} ORDER BY sensor_id SETTINGS output_format_json_quote_denormals = 1",
    );
    assert_eq!(rows.len(), wanted.len());
    for (row, wanted) in rows.iter().zip(&wanted) {
        assert_eq!(row["sensor_id"], wanted["sensor_id"]);
        assert_eq!(row["city"], wanted["city"]);
        assert_eq!(row["temperature"].as_f64(), wanted["temperature"].as_f64());
        assert_eq!(row["note"], wanted["note"]);
    }
    let letters = table
        .dead_letters()
        .rows("SELECT reason, toUInt32(count()) AS n FROM {t} GROUP BY reason ORDER BY reason");
    assert_eq!(letters, [json!({"reason": "malformed", "n": 1}), json!({"reason": "schema", "n": 2})]);
    let accounts = Accounts { read: 603, written: 600, dead_letters: 3, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn records_wait_while_the_registry_is_away_and_none_is_lost() {
    let Some((case, mut registry, one, two)) = begin("registry_away") else { return };
    let table = case.table(COLUMNS, "sensor_id");
    let pipeline = case.pipeline().format(&format(&registry)).more("columns: { city: at.city }");
    let feed = case.feed();
    (0..50).for_each(|n| feed.push(n as u32 % 3, &first(one, n)));
    feed.flush();
    let running = pipeline.run();
    table.wait_for(50);
    registry.pause().expect("a signal");
    (50..100).for_each(|n| feed.push(n as u32 % 3, &second(two, n)));
    feed.flush();
    let problem = pipeline.wait_for_problem("source", "source_away");
    let words = problem.to_string();
    assert!(words.contains("the schema registry") && words.contains("does not answer"), "{words}");
    registry.resume().expect("a signal");
    table.wait_for(100);
    term(running);
    assert_eq!(table.count_and_distinct("sensor_id"), (100, 100));
}
