//! The work on runs: to write them, to sweep them, and to open the files of a snapshot.
//!
//! Owns which work is due, and what becomes of it. Does not own the work itself (`spilled::spill`, `runs::sweep`), nor what stands in a pane ([`super::pane`]).

use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::{StateError, StateWork};

use super::Runs;
use super::pane::{At, Item};
use super::sweep::{Merger, SweepWork};
use crate::runs::FileEntry;
use crate::window::encoding::damaged;
use crate::window::spilled::file::{File, Section};
use crate::window::spilled::spill::{Frozen, Spill};

/// Pieces that wait for the next seal at the most: one more is made meanwhile.
const READY_MAX: usize = 2;

impl Runs {
    /// Work that is due.
    pub fn work(&mut self) -> Option<Box<dyn StateWork>> {
        if !self.is_spilling && self.has_unwritten() {
            self.is_spilling = true;
            let each = self.panes.iter().flat_map(|(start, pane)| pane.runs().map(|run| (*start, run)));
            let frozen = each.filter_map(|(start, run)| {
                Some((start, run.number as u64, Frozen::Sessions(run.in_memory()?.clone())))
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
                        Item::Run(run) if run.number as u64 == number => Some(run),
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
    pub(super) fn name_files(&mut self) -> Result<(), StateError> {
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
