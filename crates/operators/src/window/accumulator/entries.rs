//! Several values of a group: arrays, and each value once.
//!
//! Owns the entries of all groups in one column, in the order in which they came, with the group of each. Does not own what is computed of values
//! that are taken once: the aggregate of the same name does that when the window closes, over the entries.
//!
//! An entry takes its value, 4 bytes for its group, and 5 to 11 in an index where each counts once; texts 16 bytes more.

use arrow_array::{Array, ArrayRef, ListArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use arrow_select::take::take;
use dataflow::{ColumnType, StateError};
use std::sync::Arc;

use super::{Accumulator, Input, Rows, same};
use crate::window::aggregate::{Aggregate, Bound, Function};
use crate::window::encoding::{Reader, damaged, put_each, put_len, put_store};
use crate::window::index::Index;
use crate::window::values::{Form, Store, Values, grow_to};

/// Values and the group of each.
struct Entries {
    groups: Vec<u32>,
    values: Store,
}

impl Entries {
    fn new(form: Form) -> Self {
        Self { groups: Vec::new(), values: Store::new(form) }
    }

    fn len(&self) -> usize {
        self.groups.len()
    }

    fn memory_bytes(&self) -> usize {
        self.groups.capacity() * 4 + self.values.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.len());
        put_each(to, &self.groups, u32::to_le_bytes);
        put_store(to, &self.values);
    }

    fn read(&mut self, from: &mut Reader<'_>, groups: usize) -> Result<(), StateError> {
        let len = from.len()?;
        self.groups = from.numbers(len, u32::from_le_bytes)?;
        if self.groups.iter().any(|group| *group as usize >= groups) {
            return Err(damaged("has a value of no key"));
        }
        from.store(&mut self.values, len)
    }
}

/// For each later group the one here, or `None`.
fn by_group(moves: &[(u32, u32)]) -> Vec<Option<u32>> {
    let len = moves.iter().map(|(from, _)| *from as usize + 1).max().unwrap_or(0);
    let mut to_of = vec![None; len];
    moves.iter().for_each(|(from, to)| to_of[*from as usize] = Some(*to));
    to_of
}

/// The first values of each group, in the order in which they were read.
pub(super) struct Arrays {
    values_max: u64,
    entries: Entries,
    counts: Vec<u32>,
}

impl Arrays {
    /// Of so many values at the most.
    pub fn new(form: Form, values_max: u64) -> Self {
        Self { values_max, entries: Entries::new(form), counts: Vec::new() }
    }

    /// Whether the group takes one more, which is counted then.
    fn takes(&mut self, group: usize) -> bool {
        let takes = u64::from(self.counts[group]) < self.values_max;
        self.counts[group] += u32::from(takes);
        takes
    }
}

impl Accumulator for Arrays {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.counts, groups, 0);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            if self.takes(group) {
                self.entries.groups.push(group as u32);
                self.entries.values.push(&values, row);
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        let to_of = by_group(moves);
        let values = later.entries.values.values();
        for (at, from) in later.entries.groups.iter().enumerate() {
            let Some(Some(to)) = to_of.get(*from as usize) else { continue };
            if self.takes(*to as usize) {
                self.entries.groups.push(*to);
                self.entries.values.push(&values, at);
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let item = match &bound.output {
            ColumnType::Array(item) => item.bare(),
            other => other,
        };
        let mut begins: Vec<usize> = Vec::with_capacity(self.counts.len());
        let mut end = 0;
        for count in &self.counts {
            begins.push(end);
            end += *count as usize;
        }
        let mut order = vec![0_u32; self.entries.len()];
        for (at, group) in self.entries.groups.iter().enumerate() {
            let begin = &mut begins[*group as usize];
            order[*begin] = at as u32;
            *begin += 1;
        }
        let values = self.entries.values.column(item, |_| false);
        let values = take(&values, &UInt32Array::from(order), None).expect("every number is a value's");
        let lengths = self.counts.iter().map(|count| *count as usize);
        let field = Arc::new(Field::new("item", values.data_type().clone(), false));
        let lists = ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, None);
        (Arc::new(lists), Vec::new())
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        bound.input.as_ref().is_some_and(|input| self.entries.values.is_beyond(&input.column_type))
    }

    fn is_scattered(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.counts.capacity() * 4
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.entries.write(to);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.entries.read(from, counts.len())?;
        self.counts = vec![0; counts.len()];
        for at in 0..self.entries.len() {
            let group = self.entries.groups[at] as usize;
            if !self.takes(group) || u64::from(self.counts[group]) > counts[group] {
                return Err(damaged("has an array of too many values"));
            }
        }
        Ok(())
    }
}

/// Each value of each group once.
pub(super) struct Distinct {
    entries: Entries,
    index: Index,
    groups: usize,
}

impl Distinct {
    /// For values of this form.
    pub fn new(form: Form) -> Self {
        Self { entries: Entries::new(form), index: Index::default(), groups: 0 }
    }

    fn add(&mut self, group: u32, values: &Values<'_>, row: usize) {
        let Self { entries, index, .. } = self;
        let hash = values.hash(row, group);
        let is_it = |at: usize| entries.groups[at] == group && entries.values.is_same(at, values, row);
        if let Err(free) = index.find(hash, is_it) {
            entries.groups.push(group);
            entries.values.push_canonical(values, row);
            let kept = entries.values.values();
            index.insert(free, |at| kept.hash(at, entries.groups[at]));
        }
    }
}

impl Accumulator for Distinct {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        of.rows.iter().zip(of.groups).for_each(|(row, group)| self.add(*group, &values, *row as usize));
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        let to_of = by_group(moves);
        let values = later.entries.values.values();
        for (at, from) in later.entries.groups.iter().enumerate() {
            if let Some(Some(to)) = to_of.get(*from as usize) {
                self.add(*to, &values, at);
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let Some(input) = &bound.input else { unreachable!("only values are distinct") };
        let bare = input.column_type.bare();
        let function = match bound.aggregate.function {
            Function::CountDistinct => Function::Count,
            other => other,
        };
        let aggregate = Aggregate { distinct: false, condition: None, function, ..bound.aggregate.clone() };
        let bound = Bound { aggregate, ..bound.clone() };
        let mut inner = super::new(&bound).expect("it has a column");
        inner.grow(self.groups);
        let values = self.entries.values.column(bare, |_| false);
        let rows: Vec<u32> = (0..self.entries.len() as u32).collect();
        let input = Input { column: Some((&values, bare)), by: None };
        let of = Rows { rows: &rows, groups: &self.entries.groups, times_ms: &[] };
        inner.update(&input, of).expect("the values are of the column's type");
        inner.column(&bound)
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        bound.input.as_ref().is_some_and(|input| self.entries.values.is_beyond(&input.column_type))
    }

    fn is_scattered(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.index.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.entries.write(to);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        let mut read = Entries { groups: Vec::new(), values: self.entries.values.empty() };
        read.read(from, counts.len())?;
        let mut left = counts.to_vec();
        let values = read.values.values();
        for (at, group) in read.groups.iter().enumerate() {
            let before = self.entries.len();
            self.add(*group, &values, at);
            let left = &mut left[*group as usize];
            if self.entries.len() == before || *left == 0 {
                return Err(damaged("has a value twice, or more values than rows"));
            }
            *left -= 1;
        }
        self.groups = counts.len();
        Ok(())
    }
}
