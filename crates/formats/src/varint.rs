//! Numbers of seven bits a byte, eight bytes at a time: as Avro and Protocol Buffers write them.
//!
//! Owns the arithmetic. Does not own where such a number may end.

/// The highest bit of each byte: set in all bytes of a number but its last.
pub(crate) const CONTINUES: u64 = 0x8080_8080_8080_8080;

/// The number whose sign is in the lowest bit.
#[inline(always)]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The groups of seven bits in a word's lowest bytes, up to the one whose highest bit is the lowest in `ends`, put together.
#[inline(always)]
pub(crate) fn sevens(word: u64, ends: u64) -> u64 {
    // All bits below the end's.
    let word = word & (ends ^ (ends - 1)) & !CONTINUES;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0000_0000_0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}
