use crate::support::{self, in_memory, options, records, start};

const EVENT: &str = "/services/collector/event";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_several_indices_are_taken_each_into_its_stream() {
    let stores = [in_memory(), in_memory()];
    let gateway =
        start(options(vec![support::stream("splunk", &stores[0]), support::stream("web", &stores[1])])).await;
    let body = "{\"event\":1,\"index\":\"web\"}{\"event\":2,\"index\":\"splunk\"}\n[3]";
    assert_eq!(gateway.send(EVENT, &[], body.as_bytes()).await.0, 400, "nothing is stored of a broken one");
    let body = body.replace("[3]", "{\"event\":3,\"index\":\"web\"}{\"event\":4}");
    assert_eq!(gateway.send(EVENT, &[], body.as_bytes()).await.0, 200);
    // One that finds no room for a stream stores nothing of the others.
    let web = gateway.gate.streams().find(|stream| stream.name == "web").unwrap().clone();
    let mut others = gateway.gate.hold(&web);
    while others.take(1 << 10).is_ok() {}
    let (status, head, text) = gateway.send(EVENT, &[], body.as_bytes()).await;
    assert!(status == 503 && head.contains("retry-after: 1") && text.contains("\"code\":9"), "{head}{text}");
    drop(others);
    let many: String =
        (0..=super::INDICES_MAX).map(|n| format!("{{\"event\":1,\"index\":\"{n}\"}}")).collect();
    let (status, _, text) = gateway.send(EVENT, &[], many.as_bytes()).await;
    assert!(status == 400 && text.contains("code\":7"), "the first index has no stream: {text}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&stores[0]).await, ["{\"event\":2,\"index\":\"splunk\"}", "{\"event\":4}"]);
    let web = ["{\"event\":1,\"index\":\"web\"}", "{\"event\":3,\"index\":\"web\"}"];
    assert_eq!(records(&stores[1]).await, web);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_have_what_the_query_says_of_them() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("web-1", &store)])).await;
    let send = async |path: &str, body: &str| {
        let (status, _, text) = gateway.send(path, &[], body.as_bytes()).await;
        (status, text)
    };
    let path = "/services/collector/raw/1.0?channel=0-1&index=web%2D1&host=a+%22b%22&source=%2Fvar%2Flog%2Fx.log&sourcetype=syslog&time=1700000000.250";
    assert_eq!(send(path, "one\ntwo\n").await.0, 200);
    assert_eq!(send("/services/collector/raw?index=web-1&time=5", "three").await.0, 200);
    for time in ["soon", "1e", "NaN", "1%0A", "%31%2C%22a%22%3A1", ""] {
        let (status, text) = send(&format!("/services/collector/raw?index=web-1&time={time}"), "four").await;
        assert!(status == 400 && text.contains("\"code\":6"), "{time}: {status} {text}");
    }
    let (status, text) = send("/services/collector/raw?index=%", "five").await;
    assert!(status == 400 && text.contains("\"code\":7"), "{status} {text}");
    gateway.stop().await.unwrap();
    let tail = r#""time":1700000000.250,"host":"a \"b\"","source":"/var/log/x.log","sourcetype":"syslog"}"#;
    let all = [
        format!("{{\"event\":\"one\",{tail}"),
        format!("{{\"event\":\"two\",{tail}"),
        "{\"event\":\"three\",\"time\":5}".to_owned(),
    ];
    assert_eq!(records(&store).await, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_no_text_is_replaced_and_costs_no_other_one() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("splunk", &store)])).await;
    let body = b"{\"event\":\"a\"}{\"event\":\"b\xff\"}{\"event\":\"\\ud800\",\"\\udc00\":1}";
    let (status, _, text) = gateway.send(EVENT, &[], body).await;
    assert_eq!(status, 200, "{text}");
    gateway.stop().await.unwrap();
    let expected =
        ["{\"event\":\"a\"}", "{\"event\":\"b\u{fffd}\"}", "{\"event\":\"\\ufffd\",\"\\ufffd\":1}"];
    assert_eq!(records(&store).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_may_be_a_number_and_costs_no_other_event() {
    let stores = [in_memory(), in_memory()];
    let gateway =
        start(options(vec![support::stream("splunk", &stores[0]), support::stream("2026", &stores[1])]))
            .await;
    let body = b"{\"event\":1}{\"event\":2,\"index\":2026}{\"event\":3,\"index\":\"2026\"}";
    let (status, _, text) = gateway.send(EVENT, &[], body).await;
    assert_eq!(status, 200, "{text}");
    let (status, _, text) = gateway.send(EVENT, &[], b"{\"event\":4,\"index\":[2026]}").await;
    assert!(status == 400 && text.contains("\"code\":6"), "{status} {text}");
    gateway.stop().await.unwrap();
    assert_eq!(records(&stores[0]).await, ["{\"event\":1}"]);
    let of_number = ["{\"event\":2,\"index\":2026}", "{\"event\":3,\"index\":\"2026\"}"];
    assert_eq!(records(&stores[1]).await, of_number);
}

/// Docker's driver does, without its token, and starts no container otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whether_there_is_an_event_collector_may_be_asked_by_options() {
    let gateway = start(options(vec![support::stream("splunk", &in_memory())])).await;
    for (path, status) in [(EVENT, 200), ("/services/collector/event/1.0", 200), ("/services/collected", 404)]
    {
        assert_eq!(support::request(gateway.address, "OPTIONS", path, &[], b"").await.0, status, "{path}");
    }
    gateway.stop().await.unwrap();
}

#[test]
fn a_request_is_sent_again_as_long_as_that_may_help() {
    use crate::{Kind, Refusal};
    let of = |kind| Err(Refusal::new(kind, "why"));
    let worst = |appended: Vec<_>| super::worst(appended).map(|refusal| refusal.kind);
    assert_eq!(worst(vec![Ok(()), Ok(())]), None);
    assert_eq!(worst(vec![Ok(()), of(Kind::TooLarge)]), Some(Kind::TooLarge));
    assert_eq!(worst(vec![of(Kind::NotYet), of(Kind::TooLarge), Ok(())]), Some(Kind::NotYet));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_taken_with_their_envelopes_into_the_stream_of_their_index() {
    let stores = [in_memory(), in_memory()];
    let gateway =
        start(options(vec![support::stream("splunk", &stores[0]), support::stream("web", &stores[1])])).await;
    let said = async |path: &str, body: &str| {
        let (status, _, text) =
            gateway.send(path, &[("Authorization", "Splunk any-token")], body.as_bytes()).await;
        (status, text)
    };
    let good = (200, "{\"text\":\"Success\",\"code\":0}\n".to_owned());
    assert_eq!(said(EVENT, "{\"event\":\"a\",\"time\":1.5}{\"event\":{\"b\":1}}").await, good);
    assert_eq!(said(EVENT, "{\"event\":\"e\",\"index\":\"\"}{\"event\":\"n\",\"index\":null}").await, good);
    let (status, text) = said("/services/collector/ack?channel=x", "{\"acks\":[0]}").await;
    assert!(status == 400 && text.contains("\"code\":14"), "{status} {text}");
    assert_eq!(said("/services/collector", "{\"event\":\"c\",\"index\":\"web\"}\n").await, good);
    assert_eq!(said("/services/collector/raw?channel=x&index=web", "one \"line\"\r\n\ntwo").await, good);
    for (path, body, status, code) in [
        (EVENT, "{\"event\":\"a\",\"index\":\"none\"}", 400, 7),
        (EVENT, "{\"event\":\"a\"}{\"event\":\"b\",\"index\":\"none\"}", 400, 7),
        (EVENT, "{\"event\":\"a\"}{\"time\":1}", 400, 6),
        (EVENT, "{\"event\":\"a\"} 7", 400, 6),
        (EVENT, "[null,\"a\"]", 400, 6),
        (EVENT, "{\"time\":1}", 400, 6),
        (EVENT, "{\"event\":", 400, 6),
        (EVENT, "", 400, 6),
    ] {
        let (found, text) = said(path, body).await;
        assert!(found == status && text.contains(&format!("\"code\":{code}")), "{body}: {found} {text}");
    }
    gateway.stop().await.unwrap();
    let none = ["{\"event\":\"e\",\"index\":\"\"}", "{\"event\":\"n\",\"index\":null}"];
    let expected = ["{\"event\":\"a\",\"time\":1.5}", "{\"event\":{\"b\":1}}"];
    assert_eq!(records(&stores[0]).await, [expected, none].concat());
    let web =
        ["{\"event\":\"c\",\"index\":\"web\"}", "{\"event\":\"one \\\"line\\\"\"}", "{\"event\":\"two\"}"];
    assert_eq!(records(&stores[1]).await, web);
}
