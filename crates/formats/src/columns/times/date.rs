//! Date and Date32.
//!
//! Owns which days they hold, and what is refused because it has a time of day. Does not own the reading of texts ([`super::text`]).

use std::borrow::Cow;

use arrow_array::types::Date32Type;

use super::split;
use super::text::{Flaw, read_local};
use crate::columns::rules::{Fit, Misfit, Rule};

/// Date and Date32.
#[derive(Clone, Debug)]
pub(crate) struct Date {
    /// The type's name.
    pub name: &'static str,
    /// Its first and last day since 1970-01-01.
    pub range: (i32, i32),
}

impl Date {
    pub(super) fn day(&self, days: i64) -> Fit<i32> {
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
