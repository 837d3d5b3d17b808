use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use proptest::prelude::*;

use super::*;

fn hours(n: u64) -> Window {
    Window::new(Some(Duration::from_secs(n * 3600))).unwrap()
}

#[test]
fn a_window_has_sixteen_buckets() {
    assert_eq!(hours(8), Window::Sliding { window_ms: 28_800_000, width_ms: 1_800_000 });
    let odd = Window::new(Some(Duration::from_millis(17))).unwrap();
    assert_eq!(odd, Window::Sliding { window_ms: 17, width_ms: 1 });
}

#[test]
fn windows_out_of_bounds_are_refused() {
    let error = |length| Window::new(Some(length)).unwrap_err().to_string();
    assert_eq!(
        error(Duration::ZERO),
        "dedup.window: `0ns` is outside of `16ms` to `3650d`; write `unbounded` to keep every key"
    );
    error(Duration::from_millis(WINDOW_MS_MIN - 1));
    error(Duration::from_millis(WINDOW_MS_MAX + 1));
    error(Duration::MAX);
    assert!(Window::new(Some(Duration::from_millis(WINDOW_MS_MIN))).is_ok());
    assert!(Window::new(Some(Duration::from_millis(WINDOW_MS_MAX))).is_ok());
}

#[test]
fn times_before_1970_round_down_as_others_do() {
    assert_eq!(hours(8).bucket(-1), -1);
    assert_eq!(hours(8).bucket(0), 0);
    assert_eq!(hours(8).bucket(1_800_000), 1);
}

#[test]
fn an_unbounded_window_knows_no_time() {
    for time in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(Window::Unbounded.place(time, None), 0);
        assert_eq!(Window::Unbounded.watermark(time), None);
    }
}

#[test]
fn an_unknown_time_is_the_watermark() {
    assert_eq!(hours(8).place(TIME_UNKNOWN_MS, Some(7)), 7);
    assert_eq!(hours(8).place(TIME_UNKNOWN_MS, None), UNPLACED);
    assert_eq!(hours(8).watermark(TIME_UNKNOWN_MS), None);
    assert!(!is_late(UNPLACED, None));
}

proptest! {
    #[test]
    fn nothing_that_is_freed_is_near_a_record_in_time(
        time in any::<i64>(), kept in any::<i64>(), watermark in any::<i64>(), width in 1..1_000_000_u64,
    ) {
        let window = Window::new(Some(Duration::from_millis(width * SPAN))).unwrap();
        let place = |t: i64| window.bucket(t.max(i64::MIN + 1));
        let (bucket, kept, watermark) = (place(time), place(kept), place(watermark));
        if kept < floor(watermark) && !is_late(bucket, Some(watermark)) {
            prop_assert!(!near(bucket, kept));
        }
    }

    #[test]
    fn lateness_begins_just_behind_the_slack(watermark in -1_000_000..1_000_000_i64) {
        let first_in_time = watermark - SLACK as i64;
        prop_assert!(!is_late(first_in_time, Some(watermark)));
        prop_assert!(is_late(first_in_time - 1, Some(watermark)));
        prop_assert!(near(first_in_time, floor(watermark)));
        prop_assert!(near(first_in_time - 1, floor(watermark) - 1), "so the slack is not wasted");
    }
}

proptest! {
    #[test]
    fn one_time_after_the_other_is_placed_as_each_alone(
        window_ms in prop_oneof![Just(None), (WINDOW_MS_MIN..=WINDOW_MS_MAX).prop_map(Some), (1_000..100_000_u64).prop_map(Some)],
        watermark in prop::option::of(-5..5_i64),
        times in prop::collection::vec(prop_oneof![any::<i64>(), -200_000..200_000_i64, Just(TIME_UNKNOWN_MS), Just(i64::MAX)], 1..100),
    ) {
        let window = Window::new(window_ms.map(Duration::from_millis)).unwrap();
        let mut placing = window.placing(watermark);
        for time in times {
            prop_assert_eq!(placing.place(time), window.place(time, watermark));
        }
    }
}
