//! A lane with a temporal join: each row of the left input has the version of the right input that held at its time, whatever happens to the process.

use std::sync::Arc;
use std::time::Duration;

use engine::{Flow, Pipeline, Port};
use operators::{Dedup, DedupConfig, JoinColumn, JoinSide, Late, TemporalConfig, TemporalJoin};
use sources::memory::MemorySource;

use dataflow::{Column, ColumnType, Intake, Operator, Schema};

use crate::join::{NOBODY, Pack, keyed, packed, push, source};
use crate::run;
use crate::support::{Bench, Fault, Numbers, Process};
use crate::window::{KEYS, Keyed, LAST};

fn temporal(memory: u64) -> TemporalJoin {
    let column = |name: &str, side| JoinColumn {
        name: name.to_owned(),
        side,
        from: "id".to_owned(),
        is_of_side_alone: false,
    };
    let config = TemporalConfig {
        on: vec![("key".to_owned(), "key".to_owned())],
        lateness: Duration::ZERO,
        is_outer: true,
        columns: vec![column("left", JoinSide::Left), column("right", JoinSide::Right)],
        deleted: None,
        unmatched: Vec::new(),
    };
    TemporalJoin::new(&keyed(), &keyed(), &config).expect("a valid step").with_memory(memory)
}

/// Two inputs: the bench's own, deduplicated, is the left side, and `right` has the versions.
fn joined(bench: &Bench, right: &Arc<MemorySource>, drain: bool) -> Pipeline {
    let dedup = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
    let dedup = Dedup::new(&keyed(), dedup).expect("a valid step").with_sizes(bench.sizes);
    let steps: Vec<Box<dyn Operator>> = vec![Box::new(dedup), Box::new(temporal(1 << 20)), Box::new(Pack)];
    let decoded = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
    let intake =
        || Intake::new(Arc::new(Numbers(decoded.clone()))).with_steps(vec![Arc::new(Keyed(keyed()))]);
    let input = |name: &str, source: &Arc<MemorySource>| {
        let input = bench.input(name, source.clone());
        engine::Input { intake: intake(), ..input }
    };
    let inputs = vec![input("left", &bench.source), input("right", right)];
    let port = |step, input| Port { step, input };
    let flow = Flow { entries: vec![port(0, 0), port(1, 1)], next: vec![port(1, 0)] };
    Pipeline { inputs, steps, flow, ..bench.pipeline(drain) }
}

/// What is held once both inputs have had `LAST`: those of the left side, and the newest version of each key, with the one before the very last, which is ahead of the watermark.
const HELD: u64 = 2 + KEYS + 1;

/// What each number of the left side becomes, computed from the two lists alone.
fn with_versions(left: &[u64], right: &[u64]) -> Vec<u64> {
    let version = |l: u64| right.iter().copied().filter(|r| r % KEYS == l % KEYS && *r <= l).max();
    left.iter().map(|l| packed(*l, version(*l).unwrap_or(NOBODY))).collect()
}

#[test]
fn each_row_has_the_version_that_held_at_its_time_and_older_versions_are_released() {
    run(async {
        let (bench, right) = (Bench::new(), source());
        let (ours, theirs): (Vec<u64>, Vec<u64>) = ((0..300).collect(), (20..300).step_by(3).collect());
        // The versions come first, and then the rows that are before them in time.
        push(&right, theirs.iter().copied().chain(LAST));
        bench.push(ours.iter().copied().chain(LAST));
        Process::start(joined(&bench, &right, true)).ends().await.expect("drains");
        bench.assert_holds(with_versions(&ours, &theirs));
        let lane = bench.lane().await;
        let taken = (ours.len() + theirs.len() + 4) as u64;
        assert_eq!((lane.counts.absorbed, lane.counts.late), (taken, 0));
        assert_eq!(lane.absorbed.held, HELD);
        assert_eq!(lane.absorbed.released + lane.absorbed.held, taken);
        assert_eq!(lane.derived.rows, ours.len() as u64);
    });
}

#[test]
fn a_crash_at_any_moment_gives_no_row_another_version() {
    run(async {
        for seed in 0..10_u64 {
            let (mut bench, right) = (Bench::new(), source());
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..6_u64 {
                let all = round * 100..(round + 1) * 100;
                ours.extend(all.clone().filter(|id| id % 7 < 4));
                // A side that falls silent for a round: its versions still hold.
                theirs.extend(all.clone().filter(|id| id % 11 < 3 && id / 100 != 3));
                push(&right, all.clone().filter(|id| id % 11 < 3 && id / 100 != 3));
                bench.push(all.filter(|id| id % 7 < 4).flat_map(|id| [id; 2]));
                {
                    let mut world = bench.table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(joined(&bench, &right, false)).kill_after(life).await;
            }
            bench.push(LAST);
            push(&right, LAST);
            Process::start(joined(&bench, &right, true)).ends().await.expect("drains");
            bench.assert_holds(with_versions(&ours, &theirs));
            let lane = bench.lane().await;
            assert_eq!(lane.counts.late, 0, "seed {seed}");
            assert_eq!(lane.absorbed.held, HELD, "seed {seed}");
        }
    });
}

#[test]
fn a_side_that_stands_still_holds_nobody_once_it_is_idle() {
    run(async {
        let (mut bench, right) = (Bench::new(), source());
        bench.settings.idle_after = Duration::from_millis(50);
        push(&right, [5, 6]);
        bench.push(0..200);
        let process = Process::start(joined(&bench, &right, false));
        let expected = with_versions(&(0..200).collect::<Vec<_>>(), &[5, 6]);
        let written = || bench.table.world.lock().expect("no panic").ids();
        // The right side's newest record is of long before the others; then it has been silent for `idle_after`. The left side goes on.
        let mut next = LAST[0];
        crate::wait_until(|| {
            bench.push([next]);
            next += 1;
            expected.iter().all(|row| written().contains_key(row))
        })
        .await;
        process.kill().await;
        let ours = |row: &u64| *row < packed(200, 0);
        let (rows, ids) = (expected.len(), written());
        assert_eq!(ids.keys().filter(|row| ours(row)).count(), rows);
        assert!(ids.iter().filter(|(row, _)| ours(row)).all(|(_, times)| *times == 1));
    });
}
