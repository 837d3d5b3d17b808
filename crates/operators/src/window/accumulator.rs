//! One aggregate of every group, in columns.
//!
//! Owns what an aggregate can do: take rows into groups and groups into groups, be written and read, and say its results. Does not own which group
//! a row belongs to (`groups`), nor which rows count: those come without nulls, and only if the aggregate's condition is true.
//!
//! Groups are merged in a fixed order: what a seal brought into those before it. So the sums of floats are the same after a crash, bit for
//! bit, though adding them in another order would give others.
//!
//! | module     | what it owns                                                        |
//! |------------|---------------------------------------------------------------------|
//! | `fused`    | sums, averages, least and greatest values of floats that are never null |
//! | `totals`   | counts, sums and averages                                           |
//! | `moments`  | variance and standard deviation                                     |
//! | `picked`   | one value of all: least, first, any, and those by another column    |
//! | `entries`  | several values of a group: arrays, and each value once              |
//! | `sketch`   | quantiles                                                           |
//! | `registers`| about how many values differ                                        |
//! | `uniques`  | the same as the state of ClickHouse's `uniq`                        |
//! | `digests`  | quantiles as the state of ClickHouse's `quantileTDigest`            |
//! | `states`   | the same as ClickHouse's states                                      |
//! | `bits`     | a bit for each group                                                |
//! | `counting` | the rows that count for an aggregate                                |

mod bits;
mod counting;
mod digests;
mod entries;
mod fused;
mod moments;
mod picked;
mod registers;
mod sketch;
pub(super) mod states;
mod totals;
mod uniques;

use std::any::Any;

use arrow_array::{Array, ArrayRef, RecordBatch};
use dataflow::{ColumnType, StateError};

use super::aggregate::{Bound, Function};
use super::encoding::Reader;
use super::values::{self, Form, Values};
use bits::Bits;
use fused::{Fused, is_fused};

/// What an accumulator takes without any group, about: there is one of each for every window, however few keys that has.
const ACCUMULATOR_BYTES: usize = 128;

/// What is kept of all aggregates for every group.
pub(super) struct Accumulators {
    /// Those of floats that are never null.
    fused: Option<Fused>,
    /// One for each of the others that needs one, in order.
    others: Vec<Box<dyn Accumulator>>,
}

impl Accumulators {
    /// What keeps these aggregates, with no group yet.
    pub fn new(aggregates: &[Bound]) -> Self {
        Self {
            fused: Fused::new(aggregates.iter().filter(|bound| is_fused(bound))),
            others: aggregates.iter().filter(|bound| !is_fused(bound)).filter_map(new).collect(),
        }
    }

    /// As many groups as there are; new ones have no value.
    pub fn grow(&mut self, groups: usize) {
        self.fused.iter_mut().for_each(|fused| fused.grow(groups));
        self.others.iter_mut().for_each(|other| other.grow(groups));
    }

    /// Makes room for so many groups, where what is kept of all of them is long. Others make their own.
    pub fn reserve(&mut self, groups: usize) {
        self.fused.iter_mut().for_each(|fused| fused.reserve(groups));
    }

    /// Gives room back that was made so.
    pub fn give_room_back(&mut self) {
        self.fused.iter_mut().for_each(Fused::give_room_back);
    }

    /// Takes rows of a batch in.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn update(&mut self, batch: &RecordBatch, aggregates: &[Bound], of: Rows<'_>) -> Result<(), String> {
        if let Some(fused) = &mut self.fused {
            fused.update(batch, of)?;
        }
        let others = aggregates.iter().filter(|bound| bound.keeps_state() && !is_fused(bound));
        for (other, bound) in self.others.iter_mut().zip(others) {
            counting::update(other.as_mut(), batch, bound, of)?;
        }
        Ok(())
    }

    /// Takes groups of a later state of the same aggregates in: each pair is a group there and the one here.
    pub fn merge(&mut self, later: &Self, moves: &[(u32, u32)]) {
        if let (Some(own), Some(later)) = (&mut self.fused, &later.fused) {
            own.merge(later, moves);
        }
        for (own, later) in self.others.iter_mut().zip(&later.others) {
            own.merge(later.as_ref(), moves);
        }
    }

    /// The results of each aggregate that keeps anything, in order, as a column, of groups with so many rows; and the groups whose result does not fit its type: they are null
    /// there.
    pub fn columns<'a>(
        &'a self,
        aggregates: &'a [Bound],
        counts: &'a [u64],
    ) -> impl Iterator<Item = (ArrayRef, Vec<u32>)> + use<'a> {
        let mut others = self.others.iter();
        aggregates.iter().filter(|bound| bound.keeps_state()).filter_map(move |bound| match &self.fused {
            Some(fused) if is_fused(bound) => Some((fused.column(bound), Vec::new())),
            _ if bound.aggregate.is_state => Some(states::column(bound, counts.len(), &**others.next()?)),
            _ => Some(others.next()?.column(bound)),
        })
    }

    /// The name of an aggregate with a value that is beyond the type that its column has now.
    pub fn beyond<'a>(&self, aggregates: &'a [Bound]) -> Option<&'a str> {
        let others = aggregates.iter().filter(|bound| bound.keeps_state() && !is_fused(bound));
        let mut all = self.others.iter().zip(others);
        all.find(|(other, bound)| other.is_beyond(bound)).map(|(_, bound)| bound.aggregate.name.as_str())
    }

    /// Whether it takes a walk over what is kept of all groups to take some of them out.
    pub fn are_scattered(&self) -> bool {
        self.others.iter().any(|other| other.is_scattered())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let others: usize = self.others.iter().map(|other| other.memory_bytes()).sum();
        let fixed = (self.others.len() + usize::from(self.fused.is_some())) * ACCUMULATOR_BYTES;
        self.fused.as_ref().map_or(0, Fused::memory_bytes) + others + fixed
    }

    /// Writes them for a seal.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.fused.iter().for_each(|fused| fused.write(to));
        self.others.iter().for_each(|other| other.write(to));
    }

    /// Reads what was written: of as many groups as there are counts of rows.
    ///
    /// # Errors
    /// When the bytes cannot be those of groups with so many rows.
    pub fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        if let Some(fused) = &mut self.fused {
            fused.read(from, counts)?;
        }
        self.others.iter_mut().try_for_each(|other| other.read(from, counts))
    }
}

/// What is kept of one aggregate for every group.
trait Accumulator: Any + Send + Sync {
    /// As many groups as there are; new ones have no value.
    fn grow(&mut self, groups: usize);

    /// Takes rows in.
    ///
    /// # Errors
    /// When a column is of another form.
    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String>;

    /// Takes groups of a later state of the same aggregate in: each pair is a group there and the one here.
    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]);

    /// The results as a column, and the groups whose result does not fit its type: they are null there.
    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>);

    /// Appends the state of a group as ClickHouse has it; false if it has none, because a sum does not fit. For functions alone that
    /// [have states](Function::state).
    fn state(&self, _bound: &Bound, _group: usize, _to: &mut Vec<u8>) -> bool {
        unreachable!("checked when the step was made")
    }

    /// Whether a value that is given as it came is beyond the type that its column has now.
    fn is_beyond(&self, _bound: &Bound) -> bool {
        false
    }

    /// Whether what is kept of one group lies among that of all others.
    fn is_scattered(&self) -> bool {
        false
    }

    /// Memory held in bytes.
    fn memory_bytes(&self) -> usize;

    /// Writes it for a seal.
    fn write(&self, to: &mut Vec<u8>);

    /// Reads what was written: of as many groups as there are counts of rows.
    ///
    /// # Errors
    /// When the bytes cannot be those of groups with so many rows.
    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError>;
}

/// The columns that an aggregate reads.
#[derive(Clone, Copy)]
struct Input<'a> {
    /// The first, or only one; `None` for records.
    pub column: Option<(&'a dyn Array, &'a ColumnType)>,
    /// The column that `arg_min` and `arg_max` order by.
    pub by: Option<(&'a dyn Array, &'a ColumnType)>,
}

impl<'a> Input<'a> {
    fn values(&self) -> Result<Values<'a>, String> {
        read(self.column)
    }

    fn by(&self) -> Result<Values<'a>, String> {
        read(self.by)
    }
}

fn read<'a>(column: Option<(&'a dyn Array, &'a ColumnType)>) -> Result<Values<'a>, String> {
    let (array, column_type) = column.ok_or("an aggregate has no column")?;
    values::read(array, column_type).ok_or_else(|| format!("a column came as `{}`", array.data_type()))
}

/// Rows of a batch and the group of each.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
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

/// What keeps an aggregate, with no group yet; `None` for `count()` of all records, which groups know by themselves.
fn new(bound: &Bound) -> Option<Box<dyn Accumulator>> {
    let Some(input) = &bound.input else {
        return bound.aggregate.condition.is_some().then(|| Box::<totals::Count>::default() as _);
    };
    let bare = input.column_type.bare();
    let form = Form::of(bare).unwrap_or(Form::Int);
    let scale = match bare {
        ColumnType::Decimal { scale, .. } => 10_f64.powi(i32::from(*scale)),
        _ => 1.0,
    };
    let by = bound.by.as_ref().and_then(|by| Form::of(&by.column_type)).unwrap_or(form);
    let ordered_by = bound.by.as_ref().map_or(&input.column_type, |by| &by.column_type);
    let better = |of, side| picked::Better::new(of, bound.aggregate.is_state, side);
    let extreme = |side| Box::new(picked::Extreme::new(form, better(&input.column_type, side)));
    let at = |side| Box::new(picked::By::new(form, by, better(ordered_by, side)));
    if bound.aggregate.distinct || bound.aggregate.function == Function::CountDistinct {
        return Some(Box::new(entries::Distinct::new(form)));
    }
    Some(match bound.aggregate.function {
        Function::Count => Box::<totals::Count>::default(),
        Function::Sum if form == Form::Float => Box::<totals::SumFloat>::default(),
        Function::Sum => Box::<totals::Sum>::default(),
        Function::Avg if form == Form::Float => Box::<totals::AvgFloat>::default(),
        Function::Avg => Box::new(totals::Avg::new(scale)),
        Function::Min | Function::BoolAnd => extreme(picked::Side::Least),
        Function::Max | Function::BoolOr => extreme(picked::Side::Greatest),
        Function::First => Box::new(picked::Timed::new(form, picked::Side::Least)),
        Function::Last => Box::new(picked::Timed::new(form, picked::Side::Greatest)),
        Function::Any => Box::new(picked::Any::new(form)),
        Function::ArgMin => at(picked::Side::Least),
        Function::ArgMax => at(picked::Side::Greatest),
        Function::VarPop | Function::VarSamp | Function::StddevPop | Function::StddevSamp => {
            Box::new(moments::Moments::new(scale))
        }
        Function::GroupArray => {
            Box::new(entries::Arrays::new(form, bound.aggregate.numbers.first().copied().unwrap_or(0)))
        }
        Function::Quantile | Function::Quantiles if bound.aggregate.is_state => {
            Box::<digests::Digests>::default()
        }
        Function::Quantile | Function::Quantiles => Box::new(sketch::Sketch::new(scale)),
        Function::ApproxCountDistinct if bound.aggregate.is_state => Box::<uniques::Uniques>::default(),
        Function::ApproxCountDistinct => Box::<registers::Registers>::default(),
        Function::CountDistinct => Box::new(entries::Distinct::new(form)),
    })
}

/// A later state of the same aggregate.
fn same<T: Accumulator>(later: &dyn Accumulator) -> &T {
    (later as &dyn Any).downcast_ref().expect("both are of one aggregate")
}

/// Each row's value as a float.
fn each_float(values: &Values<'_>, scale: f64, of: Rows<'_>, mut each: impl FnMut(usize, f64)) {
    match values {
        Values::Int(values) => of.pairs().for_each(|(row, group)| each(group, values[row] as f64)),
        Values::UInt(values) => of.pairs().for_each(|(row, group)| each(group, values[row] as f64)),
        Values::Float(values) => of.pairs().for_each(|(row, group)| each(group, values[row])),
        Values::Wide(values) => of.pairs().for_each(|(row, group)| each(group, values[row] as f64 / scale)),
        Values::Bytes(_) => unreachable!("checked when the step was made"),
    }
}
