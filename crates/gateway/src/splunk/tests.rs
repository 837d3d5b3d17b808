use crate::support::{self, in_memory, options, records, start};

const EVENT: &str = "/services/collector/event";

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
    assert_eq!(said("/services/collector", "{\"event\":\"c\",\"index\":\"web\"}\n").await, good);
    assert_eq!(said("/services/collector/raw?channel=x&index=web", "one \"line\"\r\n\ntwo").await, good);
    for (path, body, status, code) in [
        (EVENT, "{\"event\":\"a\",\"index\":\"none\"}", 400, 7),
        (EVENT, "{\"event\":\"a\"}{\"event\":\"b\",\"index\":\"web\"}", 400, 6),
        (EVENT, "{\"time\":1}", 400, 6),
        (EVENT, "{\"event\":", 400, 6),
        (EVENT, "", 400, 6),
    ] {
        let (found, text) = said(path, body).await;
        assert!(found == status && text.contains(&format!("\"code\":{code}")), "{body}: {found} {text}");
    }
    gateway.stop().await.unwrap();
    assert_eq!(records(&stores[0]).await, ["{\"event\":\"a\",\"time\":1.5}", "{\"event\":{\"b\":1}}"]);
    let web =
        ["{\"event\":\"c\",\"index\":\"web\"}", "{\"event\":\"one \\\"line\\\"\"}", "{\"event\":\"two\"}"];
    assert_eq!(records(&stores[1]).await, web);
}
