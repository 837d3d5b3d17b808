//! The commands of docs/changing-a-pipeline.md, in the order of the page, against the real program and engine.

use std::path::Path;
use std::process::Command;

use live::case::binary;
use live::{Case, Table};
use testkit::{ClickHouseOptions, workspace_dir};

const RECORDS: u64 = 2_000;
const BACKFILL: u64 = 300;

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("the case's folder can be written");
}

fn records(ids: std::ops::Range<u64>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"at\":\"2024-05-01 10:00:{:02}\"}}\n", id % 60)).collect()
}

/// A pipeline from a file of the folder to a table.
fn pipeline(case: &Case, name: &str, store: &str, window: &str, file: &str, table: &str) -> String {
    format!(
        "pipeline: {name}\nstore: {store}\nsource: {{ file: {{ paths: [\"{file}\"] }} }}\n\
         steps: [{{ dedup: {{ key: [id], window: {window}, time: at }} }}]\n\
         sink: {{ clickhouse: {{ url: \"{}\", table: {table} }} }}\nhttp: {{ listen: none }}\n",
        case.server().url()
    )
}

/// The commands of the page's blocks.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// Runs one line of the page as a person would, in the case's folder.
fn run(case: &Case, table: &Table, line: &str) -> String {
    if let Some(sql) = line.strip_prefix("clickhouse-client -q ") {
        return table.ask(sql.trim_matches('\''));
    }
    let program = binary().expect("the program is built");
    let line = match line.strip_prefix("forebay ") {
        Some(rest) => format!("'{}' {rest}", program.display()),
        None => line.to_owned(),
    };
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(case.dir()).output().expect("a shell starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "`{line}` ended with {}:\n{out}\n{err}", output.status);
    out.into_owned()
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let Some(case) = Case::begin("guide") else { return };
    let columns = "id UInt64, at DateTime('UTC')";
    let [table, second] = ["events", "events_2"].map(|name| case.table_called(name, columns, "id"));
    write(case.dir(), "events.jsonl", &records(0..RECORDS));
    write(case.dir(), "old.jsonl", &records(1_000_000..1_000_000 + BACKFILL));
    write(case.dir(), "older.jsonl", &records(2_000_000..2_000_000 + BACKFILL));
    let data = "./forebay-data";
    for (file, text) in [
        ("events.yaml", pipeline(&case, "events", data, "1h", "events.jsonl", "events")),
        ("events-2.yaml", pipeline(&case, "events-2", data, "2h", "events.jsonl", "events_2")),
        ("backfill.yaml", pipeline(&case, "backfill", data, "1h", "old.jsonl", "events")),
        ("moved.yaml", pipeline(&case, "events", "./moved-data", "2h", "events.jsonl", "events")),
    ] {
        write(case.dir(), file, &text);
    }
    let page =
        std::fs::read_to_string(workspace_dir().join("docs/changing-a-pipeline.md")).expect("the page");
    // Rows of the table after each block, all of them distinct.
    let rows = [
        0,
        RECORDS,
        RECORDS,
        RECORDS,
        RECORDS,
        RECORDS,
        RECORDS + BACKFILL,
        RECORDS + 2 * BACKFILL,
        RECORDS + 2 * BACKFILL,
        RECORDS + 2 * BACKFILL,
        RECORDS + 2 * BACKFILL,
        RECORDS + 2 * BACKFILL,
        RECORDS,
    ];
    let blocks = blocks(&page);
    assert_eq!(blocks.len(), rows.len(), "each block of the page has its expectation here");
    for (block, rows) in blocks.iter().zip(rows) {
        for line in block {
            let out = run(&case, &table, line);
            if line.starts_with("forebay list") {
                assert!(["events:", "events-2:", "backfill:"].iter().all(|name| out.contains(name)), "{out}");
            }
        }
        assert_eq!(table.count_and_distinct("id"), (rows, rows), "after {block:?}");
    }
    assert_eq!(second.count_and_distinct("id"), (RECORDS, RECORDS));
}

/// The blocks that read everything again, over Kafka: it knows how far a group has read, and the page says what to do about it.
#[test]
fn the_guide_s_blocks_that_read_a_topic_again_need_another_group_as_it_says() {
    // The page's table has the name that the test above gives to its own.
    let options = ClickHouseOptions::default();
    let Some(case) = Case::with_own_server("guide_kafka", options) else { return };
    let table = case.table_called("events", "id UInt64, at DateTime('UTC')", "id");
    case.feed().send(records(0..RECORDS).lines());
    let source = |group: &str| {
        format!("{{ kafka: {{ brokers: \"{}\", topic: {}{group} }} }}", case.kafka().bootstrap(), case.name())
    };
    let files = pipeline(&case, "events", "./forebay-data", "1h", "events.jsonl", "events");
    let of_file = "{ file: { paths: [\"events.jsonl\"] } }";
    let write_group = |group: &str| {
        assert!(files.contains(of_file));
        write(case.dir(), "events.yaml", &files.replace(of_file, &source(group)));
    };
    write_group("");
    let page =
        std::fs::read_to_string(workspace_dir().join("docs/changing-a-pipeline.md")).expect("the page");
    assert!(page.contains("`group: events-again`"));
    let blocks = blocks(&page);
    let start = "forebay run events.yaml --drain";
    run(&case, &table, start);
    for (has, group) in
        [("forebay reset events.yaml --yes", ", group: events-again"), ("forebay delete ", ", group: third")]
    {
        let block = blocks.iter().find(|block| block.iter().any(|line| line.starts_with(has)));
        for line in block.expect("a block of the page") {
            if line == start {
                let program = binary().expect("the program is built");
                let refused = Command::new(program)
                    .args(["run", "events.yaml", "--drain"])
                    .current_dir(case.dir())
                    .output()
                    .expect("it starts");
                let said = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert!(refused.status.code() == Some(4) && said.contains("the store was lost"), "{said}");
                assert!(said.contains("give the source another `group`"), "{said}");
                assert_eq!(table.count(), 0);
                write_group(group);
            }
            run(&case, &table, line);
        }
        assert_eq!(table.count_and_distinct("id"), (RECORDS, RECORDS), "after {block:?}");
    }
}

/// The store is an older copy of itself: what was read since then would be written a second time.
#[test]
fn a_file_source_whose_store_was_rolled_back_is_refused() {
    let Some(case) = Case::begin("rolled_back") else { return };
    let table = case.table_called("rolled_back", "id UInt64, at DateTime('UTC')", "id");
    write(case.dir(), "events.jsonl", &records(0..RECORDS));
    let text = pipeline(&case, "rolled", "./data", "1h", "events.jsonl", "rolled_back");
    write(case.dir(), "events.yaml", &text);
    let program = binary().expect("the program is built");
    let start = || {
        let output = Command::new(&program)
            .args(["run", "events.yaml", "--drain"])
            .env("XDG_STATE_HOME", case.dir().join("state"))
            .current_dir(case.dir())
            .output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let data = |name: &str| case.dir().join(name);
    let copy = |from: &str, to: &str| {
        let copied = Command::new("cp").arg("-a").arg(data(from)).arg(data(to)).status();
        assert!(copied.expect("cp starts").success());
    };
    assert_eq!(start().0, Some(0));
    copy("data", "older");
    write(case.dir(), "events.jsonl", &records(0..2 * RECORDS));
    assert_eq!(start().0, Some(0));
    assert_eq!(table.count_and_distinct("id"), (2 * RECORDS, 2 * RECORDS));
    std::fs::rename(data("data"), data("newer")).expect("the store");
    copy("older", "data");
    for _ in 0..2 {
        let (code, words) = start();
        assert!(code == Some(4) && words.contains("rolled back to an older copy"), "{code:?} {words}");
    }
    assert_eq!(table.count_and_distinct("id"), (2 * RECORDS, 2 * RECORDS));
    // The way out.
    std::fs::remove_dir_all(data("data")).expect("the store");
    std::fs::rename(data("newer"), data("data")).expect("the store");
    write(case.dir(), "events.jsonl", &records(0..2 * RECORDS + 5));
    assert_eq!(start().0, Some(0));
    assert_eq!(table.count_and_distinct("id"), (2 * RECORDS + 5, 2 * RECORDS + 5));
    // A lane that begins anew is not held against the note of the one before: the table is asked.
    std::fs::remove_dir_all(data("data")).expect("the store");
    table.ask("TRUNCATE TABLE {t}");
    assert_eq!(start().0, Some(0));
    assert_eq!(table.count_and_distinct("id"), (2 * RECORDS + 5, 2 * RECORDS + 5));
}

#[test]
fn a_renamed_pipeline_keeps_its_dead_letters_and_its_old_name_starts_no_more() {
    let Some(case) = Case::begin("renamed") else { return };
    let table = case.table_called("renamed", "id UInt64, at DateTime('UTC')", "id");
    write(case.dir(), "events.jsonl", &(records(0..RECORDS) + "{\"id\":\"no number\"}\n"));
    let text = |name: &str| pipeline(&case, name, "./data", "1h", "events.jsonl", "renamed");
    write(case.dir(), "old.yaml", &text("old"));
    write(case.dir(), "new.yaml", &text("new"));
    let program = binary().expect("the program is built");
    let forebay = |line: &str| {
        let output = Command::new(&program).args(line.split(' ')).current_dir(case.dir()).output();
        let output = output.expect("the program starts");
        let words = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&words).into_owned())
    };
    assert_eq!(forebay("rename old.yaml new").0, Some(2), "it has never run");
    assert_eq!(forebay("run old.yaml --drain").0, Some(0));
    let (code, words) = forebay("rename old.yaml new");
    assert!(code == Some(4) && words.contains("`forebay rename old.yaml new --yes`"), "{code:?} {words}");
    assert_eq!(forebay("rename old.yaml No_Name --yes").0, Some(2));
    let (code, words) = forebay("rename old.yaml new --yes");
    assert!(
        code == Some(0) && words.contains("write `pipeline: new` into the pipeline file"),
        "{code:?} {words}"
    );
    let refused = ["run old.yaml --drain", "check old.yaml --connect"];
    for line in refused {
        let (code, words) = forebay(line);
        assert!(code == Some(4) && words.contains("Write `pipeline: new`"), "{line}: {code:?} {words}");
    }
    assert_eq!(forebay("reset old.yaml --yes").0, Some(4), "the new name's pipeline is not reset by it");
    write(
        case.dir(),
        "events.jsonl",
        &(records(0..RECORDS) + "{\"id\":\"no number\"}\n" + &records(RECORDS..RECORDS + 5)),
    );
    assert_eq!(forebay("run new.yaml --drain").0, Some(0));
    assert_eq!(table.count_and_distinct("id"), (RECORDS + 5, RECORDS + 5));
    let (_, words) = forebay("dead-letters list new.yaml");
    assert!(words.contains("events.jsonl/0/"), "the letter from under the old name: {words}");
    let (code, words) = forebay("verify new.yaml");
    assert_eq!(code, Some(0), "{words}");
    let (_, words) = forebay("list new.yaml");
    assert!(words.contains("old: renamed to new") && words.contains("new: delivered"), "{words}");
    assert_eq!(forebay("store check new.yaml").0, Some(0));
    // The old name is freed, and then it is a new pipeline's, which has no letters yet.
    assert_eq!(forebay("delete old.yaml --yes").0, Some(0));
    assert_eq!(forebay("run new.yaml --drain").0, Some(0));
    let (_, words) = forebay("dead-letters list old.yaml");
    assert!(!words.contains("events.jsonl/0/"), "they are the renamed pipeline's: {words}");
    let (_, words) = forebay("dead-letters list new.yaml");
    assert!(words.contains("events.jsonl/0/"), "{words}");
}

#[test]
fn a_file_source_whose_store_is_lost_asks_before_it_writes_every_row_twice() {
    let Some(case) = Case::begin("lost_store") else { return };
    let table = case.table_called("lost_store", "id UInt64, at DateTime('UTC')", "id");
    write(case.dir(), "events.jsonl", &records(0..RECORDS));
    let text = pipeline(&case, "lost", "./data", "1h", "events.jsonl", "lost_store");
    write(case.dir(), "events.yaml", &text);
    let program = binary().expect("the program is built");
    let start = |more: &[&str]| {
        let command = if more == ["--connect"] { "check" } else { "run" };
        let drain: &[&str] = if command == "run" { &["--drain"] } else { &[] };
        let output = Command::new(&program)
            .args([command, "events.yaml"])
            .args(drain)
            .args(more)
            .current_dir(case.dir())
            .output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(start(&[]).0, Some(0));
    assert_eq!(start(&[]).0, Some(0), "with its journal it goes on");
    std::fs::remove_dir_all(case.dir().join("data")).expect("the store");
    // At once, and again: what refuses has written nothing that would let the next start through.
    for more in [&[][..], &[], &["--connect"]] {
        let (code, words) = start(more);
        assert!(
            code == Some(4) && words.contains("--into-filled-table") && words.contains("TRUNCATE"),
            "{code:?} {words}"
        );
    }
    assert_eq!(table.count_and_distinct("id"), (RECORDS, RECORDS));
    // The first way out: the table is emptied. The second: other rows are there, and the flag says so once.
    table.ask("TRUNCATE TABLE {t}");
    assert_eq!(start(&[]).0, Some(0));
    std::fs::remove_dir_all(case.dir().join("data")).expect("the store");
    table.ask("TRUNCATE TABLE {t}");
    table.ask("INSERT INTO {t} (id, at) VALUES (999999999, 0)");
    assert_eq!(start(&[]).0, Some(4));
    assert_eq!(start(&["--into-filled-table"]).0, Some(0));
    assert_eq!(start(&[]).0, Some(0), "it asks once");
    assert_eq!(table.count_and_distinct("id"), (RECORDS + 1, RECORDS + 1));
}
