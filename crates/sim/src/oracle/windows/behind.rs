//! A window over the results of another.
//!
//! Owns what it holds and what closes it: the watermark of the lane less the lateness of the window before, and, at the end of every input, all that it has once
//! nothing waits before it. A result that comes later for a window which was closed so is late. Does not own the window before, nor what a seal must hold of both
//! (`oracle::windows`).

use super::panes::Panes;
use crate::results::{Aggregates, Behind, Result as Of};

/// The second of two windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    behind: Behind,
    /// How late a record of the window before may be, milliseconds.
    before_ms: i64,
    watermark_ms: i64,
    open: Panes,
}

/// What a seal did to it.
#[derive(Debug, Default)]
pub struct Done {
    /// What closed.
    pub closed: Vec<(Of, bool)>,
    /// Results of the window before that it has taken, and those that were late.
    pub taken: u64,
    /// Those that were late.
    pub late: u64,
}

impl Second {
    /// None is open; `None` where there is no second window.
    pub fn new(aggregates: Aggregates) -> Option<Self> {
        let behind = aggregates.behind?;
        let open = Panes::new(behind.aggregates());
        Some(Self { behind, before_ms: aggregates.lateness_ms, watermark_ms: i64::MIN, open })
    }

    /// Takes what a seal has closed of the window before. The lane's watermark is `lane_ms`; a seal that `closes` lets all of it out.
    pub fn seal(&mut self, before: Vec<(Of, bool)>, lane_ms: i64, closes: bool) -> Done {
        let mut done = Done::default();
        for (of, _) in before {
            match self.open.take_result(&of, self.watermark_ms) {
                true => done.taken += 1,
                false => done.late += 1,
            }
        }
        self.watermark_ms = self.watermark_ms.max(lane_ms.saturating_sub(self.before_ms));
        if let Some(closing_ms) = self.open.closing_ms().filter(|_| closes) {
            self.watermark_ms = self.watermark_ms.max(closing_ms);
        }
        done.closed = self.open.close(self.watermark_ms);
        done
    }

    /// Results of the window before that it holds.
    pub fn held(&self) -> u64 {
        self.open.held()
    }

    /// Everything is given up, and time begins again.
    pub fn begin_again(&mut self) {
        (self.watermark_ms, self.open) = (i64::MIN, Panes::new(self.behind.aggregates()));
    }
}
