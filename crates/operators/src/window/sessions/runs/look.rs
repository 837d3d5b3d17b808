//! What runs have of the keys of records that may be late.
//!
//! Owns which records ask, the blocks that may have their keys, and what is open and closed of a key. Does not own the decision about a record ([`super::super::ByKey`]).
//!
//! A *suspect* is a record of a pane with runs from before the watermark less the lateness. Whether it is late, or joins a session, or must be kept apart from one
//! that is closed and has not left, depends on what all runs have of its key: it reads one small block of each run, or two. All other records ask nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataflow::{Batch, StateError, StateRead};

use super::super::chains::Span;
use super::fold::{Whole, join, split};
use super::{Item, Run, Runs};
use crate::window::encoding::damaged;
use crate::window::plan::Plan;
use crate::window::sessions::{end, gap};
use crate::window::spilled::file::File;

/// A block that may have keys of suspects.
pub(in crate::window) struct Asked {
    pane: i64,
    run: usize,
    file: Arc<File>,
    block: u32,
}

/// What a batch asks of runs.
#[derive(Default)]
pub(in crate::window) struct Look {
    /// The suspects' keys.
    keys: BTreeSet<(i64, Vec<u8>)>,
    asked: Vec<Asked>,
    /// What the blocks have of them, by pane, run and key.
    found: BTreeMap<(i64, usize, Vec<u8>), Vec<Span>>,
}

/// The sessions of a key as of the last seal, wherever they are.
pub(in crate::window::sessions) struct Known {
    pub open: Vec<Span>,
    /// Those that are closed and have not left.
    pub closed: Vec<Span>,
}

impl Runs {
    /// Whether a record of this time asks what runs have of its key.
    pub fn is_suspect(&self, plan: &Plan, pane: i64, time_ms: i64, watermark_ms: i64) -> bool {
        self.has(pane) && time_ms < watermark_ms.saturating_sub(plan.lateness_ms)
    }

    /// What a batch asks, and what must be read for it.
    ///
    /// # Errors
    /// When a column of the key is missing or of another form.
    pub fn look(
        &self,
        plan: &Plan,
        batch: &Batch,
        watermark_ms: i64,
    ) -> Result<(Look, Vec<StateRead>), String> {
        let mut look = Look::default();
        if self.is_empty() {
            return Ok((look, Vec::new()));
        }
        let pane_of =
            |time: i64| plan.pane_of(time).filter(|pane| self.is_suspect(plan, *pane, time, watermark_ms));
        let times = batch.times_ms.iter().enumerate();
        let suspects: Vec<(usize, i64)> =
            times.filter_map(|(row, time)| Some((row, pane_of(*time)?))).collect();
        if suspects.is_empty() {
            return Ok((look, Vec::new()));
        }
        let keys = plan.keys.encode(&batch.rows)?;
        look.keys = suspects.into_iter().map(|(row, pane)| (pane, keys.get(row).to_vec())).collect();
        let mut seen = BTreeSet::new();
        for (pane, key) in &look.keys {
            for run in self.panes.get(pane).into_iter().flat_map(|pane| pane.runs()) {
                for (file, block) in run.blocks_of(key) {
                    if seen.insert((*pane, run.number, file.object.clone(), block)) {
                        look.asked.push(Asked { pane: *pane, run: run.number, file: file.clone(), block });
                    }
                }
            }
        }
        let reads = look.asked.iter().map(|asked| asked.file.read(asked.block..asked.block + 1)).collect();
        Ok((look, reads))
    }

    /// Takes the blocks that were read.
    ///
    /// # Errors
    /// When one is damaged or missing.
    pub fn found(&self, look: &mut Look, answers: &[Vec<u8>]) -> Result<(), StateError> {
        if answers.len() != look.asked.len() {
            return Err(damaged("gets other blocks than it asked for"));
        }
        for (Asked { pane, run, file, block }, bytes) in look.asked.drain(..).zip(answers) {
            let groups = file.groups(&self.plan, block, bytes)?;
            for group in 0..groups.len() {
                let (key, span) = split(groups.key(group));
                let wanted = (pane, key.to_vec());
                if look.keys.contains(&wanted) {
                    look.found.entry((pane, run, wanted.1)).or_default().push(span);
                }
            }
        }
        Ok(())
    }

    /// What is known of a suspect's key, with the sessions that it has in memory since they were last frozen.
    pub(in crate::window::sessions) fn known(
        &self,
        plan: &Plan,
        (pane, key): (i64, &[u8]),
        watermark_ms: i64,
        look: &Look,
        base: impl Iterator<Item = Span>,
    ) -> Known {
        let gap = gap(plan);
        let whole = |span: Span| Whole { span, of: Vec::new() };
        let is_closed =
            |whole: &Whole, watermark_ms: i64| plan.is_closed(end(plan, pane, whole.span.last), watermark_ms);
        let mut pool: Vec<Whole> = Vec::new();
        for item in self.panes.get(&pane).into_iter().flat_map(|pane| &pane.items) {
            match item {
                Item::Run(run) => match run.in_memory() {
                    Some(sessions) => pool.extend(sessions.chains.spans_of(key).map(whole)),
                    None => {
                        let found = look.found.get(&(pane, run.number, key.to_vec()));
                        pool.extend(found.into_iter().flatten().copied().map(whole));
                    }
                },
                Item::Cut(cuts) => {
                    if let Some(last) = cuts.get(key) {
                        // Closed, and apart: nothing can join them.
                        pool.retain(|part| part.span.last > *last);
                    }
                }
                Item::Sweep(sweep) => {
                    pool = join(pool, gap);
                    pool.retain(|whole| !is_closed(whole, sweep.watermark_ms));
                }
            }
        }
        pool.extend(base.map(whole));
        if let Some(last) = self.cuts.get(&pane).and_then(|cuts| cuts.get(key)) {
            pool.retain(|part| part.span.last > *last);
        }
        let (closed, open): (Vec<Whole>, Vec<Whole>) =
            join(pool, gap).into_iter().partition(|whole| is_closed(whole, watermark_ms));
        let spans = |all: Vec<Whole>| all.into_iter().map(|whole| whole.span).collect();
        Known { open: spans(open), closed: spans(closed) }
    }
}

impl Run {
    /// The blocks in files that may have a key.
    fn blocks_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a Arc<File>, u32)> {
        self.sections().iter().flat_map(move |section| {
            let (file, blocks) = (&section.file, section.blocks.clone());
            let (mut first, mut end) = (blocks.start, blocks.end);
            while first < end {
                let middle = first.midpoint(end);
                if file.first(middle) < key {
                    first = middle + 1;
                } else {
                    end = middle;
                }
            }
            // Parts of a key begin with it, so they stand together, from within the last block that begins before it.
            let first = first.saturating_sub(1).max(blocks.start);
            let has_it = move |block: &u32| *block == first || file.first(*block).starts_with(key);
            (first..blocks.end).take_while(has_it).map(move |block| (file, block))
        })
    }
}
