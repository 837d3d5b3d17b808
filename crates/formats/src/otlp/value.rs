//! Values of any type (`AnyValue`), as text and as JSON.
//!
//! Owns the reading of such a value and its text, which is that of the collector's exporter. Does not own where it goes.
//!
//! | value          | as text                                 | within JSON            |
//! |----------------|-----------------------------------------|------------------------|
//! | nothing        | empty                                   | `null`                 |
//! | string         | as it is                                | quoted                 |
//! | bool, int      | `true`, `-17`                           | the same               |
//! | double         | shortest; an exponent below 1e-6 and from 1e21 on | the same; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | bytes          | base64                                  | base64, quoted         |
//! | array, kvlist  | JSON, in the order in which it was sent | JSON                   |

use std::fmt::Write;

use dataflow::json_object;

use super::fault::{Fault, Step, utf8};
use super::wire::Wire;

/// Values inside each other. Protocol Buffers parsers take a hundred messages, and a value within an array is two of them.
pub const DEPTH_MAX: usize = 48;

/// From here on a whole float may be no integer of 64 bits: 2^63.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;

/// Bytes of the paths of one message's attributes: each repeats the keys that it is within.
const PATHS_BYTES_MAX: usize = 1 << 20;
/// The same for each byte of the attributes and of [`PATHS_BASE`]. The rows of a resource repeat its paths, and the walk weighs for each of them the attributes alone,
/// so this bounds what the paths of a request take by that much of what its rows may.
const PATHS_GROWTH_MAX: usize = 8;
/// No more than the walk weighs for a row beside its bytes.
const PATHS_BASE: usize = 256;

/// A value of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Any<'a> {
    Nothing,
    Text(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
    /// The bytes of an `ArrayValue`.
    Array(&'a [u8]),
    /// The bytes of a `KeyValueList`.
    Map(&'a [u8]),
}

/// The value that stands in the pieces of an `AnyValue`.
pub(super) fn of_pieces<'a>(pieces: &[&'a [u8]]) -> Step<Any<'a>> {
    let mut value = Any::Nothing;
    for piece in pieces {
        match any(piece)? {
            Any::Nothing => {}
            set => value = set,
        }
    }
    Ok(value)
}

/// The value that an `AnyValue` is: the last that it sets.
#[inline]
pub(super) fn any(bytes: &[u8]) -> Step<Any<'_>> {
    let (mut rest, mut value) = (Wire(bytes), Any::Nothing);
    while !rest.0.is_empty() {
        let read = rest.key().and_then(|(field, wire)| {
            value = match (field, wire) {
                (1, 2) => Any::Text(rest.sized()?),
                (2, 0) => Any::Bool(rest.varint()? != 0),
                (3, 0) => Any::Int(rest.varint()? as i64),
                (4, 1) => Any::Double(f64::from_bits(rest.fixed64()?)),
                (5, 2) => Any::Array(rest.sized()?),
                (6, 2) => Any::Map(rest.sized()?),
                (7, 2) => Any::Bytes(rest.sized()?),
                (1..=7, _) => return None,
                (_, wire) => return rest.skip(wire),
            };
            Some(())
        });
        read.ok_or_else(broken)?;
    }
    Ok(value)
}

#[cold]
fn broken() -> Box<Fault> {
    Fault::malformed("an `AnyValue` is broken or ends too early".into())
}

/// The key of a `KeyValue`, and the bytes of its value.
#[inline]
pub(super) fn key_value(bytes: &[u8]) -> Step<(&str, Any<'_>)> {
    let (mut rest, mut key, mut value) = (Wire(bytes), &[][..], Any::Nothing);
    while !rest.0.is_empty() {
        let Some((field, wire)) = rest.key() else { return Err(broken_pair()) };
        match (field, wire) {
            (1, 2) => key = rest.sized().ok_or_else(broken_pair)?,
            (2, 2) => match any(rest.sized().ok_or_else(broken_pair)?)? {
                Any::Nothing => {}
                set => value = set,
            },
            (1 | 2, _) => return Err(broken_pair()),
            (_, wire) => rest.skip(wire).ok_or_else(broken_pair)?,
        }
    }
    Ok((utf8(key)?, value))
}

#[cold]
fn too_deep() -> Box<Fault> {
    Fault::malformed(format!("values nest deeper than `{DEPTH_MAX}`"))
}

#[cold]
fn broken_pair() -> Box<Fault> {
    Fault::malformed("a `KeyValue` is broken or ends too early".into())
}

/// Hands each message of field 1 in `bytes` to `each`: the items of an `ArrayValue`, the pairs of a `KeyValueList`.
fn items<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8]) -> Step<()>) -> Step<()> {
    let mut rest = Wire(bytes);
    while !rest.0.is_empty() {
        match rest.key() {
            Some((1, 2)) => each(rest.sized().ok_or_else(broken)?)?,
            Some((1, _)) | None => return Err(broken()),
            Some((_, wire)) => rest.skip(wire).ok_or_else(broken)?,
        }
    }
    Ok(())
}

impl<'a> Any<'a> {
    /// The value as text; what is not text already is written to `scratch`.
    #[inline]
    pub fn text<'s>(self, scratch: &'s mut String) -> Step<&'s str>
    where
        'a: 's,
    {
        self.text_with(double, scratch)
    }

    /// The same, with floats within it in this form.
    #[inline]
    pub fn text_with<'s>(self, doubles: Doubles, scratch: &'s mut String) -> Step<&'s str>
    where
        'a: 's,
    {
        if let Self::Text(text) = self {
            return utf8(text);
        }
        scratch.clear();
        match self {
            Self::Nothing | Self::Text(_) => {}
            Self::Bytes(bytes) => base64(bytes, scratch),
            Self::Double(value) if !value.is_finite() => scratch.push_str(unusual(value)),
            Self::Bool(_) | Self::Int(_) | Self::Double(_) | Self::Array(_) | Self::Map(_) => {
                self.json(0, doubles, scratch)?;
            }
        }
        Ok(scratch)
    }

    /// Appends the value as JSON.
    fn json(self, depth: usize, doubles: Doubles, out: &mut String) -> Step<()> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        match self {
            Self::Nothing => out.push_str("null"),
            Self::Text(text) => json_object::quote(utf8(text)?, out),
            Self::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Self::Int(value) => put(out, format_args!("{value}")),
            Self::Double(value) if !value.is_finite() => put(out, format_args!("\"{}\"", unusual(value))),
            Self::Double(value) => doubles(value, out),
            Self::Bytes(bytes) => {
                out.push('"');
                base64(bytes, out);
                out.push('"');
            }
            Self::Array(bytes) => {
                out.push('[');
                let start = out.len();
                items(bytes, |item| {
                    comma(start, out);
                    any(item)?.json(depth + 1, doubles, out)
                })?;
                out.push(']');
            }
            Self::Map(bytes) => {
                out.push('{');
                let start = out.len();
                items(bytes, |item| {
                    comma(start, out);
                    pair(item, depth, doubles, out)
                })?;
                out.push('}');
            }
        }
        Ok(())
    }
}

/// The paths to the values of attributes: their keys, joined by dots where they are within each other; sorted, each once.
pub(super) fn paths(attributes: &[&[u8]]) -> Step<Vec<String>> {
    let sent: usize = attributes.iter().map(|attribute| attribute.len()).sum();
    let bytes_max = PATHS_BYTES_MAX.min(PATHS_GROWTH_MAX * (PATHS_BASE + sent));
    let found = Vec::with_capacity(attributes.len());
    let mut paths = Paths { here: String::new(), bytes: 0, bytes_max, found };
    attributes.iter().try_for_each(|attribute| paths.add(attribute, 0))?;
    paths.found.sort_unstable();
    paths.found.dedup();
    Ok(paths.found)
}

struct Paths {
    here: String,
    bytes: usize,
    bytes_max: usize,
    found: Vec<String>,
}

impl Paths {
    fn add(&mut self, pair: &[u8], depth: usize) -> Step<()> {
        let (key, value) = key_value(pair)?;
        let end = self.here.len();
        if end > 0 {
            self.here.push('.');
        }
        self.here.push_str(key);
        match value {
            Any::Map(_) if depth == DEPTH_MAX => return Err(too_deep()),
            Any::Map(bytes) => items(bytes, |pair| self.add(pair, depth + 1))?,
            _ => {
                self.bytes += self.here.len();
                if self.bytes > self.bytes_max {
                    let message =
                        format!("the paths of the attributes have more than `{}` bytes", self.bytes_max);
                    let reason = dataflow::Reason::TooLarge;
                    return Err(Box::new(Fault { reason, column: None, message }));
                }
                self.found.push(self.here.clone());
            }
        }
        self.here.truncate(end);
        Ok(())
    }
}

/// Appends attributes as a JSON object, with floats in this form.
pub(super) fn object(attributes: &[&[u8]], doubles: Doubles, out: &mut String) -> Step<()> {
    out.push('{');
    let start = out.len();
    for attribute in attributes {
        comma(start, out);
        pair(attribute, 0, doubles, out)?;
    }
    out.push('}');
    Ok(())
}

fn pair(bytes: &[u8], depth: usize, doubles: Doubles, out: &mut String) -> Step<()> {
    let (key, value) = key_value(bytes)?;
    json_object::quote(key, out);
    out.push(':');
    value.json(depth + 1, doubles, out)
}

fn comma(start: usize, out: &mut String) {
    if out.len() > start {
        out.push(',');
    }
}

/// Appends a text of digits and signs.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

fn unusual(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// How a float is written.
pub(super) type Doubles = fn(f64, &mut String);

/// As [`double`], but with an exponent where the digits alone would be an integer beyond 64 bits, which a column of type JSON does not take.
pub(super) fn double_in_json(value: f64, out: &mut String) {
    if value.abs() < INTEGERS_END { double(value, out) } else { with_exponent(value, out) }
}

/// A float as the collector's exporter writes it.
pub(super) fn double(value: f64, out: &mut String) {
    if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        return put(out, format_args!("{value}"));
    }
    with_exponent(value, out);
}

fn with_exponent(value: f64, out: &mut String) {
    let start = out.len();
    put(out, format_args!("{value:e}"));
    if let Some(at) = out[start..].find('e').filter(|at| !out[start + at..].starts_with("e-")) {
        out.insert(start + at + 1, '+');
    }
}

fn base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let number =
            group.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
}

/// The text of an id: its bytes in hexadecimal, or nothing if all are zero, which means that there is none.
#[inline]
pub(super) fn hex<'s>(id: &[u8], scratch: &'s mut String) -> &'s str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    scratch.clear();
    if id.iter().any(|byte| *byte != 0) {
        scratch.extend(id.iter().flat_map(|byte| {
            [char::from(DIGITS[usize::from(byte >> 4)]), char::from(DIGITS[usize::from(byte & 15)])]
        }));
    }
    scratch
}
