//! What the table must hold, and the query that says what it holds.
//!
//! Owns a count, a count of different rows and a checksum over all 32 columns, as `glassflow::oracle` does: the hashed text of
//! a row is every column's value with `|` between. Does not own sending the query.

use std::fmt::Write;

use xxhash_rust::xxh64::xxh64;

use super::{COLUMNS, Kind, Rows, Workload};
use crate::content::Content;

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the
/// text as it stands: quote it if it needs that.
pub fn sql(table: &str) -> String {
    let texts: Vec<String> = COLUMNS.iter().map(|column| format!("toString({})", column.name)).collect();
    format!(
        "SELECT count() AS rows, uniqExact(lid) AS ids, sum(xxHash64(concat({}))) AS checksum FROM {table}",
        texts.join(", '|', ")
    )
}

impl Workload {
    /// What the table must hold after the rows `0..rows` were sent `times` times.
    pub fn expected(&self, rows: u64, times: u64) -> Content {
        let distinct = match self.rows {
            Rows::Identical => rows.min(1),
            Rows::Varied => rows,
        };
        let each = rows.checked_div(distinct).unwrap_or(0);
        let sum = (0..distinct).fold(0_u64, |sum, row| sum.wrapping_add(self.hash(row)));
        Content {
            rows: rows * times,
            ids: if times == 0 { 0 } else { distinct },
            checksum: sum.wrapping_mul(each).wrapping_mul(times),
        }
    }

    fn hash(&self, row: u64) -> u64 {
        let mut text = String::new();
        for (index, column) in COLUMNS.iter().enumerate() {
            if index > 0 {
                text.push('|');
            }
            match column.kind {
                Kind::Text(_) => self.text(index, row, &mut text),
                Kind::Int32 | Kind::Int64 => {
                    let written = write!(text, "{}", self.number(index, row));
                    written.expect("a String takes all that is written");
                }
            }
        }
        xxh64(text.as_bytes(), 0)
    }
}
