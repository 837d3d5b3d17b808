//! Values of columns in the five forms that state knows.
//!
//! Owns which form a column type has, the reading of a batch's column in that form, and the way back into a column. Does not own what is
//! computed with them (`accumulator`) nor their bytes in seals (`state`).
//!
//! | form    | types                                                                   |
//! |---------|-------------------------------------------------------------------------|
//! | `Int`   | Int8–Int64, Bool, Enum8, Enum16, Date, Date32, DateTime, DateTime64     |
//! | `UInt`  | UInt8–UInt64, IPv4                                                      |
//! | `Float` | Float32, Float64                                                        |
//! | `Wide`  | Decimal                                                                 |
//! | `Bytes` | String, FixedString, UUID, IPv6                                         |

mod store;

use std::borrow::Cow;
use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BinaryArray, FixedSizeBinaryArray, StringArray};
use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use store::Store;

/// The form of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 64 bits with a sign.
    Int,
    /// 64 bits without.
    UInt,
    /// 64 bits.
    Float,
    /// 128 bits with a sign.
    Wide,
    /// Any number of bytes.
    Bytes,
}

impl Form {
    /// The form of a type; `None` for arrays and maps.
    pub fn of(column_type: &ColumnType) -> Option<Self> {
        Some(match column_type {
            ColumnType::Int8
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Bool
            | ColumnType::Enum8(_)
            | ColumnType::Enum16(_)
            | ColumnType::Date
            | ColumnType::Date32
            | ColumnType::DateTime { .. }
            | ColumnType::DateTime64 { .. } => Self::Int,
            ColumnType::UInt8
            | ColumnType::UInt16
            | ColumnType::UInt32
            | ColumnType::UInt64
            | ColumnType::Ipv4 => Self::UInt,
            ColumnType::Float32 | ColumnType::Float64 => Self::Float,
            ColumnType::Decimal { .. } => Self::Wide,
            ColumnType::String | ColumnType::FixedString(_) | ColumnType::Uuid | ColumnType::Ipv6 => {
                Self::Bytes
            }
            ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => Self::of(inner)?,
            ColumnType::Array(_) | ColumnType::Map(..) | ColumnType::Json { .. } | ColumnType::State(_) => {
                return None;
            }
        })
    }

    /// Bytes of one value in memory and in seals; `None` where they differ.
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Int | Self::UInt | Self::Float => Some(8),
            Self::Wide => Some(16),
            Self::Bytes => None,
        }
    }
}

/// A column of a batch. Values of rows that are null mean nothing.
pub enum Values<'a> {
    /// In [`Form::Int`].
    Int(Cow<'a, [i64]>),
    /// In [`Form::UInt`].
    UInt(Cow<'a, [u64]>),
    /// In [`Form::Float`].
    Float(Cow<'a, [f64]>),
    /// In [`Form::Wide`].
    Wide(&'a [i128]),
    /// In [`Form::Bytes`].
    Bytes(Texts<'a>),
}

/// Texts and other bytes.
#[derive(Clone, Copy)]
pub enum Texts<'a> {
    /// Utf8.
    Text(&'a StringArray),
    /// Any bytes.
    Binary(&'a BinaryArray),
    /// Of one length.
    Fixed(&'a FixedSizeBinaryArray),
    /// In state.
    Kept(&'a [Box<[u8]>]),
}

impl<'a> Texts<'a> {
    /// The bytes of a row.
    pub fn get(self, row: usize) -> &'a [u8] {
        match self {
            Self::Text(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
            Self::Kept(values) => &values[row],
        }
    }
}

/// The values of a column of a type that has a form; `None` if the column is of another Arrow type.
pub fn read<'a>(array: &'a dyn Array, column_type: &ColumnType) -> Option<Values<'a>> {
    let wanted = column_type.arrow();
    let is_text = matches!((&wanted, array.data_type()), (DataType::Utf8, DataType::Binary));
    if *array.data_type() != wanted && !is_text {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int64 => Values::Int(Cow::Borrowed(array.as_primitive::<Int64Type>().values())),
        DataType::Int8 => ints::<Int8Type>(array),
        DataType::Int16 => ints::<Int16Type>(array),
        DataType::Int32 => ints::<Int32Type>(array),
        DataType::Date32 => ints::<Date32Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => ints::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => ints::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ints::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ints::<TimestampNanosecondType>(array),
        DataType::Boolean => Values::Int(array.as_boolean().values().iter().map(i64::from).collect()),
        DataType::UInt64 => Values::UInt(Cow::Borrowed(array.as_primitive::<UInt64Type>().values())),
        DataType::UInt8 => uints::<UInt8Type>(array),
        DataType::UInt16 => uints::<UInt16Type>(array),
        DataType::UInt32 => uints::<UInt32Type>(array),
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            Values::Float(values.iter().map(|value| f64::from(*value)).collect())
        }
        DataType::Float64 => Values::Float(Cow::Borrowed(array.as_primitive::<Float64Type>().values())),
        DataType::Decimal128(..) => Values::Wide(array.as_primitive::<Decimal128Type>().values()),
        DataType::Utf8 => Values::Bytes(Texts::Text(array.as_string())),
        DataType::Binary => Values::Bytes(Texts::Binary(array.as_binary())),
        DataType::FixedSizeBinary(_) => Values::Bytes(Texts::Fixed(array.as_fixed_size_binary())),
        _ => return None,
    })
}

fn ints<T: ArrowPrimitiveType>(array: &dyn Array) -> Values<'_>
where
    T::Native: Into<i64>,
{
    Values::Int(array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect())
}

fn uints<T: ArrowPrimitiveType>(array: &dyn Array) -> Values<'_>
where
    T::Native: Into<u64>,
{
    Values::UInt(array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect())
}

impl Values<'_> {
    /// The hash of a row's value with a number: equal values have equal ones.
    pub fn hash(&self, row: usize, seed: u32) -> u64 {
        let seed = u64::from(seed);
        match self {
            Self::Int(values) => xxh3_64_with_seed(&values[row].to_le_bytes(), seed),
            Self::UInt(values) => xxh3_64_with_seed(&values[row].to_le_bytes(), seed),
            Self::Float(values) => xxh3_64_with_seed(&canonical(values[row]).to_le_bytes(), seed),
            Self::Wide(values) => xxh3_64_with_seed(&values[row].to_le_bytes(), seed),
            Self::Bytes(values) => xxh3_64_with_seed(values.get(row), seed),
        }
    }
}

/// The number that stands for all floats that are the same: -0 is 0, and every NaN the same.
pub(super) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// NaN is above all numbers whatever its sign, which depends on the processor that has made it.
fn compare_floats(a: f64, b: f64) -> Ordering {
    canonical(a).total_cmp(&canonical(b))
}

/// Room for how many values more a column of so many gets when it is full: as many again while it is short, which most are that a batch makes; then a
/// sixteenth, so that a window that is open for long holds little unused memory.
pub(super) fn spare(len: usize) -> usize {
    (len / 16).max(len.clamp(16, 4096))
}

/// Makes a column as long as there are groups.
pub(super) fn grow_to<T: Clone>(values: &mut Vec<T>, len: usize, value: T) {
    if len > values.capacity() {
        let room = if values.is_empty() { 0 } else { spare(len) };
        values.reserve_exact(len + room - values.len());
    }
    values.resize(len, value);
}
