//! The values of one column, type by type.
//!
//! Owns the form of each value on the wire and the range checks that the server does not make: it wraps and truncates silently where a
//! value does not fit. Does not own what stands before a column's values (`crate::native`), nor which rows are written and in what order
//! (`native::rows`). Under a null stands zero, whatever the array holds there, so that equal rows give equal bytes.

mod texts;

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray, PrimitiveArray,
};
use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, TimeUnit};
use dataflow::ColumnType;
use dataflow::types::EnumName;

use super::rows::{RowRef, Rows, lengths};
use super::{uuid_on_the_wire, write_varint};
use texts::Texts;

/// The last day that a `Date` holds, 2149-06-06, in days since 1970.
const DATE_MAX: i32 = u16::MAX as i32;
/// 1900-01-01 and 2299-12-31, the first and the last day of a `Date32`, in days since 1970.
const DATE32_RANGE: std::ops::RangeInclusive<i32> = -25_567..=120_529;

/// True if a column's bytes are those of its rows one after the other, so that it can be written in portions.
pub(super) fn is_flat(column_type: &ColumnType) -> bool {
    match column_type {
        ColumnType::Nullable(_) | ColumnType::Array(_) | ColumnType::Map(..) => false,
        ColumnType::LowCardinality(inner) => is_flat(inner),
        _ => true,
    }
}

/// Writes the null map, then the values with zeros under the nulls.
pub(super) fn write_nullable(
    inner: &ColumnType,
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let start = out.len();
    out.resize(start + rows.count_of(arrays), 0);
    if arrays.iter().any(|a| a.null_count() > 0) {
        let mut slots = out[start..].iter_mut();
        rows.for_each(lengths(arrays), |batch, row| {
            if let Some(slot) = slots.next() {
                *slot = u8::from(arrays[batch].is_null(row));
            }
        });
    }
    write(inner, arrays, rows, out)
}

/// Writes the values of a column. Nulls become zero or empty: whether they may stand there is the caller's rule.
pub(super) fn write(
    column_type: &ColumnType,
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match column_type {
        ColumnType::Int8 => copied::<Int8Type, 1>(arrays, rows, out, i8::to_le_bytes),
        ColumnType::Int16 => copied::<Int16Type, 2>(arrays, rows, out, i16::to_le_bytes),
        ColumnType::Int32 => copied::<Int32Type, 4>(arrays, rows, out, i32::to_le_bytes),
        ColumnType::Int64 => copied::<Int64Type, 8>(arrays, rows, out, i64::to_le_bytes),
        ColumnType::UInt8 => copied::<UInt8Type, 1>(arrays, rows, out, u8::to_le_bytes),
        ColumnType::UInt16 => copied::<UInt16Type, 2>(arrays, rows, out, u16::to_le_bytes),
        ColumnType::UInt32 | ColumnType::Ipv4 => copied::<UInt32Type, 4>(arrays, rows, out, u32::to_le_bytes),
        ColumnType::UInt64 => copied::<UInt64Type, 8>(arrays, rows, out, u64::to_le_bytes),
        ColumnType::Float32 => copied::<Float32Type, 4>(arrays, rows, out, f32::to_le_bytes),
        ColumnType::Float64 => copied::<Float64Type, 8>(arrays, rows, out, f64::to_le_bytes),
        ColumnType::Bool => write_bools(arrays, rows, out),
        ColumnType::String => write_strings(arrays, rows, out, b""),
        ColumnType::Json { .. } => write_strings(arrays, rows, out, b"{}"),
        ColumnType::FixedString(n) => write_fixed(arrays, *n as usize, rows, out),
        ColumnType::Uuid => write_uuids(arrays, rows, out),
        ColumnType::Ipv6 => write_fixed(arrays, 16, rows, out),
        ColumnType::Date => converted::<Date32Type, 2>(arrays, rows, out, |days| {
            (0..=DATE_MAX).contains(&days).then(|| (days as u16).to_le_bytes()).ok_or_else(|| {
                format!("the day number {days} is not between 1970-01-01 and 2149-06-06, the range of `Date`")
            })
        }),
        ColumnType::Date32 => {
            converted::<Date32Type, 4>(arrays, rows, out, |days| {
                DATE32_RANGE.contains(&days).then(|| days.to_le_bytes()).ok_or_else(|| {
                format!("the day number {days} is not between 1900-01-01 and 2299-12-31, the range of `Date32`")
            })
            })
        }
        ColumnType::DateTime { .. } => write_times(arrays, rows, out, 0, |seconds| {
            u32::try_from(seconds).map(u32::to_le_bytes).map_err(|_| {
                format!(
                    "{seconds} seconds since 1970 are not between 0 and {}, the range of `DateTime`",
                    u32::MAX
                )
            })
        }),
        ColumnType::DateTime64 { precision, .. } => {
            write_times(arrays, rows, out, *precision, |ticks| Ok(ticks.to_le_bytes()))
        }
        ColumnType::Decimal { precision, scale } => write_decimals(arrays, *precision, *scale, rows, out),
        ColumnType::Enum8(names) => write_enum8(arrays, names, rows, out),
        ColumnType::Enum16(names) => write_enum16(arrays, names, rows, out),
        ColumnType::LowCardinality(inner) => write(inner, arrays, rows, out),
        ColumnType::Nullable(inner) => write_nullable(inner, arrays, rows, out),
        ColumnType::Array(item) => write_lists(item, arrays, rows, out),
        ColumnType::Map(key, value) => write_maps(key, value, arrays, rows, out),
        ColumnType::State(_) => write_states(arrays, rows, out),
    }
}

/// Numbers whose form on the wire is their form in memory.
fn copied<T: ArrowPrimitiveType, const N: usize>(
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    bytes: impl Fn(T::Native) -> [u8; N],
) -> Result<(), String> {
    let typed = primitives::<T>(arrays)?;
    if cfg!(target_endian = "little")
        && let Some(stretches) = without_nulls(arrays, rows)
    {
        let values: Vec<&[u8]> = typed.iter().map(|a| a.values().to_byte_slice()).collect();
        copy(&values, N, stretches, out);
        return Ok(());
    }
    fill(&typed, rows, out, |array, row| Ok(bytes(array.value(row))))
}

/// Numbers that are checked or changed on the way.
fn converted<T: ArrowPrimitiveType, const N: usize>(
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    bytes: impl Fn(T::Native) -> Result<[u8; N], String>,
) -> Result<(), String> {
    let typed = primitives::<T>(arrays)?;
    if let Some(stretches) = without_nulls(arrays, rows) {
        let values: Vec<&[T::Native]> = typed.iter().map(|a| &**a.values()).collect();
        return fill_in_order(&values, stretches, rows.count_of(arrays), out, |values, slots| {
            for (at, (slot, value)) in slots.iter_mut().zip(values).enumerate() {
                *slot = bytes(*value).map_err(|reason| (at, reason))?;
            }
            Ok(())
        });
    }
    fill(&typed, rows, out, |array, row| bytes(array.value(row)))
}

/// The rows as stretches, if they stand in order and no batch holds a null.
fn without_nulls<'a>(
    arrays: &'a [&dyn Array],
    rows: Rows<'a>,
) -> Option<impl Iterator<Item = (usize, Range<usize>)> + Clone + 'a> {
    let no_nulls = arrays.iter().all(|a| a.null_count() == 0);
    rows.in_order(lengths(arrays)).filter(|_| no_nulls)
}

/// Copies the values of these stretches, each of `width` bytes; `values` are those of each batch.
#[inline]
fn copy(
    values: &[&[u8]],
    width: usize,
    stretches: impl Iterator<Item = (usize, Range<usize>)>,
    out: &mut Vec<u8>,
) {
    stretches.for_each(|(batch, rows)| {
        out.extend_from_slice(&values[batch][width * rows.start..width * rows.end]);
    });
}

/// Writes `N` bytes for each of the `count` values in these stretches; `values` are those of each batch. `write` does it for a stretch,
/// and says which value of it was the first that cannot be written.
#[inline]
fn fill_in_order<V, const N: usize>(
    values: &[&[V]],
    mut stretches: impl Iterator<Item = (usize, Range<usize>)>,
    count: usize,
    out: &mut Vec<u8>,
    write: impl Fn(&[V], &mut [[u8; N]]) -> Result<(), (usize, String)>,
) -> Result<(), String> {
    let start = out.len();
    out.resize(start + N * count, 0);
    let mut slots = &mut out[start..].as_chunks_mut::<N>().0[..];
    stretches.try_for_each(|(batch, rows)| {
        let (own, others) = std::mem::take(&mut slots).split_at_mut(rows.len());
        slots = others;
        let before = count - slots.len() - own.len();
        write(&values[batch][rows], own)
            .map_err(|(at, reason)| format!("row {} of the frame: {reason}", before + at))
    })
}

/// Writes `N` bytes for each row; zeros for nulls.
fn fill<A: Array, const N: usize>(
    arrays: &[&A],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    bytes: impl Fn(&A, usize) -> Result<[u8; N], String>,
) -> Result<(), String> {
    let start = out.len();
    out.resize(start + N * rows.count_of(arrays), 0);
    let mut slots = out[start..].as_chunks_mut::<N>().0.iter_mut();
    let any_null = arrays.iter().any(|a| a.null_count() > 0);
    let mut written = 0;
    rows.try_each(lengths(arrays), |batch, row| {
        let array = arrays[batch];
        let slot = slots.next().expect("one slot was made for each row");
        if !(any_null && array.is_null(row)) {
            *slot = bytes(array, row).map_err(|reason| format!("row {written} of the frame: {reason}"))?;
        }
        written += 1;
        Ok(())
    })
}

fn write_bools(arrays: &[&dyn Array], rows: Rows<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let typed: Vec<&BooleanArray> = downcast(arrays, &DataType::Boolean)?;
    fill(&typed, rows, out, |array, row| Ok([u8::from(array.value(row))]))
}

/// `under_null` stands where there is no text.
fn write_strings(
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    under_null: &[u8],
) -> Result<(), String> {
    let texts = arrays.iter().map(|a| Texts::of(*a)).collect::<Result<Vec<_>, _>>()?;
    if let Some(stretches) = without_nulls(arrays, rows) {
        texts::write(&texts, stretches, rows.count_of(arrays), out);
        return Ok(());
    }
    rows.try_each(lengths(arrays), |batch, row| {
        let value = if arrays[batch].is_null(row) { under_null } else { texts[batch].value(row) };
        write_varint(value.len() as u64, out);
        out.extend_from_slice(value);
        Ok(())
    })
}

/// States stand one behind the other without their lengths. There is none for a null.
fn write_states(arrays: &[&dyn Array], rows: Rows<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let typed: Vec<&BinaryArray> = downcast(arrays, &DataType::Binary)?;
    rows.try_each(lengths(arrays), |batch, row| {
        if typed[batch].is_null(row) {
            return Err("a row has no state of an aggregate".to_owned());
        }
        out.extend_from_slice(typed[batch].value(row));
        Ok(())
    })
}

fn write_fixed(arrays: &[&dyn Array], width: usize, rows: Rows<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let typed: Vec<&FixedSizeBinaryArray> = downcast(arrays, &DataType::FixedSizeBinary(width as i32))?;
    out.reserve(width * rows.count_of(arrays));
    if let Some(stretches) = without_nulls(arrays, rows) {
        let values: Vec<&[u8]> = typed.iter().map(|a| a.value_data()).collect();
        copy(&values, width, stretches, out);
        return Ok(());
    }
    rows.try_each(lengths(arrays), |batch, row| {
        if typed[batch].is_null(row) {
            out.resize(out.len() + width, 0);
        } else {
            out.extend_from_slice(typed[batch].value(row));
        }
        Ok(())
    })
}

fn write_uuids(arrays: &[&dyn Array], rows: Rows<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let typed: Vec<&FixedSizeBinaryArray> = downcast(arrays, &DataType::FixedSizeBinary(16))?;
    if let Some(stretches) = without_nulls(arrays, rows) {
        let values: Vec<&[[u8; 16]]> = typed.iter().map(|a| a.value_data().as_chunks::<16>().0).collect();
        return fill_in_order(&values, stretches, rows.count_of(arrays), out, |uuids, slots| {
            slots.iter_mut().zip(uuids).for_each(|(slot, uuid)| *slot = uuid_on_the_wire(*uuid));
            Ok(())
        });
    }
    fill(&typed, rows, out, |array, row| {
        let uuid: [u8; 16] = array.value(row).try_into().expect("the array's width was checked to be 16");
        Ok(uuid_on_the_wire(uuid))
    })
}

/// Ticks of 10^-`precision` seconds, whatever the array's unit; a value that has more digits than that is an error.
fn write_times<const N: usize>(
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    precision: u8,
    bytes: impl Fn(i64) -> Result<[u8; N], String> + Copy,
) -> Result<(), String> {
    let Some(first) = arrays.first() else { return Ok(()) };
    let DataType::Timestamp(unit, _) = first.data_type() else {
        return Err(format!("the batch holds `{}` instead of a timestamp", first.data_type()));
    };
    let digits = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let up = 10_i64.pow(u32::from(precision.saturating_sub(digits)));
    let down = 10_i64.pow(u32::from(digits.saturating_sub(precision)));
    let ticks = move |value: i64| {
        // A division takes as long as all else here, and most columns need none.
        let (whole, rest) = if down > 1 { (value / down, value % down) } else { (value, 0) };
        if rest != 0 {
            return Err(format!(
                "the time {value} ({unit:?}s since 1970) has more than {precision} digits after the second"
            ));
        }
        whole
            .checked_mul(up)
            .ok_or_else(|| format!("the time {value} ({unit:?}s since 1970) does not fit 64 bits"))
            .and_then(bytes)
    };
    match unit {
        TimeUnit::Second => converted::<TimestampSecondType, N>(arrays, rows, out, ticks),
        TimeUnit::Millisecond => converted::<TimestampMillisecondType, N>(arrays, rows, out, ticks),
        TimeUnit::Microsecond => converted::<TimestampMicrosecondType, N>(arrays, rows, out, ticks),
        TimeUnit::Nanosecond => converted::<TimestampNanosecondType, N>(arrays, rows, out, ticks),
    }
}

fn write_decimals(
    arrays: &[&dyn Array],
    precision: u8,
    scale: u8,
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    for array in arrays {
        match array.data_type() {
            DataType::Decimal128(_, s) if *s == scale as i8 => {}
            _ => return Err(mismatch(*array, &DataType::Decimal128(precision, scale as i8))),
        }
    }
    let bound = 10_i128.pow(u32::from(precision));
    let check = move |value: i128| {
        if value.unsigned_abs() < bound.unsigned_abs() {
            Ok(value)
        } else {
            Err(format!("the decimal {value}e-{scale} has more than {precision} digits"))
        }
    };
    match precision {
        1..=9 => converted::<Decimal128Type, 4>(arrays, rows, out, |v| Ok((check(v)? as i32).to_le_bytes())),
        10..=18 => {
            converted::<Decimal128Type, 8>(arrays, rows, out, |v| Ok((check(v)? as i64).to_le_bytes()))
        }
        _ => converted::<Decimal128Type, 16>(arrays, rows, out, |v| Ok(check(v)?.to_le_bytes())),
    }
}

fn write_enum8(
    arrays: &[&dyn Array],
    names: &[EnumName<i8>],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut known = [false; 256];
    names.iter().for_each(|(_, n)| known[*n as u8 as usize] = true);
    converted::<Int8Type, 1>(arrays, rows, out, |n| {
        known[n as u8 as usize].then(|| n.to_le_bytes()).ok_or_else(|| format!("the enum does not name {n}"))
    })
}

fn write_enum16(
    arrays: &[&dyn Array],
    names: &[EnumName<i16>],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut known = vec![false; 1 << 16];
    names.iter().for_each(|(_, n)| known[*n as u16 as usize] = true);
    converted::<Int16Type, 2>(arrays, rows, out, |n| {
        known[n as u16 as usize].then(|| n.to_le_bytes()).ok_or_else(|| format!("the enum does not name {n}"))
    })
}

fn write_lists(
    item: &ColumnType,
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut lists: Vec<&ListArray> = Vec::with_capacity(arrays.len());
    for array in arrays {
        lists.push(array.as_list_opt::<i32>().ok_or_else(|| mismatch(*array, &list_of(item)))?);
    }
    let picked = write_ends(&lists, rows, out, ListArray::value_offsets);
    let items: Vec<&dyn Array> = lists.iter().map(|l| &**l.values() as &dyn Array).collect();
    write_items("an array's item", item, &items, &picked, out)
}

fn write_maps(
    key: &ColumnType,
    value: &ColumnType,
    arrays: &[&dyn Array],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut maps: Vec<&MapArray> = Vec::with_capacity(arrays.len());
    for array in arrays {
        maps.push(array.as_map_opt().ok_or_else(|| {
            mismatch(*array, &ColumnType::Map(Box::new(key.clone()), Box::new(value.clone())).arrow())
        })?);
    }
    let picked = write_ends(&maps, rows, out, MapArray::value_offsets);
    let keys: Vec<&dyn Array> = maps.iter().map(|m| &**m.keys() as &dyn Array).collect();
    write_items("a map's key", key, &keys, &picked, out)?;
    let values: Vec<&dyn Array> = maps.iter().map(|m| &**m.values() as &dyn Array).collect();
    write_items("a map's value", value, &values, &picked, out)
}

/// Writes where each row's items end, and returns the items in order. A null row has none.
fn write_ends<A: Array>(
    arrays: &[&A],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    offsets: impl Fn(&A) -> &[i32],
) -> Vec<RowRef> {
    let mut picked = Vec::new();
    rows.for_each(lengths(arrays), |batch, row| {
        let ends = offsets(arrays[batch]);
        if !arrays[batch].is_null(row) {
            picked.extend((ends[row]..ends[row + 1]).map(|i| RowRef { batch: batch as u32, row: i as u32 }));
        }
        out.extend_from_slice(&(picked.len() as u64).to_le_bytes());
    });
    picked
}

fn write_items(
    what: &str,
    item: &ColumnType,
    arrays: &[&dyn Array],
    picked: &[RowRef],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let rows = Rows::Picked(picked);
    if !item.is_nullable() && rows.null_count(arrays) > 0 {
        return Err(format!("{what} is null, and `{}` has no NULL", crate::types::name(item)));
    }
    write(item, arrays, rows, out)
}

fn list_of(item: &ColumnType) -> DataType {
    ColumnType::Array(Box::new(item.clone())).arrow()
}

fn primitives<'a, T: ArrowPrimitiveType>(
    arrays: &[&'a dyn Array],
) -> Result<Vec<&'a PrimitiveArray<T>>, String> {
    arrays.iter().map(|a| a.as_primitive_opt::<T>().ok_or_else(|| mismatch(*a, &T::DATA_TYPE))).collect()
}

fn downcast<'a, A: 'static>(arrays: &[&'a dyn Array], wanted: &DataType) -> Result<Vec<&'a A>, String> {
    arrays
        .iter()
        .map(|a| {
            let typed = a.as_any().downcast_ref::<A>().filter(|_| a.data_type() == wanted);
            typed.ok_or_else(|| mismatch(*a, wanted))
        })
        .collect()
}

fn mismatch(array: &dyn Array, wanted: &DataType) -> String {
    format!("the batch holds `{}` instead of `{wanted}`", array.data_type())
}
