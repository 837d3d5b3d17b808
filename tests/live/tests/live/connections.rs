//! Many connections at one gateway at once: those that rest, of HTTP/1.1 and of gRPC, beside those that send. Everybody is served, what was acknowledged
//! is there once, and the memory stays below 512 MiB.
//!
//! `FOREBAY_CONNECTIONS=10000/1000` says how many rest and how many send; without it there are few.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use h2::client::SendRequest;
use hyper::Request;
use live::pipeline::term;
use live::{Case, PATIENCE};
use testkit::{Spawn, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::hostile::{field, rss_mib_max};
use super::logs::{program, wait_for_gateway};

/// How many rest and how many send where nobody says otherwise.
const FEW: (usize, usize) = (500, 50);
/// Requests of each sender, one after the other, and records of each request.
const REQUESTS: usize = 10;
const RECORDS: usize = 10;
/// Connections that are opened at the same time: as many as the kernel keeps until they are accepted, by far.
const OPENING: usize = 200;
/// Places beside those of all of them.
const SPARE: usize = 16;
/// What the gateway may take in all.
const PEAK_MIB_MAX: u64 = 512;
/// A connection that has rested longer may have been told to go.
const REST_MAX: Duration = Duration::from_secs(50);
/// The limit of open files that the gateway is started with; it raises that to what the system allows.
const FILES_AT_START: u32 = 256;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// A connection of somebody who sends or rests.
enum Client {
    Http(TcpStream),
    Grpc(SendRequest<bytes::Bytes>),
}

impl Client {
    /// Connects. Every second one speaks gRPC.
    async fn open(port: u16, number: usize) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        if number.is_multiple_of(2) {
            return Self::Http(stream);
        }
        let (client, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Self::Grpc(client)
    }

    /// Asks whether the gateway is well, which it is.
    async fn greet(&mut self) {
        match self {
            Self::Http(stream) => {
                let (status, text) = ask(stream, "GET", "/readyz", "", b"").await;
                assert_eq!((status, text.as_str()), (200, "ready\n"));
            }
            Self::Grpc(client) => assert_eq!(call(client, CHECK, &[]).await, "0"),
        }
    }

    /// Sends the records of a request until they are acknowledged, and no more often than must be; how often that was.
    async fn send(&mut self, sender: usize, request: usize) -> u64 {
        let begun = Instant::now();
        for tries in 1.. {
            assert!(begun.elapsed() < PATIENCE, "request {request} of sender {sender} is never acknowledged");
            let is_taken = match self {
                Self::Http(stream) => {
                    let key = format!("Idempotency-Key: {sender}-{request}\r\n");
                    let ids = (0..RECORDS).map(|n| format!("{{\"id\":\"{sender}-{request}-{n}\"}}\n"));
                    let body: String = ids.collect();
                    let (status, text) =
                        ask(stream, "POST", "/v1/streams/orders", &key, body.as_bytes()).await;
                    assert!([200, 429, 503].contains(&status), "{status}: {text}");
                    status == 200
                }
                Self::Grpc(client) => {
                    let records: Vec<u8> =
                        (0..RECORDS).flat_map(|n| log(&format!("{sender}-{request}-{n}"))).collect();
                    let code = call(client, EXPORT, &field(1, &field(2, &records))).await;
                    assert!(["0", "14"].contains(&code.as_str()), "{code}");
                    code == "0"
                }
            };
            if is_taken {
                return tries;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("it ends by time")
    }
}

/// A log record whose body is `<id>`.
fn log(id: &str) -> Vec<u8> {
    field(2, &field(5, &field(1, format!("<{id}>").as_bytes())))
}

/// A request of HTTP/1.1 on a connection that goes on; the status and the body of the answer.
async fn ask(stream: &mut TcpStream, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.expect("it reads");
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
                return (status, body.to_owned());
            }
        }
        let mut piece = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.expect("an answer");
        let read = read.expect("the connection holds");
        assert!(read > 0, "the connection ended: {text}");
        answer.extend_from_slice(&piece[..read]);
    }
}

/// A call of gRPC; its code.
async fn call(client: &mut SendRequest<bytes::Bytes>, path: &str, message: &[u8]) -> String {
    let request = Request::post(format!("http://localhost{path}"));
    let request = request
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
    let framed = [&[0], &length[..], message].concat();
    let answered = async {
        let mut ready = client.clone().ready().await.expect("the connection holds");
        let (response, mut body) = ready.send_request(request, false).expect("the connection holds");
        body.send_data(framed.into(), true).expect("the call goes on");
        let (head, mut body) = response.await.expect("an answer").into_parts();
        while let Some(piece) = body.data().await {
            let piece = piece.expect("the answer goes on");
            body.flow_control().release_capacity(piece.len()).expect("it was taken");
        }
        let trailers = body.trailers().await.expect("the answer ends").unwrap_or_default();
        let code = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
        code.and_then(|code| code.to_str().ok()).expect("a code").to_owned()
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer")
}

/// Opens so many connections and greets on each.
async fn open(port: u16, count: usize) -> Vec<(Client, Instant)> {
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        let mut opening = JoinSet::new();
        for number in clients.len()..count.min(clients.len() + OPENING) {
            opening.spawn(async move {
                let mut client = Client::open(port, number).await;
                client.greet().await;
                (client, Instant::now())
            });
        }
        clients.extend(opening.join_all().await);
    }
    clients
}

/// Sends on a connection of its own again and again while others send; how often that was, and how long the longest took.
async fn newcomer(port: u16, over: Arc<AtomicBool>) -> (usize, Duration) {
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !over.load(Ordering::Acquire) {
        let begun = Instant::now();
        let mut client = Client::open(port, 2 * count).await;
        client.send(usize::MAX, count).await;
        longest = longest.max(begun.elapsed());
        count += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (count, longest)
}

/// One connection more than there may be is told so; no more than `spare` are served before.
async fn one_too_many(port: u16, spare: usize) {
    let (mut held, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < PATIENCE {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read_to_end(&mut answer)).await;
        if matches!(read, Ok(Ok(1..))) {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(
                answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"),
                "{answer}"
            );
            return;
        }
        // On a busy machine the words may come later than that: only who is served has a place.
        if is_served(&mut stream).await {
            held.push(stream);
            assert!(held.len() <= spare, "{} connections more than there may be", held.len());
        }
    }
    panic!("nobody was told so; {} were served", held.len());
}

/// Whether a request on this connection is answered as one should be.
async fn is_served(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 4096];
    let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.expect("an answer or an end");
    asked.is_ok() && read.is_ok_and(|read| piece[..read].starts_with(b"HTTP/1.1 200"))
}

/// Everything that the clients do; what to print.
async fn visit(port: u16, idle: usize, active: usize) -> String {
    let begun = Instant::now();
    let mut resting = open(port, idle).await;
    let opened = begun.elapsed();
    let (over, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let newcomer = tokio::spawn(newcomer(port, over.clone()));
    let (begun, all_here) = (Instant::now(), Arc::new(Barrier::new(active)));
    let mut senders = JoinSet::new();
    for (sender, (mut client, _)) in open(port, active).await.into_iter().enumerate() {
        let (all_here, tries) = (all_here.clone(), tries.clone());
        senders.spawn(async move {
            all_here.wait().await;
            for request in 0..REQUESTS {
                tries.fetch_add(client.send(sender, request).await, Ordering::Relaxed);
            }
            client
        });
    }
    let senders = senders.join_all().await;
    let took = begun.elapsed();
    over.store(true, Ordering::Release);
    let (visits, longest) = newcomer.await.expect("the newcomer");
    assert!(visits > 0);
    // Where the senders take so long, the first have rested for too long by now.
    let is_slow = resting.first().is_some_and(|(_, since)| since.elapsed() >= REST_MAX);
    one_too_many(port, if is_slow { idle + SPARE } else { SPARE }).await;
    let mut rested = 0;
    for (client, since) in &mut resting {
        if since.elapsed() < REST_MAX {
            client.greet().await;
            rested += 1;
        }
    }
    let is_slow = resting.first().is_some_and(|(_, since)| since.elapsed() >= REST_MAX);
    assert!(rested == idle || is_slow, "{rested} of {idle} rested and were served again");
    assert_eq!(senders.len(), active);
    format!(
        "{idle} connections opened in {:.1} s, {rested} of them rested and were served again; {active} senders took {:.1} s for {} requests of {RECORDS} records in {} \
         tries; {visits} newcomers waited {:.2} s at the most",
        opened.as_secs_f64(),
        took.as_secs_f64(),
        active * REQUESTS,
        tries.load(Ordering::Relaxed),
        longest.as_secs_f64()
    )
}

/// How many rest and how many send.
fn counts() -> (usize, usize) {
    let Ok(text) = std::env::var("FOREBAY_CONNECTIONS") else { return FEW };
    let counts =
        text.split_once('/').and_then(|(idle, active)| Some((idle.parse().ok()?, active.parse().ok()?)));
    counts.unwrap_or_else(|| panic!("`FOREBAY_CONNECTIONS` is `{text}`, and not as `10000/1000`"))
}

/// This process has a file open for each connection too.
fn allow_files(files: usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux has it");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let soft: usize = line.split_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX);
    if soft < files {
        let pid = std::process::id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:")]).status();
        assert!(raised.is_ok_and(|status| status.success()), "this process may have {soft} files open");
    }
}

/// How often each id is in the log of a stream, of those between two marks.
fn ids(case: &Case, stream: &str, marks: (&str, &str)) -> BTreeMap<String, usize> {
    let log = format!("logs/{stream}");
    let read = Command::new(program()).args(["log", "cat", &log]).current_dir(case.dir()).output();
    let read = read.expect("the program starts");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let mut ids = BTreeMap::new();
    for part in String::from_utf8_lossy(&read.stdout).split(marks.0).skip(1) {
        let id = part.split(marks.1).next().expect("its end");
        *ids.entry(id.to_owned()).or_default() += 1;
    }
    ids
}

#[test]
fn those_who_rest_and_those_who_send_are_all_served_within_the_memory() {
    let Some(case) = Case::begin("connections") else { return };
    let ((idle, active), port) = (counts(), free_port());
    let connections = idle + active + SPARE;
    allow_files(connections + 1_000);
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: ./logs\nstreams: {{ orders: {{ linger: 50ms }}, otlp_logs: {{ format: otlp_logs, linger: 50ms }} }}\n\
         limits: {{ connections: {connections} }}\nhttp: {{ listen: none }}\nshutdown: {{ timeout: 20s }}\n"
    );
    std::fs::write(case.dir().join("gateway.yaml"), text).expect("the test's folder can be written");
    // As many shells and managers of services start what they start.
    let script = format!("ulimit -S -n {FILES_AT_START} && exec \"$0\" gateway gateway.yaml");
    let spawn = Spawn::new("gateway", "sh").args(["-c", &script]).arg(program()).cwd(case.dir());
    let gateway = spawn.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").start(case.dir()).expect("it starts");
    wait_for_gateway(port);
    let at_rest = rss_mib_max(&gateway);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let told = runtime.expect("a runtime").block_on(visit(port, idle, active));
    let peak = rss_mib_max(&gateway);
    println!("{told}; the gateway took {peak} MiB at the most, {at_rest} MiB before");
    assert!(peak <= PEAK_MIB_MAX, "{peak} MiB");
    let said = gateway.stdout().expect("its words") + &gateway.stderr().expect("its words");
    assert!(!said.contains("panicked") && !said.contains("could not be accepted"), "{said}");
    assert!(term(gateway).status.success());

    // Which senders spoke gRPC does not matter.
    let mut found = ids(&case, "orders", ("{\"id\":\"", "\"}"));
    found.retain(|id, _| !id.starts_with(&usize::MAX.to_string()));
    let half = found.len();
    for (id, count) in ids(&case, "otlp_logs", ("<", ">")) {
        *found.entry(id).or_default() += count;
    }
    assert!(half > 0 && half < found.len(), "{half} of {} by HTTP", found.len());
    let several: Vec<_> = found.iter().filter(|(_, count)| **count != 1).take(10).collect();
    assert!(several.is_empty(), "not once: {several:?}");
    let ids = (0..active * REQUESTS * RECORDS).map(|n| (n / RECORDS, n % RECORDS));
    let mut ids = ids.map(|(n, record)| format!("{}-{}-{record}", n / REQUESTS, n % REQUESTS));
    assert_eq!(ids.find(|id| !found.contains_key(id)), None, "acknowledged, and not there");
    assert_eq!(found.len(), active * REQUESTS * RECORDS);
}
