//! One value of all: the least, the first, any, and that where another column is least.
//!
//! Owns which value stays when two could: unless a rule below says other, the one that was read first. Does not own how values of each form
//! are held and compared (`window::values`), nor the shorter way for numbers whose sum, least and greatest value are asked for together
//! (`accumulator::fused`).
//!
//! | aggregate | of two values stays                                                              |
//! |-----------|----------------------------------------------------------------------------------|
//! | `Extreme` | the lesser, or the greater                                                       |
//! | `Timed`   | that of the lesser or greater time; of one time the first, or the last           |
//! | `Any`     | the first                                                                        |
//! | `By`      | that of the lesser or greater second column; of one second column the first      |
//!
//! | order of values | compares                                                                   |
//! |-----------------|----------------------------------------------------------------------------|
//! | `Own`           | numbers, bytes from the front; NaN is above all numbers                     |
//! | `Halves`        | UUIDs as ClickHouse does: the second half first                             |
//! | `Numbers`       | floats of a state, as ClickHouse does: NaN stays only if there is no number |

use std::cmp::Ordering;

use arrow_array::ArrayRef;
use dataflow::{ColumnType, StateError};

use super::states::{put_flag, put_value};
use super::{Accumulator, Bits, Input, Rows, same};
use crate::window::aggregate::Bound;
use crate::window::encoding::{Reader, put_each, put_store};
use crate::window::values::{Form, Store, Values, grow_to};

/// Which end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `min`, `first`, `arg_min`.
    Least,
    /// `max`, `last`, `arg_max`.
    Greatest,
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Own,
    Halves,
    Numbers,
}

/// Which of two values is better.
#[derive(Clone, Copy, Debug)]
pub(super) struct Better {
    side: Side,
    order: Order,
}

impl Better {
    /// Among values of a type. UUIDs always have the server's order: expressions refuse to compare them, and a table of
    /// SimpleAggregateFunction goes on with a result by that order. Floats have it in states alone.
    pub fn new(column_type: &ColumnType, is_state: bool, side: Side) -> Self {
        let order = match column_type.bare() {
            ColumnType::Uuid => Order::Halves,
            ColumnType::Float32 | ColumnType::Float64 if is_state => Order::Numbers,
            _ => Order::Own,
        };
        Self { side, order }
    }

    /// Whether the value of a row is better than that of a group.
    fn is_row(self, own: &Store, group: usize, values: &Values<'_>, row: usize) -> bool {
        match (self.order, own, values) {
            (Order::Halves, Store::Bytes(own), Values::Bytes(values)) => {
                self.is(by_halves(values.get(row), &own[group]))
            }
            (Order::Numbers, Store::Float(own), Values::Float(values)) => {
                self.is_number(values[row], own[group])
            }
            _ => self.is(own.compare(group, values, row)),
        }
    }

    /// Whether the value `at` of a later store is better than that of a group.
    fn is_later(self, own: &Store, group: usize, later: &Store, at: usize) -> bool {
        self.is_row(own, group, &later.values(), at)
    }

    fn is_number(self, new: f64, own: f64) -> bool {
        match (new.is_nan(), own.is_nan()) {
            (true, _) => false,
            (false, true) => true,
            // Neither is NaN, so they have an order; 0 and -0 are equal.
            (false, false) => self.is(new.partial_cmp(&own).unwrap_or(Ordering::Equal)),
        }
    }

    fn is(self, order: Ordering) -> bool {
        match self.side {
            Side::Least => order.is_lt(),
            Side::Greatest => order.is_gt(),
        }
    }
}

/// UUIDs are of 16 bytes; others would be compared by what they have.
fn by_halves(new: &[u8], own: &[u8]) -> Ordering {
    let ((new_first, new_second), (own_first, own_second)) =
        (new.split_at(new.len().min(8)), own.split_at(own.len().min(8)));
    (new_second, new_first).cmp(&(own_second, own_first))
}

/// The least or greatest value.
pub(super) struct Extreme {
    better: Better,
    seen: Bits,
    store: Store,
}

impl Extreme {
    /// For values of this form.
    pub fn new(form: Form, better: Better) -> Self {
        Self { better, seen: Bits::default(), store: Store::new(form) }
    }
}

impl Accumulator for Extreme {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        self.store.grow(groups);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            if !self.seen.set(group) || self.better.is_row(&self.store, group, &values, row) {
                self.store.set(group, &values, row);
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if !later.seen.get(from) {
                continue;
            }
            if !self.seen.set(to) || self.better.is_later(&self.store, to, &later.store, from) {
                self.store.set_from(to, &later.store, from);
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (self.store.column(&bound.output, |at| !self.seen.get(at)), Vec::new())
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        let seen = self.seen.get(group);
        if put_flag(bound, seen, to) {
            put_value(bound, 0, &self.store, seen.then_some(group), to);
        }
        true
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        bound.input.as_ref().is_some_and(|input| self.store.is_beyond(&input.column_type))
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.store.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        put_store(to, &self.store);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        from.store(&mut self.store, counts.len())
    }
}

/// The value of the least or greatest time.
pub(super) struct Timed {
    side: Side,
    seen: Bits,
    store: Store,
    times_ms: Vec<i64>,
}

impl Timed {
    /// For values of this form.
    pub fn new(form: Form, side: Side) -> Self {
        Self { side, seen: Bits::default(), store: Store::new(form), times_ms: Vec::new() }
    }

    fn is_better(&self, group: usize, time_ms: i64) -> bool {
        match self.side {
            Side::Least => time_ms < self.times_ms[group],
            Side::Greatest => time_ms >= self.times_ms[group],
        }
    }
}

impl Accumulator for Timed {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        self.store.grow(groups);
        grow_to(&mut self.times_ms, groups, 0);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            if !self.seen.set(group) || self.is_better(group, of.times_ms[row]) {
                self.store.set(group, &values, row);
                self.times_ms[group] = of.times_ms[row];
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if !later.seen.get(from) {
                continue;
            }
            if !self.seen.set(to) || self.is_better(to, later.times_ms[from]) {
                self.store.set_from(to, &later.store, from);
                self.times_ms[to] = later.times_ms[from];
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (self.store.column(&bound.output, |at| !self.seen.get(at)), Vec::new())
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        bound.input.as_ref().is_some_and(|input| self.store.is_beyond(&input.column_type))
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.store.memory_bytes() + self.times_ms.capacity() * 8
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        put_store(to, &self.store);
        put_each(to, &self.times_ms, i64::to_le_bytes);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        from.store(&mut self.store, counts.len())?;
        self.times_ms = from.numbers(counts.len(), i64::from_le_bytes)?;
        Ok(())
    }
}

/// The value that was read first.
pub(super) struct Any {
    seen: Bits,
    store: Store,
}

impl Any {
    /// For values of this form.
    pub fn new(form: Form) -> Self {
        Self { seen: Bits::default(), store: Store::new(form) }
    }
}

impl Accumulator for Any {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        self.store.grow(groups);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            if !self.seen.set(group) {
                self.store.set(group, &values, row);
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if later.seen.get(from) && !self.seen.set(to) {
                self.store.set_from(to, &later.store, from);
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (self.store.column(&bound.output, |at| !self.seen.get(at)), Vec::new())
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        let seen = self.seen.get(group);
        if put_flag(bound, seen, to) {
            put_value(bound, 0, &self.store, seen.then_some(group), to);
        }
        true
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        bound.input.as_ref().is_some_and(|input| self.store.is_beyond(&input.column_type))
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.store.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        put_store(to, &self.store);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        from.store(&mut self.store, counts.len())
    }
}

/// The value where another column is least or greatest.
pub(super) struct By {
    better: Better,
    seen: Bits,
    store: Store,
    by: Store,
}

impl By {
    /// For values of one form, ordered by those of another.
    pub fn new(form: Form, by: Form, better: Better) -> Self {
        Self { better, seen: Bits::default(), store: Store::new(form), by: Store::new(by) }
    }
}

impl Accumulator for By {
    fn grow(&mut self, groups: usize) {
        self.seen.grow(groups);
        self.store.grow(groups);
        self.by.grow(groups);
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let (values, by) = (input.values()?, input.by()?);
        for (row, group) in of.pairs() {
            if !self.seen.set(group) || self.better.is_row(&self.by, group, &by, row) {
                self.store.set(group, &values, row);
                self.by.set(group, &by, row);
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            if !later.seen.get(from) {
                continue;
            }
            if !self.seen.set(to) || self.better.is_later(&self.by, to, &later.by, from) {
                self.store.set_from(to, &later.store, from);
                self.by.set_from(to, &later.by, from);
            }
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        (self.store.column(&bound.output, |at| !self.seen.get(at)), Vec::new())
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        let seen = self.seen.get(group);
        if put_flag(bound, seen, to) {
            put_value(bound, 0, &self.store, seen.then_some(group), to);
            put_value(bound, 1, &self.by, seen.then_some(group), to);
        }
        true
    }

    fn is_beyond(&self, bound: &Bound) -> bool {
        // What it orders by is part of a state alone.
        let by = bound.by.as_ref().filter(|_| bound.aggregate.is_state);
        bound.input.as_ref().is_some_and(|input| self.store.is_beyond(&input.column_type))
            || by.is_some_and(|by| self.by.is_beyond(&by.column_type))
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.store.memory_bytes() + self.by.memory_bytes()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.seen.write(to);
        put_store(to, &self.store);
        put_store(to, &self.by);
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        self.seen.read(from, counts.len())?;
        from.store(&mut self.store, counts.len())?;
        from.store(&mut self.by, counts.len())
    }
}
