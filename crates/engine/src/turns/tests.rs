use super::*;

#[test]
fn a_lane_is_opened_again_at_once_a_few_times_and_then_once_a_minute() {
    let at = Duration::from_secs;
    let mut turns = Turns::default();
    for second in [5, 10, 15] {
        assert!(turns.may_open(false, at(second)));
        turns.opened(at(second));
    }
    assert!(turns.differs(at(15)));
    assert_eq!([20, 74, 75].map(|second| turns.may_open(false, at(second))), [false, false, true]);
    // What concerns the inserts themselves does not wait so long.
    assert_eq!([16, 17].map(|second| turns.may_open(true, at(second))), [false, true]);
    // Servers that differ for good are still told of.
    turns.opened(at(75));
    assert!(turns.differs(at(100)) && !turns.may_open(false, at(134)) && turns.may_open(false, at(135)));
    // Those that were made the same are not for ever.
    assert!(!turns.differs(at(610)) && turns.may_open(false, at(610)));
    assert_eq!(turns.times, 4);
}
