//! Randomness of tests that a seed repeats.
//!
//! Owns the generator, and the seed of a test run (`FOREBAY_SEED`). Does not own the simulation's randomness, which comes from its plan
//! (`sim::random`).

use std::time::{SystemTime, UNIX_EPOCH};

/// A linear congruential generator (Knuth's MMIX constants): the same seed gives the same numbers on every machine.
/// Good enough to choose moments and sizes in tests; not for statistics, not for secrets.
#[derive(Debug, Clone)]
pub struct Lcg(u64);

impl Lcg {
    /// A generator that repeats for equal seeds.
    pub fn new(seed: u64) -> Lcg {
        let mut lcg = Lcg(seed);
        lcg.next_u64(); // Neighbouring seeds begin alike otherwise.
        lcg
    }

    /// 64 bits. The low half of a step repeats quickly, so two steps give their high halves.
    pub fn next_u64(&mut self) -> u64 {
        (u64::from(self.step()) << 32) | u64::from(self.step())
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` calls on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    fn step(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

/// The seed of this test run: `FOREBAY_SEED` (decimal) or the clock. Printed, so that a failure can be repeated.
///
/// # Panics
/// When `FOREBAY_SEED` is set and is not a number: a typing error must not silently run another seed.
pub fn seed() -> u64 {
    let seed = match std::env::var("FOREBAY_SEED") {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("FOREBAY_SEED is `{text}`, not a number")),
        Err(_) => clock_seed(),
    };
    println!("testkit: FOREBAY_SEED={seed}");
    seed
}

/// A number that differs from run to run, for names that nothing depends on.
pub(crate) fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests;
