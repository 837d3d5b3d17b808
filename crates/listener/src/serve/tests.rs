use std::net::SocketAddr;
use std::time::Instant;

use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;

/// Longer than any bound below, and than any pause of a busy machine: what takes as long never ends.
const NEVER: Duration = Duration::from_secs(600);
const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn bounds() -> Bounds {
    Bounds { connections_max: 100, head_wait_max: NEVER, head_bytes_max: 16 << 10, write_wait_max: NEVER }
}

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<io::Result<()>>,
}

async fn start(router: Router, bounds: Bounds) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, asked) = oneshot::channel();
    let stopped = async {
        // A dropped sender stops it too.
        let _ = asked.await;
    };
    Running { address, stop, served: tokio::spawn(serve(listener, router, bounds, stopped)) }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Everything until the server closes; fails when it does not.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = tokio::time::timeout(NEVER, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(NEVER, stream.read(&mut bytes)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn a_head_that_trickles_in_ends_its_connection() {
    let running = start(hello(), Bounds { head_wait_max: Duration::from_millis(300), ..bounds() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let begun = Instant::now();
    // One byte every 20 ms: never silent, never done.
    let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ".iter().chain(std::iter::repeat(&b'x'));
    for byte in head {
        if stream.write_all(&[*byte]).await.is_err() || begun.elapsed() > NEVER {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() < NEVER, "the connection stays open while its head trickles in");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let running = start(hello(), Bounds { head_wait_max: Duration::from_millis(200), ..bounds() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    assert!(!rest(&mut stream).await.contains("200 OK"));
}

#[tokio::test]
async fn a_kept_connection_is_closed_when_it_rests_too_long() {
    let running = start(hello(), Bounds { head_wait_max: Duration::from_millis(500), ..bounds() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // Both at once, so that a slow machine does not rest between them.
    stream.write_all(&[ASK, ASK].concat()).await.unwrap();
    let told = rest(&mut stream).await;
    assert_eq!(
        told.matches("hello").count(),
        2,
        "it is kept between requests, and closed behind the last: {told}"
    );
}

#[tokio::test]
async fn a_client_that_ends_its_side_behind_a_request_gets_the_answer_and_its_place_back() {
    let slow = async |body: axum::body::Bytes| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        format!("stored {}", body.len())
    };
    let router = Router::new().route("/", post(slow));
    let running = start(router, Bounds { connections_max: 1, ..bounds() }).await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        let told = rest(&mut stream).await;
        assert!(told.starts_with("HTTP/1.1 200 ") && told.ends_with("stored 4"), "{told}");
        // The next one comes once the server has seen the end.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // One that ends in the middle of its body has sent no request: its place comes back too.
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbo").await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(!rest(&mut stream).await.contains("200 OK"));
}

#[tokio::test]
async fn a_head_has_a_hundred_headers_at_the_most() {
    let running = start(hello(), bounds()).await;
    for (count, status) in [(100, "HTTP/1.1 200 "), (101, "HTTP/1.1 431 ")] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(count));
        stream.write_all(head.as_bytes()).await.unwrap();
        let told = answer(&mut stream).await;
        assert!(told.starts_with(status), "{count}: {told}");
    }
}

#[tokio::test]
async fn one_connection_more_than_the_bound_is_told_so_and_closed() {
    let running = start(hello(), Bounds { connections_max: 2, ..bounds() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        assert!(answer(&mut stream).await.ends_with("hello"));
        held.push(stream);
    }
    let mut third = TcpStream::connect(running.address).await.unwrap();
    let told = rest(&mut third).await;
    assert!(told.starts_with("HTTP/1.1 503 ") && told.ends_with("try again later\n"), "{told}");
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");

    held.pop();
    // The place comes back once the server has seen the end of the connection.
    let begun = Instant::now();
    loop {
        let mut again = TcpStream::connect(running.address).await.unwrap();
        // It may be turned away, and closed, before it has written.
        let _ = again.write_all(ASK).await;
        if answer_or_nothing(&mut again).await.ends_with("hello") {
            break;
        }
        assert!(begun.elapsed() < NEVER, "a place comes back when a connection ends");
    }
}

async fn answer_or_nothing(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(NEVER, stream.read(&mut bytes)).await.expect("an answer").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let running = start(hello(), bounds()).await;
    for bytes in [16 << 10, 64 << 10, 4 << 20] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ").await.unwrap();
        stream.write_all(&vec![b'x'; bytes]).await.expect("what comes behind the answer is taken too");
        stream.shutdown().await.unwrap();
        let told = rest(&mut stream).await;
        assert!(told.starts_with("HTTP/1.1 431 "), "{bytes}: {told}");
    }
}

#[tokio::test]
async fn a_head_has_as_many_bytes_as_the_bound_says_and_no_more() {
    let running = start(hello(), bounds()).await;
    for (bytes, status) in [(16 << 10, "200"), ((16 << 10) + 1, "431"), (20 << 10, "431")] {
        let frame = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: \r\n\r\n".len();
        let long = "x".repeat(bytes - frame);
        let head =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: {long}\r\n\r\n");
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let told = rest(&mut stream).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes}: {told}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_answered_400_also_behind_one_that_is() {
    let running = start(hello(), bounds()).await;
    for before in [&b""[..], ASK] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let bad = b"GET / HTTP/1.1\r\nno colon\r\n\r\n";
        stream.write_all(&[before, bad, &[b'x'; 100 << 10]].concat()).await.unwrap();
        stream.shutdown().await.unwrap();
        let told = rest(&mut stream).await;
        assert!(told.contains("HTTP/1.1 400 "), "{told}");
        assert_eq!(told.contains("hello"), !before.is_empty(), "{told}");
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_end_of_the_next_request() {
    let running = start(hello(), bounds()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(&[ASK, b"GET / HT"].concat()).await.unwrap();
    assert!(answer(&mut stream).await.ends_with("hello"));
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_read_reaches_its_client() {
    let refuses = Router::new().route("/", post(async || (StatusCode::UNAUTHORIZED, "who?")));
    let running = start(refuses, bounds()).await;
    for bytes in [100, 1 << 20, 16 << 20] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // As most clients do: everything is sent before anything is read.
        stream.write_all(&vec![b'x'; bytes]).await.expect("the rest is taken");
        let told = answer(&mut stream).await;
        assert!(told.starts_with("HTTP/1.1 401 ") && told.ends_with("who?"), "{bytes}: {told}");
    }
}

#[tokio::test]
async fn a_request_of_http_2_that_is_answered_early_is_not_reset_and_others_go_on() {
    let router =
        Router::new().route("/", post(async || (StatusCode::UNAUTHORIZED, "who?")).get(async || "hello"));
    let running = start_http2(router, bounds()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // The head of `POST /` without the end of the request.
    let begun = b"\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x84\x41\x09localhost";
    stream.write_all(&[GREETING, begun].concat()).await.unwrap();
    assert!(!frames_to_head(&mut stream, 1).await.contains(&RESET));
    // Time for what would follow the answer at once.
    sleep(Duration::from_millis(200)).await;
    for flags in [0, 0, 1] {
        let head = [0, 0x40, 0, 0, flags, 0, 0, 0, 1];
        stream.write_all(&[&head[..], &[b'x'; 0x4000]].concat()).await.unwrap();
    }
    let mut next = ASK_HTTP2.to_vec();
    next[8] = 3;
    stream.write_all(&next).await.unwrap();
    assert!(!frames_to_head(&mut stream, 3).await.contains(&RESET));
}

/// As Envoy does where its own client has gone away.
#[tokio::test]
async fn a_body_that_its_client_resets_without_an_error_is_not_whole() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let read = move |body: Body| {
        let tell = tell.clone();
        async move {
            let read = axum::body::to_bytes(body, usize::MAX).await;
            // The test waits for it.
            let _ = tell.send(read.is_ok());
        }
    };
    let running = start_http2(Router::new().route("/", post(read)), bounds()).await;
    let begun = b"\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x84\x41\x09localhost";
    let half = b"\0\0\x04\0\0\0\0\0\x01half";
    // A reset with `NO_ERROR`, one with `CANCEL`, and the end.
    for (end, is_whole) in [
        (&b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0"[..], false),
        (&b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08"[..], false),
        (&b"\0\0\0\0\x01\0\0\0\x01"[..], true),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&[GREETING, begun, half].concat()).await.unwrap();
        // So that the body is being read.
        sleep(Duration::from_millis(100)).await;
        stream.write_all(end).await.unwrap();
        let read = tokio::time::timeout(NEVER, told.recv()).await.expect("it is read");
        assert_eq!(read, Some(is_whole), "{end:?}");
    }
}

/// The kind of a frame of HTTP/2 that resets a request.
const RESET: u8 = 3;

/// The kinds of the frames that come up to the head of the answer to a request.
async fn frames_to_head(stream: &mut TcpStream, request: u8) -> Vec<u8> {
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        tokio::time::timeout(NEVER, stream.read_exact(&mut head)).await.expect("a frame").unwrap();
        let mut content = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        stream.read_exact(&mut content).await.unwrap();
        kinds.push(head[3]);
        if (head[3], head[8]) == (1, request) {
            return kinds;
        }
    }
}

#[tokio::test]
async fn who_never_stops_sending_is_stopped() {
    let refuses = Router::new().route("/", post(async || (StatusCode::UNAUTHORIZED, "who?")));
    let running = start(refuses, bounds()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut sent = 0;
    while stream.write_all(&[b'x'; 1 << 20]).await.is_ok() {
        sent += 1 << 20;
        assert!(sent < 4 * crate::unread::BYTES_MAX, "it goes on for ever");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_its_answer_loses_its_place() {
    // More than the sockets' buffers hold.
    let large = Router::new().route("/", get(async || vec![b'x'; 64 << 20]));
    let bounds = Bounds { connections_max: 1, write_wait_max: Duration::from_millis(300), ..bounds() };
    let running = start(large, bounds).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(ASK).await.unwrap();
    let begun = Instant::now();
    loop {
        let mut other = TcpStream::connect(running.address).await.unwrap();
        let _ = other.write_all(ASK).await;
        if answer_or_nothing(&mut other).await.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(begun.elapsed() < NEVER, "the place comes back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_stop_lets_a_running_request_finish_and_closes_kept_connections() {
    let (begun, mut begins) = tokio::sync::mpsc::channel::<()>(1);
    let slow = move || {
        let begun = begun.clone();
        async move {
            begun.send(()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        }
    };
    let running = start(hello().route("/slow", get(slow)), bounds()).await;
    let mut late = TcpStream::connect(running.address).await.unwrap();
    late.write_all(ASK).await.unwrap();
    assert!(answer(&mut late).await.ends_with("hello"));
    let mut kept = TcpStream::connect(running.address).await.unwrap();
    kept.write_all(ASK).await.unwrap();
    assert!(answer(&mut kept).await.ends_with("hello"));
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    begins.recv().await.unwrap();
    running.stop.send(()).unwrap();
    // One more request over a kept connection, while it is still read.
    late.write_all(ASK).await.unwrap();
    let told = rest(&mut late).await;
    assert!(told.is_empty() || told.contains("connection: close\r\n") && told.ends_with("hello"), "{told}");
    let told = rest(&mut busy).await;
    assert!(told.contains("connection: close\r\n") && told.ends_with("done"), "{told}");
    assert_eq!(rest(&mut kept).await, "");
    tokio::time::timeout(NEVER, running.served).await.expect("it ends").unwrap().unwrap();
}

/// What a client of HTTP/2 says first, with empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET /` of `localhost`, whole, as the first request of a connection.
const ASK_HTTP2: &[u8] = b"\0\0\x0e\x01\x05\0\0\0\x01\x82\x86\x84\x41\x09localhost";

async fn start_http2(router: Router, bounds: Bounds) -> Running {
    start_http2_with(router, bounds, 1 << 20).await
}

/// With so many bytes for the windows of all connections.
async fn start_http2_with(router: Router, bounds: Bounds, windows: usize) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, asked) = oneshot::channel();
    let stopped = async {
        // A dropped sender stops it too.
        let _ = asked.await;
    };
    let edge = Edge { tls: None, http2: Some(Windows::new(windows)) };
    Running { address, stop, served: tokio::spawn(serve_with(listener, router, bounds, edge, stopped)) }
}

#[tokio::test]
async fn connections_of_http_2_without_a_request_end() {
    let bounds = Bounds { connections_max: 5, head_wait_max: Duration::from_millis(300), ..bounds() };
    let running = start_http2(hello(), bounds).await;
    // Too little to tell, the beginning of the greeting, the greeting, and one that begins a head and does not end it.
    let begun_head = [GREETING, b"\0\0\x0e\x01\x01\0\0\0\x01\x82\x86\x84\x41\x09localhost"].concat();
    let mut held = Vec::new();
    for said in [&b"P"[..], b"PRI", b"PRI ", GREETING, &begun_head] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        held.push(stream);
    }
    for stream in &mut held {
        rest(stream).await;
    }
    let mut next = TcpStream::connect(running.address).await.unwrap();
    next.write_all(ASK).await.unwrap();
    assert!(answer(&mut next).await.ends_with("hello"), "there is a place again");
}

#[tokio::test]
async fn a_client_that_has_closed_behind_one_byte_gives_its_place_back() {
    let bounds = Bounds { connections_max: 2, head_wait_max: Duration::from_millis(300), ..bounds() };
    let running = start_http2(hello(), bounds).await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"P").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await, "");
    }
    let mut next = TcpStream::connect(running.address).await.unwrap();
    next.write_all(ASK).await.unwrap();
    assert!(answer(&mut next).await.ends_with("hello"), "there is a place again");
}

#[tokio::test]
async fn a_request_of_http_2_may_take_longer_than_its_connection_may_rest() {
    let slow = || async {
        sleep(Duration::from_millis(1500)).await;
        "slowly done"
    };
    let bounds = Bounds { head_wait_max: Duration::from_millis(300), ..bounds() };
    let running = start_http2(Router::new().route("/", get(slow)), bounds).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(&[GREETING, ASK_HTTP2].concat()).await.unwrap();
    assert!(rest(&mut stream).await.contains("slowly done"));
}

/// What a client of HTTP/2 says first that lets no byte of an answer's body come.
const GREETING_WITHOUT_WINDOW: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// The kinds of the frames that come until the server closes, of a client that answers pings.
async fn frames_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return kinds;
        }
        let mut content = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        if stream.read_exact(&mut content).await.is_err() {
            return kinds;
        }
        kinds.push(head[3]);
        if (head[3], head[4]) == (6, 0) {
            let pong = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &content].concat();
            // The server may have closed.
            let _ = stream.write_all(&pong).await;
        }
    }
}

#[tokio::test]
async fn a_client_of_http_2_that_opens_no_window_for_its_answer_loses_its_place() {
    let bounds = Bounds { write_wait_max: Duration::from_millis(300), ..bounds() };
    for is_stopped in [false, true] {
        let running = start_http2(hello(), bounds).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&[GREETING_WITHOUT_WINDOW, ASK_HTTP2].concat()).await.unwrap();
        let mut before = Vec::new();
        if is_stopped {
            before = frames_to_head(&mut stream, 1).await;
            running.stop.send(()).unwrap();
        }
        let ended = tokio::time::timeout(NEVER, frames_to_end(&mut stream));
        let kinds = [before, ended.await.expect("the server closes")].concat();
        assert!(kinds.contains(&1) && !kinds.contains(&0), "a head and no body: {kinds:?}");
        if is_stopped {
            tokio::time::timeout(NEVER, running.served).await.expect("it ends").unwrap().unwrap();
        }
    }
}

/// By how many bytes the server widens the window of a connection at its beginning.
async fn widened_by(stream: &mut TcpStream) -> u32 {
    let ping = b"\0\0\x08\x06\0\0\0\0\0whatever";
    stream.write_all(&[GREETING, ping].concat()).await.unwrap();
    let (mut widened, mut answered) = (0, 0);
    // What the server has to say at once it says before it answers a second time.
    while answered < 2 {
        let mut head = [0; 9];
        tokio::time::timeout(NEVER, stream.read_exact(&mut head)).await.expect("a frame").unwrap();
        let mut content = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        stream.read_exact(&mut content).await.unwrap();
        match (head[3], head[4]) {
            (8, _) => widened += u32::from_be_bytes(content.try_into().unwrap()),
            (6, 1) => {
                answered += 1;
                stream.write_all(ping).await.unwrap();
            }
            _ => {}
        }
    }
    widened
}

#[tokio::test]
async fn connections_of_http_2_share_what_they_may_send_ahead() {
    let given = 4 << 20;
    let running = start_http2_with(hello(), bounds(), given).await;
    let (mut held, mut widened) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        widened.push(widened_by(&mut stream).await);
        held.push(stream);
    }
    assert!(widened[0] as usize == given / 8 && widened[59] < 10_000, "{widened:?}");
    assert!(widened.iter().map(|bytes| *bytes as usize).sum::<usize>() <= given, "{widened:?}");
    drop(held);
    // The server sees the ends one by one.
    let until = Instant::now() + NEVER;
    loop {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        if widened_by(&mut stream).await as usize == given / 8 {
            break;
        }
        assert!(Instant::now() < until, "what ended gives its share back");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn who_has_connected_before_a_stop_is_answered() {
    // Which of the two the server meets first is left to chance.
    for _ in 0..20 {
        let running = start(hello(), bounds()).await;
        tokio::task::yield_now().await;
        // Without a pause in which the server could accept it.
        let mut stream = std::net::TcpStream::connect(running.address).unwrap();
        std::io::Write::write_all(&mut stream, ASK).unwrap();
        running.stop.send(()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let text = rest(&mut TcpStream::from_std(stream).unwrap()).await;
        assert!(text.ends_with("hello"), "{text}");
        running.served.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_greeting_or_for_a_head() {
    let later = [ASK, b"GET / HTTP/1.1\r\nHost: loc"].concat();
    for said in [&b"P"[..], b"PRI * HT", GREETING, b"GET / HTTP/1.1\r\nHost: loc", &later] {
        // It waits for a head ten times as long as this test for the end.
        let running = start_http2(hello(), bounds()).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        running.stop.send(()).unwrap();
        tokio::time::timeout(NEVER / 10, running.served).await.expect("it ends").unwrap().unwrap();
    }
}

#[tokio::test]
async fn http_2_is_known_by_its_first_bytes_and_only_where_it_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let edge = Edge { tls: None, http2: Some(Windows::new(1 << 20)) };
    tokio::spawn(serve_with(listener, hello(), bounds(), edge, std::future::pending()));
    let mut one = TcpStream::connect(address).await.unwrap();
    // In two pieces: less than the preface says nothing yet.
    one.write_all(b"PR").await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    one.write_all(b"I * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    tokio::time::timeout(NEVER, one.read_exact(&mut frame)).await.expect("an answer").unwrap();
    assert_eq!(frame[3], 4, "the server's first frame has its settings: {frame:?}");
    // `P` alone does not make it so.
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(b"P").await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    other.write_all(b"UT / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(answer(&mut other).await.starts_with("HTTP/1.1 405 "));

    let plain = start(hello(), bounds()).await;
    let mut third = TcpStream::connect(plain.address).await.unwrap();
    third.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let told = answer_or_nothing(&mut third).await;
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
}
