//! Shares of a whole: `1%`, `0.5%`, `0.01`.
//!
//! Owns the comparison of a part with a whole, exact and without floats, and that `1` alone is refused: it may be meant as 1 % or as all.
//! Does not own what is counted.

use std::fmt;
use std::str::FromStr;

use super::{Kind, text_kind};

/// The whole, in the unit of [`Share`].
const WHOLE: u64 = 1_000_000_000;

/// Digits behind the point of a fraction; a percentage has two fewer.
const DIGITS: usize = 9;

/// A share of a whole, from nothing to all of it, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    billionths: u64,
}

impl Share {
    /// True if `part` of `whole` is more than this share. Nothing is more than any share of nothing.
    pub fn is_exceeded(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(WHOLE) > u128::from(whole) * u128::from(self.billionths) && whole > 0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write a percentage like `1%` or `0.5%`, or a fraction of 1 like `0.01`";
        let (number, digits_max) = match text.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), DIGITS - 2),
            None => (text, DIGITS),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
        if number.is_empty() || number == "." || !is_number(whole) || !is_number(part) {
            return Err(format!("is no share; {HOW}"));
        }
        if part.len() > digits_max {
            return Err(format!("has more than {digits_max} digits behind the point; {HOW}"));
        }
        let scaled = format!("{whole}{part:0<digits_max$}").parse::<u64>().unwrap_or(u64::MAX);
        if digits_max == DIGITS && scaled >= WHOLE {
            // 1 may be meant as 1 % or as all of it.
            return Err(format!("has no `%`, and a fraction is less than 1; {HOW}"));
        }
        if scaled > WHOLE {
            return Err(format!("is more than `100%`; {HOW}"));
        }
        Ok(Self { billionths: scaled })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = WHOLE / 100;
        write!(f, "{}", self.billionths / percent)?;
        let part = format!("{:0width$}", self.billionths % percent, width = DIGITS - 2);
        match part.trim_end_matches('0') {
            "" => f.write_str("%"),
            part => write!(f, ".{part}%"),
        }
    }
}

impl Kind for Share {
    const KIND: &'static str = "share";
    const CALLED: &'static str = "share";
    const EXAMPLE: &'static str = "1%";

    fn magnitude(&self) -> Option<u128> {
        Some(u128::from(self.billionths))
    }
}
text_kind!(Share);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        for (text, shown) in [
            ("1%", "1%"),
            ("0.5%", "0.5%"),
            ("0.01", "1%"),
            (".01", "1%"),
            ("0.005", "0.5%"),
            ("0", "0%"),
            ("0%", "0%"),
            ("12.5 %", "12.5%"),
            ("100%", "100%"),
            ("0.000000001", "0.0000001%"),
        ] {
            assert_eq!(text.parse::<Share>().expect(text).to_string(), shown, "{text}");
        }
        for text in ["", "%", ".", "1", "1.0", "5", "101%", "-1%", "1e-2", "one", "0.0000000001", "1,5%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_exceeded_by_more_than_it_and_not_by_as_much() {
        let one_percent: Share = "1%".parse().expect("a share");
        assert!(!one_percent.is_exceeded(100, 10_000));
        assert!(one_percent.is_exceeded(101, 10_000));
        assert!(!one_percent.is_exceeded(0, 0) && !one_percent.is_exceeded(5, 0));
        let none: Share = "0%".parse().expect("a share");
        assert!(none.is_exceeded(1, u64::MAX) && !none.is_exceeded(0, 10));
        let all: Share = "100%".parse().expect("a share");
        assert!(!all.is_exceeded(10, 10));
    }
}
