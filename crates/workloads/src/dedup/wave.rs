//! The cosine, the same to the last bit on every machine: the system's own may round otherwise elsewhere, and rows would differ.
//!
//! Owns the series and its precision. Does not own what is made of it (`dedup`).

use std::f64::consts::{PI, TAU};

/// The cosine of an angle from 0 to some thousands, to about 12 decimals.
pub(super) fn cos(angle: f64) -> f64 {
    // Between -π and π, where the series below needs no more than its 14 terms.
    let turned = angle - (angle / TAU).floor() * TAU;
    let x = if turned > PI { turned - TAU } else { turned };
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..=14 {
        let n = f64::from(n);
        term *= -x * x / ((2.0 * n - 1.0) * (2.0 * n));
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::cos;

    #[test]
    fn it_is_the_cosine() {
        for n in 0..400_000_u32 {
            let angle = f64::from(n) / 1_000.0;
            assert!((cos(angle) - angle.cos()).abs() < 1e-11, "{angle}");
        }
    }
}
