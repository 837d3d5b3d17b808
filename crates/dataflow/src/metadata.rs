//! What a source says of a record beside its bytes, as columns.
//!
//! Owns the names and types of these columns, and how they are filled. They are added in the decode job, and only where something reads
//! them. Does not own who reads them (the planner in `pipeline`).
//!
//! | column       | type                   | value                                                                    |
//! |--------------|------------------------|--------------------------------------------------------------------------|
//! | `_key`       | Nullable(String)       | the record's key                                                         |
//! | `_headers`   | Map(String, String)    | its headers; of several of one name all, in order                        |
//! | `_input`     | LowCardinality(String) | the name of the input; `source` in a pipeline file with `source:`        |
//! | `_topic`     | LowCardinality(String) | the topic or file                                                        |
//! | `_partition` | UInt32                 | the partition's number                                                   |
//! | `_position`  | UInt64                 | the position: of Kafka the offset                                        |
//! | `_timestamp` | Nullable(DateTime64(3, 'UTC')) | the time that the source gave it                                 |
//! | `_tombstone` | Bool                   | whether it has no body: a deletion of its key, where the pipeline takes them (`formats::tombstones`) |
//! | `_ingested`  | DateTime64(3, 'UTC')   | when it was read. A row that was sealed keeps it; a record that a crash lets be read once more gets the new time |

use std::sync::Arc;

use arrow_array::builder::{MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array};

use crate::block::{HEADERS_BYTES_MAX, HEADERS_CUT, KEY_BYTES_MAX, TIME_UNKNOWN_MS, headers};
use crate::{Column, ColumnType, Reason, RecordBlock, Reject};

/// The first and the last millisecond of a DateTime64: from 1900 to the end of 2299.
const TIME_MS_MIN: i64 = -2_208_988_800_000;
const TIME_MS_MAX: i64 = 10_413_791_999_999;

/// A column that the source fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// `_key`
    Key,
    /// `_headers`
    Headers,
    /// `_input`
    Input,
    /// `_topic`
    Topic,
    /// `_partition`
    Partition,
    /// `_position`
    Position,
    /// `_timestamp`
    Timestamp,
    /// `_tombstone`
    Tombstone,
    /// `_ingested`
    Ingested,
}

impl Metadata {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Key,
        Self::Headers,
        Self::Input,
        Self::Topic,
        Self::Partition,
        Self::Position,
        Self::Timestamp,
        Self::Tombstone,
        Self::Ingested,
    ];

    /// The column's name, which begins with `_`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "_key",
            Self::Headers => "_headers",
            Self::Input => "_input",
            Self::Topic => "_topic",
            Self::Partition => "_partition",
            Self::Position => "_position",
            Self::Timestamp => "_timestamp",
            Self::Tombstone => "_tombstone",
            Self::Ingested => "_ingested",
        }
    }

    /// The column of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The column with its type, as steps see it.
    pub fn column(self) -> Column {
        let text = || Box::new(ColumnType::String);
        let time = || ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) };
        let column_type = match self {
            Self::Key => ColumnType::Nullable(text()),
            Self::Headers => ColumnType::Map(text(), text()),
            Self::Input | Self::Topic => ColumnType::LowCardinality(text()),
            Self::Partition => ColumnType::UInt32,
            Self::Position => ColumnType::UInt64,
            Self::Timestamp => ColumnType::Nullable(Box::new(time())),
            Self::Tombstone => ColumnType::Bool,
            Self::Ingested => time(),
        };
        Column::new(self.name(), column_type)
    }

    /// Why the record at `row` of a block cannot have this column: bytes that are no text, or of which a part is not here; a time that the
    /// column does not hold.
    pub(crate) fn objects_to(self, block: &RecordBlock, row: usize) -> Option<Reject> {
        let is_text = match self {
            // Of what is longer only the beginning is here, and a part is another value.
            Self::Key if block.key(row).is_some_and(|key| key.len() > KEY_BYTES_MAX) => {
                let message =
                    format!("`_key` is read, and the record's key has more than `{KEY_BYTES_MAX}` bytes");
                return Some(Reject::of(block, row, Reason::TooLarge, self.name(), message));
            }
            Self::Headers if has_lost_headers(block, row) => {
                let message = format!(
                    "`_headers` is read, and the record's headers have more than `{HEADERS_BYTES_MAX}` bytes"
                );
                return Some(Reject::of(block, row, Reason::TooLarge, self.name(), message));
            }
            Self::Key => block.key(row).is_none_or(|key| std::str::from_utf8(key).is_ok()),
            Self::Headers => encoded(block, row).iter().all(|encoded| {
                headers(encoded).all(|(_, value)| std::str::from_utf8(value.unwrap_or_default()).is_ok())
            }),
            Self::Position if block.era != 0 => {
                let message = format!(
                    "`_position` is read, and this position has an era (`{}`), which its type has no room for",
                    block.era
                );
                return Some(Reject::of(block, row, Reason::OutOfRange, self.name(), message));
            }
            Self::Timestamp if !is_held(block.times_ms[row]) => {
                let message = format!(
                    "`_timestamp` is read, and the record's time (`{}` milliseconds since 1970) is not in the years 1900 to 2299, which a DateTime64 holds",
                    block.times_ms[row]
                );
                return Some(Reject::of(block, row, Reason::OutOfRange, self.name(), message));
            }
            Self::Input
            | Self::Topic
            | Self::Partition
            | Self::Position
            | Self::Timestamp
            | Self::Tombstone
            | Self::Ingested => true,
        };
        let name = self.name();
        let message = || format!("`{name}` is read, and is no UTF-8 text in this record");
        (!is_text).then(|| Reject::of(block, row, Reason::WrongKind, name, message()))
    }

    /// The values of these rows of a block of `input`, which was read at `read_ms` (Unix milliseconds).
    pub(crate) fn values(self, input: &str, block: &RecordBlock, rows: &[usize], read_ms: i64) -> ArrayRef {
        let times = |time_ms: &dyn Fn(usize) -> Option<i64>| -> ArrayRef {
            let times: TimestampMillisecondArray = rows.iter().map(|row| time_ms(*row)).collect();
            Arc::new(times.with_timezone("UTC"))
        };
        match self {
            Self::Key => {
                let text = |row: &usize| block.key(*row).and_then(|key| std::str::from_utf8(key).ok());
                Arc::new(rows.iter().map(text).collect::<StringArray>())
            }
            Self::Headers => maps(block, rows),
            Self::Input => Arc::new(StringArray::from_iter_values(rows.iter().map(|_| input))),
            Self::Topic => {
                let topic = &*block.partition.stream;
                Arc::new(StringArray::from_iter_values(rows.iter().map(|_| topic)))
            }
            Self::Partition => Arc::new(UInt32Array::from(vec![block.partition.index; rows.len()])),
            Self::Position => Arc::new(rows.iter().map(|row| block.positions[*row]).collect::<UInt64Array>()),
            Self::Timestamp => {
                times(&|row| Some(block.times_ms[row]).filter(|time_ms| *time_ms != TIME_UNKNOWN_MS))
            }
            Self::Tombstone => {
                let flags: Vec<bool> = rows.iter().map(|row| block.is_absent(*row)).collect();
                Arc::new(BooleanArray::from(flags))
            }
            Self::Ingested => times(&|_| Some(read_ms)),
        }
    }
}

/// Whether the column of the times holds this one: a producer that counts microseconds names the year 57,000, of which a server would make another time.
fn is_held(time_ms: i64) -> bool {
    time_ms == TIME_UNKNOWN_MS || (TIME_MS_MIN..=TIME_MS_MAX).contains(&time_ms)
}

/// Whether headers of the record were too long to be kept.
fn has_lost_headers(block: &RecordBlock, row: usize) -> bool {
    encoded(block, row).is_some_and(|encoded| headers(encoded).any(|(name, _)| name == HEADERS_CUT))
}

fn encoded(block: &RecordBlock, row: usize) -> Option<&[u8]> {
    block.headers.as_ref().map(|headers| headers.get(row))
}

fn maps(block: &RecordBlock, rows: &[usize]) -> ArrayRef {
    let names = MapFieldNames { entry: "entries".into(), key: "keys".into(), value: "values".into() };
    let value = arrow_schema::Field::new("values", arrow_schema::DataType::Utf8, false);
    let mut maps =
        MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new()).with_values_field(value);
    for row in rows {
        for (name, value) in encoded(block, *row).into_iter().flat_map(headers) {
            maps.keys().append_value(name);
            maps.values().append_value(std::str::from_utf8(value.unwrap_or_default()).unwrap_or_default());
        }
        maps.append(true).expect("a key was appended with every value");
    }
    Arc::new(maps.finish())
}
