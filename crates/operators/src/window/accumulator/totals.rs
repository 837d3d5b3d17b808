//! Counts, sums and averages.
//!
//! Owns the exact sums of integers and Decimals, and the mark of a sum that was lost because it does not fit. Does not own the rejection of such a
//! result ([`crate::window`] does).

use arrow_array::ArrayRef;
use dataflow::{ColumnType, StateError};

use super::states::{put_flag, put_sum, put_varint};
use super::{Accumulator, Bits, Input, Rows, each_float, same};
use crate::window::aggregate::Bound;
use crate::window::encoding::{Reader, damaged, put_each};
use crate::window::values::{Store, Values, grow_to};

/// A sum that has left the range of 128 bits, or is about to: it stays there.
const LOST: i128 = i128::MAX;

/// Values that are not null, or records that a condition is true of.
#[derive(Default)]
pub(super) struct Count {
    counts: Vec<u64>,
}

impl Accumulator for Count {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.counts, groups, 0);
    }

    fn update(&mut self, _: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        of.groups.iter().for_each(|group| self.counts[*group as usize] += 1);
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        moves.iter().for_each(|(from, to)| self.counts[*to as usize] += later.counts[*from as usize]);
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (Store::UInt(self.counts.clone()).column(&bound.output, |_| false), Vec::new())
    }

    fn state(&self, _: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        put_varint(self.counts[group], to);
        true
    }

    fn memory_bytes(&self) -> usize {
        self.counts.capacity() * 8
    }

    fn write(&self, to: &mut Vec<u8>) {
        put_each(to, &self.counts, u64::to_le_bytes);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.counts = read_counts(from, counts)?;
        Ok(())
    }
}

/// Counts of values, none of them more than the group's rows.
pub(super) fn read_counts(from: &mut Reader<'_>, rows: &[u64]) -> Result<Vec<u64>, StateError> {
    let counts = from.numbers(rows.len(), u64::from_le_bytes)?;
    if counts.iter().zip(rows).any(|(values, rows)| values > rows) {
        return Err(damaged("has more values than rows"));
    }
    Ok(counts)
}

/// Exact sums of groups: of 64 bits each as long as all fit into them, which takes half of the memory.
enum Sums {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Default for Sums {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Sums {
    fn grow(&mut self, groups: usize) {
        match self {
            Self::Narrow(sums) => grow_to(sums, groups, 0),
            Self::Wide(sums) => grow_to(sums, groups, 0),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(sums) => sums.len(),
            Self::Wide(sums) => sums.len(),
        }
    }

    #[inline]
    fn get(&self, group: usize) -> i128 {
        match self {
            Self::Narrow(sums) => i128::from(sums[group]),
            Self::Wide(sums) => sums[group],
        }
    }

    #[inline]
    fn add_int(&mut self, group: usize, value: i64) {
        if let Self::Narrow(sums) = self
            && let Some(sum) = sums[group].checked_add(value)
        {
            sums[group] = sum;
            return;
        }
        self.add_wide(group, i128::from(value));
    }

    #[inline]
    fn add(&mut self, group: usize, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.add_int(group, value),
            Err(_) => self.add_wide(group, value),
        }
    }

    fn add_wide(&mut self, group: usize, value: i128) {
        if let Self::Narrow(sums) = self {
            *self = Self::Wide(sums.iter().map(|sum| i128::from(*sum)).collect());
        }
        if let Self::Wide(sums) = self {
            add(&mut sums[group], value);
        }
    }

    fn all(&self) -> impl Iterator<Item = i128> {
        (0..self.len()).map(|group| self.get(group))
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Narrow(sums) => sums.capacity() * 8,
            Self::Wide(sums) => sums.capacity() * 16,
        }
    }

    /// Writes 16 bytes for each, whatever they take in memory.
    fn write(&self, to: &mut Vec<u8>) {
        to.reserve(self.len() * 16);
        self.all().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes()));
    }

    fn read(from: &mut Reader<'_>, groups: usize) -> Result<Self, StateError> {
        let sums = from.numbers(groups, i128::from_le_bytes)?;
        let narrow: Option<Vec<i64>> = sums.iter().map(|sum| i64::try_from(*sum).ok()).collect();
        Ok(narrow.map_or(Self::Wide(sums), Self::Narrow))
    }
}

/// Sums of integers and decimals.
#[derive(Default)]
pub(super) struct Sum {
    seen: Bits,
    sums: Sums,
}

impl Accumulator for Sum {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        self.sums.grow(groups);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let (seen, sums) = (&mut self.seen, &mut self.sums);
        match input.values()? {
            Values::Int(values) => of.pairs().for_each(|(row, group)| {
                seen.set(group);
                sums.add_int(group, values[row]);
            }),
            values => each_wide(&values, of, |group, value| {
                seen.set(group);
                sums.add(group, value);
            }),
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if later.seen.get(from) {
                self.seen.set(to);
                self.sums.add(to, later.sums.get(from));
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        sum_column(&self.sums.all().collect::<Vec<_>>(), bound.output.bare(), |at| !self.seen.get(at))
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        !put_flag(bound, self.seen.get(group), to) || put_sum(bound, self.sums.get(group), to)
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.sums.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        self.sums.write(to);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        self.sums = Sums::read(from, counts.len())?;
        Ok(())
    }
}

/// Sums of floats.
#[derive(Default)]
pub(super) struct SumFloat {
    seen: Bits,
    sums: Vec<f64>,
}

impl Accumulator for SumFloat {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        grow_to(&mut self.sums, groups, 0.0);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let (seen, sums) = (&mut self.seen, &mut self.sums);
        each_float(&input.values()?, 1.0, of, |group, value| {
            seen.set(group);
            sums[group] += value;
        });
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if later.seen.get(from) {
                self.seen.set(to);
                self.sums[to] += later.sums[from];
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (Store::Float(self.sums.clone()).column(&bound.output, |at| !self.seen.get(at)), Vec::new())
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        if put_flag(bound, self.seen.get(group), to) {
            to.extend_from_slice(&self.sums[group].to_le_bytes());
        }
        true
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.sums.capacity() * 8
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        put_each(to, &self.sums, f64::to_le_bytes);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        self.sums = from.numbers(counts.len(), f64::from_le_bytes)?;
        Ok(())
    }
}

/// Averages of integers and decimals: the sum and the number of values.
pub(super) struct Avg {
    scale: f64,
    sums: Sums,
    counts: Vec<u64>,
}

impl Avg {
    /// Of decimals with this factor, or integers with `1.0`.
    pub fn new(scale: f64) -> Self {
        Self { scale, sums: Sums::default(), counts: Vec::new() }
    }
}

impl Accumulator for Avg {
    fn grow(&mut self, groups: usize) {
        self.sums.grow(groups);
        grow_to(&mut self.counts, groups, 0);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let (sums, counts) = (&mut self.sums, &mut self.counts);
        each_wide(&input.values()?, of, |group, value| {
            sums.add(group, value);
            counts[group] += 1;
        });
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            self.sums.add(to, later.sums.get(from));
            self.counts[to] += later.counts[from];
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let average = |(sum, count): (i128, &u64)| sum as f64 / self.scale / *count as f64;
        let averages = self.sums.all().zip(&self.counts).map(average).collect();
        let is_lost = |at: usize| self.sums.get(at) == LOST;
        let too_large = (0..self.sums.len()).filter(|at| is_lost(*at)).map(|at| at as u32).collect();
        let column = Store::Float(averages).column(&bound.output, |at| self.counts[at] == 0 || is_lost(at));
        (column, too_large)
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        if !put_flag(bound, self.counts[group] > 0, to) {
            return true;
        }
        let fits = put_sum(bound, self.sums.get(group), to);
        put_varint(self.counts[group], to);
        fits
    }

    fn memory_bytes(&self) -> usize {
        self.sums.memory_bytes() + self.counts.capacity() * 8
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.sums.write(to);
        put_each(to, &self.counts, u64::to_le_bytes);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.sums = Sums::read(from, counts.len())?;
        self.counts = read_counts(from, counts)?;
        Ok(())
    }
}

/// Averages of floats.
#[derive(Default)]
pub(super) struct AvgFloat {
    sums: Vec<f64>,
    counts: Vec<u64>,
}

impl Accumulator for AvgFloat {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.sums, groups, 0.0);
        grow_to(&mut self.counts, groups, 0);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let (sums, counts) = (&mut self.sums, &mut self.counts);
        each_float(&input.values()?, 1.0, of, |group, value| {
            sums[group] += value;
            counts[group] += 1;
        });
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if later.counts[from] > 0 {
                self.sums[to] += later.sums[from];
                self.counts[to] += later.counts[from];
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let averages = self.sums.iter().zip(&self.counts).map(|(sum, count)| sum / *count as f64);
        let column = Store::Float(averages.collect()).column(&bound.output, |at| self.counts[at] == 0);
        (column, Vec::new())
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        if put_flag(bound, self.counts[group] > 0, to) {
            to.extend_from_slice(&self.sums[group].to_le_bytes());
            put_varint(self.counts[group], to);
        }
        true
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * 8 + self.counts.capacity() * 8
    }

    fn write(&self, to: &mut Vec<u8>) {
        put_each(to, &self.sums, f64::to_le_bytes);
        put_each(to, &self.counts, u64::to_le_bytes);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.sums = from.numbers(counts.len(), f64::from_le_bytes)?;
        self.counts = read_counts(from, counts)?;
        Ok(())
    }
}

#[inline]
fn add(sum: &mut i128, value: i128) {
    let is_lost = *sum == LOST || value == LOST;
    *sum = if is_lost { LOST } else { sum.checked_add(value).unwrap_or(LOST) };
}

fn each_wide(values: &Values<'_>, of: Rows<'_>, mut each: impl FnMut(usize, i128)) {
    match values {
        Values::Int(values) => of.pairs().for_each(|(row, group)| each(group, i128::from(values[row]))),
        Values::UInt(values) => of.pairs().for_each(|(row, group)| each(group, i128::from(values[row]))),
        Values::Wide(values) => of.pairs().for_each(|(row, group)| each(group, values[row])),
        Values::Float(_) | Values::Bytes(_) => unreachable!("checked when the step was made"),
    }
}

fn sum_column(sums: &[i128], output: &ColumnType, is_null: impl Fn(usize) -> bool) -> (ArrayRef, Vec<u32>) {
    let limits = match output {
        ColumnType::Int64 => i128::from(i64::MIN)..=i128::from(i64::MAX),
        ColumnType::UInt64 => 0..=i128::from(u64::MAX),
        _ => -(10_i128.pow(38) - 1)..=10_i128.pow(38) - 1,
    };
    let too_large: Vec<u32> =
        (0..).zip(sums).filter(|(_, sum)| !limits.contains(sum)).map(|(at, _)| at).collect();
    let is_out = |at: usize| is_null(at) || !limits.contains(&sums[at]);
    let column = match output {
        ColumnType::Int64 => Store::Int(sums.iter().map(|sum| *sum as i64).collect()).column(output, is_out),
        ColumnType::UInt64 => {
            Store::UInt(sums.iter().map(|sum| *sum as u64).collect()).column(output, is_out)
        }
        _ => Store::Wide(sums.to_vec()).column(output, is_out),
    };
    (column, too_large)
}
