//! Functions of dates and times in a zone, as far as partition keys use them.
//!
//! Owns the arithmetic. Does not own expressions around it, nor the grouping (`partition::eval`). Each function gives a value and the range
//! of inputs over which it stays the same, so that a column of times in order costs two comparisons a row.

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY_S: i64 = 86_400;
/// 1970-01-01 was a Thursday: day 4 of a week that starts on Monday, counted from 0 it is 3.
const MONDAY_SHIFT: i64 = 3;

/// A function of a date or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Second,
    /// Local time in units of so many seconds: minutes, hours.
    Step(i64),
    Day,
    /// Weeks from that day of the week on: 0 Monday, 6 Sunday.
    Week(i64),
    Month,
    Quarter,
    Year,
    MonthOfYear,
    DayOfMonth,
    DayOfWeek,
    HourOfDay,
}

impl Function {
    /// The function of that name, or of its other name, with `mode`, the optional number after the argument.
    pub(super) fn named(name: &str, mode: Option<i64>) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "todatetime" | "tostartofsecond" | "tounixtimestamp" | "toyyyymmddhhmmss" => Self::Second,
            "tostartofminute" => Self::Step(60),
            "tostartoffiveminutes" | "tostartoffiveminute" => Self::Step(300),
            "tostartoftenminutes" => Self::Step(600),
            "tostartoffifteenminutes" => Self::Step(900),
            "tostartofhour" => Self::Step(3600),
            "todate" | "date" | "todate32" | "tostartofday" | "toyyyymmdd" => Self::Day,
            "tomonday" => Self::Week(0),
            // An odd mode starts the week on Monday, the default on Sunday.
            "tostartofweek" => Self::Week(if mode.unwrap_or(0) & 1 == 1 { 0 } else { 6 }),
            "toyyyymm" | "tostartofmonth" => Self::Month,
            "tostartofquarter" => Self::Quarter,
            "toyear" | "year" | "tostartofyear" => Self::Year,
            "tomonth" | "month" => Self::MonthOfYear,
            "todayofmonth" | "dayofmonth" | "day" => Self::DayOfMonth,
            "todayofweek" | "dayofweek" => Self::DayOfWeek,
            "tohour" | "hour" => Self::HourOfDay,
            _ => return None,
        })
    }

    /// Whether the value is a day number that another function can take.
    pub(super) fn gives_day(self) -> bool {
        matches!(self, Self::Day | Self::Week(_) | Self::Month | Self::Quarter | Self::Year)
    }

    /// The value for day `day` since 1970, and the days that share it.
    pub(super) fn of_day(self, day: i64) -> (i64, Range<i64>) {
        let one = day..day + 1;
        let from = |start: i64, end: i64| (start, start..end);
        match self {
            Self::Second | Self::Step(_) | Self::Day | Self::HourOfDay => (day, one),
            Self::Week(first) => {
                let start = (day + MONDAY_SHIFT - first).div_euclid(7) * 7 - MONDAY_SHIFT + first;
                from(start, start + 7)
            }
            Self::Month => {
                let (y, m, _) = civil(day);
                from(first_of(y, m), first_of(y, m + 1))
            }
            Self::Quarter => {
                let (y, m, _) = civil(day);
                let m = (m - 1) / 3 * 3 + 1;
                from(first_of(y, m), first_of(y, m + 3))
            }
            Self::Year => {
                let (y, _, _) = civil(day);
                from(first_of(y, 1), first_of(y, 13))
            }
            Self::MonthOfYear => {
                let (y, m, _) = civil(day);
                (m, first_of(y, m)..first_of(y, m + 1))
            }
            Self::DayOfMonth => (civil(day).2, one),
            Self::DayOfWeek => ((day + MONDAY_SHIFT).rem_euclid(7) + 1, one),
        }
    }

    /// The value for the second `second` since 1970 in `zone`, and the seconds that share it.
    pub(super) fn of_second(self, second: i64, zone: &TimeZone) -> (i64, Range<i64>) {
        let (offset, valid) = offset_at(second, zone);
        let local = second + offset;
        let (value, range) = match self {
            Self::Second => (second, local..local + 1),
            Self::Step(step) => {
                let start = local.div_euclid(step) * step;
                (start - offset, start..start + step)
            }
            Self::HourOfDay => {
                let start = local.div_euclid(3600) * 3600;
                (local.rem_euclid(DAY_S) / 3600, start..start + 3600)
            }
            _ => {
                let (value, days) = self.of_day(local.div_euclid(DAY_S));
                (value, days.start * DAY_S..days.end * DAY_S)
            }
        };
        let start = (range.start - offset).max(valid.start);
        let end = (range.end - offset).min(valid.end);
        (value, start..end)
    }

    /// The value as text.
    pub(super) fn show(self, value: i64) -> String {
        match self {
            Self::Second | Self::Step(_) => value.to_string(),
            Self::Month | Self::Quarter => {
                let (y, m, _) = civil(value);
                format!("{y:04}{m:02}")
            }
            Self::Year => format!("{:04}", civil(value).0),
            Self::Day | Self::Week(_) => {
                let (y, m, d) = civil(value);
                format!("{y:04}{m:02}{d:02}")
            }
            Self::MonthOfYear | Self::DayOfMonth | Self::DayOfWeek | Self::HourOfDay => value.to_string(),
        }
    }
}

/// The zone's offset at that second, and the seconds around it over which it does not change.
fn offset_at(second: i64, zone: &TimeZone) -> (i64, Range<i64>) {
    // Outside the years of jiff nothing changes any more.
    let clamped = second.clamp(Timestamp::MIN.as_second() + DAY_S, Timestamp::MAX.as_second() - DAY_S);
    let at = Timestamp::from_second(clamped).expect("the second was clamped into jiff's range");
    let offset = i64::from(zone.to_offset(at).seconds());
    let end = zone.following(at).next().map_or(i64::MAX / 2, |t| t.timestamp().as_second());
    // `preceding` is strict: a transition at this very second starts its range.
    let next = Timestamp::from_second(clamped + 1).expect("the second was clamped into jiff's range");
    let start = zone.preceding(next).next().map_or(i64::MIN / 2, |t| t.timestamp().as_second());
    (offset, start..end)
}

fn civil(day: i64) -> (i64, i64, i64) {
    // The year begins in March here, so that the leap day comes last.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_month)
}

/// The day number of the first of a month; months beyond 12 run into the next year.
fn first_of(year: i64, month: i64) -> i64 {
    let (year, month) = (year + (month - 1) / 12, (month - 1) % 12 + 1);
    let shifted_year = year - i64::from(month <= 2);
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let of_year = (153 * month_from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}
