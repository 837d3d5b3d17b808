use super::*;

fn builder() -> BlockBuilder {
    BlockBuilder::new(Partition::new("events", 2), 10)
}

#[test]
fn records_keep_their_bytes_positions_and_gaps() {
    let mut b = builder();
    b.push(10, 5, Some(b"one"));
    b.push(14, 6, None);
    b.push(15, 7, Some(b""));
    let block = b.take();
    assert_eq!(block.payloads.get(0), b"one");
    assert_eq!(block.payloads.get(2), b"");
    assert_eq!((block.positions.as_slice(), block.next), ([10, 14, 15].as_slice(), 16));
    assert_eq!(block.absent, [1]);
    assert!(b.is_empty() && b.take().next == 16);
}

#[test]
fn keys_and_headers_start_late_without_shifting_rows() {
    let mut b = builder();
    b.push(1, 0, Some(b"a"));
    b.push(2, 0, Some(b"b"));
    b.key(b"k2");
    b.header("trace", Some(b"x"));
    b.header("empty", None);
    b.push(3, 0, Some(b"c"));
    let block = b.take();
    let keys = block.keys.expect("a key was given");
    assert_eq!((keys.get(0), keys.get(1), keys.get(2)), (&b""[..], &b"k2"[..], &b""[..]));
    let encoded = block.headers.expect("headers were given");
    let read: Vec<_> = headers(encoded.get(1)).collect();
    assert_eq!(read, [("trace", Some(&b"x"[..])), ("empty", None)]);
    assert_eq!(headers(encoded.get(2)).count(), 0);
}

#[test]
fn damaged_headers_end_the_list_instead_of_a_panic() {
    assert_eq!(headers(&[9, 0, 0, 0, b'x']).count(), 0);
    assert_eq!(headers(&[255, 255, 255, 255]).count(), 0);
}

#[test]
fn a_body_written_in_place_is_a_record_like_any_other() {
    let mut b = builder();
    b.push(1, 5, Some(b"a"));
    b.push_with(4, 6, |buffer| buffer.extend_from_slice(b"in place"));
    b.skip_to(9);
    let block = b.take();
    assert_eq!((block.payloads.get(0), block.payloads.get(1)), (&b"a"[..], &b"in place"[..]));
    assert_eq!(
        (block.positions.as_slice(), block.times_ms.as_slice()),
        ([1, 4].as_slice(), [5, 6].as_slice())
    );
    assert_eq!((block.next, block.absent.len()), (9, 0));
}

#[test]
fn keys_and_headers_count_towards_a_full_block() {
    let mut b = builder();
    let half = vec![0; KEY_BYTES_MAX / 2];
    for position in 0..8 {
        assert!(!b.is_full(), "{position}");
        b.push(position, 0, None);
        b.key(&half);
        assert!(!b.is_full() || position == 7, "{position}");
    }
    assert!(b.is_full(), "of keys alone");
    b.take();
    for position in 8..16 {
        assert!(!b.is_full(), "{position}");
        b.push(position, 0, None);
        b.header("h", Some(&half));
    }
    assert!(b.is_full(), "of headers alone");
}

#[test]
fn one_record_is_taken_out_of_a_block_with_all_that_is_beside_it() {
    let mut b = builder();
    b.push(1, 5, Some(b"a"));
    b.push(4, 6, None);
    b.key(b"k");
    b.header("h", Some(b"v"));
    b.push(9, 7, Some(b"cut"));
    b.cut(77);
    let block = b.take();
    let tombstone = block.one(4).expect("it is there");
    assert_eq!(
        (tombstone.len(), tombstone.absent.as_slice(), tombstone.times_ms[0], tombstone.next),
        (1, &[0][..], 6, 5)
    );
    assert_eq!(tombstone.keys.expect("keys").get(0), b"k");
    assert_eq!(headers(tombstone.headers.expect("headers").get(0)).count(), 1);
    let last = block.one(9).expect("it is there");
    assert_eq!((last.payloads.get(0), last.whole_bytes(0)), (&b"cut"[..], 77));
    assert!(block.one(5).is_none() && block.one(10).is_none());
}

#[test]
fn a_new_block_gets_the_memory_that_it_is_said_to_need() {
    let mut builder = builder();
    builder.expect(1_000);
    builder.push(0, 0, Some(&[b'x'; 900]));
    assert!((1_000..2_000).contains(&builder.take().payloads.bytes.capacity()));
    (0..BlockBuilder::RECORDS_MAX as u64).for_each(|n| builder.push(1 + n, 0, Some(b"0123456789")));
    let full_bytes = builder.take().payloads.bytes.len();
    // As much as the last full block, though the one before was small, but no more than what follows.
    builder.push(20_000, 0, Some(b"x"));
    assert!(builder.take().payloads.bytes.capacity() >= full_bytes);
    builder.expect(100);
    builder.push(20_001, 0, Some(b"x"));
    assert!((100..200).contains(&builder.take().payloads.bytes.capacity()));
}

#[test]
fn bodies_keys_and_headers_are_bounded_and_say_so() {
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 0).bounded(5);
    let long = vec![b'k'; KEY_BYTES_MAX + 7];
    builder.push(0, 1, Some(b"123456789"));
    builder.key(&long);
    for name in ["a", "b", "c", "d"] {
        builder.header(name, Some(&long[..400_000]));
    }
    builder.push(1, 1, Some(b"12345"));
    builder.key(b"k");
    builder.header("e", None);
    let block = builder.take();
    assert_eq!((block.payloads.get(0), block.payloads.get(1)), (&b"12345"[..], &b"12345"[..]));
    assert_eq!((block.cut.as_slice(), block.whole_bytes(0), block.whole_bytes(1)), (&[(0, 9)][..], 9, 5));
    let keys = block.keys.as_ref().expect("there are keys");
    assert_eq!((keys.get(0).len(), keys.get(1)), (KEY_BYTES_MAX + 1, &b"k"[..]));
    let names = |row| {
        let encoded = block.headers.as_ref().expect("there are headers").get(row);
        headers(encoded).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["a", "b", HEADERS_CUT]);
    assert_eq!(names(1), ["e"]);
    let reject = crate::Reject::of(&block, 0, crate::reject::Reason::TooLarge, "", "too long".into());
    assert_eq!(reject.key.as_ref().map(Vec::len), Some(KEY_BYTES_MAX));
    assert!(reject.message.ends_with("; `key` holds its first `1048576` bytes"), "{}", reject.message);
}

#[test]
fn a_block_is_split_between_two_records_and_loses_nothing() {
    let mut b = builder().bounded(3);
    b.push(10, 5, Some(b"one"));
    b.push(14, 6, None);
    b.key(b"k");
    b.push(15, 7, Some(b"longer"));
    b.header("h", Some(b"x"));
    b.push(20, 8, Some(b"two"));
    b.skip_to(30);
    b.leader_epoch_at_end(7);
    let block = b.take();
    for row in 1..4 {
        let (first, rest) = block.split(row);
        assert_eq!((first.len(), rest.len(), rest.next), (row, 4 - row, block.next));
        assert_eq!(
            first.next,
            block.position(row),
            "where the second begins: a file has no line in front of that"
        );
        assert_eq!((first.leader_epoch, rest.leader_epoch), (NO_LEADER_EPOCH, 7), "of the end alone");
        for at in &block.positions {
            let of = if *at < block.positions[row] { &first } else { &rest };
            let (one, whole) = (of.one((*at).into()).unwrap(), block.one((*at).into()).unwrap());
            assert_eq!((one.payloads, one.absent, one.cut), (whole.payloads, whole.absent, whole.cut));
            assert_eq!((one.keys, one.headers, one.times_ms), (whole.keys, whole.headers, whole.times_ms));
        }
    }
}
