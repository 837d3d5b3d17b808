//! A set of 64-bit numbers in 13.5 bits each, that errs on one side only.
//!
//! Owns a binary fuse filter (Graf and Lemire, 2022) with fingerprints of 12 bits: a number that was put in is always said to be
//! there, another one is with probability 1/4096. Eight bits would save half a byte a key and make one new key in a dozen read a
//! file when twenty filters are asked; sixteen would pass the bound of two bytes a key. Does not own where its bytes are kept.
//!
//! Each number has three places, in three neighbouring segments of the array; the exclusive or of what stands there is its
//! fingerprint. To build it, places that one number alone uses are looked for, that number is put aside, and so on until none is
//! left; then the array is filled in the reverse order. That fails once in a while, hence the seed.

/// Bits of a fingerprint.
const BITS: usize = 12;

const MASK: u16 = (1 << BITS) - 1;

/// Seeds tried. Each fails with a probability far below 1/2 unless numbers repeat, which they do not.
const SEEDS_MAX: u64 = 64;

/// The widest segment: beyond it places lie further apart without being found sooner.
const SEGMENT_BITS_MAX: u32 = 18;

/// The filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fuse {
    seed: u64,
    /// log2 of the slots in a segment.
    segment_bits: u32,
    /// Segments in which a first place can lie; the array has two more.
    segments: u32,
    /// Packed fingerprints, with one byte more so that two can always be loaded at once.
    slots: Box<[u8]>,
}

impl Fuse {
    /// The filter of these numbers, in any order; repetitions are taken once. `None` if no seed will do.
    pub fn build(numbers: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let mut mixed = Vec::new();
        for seed in 0..SEEDS_MAX {
            mixed.clear();
            mixed.extend(numbers.clone().map(|number| mix(number, seed)));
            // In the order of their first places, so that the walks below stay in the cache. `mix` maps one to one, so equal ones
            // were equal before.
            mixed.sort_unstable();
            mixed.dedup();
            let mut filter = Self::empty(mixed.len(), seed);
            if filter.fill(&mixed) {
                return Some(filter);
            }
        }
        None
    }

    fn empty(numbers: usize, seed: u64) -> Self {
        let n = numbers.max(2) as f64;
        // Both formulas are the paper's, found by trial. What they give is written down with the filter, so that no reader
        // depends on how a machine rounds.
        let segment_bits = ((n.ln() / 3.33_f64.ln() + 2.25).floor() as u32).clamp(2, SEGMENT_BITS_MAX);
        let factor = (0.875 + 0.25 * 1_000_000_f64.ln() / n.ln()).max(1.125);
        let slots = (n * factor).round() as u64;
        let segments = slots.div_ceil(1 << segment_bits).saturating_sub(2).max(1);
        let segments = u32::try_from(segments).expect("a part has far fewer than 2^32 keys");
        let bytes = slot_bytes(segment_bits, segments).expect("a part has far fewer than 2^32 keys");
        Self { seed, segment_bits, segments, slots: vec![0; bytes].into() }
    }

    /// False if these numbers cannot be put in with this seed.
    fn fill(&mut self, mixed: &[u64]) -> bool {
        let slots = (self.segments as usize + 2) << self.segment_bits;
        // How many numbers use a slot, and the exclusive or of them: with one left, that is the number.
        let mut users = vec![(0_u32, 0_u64); slots];
        for number in mixed {
            for place in self.places(*number) {
                users[place].0 += 1;
                users[place].1 ^= number;
            }
        }
        let mut alone: Vec<u32> = (0..slots as u32).filter(|s| users[*s as usize].0 == 1).collect();
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(mixed.len());
        while let Some(slot) = alone.pop() {
            let (count, number) = users[slot as usize];
            if count != 1 {
                continue;
            }
            order.push((number, slot));
            for place in self.places(number) {
                let user = &mut users[place];
                user.0 -= 1;
                user.1 ^= number;
                if user.0 == 1 {
                    alone.push(place as u32);
                }
            }
        }
        if order.len() != mixed.len() {
            return false;
        }
        for (number, slot) in order.iter().rev() {
            let [a, b, c] = self.places(*number);
            // The slot itself is still 0, so it does not matter which of the three it is.
            let value = fingerprint(*number) ^ self.get(a) ^ self.get(b) ^ self.get(c);
            self.set(*slot as usize, value);
        }
        true
    }

    /// True if the number may be in the set; never false for one that is.
    #[inline]
    pub fn may_hold(&self, number: u64) -> bool {
        let mixed = mix(number, self.seed);
        let [a, b, c] = self.places(mixed);
        fingerprint(mixed) == self.get(a) ^ self.get(b) ^ self.get(c)
    }

    /// Asks the processor to fetch what [`may_hold`](Self::may_hold) will inspect.
    #[inline]
    pub fn prefetch(&self, number: u64) {
        for place in self.places(mix(number, self.seed)) {
            crate::dedup::group::prefetch(self.slots[place * BITS / 8..].as_ptr());
        }
    }

    #[inline]
    fn places(&self, mixed: u64) -> [usize; 3] {
        let starts = u64::from(self.segments) << self.segment_bits;
        let first = ((u128::from(mixed) * u128::from(starts)) >> 64) as usize;
        let (segment, inside) = (1_usize << self.segment_bits, (1_u64 << self.segment_bits) - 1);
        let second = (first + segment) ^ ((mixed >> 18) & inside) as usize;
        let third = (first + 2 * segment) ^ (mixed & inside) as usize;
        [first, second, third]
    }

    #[inline]
    fn get(&self, slot: usize) -> u16 {
        let bit = slot * BITS;
        let pair = [self.slots[bit / 8], self.slots[bit / 8 + 1]];
        (u16::from_le_bytes(pair) >> (bit % 8)) & MASK
    }

    fn set(&mut self, slot: usize, value: u16) {
        let bit = slot * BITS;
        let pair: &mut [u8] = &mut self.slots[bit / 8..bit / 8 + 2];
        let shift = bit % 8;
        let old = u16::from_le_bytes([pair[0], pair[1]]) & !(MASK << shift);
        pair.copy_from_slice(&(old | value << shift).to_le_bytes());
    }

    /// Seed, log2 of a segment's slots, segments, and the packed fingerprints: what [`from_parts`](Self::from_parts) takes.
    pub fn parts(&self) -> (u64, u8, u32, &[u8]) {
        (self.seed, self.segment_bits as u8, self.segments, &self.slots)
    }

    /// A filter from its parts; `None` if they do not fit each other.
    pub fn from_parts(seed: u64, segment_bits: u8, segments: u32, slots: &[u8]) -> Option<Self> {
        let segment_bits = u32::from(segment_bits);
        let fits = (2..=SEGMENT_BITS_MAX).contains(&segment_bits)
            && segments > 0
            && slot_bytes(segment_bits, segments) == Some(slots.len());
        fits.then(|| Self { seed, segment_bits, segments, slots: slots.into() })
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.len()
    }
}

/// Bytes of the packed array.
fn slot_bytes(segment_bits: u32, segments: u32) -> Option<usize> {
    let slots = (u64::from(segments) + 2) << segment_bits;
    usize::try_from((slots * BITS as u64).div_ceil(8) + 1).ok()
}

fn fingerprint(mixed: u64) -> u16 {
    ((mixed ^ (mixed >> 32)) as u16) & MASK
}

/// Spreads a number over all bits, one to one, otherwise for each seed.
#[inline]
fn mix(number: u64, seed: u64) -> u64 {
    let mut z = number.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

#[cfg(test)]
mod tests;
