//! How a frame is found again in the table.
//!
//! Owns what travels with a frame for that, the statement that counts, and what a count means. Does not own when a frame is probed, or what
//! follows from the answer (`protocol::doubt`), nor what else is asked of the table at that moment (`checks::sight`). What travels with a
//! frame is made by us and kept in the sealed segment: how a frame can be found depends on the table as it was when the frame was encoded,
//! not on the table as it is when somebody looks.
//!
//! | first line | the rest                                                       | the frame is found by          |
//! |------------|----------------------------------------------------------------|--------------------------------|
//! | `frame`    | –                                                              | the provenance column          |
//! | `keys`     | how many, the columns, the keys as ClickHouse writes tuples    | a sample of its unique keys    |
//! | (empty)    |                                                                | nothing                        |
//!
//! | table                          | count            | by the provenance column | by unique keys |
//! |--------------------------------|------------------|--------------------------|----------------|
//! | any                            | all              | all                      | all            |
//! | keeps what it is given         | none             | none                     | none           |
//! |                                | some, or more    | part                     | part           |
//! | rows expire                    | none             | cannot tell              | cannot tell    |
//! |                                | some             | all: it came whole       | cannot tell    |
//! | merges join or drop rows       | none             | cannot tell              | cannot tell    |
//! |                                | some             | all: it came whole       | cannot tell    |
//!
//! A frame is one block of one table partition, which becomes one part or none. So one row of it proves that all came,
//! wherever something is known that takes rows away later. Where merges join rows by key an earlier row of the same key is
//! no proof of a later one, so that unique keys tell nothing there, not even when all are found.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;
use dataflow::{ColumnType, FrameId, Presence, Remedy, Schema, TYPE_DEFAULT, TableError, TableFault};

use crate::checks::{PROVENANCE, Plan};
use crate::native::{RowRef, Rows};
use crate::types::{self, identifier};

/// Keys in a sample: a frame is written whole or not at all, so that a few rows over its whole length tell; 64 of them also
/// show a part that was dropped since.
const SAMPLE_MAX: usize = 64;

/// The first line of what travels with a frame whose rows name it.
const BY_FRAME: &str = "frame";

/// The first line of what travels with a frame that is found by keys.
const BY_KEYS: &str = "keys";

/// A statement with stored text in it reads tables and does nothing else, whatever the text says: no change, no file, no other server. (With 2 the
/// functions that reach those are allowed.)
pub(super) const READ_ONLY: [(&str, &str); 1] = [("readonly", "1")];

/// Functions that make the values of keys; see [`literal`].
const VALUE_FUNCTIONS: [&str; 9] = [
    "tuple",
    "unhex",
    "toUUID",
    "toDate32",
    "toInt64",
    "fromUnixTimestamp",
    "fromUnixTimestamp64Milli",
    "fromUnixTimestamp64Micro",
    "fromUnixTimestamp64Nano",
];

/// What travels with a frame whose rows name it.
pub(super) fn by_frame() -> Bytes {
    Bytes::from_static(BY_FRAME.as_bytes())
}

/// What a count is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Frame,
    Keys,
}

/// A statement that counts, and the count that means "all".
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) sql: String,
    pub(super) expected: u64,
    kind: Kind,
    /// The columns that its rows are found by, as statements name them.
    columns: Vec<String>,
    /// One of the keys, value by value, in the order of the columns.
    key: Vec<String>,
}

impl Question {
    /// The question for a frame, from what travelled with it; `None` if nothing did.
    pub(super) fn read(
        table: &str,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<Option<Self>, TableError> {
        let damaged = || TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: "a frame's sample of keys cannot be read".into(),
        };
        if probe.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(probe).map_err(|_| damaged())?;
        if text == BY_FRAME {
            let column = identifier(PROVENANCE);
            let id = uuid_text(&frame.0.to_be_bytes());
            let sql = format!("SELECT count() FROM {table} WHERE {column} = toUUID('{id}')");
            let (columns, key) = (vec![column], Vec::new());
            return Ok(Some(Self { sql, expected: rows, kind: Kind::Frame, columns, key }));
        }
        let mut lines = text.splitn(4, '\n');
        let (Some(BY_KEYS), Some(count), Some(columns), Some(keys)) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(damaged());
        };
        // It becomes part of a statement, and the store may have been written to by others.
        let Some(names) = names_in(columns).filter(|_| is_values(keys)) else { return Err(damaged()) };
        let expected = count.parse().map_err(|_| damaged())?;
        let sql = format!("SELECT uniqExact({columns}) FROM {table} WHERE tuple({columns}) IN ({keys})");
        let first =
            keys.split("), tuple(").next().and_then(|key| key.strip_prefix("tuple(")).unwrap_or_default();
        let key = first.split(", ").map(str::to_owned).collect();
        Ok(Some(Self { sql, expected, kind: Kind::Keys, columns: names, key }))
    }

    /// A statement that says whether the table has rows that may have lost what this frame is found by: a column that is dropped and added again gives no name
    /// to the rows that were there, and to their keys the value that its type begins with.
    pub(super) fn unnamed(&self, table: &str) -> String {
        let none = nil_text();
        let is_lost = |column: &String| match self.kind {
            Kind::Frame => format!("{column} = toUUID('{none}')"),
            Kind::Keys => format!("isNull({column}) OR {column} = defaultValueOfArgumentType({column})"),
        };
        let is_lost: Vec<String> = self.columns.iter().map(is_lost).collect();
        let is_lost = is_lost.join(" OR ");
        format!("SELECT toUInt8(count()) FROM (SELECT 1 FROM {table} WHERE {is_lost} LIMIT 1)")
    }

    /// True if such a column has a DEFAULT now, by which rows that lost theirs do not show in [`Self::unnamed`].
    pub(super) fn is_filled(&self, plan: &Plan) -> bool {
        let none = nil_text();
        let sent = plan.sent.columns().iter().filter_map(|c| Some((&c.name, c.default.as_ref()?)));
        let others = plan.others.iter().map(|c| (&c.name, &c.default_expression));
        sent.chain(others)
            .filter(|(_, default)| {
                !default.is_empty() && *default != TYPE_DEFAULT && !default.contains(&none)
            })
            .any(|(name, _)| self.columns.contains(&identifier(name)))
    }

    /// True if a column of the key is of another kind of type now: its values were kept, and in their former form they are found in vain, or refused.
    pub(super) fn is_retyped(&self, plan: &Plan) -> bool {
        let is_as_written = |(column, value): (&String, &String)| {
            let is_it = |name: &str| identifier(name) == *column;
            if let Some(sent) = plan.sent.columns().iter().find(|sent| is_it(&sent.name)) {
                return is_written_so(&sent.column_type, value);
            }
            let other = plan.others.iter().find(|other| is_it(&other.name));
            other.is_none_or(|other| {
                types::parse(&other.name, &other.type_name).is_ok_and(|of| is_written_so(&of, value))
            })
        };
        !self.columns.iter().zip(&self.key).all(is_as_written)
    }

    /// False if a count says nothing, whatever it is.
    pub(super) fn is_admissible(&self, has_provenance: bool, merges: bool) -> bool {
        match self.kind {
            Kind::Frame => has_provenance,
            Kind::Keys => !merges,
        }
    }

    /// What a count means. `loses_rows` is true if merges or a TTL take rows away.
    pub(super) fn judge(&self, found: u64, loses_rows: bool) -> Presence {
        match (found, self.kind) {
            (n, _) if n == self.expected => Presence::All,
            (0, _) if !loses_rows => Presence::None,
            (n, Kind::Frame) if loses_rows && 0 < n && n < self.expected => Presence::All,
            (n, _) if !loses_rows || n > self.expected => {
                Presence::Part { found: n, expected: self.expected }
            }
            _ => Presence::Inadmissible,
        }
    }
}

/// Whether bytes are what travels with a frame so that it can be found again.
///
/// # Errors
/// When they are not, in words.
pub fn check_sample(sample: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(sample).map_err(|_| "not text")?;
    if text.is_empty() || text == BY_FRAME {
        return Ok(());
    }
    let mut lines = text.splitn(4, '\n');
    let (Some(BY_KEYS), Some(count), Some(_columns), Some(keys)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return Err("neither a frame's mark nor keys".into());
    };
    let keys = keys.strip_prefix("tuple(").and_then(|keys| keys.strip_suffix(')')).ok_or("no keys")?;
    match keys.split("), tuple(").count() {
        found if count.parse() == Ok(found) => Ok(()),
        found => Err(format!("{found} keys where `{count}` are announced")),
    }
}

/// The columns in what [`sample`] writes for them, names in backticks and commas; `None` if the text is anything else.
fn names_in(text: &str) -> Option<Vec<String>> {
    let (mut rest, mut names) = (text, Vec::new());
    loop {
        let inside = rest.strip_prefix('`')?;
        let mut is_escaped = false;
        let end = inside.char_indices().find(|(_, c)| {
            let ends = *c == '`' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        let (end, _) = end.filter(|(end, _)| *end > 0)?;
        names.push(format!("`{}`", &inside[..end]));
        rest = &inside[end + 1..];
        match rest.strip_prefix(", ") {
            Some(more) => rest = more,
            None => return rest.is_empty().then_some(names),
        }
    }
}

/// Whether a text is what [`literal`] writes for values: numbers, digits in quotes, and the few functions around them.
fn is_values(text: &str) -> bool {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => {
                let inside =
                    rest[1..].find(|c: char| !c.is_ascii_hexdigit() && c != '-').unwrap_or(rest.len() - 1);
                // A second quote behind it would be a quote within.
                let behind = &rest[1 + inside..];
                if !behind.starts_with('\'') || behind.starts_with("''") {
                    return false;
                }
                inside + 2
            }
            'a'..='z' => {
                let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                if !VALUE_FUNCTIONS.contains(&&rest[..word]) || !rest[word..].starts_with('(') {
                    return false;
                }
                word
            }
            '0'..='9' | '-' | '+' | ' ' | ',' | '(' | ')' => 1,
            _ => return false,
        };
        // Two of them would begin a comment.
        if rest.starts_with("--") {
            return false;
        }
        rest = &rest[length..];
    }
    !text.is_empty()
}

/// Whether values of a type can stand in a sample.
pub(crate) fn can_probe(column_type: &ColumnType) -> bool {
    match column_type.bare() {
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::String
        | ColumnType::FixedString(_)
        | ColumnType::Uuid
        | ColumnType::Date
        | ColumnType::Date32
        | ColumnType::DateTime { .. }
        | ColumnType::DateTime64 { .. } => true,
        ColumnType::Bool
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. }
        | ColumnType::Enum8(_)
        | ColumnType::Enum16(_)
        | ColumnType::Ipv4
        | ColumnType::Ipv6
        | ColumnType::LowCardinality(_)
        | ColumnType::Nullable(_)
        | ColumnType::Array(_)
        | ColumnType::Map(..)
        | ColumnType::Json { .. }
        | ColumnType::State(_) => false,
    }
}

/// Whether [`literal`] writes values of a type in the form that `value` has.
fn is_written_so(column_type: &ColumnType, value: &str) -> bool {
    let form = match column_type.bare() {
        ColumnType::String | ColumnType::FixedString(_) => "unhex(",
        ColumnType::Uuid => "toUUID(",
        ColumnType::Date | ColumnType::Date32 => "toDate32(",
        ColumnType::DateTime { .. } => "fromUnixTimestamp(",
        ColumnType::DateTime64 { .. } => "fromUnixTimestamp64",
        number => return can_probe(number) && value.starts_with(|c: char| c == '-' || c.is_ascii_digit()),
    };
    value.starts_with(form)
}

/// Keys of rows spread evenly over the frame; empty if there is no unique key or every one sampled holds a null.
pub(super) fn sample(
    schema: &Schema,
    key: &[usize],
    batches: &[RecordBatch],
    rows: Rows<'_>,
) -> Result<Bytes, String> {
    if key.is_empty() {
        return Ok(Bytes::new());
    }
    let count = rows.count(batches.iter().map(RecordBatch::num_rows));
    let mut keys = Vec::new();
    let wanted = count.min(SAMPLE_MAX);
    for row in rows_at(batches, rows, (0..wanted).map(|i| i * count / wanted)) {
        let batch = &batches[row.batch as usize];
        let values = key
            .iter()
            .map(|c| literal(schema.columns()[*c].column_type.bare(), &**batch.column(*c), row.row as usize))
            .collect::<Result<Option<Vec<_>>, String>>()?;
        if let Some(values) = values {
            keys.push(format!("tuple({})", values.join(", ")));
        }
    }
    keys.sort();
    keys.dedup();
    if keys.is_empty() {
        return Ok(Bytes::new());
    }
    let columns: Vec<String> = key.iter().map(|c| identifier(&schema.columns()[*c].name)).collect();
    Ok(format!("{BY_KEYS}\n{}\n{}\n{}", keys.len(), columns.join(", "), keys.join(", ")).into())
}

/// The rows at these places among `rows`; the places ascend.
fn rows_at(batches: &[RecordBatch], rows: Rows<'_>, places: impl Iterator<Item = usize>) -> Vec<RowRef> {
    let mut places = places.peekable();
    match (rows, rows.in_order(batches.iter().map(RecordBatch::num_rows))) {
        (_, Some(stretches)) => {
            let (mut found, mut before) = (Vec::new(), 0);
            stretches.for_each(|(batch, stretch)| {
                while let Some(place) = places.next_if(|place| *place < before + stretch.len()) {
                    let row = stretch.start + place - before;
                    found.push(RowRef { batch: batch as u32, row: row as u32 });
                }
                before += stretch.len();
            });
            found
        }
        (Rows::Picked(rows), None) => places.map(|place| rows[place]).collect(),
        (Rows::All | Rows::Stretches(_), None) => Vec::new(),
    }
}

/// A value as an expression that has its type; `None` for a null.
fn literal(column_type: &ColumnType, array: &dyn Array, row: usize) -> Result<Option<String>, String> {
    if array.is_null(row) {
        return Ok(None);
    }
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        format!("unhex('{digits}')")
    };
    Ok(Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Date32 => {
            format!("toDate32('1970-01-01') + {}", array.as_primitive::<Date32Type>().value(row))
        }
        DataType::Timestamp(unit, _) => {
            let (ticks, function) = match unit {
                TimeUnit::Second => {
                    let seconds = array.as_primitive::<TimestampSecondType>().value(row);
                    match column_type {
                        // A DateTime begins in 1970 and ends in 2106.
                        ColumnType::DateTime64 { .. } => {
                            (seconds.saturating_mul(1_000), "fromUnixTimestamp64Milli")
                        }
                        _ => (seconds, "fromUnixTimestamp"),
                    }
                }
                TimeUnit::Millisecond => {
                    (array.as_primitive::<TimestampMillisecondType>().value(row), "fromUnixTimestamp64Milli")
                }
                TimeUnit::Microsecond => {
                    (array.as_primitive::<TimestampMicrosecondType>().value(row), "fromUnixTimestamp64Micro")
                }
                TimeUnit::Nanosecond => {
                    (array.as_primitive::<TimestampNanosecondType>().value(row), "fromUnixTimestamp64Nano")
                }
            };
            format!("{function}(toInt64({ticks}))")
        }
        DataType::Utf8 => hex(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value(row);
            match column_type {
                ColumnType::Uuid => format!("toUUID('{}')", uuid_text(bytes)),
                _ => hex(bytes),
            }
        }
        other => return Err(format!("a key of `{other}` cannot be sampled")),
    }))
}

/// The UUID that stands for none.
fn nil_text() -> String {
    uuid_text(&[0; 16])
}

/// A UUID with its hyphens.
pub(crate) fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests;
