use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::*;

const DELAY: Delay = Delay { put: Duration::from_millis(60), get: Duration::from_millis(30) };

/// Longer than anything takes here.
const NEVER: Duration = Duration::from_secs(60);

fn request(method: Method, uri: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(uri).body(Full::new(Bytes::from_static(b"12345")));
    request.expect("a request")
}

#[tokio::test]
async fn each_request_is_counted_at_its_price_and_delayed_by_its_kind() {
    let proxy = Proxy::start("http://127.0.0.1:9", DELAY, 0).await.expect("it listens");
    let ask = |method: Method, uri: &str| {
        let request = request(method, uri);
        proxy.shared.count(&request, Asked::of(&request))
    };
    assert_eq!(ask(Method::PUT, "/bucket/log/p/0/root"), DELAY.put);
    assert_eq!(ask(Method::GET, "/bucket/log/p/0/root"), DELAY.get);
    assert_eq!(ask(Method::HEAD, "/bucket/log/p/0/root"), DELAY.get);
    let before = Counted { puts: 1, gets: 2, put_bytes: 5, roots: 1, ..Counted::default() };
    assert_eq!(proxy.counted(), before);
    assert_eq!(ask(Method::GET, "/bucket?list-type=2&prefix=log"), DELAY.get);
    assert_eq!(proxy.counted(), Counted { puts: 2, ..before }, "a list costs as much as a PUT");
    assert_eq!(ask(Method::DELETE, "/bucket/log/p/0/root"), DELAY.put);
    assert_eq!(proxy.counted(), Counted { puts: 2, ..before }, "a deletion is free");
}

#[test]
fn what_is_asked_is_told_by_method_and_name() {
    let of = |method: Method, uri: &str| Asked::of(&request(method, uri));
    let object = "/b/bench/run-1/log/logs/p/0/data/07/02-ff/41";
    assert_eq!(of(Method::PUT, object), Some(Asked::PutObject));
    assert_eq!(of(Method::GET, object), Some(Asked::GetObject));
    assert_eq!(of(Method::DELETE, object), None);
    assert_eq!(of(Method::PUT, "/b/bench/run-1/log/logs/p/0/root"), Some(Asked::PutRoot));
    assert_eq!(of(Method::GET, "/b/bench/run-1/log/logs/p/0/root"), None);
    assert_eq!(of(Method::PUT, "/b/bench/run-1/pipeline/bench/lane-0/journal/0001"), Some(Asked::PutRecord));
    assert_eq!(of(Method::PUT, "/b/bench/run-1/log/logs/p/0/acks/bench"), None);
    assert_eq!(of(Method::POST, "/?query=INSERT+INTO+t+%28a%29+FORMAT+Native"), Some(Asked::Insert));
    assert_eq!(of(Method::POST, "/?database=default"), None);
}

/// A server that answers each request with its body, and how often it did.
async fn echo() -> (String, Arc<AtomicU64>) {
    let listener = listen(([127, 0, 0, 1], 0).into()).await.expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let answered = Arc::new(AtomicU64::new(0));
    let count = answered.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = count.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                count.fetch_add(1, Relaxed);
                async move { Ok::<_, io::Error>(Response::new(request.into_body())) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, answered)
}

/// What comes back of an insert; `None` when its connection broke.
async fn insert(proxy: &Proxy) -> Option<Bytes> {
    // A client of its own: none sends again what broke on an older connection.
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri = format!("{}/?query=INSERT+INTO+t", proxy.url());
    let answer = client.request(request(Method::POST, &uri)).await.ok()?;
    Some(answer.into_body().collect().await.ok()?.to_bytes())
}

#[tokio::test]
async fn a_trap_holds_one_request_and_then_breaks_it_off() {
    let (url, answered) = echo().await;
    let proxy = Proxy::start(&url, Delay::default(), 0).await.expect("it listens");
    for (at, reach_the_server) in [(At::Coming, 0), (At::Answered, 1)] {
        let before = answered.load(Relaxed);
        let mut trap = proxy.trap(Asked::Insert, at);
        let killing = async {
            assert!(trap.has_caught(NEVER).await);
            assert_eq!(answered.load(Relaxed) - before, reach_the_server);
            drop(trap);
        };
        let (broken, ()) = tokio::join!(insert(&proxy), killing);
        assert_eq!(broken, None);
        assert_eq!(insert(&proxy).await.as_deref(), Some(&b"12345"[..]), "the next one goes on");
        assert_eq!(answered.load(Relaxed) - before, reach_the_server + 1);
    }
    let mut trap = proxy.trap(Asked::Insert, At::Passed);
    assert_eq!(insert(&proxy).await.as_deref(), Some(&b"12345"[..]), "it goes on as ever");
    assert!(trap.has_caught(NEVER).await);
    let mut trap = proxy.trap(Asked::PutRoot, At::Coming);
    assert!(insert(&proxy).await.is_some(), "it is of another kind");
    assert!(!trap.has_caught(Duration::from_millis(1)).await);
}

#[tokio::test]
async fn a_proxy_that_is_away_refuses_and_comes_back_to_its_port() {
    let (url, _) = echo().await;
    let proxy = Proxy::start(&url, Delay::default(), 0).await.expect("it listens");
    proxy.stop().await;
    assert_eq!(insert(&proxy).await, None);
    proxy.serve().await.expect("its port is free");
    assert!(insert(&proxy).await.is_some());
}
