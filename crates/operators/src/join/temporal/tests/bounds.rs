//! Memory, and what happens where it ends.

use super::*;

const TEXT: &str = "a text of about thirty bytes..";

#[test]
fn what_must_stay_in_memory_and_does_not_fit_ends_the_run_and_says_what_to_do() {
    for side in [LEFT, RIGHT] {
        let mut step = join(true).with_memory(1 << 20);
        let rows: Vec<Row> = (0..20_000).map(|n| (Some(n), 5 * n + 1, TEXT, 1_000 + n)).collect();
        put_rows(&mut step, side, &rows);
        let error = step.advance(500).unwrap_err().to_string();
        let expected = match side {
            LEFT => "`20000` rows of its left side that wait",
            RIGHT => "of `20000` versions of its right side `20000` whose time the watermark has not reached",
        };
        assert!(error.contains(expected) && error.contains("Raise `memory`"), "{error}");
    }
}

/// A table of a thousand keys, each of which changes again and again, one of them never.
#[test]
fn memory_follows_the_versions_that_are_held() {
    let mut step = join(true);
    let mut most = 0;
    put_rows(&mut step, RIGHT, &[(Some(-1), 1, TEXT, 0)]);
    for round in 0..300_i64 {
        let rows: Vec<Row> = (0..1_000).map(|n| (Some(n), 5 * n + 1 + round % 4, TEXT, round * 10)).collect();
        put_rows(&mut step, RIGHT, &rows);
        cut(&mut step, round * 10 + 20);
        most = most.max(step.memory_bytes());
    }
    assert_eq!(step.held(), 1_001);
    assert!(most < 6 << 20, "{most} bytes for a thousand versions");
    // Those that were moved are found where they are.
    put_rows(&mut step, LEFT, &[(Some(-1), 1, "", 5_000), (Some(7), 2, "", 5_000)]);
    assert_eq!(found(&cut(&mut step, 9_000).0), [(1, Some(1), 5_000), (2, Some(5 * 7 + 1 + 299 % 4), 5_000)]);
}

/// Of each batch one version stays, and all others are replaced by the next.
#[test]
fn memory_follows_the_versions_that_are_held_where_few_are_much() {
    let mut step = join(true);
    let text: &'static str = Box::leak("x".repeat(4_000).into_boxed_str());
    let mut most = 0;
    for round in 0..100_i64 {
        let keys = (0..99).chain([1_000 + round]);
        let rows: Vec<Row> = keys.map(|key| (Some(key), 5 * key + 1, text, round * 10)).collect();
        put_rows(&mut step, RIGHT, &rows);
        cut(&mut step, round * 10 + 20);
        most = most.max(step.memory_bytes());
    }
    assert_eq!(step.held(), 199);
    assert!(most < 2 << 20, "{most} bytes for two hundred versions of 4 KB");
}

/// The same of rows that wait: of each batch one is far ahead, and all others are released by the next seal.
#[test]
fn memory_follows_the_rows_that_wait_where_few_are_much() {
    let mut step = join(true);
    let text: &str = "x".repeat(4_000).leak();
    let mut most = 0;
    for round in 0..100_i64 {
        let time_ms = |n: i64| if n == 0 { 1 << 40 } else { round * 1_000 };
        let rows: Vec<Row> = (0..100).map(|n| (Some(n), n, text, time_ms(n))).collect();
        put_rows(&mut step, LEFT, &rows);
        cut(&mut step, round * 1_000 + 500);
        most = most.max(step.memory_bytes());
    }
    assert_eq!(step.held(), 100);
    assert!(most < 4 << 20, "{most} bytes for a hundred rows of 4 KB");
}

#[test]
fn what_versions_ahead_took_is_given_back_once_they_are_settled() {
    let mut step = join(true);
    let rows: Vec<Row> = (0..200_000).map(|n| (Some(n), 5 * n + 1, "", 1_000)).collect();
    put_rows(&mut step, RIGHT, &rows);
    cut(&mut step, 500);
    let before = step.memory_bytes();
    cut(&mut step, 2_000);
    let after = step.memory_bytes();
    assert_eq!(step.held(), 200_000);
    assert!(before - after > 2 << 20, "{before} bytes before, {after} after");
}

/// Seals of a few versions each do not leave a page each.
#[test]
fn small_seals_take_little_memory_a_version() {
    let mut step = join(true);
    for round in 0..4_000_i64 {
        put_rows(&mut step, RIGHT, &[(Some(2 * round), 1, TEXT, 0), (Some(2 * round + 1), 1, TEXT, 0)]);
        cut(&mut step, 100);
    }
    let each = step.memory_bytes() / step.held();
    assert!(each < 200, "{each} bytes a version");
}

/// A key with many versions that are ahead, and many rows: each chain is walked once.
#[test]
fn a_key_with_many_versions_takes_no_time_for_each_row() {
    let mut step = join(true);
    let rows: Vec<Row> = (0..200_000).map(|n| (Some(1), 5 * n + 1, "", n)).collect();
    put_rows(&mut step, RIGHT, &rows);
    put_rows(&mut step, LEFT, &rows);
    let all = found(&cut(&mut step, i64::MAX).0);
    assert_eq!(all.len(), 200_000);
    assert!(all.iter().all(|(number, version, _)| Some(*number) == *version));
    assert_eq!(step.held(), 1);
}
