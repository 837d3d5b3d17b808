//! The age is never less than what has passed, whatever becomes of either clock.

use std::time::Duration;

use super::Moment;

fn at(seconds: u64, wall_seconds: i64) -> Moment {
    Moment { elapsed: Duration::from_secs(seconds), wall_ms: wall_seconds * 1_000 }
}

#[test]
fn a_suspended_machine_ages_and_a_clock_that_is_set_back_makes_nothing_young() {
    let asked = at(10, 1_000);
    for (now, seconds) in [
        (at(10, 1_000), 0),
        (at(15, 1_005), 5),
        // Suspended for an hour.
        (at(15, 4_605), 3_605),
        // Set back by an hour.
        (at(15, -2_595), 5),
        // Of a question that was asked later, by another thread.
        (at(9, 999), 0),
    ] {
        assert_eq!(asked.age(now), Duration::from_secs(seconds), "{now:?}");
    }
    let (first, last) = (Moment { wall_ms: i64::MIN, ..at(0, 0) }, Moment { wall_ms: i64::MAX, ..at(0, 0) });
    assert_eq!(first.age(last), Duration::from_millis(i64::MAX as u64));
    assert_eq!(last.age(first), Duration::ZERO);
}
