//! What open windows hold, whichever their kind.
//!
//! Owns which of the two forms that is, and what the step asks of both. Does not own the forms (`window::panes`, `window::sessions`), nor
//! which windows there are (`window::kinds`). A record comes to `fresh` and, with a seal, from there to `base`.

use std::convert::Infallible;

use dataflow::{Batch, StateError};

use super::encoding::Reader;
use super::in_files::InFiles;
use super::kinds::Spans;
use super::panes::{Fires, Panes};
use super::partial::Parts;
use super::plan::Plan;
use super::results::Closed;
use super::sessions::ByKey;
use super::sessions::runs::Look;

/// The windows that are open.
pub(super) enum Open {
    /// Of panes.
    Panes(Panes),
    /// Sessions.
    Sessions(ByKey),
}

/// What became of the rows of a batch.
#[derive(Default)]
pub(super) struct Taken {
    pub absorbed: u64,
    pub late: u64,
    /// The numbers of the late rows, in no order, where they depend on what came before: those of sessions.
    pub late_rows: Vec<u32>,
}

impl Open {
    /// None.
    pub fn new(plan: &Plan) -> Self {
        match plan.spans {
            Spans::Session { .. } => Self::Sessions(ByKey::default()),
            Spans::Hopping { .. } | Spans::Cumulative { .. } => Self::Panes(Panes::default()),
        }
    }

    /// Takes what a batch brought in, into what came since the last seal; `base` is what was there before.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn take(
        &mut self,
        plan: &Plan,
        (base, watermark_ms): (&Self, i64),
        batch: &Batch,
        parts: Parts,
        (in_files, look): (&mut InFiles, &Look),
    ) -> Result<Taken, String> {
        let mut taken = Taken::default();
        match (self, base, parts, in_files) {
            (Self::Panes(own), _, Parts::Panes(parts), _) => {
                for (pane, groups) in parts {
                    if plan.is_closed(plan.spans.last_end(pane), watermark_ms) {
                        taken.late += groups.rows();
                        continue;
                    }
                    taken.absorbed += groups.rows();
                    own.take(pane, groups);
                }
            }
            (Self::Sessions(own), Self::Sessions(base), Parts::Sessions(parts), InFiles::Sessions(runs)) => {
                taken = own.take(plan, (base, watermark_ms), batch, parts, (runs, look))?;
            }
            _ => unreachable!("a step keeps its kind of windows"),
        }
        Ok(taken)
    }

    /// Takes what came since the last seal in.
    pub fn merge(&mut self, plan: &Plan, later: Self) {
        match (self, later) {
            (Self::Panes(own), Self::Panes(later)) => own.merge(plan, later),
            (Self::Sessions(own), Self::Sessions(later)) => own.merge(plan, later),
            _ => unreachable!("a step keeps its kind of windows"),
        }
    }

    /// Closes the windows that the second watermark closes and the first does not; hands them to `each`, or to those that leave
    /// from [files](super::in_files).
    ///
    /// # Errors
    /// What `each` returns.
    pub fn close<E>(
        &mut self,
        plan: &Plan,
        between: (i64, i64),
        in_files: &mut InFiles,
        each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match (self, in_files) {
            (Self::Panes(own), InFiles::Panes(spilled)) => own.close(plan, between, spilled, each),
            (Self::Sessions(own), InFiles::Sessions(runs)) => own.close(plan, between.1, runs, each),
            _ => unreachable!("a step keeps its kind of windows"),
        }
    }

    /// The ends of the windows that fire with a seal of this watermark, which is early or not, though they stay open; none but where results come
    /// before that.
    pub fn firing(&self, plan: &Plan, in_files: &InFiles, watermark_ms: i64, is_early: bool) -> Fires {
        match (self, in_files) {
            (Self::Panes(own), InFiles::Panes(spilled)) => own.firing(plan, spilled, watermark_ms, is_early),
            _ => Fires::default(),
        }
    }

    /// These windows could not begin to fire with an early seal.
    pub fn miss(&mut self, ends: impl Iterator<Item = i64>) {
        if let Self::Panes(own) = self {
            own.fired.miss(ends);
        }
    }

    /// What is new in an open window with a pane in files begins to leave.
    pub fn fire_in_files(&mut self, plan: &Plan, end: i64, in_files: &mut InFiles) {
        if let (Self::Panes(own), InFiles::Panes(spilled)) = (self, in_files) {
            own.fire_in_files(plan, end, spilled);
        }
    }

    /// Hands what is new in the open window that ends then to `each`.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn fire<E>(
        &mut self,
        plan: &Plan,
        end: i64,
        each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Panes(own) => own.fire(plan, end, each),
            Self::Sessions(_) => unreachable!("sessions do not fire"),
        }
    }

    /// Takes a window for fired, without its results: a start knows that they were written.
    pub fn fired(&mut self, plan: &Plan, end: i64) {
        match self {
            // What was written is kept where it is taken back later.
            Self::Panes(own) if plan.has_sign() => {
                let Ok(()) = own.fire(plan, end, |_| Ok::<(), Infallible>(()));
            }
            Self::Panes(own) => own.fired.fire(end),
            Self::Sessions(_) => {}
        }
    }

    /// Memory that is held of what was written, in bytes.
    #[cfg(test)]
    pub fn fired_bytes(&self) -> usize {
        match self {
            Self::Panes(own) => own.fired.memory_bytes(),
            Self::Sessions(_) => 0,
        }
    }

    /// Writes what was written of open windows, and when groups had rows.
    pub fn write_firing(&self, plan: &Plan, to: &mut Vec<u8>) {
        if let Self::Panes(own) = self {
            own.write_firing(plan, to);
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn read_firing(&mut self, plan: &Plan, from: &mut Reader<'_>) -> Result<(), StateError> {
        match self {
            Self::Panes(own) => own.read_firing(plan, from),
            Self::Sessions(_) => Ok(()),
        }
    }

    /// Whether the seal that this came with is early.
    pub fn is_early(&self) -> bool {
        match self {
            Self::Panes(own) => own.fired.is_early,
            Self::Sessions(_) => false,
        }
    }

    /// Says whether it is.
    pub fn set_early(&mut self, is_early: bool) {
        if let Self::Panes(own) = self {
            own.fired.is_early = is_early;
        }
    }

    /// The number of the newest seal; or, of what came with one, the number behind which it is.
    pub fn seals(&self) -> u64 {
        match self {
            Self::Panes(own) => own.fired.seals,
            Self::Sessions(_) => 0,
        }
    }

    /// Says the number behind which the seal is that this came with.
    pub fn set_seals(&mut self, seals: u64) {
        if let Self::Panes(own) = self {
            own.fired.seals = seals;
        }
    }

    /// The memory of each pane, the earliest first.
    pub fn sizes(&self) -> Vec<(i64, u64)> {
        match self {
            Self::Panes(own) => {
                own.panes.iter().map(|(pane, groups)| (*pane, groups.memory_bytes() as u64)).collect()
            }
            Self::Sessions(own) => own.sizes(),
        }
    }

    /// Panes begin anew in memory; all that this watermark closes has left memory.
    pub fn freeze(&mut self, panes: &[i64], in_files: &mut InFiles, watermark_ms: i64) {
        match (self, in_files) {
            (Self::Panes(own), InFiles::Panes(spilled)) => own.freeze(panes, spilled),
            (Self::Sessions(own), InFiles::Sessions(runs)) => {
                for pane in panes {
                    if let Some(sessions) = own.take_pane(*pane) {
                        runs.freeze(*pane, sessions, watermark_ms);
                    }
                }
            }
            _ => unreachable!("a step keeps its kind of windows"),
        }
    }

    /// Whether that would close any, or may.
    pub fn is_due(&self, plan: &Plan, between: (i64, i64), in_files: &InFiles) -> bool {
        match (self, in_files) {
            (Self::Panes(own), _) => own.is_due(plan, between),
            (Self::Sessions(own), InFiles::Sessions(runs)) => own.is_due(plan, between.1, runs),
            _ => unreachable!("a step keeps its kind of windows"),
        }
    }

    /// The end of the last window that is open; `None` without one.
    pub fn last_end(&self, plan: &Plan) -> Option<i64> {
        match self {
            Self::Panes(own) => own.last_end(plan),
            Self::Sessions(own) => own.last_end(plan),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Panes(own) => own.panes.is_empty(),
            Self::Sessions(own) => own.is_empty(),
        }
    }

    /// Rows held.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Panes(own) => own.rows(),
            Self::Sessions(own) => own.rows(),
        }
    }

    /// Pairs of a key and a pane, or sessions.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Panes(own) => own.entries(),
            Self::Sessions(own) => own.entries(),
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Panes(own) => own.memory_bytes(),
            Self::Sessions(own) => own.memory_bytes(),
        }
    }

    /// Writes it, but for what this watermark closes and nothing can join; with `closed` that too, as far as it is of panes.
    pub fn write(&self, plan: &Plan, watermark_ms: i64, closed: bool, to: &mut Vec<u8>) {
        match self {
            Self::Panes(own) => own.write(plan, watermark_ms, closed, to),
            Self::Sessions(own) => own.write(plan, to),
        }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When the bytes cannot be those of open windows of this step.
    pub fn read(
        plan: &Plan,
        watermark_ms: i64,
        may_leave: bool,
        from: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        Ok(match plan.spans {
            Spans::Session { .. } => Self::Sessions(ByKey::read(plan, from)?),
            Spans::Hopping { .. } | Spans::Cumulative { .. } => {
                Self::Panes(Panes::read(plan, watermark_ms, may_leave, from)?)
            }
        })
    }
}
