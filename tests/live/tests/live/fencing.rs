//! Two owners of one lane: the newer wins, the older ends by itself, nothing is lost or written twice.
//!
//! Each rule is tried with the store on local disk and on S3.

use std::time::{Duration, Instant};

use live::pipeline::{ended, term};
use live::{Accounts, Case, Pipeline, S3Store};
use serde_json::json;
use testkit::{Fault, FaultProxy, Process, Rule, Service, available, wait_until};

/// The exit code for "another process has taken the pipeline over".
const FENCED: i32 = 3;

/// What a rule of the proxy fits, to mean inserts alone.
const INSERT: &str = "INSERT INTO";

/// Longer than any step that a test waits for.
const LONG: Duration = Duration::from_secs(60);

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// A gateway for the tests that want one; `None` where there is none, which was said aloud.
fn s3() -> Option<S3Store> {
    available(&[Service::S3]).then(|| S3Store::start().expect("a gateway"))
}

fn is_fenced(process: Process) {
    let (exit, log) = ended(process);
    assert_eq!(exit.status.code(), Some(FENCED), "{log}");
    assert!(log.contains("another process has taken over this pipeline"), "{log}");
}

/// Nobody writes: the older one finds out by looking, and the newer one goes on where it was.
fn an_idle_owner_ends(case: &Case, pipeline: &Pipeline) {
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..100));
    let older = pipeline.run();
    table.wait_for(100);
    let second = pipeline.for_another_process();
    let mut newer = second.run();
    is_fenced(older);
    feed.send(ids(100..200));
    table.wait_for(200);
    assert!(newer.is_running().expect("its state"), "the newer one goes on");
    term(newer);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(second.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
}

#[test]
fn of_two_runs_the_newer_wins_and_an_idle_older_one_ends_by_itself() {
    let Some(case) = Case::begin("fence_idle") else { return };
    let pipeline = case.pipeline().dedup("id", None);
    an_idle_owner_ends(&case, &pipeline);
}

#[test]
fn of_two_runs_on_s3_the_newer_wins_and_an_idle_older_one_ends_by_itself() {
    let (Some(case), Some(s3)) = (Case::begin("fence_idle_s3"), s3()) else { return };
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    an_idle_owner_ends(&case, &pipeline);
}

/// Records come all the time, in many small seals, while one process after the other takes over.
fn owners_in_a_row(case: &Case, pipeline: &Pipeline, takeovers: u32) {
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    let total = 4_000;
    let pipeline = pipeline.clone().batch("{ rows: 200, age: 20ms }");
    std::thread::scope(|scope| {
        let producing = scope.spawn(move || {
            for from in (0..total).step_by(20) {
                feed.spread(ids(from..from + 20));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut owner = pipeline.run();
        for _ in 0..takeovers {
            let before = table.count();
            wait_until(LONG, "the owner to be at work", || {
                table.count() > before.min(u64::from(total) - 1) || table.count() == u64::from(total)
            });
            let newer = pipeline.for_another_process().run();
            is_fenced(std::mem::replace(&mut owner, newer));
        }
        producing.join().expect("the producer");
        table.wait_for(u64::from(total));
        term(owner);
    });
    assert_eq!(table.count_and_distinct("id"), (u64::from(total), u64::from(total)));
    let written = u64::from(total);
    assert_eq!(pipeline.accounts(), Accounts { read: written, written, ..Accounts::default() });
    assert_eq!(pipeline.pending_frames(), 0);
}

#[test]
fn an_owner_at_work_is_replaced_again_and_again() {
    let Some(case) = Case::begin("fence_row") else { return };
    let pipeline = case.pipeline().dedup("id", None);
    owners_in_a_row(&case, &pipeline, 3);
}

#[test]
fn an_owner_at_work_on_a_slow_s3_is_replaced_again_and_again() {
    let (Some(case), Some(s3)) = (Case::begin("fence_row_s3"), s3()) else { return };
    // A list takes longer than the owner takes for several records.
    s3.proxy().add(Rule::always(Fault::DelayAnswer(Duration::from_millis(100))).target("list-type=2"));
    s3.proxy().add(Rule::always(Fault::DelayAnswer(Duration::from_millis(10))));
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.proxy().url());
    owners_in_a_row(&case, &pipeline, 3);
}

#[test]
fn of_three_that_start_at_once_one_is_left() {
    let (Some(case), Some(s3)) = (Case::begin("fence_three"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    let mut runs: Vec<Process> = (0..3).map(|_| pipeline.for_another_process().run()).collect();
    let feed = case.feed();
    feed.spread(ids(0..300));
    table.wait_for(300);
    let begun = Instant::now();
    wait_until(LONG, "two of them to end", || {
        runs.iter_mut().filter_map(|run| run.is_running().ok()).filter(|is_running| *is_running).count() == 1
    });
    println!("two of three ended within {:?}", begun.elapsed());
    for mut run in runs {
        if run.is_running().expect("its state") {
            feed.spread(ids(300..600));
            table.wait_for(600);
            term(run);
        } else {
            is_fenced(run);
        }
    }
    assert_eq!(table.count_and_distinct("id"), (600, 600));
    assert_eq!(pipeline.accounts(), Accounts { read: 600, written: 600, ..Accounts::default() });
}

/// The older one is frozen in the middle of an insert, whose last bytes it holds back. It sleeps for `frozen` while the newer
/// one delivers the same frame and more, and is woken.
fn a_frozen_owner_wakes(case: &Case, pipeline: &Pipeline, frozen: Duration) {
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..200));
    let batch = "{ rows: 200, age: 100ms }";
    let hang = proxy.add(Rule::always(Fault::Hang).query(INSERT));
    let mut older = pipeline.clone().url(&proxy.url()).batch(batch).run();
    wait_until(LONG, "an insert under way", || proxy.fired(hang) > 0);
    older.stop_signal().expect("SIGSTOP");
    let begun = Instant::now();

    let second = pipeline.for_another_process().batch(batch);
    let mut newer = second.run();
    table.wait_for(200);
    let mut sent = 200;
    while begun.elapsed() < frozen {
        feed.send(ids(sent..sent + 10));
        sent += 10;
        std::thread::sleep(Duration::from_millis(100));
    }
    // From here on the server listens to the older one too.
    proxy.clear();
    proxy.cut_connections();
    older.continue_signal().expect("SIGCONT");
    is_fenced(older);
    feed.send(ids(sent..sent + 100));
    sent += 100;
    table.wait_for(u64::from(sent));
    assert!(newer.is_running().expect("its state"), "the newer one goes on");
    term(newer);
    let written = u64::from(sent);
    assert_eq!(table.count_and_distinct("id"), (written, written));
    assert_eq!(second.accounts(), Accounts { read: written, written, ..Accounts::default() });
}

#[test]
fn fault_14_a_zombie_on_s3_that_wakes_in_the_middle_of_an_insert_ends_without_a_row() {
    let (Some(case), Some(s3)) = (Case::begin("fence_zombie_s3"), s3()) else { return };
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    a_frozen_owner_wakes(&case, &pipeline, Duration::from_secs(5));
}

/// Long enough that what the zombie would write next has been written, retired and deleted meanwhile.
/// `cargo test -p live --test end_to_end -- --ignored --nocapture zombie_for_minutes`; `FOREBAY_FROZEN_S` seconds.
#[test]
#[ignore = "takes minutes"]
fn fault_14_a_zombie_for_minutes_whose_slot_was_retired_ends_without_a_row() {
    let (Some(case), Some(s3)) = (Case::begin("fence_zombie_long"), s3()) else { return };
    let seconds = std::env::var("FOREBAY_FROZEN_S").map_or(180, |s| s.parse().expect("a number of seconds"));
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    a_frozen_owner_wakes(&case, &pipeline, Duration::from_secs(seconds));
    let journal = s3
        .gateway()
        .bucket_dir()
        .join(case.name())
        .join(case.name().replace('_', "-"))
        .join("lane-0/journal");
    let first = std::fs::read_dir(&journal).expect("the journal").count();
    println!("{first} records left of {}", pipeline.status()["journal_records"]);
}

#[test]
fn fault_23_status_check_and_dry_runs_never_fence_the_owner() {
    let (Some(case), Some(s3)) = (Case::begin("fault_23"), s3()) else { return };
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..100));
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    let mut owner = pipeline.run();
    table.wait_for(100);
    let epoch = pipeline.status()["epoch"].clone();

    // The same store through a proxy that sees who asks for what.
    let looking = case.pipeline().dedup("id", None).on_s3(&s3.proxy().url());
    for _ in 0..3 {
        assert_eq!(looking.status()["records"]["read"], 100);
        looking.check(&[]);
        looking.check(&["--connect"]);
    }
    let seen = s3.proxy().seen();
    assert!(!seen.is_empty(), "they were to look through the proxy");
    let other: Vec<_> = seen.iter().filter(|seen| !matches!(seen.method.as_str(), "GET" | "HEAD")).collect();
    assert!(other.is_empty(), "only reads: {other:?}");

    feed.send(ids(100..200));
    table.wait_for(200);
    assert!(owner.is_running().expect("its state"), "the owner was left alone");
    assert_eq!(pipeline.status()["epoch"], epoch, "nobody claimed");
    term(owner);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
}
