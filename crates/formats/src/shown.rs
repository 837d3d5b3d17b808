//! Pieces of a record as a message shows them: printable, and not longer than a line.
//!
//! Owns their length and escapes. Does not own the sentences around them.

use std::fmt::Write;

/// Characters of a value that a message shows; what is longer is cut and marked.
const SHOWN_CHARS: usize = 64;

/// At most [`SHOWN_CHARS`] characters of `bytes`, all printable.
pub(crate) fn shorten(bytes: &[u8]) -> String {
    printable(bytes, SHOWN_CHARS)
}

/// The same for any number of characters.
pub(crate) fn printable(bytes: &[u8], chars_max: usize) -> String {
    // Four bytes hold the longest character, so this prefix is enough and a huge value is not walked.
    let head = &bytes[..bytes.len().min(chars_max.saturating_mul(4))];
    let text = String::from_utf8_lossy(head);
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == chars_max {
            break;
        }
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    if text.chars().nth(chars_max).is_some() || head.len() < bytes.len() {
        // Writing to a String cannot fail.
        let _ = write!(out, "…");
    }
    out
}

/// A byte as a message shows it.
pub(crate) fn shown_byte(byte: u8) -> String {
    match byte {
        0x21..=0x7e => format!("`{}`", byte as char),
        b' ' => "a space".into(),
        other => format!("byte `0x{other:02x}`"),
    }
}
