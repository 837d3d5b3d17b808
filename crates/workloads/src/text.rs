//! Times as text.
//!
//! Owns the calendar that workloads write. Does not own what the times mean.

/// `2025-01-31 23:59:59` of seconds since 1970 UTC, up to the year 9999.
pub(crate) fn date_time(seconds: u64) -> [u8; 19] {
    let (year, month, day) = date(seconds / 86_400);
    let second = seconds % 86_400;
    let mut text = *b"0000-00-00 00:00:00";
    let parts = [(0, year / 100), (2, year % 100), (5, month), (8, day)];
    let times = [(11, second / 3_600), (14, second / 60 % 60), (17, second % 60)];
    for (at, number) in parts.into_iter().chain(times) {
        text[at..at + 2].copy_from_slice(&two_digits(number));
    }
    text
}

/// Year, month and day of the days since 1970-01-01. Counts years from March, so that the leap day comes last in a year
/// and the months' starts are a straight line: 153 days for five months.
fn date(days: u64) -> (u64, u64, u64) {
    /// Days from 0000-03-01 to 1970-01-01.
    const BEFORE_1970: u64 = 719_468;
    /// Days of 400 years.
    const ERA: u64 = 146_097;
    let day = days + BEFORE_1970;
    let (era, day) = (day / ERA, day % ERA);
    // Takes out the leap days of 4 years, puts back those of 100, takes out the one of 400.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next_year, month, day)
}

/// The last two decimal digits' text of a number below 100.
pub(crate) fn two_digits(number: u64) -> [u8; 2] {
    // Both are below 10, since every caller's number is below 100.
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

#[cfg(test)]
mod tests;
