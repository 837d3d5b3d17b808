//! How the time of joined rows stands to those of their inputs.
//!
//! Owns the arithmetic of several joins in a row. Does not own which conditions bound a time (`conditions`).
//!
//! A joined row has the later time of its two rows. So it is at least the time of each input's row, and later by at most what the joins before allow:
//! with a payment from five minutes before its order to an hour after it, the joined row is up to an hour later than the order, and up to five minutes later than the payment.
//! A later join that bounds the time of the payment therefore holds its rows five minutes longer, and a filter behind it says the rest.

use super::JoinKind;

/// Of each input so far, how much later joined rows may be than its row.
pub(super) struct Lead {
    of: Vec<Option<Of>>,
}

struct Of {
    most_ms: i64,
    /// The column that is its time, once a condition has said it.
    time: Option<String>,
    /// Whether joined rows may be without its row.
    may_miss: bool,
}

/// Why the time of an input's row is not that of the joined rows.
pub(super) enum Other {
    /// Joined rows may be later.
    Later,
    /// They may be without that row.
    Missing,
    /// It is the time from which a version holds.
    Version,
}

impl Lead {
    /// Of the first input alone.
    pub fn of_first() -> Self {
        Self { of: vec![Some(Of { most_ms: 0, time: None, may_miss: false })] }
    }

    /// How much later joined rows may be than the row of an input, and the column of its time, as far as that is known.
    pub fn of(&self, table: usize) -> Option<(i64, Option<&str>)> {
        self.of[table].as_ref().map(|of| (of.most_ms, of.time.as_deref()))
    }

    /// The column of an input's time is this one.
    pub fn set_time(&mut self, table: usize, column: &str) {
        if let Some(of) = &mut self.of[table] {
            of.time.get_or_insert_with(|| column.to_owned());
        }
    }

    /// Why the time of an input's row is not that of the joined rows; `None` if it is.
    pub fn other(&self, table: usize) -> Option<Other> {
        match &self.of[table] {
            None => Some(Other::Version),
            Some(of) if of.may_miss => Some(Other::Missing),
            Some(of) => (of.most_ms != 0).then_some(Other::Later),
        }
    }

    /// Whether a column is the time of the joined rows.
    pub fn is_time(&self, table: usize, column: &str) -> bool {
        let time = self.of[table].as_ref().and_then(|of| of.time.as_deref());
        self.other(table).is_none() && time == Some(column)
    }

    /// The next input is joined, whose rows are so much earlier or later than those before.
    pub fn join(&mut self, kind: JoinKind, (before_ms, after_ms): (i64, i64), time: Option<&str>) {
        for of in self.of.iter_mut().flatten() {
            of.most_ms = of.most_ms.saturating_add(after_ms);
            of.may_miss |= kind.keeps_right();
        }
        let may_miss = matches!(kind, JoinKind::Left | JoinKind::Full);
        self.of.push(Some(Of { most_ms: before_ms, time: time.map(str::to_owned), may_miss }));
    }

    /// The next input has versions: joined rows have the time of the rows before.
    pub fn join_versions(&mut self) {
        self.of.push(None);
    }
}
