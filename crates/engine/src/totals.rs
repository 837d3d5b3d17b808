//! What became of the records and rows of a lane, in four numbers that users read.
//!
//! Owns the sums and the difference of two of them. Does not own whether they add up ([`crate::accounts`]).

use protocol::Lane;
use protocol::record::Counts;

/// Both ledgers, as users read them together. `read` is the sum of what the records became; where every record is one row of one
/// table it is also what was dropped, `written` and `dead_letters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What became of the records.
    pub records: Counts,
    /// Rows for all tables, but those that a table has refused.
    pub written: u64,
    /// Rows that were not sent, because a later row of their batch has the same key.
    pub replaced: u64,
    /// Rows for the table of dead letters: records, derived rows, and rows that a table has refused.
    pub dead_letters: u64,
}

impl Totals {
    /// Of all that a lane has sealed.
    pub fn of(lane: &Lane) -> Self {
        let rows = |takes: bool| lane.tables.iter().filter(move |table| table.takes_dead_letters == takes);
        Self {
            records: lane.counts,
            written: rows(false).map(|table| table.rows.sealed - table.rows.refused).sum(),
            replaced: rows(false).map(|table| table.rows.replaced).sum(),
            dead_letters: rows(true).map(|table| table.rows.sealed).sum(),
        }
    }

    /// What has come since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let (now, then) = (&self.records, &before.records);
        let records = Counts {
            read: now.read.saturating_sub(then.read),
            passed: now.passed.saturating_sub(then.passed),
            filtered: now.filtered.saturating_sub(then.filtered),
            duplicates: now.duplicates.saturating_sub(then.duplicates),
            late: now.late.saturating_sub(then.late),
            dead_letters: now.dead_letters.saturating_sub(then.dead_letters),
            absorbed: now.absorbed.saturating_sub(then.absorbed),
            late_kept: now.late_kept.saturating_sub(then.late_kept),
        };
        Self {
            records,
            written: self.written.saturating_sub(before.written),
            replaced: self.replaced.saturating_sub(before.replaced),
            dead_letters: self.dead_letters.saturating_sub(before.dead_letters),
        }
    }
}
