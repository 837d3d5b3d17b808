//! Casts that DataFusion would do otherwise than they say.
//!
//! Owns the values of casts for which DataFusion has another value in silence, or none. Does not own who wrote a cast (`casts`), nor the
//! unit of a number that is cast to a time (`dates`).
//!
//! | cast                                   | DataFusion                                  | here                        |
//! |----------------------------------------|---------------------------------------------|-----------------------------|
//! | a Float64 or a text to a Float         | infinity or 0 for what is too large or small | does not fit               |
//! | a text with an exponent to a Decimal   | does not fit                                | the number                  |
//! | a text with the second 60 to a DateTime | the second 59                              | the next minute, as DateTime64 |
//! | a time before 1970 to fewer digits     | cuts them off towards 1970: a later time    | the tick that it is in      |
//! | a Map of which two keys become one     | that key twice                              | does not fit                |
//! | a number or a time, compared with a constant | none: what was to be cast is compared  | the cast: what does not fit fails, digits are cut off |
//!
//! Such a cast is a function (`CAST`) from here on, so that constants have the same values as columns.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int64Type, TimestampMillisecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, ListArray, MapArray, PrimitiveArray, StringArray, StructArray, UInt32Array,
};
use arrow_cast::CastOptions;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use super::casts::lossless;
use crate::coarser::{coarser, cuts_off, is_finer, per_second};
use crate::fault::reworded;
use crate::types::name;

/// What a cast that fails on what does not fit is called from here on; no function of the text has a name in capitals.
pub(crate) const CAST: &str = "CAST";
/// The same of one that gives NULL.
const TRY_CAST: &str = "TRY_CAST";
/// Digits of a text that stands for a Decimal: those of the widest before and behind the point.
const DIGITS_MAX: i64 = 76;

/// Puts our casts in the place of those that DataFusion would do otherwise.
pub(crate) fn as_written(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let replaced = expr.transform_up(|node| {
        let (inner, field, tries) = match &node {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            _ => return Ok(Transformed::no(node)),
        };
        let to = field.data_type();
        // Within a function without a name the schema lacks the parameters.
        let is_ours = inner.get_type(schema).map_or_else(
            |_| may_differ(None, to),
            |from| may_differ(Some(&from), to) || may_be_left_out(inner, &from, to),
        );
        if !is_ours {
            return Ok(Transformed::no(node));
        }
        let otherwise = if tries { Otherwise::Null } else { Otherwise::Fault };
        Ok(Transformed::yes(call(inner.as_ref().clone(), to.clone(), otherwise)))
    });
    replaced.map(|replaced| replaced.data).map_err(|error| reworded(&error))
}

/// A time as a finer one; the first or the last of those where it is before or after all of them.
pub(super) fn saturating(time: Expr, to: DataType) -> Expr {
    call(time, to, Otherwise::Nearest)
}

/// A value of the type `own` as it is: DataFusion does not simplify what stands around a function together with what stands within.
pub(super) fn apart(value: Expr, own: DataType) -> Expr {
    call(value, own, Otherwise::Fault)
}

/// A value of the type `own` as it is, of which DataFusion does not know that it is never NULL: where it knew, it would not evaluate it.
pub(super) fn evaluated(value: Expr, own: DataType) -> Expr {
    call(value, own, Otherwise::Kept)
}

fn call(inner: Expr, to: DataType, otherwise: Otherwise) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let cast = Arc::new(ScalarUDF::from(Written { to, otherwise, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(cast, vec![inner]))
}

/// Whether a node is a cast that was replaced.
pub(super) fn is_cast(call: &ScalarFunction) -> bool {
    matches!(call.name(), CAST | TRY_CAST)
}

/// Whether DataFusion may have another value; `from` is `None` where it is not known.
fn may_differ(from: Option<&DataType>, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, List, Map, Timestamp};
    if let (Some(List(from)), List(to)) | (Some(Map(from, _)), Map(to, _)) = (from, to) {
        let (from, to) = match (from.data_type(), to.data_type()) {
            (DataType::Struct(from), DataType::Struct(to)) if from.len() == 2 && to.len() == 2 => {
                if from[0].data_type() != to[0].data_type() {
                    return true;
                }
                (&from[1], &to[1])
            }
            _ => (from, to),
        };
        return may_differ(Some(from.data_type()), to.data_type());
    }
    if from.is_some_and(|from| cuts_off(from, to)) {
        return true;
    }
    match to {
        Float32 => from.is_none_or(|from| *from == Float64 || from.is_string()),
        Float64 | Decimal128(..) | Timestamp(TimeUnit::Second, _) => from.is_none_or(DataType::is_string),
        _ => false,
    }
}

/// Whether DataFusion would leave a cast out where its value is compared with a constant, although it changes values or fails: `CAST(d AS Int64) = 1` is true of `1.9`, and
/// `d = 1` is not.
fn may_be_left_out(expr: &Expr, from: &DataType, to: &DataType) -> bool {
    let is_exact = |t: &DataType| t.is_integer() || matches!(t, DataType::Date32 | DataType::Decimal128(..));
    let varies = || expr.exists(|node| Ok(matches!(node, Expr::Column(_) | Expr::LambdaVariable(_))));
    let changes = is_exact(from) && is_exact(to) && !lossless(from, to);
    // As a number a time is one of 64 bits.
    let is_too_wide = || {
        let is_number = to.is_integer() || matches!(to, DataType::Decimal128(..));
        matches!(from, DataType::Timestamp(..)) && is_number && !lossless(&DataType::Int64, to)
    };
    let is_other_unit = || match (from, to) {
        (DataType::Timestamp(_, own), DataType::Timestamp(_, other)) => own == other && is_finer(from, to),
        _ => false,
    };
    (changes || is_too_wide() || is_other_unit()) && matches!(varies(), Ok(true))
}

/// What becomes of a value that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Otherwise {
    Fault,
    Null,
    /// The nearest one, of times alone.
    Nearest,
    /// Nothing: each has the type already.
    Kept,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    to: DataType,
    otherwise: Otherwise,
    signature: Signature,
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        match self.otherwise {
            Otherwise::Null => TRY_CAST,
            Otherwise::Fault | Otherwise::Nearest | Otherwise::Kept => CAST,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef, DataFusionError> {
        let is_unknown = self.tries() || self.otherwise == Otherwise::Kept;
        let may_be_null = is_unknown || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), may_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.cast(values)?)),
            [ColumnarValue::Scalar(value)] => {
                let value = self.cast(&value.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
            _ => exec_err!("a cast has one argument"),
        }
    }
}

impl Written {
    fn tries(&self) -> bool {
        self.otherwise == Otherwise::Null
    }

    fn cast(&self, values: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
        match self.otherwise {
            Otherwise::Nearest => return nearest(values, &self.to),
            Otherwise::Kept => return Ok(Arc::clone(values)),
            Otherwise::Fault | Otherwise::Null => {}
        }
        let cast = array(values, &self.to, self.tries());
        let holds_hidden = matches!(values.data_type(), DataType::List(_) | DataType::Map(..));
        if cast.is_ok() || !holds_hidden {
            return cast;
        }
        // What does not fit may lie behind a NULL, or in the rows beside these.
        let rows = UInt32Array::from_iter_values(0..values.len() as u32);
        let shown = arrow_select::take::take(values, &rows, None)?;
        array(&shown, &self.to, self.tries())
    }
}

fn array(values: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef, DataFusionError> {
    let from = values.data_type();
    match (from, to) {
        (DataType::List(_), DataType::List(item)) => {
            let list = values.as_list::<i32>();
            let items = array(list.values(), item.data_type(), tries)?;
            let nulls = list.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), items, nulls)?))
        }
        (DataType::Map(..), DataType::Map(entries, is_sorted)) => {
            let (map, DataType::Struct(fields)) = (values.as_map(), entries.data_type()) else {
                return exec_err!("a map without entries");
            };
            let keys = array(map.keys(), fields[0].data_type(), tries)?;
            let items = array(map.values(), fields[1].data_type(), tries)?;
            let pairs = StructArray::try_new(fields.clone(), vec![keys, items], None)?;
            let offsets = map.offsets().clone();
            let cast =
                MapArray::try_new(Arc::clone(entries), offsets, pairs, map.nulls().cloned(), *is_sorted)?;
            match fields[0].data_type() {
                to if to == map.keys().data_type() => Ok(Arc::new(cast)),
                to => Ok(Arc::new(with_each_key_once(cast, to, tries)?)),
            }
        }
        (DataType::Float64, DataType::Float32) => {
            let numbers = values.as_primitive::<Float64Type>();
            let is_lost = |row: usize, found: f64| is_lost(numbers.value(row), found);
            let cast = arrow(values, to, tries)?;
            floats::<Float32Type>(values, &cast, is_lost, to, tries)
        }
        (from, to) if cuts_off(from, to) => coarser(values, to),
        (from, to) if from.is_string() => {
            let texts = arrow(values, &DataType::Utf8, false)?;
            of_texts(&texts, to, tries)
        }
        _ => arrow(values, to, tries),
    }
}

/// Times as finer ones.
fn nearest(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, DataFusionError> {
    let (DataType::Timestamp(from, _), DataType::Timestamp(unit, _)) = (values.data_type(), to) else {
        return arrow(values, to, false);
    };
    let factor = per_second(unit) / per_second(from);
    let times = arrow(values, &DataType::Int64, false)?;
    let finer =
        times.as_primitive::<Int64Type>().unary::<_, Int64Type>(|time: i64| time.saturating_mul(factor));
    arrow(&(Arc::new(finer) as ArrayRef), to, false)
}

/// The maps, of which none may have a key twice: keys that differ may be one value of the type `to`.
#[allow(clippy::mutable_key_type, reason = "no key changes while it is in the set")]
fn with_each_key_once(maps: MapArray, to: &DataType, tries: bool) -> Result<MapArray, DataFusionError> {
    let is_once = |row: usize| -> Result<bool, DataFusionError> {
        let (mut known, ends) = (HashSet::new(), maps.value_offsets());
        for at in ends[row]..ends[row + 1] {
            if !known.insert(ScalarValue::try_from_array(maps.keys(), at as usize)?) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let each = (0..maps.len()).map(|row| if maps.is_null(row) { Ok(true) } else { is_once(row) });
    let fits = each.collect::<Result<Vec<bool>, DataFusionError>>()?;
    if fits.iter().all(|fits| *fits) {
        return Ok(maps);
    }
    if !tries {
        return exec_err!("two keys of the map are one as `{}`, and a Map has each key once", name(to));
    }
    let values = fits.into_iter().enumerate().map(|(row, fits)| fits && maps.is_valid(row));
    let values: Vec<bool> = values.collect();
    let (entries, offsets, pairs, _, is_sorted) = maps.into_parts();
    Ok(MapArray::try_new(entries, offsets, pairs, Some(values.into()), is_sorted)?)
}

fn of_texts(values: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef, DataFusionError> {
    let texts = values.as_string::<i32>();
    let is_lost = |row: usize, found: f64| is_lost_of_text(texts.value(row), found);
    match to {
        DataType::Float32 => floats::<Float32Type>(values, &arrow(values, to, tries)?, is_lost, to, tries),
        DataType::Float64 => floats::<Float64Type>(values, &arrow(values, to, tries)?, is_lost, to, tries),
        DataType::Decimal128(..) => match texts.iter().flatten().any(has_exponent) {
            true => arrow(&(Arc::new(spelled_out(texts)) as ArrayRef), to, tries),
            false => arrow(values, to, tries),
        },
        DataType::Timestamp(TimeUnit::Second, zone)
            if texts.iter().flatten().any(|text| text.contains(":60")) =>
        {
            let finer = arrow(values, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()), tries)?;
            let seconds = finer.as_primitive::<TimestampMillisecondType>();
            let seconds = seconds.unary::<_, TimestampSecondType>(|ms: i64| ms.div_euclid(1_000));
            Ok(Arc::new(seconds.with_timezone_opt(zone.clone())))
        }
        _ => arrow(values, to, tries),
    }
}

/// The cast of Arrow, which names the wrong Decimal.
fn arrow(values: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef, DataFusionError> {
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    match ColumnarValue::Array(Arc::clone(values)).cast_to(to, Some(&options)) {
        Ok(ColumnarValue::Array(cast)) => Ok(cast),
        Ok(ColumnarValue::Scalar(value)) => value.to_array_of_size(values.len()),
        Err(error) => match reworded(&error).split_once(" to value of Decimal(38, 10)") {
            Some((what, _)) => exec_err!("{what} to `{}`", name(to)),
            None => Err(error),
        },
    }
}

/// The Floats, of which none may be infinite or 0 unless its number is.
fn floats<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    cast: &ArrayRef,
    is_lost: impl Fn(usize, f64) -> bool,
    to: &DataType,
    tries: bool,
) -> Result<ArrayRef, DataFusionError>
where
    T::Native: Into<f64>,
{
    let floats = cast.as_primitive::<T>();
    let rows = (0..floats.len()).filter(|row| floats.is_valid(*row));
    let lost: Vec<usize> = rows.filter(|row| is_lost(*row, floats.value(*row).into())).collect();
    let Some(first) = lost.first() else { return Ok(Arc::clone(cast)) };
    if !tries {
        let value = match values.as_primitive_opt::<Float64Type>() {
            // Not with its three hundred zeros.
            Some(numbers) => format!("{:?}", numbers.value(*first)),
            None => ScalarValue::try_from_array(values, *first)?.to_string(),
        };
        return exec_err!("`{value}` does not fit `{}`", name(to));
    }
    let kept =
        floats.iter().enumerate().map(|(row, value)| value.filter(|_| lost.binary_search(&row).is_err()));
    Ok(Arc::new(kept.collect::<PrimitiveArray<T>>()))
}

fn is_lost(number: f64, found: f64) -> bool {
    number.is_finite() && (found.is_infinite() || found == 0.0 && number != 0.0)
}

fn is_lost_of_text(text: &str, found: f64) -> bool {
    let digits = text.split(['e', 'E']).next().unwrap_or(text);
    // Infinity is spelled with letters.
    let is_finite = !text.contains(['i', 'I']);
    is_finite && (found.is_infinite() || found == 0.0 && digits.contains(|c: char| matches!(c, '1'..='9')))
}

fn has_exponent(text: &str) -> bool {
    text.contains(['e', 'E'])
}

/// The texts with zeros in place of exponents; as they are where that is no number.
fn spelled_out(texts: &StringArray) -> StringArray {
    let mut out = StringBuilder::new();
    for text in texts {
        match text {
            Some(text) => match has_exponent(text).then(|| spelled(text)).flatten() {
                Some(plain) => out.append_value(plain),
                None => out.append_value(text),
            },
            None => out.append_null(),
        }
    }
    out.finish()
}

/// `1.5e3` as `1500`; `None` if it is no number, or one of more digits than a Decimal has.
fn spelled(text: &str) -> Option<String> {
    let text = text.trim();
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Where the point goes in the digits.
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let length = i64::try_from(digits.len()).ok()?;
    // Behind all digits that a Decimal has stands nothing, and zeros are 0 with every exponent.
    if point < -DIGITS_MAX || digits.bytes().all(|byte| byte == b'0') {
        return Some("0".to_owned());
    }
    if point > DIGITS_MAX {
        return None;
    }
    Some(match point {
        point if point <= 0 => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        point if point >= length => format!("{sign}{digits}{}", "0".repeat((point - length) as usize)),
        point => {
            let (whole, part) = digits.split_at(point as usize);
            format!("{sign}{whole}.{part}")
        }
    })
}
