//! Dates and times: Date, Date32, DateTime, DateTime64.
//!
//! Owns their text forms, unix numbers and zones. The result never depends on the process: the zone of a text is its
//! own, else the column's, else the option's, and zones come from the database inside the binary.
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
//! - A number that reads as a day, `20240501`, is refused while the unit is chosen by magnitude: its sender means that day, and as
//!   seconds it would be a time of 1970. As text of eight or fourteen digits it is the day or time, as ClickHouse's `best_effort` reads it.
//!   With a unit set, all numbers and texts of digits are unix times.
//! - A local time that a zone has twice is the earlier one; one that a zone skips is moved back by the width of the gap.
//!   Both are what ClickHouse 26.7 makes of the same text.
//! - The leap second `:60` is turned down: the target cannot hold it.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::ArrowPrimitiveType;
use arrow_array::types::Date32Type;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::numbers::{Exact, Whole, is_number_text};
use super::rules::{Fit, Misfit, Rule};

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

/// A day of the calendar, checked.
#[derive(Clone, Copy, Debug)]
struct Day {
    year: u32,
    month: u32,
    day: u32,
}

/// A time as it was written.
#[derive(Clone, Copy, Debug)]
struct Local {
    date: Day,
    /// Of the day, 0 to 86,399.
    second: u32,
    nano: u32,
    /// Seconds east of UTC, if written.
    offset: Option<i32>,
}

impl Local {
    /// Unix seconds, taken as UTC.
    #[inline]
    fn as_utc(&self) -> i64 {
        self.date.unix_days() as i64 * 86_400 + self.second as i64
    }
}

/// Years of a day in a number, or in a text of digits: those that a DateTime64 holds. Other numbers are seconds, as small numbers are.
const YEARS: std::ops::RangeInclusive<u32> = 1900..=2299;

/// The numbers that may be days of such years.
const DAY_NUMBERS: std::ops::RangeInclusive<i128> = 19_000_101..=22_991_231;

/// Whether a number in [`DAY_NUMBERS`] reads as `YYYYMMDD`.
#[cold]
fn is_day_number(exact: &Exact) -> bool {
    let Whole::Value(value) = exact.whole(0) else { return false };
    let value = u32::try_from(value).unwrap_or_default();
    Day::checked(value / 10_000, value / 100 % 100, value % 100).is_ok()
}

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Not of any form.
    Form,
    /// Of a form, but the calendar or the clock has no such time.
    Calendar,
}

impl Day {
    /// Days since 1970-01-01.
    #[inline]
    const fn unix_days(&self) -> i32 {
        // Years begin in March, so that the leap day is a year's last; 400 years more keep all terms positive.
        let (year, month) = if self.month <= 2 {
            (self.year + 399, self.month + 9)
        } else {
            (self.year + 400, self.month - 3)
        };
        let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + self.day - 1;
        days as i32 - 719_468 - 146_097
    }

    #[inline]
    fn checked(year: u32, month: u32, day: u32) -> Result<Self, Flaw> {
        const LENGTHS: [u8; 13] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = match month {
            2 if leap => 29,
            1..=12 => LENGTHS[month as usize] as u32,
            _ => return Err(Flaw::Calendar),
        };
        if day == 0 || day > length {
            return Err(Flaw::Calendar);
        }
        Ok(Self { year, month, day })
    }

    /// The day of a number of days since 1970-01-01, in the years 0 to 9999.
    fn of(days: i64) -> Option<Self> {
        let days = i32::try_from(days).ok()?;
        let date = jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok()?;
        let year = u32::try_from(date.year()).ok()?;
        Some(Self { year, month: date.month() as u32, day: date.day() as u32 })
    }

    const fn at_midnight(year: u32, month: u32, day: u32) -> i64 {
        Self { year, month, day }.unix_days() as i64 * 86_400
    }
}

/// Reads digits of fixed places and remembers whether all were digits.
struct Digits<'a, const N: usize> {
    text: &'a [u8; N],
    bad: bool,
}

impl<const N: usize> Digits<'_, N> {
    #[inline]
    fn two(&mut self, at: usize) -> u32 {
        let (tens, ones) = (self.text[at].wrapping_sub(b'0'), self.text[at + 1].wrapping_sub(b'0'));
        self.bad |= tens > 9 || ones > 9;
        tens as u32 * 10 + ones as u32
    }
}

/// `YYYY-MM-DD`.
#[inline]
fn read_day(text: &[u8; 10]) -> Result<Day, Flaw> {
    let mut digits = Digits { text, bad: text[4] != b'-' || text[7] != b'-' };
    let (century, year, month, day) = (digits.two(0), digits.two(2), digits.two(5), digits.two(8));
    if digits.bad {
        return Err(Flaw::Form);
    }
    Day::checked(century * 100 + year, month, day)
}

/// Checks eight bytes and gives those that are digits as numbers, the others as zero: `pattern` has a `0` where a digit stands,
/// and every other byte as it must be.
#[inline]
fn numbers(bytes: [u8; 8], pattern: &[u8; 8]) -> Option<u64> {
    let (mut to_digits, mut too_much) = ([0; 8], [0; 8]);
    for at in 0..8 {
        to_digits[at] = pattern[at];
        // What, added, sets the high bit of a byte that is above nine, or above zero.
        too_much[at] = if pattern[at] == b'0' { 0x76 } else { 0x7f };
    }
    let digits = u64::from_le_bytes(bytes) ^ u64::from_le_bytes(to_digits);
    let sums = digits.wrapping_add(u64::from_le_bytes(too_much));
    // A sum carries only out of a byte whose own high bit is set already.
    ((digits | sums) & 0x8080_8080_8080_8080 == 0).then_some(digits)
}

/// The numbers of two digits that begin at the bytes `at` of what [`numbers`] gave.
#[inline]
fn twos<const N: usize>(digits: u64, at: [u32; N]) -> [u32; N] {
    // In every byte ten times its digit and the digit behind it, at most 99.
    let twos = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    at.map(|at| (twos >> (8 * at)) as u32 & 0xff)
}

/// `YYYY-MM-DD` with the space behind it, also as `T`.
fn read_date(text: &[u8; 11]) -> Result<Day, Flaw> {
    let eight = |from: usize| -> [u8; 8] { std::array::from_fn(|n| text[from + n]) };
    let mut back = eight(3);
    if !matches!(back[7], b' ' | b'T' | b't') {
        return Err(Flaw::Form);
    }
    back[7] = b' ';
    let front = numbers(eight(0), b"0000-00-").ok_or(Flaw::Form)?;
    let back = numbers(back, b"0-00-00 ").ok_or(Flaw::Form)?;
    let [century, year, month] = twos(front, [0, 2, 5]);
    let [day] = twos(back, [5]);
    Day::checked(century * 100 + year, month, day)
}

/// `hh:mm:ss` as a second of the day.
#[inline]
fn read_clock(text: &[u8; 8]) -> Result<u32, Flaw> {
    let digits = numbers(*text, b"00:00:00").ok_or(Flaw::Form)?;
    let [hour, minute, second] = twos(digits, [0, 3, 6]);
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Flaw::Calendar);
    }
    Ok(hour * 3600 + minute * 60 + second)
}

/// The two parts of `YYYY-MM-DD hh:mm:ss`.
#[inline]
fn parts(text: &[u8; 19]) -> (&[u8; 11], &[u8; 8]) {
    let (date, clock) = (text.first_chunk(), text.last_chunk());
    (date.expect("11 bytes are fewer than 19"), clock.expect("so are 8"))
}

fn read_plain(text: &[u8; 19]) -> Result<Local, Flaw> {
    let (date, clock) = parts(text);
    match (read_date(date), read_clock(clock)) {
        // A text of no form is not a time of the calendar either; the form is blamed.
        (Err(Flaw::Form), _) | (_, Err(Flaw::Form)) => Err(Flaw::Form),
        (date, second) => Ok(Local { date: date?, second: second?, nano: 0, offset: None }),
    }
}

/// The day that was read last, because most times of a stream are of the same day as those before them.
#[derive(Clone, Copy, Debug, Default)]
struct LastDay {
    /// As it was written, with the byte behind it; zeros, which are no day, before the first.
    text: [u8; 11],
    /// Its first second in UTC.
    second: i64,
}

impl LastDay {
    /// Unix seconds of `YYYY-MM-DD hh:mm:ss`, taken as UTC; `None` if it is not that.
    #[inline]
    fn read(&mut self, text: &[u8; 19]) -> Option<i64> {
        let (date, clock) = parts(text);
        if *date != self.text {
            let second = read_date(date).ok()?.unix_days() as i64 * 86_400;
            *self = Self { text: *date, second };
        }
        Some(self.second + read_clock(clock).ok()? as i64)
    }
}

/// The day of eight digits, `YYYYMMDD`.
fn read_short_day(text: &[u8; 8]) -> Result<Day, Flaw> {
    let digits = numbers(*text, b"00000000").ok_or(Flaw::Form)?;
    let [century, year, month, day] = twos(digits, [0, 2, 4, 6]);
    Day::checked(century * 100 + year, month, day)
}

/// The forms without signs: `YYYYMMDD`, alone or before `hhmmss`, with or without a `T` or space between, a fraction and an offset.
fn read_short(text: &[u8]) -> Result<Local, Flaw> {
    let (day, rest) = text.split_first_chunk::<8>().ok_or(Flaw::Form)?;
    let date = read_short_day(day)?;
    let rest = match rest {
        [] => return Ok(Local { date, second: 0, nano: 0, offset: None }),
        [b'T' | b't' | b' ', rest @ ..] => rest,
        rest => rest,
    };
    let (clock, rest) = rest.split_first_chunk::<6>().ok_or(Flaw::Form)?;
    let [a, b, c, d, e, f] = *clock;
    let second = read_clock(&[a, b, b':', c, d, b':', e, f])?;
    let (nano, rest) = read_fraction(rest)?;
    Ok(Local { date, second, nano, offset: read_offset(rest)? })
}

/// The nanoseconds of `.5`, and what stands behind it; 0 if there is no point. What is finer than a nanosecond is cut off.
fn read_fraction(text: &[u8]) -> Result<(u32, &[u8]), Flaw> {
    let [b'.', fraction @ ..] = text else { return Ok((0, text)) };
    let count = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
    if count == 0 {
        return Err(Flaw::Form);
    }
    let digits = fraction[..count].iter().copied().chain(std::iter::repeat(b'0'));
    Ok((digits.take(9).fold(0, |sum, d| sum * 10 + (d - b'0') as u32), &fraction[count..]))
}

fn read_local(text: &[u8]) -> Result<Local, Flaw> {
    // Where the first sign of the long forms stands.
    if text.get(4).is_some_and(u8::is_ascii_digit) {
        return read_short(text);
    }
    let Some((plain, rest)) = text.split_first_chunk::<19>() else {
        let date = read_day(text.try_into().map_err(|_| Flaw::Form)?)?;
        return Ok(Local { date, second: 0, nano: 0, offset: None });
    };
    let mut local = read_plain(plain)?;
    let (nano, rest) = read_fraction(rest)?;
    local.nano = nano;
    local.offset = read_offset(rest)?;
    Ok(local)
}

/// What stands behind the time: nothing, `Z`, `+hh:mm`, `+hhmm` or `+hh`.
fn read_offset(text: &[u8]) -> Result<Option<i32>, Flaw> {
    let (sign, digits) = match text {
        [] => return Ok(None),
        b"Z" | b"z" => return Ok(Some(0)),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return Err(Flaw::Form),
    };
    let places = match digits {
        [a, b] => [*a, *b, b'0', b'0'],
        [a, b, c, d] | [a, b, b':', c, d] => [*a, *b, *c, *d],
        _ => return Err(Flaw::Form),
    };
    let mut digits = Digits { text: &places, bad: false };
    let (hours, minutes) = (digits.two(0), digits.two(2));
    if digits.bad {
        return Err(Flaw::Form);
    }
    if hours > 23 || minutes > 59 {
        return Err(Flaw::Calendar);
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60) as i32))
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
    fn reads_as_day() -> Box<Misfit> {
        Misfit::range(
            "reads as a day, and as seconds it is in 1970; send the day as text, or set `epoch_unit` if these are unix times",
        )
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
        let mut is_day = false;
        let nanos = exact.and_then(|exact| {
            let whole = exact.floor(0)?;
            is_day =
                self.epoch == EpochUnit::ByMagnitude && DAY_NUMBERS.contains(&whole) && is_day_number(&exact);
            exact.floor((9 - self.epoch.digits(whole)).into())
        });
        if is_day {
            return Err(Self::reads_as_day());
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
        if self.epoch == EpochUnit::ByMagnitude && DAY_NUMBERS.contains(&value.into()) {
            return self.unix(Some(Exact::of(value.into(), 0)));
        }
        self.instant(value, self.epoch.digits_of(value))
    }

    /// The time that a text of eight or fourteen digits reads as; `None` if it is a unix time.
    #[cold]
    fn short(&self, text: &[u8]) -> Option<Local> {
        let is_short = matches!(text.len(), 8 | 14) && text.iter().all(u8::is_ascii_digit);
        if !is_short || self.epoch != EpochUnit::ByMagnitude {
            return None;
        }
        read_short(text).ok().filter(|local| YEARS.contains(&local.date.year))
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
                Some(local) => self.spec.local(&local),
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

/// Date and Date32.
#[derive(Clone, Debug)]
pub(crate) struct Date {
    /// The type's name.
    pub name: &'static str,
    /// Its first and last day since 1970-01-01.
    pub range: (i32, i32),
}

impl Date {
    fn day(&self, days: i64) -> Fit<i32> {
        let day = i32::try_from(days).ok().filter(|day| (self.range.0..=self.range.1).contains(day));
        day.ok_or_else(|| {
            let day = |days: i32| {
                let start = jiff::Timestamp::from_second(days as i64 * 86_400);
                start.map(|t| t.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
            };
            let (first, last) = (day(self.range.0), day(self.range.1));
            Misfit::range(format!("does not fit {} ({first} to {last})", self.name))
        })
    }

    #[cold]
    fn has_time(&self) -> Box<Misfit> {
        Misfit::range(format!("has a time of day or an offset that {} cannot hold", self.name))
    }
}

impl Rule for Date {
    type Arrow = Date32Type;

    fn type_name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    fn text(&self, text: &[u8]) -> Fit<i32> {
        let local = read_local(text).map_err(|flaw| match flaw {
            Flaw::Form => {
                Misfit::form(format!("is not a day that {} takes (`YYYY-MM-DD`, `YYYYMMDD`)", self.name))
            }
            Flaw::Calendar => Misfit::range("is not a day of the calendar"),
        })?;
        if (local.second, local.nano) != (0, 0) || !matches!(local.offset, None | Some(0)) {
            return Err(self.has_time());
        }
        self.day(local.date.unix_days().into())
    }

    fn date(&self, days: i32) -> Fit<i32> {
        self.day(days.into())
    }

    fn timestamp(&self, ticks: i64, digits: u8) -> Fit<i32> {
        let (second, nano) = split(ticks, digits);
        if (second.rem_euclid(86_400), nano) != (0, 0) {
            return Err(self.has_time());
        }
        self.day(second.div_euclid(86_400))
    }

    fn local_timestamp(&self, ticks: i64, digits: u8) -> Fit<i32> {
        self.timestamp(ticks, digits)
    }
}

#[cfg(test)]
mod tests;
