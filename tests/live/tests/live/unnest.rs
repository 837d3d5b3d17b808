//! Records that become several rows by `UNNEST`: every row once whatever is killed, and a refused row among those beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Pipeline, Table};
use serde_json::{Value, json};
use testkit::{Lcg, Output, seed};

const QUERY: &str = "sql: SELECT id, UNNEST(items) AS item, size FROM input WHERE size >= 0";
const FIELDS: &str = "items: Array(Int32)";
const COLUMNS: &str = "id UInt64, item Int32, size Int32";

fn record(id: u64, items: &[i32]) -> String {
    json!({ "id": id, "items": items, "size": items.len() }).to_string()
}

/// Makes the case's table, which refuses the item `13`.
fn table(case: &Case) -> Table {
    let table = Table::at(&case.server().url(), case.name());
    table.ask(&format!(
        "CREATE TABLE {{t}} ({COLUMNS}, _forebay UUID, CONSTRAINT lucky CHECK item != 13) ENGINE = MergeTree ORDER BY (cityHash64(item), id) \
         SETTINGS non_replicated_deduplication_window = 10000"
    ));
    table
}

fn found(table: &Table) -> Vec<String> {
    let mut found = table.column("concat(toString(id), ' ', toString(item), ' ', toString(size))");
    found.sort();
    found
}

/// The rows of these records by a naive reading, without items that `is_out` names.
fn expected(records: &BTreeMap<u64, Vec<i32>>, is_out: impl Fn(i32) -> bool) -> Vec<String> {
    let rows = records.iter().flat_map(|(id, items)| items.iter().map(move |item| (id, item, items.len())));
    let rows = rows.filter(|(_, item, _)| !is_out(**item));
    let mut rows: Vec<String> = rows.map(|(id, item, size)| format!("{id} {item} {size}")).collect();
    rows.sort();
    rows
}

#[test]
fn every_row_of_every_record_arrives_once_whatever_is_killed() {
    const RECORDS: u64 = 20_000;
    const LIVES: u64 = 5;
    let Some(case) = Case::begin("unnest_kill") else { return };
    let table = table(&case);
    // A window of state behind it: rows of one record that are alike are one.
    let pipeline = case
        .pipeline()
        .field(FIELDS)
        .field("size: Int32")
        .step(QUERY)
        .step("filter: item <> 0")
        .step("dedup: { key: [id, item], window: unbounded }")
        .step("filter: item <> 1")
        .batch("{ rows: 3000, age: 100ms }");
    let mut random = Lcg::new(seed());
    let mut records = BTreeMap::<u64, Vec<i32>>::new();
    let feed = case.feed();
    for life in 0..LIVES {
        for id in life * RECORDS / LIVES..(life + 1) * RECORDS / LIVES {
            let items: Vec<i32> = (0..random.below(6)).map(|_| random.below(12) as i32).collect();
            // Some records are sent twice.
            for _ in 0..1 + u64::from(random.below(5) == 0) {
                feed.push(random.below(3) as u32, record(id, &items).as_bytes());
            }
            records.insert(id, items);
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(1_200)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let mut wanted = expected(&records, |item| item == 0 || item == 1);
    wanted.dedup();
    let rows = found(&table);
    assert_eq!(rows.len(), wanted.len());
    let wrong: Vec<_> = rows.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let report = pipeline.tool(&["verify"], &["--json", "--values"], 0);
    assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");
    let status = pipeline.status();
    println!("{}", status["records"]);
}

/// The dead letters: record, item of the header, and the bytes.
fn letters(table: &Table) -> Vec<Value> {
    table.dead_letters().rows("SELECT position, headers['forebay.item'] AS item, reason, raw FROM {t} ORDER BY position, toUInt64OrZero(item)")
}

fn replay(pipeline: &Pipeline, args: &[&str], code: i32) -> Vec<String> {
    let output: Output = pipeline.dead_letters("replay", &[&["--json"], args].concat());
    assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
    let lines = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| line["result"].as_str().expect("a result").to_owned()).collect()
}

#[test]
fn a_refused_row_is_a_dead_letter_of_its_item_and_replayed_without_the_rows_beside_it() {
    for (name, dedup) in [("unnest_refused", false), ("unnest_refused_keys", true)] {
        let Some(case) = Case::begin(name) else { return };
        let table = table(&case);
        let records: BTreeMap<u64, Vec<i32>> =
            [(1, vec![7, 13, 8]), (2, vec![]), (3, vec![13, 13]), (4, vec![9, 13]), (5, vec![5])].into();
        case.feed().send_to(0, records.iter().map(|(id, items)| record(*id, items)));
        let mut pipeline =
            case.pipeline().field(FIELDS).field("size: Int32").step(QUERY).batch("{ rows: 100000, age: 1s }");
        if dedup {
            pipeline = pipeline.step("dedup: { key: [id, item], window: unbounded }");
        }
        pipeline.drain();
        assert_eq!(found(&table), expected(&records, |item| item == 13), "{name}");
        let raw = |id: u64| record(id, &records[&id]);
        let letter = |position: &str, item: &str, id: u64| json!({ "position": position, "item": item, "reason": "refused", "raw": raw(id) });
        let mut wanted = vec![letter("0", "1", 1), letter("2", "0", 3), letter("3", "1", 4)];
        if !dedup {
            wanted.insert(2, letter("2", "1", 3));
        }
        assert_eq!(letters(&table), wanted, "{name}");
        let listed = pipeline.dead_letters("list", &["--json"]).stdout;
        let listed: Vec<Value> =
            listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for letter in &listed {
            let id = letter["id"].as_str().expect("a name");
            let shown = pipeline.dead_letters("show", &["--json", id]).stdout;
            assert_eq!(&serde_json::from_str::<Value>(&shown).expect("JSON"), letter, "{name}: `{id}`");
        }
        assert_eq!(listed.len(), wanted.len());
        // Refused again while nothing is mended: a letter of the replay's own record, of that item still.
        let again = replay(&pipeline, &["--where", "position = 0"], 1);
        assert_eq!(again, ["dead_letter"], "{name}");
        assert_eq!(found(&table), expected(&records, |item| item == 13), "{name}");

        table.ask("ALTER TABLE {t} DROP CONSTRAINT lucky");
        let results = replay(&pipeline, &["--source", name], 0);
        assert_eq!(
            results.iter().filter(|result| *result == "written").count(),
            wanted.len() - 1,
            "{name}: {results:?}"
        );
        assert_eq!(replay(&pipeline, &["--source", "@replays"], 0), ["written"], "{name}");
        let mut all = expected(&records, |_| false);
        if dedup {
            all.dedup();
        }
        assert_eq!(found(&table), all, "{name}: no row beside a refused one is doubled, and none is missing");
        // A second time nothing is left to be put in.
        let results = replay(&pipeline, &[], 0);
        assert_eq!(found(&table), all, "{name}: {results:?}");
        let status = pipeline.status();
        println!("{name}: {}", status["records"]);
    }
}

#[test]
fn rows_that_a_step_fails_on_are_replayed_item_by_item_once_the_pipeline_is_mended() {
    let Some(case) = Case::begin("unnest_failed") else { return };
    let table = case.table(COLUMNS, "id");
    // More rows of a record fail than repeat it, and the record is large enough that only some do.
    let records: BTreeMap<u64, Vec<i32>> = [(1, (0..60).collect()), (2, vec![1, 2]), (3, vec![12])].into();
    case.feed().send_to(0, records.iter().map(|(id, items)| record(*id, items)));
    let pipeline = case.pipeline().field(FIELDS).field("size: Int32").step(QUERY);
    let broken = pipeline
        .for_another_process()
        .step("select: { '*': '*', item: \"item / CASE WHEN item < 10 THEN 1 ELSE 0 END\" }");
    broken.drain();
    assert_eq!(found(&table), expected(&records, |item| item >= 10));
    let found_letters = letters(&table);
    assert_eq!(found_letters.len(), 51);
    assert!(found_letters.iter().all(|letter| letter["reason"] == "expression"), "{found_letters:?}");
    let bare = found_letters.iter().filter(|letter| letter["raw"] == "").count();
    assert_eq!(bare, 34, "{found_letters:?}");
    let tried = pipeline.run_tool(&["try"], &["--sample", "3"]);
    assert!(
        tried.stdout.contains("[59]") && tried.stdout.contains("3 records: 63 rows"),
        "{}\n{}",
        tried.stdout,
        tried.stderr
    );

    let results = replay(&pipeline, &[], 0);
    assert_eq!(results, vec!["written"; 51]);
    assert_eq!(found(&table), expected(&records, |_| false));
}

/// What a report names under `kind`: record and item.
fn named(report: &Value, kind: &str) -> Vec<(String, Value)> {
    let named = report[kind]["named"].as_array().unwrap_or_else(|| panic!("no `{kind}` in {report:#}"));
    let mut named: Vec<_> = named
        .iter()
        .map(|n| (n["source"].as_str().unwrap_or("none").to_owned(), n["item"].clone()))
        .collect();
    named.sort_by_key(|(source, item)| (source.clone(), item.as_u64()));
    named
}

#[test]
fn verify_compares_the_rows_of_items_one_by_one() {
    const FAILS: &str =
        "select: { '*': '*', size: \"CASE WHEN item = 11 THEN size / (item - 11) ELSE size END\" }";
    for (name, dedup) in [("unnest_verify", false), ("unnest_verify_keys", true)] {
        let Some(case) = Case::begin(name) else { return };
        let table = table(&case);
        let mut random = Lcg::new(seed());
        // Items that are alike, that a step drops or fails on, and that the server refuses; records without any.
        let mut records: BTreeMap<u64, Vec<i32>> = (0..3_000)
            .map(|id| (id, (0..random.below(6)).map(|_| random.below(11) as i32).collect()))
            .collect();
        records.extend([(7, vec![9, 13, 8]), (8, vec![]), (9, vec![3, 11, 5]), (10, vec![4, 2])]);
        let feed = case.feed();
        records.iter().for_each(|(id, items)| feed.push(0, record(*id, items).as_bytes()));
        feed.push(0, b"no record");
        feed.flush();
        let mut pipeline = case
            .pipeline()
            .field(FIELDS)
            .field("size: Int32")
            .step(QUERY)
            .step("filter: item <> 0")
            .step(FAILS)
            .batch("{ rows: 700, age: 100ms }");
        if dedup {
            pipeline = pipeline.step("dedup: { key: [id, item], window: unbounded }");
        }
        pipeline.drain();
        let args: &[&str] = if dedup { &["--json"] } else { &["--json", "--key", "id,item"] };
        let verify = |more: &[&str], code| pipeline.tool(&["verify"], &[args, more].concat(), code);
        let report = verify(&["--values"], 0);
        assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");
        assert_eq!(report["values"]["compared"], json!(["size"]), "{report:#}");
        assert_eq!(report["buckets"]["compared_by_key"].as_u64().is_some_and(|n| n <= 2), true, "{report:#}");
        let letters = &report["dead_letters"];
        assert_eq!((&letters["expected"], &letters["refused"]), (&json!(2), &json!(1)), "{report:#}");

        // The refused row's letter is purged, which verify remembers; the failed one's is gone, and is missed.
        let topic = case.name();
        assert!(pipeline.dead_letters("purge", &["--reason", "refused", "--yes"]).exit.status.success());
        verify(&[], 0);
        table
            .dead_letters()
            .ask("ALTER TABLE {t} DELETE WHERE reason = 'expression' SETTINGS mutations_sync = 2");
        let report = verify(&[], 4);
        assert_eq!(report["dead_letters"]["missing"], json!([format!("{topic}/0@9, item 1")]), "{report:#}");

        // One item of a record lost, one doubled, one changed, one of no record.
        table.ask("ALTER TABLE {t} DELETE WHERE id = 10 AND item = 2 SETTINGS mutations_sync = 2");
        table.ask("INSERT INTO {t} SELECT * FROM {t} WHERE id = 7 AND item = 8");
        table.ask("ALTER TABLE {t} UPDATE size = 77 WHERE id = 9 AND item = 5 SETTINGS mutations_sync = 2");
        table.ask("INSERT INTO {t} (id, item, size) VALUES (10, 99, 2)");
        let report = verify(&["--values"], 4);
        assert_eq!(named(&report, "missing"), [(format!("{topic}/0@10"), json!(1))], "{report:#}");
        assert_eq!(named(&report, "duplicate"), [(format!("{topic}/0@7"), json!(2))], "{report:#}");
        assert_eq!(named(&report, "different"), [(format!("{topic}/0@9"), json!(2))], "{report:#}");
        assert_eq!(report["foreign"]["named"][0]["key"], "2:102:99", "{report:#}");
        let text = pipeline.run_tool(&["verify"], &args[1..]).stdout;
        assert!(text.contains(&format!("record {topic}/0@10, item 1")), "{text}");
        // A range of one record finds its rows alone.
        let (from, to) = (format!("{topic}/0:10"), format!("{topic}/0:11"));
        let report = verify(&["--from", &from, "--to", &to], 4);
        assert_eq!((&report["records"], &report["missing"]["keys"]), (&json!(1), &json!(1)), "{report:#}");
        assert_eq!(report["duplicate"]["keys"], 0, "{report:#}");
    }
}

#[test]
fn verify_knows_the_replayed_rows_of_items_from_those_beside_them() {
    let Some(case) = Case::begin("unnest_verify_replays") else { return };
    let table = table(&case);
    let records: BTreeMap<u64, Vec<i32>> = [(1, vec![7, 13, 8]), (3, vec![13, 13]), (4, vec![9, 13])].into();
    case.feed().send_to(0, records.iter().map(|(id, items)| record(*id, items)));
    let pipeline = case.pipeline().field(FIELDS).field("size: Int32").step(QUERY);
    pipeline.drain();
    let args = ["--json", "--key", "id,item"];
    let right = |code| pipeline.tool(&["verify"], &args, code);
    right(0);
    table.ask("ALTER TABLE {t} DROP CONSTRAINT lucky");
    assert_eq!(replay(&pipeline, &["--where", "position < 2"], 0), ["written"; 3]);
    right(0);
    assert_eq!(found(&table).len(), 6);
    // The rest is purged: its row stays away, and is not missed.
    assert!(pipeline.dead_letters("purge", &["--all", "--yes"]).exit.status.success());
    right(0);
    // A replayed row that is lost is missed, although its first letter is remembered.
    table.ask("ALTER TABLE {t} DELETE WHERE id = 1 AND item = 13 SETTINGS mutations_sync = 2");
    let report = right(4);
    assert_eq!(report["missing"]["keys"], 1, "{report:#}");
    assert!(
        report["missing"]["named"][0]["source"].as_str().is_some_and(|at| at.starts_with("@replays/0")),
        "{report:#}"
    );
}
