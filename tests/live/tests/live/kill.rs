//! The events workload while the program and the server are killed again and again.
//!
//! Each life gets its share of the records, and they flow until it ends, so that kills land in the middle of the work however
//! fast the machine is. A life ends at a random moment: early (claim, restore, first reads) or while records flow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use live::{Accounts, Case, Feed, S3Store, Table};
use testkit::{ClickHouseOptions, Fault, Lcg, Rule, Service, available, seed};
use workloads::glassflow::{RECORD_BYTES_MAX, Spec, Workload};

const COLUMNS: &str =
    "event_id UUID, user_id UUID, created_at DateTime('UTC'), user_name String, user_email String";

/// How often the server is killed at the least; once in so many kills of the program otherwise.
const SERVER_KILLS_MIN: u64 = 3;
const SERVER_KILL_EVERY: u64 = 4;

/// One life in so many is a short one.
const EARLY_EVERY: u64 = 5;

/// Answers of the store that are lost at the least.
const LOST_MIN: u64 = 3;

/// One record in so many of a life's comes just before its end.
const HELD_BACK: u64 = 10;

/// Records are released in steps of this length.
const STEP_MS: u64 = 20;

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, not a number")),
        Err(_) => default,
    }
}

#[test]
fn kill_test_every_event_is_in_the_table_once_whatever_is_killed() {
    let Some(case) = Case::with_own_server("kills", ClickHouseOptions::default()) else { return };
    let kills = setting("FOREBAY_KILLS", 12);
    let uniques = setting("FOREBAY_KILL_UNIQUES", 1_000_000);
    kill(case, None, kills, uniques);
}

#[test]
fn kill_test_on_s3_that_loses_answers() {
    // Few requests are sent in so short a time, so more of their answers are lost than in full.
    kill_on_s3("kills_s3", setting("FOREBAY_S3_KILLS", 6), setting("FOREBAY_S3_KILL_UNIQUES", 300_000), 20);
}

/// `cargo test -p live --test end_to_end -- --ignored --nocapture kill_test_on_s3_in_full`
#[test]
#[ignore = "takes minutes"]
fn kill_test_on_s3_in_full() {
    kill_on_s3(
        "kills_s3_full",
        setting("FOREBAY_KILLS", 16),
        setting("FOREBAY_KILL_UNIQUES", 2_000_000),
        100,
    );
}

/// The store's answers get lost after the store has done what was asked; the program's and the server's lives end besides.
fn kill_on_s3(name: &str, kills: u64, uniques: u64, lost_one_in: u64) {
    if !available(&[Service::S3]) {
        return;
    }
    let Some(case) = Case::with_own_server(name, ClickHouseOptions::default()) else { return };
    let s3 = S3Store::start().expect("a gateway");
    let lost = s3.proxy().add(Rule::always(Fault::SwallowAnswer).one_in(lost_one_in, seed()));
    kill(case, Some(&s3), kills, uniques);
    let (lost, requests) = (s3.proxy().fired(lost), s3.proxy().counters().requests);
    println!("{lost} answers of the store were lost, of {requests}");
    assert!(lost >= LOST_MIN, "{lost} answers of {requests} were lost");
}

fn kill(case: Case, s3: Option<&S3Store>, kills: u64, uniques: u64) {
    let mut random = Lcg::new(seed());
    let spec = Spec {
        seed: random.next_u64(),
        publishers: 2,
        uniques: uniques / 2,
        far_duplicates: uniques / 40,
        cross_duplicates: uniques / 40,
        ..Spec::default()
    };
    let workload = Workload::new(spec).expect("a workload");
    let table = case.table(COLUMNS, "event_id");
    let released = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let story = std::thread::scope(|scope| {
        // Whatever becomes of the lives, the producer must not be waited for in vain.
        let _end = End(&over);
        let tap = Tap { workload: &workload, released: &released, over: &over, seed: random.next_u64() };
        let feed = case.feed();
        let producing = scope.spawn(move || tap.pour(&feed));
        let mut lives = Lives {
            case,
            s3,
            table: table.clone(),
            random,
            kills,
            released: &released,
            told: Story::default(),
        };
        lives.live(workload.records_total());
        producing.join().expect("the producer");
        lives
    });
    story.judge(&workload);
}

/// Tells the producer to end, also when the test panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Sends what is released.
struct Tap<'a> {
    workload: &'a Workload,
    released: &'a AtomicU64,
    over: &'a AtomicBool,
    seed: u64,
}

impl Tap<'_> {
    /// Both publishers in turn, without a key, each record to any of the three partitions.
    fn pour(&self, feed: &Feed) {
        let mut random = Lcg::new(self.seed);
        let mut body = Vec::with_capacity(RECORD_BYTES_MAX);
        let publishers = self.workload.spec().publishers;
        let mut sent = 0;
        for position in 0..self.workload.records(0) {
            for publisher in 0..publishers {
                while sent >= self.released.load(Ordering::Acquire) {
                    feed.flush();
                    if self.over.load(Ordering::Acquire) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                body.clear();
                self.workload.write(publisher, position, &mut body);
                feed.push(random.below(3) as u32, &body);
                sent += 1;
            }
        }
        feed.flush();
    }
}

/// What happened on the way.
#[derive(Debug, Default)]
struct Story {
    program_kills: u64,
    server_kills: u64,
    /// Lives that sealed something.
    lives_with_progress: u64,
    /// Kills that left records that were not sealed.
    kills_in_the_middle: u64,
}

struct Lives<'a> {
    case: Case,
    s3: Option<&'a S3Store>,
    table: Table,
    random: Lcg,
    kills: u64,
    released: &'a AtomicU64,
    told: Story,
}

impl Lives<'_> {
    fn live(&mut self, records: u64) {
        let pipeline = self.pipeline();
        let mut read_before = 0;
        for kill in 0..self.kills {
            let mut process = pipeline.run();
            if kill % SERVER_KILL_EVERY == SERVER_KILL_EVERY - 1 {
                self.flow(600..2_000, records * (2 * kill + 1) / (2 * self.kills + 2));
                self.kill_server();
            }
            let is_early = kill % EARLY_EVERY == EARLY_EVERY - 1;
            let life_ms = if is_early { 0..400 } else { 600..3_000 };
            let share = records / (self.kills + 1);
            self.flow(life_ms, share * (kill + 1) - share / HELD_BACK);
            if !is_early {
                // A start on a slow store or a busy machine may take longer than such a life; one that seals nothing shows nothing.
                let has_sealed =
                    |status: &serde_json::Value| status["sealed"]["read"].as_u64() > Some(read_before);
                pipeline.wait_for_live("this life to seal something", has_sealed);
                // Meanwhile all of it may have been sealed: the kill is to come while records flow.
                self.flow(0..40, share * (kill + 1));
            }
            if !process.is_running().expect("its state") {
                panic!("the program ended by itself:\n{}", process.stderr().expect("its log"));
            }
            process.kill9().expect("the program to be killed");
            self.told.program_kills += 1;

            let read = pipeline.accounts().read;
            let (lag, pending) = (pipeline.lag(), pipeline.pending_frames());
            println!(
                "kill {}: {read} records sealed, {lag} not, {pending} frames not settled, {} rows",
                kill + 1,
                self.table.count()
            );
            self.told.lives_with_progress += u64::from(read > read_before);
            self.told.kills_in_the_middle += u64::from(lag > 0);
            read_before = read;
        }
        while self.told.server_kills < SERVER_KILLS_MIN {
            // Few lives were asked for; the server is to die as often all the same.
            let process = pipeline.run();
            self.flow(600..2_000, self.released.load(Ordering::Acquire));
            self.kill_server();
            live::pipeline::term(process);
        }
        self.released.store(records, Ordering::Release);
    }

    fn pipeline(&self) -> live::Pipeline {
        let pipeline = self
            .case
            .pipeline()
            .dedup("event_id", Some("created_at"))
            .batch("{ rows: 50000, age: 200ms }")
            .more("columns: { user_name: name, user_email: email }");
        match self.s3 {
            None => pipeline,
            Some(s3) => pipeline.on_s3(&s3.proxy().url()),
        }
    }

    /// It is back after a moment in which the program meets nobody.
    fn kill_server(&mut self) {
        self.case.own_server().kill9().expect("the server to be killed");
        let away_ms = self.below(0..500);
        std::thread::sleep(Duration::from_millis(away_ms));
        self.case.own_server().restart().expect("the server to come back");
        self.told.server_kills += 1;
    }

    /// Releases records up to `until`, evenly over a random time.
    fn flow(&mut self, range_ms: std::ops::Range<u64>, until: u64) {
        let steps = self.below(range_ms) / STEP_MS + 1;
        let from = self.released.load(Ordering::Acquire);
        for step in 1..=steps {
            self.released.store(from + (until - from) * step / steps, Ordering::Release);
            std::thread::sleep(Duration::from_millis(STEP_MS));
        }
    }

    fn below(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.random.below(range.end - range.start)
    }

    fn judge(&self, workload: &Workload) {
        let begun = Instant::now();
        let pipeline = self.pipeline();
        pipeline.drain();
        println!("{:?}; the rest took {:?}", self.told, begun.elapsed());

        assert_eq!(self.table.content(), workload.expected());
        assert_eq!(self.table.dead_letters().count(), 0);
        let accounts = Accounts {
            read: workload.records_total(),
            written: workload.uniques_total(),
            duplicates: workload.duplicates_total(),
            ..Accounts::default()
        };
        assert_eq!(pipeline.accounts(), accounts);
        assert_eq!((pipeline.pending_frames(), pipeline.lag()), (0, 0));
        assert!(self.told.program_kills >= self.kills && self.told.server_kills >= SERVER_KILLS_MIN);
        let least = self.kills / 2;
        assert!(self.told.lives_with_progress >= least, "{:?}: lives must seal something", self.told);
        assert!(
            self.told.kills_in_the_middle >= least,
            "{:?}: kills must land in the middle of the work",
            self.told
        );
        self.case.kafka().delete_topic(self.case.name()).expect("half a gigabyte is given back");
    }
}
