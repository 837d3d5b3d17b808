//! Native histograms: buckets in spans, as counts or as deltas between them, become two lists of equal length for each sign. Pure.
//!
//! Owns what makes a histogram one. Does not own the record that it stands in (`prometheus::series`), nor classic histograms, whose buckets
//! are series of their own. The bounds of a bucket follow from its index and the schema: for schema `s` its upper bound is
//! `2^(index / 2^s)`, and for schema -53 it is the item of `custom_bounds` at that index.

use std::io::Write;

use super::series::{number, timestamps, write_float};
use crate::refusal::Refusal;
use crate::wire::{Fields, Value, varint, zigzag};

/// Buckets of one sign, or custom bounds, of a histogram. Prometheus' own default is 160 in all.
const BUCKETS_MAX: usize = 10_000;

/// What a value is that marks the end of a series.
pub(super) const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A histogram as it is sent. Kept from one to the next for its memory.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    pub(super) timestamp: i64,
    pub(super) start: i64,
    count: Count,
    zero_count: Count,
    sum: f64,
    schema: i64,
    zero_threshold: f64,
    reset_hint: u64,
    negative: Buckets,
    positive: Buckets,
    custom_bounds: Vec<f64>,
    is_too_large: bool,
}

/// An integer or a float: which one says which kind of histogram it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    Int(u64),
    Float(f64),
}

impl Default for Count {
    fn default() -> Self {
        Self::Int(0)
    }
}

/// The buckets of one sign.
#[derive(Debug, Default)]
struct Buckets {
    /// Gap and length of each span.
    spans: Vec<(i64, u64)>,
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

impl Buckets {
    fn clear(&mut self) {
        self.spans.clear();
        self.deltas.clear();
        self.counts.clear();
    }
}

impl Histogram {
    /// Reads a histogram, in place of what was here.
    ///
    /// # Errors
    /// When it is no message.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.negative.clear();
        self.positive.clear();
        self.custom_bounds.clear();
        let Self { negative, positive, custom_bounds, .. } = std::mem::take(self);
        *self = Self { negative, positive, custom_bounds, ..Self::default() };
        let mut fields = Fields::of("Histogram", bytes);
        while let Some((field, value)) = fields.next()? {
            let is_read = match (field, value) {
                (1, Value::Varint(count)) => number(&mut self.count, Count::Int(count)),
                (2, Value::Fixed64(bits)) => number(&mut self.count, Count::Float(f64::from_bits(bits))),
                (3, Value::Fixed64(bits)) => number(&mut self.sum, f64::from_bits(bits)),
                (4, Value::Varint(schema)) => number(&mut self.schema, zigzag(schema)),
                (5, Value::Fixed64(bits)) => number(&mut self.zero_threshold, f64::from_bits(bits)),
                (6, Value::Varint(count)) => number(&mut self.zero_count, Count::Int(count)),
                (7, Value::Fixed64(bits)) => number(&mut self.zero_count, Count::Float(f64::from_bits(bits))),
                (8, Value::Bytes(bytes)) => self.span(bytes, false)?,
                (9, value) => deltas(value, &mut self.negative.deltas, &mut self.is_too_large),
                (10, value) => floats(value, &mut self.negative.counts, &mut self.is_too_large),
                (11, Value::Bytes(bytes)) => self.span(bytes, true)?,
                (12, value) => deltas(value, &mut self.positive.deltas, &mut self.is_too_large),
                (13, value) => floats(value, &mut self.positive.counts, &mut self.is_too_large),
                (14, Value::Varint(hint)) => number(&mut self.reset_hint, hint),
                (15, Value::Varint(time)) => number(&mut self.timestamp, time.cast_signed()),
                (16, value) => floats(value, &mut self.custom_bounds, &mut self.is_too_large),
                (17, Value::Varint(time)) => number(&mut self.start, time.cast_signed()),
                (1..=17, _) => None,
                _ => Some(()),
            };
            is_read.ok_or_else(|| fields.unexpected(field))?;
        }
        Ok(())
    }

    fn span(&mut self, bytes: &[u8], is_positive: bool) -> Result<Option<()>, Refusal> {
        let spans = if is_positive { &mut self.positive.spans } else { &mut self.negative.spans };
        let (mut gap, mut length) = (0, 0);
        let mut fields = Fields::of("BucketSpan", bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Varint(value)) => gap = zigzag(value),
                (2, Value::Varint(value)) => length = value,
                (1 | 2, _) => return Err(fields.unexpected(field)),
                _ => {}
            }
        }
        match spans.len() < BUCKETS_MAX {
            true => spans.push((gap, length)),
            false => self.is_too_large = true,
        }
        Ok(Some(()))
    }

    fn is_float(&self) -> bool {
        matches!(self.count, Count::Float(_))
    }

    /// Appends its fields as JSON, each with a comma before it.
    ///
    /// # Errors
    /// Why it is no histogram; what was written then is to be thrown away.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.is_too_large {
            return Err("a histogram has more than 10000 buckets");
        }
        if matches!(self.zero_count, Count::Float(_)) != self.is_float()
            && self.zero_count != Count::default()
        {
            return Err("a histogram counts in integers and in floats at the same time");
        }
        timestamps(out, self.timestamp, self.start);
        let hint = match self.reset_hint {
            0 => "unknown",
            1 => "yes",
            2 => "no",
            3 => "gauge",
            _ => return Err("a histogram has an unknown `reset_hint`"),
        };
        // Writing into memory does not fail.
        let _ = write!(
            out,
            ",\"schema\":{},\"is_float\":{},\"reset_hint\":\"{hint}\"",
            self.schema,
            self.is_float()
        );
        write_count(out, "count", self.count);
        write_count(out, "zero_count", self.zero_count);
        for (name, value) in [("sum", self.sum), ("zero_threshold", self.zero_threshold)] {
            let _ = write!(out, ",\"{name}\":");
            write_float(out, value);
        }
        if self.sum.to_bits() == STALE {
            out.extend_from_slice(b",\"stale\":true");
        }
        self.buckets(out, "negative", &self.negative)?;
        self.buckets(out, "positive", &self.positive)?;
        out.extend_from_slice(b",\"custom_bounds\":");
        list(out, self.custom_bounds.iter(), |out, bound| write_float(out, *bound));
        Ok(())
    }

    fn buckets(&self, out: &mut Vec<u8>, sign: &str, buckets: &Buckets) -> Result<(), &'static str> {
        let Buckets { spans, deltas, counts } = buckets;
        let (here, others) =
            if self.is_float() { (counts.len(), deltas.len()) } else { (deltas.len(), counts.len()) };
        let length = spans.iter().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length));
        if others > 0 || length != Some(here as u64) {
            return Err("a histogram has other buckets than its spans say");
        }
        let _ = write!(out, ",\"{sign}_indexes\":");
        let mut end = 0_i64;
        let indexes = spans.iter().flat_map(|(gap, length)| {
            let begin = end.saturating_add(*gap);
            end = begin.saturating_add_unsigned(*length);
            begin..end
        });
        list(out, indexes, |out, index| drop(write!(out, "{index}")));
        let _ = write!(out, ",\"{sign}_counts\":");
        if self.is_float() {
            list(out, counts.iter(), |out, count| write_float(out, *count));
            return Ok(());
        }
        // The first delta is a count, each other one the step from the count before.
        let mut count = 0_i64;
        let absolute = deltas.iter().map(|delta| {
            count = count
                .checked_add(*delta)
                .filter(|count| *count >= 0)
                .ok_or("a histogram has a bucket of less than nothing")?;
            Ok(count)
        });
        let absolute: Vec<i64> = absolute.collect::<Result<_, &'static str>>()?;
        list(out, absolute.iter(), |out, count| drop(write!(out, "{count}")));
        Ok(())
    }
}

fn write_count(out: &mut Vec<u8>, name: &str, count: Count) {
    let _ = write!(out, ",\"{name}\":");
    match count {
        Count::Int(count) => drop(write!(out, "{count}")),
        Count::Float(count) => write_float(out, count),
    }
}

fn list<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Reads integers with signs, packed or one alone; `None` if they are none.
fn deltas(value: Value<'_>, into: &mut Vec<i64>, is_too_large: &mut bool) -> Option<()> {
    let mut one = |value: u64| match into.len() < BUCKETS_MAX {
        true => into.push(zigzag(value)),
        false => *is_too_large = true,
    };
    match value {
        Value::Varint(value) => one(value),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                one(varint(&mut packed)?);
            }
        }
        Value::Fixed32(_) | Value::Fixed64(_) => return None,
    }
    Some(())
}

/// Reads floats, packed or one alone; `None` if they are none.
fn floats(value: Value<'_>, into: &mut Vec<f64>, is_too_large: &mut bool) -> Option<()> {
    let mut one = |bits: u64| match into.len() < BUCKETS_MAX {
        true => into.push(f64::from_bits(bits)),
        false => *is_too_large = true,
    };
    match value {
        Value::Fixed64(bits) => one(bits),
        Value::Bytes(packed) => {
            let (items, rest) = packed.as_chunks::<8>();
            items.iter().for_each(|item| one(u64::from_le_bytes(*item)));
            if !rest.is_empty() {
                return None;
            }
        }
        Value::Fixed32(_) | Value::Varint(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
