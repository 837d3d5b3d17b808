//! A join of the two inputs in place of dedup: what a joined row is, the steps that make it a row, and the tables of rows without a match.
//!
//! Owns the form of joined rows, so that the oracle can read them. Does not own the rule of the join, which the oracle computes for itself
//! (`oracle::joins`).

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use dataflow::{Batch, Operator, OperatorError, Schema, Transform, Transformed};
use engine::tables::{Side, SideRows};
use operators::join::{spilled, temporal};
use operators::{Join, JoinColumn, JoinConfig, JoinKind, JoinSide, TemporalConfig, TemporalJoin};

use crate::records::{Row, schema, to_columns};
use crate::results::Aggregates;
use crate::step::Remade;

/// A join of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joins {
    /// How much earlier than a left row a right row may be, milliseconds.
    pub before_ms: i64,
    /// How much later.
    pub after_ms: i64,
    /// How late a record may be, milliseconds.
    pub lateness_ms: i64,
    /// Whether rows without a match become rows, of the left side and of the right side.
    pub keeps: [bool; 2],
    /// The places of the tables that take those that do not; `None` if they are dropped.
    pub beside: [Option<usize>; 2],
    /// Whether each left row gets the version of the right side at its time: a temporal join, which has no interval.
    pub is_temporal: bool,
    /// Whether rows that wait are released when every input has ended.
    pub closes: bool,
    /// Bytes of rows without a match that a seal lets out of files, about: others come later.
    pub hand_bytes: u64,
    /// The window over its rows, if there is one. It closes when the join does.
    pub window: Option<Aggregates>,
}

/// More than any run has.
pub const HAND_BYTES_ALL: u64 = 1 << 40;

/// Sizes at which every seal that finds nothing on its way to files sends all rows there, a few a run.
const TINY: spilled::Sizes = spilled::Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 2_000,
    block_bytes: 200,
    hand_bytes: HAND_BYTES_ALL,
    read_bytes: 400,
};

/// The same for versions: those that the watermark has reached go to files, and few runs are beside each other.
pub const TINY_VERSIONS: temporal::spilled::Sizes = temporal::spilled::Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 2_000,
    block_bytes: 200,
    read_bytes: 400,
    hand_bytes: 500,
    runs_max: 2,
};

/// What stands for the side that is not there.
const NOBODY: u64 = (1 << 20) - 1;

/// What the oracle compares: a pair of records, or one without a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The ids of the left and the right record.
    pub ids: [Option<u64>; 2],
    /// Their key.
    pub key: u64,
    /// The later of their times.
    pub time_ms: i64,
}

impl Pair {
    /// A record of one side without a match.
    pub fn lonely(side: usize, id: u64, key: u64, time_ms: i64) -> Self {
        let mut ids = [None, None];
        ids[side] = Some(id);
        Self { ids, key, time_ms }
    }

    /// As a row of the table.
    pub fn row(&self) -> Row {
        let [left, right] = self.ids.map(|id| id.unwrap_or(NOBODY));
        [left << 20 | right, self.key, self.time_ms as u64]
    }
}

impl Joins {
    /// The steps of a pipeline; with most rows of the join, and most windows behind it, in files, if that is asked for.
    pub fn steps(self, is_in_files: bool) -> Vec<Box<dyn Operator>> {
        let join: Box<dyn Operator> = match self.is_temporal {
            true => Box::new(self.temporal(is_in_files)),
            false => Box::new(self.interval(is_in_files)),
        };
        let mut steps: Vec<Box<dyn Operator>> = vec![join, Box::new(Remade::new("pairs", to_pairs))];
        if let Some(window) = self.window {
            let window = Aggregates { closes: self.closes, ..window };
            steps.extend(window.steps_of_pairs(is_in_files));
        }
        steps
    }

    fn columns() -> Vec<JoinColumn> {
        let column = |name: &str, side, from: &str| JoinColumn {
            name: name.into(),
            side,
            from: from.into(),
            is_of_side_alone: false,
        };
        vec![
            column("left", JoinSide::Left, "id"),
            column("right", JoinSide::Right, "id"),
            column("key", JoinSide::Left, "key"),
        ]
    }

    /// The columns of each side's rows for the table of those without a match.
    fn unmatched(self) -> [Vec<String>; 2] {
        self.beside.map(|place| match place {
            Some(_) => vec!["id".to_owned(), "key".to_owned()],
            None => Vec::new(),
        })
    }

    /// The temporal join.
    pub fn temporal(self, is_in_files: bool) -> TemporalJoin {
        let [unmatched, _] = self.unmatched();
        let config = TemporalConfig {
            on: on(),
            lateness: duration(self.lateness_ms),
            is_outer: self.keeps[0],
            columns: Self::columns(),
            deleted: None,
            unmatched,
        };
        let join = TemporalJoin::new(&schema(), &schema(), &config).expect("the joins of a plan are valid");
        let join = join.with_close_at_end(self.closes);
        if is_in_files { join.with_sizes(TINY_VERSIONS) } else { join }
    }

    fn interval(self, is_in_files: bool) -> Join {
        let config = JoinConfig {
            on: on(),
            before: duration(self.before_ms),
            after: duration(self.after_ms),
            lateness: duration(self.lateness_ms),
            kind: match self.keeps {
                [false, false] => JoinKind::Inner,
                [true, false] => JoinKind::Left,
                [false, true] => JoinKind::Right,
                [true, true] => JoinKind::Full,
            },
            columns: Self::columns(),
            unmatched: self.unmatched(),
        };
        let join = Join::new(&schema(), &schema(), &config).expect("the joins of a plan are valid");
        let join = join.with_close_at_end(self.closes);
        if is_in_files {
            join.with_sizes(spilled::Sizes { hand_bytes: self.hand_bytes, ..TINY })
        } else {
            join
        }
    }
}

fn on() -> Vec<(String, String)> {
    vec![("key".to_owned(), "key".to_owned())]
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms as u64)
}

impl Joins {
    /// The tables of rows without a match, the first of which is the `first` of the pipeline: their places on the server, and what fills them.
    pub fn sides(self, first: usize) -> Vec<(usize, Side)> {
        let there = self.beside.into_iter().enumerate().filter_map(|(input, place)| Some((input, place?)));
        let side = |(nth, (input, place)): (usize, (usize, usize))| {
            let mapping = Arc::new(Lonely { schema: schema(), input });
            (place, Side { step: 0, rows: SideRows::Unmatched(input), table: first + nth, mapping })
        };
        there.enumerate().map(side).collect()
    }
}

/// What makes rows of the table of rows without a match.
struct Lonely {
    schema: Schema,
    input: usize,
}

impl Transform for Lonely {
    fn name(&self) -> &str {
        "lonely"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let numbers = |name: &str| {
            batch.rows.column_by_name(name).expect("a column of the side").as_primitive::<UInt64Type>()
        };
        let (ids, keys) = (numbers("id"), numbers("key"));
        let row =
            |row: usize| Pair::lonely(self.input, ids.value(row), keys.value(row), batch.times_ms[row]).row();
        let made: Vec<Row> = (0..batch.len()).map(row).collect();
        Ok(Transformed::all(Batch { rows: to_columns(&made), ..batch }))
    }
}

/// The columns of the step behind the join.
fn to_pairs(batch: &Batch) -> RecordBatch {
    let numbers = |name: &str| {
        batch.rows.column_by_name(name).expect("a column of the join").as_primitive::<UInt64Type>()
    };
    let [left, right, keys] = ["left", "right", "key"].map(numbers);
    let id = |ids: &arrow_array::UInt64Array, row| ids.is_valid(row).then(|| ids.value(row));
    let pair = |row| Pair {
        ids: [id(left, row), id(right, row)],
        key: keys.value(row),
        time_ms: batch.times_ms[row],
    };
    let made: Vec<Row> = (0..batch.len()).map(|row| pair(row).row()).collect();
    to_columns(&made)
}
