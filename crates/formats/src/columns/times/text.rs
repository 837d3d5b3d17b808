//! Dates and times as text.
//!
//! Owns the forms, the calendar and the clock: what is read is a day, or a time as it was written. Does not own what a column makes of it ([`super`]).

/// A day of the calendar, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Day {
    pub(super) year: u32,
    pub(super) month: u32,
    pub(super) day: u32,
}

/// A time as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    pub(super) date: Day,
    /// Of the day, 0 to 86,399.
    pub(super) second: u32,
    pub(super) nano: u32,
    /// Seconds east of UTC, if written.
    pub(super) offset: Option<i32>,
}

impl Local {
    /// Unix seconds, taken as UTC.
    #[inline]
    pub(super) fn as_utc(&self) -> i64 {
        self.date.unix_days() as i64 * 86_400 + self.second as i64
    }
}

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Not of any form.
    Form,
    /// Of a form, but the calendar or the clock has no such time.
    Calendar,
}

impl Day {
    /// Days since 1970-01-01.
    #[inline]
    pub(super) const fn unix_days(&self) -> i32 {
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
    pub(super) fn checked(year: u32, month: u32, day: u32) -> Result<Self, Flaw> {
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
    pub(super) fn of(days: i64) -> Option<Self> {
        let days = i32::try_from(days).ok()?;
        let date = jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok()?;
        let year = u32::try_from(date.year()).ok()?;
        Some(Self { year, month: date.month() as u32, day: date.day() as u32 })
    }

    pub(super) const fn at_midnight(year: u32, month: u32, day: u32) -> i64 {
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
pub(super) fn read_day(text: &[u8; 10]) -> Result<Day, Flaw> {
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
pub(super) struct LastDay {
    /// As it was written, with the byte behind it; zeros, which are no day, before the first.
    text: [u8; 11],
    /// Its first second in UTC.
    second: i64,
}

impl LastDay {
    /// Unix seconds of `YYYY-MM-DD hh:mm:ss`, taken as UTC; `None` if it is not that.
    #[inline]
    pub(super) fn read(&mut self, text: &[u8; 19]) -> Option<i64> {
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
pub(super) fn read_short(text: &[u8]) -> Result<Local, Flaw> {
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

pub(super) fn read_local(text: &[u8]) -> Result<Local, Flaw> {
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
