//! Requests of OTLP in JSON, written anew as Protocol Buffers, which is then read as ever.
//!
//! Owns the names of fields in JSON and the forms of their values. Does not own what becomes of them.
//!
//! Names are in lower camel case; ids are hexadecimal and other bytes base64; integers of 64 bits are numbers or texts; enums are numbers; names that
//! the protocol does not have are skipped. The JSON is read once, from left to right: there is no tree, and numbers keep every digit.
//!
//! Libraries of Protocol Buffers write names of enums, and some of them the original names of fields (`resource_logs`). The collector takes both, so senders
//! do, and skipping such a name would answer a request as stored of which nothing was.

mod fields;

use std::str::FromStr;

use super::Signal;
use super::fault::{Fault, Step};
use super::split::{sized, varint};
use crate::json::fail::Fail;
use crate::json::scan::Cursor;
use crate::shown::shorten;
use fields::{Field, Kind, LOGS, METRICS, TRACES};

/// Objects inside each other, the request included: a value of any type takes two for each of its levels. Bounds the recursion.
const OBJECTS_MAX: u32 = 128;

/// Whether a record is a request in JSON: no request in Protocol Buffers begins so.
pub(super) fn is_json(request: &[u8]) -> bool {
    request.first() == Some(&b'{')
}

/// The request in Protocol Buffers, of at most `bytes_max` bytes. It may be longer than the JSON: an item `1,` of a list becomes nine bytes.
pub(super) fn to_wire(signal: Signal, request: &[u8], bytes_max: usize) -> Step<Vec<u8>> {
    read(signal, request, bytes_max, false).map(|reader| reader.out)
}

/// A request without some of its rows: how many those are, and the number of the first, from 1, with its fault.
pub(super) type InPart = (Vec<u8>, usize, Option<(usize, Box<Fault>)>);

/// The same without the rows that have values of another form than their fields'.
pub(super) fn to_wire_in_part(signal: Signal, request: &[u8], bytes_max: usize) -> Step<InPart> {
    let reader = read(signal, request, bytes_max, true)?;
    Ok((reader.out, reader.left, reader.first_left))
}

fn read(signal: Signal, request: &[u8], bytes_max: usize, leaves: bool) -> Step<Reader<'_>> {
    let fields: &'static [Field] = match signal {
        Signal::Logs => &LOGS,
        Signal::Traces => &TRACES,
        Signal::Metrics => &METRICS,
    };
    if std::str::from_utf8(request).is_err() {
        return Err(Fault::malformed("the request is no JSON: it is not UTF-8".into()));
    }
    let mut reader = Reader {
        json: Cursor::new(request),
        scratch: Vec::new(),
        objects: 0,
        out: Vec::with_capacity(request.len().min(bytes_max)),
        bytes_max,
        leaves,
        rows: 0,
        left: 0,
        first_left: None,
    };
    reader.json.space();
    if reader.json.peek() != b'{' {
        return Err(Fault::malformed("the request is no JSON object".into()));
    }
    reader.message(fields)?;
    reader.json.space();
    match reader.json.rest() {
        [] => Ok(reader),
        _ => Err(reader.json.unexpected("the end of the request").into()),
    }
}

impl From<Box<Fail>> for Box<Fault> {
    #[cold]
    fn from(fail: Box<Fail>) -> Self {
        Fault::malformed(format!("the request is no JSON: byte `{}`: {}", fail.at, fail.rule))
    }
}

/// A value that is no message.
enum Scalar<'s> {
    Text(&'s str),
    Number(&'s str),
    Bool(bool),
}

struct Reader<'a> {
    json: Cursor<'a>,
    /// The last text that has escapes.
    scratch: Vec<u8>,
    objects: u32,
    out: Vec<u8>,
    bytes_max: usize,
    /// Whether rows that are not as they should be are left out.
    leaves: bool,
    /// Rows so far, and those of them that were left out, the first with its fault.
    rows: usize,
    left: usize,
    first_left: Option<(usize, Box<Fault>)>,
}

/// The lists whose items are rows.
const ROWS: [&str; 3] = ["logRecords", "spans", "dataPoints"];

impl Reader<'_> {
    /// Appends the fields of the object that begins here.
    fn message(&mut self, fields: &'static [Field]) -> Step<()> {
        if self.objects == OBJECTS_MAX {
            return Err(Fault::too_large(format!("the request nests deeper than {OBJECTS_MAX} objects")));
        }
        self.objects += 1;
        self.json.advance(1);
        self.json.space();
        if self.json.peek() != b'}' {
            loop {
                if self.json.peek() != b'"' {
                    return Err(self.json.unexpected("a key").into());
                }
                let key = self.json.string(&mut self.scratch)?;
                let named = fields.iter().find(|field| field.0.as_bytes() == key);
                let field = named.or_else(|| fields.iter().find(|field| is_original(field.0, key)));
                self.json.colon()?;
                match field {
                    Some(field) => self.field(field)?,
                    None => self.json.skip_value()?,
                }
                if !self.json.another(b'}')? {
                    break;
                }
            }
        }
        self.json.advance(1);
        self.objects -= 1;
        Ok(())
    }

    fn field(&mut self, field: &'static Field) -> Step<()> {
        let Field(name, number, kind, is_many) = *field;
        match self.json.peek() {
            b'n' => Ok(self.json.word("null")?),
            b'[' if is_many => {
                self.json.advance(1);
                self.json.space();
                if self.json.peek() != b']' {
                    let is_row = ROWS.contains(&name);
                    loop {
                        match is_row {
                            true => self.row(name, number, kind)?,
                            false => self.single(name, number, kind)?,
                        }
                        if !self.json.another(b']')? {
                            break;
                        }
                    }
                }
                self.json.advance(1);
                Ok(())
            }
            _ if is_many => Err(self.unexpected(name)),
            _ => self.single(name, number, kind),
        }
    }

    /// Appends a row, or leaves it out if only its own values are not as they should be.
    fn row(&mut self, name: &'static str, number: u64, kind: Kind) -> Step<()> {
        self.rows += 1;
        let (mark, objects, begin) = (self.json.mark(), self.objects, self.out.len());
        let Err(fault) = self.single(name, number, kind) else { return Ok(()) };
        if !self.leaves || self.out.len() > self.bytes_max {
            return Err(fault);
        }
        self.out.truncate(begin);
        self.objects = objects;
        self.json.resume(mark);
        // What is no JSON has no end.
        self.json.skip_value()?;
        self.left += 1;
        self.first_left.get_or_insert((self.rows, fault));
        Ok(())
    }

    /// Appends a field from the value that begins here.
    fn single(&mut self, name: &'static str, number: u64, kind: Kind) -> Step<()> {
        let mark = self.json.mark();
        match (kind, self.json.peek()) {
            (Kind::Message(fields), b'{') => {
                let begin = open(number, &mut self.out);
                self.message(fields)?;
                close(begin, &mut self.out);
            }
            (Kind::Message(_), _) => return Err(self.unexpected(name)),
            (kind, _) => {
                let Self { json, scratch, out, .. } = self;
                let written = scalar(json, scratch)?.and_then(|scalar| write(&scalar, number, kind, out));
                if written.is_none() {
                    self.json.resume(mark);
                    return Err(self.unexpected(name));
                }
            }
        }
        match self.out.len() > self.bytes_max {
            true => Err(Fault::too_large(format!(
                "in Protocol Buffers the request has more than `{}` bytes",
                self.bytes_max
            ))),
            false => Ok(()),
        }
    }

    /// The fault of a field whose value, which begins here, is not of its form; of the value first, if it is none at all.
    #[cold]
    fn unexpected(&mut self, name: &str) -> Box<Fault> {
        let from = self.json.position();
        if let Err(fail) = self.json.skip_value() {
            return fail.into();
        }
        let value = self.json.since(from);
        let text = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        Fault::malformed(format!("field `{name}`: `{}` is not of its form", shorten(text.unwrap_or(value))))
    }
}

/// Whether a key is the name that the protocol's own files give a field: `log_records` for `logRecords`.
fn is_original(name: &str, key: &[u8]) -> bool {
    let mut rest = key.iter().copied();
    let begins = name.bytes().all(|byte| match byte.is_ascii_uppercase() {
        true => rest.next() == Some(b'_') && rest.next() == Some(byte.to_ascii_lowercase()),
        false => rest.next() == Some(byte),
    });
    begins && rest.next().is_none()
}

/// Steps over a value; `None` for one that is an object, an array or null, which is left.
fn scalar<'s, 'a: 's>(json: &mut Cursor<'a>, scratch: &'s mut Vec<u8>) -> Step<Option<Scalar<'s>>> {
    // The request is UTF-8, and so is every escape.
    let text = |bytes: &'s [u8]| std::str::from_utf8(bytes).unwrap_or_default();
    Ok(match json.peek() {
        b'"' => Some(Scalar::Text(text(json.string(scratch)?))),
        b'-' | b'0'..=b'9' => Some(Scalar::Number(text(json.number()?))),
        b't' => json.word("true").map(|()| Some(Scalar::Bool(true)))?,
        b'f' => json.word("false").map(|()| Some(Scalar::Bool(false)))?,
        _ => None,
    })
}

/// Begins a message; where its bytes begin.
fn open(field: u64, out: &mut Vec<u8>) -> usize {
    varint(field << 3 | 2, out);
    out.push(0);
    out.len()
}

/// Ends a message that began at `begin`: puts its length before it, for which one byte is there.
fn close(begin: usize, out: &mut Vec<u8>) {
    let length = out.len() - begin;
    if length <= 0x7f {
        out[begin - 1] = length as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    varint(length as u64, &mut prefix);
    let more = prefix.len() - 1;
    out.resize(out.len() + more, 0);
    out.copy_within(begin..begin + length, begin + more);
    out[begin - 1..begin + more].copy_from_slice(&prefix);
}

/// Appends a field; `None` if the value is not of its form.
fn write(value: &Scalar<'_>, field: u64, kind: Kind, out: &mut Vec<u8>) -> Option<()> {
    let text = match value {
        Scalar::Text(text) => Some(*text),
        Scalar::Number(_) | Scalar::Bool(_) => None,
    };
    match kind {
        Kind::Message(_) => return None,
        Kind::Text => sized(field, text?.as_bytes(), out),
        Kind::Hex => sized(field, &hex(text?)?, out),
        Kind::Base64 => sized(field, &base64(text?)?, out),
        Kind::Fixed64 => fixed(field, integer::<u64>(value)?, out),
        Kind::Sfixed64 => fixed(field, integer::<i64>(value)? as u64, out),
        Kind::Double => fixed(field, float(value)?.to_bits(), out),
        Kind::Fixed32 => {
            let bits = integer::<u32>(value)?;
            varint(field << 3 | 5, out);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Kind::Int64 => plain(field, integer::<i64>(value)? as u64, out),
        Kind::Uint64 => plain(field, integer(value)?, out),
        Kind::Uint32 => plain(field, integer::<u32>(value)?.into(), out),
        Kind::Enum(names) => plain(field, i64::from(enumerated(value, names)?) as u64, out),
        Kind::Zigzag => {
            let number = i64::from(integer::<i32>(value)?);
            plain(field, (number << 1 ^ number >> 63) as u64, out);
        }
        Kind::Bool => {
            let Scalar::Bool(flag) = value else { return None };
            plain(field, (*flag).into(), out);
        }
    }
    Some(())
}

fn plain(number: u64, bits: u64, out: &mut Vec<u8>) {
    varint(number << 3, out);
    varint(bits, out);
}

fn fixed(number: u64, bits: u64, out: &mut Vec<u8>) {
    varint(number << 3 | 1, out);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// The text of a number, or a text that may be one.
fn number<'s>(value: &Scalar<'s>) -> Option<&'s str> {
    match value {
        Scalar::Text(text) | Scalar::Number(text) => Some(text),
        Scalar::Bool(_) => None,
    }
}

/// An integer within the bounds of its type, which may stand as text.
fn integer<N: FromStr>(value: &Scalar<'_>) -> Option<N> {
    number(value)?.parse().ok()
}

/// The number of an enum, which may stand as the name at its place.
fn enumerated(value: &Scalar<'_>, names: &[&str]) -> Option<i32> {
    let place = match value {
        Scalar::Text(text) => names.iter().position(|name| name == text),
        Scalar::Number(_) | Scalar::Bool(_) => None,
    };
    match place {
        Some(place) => i32::try_from(place).ok(),
        None => integer(value),
    }
}

/// A float; a text may also be one that numbers cannot write.
fn float(value: &Scalar<'_>) -> Option<f64> {
    match number(value)? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok().filter(|float: &f64| float.is_finite()),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    rest.is_empty().then(|| pairs.iter().map(byte).collect::<Option<Vec<u8>>>())?
}

/// Base64, of either alphabet, with its padding or without.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let digit = |byte: &u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        })
    };
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, byte| Some(bits << 6 | u32::from(digit(byte)?)))?;
        let bits = bits << (6 * (4 - group.len()));
        match group.len() {
            1 => return None,
            length => out.extend_from_slice(&bits.to_be_bytes()[1..length]),
        }
    }
    Some(out)
}
