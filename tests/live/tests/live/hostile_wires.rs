//! The attacks of [`super::hostile`] on what is framed otherwise: messages of gRPC, syslog over TCP and UDP, handshakes of TLS.
//!
//! Owns the attacks. Does not own the gateway that they meet, nor what must hold afterwards.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use live::PATIENCE;
use testkit::Lcg;

use super::hostile::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, TOKEN, bomb, frame, opening, wrote,
};

/// Bytes of a frame at the most, unless the other side allows more.
const FRAME_BYTES: usize = 16_384;
/// Connections that say nothing, or too little.
const SILENT: usize = 100;
/// How long garbage is written that never ends.
const ENDLESS: Duration = Duration::from_secs(1);

pub(super) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    stream
}

/// The head of a call that exports logs, in HPACK without a table.
fn call(encoding: &str) -> Vec<u8> {
    let text = |value: &str| [&[value.len() as u8], value.as_bytes()].concat();
    let indexed = |name: &[u8], value: &str| [name, &text(value)].concat();
    let named = |name: &str, value: &str| [vec![0], text(name), text(value)].concat();
    [
        vec![0x83, 0x86],
        indexed(&[0x04], "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
        indexed(&[0x01], "127.0.0.1"),
        indexed(&[0x0f, 0x08], &format!("Bearer {TOKEN}")),
        indexed(&[0x0f, 0x10], "application/grpc"),
        named("te", "trailers"),
        named("grpc-encoding", encoding),
    ]
    .concat()
}

/// A message of gRPC: whether it is compressed, how long it says that it is, and what there is of it.
fn message(is_compressed: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[is_compressed], &length.to_be_bytes()[..], body].concat()
}

/// Calls with such messages on one connection, each of which must be answered.
fn calls(port: u16, bodies: &[(&str, Vec<u8>)]) {
    let mut stream = connect(port);
    let mut sent = opening();
    for (n, (encoding, body)) in (0..).zip(bodies) {
        let id = 2 * n + 1;
        sent.extend(frame(HEADERS, END_HEADERS, id, &call(encoding)));
        let mut chunks = body.chunks(FRAME_BYTES).peekable();
        while let Some(chunk) = chunks.next() {
            sent.extend(frame(DATA, if chunks.peek().is_none() { END_STREAM } else { 0 }, id, chunk));
        }
    }
    assert!(wrote(&mut stream, &sent), "calls within the window are read");
    let mut open: BTreeSet<u32> = (0..bodies.len() as u32).map(|n| 2 * n + 1).collect();
    let (mut bytes, mut chunk, begun) = (Vec::new(), vec![0; 64 << 10], Instant::now());
    while !open.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "calls {open:?} were never answered");
        match stream.read(&mut chunk) {
            Ok(0) => panic!("the connection ended with calls {open:?} open"),
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(error) => panic!("calls {open:?} are open: {error}"),
        }
        while let Some(head) = bytes.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            if bytes.len() < 9 + length {
                break;
            }
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if kind == RST_STREAM || (kind == HEADERS && flags & END_STREAM != 0) {
                open.remove(&id);
            }
            bytes.drain(..9 + length);
        }
    }
}

pub(super) fn grpc(port: u16, random: &mut Lcg) {
    // Lengths that nothing follows, flags that are none, messages that end early, two messages in place of one, none at all.
    let plain = |body: Vec<u8>| ("identity", body);
    calls(
        port,
        &[
            plain(message(0, u32::MAX, b"")),
            plain(message(0, u32::MAX, &[b'x'; 1_000])),
            plain(message(1, 1 << 30, &[b'x'; 1_000])),
            plain(message(7, 4, b"four")),
            plain(message(0, 10, b"nine by")),
            plain([message(0, 0, b""), message(0, 0, b"")].concat()),
            plain(vec![0, 0, 0]),
            plain(b"no message at all".to_vec()),
            ("gzip", message(1, 4, b"four")),
            ("no-such-encoding", message(1, 4, b"four")),
        ],
    );
    // 300 MiB in some kilobytes, several at a time.
    let packed = bomb("zstd", 300 << 20);
    assert!(packed.len() < FRAME_BYTES * 2, "{} bytes", packed.len());
    let bombs = message(1, u32::try_from(packed.len()).expect("it is small"), &packed);
    // Their windows are 65,535 bytes for all streams together.
    for _ in 0..4 {
        calls(port, &[("zstd", bombs.clone())]);
    }
    for _ in 0..20 {
        let bytes: Vec<u8> = (0..1 + random.below(2_000)).map(|_| random.below(256) as u8).collect();
        calls(port, &[plain(bytes)]);
    }
}

/// What no sender of syslog writes. The gateway refuses no message, so nothing is asserted of any but that it takes them in its stride.
pub(super) fn syslog(port: u16, random: &mut Lcg) {
    let mut silent: Vec<TcpStream> = (0..SILENT).map(|_| connect(port)).collect();
    for stream in &mut silent {
        assert!(wrote(stream, b"<14>1 half a mess"));
    }
    for endless in [
        &b"999999999999999999999 <14>1 - - - - - - x"[..],
        b"4294967295 <14>1 - - - - - - x",
        b"<14>1 a line without an end ",
        b"<99999999999999999999>",
        b"\0\0\0\0\0\0\0\0",
        b"\n\n\n\n\n\n\n\n",
    ] {
        let (mut stream, begun) = (connect(port), Instant::now());
        let many = endless.repeat(64 << 10 >> 4);
        while begun.elapsed() < ENDLESS && wrote(&mut stream, &many) {}
    }
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.below(1_400)).map(|_| random.below(256) as u8).collect();
        datagrams.send_to(&bytes, ("127.0.0.1", port)).expect("it is sent");
    }
    let mut stream = connect(port);
    let bytes: Vec<u8> = (0..200_000).map(|_| random.below(256) as u8).collect();
    wrote(&mut stream, &bytes);
}

/// Handshakes that end early, say nonsense, or never begin.
pub(super) fn tls(port: u16, random: &mut Lcg) {
    let mut silent: Vec<TcpStream> = (0..SILENT).map(|_| connect(port)).collect();
    // The head of a record that announces a ClientHello, a byte at a time and without its end.
    for byte in [22, 3, 1, 2, 0, 1, 0, 1, 252] {
        silent.iter_mut().for_each(|stream| assert!(wrote(stream, &[byte])));
    }
    for garbage in [
        // A record, and a message within one, as long as they can say.
        [vec![22, 3, 1, 0xff, 0xff], vec![b'x'; 70_000]].concat(),
        [vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff], vec![b'x'; 70_000]].concat(),
        // Alerts and changes of a cipher that nobody has chosen.
        [21, 3, 3, 0, 2, 1, 0].repeat(10_000),
        [20, 3, 3, 0, 1, 1].repeat(10_000),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        wrote(&mut connect(port), &garbage);
    }
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.below(600)).map(|_| random.below(256) as u8).collect();
        wrote(&mut connect(port), &[&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &bytes].concat());
    }
}
