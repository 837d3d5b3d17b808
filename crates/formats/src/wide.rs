//! Sixteen bytes in one step: what ends a run of plain text, and hex digits.
//!
//! Owns the two ways to do it: by the vector instructions that every x86-64 processor has (SSE2), and plainly for all others. The tests
//! compare them. Does not own what the bytes mean: the callers are `json::scan` and `columns::text_types`. `unsafe` says here that those
//! instructions are there, and nothing else.

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain::{hex, special};
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::{hex, special};

#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    /// One bit a byte, from the lowest: set where the byte is a quote, a backslash or a control byte.
    pub fn special(bytes: &[u8; 16]) -> u32 {
        let is_special = |b: u8| b < 0x20 || b == b'"' || b == b'\\';
        (0..16).fold(0, |mask, at| mask | u32::from(is_special(bytes[at])) << at)
    }

    /// The bytes that 32 hex digits stand for; the digits come as little-endian words.
    pub fn hex(words: [u64; 4]) -> Option<[u8; 16]> {
        let mut digits = [0; 32];
        for (digits, word) in digits.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *digits = word.to_le_bytes();
        }
        let mut out = [0; 16];
        for (byte, pair) in out.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|c| (c as char).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(out)
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cvtsi128_si64, _mm_min_epu8,
        _mm_movemask_epi8, _mm_or_si128, _mm_packus_epi16, _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi16,
        _mm_slli_epi16, _mm_srli_epi16, _mm_sub_epi8, _mm_unpackhi_epi64,
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn words(low: u64, high: u64) -> __m128i {
        _mm_set_epi64x(high as i64, low as i64)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn all(byte: u8) -> __m128i {
        _mm_set1_epi8(byte as i8)
    }

    /// Set where an unsigned byte is `max` or less.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn at_most(bytes: __m128i, max: u8) -> __m128i {
        _mm_cmpeq_epi8(_mm_min_epu8(bytes, all(max)), bytes)
    }

    /// One bit a byte, from the lowest: set where the byte is a quote, a backslash or a control byte.
    #[inline]
    pub fn special(bytes: &[u8; 16]) -> u32 {
        // SAFETY: every x86-64 processor has SSE2, and the program is built for that.
        unsafe { special_by_vector(bytes) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn special_by_vector(bytes: &[u8; 16]) -> u32 {
        let whole = u128::from_le_bytes(*bytes);
        let bytes = words(whole as u64, (whole >> 64) as u64);
        let quote = _mm_cmpeq_epi8(bytes, all(b'"'));
        let slash = _mm_cmpeq_epi8(bytes, all(b'\\'));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), at_most(bytes, 0x1f))) as u32
    }

    /// The bytes that 32 hex digits stand for; the digits come as little-endian words.
    #[inline]
    pub fn hex(digits: [u64; 4]) -> Option<[u8; 16]> {
        // SAFETY: every x86-64 processor has SSE2, and the program is built for that.
        unsafe { hex_by_vector(digits) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn hex_by_vector([a, b, c, d]: [u64; 4]) -> Option<[u8; 16]> {
        let ((first, is_first), (last, is_last)) = (nibbles(words(a, b)), nibbles(words(c, d)));
        if _mm_movemask_epi8(_mm_and_si128(is_first, is_last)) != 0xffff {
            return None;
        }
        let bytes = _mm_packus_epi16(paired(first), paired(last));
        let high = _mm_unpackhi_epi64(bytes, bytes);
        let (low, high) = (_mm_cvtsi128_si64(bytes) as u64, _mm_cvtsi128_si64(high) as u64);
        Some((u128::from(low) | u128::from(high) << 64).to_le_bytes())
    }

    /// The value of each digit, and where there is one.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn nibbles(digits: __m128i) -> (__m128i, __m128i) {
        let number = _mm_sub_epi8(digits, all(b'0'));
        let letter = _mm_sub_epi8(_mm_or_si128(digits, all(0x20)), all(b'a'));
        let (is_number, is_letter) = (at_most(number, 9), at_most(letter, 5));
        let letter = _mm_and_si128(_mm_add_epi8(letter, all(10)), is_letter);
        (_mm_or_si128(_mm_and_si128(number, is_number), letter), _mm_or_si128(is_number, is_letter))
    }

    /// The byte of each pair of digits, in the lower half of a 16-bit word.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn paired(nibbles: __m128i) -> __m128i {
        let joined = _mm_or_si128(_mm_slli_epi16::<4>(nibbles), _mm_srli_epi16::<8>(nibbles));
        _mm_and_si128(joined, _mm_set1_epi16(0xff))
    }
}

#[cfg(test)]
mod tests;
