//! A window in place of dedup: what a result is, and the step that makes it a row.
//!
//! Owns the form of results as rows, so that the oracle can read them. Does not own the rule of the window, which the oracle computes for
//! itself (`oracle::windows`).

use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt64Type};
use dataflow::{Batch, Operator, OperatorError, Output, Probed, State};
use operators::window::spilled::Sizes;
use operators::window::{Aggregate, Function, Windows};
use operators::{Window, WindowConfig};

use crate::records::{Row, schema, to_columns};

/// A window of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregates {
    /// How long it is, milliseconds.
    pub size_ms: i64,
    /// From the start of one to that of the next, milliseconds: less than that if they overlap.
    pub slide_ms: i64,
    /// How late a record may be, milliseconds.
    pub lateness_ms: i64,
}

/// What the oracle compares: rows of one key in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Result {
    /// The window's first millisecond.
    pub start_ms: i64,
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
    /// As a row of the table.
    pub fn row(&self, slide_ms: i64) -> Row {
        let [sum, least, greatest] = self.ids;
        // Keys are below 2^10; of some hundred records all numbers are small.
        let id = (self.start_ms.div_euclid(slide_ms) as u64) << 10 | self.key;
        [id, self.key, self.count << 48 | sum << 24 | least << 12 | greatest]
    }
}

impl Aggregates {
    /// The steps of a pipeline; with most windows in files, if that is asked for.
    pub fn steps(self, is_in_files: bool) -> Vec<Box<dyn Operator>> {
        let config = WindowConfig {
            key: vec!["key".to_owned()],
            windows: Windows::Hopping {
                size: Duration::from_millis(self.size_ms as u64),
                slide: Duration::from_millis(self.slide_ms as u64),
            },
            lateness: Duration::from_millis(self.lateness_ms as u64),
            emit: None,
            aggregates: vec![
                Aggregate::new("n", Function::Count, None),
                Aggregate::new("sum", Function::Sum, Some("id")),
                Aggregate::new("least", Function::Min, Some("id")),
                Aggregate::new("greatest", Function::Max, Some("id")),
            ],
        };
        let mut window = Window::new(&schema(), &config).expect("the windows of a plan are valid");
        if is_in_files {
            window = window.with_sizes(TINY);
        }
        vec![Box::new(window), Box::new(Results { slide_ms: self.slide_ms })]
    }
}

/// Sizes at which every seal that finds nothing on its way to files sends all open windows there, and some results are a piece.
const TINY: Sizes = Sizes {
    open_bytes: 1,
    block_bytes: 64,
    file_bytes: 400,
    piece_bytes: 200,
    read_bytes: 400,
    generations_max: 50,
};

/// The step behind the window.
struct Results {
    slide_ms: i64,
}

impl Operator for Results {
    fn name(&self) -> &str {
        "results"
    }

    fn probe(&mut self, batch: Batch) -> std::result::Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> std::result::Result<Output, OperatorError> {
        let rows = probed.batch.rows;
        let column = |name: &str| rows.column_by_name(name).expect("a column of the results");
        let numbers = |name: &str| column(name).as_primitive::<UInt64Type>();
        let starts = column("window_start").as_primitive::<TimestampMillisecondType>();
        let [keys, counts, sums, least, greatest] = ["key", "n", "sum", "least", "greatest"].map(numbers);
        let result = |row| Result {
            start_ms: starts.value(row),
            key: keys.value(row),
            count: counts.value(row),
            last: 0,
            ids: [sums.value(row), least.value(row), greatest.value(row)],
        };
        let made: Vec<Row> = (0..rows.num_rows()).map(|row| result(row).row(self.slide_ms)).collect();
        Ok(Output::all(Batch { rows: to_columns(&made), ..probed.batch }))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
