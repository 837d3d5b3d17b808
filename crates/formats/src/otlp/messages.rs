//! The messages of OTLP 1.x: which field of each goes where.
//!
//! Owns the numbers of fields and the names of slots. Does not own how a field is encoded ([`super::wire`]) nor what columns take of it
//! ([`super::fields`]). A message is named by the slots of [`super::wire::Slots`] that its fields go to.

use super::wire::Keep::{
    Fixed32, Fixed64, Message, OneOf64, OneOfMessage, Packed64, PackedVarint, Text, Varint,
};
use super::wire::Spec;

/// The first slot of each kind, where a message has one of a kind.
pub(super) const FIRST: u8 = 0;

/// `ResourceLogs`, `ScopeLogs` and their like: what they are about, what they hold, and the schema's URL.
pub(super) static GROUP: Spec =
    Spec::new("Resource… or Scope…", &[(1, Message(0)), (2, Message(1)), (3, Text(0))]);
/// The list of what a group is about.
pub(super) const ABOUT: usize = 0;
/// The list of what a group holds.
pub(super) const HELD: usize = 1;

/// `Resource`.
pub(super) static RESOURCE: Spec = Spec::new("Resource", &[(1, Message(0)), (2, Varint(0))]);
/// Where the schema's URL is put, which is not in the message.
pub(super) const RESOURCE_URL: u8 = 0;

/// `InstrumentationScope`.
pub(super) static SCOPE: Spec =
    Spec::new("InstrumentationScope", &[(1, Text(0)), (2, Text(1)), (3, Message(0)), (4, Varint(0))]);
/// Where the schema's URL is put, which is not in the message.
pub(super) const SCOPE_URL: u8 = 2;

/// The attributes of every message that has some.
pub(super) const ATTRIBUTES: u8 = 0;

/// `LogRecord`.
pub(super) static LOG: Spec = Spec::new(
    "LogRecord",
    &[
        (1, Fixed64(0)),
        (2, Varint(2)),
        (3, Text(0)),
        (5, Message(1)),
        (6, Message(0)),
        (7, Varint(3)),
        (8, Fixed32(4)),
        (9, Text(1)),
        (10, Text(2)),
        (11, Fixed64(1)),
        (12, Text(3)),
    ],
);
/// Numbers of a log.
pub(super) mod log {
    pub const TIME: u8 = 0;
    pub const OBSERVED: u8 = 1;
    pub const SEVERITY: u8 = 2;
    pub const DROPPED: u8 = 3;
    pub const FLAGS: u8 = 4;
    /// Texts.
    pub const SEVERITY_TEXT: u8 = 0;
    pub const TRACE_ID: u8 = 1;
    pub const SPAN_ID: u8 = 2;
    pub const EVENT_NAME: u8 = 3;
    /// Lists.
    pub const BODY: u8 = 1;
}

/// `Span`.
pub(super) static SPAN: Spec = Spec::new(
    "Span",
    &[
        (1, Text(0)),
        (2, Text(1)),
        (3, Text(2)),
        (4, Text(3)),
        (5, Text(4)),
        (6, Varint(2)),
        (7, Fixed64(0)),
        (8, Fixed64(1)),
        (9, Message(0)),
        (10, Varint(3)),
        (11, Message(1)),
        (12, Varint(4)),
        (13, Message(2)),
        (14, Varint(5)),
        (15, Message(3)),
        (16, Fixed32(6)),
    ],
);
/// Numbers of a span.
pub(super) mod span {
    pub const START: u8 = 0;
    pub const END: u8 = 1;
    pub const KIND: u8 = 2;
    pub const DROPPED: u8 = 3;
    pub const DROPPED_EVENTS: u8 = 4;
    pub const DROPPED_LINKS: u8 = 5;
    pub const FLAGS: u8 = 6;
    /// Not in the message: the nanoseconds from start to end.
    pub const DURATION: u8 = 7;
    /// Texts.
    pub const TRACE_ID: u8 = 0;
    pub const SPAN_ID: u8 = 1;
    pub const TRACE_STATE: u8 = 2;
    pub const PARENT: u8 = 3;
    pub const NAME: u8 = 4;
    /// Lists.
    pub const EVENTS: u8 = 1;
    pub const LINKS: u8 = 2;
    pub const STATUS: u8 = 3;
}

/// `Span.Event`: a time, a name.
pub(super) static EVENT: Spec =
    Spec::new("Event", &[(1, Fixed64(0)), (2, Text(0)), (3, Message(0)), (4, Varint(1))]);
/// `Span.Link`: two ids and a trace state.
pub(super) static LINK: Spec = Spec::new(
    "Link",
    &[(1, Text(0)), (2, Text(1)), (3, Text(2)), (4, Message(0)), (5, Varint(1)), (6, Fixed32(2))],
);
/// `Status`: a message and a code.
pub(super) static STATUS: Spec = Spec::new("Status", &[(2, Text(0)), (3, Varint(0))]);
/// How many attributes an event or a link lost.
pub(super) const LOST: u8 = 1;

/// `Metric`.
pub(super) static METRIC: Spec = Spec::new(
    "Metric",
    &[
        (1, Text(0)),
        (2, Text(1)),
        (3, Text(2)),
        (5, OneOfMessage(0)),
        (7, OneOfMessage(0)),
        (9, OneOfMessage(0)),
        (10, OneOfMessage(0)),
        (11, OneOfMessage(0)),
        (12, Message(1)),
    ],
);
/// Texts of a metric, and the list of its metadata.
pub(super) mod metric {
    pub const NAME: u8 = 0;
    pub const DESCRIPTION: u8 = 1;
    pub const UNIT: u8 = 2;
    pub const METADATA: u8 = 1;
    /// The fields of `Metric` that hold the kinds, in the order of [`super::KINDS`].
    pub const KINDS: [u64; 5] = [5, 7, 9, 10, 11];
}

/// `Gauge`, `Sum`, `Histogram`, `ExponentialHistogram` and `Summary`: points, a temporality, whether it only grows.
pub(super) static DATA: Spec =
    Spec::new("Gauge, Sum, Histogram or Summary", &[(1, Message(0)), (2, Varint(0)), (3, Varint(1))]);

/// `NumberDataPoint`.
pub(super) static NUMBER: Spec = Spec::new(
    "NumberDataPoint",
    &[
        (2, Fixed64(0)),
        (3, Fixed64(1)),
        (4, OneOf64(2)),
        (5, Message(1)),
        (6, OneOf64(2)),
        (7, Message(0)),
        (8, Varint(9)),
    ],
);
/// `HistogramDataPoint`.
pub(super) static HISTOGRAM: Spec = Spec::new(
    "HistogramDataPoint",
    &[
        (2, Fixed64(0)),
        (3, Fixed64(1)),
        (4, Fixed64(4)),
        (5, Fixed64(5)),
        (6, Packed64(2)),
        (7, Packed64(3)),
        (8, Message(1)),
        (9, Message(0)),
        (10, Varint(9)),
        (11, Fixed64(6)),
        (12, Fixed64(7)),
    ],
);
/// `ExponentialHistogramDataPoint`.
pub(super) static EXPONENTIAL: Spec = Spec::new(
    "ExponentialHistogramDataPoint",
    &[
        (1, Message(0)),
        (2, Fixed64(0)),
        (3, Fixed64(1)),
        (4, Fixed64(4)),
        (5, Fixed64(5)),
        (6, Varint(2)),
        (7, Fixed64(3)),
        (8, Message(2)),
        (9, Message(3)),
        (10, Varint(9)),
        (11, Message(1)),
        (12, Fixed64(6)),
        (13, Fixed64(7)),
        (14, Fixed64(8)),
    ],
);
/// `SummaryDataPoint`.
pub(super) static SUMMARY: Spec = Spec::new(
    "SummaryDataPoint",
    &[
        (2, Fixed64(0)),
        (3, Fixed64(1)),
        (4, Fixed64(4)),
        (5, Fixed64(5)),
        (6, Message(2)),
        (7, Message(0)),
        (8, Varint(9)),
    ],
);
/// Numbers of data points of all kinds.
pub(super) mod point {
    pub const START: u8 = 0;
    pub const TIME: u8 = 1;
    /// The value of a number, and behind it whether it is a float.
    pub const VALUE: u8 = 2;
    pub const SCALE: u8 = 2;
    pub const ZERO_COUNT: u8 = 3;
    pub const COUNT: u8 = 4;
    pub const SUM: u8 = 5;
    pub const MIN: u8 = 6;
    pub const MAX: u8 = 7;
    pub const ZERO_THRESHOLD: u8 = 8;
    pub const FLAGS: u8 = 9;
    /// Not in the message: what the data around it say.
    pub const TEMPORALITY: u8 = 10;
    pub const IS_MONOTONIC: u8 = 11;
    /// Lists.
    pub const EXEMPLARS: u8 = 1;
    pub const BUCKETS: u8 = 2;
    pub const BOUNDS: u8 = 3;
    pub const POSITIVE: u8 = 2;
    pub const NEGATIVE: u8 = 3;
    pub const QUANTILES: u8 = 2;
}

/// `Exemplar`: a value, a time, two ids.
pub(super) static EXEMPLAR: Spec = Spec::new(
    "Exemplar",
    &[(2, Fixed64(1)), (3, OneOf64(2)), (4, Text(1)), (5, Text(0)), (6, OneOf64(2)), (7, Message(0))],
);
/// `Buckets` of an exponential histogram: an offset, counts.
pub(super) static BUCKETS: Spec = Spec::new("Buckets", &[(1, Varint(0)), (2, PackedVarint(0))]);
/// `ValueAtQuantile`: a quantile, a value.
pub(super) static QUANTILE: Spec = Spec::new("ValueAtQuantile", &[(1, Fixed64(0)), (2, Fixed64(1))]);

/// The field number of a value of 64 bits that is an integer, in `NumberDataPoint` and `Exemplar`.
pub(super) const AS_INT: u64 = 6;

/// The words for kinds of spans, by their numbers.
pub(super) static SPAN_KINDS: [&str; 6] =
    ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];
/// The words for codes of a status, by their numbers.
pub(super) static STATUS_CODES: [&str; 3] = ["Unset", "Ok", "Error"];
/// The words for kinds of metrics, in the order of the collector's tables.
pub(super) static METRIC_TYPES: [&str; 5] = ["gauge", "sum", "histogram", "exponential_histogram", "summary"];
