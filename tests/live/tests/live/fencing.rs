//! Two owners of one lane: the newer wins, the older ends by itself, nothing is lost or written twice.
//!
//! Each rule is tried with the store on local disk and on S3.

use std::path::{Path, PathBuf};
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
const LONG: Duration = live::PATIENCE;

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

/// As a service that is started twice on one machine: the newer one cannot listen yet where the older one does.
#[test]
fn of_two_runs_at_one_address_the_newer_wins_and_listens_there_afterwards() {
    let Some(case) = Case::begin("fence_address") else { return };
    let table = case.table("id UInt32", "id");
    let (feed, pipeline) = (case.feed(), case.pipeline());
    feed.send(ids(0..100));
    let older = pipeline.run();
    table.wait_for(100);
    let newer = pipeline.run();
    is_fenced(older);
    feed.send(ids(100..200));
    table.wait_for(200);
    pipeline.wait_for_live("the newer one to listen", |live| live["phase"] == "running");
    term(newer);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
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

/// The older one is frozen in the middle of an insert, whose last bytes it holds back. It sleeps while the newer one delivers the same
/// frame and more, until `is_long_enough` says so of the number of the record that the older one would write next, and is woken.
fn a_frozen_owner_wakes(
    case: &Case,
    pipeline: &Pipeline,
    newer_batch: &str,
    pause: Duration,
    is_long_enough: impl Fn(Duration, u64) -> bool,
) {
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    case.kafka().create_topic(case.name(), MANY_PARTITIONS, &[]).expect("a topic");
    feed.send(ids(0..200));
    let hang = proxy.add(Rule::always(Fault::Hang).query(INSERT));
    let mut older = pipeline.clone().url(&proxy.url()).batch("{ rows: 200, age: 100ms }").run();
    wait_until(LONG, "an insert under way", || proxy.fired(hang) > 0);
    older.stop_signal().expect("SIGSTOP");
    let next_record = pipeline.status()["journal_records"].as_u64().expect("a number");
    let begun = Instant::now();

    let second = pipeline.for_another_process().batch(newer_batch);
    let mut newer = second.run();
    table.wait_for(200);
    let mut sent = 200;
    while !is_long_enough(begun.elapsed(), next_record) {
        assert!(begun.elapsed() < FROZEN_MAX, "not long enough within {FROZEN_MAX:?}");
        for (partition, id) in (0..MANY_PARTITIONS).zip(ids(sent..sent + MANY_PARTITIONS)) {
            feed.push(partition, id.as_bytes());
        }
        feed.flush();
        sent += MANY_PARTITIONS;
        std::thread::sleep(pause);
    }
    println!("frozen for {:?} before record {next_record}; {sent} rows", begun.elapsed());
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

/// Between two records of a partition.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest that an owner is frozen, by hand too.
const FROZEN_MAX: Duration = Duration::from_secs(1_800);

/// Each partition's records of one reading become a batch of their own.
const MANY_PARTITIONS: u32 = 30;

/// A batch for each block that the source hands out: a checkpoint, which retires what is before it, comes with
/// every thousandth record of the journal.
const MANY_SEALS: &str = "{ rows: 1, age: 10ms }";

/// True once the floor of the journal has passed `record`, and the record is gone: what a frozen owner would write next was
/// written by another, retired and deleted.
fn is_retired(lane: &Path, record: u64) -> bool {
    let numbers = |folder: &str| {
        let found = std::fs::read_dir(lane.join(folder)).into_iter().flatten().flatten();
        found.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let journal = numbers("journal");
    !journal.is_empty() && numbers("floor").iter().any(|floor| *floor > record) && !journal.contains(&record)
}

/// The folder of the pipeline's lane, below that of its store.
fn lane(store: &Path, case: &Case) -> PathBuf {
    store.join(case.name().replace('_', "-")).join("lane-0")
}

#[test]
fn fault_14_a_zombie_on_s3_that_wakes_in_the_middle_of_an_insert_ends_without_a_row() {
    let (Some(case), Some(s3)) = (Case::begin("fence_zombie_s3"), s3()) else { return };
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    a_frozen_owner_wakes(&case, &pipeline, "{ rows: 200, age: 100ms }", PAUSE, |frozen, _| {
        frozen >= Duration::from_secs(5)
    });
}

#[test]
fn fault_14_a_zombie_whose_slot_was_won_retired_and_deleted_ends_without_a_row() {
    let Some(case) = Case::begin("fence_zombie_retired") else { return };
    let pipeline = case.pipeline().dedup("id", None);
    let lane = lane(&pipeline.store(), &case);
    a_frozen_owner_wakes(&case, &pipeline, MANY_SEALS, PAUSE, |_, record| is_retired(&lane, record));
}

/// The same on S3, frozen for minutes, and with its slot retired and deleted meanwhile.
/// `cargo test -p live --test end_to_end -- --ignored --nocapture zombie_for_minutes`; `FOREBAY_FROZEN_S` seconds.
#[test]
#[ignore = "takes minutes"]
fn fault_14_a_zombie_for_minutes_whose_slot_was_retired_ends_without_a_row() {
    let (Some(case), Some(s3)) = (Case::begin("fence_zombie_long"), s3()) else { return };
    let seconds = std::env::var("FOREBAY_FROZEN_S").map_or(180, |s| s.parse().expect("a number of seconds"));
    let pipeline = case.pipeline().dedup("id", None).on_s3(&s3.url());
    let lane = lane(&s3.gateway().bucket_dir().join(case.name()), &case);
    a_frozen_owner_wakes(&case, &pipeline, MANY_SEALS, Duration::from_secs(1), |frozen, record| {
        frozen >= Duration::from_secs(seconds) && is_retired(&lane, record)
    });
    let left = std::fs::read_dir(lane.join("journal")).expect("the journal").count();
    println!("{left} records left of {}", pipeline.status()["journal_records"]);
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

/// Numbers of the objects in a folder of the lane.
fn numbers(lane: &Path, folder: &str) -> Vec<u64> {
    let found = std::fs::read_dir(lane.join(folder)).into_iter().flatten().flatten();
    found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What is left of a pipeline that was deleted, as the commands show it: nothing.
fn is_gone(pipeline: &Pipeline) {
    let listed = pipeline.tool(&["list"], &["--json"], 0);
    assert_eq!(listed["pipelines"], json!([]));
    let checked = pipeline.tool(&["store", "check"], &["--json"], 0);
    assert_eq!(checked["lanes"], json!([]), "{checked}");
    assert_eq!(pipeline.status()["has_run"], false);
    let again = pipeline.tool(&["delete"], &["--yes", "--json"], 0);
    assert_eq!((&again["found"], &again["done"]), (&json!(false), &json!(false)), "{again}");
}

/// The process is frozen while its pipeline is removed from elsewhere, and finds more to read when it wakes.
fn a_frozen_owner_of_a_removed_pipeline_wakes(case: &Case, command: &str) {
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..200));
    let pipeline = case.pipeline().dedup("id", None);
    let mut older = pipeline.run();
    table.wait_for(200);
    wait_until(LONG, "all to be settled", || pipeline.pending_frames() == 0);
    older.stop_signal().expect("SIGSTOP");
    // From where nothing answers over HTTP.
    let elsewhere = pipeline.for_another_process();
    let lane = lane(&pipeline.store(), case);
    let newest = numbers(&lane, "journal").into_iter().max().expect("a record");
    elsewhere.tool(&[command], &["--yes", "--json"], 0);
    assert_eq!(numbers(&lane, "journal").len(), 2, "those that fence");
    is_gone(&elsewhere);
    feed.send(ids(200..300));
    older.continue_signal().expect("SIGCONT");
    is_fenced(older);
    assert_eq!(table.count_and_distinct("id"), (200, 200), "it has written nothing more");
    assert!(numbers(&lane, "journal").iter().all(|seq| *seq > newest), "nor into the journal");
    assert_eq!(elsewhere.tool(&["list"], &["--json"], 0)["pipelines"], json!([]));

    // A new pipeline of this name begins behind it. Kafka remembers the group, as `reset` says.
    table.ask("TRUNCATE TABLE {t}");
    let anew = elsewhere.kafka("group: 'anew'");
    anew.drain();
    assert_eq!(table.count_and_distinct("id"), (300, 300));
    assert_eq!(anew.accounts(), Accounts { read: 300, written: 300, ..Accounts::default() });
    assert!(numbers(&lane, "journal").iter().all(|seq| *seq > newest), "no number comes twice");
}

#[test]
fn a_frozen_owner_of_a_pipeline_that_was_deleted_wakes_and_ends_without_a_row() {
    let Some(case) = Case::begin("fence_deleted") else { return };
    a_frozen_owner_of_a_removed_pipeline_wakes(&case, "delete");
}

#[test]
fn a_frozen_owner_of_a_pipeline_that_was_reset_wakes_and_ends_without_a_row() {
    let Some(case) = Case::begin("fence_reset") else { return };
    a_frozen_owner_of_a_removed_pipeline_wakes(&case, "reset");
}

/// A process that cannot be asked over HTTP is seen while it writes. Once it is idle nobody can tell it from none: it is fenced, and ends.
#[test]
fn a_process_that_is_not_seen_keeps_its_pipeline_while_it_writes_and_ends_once_it_is_reset() {
    let Some(case) = Case::begin("fence_unseen") else { return };
    let table = case.table("id UInt32", "id");
    let feed = case.feed();
    feed.send(ids(0..100));
    let pipeline = case.pipeline().dedup("id", None);
    let running = pipeline.run();
    table.wait_for(100);
    let elsewhere = pipeline.for_another_process();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (sent, refused) = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            let mut sent = 100;
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                // Without a wait for the broker: where it pauses, there is something to read as soon as it goes on.
                ids(sent..sent + 1).for_each(|body| feed.push(0, body.as_bytes()));
                sent += 1;
                std::thread::sleep(PAUSE);
            }
            feed.flush();
            sent
        });
        let mut refused = Vec::new();
        for command in ["delete", "reset"] {
            refused.push(elsewhere.run_tool(&[command], &["--yes"]));
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        (feeding.join().expect("no panic"), refused)
    });
    for output in refused {
        assert_eq!(output.exit.status.code(), Some(FENCED), "{}\n{}", output.stdout, output.stderr);
        assert!(output.stderr.contains("a process runs this pipeline at this moment"), "{}", output.stderr);
    }
    table.wait_for(u64::from(sent));
    wait_until(LONG, "all to be settled", || pipeline.pending_frames() == 0);
    assert_eq!(elsewhere.accounts().written, u64::from(sent), "nothing was deleted");
    // Its last record may be a moment away.
    wait_until(LONG, "it to be idle", || {
        elsewhere.run_tool(&["reset"], &["--yes"]).exit.status.code() == Some(0)
    });
    is_fenced(running);
    feed.send(ids(sent..sent + 10));
    assert_eq!(table.count(), u64::from(sent));
    assert_eq!(elsewhere.tool(&["list"], &["--json"], 0)["pipelines"], json!([]));
}
