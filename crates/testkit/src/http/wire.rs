//! HTTP/1.1 on the wire: heads and framed bodies, for the client and the proxy.
//!
//! Owns parsing with bounds. Does not own connections, nor a policy: the client (`testkit::http`) and the proxy (`proxy::relay`) decide
//! what is sent and what is refused. Trailers are read and dropped.

use std::io::{self, BufRead, Read, Write};

/// A request line or header line is at most so long: ClickHouse takes queries of 256 KiB in the URL, and more in the body.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Real clients and servers send a few dozen at the most.
const HEADERS_MAX: usize = 200;

/// The first line of a message and its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// `POST /?query=... HTTP/1.1` or `HTTP/1.1 200 OK`.
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// Reads a head; `None` when the peer closed before its first byte.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
        let Some(start) = read_line(reader)? else { return Ok(None) };
        let mut headers = Vec::new();
        loop {
            let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(Head { start, headers }));
            }
            if headers.len() == HEADERS_MAX {
                return Err(invalid(format!("more than {HEADERS_MAX} headers")));
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| invalid(format!("`{line}` is no header")))?;
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    /// Writes the head and the blank line after it.
    pub(crate) fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.start);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        writer.write_all(text.as_bytes())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Sets a header, in the place of others of the same name.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Method and target of a request.
    pub(crate) fn request(&self) -> io::Result<(&str, &str)> {
        let mut words = self.start.split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(method), Some(target), Some(version), None) if version.starts_with("HTTP/1.") => {
                Ok((method, target))
            }
            _ => Err(invalid(format!("`{}` is no request line", self.start))),
        }
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> io::Result<u16> {
        let status = self.start.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
        let status = status.and_then(|status| status.parse().ok());
        status.ok_or_else(|| invalid(format!("`{}` is no status line", self.start)))
    }
}

/// The value of the first header of that name.
pub(crate) fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// How the end of a body is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks and an empty one.
    Chunked,
    /// The peer closes: answers only.
    UntilClose,
}

impl Framing {
    pub(crate) fn of_request(head: &Head) -> io::Result<Framing> {
        Framing::of(head, Framing::Length(0))
    }

    pub(crate) fn of_answer(head: &Head) -> io::Result<Framing> {
        match head.status()? {
            204 | 304 => Ok(Framing::Length(0)),
            _ => Framing::of(head, Framing::UntilClose),
        }
    }

    fn of(head: &Head, without: Framing) -> io::Result<Framing> {
        if head.get("Transfer-Encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return Ok(Framing::Chunked);
        }
        match head.get("Content-Length") {
            Some(length) => {
                length.parse().map(Framing::Length).map_err(|_| invalid(format!("`{length}` is no length")))
            }
            None => Ok(without),
        }
    }
}

/// The content of a body. Ends with an error when the peer closes before the end that its framing promised.
#[derive(Debug)]
pub(crate) struct Body<'a, R> {
    reader: &'a mut R,
    framing: Framing,
    /// Bytes left of the length or of the current chunk.
    left: u64,
    /// Chunked only: whether a chunk has begun, so that its line end stands before the next size.
    begun: bool,
    ended: bool,
}

impl<'a, R: BufRead> Body<'a, R> {
    pub(crate) fn new(reader: &'a mut R, framing: Framing) -> Body<'a, R> {
        let left = if let Framing::Length(bytes) = framing { bytes } else { 0 };
        Body { reader, framing, left, begun: false, ended: framing == Framing::Length(0) }
    }

    /// Whether the body was read to its end, so that another message may follow on the connection.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        if self.begun && !line_in_body(self.reader)?.is_empty() {
            return Err(invalid("a chunk is longer than its size".to_owned()));
        }
        let line = line_in_body(self.reader)?;
        let size = line.split(';').next().unwrap_or("").trim();
        self.left =
            u64::from_str_radix(size, 16).map_err(|_| invalid(format!("`{line}` is no chunk size")))?;
        self.begun = true;
        if self.left == 0 {
            for _ in 0..HEADERS_MAX {
                if line_in_body(self.reader)?.is_empty() {
                    self.ended = true;
                    return Ok(());
                }
            }
            return Err(invalid(format!("more than {HEADERS_MAX} trailers")));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.framing == Framing::UntilClose {
            let count = self.reader.read(buffer)?;
            self.ended = count == 0;
            return Ok(count);
        }
        if self.framing == Framing::Chunked && self.left == 0 {
            self.next_chunk()?;
            if self.ended {
                return Ok(0);
            }
        }
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.reader.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("closed {} bytes before the end", self.left),
            ));
        }
        self.left -= count as u64;
        self.ended = self.left == 0 && self.framing != Framing::Chunked;
        Ok(count)
    }
}

/// Writes one chunk; an empty one would end the body and is left out.
pub(crate) fn write_chunk(writer: &mut impl Write, content: &[u8]) -> io::Result<()> {
    if content.is_empty() {
        return Ok(());
    }
    writer.write_all(format!("{:x}\r\n", content.len()).as_bytes())?;
    writer.write_all(content)?;
    writer.write_all(b"\r\n")
}

pub(crate) fn write_last_chunk(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(b"0\r\n\r\n")
}

fn line_in_body(reader: &mut impl BufRead) -> io::Result<String> {
    read_line(reader)?.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "closed between chunks"))
}

/// A line without its end; `None` when the peer closed before its first byte.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        let why = if line.len() as u64 + 1 >= LINE_BYTES_MAX {
            "a line is too long"
        } else {
            "closed within a line"
        };
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| invalid("a line is not UTF-8".to_owned()))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
