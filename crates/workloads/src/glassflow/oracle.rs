//! What the table must hold in the end, and the query that says what it holds.
//!
//! Owns a count and a checksum of the set of uniques that ClickHouse can compute too, in any order of rows:
//! the sum, wrapping at 2^64, of XXH64 (seed 0) over a text of each row,
//! ```text
//! event_id|user_id|seconds of created_at since 1970|user_name|user_email
//! ```
//! Does not own sending the query. The columns are those of the published table:
//! `event_id UUID, user_id UUID, created_at DateTime, user_name String, user_email String`, where the JSON's `name` and
//! `email` go to `user_name` and `user_email`, and `created_at` is read as UTC.
//!
//! The sum alone would not notice two rows that each lack and repeat with the same hash; with the count and the count of
//! different ids it notices every lost, repeated and changed row but one in 2^64.

use std::io::Write;
use std::ops::Range;

use xxhash_rust::xxh64::xxh64;

use super::record::{Record, hyphenated};
use super::{Purpose, Workload};
pub use crate::content::Content;

/// Half of the names come before it.
pub const NAME_IN_THE_MIDDLE: &str = "L";

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the
/// text as it stands: quote it if it needs that.
pub fn sql(table: &str) -> String {
    format!(
        "SELECT count() AS rows, uniqExact(event_id) AS ids, sum(xxHash64(concat(toString(event_id), '|', \
         toString(user_id), '|', toString(toUnixTimestamp(created_at)), '|', user_name, '|', user_email))) AS checksum \
         FROM {table}"
    )
}

impl Workload {
    /// What the table must hold when everything has arrived. Makes every unique once: about a second for ten million.
    pub fn expected(&self) -> Content {
        let parts =
            (0..self.spec.publishers).map(|publisher| self.expected_of(publisher, 0..self.spec.uniques));
        parts.fold(Content::default(), Content::plus)
    }

    /// What the table must hold of those whose name comes before `name`, byte by byte: about half of them before
    /// [`NAME_IN_THE_MIDDLE`].
    pub fn expected_before(&self, name: &str) -> Content {
        let mut content = Content::default();
        for publisher in 0..self.spec.publishers {
            let is_before = |record: &Record| record.name.as_bytes() < name.as_bytes();
            content = content.plus(self.content(publisher, 0..self.spec.uniques, is_before));
        }
        content
    }

    /// What the uniques `ordinals` of one publisher add to the table: parts can be computed side by side and added.
    /// Ordinals that the run does not have add nothing.
    pub fn expected_of(&self, publisher: u32, ordinals: Range<u64>) -> Content {
        let uniques = if publisher < self.spec.publishers { self.spec.uniques } else { 0 };
        self.content(publisher, ordinals.start.min(uniques)..ordinals.end.min(uniques), |_| true)
    }

    fn content(&self, publisher: u32, ordinals: Range<u64>, takes: impl Fn(&Record) -> bool) -> Content {
        let series = self.series(publisher, Purpose::Content);
        let mut content = Content::default();
        let mut row = Vec::new();
        for ordinal in ordinals {
            let record = Record::new(series, ordinal, self.created_at_s(publisher, ordinal));
            if !takes(&record) {
                continue;
            }
            row.clear();
            write_row(&record, &mut row);
            let hashed = Content { rows: 1, ids: 1, checksum: xxh64(&row, 0) };
            content = content.plus(hashed);
        }
        content
    }
}

/// Appends the text that is hashed.
pub(super) fn write_row(record: &Record, row: &mut Vec<u8>) {
    row.extend_from_slice(&hyphenated(record.event_id));
    row.push(b'|');
    row.extend_from_slice(&hyphenated(record.user_id));
    write!(row, "|{}|", record.created_at_s).expect("a vector takes every byte");
    row.extend_from_slice(record.name.as_bytes());
    row.push(b'|');
    row.extend_from_slice(record.email.as_bytes());
}

#[cfg(test)]
mod tests;
