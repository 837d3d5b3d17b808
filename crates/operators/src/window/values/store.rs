//! Columns of values that state holds, one for each form.
//!
//! Owns their growth, comparison and memory. Does not own which form a column type has ([`super`]).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, FixedSizeBinaryBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;

use super::{Form, Texts, Values, canonical, compare_floats, grow_to};

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

    /// Whether any value is beyond a type of this form. Whole numbers, days and seconds are kept in 64 bits and decimals in 128, and the type may have been a
    /// wider one when they came.
    pub fn is_beyond(&self, column_type: &ColumnType) -> bool {
        let bare = column_type.bare();
        let Some((least, greatest)) = range(bare) else { return false };
        match self {
            Self::Int(values) if *bare != ColumnType::Int64 => {
                let (least, greatest) = (least as i64, greatest as i64);
                values.iter().any(|value| *value < least || *value > greatest)
            }
            Self::UInt(values) if *bare != ColumnType::UInt64 => {
                let greatest = greatest as u64;
                values.iter().any(|value| *value > greatest)
            }
            Self::Wide(values) => values.iter().any(|value| *value < least || *value > greatest),
            _ => false,
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

/// The least and the greatest value of a type beside which there is a wider one of the same kind.
fn range(bare: &ColumnType) -> Option<(i128, i128)> {
    match bare {
        ColumnType::Date => Some((0, u16::MAX.into())),
        ColumnType::DateTime { .. } => Some((0, u32::MAX.into())),
        ColumnType::Decimal { precision, .. } => {
            let beyond = 10_i128.checked_pow(u32::from(*precision))?;
            Some((1 - beyond, beyond - 1))
        }
        _ => bare.integer_range(),
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
