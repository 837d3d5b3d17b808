//! Dead letters: listed, shown, sent through the pipeline again, deleted.

use std::time::Duration;

use live::{Accounts, Case, Pipeline, Table};
use serde_json::{Value, json};
use sources::kafka::produce::Outgoing;
use testkit::{Lcg, Output, seed, wait_until};

/// A table whose column `v` is too narrow for every tenth record.
const NARROW: &str = "id UInt32, v UInt8, s String";

fn record(id: usize, v: usize) -> String {
    json!({ "id": id, "v": v, "s": format!("record {id}") }).to_string()
}

/// Good and bad records: `v` of every tenth does not fit.
fn feed(case: &Case, records: usize) -> usize {
    let bodies = (0..records).map(|id| record(id, if id % 10 == 9 { 1_000 + id } else { id % 256 }));
    case.feed().spread(bodies);
    records / 10
}

fn widen(table: &Table) {
    table.ask("ALTER TABLE {t} MODIFY COLUMN v UInt32");
}

/// The lines of `--json`.
fn lines(output: &Output) -> Vec<Value> {
    let lines = output.stdout.lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("`{line}` is no JSON"))).collect()
}

/// Runs `replay --json` with an end of that code; gives each result's word, and whether it was an earlier one.
#[track_caller]
fn replay(pipeline: &Pipeline, args: &[&str], code: i32) -> Vec<(String, bool)> {
    let output = pipeline.dead_letters("replay", &[&["--json"], args].concat());
    assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
    let word = |line: &Value| {
        (line["result"].as_str().expect("a result").to_owned(), line["already"] == json!(true))
    };
    lines(&output).iter().map(word).collect()
}

fn all(word: &str, is_already: bool, count: usize) -> Vec<(String, bool)> {
    vec![(word.to_owned(), is_already); count]
}

#[test]
fn mended_records_are_replayed_into_a_running_pipeline_once() {
    let Some(case) = Case::begin("replay_running") else { return };
    let table = case.table(NARROW, "id");
    let bad = feed(&case, 100);
    let broken = case.feed();
    broken.put(&Outgoing {
        partition: Some(1),
        key: Some(b"a key"),
        payload: Some(b"\xff\xfe not JSON"),
        headers: &[("sender", Some(b"a test"))],
        ..Outgoing::default()
    });
    broken.flush();
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    let letters = table.dead_letters();
    assert_eq!((table.count(), letters.count()), (90, bad as u64 + 1));

    let summary = lines(&pipeline.dead_letters("list", &["--summary", "--json"]));
    let sums: Vec<_> = summary.iter().map(|line| (&line["reason"], &line["letters"])).collect();
    assert_eq!(sums, [(&json!("out_of_range"), &json!(10)), (&json!("malformed"), &json!(1))]);
    let listed = lines(&pipeline.dead_letters("list", &["--json", "--where", "message LIKE '%1009%'"]));
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["raw"], record(9, 1_009));
    // A condition is SQL of whoever wrote it: it is run where nothing can be changed.
    for (readonly, letters) in [(1, bad + 1), (0, 0)] {
        let condition = format!("getSetting('readonly') = {readonly}");
        let listed = lines(&pipeline.dead_letters("list", &["--json", "--where", &condition]));
        assert_eq!(listed.len(), letters as usize, "readonly = {readonly}");
    }
    let malformed = lines(&pipeline.dead_letters("list", &["--reason", "malformed", "--json"]));
    let id = malformed[0]["id"].as_str().expect("a name");
    let shown = pipeline.dead_letters("show", &[id]);
    assert!(shown.stdout.contains("a key") && shown.stdout.contains("sender: a test"), "{}", shown.stdout);
    assert!(shown.stdout.contains("fffe206e6f74204a534f4e"), "{}", shown.stdout);
    assert_eq!(malformed[0]["raw_hex"], "fffe206e6f74204a534f4e");
    let raw = pipeline.dead_letters("show", &["--raw", "--where", "message LIKE '%1009%'"]);
    assert_eq!(raw.stdout, record(9, 1_009));

    // Mended, and started again, for a pipeline takes the table's columns at its start.
    widen(&table);
    let running = pipeline.run();
    pipeline.wait_for_live("the start", |status| status["phase"] == "running");
    let results = replay(&pipeline, &["--reason", "out_of_range"], 0);
    assert_eq!(results, all("written", false, bad));
    assert_eq!(table.count_and_distinct("id"), (100, 100));
    assert_eq!(table.value("SELECT sum(v) FROM {t} WHERE id % 10 = 9"), "10540");
    assert_eq!(replay(&pipeline, &["--reason", "out_of_range"], 0), all("written", true, bad));
    // With their keys known, a second time through the pipeline leaves no second row.
    assert_eq!(replay(&pipeline, &["--reason", "out_of_range", "--again"], 0), all("duplicate", false, bad));
    assert_eq!(table.count_and_distinct("id"), (100, 100));

    // What is bad for ever is a dead letter again, in the log's stream, with its first place and its own headers.
    assert_eq!(replay(&pipeline, &["--reason", "malformed"], 1), all("dead_letter", false, 1));
    let again = lines(&pipeline.dead_letters("list", &["--source", "@replays", "--json"]));
    assert_eq!(again.len(), 1);
    assert_eq!((&again[0]["raw_hex"], &again[0]["key"]), (&malformed[0]["raw_hex"], &json!("a key")));
    let headers = json!([{ "name": "sender", "value": "a test" }, { "name": "forebay_origin", "value": id }]);
    assert_eq!(again[0]["headers"], headers);
    // It is a letter of its own, which may be replayed like any other, and still names its first place.
    assert_eq!(replay(&pipeline, &["--source", "@replays"], 1), all("dead_letter", false, 1));
    let third = lines(&pipeline.dead_letters("list", &["--source", "@replays", "--json"]));
    assert_eq!((third.len(), &third[1]["headers"]), (2, &headers));
    live::pipeline::term(running);
    let read = 101 + 10 + 10 + 1 + 1;
    let accounts = Accounts { read, written: 100, duplicates: 10, dead_letters: 13, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn replays_wait_for_the_next_start_or_are_read_on_the_spot() {
    let Some(case) = Case::begin("replay_stopped") else { return };
    let table = case.table(NARROW, "id");
    let bad = feed(&case, 40);
    let pipeline = case.pipeline();
    pipeline.drain();
    widen(&table);
    assert_eq!(replay(&pipeline, &["--limit", "1", "--no-wait"], 0), all("waiting", false, 1));
    assert_eq!(table.count(), 36);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (37, 37));
    // Read here, with a broker that nobody reaches: the source is not asked.
    let apart = pipeline.clone().brokers("127.0.0.1:1");
    let results = replay(&apart, &[], 0);
    assert_eq!(results, [all("written", false, bad - 1), all("written", true, 1)].concat());
    assert_eq!(table.count_and_distinct("id"), (40, 40));
    // And the pipeline goes on where it stood.
    case.feed().send([record(1_000, 1)]);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (41, 41));
    assert_eq!(pipeline.lag(), 0);
}

#[test]
fn letters_of_a_topic_that_was_created_again_are_letters_of_their_own() {
    let Some(case) = Case::begin("replay_recreated") else { return };
    let table = case.table(NARROW, "id");
    let (pipeline, place) = (case.pipeline(), format!("{}/0/1", case.name()));
    // The last of each is bad for ever.
    let made = |bodies: [String; 2]| {
        case.kafka().create_topic(case.name(), 1, &[]).expect("a topic");
        case.feed().send(bodies);
        case.feed().send(["no record"]);
    };
    let of_range = ["--reason", "out_of_range"];
    made([record(0, 1), record(1, 1_001)]);
    pipeline.drain();
    widen(&table);
    assert_eq!(replay(&pipeline, &of_range, 0), all("written", false, 1));
    case.kafka().delete_topic(case.name()).expect("the topic to go");
    made([record(2, 2), record(3, 1 << 40)]);
    let forgotten = pipeline.run_tool(&["forget"], &["--topic", case.name(), "--yes"]);
    assert_eq!(forgotten.exit.status.code(), Some(0), "{}", forgotten.stderr);
    pipeline.drain();

    // The first one's fate is not that of the other at its place.
    let again = format!("{place}~2");
    let listed = lines(&pipeline.dead_letters("list", &[&["--json"], &of_range[..]].concat()));
    let named: Vec<_> = listed.iter().map(|line| (&line["id"], &line["replayed"])).collect();
    assert_eq!(named, [(&json!(place), &json!(true)), (&json!(again), &json!(false))]);
    for (name, body) in [(&place, record(1, 1_001)), (&again, record(3, 1 << 40))] {
        assert_eq!(pipeline.dead_letters("show", &["--raw", name]).stdout, body);
    }
    let letters = |code| pipeline.tool(&["verify"], &["--json", "--key", "id"], code)["dead_letters"].clone();
    let found = letters(0);
    assert_eq!((&found["expected"], &found["missing"]), (&json!(2), &json!([])), "{found}");

    table.ask("ALTER TABLE {t} MODIFY COLUMN v UInt64");
    let results = replay(&pipeline, &of_range, 0);
    assert_eq!(results, [all("written", false, 1), all("written", true, 1)].concat());
    assert_eq!(table.count_and_distinct("id"), (4, 4));
    assert_eq!(table.value("SELECT v FROM {t} WHERE id = 3"), (1_u64 << 40).to_string());
    assert_eq!(letters(0)["missing"], json!([]));
    // Nor does the first letter stand for the other one, or its purge.
    let purged = pipeline.dead_letters("purge", &["--where", "headers['forebay.stream'] = ''", "--yes"]);
    assert_eq!(purged.exit.status.code(), Some(0), "{}", purged.stderr);
    assert_eq!(letters(0)["missing"], json!([]));
    table.dead_letters().ask("ALTER TABLE {t} DELETE WHERE position = 2 SETTINGS mutations_sync = 2");
    assert_eq!(letters(4)["missing"], json!([format!("{}/0@2", case.name())]));
}

/// The first default port was another pipeline's when this one started, and is nobody's now.
#[test]
fn a_pipeline_at_a_later_default_port_is_not_taken_over_by_a_replay() {
    let Some(case) = Case::begin("replay_later_port") else { return };
    let table = case.table(NARROW, "id");
    let bad = feed(&case, 40);
    let pipeline = case.pipeline().dedup("id", None).at_default_port();
    pipeline.drain();
    widen(&table);
    // Another program on this machine may have it already, which is as good.
    let first = std::net::TcpListener::bind("127.0.0.1:9464").ok();
    let mut running = pipeline.run();
    case.feed().send([record(1_000, 1)]);
    table.wait_for(37);
    drop(first);
    let epoch = pipeline.status()["epoch"].clone();
    assert_eq!(replay(&pipeline, &[], 0), all("written", false, bad));
    assert_eq!(pipeline.status()["epoch"], epoch, "nobody has claimed the lane");
    assert!(running.is_running().expect("its state"), "it goes on");
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (41, 41));
}

#[test]
fn rows_that_the_server_refused_are_replayed_too() {
    let Some(case) = Case::begin("replay_refused") else { return };
    let table = case.table("id UInt32, v Int32, CONSTRAINT positive CHECK v > 0", "id");
    case.feed().send((0..20).map(|id| json!({ "id": id, "v": id - 2 }).to_string()));
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    assert_eq!((table.count(), table.dead_letters().count()), (17, 3));
    // Nothing is mended: their rows are sealed, and refused afterwards.
    let output = pipeline.dead_letters("replay", &["--json", "--reason", "refused", "--run"]);
    assert_eq!(output.exit.status.code(), Some(1), "{}", output.stderr);
    for (n, line) in (0..).zip(lines(&output)) {
        let again = (&line["result"], &line["reason"], &line["letter"]);
        assert_eq!(again, (&json!("dead_letter"), &json!("refused"), &json!(format!("@replays/0/{n}"))));
    }
    // That they are dead letters again is known without the letters, too.
    pipeline.dead_letters("purge", &["--source", "@replays", "--yes"]);
    wait_until(live::PATIENCE, "the deletion", || table.dead_letters().count() == 3);
    assert_eq!(replay(&pipeline, &[], 0), all("dead_letter", true, 3));
    assert_eq!(
        pipeline.accounts(),
        Accounts { read: 23, written: 17, dead_letters: 6, ..Accounts::default() }
    );

    table.ask("ALTER TABLE {t} DROP CONSTRAINT positive");
    assert_eq!(replay(&pipeline, &["--reason", "refused", "--again", "--run"], 0), all("written", false, 3));
    assert_eq!(table.count_and_distinct("id"), (20, 20));
    assert_eq!(replay(&pipeline, &["--run"], 0), all("written", true, 3));
    assert_eq!(table.count_and_distinct("id"), (20, 20));
}

#[test]
fn kills_at_any_moment_replay_every_letter_once() {
    let Some(case) = Case::begin("replay_kills") else { return };
    let table = case.table(NARROW, "id");
    let bad = feed(&case, 3_000);
    let pipeline = case.pipeline().dedup("id", None).batch("{ rows: 40, age: 20ms }");
    pipeline.drain();
    widen(&table);
    let mut random = Lcg::new(seed());
    for round in 0..6 {
        let mut running = pipeline.run();
        pipeline.wait_for_live("the start", |status| status["phase"] == "running");
        let limit = (round + 1) * bad / 6;
        let mut replaying = pipeline.start_dead_letters("replay", &["--limit", &limit.to_string()]);
        std::thread::sleep(Duration::from_millis(random.below(1_500)));
        replaying.kill9().expect("kill -9");
        std::thread::sleep(Duration::from_millis(random.below(1_500)));
        running.kill9().expect("kill -9");
    }
    pipeline.dead_letters("replay", &["--no-wait"]);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (3_000, 3_000));
    let known = replay(&pipeline, &[], 0);
    assert_eq!(known, all("written", true, bad));
    let Accounts { read, written, .. } = pipeline.accounts();
    assert_eq!((read, written), (3_000 + bad as u64, 3_000), "no record was replayed twice");
}

#[test]
fn behaviour_11_a_purge_leaves_the_pipelines_data_alone() {
    let Some(case) = Case::begin("replay_purge") else { return };
    let table = case.table(NARROW, "id");
    let bad = feed(&case, 100) as u64;
    case.feed().send(["no JSON"]);
    let pipeline = case.pipeline();
    pipeline.drain();
    let letters = table.dead_letters();
    let foreign =
        format!("INSERT INTO {{t}} (time, pipeline, reason) VALUES (now64(3), '{}x', 'malformed')", "other");
    letters.ask(&foreign);
    let purge = |args: &[&str]| pipeline.dead_letters("purge", args);

    assert_eq!(purge(&["--yes"]).exit.status.code(), Some(2), "without a filter `--all` is needed");
    assert_eq!(purge(&["--all"]).exit.status.code(), Some(2), "nobody can be asked");
    let dry = purge(&["--all", "--dry-run"]);
    assert!(dry.stderr.contains("name 11 letters"), "{}", dry.stderr);
    assert_eq!(letters.count(), bad + 2);
    let purged = purge(&["--reason", "malformed", "--yes"]);
    assert!(purged.stderr.contains("1 letters are deleted"), "{}", purged.stderr);
    assert_eq!(letters.count(), bad + 1, "another pipeline's letter stays");
    // An expression cannot reach beyond the pipeline's own letters.
    let escaping = purge(&["--where", "1) OR (1", "--yes"]);
    assert_eq!(escaping.exit.status.code(), Some(2), "{}", escaping.stderr);
    assert_eq!(purge(&["--where", "1 OR 1", "--yes"]).exit.status.code(), Some(0));
    wait_until(live::PATIENCE, "the deletion", || letters.count() == 1);
    assert_eq!(table.count_and_distinct("id"), (90, 90));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (90, 90));
    assert_eq!(pipeline.dead_letters("list", &["--json"]).stdout, "");
}

#[test]
fn rows_that_steps_made_are_letters_of_their_own_however_alike_their_places_are() {
    let Some(case) = Case::begin("letters_of_steps") else { return };
    let table = case.table(NARROW, "id");
    feed(&case, 10);
    let pipeline = case.pipeline();
    pipeline.drain();
    let letters = table.dead_letters();
    // Two results of windows that were sealed in one millisecond, each the fourth row of its batch.
    for raw in ["first", "second"] {
        letters.ask(&format!(
            "INSERT INTO {{t}} SELECT * REPLACE ('@window' AS source, 0 AS partition, 3 AS position, '{raw}' AS raw) FROM {{t}} \
             WHERE reason = 'out_of_range' LIMIT 1"
        ));
    }
    let listed = lines(&pipeline.dead_letters("list", &["--source", "@window", "--json"]));
    let mut shown: Vec<String> = Vec::new();
    for letter in &listed {
        let id = letter["id"].as_str().expect("a name");
        let raw = pipeline.dead_letters("show", &[id, "--raw"]).stdout;
        assert_eq!(letter["raw"], raw);
        shown.push(raw);
    }
    shown.sort();
    assert_eq!(shown, ["first", "second"]);
    // They are no records, and no replay takes them.
    assert_eq!(replay(&pipeline, &["--source", "@window"], 0), []);
}

/// What some payments say could not be read; the orders that they belong to are there.
#[test]
fn a_record_of_either_side_of_a_join_is_replayed_into_its_own_side() {
    let Some(case) = Case::begin("replay_joined") else { return };
    let columns = "order_id UInt64, payment_id Nullable(UInt64), amount Nullable(UInt8)";
    let table = case.table(columns, "order_id");
    let topics = ["replay_joined_orders", "replay_joined_payments"];
    let joined = |text: &str| {
        let pipeline = case
            .pipeline()
            .input("orders", topics[0], ", time: at, fields: { order_id: UInt64, at: DateTime64(3) }")
            .input(
                "payments",
                topics[1],
                ", time: at, fields: { payment_id: UInt64, order: UInt64, said: String, at: DateTime64(3) }",
            );
        let amount = format!("amount: \"CAST({text} AS UInt8)\"");
        pipeline
            .step(&format!(
                "{{ from: payments, select: {{ payment_id: payment_id, order: order, {amount} }} }}"
            ))
            .step("{ from: payments, dedup: { key: [payment_id], window: 1h } }")
            .step(
                "join: { left: orders, right: payments, on: ['order_id = order'], within: 1h, kind: inner, \
                 lateness: 1h }",
            )
    };
    let feeds = topics.map(|topic| live::Feed::new(case.kafka(), topic));
    for n in 0..20_u64 {
        let at = 1_700_000_000_000 + n;
        feeds[0].push((n % 3) as u32, format!(r#"{{"order_id":{n},"at":{at}}}"#).as_bytes());
        let said = if n % 5 == 4 { format!("x{n}") } else { n.to_string() };
        let payment = format!(r#"{{"payment_id":{n},"order":{n},"said":"{said}","at":{at}}}"#);
        feeds[1].push((n % 3) as u32, payment.as_bytes());
    }
    feeds.iter().for_each(live::Feed::flush);
    joined("said").drain();
    assert_eq!((table.count(), table.dead_letters().count()), (16, 4));

    // The replay log stands beside `orders`, and these records go into the other side.
    let mended = joined("replace(said, 'x', '')");
    assert_eq!(replay(&mended, &["--run"], 0), all("absorbed", false, 4));
    let mut found =
        table.column("concat(toString(order_id), ' ', toString(payment_id), ' ', toString(amount))");
    let mut wanted: Vec<String> = (0..20).map(|n| format!("{n} {n} {n}")).collect();
    (found.sort(), wanted.sort());
    assert_eq!(found, wanted);
    // Their keys are known to the step of their own side.
    assert_eq!(replay(&mended, &["--again", "--run"], 0), all("duplicate", false, 4));
    assert_eq!(table.count(), 20);
}
