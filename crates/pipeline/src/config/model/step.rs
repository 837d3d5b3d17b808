//! `steps:`: what happens to rows between source and table.
//!
//! Owns the keyword of each step, and the settings of `dedup` and `window`. Does not own those of `join` and `lookup` (modules beside this
//! one), the rules between steps (`config::rules`), or what SQL in a step means (`plan`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::join::JoinStep;
use super::lookup::LookupStep;
use super::written::Written;
use crate::config::values::{Identifier, OneOrMany, Pairs, Period, Size, Window};

/// One step: its keyword with its settings. A record that `filter` or `sql` drops before `dedup` does not count as seen; one that they drop
/// behind it does. A record that fails in a step never counts as seen.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [{"required": ["dedup"]}, {"required": ["filter"]}, {"required": ["select"]}, {"required": ["sql"]}, {"required": ["window"]},
        {"required": ["join"]}, {"required": ["lookup"]}]
))]
pub struct Step {
    /// The names of the inputs whose rows this step processes (only for steps without state). Default: all. Such steps come before the steps for the rows of all inputs.
    /// In a pipeline with a `join` also the names of joins, and steps with state have it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<OneOrMany<Identifier>>,

    /// Drops records whose key was seen before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<Dedup>,

    /// Keeps only the records for which this SQL expression is true. A record for which it cannot be computed becomes a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,

    /// The columns of the result: name to SQL expression. `"*": "*"` keeps all columns that are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub select: Option<Pairs>,

    /// A query over the rows of `input`: `SELECT … FROM input WHERE …`. `UNNEST(array)` among its columns makes a row of each item. With `FROM TUMBLE(input, time, INTERVAL '1 minute') GROUP BY …`, or `HOP`,
    /// `CUMULATE` or `SESSION`, it is a `window`; with `FROM a JOIN b ON …`, of two inputs, a `join`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,

    /// Aggregates by key and window of event time. The steps behind it see its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowStep>,

    /// Joins the rows of two inputs by key and time: those near in time, or each left row with the version of the right side at its time. The steps behind it see the joined rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinStep>,

    /// Gives rows the columns of a row elsewhere with the same key: in a file, or in a ClickHouse table or dictionary. Before the first step with state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<LookupStep>,

    /// Where the file has it, if a query of the file is several steps.
    #[serde(skip)]
    #[schemars(skip)]
    pub written: Option<Written>,
}

impl Step {
    /// Whether it works on the rows of the input of this name.
    pub fn reads(&self, input: &str) -> bool {
        self.from.as_ref().is_none_or(|from| from.as_slice().iter().any(|name| name.as_str() == input))
    }

    /// Whether it has a state.
    pub fn is_stateful(&self) -> bool {
        self.dedup.is_some() || self.window.is_some() || self.join.is_some()
    }

    /// The step's word.
    pub fn word(&self) -> &'static str {
        match self {
            Self { filter: Some(_), .. } => "filter",
            Self { select: Some(_), .. } => "select",
            Self { sql: Some(_), .. } => "sql",
            Self { window: Some(_), .. } => "window",
            Self { join: Some(_), .. } => "join",
            Self { lookup: Some(_), .. } => "lookup",
            // One that names none was reported by the schema.
            Self {
                filter: None, select: None, sql: None, window: None, join: None, lookup: None, ..
            } => "dedup",
        }
    }
}

/// Drops records whose key was seen before. A record is a duplicate if and only if a kept record of its key lies within
/// the window. A record that becomes a dead letter does not count as seen.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dedup {
    /// The columns that make the key, named as in the table; a column that the table does not store is named as the step before gives it, or as
    /// under `source.fields`. With `sinks`, and where steps follow, each is named as the step before gives it. NULL is a value like any other.
    #[schemars(
        length(min = 1, max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub key: Vec<Identifier>,

    /// How far apart in time two records with the same key may be and still count as duplicates.
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d",
        "x-why" = "time is cut into buckets, and a bucket holds at least a second of records"
    ))]
    pub window: Window,

    /// The column that holds a record's time, which no step may compute. The broker's timestamp if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Identifier>,

    /// Which of the records of one key is kept.
    #[serde(default)]
    pub keep: Keep,

    /// What happens to records that are older than the history that is kept and whose key is no longer known, so that nobody can say
    /// whether they are duplicates.
    #[serde(default)]
    pub late: Late,

    /// How far ahead of the others of its partition, or of this machine's clock, a record may move the watermark. One that is further
    /// ahead is kept and deduplicated by its own time, but frees no history, unless most of the newest records are there.
    /// `1h` or a quarter of the window, whichever is less, if left out; at most a quarter of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub future_max: Option<Period>,

    /// Memory for keys, about 23 bytes each. When it is full, the earliest keys are spilled to files in the
    /// store, and less than 2 bytes a key stay in memory. Taken from the pipeline's `memory`, at most a quarter of it.
    #[serde(default = "default_memory")]
    #[schemars(extend(
        "x-least" = "1MiB", "x-most" = "24GiB",
        "x-why" = "each spill writes files, which would be too small with less; more than a billion keys cannot be numbered"
    ))]
    pub memory: Size,
}

fn default_memory() -> Size {
    Size { bytes: operators::dedup::OPEN_BYTES_DEFAULT }
}

/// Aggregates records by key and window of event time. A window is closed, and its results are written, once the watermark has passed its end and
/// `lateness`; they never change afterwards. The next step, or the table, gets the columns of the key, `window_start`, `window_end` and the
/// aggregates.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowStep {
    /// A name for the step, by which `sinks` can take what else comes of it: `from: NAME.late` are the records that it finds late.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<Identifier>,

    /// The columns that make the key: a window has one result for each. NULL is a value like any other. Without a key there is one result a
    /// window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub key: Vec<Identifier>,

    /// The column that holds a record's time, which no step may compute. The broker's timestamp if left out. Behind another window it must be
    /// left out: the time of a result is the last millisecond of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Identifier>,

    /// How long a window is. Windows begin at whole multiples of it since 1970, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d",
        "x-why" = "a shorter one has hardly more than one record a key; the watermark moves with batches",
        "x-why-most" = "its records are held as long"
    ))]
    pub size: Option<Period>,

    /// Windows of `size` that overlap: how long after one the next begins, at its whole multiples; at most `size`. A record is in each that contains its
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d", "x-why" = "the watermark moves with batches",
        "x-why-most" = "its records are held as long"
    ))]
    pub slide: Option<Period>,

    /// Windows that grow by `step` up to `size`, which is a whole multiple of it: each has a result of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d", "x-why" = "the watermark moves with batches",
        "x-why-most" = "its records are held as long"
    ))]
    pub step: Option<Period>,

    /// Sessions in place of windows of a `size`: records of a key that are less than this apart. A session's window ends `gap` after its last record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d", "x-why" = "the watermark moves with batches",
        "x-why-most" = "its records are held as long"
    ))]
    pub gap: Option<Period>,

    /// Sessions end at its whole multiples since 1970, in UTC: `1d` unless it is given, so at midnight. At least `gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "3650d",
        "x-why" = "a session without an end would hold its state for ever"
    ))]
    pub max: Option<Period>,

    /// How far the watermark must be past the end of a window to close it, that is, how much later than others a record may arrive. A record
    /// whose window is closed is late: it is dropped and counted.
    #[serde(default = "default_lateness")]
    #[schemars(extend("x-most" = "3650d", "x-why" = "its windows are held as long"))]
    pub lateness: Period,

    /// Results of windows that are still open: each is a row with a version, so that a ReplacingMergeTree keeps the newest of a key and window, or with a sign for a
    /// CollapsingMergeTree. Windows with a `size` alone. If left out, a window has one result for each key, which never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emit: Option<Emit>,

    /// What becomes of the last windows when every input has ended (files without `follow`): `wait` leaves them open for records of a later
    /// run, `close` writes their results, and records of those windows that a later run reads are late. `run --drain` never closes them.
    #[serde(default, skip_serializing_if = "AtEnd::is_wait")]
    pub at_end: AtEnd,

    /// The columns of the results: name to an aggregate, as in `count()`, `sum(amount)` or `sum(amount) where status = 'paid'`. docs/windows.md lists the
    /// functions. Expressions that are not columns are computed before the window.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64, "x-why" = "each is kept for every key of every open window"))]
    pub aggregates: Pairs,

    /// Memory for open windows. Beyond it the earliest are written to files in the store; with a `sign` under `emit` the pipeline stops, and says so.
    /// Taken from the pipeline's `memory`, at most a quarter of it.
    #[serde(default = "default_window_memory")]
    #[schemars(extend(
        "x-least" = "1MiB", "x-most" = "24GiB",
        "x-why" = "with less there is hardly a key in memory"
    ))]
    pub memory: Size,
}

impl Default for WindowStep {
    fn default() -> Self {
        Self {
            name: None,
            key: Vec::new(),
            time: None,
            size: None,
            slide: None,
            step: None,
            gap: None,
            max: None,
            lateness: default_lateness(),
            emit: None,
            at_end: AtEnd::Wait,
            aggregates: Pairs(Vec::new()),
            memory: default_window_memory(),
        }
    }
}

/// Results before a window is closed: of each key that had a record since the window last had results.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Emit {
    /// Results of all open windows each time that the watermark passes a whole multiple of this; or, with `clock: processing_time`, so long after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "1s", "x-most" = "3650d", "x-why" = "the watermark moves with batches"))]
    pub early: Option<Period>,

    /// The time that `early` goes by: `event_time` follows the records, also when they are read faster or slower than they were made; `processing_time` is that
    /// of the wall clock, and gives results of a topic that has fallen silent too.
    #[serde(default, skip_serializing_if = "Clock::is_event_time")]
    pub clock: Clock,

    /// The first results of a window once the watermark has passed its end, without waiting for `lateness`; records that come later, but within `lateness`,
    /// give new ones with the batch that they are in.
    #[serde(default)]
    pub updates: bool,

    /// The column of the results that holds their version: a UInt64 that grows with each result of a key and window. For a ReplacingMergeTree, or with `sign` for a
    /// VersionedCollapsingMergeTree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Identifier>,

    /// The column of the results that holds their sign, an Int8: 1, or -1 for a row that takes the result before it back, with the values of that. For a
    /// CollapsingMergeTree, or with `version` for a VersionedCollapsingMergeTree. The step then keeps what was last written of each key of its open windows, which takes
    /// as much memory again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Identifier>,
}

/// The time that early results go by.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The watermark.
    #[default]
    EventTime,
    /// The wall clock.
    ProcessingTime,
}

impl Clock {
    fn is_event_time(&self) -> bool {
        *self == Self::EventTime
    }
}

/// What becomes of open windows, and of rows that wait in a join, when every input has ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// They wait for the records of a later run.
    #[default]
    Wait,
    /// They close, and their rows come out.
    Close,
}

impl AtEnd {
    pub(super) fn is_wait(&self) -> bool {
        *self == Self::Wait
    }
}

impl WindowStep {
    /// The shortest time from the end of one window to that of the next.
    pub fn shortest(&self) -> Period {
        self.slide.or(self.step).or(self.size).or(self.gap).unwrap_or(Period { ms: 0 })
    }

    /// How long windows are, or how long a session waits.
    pub fn longest(&self) -> Period {
        self.size.or(self.gap).unwrap_or(Period { ms: 0 })
    }
}

fn default_lateness() -> Period {
    Period { ms: 0 }
}

fn default_window_memory() -> Size {
    Size { bytes: operators::window::MEMORY_DEFAULT }
}

/// Which of the records of one key is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first to be read.
    #[default]
    First,
    /// The last: the table replaces the row of a key by each later one, as with `upsert`. Of several records the last is the one that was read last or, with `time`, the one
    /// with the greatest value of that column of the table. The step is the last of the pipeline, with `window: unbounded`.
    Last,
}

/// What happens to records that are too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// They are written to the table, and counted as `late_kept`.
    #[default]
    Keep,
    /// They go to the dead letters.
    DeadLetter,
    /// They are dropped, and counted.
    Drop,
}
