//! From key columns to 128-bit hashes.
//!
//! Owns the canonical form of a key and the hash function. Does not own what is kept of a hash (`dedup::kept`), nor the keys of windows,
//! whose bytes are kept whole (`window::key`). **Both are for ever**: hashes are compared with those that earlier versions wrote. Golden
//! values in the tests hold them.
//!
//! - A value is hashed by XXH3-128 with a seed that stands for its kind (the table). So the number 1, the text `1` and the
//!   date 1970-01-02 differ.
//! - Integers are widened to 64 bits first and never pass through a float, so ids above 2^53 stay apart, and a column that
//!   grows from Int32 to Int64 keeps its history. `Nullable` and `LowCardinality` do not change a hash.
//! - A null is a value of its own: it equals a null of the same column and nothing else, as in `GROUP BY` and `LIMIT BY`.
//!   A null that stands for a column's DEFAULT is a null here.
//! - Floats are compared as numbers: -0 equals 0, and every NaN equals every other.
//! - An Array or a Map is a key of joins alone. Its items are hashed as the bytes that a window's key has of them, with a byte for a null in front of each
//!   (`window::key::items`): so `Nullable` within it does not change a hash either, the entries of a Map may come in any order, and two nulls among the items
//!   of two Arrays are equal.
//! - A key of several columns is a chain: the hash so far and the next column's hash, 32 bytes, are hashed again. Every link
//!   has a fixed length, so `("ab", "c")` and `("a", "bc")` differ by construction, and each column is hashed in one loop.
//!
//! | kind                | types                        | bytes that are hashed         |
//! |---------------------|------------------------------|-------------------------------|
//! | `int`, `uint`       | Int8–Int64, UInt8–UInt64     | 8, little-endian              |
//! | `enum`              | Enum8, Enum16                | the number, as `int`          |
//! | `float32`, `float64`| Float32, Float64             | 4, 8, little-endian           |
//! | `bool`              | Bool                         | 1                             |
//! | `string`            | String                       | the bytes                     |
//! | `fixed_string(n)`   | FixedString(n)               | the n bytes, with the padding |
//! | `uuid`, `ipv6`      | UUID, IPv6                   | 16, in the order of the text  |
//! | `ipv4`              | IPv4                         | 4, little-endian              |
//! | `date`              | Date, Date32                 | days since 1970, as `int`     |
//! | `time(unit)`        | DateTime, DateTime64         | the count, as `int`           |
//! | `decimal(s)`        | Decimal with scale s         | 16, little-endian             |
//! | `array(k)`, `map(k, k)` | Array, Map of such kinds | those of the items            |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use dataflow::{ColumnType, KeptEnum, Schema};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::ConfigError;
use crate::config::column_index;
use crate::window::key::items::Items;

/// The most columns in a key: beyond it somebody meant something else, and state headers stay small.
pub const KEY_COLUMNS_MAX: usize = 64;

/// What to use where a type is no key.
const ONE_VALUE: &str = "a column with one value a row";

/// The same where Arrays and Maps are keys, and only JSON is none: neither by itself nor within.
pub(crate) const ANY_KEY: &str = "a column without JSON in it, because objects that are equal may have different texts: a `select` before this step, or `fields` of the \
                                  input, gives the field that is meant as a column";

/// Turns the seed of a kind into the seed of its null.
const NULL: u64 = 0x6e75_6c6c_6e75_6c6c;

/// The seed of the links between columns.
const LINK: u64 = 0x6c69_6e6b_6c69_6e6b;

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's name.
    pub name: String,
    /// Its kind, as in the table above.
    pub kind: String,
    /// The Enums whose numbers are hashed: one for most that have any, two for a Map of Enums.
    pub kept_enums: Vec<KeptEnum>,
    /// Of an Array or a Map.
    items: Option<Items>,
    /// Its form in a batch.
    arrow: DataType,
}

/// Hashes the keys of batches.
#[derive(Clone, Debug)]
pub struct Keyer {
    columns: Vec<KeyColumn>,
}

/// Why a batch has no keys: it is not of the schema that the step was built for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key column is not there.
    #[error("the batch has no key column `{0}`")]
    Missing(String),
    /// The key column is there in another form.
    #[error("the key column `{name}` came as `{found}`, expected `{wanted}`")]
    Form {
        /// The column.
        name: String,
        /// Its Arrow type in the batch.
        found: DataType,
        /// The Arrow type that the schema says.
        wanted: DataType,
    },
}

impl Keyer {
    /// A keyer for these columns of `schema`.
    ///
    /// # Errors
    /// When there is no column, more than [`KEY_COLUMNS_MAX`], an unknown or repeated one, or one that is no scalar.
    pub fn new(schema: &Schema, names: &[String]) -> Result<Self, ConfigError> {
        let of_one = |column_type: &ColumnType| kind(column_type).map_err(str::to_owned);
        Self::of_kinds((schema, names), of_one, ONE_VALUE)
    }

    /// The same with columns that are Arrays or Maps too.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn with_items(schema: &Schema, names: &[String]) -> Result<Self, ConfigError> {
        Self::of_kinds((schema, names), key_kind, ANY_KEY)
    }

    fn of_kinds(
        (schema, names): (&Schema, &[String]),
        of_kind: impl Fn(&ColumnType) -> Result<String, String>,
        wanted: &'static str,
    ) -> Result<Self, ConfigError> {
        const SETTING: &str = "dedup.key";
        if names.is_empty() || names.len() > KEY_COLUMNS_MAX {
            let message = format!("`{}` columns; name 1 to {KEY_COLUMNS_MAX}", names.len());
            return Err(ConfigError::Setting { setting: SETTING, message });
        }
        let mut columns: Vec<KeyColumn> = Vec::with_capacity(names.len());
        for name in names {
            let column = &schema.columns()[column_index(schema, SETTING, name)?];
            if columns.iter().any(|c| c.name == *name) {
                return Err(ConfigError::RepeatedColumn { setting: SETTING, name: name.clone() });
            }
            let kind = of_kind(&column.column_type).map_err(|found| ConfigError::ColumnKind {
                setting: SETTING,
                name: name.clone(),
                found,
                wanted,
            })?;
            columns.push(KeyColumn {
                name: name.clone(),
                kind,
                kept_enums: KeptEnum::within(name, &column.column_type),
                items: Items::hashed(&column.column_type),
                arrow: column.column_type.arrow(),
            });
        }
        Ok(Self { columns })
    }

    /// The columns of the key, in order.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Writes the hash of each row's key to `hashes`, which is cleared first.
    ///
    /// # Errors
    /// When a key column is missing or of another form.
    pub fn hash(&self, rows: &RecordBatch, hashes: &mut Vec<u128>) -> Result<(), KeyError> {
        hashes.clear();
        hashes.reserve(rows.num_rows());
        for (place, column) in self.columns.iter().enumerate() {
            let values =
                rows.column_by_name(&column.name).ok_or_else(|| KeyError::Missing(column.name.clone()))?;
            let mut links = Links { hashes, first: place == 0 };
            hash_column(values.as_ref(), column, &mut links)?;
        }
        Ok(())
    }
}

/// The kind of a key column, or the word for a type that cannot be one.
pub(crate) fn kind(column_type: &ColumnType) -> Result<String, &'static str> {
    Ok(match column_type {
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => "int".into(),
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => "uint".into(),
        ColumnType::Enum8(_) | ColumnType::Enum16(_) => "enum".into(),
        ColumnType::Float32 => "float32".into(),
        ColumnType::Float64 => "float64".into(),
        ColumnType::Bool => "bool".into(),
        ColumnType::String => "string".into(),
        ColumnType::FixedString(n) => format!("fixed_string({n})"),
        ColumnType::Uuid => "uuid".into(),
        ColumnType::Ipv6 => "ipv6".into(),
        ColumnType::Ipv4 => "ipv4".into(),
        ColumnType::Date | ColumnType::Date32 => "date".into(),
        ColumnType::DateTime { .. } => "time(s)".into(),
        ColumnType::DateTime64 { precision, .. } => match dataflow::types::time_unit(*precision) {
            TimeUnit::Second => "time(s)".into(),
            TimeUnit::Millisecond => "time(ms)".into(),
            TimeUnit::Microsecond => "time(us)".into(),
            TimeUnit::Nanosecond => "time(ns)".into(),
        },
        ColumnType::Decimal { scale, .. } => format!("decimal({scale})"),
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => kind(inner)?,
        ColumnType::Array(_) => return Err("Array"),
        ColumnType::Map(..) => return Err("Map"),
        ColumnType::Json { .. } => return Err("JSON"),
        ColumnType::State(_) => return Err("AggregateFunction"),
    })
}

/// The kind of a column that may be an Array or a Map, or the words for a type that cannot be in a key.
pub(crate) fn key_kind(column_type: &ColumnType) -> Result<String, String> {
    match column_type.bare() {
        ColumnType::Array(item) => match key_kind(item) {
            Ok(item) => Ok(format!("array({item})")),
            Err(item) => Err(format!("Array({item})")),
        },
        ColumnType::Map(key, value) => match (kind(key), key_kind(value)) {
            (Ok(key), Ok(value)) => Ok(format!("map({key}, {value})")),
            (Err(key), _) => Err(format!("Map({key}, …)")),
            (Ok(_), Err(value)) => Err(format!("Map(…, {value})")),
        },
        bare => kind(bare).map_err(str::to_owned),
    }
}

/// Where the hashes of one column go: to the front of each row's chain, or on to it.
struct Links<'a> {
    hashes: &'a mut Vec<u128>,
    first: bool,
}

impl Links<'_> {
    /// Hashes `value(row)` for each row; inlined into one loop for each kind.
    #[inline]
    fn add<B: AsRef<[u8]>>(&mut self, values: &dyn Array, kind: &str, value: impl Fn(usize) -> B) {
        let seed = xxh3_64(kind.as_bytes());
        let null = xxh3_128_with_seed(&[], seed ^ NULL);
        let hash = |row: usize| xxh3_128_with_seed(value(row).as_ref(), seed);
        match (self.first, values.nulls().filter(|n| n.null_count() > 0)) {
            (true, None) => self.hashes.extend((0..values.len()).map(hash)),
            (true, Some(nulls)) => self
                .hashes
                .extend((0..values.len()).map(|row| if nulls.is_valid(row) { hash(row) } else { null })),
            (false, nulls) => {
                for (row, chain) in self.hashes.iter_mut().enumerate() {
                    let next = if nulls.is_none_or(|n| n.is_valid(row)) { hash(row) } else { null };
                    *chain = link(*chain, next);
                }
            }
        }
    }

    fn add_int<T: ArrowPrimitiveType>(&mut self, values: &dyn Array, kind: &str)
    where
        T::Native: Into<i64>,
    {
        let numbers = values.as_primitive::<T>().values();
        self.add(values, kind, |row| Into::<i64>::into(numbers[row]).to_le_bytes());
    }

    fn add_uint<T: ArrowPrimitiveType>(&mut self, values: &dyn Array, kind: &str)
    where
        T::Native: Into<u64>,
    {
        let numbers = values.as_primitive::<T>().values();
        self.add(values, kind, |row| Into::<u64>::into(numbers[row]).to_le_bytes());
    }
}

fn link(chain: u128, next: u128) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&chain.to_le_bytes());
    bytes[16..].copy_from_slice(&next.to_le_bytes());
    xxh3_128_with_seed(&bytes, LINK)
}

fn hash_column(values: &dyn Array, column: &KeyColumn, to: &mut Links<'_>) -> Result<(), KeyError> {
    let kind = column.kind.as_str();
    let wrong = || KeyError::Form {
        name: column.name.clone(),
        found: values.data_type().clone(),
        wanted: column.arrow.clone(),
    };
    if let Some(items) = &column.items {
        let items = items.read(values).ok_or_else(wrong)?;
        to.add(values, kind, |row| items.bytes(row));
        return Ok(());
    }
    let text = matches!((&column.arrow, values.data_type()), (DataType::Utf8, DataType::Binary));
    if *values.data_type() != column.arrow && !text {
        return Err(wrong());
    }
    match values.data_type() {
        DataType::Int8 => to.add_int::<Int8Type>(values, kind),
        DataType::Int16 => to.add_int::<Int16Type>(values, kind),
        DataType::Int32 => to.add_int::<Int32Type>(values, kind),
        DataType::Int64 => to.add_int::<Int64Type>(values, kind),
        DataType::Date32 => to.add_int::<Date32Type>(values, kind),
        DataType::Timestamp(TimeUnit::Second, _) => to.add_int::<TimestampSecondType>(values, kind),
        DataType::Timestamp(TimeUnit::Millisecond, _) => to.add_int::<TimestampMillisecondType>(values, kind),
        DataType::Timestamp(TimeUnit::Microsecond, _) => to.add_int::<TimestampMicrosecondType>(values, kind),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => to.add_int::<TimestampNanosecondType>(values, kind),
        DataType::UInt8 => to.add_uint::<UInt8Type>(values, kind),
        DataType::UInt16 => to.add_uint::<UInt16Type>(values, kind),
        DataType::UInt32 if kind == "ipv4" => {
            let numbers = values.as_primitive::<UInt32Type>().values();
            to.add(values, kind, |row| numbers[row].to_le_bytes());
        }
        DataType::UInt32 => to.add_uint::<UInt32Type>(values, kind),
        DataType::UInt64 => to.add_uint::<UInt64Type>(values, kind),
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>().values();
            to.add(values, kind, |row| canonical_f32(numbers[row]).to_le_bytes());
        }
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>().values();
            to.add(values, kind, |row| canonical_f64(numbers[row]).to_le_bytes());
        }
        DataType::Decimal128(..) => {
            let numbers = values.as_primitive::<Decimal128Type>().values();
            to.add(values, kind, |row| numbers[row].to_le_bytes());
        }
        DataType::Boolean => {
            let bits = values.as_boolean().values();
            to.add(values, kind, |row| [u8::from(bits.value(row))]);
        }
        DataType::Utf8 => {
            let texts = values.as_string::<i32>();
            to.add(values, kind, |row| texts.value(row).as_bytes());
        }
        DataType::Binary => {
            let texts = values.as_binary::<i32>();
            to.add(values, kind, |row| texts.value(row));
        }
        DataType::FixedSizeBinary(16) => {
            // The length is known to the compiler here, and most keys are UUIDs: the hash becomes straight-line code.
            let (ids, _) = values.as_fixed_size_binary().values().as_chunks::<16>();
            to.add(values, kind, |row| &ids[row]);
        }
        DataType::FixedSizeBinary(_) => {
            let texts = values.as_fixed_size_binary();
            to.add(values, kind, |row| texts.value(row));
        }
        other => unreachable!("`kind` lets no column of form `{other}` into a key"),
    }
    Ok(())
}

/// The bits of a float with one zero and one NaN.
fn canonical_f32(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { (value + 0.0).to_bits() }
}

/// As [`canonical_f32`].
fn canonical_f64(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { (value + 0.0).to_bits() }
}

#[cfg(test)]
mod tests;
