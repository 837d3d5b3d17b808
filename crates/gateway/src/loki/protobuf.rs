//! Loki's push in Protocol Buffers, as Promtail, Alloy and Loki's own clients send it: the same records as of its JSON.
//!
//! Owns the numbers of the fields, and the bound on metadata. Does not own the encoding (`wire`), the text that labels are (`loki::labels`)
//! or the record (`loki`).
//!
//! ```text
//! PushRequest { streams = 1 }   Stream { labels = 1, entries = 2 }   Entry { timestamp = 1, line = 2, metadata = 3 }
//! ```
//!
//! Only one entry is in memory beside the body and its records. What is not UTF-8 in a line is replaced. A stream whose labels are none, and an entry with
//! too much metadata, are left out as Loki does it, and cost no other ones.

use serde_json::{Map, Value as Json};

use super::labels;
use super::write_record;
use crate::records::{Parsed, Rows};
use crate::refusal::Refusal;
use crate::wire::{Fields, Value};

/// Bytes of the metadata of one entry. Loki's own bound is as high.
const METADATA_BYTES_MAX: usize = 64 << 10;

/// The entries of a push as records, and as errors what was left out, by the number of its stream.
pub(super) fn entries(body: &[u8], mut rows: Rows) -> Result<Parsed, Refusal> {
    let mut number = 0;
    let mut fields = Fields::of("PushRequest", body);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(bytes)) => {
                number += 1;
                stream(number, bytes, &mut rows)?;
            }
            (1, _) => return Err(fields.unexpected(field)),
            _ => {}
        }
    }
    Ok(rows.done())
}

fn stream(number: u64, bytes: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    // The labels stand in front, as a rule; a sender may put them behind, so they are looked for first.
    let mut text: &[u8] = b"";
    let mut fields = Fields::of("Stream", bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(bytes)) => text = bytes,
            (1 | 2, Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_)) => {
                return Err(fields.unexpected(field));
            }
            _ => {}
        }
    }
    let labels = match labels::parse(text) {
        Ok(labels) => Json::Object(labels).to_string(),
        Err(why) => {
            rows.error(number, format!("its labels {why}"));
            return Ok(());
        }
    };
    let mut fields = Fields::of("Stream", bytes);
    while let Some((field, value)) = fields.next()? {
        if let (2, Value::Bytes(bytes)) = (field, value) {
            entry(number, bytes, &labels, rows)?;
        }
    }
    Ok(())
}

fn entry(number: u64, bytes: &[u8], labels: &str, rows: &mut Rows) -> Result<(), Refusal> {
    let (mut seconds, mut nanos, mut line): (i64, i64, &[u8]) = (0, 0, b"");
    let (mut metadata, mut metadata_bytes) = (Map::new(), 0);
    let mut fields = Fields::of("Entry", bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(bytes)) => timestamp(bytes, &mut seconds, &mut nanos)?,
            (2, Value::Bytes(bytes)) => line = bytes,
            (3, Value::Bytes(bytes)) => {
                metadata_bytes += bytes.len();
                if metadata_bytes > METADATA_BYTES_MAX {
                    rows.error(number, "an entry has more than 64 KiB of metadata");
                    return Ok(());
                }
                let (name, value) = pair(bytes)?;
                metadata.insert(text_of(name), Json::String(text_of(value)));
            }
            (1..=3, _) => return Err(fields.unexpected(field)),
            _ => {}
        }
    }
    // Senders write the time that nobody has set as one of the year 1. It is the pipeline's matter, and must not cost the entries beside it.
    let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let metadata = if metadata.is_empty() { String::new() } else { Json::Object(metadata).to_string() };
    write_record(rows, &time.to_string(), line, labels, &metadata)
}

/// Reads a timestamp into what was read before: pieces of a message are one message.
fn timestamp(bytes: &[u8], seconds: &mut i64, nanos: &mut i64) -> Result<(), Refusal> {
    let mut fields = Fields::of("Timestamp", bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Varint(value)) => *seconds = value.cast_signed(),
            (2, Value::Varint(value)) => *nanos = value.cast_signed(),
            (1 | 2, _) => return Err(fields.unexpected(field)),
            _ => {}
        }
    }
    Ok(())
}

fn pair(bytes: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let (mut name, mut value): (&[u8], &[u8]) = (b"", b"");
    let mut fields = Fields::of("LabelPair", bytes);
    while let Some((field, of)) = fields.next()? {
        match (field, of) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            (1 | 2, _) => return Err(fields.unexpected(field)),
            _ => {}
        }
    }
    Ok((name, value))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
