use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn numbers_come_back(value in prop_oneof![any::<u64>(), 0u64..40_000], rest in any::<[u8; 3]>()) {
        let mut bytes = Vec::new();
        put_unsigned(&mut bytes, value);
        bytes.extend(rest);
        let mut at = Cursor(&bytes);
        prop_assert_eq!(at.unsigned(), Ok(value));
        prop_assert_eq!(at.0, &rest);
    }

    #[test]
    fn signed_numbers_have_their_sign_in_the_lowest_bit(value in any::<i64>()) {
        let mut bytes = Vec::new();
        put_unsigned(&mut bytes, ((value << 1) ^ (value >> 63)) as u64);
        prop_assert_eq!(Cursor(&bytes).signed(), Ok(value));
    }
}

#[test]
fn numbers_of_more_than_64_bits_are_refused() {
    assert_eq!(Cursor(&[0xff; 10]).unsigned(), Err(Malformed));
    assert_eq!(Cursor(&[0x80; 11]).unsigned(), Err(Malformed));
    assert_eq!(Cursor(&[0x80]).unsigned(), Err(Malformed));
    assert_eq!(Cursor(&[]).unsigned(), Err(Malformed));
}

#[test]
fn lengths_are_not_believed() {
    assert_eq!(Cursor(&[0x7e, 1, 2]).nullable(), Err(Malformed));
    assert_eq!(Cursor(&[0x03, 1, 2]).nullable(), Err(Malformed), "a length of -2");
    assert_eq!(Cursor(&[0x01, 1]).nullable(), Ok(None));
    assert_eq!(Cursor(&[9, 1, 2]).compact(), Err(Malformed));
    assert_eq!(Cursor(&[0]).compact(), Ok(None));
    assert_eq!(Cursor(&[0xff, 0xff, 0xff, 0x7f, 1, 2, 3]).count(2), Err(Malformed));
    assert_eq!(Cursor(&[2, 1, 2, 3]).count(2), Ok(1));
}

#[test]
fn tagged_fields_are_seen_whole() {
    let bytes = [2, 0, 2, 7, 8, 5, 1, 9, 42];
    let mut seen = Vec::new();
    let mut at = Cursor(&bytes);
    at.tagged(|tag, value| {
        seen.push((tag, value.0.to_vec()));
        Ok(())
    })
    .expect("reads");
    assert_eq!(seen, [(0, vec![7, 8]), (5, vec![9])]);
    assert_eq!(at.0, [42]);
}
