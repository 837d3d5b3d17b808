//! JSON's pairs of `\u` escapes, each of which is one character above U+FFFF: YAML has `\U` for them, and refuses the pair.
//!
//! Owns the text that the YAML parser reads in place of a file that is JSON, and the way back from its places. Does not own other escapes, which
//! mean the same in both.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::config::faults::Position;

/// How much shorter `\U0001f600` is than `\ud83d\ude00`, in characters.
const SHORTER: usize = 2;

/// A file as the YAML parser reads it.
pub(super) struct Joined<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// What it has of the places behind each pair that was joined.
    places: Places,
}

/// The places behind each joined pair, in the text, in order.
#[derive(Default)]
pub(super) struct Places(Vec<(usize, usize)>);

impl Places {
    /// Where a place of the text is in the file.
    pub fn in_file(&self, at: Position) -> Position {
        let until = |column: usize| self.0.partition_point(|place| *place <= (at.line, column));
        Position { column: at.column + SHORTER * (until(at.column) - until(0)), ..at }
    }
}

impl<'a> Joined<'a> {
    /// The file with its pairs joined, if it is JSON: there a backslash stands within a text in double quotes alone.
    pub fn of(file: &'a str) -> Self {
        let has_pairs = file.contains("\\ud") || file.contains("\\uD");
        if !has_pairs || serde_json::from_str::<IgnoredAny>(file).is_err() {
            return Self { text: Cow::Borrowed(file), places: Places::default() };
        }
        let (mut text, mut places) = (String::with_capacity(file.len()), Vec::new());
        let (mut line, mut column) = (1, 1);
        let mut rest = file;
        while let Some(next) = rest.chars().next() {
            if let Some(character) = pair(rest) {
                let escape = format!("\\U{:08x}", u32::from(character));
                column += escape.len();
                places.push((line, column));
                text.push_str(&escape);
                rest = &rest[escape.len() + SHORTER..];
                continue;
            }
            // What stands behind a backslash begins no escape of its own.
            let taken = if next == '\\' { rest.chars().take(2) } else { rest.chars().take(1) };
            let bytes = taken.map(char::len_utf8).sum();
            let chars = rest[..bytes].chars().count();
            text.push_str(&rest[..bytes]);
            (line, column) = if next == '\n' { (line + 1, 1) } else { (line, column + chars) };
            rest = &rest[bytes..];
        }
        Self { text: Cow::Owned(text), places: Places(places) }
    }

    /// The text, and the way back from its places.
    pub fn parts(&self) -> (&str, &Places) {
        (&self.text, &self.places)
    }
}

/// The character of a pair that `text` begins with.
fn pair(text: &str) -> Option<char> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u16::from_str_radix(digits, 16).ok()
    };
    char::decode_utf16([unit(0)?, unit(6)?]).next()?.ok().filter(|character| *character > '\u{ffff}')
}
