//! What is probed together: sixteen entries of the index, or eight hashes.
//!
//! Owns how they are compared. Does not own what the bits of an entry mean (`index`), nor whose the hashes are (`pages`). A group of entries
//! is a cache line, and is filled from its front: the first empty entry ends it.

/// Entries of a group.
pub const ENTRIES: usize = 16;

/// No entry.
pub const EMPTY: u32 = 0;

/// The entries of one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Group(pub [u32; ENTRIES]);

impl Group {
    /// Without entries.
    pub const EMPTY: Self = Self([EMPTY; ENTRIES]);

    /// Bit `n` is set if entry `n` is `wanted` in the bits of `mask`.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn equal(&self, mask: u32, wanted: u32) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_cmpeq_epi32, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16,
            _mm_packs_epi32, _mm_set1_epi32,
        };
        let from: *const __m128i = self.0.as_ptr().cast();
        // SAFETY: SSE2 belongs to every x86-64. The group is 64 bytes and aligned to as many, so all four loads lie in it and are aligned.
        unsafe {
            let (mask, wanted) = (_mm_set1_epi32(mask.cast_signed()), _mm_set1_epi32(wanted.cast_signed()));
            let four = |n| _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(from.add(n)), mask), wanted);
            let (front, back) = (_mm_packs_epi32(four(0), four(1)), _mm_packs_epi32(four(2), four(3)));
            _mm_movemask_epi8(_mm_packs_epi16(front, back)).cast_unsigned()
        }
    }

    /// As above.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub fn equal(&self, mask: u32, wanted: u32) -> u32 {
        self.equal_one_by_one(mask, wanted)
    }

    /// [`equal`](Self::equal) in plain words.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn equal_one_by_one(&self, mask: u32, wanted: u32) -> u32 {
        self.0.iter().enumerate().map(|(n, entry)| u32::from(entry & mask == wanted) << n).sum()
    }

    /// Bit `n` is set if entry `n` is empty: the bits from the first empty one on.
    #[inline(always)]
    pub fn gaps(&self) -> u32 {
        // The compiler sees that this mask changes nothing.
        self.equal(u32::MAX, EMPTY)
    }

    /// Sorts the entries that are 0 in the bits of `stays` into two empty groups, by the last bit of those from number `at` on, which is
    /// left out; of the bits below `at` it keeps those of `mask`. How many they are.
    pub fn halve(&self, stays: u32, at: u32, mask: u32, to: &mut [Self; 2]) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if Wide::new().is_some() {
            // SAFETY: the processor has what the function needs, by the line before.
            return unsafe { self.halve_at_once(stays, at, mask, to) };
        }
        self.halve_one_by_one(stays, at, mask, to)
    }

    /// [`halve`](Self::halve) in some twenty instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn halve_at_once(&self, stays: u32, at: u32, mask: u32, to: &mut [Self; 2]) -> u32 {
        use std::arch::x86_64::{
            __m512i, _mm_cvtsi32_si128, _mm512_and_si512, _mm512_load_si512, _mm512_mask_test_epi32_mask,
            _mm512_mask_testn_epi32_mask, _mm512_maskz_compress_epi32, _mm512_or_si512, _mm512_set1_epi32,
            _mm512_sll_epi32, _mm512_srl_epi32, _mm512_store_si512, _mm512_test_epi32_mask,
        };
        let (all, count) =
            (|bits: u32| _mm512_set1_epi32(bits.cast_signed()), |n: u32| _mm_cvtsi32_si128(n.cast_signed()));
        let [even, odd] = to.each_mut().map(|group| group.0.as_mut_ptr().cast::<__m512i>());
        // SAFETY: a group is 64 bytes and aligned to as many, so the load and both stores lie in one each and are aligned.
        unsafe {
            let entries = _mm512_load_si512(self.0.as_ptr().cast());
            let goes =
                _mm512_mask_testn_epi32_mask(_mm512_test_epi32_mask(entries, entries), entries, all(stays));
            let is_odd = _mm512_mask_test_epi32_mask(goes, entries, all(1_u32.wrapping_shl(at)));
            let upper = _mm512_sll_epi32(_mm512_srl_epi32(entries, count(at + 1)), count(at));
            let moved = _mm512_or_si512(upper, _mm512_and_si512(entries, all(mask)));
            _mm512_store_si512(even, _mm512_maskz_compress_epi32(goes & !is_odd, moved));
            _mm512_store_si512(odd, _mm512_maskz_compress_epi32(is_odd, moved));
            goes.count_ones()
        }
    }

    /// [`halve`](Self::halve) in plain words.
    fn halve_one_by_one(&self, stays: u32, at: u32, mask: u32, to: &mut [Self; 2]) -> u32 {
        let goes = self.equal(stays, 0) & !self.gaps();
        let first_bit = 1_u32.wrapping_shl(at);
        let is_odd = self.equal(first_bit, first_bit) & goes;
        let moved =
            self.0.map(|entry| entry.wrapping_shr(at).wrapping_shr(1).wrapping_shl(at) | entry & mask);
        let ([even, odd], mut evens, mut odds) = (to, 0, 0);
        // Each entry goes behind both, and one of them counts it: which is even chances, too dear to be guessed wrong.
        for (n, entry) in moved.into_iter().enumerate() {
            even.0[evens % ENTRIES] = entry;
            odd.0[odds % ENTRIES] = entry;
            evens += ((goes & !is_odd) >> n & 1) as usize;
            odds += (is_odd >> n & 1) as usize;
        }
        for (group, len) in [(even, evens), (odd, odds)] {
            if let Some(behind) = group.0.get_mut(len) {
                *behind = EMPTY;
            }
        }
        goes.count_ones()
    }

    /// The entries in use.
    #[inline]
    pub fn entries(&self) -> &[u32] {
        let len = (self.gaps().trailing_zeros() as usize).min(ENTRIES);
        &self.0[..len]
    }
}

/// How the entries of a group are compared in the loop that every record goes through.
pub trait Compare: Copy {
    /// Which entries are `wanted` in the bits of `mask`, and which are empty.
    fn compare(self, group: &Group, mask: u32, wanted: u32) -> (u32, u32);
}

/// With what every processor has.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Compare for Plain {
    #[inline(always)]
    fn compare(self, group: &Group, mask: u32, wanted: u32) -> (u32, u32) {
        let gaps = group.gaps();
        (group.equal(mask, wanted) & !gaps, gaps)
    }
}

/// All entries at once: there is one only where the processor can.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Wide(());

#[cfg(target_arch = "x86_64")]
impl Wide {
    /// `None` if the processor cannot.
    #[inline]
    pub fn new() -> Option<Self> {
        use std::arch::is_x86_feature_detected as has;
        (has!("avx512f") && has!("bmi1") && has!("bmi2")).then_some(Self(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Compare for Wide {
    #[inline(always)]
    fn compare(self, group: &Group, mask: u32, wanted: u32) -> (u32, u32) {
        use std::arch::x86_64::{
            _mm512_and_si512, _mm512_load_si512, _mm512_mask_cmpeq_epi32_mask, _mm512_set1_epi32,
            _mm512_testn_epi32_mask,
        };
        // SAFETY: the processor can, or there would be no `self`. A group is 64 bytes and aligned to as many, so the load lies in it and is
        // aligned.
        unsafe {
            let entries = _mm512_load_si512(group.0.as_ptr().cast());
            let (mask, wanted) =
                (_mm512_set1_epi32(mask.cast_signed()), _mm512_set1_epi32(wanted.cast_signed()));
            let gaps = _mm512_testn_epi32_mask(entries, entries);
            let same = _mm512_mask_cmpeq_epi32_mask(!gaps, _mm512_and_si512(entries, mask), wanted);
            (u32::from(same), u32::from(gaps))
        }
    }
}

/// Hashes of a line: two cache lines, which the processor fetches together.
pub const LINE: usize = 8;

/// Eight hashes, little-endian.
pub type Line = [[u8; 16]; LINE];

/// Bit `4n` is set if hash `n` of a line is this one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn same_hashes(line: &Line, hash: u128) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
    };
    let (from, wanted) = (line.as_ptr().cast::<__m128i>(), hash.to_le_bytes());
    // SAFETY: SSE2 belongs to every x86-64. The line is eight times 16 bytes and `wanted` is 16, so all loads lie in them; they need not be
    // aligned.
    let quarters = unsafe {
        let wanted = _mm_loadu_si128(wanted.as_ptr().cast());
        let one = |n| _mm_cmpeq_epi32(_mm_loadu_si128(from.add(n)), wanted);
        let two = |n| _mm_packs_epi32(one(n), one(n + 1));
        let four = |n| _mm_movemask_epi8(_mm_packs_epi16(two(n), two(n + 2))).cast_unsigned();
        four(0) | four(4) << 16
    };
    // Four bits a hash, of which all must be set.
    let halves = quarters & quarters >> 1;
    halves & halves >> 2 & 0x1111_1111
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn same_hashes(line: &Line, hash: u128) -> u32 {
    same_hashes_one_by_one(line, hash)
}

/// [`same_hashes`] in plain words.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn same_hashes_one_by_one(line: &Line, hash: u128) -> u32 {
    line.iter().enumerate().map(|(n, other)| u32::from(u128::from_le_bytes(*other) == hash) << (4 * n)).sum()
}

/// Asks the processor to fetch the cache line of an address.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests;
