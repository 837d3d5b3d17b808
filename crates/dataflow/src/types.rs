//! The column types that a pipeline can write, and how each is held in Arrow.
//!
//! Owns the closed list of types and their in-memory form. Does not own their names on the wire and in DDL
//! (`clickhouse::types`), nor the reading of values (`formats`).
//!
//! | type                    | Arrow form                          | unit, range                                |
//! |-------------------------|-------------------------------------|--------------------------------------------|
//! | Int8..Int64, UInt8..UInt64, Float32/64 | the same             |                                            |
//! | Bool                    | Boolean                             |                                            |
//! | String                  | Utf8 (Binary is accepted too)       | at most 2 GiB a batch                      |
//! | FixedString(n)          | FixedSizeBinary(n)                  | shorter values are padded with zeros       |
//! | UUID                    | FixedSizeBinary(16)                 | in the order of the text form (big-endian) |
//! | IPv6                    | FixedSizeBinary(16)                 | network order                              |
//! | IPv4                    | UInt32                              | host value: 1.2.3.4 is 0x01020304          |
//! | Date                    | Date32                              | 1970-01-01 to 2149-06-06                   |
//! | Date32                  | Date32                              | 1900-01-01 to 2299-12-31                   |
//! | DateTime                | Timestamp(Second, UTC)              | 0 to 2^32 - 1                              |
//! | DateTime64(p)           | Timestamp(s, ms, µs or ns, UTC)     | the next finer unit that holds p digits    |
//! | Decimal(p, s), p <= 38  | Decimal128(p, s)                    |                                            |
//! | Enum8, Enum16           | Int8, Int16                         | only numbers that the type names           |
//! | LowCardinality(t)       | as t                                |                                            |
//! | Nullable(t)             | as t, with a validity map           |                                            |
//! | Array(t)                | List(t)                             |                                            |
//! | Map(k, v)               | Map(k, v)                           | keys unsorted, as they came                |
//! | JSON(…)                 | Utf8                                | the text of one object ([`crate::json_object`]) |
//! | AggregateFunction(f, t…) | Binary                             | the bytes of one state; only a window makes them |

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

/// A name and the number that stands for it.
pub type EnumName<T> = (Arc<str>, T);

/// A column's type. `Nullable` and `LowCardinality` nest as in ClickHouse: `LowCardinality(Nullable(String))`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are ClickHouse's; the table above says their forms")]
pub enum ColumnType {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Bool,
    String,
    /// Length in bytes, at least 1.
    FixedString(u32),
    Uuid,
    Date,
    Date32,
    DateTime {
        /// The column's zone; `None` is the server's.
        timezone: Option<Arc<str>>,
    },
    DateTime64 {
        /// Digits after the second, 0 to 9.
        precision: u8,
        /// The column's zone; `None` is the server's.
        timezone: Option<Arc<str>>,
    },
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: u8,
    },
    Enum8(Arc<[EnumName<i8>]>),
    Enum16(Arc<[EnumName<i16>]>),
    Ipv4,
    Ipv6,
    LowCardinality(Box<ColumnType>),
    Nullable(Box<ColumnType>),
    Array(Box<ColumnType>),
    Map(Box<ColumnType>, Box<ColumnType>),
    /// Objects, each with paths of its own. A value is an object's text, which [`crate::json_object`] has checked.
    Json {
        /// What stands in the type's parentheses, as the server writes it: paths with types, paths to skip, limits.
        parameters: Option<Arc<str>>,
    },
    /// What a table of the engine AggregatingMergeTree keeps in place of a value.
    State(Arc<StateType>),
}

/// The type of an aggregate function's states, as in `AggregateFunction(argMax, String, DateTime)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateType {
    /// The function.
    pub function: StateFunction,
    /// The types of its arguments, without LowCardinality; none for `count()`.
    pub arguments: Vec<ColumnType>,
    /// The levels of quantiles in millionths, in their order; none for other functions.
    pub levels: Vec<u32>,
}

/// A function whose states can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are ClickHouse's")]
pub enum StateFunction {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Any,
    ArgMin,
    ArgMax,
    Uniq,
    QuantileTDigest,
    QuantilesTDigest,
}

impl StateFunction {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Count,
        Self::Sum,
        Self::Avg,
        Self::Min,
        Self::Max,
        Self::Any,
        Self::ArgMin,
        Self::ArgMax,
        Self::Uniq,
        Self::QuantileTDigest,
        Self::QuantilesTDigest,
    ];

    /// ClickHouse's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
            Self::Any => "any",
            Self::ArgMin => "argMin",
            Self::ArgMax => "argMax",
            Self::Uniq => "uniq",
            Self::QuantileTDigest => "quantileTDigest",
            Self::QuantilesTDigest => "quantilesTDigest",
        }
    }

    /// Whether the levels of quantiles stand behind its name.
    pub fn has_levels(self) -> bool {
        matches!(self, Self::QuantileTDigest | Self::QuantilesTDigest)
    }

    /// Whether it takes so many arguments.
    pub fn takes(self, arguments: usize) -> bool {
        match self {
            Self::Count => arguments <= 1,
            Self::ArgMin | Self::ArgMax => arguments == 2,
            Self::Sum | Self::Avg | Self::Min | Self::Max | Self::Any | Self::Uniq => arguments == 1,
            Self::QuantileTDigest | Self::QuantilesTDigest => arguments == 1,
        }
    }
}

impl StateType {
    /// Whether a state begins with a byte that says whether there was a value: so it is if an argument may be NULL, but for `count`.
    pub fn has_flag(&self) -> bool {
        self.function != StateFunction::Count && self.arguments.iter().any(ColumnType::is_nullable)
    }
}

impl ColumnType {
    /// True if the column itself can hold NULL (`Nullable(t)`, `LowCardinality(Nullable(t))`).
    pub fn is_nullable(&self) -> bool {
        match self {
            Self::Nullable(_) => true,
            Self::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// The type without `Nullable` and `LowCardinality` around it.
    pub fn bare(&self) -> &ColumnType {
        match self {
            Self::Nullable(inner) | Self::LowCardinality(inner) => inner.bare(),
            other => other,
        }
    }

    /// True if the type is JSON, or holds it at any depth.
    pub fn holds_json(&self) -> bool {
        match self {
            Self::Json { .. } => true,
            Self::LowCardinality(inner) | Self::Nullable(inner) | Self::Array(inner) => inner.holds_json(),
            Self::Map(key, value) => key.holds_json() || value.holds_json(),
            _ => false,
        }
    }

    /// The least and the greatest value of an integer; `None` for all other types.
    pub fn integer_range(&self) -> Option<(i128, i128)> {
        Some(match self {
            Self::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Self::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Self::Int32 => (i32::MIN.into(), i32::MAX.into()),
            Self::Int64 => (i64::MIN.into(), i64::MAX.into()),
            Self::UInt8 => (0, u8::MAX.into()),
            Self::UInt16 => (0, u16::MAX.into()),
            Self::UInt32 => (0, u32::MAX.into()),
            Self::UInt64 => (0, u64::MAX.into()),
            _ => return None,
        })
    }

    /// The Arrow type that holds values of this type.
    pub fn arrow(&self) -> DataType {
        let utc = || Some(Arc::from("UTC"));
        match self {
            Self::Int8 | Self::Enum8(_) => DataType::Int8,
            Self::Int16 | Self::Enum16(_) => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 | Self::Ipv4 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::String | Self::Json { .. } => DataType::Utf8,
            Self::FixedString(n) => DataType::FixedSizeBinary(*n as i32),
            Self::Uuid | Self::Ipv6 => DataType::FixedSizeBinary(16),
            Self::Date | Self::Date32 => DataType::Date32,
            Self::DateTime { .. } => DataType::Timestamp(TimeUnit::Second, utc()),
            Self::DateTime64 { precision, .. } => DataType::Timestamp(time_unit(*precision), utc()),
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
            Self::State(_) => DataType::Binary,
            Self::LowCardinality(inner) | Self::Nullable(inner) => inner.arrow(),
            Self::Array(item) => {
                DataType::List(Arc::new(Field::new("item", item.arrow(), item.is_nullable())))
            }
            Self::Map(key, value) => {
                let entry = Fields::from(vec![
                    Field::new("keys", key.arrow(), false),
                    Field::new("values", value.arrow(), value.is_nullable()),
                ]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry), false)), false)
            }
        }
    }
}

/// The coarsest Arrow unit that holds `precision` digits after the second.
pub fn time_unit(precision: u8) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// A column of a table, or of the rows between two steps, and what fills it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's name in the table.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// The record's field that fills it, dotted for nested ones; the column's own name unless the pipeline says other.
    pub field: String,
    /// The column's DEFAULT expression, as the server writes it.
    pub default: Option<String>,
    /// The DEFAULT's value as JSON, where the column cannot be sent as NULL (an array, a map): a decoder fills it in.
    pub default_json: Option<String>,
}

impl Column {
    /// A column without DEFAULT that is filled by the field of its own name.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        let name = name.into();
        Self { field: name.clone(), name, column_type, default: None, default_json: None }
    }

    /// True if a record may leave the column out or send null.
    pub fn is_optional(&self) -> bool {
        self.column_type.is_nullable() || self.default.is_some()
    }

    /// The Arrow field: nullable if the column is optional (a null stands for NULL or for the DEFAULT).
    pub fn arrow(&self) -> Field {
        Field::new(&self.name, self.column_type.arrow(), self.is_optional())
    }
}

/// The columns of a target, in order.
#[derive(Clone, Debug)]
pub struct Schema {
    columns: Arc<[Column]>,
    arrow: arrow_schema::SchemaRef,
}

impl Schema {
    /// A schema of these columns.
    pub fn new(columns: Vec<Column>) -> Self {
        let arrow =
            Arc::new(arrow_schema::Schema::new(columns.iter().map(Column::arrow).collect::<Vec<_>>()));
        Self { columns: columns.into(), arrow }
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The same columns as an Arrow schema.
    pub fn arrow(&self) -> &arrow_schema::SchemaRef {
        &self.arrow
    }

    /// Where the column of that name stands.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
}
