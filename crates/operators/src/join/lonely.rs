//! Rows without a match that a seal lets out, wherever they are.
//!
//! Owns their order of arrival where some were in runs and others in memory: those of runs arrived first. Does not own the order in which they leave
//! (`results`).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::columns;
use super::plan::JoinSide;
use super::spilled::hand::{AtHand, Hand};
use super::store::Store;

/// The rows of both sides. The *number* of a row stands for its arrival among those of its side.
pub(super) struct Lonely<'a> {
    store: &'a Store,
    hand: &'a Hand,
    /// Those in memory: in the order of their arrival if there are others.
    ids: [Vec<u32>; 2],
    /// Those of runs, in the order of their arrival.
    at_hand: [Vec<AtHand>; 2],
}

impl<'a> Lonely<'a> {
    pub fn new(
        (store, hand): (&'a Store, &'a Hand),
        mut ids: [Vec<u32>; 2],
        at_hand: [Vec<AtHand>; 2],
    ) -> Self {
        for (ids, at_hand) in ids.iter_mut().zip(&at_hand) {
            if !at_hand.is_empty() {
                ids.sort_unstable();
            }
        }
        Self { store, hand, ids, at_hand }
    }

    /// How many rows of a side there are.
    pub fn len(&self, side: JoinSide) -> u64 {
        (self.ids[side as usize].len() + self.at_hand[side as usize].len()) as u64
    }

    /// The time and the number of each row of a side.
    pub fn rows(&self, side: JoinSide) -> Vec<(i64, u32)> {
        let (ids, at_hand) = (&self.ids[side as usize], &self.at_hand[side as usize]);
        let time_ms = |id: &u32| self.store.side(side).arena.get(*id).time_ms;
        if at_hand.is_empty() {
            return ids.iter().map(|id| (time_ms(id), *id)).collect();
        }
        at_hand.iter().map(|row| row.time_ms).chain(ids.iter().map(time_ms)).zip(0..).collect()
    }

    /// The stored columns of these rows of a side, by their numbers and in their order.
    ///
    /// # Errors
    /// When their texts take more than 2 GiB.
    pub fn gather(&self, side: JoinSide, numbers: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        let (ids, at_hand) = (&self.ids[side as usize], &self.at_hand[side as usize]);
        let of_side = self.store.side(side);
        if at_hand.is_empty() {
            return of_side.gather(numbers);
        }
        let (mut of_runs, mut in_memory, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for number in numbers.iter().map(|number| *number as usize) {
            if let Some(row) = at_hand.get(number) {
                places.push((0, of_runs.len()));
                of_runs.push(row);
            } else {
                places.push((1, in_memory.len()));
                in_memory.push(ids[number - at_hand.len()]);
            }
        }
        if in_memory.is_empty() {
            return self.hand.gather(&of_runs);
        }
        let in_memory = of_side.gather(&in_memory)?;
        if of_runs.is_empty() {
            return Ok(in_memory);
        }
        let both = self.hand.gather(&of_runs)?.into_iter().zip(in_memory);
        both.map(|(of_runs, in_memory)| columns::gather(vec![of_runs, in_memory], &places)).collect()
    }
}
