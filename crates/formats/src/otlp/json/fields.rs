//! The fields of OTLP's messages in JSON.
//!
//! Owns their names, numbers and kinds, in one table for each message, and the names of enums. Does not own how they are read ([`super`]).

use Kind::{
    Base64, Bool, Double, Enum, Fixed32, Fixed64, Hex, Int64, Message, Sfixed64, Text, Uint32, Uint64, Zigzag,
};

/// How a field is written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// `string`.
    Text,
    /// An id.
    Hex,
    /// `bytes`.
    Base64,
    /// `fixed64`.
    Fixed64,
    /// `sfixed64`.
    Sfixed64,
    /// `fixed32`.
    Fixed32,
    /// `int64`.
    Int64,
    /// `uint64`.
    Uint64,
    /// `uint32`.
    Uint32,
    /// An enum, by its number, or by its name, whose place is the number.
    Enum(&'static [&'static str]),
    /// `sint32`.
    Zigzag,
    /// `double`.
    Double,
    /// `bool`.
    Bool,
    /// A message.
    Message(&'static [Field]),
}

static SPAN_KINDS: [&str; 6] = [
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];

static STATUS_CODES: [&str; 3] = ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

static TEMPORALITIES: [&str; 3] = [
    "AGGREGATION_TEMPORALITY_UNSPECIFIED",
    "AGGREGATION_TEMPORALITY_DELTA",
    "AGGREGATION_TEMPORALITY_CUMULATIVE",
];

static SEVERITIES: [&str; 25] = [
    "SEVERITY_NUMBER_UNSPECIFIED",
    "SEVERITY_NUMBER_TRACE",
    "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",
    "SEVERITY_NUMBER_TRACE4",
    "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",
    "SEVERITY_NUMBER_DEBUG3",
    "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",
    "SEVERITY_NUMBER_INFO2",
    "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",
    "SEVERITY_NUMBER_WARN",
    "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",
    "SEVERITY_NUMBER_WARN4",
    "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",
    "SEVERITY_NUMBER_ERROR3",
    "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",
    "SEVERITY_NUMBER_FATAL2",
    "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
];

/// A field of a message: its name in JSON, its number, how it is written, and whether there are several.
pub(super) struct Field(pub(super) &'static str, pub(super) u64, pub(super) Kind, pub(super) bool);

const fn one(name: &'static str, number: u64, kind: Kind) -> Field {
    Field(name, number, kind, false)
}

const fn many(name: &'static str, number: u64, kind: Kind) -> Field {
    Field(name, number, kind, true)
}

static ANY: [Field; 7] = [
    one("stringValue", 1, Text),
    one("boolValue", 2, Bool),
    one("intValue", 3, Int64),
    one("doubleValue", 4, Double),
    one("arrayValue", 5, Message(&ARRAY)),
    one("kvlistValue", 6, Message(&MAP)),
    one("bytesValue", 7, Base64),
];

static ARRAY: [Field; 1] = [many("values", 1, Message(&ANY))];

static MAP: [Field; 1] = [many("values", 1, Message(&PAIR))];

static PAIR: [Field; 2] = [one("key", 1, Text), one("value", 2, Message(&ANY))];

static RESOURCE: [Field; 2] =
    [many("attributes", 1, Message(&PAIR)), one("droppedAttributesCount", 2, Uint32)];

static SCOPE: [Field; 4] = [
    one("name", 1, Text),
    one("version", 2, Text),
    many("attributes", 3, Message(&PAIR)),
    one("droppedAttributesCount", 4, Uint32),
];

pub(super) static LOGS: [Field; 1] = [many("resourceLogs", 1, Message(&RESOURCE_LOGS))];

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
    one("severityNumber", 2, Enum(&SEVERITIES)),
    one("severityText", 3, Text),
    one("body", 5, Message(&ANY)),
    many("attributes", 6, Message(&PAIR)),
    one("droppedAttributesCount", 7, Uint32),
    one("flags", 8, Fixed32),
    one("traceId", 9, Hex),
    one("spanId", 10, Hex),
    one("eventName", 12, Text),
];

pub(super) static TRACES: [Field; 1] = [many("resourceSpans", 1, Message(&RESOURCE_SPANS))];

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
    one("kind", 6, Enum(&SPAN_KINDS)),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    many("attributes", 9, Message(&PAIR)),
    one("droppedAttributesCount", 10, Uint32),
    many("events", 11, Message(&EVENT)),
    one("droppedEventsCount", 12, Uint32),
    many("links", 13, Message(&LINK)),
    one("droppedLinksCount", 14, Uint32),
    one("status", 15, Message(&STATUS)),
    one("flags", 16, Fixed32),
];

static EVENT: [Field; 4] = [
    one("timeUnixNano", 1, Fixed64),
    one("name", 2, Text),
    many("attributes", 3, Message(&PAIR)),
    one("droppedAttributesCount", 4, Uint32),
];

static LINK: [Field; 6] = [
    one("traceId", 1, Hex),
    one("spanId", 2, Hex),
    one("traceState", 3, Text),
    many("attributes", 4, Message(&PAIR)),
    one("droppedAttributesCount", 5, Uint32),
    one("flags", 6, Fixed32),
];

static STATUS: [Field; 2] = [one("message", 2, Text), one("code", 3, Enum(&STATUS_CODES))];

pub(super) static METRICS: [Field; 1] = [many("resourceMetrics", 1, Message(&RESOURCE_METRICS))];

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
    one("aggregationTemporality", 2, Enum(&TEMPORALITIES)),
    one("isMonotonic", 3, Bool),
];

static HISTOGRAMS: [Field; 2] =
    [many("dataPoints", 1, Message(&HISTOGRAM)), one("aggregationTemporality", 2, Enum(&TEMPORALITIES))];

static EXPONENTIALS: [Field; 2] =
    [many("dataPoints", 1, Message(&EXPONENTIAL)), one("aggregationTemporality", 2, Enum(&TEMPORALITIES))];

static SUMMARIES: [Field; 1] = [many("dataPoints", 1, Message(&SUMMARY))];

static NUMBER: [Field; 7] = [
    many("attributes", 7, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    one("asInt", 6, Sfixed64),
    many("exemplars", 5, Message(&EXEMPLAR)),
    one("flags", 8, Uint32),
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
    one("flags", 10, Uint32),
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
    one("flags", 10, Uint32),
    many("exemplars", 11, Message(&EXEMPLAR)),
    one("min", 12, Double),
    one("max", 13, Double),
    one("zeroThreshold", 14, Double),
];

static BUCKETS: [Field; 2] = [one("offset", 1, Zigzag), many("bucketCounts", 2, Uint64)];

static SUMMARY: [Field; 7] = [
    many("attributes", 7, Message(&PAIR)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("quantileValues", 6, Message(&QUANTILE)),
    one("flags", 8, Uint32),
];

static QUANTILE: [Field; 2] = [one("quantile", 1, Double), one("value", 2, Double)];

static EXEMPLAR: [Field; 6] = [
    many("filteredAttributes", 7, Message(&PAIR)),
    one("timeUnixNano", 2, Fixed64),
    one("asDouble", 3, Double),
    one("asInt", 6, Sfixed64),
    one("spanId", 4, Hex),
    one("traceId", 5, Hex),
];
