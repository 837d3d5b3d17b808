//! Sessions that left memory: sorted runs of parts of sessions, which are put together by key and time when they close.
//!
//! Owns what of the sessions of a pane is where, which of them are closed, and when their results leave. Does not own sessions in memory ([`super`]), the bytes of a file
//! (`window::spilled::file`), nor those of deltas and snapshots (`runs::marks`, [`state`](crate::window::state)). Does no I/O: it says what must be read and written, and the
//! engine does it.
//!
//! **Runs.** A seal *freezes* a pane: the sessions that it has in memory become a run, which never changes again, and the pane begins anew. A record that comes later
//! does not look for its session in the runs: it begins a part of one in memory, and parts of a key that are near to each other are one session (`runs::fold`). Only a record
//! of before the watermark less the lateness asks the runs (`runs::look`), because whether it counts depends on what is open.
//!
//! **Sweeps.** Where sessions of a pane with runs may be closed, a seal freezes the pane and begins a *sweep*: work beside the lane merges all runs in the order of keys; sessions that
//! the seal's watermark closes leave in pieces, each with a later seal, and all others become one run in place of those. A sweep reads and writes all that is open, so there is one
//! in each quarter of the gap, or when no records come, or when there are many runs, or when nothing stays open. Until then closed sessions are held.
//!
//! | of a pane, in order | is                                                                    | a start has it from    |
//! |---------------------|-----------------------------------------------------------------------|------------------------|
//! | a run               | parts of sessions                                                     | the delta that freezes |
//! | a cut               | times up to which sessions of earlier runs are apart from later parts | the delta              |
//! | a sweep             | the sessions of what stands before it, less those its watermark closes | the delta              |
//!
//! What a sweep makes depends on what stands before it alone. So a start that has the deltas of a sweep, and not the run that came of it, makes the sweep again, without the
//! results that have left.

mod fold;
mod look;
pub(in crate::window) mod marks;
mod sweep;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dataflow::{StateError, StateFile, StateWork};

use super::{Sessions, end, gap};
use crate::runs::FileEntry;
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;
use crate::window::spilled::Sizes;
use crate::window::spilled::file::{File, Section};
use crate::window::spilled::spill::{Frozen, Spill};
use fold::Cuts;
pub(in crate::window::sessions) use fold::entry;
pub(in crate::window) use look::Look;
pub(in crate::window) use marks::{Left, Marks};
use sweep::{Made, Merger, SweepWork};

/// Sweeps in each gap at the most, while records come.
const SWEEPS_OF_A_GAP: i64 = 4;

/// Runs of a pane that a sweep makes one, though nothing may be closed.
const RUNS_MAX: usize = 32;

/// Bytes of a block: a record that may be late reads one of each run.
const BLOCK_BYTES_MAX: usize = 8 << 10;

/// Pieces that wait for the next seal at the most: one more is made meanwhile.
const READY_MAX: usize = 2;

/// The least and the greatest last record of some sessions.
type Lasts = (i64, i64);

/// Parts of sessions that were frozen together, or came of a sweep.
struct Run {
    /// By which work on it finds it again.
    number: usize,
    rows: u64,
    sessions: u64,
    lasts: Lasts,
    at: At,
}

/// Where it is.
enum At {
    /// Not written yet.
    Memory(Arc<Sessions>),
    /// In files, by key.
    Files(Vec<Section>),
    /// In files of a snapshot whose footers are still to be read: the number of each, and its blocks.
    Named(Vec<(u32, std::ops::Range<u32>)>),
}

impl Run {
    fn in_memory(&self) -> Option<&Arc<Sessions>> {
        match &self.at {
            At::Memory(sessions) => Some(sessions),
            At::Files(_) | At::Named(_) => None,
        }
    }

    fn sections(&self) -> &[Section] {
        match &self.at {
            At::Files(sections) => sections,
            At::Memory(_) | At::Named(_) => &[],
        }
    }
}

/// A sweep of all that stands before it.
struct Sweep {
    watermark_ms: i64,
    /// The key up to which its results have left; `None` before the first piece.
    after: Option<Vec<u8>>,
    /// Rows that left with those.
    released: u64,
    /// Whether all of them have left.
    is_out: bool,
    /// What stays open, once it is made.
    made: Option<Made>,
}

/// What a pane has, in order.
enum Item {
    Run(Run),
    Cut(Cuts),
    Sweep(Sweep),
}

/// A pane with runs.
#[derive(Default)]
struct Pane {
    items: Vec<Item>,
    /// All sessions that this watermark closes have left.
    released_ms: i64,
    /// Of its sessions in memory as of the last seal.
    lasts: Option<Lasts>,
}

impl Pane {
    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.items.iter().filter_map(|item| match item {
            Item::Run(run) => Some(run),
            Item::Cut(_) | Item::Sweep(_) => None,
        })
    }

    fn sweeps(&self) -> impl Iterator<Item = &Sweep> {
        self.items.iter().filter_map(|item| match item {
            Item::Sweep(sweep) => Some(sweep),
            Item::Cut(_) | Item::Run(_) => None,
        })
    }

    fn is_leaving(&self) -> bool {
        self.sweeps().any(|sweep| !sweep.is_out)
    }

    /// The first sweep whose run is not made: what stands before it, and itself.
    fn first_sweep(&self) -> Option<(&[Item], &Sweep)> {
        let at = self.items.iter().position(|item| matches!(item, Item::Sweep(_)))?;
        match &self.items[at] {
            Item::Sweep(sweep) if sweep.made.is_none() => Some((&self.items[..at], sweep)),
            _ => None,
        }
    }

    fn rows(&self) -> u64 {
        let released: u64 = self.sweeps().map(|sweep| sweep.released).sum();
        self.runs().map(|run| run.rows).sum::<u64>().saturating_sub(released)
    }

    /// The least and the greatest last record of all sessions, as far as known: those that have left may be among them.
    fn all_lasts(&self) -> Option<Lasts> {
        let all = self.runs().map(|run| run.lasts).chain(self.lasts);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether a sweep is due as of this watermark; `is_idle` if no records came.
    fn is_due(&self, plan: &Plan, pane: i64, sizes: &Sizes, watermark_ms: i64, is_idle: bool) -> bool {
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

/// The panes of a step whose sessions have left memory, all or in part.
pub(in crate::window) struct Runs {
    pub sizes: Sizes,
    /// The step with the keys of runs.
    plan: Arc<Plan>,
    panes: BTreeMap<i64, Pane>,
    /// Cuts since the last seal, by pane.
    cuts: BTreeMap<i64, Cuts>,
    next: usize,
    is_spilling: bool,
    is_sweeping: bool,
    /// The sweep under way, between two pieces.
    merger: Option<Box<Merger>>,
    /// Files that it has written.
    written: Vec<Arc<File>>,
    ready: VecDeque<Piece>,
    /// Files of a snapshot whose footers are still to be read, and those that were.
    opening: VecDeque<FileEntry>,
    opened: Vec<Arc<File>>,
}

impl Runs {
    /// None.
    pub fn new(plan: &Plan, sizes: Sizes) -> Self {
        let sizes = Sizes { block_bytes: sizes.block_bytes.min(BLOCK_BYTES_MAX), ..sizes };
        Self {
            sizes,
            plan: Arc::new(plan.with_span()),
            panes: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next: 0,
            is_spilling: false,
            is_sweeping: false,
            merger: None,
            written: Vec::new(),
            ready: VecDeque::new(),
            opening: VecDeque::new(),
            opened: Vec::new(),
        }
    }

    /// Whether every session is in memory alone.
    pub fn is_empty(&self) -> bool {
        self.panes.is_empty()
    }

    /// Whether a pane has runs, so that its sessions do not close by themselves.
    pub fn has(&self, pane: i64) -> bool {
        self.panes.contains_key(&pane)
    }

    fn all(&self) -> impl Iterator<Item = &Run> {
        self.panes.values().flat_map(Pane::runs)
    }

    /// Whether a run is in memory, so that no other may be frozen for want of room.
    pub fn has_unwritten(&self) -> bool {
        self.all().any(|run| run.in_memory().is_some())
    }

    /// Whether runs are on their way to files.
    pub fn is_spilling(&self) -> bool {
        self.is_spilling
    }

    /// Whether a pane may have no more runs.
    pub fn is_full(&self, pane: i64) -> bool {
        self.panes.get(&pane).is_some_and(|pane| pane.runs().count() >= self.sizes.generations_max)
    }

    /// The sessions of a pane become its newest run; all that this watermark closes have left.
    pub fn freeze(&mut self, pane: i64, sessions: Sessions, watermark_ms: i64) {
        let Some(lasts) = sessions.lasts() else { return };
        let own = self.panes.entry(pane);
        let own = own.or_insert_with(|| Pane { released_ms: watermark_ms, ..Pane::default() });
        own.items.push(Item::Run(Run {
            number: self.next,
            rows: sessions.rows(),
            sessions: sessions.len(),
            lasts,
            at: At::Memory(Arc::new(sessions)),
        }));
        self.next += 1;
    }

    /// Earlier sessions of a key that end up to a time, and are closed, are apart from what comes later.
    pub fn cut(&mut self, pane: i64, key: &[u8], last: i64) {
        self.cuts.entry(pane).or_default().insert(key.to_vec(), last);
    }

    /// The cuts since the last seal.
    pub fn take_cuts(&mut self) -> BTreeMap<i64, Cuts> {
        std::mem::take(&mut self.cuts)
    }

    /// Cuts of a seal: what comes later is behind them. What the pane had of these keys in memory up to their times is in runs.
    pub fn put_cuts(&mut self, pane: i64, cuts: Cuts) {
        if let Some(own) = self.panes.get_mut(&pane).filter(|own| !own.items.is_empty()) {
            own.items.push(Item::Cut(cuts));
        }
    }

    /// Panes of which nothing is in runs any more are as if nothing had been.
    pub fn forget_empty(&mut self) {
        self.panes.retain(|_, pane| !pane.items.is_empty());
    }

    /// The panes of which a sweep begins with a seal of this watermark.
    pub fn due(&self, plan: &Plan, watermark_ms: i64, is_idle: bool) -> Vec<i64> {
        let due = self
            .panes
            .iter()
            .filter(|(start, pane)| pane.is_due(plan, **start, &self.sizes, watermark_ms, is_idle));
        due.map(|(start, _)| *start).collect()
    }

    /// A sweep of a pane begins: all that it has is in runs.
    pub fn sweep(&mut self, pane: i64, watermark_ms: i64) {
        if let Some(pane) = self.panes.get_mut(&pane) {
            let (after, released, is_out, made) = (None, 0, false, None);
            pane.items.push(Item::Sweep(Sweep { watermark_ms, after, released, is_out, made }));
        }
    }

    /// Says what the panes have in memory after a seal with this watermark.
    pub fn sealed(&mut self, plan: &Plan, watermark_ms: i64, lasts: impl Fn(i64) -> Option<Lasts>) {
        for (start, pane) in &mut self.panes {
            pane.lasts = lasts(*start);
            let is_open = |last: i64| !plan.is_closed(end(plan, *start, last), watermark_ms);
            if pane.sweeps().next().is_none() && pane.all_lasts().is_none_or(|(least, _)| is_open(least)) {
                pane.released_ms = watermark_ms;
            }
        }
    }

    /// The pieces that can leave.
    pub fn take_ready(&mut self) -> Vec<Piece> {
        self.ready.drain(..).collect()
    }

    /// Whether a seal of this watermark lets anything out, or begins a sweep.
    pub fn is_due(&self, plan: &Plan, watermark_ms: i64, is_idle: bool) -> bool {
        !self.ready.is_empty() || !self.due(plan, watermark_ms, is_idle).is_empty()
    }

    /// Whether results of closed sessions are still on their way.
    pub fn is_leaving(&self) -> bool {
        self.panes.values().any(Pane::is_leaving)
    }

    /// A piece left, with the seal under way or one before a start.
    ///
    /// # Errors
    /// When it is of no sweep.
    pub fn left(&mut self, left: &Left) -> Result<(), StateError> {
        let none = || damaged("lets results out of no sweep");
        let pane = self.panes.get_mut(&left.pane).ok_or_else(none)?;
        let is_it = |item: &Item| matches!(item, Item::Sweep(sweep) if !sweep.is_out);
        let at = pane.items.iter().position(is_it).ok_or_else(none)?;
        let Item::Sweep(sweep) = &mut pane.items[at] else { return Err(none()) };
        sweep.after = Some(left.after.clone());
        sweep.released = sweep.released.saturating_add(left.rows);
        sweep.is_out = left.is_last;
        if !left.is_last {
            return Ok(());
        }
        pane.released_ms = sweep.watermark_ms;
        if left.is_empty {
            pane.items.drain(..=at);
        } else {
            self.take_over(left.pane);
        }
        Ok(())
    }

    /// Puts the run of the first sweep of a pane in place of what it was made of, if it is made and all results have left.
    fn take_over(&mut self, pane: i64) {
        let Some(pane) = self.panes.get_mut(&pane) else { return };
        let Some(at) = pane.items.iter().position(|item| matches!(item, Item::Sweep(_))) else { return };
        let Item::Sweep(sweep) = &mut pane.items[at] else { return };
        if !sweep.is_out {
            return;
        }
        let Some(made) = sweep.made.take() else { return };
        let Made { sections, rows, sessions, lasts } = made;
        let run = lasts.map(|lasts| {
            Item::Run(Run { number: self.next, rows, sessions, lasts, at: At::Files(sections) })
        });
        self.next += 1;
        pane.items.splice(..=at, run);
    }

    /// A bound that no result is before which has not left: it has at least this time.
    pub fn held_back(&self, plan: &Plan) -> Option<i64> {
        self.panes.values().map(|pane| pane.released_ms.saturating_sub(plan.lateness_ms)).min()
    }

    /// The end of the last session in runs.
    pub fn last_end(&self, plan: &Plan) -> Option<i64> {
        let of = |(start, pane): (&i64, &Pane)| pane.runs().map(|run| end(plan, *start, run.lasts.1)).max();
        self.panes.iter().filter_map(of).max()
    }

    /// Rows held.
    pub fn rows(&self) -> u64 {
        self.panes.values().map(Pane::rows).sum()
    }

    /// Parts of sessions held. Those of a sweep count until its last piece has left.
    pub fn entries(&self) -> u64 {
        self.all().map(|run| run.sessions).sum()
    }

    /// Those in files.
    pub fn entries_in_files(&self) -> u64 {
        self.all().filter(|run| run.in_memory().is_none()).map(|run| run.sessions).sum()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let frozen: usize =
            self.all().filter_map(Run::in_memory).map(|sessions| sessions.memory_bytes()).sum();
        let pieces: usize = self.ready.iter().map(|piece| piece.groups.memory_bytes()).sum();
        let files: usize = self.distinct_files().values().map(|file| file.memory_bytes()).sum();
        let merger = self.merger.as_ref().map_or(0, |merger| merger.memory_bytes());
        let cut = |cuts: &Cuts| cuts.keys().map(|key| key.len() + 64).sum::<usize>();
        let items = self.panes.values().flat_map(|pane| &pane.items);
        let cuts = items.filter_map(|item| match item {
            Item::Cut(cuts) => Some(cuts),
            Item::Run(_) | Item::Sweep(_) => None,
        });
        let cuts: usize = cuts.chain(self.cuts.values()).map(cut).sum();
        (frozen + pieces + files + merger + cuts) as u64
    }

    /// Each file once.
    fn distinct_files(&self) -> BTreeMap<&str, &Arc<File>> {
        let made = self.panes.values().flat_map(Pane::sweeps).filter_map(|sweep| sweep.made.as_ref());
        let sections = self.all().flat_map(Run::sections).chain(made.flat_map(|made| &made.sections));
        let files = sections.map(|section| &section.file).chain(&self.written);
        files.map(|file| (&*file.object, file)).collect()
    }

    /// The files in use.
    pub fn files(&self) -> Vec<StateFile> {
        let file = |file: &Arc<File>| StateFile { object: file.object.clone(), len: file.len };
        self.distinct_files().into_values().map(file).collect()
    }

    /// Work that is due.
    pub fn work(&mut self) -> Option<Box<dyn StateWork>> {
        if !self.is_spilling && self.has_unwritten() {
            self.is_spilling = true;
            let each = self.panes.iter().flat_map(|(start, pane)| pane.runs().map(|run| (*start, run)));
            let frozen = each.filter_map(|(start, run)| {
                Some((start, run.number, Frozen::Sessions(run.in_memory()?.clone())))
            });
            return Some(Box::new(Spill::new(self.plan.clone(), self.sizes, frozen.collect())));
        }
        if self.is_sweeping || self.ready.len() >= READY_MAX {
            return None;
        }
        let merger = match self.merger.take() {
            Some(merger) => merger,
            None => Box::new(self.merge()?),
        };
        self.is_sweeping = true;
        Some(Box::new(SweepWork::new(merger)))
    }

    /// The merge of the first sweep whose runs are all in files.
    fn merge(&self) -> Option<Merger> {
        self.panes.iter().find_map(|(start, pane)| {
            let (before, sweep) = pane.first_sweep()?;
            let is_there = |item: &Item| !matches!(item, Item::Run(run) if run.in_memory().is_some());
            before
                .iter()
                .all(is_there)
                .then(|| Merger::new(self.plan.clone(), self.sizes, *start, before, sweep))
        })
    }

    /// Takes over what work made.
    ///
    /// # Errors
    /// When it is none of this state's, or not done.
    pub fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let foreign = || damaged("gets work back that is not its own, or not done");
        let work = match work.into_any().downcast::<Spill>() {
            Ok(spill) => {
                self.is_spilling = false;
                for (start, number, sections) in spill.made().ok_or_else(foreign)? {
                    let items = self.panes.get_mut(&start).map(|pane| pane.items.iter_mut());
                    let run = items.into_iter().flatten().find_map(|item| match item {
                        Item::Run(run) if run.number == number => Some(run),
                        _ => None,
                    });
                    run.ok_or_else(foreign)?.at = At::Files(sections);
                }
                return Ok(());
            }
            Err(work) => work,
        };
        let (merger, piece) =
            work.downcast::<SweepWork>().ok().and_then(|work| work.made()).ok_or_else(foreign)?;
        self.is_sweeping = false;
        if !piece.is_last {
            self.written = merger.files();
            self.merger = Some(merger);
            self.ready.push_back(piece);
            return Ok(());
        }
        self.written = Vec::new();
        let made = merger.into_made();
        let pane = self.panes.get_mut(&piece.pane).ok_or_else(foreign)?;
        let first = pane.items.iter_mut().find_map(|item| match item {
            Item::Sweep(sweep) => Some(sweep),
            Item::Run(_) | Item::Cut(_) => None,
        });
        let sweep = first.ok_or_else(foreign)?;
        sweep.made = Some(made);
        match sweep.is_out {
            true => self.take_over(piece.pane),
            false => self.ready.push_back(piece),
        }
        Ok(())
    }

    /// Files that a start must open, in order.
    pub fn opening(&self) -> &VecDeque<FileEntry> {
        &self.opening
    }

    /// Takes the footer of the next file.
    ///
    /// # Errors
    /// When it is damaged, another file's, or not asked for.
    pub fn open_file(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let file = self.opening.pop_front();
        let file = file.ok_or_else(|| damaged("names fewer files than were read"))?;
        self.opened.push(Arc::new(File::open(&self.plan.keys, &file, bytes)?));
        if self.opening.is_empty() { self.name_files() } else { Ok(()) }
    }

    /// Puts the files in place of their numbers, once all are open.
    fn name_files(&mut self) -> Result<(), StateError> {
        let opened = std::mem::take(&mut self.opened);
        for (start, pane) in &mut self.panes {
            for item in &mut pane.items {
                let Item::Run(run) = item else { continue };
                let At::Named(named) = &run.at else { continue };
                let section = |(number, blocks): &(u32, std::ops::Range<u32>)| {
                    opened.get(*number as usize).and_then(|file| Section::of(file, *start, blocks.clone()))
                };
                let sections: Option<Vec<Section>> = named.iter().map(section).collect();
                let sections = sections.filter(|sections| {
                    let counts = sections.iter().map(Section::counts);
                    counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)) == (run.sessions, run.rows)
                });
                let wrong = || damaged("names blocks that its files do not have");
                run.at = At::Files(sections.ok_or_else(wrong)?);
            }
        }
        Ok(())
    }
}
