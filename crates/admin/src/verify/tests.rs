use super::*;

#[test]
fn a_bound_is_a_position_or_a_time_and_nothing_else() {
    let position = |stream: &str, index, position| Bound::Position { stream: stream.into(), index, position };
    assert_eq!("t/0:1000".parse(), Ok(position("t", 0, 1_000)));
    assert_eq!("/var/a b.jsonl/0:7".parse(), Ok(position("/var/a b.jsonl", 0, 7)));
    assert_eq!("2026-07-01T00:00:00Z".parse(), Ok(Bound::Time(1_782_864_000_000)));
    for text in ["earliest", "latest", "t/0", "t:5", ""] {
        assert!(text.parse::<Bound>().is_err(), "{text}");
    }
}
