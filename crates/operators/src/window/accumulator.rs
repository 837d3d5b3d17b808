//! One aggregate of every group, in columns.
//!
//! Owns the computing: rows into groups, groups into groups, and the result. Does not own which group a row belongs to (`groups`).
//!
//! Groups are merged in a fixed order: what a seal brought into those before it. So the sums of floats are the same after a crash, bit for
//! bit, though adding them in another order would give others.

use arrow_array::{Array, ArrayRef};
use dataflow::ColumnType;

use super::aggregate::{Bound, Function};
use super::values::{self, Form, Store, Values, grow_to};

/// A sum that has left the range of 128 bits, or is about to: it stays there.
const LOST: i128 = i128::MAX;

/// A bit for each group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// As many as these, in order.
    pub(super) fn of(bits: impl ExactSizeIterator<Item = bool>) -> Self {
        let mut made = Self::default();
        made.grow(bits.len());
        bits.enumerate().filter(|(_, bit)| *bit).for_each(|(at, _)| {
            made.set(at);
        });
        made
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.len).map(|at| self.get(at))
    }

    fn grow(&mut self, len: usize) {
        self.len = len;
        grow_to(&mut self.words, len.div_ceil(64), 0);
    }

    #[inline]
    fn get(&self, at: usize) -> bool {
        self.words[at / 64] & (1 << (at % 64)) != 0
    }

    /// Sets it; whether it was set before.
    #[inline]
    fn set(&mut self, at: usize) -> bool {
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// The state of one aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    /// Whether the group has had a value.
    pub(super) seen: Bits,
    pub(super) kind: Kind,
}

/// What is kept for each group.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Values that are not null.
    Count(Vec<u64>),
    /// Of integers and decimals.
    Sum(Vec<i128>),
    /// Of floats.
    SumFloat(Vec<f64>),
    /// The sum and the number of values.
    Avg(Vec<i128>, Vec<u64>),
    /// The same of floats.
    AvgFloat(Vec<f64>, Vec<u64>),
    /// The least value.
    Min(Store),
    /// The greatest.
    Max(Store),
    /// The value of the least time, and the time.
    First(Store, Vec<i64>),
    /// The value of the greatest time, and the time.
    Last(Store, Vec<i64>),
}

/// Rows of a batch and the group of each.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Row numbers in the batch.
    pub rows: &'a [u32],
    /// Their groups.
    pub groups: &'a [u32],
    /// The times of all rows of the batch.
    pub times_ms: &'a [i64],
}

impl Rows<'_> {
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rows.iter().zip(self.groups).map(|(row, group)| (*row as usize, *group as usize))
    }
}

impl Accumulator {
    /// For no group yet; `None` for `count()`, which groups know by themselves.
    pub fn new(bound: &Bound) -> Option<Self> {
        let (column_type, _) = bound.input.as_ref()?;
        let form = Form::of(column_type);
        let store = || Store::new(form.unwrap_or(Form::Int));
        let kind = match (bound.aggregate.function, form) {
            (Function::Count, _) => Kind::Count(Vec::new()),
            (Function::Sum, Some(Form::Float)) => Kind::SumFloat(Vec::new()),
            (Function::Sum, _) => Kind::Sum(Vec::new()),
            (Function::Avg, Some(Form::Float)) => Kind::AvgFloat(Vec::new(), Vec::new()),
            (Function::Avg, _) => Kind::Avg(Vec::new(), Vec::new()),
            (Function::Min, _) => Kind::Min(store()),
            (Function::Max, _) => Kind::Max(store()),
            (Function::First, _) => Kind::First(store(), Vec::new()),
            (Function::Last, _) => Kind::Last(store(), Vec::new()),
        };
        Some(Self { seen: Bits::default(), kind })
    }

    /// As many groups as there are; new ones have no value.
    pub fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        match &mut self.kind {
            Kind::Count(counts) => grow_to(counts, groups, 0),
            Kind::Sum(sums) => grow_to(sums, groups, 0),
            Kind::SumFloat(sums) => grow_to(sums, groups, 0.0),
            Kind::Avg(sums, counts) => {
                grow_to(sums, groups, 0);
                grow_to(counts, groups, 0);
            }
            Kind::AvgFloat(sums, counts) => {
                grow_to(sums, groups, 0.0);
                grow_to(counts, groups, 0);
            }
            Kind::Min(store) | Kind::Max(store) => store.grow(groups),
            Kind::First(store, times) | Kind::Last(store, times) => {
                store.grow(groups);
                grow_to(times, groups, 0);
            }
        }
    }

    /// Takes the rows of a column in.
    ///
    /// # Errors
    /// When the column is of another form.
    pub fn update(
        &mut self,
        array: &dyn Array,
        column_type: &ColumnType,
        of: Rows<'_>,
    ) -> Result<(), String> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let pairs = of.pairs().filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        if let Kind::Count(counts) = &mut self.kind {
            pairs.for_each(|(_, group)| counts[group] += 1);
            return Ok(());
        }
        let values = values::read(array, column_type)
            .ok_or_else(|| format!("a column came as `{}`", array.data_type()))?;
        let seen = &mut self.seen;
        match &mut self.kind {
            Kind::Count(_) => {}
            Kind::Sum(sums) => each_wide(&values, pairs, |group, value| {
                seen.set(group);
                add(&mut sums[group], value);
            }),
            Kind::SumFloat(sums) => each_float(&values, pairs, |group, value| {
                seen.set(group);
                sums[group] += value;
            }),
            Kind::Avg(sums, counts) => each_wide(&values, pairs, |group, value| {
                seen.set(group);
                add(&mut sums[group], value);
                counts[group] += 1;
            }),
            Kind::AvgFloat(sums, counts) => each_float(&values, pairs, |group, value| {
                seen.set(group);
                sums[group] += value;
                counts[group] += 1;
            }),
            Kind::Min(store) => pairs.for_each(|(row, group)| {
                if !seen.set(group) || store.compare(group, &values, row).is_lt() {
                    store.set(group, &values, row);
                }
            }),
            Kind::Max(store) => pairs.for_each(|(row, group)| {
                if !seen.set(group) || store.compare(group, &values, row).is_gt() {
                    store.set(group, &values, row);
                }
            }),
            Kind::First(store, times) => pairs.for_each(|(row, group)| {
                if !seen.set(group) || of.times_ms[row] < times[group] {
                    store.set(group, &values, row);
                    times[group] = of.times_ms[row];
                }
            }),
            Kind::Last(store, times) => pairs.for_each(|(row, group)| {
                if !seen.set(group) || of.times_ms[row] >= times[group] {
                    store.set(group, &values, row);
                    times[group] = of.times_ms[row];
                }
            }),
        }
        Ok(())
    }

    /// Takes the groups of a later state in: its group `at` is `to[at]` here.
    pub fn merge(&mut self, later: &Self, to: &[u32]) {
        let pairs = to.iter().map(|group| *group as usize).enumerate().filter(|(at, _)| later.seen.get(*at));
        let seen = &mut self.seen;
        match (&mut self.kind, &later.kind) {
            (Kind::Count(counts), Kind::Count(later)) => {
                to.iter().zip(later).for_each(|(group, count)| counts[*group as usize] += count);
            }
            (Kind::Sum(sums), Kind::Sum(later)) => pairs.for_each(|(at, group)| {
                seen.set(group);
                add(&mut sums[group], later[at]);
            }),
            (Kind::SumFloat(sums), Kind::SumFloat(later)) => pairs.for_each(|(at, group)| {
                seen.set(group);
                sums[group] += later[at];
            }),
            (Kind::Avg(sums, counts), Kind::Avg(later, more)) => pairs.for_each(|(at, group)| {
                seen.set(group);
                add(&mut sums[group], later[at]);
                counts[group] += more[at];
            }),
            (Kind::AvgFloat(sums, counts), Kind::AvgFloat(later, more)) => pairs.for_each(|(at, group)| {
                seen.set(group);
                sums[group] += later[at];
                counts[group] += more[at];
            }),
            (Kind::Min(store), Kind::Min(later)) => pairs.for_each(|(at, group)| {
                if !seen.set(group) || store.compare_with(group, later, at).is_lt() {
                    store.set_from(group, later, at);
                }
            }),
            (Kind::Max(store), Kind::Max(later)) => pairs.for_each(|(at, group)| {
                if !seen.set(group) || store.compare_with(group, later, at).is_gt() {
                    store.set_from(group, later, at);
                }
            }),
            (Kind::First(store, times), Kind::First(later, more)) => pairs.for_each(|(at, group)| {
                if !seen.set(group) || more[at] < times[group] {
                    store.set_from(group, later, at);
                    times[group] = more[at];
                }
            }),
            (Kind::Last(store, times), Kind::Last(later, more)) => pairs.for_each(|(at, group)| {
                if !seen.set(group) || more[at] >= times[group] {
                    store.set_from(group, later, at);
                    times[group] = more[at];
                }
            }),
            _ => unreachable!("both are of one aggregate"),
        }
    }

    /// The results as a column, and the groups whose result does not fit its type: they are null there.
    pub fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let is_null = |at: usize| !self.seen.get(at);
        match &self.kind {
            Kind::Count(counts) => (Store::UInt(counts.clone()).column(&bound.output, |_| false), Vec::new()),
            Kind::Sum(sums) => sum_column(sums, bound.output.bare(), is_null),
            Kind::SumFloat(sums) => (Store::Float(sums.clone()).column(&bound.output, is_null), Vec::new()),
            Kind::Avg(sums, counts) => {
                let scale = match bound.input.as_ref().map(|(column_type, _)| column_type.bare()) {
                    Some(ColumnType::Decimal { scale, .. }) => 10_f64.powi(i32::from(*scale)),
                    _ => 1.0,
                };
                let averages =
                    sums.iter().zip(counts).map(|(sum, count)| *sum as f64 / scale / *count as f64);
                (Store::Float(averages.collect()).column(&bound.output, is_null), Vec::new())
            }
            Kind::AvgFloat(sums, counts) => {
                let averages = sums.iter().zip(counts).map(|(sum, count)| sum / *count as f64);
                (Store::Float(averages.collect()).column(&bound.output, is_null), Vec::new())
            }
            Kind::Min(store) | Kind::Max(store) | Kind::First(store, _) | Kind::Last(store, _) => {
                (store.column(&bound.output, is_null), Vec::new())
            }
        }
    }

    /// How many values there were, where that is kept.
    pub(super) fn counts(&self) -> &[u64] {
        match &self.kind {
            Kind::Count(counts) | Kind::Avg(_, counts) | Kind::AvgFloat(_, counts) => counts,
            Kind::Sum(_) | Kind::SumFloat(_) | Kind::Min(_) | Kind::Max(_) => &[],
            Kind::First(..) | Kind::Last(..) => &[],
        }
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let kind = match &self.kind {
            Kind::Count(counts) => counts.capacity() * 8,
            Kind::Sum(sums) => sums.capacity() * 16,
            Kind::SumFloat(sums) => sums.capacity() * 8,
            Kind::Avg(sums, counts) => sums.capacity() * 16 + counts.capacity() * 8,
            Kind::AvgFloat(sums, counts) => sums.capacity() * 8 + counts.capacity() * 8,
            Kind::Min(store) | Kind::Max(store) => store.memory_bytes(),
            Kind::First(store, times) | Kind::Last(store, times) => {
                store.memory_bytes() + times.capacity() * 8
            }
        };
        kind + self.seen.memory_bytes()
    }
}

fn add(sum: &mut i128, value: i128) {
    *sum = if *sum == LOST { LOST } else { sum.checked_add(value).unwrap_or(LOST) };
}

fn each_wide(
    values: &Values<'_>,
    pairs: impl Iterator<Item = (usize, usize)>,
    mut each: impl FnMut(usize, i128),
) {
    match values {
        Values::Int(values) => pairs.for_each(|(row, group)| each(group, i128::from(values[row]))),
        Values::UInt(values) => pairs.for_each(|(row, group)| each(group, i128::from(values[row]))),
        Values::Wide(values) => pairs.for_each(|(row, group)| each(group, values[row])),
        Values::Float(_) | Values::Bytes(_) => unreachable!("checked when the step was made"),
    }
}

fn each_float(
    values: &Values<'_>,
    pairs: impl Iterator<Item = (usize, usize)>,
    mut each: impl FnMut(usize, f64),
) {
    match values {
        Values::Float(values) => pairs.for_each(|(row, group)| each(group, values[row])),
        _ => unreachable!("checked when the step was made"),
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
