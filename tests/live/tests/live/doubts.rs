//! Inserts in doubt: what comes much later, and what only a person can tell.
//!
//! Other writers use up half of the table's memory of tokens while nobody looks, so that the token of a lost insert is no proof.

use std::time::Duration;

use live::pipeline::{ended, term};
use live::{Accounts, Case, Pipeline, Table};
use serde_json::json;
use testkit::{Answer, Fault, FaultProxy, Rule, wait_until};

pub(super) const INSERT: &str = "INSERT INTO";

/// Longer than any step that a test waits for.
pub(super) const LONG: Duration = live::PATIENCE;

/// Tokens that the tables remember, and inserts that are more than half of them.
pub(super) const WINDOW: u64 = 100;
pub(super) const OTHERS: u64 = 60;

/// The exit code for "a person must decide".
pub(super) const PERSON: i32 = 4;

pub(super) fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// Inserts by somebody else, past the proxy.
pub(super) fn others_write(table: &Table, inserts: u64) {
    for n in 0..inserts {
        table.ask(&format!("INSERT INTO {{t}} (id) VALUES ({})", 1_000_000 + n));
    }
}

/// A server that certainly has not restarted: one that is some seconds old. Else no token is trusted.
pub(super) fn wait_until_old(case: &Case) {
    let probe = Table::at(&case.server().url(), "system.one");
    let uptime_s = || probe.value("SELECT uptime()").parse::<u64>().expect("a number");
    wait_until(live::PATIENCE, "the server to be old enough", || uptime_s() >= 6);
}

/// What a proxy holds back of an insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The last bytes: the server shows an insert that is arriving.
    Tail,
    /// All of it: no list of running inserts shows it.
    Whole,
}

/// The end of an insert, or all of it, stays in a proxy while its frame is in doubt and sent again. Then it arrives.
fn what_was_held_arrives_late(case: &Case, what: Held, others: u64, is_killed: bool) {
    wait_until_old(case);
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    table.ask(&format!("ALTER TABLE {{t}} MODIFY SETTING non_replicated_deduplication_window = {WINDOW}"));
    let feed = case.feed();
    feed.send(ids(0..100));
    let pipeline = case.pipeline().url(&proxy.url()).batch("{ rows: 200, age: 1s }");
    let mut running = pipeline.run();
    table.wait_for(100);

    let body_bytes = if what == Held::Tail { 64 } else { u64::MAX };
    let held = proxy.add(Rule::next(1, Fault::HoldTail { body_bytes }).query(INSERT));
    let shut = proxy.add(Rule::always(Fault::Reset));
    feed.send(ids(100..300));
    wait_until(LONG, "an insert to be held up", || proxy.fired(held) == 1);
    others_write(&table, others);
    if is_killed {
        wait_until(LONG, "the lost answer to be noticed", || pipeline.problem(&place(case)).is_some());
        running.kill9().expect("a kill");
        running = pipeline.run();
    }
    proxy.remove(shut);
    let decided = |word: &str| {
        let labels = [("table", &*place(case)), ("decision", word)];
        pipeline.metric("forebay_doubts_total", &labels).unwrap_or_default()
    };
    let late =
        || proxy.seen().into_iter().find(|seen| seen.rule == Some(held) && seen.server_status.is_some());
    let let_go = || {
        proxy.remove(held);
        wait_until(LONG, "the late insert to be answered", || late().is_some());
        late().expect("it was answered")
    };
    let is_looked_for = others > 0;
    let late = if what == Held::Tail {
        // The server shows it as running: nothing is looked for or sent again before it has ended, as it was told to.
        wait_until(LONG, "the attempt to be ended", || decided("end_attempts") >= 3.0);
        assert_eq!((table.count(), decided("probe")), (100 + others, 0.0));
        let problem = pipeline.wait_for_problem(&place(case), "attempt_runs");
        assert_eq!(problem["effect"], "unknown", "{problem}");
        let late = let_go();
        assert_ne!(late.server_status, Some(200), "it was told to end");
        late
    } else {
        table.wait_for(300 + others);
        wait_until(LONG, "the frame to be settled", || pipeline.pending_frames() == 0);
        assert_eq!(table.count(), 300 + others);
        let late = let_go();
        assert_eq!(late.server_status, Some(200), "the server took it for whole");
        late
    };
    table.wait_for(300 + others);
    wait_until(LONG, "the frame to be settled", || pipeline.pending_frames() == 0);
    assert_eq!(table.count_and_distinct("id"), (300 + others, 300 + others));
    if is_looked_for {
        assert!(
            decided("probe") > 0.0 && decided("confirm") > 0.0,
            "looked for, and sent under the old token"
        );
        assert_eq!(decided("new_generation"), 0.0);
    } else {
        assert!(decided("resend") > 0.0 && decided("probe") == 0.0, "the token was trusted");
    }
    let token = late.parameter("insert_deduplication_token").expect("a token");
    let same = |seen: &&testkit::Seen| seen.parameter("insert_deduplication_token") == Some(token);
    assert!(proxy.seen().iter().filter(same).count() >= 2, "it was sent again under its token");

    feed.send(ids(300..400));
    table.wait_for(400 + others);
    term(running);
    assert_eq!(table.count_and_distinct("id"), (400 + others, 400 + others));
    assert_eq!(pipeline.accounts(), Accounts { read: 400, written: 400, ..Accounts::default() });
}

fn place(case: &Case) -> String {
    format!("default.{}", case.name())
}

#[test]
fn a_held_back_tail_that_the_server_shows_is_ended_before_a_trusted_resend() {
    let Some(case) = Case::begin("doubt_tail_resent") else { return };
    what_was_held_arrives_late(&case, Held::Tail, 0, false);
}

#[test]
fn a_held_back_tail_that_the_server_shows_is_ended_before_the_rows_are_looked_for() {
    let Some(case) = Case::begin("doubt_tail_ended") else { return };
    what_was_held_arrives_late(&case, Held::Tail, OTHERS, false);
}

#[test]
fn a_held_back_insert_that_arrives_after_a_probe_and_a_resend_writes_nothing_twice() {
    let Some(case) = Case::begin("doubt_held_probed") else { return };
    what_was_held_arrives_late(&case, Held::Whole, OTHERS, false);
}

#[test]
fn a_held_back_insert_of_a_process_that_was_killed_writes_nothing_twice() {
    let Some(case) = Case::begin("doubt_held_killed") else { return };
    what_was_held_arrives_late(&case, Held::Whole, OTHERS, true);
}

/// An insert is lost by `fault` and its token no longer proves anything, in a table where nothing names a row's insert: the program
/// stops and asks. The command that it prints for `verdict` is run, and the next start goes on.
fn a_person_is_asked(case: &Case, fault: Fault, verdict: &str) {
    wait_until_old(case);
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = Table::at(&case.server().url(), case.name());
    table.ask(&format!(
        "CREATE TABLE {{t}} (id UInt32) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = {WINDOW}"
    ));
    let feed = case.feed();
    feed.send(ids(0..100));
    let pipeline = case.pipeline().url(&proxy.url()).sink("timeout: 2s");
    let running = pipeline.run();
    table.wait_for(100);
    // The answer has come as well: one insert is asked about.
    wait_until(LONG, "the first rows to be settled", || pipeline.pending_frames() == 0);
    let lost = proxy.add(Rule::next(1, fault).query(INSERT));
    let shut = proxy.add(Rule::always(Fault::Reset));
    feed.send(ids(100..200));
    wait_until(LONG, "the answer to be lost", || proxy.fired(lost) == 1);
    others_write(&table, OTHERS);
    proxy.remove(shut);
    stops_and_asks(ended(running));
    // A start without an answer writes nothing and asks again.
    stops_and_asks(ended(pipeline.run()));

    let asked = &pipeline.status()["questions"][0];
    assert_eq!((&asked["reason"], &asked["rows"]), (&json!("cannot_tell"), &json!(100)), "{asked}");
    let said = pipeline.run_tool(&["status"], &[]).success().expect("`status` must answer").stdout;
    assert!(said.contains("are these rows in the table? `present`: they are"), "{said}");
    let commands: Vec<&str> =
        said.lines().filter_map(|l| l.trim().strip_prefix("forebay answer FILE ")).collect();
    assert_eq!(commands.len(), 2, "{said}");
    let wrong = pipeline.run_tool(&["answer"], &["--frame", "00", "--present"]);
    assert_eq!(wrong.exit.status.code(), Some(2), "{}", wrong.stderr);

    let command =
        commands.iter().find(|command| command.ends_with(verdict)).expect("both answers are offered");
    let arguments: Vec<&str> = command.split(' ').collect();
    wait_until(LONG, "the answer to be taken", || {
        let answer = pipeline.run_tool(&["answer"], &arguments);
        // "absent" is not taken while an insert may still be on its way.
        let is_early = answer.stderr.contains("may still be on its way");
        assert!(answer.exit.status.success() || is_early && verdict == "--absent", "{}", answer.stderr);
        assert_eq!(answer.exit.status.code(), Some(i32::from(is_early)), "{}", answer.stderr);
        answer.exit.status.success()
    });
    pipeline.drain();
    let rows = 200 + OTHERS;
    assert_eq!(table.count_and_distinct("id"), (rows, rows));
    assert_eq!(pipeline.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
    assert_eq!(pipeline.pending_frames(), 0);
    assert_eq!(pipeline.status()["questions"], json!([]));
    goes_on(&feed, &pipeline, &table, rows);
}

#[track_caller]
fn stops_and_asks((exit, log): (testkit::Exit, String)) {
    assert_eq!(exit.status.code(), Some(PERSON), "{log}");
    assert!(log.contains("it is no longer known whether its rows arrived"), "{log}");
    assert!(log.contains("forebay answer"), "{log}");
}

pub(super) fn goes_on(feed: &live::Feed, pipeline: &Pipeline, table: &Table, rows: u64) {
    feed.send(ids(200..300));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (rows + 100, rows + 100));
}

#[test]
fn a_lane_that_cannot_tell_asks_and_goes_on_when_told_that_the_rows_are_there() {
    let Some(case) = Case::begin("doubt_present") else { return };
    a_person_is_asked(&case, Fault::SwallowAnswer, "--present");
}

#[test]
fn a_lane_that_cannot_tell_asks_and_goes_on_when_told_that_they_are_not() {
    let Some(case) = Case::begin("doubt_absent") else { return };
    // A balancer gives up: the server has seen nothing, and nobody can know.
    a_person_is_asked(&case, Fault::Answer(Answer::new(502, "bad gateway")), "--absent");
}
