//! What a version takes, and what a left row costs: `cargo test --release -p operators --lib join::temporal::tests::pace -- --ignored --nocapture`.

use super::spills::Bench;
use super::*;
use crate::join::temporal::spilled::Sizes;
use crate::join::tests::cpu_ns;

const TEXT: &str = "a text of about sixty bytes, as the records of a shop have it";

/// The key of a number, so that neighbours are far apart.
fn key(n: i64) -> Option<i64> {
    Some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64))
}

/// So many versions, all of them in files or in memory, and left rows of random keys, so many a seal.
fn pace(versions: i64, rows: i64, is_in_files: bool) {
    const BATCH: i64 = 5_000;
    const SEALS: i64 = 20;
    let sizes = Sizes { open_bytes: if is_in_files { 1 } else { u64::MAX }, ..Sizes::new(256 << 20) };
    let mut bench = Bench::new(&config(true), sizes);
    let mut spilling = 0;
    for first in (0..versions).step_by(BATCH as usize) {
        let all: Vec<Row> = (first..first + BATCH).map(|n| (key(n), 5 * n + 1, TEXT, 0)).collect();
        bench.put(RIGHT, batch(RIGHT, &all));
        if first / BATCH % 20 == 19 {
            let start = cpu_ns();
            bench.cut(100);
            bench.work(1_000_000);
            spilling += cpu_ns() - start;
        }
    }
    bench.cut(100);
    bench.work(1_000_000);
    bench.cut(100);
    let (held, bytes) = (bench.step.held(), bench.step.memory_bytes());
    assert_eq!(bench.step.spilled_entries(), if is_in_files { held } else { 0 });
    let in_files: u64 = bench.step.files().iter().map(|file| file.len).sum();
    let (mut lane, mut random, mut found) = (0, 1_u64, 0);
    for seal in 1..=SEALS {
        let mut of = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (random >> 33) as i64 % versions;
            (key(n), n, TEXT, seal * 1_000)
        };
        let batches: Vec<Batch> =
            (0..rows / BATCH).map(|_| batch(LEFT, &(0..BATCH).map(&mut of).collect::<Vec<Row>>())).collect();
        let start = cpu_ns();
        batches.into_iter().for_each(|batch| drop(bench.put(LEFT, batch)));
        let outputs = bench.cut(seal * 1_000 + 100);
        lane += cpu_ns() - start;
        found += outputs.iter().map(|output| output.batch.len()).sum::<usize>();
    }
    assert_eq!(found as i64, rows * SEALS);
    println!(
        "{held} versions in {} runs: {} bytes of memory each, {} in files; {} ns each to spill and merge; {rows} left rows a seal of {SEALS}: {} ns a row, {} blocks read",
        bench.step.spilled.count().0,
        bytes / held,
        in_files / held,
        spilling / held,
        lane / (rows * SEALS) as u64,
        bench.for_seals,
    );
}

#[test]
#[ignore = "a measurement, which says something in a release build alone"]
fn pace_of_left_rows_by_where_their_versions_are() {
    for rows in [5_000, 50_000] {
        for is_in_files in [false, true] {
            pace(1_000_000, rows, is_in_files);
        }
    }
}
