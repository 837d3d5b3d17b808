//! Clients that mean harm, one kind after the other, at a gateway: memory stays bounded, nothing panics, and another sender is served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use live::pipeline::term;
use live::tls::{Authority, Identity};
use live::{Case, PATIENCE};
use testkit::{HttpClient, Lcg, Process, free_port, seed, wait_until};

use super::hostile_wires;
use super::logs::{start_gateway, start_gateway_of, wait_for_gateway};

/// What the gateway may hold for requests, by its file.
const MEMORY_MIB: u64 = 32;
/// What it may take in all: that, the program without optimization, its threads and what the allocator keeps.
const RSS_MIB_MAX: u64 = 320;
/// The longest that a client goes on for which the gateway has no answer yet.
const ATTACK: Duration = Duration::from_secs(2);
pub(super) const TOKEN: &str = "a-right-token";

/// What is attacked.
struct Target {
    port: u16,
    /// Of syslog, over TCP and UDP.
    syslog: u16,
    /// Of another gateway, whose connections are encrypted: HTTP, and syslog.
    encrypted: [u16; 2],
    random: Lcg,
}

/// How a connection of a client ended that wrote until it could not.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The gateway closed it.
    Closed,
    /// It was still open when time ran out.
    Open,
}

impl Target {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        stream
    }

    /// Writes what the gateway does not put up with until it closes the connection.
    fn is_closed(&self, what: &str, first: &[u8], reads: bool, next: impl FnMut(u32) -> Vec<u8>) {
        assert_eq!(self.flood_for(PATIENCE, first, reads, next), Ended::Closed, "{what}");
    }

    /// Writes what may go on for ever, for a while.
    fn flood(&self, first: &[u8], reads: bool, next: impl FnMut(u32) -> Vec<u8>) {
        self.flood_for(ATTACK, first, reads, next);
    }

    /// Writes `first`, then what `next` makes, until the connection ends or time runs out; reads answers only if `reads`.
    fn flood_for(
        &self,
        time_max: Duration,
        first: &[u8],
        reads: bool,
        mut next: impl FnMut(u32) -> Vec<u8>,
    ) -> Ended {
        let mut stream = self.connect();
        let begun = Instant::now();
        let mut answer = vec![0; 64 << 10];
        let mut bytes = first.to_vec();
        for turn in 0.. {
            if !wrote(&mut stream, &bytes) {
                return Ended::Closed;
            }
            if reads {
                match stream.read(&mut answer) {
                    Ok(0) => return Ended::Closed,
                    Ok(_) => {}
                    Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
                    Err(_) => return Ended::Closed,
                }
            }
            if begun.elapsed() > time_max {
                return Ended::Open;
            }
            bytes = next(turn);
        }
        unreachable!("it ends by time")
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let token = format!("Bearer {TOKEN}");
        let own = [("Authorization", token.as_str())];
        let headers: Vec<(&str, &str)> = own.into_iter().chain(headers.iter().copied()).collect();
        let client = HttpClient::new(&format!("http://127.0.0.1:{}", self.port)).timeout(PATIENCE);
        let answer = client.request("POST", path, &headers, body).expect("an answer");
        (answer.status, answer.text())
    }
}

/// False once the connection is closed. What the gateway does not take for a while is given up: it reads no more.
pub(super) fn wrote(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    match stream.write_all(bytes) {
        Ok(()) => true,
        Err(error) => [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()),
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is small").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// `POST /v1/logs` by who may, in HPACK.
fn head() -> Vec<u8> {
    let text = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
    let token = text(0x57, &format!("Bearer {TOKEN}"));
    let media = text(0x5f, "application/x-protobuf");
    [vec![0x83, 0x86], text(0x44, "/v1/logs"), text(0x41, "127.0.0.1"), token, media].concat()
}

fn http2(target: &mut Target) {
    let head = head();
    let stream = |turn: u32, nth: u32, each: u32| 2 * (turn * each + nth) + 1;
    // Streams that are opened and reset at once.
    let reset = |turn| {
        let one = |nth| {
            let id = stream(turn, nth, 100);
            [frame(HEADERS, END_HEADERS, id, &head), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
        };
        (0..100).flat_map(one).collect()
    };
    for reads in [true, false] {
        target.is_closed("resets", &opening(), reads, reset);
    }
    // Streams that make the gateway reset them.
    let refused = |turn| {
        let one = |nth| {
            let id = stream(turn, nth, 100);
            [frame(HEADERS, END_HEADERS, id, &head), frame(WINDOW_UPDATE, 0, id, &[0; 4])].concat()
        };
        (0..100).flat_map(one).collect()
    };
    target.is_closed("resets of the gateway", &opening(), true, refused);
    // A head without an end.
    let filler: Vec<u8> = [0x00, 0x01, b'x', 0x7f, 0x81, 0x7d].into_iter().chain([b'v'; 16_000]).collect();
    let begin = [opening(), frame(HEADERS, 0, 1, &head)].concat();
    let more = |_| frame(CONTINUATION, 0, 1, &filler);
    target.is_closed("a head without an end", &begin, false, more);
    // Frames that ask for an answer, which is never read, and frames that say nothing.
    let pings = |_| frame(PING, 0, 0, &[7; 8]).repeat(1_000);
    target.flood(&opening(), false, pings);
    let settings = |_| frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]).repeat(1_000);
    target.flood(&opening(), false, settings);
    let empty = |_| frame(DATA, 0, 1, &[]).repeat(1_000);
    target.flood(&[opening(), frame(HEADERS, END_HEADERS, 1, &head)].concat(), true, empty);
    // As many streams as there may be, each with half a body.
    let begun = |turn: u32| {
        let id = 2 * turn + 1;
        [frame(HEADERS, END_HEADERS, id, &head), frame(DATA, 0, id, &[b'x'; 1_000])].concat()
    };
    target.flood(&opening(), true, begun);
    // Frames that are none, or are cut off.
    for _ in 0..200 {
        let mut stream = target.connect();
        let bytes: Vec<u8> = (0..target.random.below(300)).map(|_| target.random.below(256) as u8).collect();
        let ended = target.random.below(head.len() as u64) as usize;
        let whole = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head);
        wrote(&mut stream, &[opening(), whole[..ended].to_vec(), bytes].concat());
    }
}

fn http1(target: &mut Target) {
    // Heads that never end, in one piece and a byte at a time.
    let field = |_| b"X-Filler: v\r\n".repeat(1_000);
    let begin = b"POST /v1/streams/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    target.is_closed("a head without an end", begin, true, field);
    let mut slow: Vec<TcpStream> = (0..200).map(|_| target.connect()).collect();
    for byte in begin {
        slow.iter_mut().for_each(|stream| assert!(wrote(stream, &[*byte])));
    }
    // Bodies that never come, for which no room is held.
    let waiting = format!(
        "POST /v1/streams/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000000\r\n\r\n"
    );
    let mut bodies: Vec<TcpStream> = (0..200).map(|_| target.connect()).collect();
    bodies.iter_mut().for_each(|stream| assert!(wrote(stream, waiting.as_bytes())));
    for wrong in ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer a-right-toke"] {
        let client = HttpClient::new(&format!("http://127.0.0.1:{}", target.port));
        let headers = [("Authorization", wrong)];
        let answer = client.request("POST", "/v1/streams/orders", &headers, b"{}\n").expect("an answer");
        assert_eq!(answer.status, 401, "`{wrong}`: {}", answer.text());
        assert!(!answer.text().contains(TOKEN));
    }
}

/// Zeros, packed: one to a thousand and more.
pub(super) fn bomb(codec: &str, bytes: u64) -> Vec<u8> {
    let mut zeros = std::io::repeat(0).take(bytes);
    match codec {
        "gzip" => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            std::io::copy(&mut zeros, &mut gzip).expect("memory takes all");
            gzip.finish().expect("memory takes all")
        }
        _ => zstd::encode_all(zeros, 9).expect("memory takes all"),
    }
}

/// A field of a message of Protocol Buffers.
pub(super) fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = body.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(body);
    out
}

/// A request of one log record with these fields.
fn logs(record: &[u8]) -> Vec<u8> {
    field(1, &field(2, &field(2, record)))
}

fn bodies(target: &mut Target) {
    for codec in ["gzip", "zstd"] {
        let bomb = bomb(codec, 300 << 20);
        assert!(bomb.len() < 1 << 20, "{codec}: {}", bomb.len());
        let (lines, json, protobuf) = ("application/x-ndjson", "application/json", "application/x-protobuf");
        for (path, media) in [
            ("/v1/streams/orders", lines),
            ("/v1/streams/orders", json),
            ("/v1/logs", protobuf),
            ("/v1/logs", json),
            ("/_bulk", lines),
            ("/loki/api/v1/push", json),
            ("/services/collector/event", json),
        ] {
            let headers = [("Content-Type", media), ("Content-Encoding", codec)];
            let (status, text) = target.post(path, &headers, &bomb);
            // By its bound, which only one that is inflated meets.
            assert!(
                status == 413 && text.contains("more than 8388608 bytes"),
                "{path} {media}: {status} {text}"
            );
        }
    }
    let protobuf = [("Content-Type", "application/x-protobuf")];
    // A value within values, 10,000 deep.
    let nested = (0..10_000).fold(field(1, b"x"), |value, _| field(5, &field(1, &value)));
    let (status, text) = target.post("/v1/logs", &protobuf, &logs(&field(5, &nested)));
    assert!([200, 400].contains(&status), "{text}");
    for deep in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        let (status, text) =
            target.post("/v1/streams/orders", &[("Content-Type", "application/json")], deep.as_bytes());
        assert_eq!(status, 400, "{text}");
        let body = format!("{{\"resourceLogs\":{deep}");
        let (status, text) =
            target.post("/v1/logs", &[("Content-Type", "application/json")], body.as_bytes());
        assert_eq!(status, 400, "{text}");
    }
    let attribute =
        |n: u32| field(6, &[field(1, n.to_string().as_bytes()), field(2, &field(1, b"v"))].concat());
    let many: Vec<u8> = (0..10_000).flat_map(attribute).collect();
    assert_eq!(target.post("/v1/logs", &protobuf, &logs(&many)).0, 200);
    let whole = logs(&field(5, &field(1, b"\xff\xfe not UTF-8")));
    let (status, text) = target.post("/v1/logs", &protobuf, &whole);
    assert!([200, 400].contains(&status), "{text}");
    for cut in 1..whole.len() {
        let (status, text) = target.post("/v1/logs", &protobuf, &whole[..cut]);
        assert!([200, 400].contains(&status), "{cut}: {text}");
    }
}

/// Sends until told to end; how often it was answered that its record is durable.
fn serve(port: u16, over: &AtomicBool, served: &AtomicU64) {
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}")).timeout(PATIENCE);
    let token = format!("Bearer {TOKEN}");
    while !over.load(Ordering::Acquire) {
        let n = served.load(Ordering::Relaxed);
        let body = format!("{{\"id\":{n}}}\n");
        let answer =
            client.request("POST", "/v1/streams/good", &[("Authorization", &token)], body.as_bytes());
        let answer = answer.expect("a sender that means well is answered");
        // Others may hold all the memory for requests for a while.
        match answer.status {
            200 => drop(served.fetch_add(1, Ordering::Relaxed)),
            429 => std::thread::sleep(Duration::from_millis(20)),
            status => panic!("{status}: {}", answer.text()),
        }
    }
}

pub(super) fn rss_mib_max(gateway: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib >> 10
}

#[test]
fn clients_that_mean_harm_take_neither_memory_nor_others_along() {
    let Some(case) = Case::begin("hostile") else { return };
    let (dir, port, syslog) = (case.dir().to_owned(), free_port(), free_port());
    let text = format!(
        "gateway: test\nsyslog: [{{ udp: '127.0.0.1:{syslog}', tcp: '127.0.0.1:{syslog}' }}]\nlisten: '127.0.0.1:{port}'\nstore: ./logs\nclients: {{ shop: {{ token_file: token }} }}\n\
         streams: {{ orders: {{ body: 8MiB }}, good: {{ body: 8MiB }}, loki: {{ body: 8MiB }}, syslog: {{ body: 8MiB }}, otlp_logs: {{ format: otlp_logs, body: 8MiB }} }}\n\
         limits: {{ memory: {MEMORY_MIB}MiB }}\nhttp: {{ listen: none }}\nshutdown: {{ timeout: 10s }}\n"
    );
    std::fs::write(dir.join("gateway.yaml"), text).expect("the test's folder can be written");
    std::fs::write(dir.join("token"), TOKEN).expect("the test's folder can be written");
    let mut gateway = start_gateway(&dir);
    wait_for_gateway(port);
    let (encrypted, trusted, mut other) = start_encrypted(&dir);
    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut target = Target { port, syslog, encrypted, random: Lcg::new(seed()) };
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| serve(port, &over, &served));
        for (name, attack) in
            [("http2", http2 as fn(&mut Target)), ("http1", http1), ("bodies", bodies), ("wires", wires)]
        {
            let before = served.load(Ordering::Relaxed);
            let attacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack(&mut target)));
            if let Err(panic) = attacked {
                over.store(true, Ordering::Release);
                std::panic::resume_unwind(panic);
            }
            wait_until(PATIENCE, "the other sender is served", || served.load(Ordering::Relaxed) > before);
            println!("{name}: {} MiB at the most", rss_mib_max(&gateway));
        }
        over.store(true, Ordering::Release);
        sender.join().expect("the other sender");
    });
    // Who shakes hands as it should is let in.
    let url = format!("https://localhost:{}/healthz", encrypted[0]);
    let asked = std::process::Command::new("curl")
        .args(["-sf", "--max-time", "900", "--cacert"])
        .arg(trusted)
        .arg(url)
        .output();
    assert!(asked.expect("curl starts").status.success(), "the encrypted gateway serves nobody");
    for gateway in [&mut gateway, &mut other] {
        let rss = rss_mib_max(gateway);
        assert!(rss <= RSS_MIB_MAX, "{rss} MiB");
        assert!(gateway.is_running().expect("it can be asked"));
        let said = gateway.stdout().expect("its words") + &gateway.stderr().expect("its words");
        assert!(!said.contains("panicked") && !said.contains(TOKEN), "{said}");
    }
    assert!(term(gateway).status.success());
    assert!(term(other).status.success());
}

fn wires(target: &mut Target) {
    hostile_wires::grpc(target.port, &mut target.random);
    hostile_wires::syslog(target.syslog, &mut target.random);
    for port in target.encrypted {
        hostile_wires::tls(port, &mut target.random);
    }
}

/// A gateway whose connections are encrypted: its ports for HTTP and syslog, the file of whom to trust, and the process.
fn start_encrypted(dir: &Path) -> ([u16; 2], PathBuf, Process) {
    let authority = Authority::new(dir, "authority").expect("certificates");
    let Identity { cert, key, .. } = authority.issue(dir, "localhost").expect("certificates");
    let [http, syslog] = [free_port(), free_port()];
    let text = format!(
        "gateway: encrypted\nlisten: '127.0.0.1:{http}'\nstore: ./encrypted\nstreams: {{ syslog: {{ body: 8MiB }} }}\n\
         syslog: [{{ tcp: '127.0.0.1:{syslog}', encrypted: true }}]\ntls: {{ cert: '{}', key: '{}' }}\n\
         limits: {{ memory: {MEMORY_MIB}MiB }}\nhttp: {{ listen: none }}\nshutdown: {{ timeout: 10s }}\n",
        cert.display(),
        key.display()
    );
    std::fs::write(dir.join("encrypted.yaml"), text).expect("the test's folder can be written");
    let gateway = start_gateway_of(dir, "encrypted.yaml");
    for port in [http, syslog] {
        wait_until(PATIENCE, "the encrypted gateway", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
    ([http, syslog], authority.file().to_owned(), gateway)
}
