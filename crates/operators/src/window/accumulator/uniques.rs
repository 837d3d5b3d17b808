//! The state of ClickHouse's `uniq`: a sample of the hashes of the values that were seen.
//!
//! Owns the sample and its bytes, which are those of the server for the same values in the same order. Does not own the hash of texts ([`city`]).
//!
//! A hash has 32 bits. Of more than [`SIZE_MAX`] different ones only those are kept whose lowest bits are zero, one bit more each time that there are
//! too many again. They stand in an open table with as many places as a power of two, at most half full; where a hash belongs is said by its bits
//! from the 15th on. Groups that are merged give the same sample as all rows one by one, though hashes whose places collide may stand in another order.
//!
//! | bytes                  | what they are                                                  |
//! |------------------------|----------------------------------------------------------------|
//! | 1                      | how many low bits are zero in what is kept                     |
//! | a varint               | hashes                                                         |
//! | 4 each                 | the hash 0 first if it is there, then the others by their places |
//!
//! | values of                                 | are hashed by                                                    |
//! |-------------------------------------------|------------------------------------------------------------------|
//! | integers, Bool, Enum, Date, DateTime, IPv4, Float | their bits, mixed                                        |
//! | UUID                                      | both halves together, mixed twice                                |
//! | String, FixedString, IPv6                 | CityHash of their bytes, mixed                                   |
//! | Decimal, DateTime64                       | CityHash of the value as the server holds it, not mixed          |

pub(super) mod city;

use arrow_array::ArrayRef;
use dataflow::{ColumnType, StateError};

use super::states::{put_flag, put_number, put_varint};
use super::{Accumulator, Input, Rows, same};
use crate::window::aggregate::Bound;
use crate::window::encoding::{Reader, damaged, put_len};
use crate::window::values::{Values, grow_to};

/// Hashes of a group at the most: 256 KiB in its state, and 512 KiB in memory, for half of its places are free.
const SIZE_MAX: u32 = 1 << 16;

/// Low bits of a hash that say nothing of its place.
const PLACE_SHIFT: u32 = 15;

/// Places of the least table, as a power of two.
const DEGREE_MIN: u32 = 4;

/// One group's sample. An empty one has no table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    /// 0 for none.
    places: Vec<u32>,
    /// Hashes, 0 among them.
    size: u32,
    has_zero: bool,
    skipped_bits: u32,
}

impl Sample {
    fn is_kept(&self, hash: u32) -> bool {
        hash.trailing_zeros() >= self.skipped_bits
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> PLACE_SHIFT) as usize & (self.places.len() - 1)
    }

    /// Where the hash stands, or would.
    fn place(&self, hash: u32) -> usize {
        let mut place = self.home(hash);
        while self.places[place] != 0 && self.places[place] != hash {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    fn add(&mut self, hash: u32) {
        if !self.is_kept(hash) {
            return;
        }
        if hash == 0 {
            self.size += u32::from(!self.has_zero);
            self.has_zero = true;
        } else {
            if self.places.is_empty() {
                self.places = vec![0; 1 << DEGREE_MIN];
            }
            let place = self.place(hash);
            self.size += u32::from(self.places[place] == 0);
            self.places[place] = hash;
        }
        if self.size as usize > self.places.len().max(1 << DEGREE_MIN) / 2 {
            match self.size > SIZE_MAX {
                true => self.thin_out(),
                false => self.double(),
            }
        }
    }

    /// Twice as many places. A hash stays, or goes to the right; or it goes to the left once those before it have gone.
    fn double(&mut self) {
        let before = self.places.len().max(1 << (DEGREE_MIN - 1));
        self.places.resize(2 * before, 0);
        let mut at = 0;
        // Those at the beginning of the table that belong to its old end come after all others.
        while at < before || self.places.get(at).is_some_and(|hash| *hash != 0) {
            self.move_home(at);
            at += 1;
        }
    }

    fn move_home(&mut self, at: usize) {
        let hash = self.places[at];
        if hash == 0 || self.home(hash) == at {
            return;
        }
        let place = self.place(hash);
        if self.places[place] == 0 {
            self.places[place] = hash;
            self.places[at] = 0;
        }
    }

    /// Asks for one bit more until few enough are kept.
    fn thin_out(&mut self) {
        while self.size > SIZE_MAX {
            self.skip(self.skipped_bits + 1);
        }
    }

    fn skip(&mut self, bits: u32) {
        self.skipped_bits = bits;
        for at in 0..self.places.len() {
            if self.places[at] != 0 && !self.is_kept(self.places[at]) {
                self.places[at] = 0;
                self.size -= 1;
            }
        }
        // There is room now nearer to where some belong.
        for at in 0..self.places.len() {
            let hash = std::mem::take(&mut self.places[at]);
            if hash != 0 {
                let place = self.place(hash);
                self.places[place] = hash;
            }
        }
    }

    fn merge(&mut self, later: &Self) {
        if later.skipped_bits > self.skipped_bits {
            self.skip(later.skipped_bits);
        }
        if later.has_zero {
            self.add(0);
        }
        later.places.iter().filter(|hash| **hash != 0).for_each(|hash| self.add(*hash));
    }

    fn hashes(&self) -> impl Iterator<Item = u32> {
        let zero = self.has_zero.then_some(0);
        zero.into_iter().chain(self.places.iter().copied().filter(|hash| *hash != 0))
    }

    fn memory_bytes(&self) -> usize {
        4 * self.places.capacity()
    }
}

/// Spreads the bits of a number over all of it.
fn mixed(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

/// The server's hash of a row's value. `scratch` is for values that are hashed as the server holds them.
fn hash(values: &Values<'_>, column_type: &ColumnType, row: usize, scratch: &mut Vec<u8>) -> u32 {
    let as_held = |value: i128, scratch: &mut Vec<u8>| {
        scratch.clear();
        put_number(column_type, value, scratch);
        city::hash(scratch)
    };
    let hash = match (values, column_type) {
        (Values::Int(values), ColumnType::DateTime64 { .. }) => as_held(values[row].into(), scratch),
        (Values::Wide(values), _) => as_held(values[row], scratch),
        (Values::Int(values), _) => mixed(values[row] as u64),
        (Values::UInt(values), _) => mixed(values[row]),
        (Values::Float(values), ColumnType::Float32) => mixed((values[row] as f32).to_bits().into()),
        (Values::Float(values), _) => mixed(values[row].to_bits()),
        (Values::Bytes(texts), ColumnType::Uuid) => {
            let halves = texts.get(row).chunks_exact(8);
            let both = halves.map(|half| u64::from_be_bytes(half.try_into().expect("8 bytes")));
            mixed(mixed(both.fold(0, |both, half| both ^ half)))
        }
        (Values::Bytes(texts), _) => mixed(city::hash(texts.get(row))),
    };
    hash as u32
}

/// Of every group.
#[derive(Default)]
pub(super) struct Uniques {
    groups: Vec<Sample>,
    /// What their tables take.
    bytes: usize,
}

impl Uniques {
    fn change(&mut self, group: usize, change: impl FnOnce(&mut Sample)) {
        let group = &mut self.groups[group];
        let before = group.memory_bytes();
        change(group);
        self.bytes = self.bytes + group.memory_bytes() - before;
    }
}

impl Accumulator for Uniques {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.groups, groups, Sample::default());
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        let column_type = input.column.map_or(&ColumnType::UInt64, |(_, column_type)| column_type.bare());
        let mut scratch = Vec::new();
        for (row, group) in of.pairs() {
            let hash = hash(&values, column_type, row, &mut scratch);
            self.change(group, |group| group.add(hash));
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves {
            self.change(*to as usize, |group| group.merge(&later.groups[*from as usize]));
        }
    }

    fn column(&self, _bound: &Bound) -> (ArrayRef, Vec<u32>) {
        unreachable!("a state is asked for")
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        // The server sets the flag without a value too.
        put_flag(bound, true, to);
        let sample = &self.groups[group];
        to.push(sample.skipped_bits as u8);
        put_varint(sample.size.into(), to);
        sample.hashes().for_each(|hash| to.extend_from_slice(&hash.to_le_bytes()));
        true
    }

    fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Sample>() + self.bytes
    }

    fn write(&self, to: &mut Vec<u8>) {
        for sample in &self.groups {
            to.push(sample.skipped_bits as u8);
            put_len(to, sample.size as usize);
            sample.hashes().for_each(|hash| to.extend_from_slice(&hash.to_le_bytes()));
        }
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        let wrong = || damaged("has a sample of hashes that cannot be");
        for _ in counts {
            let [skipped_bits] = from.array()?;
            let size = from.len()?;
            if size > SIZE_MAX as usize || skipped_bits > 32 {
                return Err(wrong());
            }
            let hashes = from.numbers(size, u32::from_le_bytes)?;
            let mut sample = Sample { skipped_bits: skipped_bits.into(), ..Sample::default() };
            hashes.iter().for_each(|hash| sample.add(*hash));
            if sample.size as usize != size {
                return Err(wrong());
            }
            self.bytes += sample.memory_bytes();
            self.groups.push(sample);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
