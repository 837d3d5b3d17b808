//! A row with what stands around it, as a request of its own.
//!
//! Owns the writing of such a request: a dead letter holds it, so that a replay reads that row alone. Does not own which rows are wanted.

use super::messages as m;
use super::wire::Slots;

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
