//! Blocks of records that are nothing but numbers, column by column.
//!
//! Owns the short way for the commonest of writers: a message of numbers of which each fills a column. One pass over the block finds every field, then
//! each column takes all of its values at once, so that a block costs one call a column instead of one a value. Does not own any rule: a block with
//! anything out of the ordinary (a byte too few, a value that a column turns down) is left alone here, and [`super::fill`] decodes it from its
//! beginning, record by record, and says what is wrong.

use dataflow::RecordBlock;

use super::leaf::{Leaf, Number};
use super::plan::{Default, Fill, Member, Plan, PresenceRule};
use super::walk::{self, Sink};
use super::wire::{Piece, Wire};
use crate::columns::TypedColumn;
use crate::varint::unzigzag;

/// Memory of the values that are found before columns take them; a block has a megabyte or little more.
const VALUES_MAX: usize = 8 << 20;

/// What fills each column.
#[derive(Debug)]
pub(super) struct Flat {
    numbers: Box<[(usize, Number)]>,
}

/// The row of a record among the values that were found.
struct Found<'a>(&'a mut [u64]);

impl Sink for Found<'_> {
    #[inline(always)]
    fn set(&mut self, slot: usize, bits: u64) {
        self.0[slot] = bits;
    }

    fn push(&mut self, _list: usize, _piece: Piece) {
        unreachable!("a plan with lists has no short way")
    }

    fn enter(&mut self, _message: usize) {
        unreachable!("a plan with messages inside has no short way")
    }

    fn choose(&mut self, _member: Member) {
        unreachable!("a plan with a oneof has no short way")
    }
}

impl Flat {
    /// The short way of a plan, if it has one: each column is filled by a number that is 0 where it was not sent.
    pub fn of(plan: &Plan) -> Option<Self> {
        if plan.messages.len() != 1 || plan.lists > 0 || plan.oneofs > 0 {
            return None;
        }
        let number = |fill: &Fill| match fill {
            Fill::One { slot, leaf: Leaf::Number(number, _), presence } => {
                let is_zero = presence.default == Default::Bits(0) && *number != Number::Bool;
                (is_zero && presence.rule == PresenceRule::Implicit).then_some((*slot, *number))
            }
            _ => None,
        };
        let numbers = plan.fills.iter().map(number).collect::<Option<_>>()?;
        Some(Self { numbers })
    }

    /// Fills empty columns with all records of a block, each behind a header of so many bytes; `None` leaves them as they happen to be.
    pub fn fill(
        &self,
        plan: &Plan,
        block: &RecordBlock,
        header: usize,
        record_bytes_max: usize,
        columns: &mut [Box<dyn TypedColumn>],
    ) -> Option<()> {
        let (bytes, width) = (&block.payloads.bytes[..], plan.slots);
        let wanted = block.len().checked_mul(width)?.checked_mul(size_of::<u64>())?;
        if wanted > VALUES_MAX || width == 0 {
            return None;
        }
        let mut values = vec![0; block.len() * width];
        let mut start = 0;
        for (row, end) in values.chunks_exact_mut(width).zip(&block.payloads.ends) {
            let end = *end as usize;
            if end - start > record_bytes_max || end - start < header {
                return None;
            }
            walk::record(plan, Wire::new(bytes, start + header, end), &mut Found(row)).ok()?;
            start = end;
        }
        let (mut integers, mut floats) = (Vec::with_capacity(block.len()), Vec::new());
        for ((slot, number), column) in self.numbers.iter().zip(columns) {
            let bits = values.iter().skip(*slot).step_by(width);
            integers.clear();
            match number {
                Number::Double => {
                    floats.clear();
                    floats.extend(bits.map(|bits| f64::from_bits(*bits)));
                    column.floats(&floats).ok()?;
                    continue;
                }
                Number::Float => {
                    floats.clear();
                    floats.extend(bits.map(|bits| f64::from(f32::from_bits(*bits as u32))));
                    column.floats(&floats).ok()?;
                    continue;
                }
                Number::Bool => return None,
                Number::Signed32 => integers.extend(bits.map(|bits| i64::from(*bits as i32))),
                Number::Unsigned32 => integers.extend(bits.map(|bits| i64::from(*bits as u32))),
                Number::Signed64 => integers.extend(bits.map(|bits| *bits as i64)),
                Number::Zigzag32 => integers.extend(bits.map(|bits| unzigzag(u64::from(*bits as u32)))),
                Number::Zigzag64 => integers.extend(bits.map(|bits| unzigzag(*bits))),
                Number::Unsigned64 => {
                    for bits in bits {
                        integers.push(i64::try_from(*bits).ok()?);
                    }
                }
            }
            column.signeds(&integers).ok()?;
        }
        Some(())
    }
}
