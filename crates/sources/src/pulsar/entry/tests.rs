use dataflow::block::headers;
use dataflow::{Partition, position};
use prost::Message as _;

use super::super::frame::Frame;
use super::super::messages::{self, Command, Delivery, Kind, MessageId, SingleMetadata};
use super::*;

/// What a client of another make has published, as a broker (4.0.8) delivered it: frames without their length, by the codec.
const GOLDEN: &str = include_str!("golden.txt");

const AT: Entry = Entry { ledger: 7, entry: 3 };

fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    };
    GOLDEN.lines().filter_map(|line| line.split_once(' ')).map(|(name, hex)| (name, bytes(hex))).collect()
}

/// A record as these tests compare it: place, time, body, key, headers.
type Seen = (u64, i64, Option<Vec<u8>>, Vec<u8>, Vec<(String, Vec<u8>)>);

fn seen(block: &RecordBlock) -> Vec<Seen> {
    let row = |row: usize| {
        let of = |spans: &Option<dataflow::Spans>| {
            spans.as_ref().map(|spans| spans.get(row).to_vec()).unwrap_or_default()
        };
        let pairs = of(&block.headers);
        let pairs =
            headers(&pairs).map(|(name, value)| (name.to_owned(), value.unwrap_or_default().to_vec()));
        let body = (!block.absent.contains(&(row as u32))).then(|| block.payloads.get(row).to_vec());
        (block.positions[row], block.times_ms[row], body, of(&block.keys), pairs.collect())
    };
    (0..block.len()).map(row).collect()
}

fn read(body: &[u8], from: u64) -> Result<(u64, Vec<Seen>, dataflow::Position), EntryError> {
    let mut block = BlockBuilder::new(Partition::new("t", 0), AT.position());
    let (mut scratch, mut all) = (Vec::new(), Vec::new());
    let mut entries = Entries { block: &mut block, scratch: &mut scratch, bytes_max: 1 << 20, naming: None };
    let Read::Messages(messages) = entries.read(AT, body, from, &mut |full| all.extend(seen(&full)))? else {
        return Ok((0, Vec::new(), 0));
    };
    let rest = block.take();
    all.extend(seen(&rest));
    Ok((messages, all, rest.next))
}

/// An entry as a producer sends it.
fn entry(metadata: &messages::Metadata, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::write_entry(&mut frame, &frame::ping(), &metadata.encode_to_vec(), payload);
    frame.split_off(8 + frame::ping().encoded_len())
}

fn plain() -> messages::Metadata {
    messages::Metadata { producer: "p".into(), publish_time: 5, ..Default::default() }
}

fn single(payload: &[u8], more: SingleMetadata) -> Vec<u8> {
    let single = SingleMetadata { payload_bytes: payload.len() as i32, ..more };
    [&(single.encoded_len() as u32).to_be_bytes()[..], &single.encode_to_vec(), payload].concat()
}

#[test]
fn batches_of_another_client_are_read_whatever_packs_them() {
    for (name, frame) in golden() {
        let Ok(Frame::Delivery { consumer, entry, body }) = frame::read(&frame) else {
            panic!("{name}: a delivery")
        };
        assert_eq!((consumer, entry.entry), (1, 0), "{name}");
        let (messages, all, next) = read(body, 0).expect("is read");
        assert_eq!(next, AT.end(), "{name}");
        if name == "single" {
            let headers = vec![("p".to_owned(), b"v".to_vec())];
            let alone = (3 << 24, 1_700_000_000_999, Some(b"alone".to_vec()), b"key".to_vec(), headers);
            assert_eq!((messages, all), (1, vec![alone]));
            continue;
        }
        assert_eq!(messages, 4, "{name}");
        let published_ms = all[0].1;
        assert!(published_ms > 1_700_000_000_000, "{name}: {published_ms}");
        let headers = vec![("a".to_owned(), b"1".to_vec()), ("b".to_owned(), Vec::new())];
        let first = b"first body of the batch, first body of the batch".to_vec();
        assert_eq!(all[0], (3 << 24, published_ms, Some(first), b"k1".to_vec(), headers), "{name}");
        let rest: Vec<_> =
            all[1..].iter().map(|record| (record.0 & 0xff, record.1, record.2.as_deref())).collect();
        let expected: [(u64, i64, Option<&[u8]>); 3] = [
            (1, 1_700_000_000_123, Some(b"second")),
            (2, published_ms, Some(b"")),
            (3, published_ms, Some(b"\xff\x00\x01")),
        ];
        assert_eq!(rest, expected, "{name}");
        // A batch that was read in part is read on behind that.
        for from in 0..5 {
            assert_eq!(
                read(body, from).expect("is read").1,
                all[(from as usize).min(4)..],
                "{name} from {from}"
            );
        }
    }
}

/// The records of a block are of one schema, and a block says of which.
#[test]
fn a_block_ends_where_the_schema_changes() {
    let mut block = BlockBuilder::new(Partition::new("a/b/c", 0), AT.position());
    let (mut scratch, mut blocks) = (Vec::new(), Vec::new());
    let mut naming = Naming::new("a/b/c".into());
    let versions: [Option<u64>; 6] = [None, Some(0), Some(0), Some(1), None, Some(1)];
    for (n, version) in versions.into_iter().enumerate() {
        let schema_version = version.map(|version| version.to_be_bytes().to_vec());
        let metadata = messages::Metadata { messages: Some(2), schema_version, ..plain() };
        let payload = [single(b"x", Default::default()), single(b"y", Default::default())].concat();
        let naming = Some(&mut naming);
        let mut entries = Entries { block: &mut block, scratch: &mut scratch, bytes_max: 1 << 20, naming };
        let at = Entry { entry: AT.entry + n as u64, ..AT };
        entries.read(at, &entry(&metadata, &payload), 0, &mut |full| blocks.push(full)).expect("is read");
    }
    blocks.push(block.take());
    let shown: Vec<_> = blocks.iter().map(|block| (block.schema.as_deref(), block.len())).collect();
    let (zero, one) = (Some("a/b/c:0"), Some("a/b/c:1"));
    assert_eq!(shown, [(None, 2), (zero, 4), (one, 2), (None, 2), (one, 2)]);
    assert!(blocks.windows(2).all(|pair| pair[0].next == pair[1].position(0)), "nothing between them");
}

#[test]
fn what_cannot_be_read_is_refused_and_says_what_to_do() {
    let encrypted = messages::Metadata { encryption_keys: vec![Default::default()], ..plain() };
    let why = read(&entry(&encrypted, b"x"), 0).expect_err("is encrypted").to_string();
    assert!(why.contains("encrypted") && why.contains("publish without encryption"), "{why}");
    let chunk = messages::Metadata { chunks: Some(2), chunk: Some(0), ..plain() };
    // Its other chunks come, and nothing was read.
    assert_eq!(read(&entry(&chunk, b"x"), 0).expect("a chunk"), (0, Vec::new(), 0));
    let only = messages::Metadata { chunks: Some(1), chunk: Some(0), ..plain() };
    assert_eq!(read(&entry(&only, b"x"), 0).expect("is whole").1.len(), 1);
    let many = messages::Metadata { messages: Some(i32::MAX), ..plain() };
    assert!(matches!(read(&entry(&many, b"x"), 0), Err(EntryError::TooMany(_))));
    let lies = messages::Metadata { messages: Some(3), ..plain() };
    assert!(matches!(read(&entry(&lies, &single(b"x", Default::default())), 0), Err(EntryError::Malformed)));
    let mut damaged = entry(&plain(), b"x");
    *damaged.last_mut().expect("a byte") ^= 1;
    assert!(matches!(read(&damaged, 0), Err(EntryError::Frame(FrameError::Checksum))));
}

/// The position that is printed is the one that `reset` reads, and a partition that stands there skips the entry unread.
#[test]
fn the_way_behind_an_entry_that_cannot_be_read_leads_behind_it() {
    let (partition, at) = (Partition::new("public/default/orders", 3), Entry { ledger: 17, entry: 4 });
    let way = way_behind(&partition, at);
    let to = way.split('\'').nth(1).expect("what stands behind --to");
    let (named, next) = to.split_once('=').expect("a partition and its position");
    assert_eq!(named, "public/default/orders/3");
    let next = position::parse(next).expect("a position");
    assert_eq!((next, Entry::at(next)), (at.end(), Entry { ledger: 17, entry: 5 }));
}

#[test]
fn a_message_without_a_body_and_one_that_was_compacted_away_keep_their_places() {
    let null = SingleMetadata {
        is_null: Some(true),
        key: Some("a2V5".into()),
        is_key_base64: Some(true),
        ..Default::default()
    };
    let batch =
        [single(b"a", Default::default()), single(b"", null), single(b"c", Default::default())].concat();
    let metadata = messages::Metadata { messages: Some(3), ..plain() };
    let (_, all, _) = read(&entry(&metadata, &batch), 0).expect("is read");
    let places: Vec<_> = all.iter().map(|record| (record.0, record.2.as_deref())).collect();
    let at = 3 << 24;
    assert_eq!(places, [(at, Some(&b"a"[..])), (at + 1, None), (at + 2, Some(b"c"))]);
    assert_eq!(all[1].3, b"key", "the key was written in Base64");
    // Field 4 of a single metadata: compacted out.
    let mut out = single(b"", Default::default());
    let length = u32::from_be_bytes(out[..4].try_into().expect("four")) + 2;
    out.splice(..4, length.to_be_bytes());
    out.extend([0x20, 1]);
    let batch = [single(b"a", Default::default()), out, single(b"c", Default::default())].concat();
    let (messages, all, _) = read(&entry(&metadata, &batch), 0).expect("is read");
    assert_eq!((messages, all.len(), all[1].0), (3, 2, at + 2));
}

#[test]
fn a_key_that_says_it_is_in_base64_and_is_not_holds_nothing_up() {
    let of = |key: &str| SingleMetadata {
        key: Some(key.into()),
        is_key_base64: Some(true),
        ..SingleMetadata::default()
    };
    let keys = ["a2V5", "a2V5cw==", "a2V5cw", "no base64!", "a2V5"];
    let batch: Vec<u8> = keys.into_iter().flat_map(|key| single(b"x", of(key))).collect();
    let metadata = messages::Metadata { messages: Some(5), ..plain() };
    let (_, all, _) = read(&entry(&metadata, &batch), 0).expect("is read");
    let read: Vec<_> = all.iter().map(|record| String::from_utf8_lossy(&record.3).into_owned()).collect();
    assert_eq!(read, ["key", "keys", "keys", "no base64!", "key"]);
}

#[test]
fn a_message_of_a_batch_has_its_own_event_time_before_that_of_the_batch() {
    let at = |event_time| SingleMetadata { event_time, ..Default::default() };
    let batch = [single(b"a", at(Some(7))), single(b"b", at(None)), single(b"c", at(Some(900)))].concat();
    let times = |event_time| {
        let metadata = messages::Metadata { messages: Some(3), event_time, ..plain() };
        let (_, all, _) = read(&entry(&metadata, &batch), 0).expect("is read");
        all.iter().map(|record| record.1).collect::<Vec<_>>()
    };
    assert_eq!(times(Some(800)), [7, 800, 900]);
    assert_eq!(times(None), [7, 5, 900], "the time of publishing stands in");
}

#[test]
fn fuzz_pulsar_frames_and_entries() {
    let delivery =
        Delivery { consumer: 1, id: Some(MessageId { ledger: 7, entry: 3, ..Default::default() }) };
    let command = Command { kind: Kind::Message as i32, message: Some(delivery), ..Command::default() };
    let mut whole = Vec::new();
    frame::write_entry(&mut whole, &command, &plain().encode_to_vec(), b"body");
    let examples = golden().into_iter().map(|(_, frame)| frame).chain([whole.split_off(4)]);
    testkit::Fuzz::new("pulsar entries").examples(examples).memory_max(16 << 20, 1 << 10).run(
        10_000,
        |bytes| {
            let Ok(Frame::Delivery { body, .. }) = frame::read(bytes) else { return };
            let _ = read(body, 0);
            // The same with a checksum that agrees, or nothing behind it would be reached.
            let mut summed = body.to_vec();
            if summed.len() > 6 {
                let sum = crc32c::crc32c(&summed[6..]);
                summed[2..6].copy_from_slice(&sum.to_be_bytes());
                if let Ok((_, all, _)) = read(&summed, 0) {
                    assert!(all.is_sorted_by_key(|record| record.0), "places ascend");
                    assert!(position::low(AT.end()) > all.last().map_or(0, |record| record.0));
                }
            }
        },
    );
}
