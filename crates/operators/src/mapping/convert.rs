//! Values of one type to values of another, column by column.
//!
//! Owns the conversions that `types` calls lossless or checked. A value that does not fit becomes a null where there was none. Does not
//! own what is done about it, nor Arrays and Maps (`items`).

use std::collections::HashMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
    UInt32Array,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use dataflow::types::EnumName;
use dataflow::{ColumnType, json_object};

use super::items;

/// With a null for what does not fit.
pub(super) const SAFE: CastOptions<'_> = CastOptions { safe: true, format_options: FormatOptions::new() };

/// The values as those of `to`; null where one does not fit.
///
/// # Errors
/// When the column is of a form that `types` has no conversion for.
pub(super) fn array(values: &ArrayRef, from: &ColumnType, to: &ColumnType) -> Result<ArrayRef, ArrowError> {
    use ColumnType as T;
    match (from.bare(), to.bare()) {
        (T::String, T::FixedString(width)) => fixed(values, *width as usize, |text, out| {
            let fits = text.len() <= out.len();
            if fits {
                out[..text.len()].copy_from_slice(text.as_bytes());
            }
            fits
        }),
        (T::String, T::Uuid) => fixed(values, 16, uuid),
        (T::String, T::Ipv6) => fixed(values, 16, |text, out| match ipv6(text) {
            Some(address) => {
                out.copy_from_slice(&address.octets());
                true
            }
            None => false,
        }),
        (T::String, T::Ipv4) => {
            let numbers = values.as_string_opt::<i32>().ok_or_else(|| no_text(values))?.iter();
            let number = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
            Ok(Arc::new(numbers.map(|text| text.and_then(number)).collect::<UInt32Array>()))
        }
        (T::String, T::Enum8(names)) => numbers_of::<Int8Type>(values, names),
        (T::String, T::Enum16(names)) => numbers_of::<Int16Type>(values, names),
        (T::String, T::Json { .. }) => {
            let texts = values.as_string_opt::<i32>().ok_or_else(|| no_text(values))?.iter();
            let is_object = |text: &&str| json_object::check(text).is_ok();
            Ok(Arc::new(texts.map(|text| text.filter(is_object)).collect::<StringArray>()))
        }
        (T::Map(..), T::Json { .. }) => objects_of(values),
        (T::Array(from), T::Array(to)) => items::lists(values, from, to),
        (T::Map(..), T::Map(..)) => items::maps(values, from, to),
        (T::Uuid, T::String) => texts_of(values, |bytes| Some(uuid_text(bytes))),
        (T::Ipv6, T::String) => {
            texts_of(values, |bytes| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()))
        }
        (T::FixedString(_), T::String) => texts_of(values, |bytes| {
            // The zeros at the end are padding.
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            Some(std::str::from_utf8(&bytes[..end]).ok()?.to_owned())
        }),
        (T::Ipv4, T::String) => {
            let text = |number| Ipv4Addr::from(number).to_string();
            Ok(Arc::new(ipv4s(values)?.iter().map(|number| number.map(text)).collect::<StringArray>()))
        }
        (T::Ipv4, T::Ipv6) => {
            let octets = |number| Ipv4Addr::from(number).to_ipv6_mapped().octets();
            let octets = ipv4s(values)?.iter().map(|number| number.map(octets));
            Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(octets, 16)?))
        }
        (T::Ipv6, T::Ipv4) => {
            let number = |bytes: &[u8]| {
                let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
                address.to_ipv4_mapped().map(u32::from)
            };
            let addresses = values.as_fixed_size_binary_opt().ok_or_else(|| no_text(values))?.iter();
            Ok(Arc::new(addresses.map(|bytes| bytes.and_then(number)).collect::<UInt32Array>()))
        }
        (from, T::Bool) if from.integer_range().is_some() => {
            let numbers = cast_with_options(values, &DataType::Int64, &SAFE)?;
            let flag = |number: i64| match number {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            };
            let numbers = numbers.as_primitive::<Int64Type>().iter();
            Ok(Arc::new(numbers.map(|number| number.and_then(flag)).collect::<BooleanArray>()))
        }
        (T::Enum8(names), T::String) => names_of::<Int8Type>(values, names),
        (T::Enum16(names), T::String) => names_of::<Int16Type>(values, names),
        _ => cast_with_options(values, &to.arrow(), &SAFE),
    }
}

fn no_text(values: &ArrayRef) -> ArrowError {
    ArrowError::CastError(format!("a column of text came as `{}`", values.data_type()))
}

/// Texts as byte strings of one width; `write` says whether a text fits.
fn fixed(
    values: &ArrayRef,
    width: usize,
    write: impl Fn(&str, &mut [u8]) -> bool,
) -> Result<ArrayRef, ArrowError> {
    let texts = values.as_string_opt::<i32>().ok_or_else(|| no_text(values))?;
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), width as i32);
    let mut bytes = vec![0; width];
    for text in texts {
        bytes.fill(0);
        match text {
            Some(text) if write(text, &mut bytes) => builder.append_value(&bytes)?,
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// As decoders read it: `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, or the same 32 digits without dashes, in either case.
fn uuid(text: &str, out: &mut [u8]) -> bool {
    let text = text.as_bytes();
    let has_dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text[*at] == b'-');
    if !has_dashes && text.len() != 32 {
        return false;
    }
    let digits = text.iter().enumerate().filter(|(at, _)| !(has_dashes && matches!(at, 8 | 13 | 18 | 23)));
    let mut values = digits.map(|(_, byte)| (*byte as char).to_digit(16));
    for byte in out {
        let (Some(Some(high)), Some(Some(low))) = (values.next(), values.next()) else { return false };
        *byte = (high << 4 | low) as u8;
    }
    true
}

/// An address as decoders read it: one of IPv4 is `::ffff:` and itself.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let of_ipv4 = || text.parse::<Ipv4Addr>().ok().map(|address| address.to_ipv6_mapped());
    text.parse().ok().or_else(of_ipv4)
}

fn ipv4s(values: &ArrayRef) -> Result<&UInt32Array, ArrowError> {
    values.as_primitive_opt().ok_or_else(|| no_text(values))
}

/// Byte strings of one width as texts; null where `text` has none.
fn texts_of(values: &ArrayRef, text: impl Fn(&[u8]) -> Option<String>) -> Result<ArrayRef, ArrowError> {
    let bytes = values.as_fixed_size_binary_opt().ok_or_else(|| no_text(values))?;
    Ok(Arc::new(bytes.iter().map(|bytes| bytes.and_then(&text)).collect::<StringArray>()))
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (n, byte) in bytes.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a String takes every text");
    }
    text
}

fn numbers_of<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    names: &[EnumName<T::Native>],
) -> Result<ArrayRef, ArrowError> {
    let numbers: HashMap<&str, T::Native> = names.iter().map(|(name, number)| (&**name, *number)).collect();
    let texts = values.as_string_opt::<i32>().ok_or_else(|| no_text(values))?.iter();
    let known: PrimitiveArray<T> =
        texts.map(|text| text.and_then(|text| numbers.get(text).copied())).collect();
    Ok(Arc::new(known))
}

/// The rule that a value breaks which is no object for a column of type JSON.
pub(super) fn why_no_object(values: &ArrayRef, row: usize) -> String {
    let text = values.as_string_opt::<i32>().map(|texts| texts.value(row));
    match text.map(json_object::check) {
        Some(Err(unfit)) => unfit.rule.into_owned(),
        Some(Ok(())) | None => "has a key twice".to_owned(),
    }
}

/// Maps of text to text as the texts of objects.
fn objects_of(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let maps = values.as_map_opt().ok_or_else(|| no_text(values))?;
    let (keys, items) = (maps.keys().as_string_opt::<i32>(), maps.values().as_string_opt::<i32>());
    let (Some(keys), Some(items)) = (keys, items) else { return Err(no_text(values)) };
    let (mut objects, mut text) = (StringBuilder::new(), String::new());
    for (row, ends) in maps.value_offsets().windows(2).enumerate() {
        if maps.is_null(row) {
            objects.append_null();
            continue;
        }
        text.clear();
        text.push('{');
        for at in ends[0] as usize..ends[1] as usize {
            if text.len() > 1 {
                text.push(',');
            }
            json_object::quote(keys.value(at), &mut text);
            text.push(':');
            match items.is_null(at) {
                true => text.push_str("null"),
                false => json_object::quote(items.value(at), &mut text),
            }
        }
        text.push('}');
        objects.append_option(json_object::check(&text).is_ok().then_some(&text));
    }
    Ok(Arc::new(objects.finish()))
}

fn names_of<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    names: &[EnumName<T::Native>],
) -> Result<ArrayRef, ArrowError>
where
    T::Native: Eq,
{
    let numbers = values.as_primitive_opt::<T>().ok_or_else(|| {
        ArrowError::CastError(format!("a column of an enum came as `{}`", values.data_type()))
    })?;
    let mut texts = StringBuilder::new();
    for number in numbers {
        let name = number.and_then(|number| names.iter().find(|(_, of)| *of == number));
        texts.append_option(name.map(|(name, _)| &**name));
    }
    Ok(Arc::new(texts.finish()))
}

/// The rows whose value, in the unit of its Arrow form, lies outside.
pub(super) fn outside(values: &ArrayRef, least: i64, greatest: i64) -> Vec<usize> {
    let rows = |is_inside: &dyn Fn(usize) -> bool| {
        (0..values.len()).filter(|row| values.is_valid(*row) && !is_inside(*row)).collect()
    };
    let range = least..=greatest;
    macro_rules! of {
        ($type:ty) => {{
            let values = values.as_primitive::<$type>();
            rows(&|row| range.contains(&i64::from(values.value(row))))
        }};
    }
    match values.data_type() {
        DataType::Date32 => of!(Date32Type),
        DataType::Timestamp(TimeUnit::Second, _) => of!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType),
        // No other type has limits.
        _ => Vec::new(),
    }
}

/// A value as text.
pub(super) fn shown(values: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let text = ArrayFormatter::try_new(values, &options).and_then(|text| text.value(row).try_to_string());
    // A time that no calendar has is still a number, of days or of its unit.
    text.unwrap_or_else(|_| number(&values.slice(row, 1)).unwrap_or_else(|| "?".to_owned()))
}

/// The number that a date or a time is.
fn number(one: &ArrayRef) -> Option<String> {
    let number = arrow_cast::cast(one, &DataType::Int64).ok()?;
    let number = number.as_primitive_opt::<Int64Type>()?;
    number.is_valid(0).then(|| number.value(0).to_string())
}
