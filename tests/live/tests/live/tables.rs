//! Several tables in one pipeline, made by it: what a topic says of its records reaches them, and one that is away holds up no other.

use std::collections::BTreeMap;

use live::pipeline::term;
use live::{Case, Feed, Pipeline, Table};
use serde_json::{Value, json};
use sources::kafka::produce::Outgoing;
use testkit::wait_until;

/// The records' time, in milliseconds; each record is a second later.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// Columns under names of their own, of all that the topic says of a record.
const EVEN: &str = "{ clickhouse: { table: tables_even, create: { order_by: id, columns: { id: UInt32, key: Nullable(String), \
    headers: 'Map(String, String)', topic: LowCardinality(String), partition: UInt32, position: UInt64, \
    at: \"Nullable(DateTime64(3, 'UTC'))\" } } }, columns: { key: _key, headers: _headers, topic: _topic, \
    partition: _partition, position: _position, at: _timestamp }, where: id % 2 = 0 }";
const ODD: &str = "{ clickhouse: { table: tables_odd, create: { order_by: id, columns: { id: UInt32, n: UInt8 } } }, where: id % 2 = 1 }";
const KINDS: &str = "{ clickhouse: { table: 'tables_{kind}', create: { order_by: id, columns: { id: UInt32, kind: String } } }, \
    by: { column: kind, values: [page, click] } }";

/// Sends the records of these ids, and remembers how the table of the even ones should show them.
fn send(feed: &Feed, ids: std::ops::Range<u32>, sent: &mut [u64; 3], expected: &mut Vec<Value>) {
    for id in ids {
        let partition = id % 3;
        let (key, at) = (format!("key {id}"), BEGIN_MS + i64::from(id) * 1_000);
        let number = id.to_string();
        let headers = [("trace", Some(number.as_bytes())), ("origin", Some(&b"a b"[..]))];
        let body = body(id, ["page", "click", "other"][id as usize % 3], 7);
        feed.put(&Outgoing {
            partition: Some(partition),
            payload: Some(body.as_bytes()),
            key: (id % 4 == 0).then_some(key.as_bytes()),
            headers: &headers,
            time_ms: Some(at),
            ..Outgoing::default()
        });
        if id % 2 == 0 {
            expected.push(json!({
                "id": id, "key": (id % 4 == 0).then_some(key), "headers": { "trace": number, "origin": "a b" },
                "topic": "tables_away", "partition": partition, "position": sent[partition as usize], "at": at,
            }));
        }
        sent[partition as usize] += 1;
    }
    feed.flush();
}

fn body(id: u32, kind: &str, n: u32) -> String {
    format!(r#"{{"id":{id},"kind":"{kind}","n":{n}}}"#)
}

#[test]
fn a_table_that_is_away_holds_up_its_own_rows_alone_and_every_table_is_made() {
    let Some(case) = Case::begin("tables_away") else { return };
    let at = |name: &str| Table::at(&case.server().url(), name);
    let (even, odd, away) = (at("tables_even"), at("tables_odd"), at("tables_even_away"));
    let pipeline = case.pipeline().field("id: UInt32").field("kind: String").field("n: UInt32");
    let pipeline = pipeline.one_of(EVEN).one_of(ODD).one_of(KINDS);
    let feed = case.feed();
    let (mut sent, mut expected) = ([0; 3], Vec::new());
    send(&feed, 0..60, &mut sent, &mut expected);
    let running = pipeline.run();
    even.wait_for(30);
    odd.wait_for(30);

    even.ask("RENAME TABLE {t} TO tables_even_away");
    send(&feed, 60..300, &mut sent, &mut expected);
    odd.wait_for(150);
    pipeline.wait_for_problem("default.tables_even", "table_missing");
    // What is read behind that is written too, wherever it can be.
    send(&feed, 300..600, &mut sent, &mut expected);
    odd.wait_for(300);
    at("tables_page").wait_for(200);
    assert_eq!(away.count(), 30);
    assert!(pipeline.problem("default.tables_odd").is_none());
    away.ask("RENAME TABLE {t} TO tables_even");
    even.wait_for(300);
    wait_until(live::PATIENCE, "the problem to end", || pipeline.problem("default.tables_even").is_none());
    term(running);

    let rows = even.rows_plain(
        "SELECT id, key, headers, topic, partition, position, toUnixTimestamp64Milli(at) AS at FROM {t} ORDER BY id",
    );
    assert_eq!(rows, expected);
    for (table, rows) in [(&even, 300), (&odd, 300), (&at("tables_page"), 200), (&at("tables_click"), 200)] {
        assert_eq!(table.count_and_distinct("id"), (rows, rows), "{}", table.name());
    }
    // Each row of two kinds in three is in two tables.
    let records = pipeline.status()["records"].clone();
    assert_eq!(
        (&records["read"], &records["written"], &records["dead_letters"]),
        (&json!(600), &json!(1_000), &json!(0))
    );
    assert_eq!(pipeline.pending_frames(), 0);
}

#[test]
fn dead_letters_are_listed_and_replayed_by_the_table_that_did_not_take_the_row() {
    let Some(case) = Case::begin("tables_letters") else { return };
    let at = |name: &str| Table::at(&case.server().url(), name);
    let (large, small) = (
        case.table_called("letters_large", "id UInt32, n UInt32, CONSTRAINT odd CHECK id % 2 = 1", "id"),
        case.table_called("letters_small", "id UInt32, n UInt8, CONSTRAINT few CHECK id < 50", "id"),
    );
    let pipeline = case
        .pipeline()
        .field("id: UInt32")
        .field("n: UInt32")
        .one_of("{ clickhouse: { table: letters_large }, where: n >= 1000 }")
        .one_of("{ clickhouse: { table: letters_small }, otherwise: true }");
    // Of 60 each: even ones are refused by one table; from 50 on by the other, to which also those do not fit that are 256 and more.
    case.feed().spread((0..60).map(|id| body(id, "large", 1_000)));
    case.feed().spread((0..60).map(|id| body(id, "small", if id % 6 == 0 { 300 } else { 1 })));
    case.feed().spread(["no JSON"]);
    pipeline.drain();
    let letters = at("tables_letters_rejected");
    let by_table = || -> BTreeMap<String, u64> {
        let rows = letters.rows_plain(
            "SELECT concat(reason, ' ', headers['forebay.table']) AS what, count() AS n FROM {t} GROUP BY what",
        );
        rows.iter()
            .map(|row| (row["what"].as_str().unwrap_or("?").to_owned(), row["n"].as_u64().unwrap_or(0)))
            .collect()
    };
    let expected = [
        ("malformed ", 1),
        ("out_of_range letters_small", 10),
        // Without 54, which does not fit.
        ("refused default.letters_small", 9),
        ("refused default.letters_large", 30),
    ];
    assert_eq!(by_table(), expected.map(|(what, n)| (what.to_owned(), n)).into());

    let count = |options: &[&str]| {
        let listed = pipeline.dead_letters("list", options).success().expect("a list").stdout;
        listed.lines().count()
    };
    assert_eq!(count(&["--json"]), 50);
    assert_eq!(count(&["--json", "--table", "letters_small"]), 19);
    assert_eq!(count(&["--json", "--table", "default.letters_large", "--reason", "refused"]), 30);
    assert_eq!(count(&["--json", "--table", "letters_other"]), 0);

    // One of them is mended, and its letters alone are replayed.
    small.ask("ALTER TABLE {t} DROP CONSTRAINT few");
    let options = ["--table", "letters_small", "--reason", "refused", "--json"];
    let replayed = pipeline.dead_letters("replay", &options).success().expect("a replay").stdout;
    assert_eq!(replayed.matches("\"written\"").count(), 9, "{replayed}");
    assert_eq!(small.count_and_distinct("id"), (50, 50));
    // What fails again is of the table that refuses it now, and of no other.
    large.ask("ALTER TABLE {t} DROP CONSTRAINT odd");
    large.ask("ALTER TABLE {t} ADD CONSTRAINT even CHECK id % 4 = 0");
    let replayed = pipeline.dead_letters("replay", &["--table", "letters_large", "--json"]).stdout;
    assert_eq!(replayed.matches("\"written\"").count(), 15, "{replayed}");
    let again = "SELECT count(), uniqExact(headers['forebay.table']) FROM {t} WHERE source = '@replays'";
    assert_eq!(letters.value(again), "15\t1");
    assert_eq!(large.count_and_distinct("id"), (45, 45));
}

/// An EPHEMERAL column takes a field for the DEFAULTs that read it, and a DEFAULT that reads what no insert has is left to the server, also
/// where the pipeline has a field of its name.
#[test]
fn columns_that_are_not_kept_are_filled_by_name_and_defaults_of_computed_ones_are_the_servers() {
    let Some(case) = Case::begin("tables_computed") else { return };
    let columns = "id UInt32, raw String EPHEMERAL, digest UInt64 DEFAULT length(raw), twice UInt64 ALIAS id * 2, \
                   next UInt64 MATERIALIZED id + 1, x UInt64 DEFAULT twice + 1, y UInt64 DEFAULT x + id + 1";
    let table = case.table(columns, "id");
    let record = |id: usize| match id % 3 {
        0 => format!(r#"{{"id":{id},"x":7}}"#),
        1 => format!(r#"{{"id":{id},"text":null}}"#),
        _ => format!(r#"{{"id":{id},"text":"{}"}}"#, "t".repeat(id)),
    };
    case.feed().spread((0..60).map(record));
    let pipeline = case.pipeline().more("columns: { raw: text }").batch("{ rows: 20, age: 100ms }");
    let seen = pipeline.run_tool(&["check"], &["--connect"]).success().expect("nothing to refuse");
    let seen = seen.stdout + &seen.stderr;
    for (column, read, kind) in [("x", "twice", "ALIAS"), ("y", "x", "left to the server")] {
        let what = format!("column `{column}` has the DEFAULT");
        let line =
            seen.lines().find(|line| line.contains(&what)).unwrap_or_else(|| panic!("{column}: {seen}"));
        assert!(line.contains(&format!("reads `{read}`, and that is {kind}: the server computes")), "{line}");
    }
    pipeline.drain();
    let rows = table.rows(
        "SELECT id, toUInt32(digest) AS digest, toUInt32(x) AS x, toUInt32(y) AS y FROM {t} ORDER BY id",
    );
    assert_eq!(rows.len(), 60);
    for (id, row) in rows.iter().enumerate() {
        let digest = if id % 3 == 2 { id } else { 0 };
        assert_eq!(*row, json!({ "id": id, "digest": digest, "x": id * 2 + 1, "y": id * 3 + 2 }));
    }

    // The way that the note names, and records without the field.
    let columns = "id UInt32, twice UInt64 ALIAS id * 2, x UInt64 DEFAULT twice + 1";
    let sent = case.table_called("tables_computed_sent", columns, "id");
    Pipeline::new(&case, "tables_computed_sent").more("columns: { x: x }").drain();
    assert_eq!(sent.column("toString(x)"), vec!["7"; 20]);
    assert_eq!(sent.dead_letters().count(), 40);

    let why = "column `next` is MATERIALIZED: the server computes it; take it out of `columns`";
    case.pipeline().more("columns: { next: id }").tool_fails(&["check"], &["--connect"], 4, why);
}
