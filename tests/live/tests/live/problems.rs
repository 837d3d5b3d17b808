//! What a running program waits for, as a state of its own; and tokens that a table forgets too soon.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use live::pipeline::term;
use live::{Accounts, Case, Pipeline, Table};
use serde_json::json;
use testkit::{Answer, Fault, FaultProxy, Process, Rule, wait_until};

/// Longer than any step that a test waits for.
const LONG: Duration = live::PATIENCE;

/// A password that must not show, whoever says it.
const PASSWORD: &str = "hunter2-hunter2";

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// 10 rows arrive; then something is wrong with the table, and 190 more are sealed while nothing can be written. What is wrong is
/// shown as `state` by `status`, in words and as a metric. Mended, all of it arrives, once.
fn is_shown_and_mended(
    case: &Case,
    pipeline: &Pipeline,
    table: &Table,
    state: &str,
    spoil: impl Fn(),
    mend: impl Fn(),
) {
    let feed = case.feed();
    feed.send(ids(0..10));
    let mut running = pipeline.run();
    table.wait_for(10);
    let place = format!("default.{}", case.name());
    let labels = [("place", place.as_str()), ("state", state)];
    let puts = || pipeline.metric("forebay_store_requests_total", &[("kind", "put"), ("outcome", "ok")]);
    let puts_before = puts().expect("ten rows were sealed");
    spoil();
    // Noticed although nothing is sent.
    let idle = pipeline.wait_for_problem(&place, state);
    assert_eq!(idle["effect"], "none", "{idle}");
    feed.send(ids(10..200));
    pipeline.wait_for_live("sealing to go on", |status| status["sealed"]["read"] == 200);
    assert!(puts() >= Some(puts_before + 2.0), "a segment and a journal record at least: {:?}", puts());
    let met = || pipeline.problem(&place).and_then(|problem| problem["times"].as_u64());
    let before = met();
    wait_until(LONG, "it to be met again", || met() > before);
    let problem = pipeline.wait_for_problem(&place, state);
    assert_eq!(problem["since_ms"], idle["since_ms"], "one problem from its beginning on");
    assert_eq!(pipeline.metric("forebay_problem", &labels), Some(1.0));

    let said = pipeline.run_tool(&["status"], &[]).success().expect("`status` must answer").stdout;
    assert!(said.contains(&format!("waiting      {place}: {state} since ")), "{said}");
    assert!(said.contains("way out: ") && said.contains("nothing was written by it"), "{said}");
    let told = pipeline.status()["running"]["problems"].to_string();
    assert!(told.contains(state), "{told}");
    for text in [&said, &told, &running.stderr().expect("its log")] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    assert!(running.is_running().expect("its state"), "it waits");

    mend();
    table.wait_for(200);
    wait_until(LONG, "the problem to end", || pipeline.problem(&place).is_none());
    assert_eq!(pipeline.metric("forebay_problem", &labels), Some(0.0));
    assert_eq!(pipeline.metric("forebay_accounts_mismatches_total", &[]), Some(0.0));
    assert_eq!(pipeline.metric("forebay_accounts_add_up", &[]), Some(1.0));
    term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(table.dead_letters().count(), 0);
    assert_eq!(pipeline.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
    assert_eq!(pipeline.pending_frames(), 0);
}

#[test]
fn a_wrong_password_met_while_running_is_a_state_and_passes_with_the_right_one() {
    let Some(case) = Case::begin("problem_access") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    let pipeline =
        case.pipeline().url(&proxy.url()).sink("password: '${LIVE_PASSWORD}'").env("LIVE_PASSWORD", PASSWORD);
    // In the words of a server that has another password since, and says too much.
    let words =
        format!("default: Authentication failed: password is incorrect ({PASSWORD}), or there is no user");
    is_shown_and_mended(
        &case,
        &pipeline,
        &table,
        "access",
        || {
            let refusal = Answer::exception(403, 516, &words);
            proxy.add(Rule::always(Fault::Answer(refusal)));
        },
        || proxy.clear(),
    );
}

#[test]
fn a_table_that_goes_missing_while_running_is_a_state_and_passes_when_it_is_back() {
    let Some(case) = Case::begin("problem_missing") else { return };
    let table = case.table("id UInt32", "id");
    let away = Table::at(&case.server().url(), "problem_missing_away");
    is_shown_and_mended(
        &case,
        &case.pipeline(),
        &table,
        "table_missing",
        || drop(table.ask("RENAME TABLE {t} TO problem_missing_away")),
        || drop(away.ask("RENAME TABLE {t} TO problem_missing")),
    );
}

#[test]
fn tokens_that_other_writers_use_up_too_soon_are_warned_of_once() {
    let Some(case) = Case::begin("problem_tokens") else { return };
    let table = case.table("id UInt32", "id");
    table.ask("ALTER TABLE {t} MODIFY SETTING non_replicated_deduplication_window = 40");
    let feed = case.feed();
    feed.send(ids(0..10));
    let pipeline = case.pipeline().sink("timeout: 10s");
    let running = pipeline.run();
    table.wait_for(10);
    let name = format!("default.{}", case.name());
    let tokens = || pipeline.live().unwrap_or_default()["tables"][&name]["tokens"].clone();
    wait_until(LONG, "the rate to be measured", || tokens()["used_per_s"].is_number());
    let calm = tokens();
    assert_eq!((&calm["remembered"], &calm["is_scarce"]), (&json!(40), &json!(false)), "{calm}");
    // 5 s between looks, the insert's 10 s, a pause of 5 s.
    assert_eq!(pipeline.metric("forebay_token_needed_seconds", &[("table", &name)]), Some(20.0));
    // 300 within the minute that is looked at: half of the memory lasts 4 s at the most.
    for id in 1_000..1_300 {
        table.ask(&format!("INSERT INTO {{t}} (id) VALUES ({id})"));
    }
    pipeline.wait_for_live("the tokens to be scarce", |status| {
        status["tables"][&name]["tokens"]["is_scarce"] == true
    });
    let memory_s = pipeline.metric("forebay_token_memory_seconds", &[("table", &name)]).expect("a metric");
    assert!(memory_s < 40.0, "{memory_s}");
    let said = pipeline.run_tool(&["status"], &[]).success().expect("`status` must answer").stdout;
    assert!(said.contains("TOO SHORT"), "{said}");
    // Looked at again: warned of once all the same.
    let used = tokens();
    wait_until(LONG, "another look", || tokens() != used);
    assert_eq!(tokens()["is_scarce"], true);
    let log = running.stderr().expect("its log");
    assert_eq!(log.matches("forgets insert tokens too soon").count(), 1, "{log}");
    term(running);
    assert_eq!(table.count_and_distinct("id"), (310, 310));
}

/// The limit of a file's size, of which the system tells a process by a signal that ends it.
fn limit_files_of(process: &Process, bytes: &str) {
    let pid = process.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}")]).status();
    assert!(set.expect("util-linux is installed").success());
}

#[test]
fn a_limit_of_the_size_of_files_is_a_full_store_and_passes_when_it_is_raised() {
    let Some(case) = Case::begin("problem_file_limit") else { return };
    let table = case.table("id UInt32", "id");
    let (pipeline, feed) = (case.pipeline(), case.feed());
    feed.send(ids(0..10));
    let mut running = pipeline.run();
    table.wait_for(10);
    // The process's own log is a file too, and cannot be written meanwhile.
    limit_files_of(&running, "100:unlimited");
    feed.send(ids(10..200));
    let problem = pipeline.wait_for_problem("store", "store_full");
    assert!(problem.to_string().contains("`ulimit -f`"), "{problem}");
    assert!(running.is_running().expect("its state"), "it waits");
    limit_files_of(&running, "unlimited:unlimited");
    table.wait_for(200);
    wait_until(LONG, "the log to tell of its lost lines", || {
        running.stderr().expect("its log").contains("log lines could not be written")
    });
    term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(pipeline.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
}

/// Fills the disk that this file is on to its last byte.
fn fill(file: &Path) {
    let mut filler = File::create(file).expect("the disk can be reached");
    for piece in [1 << 16, 1 << 10, 1] {
        let error = loop {
            if let Err(error) = filler.write_all(&vec![7; piece]) {
                break error;
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }
}

#[test]
fn a_disk_without_room_is_a_full_store_and_passes_when_there_is_room() {
    let Some(case) = Case::begin("problem_disk_full") else { return };
    let table = case.table("id UInt32", "id");
    let (pipeline, feed) = (case.pipeline(), case.feed());
    feed.send(ids(0..10));
    let Some(mut running) = pipeline.run_on_a_disk_of(32) else { return };
    table.wait_for(10);
    let filler = pipeline.on_its_disk(&running, "filler");
    for (round, until) in [(1, 200), (2, 400)] {
        fill(&filler);
        feed.send(ids(if round == 1 { 10..200 } else { 200..400 }));
        pipeline.wait_for_problem("store", "store_full");
        assert_eq!(pipeline.ready().expect("it answers").0, 503);
        assert!(running.is_running().expect("its state"), "it waits");
        std::fs::remove_file(&filler).expect("the disk can be reached");
        table.wait_for(until);
        wait_until(LONG, "the problem to end", || pipeline.ready().is_some_and(|(code, _)| code == 200));
    }
    // Its store ends with the process.
    pipeline.wait_for_live("all to be settled", |status| {
        status["sealed"]["read"] == 400 && status["accounts_add_up"] == true && status["in_flight_rows"] == 0
    });
    term(running);
    assert_eq!(table.count_and_distinct("id"), (400, 400));
}

/// The number below which the descriptors lie that a process opens.
fn limit_descriptors_of(process: &Process, files: u64) {
    let pid = process.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:")]).status();
    assert!(set.expect("util-linux is installed").success());
}

#[test]
fn a_process_without_descriptors_says_so_and_goes_on_once_its_limit_is_raised() {
    let Some(case) = Case::begin("problem_descriptors") else { return };
    let table = case.table("id UInt32", "id");
    let (pipeline, feed) = (case.pipeline(), case.feed());
    feed.send(ids(0..10));
    let mut running = pipeline.run();
    table.wait_for(10);
    // What is open stays so, and nothing else can be opened: no connection to the server, no object of the store, no answer about the status.
    limit_descriptors_of(&running, 3);
    feed.send(ids(10..200));
    wait_until(LONG, "the limit to be named", || {
        let log = running.stderr().expect("its log");
        log.lines().any(|line| line.contains("own_limit") && line.contains("default.problem_descriptors"))
    });
    let log = running.stderr().expect("its log");
    assert!(log.contains("`ulimit -n`") && !log.contains("server_away"), "{log}");
    assert!(running.is_running().expect("its state"), "it waits");
    limit_descriptors_of(&running, 1_024);
    table.wait_for(200);
    wait_until(LONG, "the problems to end", || {
        pipeline.live().is_some_and(|live| live["problems"] == json!([]))
    });
    term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(pipeline.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
}
