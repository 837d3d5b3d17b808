//! When rows of a join leave memory, and what a batch needs of those that did.
//!
//! Owns the bounds of memory and the way of a batch past the runs. Does not own the runs (`spilled`), nor the step's two phases (`super`).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::{Batch, OperatorError, Probed, StateError};

use super::incoming::{Incoming, Taken};
use super::lonely::Lonely;
use super::plan::{JoinSide, Plan};
use super::results::{self, Pairs};
use super::spilled::file::Rows;
use super::spilled::look::{Candidates, Found};
use super::spilled::marks::Marks;
use super::store::{Full, PAIRS_MAX};
use super::{Join, codec, failed, not_gathered};

/// What a batch brings while rows are spilled.
pub(super) struct Asking {
    pub rows: Box<Incoming>,
    pub candidates: Candidates,
}

/// Pairs with rows of runs, and the blocks that these are in.
pub(super) struct Looked {
    found: Vec<Found>,
    blocks: Vec<Rows>,
    /// The times of the rows of the batch.
    times_ms: Vec<i64>,
}

impl Join {
    /// Says what must be read to compare a batch with the rows of runs.
    pub(super) fn ask(&self, batch: Batch, rows: Box<Incoming>) -> Result<Probed, OperatorError> {
        let floor_ms = self.plan.floor_ms(self.watermark_ms);
        if rows.hashes.len() != batch.len() {
            return Err(failed(super::NOT_SEEN.to_owned()));
        }
        let (candidates, reads) = self.spilled.probe(&self.plan, &rows, &batch.times_ms, floor_ms);
        if reads.iter().map(|read| u64::from(read.len)).sum::<u64>() > self.memory_max {
            return Err(failed(self.too_many(Full::Blocks)));
        }
        Ok(Probed { batch, reads, scratch: Some(Box::new(Asking { rows, candidates })) })
    }

    /// The pairs of a batch with rows of runs, if there are any.
    pub(super) fn look(
        &self,
        candidates: &Candidates,
        answers: &[Vec<u8>],
        taken: &Taken,
    ) -> Result<Option<Looked>, OperatorError> {
        if answers.len() != candidates.reads {
            let (came, wanted) = (answers.len(), candidates.reads);
            return Err(failed(format!("`{came}` answers came, `{wanted}` were asked for")));
        }
        let looked = self.spilled.look(&self.plan, candidates, answers, taken);
        let (found, blocks) = looked.map_err(|error| failed(error.to_string()))?;
        Ok((!found.is_empty()).then(|| Looked { found, blocks, times_ms: taken.times_ms.clone() }))
    }

    /// The rows of all pairs of a batch, whose first row has the number `first`.
    pub(super) fn join_runs(
        &mut self,
        (side, own): (JoinSide, &[ArrayRef]),
        first: u32,
        pairs: &Pairs,
        looked: &Looked,
    ) -> Result<Batch, OperatorError> {
        let Looked { found, blocks, times_ms } = looked;
        let bytes = results::bytes(&self.store, (side, own), pairs);
        if (pairs.own.len() + found.len()) as u64 > PAIRS_MAX {
            return Err(failed(self.too_many(Full::Pairs)));
        }
        if bytes + results::bytes_of_found(own, found, blocks) > self.memory_max {
            return Err(failed(self.too_many(Full::Bytes)));
        }
        self.spilled.matched(found).map_err(|error| failed(error.to_string()))?;
        self.pairs += found.len() as u64;
        for of_row in found.chunk_by(|a, b| a.own == b.own) {
            let (id, arena) = (first + of_row[0].own, &mut self.store.sides[side as usize].arena);
            if !arena.is_matched(id) {
                arena.set_matched(id);
                self.paired[side as usize].push(id);
            }
        }
        let plan = self.plan.clone();
        results::joined_with_runs(
            &plan,
            &self.store,
            (side, own),
            (pairs, found),
            (blocks, times_ms),
            self.position,
        )
        .map_err(not_gathered)
    }

    /// The watermark that releases all rows, if that is greater.
    pub(super) fn closing(&self, watermark_ms: i64) -> i64 {
        let last = |side: JoinSide| {
            let last_ms = self.store.side(side).last_ms().max(self.spilled.last_ms(side))?;
            Some(last_ms.saturating_add(self.plan.side(side).later_ms))
        };
        let last_ms = JoinSide::BOTH.into_iter().filter_map(last).max();
        let closing = last_ms.map(|last_ms| last_ms.saturating_add(self.plan.lateness_ms + 1));
        closing.map_or(watermark_ms, |closing| closing.max(watermark_ms))
    }

    /// The floor that a seal with this watermark releases by: all rows without a match that it lets out are at hand.
    pub(super) fn next_floor(&mut self, watermark_ms: i64) -> Result<i64, OperatorError> {
        let to_ms = self.plan.floor_ms(watermark_ms);
        if self.spilled.is_empty() {
            return Ok(to_ms);
        }
        self.spilled.reached(&self.plan, to_ms).map_err(|error| failed(error.to_string()))
    }

    /// What the delta says of runs, but for those that are still to be frozen.
    pub(super) fn marks(&mut self, floor_ms: i64) -> Marks {
        let paired = std::mem::take(&mut self.paired);
        let rows = JoinSide::BOTH.map(|side| {
            let first = self.sealed[side as usize];
            paired[side as usize].iter().map(|id| id - first).collect()
        });
        let pairs = std::mem::take(&mut self.pairs);
        Marks { floor_ms, pairs, matched: self.spilled.fresh(), rows, frozen: Vec::new() }
    }

    /// Takes over what a delta says of pairs with rows of runs, once its rows have been absorbed.
    pub(super) fn mark(&mut self, marks: &Marks, watermark_ms: i64) -> Result<(), StateError> {
        let to_ms = self.plan.floor_ms(watermark_ms);
        let is_whole = marks.floor_ms == to_ms;
        if marks.floor_ms > to_ms
            || marks.floor_ms < self.spilled.floor_ms
            || self.spilled.is_empty() && !is_whole
        {
            return Err(codec::damaged("releases rows that its watermark does not"));
        }
        self.spilled.mark(&marks.matched)?;
        for side in JoinSide::BOTH {
            let first = self.sealed[side as usize];
            let arena = &mut self.store.sides[side as usize].arena;
            for row in &marks.rows[side as usize] {
                let id = first.checked_add(*row).filter(|id| *id < arena.next());
                arena.set_matched(id.ok_or_else(|| codec::damaged("names a row that it does not have"))?);
            }
        }
        Ok(())
    }

    /// Bytes of rows in memory above which the first are frozen: the index of runs takes of the same memory.
    fn open_max(&self) -> u64 {
        let open = self.spilled.sizes.open_bytes;
        open.saturating_sub(self.spilled.index_bytes()).max(open / 4)
    }

    /// Whether rows in memory take too much.
    pub(super) fn is_over(&self) -> bool {
        self.store.held() > 0 && self.store.memory_bytes() > self.open_max()
    }

    /// Freezes the first rows if those in memory take too much and the runs before are in files; says how many of which side, run by run.
    ///
    /// # Errors
    /// When the index of runs takes too much.
    pub(super) fn make_room(&mut self) -> Result<Vec<(JoinSide, u32)>, OperatorError> {
        let (index, index_max) = (self.spilled.index_bytes(), self.spilled.sizes.index_bytes);
        if index > index_max {
            return Err(failed(format!(
                "the join holds `{}` rows, of them `{}` in files, whose index takes `{index}` bytes, and may take `{index_max}` by `memory`, which is `{}`; nothing of \
                 this batch is sealed, and nothing is lost. Raise `memory` of the step (and of the pipeline), then start again. A row is held for as long as another \
                 can match it: a shorter `within` or `lateness` takes less memory: change them, and start once with `--new-state`, which drops the rows \
                 that the join holds",
                self.store.held() + self.spilled.held(),
                self.spilled.held_in_files(),
                self.memory_max
            )));
        }
        let mut frozen = Vec::new();
        // While a run is on its way, the engine waits for it before there is twice as much.
        if !self.is_over() || self.spilled.has_unwritten() {
            return Ok(frozen);
        }
        let over = self.store.memory_bytes() - self.open_max() / 3 * 2;
        let bytes = JoinSide::BOTH.map(|side| self.store.side(side).memory_bytes() as u64);
        let all = bytes.iter().sum::<u64>().max(1);
        for side in JoinSide::BOTH {
            // Each side gives as much as it has.
            let share = u128::from(over) * u128::from(bytes[side as usize]) / u128::from(all);
            let mut left = u64::try_from(share).unwrap_or(u64::MAX);
            while left > 0 && self.store.side(side).held() > 0 {
                let run_bytes = left.min(self.spilled.sizes.run_bytes);
                let rows = self.store.side(side).first_of_bytes(run_bytes);
                self.freeze(side, rows).map_err(not_gathered)?;
                frozen.push((side, rows));
                left -= run_bytes;
            }
        }
        Ok(frozen)
    }

    fn freeze(&mut self, side: JoinSide, rows: u32) -> Result<(), ArrowError> {
        let ids = self.store.take_first(side, rows);
        self.spilled.freeze(&self.plan, (side, self.store.side(side)), &ids)?;
        let frozen = match side {
            JoinSide::Left => [ids, Vec::new()],
            JoinSide::Right => [Vec::new(), ids],
        };
        self.store.drop_rows(&frozen, self.sealed)?;
        self.sealed = JoinSide::BOTH.map(|side| self.store.side(side).arena.next());
        Ok(())
    }

    /// Freezes what a delta says.
    ///
    /// # Errors
    /// When there are not so many rows.
    pub(super) fn freeze_all(&mut self, frozen: &[(JoinSide, u32)]) -> Result<(), StateError> {
        for (side, rows) in frozen {
            if *rows == 0 || u64::from(*rows) > self.store.side(*side).held() {
                return Err(codec::damaged("freezes rows that are not there"));
            }
            self.freeze(*side, *rows).map_err(codec::damaged)?;
        }
        Ok(())
    }
}

/// All rows without a match that a seal lets out are at hand.
///
/// # Errors
/// When some are not, which is a fault of the program.
pub(super) fn check_all(plan: &Plan, lonely: &Lonely<'_>, unmatched: [u64; 2]) -> Result<(), ArrowError> {
    let is_all =
        |side: &JoinSide| !plan.side(*side).lets_out() || lonely.len(*side) == unmatched[*side as usize];
    if JoinSide::BOTH.iter().all(is_all) {
        return Ok(());
    }
    Err(ArrowError::ComputeError("rows without a match were not read before they are due".to_owned()))
}
