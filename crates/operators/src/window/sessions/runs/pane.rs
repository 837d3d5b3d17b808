//! What a pane of sessions has beyond memory: its runs, cuts and sweeps, in order.
//!
//! Owns when a sweep of it is due, and what of it is still to leave. Does not own when runs are frozen and put in place of others ([`super::Runs`]), nor the work on them
//! (`super::work`).

use std::sync::Arc;

use super::super::{Sessions, end, gap};
use super::fold::{self, Cuts};
use super::sweep::Made;
use crate::window::groups::Groups;
use crate::window::plan::Plan;
use crate::window::spilled::Sizes;
use crate::window::spilled::file::Section;

/// Sweeps in each gap at the most, while records come.
const SWEEPS_OF_A_GAP: i64 = 4;

/// Runs of a pane that a sweep makes one, though nothing may be closed.
const RUNS_MAX: usize = 32;

/// The least and the greatest last record of some sessions.
pub(super) type Lasts = (i64, i64);

/// Parts of sessions that were frozen together, or came of a sweep.
pub(super) struct Run {
    /// By which work on it finds it again.
    pub(super) number: usize,
    pub(super) rows: u64,
    pub(super) sessions: u64,
    pub(super) lasts: Lasts,
    pub(super) at: At,
}

/// Where it is.
pub(super) enum At {
    /// Not written yet.
    Memory(Arc<Sessions>),
    /// In files, by key.
    Files(Vec<Section>),
    /// In files of a snapshot whose footers are still to be read: the number of each, and its blocks.
    Named(Vec<(u32, std::ops::Range<u32>)>),
}

impl Run {
    pub(super) fn in_memory(&self) -> Option<&Arc<Sessions>> {
        match &self.at {
            At::Memory(sessions) => Some(sessions),
            At::Files(_) | At::Named(_) => None,
        }
    }

    pub(super) fn sections(&self) -> &[Section] {
        match &self.at {
            At::Files(sections) => sections,
            At::Memory(_) | At::Named(_) => &[],
        }
    }
}

/// A sweep of all that stands before it.
pub(super) struct Sweep {
    pub(super) watermark_ms: i64,
    /// The key up to which its results have left; `None` before the first piece.
    pub(super) after: Option<Vec<u8>>,
    /// Rows that left with those.
    pub(super) released: u64,
    /// Whether all of them have left.
    pub(super) is_out: bool,
    /// What stays open, once it is made.
    pub(super) made: Option<Made>,
}

/// What a pane has, in order.
pub(super) enum Item {
    Run(Run),
    Cut(Cuts),
    Sweep(Sweep),
}

/// A pane with runs.
#[derive(Default)]
pub(super) struct Pane {
    pub(super) items: Vec<Item>,
    /// All sessions that this watermark closes have left.
    pub(super) released_ms: i64,
    /// Of its sessions in memory as of the last seal.
    pub(super) lasts: Option<Lasts>,
}

impl Pane {
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.items.iter().filter_map(|item| match item {
            Item::Run(run) => Some(run),
            Item::Cut(_) | Item::Sweep(_) => None,
        })
    }

    pub(super) fn sweeps(&self) -> impl Iterator<Item = &Sweep> {
        self.items.iter().filter_map(|item| match item {
            Item::Sweep(sweep) => Some(sweep),
            Item::Cut(_) | Item::Run(_) => None,
        })
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.sweeps().any(|sweep| !sweep.is_out)
    }

    /// The first sweep whose run is not made: what stands before it, and itself.
    pub(super) fn first_sweep(&self) -> Option<(&[Item], &Sweep)> {
        let at = self.items.iter().position(|item| matches!(item, Item::Sweep(_)))?;
        match &self.items[at] {
            Item::Sweep(sweep) if sweep.made.is_none() => Some((&self.items[..at], sweep)),
            _ => None,
        }
    }

    pub(super) fn rows(&self) -> u64 {
        let released: u64 = self.sweeps().map(|sweep| sweep.released).sum();
        self.runs().map(|run| run.rows).sum::<u64>().saturating_sub(released)
    }

    /// The least and the greatest last record of all sessions, as far as known: those that have left may be among them.
    pub(super) fn all_lasts(&self) -> Option<Lasts> {
        let all = self.runs().map(|run| run.lasts).chain(self.lasts);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether a sweep is due as of this watermark; `is_idle` if no records came.
    pub(super) fn is_due(
        &self,
        plan: &Plan,
        pane: i64,
        sizes: &Sizes,
        watermark_ms: i64,
        is_idle: bool,
    ) -> bool {
        if self.is_leaving() {
            return false;
        }
        let runs_max = (sizes.generations_max / 4).clamp(2, RUNS_MAX);
        if self.runs().count() > runs_max {
            return true;
        }
        let closed = |last: i64| plan.is_closed(end(plan, pane, last), watermark_ms);
        let Some((least, greatest)) = self.all_lasts() else { return false };
        let next_ms = self.released_ms.saturating_add(gap(plan) / SWEEPS_OF_A_GAP);
        closed(least) && (is_idle || watermark_ms >= next_ms || closed(greatest))
    }
}

/// Results of closed sessions that can leave.
pub(in crate::window) struct Piece {
    pub pane: i64,
    /// By key and bounds.
    pub groups: Groups,
    pub after: Vec<u8>,
    pub is_last: bool,
    /// Whether nothing of what was swept stays open; said with the last.
    pub is_empty: bool,
}

impl Piece {
    /// The key of each result, and the first and the last record of its session.
    pub fn sessions(&self) -> impl Iterator<Item = (&[u8], i64, i64)> {
        (0..self.groups.len()).map(|group| {
            let (key, span) = fold::split(self.groups.key(group));
            (key, span.first, span.last)
        })
    }
}
