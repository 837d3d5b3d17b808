//! The series of both messages of remote write, as records. Pure.
//!
//! Owns the record of each part, what is left out, and how much may be. Does not own labels (`prometheus::labels`), buckets
//! (`prometheus::histogram`), or the routes and answers (`prometheus`).
//!
//! ```json
//! {"kind":"sample","name":"up","labels":{"job":"api"},"timestamp":1700000000000,"value":1.0}
//! {"kind":"histogram","name":"latency","labels":{},"timestamp":1700000000000,"schema":3,"count":7,"sum":1.5,"positive_indexes":[1,2],"positive_counts":[4,3],…}
//! {"kind":"exemplar","name":"hits","labels":{},"timestamp":1700000000000,"value":1.0,"exemplar_labels":{"trace_id":"a1"}}
//! {"kind":"metadata","name":"hits","type":"counter","help":"…","unit":""}
//! ```
//!
//! Times are milliseconds since 1970. A sample that ends its series has `"stale":true` and the value `"nan"`; `start_timestamp` is there if it was sent.
//!
//! A body that is no message is refused whole. A series, or a part of one, that is none (a label twice, a text that 2.0's table does not have, buckets that do not
//! match) is left out, and the others are taken. Labels of a series are rendered once, and only if one of its records is written.

mod metadata;

use std::collections::BTreeSet;
use std::io::Write;

use super::histogram::{Histogram, STALE};
use super::labels::{Pair, Refs, TOO_MANY, fault, label, object, object_bytes, push};
use crate::budget::Held;
use crate::quoting::quote;
use crate::records::{Parsed, Rows};
use crate::refusal::{Kind, Refusal};
use crate::wire::{Fields, Value, malformed};

/// Bytes of the description of a family, with its name and unit.
const METADATA_BYTES_MAX: usize = 64 << 10;

/// Parts that are left out of one request before all of it is refused: looking at them is work for nothing.
const REFUSED_MAX: u64 = 1_000;

/// Families of one request whose metadata is written once in 2.0, where every series carries it.
const FAMILIES_MAX: usize = 10_000;

/// Bytes of a family's name that is compared with others. One that is longer is written each time that it comes, which the bounds on records end: a series
/// of ten bytes may name it, and comparing it a million times would take minutes.
const FAMILY_BYTES_MAX: usize = 1 << 10;

/// Bytes of a record beside its labels.
const RECORD_BYTES: usize = 200;

/// What a request has come to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) parsed: Parsed,
    pub(super) written: Written,
    pub(super) refused: Refused,
}

/// Records, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) samples: u64,
    pub(super) histograms: u64,
    pub(super) exemplars: u64,
    pub(super) metadata: u64,
}

/// Parts that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) count: u64,
    first: Option<&'static str>,
}

impl Refused {
    /// What the sender is told of them, if there are some.
    pub(super) fn refusal(self) -> Option<Refusal> {
        let message = format!(
            "{} parts of the request were left out, and the others are durable; of the first one: {}",
            self.count, self.first?
        );
        Some(Refusal::new(Kind::Malformed, message))
    }
}

/// The records of a `prometheus.WriteRequest`.
///
/// # Errors
/// When it is none, or finds no room.
pub(super) fn one(body: &[u8], rows: Rows) -> Result<Found, Refusal> {
    let mut out = Out::new(rows);
    let mut fields = Fields::of("WriteRequest", body);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(bytes)) => out.series_of_one(bytes)?,
            (3, Value::Bytes(bytes)) => out.metadata_of_one(bytes)?,
            (1 | 3, _) => return Err(fields.unexpected(field)),
            // Unknown fields are skipped, and all of a message of 2.0 would be.
            (4 | 5, _) => {
                let what = "is one of remote write 2.0, which its `Content-Type` does not say: send \
                            `application/x-protobuf;proto=io.prometheus.write.v2.Request`";
                return Err(malformed("WriteRequest", what));
            }
            _ => {}
        }
    }
    Ok(out.done())
}

/// The records of an `io.prometheus.write.v2.Request`; `held` is for its table of texts.
///
/// # Errors
/// As [`one`].
pub(super) fn two(body: &[u8], rows: Rows, mut held: Held) -> Result<Found, Refusal> {
    let mut out = Out::new(rows);
    let mut count = 0;
    let mut fields = Fields::of("Request", body);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (4, Value::Bytes(_)) => count += 1,
            (4 | 5, Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_)) => {
                return Err(fields.unexpected(field));
            }
            _ => {}
        }
    }
    held.take(count * size_of::<&[u8]>())?;
    let mut symbols: Vec<&[u8]> = Vec::with_capacity(count);
    let mut fields = Fields::of("Request", body);
    while let Some((field, value)) = fields.next()? {
        if let (4, Value::Bytes(text)) = (field, value) {
            symbols.push(text);
        }
    }
    let mut fields = Fields::of("Request", body);
    while let Some((field, value)) = fields.next()? {
        if let (5, Value::Bytes(bytes)) = (field, value) {
            out.series_of_two(bytes, &symbols)?;
        }
    }
    Ok(out.done())
}

/// Which fields of a series hold what: both messages have the same parts under other numbers.
#[derive(Clone, Copy)]
struct Numbers {
    samples: u32,
    histograms: u32,
    exemplars: u32,
}

/// The records on their way, and what is kept from one series to the next for its memory.
struct Out<'a> {
    rows: Rows,
    written: Written,
    refused: Refused,
    labels: Vec<Pair<'a>>,
    /// The name and the labels of the series as JSON, once they are needed.
    head: Vec<u8>,
    exemplar: Vec<Pair<'a>>,
    histogram: Histogram,
    scratch: Vec<u8>,
    families: BTreeSet<(&'a [u8], u64, u32, u32)>,
}

impl<'a> Out<'a> {
    fn new(rows: Rows) -> Self {
        Self {
            rows,
            written: Written::default(),
            refused: Refused::default(),
            labels: Vec::new(),
            head: Vec::new(),
            exemplar: Vec::new(),
            histogram: Histogram::default(),
            scratch: Vec::new(),
            families: BTreeSet::new(),
        }
    }

    fn done(self) -> Found {
        Found { parsed: self.rows.done(), written: self.written, refused: self.refused }
    }

    /// Leaves a part out.
    fn refuse(&mut self, why: &'static str) -> Result<(), Refusal> {
        self.refused.count += 1;
        self.refused.first.get_or_insert(why);
        if self.refused.count > REFUSED_MAX {
            let message = format!(
                "more than {REFUSED_MAX} parts of the request are invalid, so nothing was stored; the first one: {why}"
            );
            return Err(Refusal::new(Kind::Malformed, message));
        }
        Ok(())
    }

    fn series_of_one(&mut self, bytes: &'a [u8]) -> Result<(), Refusal> {
        self.labels.clear();
        self.head.clear();
        let mut fields = Fields::of("TimeSeries", bytes);
        let mut fits = true;
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Bytes(bytes)) => fits &= push(&mut self.labels, label(bytes)?),
                (1..=4, Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_)) => {
                    return Err(fields.unexpected(field));
                }
                _ => {}
            }
        }
        if !fits {
            return self.refuse(TOO_MANY);
        }
        self.parts(bytes, Numbers { samples: 2, exemplars: 3, histograms: 4 }, 0, None)
    }

    fn series_of_two(&mut self, bytes: &'a [u8], symbols: &[&'a [u8]]) -> Result<(), Refusal> {
        self.labels.clear();
        self.head.clear();
        let (mut refs, mut metadata, mut created) = (Refs::default(), None, 0);
        let mut fields = Fields::of("TimeSeries", bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, value) => {
                    refs.read(value, symbols, &mut self.labels).ok_or_else(|| fields.unexpected(field))?
                }
                (5, Value::Bytes(bytes)) => metadata = Some(bytes),
                (6, Value::Varint(time)) => created = time.cast_signed(),
                (2..=6, Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_)) => {
                    return Err(fields.unexpected(field));
                }
                _ => {}
            }
        }
        if let Some(why) = refs.fault() {
            return self.refuse(why);
        }
        self.parts(bytes, Numbers { samples: 2, histograms: 3, exemplars: 4 }, created, Some(symbols))?;
        match metadata {
            Some(metadata) => self.metadata_of_two(metadata, symbols),
            None => Ok(()),
        }
    }

    /// The samples, histograms and exemplars of a series whose labels were read.
    fn parts(
        &mut self,
        bytes: &'a [u8],
        numbers: Numbers,
        created: i64,
        symbols: Option<&[&'a [u8]]>,
    ) -> Result<(), Refusal> {
        let mut fields = Fields::of("TimeSeries", bytes);
        while let Some((field, value)) = fields.next()? {
            let Value::Bytes(bytes) = value else { continue };
            if field == numbers.samples {
                self.sample(bytes, created)?;
            } else if field == numbers.histograms {
                self.histogram(bytes, created)?;
            } else if field == numbers.exemplars {
                self.exemplar(bytes, symbols)?;
            }
        }
        Ok(())
    }

    /// Whether the labels of the series are good, and rendered.
    fn has_head(&mut self) -> Result<bool, Refusal> {
        if !self.head.is_empty() {
            return Ok(true);
        }
        if let Some(why) = fault(&mut self.labels) {
            self.refuse(why)?;
            return Ok(false);
        }
        let name =
            self.labels.iter().find(|(name, _)| *name == b"__name__").map_or(&b""[..], |(_, name)| *name);
        self.head.extend_from_slice(b"\"name\":");
        quote(&mut self.head, name);
        self.head.extend_from_slice(b",\"labels\":");
        object(&mut self.head, self.labels.iter().filter(|(name, _)| *name != b"__name__"));
        Ok(true)
    }

    fn sample(&mut self, bytes: &[u8], created: i64) -> Result<(), Refusal> {
        let (mut value, mut time, mut start) = (0.0, 0, created);
        let mut fields = Fields::of("Sample", bytes);
        while let Some((field, of)) = fields.next()? {
            match (field, of) {
                (1, Value::Fixed64(bits)) => value = f64::from_bits(bits),
                (2, Value::Varint(of)) => time = of.cast_signed(),
                (3, Value::Varint(of)) => start = of.cast_signed(),
                (1..=3, _) => return Err(fields.unexpected(field)),
                _ => {}
            }
        }
        if !self.has_head()? {
            return Ok(());
        }
        self.written.samples += 1;
        let head = &self.head;
        self.rows.push_with(head.len() + RECORD_BYTES, |out| {
            out.extend_from_slice(b"{\"kind\":\"sample\",");
            out.extend_from_slice(head);
            timestamps(out, time, start);
            out.extend_from_slice(b",\"value\":");
            write_float(out, value);
            if value.to_bits() == STALE {
                out.extend_from_slice(b",\"stale\":true");
            }
            out.push(b'}');
        })
    }

    fn histogram(&mut self, bytes: &[u8], created: i64) -> Result<(), Refusal> {
        self.histogram.read(bytes)?;
        if self.histogram.start == 0 {
            self.histogram.start = created;
        }
        self.scratch.clear();
        if let Err(why) = self.histogram.write(&mut self.scratch) {
            return self.refuse(why);
        }
        if !self.has_head()? {
            return Ok(());
        }
        self.written.histograms += 1;
        let (head, scratch) = (&self.head, &self.scratch);
        self.rows.push_with(head.len() + scratch.len() + RECORD_BYTES, |out| {
            out.extend_from_slice(b"{\"kind\":\"histogram\",");
            out.extend_from_slice(head);
            out.extend_from_slice(scratch);
            out.push(b'}');
        })
    }

    fn exemplar(&mut self, bytes: &'a [u8], symbols: Option<&[&'a [u8]]>) -> Result<(), Refusal> {
        self.exemplar.clear();
        let (mut refs, mut fits, mut value, mut time) = (Refs::default(), true, 0.0, 0);
        let mut fields = Fields::of("Exemplar", bytes);
        while let Some((field, of)) = fields.next()? {
            match (field, of, symbols) {
                (1, of, Some(symbols)) => {
                    refs.read(of, symbols, &mut self.exemplar).ok_or_else(|| fields.unexpected(field))?;
                }
                (1, Value::Bytes(bytes), None) => fits &= push(&mut self.exemplar, label(bytes)?),
                (2, Value::Fixed64(bits), _) => value = f64::from_bits(bits),
                (3, Value::Varint(of), _) => time = of.cast_signed(),
                (1..=3, _, _) => return Err(fields.unexpected(field)),
                _ => {}
            }
        }
        if let Some(why) = refs.fault().or((!fits).then_some(TOO_MANY)).or_else(|| fault(&mut self.exemplar))
        {
            return self.refuse(why);
        }
        if !self.has_head()? {
            return Ok(());
        }
        self.written.exemplars += 1;
        let (head, labels) = (&self.head, &self.exemplar);
        self.rows.push_with(head.len() + object_bytes(labels) + RECORD_BYTES, |out| {
            out.extend_from_slice(b"{\"kind\":\"exemplar\",");
            out.extend_from_slice(head);
            timestamps(out, time, 0);
            out.extend_from_slice(b",\"value\":");
            write_float(out, value);
            out.extend_from_slice(b",\"exemplar_labels\":");
            object(out, labels.iter());
            out.push(b'}');
        })
    }
}

/// Appends the time of a record, and that of the start of what it counts, if there is one.
pub(super) fn timestamps(out: &mut Vec<u8>, time: i64, start: i64) {
    let _ = write!(out, ",\"timestamp\":{time}");
    if start != 0 {
        let _ = write!(out, ",\"start_timestamp\":{start}");
    }
}

/// Appends a float in as few digits as tell it apart; what JSON has no numbers for, as text.
pub(super) fn write_float(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"\"nan\"");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"inf\"" } else { b"\"-inf\"" });
    } else {
        // Writing into memory does not fail.
        let _ = serde_json::to_writer(out, &value);
    }
}

/// Sets a field that was read.
pub(super) fn number<T>(into: &mut T, value: T) -> Option<()> {
    *into = value;
    Some(())
}

#[cfg(test)]
pub(super) mod tests;
