//! A row with what stands around it, as a request of its own.
//!
//! Owns the writing of such a request: a dead letter holds it, so that a replay reads that row alone; and of a request without some of its rows. Does not own which rows
//! are wanted.

use super::Signal;
use super::messages as m;
use super::wire::{Slots, Wire};

/// What stands around a row.
#[derive(Debug, Default)]
pub(super) struct Around<'a> {
    /// `ResourceLogs` or its like, and `ScopeLogs` or its like.
    pub resource: Slots<'a>,
    pub scope: Slots<'a>,
    /// The metric, and the data in it.
    pub metric: Slots<'a>,
    pub data: Slots<'a>,
    /// Bytes of each that a row repeats.
    pub resource_bytes: usize,
    pub scope_bytes: usize,
    pub metric_bytes: usize,
}

impl Around<'_> {
    /// Bytes of what stands around a row.
    pub fn bytes(&self) -> usize {
        self.resource_bytes + self.scope_bytes + self.metric_bytes
    }

    /// The request that holds this row of the kind `kind` and nothing else.
    pub fn request(&self, row: &[u8], kind: usize) -> Vec<u8> {
        let metric = (self.metric_bytes > 0 || self.metric.numbers[0] != 0).then(|| self.metric(row, kind));
        let scope = group(&self.scope, metric.as_deref().unwrap_or(row));
        let resource = group(&self.resource, &scope);
        let mut out = Vec::with_capacity(resource.len() + 6);
        sized(1, &resource, &mut out);
        out
    }

    fn metric(&self, row: &[u8], kind: usize) -> Vec<u8> {
        let (mut data, mut out) = (Vec::new(), Vec::new());
        sized(1, row, &mut data);
        for (number, field) in [(0, 2), (1, 3)] {
            if self.data.has(number) {
                varint(field << 3, &mut data);
                varint(self.data.numbers[usize::from(number)], &mut data);
            }
        }
        let texts = self.metric.texts.iter().take(3).zip(1..);
        texts.filter(|(text, _)| !text.is_empty()).for_each(|(text, field)| sized(field, text, &mut out));
        sized(m::metric::KINDS[kind], &data, &mut out);
        let metadata = &self.metric.lists[usize::from(m::metric::METADATA)];
        metadata.iter().for_each(|piece| sized(12, piece, &mut out));
        out
    }
}

/// A group with one thing in it.
fn group(group: &Slots<'_>, held: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    group.lists[m::ABOUT].iter().for_each(|piece| sized(1, piece, &mut out));
    sized(2, held, &mut out);
    if !group.texts[0].is_empty() {
        sized(3, group.texts[0], &mut out);
    }
    out
}

/// The fields of messages within each other that lead to rows.
fn path(signal: Signal) -> &'static [&'static [usize]] {
    match signal {
        Signal::Logs | Signal::Traces => &[&[1], &[2], &[2]],
        Signal::Metrics => &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]],
    }
}

/// A request, which was read, without the rows that begin at these bytes of it, in order. All else is as it was.
pub(super) fn without(signal: Signal, request: &[u8], rows: &[usize]) -> Vec<u8> {
    let mut left = rows.iter().copied().peekable();
    let begin = request.as_ptr() as usize;
    let mut is_left = |row: &[u8]| left.next_if_eq(&(row.as_ptr() as usize - begin)).is_some();
    copy_without(request, path(signal), &mut is_left).unwrap_or_else(|| request.to_vec())
}

/// A message without what `is_left` out, at the end of the path. `None` where the message cannot be read: no row of it was.
fn copy_without(
    message: &[u8],
    path: &[&[usize]],
    is_left: &mut impl FnMut(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let (fields, below) = path.split_first()?;
    let (mut rest, mut out) = (Wire(message), Vec::with_capacity(message.len()));
    while !rest.0.is_empty() {
        let from = rest.0;
        let (field, wire) = rest.key()?;
        if wire != 2 || !fields.contains(&field) {
            rest.skip(wire)?;
            out.extend_from_slice(&from[..from.len() - rest.0.len()]);
            continue;
        }
        let held = rest.sized()?;
        let inner = if below.is_empty() { None } else { copy_without(held, below, is_left) };
        match inner {
            Some(inner) => sized(field as u64, &inner, &mut out),
            None if below.is_empty() && is_left(held) => {}
            None => out.extend_from_slice(&from[..from.len() - rest.0.len()]),
        }
    }
    Some(out)
}

/// Appends a field of bytes.
pub(super) fn sized(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a number.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
