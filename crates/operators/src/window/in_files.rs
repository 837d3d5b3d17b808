//! What of open windows has left memory, whichever their kind.
//!
//! Owns which of the two forms that is, and what the step asks of both. Does not own the forms ([`spilled`](super::spilled), `sessions::runs`).

use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::{StateError, StateFile, StateWork};

use super::encoding::Reader;
use super::plan::Plan;
use super::sessions::runs::{self, Runs};
use super::spilled::{self, Sizes, Spilled};
use crate::runs::FileEntry;

/// What is in files, or on its way there.
pub(super) enum InFiles {
    /// Panes.
    Panes(Spilled),
    /// Sessions.
    Sessions(Runs),
}

/// What a seal says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Panes(spilled::Marks),
    Sessions(runs::Marks),
}

impl Marks {
    /// Nothing.
    pub fn none(plan: &Plan) -> Self {
        match plan.has_sessions() {
            true => Self::Sessions(runs::Marks::default()),
            false => Self::Panes(spilled::Marks::default()),
        }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Panes(marks) => marks.is_empty(),
            Self::Sessions(marks) => marks.is_empty(),
        }
    }

    /// Writes them.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        match self {
            Self::Panes(marks) => marks.write(plan, to),
            Self::Sessions(marks) => marks.write(to),
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When a key is none, or the bytes end early.
    pub fn read(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(match plan.has_sessions() {
            true => Self::Sessions(runs::Marks::read(plan, from)?),
            false => Self::Panes(spilled::Marks::read(plan, from)?),
        })
    }

    /// The ends of open windows that fire with the seal, from files.
    pub fn fired(&self) -> &[i64] {
        match self {
            Self::Panes(marks) => &marks.fired,
            Self::Sessions(_) => &[],
        }
    }

    /// The panes that the seal freezes for want of memory.
    pub fn frozen(&mut self) -> &mut Vec<i64> {
        match self {
            Self::Panes(marks) => &mut marks.frozen,
            Self::Sessions(marks) => &mut marks.frozen,
        }
    }
}

impl InFiles {
    /// Nothing.
    pub fn new(plan: &Plan, sizes: Sizes) -> Self {
        match plan.has_sessions() {
            true => Self::Sessions(Runs::new(plan, sizes)),
            false => Self::Panes(Spilled::new(sizes)),
        }
    }

    /// The sizes that decide when something is spilled or cut.
    pub fn sizes(&self) -> Sizes {
        match self {
            Self::Panes(spilled) => spilled.sizes,
            Self::Sessions(runs) => runs.sizes,
        }
    }

    /// Whether everything is in memory alone.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Panes(spilled) => spilled.is_empty(),
            Self::Sessions(runs) => runs.is_empty(),
        }
    }

    /// Whether something frozen is in memory, so that nothing else may be frozen for want of room.
    pub fn has_unwritten(&self) -> bool {
        match self {
            Self::Panes(spilled) => spilled.has_unwritten(),
            Self::Sessions(runs) => runs.has_unwritten(),
        }
    }

    /// Whether something is on its way to files.
    pub fn is_spilling(&self) -> bool {
        match self {
            Self::Panes(spilled) => spilled.is_spilling(),
            Self::Sessions(runs) => runs.is_spilling(),
        }
    }

    /// Whether a pane may be frozen no more often.
    pub fn is_full(&self, plan: &Plan, pane: i64) -> bool {
        match self {
            Self::Panes(spilled) => spilled.is_full(plan, pane),
            Self::Sessions(runs) => runs.is_full(pane),
        }
    }

    /// Whether a seal lets anything out, or begins to, that moves the watermark like this; `is_idle` if no records came.
    pub fn is_due(&self, plan: &Plan, between: (i64, i64), is_idle: bool) -> bool {
        match self {
            Self::Panes(spilled) => spilled.is_due(plan, between),
            Self::Sessions(runs) => runs.is_due(plan, between.1.max(between.0), is_idle),
        }
    }

    /// The ends of windows that fire.
    pub fn firing(&self) -> impl Iterator<Item = i64> {
        let panes = match self {
            Self::Panes(spilled) => Some(spilled),
            Self::Sessions(_) => None,
        };
        panes.into_iter().flat_map(Spilled::firing)
    }

    /// Whether results are still on their way.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Panes(spilled) => spilled.is_leaving(),
            Self::Sessions(runs) => runs.is_leaving(),
        }
    }

    /// The least time that a result may still have which is not out though it is closed, once the watermark moves like this.
    pub fn held_back(&self, plan: &Plan, between: (i64, i64)) -> Option<i64> {
        match self {
            Self::Panes(spilled) => spilled.held_back(plan, between).map(|end| end - 1),
            Self::Sessions(runs) => runs.held_back(plan),
        }
    }

    /// The end of the last window that is in files.
    pub fn last_end(&self, plan: &Plan) -> Option<i64> {
        match self {
            Self::Panes(spilled) => spilled.last_pane().map(|pane| plan.spans.last_end(pane)),
            Self::Sessions(runs) => runs.last_end(plan),
        }
    }

    /// Rows held.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Panes(spilled) => spilled.rows(),
            Self::Sessions(runs) => runs.rows(),
        }
    }

    /// Groups, or parts of sessions, held: those of a key may be several.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Panes(spilled) => spilled.entries(),
            Self::Sessions(runs) => runs.entries(),
        }
    }

    /// Those in files.
    pub fn entries_in_files(&self) -> u64 {
        match self {
            Self::Panes(spilled) => spilled.entries_in_files(),
            Self::Sessions(runs) => runs.entries_in_files(),
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Panes(spilled) => spilled.memory_bytes(),
            Self::Sessions(runs) => runs.memory_bytes(),
        }
    }

    /// The files in use.
    pub fn files(&self) -> Vec<StateFile> {
        match self {
            Self::Panes(spilled) => spilled.files(),
            Self::Sessions(runs) => runs.files(),
        }
    }

    /// Work that is due.
    pub fn work(&mut self, plan: &Arc<Plan>) -> Option<Box<dyn StateWork>> {
        match self {
            Self::Panes(spilled) => spilled.work(plan),
            Self::Sessions(runs) => runs.work(),
        }
    }

    /// Takes over what work made.
    ///
    /// # Errors
    /// When it is none of this state's, or not done.
    pub fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        match self {
            Self::Panes(spilled) => spilled.adopt(work),
            Self::Sessions(runs) => runs.adopt(work),
        }
    }

    /// Files that a start must open, in order.
    pub fn opening(&self) -> &VecDeque<FileEntry> {
        match self {
            Self::Panes(spilled) => spilled.opening(),
            Self::Sessions(runs) => runs.opening(),
        }
    }

    /// Takes the footer of the next file.
    ///
    /// # Errors
    /// When it is damaged, another file's, or not asked for.
    pub fn open_file(&mut self, plan: &Plan, bytes: &[u8]) -> Result<(), StateError> {
        match self {
            Self::Panes(spilled) => spilled.open_file(plan, bytes),
            Self::Sessions(runs) => runs.open_file(bytes),
        }
    }

    /// Writes it for a snapshot.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        match self {
            Self::Panes(spilled) => spilled.write(plan, to),
            Self::Sessions(runs) => runs.write(plan, to),
        }
    }

    /// Reads what was written; the files it names are still to be [opened](Self::open_file).
    ///
    /// # Errors
    /// When it cannot be.
    pub fn read(
        plan: &Plan,
        sizes: Sizes,
        watermark_ms: i64,
        from: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        Ok(match plan.has_sessions() {
            true => Self::Sessions(Runs::read(plan, sizes, watermark_ms, from)?),
            false => Self::Panes(Spilled::read(plan, sizes, watermark_ms, from)?),
        })
    }
}
