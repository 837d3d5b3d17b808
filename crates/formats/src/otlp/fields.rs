//! The fields that a row of each signal has, by the names of the columns that the collector's ClickHouse exporter gives them.
//!
//! Owns the names and what fills each. Does not own the filling ([`super::fill`]) nor which columns a table has.
//!
//! A field is of a *level*: what all rows of a resource, of a scope or of a metric share is read once for all of them.

use super::Signal;
use super::messages::{self as m, log, metric, point, span};
use super::wire::Spec;
use crate::columns::Kind;

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Resource,
    Scope,
    Metric,
    Row,
}

/// What fills a column, by the slots of its level's message.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Rows of this kind do not have it: NULL or the DEFAULT, or the empty value of the kind.
    Nothing(Kind),
    /// A text.
    Text(u8),
    /// Bytes in hexadecimal.
    Hex(u8),
    /// Nanoseconds since 1970.
    Time(u8),
    /// An integer with a sign.
    Signed(u8),
    /// The same, sent with its sign in the lowest bit.
    Zigzag(u8),
    /// An integer without a sign.
    Unsigned(u8),
    /// The low eight bits of a number.
    Low8(u8),
    /// A truth value.
    Bool(u8),
    /// A float.
    Double(u8),
    /// A float that may be left out: NULL where the column takes it, otherwise 0.
    MaybeDouble(u8),
    /// A float or an integer.
    Number(u8),
    /// The word for a number; a number without a word as it is.
    Word(u8, &'static [&'static str]),
    /// Always this text.
    Always(&'static str),
    /// The text of a value of any type.
    Any(u8),
    /// A map of attributes, or a JSON object.
    Attributes(u8),
    /// The paths of attributes: their keys, joined by dots where they are within each other; sorted, each once.
    Paths(u8),
    /// The text of the attribute `service.name`.
    Service,
    /// Floats.
    Doubles(u8),
    /// Counts of 64 bits.
    Counts(u8),
    /// Counts of any length.
    Varints(u8),
    /// A part of the message in a list.
    Inside(u8, &'static Spec, &'static What),
    /// A part of each of the messages in a list, as an array.
    Each(u8, &'static Spec, &'static What),
}

impl What {
    /// The kind of the values, as far as they have one of their own.
    pub fn kind(self) -> Kind {
        match self {
            Self::Nothing(kind) => kind,
            Self::Text(_)
            | Self::Hex(_)
            | Self::Word(..)
            | Self::Always(_)
            | Self::Any(_)
            | Self::Service => Kind::Text,
            Self::Time(_) => Kind::Timestamp,
            Self::Signed(_) | Self::Zigzag(_) | Self::Unsigned(_) | Self::Low8(_) => Kind::Integer,
            Self::Bool(_) => Kind::Bool,
            Self::Double(_) | Self::MaybeDouble(_) | Self::Number(_) => Kind::Float,
            Self::Attributes(_) => Kind::Map,
            Self::Paths(_) | Self::Doubles(_) | Self::Counts(_) | Self::Varints(_) | Self::Each(..) => {
                Kind::List
            }
            Self::Inside(_, _, what) => what.kind(),
        }
    }
}

/// A field of a row.
#[derive(Debug)]
pub(super) struct Field {
    /// The name.
    pub name: &'static str,
    /// Where it stands.
    pub level: Level,
    /// What fills it: one for all rows, or one for each kind of metric.
    pub whats: &'static [What],
}

impl Field {
    /// What fills it in rows of this kind.
    pub fn of_kind(&self, kind: usize) -> &'static What {
        &self.whats[kind.min(self.whats.len() - 1)]
    }
}

const fn field(name: &'static str, level: Level, whats: &'static [What]) -> Field {
    Field { name, level, whats }
}

use Level::{Metric, Resource, Row, Scope};
use What::{
    Always, Any, Attributes, Bool, Counts, Double, Doubles, Each, Hex, Inside, Low8, MaybeDouble, Nothing,
    Number, Paths, Service, Signed, Text, Time, Unsigned, Varints, Word, Zigzag,
};

/// What the rows of all signals have.
static SHARED: [Field; 11] = [
    field("ServiceName", Resource, &[Service]),
    field("ResourceAttributes", Resource, &[Attributes(m::ATTRIBUTES)]),
    field("ResourceAttributesKeys", Resource, &[Paths(m::ATTRIBUTES)]),
    field("ResourceSchemaUrl", Resource, &[Text(m::RESOURCE_URL)]),
    field("ResourceDroppedAttrCount", Resource, &[Unsigned(m::FIRST)]),
    field("ScopeName", Scope, &[Text(0)]),
    field("ScopeVersion", Scope, &[Text(1)]),
    field("ScopeAttributes", Scope, &[Attributes(m::ATTRIBUTES)]),
    field("ScopeAttributesKeys", Scope, &[Paths(m::ATTRIBUTES)]),
    field("ScopeDroppedAttrCount", Scope, &[Unsigned(m::FIRST)]),
    field("ScopeSchemaUrl", Scope, &[Text(m::SCOPE_URL)]),
];

static LOGS: [Field; 14] = [
    field("Timestamp", Row, &[Time(log::TIME)]),
    field("TimestampTime", Row, &[Time(log::TIME)]),
    field("ObservedTimestamp", Row, &[Time(log::OBSERVED)]),
    field("TraceId", Row, &[Hex(log::TRACE_ID)]),
    field("SpanId", Row, &[Hex(log::SPAN_ID)]),
    field("TraceFlags", Row, &[Low8(log::FLAGS)]),
    field("Flags", Row, &[Unsigned(log::FLAGS)]),
    field("SeverityText", Row, &[Text(log::SEVERITY_TEXT)]),
    field("SeverityNumber", Row, &[Signed(log::SEVERITY)]),
    field("Body", Row, &[Any(log::BODY)]),
    field("LogAttributes", Row, &[Attributes(m::ATTRIBUTES)]),
    field("LogAttributesKeys", Row, &[Paths(m::ATTRIBUTES)]),
    field("DroppedAttrCount", Row, &[Unsigned(log::DROPPED)]),
    field("EventName", Row, &[Text(log::EVENT_NAME)]),
];

static TRACES: [Field; 28] = [
    field("Timestamp", Row, &[Time(span::START)]),
    field("EndTimestamp", Row, &[Time(span::END)]),
    field("Duration", Row, &[Unsigned(span::DURATION)]),
    field("TraceId", Row, &[Hex(span::TRACE_ID)]),
    field("SpanId", Row, &[Hex(span::SPAN_ID)]),
    field("ParentSpanId", Row, &[Hex(span::PARENT)]),
    field("TraceState", Row, &[Text(span::TRACE_STATE)]),
    field("TraceFlags", Row, &[Low8(span::FLAGS)]),
    field("Flags", Row, &[Unsigned(span::FLAGS)]),
    field("SpanName", Row, &[Text(span::NAME)]),
    field("SpanKind", Row, &[Word(span::KIND, &m::SPAN_KINDS)]),
    field("SpanAttributes", Row, &[Attributes(m::ATTRIBUTES)]),
    field("SpanAttributesKeys", Row, &[Paths(m::ATTRIBUTES)]),
    field("DroppedAttrCount", Row, &[Unsigned(span::DROPPED)]),
    field("DroppedEventsCount", Row, &[Unsigned(span::DROPPED_EVENTS)]),
    field("DroppedLinksCount", Row, &[Unsigned(span::DROPPED_LINKS)]),
    field("StatusCode", Row, &[Inside(span::STATUS, &m::STATUS, &Word(0, &m::STATUS_CODES))]),
    field("StatusMessage", Row, &[Inside(span::STATUS, &m::STATUS, &Text(0))]),
    field("Events.Timestamp", Row, &[Each(span::EVENTS, &m::EVENT, &Time(0))]),
    field("Events.Name", Row, &[Each(span::EVENTS, &m::EVENT, &Text(0))]),
    field("Events.Attributes", Row, &[Each(span::EVENTS, &m::EVENT, &Attributes(0))]),
    field("Events.DroppedAttrCount", Row, &[Each(span::EVENTS, &m::EVENT, &Unsigned(m::LOST))]),
    field("Links.TraceId", Row, &[Each(span::LINKS, &m::LINK, &Hex(0))]),
    field("Links.SpanId", Row, &[Each(span::LINKS, &m::LINK, &Hex(1))]),
    field("Links.TraceState", Row, &[Each(span::LINKS, &m::LINK, &Text(2))]),
    field("Links.Attributes", Row, &[Each(span::LINKS, &m::LINK, &Attributes(0))]),
    field("Links.DroppedAttrCount", Row, &[Each(span::LINKS, &m::LINK, &Unsigned(m::LOST))]),
    field("Links.Flags", Row, &[Each(span::LINKS, &m::LINK, &Unsigned(2))]),
];

const NO_FLOAT: What = Nothing(Kind::Float);
const NO_INT: What = Nothing(Kind::Integer);
const NO_LIST: What = Nothing(Kind::List);
const NO_BOOL: What = Nothing(Kind::Bool);
const TEMPORALITY: What = Signed(point::TEMPORALITY);
const COUNT: What = Unsigned(point::COUNT);
const SUM: What = MaybeDouble(point::SUM);

/// Each: gauge, sum, histogram, exponential histogram, summary.
static METRICS: [Field; 34] = [
    field(
        "MetricType",
        Row,
        &[
            Always(m::METRIC_TYPES[0]),
            Always(m::METRIC_TYPES[1]),
            Always(m::METRIC_TYPES[2]),
            Always(m::METRIC_TYPES[3]),
            Always(m::METRIC_TYPES[4]),
        ],
    ),
    field("MetricName", Metric, &[Text(metric::NAME)]),
    field("MetricDescription", Metric, &[Text(metric::DESCRIPTION)]),
    field("MetricUnit", Metric, &[Text(metric::UNIT)]),
    field("MetricMetadata", Metric, &[Attributes(metric::METADATA)]),
    field("Attributes", Row, &[Attributes(m::ATTRIBUTES)]),
    field("AttributesKeys", Row, &[Paths(m::ATTRIBUTES)]),
    field("StartTimeUnix", Row, &[Time(point::START)]),
    field("TimeUnix", Row, &[Time(point::TIME)]),
    field("Flags", Row, &[Unsigned(point::FLAGS)]),
    field("Value", Row, &[Number(point::VALUE), Number(point::VALUE), NO_FLOAT, NO_FLOAT, NO_FLOAT]),
    field("AggregationTemporality", Row, &[NO_INT, TEMPORALITY, TEMPORALITY, TEMPORALITY, NO_INT]),
    // Older tables have it under this name.
    field("AggTemp", Row, &[NO_INT, TEMPORALITY, TEMPORALITY, TEMPORALITY, NO_INT]),
    field("IsMonotonic", Row, &[NO_BOOL, Bool(point::IS_MONOTONIC), NO_BOOL, NO_BOOL, NO_BOOL]),
    field("Count", Row, &[NO_INT, NO_INT, COUNT, COUNT, COUNT]),
    field("Sum", Row, &[NO_FLOAT, NO_FLOAT, SUM, SUM, Double(point::SUM)]),
    field("Min", Row, &[NO_FLOAT, NO_FLOAT, MaybeDouble(point::MIN), MaybeDouble(point::MIN), NO_FLOAT]),
    field("Max", Row, &[NO_FLOAT, NO_FLOAT, MaybeDouble(point::MAX), MaybeDouble(point::MAX), NO_FLOAT]),
    field("BucketCounts", Row, &[NO_LIST, NO_LIST, Counts(point::BUCKETS), NO_LIST, NO_LIST]),
    field("ExplicitBounds", Row, &[NO_LIST, NO_LIST, Doubles(point::BOUNDS), NO_LIST, NO_LIST]),
    field("Scale", Row, &[NO_INT, NO_INT, NO_INT, Zigzag(point::SCALE), NO_INT]),
    field("ZeroCount", Row, &[NO_INT, NO_INT, NO_INT, Unsigned(point::ZERO_COUNT), NO_INT]),
    field("ZeroThreshold", Row, &[NO_FLOAT, NO_FLOAT, NO_FLOAT, Double(point::ZERO_THRESHOLD), NO_FLOAT]),
    field(
        "PositiveOffset",
        Row,
        &[NO_INT, NO_INT, NO_INT, Inside(point::POSITIVE, &m::BUCKETS, &Zigzag(0)), NO_INT],
    ),
    field(
        "PositiveBucketCounts",
        Row,
        &[NO_LIST, NO_LIST, NO_LIST, Inside(point::POSITIVE, &m::BUCKETS, &Varints(0)), NO_LIST],
    ),
    field(
        "NegativeOffset",
        Row,
        &[NO_INT, NO_INT, NO_INT, Inside(point::NEGATIVE, &m::BUCKETS, &Zigzag(0)), NO_INT],
    ),
    field(
        "NegativeBucketCounts",
        Row,
        &[NO_LIST, NO_LIST, NO_LIST, Inside(point::NEGATIVE, &m::BUCKETS, &Varints(0)), NO_LIST],
    ),
    field(
        "ValueAtQuantiles.Quantile",
        Row,
        &[NO_LIST, NO_LIST, NO_LIST, NO_LIST, Each(point::QUANTILES, &m::QUANTILE, &Double(0))],
    ),
    field(
        "ValueAtQuantiles.Value",
        Row,
        &[NO_LIST, NO_LIST, NO_LIST, NO_LIST, Each(point::QUANTILES, &m::QUANTILE, &Double(1))],
    ),
    field("Exemplars.FilteredAttributes", Row, &EXEMPLAR_ATTRIBUTES),
    field("Exemplars.TimeUnix", Row, &EXEMPLAR_TIMES),
    field("Exemplars.Value", Row, &EXEMPLAR_VALUES),
    field("Exemplars.SpanId", Row, &EXEMPLAR_SPANS),
    field("Exemplars.TraceId", Row, &EXEMPLAR_TRACES),
];

const fn exemplars(what: &'static What) -> [What; 5] {
    let each = Each(point::EXEMPLARS, &m::EXEMPLAR, what);
    [each, each, each, each, NO_LIST]
}

static EXEMPLAR_ATTRIBUTES: [What; 5] = exemplars(&Attributes(0));
static EXEMPLAR_TIMES: [What; 5] = exemplars(&Time(1));
static EXEMPLAR_VALUES: [What; 5] = exemplars(&Number(2));
static EXEMPLAR_SPANS: [What; 5] = exemplars(&Hex(1));
static EXEMPLAR_TRACES: [What; 5] = exemplars(&Hex(0));

/// All fields of a signal's rows.
pub(super) fn all(signal: Signal) -> impl Iterator<Item = &'static Field> {
    let own: &'static [Field] = match signal {
        Signal::Logs => &LOGS,
        Signal::Traces => &TRACES,
        Signal::Metrics => &METRICS,
    };
    own.iter().chain(&SHARED)
}
