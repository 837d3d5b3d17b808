//! Many shards decide what one would, whichever batches are divided into jobs.

use dataflow::{Divided, JobDone};

use super::files::divided;
use super::*;

/// Records of some 3,000 keys, a tenth without a time, over several windows; enough that a batch fills all shards.
fn batches() -> Vec<Batch> {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut row = |n: u64| {
        let time = if draw(10) == 0 { TIME_UNKNOWN_MS } else { (n * 400 + draw(600)) as i64 };
        (Some(draw(3_000) as i64), time)
    };
    (0..20).map(|n| batch(0, &(0..1_500).map(|_| row(n)).collect::<Vec<_>>())).collect()
}

/// What the step says of a batch, all of it.
fn said(out: &Output) -> (Vec<u64>, u64, u64, Vec<u64>) {
    let rejects = out.rejects.iter().map(|reject| dataflow::position::low(reject.position)).collect();
    (out.batch.positions.clone(), out.duplicates, out.late, rejects)
}

#[test]
fn many_shards_decide_what_one_does() {
    for late in [Late::Keep, Late::Drop, Late::DeadLetter] {
        for (count, job_rows_min) in [(2, 1), (5, 300), (5, 10_000), (16, 100), (16, 1)] {
            let mut one = windowed(late);
            let mut many = windowed(late).with_shards(count).with_job_rows_min(job_rows_min);
            for (n, batch) in batches().into_iter().enumerate() {
                let expected = run(&mut one, batch.clone());
                let probed = many.probe(batch).unwrap();
                assert_eq!(
                    said(&divided(&mut many, probed, &[]).dense().unwrap()),
                    said(&expected),
                    "{count} shards"
                );
                let watermark = 400 * n as i64;
                assert_eq!(many.seal(watermark).len() > 100, one.seal(watermark).len() > 100);
                assert_eq!(many.entries(), one.entries());
            }
        }
    }
}

#[test]
fn the_copies_of_a_row_are_known_in_their_order_however_many_shards_there_are() {
    let rows: Vec<_> = (0..3_000).map(|n| (Some(n % 500), n % 7)).collect();
    let copies = |count| {
        let mut step = windowed(Late::Keep).with_shards(count).with_job_rows_min(1);
        let probed = step.probe(batch(0, &rows)).unwrap();
        divided(&mut step, probed, &[]);
        (0..500).map(|id| step.duplicates_of(&at(id, 0)).unwrap()).collect::<Vec<_>>()
    };
    let expected = copies(1);
    assert!(expected.iter().all(|copies| copies.count == 5));
    assert_eq!(copies(5), expected);
    assert_eq!(copies(16), expected);
}

#[test]
fn state_of_any_number_of_shards_is_read_by_any_other() {
    for (before, after) in [(1, 5), (5, 1), (2, 16), (16, 2)] {
        let step = |shards| windowed(Late::Drop).with_shards(shards);
        let (mut first, mut deltas, mut snapshot) = (step(before), vec![], Bytes::new());
        for (n, batch) in batches().into_iter().take(6).enumerate() {
            run(&mut first, batch);
            deltas.push(first.seal(400 * n as i64));
            if n == 3 {
                snapshot = first.snapshot();
                deltas.clear();
            }
        }
        let mut second = step(after);
        assert!(second.restore(&snapshot).unwrap().is_empty());
        deltas.iter().for_each(|delta| second.apply(delta).unwrap());
        assert_eq!(second.entries(), first.entries());
        for batch in batches() {
            assert_eq!(said(&run(&mut second, batch.clone())), said(&run(&mut first, batch)));
        }
    }
}

#[test]
fn a_batch_is_divided_only_if_each_job_is_worth_its_way() {
    let jobs = |shards, rows: i64| {
        let mut step = unbounded().with_shards(shards);
        let probed = step.probe(ids(&(0..rows).collect::<Vec<_>>())).unwrap();
        match step.divide(probed, &[]).unwrap() {
            Divided::Done(_) => 0,
            Divided::Jobs(jobs) => jobs.len(),
        }
    };
    assert_eq!([jobs(1, 8_192), jobs(4, 2_047), jobs(4, 2_048), jobs(16, 8_192)], [0, 0, 2, 8]);
    assert_eq!(jobs(4, 8_192), 4);
}

#[test]
fn shards_that_come_back_in_another_order_are_refused() {
    let mut step = unbounded().with_shards(3).with_job_rows_min(1);
    let probed = step.probe(ids(&[1, 2, 3, 4, 5, 6])).unwrap();
    let Divided::Jobs(jobs) = step.divide(probed, &[]).unwrap() else { panic!("there are enough rows") };
    let done: Vec<JobDone> = jobs.into_iter().rev().map(|job| job()).collect();
    assert!(step.join(done).is_err());
}

#[test]
fn a_shard_that_is_lost_stops_the_step() {
    let mut step = unbounded().with_shards(3).with_job_rows_min(1);
    let probed = step.probe(ids(&[1, 2, 3, 4, 5, 6])).unwrap();
    let Divided::Jobs(jobs) = step.divide(probed, &[]).unwrap() else { panic!("there are enough rows") };
    let done: Vec<JobDone> = jobs.into_iter().skip(1).map(|job| job()).collect();
    let error = step.join(done).unwrap_err().to_string();
    assert!(error.contains("not all of them"), "{error}");
    let probed = step.probe(ids(&[1])).unwrap();
    let error = step.finish(probed, &[]).unwrap_err().to_string();
    assert!(error.contains("was lost there"), "{error}");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step.seal(0))).is_err());
}
