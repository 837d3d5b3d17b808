//! A window whose late records go to a table of their own: each record is in a result or in that table, once, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Batch, Intake, Operator, OperatorError, Schema, Transform, Transformed};
use engine::Pipeline;
use engine::tables::{Side, SideRows};
use operators::{Dedup, DedupConfig, Late};
use protocol::record::Absorbed;

use crate::run;
use crate::support::{Bench, Fault, Numbers, Process, TokenTable};
use crate::window::{Keyed, LAST, Pack, columns, results, window};

/// The first column of the rows: the number.
pub struct Number(pub Schema);

impl Transform for Number {
    fn name(&self) -> &str {
        "number"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let rows = batch.rows.project(&[0]).expect("a column");
        Ok(Transformed::all(Batch { rows, ..batch }))
    }
}

/// A `dedup` and a window, whose late records go to the second table.
fn with_late(bench: &Bench, late: &Arc<TokenTable>, drain: bool) -> Pipeline {
    let (decoded, keyed) = columns();
    let config = DedupConfig { key: vec!["id".to_owned()], window: None, late: Late::Keep };
    let dedup = Dedup::new(&keyed, config).expect("a valid step");
    let window = window(&keyed).with_late_rows(true);
    let steps: Vec<Box<dyn Operator>> = vec![Box::new(dedup), Box::new(window), Box::new(Pack)];
    let side = Side { step: 1, rows: SideRows::Late, table: 1, mapping: Arc::new(Number(decoded.clone())) };
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
    let mut pipeline = Pipeline {
        steps,
        tables: vec![bench.table.clone(), late.clone()],
        sides: vec![side],
        ..bench.pipeline(drain)
    };
    pipeline.inputs[0].intake = intake;
    pipeline
}

async fn drain(bench: &Bench, late: &Arc<TokenTable>) {
    Process::start(with_late(bench, late, true)).ends().await.expect("drains");
}

fn second(bench: &Bench) -> Arc<TokenTable> {
    TokenTable::numbers("d.late", bench.runtime.clone())
}

fn ids(table: &TokenTable) -> BTreeMap<u64, u64> {
    table.world.lock().expect("no panic").ids()
}

#[test]
fn a_late_record_is_written_to_its_table_and_counts_as_passed() {
    run(async {
        let bench = Bench::new();
        let late = second(&bench);
        bench.push(0..300);
        drain(&bench, &late).await;
        bench.push([10, 11, 12]);
        drain(&bench, &late).await;
        assert!(ids(&late).is_empty(), "a duplicate is none that is late");
        bench.push(300..310);
        bench.push([1_500, 1_501]);
        drain(&bench, &late).await;
        bench.push([310, 311, 1_502]);
        drain(&bench, &late).await;
        assert_eq!(ids(&late), BTreeMap::from([(310, 1), (311, 1)]));
        let lane = bench.lane().await;
        let counts = lane.counts;
        assert_eq!((counts.read, counts.duplicates, counts.late, counts.passed), (318, 3, 0, 2));
        assert_eq!((counts.late_kept, lane.derived.dropped), (2, 0));
        bench.assert_holds(results(0..310));
    });
}

#[test]
fn each_record_is_in_a_result_or_among_the_late_ones_after_a_crash_at_any_moment() {
    run(async {
        let mut late_in_all = 0;
        for seed in 0..12u64 {
            let mut bench = Bench::new();
            let late = second(&bench);
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                // Half of those of each partition come two rounds late.
                bench.push((round * 200..(round + 1) * 200).filter(|id| id % 4 < 2));
                let before = round.saturating_sub(2);
                bench.push((before * 200..(before + 1) * 200).filter(|id| round > 1 && id % 4 > 1));
                for table in [&bench.table, &late] {
                    let mut world = table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(with_late(&bench, &late, false)).kill_after(life).await;
                if round % 2 == 1 {
                    drain(&bench, &late).await;
                }
            }
            bench.push(LAST);
            drain(&bench, &late).await;
            let late = ids(&late);
            assert!(late.values().all(|rows| *rows == 1), "seed {seed}");
            let all = (0..1_200).filter(|id| id % 4 < 2 || *id < 800);
            bench.assert_holds(results(all.filter(|id| !late.contains_key(id))));
            let lane = bench.lane().await;
            let passed = late.len() as u64;
            assert_eq!((lane.counts.passed, lane.counts.late_kept, lane.counts.late), (passed, passed, 0));
            assert_eq!(lane.absorbed, Absorbed { released: 1_000 - passed, held: 2, discarded: 0 });
            late_in_all += passed;
        }
        assert!(late_in_all > 0, "no record was late in any run");
    });
}

#[test]
fn a_late_record_that_its_table_refuses_is_a_dead_letter_and_its_key_is_forgotten() {
    run(async {
        let bench = Bench::new();
        let late = second(&bench);
        bench.push((0..300).filter(|id| *id != 10 && *id != 11));
        drain(&bench, &late).await;
        late.world.lock().expect("no panic").poison = vec![10];
        bench.push([10, 11]);
        drain(&bench, &late).await;
        assert_eq!(ids(&late), BTreeMap::from([(11, 1)]));
        let letters = bench.dead_letters.world.lock().expect("no panic").messages.clone();
        assert!(letters.len() == 1 && !letters[0].contains("stays known"), "{letters:?}");
        // Sent again, the one is late again and no duplicate, the other is one.
        late.world.lock().expect("no panic").poison.clear();
        bench.push([10, 11]);
        drain(&bench, &late).await;
        assert_eq!(ids(&late), BTreeMap::from([(10, 1), (11, 1)]));
        assert_eq!(bench.lane().await.counts.duplicates, 1);
    });
}
