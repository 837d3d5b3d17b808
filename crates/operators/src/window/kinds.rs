//! Which windows there are, and when they end.
//!
//! Owns the arithmetic of times, windows and panes. Does not own what they hold (`panes`, `sessions`).
//!
//! | kind       | windows                                                                            |
//! |------------|------------------------------------------------------------------------------------|
//! | tumbling   | `[n * size, (n + 1) * size)`                                                       |
//! | hopping    | `[n * slide, n * slide + size)`: they overlap if `slide` is less than `size`       |
//! | cumulative | `[n * size, n * size + k * step)`, each up to `size` long                          |
//! | session    | of each key: from its first record to `gap` after its last one                     |
//!
//! A *pane* is the longest span that no window begins or ends within. A record goes into its pane alone, and a window's result is made of its panes.
//!
//! A session ends at the latest at the next whole multiple of `max`. That is a rule about times alone: where a session is cut does not
//! depend on which of its records came first.

use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;

/// The longest window, and the longest lateness: ten years, so that no sum of times overflows.
pub const SIZE_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Panes of one window at the most: its result is merged from so many parts.
pub const PANES_MAX: i64 = 10_000;

/// The windows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// One after the other.
    Tumbling {
        /// How long each is.
        size: Duration,
    },
    /// One each `slide`.
    Hopping {
        /// How long each is.
        size: Duration,
        /// From the start of one to that of the next; at most `size`.
        slide: Duration,
    },
    /// Growing ones, until the next begins.
    Cumulative {
        /// How long the longest is; a whole multiple of `step`.
        size: Duration,
        /// By how much each is longer than the one before.
        step: Duration,
    },
    /// Of records that are close together.
    Session {
        /// Records of a key that are closer than this are of one session.
        gap: Duration,
        /// Sessions end at its whole multiples; at least `gap`.
        max: Duration,
    },
}

/// The same in milliseconds, after the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spans {
    Hopping { size: i64, slide: i64, pane: i64 },
    Cumulative { size: i64, step: i64 },
    Session { gap: i64, max: i64 },
}

impl Windows {
    /// Whether its lengths fit each other.
    ///
    /// # Errors
    /// The setting that is out of its bounds, and how.
    pub fn check(self) -> Result<(), (&'static str, String)> {
        self.spans().map(|_| ())
    }

    /// Checked, and in milliseconds.
    ///
    /// # Errors
    /// The setting that is out of its bounds, and how.
    pub(super) fn spans(self) -> Result<Spans, (&'static str, String)> {
        let ms = |setting: &'static str, duration: Duration| match duration.as_millis() {
            0 => Err((setting, format!("`{duration:?}` is not between 1 ms and 3650 days"))),
            ms if duration > SIZE_MAX => {
                Err((setting, format!("`{ms}ms` is not between 1 ms and 3650 days")))
            }
            ms => Ok(ms as i64),
        };
        match self {
            Self::Tumbling { size } => {
                let size = ms("size", size)?;
                Ok(Spans::Hopping { size, slide: size, pane: size })
            }
            Self::Hopping { size, slide } => {
                let (size, slide) = (ms("size", size)?, ms("slide", slide)?);
                if slide > size {
                    let message = "the slide is more than the `size` of a window: records between two windows would belong to none";
                    return Err(("slide", message.to_owned()));
                }
                let pane = common(size, slide);
                if size / pane > PANES_MAX {
                    let panes = size / pane;
                    let message = format!(
                        "a window would consist of `{panes}` parts, and at most {PANES_MAX} are allowed; write a longer slide that divides `size`"
                    );
                    return Err(("slide", message));
                }
                Ok(Spans::Hopping { size, slide, pane })
            }
            Self::Cumulative { size, step } => {
                let (size, step) = (ms("size", size)?, ms("step", step)?);
                if size % step != 0 || size / step > PANES_MAX {
                    let message =
                        format!("`size` must be a whole multiple of the step, at most {PANES_MAX} times");
                    return Err(("step", message));
                }
                Ok(Spans::Cumulative { size, step })
            }
            Self::Session { gap, max } => {
                let (gap, max) = (ms("gap", gap)?, ms("max", max)?);
                if max < gap {
                    return Err(("max", "the `max` of sessions is less than their `gap`".to_owned()));
                }
                Ok(Spans::Session { gap, max })
            }
        }
    }
}

/// The greatest common divisor.
fn common(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common(b, a % b) }
}

/// The greatest multiple that is not above a time.
fn down_to(time_ms: i64, multiple: i64) -> i64 {
    time_ms - time_ms.rem_euclid(multiple)
}

impl Spans {
    /// The words that a state is known by.
    pub fn words(self) -> String {
        match self {
            Self::Hopping { size, slide, .. } if size == slide => format!("size `{size}ms`"),
            Self::Hopping { size, slide, .. } => format!("size `{size}ms`, slide `{slide}ms`"),
            Self::Cumulative { size, step } => format!("size `{size}ms`, step `{step}ms`"),
            Self::Session { gap, max } => format!("gap `{gap}ms`, max `{max}ms`"),
        }
    }

    /// How long a pane is; for sessions, what lies between two times at which all of them end.
    pub fn pane(self) -> i64 {
        match self {
            Self::Hopping { pane, .. } => pane,
            Self::Cumulative { step, .. } => step,
            Self::Session { max, .. } => max,
        }
    }

    /// Panes of a window at the most.
    pub fn panes(self) -> usize {
        let panes = match self {
            Self::Hopping { size, pane, .. } => size / pane,
            Self::Cumulative { size, step } => size / step,
            Self::Session { .. } => 1,
        };
        usize::try_from(panes).unwrap_or(1)
    }

    /// The start of the pane that a time lies in; `None` for a time that is unknown or beyond all windows.
    pub fn pane_of(self, time_ms: i64, lateness_ms: i64) -> Option<i64> {
        let start = time_ms.checked_sub(time_ms.rem_euclid(self.pane()))?;
        let (longest, slide) = match self {
            Self::Hopping { size, slide, .. } => (size, slide),
            Self::Cumulative { size, .. } => (size, size),
            Self::Session { gap, max } => (max, gap),
        };
        let end = start.checked_add(longest)?.checked_add(lateness_ms)?;
        let begin = start.checked_sub(longest)?.checked_sub(slide)?;
        (time_ms != TIME_UNKNOWN_MS && end < i64::MAX && begin > i64::MIN).then_some(start)
    }

    /// The end of the last window that a pane is a part of.
    pub fn last_end(self, pane: i64) -> i64 {
        match self {
            Self::Hopping { size, slide, .. } => down_to(pane, slide) + size,
            Self::Cumulative { size, .. } => down_to(pane, size) + size,
            Self::Session { max, .. } => pane + max,
        }
    }

    /// The first end of a window after a time. After that of the last window there is, it may be beyond all numbers, and is the greatest then.
    pub fn end_after(self, time_ms: i64) -> i64 {
        match self {
            Self::Hopping { size, slide, .. } => down_to(time_ms - size, slide).saturating_add(slide + size),
            Self::Cumulative { step, .. } => down_to(time_ms, step).saturating_add(step),
            Self::Session { max, .. } => down_to(time_ms, max).saturating_add(max),
        }
    }

    /// The start of the window with this end.
    pub fn start_of(self, end: i64) -> i64 {
        match self {
            Self::Hopping { size, .. } => end - size,
            Self::Cumulative { size, .. } => down_to(end - 1, size),
            Self::Session { max, .. } => end - max,
        }
    }

    /// Whether panes may be put together once a window of them is closed, for every later window with one of them has all of them.
    pub fn grows(self) -> bool {
        matches!(self, Self::Cumulative { .. })
    }
}
