//! Steps over the bytes of one record: white space, strings, numbers, words, whole values.
//!
//! Owns JSON's grammar (RFC 8259, strictly) and the bound on nesting. Does not own meaning: what a value is to a column
//! is decided by the column. The caller has checked that the record is UTF-8.
//!
//! Strings are searched 32 bytes at once, which is the whole of most; then 16 a step ([`crate::wide`]), and 64 once they prove
//! long, by a loop over whole arrays that the compiler turns into vector code.

use super::fail::{Fail, Step};
use crate::shown::shown_byte;
use crate::wide;

/// Objects and arrays inside each other, the record itself included: bounds the recursion of every reader.
pub const DEPTH_MAX: u32 = 64;

/// A place in the bytes of a record.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    /// At the start of a record.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// At byte `pos` of a record.
    pub fn at(bytes: &'a [u8], pos: usize) -> Self {
        Self { bytes, pos, depth: 0 }
    }

    /// The bytes of the record that were stepped over.
    #[inline]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Where the cursor is, to come back with [`resume`](Self::resume).
    #[inline]
    pub fn mark(&self) -> (usize, u32) {
        (self.pos, self.depth)
    }

    /// Goes back to a mark, however deep the cursor is now.
    #[inline]
    pub fn resume(&mut self, mark: (usize, u32)) {
        (self.pos, self.depth) = mark;
    }

    /// Goes `count` bytes on; they were seen in [`rest`](Self::rest).
    #[inline]
    pub fn advance(&mut self, count: usize) {
        // No further than the record's end, which has an address.
        self.pos = self.pos.wrapping_add(count);
    }

    /// The bytes from here to the record's end.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// The next `N` bytes, if there are so many.
    #[inline]
    pub fn ahead<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.bytes.get(self.pos..)?.first_chunk()
    }

    /// The bytes from `from` up to here.
    #[inline]
    pub fn since(&self, from: usize) -> &'a [u8] {
        &self.bytes[from..self.pos]
    }

    /// The next byte, or zero at the end: zero is no JSON outside of strings, so callers need one comparison only.
    #[inline]
    pub fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// Steps over white space.
    #[inline]
    pub fn space(&mut self) {
        // Most often there is none: one comparison shows it.
        if self.peek() > b' ' {
            return;
        }
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.pos += 1;
        }
    }

    /// Steps over `byte`, which stands for `what` in the error.
    #[inline]
    pub fn expect(&mut self, byte: u8, what: &str) -> Step<()> {
        if self.peek() == byte {
            self.pos += 1;
            return Ok(());
        }
        Err(self.unexpected(what))
    }

    /// The error for what stands here instead of `what`.
    #[cold]
    pub fn unexpected(&self, what: &str) -> Box<Fail> {
        match self.bytes.get(self.pos) {
            Some(found) => Fail::bytes(self.pos, format!("expected {what}, found {}", shown_byte(*found))),
            None => Fail::bytes(self.pos, format!("expected {what}, but the record ends here")),
        }
    }

    /// Steps over an opening brace or bracket, which the caller has seen.
    #[inline]
    pub fn enter(&mut self) -> Step<()> {
        if self.depth == DEPTH_MAX {
            return Err(Fail::bytes(self.pos, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        self.pos += 1;
        Ok(())
    }

    /// Steps over a closing brace or bracket, which the caller has seen.
    #[inline]
    pub fn leave(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    /// After an item: true if a comma follows (and is stepped over with the space behind it), false at `close`
    /// (which is left to [`leave`](Self::leave)).
    #[inline]
    pub fn another(&mut self, close: u8) -> Step<bool> {
        self.space();
        let next = self.peek();
        if next == b',' {
            self.pos += 1;
            self.space();
            return Ok(true);
        }
        if next == close {
            return Ok(false);
        }
        Err(self.unexpected(if close == b'}' {
            "`,` or `}` after a field"
        } else {
            "`,` or `]` after an item"
        }))
    }

    /// Steps over a key's colon and the space around it.
    #[inline]
    pub fn colon(&mut self) -> Step<()> {
        self.space();
        self.expect(b':', "`:` after a key")?;
        self.space();
        Ok(())
    }

    /// Steps over a string and gives its content: a part of the record, or `scratch` if it has escapes.
    #[inline]
    pub fn string<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Step<&'s [u8]>
    where
        'a: 's,
    {
        let from = self.pos + 1;
        let stop = self.run()?;
        if self.bytes[stop] == b'"' {
            self.pos = stop + 1;
            return Ok(&self.bytes[from..stop]);
        }
        scratch.clear();
        self.unescape(from, stop, Some(scratch))?;
        Ok(scratch)
    }

    /// Steps over a string and appends its content to `out`. After an error `out` may hold a part of it.
    #[inline]
    pub fn string_into(&mut self, out: &mut Vec<u8>) -> Step<()> {
        let from = self.pos + 1;
        let stop = self.run()?;
        if self.bytes[stop] == b'"' {
            append(out, &self.bytes[from..], stop - from);
            self.pos = stop + 1;
            return Ok(());
        }
        self.unescape(from, stop, Some(out))
    }

    /// Steps over a string.
    #[inline]
    pub fn skip_string(&mut self) -> Step<()> {
        let from = self.pos + 1;
        let stop = self.run()?;
        if self.bytes[stop] == b'"' {
            self.pos = stop + 1;
            return Ok(());
        }
        self.unescape(from, stop, None)
    }

    /// Steps over the opening quote and finds the first quote or backslash after it.
    #[inline]
    fn run(&mut self) -> Step<usize> {
        self.expect(b'"', "`\"`")?;
        self.run_from(self.pos)
    }

    #[inline]
    fn run_from(&self, from: usize) -> Step<usize> {
        let stop = find_special(self.bytes, from);
        match self.bytes.get(stop) {
            Some(b'"' | b'\\') => Ok(stop),
            Some(control) => {
                let rule = format!("a string holds the control byte `0x{control:02x}` without an escape");
                Err(Fail::bytes(stop, rule))
            }
            None => Err(Fail::bytes(stop, "the record ends inside a string")),
        }
    }

    /// The rest of a string whose content starts at `from` and has its first backslash at `stop`.
    #[cold]
    fn unescape(&mut self, mut from: usize, mut stop: usize, mut out: Option<&mut Vec<u8>>) -> Step<()> {
        loop {
            if let Some(out) = out.as_deref_mut() {
                out.extend_from_slice(&self.bytes[from..stop]);
            }
            if self.bytes[stop] == b'"' {
                self.pos = stop + 1;
                return Ok(());
            }
            self.pos = stop + 1;
            let c = self.escape(stop)?;
            if let Some(out) = out.as_deref_mut() {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            from = self.pos;
            stop = self.run_from(from)?;
        }
    }

    /// Steps over what follows the backslash at `at`.
    fn escape(&mut self, at: usize) -> Step<char> {
        let kind = self.peek();
        self.pos += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => kind as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(at),
            _ => return Err(Fail::bytes(at, "no such escape in a string")),
        })
    }

    /// Steps over the hex digits of an escape that began at `at`, and over the second half of a pair.
    fn code_point(&mut self, at: usize) -> Step<char> {
        let lone = || Fail::bytes(at, "half of a surrogate pair without the other in a string");
        let first = self.hex4(at)?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self.rest().starts_with(b"\\u") {
                    return Err(lone());
                }
                self.pos += 2;
                match self.hex4(at)? {
                    second @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return Err(lone()),
                }
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(lone)
    }

    fn hex4(&mut self, at: usize) -> Step<u32> {
        let digits = self.rest().first_chunk::<4>();
        let value = digits.and_then(|digits| {
            digits.iter().try_fold(0, |sum, d| Some(sum << 4 | (*d as char).to_digit(16)?))
        });
        self.pos += 4;
        value.ok_or_else(|| Fail::bytes(at, "`\\u` is not followed by four hex digits"))
    }

    /// Steps over a number and gives its bytes.
    #[inline]
    pub fn number(&mut self) -> Step<&'a [u8]> {
        let from = self.pos;
        if self.peek() == b'-' {
            self.pos += 1;
        }
        if self.peek() == b'0' {
            self.pos += 1;
            if self.peek().is_ascii_digit() {
                return Err(Fail::bytes(from, "a number starts with a zero that means nothing"));
            }
        } else {
            self.digits("a digit")?;
        }
        if self.peek() == b'.' {
            self.pos += 1;
            self.digits("a digit after the point")?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.pos += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.pos += 1;
            }
            self.digits("a digit of the exponent")?;
        }
        Ok(self.since(from))
    }

    #[inline]
    fn digits(&mut self, what: &str) -> Step<()> {
        let from = self.pos;
        while self.peek().is_ascii_digit() {
            self.pos += 1;
        }
        if self.pos == from {
            return Err(self.unexpected(what));
        }
        Ok(())
    }

    /// Steps over `true`, `false` or `null`.
    #[inline]
    pub fn word(&mut self, word: &'static str) -> Step<()> {
        if self.rest().starts_with(word.as_bytes()) {
            self.pos += word.len();
            return Ok(());
        }
        Err(self.unexpected(&format!("`{word}`")))
    }

    /// The error for the value at `at`, whose kind a column of `type_name` does not take: the bytes are blamed first,
    /// if they are no value at all.
    #[cold]
    pub fn other_kind(&mut self, at: usize, type_name: &str) -> Box<Fail> {
        self.pos = at;
        match self.skip_value() {
            Ok(()) => Fail::kind(at, type_name),
            Err(fail) => fail,
        }
    }

    /// Steps over any value, checking its form.
    pub fn skip_value(&mut self) -> Step<()> {
        match self.peek() {
            b'"' => self.skip_string(),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'{' => self.skip_items(b'}'),
            b'[' => self.skip_items(b']'),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn skip_items(&mut self, close: u8) -> Step<()> {
        self.enter()?;
        self.space();
        if self.peek() != close {
            loop {
                if close == b'}' {
                    self.skip_key()?;
                }
                self.skip_value()?;
                if !self.another(close)? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    #[inline]
    fn skip_key(&mut self) -> Step<()> {
        if self.peek() != b'"' {
            return Err(self.unexpected("a key"));
        }
        self.skip_string()?;
        self.colon()
    }
}

/// Appends the first `length` bytes. Short ones are copied as a whole word of which the rest is cut off again: a copy of fixed
/// size is a few instructions, one of any size is a call.
#[inline]
fn append(out: &mut Vec<u8>, bytes: &[u8], length: usize) {
    match bytes.first_chunk::<32>() {
        Some(word) if length <= word.len() => {
            let end = out.len() + length;
            out.extend_from_slice(word);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&bytes[..length]),
    }
}

/// Steps of 16 bytes after which a string counts as long.
const LONG_STEPS: usize = 3;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Where the first quote, backslash or control byte at or after `from` stands; the length if there is none.
#[inline]
fn find_special(bytes: &[u8], from: usize) -> usize {
    // One question for both halves: how long short texts are is nothing that a processor can guess.
    if let Some([low, high]) = bytes.get(from..).and_then(|rest| rest.as_chunks::<16>().0.first_chunk()) {
        let mask = wide::special(low) | wide::special(high) << 16;
        if mask != 0 {
            return from + mask.trailing_zeros() as usize;
        }
    }
    find_special_in_steps(bytes, from)
}

#[inline(never)]
fn find_special_in_steps(bytes: &[u8], mut from: usize) -> usize {
    let mut steps = 0;
    while let Some(chunk) = bytes.get(from..).and_then(<[u8]>::first_chunk::<16>) {
        let mask = wide::special(chunk);
        if mask != 0 {
            return from + mask.trailing_zeros() as usize;
        }
        from += 16;
        steps += 1;
        if steps == LONG_STEPS {
            from = skip_plain(bytes, from);
        }
    }
    if let Some(chunk) = bytes.get(from..).and_then(<[u8]>::first_chunk::<8>) {
        let mask = special_8(u64::from_le_bytes(*chunk));
        if mask != 0 {
            return from + (mask.trailing_zeros() / 8) as usize;
        }
        from += 8;
    }
    let tail = bytes.get(from..).unwrap_or_default();
    tail.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\').map_or(bytes.len(), |n| from + n)
}

/// Steps over as many times 64 bytes as hold nothing special.
#[inline(never)]
fn skip_plain(bytes: &[u8], mut from: usize) -> usize {
    while let Some(chunk) = bytes.get(from..).and_then(<[u8]>::first_chunk::<64>) {
        if chunk.iter().fold(false, |any, b| any | (*b < 0x20) | (*b == b'"') | (*b == b'\\')) {
            break;
        }
        from += 64;
    }
    from
}

/// The high bit of a byte is set where it is a quote, a backslash or a control byte; only the lowest is certain, for a
/// subtraction borrows from the bytes above it.
#[inline]
fn special_8(word: u64) -> u64 {
    let below = |x: u64, n: u64| x.wrapping_sub(ONES * n) & !x;
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let slash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | slash | below(word, 0x20)) & HIGHS
}

#[cfg(test)]
mod tests;
