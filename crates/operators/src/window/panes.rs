//! What open windows hold, by pane: for all kinds but sessions.
//!
//! Owns which windows a watermark closes, of which panes each is made, and when a pane is dropped. Does not own results (`results`), nor what becomes of
//! windows with a pane that is in files ([`spilled`](super::spilled)).
//!
//! **What is held.** A record is absorbed once, into its pane, however many windows it belongs to; it is held while its pane is, and released with the
//! last window of the pane. So `absorbed = released + held` holds for windows that overlap as for those that do not, and a record is late only
//! when the last of its windows is closed: until then it counts in those that are open.

use std::collections::BTreeMap;

use dataflow::StateError;

use super::emit::Fired;
use super::encoding::{Reader, damaged, put_len};
use super::groups::Groups;
use super::plan::Plan;
use super::results::Closed;
use super::spilled::Spilled;

/// Groups by the start of their pane.
#[derive(Default)]
pub(super) struct Panes {
    pub panes: BTreeMap<i64, Groups>,
    /// What was written of windows that are open; empty unless results come before a window is closed.
    pub fired: Fired,
}

impl Panes {
    /// Takes later groups of a pane in.
    pub fn add(&mut self, pane: i64, later: Groups) {
        match self.panes.get_mut(&pane) {
            Some(groups) => groups.merge(&later),
            None => {
                self.panes.insert(pane, later);
            }
        }
    }

    /// Takes what a batch brought of a pane in. Until the next seal it grows by one batch after another.
    pub fn take(&mut self, pane: i64, later: Groups) {
        match self.panes.get_mut(&pane) {
            Some(groups) => groups.merge_amply(&later),
            None => {
                self.panes.insert(pane, later);
            }
        }
    }

    /// Takes what came with a seal in.
    pub fn merge(&mut self, plan: &Plan, later: Self) {
        let has_versions = plan.emit.is_some();
        if has_versions {
            self.fired.seals = self.fired.seals.max(later.fired.seals).saturating_add(1);
        }
        self.fired.is_early = later.fired.is_early;
        for (pane, mut groups) in later.panes {
            if has_versions {
                groups.stamp(self.fired.seals);
            }
            // Those of a new pane stay for as long as its window is open.
            if !self.panes.contains_key(&pane) {
                groups.give_room_back();
            }
            self.add(pane, groups);
        }
    }

    /// Closes the windows that the second watermark closes and the first does not, and hands each to `each`; of those with a pane in files the results
    /// begin to leave.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn close<E>(
        &mut self,
        plan: &Plan,
        (from_ms, to_ms): (i64, i64),
        spilled: &mut Spilled,
        mut each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut after = from_ms.saturating_sub(plan.lateness_ms);
        while let Some(first) = self.first_open(plan, spilled, after) {
            let end = plan.spans.end_after(after.max(first));
            if !plan.is_closed(end, to_ms) {
                break;
            }
            match spilled.touches(plan, end) {
                true => self.leave(plan, end, spilled),
                false => self.close_one(plan, end, &mut each)?,
            }
            after = end;
        }
        Ok(())
    }

    /// The first pane of a window that ends after a time. One in memory was dropped if its last window had been closed.
    fn first_open(&self, plan: &Plan, spilled: &Spilled, after: i64) -> Option<i64> {
        self.panes.keys().next().copied().into_iter().chain(spilled.first_open(plan, after)).min()
    }

    /// The results of a window begin to leave: what its panes have in memory is the last that it has of them.
    fn leave(&mut self, plan: &Plan, end: i64, spilled: &mut Spilled) {
        let panes: Vec<i64> =
            self.panes.range(plan.spans.start_of(end)..end).map(|(pane, _)| *pane).collect();
        self.freeze(&panes, spilled);
        spilled.begin_to_leave(end, self.fired.last(end));
        self.fired.forget(end);
    }

    /// An open window fires from files: what is new in it begins to leave, and is taken for written.
    pub fn fire_in_files(&mut self, plan: &Plan, end: i64, spilled: &mut Spilled) {
        let panes: Vec<i64> =
            self.panes.range(plan.spans.start_of(end)..end).map(|(pane, _)| *pane).collect();
        self.freeze(&panes, spilled);
        spilled.begin_to_fire(end, self.fired.last(end));
        self.fired.fire(end);
    }

    /// Panes begin anew in memory.
    pub fn freeze(&mut self, panes: &[i64], spilled: &mut Spilled) {
        for pane in panes {
            if let Some(groups) = self.panes.remove(pane) {
                spilled.freeze(*pane, groups);
            }
        }
    }

    fn close_one<E>(
        &mut self,
        plan: &Plan,
        end: i64,
        each: &mut impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = plan.spans.start_of(end);
        let panes: Vec<i64> = self.panes.range(start..end).map(|(pane, _)| *pane).collect();
        let is_done = |pane: &&i64| plan.spans.last_end(**pane) <= end;
        let released = panes.iter().filter(is_done).map(|pane| self.panes[pane].rows()).sum();
        let mut fired = std::mem::take(&mut self.fired);
        let mut news = News { fired: &mut fired, bounds: (start, end), released, closes: true };
        match panes[..] {
            [] => {}
            [only] => news.of(plan, &self.panes[&only], each)?,
            [first, ref more @ ..] if plan.spans.grows() => {
                let mut all = self.panes.remove(&first).expect("it was just seen");
                more.iter().filter_map(|pane| self.panes.remove(pane)).for_each(|later| all.merge(&later));
                news.of(plan, &all, each)?;
                self.panes.insert(first, all);
            }
            _ => news.of(plan, &self.together(plan, (start, end)), each)?,
        }
        fired.forget(end);
        self.fired = fired;
        panes.iter().filter(is_done).for_each(|pane| {
            self.panes.remove(pane);
        });
        Ok(())
    }

    /// The groups of a window of several panes.
    fn together(&self, plan: &Plan, (start, end): (i64, i64)) -> Groups {
        let mut all = Groups::new(&plan.keys, &plan.aggregates);
        self.panes.range(start..end).for_each(|(_, groups)| all.merge(groups));
        all
    }

    /// The ends of the open windows that fire with a seal of this watermark, which is early or not, and have something new: those that are in memory, and those with a
    /// pane in files.
    pub fn firing(&self, plan: &Plan, spilled: &Spilled, watermark_ms: i64, is_early: bool) -> Fires {
        let Some(firing) = plan.emit else { return Fires::default() };
        let mut newest = BTreeMap::<i64, u64>::new();
        let in_memory = self.panes.iter().map(|(pane, groups)| (*pane, groups.newest()));
        for (pane, newest_there) in in_memory.chain(spilled.newest()) {
            let mut end = plan.spans.end_after(pane);
            while end <= plan.spans.last_end(pane) {
                let fires = firing.fires(is_early, end, watermark_ms) || self.fired.has_missed(end);
                if fires && !plan.is_closed(end, watermark_ms) {
                    let seal = newest.entry(end).or_default();
                    *seal = newest_there.max(*seal);
                }
                end = plan.spans.end_after(end);
            }
        }
        let has_news = |(end, seal): (i64, u64)| (seal > self.fired.last(end)).then_some(end);
        let new = newest.into_iter().filter_map(has_news);
        let (in_files, in_memory): (Vec<i64>, _) = new.partition(|end| spilled.touches(plan, *end));
        let (in_files, held) = in_files.into_iter().partition(|end| spilled.can_fire(plan, *end));
        Fires { in_memory, in_files, held }
    }

    /// Hands what is new in an open window to `each`, and takes it for written.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn fire<E>(
        &mut self,
        plan: &Plan,
        end: i64,
        mut each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = plan.spans.start_of(end);
        let mut fired = std::mem::take(&mut self.fired);
        let mut news = News { fired: &mut fired, bounds: (start, end), released: 0, closes: false };
        let mut panes = self.panes.range(start..end);
        let done = match (panes.next(), panes.next()) {
            (Some((_, only)), None) => news.of(plan, only, &mut each),
            _ => news.of(plan, &self.together(plan, (start, end)), &mut each),
        };
        fired.fire(end);
        self.fired = fired;
        done
    }

    /// Whether the second watermark closes a window that the first does not.
    pub fn is_due(&self, plan: &Plan, (from_ms, to_ms): (i64, i64)) -> bool {
        let after = from_ms.saturating_sub(plan.lateness_ms);
        let first = self.panes.keys().next();
        first.is_some_and(|first| plan.is_closed(plan.spans.end_after(after.max(*first)), to_ms))
    }

    /// The end of the last window that has a pane.
    pub fn last_end(&self, plan: &Plan) -> Option<i64> {
        self.panes.keys().next_back().map(|pane| plan.spans.last_end(*pane))
    }

    pub fn rows(&self) -> u64 {
        self.panes.values().map(Groups::rows).sum()
    }

    pub fn entries(&self) -> u64 {
        self.panes.values().map(Groups::len).sum::<usize>() as u64
    }

    pub fn memory_bytes(&self) -> u64 {
        let groups: usize = self.panes.values().map(Groups::memory_bytes).sum();
        (groups + self.fired.memory_bytes()) as u64
    }

    /// Writes the panes that have an open window yet; with `closed` all others too, for their results may leave later.
    pub fn write(&self, plan: &Plan, watermark_ms: i64, closed: bool, to: &mut Vec<u8>) {
        let stays = || {
            let is_open = |pane: i64| !plan.is_closed(plan.spans.last_end(pane), watermark_ms);
            self.panes.iter().filter(move |(pane, _)| closed || is_open(**pane))
        };
        put_len(to, stays().count());
        for (pane, groups) in stays() {
            to.extend_from_slice(&pane.to_le_bytes());
            groups.write(to);
        }
    }

    /// Reads what was written; with closed panes only if they `may_leave`.
    ///
    /// # Errors
    /// When there is no such pane, or its groups cannot be.
    pub fn read(
        plan: &Plan,
        watermark_ms: i64,
        may_leave: bool,
        from: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let mut panes = BTreeMap::new();
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            let is_closed = plan.is_closed(plan.spans.last_end(pane), watermark_ms);
            if plan.pane_of(pane) != Some(pane) || (is_closed && !may_leave) {
                return Err(damaged("has a window that is none, or closed"));
            }
            if panes.insert(pane, Groups::read(&plan.keys, &plan.aggregates, from)?).is_some() {
                return Err(damaged("has a window twice"));
            }
        }
        Ok(Self { panes, fired: Fired::default() })
    }

    /// Writes what was written of open windows, and when groups had rows.
    pub fn write_firing(&self, plan: &Plan, to: &mut Vec<u8>) {
        self.fired.write(to);
        self.panes.values().for_each(|groups| groups.write_seals(to));
        self.fired.write_results(plan, to);
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it says of a seal that was not.
    pub fn read_firing(&mut self, plan: &Plan, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.fired = Fired::read(from)?;
        let newest = self.fired.seals;
        self.panes.values_mut().try_for_each(|groups| groups.read_seals(newest, from))?;
        self.fired.read_results(plan, from)
    }
}

/// The ends of windows that fire, or would.
#[derive(Default)]
pub(super) struct Fires {
    /// With no pane in files.
    pub in_memory: Vec<i64>,
    pub in_files: Vec<i64>,
    /// Those of files that cannot yet.
    pub held: Vec<i64>,
}

impl Fires {
    /// Whether nothing fires.
    pub fn is_empty(&self) -> bool {
        self.in_memory.is_empty() && self.in_files.is_empty()
    }
}

/// What a seal has of a window.
struct News<'a> {
    /// What was written before.
    fired: &'a mut Fired,
    bounds: (i64, i64),
    released: u64,
    /// Whether it is the last that there is.
    closes: bool,
}

impl News<'_> {
    /// Results with the version of the seal.
    fn whole<'a>(&self, groups: &'a Groups) -> Closed<'a> {
        Closed::of_window(self.bounds, groups, self.released).with_version(self.fired.seals)
    }

    /// Hands the results that are new to `each`, behind those that they take back; none if nothing is new and nothing is released.
    fn of<E>(
        &mut self,
        plan: &Plan,
        groups: &Groups,
        each: &mut impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (after, seal) = (self.fired.last(self.bounds.1), self.fired.seals);
        if after == 0 && !plan.has_sign() {
            return each(self.whole(groups));
        }
        let numbers = groups.changed_after(after);
        if numbers.is_empty() && self.released == 0 {
            return Ok(());
        }
        let picked = groups.picked(plan, &numbers);
        if plan.has_sign() {
            let before = self.fired.written.of(plan, self.bounds.1, &picked);
            if before.len() > 0 {
                each(Closed::taken_back(self.bounds, &before))?;
            }
        }
        each(self.whole(&picked))?;
        if plan.has_sign() && !self.closes {
            self.fired.written.write_over(plan, self.bounds.1, picked, seal);
        }
        Ok(())
    }
}
