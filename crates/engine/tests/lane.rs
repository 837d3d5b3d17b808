//! The engine in a small world: real lane, journal, store, source and dedup; a table whose faults are made to order.
#![allow(clippy::disallowed_methods, reason = "tests wait by the wall clock")]
#![allow(missing_docs)]

#[path = "lane/arrays.rs"]
mod arrays;
#[path = "lane/cache.rs"]
mod cache;
#[path = "lane/change.rs"]
mod change;
#[path = "lane/claim.rs"]
mod claim;
#[path = "lane/columns.rs"]
mod columns;
#[path = "lane/damage.rs"]
mod damage;
#[path = "lane/doubt.rs"]
mod doubt;
#[path = "lane/eras.rs"]
mod eras;
#[path = "lane/faults.rs"]
mod faults;
#[path = "lane/forget.rs"]
mod forget;
#[path = "lane/inputs.rs"]
mod inputs;
#[path = "lane/inspect.rs"]
mod inspect;
#[path = "lane/intake.rs"]
mod intake;
#[path = "lane/join.rs"]
mod join;
#[path = "lane/late.rs"]
mod late;
#[path = "lane/marks.rs"]
mod marks;
#[path = "lane/refusals.rs"]
mod refusals;
#[path = "lane/remove.rs"]
mod remove;
#[path = "lane/rename.rs"]
mod rename;
#[path = "lane/retire.rs"]
mod retire;
#[path = "lane/rewind.rs"]
mod rewind;
#[path = "lane/rollup.rs"]
mod rollup;
#[path = "lane/start.rs"]
mod start;
#[path = "lane/state.rs"]
mod state;
mod support;
#[path = "lane/tables.rs"]
mod tables;
#[path = "lane/temporal.rs"]
mod temporal;
#[path = "lane/told.rs"]
mod told;
#[path = "lane/unmatched.rs"]
mod unmatched;
#[path = "lane/unwritten.rs"]
mod unwritten;
#[path = "lane/upsert.rs"]
mod upsert;
#[path = "lane/ways.rs"]
mod ways;
#[path = "lane/window.rs"]
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::Partition;
use engine::problem::State;
use engine::{EngineError, Outcome};
use protocol::record::Fate;
use support::{Bench, Fault, LONG, Process, Retiring, Told};
use tokio::sync::watch;

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}

#[test]
fn every_record_is_written_once_and_the_counts_add_up() {
    run(async {
        let bench = Bench::new();
        bench.push(0..500);
        bench.push(100..150);
        bench.push_text(7, "seven");
        assert_eq!(bench.drain().await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..500);
        let counts = bench.lane().await.counts;
        assert!(counts.add_up());
        assert_eq!((counts.read, counts.passed, counts.duplicates, counts.dead_letters), (551, 500, 50, 1));
        assert_eq!(bench.dead_letters.world.lock().expect("no panic").rows.len(), 1);
    });
}

#[test]
fn a_source_that_asks_is_told_what_became_of_each_record() {
    run(async {
        let bench = Bench::new();
        for (id, text) in [(0, "0"), (2, "2"), (4, "zero"), (6, "0"), (8, "8")] {
            bench.push_text(id, text);
        }
        let (_stop, asked) = watch::channel(false);
        let told = engine::Pipeline {
            inputs: bench.inputs(Arc::new(Told::honest(bench.source.clone()))),
            ..bench.pipeline(true)
        };
        engine::run(told, asked).await.expect("drains");
        let lane = bench.lane().await;
        let partition = lane.partition(0, "e", 0).expect("it was read") as u32;
        let fates = lane.fates.iter().find(|fates| fates.partition == partition).expect("asked for");
        let told: Vec<Option<Fate>> = (0..6).map(|position| fates.at(position)).collect();
        let (written, duplicate, dead) = (Some(Fate::Written), Some(Fate::Duplicate), Some(Fate::DeadLetter));
        assert_eq!(told, [written, written, dead, duplicate, written, None]);
    });
}

#[test]
fn a_second_start_reads_on_and_still_knows_the_keys() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        bench.push(50..200);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..200);
        assert_eq!(bench.lane().await.epoch, 2);
    });
}

#[test]
fn an_ended_source_ends_the_pipeline() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        bench.feed.end_all();
        let (_stop, asked) = watch::channel(false);
        let outcome = engine::run(bench.pipeline(false), asked).await.expect("ends");
        assert_eq!(outcome, Outcome::Complete);
        bench.assert_holds(0..10);
    });
}

#[test]
fn lost_answers_and_dead_servers_lose_and_double_nothing() {
    run(async {
        for fault in [Fault::Refused, Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows] {
            let bench = Bench::new();
            bench.push(0..300);
            bench.table.world.lock().expect("no panic").faults.extend([fault; 3]);
            bench.drain().await.expect("drains");
            bench.assert_holds(0..300);
        }
    });
}

#[test]
fn a_crash_at_any_moment_loses_and_doubles_nothing() {
    run(async {
        for seed in 0..12u64 {
            let bench = Bench::new();
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 100..round * 100 + 130);
                {
                    let mut world = bench.table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(bench.pipeline(false)).kill_after(life).await;
            }
            bench.drain().await.expect("drains");
            bench.assert_holds(0..630);
            let counts = bench.lane().await.counts;
            assert!(counts.add_up() && counts.passed == 630, "seed {seed}: {counts:?}");
        }
    });
}

#[test]
fn sealing_goes_on_while_the_table_is_away_until_the_spool_is_full() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 2_000;
        bench.settings.batch_age_max = Duration::from_millis(1);
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        bench.table.world.lock().expect("no panic").away = true;
        for from in (50..2_000).step_by(50) {
            bench.push(from..from + 50);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        wait_until(|| bench.status.snapshot().phase == engine::Phase::Paused).await;
        let spool = bench.lane().await.spool_bytes();
        assert!(spool > 1_000 && spool <= 2_000, "sealed up to the bound, not beyond: {spool}");
        bench.table.world.lock().expect("no panic").away = false;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 2_000).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        bench.assert_holds(0..2_000);
        assert_eq!(bench.lane().await.spool_bytes(), 0, "a drain leaves nothing behind");
    });
}

#[test]
fn a_drain_under_back_pressure_ends_in_time_and_loses_nothing() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 1_000;
        bench.settings.drain_time_max = Duration::from_millis(300);
        bench.push(0..1_000);
        let (stop, asked) = watch::channel(false);
        let pipeline = bench.pipeline(false);
        let world = bench.table.world.clone();
        let running = tokio::spawn(engine::run(pipeline, asked));
        wait_until(|| !world.lock().expect("no panic").ids().is_empty()).await;
        world.lock().expect("no panic").away = true;
        bench.push(1_000..3_000);
        wait_until(|| bench.status.snapshot().phase == engine::Phase::Paused).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("ends"), Outcome::Interrupted);
        world.lock().expect("no panic").away = false;
        bench.drain().await.expect("drains");
        bench.assert_holds(0..3_000);
    });
}

#[test]
fn the_newer_owner_wins_and_the_older_stops_by_itself() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        let (_stop, asked) = watch::channel(false);
        let older = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        let (stop, asked) = watch::channel(false);
        let newer = tokio::spawn(engine::run(bench.pipeline(false), asked));
        while bench.lane().await.epoch < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.push(100..300);
        let error = older.await.expect("no panic").expect_err("the older one is fenced");
        assert!(matches!(error, EngineError::Fenced { .. }), "{error}");
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 300).await;
        stop.send(true).expect("it runs");
        newer.await.expect("no panic").expect("drains");
        bench.assert_holds(0..300);
    });
}

#[test]
fn a_start_that_does_not_fit_leaves_the_owner_alone() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        let (_stop, asked) = watch::channel(false);
        let without_steps = engine::Pipeline { steps: Vec::new(), ..bench.pipeline(false) };
        let error = engine::run(without_steps, asked).await.expect_err("other steps");
        assert!(matches!(error, EngineError::Mismatch(_)), "{error}");
        bench.push(10..20);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 20).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("was left alone"), Outcome::Drained);
    });
}

#[test]
fn a_lost_stop_sender_is_no_reason_to_spin() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        let (stop, asked) = watch::channel(false);
        drop(stop);
        let run = engine::run(bench.pipeline(true), asked);
        let outcome = tokio::time::timeout(LONG, run).await.expect("it reads");
        assert_eq!(outcome.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..100);
    });
}

#[test]
fn checkpoints_keep_the_store_small_and_lose_no_key() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 6;
        let prefix = store::Prefix::new("p/lane-0/journal").expect("a prefix");
        let mut ids = 0;
        // A checkpoint is written and retired beside the lane, and a drain does not wait for it.
        for _ in 0..100 {
            bench.push(ids..ids + 420);
            ids += 400;
            bench.drain_and_exit().await.expect("drains");
            let (lane, journal) = (bench.lane().await, bench.store.list(&prefix, None, 1_000).await);
            let is_retired = journal.expect("lists").len() < 20;
            if ids >= 3_200 && is_retired && lane.newest_checkpoint.is_some_and(|seq| seq > 15) {
                break;
            }
        }
        bench.assert_holds(0..ids + 20);
        let lane = bench.lane().await;
        assert!(lane.newest_checkpoint.is_some_and(|seq| seq > 15), "{:?}", lane.newest_checkpoint);
        let journal = bench.store.list(&prefix, None, 1_000).await.expect("lists");
        assert!(journal.len() < 20, "retired records are gone: {}", journal.len());
        bench.push(0..ids + 20);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..ids + 20);
    });
}

#[test]
fn a_lost_answer_after_many_inserts_is_sent_again_and_not_looked_for() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.facts_every = Duration::from_millis(10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        // More inserts than half of the tokens that the table remembers.
        for id in 0..80 {
            bench.push([id]);
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() as u64 > id).await;
        }
        bench.table_looked_at().await;
        bench.table.world.lock().expect("no panic").faults.push_back(Fault::LostAfter);
        bench.push([80]);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 81).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(0..81);
        assert_eq!(bench.table.world.lock().expect("no panic").probes, 0);
    });
}

#[test]
fn a_stop_while_the_table_is_away_at_the_start_is_obeyed_at_once() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.drain_time_max = Duration::from_secs(3_600);
        bench.table.world.lock().expect("no panic").away = true;
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        bench.table_looked_at().await;
        stop.send(true).expect("it runs");
        let ended = tokio::time::timeout(LONG, running).await.expect("long before a drain");
        assert_eq!(ended.expect("no panic").expect("ends"), Outcome::Interrupted);
        assert_eq!(bench.lane().await.epoch, 0, "nothing was claimed");
    });
}

#[test]
fn a_journal_that_is_retired_while_it_is_read_is_read_again() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 6;
        let store = Arc::new(Retiring::new(bench.store.clone()));
        bench.store = store.clone();
        let mut lane = bench.lane().await;
        for round in 0..100u64 {
            bench.push(round * 400..round * 400 + 400);
            bench.drain_and_exit().await.expect("drains");
            lane = bench.lane().await;
            if round >= 3 && lane.newest_checkpoint.is_some() {
                break;
            }
        }
        assert!(lane.newest_checkpoint.is_some());
        store.hide_floor_once();
        assert_eq!(bench.lane().await, lane);
    });
}

#[test]
fn a_partition_that_appears_while_reading_is_read_from_its_beginning() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        let added = Partition::new("e", 2);
        bench.feed.open(added.clone());
        for id in 10..20 {
            bench.feed.push(&added, 0, id.to_string());
        }
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 20).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.drain().await.expect("starts again with three partitions");
        bench.assert_holds(0..20);
    });
}

#[test]
fn a_lost_store_is_refused_instead_of_reading_everything_again() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        bench.store = std::sync::Arc::new(store::MemoryStore::new(1 << 30));
        let error = bench.drain().await.expect_err("the source knows better").to_string();
        assert!(error.contains("the store was lost"), "{error}");
        bench.assert_holds(0..100);
    });
}

/// Gives ten records whose inserts will hang, at the most that may be under way.
fn give_ten_that_hang(bench: &mut support::Bench) {
    (bench.settings.in_flight_max, bench.settings.window_frames_max) = (16, 64);
    bench.table.world.lock().expect("no panic").insert_time = Duration::from_secs(3_600);
    bench.push(0..10);
}

/// Waits until they hang, and gives ten more, whose inserts are answered at once. How many inserts hang.
async fn give_ten_that_pass(bench: &support::Bench) -> u64 {
    let world = || bench.table.world.lock().expect("no panic");
    wait_until(|| {
        let told = bench.status.snapshot();
        let sealed = told.tables.get("d.t").map(|table| table.frames_sealed);
        told.sealed.records.read == 10 && sealed == Some(world().begun)
    })
    .await;
    let hang = world().begun;
    world().insert_time = Duration::ZERO;
    bench.push(10..20);
    hang
}

async fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within five minutes");
}
