//! Rejected records, and the table that they are written to.
//!
//! Owns the facts kept about a reject and the columns of a dead-letter table. Does not own the delivery: rejects are
//! sealed and inserted like every other row.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array};

use crate::block::{
    ERA_HEADER, HEAD_HEADER, ITEM_HEADER, KEY_BYTES_MAX, SCHEMA_HEADER, STREAM_HEADER, TABLE_HEADER,
    TIME_UNKNOWN_MS, TOMBSTONE_HEADER, headers, push_header,
};
use crate::position::{self, Position};
use crate::{Column, ColumnType, Partition, RecordBlock, Schema, Spans};

/// Bytes of a record that a reject keeps. What is longer is kept in part, and the message says how long it is: a longer value
/// would need several times this in memory, here and in the server, for a record that nobody would read in a table's cell.
pub const RAW_BYTES_MAX: usize = 64 << 20;

/// The rule that a record broke: a closed set, so that it can label a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The bytes are not of the format (broken JSON, truncated, bad UTF-8).
    Malformed,
    /// The record has no body (a tombstone).
    NoBody,
    /// The record is longer than the pipeline takes.
    TooLarge,
    /// A field is missing or null, and its column has neither NULL nor a DEFAULT.
    Missing,
    /// A value is of another kind than its column (text for a number, an object for a string).
    WrongKind,
    /// A value is of the right kind but does not fit (range, length, precision, unknown enum name).
    OutOfRange,
    /// The schema that the record was written with is not available, or cannot fill the table's columns.
    Schema,
    /// The record's time is older than what is kept, and the policy says `dead_letter`.
    Late,
    /// A step's expression has no value for the record (a division by zero, a text that is no number).
    Expression,
    /// The server refused the row.
    Refused,
}

impl Reason {
    /// The word in tables, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoBody => "no_body",
            Self::TooLarge => "too_large",
            Self::Missing => "missing",
            Self::WrongKind => "wrong_kind",
            Self::OutOfRange => "out_of_range",
            Self::Schema => "schema",
            Self::Late => "late",
            Self::Expression => "expression",
            Self::Refused => "refused",
        }
    }
}

/// A record, or one row of it, that cannot go on: where it was, why, and all that a dead letter needs to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Where the record comes from.
    pub partition: Partition,
    /// Its position there. A dead letter's row has the low half in its column, and an era that is not 0 in a header.
    pub position: Position,
    /// Its time from the source in Unix milliseconds, or [`TIME_UNKNOWN_MS`].
    pub time_ms: i64,
    /// Of a row that a step made of an item of the record's array, the item's number; of a row of a record that holds several, and that is alone in `raw`, the row's.
    /// `None` if the record is at fault. Its dead letter has it in a header ([`ITEM_HEADER`]).
    pub item: Option<u32>,
    /// The rule that it broke.
    pub reason: Reason,
    /// The column concerned, or empty.
    pub column: String,
    /// The whole sentence: field, value (shortened) and rule.
    pub message: String,
    /// The record's key, if it has one.
    pub key: Option<Vec<u8>>,
    /// The record's headers as in [`crate::block::push_header`].
    pub headers: Vec<u8>,
    /// The record's body, whole up to [`RAW_BYTES_MAX`]; empty if it has none.
    pub raw: Vec<u8>,
}

impl Reject {
    /// The reject of record `row` of `block`.
    pub fn of(block: &RecordBlock, row: usize, reason: Reason, column: &str, message: String) -> Self {
        let key = block.key(row);
        let (held, whole) = (block.payloads.get(row), block.whole_bytes(row));
        let raw = &held[..held.len().min(RAW_BYTES_MAX)];
        let message = if (raw.len() as u64) < whole {
            format!("{message}; `raw` holds the first `{}` of its `{whole}` bytes", raw.len())
        } else {
            message
        };
        let (key, message) = match key {
            Some(key) if key.len() > KEY_BYTES_MAX => (
                Some(&key[..KEY_BYTES_MAX]),
                format!("{message}; `key` holds its first `{KEY_BYTES_MAX}` bytes"),
            ),
            key => (key, message),
        };
        let mut headers = block.headers.as_ref().map(|h| without_ours(h.get(row))).unwrap_or_default();
        if block.era != 0 {
            push_header(&mut headers, ERA_HEADER, Some(block.era.to_string().as_bytes()));
        }
        if block.is_absent(row) && reason != Reason::NoBody {
            push_header(&mut headers, TOMBSTONE_HEADER, Some(b"1"));
        }
        if let Some(head) = &block.head {
            // The record cannot be read again without it.
            push_header(&mut headers, HEAD_HEADER, Some(head));
        }
        if let Some(schema) = &block.schema {
            push_header(&mut headers, SCHEMA_HEADER, Some(schema.as_bytes()));
        }
        let whole = Self {
            partition: block.partition.clone(),
            position: block.position(row),
            time_ms: block.times_ms[row],
            item: None,
            reason,
            column: column.to_owned(),
            message,
            key: key.map(<[u8]>::to_vec),
            headers,
            raw: raw.to_vec(),
        };
        match block.item {
            Some(item) => whole.of_item(item),
            None => whole,
        }
    }

    /// The same with the record's time, bytes, key and headers from its block: steps see columns alone. Headers that it has already stand behind those.
    pub fn completed(self, block: &RecordBlock) -> Self {
        let Some(row) = block.row_of(self.position) else { return self };
        let item = self.item;
        let mut done = Self { column: self.column, ..Self::of(block, row, self.reason, "", self.message) };
        done.headers.extend(self.headers);
        match item {
            Some(item) if done.item.is_none() => done.of_item(item),
            Some(_) | None => done,
        }
    }

    /// The same as the dead letter of a row for this table.
    #[must_use]
    pub fn of_table(mut self, table: &str) -> Self {
        push_header(&mut self.headers, TABLE_HEADER, Some(table.as_bytes()));
        self
    }

    /// The same as the dead letter of a record of the `nth` stream of its name ([`STREAM_HEADER`]), from 1.
    #[must_use]
    pub fn of_stream(mut self, nth: u32) -> Self {
        if nth > 1 {
            push_header(&mut self.headers, STREAM_HEADER, Some(nth.to_string().as_bytes()));
        }
        self
    }

    /// The same as the dead letter of the row of one item alone.
    #[must_use]
    pub fn of_item(mut self, item: u32) -> Self {
        push_header(&mut self.headers, ITEM_HEADER, Some(item.to_string().as_bytes()));
        self.message += &format!("; this is the row of item `{item}` of its record alone");
        Self { item: Some(item), ..self }
    }
}

/// Bytes of a record's key and headers that the dead letters of each of its rows repeat.
const REPEATED_BYTES_MAX: usize = 4 << 10;

/// What is wrong with one row of a record that holds several.
#[derive(Clone, Debug)]
pub struct RowReject {
    /// Its number among the rows of its record, from 0; `None` if a step has made several of it, for then not all of the row is at fault.
    pub number: Option<u32>,
    /// The rule that it broke.
    pub reason: Reason,
    /// The column concerned, or empty.
    pub column: String,
    /// The whole sentence.
    pub message: String,
    /// The row as a record of its own.
    pub raw: Vec<u8>,
}

/// The rejects of rows of the record `row` of `block`, each with the row alone as its bytes. Where its key and headers are long, only the first has
/// them. In a block that holds one row read again, that is the row.
pub fn each_row(block: &RecordBlock, row: usize, of_rows: Vec<RowReject>) -> Vec<Reject> {
    let mut whole = block.one(block.position(row)).map(|record| {
        let bare =
            RecordBlock { item: None, payloads: one_empty(), absent: Vec::new(), cut: Vec::new(), ..record };
        Reject::of(&bare, 0, Reason::Malformed, "", String::new())
    });
    let mut rejects = Vec::with_capacity(of_rows.len());
    for RowReject { number, reason, column, message, raw } in of_rows {
        let Some(whole) = &mut whole else { break };
        let reject = Reject { reason, column, message, raw, ..whole.clone() };
        rejects.push(match number {
            Some(number) => reject.of_item(block.item.unwrap_or(number)),
            None => reject,
        });
        if whole.key.as_ref().map_or(0, Vec::len) + whole.headers.len() > REPEATED_BYTES_MAX {
            (whole.key, whole.headers) = (None, Vec::new());
            if block.era != 0 {
                push_header(&mut whole.headers, ERA_HEADER, Some(block.era.to_string().as_bytes()));
            }
        }
    }
    rejects
}

/// Rows of one record whose dead letters repeat its bytes: a copy for each of thousands would be as many times the record.
const COPIES_MAX: usize = 16;

/// Bytes of a record, with its key and headers, from which on only one of these has them.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// The rejects of rows that a step made of the items of records' arrays, and of whole records: as [`Reject::completed`], but of the rows of one record
/// only the first few have its bytes, key and headers. The others name their item, and say where the record is.
pub fn of_items(rejects: Vec<Reject>, block: &RecordBlock) -> Vec<Reject> {
    let mut copies = std::collections::BTreeMap::<Position, (usize, usize)>::new();
    let mut done: Vec<Reject> = Vec::with_capacity(rejects.len());
    for mut reject in rejects {
        let Some(item) = reject.item else {
            done.push(reject.completed(block));
            continue;
        };
        let (count, bytes) = copies.entry(reject.position).or_default();
        if *count == 0 || (*count < COPIES_MAX && *count * *bytes < COPIED_BYTES_MAX) {
            reject = reject.completed(block);
            *bytes = reject.raw.len() + reject.headers.len() + reject.key.as_ref().map_or(0, Vec::len);
        } else {
            let (whole, message) = (block.row_of(reject.position), std::mem::take(&mut reject.message));
            reject.time_ms = whole.map_or(reject.time_ms, |row| block.times_ms[row]);
            reject.message = message + "; `raw` is with another row of its record";
            if block.era != 0 {
                push_header(&mut reject.headers, ERA_HEADER, Some(block.era.to_string().as_bytes()));
            }
            reject = reject.of_item(item);
        }
        *count += 1;
        done.push(reject);
    }
    done
}

/// A record's headers without those that only dead letters have: so a record that is sent again with the headers of its dead letter counts as whole,
/// as for every table, and as where it stands now.
fn without_ours(encoded: &[u8]) -> Vec<u8> {
    let is_ours =
        |name: &str| [ERA_HEADER, ITEM_HEADER, STREAM_HEADER, TABLE_HEADER, TOMBSTONE_HEADER].contains(&name);
    if headers(encoded).all(|(name, _)| !is_ours(name)) {
        return encoded.to_vec();
    }
    let mut kept = Vec::with_capacity(encoded.len());
    let others = headers(encoded).filter(|(name, _)| !is_ours(name));
    others.for_each(|(name, value)| push_header(&mut kept, name, value));
    kept
}

/// One empty body.
fn one_empty() -> Spans {
    let mut spans = Spans::default();
    spans.push(&[]);
    spans
}

/// The rejects of rows of records that became several rows: as [`Reject::completed`], but only the first of each record has its bytes. A
/// copy for each row would be as many times the record as it has rows.
pub fn of_rows(rejects: Vec<Reject>, block: &RecordBlock) -> Vec<Reject> {
    let mut done: Vec<Reject> = Vec::with_capacity(rejects.len());
    let mut seen = std::collections::BTreeSet::new();
    for mut reject in rejects {
        if seen.insert(reject.position) {
            reject = reject.completed(block);
            reject.message += "; `raw` is the whole record, of which this is one row";
        } else {
            reject.message += "; `raw` is with another row of its record";
        }
        done.push(reject);
    }
    done
}

/// The columns of a dead-letter table.
pub fn schema() -> Schema {
    let text = || ColumnType::String;
    let word = || ColumnType::LowCardinality(Box::new(ColumnType::String));
    let time = || ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) };
    Schema::new(vec![
        Column::new("time", time()),
        Column::new("pipeline", word()),
        Column::new("source", word()),
        Column::new("partition", ColumnType::UInt32),
        Column::new("position", ColumnType::UInt64),
        Column::new("record_time", ColumnType::Nullable(Box::new(time()))),
        Column::new("key", ColumnType::Nullable(Box::new(text()))),
        Column::new("headers", ColumnType::Map(Box::new(text()), Box::new(text()))),
        Column::new("reason", word()),
        Column::new("column", word()),
        Column::new("message", text()),
        Column::new("raw", text()),
    ])
}

/// The rejects as rows of [`schema`]; `now_ms` is the time of the seal that holds them.
pub fn to_rows(pipeline: &str, now_ms: i64, rejects: &[Reject]) -> RecordBatch {
    let text = |f: &dyn for<'a> Fn(&'a Reject) -> &'a str| -> ArrayRef {
        let mut b = StringBuilder::new();
        rejects.iter().for_each(|r| b.append_value(f(r)));
        Arc::new(b.finish())
    };
    let pipelines = StringArray::from_iter_values(std::iter::repeat_n(pipeline, rejects.len()));
    let times = |f: &dyn Fn(&Reject) -> Option<i64>| -> ArrayRef {
        Arc::new(rejects.iter().map(f).collect::<TimestampMillisecondArray>().with_timezone("UTC"))
    };
    let mut keys = BinaryBuilder::new();
    let mut raw = BinaryBuilder::new();
    let mut maps = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    for reject in rejects {
        keys.append_option(reject.key.as_deref());
        raw.append_value(&reject.raw);
        for (name, value) in headers(&reject.headers) {
            maps.keys().append_value(name);
            maps.values().append_value(value.unwrap_or_default());
        }
        maps.append(true).expect("a key was appended with every value");
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", times(&|_| Some(now_ms))),
        ("pipeline", Arc::new(pipelines)),
        ("source", text(&|r| &r.partition.stream)),
        ("partition", Arc::new(UInt32Array::from_iter_values(rejects.iter().map(|r| r.partition.index)))),
        (
            "position",
            Arc::new(UInt64Array::from_iter_values(rejects.iter().map(|r| position::low(r.position)))),
        ),
        ("record_time", times(&|r| (r.time_ms != TIME_UNKNOWN_MS).then_some(r.time_ms))),
        ("key", Arc::new(keys.finish())),
        ("headers", Arc::new(maps.finish())),
        ("reason", text(&|r| r.reason.as_str())),
        ("column", text(&|r| &r.column)),
        ("message", text(&|r| &r.message)),
        ("raw", Arc::new(raw.finish())),
    ];
    RecordBatch::try_from_iter(columns).expect("every column has one entry a reject")
}

#[cfg(test)]
mod tests;
