//! Single values of JSON, by the type of their column.
//!
//! Owns what JSON's grammar says about a type: which tokens it takes, and the ways to read the usual ones in one step. Does not own what a
//! number's or a string's text means ([`crate::columns`]).

use arrow_array::ArrowPrimitiveType;

use super::fail::{Fail, Step};
use super::scan::Cursor;
use crate::columns::{Date, Decimal, Enum, Fit, Float, Integer, Ipv4, Native, Rule, Time, Width, bool_text};

/// How a value at a cursor becomes one entry of a primitive Arrow array.
pub(super) trait Read: Rule {
    /// Steps over a value. `scratch` holds the text of strings with escapes. What is remembered of the value changes no later one.
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<Native<Self>>;
}

/// What a rule says of the value that starts at `at`.
#[inline(always)]
fn at<T>(fit: Fit<T>, at: usize) -> Step<T> {
    fit.map_err(|misfit| Fail::misfit(at, *misfit))
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

impl<A> Read for Integer<A>
where
    A: ArrowPrimitiveType,
    A::Native: TryFrom<i64> + TryFrom<i128>,
{
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let start = cursor.position();
        if let Some(value) = short_integer(cursor) {
            return at(self.signed(value), start);
        }
        match cursor.peek() {
            b'-' | b'0'..=b'9' => at(self.number(cursor.number()?), start),
            b'"' => at(self.text(cursor.string(scratch)?), start),
            _ => Err(cursor.other_kind(start, self.name)),
        }
    }
}

impl<A: Width> Read for Float<A> {
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let start = cursor.position();
        match cursor.peek() {
            b'-' | b'0'..=b'9' => at(self.nearest(cursor.number()?), start),
            b'"' => at(self.text(cursor.string(scratch)?), start),
            _ => Err(cursor.other_kind(start, A::NAME)),
        }
    }
}

impl Read for Decimal {
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<i128> {
        let start = cursor.position();
        match cursor.peek() {
            b'-' | b'0'..=b'9' => at(self.number(cursor.number()?), start),
            b'"' => at(self.text(cursor.string(scratch)?), start),
            _ => Err(cursor.other_kind(start, &self.name())),
        }
    }
}

impl<A: ArrowPrimitiveType<Native = i64>> Read for Time<A> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<i64> {
        let start = cursor.position();
        if let Some(second) = shortcut(self, cursor) {
            return at(self.second(second), start);
        }
        match cursor.peek() {
            b'"' => at(self.text(cursor.string(scratch)?), start),
            b'-' | b'0'..=b'9' => at(self.number(cursor.number()?), start),
            _ => Err(cursor.other_kind(start, &self.type_name())),
        }
    }
}

/// Steps over `"YYYY-MM-DD hh:mm:ss"` in UTC without searching for its end; `None` leaves the cursor alone.
#[inline]
fn shortcut<A: ArrowPrimitiveType<Native = i64>>(time: &mut Time<A>, cursor: &mut Cursor<'_>) -> Option<i64> {
    let quoted = cursor.ahead::<21>()?;
    if quoted[0] != b'"' || quoted[20] != b'"' {
        return None;
    }
    let second = time.plain(quoted[1..20].first_chunk()?)?;
    cursor.advance(21);
    Some(second)
}

impl Read for Date {
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<i32> {
        let start = cursor.position();
        match cursor.peek() {
            b'"' => at(self.text(cursor.string(scratch)?), start),
            _ => Err(cursor.other_kind(start, self.name)),
        }
    }
}

impl Read for Ipv4 {
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<u32> {
        let start = cursor.position();
        match cursor.peek() {
            b'"' => at(self.text(cursor.string(scratch)?), start),
            _ => Err(cursor.other_kind(start, &self.type_name())),
        }
    }
}

impl<A> Read for Enum<A>
where
    A: ArrowPrimitiveType,
    A::Native: Ord + TryFrom<i128>,
{
    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let start = cursor.position();
        match cursor.peek() {
            b'"' => at(self.text(cursor.string(scratch)?), start),
            b'-' | b'0'..=b'9' => at(self.number(cursor.number()?), start),
            _ => Err(cursor.other_kind(start, &self.type_name())),
        }
    }
}

/// Steps over a Bool. A quoted text is none.
pub(super) fn bool_value(cursor: &mut Cursor<'_>) -> Step<bool> {
    let start = cursor.position();
    match cursor.peek() {
        b't' => cursor.word("true").map(|()| true),
        b'f' => cursor.word("false").map(|()| false),
        b'-' | b'0'..=b'9' => at(bool_text(cursor.number()?), start),
        _ => Err(cursor.other_kind(start, "Bool")),
    }
}

#[cfg(test)]
mod tests;
