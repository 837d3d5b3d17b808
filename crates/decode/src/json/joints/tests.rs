use super::*;

/// Room for every comparison behind what is looked at.
const TAIL: &str = "\"2024-05-01 10:20:30\"}";

#[test]
fn only_the_very_bytes_that_were_learnt_are_found() {
    for name in ["", "a", "ten_bytes_", "eleven_byte", "a_name_longer_than_sixteen_bytes", "ü"] {
        let joint = format!(", \"{name}\": ");
        let mut learnt = Joint::UNKNOWN;
        learnt.learn(joint.as_bytes(), 3);
        assert_eq!(learnt.begins(format!("{joint}{TAIL}").as_bytes()), Some((joint.len(), 3)), "{name}");
        for at in 0..joint.len() {
            let mut other = format!("{joint}{TAIL}").into_bytes();
            other[at] ^= 1;
            assert_eq!(learnt.begins(&other), None, "byte {at} of {joint}");
        }
        for end in 0..joint.len() {
            assert_eq!(learnt.begins(&joint.as_bytes()[..end]), None, "{joint} cut at {end}");
        }
    }
}

#[test]
fn what_is_too_long_is_not_learnt_and_the_guess_before_it_is_gone() {
    let mut joint = Joint::UNKNOWN;
    assert_eq!(joint.begins(TAIL.as_bytes()), None);
    joint.learn(b", \"a\": ", 0);
    joint.learn(&[b'x'; BYTES_MAX + 1], 1);
    assert_eq!(joint.begins(format!(", \"a\": {TAIL}").as_bytes()), None);
    assert_eq!(joint.begins(&[b'x'; 2 * BYTES_MAX]), None);
    joint.learn(&[b'x'; BYTES_MAX], 1);
    assert_eq!(joint.begins(&[b'x'; 2 * BYTES_MAX]), Some((BYTES_MAX, 1)));
}
