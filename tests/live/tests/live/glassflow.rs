//! What GlassFlow's own scenarios assert, by their numbers. The ninth and the tenth are inverted, and stand in `outages`
//! and `faults`; the third and the eighth in `topics` and `stopping`.

use std::time::Duration;

use live::{Accounts, Case};
use serde_json::json;

fn event(id: &str, name: &str) -> String {
    json!({ "event_id": id, "name": name }).to_string()
}

const EVENT: &str = "event_id String, name String";

#[test]
fn glassflow_01_four_events_with_one_repeated_are_three_rows_and_the_first_wins() {
    let Some(case) = Case::begin("glassflow_01_first") else { return };
    let events = [event("1", "first"), event("2", "b"), event("1", "second"), event("3", "c")];
    case.feed().send(&events);
    let table = case.table(EVENT, "event_id");
    let pipeline = case.pipeline().dedup("event_id", None);
    pipeline.drain();
    assert_eq!(table.column("event_id || '=' || name"), ["1=first", "2=b", "3=c"]);
    let accounts = Accounts { read: 4, written: 3, duplicates: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn glassflow_01_without_dedup_four_events_are_four_rows() {
    let Some(case) = Case::begin("glassflow_01_without") else { return };
    case.feed().send(["1", "2", "1", "3"].map(|id| event(id, "x")));
    let table = case.table(EVENT, "event_id");
    case.pipeline().drain();
    assert_eq!(table.column("event_id"), ["1", "1", "2", "3"]);
}

#[test]
fn glassflow_01_duplicates_are_dropped_within_and_across_batches_and_starts() {
    let Some(case) = Case::begin("glassflow_01_batches") else { return };
    let feed = case.feed();
    let table = case.table(EVENT, "event_id");
    // Two rows a batch, so that the repeated ids stand in batches of their own too.
    let pipeline = case.pipeline().dedup("event_id", None).batch("{ rows: 2, age: 100ms }");
    feed.send(["1", "1", "2", "2", "3"].map(|id| event(id, "x")));
    pipeline.drain();
    assert_eq!(table.column("event_id"), ["1", "2", "3"]);
    feed.send(["3", "4", "5"].map(|id| event(id, "x")));
    pipeline.drain();
    assert_eq!(table.column("event_id"), ["1", "2", "3", "4", "5"], "the state outlives the process");
    let accounts = Accounts { read: 8, written: 5, duplicates: 3, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn glassflow_01_one_id_in_three_partitions_is_one_row() {
    let Some(case) = Case::begin("glassflow_01_partitions") else { return };
    let feed = case.feed();
    for partition in 0..3 {
        feed.send_to(partition, ["1", "2", "3"].map(|id| event(id, "x")));
    }
    let table = case.table(EVENT, "event_id");
    let pipeline = case.pipeline().dedup("event_id", None);
    pipeline.drain();
    assert_eq!(table.column("event_id"), ["1", "2", "3"]);
    assert_eq!(pipeline.accounts().duplicates, 6);
}

#[test]
fn glassflow_02_a_record_that_is_not_of_the_schema_is_a_dead_letter_with_its_reason_and_lag_ends_at_0() {
    let Some(case) = Case::begin("glassflow_02") else { return };
    case.feed().send([
        r#"{"event_id":"1","n":1}"#,
        r#"{"event_id":"2","n":"many"}"#,
        r#"{"event_id":{"of":"what"},"n":3}"#,
        r#"{"event_id":"4","n":4}"#,
    ]);
    let table = case.table("event_id String, n Int32", "event_id");
    let pipeline = case.pipeline().dedup("event_id", None);
    pipeline.drain();
    assert_eq!(table.column("event_id"), ["1", "4"]);
    let letters = table.dead_letters().rows(
        "SELECT pipeline, source, partition, position, reason, column, message, raw FROM {t} ORDER BY position",
    );
    let [second, third] = letters.as_slice() else { panic!("two dead letters, not {letters:?}") };
    assert_eq!(second["pipeline"], "glassflow-02");
    assert_eq!(second["source"], "glassflow_02");
    assert_eq!((&second["partition"], &second["position"]), (&json!(0), &json!("1")));
    assert_eq!((&second["reason"], &second["column"]), (&json!("wrong_kind"), &json!("n")));
    assert_eq!(second["raw"], r#"{"event_id":"2","n":"many"}"#);
    let message = second["message"].as_str().expect("a sentence");
    assert!(message.contains("`n`") && message.contains("many"), "field and value are not in `{message}`");
    assert_eq!((&third["reason"], &third["column"]), (&json!("wrong_kind"), &json!("event_id")));
    assert_eq!(pipeline.lag(), 0);
    let accounts = Accounts { read: 4, written: 2, dead_letters: 2, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn glassflow_04_nine_events_with_batches_of_five_are_nine_rows_by_delay_and_by_stop() {
    let Some(case) = Case::begin("glassflow_04") else { return };
    let feed = case.feed();
    let table = case.table(EVENT, "event_id");
    feed.send((0..9).map(|n| event(&n.to_string(), "x")));

    let by_delay = case.pipeline().batch("{ rows: 5, age: 300ms }");
    let running = by_delay.run();
    table.wait_for(9);
    live::pipeline::term(running);

    let by_stop = case.pipeline().batch("{ rows: 5, age: 10m }");
    feed.send((9..14).map(|n| event(&n.to_string(), "x")));
    let running = by_stop.run();
    table.wait_for(14); // A full batch. What follows waits for an age that is far.
    feed.send((14..18).map(|n| event(&n.to_string(), "x")));
    by_stop.wait_for_live("all to be read", |status| status["unsealed"]["read"] == 4);
    assert_eq!(table.count(), 14);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("event_id"), (18, 18));
}

#[test]
fn glassflow_05_types_arrive_as_they_are() {
    let Some(case) = Case::begin("glassflow_05") else { return };
    let id = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";
    case.feed().send([
        json!({ "n": 1, "id": id, "f": 1.25, "word": "low", "maybe": "there", "tags": { "a": "b" }, "code": "abcde" }),
        json!({ "n": 2, "id": id, "f": -0.5, "word": "low", "tags": {}, "code": "abc" }),
        json!({ "n": 3, "id": id, "f": 3, "word": "high", "maybe": null, "tags": null, "code": "" }),
        json!({ "n": 4, "id": id, "f": 4, "word": "high", "code": "ab" }),
        json!({ "n": 5, "id": id, "f": 5, "word": "high", "code": "abcdef" }),
        json!({ "n": 6, "id": "no uuid", "f": 6, "word": "high", "code": "a" }),
    ]
    .map(|record| record.to_string()));
    let columns = "n UInt8, id UUID, f Float32, word LowCardinality(String), maybe Nullable(String), \
                   tags Map(String, String) DEFAULT map(), code FixedString(5)";
    let table = case.table(columns, "n");
    let pipeline = case.pipeline();
    pipeline.drain();
    let shown = table.rows(
        "SELECT n, id, f, word, maybe, tags, trim(TRAILING '\\0' FROM code) AS code FROM {t} ORDER BY n",
    );
    let wanted = [
        json!({ "n": 1, "id": id, "f": 1.25, "word": "low", "maybe": "there", "tags": { "a": "b" }, "code": "abcde" }),
        json!({ "n": 2, "id": id, "f": -0.5, "word": "low", "maybe": null, "tags": {}, "code": "abc" }),
        json!({ "n": 3, "id": id, "f": 3, "word": "high", "maybe": null, "tags": {}, "code": "" }),
        json!({ "n": 4, "id": id, "f": 4, "word": "high", "maybe": null, "tags": {}, "code": "ab" }),
    ];
    assert_eq!(shown, wanted);
    let letters = table.dead_letters();
    assert_eq!(
        letters.rows("SELECT position, reason, column FROM {t} ORDER BY position"),
        [
            json!({ "position": "4", "reason": "out_of_range", "column": "code" }),
            json!({ "position": "5", "reason": "wrong_kind", "column": "id" }),
        ]
    );
    assert_eq!(pipeline.accounts().dead_letters, 2);
}

#[test]
fn glassflow_06_a_dotted_name_is_the_flat_key_first_and_then_the_nested_path() {
    let Some(case) = Case::begin("glassflow_06") else { return };
    case.feed().send([
        r#"{"n":1,"a.b":"flat"}"#,
        r#"{"n":2,"a":{"b":"nested"}}"#,
        r#"{"n":3,"a":{"b":"nested"},"a.b":"flat"}"#,
        r#"{"n":4,"a.b":"flat","a":{"b":"nested"}}"#,
        r#"{"n":5,"a":{"c":1}}"#,
    ]);
    let table = case.table("n UInt8, `a.b` Nullable(String)", "n");
    case.pipeline().drain();
    assert_eq!(
        table.column("toString(n) || ifNull(`a.b`, '-')"),
        ["1flat", "2nested", "3flat", "4flat", "5-"]
    );
}

#[test]
fn glassflow_11_purging_dead_letters_leaves_the_pipelines_data_alone() {
    let Some(case) = Case::begin("glassflow_11") else { return };
    let feed = case.feed();
    let table = case.table(EVENT, "event_id");
    let letters = table.dead_letters();
    let pipeline = case.pipeline().dedup("event_id", None);
    feed.send([event("1", "x"), "{broken".into()]);
    let running = pipeline.run();
    table.wait_for(1);
    letters.wait_for(1);
    letters.ask("TRUNCATE TABLE {t}");

    feed.send([event("1", "again"), event("2", "x"), "{broken anew".into()]);
    table.wait_for(2);
    letters.wait_for(1);
    live::pipeline::term(running);
    assert_eq!(table.column("event_id || name"), ["1x", "2x"]);
    assert_eq!(letters.column("raw"), ["{broken anew"]);
    let accounts = Accounts { read: 5, written: 2, duplicates: 1, dead_letters: 2, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    // A silent start goes on from here, and brings nothing back.
    pipeline.drain();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((table.count(), letters.count()), (2, 1));
}

/// Theirs answers 200 or 400 with the position; `check` ends with 0 or 2, and the position is that in the file.
#[test]
fn glassflow_12_a_filter_is_validated_and_a_fault_has_its_position() {
    let Some(case) = Case::begin("glassflow_12") else { return };
    case.table("id UInt32, name String", "id");
    case.feed().send(["{}"]);
    let filtered = |condition: &str| case.pipeline().step(&format!("filter: \"{condition}\""));
    for valid in ["id > 5", "lower(name) = 'a' and id in (1, 2)", "name is null or id % 2 = 0"] {
        filtered(valid).check(&["--connect"]);
    }
    for (invalid, at, why) in [
        ("id > > 5", "> 5", "expected an expression"),
        ("id > 5 and nam = 'a'", "nam", "`name`"),
        ("lowr(name) = 'a'", "lowr", "`lower`"),
        ("id", "id", "must be `Bool`"),
    ] {
        let pipeline = filtered(invalid);
        let text = std::fs::read_to_string(pipeline.write()).unwrap();
        let (line, text) = (1..).zip(text.lines()).find(|(_, text)| text.contains("filter:")).unwrap();
        let column = text.find(invalid).unwrap() + invalid.find(at).unwrap() + 1;
        let output = pipeline.run_tool(&["check"], &["--connect"]);
        assert_eq!(output.exit.status.code(), Some(2), "{invalid}: {}", output.stderr);
        let said = output.stdout + &output.stderr;
        assert!(said.contains(&format!(":{line}:{column}: ")) && said.contains(why), "{invalid}: {said}");
    }
}
