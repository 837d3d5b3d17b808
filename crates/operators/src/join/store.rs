//! The held rows of both sides, and the matching.
//!
//! Owns the one path by which a row comes in, in a run and on a start alike, and the one by which rows go. Does not own what pairs become (`results`).

use arrow_schema::ArrowError;

use super::arena::{NONE, Row, UNLINKED};
use super::incoming::Taken;
use super::index::Index;
use super::plan::{JoinSide, Plan};
use super::side::Side;
use super::state::Fresh;

/// Rows that one batch may make at the most. A block of a few thousand rows makes a few thousand in a join by an id; this many come from a key that many rows of both
/// sides have (an empty text, a zero). What the rows take is bounded by the step's memory besides ([`Full::Bytes`]): they are put together before any of them is sent.
pub(super) const PAIRS_MAX: u64 = 4 << 20;

/// Rows whose keys are looked up together, before anything is changed: the searches do not depend on each other, so the processor waits for memory once and not
/// for each row.
const AHEAD: usize = 64;

/// An index of at most this size is in the processor's cache anyway.
const CACHED_BYTES: usize = 1 << 20;

/// Why rows cannot be taken.
pub(super) enum Full {
    /// They make more than [`PAIRS_MAX`] rows.
    Pairs,
    /// The rows that they make take more bytes than the step's memory.
    Bytes,
    /// The blocks of files that it must be compared with take more bytes than the step's memory.
    Blocks,
    /// More rows came than can have numbers before a seal.
    Numbers,
}

/// The rows.
#[derive(Default)]
pub(super) struct Store {
    pub sides: [Side; 2],
    index: Index,
}

impl Store {
    pub fn side(&self, side: JoinSide) -> &Side {
        &self.sides[side as usize]
    }

    /// The rows of a batch that came since the last seal, by the first of them.
    pub fn fresh(&self, side: JoinSide, first: u32) -> Fresh<'_> {
        let of_side = self.side(side);
        let page = of_side.page(first).expect("pages stay as they are until they are sealed");
        let (ids, columns, bytes) = (page.first..page.end(), &page.columns[..], page.memory_bytes());
        Fresh { side, arena: &of_side.arena, ids, columns, bytes }
    }

    /// Rows held.
    pub fn held(&self) -> u64 {
        self.sides.iter().map(Side::held).sum()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.sides.iter().map(Side::memory_bytes).sum::<usize>() + self.index.memory_bytes()) as u64
    }

    /// Takes rows in, and names the pairs that they make: the row of the batch, the held row of the other side, and the pair's time. Returns how many.
    ///
    /// # Errors
    /// When there are too many. The state is of no use then.
    pub fn absorb(
        &mut self,
        plan: &Plan,
        taken: Taken,
        mut on_pair: impl FnMut(u32, u32, i64),
    ) -> Result<u64, Full> {
        let Taken { rows, times_ms } = taken;
        let (side, other) = (rows.side, rows.side.other());
        let of_side = plan.side(side);
        let first = self.side(side).arena.next();
        if u64::from(first) + times_ms.len() as u64 >= u64::from(UNLINKED) {
            return Err(Full::Numbers);
        }
        let mut pairs = 0;
        let is_large = self.index.memory_bytes() > CACHED_BYTES;
        for (row, (time_ms, hash)) in times_ms.iter().copied().zip(rows.hashes.iter().copied()).enumerate() {
            if is_large && row % AHEAD == 0 {
                let arenas = [&self.sides[0].arena, &self.sides[1].arena];
                self.index.warm(arenas, rows.hashes[row..].iter().take(AHEAD).copied());
            }
            if rows.keyed.as_ref().is_some_and(|keyed| keyed.is_null(row)) {
                self.sides[side as usize].push_unlinked(hash, time_ms);
                continue;
            }
            let id = first + row as u32;
            let arenas = [&self.sides[0].arena, &self.sides[1].arena];
            let (mut at, older) = self.index.link(arenas, side, hash, id);
            let (from, to) =
                (time_ms.saturating_sub(of_side.earlier_ms), time_ms.saturating_add(of_side.later_ms));
            let others = &mut self.sides[other as usize].arena;
            let before = pairs;
            while at != NONE {
                let found = others.get(at);
                let (next, found_ms) = (found.older, found.time_ms);
                if found_ms >= from && found_ms <= to {
                    others.set_matched(at);
                    on_pair(row as u32, at, time_ms.max(found_ms));
                    pairs += 1;
                    if pairs > PAIRS_MAX {
                        return Err(Full::Pairs);
                    }
                }
                at = next;
            }
            let own = &mut self.sides[side as usize].arena;
            if older != NONE {
                own.get_mut(older).newer = id;
            }
            own.push(Row { hash, time_ms, older, newer: NONE }, pairs > before);
        }
        self.sides[side as usize].add(first, &times_ms, rows.columns);
        Ok(pairs)
    }

    /// Takes rows of a snapshot in, which are in no pair that was not made before. [`link`](Self::link) must be called after the last of them.
    ///
    /// # Errors
    /// When there are too many.
    pub fn load(&mut self, taken: Taken, is_matched: impl Fn(usize) -> bool) -> Result<(), Full> {
        let Taken { rows, times_ms } = taken;
        let side = &mut self.sides[rows.side as usize];
        let first = side.arena.next();
        if u64::from(first) + times_ms.len() as u64 >= u64::from(UNLINKED) {
            return Err(Full::Numbers);
        }
        for (row, (time_ms, hash)) in times_ms.iter().copied().zip(rows.hashes).enumerate() {
            let is_keyed = rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row));
            let newer = if is_keyed { NONE } else { UNLINKED };
            side.arena.push(Row { hash, time_ms, older: NONE, newer }, is_matched(row));
        }
        side.add(first, &times_ms, rows.columns);
        Ok(())
    }

    /// Makes the chains of a side whose rows are new, in the order of their arrival; the index must have forgotten the side.
    pub fn link(&mut self, side: JoinSide) {
        for id in 0..self.side(side).arena.next() {
            let hash = match self.side(side).arena.get(id) {
                Row { newer: UNLINKED, .. } => continue,
                Row { hash, .. } => *hash,
            };
            let arenas = [&self.sides[0].arena, &self.sides[1].arena];
            let (_, older) = self.index.link(arenas, side, hash, id);
            let own = &mut self.sides[side as usize].arena;
            if older != NONE {
                own.get_mut(older).newer = id;
            }
            let row = own.get_mut(id);
            (row.older, row.newer) = (older, NONE);
        }
    }

    /// Marks the rows of both sides as released that are due, and names them. They must be [dropped](Self::drop_rows) then.
    pub fn release(&mut self, plan: &Plan, floor_ms: i64) -> [Vec<u32>; 2] {
        JoinSide::BOTH.map(|side| self.sides[side as usize].release(plan.side(side), floor_ms))
    }

    /// Takes the first rows of a side out, in the order of arrival, and names them. They must be [dropped](Self::drop_rows) then.
    pub fn take_first(&mut self, side: JoinSide, count: u32) -> Vec<u32> {
        self.sides[side as usize].take_first(count as usize)
    }

    /// Takes released rows out of their chains, and frees what only they needed. `fresh` are the first rows since the seal before.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn drop_rows(&mut self, released: &[Vec<u32>; 2], fresh: [u32; 2]) -> Result<(), ArrowError> {
        for side in JoinSide::BOTH {
            for part in released[side as usize].chunks(AHEAD) {
                let arenas = [&self.sides[0].arena, &self.sides[1].arena];
                if self.index.memory_bytes() > CACHED_BYTES {
                    self.index.warm(arenas, part.iter().map(|id| arenas[side as usize].get(*id).hash));
                }
                for id in part {
                    self.index.unlink(&mut self.sides, side, *id);
                    self.sides[side as usize].arena.release(*id);
                }
            }
        }
        for side in JoinSide::BOTH {
            if self.sides[side as usize].tidy(fresh[side as usize], self.index.memory_bytes())? {
                let moved = self.sides[side as usize].moved()?;
                self.index.forget(side);
                self.sides[side as usize] = moved;
                self.link(side);
            }
        }
        self.index.shrink();
        Ok(())
    }
}
