//! What the program says: how a run ended, whether it is ready, what a check finds, and what `verify` makes of letters that are gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use live::case::binary;
use live::{Case, Table};
use serde_json::Value;
use testkit::{FaultProxy, Output, Spawn, wait_until};

const LONG: Duration = live::PATIENCE;

/// A pipeline from a file into a table of the case.
struct Files {
    dir: PathBuf,
    name: String,
    url: String,
    table: Table,
    steps: &'static str,
    more: String,
}

impl Files {
    fn new(case: &Case, columns: &str) -> Files {
        let table = case.table(columns, "id");
        let (dir, url) = (case.dir().to_owned(), case.server().url());
        Files { dir, name: case.name().replace('_', "-"), url, table, steps: "", more: String::new() }
    }

    fn input(&self) -> PathBuf {
        self.dir.join("in.jsonl")
    }

    fn records(&self, records: impl IntoIterator<Item = String>) {
        let text: String = records.into_iter().map(|record| record + "\n").collect();
        fs::write(self.input(), text).expect("the case's folder can be written");
    }

    fn write(&self) -> PathBuf {
        let path = self.dir.join("pipeline.yaml");
        let text = format!(
            "pipeline: {}\nstore: {}\nsource: {{ file: {{ paths: {} }} }}\n{}sink:\n  clickhouse:\n    url: {}\n    table: {}\n\
             {}",
            self.name,
            self.dir.join("store").display(),
            self.input().display(),
            self.steps,
            self.url,
            self.table.name().trim_start_matches("default."),
            self.more
        );
        fs::write(&path, text).expect("the case's folder can be written");
        path
    }

    fn ask(&self, before: &[&str], after: &[&str]) -> Output {
        let file = self.write();
        let spawn =
            Spawn::new(&format!("{}-{}", self.name, before.join("-")), binary().expect("the program"));
        let spawn = spawn.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").cwd(&self.dir);
        spawn.args(before).arg(file).args(after).run(&self.dir, LONG).expect("the program ends")
    }

    fn drain(&self) -> (Option<i32>, String) {
        let output = self.ask(&["run"], &["--drain"]);
        (output.exit.status.code(), output.stderr)
    }

    /// What a check says, whose code must be that of the run after it.
    #[track_caller]
    fn check_and_run(&self, what: &str) -> Value {
        let checked = self.ask(&["check"], &["--connect", "--json", "--sample", "10"]);
        let (code, log) = self.drain();
        assert_eq!(checked.exit.status.code(), code, "{what}: {}{log}", checked.stdout);
        let report: Value = serde_json::from_str(&checked.stdout).expect("JSON");
        report["files"][0].clone()
    }

    /// The verdict of `verify --json`.
    #[track_caller]
    fn verify(&self) -> Value {
        let output = self.ask(&["verify"], &["--json"]);
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}{}", output.stdout, output.stderr))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

#[test]
fn a_run_of_dead_letters_says_so_and_ends_with_5() {
    let Some(case) = Case::begin("told_letters") else { return };
    let mut files = Files::new(&case, "id UInt64, amount UInt8");
    files.more = "http: { listen: none }\n".into();
    files.records((0..9_999).map(|id| format!(r#"{{"id":{id},"amount":"none"}}"#)));
    let (code, log) = files.drain();
    assert_eq!(code, Some(5), "{log}");
    assert!(log.contains("9999 records read, 0 rows written, 9999 dead letters"), "{log}");
    assert!(!log.contains("all of it is in the table"), "{log}");
    // A second start reads nothing and has nothing to complain of.
    let (code, log) = files.drain();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("nothing new was read"), "{log}");
    // One more than a hundredth.
    files.name += "-share";
    files.more += "dead_letters: { fail_above: 1% }\n";
    let bad = |id: u32, bad: u32| if id < bad { "999" } else { "1" };
    files.records((0..1_000).map(|id| format!(r#"{{"id":{id},"amount":{}}}"#, bad(id, 11))));
    let (code, log) = files.drain();
    assert_eq!(code, Some(5), "{log}");
    assert!(log.contains("989 rows written") && log.contains("more than the 1%"), "{log}");
}

#[test]
fn a_run_whose_table_has_changed_in_the_middle_ends_with_what_became_of_all_its_records() {
    let Some(case) = Case::begin("told_reopened") else { return };
    let table = case.table("id UInt32, v UInt8", "id");
    let feed = case.feed();
    feed.send((0..100).map(|id| format!(r#"{{"id":{id},"v":{}}}"#, if id < 90 { "999" } else { "1" })));
    let pipeline = case.pipeline().more("dead_letters: { fail_above: 1% }\n");
    let mut running = pipeline.run();
    table.wait_for(10);
    table.ask("ALTER TABLE {t} ADD COLUMN w UInt8");
    // It is opened again for the new column, and reads on.
    let mut sent = 100;
    wait_until(live::PATIENCE, "the new column to be read", || {
        feed.send([format!(r#"{{"id":{sent},"v":1,"w":5}}"#)]);
        sent += 1;
        table.wait_for(sent - 90);
        table.value("SELECT max(w) FROM {t}") == "5"
    });
    running.term().expect("SIGTERM");
    let (exit, log) = live::pipeline::ended(running);
    assert_eq!(exit.status.code(), Some(5), "{log}");
    assert!(log.contains(&format!("90 of the {sent} records read became dead letters")), "{log}");
}

#[test]
fn a_check_ends_with_the_code_of_a_run_and_names_what_stands_against_it() {
    let Some(case) = Case::begin("told_check") else { return };
    let mut files = Files::new(&case, "id UInt64, amount UInt8");
    files.more = "http: { listen: none }\n".into();
    files.steps = "steps: [ { dedup: { key: [id], window: unbounded } } ]\n";
    files.records((0..100).map(|id| format!(r#"{{"id":{id},"amount":{}}}"#, if id == 3 { 999 } else { 1 })));
    let said = files.check_and_run("all is well");
    let sample = said["start"]["sample"]["records"].as_array().expect("a sample").clone();
    assert_eq!(sample.len(), 10, "{said:#}");
    let rows = sample[0]["rows"].as_object().expect("a row for each table that takes it");
    let ids: Vec<_> = rows.values().map(|row| &row["id"]).collect();
    assert_eq!((&sample[0]["becomes"], ids), (&"row".into(), vec![&0.into()]), "{said:#}");
    assert_eq!(
        (&sample[3]["becomes"], &sample[3]["reason"]),
        (&"dead_letter".into(), &"out_of_range".into())
    );
    assert_eq!(
        said["start"]["creates"].as_array().map(Vec::len),
        Some(1),
        "the dead letters' table: {said:#}"
    );
    assert_eq!(files.table.count(), 99);

    let said = files.check_and_run("nothing new");
    assert_eq!(
        (&said["start"]["source"]["lag"], &said["start"]["sample"]["is_new"]),
        (&0.into(), &false.into())
    );

    let names = |said: &Value, words: &str, line: u64| {
        let findings = said["findings"].as_array().cloned().unwrap_or_default();
        let fits = |f: &Value| f["message"].as_str().is_some_and(|m| m.contains(words)) && f["line"] == line;
        assert!(findings.iter().any(fits), "`{words}` in line {line}: {said:#}");
    };
    let steps = files.steps;
    files.steps = "steps: [ { dedup: { key: [amount], window: unbounded } } ]\n";
    names(&files.check_and_run("another key"), "it was made with key", 4);
    files.steps = "";
    names(&files.check_and_run("no step"), "is no longer in the file", 1);
    files.steps = steps;
    let more = files.more.clone();
    files.more += "columns: { nope: a, neither: b }\n";
    let said = files.check_and_run("unknown columns");
    names(&said, "no column `nope`", 10);
    names(&said, "no column `neither`", 10);
    files.more = more;
    fs::rename(files.input(), files.dir.join("away.jsonl")).expect("renamed");
    // It was read to its end, so it may go; a pipeline that has not read it cannot start without it.
    assert_eq!(files.check_and_run("no file")["ok"], true);
    let name = std::mem::replace(&mut files.name, "told-check-anew".into());
    names(&files.check_and_run("no file at the first start"), "does not exist", 3);
    files.name = name;
    fs::rename(files.dir.join("away.jsonl"), files.input()).expect("renamed");

    let (store, kept) = (files.dir.join("store"), files.dir.join("kept"));
    copy(&store, &kept);
    let journal = store.join(&files.name).join("lane-0/journal");
    let newest = fs::read_dir(&journal).expect("a journal").map(|e| e.expect("an entry").path()).max();
    let newest = newest.expect("a record");
    let mut bytes = fs::read(&newest).expect("a record");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&newest, bytes).expect("damaged");
    names(&files.check_and_run("a damaged journal"), "is damaged", 2);
    fs::remove_dir_all(&store).expect("removed");
    copy(&kept, &store);
    files.table.ask("ALTER TABLE {t} MODIFY SETTING non_replicated_deduplication_window = 0");
    names(&files.check_and_run("no tokens"), "does not remember insert tokens", 8);
}

#[test]
fn the_process_is_ready_only_while_rows_can_flow() {
    let Some(case) = Case::begin("told_ready") else { return };
    let table = case.table("id UInt64", "id");
    let feed = case.feed();
    feed.push(0, br#"{"id":1}"#);
    feed.flush();
    let pipeline = case.pipeline();
    let running = pipeline.run();
    table.wait_for(1);
    let ready = || pipeline.ready().unwrap_or_default();
    wait_until(LONG, "it to be ready", || ready().0 == 200);
    table.ask("ALTER TABLE {t} ADD CONSTRAINT none CHECK 0");
    table.ask("ALTER TABLE {t} MODIFY SETTING non_replicated_deduplication_window = 0");
    feed.push(0, br#"{"id":2}"#);
    feed.flush();
    // The insert under way is refused first; the look behind it shows that the table is another.
    wait_until(LONG, "it not to be ready", || {
        let (code, said) = ready();
        code == 503 && said.contains("told_ready: table_differs: ") && said.contains("way out: ")
    });
    table.ask("ALTER TABLE {t} DROP CONSTRAINT none");
    table.ask("ALTER TABLE {t} MODIFY SETTING non_replicated_deduplication_window = 10000");
    table.wait_for(2);
    wait_until(LONG, "it to be ready again", || ready().0 == 200);
    drop(running);
}

/// A profile with `limit = 1` would make rows appear missing, and letters too.
#[test]
fn the_questions_of_verify_and_of_dead_letters_name_the_settings_by_which_an_answer_is_whole() {
    let Some(case) = Case::begin("told_whole") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let mut files = Files::new(&case, "id UInt64, amount UInt8");
    files.url = proxy.url();
    files.more = "    unique_key: [id]\nhttp: { listen: none }\n".into();
    files.records((0..300).map(|id| format!(r#"{{"id":{id},"amount":{id}}}"#)));
    assert_eq!(files.drain().0, Some(0));
    let before = proxy.seen().len();
    assert_eq!(files.verify()["right"], true);
    let listed = files.ask(&["dead-letters", "list"], &["--json"]);
    assert!(listed.exit.status.success() && listed.stdout.lines().count() == 44, "{}", listed.stdout);
    let asked = proxy.seen();
    let name = format!("`{}`", files.table.name().trim_start_matches("default."));
    let is_letters = |sql: &str| sql.contains("toUnixTimestamp64Milli(time)");
    let is_own = |sql: &str| {
        sql.starts_with("SELECT") && ((sql.contains(&name) && sql.contains("xxh3")) || is_letters(sql))
    };
    let questions: Vec<_> = asked[before..].iter().filter(|seen| is_own(&seen.query)).collect();
    assert!(questions.iter().any(|seen| seen.query.contains("xxh3")), "the table was asked for its keys");
    assert!(questions.iter().any(|seen| is_letters(&seen.query)), "the letters were read");
    for (seen, name) in
        questions.iter().flat_map(|seen| ["limit", "offset", "final"].map(|name| (seen, name)))
    {
        let value = seen.parameters.iter().find(|(named, _)| named == name).map(|(_, value)| value.as_str());
        assert_eq!(value, Some("0"), "{name} in `{}`", seen.query);
    }
}

#[test]
fn verify_is_right_after_a_fix_a_replay_and_a_purge() {
    let Some(case) = Case::begin("told_verify") else { return };
    let mut files =
        Files::new(&case, "id UInt64, k UInt32 DEFAULT 3 + 4, amount UInt8, CONSTRAINT c CHECK id != 5");
    files.more = "    unique_key: [id, k]\nhttp: { listen: none }\n".into();
    let record = |id: u32| {
        let k = if id % 3 == 0 { format!(r#","k":{id}"#) } else { String::new() };
        format!(r#"{{"id":{id},"amount":{}{k}}}"#, id % 512)
    };
    files.records((0..1_000).map(record));
    assert_eq!(files.drain().0, Some(0));
    let right = |what: &str| {
        let said = files.verify();
        assert_eq!((&said["right"], &said["missing"]["keys"]), (&true.into(), &0.into()), "{what}: {said:#}");
    };
    right("a key column with a DEFAULT that two records in three leave out");
    let purge = |args: &[&str]| assert!(files.ask(&["dead-letters", "purge"], args).exit.status.success());
    purge(&["--reason", "refused", "--yes"]);
    right("the letter of a refused row was purged");
    files.table.ask("ALTER TABLE {t} MODIFY COLUMN amount UInt16");
    right("records that would be rows by now");
    let replayed = files.ask(&["dead-letters", "replay"], &["--json"]);
    assert!(replayed.exit.status.success(), "nobody ran it: {}", replayed.stderr);
    assert_eq!(files.table.count(), 999);
    right("replayed without dedup");
    purge(&["--all", "--yes"]);
    right("all letters were purged");
    // What is really gone is missed all the same.
    files.table.ask("ALTER TABLE {t} DELETE WHERE id IN (1, 700) SETTINGS mutations_sync = 1");
    assert_eq!(files.verify()["missing"]["keys"], 2);
}
