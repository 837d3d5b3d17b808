//! How much one seal lets out.
//!
//! Owns where a release ends whose rows take more than the step's memory: each of them has a copy of its version's columns, so few rows that wait may become very many bytes. The others
//! leave with the next seals, by time. Until then the step's watermark, which its deltas have, is behind the one that it was advanced to: so a start goes on with the rest, and what is late is told by
//! the same time as what is released. Does not own the release (`super`), nor which versions are read for it (`spilled`).

use dataflow::OperatorError;

use super::results::{self, Found, From};
use super::{JoinSide, TemporalJoin};

/// Rows whose bytes are counted together; so many may go beyond the bound.
const ROWS_TOGETHER: usize = 32;

impl TemporalJoin {
    /// Whether rows are left that the greatest watermark so far lets out.
    pub(super) fn has_rest(&self) -> bool {
        self.left.has_due(self.plan.side(JoinSide::Left), self.plan.floor_ms(self.asked_ms))
    }

    /// Whether an advance to this watermark surely lets out all that it may: then the steps behind this one may be advanced with it. Where rows may still come from a step before, within the
    /// same seal, nothing leaves in pieces.
    pub(super) fn leaves_whole(&self, watermark_ms: i64) -> bool {
        let floor_ms = self.plan.floor_ms(watermark_ms);
        !self.left.has_due(self.plan.side(JoinSide::Left), floor_ms)
            || watermark_ms > self.asked_ms && (self.comes_from_steps || self.is_small(floor_ms))
    }

    /// Whether the rows that a floor releases take no more than the memory even if each had the largest version.
    fn is_small(&self, floor_ms: i64) -> bool {
        let of_rows = self.left.memory_bytes() as u64;
        let fits = |rows: u64| {
            let of_versions = rows.saturating_mul(self.right.largest_bytes());
            of_rows.saturating_add(of_versions) <= self.memory_max
        };
        fits(self.left.held()) || fits(self.left.due(self.plan.side(JoinSide::Left), floor_ms))
    }

    /// The floor up to which rows get their versions for the next seal: all that a watermark allows, or as many as may need about as many bytes of files as the memory has.
    pub(super) fn horizon_ms(&self, asked_ms: i64) -> i64 {
        let (side, floor_ms) = (self.plan.side(JoinSide::Left), self.plan.floor_ms(asked_ms));
        if self.spilled.is_empty() || self.comes_from_steps || self.is_small(floor_ms) {
            return floor_ms;
        }
        let rows_max = self.memory_max / self.spilled.mean_bytes().max(1);
        if self.left.due(side, floor_ms) <= rows_max {
            return floor_ms;
        }
        let due = self.left.due_ids(side, floor_ms);
        let mut times_ms: Vec<i64> = due.iter().map(|id| self.left.arena.get(*id).time_ms).collect();
        times_ms.sort_unstable();
        // At least those of the first millisecond.
        times_ms[rows_max as usize].max(times_ms[0] + 1)
    }

    /// What the next seal lets out of what a watermark allows: the watermark that it gets to, and the rows by time. What they need of files has been read.
    pub(super) fn piece(&mut self, asked_ms: i64) -> Result<(i64, Vec<Found>), OperatorError> {
        let mut floor_ms = self.horizon_ms(asked_ms);
        self.check_read(floor_ms)?;
        let ids = self.left.due_ids(self.plan.side(JoinSide::Left), floor_ms);
        let mut found = self.found(floor_ms, &ids)?;
        if !self.comes_from_steps
            && !self.is_small(floor_ms)
            && let Some(end_ms) = self.end_of_piece(&found)
        {
            found.truncate(found.partition_point(|found| found.time_ms < end_ms));
            floor_ms = end_ms;
        }
        let is_whole = floor_ms == self.plan.floor_ms(asked_ms);
        Ok((if is_whole { asked_ms } else { floor_ms + self.plan.lateness_ms }, found))
    }

    /// The time of the first of these rows that should wait, if they take more than the memory.
    fn end_of_piece(&self, found: &[Found]) -> Option<i64> {
        let chunks = self.spilled.chunks();
        let from = From { left: &self.left, right: &self.right, chunks: &chunks };
        if results::bytes(from, found) <= self.memory_max {
            return None;
        }
        let mut bytes = 0;
        for (nth, part) in found.chunks(ROWS_TOGETHER).enumerate() {
            bytes += results::bytes(from, part);
            if nth > 0 && bytes > self.memory_max {
                // Rows of one time leave together: the next piece begins with a time.
                return Some(part[0].time_ms.max(found[0].time_ms + 1));
            }
        }
        None
    }
}
