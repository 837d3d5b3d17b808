//! Which values of one type another type takes. Pure: types alone, no rows.
//!
//! Owns the table below. Does not own the conversions themselves ([`super::convert`]).
//!
//! | from                      | to                          | conversion                                     |
//! |---------------------------|-----------------------------|------------------------------------------------|
//! | integer, Bool             | wider integer               | lossless                                       |
//! | integer                   | narrower, other sign        | checked                                        |
//! | integer                   | Bool                        | checked: 0 or 1                                |
//! | integer                   | Decimal, Float              | lossless if every digit has room, else checked (Decimal) or none (Float) |
//! | Decimal                   | as many digits on both sides | lossless; fewer before the point: checked; fewer behind it: none |
//! | Float32                   | Float64                     | lossless                                       |
//! | String                    | FixedString, Enum, UUID, IPv4, IPv6 | checked                                |
//! | String                    | JSON                        | checked: one object                            |
//! | Map of text to text       | JSON                        | checked: no key twice                          |
//! | JSON                      | String, JSON of other parameters | lossless                                  |
//! | Enum                      | String; integer that holds its numbers | lossless                            |
//! | integer, UUID, IPv4, IPv6 | String                      | lossless                                       |
//! | FixedString               | String                      | checked: UTF-8                                 |
//! | IPv4                      | IPv6; integer that holds UInt32 | lossless                                   |
//! | IPv6                      | IPv4                        | checked: an IPv4 address in IPv6 (`::ffff:1.2.3.4`) |
//! | Date, DateTime, DateTime64 | more digits, wider range   | lossless                                       |
//! | Date32, DateTime64(0)     | Date, DateTime              | checked                                        |
//! | Array(t), Map(k, t)       | Array(u), Map(k, u)         | as of `t` to `u`; `Nullable(t)` to `u` is checked: no item NULL |
//! | everything else           |                             | none: the expression has to say how            |

use dataflow::ColumnType;
use dataflow::types::time_unit;

/// How values of one type become those of another, the one that keeps most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conversion {
    /// They are of this type.
    Same,
    /// Every value fits.
    Lossless,
    /// A value that does not fit rejects its row.
    Checked,
    /// There is none that keeps the value.
    Absent,
}

/// How values of `from` become values of `to`. NULL stays NULL.
pub fn conversion(from: &ColumnType, to: &ColumnType) -> Conversion {
    use ColumnType as T;
    use Conversion::{Absent, Checked, Lossless, Same};
    let (from, to) = (from.bare(), to.bare());
    if is_same(from, to) {
        return Same;
    }
    if let (Some(from), Some(to)) = (from.integer_range(), to.integer_range()) {
        return lossless_if(to.0 <= from.0 && from.1 <= to.1);
    }
    match (from, to) {
        (from, T::Decimal { precision, scale }) if from.integer_range().is_some() => {
            let digits = from.integer_range().map_or(0, |(min, max)| digits(min).max(digits(max)));
            lossless_if(digits <= u32::from(precision - scale))
        }
        (from, T::Float64) if from.integer_range().is_some_and(|(min, max)| is_exact(min, max, 53)) => {
            Lossless
        }
        (from, T::Float32) if from.integer_range().is_some_and(|(min, max)| is_exact(min, max, 24)) => {
            Lossless
        }
        (T::Bool, to) if to.integer_range().is_some() => Lossless,
        (from, T::Bool) if from.integer_range().is_some() => Checked,
        (T::Float32, T::Float64) => Lossless,
        (T::Decimal { precision, scale }, T::Decimal { precision: p, scale: s }) if s >= scale => {
            lossless_if(precision - scale <= p - s)
        }
        (T::String, T::FixedString(_) | T::Enum8(_) | T::Enum16(_) | T::Uuid | T::Ipv4 | T::Ipv6) => Checked,
        (T::String, T::Json { .. }) => Checked,
        (T::Map(key, value), T::Json { .. }) if *key.bare() == T::String && *value.bare() == T::String => {
            Checked
        }
        (T::Json { .. }, T::String | T::Json { .. }) => Lossless,
        (T::Enum8(_) | T::Enum16(_) | T::Uuid | T::Ipv4 | T::Ipv6, T::String) => Lossless,
        (T::FixedString(_), T::String) | (T::Ipv6, T::Ipv4) => Checked,
        (from, T::String) if from.integer_range().is_some() => Lossless,
        (T::Ipv4, T::Ipv6) => Lossless,
        // Their numbers, as in ClickHouse.
        (T::Enum8(names), to) if to.integer_range().is_some() => {
            lossless_if(names.iter().all(|(_, number)| holds(to, i128::from(*number))))
        }
        (T::Enum16(names), to) if to.integer_range().is_some() => {
            lossless_if(names.iter().all(|(_, number)| holds(to, i128::from(*number))))
        }
        (T::Ipv4, to) if to.integer_range().is_some() => lossless_if(holds(to, i128::from(u32::MAX))),
        (T::Date, T::Date32) => Lossless,
        (T::Date32, T::Date) => Checked,
        (T::DateTime { .. }, T::DateTime64 { .. }) => Lossless,
        (T::DateTime64 { precision: 0, .. }, T::DateTime { .. }) => Checked,
        (T::Array(from), T::Array(to)) => of_items(from, to),
        // Two keys must not become one.
        (T::Map(key, from), T::Map(to_key, to)) => match of_items(key, to_key) {
            keys @ (Same | Lossless) => keys.max(of_items(from, to)),
            Checked | Absent => Absent,
        },
        (T::DateTime64 { precision, .. }, T::DateTime64 { precision: wider, .. }) if wider >= precision => {
            // Nanoseconds end in 2262, coarser units in 2299.
            lossless_if(time_unit(*precision) == time_unit(*wider) || *wider <= 6)
        }
        _ => Absent,
    }
}

fn holds(integer: &ColumnType, number: i128) -> bool {
    integer.integer_range().is_some_and(|(least, greatest)| (least..=greatest).contains(&number))
}

/// The same for what stands in an Array or a Map, where NULL is a value like any other.
fn of_items(from: &ColumnType, to: &ColumnType) -> Conversion {
    let of_null = match (from.is_nullable(), to.is_nullable()) {
        (true, false) => Conversion::Checked,
        (false, true) => Conversion::Lossless,
        (true, true) | (false, false) => Conversion::Same,
    };
    conversion(from, to).max(of_null)
}

fn lossless_if(fits: bool) -> Conversion {
    if fits { Conversion::Lossless } else { Conversion::Checked }
}

/// True if values of both types are the same in memory and in meaning: zones are for display.
fn is_same(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    match (from, to) {
        (T::DateTime { .. }, T::DateTime { .. }) => true,
        (T::DateTime64 { precision: a, .. }, T::DateTime64 { precision: b, .. }) => a == b,
        (T::Array(from), T::Array(to)) => is_same_item(from, to),
        (T::Map(from_key, from), T::Map(to_key, to)) => {
            is_same_item(from_key, to_key) && is_same_item(from, to)
        }
        (T::State(from), T::State(to)) => {
            let mut arguments = from.arguments.iter().zip(&to.arguments);
            from.function == to.function
                && from.arguments.len() == to.arguments.len()
                && arguments.all(|(from, to)| is_same_item(from, to))
        }
        _ => from == to,
    }
}

fn is_same_item(from: &ColumnType, to: &ColumnType) -> bool {
    from.is_nullable() == to.is_nullable() && is_same(from.bare(), to.bare())
}

fn digits(value: i128) -> u32 {
    value.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1)
}

/// True if every integer of a range has a float of so many bits.
fn is_exact(min: i128, max: i128, bits: u32) -> bool {
    let limit = 1_i128 << bits;
    -limit <= min && max <= limit
}

/// True if the type has [`limits`], or what stands in it has.
pub(super) fn has_limits(column_type: &ColumnType) -> bool {
    match column_type.bare() {
        ColumnType::Array(item) => has_limits(item),
        ColumnType::Map(key, value) => has_limits(key) || has_limits(value),
        other => limits(other).is_some(),
    }
}

/// The least and the greatest value of a type whose Arrow form holds more, in the unit of that form.
pub fn limits(column_type: &ColumnType) -> Option<(i64, i64)> {
    use ColumnType as T;
    /// 1900-01-01 and the end of 2299, in seconds.
    const WIDE: (i64, i64) = (-2_208_988_800, 10_413_791_999);
    Some(match column_type.bare() {
        T::Date => (0, u16::MAX.into()),
        T::Date32 => (WIDE.0 / 86_400, (WIDE.1 + 1) / 86_400 - 1),
        T::DateTime { .. } => (0, u32::MAX.into()),
        T::DateTime64 { precision, .. } => match precision {
            0 => WIDE,
            1..=3 => (WIDE.0 * 1_000, WIDE.1 * 1_000 + 999),
            4..=6 => (WIDE.0 * 1_000_000, WIDE.1 * 1_000_000 + 999_999),
            _ => (WIDE.0 * 1_000_000_000, i64::MAX),
        },
        _ => return None,
    })
}
