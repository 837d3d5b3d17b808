//! The labels of a stream as the text that Loki's protobuf has for them: `{app="web", host="a"}`. Pure.
//!
//! Owns that text: names, with or without quotes, and values in Go's quotes, escaped or raw. Does not own which names Loki allows; all are taken.
//!
//! Some senders, Vector among them, put values between quotes as they are: `{path="C:\data", title="the "first" one"}`. A text that is none of Go's is
//! therefore read once more without escapes. A quote ends a value then only if the next pair or the end of the labels follows, so that a sender loses
//! no lines for a value of a label.

use serde_json::{Map, Value};

/// Bytes of the labels of one stream. Loki's own bound is 15 labels of 3 KiB.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// The labels in a text; of a name that stands twice the last value counts, as in JSON.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(text: &[u8]) -> Result<Map<String, Value>, &'static str> {
    if text.len() > TEXT_BYTES_MAX {
        return Err("are longer than 64 KiB");
    }
    escaped(text).or_else(|why| unescaped(text).ok_or(why))
}

/// Labels as Go writes them.
fn escaped(text: &[u8]) -> Result<Map<String, Value>, &'static str> {
    let mut at = Text { rest: text };
    let mut labels = Map::new();
    at.blanks();
    // Some senders leave the text of a stream without labels out.
    if at.rest.is_empty() {
        return Ok(labels);
    }
    at.take(b'{').ok_or("do not begin with `{`")?;
    loop {
        at.blanks();
        if at.take(b'}').is_some() {
            break;
        }
        let name = at.name().ok_or("hold something that is no name")?;
        at.blanks();
        at.take(b'=').ok_or("hold a name without `=` behind it")?;
        at.blanks();
        let value = at.quoted().ok_or("hold a value that is not in quotes, or not escaped as Go does it")?;
        labels.insert(text_of(name), Value::String(text_of(value)));
        at.blanks();
        if at.take(b',').is_none() && at.rest.first() != Some(&b'}') {
            return Err("hold two pairs without `,` between them, or have no end");
        }
    }
    at.blanks();
    if at.rest.is_empty() { Ok(labels) } else { Err("have something behind their `}`") }
}

/// Labels whose values stand between quotes as they are.
fn unescaped(text: &[u8]) -> Option<Map<String, Value>> {
    let mut at = Text { rest: text.trim_ascii() };
    let mut labels = Map::new();
    at.take(b'{')?;
    while let Some(name) = at.begin_of_pair() {
        let is_end = |end: &usize| {
            let mut behind = Text { rest: &at.rest[end + 1..] };
            behind.blanks();
            behind.rest == b"}" || (behind.take(b',').is_some() && behind.begin_of_pair().is_some())
        };
        let end = memchr::memchr_iter(b'"', at.rest).find(is_end)?;
        labels.insert(text_of(name), Value::String(text_of(at.rest[..end].to_vec())));
        at.rest = &at.rest[end + 1..];
        at.blanks();
        if at.take(b',').is_none() {
            return Some(labels);
        }
    }
    None
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

struct Text<'a> {
    rest: &'a [u8],
}

impl Text<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then(|| self.rest = rest)
    }

    /// The name of a pair, up to the quote in front of its value.
    fn begin_of_pair(&mut self) -> Option<Vec<u8>> {
        self.blanks();
        let name = self.bare_name()?;
        self.blanks();
        self.take(b'=')?;
        self.blanks();
        self.take(b'"').map(|()| name)
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        match self.rest.first() {
            Some(b'"') => self.quoted(),
            _ => self.bare_name(),
        }
    }

    fn bare_name(&mut self) -> Option<Vec<u8>> {
        let is_of_name = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'-' | b'/') || *byte >= 0x80
        };
        let end = self.rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_vec())
    }

    /// A text in double quotes, with Go's escapes, or in back quotes, without any.
    fn quoted(&mut self) -> Option<Vec<u8>> {
        if self.take(b'`').is_some() {
            let end = self.rest.iter().position(|byte| *byte == b'`')?;
            let text = self.rest[..end].to_vec();
            self.rest = &self.rest[end + 1..];
            return Some(text);
        }
        self.take(b'"')?;
        let mut out = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(out),
                b'\\' => self.escape(&mut out)?,
                byte => out.push(*byte),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let (letter, rest) = self.rest.split_first()?;
        self.rest = rest;
        let byte = match letter {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'\\' | b'"' | b'\'' => *letter,
            b'x' => u8::try_from(self.digits(2, 16)?).ok()?,
            b'u' | b'U' => {
                let code = self.digits(if *letter == b'u' { 4 } else { 8 }, 16)?;
                let char = char::from_u32(code)?;
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            b'0'..=b'7' => {
                let two = self.digits(2, 8)?;
                u8::try_from(u32::from(letter - b'0') * 64 + two).ok()?
            }
            _ => return None,
        };
        out.push(byte);
        Some(())
    }

    fn digits(&mut self, count: usize, radix: u32) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.iter().try_fold(0, |number: u32, digit| {
            number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
        })
    }
}

#[cfg(test)]
mod tests;
