//! Our types to the types that expressions are planned with, and back.
//!
//! Owns that mapping and the names of types in `CAST`. Does not own values (`operand`).
//!
//! | ours                                 | in an expression        | as a result                       |
//! |--------------------------------------|-------------------------|-----------------------------------|
//! | numbers, Bool, String, Date, Decimal | themselves              | themselves (`Date` as `Date32`)   |
//! | DateTime, DateTime64(p)              | a time in UTC           | `DateTime64(p, 'UTC')` with p of 0, 3, 6 or 9 |
//! | UUID, IPv4, IPv6, Enum, FixedString, JSON | their text         | `String`                          |
//! | LowCardinality(t), Nullable(t)       | `t`                     | `Nullable(t)` if it may be NULL   |
//! | Array(t), Map(k, v)                  | of what `t`, `k`, `v` are | of what `t`, `k`, `v` are       |
//!
//! `CAST(x AS Array(t))` makes items that are never NULL, as it is written; `TRY_CAST` has to be able to make NULL of one.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use dataflow::ColumnType;
use datafusion_common::{DataFusionError, plan_datafusion_err};
use datafusion_expr::planner::TypePlanner;
use datafusion_sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as Written, ExactNumberInfo, ObjectNamePart, TimezoneInfo,
};

/// Digits of a Decimal.
const DECIMAL_DIGITS_MAX: u64 = 38;

/// The type that a column has in an expression.
pub(crate) fn operand(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::FixedString(_)
        | ColumnType::Uuid
        | ColumnType::Enum8(_)
        | ColumnType::Enum16(_)
        | ColumnType::Ipv4
        | ColumnType::Ipv6
        | ColumnType::Json { .. } => DataType::Utf8,
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) => operand(inner),
        ColumnType::Array(item) => list(operand(item), item.is_nullable()),
        ColumnType::Map(key, value) => map(operand(key), operand(value), value.is_nullable()),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Bool
        | ColumnType::String
        | ColumnType::Date
        | ColumnType::Date32
        | ColumnType::DateTime { .. }
        | ColumnType::DateTime64 { .. }
        | ColumnType::Decimal { .. }
        | ColumnType::State(_) => column_type.arrow(),
    }
}

/// A list as [`ColumnType::arrow`] makes it.
pub(crate) fn list(item: DataType, nullable: bool) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, nullable)))
}

/// A map as [`ColumnType::arrow`] makes it.
pub(crate) fn map(key: DataType, value: DataType, nullable: bool) -> DataType {
    let entry = Fields::from(vec![Field::new("keys", key, false), Field::new("values", value, nullable)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry), false)), false)
}

/// The type of a computed column; an error says what to write instead.
pub(crate) fn result(data_type: &DataType, nullable: bool) -> Result<ColumnType, String> {
    let bare = match data_type {
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::UInt8,
        DataType::UInt16 => ColumnType::UInt16,
        DataType::UInt32 => ColumnType::UInt32,
        DataType::UInt64 => ColumnType::UInt64,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Boolean => ColumnType::Bool,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::String,
        DataType::Date32 => ColumnType::Date32,
        DataType::Timestamp(unit, zone) => time(*unit, zone.clone()),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s)
            if (0..=*p as i8).contains(s) =>
        {
            ColumnType::Decimal { precision: *p, scale: *s as u8 }
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let name = name(data_type);
            return Err(format!(
                "no column type holds `{name}`; write `CAST(… AS Float64)`, or `CAST(… AS Decimal(38, 0))`"
            ));
        }
        DataType::Dictionary(_, values) => return result(values, nullable),
        // An Array or a Map is never NULL as a whole: a row where it is NULL is rejected.
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            return Ok(ColumnType::Array(Box::new(result(item.data_type(), item.is_nullable())?)));
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = result(fields[0].data_type(), false)?;
                let value = result(fields[1].data_type(), fields[1].is_nullable())?;
                return Ok(ColumnType::Map(Box::new(key), Box::new(value)));
            }
            other => return Err(format!("no column type holds a map of `{other}`")),
        },
        DataType::Null => return Err("NULL alone has no type; write `CAST(NULL AS String)`".into()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            return Err("the result is binary; write `encode(…, 'hex')` to get text".into());
        }
        DataType::Struct(fields) => {
            let first = fields.first().map_or("field", |field| field.name());
            return Err(format!("the result is a struct; select one of its fields, as in `(…)['{first}']`"));
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            return Err("the result is an interval; write `date_part('epoch', …)` to get seconds".into());
        }
        other => {
            return Err(format!("no column type holds `{}`; write `CAST(… AS String)`", name(other)));
        }
    };
    Ok(if nullable { ColumnType::Nullable(Box::new(bare)) } else { bare })
}

/// A time without a zone counts as UTC.
fn time(unit: TimeUnit, zone: Option<Arc<str>>) -> ColumnType {
    let timezone = Some(zone.filter(|zone| &**zone != "+00:00").unwrap_or_else(|| Arc::from("UTC")));
    match unit {
        TimeUnit::Second => ColumnType::DateTime64 { precision: 0, timezone },
        TimeUnit::Millisecond => ColumnType::DateTime64 { precision: 3, timezone },
        TimeUnit::Microsecond => ColumnType::DateTime64 { precision: 6, timezone },
        TimeUnit::Nanosecond => ColumnType::DateTime64 { precision: 9, timezone },
    }
}

/// The type's name as a user writes it in `CAST`.
pub(crate) fn name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "Bool".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "String".into(),
        DataType::Timestamp(TimeUnit::Second, _) => "DateTime".into(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => "DateTime64(3)".into(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => "DateTime64(6)".into(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "DateTime64(9)".into(),
        DataType::Date32 => "Date32".into(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
            format!("Decimal({p}, {s})")
        }
        DataType::List(item) => format!("Array({})", name(item.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(f) if f.len() == 2 => {
                format!("Map({}, {})", name(f[0].data_type()), name(f[1].data_type()))
            }
            other => format!("Map({other})"),
        },
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "bytes".into(),
        other => other.to_string(),
    }
}

/// The type as ClickHouse writes it.
pub(crate) fn written(column_type: &ColumnType) -> String {
    let zone = |zone: &Option<Arc<str>>| zone.as_ref().map(|zone| format!("'{zone}'"));
    match column_type {
        ColumnType::FixedString(width) => format!("FixedString({width})"),
        ColumnType::Uuid => "UUID".into(),
        ColumnType::DateTime { timezone } => {
            zone(timezone).map_or("DateTime".into(), |zone| format!("DateTime({zone})"))
        }
        ColumnType::DateTime64 { precision, timezone } => match zone(timezone) {
            Some(zone) => format!("DateTime64({precision}, {zone})"),
            None => format!("DateTime64({precision})"),
        },
        ColumnType::Decimal { precision, scale } => format!("Decimal({precision}, {scale})"),
        ColumnType::Enum8(names) => format!("Enum8({})", enum_names(names)),
        ColumnType::Enum16(names) => format!("Enum16({})", enum_names(names)),
        ColumnType::Ipv4 => "IPv4".into(),
        ColumnType::Ipv6 => "IPv6".into(),
        ColumnType::LowCardinality(inner) => format!("LowCardinality({})", written(inner)),
        ColumnType::Nullable(inner) => format!("Nullable({})", written(inner)),
        ColumnType::Array(item) => format!("Array({})", written(item)),
        ColumnType::State(state) => {
            let arguments: Vec<String> = state.arguments.iter().map(written).collect();
            let of = [vec![state.function.name().to_owned()], arguments].concat();
            format!("AggregateFunction({})", of.join(", "))
        }
        ColumnType::Map(key, value) => format!("Map({}, {})", written(key), written(value)),
        ColumnType::Json { parameters: None } => "JSON".into(),
        ColumnType::Json { parameters: Some(parameters) } => format!("JSON({parameters})"),
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => {
            format!("{column_type:?}")
        }
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => {
            format!("{column_type:?}")
        }
        ColumnType::Float32 | ColumnType::Float64 | ColumnType::Bool => format!("{column_type:?}"),
        ColumnType::String | ColumnType::Date | ColumnType::Date32 => format!("{column_type:?}"),
    }
}

fn enum_names<N: std::fmt::Display>(names: &[(Arc<str>, N)]) -> String {
    names.iter().map(|(name, number)| format!("'{name}' = {number}")).collect::<Vec<_>>().join(", ")
}

/// The types that a user writes: ours first, then those of standard SQL.
#[derive(Debug)]
pub(crate) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, written: &Written) -> Result<Option<FieldRef>, DataFusionError> {
        Ok(planned(written)?.map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

fn planned(written: &Written) -> Result<Option<DataType>, DataFusionError> {
    let utc = || Some(Arc::from("UTC"));
    Ok(Some(match written {
        Written::Int8(None) => DataType::Int8,
        Written::Int16 => DataType::Int16,
        Written::Int32 => DataType::Int32,
        Written::Int64 => DataType::Int64,
        Written::UInt8 => DataType::UInt8,
        Written::UInt16 => DataType::UInt16,
        Written::UInt32 => DataType::UInt32,
        Written::UInt64 => DataType::UInt64,
        Written::Float32 => DataType::Float32,
        Written::Float64 => DataType::Float64,
        Written::Date32 => DataType::Date32,
        Written::Datetime(None) => DataType::Timestamp(TimeUnit::Second, utc()),
        Written::Datetime64(precision, zone) => {
            let precision = u8::try_from(*precision).ok().filter(|p| *p <= 9).ok_or_else(|| {
                plan_datafusion_err!("DateTime64 has 0 to 9 digits after the second, not `{precision}`")
            })?;
            let zone = zone.as_deref().map(Arc::from).or_else(utc);
            DataType::Timestamp(dataflow::types::time_unit(precision), zone)
        }
        Written::Timestamp(None, TimezoneInfo::None) => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        Written::Decimal(info) | Written::Numeric(info) | Written::Dec(info) => decimal(info)?,
        Written::Nullable(inner) | Written::LowCardinality(inner) => {
            return planned_or_standard(inner);
        }
        Written::Array(ArrayElemTypeDef::AngleBracket(inner)) => match planned_or_standard(inner)? {
            Some(item) => list(item, takes_null(inner)),
            None => return Ok(None),
        },
        Written::Map(key, value) => match (planned_or_standard(key)?, planned_or_standard(value)?) {
            (Some(key), Some(item)) => map(key, item, takes_null(value)),
            _ => return Ok(None),
        },
        Written::Uuid => return Err(as_text("UUID")),
        Written::JSON => return Err(as_text("JSON")),
        Written::FixedString(_) => return Err(as_text("FixedString")),
        Written::Enum(..) => return Err(as_text("Enum")),
        Written::Custom(name, _) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(word)] if word.value.eq_ignore_ascii_case("bool") => {
                DataType::Boolean
            }
            [ObjectNamePart::Identifier(word)]
                if ["ipv4", "ipv6", "enum8", "enum16"].contains(&word.value.to_lowercase().as_str()) =>
            {
                return Err(as_text(&word.value));
            }
            _ => return Err(plan_datafusion_err!("there is no type `{name}`; {KNOWN_TYPES}")),
        },
        _ => return Ok(None),
    }))
}

/// True if items of the written type may be NULL.
fn takes_null(written: &Written) -> bool {
    match written {
        Written::Nullable(_) => true,
        Written::LowCardinality(inner) => takes_null(inner),
        _ => false,
    }
}

/// The type with room for NULL among the items of arrays and maps, at any depth.
pub(crate) fn with_null_items(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(item) => list(with_null_items(item.data_type()), true),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                map(fields[0].data_type().clone(), with_null_items(fields[1].data_type()), true)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

const KNOWN_TYPES: &str = "the types are those of ClickHouse: `Int64`, `UInt64`, `Float64`, `Decimal(18, 2)`, `String`, `Bool`, \
    `Date`, `DateTime`, `DateTime64(3)`, `Array(String)` and so on";

fn as_text(name: &str) -> DataFusionError {
    plan_datafusion_err!(
        "in an expression `{name}` is a string; remove the cast, because a column of the table converts the string"
    )
}

fn planned_or_standard(written: &Written) -> Result<Option<DataType>, DataFusionError> {
    Ok(match written {
        Written::String(_) | Written::Text | Written::Varchar(_) | Written::Char(_) => Some(DataType::Utf8),
        Written::Bool | Written::Boolean => Some(DataType::Boolean),
        Written::Date => Some(DataType::Date32),
        other => planned(other)?,
    })
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType, DataFusionError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => (DECIMAL_DIGITS_MAX, 10),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=DECIMAL_DIGITS_MAX).contains(&precision) || !(0..=precision as i64).contains(&scale) {
        return Err(plan_datafusion_err!(
            "Decimal({precision}, {scale}) is out of range; the precision is 1 to {DECIMAL_DIGITS_MAX}, and the scale 0 to the precision"
        ));
    }
    Ok(DataType::Decimal128(precision as u8, scale as i8))
}
