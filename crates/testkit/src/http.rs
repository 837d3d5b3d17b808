//! A blocking HTTP/1.1 client for tests: one connection a request, bodies in memory.
//!
//! Owns requests and answers. Does not own their bytes on the wire, which it shares with the proxy (`http::wire`), nor encryption: it
//! speaks no TLS.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

pub(crate) mod wire;

use wire::{Body, Framing, Head};

/// The largest answer that is kept: beyond any result that a test compares, far below the machine's memory.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Why there is no whole answer. What the server did meanwhile is unknown, except when it could not be reached.
#[derive(Debug)]
pub enum HttpError {
    /// Nobody accepts connections there: nothing was sent.
    Connect(io::Error),
    /// The connection broke, timed out or carried something that is not HTTP.
    Broken(io::Error),
}

impl std::fmt::Display for HttpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HttpError::Connect(error) => write!(f, "cannot connect: {error}"),
            HttpError::Broken(error) => write!(f, "no whole answer: {error}"),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HttpError::Connect(error) | HttpError::Broken(error) => Some(error),
        }
    }
}

/// A server's answer, with its whole body.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Names as sent, and values.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::find(&self.headers, name)
    }

    /// The body as text, with bytes that are not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct HttpClient {
    authority: String,
    timeout: Duration,
}

impl HttpClient {
    /// A client of `http://HOST:PORT`; anything after the authority is left out. Each wait for the server ends after 120 s.
    ///
    /// # Panics
    /// When the URL is of another kind.
    pub fn new(url: &str) -> HttpClient {
        let rest =
            url.strip_prefix("http://").unwrap_or_else(|| panic!("`{url}` does not begin with `http://`"));
        let authority = rest.split(['/', '?']).next().unwrap_or(rest);
        HttpClient { authority: authority.to_owned(), timeout: Duration::from_secs(120) }
    }

    /// The same client with another bound on connecting and on each wait for bytes.
    pub fn timeout(mut self, timeout: Duration) -> HttpClient {
        self.timeout = timeout;
        self
    }

    /// `GET` of a path with its query string.
    pub fn get(&self, target: &str) -> Result<HttpResponse, HttpError> {
        self.request("GET", target, &[], b"")
    }

    /// `POST` of a body with its length.
    pub fn post(&self, target: &str, body: &[u8]) -> Result<HttpResponse, HttpError> {
        self.request("POST", target, &[], body)
    }

    /// Any request; `headers` go before `Content-Length`.
    pub fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpResponse, HttpError> {
        self.exchange(method, target, headers, |head, stream| {
            head.set("Content-Length", &body.len().to_string());
            head.write(stream)?;
            stream.write_all(body)
        })
    }

    /// `POST` of a body in chunks as given, without a length.
    pub fn post_chunked(&self, target: &str, chunks: &[&[u8]]) -> Result<HttpResponse, HttpError> {
        self.exchange("POST", target, &[], |head, stream| {
            head.set("Transfer-Encoding", "chunked");
            head.write(stream)?;
            chunks.iter().try_for_each(|chunk| wire::write_chunk(stream, chunk))?;
            wire::write_last_chunk(stream)
        })
    }

    fn exchange(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        send: impl FnOnce(&mut Head, &mut TcpStream) -> io::Result<()>,
    ) -> Result<HttpResponse, HttpError> {
        let mut stream = self.connect().map_err(HttpError::Connect)?;
        let mut head = Head { start: format!("{method} {target} HTTP/1.1"), headers: Vec::new() };
        head.set("Host", &self.authority);
        head.set("Connection", "close");
        for (name, value) in headers {
            head.set(name, value);
        }
        // A server may answer and close before it has read everything; its answer counts more than the broken pipe.
        let sent = send(&mut head, &mut stream);
        match (read_answer(&stream), sent) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(HttpError::Broken(error)),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let address = self.authority.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn read_answer(stream: &TcpStream) -> io::Result<HttpResponse> {
    let mut reader = BufReader::new(stream);
    let head = loop {
        let head = Head::read(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if head.status()? != 100 {
            break head;
        }
    };
    let status = head.status()?;
    let mut body = Vec::new();
    Body::new(&mut reader, Framing::of_answer(&head)?).take(ANSWER_BYTES_MAX + 1).read_to_end(&mut body)?;
    if body.len() as u64 > ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")));
    }
    Ok(HttpResponse { status, headers: head.headers, body })
}

/// Percent-encodes a value for a query string.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Names and values of a target's query string, decoded. A malformed escape stays as it is.
pub(crate) fn query_pairs(target: &str) -> Vec<(String, String)> {
    let Some((_, query)) = target.split_once('?') else { return Vec::new() };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests;
