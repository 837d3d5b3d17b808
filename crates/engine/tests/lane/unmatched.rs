//! A join whose rows without a match go to tables of their own: each is there once, and in no pair, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Column, ColumnType, Schema};
use engine::Pipeline;
use engine::tables::{Side, SideRows};
use operators::{Dedup, DedupConfig, Join, JoinConfig, JoinKind, Late};
use sources::memory::MemorySource;

use crate::join::{NOBODY, config, joined_by, keyed, pairs, push, source};
use crate::late::Number;
use crate::run;
use crate::support::{Bench, Fault, Process, TokenTable};
use crate::window::LAST;

/// The tables of both sides.
type Beside = [Arc<TokenTable>; 2];

fn tables(bench: &Bench) -> Beside {
    ["d.left", "d.right"].map(|name| TokenTable::numbers(name, bench.runtime.clone()))
}

/// An inner join, whose rows without a match go to the second table and to the third.
fn beside(bench: &Bench, right: &Arc<MemorySource>, tables: &Beside, drain: bool) -> Pipeline {
    let names = || vec!["id".to_owned()];
    let config = JoinConfig { unmatched: [names(), names()], ..config(JoinKind::Inner) };
    let join = Join::new(&keyed(), &keyed(), &config).expect("a valid step");
    let ids = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
    let side = |input: usize| Side {
        step: 1,
        rows: SideRows::Unmatched(input),
        table: 1 + input,
        mapping: Arc::new(Number(ids.clone())),
    };
    Pipeline {
        tables: vec![bench.table.clone(), tables[0].clone(), tables[1].clone()],
        sides: vec![side(0), side(1)],
        ..joined_by(bench, right, join, drain)
    }
}

fn ids(table: &TokenTable) -> BTreeMap<u64, u64> {
    table.world.lock().expect("no panic").ids()
}

/// The records of each side without a match, each once, from the model of an outer join.
fn lonely(left: &[u64], right: &[u64]) -> [BTreeMap<u64, u64>; 2] {
    let alone = pairs(left, right, true).into_iter().map(|pair| (pair / 1_000_000, pair % 1_000_000));
    let alone: Vec<(u64, u64)> = alone.collect();
    let lefts = alone.iter().filter(|(_, right)| *right == NOBODY).map(|(left, _)| (*left, 1));
    let rights = alone.iter().filter(|(left, _)| *left == NOBODY).map(|(_, right)| (*right, 1));
    [lefts.collect(), rights.collect()]
}

#[test]
fn a_row_without_a_match_is_in_its_table_once_after_a_crash_at_any_moment() {
    run(async {
        for seed in 0..12_u64 {
            let (mut bench, right) = (Bench::new(), source());
            let tables = tables(&bench);
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let is_ours = |id: &u64| id % 7 < 4 && id / 100 != 1;
            for round in 0..6_u64 {
                let all = round * 100..(round + 1) * 100;
                ours.extend(all.clone().filter(is_ours));
                theirs.extend(all.clone().filter(|id| id % 11 < 5 && id / 100 != 3));
                bench.push(all.clone().filter(is_ours).flat_map(|id| [id; 2]));
                push(&right, all.filter(|id| id % 11 < 5 && id / 100 != 3));
                for (nth, table) in [&bench.table, &tables[0], &tables[1]].into_iter().enumerate() {
                    let mut world = table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) as usize + nth) % 4]);
                    if (seed + round + nth as u64).is_multiple_of(3) {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(beside(&bench, &right, &tables, false)).kill_after(life).await;
            }
            bench.push(LAST);
            push(&right, LAST);
            ours.extend(LAST);
            theirs.extend(LAST);
            Process::start(beside(&bench, &right, &tables, true)).ends().await.expect("drains");
            let made = pairs(&ours, &theirs, false);
            let alone = lonely(&ours, &theirs);
            assert!(alone.iter().all(|alone| alone.len() > 30), "there is something to lose");
            bench.assert_holds(made.iter().copied());
            assert_eq!([ids(&tables[0]), ids(&tables[1])], alone, "seed {seed}");
            let lane = bench.lane().await;
            let rows = made.len() + alone[0].len() + alone[1].len();
            assert_eq!((lane.derived.rows, lane.derived.dropped), (rows as u64, 0), "seed {seed}");
            assert_eq!(lane.absorbed.held, 4, "seed {seed}: those that wait");
            for (name, alone) in ["d.left", "d.right"].into_iter().zip(alone) {
                let rows = lane.tables[lane.table(name).expect("it is known")].rows;
                assert_eq!((rows.sealed, rows.refused), (alone.len() as u64, 0), "seed {seed}");
            }
        }
    });
}

#[test]
fn a_row_without_a_match_that_its_table_refuses_is_a_dead_letter_and_no_key_is_known_for_it() {
    run(async {
        let (bench, right) = (Bench::new(), source());
        let tables = tables(&bench);
        let (ours, theirs): (Vec<u64>, Vec<u64>) = ((0..100).collect(), (300..320).collect());
        tables[0].world.lock().expect("no panic").poison = vec![17];
        bench.push(ours.iter().copied().chain(LAST));
        push(&right, theirs.iter().copied().chain(LAST));
        let mut pipeline = beside(&bench, &right, &tables, true);
        // Joined rows count as seen behind the join, and rows of a side output never come there.
        let packed = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
        let config = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
        pipeline.steps.push(Box::new(Dedup::new(&packed, config).expect("a valid step")));
        Process::start(pipeline).ends().await.expect("drains");
        let mut alone = lonely(&ours, &theirs);
        alone[0].remove(&17);
        assert_eq!([ids(&tables[0]), ids(&tables[1])], alone);
        let letters = bench.dead_letters.world.lock().expect("no panic").messages.clone();
        assert!(letters.len() == 1 && !letters[0].contains("stays known"), "{letters:?}");
        let lane = bench.lane().await;
        let rows = lane.tables[lane.table("d.left").expect("it is known")].rows;
        assert_eq!((rows.sealed, rows.refused), (100, 1));
    });
}
