//! Pipelines with two inputs, which share the partitions of the topic between them.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own what an input reads
//! ([`crate::broker::SimSource`]).

use super::Plan;
use crate::random::Random;

/// The names of the inputs in the pipeline file.
pub const NAMES: [&str; 2] = ["even", "odd"];

impl Plan {
    pub(super) fn draw_inputs(&mut self) {
        let mut random = Random::new(self.seed, 8);
        if random.percent(20) && self.partitions > 1 {
            self.part_between_inputs();
        }
    }

    /// Two inputs share the partitions; one of them has none until a second partition is there.
    pub(super) fn part_between_inputs(&mut self) {
        self.inputs = 2;
    }

    /// The place of the input that reads a partition.
    pub fn input_of(&self, partition: usize) -> usize {
        partition % self.inputs as usize
    }
}
