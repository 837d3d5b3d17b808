//! From frozen generations to files, one file at a time.
//!
//! Owns the sorting and the cutting into files and sections. Does not own when a pane is frozen (`window::spilled`), nor the bytes of a
//! file (`spilled::file`). Runs beside the lane, on generations that never change; what it made counts once the step has adopted it.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use super::Sizes;
use super::file::{Builder, File, Section};
use crate::window::encoding::damaged;
use crate::window::groups::Groups;
use crate::window::plan::Plan;
use crate::window::sessions::Sessions;

/// Sessions that become groups at once: no more of them are in memory twice.
const SESSIONS_AT_ONCE: usize = 1 << 14;

/// Rows of the groups that are picked at once out of a generation whose values are scattered: each picking is a walk over all of them. There are at most so many, unless
/// each has few rows.
const STRETCHES: u64 = 256;
const STRETCH_ROWS: u64 = 1 << 16;

/// The pane of a generation, its number, and where it is now.
pub(in crate::window) type Made = (i64, u64, Vec<Section>);

/// What is on its way to files.
pub(in crate::window) enum Frozen {
    Groups(Arc<Groups>),
    /// Sessions, which become groups by their keys and bounds.
    Sessions(Arc<Sessions>),
}

/// Generations on their way to files.
pub(in crate::window) struct Spill {
    plan: Arc<Plan>,
    sizes: Sizes,
    /// By pane and number.
    left: VecDeque<(i64, u64, Frozen)>,
    /// The groups of the first that are still to be written, by key.
    order: Vec<u32>,
    written: usize,
    made: Vec<Made>,
    /// The file being written, and the generations of its sections: their places in `made`.
    writing: Option<(File, Vec<usize>)>,
    is_done: bool,
}

impl Spill {
    /// Of these generations.
    pub fn new(plan: Arc<Plan>, sizes: Sizes, left: Vec<(i64, u64, Frozen)>) -> Self {
        Self {
            plan,
            sizes,
            left: left.into(),
            order: Vec::new(),
            written: 0,
            made: Vec::new(),
            writing: None,
            is_done: false,
        }
    }

    /// What was made, once it is done.
    pub fn made(self) -> Option<Vec<Made>> {
        self.is_done.then_some(self.made)
    }

    /// Writes the next file.
    fn file(&mut self) -> Need {
        let (mut builder, mut of) = (Builder::new(), Vec::new());
        while let Some((pane, number, frozen)) = self.left.front() {
            if self.order.is_empty() {
                self.order = frozen.sorted();
                self.made.push((*pane, *number, Vec::new()));
            }
            builder.section(*pane);
            of.push(self.made.len() - 1);
            while self.written < self.order.len() && builder.len() < self.sizes.file_bytes {
                let order = &self.order[self.written..];
                self.written += frozen.write(&self.plan, self.sizes, order, &mut builder);
            }
            if self.written < self.order.len() {
                break;
            }
            (self.order, self.written) = (Vec::new(), 0);
            self.left.pop_front();
            if builder.len() >= self.sizes.file_bytes {
                break;
            }
        }
        if builder.is_empty() {
            self.is_done = true;
            return Need::Done;
        }
        let (bytes, file) = builder.finish();
        self.writing = Some((file, of));
        Need::Write(bytes)
    }
}

impl Frozen {
    /// The numbers of all, by key.
    fn sorted(&self) -> Vec<u32> {
        match self {
            Self::Groups(groups) => sorted(groups),
            Self::Sessions(sessions) => sessions.sorted(),
        }
    }

    /// Writes a block, or some, of the first of those that are left. How many it took.
    fn write(&self, plan: &Plan, sizes: Sizes, order: &[u32], builder: &mut Builder) -> usize {
        match self {
            Self::Groups(groups) if groups.rows() > STRETCH_ROWS && groups.accumulators.are_scattered() => {
                write_all(plan, &groups.picked(plan, stretch(groups, order)), sizes, builder)
            }
            Self::Groups(groups) => builder.block(plan, groups, order, sizes.block_bytes),
            Self::Sessions(sessions) => {
                let few = &order[..order.len().min(SESSIONS_AT_ONCE)];
                write_all(plan, &sessions.entries(plan, few), sizes, builder)
            }
        }
    }
}

/// The first of these groups, which are picked at once.
fn stretch<'a>(groups: &Groups, order: &'a [u32]) -> &'a [u32] {
    let most = (groups.rows() / STRETCHES).max(STRETCH_ROWS);
    let mut rows = 0;
    let last = order.iter().position(|group| {
        rows += groups.counts[*group as usize];
        rows >= most
    });
    last.map_or(order, |last| &order[..=last])
}

/// Writes groups that are sorted by key, all of them or as many as the file takes. How many it took.
fn write_all(plan: &Plan, groups: &Groups, sizes: Sizes, builder: &mut Builder) -> usize {
    let (all, mut taken): (Vec<u32>, usize) = ((0..groups.len() as u32).collect(), 0);
    while taken < all.len() && builder.len() < sizes.file_bytes {
        taken += builder.block(plan, groups, &all[taken..], sizes.block_bytes);
    }
    taken
}

/// The numbers of groups by key.
pub(in crate::window) fn sorted(groups: &Groups) -> Vec<u32> {
    // Most keys differ in their first bytes, which are at hand here.
    let first = |key: &[u8]| {
        let mut bytes = [0; 8];
        let len = key.len().min(8);
        bytes[..len].copy_from_slice(&key[..len]);
        u64::from_be_bytes(bytes)
    };
    let mut order: Vec<(u64, u32)> =
        (0..groups.len()).map(|group| (first(groups.key(group)), group as u32)).collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| groups.key(a.1 as usize).cmp(groups.key(b.1 as usize)))
    });
    order.into_iter().map(|(_, group)| group).collect()
}

impl StateWork for Spill {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (self.writing.take(), given) {
            (None, Given::Start) => {}
            (Some((mut file, of)), Given::Written(object)) => {
                file.object = object;
                let file = Arc::new(file);
                let sections = Section::all(&file);
                for (of, section) in of.into_iter().zip(sections) {
                    self.made[of].2.push(section);
                }
            }
            _ => return Err(damaged("is written with an answer that was not asked for")),
        }
        Ok(self.file())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
