//! Aggregates as ClickHouse's states: what a table of AggregatingMergeTree merges with others of its own.
//!
//! Owns the bytes of a state, which are those that the server makes of the same rows (`hex(sumState(x))`). Does not own which functions have states
//! ([`Bound`]), nor what is kept of a group: accumulators write their part with what is here.
//!
//! | function             | bytes                                                                          |
//! |----------------------|--------------------------------------------------------------------------------|
//! | any but `count`      | first a byte if an argument may be NULL: 0 without a value, and nothing follows; always 1 of `uniq` and quantiles |
//! | `count`              | varint                                                                         |
//! | `sum`                | 8, or 16 of a Decimal, little-endian                                           |
//! | `avg`                | as `sum`, then the number of values as a varint                                |
//! | `min`, `max`, `any`  | a value                                                                        |
//! | `arg_min`, `arg_max` | a value of the first column, then one of the second                            |
//! | `uniq`               | see `uniques`                                                                  |
//! | `quantile`, `quantiles` | see `digests`                                                               |
//!
//! | a value of           | bytes                                                                          |
//! |----------------------|--------------------------------------------------------------------------------|
//! | String               | its length with a zero behind it (4), the text, the zero; or the length -1 for none |
//! | another type         | 0 for none; or 1 and the value as the server holds it, little-endian            |

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::BinaryBuilder;
use dataflow::ColumnType;
use dataflow::types::{StateType, time_unit};

use super::Accumulator;
use crate::window::aggregate::Bound;
use crate::window::values::Store;

/// The states of all groups as a column, and the groups that have none, because a sum does not fit: bytes that mean nothing stand for them.
pub(super) fn column(bound: &Bound, groups: usize, accumulator: &dyn Accumulator) -> (ArrayRef, Vec<u32>) {
    let mut states = BinaryBuilder::with_capacity(groups, groups * 10);
    let (mut state, mut lost) = (Vec::new(), Vec::new());
    for group in 0..groups {
        state.clear();
        if !accumulator.state(bound, group, &mut state) {
            lost.push(group as u32);
        }
        states.append_value(&state);
    }
    (Arc::new(states.finish()), lost)
}

/// The states of `count()` as a column.
pub(in crate::window) fn counts(counts: &[u64]) -> ArrayRef {
    let mut states = BinaryBuilder::with_capacity(counts.len(), counts.len() * 2);
    let mut state = Vec::new();
    for count in counts {
        state.clear();
        put_varint(*count, &mut state);
        states.append_value(&state);
    }
    Arc::new(states.finish())
}

/// Whether a group's state goes on behind its flag, which is there if an argument may be NULL.
pub(super) fn put_flag(bound: &Bound, has_value: bool, to: &mut Vec<u8>) -> bool {
    let ColumnType::State(state) = &bound.output else { return true };
    if !state.has_flag() {
        return true;
    }
    to.push(u8::from(has_value));
    has_value
}

/// A number in groups of seven bits, the lowest first.
pub(super) fn put_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A sum of integers or Decimals; false if it does not fit.
pub(super) fn put_sum(bound: &Bound, sum: i128, to: &mut Vec<u8>) -> bool {
    match argument(bound, 0) {
        ColumnType::Decimal { .. } => {
            to.extend_from_slice(&sum.to_le_bytes());
            sum.unsigned_abs() < 10_u128.pow(38)
        }
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => {
            to.extend_from_slice(&(sum as u64).to_le_bytes());
            u64::try_from(sum).is_ok()
        }
        _ => {
            to.extend_from_slice(&(sum as i64).to_le_bytes());
            i64::try_from(sum).is_ok()
        }
    }
}

/// The type of an argument without Nullable.
fn argument(bound: &Bound, at: usize) -> &ColumnType {
    match &bound.output {
        ColumnType::State(state) => state_argument(state, at),
        other => other,
    }
}

fn state_argument(state: &StateType, at: usize) -> &ColumnType {
    state.arguments.get(at).map_or(&ColumnType::UInt64, ColumnType::bare)
}

/// The value of a group as one of the argument `at`, if it has any.
pub(super) fn put_value(bound: &Bound, at: usize, store: &Store, group: Option<usize>, to: &mut Vec<u8>) {
    let column_type = argument(bound, at);
    if *column_type == ColumnType::String {
        return match (group, store) {
            (Some(group), Store::Bytes(values)) => {
                let text = &values[group];
                to.extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
                to.extend_from_slice(text);
                to.push(0);
            }
            _ => to.extend_from_slice(&(-1_i32).to_le_bytes()),
        };
    }
    to.push(u8::from(group.is_some()));
    let Some(group) = group else { return };
    match store {
        Store::Int(values) => put_number(column_type, values[group].into(), to),
        Store::UInt(values) => {
            let width = match column_type {
                ColumnType::UInt8 => 1,
                ColumnType::UInt16 => 2,
                ColumnType::UInt32 | ColumnType::Ipv4 => 4,
                _ => 8,
            };
            to.extend_from_slice(&values[group].to_le_bytes()[..width]);
        }
        Store::Float(values) if *column_type == ColumnType::Float32 => {
            to.extend_from_slice(&(values[group] as f32).to_le_bytes());
        }
        Store::Float(values) => to.extend_from_slice(&values[group].to_le_bytes()),
        Store::Wide(values) => put_number(column_type, values[group], to),
        Store::Bytes(values) if *column_type == ColumnType::Uuid => {
            // Two little-endian halves, the high one first.
            let (high, low) = values[group].split_at(8);
            to.extend(high.iter().rev().chain(low.iter().rev()));
        }
        Store::Bytes(values) => to.extend_from_slice(&values[group]),
    }
}

/// A number of a type with a sign, as the server holds it.
pub(super) fn put_number(column_type: &ColumnType, value: i128, to: &mut Vec<u8>) {
    let (width, value) = match column_type {
        ColumnType::Decimal { precision: 1..=9, .. } => (4, value),
        ColumnType::Decimal { precision: 10..=18, .. } => (8, value),
        ColumnType::Decimal { .. } => (16, value),
        ColumnType::Int8 | ColumnType::Bool | ColumnType::Enum8(_) => (1, value),
        ColumnType::Int16 | ColumnType::Enum16(_) | ColumnType::Date => (2, value),
        ColumnType::Int32 | ColumnType::Date32 | ColumnType::DateTime { .. } => (4, value),
        ColumnType::DateTime64 { precision, .. } => {
            let digits = match time_unit(*precision) {
                arrow_schema::TimeUnit::Second => 0,
                arrow_schema::TimeUnit::Millisecond => 3,
                arrow_schema::TimeUnit::Microsecond => 6,
                arrow_schema::TimeUnit::Nanosecond => 9,
            };
            (8, value.div_euclid(10_i128.pow(digits - u32::from(*precision))))
        }
        _ => (8, value),
    };
    to.extend_from_slice(&value.to_le_bytes()[..width]);
}

#[cfg(test)]
mod tests;
