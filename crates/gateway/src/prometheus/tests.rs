use super::series::tests::{pair, request_of_two, sample, series_of_two};
use super::*;
use crate::support::{self, in_memory, options, records, start};
use crate::wire::testing::{packed, sized};

const ONE: (&str, &str) = ("Content-Type", "application/x-protobuf");
const TWO: (&str, &str) = ("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request");
const SNAPPY: (&str, &str) = ("Content-Encoding", "snappy");

fn snappy(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).unwrap()
}

fn up() -> Vec<u8> {
    sized(1, [sized(1, pair("__name__", "up")), sized(2, sample(1.0, 2))].concat())
}

const UP: &str = r#"{"kind":"sample","name":"up","labels":{},"timestamp":2,"value":1.0}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_are_durable_when_they_are_answered() {
    let (store, other) = (in_memory(), in_memory());
    let gateway =
        start(options(vec![support::stream("prometheus", &store), support::stream("site", &other)])).await;
    let explicit = ("Content-Type", "application/x-protobuf;proto=prometheus.WriteRequest");
    for (path, headers) in [("/api/v1/write", [ONE, SNAPPY]), ("/site/api/v1/write", [explicit, SNAPPY])] {
        let (status, head, text) = gateway.send(path, &headers, &snappy(&up())).await;
        assert_eq!(status, 204, "{text}");
        assert!(!head.contains("x-prometheus-remote-write"), "{head}");
    }
    assert_eq!(gateway.send("/none/api/v1/write", &[ONE, SNAPPY], &snappy(&up())).await.0, 404);
    let of_other = ("Content-Type", "application/x-protobuf;proto=x.y.Z");
    for media in [of_other, ("Content-Type", "application/json")] {
        assert_eq!(gateway.send("/api/v1/write", &[media, SNAPPY], &snappy(&up())).await.0, 415);
    }
    assert_eq!(gateway.send("/api/v1/write", &[ONE], &up()).await.0, 400);
    gateway.stop().await.unwrap();
    for store in [store, other] {
        assert_eq!(records(&store).await, [UP]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_2_0_that_is_called_one_of_1_0_is_refused() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("prometheus", &store)])).await;
    let body = snappy(&request_of_two(&[series_of_two()]));
    let explicit = ("Content-Type", "application/x-protobuf;proto=prometheus.WriteRequest");
    for media in [ONE, explicit] {
        let (status, _, text) = gateway.send("/api/v1/write", &[media, SNAPPY], &body).await;
        assert!(status == 400 && text.contains("proto=io.prometheus.write.v2.Request"), "{status} {text}");
    }
    let version = |text| ("X-Prometheus-Remote-Write-Version", text);
    for (media, version, expected) in [(ONE, version("2.0.0"), 415), (TWO, version("2.0.0"), 204)] {
        let (status, _, text) = gateway.send("/api/v1/write", &[media, version, SNAPPY], &body).await;
        assert_eq!(status, expected, "{text}");
    }
    let headers = [ONE, version("0.1.0"), SNAPPY];
    assert_eq!(gateway.send("/api/v1/write", &headers, &snappy(&up())).await.0, 204);
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_2_0_counts_what_was_written() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("prometheus", &store)])).await;
    let counts = |head: &str| {
        WRITTEN.map(|name| {
            let line = head.lines().find_map(|line| line.strip_prefix(name.as_str())?.strip_prefix(": "));
            line.map(|count| count.parse::<u64>().unwrap())
        })
    };
    let (status, head, _) =
        gateway.send("/api/v1/write", &[TWO, SNAPPY], &snappy(&request_of_two(&[series_of_two()]))).await;
    assert_eq!((status, counts(&head)), (204, [Some(2), Some(1), Some(1)]));
    let bad = [packed(1, &[1]), sized(2, sample(1.0, 2))].concat();
    let body = request_of_two(&[bad, [packed(1, &[1, 2]), sized(2, sample(1.0, 2))].concat()]);
    let (status, head, text) = gateway.send("/api/v1/write", &[TWO, SNAPPY], &snappy(&body)).await;
    assert_eq!((status, counts(&head)), (400, [Some(1), Some(0), Some(0)]));
    assert!(text.contains("the others are durable") && text.contains("label without a value"), "{text}");
    let (status, head, _) = gateway.send("/api/v1/write", &[TWO, SNAPPY], &snappy(&[0xff; 9])).await;
    assert_eq!((status, counts(&head)), (400, [Some(0); 3]));
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_sent_again_is_never_answered_by_what_prometheus_drops() {
    let mut options = options(vec![support::stream("prometheus", &in_memory())]);
    options.streams[0].memory_bytes = 128 << 10;
    let gateway = start(options).await;
    let of = |bytes| sized(1, [sized(1, pair("a", &"x".repeat(bytes))), sized(2, sample(1.0, 2))].concat());
    let sent = async |bytes| gateway.send("/api/v1/write", &[ONE, SNAPPY], &snappy(&of(bytes))).await;
    let stream = gateway.gate.streams().next().unwrap().clone();
    let mut others = gateway.gate.hold(&stream);
    others.take(127 << 10).unwrap();
    let (status, head, text) = sent(2_000).await;
    assert!(status == 503 && head.contains("retry-after: 1"), "{head}{text}");
    drop(others);
    assert_eq!(sent(2_000).await.0, 204, "the same request, once there is room");
    // Sent again for ever, it would hold up all that is behind it.
    let (status, head, text) = sent(140_000).await;
    assert!(status == 413 && !head.contains("retry-after"), "{head}{text}");
    gateway.stop().await.unwrap();
}

/// Every sample that a real Prometheus has of itself, as its own query gives it, is in the log once. `FOREBAY_PROMETHEUS` is the path of the program
/// (Debian's package `prometheus` 2.42 will do).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Prometheus at FOREBAY_PROMETHEUS"]
async fn every_sample_of_a_real_prometheus_is_there_once() {
    let program = std::env::var("FOREBAY_PROMETHEUS").expect("FOREBAY_PROMETHEUS is the path of Prometheus");
    let store = in_memory();
    let gateway = start(options(vec![support::stream("prometheus", &store)])).await;
    let dir = testkit::TestDir::new("remote-write").expect("a folder");
    let port = testkit::free_port();
    let config = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs: [{{ job_name: self, static_configs: [{{ targets: ['127.0.0.1:{port}'] }}] }}]\n\
         remote_write: [{{ url: 'http://{}/api/v1/write', send_exemplars: true, send_native_histograms: true, \
         metadata_config: {{ send: true, send_interval: 1s }} }}]\n",
        gateway.address
    );
    std::fs::write(dir.path().join("prometheus.yml"), config).expect("the folder can be written");
    let listen = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", listen.as_str()];
    let spawn = testkit::Spawn::new("prometheus", program).args(arguments).cwd(dir.path());
    let mut prometheus = spawn.start(dir.path()).expect("Prometheus starts");
    let client = testkit::HttpClient::new(&format!("http://127.0.0.1:{port}"));
    let asked = tokio::task::spawn_blocking(move || {
        let query = "/api/v1/query?query=%7Bjob%3D%22self%22%7D%5B5m%5D";
        let asked = || serde_json::from_str::<serde_json::Value>(&client.get(query).ok()?.text()).ok();
        let samples = |asked: &serde_json::Value| {
            asked["data"]["result"].as_array().map_or(0, |series| {
                series.iter().map(|one| one["values"].as_array().map_or(0, Vec::len)).sum()
            })
        };
        testkit::wait_until(support::NEVER, "some scrapes", || {
            asked().is_some_and(|asked| samples(&asked) > 4_000)
        });
        let found = asked().expect("an answer");
        prometheus.term_and_wait(support::NEVER).expect("it ends, and sends what it has");
        found
    });
    let asked = asked.await.expect("no panic");
    gateway.stop().await.unwrap();
    let mut found = std::collections::BTreeMap::new();
    let mut kinds = std::collections::BTreeMap::new();
    for text in records(&store).await {
        let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        *kinds.entry(record["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        if record["kind"] == "sample" {
            // By the text: serde_json reads some floats one bit off.
            let (_, value) = text.rsplit_once("\"value\":").expect("a value");
            let value = value.trim_end_matches("}").trim_end_matches(",\"stale\":true").trim_matches('"');
            let value: f64 = value.parse().expect("a float");
            let mut labels: std::collections::BTreeMap<String, serde_json::Value> =
                serde_json::from_value(record["labels"].clone()).unwrap();
            labels.insert("__name__".to_owned(), record["name"].clone());
            let key = (serde_json::to_string(&labels).unwrap(), record["timestamp"].as_u64().unwrap());
            assert_eq!(found.insert(key, value), None, "twice: {record}");
        }
    }
    println!("{kinds:?}");
    let mut compared = 0;
    for series in asked["data"]["result"].as_array().unwrap() {
        let labels: std::collections::BTreeMap<String, serde_json::Value> =
            serde_json::from_value(series["metric"].clone()).unwrap();
        let labels = serde_json::to_string(&labels).unwrap();
        for value in series["values"].as_array().unwrap() {
            let time = (value[0].as_f64().unwrap() * 1_000.0).round() as u64;
            let expected: f64 = value[1].as_str().unwrap().parse().unwrap();
            let there =
                found.get(&(labels.clone(), time)).unwrap_or_else(|| panic!("{labels} at {time} is missing"));
            assert!(
                *there == expected || there.is_nan() && expected.is_nan(),
                "{labels}: {there} for {expected}"
            );
            compared += 1;
        }
    }
    println!("{compared} samples compared");
    assert!(compared > 4_000 && kinds["metadata"] > 100);
}
