//! From a column's type to the storage and rule that build it.
//!
//! Owns the one `match` over column types, and the refusal of types that ClickHouse itself does not have (a Nullable
//! of an Array, a Map keyed by one). Does not own names of fields, nor what a format makes of storage and rule ([`Maker`]).

use std::marker::PhantomData;

use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use dataflow::ColumnType;
use dataflow::types::time_unit;

use super::numbers::{Decimal, Float, Integer, Width};
use super::text_types::{Enum, FixedText, Ipv4};
use super::times::{
    DATE_RANGE, DATE32_RANGE, DATETIME_RANGE, DATETIME64_NANO_RANGE, DATETIME64_RANGE, Date, EpochUnit, Time,
    TimeSpec, Zone,
};

/// Bytes of a FixedString: the padding of a full block then stays below the 2 GiB that a column may hold.
const FIXED_STRING_BYTES_MAX: u32 = 64 << 10;
/// Arrays and maps inside each other in a type; the same bound as for type names.
const TYPE_DEPTH_MAX: usize = 16;

/// What the pipeline says about values that leave a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// The IANA zone of times without one, for columns that have no zone either.
    pub timezone: &'a str,
    /// What unix numbers count.
    pub epoch: EpochUnit,
}

/// What a format makes of a column: one method for each way of holding values.
///
/// The rules come ready; the format adds how their values are read from its bytes.
pub(crate) trait Maker {
    /// A column of the format.
    type Out;

    /// Int8 to UInt64.
    fn integer<A>(&self, rule: Integer<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: TryFrom<i64> + TryFrom<i128>;
    /// Float32 and Float64.
    fn float<A: Width>(&self, rule: Float<A>, data_type: DataType) -> Self::Out;
    /// Decimal.
    fn decimal(&self, rule: Decimal, data_type: DataType) -> Self::Out;
    /// DateTime and DateTime64.
    fn time<A: ArrowPrimitiveType<Native = i64>>(&self, rule: Time<A>, data_type: DataType) -> Self::Out;
    /// Date and Date32.
    fn date(&self, rule: Date, data_type: DataType) -> Self::Out;
    /// IPv4.
    fn ipv4(&self, rule: Ipv4, data_type: DataType) -> Self::Out;
    /// Enum8 and Enum16.
    fn enumeration<A>(&self, rule: Enum<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: Ord + TryFrom<i128>;
    /// Bool.
    fn bools(&self) -> Self::Out;
    /// String.
    fn texts(&self) -> Self::Out;
    /// JSON.
    fn objects(&self) -> Self::Out;
    /// UUID, IPv6 and FixedString.
    fn fixed(&self, rule: FixedText) -> Self::Out;
    /// Array; `field` is that of the Arrow type's items.
    fn list(&self, field: FieldRef, items: Self::Out) -> Self::Out;
    /// Map; `field` is that of the Arrow type's entries.
    fn map(&self, field: FieldRef, keys: Self::Out, values: Self::Out) -> Self::Out;
}

/// The empty column of a type.
///
/// # Errors
/// Why the type cannot be filled.
pub(crate) fn compile<M: Maker>(
    column_type: &ColumnType,
    settings: Settings<'_>,
    maker: &M,
) -> Result<M::Out, String> {
    Compiler { settings, maker }.any(column_type, 0)
}

struct Compiler<'a, M> {
    settings: Settings<'a>,
    maker: &'a M,
}

impl<M: Maker> Compiler<'_, M> {
    fn integer<A>(&self, name: &'static str, min: i128, max: i128) -> M::Out
    where
        A: ArrowPrimitiveType,
        A::Native: TryFrom<i64> + TryFrom<i128>,
    {
        self.maker.integer(Integer::<A> { name, min, max, of: PhantomData }, A::DATA_TYPE)
    }

    /// A type with its wrappers.
    fn any(&self, column_type: &ColumnType, depth: usize) -> Result<M::Out, String> {
        use ColumnType as T;
        if depth > TYPE_DEPTH_MAX {
            return Err(format!("types may nest {TYPE_DEPTH_MAX} deep at the most"));
        }
        match column_type {
            T::Nullable(inner) => match **inner {
                T::Nullable(_) | T::LowCardinality(_) | T::Array(_) | T::Map(..) => {
                    Err("a Nullable holds neither Nullable, LowCardinality, Array nor Map".to_owned())
                }
                _ => self.bare(inner, depth),
            },
            T::LowCardinality(inner) => match **inner {
                T::LowCardinality(_) | T::Array(_) | T::Map(..) | T::Json { .. } => {
                    Err("a LowCardinality holds neither LowCardinality, Array, Map nor JSON".to_owned())
                }
                _ => self.any(inner, depth + 1),
            },
            _ => self.bare(column_type, depth),
        }
    }

    /// A type without wrappers.
    fn bare(&self, column_type: &ColumnType, depth: usize) -> Result<M::Out, String> {
        use ColumnType as T;
        let (maker, data_type) = (self.maker, column_type.arrow());
        Ok(match column_type {
            T::Int8 => self.integer::<Int8Type>("Int8", i8::MIN.into(), i8::MAX.into()),
            T::Int16 => self.integer::<Int16Type>("Int16", i16::MIN.into(), i16::MAX.into()),
            T::Int32 => self.integer::<Int32Type>("Int32", i32::MIN.into(), i32::MAX.into()),
            T::Int64 => self.integer::<Int64Type>("Int64", i64::MIN.into(), i64::MAX.into()),
            T::UInt8 => self.integer::<UInt8Type>("UInt8", u8::MIN.into(), u8::MAX.into()),
            T::UInt16 => self.integer::<UInt16Type>("UInt16", u16::MIN.into(), u16::MAX.into()),
            T::UInt32 => self.integer::<UInt32Type>("UInt32", u32::MIN.into(), u32::MAX.into()),
            T::UInt64 => self.integer::<UInt64Type>("UInt64", u64::MIN.into(), u64::MAX.into()),
            T::Float32 => maker.float(Float::<Float32Type>::default(), data_type),
            T::Float64 => maker.float(Float::<Float64Type>::default(), data_type),
            T::Bool => maker.bools(),
            T::String => maker.texts(),
            T::Json { .. } => maker.objects(),
            T::FixedString(width) => match *width {
                1..=FIXED_STRING_BYTES_MAX => maker.fixed(FixedText::Padded(*width as usize)),
                _ => {
                    let why = format!("a FixedString may have 1 to {FIXED_STRING_BYTES_MAX} bytes");
                    return Err(why);
                }
            },
            T::Uuid => maker.fixed(FixedText::Uuid),
            T::Ipv6 => maker.fixed(FixedText::Ipv6),
            T::Ipv4 => maker.ipv4(Ipv4, data_type),
            T::Date => maker.date(Date { name: "Date", range: DATE_RANGE }, data_type),
            T::Date32 => maker.date(Date { name: "Date32", range: DATE32_RANGE }, data_type),
            T::DateTime { timezone } => self.time("DateTime", 0, timezone.as_deref(), data_type)?,
            T::DateTime64 { precision: precision @ 0..=9, timezone } => {
                self.time(&format!("DateTime64({precision})"), *precision, timezone.as_deref(), data_type)?
            }
            T::DateTime64 { .. } => return Err("a DateTime64 has 0 to 9 digits".to_owned()),
            T::Decimal { precision: precision @ 1..=38, scale } if scale <= precision => {
                maker.decimal(Decimal { precision: *precision, scale: *scale }, data_type)
            }
            T::Decimal { .. } => {
                return Err("a Decimal has 1 to 38 digits, and a scale within them".to_owned());
            }
            T::Enum8(names) => {
                let rule = Enum::<Int8Type>::new("Enum8", names).ok_or_else(bad_enum)?;
                maker.enumeration(rule, data_type)
            }
            T::Enum16(names) => {
                let rule = Enum::<Int16Type>::new("Enum16", names).ok_or_else(bad_enum)?;
                maker.enumeration(rule, data_type)
            }
            T::Array(item) => {
                let DataType::List(field) = data_type else {
                    return Err("its Arrow form is no list".to_owned());
                };
                maker.list(field, self.any(item, depth + 1)?)
            }
            T::Map(key, value) => {
                let DataType::Map(field, _) = data_type else {
                    return Err("its Arrow form is no map".to_owned());
                };
                if key.is_nullable() || matches!(key.bare(), T::Array(_) | T::Map(..) | T::Json { .. }) {
                    return Err("a Map's key is neither Nullable, Array, Map nor JSON".to_owned());
                }
                maker.map(field, self.any(key, depth + 1)?, self.any(value, depth + 1)?)
            }
            T::State(_) => {
                return Err("no record holds a state of an aggregate: only a `window` makes them".to_owned());
            }
            T::Nullable(_) | T::LowCardinality(_) => return self.any(column_type, depth + 1),
        })
    }

    fn time(
        &self,
        name: &str,
        precision: u8,
        timezone: Option<&str>,
        data_type: DataType,
    ) -> Result<M::Out, String> {
        let zone_name = timezone.unwrap_or(self.settings.timezone);
        let zone = Zone::named(zone_name)
            .ok_or_else(|| format!("`{zone_name}` is no time zone of the IANA database"))?;
        let unit = time_unit(precision);
        let (tick_digits, range) = match unit {
            // Only a DateTime64 reaches back before 1970.
            TimeUnit::Second if name == "DateTime" => (0, DATETIME_RANGE),
            TimeUnit::Second => (0, DATETIME64_RANGE),
            TimeUnit::Millisecond => (3, DATETIME64_RANGE),
            TimeUnit::Microsecond => (6, DATETIME64_RANGE),
            TimeUnit::Nanosecond => (9, DATETIME64_NANO_RANGE),
        };
        let spec =
            TimeSpec { name: name.into(), precision, tick_digits, zone, epoch: self.settings.epoch, range };
        Ok(match unit {
            TimeUnit::Second => self.maker.time(Time::<TimestampSecondType>::new(spec), data_type),
            TimeUnit::Millisecond => self.maker.time(Time::<TimestampMillisecondType>::new(spec), data_type),
            TimeUnit::Microsecond => self.maker.time(Time::<TimestampMicrosecondType>::new(spec), data_type),
            TimeUnit::Nanosecond => self.maker.time(Time::<TimestampNanosecondType>::new(spec), data_type),
        })
    }
}

fn bad_enum() -> String {
    "an enum has at least one name, and no name or number twice".into()
}
