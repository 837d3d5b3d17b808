//! The coercions: what a column makes of a value, by the value's kind.
//!
//! Owns the kinds of values that formats hand over, the table of kinds and column types, and the sentence for a value that does not
//! fit. Does not own the reading of a format's bytes, nor where in a record a value stands: a format wraps a [`Misfit`] with its own
//! place and value.
//!
//! | source kind     | Int, UInt     | Float        | Decimal    | Bool          | String       | FixedString | UUID     | IPv4     | IPv6      | Date, Date32 | DateTime, DateTime64 | Enum   | Array  | Map   |
//! |-----------------|---------------|--------------|------------|---------------|--------------|-------------|----------|----------|-----------|--------------|----------------------|--------|--------|-------|
//! | bool            | –             | –            | –          | yes           | –            | –           | –        | –        | –         | –            | –                    | –      | –      | –     |
//! | integer         | in range      | nearest      | in range   | 0 and 1       | –            | –           | –        | –        | –         | –            | unix time            | number | –      | –     |
//! | float           | whole numbers | nearest      | –          | –             | –            | –           | –        | –        | –         | –            | –                    | –      | –      | –     |
//! | decimal         | whole numbers | nearest      | no digit lost | –          | –            | –           | –        | –        | –         | –            | unix time            | –      | –      | –     |
//! | text            | its number    | its number   | its number | its word      | as it is     | at most n   | its form | its form | its form  | its form     | its form             | name   | –      | –     |
//! | bytes           | –             | –            | –          | –             | if UTF-8     | at most n   | 16       | 4        | 4 or 16   | –            | –                    | –      | –      | –     |
//! | date            | its days      | –            | –          | –             | –            | –           | –        | –        | –         | in range     | midnight in the zone | –      | –      | –     |
//! | timestamp       | its number    | –            | –          | –             | –            | –           | –        | –        | –         | at midnight  | in range             | –      | –      | –     |
//! | local timestamp | its number    | –            | –          | –             | –            | –           | –        | –        | –         | at midnight  | in the zone          | –      | –      | –     |
//! | uuid            | –             | –            | –          | –             | its text     | –           | yes      | –        | –         | –            | –                    | –      | –      | –     |
//! | list            | –             | –            | –          | –             | –            | –           | –        | –        | –         | –            | –                    | –      | by item | –    |
//! | map             | –             | –            | –          | –             | –            | –           | –        | –        | –         | –            | –                    | –      | –      | by entry |
//! | null            | NULL where the type is Nullable; for a whole column also where it has a DEFAULT                                                                                                |
//!
//! - A dash: a value of that kind is never taken ([`takes`] is the same table as code). A format that knows its kinds beforehand refuses such a
//!   column when it is configured.
//! - Everything else is checked value by value, and a value that would change is refused. Only what a type cannot represent is dropped:
//!   digits of a time that are finer than the column, and the distance of a number to the nearest float.
//! - A timestamp or date in an integer column is the writer's own number, in the writer's unit.
//! - A column of type JSON takes a text, or bytes, that is one JSON object ([`dataflow::json_object`]). The format JSON hands over the object itself,
//!   and OTLP attributes as one.
//! - JSON is stricter by one rule: a quoted text is no Bool.
//!
//! [`super::numbers`], [`super::times`] and [`super::text_types`] hold the rules for each type.

use std::borrow::Cow;

use arrow_array::ArrowPrimitiveType;
use dataflow::{ColumnType, Reason, json_object};

use super::numbers::Exact;

/// What a format's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// An integer of up to 64 bits with a sign.
    Integer,
    Float,
    Decimal,
    Text,
    Bytes,
    /// Days since 1970-01-01.
    Date,
    /// An instant.
    Timestamp,
    /// A date and a time of day without a zone.
    LocalTimestamp,
    Uuid,
    List,
    Map,
}

impl Kind {
    /// The word in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bool => "a boolean",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::Decimal => "a decimal",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Date => "a date",
            Self::Timestamp => "a timestamp",
            Self::LocalTimestamp => "a local timestamp",
            Self::Uuid => "a UUID",
            Self::List => "an array",
            Self::Map => "a map",
        }
    }
}

/// Whether any value of `kind` is taken by a column of this type. Items of lists and maps are asked about by themselves.
pub(crate) fn takes(column_type: &ColumnType, kind: Kind) -> bool {
    use ColumnType as T;
    use Kind as K;
    match column_type.bare() {
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => matches!(
            kind,
            K::Integer | K::Float | K::Decimal | K::Text | K::Date | K::Timestamp | K::LocalTimestamp
        ),
        T::Float32 | T::Float64 => matches!(kind, K::Integer | K::Float | K::Decimal | K::Text),
        T::Decimal { .. } => matches!(kind, K::Integer | K::Decimal | K::Text),
        T::Bool => matches!(kind, K::Bool | K::Integer | K::Text),
        T::String => matches!(kind, K::Text | K::Bytes | K::Uuid),
        T::Json { .. } => matches!(kind, K::Text | K::Bytes),
        T::FixedString(_) | T::Ipv4 | T::Ipv6 => matches!(kind, K::Text | K::Bytes),
        T::Uuid => matches!(kind, K::Text | K::Bytes | K::Uuid),
        T::Date | T::Date32 => matches!(kind, K::Text | K::Date | K::Timestamp | K::LocalTimestamp),
        T::DateTime { .. } | T::DateTime64 { .. } => {
            matches!(kind, K::Integer | K::Decimal | K::Text | K::Date | K::Timestamp | K::LocalTimestamp)
        }
        T::Enum8(_) | T::Enum16(_) => matches!(kind, K::Integer | K::Text),
        T::Array(_) => kind == K::List,
        T::Map(..) => kind == K::Map,
        // `bare` leaves none of them.
        T::LowCardinality(_) | T::Nullable(_) => false,
        // Only a window makes states.
        T::State(_) => false,
    }
}

/// The word for a type in a refusal; without its parameters, which do not matter there.
pub(crate) fn type_word(column_type: &ColumnType) -> &'static str {
    use ColumnType as T;
    match column_type.bare() {
        T::Int8 => "Int8",
        T::Int16 => "Int16",
        T::Int32 => "Int32",
        T::Int64 => "Int64",
        T::UInt8 => "UInt8",
        T::UInt16 => "UInt16",
        T::UInt32 => "UInt32",
        T::UInt64 => "UInt64",
        T::Float32 => "Float32",
        T::Float64 => "Float64",
        T::Bool => "Bool",
        T::String => "String",
        T::FixedString(_) => "FixedString",
        T::Uuid => "UUID",
        T::Date => "Date",
        T::Date32 => "Date32",
        T::DateTime { .. } => "DateTime",
        T::DateTime64 { .. } => "DateTime64",
        T::Decimal { .. } => "Decimal",
        T::Enum8(_) => "Enum8",
        T::Enum16(_) => "Enum16",
        T::Ipv4 => "IPv4",
        T::Ipv6 => "IPv6",
        T::Array(_) => "Array",
        T::Map(..) => "Map",
        T::Json { .. } => "JSON",
        T::LowCardinality(_) => "LowCardinality",
        T::Nullable(_) => "Nullable",
        T::State(_) => "AggregateFunction",
    }
}

/// Why a column does not take a value. Made only for a value that is turned down, so it may allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The rule's class.
    pub reason: Reason,
    /// The end of a sentence that begins with the value: "does not fit UInt16 (0 to 65535)".
    pub rule: Cow<'static, str>,
}

/// What a rule gives.
pub(crate) type Fit<T> = Result<T, Box<Misfit>>;

impl Misfit {
    /// A value of a kind that is taken, but not this one.
    #[cold]
    pub fn range(rule: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self { reason: Reason::OutOfRange, rule: rule.into() })
    }

    /// A text that does not have the form that the type asks for.
    #[cold]
    pub fn form(rule: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self { reason: Reason::WrongKind, rule: rule.into() })
    }

    /// What is no object that a column of type JSON takes.
    #[cold]
    pub fn object(unfit: json_object::Unfit) -> Box<Self> {
        Box::new(Self { reason: unfit.reason, rule: unfit.rule })
    }

    /// A value of a kind that the type never takes.
    #[cold]
    pub fn kind(type_name: &str) -> Box<Self> {
        Self::form(format!("cannot be read as {type_name}"))
    }

    /// A null that the column does not take.
    #[cold]
    pub fn missing(rule: &'static str) -> Box<Self> {
        Box::new(Self { reason: Reason::Missing, rule: rule.into() })
    }

    /// The column's memory is at its bound.
    #[cold]
    pub fn full() -> Box<Self> {
        let rule = "does not fit: a batch holds 2 GiB of a column at the most".into();
        Box::new(Self { reason: Reason::TooLarge, rule })
    }
}

/// The entry of an Arrow array that a rule makes.
pub(crate) type Native<R> = <<R as Rule>::Arrow as ArrowPrimitiveType>::Native;

/// How values become entries of a primitive Arrow array. A kind that is not implemented is not taken.
pub(crate) trait Rule: Clone + Send + Sync + 'static {
    /// The Arrow type that holds it.
    type Arrow: ArrowPrimitiveType;

    /// The column type's name in messages.
    fn type_name(&self) -> Cow<'static, str>;

    /// A text, which formats without kinds have for everything. Also the key of a map.
    fn text(&self, text: &[u8]) -> Fit<Native<Self>>;

    /// The same, by a rule that may remember something of it to read the next one faster. That changes no value.
    #[inline]
    fn next_text(&mut self, text: &[u8]) -> Fit<Native<Self>> {
        self.text(text)
    }

    /// An integer.
    #[inline]
    fn signed(&self, _value: i64) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// A float.
    #[inline]
    fn float(&self, _value: f64) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// A decimal number.
    fn decimal(&self, _value: Exact) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Bytes without a meaning of their own.
    fn bytes(&self, _value: &[u8]) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Days since 1970-01-01.
    fn date(&self, _days: i32) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// An instant: ticks since 1970, each the `digits`th power of a tenth of a second (0, 3, 6 or 9).
    #[inline]
    fn timestamp(&self, _ticks: i64, _digits: u8) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// The same, of a clock on the wall whose zone the value does not say.
    fn local_timestamp(&self, _ticks: i64, _digits: u8) -> Fit<Native<Self>> {
        Err(Misfit::kind(&self.type_name()))
    }
}

#[cfg(test)]
mod tests;
