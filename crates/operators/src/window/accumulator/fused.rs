//! Counts, sums, least and greatest values of floats that are never null, side by side for each group.
//!
//! Owns the aggregates that most windows consist of: `sum`, `avg`, `min` and `max` of Float columns without a condition. What they keep of a
//! column is kept once, whatever is asked for: an average is the sum and the count. All that a group has lies together, so that a record, or
//! another state of the group, touches one or two lines of the processor's cache instead of one for each aggregate. Does not own aggregates of
//! columns that may be null, nor which aggregates are of this kind ([`is_fused`]).
//!
//! | lane    | begins with  | takes a later one in by |
//! |---------|--------------|-------------------------|
//! | `Count` | 0            | adding it               |
//! | `Sum`   | 0            | adding it               |
//! | `Min`   | [`UNSEEN`]   | the order of [`Extreme`](super::picked::Extreme): of two that are equal the first stays, and NaN is above all numbers |
//! | `Max`   | [`UNSEEN`]   | the same                |

use arrow_array::{Array, ArrayRef, RecordBatch};
use dataflow::{ColumnType, StateError};

use super::Rows;
use crate::window::aggregate::{Bound, Function, Input};
use crate::window::encoding::{Reader, damaged, put_each};
use crate::window::values::{Store, Values, grow_to, read, spare};

/// Stands for no value: a NaN that no value is kept as.
const UNSEEN: u64 = 0x7ff8_f02e_bae5_0001;

/// Counts that are read from a store are whole numbers up to this, and exact as floats.
const COUNT_MAX: f64 = (1_u64 << 53) as f64;

/// What one number of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Count,
    Sum,
    Min,
    Max,
}

/// The lanes of one column, which lie side by side in this order.
struct Column {
    input: Input,
    /// The place of the first.
    first: usize,
    sum: bool,
    min: bool,
    max: bool,
}

impl Column {
    /// The place of one of its lanes.
    fn place(&self, lane: Lane) -> usize {
        self.first
            + match lane {
                Lane::Count | Lane::Sum => 0,
                Lane::Min => usize::from(self.sum),
                Lane::Max => usize::from(self.sum) + usize::from(self.min),
            }
    }
}

/// Of every group.
pub(super) struct Fused {
    columns: Vec<Column>,
    /// What each number of a group is.
    lanes: Vec<Lane>,
    /// A count first, if any average needs it: no value is null, so one serves all columns.
    has_count: bool,
    /// As many for each group as there are lanes.
    values: Vec<f64>,
}

/// Whether an aggregate is kept here.
pub(super) fn is_fused(bound: &Bound) -> bool {
    let Some(input) = &bound.input else { return false };
    let own = &bound.aggregate;
    let is_plain = own.condition.is_none() && !own.distinct && !own.is_state;
    let is_float = matches!(input.column_type, ColumnType::Float32 | ColumnType::Float64);
    // Every value counts, or the result could be null.
    let has_value = is_float && !bound.output.is_nullable();
    let function = bound.aggregate.function;
    is_plain && has_value && matches!(function, Function::Sum | Function::Avg | Function::Min | Function::Max)
}

impl Fused {
    /// What keeps these aggregates, with no group yet; `None` for none.
    pub fn new<'a>(fused: impl Iterator<Item = &'a Bound>) -> Option<Self> {
        let (mut columns, mut has_count) = (Vec::<Column>::new(), false);
        for bound in fused {
            let input = bound.input.as_ref()?;
            let at = columns.iter().position(|column| column.input.name == input.name);
            let at = at.unwrap_or_else(|| {
                let input = input.clone();
                columns.push(Column { input, first: 0, sum: false, min: false, max: false });
                columns.len() - 1
            });
            let column = &mut columns[at];
            match bound.aggregate.function {
                Function::Min => column.min = true,
                Function::Max => column.max = true,
                Function::Avg => (column.sum, has_count) = (true, true),
                _ => column.sum = true,
            }
        }
        let mut lanes = if has_count { vec![Lane::Count] } else { Vec::new() };
        for column in &mut columns {
            column.first = lanes.len();
            let own = [(column.sum, Lane::Sum), (column.min, Lane::Min), (column.max, Lane::Max)];
            lanes.extend(own.into_iter().filter(|(is_kept, _)| *is_kept).map(|(_, lane)| lane));
        }
        (!columns.is_empty()).then_some(Self { columns, lanes, has_count, values: Vec::new() })
    }

    /// As many groups as there are; new ones have no value.
    pub fn grow(&mut self, groups: usize) {
        let (lanes, before) = (self.lanes.len(), self.values.len());
        grow_to(&mut self.values, groups * lanes, 0.0);
        if !self.columns.iter().any(|column| column.min || column.max) {
            return;
        }
        for group in self.values[before..].chunks_exact_mut(lanes) {
            for (value, lane) in group.iter_mut().zip(&self.lanes) {
                if matches!(lane, Lane::Min | Lane::Max) {
                    *value = f64::from_bits(UNSEEN);
                }
            }
        }
    }

    /// Makes room for so many groups.
    pub fn reserve(&mut self, groups: usize) {
        self.values.reserve_exact((groups * self.lanes.len()).saturating_sub(self.values.len()));
    }

    /// Takes no more room than values that grow slowly.
    pub fn give_room_back(&mut self) {
        self.values.shrink_to(self.values.len() + spare(self.values.len()));
    }

    /// Takes rows in.
    ///
    /// # Errors
    /// When a column is missing, of another form, or has a null.
    pub fn update(&mut self, batch: &RecordBatch, of: Rows<'_>) -> Result<(), String> {
        let lanes = self.lanes.len();
        if self.has_count {
            of.groups.iter().for_each(|group| self.values[*group as usize * lanes] += 1.0);
        }
        for column in &self.columns {
            let Input { name, column_type } = &column.input;
            let array = batch.column_by_name(name).filter(|array| array.null_count() == 0);
            let array = array.ok_or_else(|| format!("the batch has no column `{name}` without nulls"))?;
            let Some(Values::Float(read)) = read(array.as_ref(), column_type) else {
                return Err(format!("the column `{name}` came as `{}`", array.data_type()));
            };
            let (to, at) = (&mut self.values[..], (column.first, lanes));
            match (column.sum, column.min, column.max) {
                (true, false, false) => take::<true, false, false>(to, at, &read, of),
                (false, true, false) => take::<false, true, false>(to, at, &read, of),
                (false, false, true) => take::<false, false, true>(to, at, &read, of),
                (true, true, false) => take::<true, true, false>(to, at, &read, of),
                (true, false, true) => take::<true, false, true>(to, at, &read, of),
                (false, true, true) => take::<false, true, true>(to, at, &read, of),
                (true, true, true) => take::<true, true, true>(to, at, &read, of),
                (false, false, false) => {}
            }
        }
        Ok(())
    }

    /// Takes groups of a later state of the same aggregates in: each pair is a group there and the one here.
    pub fn merge(&mut self, later: &Self, moves: &[(u32, u32)]) {
        let lanes = self.lanes.len();
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            let own = &mut self.values[to * lanes..(to + 1) * lanes];
            let later = &later.values[from * lanes..(from + 1) * lanes];
            for ((own, later), lane) in own.iter_mut().zip(later).zip(&self.lanes) {
                match lane {
                    Lane::Count | Lane::Sum => *own += later,
                    Lane::Min => less(own, *later),
                    Lane::Max => greater(own, *later),
                }
            }
        }
    }

    /// The results of one of the aggregates as a column.
    pub fn column(&self, bound: &Bound) -> ArrayRef {
        let name = bound.input.as_ref().map(|input| input.name.as_str());
        let column = self.columns.iter().find(|column| Some(column.input.name.as_str()) == name);
        let column = column.expect("made for this aggregate among others");
        let lane = |lane: Lane| {
            self.values.chunks_exact(self.lanes.len()).map(move |group| group[column.place(lane)])
        };
        let results = match bound.aggregate.function {
            Function::Min => lane(Lane::Min).collect(),
            Function::Max => lane(Lane::Max).collect(),
            Function::Avg => {
                let counts = self.values.chunks_exact(self.lanes.len()).map(|group| group[0]);
                lane(Lane::Sum).zip(counts).map(|(sum, count)| sum / count).collect()
            }
            _ => lane(Lane::Sum).collect(),
        };
        Store::Float(results).column(&bound.output, |_| false)
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * 8
    }

    /// Writes it for a seal: the lanes of each group, the count as a float.
    pub fn write(&self, to: &mut Vec<u8>) {
        put_each(to, &self.values, f64::to_le_bytes);
    }

    /// Reads what was written: of as many groups as there are counts of rows.
    ///
    /// # Errors
    /// When the bytes cannot be those of groups with so many rows.
    pub fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.values = from.numbers(counts.len().saturating_mul(self.lanes.len()), f64::from_le_bytes)?;
        let groups = self.values.chunks_exact(self.lanes.len()).zip(counts);
        let is_counted = |(group, count): (&[f64], &u64)| group[0] == *count as f64 && group[0] <= COUNT_MAX;
        match !self.has_count || groups.into_iter().all(is_counted) {
            true => Ok(()),
            false => Err(damaged("has another number of values than of rows")),
        }
    }
}

/// Takes the values of one column into the lanes that it has, from `first` on in each group of `lanes`.
fn take<const SUM: bool, const MIN: bool, const MAX: bool>(
    to: &mut [f64],
    (first, lanes): (usize, usize),
    values: &[f64],
    of: Rows<'_>,
) {
    let own = usize::from(SUM) + usize::from(MIN) + usize::from(MAX);
    for (row, group) in of.pairs() {
        let (value, begin) = (values[row], group * lanes + first);
        let group = &mut to[begin..begin + own];
        if SUM {
            group[0] += value;
        }
        if MIN {
            less(&mut group[usize::from(SUM)], value);
        }
        if MAX {
            greater(&mut group[own - 1], value);
        }
    }
}

/// The lesser of two stays.
#[inline(always)]
fn less(own: &mut f64, value: f64) {
    if value >= *own {
        return;
    }
    if value < *own {
        *own = value;
    } else {
        unordered(own, value, |own, value| own.is_nan() && !value.is_nan());
    }
}

/// The greater of two stays.
#[inline(always)]
fn greater(own: &mut f64, value: f64) {
    if value <= *own {
        return;
    }
    if value > *own {
        *own = value;
    } else {
        unordered(own, value, |own, value| value.is_nan() && !own.is_nan());
    }
}

/// The same where one of them is NaN, or stands for no value.
#[cold]
fn unordered(own: &mut f64, value: f64, is_better: impl Fn(f64, f64) -> bool) {
    if value.to_bits() == UNSEEN {
        return;
    }
    if own.to_bits() == UNSEEN || is_better(*own, value) {
        *own = value;
    }
}

#[cfg(test)]
mod tests;
