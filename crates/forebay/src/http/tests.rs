use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

struct Lane {
    running: bool,
}

impl View for Lane {
    fn ready(&self) -> Result<(), String> {
        if self.running { Ok(()) } else { Err("starting\nd.t: a\u{1b}[2J".into()) }
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({
            "phase": "running",
            "problems": [{ "words": "a\u{1b}[2J\u{202e}\nb" }],
            "partitions": { "a\u{9b}2J\u{202e}/0": { "next": 7 }, "b/0": { "next": 8 } }
        })
    }
}

async fn ask(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn start(running: bool) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let address = server.address();
    let metrics = Metrics::default();
    metrics::with_local_recorder(&metrics, || metrics::counter!("forebay_test_total").increment(3));
    tokio::spawn(server.serve(metrics, Arc::new(Lane { running })));
    address
}

#[tokio::test]
async fn each_path_answers() {
    let address = start(true).await;
    let host = address.to_string();
    assert!(ask(address, "/metrics", &host).await.contains("forebay_test_total 3"));
    assert!(ask(address, "/healthz", &host).await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "/readyz", &host).await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "/status", &host).await.contains("\"phase\": \"running\""));
    assert!(ask(address, "/", &host).await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn words_of_others_are_escaped_in_status() {
    let answer = ask(start(true).await, "/status", "localhost").await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(value["problems"][0]["words"], "a\\u{1b}[2J\\u{202e}\\nb");
    let named = serde_json::json!({ "a\\u{9b}2J\\u{202e}/0": { "next": 7 }, "b/0": { "next": 8 } });
    assert_eq!(value["partitions"], named, "a file may be called anything");
}

#[tokio::test]
async fn a_lane_that_does_not_run_is_healthy_but_not_ready() {
    let address = start(false).await;
    let ready = ask(address, "/readyz", "localhost").await;
    let (head, reasons) = ready.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503"), "{ready}");
    assert_eq!(reasons, "starting\nd.t: a\\u{1b}[2J\n", "each reason on a line of its own");
    assert!(ask(address, "/healthz", "localhost").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_foreign_name_for_this_machine_is_turned_away() {
    let address = start(true).await;
    for host in ["evil.example", "evil.example:9464", "localhost.evil.example"] {
        assert!(ask(address, "/status", host).await.starts_with("HTTP/1.1 403"), "{host}");
    }
}

#[tokio::test]
async fn other_machines_need_leave() {
    let error = Server::bind("0.0.0.0:0".parse().unwrap(), false).await.err().unwrap();
    assert!(error.to_string().contains("allow_remote"), "{error}");
    Server::bind("0.0.0.0:0".parse().unwrap(), true).await.unwrap();
}

#[tokio::test]
async fn a_page_of_another_site_is_turned_away() {
    let address = start(true).await;
    for header in ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"] {
        let answer = ask(address, "/status", &format!("localhost\r\n{header}")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{header}: {answer}");
    }
}

#[tokio::test]
async fn idle_and_slow_clients_do_not_keep_their_places() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let address = server.address();
    let metrics = Metrics::default();
    let bounds = Bounds {
        connections_max: 2,
        head_wait_max: Duration::from_millis(500),
        head_bytes_max: HEAD_BYTES_MAX,
        write_wait_max: WRITE_WAIT_MAX,
    };
    tokio::spawn(server.serve_within(bounds, metrics, Arc::new(Lane { running: true })));
    let mut held = Vec::new();
    for sent in ["GET /healthz HTT", ""] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        held.push(stream);
    }
    for mut stream in held {
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        // The end may be a reset; what counts is that it comes.
        let _ = tokio::time::timeout(Duration::from_secs(600), end).await.expect("the server closes");
    }
    assert!(ask(address, "/healthz", "localhost").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_taken_port_leads_to_the_next_one_and_a_taken_last_one_is_a_fault() {
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = first.local_addr().unwrap();
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind_free(&[taken, free], false).await.unwrap();
    assert_ne!(server.address(), taken);
    let error = Server::bind_free(&[taken], false).await.err().unwrap();
    assert!(format!("{error:#}").contains("choose another"), "{error:#}");
    drop(first);
}
