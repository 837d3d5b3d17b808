//! Tables whose rows cancel each other: results of windows that are taken back, and changes that come with their sign. Whatever is killed meanwhile, what is left is exact.

use live::{Case, Table};

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
