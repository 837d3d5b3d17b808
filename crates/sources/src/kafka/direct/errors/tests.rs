use super::*;

#[test]
fn codes_are_told_apart() {
    let is = |code, is_cut, wanted: fn(String) -> Trouble| {
        let got = of(code, is_cut).expect("a trouble");
        assert_eq!(std::mem::discriminant(&got), std::mem::discriminant(&wanted(String::new())), "{got:?}");
    };
    assert_eq!(of(0, false), None);
    is(0, true, Trouble::OutOfRange);
    is(1, false, Trouble::OutOfRange);
    is(2, false, |why| Trouble::Unreadable(why, None));
    is(6, false, Trouble::Moved);
    is(29, false, Trouble::Denied);
    is(74, false, Trouble::Moved);
    is(100, false, Trouble::Missing);
    is(4_242, false, Trouble::Moved);
    assert_eq!(words(6), "not the leader (error 6)");
    assert_eq!(words(4_242), "error 4242");
}
