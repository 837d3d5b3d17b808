//! A window in place of dedup: what a result is, the step that makes it a row, and the table of late records.
//!
//! Owns the form of results as rows, so that the oracle can read them. Does not own the rule of the window, which the oracle computes for
//! itself (`oracle::windows`).

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt64Type};
use dataflow::{Batch, Operator, OperatorError, Schema, Transform, Transformed};
use engine::tables::{Side, SideRows};
use operators::window::spilled::Sizes;
use operators::window::{Aggregate, Clock, Emit, Function, Windows};
use operators::{Window, WindowConfig};

use crate::records::{Row, schema, to_columns};
use crate::step::Remade;

/// Which windows there are; all lengths in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One each `slide_ms`: they overlap if that is less than `size_ms`.
    Hopping {
        /// How long it is.
        size_ms: i64,
        /// From the start of one to that of the next.
        slide_ms: i64,
    },
    /// Growing ones, until the next begins.
    Cumulative {
        /// How long the longest is.
        size_ms: i64,
        /// By how much each is longer than the one before.
        step_ms: i64,
    },
    /// Of records of a key that are close together.
    Sessions {
        /// Records that are closer than this are of one session.
        gap_ms: i64,
        /// Sessions end at its whole multiples.
        max_ms: i64,
    },
}

/// Results before a window is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emits {
    /// Results of open windows each time that so much time has passed, milliseconds.
    pub early_ms: Option<i64>,
    /// Whether that is time of the wall, and not of the records.
    pub is_of_the_wall: bool,
    /// Whether there is a result at a window's end, and another with each seal that has late rows for it.
    pub updates: bool,
}

/// A window of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregates {
    /// Which windows there are.
    pub windows: Kind,
    /// How late a record may be, milliseconds.
    pub lateness_ms: i64,
    /// Results before a window is closed, if there are any.
    pub emits: Option<Emits>,
    /// The place of the table that takes late records; `None` if they are dropped.
    pub beside: Option<usize>,
    /// Whether open windows are in files, whatever the seed.
    pub spills: bool,
    /// Whether they close when every input has ended.
    pub closes: bool,
    /// The window over the results of this one, if there is one.
    pub behind: Option<Behind>,
}

/// A window over the results of another: one after the other, by the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// How long it is, milliseconds.
    pub size_ms: i64,
    /// How late a result may be, milliseconds.
    pub lateness_ms: i64,
}

impl Behind {
    /// As a window of records.
    pub fn aggregates(self) -> Aggregates {
        let Self { size_ms, lateness_ms } = self;
        let windows = Kind::Hopping { size_ms, slide_ms: size_ms };
        Aggregates {
            windows,
            lateness_ms,
            emits: None,
            beside: None,
            spills: false,
            closes: false,
            behind: None,
        }
    }

    /// The step, behind a window with these results.
    fn window(self, results: &Schema, closes: bool, is_in_files: bool) -> Window {
        let duration = |ms: i64| Duration::from_millis(ms as u64);
        let config = WindowConfig {
            key: vec!["key".to_owned()],
            windows: Windows::Hopping { size: duration(self.size_ms), slide: duration(self.size_ms) },
            lateness: duration(self.lateness_ms),
            emit: None,
            aggregates: vec![
                Aggregate::new("n", Function::Count, None),
                Aggregate::new("sum", Function::Sum, Some("sum")),
                Aggregate::new("least", Function::Min, Some("least")),
                Aggregate::new("greatest", Function::Max, Some("greatest")),
            ],
        };
        let window = Window::new(results, &config).expect("the windows of a plan are valid");
        let window = window.with_close_at_end(closes);
        if is_in_files { window.with_sizes(TINY) } else { window }
    }
}

/// What the oracle compares: rows of one key in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Result {
    /// The window's first millisecond.
    pub start_ms: i64,
    /// The millisecond after its last.
    pub end_ms: i64,
    /// The key.
    pub key: u64,
    /// How many records.
    pub count: u64,
    /// Those of them that are in no later window.
    pub last: u64,
    /// The sum, the least and the greatest of their ids.
    pub ids: [u64; 3],
}

impl Result {
    /// Of no record.
    pub fn none(start_ms: i64, end_ms: i64, key: u64) -> Self {
        Self { start_ms, end_ms, key, count: 0, last: 0, ids: [0, u64::MAX, 0] }
    }

    /// Takes a record in; `is_last` if it is in no later window.
    pub fn add(&mut self, id: u64, is_last: bool) {
        let [sum, least, greatest] = self.ids;
        self.count += 1;
        self.last += u64::from(is_last);
        self.ids = [sum + id, least.min(id), greatest.max(id)];
    }

    /// Takes a result of another window in.
    pub fn add_result(&mut self, other: &Self) {
        let ([sum, least, greatest], [other_sum, other_least, other_greatest]) = (self.ids, other.ids);
        (self.count, self.last) = (self.count + 1, self.last + 1);
        self.ids = [sum + other_sum, least.min(other_least), greatest.max(other_greatest)];
    }

    /// As a row of the table. Two results of one window and key have one id, and the same columns but for the version and what they count.
    pub fn row(&self, windows: Kind, version: Option<u64>) -> Row {
        let [sum, least, greatest] = self.ids;
        let second = match (version, windows) {
            (Some(version), _) => version,
            (None, Kind::Sessions { .. }) => self.start_ms as u64,
            (None, Kind::Hopping { .. } | Kind::Cumulative { .. }) => self.key,
        };
        // Keys are below 2^10; of some hundred records all numbers are small.
        [(self.end_ms as u64) << 10 | self.key, second, self.count << 48 | sum << 24 | least << 12 | greatest]
    }

    /// The same where the records are rows of a join. Their ids are too large to stand beside each other, and are mixed.
    pub fn row_of_pairs(&self) -> Row {
        let mix = |mixed: u64, id: &u64| (mixed ^ *id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mixed = self.ids.iter().fold(0, mix);
        [(self.end_ms as u64) << 10 | self.key, self.key, self.count << 48 | mixed >> 16]
    }
}

impl Aggregates {
    /// The steps of a pipeline; with most windows in files, if that is asked for.
    pub fn steps(self, is_in_files: bool) -> Vec<Box<dyn Operator>> {
        let first = self.window(is_in_files);
        let second = self.behind.map(|behind| behind.window(first.output(), self.closes, is_in_files));
        let mut steps: Vec<Box<dyn Operator>> = vec![Box::new(first)];
        steps.extend(second.map(|second| -> Box<dyn Operator> { Box::new(second) }));
        let windows = self.last_windows();
        steps.push(Box::new(Remade::new("results", move |batch| to_results(windows, false, batch))));
        steps
    }

    /// The steps behind those that make rows of the pairs of a join, which have the columns of a record.
    pub fn steps_of_pairs(self, is_in_files: bool) -> Vec<Box<dyn Operator>> {
        let results = Remade::new("results", move |batch| to_results(self.windows, true, batch));
        vec![Box::new(self.window(is_in_files)), Box::new(results)]
    }

    /// The first of them.
    pub fn window(self, is_in_files: bool) -> Window {
        let duration = |ms: i64| Duration::from_millis(ms as u64);
        let emit = |emits: Emits| Emit {
            early: emits.early_ms.map(duration),
            clock: if emits.is_of_the_wall { Clock::ProcessingTime } else { Clock::EventTime },
            updates: emits.updates,
            version: Some(VERSION.to_owned()),
            sign: None,
        };
        let config = WindowConfig {
            key: vec!["key".to_owned()],
            windows: match self.windows {
                Kind::Hopping { size_ms, slide_ms } => {
                    Windows::Hopping { size: duration(size_ms), slide: duration(slide_ms) }
                }
                Kind::Cumulative { size_ms, step_ms } => {
                    Windows::Cumulative { size: duration(size_ms), step: duration(step_ms) }
                }
                Kind::Sessions { gap_ms, max_ms } => {
                    Windows::Session { gap: duration(gap_ms), max: duration(max_ms) }
                }
            },
            lateness: duration(self.lateness_ms),
            emit: self.emits.map(emit),
            aggregates: vec![
                Aggregate::new("n", Function::Count, None),
                Aggregate::new("sum", Function::Sum, Some("id")),
                Aggregate::new("least", Function::Min, Some("id")),
                Aggregate::new("greatest", Function::Max, Some("id")),
            ],
        };
        let window = Window::new(&schema(), &config).expect("the windows of a plan are valid");
        let window = window.with_late_rows(self.beside.is_some()).with_close_at_end(self.closes);
        if is_in_files && self.can_spill() { window.with_sizes(TINY) } else { window }
    }

    /// Whether a session of one record of this time alone would be closed.
    pub fn is_late_alone(self, time_ms: i64, watermark_ms: i64) -> bool {
        let Kind::Sessions { gap_ms, max_ms } = self.windows else { return false };
        let end_ms = (time_ms + gap_ms).min(time_ms - time_ms.rem_euclid(max_ms) + max_ms);
        end_ms + self.lateness_ms <= watermark_ms
    }

    /// Which windows the results are of that go to the tables.
    pub fn last_windows(self) -> Kind {
        self.behind.map_or(self.windows, |behind| behind.aggregates().windows)
    }

    /// Whether open windows can be in files: with results before they are closed those of some plans alone.
    pub fn can_spill(self) -> bool {
        self.emits.is_none() || self.spills
    }

    /// The table of late records, the `table`th of the pipeline: its place on the server, and what fills it.
    pub fn side(self, table: usize) -> Option<(usize, Side)> {
        let mapping = Arc::new(AsItCame(schema()));
        Some((self.beside?, Side { step: 0, rows: SideRows::Late, table, mapping }))
    }
}

/// The column of a result's version.
pub const VERSION: &str = "version";

/// Sizes at which every seal that finds nothing on its way to files sends all open windows there, and some results are a piece.
const TINY: Sizes = Sizes {
    open_bytes: 1,
    block_bytes: 64,
    file_bytes: 400,
    piece_bytes: 200,
    read_bytes: 400,
    generations_max: 50,
};

/// What makes rows of the table of late records: they have the columns of a record.
struct AsItCame(Schema);

impl Transform for AsItCame {
    fn name(&self) -> &str {
        "as it came"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> std::result::Result<Transformed, OperatorError> {
        Ok(Transformed::all(batch))
    }
}

/// The columns of the step behind the window, whose results are of rows of a join where `is_of_pairs`.
fn to_results(windows: Kind, is_of_pairs: bool, batch: &Batch) -> RecordBatch {
    let rows = &batch.rows;
    let column = |name: &str| rows.column_by_name(name).expect("a column of the results");
    let numbers = |name: &str| column(name).as_primitive::<UInt64Type>();
    let times = |name: &str| column(name).as_primitive::<TimestampMillisecondType>();
    let (starts, ends) = (times("window_start"), times("window_end"));
    let versions = rows.column_by_name(VERSION).map(|column| column.as_primitive::<UInt64Type>());
    let [keys, counts, sums, least, greatest] = ["key", "n", "sum", "least", "greatest"].map(numbers);
    let result = |row| Result {
        start_ms: starts.value(row),
        end_ms: ends.value(row),
        key: keys.value(row),
        count: counts.value(row),
        last: 0,
        ids: [sums.value(row), least.value(row), greatest.value(row)],
    };
    let version = |row| versions.map(|versions| versions.value(row));
    let made = |row| match is_of_pairs {
        true => result(row).row_of_pairs(),
        false => result(row).row(windows, version(row)),
    };
    let made: Vec<Row> = (0..rows.num_rows()).map(made).collect();
    to_columns(&made)
}
