//! When versions leave memory, and what rows need of those that did.
//!
//! Owns the bounds of memory, the late versions that only a file shows, and the way of left rows past the runs. Does not own the runs (`spilled`), nor the step's two phases
//! (`super`).

use std::any::Any;

use dataflow::{Batch, OperatorError, Probed, StateError, StateRead};

use super::results::{self, Due, Found, Version};
use super::spilled::Candidates;
use super::versions::Holds;
use super::{Incoming, JoinSide, Taken, TemporalJoin, codec, failed, not_gathered};
use crate::join::incoming::is_usable;

/// A batch of versions of which some are of before the floor, while versions are spilled.
pub(super) struct Asking {
    pub rows: Box<Incoming>,
    pub candidates: Candidates,
}

/// What a batch brings, with what was asked for it.
pub(super) fn unpack(scratch: Option<Box<dyn Any + Send>>) -> Option<(Box<Incoming>, Option<Candidates>)> {
    match scratch?.downcast::<Incoming>() {
        Ok(rows) => Some((rows, None)),
        Err(scratch) => {
            scratch.downcast::<Asking>().ok().map(|asking| (asking.rows, Some(asking.candidates)))
        }
    }
}

impl TemporalJoin {
    /// Whether a version may be late because of one in a file.
    fn is_behind(&self, time_ms: i64) -> bool {
        is_usable(time_ms) && time_ms < self.plan.floor_ms(self.watermark_ms)
    }

    /// Says what must be read to tell late versions from others.
    pub(super) fn ask(&self, batch: Batch, rows: Box<Incoming>) -> Result<Probed, OperatorError> {
        let behind = batch.times_ms.iter().zip(&rows.hashes).enumerate();
        let sealed = (self.plan.floor_ms(self.watermark_ms), self.sealed[1]);
        // Of keys that memory knows better the files are not asked.
        let behind = behind.filter(|(row, (time_ms, hash))| {
            self.is_behind(**time_ms)
                && rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(*row))
                && !self.right.hides_files(**hash, sealed)
        });
        let (candidates, reads) = self.spilled.candidates(behind.map(|(_, (_, hash))| *hash));
        let bytes = reads.iter().map(|read| u64::from(read.len)).sum::<u64>();
        if bytes > self.memory_max {
            return Err(failed(format!(
                "to compare a batch with versions that are in files takes blocks of `{bytes}` bytes, and `memory` of the step is `{}`; nothing of this batch is sealed, and \
                 nothing is lost. Raise `memory` of the step (and of the pipeline), then start again",
                self.memory_max
            )));
        }
        Ok(Probed { batch, reads, scratch: Some(Box::new(Asking { rows, candidates })) })
    }

    /// Drops versions that are late because of one in a file; how many there were.
    pub(super) fn drop_late(
        &self,
        candidates: &Candidates,
        answers: &[Vec<u8>],
        taken: &mut Taken,
    ) -> Result<u64, OperatorError> {
        let floor_ms = self.plan.floor_ms(self.watermark_ms);
        let times_ms = self.spilled.times_ms(&self.plan, candidates, answers, floor_ms);
        let times_ms = times_ms.map_err(|error| failed(error.to_string()))?;
        if times_ms.is_empty() {
            return Ok(0);
        }
        let keyed = taken.rows.keyed.clone();
        let is_late = |row: usize| {
            keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row))
                && times_ms.get(&taken.rows.hashes[row]).is_some_and(|held_ms| *held_ms > taken.times_ms[row])
        };
        let all = taken.times_ms.len();
        let kept: Vec<u32> = (0..all).filter(|row| !is_late(*row)).map(|row| row as u32).collect();
        if kept.len() < all {
            taken.rows = taken.rows.take(&kept).map_err(failed)?;
            taken.times_ms = kept.iter().map(|row| taken.times_ms[*row as usize]).collect();
        }
        Ok((all - kept.len()) as u64)
    }

    /// The watermark that releases all left rows, if that is greater.
    pub(super) fn closing(&self, watermark_ms: i64) -> i64 {
        let closing = self.left.last_ms().map(|last_ms| last_ms.saturating_add(self.plan.lateness_ms + 1));
        closing.map_or(watermark_ms, |closing| closing.max(watermark_ms))
    }

    /// What must be read for the left rows that a floor releases.
    pub(super) fn reads(&mut self, floor_ms: i64) -> Result<Vec<StateRead>, StateError> {
        if self.spilled.is_empty() {
            return Ok(Vec::new());
        }
        if self.due.as_ref().is_none_or(|(of_ms, _)| *of_ms != floor_ms) {
            let ids = self.left.due_ids(self.plan.side(JoinSide::Left), floor_ms);
            self.due = Some((floor_ms, results::by_time(&self.left, &self.right, &ids)));
        }
        let due = self.due.as_ref().map_or(&[][..], |(_, due)| due);
        let in_files = due.iter().filter(|due| due.holds == Holds::Nothing);
        self.spilled.reads(&self.plan, floor_ms, || in_files.filter_map(|due| due.hash).collect())
    }

    /// The versions of left rows that a floor releases, all of which have been read that must be.
    pub(super) fn found(&mut self, floor_ms: i64, ids: &[u32]) -> Result<Vec<Found>, OperatorError> {
        let due = match self.due.take() {
            Some((of_ms, due)) if of_ms == floor_ms => due,
            _ => results::by_time(&self.left, &self.right, ids),
        };
        let of = |Due { time_ms, row, hash, holds }| {
            let version = match (holds, hash) {
                (Holds::Version(id), _) => Version::InMemory(id),
                (Holds::Nothing, Some(hash)) => {
                    self.spilled.version(hash).map_or(Version::None, Version::Read)
                }
                (Holds::Deleted, _) | (Holds::Nothing, None) => Version::None,
            };
            Found { time_ms, row, version }
        };
        Ok(due.into_iter().map(of).collect())
    }

    /// Everything that a seal needs of files is at hand: what is in memory is read now.
    pub(super) fn check_read(&mut self, floor_ms: i64) -> Result<(), OperatorError> {
        if self.spilled.is_read(floor_ms) {
            return Ok(());
        }
        match self.reads(floor_ms) {
            Ok(reads) if reads.is_empty() => Ok(()),
            Ok(_) => Err(failed(
                "versions in files were not read before the rows that they are for are due; this is a fault of the program".to_owned(),
            )),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    pub(super) fn in_memory_bytes(&self) -> u64 {
        (self.left.memory_bytes() + self.right.memory_bytes()) as u64
    }

    /// Bytes in memory above which versions are frozen: the index of runs takes of the same memory.
    fn open_max(&self) -> u64 {
        let open = self.spilled.sizes.open_bytes;
        open.saturating_sub(self.spilled.index_bytes()).max(open / 4)
    }

    /// Whether what is in memory takes too much, and some of it may leave.
    pub(super) fn is_over(&self) -> bool {
        self.right.settled() > 0 && self.in_memory_bytes() > self.open_max()
    }

    /// Freezes the first settled versions if memory is over its bound and the runs before are in files; says how many, run by run.
    ///
    /// # Errors
    /// When the index of runs takes too much, or what must stay in memory does.
    pub(super) fn make_room(&mut self) -> Result<Vec<u32>, OperatorError> {
        let (index, index_max) = (self.spilled.index_bytes(), self.spilled.sizes.index_bytes);
        if index > index_max && self.is_of_upsert {
            return Err(self.too_many_keys(format!(
                "the index of those in files takes `{index}` bytes, and may take `{index_max}`"
            )));
        }
        if index > index_max {
            return Err(failed(format!(
                "the join holds `{}` versions of its right side, of them `{}` in files, whose index takes `{index}` bytes, and may take `{index_max}` by `memory`, which is `{}`; \
                 nothing of this batch is sealed, and nothing is lost. Raise `memory` of the step (and of the pipeline), then start again. The newest version of each key stays: \
                 `deleted` for keys that are no more takes less: change the step, and start once with `--new-state`, which drops the rows and versions that the join holds",
                self.versions(),
                self.spilled.held_in_files(),
                self.memory_max
            )));
        }
        // While a run is on its way, the engine waits for it before there is twice as much.
        if self.spilled.has_unwritten() || self.spilled.is_full() {
            return Ok(Vec::new());
        }
        let mut frozen = Vec::new();
        if self.is_over() {
            let over = self.in_memory_bytes() - self.open_max() / 3 * 2;
            let floor_ms = self.plan.floor_ms(self.watermark_ms);
            let (ids, counts) = self.right.first_of_bytes(floor_ms, over, self.spilled.sizes.run_bytes);
            self.freeze(&ids, &counts).map_err(not_gathered)?;
            frozen = counts;
        }
        self.check_memory()?;
        Ok(frozen)
    }

    /// Freezes these versions, so many a run.
    fn freeze(&mut self, mut ids: &[u32], frozen: &[u32]) -> Result<(), arrow_schema::ArrowError> {
        let (all, floor_ms) = (ids, self.plan.floor_ms(self.watermark_ms));
        self.right.keep_deletions();
        for count in frozen {
            let (own, rest) = ids.split_at(*count as usize);
            self.spilled.freeze(&self.plan, &self.right, own.to_vec())?;
            ids = rest;
        }
        self.right.drop_settled(all, floor_ms)?;
        self.sealed = JoinSide::BOTH.map(|side| self.next(side));
        Ok(())
    }

    /// Freezes what a delta says.
    ///
    /// # Errors
    /// When there are not so many settled versions.
    pub(super) fn freeze_all(&mut self, frozen: &[u32]) -> Result<(), StateError> {
        let count = frozen.iter().map(|count| u64::from(*count)).sum::<u64>();
        if frozen.contains(&0) || count > self.right.settled() {
            return Err(codec::damaged("freezes versions that are not there"));
        }
        if count == 0 {
            return Ok(());
        }
        let ids = self.right.first_settled(self.plan.floor_ms(self.watermark_ms), count as usize);
        if ids.len() as u64 != count {
            return Err(codec::damaged("freezes versions that are not there"));
        }
        self.freeze(&ids, frozen).map_err(codec::damaged)
    }

    fn check_memory(&self) -> Result<(), OperatorError> {
        let bytes = self.in_memory_bytes() + self.spilled.index_bytes();
        if bytes <= self.memory_max {
            return Ok(());
        }
        if self.is_of_upsert {
            return Err(self.too_many_keys(format!("those that must be in memory take `{bytes}` bytes")));
        }
        Err(failed(format!(
            "the join holds `{}` rows of its left side that wait, and of `{}` versions of its right side `{}` whose time the watermark has not reached; they stay in memory and take \
             `{bytes}` bytes, and `memory` is `{}`; nothing of this batch is sealed, and nothing is lost. Raise `memory` of the step (and of the pipeline), then start again. A shorter \
             `lateness` and fewer columns take less memory: change them, and start once with `--new-state`, which drops the rows and versions that the join holds",
            self.left.held(),
            self.versions(),
            self.right.held() - self.right.settled(),
            self.memory_max
        )))
    }

    fn too_many_keys(&self, what: String) -> OperatorError {
        failed(format!(
            "the last rows of `{}` keys are kept, `{}` of them in files; {what} by `memory`, which is `{}`; nothing of this batch is sealed, and nothing is lost. Raise `upsert.memory` \
             (and `memory` of the pipeline), then start again",
            self.versions(),
            self.spilled.held_in_files(),
            self.memory_max
        ))
    }

    /// Versions held, wherever they are.
    pub(super) fn versions(&self) -> u64 {
        self.right.held() + self.spilled.held()
    }
}
