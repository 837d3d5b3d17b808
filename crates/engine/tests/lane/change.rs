//! What changes under a pipeline's name: freely, or with somebody's word, and then once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Operator, Table};
use engine::change::{NewState, Unchanged};
use engine::{EngineError, Outcome, Pipeline};
use operators::{Dedup, DedupConfig, Late};
use protocol::record::{Absorbed, Part};

use crate::run;
use crate::start::set_away;
use crate::support::{Bench, Process, TokenTable};
use crate::window;

/// The dedup step with another window.
fn changed(bench: &Bench, drain: bool) -> Pipeline {
    let window = Some(Duration::from_secs(3_600));
    let dedup = DedupConfig { key: vec!["id".into()], window, late: Late::Keep };
    let step = Dedup::new(bench.table.schema(), dedup).expect("a valid step");
    Pipeline { steps: vec![Box::new(step) as Box<dyn Operator>], ..bench.pipeline(drain) }
}

fn new_state(pipeline: Pipeline, step: &str) -> Pipeline {
    let new_state = NewState { steps: vec![step.to_owned()], unchanged: Unchanged::Refuse };
    Pipeline { new_state, ..pipeline }
}

async fn ends(pipeline: Pipeline) -> Result<Outcome, EngineError> {
    Process::start(pipeline).ends().await
}

/// How many rows the table has of each number.
fn times(table: &TokenTable) -> BTreeMap<u64, u64> {
    table.world.lock().expect("no panic").ids()
}

fn refused(result: Result<Outcome, EngineError>, words: &str) {
    let error = result.expect_err("it is refused").to_string();
    assert!(error.contains(words), "`{words}` in {error}");
}

#[test]
fn a_changed_step_begins_empty_once_and_only_when_told() {
    run(async {
        let bench = Bench::new();
        bench.push(0..50);
        ends(bench.pipeline(true)).await.expect("drains");
        let before = bench.lane().await;
        refused(ends(changed(&bench, true)).await, "`forebay run FILE --new-state dedup`");
        refused(ends(new_state(bench.pipeline(true), "dedup")).await, "Start without `--new-state dedup`");
        refused(ends(new_state(changed(&bench, true), "window")).await, "names no step that keeps state");
        assert_eq!(bench.lane().await, before, "nothing was claimed or written");
        // What was seen before is not known any more; what is seen from here on is.
        bench.push((0..10).chain(50..60).chain(50..60));
        ends(new_state(changed(&bench, true), "dedup")).await.expect("drains");
        let twice = |id| 1 + u64::from(id < 10);
        assert_eq!(times(&bench.table), (0..60).map(|id| (id, twice(id))).collect());
        bench.push(0..60);
        ends(changed(&bench, true)).await.expect("it is what the store holds the state of");
        assert_eq!(times(&bench.table).values().sum::<u64>(), 70 + 40, "those that only the old state knew");
        refused(ends(new_state(changed(&bench, true), "dedup")).await, "add `--yes`");
        let asked = NewState { steps: vec!["dedup".into()], unchanged: Unchanged::Empty };
        bench.push(50..60);
        ends(Pipeline { new_state: asked, ..changed(&bench, true) }).await.expect("asked plainly");
        assert_eq!(times(&bench.table)[&50], 2);
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.duplicates), (50 + 30 + 60 + 10, 10 + 20));
    });
}

#[test]
fn a_crash_leaves_the_old_state_or_the_new_one_and_no_row_lost_or_twice() {
    run(async {
        for life in (0..40).step_by(3) {
            let bench = Bench::new();
            bench.push(0..100);
            ends(bench.pipeline(true)).await.expect("drains");
            let old = bench.lane().await.steps;
            bench.push(100..200);
            let told = new_state(changed(&bench, false), "dedup");
            let _ = Process::start(told).kill_after(Duration::from_millis(life)).await;
            let is_done = bench.lane().await.steps != old;
            let again =
                if is_done { changed(&bench, true) } else { new_state(changed(&bench, true), "dedup") };
            ends(again).await.expect("drains");
            bench.assert_holds(0..200);
        }
    });
}

#[test]
fn records_of_a_window_that_begins_anew_are_counted_as_discarded() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        ends(window::windowed(&bench, true)).await.expect("drains");
        let without = || Pipeline {
            steps: Vec::new(),
            inputs: window::windowed(&bench, true).inputs,
            ..bench.pipeline(true)
        };
        refused(ends(without()).await, "50 records are held by `window`");
        // The same settings, asked for plainly.
        let asked = NewState { steps: vec!["window".into()], unchanged: Unchanged::Empty };
        bench.push(750..800);
        bench.push(window::LAST);
        ends(Pipeline { new_state: asked, ..window::windowed(&bench, true) }).await.expect("drains");
        let lane = bench.lane().await;
        assert_eq!(lane.absorbed, Absorbed { released: 750, held: 2, discarded: 50 });
        assert_eq!((lane.counts.read, lane.counts.absorbed), (802, 802));
        bench.assert_holds(window::results(0..700).into_iter().chain(window::results(750..800)));
        ends(window::windowed(&bench, true)).await.expect("the ledger adds up");
    });
}

#[test]
fn a_state_is_given_up_once_what_waits_has_arrived() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        set_away(&bench, true);
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        set_away(&bench, false);
        let before = bench.lane().await;
        let told = || new_state(changed(&bench, true), "dedup");
        refused(ends(told()).await, "let the inserts arrive (`forebay run FILE --drain`)");
        assert_eq!(bench.lane().await, before);
        // The way out.
        ends(bench.pipeline(true)).await.expect("the old steps");
        ends(told()).await.expect("nothing waits");
        bench.assert_holds(0..100);
    });
}

#[test]
fn tables_come_and_go() {
    run(async {
        let bench = Bench::new();
        let [second, third] =
            ["d.second", "d.third"].map(|name| TokenTable::numbers(name, bench.runtime.clone()));
        let with = |more: &[&Arc<TokenTable>]| {
            let mut pipeline = bench.pipeline(true);
            pipeline.tables.extend(more.iter().map(|table| (*table).clone() as Arc<dyn Table>));
            pipeline
        };
        let once = |ids: std::ops::Range<u64>| ids.map(|id| (id, 1)).collect::<BTreeMap<u64, u64>>();
        bench.push(0..20);
        ends(with(&[&second])).await.expect("two tables");
        bench.push(20..40);
        ends(with(&[])).await.expect("one of them is gone");
        bench.push(40..60);
        ends(with(&[&third, &second])).await.expect("it is back, and there is a third");
        assert_eq!(times(&bench.table), once(0..60));
        assert_eq!(times(&second), [once(0..20), once(40..60)].into_iter().flatten().collect());
        assert_eq!(times(&third), once(40..60));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.passed, lane.derived.rows), (60, 20 + 40));
    });
}

#[test]
fn what_the_file_says_besides_is_recorded_when_it_changes_and_not_with_every_start() {
    run(async {
        let bench = Bench::new();
        let said = |text: &str| {
            let part = Part { kind: "step".into(), name: "filter".into(), text: text.into() };
            Pipeline { parts: vec![part], ..bench.pipeline(true) }
        };
        bench.push(0..20);
        ends(said("a > 1")).await.expect("drains");
        assert_eq!(bench.lane().await.parts[0].text, "a > 1");
        let start = async |text: &str| {
            let before = bench.lane().await.next_seq;
            ends(said(text)).await.expect("drains");
            bench.lane().await.next_seq - before
        };
        assert_eq!((start("a > 1").await, start("a > 2").await, start("a > 2").await), (1, 2, 1), "claims");
        assert_eq!(bench.lane().await.parts[0].text, "a > 2");
    });
}
