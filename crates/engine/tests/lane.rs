//! The engine in a small world: real lane, journal, store, source and dedup; a table whose faults are made to order.
#![allow(clippy::disallowed_methods, reason = "tests wait by the wall clock")]
#![allow(missing_docs)]

#[path = "lane/cache.rs"]
mod cache;
#[path = "lane/change.rs"]
mod change;
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
#[path = "lane/intake.rs"]
mod intake;
#[path = "lane/join.rs"]
mod join;
#[path = "lane/late.rs"]
mod late;
#[path = "lane/remove.rs"]
mod remove;
#[path = "lane/rename.rs"]
mod rename;
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
fn one_refused_row_goes_to_the_dead_letters_alone_and_its_key_is_forgotten() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![13, 37];
        bench.push(0..200);
        bench.drain().await.expect("drains");
        bench.assert_holds((0..200).filter(|id| ![13, 37].contains(id)));
        // Each by its record's position: ids go to the two partitions in turn.
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters.into_iter().collect::<Vec<_>>(), [(6, 1), (18, 1)]);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters, totals.records.passed), (198, 2, 200));
        assert!(totals.records.add_up());
        let told = bench.status.snapshot().tables.remove("d.t").expect("its rows");
        assert_eq!((told.rows_sealed, told.rows_settled, told.rows_refused), (200, 198, 2));
        assert_eq!(told.rows_in_flight(), 0);

        // The table was mended and the record sent again: it is welcome.
        bench.table.world.lock().expect("no panic").poison.clear();
        bench.push([13, 37, 14]);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..200);
    });
}

#[test]
fn a_half_whose_rows_weigh_more_than_the_batchs_mean_is_sent_whole() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.batch_rows_max = 40;
        bench.settings.batch_age_max = Duration::from_secs(1);
        bench.settings.first_batch_age_max = Duration::from_secs(1);
        // All in one partition, the heavy ones last: two frames of 20 rows by the mean of all, where 10 heavy ones would be cut again.
        let ids: Vec<u64> = (0..30).map(|n| 2 * n).chain((500..510).map(|n| 2 * n)).collect();
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.frame_weight_max = 20 * ids.iter().sum::<u64>() / 40;
            world.poison = vec![4, 1_004];
        }
        bench.push(ids.iter().copied());
        bench.drain().await.expect("drains");
        bench.assert_holds(ids.into_iter().filter(|id| ![4, 1_004].contains(id)));
        assert_eq!(bench.totals().await.dead_letters, 2);
    });
}

#[test]
fn a_refused_row_whose_record_is_gone_or_away_is_a_dead_letter_at_its_place_all_the_same() {
    run(async {
        for is_gone in [true, false] {
            let mut bench = Bench::new();
            bench.settings.reread_time_max = Duration::from_millis(100);
            bench.table.world.lock().expect("no panic").away = true;
            bench.table.world.lock().expect("no panic").facts_away = false;
            bench.push(0..50);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            wait_until(|| bench.status.snapshot().sealed.records.read == 50).await;
            if is_gone {
                (0..2).for_each(|index| bench.feed.forget(&Partition::new("e", index), 25));
            } else {
                bench.feed.fail(10_000);
            }
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.poison = vec![13, 37];
                world.away = false;
            }
            wait_until(|| bench.dead_letters.world.lock().expect("no panic").ids().len() == 2).await;
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("drains");
            let letters = bench.dead_letters.world.lock().expect("no panic").ids();
            assert_eq!(letters.into_iter().collect::<Vec<_>>(), [(6, 1), (18, 1)]);
            bench.assert_holds((0..50).filter(|id| ![13, 37].contains(id)));
        }
    });
}

#[test]
fn a_table_that_was_changed_gets_nothing_until_it_is_as_it_was_and_no_row_is_blamed() {
    run(async {
        for are_rows_refused in [true, false] {
            let mut bench = Bench::new();
            bench.settings.facts_every = Duration::from_millis(5);
            bench.push(0..50);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.changed = true;
                // Whether the server notices or would write something else in silence.
                world.poison = if are_rows_refused { (0..200).collect() } else { Vec::new() };
            }
            bench.table_looked_at().await;
            bench.push(50..200);
            wait_until(|| {
                let problem = bench.status.snapshot().problems.remove("d.t");
                problem.is_some_and(|problem| problem.state == State::TableDiffers)
            })
            .await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(bench.table.world.lock().expect("no panic").ids().len(), 50);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                (world.changed, world.poison) = (false, Vec::new());
            }
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 200).await;
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("drains");
            bench.assert_holds(0..200);
            assert_eq!(bench.status.snapshot().problems, BTreeMap::new(), "it has ended");
            assert_eq!(bench.totals().await.dead_letters, 0);
        }
    });
}

#[test]
fn more_bad_rows_than_pieces_hold_the_frame_say_so_and_lose_nothing() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.batch_rows_max = 2_000;
        bench.settings.batch_age_max = Duration::from_secs(1);
        bench.settings.first_batch_age_max = Duration::from_secs(1);
        bench.settings.drain_time_max = Duration::from_millis(100);
        bench.table.world.lock().expect("no panic").poison = (0..2_000).collect();
        bench.push(0..2_000);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let problem = || bench.status.snapshot().problems.remove("d.t").map(|p| p.words);
        wait_until(|| problem().is_some_and(|words| words.contains("1024 pieces"))).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("goes on"), Outcome::Interrupted);
        assert_eq!(bench.totals().await.dead_letters, 0);
        // Its table mended, all of it arrives, in pieces.
        bench.settings.drain_time_max = Duration::from_secs(5);
        bench.table.world.lock().expect("no panic").poison.clear();
        bench.drain().await.expect("drains");
        bench.assert_holds(0..2_000);
    });
}

#[test]
fn a_crash_at_any_moment_of_a_refusal_loses_and_doubles_nothing() {
    run(async {
        for seed in 0..16u64 {
            let bench = Bench::new();
            let bad = [3, 50, 51, 99, 100, 177];
            bench.table.world.lock().expect("no panic").poison = bad.to_vec();
            bench.push(0..200);
            for round in 0..5u64 {
                if (seed + round) % 3 == 0 {
                    let fault = [Fault::LostAfter, Fault::LostBefore][(round % 2) as usize];
                    bench.table.world.lock().expect("no panic").faults.push_back(fault);
                }
                let life = Duration::from_millis(5 + (seed * 13 + round * 7) % 47);
                let _ = Process::start(bench.pipeline(false)).kill_after(life).await;
            }
            bench.drain().await.expect("drains");
            bench.assert_holds((0..200).filter(|id| !bad.contains(id)));
            let letters = bench.dead_letters.world.lock().expect("no panic").ids();
            let expected: Vec<(u64, u64)> = [(1, 1), (25, 2), (49, 1), (50, 1), (88, 1)].to_vec();
            assert_eq!(letters.into_iter().collect::<Vec<_>>(), expected, "seed {seed}");
            let totals = bench.totals().await;
            assert!(totals.records.add_up() && totals.dead_letters == 6, "seed {seed}: {totals:?}");
        }
    });
}

#[test]
fn a_refused_row_in_a_frame_whose_answer_was_lost_is_found_all_the_same() {
    run(async {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let bench = Bench::new();
            bench.push(0..200);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.faults.push_back(fault);
                world.poison_after = Some((1, vec![13, 37]));
            }
            bench.drain().await.expect("drains");
            let counts = bench.totals().await;
            assert!(counts.records.add_up() && counts.written + counts.dead_letters == 200, "{counts:?}");
            let ids = bench.table.world.lock().expect("no panic").ids();
            assert_eq!((ids.len() as u64, ids.values().max()), (counts.written, Some(&1)));
        }
    });
}

#[test]
fn a_refused_row_in_a_frame_that_an_earlier_owner_may_have_sent_does_not_stop_the_lane() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![13];
        bench.table.world.lock().expect("no panic").away = true;
        bench.push(0..50);
        // It is sealed, and the owner is gone before the table has answered at all.
        bench.table.world.lock().expect("no panic").facts_away = false;
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.read < 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        bench.table.world.lock().expect("no panic").away = false;
        bench.drain().await.expect("drains");
        bench.assert_holds((0..50).filter(|id| *id != 13));
    });
}

#[test]
fn a_refused_dead_letter_waits_for_its_table_to_be_mended() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.drain_time_max = Duration::from_millis(200);
        bench.dead_letters.world.lock().expect("no panic").poison = vec![0];
        bench.push_text(0, "no number");
        bench.push(1..20);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.dead_letters.world.lock().expect("no panic").attempts > 0).await;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 19).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("goes on"), Outcome::Interrupted);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (19, 1));
        bench.dead_letters.world.lock().expect("no panic").poison.clear();
        bench.drain().await.expect("drains");
        assert_eq!(bench.dead_letters.world.lock().expect("no panic").rows.len(), 1);
    });
}

#[test]
fn a_refused_row_makes_its_way_past_a_full_spool() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 2_000;
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.away = true;
            world.poison = vec![60, 61, 62, 160];
        }
        bench.push(50..2_000);
        wait_until(|| bench.status.snapshot().phase == engine::Phase::Paused).await;
        bench.table.world.lock().expect("no panic").away = false;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 1_996).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds((0..2_000).filter(|id| ![60, 61, 62, 160].contains(id)));
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

async fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within five minutes");
}
