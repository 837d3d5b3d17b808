//! Integers, floats, decimals and booleans.
//!
//! Owns the exact reading of a number's text: no integer or decimal ever passes through a float. Does not own the
//! grammar of a format's numbers. The texts here are as JSON writes them, in quotes or not; [`super::rules`] has the other kinds.
//!
//! | column          | takes                                              | turns down                                  |
//! |-----------------|----------------------------------------------------|---------------------------------------------|
//! | Int*, UInt*     | `7`, `-0`, `1e3`, `1.0`, `"7"`                     | `1.5`, what the type cannot hold, `true`    |
//! | Float32/64      | any number (nearest float), `"1.5"`, `"nan"`, `"inf"`, `"-inf"` | what overflows the type, or is nearer to 0 than to its smallest value |
//! | Decimal(p, s)   | `1.25`, `"1.25"`, `125e-2`                         | digits beyond the scale that are not zero, more digits than p |
//! | Bool            | `true`, `false`, `0`, `1`                          | everything else, text too                   |
//!
//! A number as text may have a sign and leading zeros, as ClickHouse takes it, but no space.

mod exact;

use std::borrow::Cow;
use std::io::Write;
use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type};

use super::rules::{Fit, Misfit, Rule};
use exact::is_zero;
pub(crate) use exact::{Exact, Whole, is_number_text};

/// Integers of the type `A`, from Int8 to UInt64.
pub(crate) struct Integer<A> {
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
    #[cold]
    pub fn too_large(&self) -> Box<Misfit> {
        Misfit::range(format!("does not fit {} ({} to {})", self.name, self.min, self.max))
    }

    #[cold]
    fn fraction(&self) -> Box<Misfit> {
        Misfit::range(format!("is not a whole number, and {} takes no other", self.name))
    }

    fn whole(&self, exact: Option<Exact>) -> Fit<i128> {
        match exact.map(|exact| exact.whole(0)) {
            Some(Whole::Value(value)) => Ok(value),
            Some(Whole::Fraction) => Err(self.fraction()),
            Some(Whole::TooLarge) | None => Err(self.too_large()),
        }
    }
}

impl<A> Integer<A>
where
    A: ArrowPrimitiveType,
    A::Native: TryFrom<i64> + TryFrom<i128>,
{
    /// The value of a number's text whose form was checked.
    pub fn number(&self, text: &[u8]) -> Fit<A::Native> {
        A::Native::try_from(self.whole(Exact::read(text))?).map_err(|_| self.too_large())
    }
}

impl<A> Rule for Integer<A>
where
    A: ArrowPrimitiveType,
    A::Native: TryFrom<i64> + TryFrom<i128>,
{
    type Arrow = A;

    fn type_name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    fn text(&self, text: &[u8]) -> Fit<A::Native> {
        if !is_number_text(text) {
            return Err(Misfit::kind(self.name));
        }
        self.number(text)
    }

    #[inline]
    fn signed(&self, value: i64) -> Fit<A::Native> {
        A::Native::try_from(value).map_err(|_| self.too_large())
    }

    fn float(&self, value: f64) -> Fit<A::Native> {
        if value.is_finite() && value.fract() != 0.0 {
            return Err(self.fraction());
        }
        // A whole float within 127 bits is that very integer; what is beyond them is beyond every type, and so is what is no number.
        let whole = Some(value as i128).filter(|whole| value.is_finite() && *whole as f64 == value);
        whole.and_then(|whole| A::Native::try_from(whole).ok()).ok_or_else(|| self.too_large())
    }

    fn decimal(&self, value: Exact) -> Fit<A::Native> {
        A::Native::try_from(self.whole(Some(value))?).map_err(|_| self.too_large())
    }

    fn date(&self, days: i32) -> Fit<A::Native> {
        self.signed(days.into())
    }

    fn timestamp(&self, ticks: i64, _digits: u8) -> Fit<A::Native> {
        self.signed(ticks)
    }

    fn local_timestamp(&self, ticks: i64, _digits: u8) -> Fit<A::Native> {
        self.signed(ticks)
    }
}

/// Float32 and Float64.
pub(crate) struct Float<A> {
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
pub(crate) trait Width: ArrowPrimitiveType {
    /// ClickHouse's name.
    const NAME: &'static str;
    /// The nearest float to a number's text; `None` if that is infinite.
    fn nearest(text: &str) -> Option<Self::Native>;
    /// The nearest float to an integer.
    fn of_integer(value: i64) -> Self::Native;
    /// The nearest float to a wider one, NaN and infinities among them; `None` if only the nearest is infinite.
    fn of_float(value: f64) -> Option<Self::Native>;
}

impl Width for Float32Type {
    const NAME: &'static str = "Float32";
    fn nearest(text: &str) -> Option<f32> {
        text.parse().ok().filter(|v: &f32| v.is_finite())
    }
    #[inline(always)]
    fn of_integer(value: i64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn of_float(value: f64) -> Option<f32> {
        let nearest = value as f32;
        (nearest.is_infinite() == value.is_infinite()).then_some(nearest)
    }
}

impl Width for Float64Type {
    const NAME: &'static str = "Float64";
    fn nearest(text: &str) -> Option<f64> {
        text.parse().ok().filter(|v: &f64| v.is_finite())
    }
    #[inline(always)]
    fn of_integer(value: i64) -> f64 {
        value as f64
    }
    #[inline(always)]
    fn of_float(value: f64) -> Option<f64> {
        Some(value)
    }
}

impl<A: Width> Float<A> {
    #[cold]
    fn too_small(&self) -> Box<Misfit> {
        Misfit::range(format!("is below the smallest {} and would become 0", A::NAME))
    }

    #[cold]
    fn too_large(&self) -> Box<Misfit> {
        Misfit::range(format!("is beyond the largest {}", A::NAME))
    }

    /// The value of a number's text whose form was checked.
    pub fn nearest(&self, text: &[u8]) -> Fit<A::Native> {
        let nearest = std::str::from_utf8(text).ok().and_then(A::nearest);
        match nearest {
            Some(value) if value == A::Native::default() && !is_zero(text) => Err(self.too_small()),
            Some(value) => Ok(value),
            None => Err(self.too_large()),
        }
    }
}

impl<A: Width> Rule for Float<A> {
    type Arrow = A;

    fn type_name(&self) -> Cow<'static, str> {
        A::NAME.into()
    }

    fn text(&self, text: &[u8]) -> Fit<A::Native> {
        if is_number_text(text) {
            return self.nearest(text);
        }
        let (negative, word) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let infinite = [&b"inf"[..], b"infinity"].iter().any(|w| word.eq_ignore_ascii_case(w));
        let special = match (infinite, negative) {
            (true, false) => Some(f64::INFINITY),
            (true, true) => Some(f64::NEG_INFINITY),
            (false, _) => word.eq_ignore_ascii_case(b"nan").then_some(f64::NAN),
        };
        special.and_then(A::of_float).ok_or_else(|| Misfit::kind(A::NAME))
    }

    #[inline]
    fn signed(&self, value: i64) -> Fit<A::Native> {
        Ok(A::of_integer(value))
    }

    #[inline]
    fn float(&self, value: f64) -> Fit<A::Native> {
        match A::of_float(value) {
            Some(nearest) if nearest == A::Native::default() && value != 0.0 => Err(self.too_small()),
            Some(nearest) => Ok(nearest),
            None => Err(self.too_large()),
        }
    }

    fn decimal(&self, value: Exact) -> Fit<A::Native> {
        // The longest: a sign, 39 digits, `e`, a sign and 19 digits.
        let mut text = [0; 64];
        let mut rest = &mut text[..];
        let sign = if value.negative { "-" } else { "" };
        write!(rest, "{sign}{}e{}", value.magnitude, value.exponent).map_err(|_| self.too_large())?;
        let written = 64 - rest.len();
        self.nearest(&text[..written])
    }
}

/// Decimal(precision, scale), at most 38 digits.
#[derive(Clone, Debug)]
pub(crate) struct Decimal {
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}

impl Decimal {
    /// The type's name.
    pub fn name(&self) -> String {
        format!("Decimal({}, {})", self.precision, self.scale)
    }

    #[cold]
    fn too_large(&self) -> Box<Misfit> {
        Misfit::range(format!("does not fit {} ({} digits)", self.name(), self.precision))
    }

    /// The value of a number's text whose form was checked.
    pub fn number(&self, text: &[u8]) -> Fit<i128> {
        self.exact(Exact::read(text).ok_or_else(|| self.too_large())?)
    }

    fn exact(&self, exact: Exact) -> Fit<i128> {
        match exact.whole(self.scale.into()) {
            Whole::Value(value) if value.unsigned_abs() < 10u128.pow(self.precision.into()) => Ok(value),
            Whole::Value(_) | Whole::TooLarge => Err(self.too_large()),
            Whole::Fraction => Err(Misfit::range(format!(
                "has more than the {} digits after the point of {}",
                self.scale,
                self.name()
            ))),
        }
    }
}

impl Rule for Decimal {
    type Arrow = Decimal128Type;

    fn type_name(&self) -> Cow<'static, str> {
        self.name().into()
    }

    fn text(&self, text: &[u8]) -> Fit<i128> {
        if !is_number_text(text) {
            return Err(Misfit::kind(&self.name()));
        }
        self.number(text)
    }

    fn signed(&self, value: i64) -> Fit<i128> {
        self.exact(Exact::of(value.into(), 0))
    }

    fn decimal(&self, value: Exact) -> Fit<i128> {
        self.exact(value)
    }
}

/// A Bool from a number's text, a word, or a map's key.
pub(crate) fn bool_text(text: &[u8]) -> Fit<bool> {
    match text {
        b"0" | b"false" => Ok(false),
        b"1" | b"true" => Ok(true),
        _ => Err(no_bool()),
    }
}

/// A Bool from an integer.
#[inline]
pub(crate) fn bool_number(value: i64) -> Fit<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(no_bool()),
    }
}

#[cold]
fn no_bool() -> Box<Misfit> {
    Misfit::form("is not one of true, false, 1 and 0, the values of Bool")
}

#[cfg(test)]
mod tests;
