use http_body_util::Full;

use super::*;

const DELAY: Delay = Delay { put: Duration::from_millis(60), get: Duration::from_millis(30) };

#[tokio::test]
async fn each_request_is_counted_at_its_price_and_delayed_by_its_kind() {
    let proxy = Proxy::start("http://127.0.0.1:9", DELAY, 0).await.expect("it listens");
    let ask = |method: Method, uri: &str| {
        let request =
            Request::builder().method(method).uri(uri).body(Full::new(Bytes::from_static(b"12345")));
        proxy.shared.count(&request.expect("a request"))
    };
    assert_eq!(ask(Method::PUT, "/bucket/log/p/0/root"), DELAY.put);
    assert_eq!(ask(Method::GET, "/bucket/log/p/0/root"), DELAY.get);
    assert_eq!(ask(Method::HEAD, "/bucket/log/p/0/root"), DELAY.get);
    let before = Counted { puts: 1, gets: 2, put_bytes: 5 };
    assert_eq!(proxy.shared.counted(), before);
    assert_eq!(ask(Method::GET, "/bucket?list-type=2&prefix=log"), DELAY.get);
    assert_eq!(proxy.shared.counted(), Counted { puts: 2, ..before }, "a list costs as much as a PUT");
    assert_eq!(ask(Method::DELETE, "/bucket/log/p/0/root"), DELAY.put);
    assert_eq!(proxy.shared.counted(), Counted { puts: 2, ..before }, "a deletion is free");
    let since = Traffic(Some(proxy.shared.counted())).since(Traffic(Some(before))).counted();
    assert_eq!(since, Some(Counted { puts: 1, gets: 0, put_bytes: 0 }));
}

#[tokio::test]
async fn keys_are_written_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let dir = std::env::temp_dir().join(format!("forebay-bench-keys-{}", std::process::id()));
    std::fs::create_dir(&dir).expect("a folder of its own");
    let bucket = Bucket {
        endpoint: "http://127.0.0.1:9".to_owned(),
        name: "bucket".to_owned(),
        region: "here".to_owned(),
        access_key: "id".to_owned(),
        secret_key: "secret".to_owned(),
    };
    let store = Store::start(Some(&bucket), DELAY, "bench", "run-1", &dir, 0).await.expect("it starts");
    let lines = store.lines("log");
    let modes = ["access-key", "secret-key"].map(|name| {
        let found = std::fs::metadata(dir.join(name)).expect("it is written");
        found.permissions().mode() & 0o777
    });
    std::fs::remove_dir_all(&dir).expect("it goes");
    assert_eq!(modes, [0o600, 0o600]);
    assert!(lines.contains("secret_key: file:") && !lines.contains("secret\n"), "{lines}");
}
