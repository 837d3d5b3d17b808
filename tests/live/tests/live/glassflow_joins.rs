//! What GlassFlow's seventh scenario asserts of joins, and faults of peers where they concern joins and windows.

use std::time::Duration;

use live::{Case, Feed, PATIENCE, Pipeline, Table};
use serde_json::{Value, json};
use testkit::{HttpClient, free_port, wait_until};

use crate::joins;

const BEGIN_MS: u64 = 1_700_000_000_000;

/// Two topics that are joined by their keys within an hour, and a table of both values.
struct Two {
    feeds: [Feed; 2],
    table: Table,
    pipeline: Pipeline,
}

fn two(case: &Case) -> Two {
    let topics = ["left", "right"].map(|side| format!("{}_{side}", case.name()));
    let input =
        |value: &str| format!(", time: at, fields: {{ id: String, {value}: String, at: DateTime64(3) }}");
    let pipeline = case
        .pipeline()
        .input("left", &topics[0], &input("a"))
        .input("right", &topics[1], &input("b"))
        .step("join: { left: left, right: right, on: [id], within: 1h }");
    let feeds = topics.each_ref().map(|topic| Feed::new(case.kafka(), topic));
    Two { feeds, table: case.table("id String, a String, b String", "(id, a, b)"), pipeline }
}

fn row(id: &str, name: &str, value: &str) -> String {
    json!({ "id": id, name: value, "at": BEGIN_MS }).to_string()
}

#[test]
fn glassflow_07_three_left_and_two_right_rows_are_two_joined_ones() {
    let Some(case) = Case::begin("glassflow_07_pairs") else { return };
    let Two { feeds: [left, right], table, pipeline } = two(&case);
    left.spread([row("1", "a", "l1"), row("2", "a", "l2"), row("3", "a", "l3")]);
    right.spread([row("1", "b", "r1"), row("3", "b", "r3")]);
    pipeline.drain();
    assert_eq!(table.column("concat(id, a, b)"), ["1l1r1", "3l3r3"]);
}

#[test]
fn glassflow_07_two_left_rows_of_one_key_are_both_joined() {
    let Some(case) = Case::begin("glassflow_07_twice") else { return };
    let Two { feeds: [left, right], table, pipeline } = two(&case);
    left.spread([row("1", "a", "l1"), row("1", "a", "l2"), row("2", "a", "l3")]);
    right.spread([row("1", "b", "r1")]);
    pipeline.drain();
    assert_eq!(table.column("concat(id, a, b)"), ["1l1r1", "1l2r1"]);
}

#[test]
fn glassflow_07_without_a_match_there_is_no_row_and_no_dead_letter() {
    let Some(case) = Case::begin("glassflow_07_none") else { return };
    let Two { feeds: [left, right], table, pipeline } = two(&case);
    left.spread([row("1", "a", "l1"), row("2", "a", "l2")]);
    right.spread([row("3", "b", "r3"), row("4", "b", "r4")]);
    pipeline.drain();
    assert_eq!(table.count(), 0);
    let records = &pipeline.status()["records"];
    assert_eq!((&records["absorbed"], &records["dead_letters"]), (&json!(4), &json!(0)), "{records}");
}

/// Rows that wait for a match when the process is stopped, or killed, find it after the next start.
#[test]
fn glassflow_07_a_stop_with_rows_that_wait_loses_none() {
    let Some(case) = Case::begin("glassflow_07_stop") else { return };
    let Two { feeds: [left, right], table, pipeline } = two(&case);
    left.spread([row("1", "a", "l1"), row("2", "a", "l2"), row("3", "a", "l3")]);
    right.spread([row("9", "b", "r9")]);
    pipeline.drain();
    assert_eq!(table.count(), 0, "nothing has a match yet");
    right.spread([row("1", "b", "r1"), row("2", "b", "r2")]);
    let mut running = pipeline.run();
    std::thread::sleep(Duration::from_millis(300));
    running.kill9().expect("a kill");
    pipeline.drain();
    assert_eq!(table.column("concat(id, a, b)"), ["1l1r1", "2l2r2"]);
}

/// Keys that another program mixed up, or never joined.
fn odd_keys() -> Vec<Value> {
    let texts = ["a@b", "a:b", "a b", " a", "a ", "@", ":", " ", "", "a", "1000000", "1e6", "ключ", "0x10"];
    let numbers =
        [999_999_i64, 1_000_000, 1_000_001, 9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX, -1];
    let texts = texts.into_iter().map(|text| json!({ "key": text, "n": 0 }));
    texts.chain(numbers.into_iter().map(|n| json!({ "key": "", "n": n }))).collect()
}

fn of(key: &Value, at: u64, more: &Value) -> String {
    let mut record = key.clone();
    record["at"] = json!(at);
    let more = more.as_object().expect("fields");
    more.iter().for_each(|(name, value)| record[name] = value.clone());
    record.to_string()
}

#[test]
fn fault_05_each_odd_key_is_joined_with_its_equal_and_has_a_window_of_its_own() {
    let Some(case) = Case::begin("fault_05_joins") else { return };
    let keys = odd_keys();
    let topics = ["left", "right"].map(|side| format!("fault_05_joins_{side}"));
    let input =
        |more: &str| format!(", time: at, fields: {{ key: String, n: Int64, at: DateTime64(3), {more} }}");
    let table =
        case.table("key String, n Int64, window_start DateTime64(3), pairs UInt64, other UInt64", "(key, n)");
    let pipeline = case
        .pipeline()
        .input("left", &topics[0], &input("a: UInt64"))
        .input("right", &topics[1], &input("b: UInt64"))
        .step("join: { left: left, right: right, on: [key, n], within: 5s }")
        .step("window: { key: [key, n], size: 10s, aggregates: { pairs: count(), other: countIf(a != b) } }");
    let feeds = topics.each_ref().map(|topic| Feed::new(case.kafka(), topic));
    let rows = |name: &str| -> Vec<String> {
        let numbered = keys.iter().zip(0_u64..);
        numbered.map(|(key, number)| of(key, BEGIN_MS + number, &json!({ name: number }))).collect()
    };
    feeds[0].spread(rows("a"));
    feeds[1].spread(rows("b"));
    pipeline.drain();
    for (feed, name) in feeds.iter().zip(["a", "b"]) {
        let last = of(&json!({ "key": "end", "n": 0 }), BEGIN_MS + 60_000, &json!({ name: 0 }));
        feed.spread([last.clone(), last.clone(), last]);
    }
    pipeline.drain();
    let count = keys.len() as u64;
    assert_eq!(table.count_and_distinct("(key, n)"), (count, count), "{}", table.ask("SELECT * FROM {t}"));
    assert_eq!(table.value("SELECT max(pairs), sum(other) FROM {t}"), "1\t0");
}

/// A sender that was answered may forget its records though their window is open: whatever is killed, the result counts each once.
#[test]
fn fault_16_a_record_that_was_answered_is_in_its_window_whatever_is_killed() {
    let Some(case) = Case::begin("fault_16_windows") else { return };
    let port = free_port();
    let table = case.table("window_start DateTime64(3), n UInt64, total UInt64", "window_start");
    let pipeline = case
        .pipeline()
        .input_of("events", "{ listen: { stream: events }, fields: { id: UInt64, at: DateTime64(3) } }")
        .more(&format!("listen: {{ address: '127.0.0.1:{port}' }}"))
        // What was sealed and not answered is sent again.
        .step("dedup: { key: [id], window: unbounded }")
        .step("window: { time: at, size: 10s, aggregates: { n: count(), total: sum(id) } }")
        .batch("{ rows: 2000, age: 20ms }");
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}")).timeout(Duration::from_secs(5));
    let answered = |id: u64, at: u64| {
        let body = format!("{}\n", json!({ "id": id, "at": at }));
        client
            .request("POST", "/v1/streams/events", &[], body.as_bytes())
            .is_ok_and(|answer| answer.status == 200)
    };
    let sent = 120_u64;
    for life in 0..4 {
        let mut running = pipeline.run();
        for id in life * sent / 4..(life + 1) * sent / 4 {
            wait_until(PATIENCE, "an answer", || answered(id, BEGIN_MS + id));
        }
        running.kill9().expect("a kill");
    }
    let running = pipeline.run();
    wait_until(PATIENCE, "an answer", || answered(1_000_000, BEGIN_MS + 30_000));
    table.wait_for(1);
    drop(running);
    assert_eq!(table.value("SELECT n, total FROM {t}"), format!("{sent}\t{}", sent * (sent - 1) / 2));
}

/// Rows of half a megabyte, of which the steps have room for a few: they are spilled, and every pair and result is there.
#[test]
fn fault_17_the_largest_rows_pass_a_join_and_a_window_of_little_memory() {
    const ROWS: u64 = 24;
    let Some(case) = Case::begin("fault_17_joins") else { return };
    let topics = ["left", "right"].map(|side| format!("fault_17_joins_{side}"));
    let input =
        |name: &str| format!(", time: at, fields: {{ id: UInt64, {name}: String, at: DateTime64(3) }}");
    let table = case.table("id UInt64, window_start DateTime64(3), n UInt64, bytes UInt64", "id");
    let pipeline = case
        .pipeline()
        .input("left", &topics[0], &input("a"))
        .input("right", &topics[1], &input("b"))
        .step("join: { left: left, right: right, on: [id], within: 20s, memory: 8MiB }")
        .step("window: { key: [id], size: 10s, memory: 1MiB, aggregates: { n: count(), bytes: 'sum(octet_length(a) + octet_length(b))' } }");
    let feeds = topics.each_ref().map(|topic| {
        case.kafka().create_topic(topic, 3, &[]).expect("a topic");
        Feed::new(case.kafka(), topic)
    });
    let large = "x".repeat(512 << 10);
    let send = |side: usize, id: u64, at: u64, text: &str| {
        let name = ["a", "b"][side];
        let body = json!({ "id": id, name: text, "at": at }).to_string();
        feeds[side].push((id % 3) as u32, body.as_bytes());
    };
    (0..ROWS).for_each(|id| send(0, id, BEGIN_MS + id, &large));
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();
    // A run may end before the files of its last seal are written; the next one writes them then.
    let mut files = joins::spilled_files(&pipeline.store());
    // The rows that one batch makes are bounded by the memory too.
    for half in [0..ROWS / 2, ROWS / 2..ROWS] {
        half.for_each(|id| send(1, id, BEGIN_MS + id, "y"));
        feeds[1].flush();
        pipeline.drain();
        files = files.max(joins::spilled_files(&pipeline.store()));
    }
    assert!(files > 0, "the rows of a join of little memory are in files");
    for (side, partition) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        send(side, 999_999 + partition, BEGIN_MS + 120_000, "");
    }
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();
    let status = pipeline.status();
    let records = &status["records"];
    assert_eq!(records["read"], 2 * (ROWS + 3), "what was sent is in the topics: {status}");
    assert_eq!(
        table.count_and_distinct("id"),
        (ROWS, ROWS),
        "{records} {}",
        table.ask("SELECT id, bytes FROM {t}")
    );
    let bytes = (512 << 10) + 1;
    assert_eq!(table.value("SELECT max(n), min(bytes), max(bytes) FROM {t}"), format!("1\t{bytes}\t{bytes}"));
}

#[test]
fn fault_18_nested_values_pass_a_join_whole_and_time_0_has_a_window() {
    let Some(case) = Case::begin("fault_18_joins") else { return };
    let topics = ["left", "right"].map(|side| format!("fault_18_joins_{side}"));
    let table = case.table(
        "id UInt64, lists Array(Array(String)), map Map(String, Array(Int32)), at DateTime64(3, 'UTC')",
        "id",
    );
    let pipeline = case
        .pipeline()
        .input("left", &topics[0], ", time: at, fields: { id: UInt64, lists: Array(Array(String)), at: \"DateTime64(3, 'UTC')\" }")
        .input("right", &topics[1], ", time: at, fields: { id: UInt64, map: \"Map(String, Array(Int32))\", at: \"DateTime64(3, 'UTC')\" }")
        .step("join: { left: left, right: right, on: [id], within: 1h, columns: { at: left.at } }");
    let feeds = topics.each_ref().map(|topic| Feed::new(case.kafka(), topic));
    let rows: [(Value, Value); 3] = [
        (json!([["a"], [], ["b", "<complex>"]]), json!({ "x": [1, 2], "y": [] })),
        (json!([]), json!({})),
        (json!([[]]), json!({ "": [0] })),
    ];
    for (id, (lists, map)) in rows.iter().enumerate() {
        feeds[0].push(0, json!({ "id": id, "lists": lists, "at": 0 }).to_string().as_bytes());
        feeds[1].push(0, json!({ "id": id, "map": map, "at": 0 }).to_string().as_bytes());
    }
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();
    let time = "'1970-01-01 00:00:00.000'";
    assert_eq!(
        table.column("(id, lists, map, at)"),
        [
            format!("(0,[['a'],[],['b','<complex>']],{{'x':[1,2],'y':[]}},{time})"),
            format!("(1,[],{{}},{time})"),
            format!("(2,[[]],{{'':[0]}},{time})"),
        ]
    );

    let windows =
        case.table_called("fault_18_windows", "window_start DateTime64(3, 'UTC'), n UInt64", "window_start");
    let counted = Pipeline::new(&case, "fault-18-windows")
        .input("left", &topics[0], ", fields: { id: UInt64, at: \"DateTime64(3, 'UTC')\" }")
        .step("window: { time: at, size: 10s, aggregates: { n: count() } }")
        .one_of(&format!("{{ clickhouse: {{ table: {} }} }}", windows.name()));
    counted.drain();
    feeds[0].spread([0, 1, 2].map(|id| json!({ "id": id, "lists": [], "at": 60_000 }).to_string()));
    counted.drain();
    assert_eq!(windows.column("(window_start, n)"), [format!("({time},3)")]);
}
