//! Spilling and merging, one part at a time.
//!
//! Owns what is read, computed and written for a new run. Does not own the bytes of a file (`part`), the choice of the runs to merge
//! (`runs`), nor when work begins (`durable`). Runs beside the lane: it works on copies (of pairs) and on what never changes (files), and
//! what it made counts only once the step has adopted it. If the process ends before, the files are nobody's and are collected.

use std::any::Any;
use std::sync::Arc;

use dataflow::operator::{Given, Need, StateWork};
use dataflow::{StateError, StateRead};

use super::Sizes;
use super::part::{Pair, Part, bits_for};
use super::runs::{Dead, Parts, Run};

/// What a new run is made of.
enum From {
    /// Pairs that are in memory.
    Memory(Vec<Pair>),
    /// Runs, and the floor below which nothing counts any more.
    Runs(Vec<Run>, i64),
}

/// Where the work stands.
enum At {
    /// Before the part of this number.
    Part(u32),
    /// The part's pairs are being read.
    Reading(u32, Vec<(usize, Arc<Part>, std::ops::Range<u32>)>),
    /// The part is being written.
    Writing(u32, Part),
    Done,
}

/// A run under construction.
pub struct Work {
    from: From,
    sizes: Sizes,
    part_bits: u8,
    parts: Parts,
    at: At,
}

/// What came of it.
pub struct Made {
    /// log2 of the number of parts.
    pub part_bits: u8,
    /// The new run's parts.
    pub parts: Parts,
    /// The runs that it replaces, with what was dead in them when the work began; empty for a spill.
    pub replaces: Vec<(u64, Dead)>,
}

impl Work {
    /// Closes pairs; none twice.
    pub fn spill(pairs: Vec<Pair>, sizes: Sizes) -> Self {
        let part_bits = bits_for(pairs.len() as u64, sizes.part_pairs);
        Self { from: From::Memory(pairs), sizes, part_bits, parts: Vec::new(), at: At::Part(0) }
    }

    /// Merges runs, without what is dead or lies below `floor`.
    pub fn merge(runs: Vec<Run>, floor: i64, sizes: Sizes) -> Self {
        let pairs = runs.iter().map(|run| run.live(floor)).sum();
        let part_bits = bits_for(pairs, sizes.part_pairs);
        Self { from: From::Runs(runs, floor), sizes, part_bits, parts: Vec::new(), at: At::Part(0) }
    }

    /// What was made, once it is done.
    pub fn made(self) -> Option<Made> {
        let replaces = match self.from {
            From::Memory(_) => Vec::new(),
            From::Runs(runs, _) => runs.into_iter().map(|run| (run.id, run.dead)).collect(),
        };
        matches!(self.at, At::Done).then_some(Made { part_bits: self.part_bits, parts: self.parts, replaces })
    }

    /// Goes on with part `number`, the last one having been dealt with.
    fn part(&mut self, mut number: u32) -> Need {
        loop {
            if u64::from(number) >> self.part_bits != 0 {
                self.at = At::Done;
                if let From::Memory(pairs) = &mut self.from {
                    *pairs = Vec::new();
                }
                return Need::Done;
            }
            if let From::Runs(runs, _) = &self.from {
                let (plan, reads) = plan(runs, self.part_bits, number);
                if !reads.is_empty() {
                    self.at = At::Reading(number, plan);
                    return Need::Read(reads);
                }
            } else if let Some(write) = self.close_part(number) {
                return write;
            }
            self.parts.push(None);
            number += 1;
        }
    }

    /// The pairs are sorted when the first part is made; each part then takes its own from the front.
    fn close_part(&mut self, number: u32) -> Option<Need> {
        let From::Memory(pairs) = &mut self.from else { return None };
        if number == 0 {
            pairs.sort_unstable();
            pairs.dedup();
        }
        let of = |pair: &Pair| part_of(pair.hash(), self.part_bits);
        let (first, end) =
            (pairs.partition_point(|p| of(p) < number), pairs.partition_point(|p| of(p) <= number));
        if first == end {
            return None;
        }
        let built = Part::build(self.part_bits, number, &pairs[first..end], self.sizes.block_pairs);
        self.at = At::Writing(number, built.part);
        Some(Need::Write(built.bytes))
    }

    fn merge_part(
        &mut self,
        number: u32,
        plan: &[(usize, Arc<Part>, std::ops::Range<u32>)],
        answers: &[Vec<u8>],
    ) -> Result<Need, StateError> {
        let From::Runs(runs, floor) = &self.from else {
            return Err(StateError::Damaged("pairs were read for a spill".to_owned()));
        };
        let mut pairs =
            Vec::with_capacity(plan.iter().map(|(_, part, blocks)| part.pairs_in(blocks.clone())).sum());
        for ((run, part, blocks), bytes) in plan.iter().zip(answers) {
            let dead = &runs[*run].dead;
            let is_dead = |p: &Pair| dead.get(&p.bucket).is_some_and(|hashes| hashes.contains(&p.hash()));
            part.each(blocks.clone(), bytes, |pair| {
                if pair.bucket >= *floor && part_of(pair.hash(), self.part_bits) == number && !is_dead(&pair)
                {
                    pairs.push(pair);
                }
            })?;
        }
        // Some sorted lists one after the other: the stable sort finds and merges them.
        pairs.sort();
        pairs.dedup();
        if pairs.is_empty() {
            self.parts.push(None);
            return Ok(self.part(number + 1));
        }
        let built = Part::build(self.part_bits, number, &pairs, self.sizes.block_pairs);
        self.at = At::Writing(number, built.part);
        Ok(Need::Write(built.bytes))
    }
}

/// The number of a hash's part.
fn part_of(hash: u128, bits: u8) -> u32 {
    if bits == 0 { 0 } else { (hash >> (128 - u32::from(bits))) as u32 }
}

/// Which blocks of which parts hold the hashes of the new part `number`.
#[allow(clippy::type_complexity, reason = "the type is used in one place")]
fn plan(
    runs: &[Run],
    bits: u8,
    number: u32,
) -> (Vec<(usize, Arc<Part>, std::ops::Range<u32>)>, Vec<StateRead>) {
    let (mut plan, mut reads) = (Vec::new(), Vec::new());
    let mut add = |run: usize, part: &Option<Arc<Part>>, blocks: std::ops::Range<u32>| {
        if let Some(part) = part
            && let Some(read) = part.read(blocks.clone())
        {
            plan.push((run, part.clone(), blocks));
            reads.push(read);
        }
    };
    for (index, run) in runs.iter().enumerate() {
        if run.part_bits >= bits {
            let finer = run.part_bits - bits;
            for part in number << finer..(number + 1) << finer {
                let part = &run.parts[part as usize];
                add(index, part, 0..part.as_ref().map_or(0, |p| p.blocks()));
            }
        } else {
            let coarser = bits - run.part_bits;
            let Some(part) = &run.parts[(number >> coarser) as usize] else { continue };
            let inside = number & ((1 << coarser) - 1);
            let blocks = u64::from(part.blocks());
            // The new part's share of the old one, in blocks; a share of less than a block takes the block.
            let first = (u64::from(inside) * blocks) >> coarser;
            let end = ((u64::from(inside) + 1) * blocks).div_ceil(1 << coarser);
            add(index, &Some(part.clone()), first as u32..end as u32);
        }
    }
    (plan, reads)
}

impl StateWork for Work {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (std::mem::replace(&mut self.at, At::Done), given) {
            (At::Part(number), _) => Ok(self.part(number)),
            (At::Reading(number, plan), Given::Read(answers)) if plan.len() == answers.len() => {
                self.merge_part(number, &plan, &answers)
            }
            (At::Writing(number, mut part), Given::Written(object)) => {
                part.object = object;
                self.parts.push(Some(Arc::new(part)));
                Ok(self.part(number + 1))
            }
            (At::Done, _) => Ok(Need::Done),
            (At::Reading(..) | At::Writing(..), _) => {
                Err(StateError::Damaged("a run's work was answered with what it did not ask for".to_owned()))
            }
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
