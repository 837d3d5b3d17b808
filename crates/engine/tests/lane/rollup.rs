//! A lane with a window behind a window and a `dedup` between them: what a cut lets out of the first goes on through the others in the same
//! seal, once, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Column, ColumnType, Intake, Operator, Schema};
use engine::Pipeline;
use operators::window::{Aggregate, Function, Windows};
use operators::{Dedup, DedupConfig, Late, Window, WindowConfig};
use protocol::record::Absorbed;

use crate::run;
use crate::support::{Bench, Fault, Numbers, Process};
use crate::window::{BEGIN_MS, KEYS, Keyed, LAST, Pack, SIZE_MS, TINY, packed};

/// The second window holds ten of the first.
const LARGE_MS: u64 = 10 * SIZE_MS;

fn window(columns: &Schema, key: &[&str], size_ms: u64, lateness_ms: u64, counted: &str) -> Window {
    let config = WindowConfig {
        key: key.iter().map(ToString::to_string).collect(),
        windows: Windows::Tumbling { size: Duration::from_millis(size_ms) },
        lateness: Duration::from_millis(lateness_ms),
        emit: None,
        aggregates: vec![
            Aggregate::new("n", Function::Count, None),
            Aggregate::new("total", Function::Sum, Some(counted)),
        ],
    };
    Window::new(columns, &config).expect("a valid step").with_memory(1 << 20)
}

/// Totals of 100 ms by key, of which one of each number of records and total is kept for each key, and totals of those of 1 s.
fn steps(lateness_ms: u64) -> (Schema, Schema, Vec<Box<dyn Operator>>) {
    let column = |name| Column::new(name, ColumnType::UInt64);
    let (decoded, keyed) = (Schema::new(vec![column("id")]), Schema::new(vec![column("id"), column("key")]));
    let small = window(&keyed, &["key"], SIZE_MS, lateness_ms, "id");
    let results = small.output().clone();
    let config = DedupConfig {
        key: ["key", "n", "window_start"].map(str::to_owned).to_vec(),
        window: Some(Duration::from_secs(3600)),
        late: Late::Keep,
    };
    let dedup = Dedup::new(&results, config).expect("a valid step");
    let large = window(&results, &["key"], LARGE_MS, 0, "total");
    (decoded, keyed, vec![Box::new(small), Box::new(dedup), Box::new(large), Box::new(Pack)])
}

fn rolled(bench: &Bench, drain: bool, lateness_ms: u64) -> Pipeline {
    let (decoded, keyed, steps) = steps(lateness_ms);
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
    let mut pipeline = Pipeline { steps, ..bench.pipeline(drain) };
    pipeline.inputs[0].intake = intake;
    pipeline
}

/// The results of these records, computed from the records alone: how many small windows of a key lie in each large one, and the total.
fn results(ids: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut windows: BTreeMap<(u64, u64), (BTreeSet<u64>, u64)> = BTreeMap::new();
    for id in ids {
        let small = (BEGIN_MS + id) / SIZE_MS;
        let (seen, sum) = windows.entry((small * SIZE_MS / LARGE_MS * LARGE_MS, id % KEYS)).or_default();
        seen.insert(small);
        *sum += id;
    }
    let packed_of = |((start, key), (seen, sum)): ((u64, u64), (BTreeSet<u64>, u64))| {
        packed(start, key, seen.len() as u64, sum)
    };
    windows.into_iter().map(packed_of).collect()
}

#[test]
fn results_go_on_through_the_steps_behind_in_the_same_seal() {
    run(async {
        let bench = Bench::new();
        bench.push(0..1_250);
        Process::start(rolled(&bench, true, 0)).ends().await.expect("drains");
        // The large window of the first second is closed; of the next, two small ones went into it and the rest is held.
        bench.assert_holds(results(0..1_000));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.absorbed), (1_250, 1_250));
        assert_eq!(lane.derived.absorbed, 12 * KEYS);
        assert_eq!(
            lane.absorbed,
            Absorbed { released: 1_200 + 10 * KEYS, held: 50 + 2 * KEYS, discarded: 0 }
        );
    });
}

#[test]
fn results_behind_a_window_in_files_are_out_when_a_drain_ends() {
    run(async {
        let bench = Bench::new();
        let spilling = || {
            let mut pipeline = rolled(&bench, true, 0);
            let (_, keyed, _) = steps(0);
            pipeline.steps[0] = Box::new(window(&keyed, &["key"], SIZE_MS, 0, "id").with_sizes(TINY));
            pipeline
        };
        for ids in [0..300, 300..1_250] {
            bench.push(ids);
            Process::start(spilling()).ends().await.expect("drains");
        }
        // As where all of it is in memory: the last piece of the first window lets the second close.
        bench.assert_holds(results(0..1_000));
    });
}

#[test]
fn a_crash_at_any_moment_loses_and_doubles_no_result_of_a_result() {
    run(async {
        for seed in 0..12u64 {
            let mut bench = Bench::new();
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            // Results that wait longer hold those back that wait for them.
            let lateness_ms = seed % 3 * 150;
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 500..(round + 1) * 500);
                {
                    let mut world = bench.table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(rolled(&bench, false, lateness_ms)).kill_after(life).await;
            }
            bench.push(LAST);
            Process::start(rolled(&bench, true, lateness_ms)).ends().await.expect("drains");
            bench.assert_holds(results(0..3_000));
            let lane = bench.lane().await;
            assert_eq!((lane.counts.read, lane.counts.late), (3_002, 0), "seed {seed}");
            assert_eq!(lane.derived.dropped, 0, "seed {seed}: no result is late or a duplicate");
            assert_eq!(lane.absorbed.held, 2, "seed {seed}: the last two records");
        }
    });
}

#[test]
fn a_refused_result_behind_a_dedup_says_that_its_key_stays_known() {
    run(async {
        let bench = Bench::new();
        // Without the second window the results themselves are written.
        let direct = |drain| {
            let mut pipeline = rolled(&bench, drain, 0);
            pipeline.steps.remove(2);
            pipeline
        };
        bench.table.world.lock().expect("no panic").poison =
            vec![packed(BEGIN_MS, 3, 20, (0..20).map(|n| n * 5 + 3).sum())];
        bench.push(0..300);
        bench.push(LAST);
        Process::start(direct(true)).ends().await.expect("drains");
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (3 * KEYS - 1, 1));
        let messages = bench.dead_letters.world.lock().expect("no panic").messages.clone();
        assert!(
            messages.iter().any(|message| message.contains("its `dedup` key stays known")),
            "{messages:?}"
        );
    });
}
