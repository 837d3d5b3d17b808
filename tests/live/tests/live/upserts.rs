//! Rows that replace each other by key, from Kafka into ClickHouse's engine, with kills in between: the newest of each key is what the topic
//! holds last.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Table};
use testkit::{Lcg, seed};

const KEYS: u64 = 500;
const RECORDS: u64 = 24_000;
const LIVES: u64 = 6;

#[test]
fn the_newest_row_of_each_key_is_its_last_record_whatever_is_killed() {
    let Some(case) = Case::begin("upserts") else { return };
    let table = Table::at(&case.server().url(), &format!("{}_newest", case.name()));
    table.ask(
        "CREATE TABLE {t} (id UInt64, v Int64, gone UInt8, _version UInt64, _forebay UUID) ENGINE = ReplacingMergeTree(_version, gone) \
         ORDER BY id SETTINGS non_replicated_deduplication_window = 10000",
    );
    let pipeline = case.pipeline().one_of(&format!(
        "{{ clickhouse: {{ table: {} }}, upsert: {{ key: [id], deleted: gone }} }}",
        table.name()
    ));
    let mut random = Lcg::new(seed());
    let feed = case.feed();
    let mut last: BTreeMap<u64, (i64, bool)> = BTreeMap::new();
    for life in 0..LIVES {
        for n in life * RECORDS / LIVES..(life + 1) * RECORDS / LIVES {
            let id = random.next_u64() % KEYS;
            let gone = random.next_u64().is_multiple_of(7);
            let record = format!(r#"{{"id":{id},"v":{n},"gone":{gone}}}"#);
            // The records of a key are in one partition: their order is that of the topic.
            feed.push((id % 3) as u32, record.as_bytes());
            last.insert(id, (n as i64, gone));
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.next_u64() % 1_200));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let expected: Vec<String> =
        last.iter().filter(|(_, (_, gone))| !gone).map(|(id, (v, _))| format!("{id} {v}")).collect();
    let newest = "SELECT concat(toString(id), ' ', toString(v)) FROM {t} FINAL ORDER BY id";
    let found = || -> Vec<String> { table.ask(newest).lines().map(str::to_owned).collect() };
    assert_eq!(found(), expected);
    table.ask("OPTIMIZE TABLE {t} FINAL");
    assert_eq!(found(), expected, "merged");
    // Every record has passed; those that a later one of their batch replaced were not sent.
    let status = pipeline.status();
    let number = |path: &str| status.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or_default();
    assert_eq!(number("/records/passed"), RECORDS, "{status:#}");
    assert_eq!(number("/records/written") + number("/records/replaced"), RECORDS, "{status:#}");
    assert!(number("/records/replaced") > 0, "{status:#}");
}
