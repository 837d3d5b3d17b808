use super::*;

/// Room for every comparison behind what is looked at.
const TAIL: &str = "\"2024-05-01 10:20:30\"}";

/// How many bytes are stepped over, and what they lead to.
fn passed(joint: &Joint, rest: &[u8]) -> Option<(usize, Leads)> {
    let mut cursor = Cursor::new(rest);
    let leads = joint.pass(&mut cursor)?;
    Some((cursor.position(), leads))
}

fn leads(place: usize) -> Leads {
    Leads { state: place + 1, column: place }
}

#[test]
fn only_the_very_bytes_that_were_learnt_are_found() {
    for name in ["", "a", "ten_bytes_", "eleven_byte", "a_name_longer_than_sixteen_bytes", "ü"] {
        let joint = format!(", \"{name}\": ");
        let mut learnt = Joint::UNKNOWN;
        learnt.learn(joint.as_bytes(), leads(3));
        assert_eq!(
            passed(&learnt, format!("{joint}{TAIL}").as_bytes()),
            Some((joint.len(), leads(3))),
            "{name}"
        );
        for at in 0..joint.len() {
            let mut other = format!("{joint}{TAIL}").into_bytes();
            other[at] ^= 1;
            assert_eq!(passed(&learnt, &other), None, "byte {at} of {joint}");
        }
        for end in 0..joint.len() {
            assert_eq!(passed(&learnt, &joint.as_bytes()[..end]), None, "{joint} cut at {end}");
        }
    }
}

#[test]
fn what_is_too_long_is_not_learnt_and_the_guess_before_it_is_gone() {
    let mut joint = Joint::UNKNOWN;
    assert_eq!(passed(&joint, TAIL.as_bytes()), None);
    joint.learn(b", \"a\": ", leads(0));
    joint.learn(&[b'x'; BYTES_MAX + 1], leads(1));
    assert_eq!(passed(&joint, format!(", \"a\": {TAIL}").as_bytes()), None);
    assert_eq!(passed(&joint, &[b'x'; 2 * BYTES_MAX]), None);
    joint.learn(&[b'x'; BYTES_MAX], leads(1));
    assert_eq!(passed(&joint, &[b'x'; 2 * BYTES_MAX]), Some((BYTES_MAX, leads(1))));
}
