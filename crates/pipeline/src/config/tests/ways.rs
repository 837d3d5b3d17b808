//! The ways out that faults of a pipeline file print, taken: `tests/ways` has each message with a file that meets it, and the files after the advice.
//! A line such as `table t: id UUID, n Int64` gives the columns of a table; the steps are then planned for the tables of the case.

use std::collections::BTreeSet;
use std::path::Path;

use dataflow::{Column, Schema};

use super::{check_here, env, file};
use crate::config::check_gateway;
use crate::config::values::reference::Surroundings;
use crate::wiring::steps;

/// Stands in a case for a longer text.
const SHORT: [(&str, &str); 5] = [
    ("KAFKA", "kafka: { brokers: \"b:9092\", topic: t }"),
    ("OTHER", "kafka: { brokers: \"b:9092\", topic: o }"),
    ("THIRD", "kafka: { brokers: \"b:9092\", topic: u }"),
    ("FILE", "file: { paths: /tmp/x.jsonl }"),
    ("SINK", "sink: { clickhouse: { url: \"http://localhost:8123\" } }"),
];

/// Words that tell somebody to do something. A message with none of them states what is wrong, and the rest is plain.
const ADVICE: [&str; 17] = [
    "write ",
    "; use ",
    "; name ",
    "; give ",
    "; remove ",
    "remove it",
    "; leave ",
    "; move it",
    "; take ",
    "; put ",
    "; add ",
    "; join ",
    "; read it",
    "; listen at ",
    "; a longer ",
    "; filter ",
    "; refer to ",
];

type Common = (&'static str, &'static [&'static str]);

struct Case {
    /// Whether its files are a gateway's.
    is_gateways: bool,
    words: String,
    bad: String,
    good: Vec<String>,
    /// The lines of the first file that give tables, for the files that give none.
    tables: Vec<String>,
}

impl Case {
    /// Whether a file can be used, and its faults.
    fn check(&self, text: &str) -> (bool, String) {
        if !self.is_gateways {
            let (own, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(TABLE));
            let checked = check_here(&lines.join("\n"));
            let faults = checked.faults.render("p");
            let Some(pipeline) = checked.pipeline else { return (false, faults) };
            let own: Vec<String> = own.into_iter().map(str::to_owned).collect();
            let tables = if own.is_empty() { &self.tables } else { &own };
            if tables.is_empty() {
                return (true, faults);
            }
            let tables: Vec<Schema> = tables.iter().map(|line| table(line)).collect();
            let planned = steps::plan(&pipeline, &tables);
            let found = planned.as_ref().err().into_iter().flatten();
            return (planned.is_ok(), found.fold(faults, |all, fault| format!("{all}{fault}\n")));
        }
        let checked = check_gateway(text, &Surroundings { env: &env, file: &file });
        (checked.gateway.is_some(), checked.faults.render("g"))
    }
}

/// Begins a line that gives the columns of a table.
const TABLE: &str = "table ";

/// The columns of such a line.
fn table(line: &str) -> Schema {
    let (_, columns) = line.split_once(": ").expect("`table NAME: COLUMNS`");
    let mut depth = 0;
    let between = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    let column = |text: &str| {
        let (name, rest) = text.trim().split_once(' ').expect("a name and a type");
        let (of_type, default) = rest.split_once(" DEFAULT ").map_or((rest, None), |(a, b)| (a, Some(b)));
        let of_type = clickhouse::types::parse(name, of_type).expect("a type");
        let default_json = default.filter(|text| text.starts_with('[')).map(str::to_owned);
        Column { default: default.map(str::to_owned), default_json, ..Column::new(name, of_type) }
    };
    Schema::new(columns.split(between).map(column).collect())
}

/// Lines of every file of a gateway, and by which keys a case has them itself.
const COMMON_OF_GATEWAYS: [Common; 2] =
    [("gateway: g", &["gateway:"]), ("streams: { a: {} }", &["streams:"])];

/// Lines of every file, unless a case has one that begins with these keys.
const COMMON: [Common; 3] = [
    ("pipeline: p", &["pipeline:"]),
    ("source: { kafka: { brokers: \"b:9092\", topic: t } }", &["source:", "inputs:"]),
    ("sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }", &["sink:", "sinks:"]),
];

/// The whole file of which a case has the lines that matter.
fn whole(common: &[Common], lines: &str) -> String {
    let text = SHORT.iter().fold(lines.to_owned(), |text, (short, long)| text.replace(short, long));
    let has = |key: &&str| text.lines().any(|line| line.starts_with(key));
    let common = common.iter().filter(|(_, keys)| !keys.iter().any(has)).map(|(line, _)| format!("{line}\n"));
    common.collect::<String>() + &text
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ways");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a file").path();
        let is_gateways = path.file_stem().is_some_and(|stem| stem == "gateway");
        let common: &[Common] = if is_gateways { &COMMON_OF_GATEWAYS } else { &COMMON };
        let text = std::fs::read_to_string(path).expect("text");
        for case in text.split("\n=== ").skip(1) {
            let (words, files) = case.split_once('\n').expect("files behind the words");
            let mut files = files.split("\n---\n").map(|lines| whole(common, lines));
            let bad = files.next().expect("a file that meets the message");
            let tables = bad.lines().filter(|line| line.starts_with(TABLE)).map(str::to_owned).collect();
            cases.push(Case { is_gateways, words: words.to_owned(), bad, good: files.collect(), tables });
        }
    }
    cases
}

/// A message without its values.
fn form(message: &str) -> String {
    message.split('`').step_by(2).collect::<Vec<_>>().join("`_`")
}

#[test]
fn every_way_out_of_a_fault_of_the_file_was_taken_and_the_fault_is_gone() {
    let mut wrong = Vec::new();
    for case in cases() {
        let Case { words, bad, good, .. } = &case;
        let (_, found) = case.check(bad);
        if !found.contains(words) {
            wrong.push(format!("`{words}` is not among\n{found}of\n{bad}"));
        }
        if good.is_empty() {
            wrong.push(format!("`{words}` has no way out"));
        }
        for good in good {
            let (is_good, found) = case.check(good);
            if !is_good || found.contains(words) {
                wrong.push(format!("after the advice of `{words}`:\n{found}of\n{good}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn no_fault_of_the_file_gives_advice_that_no_test_takes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let mut messages = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "faults") {
            let text = std::fs::read_to_string(path).expect("text");
            // `file:line:column: message`
            messages
                .extend(text.lines().filter_map(|line| line.split_once(": ")).map(|(_, said)| form(said)));
        }
    }
    let taken: Vec<String> = cases().iter().map(|case| form(&case.words)).collect();
    let gives_advice = |message: &&String| ADVICE.iter().any(|words| message.contains(words));
    let advised: Vec<&String> = messages.iter().filter(gives_advice).collect();
    let is_taken = |message: &&&String| taken.iter().any(|words| message.contains(words.as_str()));
    let untaken: Vec<&&String> = advised.iter().filter(|message| !is_taken(message)).collect();
    println!("{} messages, {} with advice, {} not taken", messages.len(), advised.len(), untaken.len());
    assert!(untaken.is_empty(), "{untaken:#?}");
}
