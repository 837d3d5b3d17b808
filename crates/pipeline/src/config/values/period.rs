//! Lengths of time: `200ms`, `1h30m`, `8h`.
//!
//! Owns the units, that each stands once and the larger first, and the one way back to text. Does not own how long a setting may be
//! (`config::model`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Kind, text_kind};

/// Units, the largest first, with their milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A length of time in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period {
    /// Milliseconds.
    pub ms: u64,
}

impl Period {
    /// A period of that many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self { ms: seconds * 1_000 }
    }

    /// The same as the standard library's type.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write a length of time like `200ms`, `1s`, `1h30m` or `7d`";
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("has no unit; {HOW}"));
        }
        let mut rest = text;
        let mut total_ms = 0u64;
        let mut unit_before = u64::MAX;
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (unit, tail) = tail.split_at(letters);
            let unit_ms = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
            let (Some(unit_ms), false) = (unit_ms, number.is_empty()) else {
                return Err(format!("is no length of time; {HOW}"));
            };
            if unit_ms >= unit_before {
                return Err(format!("has its units out of order; {HOW}, larger units first"));
            }
            unit_before = unit_ms;
            total_ms = number
                .parse::<u64>()
                .ok()
                .and_then(|n| n.checked_mul(unit_ms))
                .and_then(|ms| ms.checked_add(total_ms))
                .ok_or("is longer than any clock runs")?;
            rest = tail;
        }
        if text.is_empty() { Err(format!("is empty; {HOW}")) } else { Ok(Self { ms: total_ms }) }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ms == 0 {
            return f.write_str("0ms");
        }
        let mut rest = self.ms;
        for (unit, unit_ms) in UNITS {
            if rest >= unit_ms {
                write!(f, "{}{unit}", rest / unit_ms)?;
                rest %= unit_ms;
            }
        }
        Ok(())
    }
}

impl Kind for Period {
    const KIND: &'static str = "period";
    const CALLED: &'static str = "length of time";
    const EXAMPLE: &'static str = "1h30m";

    fn magnitude(&self) -> Option<u128> {
        Some(u128::from(self.ms))
    }
}
text_kind!(Period);

/// How far apart two records of one key may lie and still be duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Any distance; the state grows with the number of keys.
    Unbounded,
    /// At most this.
    Within(Period),
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unbounded" => Ok(Self::Unbounded),
            other => other.parse().map(Self::Within).map_err(|why: String| format!("{why}, or `unbounded`")),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str("unbounded"),
            Self::Within(period) => period.fmt(f),
        }
    }
}

impl Kind for Window {
    const KIND: &'static str = "window";
    const CALLED: &'static str = "length of time, or `unbounded`";
    const EXAMPLE: &'static str = "8h";

    fn magnitude(&self) -> Option<u128> {
        match self {
            Self::Unbounded => None,
            Self::Within(period) => period.magnitude(),
        }
    }
}
text_kind!(Window);
