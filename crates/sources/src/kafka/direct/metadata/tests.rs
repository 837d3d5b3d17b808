//! Requests are read, and answers made, by another implementation of the protocol.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use super::*;

#[test]
fn a_question_names_every_topic_and_makes_none() {
    let mut out = vec![9; 3];
    request(&mut out, 42, "forebay", &["a".to_owned(), "b.c".to_owned()]);
    let mut bytes = Bytes::copy_from_slice(&out[4..]);
    assert_eq!(out[..4], (out.len() as u32 - 4).to_be_bytes());
    let header =
        RequestHeader::decode(&mut bytes, MetadataRequest::header_version(VERSION)).expect("a header");
    assert_eq!((header.request_api_key, header.request_api_version, header.correlation_id), (3, 12, 42));
    let request = MetadataRequest::decode(&mut bytes, VERSION).expect("a question");
    assert!(bytes.is_empty() && !request.allow_auto_topic_creation);
    let names =
        request.topics.expect("topics").into_iter().map(|topic| topic.name.expect("a name").to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b.c"]);
}

fn encoded() -> Vec<u8> {
    let broker = |node: i32, host: &'static str| {
        let host = StrBytes::from_static_str(host);
        MetadataResponseBroker::default().with_node_id(node.into()).with_host(host).with_port(9092)
    };
    let partition = |index, leader: i32, epoch, error| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(leader.into())
            .with_leader_epoch(epoch)
            .with_error_code(error)
            .with_replica_nodes(vec![1.into(), 2.into()])
    };
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str("t"))))
        .with_topic_id("07".repeat(16).parse().expect("an id"))
        .with_partitions(vec![partition(0, 2, 6, 0), partition(1, -1, 7, 5), partition(2, 9, 1, 0)]);
    let response = MetadataResponse::default()
        .with_brokers(vec![broker(1, "one"), broker(2, "fd00::2")])
        .with_topics(vec![topic]);
    let mut bytes = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(1);
    header.encode(&mut bytes, MetadataResponse::header_version(VERSION)).expect("encodes");
    response.encode(&mut bytes, VERSION).expect("encodes");
    bytes.to_vec()
}

#[test]
fn an_answer_tells_brokers_and_each_leader_with_its_epoch() {
    let got = answer(&encoded()).expect("reads");
    assert_eq!(got.brokers, ["one:9092", "[fd00::2]:9092"]);
    // Those without a leader, or with one that nobody knows, are left out.
    let leader = Leader { topic: [7; 16], partition: 0, epoch: 6, address: "[fd00::2]:9092".into() };
    assert_eq!(got.leaders, [leader]);
}

#[test]
fn fuzz_a_damaged_answer_is_an_error_and_never_a_panic() {
    let whole = encoded();
    for end in 0..whole.len() {
        let _ = answer(&whole[..end]);
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let _ = answer(&damaged);
        }
    }
}
