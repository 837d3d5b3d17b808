//! Steps whose state is kept or given up, and partitions that continue from another position.
//!
//! Owns what both records do to a lane, and what no such record may do. Does not own which changes need the operator's word
//! (`engine::change`), nor what a step's state is.
//!
//! | the record                                     | is refused with                                                        |
//! |------------------------------------------------|------------------------------------------------------------------------|
//! | keeps state under another name or shape        | C6: such state cannot be read back                                     |
//! | keeps state whose Enums have lost or renumbered a name | C6: the numbers in it would be other values                    |
//! | keeps one state for two steps, or swaps two    | C6                                                                     |
//! | discards more than states hold                 | C9                                                                     |
//! | empties or drops a state while frames are pending | C10: a row that is refused later would free a key of another record |
//! | moves a partition from where it does not stand | C1                                                                     |
//! | moves a partition while frames are pending     | C9: a row that is refused later is a record behind the position        |
//! | moves back and keeps a state, where a step absorbs records | C9: results would hold a record twice, or lack it          |

use super::{Lane, TIME_UNKNOWN_MS, Violation, hostile, violation};
use crate::record::{Change, KeptState, Position, Record, Rewind, Rewound, shown};

impl Lane {
    /// The lane with the states of these steps, and those of no others.
    pub fn with_states(&self, kept: &[KeptState]) -> Self {
        let mut lane = self.clone();
        lane.keep_states(kept);
        lane
    }

    /// The states that are kept when those of `emptied` are not.
    pub fn states_but(&self, emptied: &[u32]) -> Vec<KeptState> {
        let all = 0..self.steps.len() as u32;
        all.filter(|step| !emptied.contains(step)).map(|step| KeptState { step, before: step }).collect()
    }

    /// The steps that must begin empty before a record is read again: all of them where one absorbs records, because its results would hold such
    /// a record twice, or lack it if a step before drops it as known; otherwise none.
    pub fn emptied_by_going_back(&self) -> std::ops::Range<u32> {
        let does_absorb = self.steps.iter().any(|step| step.absorbs);
        0..if does_absorb { self.steps.len() as u32 } else { 0 }
    }

    /// The greatest position up to which a partition was read, also before it was moved back.
    pub fn read_to(&self, partition: usize) -> Position {
        let next = self.partitions.get(partition).map_or(0, |p| p.next);
        let before = u32::try_from(partition).ok().and_then(|at| self.rewound.get(&at));
        before.map_or(next, |before| next.max(*before))
    }

    pub(super) fn check_change(&self, record: &Record, change: &Change) -> Result<(), Violation> {
        if self.pipeline.is_empty() {
            return Err(violation(record, "order", "a change of a pipeline that has no genesis"));
        }
        let mut last: Option<KeptState> = None;
        for kept in &change.kept {
            let now = change.steps.get(kept.step as usize);
            let before = self.steps.get(kept.before as usize);
            if !now.zip(before).is_some_and(|(now, before)| now.continues(before)) {
                let what = format!("step {} continues with the state of step {}", kept.step, kept.before);
                return Err(violation(record, "C6", what));
            }
            if last.is_some_and(|last| kept.step <= last.step || kept.before <= last.before) {
                return Err(violation(record, "C6", format!("states change places: {:?}", change.kept)));
            }
            last = Some(*kept);
        }
        // A step that is new gives nothing up.
        let is_dropped = change.kept.len() < self.steps.len();
        self.check_discarded(record, change.discarded, is_dropped)
    }

    pub(super) fn change(&mut self, change: &Change) {
        self.keep_states(&change.kept);
        self.discard(change.discarded);
        self.steps.clone_from(&change.steps);
        self.parts.clone_from(&change.parts);
    }

    pub(super) fn check_rewind(&self, record: &Record, rewind: &Rewind) -> Result<(), Violation> {
        for (n, moved) in rewind.moves.iter().enumerate() {
            let at = moved.partition;
            let found = self.partitions.get(at as usize).filter(|_| !self.is_forgotten(at));
            if found.map(|p| p.next) != Some(moved.from())
                || rewind.moves[..n].iter().any(|other| other.partition == at)
            {
                let stands = found.map(|p| shown(p.next).to_string());
                return Err(violation(
                    record,
                    "C1",
                    format!("{moved:?} is moved, which stands at {stands:?}"),
                ));
            }
            hostile::check_number(record, "C1", hostile::most(moved.next()))?;
        }
        if self.spool_frames() > 0 {
            let what = format!("partitions are moved while {} frames are pending", self.spool_frames());
            return Err(violation(record, "C9", what));
        }
        if let Some(step) = rewind.emptied.iter().find(|step| **step as usize >= self.steps.len()) {
            return Err(violation(record, "order", format!("step {step} is emptied, which is not there")));
        }
        self.check_discarded(record, rewind.discarded, !rewind.emptied.is_empty())?;
        let is_back = rewind.moves.iter().any(|moved| moved.is_back());
        match self.emptied_by_going_back().find(|step| is_back && !rewind.emptied.contains(step)) {
            None => Ok(()),
            Some(step) => {
                let what = format!(
                    "partitions are moved back, and the state of step {step} is kept: results would hold a record twice, or lack it"
                );
                Err(violation(record, "C9", what))
            }
        }
    }

    pub(super) fn rewind(&mut self, rewind: &Rewind) {
        self.newest_ms = self.newest_ms.max(rewind.at_ms);
        let kept = self.states_but(&rewind.emptied);
        self.keep_states(&kept);
        self.discard(rewind.discarded);
        // Time starts over with the records that are read again, unless a state is left that relies on it.
        let is_new_time = kept.is_empty() && rewind.moves.iter().any(|moved| moved.is_back());
        if is_new_time {
            self.watermark_ms = TIME_UNKNOWN_MS;
            self.idle.clear();
        }
        for moved in &rewind.moves {
            let read_to = self.read_to(moved.partition as usize);
            let partition = &mut self.partitions[moved.partition as usize];
            (partition.next, partition.leader_epoch) = (moved.next(), moved.leader_epoch);
            if moved.is_back() {
                self.rewound.insert(moved.partition, read_to);
                if is_new_time {
                    partition.time_ms_max = TIME_UNKNOWN_MS;
                }
            }
            self.fates.retain(|fates| fates.partition != moved.partition);
            self.pass(moved.partition, moved.from(), moved.next(), rewind.at_ms);
        }
    }

    pub(super) fn rewound_image(&self) -> Vec<Rewound> {
        self.rewound.iter().map(|(partition, read_to)| Rewound::new(*partition, *read_to)).collect()
    }

    fn check_discarded(&self, record: &Record, discarded: u64, is_dropped: bool) -> Result<(), Violation> {
        if discarded > self.absorbed.held || discarded > 0 && !is_dropped {
            let what =
                format!("{discarded} records are discarded, and the states hold {}", self.absorbed.held);
            return Err(violation(record, "C9", what));
        }
        if is_dropped && self.spool_frames() > 0 {
            let what = format!("a state is given up while {} frames are pending", self.spool_frames());
            return Err(violation(record, "C10", what));
        }
        Ok(())
    }

    fn discard(&mut self, discarded: u64) {
        self.absorbed.held -= discarded;
        self.absorbed.discarded += discarded;
    }

    fn keep_states(&mut self, kept: &[KeptState]) {
        let now = |before: u32| kept.iter().find(|kept| kept.before == before).map(|kept| kept.step);
        let set = |step: &mut u32| now(*step).map(|now| *step = now).is_some();
        self.snapshots.retain_mut(|snapshot| set(&mut snapshot.step));
        self.files.retain_mut(|file| set(&mut file.step));
        self.deltas.retain_mut(|delta| delta.delta.as_mut().is_none_or(|delta| set(&mut delta.step)));
    }
}

#[cfg(test)]
mod tests;
