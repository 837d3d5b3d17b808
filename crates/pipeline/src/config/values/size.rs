//! Numbers of bytes: `64MiB`, `4GiB`, `500kB`.
//!
//! Owns the units, by 1,024 and by 1,000, and the one way back to text. Does not own how much a setting may take (`config::model`), nor how
//! `memory` is divided (`wiring::bounds`).

use std::fmt;
use std::str::FromStr;

use super::{Kind, text_kind};

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
}

impl Size {
    /// A size of that many mebibytes.
    pub const fn mib(mib: u64) -> Self {
        Self { bytes: mib << 20 }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write a size like `64MiB`, `4GiB` or `500kB`";
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(format!("is no size; {HOW}"));
        }
        if unit.is_empty() {
            return Err(format!("has no unit; {HOW}"));
        }
        let unit = unit.strip_prefix(' ').unwrap_or(unit);
        let Some((_, unit_bytes)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("has an unknown unit; {HOW} (KiB, MiB, GiB, TiB, kB, MB, GB, TB, B)"));
        };
        let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit_bytes));
        Ok(Self { bytes: bytes.ok_or("is larger than any disk")? })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole =
            UNITS[..4].iter().find(|(_, unit)| self.bytes >= *unit && self.bytes.is_multiple_of(*unit));
        let (name, unit) = whole.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.bytes / unit)
    }
}

impl Kind for Size {
    const KIND: &'static str = "size";
    const CALLED: &'static str = "size";
    const EXAMPLE: &'static str = "64MiB";

    fn magnitude(&self) -> Option<u128> {
        Some(u128::from(self.bytes))
    }
}
text_kind!(Size);
