//! Requests of OTLP in JSON, written anew as Protocol Buffers, which is then read as ever.
//!
//! Owns the names of fields in JSON and the forms of their values. Does not own what becomes of them.
//!
//! Names are in lower camel case; ids are hexadecimal and other bytes base64; integers of 64 bits are numbers or texts; enums are numbers; names that
//! the protocol does not have are skipped. Unlike the other encoding this one makes a tree of a request: senders that care for speed do not use it.

use serde_json::{Map, Value};

use super::Signal;
use super::fault::{Fault, Step};
use super::split::{sized, varint};

/// How a field is written.
#[derive(Clone, Copy)]
enum Kind {
    /// `string`.
    Text,
    /// An id.
    Hex,
    /// `bytes`.
    Base64,
    /// `fixed64`, `sfixed64`.
    Fixed64,
    /// `fixed32`.
    Fixed32,
    /// Integers and enums.
    Varint,
    /// `sint32`.
    Zigzag,
    /// `double`.
    Double,
    /// `bool`.
    Bool,
    /// A message.
    Message(&'static [Field]),
}

/// A field of a message: its name in JSON, its number, how it is written, and whether there are several.
struct Field(&'static str, u64, Kind, bool);

use Kind::{Base64, Bool, Double, Fixed32, Fixed64, Hex, Message, Text, Varint, Zigzag};

const fn one(name: &'static str, number: u64, kind: Kind) -> Field {
    Field(name, number, kind, false)
}

const fn many(name: &'static str, number: u64, kind: Kind) -> Field {
    Field(name, number, kind, true)
}

static ANY: [Field; 7] = [
    one("stringValue", 1, Text),
    one("boolValue", 2, Bool),
    one("intValue", 3, Varint),
    one("doubleValue", 4, Double),
    one("arrayValue", 5, Message(&ARRAY)),
    one("kvlistValue", 6, Message(&MAP)),
    one("bytesValue", 7, Base64),
];
static ARRAY: [Field; 1] = [many("values", 1, Message(&ANY))];
static MAP: [Field; 1] = [many("values", 1, Message(&PAIR))];
static PAIR: [Field; 2] = [one("key", 1, Text), one("value", 2, Message(&ANY))];
static RESOURCE: [Field; 2] =
    [many("attributes", 1, Message(&PAIR)), one("droppedAttributesCount", 2, Varint)];
static SCOPE: [Field; 4] = [
    one("name", 1, Text),
    one("version", 2, Text),
    many("attributes", 3, Message(&PAIR)),
    one("droppedAttributesCount", 4, Varint),
];

static LOGS: [Field; 1] = [many("resourceLogs", 1, Message(&RESOURCE_LOGS))];
static RESOURCE_LOGS: [Field; 3] = [
    one("resource", 1, Message(&RESOURCE)),
    many("scopeLogs", 2, Message(&SCOPE_LOGS)),
    one("schemaUrl", 3, Text),
];
static SCOPE_LOGS: [Field; 3] =
    [one("scope", 1, Message(&SCOPE)), many("logRecords", 2, Message(&LOG)), one("schemaUrl", 3, Text)];
static LOG: [Field; 11] = [
    one("timeUnixNano", 1, Fixed64),
    one("observedTimeUnixNano", 11, Fixed64),
    one("severityNumber", 2, Varint),
    one("severityText", 3, Text),
    one("body", 5, Message(&ANY)),
    many("attributes", 6, Message(&PAIR)),
    one("droppedAttributesCount", 7, Varint),
    one("flags", 8, Fixed32),
    one("traceId", 9, Hex),
    one("spanId", 10, Hex),
    one("eventName", 12, Text),
];

static TRACES: [Field; 1] = [many("resourceSpans", 1, Message(&RESOURCE_SPANS))];
static RESOURCE_SPANS: [Field; 3] = [
    one("resource", 1, Message(&RESOURCE)),
    many("scopeSpans", 2, Message(&SCOPE_SPANS)),
    one("schemaUrl", 3, Text),
];
static SCOPE_SPANS: [Field; 3] =
    [one("scope", 1, Message(&SCOPE)), many("spans", 2, Message(&SPAN)), one("schemaUrl", 3, Text)];
static SPAN: [Field; 16] = [
    one("traceId", 1, Hex),
    one("spanId", 2, Hex),
    one("traceState", 3, Text),
    one("parentSpanId", 4, Hex),
    one("name", 5, Text),
    one("kind", 6, Varint),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    many("attributes", 9, Message(&PAIR)),
    one("droppedAttributesCount", 10, Varint),
    many("events", 11, Message(&EVENT)),
    one("droppedEventsCount", 12, Varint),
    many("links", 13, Message(&LINK)),
    one("droppedLinksCount", 14, Varint),
    one("status", 15, Message(&STATUS)),
    one("flags", 16, Fixed32),
];
static EVENT: [Field; 4] = [
    one("timeUnixNano", 1, Fixed64),
    one("name", 2, Text),
    many("attributes", 3, Message(&PAIR)),
    one("droppedAttributesCount", 4, Varint),
];
static LINK: [Field; 6] = [
    one("traceId", 1, Hex),
    one("spanId", 2, Hex),
    one("traceState", 3, Text),
    many("attributes", 4, Message(&PAIR)),
    one("droppedAttributesCount", 5, Varint),
    one("flags", 6, Fixed32),
];
static STATUS: [Field; 2] = [one("message", 2, Text), one("code", 3, Varint)];

static METRICS: [Field; 1] = [many("resourceMetrics", 1, Message(&RESOURCE_METRICS))];
static RESOURCE_METRICS: [Field; 3] = [
    one("resource", 1, Message(&RESOURCE)),
    many("scopeMetrics", 2, Message(&SCOPE_METRICS)),
    one("schemaUrl", 3, Text),
];
static SCOPE_METRICS: [Field; 3] =
    [one("scope", 1, Message(&SCOPE)), many("metrics", 2, Message(&METRIC)), one("schemaUrl", 3, Text)];
static METRIC: [Field; 9] = [
    one("name", 1, Text),
    one("description", 2, Text),
    one("unit", 3, Text),
    one("gauge", 5, Message(&NUMBERS)),
    one("sum", 7, Message(&NUMBERS)),
    one("histogram", 9, Message(&HISTOGRAMS)),
    one("exponentialHistogram", 10, Message(&EXPONENTIALS)),
    one("summary", 11, Message(&SUMMARIES)),
    many("metadata", 12, Message(&PAIR)),
];
static NUMBERS: [Field; 3] = [
    many("dataPoints", 1, Message(&NUMBER)),
    one("aggregationTemporality", 2, Varint),
    one("isMonotonic", 3, Bool),
];
static HISTOGRAMS: [Field; 2] =
    [many("dataPoints", 1, Message(&HISTOGRAM)), one("aggregationTemporality", 2, Varint)];
static EXPONENTIALS: [Field; 2] =
    [many("dataPoints", 1, Message(&EXPONENTIAL)), one("aggregationTemporality", 2, Varint)];
static SUMMARIES: [Field; 1] = [many("dataPoints", 1, Message(&SUMMARY))];
static NUMBER: [Field; 7] = [
    many("attributes", 7, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    one("asInt", 6, Fixed64),
    many("exemplars", 5, Message(&EXEMPLAR)),
    one("flags", 8, Varint),
];
static HISTOGRAM: [Field; 11] = [
    many("attributes", 9, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("bucketCounts", 6, Fixed64),
    many("explicitBounds", 7, Double),
    many("exemplars", 8, Message(&EXEMPLAR)),
    one("flags", 10, Varint),
    one("min", 11, Double),
    one("max", 12, Double),
];
static EXPONENTIAL: [Field; 14] = [
    many("attributes", 1, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    one("scale", 6, Zigzag),
    one("zeroCount", 7, Fixed64),
    one("positive", 8, Message(&BUCKETS)),
    one("negative", 9, Message(&BUCKETS)),
    one("flags", 10, Varint),
    many("exemplars", 11, Message(&EXEMPLAR)),
    one("min", 12, Double),
    one("max", 13, Double),
    one("zeroThreshold", 14, Double),
];
static BUCKETS: [Field; 2] = [one("offset", 1, Zigzag), many("bucketCounts", 2, Varint)];
static SUMMARY: [Field; 7] = [
    many("attributes", 7, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("quantileValues", 6, Message(&QUANTILE)),
    one("flags", 8, Varint),
];
static QUANTILE: [Field; 2] = [one("quantile", 1, Double), one("value", 2, Double)];
static EXEMPLAR: [Field; 6] = [
    many("filteredAttributes", 7, Message(&PAIR)),
    one("timeUnixNano", 2, Fixed64),
    one("asDouble", 3, Double),
    one("asInt", 6, Fixed64),
    one("spanId", 4, Hex),
    one("traceId", 5, Hex),
];

/// Whether a record is a request in JSON: no request in Protocol Buffers begins so.
pub(super) fn is_json(request: &[u8]) -> bool {
    request.first() == Some(&b'{')
}

/// The request in Protocol Buffers.
pub(super) fn to_wire(signal: Signal, request: &[u8]) -> Step<Vec<u8>> {
    let value: Value = serde_json::from_slice(&marked(request))
        .map_err(|error| Fault::malformed(format!("the request is no JSON: {error}")))?;
    let fields: &'static [Field] = match signal {
        Signal::Logs => &LOGS,
        Signal::Traces => &TRACES,
        Signal::Metrics => &METRICS,
    };
    let mut out = Vec::with_capacity(request.len());
    match &value {
        Value::Object(object) => message(object, fields, &mut out)?,
        _ => return Err(Fault::malformed("the request is no JSON object".into())),
    }
    Ok(out)
}

/// The key of the object that stands for a number.
const NUMBER_KEY: &str = "#";

/// The same JSON with each number as an object of its text, so that what reads it keeps every digit.
fn marked(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 8);
    let mut rest = json;
    while let Some((first, behind)) = rest.split_first() {
        let length = match first {
            b'"' => {
                let mut escaped = false;
                let end = behind.iter().position(|byte| {
                    let is_end = *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    is_end
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            b'-' | b'0'..=b'9' => {
                let is_of_number =
                    |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                rest.iter().take_while(is_of_number).count()
            }
            _ => {
                out.push(*first);
                rest = behind;
                continue;
            }
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        if token[0] == b'"' {
            out.extend_from_slice(token);
        } else {
            out.extend_from_slice(b"{\"#\":\"");
            out.extend_from_slice(token);
            out.extend_from_slice(b"\"}");
        }
    }
    out
}

/// The text of a number, or a text that may be one.
fn number(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(object) if object.len() == 1 => object.get(NUMBER_KEY)?.as_str(),
        _ => None,
    }
}

/// The recursion is as deep as the JSON, which its parser bounds.
fn message(object: &Map<String, Value>, fields: &'static [Field], out: &mut Vec<u8>) -> Step<()> {
    for (key, value) in object {
        let Some(Field(name, number, kind, is_many)) = fields.iter().find(|field| field.0 == key) else {
            continue;
        };
        let written = match (value, is_many) {
            (Value::Null, _) => Some(()),
            (Value::Array(items), true) => {
                items.iter().try_for_each(|item| {
                    single(item, *number, *kind, out)?.ok_or_else(|| unexpected(name, item))
                })?;
                Some(())
            }
            (value, false) => single(value, *number, *kind, out)?,
            (_, true) => None,
        };
        written.ok_or_else(|| unexpected(name, value))?;
    }
    Ok(())
}

#[cold]
fn unexpected(name: &str, value: &Value) -> Box<Fault> {
    let shown = match number(value) {
        Some(text) => crate::shown::shorten(text.as_bytes()),
        None => crate::shown::shorten(value.to_string().as_bytes()),
    };
    Fault::malformed(format!("field `{name}`: `{shown}` is not of its form"))
}

/// Appends a field; `None` if the value is not of its form.
fn single(value: &Value, field: u64, kind: Kind, out: &mut Vec<u8>) -> Step<Option<()>> {
    let done = match kind {
        Kind::Message(fields) => match value {
            Value::Object(object) => {
                let mut inner = Vec::new();
                message(object, fields, &mut inner)?;
                sized(field, &inner, out);
                Some(())
            }
            _ => None,
        },
        Kind::Text => value.as_str().map(|text| sized(field, text.as_bytes(), out)),
        Kind::Hex => value.as_str().and_then(hex).map(|id| sized(field, &id, out)),
        Kind::Base64 => value.as_str().and_then(base64).map(|bytes| sized(field, &bytes, out)),
        Kind::Fixed64 => integer(value).map(|bits| fixed(field, bits, out)),
        Kind::Double => float(value).map(|float| fixed(field, float.to_bits(), out)),
        Kind::Fixed32 => integer(value).and_then(|bits| u32::try_from(bits).ok()).map(|bits| {
            varint(field << 3 | 5, out);
            out.extend_from_slice(&bits.to_le_bytes());
        }),
        Kind::Varint => integer(value).map(|bits| {
            varint(field << 3, out);
            varint(bits, out);
        }),
        Kind::Zigzag => integer(value).map(|bits| {
            varint(field << 3, out);
            varint(bits << 1 ^ ((bits as i64) >> 63) as u64, out);
        }),
        Kind::Bool => value.as_bool().map(|flag| {
            varint(field << 3, out);
            varint(flag.into(), out);
        }),
    };
    Ok(done)
}

fn fixed(number: u64, bits: u64, out: &mut Vec<u8>) {
    varint(number << 3 | 1, out);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// The 64 bits of an integer, which may stand as text.
fn integer(value: &Value) -> Option<u64> {
    let text = number(value)?;
    text.parse().ok().or_else(|| text.parse::<i64>().ok().map(|signed| signed as u64))
}

/// A float; a text may also be one that numbers cannot write.
fn float(value: &Value) -> Option<f64> {
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
