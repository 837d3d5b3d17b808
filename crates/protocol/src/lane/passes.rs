//! Positions that are read anew, and since when.
//!
//! Owns the ranges, so that a dead letter from before such a moment is told from one of the record's newest reading: the first is of a record that has
//! another outcome, or will have one. Does not own what is done with such letters (`admin::dead_letters`), nor the records that begin a range
//! ([`super::change`], [`super::removal`], [`super::forget`]).
//!
//! | what happens                                        | positions that are read anew since then                        |
//! |-----------------------------------------------------|----------------------------------------------------------------|
//! | a partition is moved back                           | from where it goes to where it stood                           |
//! | a partition is moved on                             | those in between are not read after all: what was so before holds |
//! | a partition is read first behind a reset or deletion | all from its first position on                                |
//! | a partition that was forgotten comes back, in any input, before the position that it was left at | from where it begins to that position |
//!
//! Moments are wall clocks': that of whoever gave the command, or, for a partition that comes back, of the owner that begins to read it, so that rows which were sealed
//! before the `forget` and refused after it are of the earlier reading. Letters carry the clock of the process that sealed them. Clocks differ, so a moment is never before
//! one that the journal names already ([`Lane::moment_after`]): no letter of an earlier reading is taken for one of the newest, which would write its rows twice. If a clock
//! was ahead, letters that are sealed until the others have reached it count as earlier ones; `--again` replays them.

use std::collections::BTreeMap;

use super::Lane;
use crate::record::{PartitionGenesis, PassImage, Position};

/// Ranges that one partition keeps apart. Beyond it the lowest two become one that is read anew for ever: a letter there is never taken for a new one.
pub const PASSES_MAX: usize = 64;

/// Positions of a partition that are read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The first position.
    pub from: Position,
    /// The position after the last; [`Position::MAX`] if there is no last one.
    pub end: Position,
    /// Since when, Unix milliseconds: a letter of that time or before is of an earlier reading.
    pub since_ms: i64,
    /// The same of the reading before; 0 if that was the first.
    pub earlier_ms: i64,
}

impl Pass {
    fn within(self, from: Position, end: Position) -> Option<Self> {
        let (from, end) = (self.from.max(from), self.end.min(end));
        (from < end).then_some(Self { from, end, ..self })
    }
}

/// The same with the positions from `from` to `end` read anew since a moment.
fn begun(passes: &[Pass], from: Position, end: Position, since_ms: i64) -> Vec<Pass> {
    let mut all = outside(passes, from, end);
    let mut at = from;
    for before in passes.iter().filter_map(|pass| pass.within(from, end)) {
        let since_ms = since_ms.max(before.since_ms);
        all.extend(Pass { from: at, end: before.from, since_ms, earlier_ms: 0 }.within(from, end));
        all.push(Pass { since_ms, earlier_ms: before.since_ms, ..before });
        at = before.end;
    }
    all.extend(Pass { from: at, end, since_ms, earlier_ms: 0 }.within(from, end));
    tidied(all)
}

/// The same without the newest reading of the positions from `from` to `end`, which has not come to them.
fn undone(passes: &[Pass], from: Position, end: Position) -> Vec<Pass> {
    let mut all = outside(passes, from, end);
    let inside = passes.iter().filter_map(|pass| pass.within(from, end));
    all.extend(inside.filter(|pass| pass.earlier_ms > 0).map(|pass| Pass {
        since_ms: pass.earlier_ms,
        earlier_ms: 0,
        ..pass
    }));
    tidied(all)
}

fn outside(passes: &[Pass], from: Position, end: Position) -> Vec<Pass> {
    let below = passes.iter().filter_map(|pass| pass.within(0, from));
    below.chain(passes.iter().filter_map(|pass| pass.within(end, Position::MAX))).collect()
}

/// In their order, neighbours that say the same as one, and no more than may be kept.
fn tidied(mut all: Vec<Pass>) -> Vec<Pass> {
    all.sort_unstable_by_key(|pass| pass.from);
    all.dedup_by(|next, pass| {
        let are_one =
            pass.end == next.from && (pass.since_ms, pass.earlier_ms) == (next.since_ms, next.earlier_ms);
        if are_one {
            pass.end = next.end;
        }
        are_one
    });
    let surplus = all.len().saturating_sub(PASSES_MAX);
    if surplus > 0 {
        let lowest =
            Pass { from: all[0].from, end: all[surplus].end, since_ms: i64::MAX, earlier_ms: i64::MAX };
        all.splice(..=surplus, [lowest]);
    }
    all
}

impl Lane {
    /// The ranges of a partition (by its index) that are read anew, in their order; they do not overlap.
    pub fn passes_of(&self, partition: usize) -> &[Pass] {
        let passes = u32::try_from(partition).ok().and_then(|at| self.passes.get(&at));
        passes.map_or(&[], Vec::as_slice)
    }

    /// A partition that stood at `stood` is read from `next` on.
    pub(super) fn pass(&mut self, partition: u32, stood: Position, next: Position, at_ms: i64) {
        let passes = self.passes.get(&partition).map_or(&[][..], Vec::as_slice);
        let passes = match next < stood {
            // An earlier program said no time: what was read before is not told from what is read then.
            true if at_ms > 0 => begun(passes, next, stood, at_ms),
            true => return,
            false => undone(passes, stood, next),
        };
        match passes.is_empty() {
            true => self.passes.remove(&partition),
            false => self.passes.insert(partition, passes),
        };
    }

    /// A partition is read from `next` on, and perhaps was by a pipeline of this name that was reset or deleted.
    pub(super) fn pass_from_start(&mut self, partition: u32, next: Position) {
        if self.before.until_ms > 0 {
            let passes = begun(&[], next, Position::MAX, self.before.until_ms);
            self.passes.insert(partition, passes);
        }
    }

    /// Partitions are read first, with indexes from `first` on. What others of their names and identities were read to before they were forgotten
    /// is read anew since `since_ms`. A program that said no time of a `forget` began nothing by it.
    pub(super) fn pass_again(&mut self, first: u32, partitions: &[PartitionGenesis], since_ms: i64) {
        // By names: a source of files begins with thousands of partitions.
        let mut left = BTreeMap::<_, (Position, usize)>::new();
        for (at, _) in self.forgotten.iter().filter(|(_, gone)| gone.at_ms > 0) {
            let known = self.partitions.get(*at as usize).filter(|p| !p.identity.is_empty());
            let Some(p) = known else { continue };
            let (stood, newest) = left.entry((p.stream.as_str(), p.index, p.identity.as_str())).or_default();
            (*stood, *newest) = (p.next.max(*stood), *at as usize);
        }
        let again = |(partition, p): (u32, &PartitionGenesis)| {
            let (stood, newest) = *left.get(&(p.stream.as_str(), p.index, p.identity.as_str()))?;
            let passes = match self.passes_of(newest) {
                [] => self.passes_of(partition as usize),
                passes => passes,
            };
            (p.next() < stood).then(|| (partition, begun(passes, p.next(), stood, since_ms)))
        };
        let again: Vec<(u32, Vec<Pass>)> = (first..).zip(partitions).filter_map(again).collect();
        self.passes.extend(again);
    }

    /// A moment behind all that the journal names, Unix milliseconds: right behind `now_ms`, or later if the clock of a writer before was ahead of it.
    pub fn moment_after(&self, now_ms: i64) -> i64 {
        now_ms.max(self.newest_ms).saturating_add(1)
    }

    pub(super) fn passes_image(&self) -> Vec<PassImage> {
        let each = |(partition, passes): (&u32, &Vec<Pass>)| {
            let partition = *partition;
            passes.clone().into_iter().map(move |pass| {
                PassImage::new(partition, pass.from, pass.end, pass.since_ms, pass.earlier_ms)
            })
        };
        self.passes.iter().flat_map(each).collect()
    }
}

/// The ranges that a checkpoint holds, by partition.
pub(super) fn from_image(images: &[PassImage]) -> BTreeMap<u32, Vec<Pass>> {
    let mut passes = BTreeMap::<u32, Vec<Pass>>::new();
    for image in images {
        let (since_ms, earlier_ms) = (image.since_ms, image.earlier_ms);
        let pass = Pass { from: image.from(), end: image.end(), since_ms, earlier_ms };
        passes.entry(image.partition).or_default().push(pass);
    }
    passes
}

#[cfg(test)]
mod tests;
