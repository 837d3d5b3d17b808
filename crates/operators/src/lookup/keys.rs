//! The keys of a batch, as texts: what the other side of a lookup is asked for when it is not in memory as a whole.
//!
//! Owns which types of keys can be asked for, and the text of a value. Does not own the question, which is the server's language, nor equality: whoever asks compares the rows
//! that come with [`LookupKeyer`], so a server may give rows of more keys than it was asked for, but never fewer.
//!
//! | key column     | text                                    |
//! |----------------|-----------------------------------------|
//! | whole numbers  | digits, with a sign below 0             |
//! | String         | its bytes                               |
//! | UUID           | with hyphens, lowercase                 |
//! | Date, Date32   | `2026-11-25`                            |
//! | Bool           | `true`, `false`                         |

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use dataflow::{ColumnType, Schema};

use super::LookupKeyer;
use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::KeyError;

/// What the values of a key column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Whole numbers.
    Number,
    /// Bytes.
    Text,
    /// UUIDs.
    Uuid,
    /// Days.
    Date,
    /// True and false.
    Bool,
}

impl Values {
    /// Of a column of this type; `None` if such keys cannot be asked for: their texts do not tell equal values from others on every server.
    pub fn of(column_type: &ColumnType) -> Option<Self> {
        use ColumnType as T;
        Some(match column_type.bare() {
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
                Self::Number
            }
            T::String => Self::Text,
            T::Uuid => Self::Uuid,
            T::Date | T::Date32 => Self::Date,
            T::Bool => Self::Bool,
            T::FixedString(_)
            | T::Float32
            | T::Float64
            | T::DateTime { .. }
            | T::DateTime64 { .. }
            | T::Decimal { .. }
            | T::Enum8(_)
            | T::Enum16(_)
            | T::Ipv4
            | T::Ipv6
            | T::LowCardinality(_)
            | T::Nullable(_)
            | T::Array(_)
            | T::Map(..)
            | T::Json { .. }
            | T::State(_) => return None,
        })
    }
}

/// A key that the other side is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its hash.
    pub hash: u128,
    /// The text of each of its columns' values; none is NULL.
    pub texts: Box<[Vec<u8>]>,
}

/// A hash is one already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    }
}

/// Finds the keys of batches.
#[derive(Clone, Debug)]
pub struct LookupKeys {
    keyer: LookupKeyer,
    /// The place of each column of the key.
    columns: Vec<usize>,
}

impl LookupKeys {
    /// For rows of `schema`, whose key these columns are.
    ///
    /// # Errors
    /// When a column is unknown, or of a type whose values cannot be asked for.
    pub fn new(schema: &Schema, names: &[String]) -> Result<Self, ConfigError> {
        const SETTING: &str = "lookup.on";
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let at = column_index(schema, SETTING, name)?;
            let column_type = &schema.columns()[at].column_type;
            if Values::of(column_type).is_none() {
                return Err(ConfigError::ColumnKind {
                    setting: SETTING,
                    name: name.clone(),
                    found: format!("{:?}", column_type.bare()),
                    wanted: "a whole number, String, UUID, Date or Bool",
                });
            }
            columns.push(at);
        }
        Ok(Self { keyer: LookupKeyer::new(schema, names)?, columns })
    }

    /// The hashes of the keys of a batch, each once, with the first row that has it. Keys with a NULL in them are none.
    ///
    /// # Errors
    /// When the batch is not of the schema.
    pub fn distinct(&self, rows: &RecordBatch) -> Result<Vec<(u128, usize)>, KeyError> {
        let hashes = self.keyer.hashes(rows)?;
        let mut seen = HashSet::<u128, BuildHasherDefault<AsItIs>>::default();
        let keyed = hashes.into_iter().enumerate().filter_map(|(row, hash)| Some((hash?, row)));
        Ok(keyed.filter(|(hash, _)| seen.insert(*hash)).collect())
    }

    /// The keys of these rows, with their hashes. No value of them is NULL.
    ///
    /// # Panics
    /// When the batch is not of the schema.
    pub fn keys(&self, rows: &RecordBatch, of: &[(u128, usize)]) -> Vec<Key> {
        let columns: Vec<&dyn Array> = self.columns.iter().map(|at| rows.column(*at).as_ref()).collect();
        let key = |(hash, row): &(u128, usize)| Key {
            hash: *hash,
            texts: columns.iter().map(|column| text(*column, *row)).collect(),
        };
        of.iter().map(key).collect()
    }
}

fn text(column: &dyn Array, row: usize) -> Vec<u8> {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes().to_vec(),
        DataType::Binary => column.as_binary::<i32>().value(row).to_vec(),
        DataType::FixedSizeBinary(_) => {
            let mut text = String::with_capacity(36);
            for (nth, byte) in column.as_fixed_size_binary().value(row).iter().enumerate() {
                let hyphen = if matches!(nth, 4 | 6 | 8 | 10) { "-" } else { "" };
                let _ = write!(text, "{hyphen}{byte:02x}");
            }
            text.into_bytes()
        }
        _ => {
            let formatter = ArrayFormatter::try_new(column, &FormatOptions::default());
            formatter.expect("numbers, days and truths have a form").value(row).to_string().into_bytes()
        }
    }
}

#[cfg(test)]
mod tests;
