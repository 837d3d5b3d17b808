//! The newest values of a column once more, as often as asked: what many rows share is read once.
//!
//! Owns the copying. Does not own what is shared ([`crate::otlp`]).

use arrow_array::ArrowPrimitiveType;

use super::{Bools, FixedBytes, Growing, Lists, Maps, Nulls, Primitives, Texts, offset};
use crate::columns::rules::{Fit, Misfit};

impl Nulls {
    /// The entries `from..len` so many times more.
    fn repeat(&mut self, from: usize, len: usize, times: usize) {
        if let Some(nulls) = &mut self.0 {
            for _ in 0..times {
                (from..len).for_each(|at| {
                    let is_valid = nulls.is_valid(at);
                    nulls.append(is_valid);
                });
            }
        }
    }
}

/// Appends to ascending offsets those behind number `from`, so many times more, each time moved on by the length of them all.
fn repeat_offsets(offsets: &mut Vec<i32>, from: usize, times: usize) -> Fit<()> {
    let (first, len) = (offsets[from], offsets.len());
    let span = i64::from(offsets[len - 1]) - i64::from(first);
    let end = i64::from(offsets[len - 1]) + span * times as i64;
    let _: i32 = i32::try_from(end).map_err(|_| Misfit::full())?;
    offsets.reserve((len - 1 - from) * times);
    for time in 1..=times as i64 {
        for at in from + 1..len {
            // Below `end`, which fits.
            let moved = i64::from(offsets[at]) + span * time;
            offsets.push(moved as i32);
        }
    }
    Ok(())
}

/// Appends the items behind number `from` so many times more.
fn repeat_items<T: Copy>(items: &mut Vec<T>, from: usize, times: usize) {
    let len = items.len();
    items.reserve((len - from) * times);
    match len - from {
        1 => items.resize(len + times, items[from]),
        _ => (0..times).for_each(|_| items.extend_from_within(from..len)),
    }
}

impl<A: ArrowPrimitiveType> Primitives<A> {
    /// Appends the values from number `from` on so many times more.
    pub fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.nulls.repeat(from, self.values.len(), times);
        repeat_items(&mut self.values, from, times);
        Ok(())
    }
}

impl Bools {
    /// As [`Primitives::repeat`].
    pub fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        let len = self.values.len();
        self.nulls.repeat(from, len, times);
        for _ in 0..times {
            (from..len).for_each(|at| {
                let value = self.values.get_bit(at);
                self.values.append(value);
            });
        }
        Ok(())
    }
}

impl Texts {
    /// As [`Primitives::repeat`]. After an error the column is as it was.
    pub fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        let start = self.offsets[from] as usize;
        let len = self.len();
        repeat_offsets(&mut self.offsets, from, times)?;
        self.nulls.repeat(from, len, times);
        repeat_items(&mut self.bytes, start, times);
        Ok(())
    }
}

impl FixedBytes {
    /// As [`Texts::repeat`].
    pub fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        let len = self.len();
        let more = (len - from).saturating_mul(self.width).saturating_mul(times);
        offset(self.bytes.len().saturating_add(more))?;
        self.nulls.repeat(from, len, times);
        repeat_items(&mut self.bytes, from * self.width, times);
        Ok(())
    }
}

impl<B: Growing + ?Sized> Lists<B> {
    /// As [`Primitives::repeat`]; `items` repeats items. After an error items may be left over, and [`Growing::truncate`] takes them away.
    pub fn repeat(
        &mut self,
        from: usize,
        times: usize,
        items: impl FnOnce(&mut B, usize, usize) -> Fit<()>,
    ) -> Fit<()> {
        let (len, start) = (self.len(), self.offsets[from] as usize);
        items(&mut self.items, start, times)?;
        repeat_offsets(&mut self.offsets, from, times)?;
        self.nulls.repeat(from, len, times);
        Ok(())
    }
}

impl<B: Growing + ?Sized> Maps<B> {
    /// As [`Lists::repeat`]; `parts` repeats keys and values.
    pub fn repeat(
        &mut self,
        from: usize,
        times: usize,
        mut parts: impl FnMut(&mut B, usize, usize) -> Fit<()>,
    ) -> Fit<()> {
        let (len, start) = (self.len(), self.offsets[from] as usize);
        parts(&mut self.keys, start, times)?;
        parts(&mut self.values, start, times)?;
        repeat_offsets(&mut self.offsets, from, times)?;
        self.nulls.repeat(from, len, times);
        Ok(())
    }
}
