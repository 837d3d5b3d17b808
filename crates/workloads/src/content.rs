//! What a table holds, as three numbers that ClickHouse can compute too, in any order of rows.
//!
//! Owns their sum. Does not own what a row's hash covers, nor the query that asks for it: each workload's oracle does.
//!
//! The sum of hashes alone would not notice two rows that each lack and repeat with the same hash; with the count and the count
//! of different ids it notices every lost, repeated and changed row but one in 2^64.

/// What a table holds, or must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Rows.
    pub rows: u64,
    /// Different values of what names a row.
    pub ids: u64,
    /// The sum of all rows' hashes, wrapping at 2^64.
    pub checksum: u64,
}

impl Content {
    /// Both together, of sets that have no id in common.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            ids: self.ids + other.ids,
            checksum: self.checksum.wrapping_add(other.checksum),
        }
    }
}
