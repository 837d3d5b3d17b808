use super::*;

const S: Duration = Duration::from_secs(1);

fn two() -> Watermarks {
    let mut w = Watermarks::new(TIME_UNKNOWN_MS, 10 * S, 1_000);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO);
    w
}

#[test]
fn the_slowest_partition_holds_the_watermark() {
    let mut w = two();
    w.observe(0, &[50, 90, 70], 1_000, S);
    assert_eq!(w.advance(S), TIME_UNKNOWN_MS);
    w.observe(1, &[40], 1_000, S);
    assert_eq!(w.advance(S), 40);
    w.observe(1, &[200], 1_000, S);
    assert_eq!(w.advance(S), 90);
}

#[test]
fn an_idle_partition_lets_go_and_a_late_one_does_not_pull_back() {
    let mut w = two();
    w.observe(0, &[90], 1_000, S);
    w.caught_up(1);
    assert_eq!(w.advance(5 * S), TIME_UNKNOWN_MS);
    assert_eq!(w.advance(10 * S), 90);
    assert_eq!(w.idle(10 * S), [1]);
    w.observe(1, &[20], 1_000, 11 * S);
    assert_eq!(w.advance(11 * S), 90);
    assert!(w.idle(11 * S).is_empty());
}

#[test]
fn a_clock_from_the_future_moves_nothing() {
    let mut w = two();
    w.observe(0, &[100, 9_999_999], 1_000, S);
    w.observe(1, &[100], 1_000, S);
    assert_eq!(w.advance(S), 100);
}

#[test]
fn a_partition_waits_only_for_those_that_are_behind() {
    let mut w = two();
    w.observe(0, &[5_000], 10_000, S);
    assert!(!w.is_ahead(0, 100), "the other has shown nothing yet");
    w.observe(1, &[1_000], 10_000, S);
    assert!(w.is_ahead(0, 100) && !w.is_ahead(1, 100) && !w.is_ahead(0, 4_000));
    w.caught_up(1);
    assert!(!w.is_ahead(0, 100), "the other has nothing to read");
}
