//! Memory, and what happens where it ends.

use super::*;

/// Rows of one side with keys from `first` on, one millisecond apart.
fn many(side: JoinSide, first: i64, count: i64) -> Batch {
    let rows: Vec<Row> =
        (first..first + count).map(|n| (Some(n), n, "a text of about thirty bytes..", n)).collect();
    batch(side, &rows)
}

#[test]
fn a_key_that_too_many_rows_have_ends_the_run_and_is_named() {
    let mut step = join(JoinKind::Inner);
    let rows = vec![(Some(0), 1, "", 10); 4_096];
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
    let probed = step.probe_of(1, batch(JoinSide::Right, &vec![(Some(0), 1, "", 10); 1_025])).unwrap();
    let error = step.finish(probed, &[]).unwrap_err().to_string();
    assert!(error.contains("4194304 rows") && error.contains("`order_id` = `order`"), "{error}");
    assert!(error.contains("start once with `--new-state`"), "a changed step has another state: {error}");
}

#[test]
fn rows_that_are_made_of_few_take_no_more_than_the_memory() {
    let text: &str = "x".repeat(1_000).leak();
    let both = |memory: u64| {
        let mut step = join(JoinKind::Inner).with_memory(memory);
        let rows = vec![(Some(0), 1, text, 10); 100];
        put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
        let probed = step.probe_of(1, batch(JoinSide::Right, &vec![(Some(0), 1, text, 10); 1_000])).unwrap();
        step.finish(probed, &[]).map(|out| out.batch.len())
    };
    // A hundred thousand rows with at least a text of a thousand bytes each, of eleven hundred that are held.
    let error = both(32 << 20).unwrap_err().to_string();
    assert!(
        error.contains("more than `33554432` bytes")
            && error.contains("`order_id` = `order`")
            && error.contains("Raise `memory` of the step")
            && error.contains("`--new-state`"),
        "{error}"
    );
    assert_eq!(both(512 << 20).unwrap(), 100_000);
}

#[test]
fn memory_follows_the_rows_that_are_held() {
    let mut step = join(JoinKind::Inner);
    let mut most = 0;
    for round in 0..200 {
        put(&mut step, JoinSide::Left, many(JoinSide::Left, round * 1_000, 1_000));
        put(&mut step, JoinSide::Right, many(JoinSide::Right, round * 1_000, 1_000));
        cut(&mut step, round * 1_000);
        most = most.max(step.memory_bytes());
    }
    assert!(step.held() < 3_000, "{}", step.held());
    assert!(most < 8 << 20, "{most} bytes for three thousand rows");
}

/// One row in a hundred is held for long: it must not hold the memory of the others.
#[test]
fn stragglers_do_not_hold_the_memory_of_what_came_with_them() {
    let mut step = join(JoinKind::Left);
    let mut live = 0;
    for round in 0..100 {
        let rows: Vec<Row> = (0..1_000_i64)
            .map(|n| {
                (Some(n), n, "a text of about thirty bytes..", if n % 100 == 0 { 1 << 40 } else { round })
            })
            .collect();
        put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
        cut(&mut step, round + 1_000);
        live += 10;
    }
    assert_eq!(step.held(), live);
    assert!(step.memory_bytes() < 4 << 20, "{} bytes for {live} rows", step.memory_bytes());
    // They have new places, and are found there.
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(100), 7, "", 1 << 40)]));
    assert_eq!(out.batch.len(), 100);
    let (outputs, _) = cut(&mut step, i64::MAX);
    assert_eq!(outputs.iter().map(|out| out.unmatched).sum::<u64>(), live - 100);
}

/// The same where rows are so wide that few of them are much.
#[test]
fn wide_stragglers_do_not_hold_the_memory_of_what_came_with_them() {
    let mut step = join(JoinKind::Left);
    let text: &str = "x".repeat(4_000).leak();
    let mut most = 0;
    for round in 0..100_i64 {
        let time_ms = |n: i64| if n == 0 { 1 << 40 } else { round * 1_000 };
        let rows: Vec<Row> = (0..100).map(|n| (Some(n), n, text, time_ms(n))).collect();
        let out = put(&mut step, JoinSide::Left, batch(JoinSide::Left, &rows));
        assert_eq!(out.absorbed, 100);
        cut(&mut step, round * 1_000 + 500);
        most = most.max(step.memory_bytes());
    }
    assert_eq!(step.held(), 100);
    assert!(most < 4 << 20, "{most} bytes for a hundred rows of 4 KB");
    // They have new places, and are found there.
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(0), 7, "", 1 << 40)]));
    assert_eq!(out.batch.len(), 100);
}

/// Seals of a few records each do not leave a page each.
#[test]
fn small_seals_take_little_memory_a_row() {
    let mut step = join(JoinKind::Inner);
    for round in 0..5_000 {
        put(&mut step, JoinSide::Left, many(JoinSide::Left, round * 2, 2));
        cut(&mut step, 0);
    }
    let bytes = step.memory_bytes() / step.held();
    assert!(bytes < 250, "{bytes} bytes a row");
}

/// What the design document states.
#[test]
fn a_held_row_takes_at_most_80_bytes_beside_its_columns() {
    let mut step = join(JoinKind::Inner);
    // Two numbers, an id, a text with its offset, a bit and its validity.
    const VALUES: u64 = 8 + 8 + 16 + 30 + 4 + 1;
    for round in 0..40 {
        put(&mut step, JoinSide::Left, many(JoinSide::Left, round * 5_000, 5_000));
        cut(&mut step, 0);
    }
    let beside = step.memory_bytes() / step.held() - VALUES;
    println!("{beside} bytes beside the columns");
    assert!(beside <= 80, "{beside} bytes a row");
}

/// A batch whose texts are slices of a large block must not keep it.
#[test]
fn a_slice_of_a_large_block_is_copied() {
    let mut step = join(JoinKind::Inner);
    let block = many(JoinSide::Left, 0, 100_000);
    let rows = block.rows.slice(50_000, 100);
    let part = Batch { rows, positions: (0..100).collect(), times_ms: vec![5; 100], ..block };
    put(&mut step, JoinSide::Left, part);
    assert!(step.unsealed_bytes() < 64 << 10, "{}", step.unsealed_bytes());
    let out = put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(50_007), 1, "", 5)]));
    assert_eq!(found(&out.batch), [(Some(50_007), Some(1), 5)]);
    assert!(step.unsealed_bytes() > 0);
    cut(&mut step, 0);
    assert_eq!(step.unsealed_bytes(), 0);
}

/// Without rows that it would make, a step is due only when much would be freed.
#[test]
fn dropping_alone_is_worth_a_cut_when_it_frees_much() {
    let mut step = join(JoinKind::Inner).with_memory(2 << 20);
    put(&mut step, JoinSide::Left, many(JoinSide::Left, 0, 100));
    assert!(!step.is_due(i64::MAX), "a few rows are not worth it");
    put(&mut step, JoinSide::Left, many(JoinSide::Left, 100, 9_900));
    assert!(!step.is_due(4_000) && step.is_due(6_000));
}
