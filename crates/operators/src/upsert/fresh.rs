//! The rows since the last seal, and which of them are the last of their key.
//!
//! Owns their columns and the choice among them. Does not own what the state has of their keys (`super`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, Int8Array, RecordBatch};
use arrow_buffer::NullBuffer;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Column, ColumnType, Schema};

use super::Plan;
use super::rows::Ordered;
use crate::dedup::key::Keyer;

/// Rows of the table's columns, in the order in which they came.
#[derive(Default)]
pub(super) struct Fresh {
    batches: Vec<Batch>,
    /// Rows that came, those that later ones of their key have replaced too.
    absorbed: u64,
    bytes: u64,
    /// Behind [`reduce`](Self::reduce): the first number of each batch, and one behind the last.
    firsts: Vec<usize>,
    /// The versions by these numbers, if rows have any.
    versions: Vec<Box<[u8]>>,
    /// The place of the column that says which rows delete their key.
    deleted: Option<usize>,
}

impl Fresh {
    /// Takes the columns of the table, and that of deletions.
    ///
    /// # Errors
    /// When one is missing or of another form.
    pub fn push(&mut self, plan: &Plan, batch: Batch) -> Result<(), String> {
        let named = |name: &str| {
            let found = batch.rows.column_by_name(name);
            found.cloned().ok_or_else(|| format!("a batch has no column `{name}`"))
        };
        let mut columns = Vec::with_capacity(plan.table.columns().len() + 1);
        for (at, column) in plan.table.columns().iter().enumerate() {
            columns.push(match at == plan.sign {
                // Nobody gives it.
                true => Arc::new(Int8Array::from_value(0, batch.len())),
                false => named(&column.name)?,
            });
        }
        let mut own = plan.table.columns().to_vec();
        let deleted = plan.config.deleted.as_deref();
        if let Some(name) = deleted.filter(|name| plan.table.index_of(name).is_none()) {
            columns.push(named(name)?);
            own.push(Column::new(name, ColumnType::Nullable(Box::new(ColumnType::Bool))));
        }
        let own = Schema::new(own);
        self.deleted = deleted.and_then(|name| own.index_of(name));
        let rows = RecordBatch::try_new(super::rows::arrow(&own, &columns), columns);
        let rows = rows.map_err(|error| error.to_string())?;
        self.absorbed += rows.num_rows() as u64;
        self.bytes += rows.get_array_memory_size() as u64;
        self.batches.push(Batch { rows, ..batch });
        Ok(())
    }

    /// Keeps one row of each key: the last, or the last of those with the greatest version. Rows with a NULL in their key all stay.
    ///
    /// # Errors
    /// When a column of the key or the version is of another form.
    pub fn reduce(&mut self, plan: &Plan) -> Result<(), String> {
        let keyer = Keyer::with_items(&plan.table, &plan.config.key).map_err(|error| error.to_string())?;
        let ordered = plan.config.version.as_ref().map(|name| Ordered::of(name));
        let mut newest: HashMap<u128, (usize, usize)> = HashMap::new();
        let mut dropped: Vec<Vec<usize>> = vec![Vec::new(); self.batches.len()];
        let mut versions: Vec<Vec<Box<[u8]>>> = Vec::with_capacity(self.batches.len());
        let mut hashes = Vec::new();
        for (place, batch) in self.batches.iter().enumerate() {
            keyer.hash(&batch.rows, &mut hashes).map_err(|error| error.to_string())?;
            versions.push(ordered.as_ref().map_or(Ok(Vec::new()), |ordered| ordered.encode(&batch.rows))?);
            let keyed = keyed(plan, &batch.rows);
            for (row, hash) in hashes.iter().enumerate() {
                if keyed.as_ref().is_some_and(|keyed| keyed.is_null(row)) {
                    continue;
                }
                let Some(known) = newest.get_mut(hash) else {
                    newest.insert(*hash, (place, row));
                    continue;
                };
                let (of, at) = *known;
                let is_newer = ordered.is_none() || versions[place][row] >= versions[of][at];
                if is_newer {
                    *known = (place, row);
                    dropped[of].push(at);
                } else {
                    dropped[place].push(row);
                }
            }
        }
        for (batch, dropped) in self.batches.iter_mut().zip(&mut dropped) {
            dropped.sort_unstable();
            *batch = batch.clone().without(dropped).map_err(|error| error.to_string())?;
        }
        for (versions, dropped) in versions.into_iter().zip(&dropped) {
            let kept =
                versions.into_iter().enumerate().filter(|(row, _)| dropped.binary_search(row).is_err());
            self.versions.extend(kept.map(|(_, version)| version));
        }
        let mut first = 0;
        self.firsts = vec![first];
        for batch in &self.batches {
            first += batch.len();
            self.firsts.push(first);
        }
        Ok(())
    }

    /// Rows that came.
    pub fn absorbed(&self) -> u64 {
        self.absorbed
    }

    /// Whether none came.
    pub fn is_empty(&self) -> bool {
        self.absorbed == 0
    }

    /// Memory held in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Rows that are left.
    pub fn len(&self) -> usize {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Batches.
    pub fn parts(&self) -> usize {
        self.batches.len()
    }

    /// One of them.
    pub fn part(&self, part: usize) -> &Batch {
        &self.batches[part]
    }

    /// The numbers of its rows among all that are left.
    pub fn range(&self, part: usize) -> Range<usize> {
        self.firsts[part]..self.firsts[part + 1]
    }

    /// Which rows of a batch delete their key.
    pub fn deletions(&self, part: usize) -> BooleanArray {
        let rows = &self.batches[part].rows;
        let of = |at: usize| {
            let found = rows.column(at).as_boolean();
            found.iter().map(|deleted| Some(deleted.unwrap_or(false))).collect()
        };
        self.deleted.map_or_else(|| BooleanArray::from(vec![false; rows.num_rows()]), of)
    }

    /// The version of the row of this number, as bytes that compare as versions do.
    pub fn version(&self, number: usize) -> &[u8] {
        &self.versions[number]
    }

    /// The greatest time of a row.
    pub fn newest_ms(&self) -> i64 {
        let times = self.batches.iter().flat_map(|batch| batch.times_ms.iter().copied());
        times.max().unwrap_or(TIME_UNKNOWN_MS)
    }
}

/// Which rows have no NULL in their key; `None` if none has.
fn keyed(plan: &Plan, rows: &RecordBatch) -> Option<NullBuffer> {
    let key = super::key_columns(plan, rows);
    NullBuffer::union_many(key.iter().map(|column| column.nulls()))
}
