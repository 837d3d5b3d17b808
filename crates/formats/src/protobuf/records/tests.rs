use testkit::Fuzz;

use super::*;

#[test]
fn messages_stand_behind_their_lengths() {
    let long = [&[0xac, 0x02][..], &[b'x'; 300]].concat();
    let body = [&[2, 8, 1, 0][..], &long].concat();
    assert_eq!(delimited(&body, 0), Ok((1, 3)));
    assert_eq!(delimited(&body, 3), Ok((4, 4)), "a message without fields");
    assert_eq!(delimited(&body, 4), Ok((6, 306)));
    for (bytes, why) in [
        (&[5, 1, 2][..], "its length says `5` bytes, and `2` are left behind byte `1` of the body"),
        (
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            "its length says `4294967295` bytes, and `0` are left behind byte `5` of the body",
        ),
        (&[0x80], "at byte `0` of the body there is no length of at most 32 bits"),
        (&[0xff; 8], "at byte `0` of the body there is no length of at most 32 bits"),
        (&[], "at byte `0` of the body there is no length of at most 32 bits"),
    ] {
        assert_eq!(delimited(bytes, 0), Err(why.to_owned()));
    }
}

#[test]
fn a_message_is_keys_with_values_that_end_within_it() {
    // A number, a text, a group with a number in it, four bytes and eight.
    let good = [&[8, 1, 18, 2, b'a', b'b', 27, 8, 1, 28, 37, 0, 0, 0, 0, 41][..], &[0; 8]].concat();
    assert_eq!(check(&good), Ok(()));
    assert_eq!(check(b""), Ok(()));
    for (bytes, why) in [
        (&[18, 9, b'a'][..], "byte `1`: a value of `9` bytes does not fit the `1` that are left"),
        (&[8], "byte `1`: the message ends before its last field"),
        (&[0], "byte `0`: `0` is no key of a field"),
        (&[27, 8, 1], "byte `3`: the group of field number `3` does not end"),
    ] {
        assert_eq!(check(bytes), Err(why.to_owned()));
    }
    assert!(check(b"{\"id\": 1}").is_err(), "JSON is none");
}

/// Pieces are within the body and follow each other, and neither takes memory.
#[test]
fn fuzz_protobuf_delimited() {
    let example = [&[2, 8, 1, 0, 4, 18, 2, b'a', b'b'][..], &[0xac, 0x02], &[8, 1].repeat(150)].concat();
    Fuzz::new("protobuf behind lengths").example(&example).memory_max(16 << 10, 1).run(6_000, |body| {
        let mut at = 0;
        while let Ok((begin, end)) = delimited(body, at) {
            assert!(at < begin && begin <= end && end <= body.len());
            let _ = check(&body[begin..end]);
            at = end;
        }
    });
}
