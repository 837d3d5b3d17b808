//! Signals, drains, and back-pressure.

use std::time::{Duration, Instant};

use live::{Accounts, Case, Pipeline, Table};
use serde_json::json;
use testkit::{ClickHouseOptions, Fault, FaultProxy, Lcg, Process, Rule, wait_until};

const INSERT: &str = "INSERT INTO";

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// A pipeline that holds all it has read in its queues but one record, for its batches are large and old age is far. The first batch of
/// a start is cut at once: so one record goes ahead.
/// A busy machine may need longer than the default for what the program holds.
const LONG_DRAIN: &str = "shutdown: { timeout: 10m }";

fn holding(case: &Case, records: u32) -> (Table, Pipeline, Process) {
    let table = case.table("id UInt32", "id");
    case.feed().spread(ids(0..1));
    let pipeline = case.pipeline().dedup("id", None).batch("{ rows: 1000000, age: 10m }").more(LONG_DRAIN);
    let running = pipeline.run();
    pipeline.wait_for_live("the first batch", |status| status["sealed"]["read"] == 1);
    case.feed().spread(ids(1..records));
    pipeline.wait_for_live("all to be read", |status| status["unsealed"]["read"] == records - 1);
    assert!(table.count() <= 1, "the records wait in the program");
    (table, pipeline, running)
}

#[test]
fn fault_09_sigterm_drains_what_the_queues_hold() {
    let Some(case) = Case::begin("fault_09_term") else { return };
    let (table, pipeline, running) = holding(&case, 5_000);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (5_000, 5_000));
    assert_eq!(pipeline.accounts(), Accounts { read: 5_000, written: 5_000, ..Accounts::default() });
    assert_eq!((pipeline.pending_frames(), pipeline.lag()), (0, 0));
}

#[test]
fn fault_09_sigint_drains_what_the_queues_hold() {
    let Some(case) = Case::begin("fault_09_int") else { return };
    let (table, pipeline, running) = holding(&case, 5_000);
    live::pipeline::interrupt(&running);
    live::pipeline::ended_well(running);
    assert_eq!(table.count_and_distinct("id"), (5_000, 5_000));
    assert_eq!((pipeline.pending_frames(), pipeline.lag()), (0, 0));
}

#[test]
fn fault_09_a_second_signal_stops_at_once_and_the_next_start_brings_the_rest() {
    let Some(case) = Case::begin("fault_09_second") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let hang = proxy.add(Rule::always(Fault::Hang).query(INSERT));
    let table = case.table("id UInt32", "id");
    case.feed().spread(ids(0..2_000));
    // A drain would go on for so long.
    let drain_max = "shutdown: { timeout: 10m }";
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url()).more(drain_max);
    let running = pipeline.run();
    wait_until(live::PATIENCE, "an insert that hangs", || proxy.fired(hang) > 0);
    live::pipeline::interrupt(&running);
    pipeline.wait_for_live("the drain", |status| status["phase"] == "draining");
    let begun = Instant::now();
    live::pipeline::interrupt(&running);
    let (exit, log) = live::pipeline::ended(running);
    assert_eq!(exit.status.code(), Some(130), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(300), "at once, not after {:?}", begun.elapsed());
    assert_eq!(table.count(), 0);
    proxy.clear();
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (2_000, 2_000));
    assert_eq!(pipeline.accounts().written, 2_000);
}

#[test]
fn fault_22_sigterm_waits_for_the_insert_that_is_under_way() {
    let Some(case) = Case::begin("fault_22") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    // So long that an insert is under way when SIGTERM comes; where the machine is too busy for that, nothing else is asked of the end.
    let slow = proxy.add(Rule::always(Fault::DelayRequest(Duration::from_secs(5))).query(INSERT));
    let table = case.table("id UInt32", "id");
    case.feed().spread(ids(0..2_000));
    let pipeline = case.pipeline().url(&proxy.url()).more("shutdown: { timeout: 10m }");
    let mut running = pipeline.run();
    wait_until(live::PATIENCE, "an insert under way", || proxy.fired(slow) > 0);
    pipeline.wait_for_live("all to be read", |status| status["sealed"]["read"] == 2_000);
    running.term().expect("SIGTERM");
    live::pipeline::ended_well(running);
    assert_eq!(table.count_and_distinct("id"), (2_000, 2_000));
    assert_eq!(pipeline.pending_frames(), 0);
}

/// The exit code for "another process has taken the pipeline over".
const FENCED: i32 = 3;

#[test]
fn fault_14_an_owner_that_sleeps_through_its_replacement_writes_nothing_twice_and_ends() {
    let Some(case) = Case::begin("fault_14") else { return };
    let probe = live::Table::at(&case.server().url(), "system.one");
    // A token is trusted on a server that certainly has not restarted: one that is some seconds old.
    let uptime_s = || probe.value("SELECT uptime()").parse::<u64>().expect("a number");
    wait_until(live::PATIENCE, "the server to be old enough", || uptime_s() >= 6);
    sleeper(&case);
}

#[test]
fn fault_14_an_insert_still_on_its_way_to_a_server_just_started_writes_nothing_twice() {
    let Some(case) = Case::with_own_server("fault_14_young", ClickHouseOptions::default()) else { return };
    sleeper(&case);
}

/// The sleeper's insert is on its way while it sleeps, and arrives when the new owner has sent the same frame.
fn sleeper(case: &Case) {
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..200));
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url()).batch("{ rows: 200, age: 200ms }");
    proxy.add(Rule::next(1, Fault::DelayRequest(Duration::from_secs(3))).query(INSERT));
    let mut sleeper = pipeline.run();
    // To its last byte: a process that stops before it has sent that leaves half a request, which no server takes.
    wait_until(live::PATIENCE, "a whole insert under way", || proxy.counters().delayed == 1);
    sleeper.stop_signal().expect("SIGSTOP");

    let second = pipeline.for_another_process();
    let mut owner = second.run();
    table.wait_for(200);
    let answered = |is_late: bool| {
        let seen = proxy.seen();
        let mut inserts =
            seen.iter().filter(|seen| seen.query.contains(INSERT) && seen.server_status.is_some());
        inserts.any(|insert| insert.rule.is_some() == is_late)
    };
    // On a busy machine the sleeper's insert arrives before the owner looks for its rows, and then the owner sends none.
    let is_known = || second.status()["records"]["written"] == 200;
    wait_until(live::PATIENCE, "both inserts to have been answered", || {
        answered(true) && (answered(false) || is_known())
    });
    assert_eq!(table.count_and_distinct("id"), (200, 200));

    sleeper.continue_signal().expect("SIGCONT");
    feed.send(ids(200..400));
    let (exit, log) = live::pipeline::ended(sleeper);
    assert_eq!(exit.status.code(), Some(FENCED), "{log}");
    table.wait_for(400);
    assert!(owner.is_running().expect("its state"), "the owner goes on");
    live::pipeline::term(owner);
    assert_eq!(table.count_and_distinct("id"), (400, 400));
    assert_eq!(second.accounts(), Accounts { read: 400, written: 400, ..Accounts::default() });
}

/// Bytes that a sealed record of [`glassflow_08_back_pressure`] has at least, for its text does not compress.
const WIDE_BYTES: usize = 2_000;
const WIDE_RECORDS: u64 = 25_000;

#[test]
fn glassflow_08_a_full_spool_pauses_the_source_stops_within_15_s_and_ends_with_lag_0() {
    let Some(case) = Case::begin("glassflow_08") else { return };
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32, wide String", "id");
    let pipeline = case
        .pipeline()
        .dedup("id", None)
        .url(&proxy.url())
        .batch("{ rows: 1000, bytes: 4MiB, age: 100ms }")
        .more("spool: { bytes: 16MiB }")
        .more("memory: 256MiB")
        // What is fetched ahead is to be small beside the topic.
        .more("shutdown: { timeout: 3s }");
    let spool_bytes_max = 16 << 20;
    let refusal = proxy.add(Rule::always(Fault::Reset).query(INSERT));
    let feed = case.feed();
    send_wide(&feed, WIDE_RECORDS);

    let running = pipeline.run();
    pipeline.wait_for_live("the source to pause", |status| status["phase"] == "paused");
    // What was about to be sealed may still be, and then nothing is while the spool is full.
    let mut paused = pipeline.live().expect("its status");
    wait_until(live::PATIENCE, "sealing to rest", || {
        std::thread::sleep(Duration::from_secs(1));
        let later = pipeline.live().expect("its status");
        let before = std::mem::replace(&mut paused, later);
        before["sealed"] == paused["sealed"]
    });
    let spool_bytes = paused["spool_bytes"].as_u64().expect("a number");
    assert!((8 << 20..=spool_bytes_max).contains(&spool_bytes), "{spool_bytes} bytes of {spool_bytes_max}");
    assert!(pipeline.lag() > WIDE_RECORDS / 4, "the rest waits in the topic");
    assert!(proxy.fired(refusal) > 0);

    // No insert succeeds: without its bound the drain would have no end.
    live::pipeline::term(running);
    assert_eq!(table.count(), 0);

    proxy.clear();
    let running = pipeline.run();
    table.wait_for(WIDE_RECORDS);
    wait_until(live::PATIENCE, "the lag to end", || pipeline.lag() == 0);
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (WIDE_RECORDS, WIDE_RECORDS));
    assert_eq!(pipeline.accounts().written, WIDE_RECORDS);
}

#[test]
fn what_piles_up_behind_a_server_that_is_away_is_on_disk_and_memory_keeps_its_bound() {
    let Some(case) = Case::begin("memory_bound") else { return };
    let records = 6 * WIDE_RECORDS;
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32, wide String", "id");
    let pipeline = case.pipeline().dedup("id", None).url(&proxy.url()).more("memory: 256MiB");
    let memory = 256 << 20;
    proxy.add(Rule::always(Fault::Reset).query(INSERT));
    let feed = case.feed();
    send_wide(&feed, records);

    let running = pipeline.run();
    pipeline.wait_for_live("all to be sealed", |status| status["sealed"]["read"] == records);
    let spool_bytes = pipeline.live().expect("its status")["spool_bytes"].as_u64().expect("a number");
    assert!(spool_bytes > memory, "{spool_bytes} bytes wait");
    proxy.clear();
    table.wait_for(records);
    let peak = running.usage().expect("its usage").rss_bytes_max;
    live::pipeline::term(running);
    assert_eq!(table.count_and_distinct("id"), (records, records));
    assert!(peak <= memory / 5 * 6, "{peak} bytes, and `memory` is {memory}");
}

fn send_wide(feed: &live::Feed, records: u64) {
    let mut random = Lcg::new(8);
    for id in 0..records {
        let wide: String = (0..WIDE_BYTES / 16).map(|_| format!("{:016x}", random.next_u64())).collect();
        feed.push(id as u32 % 3, format!(r#"{{"id":{id},"wide":"{wide}"}}"#).as_bytes());
    }
    feed.flush();
}
