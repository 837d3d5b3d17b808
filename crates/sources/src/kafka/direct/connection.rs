//! One connection to one broker.
//!
//! Owns the socket, the framing by length and what a silent or babbling broker may cost: every wait and every size has a
//! bound. Does not own encryption (`tls`), logins (`login`), what is asked (`wire`) or whom (`supervisor`). Blocks, so callers are
//! threads.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use dataflow::Runtime;

use super::login::{Dialogue, Next};
use super::metadata::{self, Cluster};
use super::security::{Login, Security};
use super::wire;
use crate::tls::{Stream, is_pause};

/// A broker that cannot be connected to, or says nothing for so long although it should, is away.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a wait for an answer looks whether anybody still waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An answer buffer that a large batch has stretched beyond this is given back.
const BUFFER_KEPT_MAX: usize = 64 << 20;
/// An answer to `ApiVersions` lists some hundred requests of six bytes.
const HELLO_BYTES_MAX: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The reader is gone.
    #[error("nobody waits for an answer any more")]
    Closed,
    #[error("`{address}`: {why}")]
    Failed { address: String, why: String },
    /// The broker cannot fetch by topic id.
    #[error("`{0}` knows no request that fetches by topic id (Kafka 3.1 does)")]
    TooOld(String),
}

/// A connection that has said hello.
pub(super) struct Connection {
    address: String,
    stream: Stream,
    client: String,
    login: Option<Login>,
    /// When the login must be renewed.
    renew_at: Option<Duration>,
    runtime: Arc<dyn Runtime>,
    correlation: i32,
    version: i16,
    request: Vec<u8>,
    /// As long as the longest answer so far: bytes past the newest one are left over.
    buffer: Vec<u8>,
    answer_len: usize,
    answer_bytes_max: usize,
}

impl Connection {
    /// Connects to `address` (`host:port`), learns which fetch the broker speaks, and logs in. `is_wanted` turns false when the
    /// connection is of no use any more.
    pub(super) fn open(
        address: &str,
        client: &str,
        security: &Security,
        answer_bytes_max: usize,
        runtime: Arc<dyn Runtime>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Self, Lost> {
        let socket = connect(address).map_err(|why| failed(address, &why))?;
        let stream = secured(socket, address, security, &*runtime, is_wanted)?;
        let mut connection = Self {
            address: address.to_owned(),
            stream,
            client: client.to_owned(),
            login: security.login.clone(),
            renew_at: None,
            runtime,
            correlation: 0,
            version: 0,
            request: Vec::new(),
            buffer: Vec::new(),
            answer_len: 0,
            answer_bytes_max: HELLO_BYTES_MAX,
        };
        wire::api_versions(&mut connection.request, 0, client);
        connection.send()?;
        connection.receive(SILENCE_MAX, is_wanted)?;
        let version = wire::fetch_version(connection.answer()).map_err(|why| connection.failed(&why))?;
        connection.version = version.ok_or_else(|| Lost::TooOld(address.to_owned()))?;
        connection.log_in(is_wanted)?;
        connection.answer_bytes_max = answer_bytes_max;
        Ok(connection)
    }

    /// Whom it is to, as it was given.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Logs in, if that was asked for. No answer may be under way; the one at hand stays.
    fn log_in(&mut self, is_wanted: &dyn Fn() -> bool) -> Result<(), Lost> {
        let Some(login) = self.login.clone() else { return Ok(()) };
        let (client, began) = (self.client.clone(), self.runtime.elapsed());
        let mut dialogue = Dialogue::begin(&login, &client, &mut self.request);
        loop {
            self.send()?;
            let len = self.receive_len(SILENCE_MAX, HELLO_BYTES_MAX, is_wanted)?;
            let mut answer = vec![0; len];
            self.read_exact(&mut answer, SILENCE_MAX, is_wanted)?;
            match dialogue.answer(&answer, &mut self.request) {
                Ok(Next::Send) => {}
                Ok(Next::Done(renew)) => {
                    self.renew_at = renew.map(|after| began + after);
                    return Ok(());
                }
                Err(why) => return Err(self.failed(&why)),
            }
        }
    }

    /// Sends a fetch, after a new login where the last one ends soon. The answer to the fetch before it must have been received.
    pub(super) fn fetch(
        &mut self,
        bounds: wire::Bounds,
        wanted: &[wire::Wanted],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), Lost> {
        if self.renew_at.is_some_and(|at| self.runtime.elapsed() >= at) {
            self.log_in(is_wanted)?;
        }
        self.correlation = self.correlation.wrapping_add(1);
        wire::fetch(&mut self.request, self.version, self.correlation, &self.client, bounds, wanted);
        self.send()
    }

    /// Asks who leads the partitions of `topics`. No answer may be under way.
    pub(super) fn metadata(
        &mut self,
        topics: &[String],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Cluster, Lost> {
        self.correlation = self.correlation.wrapping_add(1);
        metadata::request(&mut self.request, self.correlation, &self.client, topics);
        self.send()?;
        self.receive(SILENCE_MAX, is_wanted)?;
        metadata::answer(self.answer()).map_err(|why| self.failed(&why))
    }

    fn send(&mut self) -> Result<(), Lost> {
        let sent = self.stream.write_all(&self.request).and_then(|()| self.stream.flush());
        sent.map_err(|why| failed(&self.address, &why))
    }

    /// Receives the next answer, which [`answer`](Self::answer) then shows. `wait_max` without a single byte is too long.
    pub(super) fn receive(&mut self, wait_max: Duration, is_wanted: &dyn Fn() -> bool) -> Result<(), Lost> {
        if self.buffer.len() > BUFFER_KEPT_MAX {
            self.buffer = Vec::new();
        }
        let len = self.receive_len(wait_max, self.answer_bytes_max, is_wanted)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        self.answer_len = len;
        let result = self.read_exact(&mut buffer[..len], SILENCE_MAX, is_wanted);
        self.buffer = buffer;
        result
    }

    /// The length of the next answer.
    fn receive_len(
        &mut self,
        wait_max: Duration,
        bytes_max: usize,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<usize, Lost> {
        let mut prefix = [0; 4];
        self.read_exact(&mut prefix, wait_max, is_wanted)?;
        let len = u32::from_be_bytes(prefix) as usize;
        if !(4..=bytes_max).contains(&len) {
            let why = format!(
                "an answer of `{len}` bytes, and at most `{bytes_max}` are taken (`receive.message.max.bytes`)"
            );
            return Err(self.failed(&why));
        }
        Ok(len)
    }

    /// The bytes of the answer that was received last.
    pub(super) fn answer(&self) -> &[u8] {
        &self.buffer[..self.answer_len]
    }

    /// An error with this connection's address.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) -> Lost {
        failed(&self.address, why)
    }

    fn read_exact(
        &mut self,
        mut into: &mut [u8],
        wait_max: Duration,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), Lost> {
        let mut heard = self.runtime.elapsed();
        while !into.is_empty() {
            match self.stream.read(into) {
                Ok(0) => return Err(self.failed(&"the broker closed the connection")),
                Ok(count) => {
                    into = &mut into[count..];
                    heard = self.runtime.elapsed();
                }
                Err(error) if is_pause(&error) => {
                    if !is_wanted() {
                        return Err(Lost::Closed);
                    }
                    if self.runtime.elapsed().saturating_sub(heard) > wait_max {
                        return Err(self.failed(&format!("no answer within {wait_max:?}")));
                    }
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }
}

fn failed(address: &str, why: &dyn std::fmt::Display) -> Lost {
    Lost::Failed { address: address.to_owned(), why: why.to_string() }
}

/// Encrypts a new connection, if that was asked for.
fn secured(
    socket: TcpStream,
    address: &str,
    security: &Security,
    runtime: &dyn Runtime,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Stream, Lost> {
    let Some(tls) = &security.tls else { return Ok(Stream::Clear(socket)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let began = runtime.elapsed();
    let go_on = || {
        if !is_wanted() {
            return Err("nobody waits any more".to_owned());
        }
        if runtime.elapsed().saturating_sub(began) > SILENCE_MAX {
            return Err(format!("TLS: no handshake within {SILENCE_MAX:?}"));
        }
        Ok(())
    };
    Stream::encrypt(socket, tls, host, go_on).map_err(|why| failed(address, &why))
}

/// Tries the addresses of a name in turn.
fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut result = Err(std::io::Error::new(ErrorKind::NotFound, "the name has no address"));
    for resolved in address.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&resolved, CONNECT_WAIT_MAX);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}
