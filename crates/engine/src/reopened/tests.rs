use super::*;

#[test]
fn changes_that_lie_far_apart_are_nothing_to_tell_of() {
    let status = Status::default();
    let told = || status.snapshot().tables["d.t"].turns.is_told;
    for hour in 0..10 {
        opened(&status, "d.t", Duration::from_secs(3_600 * hour));
        assert!(!told());
    }
    let now = Duration::from_secs(3_600 * 9);
    for second in [1, 2] {
        opened(&status, "d.t", now + Duration::from_secs(second));
    }
    assert!(told() && !may_open(&status, "d.t", false, now));
    saw(&status, "d.t", true, now + Duration::from_secs(60));
    assert!(told());
    saw(&status, "d.t", true, now + crate::turns::PERIOD);
    assert!(!told() && may_open(&status, "d.t", false, now + crate::turns::PERIOD));
    assert!(may_open(&status, "d.other", false, now));
}

/// A view that one of two servers has: the lane was opened for it, and is not opened again.
#[test]
fn views_that_come_and_go_from_poll_to_poll_are_told_though_the_lane_stays_open() {
    let status = Status::default();
    let turns = || status.snapshot().tables["d.t"].turns.clone();
    let at = |poll: u64| Duration::from_secs(5 * poll);
    // A view is added, and is seen from then on.
    for poll in 0..200 {
        saw(&status, "d.t", poll > 50, at(poll));
        assert!(!turns().is_told);
    }
    for poll in 200..204 {
        assert!(!turns().is_told);
        saw(&status, "d.t", poll % 2 == 1, at(poll));
    }
    assert!(turns().is_told && turns().may_open(false, at(204)) && turns().times == 0);
    // It was made on the other server too.
    for poll in 204..400 {
        saw(&status, "d.t", true, at(poll));
    }
    assert!(!turns().is_told);
}
