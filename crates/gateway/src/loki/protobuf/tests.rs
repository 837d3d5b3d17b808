use serde_json::Value as Json;

use super::*;
use crate::refusal::Kind;
use crate::support::{self, in_memory, options, records, roomy, start};
use crate::wire::testing::{number, sized, varint};

fn entry_of(seconds: u64, nanos: u64, line: &[u8], metadata: &[(&str, &str)]) -> Vec<u8> {
    let time = sized(1, [number(1, seconds), number(2, nanos)].concat());
    let pair = |(name, value): &(&str, &str)| {
        sized(3, [sized(1, name.as_bytes()), sized(2, value.as_bytes())].concat())
    };
    [time, sized(2, line), metadata.iter().flat_map(pair).collect()].concat()
}

fn push_of(labels: &str, entries: &[Vec<u8>]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|entry| sized(2, entry)).collect();
    sized(1, [sized(1, labels.as_bytes()), entries, number(3, 77)].concat())
}

fn parsed(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let block = entries(body, Rows::new(5, roomy(), body.len())?)?.records;
    let text = |row| String::from_utf8(block.payloads.get(row).to_vec()).expect("UTF-8");
    Ok((0..block.len()).map(text).collect())
}

#[test]
fn an_entry_is_the_same_record_as_of_json() {
    let entries = [
        entry_of(1_700_000_000, 1, b"a \"b\"\n\x01", &[]),
        entry_of(0, 2, b"c", &[("trace", "t"), ("a", "\u{fc}")]),
        entry_of(3, 0, b"", &[]),
    ];
    let body =
        [push_of(r#"{n="1", app="web"}"#, &entries), push_of("{}", &[entry_of(0, 4, b"d", &[])])].concat();
    let json = r#"{"streams":[{"stream":{"n":"1","app":"web"},"values":[["1700000000000000001","a \"b\"\n\u0001"],
        ["2","c",{"trace":"t","a":"ü"}],["3000000000",""]]},{"stream":{},"values":[["4","d"]]}]}"#;
    let by_json =
        super::super::json::entries(json.as_bytes(), Rows::new(5, roomy(), json.len()).unwrap()).unwrap();
    let text = |row| String::from_utf8(by_json.records.payloads.get(row).to_vec()).unwrap();
    let by_json: Vec<String> = (0..by_json.records.len()).map(text).collect();
    assert_eq!(parsed(&body).unwrap(), by_json);
    assert_eq!(by_json.len(), 4);
    assert_eq!(parsed(b"").unwrap(), [""; 0]);
}

#[test]
fn labels_behind_the_entries_and_pieces_of_a_timestamp_count() {
    let time = [sized(1, number(1, 1)), sized(1, number(2, 5))].concat();
    let stream = [sized(2, time), sized(1, br#"{a="b"}"#)].concat();
    assert_eq!(
        parsed(&sized(1, stream)).unwrap(),
        [r#"{"timestamp":"1000000005","line":"","labels":{"a":"b"},"metadata":{}}"#]
    );
}

#[test]
fn an_entry_of_an_unusual_time_costs_no_other_one() {
    // The first second of the year 1, which Go writes for a time that was not set.
    let unset = (-62_135_596_800_i64).cast_unsigned();
    let far = i64::MAX.cast_unsigned();
    let entries = [(1, 0), (unset, 0), (0, (-1_i64).cast_unsigned()), (1, 1_000_000_000), (far, 999_999_999)];
    let body = push_of("{}", &entries.map(|(seconds, nanos)| entry_of(seconds, nanos, b"x", &[])));
    let times = ["1000000000", "-62135596800000000000", "-1", "2000000000", "9223372036854775807999999999"];
    let record = |time: &str| format!(r#"{{"timestamp":"{time}","line":"x","labels":{{}},"metadata":{{}}}}"#);
    assert_eq!(parsed(&body).unwrap(), times.map(record));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_and_metadata_that_cannot_be_taken_cost_no_other_stream_or_entry() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("loki", &store)])).await;
    let long = "x".repeat(METADATA_BYTES_MAX);
    let (good, heavy) = (entry_of(1, 0, b"x", &[]), entry_of(1, 0, b"y", &[("a", &long)]));
    let push = async |body: Vec<u8>| {
        let snappy = snap::raw::Encoder::new().compress_vec(&body).unwrap();
        let protobuf = [("Content-Type", "application/x-protobuf")];
        let (status, _, text) = gateway.send("/loki/api/v1/push", &protobuf, &snappy).await;
        (status, text)
    };
    let bad = push_of("{a=b}", std::slice::from_ref(&good));
    let mixed = [push_of("{}", &[good.clone(), heavy, good.clone()]), bad.clone(), push_of("{}", &[good])];
    let (status, text) = push(mixed.concat()).await;
    let told = "2 parts of the push were left out, and the others are durable; the first of them, in stream 1: an entry has more";
    assert!(status == 400 && text.contains(told), "{status} {text}");
    let (status, text) = push(bad).await;
    let told = "1 parts of the push were left out, and the others are durable; the first of them, in stream 1: its labels hold a value";
    assert!(status == 400 && text.contains(told), "{status} {text}");
    gateway.stop().await.unwrap();
    let record = r#"{"timestamp":"1000000000","line":"x","labels":{},"metadata":{}}"#;
    assert_eq!(records(&store).await, [record; 3]);
}

#[test]
fn what_is_no_push_is_refused_whole() {
    let good = entry_of(1, 0, b"x", &[]);
    for body in [
        b"{\"streams\":[]}".to_vec(),
        [push_of("{}", std::slice::from_ref(&good)), vec![0x0a, 0x05]].concat(),
        sized(1, number(2, 7)),
        number(1, 7),
    ] {
        let refused = parsed(&body).unwrap_err();
        assert!(
            refused.kind == Kind::Malformed && refused.message.contains("nothing was stored"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_line_of_escapes_is_counted_before_it_is_written() {
    let body = push_of("{}", &[entry_of(1, 0, &vec![1; 8 << 20], &[])]);
    let (refused, peak) = testkit::peak_bytes(|| parsed(&body).unwrap_err());
    assert_eq!(refused.kind, Kind::TooLarge);
    assert!(peak < 1 << 20, "{peak}");
}

#[test]
fn fuzz_push_of_protobuf() {
    let entries = [entry_of(1_700_000_000, 7, b"x \xff", &[("t", "u")]), entry_of(2, 0, b"y", &[])];
    testkit::Fuzz::new("gateway loki protobuf")
        .examples([push_of(r#"{app="web", n="1"}"#, &entries)])
        .words([&b"{a=\"b\"}"[..], b"\x0a\x02", b"\x12\x04", b"\xff\xff\xff\xff\x7f"])
        .memory_max(1 << 20, 2_000)
        .run(3_000, |body| {
            for record in parsed(body).unwrap_or_default() {
                serde_json::from_str::<Json>(&record).expect("a record is JSON");
            }
        });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_of_protobuf_is_durable_when_it_is_answered() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("loki", &store)])).await;
    let protobuf = ("Content-Type", "application/x-protobuf");
    let body = push_of(r#"{app="web"}"#, &[entry_of(1, 0, b"x", &[])]);
    let snappy = snap::raw::Encoder::new().compress_vec(&body).unwrap();
    let path = "/loki/api/v1/push";
    assert_eq!(gateway.send(path, &[protobuf], &snappy).await.0, 204);
    assert_eq!(gateway.send(path, &[protobuf, ("Content-Encoding", "snappy")], &snappy).await.0, 204);
    assert_eq!(gateway.send(path, &[protobuf], &body).await.0, 400, "not compressed");
    let claims = [varint(1 << 30), snappy[1..].to_vec()].concat();
    assert_eq!(gateway.send(path, &[protobuf], &claims).await.0, 413, "says that it is 1 GiB");
    assert_eq!(gateway.send(path, &[("Content-Type", "text/plain")], &snappy).await.0, 415);
    gateway.stop().await.unwrap();
    let record = r#"{"timestamp":"1000000000","line":"x","labels":{"app":"web"},"metadata":{}}"#;
    assert_eq!(records(&store).await, [record, record]);
}
