//! Records without a body that delete their key, from Kafka, with kills in between: rows of a table, and versions of a temporal join.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Feed, Pipeline, Table};
use serde_json::json;
use sources::kafka::produce::Outgoing;
use testkit::{Lcg, Registry, Service, available, seed};

use crate::joins::same;

const KEYS: u64 = 300;
const RECORDS: u64 = 12_000;
const LIVES: u64 = 4;
const BEGIN_MS: u64 = 1_700_000_000_000;

/// A table that keeps the newest row of each id.
fn newest(case: &Case) -> Table {
    let table = Table::at(&case.server().url(), &format!("{}_newest", case.name()));
    table.ask(
        "CREATE TABLE {t} (id UInt64, v Int64, note Nullable(String), city LowCardinality(String) DEFAULT 'none', gone UInt8, _version UInt64, \
         _forebay UUID) ENGINE = ReplacingMergeTree(_version, gone) ORDER BY id SETTINGS non_replicated_deduplication_window = 10000",
    );
    table
}

/// A pipeline of one topic into that table, with these settings of the input.
fn deleting(case: &Case, table: &Table, input: &str) -> Pipeline {
    case.pipeline().input("changes", case.name(), input).one_of(&format!(
        "{{ clickhouse: {{ table: {} }}, columns: {{ gone: _tombstone }}, upsert: {{ key: [id], deleted: gone }} }}",
        table.name()
    ))
}

/// Fills the topic with changes and deletions while the pipeline is run and killed; what each id has at the end.
fn changed(
    case: &Case,
    pipeline: &Pipeline,
    key: impl Fn(u64) -> Vec<u8>,
    body: impl Fn(u64, u64) -> Vec<u8>,
) -> BTreeMap<u64, Option<u64>> {
    let (feed, mut random) = (case.feed(), Lcg::new(seed() ^ 0x70));
    let mut last = BTreeMap::new();
    for life in 0..LIVES {
        for n in life * RECORDS / LIVES..(life + 1) * RECORDS / LIVES {
            let (id, is_deletion) = (random.below(KEYS), random.one_in(6));
            let body = (!is_deletion).then(|| body(id, n));
            // The records of a key are in one partition: their order is that of the topic.
            let partition = Some((id % 3) as u32);
            feed.put(&Outgoing {
                partition,
                key: Some(&key(id)),
                payload: body.as_deref(),
                ..Outgoing::default()
            });
            last.insert(id, (!is_deletion).then_some(n));
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(1_000)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    last
}

/// The table holds what each id has at the end, and every record became a row.
fn newest_rows_are(table: &Table, pipeline: &Pipeline, last: &BTreeMap<u64, Option<u64>>) {
    let wanted: Vec<String> =
        last.iter().filter_map(|(id, v)| v.map(|v| format!("{id} {v} note {v}"))).collect();
    let gone = last.values().filter(|v| v.is_none()).count();
    assert!(wanted.len() > 100 && gone > 10, "there is something to delete, and something to keep");
    let newest =
        "SELECT concat(toString(id), ' ', toString(v), ' ', ifNull(note, '-')) FROM {t} FINAL ORDER BY id";
    let found = || -> Vec<String> { table.ask(newest).lines().map(str::to_owned).collect() };
    assert_eq!(found(), wanted);
    let others = "SELECT countIf(v != 0 OR note IS NOT NULL OR city != 'none') FROM {t} WHERE gone = 1";
    assert_eq!(table.value(others), "0", "a deletion has the key, and of all else nothing");
    table.ask("OPTIMIZE TABLE {t} FINAL");
    assert_eq!(found(), wanted, "merged");
    let records = &pipeline.status()["records"];
    assert_eq!((&records["passed"], &records["dead_letters"]), (&json!(RECORDS), &json!(0)), "{records}");
}

#[test]
fn a_record_without_a_body_deletes_its_key_from_the_table_whatever_is_killed() {
    let Some(case) = Case::begin("tombstones") else { return };
    let table = newest(&case);
    let pipeline = deleting(&case, &table, ", tombstones: { key: [id] }");
    let key = |id: u64| id.to_string().into_bytes();
    let body = |id, n| format!(r#"{{"id":{id},"v":{n},"note":"note {n}","city":"Turin"}}"#).into_bytes();
    let last = changed(&case, &pipeline, key, body);
    newest_rows_are(&table, &pipeline, &last);
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");

    // One whose key is no id, and one without a key, are dead letters as before; a run with nothing else would end as one that failed.
    let feed = case.feed();
    feed.push(0, &body(0, RECORDS));
    feed.put(&Outgoing { partition: Some(0), key: Some(b"seven"), ..Outgoing::default() });
    feed.put(&Outgoing { partition: Some(0), ..Outgoing::default() });
    feed.flush();
    pipeline.drain();
    let letters = Table::at(&case.server().url(), case.name())
        .dead_letters()
        .rows("SELECT reason, `column` AS at, ifNull(key, '-') AS key FROM {t} ORDER BY position");
    let wanted = [
        json!({"reason": "no_body", "at": "id", "key": "seven"}),
        json!({"reason": "no_body", "at": "", "key": "-"}),
    ];
    assert_eq!(letters, wanted);
}

#[test]
fn a_record_without_a_body_whose_key_is_avro_deletes_it_too() {
    if !available(&[Service::Registry]) {
        return;
    }
    let Some(case) = Case::begin("tombstones_avro") else { return };
    let registry = Registry::start().expect("the registry must start");
    let id = r#"{"name": "id", "type": "long"}"#;
    let schema =
        |name: &str, fields: &str| format!(r#"{{"type": "record", "name": "{name}", "fields": [{fields}]}}"#);
    let of_key = registry.register("changes-key", &schema("key", id), &[]).expect("a schema");
    let fields = format!(
        r#"{id}, {{"name": "v", "type": "long"}}, {{"name": "note", "type": "string"}}, {{"name": "city", "type": "string"}}"#
    );
    let of_body = registry.register("changes-value", &schema("change", &fields), &[]).expect("a schema");
    let table = newest(&case);
    let format = format!(", format: {{ avro: {{ registry: {{ url: \"{}\" }} }} }}", registry.url());
    let pipeline = deleting(&case, &table, &format!("{format}, tombstones: {{ key: [id], format: avro }}"));
    let number = |n: u64| crate::registry::number(n as i64);
    let text = crate::registry::text;
    let key = |id| crate::registry::framed(of_key, &[number(id)]);
    let body = |id, n| {
        crate::registry::framed(of_body, &[number(id), number(n), text(&format!("note {n}")), text("Turin")])
    };
    let last = changed(&case, &pipeline, key, body);
    newest_rows_are(&table, &pipeline, &last);
}

/// The key is an object, and the deletion's time that of its record.
#[test]
fn a_record_without_a_body_ends_its_version_in_a_temporal_join_whatever_is_killed() {
    let Some(case) = Case::begin("tombstones_join") else { return };
    let table =
        case.table("order_id UInt64, currency String, at DateTime64(3), rate Nullable(Int64)", "order_id");
    let topics = ["tombstones_join_orders", "tombstones_join_rates"];
    let pipeline = case
        .pipeline()
        .input("orders", topics[0], ", time: at, idle_after: 1h, fields: { order_id: UInt64, currency: String, at: DateTime64(3) }")
        .input(
            "rates",
            topics[1],
            ", time: at, idle_after: 1h, fields: { currency: String, rate: Int64, at: DateTime64(3) }, tombstones: { key: [currency], format: json, timestamp: [at] }",
        )
        .step(
            "join: { left: orders, right: rates, on: [currency], as_of: orders, deleted: _tombstone, kind: left, lateness: 2s, \
             columns: { at: orders.at } }",
        )
        .batch("{ rows: 1000, age: 100ms }");
    let feeds = topics.map(|topic| Feed::new(case.kafka(), topic));
    let mut random = Lcg::new(seed() ^ 0x71);
    let mut rates = vec![BTreeMap::<u64, Option<u64>>::new(); 40];
    let mut orders = Vec::new();
    for life in 0..LIVES {
        for n in life * RECORDS / LIVES..(life + 1) * RECORDS / LIVES {
            let (at, currency) = (BEGIN_MS + n * 20, random.below(40));
            let is_deletion = random.one_in(3);
            rates[currency as usize].insert(at, (!is_deletion).then_some(n));
            let key = format!(r#"{{"currency":"c{currency}"}}"#);
            let body = format!(r#"{{"currency":"c{currency}","rate":{n},"at":{at}}}"#);
            feeds[1].put(&Outgoing {
                partition: Some(random.below(3) as u32),
                key: Some(key.as_bytes()),
                payload: (!is_deletion).then_some(body.as_bytes()),
                time_ms: Some(at as i64),
                ..Outgoing::default()
            });
            let (currency, at) = (random.below(40), at + random.below(20));
            orders.push((n, currency, at));
            let body = format!(r#"{{"order_id":{n},"currency":"c{currency}","at":{at}}}"#);
            feeds[0].push(random.below(3) as u32, body.as_bytes());
        }
        feeds.iter().for_each(Feed::flush);
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(1_200)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    // What releases the last: records behind all others in each partition.
    let last = BEGIN_MS + RECORDS * 20 + 60_000;
    for partition in 0..3 {
        let order =
            format!(r#"{{"order_id":{},"currency":"-","at":{last}}}"#, RECORDS + u64::from(partition));
        feeds[0].push(partition, order.as_bytes());
        feeds[1].push(partition, format!(r#"{{"currency":"-","rate":0,"at":{last}}}"#).as_bytes());
    }
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();

    let held = |currency: u64, at: u64| {
        rates[currency as usize].range(..=at).next_back().and_then(|(_, rate)| *rate)
    };
    let wanted: Vec<String> = orders
        .iter()
        .map(|(n, currency, at)| {
            let rate = held(*currency, *at).map_or("-".to_owned(), |rate| rate.to_string());
            format!("{n} c{currency} {at} {rate}")
        })
        .collect();
    assert!(wanted.iter().filter(|row| row.ends_with('-')).count() > 1_000, "versions end");
    let found = table.column(
        "concat(toString(order_id), ' ', currency, ' ', toString(toUnixTimestamp64Milli(at)), ' ', ifNull(toString(rate), '-'))",
    );
    same(found.into_iter().filter(|row| !row.contains(" - ")).collect(), wanted);
    let records = &pipeline.status()["records"];
    assert_eq!((records["late"].as_u64(), records["dead_letters"].as_u64()), (Some(0), Some(0)), "{records}");
}
