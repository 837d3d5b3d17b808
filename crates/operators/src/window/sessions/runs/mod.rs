//! Sessions that left memory: sorted runs of parts of sessions, which are put together by key and time when they close.
//!
//! Owns when runs are frozen and put in place of others (`runs::pane`: what a pane has of them; `runs::work`: the work on them). Does not own sessions in memory ([`super`]), the bytes of a file
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
mod pane;
mod sweep;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dataflow::{StateError, StateFile};

use super::{Sessions, end};
use crate::runs::FileEntry;
use crate::window::encoding::damaged;
use crate::window::plan::Plan;
use crate::window::spilled::Sizes;
use crate::window::spilled::file::File;
use fold::Cuts;
pub(in crate::window::sessions) use fold::entry;
pub(in crate::window) use look::Look;
pub(in crate::window) use marks::{Left, Marks};
pub(in crate::window) use pane::Piece;
use pane::{At, Item, Lasts, Pane, Run, Sweep};
use sweep::{Made, Merger};

/// Bytes of a block: a record that may be late reads one of each run.
const BLOCK_BYTES_MAX: usize = 8 << 10;

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
}
