//! Results before a window is closed: early ones, and updates for late rows.
//!
//! Owns when a window *fires*, and which of its results are new since it last did. Does not own what panes hold (`panes`), nor closing.
//!
//! Seals are numbered by the step itself: the number is in its state, so a start after a crash continues with it. A result's version is the number
//! of the seal that it is part of, so of one key and window each result has a greater version than those before it, and none has a version twice.
//! The first seal of an empty state has one more than the wall clock in milliseconds, times 2^20, and its delta says so: a step that lost its state, or
//! was told to forget it, has greater versions than the rows that it wrote before. That takes a clock behind which the earlier state began, and fewer
//! than a million seals in each millisecond since.
//!
//! | a window fires with a seal                             | if                                              |
//! |--------------------------------------------------------|-------------------------------------------------|
//! | whose watermark is past another multiple of `early`     | it is open, and `early` is of event time        |
//! | that comes `early` after the last for this reason       | it is open, and `early` is of processing time   |
//! | whose watermark is at least its end                     | it is open, and late rows make `updates`        |
//! | whose watermark closes it                               | always: for the last time                       |
//!
//! It has a result for each key with a row since it last fired. With a *sign* a later result of a key does not replace the one before but takes it back: a row with the
//! values and the version of that, and the sign -1, comes before the new one, whose sign is 1 (`written`). All of this depends on rows, seals and watermarks alone, which are sealed; and whether a seal
//! was early is in its delta. So a start that applies the deltas knows what was written, and writes the same versions of what was not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dataflow::StateError;

use super::encoding::{Reader, damaged, put_len};
use super::kinds::{SIZE_MAX, Spans, Windows};
use super::plan::Plan;
use super::written::Written;

/// Seals for which there is a number of their own in each millisecond, as a power of two.
const SEALS_BITS: u32 = 20;

/// The number behind which those of a state begin that is empty at this time.
pub(super) fn first_number(wall_ms: i64) -> u64 {
    u64::try_from(wall_ms).map_or(0, |wall_ms| wall_ms.saturating_mul(1 << SEALS_BITS))
}

/// Panes of one window at the most where results come before it is closed: each of its results is merged from so many, again and again.
pub const PANES_MAX: i64 = 100;

/// Which results there are before a window is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emit {
    /// A result of open windows each time that the watermark passes a multiple of this; or that so much time has passed.
    pub early: Option<Duration>,
    /// Which time.
    pub clock: Clock,
    /// The first result once the watermark is at a window's end, and another with each seal that has late rows for it, up to the lateness.
    pub updates: bool,
    /// The column of the results that holds their version; it may be `None` with a `sign`.
    pub version: Option<String>,
    /// The column of the results that holds their sign: 1, or -1 for one that takes the one before it back. `None` for results that replace each other by their
    /// version.
    pub sign: Option<String>,
}

/// The time that early results go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// That of the records: the watermark.
    #[default]
    EventTime,
    /// That of the wall.
    ProcessingTime,
}

/// The same after the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Firing {
    early_ms: Option<i64>,
    clock: Clock,
    updates: bool,
    /// Whether results have a version.
    pub has_version: bool,
    /// Whether they have a sign, and are taken back before the next.
    pub has_sign: bool,
}

impl Emit {
    /// Whether windows of this kind can have it.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn check(&self, windows: Windows) -> Result<(), String> {
        let spans = windows.spans().map_err(|(setting, message)| format!("`{setting}`: {message}"))?;
        self.firing(spans).map(|_| ())
    }

    /// The same, and what it is then.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn firing(&self, spans: Spans) -> Result<Firing, String> {
        let panes = match spans {
            Spans::Hopping { size, pane, .. } => size / pane,
            Spans::Cumulative { size, step } => size / step,
            Spans::Session { .. } => {
                return Err("a session's bounds change as long as it is open, so that its earlier rows would stay in the table beside later \
                            ones; only windows with a `size` have results before they close"
                    .to_owned());
            }
        };
        if panes > PANES_MAX {
            return Err(format!(
                "a window is made of `{panes}` parts, and each of its results would be put together from all of them; at most {PANES_MAX} are \
                 possible here: use a longer `slide` or `step`"
            ));
        }
        let early_ms = match self.early {
            Some(early) if early.is_zero() || early > SIZE_MAX => {
                return Err(format!("`early`: `{early:?}` is not between 1 ms and 3650 days"));
            }
            early => early.map(|early| early.as_millis() as i64),
        };
        if early_ms.is_none() && !self.updates {
            return Err("it needs `early: 10s`, `updates: true` or both".to_owned());
        }
        if self.version.is_none() && self.sign.is_none() {
            return Err("several results of a key and window need a column that tells which of them holds: `version: version` for a \
                        ReplacingMergeTree, `sign: sign` for a CollapsingMergeTree, both for a VersionedCollapsingMergeTree"
                .to_owned());
        }
        Ok(Firing {
            early_ms,
            clock: self.clock,
            updates: self.updates,
            has_version: self.version.is_some(),
            has_sign: self.sign.is_some(),
        })
    }

    /// The words that a state is known by, behind others.
    pub(super) fn words(&self) -> String {
        let clock = match self.clock {
            Clock::EventTime => "",
            Clock::ProcessingTime => " of processing time",
        };
        let early =
            self.early.map_or(String::new(), |early| format!(", early `{}ms`{clock}", early.as_millis()));
        let column = |word: &str, name: &Option<String>| {
            name.iter().map(|name| format!(", {word} `{name}`")).collect()
        };
        let (version, sign): (String, String) =
            (column("version", &self.version), column("sign", &self.sign));
        format!("{early}, updates `{}`{version}{sign}", self.updates)
    }
}

impl Firing {
    /// Whether a seal that moves the watermark so, so long after the last one that was early, has results of every open window, whatever its end.
    pub fn is_early(self, (from_ms, to_ms): (i64, i64), passed_ms: i64) -> bool {
        self.early_ms.is_some_and(|early| match self.clock {
            Clock::EventTime => to_ms.div_euclid(early) > from_ms.div_euclid(early),
            Clock::ProcessingTime => passed_ms >= early,
        })
    }

    /// Whether an open window that ends then has results in a seal with this watermark, which is early or not.
    pub fn fires(self, is_early: bool, end: i64, to_ms: i64) -> bool {
        is_early || (self.updates && end <= to_ms)
    }
}

/// What was written of windows that are open.
#[derive(Default)]
pub(super) struct Fired {
    /// The number of the newest seal, 0 before there is any. Of what came with one seal: the number behind which it is, 0 unless it is the first.
    pub seals: u64,
    /// Whether that has results of every open window.
    pub is_early: bool,
    /// By the end of each window that has fired: the seal with which it last did.
    windows: BTreeMap<i64, u64>,
    /// The ends of windows in files that could not begin to fire with an early seal: they do as soon as they can.
    missed: BTreeSet<i64>,
    /// Their results, where later ones take them back.
    pub written: Written,
}

impl Fired {
    /// The seal with which a window last fired; 0 if it has not.
    pub fn last(&self, end: i64) -> u64 {
        self.windows.get(&end).copied().unwrap_or(0)
    }

    /// It fires with the newest seal.
    pub fn fire(&mut self, end: i64) {
        self.windows.insert(end, self.seals);
        self.missed.remove(&end);
    }

    /// They could not, with an early seal.
    pub fn miss(&mut self, ends: impl Iterator<Item = i64>) {
        self.missed.extend(ends);
    }

    /// Whether it could not, and has not fired since.
    pub fn has_missed(&self, end: i64) -> bool {
        self.missed.contains(&end)
    }

    /// It is closed.
    pub fn forget(&mut self, end: i64) {
        self.windows.remove(&end);
        self.missed.remove(&end);
        self.written.forget(end);
    }

    /// Memory held in bytes, about.
    pub fn memory_bytes(&self) -> usize {
        self.windows.len() * 32 + self.written.memory_bytes()
    }

    /// Writes all of it for a snapshot, but for the results.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.seals.to_le_bytes());
        put_len(to, self.windows.len());
        for (end, seal) in &self.windows {
            to.extend_from_slice(&end.to_le_bytes());
            to.extend_from_slice(&seal.to_le_bytes());
        }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When a window has fired twice, or with a seal that was not.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, StateError> {
        let seals = u64::from_le_bytes(from.array()?);
        let mut windows = BTreeMap::new();
        for _ in 0..from.len()? {
            let end = i64::from_le_bytes(from.array()?);
            let seal = u64::from_le_bytes(from.array()?);
            if seal == 0 || seal > seals || windows.insert(end, seal).is_some() {
                return Err(damaged("has a result that was not written"));
            }
        }
        Ok(Self { seals, windows, ..Self::default() })
    }

    /// Writes the results that later ones take back, if they do.
    pub fn write_results(&self, plan: &Plan, to: &mut Vec<u8>) {
        if plan.has_sign() {
            self.written.write(to);
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When they cannot be those of the windows that have fired.
    pub fn read_results(&mut self, plan: &Plan, from: &mut Reader<'_>) -> Result<(), StateError> {
        if plan.has_sign() {
            self.written = Written::read(plan, self.seals, from)?;
        }
        if self.written.ends().any(|end| !self.windows.contains_key(end)) {
            return Err(damaged("has results of a window that was not written"));
        }
        Ok(())
    }
}
