use super::*;

/// A block of `FORMAT Native`: a text and a number, two rows.
const PLAIN: &[u8] = b"\x02\x02\x04name\x06String\x01a\x02bc\x08revision\x06UInt32\x01\0\0\0\x02\0\0\0";
/// The same as the native protocol has it.
const LATER: &[u8] = b"\x01\0\x02\xff\xff\xff\xff\0\x02\x02\x04name\x06String\0\x01a\x02bc\x08revision\x06UInt32\0\x01\0\0\0\x02\0\0\0";

#[test]
fn each_block_says_what_it_is_and_each_column_how_it_is_serialized() {
    assert_eq!(later(b"").expect("nothing"), b"");
    assert_eq!(later(PLAIN).expect("a block"), LATER);
    assert_eq!(later(&[PLAIN, PLAIN].concat()).expect("two blocks"), [LATER, LATER].concat());
    let unpacked = decompress(&packed(LATER)).expect("chunks");
    assert_eq!(unpacked, LATER);
}

#[test]
fn what_is_no_answer_is_refused_and_not_passed_on() {
    for cut in 1..PLAIN.len() {
        assert!(later(&PLAIN[..cut]).is_err(), "{cut} bytes");
    }
    let why = later(b"\x01\x01\x01x\x04Date\0\0").expect_err("a date").to_string();
    assert!(why.contains("`Date`"), "{why}");
    assert!(later(&[0xff; 20]).is_err(), "a number without an end");
}
