//! Columns that are filled by values which have types of their own.
//!
//! Owns the one trait that binary formats call, a method for each kind of value, and which type has which column (`kinds`). Does not
//! own the rules ([`super::rules`]) nor the bytes of a format.

mod kinds;

use std::borrow::Cow;

use arrow_array::ArrowPrimitiveType;
use arrow_schema::{DataType, FieldRef};
use dataflow::ColumnType;
use serde_json::Value;

use self::kinds::{Arrays, Fixed, Flags, JsonTexts, Objects, Ruled, Strings};
use super::compile::{Maker, Settings, compile};
use super::numbers::{Decimal, Exact, Float, Integer, Width};
use super::rules::{Fit, Misfit, Rule};
use super::storage::{Bools, FixedBytes, Growing, Lists, Maps, Primitives, Texts};
use super::text_types::{Enum, FixedText, Ipv4};
use super::times::{Date, Time};

/// A column, or the items of one, that takes values by their kind. A kind that the type does not take is a [`Misfit`].
///
/// After an error the column may hold a part of the value; the caller cuts it back with [`Growing::truncate`].
pub(crate) trait TypedColumn: Growing {
    /// An empty column of the same kind with room for `rows` values.
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn>;

    /// The column type's name in messages.
    fn type_name(&self) -> Cow<'static, str>;

    /// Appends a boolean.
    fn boolean(&mut self, _value: bool) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends an integer.
    fn signed(&mut self, _value: i64) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends a float.
    fn float(&mut self, _value: f64) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends a decimal number.
    fn decimal(&mut self, _value: Exact) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends a text; also a map's key.
    fn text(&mut self, _value: &str) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends bytes without a meaning of their own.
    fn bytes(&mut self, _value: &[u8]) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends a number of days since 1970-01-01.
    fn date(&mut self, _days: i32) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends an instant: ticks since 1970, each the `digits`th power of a tenth of a second (0, 3, 6 or 9).
    fn timestamp(&mut self, _ticks: i64, _digits: u8) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends the same of a clock on the wall, whose zone the value does not say.
    fn local_timestamp(&mut self, _ticks: i64, _digits: u8) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends a UUID, in the order of its text.
    fn uuid(&mut self, _value: &[u8; 16]) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Where the items of the next list go, and whether null is one of their values; [`end`](Self::end) makes them one.
    fn items(&mut self) -> Option<(&mut dyn TypedColumn, bool)> {
        None
    }

    /// Where the keys and values of the next map go, and whether null is one of the values; [`end`](Self::end) makes them one.
    fn entries(&mut self) -> Option<(&mut dyn TypedColumn, &mut dyn TypedColumn, bool)> {
        None
    }

    /// Appends integers, as many calls of [`signed`](Self::signed) do.
    fn signeds(&mut self, values: &[i64]) -> Fit<()> {
        values.iter().try_for_each(|value| self.signed(*value))
    }

    /// Appends floats, as many calls of [`float`](Self::float) do.
    fn floats(&mut self, values: &[f64]) -> Fit<()> {
        values.iter().try_for_each(|value| self.float(*value))
    }

    /// Appends instants, as many calls of [`timestamp`](Self::timestamp) do.
    fn timestamps(&mut self, ticks: &[i64], digits: u8) -> Fit<()> {
        ticks.iter().try_for_each(|ticks| self.timestamp(*ticks, digits))
    }

    /// Keeps all entries of a map, or of maps within, though a key is there twice.
    fn keep_repeats(&mut self) {}

    /// Ends the list or map whose parts were appended.
    fn end(&mut self) -> Fit<()> {
        Err(Misfit::kind(&self.type_name()))
    }

    /// Appends the values from number `from` on so many times more.
    fn repeat(&mut self, from: usize, times: usize) -> Fit<()>;
}

/// The empty column of a type.
///
/// # Errors
/// Why the type cannot be filled.
pub(crate) fn typed(
    column_type: &ColumnType,
    settings: Settings<'_>,
) -> Result<Box<dyn TypedColumn>, String> {
    compile(column_type, settings, &Typed)
}

/// Appends a DEFAULT that is written as JSON: arrays, maps, and what they hold.
pub(crate) fn append_json(column: &mut dyn TypedColumn, value: &Value) -> Fit<()> {
    match value {
        Value::Null => column.null(),
        Value::Bool(value) => column.boolean(*value),
        // As its digits, so that nothing passes through a float.
        Value::Number(number) => column.text(&number.to_string()),
        Value::String(text) => column.text(text),
        Value::Array(values) => {
            let type_name = column.type_name();
            let (items, _) = column.items().ok_or_else(|| Misfit::kind(&type_name))?;
            values.iter().try_for_each(|value| append_json(items, value))?;
            column.end()
        }
        Value::Object(entries) => {
            let type_name = column.type_name();
            let (keys, values, _) = column.entries().ok_or_else(|| Misfit::kind(&type_name))?;
            for (key, value) in entries {
                keys.text(key)?;
                append_json(values, value)?;
            }
            column.end()
        }
    }
}

/// Makes typed columns.
struct Typed;

fn ruled<R: Rule>(rule: R, data_type: DataType) -> Box<dyn TypedColumn> {
    Box::new(Ruled { rule, column: Primitives::new(data_type) })
}

impl Maker for Typed {
    type Out = Box<dyn TypedColumn>;

    fn integer<A>(&self, rule: Integer<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: TryFrom<i64> + TryFrom<i128>,
    {
        ruled(rule, data_type)
    }

    fn float<A: Width>(&self, rule: Float<A>, data_type: DataType) -> Self::Out {
        ruled(rule, data_type)
    }

    fn decimal(&self, rule: Decimal, data_type: DataType) -> Self::Out {
        ruled(rule, data_type)
    }

    fn time<A: ArrowPrimitiveType<Native = i64>>(&self, rule: Time<A>, data_type: DataType) -> Self::Out {
        ruled(rule, data_type)
    }

    fn date(&self, rule: Date, data_type: DataType) -> Self::Out {
        ruled(rule, data_type)
    }

    fn ipv4(&self, rule: Ipv4, data_type: DataType) -> Self::Out {
        ruled(rule, data_type)
    }

    fn enumeration<A>(&self, rule: Enum<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: Ord + TryFrom<i128>,
    {
        ruled(rule, data_type)
    }

    fn bools(&self) -> Self::Out {
        Box::new(Flags { column: Bools::new(0) })
    }

    fn texts(&self) -> Self::Out {
        Box::new(Strings { column: Texts::new() })
    }

    fn objects(&self) -> Self::Out {
        Box::new(JsonTexts { column: Texts::new() })
    }

    fn fixed(&self, rule: FixedText) -> Self::Out {
        let column = FixedBytes::new(rule.width());
        Box::new(Fixed { rule, column })
    }

    fn list(&self, field: FieldRef, items: Self::Out) -> Self::Out {
        Box::new(Arrays { column: Lists::new(field, items, 0) })
    }

    fn map(&self, field: FieldRef, keys: Self::Out, values: Self::Out) -> Self::Out {
        Box::new(Objects { column: Maps::new(field, keys, values, 0) })
    }
}
