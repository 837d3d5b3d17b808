use super::*;

#[test]
fn a_position_is_read_as_it_is_shown_and_keeps_its_order() {
    let positions =
        [0, 17, position(0, u64::MAX), position(1, 0), position(3, 17), position(u64::MAX, u64::MAX)];
    assert!(positions.is_sorted());
    for at in positions {
        assert_eq!(position(era(at), low(at)), at);
        assert_eq!(parse(&shown(at).to_string()), Some(at));
    }
    assert_eq!((shown(17).to_string(), shown(position(3, 17)).to_string()), ("17".into(), "3:17".into()));
    for text in ["", ":", "3:", ":17", "a", "1:2:3", "-1", "18446744073709551616"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn places_are_counted_only_without_an_era() {
    assert_eq!(
        (between(5, 9), between(9, 5), between(position(3, 5), position(3, 9))),
        (Some(4), Some(0), None)
    );
    assert_eq!((between(5, position(3, 9)), between(position(3, 9), 5)), (None, Some(0)));
}
