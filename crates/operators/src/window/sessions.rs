//! Open sessions: records of a key that are closer together than the gap.
//!
//! Owns which session a record joins, what becomes one when a record stands between two, and which are closed. Does not own results (`results`).
//!
//! Sessions are kept apart by the time at which all of them end ([`ByKey`]), so that none reaches beyond it. A session has a number; those of a key are
//! a chain in the order of time. A session that was closed, or has become a part of another, leaves its number behind without rows: when most
//! are such, the others are numbered anew, in their order.
//!
//! | a record                                                      | becomes                                              |
//! |---------------------------------------------------------------|------------------------------------------------------|
//! | less than `gap` from an open session of its key               | a part of it; several such sessions become one       |
//! | of another time, and a session of it alone would be open      | a new session                                        |
//! | of another time, and a session of it alone would be closed    | late                                                 |
//!
//! Records are taken one after the other only in a batch with one that a session of it alone would be closed for: the fate of all others does not
//! depend on their order.

mod chains;
pub(super) mod runs;

use std::collections::{BTreeMap, HashMap};

use dataflow::{Batch, StateError};

use super::accumulator::{Accumulators, Rows};
use super::encoding::{Reader, damaged, put_len};
use super::groups::Groups;
use super::key::Encoded;
use super::kinds::Spans;
use super::open::Taken;
use super::partial::deal;
use super::plan::Plan;
use super::results::{Closed, Versions};
use chains::{Chains, Joined, Span};
use runs::{Look, Runs};

/// Numbers at the least before they are given anew.
const NUMBERS_MIN: usize = 1024;

/// Rows of all sessions at the most, as read from a store that others may write to.
const ROWS_MAX: u64 = 1 << 48;

/// Sessions between two times at which all of them end.
pub(super) struct Sessions {
    chains: Chains,
    accumulators: Accumulators,
}

impl Sessions {
    fn new(plan: &Plan) -> Self {
        Self { chains: Chains::new(&plan.keys), accumulators: Accumulators::new(&plan.aggregates) }
    }

    /// Those of some rows of a batch.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn of(plan: &Plan, batch: &Batch, keys: &Encoded, rows: &[u32]) -> Result<Self, String> {
        let mut own = Self::new(plan);
        let gap = gap(plan);
        let key_of: Vec<u32> = rows.iter().map(|row| own.chains.key(keys.get(*row as usize))).collect();
        let time = |at: usize| batch.times_ms[rows[at] as usize];
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| (key_of[*at], time(*at)));
        let mut of = vec![0; rows.len()];
        let is_near = |a: usize, b: usize| time(b) < time(a).saturating_add(gap);
        for together in order.chunk_by(|a, b| key_of[*a] == key_of[*b] && is_near(*a, *b)) {
            let (first, last) = (time(together[0]), time(together[together.len() - 1]));
            let number = own.chains.add(key_of[together[0]], Span { first, last }, together.len() as u64);
            together.iter().for_each(|at| of[*at] = number);
        }
        own.update(plan, batch, rows, &of)?;
        Ok(own)
    }

    fn update(&mut self, plan: &Plan, batch: &Batch, rows: &[u32], of: &[u32]) -> Result<(), String> {
        let len = self.chains.len();
        self.accumulators.grow(len);
        let of = Rows { rows, groups: of, times_ms: &batch.times_ms };
        self.accumulators.update(&batch.rows, &plan.aggregates, of)
    }

    /// The aggregates of some sessions, numbered as they stand there.
    fn picked(&self, plan: &Plan, numbers: &[u32]) -> Accumulators {
        let moves: Vec<(u32, u32)> = numbers.iter().copied().zip(0..).collect();
        let mut picked = Self::new(plan).accumulators;
        picked.grow(numbers.len());
        picked.merge(&self.accumulators, &moves);
        picked
    }

    /// Puts sessions into those that they have become parts of.
    fn settle(&mut self, plan: &Plan, joined: &Joined) {
        let len = self.chains.len();
        self.accumulators.grow(len);
        if joined.is_empty() {
            return;
        }
        let (from, to): (Vec<u32>, Vec<u32>) = joined.all().unzip();
        let moves: Vec<(u32, u32)> = (0..).zip(to).collect();
        let picked = self.picked(plan, &from);
        self.accumulators.merge(&picked, &moves);
    }

    /// Takes later sessions in.
    fn merge(&mut self, plan: &Plan, later: &Self) {
        let (gap, mut joined) = (gap(plan), Joined::default());
        let open: Vec<u32> = later.chains.open().collect();
        let join = |number: &u32| {
            let key = self.chains.key(later.chains.key_of(*number));
            self.chains.join(key, later.chains.span(*number), later.chains.rows_of(*number), gap, &mut joined)
        };
        let to: Vec<u32> = open.iter().map(join).collect();
        self.settle(plan, &joined);
        let moves: Vec<(u32, u32)> = open.into_iter().zip(to.into_iter().map(|to| joined.root(to))).collect();
        self.accumulators.merge(&later.accumulators, &moves);
    }

    /// Numbers the open sessions anew when most numbers are of none.
    fn pack(&mut self, plan: &Plan) {
        let open: Vec<u32> = self.chains.open().collect();
        if self.chains.len() < NUMBERS_MIN || open.len() * 2 > self.chains.len() {
            return;
        }
        let mut chains = Chains::new(&plan.keys);
        for number in &open {
            let key = chains.key(self.chains.key_of(*number));
            chains.add(key, self.chains.span(*number), self.chains.rows_of(*number));
        }
        *self = Self { accumulators: self.picked(plan, &open), chains };
    }

    fn memory_bytes(&self) -> usize {
        self.chains.memory_bytes() + self.accumulators.memory_bytes()
    }

    fn rows(&self) -> u64 {
        self.chains.rows()
    }

    /// How many are open.
    fn len(&self) -> u64 {
        self.chains.open().count() as u64
    }

    /// The least and the greatest last record of all; `None` if there is no session.
    fn lasts(&self) -> Option<(i64, i64)> {
        let lasts = self.chains.open().map(|number| self.chains.span(number).last).map(|last| (last, last));
        lasts.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The numbers of all, by their keys in a run.
    pub fn sorted(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.chains.open().collect();
        let bounds = |number: u32| {
            let span = self.chains.span(number);
            [span.first.to_le_bytes(), span.last.to_le_bytes()]
        };
        numbers.sort_unstable_by(|a, b| {
            let by_key = self.chains.key_of(*a).cmp(self.chains.key_of(*b));
            by_key.then_with(|| bounds(*a).cmp(&bounds(*b)))
        });
        numbers
    }

    /// Some of them as groups by their keys and bounds, for a run; `plan` has the keys of runs.
    pub fn entries(&self, plan: &Plan, numbers: &[u32]) -> Groups {
        let mut entries = Groups::new(&plan.keys, &plan.aggregates);
        let entry = |number: &u32| {
            let key = runs::entry(self.chains.key_of(*number), self.chains.span(*number));
            (key, *number, self.chains.rows_of(*number))
        };
        entries.take_as(&self.accumulators, numbers.iter().map(entry));
        entries
    }

    /// Writes all of them.
    fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        let open: Vec<u32> = self.chains.open().collect();
        self.chains.write(&plan.keys, &open, to);
        self.picked(plan, &open).write(to);
    }

    /// Reads what was written, of a pane.
    ///
    /// # Errors
    /// When two sessions of a key are one, one is not of its time, or the aggregates cannot be those of so many rows.
    fn read(plan: &Plan, pane: i64, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut sessions = Self::new(plan);
        let within = pane..plan.spans.last_end(pane);
        for (key, span, rows) in Chains::read(&plan.keys, from)? {
            let key = sessions.chains.key(key);
            let is_one =
                span.first <= span.last && within.contains(&span.first) && within.contains(&span.last);
            let rows_after = sessions.chains.rows().checked_add(rows).filter(|rows| *rows <= ROWS_MAX);
            if !is_one || rows == 0 || rows_after.is_none() || sessions.chains.is_near(key, span, gap(plan)) {
                return Err(damaged("has a session that cannot be"));
            }
            sessions.chains.add(key, span, rows);
        }
        let counts: Vec<u64> = sessions.chains.open().map(|number| sessions.chains.rows_of(number)).collect();
        sessions.accumulators.read(from, &counts)?;
        Ok(sessions)
    }
}

fn gap(plan: &Plan) -> i64 {
    match plan.spans {
        Spans::Session { gap, .. } => gap,
        Spans::Hopping { .. } | Spans::Cumulative { .. } => unreachable!("only sessions have a gap"),
    }
}

/// When a session ends: `gap` after its last record, or when all do that are kept with it.
fn end(plan: &Plan, pane: i64, last: i64) -> i64 {
    last.saturating_add(gap(plan)).min(plan.spans.last_end(pane))
}

/// The sessions of a piece that leaves.
pub(super) fn closed<'a>(plan: &Plan, piece: &'a runs::Piece) -> Closed<'a> {
    let groups = &piece.groups;
    let sessions = || piece.sessions();
    Closed {
        keys: sessions().map(|(key, ..)| key).collect(),
        starts: sessions().map(|(_, first, _)| first).collect(),
        ends: sessions().map(|(.., last)| end(plan, piece.pane, last)).collect(),
        counts: &groups.counts,
        accumulators: &groups.accumulators,
        released: groups.rows(),
        versions: Versions::Same(0),
        are_taken_back: false,
    }
}

/// Sessions by the start of the time that ends all of them.
#[derive(Default)]
pub(super) struct ByKey {
    panes: BTreeMap<i64, Sessions>,
    /// No session ends before; `None` if that is not known.
    first_end: Option<i64>,
}

impl ByKey {
    /// Takes what a batch brought in; `base` is what was there at the last seal, with what is in runs, of which the batch has had a look.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn take(
        &mut self,
        plan: &Plan,
        (base, watermark_ms): (&Self, i64),
        batch: &Batch,
        parts: Vec<(i64, Sessions)>,
        (runs, look): (&mut Runs, &Look),
    ) -> Result<Taken, String> {
        let may_be_late = parts.iter().any(|(pane, sessions)| {
            let first = |number: u32| sessions.chains.span(number).first;
            let is_one = |first: i64| {
                plan.is_closed(end(plan, *pane, first), watermark_ms)
                    || runs.is_suspect(plan, *pane, first, watermark_ms)
            };
            sessions.chains.open().any(|number| is_one(first(number)))
        });
        if may_be_late {
            return self.take_each(plan, (base, watermark_ms), batch, (runs, look));
        }
        let mut taken = Taken::default();
        for (pane, sessions) in parts {
            taken.absorbed += sessions.chains.rows();
            self.add(plan, pane, sessions);
        }
        Ok(taken)
    }

    /// The same one row after the other.
    fn take_each(
        &mut self,
        plan: &Plan,
        (base, watermark_ms): (&Self, i64),
        batch: &Batch,
        (runs, look): (&mut Runs, &Look),
    ) -> Result<Taken, String> {
        let (keys, gap) = (plan.keys.encode(&batch.rows)?, gap(plan));
        let mut taken = Taken::default();
        for part in deal(plan, batch).0 {
            let before = base.panes.get(&part.pane);
            let own = self.panes.entry(part.pane).or_insert_with(|| Sessions::new(plan));
            let (mut rows, mut of, mut joined) = (Vec::new(), Vec::new(), Joined::default());
            let mut known = HashMap::new();
            for row in part.rows {
                let (key, time) = (keys.get(row as usize), batch.times_ms[row as usize]);
                let span = Span { first: time, last: time };
                let is_closed = plan.is_closed(end(plan, part.pane, time), watermark_ms);
                let is_near_new = || own.chains.has_near(key, span, gap);
                let is_late = if runs.is_suspect(plan, part.pane, time, watermark_ms) {
                    let known = known.entry(key).or_insert_with(|| {
                        let base = before.into_iter().flat_map(|before| before.chains.spans_of(key));
                        runs.known(plan, (part.pane, key), watermark_ms, look, base)
                    });
                    let is_near = |other: &Span| other.is_near(span, gap);
                    let is_late = is_closed && !is_near_new() && !known.open.iter().any(is_near);
                    let apart =
                        known.closed.iter().filter(|other| is_near(other)).map(|other| other.last).max();
                    if let Some(last) = apart.filter(|_| !is_late) {
                        known.closed.retain(|other| other.last > last);
                        runs.cut(part.pane, key, last);
                    }
                    is_late
                } else {
                    let is_near_old = || before.is_some_and(|before| before.chains.has_near(key, span, gap));
                    is_closed && !is_near_old() && !is_near_new()
                };
                if is_late {
                    taken.late += 1;
                    taken.late_rows.push(row);
                    continue;
                }
                let key = own.chains.key(key);
                of.push(own.chains.join(key, span, 1, gap, &mut joined));
                rows.push(row);
            }
            taken.absorbed += rows.len() as u64;
            own.settle(plan, &joined);
            of.iter_mut().for_each(|number| *number = joined.root(*number));
            own.update(plan, batch, &rows, &of)?;
        }
        self.panes.retain(|_, sessions| sessions.chains.rows() > 0);
        self.first_end = None;
        Ok(taken)
    }

    /// Panes with runs are others now: when the first session ends is not known.
    pub fn forget_ends(&mut self) {
        self.first_end = None;
    }

    /// Takes the sessions of a pane out.
    pub fn take_pane(&mut self, pane: i64) -> Option<Sessions> {
        self.first_end = None;
        self.panes.remove(&pane)
    }

    /// Whether a pane has a session of one of these keys that ends up to its time.
    pub fn has_any(&self, pane: i64, cuts: &BTreeMap<Vec<u8>, i64>) -> bool {
        let has = |sessions: &Sessions| {
            cuts.iter().any(|(key, last)| sessions.chains.spans_of(key).any(|span| span.last <= *last))
        };
        self.panes.get(&pane).is_some_and(has)
    }

    /// The least and the greatest last record of a pane's sessions.
    pub fn lasts(&self, pane: i64) -> Option<(i64, i64)> {
        self.panes.get(&pane)?.lasts()
    }

    /// The memory of each pane, the earliest first.
    pub fn sizes(&self) -> Vec<(i64, u64)> {
        self.panes.iter().map(|(pane, sessions)| (*pane, sessions.memory_bytes() as u64)).collect()
    }

    fn add(&mut self, plan: &Plan, pane: i64, later: Sessions) {
        self.first_end = None;
        match self.panes.get_mut(&pane) {
            Some(own) => own.merge(plan, &later),
            None => {
                self.panes.insert(pane, later);
            }
        }
    }

    /// Takes what came since the last seal in.
    pub fn merge(&mut self, plan: &Plan, later: Self) {
        later.panes.into_iter().for_each(|(pane, sessions)| self.add(plan, pane, sessions));
    }

    /// Closes the sessions that this watermark closes, but for those of panes with runs, and hands them to `each`.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn close<E>(
        &mut self,
        plan: &Plan,
        watermark_ms: i64,
        runs: &Runs,
        mut each: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_due(plan, watermark_ms, runs) {
            return Ok(());
        }
        let mut first_end = i64::MAX;
        for (pane, sessions) in self.panes.iter_mut().filter(|(pane, _)| !runs.has(**pane)) {
            let end = |number: u32| end(plan, *pane, sessions.chains.span(number).last);
            let (closed, open): (Vec<u32>, Vec<u32>) =
                sessions.chains.open().partition(|number| plan.is_closed(end(*number), watermark_ms));
            first_end = open.into_iter().map(end).fold(first_end, i64::min);
            if closed.is_empty() {
                continue;
            }
            let counts: Vec<u64> = closed.iter().map(|number| sessions.chains.rows_of(*number)).collect();
            each(Closed {
                keys: closed.iter().map(|number| sessions.chains.key_of(*number)).collect(),
                starts: closed.iter().map(|number| sessions.chains.span(*number).first).collect(),
                ends: closed.iter().map(|number| end(*number)).collect(),
                counts: &counts,
                accumulators: &sessions.picked(plan, &closed),
                released: counts.iter().sum(),
                versions: Versions::Same(0),
                are_taken_back: false,
            })?;
            closed.into_iter().for_each(|number| sessions.chains.remove(number));
            sessions.pack(plan);
        }
        self.panes.retain(|_, sessions| sessions.chains.rows() > 0);
        self.first_end = Some(first_end);
        Ok(())
    }

    /// Whether this watermark may close any, but for those of panes with runs.
    pub fn is_due(&self, plan: &Plan, watermark_ms: i64, runs: &Runs) -> bool {
        if let Some(first_end) = self.first_end {
            return plan.is_closed(first_end, watermark_ms);
        }
        self.panes.iter().filter(|(pane, _)| !runs.has(**pane)).any(|(pane, sessions)| {
            let end = |number: u32| end(plan, *pane, sessions.chains.span(number).last);
            sessions.chains.open().any(|number| plan.is_closed(end(number), watermark_ms))
        })
    }

    /// The end of the last session that is open.
    pub fn last_end(&self, plan: &Plan) -> Option<i64> {
        let ends = self.panes.iter().flat_map(|(pane, sessions)| {
            sessions.chains.open().map(|number| end(plan, *pane, sessions.chains.span(number).last))
        });
        ends.max()
    }

    pub fn is_empty(&self) -> bool {
        self.panes.is_empty()
    }

    pub fn rows(&self) -> u64 {
        self.panes.values().map(|sessions| sessions.chains.rows()).sum()
    }

    pub fn entries(&self) -> u64 {
        self.panes.values().map(|sessions| sessions.chains.open().count() as u64).sum()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.panes.values().map(Sessions::memory_bytes).sum::<usize>() as u64
    }

    /// Writes all of them.
    pub fn write(&self, plan: &Plan, to: &mut Vec<u8>) {
        put_len(to, self.panes.len());
        for (pane, sessions) in &self.panes {
            to.extend_from_slice(&pane.to_le_bytes());
            sessions.write(plan, to);
        }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When two sessions of a key are one, one is not of its time, or the aggregates cannot be those of so many rows.
    pub fn read(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let wrong = || damaged("has a session that cannot be");
        let mut own = Self::default();
        for _ in 0..from.len()? {
            let pane = i64::from_le_bytes(from.array()?);
            if plan.pane_of(pane) != Some(pane) || own.panes.contains_key(&pane) {
                return Err(wrong());
            }
            let sessions = Sessions::read(plan, pane, from)?;
            own.panes.insert(pane, sessions);
        }
        Ok(own)
    }
}
