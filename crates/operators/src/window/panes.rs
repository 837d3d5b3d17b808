//! What open windows hold, by pane: for all kinds but sessions.
//!
//! Owns which windows a watermark closes, of which panes each is made, and when a pane is dropped. Does not own results (`results`).
//!
//! **What is held.** A record is absorbed once, into its pane, however many windows it belongs to; it is held while its pane is, and released with the
//! last window of the pane. So `absorbed = released + held` holds for windows that overlap as for those that do not, and a record is late only
//! when the last of its windows is closed: until then it counts in those that are open.

use std::collections::BTreeMap;

use dataflow::StateError;

use super::encoding::{Reader, damaged, put_len};
use super::groups::Groups;
use super::plan::Plan;
use super::results::Closed;

/// Groups by the start of their pane.
#[derive(Default)]
pub(super) struct Panes(pub BTreeMap<i64, Groups>);

impl Panes {
    /// Takes later groups of a pane in.
    pub fn add(&mut self, pane: i64, later: Groups) {
        match self.0.get_mut(&pane) {
            Some(groups) => groups.merge(&later),
            None => {
                self.0.insert(pane, later);
            }
        }
    }

    /// Takes a later state in.
    pub fn merge(&mut self, later: Self) {
        later.0.into_iter().for_each(|(pane, groups)| self.add(pane, groups));
    }

    /// Closes the windows that the second watermark closes and the first does not, and hands each to `each`.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn close<E>(
        &mut self,
        plan: &Plan,
        (from_ms, to_ms): (i64, i64),
        mut each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut after = from_ms.saturating_sub(plan.lateness_ms);
        // The first pane is a part of the next window: it was dropped if its last one had been closed.
        while let Some(first) = self.0.keys().next() {
            let end = plan.spans.end_after(after.max(*first));
            if !plan.is_closed(end, to_ms) {
                break;
            }
            self.close_one(plan, end, &mut each)?;
            after = end;
        }
        Ok(())
    }

    fn close_one<E>(
        &mut self,
        plan: &Plan,
        end: i64,
        each: &mut impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = plan.spans.start_of(end);
        let panes: Vec<i64> = self.0.range(start..end).map(|(pane, _)| *pane).collect();
        let is_done = |pane: &&i64| plan.spans.last_end(**pane) <= end;
        let released = panes.iter().filter(is_done).map(|pane| self.0[pane].rows()).sum();
        match panes[..] {
            [] => {}
            [only] => each(Closed::of_window((start, end), &self.0[&only], released))?,
            [first, ref more @ ..] if plan.spans.grows() => {
                let mut all = self.0.remove(&first).expect("it was just seen");
                more.iter().filter_map(|pane| self.0.remove(pane)).for_each(|later| all.merge(&later));
                each(Closed::of_window((start, end), &all, released))?;
                self.0.insert(first, all);
            }
            _ => {
                let mut all = Groups::new(&plan.keys, &plan.aggregates);
                self.0.range(start..end).for_each(|(_, groups)| all.merge(groups));
                each(Closed::of_window((start, end), &all, released))?;
            }
        }
        panes.iter().filter(is_done).for_each(|pane| {
            self.0.remove(pane);
        });
        Ok(())
    }

    /// Whether the second watermark closes a window that the first does not.
    pub fn is_due(&self, plan: &Plan, (from_ms, to_ms): (i64, i64)) -> bool {
        let after = from_ms.saturating_sub(plan.lateness_ms);
        let first = self.0.keys().next();
        first.is_some_and(|first| plan.is_closed(plan.spans.end_after(after.max(*first)), to_ms))
    }

    pub fn rows(&self) -> u64 {
        self.0.values().map(Groups::rows).sum()
    }

    pub fn entries(&self) -> u64 {
        self.0.values().map(Groups::len).sum::<usize>() as u64
    }

    pub fn memory_bytes(&self) -> u64 {
        self.0.values().map(Groups::memory_bytes).sum::<usize>() as u64
    }

    /// Writes the panes that have an open window yet.
    pub fn write(&self, plan: &Plan, watermark_ms: i64, to: &mut Vec<u8>) {
        let stays =
            || self.0.iter().filter(|(pane, _)| !plan.is_closed(plan.spans.last_end(**pane), watermark_ms));
        put_len(to, stays().count());
        for (pane, groups) in stays() {
            to.extend_from_slice(&pane.to_le_bytes());
            groups.write(to);
        }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When there is no such pane, or its groups cannot be.
    pub fn read(plan: &Plan, watermark_ms: i64, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut panes = BTreeMap::new();
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            if plan.pane_of(pane) != Some(pane) || plan.is_closed(plan.spans.last_end(pane), watermark_ms) {
                return Err(damaged("has a window that is none, or closed"));
            }
            if panes.insert(pane, Groups::read(&plan.keys, &plan.aggregates, from)?).is_some() {
                return Err(damaged("has a window twice"));
            }
        }
        Ok(Self(panes))
    }
}
