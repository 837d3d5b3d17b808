//! What was last written of each key of the open windows, where a later result takes it back.
//!
//! Owns the groups that results were written of, each with its version. Does not own when a window is written (`emit`), nor the rows that take results
//! back (`panes`, `results`).
//!
//! A result of a step with a sign is taken back by a row with the same values and the sign -1, before the next one is written. The groups of a pane have
//! gone on by then, so those that a window was written with are kept beside them. What is kept follows from the records, seals and watermarks alone, as what is
//! written does: a start that applies the deltas has it without computing a result.
//!
//! Each time that a window is written its new groups become a *layer*. A layer is merged into the one before once that is at most twice as large, so there are few,
//! and a group is moved a few times however often its window is written.

use std::collections::BTreeMap;

use dataflow::StateError;

use super::encoding::{Reader, damaged, put_len};
use super::groups::Groups;
use super::plan::Plan;

/// Layers of a window at the most, as read from a store that others may write to: each is more than twice as large as the next.
const LAYERS_MAX: usize = 64;

/// What was written of open windows.
#[derive(Default)]
pub(super) struct Written {
    /// By the end of each window, its layers: of a key in several the last holds.
    windows: BTreeMap<i64, Vec<Groups>>,
}

impl Written {
    /// What was last written of these keys of a window, as far as anything was: groups with their versions.
    pub fn of(&self, plan: &Plan, end: i64, keys: &Groups) -> Groups {
        let mut found = Groups::new(&plan.keys, &plan.aggregates);
        let Some(layers) = self.windows.get(&end) else { return found };
        for (nth, layer) in layers.iter().enumerate().rev() {
            let is_newest = |key: &[u8]| layers[nth + 1..].iter().all(|later| later.lookup(key).is_none());
            let numbers = (0..keys.len()).map(|group| keys.key(group)).filter(|key| is_newest(key));
            let numbers: Vec<u32> = numbers.filter_map(|key| layer.lookup(key)).collect();
            found.take_stamped(layer, &numbers);
        }
        found
    }

    /// These groups of a window were written, all with this version.
    pub fn write_over(&mut self, plan: &Plan, end: i64, mut groups: Groups, version: u64) {
        if groups.len() == 0 {
            return;
        }
        groups.stamp(version);
        let layers = self.windows.entry(end).or_default();
        while let Some(before) = layers.pop_if(|before| before.len() <= groups.len().saturating_mul(2)) {
            let numbers: Vec<u32> = (0..before.len() as u32)
                .filter(|group| groups.lookup(before.key(*group as usize)).is_none())
                .collect();
            let mut merged = Groups::new(&plan.keys, &plan.aggregates);
            merged.take_stamped(&before, &numbers);
            merged.take_stamped(&groups, &(0..groups.len() as u32).collect::<Vec<_>>());
            groups = merged;
        }
        layers.push(groups);
    }

    /// The ends of the windows.
    pub fn ends(&self) -> impl Iterator<Item = &i64> {
        self.windows.keys()
    }

    /// The window is closed.
    pub fn forget(&mut self, end: i64) {
        self.windows.remove(&end);
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.windows.values().flatten().map(Groups::memory_bytes).sum()
    }

    /// Writes all of it for a snapshot.
    pub fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.windows.len());
        for (end, layers) in &self.windows {
            to.extend_from_slice(&end.to_le_bytes());
            put_len(to, layers.len());
            for layer in layers {
                layer.write(to);
                layer.write_seals(to);
            }
        }
    }

    /// Reads what was written; `newest` is the newest seal.
    ///
    /// # Errors
    /// When a window is there twice, or its groups cannot be.
    pub fn read(plan: &Plan, newest: u64, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut windows = BTreeMap::new();
        for _ in 0..from.len()? {
            let end = i64::from_le_bytes(from.array()?);
            let count = from.len()?;
            if count == 0 || count > LAYERS_MAX {
                return Err(damaged("has results of a window in more parts than there can be"));
            }
            let mut layers = Vec::new();
            for _ in 0..count {
                let mut layer = Groups::read(&plan.keys, &plan.aggregates, from)?;
                layer.read_seals(newest, from)?;
                layers.push(layer);
            }
            if windows.insert(end, layers).is_some() {
                return Err(damaged("has the results of a window twice"));
            }
        }
        Ok(Self { windows })
    }
}
