//! JSON objects: one a line, an array of them, or one after the other.
//!
//! Owns where an object ends, and whether it is one. Does not own its fields: a pipeline decodes it with `formats::json`.

use memchr::memchr;
use serde::de::IgnoredAny;

use super::Rows;
use crate::refusal::{Kind, Refusal};

/// An object a line. Blank lines are nothing.
pub(super) fn lines(body: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    // As a rule all of it is, and then no line needs to be looked at.
    let is_text = std::str::from_utf8(body).is_ok();
    let (mut rest, mut line) = (body, 0);
    while !rest.is_empty() {
        line += 1;
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let text = rest[..end].trim_ascii();
        rest = &rest[(end + 1).min(rest.len())..];
        if text.is_empty() {
            continue;
        }
        match check(text, is_text) {
            Ok(()) => rows.push(text)?,
            Err(why) => rows.error(line, why),
        }
    }
    Ok(())
}

/// Whether a line is an object.
pub(super) fn check(text: &[u8], is_text: bool) -> Result<(), String> {
    if text[0] != b'{' {
        return Err("is no JSON object".to_owned());
    }
    if !is_text && std::str::from_utf8(text).is_err() {
        return Err("is not UTF-8".to_owned());
    }
    match serde_json::from_slice::<IgnoredAny>(text) {
        Ok(IgnoredAny) => Ok(()),
        Err(error) => Err(format!("is no JSON: {} at column {}", words(&error), error.column())),
    }
}

/// An array of objects, or objects one after the other with nothing but blanks between.
pub(super) fn values(body: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    each_value(body, |line, value| match value[0] {
        b'{' => rows.push(value),
        _ => {
            rows.error(line, "is no JSON object");
            Ok(())
        }
    })
}

/// The values of an array, or values one after the other with nothing but blanks between: each with the line where it begins, and never empty.
///
/// # Errors
/// [`Kind::Malformed`] for a body that is none, and what `each` ends with.
pub(crate) fn each_value(
    body: &[u8],
    mut each: impl FnMut(u64, &[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if std::str::from_utf8(body).is_err() {
        return Err(Refusal::new(Kind::Malformed, "the body is not UTF-8"));
    }
    let mut at = Place { body, at: 0, line: 1, counted: 0 };
    at.skip_blanks();
    let is_array = at.take(b'[');
    at.skip_blanks();
    if is_array && at.take(b']') {
        return at.end();
    }
    while at.at < body.len() {
        let line = at.line();
        let value = at.value()?;
        each(line, value)?;
        at.skip_blanks();
        if is_array {
            if at.take(b']') {
                return at.end();
            }
            if at.at < body.len() && !at.take(b',') {
                return Err(at.wrong("`,` or `]` is missing"));
            }
            at.skip_blanks();
        }
    }
    match is_array {
        true => Err(at.wrong("the array has no end")),
        false => Ok(()),
    }
}

struct Place<'b> {
    body: &'b [u8],
    at: usize,
    line: u64,
    /// Up to where lines were counted.
    counted: usize,
}

impl<'b> Place<'b> {
    fn skip_blanks(&mut self) {
        let blanks = self.body[self.at..].iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        self.at += blanks;
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.body.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// The line of this place, from 1.
    fn line(&mut self) -> u64 {
        let passed = &self.body[self.counted..self.at];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.counted = self.at;
        self.line
    }

    /// The value that begins here.
    fn value(&mut self) -> Result<&'b [u8], Refusal> {
        let rest = &self.body[self.at..];
        let length = match rest.first() {
            Some(b'{' | b'[' | b'"') => {
                let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
                match values.next() {
                    Some(Ok(IgnoredAny)) => values.byte_offset(),
                    Some(Err(error)) => return Err(self.wrong(&words(&error))),
                    None => 0,
                }
            }
            // Numbers and words end before what separates values.
            _ => {
                let end = rest.iter().position(|byte| b" \t\r\n,]}".contains(byte));
                let word = &rest[..end.unwrap_or(rest.len())];
                if word.is_empty() || serde_json::from_slice::<IgnoredAny>(word).is_err() {
                    return Err(self.wrong("is no JSON value"));
                }
                word.len()
            }
        };
        self.at += length;
        Ok(&rest[..length])
    }

    fn wrong(&mut self, why: &str) -> Refusal {
        let line = self.line();
        Refusal::new(
            Kind::Malformed,
            format!("the body is no JSON: in the value at line {line}: {why}; nothing was stored"),
        )
    }

    fn end(&mut self) -> Result<(), Refusal> {
        self.skip_blanks();
        match self.at == self.body.len() {
            true => Ok(()),
            false => Err(self.wrong("something follows the array")),
        }
    }
}

/// What is wrong, without its place: that is the value's own.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
