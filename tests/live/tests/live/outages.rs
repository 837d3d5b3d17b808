//! Lost answers, servers that refuse or are away, and servers that lost what they had answered for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use live::{Accounts, Case, Pipeline, Table};
use serde_json::json;
use testkit::{Answer, ClickHouseOptions, Fault, FaultProxy, Reach, Rule, wait_until};

use super::doubts::wait_until_old;

/// What a rule of the proxy fits, to mean inserts alone.
const INSERT: &str = "INSERT INTO";

/// Longer than any step that a test waits for.
const LONG: Duration = live::PATIENCE;

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// A case whose pipeline meets its server through a proxy.
fn through_proxy(case: &Case) -> (FaultProxy, Table, Pipeline) {
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url());
    (proxy, table, pipeline)
}

#[test]
fn fault_01_a_crash_between_insert_and_acknowledgement_writes_no_row_twice() {
    let Some(case) = Case::begin("fault_01") else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    let feed = case.feed();
    let mut sent = 0;
    // Once the answer is under way when the program dies, once it is lost and the program dies over the resend.
    for fault in [Fault::DelayAnswer(LONG), Fault::SwallowAnswer] {
        let lost = proxy.add(Rule::next(1, fault).query(INSERT));
        proxy.add(Rule::always(Fault::Hang).query(INSERT));
        feed.send(ids(sent..sent + 500));
        sent += 500;
        // One insert, so that all of it is in doubt.
        let mut running = pipeline.clone().batch("{ rows: 500, age: 10m }").run();
        table.wait_for(u64::from(sent));
        wait_until(LONG, "the answer to be lost", || proxy.fired(lost) == 1);
        running.kill9().expect("the program to be killed");
        proxy.clear();
        pipeline.drain();
        assert_eq!(table.count_and_distinct("id"), (u64::from(sent), u64::from(sent)));
    }
    let accounts = Accounts { read: 1_000, written: 1_000, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    assert_eq!(pipeline.pending_frames(), 0);
}

#[test]
fn fault_11_a_retry_after_a_restart_with_other_batches_sends_the_same_bytes_under_each_token() {
    let Some(case) = Case::begin("fault_11") else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    let feed = case.feed();
    feed.spread(ids(0..3_000));
    // Inserts arrive or do not, and no answer comes through; what else is read is sealed in batches of this size.
    proxy.add(Rule::always(Fault::SwallowAnswer).query(INSERT).one_in(2, testkit::seed()));
    proxy.add(Rule::always(Fault::CutRequest { body_bytes: 10 }).query(INSERT));
    let mut running = pipeline.clone().batch("{ rows: 700, bytes: 16KiB, age: 10m }").run();
    wait_until(LONG, "some to be in doubt", || tokens(&proxy).len() >= 6);
    running.kill9().expect("the program to be killed");
    // Each life cuts otherwise: rows, bytes, columns sorted and packed in another way.
    for (batch, sink) in [
        ("{ rows: 7, age: 10ms }", "compression: none"),
        ("{ rows: 10000000, bytes: 512MiB, age: 100ms }", "sort: true"),
    ] {
        let mut running = pipeline.clone().batch(batch).sink(sink).run();
        let before = tokens(&proxy).len();
        wait_until(LONG, "them to be sent again", || tokens(&proxy).len() >= before + 4);
        running.kill9().expect("the program to be killed");
    }
    proxy.clear();
    feed.spread(ids(3_000..3_500));
    pipeline.batch("{ rows: 50, age: 20ms }").drain();
    assert_eq!(table.count_and_distinct("id"), (3_500, 3_500));

    let mut bodies: BTreeMap<String, BTreeSet<(u64, u64)>> = BTreeMap::new();
    let mut sent = 0;
    for seen in proxy.seen().iter().filter(|seen| seen.query.contains(INSERT) && seen.body_whole) {
        let token = seen.parameter("insert_deduplication_token").expect("every insert has a token");
        bodies.entry(token.to_owned()).or_default().insert((seen.body_bytes, seen.body_hash));
        sent += 1;
    }
    assert!(sent > bodies.len(), "some were sent again: {sent} inserts, {} tokens", bodies.len());
    let torn: Vec<_> = bodies.iter().filter(|(_, bodies)| bodies.len() > 1).collect();
    assert!(torn.is_empty(), "one token, one byte string: {torn:?}");
}

#[test]
fn an_insert_that_breaks_at_any_place_is_repeated_and_writes_no_row_twice() {
    let Some(case) = Case::begin("broken_inserts") else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    let feed = case.feed();
    let mut sent = 10;
    feed.send(ids(0..sent));
    let running = pipeline.run();
    table.wait_for(u64::from(sent));
    let faults = [
        Fault::SwallowAnswer,
        Fault::Reset,
        Fault::CutRequest { body_bytes: 0 },
        Fault::CutRequest { body_bytes: 100 },
        Fault::CutAnswer { body_bytes: 0 },
        Fault::Answer(Answer::new(502, "bad gateway").reach(Reach::Server)),
        Fault::Answer(Answer::new(504, "gateway timeout").reach(Reach::Head)),
        Fault::Answer(Answer::new(200, "<html>sign in to the hotel's network</html>")),
    ];
    for fault in faults {
        let rule = proxy.add(Rule::next(2, fault.clone()).query(INSERT));
        feed.send(ids(sent..sent + 50));
        sent += 50;
        table.wait_for(u64::from(sent));
        // A young server is asked for the rows and not sent them again, so the second turn may be left.
        assert!(proxy.fired(rule) >= 1, "{fault:?} was not tried");
        proxy.clear();
    }
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (u64::from(sent), u64::from(sent)));
    assert_eq!(table.dead_letters().count(), 0);
    assert_eq!(pipeline.accounts().written, u64::from(sent));
}

#[test]
fn fault_02_an_outage_of_45_s_orphans_nothing_which_inverts_glassflows_ninth() {
    let Some(case) = Case::begin("fault_02") else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    let feed = case.feed();
    feed.send(ids(0..100));
    let mut running = pipeline.run();
    table.wait_for(100);
    proxy.refuse().expect("the proxy to refuse");
    let begun = Instant::now();
    let mut sent = 100;
    // Records go on coming, in more batches than anybody would retry by hand.
    while begun.elapsed() < Duration::from_secs(45) {
        feed.send(ids(sent..sent + 20));
        sent += 20;
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(running.is_running().expect("its state"), "an outage is no reason to end");
    pipeline.wait_for_live("sealing to go on", |status| status["sealed"]["read"] == sent);
    assert_eq!(table.count(), 100);
    pipeline.wait_for_problem(&format!("default.{}", table.name()), "server_away");
    proxy.accept().expect("the proxy to accept");
    table.wait_for(u64::from(sent));
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (u64::from(sent), u64::from(sent)));
    assert_eq!(table.dead_letters().count(), 0);
    let accounts = Accounts { read: u64::from(sent), written: u64::from(sent), ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn a_server_that_refuses_stops_no_sealing_and_loses_nothing() {
    let Some(case) = Case::begin("refusals") else { return };
    // Of a young server the rows that it has written are found at once, and the problem is over before anybody sees it.
    wait_until_old(&case);
    let (proxy, table, pipeline) = through_proxy(&case);
    let feed = case.feed();
    let mut sent: u32 = 10;
    feed.send(ids(0..sent));
    let running = pipeline.run();
    table.wait_for(u64::from(sent));
    let refusals = [
        // The first one was done by the server all the same.
        ("500", "server_away", "unknown", Answer::new(500, "internal").reach(Reach::Server)),
        ("503", "server_away", "unknown", Answer::new(503, "no server is there")),
        (
            "252",
            "too_many_parts",
            "none",
            Answer::exception(500, 252, "Too many parts (3000). Merges are processing slower than inserts"),
        ),
        ("243", "no_space", "none", Answer::exception(500, 243, "Cannot reserve 1.00 MiB, not enough space")),
        // A replica that lost its keeper while it committed says the same behind the commit.
        ("242", "read_only", "unknown", Answer::exception(500, 242, "Table is in readonly mode")),
        // A person has to act, so this is tried again after 15 s only: the last one.
        ("164", "access", "none", Answer::exception(500, 164, "Cannot execute query in readonly mode")),
    ];
    for (name, state, effect, answer) in refusals {
        proxy.add(Rule::always(Fault::Answer(answer)).query(INSERT));
        feed.send(ids(sent..sent + 30));
        sent += 30;
        pipeline.wait_for_live(&format!("sealing to go on after {name}"), |status| {
            status["sealed"]["read"] == sent
        });
        let table_name = format!("default.{}", table.name());
        pipeline.wait_for_live(&format!("{name} to be told"), |status| {
            status["tables"][&table_name]["problem"].as_str().is_some_and(|problem| problem.contains(name))
        });
        let problem = pipeline.wait_for_problem(&table_name, state);
        assert_eq!(problem["effect"], effect, "{problem}");
        proxy.clear();
        table.wait_for(u64::from(sent));
        // The rows may be there while their insert is still in doubt, and what comes next would be, too.
        pipeline.wait_for_live("all to be settled", |status| status["in_flight_rows"] == 0);
    }
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (u64::from(sent), u64::from(sent)));
    assert_eq!(table.dead_letters().count(), 0);
    assert_eq!(pipeline.accounts().written, u64::from(sent));
}

#[test]
fn fault_20_status_200_with_an_error_in_the_body_is_no_success() {
    let Some(case) = Case::begin("fault_20") else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    // The server sees nothing of it, so believing the status would lose the rows.
    let answer = Answer::exception_in_body(241, "Memory limit (total) exceeded");
    let rule = proxy.add(Rule::next(3, Fault::Answer(answer)).query(INSERT));
    case.feed().send(ids(0..200));
    pipeline.drain();
    assert_eq!(proxy.fired(rule), 3);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(table.dead_letters().count(), 0);
}

#[test]
fn a_token_whose_rows_the_server_lost_does_not_stop_them_from_arriving_once() {
    token_without_rows("lost_rows", false);
}

#[test]
fn a_token_whose_rows_the_server_lost_while_the_program_was_dead_too() {
    token_without_rows("lost_rows_both", true);
}

/// The answer to an insert is lost; then the server dies, and its disk has the token and not the part. (The token's log line is
/// written before the part is renamed, and neither is synced, so a machine's crash can leave this.)
fn token_without_rows(name: &str, program_dies: bool) {
    let Some(mut case) = Case::with_own_server(name, ClickHouseOptions::default()) else { return };
    let (proxy, table, pipeline) = through_proxy(&case);
    let pipeline = pipeline.batch("{ rows: 200, age: 10m }");
    let lost = proxy.add(Rule::next(1, Fault::SwallowAnswer).query(INSERT));
    proxy.add(Rule::always(Fault::Reset).query(INSERT));
    case.feed().send(ids(0..200));
    let mut running = pipeline.run();
    table.wait_for(200);
    wait_until(LONG, "the answer to be lost", || proxy.fired(lost) == 1);
    wait_until(LONG, "the lost insert to be told", || !tokens(&proxy).is_empty());
    if program_dies {
        running.kill9().expect("the program to be killed");
    }

    let part = table.value(
        "SELECT path FROM system.parts WHERE active AND table = 'TABLE'".replace("TABLE", name).as_str(),
    );
    case.own_server().kill9().expect("the server to be killed");
    std::fs::remove_dir_all(&part).expect("the part to be removed");
    case.own_server().restart().expect("the server to come back");
    assert_eq!(table.count(), 0, "the rows are gone");
    let token = tokens(&proxy).remove(0);
    let insert = format!("INSERT INTO {name} FORMAT JSONEachRow");
    let settings = [("insert_deduplicate", "1"), ("insert_deduplication_token", token.as_str())];
    case.server().insert_with(&insert, &settings, br#"{"id":0}"#).expect("an insert");
    assert_eq!(table.count(), 0, "the token stands, or this test shows nothing");

    proxy.clear();
    if program_dies {
        running = pipeline.run();
    }
    table.wait_for(200);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    let used = tokens(&proxy);
    assert!(used.last().is_some_and(|last| *last != token), "the rows need a token of their own: {used:?}");
    assert_eq!(pipeline.pending_frames(), 0);
}

/// The tokens of the inserts that went by.
fn tokens(proxy: &FaultProxy) -> Vec<String> {
    let seen = proxy.seen();
    let inserts = seen.iter().filter(|seen| seen.query.contains(INSERT));
    inserts.filter_map(|seen| Some(seen.parameter("insert_deduplication_token")?.to_owned())).collect()
}
