#![allow(clippy::disallowed_methods, reason = "a scripted server runs in real time")]

use std::time::Duration;

use bytes::Bytes;
use dataflow::{Attempt, Effect, InsertError, TableFault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{Fixed, RealTime};

/// What the server of a test does with its one connection.
enum Play {
    /// Reads the whole request and answers.
    Answer(&'static str),
    /// Reads the whole request and closes.
    Close,
    /// Reads the whole request and says nothing.
    Hang,
    /// Answers after the head of the request, without waiting for the body.
    AnswerEarly(&'static str),
}

/// A server for one request. The handle gives all bytes that came, until the request was whole or the client left.
async fn serve(play: Play) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let handle = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        let mut piece = [0; 64 << 10];
        loop {
            if whole(&seen) || (matches!(play, Play::AnswerEarly(_)) && head_end(&seen).is_some()) {
                break;
            }
            match socket.read(&mut piece).await {
                Ok(0) | Err(_) => return seen,
                Ok(n) => seen.extend_from_slice(&piece[..n]),
            }
        }
        match play {
            Play::Answer(text) => socket.write_all(text.as_bytes()).await.unwrap(),
            Play::AnswerEarly(text) => {
                socket.write_all(text.as_bytes()).await.unwrap();
                // A socket that is closed with bytes unread would take the answer back.
                while matches!(socket.read(&mut piece).await, Ok(n) if n > 0) {}
            }
            Play::Close => {}
            Play::Hang => tokio::time::sleep(Duration::from_secs(60)).await,
        }
        seen
    });
    (url, handle)
}

fn head_end(seen: &[u8]) -> Option<usize> {
    seen.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

fn whole(seen: &[u8]) -> bool {
    let Some(end) = head_end(seen) else { return false };
    let head = String::from_utf8_lossy(&seen[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|t| t.split("\r\n").next());
    seen.len() >= end + length.unwrap().parse::<usize>().unwrap()
}

fn config(url: &str) -> ServerConfig {
    ServerConfig {
        user: "reader".into(),
        password: Secret::new("geheim-123"),
        // Far beyond what a busy machine takes; tests about the bound have one of their own.
        query_timeout: Duration::from_secs(120),
        insert_timeout: Duration::from_secs(120),
        ..ServerConfig::new(url)
    }
}

/// For servers that never answer.
fn hasty(url: &str) -> Client {
    let bound = Duration::from_millis(500);
    let config = ServerConfig { query_timeout: bound, insert_timeout: bound, ..config(url) };
    Client::new(config, RealTime::shared()).unwrap()
}

fn client(url: &str) -> Client {
    Client::new(config(url), RealTime::shared()).unwrap()
}

async fn insert(url: &str, body_bytes: usize, open: bool) -> Result<(), InsertError> {
    insert_by(&client(url), body_bytes, open).await
}

async fn insert_by(client: &Client, body_bytes: usize, open: bool) -> Result<(), InsertError> {
    let insert = Insert {
        statement: "INSERT INTO `d`.`t` (`a`) FORMAT Native".into(),
        views: false,
        home: None,
        settings: vec![("async_insert", "0".to_owned()), ("deduplicate_insert", "enable".to_owned())],
    };
    let attempt = Attempt {
        token: "tok",
        query_id: "forebay-1",
        body: Bytes::from(vec![7; body_bytes]),
        layout: None,
        gate: &Fixed(open),
    };
    client.insert(&insert, attempt).await
}

const OK: &str = "HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: forebay-1\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn an_insert_announces_its_length_and_names_every_setting() {
    let (url, server) = serve(Play::Answer(OK)).await;
    insert(&url, 1_000_000, true).await.unwrap();
    let seen = server.await.unwrap();
    let end = head_end(&seen).unwrap();
    let head = String::from_utf8_lossy(&seen[..end]).to_string();
    assert_eq!(seen.len() - end, 1_000_000);
    for part in [
        "content-length: 1000000",
        "x-clickhouse-key: geheim-123",
        "x-clickhouse-user: reader",
        "async_insert=0",
        "deduplicate_insert=enable",
        "insert_deduplication_token=tok",
        "wait_end_of_query=1",
        "decompress=1",
        "query_id=forebay-1",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    let address = head.lines().next().unwrap();
    assert!(!address.contains("geheim") && !head.contains("transfer-encoding"), "{head}");
}

#[tokio::test]
async fn a_shut_gate_leaves_the_request_incomplete() {
    for body_bytes in [10, 1024, 1025, 700_000] {
        let (url, server) = serve(Play::Answer(OK)).await;
        let error = insert(&url, body_bytes, false).await.unwrap_err();
        assert_eq!(
            (error.effect, error.remedy, error.kind),
            (Effect::None, Remedy::Stop, TableFault::Fenced)
        );
        let seen = server.await.unwrap();
        assert!(!whole(&seen), "the last bytes of {body_bytes} must not have left");
        if body_bytes > 1024 {
            assert_eq!(seen.len() - head_end(&seen).unwrap(), body_bytes - 1024);
        }
    }
}

#[tokio::test]
async fn a_lost_answer_leaves_the_effect_unknown() {
    let (url, _server) = serve(Play::Close).await;
    let error = insert(&url, 5000, true).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::Broken));
    let (url, _server) = serve(Play::Hang).await;
    let error = insert_by(&hasty(&url), 5000, true).await.unwrap_err();
    assert_eq!(
        (error.effect, error.remedy, error.kind),
        (Effect::Unknown, Remedy::Resend, TableFault::Timeout)
    );
}

#[tokio::test]
async fn no_connection_means_no_effect() {
    let error = insert("http://127.0.0.1:1", 5000, true).await.unwrap_err();
    assert_eq!(
        (error.effect, error.remedy, error.kind),
        (Effect::None, Remedy::Resend, TableFault::Connection)
    );
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_with_the_reason() {
    // Nobody listens where a listener has just gone.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{gone}");
    let refused =
        format!("server `{url}`: no connection: tcp connect error: Connection refused (os error 111)");
    assert_eq!(insert(&url, 5000, true).await.unwrap_err().message, refused);
    assert_eq!(client(&url).query("SELECT 1", &[], &[]).await.unwrap_err().message, refused);
    let url = "http://no-such-host.invalid:8123";
    for error in [
        insert(url, 5000, true).await.unwrap_err().message,
        client(url).query("SELECT 1", &[], &[]).await.unwrap_err().message,
    ] {
        assert!(error.starts_with(&format!("server `{url}`: no connection: dns error")), "{error}");
    }
    // Answers that did not come, broke off, or are of something else.
    for (play, says) in [
        (Play::Close, "the connection broke after the last bytes were sent"),
        (
            Play::Answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            "nothing answers at this address",
        ),
        (
            Play::Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            "the answer is not one of ClickHouse",
        ),
    ] {
        let (url, _server) = serve(play).await;
        let error = insert(&url, 5000, true).await.unwrap_err().message;
        assert!(error.starts_with(&format!("server `{url}`: {says}")), "{error}");
    }
    let (url, _server) = serve(Play::Hang).await;
    let error = insert_by(&hasty(&url), 5000, true).await.unwrap_err().message;
    assert!(error.starts_with(&format!("server `{url}`: no answer in time")), "{error}");
    let (url, _server) = serve(Play::Hang).await;
    let error = hasty(&url).query("SELECT 1", &[], &[]).await.unwrap_err().message;
    assert!(error.starts_with(&format!("server `{url}`: no answer within 0.5 s to `SELECT 1`")), "{error}");
    // What ClickHouse itself says needs no address.
    let said = "HTTP/1.1 500 x\r\nX-ClickHouse-Exception-Code: 252\r\nContent-Length: 0\r\n\r\n";
    let (url, _server) = serve(Play::Answer(said)).await;
    assert!(!insert(&url, 5000, true).await.unwrap_err().message.contains(&url));
}

#[tokio::test]
async fn status_200_with_an_exception_in_the_header_is_a_failure() {
    let (url, _server) = serve(Play::Answer(
        "HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Code: 241\r\nContent-Length: 0\r\n\r\n",
    ))
    .await;
    assert_eq!(insert(&url, 5000, true).await.unwrap_err().code, 241);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_a_success() {
    let (url, _server) = serve(Play::Answer(
        "HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: forebay-1\r\nContent-Length: 10\r\n\r\n",
    ))
    .await;
    let error = insert(&url, 5000, true).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::Broken));
}

#[tokio::test]
async fn an_early_refusal_is_read_and_has_no_effect() {
    let refusal = "HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 516\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!";
    let (url, _server) = serve(Play::AnswerEarly(refusal)).await;
    let error = insert(&url, 30_000_000, true).await.unwrap_err();
    assert_eq!(error.effect, Effect::None, "{error:?}");
}

#[tokio::test]
async fn a_success_that_comes_before_the_request_is_whole_is_none() {
    for open in [true, false] {
        let (url, _server) = serve(Play::AnswerEarly(OK)).await;
        let error = insert(&url, 60_000_000, open).await.unwrap_err();
        assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::NotTheServer), "{error:?}");
    }
}

/// A constraint quotes the values of the row that it refuses, however long they are, and a view is named behind them.
#[tokio::test]
async fn a_long_refusal_is_read_at_its_beginning_and_its_end() {
    for (end, effect, kind) in [
        ("(VIOLATED_CONSTRAINT)", Effect::None, TableFault::BadContent),
        (": while pushing to view d.mv (1b4e28ba). (VIOLATED_CONSTRAINT)", Effect::Unknown, TableFault::View),
    ] {
        let values = "x".repeat(1 << 20);
        let body = format!(
            "Code: 469. DB::Exception: Constraint `c` for table d.t is violated at row 4. Expression: (length(v) < 9). Column values: v = '{values}'. {end}"
        );
        let text = format!(
            "HTTP/1.1 500 X\r\nX-ClickHouse-Exception-Code: 469\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (url, _server) = serve(Play::Answer(Box::leak(text.into_boxed_str()))).await;
        let error = insert(&url, 5000, true).await.unwrap_err();
        assert_eq!((error.effect, error.kind, error.code), (effect, kind, 469), "{}", error.message);
        assert!(error.message.contains("is violated at row 4") && error.message.len() < 1_000);
    }
}

#[tokio::test]
async fn secrets_never_show() {
    let echo = "HTTP/1.1 500 X\r\nContent-Length: 26\r\n\r\nwho is reader geheim-123 ?";
    let (url, _server) = serve(Play::Answer(echo)).await;
    let error = client(&url).query("SELECT 1", &[], &[]).await.unwrap_err();
    assert!(error.message.contains("***") && !error.message.contains("geheim"), "{error}");
    let (url, _server) = serve(Play::Answer(echo)).await;
    let error = insert(&url, 5000, true).await.unwrap_err();
    assert!(error.message.contains("***") && !error.message.contains("geheim"), "{error}");
    assert!(!format!("{:?}", config("http://h")).contains("geheim"));
    let refused = Client::new(config("http://reader:geheim-123@h:1"), RealTime::shared());
    let message = refused.err().unwrap().message;
    assert!(message.contains("put them into") && !message.contains("geheim"), "{message}");
}

#[tokio::test]
async fn questions_are_bounded_in_time_and_size() {
    let (url, _server) = serve(Play::Hang).await;
    let error = hasty(&url).query("SELECT 1", &[], &[]).await.unwrap_err();
    assert!(error.message.contains("within 0.5 s"), "{error}");
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 17 << 20, "x".repeat(17 << 20));
    let (url, _server) = serve(Play::Answer(Box::leak(long.into_boxed_str()))).await;
    let error = client(&url).query("SELECT 1", &[], &[]).await.unwrap_err();
    assert!(error.message.contains("longer than"), "{error}");
}

#[tokio::test]
async fn rows_are_read_as_tuples() {
    let body = "[\"a\",1]\n[\"b\",18446744073709551615]\n";
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (url, server) = serve(Play::Answer(Box::leak(text.into_boxed_str()))).await;
    let rows: Vec<(String, u64)> = client(&url).rows_with("SELECT x", &[], &[("p", "v")]).await.unwrap();
    assert_eq!(rows, [("a".to_owned(), 1), ("b".to_owned(), u64::MAX)]);
    let seen = String::from_utf8(server.await.unwrap()).unwrap();
    assert!(seen.contains("param_p=v") && seen.ends_with("FORMAT JSONCompactEachRow"), "{seen}");
}

#[tokio::test]
async fn an_empty_answer_to_a_question_of_one_row_is_an_error_and_never_zero() {
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (url, _server) = serve(Play::Answer(empty)).await;
    let error = client(&url).one::<(u64,)>("SELECT count() FROM t", &[], &[]).await.unwrap_err();
    assert_eq!((error.remedy, error.kind), (Remedy::Resend, TableFault::Uncertain));
    assert!(error.message.starts_with("the answer is empty"), "{error}");
    let two = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n[1]\n[2]\n";
    let (url, _server) = serve(Play::Answer(two)).await;
    let error = client(&url).one::<(u64,)>("SELECT count() FROM t", &[], &[]).await.unwrap_err();
    assert!(error.message.contains("more than one row"), "{error}");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_worth_asking_again() {
    for (body, remedy) in [("[\"a", Remedy::Resend), ("[\"a\"", Remedy::Resend), ("<html>", Remedy::Stop)] {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let (url, _server) = serve(Play::Answer(Box::leak(text.into_boxed_str()))).await;
        let error = client(&url).one::<(String,)>("SELECT a", &[], &[]).await.unwrap_err();
        assert!(error.remedy == remedy && error.message.contains("cannot be read"), "{body}: {error}");
    }
}

/// A lookup would find none of its rows, and `verify` would miss all of them.
#[tokio::test]
async fn an_empty_answer_that_is_not_the_servers_is_never_one_of_no_rows() {
    let nobodys = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (url, _server) = serve(Play::Answer(nobodys)).await;
    let error = client(&url).query_bytes("SELECT a FROM t", &[], 1 << 20).await.unwrap_err();
    assert_eq!((error.remedy, error.kind), (Remedy::Resend, TableFault::Uncertain));
    assert!(error.message.contains(&url) && error.message.contains("let them pass"), "{error}");
    let (url, _server) = serve(Play::Answer(nobodys)).await;
    client(&url).rows_with::<(u64,)>("SELECT a FROM t", &[], &[]).await.unwrap_err();
    // That of the server says what it means.
    let (url, _server) = serve(Play::Answer(OK)).await;
    let rows = client(&url).rows_with::<(u64,)>("SELECT a FROM t", &[], &[]).await.unwrap();
    assert!(rows.is_empty(), "{rows:?}");
}

/// Row policies, among others, would not be seen for minutes.
#[tokio::test]
async fn what_a_proxy_or_a_login_says_is_no_word_about_the_right_to_ask() {
    for (answer, is_denied) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nNot Found", false),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nForbidden", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", false),
        (
            "HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 516\r\nContent-Length: 34\r\n\r\nCode: 516. DB::Exception: no login",
            false,
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 497\r\nContent-Length: 35\r\n\r\nCode: 497. DB::Exception: no grants",
            true,
        ),
    ] {
        let (url, _server) = serve(Play::Answer(answer)).await;
        let client = client(&url);
        let first = client.one_if_allowed::<(u64,)>("SELECT 1", &[], &[]).await;
        assert_eq!(first.is_ok_and(|row| row.is_none()), is_denied, "{answer}");
        // Nobody answers any more, so that what is known of it shows.
        let second = client.one_if_allowed::<(u64,)>("SELECT 1", &[], &[]).await;
        assert_eq!(second.is_ok_and(|row| row.is_none()), is_denied, "{answer}");
    }
}

#[tokio::test]
async fn https_needs_no_provider_of_the_process_and_a_real_ca() {
    let error = insert("https://127.0.0.1:1", 5000, true).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::None, TableFault::Connection), "{error}");
    let bad = ServerConfig { ca_pem: Some(b"not a certificate".to_vec()), ..config("https://h:1") };
    let error = Client::new(bad, RealTime::shared()).err().unwrap();
    assert!(error.message.contains("`ca` holds no certificates"), "{error}");
    for url in ["ftp://h", "http://h?x=1", "h:1", ""] {
        assert!(Client::new(config(url), RealTime::shared()).is_err(), "{url}");
    }
}

/// Answers the first request of each connection, and closes the connection under the second.
async fn closing_server() -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                for may_answer in [true, false] {
                    let mut request = Vec::new();
                    let mut piece = [0; 4096];
                    while !whole(&request) {
                        match socket.read(&mut piece).await {
                            Ok(0) | Err(_) => return,
                            Ok(n) => request.extend_from_slice(&piece[..n]),
                        }
                    }
                    seen.fetch_add(1, Ordering::SeqCst);
                    if may_answer {
                        socket.write_all(OK.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    (url, requests)
}

#[tokio::test]
async fn a_question_on_a_kept_connection_that_was_closed_is_asked_again() {
    let (url, requests) = closing_server().await;
    let client = client(&url);
    client.query("SELECT 1", &[], &[]).await.unwrap();
    client.query("SELECT 2", &[], &[]).await.unwrap();
    assert_eq!(requests.load(std::sync::atomic::Ordering::SeqCst), 3, "the second one twice");

    let (url, requests) = closing_server().await;
    let client = super::tests::client(&url);
    client.query("SELECT 1", &[], &[]).await.unwrap();
    client.query("CREATE TABLE t (a Int8) ENGINE = Memory", &[], &[]).await.unwrap_err();
    assert_eq!(
        requests.load(std::sync::atomic::Ordering::SeqCst),
        2,
        "what changes something is the caller's to repeat"
    );
}

#[test]
fn this_machine_is_known_by_its_loopback_names() {
    for (url, ours) in [
        ("http://localhost:8123", true),
        ("http://127.0.0.1:8123", true),
        ("http://[::1]:8123", true),
        ("http://[::ffff:127.0.0.1]/", true),
        ("http://localhost.example", false),
        ("http://10.0.0.1:8123", false),
        ("http://[2001:db8::1]:8123", false),
    ] {
        assert_eq!(is_this_machine(&Url::parse(url).unwrap()), ours, "{url}");
    }
}

#[test]
fn a_process_without_descriptors_is_told_its_own_limit() {
    let error = std::io::Error::from_raw_os_error(24);
    assert!(own_limit(&format!("tcp connect error: {error}")).contains("`ulimit -n`"));
    assert_eq!(own_limit("tcp connect error: Connection refused (os error 111)"), "");
}

#[test]
fn a_server_on_this_machine_is_never_asked_through_a_proxy() {
    testkit::assert_this_machine_is_asked_directly(
        module_path!(),
        "a_server_on_this_machine_is_never_asked_through_a_proxy",
        |url| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = Client::new(ServerConfig::new(url), RealTime::shared()).unwrap();
                client.query("SELECT 1", &[], &[]).await.unwrap_err();
            });
        },
    );
}
