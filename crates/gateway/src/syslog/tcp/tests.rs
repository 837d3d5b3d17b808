use super::*;

/// Each one that is turned away is counted.
#[test]
fn connections_that_are_turned_away_do_not_fill_the_log() {
    let (mut told, now) = (Told::default(), Instant::now());
    let is_due =
        [Duration::ZERO, TELL_EVERY / 2, TELL_EVERY, TELL_EVERY].map(|later| told.is_due(now + later));
    assert_eq!(is_due, [true, false, true, false]);
}
