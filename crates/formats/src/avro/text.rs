//! An Avro value as JSON, for records whose schema nobody has but the file that they come in.
//!
//! Owns the form of each type, chosen so that a pipeline that reads JSON fills a column with what one that reads Avro would. Does not own the walk over
//! blocks and single values (`avro::cursor`).
//!
//! | Avro                                    | JSON                                                                        |
//! |-----------------------------------------|-----------------------------------------------------------------------------|
//! | `null`, `boolean`, `int`, `long`, times of day | null, true or false, the number                                      |
//! | `float`, `double`                       | the number, exactly; `"nan"`, `"inf"`, `"-inf"`                             |
//! | `string`, `enum`, `uuid`                | a text                                                                      |
//! | `bytes`, `fixed`                        | their text if they are UTF-8; others are refused                            |
//! | `decimal`                               | the number, with all digits                                                 |
//! | `date`                                  | `"2024-05-01"`                                                              |
//! | `timestamp-…`                           | `"2024-05-01T10:20:30.5Z"`: a number would leave its unit to a guess        |
//! | `local-timestamp-…`                     | the same without `Z`                                                        |
//! | `array`, `map`, `record`                | an array, an object, an object                                              |
//! | a union                                 | the value of its branch                                                     |

use std::io::{self, Write};

use super::cursor::Cursor;
use super::datum::DEPTH_MAX;
use super::schema::{Shape, Type, TypeId};
use crate::fault::{Fault, Step};

/// Digits behind the point that a decimal is written with; one with more has an exponent.
const DIGITS_MAX: u32 = 76;
/// The last day of year 9999 and the first of year 0: other days have no text that a column takes.
const DAYS: std::ops::RangeInclusive<i32> = -719_528..=2_932_896;

/// Where JSON goes, up to a bound: what does not fit is dropped with all that follows.
pub(super) struct Out<'o> {
    bytes: &'o mut Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl<'o> Out<'o> {
    /// Room for so many bytes more in `bytes`.
    pub fn new(bytes: &'o mut Vec<u8>, more: usize) -> Self {
        Self { bytes_max: bytes.len().saturating_add(more), bytes, is_full: false }
    }

    /// Whether something did not fit.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    fn put(&mut self, bytes: &[u8]) {
        self.is_full |= bytes.len() > self.bytes_max - self.bytes.len();
        if !self.is_full {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a value. Once `out` is full, the value is given up.
pub(super) fn write(
    shape: &Shape,
    id: TypeId,
    cursor: &mut Cursor<'_>,
    out: &mut Out<'_>,
    depth: usize,
) -> Step<()> {
    if depth > DEPTH_MAX {
        return Err(cursor.fault(format!("values nest deeper than `{DEPTH_MAX}`")));
    }
    if out.is_full {
        return Err(cursor.fault("the record is too long as JSON"));
    }
    match shape.types.get(id) {
        Type::Null => out.put(b"null"),
        Type::Boolean => write_number(out, cursor.boolean()?),
        Type::Int | Type::TimeOfDay { long: false } => write_number(out, cursor.int()?),
        Type::Long | Type::TimeOfDay { long: true } => write_number(out, cursor.long()?),
        Type::Float => write_float(out, cursor.float()?.into()),
        Type::Double => write_float(out, cursor.double()?),
        Type::String | Type::UuidText => write_text(out, cursor.text()?),
        Type::Bytes => write_bytes(out, cursor, |cursor| cursor.sized("a value"))?,
        Type::Fixed(size) => write_bytes(out, cursor, |cursor| cursor.take("a fixed", *size))?,
        Type::UuidFixed => write_uuid(out, cursor.fixed::<16>("a uuid")?),
        Type::Enum(symbols) => write_text(out, &symbols[cursor.index("symbol", symbols.len())?]),
        Type::Decimal { scale } => write_decimal(out, cursor.sized("a decimal")?, *scale, cursor)?,
        Type::DecimalFixed { scale, size } => {
            write_decimal(out, cursor.take("a decimal", *size)?, *scale, cursor)?;
        }
        Type::Date => write_date(out, cursor)?,
        Type::Timestamp { digits } => write_time(out, cursor, *digits, "Z")?,
        Type::LocalTimestamp { digits } => write_time(out, cursor, *digits, "")?,
        Type::Array(items) => {
            if shape.empty[*items] {
                return Err(cursor.fault("nothing bounds the number of an array's items without bytes"));
            }
            let mut item =
                |cursor: &mut Cursor<'_>, out: &mut Out<'_>| write(shape, *items, cursor, out, depth + 1);
            write_list(out, cursor, b"[]", &mut item)?;
        }
        Type::Map(values) => {
            let mut entry = |cursor: &mut Cursor<'_>, out: &mut Out<'_>| {
                write_text(out, cursor.text()?);
                out.put(b":");
                write(shape, *values, cursor, out, depth + 1)
            };
            write_list(out, cursor, b"{}", &mut entry)?;
        }
        Type::Union(branches) => {
            let branch = cursor.index("branch", branches.len())?;
            write(shape, branches[branch], cursor, out, depth + 1)?;
        }
        Type::Record(fields) => {
            out.put(b"{");
            for (at, (name, id)) in fields.iter().enumerate() {
                if at > 0 {
                    out.put(b",");
                }
                write_text(out, name);
                out.put(b":");
                write(shape, *id, cursor, out, depth + 1).map_err(|fault| fault.within(name))?;
            }
            out.put(b"}");
        }
    }
    Ok(())
}

/// The items of an array or the entries of a map, of which each has a byte at least.
fn write_list(
    out: &mut Out<'_>,
    cursor: &mut Cursor<'_>,
    brackets: &[u8; 2],
    item: &mut dyn FnMut(&mut Cursor<'_>, &mut Out<'_>) -> Step<()>,
) -> Step<()> {
    out.put(&brackets[..1]);
    let mut is_first = true;
    while let Some(block) = cursor.block(true)? {
        for _ in 0..block.count {
            if !is_first {
                out.put(b",");
            }
            is_first = false;
            item(cursor, out)?;
        }
        cursor.end_block(&block)?;
    }
    out.put(&brackets[1..]);
    Ok(())
}

fn write_number(out: &mut Out<'_>, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("it takes everything");
}

fn write_float(out: &mut Out<'_>, value: f64) {
    // The form with an exponent where it is shorter, and always with all that makes the number.
    let written = match value {
        _ if value.is_finite() => write!(out, "{value:?}"),
        _ if value.is_nan() => write!(out, "\"nan\""),
        _ => write!(out, "\"{}inf\"", if value < 0.0 { "-" } else { "" }),
    };
    written.expect("it takes everything");
}

fn write_text(out: &mut Out<'_>, text: &str) {
    serde_json::to_writer(out, text).expect("it takes everything");
}

fn write_bytes<'c>(
    out: &mut Out<'_>,
    cursor: &mut Cursor<'c>,
    take: impl FnOnce(&mut Cursor<'c>) -> Step<&'c [u8]>,
) -> Step<()> {
    let at = cursor.position();
    let bytes = take(cursor)?;
    let Ok(text) = std::str::from_utf8(bytes) else {
        let why =
            "the bytes are not UTF-8, and JSON holds nothing else; a stream of `format: avro` takes them";
        return Err(Fault::bytes(at, why));
    };
    write_text(out, text);
    Ok(())
}

fn write_uuid(out: &mut Out<'_>, uuid: &[u8; 16]) {
    out.put(b"\"");
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.put(b"-");
        }
        write!(out, "{byte:02x}").expect("it takes everything");
    }
    out.put(b"\"");
}

fn write_decimal(out: &mut Out<'_>, bytes: &[u8], scale: u32, cursor: &Cursor<'_>) -> Step<()> {
    let Some(unscaled) = super::datum::unscaled(bytes) else {
        return Err(cursor.fault("the decimal has more digits than 128 bits hold"));
    };
    if scale == 0 || scale > DIGITS_MAX {
        let exponent = if scale == 0 { String::new() } else { format!("e-{scale}") };
        write_number(out, format_args!("{unscaled}{exponent}"));
        return Ok(());
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    // A digit before the point at least.
    let digits = format!("{:0>1$}", unscaled.unsigned_abs(), scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    write_number(out, format_args!("{sign}{whole}.{fraction}"));
    Ok(())
}

fn write_date(out: &mut Out<'_>, cursor: &mut Cursor<'_>) -> Step<()> {
    let at = cursor.position();
    let days = cursor.int()?;
    let Some(start) = civil(i64::from(days) * 86_400, 0) else {
        return Err(Fault::bytes(at, format!("`{days}` days from 1970 are no date of the years 0 to 9999")));
    };
    write_number(out, format_args!("\"{}\"", start.date()));
    Ok(())
}

fn write_time(out: &mut Out<'_>, cursor: &mut Cursor<'_>, digits: u8, zone: &str) -> Step<()> {
    let at = cursor.position();
    let ticks = cursor.long()?;
    let per_second = match digits {
        3 => 1_000,
        6 => 1_000_000,
        _ => 1_000_000_000,
    };
    let nanoseconds = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let Some(time) = civil(ticks.div_euclid(per_second), nanoseconds as i32) else {
        return Err(Fault::bytes(at, format!("the time `{ticks}` is not in the years 0 to 9999")));
    };
    write_number(out, format_args!("\"{time}{zone}\""));
    Ok(())
}

/// What a clock in UTC shows so long after 1970, in the years 0 to 9999. (A `Timestamp` ends two hours before year 9999 does, so that every zone has it.)
fn civil(seconds: i64, nanoseconds: i32) -> Option<jiff::civil::DateTime> {
    let days = i32::try_from(seconds.div_euclid(86_400)).ok();
    days.filter(|days| DAYS.contains(days))?;
    let since = jiff::SignedDuration::new(seconds, nanoseconds);
    jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since).ok()
}
