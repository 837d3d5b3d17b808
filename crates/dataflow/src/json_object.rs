//! Texts that ClickHouse's type `JSON` takes.
//!
//! Owns the quoting of texts in JSON, and the one check of an object's text, which is made before a row is sealed: the server parses a block as a whole, so one bad text would
//! refuse its neighbours with it. Does not own the reading of records (`formats`), nor paths that a table gives a type of their own: what does
//! not fit those is refused by the server, and the row is found by halving.
//!
//! | text                                                  | taken                                                            |
//! |-------------------------------------------------------|------------------------------------------------------------------|
//! | an object by RFC 8259, in white space                 | yes                                                              |
//! | any other value, or none                              | no: [`Reason::WrongKind`]                                        |
//! | an object with a mistake, or half of a surrogate pair | no: [`Reason::Malformed`]                                        |
//! | an integer beyond Int64 and UInt64, a float beyond Float64 | no: [`Reason::OutOfRange`]                                  |
//! | a float that would become 0 and is not 0              | no: [`Reason::OutOfRange`]                                       |
//! | a key twice in one object                             | no: [`Reason::OutOfRange`]                                       |
//! | values at one path, as in `{"a.b":1,"a":{"b":2}}`     | no: [`Reason::OutOfRange`]                                       |
//! | objects and arrays deeper than [`DEPTH_MAX`]          | no: [`Reason::TooLarge`]                                         |
//!
//! A path is the keys to a value joined by dots; the objects in an array have paths of their own.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::Reason;

/// Objects and arrays inside each other: bounds the recursion here, and is far below what the server takes (1,000).
pub const DEPTH_MAX: u32 = 64;
/// Digits of an integer that fits into 64 bits whatever they are.
const DIGITS_SAFE: usize = 18;
/// Bytes of a number without an exponent that is finite, and is 0 only if all digits are, whatever they are.
const FLOAT_BYTES_SAFE: usize = 300;
/// Bytes of a path that a message shows.
const SHOWN_BYTES_MAX: usize = 100;

/// Why a text is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The rule's class.
    pub reason: Reason,
    /// The end of a sentence that begins with the value: "is no JSON object".
    pub rule: Cow<'static, str>,
}

/// Whether `text` is an object that a column of type `JSON` takes. Allocates nothing for an object of a few keys.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(text: &str) -> Result<(), Unfit> {
    let mut walk = Walk::new(text.as_bytes(), None);
    let twice = match walk.document()? {
        Some(twice) => twice,
        None => return Ok(()),
    };
    // Once more, to find what it is called.
    let mut walk = Walk::new(text.as_bytes(), Some(twice));
    walk.document()?;
    Err(twice.unfit(walk.name.as_deref().unwrap_or_default()))
}

/// Appends a text as JSON has it, in quotes.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        // These bytes are characters of their own in UTF-8.
        out.push_str(&text[from..at]);
        match escape {
            // Writing to a String cannot fail.
            "" => drop(write!(out, "\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Something that stands twice, by its hash. Texts that are alike have one hash; that others share it is too rare to be looked into, and would turn
/// down no more than the record that brings them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twice {
    Key(u64),
    Path(u64),
}

impl Twice {
    fn unfit(self, name: &[u8]) -> Unfit {
        let mut shown = String::from_utf8_lossy(name).into_owned();
        if shown.len() > SHOWN_BYTES_MAX {
            let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
            shown.truncate(end);
            shown.push('…');
        }
        let rule = match self {
            Self::Key(_) => format!("has the key `{shown}` twice in one object"),
            Self::Path(_) => format!("has two values at the path `{shown}`"),
        };
        Unfit { reason: Reason::OutOfRange, rule: rule.into() }
    }
}

/// A place in a text, and what was seen before it.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    /// Hashes of the keys of the objects that are open.
    keys: Vec<u64>,
    /// Hashes of the paths to values in the objects that paths begin at.
    paths: Vec<u64>,
    twice: Option<Twice>,
    /// What to find the name of, if this is the second walk.
    wanted: Option<Twice>,
    /// The path here; kept only on the second walk.
    path: Vec<u8>,
    name: Option<Vec<u8>>,
}

type Step<T> = Result<T, Unfit>;

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], wanted: Option<Twice>) -> Self {
        let (keys, paths) = (Vec::with_capacity(32), Vec::with_capacity(32));
        Self { bytes, at: 0, depth: 0, keys, paths, twice: None, wanted, path: Vec::new(), name: None }
    }

    /// The whole text.
    fn document(&mut self) -> Step<Option<Twice>> {
        self.space();
        if self.peek() != b'{' {
            let rule = "is no JSON object, and a JSON column takes nothing else".into();
            return Err(Unfit { reason: Reason::WrongKind, rule });
        }
        self.root()?;
        self.space();
        match self.bytes.get(self.at) {
            None => Ok(self.twice),
            Some(_) => Err(self.broken("something follows the object")),
        }
    }

    /// An object whose paths are its own.
    fn root(&mut self) -> Step<()> {
        let (first, path) = (self.paths.len(), std::mem::take(&mut self.path));
        self.object(None)?;
        if let Some(hash) = find_twice(&mut self.paths[first..]) {
            self.twice.get_or_insert(Twice::Path(hash));
        }
        self.paths.truncate(first);
        self.path = path;
        Ok(())
    }

    /// An object at a path of this hash.
    fn object(&mut self, prefix: Option<u64>) -> Step<()> {
        self.enter()?;
        let first = self.keys.len();
        if self.peek() != b'}' {
            loop {
                let end = self.path.len();
                self.entry(prefix)?;
                self.path.truncate(end);
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        self.leave();
        if let Some(hash) = find_twice(&mut self.keys[first..]) {
            self.twice.get_or_insert(Twice::Key(hash));
        }
        self.keys.truncate(first);
        Ok(())
    }

    fn entry(&mut self, prefix: Option<u64>) -> Step<()> {
        if self.peek() != b'"' {
            return Err(self.broken("a key is expected"));
        }
        let key = self.string()?;
        let own = hash(self.bytes, key.clone(), HASH_START);
        let path = prefix.map_or(own, |prefix| hash(self.bytes, key.clone(), step(prefix, b'.')));
        self.keys.push(own);
        if self.wanted.is_some() {
            self.remember(key, prefix.is_some(), own);
        }
        self.space();
        if self.peek() != b':' {
            return Err(self.broken("`:` is expected after a key"));
        }
        self.at += 1;
        self.space();
        match self.peek() {
            b'{' => self.object(Some(path)),
            // A null is no value: the server keeps nothing of it.
            b'n' => self.word("null"),
            _ => {
                self.paths.push(path);
                if self.wanted == Some(Twice::Path(path)) {
                    self.name.get_or_insert_with(|| self.path.clone());
                }
                self.value()
            }
        }
    }

    /// Adds a key to the path; it may be the one that is wanted.
    fn remember(&mut self, key: Range<usize>, is_nested: bool, own: u64) {
        if is_nested {
            self.path.push(b'.');
        }
        let start = self.path.len();
        let path = &mut self.path;
        each_byte(self.bytes, key, |byte| path.push(byte));
        if self.wanted == Some(Twice::Key(own)) {
            self.name.get_or_insert_with(|| self.path[start..].to_vec());
        }
    }

    fn value(&mut self) -> Step<()> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' => self.root(),
            b'[' => self.array(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => Err(self.broken("a value is expected")),
        }
    }

    fn array(&mut self) -> Step<()> {
        self.enter()?;
        if self.peek() != b']' {
            loop {
                self.value()?;
                if !self.another(b']')? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    /// Steps over a string; gives where its content stands.
    fn string(&mut self) -> Step<Range<usize>> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                b'"' if self.at < self.bytes.len() => {
                    self.at += 1;
                    return Ok(start..self.at - 1);
                }
                b'\\' => self.escape()?,
                0..0x20 => {
                    let rule = if self.at < self.bytes.len() {
                        "a control byte without an escape"
                    } else {
                        "an open quote"
                    };
                    return Err(self.broken(rule));
                }
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Step<()> {
        let first = self.bytes.get(self.at + 1).copied().unwrap_or(0);
        if matches!(first, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
            self.at += 2;
            return Ok(());
        }
        match code_point(self.bytes, self.at) {
            Some((_, length)) => {
                self.at += length;
                Ok(())
            }
            None => Err(self.broken("an escape that stands for no character")),
        }
    }

    fn number(&mut self) -> Step<()> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        let whole = self.digits()?;
        if self.bytes[self.at - whole] == b'0' && whole > 1 {
            return Err(self.broken("a number starts with a zero that means nothing"));
        }
        let mut is_whole = true;
        if self.peek() == b'.' {
            (self.at, is_whole) = (self.at + 1, false);
            self.digits()?;
        }
        let has_exponent = matches!(self.peek(), b'e' | b'E');
        if has_exponent {
            (self.at, is_whole) = (self.at + 1, false);
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = || std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        let why = match is_whole {
            true if whole <= DIGITS_SAFE => return Ok(()),
            true if text().parse::<i64>().is_ok() || text().parse::<u64>().is_ok() => return Ok(()),
            true => "fits neither Int64 nor UInt64",
            false if !has_exponent && self.at - start <= FLOAT_BYTES_SAFE => return Ok(()),
            false => match text().parse::<f64>() {
                Ok(0.0) if !is_zero(text()) => "is below the smallest Float64 and would become 0",
                Ok(float) if float.is_finite() => return Ok(()),
                Ok(_) | Err(_) => "does not fit Float64",
            },
        };
        let rule = format!("holds a number at byte `{start}` that {why}").into();
        Err(Unfit { reason: Reason::OutOfRange, rule })
    }

    fn digits(&mut self) -> Step<usize> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(self.broken("a digit is expected")) } else { Ok(self.at - start) }
    }

    fn word(&mut self, word: &str) -> Step<()> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.broken("a value is expected"))
    }

    /// Steps over an opening brace or bracket.
    fn enter(&mut self) -> Step<()> {
        if self.depth == DEPTH_MAX {
            let rule = format!("is nested deeper than {DEPTH_MAX} levels").into();
            return Err(Unfit { reason: Reason::TooLarge, rule });
        }
        self.depth += 1;
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Steps over a closing one.
    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    /// After an item: true if a comma follows, which is stepped over.
    fn another(&mut self, close: u8) -> Step<bool> {
        self.space();
        match self.peek() {
            b',' => {
                self.at += 1;
                self.space();
                Ok(true)
            }
            next if next == close => Ok(false),
            _ => Err(self.broken("`,` or the end is expected after an item")),
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// The next byte, or zero at the end: zero is no JSON.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[cold]
    fn broken(&self, what: &str) -> Unfit {
        let rule = format!("is no JSON: byte `{}`: {what}", self.at).into();
        Unfit { reason: Reason::Malformed, rule }
    }
}

/// Whether a number's text is zero: no digit before its exponent is another.
fn is_zero(number: &str) -> bool {
    let mut digits = number.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    !digits.any(|byte| matches!(byte, b'1'..=b'9'))
}

/// The character of the `\u` escapes at `at`, two for a pair, and their length.
fn code_point(bytes: &[u8], at: usize) -> Option<(char, usize)> {
    let half = |at: usize| {
        let digits: &[u8; 6] = bytes.get(at..)?.first_chunk()?;
        let number = digits[2..].iter().try_fold(0, |sum, d| Some(sum << 4 | (*d as char).to_digit(16)?))?;
        digits.starts_with(b"\\u").then_some(number)
    };
    let first = half(at)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = half(at + 6).filter(|second| (0xdc00..0xe000).contains(second))?;
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

/// The bytes that the content of a string stands for; its form was checked.
fn each_byte(bytes: &[u8], content: Range<usize>, mut each: impl FnMut(u8)) {
    let mut at = content.start;
    while at < content.end {
        if bytes[at] != b'\\' {
            each(bytes[at]);
            at += 1;
            continue;
        }
        let plain = match bytes[at + 1] {
            b'b' => 0x8,
            b'f' => 0xc,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            other => other,
        };
        match code_point(bytes, at).filter(|_| plain == b'u') {
            Some((c, length)) => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(&mut each);
                at += length;
            }
            None => {
                each(plain);
                at += 2;
            }
        }
    }
}

/// FNV-1a, which goes on from the hash of a prefix: the path `a.b` has one hash whether it is one key or two.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

fn hash(bytes: &[u8], content: Range<usize>, start: u64) -> u64 {
    let mut hash = start;
    each_byte(bytes, content, |byte| hash = step(hash, byte));
    hash
}

/// A number that stands twice; changes their order.
fn find_twice(hashes: &mut [u64]) -> Option<u64> {
    hashes.sort_unstable();
    hashes.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests;
