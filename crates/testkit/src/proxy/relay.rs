//! Serves one client connection of the proxy: reads requests, asks the rules, and does what they say.
//!
//! Owns the bytes in both directions, and how a connection ends: kept, closed or reset. Does not own which rule decides, nor the record of
//! what went by (`proxy`).

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::rule::{Answer, Fault, Reach, RuleId, Seen};
use super::{Registered, Shared};
use crate::http::wire::{self, Body, Framing, Head};
use crate::http::{encode, query_pairs};

/// SQL in a body is looked for in so many bytes.
const PREFIX_BYTES_MAX: usize = 4096;
/// Bodies are passed on in pieces of at most this size.
const PIECE_BYTES: usize = 64 << 10;
/// A server that does not listen refuses at once; one whose machine is paused does not.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// After an answer to a half-read request the socket stays this long, for closing it at once would reset it, and the client
/// could lose the answer before reading it.
const LINGER: Duration = Duration::from_millis(300);

/// What becomes of the client's connection after a request.
enum Next {
    Keep,
    Close,
    /// Closed with a reset, the way a dying process or a balancer cuts it.
    Reset,
}

type Client<'a> = BufReader<&'a TcpStream>;

/// Serves a connection to its end.
pub(super) fn serve(stream: TcpStream, shared: &Shared) {
    let Ok(registered) = shared.register(&stream) else { return };
    // Without delay-free sockets a small answer waits for the client's acknowledgement. Accepted sockets may inherit
    // non-blocking mode from their listener on some systems.
    if stream.set_nodelay(true).is_err() || stream.set_nonblocking(false).is_err() {
        return;
    }
    let mut client = BufReader::new(&stream);
    let next = loop {
        match serve_request(&mut client, shared) {
            Ok(Next::Keep) => {}
            Ok(end) => break end,
            // The client went away or spoke no HTTP: nothing is owed to it.
            Err(_) => break Next::Close,
        }
    };
    // The copy in the list of open sockets goes first: only the last one's close resets.
    drop(registered);
    if let Next::Reset = next {
        reset_on_close(&stream);
    }
}

fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the pointer is to a live local of the size that is given with it.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if outcome != 0 {
        eprintln!("testkit: the proxy cannot reset a connection: {}", io::Error::last_os_error());
    }
}

fn serve_request(client: &mut Client, shared: &Shared) -> io::Result<Next> {
    let Some(mut head) = Head::read(client)? else { return Ok(Next::Close) };
    let keep = !head.get("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if head.get("Expect").is_some() {
        let mut stream: &TcpStream = client.get_ref();
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        head.remove("Expect");
    }
    let stream: &TcpStream = client.get_ref();
    let mut request = Request::read(head, client)?;
    let (number, decision) = shared.decide(&request.seen);
    request.number = number;
    request.seen.rule = decision.as_ref().map(|(id, _)| *id);
    let outcome = match decision {
        None => apply(Fault::Pass, &mut request, stream, shared),
        Some((rule, Fault::HoldTail { body_bytes })) => {
            hold_tail(rule, body_bytes, &mut request, stream, shared)
        }
        Some((_, fault)) => apply(fault, &mut request, stream, shared),
    };
    request.record(shared);
    match outcome? {
        // The rest of a half-read body would be taken for the next request.
        Next::Keep if keep && request.seen.body_whole => Ok(Next::Keep),
        Next::Keep => Ok(Next::Close),
        end => Ok(end),
    }
}

/// A request whose body is on its way.
struct Request<'c, 's> {
    head: Head,
    framing: Framing,
    /// The body's beginning, read to find the SQL and not passed on yet.
    prefix: Vec<u8>,
    body: Body<'c, Client<'s>>,
    /// The server that gets it, if it is not the proxy's own.
    elsewhere: Option<SocketAddr>,
    /// Its place in the record, once the rules were asked.
    number: u64,
    seen: Seen,
}

impl<'c, 's> Request<'c, 's> {
    fn read(head: Head, client: &'c mut Client<'s>) -> io::Result<Request<'c, 's>> {
        let (method, target) = head.request()?;
        let (method, target) = (method.to_owned(), target.to_owned());
        let framing = Framing::of_request(&head)?;
        let mut body = Body::new(client, framing);
        let parameters = query_pairs(&target);
        let in_target = parameters.iter().find(|(name, _)| name == "query").map(|(_, value)| value.clone());
        let mut prefix = Vec::new();
        if in_target.is_none() {
            (&mut body).take(PREFIX_BYTES_MAX as u64).read_to_end(&mut prefix)?;
        }
        let query = in_target.unwrap_or_else(|| String::from_utf8_lossy(&prefix).into_owned());
        let seen = Seen {
            method,
            target,
            query,
            parameters,
            headers: head.headers.clone(),
            body_bytes: prefix.len() as u64,
            body_hash: fnv(FNV_START, &prefix),
            body_whole: false,
            rule: None,
            server_status: None,
        };
        Ok(Request { head, framing, prefix, body, elsewhere: None, number: 0, seen })
    }

    /// Puts what is known so far into the record: before the client has any of its answer, and when the request is over.
    fn record(&mut self, shared: &Shared) {
        self.seen.body_whole = self.body.is_ended();
        shared.record(self.number, self.seen.clone());
    }

    /// The next piece of the body, at most `limit` bytes; empty at its end.
    fn piece(&mut self, buffer: &mut Vec<u8>, limit: u64) -> io::Result<()> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(PIECE_BYTES);
        buffer.clear();
        if !self.prefix.is_empty() {
            buffer.extend(self.prefix.drain(..limit.min(self.prefix.len())));
            return Ok(());
        }
        buffer.resize(limit, 0);
        let count = self.body.read(buffer)?;
        buffer.truncate(count);
        self.seen.body_bytes += count as u64;
        self.seen.body_hash = fnv(self.seen.body_hash, buffer);
        Ok(())
    }

    /// Reads the body to its end and keeps it, so that the client has no part in what comes next.
    fn take_whole(&mut self) -> io::Result<()> {
        let (mut whole, mut buffer) = (Vec::new(), Vec::new());
        loop {
            self.piece(&mut buffer, u64::MAX)?;
            if buffer.is_empty() {
                self.prefix = whole;
                return Ok(());
            }
            whole.extend_from_slice(&buffer);
        }
    }

    fn read_to_end(&mut self) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            self.piece(&mut buffer, u64::MAX)?;
            if buffer.is_empty() {
                return Ok(());
            }
        }
    }
}

fn apply(fault: Fault, request: &mut Request, client: &TcpStream, shared: &Shared) -> io::Result<Next> {
    match fault {
        Fault::Pass => pass(request, client, shared, Duration::ZERO, u64::MAX),
        Fault::Answer(answer) => answer_ourselves(&answer, request, client, shared),
        Fault::Reset => Ok(Next::Reset),
        Fault::Hang => {
            request.read_to_end()?;
            // Ends when the client gives up or the proxy cuts the connection; what else comes is not answered either.
            io::copy(&mut { client }, &mut io::sink())?;
            Ok(Next::Close)
        }
        Fault::CutRequest { body_bytes } => {
            drop(forward(request, shared, body_bytes)?);
            Ok(Next::Reset)
        }
        Fault::SwallowAnswer => {
            swallow_answer(request, shared)?;
            Ok(Next::Reset)
        }
        Fault::CutAnswer { body_bytes } => pass(request, client, shared, Duration::ZERO, body_bytes),
        Fault::DelayRequest(delay) => {
            request.take_whole()?;
            shared.lock().counters.delayed += 1;
            sleep(delay, shared);
            pass(request, client, shared, Duration::ZERO, u64::MAX)
        }
        Fault::Elsewhere(server) => {
            request.elsewhere = Some(server);
            pass(request, client, shared, Duration::ZERO, u64::MAX)
        }
        Fault::DelayAnswer(delay) => pass(request, client, shared, delay, u64::MAX),
        // Decided by who knows the rule.
        Fault::HoldTail { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Keeps the end of the body back while the rule is there, whatever the client does.
fn hold_tail(
    rule: RuleId,
    body_bytes: u64,
    request: &mut Request,
    client: &TcpStream,
    shared: &Shared,
) -> io::Result<Next> {
    let length = request.head.get("Content-Length").and_then(|text| text.parse::<u64>().ok());
    let length = length.ok_or(io::ErrorKind::InvalidInput)?;
    let (mut early, mut tail) = (None, Vec::new());
    if length > body_bytes {
        early = forward(request, shared, length - body_bytes)?;
    }
    let mut buffer = Vec::new();
    loop {
        request.piece(&mut buffer, u64::MAX)?;
        if buffer.is_empty() {
            break;
        }
        tail.extend_from_slice(&buffer);
    }
    client.shutdown(Shutdown::Both)?;
    while shared.lock().rules.contains_key(&rule) && !shared.lock().stopping {
        std::thread::sleep(Duration::from_millis(5));
    }
    let server = match early {
        Some(server) => server,
        None => match forward(request, shared, 0)? {
            Some(server) => server,
            None => return Ok(Next::Close),
        },
    };
    (&server.stream).write_all(&tail)?;
    let mut reader = BufReader::new(&server.stream);
    let head = read_answer_head(&mut reader)?;
    request.seen.server_status = Some(head.status()?);
    Ok(Next::Close)
}

/// Sleeps, unless the proxy stops.
fn sleep(delay: Duration, shared: &Shared) {
    let start = Instant::now();
    while start.elapsed() < delay && !shared.lock().stopping {
        std::thread::sleep((delay.saturating_sub(start.elapsed())).min(Duration::from_millis(20)));
    }
}

fn answer_ourselves(
    answer: &Answer,
    request: &mut Request,
    client: &TcpStream,
    shared: &Shared,
) -> io::Result<Next> {
    match answer.reach {
        Reach::Head => {}
        Reach::Proxy => request.read_to_end()?,
        Reach::Server => {
            swallow_answer(request, shared)?;
        }
    }
    let mut head =
        Head { start: format!("HTTP/1.1 {} Fault", answer.status), headers: answer.headers.clone() };
    head.set("Content-Length", &answer.body.len().to_string());
    let half_read = !request.body.is_ended();
    if half_read {
        head.set("Connection", "close");
    }
    request.record(shared);
    let mut writer = BufWriter::new(client);
    head.write(&mut writer)?;
    writer.write_all(&answer.body)?;
    writer.flush()?;
    if half_read {
        sleep(LINGER, shared);
    }
    Ok(Next::Keep)
}

/// Lets the server do its work and throws its answer away.
fn swallow_answer(request: &mut Request, shared: &Shared) -> io::Result<()> {
    let Some(server) = forward(request, shared, u64::MAX)? else { return Ok(()) };
    let mut reader = BufReader::new(&server.stream);
    let head = read_answer_head(&mut reader)?;
    request.seen.server_status = Some(head.status()?);
    io::copy(&mut Body::new(&mut reader, Framing::of_answer(&head)?), &mut io::sink())?;
    Ok(())
}

/// Passes the request on, and `answer_bytes_max` bytes of the answer's body back.
fn pass(
    request: &mut Request,
    client: &TcpStream,
    shared: &Shared,
    delay: Duration,
    answer_bytes_max: u64,
) -> io::Result<Next> {
    let Some(server) = forward(request, shared, u64::MAX)? else { return Ok(Next::Reset) };
    let mut reader = BufReader::new(&server.stream);
    // A server that goes away without an answer looks to the client as it would without the proxy.
    let Ok(mut head) = read_answer_head(&mut reader) else { return Ok(Next::Reset) };
    request.seen.server_status = Some(head.status()?);
    let framing = if request.seen.method == "HEAD" { Framing::Length(0) } else { Framing::of_answer(&head)? };
    sleep(delay, shared);
    let keep = framing != Framing::UntilClose && request.body.is_ended();
    head.set("Connection", if keep { "keep-alive" } else { "close" });
    request.record(shared);
    let mut client = client;
    head.write(&mut client)?;
    let mut body = Body::new(&mut reader, framing).take(answer_bytes_max);
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let Ok(count) = body.read(&mut buffer) else { return Ok(Next::Reset) };
        if count == 0 {
            break;
        }
        match framing {
            Framing::Chunked => wire::write_chunk(&mut client, &buffer[..count])?,
            Framing::Length(_) | Framing::UntilClose => client.write_all(&buffer[..count])?,
        }
    }
    if answer_bytes_max != u64::MAX {
        return Ok(Next::Close);
    }
    if framing == Framing::Chunked {
        wire::write_last_chunk(&mut client)?;
    }
    Ok(if keep { Next::Keep } else { Next::Close })
}

/// The server's connection, in the list of open ones as long as it is.
struct Server<'a> {
    // The order matters: the copy in the list goes before the socket.
    _registered: Registered<'a>,
    stream: TcpStream,
}

/// Sends the request to the server, of its body at most `body_bytes_max`. `None` when the server cannot be reached.
fn forward<'a>(
    request: &mut Request,
    shared: &'a Shared,
    body_bytes_max: u64,
) -> io::Result<Option<Server<'a>>> {
    let Ok(stream) = TcpStream::connect_timeout(&request.elsewhere.unwrap_or(shared.upstream), CONNECT_MAX)
    else {
        shared.lock().counters.unreachable += 1;
        return Ok(None);
    };
    stream.set_nodelay(true)?;
    let server = Server { _registered: shared.register(&stream)?, stream };
    let mut head = request.head.clone();
    head.set("Connection", "close");
    let (profile, is_passed) = {
        let state = shared.lock();
        (state.profile.clone(), state.is_passed)
    };
    head.start = with_profile(&passed(&head.start, is_passed), &request.seen.parameters, &profile);
    let mut writer = &server.stream;
    let mut server_listens = head.write(&mut writer).is_ok();
    let mut left = body_bytes_max;
    let mut buffer = Vec::with_capacity(PIECE_BYTES);
    while left > 0 {
        request.piece(&mut buffer, left)?;
        if buffer.is_empty() {
            if request.framing == Framing::Chunked && server_listens {
                // As below: the answer tells.
                let _ = wire::write_last_chunk(&mut writer);
            }
            break;
        }
        left -= buffer.len() as u64;
        // A server that answers early stops reading. Its answer counts, and the client's body is read to its end.
        server_listens = server_listens
            && match request.framing {
                Framing::Chunked => wire::write_chunk(&mut writer, &buffer).is_ok(),
                Framing::Length(_) | Framing::UntilClose => writer.write_all(&buffer).is_ok(),
            };
    }
    Ok(Some(server))
}

/// A request's first line with the parameters that are passed.
fn passed(line: &str, is_passed: Option<fn(&str) -> bool>) -> String {
    let parts: Option<(&str, &str, &str)> = line.split_once(' ').and_then(|(method, rest)| {
        let (target, version) = rest.rsplit_once(' ')?;
        Some((method, target, version))
    });
    let (Some((method, target, version)), Some(is_passed)) = (parts, is_passed) else {
        return line.to_owned();
    };
    let Some((path, query)) = target.split_once('?') else { return line.to_owned() };
    let kept: Vec<&str> =
        query.split('&').filter(|pair| is_passed(pair.split('=').next().unwrap_or(pair))).collect();
    format!("{method} {path}?{} {version}", kept.join("&"))
}

/// A request's first line with the parameters of the profile that it does not name.
fn with_profile(line: &str, named: &[(String, String)], profile: &[(String, String)]) -> String {
    let Some((method, rest)) = line.split_once(' ') else { return line.to_owned() };
    let Some((target, version)) = rest.rsplit_once(' ') else { return line.to_owned() };
    let mut target = target.to_owned();
    for (name, value) in profile.iter().filter(|(name, _)| named.iter().all(|(own, _)| own != name)) {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{}={}", encode(name), encode(value)));
    }
    format!("{method} {target} {version}")
}

/// The head of the final answer.
fn read_answer_head(reader: &mut BufReader<&TcpStream>) -> io::Result<Head> {
    loop {
        let head = Head::read(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if head.status()? != 100 {
            return Ok(head);
        }
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, continued over `bytes`.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
