//! DataFusion's functions that make much of little, with a bound on what they make.
//!
//! Owns the bounds. A value beyond one fails its record, for one record must not fill the memory of the program. With batches of at most
//! 8,192 records, [`TEXT_BYTES_MAX`] for each is half a gigabyte. Does not own columns that a function without a name repeats (`lambdas`).
//!
//! | function                              | what is bounded                                                  |
//! |---------------------------------------|------------------------------------------------------------------|
//! | `repeat`, `lpad`, `rpad`              | bytes of the text, [`TEXT_BYTES_MAX`]                            |
//! | `replace`, `regexp_replace`           | bytes that it adds, [`TEXT_BYTES_MAX`]                           |
//! | `array_to_string`                     | bytes of delimiters and NULLs, [`TEXT_BYTES_MAX`] and 4 an item  |
//! | `array_repeat`, `array_resize`        | items of the array, [`ITEMS_MAX`]; bytes that it adds, [`ARRAY_BYTES_MAX`] |
//! | `array_replace_n`, `array_replace_all` | bytes that it adds, [`ARRAY_BYTES_MAX`]                         |
//! | `range`, `generate_series`            | items of the array, [`ITEMS_MAX`]; whole numbers and dates only  |
//! | `concat`, `concat_ws`                 | bytes of a batch, [`BATCH_BYTES_MAX`]                            |
//! | `levenshtein`                         | steps, [`STEPS_MAX`]                                             |
//! | `map`                                 | as many values as keys                                           |
//! | `date_part`                           | what 32 bits hold: it is NULL of a longer span                   |
//! | `round`, `trunc`                      | nothing: `rounded` keeps a Float that would become infinite      |
//! | `to_unixtime`, `to_timestamp_seconds`, … | nothing: digits of a time are cut off towards the past        |
//! | `array_except`, `array_concat`        | nothing: `alike` gives their arrays one type                     |
//! | `array_position`                      | the first item that is compared: DataFusion subtracts 1 from it  |
//!
//! Within a function without a name each item of an array is a row, so the bounds of the values do not bound a record: what all rows of a call make
//! is at most [`BATCH_BYTES_MAX`]. A batch beyond it is divided, a record beyond it fails.

mod alike;
mod growth;
mod rounded;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion_common::{DataFusionError, ScalarValue, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::coarser::of_coarser;
use growth::{Patterns, Row};

/// Bytes of a text that is made longer.
pub(crate) const TEXT_BYTES_MAX: i64 = 64 << 10;
/// Items of an array that is made.
pub(crate) const ITEMS_MAX: i64 = 10_000;
/// Bytes that are added to an array: as many as that many Decimals have, which are the widest numbers.
pub(crate) const ARRAY_BYTES_MAX: i64 = 16 * ITEMS_MAX;
/// Bytes that one call makes for a batch: 8,192 texts of [`TEXT_BYTES_MAX`]. Also, the texts of a column are addressed by 31 bits.
pub(crate) const BATCH_BYTES_MAX: i64 = 8_192 * TEXT_BYTES_MAX;
/// Pairs of bytes that are compared for one record: two texts of 4 KiB, some 20 ms.
pub(crate) const STEPS_MAX: i64 = 16 << 20;

/// What a function can make much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bound {
    Repeat,
    Pad,
    Replace,
    RegexpReplace,
    ArrayToString,
    ArrayRepeat,
    ArrayResize,
    ArrayReplace,
    Range,
    Concat,
    Levenshtein,
    Map,
    DatePart,
    Round,
    /// Times become those of this unit.
    Unit(TimeUnit),
    Except,
    ArrayConcat,
    Position,
}

impl Bound {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::RegexpReplace,
            "array_to_string" => Self::ArrayToString,
            "array_repeat" => Self::ArrayRepeat,
            "array_resize" => Self::ArrayResize,
            "array_replace_n" | "array_replace_all" => Self::ArrayReplace,
            "range" | "generate_series" => Self::Range,
            "concat" | "concat_ws" => Self::Concat,
            "levenshtein" => Self::Levenshtein,
            "map" => Self::Map,
            "date_part" => Self::DatePart,
            "round" | "trunc" => Self::Round,
            "to_unixtime" | "to_timestamp_seconds" => Self::Unit(TimeUnit::Second),
            "to_timestamp_millis" => Self::Unit(TimeUnit::Millisecond),
            "to_timestamp_micros" => Self::Unit(TimeUnit::Microsecond),
            "array_except" => Self::Except,
            "array_concat" => Self::ArrayConcat,
            "array_position" => Self::Position,
            _ => return None,
        })
    }
}

/// What a call makes of one record.
struct Made {
    amount: i64,
    bound: i64,
    unit: &'static str,
    /// Bytes, as far as they come on top of what the record has.
    bytes: i64,
}

/// The function with its bound, if it needs one.
pub(crate) fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match Bound::of(function.name()) {
        Some(bound) => Arc::new(ScalarUDF::from(Bounded { function, bound })),
        None => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    bound: Bound,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        self.function.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType, DataFusionError> {
        self.refuse_times(given.iter())?;
        self.function.return_type(&self.given(given))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef, DataFusionError> {
        self.refuse_times(args.arg_fields.iter().map(|field| field.data_type()))?;
        // With a value that is never NULL the items stay as they are.
        let is_filled = matches!(args.arg_fields, [_, _, value] if !value.is_nullable());
        let is_other_type =
            self.bound == Bound::ArrayConcat || self.bound == Bound::ArrayResize && !is_filled;
        if !is_other_type {
            return self.function.return_field_from_args(args);
        }
        let given = args.arg_fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let arg_fields: Vec<FieldRef> = (args.arg_fields.iter().zip(self.given(&given)))
            .map(|(field, data_type)| Arc::new(field.as_ref().clone().with_data_type(data_type)))
            .collect();
        self.function.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, ..args })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        match self.bound {
            Bound::DatePart => return part_of(&self.function, args),
            Bound::Round => return rounded::rounded(&self.function, args),
            Bound::Unit(unit) => return self.function.invoke_with_args(of_coarser(args, unit)?),
            Bound::Except => return alike::except(&self.function, args),
            Bound::ArrayConcat => return alike::concatenated(&self.function, args),
            // DataFusion subtracts 1 and then says what is out of bounds; of the smallest number it cannot.
            Bound::Position => {
                return self.function.invoke_with_args(clamped(args, 2, i64::MIN + 1, i64::MAX));
            }
            _ => {}
        }
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        // A constant is looked at once, not once for each record.
        let columns = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
            ColumnarValue::Scalar(value) => Ok((value.to_array_of_size(1)?, true)),
        });
        let columns = columns.collect::<Result<Vec<_>, DataFusionError>>()?;
        let (mut bytes, mut patterns) = (0_i64, Patterns::default());
        if self.bound == Bound::Concat {
            bytes = growth::concatenated(&columns, rows, self.name() == "concat_ws");
        }
        // What is as long as its arguments together is too large for a batch of many alone.
        let rows = if self.bound == Bound::Concat { 0 } else { rows };
        for row in 0..rows {
            let row = Row { columns: &columns, row };
            if self.bound == Bound::Map {
                pairs(&row)?;
                continue;
            }
            if self.bound == Bound::ArrayResize && row.integer(1).is_some_and(|size| size < 0) {
                return exec_err!("`{}` needs a size of 0 or more", self.name());
            }
            let Made { amount, bound, unit, bytes: of_row } = self.made(&row, &mut patterns);
            if amount > bound {
                return exec_err!(
                    "`{}` would produce `{amount}` {unit} for one record; the limit is `{bound}`",
                    self.name()
                );
            }
            bytes = bytes.saturating_add(of_row);
        }
        if bytes > BATCH_BYTES_MAX {
            return exec_err!(
                "`{}` would produce `{bytes}` bytes for the items of one record; the limit is `{BATCH_BYTES_MAX}`",
                self.name()
            );
        }
        match self.bound {
            Bound::ArrayResize => alike::resized(&self.function, args),
            // DataFusion takes a negative length for a huge one; PostgreSQL for 0.
            Bound::Pad => self.function.invoke_with_args(clamped(args, 1, 0, i64::MAX)),
            Bound::RegexpReplace => self.function.invoke_with_args(without_short_cut(args)),
            _ => self.function.invoke_with_args(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

impl Bounded {
    /// The types that DataFusion's function is called with.
    fn given(&self, given: &[DataType]) -> Vec<DataType> {
        match (self.bound, given.split_first()) {
            // What it is made longer by without a value is NULL.
            (Bound::ArrayResize, Some((array, rest))) => {
                std::iter::once(alike::with_nulls(array)).chain(rest.iter().cloned()).collect()
            }
            (Bound::ArrayConcat, _) => alike::of_one_type(given),
            _ => given.to_vec(),
        }
    }

    fn refuse_times<'a>(&self, mut given: impl Iterator<Item = &'a DataType>) -> Result<(), DataFusionError> {
        if self.bound == Bound::Range && given.any(|t| matches!(t, DataType::Timestamp(..))) {
            return plan_err!(
                "`{}` over times is not supported, because its size has no limit; use integers or dates",
                self.name()
            );
        }
        Ok(())
    }

    fn made(&self, row: &Row, patterns: &mut Patterns) -> Made {
        let text = |amount: i64, unit| Made { amount, bound: TEXT_BYTES_MAX, unit, bytes: amount };
        let array = |items: i64, added: i64| match items > ITEMS_MAX {
            true => Made { amount: items, bound: ITEMS_MAX, unit: "items", bytes: added },
            false => Made { amount: added, bound: ARRAY_BYTES_MAX, unit: "bytes of items", bytes: added },
        };
        let int = |at: usize| row.integer(at).unwrap_or(0);
        match self.bound {
            Bound::Repeat => text(row.len(0).saturating_mul(int(1)), "bytes"),
            Bound::Pad => {
                let fill = if row.columns.len() > 2 { 4 } else { 1 };
                text(int(1).max(0).saturating_mul(fill), "bytes")
            }
            Bound::Replace => text(growth::replaced(row), "additional bytes"),
            Bound::RegexpReplace => text(growth::matches_replaced(row, patterns), "additional bytes"),
            Bound::ArrayToString => {
                let (added, given) = growth::joined(row);
                let bound = TEXT_BYTES_MAX.saturating_add(given);
                Made { amount: added, bound, unit: "bytes of delimiters", bytes: added - given.min(added) }
            }
            Bound::ArrayRepeat => array(int(1), int(1).saturating_mul(row.bytes(0))),
            Bound::ArrayResize => {
                let added = int(1).saturating_sub(row.items(0)).max(0);
                let item = if row.columns.len() > 2 { row.bytes(2) } else { 16 };
                array(int(1), added.saturating_mul(item))
            }
            Bound::ArrayReplace => {
                let added = growth::items_replaced(row);
                Made { amount: added, bound: ARRAY_BYTES_MAX, unit: "additional bytes", bytes: added }
            }
            Bound::Range => {
                let items = growth::span(row);
                array(items, items.saturating_mul(8))
            }
            Bound::Levenshtein => {
                let steps = row.len(0).saturating_mul(row.len(1));
                Made { amount: steps, bound: STEPS_MAX, unit: "comparisons", bytes: 0 }
            }
            Bound::Map | Bound::Concat | Bound::DatePart | Bound::Round | Bound::Unit(_) => text(0, "bytes"),
            Bound::Except | Bound::ArrayConcat | Bound::Position => text(0, "bytes"),
        }
    }
}

/// The arguments, with no number below `least` or above `most` in argument `at`; DataFusion reads it where it is NULL too.
fn clamped(mut args: ScalarFunctionArgs, at: usize, least: i64, most: i64) -> ScalarFunctionArgs {
    match args.args.get_mut(at) {
        Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))) => {
            *number = (*number).clamp(least, most)
        }
        Some(ColumnarValue::Array(array)) => {
            if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
                let numbers = numbers.iter().map(|number| number.map(|number| number.clamp(least, most)));
                *array = Arc::new(numbers.collect::<Int64Array>());
            }
        }
        _ => {}
    }
    args
}

/// `map(keys, values)` takes the values of the next record where one has fewer values than keys.
fn pairs(row: &Row) -> Result<(), DataFusionError> {
    if row.columns.len() != 2 {
        return Ok(());
    }
    match (row.list(0), row.list(1)) {
        (keys, values) if keys == values => Ok(()),
        (keys, values) => {
            let said =
                |items: Option<i32>| items.map_or("no array of".to_owned(), |items| format!("`{items}`"));
            exec_err!(
                "`map` got {} keys and {} values; it takes one value for each key",
                said(keys),
                said(values)
            )
        }
    }
}

/// The arguments of `regexp_replace`, with an empty group behind a constant pattern that says more than what it begins with. Of `^a|b.*$` DataFusion would look for `^a|b` alone, and
/// replace all that is behind a match of either, and what is before it; of `^a # .*$` with comments too. It looks so where a pattern ends with `.*$`.
fn without_short_cut(mut args: ScalarFunctionArgs) -> ScalarFunctionArgs {
    if let Some(ColumnarValue::Scalar(
        ScalarValue::Utf8(Some(pattern)) | ScalarValue::Utf8View(Some(pattern)),
    )) = args.args.get_mut(1)
        && pattern.ends_with(".*$")
        && pattern.contains(['|', '#'])
    {
        pattern.push_str("(?:)");
    }
    args
}

/// `date_part('epoch', a - b)` is NULL if the seconds do not fit 32 bits.
fn part_of(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
    let nulls = |value: &ColumnarValue| match value {
        ColumnarValue::Array(array) => array.null_count(),
        ColumnarValue::Scalar(value) => usize::from(value.is_null()),
    };
    let given = args.args.iter().map(nulls).sum::<usize>();
    let part = function.invoke_with_args(args)?;
    if given == 0 && nulls(&part) > 0 || matches!(part, ColumnarValue::Array(_)) && nulls(&part) > given {
        return exec_err!(
            "`date_part` has no value for a span of more than 68 years; write `to_unixtime(…) - to_unixtime(…)` for its seconds"
        );
    }
    Ok(part)
}
