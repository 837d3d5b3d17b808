//! Pipelines that take requests themselves, without a log: what was answered is in the table, whatever is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use live::pipeline::term;
use live::{Accounts, Case, PATIENCE, Pipeline};
use serde_json::Value;
use testkit::{ClickHouseOptions, HttpClient, Lcg, free_port, seed, wait_until};

use super::otel::{sdk, sink};
use super::otlp::{compare, tables};

const SENDERS: u64 = 4;
const PER_REQUEST: u64 = 25;

/// What senders have done.
#[derive(Default)]
struct Sent {
    over: AtomicBool,
    answered: AtomicU64,
    tries: AtomicU64,
}

/// Tells the senders to end, also when the test panics.
struct End<'a>(&'a Sent);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

fn lines(ids: std::ops::Range<u64>) -> String {
    ids.map(|id| format!("{{\"id\":{id}}}\n")).collect()
}

fn wait_for(port: u16) {
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    wait_until(PATIENCE, "the listener", || client.get("/readyz").is_ok_and(|answer| answer.status == 200));
}

/// Sends requests, each until it is answered, until told to end. What was perhaps stored is sent again only if `may_repeat`.
fn send(number: u64, port: u16, may_repeat: bool, sent: &Sent) -> u64 {
    // A request that may be repeated need not wait for a program that was killed; of another, an end without an answer is the verdict.
    let wait_max = if may_repeat { Duration::from_secs(40) } else { PATIENCE };
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}")).timeout(wait_max);
    let mut request = 0;
    while !sent.over.load(Ordering::Acquire) {
        let first = (request * SENDERS + number) * PER_REQUEST;
        let body = lines(first..first + PER_REQUEST);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "request {request} of sender {number} was never answered");
            sent.tries.fetch_add(1, Ordering::Relaxed);
            match client.request("POST", "/v1/streams/events", &[], body.as_bytes()) {
                Ok(answer) if answer.status == 200 => break,
                Ok(answer) => {
                    let text = answer.text();
                    assert!([429, 503].contains(&answer.status), "{}: {text}", answer.status);
                    assert!(may_repeat || !text.contains("not_yet"), "{text}");
                }
                Err(error) => {
                    let was_refused = format!("{error:#}").contains("refused");
                    assert!(may_repeat || was_refused, "{error:#}");
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        sent.answered.fetch_add(1, Ordering::Relaxed);
        request += 1;
    }
    request
}

/// Senders beside `act`, which is given the number of requests that were answered; the records of all of them.
fn beside(port: u16, may_repeat: bool, act: impl FnOnce(&dyn Fn() -> u64)) -> (u64, u64) {
    let sent = Sent::default();
    let requests: u64 = std::thread::scope(|scope| {
        let sent = &sent;
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send(number, port, may_repeat, sent))).collect();
        let _end = End(sent);
        act(&|| sent.answered.load(Ordering::Relaxed));
        sent.over.store(true, Ordering::Release);
        senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
    });
    (requests * PER_REQUEST, sent.tries.into_inner())
}

/// A pipeline from the stream `events` that listens at `port`.
fn pipeline(case: &Case, port: u16) -> Pipeline {
    case.pipeline()
        .input_of("events", "{ listen: { stream: events } }")
        .more(&format!("listen: {{ address: '127.0.0.1:{port}' }}"))
        .batch("{ rows: 2000, age: 50ms }")
}

fn wait_for_more(answered: &dyn Fn() -> u64) {
    let before = answered();
    wait_until(PATIENCE, "requests are answered", || answered() > before + 3);
}

/// The pipeline and the server are killed at random while senders send each request until it is answered. `dedup` drops what was sealed and not answered.
#[test]
fn kill_test_every_record_that_a_pipeline_answered_is_in_the_table_once() {
    let Some(mut case) = Case::with_own_server("listening_kill", ClickHouseOptions::default()) else {
        return;
    };
    let kills: u64 = match std::env::var("FOREBAY_GATEWAY_KILLS") {
        Ok(text) => text.parse().expect("FOREBAY_GATEWAY_KILLS is a number"),
        Err(_) => 10,
    };
    let (table, port) = (case.table("id UInt64", "id"), free_port());
    let pipeline = pipeline(&case, port).dedup("id", None);
    let mut running = pipeline.run();
    wait_for(port);
    let mut random = Lcg::new(seed());
    let (records, tries) = beside(port, true, |answered| {
        for kill in 0..kills {
            wait_for_more(answered);
            std::thread::sleep(Duration::from_millis(random.below(500)));
            match kill % 5 {
                1 => {
                    let server = case.own_server();
                    server.kill9().expect("the server dies");
                    server.restart().expect("the server comes back");
                }
                3 => {
                    running.stop_signal().expect("it freezes");
                    std::thread::sleep(Duration::from_millis(700));
                    running.continue_signal().expect("it goes on");
                }
                _ => {
                    running.kill9().expect("the pipeline dies");
                    running = pipeline.run();
                }
            }
        }
        wait_for_more(answered);
    });
    term(running);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (records, records));
    let accounts = pipeline.accounts();
    assert_eq!(accounts, Accounts { read: records + accounts.duplicates, written: records, ..accounts });
    println!("{records} records, {tries} tries, {} duplicates, {kills} kills", accounts.duplicates);
    assert!(tries * PER_REQUEST > records, "no request was sent twice");
}

/// Stops and a changed table refuse requests that are not stored; every other one is answered, so nothing has to be recognised.
#[test]
fn a_stop_and_a_changed_table_leave_no_request_in_doubt() {
    let Some(case) = Case::begin("listening") else { return };
    let (table, port) = (case.table("id UInt64", "id"), free_port());
    let pipeline = pipeline(&case, port);
    let mut running = Some(pipeline.run());
    wait_for(port);
    let (records, _) = beside(port, false, |answered| {
        for turn in 0..4 {
            wait_for_more(answered);
            if turn == 2 {
                table.ask("ALTER TABLE {t} ADD COLUMN more UInt8 DEFAULT 3");
                std::thread::sleep(Duration::from_secs(2));
            } else {
                term(running.take().expect("it runs"));
                running = Some(pipeline.run());
            }
        }
        wait_for_more(answered);
    });
    term(running.expect("it runs"));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (records, records));
    assert_eq!(table.value("SELECT sum(more) = 3 * count() FROM {t}"), "1");
    assert_eq!(pipeline.accounts(), Accounts { read: records, written: records, ..Accounts::default() });
    // What was sent can be asked for by nobody else.
    pipeline.check(&["--connect"]);
    let other = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the pipeline is down");
    pipeline.tool_fails(&["check"], &["--connect"], 1, &format!("127.0.0.1:{port}"));
    drop(other);
    let said = pipeline.run_tool(&["try"], &[]).stderr;
    assert!(said.contains("what is sent to the pipeline is not kept"), "{said}");
    let records = case.dir().join("some.jsonl");
    std::fs::write(&records, "{\"id\":1}\n{\"id\":\"none\"}\n").expect("the case's folder can be written");
    let tried = take_try(&pipeline, &said, &records);
    assert!(tried.contains("2 records: 1 row, 0 filtered, 1 dead letter"), "{tried}");
    pipeline.tool_fails(&["verify"], &[], 1, "are not kept");
}

/// Runs the `forebay try` that a refusal prints, on these records, to a good end.
fn take_try(pipeline: &Pipeline, said: &str, records: &Path) -> String {
    let printed = said.split('`').find(|part| part.starts_with("forebay try FILE "));
    let words = printed.unwrap_or_else(|| panic!("no way out in {said}")).split(' ').skip(3);
    let records = records.display().to_string();
    let words: Vec<&str> = words.map(|word| if word == "RECORDS" { &records } else { word }).collect();
    let output = pipeline.run_tool(&["try"], &words);
    assert!(output.exit.status.success(), "{}{}", output.stdout, output.stderr);
    output.stdout
}

/// A value that the table refuses, in a request whose other lines are right.
#[test]
fn what_does_not_fit_is_a_dead_letter_and_its_request_is_answered() {
    let Some(case) = Case::begin("listening_letters") else { return };
    let (table, port) = (case.table("id UInt64, CONSTRAINT small CHECK id < 10", "id"), free_port());
    let pipeline = pipeline(&case, port);
    let running = pipeline.run();
    wait_for(port);
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    let body = b"{\"id\":1}\n{\"id\":\"none\"}\n{\"id\":2}\n{\"id\":11}\n";
    let answer = client.request("POST", "/v1/streams/events", &[], body).expect("an answer");
    let told: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!((answer.status, &told["records"]), (200, &4.into()), "{told}");
    table.wait_for(2);
    let letters = table.dead_letters();
    letters.wait_for(2);
    term(running);
    assert_eq!(table.column("id"), ["1", "2"]);
    let mut raw = letters.column("raw");
    raw.sort();
    assert_eq!(raw, ["{\"id\":\"none\"}", "{\"id\":11}"]);
}

/// Three pipelines, one for each signal.
#[test]
fn what_the_sdk_sends_straight_into_pipelines_is_in_the_tables_as_it_was_told() {
    let Some(case) = Case::begin("listening_otel") else { return };
    let database = tables(&case, &[]);
    let kinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"];
    let of_kind =
        |kind| sink(&case, &format!("otel_metrics_{kind}"), &format!(", where: MetricType = '{kind}'"));
    let signals = [
        ("logs", "", vec![sink(&case, "otel_logs", "")]),
        ("traces", "", vec![sink(&case, "otel_traces", "")]),
        ("metrics", ", fields: { MetricType: String }", kinds.map(of_kind).to_vec()),
    ];
    let running: Vec<_> = signals
        .into_iter()
        .map(|(signal, fields, sinks)| {
            let port = free_port();
            let pipeline = Pipeline::new(&case, &format!("{}_{signal}", case.name()))
                .input_of("events", &format!("{{ listen: {{}}, format: otlp_{signal}{fields} }}"))
                .more(&format!("listen: {{ address: '127.0.0.1:{port}' }}"))
                .batch("{ age: 100ms }");
            let pipeline = sinks.iter().fold(pipeline, |pipeline, sink| pipeline.one_of(sink));
            let process = pipeline.run();
            wait_for(port);
            (port, process)
        })
        .collect();
    let urls: Vec<String> = running.iter().map(|(port, _)| format!("http://127.0.0.1:{port}")).collect();
    let output = sdk(&["all", "grpc", &urls[0], &urls[1], &urls[2]]).output().expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    running.into_iter().for_each(|(_, process)| assert!(term(process).status.success()));
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).expect("text").lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        told.entry(line["table"].as_str().expect("a table").to_owned()).or_default().push(line["row"].take());
    }
    assert_eq!(told.len(), 6, "{:?}", told.keys());
    for (table, rows) in &told {
        compare(&database, &case, table, rows);
    }
}
