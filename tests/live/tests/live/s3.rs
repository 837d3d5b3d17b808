//! The store on S3: a gateway that is slow, loses answers, refuses, dies and comes back.

use std::time::{Duration, Instant};

use live::pipeline::term;
use live::{Accounts, Case, S3Store};
use serde_json::json;
use testkit::{Answer, Fault, Reach, Rule, Service, available, wait_until};

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

fn s3() -> Option<S3Store> {
    available(&[Service::S3]).then(|| S3Store::start().expect("a gateway"))
}

#[test]
fn every_fault_of_the_store_is_outlived_and_every_row_is_there_once() {
    let (Some(case), Some(s3)) = (Case::begin("s3_faults"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.proxy().url());
    let feed = case.feed();
    let mut sent = 50;
    feed.send(ids(0..sent));
    let running = pipeline.run();
    table.wait_for(u64::from(sent));
    let conflict = "<Error><Code>ConditionalRequestConflict</Code><Message>at once</Message></Error>";
    let faults = [
        ("PUT", "/journal/", Fault::SwallowAnswer),
        ("PUT", "/segments/", Fault::SwallowAnswer),
        ("PUT", "/journal/", Fault::Answer(Answer::new(503, "slow down").reach(Reach::Server))),
        ("PUT", "/journal/", Fault::Answer(Answer::new(503, "slow down"))),
        ("PUT", "/journal/", Fault::Answer(Answer::new(409, conflict))),
        ("PUT", "/segments/", Fault::CutRequest { body_bytes: 10 }),
        ("PUT", "/", Fault::Reset),
        ("GET", "/journal/", Fault::SwallowAnswer),
        ("GET", "/", Fault::Answer(Answer::new(500, ""))),
        ("PUT", "/", Fault::DelayAnswer(Duration::from_millis(500))),
    ];
    for (method, path, fault) in faults {
        let rule = s3.proxy().add(Rule::next(3, fault.clone()).method(method).target(path));
        feed.send(ids(sent..sent + 50));
        sent += 50;
        table.wait_for(u64::from(sent));
        assert!(s3.proxy().fired(rule) >= 1, "{method} {path} {fault:?} was not tried");
        s3.proxy().clear();
    }
    term(running);
    assert_eq!(table.count_and_distinct("id"), (u64::from(sent), u64::from(sent)));
    let written = u64::from(sent);
    assert_eq!(pipeline.accounts(), Accounts { read: written, written, ..Accounts::default() });
}

#[test]
fn a_store_that_is_away_pauses_the_pipeline_and_ends_nothing() {
    let (Some(case), Some(mut s3)) = (Case::begin("s3_away"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    let feed = case.feed();
    feed.send(ids(0..100));
    // Away at the start.
    s3.gateway_mut().kill9().expect("killed");
    let mut running = pipeline.run();
    pipeline.wait_for_problem("store", "store_away");
    std::thread::sleep(Duration::from_secs(2));
    assert!(running.is_running().expect("its state"), "it waits for the store");
    s3.gateway_mut().restart().expect("back");
    table.wait_for(100);
    // Away while it runs.
    s3.gateway_mut().kill9().expect("killed");
    feed.send(ids(100..200));
    pipeline.wait_for_problem("store", "store_away");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(table.count(), 100, "nothing is sent that is not sealed");
    // Where the journal cannot be read, the process that waits for it can still be asked.
    let said = pipeline.run_tool(&["status"], &[]);
    assert_eq!(said.exit.status.code(), Some(1), "{}", said.stdout);
    assert!(said.stdout.contains("store: store_away since"), "{}\n{}", said.stdout, said.stderr);
    assert!(running.is_running().expect("its state"), "it waits for the store");
    s3.gateway_mut().restart().expect("back");
    table.wait_for(200);
    wait_until(live::PATIENCE, "the problem to end", || pipeline.problem("store").is_none());
    term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
}

#[test]
fn a_start_on_a_flaky_store_reads_its_whole_journal() {
    let (Some(case), Some(s3)) = (Case::begin("s3_flaky"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let pipeline =
        case.pipeline().dedup("id", None).on_s3(&s3.proxy().url()).batch("{ rows: 20, age: 20ms }");
    let feed = case.feed();
    feed.send(ids(0..2_000));
    pipeline.drain();
    // One in five: no start would live through its reads.
    let rule = s3.proxy().add(Rule::always(Fault::SwallowAnswer).one_in(5, testkit::seed()));
    let mut sent = 2_000;
    // How many requests a start makes depends on how the records fell into batches: some forty, of which by chance no answer may be lost.
    while s3.proxy().fired(rule) == 0 {
        assert!(sent < 4_000, "no answer was lost in twenty starts");
        feed.send(ids(sent..sent + 100));
        sent += 100;
        pipeline.drain();
    }
    s3.proxy().clear();
    let written = u64::from(sent);
    assert_eq!(table.count_and_distinct("id"), (written, written));
    assert_eq!(pipeline.accounts(), Accounts { read: written, written, ..Accounts::default() });
}

#[test]
fn a_store_that_overwrites_is_refused_at_the_start_by_name() {
    let (Some(case), Some(s3)) = (Case::begin("s3_overwrites"), s3()) else { return };
    case.table("id UInt32", "id");
    let ignores = Answer::new(200, "").header("ETag", "\"x\"");
    s3.proxy().add(Rule::always(Fault::Answer(ignores)).method("PUT").target("/.probe/").skip(1));
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.proxy().url());
    let (exit, log) = live::pipeline::ended(pipeline.run());
    assert_eq!(exit.status.code(), Some(4), "{log}");
    assert!(log.contains("s3://forebay-test/s3_overwrites") && log.contains("If-None-Match"), "{log}");
}

#[test]
fn wrong_keys_end_the_start_and_are_not_shown() {
    let (Some(case), Some(s3)) = (Case::begin("s3_keys"), s3()) else { return };
    case.table("id UInt32", "id");
    let pipeline =
        case.pipeline().dedup("id", None).on_s3(&s3.url()).env("LIVE_S3_SECRET", "hunter2-hunter2");
    let (exit, log) = live::pipeline::ended(pipeline.run());
    assert_eq!(exit.status.code(), Some(1), "{log}");
    assert!(log.contains("403") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_seal_costs_two_puts_and_an_insert_two_gets() {
    let (Some(case), Some(s3)) = (Case::begin("s3_cost"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url()).batch("{ rows: 50, age: 50ms }");
    let feed = case.feed();
    feed.send(ids(0..100));
    let running = pipeline.run();
    table.wait_for(100);
    let asked = |kind: &str| {
        pipeline.live().expect("its status")["store_requests"][kind]["requests"].as_u64().unwrap_or_default()
    };
    let sealed = || pipeline.status()["journal_records"].as_u64().expect("a number");
    let frames = || pipeline.status()["tables"][0]["frames_sealed"].as_u64().expect("a number");
    // Still once all is settled and a second has brought no request but a look of an idle owner.
    let still = || {
        let mut last = None;
        wait_until(live::PATIENCE, "the store to be left alone", || {
            let now = (asked("put"), asked("list"), sealed(), frames());
            std::thread::sleep(Duration::from_secs(1));
            last.replace(now) == Some(now)
        });
    };
    still();
    let (begun, before) = (Instant::now(), (asked("put"), asked("get"), asked("list"), sealed(), frames()));
    let mut rounds = 0;
    // A machine under load puts several rounds into one insert; so many go out that there are enough inserts.
    while rounds < 60 || (frames() < before.4 + 30 && rounds < 600) {
        rounds += 1;
        feed.send(ids(rounds * 100..rounds * 100 + 50));
        std::thread::sleep(Duration::from_millis(60));
    }
    table.wait_for(100 + u64::from(rounds) * 50);
    still();
    let after = (asked("put"), asked("get"), asked("list"), sealed(), frames());
    // Two gets in ten seconds, and a few between the questions above.
    let idle_gets = begun.elapsed().as_secs() / 5 + 8;
    let (puts, gets, lists) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    let (records, inserts) = (after.3 - before.3, after.4 - before.4);
    println!("{puts} puts, {gets} gets, {lists} lists for {records} records and {inserts} inserts");
    term(running);
    assert!(inserts >= 30, "{inserts} inserts");
    // A record each, and a segment for each that is a seal; a get of the record before.
    assert!(puts <= records + inserts, "{puts} puts for {records} records");
    assert!(
        gets <= records + 2 * inserts + idle_gets,
        "{gets} gets for {records} records and {inserts} inserts"
    );
    assert_eq!(lists, 0, "lists are what costs most");
}
