//! Integers, floats, decimals and booleans.
//!
//! Owns the exact reading of a number's text: no integer or decimal ever passes through a float. Does not own the
//! grammar of JSON numbers ([`super::scan`]).
//!
//! | column          | takes                                              | turns down                                  |
//! |-----------------|----------------------------------------------------|---------------------------------------------|
//! | Int*, UInt*     | `7`, `-0`, `1e3`, `1.0`, `"7"`                     | `1.5`, what the type cannot hold, `true`    |
//! | Float32/64      | any number (nearest float), `"1.5"`, `"nan"`, `"inf"`, `"-inf"` | what overflows the type, or is nearer to 0 than to its smallest value |
//! | Decimal(p, s)   | `1.25`, `"1.25"`, `125e-2`                         | digits beyond the scale that are not zero, more digits than p |
//! | Bool            | `true`, `false`, `0`, `1`                          | everything else, text too                   |
//!
//! A number as text may have a sign and leading zeros, as ClickHouse takes it, but no space.

use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type};
use dataflow::Reason;

use super::columns::Rule;
use super::fail::{Fail, Step};
use super::scan::Cursor;

/// A number as it was written: `magnitude` times ten to the `exponent`, with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact {
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
pub(super) enum Whole {
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
pub(super) fn is_number_text(text: &[u8]) -> bool {
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
fn is_zero(text: &[u8]) -> bool {
    let mut digits = text.iter().take_while(|b| !matches!(b, b'e' | b'E'));
    !digits.any(|b| matches!(b, b'1'..=b'9'))
}

/// Steps over an integer of at most 18 digits without fraction or exponent; the usual one.
#[inline]
fn short_integer(cursor: &mut Cursor<'_>) -> Option<i64> {
    let rest = cursor.rest();
    let negative = rest.first() == Some(&b'-');
    let digits = &rest[negative as usize..];
    let mut value = 0i64;
    let mut count = 0;
    while let Some(digit) = digits.get(count).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        if count == 18 {
            return None;
        }
        value = value * 10 + digit as i64;
        count += 1;
    }
    let leading_zero = count > 1 && digits[0] == b'0';
    if count == 0 || leading_zero || matches!(digits.get(count), Some(b'.' | b'e' | b'E')) {
        return None;
    }
    cursor.advance(count + negative as usize);
    Some(if negative { -value } else { value })
}

/// Integers of the type `A`, from Int8 to UInt64.
pub(super) struct Integer<A> {
    /// The type's name and bounds, for messages.
    pub name: &'static str,
    pub min: i128,
    pub max: i128,
    pub of: PhantomData<fn() -> A>,
}

// Derived, this would ask `A: Clone` for nothing.
impl<A> Clone for Integer<A> {
    fn clone(&self) -> Self {
        Self { name: self.name, min: self.min, max: self.max, of: PhantomData }
    }
}

impl<A> Integer<A> {
    fn too_large(&self, at: usize) -> Box<Fail> {
        let rule = format!("does not fit {} ({} to {})", self.name, self.min, self.max);
        Fail::value(at, Reason::OutOfRange, rule)
    }

    fn exact(&self, text: &[u8], at: usize) -> Step<i128> {
        match Exact::read(text).map(|exact| exact.whole(0)) {
            Some(Whole::Value(value)) => Ok(value),
            Some(Whole::Fraction) => {
                let rule = format!("is not a whole number, and {} takes no other", self.name);
                Err(Fail::value(at, Reason::OutOfRange, rule))
            }
            Some(Whole::TooLarge) | None => Err(self.too_large(at)),
        }
    }
}

impl<A> Rule for Integer<A>
where
    A: ArrowPrimitiveType,
    A::Native: TryFrom<i64> + TryFrom<i128>,
{
    type Arrow = A;

    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let at = cursor.position();
        if let Some(value) = short_integer(cursor) {
            return A::Native::try_from(value).map_err(|_| self.too_large(at));
        }
        match cursor.peek() {
            b'-' | b'0'..=b'9' => {
                let value = self.exact(cursor.number()?, at)?;
                A::Native::try_from(value).map_err(|_| self.too_large(at))
            }
            b'"' => self.text(cursor.string(scratch)?, at),
            _ => Err(cursor.other_kind(at, self.name)),
        }
    }

    fn text(&self, text: &[u8], at: usize) -> Step<A::Native> {
        if !is_number_text(text) {
            return Err(Fail::kind(at, self.name));
        }
        A::Native::try_from(self.exact(text, at)?).map_err(|_| self.too_large(at))
    }
}

/// Float32 and Float64.
pub(super) struct Float<A> {
    of: PhantomData<fn() -> A>,
}

impl<A> Clone for Float<A> {
    fn clone(&self) -> Self {
        Self { of: PhantomData }
    }
}

impl<A> Default for Float<A> {
    fn default() -> Self {
        Self { of: PhantomData }
    }
}

/// The two widths of floats, as far as reading differs.
pub(super) trait Width: ArrowPrimitiveType {
    /// ClickHouse's name.
    const NAME: &'static str;
    /// The nearest float to a number's text; `None` if that is infinite.
    fn nearest(text: &str) -> Option<Self::Native>;
    /// NaN or an infinity.
    fn special(value: f32) -> Self::Native;
}

impl Width for Float32Type {
    const NAME: &'static str = "Float32";
    fn nearest(text: &str) -> Option<f32> {
        text.parse().ok().filter(|v: &f32| v.is_finite())
    }
    fn special(value: f32) -> f32 {
        value
    }
}

impl Width for Float64Type {
    const NAME: &'static str = "Float64";
    fn nearest(text: &str) -> Option<f64> {
        text.parse().ok().filter(|v: &f64| v.is_finite())
    }
    fn special(value: f32) -> f64 {
        value.into()
    }
}

impl<A: Width> Float<A> {
    fn nearest(&self, text: &[u8], at: usize) -> Step<A::Native> {
        let nearest = std::str::from_utf8(text).ok().and_then(A::nearest);
        match nearest {
            Some(value) if value == A::Native::default() && !is_zero(text) => {
                let rule = format!("is below the smallest {} and would become 0", A::NAME);
                Err(Fail::value(at, Reason::OutOfRange, rule))
            }
            Some(value) => Ok(value),
            None => Err(Fail::value(at, Reason::OutOfRange, format!("is beyond the largest {}", A::NAME))),
        }
    }
}

impl<A: Width> Rule for Float<A> {
    type Arrow = A;

    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let at = cursor.position();
        match cursor.peek() {
            b'-' | b'0'..=b'9' => self.nearest(cursor.number()?, at),
            b'"' => self.text(cursor.string(scratch)?, at),
            _ => Err(cursor.other_kind(at, A::NAME)),
        }
    }

    fn text(&self, text: &[u8], at: usize) -> Step<A::Native> {
        if is_number_text(text) {
            return self.nearest(text, at);
        }
        let (negative, word) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let infinite = [&b"inf"[..], b"infinity"].iter().any(|w| word.eq_ignore_ascii_case(w));
        match (infinite, negative) {
            (true, false) => Ok(A::special(f32::INFINITY)),
            (true, true) => Ok(A::special(f32::NEG_INFINITY)),
            (false, _) if word.eq_ignore_ascii_case(b"nan") => Ok(A::special(f32::NAN)),
            (false, _) => Err(Fail::kind(at, A::NAME)),
        }
    }
}

/// Decimal(precision, scale), at most 38 digits.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}

impl Decimal {
    fn name(&self) -> String {
        format!("Decimal({}, {})", self.precision, self.scale)
    }

    fn exact(&self, text: &[u8], at: usize) -> Step<i128> {
        let too_large = || {
            let rule = format!("does not fit {} ({} digits)", self.name(), self.precision);
            Fail::value(at, Reason::OutOfRange, rule)
        };
        let exact = Exact::read(text).ok_or_else(too_large)?;
        match exact.whole(self.scale.into()) {
            Whole::Value(value) if value.unsigned_abs() < 10u128.pow(self.precision.into()) => Ok(value),
            Whole::Value(_) | Whole::TooLarge => Err(too_large()),
            Whole::Fraction => {
                let rule =
                    format!("has more than the {} digits after the point of {}", self.scale, self.name());
                Err(Fail::value(at, Reason::OutOfRange, rule))
            }
        }
    }
}

impl Rule for Decimal {
    type Arrow = Decimal128Type;

    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<i128> {
        let at = cursor.position();
        match cursor.peek() {
            b'-' | b'0'..=b'9' => self.exact(cursor.number()?, at),
            b'"' => self.text(cursor.string(scratch)?, at),
            _ => Err(cursor.other_kind(at, &self.name())),
        }
    }

    fn text(&self, text: &[u8], at: usize) -> Step<i128> {
        if !is_number_text(text) {
            return Err(Fail::kind(at, &self.name()));
        }
        self.exact(text, at)
    }
}

/// Steps over a Bool.
pub(super) fn read_bool(cursor: &mut Cursor<'_>) -> Step<bool> {
    let at = cursor.position();
    match cursor.peek() {
        b't' => cursor.word("true").map(|()| true),
        b'f' => cursor.word("false").map(|()| false),
        b'-' | b'0'..=b'9' => bool_text(cursor.number()?, at),
        _ => Err(cursor.other_kind(at, "Bool")),
    }
}

/// A Bool from a number's text or a map's key.
pub(super) fn bool_text(text: &[u8], at: usize) -> Step<bool> {
    match text {
        b"0" | b"false" => Ok(false),
        b"1" | b"true" => Ok(true),
        _ => {
            Err(Fail::value(at, Reason::WrongKind, "is not one of true, false, 1 and 0, the values of Bool"))
        }
    }
}

#[cfg(test)]
mod tests;
