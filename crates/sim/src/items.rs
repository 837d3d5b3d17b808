//! Records that hold several items, and the steps that make a row of each: `UNNEST` in the simulated pipeline, before dedup.
//!
//! Owns which items a record has, and the two steps. Does not own which seeds have such records (`plan::unnested`), nor their ledgers
//! (`oracle::items`). To the rules behind the steps an item is what a record is elsewhere: it has a key, one fate, and a dead letter of its
//! own. So the oracle judges the items of what was read ([`Plan::units_of`]) and not the records.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};

use dataflow::block::ITEM_HEADER;
use dataflow::{Batch, OperatorError, Reason, Reject, Schema, Transform, Transformed};

use crate::plan::Plan;
use crate::records::{Record, Row, from_columns, schema, to_columns};
use crate::route::{SECOND, record_of};

/// A record has fewer items than this.
const ITEMS: u64 = 4;

/// A step fails on one item in so many.
const FAILS_ONE_IN: u64 = 17;

/// The number of items of a record.
pub fn count(id: u64) -> u64 {
    record_of(id) % ITEMS
}

/// The row of an item, by the record's row. Some items of a record have the same key.
fn row_of([id, key, time]: Row, item: u64) -> Row {
    [id + item * SECOND, key ^ (item & 1), time]
}

/// Whether the step behind fails on the row.
fn fails(id: u64) -> bool {
    (record_of(id) + id / SECOND).is_multiple_of(FAILS_ONE_IN)
}

impl Plan {
    /// What has a fate of its own: each item of a record where the pipeline makes a row of it, and otherwise the record.
    pub fn units_of(&self, record: &Record) -> Vec<Record> {
        if !self.unnests || !record.is_good {
            return vec![*record];
        }
        let of_item = |item| {
            let [id, key, _] = row_of([record.id, record.key, 0], item);
            Record { id, key, is_good: !fails(id), ..*record }
        };
        (0..count(record.id)).map(of_item).collect()
    }

    /// The unit that a row was made of, by the row's id.
    pub fn unit_of(&self, row_id: u64) -> u64 {
        if self.unnests { row_id } else { record_of(row_id) }
    }
}

/// The items of dead letters, as what is added to the ids of their records.
pub fn added_by_headers(letters: &RecordBatch) -> Vec<u64> {
    let headers = letters.column_by_name("headers").expect("a column of the dead letters").as_map();
    let item = |at: usize| {
        let all = headers.value(at);
        let (names, values) = (all.column(0).as_string::<i32>(), all.column(1).as_binary_opt::<i32>());
        let text = |at: usize| match values {
            Some(values) => String::from_utf8_lossy(values.value(at)).into_owned(),
            None => all.column(1).as_string::<i32>().value(at).to_owned(),
        };
        let found = (0..all.len()).find(|at| names.value(*at) == ITEM_HEADER).map(text);
        found.and_then(|item| item.parse::<u64>().ok()).map_or(0, |item| item * SECOND)
    };
    (0..letters.num_rows()).map(item).collect()
}

/// The steps, in order.
pub fn steps() -> Vec<Arc<dyn Transform>> {
    vec![Arc::new(Unnest(schema())), Arc::new(Checked(schema()))]
}

/// Makes a row of each item of a record; a record without one is filtered.
struct Unnest(Schema);

impl Transform for Unnest {
    fn name(&self) -> &str {
        "unnest"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let (mut rows, mut positions, mut times_ms, mut items) = (vec![], vec![], vec![], vec![]);
        let mut filtered = 0;
        for (at, row) in from_columns(&batch.rows).into_iter().enumerate() {
            filtered += u64::from(count(row[0]) == 0);
            for item in 0..count(row[0]) {
                rows.push(row_of(row, item));
                positions.push(batch.positions[at]);
                times_ms.push(batch.times_ms[at]);
                items.push(item as u32);
            }
        }
        let batch = Batch { rows: to_columns(&rows), positions, times_ms, items, ..batch };
        Ok(Transformed { batch, filtered, rejects: Vec::new() })
    }
}

/// Fails on some rows.
struct Checked(Schema);

impl Transform for Checked {
    fn name(&self) -> &str {
        "checked"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let failed: Vec<usize> = from_columns(&batch.rows)
            .into_iter()
            .enumerate()
            .filter_map(|(at, row)| fails(row[0]).then_some(at))
            .collect();
        let reject = |at: &usize| Reject {
            partition: batch.partition.clone(),
            position: batch.position(*at),
            time_ms: batch.times_ms[*at],
            item: batch.item(*at),
            reason: Reason::Malformed,
            column: "id".into(),
            message: "made to fail".into(),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        };
        let rejects = failed.iter().map(reject).collect();
        let kept = batch
            .without(&failed)
            .map_err(|error| OperatorError { step: self.name().to_owned(), message: error.to_string() })?;
        Ok(Transformed { batch: kept, filtered: 0, rejects })
    }
}
