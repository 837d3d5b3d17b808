//! Several tables in one pipeline: each gets its rows once, and one that is away or refuses rows holds up no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::UInt64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dataflow::{Router, Selected, Table};
use engine::answer::{Request, answer};
use engine::problem::State;
use engine::{EngineError, Outcome, Pipeline};
use protocol::doubt::Verdict;
use protocol::record::{Derived, Rows};
use protocol::window;
use tokio::sync::watch;

use crate::support::{Bench, Fault, LONG, Process, TokenTable};
use crate::{run, wait_until};

/// Numbers go to the tables whose number divides them: 2 to the first, 3 to the second.
struct Divisible;

impl Router for Divisible {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let ids: &UInt64Array = rows.batch().column(0).as_primitive::<UInt64Type>();
        let part = |by| rows.only(|row| ids.value(row).is_multiple_of(by));
        vec![(0, part(2)), (1, part(3))]
    }
}

fn second(bench: &Bench) -> Arc<TokenTable> {
    TokenTable::numbers("d.second", bench.runtime.clone())
}

fn with(bench: &Bench, more: &Arc<TokenTable>, drain: bool) -> Pipeline {
    Pipeline { tables: vec![bench.table.clone(), more.clone()], ..bench.pipeline(drain) }
}

fn routed(bench: &Bench, more: &Arc<TokenTable>, drain: bool) -> Pipeline {
    Pipeline { router: Some(Arc::new(Divisible)), ..with(bench, more, drain) }
}

async fn ends(pipeline: Pipeline) -> Result<(), EngineError> {
    Process::start(pipeline).ends().await.map(drop)
}

fn ids(table: &TokenTable) -> BTreeMap<u64, u64> {
    table.world.lock().expect("no panic").ids()
}

fn once(ids: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
    ids.map(|id| (id, 1)).collect()
}

fn all_settled(sealed: u64) -> Rows {
    Rows { sealed, settled: sealed, refused: 0, replaced: 0 }
}

#[test]
fn every_table_gets_every_row_once_and_the_ledgers_say_so() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        bench.push((0..100).chain(0..20));
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..100), once(0..100)));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.passed, lane.counts.duplicates), (120, 100, 20));
        assert_eq!(lane.derived, Derived { rows: 100, ..Derived::default() });
        let rows: Vec<Rows> = lane.tables.iter().map(|table| table.rows).collect();
        assert_eq!(rows, [all_settled(100), all_settled(100), all_settled(0)]);
    });
}

#[test]
fn a_router_deals_rows_out_to_one_table_to_several_and_to_none() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        bench.push(0..60);
        ends(routed(&bench, &more, true)).await.expect("drains");
        assert_eq!(ids(&bench.table), once((0..60).step_by(2)));
        assert_eq!(ids(&more), once((0..60).step_by(3)));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.passed, lane.counts.filtered, lane.derived.rows), (40, 20, 10));
    });
}

#[test]
fn a_table_that_is_away_holds_only_what_is_sealed_for_it() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        let running = Process::start(with(&bench, &more, false));
        bench.push(0..50);
        wait_until(|| ids(&more).len() == 50).await;
        more.world.lock().expect("no panic").away = true;
        bench.push(50..400);
        wait_until(|| ids(&bench.table).len() == 400).await;
        wait_until(|| bench.status.snapshot().problems.contains_key("d.second")).await;
        let problems = bench.status.snapshot().problems;
        assert!(!problems.contains_key("d.t"), "{problems:?}");
        assert_eq!(ids(&more).len(), 50);
        // A crash meanwhile changes nothing of that.
        running.kill().await;
        let lane = bench.lane().await;
        assert_eq!(lane.tables[1].rows.pending(), 350, "{:?}", lane.tables[1].rows);
        more.world.lock().expect("no panic").away = false;
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..400), once(0..400)));
    });
}

#[test]
fn once_the_spool_is_full_the_source_waits_for_the_table_that_is_away() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 1_000;
        let more = second(&bench);
        {
            // It says what it is, or nothing would start.
            let mut world = more.world.lock().expect("no panic");
            (world.away, world.facts_away) = (true, false);
        }
        let running = Process::start(with(&bench, &more, false));
        bench.push(0..2_000);
        wait_until(|| bench.status.snapshot().phase == engine::Phase::Paused).await;
        assert!(bench.lane().await.counts.read < 2_000, "what is not sealed waits in the source");
        more.world.lock().expect("no panic").away = false;
        wait_until(|| ids(&more).len() == 2_000 && ids(&bench.table).len() == 2_000).await;
        running.kill().await;
    });
}

#[test]
fn a_row_that_one_table_refuses_is_a_dead_letter_and_stays_in_the_other() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        more.world.lock().expect("no panic").poison = vec![7];
        bench.push(0..40);
        ends(with(&bench, &more, true)).await.expect("drains");
        bench.push([7]);
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more).len()), (once(0..40), 39));
        let lane = bench.lane().await;
        assert_eq!(lane.tables[1].rows, Rows { sealed: 40, settled: 39, refused: 1, replaced: 0 });
        assert_eq!(lane.tables[2].rows, all_settled(1));
        assert_eq!((lane.counts.duplicates, lane.counts.dead_letters), (1, 0), "its key stays known");
    });
}

#[test]
fn both_tables_may_refuse_rows_of_one_record() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        for table in [&bench.table, &more] {
            table.world.lock().expect("no panic").poison = vec![7];
        }
        bench.push(0..40);
        ends(with(&bench, &more, true)).await.expect("drains");
        let lane = bench.lane().await;
        let refused: Vec<u64> = lane.tables.iter().map(|table| table.rows.refused).collect();
        assert_eq!((refused, lane.tables[2].rows), (vec![1, 1, 0], all_settled(2)));
    });
}

#[test]
fn a_routed_row_that_its_only_table_refuses_gives_its_key_back() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        bench.table.world.lock().expect("no panic").poison = vec![8];
        bench.push(0..40);
        ends(routed(&bench, &more, true)).await.expect("drains");
        bench.table.world.lock().expect("no panic").poison.clear();
        bench.push([8]);
        ends(routed(&bench, &more, true)).await.expect("drains");
        assert_eq!(ids(&bench.table), once((0..40).step_by(2)));
    });
}

#[test]
fn a_table_may_be_added_and_begins_where_the_pipeline_stands() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        more.world.lock().expect("no panic").asks_if_filled = true;
        bench.push(0..30);
        bench.drain().await.expect("drains");
        bench.push(30..50);
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..50), once(30..50)));
        // And taken out again, as nothing waits for it.
        bench.push(50..60);
        bench.drain().await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..60), once(30..50)));
    });
}

/// The second table cannot tell what became of the next insert that it gets.
fn loses_track(more: &TokenTable) {
    let mut world = more.world.lock().expect("no panic");
    world.cannot_tell = true;
    world.faults.push_back(Fault::TokenWithoutRows);
}

/// Whether the second table waits for the operator.
fn asks(bench: &Bench) -> bool {
    let problems = bench.status.snapshot().problems;
    problems.get("d.second").is_some_and(|problem| problem.state == State::Asks)
}

async fn answer_absent(bench: &Bench) {
    let request = Request {
        frames: Vec::new(),
        verdict: Verdict::Absent,
        by: "test".into(),
        take_over: false,
        insert_time_max: Duration::ZERO,
    };
    let told = answer(bench.store.clone(), bench.runtime.clone(), "p/lane-0", &request).await;
    assert!(!told.expect("an open question is answered").is_empty());
}

#[test]
fn a_question_about_one_table_leaves_the_others_to_go_on() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        loses_track(&more);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(with(&bench, &more, false), asked));
        bench.push(0..50);
        wait_until(|| asks(&bench)).await;
        for n in 1..8u64 {
            bench.push(n * 50..n * 50 + 50);
            wait_until(|| ids(&bench.table).len() as u64 == n * 50 + 50).await;
        }
        stop.send(true).expect("it runs");
        let ended = tokio::time::timeout(LONG, running).await.expect("it ends");
        let error = ended.expect("no panic").expect_err("the question is still open");
        assert!(matches!(&error, EngineError::Doubt { table, .. } if table == "d.second"), "{error}");
        let lane = bench.lane().await;
        assert_eq!((lane.tables[0].rows, lane.tables[1].rows.sealed), (all_settled(400), 400));
        answer_absent(&bench).await;
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..400), once(0..400)));
    });
}

#[test]
fn a_process_that_goes_on_with_other_tables_takes_the_answer_up_by_itself() {
    run(async {
        let bench = Arc::new(Bench::new());
        let more = second(&bench);
        loses_track(&more);
        let (stop, asked) = watch::channel(false);
        let opened = (bench.clone(), more.clone());
        let running = tokio::spawn(async move {
            let mut answers_taken = 0;
            loop {
                match engine::run(with(&opened.0, &opened.1, false), asked.clone()).await {
                    Ok(Outcome::Reopen { .. }) => answers_taken += 1,
                    ended => break (ended, answers_taken),
                }
            }
        });
        bench.push(0..50);
        wait_until(|| asks(&bench)).await;
        bench.push(50..100);
        wait_until(|| ids(&bench.table).len() == 100).await;
        answer_absent(&bench).await;
        wait_until(|| ids(&more).len() == 100).await;
        bench.push(100..150);
        wait_until(|| ids(&bench.table).len() == 150 && ids(&more).len() == 150).await;
        assert!(!bench.status.snapshot().problems.contains_key("d.second"));
        stop.send(true).expect("it runs");
        let (ended, answers_taken) =
            tokio::time::timeout(LONG, running).await.expect("it ends").expect("no panic");
        assert_eq!((ended.expect("all is answered"), answers_taken), (Outcome::Drained, 1));
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..150), once(0..150)));
    });
}

#[test]
fn what_is_sealed_while_a_question_is_open_was_never_sent_and_is_not_in_doubt() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        loses_track(&more);
        let running = Process::start(with(&bench, &more, false));
        bench.push(0..50);
        wait_until(|| asks(&bench)).await;
        let at = bench.lane().await.table("d.second").expect("it has a genesis");
        let first = bench.lane().await.tables[at].next_ordinal;
        bench.push(50..100);
        wait_until(|| ids(&bench.table).len() == 100).await;
        running.kill().await;
        let lane = bench.lane().await;
        let table = &lane.tables[at];
        assert!(window::is_doubtful(table, table.frontier), "the question is about it: {table:?}");
        assert!(first < table.next_ordinal && !window::is_doubtful(table, first), "{first}: {table:?}");
        answer_absent(&bench).await;
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..100), once(0..100)));
    });
}

#[test]
fn a_process_that_another_has_replaced_ends_though_a_question_was_answered_before() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        loses_track(&more);
        let first = Process::start(with(&bench, &more, false));
        bench.push(0..50);
        wait_until(|| asks(&bench)).await;
        // It learns of neither before both are done: nothing wakes it for as long.
        answer_absent(&bench).await;
        ends(with(&bench, &more, true)).await.expect("drains");
        let ended = first.ends().await;
        assert!(matches!(ended, Err(EngineError::Fenced { .. })), "{ended:?}");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..50), once(0..50)));
    });
}

#[test]
fn a_drain_ends_with_the_question_of_one_table_once_the_others_have_all() {
    run(async {
        let bench = Bench::new();
        let more = second(&bench);
        loses_track(&more);
        bench.push(0..400);
        let error = ends(with(&bench, &more, true)).await.expect_err("a question");
        assert!(matches!(error, EngineError::Doubt { .. }), "{error}");
        assert_eq!(ids(&bench.table), once(0..400));
        answer_absent(&bench).await;
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!(ids(&more), once(0..400));
    });
}

#[test]
fn a_full_spool_ends_the_wait_for_the_answer() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 1_000;
        let more = second(&bench);
        loses_track(&more);
        bench.push(0..2_000);
        let (_stop, asked) = watch::channel(false);
        let running = engine::run(with(&bench, &more, false), asked);
        let ended = tokio::time::timeout(LONG, running).await.expect("it ends");
        assert!(matches!(ended, Err(EngineError::Doubt { .. })), "{ended:?}");
        answer_absent(&bench).await;
        ends(with(&bench, &more, true)).await.expect("drains");
        assert_eq!((ids(&bench.table), ids(&more)), (once(0..2_000), once(0..2_000)));
    });
}

#[test]
fn tables_that_cannot_be_told_apart_are_refused() {
    run(async {
        let bench = Bench::new();
        let twice =
            Pipeline { tables: vec![bench.table.clone(), bench.table.clone()], ..bench.pipeline(true) };
        let error = ends(twice).await.expect_err("one name").to_string();
        assert!(error.contains("`d.t` is named twice"), "{error}");
        bench.push(0..10);
        bench.drain().await.expect("drains");
        let letters: Arc<dyn Table> = TokenTable::numbers("d.dead", bench.runtime.clone());
        let rows: Arc<dyn Table> = bench.table.clone();
        let swapped = Pipeline { tables: vec![letters], dead_letters: rows, ..bench.pipeline(true) };
        let error = ends(swapped).await.expect_err("another kind of rows").to_string();
        assert!(error.contains("name another table"), "{error}");
    });
}

#[test]
fn a_crash_at_any_moment_loses_and_doubles_nothing_in_either_table() {
    run(async {
        for seed in 0..12u64 {
            let bench = Bench::new();
            let more = second(&bench);
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 100..round * 100 + 130);
                for (n, table) in [&bench.table, &more].into_iter().enumerate() {
                    let mut world = table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round + n as u64) % 4) as usize]);
                    world.away = (seed + round * 2 + n as u64).is_multiple_of(5);
                    if (seed + round) % 3 == n as u64 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(routed(&bench, &more, false)).kill_after(life).await;
            }
            for table in [&bench.table, &more] {
                table.world.lock().expect("no panic").away = false;
            }
            ends(routed(&bench, &more, true)).await.expect("drains");
            assert_eq!(ids(&bench.table), once((0..630).step_by(2)), "seed {seed}");
            assert_eq!(ids(&more), once((0..630).step_by(3)), "seed {seed}");
        }
    });
}
