//! A table whose columns change: while the lane runs, while frames wait, between two starts.

use std::collections::BTreeMap;
use std::time::Duration;

use dataflow::Runtime;
use engine::problem::State;
use engine::{EngineError, Outcome};
use tokio::sync::watch;

use crate::support::{Bench, Fault, LONG, Process};
use crate::{give_ten_that_hang, give_ten_that_pass, run, wait_until};

type Columns = Vec<(&'static str, &'static str)>;

/// A bench whose table has these columns.
fn bench(columns: Columns) -> Bench {
    let mut bench = Bench::new();
    bench.settings.facts_every = Duration::from_millis(5);
    bench.table.world.lock().expect("no panic").columns = columns;
    bench.table = bench.table.open_again(&[]);
    bench
}

fn alter(bench: &Bench, columns: Columns) {
    bench.table.world.lock().expect("no panic").columns = columns;
}

fn away(bench: &Bench, is_away: bool) {
    let mut world = bench.table.world.lock().expect("no panic");
    (world.away, world.facts_away) = (is_away, false);
}

/// Drains, and opens the table again as often as that is asked for.
async fn drain(bench: &mut Bench) -> Result<Outcome, EngineError> {
    let mut all = Vec::new();
    for _ in 0..4 {
        match bench.drain().await? {
            Outcome::Reopen { added, .. } => {
                all.extend(added.into_values().flatten());
                bench.table = bench.table.open_again(&all);
            }
            outcome => return Ok(outcome),
        }
    }
    panic!("it is opened again and again");
}

/// Seals records while the table is away, and is gone.
async fn seal(bench: &Bench, ids: std::ops::Range<u64>) {
    away(bench, true);
    bench.push(ids.clone());
    let running = Process::start(bench.pipeline(false));
    wait_until(|| bench.status.snapshot().sealed.records.read == ids.end).await;
    running.kill().await;
    away(bench, false);
}

/// Sends records, whose insert ends as `fault` says, and kills the process.
async fn attempt(bench: &Bench, fault: Fault, ids: std::ops::Range<u64>) {
    bench.table.world.lock().expect("no panic").faults.push_back(fault);
    bench.push(ids);
    let running = Process::start(bench.pipeline(false));
    wait_until(|| bench.table.world.lock().expect("no panic").attempts > 0).await;
    running.kill().await;
}

/// Whatever was sent or sealed before, and these records, are in the table once after a column of [`AB`] has become wider.
async fn arrive_in_wider_columns(bench: &mut Bench, ids: std::ops::Range<u64>) {
    alter(bench, vec![("id", "UInt64"), ("c", "String"), ("d", "Nullable(UInt8)")]);
    bench.table = bench.table.open_again(&[]);
    let all = ids.end;
    bench.push(ids);
    drain(bench).await.expect("drains");
    bench.assert_holds(0..all);
    let lane = bench.lane().await;
    assert_eq!((lane.counts.passed, lane.tables[1].rows.sealed), (all, 0));
}

const AB: [(&str, &str); 2] = [("id", "UInt32"), ("c", "String")];

#[test]
fn a_start_without_a_column_that_waiting_frames_hold_is_refused_and_has_sealed_nothing() {
    run(async {
        let mut bench = bench(AB.to_vec());
        seal(&bench, 0..50).await;
        alter(&bench, vec![("id", "UInt32")]);
        bench.table = bench.table.open_again(&[]);
        bench.push(50..500);
        let before = bench.lane().await;
        let error = bench.drain().await.expect_err("frames hold `c`");
        assert!(matches!(error, EngineError::Mismatch(_)), "{error}");
        let words = error.to_string();
        assert!(words.contains("other columns") && words.contains("`c` is gone; ADD COLUMN it"), "{words}");
        let after = bench.lane().await;
        assert_eq!(
            (after.next_seq, after.counts),
            (before.next_seq, before.counts),
            "nothing was claimed or sealed"
        );
        // The way out that was printed.
        alter(&bench, AB.to_vec());
        bench.table = bench.table.open_again(&[]);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..500);
        // Dropped on purpose, with nothing that waits: the next start goes on without it, and takes it up again later.
        alter(&bench, vec![("id", "UInt32")]);
        bench.table = bench.table.open_again(&[]);
        bench.push(500..600);
        drain(&mut bench).await.expect("drains");
        alter(&bench, AB.to_vec());
        bench.table = bench.table.open_again(&[]);
        bench.push(600..700);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..700);
    });
}

#[test]
fn a_column_that_comes_back_while_a_start_looks_is_in_every_row_that_it_seals() {
    run(async {
        let mut bench = bench(AB.to_vec());
        seal(&bench, 0..50).await;
        alter(&bench, vec![("id", "UInt32")]);
        bench.table = bench.table.open_again(&[]);
        bench.push(50..100);
        let before = bench.lane().await;
        // Between the opening of the table and the start's look at it.
        alter(&bench, AB.to_vec());
        let outcome = bench.drain().await.expect("it is opened again");
        assert_eq!(outcome, Outcome::Reopen { claimed: false, added: BTreeMap::new() });
        assert_eq!(bench.lane().await.next_seq, before.next_seq, "nothing was claimed or sealed");
        bench.table = bench.table.open_again(&[]);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..100);
    });
}

#[test]
fn a_column_that_is_added_is_taken_up_while_running_and_stops_nothing() {
    run(async {
        let mut bench = bench(AB.to_vec());
        bench.push(0..100);
        let (_stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        alter(&bench, vec![("d", "UInt8"), ("id", "UInt32"), ("c", "String")]);
        bench.push(100..200);
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
        let lane = bench.lane().await;
        // A frame that was never sent may wait for the next start; what was under way has come to its end.
        let waits = lane.tables[0].pending.iter().flatten().filter(|piece| piece.is_live());
        let waiting: u64 = waits.map(|piece| piece.frame.rows).sum();
        let there = bench.table.world.lock().expect("no panic").ids().len() as u64;
        assert_eq!(there + waiting, lane.counts.passed, "{:?}", lane.tables[0]);
        bench.table = bench.table.open_again(&[]);
        // A record need not give a column that was added: the start says so before it claims.
        let outcome = bench.drain().await.expect("it is opened again");
        let added = BTreeMap::from([("d.t".to_owned(), vec!["d".to_owned()])]);
        assert_eq!(outcome, Outcome::Reopen { claimed: false, added });
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..200);
        // So does every later start.
        bench.push(200..210);
        bench.table = bench.table.open_again(&[]);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..210);
        let newest = bench.lane().await.tables[0].newest_layout().expect("it is said");
        let added = newest.columns.iter().find(|column| column.name == "d");
        assert!(added.is_some_and(|d| !d.is_required), "{newest:?}");
    });
}

#[test]
fn what_a_run_has_read_and_settled_counts_on_when_its_lane_is_opened_again() {
    run(async {
        let mut bench = bench(AB.to_vec());
        bench.push(0..100);
        let (_stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let told = || bench.status.snapshot();
        wait_until(|| told().tables.get("d.t").is_some_and(|table| table.rows_settled == 100)).await;
        bench.table.world.lock().expect("no panic").views = 1;
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
        assert_eq!((told().read, told().unsealed.records.read), (100, 0));
        bench.table = bench.table.open_again(&[]);
        bench.push(100..200);
        assert_eq!(bench.drain().await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..200);
        let last = bench.status.snapshot();
        let table = &last.tables["d.t"];
        assert_eq!((last.read, table.rows_sealed, table.rows_settled), (200, 200, 200));
        assert_eq!(table.rows_in_flight(), 0);
    });
}

/// A proxy holds one answer back; all others were positive.
#[test]
fn what_is_settled_beyond_an_insert_that_hangs_is_no_doubt_when_the_lane_is_opened_again() {
    run(async {
        let mut bench = bench(AB.to_vec());
        give_ten_that_hang(&mut bench);
        let (_stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        give_ten_that_pass(&bench).await;
        let world = || bench.table.world.lock().expect("no panic");
        wait_until(|| world().ids().len() == 10).await;
        world().views = 1;
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
        let lane = bench.lane().await;
        let settled = lane.tables[0].pending.iter().flatten().filter(|piece| piece.settled);
        assert_eq!(settled.map(|piece| piece.frame.rows).sum::<u64>(), 10, "{:?}", lane.tables[0]);
        bench.table = bench.table.open_again(&[]);
        assert_eq!(bench.drain().await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..20);
        let last = bench.status.snapshot();
        assert_eq!((last.tables["d.t"].rows_sealed, last.tables["d.t"].rows_settled), (20, 20));
    });
}

#[test]
fn a_view_that_is_added_while_running_opens_the_lane_again_and_stops_nothing() {
    run(async {
        // Of the table that rows go to, and of that of the dead letters.
        for of_dead_letters in [false, true] {
            let mut bench = bench(AB.to_vec());
            bench.push(0..100);
            let (_stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
            let viewed = if of_dead_letters { &bench.dead_letters } else { &bench.table };
            viewed.world.lock().expect("no panic").views = 1;
            bench.push(100..200);
            let outcome = running.await.expect("no panic").expect("it ends in order");
            assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
            assert!(bench.status.snapshot().problems.is_empty());
            (bench.table, bench.dead_letters) =
                (bench.table.open_again(&[]), bench.dead_letters.open_again(&[]));
            // Opened with the view, and with one that goes again, it runs on.
            assert_eq!(bench.drain().await.expect("drains"), Outcome::Complete);
            bench.assert_holds(0..200);
            bench.table.world.lock().expect("no panic").views = 0;
            bench.push(200..210);
            assert_eq!(bench.drain().await.expect("drains"), Outcome::Complete);
            bench.assert_holds(0..210);
        }
    });
}

/// Servers behind a balancer: the one that a start asks lacks a view that the one has which a poll asks.
#[test]
fn a_lane_that_is_opened_again_and_again_for_views_says_so_and_runs_on() {
    run(async {
        let mut bench = bench(AB.to_vec());
        let turns = |bench: &Bench| bench.status.snapshot().tables.remove("d.t").expect("it is told").turns;
        for turn in 1..=3_u64 {
            bench.table.world.lock().expect("no panic").views = 0;
            bench.table = bench.table.open_again(&[]);
            bench.push(turn * 10 - 10..turn * 10);
            bench.table.world.lock().expect("no panic").views = 1;
            let (_stop, asked) = watch::channel(false);
            let outcome = engine::run(bench.pipeline(false), asked).await.expect("it ends in order");
            assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
            assert_eq!((turns(&bench).times, turns(&bench).is_told), (turn, turn == 3));
        }
        // However long this test takes, it was a moment ago.
        let soon = bench.runtime.elapsed() + LONG * 10;
        bench.status.update(|s| {
            let turns = &mut s.tables.get_mut("d.t").expect("it is told").turns;
            (0..3).for_each(|_| turns.opened(soon));
        });
        bench.table.world.lock().expect("no panic").views = 0;
        bench.table = bench.table.open_again(&[]);
        bench.table.world.lock().expect("no panic").views = 1;
        bench.push(30..100);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        bench.table_looked_at().await;
        assert!(!running.is_finished(), "rows flow meanwhile");
        assert_eq!((turns(&bench).times, turns(&bench).is_told), (6, true));
        assert!(bench.status.snapshot().problems.is_empty(), "nothing is waited for");
        // Columns are no matter of chance: rows that are sealed without them would lack them.
        alter(&bench, vec![("d", "UInt8"), ("id", "UInt32"), ("c", "String")]);
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
        drop(stop);
        bench.table = bench.table.open_again(&[]);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..100);
    });
}

/// Views came and went all the time, and then the table is exchanged for one with other partitions.
#[test]
fn what_concerns_the_inserts_themselves_is_taken_up_soon_however_often_the_lane_was_opened_again() {
    run(async {
        let bench = bench(AB.to_vec());
        let now = bench.runtime.elapsed();
        bench.status.update(|s| {
            let turns = &mut s.tables.entry("d.t".to_owned()).or_default().turns;
            (0..3).for_each(|_| turns.opened(now));
        });
        bench.push(0..100);
        let (_stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        bench.table.world.lock().expect("no panic").views = 1;
        bench.table_looked_at().await;
        assert!(!running.is_finished(), "views wait");
        bench.table.world.lock().expect("no panic").is_exchanged = true;
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
    });
}

#[test]
fn frames_that_wait_go_out_under_new_tokens_for_a_wider_column() {
    run(async {
        // Never sent; sent, and perhaps there; there.
        for fault in [None, Some(Fault::LostBefore), Some(Fault::LostAfter)] {
            let mut bench = bench(AB.to_vec());
            if let Some(fault) = fault {
                attempt(&bench, fault, 0..50).await;
            } else {
                seal(&bench, 0..50).await;
            }
            arrive_in_wider_columns(&mut bench, 50..100).await;
        }
    });
}

/// Nothing but the token can tell whether the rows are there, so they keep it.
#[test]
fn rows_that_cannot_be_looked_for_go_out_under_their_token_for_a_wider_column() {
    run(async {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let mut bench = bench(AB.to_vec());
            bench.table.world.lock().expect("no panic").cannot_tell = true;
            attempt(&bench, fault, 0..50).await;
            arrive_in_wider_columns(&mut bench, 50..100).await;
        }
    });
}

/// Columns that do not hold the values are named, with the statement that brings back the ones that do.
#[test]
fn rows_in_doubt_that_no_column_holds_wait_for_the_one_that_did() {
    run(async {
        let mut bench = bench(AB.to_vec());
        // Only the attempt shows it: a poll of the table would tell of the columns too.
        bench.settings.facts_every = Duration::from_secs(3_600);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.cannot_tell = true;
            world.faults.push_back(Fault::LostBefore);
        }
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").attempts > 0).await;
        alter(&bench, vec![("id", "String"), ("c", "String")]);
        let problem = || bench.status.snapshot().problems.remove("d.t");
        wait_until(|| problem().is_some_and(|problem| problem.state == State::TableDiffers)).await;
        assert!(problem().expect("it stands").words.contains("values of UInt32 in String"));
        alter(&bench, AB.to_vec());
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(0..50);
    });
}

#[test]
fn a_column_that_is_widened_while_running_is_nothing_that_is_waited_for() {
    run(async {
        let mut bench = bench(AB.to_vec());
        // Only the refused insert shows it.
        bench.settings.facts_every = Duration::from_secs(3_600);
        bench.push(0..50);
        let (_stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        alter(&bench, vec![("id", "UInt64"), ("c", "String")]);
        bench.push(50..100);
        while !running.is_finished() {
            assert_eq!(bench.status.snapshot().problems, BTreeMap::new());
            tokio::task::yield_now().await;
        }
        let outcome = running.await.expect("no panic").expect("it ends in order");
        assert_eq!(outcome, Outcome::Reopen { claimed: true, added: BTreeMap::new() });
        bench.table = bench.table.open_again(&[]);
        drain(&mut bench).await.expect("drains");
        bench.assert_holds(0..100);
    });
}

#[test]
fn a_column_that_is_dropped_while_running_holds_the_rows_until_it_is_back() {
    run(async {
        let mut bench = bench(AB.to_vec());
        bench.settings.drain_time_max = Duration::from_secs(10);
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        alter(&bench, vec![("id", "UInt32")]);
        let problem = || bench.status.snapshot().problems.remove("d.t");
        // Seen before a frame runs into it.
        wait_until(|| problem().is_some_and(|problem| problem.state == State::TableDiffers)).await;
        bench.push(50..200);
        wait_until(|| bench.status.snapshot().sealed.records.read == 200).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(bench.table.world.lock().expect("no panic").ids().len(), 50);
        assert!(problem().expect("it stands").words.contains("`c` is gone"));
        alter(&bench, AB.to_vec());
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 200).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(0..200);
        assert_eq!(bench.totals().await.dead_letters, 0);
    });
}

/// What was seen to have changed, and what fits, are asked one after the other: a look may end in between.
#[test]
fn a_column_that_is_back_between_two_questions_does_not_open_the_lane_again() {
    run(async {
        let mut bench = bench(AB.to_vec());
        // The delivery alone asks.
        bench.settings.facts_every = Duration::from_secs(3_600);
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.columns = vec![("id", "UInt32")];
            world.columns_at_fit = Some(AB.to_vec());
        }
        bench.push(50..100);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        stop.send(true).expect("it runs");
        let outcome = running.await.expect("no panic").expect("drains");
        assert!(!matches!(outcome, Outcome::Reopen { .. }), "{outcome:?}");
        bench.assert_holds(0..100);
    });
}

#[test]
fn columns_that_change_at_any_moment_lose_and_double_nothing() {
    run(async {
        let shapes: [Columns; 4] = [
            vec![("id", "UInt32"), ("c", "String")],
            vec![("id", "UInt64"), ("c", "String")],
            vec![("d", "Nullable(UInt8)"), ("id", "UInt64"), ("c", "String")],
            vec![("d", "Nullable(UInt8)"), ("e", "UInt8"), ("id", "UInt64"), ("c", "String")],
        ];
        for seed in 0..8u64 {
            let mut bench = bench(shapes[0].clone());
            let mut added = Vec::new();
            for (round, shape) in (0u64..).zip(&shapes) {
                bench.push(round * 100..round * 100 + 100);
                let faults = [Fault::LostAfter, Fault::LostBefore, Fault::Refused];
                bench
                    .table
                    .world
                    .lock()
                    .expect("no panic")
                    .faults
                    .push_back(faults[((seed + round) % 3) as usize]);
                let running = Process::start(bench.pipeline(false));
                tokio::time::sleep(Duration::from_millis((seed * 7 + round * 5) % 23)).await;
                alter(&bench, shape.clone());
                tokio::time::sleep(Duration::from_millis((seed * 11 + round * 3) % 29)).await;
                if let Some(Ok(Outcome::Reopen { added: more, .. })) = running.kill().await {
                    added.extend(more.into_values().flatten());
                }
                bench.table = bench.table.open_again(&added);
            }
            drain(&mut bench).await.expect("drains");
            bench.assert_holds(0..400);
            let counts = bench.lane().await.counts;
            assert!(counts.add_up() && counts.passed == 400, "seed {seed}: {counts:?}");
        }
    });
}
