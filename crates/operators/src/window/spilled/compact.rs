//! From the generations of a pane to one.
//!
//! Owns the writing of what the merge of them gives. Does not own that merge (`spilled::merge`), nor when there are many (`window::spilled`). The groups of a key
//! are put together in the order of the generations, as they would be by a window that leaves. Runs beside the lane; what it made takes their place once the step has adopted it,
//! and a start that finds them apart puts them together again. In memory are a file, and what a merge has there.

use std::any::Any;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::ahead::{Reading, need};
use super::file::{Builder, File, Section};
use super::merge::{Merger, Of};
use super::spill::sorted;
use super::{At, Generation, Sizes};
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;

/// The generations of a pane on their way to one.
pub(super) struct Compact {
    plan: Arc<Plan>,
    sizes: Sizes,
    pane: i64,
    merger: Merger,
    /// What was merged and is in no file yet: its groups by key, and how many of them are written.
    merged: (Groups, Vec<u32>, usize),
    made: Generation,
    sections: Vec<Section>,
    reading: Vec<Reading>,
    builder: Builder,
    /// The file being written.
    writing: Option<File>,
    is_done: bool,
}

impl Compact {
    /// Of all generations of a pane, which are in files; at least one.
    pub fn new(plan: Arc<Plan>, sizes: Sizes, pane: i64, generations: &[Generation]) -> Self {
        let parts = generations.iter().map(|one| (false, one.sections())).collect();
        let of = Of { end: pane, fires: false, since: 0 };
        let made = Generation {
            number: generations.iter().map(|one| one.number).max().unwrap_or(0),
            rows: generations.iter().map(|one| one.rows).sum(),
            groups: 0,
            newest: generations.iter().map(|one| one.newest).max().unwrap_or(0),
            at: At::Files(Vec::new()),
        };
        Self {
            merger: Merger::new(plan.clone(), sizes, of, parts, None),
            merged: (Groups::new(&plan.keys, &plan.aggregates), Vec::new(), 0),
            plan,
            sizes,
            pane,
            made,
            sections: Vec::new(),
            reading: Vec::new(),
            builder: of_pane(pane),
            writing: None,
            is_done: false,
        }
    }

    /// The pane, and its generation, once it is done.
    pub fn made(self) -> Option<(i64, Generation)> {
        let made = Generation { at: At::Files(self.sections), ..self.made };
        self.is_done.then_some((self.pane, made))
    }

    /// Puts what was merged into the file, until that has its size or all is in it.
    fn write(&mut self) {
        let (groups, order, written) = &mut self.merged;
        while *written < order.len() && self.builder.len() < self.sizes.file_bytes {
            let count = self.builder.block(&self.plan, groups, &order[*written..], self.sizes.block_bytes);
            *written += count;
            self.made.groups += count as u64;
        }
    }

    fn has_merged(&self) -> bool {
        self.merged.2 < self.merged.1.len()
    }

    /// Closes the file.
    fn file(&mut self) -> Need {
        let (bytes, file) = std::mem::replace(&mut self.builder, of_pane(self.pane)).finish();
        self.writing = Some(file);
        Need::Write(bytes)
    }

    fn next(&mut self) -> Result<Need, StateError> {
        loop {
            self.write();
            if self.builder.len() >= self.sizes.file_bytes && !self.builder.is_empty() {
                return Ok(self.file());
            }
            if self.has_merged() {
                continue;
            }
            self.reading = self.merger.load()?;
            if !self.reading.is_empty() {
                return Ok(need(&self.reading));
            }
            if self.merger.is_done() {
                self.is_done = self.builder.is_empty();
                return Ok(if self.is_done { Need::Done } else { self.file() });
            }
            let mut groups = Groups::new(&self.plan.keys, &self.plan.aggregates);
            self.merger.merge(&mut groups);
            let order = sorted(&groups);
            self.merged = (groups, order, 0);
        }
    }
}

/// A file with one section.
fn of_pane(pane: i64) -> Builder {
    let mut builder = Builder::new();
    builder.section(pane);
    builder
}

impl StateWork for Compact {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (self.writing.take(), given) {
            (None, Given::Start) => {}
            (None, Given::Read(answers)) => self.merger.given(std::mem::take(&mut self.reading), answers)?,
            (Some(mut file), Given::Written(object)) => {
                file.object = object;
                self.sections.extend(Section::all(&Arc::new(file)));
            }
            _ => return Err(damaged("is put together with an answer that was not asked for")),
        }
        self.next()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
