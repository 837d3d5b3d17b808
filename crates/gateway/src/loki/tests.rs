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
    let body = r#"{"x":[1],"streams":[{"stream":{"app":"web","n":"1"},"values":[["1700000000000000001","a \"b\"\n"],["2","c",{"trace":"t"}]]},
        {"values":[["3","d"]]},{"stream":{}}]}"#;
    assert_eq!(
        parsed(body.as_bytes()).unwrap(),
        [
            r#"{"timestamp":"1700000000000000001","line":"a \"b\"\n","labels":{"app":"web","n":"1"}}"#,
            r#"{"timestamp":"2","line":"c","labels":{"app":"web","n":"1"},"metadata":{"trace":"t"}}"#,
            r#"{"timestamp":"3","line":"d","labels":{}}"#,
        ]
    );
    assert_eq!(parsed(b"{}").unwrap(), [""; 0]);
    for body in [
        "[]",
        "{\"streams\":{}}",
        "{\"streams\":[]} x",
        "{\"streams\":[{\"values\":[[\"now\",\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[1,\"a\"]]}]}",
        "{\"streams\":[{\"values\":[[\"1\"]]}]}",
        "{\"streams\":[",
    ] {
        assert_eq!(parsed(body.as_bytes()).unwrap_err().kind, Kind::Malformed, "{body}");
    }
}

#[test]
fn labels_that_stand_at_every_record_meet_the_bound_of_an_append() {
    let labels = "x".repeat(1 << 20);
    let values = vec!["[\"1\",\"\"]"; 100].join(",");
    let body = format!("{{\"streams\":[{{\"stream\":{{\"a\":\"{labels}\"}},\"values\":[{values}]}}]}}");
    let (refused, peak) = testkit::peak_bytes(|| parsed(body.as_bytes()).unwrap_err());
    assert_eq!(refused.kind, Kind::TooLarge);
    assert!(peak < 64 << 20, "{peak}");
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
        assert_eq!(records(&store).await, [r#"{"timestamp":"1","line":"x","labels":{}}"#]);
    }
}
