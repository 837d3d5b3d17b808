//! Logs as sources, and the gateway that fills them: every record that was answered is in the table once, whatever is killed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use live::pipeline::{ended, term};
use live::{Accounts, Case, PATIENCE, Pipeline};
use serde_json::Value;
use testkit::{ClickHouseOptions, HttpClient, Lcg, Process, Spawn, free_port, seed, wait_until};

use super::ways::{PERSON, Shell, has};

/// Lives of the pipeline, and records that come in each.
const LIVES: u64 = 4;
const PER_LIFE: u64 = 6_000;

/// Who sends at the same time, and records of a request.
pub(super) const SENDERS: u64 = 4;
pub(super) const PER_REQUEST: u64 = 25;

pub(super) fn program() -> std::path::PathBuf {
    live::case::binary().expect("the program")
}

/// Appends lines to a partition of a log; a repeat of the same number and lines appends nothing.
fn append(dir: &Path, log: &str, partition: u32, number: u64, lines: &str) {
    let arguments = ["log", "append", log, "--json", "--partition", &partition.to_string()];
    let mut child = Command::new(program())
        .args(arguments)
        .args(["--producer", &format!("{:x}", number + 1)])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
}

/// What `forebay log ls LOG --json` says of a partition.
pub(super) fn listed(dir: &Path, log: &str, partition: usize) -> Value {
    let output = Command::new(program()).args(["log", "ls", log, "--json"]).current_dir(dir).output();
    let output = output.expect("the program starts");
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    listed["partitions"][partition].clone()
}

fn lines(ids: std::ops::Range<u64>) -> String {
    ids.map(|id| format!("{{\"id\":{id}}}\n")).collect()
}

#[test]
fn every_record_of_a_log_is_in_the_table_once_and_what_is_settled_is_acknowledged() {
    let Some(case) = Case::begin("logs") else { return };
    let (dir, log) = (case.dir(), "./logs-log");
    let table = case.table("id UInt64", "id");
    let source = format!("{{ log: {{ url: {log} }} }}");
    let pipeline = case.pipeline().input_of("events", &source).batch("{ rows: 700, age: 50ms }");
    let (exit, told) = ended(pipeline.run());
    assert!(exit.status.code() == Some(4) && told.contains("there is no log `./logs-log`"), "{told}");

    append(dir, log, 0, 0, "{\"id\":\"no number\"}\n");
    pipeline.check(&["--connect"]);
    assert!(
        listed(dir, log, 0)["consumers"].as_array().expect("a list").is_empty(),
        "a check is no consumer"
    );
    let mut random = Lcg::new(seed());
    for life in 0..LIVES {
        let mut running = pipeline.run();
        // A partition that appears while the pipeline runs.
        let partition = u32::from(life >= 2);
        append(dir, log, partition, life + 1, &lines(life * PER_LIFE..(life + 1) * PER_LIFE));
        table.wait_for(life * PER_LIFE + 1 + random.below(PER_LIFE / 2));
        running.kill9().expect("the program dies");
    }
    pipeline.drain();
    let all = LIVES * PER_LIFE;
    assert_eq!(table.count_and_distinct("id"), (all, all));
    let accounts = Accounts { read: all + 1, written: all, dead_letters: 1, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    for partition in 0..2 {
        let at = listed(dir, log, partition);
        let consumer = &at["consumers"][0];
        assert_eq!(
            (&consumer["name"], &consumer["acknowledged"]),
            (&Value::from("logs"), &at["next"]),
            "{at}"
        );
    }
    assert_eq!(pipeline.lag(), 0);

    // A store that was lost must not read again what the log says was read.
    std::fs::remove_dir_all(pipeline.store()).expect("the store goes");
    let (exit, told) = ended(pipeline.run());
    assert!(exit.status.code() == Some(4) && told.contains("the store was lost"), "{told}");
}

pub(super) fn write_gateway(dir: &Path, port: u16, stream: &str) {
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: ./logs\nstreams:\n  {stream}\nhttp: {{ listen: none }}\nshutdown: {{ timeout: 20s }}\n"
    );
    std::fs::write(dir.join("gateway.yaml"), text).expect("the test's folder can be written");
}

pub(super) fn start_gateway(dir: &Path) -> Process {
    start_gateway_of(dir, "gateway.yaml")
}

/// The same with a file of another name, for one of several that run at the same time.
pub(super) fn start_gateway_of(dir: &Path, file: &str) -> Process {
    let name = file.trim_end_matches(".yaml");
    let spawn = Spawn::new(name, program()).args(["gateway", file]).cwd(dir);
    spawn.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").start(dir).expect("the gateway starts")
}

#[test]
fn a_log_that_was_cut_below_a_position_is_read_on_by_the_command_that_is_printed() {
    let Some(case) = Case::begin("logs_cut") else { return };
    let (shell, dir, log) = (Shell(&case), case.dir(), "./logs-cut");
    let table = case.table_called("logs_cut", "id UInt64", "id");
    shell.pipeline("cut", &format!("{{ log: {{ url: {log} }} }}"), table.name(), "");
    append(dir, log, 0, 0, &lines(0..100));
    shell.says("run cut.yaml --drain", 0);
    append(dir, log, 0, 1, &lines(100..200));
    let said = shell.says("log truncate ./logs-cut --before 150", 1);
    has(&said, "consumer `cut` has acknowledged 100 only");
    shell.says("log truncate ./logs-cut --before 150 --force", 0);
    let said = shell.says("run cut.yaml --drain", PERSON);
    has(&said, "position 100 is no longer held");
    has(&shell.takes(&said, "forebay reset", "cut.yaml"), "from 100 to 150: 50 positions are never read");
    shell.says("run cut.yaml --drain", 0);
    assert_eq!(table.count_and_distinct("id"), (150, 150));
}

fn client(port: u16) -> HttpClient {
    HttpClient::new(&format!("http://127.0.0.1:{port}"))
}

pub(super) fn wait_for_gateway(port: u16) {
    let is_ready = || client(port).get("/readyz").is_ok_and(|answer| answer.status == 200);
    wait_until(PATIENCE, "the gateway", is_ready);
}

/// What senders have done.
#[derive(Default)]
pub(super) struct Sent {
    /// Requests that were answered 200.
    pub answered: AtomicU64,
    /// Tries in all.
    pub tries: AtomicU64,
    /// Answers that said that the records were there already.
    pub repeats: AtomicU64,
}

/// Sends requests, each until it is answered, until told to end; each try goes to the gateway at the port that `port` gives then.
pub(super) fn send(number: u64, port: &(dyn Fn() -> u16 + Sync), over: &AtomicBool, sent: &Sent) -> u64 {
    let mut random = Lcg::new(seed() ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut request = 0;
    while !over.load(Ordering::Acquire) {
        let first = (request * SENDERS + number) * PER_REQUEST;
        let (body, key) = (lines(first..first + PER_REQUEST), format!("{number}-{request}"));
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "request {key} was never answered");
            // Some clients do not wait for their answer, and send again.
            let wait = if random.one_in(6) { Duration::from_millis(3) } else { Duration::from_secs(20) };
            let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/x-ndjson")];
            let answer =
                client(port()).timeout(wait).request("POST", "/v1/streams/events", &headers, body.as_bytes());
            sent.tries.fetch_add(1, Ordering::Relaxed);
            match answer {
                Ok(answer) if answer.status == 200 => {
                    let told: Value = serde_json::from_str(&answer.text()).expect("JSON");
                    assert_eq!(told["records"].as_u64(), Some(PER_REQUEST), "{told}");
                    let is_repeat = told["repeat"].as_bool().expect("it says so");
                    sent.repeats.fetch_add(u64::from(is_repeat), Ordering::Relaxed);
                    break;
                }
                Ok(answer) => {
                    assert!([429, 503].contains(&answer.status), "{}: {}", answer.status, answer.text());
                }
                // It was killed, is not there yet, or was not waited for.
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        sent.answered.fetch_add(1, Ordering::Relaxed);
        request += 1;
    }
    request
}

/// The gateway, the pipeline and the server are killed at random while senders send each request until it is answered.
#[test]
fn kill_test_every_record_that_a_gateway_answered_is_in_the_table_once() {
    let Some(mut case) = Case::with_own_server("gateways", ClickHouseOptions::default()) else { return };
    let kills = match std::env::var("FOREBAY_GATEWAY_KILLS") {
        Ok(text) => text.parse().expect("FOREBAY_GATEWAY_KILLS is a number"),
        Err(_) => 12,
    };
    let table = case.table("id UInt64", "id");
    let (dir, port) = (case.dir().to_owned(), free_port());
    write_gateway(&dir, port, "events: { linger: 50ms }");
    let pipeline = case
        .pipeline()
        .input_of("events", "{ log: { url: ./logs/events } }")
        .batch("{ rows: 2000, age: 50ms }");
    let mut gateway = start_gateway(&dir);
    wait_for_gateway(port);
    let mut running = pipeline.run();
    let (over, sent) = (AtomicBool::new(false), Sent::default());
    let requests: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let (over, sent) = (&over, &sent);
                scope.spawn(move || send(number, &|| port, over, sent))
            })
            .collect();
        let _end = End(&over);
        let mut random = Lcg::new(seed());
        for kill in 0..kills {
            let before = sent.answered.load(Ordering::Relaxed);
            let has_gone_on = || sent.answered.load(Ordering::Relaxed) > before;
            wait_until(PATIENCE, "requests are answered", has_gone_on);
            std::thread::sleep(Duration::from_millis(100 + random.below(600)));
            match kill % 6 {
                1 | 4 => {
                    running.kill9().expect("the pipeline dies");
                    running = pipeline.run();
                }
                3 => {
                    let server = case.own_server();
                    server.kill9().expect("the server dies");
                    server.restart().expect("the server comes back");
                }
                5 => {
                    gateway.stop_signal().expect("it freezes");
                    std::thread::sleep(Duration::from_millis(700));
                    gateway.continue_signal().expect("it goes on");
                }
                _ => {
                    gateway.kill9().expect("the gateway dies");
                    gateway = start_gateway(&dir);
                }
            }
        }
        wait_until(PATIENCE, "a request to be sent twice", || sent.repeats.load(Ordering::Relaxed) > 0);
        over.store(true, Ordering::Release);
        senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
    });
    term(gateway);
    term(running);
    drain_to(&pipeline, &table, requests * PER_REQUEST);
    let (tries, repeats) = (sent.tries.into_inner(), sent.repeats.into_inner());
    println!("{requests} requests in {tries} tries, of which {repeats} met their own records; {kills} kills");
    assert!(repeats > 0 && tries > requests, "no request was sent twice");
}

#[track_caller]
pub(super) fn drain_to(pipeline: &Pipeline, table: &live::Table, all: u64) {
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (all, all));
    assert_eq!(pipeline.accounts(), Accounts { read: all, written: all, ..Accounts::default() });
}

/// Tells the senders to end, also when the test panics.
pub(super) struct End<'a>(pub &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
