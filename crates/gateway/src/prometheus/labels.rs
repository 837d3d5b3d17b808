//! Labels: pairs of texts, as they stand in 1.0 or as numbers of a table in 2.0, and their JSON. Pure.
//!
//! Owns their bounds, and what makes labels good. Does not own the escapes of JSON (`gateway::quoting`), nor the labels of Loki
//! (`loki::labels`). Nothing is copied before a record is written.

use std::collections::BTreeSet;

use crate::quoting::{quote, quoted_bytes};
use crate::refusal::Refusal;
use crate::wire::{Fields, Value, varint};

/// Labels of a series, or of an exemplar.
pub(super) const LABELS_MAX: usize = 1_000;
/// Bytes of their names and values.
pub(super) const LABEL_BYTES_MAX: usize = 64 << 10;

/// A name and a value.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Of a series that has too many.
pub(super) const TOO_MANY: &str = "it has more than 1000 labels";
/// Of a number that stands for no text.
pub(super) const NO_SYMBOL: &str = "it names a text that the request's table does not have";

/// The numbers of texts in the request's table, of which two make a label.
#[derive(Default)]
pub(super) struct Refs<'a> {
    name: Option<&'a [u8]>,
    fault: Option<&'static str>,
}

impl<'a> Refs<'a> {
    /// Reads numbers, packed or one alone; `None` if they are none.
    pub(super) fn read(
        &mut self,
        value: Value<'_>,
        symbols: &[&'a [u8]],
        labels: &mut Vec<Pair<'a>>,
    ) -> Option<()> {
        match value {
            Value::Varint(number) => self.one(number, symbols, labels),
            Value::Bytes(mut packed) => {
                while !packed.is_empty() {
                    self.one(varint(&mut packed)?, symbols, labels);
                }
            }
            Value::Fixed32(_) | Value::Fixed64(_) => return None,
        }
        Some(())
    }

    fn one(&mut self, number: u64, symbols: &[&'a [u8]], labels: &mut Vec<Pair<'a>>) {
        let text = usize::try_from(number).ok().and_then(|number| symbols.get(number));
        let Some(text) = text else {
            self.fault = Some(NO_SYMBOL);
            return;
        };
        match self.name.take() {
            None => self.name = Some(text),
            Some(name) if !push(labels, (name, text)) => self.fault = Some(TOO_MANY),
            Some(_) => {}
        }
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        self.fault.or(self.name.map(|_| "it has a label without a value"))
    }
}

/// Adds a label; false if there are too many.
pub(super) fn push<'a>(labels: &mut Vec<Pair<'a>>, label: Pair<'a>) -> bool {
    let fits = labels.len() < LABELS_MAX;
    if fits {
        labels.push(label);
    }
    fits
}

/// A label of 1.0.
pub(super) fn label(bytes: &[u8]) -> Result<Pair<'_>, Refusal> {
    let (mut name, mut value): Pair<'_> = (b"", b"");
    let mut fields = Fields::of("Label", bytes);
    while let Some((field, of)) = fields.next()? {
        match (field, of) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            (1 | 2, _) => return Err(fields.unexpected(field)),
            _ => {}
        }
    }
    Ok((name, value))
}

/// Sorts labels; why they are none. Those that are too long are not compared: a few bytes of 2.0 name a long text of its table, and a request that names
/// it in every label would take hours.
pub(super) fn fault(labels: &mut [Pair<'_>]) -> Option<&'static str> {
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > LABEL_BYTES_MAX {
        return Some("its labels are longer than 64 KiB");
    }
    labels.sort_unstable();
    if labels.first().is_some_and(|(name, _)| name.is_empty()) {
        return Some("it has a label without a name");
    }
    let is_twice = labels.windows(2).any(|pair| pair[0].0 == pair[1].0) || meet_once_replaced(labels);
    is_twice.then_some("it has a label twice")
}

/// Whether two names are the same text once what is not UTF-8 in them is replaced, which they are in a record.
fn meet_once_replaced(labels: &[Pair<'_>]) -> bool {
    if labels.iter().all(|(name, _)| std::str::from_utf8(name).is_ok()) {
        return false;
    }
    let mut seen = BTreeSet::new();
    !labels.iter().all(|(name, _)| seen.insert(String::from_utf8_lossy(name)))
}

/// Appends labels as a JSON object.
pub(super) fn object<'a>(out: &mut Vec<u8>, labels: impl Iterator<Item = &'a Pair<'a>>) {
    out.push(b'{');
    for (place, (name, value)) in labels.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        quote(out, name);
        out.push(b':');
        quote(out, value);
    }
    out.push(b'}');
}

/// Bytes that [`object`] appends.
pub(super) fn object_bytes(labels: &[Pair<'_>]) -> usize {
    2 + labels.iter().map(|(name, value)| quoted_bytes(name) + quoted_bytes(value) + 2).sum::<usize>()
}

#[cfg(test)]
mod tests;
