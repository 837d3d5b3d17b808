//! Values of a column in another type, without losing any.
//!
//! Owns which types can stand for which, and the conversion itself: exact, or an error. For frames that were sealed before a column's
//! type was changed. Does not own what is done with a frame whose values do not fit ([`crate::table`]).
//!
//! | from                          | to                                         | [`Way`]  |
//! |-------------------------------|--------------------------------------------|----------|
//! | any                           | the same, with or without LowCardinality   | same     |
//! | T                             | Nullable(U), if T to U is not never        | that of T to U |
//! | Nullable(T)                   | U                                          | checked: no null |
//! | an integer, Bool              | an integer that holds all its values       | always   |
//! | an integer, Bool              | another integer, Bool, Float, Decimal      | checked  |
//! | an integer, Bool, UUID, Enum  | String                                     | always   |
//! | Float32                       | Float64                                    | always   |
//! | Float64                       | Float32                                    | checked  |
//! | Decimal                       | one with no fewer digits before and after  | always   |
//! | Decimal                       | another                                    | checked  |
//! | Enum                          | one in which its names have their numbers  | always   |
//! | Date                          | Date32                                     | always   |
//! | Date32                        | Date                                       | checked  |
//! | DateTime, DateTime64          | DateTime64 of more digits                  | checked: years far from now overflow |
//! | DateTime64                    | one of fewer digits, DateTime              | checked  |
//! | JSON                          | JSON of other parameters                   | always: the server parses the text anew |
//! | String                        | FixedString, Enum, UUID and all else       | never    |
//! | Array(T), Map(K, T)           | Array(U), Map(K, U)                        | that of T to U |
//! | everything else               |                                            | never: give the old type back |

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, TimeUnit};
use dataflow::ColumnType;

use crate::table::uuid_text;

/// Whether values of one type can stand in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The bytes are the same.
    Same,
    /// Every value can.
    Always,
    /// Some can; each is inspected.
    Checked,
    /// None, or not without a decision: how a text is read, which zone a day begins in.
    Never,
}

impl Way {
    /// The worse of both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Checked, _) | (_, Self::Checked) => Self::Checked,
            (Self::Always, _) | (_, Self::Always) => Self::Always,
            (Self::Same, Self::Same) => Self::Same,
        }
    }
}

/// Whether values of `from` can stand in a column of `to`.
pub fn way(from: &ColumnType, to: &ColumnType) -> Way {
    use ColumnType as T;
    match (from, to) {
        (T::LowCardinality(from), to) => way(from, to),
        (from, T::LowCardinality(to)) => way(from, to),
        (T::Nullable(from), T::Nullable(to)) => way(from, to),
        (from, T::Nullable(to)) => Way::Always.and(way(from, to)),
        (T::Nullable(from), to) => Way::Checked.and(way(from, to)),
        (T::Array(from), T::Array(to)) => way(from, to),
        (T::Map(from_key, from), T::Map(to_key, to)) => match way(from_key, to_key) {
            // Keys that become equal would lose a value.
            Way::Same => way(from, to),
            Way::Always | Way::Checked | Way::Never => Way::Never,
        },
        (from, to) if from == to => Way::Same,
        (T::Enum8(_) | T::Enum16(_), T::Enum8(_) | T::Enum16(_)) => {
            let (from, to) = (enum_names(from), enum_names(to));
            if from.iter().all(|name| to.contains(name)) { Way::Always } else { Way::Never }
        }
        (T::Json { .. }, T::Json { .. }) => Way::Always,
        (T::Enum8(_) | T::Enum16(_) | T::Uuid, T::String) => Way::Always,
        (T::Float32, T::Float64) => Way::Always,
        (T::Float64, T::Float32) => Way::Checked,
        (T::Date, T::Date32) => Way::Always,
        (T::Date32, T::Date) => Way::Checked,
        // A zone is no part of the value.
        (T::DateTime { .. }, T::DateTime { .. }) => Way::Always,
        (T::DateTime { .. } | T::DateTime64 { .. }, T::DateTime { .. } | T::DateTime64 { .. }) => {
            match (digits(from), digits(to)) {
                (from, to) if from == to => Way::Always,
                _ => Way::Checked,
            }
        }
        (T::Decimal { precision: p, scale: s }, T::Decimal { precision: q, scale: t }) => {
            if t >= s && i16::from(*q) - i16::from(*t) >= i16::from(*p) - i16::from(*s) {
                Way::Always
            } else {
                Way::Checked
            }
        }
        (from, to) => match (range(from), range(to)) {
            (Some((low, high)), Some((least, most))) if least <= low && high <= most => Way::Always,
            (Some(_), Some(_)) => Way::Checked,
            (Some(_), None) => match to {
                T::String => Way::Always,
                T::Float32 | T::Float64 | T::Decimal { .. } => Way::Checked,
                _ => Way::Never,
            },
            (None, _) => Way::Never,
        },
    }
}

/// The values of `array`, which are of `from`, as values of `to`.
///
/// # Errors
/// When one of them has no such value; the words name none.
pub fn convert(array: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Result<ArrayRef, String> {
    use ColumnType as T;
    let unfit = || {
        let (from, to) = (crate::types::name(from), crate::types::name(to));
        format!("values of `{from}` that `{to}` cannot hold")
    };
    match (from, to) {
        (from, to) if from == to => Ok(array.clone()),
        (T::LowCardinality(from), to) => convert(array, from, to),
        (from, T::LowCardinality(to)) => convert(array, from, to),
        (T::Nullable(from), T::Nullable(to)) => convert(array, from, to),
        (from, T::Nullable(to)) => convert(array, from, to),
        (T::Nullable(from), to) if array.null_count() == 0 => convert(array, from, to),
        (T::Nullable(_), _) => Err(format!("NULLs, which `{}` cannot hold", crate::types::name(to))),
        (T::Array(from), T::Array(to)) => {
            let list = array.as_list_opt::<i32>().ok_or_else(unfit)?;
            let items = convert(list.values(), from, to)?;
            let field = Arc::new(Field::new("item", items.data_type().clone(), to.is_nullable()));
            let list = ListArray::try_new(field, list.offsets().clone(), items, list.nulls().cloned());
            Ok(Arc::new(list.map_err(|e| e.to_string())?))
        }
        (T::Map(_, from), T::Map(_, to)) => {
            let map = array.as_map_opt().ok_or_else(unfit)?;
            let (keys, values) = (map.keys().clone(), convert(map.values(), from, to)?);
            let fields = vec![
                Field::new("keys", keys.data_type().clone(), false),
                Field::new("values", values.data_type().clone(), to.is_nullable()),
            ];
            let entries = StructArray::try_new(fields.into(), vec![keys, values], None);
            let entries = entries.map_err(|e| e.to_string())?;
            let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            let map = MapArray::try_new(field, map.offsets().clone(), entries, map.nulls().cloned(), false);
            Ok(Arc::new(map.map_err(|e| e.to_string())?))
        }
        _ if matches!(way(from, to), Way::Never) => Err(unfit()),
        (T::Json { .. }, T::Json { .. }) => Ok(array.clone()),
        (T::Enum8(_) | T::Enum16(_), T::String) => {
            let names = enum_names(from);
            let numbers = numbers(array).ok_or_else(unfit)?;
            let name = |n: i128| names.iter().find(|(_, number)| *number == n).map(|(name, _)| name.as_str());
            let texts: Option<Vec<Option<&str>>> =
                numbers.into_iter().map(|n| n.map_or(Some(None), |n| name(n).map(Some))).collect();
            Ok(Arc::new(StringArray::from(texts.ok_or_else(unfit)?)))
        }
        (T::Uuid, T::String) => {
            let uuids = array.as_fixed_size_binary_opt().ok_or_else(unfit)?;
            Ok(Arc::new(uuids.iter().map(|uuid| uuid.map(uuid_text)).collect::<StringArray>()))
        }
        (T::Float32, T::Float64) => {
            let values = array.as_primitive_opt::<Float32Type>().ok_or_else(unfit)?;
            Ok(Arc::new(values.unary::<_, Float64Type>(f64::from)))
        }
        (T::Float64, T::Float32) => {
            let values = array.as_primitive_opt::<Float64Type>().ok_or_else(unfit)?;
            let narrow = values.try_unary::<_, Float32Type, String>(|value| {
                let narrow = value as f32;
                let is_exact = f64::from(narrow) == value || value.is_nan();
                is_exact.then_some(narrow).ok_or_else(unfit)
            });
            Ok(Arc::new(narrow?))
        }
        (from, T::String) => {
            let numbers = match from {
                T::Bool => return booleans_as_text(array).ok_or_else(unfit),
                _ => numbers(array).ok_or_else(unfit)?,
            };
            let texts = numbers.into_iter().map(|n| n.map(|n| n.to_string()));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        (from, T::Float32 | T::Float64) => floats(array, from, to).ok_or_else(unfit),
        (from, to) => {
            let scaled = scale(from, to);
            let numbers = numbers(array).ok_or_else(unfit)?;
            let numbers: Option<Vec<Option<i128>>> =
                numbers.into_iter().map(|n| n.map_or(Some(None), |n| rescale(n, scaled).map(Some))).collect();
            of_numbers(numbers.ok_or_else(unfit)?, to).ok_or_else(unfit)
        }
    }
}

fn enum_names(of: &ColumnType) -> Vec<(String, i128)> {
    match of {
        ColumnType::Enum8(names) => names.iter().map(|(name, n)| (name.to_string(), (*n).into())).collect(),
        ColumnType::Enum16(names) => names.iter().map(|(name, n)| (name.to_string(), (*n).into())).collect(),
        _ => Vec::new(),
    }
}

/// The least and the greatest value of an integer type; a Bool is one here.
fn range(of: &ColumnType) -> Option<(i128, i128)> {
    match of {
        ColumnType::Bool => Some((0, 1)),
        of => of.integer_range(),
    }
}

/// Digits after the second.
fn digits(of: &ColumnType) -> u8 {
    match of {
        ColumnType::DateTime64 { precision, .. } => *precision,
        _ => 0,
    }
}

/// Digits after the point, or after the second in the form that Arrow holds.
fn scale_of(of: &ColumnType) -> i32 {
    match of {
        ColumnType::Decimal { scale, .. } => i32::from(*scale),
        ColumnType::DateTime64 { precision, .. } => match dataflow::types::time_unit(*precision) {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        },
        _ => 0,
    }
}

/// Powers of ten that a number is multiplied by.
fn scale(from: &ColumnType, to: &ColumnType) -> i32 {
    scale_of(to) - scale_of(from)
}

/// `n` times ten to the power of `by`; `None` if that is no whole number or too large.
fn rescale(n: i128, by: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(by.unsigned_abs())?;
    if by >= 0 { n.checked_mul(factor) } else { (n % factor == 0).then_some(n / factor) }
}

/// The values as whole numbers of their own unit.
fn numbers(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<Vec<Option<i128>>>
    where
        i128: From<T::Native>,
    {
        Some(array.as_primitive_opt::<T>()?.iter().map(|n| n.map(i128::from)).collect())
    }
    match array.data_type() {
        DataType::Boolean => {
            Some(array.as_boolean_opt()?.iter().map(|b| b.map(|b| i128::from(u8::from(b)))).collect())
        }
        DataType::Int8 => of::<Int8Type>(array),
        DataType::Int16 => of::<Int16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        DataType::Int64 => of::<Int64Type>(array),
        DataType::UInt8 => of::<UInt8Type>(array),
        DataType::UInt16 => of::<UInt16Type>(array),
        DataType::UInt32 => of::<UInt32Type>(array),
        DataType::UInt64 => of::<UInt64Type>(array),
        DataType::Date32 => of::<Date32Type>(array),
        DataType::Decimal128(..) => of::<Decimal128Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array),
        _ => None,
    }
}

/// Whole numbers as values of `to`; `None` if one is out of its range.
fn of_numbers(numbers: Vec<Option<i128>>, to: &ColumnType) -> Option<ArrayRef> {
    use ColumnType as T;
    fn of<T: ArrowPrimitiveType>(numbers: &[Option<i128>]) -> Option<PrimitiveArray<T>>
    where
        T::Native: TryFrom<i128>,
    {
        let value = |n: &Option<i128>| match n {
            None => Some(None),
            Some(n) => T::Native::try_from(*n).ok().map(Some),
        };
        numbers.iter().map(value).collect::<Option<Vec<_>>>().map(PrimitiveArray::<T>::from_iter)
    }
    let within = |least: i128, most: i128| numbers.iter().flatten().all(|n| (least..=most).contains(n));
    let n = &numbers;
    Some(match to {
        T::Int8 | T::Enum8(_) => Arc::new(of::<Int8Type>(n)?),
        T::Int16 | T::Enum16(_) => Arc::new(of::<Int16Type>(n)?),
        T::Int32 => Arc::new(of::<Int32Type>(n)?),
        T::Int64 => Arc::new(of::<Int64Type>(n)?),
        T::UInt8 => Arc::new(of::<UInt8Type>(n)?),
        T::UInt16 => Arc::new(of::<UInt16Type>(n)?),
        T::UInt32 => Arc::new(of::<UInt32Type>(n)?),
        T::UInt64 => Arc::new(of::<UInt64Type>(n)?),
        T::Bool if within(0, 1) => Arc::new(n.iter().map(|n| n.map(|n| n == 1)).collect::<BooleanArray>()),
        T::Date if within(0, u16::MAX.into()) => Arc::new(of::<Date32Type>(n)?),
        T::Date32 => Arc::new(of::<Date32Type>(n)?),
        T::DateTime { .. } if within(0, u32::MAX.into()) => {
            Arc::new(of::<TimestampSecondType>(n)?.with_timezone("UTC"))
        }
        T::DateTime64 { precision, .. } => {
            // In memory the unit may be finer than the column's digits.
            let unit = 10_i128.pow((scale_of(to) - i32::from(*precision)) as u32);
            if n.iter().flatten().any(|n| n % unit != 0) {
                return None;
            }
            match dataflow::types::time_unit(*precision) {
                TimeUnit::Second => Arc::new(of::<TimestampSecondType>(n)?.with_timezone("UTC")),
                TimeUnit::Millisecond => Arc::new(of::<TimestampMillisecondType>(n)?.with_timezone("UTC")),
                TimeUnit::Microsecond => Arc::new(of::<TimestampMicrosecondType>(n)?.with_timezone("UTC")),
                TimeUnit::Nanosecond => Arc::new(of::<TimestampNanosecondType>(n)?.with_timezone("UTC")),
            }
        }
        T::Decimal { precision, scale } => {
            let most = 10_i128.checked_pow(u32::from(*precision))? - 1;
            if !within(-most, most) {
                return None;
            }
            let array = of::<Decimal128Type>(n)?.with_precision_and_scale(*precision, *scale as i8);
            Arc::new(array.ok()?)
        }
        _ => return None,
    })
}

/// Whole numbers as floats; `None` if one has no exact float.
fn floats(array: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Option<ArrayRef> {
    range(from)?;
    // All whole numbers up to these have one.
    let most = if matches!(to, ColumnType::Float32) { 1_i128 << 24 } else { 1_i128 << 53 };
    let numbers = numbers(array)?;
    if numbers.iter().flatten().any(|n| !(-most..=most).contains(n)) {
        return None;
    }
    Some(match to {
        ColumnType::Float32 => Arc::new(
            numbers.into_iter().map(|n| n.map(|n| n as f32)).collect::<PrimitiveArray<Float32Type>>(),
        ),
        _ => Arc::new(
            numbers.into_iter().map(|n| n.map(|n| n as f64)).collect::<PrimitiveArray<Float64Type>>(),
        ),
    })
}

/// As ClickHouse writes them.
fn booleans_as_text(array: &ArrayRef) -> Option<ArrayRef> {
    let values = array.as_boolean_opt()?.iter();
    Some(Arc::new(values.map(|b| b.map(|b| if b { "true" } else { "false" })).collect::<StringArray>()))
}

#[cfg(test)]
mod tests;
