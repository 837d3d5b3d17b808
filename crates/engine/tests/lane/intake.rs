//! Steps without state before the lane: what they drop suppresses nothing, and a refused row's key is found by its record.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use dataflow::{
    Batch, Column, ColumnType, Intake, OperatorError, Partition, Reason, Reject, Schema, Transform,
    Transformed,
};
use engine::{Input, Pipeline};
use operators::dedup::{Dedup, DedupConfig, Late};
use protocol::record::Fate;
use tokio::sync::watch;

use crate::support::{Bench, Told};
use crate::{run, wait_until};

/// Records are `variant * 1000 + key`. Those of variant 8 are dropped, those of variant 9 fail; the key is one more column, which the table
/// does not have.
struct Keyed(Schema);

impl Keyed {
    fn step() -> Arc<dyn Transform> {
        let column = |name| Column::new(name, ColumnType::UInt64);
        Arc::new(Self(Schema::new(vec![column("id"), column("key")])))
    }
}

fn ids(batch: &Batch) -> Vec<u64> {
    batch.rows.column(0).as_primitive::<UInt64Type>().values().to_vec()
}

impl Transform for Keyed {
    fn name(&self) -> &str {
        "keyed"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let of = |variant| move |id: &u64| id / 1_000 == variant;
        let all = ids(&batch);
        let filtered = all.iter().copied().filter(|id| of(8)(id)).count() as u64;
        let failed = all.iter().enumerate().filter(|(_, id)| of(9)(id));
        let rejects = failed.map(|(row, id)| Reject {
            item: None,
            partition: batch.partition.clone(),
            position: batch.position(row),
            time_ms: batch.times_ms[row],
            reason: Reason::Expression,
            column: "key".into(),
            message: format!("`{id}` has no key"),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        });
        let rejects = rejects.collect();
        let keep: BooleanArray = all.iter().map(|id| Some(id / 1_000 < 8)).collect();
        let batch = batch.filter(&keep).expect("as long as the batch");
        let key: ArrayRef = Arc::new(ids(&batch).iter().map(|id| id % 1_000).collect::<UInt64Array>());
        let columns = vec![batch.rows.column(0).clone(), key];
        let rows = RecordBatch::try_new(self.0.arrow().clone(), columns).expect("two columns");
        Ok(Transformed { batch: Batch { rows, ..batch }, filtered, rejects })
    }
}

/// The record is its time, in milliseconds.
struct IdIsTime(Schema);

impl Transform for IdIsTime {
    fn name(&self) -> &str {
        "time"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let times_ms = ids(&batch).into_iter().map(|id| id as i64).collect();
        Ok(Transformed::all(Batch { times_ms, ..batch }))
    }
}

/// Lets nothing through before it is opened.
struct Held {
    schema: Schema,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Transform for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let (is_open, turned) = &*self.gate;
        let opened = turned.wait_while(is_open.lock().expect("no panic"), |is_open| !*is_open);
        drop(opened.expect("no panic"));
        Ok(Transformed::all(batch))
    }
}

/// The bench's pipeline with these steps before a dedup by the computed key.
fn pipeline(bench: &Bench, drain: bool) -> Pipeline {
    let pipeline = bench.pipeline(drain);
    let before = &pipeline.inputs[0].intake;
    let (keyed, input) = (Keyed::step(), before.schema().clone());
    let dedup = DedupConfig { key: vec!["key".into()], window: None, late: Late::Keep };
    let dedup = Dedup::new(keyed.schema(), dedup).expect("a valid step").with_sizes(bench.sizes);
    let intake = Intake::new(before.decoder().clone());
    let intake = intake.with_time(Some(Arc::new(IdIsTime(input)))).with_steps(vec![keyed]);
    let inputs = pipeline.inputs.into_iter().map(|input| Input { intake: intake.clone(), ..input }).collect();
    Pipeline { inputs, steps: vec![Box::new(dedup)], ..pipeline }
}

async fn drain(bench: &Bench) {
    let (_stop, asked) = watch::channel(false);
    engine::run(pipeline(bench, true), asked).await.expect("drains");
}

#[test]
fn a_filtered_or_failed_record_does_not_suppress_a_later_one_of_its_key() {
    run(async {
        let bench = Bench::new();
        bench.push([8_004, 9_004, 1_004, 2_004, 8_004, 9_006, 3_006]);
        drain(&bench).await;
        bench.assert_holds([1_004, 3_006]);
        let counts = bench.lane().await.counts;
        assert!(counts.add_up());
        assert_eq!((counts.read, counts.passed, counts.filtered), (7, 2, 2));
        assert_eq!((counts.duplicates, counts.dead_letters), (1, 2));
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters.into_keys().collect::<Vec<_>>(), [1, 5], "by their positions");
    });
}

/// A few kB may unpack to a block of many MB: so many of them would be more than is to be held.
#[test]
fn blocks_that_wait_for_a_thread_are_bounded_by_their_bytes_and_not_by_their_number_alone() {
    run(async {
        for (bytes_max, ahead) in [(64 << 20, 4), (250_000, 3), (1, 1)] {
            let mut bench = Bench::new();
            bench.settings.batch_bytes_max = bytes_max;
            // A first start reads until each new partition has said something; this is none.
            bench.push([20, 21]);
            engine::run(bench.pipeline(true), watch::channel(false).1).await.expect("drains");
            let zeros = "0".repeat(100_000);
            (0..20).for_each(|id| bench.push_text(id, &format!("{zeros}{id}")));
            let gate = Arc::new((Mutex::new(false), Condvar::new()));
            let source = Told::honest(bench.source.clone());
            let handed_out = source.handed_out.clone();
            let pipeline = bench.pipeline(true);
            let decoder = pipeline.inputs[0].intake.decoder().clone();
            let held = Held { schema: decoder.schema().clone(), gate: gate.clone() };
            let intake = Intake::new(decoder).with_steps(vec![Arc::new(held)]);
            let input = Input { intake, ..bench.input("source", Arc::new(source)) };
            let (_stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(Pipeline { inputs: vec![input], ..pipeline }, asked));
            wait_until(|| handed_out.load(Ordering::SeqCst) >= ahead).await;
            // One that is read beyond the bound would be by now.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let waiting = handed_out.load(Ordering::SeqCst);
            *gate.0.lock().expect("no panic") = true;
            gate.1.notify_all();
            running.await.expect("no panic").expect("drains");
            assert_eq!(waiting, ahead, "with {bytes_max} bytes");
            bench.assert_holds(0..22);
        }
    });
}

#[test]
fn a_filtered_record_moves_the_watermark() {
    run(async {
        let bench = Bench::new();
        bench.push([1_000, 1_001]);
        drain(&bench).await;
        assert_eq!(bench.lane().await.watermark_ms, 1_000);
        bench.push([8_100, 8_101, 9_200, 9_201]);
        drain(&bench).await;
        assert_eq!(bench.lane().await.watermark_ms, 9_200);
        bench.assert_holds([1_000, 1_001]);
    });
}

#[test]
fn a_source_that_asks_is_told_what_became_of_each_record() {
    run(async {
        let bench = Bench::new();
        bench.push([8_004, 9_004, 1_004, 2_004]);
        let (_stop, asked) = watch::channel(false);
        let mut told = pipeline(&bench, true);
        told.inputs[0].source = Arc::new(Told::honest(bench.source.clone()));
        engine::run(told, asked).await.expect("drains");
        let lane = bench.lane().await;
        let partition = lane.partition(0, "e", 0).expect("it was read") as u32;
        let fates = lane.fates.iter().find(|fates| fates.partition == partition).expect("asked for");
        let told: Vec<Option<Fate>> = (0..4).map(|position| fates.at(position)).collect();
        assert_eq!(told, [Fate::Filtered, Fate::DeadLetter, Fate::Written, Fate::Duplicate].map(Some));
    });
}

#[test]
fn the_key_of_a_refused_row_is_found_by_its_record_and_forgotten() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![1_004];
        bench.push([1_004, 1_006]);
        drain(&bench).await;
        bench.assert_holds([1_006]);
        bench.push([2_004, 2_006]);
        drain(&bench).await;
        bench.assert_holds([1_006, 2_004]);
        let totals = bench.totals().await;
        assert!(totals.records.add_up());
        assert_eq!((totals.written, totals.dead_letters, totals.records.duplicates), (2, 1, 1));
    });
}

#[test]
fn a_refused_row_whose_record_is_gone_keeps_its_key_and_is_a_dead_letter() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.reread_time_max = Duration::from_millis(100);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away) = (true, false);
        }
        bench.push([1_004, 1_006]);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(pipeline(&bench, false), asked));
        wait_until(|| bench.status.snapshot().sealed.records.read == 2).await;
        bench.feed.forget(&Partition::new("e", 0), 2);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.poison) = (false, vec![1_004]);
        }
        wait_until(|| bench.dead_letters.world.lock().expect("no panic").ids().len() == 1).await;
        bench.push([2_004, 2_008]);
        wait_until(|| bench.status.snapshot().sealed.records.read == 4).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds([1_006, 2_008]);
        assert_eq!(bench.lane().await.counts.duplicates, 1);
    });
}
