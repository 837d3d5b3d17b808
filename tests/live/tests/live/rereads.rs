//! Dead letters of records that are read again: after `reset`, after `reset --to`, and of a name that another pipeline had.

use std::fs;
use std::process::Command;

use live::case::binary;
use live::{Case, Pipeline, Table};
use serde_json::Value;

/// `reset --to` without `--yes`, and others that ask for a decision.
const PERSON: i32 = 4;

/// Ten records: `v` of three does not fit a `UInt8`, and one is broken for ever.
fn write_records(case: &Case, name: &str) {
    let lines = (0..10).map(|id| match id {
        3 => "{\"id\":3,\"v\":\"many\"}\n".to_owned(),
        _ => format!("{{\"id\":{id},\"v\":{}}}\n", if id > 6 { 1_000 + id } else { id }),
    });
    fs::write(case.dir().join(name), lines.collect::<String>()).expect("a file");
}

fn lines(output: &str) -> Vec<Value> {
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("`{line}` is no JSON")))
        .collect()
}

/// Runs `replay` with an end of that code; gives the results' words, and what was said of letters that are passed over.
#[track_caller]
fn replay(pipeline: &Pipeline, args: &[&str], code: i32) -> (Vec<String>, Option<u64>) {
    let output = pipeline.dead_letters("replay", &[&["--json"], args].concat());
    assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
    let words = lines(&output.stdout)
        .iter()
        .map(|line| line["result"].as_str().expect("a word").to_owned())
        .collect();
    let passed = output.stderr.lines().find(|line| line.contains("more are older than a `reset`"));
    let passed = passed.map(|line| {
        let number = line.split_whitespace().find_map(|word| word.parse().ok());
        number.unwrap_or_else(|| panic!("no number: {line}"))
    });
    (words, passed)
}

/// The letters as listed: name, and whether their records are read again.
fn listed(pipeline: &Pipeline) -> Vec<(String, bool)> {
    let letters = lines(&pipeline.dead_letters("list", &["--json"]).stdout);
    let mut listed: Vec<_> = letters
        .iter()
        .map(|one| (one["id"].as_str().expect("a name").to_owned(), one["read_again"] == Value::Bool(true)))
        .collect();
    listed.sort();
    listed
}

fn widen(table: &Table) {
    table.ask("ALTER TABLE {t} MODIFY COLUMN v UInt32");
}

/// A table, a pipeline of one file that has read it, and its four letters.
fn begun(case: &Case) -> (Table, Pipeline) {
    write_records(case, "a.jsonl");
    let table = case.table("id UInt32, v UInt8", "id");
    // A run that reads nothing but a broken record is none that has failed here.
    let pipeline = case.pipeline().files("a.jsonl").more("dead_letters: { fail_above: 100% }");
    pipeline.drain();
    assert_eq!((table.count(), table.dead_letters().count()), (6, 4));
    (table, pipeline)
}

#[test]
fn after_a_reset_only_letters_of_the_new_reading_are_replayed() {
    let Some(case) = Case::begin("reread_reset") else { return };
    let (table, pipeline) = begun(&case);
    assert_eq!(replay(&pipeline, &[], 1), (vec!["dead_letter".to_owned(); 4], None));
    widen(&table);
    table.ask("TRUNCATE TABLE {t}");
    let said = pipeline.run_tool(&["reset"], &["--yes"]);
    assert!(
        said.stdout.contains("8 dead letters in") && said.stdout.contains("purge FILE --all"),
        "{}",
        said.stdout
    );
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (9, 9));
    // The first four, the same after a replay, and the broken one's new letter.
    let now = listed(&pipeline);
    let of_before: Vec<bool> = now.iter().map(|(_, is_read_again)| *is_read_again).collect();
    assert_eq!((now.len(), of_before.iter().filter(|is| **is).count()), (9, 8), "{now:?}");
    // The new one alone is replayed, and fails again at a place of the log that no letter names yet.
    assert_eq!(replay(&pipeline, &[], 1), (vec!["dead_letter".to_owned()], Some(8)));
    assert_eq!(listed(&pipeline).iter().filter(|(name, _)| name == "@replays/0/4").count(), 1);
    assert_eq!(table.count_and_distinct("id"), (9, 9));
    pipeline.tool(&["verify"], &["--key", "id", "--json"], 0);
    // All the same, if it is asked for.
    let (again, _) = replay(&pipeline, &["--again", "--position", "80.."], 0);
    assert_eq!(again, vec!["written"; again.len()]);
    assert_eq!(table.count_and_distinct("id"), (9 + again.len() as u64, 9));
}

#[test]
fn after_a_move_back_letters_of_positions_that_are_read_again_are_passed_over() {
    let Some(case) = Case::begin("reread_moved") else { return };
    let (table, pipeline) = begun(&case);
    widen(&table);
    // Records that wait in the replay log would be written beside their second reading.
    replay(&pipeline, &["--no-wait", "--limit", "1"], 0);
    pipeline.tool_fails(&["reset"], &["--to", "earliest", "--yes"], PERSON, "wait to be replayed");
    pipeline.drain();
    let said = pipeline.tool(&["reset"], &["--to", "earliest", "--json", "--yes"], 0);
    assert!(
        said["means"].to_string().contains("4 dead letters are of records that are read again"),
        "{said}"
    );
    table.ask("TRUNCATE TABLE {t}");
    // Not read yet, and known all the same.
    assert_eq!(replay(&pipeline, &["--where", "source != '@replays'"], 0), (vec![], Some(4)));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (9, 9));
    let (results, passed) = replay(&pipeline, &[], 1);
    assert_eq!((results, passed), (vec!["dead_letter".to_owned()], Some(5)));
    assert_eq!(table.count_and_distinct("id"), (9, 9));
    // A move back that is taken back before a run leaves the letters as they were.
    let at = fs::metadata(case.dir().join("a.jsonl")).expect("the file").len();
    pipeline.tool(&["reset"], &["--to", "earliest", "--json", "--yes"], 0);
    let said = pipeline.tool(&["reset"], &["--to", "latest", "--json", "--yes"], 0);
    assert_eq!(said["moves"][0]["to"], at, "{said}");
    let (results, passed) = replay(&pipeline, &[], 1);
    assert_eq!((results.len(), passed), (2, Some(5)), "earlier results are told");
}

/// Runs the program in the case's folder; gives what it prints and how it says it.
#[track_caller]
fn run(case: &Case, args: &[&str], code: i32) -> (String, String) {
    let program = binary().expect("the program is built");
    let state = case.dir().join("state");
    let output =
        Command::new(program).args(args).env("XDG_STATE_HOME", state).current_dir(case.dir()).output();
    let output = output.expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}:\n{out}\n{err}");
    (out, err)
}

#[test]
fn letters_of_a_renamed_pipeline_are_not_those_of_a_new_one_under_its_old_name() {
    let Some(case) = Case::begin("reread_renamed") else { return };
    let [_first, second] =
        ["reread_rn", "reread_rn_2"].map(|name| case.table_called(name, "id UInt32, v UInt8", "id"));
    for (file, name, from, table) in [
        ("old.yaml", "rn", "a.jsonl", "reread_rn"),
        ("moved.yaml", "rn-b", "a.jsonl", "reread_rn"),
        ("new.yaml", "rn", "b.jsonl", "reread_rn_2"),
    ] {
        write_records(&case, from);
        let text = format!(
            "pipeline: {name}\nstore: ./data\nsource: {{ file: {{ paths: {from} }} }}\nsink: {{ clickhouse: {{ url: \"{}\", table: {table} }} }}\n\
             dead_letters: {{ table: reread_rn_letters }}\nhttp: {{ listen: none }}\n",
            case.server().url()
        );
        fs::write(case.dir().join(file), text).expect("a file");
    }
    let names = |file: &str| {
        let (out, _) = run(&case, &["dead-letters", "list", file, "--json"], 0);
        let files = lines(&out).into_iter().map(|one| one["source"].as_str().expect("a file").to_owned());
        files.collect::<Vec<String>>()
    };
    run(&case, &["run", "old.yaml", "--drain"], 0);
    run(&case, &["rename", "old.yaml", "rn-b", "--yes"], 0);
    // Under the old name nothing is deleted that is another's.
    let (_, said) = run(&case, &["dead-letters", "purge", "old.yaml", "--all", "--yes"], 1);
    assert!(said.contains("renamed to `rn-b`"), "{said}");
    let (said, _) = run(&case, &["delete", "old.yaml", "--yes"], 0);
    assert!(said.contains("those of pipeline `rn-b`"), "{said}");
    assert_eq!(names("new.yaml"), [""; 0], "a pipeline that has not run");
    run(&case, &["run", "new.yaml", "--drain"], 0);
    assert_eq!(names("new.yaml"), ["b.jsonl"; 4]);
    assert_eq!(names("moved.yaml"), ["a.jsonl"; 4]);
    widen(&second);
    run(&case, &["dead-letters", "replay", "new.yaml"], 1);
    assert_eq!(second.count_and_distinct("id"), (9, 9));
    run(&case, &["verify", "new.yaml", "--key", "id"], 0);
    // Nor does it take them with it to another name.
    run(&case, &["rename", "new.yaml", "rn-c", "--yes"], 0);
    let text = fs::read_to_string(case.dir().join("new.yaml")).expect("the file");
    fs::write(case.dir().join("new.yaml"), text.replace("pipeline: rn", "pipeline: rn-c")).expect("a file");
    assert!(names("new.yaml").iter().all(|name| name != "a.jsonl"));
    assert_eq!(names("moved.yaml"), ["a.jsonl"; 4]);
}
