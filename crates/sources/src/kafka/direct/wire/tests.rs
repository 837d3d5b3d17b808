//! Requests are read, and answers made, by another implementation of the protocol.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds =
    Bounds { wait_ms: 500, bytes_min: 1, bytes_max: 16 << 20, partition_bytes_max: 4 << 20 };

fn wanted(topic: u8, partition: i32, offset: i64) -> Wanted {
    Wanted { topic: [topic; 16], partition, offset, epoch: partition - 1 }
}

/// Splits a request into its header and body, and checks its length.
fn framed(request: &[u8], header_version: i16) -> (RequestHeader, Bytes) {
    let mut bytes = Bytes::copy_from_slice(request);
    let len = u32::from_be_bytes(bytes.split_to(4)[..].try_into().expect("four")) as usize;
    assert_eq!(len, bytes.len());
    let header = RequestHeader::decode(&mut bytes, header_version).expect("a header");
    (header, bytes)
}

#[test]
fn a_fetch_says_what_is_wanted_in_every_version() {
    let all = [wanted(1, 0, 7), wanted(1, 3, 1 << 40), wanted(2, 0, 0)];
    for version in FETCH_VERSIONS {
        let mut out = vec![9; 3];
        fetch(&mut out, version, 42, "forebay", BOUNDS, &all);
        let (header, mut body) = framed(&out, FetchRequest::header_version(version));
        assert_eq!(
            (header.request_api_key, header.request_api_version, header.correlation_id),
            (1, version, 42)
        );
        assert_eq!(header.client_id.as_deref(), Some("forebay"));
        let request = FetchRequest::decode(&mut body, version).expect("a fetch");
        assert!(body.is_empty());
        assert_eq!(request.replica_id.0, -1);
        assert_eq!((request.max_wait_ms, request.min_bytes, request.max_bytes), (500, 1, 16 << 20));
        assert_eq!((request.isolation_level, request.session_id, request.session_epoch), (1, 0, -1));
        let got: Vec<Wanted> = request
            .topics
            .iter()
            .flat_map(|topic| {
                topic.partitions.iter().map(|p| {
                    assert_eq!(
                        (p.current_leader_epoch, p.log_start_offset, p.partition_max_bytes),
                        (-1, -1, 4 << 20)
                    );
                    let topic = *topic.topic_id.as_bytes();
                    Wanted {
                        topic,
                        partition: p.partition,
                        offset: p.fetch_offset,
                        epoch: p.last_fetched_epoch,
                    }
                })
            })
            .collect();
        assert_eq!((request.topics.len(), got.as_slice()), (2, all.as_slice()));
    }
}

#[test]
fn the_newest_version_that_both_know_is_spoken() {
    let mut out = Vec::new();
    api_versions(&mut out, 7, "forebay");
    let (header, mut body) = framed(&out, ApiVersionsRequest::header_version(0));
    assert_eq!((header.request_api_key, header.correlation_id), (18, 7));
    ApiVersionsRequest::decode(&mut body, 0).expect("the request");
    for (oldest, newest, spoken) in
        [(0, 18, Some(16)), (4, 15, Some(15)), (0, 13, Some(13)), (0, 12, None), (17, 20, None)]
    {
        let known = |key, min, max| {
            ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max)
        };
        let answer = ApiVersionsResponse::default().with_api_keys(vec![
            known(0, 0, 9),
            known(1, oldest, newest),
            known(18, 0, 3),
        ]);
        let mut bytes = BytesMut::new();
        ResponseHeader::default().with_correlation_id(7).encode(&mut bytes, 0).expect("encodes");
        answer.encode(&mut bytes, 0).expect("encodes");
        assert_eq!(fetch_version(&bytes), Ok(spoken), "{oldest} to {newest}");
    }
    assert_eq!(fetch_version(&[0; 5]), Err(Malformed));
}

fn encoded(response: &FetchResponse, version: i16) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(1);
    header.encode(&mut bytes, FetchResponse::header_version(version)).expect("encodes");
    response.encode(&mut bytes, version).expect("encodes");
    bytes.to_vec()
}

fn partition(index: i32, error: i16, records: Option<&'static [u8]>) -> PartitionData {
    let data = PartitionData::default().with_partition_index(index).with_error_code(error);
    data.with_high_watermark(90).with_last_stable_offset(80).with_records(records.map(Bytes::from_static))
}

fn topic(id: u8, partitions: Vec<PartitionData>) -> FetchableTopicResponse {
    FetchableTopicResponse::default()
        .with_topic_id(format!("{id:02x}").repeat(16).parse().expect("an id"))
        .with_partitions(partitions)
}

fn response() -> FetchResponse {
    let aborted = AbortedTransaction::default().with_producer_id(5.into()).with_first_offset(70);
    let cut = EpochEndOffset::default().with_epoch(2).with_end_offset(60);
    FetchResponse::default().with_responses(vec![
        topic(
            1,
            vec![
                partition(0, 0, Some(b"records of one")).with_aborted_transactions(Some(vec![aborted])),
                partition(4, 6, None),
            ],
        ),
        topic(2, vec![partition(0, 0, Some(b"")).with_diverging_epoch(cut)]),
    ])
}

#[test]
fn an_answer_tells_records_errors_transactions_and_cut_logs() {
    for version in FETCH_VERSIONS {
        let bytes = encoded(&response(), version);
        let got = answer(&bytes).expect("reads");
        assert_eq!((got.error, got.partitions.len()), (0, 3));
        let [one, moved, cut] = got.partitions.as_slice() else { panic!("three partitions") };
        assert_eq!((one.topic, one.partition, one.error, one.stable), ([1; 16], 0, 0, 80));
        assert_eq!(
            (&bytes[one.records.clone()], one.aborted.as_slice()),
            (&b"records of one"[..], &[(5, 70)][..])
        );
        assert_eq!((moved.partition, moved.error, moved.records.len(), moved.is_cut), (4, 6, 0, false));
        assert_eq!((cut.topic, cut.is_cut, one.is_cut), ([2; 16], true, false));
    }
}

proptest! {
    #[test]
    fn a_damaged_answer_is_an_error_and_never_a_panic(
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = encoded(&response(), 16);
        for (place, byte) in noise {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let cut = cut.index(bytes.len());
        if let Ok(answer) = answer(&bytes[..cut]) {
            for partition in answer.partitions {
                prop_assert!(partition.records.end <= cut);
            }
        }
    }
}

#[test]
fn fuzz_answer_of_a_broker() {
    let examples = FETCH_VERSIONS.map(|version| encoded(&response(), version));
    testkit::Fuzz::new("answer of a broker").examples(examples).memory_max(16 << 10, 32).run(
        20_000,
        |bytes| {
            let _ = fetch_version(bytes);
            let Ok(answer) = answer(bytes) else { return };
            for partition in answer.partitions {
                let _ = &bytes[partition.records];
            }
        },
    );
}
