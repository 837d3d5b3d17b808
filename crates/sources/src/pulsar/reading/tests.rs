use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, ReadFrom};
use prost::Message as _;

use super::super::frame;
use super::super::messages::{Metadata, SingleMetadata};
use super::*;

fn at(entry: u64) -> Entry {
    Entry { ledger: 7, entry }
}

/// An entry as a broker sends it.
fn entry(metadata: &Metadata, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_entry(&mut bytes, &frame::ping(), &metadata.encode_to_vec(), payload);
    bytes.split_off(8 + frame::ping().encoded_len())
}

fn batch(sequence: u64, messages: i32) -> Vec<u8> {
    let single = SingleMetadata { payload_bytes: 1, ..SingleMetadata::default() };
    let message = [&(single.encoded_len() as u32).to_be_bytes()[..], &single.encode_to_vec(), b"x"].concat();
    let metadata = Metadata {
        producer: "b".into(),
        sequence,
        publish_time: 5,
        messages: Some(messages),
        ..Metadata::default()
    };
    entry(&metadata, &message.repeat(messages as usize))
}

fn piece(index: i32) -> Vec<u8> {
    let metadata = Metadata {
        producer: "a".into(),
        publish_time: 5,
        uuid: Some("a-0".into()),
        chunk: Some(index),
        chunks: Some(2),
        chunked_bytes: Some(2),
        ..Metadata::default()
    };
    entry(&metadata, b"y")
}

#[test]
fn a_batch_behind_an_incomplete_message_takes_as_many_permits_as_it_has_messages() {
    let from = ReadFrom {
        partition: Partition::new("a/b/c", 0),
        identity: String::new(),
        next: at(0).position(),
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut slot = Slot::new(from, String::new(), 1 << 20);
    let options = PulsarOptions::new("pulsar://127.0.0.1:9", &["a/b/c".to_owned()], "s").expect("options");
    let (mut ready, mut scratch) = (Vec::new(), Vec::new());
    let mut reading =
        Reading { slot: &mut slot, ready: &mut ready, scratch: &mut scratch, options: &options };
    let entries = [(batch(0, 3), 3, 3), (piece(0), 1, 3), (batch(1, 1_000), 1_000, 3), (piece(1), 1, 1_004)];
    for (n, (body, permits, read)) in entries.into_iter().enumerate() {
        assert_eq!(reading.came(at(n as u64), &body, 0).expect("is read"), permits, "entry {n}");
        assert_eq!(reading.slot.block.len(), read, "entry {n}");
    }
}
