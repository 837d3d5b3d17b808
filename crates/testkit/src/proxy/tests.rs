use std::io::{BufReader, Read};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::http::wire::{Body, Framing, Head, write_chunk, write_last_chunk};
use crate::http::{HttpClient, HttpError, encode};
use crate::wait_until;

/// Longer than any pause of a busy machine: no test here is decided by it.
const SOON: Duration = Duration::from_secs(600);

/// A server that answers each request with the body that it got, and reports what arrived.
struct Echo {
    url: String,
    arrived: Receiver<Arrived>,
}

#[derive(Debug, PartialEq, Eq)]
struct Arrived {
    body: Vec<u8>,
    whole: bool,
}

impl Echo {
    fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, arrived) = channel();
        std::thread::spawn(move || {
            // Ends with the test process; each test has its own server.
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let Some(message) = Echo::answer(&stream) else { continue };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Echo { url, arrived }
    }

    fn answer(stream: &TcpStream) -> Option<Arrived> {
        let mut reader = BufReader::new(stream);
        let head = Head::read(&mut reader).ok()??;
        let framing = Framing::of_request(&head).ok()?;
        let mut body = Vec::new();
        let whole = Body::new(&mut reader, framing).read_to_end(&mut body).is_ok();
        if whole {
            // The proxy may cut the answer short.
            let _ = Echo::send_back(stream, framing, &body);
        }
        Some(Arrived { body, whole })
    }

    fn send_back(mut stream: &TcpStream, framing: Framing, body: &[u8]) -> io::Result<()> {
        let mut answer =
            Head { start: "HTTP/1.1 200 OK".into(), headers: vec![("X-Served".into(), "yes".into())] };
        if framing == Framing::Chunked {
            answer.set("Transfer-Encoding", "chunked");
            answer.write(&mut stream)?;
            body.chunks(3).try_for_each(|chunk| write_chunk(&mut stream, chunk))?;
            write_last_chunk(&mut stream)
        } else {
            answer.set("Content-Length", &body.len().to_string());
            answer.write(&mut stream)?;
            io::Write::write_all(&mut stream, body)
        }
    }

    fn next(&self) -> Arrived {
        self.arrived.recv_timeout(SOON).unwrap()
    }

    fn nothing_came(&self) -> bool {
        self.arrived.recv_timeout(Duration::from_millis(50)).is_err()
    }
}

fn whole(body: &[u8]) -> Arrived {
    Arrived { body: body.to_vec(), whole: true }
}

fn world() -> (Echo, FaultProxy, HttpClient) {
    let echo = Echo::start();
    let proxy = FaultProxy::start(&echo.url).unwrap();
    let client = HttpClient::new(&proxy.url()).timeout(SOON);
    (echo, proxy, client)
}

fn insert_target(table: &str) -> String {
    format!("/?query={}&insert_deduplication_token=t1", encode(&format!("INSERT INTO {table} FORMAT Native")))
}

#[test]
fn without_rules_bodies_pass_in_either_framing() {
    let (echo, proxy, client) = world();
    let large = vec![7; 3 * 65_536 + 1];
    let answer = client.post("/", &large).unwrap();
    assert_eq!((answer.status, answer.header("x-served"), &answer.body), (200, Some("yes"), &large));
    assert_eq!(echo.next(), whole(&large));
    let answer = client.post_chunked("/", &[b"hello", b" world"]).unwrap();
    assert_eq!(answer.text(), "hello world");
    assert_eq!(echo.next(), whole(b"hello world"));
    assert_eq!(proxy.counters(), Counters { connections: 2, requests: 2, ..Counters::default() });
}

#[test]
fn one_connection_carries_many_requests() {
    let (_echo, proxy, _) = world();
    let mut stream = TcpStream::connect(proxy.url().strip_prefix("http://").unwrap()).unwrap();
    for body in ["one", "two"] {
        let request = format!("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n{body}");
        io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut reader = BufReader::new(&stream);
        let head = Head::read(&mut reader).unwrap().unwrap();
        let mut content = String::new();
        Body::new(&mut reader, Framing::of_answer(&head).unwrap()).read_to_string(&mut content).unwrap();
        assert_eq!(content, body);
    }
    assert_eq!(proxy.counters().connections, 1);
    assert_eq!(proxy.counters().requests, 2);
}

#[test]
fn a_rule_takes_the_requests_that_fit_as_often_as_it_says() {
    let (echo, proxy, client) = world();
    let busy = Fault::Answer(Answer::exception(500, 252, "Too many parts"));
    let rule = proxy.add(Rule::next(2, busy).query("INSERT INTO x").skip(1));
    let statuses: Vec<u16> = ["x", "y", "x", "y", "x", "x"]
        .map(|table| client.post(&insert_target(table), b"rows").unwrap().status)
        .into();
    assert_eq!(statuses, [200, 200, 500, 200, 500, 200]);
    assert_eq!(proxy.fired(rule), 2);
    assert_eq!(echo.arrived.try_iter().count(), 4, "the refused ones do not reach the server");
}

#[test]
fn sql_is_found_in_the_body_too() {
    let (_echo, proxy, client) = world();
    let rule =
        proxy.add(Rule::always(Fault::Answer(Answer::new(503, "no"))).query("SELECT 1").method("POST"));
    assert_eq!(client.post("/?database=d", b"SELECT 1").unwrap().status, 503);
    assert_eq!(client.post("/", b"SELECT 2").unwrap().text(), "SELECT 2");
    assert_eq!(proxy.fired(rule), 1);
    proxy.remove(rule);
    assert_eq!(client.post("/", b"SELECT 1").unwrap().status, 200);
    assert_eq!(proxy.fired(rule), 1);
}

#[test]
fn an_exception_can_hide_behind_200() {
    let (_echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Answer(Answer::exception_in_body(241, "memory"))));
    let answer = client.post("/", b"rows").unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "Code: 241. DB::Exception: memory\n"));
}

#[test]
fn an_early_answer_leaves_the_body_unread() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Answer(Answer::new(503, "away").reach(Reach::Head))));
    // Larger than both socket buffers: the client is still writing when it is answered.
    let answer = client.post(&insert_target("x"), &vec![0; 32 << 20]).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (503, "away"));
    assert!(echo.nothing_came());
    assert!(!proxy.seen()[0].body_whole);
}

#[test]
fn a_gateway_may_answer_for_a_server_that_did_the_work() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Answer(Answer::new(504, "late").reach(Reach::Server))));
    assert_eq!(client.post("/", b"rows").unwrap().status, 504);
    assert_eq!(echo.next(), whole(b"rows"));
    assert_eq!(proxy.seen()[0].server_status, Some(200));
}

#[test]
fn a_swallowed_answer_resets_the_client_after_the_work() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::SwallowAnswer));
    let Err(HttpError::Broken(error)) = client.post("/", b"rows") else { panic!("an answer came through") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(echo.next(), whole(b"rows"));
}

#[test]
fn a_reset_keeps_the_request_from_the_server() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Reset));
    assert!(matches!(client.post("/?query=x", b"rows"), Err(HttpError::Broken(_))));
    assert!(echo.nothing_came());
}

#[test]
fn a_cut_request_reaches_the_server_in_part() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(2, Fault::CutRequest { body_bytes: 4 }));
    assert!(matches!(client.post("/", b"12345678"), Err(HttpError::Broken(_))));
    assert_eq!(echo.next(), Arrived { body: b"1234".into(), whole: false });
    assert!(matches!(client.post_chunked("/", &[b"123", b"45678"]), Err(HttpError::Broken(_))));
    assert_eq!(echo.next(), Arrived { body: b"1234".into(), whole: false });
}

#[test]
fn a_cut_answer_breaks_in_either_framing() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(2, Fault::CutAnswer { body_bytes: 4 }));
    for answer in [client.post("/", b"12345678"), client.post_chunked("/", &[b"12345678"])] {
        assert!(matches!(answer, Err(HttpError::Broken(_))));
        assert_eq!(echo.next(), whole(b"12345678"));
    }
}

#[test]
fn delays_hold_the_request_or_the_answer() {
    let (echo, proxy, client) = world();
    let delay = Duration::from_millis(200);
    for (fault, arrives_early) in [(Fault::DelayRequest(delay), false), (Fault::DelayAnswer(delay), true)] {
        proxy.add(Rule::next(1, fault));
        let start = std::time::Instant::now();
        let client = client.clone();
        let asker = std::thread::spawn(move || client.post("/", b"rows").unwrap().status);
        assert_eq!(echo.next(), whole(b"rows"));
        let arrived = start.elapsed();
        assert_eq!(asker.join().unwrap(), 200);
        assert!(start.elapsed() >= delay);
        assert!(arrives_early || arrived >= delay, "{arrived:?}");
    }
}

#[test]
fn a_tail_is_held_while_the_rule_is_there_and_then_arrives_without_the_client() {
    let (echo, proxy, client) = world();
    for body_bytes in [3, 8, u64::MAX] {
        let held = proxy.add(Rule::next(1, Fault::HoldTail { body_bytes }));
        assert!(matches!(client.post("/", b"12345678"), Err(HttpError::Broken(_))));
        assert!(echo.nothing_came(), "it waits for the rest");
        assert_eq!(proxy.fired(held), 1);
        proxy.remove(held);
        assert_eq!(echo.next(), whole(b"12345678"));
        let is_answered = |seen: &Seen| seen.rule == Some(held) && seen.server_status == Some(200);
        wait_until(SOON, "the answer to be recorded", || proxy.seen().iter().any(is_answered));
    }
}

#[test]
fn a_hanging_request_ends_with_the_clients_patience() {
    let (echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Hang));
    let client = client.timeout(Duration::from_millis(100));
    assert!(matches!(client.post("/", b"rows"), Err(HttpError::Broken(_))));
    assert!(echo.nothing_came());
}

#[test]
fn refusing_looks_like_a_server_that_is_not_there() {
    let (_echo, proxy, client) = world();
    for _ in 0..3 {
        proxy.refuse().unwrap();
        assert!(matches!(client.post("/", b"rows"), Err(HttpError::Connect(_))));
        proxy.accept().unwrap();
        assert_eq!(client.post("/", b"rows").unwrap().status, 200);
    }
}

#[test]
fn refusing_cuts_requests_that_are_under_way() {
    let (_echo, proxy, client) = world();
    proxy.add(Rule::next(1, Fault::Hang));
    let asker = std::thread::spawn(move || client.post("/", b"rows"));
    wait_until(SOON, "the request to hang", || proxy.counters().faults == 1);
    proxy.refuse().unwrap();
    assert!(asker.join().unwrap().is_err());
}

#[test]
fn a_server_that_is_away_resets_and_is_counted() {
    let proxy = FaultProxy::start(&format!("http://127.0.0.1:{}", free_port())).unwrap();
    let client = HttpClient::new(&proxy.url()).timeout(SOON);
    assert!(matches!(client.post("/", b"rows"), Err(HttpError::Broken(_))));
    assert_eq!(proxy.counters().unreachable, 1);
}

#[test]
fn the_record_tells_tokens_and_bodies_apart() {
    let (_echo, proxy, client) = world();
    for body in [&b"rows"[..], b"rows", b"sows"] {
        client.post(&insert_target("x"), body).unwrap();
    }
    let seen = proxy.seen();
    assert_eq!(seen[0].parameter("insert_deduplication_token"), Some("t1"));
    assert_eq!(seen[0].query, "INSERT INTO x FORMAT Native");
    assert_eq!((seen[0].body_bytes, seen[0].body_whole, seen[0].server_status), (4, true, Some(200)));
    assert_eq!(seen[0].body_hash, seen[1].body_hash);
    assert_ne!(seen[0].body_hash, seen[2].body_hash);
    assert_eq!(seen[0].header("content-length"), Some("4"));
}

#[test]
fn a_client_that_has_its_answer_finds_its_request_in_the_record() {
    let (_echo, proxy, client) = world();
    proxy.add(Rule::always(Fault::Answer(Answer::new(503, "away"))).query("refused"));
    // Often enough that a record that is written after the answer is missed.
    for round in 0..500 {
        assert_eq!(client.post("/", b"rows").unwrap().status, 200);
        assert_eq!(client.post("/?query=refused", b"rows").unwrap().status, 503);
        let seen = proxy.seen();
        assert_eq!(seen.len(), 2 * round + 2);
        assert!(seen.iter().all(|seen| seen.body_whole && seen.body_bytes == 4), "round {round}");
        assert_eq!(seen[2 * round].server_status, Some(200));
    }
}
