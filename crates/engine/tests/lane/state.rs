//! A lane whose dedup keys do not fit into memory: they close into files, which restarts, merges, checkpoints and damage meet. And one
//! whose keys are divided into shards, which decide on compute threads.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use dataflow::{Batch, Divided, JobDone, Operator, OperatorError, Output, Probed, State};
use engine::change::{NewState, Unchanged};
use engine::{EngineError, Phase, Pipeline};
use operators::dedup::spilled::Sizes;
use store::{Key, Prefix};
use tokio::sync::watch;

use crate::start::set_away;
use crate::support::{Bench, Process};

/// Twenty keys in memory at the most, a checkpoint whenever one is possible.
fn crowded() -> Bench {
    let mut bench = Bench::new();
    bench.sizes = Sizes { open_keys_max: 20, part_pairs: 32, block_pairs: 4, runs_max: 4 };
    bench.settings.checkpoint_bytes_min = 1;
    bench
}

async fn files(bench: &Bench) -> Vec<Key> {
    let prefix = Prefix::new("p/lane-0/runs").expect("a folder");
    let entries = bench.store.list(&prefix, None, 1_000).await.expect("the store lists");
    entries.into_iter().map(|entry| entry.key).collect()
}

/// Reads what is there, and more from `ids` on until a checkpoint names files: it is written beside the lane, and a drain does not
/// wait for it. How many records there are then; nothing moves in the store any more.
async fn drain_until_files(bench: &Bench, mut ids: u64) -> u64 {
    for _ in 0..100 {
        bench.drain_and_exit().await.expect("a drain");
        if !bench.lane().await.files.is_empty() {
            return ids;
        }
        bench.push(ids..ids + 100);
        ids += 100;
    }
    panic!("no checkpoint names a file")
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_shards_are_known_across_restarts_with_any_number_of_them() {
    for in_files in [false, true] {
        let mut bench = if in_files { crowded() } else { Bench::new() };
        let (mut ids, mut duplicates) = (0, 0);
        for shards in [3, 1, 16, 2] {
            bench.shards = shards;
            // All that came before comes again, twice, and something new.
            duplicates += 2 * ids;
            bench.push(0..ids);
            bench.push(0..ids + 400);
            ids += 400;
            bench.drain_and_exit().await.expect("a drain");
            bench.assert_holds(0..ids);
            assert_eq!(bench.lane().await.counts.duplicates, duplicates);
        }
    }
}

/// A step that loses one of its jobs.
struct Loses(Box<dyn Operator>);

impl Operator for Loses {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        self.0.probe(batch)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.0.finish(probed, answers)
    }

    fn divide(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Divided, OperatorError> {
        let mut divided = self.0.divide(probed, answers)?;
        if let Divided::Jobs(jobs) = &mut divided {
            jobs[1] = Box::new(|| panic!("as it should"));
        }
        Ok(divided)
    }

    fn join(&mut self, done: Vec<JobDone>) -> Result<Output, OperatorError> {
        self.0.join(done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        self.0.state()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_panics_ends_the_run_and_nothing_of_its_batch_is_sealed() {
    let mut bench = Bench::new();
    bench.shards = 3;
    bench.push(0..500);
    let mut pipeline = bench.pipeline(true);
    pipeline.steps =
        pipeline.steps.into_iter().map(|step| Box::new(Loses(step)) as Box<dyn Operator>).collect();
    let (_stop, asked) = watch::channel(false);
    let error = engine::run(pipeline, asked).await.expect_err("a shard is lost");
    assert!(matches!(error, EngineError::Internal("a job of a step")), "{error}");
    assert_eq!(bench.lane().await.counts.read, 0);
    bench.drain().await.expect("drains");
    bench.assert_holds(0..500);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_files_are_known_across_restarts_and_files_are_shared_by_checkpoints() {
    let bench = crowded();
    let (mut ids, mut duplicates) = (0, 0);
    for _ in 0..4 {
        // All that came before comes again, and something new.
        duplicates += ids;
        bench.push(0..ids + 300);
        ids = drain_until_files(&bench, ids + 300).await;
        bench.assert_holds(0..ids);
        let lane = bench.lane().await;
        assert_eq!(lane.counts.duplicates, duplicates);
        let (listed, named) = (files(&bench).await, lane.files.len());
        assert!(named > 0, "the checkpoint names files");
        let is_there = |object: &str| listed.iter().any(|key| key.as_str() == object);
        assert!(lane.files.iter().all(|file| is_there(&file.object)), "nothing that is needed was collected");
        // Beside them: what was written after that checkpoint, and what it was made of.
        assert!(listed.len() < 4 * named + 100, "{} files, {named} are needed", listed.len());
        let status = bench.status.snapshot();
        assert!(status.state_keys_spilled > 0 && status.state_file_bytes > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_cut_or_damaged_file_stops_the_start_and_is_named() {
    let bench = crowded();
    bench.push(0..600);
    let ids = drain_until_files(&bench, 600).await;
    let lane = bench.lane().await;
    let file = &lane.files[0];
    let key = Key::new(file.object.as_str()).expect("a key");
    let good = bench.store.get(&key, 1 << 20).await.expect("a read").expect("the file is there");
    let mut flipped = good.to_vec();
    // In the footer, which a start reads.
    let at = flipped.len() - 20;
    flipped[at] ^= 1;
    for bad in [None, Some(good.slice(..good.len() - 1)), Some(Bytes::from(flipped))] {
        bench.store.delete(&key).await.expect("a delete");
        if let Some(bad) = bad {
            bench.store.put_if_absent(&key, vec![bad]).await.expect("a put");
        }
        let error = bench.drain_and_exit().await.expect_err("nothing is guessed");
        assert!(matches!(error, EngineError::Damaged { .. } | EngineError::State { .. }), "{error}");
        let name = key.name();
        assert!(error.to_string().contains(name), "`{error}` does not name `{name}`");
    }
    bench.store.delete(&key).await.expect("a delete");
    bench.store.put_if_absent(&key, vec![good]).await.expect("a put");
    bench.push(0..ids + 50);
    bench.drain().await.expect("a drain");
    bench.assert_holds(0..ids + 50);
}

/// As the refusal says.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_state_is_damaged_begins_empty_when_it_is_told_to() {
    let bench = crowded();
    bench.push(0..600);
    let ids = drain_until_files(&bench, 600).await;
    for file in &bench.lane().await.files {
        let key = Key::new(file.object.as_str()).expect("a key");
        bench.store.delete(&key).await.expect("a delete");
    }
    let error = bench.drain_and_exit().await.expect_err("nothing is guessed").to_string();
    assert!(error.contains("`forebay run FILE --new-state STEP --yes`"), "{error}");
    bench.push(0..10);
    let new_state = NewState { steps: vec!["dedup".into()], unchanged: Unchanged::Empty };
    let told = Pipeline { new_state, ..bench.pipeline(true) };
    Process::start(told).ends().await.expect("what is damaged is not read");
    // Later starts need not be told: what was seen since is known, and what was seen before is not.
    bench.push(0..20);
    bench.drain_and_exit().await.expect("a drain");
    let expected: BTreeMap<u64, u64> = (0..ids).map(|id| (id, 1 + u64::from(id < 20))).collect();
    assert_eq!(bench.table.world.lock().expect("no panic").ids(), expected);
}

/// Reads `ids` while the table takes nothing, until all of them are sealed.
async fn sealed_and_waiting(bench: &Bench, ids: std::ops::Range<u64>) -> Process {
    set_away(bench, true);
    bench.push(ids.clone());
    let runs = Process::start(bench.pipeline(false));
    while bench.lane().await.counts.passed < ids.end {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    runs
}

/// Sealed inserts need no state, and while they wait no step may begin empty.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_delivered_though_a_state_is_damaged_and_the_step_begins_empty_behind_it() {
    let bench = crowded();
    bench.push(0..600);
    let ids = drain_until_files(&bench, 600).await;
    sealed_and_waiting(&bench, ids..ids + 50).await.kill().await;
    set_away(&bench, false);
    for file in &bench.lane().await.files {
        let key = Key::new(file.object.as_str()).expect("a key");
        bench.store.delete(&key).await.expect("a delete");
    }
    let told = || {
        let new_state = NewState { steps: vec!["dedup".into()], unchanged: Unchanged::Empty };
        Pipeline { new_state, ..bench.pipeline(true) }
    };
    let error = Process::start(told()).ends().await.expect_err("inserts wait").to_string();
    assert!(error.contains("let the inserts arrive (`forebay run FILE --drain`)"), "{error}");
    // The dead letter of a refused row cannot be sealed without the state.
    bench.table.world.lock().expect("no panic").poison = vec![ids + 7];
    let error = bench.drain_and_exit().await.expect_err("nothing is guessed");
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
    bench.table.world.lock().expect("no panic").poison.clear();
    let error = bench.drain_and_exit().await.expect_err("nothing is guessed");
    let words = error.to_string();
    assert!(matches!(error, EngineError::Delivered { .. }) && words.contains("nothing waits"), "{words}");
    assert!(words.contains("`forebay run FILE --new-state STEP --yes`"), "{words}");
    bench.assert_holds(0..ids + 50);
    bench.push(ids + 50..ids + 60);
    Process::start(told()).ends().await.expect("nothing waits, and what is damaged is not read");
    bench.assert_holds(0..ids + 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_delivered_though_a_file_of_the_state_is_gone_when_a_record_asks_for_it() {
    let bench = crowded();
    bench.push(0..600);
    let ids = drain_until_files(&bench, 600).await;
    let runs = sealed_and_waiting(&bench, ids..ids + 50).await;
    // A merge may put another file meanwhile, which has what the others had.
    let is_damaged = || bench.status.snapshot().phase == Phase::Draining;
    for _ in 0..1_000 {
        if is_damaged() {
            break;
        }
        for key in files(&bench).await {
            bench.store.delete(&key).await.expect("a delete");
        }
        bench.push(0..ids);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_damaged(), "a record has asked for a file that is gone");
    set_away(&bench, false);
    let error = runs.ends().await.expect_err("nothing is guessed");
    assert!(matches!(error, EngineError::Delivered { .. }), "{error}");
    bench.assert_holds(0..ids + 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_stops_the_lane_when_it_is_read() {
    let bench = crowded();
    bench.push(0..600);
    let ids = drain_until_files(&bench, 600).await;
    for file in &bench.lane().await.files {
        let key = Key::new(file.object.as_str()).expect("a key");
        let mut bytes = bench.store.get(&key, 1 << 20).await.expect("a read").expect("there").to_vec();
        // The first byte of the first block, which a start does not read.
        bytes[8] ^= 1;
        bench.store.delete(&key).await.expect("a delete");
        bench.store.put_if_absent(&key, vec![bytes.into()]).await.expect("a put");
    }
    bench.push(0..ids);
    let error = bench.drain().await.expect_err("nothing is guessed").to_string();
    assert!(error.contains("block `0`") && error.contains("runs/"), "{error}");
    bench.assert_holds(0..ids);
}

/// The watermark is held by the partition that lags, so each partition must show its times whatever becomes of its records.
#[tokio::test(flavor = "multi_thread")]
async fn the_watermark_moves_over_rejects_and_duplicates() {
    let bench = Bench::new();
    for n in [0, 2, 4] {
        bench.push_text(n, &n.to_string());
        bench.push_text(n + 1, "no number");
    }
    bench.drain_and_exit().await.expect("a drain");
    assert_eq!(bench.lane().await.watermark_ms, 1_004, "of rejects only in one partition");
    // Duplicates in one, and rejects in the other.
    for time_ms in [2_000, 3_000] {
        bench.feed.push(&dataflow::Partition::new("e", 0), time_ms, "0");
        bench.feed.push(&dataflow::Partition::new("e", 1), time_ms + 1, "no number");
    }
    bench.drain_and_exit().await.expect("a drain");
    let lane = bench.lane().await;
    assert_eq!((lane.watermark_ms, lane.counts.duplicates, lane.counts.dead_letters), (3_000, 2, 5));
}
