//! The exact reading of a number's text.
//!
//! Owns digits and exponent, so that no integer or decimal ever passes through a float. Does not own which numbers a column takes ([`super`]).

/// A number as it was written: `magnitude` times ten to the `exponent`, with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub negative: bool,
    /// Without trailing zeros (they are in the exponent); zero only if the number is.
    pub magnitude: u128,
    pub exponent: i64,
}

impl Exact {
    /// Reads a number's text whose form was checked; `None` if it has more significant digits than 128 bits hold.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let mut magnitude = 0u128;
        // Zeros are held back until a digit follows, so that a million trailing ones cost nothing.
        let mut zeros = 0u64;
        let mut fraction = 0i64;
        let mut in_fraction = false;
        let mut exponent = 0i64;
        for (n, byte) in digits.iter().enumerate() {
            match byte {
                b'.' => in_fraction = true,
                b'e' | b'E' => {
                    exponent = read_exponent(&digits[n + 1..]);
                    break;
                }
                digit => {
                    fraction += in_fraction as i64;
                    let digit = (digit - b'0') as u128;
                    if digit == 0 {
                        zeros += (magnitude != 0) as u64;
                        continue;
                    }
                    if magnitude != 0 {
                        let shift = u32::try_from(zeros + 1).ok()?;
                        magnitude = magnitude.checked_mul(10u128.checked_pow(shift)?)?;
                        zeros = 0;
                    }
                    magnitude = magnitude.checked_add(digit)?;
                }
            }
        }
        if magnitude == 0 {
            return Some(Self { negative, magnitude, exponent: 0 });
        }
        // The text is shorter than 2^63 and the exponent saturates far below it, so this cannot overflow.
        Some(Self { negative, magnitude, exponent: zeros as i64 - fraction + exponent })
    }

    /// The number `unscaled` times ten to the `exponent`.
    pub fn of(unscaled: i128, exponent: i64) -> Self {
        let (negative, mut magnitude, mut exponent) = (unscaled < 0, unscaled.unsigned_abs(), exponent);
        if magnitude == 0 {
            return Self { negative, magnitude, exponent: 0 };
        }
        while magnitude.is_multiple_of(10) {
            magnitude /= 10;
            exponent += 1;
        }
        Self { negative, magnitude, exponent }
    }

    /// The number times ten to the `shift`, if that is a whole number.
    pub fn whole(&self, shift: i64) -> Whole {
        let places = self.exponent + shift;
        if self.magnitude == 0 {
            return Whole::Value(0);
        }
        if places < 0 {
            return Whole::Fraction;
        }
        let value = u32::try_from(places)
            .ok()
            .and_then(|places| 10u128.checked_pow(places))
            .and_then(|scale| self.magnitude.checked_mul(scale))
            .and_then(|value| i128::try_from(value).ok());
        match value {
            Some(value) => Whole::Value(if self.negative { -value } else { value }),
            None => Whole::TooLarge,
        }
    }

    /// The number times ten to the `shift`, rounded towards minus infinity; `None` beyond 128 bits.
    pub fn floor(&self, shift: i64) -> Option<i128> {
        match self.whole(shift) {
            Whole::Value(value) => Some(value),
            Whole::TooLarge => None,
            Whole::Fraction => {
                let places = u32::try_from(-(self.exponent + shift)).ok();
                let whole = match places.and_then(|places| 10u128.checked_pow(places)) {
                    Some(scale) => (self.magnitude / scale) as i128,
                    None => 0,
                };
                Some(if self.negative { -whole - 1 } else { whole })
            }
        }
    }
}

/// What [`Exact::whole`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Value(i128),
    /// Digits are left behind the point.
    Fraction,
    /// Beyond 127 bits.
    TooLarge,
}

/// The digits of an exponent; saturates at a billion, beyond which every number is out of every range.
fn read_exponent(text: &[u8]) -> i64 {
    const BOUND: i64 = 1_000_000_000;
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let value = digits.iter().fold(0i64, |sum, d| (sum * 10 + (d - b'0') as i64).min(BOUND));
    if negative { -value } else { value }
}

/// True if a string's content is a number in the form that ClickHouse takes.
pub(crate) fn is_number_text(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> (usize, &[u8]) {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        (count, &text[count..])
    }
    fn unsigned(text: &[u8]) -> &[u8] {
        match text {
            [b'-' | b'+', rest @ ..] => rest,
            rest => rest,
        }
    }
    let (count, mut rest) = digits(unsigned(text));
    if count == 0 {
        return false;
    }
    if let [b'.', fraction @ ..] = rest {
        let (count, after) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let (count, after) = digits(unsigned(exponent));
        return count > 0 && after.is_empty();
    }
    rest.is_empty()
}

/// Whether a number's text is zero: no digit before its exponent is another.
#[cold]
pub(super) fn is_zero(text: &[u8]) -> bool {
    let mut digits = text.iter().take_while(|b| !matches!(b, b'e' | b'E'));
    !digits.any(|b| matches!(b, b'1'..=b'9'))
}
