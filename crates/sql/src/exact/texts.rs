//! Texts that stand for a Decimal, a date or a time.
//!
//! Owns the value that such a constant has, with all its digits. Does not own where it stands ([`super`]), nor texts of records: those are converted
//! by a `CAST` alone.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::ScalarValue;

/// Digits of a Decimal.
const DIGITS_MAX: usize = 38;
/// From the coarsest to the finest, with the digits behind the second that each holds.
const UNITS: [(TimeUnit, usize); 4] = [
    (TimeUnit::Second, 0),
    (TimeUnit::Millisecond, 3),
    (TimeUnit::Microsecond, 6),
    (TimeUnit::Nanosecond, 9),
];

/// The number as a Decimal of `precision` and `scale` if it is one, or of as many digits as it has.
pub(super) fn decimal(text: &str, precision: u8, scale: i8) -> Result<ScalarValue, String> {
    let refused = || format!("`'{text}'` is not a Decimal of at most {DIGITS_MAX} digits; write `'12.5'`");
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !are_digits(whole) || !are_digits(fraction) {
        return Err(refused());
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let (own_scale, own_digits) = (fraction.len(), whole.len() + fraction.len());
    if own_digits > DIGITS_MAX || own_scale > DIGITS_MAX {
        return Err(refused());
    }
    let fits =
        own_scale as i16 <= i16::from(scale) && whole.len() as i16 <= i16::from(precision) - i16::from(scale);
    let (precision, scale) = match fits {
        true => (precision, scale),
        false => (own_digits.max(own_scale).max(1) as u8, own_scale as i8),
    };
    let digits = format!("{whole}{fraction:0<width$}", width = scale.max(0) as usize);
    let number = if digits.is_empty() { Ok(0) } else { digits.parse::<i128>() };
    let number = number.map_err(|_| refused())?;
    let number = if text.starts_with('-') { -number } else { number };
    Ok(ScalarValue::Decimal128(Some(number), precision, scale))
}

/// The day, if the text has no time of day.
pub(super) fn date(text: &str) -> Result<ScalarValue, String> {
    let value = ScalarValue::Utf8(Some(text.to_owned()));
    let day = value.cast_to(&DataType::Date32);
    match day {
        Ok(day) if !text.trim().contains([':', ' ', 'T', 't']) => Ok(day),
        Ok(_) => Err(format!(
            "`'{text}'` has a time of day, which a Date does not; write the day alone, or `CAST(… AS DateTime)` beside it"
        )),
        Err(_) => Err(format!("`'{text}'` is not a date; write `'2026-11-23'`")),
    }
}

/// A time in the column's unit, or in a finer one if the text has finer digits.
pub(super) fn instant(text: &str, unit: TimeUnit, zone: &Option<Arc<str>>) -> Result<ScalarValue, String> {
    let value = ScalarValue::Utf8(Some(text.to_owned()));
    let as_unit = |unit: TimeUnit| value.cast_to(&DataType::Timestamp(unit, zone.clone())).ok();
    if as_unit(TimeUnit::Second).is_none() {
        return Err(format!(
            "`'{text}'` is not a time; write `'2026-11-23 10:00:00'` (UTC) or with a zone, `'2026-11-23T10:00:00+01:00'`"
        ));
    }
    let digits = digits_of_second(text);
    let own = UNITS.iter().position(|(_, held)| digits <= *held).ok_or_else(|| {
        format!("`'{text}'` has `{digits}` digits behind the second, and a time has at most 9")
    })?;
    let wanted = UNITS.iter().position(|(known, _)| *known == unit).unwrap_or_default();
    as_unit(UNITS[own.max(wanted)].0).ok_or_else(|| {
        format!(
            "`'{text}'` has no value with `{}` digits behind the second: times with 9 digits are those from 1677 to 2262",
            UNITS[own.max(wanted)].1
        )
    })
}

/// Digits behind the second that are not only zeros at the end.
fn digits_of_second(text: &str) -> usize {
    let Some((_, fraction)) = text.split_once('.') else { return 0 };
    let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    fraction[..end].trim_end_matches('0').len()
}
