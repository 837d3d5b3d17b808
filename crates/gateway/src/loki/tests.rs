use serde::de::IgnoredAny;

use super::json::entries;
use super::*;
use crate::support::{self, in_memory, options, records, roomy, start};

fn parsed(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let parsed = entries(body, Rows::new(5, roomy(), body.len())?)?;
    let block = parsed.records;
    let text = |row| String::from_utf8(block.payloads.get(row).to_vec()).expect("UTF-8");
    Ok((0..block.len()).map(text).collect())
}

#[test]
fn an_entry_is_a_record_with_its_labels() {
    let body = r#"{"x":[1],"streams":[{"stream":{"app":"web","n":"1"},"values":[["1700000000000000001","a \"b\"\n"],["2","c",{"trace":"t","n":7}]]},
        {"values":[["3","d"],["-4","e"]]},{"stream":{}}]}"#;
    assert_eq!(
        parsed(body.as_bytes()).unwrap(),
        [
            r#"{"timestamp":"1700000000000000001","line":"a \"b\"\n","labels":{"app":"web","n":"1"},"metadata":{}}"#,
            r#"{"timestamp":"2","line":"c","labels":{"app":"web","n":"1"},"metadata":{"trace":"t","n":"7"}}"#,
            r#"{"timestamp":"3","line":"d","labels":{},"metadata":{}}"#,
            r#"{"timestamp":"-4","line":"e","labels":{},"metadata":{}}"#,
        ]
    );
    assert_eq!(parsed(b"{}").unwrap(), [""; 0]);
    for body in [
        "[]",
        "{\"streams\":{}}",
        "{\"streams\":[]} x",
        "{\"streams\":[{\"values\":[[\"now\",\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[\"-\",\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[\"1-\",\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[1,\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[\"1\"]]}]}",
        "{\"streams\":[",
    ] {
        assert_eq!(parsed(body.as_bytes()).unwrap_err().kind, Kind::Malformed, "{body}");
    }
}

#[test]
fn a_line_in_json_that_is_not_utf_8_is_replaced_and_costs_no_other_one() {
    let body = b"{\"streams\":[{\"stream\":{},\"values\":[[\"1\",\"a\\ud800\"],[\"2\",\"b\xff\"],[\"3\",\"\\ud83d\\ude00\"]]}]}";
    assert_eq!(
        parsed(body).unwrap(),
        [
            // Half of a pair is three bytes that are none of UTF-8.
            "{\"timestamp\":\"1\",\"line\":\"a\u{fffd}\u{fffd}\u{fffd}\",\"labels\":{},\"metadata\":{}}",
            "{\"timestamp\":\"2\",\"line\":\"b\u{fffd}\",\"labels\":{},\"metadata\":{}}",
            "{\"timestamp\":\"3\",\"line\":\"\u{1f600}\",\"labels\":{},\"metadata\":{}}",
        ]
    );
    let list = b"{\"streams\":[{\"values\":[[\"1\",[97]]]}]}";
    assert_eq!(parsed(list).unwrap_err().kind, Kind::Malformed);
}

#[test]
fn labels_that_stand_at_every_record_meet_the_bound_of_an_append() {
    let labels = "x".repeat(60 << 10);
    let values = vec!["[\"1\",\"\"]"; 400].join(",");
    let body = format!("{{\"streams\":[{{\"stream\":{{\"a\":\"{labels}\"}},\"values\":[{values}]}}]}}");
    let (refused, peak) = testkit::peak_bytes(|| parsed(body.as_bytes()).unwrap_err());
    assert_eq!(refused.kind, Kind::TooLarge);
    assert!(peak < 64 << 20, "{peak}");
}

#[test]
fn labels_take_no_more_memory_than_their_bound_whatever_a_push_names() {
    let many: Vec<String> = (0..200_000).map(|n| format!("\"{n}\":0")).collect();
    let nested = format!("\"a\":{}{}", "[".repeat(100), "]".repeat(100));
    for (pairs, why) in [
        (many.join(","), "labels longer than 64 KiB"),
        (format!("\"a\":\"{}\"", "x".repeat(65 << 10)), "labels longer than 64 KiB"),
        (nested, "expected a text"),
        (format!("\"a\":[{}0]", "{},".repeat(100_000)), "expected a text"),
    ] {
        let body = format!("{{\"streams\":[{{\"stream\":{{{pairs}}},\"values\":[[\"1\",\"\"]]}}]}}");
        let (refused, peak) = testkit::peak_bytes(|| parsed(body.as_bytes()).unwrap_err());
        assert!(refused.kind == Kind::Malformed && refused.message.contains(why), "{}", refused.message);
        assert!(peak < 8 << 20, "{peak} for {why}");
    }
}

/// The bytes that a push holds of the budgets once it is read, and what reading it took at the most.
fn held_and_peak(body: &str) -> (usize, usize) {
    let read = || entries(body.as_bytes(), Rows::new(5, roomy(), body.len()).expect("room")).expect("a push");
    let (parsed, peak) = testkit::peak_bytes(read);
    (parsed.held.bytes(), peak)
}

#[test]
fn what_a_push_takes_beside_its_body_is_held() {
    let values = vec!["[\"1\",\"\"]"; 100_000].join(",");
    let metadata = vec!["[\"1\",\"\",{\"a\":\"b\"}]"; 50_000].join(",");
    for body in [
        format!("{{\"streams\":[{{\"stream\":{{\"a\":\"b\"}},\"values\":[{values}]}}]}}"),
        format!("{{\"streams\":[{{\"values\":[{values}],\"stream\":{{\"a\":\"b\"}}}}]}}"),
        format!("{{\"streams\":[{{\"values\":[{metadata}]}}]}}"),
    ] {
        let (held, peak) = held_and_peak(&body);
        // A list that grows is there twice for a moment; the fixed part is that of one entry.
        assert!(peak < held * 3 / 2 + (1 << 20), "{peak} where {held} are held: {}", &body[..60]);
    }
}

#[test]
fn labels_may_stand_behind_their_entries_and_no_two_times() {
    let body = r#"{"streams":[{"values":[["1","a"],["2","b",{}]],"stream":{"n":1,"n":2,"t":true,"f":1.5,"u":null}}]}"#;
    let labels = r#""labels":{"n":"2","t":"true","f":"1.5","u":"null"},"metadata":{}}"#;
    let expected =
        ["1\",\"line\":\"a", "2\",\"line\":\"b"].map(|entry| format!("{{\"timestamp\":\"{entry}\",{labels}"));
    assert_eq!(parsed(body.as_bytes()).unwrap(), expected);
    let twice = r#"{"streams":[{"stream":{},"stream":{}}]}"#;
    assert!(parsed(twice.as_bytes()).unwrap_err().message.contains("duplicate field `stream`"));
    let long = r#"{"streams":[{"values":[["1","a",{},4]]}]}"#;
    assert!(parsed(long.as_bytes()).unwrap_err().message.contains("more than a timestamp"));
}

#[test]
fn fuzz_push() {
    testkit::Fuzz::new("gateway loki")
        .examples([r#"{"streams":[{"stream":{"a":"b"},"values":[["1","x"],["2","y",{"t":"u"}]]}]}"#])
        .words(["\"values\"", "[[\"1\",\"\"]]", "\"stream\"", "{}", "[]"])
        .memory_max(1 << 20, 2_000)
        .run(2_000, |body| {
            for record in parsed(body).unwrap_or_default() {
                serde_json::from_str::<IgnoredAny>(&record).expect("a record is JSON");
            }
        });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_durable_when_it_is_answered() {
    let (store, other) = (in_memory(), in_memory());
    let gateway = start(options(vec![support::stream("loki", &store), support::stream("web", &other)])).await;
    let json = [("Content-Type", "application/json")];
    let body = br#"{"streams":[{"stream":{},"values":[["1","x"]]}]}"#;
    assert_eq!(gateway.send("/loki/api/v1/push", &json, body).await.0, 204);
    assert_eq!(gateway.send("/web/loki/api/v1/push", &json, body).await.0, 204);
    assert_eq!(gateway.send("/none/loki/api/v1/push", &json, body).await.0, 404);
    assert_eq!(gateway.send("/loki/api/v1/push", &[], body).await.0, 415);
    gateway.stop().await.unwrap();
    for store in [store, other] {
        assert_eq!(records(&store).await, [r#"{"timestamp":"1","line":"x","labels":{},"metadata":{}}"#]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_in_json_that_is_no_text_is_replaced_and_costs_no_push() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("loki", &store)])).await;
    let body =
        b"{\"streams\":[{\"stream\":{\"a\":\"\\ud800\",\"b\xff\":\"c\xff\"},\"values\":[[\"1\",\"x\\udc00\",{\"\\ud800\":\"y\"}]]}]}";
    let json = [("Content-Type", "application/json")];
    let (status, _, text) = gateway.send("/loki/api/v1/push", &json, body).await;
    assert_eq!(status, 204, "{text}");
    gateway.stop().await.unwrap();
    let expected = "{\"timestamp\":\"1\",\"line\":\"x\u{fffd}\",\"labels\":{\"a\":\"\u{fffd}\",\"b\u{fffd}\":\"c\u{fffd}\"},\"metadata\":{\"\u{fffd}\":\"y\"}}";
    assert_eq!(records(&store).await, [expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_comes_slowly_is_asked_for_again_by_all_whose_senders_drop_what_408_refused() {
    let limits =
        crate::Limits { body_wait_max: std::time::Duration::from_millis(50), ..crate::support::limits() };
    let streams = ["loki", "splunk", "docs"].map(|name| support::stream(name, &in_memory()));
    let gateway = start(crate::Options { limits, ..options(streams.into()) }).await;
    // More is announced than comes.
    let slow = [("Content-Type", "application/json"), ("Content-Length", "9")];
    for (path, words) in [
        ("/loki/api/v1/push", "\"code\":\"unavailable\""),
        ("/services/collector/event", "\"code\":9"),
        ("/services/collector/raw", "\"code\":9"),
        ("/docs/_bulk", "\"status\":503"),
        ("/_bulk", "\"status\":503"),
    ] {
        let (status, head, text) = gateway.send(path, &slow, b"{").await;
        assert!(status == 503 && head.contains("retry-after: 1"), "{path}: {head} {text}");
        assert!(text.contains("too slowly") && text.contains(words), "{path}: {text}");
    }
    assert_eq!(gateway.send("/v1/streams/docs", &slow, b"{").await.0, 408, "its senders are told as it is");
    gateway.stop().await.unwrap();
}
