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
fn dates_are_those_of_the_calendar() {
    let text = |seconds| String::from_utf8(date_time(seconds).to_vec()).expect("ASCII");
    for (seconds, expected) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_399, "2000-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (951_868_800, "2000-03-01 00:00:00"),
        (1_735_689_600, "2025-01-01 00:00:00"),
        (1_709_210_096, "2024-02-29 12:34:56"),
        (4_107_542_399, "2100-02-28 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
        (4_294_967_295, "2106-02-07 06:28:15"),
    ] {
        assert_eq!(text(seconds), expected);
    }
}

#[test]
fn days_follow_one_another_for_four_hundred_years() {
    let is_leap = |year: u64| year.is_multiple_of(if year.is_multiple_of(100) { 400 } else { 4 });
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for days in 0..150_000 {
        assert_eq!(date(days), (year, month, day));
        let month_days = match month {
            2 if is_leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > month_days {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
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
