use proptest::prelude::*;

use super::super::tests::written::long;
use super::*;

/// A number behind `before` bytes and before `after`, as a record of its own.
fn read(number: &[u8], before: usize, after: usize) -> Result<(i64, usize), String> {
    let mut block = vec![0xee; before];
    block.extend_from_slice(number);
    block.extend(std::iter::repeat_n(0x01, after));
    let mut cursor = Cursor::new(&block, before, before + number.len());
    cursor.long().map(|value| (value, cursor.position())).map_err(|fault| fault.sentence())
}

#[test]
fn a_number_ends_within_its_record_even_if_the_block_goes_on() {
    for after in [0, 1, 7, 8, 20] {
        for cut in 1..10 {
            let bytes = vec![0x80; cut];
            let expected = Err("byte `0`: the number does not end within the record".to_owned());
            assert_eq!(read(&bytes, 3, after), expected, "{cut} bytes before {after}");
        }
        let expected = Err("byte `0`: the record ends before its last field".to_owned());
        assert_eq!(read(&[], 3, after), expected, "before {after}");
    }
}

#[test]
fn a_number_has_64_bits_at_the_most() {
    let mut longest = vec![0xff; 9];
    longest.push(1);
    assert_eq!(read(&longest, 0, 0), Ok((i64::MIN, 10)));
    let expected = Err("byte `0`: the number has more than 64 bits".to_owned());
    longest[9] = 2;
    assert_eq!(read(&longest, 0, 0), expected);
    assert_eq!(read(&[0xff; 12], 0, 5), expected);
    // More bytes than are needed say the same number.
    assert_eq!(read(&[0x82, 0x80, 0x00], 0, 0), Ok((1, 3)));
}

proptest! {
    #[test]
    fn every_number_comes_back(value: i64, shift in 0u32..64, before in 0usize..9, after in 0usize..12) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        long(value, &mut bytes);
        prop_assert_eq!(read(&bytes, before, after), Ok((value, bytes.len())));
    }
}
