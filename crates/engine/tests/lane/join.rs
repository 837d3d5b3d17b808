//! A lane with a join: two inputs enter it at different places, every pair is in the table once whatever happens, and every record is released or held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, UInt64Array};
use dataflow::{
    Batch, Column, ColumnType, Elsewhere, Intake, Operator, OperatorError, Output, Partition, Probed,
    RecordBlock, Schema, State,
};
use engine::{EngineError, Flow, Outcome, Pipeline, Port};
use operators::{Dedup, DedupConfig, Join, JoinColumn, JoinConfig, JoinKind, JoinSide, Late};
use sources::memory::MemorySource;

use crate::run;
use crate::support::{Bench, Fault, Numbers, Process};
use crate::window::{KEYS, Keyed, LAST};

/// How far apart the two records of a pair may be: their times are their numbers.
const WITHIN: u64 = 20;

/// What stands for the side that is not there, in a row of one record.
pub const NOBODY: u64 = 999_999;

/// A joined row as one number.
pub fn packed(left: u64, right: u64) -> u64 {
    left * 1_000_000 + right
}

/// A step behind the join: pairs as numbers.
pub struct Pack;

impl Operator for Pack {
    fn name(&self) -> &str {
        "pack"
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = probed.batch.rows;
        let side = |name: &str| rows.column_by_name(name).expect("a side").as_primitive::<UInt64Type>();
        let (left, right) = (side("left"), side("right"));
        let value = |side: &UInt64Array, row| if side.is_null(row) { NOBODY } else { side.value(row) };
        let pack = |row| packed(value(left, row), value(right, row));
        let ids = UInt64Array::from_iter_values((0..rows.num_rows()).map(pack));
        let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).expect("one column");
        Ok(Output::all(Batch { rows, ..probed.batch }))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

pub fn keyed() -> Schema {
    Schema::new(["id", "key"].map(|name| Column::new(name, ColumnType::UInt64)).to_vec())
}

pub fn config(kind: JoinKind) -> JoinConfig {
    let column = |name: &str, side| JoinColumn {
        name: name.to_owned(),
        side,
        from: "id".to_owned(),
        is_of_side_alone: false,
    };
    JoinConfig {
        on: vec![("key".to_owned(), "key".to_owned())],
        before: Duration::from_millis(WITHIN),
        after: Duration::from_millis(WITHIN),
        lateness: Duration::ZERO,
        kind,
        columns: vec![column("left", JoinSide::Left), column("right", JoinSide::Right)],
        unmatched: [Vec::new(), Vec::new()],
    }
}

fn join(kind: JoinKind, memory: u64) -> Join {
    Join::new(&keyed(), &keyed(), &config(kind)).expect("a valid step").with_memory(memory)
}

/// Two inputs: the bench's own, deduplicated, is the left side of a join, and `right` the right one.
fn joined(bench: &Bench, right: &Arc<MemorySource>, kind: JoinKind, drain: bool) -> Pipeline {
    joined_by(bench, right, join(kind, 1 << 20), drain)
}

/// The same with this join.
pub fn joined_by(bench: &Bench, right: &Arc<MemorySource>, join: Join, drain: bool) -> Pipeline {
    let dedup = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
    let dedup = Dedup::new(&keyed(), dedup).expect("a valid step").with_sizes(bench.sizes);
    let steps: Vec<Box<dyn Operator>> = vec![Box::new(dedup), Box::new(join), Box::new(Pack)];
    let input = |name: &str, source: &Arc<MemorySource>| {
        let input = bench.input(name, source.clone());
        engine::Input { intake: intake(), ..input }
    };
    let inputs = vec![input("left", &bench.source), input("right", right)];
    let port = |step, input| Port { step, input };
    let flow = Flow { entries: vec![port(0, 0), port(1, 1)], next: vec![port(1, 0)] };
    Pipeline { inputs, steps, flow, ..bench.pipeline(drain) }
}

/// Numbers with their keys.
fn intake() -> Intake {
    let decoded = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
    Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed()))])
}

async fn drain(bench: &Bench, right: &Arc<MemorySource>, kind: JoinKind) -> Result<Outcome, EngineError> {
    Process::start(joined(bench, right, kind, true)).ends().await
}

pub fn source() -> Arc<MemorySource> {
    Arc::new(MemorySource::new([("r", 2)]))
}

/// Records of the right side, in turn over its partitions.
pub fn push(right: &Arc<MemorySource>, ids: impl IntoIterator<Item = u64>) {
    let handle = right.handle();
    for id in ids {
        handle.push(&Partition::new("r", (id % 2) as u32), 1_000 + id as i64, id.to_string());
    }
}

/// All pairs of two lists, computed from these alone, and with `alone` the records without one, but for those that wait.
pub fn pairs(left: &[u64], right: &[u64], alone: bool) -> Vec<u64> {
    let matches = |l: u64, r: u64| l % KEYS == r % KEYS && l.abs_diff(r) <= WITHIN;
    let mut all = Vec::new();
    for l in left {
        all.extend(right.iter().filter(|r| matches(*l, **r)).map(|r| packed(*l, *r)));
    }
    let waits = |id: u64| LAST.contains(&id);
    if alone {
        let lonely =
            |id: &u64, others: &[u64]| !waits(*id) && !others.iter().any(|other| matches(*id, *other));
        all.extend(left.iter().filter(|l| lonely(l, right)).map(|l| packed(*l, NOBODY)));
        all.extend(right.iter().filter(|r| lonely(r, left)).map(|r| packed(NOBODY, *r)));
    }
    all
}

#[test]
fn every_pair_is_in_the_table_once_and_what_cannot_match_any_more_is_released() {
    run(async {
        let (bench, right) = (Bench::new(), source());
        let (ours, theirs): (Vec<u64>, Vec<u64>) = ((0..300).collect(), (0..300).step_by(3).collect());
        bench.push(ours.iter().copied().chain([7, 7]));
        push(&right, theirs.iter().copied());
        drain(&bench, &right, JoinKind::Inner).await.expect("drains");
        bench.assert_holds(pairs(&ours, &theirs, false));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.duplicates, lane.counts.absorbed), (402, 2, 400));
        assert_eq!(lane.absorbed.released + lane.absorbed.held, 400);
        assert!(lane.absorbed.released > 300, "{:?}", lane.absorbed);
        assert_eq!(lane.derived.rows, pairs(&ours, &theirs, false).len() as u64);
        // The next start has what is held.
        bench.push(300..320);
        push(&right, 300..320);
        bench.push(LAST);
        push(&right, LAST);
        drain(&bench, &right, JoinKind::Inner).await.expect("drains");
        let ours: Vec<u64> = ours.into_iter().chain(300..320).chain(LAST).collect();
        let theirs: Vec<u64> = theirs.into_iter().chain(300..320).chain(LAST).collect();
        bench.assert_holds(pairs(&ours, &theirs, false));
    });
}

#[test]
fn a_crash_at_any_moment_loses_and_doubles_no_pair() {
    run(async {
        for seed in 0..12_u64 {
            let (mut bench, right) = (Bench::new(), source());
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let kind = [JoinKind::Inner, JoinKind::Full][(seed / 2 % 2) as usize];
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..6_u64 {
                let all = round * 100..(round + 1) * 100;
                ours.extend(all.clone().filter(|id| id % 7 < 4));
                theirs.extend(all.clone().filter(|id| id % 11 < 5 && id / 100 != 3));
                bench.push(all.clone().filter(|id| id % 7 < 4).flat_map(|id| [id; 2]));
                push(&right, all.filter(|id| id % 11 < 5 && id / 100 != 3));
                {
                    let mut world = bench.table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(joined(&bench, &right, kind, false)).kill_after(life).await;
            }
            bench.push(LAST);
            push(&right, LAST);
            ours.extend(LAST);
            theirs.extend(LAST);
            drain(&bench, &right, kind).await.expect("drains");
            bench.assert_holds(pairs(&ours, &theirs, kind == JoinKind::Full));
            let lane = bench.lane().await;
            assert_eq!(lane.counts.late, 0, "seed {seed}");
            assert_eq!(lane.counts.absorbed, (ours.len() + theirs.len()) as u64, "seed {seed}");
            assert_eq!(lane.absorbed.held, 4, "seed {seed}: those that wait");
        }
    });
}

#[test]
fn a_refused_pair_is_a_dead_letter_of_its_step_and_the_others_are_written() {
    run(async {
        let (bench, right) = (Bench::new(), source());
        let all: Vec<u64> = (0..100).collect();
        let expected = pairs(&all, &all, false);
        bench.table.world.lock().expect("no panic").poison = vec![expected[3], expected[70]];
        bench.push(0..100);
        push(&right, 0..100);
        drain(&bench, &right, JoinKind::Inner).await.expect("drains");
        bench.assert_holds(expected.iter().copied().filter(|id| ![expected[3], expected[70]].contains(id)));
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters.values().sum::<u64>(), 2);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (expected.len() as u64 - 2, 2));
        assert!(totals.records.add_up());
    });
}

#[test]
fn a_record_that_comes_too_late_for_the_join_is_dropped_and_counted() {
    run(async {
        let (bench, right) = (Bench::new(), source());
        bench.push(0..200);
        push(&right, 0..200);
        drain(&bench, &right, JoinKind::Inner).await.expect("drains");
        push(&right, [100, 101, 198]);
        drain(&bench, &right, JoinKind::Inner).await.expect("drains");
        let lane = bench.lane().await;
        assert_eq!((lane.counts.late, lane.counts.absorbed), (2, 401));
        let found: BTreeMap<u64, u64> = bench.table.world.lock().expect("no panic").ids();
        assert_eq!(found[&packed(198, 198)], 2, "the second record of that number makes its own pairs");
        assert_eq!(found[&packed(100, 100)], 1);
    });
}

/// The stream `log` of the left input has records of the right one, as a replay log may.
struct OfTheRight(Intake);

impl Elsewhere for OfTheRight {
    fn input(&self, block: &RecordBlock) -> Option<(&str, &Intake)> {
        (&*block.partition.stream == "log").then_some(("right", &self.0))
    }
}

#[test]
fn a_record_that_names_another_input_enters_where_the_rows_of_that_input_do() {
    run(async {
        let (mut bench, right) = (Bench::new(), source());
        bench.source = Arc::new(MemorySource::new([("e", 2), ("log", 1)]));
        bench.feed = bench.source.handle();
        let all: Vec<u64> = (0..100).collect();
        bench.push(0..100);
        push(&right, 0..50);
        for id in 50..100_u64 {
            bench.feed.push(&Partition::new("log", 0), 1_000 + id as i64, id.to_string());
        }
        let mut pipeline = joined(&bench, &right, JoinKind::Inner, true);
        let left = pipeline.inputs[0].intake.clone();
        pipeline.inputs[0].intake = left.with_elsewhere(Some(Arc::new(OfTheRight(intake()))));
        Process::start(pipeline).ends().await.expect("drains");
        bench.assert_holds(pairs(&all, &all, false));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.absorbed, lane.counts.duplicates), (200, 200, 0));
    });
}
