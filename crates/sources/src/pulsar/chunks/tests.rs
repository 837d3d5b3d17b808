use proptest::prelude::*;
use prost::Message as _;

use super::super::messages;
use super::*;

/// An entry of a topic, as a broker sends it.
fn entry(metadata: &messages::Metadata, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::write_entry(&mut frame, &frame::ping(), &metadata.encode_to_vec(), payload);
    frame.split_off(8 + frame::ping().encoded_len())
}

fn of(producer: &str, sequence: u64) -> messages::Metadata {
    messages::Metadata { producer: producer.into(), sequence, publish_time: 5, ..Default::default() }
}

fn piece(producer: &str, sequence: u64, (index, chunks): (i32, i32), payload: &str) -> Vec<u8> {
    let metadata = messages::Metadata {
        uuid: Some(format!("{producer}-{sequence}")),
        chunk: Some(index),
        chunks: Some(chunks),
        chunked_bytes: Some(payload.len() as i32 * chunks),
        ..of(producer, sequence)
    };
    entry(&metadata, payload.as_bytes())
}

fn whole(producer: &str, sequence: u64, payload: &str) -> Vec<u8> {
    entry(&of(producer, sequence), payload.as_bytes())
}

const BOUNDS: (usize, usize) = (100, 1_000);

fn at(entry: usize) -> Entry {
    Entry { ledger: 7, entry: entry as u64 }
}

/// What a reader is given that begins with the entry `from` of a topic: where each message stands, and its body.
fn read(topic: &[Vec<u8>], from: usize) -> (Vec<(usize, String)>, Chunks) {
    let (mut chunks, mut out) = (Chunks::default(), Vec::new());
    for (n, body) in topic.iter().enumerate().skip(from) {
        let says = chunk(body).expect("it is well formed");
        if chunks.is_empty() && says.chunks <= 1 {
            out.push((n, String::from_utf8(says.payload.to_vec()).expect("text")));
            continue;
        }
        chunks.take((at(n), body, 0), says, BOUNDS).expect("there is room");
        while let Some(item) = chunks.ready() {
            let (place, payload) = match item {
                Item::Entry(at, body, _) => (at, chunk(&body).expect("it was read before").payload.to_vec()),
                Item::Message(message) => (message.first, message.payload),
            };
            out.push((place.entry as usize, String::from_utf8(payload).expect("text")));
        }
    }
    (out, chunks)
}

fn given(items: &[(usize, &str)]) -> Vec<(usize, String)> {
    items.iter().map(|(at, text)| (*at, (*text).to_owned())).collect()
}

#[test]
fn a_message_stands_where_its_first_chunk_does_and_others_wait_behind_it() {
    let topic = [
        whole("b", 0, "before"),
        piece("a", 0, (0, 3), "x"),
        whole("b", 1, "between"),
        piece("a", 0, (1, 3), "y"),
        piece("c", 0, (0, 2), "1"),
        piece("a", 0, (1, 3), "y"),
        piece("a", 0, (2, 3), "z"),
        piece("c", 0, (1, 2), "2"),
        whole("a", 1, "after"),
    ];
    let expected = [(0, "before"), (1, "xyz"), (2, "between"), (4, "12"), (8, "after")];
    let (all, mut chunks) = read(&topic, 0);
    assert_eq!((all, chunks.is_empty()), (given(&expected), true));
    assert_eq!(chunks.given_up(), []);
    // While it is incomplete nothing behind it is handed out, and a reading that breaks off begins with it.
    let (some, chunks) = read(&topic[..6], 0);
    assert_eq!((some, chunks.front()), (given(&expected[..1]), Some(at(1))));
    // What was read is not read again by one that begins in the middle of its chunks.
    assert_eq!(read(&topic, 2).0, given(&expected[2..]));
    assert_eq!(read(&topic, 5).0, given(&expected[4..]));
}

#[test]
fn the_chunks_of_two_messages_of_one_name_are_never_put_together() {
    // A producer died in the middle of a message, was started again, and counts from 0 again.
    let died = [
        piece("a", 0, (0, 3), "old."),
        piece("a", 0, (1, 3), "old."),
        whole("b", 0, "between"),
        piece("a", 0, (0, 3), "new."),
        piece("a", 0, (1, 3), "new."),
        whole("b", 1, "after"),
        piece("a", 0, (2, 3), "new."),
    ];
    let expected = [(2, "between"), (3, "new.new.new."), (5, "after")];
    let (all, mut chunks) = read(&died, 0);
    assert_eq!((all, chunks.is_empty(), chunks.given_up()), (given(&expected), true, vec![]));
    // Another reading that breaks off behind what was handed out sees the same.
    let (some, chunks) = read(&died[..5], 0);
    assert_eq!((some, chunks.front()), (given(&expected[..1]), Some(at(3))));
    assert_eq!(read(&died, 3).0, given(&expected[1..]));
    // The one before was whole, and waits only for somebody else's.
    let waits = [
        piece("c", 0, (0, 2), "1"),
        piece("a", 0, (0, 2), "old."),
        piece("a", 0, (1, 2), "old."),
        piece("a", 0, (0, 2), "new."),
        piece("a", 0, (1, 2), "new."),
        piece("c", 0, (1, 2), "2"),
    ];
    let expected = [(0, "12"), (1, "old.old."), (3, "new.new.")];
    let (all, chunks) = read(&waits, 0);
    assert_eq!((all, chunks.is_empty()), (given(&expected), true));
}

#[test]
fn a_message_that_will_not_become_whole_is_given_up() {
    let later = [piece("a", 0, (0, 2), "x"), whole("b", 9, "other"), whole("a", 1, "later")];
    let (all, mut chunks) = read(&later, 0);
    assert_eq!(all, given(&[(1, "other"), (2, "later")]));
    assert_eq!(chunks.given_up(), [(at(0), "its producer has sent a later message")]);
    // A producer that connects again sends what was not answered once more.
    let earlier = [
        whole("a", 0, "first"),
        piece("a", 1, (0, 2), "x"),
        whole("a", 0, "first"),
        piece("a", 1, (1, 2), "y"),
    ];
    assert_eq!(read(&earlier, 0).0, given(&[(0, "first"), (1, "xy"), (2, "first")]));
    let gap = [piece("a", 0, (0, 3), "x"), piece("a", 0, (2, 3), "z"), whole("b", 1, "on")];
    let (all, mut chunks) = read(&gap, 0);
    assert_eq!((all, chunks.given_up()), (given(&[(2, "on")]), vec![(at(0), "a chunk of it is missing")]));

    let second = Duration::from_secs(1);
    let (_, mut chunks) = read(&later[..2], 0);
    // An answer that has waited for the reader says nothing of what was stored since it was asked for.
    chunks.silent(second, SILENCE_MAX * 9);
    chunks.silent(SILENCE_MAX * 9 + second, SILENCE_MAX * 10);
    assert_eq!(chunks.ready(), None);
    chunks.silent(SILENCE_MAX * 10, SILENCE_MAX * 10);
    assert_eq!(chunks.ready(), None, "it has lasted for a minute, and no longer");
    chunks.silent(SILENCE_MAX * 10 + second, SILENCE_MAX * 10 + second);
    assert!(matches!(chunks.ready(), Some(Item::Entry(place, ..)) if place == at(1)));
    assert_eq!(chunks.given_up(), [(at(0), SILENT)]);
}

const SILENT: &str = "no more of it came for a minute";
const BEHIND: &str = "no more of it came while others published for ten minutes";

/// The chunks take an entry; there is room for it.
fn take(chunks: &mut Chunks, n: usize, body: &[u8]) {
    chunks.take((at(n), body, 0), chunk(body).expect("it is well formed"), BOUNDS).expect("there is room");
}

/// The places of all that can be read.
fn places(chunks: &mut Chunks) -> Vec<u64> {
    let place = |item: Item| match item {
        Item::Entry(at, ..) => at.entry,
        Item::Message(message) => message.first.entry,
    };
    std::iter::from_fn(|| chunks.ready()).map(place).collect()
}

#[test]
fn what_others_send_does_not_restart_the_wait_for_a_message() {
    let seconds = Duration::from_secs;
    let mut chunks = Chunks::default();
    take(&mut chunks, 0, &piece("a", 0, (0, 2), "x"));
    chunks.silent(seconds(1), seconds(1));
    for n in 1..=6 {
        take(&mut chunks, n, &whole("b", n as u64, "on"));
        chunks.silent(seconds(10 * n as u64), seconds(10 * n as u64));
        assert!(places(&mut chunks).is_empty(), "{n}");
    }
    take(&mut chunks, 7, &piece("c", 0, (0, 3), "x"));
    chunks.silent(seconds(62), seconds(62));
    assert_eq!(chunks.given_up(), [(at(0), SILENT)]);
    assert_eq!(places(&mut chunks), [1, 2, 3, 4, 5, 6], "what came behind it up to the next one");
    // A chunk of it restarts the wait, and that for no other message.
    take(&mut chunks, 8, &piece("d", 0, (0, 2), "x"));
    chunks.silent(seconds(63), seconds(63));
    take(&mut chunks, 9, &piece("c", 0, (1, 3), "x"));
    chunks.silent(seconds(120), seconds(120));
    chunks.silent(seconds(124), seconds(124));
    assert_eq!(chunks.given_up(), [(at(8), SILENT)]);
    chunks.silent(seconds(181), seconds(181));
    assert_eq!(chunks.given_up(), [(at(7), SILENT)]);
    assert!(chunks.is_empty());
}

#[test]
fn a_message_is_given_up_once_a_producer_has_published_behind_it_for_ten_minutes() {
    let minutes = |minutes: u64| 60_000 * minutes;
    let begun = minutes(1_000);
    let at_time = |producer: &str, sequence, publish_time| {
        entry(&messages::Metadata { publish_time, ..of(producer, sequence) }, b"on")
    };
    let begin = |publish_time| {
        let metadata = messages::Metadata {
            uuid: Some("a-0".into()),
            chunk: Some(0),
            chunks: Some(2),
            publish_time,
            ..of("a", 0)
        };
        entry(&metadata, b"x")
    };
    let mut chunks = Chunks::default();
    take(&mut chunks, 0, &begin(begun));
    // A clock that is ahead by a day; what another cluster has published long ago and replicates now.
    let sent = [
        ("ahead", minutes(2_440)),
        ("ahead", minutes(2_449)),
        ("replicated", minutes(10)),
        ("replicated", minutes(900)),
        ("b", begun + 1),
        ("b", minutes(1_010)),
    ];
    for (n, (producer, publish_time)) in sent.into_iter().enumerate() {
        take(&mut chunks, n + 1, &at_time(producer, n as u64, publish_time));
        assert_eq!(chunks.given_up(), [], "{producer} at {publish_time}");
    }
    assert!(places(&mut chunks).is_empty());
    take(&mut chunks, 7, &at_time("b", 7, minutes(1_010) + 2));
    assert_eq!(chunks.given_up(), [(at(0), BEHIND)]);
    assert_eq!(places(&mut chunks), [1, 2, 3, 4, 5, 6, 7]);
    // More producers than are compared: the others still are.
    take(&mut chunks, 8, &begin(begun));
    for n in 0..=CLOCKS_MAX {
        take(&mut chunks, 9 + n, &at_time(&format!("many-{n}"), 0, begun + 1));
    }
    take(&mut chunks, 90, &at_time(&format!("many-{CLOCKS_MAX}"), 1, minutes(1_011)));
    assert_eq!(chunks.given_up(), [], "it was not compared");
    take(&mut chunks, 91, &at_time("many-3", 1, minutes(1_011)));
    assert_eq!(chunks.given_up(), [(at(8), BEHIND)]);
}

#[test]
fn what_is_too_much_is_refused_before_memory_is_taken() {
    let mut chunks = Chunks::default();
    let mut take = |body: &[u8], n| {
        let says = chunk(body).expect("it is well formed");
        chunks.take((at(n), body, 0), says, (100, 300))
    };
    let claims = messages::Metadata {
        chunked_bytes: Some(101),
        chunks: Some(2),
        uuid: Some("u".into()),
        ..of("a", 0)
    };
    let refused = Err(NoRoom::Message { first: at(0), bytes: 101, bytes_max: 100 });
    assert_eq!(take(&entry(&claims, b"x"), 0), refused);
    // Its other chunks are passed over by who goes on behind the first one.
    let second = messages::Metadata { chunk: Some(1), ..claims };
    assert_eq!(take(&entry(&second, b"x"), 0), Ok(()));
    // One that lies about its length.
    let lies = |index| messages::Metadata {
        chunked_bytes: Some(2),
        chunk: Some(index),
        chunks: Some(9),
        uuid: Some("v".into()),
        ..of("a", 1)
    };
    assert_eq!(take(&entry(&lies(0), &[b'x'; 60]), 1), Ok(()));
    let refused = Err(NoRoom::Message { first: at(1), bytes: 120, bytes_max: 100 });
    assert_eq!(take(&entry(&lies(1), &[b'x'; 60]), 2), refused);
    assert_eq!(take(&whole("b", 0, &"y".repeat(150)), 3), Ok(()));
    let refused = take(&whole("b", 1, &"y".repeat(150)), 4).expect_err("there is no room");
    // To go on behind this one keeps what came after it.
    assert_eq!(refused, NoRoom::Behind { first: at(1), bytes_max: 300 });
    assert_eq!(refused.first(), at(1));
    assert!(refused.to_string().contains("set `memory` to more"), "{refused}");
}

#[test]
fn the_metadata_of_what_waits_takes_room_as_its_body_does() {
    let begin = |producer: &str| {
        let property = messages::KeyValue { key: "k".into(), value: "v".repeat(400) };
        let metadata = messages::Metadata {
            uuid: Some(format!("{producer}-0")),
            chunk: Some(0),
            chunks: Some(2),
            properties: vec![property],
            ..of(producer, 0)
        };
        entry(&metadata, b"x")
    };
    let mut chunks = Chunks::default();
    take(&mut chunks, 0, &begin("a"));
    take(&mut chunks, 1, &begin("b"));
    let third = begin("c");
    let says = chunk(&third).expect("it is well formed");
    let refused = chunks.take((at(2), &third, 0), says, BOUNDS).expect_err("there is no room");
    assert_eq!(refused, NoRoom::Behind { first: at(0), bytes_max: BOUNDS.1 });
    // One that is given up leaves its room.
    take(&mut chunks, 3, &whole("a", 1, "on"));
    take(&mut chunks, 4, &third);
    take(&mut chunks, 5, &whole("b", 1, "on"));
    take(&mut chunks, 6, &whole("c", 1, "on"));
    assert_eq!(places(&mut chunks), [3, 5, 6]);
    assert_eq!(chunks.bytes, 0, "all was given back");
}

/// Entries of three producers, each of which sends its messages in order, in some interleaving; some messages are in chunks, some never end.
fn topics() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let messages = prop::collection::vec((1i32..5, prop::bool::weighted(0.1)), 0..6);
    let producers = prop::collection::vec(messages, 3);
    (producers, prop::collection::vec(0usize..3, 0..80)).prop_map(|(producers, turns)| {
        let mut lines: Vec<VecDeque<Vec<u8>>> = producers
            .into_iter()
            .enumerate()
            .map(|(producer, messages)| {
                let name = ["a", "b", "c"][producer];
                let sent = messages.into_iter().enumerate().flat_map(|(sequence, (chunks, is_broken))| {
                    let sequence = sequence as u64;
                    let last = if is_broken && chunks > 1 { chunks - 1 } else { chunks };
                    (0..last).map(move |index| match chunks {
                        1 => whole(name, sequence, &format!("{name}{sequence}")),
                        _ => piece(name, sequence, (index, chunks), &format!("{name}{sequence}.{index}")),
                    })
                });
                sent.collect()
            })
            .collect();
        turns.into_iter().filter_map(|turn| lines[turn].pop_front()).collect()
    })
}

proptest! {
    /// Every message whose chunks are all there is read once, at the place of its first one, in order, wherever a reading breaks off and begins again.
    #[test]
    fn every_whole_message_is_read_once(topic in topics(), breaks in prop::collection::vec(0usize..80, 0..4)) {
        let mut expected = Vec::new();
        for (n, body) in topic.iter().enumerate() {
            let says = chunk(body).expect("it is well formed");
            if says.chunks <= 1 {
                expected.push((n, String::from_utf8(says.payload.to_vec()).expect("text")));
                continue;
            }
            let parts: Vec<String> = topic[n..].iter().filter_map(|body| {
                let own = chunk(body).expect("it is well formed");
                (own.uuid == says.uuid).then(|| String::from_utf8(own.payload.to_vec()).expect("text"))
            }).collect();
            if says.index == 0 && parts.len() as u64 == says.chunks {
                expected.push((n, parts.concat()));
            }
        }
        let (whole, chunks) = read(&topic, 0);
        let held = chunks.front().map_or(topic.len(), |at| at.entry as usize);
        let is_ready = |(at, _): &&(usize, String)| *at < held;
        prop_assert_eq!(&whole, &expected.iter().filter(is_ready).cloned().collect::<Vec<_>>());
        // What a reader has handed out by some entry is sealed, and another goes on behind it.
        let (mut from, mut read_so_far) = (0, Vec::new());
        for until in breaks.into_iter().chain([topic.len()]) {
            let until = until.clamp(from, topic.len());
            let (some, chunks) = read(&topic[..until], from);
            read_so_far.extend(some);
            from = chunks.front().map_or(until, |at| at.entry as usize).max(from);
        }
        prop_assert_eq!(read_so_far, whole);
    }
}
