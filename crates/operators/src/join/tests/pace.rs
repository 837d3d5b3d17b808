//! What a row costs: `cargo test --release -p operators --lib join::tests::pace -- --ignored --nocapture`.

use super::*;

/// CPU time of this thread in nanoseconds, as Linux counts it.
pub fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Rows of each side between two seals, and how long each is held, in rows of its side.
fn pace(rows: i64, held: i64) {
    const BATCH: i64 = 2_500;
    let mut config = config(JoinKind::Left);
    config.lateness = Duration::from_millis(held as u64);
    let mut step = Join::new(&left(), &right(), &config).unwrap().with_memory(8 << 30);
    let text = "a text of about sixty bytes, as the records of a shop have it";
    let of = |side, first: i64| {
        let row = |n: i64| (Some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)), n, text, n);
        batch(side, &(first..first + BATCH).map(row).collect::<Vec<Row>>())
    };
    let (mut ahead, mut lane, mut seals) = (0, 0, 0);
    let mut made = 0;
    for first in (0..rows).step_by(BATCH as usize) {
        for side in JoinSide::BOTH {
            let batch = of(side, first);
            let start = cpu_ns();
            let scratch = step.ahead_of(side as usize).unwrap().apply(&batch).unwrap();
            let between = cpu_ns();
            let probed = dataflow::Probed { batch, reads: Vec::new(), scratch: Some(scratch) };
            made += step.finish(probed, &[]).unwrap().added;
            (ahead, lane) = (ahead + between - start, lane + cpu_ns() - between);
        }
        if first / BATCH % 8 == 7 {
            let start = cpu_ns();
            drop((step.advance(first).unwrap(), step.seal(first)));
            seals += cpu_ns() - start;
        }
    }
    assert_eq!(made, rows as u64);
    let of_row = |ns: u64| ns / (2 * rows as u64);
    println!(
        "{} held, {} bytes each: ns a row: ahead {}, lane {}, seals {}",
        step.held(),
        step.memory_bytes() / step.held().max(1),
        of_row(ahead),
        of_row(lane),
        of_row(seals)
    );
}

#[test]
#[ignore = "a measurement, which says something in a release build alone"]
fn pace_of_rows_with_one_match_each() {
    pace(400_000, 20_000);
    pace(2_000_000, 1_000_000);
}
