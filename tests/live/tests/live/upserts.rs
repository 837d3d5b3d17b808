//! Rows that replace each other by key, from Kafka into ClickHouse's engine, with kills in between: the newest of each key is what the topic
//! holds last.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Table};
use serde_json::json;
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

    // The same as `verify` finds it; and then what is wrong, by name.
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");
    let kept =
        |nth: usize| last.iter().filter(|(_, (_, gone))| !gone).nth(nth).expect("500 keys").0.to_string();
    let gone = last.iter().find(|(_, (_, gone))| *gone).expect("one in seven").0.to_string();
    let (lost, changed) = (kept(0), kept(1));
    table.ask(&format!("ALTER TABLE {{t}} DELETE WHERE id = {lost} SETTINGS mutations_sync = 2"));
    table.ask(&format!(
        "INSERT INTO {{t}} SELECT {changed}, -1, 0, max(_version) + 1, generateUUIDv4() FROM {{t}}"
    ));
    table.ask(&format!(
        "INSERT INTO {{t}} SELECT {gone}, -2, 0, max(_version) + 1, generateUUIDv4() FROM {{t}}"
    ));
    table.ask("INSERT INTO {t} SELECT 1000000, -3, 0, max(_version) + 1, generateUUIDv4() FROM {t}");
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 4);
    for (kind, key) in [
        ("missing", &lost),
        ("different", &changed),
        ("duplicate", &gone),
        ("foreign", &"1000000".to_owned()),
    ] {
        let named = report[kind]["named"].as_array().unwrap_or_else(|| panic!("no `{kind}` in {report:#}"));
        let named: Vec<_> = named.iter().map(|one| one["key"].clone()).collect();
        assert_eq!(named, [json!(key)], "{kind}: {report:#}");
    }
}

#[test]
fn dedup_that_keeps_the_last_record_lets_the_table_replace_it_whatever_is_killed() {
    let Some(case) = Case::begin("keep_last") else { return };
    let table = Table::at(&case.server().url(), &format!("{}_last", case.name()));
    let columns = "(id UInt64, v Int64, at DateTime64(3), _forebay UUID)";
    let pipeline = case
        .pipeline()
        .one_of(&format!("{{ clickhouse: {{ table: {} }} }}", table.name()))
        .step("{ filter: v >= 0 }")
        .step("dedup: { key: [id], time: at, window: unbounded, keep: last }");
    // A table that keeps every row cannot do it, and the statement that makes one is printed.
    table.ask(&format!("CREATE TABLE {{t}} {columns} ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000"));
    let refused = pipeline.run_tool(&["check"], &["--connect"]);
    let refused = refused.stdout + &refused.stderr;
    assert!(
        refused.contains("only a ReplacingMergeTree keeps the newest row")
            && refused.contains("ENGINE = ReplacingMergeTree(`at`) ORDER BY (`id`)"),
        "{refused}"
    );
    table.ask("DROP TABLE {t} SYNC");
    table.ask(&format!("CREATE TABLE {{t}} {columns} ENGINE = ReplacingMergeTree(at) ORDER BY id SETTINGS non_replicated_deduplication_window = 10000"));
    let mut random = Lcg::new(seed());
    let feed = case.feed();
    let mut last: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
    for life in 0..3 {
        for n in life * 4_000..(life + 1) * 4_000 {
            // Records of a key are out of order, and in any partition: their own time says which is the last.
            let (id, at) = (random.below(KEYS), 1_700_000_000_000 + n * 10 + random.below(20_000) / 2 * 2);
            let v = if random.below(11) == 0 { -1 } else { n as i64 };
            feed.push(random.below(3) as u32, format!(r#"{{"id":{id},"v":{v},"at":{at}}}"#).as_bytes());
            let newest = last.get(&id).is_none_or(|(known, _)| at > *known);
            if v >= 0 && newest {
                last.insert(id, (at, v));
            }
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(900)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let times: Vec<String> = last.iter().map(|(id, (at, _))| format!("{id} {at}")).collect();
    let newest =
        "SELECT concat(toString(id), ' ', toString(toUnixTimestamp64Milli(at))) FROM {t} FINAL ORDER BY id";
    let found: Vec<String> = table.ask(newest).lines().map(str::to_owned).collect();
    assert_eq!(found, times);
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    assert_eq!(report["right"], json!(true), "{report:#}");
}
