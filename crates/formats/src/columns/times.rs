//! Dates and times: Date, Date32, DateTime, DateTime64.
//!
//! Owns their text forms, unix numbers and zones. Does not own the exact reading of a number's digits (`columns::numbers`), nor a format's
//! own timestamps before they are ticks and digits. The result never depends on the process: the zone of a text is its own, else the
//! column's, else the option's, and zones come from the database inside the binary.
//!
//! | form                                                    | DateTime, DateTime64              | Date, Date32                        |
//! |---------------------------------------------------------|-----------------------------------|-------------------------------------|
//! | `2024-05-01`                                            | midnight in the zone              | that day                            |
//! | `2024-05-01 10:20:30[.5]`, `T` for the space            | in the zone                       | only at midnight: nothing gets lost |
//! | `2024-05-01T10:20:30[.5]Z`, `+02:00`, `+0200`, `+02`    | exact                             | only at midnight UTC                |
//! | `"20240501"`, `"20240501T102030Z"`, `"20240501102030"`  | as the forms above, without signs | as the forms above                  |
//! | `1714558830`, `1714558830.5`, the same as text          | unix time, unit by the option     | turned down                         |
//! | a typed timestamp                                       | exact                             | only at midnight UTC                |
//! | a typed local timestamp                                 | in the zone                       | only at midnight                    |
//! | a typed date                                            | midnight in the zone              | that day                            |
//!
//! - Digits finer than the column are cut off towards the past (`.999` in a DateTime is `.0`), as ClickHouse does.
//! - A unix number's unit by magnitude: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else
//!   nanoseconds. So every unit covers the years 1973 to 5138, and small numbers are seconds. Zero is 1970.
//! - A number that reads as a day, `20240501`, or as a minute, `202405011020`, is refused while the unit is chosen by magnitude: its
//!   sender means that day, and as seconds or milliseconds it would be a time of the seventies. As text of eight or fourteen digits it is
//!   the day or time, as ClickHouse's `best_effort` reads it, or refused if the calendar has no such day; one of the years 2300 to 9999 is
//!   refused, for no column holds it; a text of twelve is refused as the number is. With a unit set, all numbers and texts of digits are unix times.
//! - A local time that a zone has twice is the earlier one; one that a zone skips is moved back by the width of the gap.
//!   Both are what ClickHouse 26.7 makes of the same text.
//! - The leap second `:60` is turned down: the target cannot hold it.

mod date;
mod text;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::ArrowPrimitiveType;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::numbers::{Exact, Whole, is_number_text};
use super::rules::{Fit, Misfit, Rule};
pub(crate) use date::Date;
use text::{Day, Flaw, LastDay, Local, read_local, read_short};

/// What a unix number counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EpochUnit {
    /// Below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds (absolute values).
    #[default]
    ByMagnitude,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl EpochUnit {
    /// The same as [`digits`](Self::digits) for a number of 64 bits.
    #[inline]
    fn digits_of(self, value: i64) -> u8 {
        match self {
            Self::ByMagnitude if value.unsigned_abs() < 100_000_000_000 => 0,
            Self::ByMagnitude if value.unsigned_abs() < 100_000_000_000_000 => 3,
            other => other.digits(value.into()),
        }
    }

    /// Digits after the second that one unit of `value` stands for.
    fn digits(self, value: i128) -> u8 {
        match self {
            Self::Seconds => 0,
            Self::Milliseconds => 3,
            Self::Microseconds => 6,
            Self::Nanoseconds => 9,
            Self::ByMagnitude => match value.unsigned_abs() {
                0..100_000_000_000 => 0,
                100_000_000_000..100_000_000_000_000 => 3,
                100_000_000_000_000..100_000_000_000_000_000 => 6,
                _ => 9,
            },
        }
    }
}

/// Where a local time is.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Named(TimeZone),
}

impl Zone {
    /// The zone of that name in the embedded database.
    pub fn named(name: &str) -> Option<Self> {
        const UTC: [&str; 6] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "UCT", "Zulu"];
        if UTC.iter().any(|utc| utc.eq_ignore_ascii_case(name)) {
            return Some(Self::Utc);
        }
        TimeZoneDatabase::bundled().get(name).ok().map(Self::Named)
    }

    /// Unix seconds of a local time; `None` beyond the zone's years.
    fn unix(&self, local: &Local) -> Option<i64> {
        match self {
            Self::Utc => Some(local.as_utc()),
            Self::Named(zone) => {
                let [hour, minute, second] =
                    [local.second / 3600, local.second / 60 % 60, local.second % 60].map(|n| n as i8);
                let date = &local.date;
                let time = DateTime::new(
                    date.year as i16,
                    date.month as i8,
                    date.day as i8,
                    hour,
                    minute,
                    second,
                    0,
                )
                .ok()?;
                Some(zone.to_ambiguous_timestamp(time).earlier().ok()?.as_second())
            }
        }
    }
}

/// Years of a day in a number, or in a text of digits: those that a DateTime64 holds. Other numbers are seconds, as small numbers are.
const YEARS: std::ops::RangeInclusive<u32> = 1900..=2299;

/// The numbers that may be days of such years.
const DAY_NUMBERS: std::ops::RangeInclusive<i128> = 19_000_101..=22_991_231;

/// The numbers that may be minutes of such days, `YYYYMMDDhhmm`.
const MINUTE_NUMBERS: std::ops::RangeInclusive<i128> = 190_001_010_000..=229_912_312_359;

/// Whether a number may be one that [`reads_as`] knows.
#[inline]
fn may_be_written(value: i128) -> bool {
    DAY_NUMBERS.contains(&value) || MINUTE_NUMBERS.contains(&value)
}

/// What a number in [`DAY_NUMBERS`] or [`MINUTE_NUMBERS`] was written as, and where it would be as a unix time; `None` if it is no day
/// of the calendar.
#[cold]
fn reads_as(exact: &Exact) -> Option<(&'static str, &'static str)> {
    let Whole::Value(value) = exact.whole(0) else { return None };
    let is_day = DAY_NUMBERS.contains(&value);
    let (day, clock) = if is_day { (value, 0) } else { (value / 10_000, value % 10_000) };
    let day = u32::try_from(day).ok()?;
    Day::checked(day / 10_000, day / 100 % 100, day % 100).ok()?;
    let reads = if is_day {
        ("day", "seconds it is in 1970")
    } else {
        ("day and a minute", "milliseconds it is in 1976 or 1977")
    };
    (clock / 100 < 24 && clock % 100 < 60).then_some(reads)
}

/// How a DateTime or DateTime64 column is read.
#[derive(Debug)]
pub(crate) struct TimeSpec {
    /// The type's name.
    pub name: String,
    /// Digits after the second that the type keeps, 0 to 9.
    pub precision: u8,
    /// Digits after the second that one tick of the Arrow type stands for: 0, 3, 6 or 9.
    pub tick_digits: u8,
    /// For texts without a zone.
    pub zone: Zone,
    /// For unix numbers.
    pub epoch: EpochUnit,
    /// Unix seconds of the type's first and last second.
    pub range: (i64, i64),
}

/// The last second of DateTime.
pub(crate) const DATETIME_RANGE: (i64, i64) = (0, u32::MAX as i64);

/// The seconds of DateTime64 while its ticks are coarser than nanoseconds.
pub(crate) const DATETIME64_RANGE: (i64, i64) =
    (Day::at_midnight(1900, 1, 1), Day::at_midnight(2300, 1, 1) - 1);

/// The seconds of DateTime64 in nanoseconds: its end is the end of 64 bits.
pub(crate) const DATETIME64_NANO_RANGE: (i64, i64) = (DATETIME64_RANGE.0, i64::MAX / 1_000_000_000);

/// The days of Date.
pub(crate) const DATE_RANGE: (i32, i32) = (0, u16::MAX as i32);

/// The days of Date32.
pub(crate) const DATE32_RANGE: (i32, i32) =
    ((DATETIME64_RANGE.0 / 86_400) as i32, ((DATETIME64_RANGE.1 + 1) / 86_400 - 1) as i32);

impl TimeSpec {
    #[cold]
    fn out_of_range(&self) -> Box<Misfit> {
        let day =
            |second: i64| jiff::Timestamp::from_second(second).map(|t| t.to_string()).unwrap_or_default();
        Misfit::range(format!("does not fit {} ({} to {})", self.name, day(self.range.0), day(self.range.1)))
    }

    #[cold]
    fn flaw(&self, flaw: Flaw) -> Box<Misfit> {
        match flaw {
            Flaw::Form => Misfit::form(format!(
                "is not a time that {} takes (RFC 3339, `YYYY-MM-DD hh:mm:ss`, unix)",
                self.name
            )),
            Flaw::Calendar => Misfit::range("is not a time of the calendar"),
        }
    }

    #[cold]
    fn misread((written, unix): (&str, &str)) -> Box<Misfit> {
        Misfit::range(format!(
            "reads as a {written}, and as {unix}; send it as `YYYY-MM-DD hh:mm:ss`, or set `epoch_unit` if these are unix times"
        ))
    }

    /// The ticks of a second and the nanoseconds after it.
    #[inline]
    fn ticks(&self, second: i64, nano: u32) -> Fit<i64> {
        if second < self.range.0 || second > self.range.1 {
            return Err(self.out_of_range());
        }
        if self.tick_digits == 0 {
            return Ok(second);
        }
        let kept = nano - nano % 10u32.pow(9 - self.precision as u32);
        let fraction = kept / 10u32.pow(9 - self.tick_digits as u32);
        let ticks = second
            .checked_mul(10i64.pow(self.tick_digits as u32))
            .and_then(|ticks| ticks.checked_add(fraction.into()));
        // Only the last second of the nanoseconds is not whole in 64 bits.
        ticks.ok_or_else(|| self.out_of_range())
    }

    fn local(&self, local: &Local) -> Fit<i64> {
        let second = match local.offset {
            Some(offset) => local.as_utc() - offset as i64,
            None => self.zone.unix(local).ok_or_else(|| self.out_of_range())?,
        };
        self.ticks(second, local.nano)
    }

    /// A unix time in the option's unit.
    fn unix(&self, exact: Option<Exact>) -> Fit<i64> {
        let mut written = None;
        let nanos = exact.and_then(|exact| {
            let whole = exact.floor(0)?;
            if self.epoch == EpochUnit::ByMagnitude && may_be_written(whole) {
                written = reads_as(&exact);
            }
            exact.floor((9 - self.epoch.digits(whole)).into())
        });
        if let Some(written) = written {
            return Err(Self::misread(written));
        }
        let nanos = nanos.ok_or_else(|| self.out_of_range())?;
        let second = i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|_| self.out_of_range())?;
        self.ticks(second, nanos.rem_euclid(1_000_000_000) as u32)
    }

    /// A number of ticks, each the `digits`th power of a tenth of a second.
    #[inline]
    fn instant(&self, ticks: i64, digits: u8) -> Fit<i64> {
        if digits == self.tick_digits && self.precision == digits {
            let unit = UNITS[digits.min(9) as usize];
            // The last second is whole, but for that of the nanoseconds, which ends where 64 bits do.
            let (first, last) = (self.range.0 * unit, (self.range.1 * unit).saturating_add(unit - 1));
            return if (first..=last).contains(&ticks) { Ok(ticks) } else { Err(self.out_of_range()) };
        }
        let (second, nano) = split(ticks, digits);
        self.ticks(second, nano)
    }

    /// A unix time that is a whole number; agrees with [`unix`](Self::unix).
    #[inline]
    fn unix_integer(&self, value: i64) -> Fit<i64> {
        if self.epoch == EpochUnit::ByMagnitude && may_be_written(value.into()) {
            return self.unix(Some(Exact::of(value.into(), 0)));
        }
        self.instant(value, self.epoch.digits_of(value))
    }

    /// The time that a text of eight or fourteen digits reads as; `None` if it is a unix time.
    #[cold]
    fn short(&self, text: &[u8]) -> Option<Result<Local, Flaw>> {
        let is_short = matches!(text.len(), 8 | 14) && text.iter().all(u8::is_ascii_digit);
        if !is_short || self.epoch != EpochUnit::ByMagnitude {
            return None;
        }
        let year = text[..4].iter().fold(0, |year, digit| year * 10 + u32::from(digit - b'0'));
        let local = read_short(text);
        // Behind these years only a day of the calendar is one, such as `99991231`, which stands for "without end": no column holds it, and
        // as a unix time it would be in the seventies.
        let is_written = YEARS.contains(&year) || (year > *YEARS.end() && local.is_ok());
        is_written.then_some(local)
    }
}

/// Ticks of a second, by digits after it.
const UNITS: [i64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The second of a number of ticks, and the nanoseconds after it.
#[inline]
fn split(ticks: i64, digits: u8) -> (i64, u32) {
    let unit = UNITS[digits.min(9) as usize];
    let nano = ticks.rem_euclid(unit) * (1_000_000_000 / unit);
    // Below a second.
    (ticks.div_euclid(unit), nano as u32)
}

/// DateTime and DateTime64, held as the Arrow type `A`.
pub(crate) struct Time<A> {
    spec: Arc<TimeSpec>,
    last: LastDay,
    of: PhantomData<fn() -> A>,
}

impl<A> Clone for Time<A> {
    fn clone(&self) -> Self {
        Self { spec: Arc::clone(&self.spec), last: self.last, of: PhantomData }
    }
}

impl<A> Time<A> {
    /// A rule that follows `spec`.
    pub fn new(spec: TimeSpec) -> Self {
        Self { spec: Arc::new(spec), last: LastDay::default(), of: PhantomData }
    }
}

impl<A: ArrowPrimitiveType<Native = i64>> Time<A> {
    /// `YYYY-MM-DD hh:mm:ss` in a column whose zone is UTC; `None` if it is not that.
    #[inline]
    pub fn plain(&mut self, text: &[u8; 19]) -> Option<i64> {
        if !matches!(self.spec.zone, Zone::Utc) {
            return None;
        }
        self.last.read(text)
    }

    /// The entry for a unix second.
    #[inline]
    pub fn second(&self, second: i64) -> Fit<i64> {
        self.spec.ticks(second, 0)
    }

    /// The value of a number's text whose form was checked.
    pub fn number(&self, text: &[u8]) -> Fit<i64> {
        self.spec.unix(Exact::read(text))
    }
}

impl<A: ArrowPrimitiveType<Native = i64>> Rule for Time<A> {
    type Arrow = A;

    fn type_name(&self) -> Cow<'static, str> {
        self.spec.name.clone().into()
    }

    fn text(&self, text: &[u8]) -> Fit<i64> {
        if is_number_text(text) {
            return match self.spec.short(text) {
                Some(Ok(local)) => self.spec.local(&local),
                Some(Err(flaw)) => Err(self.spec.flaw(flaw)),
                None => self.number(text),
            };
        }
        match read_local(text) {
            Ok(local) => self.spec.local(&local),
            Err(flaw) => Err(self.spec.flaw(flaw)),
        }
    }

    #[inline]
    fn next_text(&mut self, text: &[u8]) -> Fit<i64> {
        match text.try_into().ok().and_then(|text| self.plain(text)) {
            Some(second) => self.second(second),
            None => self.text(text),
        }
    }

    #[inline]
    fn signed(&self, value: i64) -> Fit<i64> {
        self.spec.unix_integer(value)
    }

    fn decimal(&self, value: Exact) -> Fit<i64> {
        self.spec.unix(Some(value))
    }

    fn date(&self, days: i32) -> Fit<i64> {
        self.local_timestamp(i64::from(days) * 86_400, 0)
    }

    #[inline]
    fn timestamp(&self, ticks: i64, digits: u8) -> Fit<i64> {
        self.spec.instant(ticks, digits)
    }

    fn local_timestamp(&self, ticks: i64, digits: u8) -> Fit<i64> {
        let (second, nano) = split(ticks, digits);
        let date = Day::of(second.div_euclid(86_400)).ok_or_else(|| self.spec.out_of_range())?;
        // Less than a day.
        let local = Local { date, second: second.rem_euclid(86_400) as u32, nano, offset: None };
        self.spec.local(&local)
    }
}

#[cfg(test)]
mod tests;
