use super::*;

fn sample() -> Replay {
    let letter = Letter::at("events", 2, 1_234);
    let nameless = Letter { print: 0xfeed, ..Letter::at("", 0, 1) };
    Replay {
        first: 7,
        made_at_ms: 1_700_000_000_000,
        table: "d.dead".into(),
        nonce: vec![9; 16],
        records: vec![
            Replayed {
                item: 0,
                letter: Some(letter),
                origin: "events/2/1234".into(),
                time_ms: -1,
                key: Some(b"k".to_vec()),
                headers: vec![1, 2],
                body: Some(vec![0xff, 0]),
                reason: "malformed".into(),
                input: String::new(),
            },
            Replayed {
                letter: Some(nameless),
                origin: "#000000000000feed/1".into(),
                time_ms: i64::MIN,
                reason: "no_body".into(),
                input: String::new(),
                ..Replayed::default()
            },
        ],
    }
}

/// The bytes that a released program has written are read for ever: a change here is a new format version.
#[test]
fn objects_keep_their_golden_bytes() {
    let hex: String = sample().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden.txt").trim_end());
}

#[test]
fn objects_read_back_as_written_and_their_head_says_where_they_end() {
    let bytes = sample().to_bytes();
    assert_eq!(Replay::from_bytes(7, &bytes), Ok(sample()));
    assert_eq!(end(7, &bytes[..HEAD_BYTES]), Ok(9));
    assert_eq!(sample().record(8).map(|record| record.reason.as_str()), Some("no_body"));
    assert_eq!((sample().record(6), sample().record(9)), (None, None));
}

#[test]
fn every_damaged_byte_is_noticed() {
    let bytes = sample().to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Replay::from_bytes(7, &damaged).is_err(), "byte {at}");
    }
    for len in 0..bytes.len() {
        assert!(Replay::from_bytes(7, &bytes[..len]).is_err(), "cut to {len}");
    }
    assert!(matches!(Replay::from_bytes(8, &bytes), Err(ReplayError::Damaged(_))), "under another position");
}

#[test]
fn a_later_format_is_named_as_such() {
    let mut bytes = sample().to_bytes();
    bytes[3] = b'2';
    assert!(matches!(Replay::from_bytes(7, &bytes), Err(ReplayError::Format { .. })));
}

#[test]
fn a_letter_without_a_stream_is_named_by_its_print() {
    let names: Vec<String> =
        sample().records.iter().filter_map(|r| r.letter.as_ref()).map(ToString::to_string).collect();
    assert_eq!(names, ["events/2/1234", "#000000000000feed/1"]);
    let of_a_step = Letter { print: 0xfeed, ..Letter::at("@window", 0, 3) };
    assert_eq!(of_a_step.to_string(), "@window/0/3#000000000000feed");
}

/// Puts the right checksum under changed bytes.
fn summed(bytes: &[u8]) -> Vec<u8> {
    seal(bytes.split_last_chunk::<4>().map_or(bytes, |(content, _)| content).to_vec())
}

#[test]
fn fuzz_replay_object() {
    let other = Replay { first: u64::MAX - 2, ..sample() };
    let examples = [sample().to_bytes(), other.to_bytes()];
    testkit::Fuzz::new("replay object").examples(examples).run(20_000, |bytes| {
        let _ = Replay::from_bytes(7, bytes);
        let bytes = summed(bytes);
        for position in [7, u64::MAX - 2, POSITION_MAX] {
            let end = end(position, &bytes);
            let Ok(replay) = Replay::from_bytes(position, &bytes) else { continue };
            assert_eq!(end, Ok(replay.end()));
            assert!(replay.record(position).is_some() && replay.record(replay.end()).is_none());
            let again = Replay::from_bytes(position, &replay.to_bytes());
            assert_eq!(again, Ok(replay), "what was read can be written and read");
        }
    });
}

#[test]
fn an_object_at_a_position_that_no_log_reaches_is_damaged() {
    for first in [POSITION_MAX + 1, u64::MAX - 1, u64::MAX] {
        let object = Replay { first, ..sample() }.to_bytes();
        assert!(matches!(Replay::from_bytes(first, &object), Err(ReplayError::Damaged(_))), "{first}");
        assert!(end(first, &object[..HEAD_BYTES]).is_err(), "{first}");
    }
}
