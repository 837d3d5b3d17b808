//! CityHash64 in the version 1.0.2, which ClickHouse has kept, for states that it shall go on with.
//!
//! Owns the function, by the lengths of what is hashed. The library that the native protocol's checksums use has it with 128 bits only. The
//! tests compare it with what the server says. Does not own what is kept of a hash (`accumulator::uniques`), nor the hashes by which keys
//! are found (`dedup::key`, `window::groups`).

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;
const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;

/// Bytes of a block of a long text.
const BLOCK: usize = 64;

/// Of any bytes.
pub(in crate::window::accumulator) fn hash(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => of_up_to_16(bytes),
        17..=32 => of_up_to_32(bytes),
        33..=BLOCK => of_up_to_64(bytes),
        _ => of_more(bytes),
    }
}

/// The eight bytes from `at` on.
fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn four(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")).into()
}

fn folded(value: u64) -> u64 {
    value ^ value >> 47
}

fn times(value: u64, constant: u64) -> u64 {
    value.wrapping_mul(constant)
}

fn sum<const N: usize>(values: [u64; N]) -> u64 {
    values.into_iter().fold(0, u64::wrapping_add)
}

/// Two numbers as one.
fn joined(low: u64, high: u64) -> u64 {
    let first = folded(times(low ^ high, MULTIPLIER));
    times(folded(times(high ^ first, MULTIPLIER)), MULTIPLIER)
}

fn of_up_to_16(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    match length {
        9.. => {
            let last = eight(bytes, length - 8);
            let turned = last.wrapping_add(length as u64).rotate_right(length as u32);
            joined(eight(bytes, 0), turned) ^ last
        }
        4.. => joined((length as u64).wrapping_add(four(bytes, 0) << 3), four(bytes, length - 4)),
        1.. => {
            let [first, middle, last] = [0, length / 2, length - 1].map(|at| u64::from(bytes[at]));
            let (low, high) = (first + (middle << 8), length as u64 + (last << 2));
            times(folded(times(low, K2) ^ times(high, K3)), K2)
        }
        0 => K2,
    }
}

fn of_up_to_32(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let a = times(eight(bytes, 0), K1);
    let b = eight(bytes, 8);
    let c = times(eight(bytes, length - 8), K2);
    let d = times(eight(bytes, length - 16), K0);
    let low = sum([a.wrapping_sub(b).rotate_right(43), c.rotate_right(30), d]);
    joined(low, sum([a, (b ^ K3).rotate_right(20), c.wrapping_neg(), length as u64]))
}

/// 32 bytes in two numbers, begun with two others.
fn half(words: [u64; 4], begin: u64, end: u64) -> (u64, u64) {
    let (mut a, mut c) = (begin, begin.rotate_right(37));
    let b = begin.wrapping_add(end).rotate_right(52);
    a = a.wrapping_add(words[1]);
    c = c.wrapping_add(a.rotate_right(7));
    a = a.wrapping_add(words[2]);
    (a.wrapping_add(end), sum([b, a.rotate_right(31), c]))
}

fn of_up_to_64(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let words = |from: usize| [0, 8, 16, 24].map(|at| eight(bytes, from + at));
    let (first, last) = (words(0), words(length - 32));
    let begin = first[0].wrapping_add(times((length as u64).wrapping_add(last[2]), K0));
    let (v0, v1) = half(first, begin, first[3]);
    let (w0, w1) = half(last, first[2].wrapping_add(last[0]), last[3]);
    let both = folded(times(v0.wrapping_add(w1), K2).wrapping_add(times(w0.wrapping_add(v1), K0)));
    times(folded(times(both, K0).wrapping_add(v1)), K2)
}

/// 32 bytes from `at` on, weakly hashed into two numbers.
fn weak(bytes: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let [w, x, y, z] = [0, 8, 16, 24].map(|word| eight(bytes, at + word));
    let a = a.wrapping_add(w);
    let b = sum([b, a, z]).rotate_right(21);
    let all = sum([a, x, y]);
    (all.wrapping_add(z), sum([b, all.rotate_right(44), a]))
}

fn of_more(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut x = eight(bytes, 0);
    let mut y = eight(bytes, length - 16) ^ K1;
    let mut z = eight(bytes, length - 56) ^ K0;
    let mut v = weak(bytes, length - 64, length as u64, y);
    let mut w = weak(bytes, length - 32, times(length as u64, K1), K0);
    z = z.wrapping_add(times(folded(v.1), K1));
    x = times(z.wrapping_add(x).rotate_right(39), K1);
    y = times(y.rotate_right(33), K1);
    for block in bytes[..(length - 1) / BLOCK * BLOCK].chunks_exact(BLOCK) {
        x = times(sum([x, y, v.0, eight(block, 16)]).rotate_right(37), K1) ^ w.1;
        y = times(sum([y, v.1, eight(block, 48)]).rotate_right(42), K1) ^ v.0;
        z = (z ^ w.0).rotate_right(33);
        v = weak(block, 0, times(v.1, K1), x.wrapping_add(w.0));
        w = weak(block, 32, z.wrapping_add(w.1), y);
        (x, z) = (z, x);
    }
    let low = sum([joined(v.0, w.0), times(folded(y), K1), z]);
    joined(low, joined(v.1, w.1).wrapping_add(x))
}

#[cfg(test)]
mod tests;
