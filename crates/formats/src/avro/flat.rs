//! Blocks of records that are nothing but numbers, column by column.
//!
//! Owns the short way for the commonest of writers: a record whose fields are all `int`, `long`, `double` or a timestamp. One pass over the block
//! finds every field, then each column takes all of its values at once, so that a block costs one call a column instead of one a value. Does
//! not own any rule: a block with anything out of the ordinary (a byte too few, a value that a column turns down) is left alone here, and
//! [`super::datum`] decodes it from its beginning, record by record, and says what is wrong.

use dataflow::{RecordBlock, Schema};

use super::cursor::Cursor;
use super::plan::{Field, Op, Wire};
use super::schema::{Type, Types};
use crate::columns::TypedColumn;
use crate::fault::Step;

/// What is done with the bytes of every record.
#[derive(Debug)]
pub(super) struct Flat {
    ops: Box<[FlatOp]>,
    numbers: Box<[Number]>,
    /// The column of each double, and how many bytes behind the start of its run it is.
    doubles: Box<[Double]>,
    /// Runs of doubles in a record.
    runs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlatOp {
    /// A number of up to 32 bits that is kept.
    Int,
    /// One of up to 64 bits.
    Long,
    /// The same, which no column asks for.
    SkipInt,
    SkipLong,
    /// So many bytes: doubles side by side, some of them kept, or what no column asks for.
    Run {
        bytes: usize,
    },
}

/// Where the numbers of an op go.
#[derive(Debug)]
struct Number {
    column: usize,
    /// Set for timestamps.
    digits: Option<u8>,
}

#[derive(Debug)]
struct Double {
    column: usize,
    run: usize,
    behind: usize,
}

/// The values of a block, before any rule has seen them.
struct Found {
    /// For each of [`Flat::numbers`].
    numbers: Vec<Vec<i64>>,
    /// Where each run begins in the block's bytes, by run.
    runs: Vec<Vec<u32>>,
}

impl Flat {
    /// The short way of a plan whose fields are these, if it has one: each of `columns` columns is filled by a field of its own.
    pub fn of(fields: &[Field], types: &Types, columns: usize) -> Option<Self> {
        let (mut ops, mut numbers, mut doubles) = (Vec::new(), Vec::new(), Vec::new());
        let mut runs = 0;
        for field in fields {
            match &field.op {
                Op::Fill { column, wire } => match wire {
                    Wire::Int => {
                        ops.push(FlatOp::Int);
                        numbers.push(Number { column: *column, digits: None });
                    }
                    Wire::Long => {
                        ops.push(FlatOp::Long);
                        numbers.push(Number { column: *column, digits: None });
                    }
                    Wire::Timestamp { digits } => {
                        ops.push(FlatOp::Long);
                        numbers.push(Number { column: *column, digits: Some(*digits) });
                    }
                    Wire::Double => {
                        let behind = run_of(&mut ops, &mut runs, 8);
                        doubles.push(Double { column: *column, run: runs - 1, behind });
                    }
                    _ => return None,
                },
                Op::Skip(id) => match types.get(*id) {
                    Type::Int | Type::Date | Type::TimeOfDay { long: false } => ops.push(FlatOp::SkipInt),
                    Type::Long
                    | Type::TimeOfDay { long: true }
                    | Type::Timestamp { .. }
                    | Type::LocalTimestamp { .. } => ops.push(FlatOp::SkipLong),
                    Type::Float => drop(run_of(&mut ops, &mut runs, 4)),
                    Type::Double => drop(run_of(&mut ops, &mut runs, 8)),
                    _ => return None,
                },
                Op::Record(_) | Op::Union(_) | Op::Absent(_) | Op::Several(_) => return None,
            }
        }
        let is_filled = numbers.len() + doubles.len() == columns && columns > 0;
        is_filled.then(|| Self { ops: ops.into(), numbers: numbers.into(), doubles: doubles.into(), runs })
    }

    /// Fills empty columns with all records of a block, each behind a header of so many bytes; `None` leaves them as they happen to be.
    pub fn fill(
        &self,
        block: &RecordBlock,
        header: usize,
        record_bytes_max: usize,
        columns: &mut [Box<dyn TypedColumn>],
    ) -> Option<()> {
        let found = self.find(block, header, record_bytes_max).ok()??;
        for (Number { column, digits }, values) in self.numbers.iter().zip(&found.numbers) {
            let filled = match digits {
                Some(digits) => columns[*column].timestamps(values, *digits),
                None => columns[*column].signeds(values),
            };
            filled.ok()?;
        }
        let bytes = &block.payloads.bytes[..];
        let mut values = Vec::with_capacity(block.len());
        for Double { column, run, behind } in &self.doubles {
            values.clear();
            // The pass before has seen that the bytes are there.
            let value = |at: &u32| {
                let value = bytes.get(*at as usize + behind..).and_then(|rest| rest.first_chunk::<8>());
                value.map_or(0.0, |value| f64::from_le_bytes(*value))
            };
            values.extend(found.runs[*run].iter().map(value));
            columns[*column].floats(&values).ok()?;
        }
        Some(())
    }

    /// Finds every field of every record.
    ///
    /// # Errors
    /// A record that is not of the schema. `None` for one that is none of this way.
    fn find(&self, block: &RecordBlock, header: usize, record_bytes_max: usize) -> Step<Option<Found>> {
        let (bytes, rows) = (&block.payloads.bytes[..], block.len());
        let mut found = Found {
            numbers: self.numbers.iter().map(|_| Vec::with_capacity(rows)).collect(),
            runs: (0..self.runs).map(|_| Vec::with_capacity(rows)).collect(),
        };
        let mut start = 0;
        for end in &block.payloads.ends {
            let end = *end as usize;
            if end - start > record_bytes_max || end - start < header {
                return Ok(None);
            }
            let mut cursor = Cursor::new(bytes, start + header, end);
            let (mut number, mut run) = (0, 0);
            for op in &self.ops {
                match op {
                    FlatOp::Int => {
                        found.numbers[number].push(cursor.int()?.into());
                        number += 1;
                    }
                    FlatOp::Long => {
                        found.numbers[number].push(cursor.long()?);
                        number += 1;
                    }
                    FlatOp::SkipInt => drop(cursor.int()?),
                    FlatOp::SkipLong => drop(cursor.long()?),
                    FlatOp::Run { bytes } => {
                        // A block has less than 4 GiB.
                        found.runs[run].push((start + header + cursor.position()) as u32);
                        run += 1;
                        cursor.pass(*bytes)?;
                    }
                }
            }
            if cursor.left() != 0 {
                return Ok(None);
            }
            start = end;
        }
        Ok(Some(found))
    }
}

/// So many bytes more in the run that ends the ops, or in a new one; how far behind the run's start they are.
fn run_of(ops: &mut Vec<FlatOp>, runs: &mut usize, more: usize) -> usize {
    if let Some(FlatOp::Run { bytes }) = ops.last_mut() {
        let behind = *bytes;
        *bytes += more;
        return behind;
    }
    ops.push(FlatOp::Run { bytes: more });
    *runs += 1;
    0
}

/// Whether no record of a block needs another look than its bytes.
pub(super) fn is_plain(block: &RecordBlock, schema: &Schema) -> bool {
    block.absent.is_empty() && block.cut.is_empty() && !schema.columns().is_empty()
}
