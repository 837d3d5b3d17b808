//! The arithmetic of time: which bucket a record is in, which buckets are near, which are over.
//!
//! Owns the rule in numbers, as pure functions. Does not own what is kept (`kept`) nor when the watermark moves (the engine).
//!
//! A window is cut into [`SPAN`] buckets. Two times are *near* if their bucket numbers differ by at most `SPAN`: that, and not
//! the distance in milliseconds, is the rule, so that a decision never depends on where inside a bucket a record lies.
//!
//! ```text
//!            floor                      watermark
//!   freed      |<--------- SPAN -------->|<- SLACK ->|     (in buckets; the watermark's own bucket is at the right end)
//!   -----------+-------------------------+-----------+-----> time
//!                                  late <| in time
//! ```
//!
//! A record that is at most `SLACK` buckets behind the watermark finds all of the history that its decision needs.

use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;

use crate::ConfigError;

/// Buckets in a window (`W` in the rule).
pub const SPAN: u64 = 16;

/// Buckets behind the watermark in which a record still finds the whole history: a quarter of the window.
pub const SLACK: u64 = 4;

/// The shortest window: below it a bucket would be finer than the millisecond that times have.
pub const WINDOW_MS_MIN: u64 = SPAN;

/// The longest window, ten years. Whoever wants more wants no window.
pub const WINDOW_MS_MAX: u64 = 3650 * 24 * 3600 * 1000;

/// The bucket of records without a time as long as no watermark is known. Far from every other bucket.
pub const UNPLACED: i64 = i64::MIN;

/// Times beyond ±73 million years are taken to be at that end, so that sums of bucket numbers cannot overflow.
const TIME_MS_END: i64 = 1 << 61;

/// How far apart two records of one key may be to be duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Any two records of one key are duplicates; all times fall into bucket 0.
    Unbounded,
    /// Two records of one key are duplicates if their buckets are near.
    Sliding {
        /// As configured, in milliseconds.
        window_ms: u64,
        /// `window_ms / SPAN`, at least 1.
        width_ms: u64,
    },
}

impl Window {
    /// The window of that length; `None` is unbounded.
    ///
    /// # Errors
    /// When the length is below [`WINDOW_MS_MIN`] or above [`WINDOW_MS_MAX`].
    pub fn new(length: Option<Duration>) -> Result<Self, ConfigError> {
        let Some(length) = length else { return Ok(Self::Unbounded) };
        let bounds = u128::from(WINDOW_MS_MIN)..=u128::from(WINDOW_MS_MAX);
        if !bounds.contains(&length.as_millis()) {
            return Err(ConfigError::Setting {
                setting: "dedup.window",
                message: format!(
                    "`{length:?}` is outside of `{WINDOW_MS_MIN}ms` to `{}d`; write `unbounded` to keep every key",
                    WINDOW_MS_MAX / (24 * 3600 * 1000)
                ),
            });
        }
        let window_ms = u64::try_from(length.as_millis()).expect("at most WINDOW_MS_MAX");
        Ok(Self::Sliding { window_ms, width_ms: (window_ms / SPAN).max(1) })
    }

    /// The bucket of a record. A record without a time is taken to be at the watermark of the last seal, which is a fact of the
    /// journal; before there is one it is in [`UNPLACED`].
    pub fn place(self, time_ms: i64, watermark: Option<i64>) -> i64 {
        match self {
            Self::Sliding { .. } if time_ms == TIME_UNKNOWN_MS => watermark.unwrap_or(UNPLACED),
            _ => self.bucket(time_ms),
        }
    }

    /// As [`place`](Self::place), for one time after the other.
    pub fn placing(self, watermark: Option<i64>) -> Placing {
        Placing { window: self, watermark, from_ms: 0, until_ms: 0, bucket: 0 }
    }

    /// The bucket of a known time.
    pub fn bucket(self, time_ms: i64) -> i64 {
        match self {
            Self::Unbounded => 0,
            Self::Sliding { width_ms, .. } => {
                let width_ms = i64::try_from(width_ms).expect("at most WINDOW_MS_MAX / SPAN");
                time_ms.clamp(-TIME_MS_END, TIME_MS_END).div_euclid(width_ms)
            }
        }
    }

    /// Times that are in a bucket: from the first on until before the second. Of the last bucket on either side, those are left out that are
    /// beyond what a time can be.
    fn times(self, bucket: i64) -> (i64, i64) {
        match self {
            Self::Unbounded => (TIME_UNKNOWN_MS + 1, i64::MAX),
            Self::Sliding { width_ms, .. } => {
                let width_ms = i64::try_from(width_ms).unwrap_or(i64::MAX);
                let from_ms = bucket.saturating_mul(width_ms);
                let within = |time_ms: i64| time_ms.clamp(-TIME_MS_END, TIME_MS_END);
                (within(from_ms), within(from_ms.saturating_add(width_ms)))
            }
        }
    }

    /// The bucket of a watermark; `None` if it is unknown or nothing ever expires.
    pub fn watermark(self, watermark_ms: i64) -> Option<i64> {
        match self {
            Self::Sliding { .. } if watermark_ms != TIME_UNKNOWN_MS => Some(self.bucket(watermark_ms)),
            _ => None,
        }
    }
}

/// Places times that come roughly in order: most are in the bucket of the one before, which is seen without a division.
#[derive(Clone, Copy, Debug)]
pub struct Placing {
    window: Window,
    watermark: Option<i64>,
    /// The times of `bucket`; none of them is the one that stands for an unknown time.
    from_ms: i64,
    until_ms: i64,
    bucket: i64,
}

impl Placing {
    /// The bucket of a record.
    #[inline(always)]
    pub fn place(&mut self, time_ms: i64) -> i64 {
        if (self.from_ms..self.until_ms).contains(&time_ms) { self.bucket } else { self.turn_to(time_ms) }
    }

    #[cold]
    fn turn_to(&mut self, time_ms: i64) -> i64 {
        let bucket = self.window.place(time_ms, self.watermark);
        if time_ms != TIME_UNKNOWN_MS {
            (self.from_ms, self.until_ms) = self.window.times(bucket);
            self.bucket = bucket;
        }
        bucket
    }
}

/// True if records of one key in these buckets are duplicates.
#[inline]
pub fn near(a: i64, b: i64) -> bool {
    a.abs_diff(b) <= SPAN
}

/// The first bucket that is kept when the watermark is in bucket `watermark`.
pub fn floor(watermark: i64) -> i64 {
    watermark.saturating_sub_unsigned(SPAN + SLACK)
}

/// True if some of the history that a record in `bucket` needs may have been freed.
pub fn is_late(bucket: i64, watermark: Option<i64>) -> bool {
    watermark.is_some_and(|w| bucket.saturating_sub_unsigned(SPAN) < floor(w))
}

#[cfg(test)]
mod tests;
