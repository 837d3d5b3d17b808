//! Statements of the superuser, who needs no password: the simple query of PostgreSQL's protocol, and no more of it.
//!
//! Owns one statement over a connection of its own, its rows as texts. Does not own the server (`postgres`), logins with a password or
//! typed values, which the client under test has.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// An answer takes so long at the most; tests ask little.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Bytes of a message: more is no answer to a test.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Version 3.0 of the protocol.
const VERSION: u32 = 196_608;

pub(super) fn query(port: u16, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let start = [&VERSION.to_be_bytes()[..], b"user\0postgres\0database\0postgres\0\0"].concat();
    stream.write_all(&framed(&start))?;
    answer(&mut stream)?;
    stream.write_all(b"Q")?;
    stream.write_all(&framed(&[sql.as_bytes(), b"\0"].concat()))?;
    let rows = answer(&mut stream)?;
    stream.write_all(&[b"X".as_slice(), &framed(b"")].concat())?;
    Ok(rows)
}

/// The length of a message, which counts itself, before it.
fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 4).to_be_bytes()[..], content].concat()
}

/// Reads until the server is ready for the next question.
fn answer(stream: &mut TcpStream) -> Result<Vec<Vec<Option<String>>>> {
    let (mut rows, mut refused) = (Vec::new(), None);
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = (u32::from_be_bytes(length) as usize).saturating_sub(4);
        ensure!(length <= MESSAGE_BYTES_MAX, "a message of {length} bytes");
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        match kind {
            b'T' => rows.clear(),
            b'D' => rows.push(row(&content).context("a row that is cut off")?),
            b'E' => refused = Some(refusal(&content)),
            b'R' => ensure!(content == [0; 4], "the server wants a password"),
            b'Z' => match refused {
                Some(why) => bail!("postgres refuses: {why}"),
                None => return Ok(rows),
            },
            _ => {}
        }
        // A refused login ends without a word more.
        if let (b'E', Some(why)) = (kind, &refused)
            && why.starts_with("FATAL")
        {
            bail!("postgres refuses: {why}");
        }
    }
}

fn row(content: &[u8]) -> Option<Vec<Option<String>>> {
    let (count, mut rest) = content.split_first_chunk::<2>()?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        values.push(match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (value, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Some(String::from_utf8_lossy(value).into_owned())
            }
            Err(_) => None,
        });
    }
    Some(values)
}

/// The severity, the code and the message.
fn refusal(content: &[u8]) -> String {
    let fields = content.split(|byte| *byte == 0);
    let fields = fields.filter_map(|field| field.split_first());
    let shown = fields.filter(|(kind, _)| matches!(kind, b'V' | b'C' | b'M'));
    shown.map(|(_, text)| String::from_utf8_lossy(text)).collect::<Vec<_>>().join(" ")
}
