//! Rows that replace each other by key in place of dedup: what a row with a sign is, and the steps around the one that makes them.
//!
//! Owns the form of such rows, so that the oracle can read them. Does not own the rule, which the oracle computes for itself (`oracle::changes`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, UInt64Type};
use arrow_array::{BooleanArray, RecordBatch};
use dataflow::{Batch, Column, ColumnType, Operator, Schema};
use operators::{Upsert, UpsertConfig};

use crate::pairs::TINY_VERSIONS;
use crate::records::{Row, from_columns, schema, to_columns};
use crate::step::Remade;

/// One record in so many deletes its key, where any does.
const DELETES_ONE_IN: u64 = 4;

/// The column of the sign.
pub const SIGN: &str = "sign";

const DELETED: &str = "deleted";

/// The upsert of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Whether the row of a key with the latest time holds, and not the one that came last.
    pub is_versioned: bool,
    /// Whether some records delete their key.
    pub has_deletions: bool,
}

impl Changes {
    /// Whether the record of this id deletes its key.
    pub fn deletes(self, id: u64) -> bool {
        self.has_deletions && id.is_multiple_of(DELETES_ONE_IN)
    }

    /// The steps of a pipeline; with most rows in files, if that is asked for.
    pub fn steps(self, is_in_files: bool) -> Vec<Box<dyn Operator>> {
        vec![
            Box::new(Remade::new("marks", move |batch| marks(self, batch))),
            Box::new(self.step(is_in_files)),
            Box::new(Remade::new("signed", to_signed)),
        ]
    }

    /// The step that has the state.
    pub fn step(self, is_in_files: bool) -> Upsert {
        let mut table = schema().columns().to_vec();
        table.push(Column::new(SIGN, ColumnType::Int8));
        let config = UpsertConfig {
            key: vec!["key".to_owned()],
            version: self.is_versioned.then(|| "time".to_owned()),
            deleted: self.has_deletions.then(|| DELETED.to_owned()),
            sign: SIGN.to_owned(),
        };
        let step = Upsert::new(&marked(), &Schema::new(table), &config);
        let step = step.expect("the upserts of a plan are valid");
        if is_in_files { step.with_sizes(TINY_VERSIONS) } else { step }
    }
}

/// A record's row as the table has it: what takes it back has a number of its own.
pub fn signed(id: u64, key: u64, time_ms: i64, is_taken_back: bool) -> Row {
    [id << 1 | u64::from(is_taken_back), key, time_ms as u64]
}

/// Whether such a row takes another one back.
pub fn is_taken_back(row: &Row) -> bool {
    row[0] & 1 == 1
}

/// The columns of a record, and whether it deletes its key.
fn marked() -> Schema {
    let mut columns = schema().columns().to_vec();
    columns.push(Column::new(DELETED, ColumnType::Bool));
    Schema::new(columns)
}

/// The columns of the step before it, which says what deletes its key.
fn marks(changes: Changes, batch: &Batch) -> RecordBatch {
    let rows = from_columns(&batch.rows);
    let deleted: Vec<bool> = rows.iter().map(|row| changes.deletes(row[0])).collect();
    let mut columns = batch.rows.columns().to_vec();
    columns.push(Arc::new(BooleanArray::from(deleted)));
    RecordBatch::try_new(marked().arrow().clone(), columns).expect("the columns are those")
}

/// Those of the step behind it, which makes its rows those of the simulated table.
fn to_signed(batch: &Batch) -> RecordBatch {
    let rows = &batch.rows;
    if rows.num_rows() == 0 {
        // What is left of records that are taken has their columns.
        return to_columns(&[]);
    }
    let column = |name: &str| rows.column_by_name(name).expect("a column of the table");
    let numbers = |name: &str| column(name).as_primitive::<UInt64Type>();
    let (ids, keys) = (numbers("id"), numbers("key"));
    let times = column("time").as_primitive::<Int64Type>();
    let signs = column(SIGN).as_primitive::<Int8Type>();
    let row = |row| signed(ids.value(row), keys.value(row), times.value(row), signs.value(row) < 0);
    let made: Vec<Row> = (0..rows.num_rows()).map(row).collect();
    to_columns(&made)
}
