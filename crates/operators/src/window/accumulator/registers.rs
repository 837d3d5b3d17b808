//! About how many values differ: HyperLogLog with 4096 registers, so with a standard error of 1.6 %.
//!
//! Owns the registers, each the longest run of zeros among the hashes that fall to it, and the estimate by them, as Ertl has shown it to be without
//! bias from none to all. They merge exactly: the result does not depend on how rows were cut into batches. Does not own ClickHouse's
//! `uniq`, whose state the server goes on with (`accumulator::uniques`).
//!
//! A group keeps the registers that are not zero as pairs in 4 bytes each, up to 1024 of them; from then on all of them, in 4096 bytes.

use arrow_array::ArrayRef;
use dataflow::StateError;

use super::{Accumulator, Input, Rows, same};
use crate::window::aggregate::Bound;
use crate::window::encoding::{Reader, damaged, put_len};
use crate::window::values::{Store, grow_to};

/// Bits of a hash that say its register.
const BITS: u32 = 12;

/// Registers of a group.
const REGISTERS: usize = 1 << BITS;

/// The most that a register holds: the other bits of a hash are all zeros.
const RANK_MAX: u8 = (64 - BITS) as u8 + 1;

/// Pairs that take as much as all registers.
const PAIRS_MAX: usize = REGISTERS / 4;

/// The registers of one group.
#[derive(Clone, Debug, PartialEq)]
enum Group {
    /// The register in the upper bits, what it holds in the lowest 8; in order.
    Pairs(Vec<u32>),
    All(Box<[u8]>),
}

impl Group {
    fn add_hash(&mut self, hash: u64) {
        let register = (hash >> (64 - BITS)) as u32;
        let rank = (hash << BITS | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        self.add(register, rank);
    }

    fn add(&mut self, register: u32, rank: u8) {
        match self {
            Self::All(ranks) => {
                let own = &mut ranks[register as usize];
                *own = (*own).max(rank);
            }
            Self::Pairs(pairs) => match pairs.binary_search_by_key(&register, |pair| pair >> 8) {
                Ok(at) => pairs[at] = pairs[at].max(register << 8 | u32::from(rank)),
                Err(at) if pairs.len() < PAIRS_MAX => pairs.insert(at, register << 8 | u32::from(rank)),
                Err(_) => {
                    let mut ranks = vec![0; REGISTERS].into_boxed_slice();
                    pairs.iter().for_each(|pair| ranks[(pair >> 8) as usize] = *pair as u8);
                    ranks[register as usize] = rank;
                    *self = Self::All(ranks);
                }
            },
        }
    }

    fn merge(&mut self, later: &Self) {
        match later {
            Self::Pairs(pairs) => pairs.iter().for_each(|pair| self.add(pair >> 8, *pair as u8)),
            Self::All(ranks) => {
                let ranks = (0..).zip(ranks.iter()).filter(|(_, rank)| **rank > 0);
                ranks.for_each(|(register, rank)| self.add(register, *rank));
            }
        }
    }

    fn estimate(&self) -> u64 {
        let mut registers_of = [0_u32; RANK_MAX as usize + 1];
        match self {
            Self::All(ranks) => ranks.iter().for_each(|rank| registers_of[*rank as usize] += 1),
            Self::Pairs(pairs) => {
                pairs.iter().for_each(|pair| registers_of[(*pair as u8) as usize] += 1);
                registers_of[0] = (REGISTERS - pairs.len()) as u32;
            }
        }
        let all = REGISTERS as f64;
        let share = |rank: u8| f64::from(registers_of[rank as usize]) / all;
        let mut sum = all * above(1.0 - share(RANK_MAX));
        for rank in (1..RANK_MAX).rev() {
            sum = 0.5 * (sum + f64::from(registers_of[rank as usize]));
        }
        let estimate = all * all / (2.0 * std::f64::consts::LN_2 * (sum + all * below(share(0))));
        estimate.round() as u64
    }
}

/// What registers that hold the most they can stand for: Ertl's tau.
fn above(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        weight *= 0.5;
        let next = sum - (1.0 - root).powi(2) * weight;
        if next == sum {
            return sum / 3.0;
        }
        sum = next;
    }
}

/// What registers that hold nothing stand for: Ertl's sigma. Infinite if all are.
fn below(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let next = sum + power * weight;
        weight += weight;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

/// Of every group.
#[derive(Default)]
pub(super) struct Registers {
    groups: Vec<Group>,
    /// What their pairs and registers take.
    bytes: usize,
}

impl Registers {
    fn change(&mut self, group: usize, change: impl FnOnce(&mut Group)) {
        let group = &mut self.groups[group];
        let before = size_of_group(group);
        change(group);
        self.bytes = self.bytes + size_of_group(group) - before;
    }
}

fn size_of_group(group: &Group) -> usize {
    match group {
        Group::Pairs(pairs) => pairs.capacity() * 4,
        Group::All(_) => REGISTERS,
    }
}

impl Accumulator for Registers {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.groups, groups, Group::Pairs(Vec::new()));
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            self.change(group, |group| group.add_hash(values.hash(row, 0)));
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves {
            self.change(*to as usize, |group| group.merge(&later.groups[*from as usize]));
        }
    }

    fn column(&self, bound: &Bound) -> (ArrayRef, Vec<u32>) {
        let estimates = self.groups.iter().map(Group::estimate).collect();
        (Store::UInt(estimates).column(&bound.output, |_| false), Vec::new())
    }

    fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>() + self.bytes
    }

    fn write(&self, to: &mut Vec<u8>) {
        for group in &self.groups {
            match group {
                Group::Pairs(pairs) => {
                    put_len(to, pairs.len());
                    pairs.iter().for_each(|pair| to.extend_from_slice(&pair.to_le_bytes()));
                }
                Group::All(ranks) => {
                    put_len(to, u32::MAX as usize);
                    to.extend_from_slice(ranks);
                }
            }
        }
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        let wrong = || damaged("has a register that cannot be");
        for _ in counts {
            let group = match from.len()? {
                len if len == u32::MAX as usize => {
                    let ranks = from.take(REGISTERS)?;
                    if ranks.iter().any(|rank| *rank > RANK_MAX) {
                        return Err(wrong());
                    }
                    Group::All(ranks.into())
                }
                len if len <= PAIRS_MAX => {
                    let pairs = from.numbers(len, u32::from_le_bytes)?;
                    let is_one = |pair: &u32| {
                        (pair >> 8) < REGISTERS as u32 && (1..=RANK_MAX).contains(&(*pair as u8))
                    };
                    if !pairs.iter().all(is_one) || !pairs.is_sorted_by(|a, b| a >> 8 < b >> 8) {
                        return Err(wrong());
                    }
                    Group::Pairs(pairs)
                }
                _ => return Err(wrong()),
            };
            self.bytes += size_of_group(&group);
            self.groups.push(group);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
