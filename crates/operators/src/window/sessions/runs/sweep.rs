//! From the runs of a pane to results of the sessions that are closed, and to one run of all others.
//!
//! Owns the merging in the order of keys, block by block. Does not own which runs there are, nor when pieces leave (`sessions::runs`), nor the bytes of a block
//! (`spilled::file`). In memory are a piece, a file of what stays open, some blocks of each run, and what was read ahead. Runs beside the lane; a piece leaves with the seal that
//! says so, and until then it can be made again.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::fold::{Cuts, Whole, entry, join, split};
use super::{Item, Lasts, Piece, Sweep};
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;
use crate::window::sessions::chains::Span;
use crate::window::sessions::{end, gap};
use crate::window::spilled::Sizes;
use crate::window::spilled::ahead::{Ahead, Reading, answered, need};
use crate::window::spilled::file::{Builder, File, Section};
use crate::window::spilled::spill::sorted;

/// Parts of a block, each with the place of its session: of those that leave, and of those that stay open.
type Moves = [Vec<(u32, u32)>; 2];

/// Results of a piece at the most: they are rows of one batch.
const PIECE_ROWS_MAX: usize = 1 << 20;

/// What stays open behind a sweep.
#[derive(Default)]
pub(super) struct Made {
    pub sections: Vec<Section>,
    pub rows: u64,
    pub sessions: u64,
    /// `None` if nothing does.
    pub lasts: Option<Lasts>,
}

/// One run as it is read.
struct Cursor {
    /// The blocks behind those at hand.
    blocks: Ahead,
    /// Blocks at hand, and of each the first part that is not taken yet.
    at_hand: VecDeque<(Groups, usize)>,
    /// Whether another block is needed though one is at hand: its last key may go on there.
    wants_more: bool,
}

impl Cursor {
    fn new(sections: &[Section]) -> Self {
        Self { blocks: Ahead::new(sections), at_hand: VecDeque::new(), wants_more: false }
    }

    fn needs_block(&self) -> bool {
        self.at_hand.is_empty() || self.wants_more
    }

    /// The key of the next part.
    fn next_key(&self) -> Option<&[u8]> {
        let (groups, at) = self.at_hand.iter().find(|(groups, at)| *at < groups.len())?;
        Some(split(groups.key(*at)).0)
    }

    /// The last key at hand.
    fn last_key(&self) -> Option<&[u8]> {
        let (groups, _) = self.at_hand.back()?;
        Some(split(groups.key(groups.len() - 1)).0)
    }

    /// Takes the parts of a key, if it is the next: the block and the place of each, and its bounds.
    fn take(&mut self, key: &[u8], mut each: impl FnMut(u32, u32, Span)) {
        for (block, (groups, at)) in (0..).zip(&mut self.at_hand) {
            while *at < groups.len() {
                let (own, span) = split(groups.key(*at));
                if own != key {
                    return;
                }
                each(block, *at as u32, span);
                *at += 1;
            }
        }
    }
}

/// A part of a session: its run, its block there, and its place in it.
struct Part {
    cursor: usize,
    block: u32,
    place: u32,
    span: Span,
}

/// What stands before a sweep.
enum Step {
    /// The run of this number.
    Run(usize),
    Cut(Cuts),
}

/// A sweep, between two blocks.
pub(super) struct Merger {
    plan: Arc<Plan>,
    sizes: Sizes,
    pane: i64,
    watermark_ms: i64,
    /// The key up to which results have left before it began.
    left: Option<Vec<u8>>,
    /// Whether all have.
    is_out: bool,
    steps: Vec<Step>,
    cursors: Vec<Cursor>,
    /// The last key that was merged.
    after: Vec<u8>,
    /// What stays open and is in no file yet.
    open: Groups,
    made: Made,
}

impl Merger {
    /// Of what stands before a sweep.
    pub fn new(plan: Arc<Plan>, sizes: Sizes, pane: i64, before: &[Item], sweep: &Sweep) -> Self {
        let (mut steps, mut cursors) = (Vec::new(), Vec::new());
        for item in before {
            match item {
                Item::Run(run) => {
                    steps.push(Step::Run(cursors.len()));
                    cursors.push(Cursor::new(run.sections()));
                }
                Item::Cut(cuts) => steps.push(Step::Cut(cuts.clone())),
                Item::Sweep(_) => {}
            }
        }
        Self {
            sizes,
            pane,
            watermark_ms: sweep.watermark_ms,
            left: sweep.after.clone(),
            is_out: sweep.is_out,
            steps,
            cursors,
            after: sweep.after.clone().unwrap_or_default(),
            open: Groups::new(&plan.keys, &plan.aggregates),
            made: Made::default(),
            plan,
        }
    }

    /// Decodes a block of each run that needs one, and says what must be read for those that cannot.
    fn load(&mut self) -> Result<Vec<Reading>, StateError> {
        let each_bytes = self.sizes.read_bytes / self.cursors.len().max(1);
        let mut reads = Vec::new();
        for (number, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.needs_block()
                && let Some((file, block, bytes)) = cursor.blocks.take()
            {
                cursor.at_hand.push_back((file.groups(&self.plan, block, &bytes)?, 0));
                cursor.wants_more = false;
            }
            if cursor.needs_block() {
                reads.extend(cursor.blocks.wanted(each_bytes).map(|(file, blocks)| (number, file, blocks)));
            }
        }
        Ok(reads)
    }

    /// Puts together all keys before the least that ends what is at hand of a run with more.
    fn merge(&mut self, piece: &mut Groups) -> u64 {
        let ends = self
            .cursors
            .iter()
            .filter(|cursor| cursor.blocks.has_more())
            .filter_map(|cursor| cursor.last_key());
        let bound: Option<Vec<u8>> = ends.min().map(<[u8]>::to_vec);
        let mut moves: Vec<Vec<Moves>> =
            self.cursors.iter().map(|cursor| vec![Default::default(); cursor.at_hand.len()]).collect();
        let (mut parts, mut is_moved) = (Vec::<Part>::new(), false);
        loop {
            let next = self.cursors.iter().filter_map(|cursor| cursor.next_key()).min();
            let Some(key) = next.filter(|key| bound.as_ref().is_none_or(|bound| *key < &bound[..])) else {
                break;
            };
            let key = key.to_vec();
            parts.clear();
            for (cursor, own) in self.cursors.iter_mut().enumerate() {
                own.take(&key, |block, place, span| parts.push(Part { cursor, block, place, span }));
            }
            is_moved = true;
            self.put(&key, &parts, piece, &mut moves);
            self.after = key;
        }
        if !is_moved && let Some(bound) = bound {
            for cursor in &mut self.cursors {
                cursor.wants_more |= cursor.blocks.has_more() && cursor.last_key() == Some(&bound[..]);
            }
        }
        let before = piece.rows();
        for (cursor, moves) in self.cursors.iter_mut().zip(moves) {
            for ((groups, _), [out, open]) in cursor.at_hand.iter().zip(&moves) {
                piece.merge_moves(groups, out);
                self.open.merge_moves(groups, open);
            }
            while cursor.at_hand.pop_front_if(|(groups, at)| *at == groups.len()).is_some() {}
        }
        piece.rows() - before
    }

    /// Says where the parts of a key go: to results, or to what stays open.
    fn put(&mut self, key: &[u8], parts: &[Part], piece: &mut Groups, moves: &mut [Vec<Moves>]) {
        let has_left = self.is_out || self.left.as_ref().is_some_and(|left| key <= &left[..]);
        for (whole, is_closed) in self.sessions(key, parts) {
            if is_closed && has_left {
                continue;
            }
            let entry = entry(key, whole.span);
            let to = if is_closed { piece.find(&entry) } else { self.open.find(&entry) };
            if !is_closed {
                let last = whole.span.last;
                let (least, greatest) = self.made.lasts.unwrap_or((last, last));
                self.made.lasts = Some((least.min(last), greatest.max(last)));
            }
            for part in whole.of.iter().map(|part| &parts[*part as usize]) {
                let of_block = &mut moves[part.cursor][part.block as usize];
                of_block[usize::from(!is_closed)].push((part.place, to));
            }
        }
    }

    /// The sessions of a key, and whether each is closed.
    fn sessions(&self, key: &[u8], parts: &[Part]) -> Vec<(Whole, bool)> {
        let whole = |number: usize| Whole { span: parts[number].span, of: vec![number as u32] };
        let is_closed = |whole: &Whole| {
            self.plan.is_closed(end(&self.plan, self.pane, whole.span.last), self.watermark_ms)
        };
        if parts.len() == 1 {
            let only = whole(0);
            let is_closed = is_closed(&only);
            return vec![(only, is_closed)];
        }
        let gap = gap(&self.plan);
        let (mut pool, mut sessions) = (Vec::<Whole>::new(), Vec::new());
        for step in &self.steps {
            match step {
                Step::Run(cursor) => {
                    pool.extend((0..parts.len()).filter(|part| parts[*part].cursor == *cursor).map(whole));
                }
                Step::Cut(cuts) => {
                    let Some(last) = cuts.get(key) else { continue };
                    let (before, behind) = pool.into_iter().partition(|part| part.span.last <= *last);
                    pool = behind;
                    sessions.extend(join(before, gap).into_iter().map(|whole| (whole, true)));
                }
            }
        }
        sessions.extend(join(pool, gap).into_iter().map(|whole| {
            let is_closed = is_closed(&whole);
            (whole, is_closed)
        }));
        sessions
    }

    /// Writes what stays open to a file, without its name.
    fn file(&mut self) -> (Vec<u8>, File) {
        let open = Groups::new(&self.plan.keys, &self.plan.aggregates);
        let open = std::mem::replace(&mut self.open, open);
        self.made.rows += open.rows();
        self.made.sessions += open.len() as u64;
        let (order, mut written, mut builder) = (sorted(&open), 0, Builder::new());
        builder.section(self.pane);
        while written < order.len() {
            written += builder.block(&self.plan, &open, &order[written..], self.sizes.block_bytes);
        }
        builder.finish()
    }

    fn is_merged(&self) -> bool {
        self.cursors.iter().all(|cursor| cursor.at_hand.is_empty() && !cursor.blocks.has_more())
    }

    fn is_done(&self) -> bool {
        self.is_merged() && self.open.len() == 0
    }

    /// What stays open.
    pub fn into_made(self) -> Made {
        self.made
    }

    /// The files that were written.
    pub fn files(&self) -> Vec<Arc<File>> {
        self.made.sections.iter().map(|section| section.file.clone()).collect()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |cursor: &Cursor| {
            cursor.blocks.memory_bytes()
                + cursor.at_hand.iter().map(|(groups, _)| groups.memory_bytes()).sum::<usize>()
        };
        self.cursors.iter().map(of).sum::<usize>() + self.open.memory_bytes()
    }
}

/// The making of one piece.
pub(super) struct SweepWork {
    merger: Box<Merger>,
    piece: Groups,
    reading: Vec<Reading>,
    writing: Option<File>,
    is_done: bool,
}

impl SweepWork {
    /// The next of a sweep.
    pub fn new(merger: Box<Merger>) -> Self {
        let piece = Groups::new(&merger.plan.keys, &merger.plan.aggregates);
        Self { merger, piece, reading: Vec::new(), writing: None, is_done: false }
    }

    /// The sweep that goes on behind it, and the piece, once it is whole.
    pub fn made(self) -> Option<(Box<Merger>, Piece)> {
        let Self { merger, piece: groups, is_done, .. } = self;
        let (pane, after, is_last) = (merger.pane, merger.after.clone(), merger.is_done());
        let is_empty = is_last && merger.made.sessions == 0;
        is_done.then_some((merger, Piece { pane, groups, after, is_last, is_empty }))
    }

    /// Takes what was read to its runs.
    fn given(&mut self, answers: Vec<Vec<u8>>) -> Result<(), StateError> {
        for ((number, file, blocks), answer) in answered(std::mem::take(&mut self.reading), answers)? {
            self.merger.cursors[number].blocks.give(&file, blocks, &answer)?;
        }
        Ok(())
    }
}

impl StateWork for SweepWork {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (self.writing.take(), given) {
            (None, Given::Start) => {}
            (None, Given::Read(answers)) => self.given(answers)?,
            (Some(mut file), Given::Written(object)) => {
                file.object = object;
                self.merger.made.sections.extend(Section::all(&Arc::new(file)));
            }
            _ => return Err(damaged("is swept with an answer that was not asked for")),
        }
        loop {
            let open = &self.merger.open;
            let is_merged = self.merger.is_merged();
            if open.len() > 0 && (is_merged || open.memory_bytes() >= self.merger.sizes.file_bytes) {
                let (bytes, file) = self.merger.file();
                self.writing = Some(file);
                return Ok(Need::Write(bytes));
            }
            let is_full = self.piece.len() > 0
                && (self.piece.memory_bytes() >= self.merger.sizes.piece_bytes
                    || self.piece.len() >= PIECE_ROWS_MAX);
            if is_merged || is_full {
                self.is_done = true;
                return Ok(Need::Done);
            }
            self.reading = self.merger.load()?;
            if !self.reading.is_empty() {
                return Ok(need(&self.reading));
            }
            self.merger.merge(&mut self.piece);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
