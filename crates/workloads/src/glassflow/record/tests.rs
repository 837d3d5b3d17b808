use std::collections::BTreeSet;

use super::*;

#[test]
fn words_are_letters_of_the_lengths_that_the_bounds_rest_on() {
    let lengths = |words: &[&str]| {
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic())));
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "each word once");
        let lengths: Vec<usize> = words.iter().map(|word| word.len()).collect();
        (lengths.iter().min().copied(), lengths.iter().max().copied())
    };
    assert_eq!(lengths(&FIRST_NAMES), (Some(3), Some(11)));
    assert_eq!(lengths(&LAST_NAMES), (Some(3), Some(12)));
}

#[test]
fn every_choice_of_words_keeps_the_bounds() {
    // The words of each length stand for all of that length.
    let one_a_length = |words: &[&'static str]| -> Vec<&'static str> {
        let of_length: std::collections::BTreeMap<usize, &str> =
            words.iter().map(|word| (word.len(), *word)).collect();
        of_length.into_values().collect()
    };
    let (firsts, lasts) = (one_a_length(&FIRST_NAMES), one_a_length(&LAST_NAMES));
    let bits = |index: usize, count: usize| ((index as u64) << 16).div_ceil(count as u64);
    let mut sums = BTreeSet::new();
    for first in &firsts {
        for last in &lasts {
            let first_at = FIRST_NAMES.iter().position(|word| word == first).expect("is there");
            let last_at = LAST_NAMES.iter().position(|word| word == last).expect("is there");
            for title in 0..5 {
                for pattern in 0..64 {
                    let choice = bits(first_at, FIRST_NAMES.len())
                        | bits(last_at, LAST_NAMES.len()) << 16
                        | bits(title, 40) << 48;
                    let (name, email) = person(choice, bits(pattern, 64));
                    let (name, email) = (name.as_bytes().len(), email.as_bytes().len());
                    assert!((7..=29).contains(&name) && (15..=33).contains(&email), "{name} {email}");
                    sums.insert(name + email);
                }
            }
        }
    }
    assert_eq!((sums.first(), sums.last()), (Some(&23), Some(&56)), "188 and 221 bytes are both reached");
}

#[test]
fn ids_are_random_uuids() {
    let texts = [uuid4(0, 0), uuid4(u64::MAX, u64::MAX), uuid4(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef)]
        .map(|uuid| String::from_utf8(hyphenated(uuid).to_vec()).expect("ASCII"));
    assert_eq!(
        texts,
        [
            "00000000-0000-4000-8000-000000000000",
            "ffffffff-ffff-4fff-bfff-ffffffffffff",
            "01234567-89ab-4def-8123-456789abcdef"
        ]
    );
}
