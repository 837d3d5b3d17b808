//! The ways out that `list`, `rename`, `reset`, `delete` and `log` print, taken on the real services: commands are run as they were printed.

use std::ops::Range;
use std::process::Command;

use live::Case;
use live::case::binary;
use testkit::{ClickHouseOptions, Pulsar, Service, available, wait_until};

use super::pulsar::{PARTITIONS, send};

const FAULT: i32 = 2;
const FENCED: i32 = 3;
pub(super) const PERSON: i32 = 4;

/// A case with files in its folder, and the program run in it.
pub(super) struct Shell<'c>(pub(super) &'c Case);

impl Shell<'_> {
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.dir().join(name), text).expect("the case's folder can be written");
    }

    /// The pipeline file `NAME.yaml`, from `source` to `table`.
    pub(super) fn pipeline(&self, name: &str, source: &str, table: &str, more: &str) {
        let url = self.0.server().url();
        let text = format!(
            "pipeline: {name}\nstore: ./data\nsource: {source}\nsink: {{ clickhouse: {{ url: \"{url}\", table: {table} }} }}\n\
             http: {{ listen: none }}\n{more}"
        );
        self.write(&format!("{name}.yaml"), &text);
    }

    /// Changes a pipeline file.
    pub(super) fn edit(&self, name: &str, from: &str, to: &str) {
        let path = self.0.dir().join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).expect("it was written");
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).expect("the case's folder can be written");
    }

    /// Runs `forebay LINE`: what it says, if it ends with `code`.
    #[track_caller]
    pub(super) fn says(&self, line: &str, code: i32) -> String {
        let (found, said) = self.run(line);
        assert_eq!(found, code, "`forebay {line}`: {said}");
        said
    }

    /// Runs `forebay LINE`: its exit code, and what it says.
    pub(super) fn run(&self, line: &str) -> (i32, String) {
        let program = binary().expect("the program is built");
        let mut command = Command::new(program);
        command
            .env("NO_COLOR", "1")
            .env_remove("FOREBAY_LOG")
            .env("XDG_STATE_HOME", self.0.dir().join("state"));
        let output = command.args(line.split(' ')).current_dir(self.0.dir()).output().expect("it starts");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code().expect("it ends by itself"), said)
    }

    /// Runs the command that `said` prints and that begins so, with this file in place of `FILE`, to a good end.
    #[track_caller]
    pub(super) fn takes(&self, said: &str, begin: &str, file: &str) -> String {
        let printed = said.split('`').find(|part| part.starts_with(begin));
        let line =
            printed.unwrap_or_else(|| panic!("`{begin}` in {said}")).replace("FILE", file).replace('\'', "");
        let needs_yes = ["forebay forget", "forebay reset"].iter().any(|ask| line.starts_with(ask))
            && !line.contains("--yes");
        let line = if needs_yes { line + " --yes" } else { line };
        self.says(line.strip_prefix("forebay ").expect("a command of the program"), 0)
    }
}

#[track_caller]
pub(super) fn has(said: &str, words: &str) {
    assert!(said.contains(words), "`{words}` in {said}");
}

fn lines(ids: Range<u64>) -> String {
    ids.map(|id| format!("{{\"id\":{id}}}\n")).collect()
}

/// Deletes a subscription that nobody uses.
#[track_caller]
fn forget(pulsar: &Pulsar, subscription: &str) {
    for partition in 0..PARTITIONS {
        let path =
            format!("/persistent/public/default/ways-partition-{partition}/subscription/{subscription}");
        let answer = pulsar.admin("DELETE", &path, "").expect("Pulsar answers");
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
}

const FILE: &str = "{ file: { paths: [\"events.jsonl\"] } }";

#[test]
fn every_way_out_of_a_rename_is_one() {
    let Some(case) = Case::begin("ways_rename") else { return };
    let shell = Shell(&case);
    let [table, other] = ["ways_rename", "ways_other"].map(|name| case.table_called(name, "id UInt64", "id"));
    shell.write("events.jsonl", &lines(0..100));
    shell.pipeline("one", FILE, "ways_rename", "");
    shell.pipeline("taken", FILE, "ways_other", "");

    // One that has never run: the name is written into the file.
    let said = shell.says("rename one.yaml two", FAULT);
    has(&said, "write the new name into the pipeline file, and nothing else is needed");
    shell.edit("one", "pipeline: one", "pipeline: two");
    shell.says("run one.yaml --drain", 0);
    shell.says("run taken.yaml --drain", 0);

    // A name that is taken: another one, or the other pipeline goes first.
    let said = shell.says("rename one.yaml taken --yes", FAULT);
    has(&said, "choose another name, or take that pipeline out of the store first");
    shell.says("rename one.yaml three --yes", 0);
    shell.edit("one", "pipeline: two", "pipeline: three");
    shell.takes(&said, "forebay delete", "taken.yaml");
    let planned = shell.says("rename one.yaml taken", PERSON);
    has(&planned, "Nothing was changed. To do it:");
    let done = shell.takes(&planned, "forebay rename", "one.yaml");
    has(&done, "write `pipeline: taken` into the pipeline file");

    // The old name is not renamed, reset or moved once more.
    let said = shell.says("rename one.yaml four --yes", FAULT);
    has(&said, "was renamed to `taken`, so nothing was changed: rename that one");
    let said = shell.says("reset one.yaml --yes", PERSON);
    has(&said, "write `pipeline: taken` into the pipeline file, and reset that one");
    shell.edit("one", "pipeline: three", "pipeline: taken");
    shell.says("rename one.yaml four --yes", 0);
    shell.edit("one", "pipeline: taken", "pipeline: four");
    shell.write("events.jsonl", &lines(0..130));
    shell.says("run one.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (130, 130));

    // One that died before its last record: nothing else is possible, and the same command finishes it.
    shell.says("rename one.yaml five --yes", 0);
    let journal = case.dir().join("data/four/lane-0/journal");
    for line in ["delete one.yaml --yes", "reset one.yaml --yes"] {
        let records =
            std::fs::read_dir(&journal).expect("a journal").map(|entry| entry.expect("a record").path());
        std::fs::remove_file(records.max().expect("a record")).expect("the rename's end is taken back");
        let said = shell.says(line, PERSON);
        has(
            &said,
            "is being renamed to `five`, and what is read and in flight may still lie under the old name: finish it first",
        );
        shell.says("run one.yaml --drain", PERSON);
        shell.takes(&said, "forebay rename", "one.yaml");
    }
    shell.edit("one", "pipeline: four", "pipeline: five");
    shell.says("reset one.yaml --yes", 0);
    assert_eq!(other.count(), 100);
}

#[test]
fn every_way_out_of_a_reset_and_a_delete_is_one() {
    let Some(case) = Case::begin("ways_reset") else { return };
    let shell = Shell(&case);
    let table = case.table_called("ways_reset", "id UInt64", "id");
    shell.write("events.jsonl", &lines(0..100));
    shell.pipeline("one", FILE, "ways_reset", "");
    shell.says("run one.yaml --drain", 0);

    // Files have no times, and a position may lie within a line.
    for to in ["2026-01-31T08:00:00Z", "events.jsonl/0=10"] {
        let said = shell.says(&format!("reset one.yaml --to {to} --yes"), FAULT);
        has(&said, "use `--to earliest` or `--to latest`");
    }
    shell.says("reset one.yaml --to latest --yes", 0);
    let planned = shell.says("reset one.yaml --to earliest", PERSON);
    has(&planned, "rows that are in the tables already are written a second time: delete them first");
    has(&planned, "To do it, add `--yes`");
    table.ask("TRUNCATE TABLE {t}");
    shell.says("reset one.yaml --to earliest --yes", 0);
    shell.says("run one.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (100, 100));

    // The whole of it.
    let planned = shell.says("reset one.yaml", PERSON);
    let (_, empty) = planned.split_once("empty the table first (`").expect("what to do first");
    table.ask(empty.split_once("`)").expect("a statement").0);
    shell.takes(&planned, "forebay reset", "one.yaml");
    shell.says("run one.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (100, 100));

    let planned = shell.says("delete one.yaml", PERSON);
    shell.takes(&planned, "forebay delete", "one.yaml");
    has(&shell.says("list one.yaml", 0), "no pipeline in this store");
}

/// The files below a folder, with what is in them.
fn contents(folder: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
    all
}

#[test]
fn a_store_of_an_earlier_format_is_refused_by_its_name_and_nothing_in_it_is_touched() {
    let Some(case) = Case::begin("ways_format") else { return };
    let (shell, table) = (Shell(&case), case.table_called("ways_format", "id UInt64", "id"));
    shell.write("events.jsonl", &lines(0..100));
    shell.pipeline("one", FILE, "ways_format", "");
    shell.says("run one.yaml --drain", 0);
    for record in std::fs::read_dir(case.dir().join("data/one/lane-0/journal")).expect("a journal") {
        let path = record.expect("a record").path();
        let mut bytes = std::fs::read(&path).expect("a record");
        assert!(bytes.starts_with(b"FBJ5"), "the test knows the present format");
        bytes[3] = b'4';
        std::fs::write(&path, bytes).expect("it is ours");
    }
    shell.write("events.jsonl", &lines(0..130));
    let before = contents(&case.dir().join("data"));
    for line in ["run one.yaml --drain", "check one.yaml --connect"] {
        let (code, said) = shell.run(line);
        assert_ne!(code, 0, "{line}: {said}");
        has(&said, "has format `FBJ4`, and this program reads `FBJ5`: an earlier program wrote this store");
        has(&said, "Finish with that program: `forebay run FILE --drain`");
        if line.starts_with("run") {
            assert_eq!(code, PERSON, "{said}");
        }
    }
    assert!(contents(&case.dir().join("data")) == before, "something in the store was changed");
    assert_eq!(table.count(), 100);
    // The way out, once that program has delivered what it had sealed: an empty store, and what came since.
    shell.edit("one", "store: ./data", "store: ./fresh");
    shell.write("events.jsonl", &lines(100..130));
    shell.says("run one.yaml --drain --into-filled-table", 0);
    assert_eq!(table.count_and_distinct("id"), (130, 130));
}

#[test]
fn what_is_sealed_is_delivered_before_a_pipeline_is_moved_reset_or_deleted() {
    let Some(mut case) = Case::with_own_server("ways_sealed", ClickHouseOptions::default()) else { return };
    let table = case.table("id UInt64", "id");
    case.feed().send(lines(0..30).lines());
    let pipeline = case.pipeline();
    let mut running = pipeline.run();
    table.wait_for(30);
    case.own_server().kill9().expect("the server dies");
    case.feed().send(lines(30..80).lines());
    wait_until(live::PATIENCE, "all is sealed", || {
        pipeline.accounts().read == 80 && pipeline.pending_frames() > 0
    });
    running.kill9().expect("the program dies");
    case.own_server().restart().expect("the server comes back");
    let moved = pipeline.run_tool(&["reset"], &["--to", "earliest", "--yes"]);
    has(&moved.stderr, "nothing was moved. Deliver them first: `forebay run FILE --drain`");
    for command in ["reset", "delete"] {
        let planned = pipeline.run_tool(&[command], &[]);
        has(&planned.stdout, "to deliver them first: `forebay run FILE --drain`");
    }
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (80, 80));
    pipeline.tool(&["reset"], &["--to", "earliest", "--yes", "--json"], 0);
    let planned = pipeline.run_tool(&["delete"], &[]).stdout;
    assert!(!planned.contains("deliver them first"), "{planned}");
}

#[test]
fn a_process_that_runs_is_stopped_before_its_pipeline_is_changed() {
    let Some(case) = Case::begin("ways_running") else { return };
    let table = case.table("id UInt64", "id");
    case.feed().send(lines(0..30).lines());
    let pipeline = case.pipeline();
    pipeline.drain();
    assert_eq!(table.count(), 30);
    let running = pipeline.run();
    pipeline.wait_for_live("the program reads", serde_json::Value::is_object);
    for (before, after) in [
        (&["reset"][..], &["--yes"][..]),
        (&["delete"], &["--yes"]),
        (&["rename"], &["ways-stopped", "--yes"]),
        (&["reset"], &["--to", "latest", "--yes"]),
    ] {
        pipeline.tool_fails(before, after, FENCED, "stop it first");
    }
    // Some may be ended by the command itself.
    let output = pipeline.run_tool(&["reset"], &["--to", "latest", "--yes"]);
    has(&output.stderr, "or run this with `--take-over`, which ends it");
    let output = pipeline.run_tool(&["reset"], &["--to", "latest", "--yes", "--take-over"]);
    assert!(output.exit.status.success(), "{}", output.stderr);
    live::pipeline::term(running);
    let output = pipeline.run_tool(&["rename"], &["ways-stopped", "--yes"]);
    assert!(output.exit.status.success(), "{}", output.stderr);
}

#[test]
fn a_window_is_read_again_once_what_it_remembers_is_given_up() {
    let Some(case) = Case::begin("ways_window") else { return };
    let table = case.table_called("ways_window", "id UInt64, window_start DateTime64(3), n UInt64", "id");
    let shell = Shell(&case);
    let record = |id: u64| format!("{{\"id\":{id},\"at\":\"2026-05-01 10:{id:02}:00\"}}\n");
    shell.write("events.jsonl", &(0..40).map(record).collect::<String>());
    let window = |name: &str, key: &str| {
        format!("  - window: {{ as: {name}, key: [{key}], size: 1m, aggregates: {{ n: count() }} }}\n")
    };
    let source =
        "{ file: { paths: [\"events.jsonl\"] }, fields: { id: UInt64, at: DateTime64(3) }, time: at }";
    shell.pipeline("one", source, "ways_window", &format!("steps:\n{}", window("minutes", "id")));
    shell.says("run one.yaml --drain", 0);
    let before = table.count();
    let said = shell.says("reset one.yaml --to earliest --yes", PERSON);
    has(&said, "results that are in the table already are written again, so delete those first");
    let flags = said.split('`').find(|part| part.starts_with("--new-state")).expect("what to add");
    table.ask("TRUNCATE TABLE {t}");
    shell.says(&format!("reset one.yaml --to earliest {flags} --yes"), 0);
    shell.says("run one.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (before, before));

    // Of two windows both are named, or none.
    let source = source.replace("events.jsonl", "two.jsonl");
    shell.write("two.jsonl", &(0..40).map(record).collect::<String>());
    let behind = "  - window: { as: hours, key: [id], size: 1h, aggregates: { n: sum(n) } }\n";
    shell.pipeline("two", &source, "ways_window", &format!("steps:\n{}{behind}", window("minutes", "id")));
    shell.says("run two.yaml --drain --into-filled-table", 0);
    let said = shell.says("reset two.yaml --to latest --new-state window --yes", FAULT);
    has(&said, "name all of them with `--new-state`, or none: `window`, `window.2`");
    shell.says("reset two.yaml --to latest --yes", 0);
    shell.says("reset two.yaml --to latest --new-state window --new-state window.2 --yes", 0);
}

#[test]
fn what_a_source_remembers_of_a_reader_is_told_before_a_reset() {
    let Some(case) = Case::begin("ways_readers") else { return };
    let shell = Shell(&case);
    let table = case.table_called("ways_readers", "id UInt64", "id");
    let again = |name: &str, said: &str, words: &str, from: &str, to: &str| {
        has(said, words);
        shell.says(&format!("reset {name}.yaml --yes"), 0);
        table.ask("TRUNCATE TABLE {t}");
        let refused = shell.says(&format!("run {name}.yaml --drain"), PERSON);
        has(&refused, "the store was lost");
        shell.edit(name, from, to);
        shell.says(&format!("run {name}.yaml --drain"), 0);
        assert_eq!(table.count_and_distinct("id"), (600, 600), "{name}");
        table.ask("TRUNCATE TABLE {t}");
    };

    case.feed().send(lines(0..600).lines());
    let brokers = case.kafka().bootstrap();
    let source = format!("{{ kafka: {{ brokers: \"{brokers}\", topic: ways_readers, group: first }} }}");
    shell.pipeline("kafka", &source, "ways_readers", "");
    shell.says("run kafka.yaml --drain", 0);
    let said = shell.says("reset kafka.yaml", PERSON);
    again("kafka", &said, "give the source another `group`", "group: first", "group: second");

    shell.write("lines", &lines(0..600));
    let append = format!("'{}' log append ./log < lines", binary().expect("built").display());
    let done = Command::new("sh").args(["-c", &append]).current_dir(case.dir()).status().expect("a shell");
    assert!(done.success());
    shell.pipeline("log", "{ log: { url: ./log, consumer: first } }", "ways_readers", "");
    shell.says("run log.yaml --drain", 0);
    let said = shell.says("reset log.yaml", PERSON);
    has(&said, "take this one out (`forebay log truncate LOG --forget-consumer NAME`)");
    again("log", &said, "give the source another `consumer`", "consumer: first", "consumer: second");
    has(&shell.says("log ls ./log", 0), "first");
    shell.says("log truncate ./log --forget-consumer first", 0);
    assert!(!shell.says("log ls ./log", 0).contains("first"));
    // Records that the pipeline has not acknowledged.
    let append =
        || Command::new("sh").args(["-c", &append]).current_dir(case.dir()).status().expect("a shell");
    assert!(append().success());
    let said = shell.says("log truncate ./log --before 900", 1);
    has(&said, "consumer `second` has acknowledged 600 only");
    has(&said, "wait for it, truncate before 600, or use --force");
    has(&shell.says("log truncate ./log --before 600", 0), "600 to 1200");
    shell.says("run log.yaml --drain", 0);
    has(&shell.says("log truncate ./log --before 900", 0), "900 to 1200");
    assert!(append().success());
    has(&shell.says("log truncate ./log --before 1500 --force", 0), "1500 to 1800");
    let said = shell.says("run log.yaml --drain", PERSON);
    has(&said, "position 1200 is no longer held");
    has(&shell.takes(&said, "forebay reset", "log.yaml"), "from 1200 to 1500: 300 positions are never read");
    has(&shell.says("run log.yaml --drain", 0), "300");
    table.ask("TRUNCATE TABLE {t}");

    // Of a pipeline that has another name, and of one that is gone: both commands are printed.
    shell.edit("log", ", consumer: second", "");
    assert!(append().success());
    shell.says("run log.yaml --drain", 0);
    let renamed = shell.says("rename log.yaml other --yes", 0);
    shell.edit("log", "pipeline: log", "pipeline: other");
    assert!(append().success());
    shell.says("run log.yaml --drain", 0);
    has(&shell.takes(&renamed, "forebay log ls", ""), "consumer   other:");
    shell.takes(&renamed, "forebay log truncate", "");
    let planned = shell.says("delete log.yaml", PERSON);
    shell.says("delete log.yaml --yes", 0);
    shell.takes(&planned, "forebay log truncate", "");
    assert!(!shell.says("log ls ./log", 0).contains("consumer   other:"));
    table.ask("TRUNCATE TABLE {t}");

    if !available(&[Service::Pulsar]) {
        return;
    }
    let pulsar = case.pulsar();
    pulsar.create_topic("ways", PARTITIONS).expect("a topic");
    send(pulsar, "ways", 0..600);
    let source =
        format!("{{ pulsar: {{ service: '{}', topic: ways, subscription: first }} }}", pulsar.service());
    shell.pipeline("pulsar", &source, "ways_readers", "");
    shell.says("run pulsar.yaml --drain", 0);
    let said = shell.says("reset pulsar.yaml", PERSON);
    has(&said, "and delete this one, for brokers keep what it has not acknowledged");
    again(
        "pulsar",
        &said,
        "give the source another `subscription`",
        "subscription: first",
        "subscription: second",
    );
    forget(pulsar, "first");

    // A name of its own follows the pipeline's.
    shell.edit("pulsar", ", subscription: second", "");
    shell.edit("pulsar", "pipeline: pulsar", "pipeline: alone");
    table.ask("TRUNCATE TABLE {t}");
    shell.says("run pulsar.yaml --drain", 0);
    let said = shell.says("rename pulsar.yaml other --yes", 0);
    has(&said, "is called `forebay-other` from the next run on; delete `forebay-alone`");
    shell.edit("pulsar", "pipeline: alone", "pipeline: other");
    shell.says("run pulsar.yaml --drain", 0);
    forget(pulsar, "forebay-alone");
    send(pulsar, "ways", 600..690);
    shell.says("run pulsar.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (690, 690));
}
