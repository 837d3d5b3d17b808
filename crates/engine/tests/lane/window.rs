//! A lane with a window: what a watermark lets out is in the table once, whatever happens, and every record is released or held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{RecordBatch, UInt64Array};
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, Column, ColumnType, Intake, Operator, OperatorError, Output, Partition, Probed, Schema, Source,
    State, Transform, Transformed,
};
use engine::{EngineError, Input, Outcome, Pipeline};
use operators::window::spilled::Sizes;
use operators::window::{Aggregate, Clock, Emit, Function, Windows};
use operators::{Dedup, DedupConfig, Late, Window, WindowConfig};
use protocol::record::Absorbed;
use tokio::sync::watch;

use crate::start::{At, Refusing};
use crate::support::{Bench, Fault, Numbers, Process};
use crate::{run, wait_until};

pub const SIZE_MS: u64 = 100;
/// From one window to the next, where they overlap.
const SLIDE_MS: u64 = SIZE_MS / 4;
pub const KEYS: u64 = 5;

/// The time that a bench gives its first record.
pub const BEGIN_MS: u64 = 1_000;

/// Two records that are so far ahead of all others that they close every window before them.
pub const LAST: [u64; 2] = [100_000, 100_001];

/// A second column: the key.
pub struct Keyed(pub Schema);

impl Transform for Keyed {
    fn name(&self) -> &str {
        "keyed"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let ids = batch.rows.column(0).clone();
        let keys = UInt64Array::from_iter_values(
            ids.as_primitive::<UInt64Type>().values().iter().map(|id| id % KEYS),
        );
        let rows =
            RecordBatch::try_new(self.0.arrow().clone(), vec![ids, Arc::new(keys)]).expect("two columns");
        Ok(Transformed::all(Batch { rows, ..batch }))
    }
}

/// A result as one number: window, key, count and sum.
pub fn packed(start_ms: u64, key: u64, count: u64, sum: u64) -> u64 {
    ((start_ms / SLIDE_MS * 10 + key) * 1_000 + count) * 10_000_000 + sum
}

/// A step behind the window: results as numbers. An Array as key stands for the number of its items.
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
        let numbers = |name: &str| rows.column_by_name(name).expect("a result").as_primitive::<UInt64Type>();
        let starts =
            rows.column_by_name("window_start").expect("a result").as_primitive::<TimestampMillisecondType>();
        let keys = rows.column_by_name("key").expect("a result");
        let key = |row| match keys.as_list_opt::<i32>() {
            Some(lists) => lists.value_length(row) as u64,
            None => keys.as_primitive::<UInt64Type>().value(row),
        };
        let (counts, sums) = (numbers("n"), numbers("total"));
        let pack = |row| packed(starts.value(row) as u64, key(row), counts.value(row), sums.value(row));
        let ids = UInt64Array::from_iter_values((0..rows.num_rows()).map(pack));
        let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).expect("one column");
        Ok(Output::all(Batch { rows, ..probed.batch }))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

/// The columns of the records, and those that the window takes.
pub fn columns() -> (Schema, Schema) {
    let column = |name| Column::new(name, ColumnType::UInt64);
    (Schema::new(vec![column("id")]), Schema::new(vec![column("id"), column("key")]))
}

/// The window.
pub fn window(keyed: &Schema) -> Window {
    of_windows(keyed, Windows::Tumbling { size: Duration::from_millis(SIZE_MS) })
}

fn of_windows(keyed: &Schema, windows: Windows) -> Window {
    of_config(keyed, windows, None)
}

fn of_config(keyed: &Schema, windows: Windows, emit: Option<Emit>) -> Window {
    let config = WindowConfig {
        key: vec!["key".to_owned()],
        windows,
        lateness: Duration::ZERO,
        emit,
        aggregates: vec![
            Aggregate::new("n", Function::Count, None),
            Aggregate::new("total", Function::Sum, Some("id")),
        ],
    };
    Window::new(keyed, &config).expect("a valid step")
}

fn with_memory(bench: &Bench, drain: bool, memory: u64) -> Pipeline {
    with_step(bench, drain, window(&columns().1).with_memory(memory))
}

fn with_step(bench: &Bench, drain: bool, window: Window) -> Pipeline {
    let (decoded, keyed) = columns();
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
    let steps: Vec<Box<dyn Operator>> = vec![Box::new(window), Box::new(Pack)];
    let mut pipeline = Pipeline { steps, ..bench.pipeline(drain) };
    pipeline.inputs[0].intake = intake;
    pipeline
}

pub fn windowed(bench: &Bench, drain: bool) -> Pipeline {
    with_memory(bench, drain, 1 << 20)
}

/// Every seal writes all open windows to files, and every result is a piece of its own.
pub const TINY: Sizes = Sizes {
    open_bytes: 1,
    block_bytes: 16,
    file_bytes: 200,
    piece_bytes: 16,
    read_bytes: 100,
    generations_max: 100,
};

/// With windows in files, one each `slide_ms`.
fn spilling(bench: &Bench, slide_ms: u64, drain: bool) -> Pipeline {
    let [size, slide] = [SIZE_MS, slide_ms].map(Duration::from_millis);
    with_step(bench, drain, of_windows(&columns().1, Windows::Hopping { size, slide }).with_sizes(TINY))
}

async fn drain(bench: &Bench) -> Result<Outcome, EngineError> {
    Process::start(windowed(bench, true)).ends().await
}

/// The results of these records, computed from the records alone.
pub fn results(ids: impl Iterator<Item = u64>) -> Vec<u64> {
    of_slides(ids, SIZE_MS)
}

/// The same of windows that begin so often.
fn of_slides(ids: impl Iterator<Item = u64>, slide_ms: u64) -> Vec<u64> {
    let mut windows: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for id in ids {
        let time_ms = BEGIN_MS + id;
        let last = time_ms / slide_ms * slide_ms;
        for start in (0..).map(|n| last - n * slide_ms).take_while(|start| start + SIZE_MS > time_ms) {
            let (count, sum) = windows.entry((start, id % KEYS)).or_default();
            (*count, *sum) = (*count + 1, *sum + id);
        }
    }
    windows.into_iter().map(|((start, key), (count, sum))| packed(start, key, count, sum)).collect()
}

#[test]
fn a_closed_window_is_in_the_table_once_and_an_open_one_is_held() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        drain(&bench).await.expect("drains");
        // The second to last record is the newest of its partition.
        bench.assert_holds(results(0..700));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.absorbed, lane.counts.passed), (750, 750, 0));
        assert_eq!(lane.absorbed, Absorbed { released: 700, held: 50, discarded: 0 });
        assert_eq!(lane.derived.rows, 7 * KEYS);
        // The next start has what is held.
        bench.push(750..800);
        bench.push(LAST);
        drain(&bench).await.expect("drains");
        bench.assert_holds(results(0..800));
        assert_eq!(bench.lane().await.absorbed, Absorbed { released: 800, held: 2, discarded: 0 });
    });
}

#[test]
fn a_crash_at_any_moment_loses_and_doubles_no_result() {
    run(async {
        for seed in 0..12u64 {
            let mut bench = Bench::new();
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 200..(round + 1) * 200);
                {
                    let mut world = bench.table.world.lock().expect("no panic");
                    world.faults.push_back(faults[((seed + round) % 4) as usize]);
                    if (seed + round) % 3 == 0 {
                        world.restart();
                    }
                }
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(windowed(&bench, false)).kill_after(life).await;
            }
            bench.push(LAST);
            drain(&bench).await.expect("drains");
            bench.assert_holds(results(0..1_200));
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 1_200, held: 2, discarded: 0 }, "seed {seed}");
            assert_eq!((lane.counts.read, lane.counts.late), (1_202, 0), "seed {seed}");
        }
    });
}

#[test]
fn results_of_windows_in_files_are_in_the_table_once_whatever_happens() {
    run(async {
        let mut files = 0;
        let tumbling = (0..12u64).map(|seed| (seed, SIZE_MS));
        let hopping = (12..20u64).map(|seed| (seed, SLIDE_MS));
        for (seed, slide_ms) in tumbling.chain(hopping) {
            let mut bench = Bench::new();
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 200..(round + 1) * 200);
                bench
                    .table
                    .world
                    .lock()
                    .expect("no panic")
                    .faults
                    .push_back(faults[((seed + round) % 4) as usize]);
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(spilling(&bench, slide_ms, false)).kill_after(life).await;
            }
            bench.push(LAST);
            // A run that reads to the end waits until all results are out, piece by piece.
            Process::start(spilling(&bench, slide_ms, true)).ends().await.expect("drains");
            bench.assert_holds(of_slides(0..1_200, slide_ms));
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 1_200, held: 2, discarded: 0 }, "seed {seed}");
            assert_eq!((lane.counts.read, lane.counts.late), (1_202, 0), "seed {seed}");
            files += lane.files.len();
        }
        assert!(files > 0, "a checkpoint names files");
    });
}

#[test]
fn a_record_of_a_closed_window_is_late_also_after_a_restart() {
    run(async {
        let bench = Bench::new();
        bench.push(0..300);
        drain(&bench).await.expect("drains");
        bench.push([10, 11, 250]);
        drain(&bench).await.expect("drains");
        bench.push(LAST);
        drain(&bench).await.expect("drains");
        let counts = bench.lane().await.counts;
        assert_eq!((counts.read, counts.late, counts.absorbed), (305, 2, 303));
        bench.assert_holds(results((0..300).chain([250])));
    });
}

#[test]
fn a_refused_result_is_a_dead_letter_of_its_step_and_the_others_are_written() {
    run(async {
        let bench = Bench::new();
        let all = results(0..300);
        bench.table.world.lock().expect("no panic").poison = vec![all[3], all[7]];
        bench.push(0..300);
        bench.push(LAST);
        drain(&bench).await.expect("drains");
        bench.assert_holds(all.iter().copied().filter(|id| ![all[3], all[7]].contains(id)));
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters.values().sum::<u64>(), 2);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (all.len() as u64 - 2, 2));
        assert!(totals.records.add_up());
    });
}

#[test]
fn a_partition_that_falls_silent_lets_the_windows_of_the_others_close_without_a_new_record() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.idle_after = Duration::from_millis(300);
        bench.push([1]);
        (0..300).for_each(|n| bench.push([2 * n]));
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(windowed(&bench, false), asked));
        let expected = results([1].into_iter().chain((0..250).map(|n| 2 * n)));
        let world = bench.table.world.clone();
        wait_until(|| world.lock().expect("no panic").ids().len() == expected.len()).await;
        bench.assert_holds(expected);
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
    });
}

#[test]
fn windows_beyond_the_memory_end_the_run_before_anything_of_the_batch_is_sealed() {
    run(async {
        let bench = Bench::new();
        bench.push((0..100).map(|n| n * SIZE_MS));
        let (_stop, asked) = watch::channel(false);
        // The same windows, but of a kind that is not spilled.
        let windows = || Windows::Tumbling { size: Duration::from_millis(SIZE_MS) };
        let emit = || Emit {
            early: None,
            clock: Clock::EventTime,
            updates: true,
            version: None,
            sign: Some("sign".to_owned()),
        };
        let kept = |memory| {
            let step = of_config(&columns().1, windows(), Some(emit()));
            with_step(&bench, true, step.with_memory(memory))
        };
        let error = engine::run(kept(1_000), asked).await.expect_err("too little");
        assert!(error.to_string().contains("Raise `memory`"), "{error}");
        assert_eq!(bench.lane().await.counts.read, 0);
        bench.push(LAST);
        Process::start(kept(1 << 20)).ends().await.expect("with more memory");
        bench.assert_holds(results((0..100).map(|n| n * SIZE_MS)));
    });
}

/// A record without a time is no part of a window: it does not count as seen by the `dedup` before it, whether a later one of its id comes in
/// the same batch or after a crash.
#[test]
fn a_record_that_a_window_rejects_does_not_suppress_a_later_one_of_its_id() {
    run(async {
        for is_restarted in [false, true] {
            let bench = Bench::new();
            let pipeline = || {
                let dedup = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
                let columns = ["id", "key"].map(|name| Column::new(name, ColumnType::UInt64));
                let dedup = Dedup::new(&Schema::new(columns.to_vec()), dedup).expect("a valid step");
                let mut pipeline = windowed(&bench, true);
                pipeline.steps.insert(0, Box::new(dedup.with_sizes(bench.sizes)));
                let drain = Process::start(pipeline).ends();
                async { drain.await.expect("drains") }
            };
            let partition = Partition::new("e", 0);
            let push = |id: u64, time_ms: i64| bench.feed.push(&partition, time_ms, id.to_string());
            for id in [1, 2, 2] {
                push(id, TIME_UNKNOWN_MS);
            }
            if is_restarted {
                pipeline().await;
            }
            push(1, BEGIN_MS as i64 + 1);
            push(3, BEGIN_MS as i64 + 3);
            push(3, BEGIN_MS as i64 + 3);
            pipeline().await;
            let lane = bench.lane().await;
            let counts =
                (lane.counts.read, lane.counts.dead_letters, lane.counts.duplicates, lane.counts.absorbed);
            match is_restarted {
                true => assert_eq!(counts, (6, 2, 2, 2)),
                // In one batch the good record of id 1 was dropped before the window saw the bad one: its dead letter says so.
                false => {
                    assert_eq!(counts, (6, 2, 3, 1));
                    let letters = bench.dead_letters.world.lock().expect("no panic").messages.clone();
                    let named = "dropped as its duplicates: `1` (`e/0` at `3`)";
                    assert!(letters.iter().any(|text| text.contains(named)), "{letters:?}");
                }
            }
        }
    });
}

/// The records of one partition alone, so that their order is that of their times.
#[test]
pub fn results_wait_for_the_slowest_partition() {
    run(async {
        let bench = Bench::new();
        let [slow, fast] = [0, 1].map(|index| Partition::new("e", index));
        for id in 0..300_u64 {
            bench.feed.push(&fast, (BEGIN_MS + id) as i64, id.to_string());
        }
        bench.feed.push(&slow, BEGIN_MS as i64 + 120, "120");
        drain(&bench).await.expect("drains");
        bench.assert_holds(results(0..100));
        for id in [150_u64, 90_000] {
            bench.feed.push(&slow, (BEGIN_MS + id) as i64, id.to_string());
        }
        bench.feed.push(&fast, BEGIN_MS as i64 + 90_001, "90001");
        drain(&bench).await.expect("drains");
        bench.assert_holds(results((0..300).chain([120, 150])));
    });
}

/// A drain that lets windows out of files goes on for as long as the table takes, and reads nothing meanwhile.
#[test]
fn no_partition_falls_silent_while_a_drain_waits_for_the_table() {
    run(async {
        let mut bench = Bench::new();
        let usual = bench.settings.clone();
        let drains = |bench: &Bench| Process::start(spilling(bench, SIZE_MS, true)).ends();
        // The other partition has hardly begun, so that every window of the slower one is open, and frozen, when the run ends.
        bench.push((0..450).step_by(2));
        bench.push([1]);
        drains(&bench).await.expect("drains");
        bench.assert_holds([]);
        // Now the slower one has nothing new, and a seal waits for the insert of the one before.
        let (idle_after, insert_time) = (Duration::from_millis(1_500), Duration::from_millis(150));
        (bench.settings.idle_after, bench.settings.spool_bytes_max) = (idle_after, 1);
        bench.table.world.lock().expect("no panic").insert_time = insert_time;
        bench.push((3..1_250).step_by(2));
        drains(&bench).await.expect("drains");
        let inserts = bench.table.world.lock().expect("no panic").attempts;
        // The last cut is made up to three inserts before its own.
        assert!(insert_time * (inserts as u32).saturating_sub(3) > idle_after, "only {inserts} inserts");
        bench.assert_holds(results(0..400));
        let clock_ms = (BEGIN_MS + 448) as i64;
        assert_eq!(bench.lane().await.watermark_ms, clock_ms, "the clock of the slower partition");
        // The next run reads on in the slower one, between the two clocks.
        bench.settings = usual;
        bench.table.world.lock().expect("no panic").insert_time = Duration::ZERO;
        bench.push((450..1_250).step_by(2));
        bench.push(LAST);
        drains(&bench).await.expect("drains");
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.late), (1_252, 0));
        assert_eq!(lane.absorbed, Absorbed { released: 1_250, held: 2, discarded: 0 });
        bench.assert_holds(results(0..1_250));
    });
}

/// The source comes back with the records of one partition first: those of the other were held up with it.
#[test]
fn a_partition_whose_source_was_away_for_long_is_waited_for() {
    run(async {
        let mut bench = Bench::new();
        // Longer than a busy machine takes for what comes once the source is back.
        bench.settings.idle_after = Duration::from_secs(6);
        let [slow, fast] = [0, 1].map(|index| Partition::new("e", index));
        let push = |partition: &Partition, id: u64| {
            bench.feed.push(partition, (BEGIN_MS + id) as i64, id.to_string());
        };
        (0..10).for_each(|id| push(if id % 2 == 0 { &slow } else { &fast }, id));
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(windowed(&bench, false), asked));
        let read = |count: u64| {
            let status = bench.status.clone();
            wait_until(move || status.snapshot().sealed.records.read == count)
        };
        read(10).await;
        bench.feed.fail(u32::MAX);
        tokio::time::sleep(Duration::from_millis(6_500)).await;
        (10..600).for_each(|id| push(&fast, id));
        bench.feed.fail(0);
        read(600).await;
        (10..20).for_each(|id| push(&slow, id));
        read(610).await;
        assert_eq!(bench.lane().await.counts.late, 0);
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
    });
}

/// The same with a window that closes at the end, read until every partition has ended.
async fn read_to_the_end(bench: &Bench, closes: bool, crashes: bool) -> Option<Outcome> {
    let (decoded, keyed) = columns();
    let step = window(&keyed).with_close_at_end(closes);
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
    let mut pipeline = Pipeline { steps: vec![Box::new(step), Box::new(Pack)], ..bench.pipeline(false) };
    pipeline.inputs[0].intake = intake;
    if crashes {
        let _ = Process::start(pipeline).kill_after(Duration::from_millis(3)).await;
        return None;
    }
    Some(Process::start(pipeline).ends().await.expect("ends"))
}

#[test]
fn the_end_of_every_input_closes_the_last_windows_of_a_step_that_is_to_close_and_of_no_other() {
    run(async {
        for (closes, held) in [(false, 50), (true, 0)] {
            let bench = Bench::new();
            bench.push(0..750);
            bench.feed.end_all();
            assert_eq!(read_to_the_end(&bench, closes, false).await, Some(Outcome::Complete));
            let closed = if closes { 0..750 } else { 0..700 };
            bench.assert_holds(results(closed));
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 750 - held, held, discarded: 0 });
            // The watermark is that of the records: dedup and the steps beside it forget nothing early.
            assert!(lane.watermark_ms < (BEGIN_MS + 750) as i64);
        }
    });
}

#[test]
fn the_end_of_one_input_closes_nothing_while_another_one_refuses() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        bench.feed.end_all();
        assert_eq!(read_to_the_end(&bench, false, false).await, Some(Outcome::Complete));
        let (decoded, keyed) = columns();
        let step = window(&keyed).with_close_at_end(true);
        let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
        let pipeline = bench.pipeline(false);
        // It is new in the file, and cannot be opened.
        let refusing = Arc::new(Refusing::at(&bench.source, At::Partitions));
        let inputs = [("source", bench.source.clone() as Arc<dyn Source>), ("payments", refusing)];
        let inputs =
            inputs.map(|(name, source)| Input { intake: intake.clone(), ..bench.input(name, source) });
        let pipeline =
            Pipeline { inputs: inputs.into(), steps: vec![Box::new(step), Box::new(Pack)], ..pipeline };
        let ended = Process::start(pipeline).ends().await;
        assert!(matches!(ended, Err(EngineError::Delivered { .. })), "{ended:?}");
        assert_eq!(bench.lane().await.absorbed, Absorbed { released: 700, held: 50, discarded: 0 });
    });
}

#[test]
fn a_drain_is_no_end() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        let (decoded, keyed) = columns();
        let step = window(&keyed).with_close_at_end(true);
        let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
        let mut pipeline = Pipeline { steps: vec![Box::new(step), Box::new(Pack)], ..bench.pipeline(true) };
        pipeline.inputs[0].intake = intake;
        Process::start(pipeline).ends().await.expect("drains");
        assert_eq!(bench.lane().await.absorbed, Absorbed { released: 700, held: 50, discarded: 0 });
    });
}

#[test]
fn what_comes_after_the_end_is_late_for_the_windows_that_it_has_closed() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        bench.feed.end_all();
        for crashes in [true, false] {
            read_to_the_end(&bench, true, crashes).await;
        }
        bench.assert_holds(results(0..750));
        // Another file has more of the window up to 800, which is in the table without it, and a window of its own.
        let file = Partition::new("e", 2);
        bench.feed.open(file.clone());
        for id in 750..900_u64 {
            bench.feed.push(&file, (BEGIN_MS + id) as i64, id.to_string());
        }
        bench.feed.end(&file);
        for crashes in [true, false] {
            read_to_the_end(&bench, true, crashes).await;
        }
        bench.assert_holds(results((0..750).chain(800..900)));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.late), (900, 50));
        assert_eq!(lane.absorbed, Absorbed { released: 850, held: 0, discarded: 0 });
    });
}

/// A window with results before it closes, and the step that makes them numbers: those of one key and window differ in their version.
fn emitting(bench: &Bench, drain: bool, emit: Emit, is_in_files: bool) -> Pipeline {
    let (decoded, keyed) = columns();
    let config = WindowConfig {
        key: vec!["key".to_owned()],
        windows: Windows::Tumbling { size: Duration::from_millis(SIZE_MS) },
        lateness: Duration::from_millis(50),
        aggregates: vec![Aggregate::new("n", Function::Count, None)],
        emit: Some(emit),
    };
    let step = Window::new(&keyed, &config).expect("a valid step");
    let step = if is_in_files { step.with_sizes(TINY) } else { step };
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Keyed(keyed))]);
    let mut pipeline = Pipeline { steps: vec![Box::new(step), Box::new(Versioned)], ..bench.pipeline(drain) };
    pipeline.inputs[0].intake = intake;
    pipeline
}

/// Results as numbers: window and key, then the version, then the count.
struct Versioned;

impl Operator for Versioned {
    fn name(&self) -> &str {
        "versioned"
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = probed.batch.rows;
        let numbers = |name: &str| rows.column_by_name(name).expect("a result").as_primitive::<UInt64Type>();
        let starts =
            rows.column_by_name("window_start").expect("a result").as_primitive::<TimestampMillisecondType>();
        let (keys, counts, versions) = (numbers("key"), numbers("n"), numbers("v"));
        let signs = rows.column_by_name("sign").map(|column| column.as_primitive::<Int8Type>());
        let pack = |row| {
            let at = starts.value(row) as u64 / SIZE_MS * 10 + keys.value(row);
            // Behind the clock with which the numbers of the state begin.
            let seal = versions.value(row) % (1 << 20);
            let id = (at * 1_000_000 + seal) * 1_000 + counts.value(row);
            // With a sign the last bit says what is taken back.
            signs.map_or(id, |signs| id * 2 + u64::from(signs.value(row) == -1))
        };
        let ids = UInt64Array::from_iter_values((0..rows.num_rows()).map(pack));
        let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).expect("one column");
        Ok(Output::all(Batch { rows, ..probed.batch }))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

/// Some come up to 16 ms before or after their time.
fn moved(id: u64) -> u64 {
    if id.is_multiple_of(7) { id ^ 16 } else { id }
}

#[test]
fn the_newest_result_of_each_window_is_exact_whatever_crashes_and_no_version_is_there_twice() {
    run(async {
        let clocks = [Clock::EventTime, Clock::ProcessingTime];
        for seed in 0..16u64 {
            let (bench, is_in_files) = (Bench::new(), seed >= 8);
            let emitting = |bench, drain, emit| emitting(bench, drain, emit, is_in_files);
            let emit = || Emit {
                early: Some(Duration::from_millis(20)),
                clock: clocks[(seed % 2) as usize],
                updates: true,
                version: Some("v".to_owned()),
                sign: None,
            };
            for round in 0..6u64 {
                bench.push((round * 200..(round + 1) * 200).map(moved));
                let fault =
                    [Fault::LostAfter, Fault::LostBefore, Fault::Refused][((seed + round) % 3) as usize];
                bench.table.world.lock().expect("no panic").faults.push_back(fault);
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(emitting(&bench, false, emit())).kill_after(life).await;
            }
            bench.push(LAST);
            Process::start(emitting(&bench, true, emit())).ends().await.expect("drains");
            let mut newest = BTreeMap::new();
            for (id, times) in bench.table.world.lock().expect("no panic").ids() {
                assert_eq!(times, 1, "seed {seed}");
                // The greatest version is the last of its key and window.
                newest.insert(id / 1_000_000_000, id % 1_000);
            }
            let mut wanted = BTreeMap::<u64, u64>::new();
            for id in (0..1_200).map(moved) {
                *wanted.entry((BEGIN_MS + id) / SIZE_MS * 10 + id % KEYS).or_default() += 1;
            }
            newest.retain(|at, _| *at < (BEGIN_MS + LAST[0]) / SIZE_MS * 10);
            assert_eq!(newest, wanted, "seed {seed}");
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 1_200, held: 2, discarded: 0 }, "seed {seed}");
            assert_eq!(lane.counts.late, 0, "seed {seed}");
        }
    });
}

#[test]
fn each_result_but_the_newest_is_taken_back_once_whatever_crashes() {
    run(async {
        let mut taken_back = 0;
        for seed in 0..8u64 {
            let bench = Bench::new();
            let emit = || Emit {
                early: Some(Duration::from_millis(20)),
                clock: Clock::EventTime,
                updates: true,
                version: Some("v".to_owned()),
                sign: Some("sign".to_owned()),
            };
            for round in 0..6u64 {
                bench.push((round * 200..(round + 1) * 200).map(moved));
                let fault =
                    [Fault::LostAfter, Fault::LostBefore, Fault::Refused][((seed + round) % 3) as usize];
                bench.table.world.lock().expect("no panic").faults.push_back(fault);
                // The last one is long enough for early results on a busy machine too.
                let life = Duration::from_millis((seed * 7 + round * 5) % 31 + round / 5 * 500);
                let _ = Process::start(emitting(&bench, false, emit(), false)).kill_after(life).await;
            }
            bench.push(LAST);
            Process::start(emitting(&bench, true, emit(), false)).ends().await.expect("drains");
            // By version and count, as a VersionedCollapsingMergeTree keeps them.
            let mut left = BTreeMap::<u64, i64>::new();
            for (id, times) in bench.table.world.lock().expect("no panic").ids() {
                assert_eq!(times, 1, "seed {seed}");
                taken_back += id % 2;
                *left.entry(id / 2).or_default() += if id % 2 == 1 { -1 } else { 1 };
            }
            left.retain(|_, sign| *sign != 0);
            assert!(left.values().all(|sign| *sign == 1), "seed {seed}: {left:?}");
            let mut found = BTreeMap::<u64, Vec<u64>>::new();
            left.keys().for_each(|id| found.entry(id / 1_000_000_000).or_default().push(id % 1_000));
            let mut wanted = BTreeMap::<u64, Vec<u64>>::new();
            for id in (0..1_200).map(moved) {
                let of = wanted.entry((BEGIN_MS + id) / SIZE_MS * 10 + id % KEYS).or_insert(vec![0]);
                of[0] += 1;
            }
            found.retain(|at, _| *at < (BEGIN_MS + LAST[0]) / SIZE_MS * 10);
            assert_eq!(found, wanted, "seed {seed}");
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 1_200, held: 2, discarded: 0 }, "seed {seed}");
        }
        assert!(taken_back > 0, "no result came early");
    });
}
