//! States of aggregates, which stand in a block one behind the other without their lengths.
//!
//! Owns where each ends, which follows from its function and the types of its arguments. Does not own what they mean: the window made them
//! (`operators::window`), and the server reads them.
//!
//! | function         | bytes                                                                              |
//! |------------------|------------------------------------------------------------------------------------|
//! | any but `count`  | first a byte if an argument may be NULL: 0 for no value, and nothing follows       |
//! | `count`          | varint                                                                             |
//! | `sum`            | 8, or 16 of a Decimal                                                              |
//! | `avg`            | as `sum`, then the count as a varint                                               |
//! | `uniq`           | always a byte of its own, the number of hashes as a varint, 4 each                 |
//! | `quantileTDigest`, `quantilesTDigest` | the number of centroids as a varint, 8 each                  |
//! | `min`, `max`, `any` | a value                                                                         |
//! | `argMin`, `argMax` | a value of the first argument, then one of the second                            |
//!
//! | a value of       | bytes                                                                              |
//! |------------------|------------------------------------------------------------------------------------|
//! | String           | its length with a zero behind it (4), the text, the zero; or the length -1 for none |
//! | another type     | 0 for none; or 1 and what the type's values are on the wire                         |

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use dataflow::ColumnType;
use dataflow::types::{StateFunction, StateType};

use super::Cursor;

impl Cursor<'_> {
    /// The states of so many rows.
    ///
    /// # Errors
    /// When they are none of this type, or end early.
    pub(super) fn states(&mut self, state: &StateType, rows: usize) -> Result<ArrayRef, String> {
        if rows > self.rest.len() {
            return Err(format!("{rows} states cannot stand in {} bytes", self.rest.len()));
        }
        let all = self.rest;
        let mut ends: Vec<i32> = Vec::with_capacity(rows + 1);
        ends.push(0);
        for _ in 0..rows {
            self.skip(state)?;
            let end = i32::try_from(all.len() - self.rest.len());
            ends.push(end.map_err(|_| "the states are longer than 2 GiB")?);
        }
        let data = all[..all.len() - self.rest.len()].to_vec();
        Ok(Arc::new(BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(ends)), data.into(), None)))
    }

    fn skip(&mut self, state: &StateType) -> Result<(), String> {
        if state.has_flag() && !self.flag()? {
            return Ok(());
        }
        let sum = match state.arguments.first().map(ColumnType::bare) {
            Some(ColumnType::Decimal { .. }) => 16,
            _ => 8,
        };
        match state.function {
            StateFunction::Count => self.skip_varint(),
            StateFunction::Sum => self.bytes(sum).map(|_| ()),
            StateFunction::Avg => {
                self.bytes(sum)?;
                self.skip_varint()
            }
            StateFunction::Uniq => {
                self.bytes(1)?;
                let hashes = self.varint_of_state()?;
                let length = usize::try_from(hashes).ok().and_then(|hashes| hashes.checked_mul(4));
                self.bytes(length.ok_or("a state of `uniq` of more hashes than there is memory")?).map(|_| ())
            }
            StateFunction::QuantileTDigest | StateFunction::QuantilesTDigest => {
                let centroids = self.varint_of_state()?;
                let length = usize::try_from(centroids).ok().and_then(|centroids| centroids.checked_mul(8));
                self.bytes(length.ok_or("a state of quantiles of more values than there is memory")?)
                    .map(|_| ())
            }
            StateFunction::Min
            | StateFunction::Max
            | StateFunction::Any
            | StateFunction::ArgMin
            | StateFunction::ArgMax => {
                state.arguments.iter().try_for_each(|argument| self.skip_value(argument))
            }
        }
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.bytes(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            other => Err(format!("a state that begins with `{}`", other[0])),
        }
    }

    fn skip_varint(&mut self) -> Result<(), String> {
        self.varint_of_state().map(|_| ())
    }

    /// A number in groups of seven bits, the lowest first. What is above 64 bits is lost.
    fn varint_of_state(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for group in 0..10 {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number of more than 64 bits".to_owned())
    }

    fn skip_value(&mut self, column_type: &ColumnType) -> Result<(), String> {
        if *column_type.bare() == ColumnType::String {
            let length = self.chunks::<4>(1)?[0];
            return match i32::from_le_bytes(length) {
                -1 => Ok(()),
                length => {
                    let length = usize::try_from(length).ok().filter(|length| *length > 0);
                    self.bytes(length.ok_or("a text of a state without an end")?).map(|_| ())
                }
            };
        }
        if !self.flag()? {
            return Ok(());
        }
        let width = width(column_type.bare()).ok_or("a state of values that have none")?;
        self.bytes(width).map(|_| ())
    }
}

/// Bytes of one value on the wire; `None` where they differ.
fn width(bare: &ColumnType) -> Option<usize> {
    Some(match bare {
        ColumnType::Int8 | ColumnType::UInt8 | ColumnType::Bool | ColumnType::Enum8(_) => 1,
        ColumnType::Int16 | ColumnType::UInt16 | ColumnType::Enum16(_) | ColumnType::Date => 2,
        ColumnType::Int32 | ColumnType::UInt32 | ColumnType::Float32 | ColumnType::Ipv4 => 4,
        ColumnType::Date32 | ColumnType::DateTime { .. } => 4,
        ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64 | ColumnType::DateTime64 { .. } => 8,
        ColumnType::Uuid | ColumnType::Ipv6 => 16,
        ColumnType::FixedString(width) => *width as usize,
        ColumnType::Decimal { precision, .. } => match precision {
            1..=9 => 4,
            10..=18 => 8,
            _ => 16,
        },
        ColumnType::String
        | ColumnType::Array(_)
        | ColumnType::Map(..)
        | ColumnType::Json { .. }
        | ColumnType::State(_) => {
            return None;
        }
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => return width(inner),
    })
}

#[cfg(test)]
mod tests;
