//! Cuts a piece of a file into its lines, and makes records of them. Pure.
//!
//! Owns what is a line, and the record around it. Does not own the bytes (`files::pieces`), nor when a line without its end is final
//! (`files::follower::reading`).
//!
//! | what stands in the file                | becomes                                                              |
//! |----------------------------------------|----------------------------------------------------------------------|
//! | a line with its line break             | a record                                                             |
//! | `\r` before the line break             | no part of it                                                        |
//! | an empty line                          | nothing                                                              |
//! | a byte order mark at the file's start  | no part of the first line                                            |
//! | a line above the bound                 | its beginning, marked by `truncated`                                 |
//! | no line break at the end               | nothing yet; a line once the file is let go                          |

use std::io::Write;

use crate::quoting::quote;
use crate::records::check_object;

/// What some programs put in front of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes within the bound; perhaps none.
    pub text: &'a [u8],
    /// It is longer.
    pub is_cut: bool,
    /// Where the next one begins.
    pub next: u64,
}

/// The whole lines of a piece of a file that begins at `offset`, where a line begins.
pub(super) fn lines(piece: &[u8], offset: u64, bytes_max: usize) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    memchr::memchr_iter(b'\n', piece).map(move |end| {
        let begin = std::mem::replace(&mut at, end + 1);
        line(&piece[begin..end], offset + begin as u64, bytes_max, offset + end as u64 + 1)
    })
}

/// The line that has these bytes, or begins with more of them than `bytes_max`.
pub(super) fn line(text: &[u8], offset: u64, bytes_max: usize, next: u64) -> Line<'_> {
    let text = if offset == 0 { text.strip_prefix(MARK).unwrap_or(text) } else { text };
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let is_cut = text.len() > bytes_max;
    Line { offset, text: if is_cut { beginning(text, bytes_max) } else { text }, is_cut, next }
}

/// The first bytes, without a part of a character at their end.
fn beginning(text: &[u8], bytes: usize) -> &[u8] {
    let is_within = |at: usize| text[at] & 0xc0 == 0x80;
    let end = (bytes.saturating_sub(3)..=bytes).rev().find(|at| !is_within(*at)).unwrap_or(bytes);
    &text[..end]
}

/// What every record says beside its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// The name under which the file was met.
    pub path: &'a str,
    /// This host.
    pub host: &'a str,
    /// When it was read, Unix milliseconds.
    pub read_ms: i64,
}

/// Writes a line's record: the line itself, if that is wanted and it is a whole JSON object; otherwise an object with the line and where it was.
pub(super) fn write_record(out: &mut Vec<u8>, line: Line<'_>, origin: Origin<'_>, is_json: bool) {
    if is_json && !line.is_cut && check_object(line.text).is_ok() {
        return out.extend_from_slice(line.text);
    }
    out.extend_from_slice(b"{\"file\":");
    quote(out, origin.path.as_bytes());
    out.extend_from_slice(b",\"host\":");
    quote(out, origin.host.as_bytes());
    // Writing to memory does not fail.
    let _ = write!(out, ",\"offset\":{},\"read\":{},\"line\":", line.offset, origin.read_ms);
    quote(out, line.text);
    let _ = write!(out, ",\"truncated\":{}}}", line.is_cut);
}

#[cfg(test)]
mod tests;
