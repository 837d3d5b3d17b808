use super::*;

fn labels<'a>(names: &[&'a [u8]]) -> Vec<Pair<'a>> {
    names.iter().map(|name| (*name, &b"value"[..])).collect()
}

#[test]
fn names_that_are_one_text_in_a_record_are_one_label_twice() {
    let twice = Some("it has a label twice");
    assert_eq!(fault(&mut labels(&[b"a\xff", b"b", b"a\xfe"])), twice);
    assert_eq!(fault(&mut labels(&["a\u{fffd}".as_bytes(), b"b", b"a\xfe"])), twice);
    assert_eq!(fault(&mut labels(&[b"a", b"b", b"a"])), twice);
    assert_eq!(fault(&mut labels(&[b"a\xff", b"b\xff", b"a"])), None);
    assert_eq!(fault(&mut labels(&[b"b", b"a"])), None);
}
