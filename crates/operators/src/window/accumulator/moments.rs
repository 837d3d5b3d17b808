//! Variance and standard deviation.
//!
//! Owns their computing by the mean and the squares of the distances from it: one value at a time as Welford has it, groups as Chan and others do.
//! So values that are large and close together keep their digits, which sums of squares lose. Does not own sums and averages
//! (`accumulator::totals`).

use arrow_array::ArrayRef;
use dataflow::StateError;

use super::totals::read_counts;
use super::{Accumulator, Input, Rows, each_float, same};
use crate::window::aggregate::{Bound, Function};
use crate::window::encoding::{Reader, put_each};
use crate::window::values::{Store, grow_to};

/// What one group has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moment {
    count: u64,
    mean: f64,
    /// The sum of the squares of the distances from the mean.
    squares: f64,
}

impl Moment {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn merge(&mut self, later: Self) {
        if later.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = later;
            return;
        }
        let count = self.count + later.count;
        let (own, more) = (self.count as f64, later.count as f64);
        let apart = later.mean - self.mean;
        self.mean += apart * (more / count as f64);
        self.squares += later.squares + apart * apart * (own * more / count as f64);
        self.count = count;
    }

    fn result(self, function: Function) -> Option<f64> {
        let is_of_sample = matches!(function, Function::VarSamp | Function::StddevSamp);
        let by = self.count.checked_sub(u64::from(is_of_sample)).filter(|by| *by > 0)?;
        let variance = self.squares / by as f64;
        let is_root = matches!(function, Function::StddevPop | Function::StddevSamp);
        Some(if is_root { variance.sqrt() } else { variance })
    }
}

/// Of every group.
pub(super) struct Moments {
    scale: f64,
    moments: Vec<Moment>,
}

impl Moments {
    /// Of decimals with this factor, or other numbers with `1.0`.
    pub fn new(scale: f64) -> Self {
        Self { scale, moments: Vec::new() }
    }
}

impl Accumulator for Moments {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.moments, groups, Moment::default());
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        each_float(&input.values()?, self.scale, of, |group, value| self.moments[group].add(value));
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves {
            self.moments[*to as usize].merge(later.moments[*from as usize]);
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let results: Vec<Option<f64>> =
            self.moments.iter().map(|moment| moment.result(bound.aggregate.function)).collect();
        let values = results.iter().map(|result| result.unwrap_or_default()).collect();
        (Store::Float(values).column(&bound.output, |at| results[at].is_none()), Vec::new())
    }

    fn memory_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moment>()
    }

    fn write(&self, to: &mut Vec<u8>) {
        put_each(to, &self.moments, |moment| moment.count.to_le_bytes());
        put_each(to, &self.moments, |moment| moment.mean.to_le_bytes());
        put_each(to, &self.moments, |moment| moment.squares.to_le_bytes());
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        let own = read_counts(from, counts)?;
        let means = from.numbers(counts.len(), f64::from_le_bytes)?;
        let squares = from.numbers(counts.len(), f64::from_le_bytes)?;
        let moment = |((count, mean), squares)| Moment { count, mean, squares };
        self.moments = own.into_iter().zip(means).zip(squares).map(moment).collect();
        Ok(())
    }
}
