//! Faults that were found in other programs, by their numbers: the small ones.

use live::{Accounts, Case};
use serde_json::json;

#[test]
fn fault_03_one_refused_row_is_the_only_dead_letter_and_its_key_is_forgotten() {
    let Some(case) = Case::begin("fault_03") else { return };
    let feed = case.feed();
    // A frame whose row was refused is made again from its rows, whatever their types.
    let others = "a Array(UInt8), b Map(String, Array(UInt16)), c Array(LowCardinality(String)), d Array(Nullable(UInt8))";
    let table = case.table(&format!("id UInt32, v Int32, {others}, CONSTRAINT positive CHECK v > 0"), "id");
    let letters = table.dead_letters();
    let pipeline = case.pipeline().dedup("id", None);
    // GlassFlow's tenth scenario asserts that the whole batch is lost; here one row is.
    let row = |id: u32, v: i32| {
        json!({ "id": id, "v": v, "a": [id % 200, 7], "b": { "k": [id] }, "c": [format!("c{id}")], "d": [null, 1] }).to_string()
    };
    feed.send((0..1_000).map(|id| row(id, if id == 617 { -5 } else { 5 })));
    let running = pipeline.run();
    table.wait_for(999);
    letters.wait_for(1);
    let letter = &letters.rows("SELECT reason, message, raw FROM {t}")[0];
    assert_eq!(letter["reason"], "refused");
    assert!(letter["message"].as_str().expect("words").contains("positive"), "{letter}");
    let raw: serde_json::Value = serde_json::from_str(letter["raw"].as_str().expect("text")).expect("JSON");
    assert_eq!((&raw["id"], &raw["v"]), (&json!(617), &json!(-5)));

    feed.send([row(617, 6), row(616, 6)]);
    table.wait_for(1_000);
    live::pipeline::term(running);
    let wrong = "a != [id % 200, 7] OR b['k'] != [id] OR c != [concat('c', toString(id))] OR toString(d) != '[NULL,1]'";
    assert_eq!(table.value(&format!("SELECT countIf({wrong}) FROM {{t}}")), "0");
    assert_eq!(table.count_and_distinct("id"), (1_000, 1_000));
    assert_eq!(table.value("SELECT groupArray((id, v)) FROM {t} WHERE v != 5"), "[(617,6)]");
    assert_eq!(letters.count(), 1);
    let accounts =
        Accounts { read: 1_002, written: 1_000, duplicates: 1, dead_letters: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_04_ids_above_2_to_the_53_stay_distinct_and_exact() {
    let Some(case) = Case::begin("fault_04") else { return };
    let first = (1_u64 << 53) - 2;
    let ids: Vec<u64> = (first..first + 6).chain([u64::MAX - 2, u64::MAX - 1, u64::MAX]).collect();
    let feed = case.feed();
    feed.send(ids.iter().map(|id| format!(r#"{{"id":{id},"signed":-{}}}"#, id >> 1)));
    feed.send(ids.iter().map(|id| format!(r#"{{"id":{id},"signed":0}}"#)));
    let table = case.table("id UInt64, signed Int64", "id");
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    let wanted: Vec<String> = ids.iter().map(u64::to_string).collect();
    assert_eq!(table.column("id"), wanted);
    let signed: Vec<String> = ids.iter().rev().map(|id| format!("-{}", id >> 1)).collect();
    let found = table.value("SELECT arrayStringConcat(groupArray(toString(signed)), ',') FROM (SELECT signed FROM {t} ORDER BY id DESC)");
    assert_eq!(found, signed.join(","));
    assert_eq!(pipeline.accounts().duplicates, 9);
}

#[test]
fn fault_06_missing_and_null_are_null_or_the_default_or_a_reject_but_never_a_silent_zero() {
    let Some(case) = Case::begin("fault_06") else { return };
    case.feed().send([
        r#"{"id":1,"optional":5,"defaulted":6,"needed":7}"#,
        r#"{"id":2,"needed":7}"#,
        r#"{"id":3,"optional":null,"defaulted":null,"needed":7}"#,
        r#"{"id":4,"optional":5,"defaulted":6}"#,
        r#"{"id":5,"optional":5,"defaulted":6,"needed":null}"#,
        r#"{"id":6,"optional":0,"defaulted":0,"needed":0}"#,
    ]);
    let columns = "id UInt8, optional Nullable(Int32), defaulted Int32 DEFAULT 42, needed Int32";
    let table = case.table(columns, "id");
    let pipeline = case.pipeline();
    pipeline.drain();
    assert_eq!(
        table.column("(id, optional, defaulted, needed)"),
        ["(1,5,6,7)", "(2,NULL,42,7)", "(3,NULL,42,7)", "(6,0,0,0)"]
    );
    assert_eq!(
        table.dead_letters().rows("SELECT position, reason, column FROM {t} ORDER BY position"),
        [
            json!({ "position": "3", "reason": "missing", "column": "needed" }),
            json!({ "position": "4", "reason": "missing", "column": "needed" }),
        ]
    );
    assert_eq!(pipeline.accounts(), Accounts { read: 6, written: 4, dead_letters: 2, ..Accounts::default() });
}

#[test]
fn fault_07_a_record_that_failed_does_not_suppress_a_later_one_of_its_id() {
    let Some(case) = Case::begin("fault_07") else { return };
    case.feed().send([
        r#"{"id":1,"v":"not a number"}"#,
        r#"{"id":2,"v":1000}"#,
        r#"{"id":3}"#,
        r#"{"id":1,"v":10}"#,
        r#"{"id":2,"v":20}"#,
        r#"{"id":3,"v":30}"#,
        r#"{"id":3,"v":31}"#,
    ]);
    let table = case.table("id UInt8, v UInt8", "id");
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    assert_eq!(table.column("(id, v)"), ["(1,10)", "(2,20)", "(3,30)"]);
    let accounts = Accounts { read: 7, written: 3, dead_letters: 3, duplicates: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_07_a_record_that_was_filtered_out_does_not_suppress_a_later_one_of_its_id() {
    let Some(case) = Case::begin("fault_07_filter") else { return };
    let record = |id: u8, v: u8| json!({ "id": id, "v": v }).to_string();
    case.feed().send([record(1, 5), record(2, 50), record(1, 10), record(1, 11), record(3, 1)]);
    let table = case.table("id UInt8, v UInt8", "id");
    let pipeline = case.pipeline().step("filter: v >= 10").dedup("id", None);
    pipeline.drain();
    // From the state that another process has left, too.
    case.feed().send([record(3, 2), record(3, 30), record(2, 51), record(2, 1)]);
    pipeline.drain();
    assert_eq!(table.column("(id, v)"), ["(1,10)", "(2,50)", "(3,30)"]);
    let accounts = Accounts { read: 9, written: 3, duplicates: 2, filtered: 4, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_08_two_duplicates_in_one_batch_leave_one_row() {
    let Some(case) = Case::begin("fault_08") else { return };
    // All of them are one record block, one batch and one insert.
    case.feed().send((0..300).map(|n| json!({ "id": n % 100, "copy": n / 100 }).to_string()));
    let table = case.table("id UInt8, copy UInt8", "id");
    let pipeline = case.pipeline().dedup("id", None).batch("{ rows: 100000, age: 10m }");
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (100, 100));
    assert_eq!(table.value("SELECT max(copy) FROM {t}"), "0");
    assert_eq!(pipeline.accounts().duplicates, 200);
    let frames = &pipeline.status()["tables"][0]["frames_sealed"];
    assert_eq!(frames, &json!(1), "they were to be one batch");
}

/// What a pipeline takes as one record unless told otherwise (`record_bytes_max`).
const RECORD_BYTES_MAX: usize = 16 << 20;

/// A record of exactly so many bytes.
fn record_of(id: u32, bytes: usize) -> String {
    let (head, tail) = (format!(r#"{{"id":{id},"wide":""#), r#""}"#);
    let wide = "0123456789abcdef".repeat(bytes / 16 + 1);
    format!("{head}{}{tail}", &wide[..bytes - head.len() - tail.len()])
}

#[test]
fn fault_17_the_largest_records_in_the_largest_batches_within_the_least_memory_arrive() {
    let Some(case) = Case::begin("fault_17") else { return };
    let table = case.table("id UInt32, wide String", "id");
    let feed = case.feed();
    let largest = 5_u32;
    for id in 0..largest {
        feed.send_to(id % 3, [record_of(2 * id, RECORD_BYTES_MAX)]);
        feed.send_to(id % 3, [record_of(2 * id + 1, 100)]);
    }
    feed.send([record_of(1_000, RECORD_BYTES_MAX + 1)]);
    // Every size at the bound that the reference names, and the largest batch that goes with the least memory and spool: one record
    // fills it.
    let pipeline = case
        .pipeline()
        .dedup("id", None)
        .batch("{ rows: 10000000, bytes: 16MiB, age: 10m }")
        .more("memory: 256MiB")
        .more("spool: { bytes: 16MiB }");
    // A consumer that crashes over a size would crash again over what it left behind.
    let mut running = pipeline.run();
    pipeline.wait_for_live("something to be sealed", |status| status["sealed"]["read"].as_u64() > Some(0));
    running.kill9().expect("a kill");
    pipeline.drain();
    pipeline.drain();
    let rows = 2 * u64::from(largest);
    assert_eq!(table.count_and_distinct("id"), (rows, rows));
    let sizes =
        format!("SELECT countIf(length(wide) > {}), min(length(wide)) FROM {{t}}", RECORD_BYTES_MAX - 100);
    assert_eq!(table.value(&sizes), format!("{largest}\t{}", 100 - r#"{"id":1,"wide":""}"#.len()));
    let letters = table.dead_letters();
    assert_eq!(
        letters.rows("SELECT reason, toUInt32(length(raw)) AS bytes FROM {t}"),
        [json!({ "reason": "too_large", "bytes": RECORD_BYTES_MAX + 1 })]
    );
    let accounts = Accounts { read: rows + 1, written: rows, dead_letters: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_25_the_tail_of_a_quiet_topic_is_flushed_by_age() {
    let Some(case) = Case::begin("fault_25") else { return };
    let feed = case.feed();
    let table = case.table("id UInt8", "id");
    feed.send([r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#]);
    let pipeline = case.pipeline().batch("{ rows: 1000000, bytes: 64MiB, age: 300ms }");
    let running = pipeline.run();
    // Nothing else comes, and nobody stops it.
    table.wait_for(3);
    feed.send_to(2, [r#"{"id":4}"#]);
    table.wait_for(4);
    live::pipeline::term(running);
    assert_eq!(table.count(), 4);
}
