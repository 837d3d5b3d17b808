//! From a body to records, with an error for each line that is none. Pure.
//!
//! Owns where a record begins and ends, and whether it is one at all. Does not own what its fields mean: the pipeline that reads the log decodes it,
//! and what does not fit its tables becomes a dead letter there.
//!
//! | format    | content type                               | records                                      |
//! |-----------|--------------------------------------------|----------------------------------------------|
//! | `json`    | `application/json`                         | an array of objects, or objects one after the other |
//! | `json`    | `application/x-ndjson`, others, none       | an object a line                             |
//! | `csv`     | `text/csv`, `text/tab-separated-values`, none | a line, quoted line breaks included; `; header=present` names the fields |
//! | `json`    | one of Avro                                | those of an object container file, as JSON   |
//! | `avro`    | one of Avro, none                          | those of an object container file, or the body |
//! | `protobuf` | one of Protocol Buffers, none             | the body; `; encoding=delimited`: messages behind their lengths |
//! | `lines`   | any                                        | a line, as a JSON object                     |
//! | `message` | any                                        | the body                                     |
//! | `otlp_…`  | `application/x-protobuf`, `application/json`, others, none | the body, a request; in Protocol Buffers |

mod avro;
mod csv;
mod json;
pub(crate) mod otlp;
mod protobuf;
mod word;

pub(crate) use json::each_value;
pub(crate) use word::Word;

use axum::http::{HeaderMap, header};
use dataflow::{BlockBuilder, Partition, RecordBlock};
use formats::avro::container::is_container;
use serde_json::{Value, json};

use crate::budget::Held;
use crate::options::Format;
use crate::quoting::{quote, quoted_bytes};
use crate::refusal::{Kind, Refusal};

/// Errors of lines that an answer shows; it counts all.
const ERRORS_SHOWN: usize = 100;

/// The byte order mark, in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Records of a body at the most: as many as an append may have.
pub const ROWS_MAX: usize = object_log::object::APPEND_ROWS_MAX;

/// The field that a line is in, of a stream of lines.
const LINE_FIELD: &str = "line";

/// Memory of a record beside its bytes.
pub const ROW_BYTES: usize = 24;

/// What is done with a body that has good lines and bad ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// Nothing is taken.
    #[default]
    Refuse,
    /// The good ones are taken.
    Skip,
}

/// What records that are none are numbered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// The line where it begins.
    #[default]
    Line,
    /// Its place among the records of the body.
    Record,
}

/// Lines that are no records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// All of them.
    pub count: u64,
    /// The first ones: the number, from 1, and why.
    pub shown: Vec<(u64, String)>,
    /// What the numbers count.
    pub unit: Unit,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Record => "record",
        }
    }
}

impl Errors {
    /// Counts a line that is no record. The first ones are kept with their reasons.
    pub fn add(&mut self, line: u64, why: impl Into<String>) {
        self.count += 1;
        if self.shown.len() < ERRORS_SHOWN {
            self.shown.push((line, why.into()));
        }
    }

    /// Counts more of them, of which an answer shows nothing.
    pub fn add_unshown(&mut self, count: u64) {
        self.count = self.count.saturating_add(count);
    }

    /// The lines that are kept, as an answer lists them.
    pub fn to_json(&self) -> Value {
        let unit = self.unit.word();
        self.shown.iter().map(|(number, why)| json!({ unit: number, "error": why })).collect()
    }

    /// The refusal of a body with such lines.
    pub fn refusal(&self) -> Refusal {
        let (are, them) = match (self.unit, self.count) {
            (Unit::Line, 1) => ("line is not a valid record", "it"),
            (Unit::Line, _) => ("lines are not valid records", "them"),
            (Unit::Record, 1) => ("record is not valid", "it"),
            (Unit::Record, _) => ("records are not valid", "them"),
        };
        let message = format!(
            "{} {are}, so nothing was stored; fix {them}, or send with `?on_error=skip` to leave {them} out",
            self.count
        );
        let lines = json!({ "count": self.count, "shown": self.to_json() });
        Refusal { lines: Some(Box::new(lines)), ..Refusal::new(Kind::Malformed, message) }
    }
}

/// The records of a body.
#[derive(Debug)]
pub struct Parsed {
    /// The good ones; perhaps none.
    pub records: RecordBlock,
    /// The others.
    pub errors: Errors,
    /// What holds the records.
    pub held: Held,
}

/// Records on their way into a block, each held before it is kept.
pub(crate) struct Rows {
    block: BlockBuilder,
    errors: Errors,
    held: Held,
    now_ms: i64,
    /// Bytes that are held and not used.
    room: usize,
    /// How often a record is in memory.
    times: usize,
}

impl Rows {
    /// None yet, for a body of so many bytes.
    pub(crate) fn new(now_ms: i64, mut held: Held, bytes: usize) -> Result<Self, Refusal> {
        // All of the body, as a rule; its records need more.
        let room = bytes + ROW_BYTES * (bytes / 256 + 1);
        held.take(room)?;
        Ok(Self {
            block: BlockBuilder::new(Partition::new("gateway", 0), 0),
            errors: Errors::default(),
            held,
            now_ms,
            room,
            times: 1,
        })
    }

    /// The same, for somebody who keeps a copy of each record.
    pub(crate) fn twice(self) -> Self {
        Self { times: 2, ..self }
    }

    /// One more record.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<(), Refusal> {
        self.push_with(record.len(), |out| out.extend_from_slice(record))
    }

    /// The only record, in the memory where it is.
    pub(crate) fn push_whole(&mut self, mut record: Vec<u8>) -> Result<(), Refusal> {
        debug_assert!(self.is_empty(), "only an empty block can take the memory over");
        self.check(record.len())?;
        self.keep(self.times * (record.len() + ROW_BYTES))?;
        if record.capacity() - record.len() > record.len() / 8 {
            // Held by its length for as long as it waits.
            record.shrink_to_fit();
        }
        self.block.push_with(0, self.now_ms, |out| *out = record);
        Ok(())
    }

    /// Whether there is room for a record of so many bytes.
    fn check(&self, bytes: usize) -> Result<(), Refusal> {
        if self.block.len() == ROWS_MAX || self.block.bytes() + bytes > object_log::object::APPEND_BYTES_MAX {
            let bytes_max = object_log::object::APPEND_BYTES_MAX;
            let message = format!(
                "the body has more than {ROWS_MAX} records or {bytes_max} bytes of them; send less at a time"
            );
            return Err(Refusal::new(Kind::TooLarge, message));
        }
        Ok(())
    }

    /// One more record of `bytes`, which `write` appends.
    pub(crate) fn push_with(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Refusal> {
        let position = self.block.len() as u64;
        self.check(bytes)?;
        // Behind the check: what is not taken must not take room from what is.
        self.keep(self.times * (bytes + ROW_BYTES))?;
        self.block.push_with(position, self.now_ms, write);
        Ok(())
    }

    /// Holds `bytes` for what is kept until the records are done.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.room {
            let more = bytes.max(64 << 10);
            self.held.take(more)?;
            self.room += more;
        }
        self.room -= bytes;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    pub(crate) fn error(&mut self, line: u64, why: impl Into<String>) {
        self.errors.add(line, why);
    }

    pub(crate) fn done(mut self) -> Parsed {
        Parsed { records: self.block.take(), errors: self.errors, held: self.held }
    }
}

/// What a body is, by its `Content-Type`: the type in lower case, and its parameters.
pub fn media(headers: &HeaderMap) -> (String, String) {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
    (kind.trim().to_ascii_lowercase(), parameters.trim().to_ascii_lowercase())
}

/// Splits a body into records. What is compressed in it has at most `bytes_max` bytes. `held` is of the same budgets as what holds the body, and holds nothing
/// yet.
///
/// # Errors
/// [`Kind::Malformed`] when the body as a whole cannot be read, [`Kind::Media`] when it is of another format, [`Kind::Busy`] and [`Kind::TooLarge`].
pub fn parse(
    format: &Format,
    (kind, parameters): &(String, String),
    (body, bytes_max): (&[u8], usize),
    now_ms: i64,
    held: Held,
) -> Result<Parsed, Refusal> {
    let other = |takes: &str| {
        let message = format!("this stream takes {takes}, and the body's `Content-Type` says something else");
        Refusal::new(Kind::Media, message)
    };
    let is_bytes = matches!(kind.as_str(), "" | "application/octet-stream");
    let is_csv = matches!(kind.as_str(), "text/csv" | "text/tab-separated-values");
    let mut rows = Rows::new(now_ms, held, body.len())?;
    // What some editors and exports put before text is no part of its first record.
    let text = body.strip_prefix(MARK).unwrap_or(body);
    match format {
        Format::Json if is_csv => return Err(other("JSON")),
        Format::Json if protobuf::is_media(kind) => {
            return Err(other("JSON, and messages need a stream of `format: protobuf`"));
        }
        Format::Json if kind == "application/json" => json::values(text, &mut rows)?,
        // Such a file is never JSON, so one whose type nobody has said is not mistaken.
        Format::Json if avro::is_media(kind) || is_container(body) => {
            rows.errors.unit = Unit::Record;
            avro::file(None, (body, bytes_max), &mut rows)?;
        }
        Format::Json => json::lines(text, &mut rows)?,
        Format::Csv(csv) if is_csv || matches!(kind.as_str(), "" | "text/plain") => {
            let has_head = parameters.split(';').any(|p| p.trim() == "header=present");
            csv::lines(csv, has_head, text, &mut rows)?;
        }
        Format::Csv(_) => return Err(other("CSV (`text/csv`)")),
        Format::Avro(schema) if is_bytes || avro::is_media(kind) => {
            rows.errors.unit = Unit::Record;
            match is_container(body) {
                true => avro::file(Some(schema), (body, bytes_max), &mut rows)?,
                false => avro::one(schema, body, &mut rows)?,
            }
        }
        Format::Avro(_) => return Err(other("Avro (`application/avro`)")),
        Format::Protobuf if is_bytes || protobuf::is_media(kind) => {
            rows.errors.unit = Unit::Record;
            protobuf::messages(parameters, body, &mut rows)?;
        }
        Format::Protobuf => return Err(other("Protocol Buffers (`application/x-protobuf`)")),
        Format::Lines => lines(text, (LINE_FIELD, b""), &mut rows)?,
        Format::Message => rows.push(body)?,
        Format::Otlp(signal) => drop(otlp::record(*signal, otlp::form_of(kind, body), body, &mut rows)?),
    }
    Ok(rows.done())
}

/// Lines of any text, each as an object with one field, whose name needs no escapes, and with those in `more`, each behind a comma. Blank ones are nothing, and
/// what is not UTF-8 is replaced.
///
/// # Errors
/// As [`parse`].
pub(crate) fn texts(
    body: &[u8],
    field: &str,
    more: &[u8],
    now_ms: i64,
    held: Held,
) -> Result<Parsed, Refusal> {
    let mut rows = Rows::new(now_ms, held, body.len())?;
    lines(body, (field, more), &mut rows)?;
    Ok(rows.done())
}

/// See [`texts`].
fn lines(body: &[u8], (field, more): (&str, &[u8]), rows: &mut Rows) -> Result<(), Refusal> {
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            rows.push_with(field.len() + quoted_bytes(line) + more.len() + 5, |out| {
                out.extend_from_slice(b"{\"");
                out.extend_from_slice(field.as_bytes());
                out.extend_from_slice(b"\":");
                quote(out, line);
                out.extend_from_slice(more);
                out.push(b'}');
            })?;
        }
    }
    Ok(())
}

/// Whether a line is a JSON object; why not otherwise.
///
/// # Errors
/// The reason, for the words "line 7 …".
pub(crate) fn check_object(line: &[u8]) -> Result<(), String> {
    json::check(line, false)
}

#[cfg(test)]
mod tests;
