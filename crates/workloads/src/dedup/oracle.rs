//! What the table must hold after any number of readings, and the query that says what it holds.
//!
//! Owns a count, a count of different keys and a checksum over the content, as `glassflow::oracle` does. The hashed text of a
//! row, sales in ten-thousandths:
//! ```text
//! seconds of ts since 1970|country|category|visits|unique_visitors|sales
//! ```
//! Does not own sending the query. The columns: `ts DateTime, country String, category String, visits UInt64,
//! unique_visitors UInt64, sales Decimal(18, 4)`.

use std::io::Write;

use xxhash_rust::xxh64::xxh64;

use super::Workload;
use crate::content::Content;

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the
/// text as it stands: quote it if it needs that.
pub fn sql(table: &str) -> String {
    format!(
        "SELECT count() AS rows, uniqExact(ts, country, category) AS ids, \
         sum(xxHash64(concat(toString(toUnixTimestamp(ts)), '|', country, '|', category, '|', toString(visits), '|', \
         toString(unique_visitors), '|', toString(toInt64(sales * 10000))))) AS checksum FROM {table}"
    )
}

/// The hash of a row that another system has written as CSV, with the six values of the hashed text in their order. `None` for a line that is none.
pub fn of_csv(line: &str) -> Option<u64> {
    let text = line.replace('"', "").replace(',', "|");
    (text.split('|').count() == 6).then(|| xxh64(text.as_bytes(), 0))
}

impl Workload {
    /// What the table must hold once every file was read, however often. Makes every row once.
    pub fn expected(&self) -> Content {
        let mut content = Content::default();
        let mut text = Vec::new();
        for file in 0..self.files() {
            for row in 0..self.rows_per_file() {
                let Some(row) = self.row(file, row) else { break };
                text.clear();
                write!(
                    text,
                    "{}|{}|{}|{}|{}|{}",
                    row.time_s, row.country, row.category, row.visits, row.unique_visitors, row.sales
                )
                .expect("a vector takes every byte");
                content = content.plus(Content { rows: 1, ids: 1, checksum: xxh64(&text, 0) });
            }
        }
        content
    }
}
