//! Requests of a real web server, each sent twice and in disorder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use live::{Accounts, Case};
use serde_json::{Map, Value, json};
use testkit::{Lcg, seed, workspace_dir};

/// Beside the workspace, for it is no part of it.
fn file() -> PathBuf {
    workspace_dir().join("../shared/data/web_access.jsonl")
}

const COLUMNS: &str = "request_id UUID, remote_addr String, user Nullable(String), time DateTime('UTC'), \
    `request.method` LowCardinality(String), `request.path` String, `request.protocol` LowCardinality(String), \
    status UInt16, bytes Nullable(UInt64), referrer Nullable(String), user_agent Nullable(String)";

#[test]
fn every_line_sent_twice_and_shuffled_is_one_row_with_every_value_of_the_file() {
    let path = file();
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: `{}` is not there", path.display());
        return;
    };
    let Some(case) = Case::begin("web_access") else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 9_999);

    let mut random = Lcg::new(seed());
    let mut twice: Vec<&str> = lines.iter().chain(&lines).copied().collect();
    shuffle(&mut twice, &mut random);
    let feed = case.feed();
    for line in twice {
        feed.push(random.below(3) as u32, line.as_bytes());
    }
    feed.flush();

    let table = case.table(COLUMNS, "(time, request_id)");
    let pipeline = case.pipeline().dedup("request_id", Some("time")).batch("{ rows: 1000, age: 100ms }");
    pipeline.drain();

    let wanted: BTreeMap<String, Map<String, Value>> =
        lines.iter().map(|line| read_independently(line)).collect();
    assert_eq!(wanted.len(), 9_999, "the file's ids are distinct");
    let rows = table.rows("SELECT * EXCEPT _forebay FROM {t}");
    assert_eq!(rows.len(), 9_999);
    for row in rows {
        let row = row.as_object().expect("a row is an object");
        let id = row["request_id"].as_str().expect("an id is text");
        assert_eq!(row, wanted.get(id).unwrap_or_else(|| panic!("`{id}` is not in the file")));
    }
    assert_eq!(table.count_and_distinct("request_id"), (9_999, 9_999));
    assert_eq!(table.dead_letters().count(), 0);
    let accounts = Accounts { read: 19_998, written: 9_999, duplicates: 9_999, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

/// A line as the table should show it, by another JSON reader than the program's. 64-bit integers show as texts.
fn read_independently(line: &str) -> (String, Map<String, Value>) {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { panic!("`{line}` is no object") };
    let Some(Value::Object(request)) = fields.remove("request") else { panic!("no request in `{line}`") };
    for (name, value) in request {
        fields.insert(format!("request.{name}"), value);
    }
    let time = fields["time"].as_str().expect("a time").replace('T', " ").replace('Z', "");
    fields["time"] = json!(time);
    if let Some(bytes) = fields["bytes"].as_u64() {
        fields["bytes"] = json!(bytes.to_string());
    }
    (fields["request_id"].as_str().expect("an id").to_owned(), fields)
}

fn shuffle<T>(items: &mut [T], random: &mut Lcg) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}
