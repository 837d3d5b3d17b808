//! Rows that the server turns down, and tables that change under a running program.
//!
//! A bad row costs nobody but itself: the rows around it arrive once, and its dead letter is the record that was sent.

use std::path::Path;
use std::time::Duration;

use live::case::PARTITIONS;
use live::{Accounts, Case, Pipeline, Table};
use serde_json::{Value, json};
use sources::kafka::produce::Outgoing;
use testkit::{Fault, FaultProxy, Rule, wait_until};

/// Inserts into a case's own table, not into its dead letters.
const INSERT: &str = "FORMAT Native";

/// A record as it is sent: the body of row `id`, spelled as no JSON writer would.
fn body(id: u64, v: i64) -> String {
    format!("{{ \"v\":{v},\"id\" : {id} }}")
}

/// Sends `count` rows in turn over the partitions, each with key and headers; `bad` ones with a negative value.
fn send(case: &Case, ids: std::ops::Range<u64>, bad: &[u64]) {
    let feed = case.feed();
    for id in ids {
        let (key, body) = (format!("key {id}"), body(id, if bad.contains(&id) { -1 } else { 1 }));
        feed.put(&Outgoing {
            partition: Some((id % u64::from(PARTITIONS)) as u32),
            key: Some(key.as_bytes()),
            payload: Some(body.as_bytes()),
            time_ms: Some(1_750_000_000_000 + id as i64),
            headers: &[("sender", Some(b"a test")), ("id", Some(id.to_string().as_bytes()))],
            ..Outgoing::default()
        });
    }
    feed.flush();
}

/// The dead letters of `bad` are the records themselves, and there are no others.
#[track_caller]
fn assert_letters(case: &Case, letters: &Table, bad: &[u64]) {
    let found = letters.rows(
        "SELECT source, partition, position, toUnixTimestamp64Milli(assumeNotNull(record_time)) AS time, key, headers, reason, raw \
         FROM {t} ORDER BY time",
    );
    let of_table = format!("default.{}", letters.name().trim_end_matches("_rejected"));
    let expected: Vec<Value> = bad
        .iter()
        .map(|id| {
            json!({
                "source": case.name(),
                "partition": id % u64::from(PARTITIONS),
                "position": (id / u64::from(PARTITIONS)).to_string(),
                "time": (1_750_000_000_000 + id).to_string(),
                "key": format!("key {id}"),
                "headers": { "sender": "a test", "id": id.to_string(), "forebay.table": of_table },
                "reason": "refused",
                "raw": body(*id, -1),
            })
        })
        .collect();
    assert_eq!(found, expected);
}

fn without(ids: std::ops::Range<u64>, bad: &[u64]) -> Vec<String> {
    let mut ids: Vec<String> = ids.filter(|id| !bad.contains(id)).map(|id| id.to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn bad_rows_among_thousands_are_dead_letters_with_place_key_headers_and_bytes() {
    let bad = [5, 617, 618, 1_500, 2_999];
    // As they came, and in an order of the table's: the row's place in the insert is not the record's in the topic.
    for (name, sort, partition_by) in
        [("refused_plain", false, ""), ("refused_sorted", true, "PARTITION BY id % 3")]
    {
        let Some(case) = Case::begin(name) else { return };
        let table = Table::at(&case.server().url(), name);
        table.ask(&format!(
            "CREATE TABLE {{t}} (id UInt64, v Int32, _forebay UUID, CONSTRAINT positive CHECK v > 0) ENGINE = MergeTree \
             {partition_by} ORDER BY (cityHash64(id), id) SETTINGS non_replicated_deduplication_window = 10000"
        ));
        if sort {
            table.ask("DROP TABLE {t} SYNC");
            table.ask(&format!(
                "CREATE TABLE {{t}} (id UInt64, v Int32, _forebay UUID, CONSTRAINT positive CHECK v > 0) ENGINE = MergeTree \
                 {partition_by} ORDER BY (v, id) SETTINGS non_replicated_deduplication_window = 10000"
            ));
        }
        send(&case, 0..3_000, &bad);
        let pipeline = case
            .pipeline()
            .dedup("id", None)
            .sink(&format!("sort: {sort}"))
            .batch("{ rows: 100000, age: 1s }");
        pipeline.drain();
        assert_eq!(table.column("toString(id)"), without(0..3_000, &bad));
        let letters = table.dead_letters();
        assert_letters(&case, &letters, &bad);
        let words = letters.column("message");
        assert!(words.iter().all(|words| words.contains("positive")), "{words:?}");
        let accounts = Accounts { read: 3_000, written: 2_995, dead_letters: 5, ..Accounts::default() };
        assert_eq!(pipeline.accounts(), accounts);
        // What was refused does not suppress its corrected copy; what was written does.
        let feed = case.feed();
        for id in [617, 616] {
            feed.put(&Outgoing {
                partition: Some(0),
                payload: Some(body(id, 7).as_bytes()),
                time_ms: Some(1_750_000_000_000 + id as i64),
                ..Outgoing::default()
            });
        }
        feed.flush();
        pipeline.drain();
        assert_eq!(table.value("SELECT groupArray(id) FROM {t} WHERE v = 7"), "[617]");
    }
}

#[test]
fn a_copy_that_was_dropped_for_a_refused_row_is_named_in_its_dead_letter() {
    let Some(case) = Case::begin("refused_copies") else { return };
    let feed = case.feed();
    feed.send([body(1, 1), body(2, -1), body(2, 5), body(3, 1), body(2, 6)]);
    let table = case.table("id UInt64, v Int32, CONSTRAINT positive CHECK v > 0", "id");
    let pipeline = case.pipeline().dedup("id", None).batch("{ rows: 100000, age: 1s }");
    pipeline.drain();
    let letters = table.dead_letters();
    let words = letters.value("SELECT message FROM {t}");
    assert!(words.contains("dropped as its duplicates: `2`"), "{words}");
    assert!(
        words.contains("`refused_copies/0` at `2`") && words.contains("`refused_copies/0` at `4`"),
        "{words}"
    );
    assert_eq!(table.column("id"), ["1", "3"]);
    let accounts = Accounts { read: 5, written: 2, duplicates: 2, dead_letters: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn values_too_long_for_the_server_are_dead_letters() {
    let Some(case) = Case::begin("refused_long") else { return };
    case.feed().send((0..500).map(|id| {
        json!({ "id": id, "code": if id % 200 == 123 { "four plus" } else { "four" } }).to_string()
    }));
    // The column is sent as it is; the server's own copy of it has no room.
    let table = case.table("id UInt32, code String, short FixedString(4) MATERIALIZED code", "id");
    let pipeline = case.pipeline();
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (498, 498));
    let letters = table.dead_letters();
    assert_eq!(
        letters.rows("SELECT position, reason, JSONExtractUInt(raw, 'id') AS id FROM {t} ORDER BY position"),
        [
            json!({ "position": "123", "reason": "refused", "id": "123" }),
            json!({ "position": "323", "reason": "refused", "id": "323" }),
        ]
    );
    assert_eq!(
        pipeline.accounts(),
        Accounts { read: 500, written: 498, dead_letters: 2, ..Accounts::default() }
    );
}

#[test]
fn a_batch_over_more_partitions_than_an_insert_may_touch_is_no_refusal() {
    let Some(case) = Case::begin("refused_partitions") else { return };
    case.feed().send((0..400).map(|id| json!({ "id": id }).to_string()));
    let table = Table::at(&case.server().url(), case.name());
    table.ask(
        "CREATE TABLE {t} (id UInt32, _forebay UUID) ENGINE = MergeTree PARTITION BY id % 200 ORDER BY id \
         SETTINGS non_replicated_deduplication_window = 10000",
    );
    // 200 partitions in one batch: ClickHouse takes 100 an insert (252), so each insert touches one.
    let pipeline = case.pipeline().batch("{ rows: 100000, age: 1s }");
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (400, 400));
    assert_eq!(table.value("SELECT uniqExact(_partition_id) FROM {t}"), "200");
    assert_eq!(pipeline.accounts(), Accounts { read: 400, written: 400, ..Accounts::default() });
    assert_eq!(table.dead_letters().count(), 0);
}

/// What the running program says is wrong with its table.
fn problem(pipeline: &Pipeline) -> String {
    let status = pipeline.live().unwrap_or_default();
    let tables = status["tables"].as_object().cloned().unwrap_or_default();
    tables.values().filter_map(|table| table["problem"].as_str()).collect()
}

#[test]
fn a_column_dropped_under_a_running_program_holds_the_rows_until_it_is_back() {
    let Some(case) = Case::begin("refused_dropped") else { return };
    let table = case.table("id UInt32, v Int32, extra String", "id");
    let feed = case.feed();
    let row = |id: u32| json!({ "id": id, "v": 1, "extra": format!("e{id}") }).to_string();
    feed.send((0..10).map(row));
    let pipeline = case.pipeline().dedup("id", None);
    let running = pipeline.run();
    table.wait_for(10);
    table.ask("ALTER TABLE {t} DROP COLUMN extra");
    feed.send((10..1_000).map(row));
    wait_until(live::PATIENCE, "the program to say what is wrong", || problem(&pipeline).contains("column"));
    assert_eq!(table.count(), 10, "nothing is written without the column");
    table.ask("ALTER TABLE {t} ADD COLUMN extra String AFTER v");
    table.wait_for(1_000);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (1_000, 1_000));
    assert_eq!(table.value("SELECT count() FROM {t} WHERE extra = concat('e', toString(id))"), "990");
    assert_eq!(table.dead_letters().count(), 0, "a table that has changed is no fault of the rows");
    assert_eq!(pipeline.accounts(), Accounts { read: 1_000, written: 1_000, ..Accounts::default() });
}

#[test]
fn a_type_changed_under_a_running_program_changes_no_value_and_holds_the_rows() {
    let Some(case) = Case::begin("refused_type") else { return };
    let table = case.table("id UInt32, v Int64", "id");
    let feed = case.feed();
    let big = 1_i64 << 40;
    feed.send((0..10).map(|id| json!({ "id": id, "v": 5 }).to_string()));
    let pipeline = case.pipeline().dedup("id", None);
    let running = pipeline.run();
    table.wait_for(10);
    // 2^40 does not fit any more: a server that converts would write 0.
    table.ask("ALTER TABLE {t} MODIFY COLUMN v Int32");
    feed.send((10..1_000).map(|id| json!({ "id": id, "v": big }).to_string()));
    wait_until(live::PATIENCE, "the program to say what is wrong", || {
        problem(&pipeline).contains("column `v` has changed")
    });
    assert_eq!(table.count(), 10, "nothing is written in another type");
    table.ask("ALTER TABLE {t} MODIFY COLUMN v Int64");
    table.wait_for(1_000);
    live::pipeline::term(running);
    assert_eq!(table.value(&format!("SELECT countIf(v = {big}), count() FROM {{t}}")), "990\t1000");
    assert_eq!(table.dead_letters().count(), 0, "a table that has changed is no fault of the rows");
}

#[test]
fn a_column_dropped_for_good_stops_the_next_start_with_the_question_and_loses_nothing() {
    let Some(case) = Case::begin("refused_gone") else { return };
    let table = case.table("id UInt32, v Int32, extra String", "id");
    let feed = case.feed();
    let row = |id: u32| json!({ "id": id, "v": 1, "extra": "e" }).to_string();
    feed.send((0..10).map(row));
    let pipeline = case.pipeline();
    let mut running = pipeline.run();
    table.wait_for(10);
    table.ask("ALTER TABLE {t} DROP COLUMN extra");
    feed.send((10..100).map(row));
    wait_until(live::PATIENCE, "the rows to be sealed", || pipeline.accounts().read == 100);
    running.kill9().expect("a kill");
    // Read without the column they would get its DEFAULT.
    feed.send((100..200).map(row));
    // The sealed rows have a value for a column that is gone: that is not for the program to throw away.
    let (exit, log) = live::pipeline::ended(pipeline.run());
    assert!(!exit.status.success(), "{log}");
    assert!(log.contains("other columns"), "{log}");
    assert_eq!((table.count(), pipeline.accounts().read), (10, 100), "nothing more was sealed");
    // The way out that the log names.
    table.ask(&statement(&log));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(table.value("SELECT countIf(extra = 'e') FROM {t}"), "190");
    assert_eq!(table.dead_letters().count(), 0);
}

#[test]
fn a_column_that_no_row_has_a_value_for_comes_and_goes_and_only_values_wait() {
    let Some(case) = Case::begin("refused_come_and_go") else { return };
    let table = case.table("id UInt32, v Int32", "id");
    let feed = case.feed();
    let pipeline = case.pipeline().batch("{ rows: 100, age: 100ms }");
    let mut running = pipeline.run();
    let mut sent = 0;
    let mut send = |rows: u32, more: &Value| {
        feed.send((sent..sent + rows).map(|id| {
            let mut row = json!({ "id": id, "v": 1 });
            row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            row.to_string()
        }));
        sent += rows;
        sent.into()
    };
    let none = json!({});
    table.wait_for(send(10, &none));
    let place = format!("default.{}", case.name());
    for (added, value) in
        [("x String DEFAULT 'none'", json!("7")), ("x Nullable(Int64)", json!(7)), ("x Int64", json!(7))]
    {
        table.ask(&format!("ALTER TABLE {{t}} ADD COLUMN {added}"));
        // From some seal on, at the latest the next look away.
        wait_until(live::PATIENCE, "the new column to be read", || {
            table.wait_for(send(10, &json!({ "x": value })));
            table.value("SELECT countIf(toString(x) = '7') FROM {t}") != "0"
        });
        table.ask("ALTER TABLE {t} DROP COLUMN x");
        table.wait_for(send(300, &none));
        // A value is not thrown away.
        let all = send(10, &json!({ "x": value }));
        let done = follow(&pipeline, &table, &place, all);
        assert_eq!(done.len(), 1, "{added}: {done:?}");
        assert_eq!(table.value("SELECT countIf(toString(x) = '7') FROM {t}"), "10", "{added}");
        // For good, and another one comes: that is read once the pipeline has been started again, as the log says.
        table.ask("ALTER TABLE {t} DROP COLUMN x");
        table.ask("ALTER TABLE {t} ADD COLUMN z Nullable(Int64)");
        wait_until(live::PATIENCE, "the new column to be named", || {
            table.wait_for(send(10, &json!({ "z": 1 })));
            running.stderr().is_ok_and(|log| log.contains("new columns that are not read until"))
        });
        assert_eq!(table.value("SELECT count(z) FROM {t}"), "0", "{added}");
        live::pipeline::term(running);
        running = pipeline.run();
        table.wait_for(send(10, &json!({ "z": 1 })));
        assert_eq!(table.value("SELECT count(z) FROM {t}"), "10", "{added}");
        live::pipeline::term(running);
        table.ask("ALTER TABLE {t} DROP COLUMN z");
        running = pipeline.run();
        table.wait_for(send(10, &none));
    }
    live::pipeline::term(running);
    let all = send(0, &none);
    assert_eq!(table.count_and_distinct("id"), (all, all));
    assert_eq!(table.dead_letters().count(), 0, "a table that has changed is no fault of the rows");
}

/// The statement that the words of a problem or a refusal name.
fn statement(words: &str) -> String {
    let begin = words.find("ALTER TABLE").expect("a statement");
    words[begin..].split(['\n', ';']).next().expect("a statement").trim().to_owned()
}

/// Does what the program says about its table until `rows` rows are there and it says nothing more, and gives the statements.
fn follow(pipeline: &Pipeline, table: &Table, place: &str, rows: u64) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    wait_until(live::PATIENCE, &format!("{rows} rows by what the program says"), || {
        let Some(status) = pipeline.live() else { return false };
        let problem =
            status["problems"].as_array().and_then(|all| all.iter().find(|one| one["place"] == place));
        let words = problem.and_then(|problem| problem["words"].as_str()).unwrap_or_default();
        // An insert that was under way meets the change first; the look behind it names the statement.
        let named = words.contains("ALTER TABLE").then(|| statement(words));
        // It is said until the next look, and each frame that waits says it.
        if let Some(named) = named.filter(|named| !done.contains(named)) {
            table.ask(&named);
            done.push(named);
        }
        problem.is_none() && table.count() >= rows
    });
    done
}

#[test]
fn every_alter_under_load_ends_with_every_row_right() {
    let Some(case) = Case::begin("refused_alters") else { return };
    let table = case.table(
        "id UInt32, v UInt16, s String, g Int8 DEFAULT 7, w Array(UInt16), m Map(String, UInt8)",
        "id",
    );
    let feed = case.feed();
    let row = |id: u32| {
        json!({
            "id": id, "v": id % 60_000, "s": format!("s{id}"), "g": 1, "d": id % 100, "e": "x", "w": [id % 60_000, 3],
            "m": { "k": id % 200 }
        })
        .to_string()
    };
    let pipeline = case.pipeline().dedup("id", None).batch("{ rows: 100, age: 100ms }");
    let running = pipeline.run();
    let mut sent = 0;
    let mut send = |rows: u32| {
        feed.send((sent..sent + rows).map(row));
        sent += rows;
        sent
    };
    let all = send(500);
    table.wait_for(all.into());
    // Nobody has to do anything about these.
    for alter in [
        "ADD COLUMN d UInt8 AFTER id",
        "ADD COLUMN e String DEFAULT 'none'",
        "MODIFY COLUMN v UInt32",
        "MODIFY COLUMN v Nullable(UInt64)",
        "ADD COLUMN f Nullable(Int64), MODIFY COLUMN s Nullable(String)",
        "MODIFY COLUMN e DEFAULT 'nothing'",
        "ADD COLUMN h Int256",
        "MODIFY COLUMN w Array(UInt64), MODIFY COLUMN m Map(String, UInt32)",
        // Narrower, and every value fits.
        "MODIFY COLUMN v Nullable(UInt32)",
    ] {
        send(300);
        table.ask(&format!("ALTER TABLE {{t}} {alter}"));
        let all = send(300);
        table.wait_for(all.into());
    }
    let wrong = "countIf(v != id % 60000), countIf(s != concat('s', toString(id))), countIf(w != [id % 60000, 3] OR m['k'] != id % 200)";
    assert_eq!(table.value(&format!("SELECT {wrong} FROM {{t}}")), "0\t0\t0");
    // They are read with the new columns from some seal on, which is at the latest the next look away.
    wait_until(live::PATIENCE, "the new columns to be read", || {
        let all = send(10);
        table.wait_for(all.into());
        table.value("SELECT max(e = 'x' AND d = id % 100) FROM {t}") == "1"
    });
    // These wait, and say what lets them go on, one thing after the other: where the lane was opened for a column that goes again behind
    // the repair (`renamed`), that one is asked for too.
    let place = format!("default.{}", case.name());
    for alter in [
        "DROP COLUMN g",
        "RENAME COLUMN g TO renamed",
        "MODIFY COLUMN v Nullable(UInt8)",
        "DROP COLUMN g, MODIFY COLUMN v Nullable(UInt8)",
        // The column is there, and no insert may name it, or nothing can write its type.
        "MODIFY COLUMN g Int8 MATERIALIZED 3",
        "MODIFY COLUMN g Int8 ALIAS 3",
        "MODIFY COLUMN d Variant(UInt8, String)",
        "MODIFY COLUMN d UInt8 MATERIALIZED 3",
    ] {
        table.ask(&format!("ALTER TABLE {{t}} {alter}"));
        let first = send(300) - 300;
        let all = send(300);
        let done = follow(&pipeline, &table, &place, all.into());
        assert!(!done.is_empty(), "rows were written after {alter}, and nothing was to be done");
        assert_eq!(
            table.value(&format!("SELECT countIf(g != 1) FROM {{t}} WHERE id >= {first}")),
            "0",
            "{alter}"
        );
        assert_eq!(
            table.value(&format!("SELECT countIf(v != id % 60000) FROM {{t}} WHERE id >= {first}")),
            "0",
            "{alter}"
        );
        assert_eq!(
            table.value(&format!("SELECT countIf(d != id % 100) FROM {{t}} WHERE id >= {first}")),
            "0",
            "{alter}"
        );
        if alter.starts_with("RENAME") {
            table.ask("ALTER TABLE {t} DROP COLUMN renamed");
        }
    }
    live::pipeline::term(running);
    let all = u64::from(send(0));
    assert_eq!(table.count_and_distinct("id"), (all, all));
    assert_eq!(table.dead_letters().count(), 0, "no row is at fault");
    assert_eq!(pipeline.accounts(), Accounts { read: all, written: all, ..Accounts::default() });
}

/// How many splits a store holds.
fn splits(store: &Path) -> usize {
    let mut found = 0;
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.components().any(|part| part.as_os_str() == "splits") {
                found += 1;
            }
        }
    }
    found
}

#[test]
fn a_kill_between_split_and_settle_loses_and_doubles_nothing() {
    let bad = [5, 617, 1_500];
    let Some(case) = Case::begin("refused_killed") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    // Of a constraint the server would name the rows, and one split would part them all.
    let table = case.table("id UInt64, v Int32, w UInt8 MATERIALIZED throwIf(v <= 0)", "id");
    send(&case, 0..2_000, &bad);
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url()).batch("{ rows: 100000, age: 1s }");
    // Slow answers, so that the kills land between the pieces; and some are lost altogether.
    proxy.add(Rule::next(1, Fault::SwallowAnswer).query(INSERT).skip(6));
    proxy.add(Rule::always(Fault::DelayAnswer(Duration::from_millis(100))).query(INSERT));
    for kill_at in [1, 3, 5, 8] {
        let mut running = pipeline.run();
        wait_until(live::PATIENCE, "the frame to be split so far", || splits(&pipeline.store()) >= kill_at);
        running.kill9().expect("a kill");
    }
    proxy.clear();
    pipeline.drain();
    assert_eq!(table.column("toString(id)"), without(0..2_000, &bad));
    assert_letters(&case, &table.dead_letters(), &bad);
    let accounts = Accounts { read: 2_000, written: 1_997, dead_letters: 3, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}
