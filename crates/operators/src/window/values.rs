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

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, FixedSizeBinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
};
use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;
use xxhash_rust::xxh3::xxh3_64_with_seed;

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

/// One value for each group.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// In [`Form::Int`].
    Int(Vec<i64>),
    /// In [`Form::UInt`].
    UInt(Vec<u64>),
    /// In [`Form::Float`].
    Float(Vec<f64>),
    /// In [`Form::Wide`].
    Wide(Vec<i128>),
    /// In [`Form::Bytes`].
    Bytes(Vec<Box<[u8]>>),
}

impl Store {
    /// None.
    pub fn new(form: Form) -> Self {
        match form {
            Form::Int => Self::Int(Vec::new()),
            Form::UInt => Self::UInt(Vec::new()),
            Form::Float => Self::Float(Vec::new()),
            Form::Wide => Self::Wide(Vec::new()),
            Form::Bytes => Self::Bytes(Vec::new()),
        }
    }

    /// As many as there are groups; the new ones mean nothing yet.
    pub fn grow(&mut self, groups: usize) {
        match self {
            Self::Int(values) => grow_to(values, groups, 0),
            Self::UInt(values) => grow_to(values, groups, 0),
            Self::Float(values) => grow_to(values, groups, 0.0),
            Self::Wide(values) => grow_to(values, groups, 0),
            Self::Bytes(values) => grow_to(values, groups, Box::default()),
        }
    }

    /// None, of the same form.
    pub fn empty(&self) -> Self {
        match self {
            Self::Int(_) => Self::new(Form::Int),
            Self::UInt(_) => Self::new(Form::UInt),
            Self::Float(_) => Self::new(Form::Float),
            Self::Wide(_) => Self::new(Form::Wide),
            Self::Bytes(_) => Self::new(Form::Bytes),
        }
    }

    /// The values as those of a batch.
    pub fn values(&self) -> Values<'_> {
        match self {
            Self::Int(values) => Values::Int(Cow::Borrowed(values)),
            Self::UInt(values) => Values::UInt(Cow::Borrowed(values)),
            Self::Float(values) => Values::Float(Cow::Borrowed(values)),
            Self::Wide(values) => Values::Wide(values),
            Self::Bytes(values) => Values::Bytes(Texts::Kept(values)),
        }
    }

    /// One more value: that of a row.
    pub fn push(&mut self, values: &Values<'_>, row: usize) {
        match (self, values) {
            (Self::Int(own), Values::Int(values)) => own.push(values[row]),
            (Self::UInt(own), Values::UInt(values)) => own.push(values[row]),
            (Self::Float(own), Values::Float(values)) => own.push(values[row]),
            (Self::Wide(own), Values::Wide(values)) => own.push(values[row]),
            (Self::Bytes(own), Values::Bytes(values)) => own.push(values.get(row).into()),
            _ => unreachable!("a column keeps its form"),
        }
    }

    /// The same with the one float that stands for all that are the same.
    pub fn push_canonical(&mut self, values: &Values<'_>, row: usize) {
        match (&mut *self, values) {
            (Self::Float(own), Values::Float(values)) => own.push(canonical(values[row])),
            _ => self.push(values, row),
        }
    }

    /// Whether the value `at`, which is [canonical](Self::push_canonical), is that of a row.
    pub fn is_same(&self, at: usize, values: &Values<'_>, row: usize) -> bool {
        match (self, values) {
            (Self::Float(own), Values::Float(values)) => {
                own[at].to_bits() == canonical(values[row]).to_bits()
            }
            _ => self.compare(at, values, row).is_eq(),
        }
    }

    /// The value of a group becomes that of a row.
    pub fn set(&mut self, group: usize, values: &Values<'_>, row: usize) {
        match (self, values) {
            (Self::Int(own), Values::Int(values)) => own[group] = values[row],
            (Self::UInt(own), Values::UInt(values)) => own[group] = values[row],
            (Self::Float(own), Values::Float(values)) => own[group] = values[row],
            (Self::Wide(own), Values::Wide(values)) => own[group] = values[row],
            (Self::Bytes(own), Values::Bytes(values)) => own[group] = values.get(row).into(),
            _ => unreachable!("a column keeps its form"),
        }
    }

    /// The value of a group becomes that of another store's.
    pub fn set_from(&mut self, group: usize, other: &Self, at: usize) {
        match (self, other) {
            (Self::Int(own), Self::Int(other)) => own[group] = other[at],
            (Self::UInt(own), Self::UInt(other)) => own[group] = other[at],
            (Self::Float(own), Self::Float(other)) => own[group] = other[at],
            (Self::Wide(own), Self::Wide(other)) => own[group] = other[at],
            (Self::Bytes(own), Self::Bytes(other)) => own[group].clone_from(&other[at]),
            _ => unreachable!("a column keeps its form"),
        }
    }

    /// How the value of a row compares with that of a group. NaN is greater than any number.
    pub fn compare(&self, group: usize, values: &Values<'_>, row: usize) -> Ordering {
        match (self, values) {
            (Self::Int(own), Values::Int(values)) => values[row].cmp(&own[group]),
            (Self::UInt(own), Values::UInt(values)) => values[row].cmp(&own[group]),
            (Self::Float(own), Values::Float(values)) => compare_floats(values[row], own[group]),
            (Self::Wide(own), Values::Wide(values)) => values[row].cmp(&own[group]),
            (Self::Bytes(own), Values::Bytes(values)) => values.get(row).cmp(&own[group]),
            _ => unreachable!("a column keeps its form"),
        }
    }

    /// How the value `at` of another store compares with that of a group.
    pub fn compare_with(&self, group: usize, other: &Self, at: usize) -> Ordering {
        match (self, other) {
            (Self::Int(own), Self::Int(other)) => other[at].cmp(&own[group]),
            (Self::UInt(own), Self::UInt(other)) => other[at].cmp(&own[group]),
            (Self::Float(own), Self::Float(other)) => compare_floats(other[at], own[group]),
            (Self::Wide(own), Self::Wide(other)) => other[at].cmp(&own[group]),
            (Self::Bytes(own), Self::Bytes(other)) => other[at].cmp(&own[group]),
            _ => unreachable!("a column keeps its form"),
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Int(values) => values.capacity() * 8,
            Self::UInt(values) => values.capacity() * 8,
            Self::Float(values) => values.capacity() * 8,
            Self::Wide(values) => values.capacity() * 16,
            Self::Bytes(values) => {
                values.capacity() * size_of::<Box<[u8]>>() + values.iter().map(|v| v.len()).sum::<usize>()
            }
        }
    }

    /// The values as a column of a type of this form; null where `is_null` says so.
    pub fn column(&self, column_type: &ColumnType, is_null: impl Fn(usize) -> bool) -> ArrayRef {
        let arrow = column_type.arrow();
        match self {
            Self::Int(values) => int_column(values, &arrow, is_null),
            Self::UInt(values) => uint_column(values, &arrow, is_null),
            Self::Float(values) => match arrow {
                DataType::Float32 => primitive::<Float32Type, _>(values, is_null, |value| value as f32),
                _ => primitive::<Float64Type, _>(values, is_null, |value| value),
            },
            Self::Wide(values) => {
                let array = primitives::<Decimal128Type>(values, is_null, |at| values[at]);
                Arc::new(array.with_data_type(arrow))
            }
            Self::Bytes(values) => bytes_column(values, &arrow, is_null),
        }
    }
}

fn primitives<T: ArrowPrimitiveType>(
    values: &[impl Copy],
    is_null: impl Fn(usize) -> bool,
    convert: impl Fn(usize) -> T::Native,
) -> PrimitiveArray<T> {
    (0..values.len()).map(|at| (!is_null(at)).then(|| convert(at))).collect()
}

fn primitive<T: ArrowPrimitiveType, V: Copy>(
    values: &[V],
    is_null: impl Fn(usize) -> bool,
    convert: impl Fn(V) -> T::Native,
) -> ArrayRef {
    Arc::new(primitives::<T>(values, is_null, |at| convert(values[at])))
}

fn int_column(values: &[i64], arrow: &DataType, is_null: impl Fn(usize) -> bool) -> ArrayRef {
    match arrow {
        DataType::Int8 => primitive::<Int8Type, _>(values, is_null, |value| value as i8),
        DataType::Int16 => primitive::<Int16Type, _>(values, is_null, |value| value as i16),
        DataType::Int32 => primitive::<Int32Type, _>(values, is_null, |value| value as i32),
        DataType::Date32 => primitive::<Date32Type, _>(values, is_null, |value| value as i32),
        DataType::Boolean => {
            let bits = (0..values.len()).map(|at| (!is_null(at)).then(|| values[at] != 0));
            Arc::new(bits.collect::<BooleanArray>())
        }
        DataType::Timestamp(unit, zone) => match unit {
            TimeUnit::Second => Arc::new(
                primitives::<TimestampSecondType>(values, is_null, |at| values[at])
                    .with_timezone_opt(zone.clone()),
            ),
            TimeUnit::Millisecond => Arc::new(
                primitives::<TimestampMillisecondType>(values, is_null, |at| values[at])
                    .with_timezone_opt(zone.clone()),
            ),
            TimeUnit::Microsecond => Arc::new(
                primitives::<TimestampMicrosecondType>(values, is_null, |at| values[at])
                    .with_timezone_opt(zone.clone()),
            ),
            TimeUnit::Nanosecond => Arc::new(
                primitives::<TimestampNanosecondType>(values, is_null, |at| values[at])
                    .with_timezone_opt(zone.clone()),
            ),
        },
        _ => primitive::<Int64Type, _>(values, is_null, |value| value),
    }
}

fn uint_column(values: &[u64], arrow: &DataType, is_null: impl Fn(usize) -> bool) -> ArrayRef {
    match arrow {
        DataType::UInt8 => primitive::<UInt8Type, _>(values, is_null, |value| value as u8),
        DataType::UInt16 => primitive::<UInt16Type, _>(values, is_null, |value| value as u16),
        DataType::UInt32 => primitive::<UInt32Type, _>(values, is_null, |value| value as u32),
        _ => primitive::<UInt64Type, _>(values, is_null, |value| value),
    }
}

fn bytes_column(values: &[Box<[u8]>], arrow: &DataType, is_null: impl Fn(usize) -> bool) -> ArrayRef {
    let of = |at: usize| (!is_null(at)).then(|| &*values[at]);
    match arrow {
        DataType::FixedSizeBinary(len) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), *len);
            for at in 0..values.len() {
                match of(at).filter(|value| value.len() == *len as usize) {
                    Some(value) => builder.append_value(value).expect("of that length"),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        _ => {
            let bytes = values.iter().map(|value| value.len()).sum();
            let mut texts = StringBuilder::with_capacity(values.len(), bytes);
            for at in 0..values.len() {
                match of(at).map(std::str::from_utf8) {
                    Some(Ok(text)) => texts.append_value(text),
                    None => texts.append_null(),
                    // A String of the server may hold any bytes, and such a column comes as Binary.
                    Some(Err(_)) => {
                        let mut binary = BinaryBuilder::with_capacity(values.len(), bytes);
                        (0..values.len()).for_each(|at| binary.append_option(of(at)));
                        return Arc::new(binary.finish());
                    }
                }
            }
            Arc::new(texts.finish())
        }
    }
}
