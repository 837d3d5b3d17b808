//! Text from outside, made fit for logs, terminals and `/status`.
//!
//! Owns which characters are shown as they are, and which part of a server's words is a value. Does not own what goes to the dead letters,
//! which keep records and messages unchanged.
//!
//! A record is written by somebody else, and so is what a server quotes from it: it may move a cursor, reverse a line, or
//! look like a separate line. Everything that is displayed to users passes through here.
//!
//! | function           | for                                                       |
//! |--------------------|-----------------------------------------------------------|
//! | [`escaped`]        | one value within a line                                   |
//! | [`escaped_lines`]  | a whole text, whose line ends are the program's own       |
//! | [`without_values`] | a server's words about rows, which quote the rows' values |

use std::borrow::Cow;

/// Characters of a text that are shown: a server's longest sentence, far less than a record.
pub const TEXT_CHARS_MAX: usize = 2_000;

/// `text` on one line, without anything that a terminal obeys, cut after `chars_max` characters.
pub fn escaped(text: &str, chars_max: usize) -> Cow<'_, str> {
    escape(text, chars_max, |c| !is_printable(c))
}

/// `text` with its line ends, without anything else that a terminal obeys.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, usize::MAX, |c| c != '\n' && !is_printable(c))
}

/// JSON text without anything that a terminal obeys: the same JSON, for such characters are only in its strings, where `\u` escapes stand for them.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_printable) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match is_printable(c) {
            true => out.push(c),
            false => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")))
            }
        }
    }
    Cow::Owned(out)
}

/// True for characters that are displayed and do nothing else: no control characters, none that change the direction of
/// text, join or hide others, or end a line.
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn escape(text: &str, chars_max: usize, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let end = text.char_indices().nth(chars_max).map(|(end, _)| end);
    let kept = &text[..end.unwrap_or(text.len())];
    if end.is_none() && !kept.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(kept.len() + 8);
    for c in kept.chars() {
        if is_escaped(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    if end.is_some() {
        out.push('…');
    }
    Cow::Owned(out)
}

/// A server's words about rows, without what they quote: the texts between quotes, and what follows `Column values:`. The
/// dead letter has them whole.
pub fn without_values(words: &str) -> String {
    let words = words.split_once("Column values:").map_or(words, |(before, _)| before.trim_end());
    let mut out = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        out.push_str(before);
        let quote = quoted.as_bytes()[0];
        // `isn't`, `table's`: a quote within a word opens nothing.
        if quote == b'\'' && before.ends_with(char::is_alphanumeric) {
            out.push('\'');
            rest = &quoted[1..];
            continue;
        }
        out.push_str(if quote == b'"' { "\"…\"" } else { "'…'" });
        // A quote that is never closed hides all that follows.
        rest = closing(quoted).map_or("", |end| &quoted[end..]);
    }
    out.push_str(rest);
    out
}

/// The byte after the quote that closes the one at the beginning of `quoted`. Values may hold quotes of their own, unescaped, so
/// a quote closes only where a word could not continue.
fn closing(quoted: &str) -> Option<usize> {
    let quote = quoted.chars().next()?;
    let mut is_after_backslash = false;
    for (at, c) in quoted.char_indices().skip(1) {
        let ends = c == quote
            && !is_after_backslash
            && !quoted[at + 1..].starts_with(|next: char| next.is_alphanumeric() || next == quote);
        if ends {
            return Some(at + 1);
        }
        is_after_backslash = c == '\\' && !is_after_backslash;
    }
    None
}

#[cfg(test)]
mod tests;
