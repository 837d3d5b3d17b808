use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, Column, ColumnType, Operator, OperatorError, Output, Partition, Reason, Schema, SeenKeys, State,
    StateError,
};

use super::spilled::Sizes;
use super::window::{SLACK, SPAN};
use super::{Dedup, DedupConfig, Late};

mod files;
mod model;
mod shards;

/// Milliseconds in a bucket of [`windowed`].
const WIDTH: i64 = 10;

fn schema() -> Schema {
    Schema::new(vec![
        Column::new("id", ColumnType::Nullable(Box::new(ColumnType::Int64))),
        Column::new("note", ColumnType::Int64),
    ])
}

fn dedup(window: Option<Duration>, late: Late) -> Dedup {
    Dedup::new(&schema(), DedupConfig { key: vec!["id".to_owned()], window, late }).unwrap()
}

fn unbounded() -> Dedup {
    dedup(None, Late::Keep)
}

fn windowed(late: Late) -> Dedup {
    dedup(Some(Duration::from_millis(WIDTH as u64 * SPAN)), late)
}

/// Rows of (id, time); the note is the row's number.
fn batch(partition: u32, rows: &[(Option<i64>, i64)]) -> Batch {
    let ids: ArrayRef = Arc::new(rows.iter().map(|(id, _)| *id).collect::<Int64Array>());
    let notes: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", partition),
        rows: RecordBatch::try_new(schema().arrow().clone(), vec![ids, notes]).unwrap(),
        positions: (100..100 + rows.len() as u64).collect(),
        times_ms: rows.iter().map(|(_, time)| *time).collect(),
    }
}

fn ids(ids: &[i64]) -> Batch {
    batch(0, &ids.iter().map(|id| (Some(*id), 0)).collect::<Vec<_>>())
}

fn at(id: i64, time_ms: i64) -> Batch {
    batch(0, &[(Some(id), time_ms)])
}

fn run(step: &mut Dedup, batch: Batch) -> Output {
    let rows = batch.len();
    let probed = step.probe(batch).unwrap();
    assert!(probed.reads.is_empty());
    let out = step.finish(probed, &[]).unwrap().dense().unwrap();
    let sum = out.batch.len() as u64 + out.filtered + out.duplicates + out.late + out.rejects.len() as u64;
    assert_eq!(sum, rows as u64, "every row is counted once");
    out
}

/// Forgets rows of which no file holds any.
fn forget(step: &mut Dedup, batch: Batch) -> Result<(), OperatorError> {
    let probed = step.probe(batch)?;
    assert!(probed.reads.is_empty());
    step.forget(probed, &[])
}

/// True if the one record of `batch` was kept.
fn kept(step: &mut Dedup, batch: Batch) -> bool {
    run(step, batch).batch.len() == 1
}

fn notes(out: &Output) -> Vec<i64> {
    out.batch.rows.column(1).as_primitive::<Int64Type>().values().to_vec()
}

/// A new step that took over from `snapshot` and `deltas`.
fn recovered(late: Late, snapshot: Option<&[u8]>, deltas: &[Bytes]) -> Dedup {
    let mut step = windowed(late);
    if let Some(snapshot) = snapshot {
        step.restore(snapshot).unwrap();
    }
    deltas.iter().for_each(|delta| step.apply(delta).unwrap());
    step
}

#[test]
fn four_events_with_one_repeated_become_three_and_the_first_wins() {
    let out = run(&mut unbounded(), ids(&[7, 8, 7, 9]));
    assert_eq!(notes(&out), [0, 1, 3]);
    assert_eq!(out.batch.positions, [100, 101, 103]);
    assert_eq!(out.duplicates, 1);
}

#[test]
fn duplicates_within_and_across_batches_are_dropped() {
    let mut step = unbounded();
    assert_eq!(run(&mut step, ids(&[1, 2, 1, 3, 2])).batch.len(), 3);
    let second = run(&mut step, ids(&[3, 4, 5]));
    assert_eq!((second.batch.len(), notes(&second)), (2, vec![1, 2]));
}

#[test]
fn duplicates_across_three_partitions_are_dropped() {
    let mut step = unbounded();
    let rows = [(Some(1), 0), (Some(2), 0), (Some(3), 0)];
    let kept: usize = (0..3).map(|p| run(&mut step, batch(p, &rows)).batch.len()).sum();
    assert_eq!(kept, 3);
    assert_eq!(step.entries(), 3);
}

#[test]
fn two_duplicates_in_one_batch_do_not_both_pass() {
    assert_eq!(notes(&run(&mut unbounded(), ids(&[5, 5, 5]))), [0]);
}

#[test]
fn ids_above_2_to_the_53_stay_apart() {
    let ids_ = [(1 << 53), (1 << 53) + 1, i64::MAX - 1, i64::MAX];
    assert_eq!(run(&mut unbounded(), ids(&ids_)).batch.len(), 4);
}

#[test]
fn a_record_that_never_reaches_finish_suppresses_nothing() {
    let mut step = unbounded();
    // Probed, and then lost to another step's failure: only what is finished counts as seen.
    let probed = step.probe(ids(&[1])).unwrap();
    drop(probed);
    assert!(kept(&mut step, at(1, 0)));
}

#[test]
fn a_null_equals_a_null_and_nothing_else() {
    let out = run(&mut unbounded(), batch(0, &[(None, 0), (Some(0), 0), (None, 0)]));
    assert_eq!(notes(&out), [0, 1]);
}

#[test]
fn a_batch_of_new_keys_passes_without_a_copy() {
    let batch = ids(&[1, 2, 3]);
    let before = batch.rows.column(0).to_data().buffers()[0].as_ptr();
    let out = run(&mut unbounded(), batch);
    assert_eq!(out.batch.rows.column(0).to_data().buffers()[0].as_ptr(), before);
}

#[test]
fn a_batch_of_known_keys_becomes_empty() {
    let mut step = unbounded();
    run(&mut step, ids(&[1, 2]));
    let out = run(&mut step, ids(&[2, 1]));
    assert_eq!((out.batch.len(), out.duplicates), (0, 2));
    assert_eq!(run(&mut step, ids(&[])).batch.len(), 0);
}

#[test]
fn the_window_is_counted_in_buckets_in_both_directions() {
    let span = SPAN as i64 * WIDTH;
    for (other, is_kept) in [
        (1000 + span + WIDTH - 1, false),
        (1000 + span + WIDTH, true),
        (1000 - span, false),
        (1000 - span - 1, true),
    ] {
        let mut step = windowed(Late::Keep);
        assert!(kept(&mut step, at(1, 1000)));
        assert_eq!(kept(&mut step, at(1, other)), is_kept, "{other}");
    }
}

#[test]
fn a_duplicate_does_not_extend_the_window() {
    let mut step = windowed(Late::Keep);
    let span = SPAN as i64 * WIDTH;
    assert!(kept(&mut step, at(1, 0)));
    assert!(!kept(&mut step, at(1, span)));
    assert!(kept(&mut step, at(1, span + WIDTH)), "near the dropped one, not near the kept one");
}

#[test]
fn a_key_may_be_kept_at_many_times() {
    let mut step = windowed(Late::Keep);
    let far = (SPAN as i64 + 1) * WIDTH;
    let times: Vec<i64> = (-500..500).map(|n| n * far).collect();
    for time in &times {
        assert!(kept(&mut step, at(1, *time)));
    }
    for time in &times {
        assert!(!kept(&mut step, at(1, time + SPAN as i64 * WIDTH)), "{time}");
    }
    assert_eq!(step.entries(), 1000);
}

#[test]
fn a_batch_probed_before_the_last_one_is_finished_is_decided_after_it() {
    let mut step = unbounded();
    let first = step.probe(ids(&[1, 2])).unwrap();
    let second = step.probe(ids(&[2, 3])).unwrap();
    assert!(step.finish(first, &[]).unwrap().dropped.is_empty());
    let out = step.finish(second, &[]).unwrap();
    assert_eq!(out.dropped, [0], "nothing is moved");
    assert_eq!(notes(&out.dense().unwrap()), [1]);
}

#[test]
fn a_batch_probed_before_a_seal_sees_what_the_seal_freed() {
    let mut step = windowed(Late::Keep);
    assert!(kept(&mut step, at(1, 0)));
    let probed = step.probe(at(1, 0)).unwrap();
    step.seal(100_000);
    assert!(step.finish(probed, &[]).unwrap().dropped.is_empty(), "late, and kept by the policy");
}

#[test]
fn finish_refuses_what_probe_has_not_seen() {
    let mut step = unbounded();
    let mut probed = step.probe(ids(&[1])).unwrap();
    probed.scratch = None;
    let error = step.finish(probed, &[]).unwrap_err().to_string();
    assert_eq!(error, "step `dedup`: a batch came to `finish` that `probe` of this step has not seen");
}

#[test]
fn expiry_frees_memory() {
    let mut step = windowed(Late::Keep);
    let rows: Vec<_> = (0..100_000).map(|id| (Some(id), 0)).collect();
    run(&mut step, batch(0, &rows));
    step.seal(0);
    let full = step.shards.memory_bytes();
    assert_eq!(step.entries(), 100_000);
    let end = WIDTH * (SPAN + SLACK) as i64;
    step.seal(end);
    assert_eq!(step.entries(), 100_000, "a record in time may still need them");
    // One seal clears 65,536 hashes away, and inspects an eighth of the index.
    (0..10).for_each(|_| drop(step.seal(end + WIDTH)));
    assert_eq!(step.entries(), 0);
    let left = step.shards.memory_bytes();
    assert!(left < full / 4, "{left} of {full}");
}

#[test]
fn late_records_follow_the_policy() {
    let watermark = 10_000;
    let late = watermark - (SLACK as i64 * WIDTH) - 1;
    for (policy, is_kept, dropped, rejected) in
        [(Late::Keep, 1, 0, 0), (Late::Drop, 0, 1, 0), (Late::DeadLetter, 0, 0, 1)]
    {
        let mut step = windowed(policy);
        step.seal(watermark);
        assert!(kept(&mut step, at(1, late + 1)), "in time");
        let out = run(&mut step, at(2, late));
        assert_eq!(
            (out.batch.len(), out.late, out.rejects.len()),
            (is_kept, dropped, rejected),
            "{policy:?}"
        );
        for reject in &out.rejects {
            assert_eq!((reject.reason, reject.position, reject.time_ms), (Reason::Late, 100, late));
        }
        assert_eq!(
            run(&mut step, at(1, late)).duplicates,
            1,
            "what is known to be a duplicate is none the less one"
        );
    }
}

#[test]
fn lateness_depends_on_the_sealed_watermark_alone() {
    let mut step = windowed(Late::Drop);
    assert!(kept(&mut step, at(1, 1_000_000)));
    assert!(kept(&mut step, at(2, 0)), "no watermark is sealed, so nothing is late");
    step.seal(TIME_UNKNOWN_MS);
    assert!(kept(&mut step, at(3, 0)));
    step.seal(1_000_000);
    step.seal(0);
    assert_eq!(run(&mut step, at(4, 0)).late, 1, "a watermark does not go back");
}

#[test]
fn records_without_a_time_are_at_the_watermark() {
    let mut step = windowed(Late::Drop);
    assert!(kept(&mut step, at(1, TIME_UNKNOWN_MS)), "before any watermark");
    assert!(!kept(&mut step, at(1, TIME_UNKNOWN_MS)));
    step.seal(5000);
    assert!(!kept(&mut step, at(1, TIME_UNKNOWN_MS)), "it moved to the first watermark");
    assert!(!kept(&mut step, at(1, 5000)));
    step.seal(5000 + SPAN as i64 * WIDTH);
    assert!(!kept(&mut step, at(1, TIME_UNKNOWN_MS)));
    step.seal(5000 + (SPAN as i64 + 1) * WIDTH);
    assert!(kept(&mut step, at(1, TIME_UNKNOWN_MS)), "the window is over");
}

#[test]
fn a_record_of_known_time_moves_together_with_its_twin_of_unknown_time() {
    let mut step = windowed(Late::Keep);
    assert!(kept(&mut step, at(1, TIME_UNKNOWN_MS)));
    assert!(kept(&mut step, at(1, 5000)));
    assert_eq!(step.entries(), 2);
    let delta = step.seal(5000);
    assert_eq!(step.entries(), 1, "both are the same pair now");
    assert_eq!(recovered(Late::Keep, None, &[delta]).snapshot(), step.snapshot());
}

#[test]
fn a_forgotten_record_is_welcome_again() {
    let mut step = windowed(Late::Keep);
    run(&mut step, batch(0, &[(Some(1), 0), (Some(2), 0)]));
    let first = step.seal(0);
    forget(&mut step, at(1, 0)).unwrap();
    let second = step.seal(0);
    assert!(!second.is_empty());
    let mut twin = recovered(Late::Keep, None, &[first, second]);
    for step in [&mut step, &mut twin] {
        assert!(kept(step, at(1, 0)));
        assert!(!kept(step, at(2, 0)));
    }
}

#[test]
fn a_key_forgotten_and_kept_again_in_one_seal_is_kept() {
    let mut step = windowed(Late::Keep);
    let mut deltas = vec![];
    for _ in 0..2 {
        run(&mut step, at(1, 0));
        forget(&mut step, at(1, 0)).unwrap();
        run(&mut step, at(1, 0));
        run(&mut step, at(2, 0));
        forget(&mut step, at(2, 0)).unwrap();
        deltas.push(step.seal(0));
        assert_eq!(recovered(Late::Keep, None, &deltas).snapshot(), step.snapshot());
        assert_eq!(step.entries(), 1);
        forget(&mut step, at(1, 0)).unwrap();
    }
}

#[test]
fn a_row_without_a_time_is_forgotten_where_it_was_put() {
    let mut step = windowed(Late::Keep);
    step.seal(5000);
    assert!(kept(&mut step, at(1, TIME_UNKNOWN_MS)));
    step.seal(5000 + 2 * WIDTH);
    forget(&mut step, at(1, TIME_UNKNOWN_MS)).unwrap();
    assert_eq!(step.entries(), 0);
}

#[test]
fn a_row_that_comes_back_without_its_time_is_forgotten_ahead_of_the_watermark_too() {
    for watermark in [TIME_UNKNOWN_MS, 0] {
        let mut step = windowed(Late::Keep);
        step.seal(watermark);
        assert!(kept(&mut step, at(1, 7 * WIDTH)));
        forget(&mut step, at(1, TIME_UNKNOWN_MS)).unwrap();
        assert!(kept(&mut step, at(1, 7 * WIDTH)));
    }
}

#[test]
fn forgetting_rows_without_the_key_says_so() {
    let mut rows = ids(&[1]);
    rows.rows = rows.rows.project(&[1]).unwrap();
    let error = forget(&mut unbounded(), rows).unwrap_err().to_string();
    assert_eq!(error, "step `dedup`: the batch has no key column `id`");
}

#[test]
fn a_seal_without_a_change_is_empty() {
    let mut step = windowed(Late::Keep);
    assert!(step.seal(TIME_UNKNOWN_MS).is_empty());
    run(&mut step, ids(&[1]));
    assert!(!step.seal(0).is_empty());
    assert!(step.seal(WIDTH - 1).is_empty(), "the watermark is in the same bucket");
    assert!(!step.seal(WIDTH).is_empty());
    step.apply(&[]).unwrap();
}

#[test]
fn a_delta_has_sixteen_bytes_a_key() {
    let mut step = windowed(Late::Keep);
    run(&mut step, batch(0, &(0..10_000).map(|id| (Some(id), id / 1000)).collect::<Vec<_>>()));
    let delta = step.seal(0);
    assert!(delta.len() < 10_000 * 16 + 200, "{}", delta.len());
}

#[test]
#[should_panic(expected = "a snapshot is taken right after a seal")]
fn a_snapshot_holds_nothing_that_is_not_sealed() {
    let mut step = unbounded();
    run(&mut step, ids(&[1]));
    step.snapshot();
}

#[test]
fn state_survives_a_restart() {
    let mut step = windowed(Late::Drop);
    run(&mut step, batch(0, &[(Some(1), 0), (None, 50)]));
    step.seal(20);
    let snapshot = step.snapshot();
    run(&mut step, batch(0, &[(Some(2), 300)]));
    let delta = step.seal(150);
    let mut twin = recovered(Late::Drop, Some(&snapshot), &[delta]);
    assert_eq!(twin.snapshot(), step.snapshot());
    assert_eq!(twin.entries(), 3);
    assert!(!kept(&mut twin, batch(0, &[(None, 200)])));
    assert!(!kept(&mut twin, at(2, 200)), "near");
    assert_eq!(run(&mut twin, at(5, 0)).late, 1, "the watermark was restored");
}

#[test]
fn damaged_state_changes_nothing() {
    let mut step = windowed(Late::Keep);
    run(&mut step, at(1, 0));
    let delta = step.seal(0);
    let before = step.snapshot();
    let mut bad = delta.to_vec();
    *bad.last_mut().unwrap() ^= 1;
    assert!(matches!(step.apply(&bad), Err(StateError::Damaged(_))));
    assert!(matches!(step.restore(&bad), Err(StateError::Damaged(_))));
    assert!(matches!(step.restore(&delta), Err(StateError::Damaged(_))), "a delta is no snapshot");
    assert_eq!(step.snapshot(), before);
}

#[test]
fn state_of_another_key_or_window_is_refused_with_a_way_out() {
    let snapshot = windowed(Late::Keep).snapshot();
    let error = unbounded().restore(&snapshot).unwrap_err().to_string();
    assert_eq!(
        error,
        "state was written with key `id int`, window `160ms in buckets of 10ms`, the pipeline now says key `id int`, window \
         `unbounded`; put the old setting back. Or give the pipeline a new name: it then has an empty history and reads its source from \
         the start again, so empty the table first or name another, or every row is there twice"
    );
    let key = vec!["note".to_owned()];
    let mut other = Dedup::new(&schema(), DedupConfig { key, window: None, late: Late::Keep }).unwrap();
    assert!(matches!(other.restore(&unbounded().snapshot()), Err(StateError::Configured { .. })));
    let mut later = windowed(Late::Drop);
    later.restore(&snapshot).expect("the policy for late records is not part of the state");
}

/// Sizes at which ten keys are spilled.
const SMALL: Sizes = Sizes { open_keys_max: 10, part_pairs: 16, block_pairs: 4, runs_max: 4 };

/// A step of which `keys` keys, one a bucket, were kept and spilled as far as they will be.
fn spilled(keys: i64) -> files::Bench {
    let mut bench = files::Bench::new(Late::Keep, SMALL);
    bench.run(batch(0, &(0..keys).map(|id| (Some(id), id % 16 * WIDTH)).collect::<Vec<_>>()));
    bench.settle(0);
    bench
}

#[test]
fn spilled_keys_are_known_and_forgotten_ones_welcome() {
    let mut bench = spilled(200);
    assert!(bench.step.spilled_entries() >= 190 && bench.step.entries() == 200);
    assert_eq!(bench.run(batch(0, &(0..200).map(|id| (Some(id), 0)).collect::<Vec<_>>())).duplicates, 200);
    bench.forget(batch(0, &[(Some(3), 3 * WIDTH), (Some(4), TIME_UNKNOWN_MS)]));
    bench.seal(0, false);
    assert_eq!(bench.step.entries(), 198);
    for restarted in [false, true] {
        if restarted {
            bench.restart();
        }
        let out = bench.run(batch(0, &[(Some(3), 0), (Some(4), 0), (Some(5), 0)]));
        assert_eq!(notes(&out), [0, 1], "{restarted}");
    }
}

#[test]
fn a_checkpoint_writes_what_is_in_memory_and_names_the_files() {
    let mut bench = spilled(5_000);
    bench.seal(0, true);
    let (snapshot, files) = (bench.step.snapshot(), bench.step.files());
    assert!(snapshot.len() < 5_000 * 16 / 2, "{}", snapshot.len());
    assert_eq!(files.len(), bench.files.len(), "what was merged away is collected");
    bench.restart();
    assert_eq!(bench.step.files(), files, "a restart writes nothing");
    assert_eq!(bench.step.snapshot(), snapshot);
    assert_eq!(bench.step.entries(), 5_000);
}

#[test]
fn spilling_many_times_leaves_few_runs() {
    let mut bench = files::Bench::new(Late::Keep, SMALL);
    for n in 0..300 {
        bench
            .run(batch(0, &(n * 20..n * 20 + 20).map(|id| (Some(id), id / 400 * WIDTH)).collect::<Vec<_>>()));
        bench.settle(0);
        assert!(bench.step.runs() <= 16, "{} runs after {n}", bench.step.runs());
    }
    assert_eq!(bench.step.entries(), 6_000);
}

#[test]
fn a_key_is_written_once_when_spilled_and_once_for_each_fourfold_growth() {
    // Spills of 60 keys or so. Above 24, 4 and 1 of them a bucket, over three windows; below, all of it in one bucket.
    for (a_bucket, buckets, times) in [(15, 48, 1), (60, 48, 2), (240, 48, 3), (60 * 64, 1, 4)] {
        let sizes = Sizes { open_keys_max: 59, part_pairs: 1 << 20, block_pairs: 256, runs_max: 16 };
        let mut bench = files::Bench::new(Late::Keep, sizes);
        let keys = a_bucket * buckets;
        for from in (0..keys).step_by(15) {
            let rows: Vec<_> = (from..from + 15).map(|id| (Some(id), id / a_bucket * WIDTH)).collect();
            bench.run(batch(0, &rows));
            bench.settle(from / a_bucket * WIDTH);
            assert!(bench.step.runs() <= 17, "{} runs of {a_bucket} keys a bucket", bench.step.runs());
        }
        let written = bench.pairs_written as f64 / keys as f64;
        assert!(
            written <= f64::from(times),
            "each key was written {written:.2} times of {times}: {a_bucket} a bucket"
        );
    }
}

#[test]
fn a_record_without_a_time_that_comes_to_stand_beside_one_in_a_file_counts_once() {
    let mut bench = files::Bench::new(Late::Keep, SMALL);
    bench.run(batch(0, &(0..200).map(|id| (Some(id), 0)).collect::<Vec<_>>()));
    bench.settle(TIME_UNKNOWN_MS);
    assert!(bench.step.spilled_entries() >= 190);
    // Before there is a watermark it is far from all others; then it is where they are.
    let untimed: Vec<_> = (0..200).map(|id| (Some(id), TIME_UNKNOWN_MS)).collect();
    assert_eq!(bench.run(batch(0, &untimed)).duplicates, 0);
    for restarted in [false, true] {
        bench.seal(0, true);
        if restarted {
            bench.restart();
        }
        assert_eq!(bench.contents().len(), 200);
        assert_eq!(bench.step.entries() + bench.left_out(), 200, "{restarted}");
        assert_eq!(bench.run(batch(0, &untimed)).duplicates, 200);
    }
    bench.settle(0);
    assert_eq!(bench.step.entries(), 200, "what was dead in files is gone");
}

#[test]
fn files_go_when_their_buckets_are_over() {
    let mut bench = spilled(200);
    let end = (16 + SPAN as i64 + SLACK as i64) * WIDTH;
    bench.seal(end - 1, true);
    assert!(!bench.files.is_empty());
    bench.seal(end, true);
    assert!(bench.files.is_empty() && bench.step.entries() == 0);
}

#[test]
fn a_damaged_cut_or_swapped_file_is_named_and_nothing_is_guessed() {
    let mut bench = spilled(200);
    let keys = || batch(0, &(0..200).map(|id| (Some(id), 0)).collect::<Vec<_>>());
    let probed = bench.step.probe(keys()).unwrap();
    let (object, mut answers) = (probed.reads[0].object.to_string(), bench.read(&probed.reads));
    answers[0][0] ^= 1;
    let error = bench.step.finish(probed, &answers).unwrap_err().to_string();
    assert!(error.contains(&object) && error.contains("nothing was guessed"), "{error}");
    let probed = bench.step.probe(keys()).unwrap();
    answers[0].pop();
    assert!(bench.step.finish(probed, &answers).is_err());
    let probed = bench.step.probe(keys()).unwrap();
    assert!(bench.step.finish(probed, &answers[1..]).unwrap_err().to_string().contains("were asked for"));
    bench.seal(0, false);
    let mut twin = windowed(Late::Keep);
    let reads = twin.restore(&bench.step.snapshot()).unwrap();
    let footers = bench.read(&reads);
    let error = twin.open(&footers[0][1..]).unwrap_err().to_string();
    assert!(error.contains(&*reads[0].object), "{error}");
}
