//! Dead letters of requests of OTLP, replayed: each row alone, whatever the source.

use std::collections::BTreeMap;

use live::pipeline::term;
use live::{Case, Pipeline, Table};
use serde_json::Value;
use testkit::{HttpClient, free_port};

use super::hostile::field;
use super::logs::{start_gateway, wait_for_gateway, write_gateway};

const COLUMNS: &str =
    "Timestamp DateTime64(9), SeverityNumber UInt8, Body String, CONSTRAINT known CHECK Body != 'refused'";

/// A request of logs, each with a severity and a body.
fn request(logs: &[(u16, &str)]) -> Vec<u8> {
    let logs = logs.iter().flat_map(|(severity, body)| {
        let severity = [0x10, (severity & 0x7f) as u8 | 0x80, (severity >> 7) as u8];
        let time = [0x09, 1, 0, 0, 0, 0, 0, 0, 0];
        field(2, &[&time[..], &severity, &field(5, &field(1, body.as_bytes()))].concat())
    });
    field(1, &field(2, &logs.collect::<Vec<u8>>()))
}

/// Two rows of the first are alike and do not fit; the row of the second does not fit, and the server will refuse it too; of the third it refuses a row.
fn requests() -> [Vec<u8>; 3] {
    [
        request(&[(300, "twice"), (7, "fits"), (300, "twice"), (9, "fits")]),
        request(&[(400, "refused")]),
        request(&[(1, "refused"), (2, "fits")]),
    ]
}

/// How often each result stands in what `replay --json` prints, which ends with that code; and what it says besides.
#[track_caller]
fn replay(pipeline: &Pipeline, args: &[&str], code: i32) -> (BTreeMap<String, usize>, String) {
    let output = pipeline.dead_letters("replay", &[&["--json"], args].concat());
    assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
    let mut results = BTreeMap::new();
    for line in output.stdout.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let already = if line["already"] == true { "already " } else { "" };
        *results.entry(format!("{already}{}", line["result"].as_str().expect("a word"))).or_default() += 1;
    }
    (results, output.stderr)
}

fn results<const N: usize>(all: [(&str, usize); N]) -> BTreeMap<String, usize> {
    all.into_iter().map(|(word, count)| (word.to_owned(), count)).collect()
}

/// The letters of [`requests`], which the pipeline has read and no process reads now: replayed in vain, mended, and replayed again.
fn mend_and_replay(table: &Table, pipeline: &Pipeline) {
    let counts = || {
        ["fits", "twice", "refused"]
            .map(|body| table.value(&format!("SELECT count() FROM {{t}} WHERE Body = '{body}'")))
    };
    assert_eq!(counts(), ["3", "0", "0"]);
    assert_eq!(table.dead_letters().count(), 4);
    let (found, said) = replay(pipeline, &[], 1);
    assert_eq!(found, results([("dead_letter", 3)]));
    assert!(said.contains("1 more are of requests of OTLP and do not hold one row alone"), "{said}");

    table.ask("ALTER TABLE {t} MODIFY COLUMN SeverityNumber UInt32");
    // Those that failed again; the one that the server refuses now was alone in its letter, and is in the next one.
    let (found, _) = replay(pipeline, &["--source", "@replays"], 1);
    assert_eq!(found, results([("written", 2), ("dead_letter", 1)]));
    assert_eq!(counts(), ["3", "2", "0"], "both of those that are alike");
    table.ask("ALTER TABLE {t} DROP CONSTRAINT known");
    let (found, said) = replay(pipeline, &["--reason", "refused"], 0);
    assert_eq!(found, results([("written", 1)]));
    assert!(said.contains("insert it into its table as JSONEachRow"), "{said}");
    // What it says of the other one, which is a row.
    let raw =
        pipeline.dead_letters("show", &["--raw", "--where", "reason = 'refused' AND source != '@replays'"]);
    table.ask(&format!("INSERT INTO {{t}} FORMAT JSONEachRow {}", raw.stdout));
    assert_eq!(counts(), ["3", "2", "2"]);
    assert_eq!(replay(pipeline, &[], 0).0.values().sum::<usize>(), 7, "all of them already");
    assert_eq!(counts(), ["3", "2", "2"]);
}

#[test]
fn rows_of_requests_of_a_topic_are_replayed_alone() {
    let Some(case) = Case::begin("otlp_replays") else { return };
    let table = case.table(COLUMNS, "Timestamp");
    let feed = case.feed();
    requests().iter().for_each(|request| feed.push(0, request));
    feed.flush();
    let pipeline = case.pipeline().format("otlp_logs");
    pipeline.drain();
    mend_and_replay(&table, &pipeline);
}

#[test]
fn rows_of_requests_of_a_log_are_replayed_alone() {
    let Some(case) = Case::begin("otlp_replays_log") else { return };
    let (table, port) = (case.table(COLUMNS, "Timestamp"), free_port());
    write_gateway(case.dir(), port, "otlp_logs: { format: otlp_logs }");
    let gateway = start_gateway(case.dir());
    wait_for_gateway(port);
    send(port);
    term(gateway);
    let pipeline =
        case.pipeline().input_of("events", "{ log: { url: ./logs/otlp_logs }, format: otlp_logs }");
    pipeline.drain();
    mend_and_replay(&table, &pipeline);
}

#[test]
fn rows_of_requests_that_a_pipeline_has_taken_itself_are_replayed_alone() {
    let Some(case) = Case::begin("otlp_replays_listen") else { return };
    let (table, port) = (case.table(COLUMNS, "Timestamp"), free_port());
    let pipeline = case
        .pipeline()
        .input_of("events", "{ listen: {}, format: otlp_logs }")
        .more(&format!("listen: {{ address: '127.0.0.1:{port}' }}"));
    let running = pipeline.run();
    wait_for_gateway(port);
    send(port);
    table.wait_for(3);
    table.dead_letters().wait_for(4);
    term(running);
    mend_and_replay(&table, &pipeline);
}

fn send(port: u16) {
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    for request in requests() {
        let headers = [("Content-Type", "application/x-protobuf")];
        let answer = client.request("POST", "/v1/logs", &headers, &request).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}
