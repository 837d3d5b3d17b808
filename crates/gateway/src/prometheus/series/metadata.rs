//! What remote write says of metrics as a whole.
//!
//! Owns their records, and how many are refused. Does not own those of series ([`super`]).

use std::io::Write;

use super::{FAMILIES_MAX, FAMILY_BYTES_MAX, METADATA_BYTES_MAX, Out, RECORD_BYTES};
use crate::prometheus::labels::NO_SYMBOL;
use crate::quoting::{quote, quoted_bytes};
use crate::refusal::Refusal;
use crate::wire::{Fields, Value};

/// Of a family that has too much of it.
const TOO_LONG: &str = "the metadata of a family is longer than 64 KiB";

impl<'a> Out<'a> {
    pub(super) fn metadata_of_one(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let (mut kind, mut name, mut help, mut unit) = (0, &b""[..], &b""[..], &b""[..]);
        let mut fields = Fields::of("MetricMetadata", bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Varint(value)) => kind = value,
                (2, Value::Bytes(bytes)) => name = bytes,
                (4, Value::Bytes(bytes)) => help = bytes,
                (5, Value::Bytes(bytes)) => unit = bytes,
                (1 | 2 | 4 | 5, _) => return Err(fields.unexpected(field)),
                _ => {}
            }
        }
        self.metadata(kind, name, help, unit)
    }

    pub(super) fn metadata_of_two(&mut self, bytes: &[u8], symbols: &[&'a [u8]]) -> Result<(), Refusal> {
        let (mut kind, mut help, mut unit) = (0, 0, 0);
        let mut fields = Fields::of("Metadata", bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Varint(value)) => kind = value,
                (3, Value::Varint(value)) => help = u32::try_from(value).unwrap_or(u32::MAX),
                (4, Value::Varint(value)) => unit = u32::try_from(value).unwrap_or(u32::MAX),
                (1 | 3 | 4, _) => return Err(fields.unexpected(field)),
                _ => {}
            }
        }
        if (kind, help, unit) == (0, 0, 0) {
            return Ok(());
        }
        let name =
            self.labels.iter().find(|(name, _)| *name == b"__name__").map_or(&b""[..], |(_, name)| *name);
        // Before it is compared with others, as labels are.
        if name.len() > METADATA_BYTES_MAX {
            return self.refuse(TOO_LONG);
        }
        let family = (name, kind, help, unit);
        let is_compared = name.len() <= FAMILY_BYTES_MAX;
        if is_compared && self.families.contains(&family) {
            return Ok(());
        }
        let text = |number: u32| symbols.get(number as usize).copied();
        let (Some(help), Some(unit)) = (text(help), text(unit)) else { return self.refuse(NO_SYMBOL) };
        if is_compared && self.families.len() < FAMILIES_MAX {
            self.families.insert(family);
        }
        self.metadata(kind, name, help, unit)
    }

    pub(super) fn metadata(
        &mut self,
        kind: u64,
        name: &[u8],
        help: &[u8],
        unit: &[u8],
    ) -> Result<(), Refusal> {
        if name.len() + help.len() + unit.len() > METADATA_BYTES_MAX {
            return self.refuse(TOO_LONG);
        }
        let kind = match kind {
            0 => "unknown",
            1 => "counter",
            2 => "gauge",
            3 => "histogram",
            4 => "gaugehistogram",
            5 => "summary",
            6 => "info",
            7 => "stateset",
            _ => return self.refuse("a family is of an unknown type"),
        };
        self.written.metadata += 1;
        let bytes = quoted_bytes(name) + quoted_bytes(help) + quoted_bytes(unit);
        self.rows.push_with(bytes + RECORD_BYTES, |out| {
            out.extend_from_slice(b"{\"kind\":\"metadata\",\"name\":");
            quote(out, name);
            // Writing into memory does not fail.
            let _ = write!(out, ",\"type\":\"{kind}\",\"help\":");
            quote(out, help);
            out.extend_from_slice(b",\"unit\":");
            quote(out, unit);
            out.push(b'}');
        })
    }
}
