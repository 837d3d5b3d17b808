//! What bare text may do if the engine reads it as SQL. Pure.
//!
//! Owns the search for calls in text that is not taken apart into tokens. It errs on the side of finding one: between the name and its
//! bracket it passes over everything that the engine could pass over. Does not own what is refused (`gate::names`), nor the lexer
//! (`crate::sql`).

use super::names::FUNCTIONS;
use crate::sql::{Kind, Token};

/// Text in text in text …; who goes deeper hides something.
const DEPTH_MAX: usize = 8;

/// The first refused function that `text` calls.
pub fn called(text: &[u8]) -> Option<&'static str> {
    FUNCTIONS.into_iter().find(|name| is_called(text, name.as_bytes()))
}

/// The same for the text of a string, and for what is a string inside of it, and so on.
pub fn called_at_any_depth(text: Vec<u8>) -> Option<&'static str> {
    let mut text = text;
    for _ in 0..DEPTH_MAX {
        if let Some(name) = called(&text) {
            return Some(name);
        }
        let inner = unescaped(&text);
        if inner == text {
            return None;
        }
        text = inner;
    }
    called(&text)
}

/// The refused function that `text`, an identifier with or without quotes, names.
pub fn function_named(text: &[u8]) -> Option<&'static str> {
    let text = unescaped(&unescaped(text));
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let text = text.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    FUNCTIONS.into_iter().find(|name| *name == text)
}

/// What a string literal says; that of any other token is its bare text.
pub fn content(sql: &[u8], token: Token) -> Vec<u8> {
    let text = &sql[token.start..token.end];
    match (token.kind, text) {
        (Kind::Text, [b'\'', inner @ .., b'\'']) => unescaped(inner),
        _ => text.to_vec(),
    }
}

/// `x'66'` and `b'01100110'`: two digits or eight make a byte.
pub fn digits(text: &[u8], hex: bool) -> Vec<u8> {
    let (radix, length) = if hex { (16, 2) } else { (2, 8) };
    // Missing digits are zeros before the first.
    let missing = (length - text.len() % length) % length;
    let padded = [vec![b'0'; missing], text.to_vec()].concat();
    let byte = |digits: &[u8]| {
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, radix).ok())
            .unwrap_or(b' ')
    };
    padded.chunks(length).map(byte).collect()
}

/// Undoes one layer of `\x66`, `\n`, `\'` and `''`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, left) = match (first, tail) {
            (b'\\', [b'x', high, low, left @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, left),
                _ => (b'x', &tail[1..]),
            },
            (b'\\', [b'a' | b'b' | b'e' | b'f' | b'n' | b'r' | b't' | b'v' | b'0', left @ ..]) => {
                (b' ', left)
            }
            (b'\\', [next, left @ ..]) => (*next, left),
            (b'\'', [b'\'', left @ ..]) => (b'\'', left),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = left;
    }
    out
}

fn digit(letter: u8) -> Option<u8> {
    (letter as char).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Whether `text` has the word `name` with a bracket or a comment after it, or `APPLY` before it.
fn is_called(text: &[u8], name: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let begins = (0..(text.len() + 1).saturating_sub(name.len()))
        .filter(|at| text[*at..at + name.len()].eq_ignore_ascii_case(name))
        .filter(|at| at.checked_sub(1).is_none_or(|before| !is_word(&text[before])));
    let whole = begins.filter(|at| !text.get(at + name.len()).is_some_and(is_word));
    let mut whole = whole.peekable();
    whole.any(|at| {
        let passed = |byte: &&u8| !byte.is_ascii_graphic() || matches!(byte, b'`' | b'"');
        let after = &text[at + name.len()..];
        let after = &after[after.iter().take_while(passed).count()..];
        let before = text[..at].trim_ascii_end();
        matches!(after, [b'(' | b'#', ..] | [b'/', b'/' | b'*', ..] | [b'-', b'-', ..])
            || before.len() >= 5 && before[before.len() - 5..].eq_ignore_ascii_case(b"apply")
    })
}

/// Whether `name`, which is in lower case, occurs in any case.
pub fn contains(data: &[u8], name: &[u8]) -> bool {
    let first = [name[0], name[0].to_ascii_uppercase()];
    let mut rest = data;
    while let Some(at) = rest.iter().position(|byte| first.contains(byte)) {
        if rest.get(at..at + name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
