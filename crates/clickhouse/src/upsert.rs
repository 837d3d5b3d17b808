//! Rows that replace each other by key: which rows of a batch need not be sent.
//!
//! Owns the comparison of keys and versions within a batch. Does not own what is asked of the table (`checks::upsert`), nor the versions that
//! the engine makes.
//!
//! Of the rows of one key that with the greatest version stays, and of equal versions the last: what the server would keep once it has
//! merged them. Keys are compared byte for byte. Two that only the server takes for equal (0.0 and -0.0) both stay, which costs a row and
//! changes nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use dataflow::{ColumnType, Selected};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Upsert;

/// The column of versions that the engine makes.
pub const VERSION: &str = "_version";

/// The wall clock when a version was made, Unix milliseconds; versions of more than a million rows a millisecond run ahead of it.
pub fn ms_of(version: u64) -> i64 {
    (version >> 20) as i64
}

/// Where the columns of an [`Upsert`] stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Those of the key; at least one.
    pub key: Vec<usize>,
    /// That of the version, if the rows have it; `None` if it rises with every row.
    pub version: Option<usize>,
}

impl Upsert {
    /// The type that rows have for a column of the table; `None` if the engine fills it. The column that says what is deleted takes true and false
    /// alone, for the server refuses to merge rows with another value.
    pub fn of_rows(&self, name: &str, column_type: ColumnType) -> Option<ColumnType> {
        if self.makes_versions() && name == VERSION {
            return None;
        }
        let is_flag = self.deleted.as_deref() == Some(name) && column_type == ColumnType::UInt8;
        Some(if is_flag { ColumnType::Bool } else { column_type })
    }

    /// Whether the engine of the pipeline makes the versions of rows, into [`VERSION`].
    pub fn makes_versions(&self) -> bool {
        self.version.is_none() && self.sign.is_none()
    }

    /// The engine of a table that is made, with its arguments.
    pub fn engine(&self) -> String {
        if let Some(sign) = &self.sign {
            return format!("CollapsingMergeTree({})", crate::types::identifier(sign));
        }
        let version = self.version.as_deref().unwrap_or(VERSION);
        let arguments = [Some(version), self.deleted.as_deref()];
        let arguments: Vec<String> = arguments.into_iter().flatten().map(crate::types::identifier).collect();
        format!("ReplacingMergeTree({})", arguments.join(", "))
    }
}

/// Whether values of a type can be compared as keys.
pub fn is_comparable(column_type: &ColumnType) -> bool {
    !matches!(column_type.bare(), ColumnType::Map(..) | ColumnType::Array(_) | ColumnType::Json { .. })
}

/// Rows that others of the batch replace: their numbers among all rows that go on, ascending.
///
/// # Errors
/// When a column is of a form that cannot be compared.
pub fn replaced(places: &Places, rows: &[Selected]) -> Result<Vec<u32>, String> {
    let keys = compared(&places.key, rows)?;
    let versions = places.version.map(|version| compared(&[version], rows)).transpose()?;
    let count: usize = rows.iter().map(Selected::len).sum();
    let mut newest: HashMap<&[u8], Row<'_>, BuildHasherDefault<Xxh3>> =
        HashMap::with_capacity_and_hasher(count, BuildHasherDefault::default());
    let mut replaced = Vec::new();
    let mut number = 0;
    for (at, batch) in rows.iter().enumerate() {
        for row in batch.stretches().iter().cloned().flatten() {
            let version = versions.as_ref().map(|versions| versions[at].row(row as usize).data());
            let now = Row { number, version };
            let known = newest.entry(keys[at].row(row as usize).data()).or_insert(now);
            if known.number != number {
                // Equal versions: the later row. Without versions of the rows' own they rise.
                let is_newer = now.version >= known.version;
                let older = if is_newer { std::mem::replace(known, now) } else { now };
                replaced.push(older.number);
            }
            number += 1;
        }
    }
    replaced.sort_unstable();
    Ok(replaced)
}

#[derive(Clone, Copy)]
struct Row<'a> {
    number: u32,
    version: Option<&'a [u8]>,
}

/// These columns of every batch, in a form whose bytes compare as the values do.
fn compared(columns: &[usize], rows: &[Selected]) -> Result<Vec<Rows>, String> {
    let fail = |e: arrow_schema::ArrowError| format!("rows cannot be compared by their keys: {e}");
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let field = |at: &usize| SortField::new(first.batch().column(*at).data_type().clone());
    let converter = RowConverter::new(columns.iter().map(field).collect()).map_err(fail)?;
    let of = |batch: &RecordBatch| {
        let columns: Vec<ArrayRef> = columns.iter().map(|at| batch.column(*at).clone()).collect();
        converter.convert_columns(&columns).map_err(fail)
    };
    rows.iter().map(|rows| of(rows.batch())).collect()
}

/// XXH3 of a key's bytes: the map compares the keys themselves, so a hash that others can foresee costs time at the most, and only within
/// one batch.
#[derive(Default)]
struct Xxh3(u64);

impl Hasher for Xxh3 {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes) ^ self.0.rotate_left(5);
    }

    /// The length of the key's bytes, which come next.
    fn write_usize(&mut self, length: usize) {
        self.0 = length as u64;
    }
}

#[cfg(test)]
mod tests;
