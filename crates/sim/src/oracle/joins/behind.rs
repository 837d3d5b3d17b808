//! A window over the rows of a join.
//!
//! Owns what it holds and what closes it: the watermark of the lane less how long the join holds a row back, and, at the end of every input, all that it has once
//! nothing waits before it. Does not own the rows of the join (`oracle::joins`), nor which windows there are and what they hold (`oracle::windows::panes`).
//!
//! | a row of the join                    | its time                  | how far that may be behind the lane's watermark at most    |
//! |--------------------------------------|---------------------------|------------------------------------------------------------|
//! | a pair                               | the later of the two      | the join's lateness: the row that makes it is not late     |
//! | of a left row and its version        | the left row's            | the join's lateness: it is released once that is over      |
//! | of an outer side, without a match    | its own                   | the lateness, and how much later a match of it may be      |
//!
//! So no row of a join is late for the window, whatever the join holds in files, unless the window was closed by the end of every input.

use crate::oracle::windows::panes::Panes;
use crate::pairs::Joins;
use crate::records::{Record, Row};
use crate::results::{Aggregates, Result as Of};

/// The window behind a join.
#[derive(Clone, Debug, PartialEq)]
pub struct Behind {
    window: Aggregates,
    /// How far the join holds its watermark back, milliseconds.
    held_back_ms: i64,
    watermark_ms: i64,
    open: Panes,
    /// Whether results may come in later seals than the one that closes their window: either step is in files.
    is_late: bool,
    /// Results that are due.
    due: Vec<Of>,
}

/// What became of rows of the join in a seal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Those that the window has taken.
    pub taken: u64,
    /// Those that were late.
    pub late: u64,
    /// Those that are part of a result now.
    pub released: u64,
}

impl Behind {
    /// None is open; `None` where there is no window behind the join.
    pub fn new(joins: Joins, is_late: bool) -> Option<Self> {
        let window = joins.window?;
        let outer = [(joins.keeps[0], joins.after_ms), (joins.keeps[1], joins.before_ms)];
        let waits = outer.into_iter().filter(|(is_kept, _)| *is_kept && !joins.is_temporal);
        let waits_ms = waits.map(|(_, longest_ms)| longest_ms).max().unwrap_or_default();
        Some(Self {
            window,
            held_back_ms: joins.lateness_ms + waits_ms,
            watermark_ms: i64::MIN,
            open: Panes::new(window),
            is_late,
            due: Vec::new(),
        })
    }

    /// Takes the rows that a seal has made in the join; what became of them, and the results that the seal must hold. The lane's watermark is `lane_ms`; a seal that
    /// `closes` lets all out.
    pub fn seal(
        &mut self,
        made: &[Row],
        lane_ms: i64,
        closes: bool,
        of_tables: &[(usize, Row)],
    ) -> (Done, Vec<Row>) {
        let mut done = Done::default();
        for [id, key, time_ms] in made.iter().copied() {
            let row = Record { position: 0, id, key, time_ms: time_ms as i64, is_good: true };
            match self.open.take(&row, self.watermark_ms) {
                true => done.taken += 1,
                false => done.late += 1,
            }
        }
        self.watermark_ms = self.watermark_ms.max(lane_ms.saturating_sub(self.held_back_ms));
        if let Some(closing_ms) = self.open.closing_ms().filter(|_| closes) {
            self.watermark_ms = self.watermark_ms.max(closing_ms);
        }
        self.due.extend(self.open.close(self.watermark_ms).into_iter().map(|(of, _)| of));
        let is_late = self.is_late;
        let comes = |of: &Of| of_tables.iter().any(|(_, row)| *row == of.row_of_pairs());
        let (now, later) = self.due.drain(..).partition::<Vec<Of>, _>(|of| !is_late || comes(of));
        self.due = later;
        done.released = now.iter().map(|of| of.last).sum();
        (done, now.iter().map(Of::row_of_pairs).collect())
    }

    /// Rows of the join that it holds.
    pub fn held(&self) -> u64 {
        self.open.held() + self.due.iter().map(|of| of.last).sum::<u64>()
    }

    /// Whether no result of a closed window is still to come.
    pub fn is_out(&self) -> bool {
        self.due.is_empty()
    }

    /// Everything is given up, and time begins again.
    pub fn begin_again(&mut self) {
        (self.watermark_ms, self.open) = (i64::MIN, Panes::new(self.window));
        self.due.clear();
    }
}
