use proptest::prelude::*;

use super::*;

/// What the search must find, said plainly.
fn first_special(bytes: &[u8], from: usize) -> usize {
    let special = |b: &u8| *b < 0x20 || *b == b'"' || *b == b'\\';
    bytes[from..].iter().position(special).map_or(bytes.len(), |n| from + n)
}

#[test]
fn the_search_stops_at_every_special_byte_in_every_place_and_at_no_other() {
    for length in (0..40).chain([111, 112, 113, 200]) {
        for place in 0..length {
            for byte in 0..=255u8 {
                let mut bytes = vec![b'x'; length];
                bytes[place] = byte;
                assert_eq!(
                    find_special(&bytes, 0),
                    first_special(&bytes, 0),
                    "{byte} at {place} of {length}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn the_search_finds_the_first_of_many(
        bytes in prop::collection::vec(
            prop_oneof![50 => Just(b'x'), 1 => any::<u8>(), 1 => prop::sample::select(&b"\"\\!#[]\x1f\x20\x21\x80\xa0"[..])],
            0..300,
        ),
        from in 0usize..80,
    ) {
        let from = from.min(bytes.len());
        prop_assert_eq!(find_special(&bytes, from), first_special(&bytes, from));
    }
}

#[test]
fn a_value_is_stepped_over_to_its_very_end() {
    for value in
        ["0", "-0.5e+10", "true", "null", "\"a\\\"b\"", "[1, [2], {}]", "{\"a\" : {\"b\":[]} , \"c\":0}"]
    {
        let bytes = format!("{value} ,");
        let mut cursor = Cursor::new(bytes.as_bytes());
        cursor.skip_value().expect("the value is well formed");
        assert_eq!(cursor.position(), value.len(), "{value}");
    }
}

#[test]
fn the_depth_is_back_where_it_was_after_a_value() {
    let bytes = "[[[[]]]]".repeat(DEPTH_MAX as usize);
    let mut cursor = Cursor::new(bytes.as_bytes());
    for _ in 0..DEPTH_MAX {
        cursor.skip_value().expect("four levels are few");
    }
    assert_eq!(cursor.position(), bytes.len());
}
