//! Tables whose rows cancel each other: results of windows that are taken back, and changes that come with their sign. Whatever is killed meanwhile, what is left is exact.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Table};
use serde_json::json;
use testkit::{Lcg, seed};

use crate::windows::{Expected, by_window, fed_with, same};

/// A table of this engine.
fn table(case: &Case, engine: &str, columns: &str, key: &str) -> Table {
    let table = Table::at(&case.server().url(), case.name());
    table.ask(&format!(
        "CREATE TABLE {{t}} ({columns}, _forebay UUID) ENGINE = {engine} ORDER BY {key} SETTINGS non_replicated_deduplication_window = 10000"
    ));
    table
}

/// Early results and updates of windows into a table of this engine; `emit` names the columns of sign and version.
fn taken_back(name: &str, engine: &str, emit: &str) {
    let Some(case) = Case::begin(name) else { return };
    let columns = "device String, window_start DateTime64(3), n UInt64, total Int64, sign Int8";
    let version = if emit.contains("version") { ", version UInt64" } else { "" };
    let table = table(&case, engine, &format!("{columns}{version}"), "(device, window_start)");
    // Only rows that stay apart can show that each was written once.
    table.ask("SYSTEM STOP MERGES {t}");
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(&format!(
            "window: {{ key: [device], time: at, size: 10s, lateness: 2s, emit: {{ early: 2s, updates: true, {emit} }}, \
             aggregates: {{ n: count(), total: sum(amount) }} }}"
        ));
    // What is read up to its end has early results of the windows that are open then.
    let records = fed_with(&case, &pipeline, 4, |pipeline| {
        pipeline.drain();
    });
    let expected = by_window(records);
    let wanted = texts(expected);
    let key = "concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' '";
    let read = |from: &str, n: &str, total: &str, more: &str| {
        let found = table.ask(&format!(
            "SELECT {key}, toString({n}), ' ', toString({total})) FROM {from} WHERE device != 'end' {more}"
        ));
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // Without FINAL, as such tables are queried: what was taken back is subtracted with the values that it had.
    let by_sign = "GROUP BY device, window_start HAVING sum(sign) > 0";
    same(read("{t}", "sum(n * sign)", "sum(total * sign)", by_sign), wanted.clone());
    let odd = table.value(
        "SELECT count() FROM (SELECT sum(sign) AS s FROM {t} GROUP BY device, window_start) WHERE s != 1",
    );
    assert_eq!(odd, "0", "each row was written once, and taken back once");
    let taken_back: u64 = table.value("SELECT countIf(sign = -1) FROM {t}").parse().expect("a number");
    assert!(
        taken_back >= 100,
        "{taken_back}: 40 devices have a window open at the end of each of three parts"
    );
    same(read("{t} FINAL", "n", "total", ""), wanted.clone());
    table.ask("SYSTEM START MERGES {t}");
    table.ask("OPTIMIZE TABLE {t} FINAL");
    same(read("{t}", "n", "total", ""), wanted);
}

fn texts(expected: Expected) -> Vec<String> {
    let text = |((device, window), of): ((u64, u64), Vec<(u64, i64)>)| {
        let total: i64 = of.iter().map(|(_, amount)| amount).sum();
        format!("d{device} {} {} {total}", window * 10_000, of.len())
    };
    expected.into_iter().map(text).collect()
}

#[test]
fn results_that_are_taken_back_collapse_to_the_exact_ones_whatever_is_killed() {
    taken_back("collapsing", "CollapsingMergeTree(sign)", "sign: sign");
}

#[test]
fn results_with_sign_and_version_collapse_to_the_exact_ones_whatever_is_killed() {
    taken_back(
        "collapsing_versions",
        "VersionedCollapsingMergeTree(sign, version)",
        "sign: sign, version: version",
    );
}

/// A changelog whose records are pairs: the row as it was, and as it is. The sign is computed, and no `upsert` is needed.
#[test]
fn changes_with_both_rows_fill_a_collapsing_table_and_a_sign_that_is_none_is_a_dead_letter() {
    let Some(case) = Case::begin("collapsing_changes") else { return };
    let columns = "id UInt32, city String, sign Int8";
    let table = table(&case, "CollapsingMergeTree(sign)", columns, "id");
    let pipeline = case.pipeline().field("op: String").field("id: UInt32").field("city: String").step(
        "select: { id: id, city: city, sign: \"CAST(CASE op WHEN 'before' THEN -1 WHEN 'after' THEN 1 ELSE 0 END AS Int8)\" }",
    );
    let change = |op: &str, id: u32, city: &str| format!(r#"{{"op":"{op}","id":{id},"city":"{city}"}}"#);
    let feed = case.feed();
    for round in 0..4_u32 {
        let mut records = Vec::new();
        for id in 0..500 {
            if round > 0 {
                records.push(change("before", id, &format!("c{}", round - 1)));
            }
            // Some are deleted for good in the end.
            if round < 3 || id % 10 != 7 {
                records.push(change("after", id, &format!("c{round}")));
            }
        }
        feed.send_to(0, records);
        let mut running = pipeline.run();
        std::thread::sleep(std::time::Duration::from_millis(300 + u64::from(round) * 200));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    // While nothing is killed: rows of this table cannot be looked for, so a refused insert whose earlier answer was lost waits for a person.
    // A run of which nothing becomes a row would end with code 5.
    feed.send_to(0, [change("truncate", 9_999, ""), change("before", 0, "c3"), change("after", 0, "c3")]);
    pipeline.drain();
    let found = table.value("SELECT count(), uniqExact(id), min(city), max(city) FROM {t} FINAL");
    assert_eq!(found, "450\t450\tc3\tc3", "{}", table.ask("SELECT * FROM {t} FINAL LIMIT 20"));
    assert_eq!(table.value("SELECT sum(sign) FROM {t}"), "450");
    assert_eq!(pipeline.status()["records"]["dead_letters"].as_u64(), Some(1), "{}", pipeline.status());
    assert!(table.dead_letters().ask("SELECT raw FROM {t}").contains("truncate"));
}

/// Records of which each replaces the one before of its key: what is in the table then is kept, and taken back with the values that it had. A column comes meanwhile.
#[test]
fn upserts_take_the_row_before_back_whatever_is_killed_and_altered() {
    const KEYS: u64 = 400;
    let Some(case) = Case::begin("collapsing_upserts") else { return };
    let columns = "id UInt64, v Int64, sign Int8, _forebay UUID";
    let table = Table::at(&case.server().url(), &format!("{}_last", case.name()));
    table.ask(&format!(
        "CREATE TABLE {{t}} ({columns}) ENGINE = CollapsingMergeTree(sign) ORDER BY id SETTINGS non_replicated_deduplication_window = 10000"
    ));
    // Only rows that stay apart can show that each was written once.
    table.ask("SYSTEM STOP MERGES {t}");
    let pipeline = case.pipeline().one_of(&format!(
        "{{ clickhouse: {{ table: {} }}, upsert: {{ key: [id], deleted: gone, sign: sign, memory: 1MiB }} }}",
        table.name()
    ));
    let mut random = Lcg::new(seed());
    let feed = case.feed();
    let mut last: BTreeMap<u64, Option<(i64, String)>> = BTreeMap::new();
    let lives = 6;
    for life in 0..lives {
        for n in 0..3_000 {
            let (id, v) = (random.next_u64() % KEYS, life * 10_000 + n);
            let gone = random.next_u64().is_multiple_of(7);
            let city = format!("c{}", v % 10);
            let record = format!(r#"{{"id":{id},"v":{v},"gone":{gone},"city":"{city}"}}"#);
            // The records of a key are in one partition: their order is that of the topic.
            feed.push((id % 3) as u32, record.as_bytes());
            // Before the column was there nobody wrote it.
            last.insert(id, (!gone).then(|| (v, if life > 2 { city } else { String::new() })));
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.next_u64() % 900));
        running.kill9().expect("a kill");
        if life == 2 {
            // All that was sent so far is in the table before it changes.
            pipeline.drain();
            table.ask("ALTER TABLE {t} ADD COLUMN city String DEFAULT ''");
        }
    }
    pipeline.drain();
    let expected: Vec<String> = last
        .iter()
        .filter_map(|(id, row)| row.as_ref().map(|(v, city)| format!("{id} {v} {city}")))
        .collect();
    let read = |sql: &str| -> Vec<String> { table.ask(sql).lines().map(str::to_owned).collect() };
    // Without FINAL, as such tables are queried: what was taken back is subtracted with the values that it had.
    let by_sign = "SELECT concat(toString(id), ' ', toString(sum(v * sign)), ' ', argMax(city, (v, sign))) FROM {t} GROUP BY id HAVING sum(sign) > 0 ORDER BY id";
    let of_final = "SELECT concat(toString(id), ' ', toString(v), ' ', city) FROM {t} FINAL ORDER BY id";
    let odd =
        table.value("SELECT count() FROM (SELECT sum(sign) AS s FROM {t} GROUP BY id) WHERE s NOT IN (0, 1)");
    assert_eq!(odd, "0", "each row was written once, and taken back once");
    let odd = table.value(
        "SELECT count() FROM (SELECT sum(sign) AS s FROM {t} GROUP BY id, v, city) WHERE s NOT IN (0, 1)",
    );
    assert_eq!(odd, "0", "with the values that it had");
    assert_eq!(read(by_sign), expected);
    assert_eq!(read(of_final), expected);
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");
    table.ask("SYSTEM START MERGES {t}");
    table.ask("OPTIMIZE TABLE {t} FINAL");
    assert_eq!(read(of_final), expected, "merged");
    let status = pipeline.status();
    let number = |path: &str| status.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or_default();
    assert_eq!(number("/records/read"), lives as u64 * 3_000, "{status:#}");
    assert_eq!(number("/records/dead_letters"), 0, "{status:#}");
}

/// A row that the table refuses is the last of its key all the same: what comes later takes it back, and that is refused too.
#[test]
fn a_row_of_an_upsert_that_is_refused_becomes_a_dead_letter_that_says_what_stays_known() {
    let Some(case) = Case::begin("collapsing_refused") else { return };
    let table = table(
        &case,
        "CollapsingMergeTree(sign)",
        "id UInt64, v Int64, sign Int8, CONSTRAINT above CHECK v > 0",
        "id",
    );
    table.ask("SYSTEM STOP MERGES {t}");
    let pipeline = case
        .pipeline()
        .one_of(&format!(
            "{{ clickhouse: {{ table: {} }}, upsert: {{ key: [id], sign: sign }} }}",
            table.name()
        ))
        .step("dedup: { key: [v], window: unbounded }");
    let feed = case.feed();
    for v in [1, -1, 2] {
        // Another good row beside it: a run of which nothing becomes a row would end with code 5.
        feed.send_to(0, [format!(r#"{{"id":1,"v":{v}}}"#), format!(r#"{{"id":2,"v":{}}}"#, v + 100)]);
        pipeline.drain();
    }
    let signs = "SELECT v, sum(sign) AS s FROM {t} WHERE id = 1 GROUP BY v ORDER BY v";
    assert_eq!(table.ask(signs), "1\t0\n2\t1\n");
    let letters = table.dead_letters().ask("SELECT raw, message LIKE '%stays known%' FROM {t} ORDER BY raw");
    let lines: Vec<&str> = letters.lines().collect();
    assert_eq!(lines.len(), 2, "{letters}");
    for (line, sign) in lines.iter().zip(["-1", "1"]) {
        assert!(
            line.contains(r#""v":-1"#)
                && line.contains(&format!(r#""sign":{sign}"#))
                && line.ends_with("\t1"),
            "{letters}"
        );
    }
    assert_eq!(table.value("SELECT count() FROM {t} FINAL"), "2");
}

/// Follows the step's advice once its memory is used up, and what the documents say of a start without its state.
#[test]
fn an_upsert_goes_on_with_more_memory_and_begins_anew_with_a_new_state() {
    const KEYS: u64 = 600_000;
    let Some(case) = Case::begin("collapsing_memory") else { return };
    let table = table(&case, "CollapsingMergeTree(sign)", "id UInt64, v Int64, sign Int8", "id");
    table.ask("SYSTEM STOP MERGES {t}");
    let with = |memory: &str| {
        case.pipeline().one_of(&format!(
            "{{ clickhouse: {{ table: {} }}, upsert: {{ key: [id], sign: sign, memory: {memory} }} }}",
            table.name()
        ))
    };
    let feed = case.feed();
    let change = |id: u64, v: i64| feed.push(0, format!(r#"{{"id":{id},"v":{v}}}"#).as_bytes());
    (0..KEYS).for_each(|id| change(id, 1));
    feed.flush();
    // However fast the machine is, the index of so many keys in files takes more than its part of 1 MiB: 2.1 bytes a key, and 9/16.
    let output = with("1MiB").batch("{ rows: 10000, age: 10m }").run_tool(&["run"], &["--drain"]);
    assert!(
        !output.exit.status.success() && output.stderr.contains("Raise `upsert.memory`"),
        "{}",
        output.stderr
    );
    let pipeline = with("64MiB");
    pipeline.drain();
    assert_eq!(
        table.value("SELECT count(), uniqExact(id), sum(sign) FROM {t}"),
        format!("{KEYS}\t{KEYS}\t{KEYS}")
    );
    let of_one = || {
        table
            .value("SELECT groupArray((v, sign)) FROM (SELECT * FROM {t} WHERE id = 7 ORDER BY v, sign DESC)")
    };
    change(7, 2);
    feed.flush();
    pipeline.drain();
    assert_eq!(of_one(), "[(1,1),(1,-1),(2,1)]");
    change(7, 3);
    feed.flush();
    let output = pipeline.run_tool(&["run"], &["--drain", "--new-state", "upsert", "--yes"]);
    assert_eq!(output.exit.status.code(), Some(0), "{}", output.stderr);
    assert_eq!(of_one(), "[(1,1),(1,-1),(2,1),(3,1)]", "the first change takes nothing back");
    change(7, 4);
    feed.flush();
    pipeline.drain();
    assert_eq!(of_one(), "[(1,1),(1,-1),(2,1),(3,1),(3,-1),(4,1)]");
}
