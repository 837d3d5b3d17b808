use prost::Message;
use testkit::peak_bytes;

use super::super::{Body, Checkpoint, LaneImage, MAGIC, Record, RecordError};
use super::*;

/// Tags that messages may have in the years to come.
const TAGS: std::ops::RangeInclusive<u32> = 1..=48;

/// Entries of a forged list: enough for a record that is counted, and just so many that the list has grown once more.
const ENTRIES: usize = (1 << 13) + 1;

/// A field that holds `content`.
fn field(tag: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut number in [u64::from(tag << 3 | 2), content.len() as u64] {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// `content` in the message that `path` leads to.
fn inside(path: &[u32], content: Vec<u8>) -> Vec<u8> {
    path.iter().rev().fold(content, |content, tag| field(*tag, &content))
}

/// True if the decoder takes the field for a message: nothing is one, and what no message begins with is not.
fn is_message(path: &[u32], tag: u32) -> bool {
    let decodes = |content: &[u8]| Record::decode(&*inside(path, field(tag, content))).is_ok();
    decodes(&[]) && !decodes(&[0x07])
}

/// Every way to a message of a record, as the decoder shows them.
fn messages() -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        let inner = TAGS.filter(|tag| is_message(&path, *tag));
        found.extend(inner.map(|tag| [path.as_slice(), &[tag]].concat()));
    }
    found
}

fn record(message: &[u8]) -> Vec<u8> {
    let mut bytes = [&MAGIC, message].concat();
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a record of so many bytes may take at one time: its lists may move while they grow.
fn most(bytes: usize) -> usize {
    3 * (SMALL + EACH * bytes as u64) as usize
}

/// Also of messages that are added later, whoever forgets them here.
#[test]
fn no_list_of_a_record_takes_more_memory_than_its_bytes_allow() {
    let messages = messages();
    assert!(messages.len() > 50 && messages.contains(&vec![16, 1, 4, 6, 8]), "{messages:?}");
    for path in messages {
        for tag in TAGS {
            for content in [&[][..], &[0]] {
                let forged = record(&inside(&path, field(tag, content).repeat(ENTRIES)));
                let (_, peak) = peak_bytes(|| drop(Record::from_bytes(0, &forged)));
                assert!(peak <= most(forged.len()), "{path:?} {tag}: {peak} bytes for {}", forged.len());
            }
        }
    }
}

/// What the lists and texts of a record take, as they are counted.
fn weight(record: &[u8]) -> u64 {
    let mut left = u64::MAX;
    weigh(record, RECORD, &mut left).expect("there is no bound");
    u64::MAX - left
}

/// So a record that is short enough need not be counted.
#[test]
fn no_record_takes_more_for_each_of_its_bytes_than_the_heaviest_entry() {
    let mut heaviest = 0;
    for path in messages() {
        for tag in TAGS {
            for content in [&[][..], &[0], &[1; 100]] {
                let one = field(tag, content);
                let fits = LIGHT_BYTES_MAX as usize - path.len() * 4;
                let light = inside(&path, one.repeat(fits / one.len()));
                let length = light.len() as u64;
                assert!(length <= LIGHT_BYTES_MAX, "{path:?} {tag}: {length} bytes");
                assert!(weight(&light) <= each_max(RECORD) * length, "{path:?} {tag}: {}", weight(&light));
                assert!(weight(&light) <= SMALL + EACH * length, "{path:?} {tag}: {}", weight(&light));
                // And as the decoder does it, which takes what it is given.
                let (decoded, peak) = peak_bytes(|| Record::decode(&*light).is_ok());
                assert!(peak <= most(light.len()), "{path:?} {tag}: {peak} bytes for {length}");
                heaviest = heaviest.max(if decoded { weight(&light) } else { 0 });
            }
        }
    }
    // The bound is no larger than it must be: pieces in a checkpoint come near it.
    assert!(heaviest * 10 > 9 * (SMALL + EACH * LIGHT_BYTES_MAX), "{heaviest}");
}

#[test]
fn a_record_of_millions_of_empty_entries_is_damaged_and_takes_no_memory() {
    // Pieces of a table in a checkpoint: the largest entries that there are.
    let forged = record(&inside(&[16, 1, 4], [6 << 3 | 2, 0].repeat(4 << 20)));
    let (result, peak) = peak_bytes(|| Record::from_bytes(0, &forged));
    assert!(matches!(result, Err(RecordError::Damaged { .. })), "{result:?}");
    assert!(peak < 1 << 10, "{peak} bytes");
}

#[test]
fn lists_of_zeros_that_the_program_writes_are_read() {
    let lane = LaneImage {
        tables: vec![TableImage { pending: vec![PieceImage::default(); 100], ..TableImage::default() }; 1],
        forgotten: vec![Forgotten::default(); 5_000],
        times_ms_max: vec![0; 10_000],
        ..LaneImage::default()
    };
    let body = Body::Checkpoint(Checkpoint { lane: Some(lane), ..Checkpoint::default() });
    let record = Record { body: Some(body), ..Record::default() };
    assert_eq!(Record::from_bytes(0, &record.to_bytes()).as_ref(), Ok(&record));
}
