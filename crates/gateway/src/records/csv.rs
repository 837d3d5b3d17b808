//! Lines of CSV, with line breaks inside of quotes.
//!
//! Owns where a line ends, how many fields it has, and whether a header fits. Does not own what the fields mean: a pipeline reads the line
//! with `formats::csv`.

use super::Rows;
use crate::options::Csv;
use crate::refusal::{Kind, Refusal};

/// A record a line, without its line end. With `has_head` the first one names the fields, which must be those of the stream, in their order.
pub(super) fn lines(csv: &Csv, has_head: bool, body: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    let (mut rest, mut line, mut is_head) = (body, 1, has_head);
    while !rest.is_empty() {
        let record = record(csv, rest);
        let text = rest[..record.end].strip_suffix(b"\r").unwrap_or(&rest[..record.end]);
        let begun_at = line;
        line += record.breaks + 1;
        rest = &rest[(record.end + 1).min(rest.len())..];
        if text.is_empty() {
            continue;
        }
        if is_head {
            is_head = false;
            head(csv, text)?;
            continue;
        }
        if record.is_open {
            // All of the rest is within the quote: whoever leaves bad lines out is told how many those are.
            let behind = record.breaks - u64::from(text.ends_with(b"\n"));
            let more = match behind {
                0 => String::new(),
                _ => format!("; the `{behind}` lines behind it are part of it"),
            };
            rows.error(begun_at, format!("has a quote without an end{more}"));
            rows.errors.add_unshown(behind);
        } else if record.fields != csv.columns.len() {
            let known = csv.columns.len();
            rows.error(begun_at, format!("has {} fields, and the stream has {known}", record.fields));
        } else if std::str::from_utf8(text).is_err() {
            rows.error(begun_at, "is not UTF-8");
        } else {
            rows.push(text)?;
        }
    }
    Ok(())
}

/// Where a record ends, without its line break.
struct Record {
    end: usize,
    fields: usize,
    /// Line breaks inside of it.
    breaks: u64,
    /// Its last quote has no end.
    is_open: bool,
}

fn record(csv: &Csv, bytes: &[u8]) -> Record {
    let mut found = Record { end: bytes.len(), fields: 1, breaks: 0, is_open: false };
    let (mut at, mut is_begin) = (0, true);
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        if is_begin && csv.quote == Some(byte) {
            found.is_open = true;
            while at < bytes.len() {
                let inner = bytes[at];
                at += 1;
                if csv.quote == Some(inner) {
                    if bytes.get(at).copied() != csv.quote {
                        found.is_open = false;
                        break;
                    }
                    at += 1;
                } else if inner == b'\n' {
                    found.breaks += 1;
                }
            }
            is_begin = false;
        } else if byte == b'\n' {
            found.end = at - 1;
            break;
        } else {
            is_begin = byte == csv.delimiter;
            found.fields += usize::from(is_begin);
        }
    }
    found
}

fn head(csv: &Csv, text: &[u8]) -> Result<(), Refusal> {
    let unquoted = |name: &[u8]| {
        let quote = csv.quote.unwrap_or(b'"');
        let inner = name.strip_prefix(&[quote]).and_then(|name| name.strip_suffix(&[quote]));
        String::from_utf8_lossy(inner.unwrap_or(name)).trim().to_owned()
    };
    let names: Vec<String> = text.split(|byte| *byte == csv.delimiter).map(unquoted).collect();
    if names == csv.columns {
        return Ok(());
    }
    let message = format!(
        "the header does not name the stream's fields in their order, which are: {}; nothing was stored",
        csv.columns.join(", ")
    );
    Err(Refusal::new(Kind::Malformed, message))
}
