use proptest::prelude::*;

use super::*;

fn words(digits: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|n| u64::from_le_bytes(digits.as_chunks::<8>().0[n]))
}

#[test]
fn every_byte_is_special_or_a_digit_as_it_is_plainly() {
    for byte in 0..=255u8 {
        for place in 0..16 {
            let mut bytes = [b'x'; 16];
            bytes[place] = byte;
            assert_eq!(special(&bytes), plain::special(&bytes), "{byte} at {place}");
        }
        for place in 0..32 {
            let mut digits = *b"0123456789abcdefABCDEF9876543210";
            digits[place] = byte;
            assert_eq!(hex(words(&digits)), plain::hex(words(&digits)), "{byte} at {place}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_what_they_are_plainly(bytes: [u8; 16], digits in "[0-9a-fA-F]{32}") {
        prop_assert_eq!(special(&bytes), plain::special(&bytes));
        let digits = words(digits.as_bytes().try_into().expect("32 digits"));
        prop_assert!(hex(digits).is_some());
        prop_assert_eq!(hex(digits), plain::hex(digits));
    }
}
