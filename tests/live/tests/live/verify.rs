//! `forebay verify` and `forebay store check`, beside a pipeline that runs.

use std::time::Duration;

use live::{Accounts, Case};
use serde_json::{Value, json};
use testkit::{Fault, FaultProxy, Rule};

fn records(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id, "name": format!("number {id}") }).to_string())
}

/// The keys that a report names under `kind`.
fn named(report: &Value, kind: &str) -> Vec<String> {
    let named = report[kind]["named"].as_array().unwrap_or_else(|| panic!("no `{kind}` in {report:#}"));
    named.iter().map(|n| n["key"].as_str().unwrap_or("no key").to_owned()).collect()
}

#[test]
fn a_missing_a_duplicate_and_a_foreign_row_are_named_while_the_pipeline_runs() {
    let Some(case) = Case::begin("verify_rows") else { return };
    let table = case.table("id UInt32, name String", "id");
    case.feed().spread(records(0..6_000));
    case.feed().spread(records(100..300));
    case.feed().send(["no record", "{\"id\": \"no number\", \"name\": \"x\"}"]);
    let pipeline = case.pipeline().dedup("id", None);
    let running = pipeline.run();
    table.wait_for(6_000);

    // Records go on coming while it is compared.
    let feed = case.feed();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20 {
                feed.spread(records(10_000 + round * 50..10_050 + round * 50));
                feed.flush();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        pipeline.tool(&["verify"], &["--json"], 0)
    });
    assert_eq!((&report["right"], &report["all"]), (&json!(true), &json!(true)), "{report:#}");
    assert_eq!(report["accounts"]["add_up"], true);
    assert_eq!(report["dead_letters"]["expected"], 2);
    table.wait_for(7_000);

    table.ask("ALTER TABLE {t} DELETE WHERE id IN (17, 4711) SETTINGS mutations_sync = 2");
    table.ask("INSERT INTO {t} (id, name) VALUES (18, 'by hand'), (999999, 'from nowhere')");
    table.dead_letters().ask("ALTER TABLE {t} DELETE WHERE reason = 'malformed' SETTINGS mutations_sync = 2");
    let report = pipeline.tool(&["verify"], &["--json"], 4);
    let mut missing = named(&report, "missing");
    missing.sort();
    assert_eq!(missing, ["17", "4711"], "{report:#}");
    assert_eq!(named(&report, "duplicate"), ["18"]);
    assert_eq!(
        (&report["duplicate"]["named"][0]["rows"], &report["duplicate"]["named"][0]["rows_max"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(named(&report, "foreign"), ["999999"]);
    assert_eq!(report["dead_letters"]["missing"].as_array().map(Vec::len), Some(1), "{report:#}");
    assert!(report["buckets"]["compared_by_key"].as_u64() < report["buckets"]["all"].as_u64());

    // A range tells what is missing in it or there twice, and nothing of what it does not hold.
    for (kind, other) in [("missing", "duplicate"), ("duplicate", "missing")] {
        let place = report[kind]["named"][0]["source"].as_str().expect("a place");
        let (from, to) = around(place);
        let report = pipeline.tool(&["verify"], &["--from", &from, "--to", &to, "--json"], 4);
        let keys = (&report["records"], &report[kind]["keys"], &report[other]["keys"]);
        assert_eq!(keys, (&json!(1), &json!(1), &json!(0)), "{report:#}");
        assert_eq!(report["foreign"], Value::Null);
    }
    live::pipeline::term(running);
    let accounts =
        Accounts { read: 7_202, written: 7_000, duplicates: 200, dead_letters: 2, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

/// The range of one record.
fn around(place: &str) -> (String, String) {
    let (partition, position) = place.split_once('@').expect("a position");
    let position: u64 = position.parse().expect("a number");
    (format!("{partition}:{position}"), format!("{partition}:{}", position + 1))
}

#[test]
fn what_was_read_again_after_a_move_back_is_named() {
    let Some(case) = Case::begin("verify_moved") else { return };
    let table = case.table("id UInt32, name String", "id");
    case.feed().send(records(0..60));
    let pipeline = case.pipeline();
    pipeline.drain();
    let partition = format!("{}/0", case.name());
    pipeline.tool(&["reset"], &["--to", &format!("{partition}=5"), "--json", "--yes"], 0);
    pipeline.drain();
    let (rows, ids) = table.count_and_distinct("id");
    assert!(rows > 60 && ids == 60, "{rows}");
    let report = pipeline.tool(&["verify"], &["--key", "id", "--json"], 4);
    assert_eq!(named(&report, "duplicate").len() as u64, rows - 60, "{report:#}");
}

#[test]
fn a_range_counts_a_keys_records_elsewhere_before_it_calls_a_row_a_duplicate() {
    let Some(case) = Case::begin("verify_range") else { return };
    let table = case.table("id UInt32, name String", "id");
    let feed = case.feed();
    // No dedup: each record is a row, and key 7 has two of them, far apart.
    let bodies = records(0..300).chain(records(7..8));
    bodies.for_each(|body| feed.push(0, body.as_bytes()));
    feed.flush();
    let pipeline = case.pipeline();
    pipeline.drain();
    let topic = case.name();
    let (from, to) = (format!("{topic}/0:0"), format!("{topic}/0:10"));
    let range = ["--key", "id", "--from", &from, "--to", &to, "--json"];
    let report = pipeline.tool(&["verify"], &range, 0);
    assert_eq!((&report["records"], &report["duplicate"]["keys"]), (&json!(10), &json!(0)), "{report:#}");
    table.ask("INSERT INTO {t} SELECT * FROM {t} WHERE id = 7 LIMIT 1");
    table.ask("INSERT INTO {t} SELECT * FROM {t} WHERE id = 200");
    let report = pipeline.tool(&["verify"], &range, 4);
    assert_eq!(named(&report, "duplicate"), ["7"], "{report:#}");
    let told = &report["duplicate"]["named"][0];
    assert_eq!((&told["rows"], &told["rows_max"]), (&json!(3), &json!(2)));
}

#[test]
fn a_changed_value_and_frames_that_lack_or_repeat_rows_are_named() {
    let Some(case) = Case::begin("verify_values") else { return };
    let table = case.table("id UInt32, name String", "id");
    case.feed().spread(records(0..3_000));
    case.feed().spread(records(100..200));
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    assert_eq!(report["values"]["compared"], json!(["name"]), "{report:#}");
    assert_eq!((&report["different"]["keys"], &report["frames"]["more"]["frames"]), (&json!(0), &json!(0)));
    assert!(report["frames"]["known"].as_u64() >= Some(1), "{report:#}");

    table.ask("ALTER TABLE {t} DELETE WHERE id = 17 SETTINGS mutations_sync = 2");
    let report = pipeline.tool(&["verify"], &["--json"], 4);
    assert_eq!(named(&report, "missing"), ["17"], "{report:#}");
    assert_eq!((&report["frames"]["fewer"]["frames"], &report["different"]), (&json!(1), &Value::Null));
    let frame = &report["frames"]["fewer"]["named"][0];
    assert_eq!(frame["rows"].as_u64().map(|n| n + 1), frame["expected"].as_u64(), "{report:#}");

    table.ask("INSERT INTO {t} SELECT * FROM {t} WHERE id IN (18, 20, 21)");
    table.ask("INSERT INTO {t} (id, name) VALUES (999999, 'from nowhere')");
    table.ask("ALTER TABLE {t} UPDATE name = 'by hand' WHERE id = 19 SETTINGS mutations_sync = 2");
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 4);
    let sorted = |kind: &str| {
        let mut keys = named(&report, kind);
        keys.sort();
        keys
    };
    assert_eq!(sorted("missing"), ["17"], "{report:#}");
    assert_eq!(sorted("duplicate"), ["18", "20", "21"]);
    assert_eq!(sorted("foreign"), ["999999"]);
    assert_eq!(sorted("different"), ["19"]);
    assert!(report["frames"]["more"]["frames"].as_u64() >= Some(1), "{report:#}");
    let twin = &report["duplicate"]["named"][0]["frames"];
    assert_eq!(twin.as_array().map(Vec::len), Some(1), "a copy names the frame of its row: {twin}");
    let stray = report["foreign"]["named"][0]["frames"][0].as_str().unwrap_or_default();
    assert_eq!(stray, "0".repeat(32), "what came by hand is of no frame");
}

#[test]
fn a_column_with_a_default_is_compared_where_the_record_gives_it() {
    let Some(case) = Case::begin("verify_defaults") else { return };
    let columns = "id UInt32, name String DEFAULT 'none', at DateTime DEFAULT now(), n UInt8 DEFAULT id % 7, o Nullable(Int8) DEFAULT 3";
    let table = case.table(columns, "id");
    let record = |id: u32| match id % 3 {
        0 => json!({ "id": id, "name": format!("n{id}"), "at": "2024-05-01 10:00:00", "n": 200, "o": 1 }),
        1 => json!({ "id": id, "name": format!("n{id}") }),
        _ => json!({ "id": id }),
    };
    case.feed().spread((0..3_000).map(|id| record(id).to_string()));
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    let compared: std::collections::BTreeSet<&str> =
        report["values"]["compared"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(compared, ["at", "n", "name", "o"].into(), "{report:#}");
    assert_eq!(report["different"]["keys"], 0, "{report:#}");
    // What the record gave was changed, in one column each; and what it left out, which is the server's.
    for (set, id) in
        [("name = 'x'", 30), ("at = now()", 33), ("n = 3", 36), ("o = NULL", 39), ("name = 'x'", 31)]
    {
        table.ask(&format!("ALTER TABLE {{t}} UPDATE {set} WHERE id = {id} SETTINGS mutations_sync = 2"));
    }
    for (set, id) in [("at = now() - 5", 31), ("name = 'x', n = 9", 32)] {
        table.ask(&format!("ALTER TABLE {{t}} UPDATE {set} WHERE id = {id} SETTINGS mutations_sync = 2"));
    }
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 4);
    let mut keys = named(&report, "different");
    keys.sort();
    assert_eq!(keys, ["30", "31", "33", "36", "39"], "{report:#}");
}

#[test]
fn a_table_that_cannot_be_compared_is_named_and_the_others_are_compared() {
    let Some(case) = Case::begin("verify_some") else { return };
    case.feed().send((0..20_u32).map(|id| json!({ "id": id, "v": id % 3 }).to_string()));
    let table = case.table("id UInt32, v UInt8", "id");
    let keyless = case.table_called(&format!("a_{}", case.name()), "v UInt8", "v");
    let sink = |table: &live::Table| format!("{{ clickhouse: {{ table: {} }} }}", table.name());
    let pipeline = case.pipeline().field("id: UInt32").dedup("id", None);
    let pipeline = pipeline.one_of(&sink(&keyless)).one_of(&sink(&table));
    pipeline.drain();
    let output = pipeline.run_tool(&["verify"], &[]);
    assert_eq!(output.exit.status.code(), Some(1), "{}", output.stderr);
    let named = format!("the table `default.{}` could not be compared", keyless.name());
    assert!(output.stderr.contains(&named) && output.stderr.contains("`id`"), "{}", output.stderr);
    assert!(output.stdout.contains(&format!("default.{}", table.name())), "{}", output.stdout);
}

#[test]
fn rows_whose_key_the_server_made_are_counted_and_not_called_foreign() {
    let Some(case) = Case::begin("verify_made_keys") else { return };
    let table = case.table("id UUID DEFAULT generateUUIDv4(), n UInt32", "id");
    case.feed().spread((0..900_u32).map(|n| {
        match n % 3 {
            0 => json!({ "n": n }),
            _ => json!({ "id": format!("00112233-4455-6677-8899-{n:012x}"), "n": n }),
        }
        .to_string()
    }));
    let pipeline = case.pipeline();
    pipeline.drain();
    let verify = |code| pipeline.tool(&["verify"], &["--key", " id", "--json"], code);
    let report = verify(0);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("300 records have no value for column `id`") && notes.contains("300 rows"),
        "{report:#}"
    );
    table.ask("ALTER TABLE {t} DELETE WHERE n = 3 SETTINGS mutations_sync = 2");
    let report = verify(4);
    assert_eq!(report["missing"]["keys"], 1, "one of those without a key: {report:#}");
    assert_eq!(report["foreign"]["keys"], 0, "the others are rows of records: {report:#}");
    table.ask("INSERT INTO {t} (n) VALUES (3), (4)");
    let report = verify(4);
    assert_eq!(report["missing"]["keys"], 0, "{report:#}");
    assert!(report["foreign"]["keys"].as_u64() >= Some(1), "one row more than records: {report:#}");
}

#[test]
fn what_is_sealed_and_not_settled_is_not_taken_for_missing() {
    let Some(case) = Case::begin("verify_in_flight") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32, name String", "id");
    case.feed().spread(records(0..1_000));
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url());
    pipeline.drain();
    let away = proxy.add(Rule::always(Fault::Reset).query("INSERT INTO"));
    case.feed().spread(records(1_000..2_000));
    let running = pipeline.run();
    pipeline.wait_for_live("all to be sealed", |status| status["sealed"]["read"] == 2_000);
    pipeline.tool_fails(&["verify"], &["--wait", "1"], 1, "are not settled after 1 s");
    assert_eq!(table.count(), 1_000);
    proxy.remove(away);
    let report = pipeline.tool(&["verify"], &["--json"], 0);
    assert_eq!((&report["records"], &report["table_rows"]), (&json!(2_000), &json!(2_000)), "{report:#}");
    live::pipeline::term(running);
}

#[test]
fn keys_of_every_type_have_the_same_text_on_both_sides() {
    let Some(case) = Case::begin("verify_types") else { return };
    let columns = "i Int64, u UInt64, s String, f FixedString(4), id UUID, d Date, d32 Date32, t DateTime('Asia/Tokyo'), \
                   t3 DateTime64(3), t6 DateTime64(6, 'UTC'), n Nullable(Int32), l LowCardinality(String), \
                   ln LowCardinality(Nullable(String)), e Enum8('a' = -1, 'b' = 2), b Bool, ip IPv4";
    let table = case.table(columns, "i");
    case.feed().send((0..500_i64).map(|k| {
        json!({
            "i": i64::MIN + k, "u": u64::MAX - k as u64, "s": format!("ü:{k}"), "f": "ab",
            "id": format!("00112233-4455-6677-8899-{k:012x}"), "d": "2020-02-29", "d32": "1931-01-01",
            "t": 1_750_000_000 + k, "t3": "2025-06-15T15:06:40.123Z", "t6": "2025-06-15T15:06:40.123456Z",
            "n": (k % 2 == 0).then_some(k), "l": "word", "ln": (k % 3 == 0).then_some("other"), "e": "a",
            "b": k % 2 == 0, "ip": "10.0.0.1"
        })
        .to_string()
    }));
    let key = "i, u, s, f, id, d, d32, t, t3, t6, n, l, ln, e, b, ip";
    let pipeline = case.pipeline().step(&format!("dedup: {{ key: [{key}], window: unbounded }}"));
    pipeline.drain();
    assert_eq!(table.count(), 500);
    let report = pipeline.tool(&["verify"], &["--json"], 0);
    assert_eq!(report["buckets"]["compared_by_key"], 0, "{report:#}");
}

#[test]
fn a_store_is_checked_beside_its_owner_and_damage_is_named() {
    let Some(case) = Case::begin("store_check") else { return };
    let table = case.table("id UInt32, name String", "id");
    case.feed().spread(records(0..3_000));
    let pipeline = case.pipeline().dedup("id", None);
    let running = pipeline.run();
    table.wait_for(3_000);
    let report = pipeline.tool(&["store", "check"], &["--json"], 0);
    assert_eq!(report["sound"], true);
    let lane = &report["lanes"][0];
    assert!(lane["records"].as_u64() >= Some(3) && lane["frames"].as_u64() >= Some(1), "{report:#}");
    live::pipeline::term(running);
    let status = pipeline.status();
    assert_eq!(status["epoch"], 1, "nothing was fenced");

    let folder = pipeline.store().join("store-check/lane-0/journal");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).expect("lists").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    let mut bytes = std::fs::read(&names[1]).expect("reads");
    bytes[20] ^= 1;
    std::fs::write(&names[1], bytes).expect("writes");
    let report = pipeline.tool(&["store", "check"], &["--json"], 4);
    let finding = &report["lanes"][0]["findings"][0];
    assert_eq!(finding["object"], "store-check/lane-0/journal/00000000000000000001", "{report:#}");
}
