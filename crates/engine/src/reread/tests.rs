use super::*;

#[test]
fn rows_share_the_patience_of_one_absence() {
    let (patience, max) = (Patience::default(), Duration::from_secs(10));
    let at = Duration::from_secs;
    assert_eq!(patience.left(at(100), max), max);
    patience.answered(at(100), false);
    assert_eq!(patience.left(at(104), max), at(6));
    patience.answered(at(104), false);
    assert_eq!(patience.left(at(200), max), TRY_AT_LEAST, "used up, but one that came back is heard");
    patience.answered(at(200), true);
    assert_eq!(patience.left(at(201), max), max);
    assert_eq!(patience.left(at(201), at(0)), at(0), "a bound of nothing is a bound");
}
