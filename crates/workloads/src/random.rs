//! Numbers from counters: each is a hash of what it is for, so that any of them can be had without those before it.
//!
//! Owns the mixing function. It is part of every workload's identity: changing it changes every published byte. Does not own the randomness
//! of tests (`testkit::random`) or of the simulation (`sim::random`).

/// The odd 64-bit constant nearest to 2^64 divided by the golden ratio: steps by it visit all values, far apart.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A one-to-one mixing of 64 bits in which every input bit moves about half of the output bits.
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `n`th number of the series `series`.
pub(crate) const fn nth(series: u64, n: u64) -> u64 {
    mix(series.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
}

/// A number of `0..bound` from evenly spread bits; `bound` is at least 1. The bias is below `bound` / 2^64.
pub(crate) const fn below(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}
