//! From a column's type to the builder that reads it.
//!
//! Owns the one `match` over column types, and the refusal of types that ClickHouse itself does not have (a Nullable
//! of an Array, a Map keyed by one). Does not own names of fields ([`super::plan`]).

use std::marker::PhantomData;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, TimeUnit};
use dataflow::types::time_unit;
use dataflow::{Column, ColumnType};

use super::columns::{Bools, Builder, FixedBytes, Items, Lists, Maps, Primitives, Rule, Strings};
use super::numbers::{Decimal, Float, Integer};
use super::text_types::{Enum, FixedText, Ipv4};
use super::times::{
    DATE_RANGE, DATE32_RANGE, DATETIME_RANGE, DATETIME64_NANO_RANGE, DATETIME64_RANGE, Date, EpochUnit, Time,
    TimeSpec, Zone,
};
use super::{ConfigError, JsonOptions};

/// Bytes of a FixedString: the padding of a full block then stays below the 2 GiB that a column may hold.
const FIXED_STRING_BYTES_MAX: u32 = 64 << 10;
/// Arrays and maps inside each other in a type; the same bound as for type names.
const TYPE_DEPTH_MAX: usize = 16;

/// What a column's type is compiled with.
struct Compiler<'a> {
    column: &'a Column,
    options: &'a JsonOptions,
    epoch: EpochUnit,
}

/// The empty builder of a column.
pub(super) fn builder(column: &Column, options: &JsonOptions) -> Result<Box<dyn Builder>, ConfigError> {
    let epoch = options.epoch_units.get(&column.name).copied().unwrap_or(options.epoch_unit);
    Compiler { column, options, epoch }.any(&column.column_type, 0)
}

/// True if unix numbers can reach the type.
pub(super) fn has_time(column_type: &ColumnType) -> bool {
    match column_type.bare() {
        ColumnType::DateTime { .. } | ColumnType::DateTime64 { .. } => true,
        ColumnType::Array(item) => has_time(item),
        ColumnType::Map(key, value) => has_time(key) || has_time(value),
        _ => false,
    }
}

macro_rules! integer {
    ($arrow:ty, $native:ty, $name:literal) => {
        primitives(
            Integer::<$arrow> {
                name: $name,
                min: <$native>::MIN as i128,
                max: <$native>::MAX as i128,
                of: PhantomData,
            },
            <$arrow as arrow_array::ArrowPrimitiveType>::DATA_TYPE,
        )
    };
}

fn primitives<R: Rule>(rule: R, data_type: DataType) -> Box<dyn Builder> {
    Box::new(Primitives::new(rule, data_type))
}

impl Compiler<'_> {
    fn refuse(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::Type { column: self.column.name.clone(), why: why.into() }
    }

    /// A type with its wrappers.
    fn any(&self, column_type: &ColumnType, depth: usize) -> Result<Box<dyn Builder>, ConfigError> {
        use ColumnType as T;
        if depth > TYPE_DEPTH_MAX {
            return Err(self.refuse(format!("types may nest {TYPE_DEPTH_MAX} deep at the most")));
        }
        match column_type {
            T::Nullable(inner) => match **inner {
                T::Nullable(_) | T::LowCardinality(_) | T::Array(_) | T::Map(..) => {
                    Err(self.refuse("a Nullable holds neither Nullable, LowCardinality, Array nor Map"))
                }
                _ => self.bare(inner, depth),
            },
            T::LowCardinality(inner) => match **inner {
                T::LowCardinality(_) | T::Array(_) | T::Map(..) => {
                    Err(self.refuse("a LowCardinality holds neither LowCardinality, Array nor Map"))
                }
                _ => self.any(inner, depth + 1),
            },
            _ => self.bare(column_type, depth),
        }
    }

    fn items(&self, item: &ColumnType, depth: usize) -> Result<Items, ConfigError> {
        Ok(Items { builder: self.any(item, depth + 1)?, nullable: item.is_nullable() })
    }

    /// A type without wrappers.
    fn bare(&self, column_type: &ColumnType, depth: usize) -> Result<Box<dyn Builder>, ConfigError> {
        use ColumnType as T;
        let data_type = column_type.arrow();
        Ok(match column_type {
            T::Int8 => integer!(Int8Type, i8, "Int8"),
            T::Int16 => integer!(Int16Type, i16, "Int16"),
            T::Int32 => integer!(Int32Type, i32, "Int32"),
            T::Int64 => integer!(Int64Type, i64, "Int64"),
            T::UInt8 => integer!(UInt8Type, u8, "UInt8"),
            T::UInt16 => integer!(UInt16Type, u16, "UInt16"),
            T::UInt32 => integer!(UInt32Type, u32, "UInt32"),
            T::UInt64 => integer!(UInt64Type, u64, "UInt64"),
            T::Float32 => primitives(Float::<Float32Type>::default(), data_type),
            T::Float64 => primitives(Float::<Float64Type>::default(), data_type),
            T::Bool => Box::new(Bools::new(0)),
            T::String => Box::new(Strings::new(self.options.coerce_to_string, 0)),
            T::FixedString(width) => match *width {
                1..=FIXED_STRING_BYTES_MAX => Box::new(FixedBytes::new(FixedText::Padded(*width as usize))),
                _ => {
                    let why = format!("a FixedString may have 1 to {FIXED_STRING_BYTES_MAX} bytes");
                    return Err(self.refuse(why));
                }
            },
            T::Uuid => Box::new(FixedBytes::new(FixedText::Uuid)),
            T::Ipv6 => Box::new(FixedBytes::new(FixedText::Ipv6)),
            T::Ipv4 => primitives(Ipv4, data_type),
            T::Date => primitives(Date { name: "Date", range: DATE_RANGE }, data_type),
            T::Date32 => primitives(Date { name: "Date32", range: DATE32_RANGE }, data_type),
            T::DateTime { timezone } => self.time("DateTime", 0, timezone.as_deref(), data_type)?,
            T::DateTime64 { precision: precision @ 0..=9, timezone } => {
                self.time(&format!("DateTime64({precision})"), *precision, timezone.as_deref(), data_type)?
            }
            T::DateTime64 { .. } => return Err(self.refuse("a DateTime64 has 0 to 9 digits")),
            T::Decimal { precision: precision @ 1..=38, scale } if scale <= precision => {
                primitives(Decimal { precision: *precision, scale: *scale }, data_type)
            }
            T::Decimal { .. } => {
                return Err(self.refuse("a Decimal has 1 to 38 digits, and a scale within them"));
            }
            T::Enum8(names) => {
                let rule = Enum::<Int8Type>::new("Enum8", names).ok_or_else(|| self.bad_enum())?;
                primitives(rule, data_type)
            }
            T::Enum16(names) => {
                let rule = Enum::<Int16Type>::new("Enum16", names).ok_or_else(|| self.bad_enum())?;
                primitives(rule, data_type)
            }
            T::Array(item) => {
                let DataType::List(field) = data_type else {
                    return Err(self.refuse("its Arrow form is no list"));
                };
                Box::new(Lists::new(field, self.items(item, depth)?, 0))
            }
            T::Map(key, value) => {
                let DataType::Map(field, _) = data_type else {
                    return Err(self.refuse("its Arrow form is no map"));
                };
                if key.is_nullable() || matches!(key.bare(), T::Array(_) | T::Map(..)) {
                    return Err(self.refuse("a Map's key is neither Nullable, Array nor Map"));
                }
                Box::new(Maps::new(field, self.any(key, depth + 1)?, self.items(value, depth)?, 0))
            }
            T::Nullable(_) | T::LowCardinality(_) => return self.any(column_type, depth + 1),
        })
    }

    fn bad_enum(&self) -> ConfigError {
        self.refuse("an enum has at least one name, and no name or number twice")
    }

    fn time(
        &self,
        name: &str,
        precision: u8,
        timezone: Option<&str>,
        data_type: DataType,
    ) -> Result<Box<dyn Builder>, ConfigError> {
        let zone_name = timezone.unwrap_or(&self.options.assume_timezone);
        let zone = Zone::named(zone_name)
            .ok_or_else(|| self.refuse(format!("`{zone_name}` is no time zone of the IANA database")))?;
        let unit = time_unit(precision);
        let (tick_digits, range) = match unit {
            // Only a DateTime64 reaches back before 1970.
            TimeUnit::Second if name == "DateTime" => (0, DATETIME_RANGE),
            TimeUnit::Second => (0, DATETIME64_RANGE),
            TimeUnit::Millisecond => (3, DATETIME64_RANGE),
            TimeUnit::Microsecond => (6, DATETIME64_RANGE),
            TimeUnit::Nanosecond => (9, DATETIME64_NANO_RANGE),
        };
        let spec = TimeSpec { name: name.into(), precision, tick_digits, zone, epoch: self.epoch, range };
        Ok(match unit {
            TimeUnit::Second => primitives(Time::<TimestampSecondType>::new(spec), data_type),
            TimeUnit::Millisecond => primitives(Time::<TimestampMillisecondType>::new(spec), data_type),
            TimeUnit::Microsecond => primitives(Time::<TimestampMicrosecondType>::new(spec), data_type),
            TimeUnit::Nanosecond => primitives(Time::<TimestampNanosecondType>::new(spec), data_type),
        })
    }
}
