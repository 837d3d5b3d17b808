//! Where a topic is read from when the pipeline has never read it.
//!
//! Owns its two words and the form of a time. Does not own the position that a source finds for it (`sources`), nor where a known partition
//! goes on: the journal has that.

use std::fmt;
use std::str::FromStr;

use super::{Kind, text_kind};

/// The first record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record that the topic still holds.
    Earliest,
    /// The first record written after the pipeline's first start.
    Latest,
    /// The first record whose broker timestamp is at or after this moment, in Unix milliseconds.
    At {
        /// Unix milliseconds.
        ms: i64,
    },
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            other => match other.parse::<jiff::Timestamp>() {
                Ok(time) => Ok(Self::At { ms: time.as_millisecond() }),
                Err(_) => {
                    Err("is neither `earliest`, `latest` nor a time like `2026-01-31T08:00:00Z`".into())
                }
            },
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::At { ms } => match jiff::Timestamp::from_millisecond(*ms) {
                Ok(time) => time.fmt(f),
                Err(_) => write!(f, "{ms}ms"),
            },
        }
    }
}

impl Kind for Start {
    const KIND: &'static str = "start";
    const CALLED: &'static str = "`earliest`, `latest`, or a time in RFC 3339";
    const EXAMPLE: &'static str = "earliest";
}
text_kind!(Start);
